/* Where else a library lies. The folders are those that packages and installers are known to use;
 * they are listed once, and only when a question comes. */
#include <errno.h>
#include <string.h>

#include "model/model.h"
#include "py/owner.h"

enum { NAMES_MAX = 100000, FOLDERS_MAX = 2000 };

static bool is_library_name(const char *name, void *arg)
{
    (void)arg;
    return starts_with(name, "lib") && strstr(name, ".so");
}

static bool have_folder(const struct model *m, const char *dir)
{
    for (size_t i = 0; i < m->folders.n; i++) {
        if (strcmp(m->folders.items[i].dir, dir) == 0) {
            return true;
        }
    }
    return false;
}

static void model_add_folder(struct model *m, const char *dir, const char *where)
{
    struct root_dir list;
    const char *plain = path_normal(m->arena, dir);
    if (have_folder(m, plain)) {
        return;
    }
    if (m->folders.n >= FOLDERS_MAX) {
        m->unsure = m->unsure ? m->unsure
                              : arena_printf(m->arena,
                                             "more than %d folders have libraries; %s and what "
                                             "comes behind it was not looked at for copies",
                                             FOLDERS_MAX, plain);
        return;
    }
    int rc = root_list(m->root, m->arena, plain, NAMES_MAX,
                       &(struct root_filter){.keep = is_library_name}, &list);
    if (rc == 0 && list.n) {
        VEC_PUSH(m->arena, &m->folders, (struct model_folder){plain, where, list.names, list.n});
    } else if (rc < 0 && rc != -ENOENT && rc != -ENOTDIR) {
        VEC_PUSH(m->arena, &m->notes, arena_printf(m->arena, "%s: %s", plain, strerror(-rc)));
    }
}

/* `pattern` has one component with wildcards, after `base`: "/usr/local", "cuda*", "lib64". */
static void add_matching(struct model *m, const char *base, const char *pattern, const char *rest,
                         const char *where)
{
    struct root_dir list;
    if (root_list(m->root, m->arena, base, NAMES_MAX, NULL, &list) < 0) {
        return; // not there: nothing to find
    }
    for (size_t i = 0; i < list.n; i++) {
        if (str_glob(pattern, list.names[i])) {
            const char *dir = path_join(m->arena, base, list.names[i]);
            model_add_folder(m, *rest ? path_join(m->arena, dir, rest) : dir, where);
        }
    }
}

static void model_add_site(struct model *m, const char *site)
{
    struct arena *a = m->arena;
    add_matching(m, path_join(a, site, "nvidia"), "*", "lib", "site-packages");
    add_matching(m, site, "*.libs", "", "site-packages");
    static const char *const known[] = {"torch/lib",
                                        "tensorflow",
                                        "onnxruntime/capi",
                                        "cupy/.data/lib",
                                        "tensorrt_libs",
                                        "_rocm_sdk_core/lib",
                                        "_rocm_sdk_libraries_gfx*/lib",
                                        "jaxlib",
                                        "cusparselt/lib"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *slash = strchr(known[i], '/');
        if (strchr(known[i], '*')) {
            add_matching(m, site, arena_strndup(a, known[i], (size_t)(slash - known[i])), slash + 1,
                         "site-packages");
        } else {
            model_add_folder(m, path_join(a, site, known[i]), "site-packages");
        }
    }
}

static void add_system(struct model *m)
{
    static const char *const system[] = {
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
        "/usr/local/lib64",
        "/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/lib/x86_64-linux-gnu/nvidia/current",
        "/usr/lib/aarch64-linux-gnu/nvidia",
        "/usr/lib/aarch64-linux-gnu/tegra",
        "/usr/local/nvidia/lib64",
        "/usr/lib/cuda/lib64",
        "/run/opengl-driver/lib",
    };
    for (size_t i = 0; i < sizeof system / sizeof *system; i++) {
        model_add_folder(m, system[i], "system");
    }
    model_add_folder(m, "/usr/lib/wsl/lib", "WSL driver");
    add_matching(m, "/usr/local", "cuda*", "lib64", "CUDA toolkit");
    add_matching(m, "/usr/local", "cuda*", "targets/x86_64-linux/lib", "CUDA toolkit");
    add_matching(m, "/usr/local", "cuda*", "targets/aarch64-linux/lib", "CUDA toolkit");
    add_matching(m, "/usr/local", "cuda*", "targets/sbsa-linux/lib", "CUDA toolkit");
    add_matching(m, "/usr/local", "cudnn*", "lib", "cuDNN archive");
    add_matching(m, "/opt", "cuda*", "lib64", "CUDA toolkit");
    add_matching(m, "/opt", "rocm*", "lib", "ROCm");
}

static void read_folders(struct model *m)
{
    m->folders_read = true;
    const char *path = NULL;
    for (size_t i = 0; i < m->config.n_env; i++) {
        if (starts_with(m->config.env[i], "LD_LIBRARY_PATH=")) {
            path = m->config.env[i] + strlen("LD_LIBRARY_PATH=");
        }
    }
    for (struct str rest = str_of(path); rest.s;) {
        struct str dir = str_cut(&rest, ':');
        if (dir.n && dir.s[0] == '/') {
            model_add_folder(m, str_dup(m->arena, dir), "LD_LIBRARY_PATH");
        }
    }
    for (size_t i = 0; m->env && i < m->env->n_paths; i++) {
        const struct py_path *p = &m->env->paths[i];
        if (p->is_dir && p->origin != PY_PATH_STDLIB && p->origin != PY_PATH_DYNLOAD) {
            model_add_site(m, p->dir);
        }
    }
    if (m->env && m->env->prefix && m->env->kind == PY_ENV_CONDA) {
        model_add_folder(m, path_join(m->arena, m->env->prefix, "lib"), "conda");
    }
    add_system(m);
    ldso_conf_read(m->root, m->arena, &m->conf);
    for (size_t i = 0; i < m->conf.dirs.n; i++) {
        model_add_folder(m, m->conf.dirs.items[i].dir, "ld.so.conf");
    }
}

const char *model_conf_naming(const struct model *m, const char *dir)
{
    for (size_t i = 0; i < m->conf.dirs.n; i++) {
        if (strcmp(m->conf.dirs.items[i].dir, dir) == 0) {
            return m->conf.dirs.items[i].file;
        }
    }
    return NULL;
}

const char *model_folder_with(const struct model *m, const char *pattern, size_t *ret_n)
{
    const char *best = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < m->folders.n; i++) {
        const struct model_folder *f = &m->folders.items[i];
        size_t n = 0;
        for (size_t k = 0; k < f->n; k++) {
            n += str_glob(pattern, f->names[k]);
        }
        if (n > *ret_n) {
            *ret_n = n;
            best = f->dir;
        }
    }
    return best;
}

struct str model_stem(const char *name)
{
    struct str s = str_of(name);
    s.n = str_find(s, ".so");
    /* auditwheel puts "-" and eight hexadecimal digits before ".so" */
    if (s.n > 9 && s.s[s.n - 9] == '-' && strspn(s.s + s.n - 8, "0123456789abcdef") >= 8) {
        s.n -= 9;
    }
    return s;
}

const char *model_owner(struct model *m, const char *path)
{
    if (!m->env) {
        return NULL;
    }
    struct py_owned_file f = py_owner(m->env, model_absolute(m, path));
    if (!f.dist) {
        return NULL;
    }
    return arena_printf(m->arena, "%s %s", f.dist->name_normal,
                        f.dist->version ? f.dist->version : "");
}

/* Whether the programs of the target could load it. */
static bool is_usable(const struct model *m, const struct ldso_entry *e)
{
    const struct elf_image *image = e->file ? &e->file->image : NULL;
    if (!image || image->state != ELF_STATE_OK || image->type != ET_DYN || ldso_is_cut(image)) {
        return false;
    }
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        if (p) {
            const struct elf_image *main = &p->main->file->image;
            return image->machine == main->machine && image->is64 == main->is64;
        }
    }
    return true;
}

size_t model_libraries(struct model *m, const char *name, struct model_library **ret)
{
    if (!m->folders_read) {
        read_folders(m);
    }
    VEC(struct model_library) found = {0};
    struct str stem = model_stem(name);
    for (size_t i = 0; i < m->folders.n; i++) {
        const struct model_folder *f = &m->folders.items[i];
        for (size_t k = 0; k < f->n; k++) {
            if (!str_eq(model_stem(f->names[k]), stem)) {
                continue;
            }
            const char *path = path_join(m->arena, f->dir, f->names[k]);
            struct ldso_entry *e = ldso_store_get(m->store, path);
            VEC_PUSH(m->arena, &found,
                     (struct model_library){.path = path,
                                            .name = f->names[k],
                                            .where = f->where,
                                            .package = model_owner(m, path),
                                            .soname = e->file ? e->file->image.soname : NULL,
                                            .usable = is_usable(m, e)});
        }
    }
    *ret = found.items;
    return found.n;
}

int model_open(struct model *m, struct gm_err *err)
{
    int rc = kb_imports(m->kb, &m->imports, err);
    rc = rc < 0 ? rc : kb_dlopens(m->kb, &m->dlopens, err);
    return rc < 0 ? rc : kb_families(m->kb, &m->families, err);
}
