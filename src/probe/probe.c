#include "probe/probe.h"

#include <string.h>

#include "probe/here.h"
#include "probe/meaning.h"

extern const char probe_packages_py[]; // src/probe/packages.py, embedded by the build

enum { DEVICES_MAX = 64, SLOW_MS = 5000 };

struct session {
    const struct probe_options *o;
    struct model *m;
    struct arena *a;
    struct probe_report *r;
    struct probe_helper helper;
    struct kb_errors errors;
    bool vendors[PROBE_VENDORS]; // that are probed
    const bool *wanted;          // by index in probe_stages
    const char *libcuda, *nvml;  // where the target's loader finds them, or NULL
    const char *const *bare;     // the start environment without what hides devices
    size_t n_bare;
};

const char *probe_verdict_name(enum probe_verdict v)
{
    static const char *const names[] = {[PROBE_WORKS] = "works",
                                        [PROBE_BUSY] = "busy",
                                        [PROBE_CANNOT_TELL] = "cannot-tell",
                                        [PROBE_NO_DRIVER] = "no-driver",
                                        [PROBE_BROKEN] = "broken"};
    return names[v];
}

/* ------------------------------------------------------------------ what is probed */

static const struct host_library *driver_library(const struct host *h, const char *name)
{
    for (size_t i = 0; h && i < h->nvidia.libraries.n; i++) {
        if (strcmp(h->nvidia.libraries.items[i].name, name) == 0) {
            return &h->nvidia.libraries.items[i];
        }
    }
    return NULL;
}

/* Where the target's loader finds a library of the driver, by the model; NULL: it does not, or the
 * target has no program to ask. */
static const char *predicted(const struct session *s, const char *name)
{
    struct model *m = s->m;
    const char *program = m->env ? m->env->executable : m->target_file;
    struct ldso_process *p = program ? ldso_process_new(m->store, s->a, &m->config) : NULL;
    struct gm_err ignored; // a program that cannot be modelled predicts nothing
    if (!p || ldso_start(p, program, &ignored) < 0) {
        return NULL;
    }
    const struct ldso_load *load = ldso_dlopen(p, NULL, name, LDSO_NOW);
    bool good = load && (load->outcome == LDSO_LOADED || load->outcome == LDSO_REUSED);
    return good ? load->path : NULL;
}

/* What the machine shows of a vendor; a host that could not be read shows all. */
static void find_vendors(struct session *s)
{
    const struct host *h = s->m->host;
    bool nvidia = !h, amd = !h;
    for (size_t i = 0; h && i < h->gpus.n; i++) {
        nvidia |= h->gpus.items[i].vendor == HOST_NVIDIA;
        amd |= h->gpus.items[i].vendor == HOST_AMD;
    }
    nvidia |= s->libcuda != NULL || probe_sees_driver(PROBE_NVIDIA);
    amd |= probe_sees_driver(PROBE_AMD);
    nvidia |= h && (h->nvidia.module.state == HOST_YES || driver_library(h, "libcuda.so.1"));
    amd |= h && (h->amd.kfd.state == HOST_YES || h->amd.kfd_node.present.state == HOST_YES);
    s->vendors[PROBE_ANY] = s->vendors[PROBE_CPU] = true;
    s->vendors[PROBE_NVIDIA] = nvidia || !amd;
    s->vendors[PROBE_AMD] = amd || !nvidia;
}

static size_t stage_index(const struct probe_stage *stage)
{
    return (size_t)(stage - probe_stages);
}

static void stage_want(bool *wanted, const struct probe_stage *stage)
{
    // A need stands before what needs it (a unit test says so), so this ends.
    if (!stage || wanted[stage_index(stage)]) {
        return;
    }
    wanted[stage_index(stage)] = true;
    stage_want(wanted, stage->needs ? probe_stage_find(stage->needs) : NULL);
    stage_want(wanted, stage->needs_too ? probe_stage_find(stage->needs_too) : NULL);
}

static const bool *choose_stages(struct session *s)
{
    bool *wanted = arena_array(s->a, probe_n_stages, sizeof *wanted);
    for (size_t i = 0; i < s->o->n_only; i++) {
        stage_want(wanted, probe_stage_find(s->o->only[i]));
    }
    for (size_t i = 0; i < s->o->n_modules; i++) {
        const char *name = arena_printf(s->a, "python-%s", s->o->modules[i]);
        stage_want(wanted, probe_stage_find(name));
    }
    for (size_t i = 0; i < probe_n_stages; i++) {
        const struct probe_stage *stage = &probe_stages[i];
        bool all = s->o->n_only == 0 && !stage->module && (stage->quick || !s->o->quick);
        wanted[i] = (wanted[i] || all) && (s->o->n_only || s->vendors[stage->vendor]);
    }
    return wanted;
}

/* CUDA Programming Guide, "CUDA Environment Variables"; ROCm documentation, "GPU isolation". */
static const char *const hiding[] = {"CUDA_VISIBLE_DEVICES=", "HIP_VISIBLE_DEVICES=",
                                     "ROCR_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL="};

static bool hides(const char *assignment)
{
    for (size_t i = 0; i < sizeof hiding / sizeof *hiding; i++) {
        if (starts_with(assignment, hiding[i])) {
            return true;
        }
    }
    return false;
}

static void clear_hiding(struct session *s)
{
    const char **bare = arena_array(s->a, s->m->config.n_env + 1, sizeof *bare);
    for (size_t i = 0; i < s->m->config.n_env; i++) {
        if (!hides(s->m->config.env[i])) {
            bare[s->n_bare++] = s->m->config.env[i];
        }
    }
    s->bare = bare;
}

/* ------------------------------------------------------------------ one stage */

/* The run of a stage that is the device's, or for all devices; NULL if there was none. */
static const struct probe_run *run_of(const struct session *s, const char *name, int device)
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
    const struct host_library *usual = driver_library(h, "libcuda.so.1");
    const struct probe_run *opened = run_of(s, "driver-opens", -1);
    const struct probe_run *version = strcmp(run->stage->name, "driver-version") == 0
                                          ? run // not among those that ended yet
                                          : run_of(s, "driver-version", -1);
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

static void session_append(struct session *s, struct probe_run run)
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
    const struct host_library *usual = driver_library(h, "libcuda.so.1");
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
    const struct probe_run *start = run_of(s, "driver-init", -1);
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
        const struct probe_run *need = run_of(s, names[i], device);
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

static void run_stage(struct session *s, const struct probe_stage *stage, int device)
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
    session_append(s, run);
}

/* ------------------------------------------------------------------ all stages */

/* How many devices a vendor's runtime counts, by the last stage that said so; -1: not known. */
static int device_count(const struct session *s, enum probe_vendor vendor)
{
    int count = -1;
    for (size_t i = 0; i < s->r->runs.n; i++) {
        const struct probe_run *run = &s->r->runs.items[i];
        const char *text = run->stage->vendor == vendor ? probe_fact(&run->facts, "count") : NULL;
        uint64_t value;
        if (text && run->outcome == PROBE_PASSED && str_u64(str_of(text), &value)) {
            count = (int)(value < DEVICES_MAX ? value : DEVICES_MAX);
        }
    }
    return count;
}

static void run_for_devices(struct session *s, const struct probe_stage *first, size_t n)
{
    int count = device_count(s, first->vendor);
    int from = s->o->device >= 0 ? s->o->device : 0;
    int to = count < 0 || s->o->device >= 0 ? from + 1 : count;
    for (int device = from; device < to; device++) {
        for (size_t i = 0; i < n; i++) {
            if (!s->wanted[stage_index(first + i)]) {
                continue;
            }
            if (count >= 0 && device >= count) {
                session_append(s, (struct probe_run){.stage = first + i,
                                                     .device = device,
                                                     .outcome = PROBE_UNKNOWN,
                                                     .says = arena_printf(s->a,
                                                                          "there is no GPU %d: the "
                                                                          "driver counts %d",
                                                                          device, count)});
                continue;
            }
            run_stage(s, first + i, count < 0 && s->o->device < 0 ? -1 : device);
        }
    }
}

static void run_all(struct session *s)
{
    for (size_t i = 0; i < probe_n_stages;) {
        const struct probe_stage *stage = &probe_stages[i];
        size_t n = 1;
        while (stage->per_device && i + n < probe_n_stages && probe_stages[i + n].per_device &&
               probe_stages[i + n].vendor == stage->vendor) {
            n++;
        }
        if (stage->per_device) {
            run_for_devices(s, stage, n);
        } else if (s->wanted[i]) {
            run_stage(s, stage, -1);
        }
        i += n;
    }
}

/* ------------------------------------------------------------------ findings */

static void add_finding(struct session *s, const char *id, const char *says)
{
    VEC_PUSH(s->a, &s->r->findings, (struct probe_finding){id, says});
}

/* "CUDA_VISIBLE_DEVICES=1" of the start environment; more than one are joined. */
static const char *hiding_variables(const struct session *s)
{
    const char *text = NULL;
    for (size_t i = 0; i < s->m->config.n_env; i++) {
        const char *v = s->m->config.env[i];
        if (hides(v)) {
            text = arena_printf(s->a, "%s%s%s%s", text ? text : "", text ? " and " : "", v,
                                v[strlen(v) - 1] == '=' ? "\"\"" : "");
        }
    }
    return text;
}

static long run_count(const struct probe_run *run)
{
    const char *text = probe_fact(&run->facts, "count");
    uint64_t value;
    return text && str_u64(str_of(text), &value) && value < 1024 ? (long)value : -1;
}

static bool sees(const struct session *s, const struct probe_run *run, const char *uuid)
{
    for (long i = 0; i < run_count(run); i++) {
        const char *other = probe_fact(&run->facts, arena_printf(s->a, "device.%ld.uuid", i));
        if (other && strcmp(uuid, other) == 0) {
            return true;
        }
    }
    return false;
}

/* The GPUs that one run names and the other does not: "NVIDIA A100 (GPU-1), ...". NULL: none, or
 * they have no UUIDs by which to tell. */
static const char *hidden_names(const struct session *s, const struct probe_run *all,
                                const struct probe_run *seen)
{
    const char *text = NULL;
    for (long i = 0; i < run_count(all); i++) {
        const char *uuid = probe_fact(&all->facts, arena_printf(s->a, "device.%ld.uuid", i));
        const char *name = probe_fact(&all->facts, arena_printf(s->a, "device.%ld.name", i));
        if (uuid && !sees(s, seen, uuid)) {
            text = arena_printf(s->a, "%s%s%s (%s)", text ? text : "", text ? ", " : "",
                                name ? name : "a GPU", uuid);
        }
    }
    return text;
}

/* Two inventories, one without and one with the variables of the start environment. */
static void compare_inventories(struct session *s, const struct probe_run *all,
                                const struct probe_run *seen)
{
    long there = run_count(all), visible = run_count(seen);
    const char *variables = hiding_variables(s), *names = hidden_names(s, all, seen);
    if (visible < 0 && seen->outcome == PROBE_FAIL) {
        visible = 0; // the start itself says that there is none
    }
    if (there < 0 || visible < 0 || (visible == there && !names)) {
        return;
    }
    add_finding(s, "devices-hidden",
                arena_printf(s->a,
                             "The driver has %ld GPU%s, but programs see %ld here: %s hides %s.",
                             there, there == 1 ? "" : "s", visible,
                             variables ? variables : "something in the environment",
                             names ? names : "the others"));
}

static void find_hidden(struct session *s)
{
    const struct probe_run *all = NULL;
    for (size_t i = 0; i < s->r->runs.n; i++) {
        const struct probe_run *run = &s->r->runs.items[i];
        if (run->stage->all_devices && run->outcome == PROBE_PASSED && run_count(run) >= 0) {
            all = run;
        } else if (all && run->stage->vendor == all->stage->vendor && run->device < 0 &&
                   !run->stage->all_devices && run->outcome != PROBE_NOT_RUN) {
            compare_inventories(s, all, run);
            all = NULL;
        }
    }
}

/* Said once for all stages, by the driver's start where that was slow. */
static void find_slow(struct session *s)
{
    const struct probe_run *start = run_of(s, "driver-init", -1);
    const char *step = probe_slow_start_step();
    if (start && start->slow) {
        add_finding(s, "driver-starts-slowly",
                    arena_printf(s->a,
                                 "The driver's start (cuInit) took %.1f s, and every program "
                                 "that uses the GPU waits for it.%s%s",
                                 start->ms / 1000.0, step ? " " : "", step ? step : ""));
    }
}

/* What the machine's files say of the GPUs of a vendor whose stages failed, with the next step. */
static void add_host_problems(struct session *s)
{
    const struct probe_run *f = s->r->first_failure;
    const struct host *h = s->m->host;
    enum host_vendor vendor = f && f->stage->vendor == PROBE_AMD ? HOST_AMD : HOST_NVIDIA;
    for (size_t i = 0; f && f->stage->vendor != PROBE_CPU && h && i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        for (size_t k = 0; g->vendor == vendor && k < g->problems.n; k++) {
            const struct host_problem *p = &g->problems.items[k];
            if (p->state != HOST_YES) {
                add_finding(s, p->id,
                            arena_printf(s->a, "%s: %s%s%s.", g->name, p->text,
                                         p->step ? "; next: " : "", p->step ? p->step : ""));
            }
        }
    }
}

/* ------------------------------------------------------------------ the sum */

static enum probe_verdict run_verdict(const struct probe_run *run)
{
    switch (run->outcome) {
    case PROBE_PASSED:
    case PROBE_NOT_RUN: return PROBE_WORKS;
    case PROBE_FAIL: return run->absent ? PROBE_NO_DRIVER : run->busy ? PROBE_BUSY : PROBE_BROKEN;
    case PROBE_CRASHED: return PROBE_BROKEN;
    case PROBE_TIMED_OUT:
    case PROBE_UNKNOWN: return PROBE_CANNOT_TELL;
    }
    return PROBE_CANNOT_TELL;
}

static void sum_up(struct probe_report *r)
{
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        bool bad = run->outcome == PROBE_FAIL || run->outcome == PROBE_CRASHED ||
                   run->outcome == PROBE_TIMED_OUT;
        enum probe_verdict v = run_verdict(run);
        r->verdict = v > r->verdict ? v : r->verdict;
        if (bad && !r->first_failure) {
            r->first_failure = run;
        }
    }
}

int probe_run(const struct probe_options *o, struct probe_report *ret, struct gm_err *err)
{
    struct session s = {.o = o, .m = o->model, .a = o->model->arena, .r = ret};
    *ret = (struct probe_report){0};
    int rc = kb_errors(s.m->kb, &s.errors, err);
    if (rc < 0) {
        return rc;
    }
    probe_helper_open(s.a, s.m->config.env, s.m->config.n_env, &s.helper);
    s.libcuda = predicted(&s, "libcuda.so.1");
    s.nvml = predicted(&s, "libnvidia-ml.so.1");
    find_vendors(&s);
    clear_hiding(&s);
    s.wanted = choose_stages(&s);
    run_all(&s);
    probe_helper_close(&s.helper);
    sum_up(ret);
    find_hidden(&s);
    find_slow(&s);
    add_host_problems(&s);
    return 0;
}
