#include "report/container_forms.h"

#include <stddef.h>
#include <string.h>

/* ------------------------------------------------------------------ tables */

/* How a form is started, stopped, and asked to run something inside. */
static const struct form {
    const char *start;      // of a command
    const char *trial;      // of a command with another program; NULL: the same
    const char *last;       // before the image's name
    bool needs_program;     // it starts nothing by itself
    const char *use, *undo; // of a document
    const char *inside;     // before the words of a trial; NULL: as the command itself
    const char *copy;       // how gpumend comes in, where it is not mounted
} forms[CONTAINER_FORMATS] = {
    [CONTAINER_DOCKER] = {.start = "docker run --rm"},
    [CONTAINER_PODMAN] = {.start = "podman run --rm"},
    [CONTAINER_APPTAINER] = {.start = "apptainer run", .trial = "apptainer exec"},
    [CONTAINER_ENROOT] = {.start = "enroot start"},
    [CONTAINER_PYXIS] = {.start = "srun", .last = "--container-image=", .needs_program = true},
    [CONTAINER_NSPAWN] = {.start = "sudo systemd-nspawn",
                          .last = "--directory=",
                          .needs_program = true},
    [CONTAINER_COMPOSE] = {.use = "docker compose -f compose.yaml up",
                           .undo = "docker compose -f compose.yaml down",
                           .inside = "docker compose",
                           .copy = "-v"},
    [CONTAINER_KUBERNETES] = {.use = "kubectl apply -f app.yaml",
                              .undo = "kubectl delete -f app.yaml",
                              .inside = "kubectl exec pod/app --",
                              .copy = "kubectl cp %s app:/tmp/gpumend"},
    [CONTAINER_DEPLOYMENT] = {.use = "kubectl apply -f app.yaml",
                              .undo = "kubectl delete -f app.yaml",
                              .inside = "kubectl exec deployment/app --"},
    [CONTAINER_CLAIM] = {.use = "kubectl apply -f app.yaml",
                         .undo = "kubectl delete -f app.yaml",
                         .inside = "kubectl exec pod/app --",
                         .copy = "kubectl cp %s app:/tmp/gpumend"},
    [CONTAINER_QUADLET] =
        {.use = "cp app.container ~/.config/containers/systemd/ && systemctl --user "
                "daemon-reload && systemctl --user start app",
         .undo = "systemctl --user stop app; rm ~/.config/containers/systemd/app.container "
                 "&& systemctl --user daemon-reload",
         .inside = "podman exec systemd-app",
         .copy = "podman cp %s systemd-app:/tmp/gpumend"},
    [CONTAINER_DEVCONTAINER] = {.use = "devcontainer up --workspace-folder .",
                                .undo = "rm .devcontainer/devcontainer.json",
                                .inside = "devcontainer exec --workspace-folder ."},
    [CONTAINER_INCUS] =
        {.use = "incus profile create gpumend < gpumend.yaml && incus launch REMOTE:IMAGE "
                "app --profile default --profile gpumend",
         .undo = "incus delete --force app && incus profile delete gpumend",
         .inside = "incus exec app --",
         .copy = "incus file push %s app/tmp/gpumend"},
    [CONTAINER_LXC] = {.use =
                           "sudo cp app.conf /var/lib/lxc/app/config && sudo lxc-execute -n app --",
                       .undo = "sudo lxc-stop -n app",
                       .inside = "sudo lxc-execute -n app --",
                       .copy = "sudo cp %s " CONTAINER_LXC_ROOTFS "/tmp/gpumend"},
    [CONTAINER_DOCKERFILE] = {.use = "docker build -t app:gpumend -f Dockerfile .",
                              .undo = "docker rmi app:gpumend"},
};

/* Of a container that is there already, whose configuration gets further lines. */
static const struct form lxc_there = {
    .use = "sudo sh -c 'cat app.conf >> /var/lib/lxc/app/config' && sudo lxc-start -n app",
    .undo = "sudo lxc-stop -n app, and remove the lines from /var/lib/lxc/app/config",
    .inside = "sudo lxc-attach -n app --"};

static const struct form *form_of(const struct container_settings *s, enum container_format format)
{
    return format == CONTAINER_LXC && !s->made ? &lxc_there : &forms[format];
}

const char *report_form_start(enum container_format format)
{
    return forms[format].start;
}

const char *report_form_before(struct arena *a, const struct container_settings *s,
                               enum container_format format)
{
    const char *text = "";
    for (size_t i = 0; i < s->env.n && format == CONTAINER_PYXIS; i++) {
        text = arena_printf(a, "%s%s%s ", text, i ? "" : "env ",
                            diag_shell_word(a, s->env.items[i].value));
    }
    return text;
}

const char *report_form_end(struct arena *a, const struct container_settings *s,
                            enum container_format format)
{
    const struct form *f = &forms[format];
    return arena_printf(a, "%s%s%s%s", f->last ? f->last : "", diag_shell_word(a, s->subject),
                        f->needs_program ? " " : "", f->needs_program ? s->starts : "");
}

void report_form_use(struct arena *a, const struct container_settings *s,
                     enum container_format format, struct container_item *ret_start,
                     struct container_item *ret_undo)
{
    const struct form *f = form_of(s, format);
    const char *use =
        f->use && ends_with(f->use, " --") ? arena_printf(a, "%s %s", f->use, s->starts) : f->use;
    *ret_start = (struct container_item){use, "puts it into force"};
    *ret_undo = (struct container_item){f->undo, "takes it back"};
}

/* ------------------------------------------------------------------ options */

static void option_add(struct arena *a, report_options *list, const char *flag,
                       const struct container_item *item, const char *suffix)
{
    if (item->value) {
        VEC_PUSH(a, list,
                 (struct report_option){flag, arena_printf(a, "%s%s", item->value, suffix),
                                        item->reason});
    }
}

/* A list of the settings that every item of which becomes an option. */
struct row {
    const char *flag;
    size_t list; // offset of its container_items
    const char *suffix;
};
#define LIST(name) offsetof(struct container_settings, name)

static void options_add_rows(struct arena *a, report_options *list,
                             const struct container_settings *s, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const container_items *items = (const container_items *)((const char *)s + rows[i].list);
        for (size_t k = 0; k < items->n; k++) {
            option_add(a, list, rows[i].flag, &items->items[k], rows[i].suffix);
        }
    }
}

/* Between "docker run" and the image, after the GPUs. */
static const struct row run_rows[] = {{"--device", LIST(devices), ""},
                                      {"--group-add", LIST(groups), ""},
                                      {"--security-opt", LIST(security), ""},
                                      {"-e", LIST(env), ""},
                                      {"-v", LIST(mounts), ":ro"}};

/* Apptainer shares /dev/shm with the host. */
static const struct row exec_rows[] = {{NULL, LIST(gpus), ""},
                                       {"--bind", LIST(devices), ""},
                                       {"--env", LIST(env), ""},
                                       {"--bind", LIST(mounts), ":ro"}};

static const struct row enroot_rows[] = {{"--env", LIST(env), ""},
                                         {"--mount", LIST(mounts), ":none:x-create=auto,bind,ro"}};

static const struct row pod_rows[] = {
    {NULL, LIST(groups), ""}, {NULL, LIST(env), ""}, {NULL, LIST(mounts), ""}};

/* docker reads the value of --gpus as a line of CSV: a list of devices is one field of it. */
static void add_gpus(struct arena *a, report_options *list, const struct container_settings *s)
{
    for (size_t i = 0; i < s->gpus.n; i++) {
        struct container_item item = s->gpus.items[i];
        if (s->by_toolkit && strchr(item.value, ',')) {
            item.value = arena_printf(a, "\"%s\"", item.value);
        }
        option_add(a, list, s->by_toolkit ? "--gpus" : "--device", &item, "");
    }
}

static report_options run_options(struct arena *a, const struct container_settings *s)
{
    report_options list = {0};
    option_add(a, &list, "--runtime", &s->runtime, "");
    add_gpus(a, &list, s);
    options_add_rows(a, &list, s, run_rows, sizeof run_rows / sizeof *run_rows);
    option_add(a, &list, "--shm-size", &s->shm, "");
    return list;
}

static report_options pod_options(struct arena *a, const struct container_settings *s)
{
    report_options list = {0};
    option_add(a, &list, NULL, &s->runtime_class, "");
    option_add(a, &list, NULL, &s->resource, "");
    option_add(a, &list, NULL, &s->selector, "");
    options_add_rows(a, &list, s, pod_rows, sizeof pod_rows / sizeof *pod_rows);
    option_add(a, &list, NULL, &s->shm, "");
    return list;
}

/* Slurm chooses the GPUs; what the image sets wins over this shell's variables unless named. */
static report_options pyxis_options(struct arena *a, const struct container_settings *s)
{
    report_options list = {0};
    const char *names = NULL, *mounts = NULL;
    size_t n = s->pick->all || s->pick->devices.n == 0 ? 1 : s->pick->devices.n;
    for (size_t i = 0; i < s->env.n; i++) {
        struct str rest = str_of(s->env.items[i].value), name = str_cut(&rest, '=');
        names =
            arena_printf(a, "%s%s%.*s", names ? names : "", names ? "," : "", (int)name.n, name.s);
    }
    for (size_t i = 0; i < s->mounts.n; i++) {
        mounts = arena_printf(a, "%s%s%s:ro", mounts ? mounts : "", mounts ? "," : "",
                              s->mounts.items[i].value);
    }
    option_add(
        a, &list, "--gpus=",
        &(struct container_item){s->gpu == CONTAINER_NO_GPU ? NULL : arena_printf(a, "%zu", n),
                                 "the number of GPUs; Slurm chooses which ones"},
        "");
    option_add(a, &list, "--container-env=",
               &(struct container_item){names, "these take precedence over what the image sets"},
               "");
    option_add(a, &list, "--container-mounts=",
               &(struct container_item){mounts, "libraries that the image lacks and the host has"},
               "");
    return list;
}

static report_options nspawn_options(struct arena *a, const struct container_settings *s)
{
    report_options list = {0};
    static const struct row devices[] = {{"--bind=", LIST(devices), ""}};
    static const struct row others[] = {{"--setenv=", LIST(env), ""},
                                        {"--bind-ro=", LIST(mounts), ""}};
    options_add_rows(a, &list, s, devices, 1);
    for (size_t i = 0; i < s->devices.n; i++) {
        option_add(a, &list, "--property=",
                   &(struct container_item){
                       arena_printf(a, "DeviceAllow=%s rw", s->devices.items[i].value),
                       "the container's cgroup forbids every device that is not listed"},
                   "");
    }
    options_add_rows(a, &list, s, others, sizeof others / sizeof *others);
    option_add(a, &list, "--chdir=", &s->folder, "");
    return list;
}

report_options report_form_options(struct arena *a, const struct container_settings *s,
                                   enum container_format format)
{
    report_options list = {0};
    switch (format) {
    case CONTAINER_APPTAINER:
        options_add_rows(a, &list, s, exec_rows, sizeof exec_rows / sizeof *exec_rows);
        return list;
    case CONTAINER_ENROOT:
        options_add_rows(a, &list, s, enroot_rows, sizeof enroot_rows / sizeof *enroot_rows);
        return list;
    case CONTAINER_PYXIS: return pyxis_options(a, s);
    case CONTAINER_NSPAWN: return nspawn_options(a, s);
    case CONTAINER_KUBERNETES:
    case CONTAINER_DEPLOYMENT:
    case CONTAINER_CLAIM: return pod_options(a, s);
    case CONTAINER_DOCKERFILE: return list;
    case CONTAINER_DOCKER:
    case CONTAINER_PODMAN:
    case CONTAINER_COMPOSE:
    case CONTAINER_QUADLET:
    case CONTAINER_DEVCONTAINER:
    case CONTAINER_INCUS:
    case CONTAINER_LXC:
    case CONTAINER_FORMATS: break;
    }
    list = run_options(a, s);
    for (size_t i = 0; i < list.n && !forms[format].start; i++) {
        list.items[i].flag = NULL;
    }
    return list;
}

const char *report_option_text(struct arena *a, const struct report_option *o)
{
    const char *value = diag_shell_word(a, o->value);
    return !o->flag                  ? value
           : ends_with(o->flag, "=") ? arena_printf(a, "%s%s", o->flag, value)
                                     : arena_printf(a, "%s %s", o->flag, value);
}

/* ------------------------------------------------------------------ trials */

static const char *words_text(struct arena *a, const struct container_trial *t, size_t from)
{
    const char *text = "";
    for (size_t i = from; i < t->words.n; i++) {
        text = arena_printf(a, "%s %s", text, diag_shell_word(a, t->words.items[i]));
    }
    return text;
}

/* The command itself with another program. */
static const char *command_trial(struct arena *a, const struct container_settings *s,
                                 enum container_format format, const struct container_trial *t)
{
    static const char *const mounts[CONTAINER_FORMATS] = {
        [CONTAINER_DOCKER] = "-v %s:%s:ro",
        [CONTAINER_PODMAN] = "-v %s:%s:ro",
        [CONTAINER_APPTAINER] = "--bind %s:%s:ro",
        [CONTAINER_ENROOT] = "--mount %s:%s:none:x-create=auto,bind,ro",
        [CONTAINER_PYXIS] = "--container-mounts=%s:%s:ro",
        [CONTAINER_NSPAWN] = "--bind-ro=%s:%s"};
    report_options list = report_form_options(a, s, format);
    const struct form *f = &forms[format];
    const char *text = f->trial ? f->trial : f->start, *name = diag_shell_word(a, s->subject);
    text = arena_printf(a, "%s%s", report_form_before(a, s, format), text);
    for (size_t i = 0; i < list.n; i++) {
        text = arena_printf(a, "%s %s", text, report_option_text(a, &list.items[i]));
    }
    if (t->needs_gpumend && mounts[format]) {
        struct str rest = str_of(mounts[format]);
        struct str head = {rest.s, str_find(rest, "%s:%s")};
        text = arena_printf(a, "%s %.*s%s:%s%s", text, (int)head.n, head.s, s->program,
                            CONTAINER_PROGRAM, rest.s + head.n + strlen("%s:%s"));
    }
    if (format == CONTAINER_DOCKER || format == CONTAINER_PODMAN) {
        return arena_printf(a, "%s --entrypoint %s %s%s", text,
                            diag_shell_word(a, t->words.items[0]), name, words_text(a, t, 1));
    }
    return arena_printf(a, "%s %s%s%s", text, f->last ? f->last : "", name, words_text(a, t, 0));
}

const char *report_form_trial(struct arena *a, const struct container_settings *s,
                              enum container_format format, const struct container_trial *t)
{
    const struct form *f = form_of(s, format);
    if (f->start) {
        return command_trial(a, s, format, t);
    }
    if (!f->inside || (t->needs_gpumend && !f->copy)) {
        return NULL;
    }
    if (format == CONTAINER_COMPOSE) {
        const char *mount =
            t->needs_gpumend ? arena_printf(a, "-v %s:%s:ro ", s->program, CONTAINER_PROGRAM) : "";
        return arena_printf(a, "docker compose -f compose.yaml run --rm %s--entrypoint %s app%s",
                            mount, diag_shell_word(a, t->words.items[0]), words_text(a, t, 1));
    }
    if (!t->needs_gpumend) {
        return arena_printf(a, "%s%s", f->inside, words_text(a, t, 0));
    }
    struct str copy = str_of(f->copy);
    size_t at = str_find(copy, "%s");
    return arena_printf(a, "%.*s%s%s && %s /tmp/gpumend%s", (int)at, copy.s, s->program,
                        copy.s + at + 2, f->inside, words_text(a, t, 1));
}

/* ------------------------------------------------------------------ lines */

/* A value of a unit: quoted, with what systemd would expand taken literally. Podman's generator
 * puts the value into ExecStart as it is (5.6.2), where systemd expands variables
 * (systemd.service(5)). */
static const char *unit_word(struct arena *a, const char *value)
{
    const char *out = "";
    for (const char *s = value; *s;) {
        size_t n = strcspn(s, "\"\\%$");
        const char *escape = !s[n] ? "" : s[n] == '%' ? "%" : s[n] == '$' ? "$" : "\\";
        out = arena_printf(a, "%s%.*s%s%.*s", out, (int)n, s, escape, s[n] ? 1 : 0, s + n);
        s += n + (s[n] ? 1 : 0);
    }
    return arena_printf(a, "\"%s\"", out);
}

static const char *add_lines(struct arena *a, const char *text, const char *key,
                             const container_items *items, const char *suffix, bool quoted)
{
    for (size_t i = 0; i < items->n; i++) {
        const char *value = items->items[i].value;
        text =
            arena_printf(a, "%s%s%s%s\n", text, key, quoted ? unit_word(a, value) : value, suffix);
    }
    return text;
}

/* podman-systemd.unit(5) */
static const char *quadlet(struct arena *a, const struct container_settings *s)
{
    const char *text = arena_printf(a, "[Container]\nImage=%s\n", s->subject);
    text = add_lines(a, text, "AddDevice=", &s->gpus, "", false);
    text = add_lines(a, text, "AddDevice=", &s->devices, "", false);
    text = add_lines(a, text, "PodmanArgs=--group-add ", &s->groups, "", false);
    text = s->security.n ? arena_printf(a, "%sSecurityLabelDisable=true\n", text) : text;
    text = add_lines(a, text, "Environment=", &s->env, "", true);
    text = add_lines(a, text, "Volume=", &s->mounts, ":ro", false);
    text = s->shm.value ? arena_printf(a, "%sShmSize=%s\n", text, s->shm.value) : text;
    return arena_printf(a, "%s\n[Install]\nWantedBy=default.target\n", text);
}

/* lxc.container.conf(5); lxc.mount.entry is a line of fstab(5) with a target below the root. */
static const char *lxc(struct arena *a, const struct container_settings *s)
{
    const char *text =
        s->made ? "lxc.uts.name = app\nlxc.rootfs.path = dir:" CONTAINER_LXC_ROOTFS "\n" : "";
    text = add_lines(a, text, "lxc.cgroup2.devices.allow = ", &s->allow, "", false);
    for (size_t i = 0; i < s->devices.n; i++) {
        const char *node = s->devices.items[i].value;
        text = arena_printf(a, "%slxc.mount.entry = %s %s none bind,optional,create=file 0 0\n",
                            text, node, node + 1);
    }
    for (size_t i = 0; i < s->mounts.n; i++) {
        struct str to = str_of(s->mounts.items[i].value), from = str_cut(&to, ':');
        text = arena_printf(a, "%slxc.mount.entry = %.*s %.*s none bind,ro,create=file 0 0\n", text,
                            (int)from.n, from.s, (int)to.n - 1, to.s + 1);
    }
    text = s->folder.value ? arena_printf(a, "%slxc.init.cwd = %s\n", text, s->folder.value) : text;
    return add_lines(a, text, "lxc.environment = ", &s->env, "", false);
}

/* What the user of the image cannot do, root does; then it is the user's image again. */
static const char *dockerfile(struct arena *a, const struct container_settings *s)
{
    const char *text = arena_printf(a, "FROM %s\n", s->subject);
    bool user = s->user && container_is_user(s->user) && s->image.n;
    text = user ? arena_printf(a, "%sUSER root\n", text) : text;
    text = add_lines(a, text, "", &s->image, "", false);
    return user ? arena_printf(a, "%sUSER %s\n", text, s->user) : text;
}

const char *report_form_lines(struct arena *a, const struct container_settings *s,
                              enum container_format format)
{
    return format == CONTAINER_QUADLET      ? quadlet(a, s)
           : format == CONTAINER_LXC        ? lxc(a, s)
           : format == CONTAINER_DOCKERFILE ? dockerfile(a, s)
                                            : NULL;
}
