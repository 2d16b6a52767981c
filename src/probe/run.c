/* One stage: whether it is settled before, its child, and what its answer means. */
#include <string.h>

#include "probe/here.h"
#include "probe/meaning.h"
#include "probe/probe.h"
#include "probe/session.h"

extern const char probe_packages_py[]; // src/probe/packages.py, embedded by the build

enum { SLOW_MS = 5000 };

const struct host_library *probe_driver_library(const struct host *h, const char *name)
{
    for (size_t i = 0; h && i < h->nvidia.libraries.n; i++) {
        if (strcmp(h->nvidia.libraries.items[i].name, name) == 0) {
            return &h->nvidia.libraries.items[i];
        }
    }
    return NULL;
}

const struct probe_run *probe_run_of(const struct session *s, const char *name, int device)
{
    const struct probe_run *found = NULL;
    for (size_t i = 0; name && i < s->r->runs.n; i++) {
        const struct probe_run *run = &s->r->runs.items[i];
        if (strcmp(run->stage->name, name) == 0 && (run->device < 0 || run->device == device)) {
            found = run;
        }
    }
    return found;
}

static const struct kb_error *error_row(const struct session *s, const struct probe_run *run)
{
    for (size_t i = 0; i < s->errors.n; i++) {
        const struct kb_error *e = &s->errors.rows[i];
        bool same = run->code_name
                        ? strcmp(e->name, run->code_name) == 0
                        : (int)e->api + 1 == (int)run->stage->api && e->code == run->code;
        if (same) {
            return e;
        }
    }
    return NULL;
}

/* "cuInit failed: CUDA_ERROR_NO_DEVICE (100), the driver sees no GPU" */
static void name_code(const struct session *s, struct probe_run *run)
{
    if (run->outcome != PROBE_FAIL || run->code == 0) {
        return;
    }
    const struct kb_error *row = error_row(s, run);
    run->code_name = row && !run->code_name ? row->name : run->code_name;
    run->says = arena_printf(s->a, "%s: %s%s%ld%s%s%s", run->says,
                             run->code_name ? run->code_name : "error", run->code_name ? " (" : " ",
                             run->code, run->code_name ? ")" : "", row && row->meaning ? ", " : "",
                             row && row->meaning ? row->meaning : "");
}

static const char *known_fact(const struct probe_run *run, const char *key)
{
    const char *value = run ? probe_fact(&run->facts, key) : NULL;
    return value && strcmp(value, "unknown") != 0 ? value : NULL;
}

/* What this stage and those before it have found of the driver's files. */
static struct probe_driver driver_files(const struct session *s, const struct probe_run *run)
{
    const struct host *h = s->m->host;
    const struct host_library *usual = probe_driver_library(h, "libcuda.so.1");
    const struct probe_run *opened = probe_run_of(s, "driver-opens", -1);
    const struct probe_run *version = strcmp(run->stage->name, "driver-version") == 0
                                          ? run // not among those that ended yet
                                          : probe_run_of(s, "driver-version", -1);
    struct probe_driver d = {
        .library = opened ? probe_fact(&opened->facts, "library") : s->libcuda,
        .library_version = known_fact(version, "library.version"),
        .module_version = known_fact(version, "module.version"),
    };
    bool is_usual = usual && d.library &&
                    (strcmp(d.library, usual->path) == 0 || strcmp(d.library, usual->real) == 0);
    d.own = usual && !is_usual && !host_compat_is(h, s->a, usual->real, &h->nvidia.libcuda_compat)
                ? usual->path
                : NULL;
    struct host_compat note = {0};
    if (d.library) {
        host_compat_read(s->m->root, s->a, d.library, &note);
        d.compat = host_compat_is(h, s->a, d.library, &note);
    }
    return d;
}

/* What is to be said of it beside its result. */
static void add_remarks(const struct session *s, struct probe_run *run)
{
    const struct probe_driver driver = driver_files(s, run);
    bool bad = run->outcome == PROBE_FAIL || run->outcome == PROBE_CRASHED;
    run->means = bad && !run->busy ? probe_meaning(s->a, run, &driver) : NULL;
    run->slow = run->outcome == PROBE_PASSED && !run->stage->module && run->ms >= SLOW_MS;
    if (run->slow) {
        run->says = arena_printf(s->a, "%s; slow: it took %.1f s", run->says, run->ms / 1000.0);
    }
}

void probe_session_append(struct session *s, struct probe_run run)
{
    VEC_PUSH(s->a, &s->r->runs, run);
    if (s->o->on_end) {
        s->o->on_end(s->o->arg, &s->r->runs.items[s->r->runs.n - 1]);
    }
}

typedef VEC(const char *) texts;

static void add_argument(struct session *s, texts *list, const char *key, const char *value)
{
    if (value) {
        VEC_PUSH(s->a, list, arena_printf(s->a, "%s=%s", key, value));
    }
}

/* What the machine shows of a driver whose library is missing, as a clause; NULL: nothing. */
static const char *driver_hint(const struct session *s)
{
    const struct host *h = s->m->host;
    if (!h) {
        return NULL;
    }
    bool container = h->container.inside.state == HOST_YES;
    if (h->nvidia.module.state == HOST_YES) {
        return container ? "the kernel module is loaded, so this container was not given the "
                           "driver's libraries"
                         : "the kernel module is loaded, but its libraries are missing";
    }
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_NVIDIA) {
            return arena_printf(s->a, "the machine has an NVIDIA GPU, %s", h->gpus.items[i].name);
        }
    }
    bool complete = h->pci.state == HOST_YES && !container && h->wsl.is_wsl.state == HOST_NO;
    bool windows = h->windows.is_windows.state == HOST_YES;
    return !complete ? NULL
           : windows ? "its registry lists no NVIDIA GPU either"
                     : "the PCI bus shows no NVIDIA GPU either";
}

static void driver_arguments(struct session *s, texts *list)
{
    const struct host *h = s->m->host;
    const struct host_library *usual = probe_driver_library(h, "libcuda.so.1");
    const char *module = h && h->nvidia.module.state == HOST_YES ? h->nvidia.module.value : NULL;
    bool compat = usual && host_compat_is(h, s->a, usual->real, &h->nvidia.libcuda_compat);
    add_argument(s, list, "lib", s->libcuda);
    add_argument(s, list, "nvml", s->nvml);
    add_argument(s, list, "elsewhere", usual ? usual->path : NULL);
    add_argument(s, list, "hint", driver_hint(s));
    add_argument(s, list, "module", module);
    add_argument(s, list, "compat", compat ? "yes" : NULL);
    add_argument(s, list, "version",
                 h && h->windows.nvcuda.state == HOST_YES ? h->windows.nvcuda.value : NULL);
}

static void cpu_arguments(struct session *s, texts *list)
{
    const struct host_cpu *c = s->m->host ? &s->m->host->cpu : NULL;
    if (c && c->isa.state == HOST_YES) {
        add_argument(s, list, "level", arena_printf(s->a, "%u", (unsigned)c->isa.number));
    }
    if (c && c->cores.state == HOST_YES) {
        add_argument(s, list, "threads", arena_printf(s->a, "%u", (unsigned)c->cores.number));
    }
}

/* The target's file for the stage: "/opt/v/libcublas.so.12" for "libcublas.so"; NULL: none. */
static const char *target_library(const struct session *s, const struct probe_stage *stage)
{
    for (size_t i = 0; i < s->o->n_libraries; i++) {
        const struct probe_library *l = &s->o->libraries[i];
        if (l->vendor == stage->vendor &&
            str_eq(model_stem(path_base(l->path)), model_stem(stage->stem))) {
            return l->path;
        }
    }
    return NULL;
}

static texts arguments_of(struct session *s, const struct probe_stage *stage, int device)
{
    texts list = {0};
    add_argument(s, &list, "stage", stage->name);
    if (device >= 0) {
        add_argument(s, &list, "device", arena_printf(s->a, "%d", device));
    }
    if (probe_stage_stem(stage)) {
        add_argument(s, &list, "lib", target_library(s, stage));
        add_argument(s, &list, "driver", stage->vendor == PROBE_NVIDIA ? s->libcuda : NULL);
        for (size_t i = 0; i < s->o->n_libraries; i++) {
            bool its = s->o->libraries[i].vendor == stage->vendor;
            add_argument(s, &list, "load", its ? s->o->libraries[i].path : NULL);
        }
    } else if (stage->vendor == PROBE_NVIDIA) {
        driver_arguments(s, &list);
    } else if (stage->vendor == PROBE_CPU) {
        cpu_arguments(s, &list);
    }
    return list;
}

/* Each process starts the driver for itself, which may take long (several GPUs, no persistence
 * mode): what that took once is not counted. */
static unsigned deadline_of(const struct session *s, const struct probe_stage *stage)
{
    const struct probe_run *start = probe_run_of(s, "driver-init", -1);
    bool starts = stage->vendor == PROBE_NVIDIA && start && start->outcome == PROBE_PASSED;
    return s->o->timeout_ms ? s->o->timeout_ms
                            : probe_stage_deadline_ms(stage) + (starts ? start->ms : 0);
}

static struct probe_child helper_child(struct session *s, const struct probe_stage *stage,
                                       int device)
{
    texts arguments = arguments_of(s, stage, device);
    return (struct probe_child){
        .arguments = arguments.items,
        .n_arguments = arguments.n,
        .env = stage->all_devices ? s->bare : s->m->config.env,
        .n_env = stage->all_devices ? s->n_bare : s->m->config.n_env,
        .deadline_ms = deadline_of(s, stage),
        .stop_fd = s->o->stop_fd,
    };
}

/* The target's own interpreter with packages.py. */
static struct probe_child python_child(struct session *s, const struct probe_stage *stage)
{
    texts arguments = {0}, env = {0};
    VEC_PUSH(s->a, &arguments, "-c");
    VEC_PUSH(s->a, &arguments, probe_packages_py);
    VEC_PUSH(s->a, &arguments, stage->module);
    VEC_PUSH(s->a, &arguments, arena_printf(s->a, "%d", s->o->device));
    VEC_PUSH(s->a, &arguments, s->o->modules_found ? "found" : "named");
    for (size_t i = 0; i < s->m->config.n_env; i++) {
        VEC_PUSH(s->a, &env, s->m->config.env[i]);
    }
    VEC_PUSH(s->a, &env, "PYTHONDONTWRITEBYTECODE=1");
    return (struct probe_child){
        .program = s->m->env->executable,
        .arguments = arguments.items,
        .n_arguments = arguments.n,
        .env = env.items,
        .n_env = env.n,
        .deadline_ms =
            s->o->module_timeout_ms ? s->o->module_timeout_ms : probe_stage_deadline_ms(stage),
        .stop_fd = s->o->stop_fd,
    };
}

static struct probe_run run_child(struct session *s, const struct probe_stage *stage, int device)
{
    struct probe_child child =
        stage->module ? python_child(s, stage) : helper_child(s, stage, device);
    struct probe_answer answer;
    probe_child_run(s->a, &s->helper, &child, &answer);
    s->r->stopped |= answer.stopped;
    return (struct probe_run){
        .stage = stage,
        .device = device,
        .outcome = answer.outcome,
        .code = answer.code,
        .code_name = answer.code_name,
        .signal = answer.signal,
        .sent = answer.sent,
        .ms = answer.ms,
        .says = answer.text,
        .last_call = answer.last_call,
        .busy = probe_fact(&answer.facts, "busy") != NULL,
        .absent = probe_fact(&answer.facts, "absent") != NULL,
        .facts = answer.facts,
        .output = answer.output,
        .left = answer.left,
    };
}

static struct probe_run not_run(const struct probe_stage *stage, int device, const char *because,
                                const char *says)
{
    return (struct probe_run){.stage = stage,
                              .device = device,
                              .outcome = PROBE_NOT_RUN,
                              .because = because,
                              .says = says};
}

/* The run that did not pass and without which the stage is not run; NULL: there is none. */
static const struct probe_run *missing_need(const struct session *s,
                                            const struct probe_stage *stage, int device)
{
    const char *const names[] = {stage->needs, stage->needs_too};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct probe_run *need = probe_run_of(s, names[i], device);
        if (need && !need->absent_here && need->outcome != PROBE_PASSED) {
            return need;
        }
    }
    return NULL;
}

static bool is_its_library(const struct probe_stage *stage, const char *name)
{
    return str_eq(model_stem(path_base(name)), model_stem(stage->stem));
}

static const char *failed_request(const struct ldso_process *p, const struct probe_stage *stage)
{
    for (size_t i = 0; p && i < p->requests.n; i++) {
        const struct ldso_request *r = p->requests.items[i];
        if (r->kind == LDSO_NEEDED && r->outcome == LDSO_NOT_FOUND &&
            is_its_library(stage, r->name)) {
            return r->name;
        }
    }
    return NULL;
}

/* The name by which a process of the target asks for the stage's library, needs it, and does not
 * get it; NULL: none does. */
static const char *asked_in_vain(const struct session *s, const struct probe_stage *stage)
{
    for (size_t i = 0; i < s->m->processes.n; i++) {
        const struct model_process *p = s->m->processes.items[i];
        for (size_t k = 0; k < p->attempts.n; k++) {
            const struct model_attempt *t = &p->attempts.items[k];
            if (t->failed && t->required && t->n_names && is_its_library(stage, t->names[0])) {
                return t->names[0];
            }
        }
        const char *name = failed_request(p->ldso, stage);
        if (name) {
            return name;
        }
    }
    return NULL;
}

/* What is known of a stage without running it; false: it is to be run. */
static bool stage_is_settled(struct session *s, const struct probe_stage *stage, int device,
                             struct probe_run *ret)
{
    const struct probe_run *need = missing_need(s, stage, device);
    bool lacks = probe_stage_stem(stage) && !target_library(s, stage);
    const char *asked = lacks ? asked_in_vain(s, stage) : NULL;
    if (probe_stage_absence(stage)) {
        *ret = not_run(stage, device, NULL, probe_stage_absence(stage));
        ret->absent_here = true;
    } else if (lacks && !asked) {
        *ret = not_run(stage, device, NULL,
                       arena_printf(s->a, "the target does not load %s, so there is nothing to run",
                                    stage->stem));
        ret->no_library = true;
    } else if (need) {
        const char *because = need->because ? need->because : need->stage->name;
        *ret =
            not_run(stage, device, because, arena_printf(s->a, "not run because of %s", because));
    } else if (asked) {
        *ret = (struct probe_run){
            .stage = stage,
            .device = device,
            .outcome = PROBE_FAIL,
            .says = arena_printf(s->a,
                                 "the target needs %s, but the loader does not find it (gpumend "
                                 "check TARGET says why and what to do)",
                                 asked)};
    } else if (stage->module && !(s->m->env && s->m->env->executable)) {
        *ret = (struct probe_run){.stage = stage,
                                  .device = device,
                                  .outcome = PROBE_UNKNOWN,
                                  .says = "the target is not a Python environment"};
    } else {
        return false;
    }
    return true;
}

void probe_run_stage(struct session *s, const struct probe_stage *stage, int device)
{
    struct probe_run run;
    if (s->r->stopped) {
        return;
    }
    if (!stage_is_settled(s, stage, device, &run)) {
        if (s->o->on_start) {
            s->o->on_start(s->o->arg, stage, device);
        }
        run = run_child(s, stage, device);
        name_code(s, &run);
        add_remarks(s, &run);
    }
    probe_session_append(s, run);
}
