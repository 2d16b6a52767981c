/* Environments of every kind, built as small trees below a temporary root. Nothing is run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "py/dist.h"
#include "py/module.h"
#include "py/owner.h"

#define SITE   "/opt/v/lib/python3.11/site-packages"
#define STDLIB "/usr/lib/python3.11"
#define TAG    ".cpython-311-x86_64-linux-gnu.so"

struct tree {
    char dir[64];
    struct root root;
    struct arena arena;
};

static char *outside(struct tree *t, const char *path)
{
    return arena_printf(&t->arena, "%s%s", t->dir, path);
}

static void make_parents(struct tree *t, const char *path)
{
    char *p = outside(t, path);
    for (char *s = p + strlen(t->dir) + 1; (s = strchr(s, '/')); s++) {
        *s = '\0';
        (void)mkdir(p, 0755); // most exist
        *s = '/';
    }
}

static void put_bytes(struct tree *t, const char *path, const void *data, size_t n)
{
    make_parents(t, path);
    FILE *f = fopen(outside(t, path), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(outside(t, path), 0755), 0);
}

static void put(struct tree *t, const char *path, const char *text)
{
    put_bytes(t, path, text, strlen(text));
}

static void put_dir(struct tree *t, const char *path)
{
    make_parents(t, path_join(&t->arena, path, "x"));
}

static void put_link(struct tree *t, const char *target, const char *path)
{
    make_parents(t, path);
    assert_int_equal(symlink(target, outside(t, path)), 0);
}

/* The first bytes of an x86-64 executable: as much as is looked at. */
static void put_elf(struct tree *t, const char *path)
{
    static const char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = 3, [18] = 62};
    put_bytes(t, path, elf, sizeof elf);
}

static int setup(void **state)
{
    struct tree *t = calloc(1, sizeof *t);
    struct gm_err err;
    assert_non_null(t);
    (void)snprintf(t->dir, sizeof t->dir, "/tmp/test_py_env.XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    arena_init(&t->arena, ARENA_LIMIT_DEFAULT, NULL, NULL);
    assert_int_equal(root_open(&t->root, t->dir, &err), 0);
    *state = t;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct tree *t = *state;
    (void)nftw(t->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    root_close(&t->root);
    arena_release(&t->arena);
    free(t);
    return 0;
}

/* A Debian system: the interpreter, its library, and the site.py that knows dist-packages. */
static void put_debian(struct tree *t)
{
    put_elf(t, "/usr/bin/python3.11");
    put_link(t, "python3.11", "/usr/bin/python3");
    put(t, STDLIB "/os.py", "");
    put(t, STDLIB "/site.py", "# ... \"python3\", \"dist-packages\" ...\n");
    put(t, STDLIB "/lib-dynload/_bz2" TAG, "");
    put(t, "/usr/include/python3.11/patchlevel.h",
        "#define PY_MICRO_VERSION 2\n#define PY_VERSION      \t\"3.11.2\"\n");
    put_dir(t, "/usr/lib/python3/dist-packages");
    put_dir(t, "/usr/local/lib/python3.11/dist-packages");
}

static void put_venv(struct tree *t, const char *extra)
{
    put(t, "/opt/v/pyvenv.cfg",
        arena_printf(&t->arena, "Home = /usr/bin\nversion = 3.11.2\n%s", extra));
    put_link(t, "/usr/bin/python3", "/opt/v/bin/python3");
    put_dir(t, SITE);
}

static struct py_env open_env(struct tree *t, const char *target, struct py_env_hints hints)
{
    struct py_env env;
    struct gm_err err = {0};
    if (py_env_open(&t->root, &t->arena, target, &hints, &env, &err) < 0) {
        fail_msg("%s: %s", target ? target : "active environment", err.text);
    }
    return env;
}

static int open_fails(struct tree *t, const char *target, struct py_env_hints hints,
                      const char *says)
{
    struct py_env env;
    struct gm_err err = {0};
    int rc = py_env_open(&t->root, &t->arena, target, &hints, &env, &err);
    if (rc < 0 && !strstr(err.text, says)) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    }
    return rc;
}

/* sys.path in one line, for a table of what is expected. */
static char *path_line(struct tree *t, const struct py_env *env)
{
    char *line = arena_strdup(&t->arena, "");
    for (size_t i = 0; i < env->n_paths; i++) {
        line = arena_printf(&t->arena, "%s%s%s", line, i ? ":" : "", env->paths[i].dir);
    }
    return line;
}

static bool has_note(const struct py_env *env, const char *text)
{
    for (size_t i = 0; i < env->n_notes; i++) {
        if (strstr(env->notes[i], text)) {
            return true;
        }
    }
    return false;
}

#define STD "/usr/lib/python311.zip:" STDLIB ":" STDLIB "/lib-dynload"
#define DEB "/usr/local/lib/python3.11/dist-packages:/usr/lib/python3/dist-packages"

static void test_venv(void **state)
{
    struct tree *t = *state;
    put_debian(t);
    put_venv(t, "include-system-site-packages = false\n");
    struct py_env env = open_env(t, "/opt/v", (struct py_env_hints){.home = "/root"});
    assert_int_equal(env.kind, PY_ENV_VENV);
    assert_string_equal(env.prefix, "/opt/v");
    assert_string_equal(env.base_prefix, "/usr");
    assert_string_equal(env.executable, "/opt/v/bin/python3");
    assert_string_equal(env.executable_real, "/usr/bin/python3.11");
    assert_string_equal(env.machine, "x86_64");
    assert_int_equal(env.major * 10000 + env.minor * 100 + env.micro, 31102);
    assert_string_equal(env.version_from, "/usr/include/python3.11/patchlevel.h");
    assert_int_equal(env.n_suffixes, 3);
    assert_string_equal(env.suffixes[0], TAG);
    assert_string_equal(env.suffixes[1], ".abi3.so");
    assert_string_equal(env.suffixes[2], ".so");
    assert_string_equal(path_line(t, &env), STD ":" SITE);
    assert_int_equal(env.user_site_enabled, PY_NO);
    assert_int_equal(env.n_notes, 0);
    // the same by its interpreter, and by a script of it
    put(t, "/opt/v/bin/whisper", "#!/opt/v/bin/python3\nimport whisper\n");
    static const char *const same[] = {"/opt/v/bin/python3", "/opt/v/bin/whisper", "bin/../"};
    for (size_t i = 0; i < 3; i++) {
        struct py_env other = open_env(t, same[i], (struct py_env_hints){.cwd = "/opt/v"});
        assert_string_equal(other.prefix, "/opt/v");
        assert_string_equal(other.executable, "/opt/v/bin/python3");
    }
}

/* pip installs for the user where site-packages is not his, except in a virtual environment. */
static void test_pip_folder(void **state)
{
    struct tree *t = *state;
    struct root host;
    struct gm_err err;
    assert_int_equal(root_open(&host, "/", &err), 0);
    struct py_env env = {.root = &host,
                         .arena = &t->arena,
                         .purelib = arena_printf(&t->arena, "%s/not/there", t->dir),
                         .user_site = "/home/u/.local/site",
                         .uid = getuid() + 4242};
    assert_string_equal(py_env_pip_folder(&env, NULL), env.user_site);
    env.config = "/opt/v/pyvenv.cfg";
    assert_string_equal(py_env_pip_folder(&env, NULL), env.purelib);
    env.config = NULL, env.uid = getuid();
    assert_string_equal(py_env_pip_folder(&env, NULL), env.purelib);
    root_close(&host);
}

static void test_venv_system_site(void **state)
{
    struct tree *t = *state;
    put_debian(t);
    put_venv(t, "include-system-site-packages = True\nvirtualenv = 20.1\n");
    put_dir(t, "/home/u/.local/lib/python3.11/site-packages");
    struct py_env_hints hints = {.home = "/home/u"};
    struct py_env env = open_env(t, "/opt/v", hints);
    assert_int_equal(env.kind, PY_ENV_VIRTUALENV);
    assert_string_equal(path_line(t, &env),
                        STD ":" SITE ":/home/u/.local/lib/python3.11/site-packages:" DEB);
    hints.pythonnousersite = "1";
    env = open_env(t, "/opt/v", hints);
    assert_string_equal(path_line(t, &env), STD ":" SITE ":" DEB);
    hints.pythonnousersite = NULL, hints.home = NULL;
    env = open_env(t, "/opt/v", hints);
    assert_int_equal(env.user_site_enabled, PY_UNKNOWN); // and said so
    assert_true(has_note(&env, "home folder is not known"));
}

/* uv links bin/python to an installation of its own, whose modules are built in. */
static void test_uv(void **state)
{
    struct tree *t = *state;
    put_elf(t, "/data/uv/cpython-3.13.1/bin/python3.13");
    put_link(t, "cpython-3.13.1", "/data/uv/cpython-3.13");
    put(t, "/data/uv/cpython-3.13.1/lib/python3.13/os.py", "");
    put(t, "/w/.venv/pyvenv.cfg",
        "home = /data/uv/cpython-3.13/bin\nimplementation = CPython\nuv = 0.5\n"
        "version_info = 3.13.1\ninclude-system-site-packages = false\n");
    put_link(t, "/data/uv/cpython-3.13/bin/python3.13", "/w/.venv/bin/python");
    put_link(t, "python", "/w/.venv/bin/python3");
    put_dir(t, "/w/.venv/lib/python3.13/site-packages");
    struct py_env env = open_env(t, NULL, (struct py_env_hints){.virtual_env = "/w/.venv"});
    assert_true(env.made_by_uv);
    assert_string_equal(env.manager, "uv");
    assert_string_equal(env.chosen_by, "VIRTUAL_ENV");
    assert_string_equal(env.base_prefix, "/data/uv/cpython-3.13");
    assert_string_equal(env.executable_real, "/data/uv/cpython-3.13.1/bin/python3.13");
    assert_int_equal(env.micro, 1);
    assert_string_equal(env.suffixes[0], ".cpython-313-x86_64-linux-gnu.so");
    assert_string_equal(path_line(t, &env), "/data/uv/cpython-3.13/lib/python313.zip:"
                                            "/data/uv/cpython-3.13/lib/python3.13:"
                                            "/data/uv/cpython-3.13/lib/python3.13/lib-dynload:"
                                            "/w/.venv/lib/python3.13/site-packages");
}

static void test_free_threaded(void **state)
{
    struct tree *t = *state;
    put_elf(t, "/opt/py/bin/python3.13t");
    put_link(t, "python3.13t", "/opt/py/bin/python3");
    put(t, "/opt/py/lib/python3.13t/os.py", "");
    put_dir(t, "/opt/py/lib/python3.13t/site-packages");
    struct py_env env = open_env(t, "/opt/py", (struct py_env_hints){.home = "/root"});
    assert_int_equal(env.kind, PY_ENV_STANDALONE);
    assert_true(env.free_threaded);
    assert_int_equal(env.n_suffixes, 2); // no limited API
    assert_string_equal(env.suffixes[0], ".cpython-313t-x86_64-linux-gnu.so");
    assert_string_equal(env.paths[3].dir, "/opt/py/lib/python3.13t/site-packages");
}

static void test_conda(void **state)
{
    struct tree *t = *state;
    put_elf(t, "/c/envs/e/bin/python3.10");
    put_link(t, "python3.10", "/c/envs/e/bin/python3");
    put(t, "/c/envs/e/lib/python3.10/os.py", "");
    put(t, "/c/envs/e/lib/python3.10/site-packages/numpy-1.26.4.dist-info/METADATA", "Name: n\n");
    put(t, "/c/envs/e/conda-meta/history", "");
    put(t, "/c/envs/e/conda-meta/python-3.10.13-h12_0_cpython.json", "{}");
    put(t, "/c/envs/e/conda-meta/numpy-1.26.4-py310_0.json", "{}");
    put(t, "/c/envs/e/conda-meta/cudnn-9.1.1.17-cuda12_0.json",
        "{\"files\": [\"lib/libcudnn.so.9\", \"a\\nb\", 7]}");
    struct py_env env = open_env(t, NULL, (struct py_env_hints){.conda_prefix = "/c/envs/e"});
    assert_int_equal(env.kind, PY_ENV_CONDA);
    assert_string_equal(env.manager, "conda");
    assert_string_equal(env.chosen_by, "CONDA_PREFIX");
    assert_int_equal(env.micro, 13);
    struct py_dist *numpy = py_env_by_dist(&env, "numpy"), *cudnn = py_env_by_dist(&env, "cuDNN");
    assert_int_equal(numpy->kind, PY_DIST_INFO);
    assert_int_equal(cudnn->kind, PY_DIST_CONDA);
    assert_string_equal(cudnn->version, "9.1.1.17");
    assert_string_equal(py_dist_install(&env, cudnn)->installer, "conda");
    assert_ptr_equal(py_owner(&env, "/c/envs/e/lib/libcudnn.so.9").dist, cudnn);
    assert_null(py_owner(&env, "/c/envs/e/lib/libother.so").dist);
}

static void put_venv_at(struct tree *t, const char *folder, const char *config)
{
    put(t, str_concat(&t->arena, folder, "/pyvenv.cfg", ""), config);
    put_elf(t, str_concat(&t->arena, folder, "/bin/python3", ""));
}

/* The files that the tools left with the versions that docs/python.md names. */
static void test_managers(void **state)
{
    struct tree *t = *state;
    static const char venv[] = "home = /usr/bin\nversion = 3.12.1\n";
    // poetry 2.5.1 with virtualenv 21.15, poetry 1.4.2 with virtualenv 20.21.
    static const char quoted[] = "home = /usr/bin\nversion = 3.12.1\nvirtualenv = 21.15.11\n"
                                 "prompt = \"demo-py3.12\"\n";
    static const char bare[] = "home = /usr/bin\nversion_info = 3.12.1.final.0\n"
                               "virtualenv = 20.21.1\nprompt = demo-py3.12\n";
    static const char foreign[] = "home = /usr/bin\nversion = 3.12.1\nvirtualenv = 21.15.11\n"
                                  "prompt = \"demo-py3.11\"\n";
    static const char by_venv[] = "home = /usr/bin\nversion = 3.12.1\n"
                                  "prompt = 'demo-py3.12'\n";
    static const char by_uv[] = "home = /usr/bin\nuv = 0.13.9\nversion_info = 3.12.1\n";
    static const struct {
        const char *folder, *config, *file, *text, *manager;
    } rows[] = {
        {"/plain/.venv", venv, NULL, NULL, NULL},
        {"/uv/.venv", by_uv, "/uv/uv.lock", "", "uv"},
        {"/po/.venv", venv, "/po/poetry.lock", "", "poetry"},
        {"/h/.cache/pypoetry/virtualenvs/x-mtU2wzsS-py3.12", venv, NULL, NULL, "poetry"},
        {"/pd/.venv", by_uv, "/pd/.pdm-python", "/pd/.venv/bin/python", "pdm"},
        {"/pd2/.venv", venv, "/pd2/.pdm-python", "/elsewhere/bin/python", NULL},
        {"/h/.local/share/pdm/venvs/x-ldP5Kn8E-3.12", venv, NULL, NULL, "pdm"},
        {"/h/.local/share/virtualenvs/x-UVhL3WKa", venv,
         "/h/.local/share/virtualenvs/x-UVhL3WKa/.project", "/x", "pipenv"},
        {"/h/.local/share/virtualenvs/mine", venv, NULL, NULL, NULL},
        {"/pip/.venv", venv, "/pip/Pipfile.lock", "{}", "pipenv"},
        {"/po2/.venv", quoted, "/po2/pyproject.toml", "[tool.poetry]\n", "poetry"},
        {"/c/virtualenvs/x-mtU2wzsS-py3.12", bare, NULL, NULL, "poetry"}, // its own "cache-dir"
        {"/other/version", foreign, NULL, NULL, NULL}, // a prompt that names another Python
        {"/no/virtualenv", by_venv, NULL, NULL, NULL}, // poetry uses virtualenv
        {"/pyproject/.venv", venv, "/pyproject/pyproject.toml", "[tool.poetry]\n", NULL},
        {"/po/other", venv, NULL, NULL, NULL}, // not the name under which poetry makes it
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_venv_at(t, rows[i].folder, rows[i].config);
        if (rows[i].file) {
            put(t, rows[i].file, rows[i].text);
        }
        struct py_env env = open_env(t, rows[i].folder, (struct py_env_hints){0});
        if (rows[i].manager) {
            assert_non_null(env.manager);
            assert_string_equal(env.manager, rows[i].manager);
        } else {
            assert_null(env.manager);
        }
    }
    static const char *const projects[][2] = {
        {"/uv/.venv", "/uv"},
        {"/po/.venv", "/po"},
        {"/pip/.venv", "/pip"},
        {"/pd/.venv", NULL}, // without its lock
        {"/h/.local/share/virtualenvs/x-UVhL3WKa", "/x"},
        {"/h/.cache/pypoetry/virtualenvs/x-mtU2wzsS-py3.12", NULL}, // nothing there names it
    };
    put(t, "/x/Pipfile.lock", "{}");
    for (size_t i = 0; i < sizeof projects / sizeof *projects; i++) {
        struct py_env env = open_env(t, projects[i][0], (struct py_env_hints){0});
        assert_int_equal(env.project != NULL, projects[i][1] != NULL);
        if (env.project) {
            assert_string_equal(env.project, projects[i][1]);
        }
    }
}

/* In a project's folder: pdm's by the file that names it, pixi's by its place; poetry's is
 * elsewhere, which is said. */
static void test_project(void **state)
{
    struct tree *t = *state;
    put_debian(t);
    put_venv_at(t, "/h/venvs/p", "home = /usr/bin\nversion = 3.12.1\n");
    put(t, "/pd/.pdm-python", "/h/venvs/p/bin/python\n");
    put_elf(t, "/px/.pixi/envs/default/bin/python3.12");
    put_link(t, "python3.12", "/px/.pixi/envs/default/bin/python3");
    put(t, "/px/.pixi/envs/default/lib/python3.12/os.py", "");
    put(t, "/px/.pixi/envs/default/conda-meta/pixi", "{}");
    put(t, "/po/poetry.lock", "");
    struct py_env_hints hints = {.path = "/usr/bin", .cwd = "/pd"};
    struct py_env env = open_env(t, NULL, hints);
    assert_string_equal(env.prefix, "/h/venvs/p");
    assert_string_equal(env.chosen_by, "./.pdm-python");
    hints.cwd = "/px";
    env = open_env(t, NULL, hints);
    assert_string_equal(env.prefix, "/px/.pixi/envs/default");
    assert_string_equal(env.manager, "pixi");
    hints.cwd = "/po";
    env = open_env(t, NULL, hints);
    assert_string_equal(env.chosen_by, "PATH");
    assert_true(has_note(&env, "poetry env info --path"));
}

static void test_system(void **state)
{
    struct tree *t = *state;
    put_debian(t);
    put_elf(t, "/usr/lib64/unrelated");
    struct py_env env =
        open_env(t, NULL, (struct py_env_hints){.path = "/nowhere:/usr/bin", .home = "/root"});
    assert_int_equal(env.kind, PY_ENV_SYSTEM);
    assert_string_equal(env.chosen_by, "PATH");
    assert_string_equal(env.executable, "/usr/bin/python3");
    assert_string_equal(path_line(t, &env), STD ":" DEB);
    env = open_env(
        t, "python3.11",
        (struct py_env_hints){
            .path = "/usr/bin", .cwd = "/opt", .home = "/root", .pythonpath = "src::/abs/../a"});
    assert_string_equal(path_line(t, &env), "/opt/src:/opt:/a:" STD ":" DEB);
    assert_false(env.paths[0].is_dir);
    // VIRTUAL_ENV that is gone: said, and PATH decides
    env = open_env(t, NULL, (struct py_env_hints){.path = "/usr/bin", .virtual_env = "/gone"});
    assert_string_equal(env.prefix, "/usr");
    assert_true(has_note(&env, "VIRTUAL_ENV is passed over: /gone"));
}

static void test_fedora(void **state)
{
    struct tree *t = *state;
    put_elf(t, "/usr/bin/python3.12");
    put(t, "/usr/lib64/python3.12/os.py", "");
    put(t, "/usr/lib64/python3.12/site.py", "def getsitepackages(): pass\n");
    put_dir(t, "/usr/lib64/python3.12/site-packages");
    put_dir(t, "/usr/lib/python3.12/site-packages");
    put_dir(t, "/usr/local/lib/python3.12/site-packages");
    struct py_env env = open_env(t, "/usr/bin/python3.12", (struct py_env_hints){.home = "/root"});
    assert_string_equal(path_line(t, &env),
                        "/usr/lib64/python312.zip:/usr/lib64/python3.12:"
                        "/usr/lib64/python3.12/lib-dynload:"
                        "/usr/local/lib/python3.12/site-packages:"
                        "/usr/lib64/python3.12/site-packages:/usr/lib/python3.12/site-packages");
    assert_int_equal(env.micro, -1); // nothing tells
}

static void test_pyenv_shim(void **state)
{
    struct tree *t = *state;
    static const char *const versions[] = {"3.11.1", "3.11.7", "3.11.12", "3.12.1"};
    put_debian(t);
    put(t, "/p/shims/python3", "#!/usr/bin/env bash\nexec \"/p/libexec/pyenv\" exec \"$0\"\n");
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        const char *minor = starts_with(versions[i], "3.11") ? "python3.11" : "python3.12";
        const char *prefix = arena_printf(&t->arena, "/p/versions/%s", versions[i]);
        put_elf(t, arena_printf(&t->arena, "%s/bin/%s", prefix, minor));
        put_link(t, minor, arena_printf(&t->arena, "%s/bin/python3", prefix));
        put(t, arena_printf(&t->arena, "%s/lib/%s/os.py", prefix, minor), "");
    }
    struct py_env_hints hints = {.path = "/p/shims:/usr/bin", .home = "/root", .cwd = "/w/x"};
    struct py_env env = open_env(t, NULL, hints);
    assert_string_equal(env.prefix, "/usr"); // nothing is selected: the system's
    put(t, "/p/version", "missing\n3.12.1\n");
    env = open_env(t, NULL, hints);
    assert_int_equal(env.kind, PY_ENV_PYENV);
    assert_string_equal(env.prefix, "/p/versions/3.12.1");
    assert_int_equal(env.micro, 1);
    assert_true(has_note(&env, "is a pyenv shim; /p/version selects /p/versions/3.12.1/bin/"));
    put(t, "/w/.python-version", "3.11\n"); // the newest 3.11: by bytes it is in the middle
    env = open_env(t, NULL, hints);
    assert_string_equal(env.prefix, "/p/versions/3.11.12");
    hints.pyenv_version = "3.11.7";
    env = open_env(t, NULL, hints);
    assert_string_equal(env.prefix, "/p/versions/3.11.7");
    hints.pyenv_version = "system";
    env = open_env(t, NULL, hints);
    assert_string_equal(env.executable, "/usr/bin/python3");
    hints.pyenv_version = "../../usr:2.7";
    assert_int_equal(open_fails(t, NULL, hints, "pyenv shim"), GM_ERR_LOOK);
}

static void test_refused(void **state)
{
    struct tree *t = *state;
    struct py_env_hints none = {.cwd = "/"};
    put_elf(t, "/bin/ls");
    put_elf(t, "/bin/pypy3.9");
    put_elf(t, "/bin/python2.7");
    put(t, "/bin/start", "#!/bin/sh\nexec python3\n");
    put(t, "/bin/text", "hello\n");
    put(t, "/bin/empty", "");
    put_dir(t, "/empty");
    put(t, "/project/.venv/pyvenv.cfg", "home = /usr/bin\n");
    put(t, "/frozen/_internal/base_library.zip", "");
    assert_int_equal(mkfifo(outside(t, "/bin/fifo"), 0644), 0);
    put_link(t, "loop", "/loop");
    static const struct {
        const char *target, *says;
        int rc;
    } cases[] = {
        {"/bin/ls", "not a Python interpreter", GM_ERR_UNSUPPORTED},
        {"/bin/pypy3.9", "PyPy", GM_ERR_UNSUPPORTED},
        {"/bin/python2.7", "Python 2", GM_ERR_UNSUPPORTED},
        {"/bin/start", "known only by running it", GM_ERR_UNSUPPORTED},
        {"/bin/text", "neither an ELF file nor a script", GM_ERR_FORMAT},
        {"/bin/empty", "neither an ELF file nor a script", GM_ERR_FORMAT},
        {"/bin/fifo", "not a regular file", GM_ERR_LOOK},
        {"/empty", "bin/python3 is there", GM_ERR_LOOK},
        {"/project", "is there; /project/.venv is one", GM_ERR_LOOK},
        {"/frozen", "is there; PyInstaller made the program in it", GM_ERR_LOOK},
        {"/absent", "No such file", GM_ERR_LOOK},
        {"/loop", "Too many levels", GM_ERR_LOOK},
        {NULL, "PATH is empty", GM_ERR_LOOK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(open_fails(t, cases[i].target, none, cases[i].says), cases[i].rc);
    }
}

/* The interpreter a venv was made from is gone, or is another one now. */
static void test_broken_venv(void **state)
{
    struct tree *t = *state;
    put(t, "/opt/v/pyvenv.cfg", "home = /old/bin\nversion = 3.10.4\n");
    put_link(t, "/old/bin/python3", "/opt/v/bin/python3");
    put(t, "/opt/v/lib/python3.10/site-packages/torch-2.5.1.dist-info/METADATA", "");
    struct py_env env = open_env(t, "/opt/v", (struct py_env_hints){0});
    assert_null(env.executable);
    assert_null(env.base_prefix);
    assert_int_equal(env.minor, 10);
    assert_non_null(py_env_by_dist(&env, "torch"));
    assert_true(has_note(&env, "link to /old/bin/python3, which leads to no file"));
    assert_true(has_note(&env, "pyvenv.cfg says /old/bin"));
    put_elf(t, "/old/bin/python3.12");
    put_link(t, "python3.12", "/old/bin/python3");
    put(t, "/old/lib/python3.12/os.py", "");
    env = open_env(t, "/opt/v", (struct py_env_hints){0});
    assert_int_equal(env.minor, 12);
    assert_null(py_env_by_dist(&env, "torch"));
    assert_true(has_note(&env, "was written for Python 3.10.4, but the interpreter is now 3.12"));
    assert_true(has_note(&env, "/opt/v/lib/python3.10 is not used"));
}

static void test_pth(void **state)
{
    struct tree *t = *state;
    put_debian(t);
    put_venv(t, "");
    put_dir(t, "/src/app");
    put_dir(t, SITE "/sub");
    put(t, SITE "/__editable__.app-1.0.pth", "/src/app\n");
    put(t, SITE "/a.pth", "# comment\n\nsub\xc2\xa0 \r\n/absent\rsub/../sub\n\xff\xfe\n");
    put(t, SITE "/code.pth", "import os; os.abort()\n");
    put(t, SITE "/.hidden.pth", "/src\n");
    assert_int_equal(mkfifo(outside(t, SITE "/fifo.pth"), 0644), 0);
    struct py_env env = open_env(t, "/opt/v", (struct py_env_hints){0});
    assert_string_equal(path_line(t, &env), STD ":" SITE ":/src/app:" SITE "/sub");
    assert_int_equal(env.paths[4].origin, PY_PATH_PTH);
    assert_string_equal(env.paths[4].from, SITE "/__editable__.app-1.0.pth");
    assert_true(has_note(&env, "code.pth runs code"));
    assert_true(has_note(&env, "a.pth names /absent, which does not exist"));
    assert_true(has_note(&env, "a.pth is not UTF-8"));
    assert_true(env.cut);
    assert_true(has_note(&env, "\\xff\\xfe")); // foreign bytes are shown, not passed on
    assert_true(has_note(&env, "fifo.pth: not a regular file"));
}

/* Whether the one note about files that run code names this one. */
static bool names_as_code(const struct py_env *env, const char *file)
{
    size_t n = 0;
    bool named = false;
    for (size_t i = 0; i < env->n_notes; i++) {
        if (strstr(env->notes[i], " code when Python starts")) {
            const char *at = strstr(env->notes[i], file);
            named = at && (at[-1] == '/' || at[-1] == ' ');
            n++;
        }
    }
    return named && n == 1;
}

/* PEP 829: since 3.15 a .start file is read in place of the import lines of its .pth file. */
static void test_start(void **state)
{
    static const struct {
        int minor;
        const char *notes; // the files that run code, and those whose import lines are ignored
    } cases[] = {{14, "alone both empty bad -"},
                 {15, "alone bad both.start -"},
                 {18, "both.start - alone bad"}};
    struct tree *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *site = arena_printf(&t->arena, "/v%d/lib/python3.%d/site-packages",
                                        cases[i].minor, cases[i].minor);
        const char *exe = arena_printf(&t->arena, "/usr/bin/python3.%d", cases[i].minor);
        put_elf(t, exe);
        put(t, arena_printf(&t->arena, "/usr/lib/python3.%d/os.py", cases[i].minor), "");
        put(t, arena_printf(&t->arena, "/v%d/pyvenv.cfg", cases[i].minor), "home = /usr/bin\n");
        put_link(t, exe, arena_printf(&t->arena, "/v%d/bin/python3", cases[i].minor));
        static const char *const names[] = {"alone", "both", "empty", "bad"};
        for (size_t k = 0; k < 4; k++) {
            put(t, arena_printf(&t->arena, "%s/%s.pth", site, names[k]),
                "  import os\nimport os\n");
        }
        put(t, arena_printf(&t->arena, "%s/both.start", site), "# none\n mod:go\n");
        put(t, arena_printf(&t->arena, "%s/empty.start", site), "");
        put(t, arena_printf(&t->arena, "%s/bad.start", site), "\xff\n");
        struct py_env env =
            open_env(t, arena_printf(&t->arena, "/v%d", cases[i].minor), (struct py_env_hints){0});
        assert_int_equal(env.minor, cases[i].minor);
        bool ignored = false;
        struct str rest = str_of(cases[i].notes);
        while (rest.s) {
            char *name = str_dup(&t->arena, str_cut(&rest, ' '));
            if (strcmp(name, "-") == 0) {
                ignored = true;
                continue;
            }
            const char *file = strchr(name, '.') ? name : arena_printf(&t->arena, "%s.pth", name);
            assert_true(ignored ? has_note(&env, arena_printf(&t->arena,
                                                              "/%s has import lines, which "
                                                              "Python 3.18 ignores",
                                                              file))
                                : names_as_code(&env, file));
        }
        assert_int_equal(names_as_code(&env, "empty.pth"), cases[i].minor < 15);
        assert_int_equal(names_as_code(&env, "both.start"), cases[i].minor >= 15);
    }
}

/* What site.py of a release does with a byte order mark, with line ends that are none for a file,
 * with files whose names begin with a dot (which site.py itself tells), and with entry points that
 * are none. */
static void test_startup_lines(void **state)
{
    static const struct {
        int minor;
        const char *site_py, *found; // folders below the site folder, and then what runs code
    } cases[] = {
        {11, "def addsitedir(): ", " hidden end"},
        {12, "def addsitedir(): not name.startswith(\".\")", " end"},
        {13, "def addsitedir(): not name.startswith(\".\")", " marked first end"},
        {15, "def addsitedir(): not name.startswith(\".\")", " marked first end good.start"},
    };
    static const char *const folders[] = {"hidden", "marked", "first", "end"};
    struct tree *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int minor = cases[i].minor;
        const char *env_dir = arena_printf(&t->arena, "/l%d", minor);
        const char *site =
            arena_printf(&t->arena, "%s/lib/python3.%d/site-packages", env_dir, minor);
        const char *exe = arena_printf(&t->arena, "/usr/bin/python3.%d", minor);
        put_elf(t, exe);
        put(t, arena_printf(&t->arena, "/usr/lib/python3.%d/os.py", minor), "");
        put(t, arena_printf(&t->arena, "/usr/lib/python3.%d/site.py", minor), cases[i].site_py);
        put(t, arena_printf(&t->arena, "%s/pyvenv.cfg", env_dir), "home = /usr/bin\n");
        put_link(t, exe, arena_printf(&t->arena, "%s/bin/python3", env_dir));
        for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
            put_dir(t, arena_printf(&t->arena, "%s/%s", site, folders[k]));
        }
        put(t, arena_printf(&t->arena, "%s/.a.pth", site), "hidden\n");
        put(t, arena_printf(&t->arena, "%s/b.pth", site), "\xef\xbb\xbfmarked\n");
        put(t, arena_printf(&t->arena, "%s/c.pth", site), "first\xe2\x80\xa8none\rend\xe3\x80\x80");
        put(t, arena_printf(&t->arena, "%s/bad.start", site), "mod\nmod:\n1m:go\nm:go x\nm.:go\n");
        put(t, arena_printf(&t->arena, "%s/good.start", site), "# none\v a.m:go.on \n");
        struct py_env env = open_env(t, env_dir, (struct py_env_hints){0});
        const char *found = "";
        for (size_t k = 0; k < env.n_paths; k++) {
            if (env.paths[k].origin == PY_PATH_PTH) {
                found = arena_printf(&t->arena, "%s %s", found, path_base(env.paths[k].dir));
            }
        }
        if (names_as_code(&env, "good.start")) {
            found = arena_printf(&t->arena, "%s good.start", found);
        }
        assert_string_equal(found, cases[i].found);
        assert_false(names_as_code(&env, "bad.start"));
    }
}

static void test_dists(void **state)
{
    struct tree *t = *state;
    put_debian(t);
    put_venv(t, "include-system-site-packages = true\n");
    put(t, SITE "/nvidia_cudnn_cu12-9.1.0.70.dist-info/METADATA",
        "Name: nvidia-cudnn-cu12\nVersion: 9.1.0.70\nRequires-Dist: nvidia-cublas-cu12\n\nlong");
    put(t, SITE "/nvidia_cudnn_cu12-9.1.0.70.dist-info/WHEEL",
        "Tag: py3-none-manylinux2014_x86_64\n");
    put(t, SITE "/nvidia_cudnn_cu12-9.1.0.70.dist-info/INSTALLER", "pip\n");
    put(t, SITE "/app-1.0.dist-info/direct_url.json",
        "{\"url\":\"file:///src/app\",\"dir_info\":{\"editable\":true}}");
    put(t, SITE "/old-name-1.0-py3.11.egg-info", "Name: old-name\n");
    put(t, SITE "/bare.egg-info/PKG-INFO", "Name: bare\nVersion: 7\n");
    put_dir(t, SITE "/~orch-2.0.dist-info");
    put_dir(t, SITE "/twice-1.0.dist-info");
    put_dir(t, SITE "/twice-2.0.dist-info");
    put_dir(t, "/usr/lib/python3/dist-packages/App-0.9.dist-info");
    put_dir(t, SITE "/\xff-1.0.dist-info");
    struct py_env env = open_env(t, "/opt/v", (struct py_env_hints){.home = "/root"});

    struct py_dist *cudnn = py_env_by_dist(&env, "NVIDIA.cudnn-cu12");
    assert_string_equal(cudnn->version, "9.1.0.70");
    assert_string_equal(cudnn->name, "nvidia_cudnn_cu12");
    const struct py_metadata *m = py_dist_metadata(&env, cudnn);
    assert_int_equal(m->n_requires_dist, 1);
    assert_ptr_equal(m, py_dist_metadata(&env, cudnn)); // read once
    const struct py_dist_install *install = py_dist_install(&env, cudnn);
    assert_string_equal(install->installer, "pip");
    assert_int_equal(install->wheel.n_tags, 1);
    assert_int_equal(install->editable, PY_NO);

    struct py_dist *app = py_env_by_dist(&env, "app");
    assert_string_equal(py_dist_install(&env, app)->editable_dir, "/src/app");
    assert_null(py_dist_metadata(&env, app));
    assert_true(has_note(&env, "app-1.0.dist-info: metadata: No such file"));
    size_t shadowed = 0;
    for (size_t i = 0; i < env.n_dists; i++) {
        if (strcmp(env.dists[i].name_normal, "app") == 0 && &env.dists[i] != app) {
            assert_string_equal(env.dists[i].version, "0.9");
            assert_ptr_equal(env.dists[i].shadowed_by, app);
            shadowed++;
        }
    }
    assert_int_equal(shadowed, 1);
    assert_string_equal(py_env_by_dist(&env, "old-name")->version, "1.0");
    assert_string_equal(py_env_by_dist(&env, "bare")->version, "7");
    assert_null(py_env_by_dist(&env, "orch"));
    assert_null(py_env_by_dist(&env, "absent"));
    assert_true(has_note(&env, "~orch-2.0.dist-info was left over by an interrupted pip"));
    assert_true(has_note(&env, "twice is recorded twice"));
    assert_null(py_env_by_dist(&env, "\xff"));
    assert_true(has_note(&env, "is not a distribution: its name is not valid"));
}

/* METADATA that is a FIFO, endless, one huge line, or not there at all: noted, never read on. */
static void test_hostile_dists(void **state)
{
    struct tree *t = *state;
    put_debian(t);
    put_venv(t, "");
    put_dir(t, SITE "/fifo-1.dist-info");
    assert_int_equal(mkfifo(outside(t, SITE "/fifo-1.dist-info/METADATA"), 0644), 0);
    assert_int_equal(mkfifo(outside(t, SITE "/fifo-1.dist-info/RECORD"), 0644), 0);
    put(t, SITE "/sparse-1.dist-info/METADATA", "Name: sparse\n");
    put(t, SITE "/sparse-1.dist-info/RECORD", "x,,\n");
    assert_int_equal(truncate(outside(t, SITE "/sparse-1.dist-info/METADATA"), 10LL << 30), 0);
    assert_int_equal(truncate(outside(t, SITE "/sparse-1.dist-info/RECORD"), 10LL << 30), 0);
    char *line = malloc(300000);
    assert_non_null(line);
    memset(line, 'x', 300000);
    memcpy(line, "Name: long\nSummary: ", 20);
    memcpy(line + 300000 - 14, "\nVersion: 3\n\n\n", 14);
    put_bytes(t, SITE "/long.dist-info/METADATA", line, 300000);
    free(line);
    struct py_env env = open_env(t, "/opt/v", (struct py_env_hints){0});
    size_t before = t->arena.used_bytes;
    assert_null(py_dist_metadata(&env, py_env_by_dist(&env, "fifo")));
    assert_true(has_note(&env, "fifo-1.dist-info: metadata: not a regular file"));
    assert_null(py_dist_metadata(&env, py_env_by_dist(&env, "sparse")));
    assert_true(has_note(&env, "sparse-1.dist-info: metadata: File too large"));
    assert_string_equal(py_env_by_dist(&env, "long")->version, "3");
    assert_null(py_owner(&env, SITE "/x").dist);
    assert_true(has_note(&env, "fifo-1.dist-info: list of files: not a regular file"));
    assert_true(has_note(&env, "sparse-1.dist-info: list of files: File too large"));
    assert_true(t->arena.used_bytes - before < (4u << 20));
}

static void test_modules(void **state)
{
    struct tree *t = *state;
    put_debian(t);
    put_venv(t, "");
    put(t, STDLIB "/json/__init__.py", "");
    put(t, SITE "/torch/__init__.py", "");
    put(t, SITE "/torch/_C" TAG, "");
    put(t, SITE "/torch/_C/stub.pyi", ""); // the extension wins over the bare folder
    put(t, SITE "/both/__init__.py", "");
    put(t, SITE "/both.py", "");
    put(t, SITE "/ext.so", "");
    put(t, SITE "/ext.abi3.so", "");
    put(t, SITE "/ext.py", "");
    put(t, SITE "/old/__init__.py", "");
    put(t, SITE "/old/_ext.cpython-310-x86_64-linux-gnu.so", "");
    put(t, SITE "/other.cpython-311-aarch64-linux-gnu.so", "");
    put(t, SITE "/hidden/x.pyi", "");
    put(t, SITE "/hidden.cpython-310-x86_64-linux-gnu.so", "");
    put(t, SITE "/nvidia/cudnn/lib/libcudnn.so.9", "");
    put_dir(t, SITE "/dir.py");
    struct py_env env = open_env(t, "/opt/v", (struct py_env_hints){0});
    static const struct {
        const char *name;
        enum py_module_kind kind;
        const char *file, *foreign, *parent;
    } cases[] = {
        {"json", PY_MODULE_PACKAGE, STDLIB "/json/__init__.py", NULL, NULL},
        {"torch._C", PY_MODULE_EXTENSION, SITE "/torch/_C" TAG, NULL, NULL},
        {"both", PY_MODULE_PACKAGE, SITE "/both/__init__.py", NULL, NULL},
        {"ext", PY_MODULE_EXTENSION, SITE "/ext.abi3.so", NULL, NULL},
        {"nvidia.cudnn", PY_MODULE_NAMESPACE, SITE "/nvidia/cudnn", NULL, NULL},
        {"old._ext", PY_MODULE_NONE, NULL, SITE "/old/_ext.cpython-310-x86_64-linux-gnu.so", "old"},
        {"other", PY_MODULE_NONE, NULL, SITE "/other.cpython-311-aarch64-linux-gnu.so", NULL},
        {"hidden", PY_MODULE_NAMESPACE, SITE "/hidden",
         SITE "/hidden.cpython-310-x86_64-linux-gnu.so", NULL},
        {"torch.absent.more", PY_MODULE_NONE, NULL, NULL, "torch"},
        {"ext.more", PY_MODULE_NONE, NULL, NULL, "ext"},
        {"dir", PY_MODULE_NONE, NULL, NULL, NULL},
        {"", PY_MODULE_NONE, NULL, NULL, NULL},
        {"torch..x", PY_MODULE_NONE, NULL, NULL, "torch"},
        {"../torch", PY_MODULE_NONE, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct py_module m;
        py_module_find(&env, cases[i].name, &m);
        const char *got[] = {m.file, m.foreign, m.found_parent};
        const char *want[] = {cases[i].file, cases[i].foreign, cases[i].parent};
        bool same = m.kind == cases[i].kind;
        for (int k = 0; k < 3; k++) {
            same &= !got[k] == !want[k] && (!got[k] || strcmp(got[k], want[k]) == 0);
        }
        if (!same) {
            fail_msg("\"%s\": kind %d, file %s, foreign %s, parent %s", cases[i].name, m.kind,
                     m.file ? m.file : "-", m.foreign ? m.foreign : "-",
                     m.found_parent ? m.found_parent : "-");
        }
    }
}

static void test_owner(void **state)
{
    struct tree *t = *state;
    put_debian(t);
    put_venv(t, "");
    put(t, SITE "/a-1.dist-info/RECORD",
        "a/lib/liba.so,sha256=h,12\n\"a/with,comma \"\"q\"\".so\",,\n../../../bin/a,,\n"
        "/etc/a.conf,,3\nshared,,1\nshared,,2\na//./odd,,\n");
    put(t, SITE "/b-1.dist-info/RECORD",
        "b/libb.so,,\nb/x.py,,7\nb/so.so.so.1.2,sha256=s,5\n"
        "b/../b/./libdots.so.2,,9\nshared,,3\nb/last.so");
    put(t, SITE "/b/libb.so", "");
    put(t, SITE "/c-1.dist-info/METADATA", "");
    put_link(t, "lib", "/opt/v/lib64");
    put_link(t, "v", "/opt/alias");
    struct py_env env = open_env(t, "/opt/alias", (struct py_env_hints){0});
    assert_string_equal(env.prefix, "/opt/alias");
#define ALIAS "/opt/alias/lib/python3.11/site-packages"
    static const struct {
        const char *path, *name;
    } cases[] = {
        {ALIAS "/a/lib/liba.so", "a"},
        {ALIAS "/x/../a/lib/./liba.so", "a"},
        {ALIAS "/a/with,comma \"q\".so", "a"},
        {"/opt/alias/bin/a", "a"},
        {"/etc/a.conf", "a"},
        {ALIAS "/shared", "a"}, // listed by both: the first tells
        {ALIAS "/a/odd", "a"},
        {SITE "/b/libb.so", "b"}, // by its place behind links
        {"/opt/v/lib64/python3.11/site-packages/b/libb.so", "b"},
        {ALIAS "/b/x.py", "b"},
        {ALIAS "/b/so.so.so.1.2", "b"},
        {ALIAS "/b/libdots.so.2", "b"},
        {ALIAS "/b/last.so", "b"},
        {ALIAS "/c/libc.so", NULL},
        {"/", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct py_owned_file o = py_owner(&env, cases[i].path);
        const char *got = o.dist ? o.dist->name : NULL;
        if (!got != !cases[i].name || (got && strcmp(got, cases[i].name) != 0)) {
            fail_msg("%s: %s", cases[i].path, got ? got : "no owner");
        }
    }
    struct py_owned_file o = py_owner(&env, ALIAS "/a/lib/liba.so");
    assert_true(o.has_size && o.size_bytes == 12 && str_is(o.hash, "sha256=h"));
    assert_int_equal(py_owner(&env, ALIAS "/shared").size_bytes, 1);
}

/* By the file's whole name, wherever it is listed, and whether it is there or not. */
static void test_recorded_libraries(void **state)
{
    struct tree *t = *state;
    put(t, SITE "/a-1.dist-info/RECORD", "a/libx.so.1,,\na/mylibx.so.1,,\na/libx.so.12,,\n");
    put(t, SITE "/b-1.dist-info/RECORD",
        "libx.so.1,,\n/opt/c/../libx.so.1,,\nb/libx.so.1/y.so,,\n");
    put(t, SITE "/libx.so.1", "");
    put_venv(t, "");
    struct py_env env = open_env(t, "/opt/v", (struct py_env_hints){0});
    const char **paths = NULL;
    assert_int_equal(py_recorded_libraries(&env, "libx.so.1", &paths), 3);
    assert_string_equal(paths[0], SITE "/a/libx.so.1");
    assert_string_equal(paths[1], SITE "/libx.so.1");
    assert_string_equal(paths[2], "/opt/libx.so.1");
    assert_int_equal(py_recorded_libraries(&env, "libx.so", &paths), 0);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_venv),        CASE(test_pip_folder),    CASE(test_venv_system_site),
        CASE(test_uv),          CASE(test_free_threaded), CASE(test_conda),
        CASE(test_managers),    CASE(test_project),       CASE(test_system),
        CASE(test_fedora),      CASE(test_pyenv_shim),    CASE(test_refused),
        CASE(test_broken_venv), CASE(test_pth),           CASE(test_startup_lines),
        CASE(test_start),       CASE(test_dists),         CASE(test_hostile_dists),
        CASE(test_modules),     CASE(test_owner),         CASE(test_recorded_libraries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
