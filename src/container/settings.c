#include "container/settings.h"

#include <string.h>

#include "container/internal.h"
#include "container/subject.h"
#include "host/manager.h"

bool container_is_user(const char *user)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";
    return *user && *user != '-' && strspn(user, plain) == strlen(user);
}

/* ------------------------------------------------------------------ the application */

static void add_shared_memory(struct container_work *w)
{
    static const char *const many[] = {"vllm", "deepspeed", "sglang"};
    static const char *const some[] = {"torch"};
    const char *who = NULL;
    if (container_uses_package(w->q->model, many, sizeof many / sizeof *many, &who)) {
        w->s->shm =
            (struct container_item){"8g", arena_printf(w->a,
                                                       "%s passes tensors between processes "
                                                       "through /dev/shm, which has 64 MiB by "
                                                       "default",
                                                       who)};
    } else if (container_uses_package(w->q->model, some, sizeof some / sizeof *some, &who)) {
        w->s->shm =
            (struct container_item){"1g", "torch's DataLoader passes batches through /dev/shm, "
                                          "which has 64 MiB by default (\"bus error\" when full)"};
    }
}

static void add_variable(struct container_work *w, const struct diag_variable *v,
                         const char *reason)
{
    if (strcmp(v->name, "LD_LIBRARY_PATH") == 0) {
        container_add(w, &w->path, v->value, reason);
        return;
    }
    const char *old = v->prepend ? container_own_value(w, v->name) : NULL;
    container_set(w, v->name, old && *old ? arena_printf(w->a, "%s:%s", v->value, old) : v->value,
                  reason);
}

/* The LD_LIBRARY_PATH of the specification that the engine reads, or of the one that is to be
 * written first; NULL: it sets none. */
static const char *path_of_specification(const struct container_work *w)
{
    const struct host_engines *x = &w->q->host->engines;
    for (size_t i = 0; i < x->injections.n; i++) {
        if (x->injections.items[i].library_path) {
            return x->injections.items[i].library_path;
        }
    }
    bool other = x->injections.n || x->specification.state == HOST_YES;
    return other || x->toolkit.hook ? NULL : HOST_DRIVER_FOLDER ":" CDI_LIBRARY_FOLDER;
}

static bool has_folder(const char *list, struct str folder)
{
    for (struct str rest = str_of(list); rest.s;) {
        if (str_eq(str_cut(&rest, ':'), folder)) {
            return true;
        }
    }
    return false;
}

/* Engines put the variable of a specification in the place of the command's and of the image's. */
static void note_replaced(struct container_work *w, const char *value)
{
    bool by_name =
        container_format_way(w->q->format) == CONTAINER_BY_NAME && w->s->gpu == CONTAINER_NVIDIA;
    const char *instead = by_name ? path_of_specification(w) : NULL, *lost = NULL;
    for (struct str rest = str_of(instead ? value : NULL); rest.s;) {
        struct str folder = str_cut(&rest, ':');
        if (folder.n && !has_folder(instead, folder)) {
            lost = arena_printf(w->a, "%s%s%.*s", lost ? lost : "", lost ? ":" : "", (int)folder.n,
                                folder.s);
        }
    }
    if (lost) {
        container_note(
            w,
            arena_printf(w->a,
                         "The CDI specification sets LD_LIBRARY_PATH=%s, which replaces this one: "
                         "%s is not searched. With the hooks of NVIDIA's package "
                         "nvidia-container-toolkit-base on the host it sets none (gpumend "
                         "container cdi --refresh).",
                         str_printable(w->a, instead), str_printable(w->a, lost)));
    }
}

/* Folders that are not in the list yet, behind it; *reason goes on with why. */
static const char *path_extend(struct container_work *w, const char *value,
                               const container_items *items, const char **reason)
{
    for (size_t i = 0; i < items->n; i++) {
        const struct container_item *item = &items->items[i];
        bool is_new = false;
        for (struct str rest = str_of(item->value); rest.s;) {
            struct str folder = str_cut(&rest, ':');
            if (!has_folder(value, folder)) {
                is_new = true;
                value = arena_printf(w->a, "%s%s%.*s", value, *value ? ":" : "", (int)folder.n,
                                     folder.s);
            }
        }
        if (is_new) {
            *reason = arena_printf(w->a, "%s%s%s", *reason, **reason ? "; " : "", item->reason);
        }
    }
    return value;
}

/* NAME="VALUE": in double quotes a Dockerfile knows the backslash and variables. */
static const char *env_line(struct arena *a, const char *name, const char *value)
{
    const char *out = "";
    for (const char *s = value; *s;) {
        size_t n = strcspn(s, "\"\\$");
        out =
            arena_printf(a, "%s%.*s%s%.*s", out, (int)n, s, s[n] ? "\\" : "", s[n] ? 1 : 0, s + n);
        s += n + (s[n] ? 1 : 0);
    }
    return arena_printf(a, "ENV %s=\"%s\"", name, out);
}

static const char not_searched[] = "the loader does not look there by itself";

/* One LD_LIBRARY_PATH of all folders, before what the image sets itself: of two, the later one
 * would hide the folders of the other. The image's own is set by a line for it. */
static void set_path(struct container_work *w)
{
    bool build = w->q->format == CONTAINER_DOCKERFILE;
    const char *reason = "", *own = container_own_value(w, "LD_LIBRARY_PATH");
    const char *value = path_extend(w, "", &w->path, &reason);
    value = path_extend(w, value, &w->built, &reason);
    value = own && *own ? arena_printf(w->a, "%s:%s", value, own) : value;
    bool set = w->path.n || (build && w->built.n);
    if (w->built.n && !build) {
        container_add(w, &w->s->image, env_line(w->a, "LD_LIBRARY_PATH", value), not_searched);
    }
    if (set) {
        container_set(w, "LD_LIBRARY_PATH", value, reason);
    }
    note_replaced(w, set ? value : own);
}

/* A command for a build instead of one that asks: no sudo, which images lack and root does not
 * need. NULL: it does not begin with one of these. */
static const char *unattended(struct str command, const char **ret_instead)
{
    if (str_starts(command, "sudo ")) {
        *ret_instead = "";
        return "sudo ";
    }
    if (str_starts(command, "conda install ")) {
        *ret_instead = "conda install -y ";
        return "conda install ";
    }
    for (enum host_manager m = HOST_MANAGER_NONE + 1; m < HOST_MANAGERS; m++) {
        const struct host_manager_words *w = host_manager_words(m);
        size_t n = strlen(w->install);
        if (str_starts(command, w->install) && command.n > n + 1 && command.s[n] == ' ' &&
            !str_starts((struct str){command.s + n + 1, command.n - n - 1}, "-")) {
            *ret_instead = w->build;
            return w->install;
        }
    }
    return NULL;
}

/* Each command of a line; lists of packages are not fetched twice. */
static const char *for_build(struct arena *a, struct str command)
{
    static const char update[] = "apt-get update && ";
    const char *out = "";
    while (command.n) {
        bool starts = !*out || ends_with(out, "&& ") || ends_with(out, "; ");
        const char *instead = NULL, *from = starts ? unattended(command, &instead) : NULL;
        if (from) {
            bool again = starts_with(instead, update) && ends_with(out, update);
            out = arena_printf(a, "%s%s", out, again ? instead + strlen(update) : instead);
            command = (struct str){command.s + strlen(from), command.n - strlen(from)};
        } else {
            size_t n = str_find_char(command, ' ') + 1;
            n = n > command.n ? command.n : n;
            out = arena_printf(a, "%s%.*s", out, (int)n, command.s);
            command = (struct str){command.s + n, command.n - n};
        }
    }
    return out;
}

static bool image_has_program(struct container_work *w, const char *name)
{
    const char *own = container_own_value(w, "PATH");
    struct stat st;
    bool has = false;
    for (struct str rest = str_of(own ? own : "/usr/local/bin:/usr/bin:/bin"); rest.s && !has;) {
        const char *folder = str_dup(w->a, str_cut(&rest, ':'));
        has = root_stat(w->q->model->root, path_join(w->a, folder, name), &st) == 0;
    }
    return has;
}

/* Where an environment was made by uv in an earlier stage of the build, the image has none, and uv
 * is a single program (uv, "Using uv in Docker"). */
static void add_uv(struct container_work *w, const char *command)
{
    if (starts_with(command, "uv ") && !image_has_program(w, "uv")) {
        container_add(w, &w->s->image,
                      "COPY --from=ghcr.io/astral-sh/uv:latest /uv /usr/local/bin/uv",
                      "the image has no uv, and its environment has no pip");
    }
}

/* Whether an earlier line has each word of the command: it installs the same, and more. */
static bool is_done_by_line(const struct container_work *w, const char *command)
{
    bool done = false;
    for (size_t i = 0; i < w->s->image.n && !done; i++) {
        done = true;
        for (struct str rest = str_of(command); rest.s && done;) {
            struct str word = str_cut(&rest, ' ');
            bool found = false;
            for (struct str line = str_of(w->s->image.items[i].value); line.s && !found;) {
                found = str_eq(str_cut(&line, ' '), word);
            }
            done = found;
        }
    }
    return done;
}

/* Lines of a Dockerfile for a command of a shell: what it exports is LD_LIBRARY_PATH
 * (diag_prepend_folders()), a variable of the image. */
static void add_lines(struct container_work *w, const struct diag_repair *repair,
                      const char *summary)
{
    const char *command = repair->command;
    const char *reason =
        repair->before ? arena_printf(w->a, "%s %s", summary, repair->before) : summary;
    struct str rest = str_of(command);
    size_t at = str_find(rest, " && export ");
    struct diag_variable v;
    if (!str_is_seen(command) || strstr(command, "$'")) { // the latter quotes what is no text
        container_note(
            w, "A repair names bytes that are not text, which a Dockerfile cannot hold: it is left "
               "out.");
        return;
    }
    add_uv(w, command);
    const char *run = for_build(w->a, (struct str){command, at});
    if (!is_done_by_line(w, run)) {
        container_add(w, &w->s->image, arena_printf(w->a, "RUN %s", run), reason);
    }
    if (at < rest.n) {
        struct diag_repair tail = {.kind = DIAG_REPAIR_ENV, .command = command + at + 4};
        if (diag_repair_variable(w->a, &tail, &v) && v.value) {
            container_add(w, &w->built, v.value, not_searched);
        }
    }
}

static bool is_mounted(const struct container_work *w, const char *library)
{
    for (size_t i = 0; library && i < w->s->mounts.n; i++) {
        if (strcmp(path_base(w->s->mounts.items[i].value), path_base(library)) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether all libraries at fault are mounted now. */
static bool finding_is_settled(const struct container_work *w, const struct diag_finding *f)
{
    bool settled = is_mounted(w, f->culprit);
    for (size_t i = 0; i < f->likewise.n; i++) {
        settled = settled && is_mounted(w, f->likewise.items[i]);
    }
    return settled;
}

/* What a Dockerfile leaves as it is, and what keeps its lines from being executed. */
static void note_build(struct container_work *w)
{
    const struct diag_report *r = w->q->report;
    struct stat st;
    bool run = false;
    for (size_t i = 0; i < r->findings.n; i++) {
        if (r->findings.items[i]->severity == DIAG_WARNING) {
            container_note(w, arena_printf(w->a, "A warning, which these lines do not repair: %s",
                                           r->findings.items[i]->summary));
        }
    }
    for (size_t i = 0; i < w->s->image.n; i++) {
        run |= starts_with(w->s->image.items[i].value, "RUN ");
    }
    if (run && root_stat(w->q->model->root, "/bin/sh", &st) < 0) {
        container_note(
            w, "The image has no /bin/sh, which RUN lines need: run these commands where the "
               "image is built.");
    }
}

/* Settings that give a program a GPU are of no use to one that was not built for it. */
static void note_build_of_program(struct container_work *w, const struct diag_finding *f)
{
    if (f->severity == DIAG_WARNING && w->q->format != CONTAINER_DOCKERFILE &&
        (f->cause == DIAG_BUILD_OTHER_VENDOR || f->cause == DIAG_BUILD_WITHOUT_GPU)) {
        container_note(w, arena_printf(w->a, "The settings do not repair: %s", f->summary));
    }
}

/* NVIDIA's hook and runtime refuse the container then; engines with a CDI specification do not. */
static void note_requirement(struct container_work *w, const struct diag_finding *f)
{
    enum container_format format = w->q->format;
    bool by_hook = format == CONTAINER_DOCKER || format == CONTAINER_COMPOSE ||
                   format == CONTAINER_DEVCONTAINER || format == CONTAINER_KUBERNETES ||
                   format == CONTAINER_DEPLOYMENT;
    if (f->cause == DIAG_DRIVER_OLD_IMAGE && by_hook) {
        container_note(w, arena_printf(w->a,
                                       "%s NVIDIA_DISABLE_REQUIRE=true starts it without the "
                                       "check, at your own risk.",
                                       f->summary));
    }
}

/* The repairs of what is wrong with the image itself. */
static void repair_image(struct container_work *w)
{
    const struct diag_report *r = w->q->report;
    bool build = w->q->format == CONTAINER_DOCKERFILE; // of an image that runs on other hosts too
    if (!build) {
        container_mount_lacks(w);
    }
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        struct diag_variable v;
        bool done = finding_is_settled(w, f);
        note_requirement(w, f);
        note_build_of_program(w, f);
        if (f->severity != DIAG_ERROR || f->stage == DIAG_STAGE_MACHINE) {
            continue;
        }
        for (size_t k = 0; k < f->repairs.n && !done; k++) {
            const struct diag_repair *repair = &f->repairs.items[k];
            if (repair->kind == DIAG_REPAIR_ENV && diag_repair_variable(w->a, repair, &v) &&
                v.value) {
                add_variable(w, &v, f->summary);
                done = true;
            } else if (repair->kind == DIAG_REPAIR_PACKAGE && repair->command) {
                add_lines(w, repair, f->summary);
                done = true;
            }
        }
        if (!done) {
            container_note(w, arena_printf(w->a,
                                           build ? "These lines do not repair: %s"
                                                 : "The settings do not repair: %s",
                                           f->summary));
        }
    }
    if (build) {
        note_build(w);
    }
}

/* A folder keeps no variables: forms that start one set those of the image. */
static void keep_environment(struct container_work *w)
{
    const struct image *im = w->q->image;
    bool folder = container_format_way(w->q->format) == CONTAINER_BY_PARTS;
    for (size_t i = 0; im && folder && i < im->env.n; i++) {
        struct str value = str_of(im->env.items[i]), name = str_cut(&value, '=');
        bool set = false;
        for (size_t k = 0; k < w->s->env.n; k++) {
            struct str other = str_of(w->s->env.items[k].value);
            set |= str_eq(str_cut(&other, '='), name);
        }
        if (value.s && !set && diag_is_variable_name(name)) {
            container_set(w, str_dup(w->a, name), str_dup(w->a, value), "the image sets it");
        }
    }
}

/* Nor a working directory. A folder that is no text a note leaves out. */
static void keep_folder(struct container_work *w)
{
    const struct image *im = w->q->image;
    bool by_parts = container_format_way(w->q->format) == CONTAINER_BY_PARTS;
    if (!im || !by_parts || !im->folder) {
        return;
    }
    if (!str_is_seen(im->folder)) {
        container_note(w,
                       "The name of the image's working directory is not text, and is left out.");
        return;
    }
    w->s->folder = (struct container_item){im->folder, "the image starts in it"};
}

static bool any_names(const container_items *items, const char *folder)
{
    for (size_t i = 0; i < items->n; i++) {
        if (strstr(items->items[i].value, folder)) {
            return true;
        }
    }
    return false;
}

/* Where no image is known, its paths are taken to be those of the environment on this host. */
static void note_place(struct container_work *w)
{
    const struct py_env *e = w->q->model->env;
    bool here = !w->q->image_path && w->q->model->root->is_host && e && e->prefix;
    if (!here || (!any_names(&w->s->env, e->prefix) && !any_names(&w->s->image, e->prefix) &&
                  !any_names(&w->s->mounts, e->prefix))) {
        return;
    }
    const char *python = e->executable_real;
    bool outside = python && strncmp(python, e->prefix, strlen(e->prefix)) != 0;
    container_note(
        w, arena_printf(w->a,
                        "These settings name a folder of this host: in the image the environment "
                        "must be at %s as well%s%s. For an image that has it elsewhere, name the "
                        "image: gpumend container %s IMAGE",
                        e->prefix, outside ? ", and its Python at " : "", outside ? python : "",
                        container_format_name(w->q->format)));
}

static const char *starts_of(struct container_work *w)
{
    const struct image *im = w->q->image;
    const char *text = NULL;
    for (size_t i = 0; im && i < im->entrypoint.n + im->command.n; i++) {
        const char *word = i < im->entrypoint.n ? im->entrypoint.items[i]
                                                : im->command.items[i - im->entrypoint.n];
        text = arena_printf(w->a, "%s%s%s", text ? text : "", text ? " " : "",
                            diag_shell_word(w->a, word));
    }
    return text && *text != '-' ? text : "COMMAND"; // an option is not a program
}

static void name_subject(struct container_work *w)
{
    struct container_subject subject;
    container_subject(w->q, &subject);
    w->s->subject = subject.name;
    w->s->starts = starts_of(w);
    w->s->made = w->q->image_path != NULL;
    if (subject.first.value) {
        container_add(w, &w->s->first, subject.first.value, subject.first.reason);
    }
    if (subject.undo.value) {
        container_add(w, &w->s->undo, subject.undo.value, subject.undo.reason);
    }
    enum container_way way = container_format_way(w->q->format);
    if (w->q->image_path &&
        (way == CONTAINER_BY_PLUGIN || way == CONTAINER_BY_CLAIM || way == CONTAINER_BY_DEVICE)) {
        container_note(
            w, "The image must be in a registry that the machine that starts it can reach.");
    }
}

void container_settings(const struct container_question *q, struct container_settings *ret)
{
    struct container_work w = {.q = q, .a = q->model->arena, .s = ret};
    *ret = (struct container_settings){0};
    name_subject(&w);
    container_ask(&w);
    add_shared_memory(&w);
    repair_image(&w);
    set_path(&w);
    keep_environment(&w);
    keep_folder(&w);
    for (size_t i = 0; i < ret->env.n && q->format == CONTAINER_DOCKERFILE; i++) {
        struct str value = str_of(ret->env.items[i].value), name = str_cut(&value, '=');
        container_add(&w, &ret->image, env_line(w.a, str_dup(w.a, name), str_dup(w.a, value)),
                      ret->env.items[i].reason);
    }
    note_place(&w);
    container_prove(&w);
    if (q->report->verdict == DIAG_CANNOT_TELL) {
        ret->unsure = true;
        container_note(&w, q->image_path
                               ? "It cannot be determined whether the application of this "
                                 "image works: `gpumend container check` says why."
                               : "It cannot be determined whether this application works: "
                                 "`gpumend check` says why.");
    }
}
