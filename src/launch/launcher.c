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

#include "launch/launcher.h"
#include "launch/start.h"

/* ------------------------------------------------------------------ what the words start */

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

/* Variables of the loader do not survive: the loader removes them from the environment of a setuid
 * program (glibc, elf/rtld.c, unsecure_envvars), and sudo drops LD_* with -E as well (sudo,
 * plugins/sudoers/env.c, initial_badenv_table). */
static int start_sudo(struct launch_start *s, const char *name, const given_list *given,
                      launch_words *w)
{
    if (launch_given_value(given, "i", "login") || launch_given_value(given, "s", "shell")) {
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
    return launch_start_by_words(s, w);
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
    if (launch_option_is_in("i ignore-environment", g->name)) {
        s->out->clears = empty_environment;
    } else if (launch_option_is_in("u unset", g->name)) {
        launch_start_set(s, name, g->value, NULL, false);
    } else if (launch_option_is_in("C chdir", g->name)) {
        const char *folder = launch_start_path(s, g->value);
        s->cwd = folder ? folder : launch_unknown;
    } else if (launch_option_is_in("S split-string", g->name)) {
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
    if (launch_given_value(given, "S", "split-string")) {
        int rc = 0; // what it holds is options, assignments and a command once more
        return ++s->hops > LAUNCH_START_HOPS_MAX || !launch_start_launcher(s, name, &words, &rc)
                   ? launch_start_unseen(s, "env -S inside env -S")
                   : rc;
    }
    if (words.n && strcmp(words.items[0], "-") == 0) {
        s->out->clears = empty_environment;
        launch_words_cut(&words, 1);
    }
    words_take_assignments(s, name, &words);
    return launch_start_by_words(s, &words);
}

/* ------------------------------------------------------------------ the others */

/* No environment that lies here matters, so none is assumed. */
static int start_elsewhere(struct launch_start *s, const char *name, const given_list *given,
                           launch_words *w)
{
    static const char engines[] = "docker podman nerdctl kubectl";
    (void)given, (void)w;
    s->out->elsewhere =
        launch_option_is_in(engines, name)
            ? arena_printf(s->a,
                           "%s starts its program in a container, which variables set here do not "
                           "reach; gpumend container says what a container needs",
                           name)
            : arena_printf(s->a,
                           "%s starts its program where variables set here do not count; write "
                           "gpumend run -- before the program's own command there",
                           name);
    return launch_start_unseen(s, s->out->elsewhere);
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
    return launch_start_by_words(s, w);
}

static int start_by_files(struct launch_start *s, const char *name, const given_list *given,
                          launch_words *w)
{
    (void)given, (void)w;
    return launch_start_unseen(s,
                               arena_printf(s->a, "what %s starts is in files of its own", name));
}

/* The word behind an option may be the option's value. */
bool launch_start_first_python(struct launch_start *s, const launch_words *words, bool operands)
{
    launch_words rest = *words;
    for (const char *before = ""; rest.n; launch_words_cut(&rest, 1)) {
        struct launch_program out = *s->out, *kept = s->out;
        const char *path = NULL, *word = rest.items[0];
        bool taken = operands && *before == '-' && strcmp(before, "--") != 0;
        before = word == launch_unknown ? "" : word;
        if (taken || word == launch_unknown || launch_start_find(s, word, &path) < 0) {
            continue;
        }
        s->out = &out;
        unsigned hops = s->hops;
        int rc = s->readers->words(s, &rest);
        s->out = kept;
        s->hops = hops;
        if (rc == 0 && out.kind == LAUNCH_PYTHON) {
            *s->out = out;
            return true;
        }
    }
    return false;
}

/* Programs with many options of their own: the first word that is a Python program is taken. */
static int start_first_python(struct launch_start *s, const char *name, const given_list *given,
                              launch_words *w)
{
    (void)given;
    return launch_start_first_python(s, w, false)
               ? 0
               : launch_start_unseen(
                     s, arena_printf(s->a, "what %s starts is not among its words", name));
}

/* A text for a shell, as the words "-c TEXT" give it to one. */
static int start_text(struct launch_start *s, const char *name, const char *text)
{
    launch_words words = {0};
    VEC_PUSH(s->a, &words, "-c");
    VEC_PUSH(s->a, &words, text);
    return s->readers->shell(s, name, &words);
}

/* The value of -c (as the last letter of its word) or --command before "--"; NULL: there is none.
 */
static const char *command_text(const launch_words *w)
{
    for (size_t i = 0; i < w->n && strcmp(w->items[i], "--") != 0; i++) {
        const char *word = w->items[i];
        bool is_long = starts_with(word, "--");
        if (starts_with(word, "--command=")) {
            return word + strlen("--command=");
        }
        if (is_long ? strcmp(word, "--command") == 0 : word[0] == '-' && ends_with(word, "c")) {
            return i + 1 < w->n ? w->items[i + 1] : NULL;
        }
    }
    return NULL;
}

static int start_flock(struct launch_start *s, const char *name, const given_list *given,
                       launch_words *w)
{
    const char *text = w->n == 2 ? command_text(w) : NULL;
    (void)given;
    return text ? start_text(s, name, text) : launch_start_by_words(s, w);
}

/* script(1), and runuser(1) unless it is told -u, with which the words are the command, or starts a
 * login shell, which sets the variables anew. */
static int start_text_or_python(struct launch_start *s, const char *name, const given_list *given,
                                launch_words *w)
{
    const char *text = command_text(w);
    for (size_t i = 0; i < w->n && strcmp(name, "runuser") == 0; i++) {
        const char *word = w->items[i];
        bool is_short = word[0] == '-' && word[1] != '-';
        if (launch_option_is_in("--user --login -", word) || (is_short && strpbrk(word, "ul"))) {
            text = NULL;
        }
    }
    return text ? start_text(s, name, text) : start_first_python(s, name, given, w);
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
    launch_words_cut(w, 1);
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

#define UNREAD NULL, NULL // the words are handed on with their options

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
    launch_start_by_uv,
    NULL};

static const struct launcher conda_run = {
    "run",
    "vn:p:a:",
    "verbose dev debug-wrapper-scripts name: prefix: cwd: no-capture-output live-stream attach: "
    "root-prefix: env: detach clean-env label:",
    0,
    launch_start_by_conda,
    NULL};

static const struct launcher project_run = {"run",
                                            "qvsnC:P:e:p:",
                                            "quiet verbose no-interaction site-packages env-file: "
                                            "directory: project:",
                                            0,
                                            launch_start_by_project,
                                            NULL};

static const struct launcher pixi_run = {
    "run",
    "qve:",
    "quiet verbose environment: manifest-path: frozen locked no-install no-lockfile-update "
    "clean-env skip-deps force-activate color: no-progress as-is",
    0,
    launch_start_by_pixi,
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
     1, start_flock, NULL},
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
     "faketime xargs parallel srun mpirun mpiexec orterun prterun horovodrun su "
     "s6-softlimit "
     "softlimit s6-notifyoncheck start-stop-daemon systemd-inhibit cgexec setarch linux64 watch "
     "heaptrack unbuffer prlimit unshare find opentelemetry-instrument ddtrace-run "
     "newrelic-admin",
     UNREAD, 0, start_first_python, NULL},
    {"runuser script", UNREAD, 0, start_text_or_python, NULL},
    {"busybox toybox", UNREAD, 0, start_busybox, NULL},
};

/* Reads options and operands, and goes on with what is left. */
static int start_row(struct launch_start *s, const char *name, const struct launcher *row,
                     const given_list *before, const launch_words *w)
{
    struct parser p = {.s = s, .row = row, .w = w, .given = *before};
    if (row->shorts && !launch_launcher_take_options(&p)) {
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
    launch_words_cut(&rest, p.at);
    if (row->run) {
        bool runs = rest.n && strcmp(rest.items[0], "run") == 0;
        launch_words_cut(&rest, 1);
        return runs ? start_row(s, name, row->run, &p.given, &rest) : launch_start_unseen(s, NULL);
    }
    launch_words_cut(&rest, row->operands);
    return row->start ? row->start(s, name, &p.given, &rest) : launch_start_by_words(s, &rest);
}

bool launch_start_launcher(struct launch_start *s, const char *name, const launch_words *w,
                           int *ret)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        if (launch_option_is_in(launchers[i].names, name)) {
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
        if ((launch_option_is_in(python_launchers[i].modules, module) ||
             launch_option_is_in(python_launchers[i].scripts, script)) &&
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
