/*
 * Releases that fit one another, a GPU and its driver, with the solver of plan/solve.h.
 *
 * The releases of the application are tried one after the other, the newest first, and for each the
 * Pythons. Releases of what it needs are narrowed before: a wheel for the platform, the Python and
 * the glibc; and of what holds code for the GPU, a build that is known to have code for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kb/serves.h"
#include "model/package.h"
#include "py/requirement.h"
#include "setup/finder.h"

enum { AGAINST_MAX = 4 };
typedef VEC(struct plan_solve_need) need_list;
typedef VEC(struct plan_solve_release) release_list;

/* ------------------------------------------------------------------ releases */

static bool wheel_fits(const struct finder *f, const struct kb_release *r)
{
    int minor = 0;
    const char *platform = f->q->machine->platform;
    bool has_platform = r->platforms.n ? setup_list_has(r->platforms, platform)
                                       : strcmp(platform, "linux-x86-64") == 0;
    bool old_glibc = f->q->machine->glibc_minor && r->glibc && !f->q->machine->windows &&
                     sscanf(r->glibc, "2.%d", &minor) == 1 && minor > f->q->machine->glibc_minor;
    return has_platform && !old_glibc && setup_list_has(r->pythons, f->python);
}

static bool condition_holds(const struct finder *f, const char *when)
{
    const struct py_marker *marker = NULL;
    struct gm_err err;
    const struct py_marker_env env = {
        .python_version = f->python,
        .python_full_version = arena_printf(f->a, "%s.0", f->python),
        .sys_platform = f->q->machine->windows ? "win32" : "linux",
        .platform_system = f->q->machine->windows ? "Windows" : "Linux",
        .os_name = f->q->machine->windows ? "nt" : "posix",
        .platform_machine = strstr(f->q->machine->platform, "aarch64") ? "aarch64" : "x86_64",
        .implementation_name = "cpython",
        .platform_python_implementation = "CPython",
    };
    return !when || (py_marker_parse(f->a, str_of(when), &marker, &err) == 0 &&
                     py_marker_eval(f->a, marker, &env) == PY_YES);
}

/* Whether the plan can name a release for the need: one that is known, or the one it is pinned to.
 * Else pip finds one, as for all that metadata declares. */
static bool can_name(const struct finder *f, const struct plan_solve_need *need)
{
    bool pinned =
        need->set.n == 1 && need->set.items[0].op == PY_OP_EQ && !need->set.items[0].prefix;
    for (size_t i = 0; i < f->releases.n && !pinned; i++) {
        pinned = strcmp(f->releases.rows[i].package, need->package) == 0;
    }
    return pinned;
}

static void need_add(const struct finder *f, need_list *list, const char *package,
                     const char *versions, const char *source)
{
    struct plan_solve_need need;
    for (size_t i = 0; i < list->n; i++) {
        bool narrower = versions && *versions && !list->items[i].set.n;
        if (strcmp(list->items[i].package, package) == 0 && !narrower) {
            list->items[i].files = can_name(f, &list->items[i]);
            return;
        }
    }
    if (plan_solve_need_init(f->a, package, versions, source, &need)) {
        need.strict = true;
        VEC_PUSH(f->a, list, need);
    }
}

/* Another index's wheel declares other libraries than the plain one's, of which the row is; on the
 * CPU nothing loads them. */
static bool is_of_plain_wheel(const char *package)
{
    return strncmp(package, "nvidia-", 7) == 0 || strncmp(package, "cuda-", 5) == 0 ||
           strcmp(package, "triton") == 0;
}

/* What the libraries of a release need that its metadata does not say. */
static void compat_needs(const struct finder *f, const struct kb_release *r, need_list *list)
{
    for (size_t i = 0; i < f->compats.n; i++) {
        const struct kb_compat *c = &f->compats.rows[i];
        if (strcmp(c->package, r->package) != 0 ||
            !model_version_fits(f->a, c->versions, r->version)) {
            continue;
        }
        for (size_t k = 0; k < c->n_needs; k++) {
            size_t before = list->n;
            need_add(f, list, c->needs[k].package, c->needs[k].versions,
                     arena_printf(f->a, "knowledge base, compat/%s", c->id));
            for (size_t n = before; n < list->n; n++) {
                list->items[n].files = true;
            }
        }
        return;
    }
}

static struct plan_solve_release pinned_release(const struct finder *f, const struct kb_release *r)
{
    need_list needs = {0};
    bool gpu = f->device != CHOOSE_DEVICE_CPU;
    bool main = strcmp(r->package, f->app->package) == 0;
    const struct kb_build *b =
        gpu && setup_has_builds(f, r->package) ? setup_build_of(f, r->package, r->version) : NULL;
    bool plain = !b || setup_is_plain(f, b);
    const char *source = arena_printf(f->a, "knowledge base, releases/%s", r->id);
    for (size_t i = 0; i < r->n_needs; i++) {
        const struct kb_release_need *n = &r->needs[i];
        bool wanted = !n->extra || (gpu && main && setup_is_among(f->app->extras, ',', n->extra)) ||
                      (gpu && strcmp(n->extra, "with-cuda") == 0);
        if (wanted && condition_holds(f, n->when) &&
            ((plain && gpu) || !is_of_plain_wheel(n->package))) {
            need_add(f, &needs, n->package, n->versions, source);
        }
    }
    // Its modules do not load with NumPy 2, whatever the metadata admits.
    struct plan_solve_need numpy;
    if (r->numpy_abi && strcmp(r->numpy_abi, "1") == 0 &&
        plan_solve_need_init(f->a, "numpy", "<2", source, &numpy)) {
        numpy.strict = numpy.files = true;
        VEC_PUSH(f->a, &needs, numpy);
    }
    if (strcmp(r->package, "torchaudio") == 0) {
        need_add(f, &needs, "torch", model_torchaudio_pair(f->a, r->version),
                 MODEL_TORCHAUDIO_SOURCE);
    }
    if (f->device == CHOOSE_DEVICE_CUDA && plain && setup_is_engine(f, r->package)) {
        compat_needs(f, r, &needs);
    }
    return (struct plan_solve_release){r->version, needs.items, needs.n, r->id};
}

/* What the environment has already comes before newer releases. */
static void present_first(const struct finder *f, const char *package, release_list *list)
{
    const char *have = setup_version_there(f->q, package);
    struct str rest = str_of(have ? have : ""), plain = str_cut(&rest, '+');
    for (size_t i = 0; have && i < list->n; i++) {
        if (str_eq(plain, str_of(list->items[i].version))) {
            struct plan_solve_release one = list->items[i];
            memmove(list->items + 1, list->items, i * sizeof *list->items);
            list->items[0] = one;
            return;
        }
    }
}

static int newest_first(const void *x, const void *y)
{
    const struct plan_solve_release *a = x, *b = y;
    return setup_is_newer(a->version, b->version) ? -1 : setup_is_newer(b->version, a->version);
}

/* The solver's view of a package, made once for each Python. */
static const struct plan_solve_package *find_pinned(void *arg, const char *name)
{
    struct finder *f = arg;
    for (size_t i = 0; i < f->packages.n; i++) {
        if (strcmp(f->packages.items[i]->name, name) == 0) {
            return f->packages.items[i];
        }
    }
    release_list list = {0};
    VEC(const char *) refused = {0};
    bool has_platforms = strcmp(f->q->machine->platform, "linux-x86-64") == 0;
    struct plan_solve_package *p = arena_alloc(f->a, sizeof *p);
    *p = (struct plan_solve_package){.name = name, .newest = setup_is_engine(f, name)};
    for (size_t i = 0; i < f->releases.n; i++) {
        const struct kb_release *r = &f->releases.rows[i];
        if (strcmp(r->package, name) != 0) {
            continue;
        }
        has_platforms = has_platforms || r->platforms.n;
        p->known = has_platforms; // else nothing is known of it for this platform
        /* What is compiled at its installation needs what nobody has said, a compiler to begin
         * with. */
        if (wheel_fits(f, r) && r->compiled_needs.n == 0 &&
            setup_engine_fits(f, name, r->version) && setup_cudnn_fits(f, r)) {
            VEC_PUSH(f->a, &list, pinned_release(f, r));
        } else if (has_platforms) {
            VEC_PUSH(f->a, &refused, r->version);
        }
    }
    if (list.n) {
        qsort(list.items, list.n, sizeof *list.items, newest_first);
        present_first(f, name, &list);
    }
    p->releases = list.items;
    p->n_releases = list.n;
    p->refused = refused.items;
    p->n_refused = refused.n;
    VEC_PUSH(f->a, &f->packages, p);
    return p;
}

/* ------------------------------------------------------------------ the search */

static const char *package_name(const struct finder *f)
{
    return f->device == CHOOSE_DEVICE_CPU && f->app->cpu ? f->app->cpu : f->app->package;
}

static bool solve_release(struct finder *f, const struct plan_solve_package *p,
                          const struct plan_solve_release *r, struct plan_solve_answer *ret)
{
    const struct plan_solve_goal goal = {
        .package = p, .releases = r, .n_releases = 1, .why = "asked for"};
    const struct plan_solve_problem problem = {
        .find = find_pinned, .arg = f, .goals = &goal, .n_goals = 1};
    solve(f->a, &problem, ret);
    return ret->outcome == PLAN_SOLVE_FOUND;
}

static void keep_against(struct finder *f, const struct plan_solve_answer *answer,
                         struct setup_pins *ret)
{
    for (size_t i = 0; i < answer->contradictions.n && ret->against.n < AGAINST_MAX; i++) {
        VEC_PUSH(f->a, &ret->against, answer->contradictions.items[i]);
    }
}

/* An engine that nothing declares (a plugin of an extra) has to be among the pins all the same. */
static bool has_engines(const struct finder *f, const struct plan_solve_answer *answer)
{
    struct str rest = str_of(f->app->engines);
    while (f->device != CHOOSE_DEVICE_CPU && rest.s && rest.n) {
        struct str one = str_cut(&rest, ' ');
        bool has = false;
        for (size_t i = 0; i < answer->changes.n; i++) {
            has = has || str_eq(one, str_of(answer->changes.items[i].package->name));
        }
        if (!has) {
            return false;
        }
    }
    return true;
}

/* Whether torch comes from PyTorch's index `cpu`. The plain index has CPU-only wheels for Windows
 * and wheels for CUDA for Linux; PyTorch's commands for "CPU only" name that index (uv, "Using uv
 * with PyTorch"; pytorch.org, "Previous PyTorch Versions"). */
static bool is_of_cpu_index(const struct finder *f, const char *package)
{
    return f->device == CHOOSE_DEVICE_CPU && strcmp(package, "torch") == 0 &&
           !f->q->machine->windows;
}

static bool is_of_torch(const char *package)
{
    return strcmp(package, "torch") == 0;
}

/* The label in the version of a build that is not the plain index's: CTranslate2's own wheels for
 * ROCm have none. */
static const char *build_label(const struct kb_build *b)
{
    return is_of_torch(b->package) || strchr(b->build, '.') ? b->build : NULL;
}

static void pins_keep(struct finder *f, const struct plan_solve_answer *answer,
                      struct setup_pins *ret)
{
    bool gpu = f->device != CHOOSE_DEVICE_CPU;
    for (size_t i = 0; i < answer->changes.n; i++) {
        const struct plan_solve_change *c = &answer->changes.items[i];
        bool main = strcmp(c->package->name, f->app->package) == 0;
        const struct kb_build *b = gpu && setup_is_engine(f, c->package->name)
                                       ? setup_build_of(f, c->package->name, c->release->version)
                                       : NULL;
        bool own = b && !setup_is_plain(f, b);
        bool cpu = is_of_cpu_index(f, c->package->name);
        // Its builds are labelled +cpu, which is known of those for x86-64 alone.
        bool x86 = strcmp(f->q->machine->platform, "linux-x86-64") == 0;
        const char *label = cpu && x86 ? "cpu" : own ? build_label(b) : NULL;
        struct setup_pin pin = {
            .package = c->package->name,
            .version = label ? arena_printf(f->a, "%s+%s", c->release->version, label)
                             : c->release->version,
            .extras = gpu && main ? f->app->extras : NULL,
            .why = c->why,
            .build = b ? b->build : NULL,
            .row = c->release->row ? arena_printf(f->a, "releases/%s", c->release->row) : NULL};
        VEC_PUSH(f->a, &ret->items, pin);
        ret->build = ret->build ? ret->build : b;
        ret->index = cpu ? "cpu" : own && is_of_torch(b->package) ? b->build : ret->index;
        ret->cuda = ret->cuda ? ret->cuda : b ? b->cuda : NULL;
        if (b && b->cuda && f->device == CHOOSE_DEVICE_CUDA) {
            ret->driver_min = setup_newer_of(setup_build_driver(f, b), ret->driver_min);
        }
    }
    ret->override = f->override;
    ret->toolkit_min = f->app->code == SETUP_CODE_SOURCE ? f->toolkit : NULL;
    bool tegra = f->q->machine->host->tegra.is_tegra.state == HOST_YES;
    if (f->device == CHOOSE_DEVICE_CUDA && !tegra) {
        ret->driver_last = setup_last_branch(f);
        const char *driver = f->q->machine->driver;
        ret->cuda = ret->cuda ? ret->cuda : f->app->cuda;
        ret->driver_min = ret->driver_min ? ret->driver_min : setup_driver_min(f, ret->cuda, 0);
        ret->driver_newer =
            ret->driver_min && (!driver || !kb_driver_reaches(driver, ret->driver_min));
    }
    ret->python = f->python;
    ret->own_python = f->q->machine->python && strcmp(f->python, f->q->machine->python) == 0;
}

static bool find_for_python(struct finder *f, struct setup_pins *ret)
{
    f->packages.n = 0;
    const struct plan_solve_package *p = find_pinned(f, package_name(f));
    for (size_t i = 0; i < p->n_releases; i++) {
        struct plan_solve_answer answer;
        if (solve_release(f, p, &p->releases[i], &answer) && has_engines(f, &answer)) {
            pins_keep(f, &answer, ret);
            return true;
        }
        keep_against(f, &answer, ret);
    }
    return false;
}

/* The machine's own interpreter first; then those that most packages have wheels for. */
static bool find_for_pythons(struct finder *f, struct setup_pins *ret)
{
    static const char *const pythons[] = {"3.12", "3.11", "3.13", "3.10", "3.14", "3.9", "3.8"};
    f->python = f->q->python ? f->q->python : f->q->machine->python;
    if ((f->python && find_for_python(f, ret)) || f->q->python) {
        return ret->items.n > 0;
    }
    for (size_t i = 0; i < sizeof pythons / sizeof *pythons; i++) {
        f->python = pythons[i];
        if (find_for_python(f, ret)) {
            return true;
        }
    }
    return false;
}

/* The target whose code the GPU runs with an override that is known to be safe; NULL: none. */
static const char *override_of(struct finder *f)
{
    unsigned major, minor, step;
    for (size_t i = 0; i < f->rocms.n; i++) {
        const struct kb_rocm *r = &f->rocms.rows[i];
        if (r->override && r->verdict == KB_VERDICT_SAME_ISA && setup_list_has(r->gfx, f->gfx) &&
            sscanf(r->override, "%u.%u.%u", &major, &minor, &step) == 3) {
            f->override = r->override;
            return arena_printf(f->a, "gfx%u%x%x", major, minor, step);
        }
    }
    return NULL;
}

static int areas_load(struct finder *f, struct gm_err *err)
{
    struct kb *kb = f->q->kb;
    int rc = kb_releases(kb, &f->releases, err);
    rc = rc < 0 ? rc : kb_builds(kb, &f->builds, err);
    rc = rc < 0 ? rc : kb_compats(kb, &f->compats, err);
    rc = rc < 0 ? rc : kb_drivers(kb, &f->drivers, err);
    rc = rc < 0 ? rc : kb_cudnns(kb, &f->cudnns, err);
    rc = rc < 0 ? rc : kb_rocms(kb, &f->rocms, err);
    return rc < 0 ? rc : kb_toolkits(kb, &f->toolkits, err);
}

int setup_pins_find(const struct setup_question *q, const struct setup_app *app,
                    enum choose_device_kind device, enum setup_driver_policy policy,
                    struct setup_pins *ret, struct gm_err *err)
{
    struct finder f = {.q = q, .a = q->a, .app = app, .device = device, .policy = policy};
    const struct host_gpu *g = q->machine->gpu;
    unsigned major = 0, minor = 0;
    int rc = areas_load(&f, err);
    *ret = (struct setup_pins){0};
    if (rc < 0 || !q->machine->platform) {
        return rc;
    }
    if (device == CHOOSE_DEVICE_CUDA && g && g->compute_capability.value &&
        sscanf(g->compute_capability.value, "%u.%u", &major, &minor) == 2) {
        f.capability = 10 * major + minor;
    }
    f.toolkit = f.capability ? setup_toolkit_first(&f) : NULL;
    if (device == CHOOSE_DEVICE_ROCM && g) {
        f.gfx = g->gfx.value;
    }
    if ((device != CHOOSE_DEVICE_CUDA || f.capability) && find_for_pythons(&f, ret)) {
        return 0;
    }
    // Kernels for a GPU of the same instructions, which ROCm on Linux is told to take.
    const char *as = f.gfx && !q->machine->windows ? override_of(&f) : NULL;
    if (as) {
        f.gfx = as;
        (void)find_for_pythons(&f, ret);
    }
    ret->gfx = f.gfx;
    ret->override = f.override;
    return 0;
}
