/* Programs that start the program behind their own words: which options they have, where the
 * command begins, and what they change for it.
 *
 * Sources: the manual pages and option tables of coreutils 9.5 (timeout, nice, nohup, stdbuf, env,
 * chroot), util-linux 2.40 (setsid, ionice, taskset, chrt, setpriv, flock, prlimit),
 * numactl 2.0.18, GNU time 1.9, sudo 1.9.15, doas 6.8, xvfb-run of Debian's xvfb 21.1, tini 0.19,
 * dumb-init 1.2.5, gosu 1.17, su-exec 0.2, s6 2.13, s6-overlay 3.2, runit 2.1 (chpst), daemontools
 * 0.76, `uv run --help` of uv 0.13 and uv's documentation "Running commands in projects", `conda
 * run --help` of conda 24, micromamba 2.0, pixi 0.40, poetry 1.8, pipenv 2024, pdm 2.22, and
 * torch/distributed/run.py of PyTorch 2.5. */
#include <string.h>

#include "launch/start.h"
#include "launch/uv.h"

/* An option that was given. */
struct given {
    const char *name, *value; // value "" where it takes none
};
typedef VEC(struct given) given_list;

struct launcher {
    const char *names;  // between blanks
    const char *shorts; // as getopt(3) has them; NULL: options are not read
    const char *longs;  // between blanks, ':' behind those that take an argument
    unsigned operands;  // words between the options and the command
    /* NULL: the words are the command. */
    int (*start)(struct launch_start *s, const char *name, const given_list *given,
                 launch_words *words);
    const struct launcher *run; // the options behind the word "run", for tools that have others
};

/* ------------------------------------------------------------------ tables of words */

/* Whether `name` of n bytes is in a list of words between blanks; *ret_argument: with ':'. */
static bool list_takes_argument(const char *list, const char *name, size_t n, bool *ret_argument)
{
    for (struct str rest = str_of(list); rest.s;) {
        struct str word = str_cut(&rest, ' ');
        bool argument = word.n && word.s[word.n - 1] == ':';
        word.n -= argument;
        if (n && word.n == n && memcmp(word.s, name, n) == 0) {
            *ret_argument = argument;
            return true;
        }
    }
    return false;
}

static bool list_has_name(const char *list, const char *name)
{
    bool argument;
    return list_takes_argument(list, name, strlen(name), &argument);
}

static const char *given_value(const given_list *given, const char *a, const char *b)
{
    const char *value = NULL;
    for (size_t i = 0; i < given->n; i++) {
        const char *name = given->items[i].name;
        value = strcmp(name, a) == 0 || strcmp(name, b) == 0 ? given->items[i].value : value;
    }
    return value;
}

/* ------------------------------------------------------------------ options */

struct parser {
    struct launch_start *s;
    const struct launcher *row;
    const launch_words *w;
    size_t at; // the word that is read
    given_list given;
};

/* The argument of an option in this word or the next; NULL: there is none. */
static const char *argument(struct parser *p, const char *rest)
{
    return *rest ? rest : p->at + 1 < p->w->n ? p->w->items[++p->at] : NULL;
}

static bool take_long(struct parser *p, const char *word)
{
    size_t n = strcspn(word, "=");
    bool wants = false;
    if (!list_takes_argument(p->row->longs, word, n, &wants)) {
        return false;
    }
    const char *value = word[n] ? word + n + 1 : wants ? argument(p, "") : "";
    VEC_PUSH(p->s->a, &p->given, (struct given){arena_strndup(p->s->a, word, n), value});
    return value != NULL;
}

static bool take_shorts(struct parser *p, const char *letters)
{
    for (const char *c = letters; *c; c++) {
        const char *known = *c == ':' ? NULL : strchr(p->row->shorts, *c);
        if (!known) {
            return false;
        }
        const char *value = known[1] == ':' ? argument(p, c + 1) : "";
        VEC_PUSH(p->s->a, &p->given, (struct given){arena_strndup(p->s->a, c, 1), value});
        if (known[1] == ':') {
            return value != NULL;
        }
    }
    return true;
}

/* Leaves `at` at the first word behind the options; false at an option that is not known. */
static bool take_options(struct parser *p)
{
    for (; p->at < p->w->n; p->at++) {
        const char *word = p->w->items[p->at];
        if (strcmp(word, "--") == 0) {
            p->at++;
            return true;
        }
        if (word == launch_unknown || word[0] != '-' || !word[1]) {
            return word != launch_unknown;
        }
        if (word[1] == '-' ? !take_long(p, word + 2) : !take_shorts(p, word + 1)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ what the words start */

/* The command behind a launcher. That it cannot be executed is the launcher's matter. */
static int start_words(struct launch_start *s, const launch_words *w)
{
    if (!w->n) {
        return launch_start_unseen(s, NULL);
    }
    int rc = s->readers->words(s, w);
    return rc < 0 ? launch_start_unseen(
                        s, arena_printf(s->a, "%s, which it starts, is not found", w->items[0]))
                  : rc;
}

static bool is_assignment(const char *word)
{
    size_t n = strcspn(word, "=");
    return n && word[n] && word != launch_unknown;
}

/* "NAME=VALUE" words before the command. */
static void words_take_assignments(struct launch_start *s, const char *by, launch_words *w)
{
    while (w->n && is_assignment(w->items[0])) {
        const char *word = w->items[0], *value = strchr(word, '=') + 1;
        launch_start_set(s, by, arena_strndup(s->a, word, (size_t)(value - word) - 1), value,
                         false);
        w->items++, w->n--;
    }
}

static void cut(launch_words *w, size_t n)
{
    n = n < w->n ? n : w->n;
    w->items += n, w->n -= n;
}

/* Variables of the loader do not survive: the loader removes them from the environment of a setuid
 * program (glibc, elf/rtld.c, unsecure_envvars), and sudo drops LD_* with -E as well (sudo,
 * plugins/sudoers/env.c, initial_badenv_table). */
static int start_sudo(struct launch_start *s, const char *name, const given_list *given,
                      launch_words *w)
{
    if (given_value(given, "i", "login") || given_value(given, "s", "shell")) {
        return launch_start_unseen(s, "it starts a shell of its own");
    }
    s->out->clears = arena_printf(s->a,
                                  "%s drops LD_LIBRARY_PATH and LD_PRELOAD, whatever it is told "
                                  "to keep; write gpumend run -- behind it: %s ... gpumend run "
                                  "-- COMMAND",
                                  name, name);
    s->other_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    s->other_why = arena_printf(s->a, "%s may have a PATH of its own (secure_path)", name);
    words_take_assignments(s, name, w);
    return start_words(s, w);
}

/* Splits as `env -S` does, without its escapes and variables: false if it has any. */
static bool words_split(struct arena *a, const char *text, launch_words *out)
{
    if (strpbrk(text, "\\$#")) {
        return false;
    }
    while (*(text += strspn(text, " \t"))) {
        const char *word = "";
        while (*text && !strchr(" \t", *text)) {
            bool quoted = *text == '\'' || *text == '"';
            size_t n = quoted ? strcspn(text + 1, (char[]){*text, '\0'}) : strcspn(text, " \t'\"");
            if (quoted && !text[n + 1]) {
                return false;
            }
            word = arena_printf(a, "%s%.*s", word, (int)n, text + quoted);
            text += n + (quoted ? 2 : 0);
        }
        VEC_PUSH(a, out, word);
    }
    return true;
}

static const char empty_environment[] = "env -i starts the program with an empty environment";

/* An option of env(1); false: it is -S, with a text that is not split here. */
static bool take_env_option(struct launch_start *s, const char *name, const struct given *g,
                            launch_words *words)
{
    if (list_has_name("i ignore-environment", g->name)) {
        s->out->clears = empty_environment;
    } else if (list_has_name("u unset", g->name)) {
        launch_start_set(s, name, g->value, NULL, false);
    } else if (list_has_name("C chdir", g->name)) {
        const char *folder = launch_start_path(s, g->value);
        s->cwd = folder ? folder : launch_unknown;
    } else if (list_has_name("S split-string", g->name)) {
        return words_split(s->a, g->value, words);
    }
    return true;
}

static int start_env(struct launch_start *s, const char *name, const given_list *given,
                     launch_words *w)
{
    launch_words words = {0};
    for (size_t i = 0; i < given->n; i++) {
        if (!take_env_option(s, name, &given->items[i], &words)) {
            return launch_start_unseen(s, "the text behind env -S has variables or escapes");
        }
    }
    for (size_t i = 0; i < w->n; i++) {
        VEC_PUSH(s->a, &words, w->items[i]);
    }
    if (given_value(given, "S", "split-string")) {
        int rc = 0; // what it holds is options, assignments and a command once more
        return ++s->hops > LAUNCH_START_HOPS_MAX || !launch_start_launcher(s, name, &words, &rc)
                   ? launch_start_unseen(s, "env -S inside env -S")
                   : rc;
    }
    if (words.n && strcmp(words.items[0], "-") == 0) {
        s->out->clears = empty_environment;
        cut(&words, 1);
    }
    words_take_assignments(s, name, &words);
    return start_words(s, &words);
}

/* ------------------------------------------------------------------ environments by name */

static bool start_is_folder(struct launch_start *s, const char *path)
{
    struct stat st;
    return root_stat(s->root, path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool start_is_there(struct launch_start *s, const char *path)
{
    struct stat st;
    return root_stat(s->root, path, &st) == 0;
}

/* The nearest folder from `start` upwards that has one of these names; NULL: none. */
static const char *project_of(struct launch_start *s, const char *start, const char *const *names)
{
    const char *dir = start ? path_normal(s->a, start) : NULL;
    for (int i = 0; dir && i < 64; i++) {
        for (size_t k = 0; names[k]; k++) {
            if (start_is_there(s, path_join(s->a, dir, names[k]))) {
                return dir;
            }
        }
        dir = dir[1] ? path_dir(s->a, dir) : NULL;
    }
    return NULL;
}

/* The words behind in an environment: a script of Python goes to its interpreter. */
static int start_in(struct launch_start *s, const char *prefix, launch_words *w)
{
    launch_words words = {0};
    const char *python = path_join(s->a, prefix, "bin/python");
    launch_start_enter(s, prefix);
    if (!w->n) {
        return launch_start_unseen(s, NULL);
    }
    const char *script = launch_start_path(s, w->items[0]);
    const char *found = NULL;
    if (script && ends_with(script, ".py") && start_is_there(s, script)) {
        VEC_PUSH(s->a, &words, python);
    } else if (w->items[0] != launch_unknown && launch_start_find(s, w->items[0], &found) < 0) {
        s->out->kind = LAUNCH_PYTHON; // a task of the project: its commands run in the environment
        s->out->python = python;
        return start_is_there(s, python)
                   ? 0
                   : launch_start_unseen(s, "its environment has no interpreter");
    }
    for (size_t i = 0; i < w->n; i++) {
        VEC_PUSH(s->a, &words, w->items[i]);
    }
    return start_words(s, &words);
}

static int no_environment(struct launch_start *s, const char *name, const char *where)
{
    return launch_start_unseen(
        s, arena_printf(s->a, "the environment that %s uses is not found: %s", name, where));
}

static const char *known_variable(struct launch_start *s, const char *name)
{
    const char *value = launch_start_variable(s, name);
    return value && value != launch_unknown && *value ? value : NULL;
}

/* As uv reads a flag (uv, EnvVars): what is not one of its words for yes is no. */
static bool uv_flag(struct launch_start *s, const char *name)
{
    const char *value = known_variable(s, name);
    return value && list_has_name("1 y yes t true on Y YES Yes T TRUE True ON On", value);
}

/* Where uv makes the environment: beside the pyproject.toml of the project or of its workspace,
 * unless a variable says otherwise; without a project the active one, or the nearest .venv.
 * *ret_why: why it is not known, a clause. */
static const char *uv_environment(struct launch_start *s, const given_list *given,
                                  const char **ret_why)
{
    static const char *const project[] = {"pyproject.toml", NULL}, *const venv[] = {".venv", NULL};
    const char *asked = given_value(given, "project", "project");
    asked = asked ? asked : known_variable(s, "UV_PROJECT");
    const char *from = launch_start_path(s, asked ? asked : ".");
    const char *active = known_variable(s, "VIRTUAL_ENV");
    const char *named = known_variable(s, "UV_PROJECT_ENVIRONMENT");
    bool no_project = given_value(given, "no-project", "no-project") || uv_flag(s, "UV_NO_PROJECT");
    const char *dir = no_project ? NULL : project_of(s, from, project);
    *ret_why = NULL;
    if (dir && !(active && given_value(given, "active", "active"))) {
        const char *root = launch_uv_root(s, dir);
        if (!root && !(named && named[0] == '/')) {
            *ret_why = arena_printf(
                s->a, "whether %s is a member of the workspace above it is not known", dir);
            return NULL;
        }
        return named && named[0] == '/' ? named : path_join(s->a, root, named ? named : ".venv");
    }
    dir = active ? NULL : project_of(s, from, venv);
    *ret_why = "neither pyproject.toml nor .venv is here or above";
    return active ? launch_start_path(s, active) : dir ? path_join(s->a, dir, ".venv") : NULL;
}

/* PEP 723: a script that names its own requirements gets an environment of its own. */
static bool has_own_requirements(struct launch_start *s, const launch_words *w)
{
    struct str text, line;
    const char *path = w->n ? launch_start_path(s, w->items[0]) : NULL;
    if (!path || !ends_with(path, ".py") ||
        root_read_head(s->root, s->a, path, LAUNCH_START_TEXT_MAX, &text, NULL) < 0) {
        return false;
    }
    while (str_line(&text, &line)) {
        if (str_is(str_trim(line), "# /// script")) {
            return true;
        }
    }
    return false;
}

/* Why uv runs the words in an environment that it makes for them, a clause; NULL: it does not. */
static const char *uv_makes_its_own(struct launch_start *s, const char *name,
                                    const given_list *given, const launch_words *w)
{
    static const char own[] = "with with-editable with-requirements w isolated script s";
    for (size_t i = 0; i < given->n; i++) {
        if (list_has_name(own, given->items[i].name)) {
            return arena_printf(s->a, "%s makes an environment for this command (%s)", name,
                                given->items[i].name);
        }
    }
    if (uv_flag(s, "UV_ISOLATED")) {
        return arena_printf(s->a, "%s makes an environment for this command (UV_ISOLATED)", name);
    }
    return has_own_requirements(s, w) ? "uv makes an environment for this script, which names its "
                                        "own requirements"
                                      : NULL;
}

static int start_uv(struct launch_start *s, const char *name, const given_list *given,
                    launch_words *w)
{
    const char *folder = given_value(given, "directory", "directory"), *why = NULL;
    folder = folder ? folder : known_variable(s, "UV_WORKING_DIR");
    folder = folder ? folder : known_variable(s, "UV_WORKING_DIRECTORY");
    s->cwd = folder && launch_start_path(s, folder) ? launch_start_path(s, folder) : s->cwd;
    const char *own = uv_makes_its_own(s, name, given, w);
    if (own) {
        return launch_start_unseen(s, own);
    }
    const char *prefix = uv_environment(s, given, &why);
    if (!prefix || !start_is_folder(s, prefix)) {
        return no_environment(s, name,
                              prefix ? arena_printf(s->a, "%s is not there", prefix) : why);
    }
    if (given_value(given, "m", "module") && w->n) {
        s->out->kind = LAUNCH_PYTHON;
        s->out->python = path_join(s->a, prefix, "bin/python");
        s->out->module = w->items[0];
        launch_start_enter(s, prefix);
        return 0;
    }
    return start_in(s, prefix, w);
}

/* A tool's environment in the project's own folder. One that it keeps elsewhere is found by its
 * own rules, and is not known. */
static int start_project(struct launch_start *s, const char *name, const given_list *given,
                         launch_words *w)
{
    static const char *const files[] = {"pyproject.toml", "Pipfile", "pdm.toml",
                                        "hatch.toml",     ".venv",   NULL};
    const char *asked = given_value(given, "C", "directory");
    asked = asked ? asked : given_value(given, "p", "project");
    const char *dir = project_of(s, launch_start_path(s, asked ? asked : "."), files);
    const char *active = known_variable(s, "VIRTUAL_ENV");
    const char *prefix = dir ? path_join(s->a, dir, ".venv") : NULL;
    bool hatch = strcmp(name, "hatch") == 0, own = prefix && !hatch && start_is_folder(s, prefix);
    if (active && !hatch && launch_start_path(s, active)) {
        return start_in(s, launch_start_path(s, active), w);
    }
    return own ? start_in(s, prefix, w)
               : no_environment(s, name, "it keeps it outside the project's folder");
}

static int start_pixi(struct launch_start *s, const char *name, const given_list *given,
                      launch_words *w)
{
    static const char *const files[] = {"pixi.toml", ".pixi", NULL};
    const char *asked = given_value(given, "manifest-path", "manifest-path");
    const char *env = given_value(given, "e", "environment");
    const char *dir = asked ? path_dir(s->a, asked) : NULL;
    dir = dir ? launch_start_path(s, dir) : project_of(s, launch_start_path(s, "."), files);
    const char *prefix =
        dir ? arena_printf(s->a, "%s/.pixi/envs/%s", dir, env ? env : "default") : NULL;
    return prefix && start_is_folder(s, prefix)
               ? start_in(s, prefix, w)
               : no_environment(s, name,
                                prefix ? arena_printf(s->a, "%s is not there", prefix)
                                       : "pixi.toml is neither here nor above");
}

/* The folder of a conda environment by its name: below the installation that the program belongs
 * to, or the user's own folders. */
static const char *conda_prefix(struct launch_start *s, const char *name)
{
    static const char *const homes[] = {".conda",    "miniconda3", "miniforge3",
                                        "anaconda3", "mambaforge", "micromamba"};
    const char *exe = known_variable(s, "CONDA_EXE"), *home = known_variable(s, "HOME"),
               *found = NULL;
    launch_words roots = {0};
    if (launch_start_find(s, "conda", &found) == 0 || (found = exe)) {
        VEC_PUSH(s->a, &roots, path_dir(s->a, path_dir(s->a, found)));
    }
    if (known_variable(s, "MAMBA_ROOT_PREFIX")) {
        VEC_PUSH(s->a, &roots, known_variable(s, "MAMBA_ROOT_PREFIX"));
    }
    VEC_PUSH(s->a, &roots, "/opt/conda");
    for (size_t i = 0; home && i < sizeof homes / sizeof *homes; i++) {
        VEC_PUSH(s->a, &roots, path_join(s->a, home, homes[i]));
    }
    for (size_t i = 0; i < roots.n; i++) {
        const char *prefix = strcmp(name, "base") == 0
                                 ? roots.items[i]
                                 : arena_printf(s->a, "%s/envs/%s", roots.items[i], name);
        if (start_is_folder(s, path_join(s->a, prefix, "conda-meta"))) {
            return prefix;
        }
    }
    return NULL;
}

static int start_conda(struct launch_start *s, const char *name, const given_list *given,
                       launch_words *w)
{
    const char *prefix = given_value(given, "p", "prefix"), *env = given_value(given, "n", "name");
    const char *folder = given_value(given, "cwd", "cwd");
    if (env == launch_unknown || prefix == launch_unknown) {
        return launch_start_unseen(s, "the name of the environment is known only by running it");
    }
    s->cwd = folder && launch_start_path(s, folder) ? launch_start_path(s, folder) : s->cwd;
    prefix = prefix                    ? launch_start_path(s, prefix)
             : env && strchr(env, '/') ? launch_start_path(s, env)
             : env                     ? conda_prefix(s, env)
                                       : known_variable(s, "CONDA_PREFIX");
    return prefix && start_is_folder(s, prefix)
               ? start_in(s, prefix, w)
               : no_environment(s, name,
                                env ? arena_printf(s->a, "no folder of conda has envs/%s", env)
                                    : "no environment is named (-n, -p)");
}

/* ------------------------------------------------------------------ the others */

static int start_elsewhere(struct launch_start *s, const char *name, const given_list *given,
                           launch_words *w)
{
    (void)given, (void)w;
    return launch_start_unseen(
        s, arena_printf(s->a,
                        "%s starts its program where variables set here do not count; gpumend "
                        "container says what a container needs",
                        name));
}

static int start_in_root(struct launch_start *s, const char *name, const given_list *given,
                         launch_words *w)
{
    (void)given, (void)w;
    return launch_start_unseen(
        s, arena_printf(s->a, "%s starts its program in another root, which is not looked into",
                        name));
}

/* s6-overlay keeps the container's variables in /run/s6/container_environment, since its processes
 * start with none. */
static int start_contenv(struct launch_start *s, const char *name, const given_list *given,
                         launch_words *w)
{
    (void)given;
    s->out->clears = arena_printf(s->a,
                                  "%s starts the program with the variables of "
                                  "/run/s6/container_environment alone",
                                  name);
    return start_words(s, w);
}

static int start_by_files(struct launch_start *s, const char *name, const given_list *given,
                          launch_words *w)
{
    (void)given, (void)w;
    return launch_start_unseen(s,
                               arena_printf(s->a, "what %s starts is in files of its own", name));
}

/* Programs with many options of their own: the first word that is a Python program is taken. */
static int start_first_python(struct launch_start *s, const char *name, const given_list *given,
                              launch_words *w)
{
    (void)given;
    for (; w->n; cut(w, 1)) {
        struct launch_program out = *s->out, *kept = s->out;
        const char *path = NULL;
        if (w->items[0] == launch_unknown || launch_start_find(s, w->items[0], &path) < 0) {
            continue;
        }
        s->out = &out;
        unsigned hops = s->hops;
        int rc = s->readers->words(s, w);
        s->out = kept;
        s->hops = hops;
        if (rc == 0 && out.kind == LAUNCH_PYTHON) {
            *s->out = out;
            return 0;
        }
    }
    return launch_start_unseen(s,
                               arena_printf(s->a, "what %s starts is not among its words", name));
}

static int start_busybox(struct launch_start *s, const char *name, const given_list *given,
                         launch_words *w)
{
    (void)given;
    int rc = 0;
    if (!w->n || strcmp(w->items[0], "busybox") == 0) {
        return launch_start_unseen(s, NULL);
    }
    name = w->items[0];
    cut(w, 1);
    return launch_start_launcher(s, name, w, &rc) ? rc : launch_start_unseen(s, NULL);
}

static int start_shell(struct launch_start *s, const char *name, const given_list *given,
                       launch_words *w)
{
    (void)given;
    return s->readers->shell(s, name, w);
}

static int start_own_environment(struct launch_start *s, const char *name, const given_list *given,
                                 launch_words *w)
{
    (void)given, (void)w;
    return launch_start_unseen(
        s, arena_printf(s->a, "%s makes an environment for each command", name));
}

#define NO_OPTIONS "", ""
#define UNREAD     NULL, NULL // the words are handed on with their options

static const struct launcher uv_run = {
    "run",
    "mw:si:f:UP:C:np:qv",
    "extra: all-extras no-extra: no-dev only-dev dev group: no-group: no-default-groups "
    "only-group: "
    "all-groups module no-editable no-editable-package: exact env-file: no-env-file with: "
    "with-editable: with-requirements: isolated active no-sync locked frozen script gui-script "
    "all-packages package: no-project python-platform: index: default-index: index-url: "
    "extra-index-url: find-links: no-index index-strategy: keyring-provider: upgrade "
    "upgrade-package: upgrade-group: resolution: prerelease: prerelease-package: fork-strategy: "
    "exclude-newer: exclude-newer-package: no-sources no-sources-package: reinstall "
    "reinstall-package: link-mode: compile-bytecode config-setting: config-settings-package: "
    "no-build-isolation no-build-isolation-package: no-build no-build-package: no-binary "
    "no-binary-package: require-build-hashes no-cache cache-dir: refresh refresh-package: python: "
    "managed-python no-managed-python no-python-downloads quiet verbose color: system-certs "
    "native-tls offline allow-insecure-host: no-progress directory: project: config-file: "
    "no-config",
    0,
    start_uv,
    NULL};
static const struct launcher conda_run = {
    "run",
    "vn:p:a:",
    "verbose dev debug-wrapper-scripts name: prefix: cwd: no-capture-output live-stream attach: "
    "root-prefix: env: detach clean-env label:",
    0,
    start_conda,
    NULL};
static const struct launcher project_run = {"run",
                                            "qvsnC:P:e:p:",
                                            "quiet verbose no-interaction site-packages env-file: "
                                            "directory: project:",
                                            0,
                                            start_project,
                                            NULL};
static const struct launcher pixi_run = {
    "run",
    "qve:",
    "quiet verbose environment: manifest-path: frozen locked no-install no-lockfile-update "
    "clean-env skip-deps force-activate color: no-progress as-is",
    0,
    start_pixi,
    NULL};

static const struct launcher launchers[] = {
    {"sh dash bash ash ksh mksh zsh", UNREAD, 0, start_shell, NULL},
    {"env", "iu:C:S:v0",
     "ignore-environment unset: chdir: split-string: debug null default-signal ignore-signal "
     "block-signal list-signal-handling argv0:",
     0, start_env, NULL},
    {"timeout", "fk:ps:v", "foreground kill-after: preserve-status signal: verbose", 1, NULL, NULL},
    {"nice", "n:0123456789", "adjustment:", 0, NULL, NULL},
    {"nohup catchsegv eatmydata dbus-run-session", NO_OPTIONS, 0, NULL, NULL},
    {"stdbuf", "i:o:e:", "input: output: error:", 0, NULL, NULL},
    {"setsid", "cfw", "ctty fork wait", 0, NULL, NULL},
    {"ionice", "c:n:p:P:u:t", "class: classdata: pid: pgid: uid: ignore", 0, NULL, NULL},
    {"taskset", "apc", "all-tasks pid cpu-list", 1, NULL, NULL},
    {"chrt", "abdefimoprRT:P:D:v",
     "all-tasks batch deadline ext fifo idle max other pid rr reset-on-fork sched-runtime: "
     "sched-period: sched-deadline: verbose",
     1, NULL, NULL},
    {"numactl", "ab:i:m:p:P:N:C:lw:",
     "all balancing interleave: weighted-interleave: membind: preferred: preferred-many: "
     "cpunodebind: physcpubind: localalloc cpubind:",
     0, NULL, NULL},
    {"time", "af:o:pqv", "append format: output: portability quiet verbose", 0, NULL, NULL},
    {"sudo", "ABbEeHikKlnNPSsvC:D:g:h:p:R:r:T:t:u:U:",
     "askpass auth-type: background bell close-from: chdir: preserve-env edit group: set-home "
     "host: "
     "login reset-timestamp remove-timestamp list no-update non-interactive preserve-groups "
     "prompt: chroot: role: stdin shell type: command-timeout: other-user: user: validate",
     0, start_sudo, NULL},
    {"doas", "C:Lnsu:", "", 0, start_sudo, NULL},
    {"pkexec", "", "disable-internal-agent keep-cwd user:", 0, start_sudo, NULL},
    {"xvfb-run", "ade:f:hln:p:s:w:",
     "auto-servernum auto-display error-file: auth-file: help listen-tcp server-num: "
     "xauth-protocol: server-args: wait:",
     0, NULL, NULL},
    {"setpriv", "d",
     "clear-groups keep-groups init-groups groups: inh-caps: ambient-caps: "
     "bounding-set: no-new-privs nnp rgid: ruid: egid: euid: regid: reuid: securebits: pdeathsig: "
     "selinux-label: apparmor-profile:",
     0, NULL, NULL},
    {"flock", "sxeunoFE:w:v",
     "shared exclusive unlock nonblock nb close no-fork timeout: wait: "
     "conflict-exit-code: verbose",
     1, NULL, NULL},
    {"tini tini-static docker-init catatonit", "gvwsp:e:P", "", 0, NULL, NULL},
    {"dumb-init", "cr:v", "single-child rewrite: verbose", 0, NULL, NULL},
    {"gosu su-exec s6-setuidgid s6-envuidgid setuidgid envuidgid", NO_OPTIONS, 1, NULL, NULL},
    {"chpst", "vP0123u:U:b:e:/:C:n:l:L:m:d:o:p:f:c:r:t:", "", 0, NULL, NULL},
    {"with-contenv", NO_OPTIONS, 0, start_contenv, NULL},
    {"uv", "qvno",
     "quiet verbose offline no-cache no-config no-progress native-tls directory: "
     "project: config-file: cache-dir: color: allow-insecure-host:",
     0, NULL, &uv_run},
    {"conda mamba micromamba", "qvyr:",
     "no-plugins debug quiet verbose rc-file: no-rc no-env root-prefix:", 0, NULL, &conda_run},
    {"poetry",
     "qvnC:P:", "quiet verbose no-interaction no-plugins no-cache directory: project: ansi no-ansi",
     0, NULL, &project_run},
    {"pipenv", "qv", "python: verbose quiet site-packages clear", 0, NULL, &project_run},
    {"pdm", "qvc:I", "config: ignore-python quiet verbose", 0, NULL, &project_run},
    {"rye", "", "", 0, NULL, &project_run},
    {"hatch", "qve:p:",
     "env: project: quiet verbose color no-color interactive no-interactive data-dir: "
     "cache-dir: config:",
     0, NULL, &project_run},
    {"pixi", "qv", "quiet verbose color: no-progress", 0, NULL, &pixi_run},
    {"uvx pipx", UNREAD, 0, start_own_environment, NULL},
    {"docker podman nerdctl kubectl ssh apptainer singularity systemd-run machinectl distrobox "
     "toolbox flatpak systemd-nspawn",
     UNREAD, 0, start_elsewhere, NULL},
    {"chroot bwrap firejail proot nsenter", UNREAD, 0, start_in_root, NULL},
    {"make gmake ninja just task supervisord honcho foreman circusd tmux screen npm npx yarn pnpm "
     "s6-svscan s6-supervise s6-overlay-suexec s6-rc runsvdir runsv svscan "
     "fish csh tcsh pwsh perl ruby php expect tclsh",
     UNREAD, 0, start_by_files, NULL},
    {"gdb valgrind strace ltrace rr perf nsys ncu nvprof compute-sanitizer rocprof rocprofv3 "
     "faketime xargs parallel srun mpirun mpiexec orterun prterun horovodrun runuser su "
     "s6-softlimit "
     "softlimit s6-notifyoncheck start-stop-daemon systemd-inhibit cgexec setarch linux64 watch "
     "script heaptrack unbuffer prlimit unshare find opentelemetry-instrument ddtrace-run "
     "newrelic-admin",
     UNREAD, 0, start_first_python, NULL},
    {"busybox toybox", UNREAD, 0, start_busybox, NULL},
};

/* Reads options and operands, and goes on with what is left. */
static int start_row(struct launch_start *s, const char *name, const struct launcher *row,
                     const given_list *before, const launch_words *w)
{
    struct parser p = {.s = s, .row = row, .w = w, .given = *before};
    if (row->shorts && !take_options(&p)) {
        const char *word = p.at < w->n ? w->items[p.at] : "";
        return launch_start_unseen(
            s, word == launch_unknown || !*word
                   ? arena_printf(s->a,
                                  "the words of %s are known only by running "
                                  "it",
                                  name)
                   : arena_printf(s->a, "the option %s of %s is not known here", word, name));
    }
    launch_words rest = *w;
    cut(&rest, p.at);
    if (row->run) {
        bool runs = rest.n && strcmp(rest.items[0], "run") == 0;
        cut(&rest, 1);
        return runs ? start_row(s, name, row->run, &p.given, &rest) : launch_start_unseen(s, NULL);
    }
    cut(&rest, row->operands);
    return row->start ? row->start(s, name, &p.given, &rest) : start_words(s, &rest);
}

bool launch_start_launcher(struct launch_start *s, const char *name, const launch_words *w,
                           int *ret)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        if (list_has_name(launchers[i].names, name)) {
            *ret = start_row(s, name, &launchers[i], &(const given_list){0}, w);
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ launchers in Python */

/* The word "launch" or the like that the program must be told first; "": none. */
static const struct {
    const char *modules, *scripts, *verb;
} python_launchers[] = {
    {"torch.distributed.run torch.distributed.launch", "torchrun", ""},
    {"accelerate.commands.launch", "accelerate-launch", ""},
    {"accelerate accelerate.commands.accelerate_cli", "accelerate", "launch"},
    {"deepspeed.launcher.runner deepspeed.launcher.launch", "deepspeed ds", ""},
    {"coverage memray", "coverage memray", "run"},
    {"cProfile profile pdb trace debugpy scalene viztracer kernprof pyinstrument",
     "debugpy scalene "
     "viztracer kernprof pyinstrument",
     ""},
    {"streamlit streamlit.web.cli", "streamlit", "run"},
};

static bool is_python_launcher(const struct launch_program *p, const launch_words *w)
{
    const char *script = p->script ? path_base(p->script) : "",
               *module = p->module ? p->module : "";
    for (size_t i = 0; i < sizeof python_launchers / sizeof *python_launchers; i++) {
        const char *verb = python_launchers[i].verb;
        if ((list_has_name(python_launchers[i].modules, module) ||
             list_has_name(python_launchers[i].scripts, script)) &&
            (!*verb || (w->n && strcmp(w->items[0], verb) == 0))) {
            return true;
        }
    }
    return false;
}

/* Their own options are many: the program is the first word that is a Python file, or the module
 * behind -m. Where neither is there, what is run is not known. */
void launch_start_python_launcher(struct launch_start *s, const launch_words *w)
{
    struct launch_program *p = s->out;
    if (!is_python_launcher(p, w)) {
        return;
    }
    p->script = p->module = NULL;
    for (size_t i = 0; i < w->n && !p->script && !p->module; i++) {
        const char *word = w->items[i];
        bool module = strcmp(word, "-m") == 0 || strcmp(word, "--module") == 0;
        if (module && i + 1 < w->n && w->items[i + 1] != launch_unknown) {
            p->module = w->items[i + 1];
        } else if (word != launch_unknown && word[0] != '-' && ends_with(word, ".py")) {
            p->script = launch_start_path(s, word);
        }
    }
}
