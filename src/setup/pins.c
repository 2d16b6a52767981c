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
#include "plan/solve.h"
#include "py/requirement.h"
#include "setup/internal.h"

enum { AGAINST_MAX = 4 };

struct finder {
    const struct setup_question *q;
    struct arena *a;
    const struct setup_app *app;
    enum choose_device_kind device;
    enum setup_driver_policy policy;
    const char *python;
    struct kb_releases releases;
    struct kb_builds builds;
    struct kb_compats compats;
    struct kb_drivers drivers;
    struct kb_toolkits toolkits;
    struct kb_cudnns cudnns;
    struct kb_rocms rocms;
    unsigned capability;  // ten times; 0: no GPU of NVIDIA's
    const char *toolkit;  // the first CUDA toolkit of the row's major for it; NULL: none is known
    const char *gfx;      // of AMD's GPU, or that of the override; NULL: not AMD's
    const char *override; // HSA_OVERRIDE_GFX_VERSION that `gfx` needs, or NULL
    VEC(struct plan_solve_package *) packages;
};

typedef VEC(struct plan_solve_need) need_list;
typedef VEC(struct plan_solve_release) release_list;

/* ------------------------------------------------------------------ words */

static bool list_has(struct kb_strs list, const char *text)
{
    for (size_t i = 0; i < list.n; i++) {
        if (strcmp(list.items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_among(const char *words, char separator, const char *word)
{
    struct str rest = str_of(words ? words : "");
    while (rest.s && rest.n) {
        struct str one = str_cut(&rest, separator);
        if (str_eq(one, str_of(word))) {
            return true;
        }
    }
    return false;
}

static bool is_newer(const char *one, const char *two)
{
    struct py_version x, y;
    return py_version_parse(str_of(one), &x) && py_version_parse(str_of(two), &y) &&
           py_version_cmp(&x, &y) > 0;
}

/* ------------------------------------------------------------------ the driver */

static const char *driver_floor(const struct finder *f, const char *cuda)
{
    for (size_t i = 0; cuda && i < f->drivers.n; i++) {
        const struct kb_driver *d = &f->drivers.rows[i];
        if (d->kind == KB_DRIVER_MINOR && d->cuda && atoi(d->cuda) == atoi(cuda)) {
            return f->q->machine->windows ? d->windows_min : d->linux_min;
        }
    }
    return NULL;
}

/* The last driver branch of the GPU; NULL: the newest serves it. */
static const char *last_branch(const struct finder *f)
{
    for (size_t i = 0; i < f->drivers.n; i++) {
        const struct kb_driver *d = &f->drivers.rows[i];
        for (size_t k = 0; d->kind == KB_DRIVER_LAST && k < d->sm.n; k++) {
            if (strtoul(d->sm.items[k] + 3, NULL, 10) == f->capability) {
                return d->linux_min;
            }
        }
    }
    return NULL;
}

/* Whether a driver of at least this release can be installed. */
static bool can_install(const struct finder *f, const char *floor)
{
    const struct setup_machine *m = f->q->machine;
    const char *last = last_branch(f);
    unsigned branch = (unsigned)atoi(floor);
    if (last && (unsigned)atoi(last) < branch) {
        return false;
    }
    if (m->host->tegra.is_tegra.state == HOST_YES) {
        return true; // it comes with JetPack, and what is asked for is compiled with JetPack's CUDA
    }
    // The driver of WSL and of Windows is NVIDIA's own download.
    bool own = m->windows || m->host->wsl.is_wsl.state == HOST_YES;
    return f->policy == SETUP_DRIVER_NEWER ||
           (!own && host_install_nvidia(m->host, f->a, m->gpu, branch));
}

/* The first driver of the GPU, where the knowledge base has it; else NULL. */
static const char *first_driver(const struct finder *f)
{
    for (size_t i = 0; i < f->drivers.n; i++) {
        const struct kb_driver *d = &f->drivers.rows[i];
        for (size_t k = 0; d->kind == KB_DRIVER_FIRST && k < d->sm.n; k++) {
            if (strtoul(d->sm.items[k] + 3, NULL, 10) / 10 == f->capability / 10) {
                return f->q->machine->windows ? d->windows_min : d->linux_min;
            }
        }
    }
    return NULL;
}

static const char *newer_of(const char *one, const char *two)
{
    return !two || (one && is_newer(one, two)) ? one : two;
}

/* The oldest driver for a CUDA release on this GPU; `isa` 0: no PTX is compiled. NULL: not known.
 */
static const char *driver_min(const struct finder *f, const char *cuda, unsigned isa)
{
    const char *floor = driver_floor(f, cuda);
    const struct kb_driver *d = isa ? kb_driver_of_isa(f->q->kb, isa) : NULL;
    const char *jit = !d ? NULL : f->q->machine->windows ? d->windows_min : d->linux_min;
    if (!floor || (isa && !jit)) {
        return NULL;
    }
    return newer_of(newer_of(floor, jit), first_driver(f));
}

/* Whether the driver may be this one. What is not known is no permission. */
static bool driver_allows(const struct finder *f, const char *cuda, const char *floor)
{
    const struct setup_machine *m = f->q->machine;
    if (!floor || f->policy == SETUP_DRIVER_DISTRIBUTION || f->policy == SETUP_DRIVER_NEWER) {
        return floor && can_install(f, floor);
    }
    bool modern = f->policy == SETUP_DRIVER_STAYS || atoi(cuda) >= 12;
    return m->driver && modern && kb_driver_reaches(m->driver, floor);
}

/* ------------------------------------------------------------------ builds */

static bool has_builds(const struct finder *f, const char *package)
{
    for (size_t i = 0; i < f->builds.n; i++) {
        if (strcmp(f->builds.rows[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the build can be had for the platform: from the plain package index, or by its label from
 * where PyTorch serves its own. */
static bool is_served(const struct finder *f, const struct kb_build *b)
{
    const char *platform = f->q->machine->platform;
    // Beside torch of another index, what else needs NVIDIA's wheels would need those of that
    // torch, which its row does not say. On Windows torch has its libraries in itself.
    bool torch = strcmp(b->package, "torch") == 0 &&
                 (strcmp(f->app->package, "torch") == 0 || f->q->machine->windows);
    if (b->index_platforms.n ? list_has(b->index_platforms, platform)
                             : b->is_default && strcmp(platform, "linux-x86-64") == 0) {
        return true;
    }
    // Of CTranslate2's builds for ROCm the wheels are attached to its releases.
    if (strcmp(b->package, "ctranslate2") == 0 && b->rocm) {
        return strcmp(f->app->engines, "ctranslate2") == 0 && !f->app->git &&
               list_has(b->platforms, platform);
    }
    // PyTorch's index has wheels for ROCm for Linux x86-64; those for Windows are AMD's (ROCm on
    // Radeon and Ryzen, "PyTorch via PIP installation"), of which no release is known here.
    bool rocm = b->rocm && b->gfx.n && strcmp(platform, "linux-x86-64") == 0;
    // What bitsandbytes needs beside torch, no index of NVIDIA's has.
    torch = torch || (rocm && strcmp(b->package, "torch") == 0 &&
                      strcmp(f->app->package, "bitsandbytes") == 0);
    return torch && (rocm || list_has(b->platforms, platform));
}

static bool is_plain(const struct finder *f, const struct kb_build *b)
{
    return b->index_platforms.n
               ? list_has(b->index_platforms, f->q->machine->platform)
               : b->is_default && strcmp(f->q->machine->platform, "linux-x86-64") == 0;
}

/* The oldest driver with which a build runs on the GPU; NULL: none is known. */
static const char *build_driver(const struct finder *f, const struct kb_build *b)
{
    enum gpu_serves serves = kb_build_serves(b, f->capability, KB_ISA_ANY);
    if (!b->cuda || (serves != GPU_SERVES_NATIVE && serves != GPU_SERVES_JIT)) {
        return NULL;
    }
    unsigned isa = serves == GPU_SERVES_JIT ? kb_isa_number(b->ptx_isa) : 0;
    return serves == GPU_SERVES_JIT && !isa ? NULL : driver_min(f, b->cuda, isa);
}

static bool build_serves_cuda(const struct finder *f, const struct kb_build *b)
{
    return driver_allows(f, b->cuda, build_driver(f, b));
}

/* "3.10-3.14", or one of them. */
static bool python_within(const struct finder *f, const char *range)
{
    struct str rest = str_of(range);
    const char *low = str_dup(f->a, str_cut(&rest, '-'));
    const char *high = rest.s && rest.n ? str_dup(f->a, rest) : low;
    return !is_newer(low, f->python) && !is_newer(f->python, high);
}

/* Whether a ROCm of the major of the build's has libraries for the GPU. */
static bool rocm_lists(const struct finder *f, const char *rocm)
{
    for (size_t i = 0; i < f->rocms.n; i++) {
        const struct kb_rocm *r = &f->rocms.rows[i];
        if (r->kind == KB_ROCM_RELEASE && atoi(r->rocm) == atoi(rocm) && list_has(r->gfx, f->gfx)) {
            return true;
        }
    }
    return false;
}

static bool build_serves_rocm(const struct finder *f, const struct kb_build *b)
{
    return b->rocm && f->gfx && list_has(b->gfx, f->gfx) &&
           (!f->app->rocm || rocm_lists(f, b->rocm)) && (!b->python || python_within(f, b->python));
}

/* The build of a release for the device; NULL: none is known. The plain index's comes first. */
static const struct kb_build *build_of(const struct finder *f, const char *package,
                                       const char *version)
{
    const struct kb_build *best = NULL;
    for (size_t i = 0; i < f->builds.n; i++) {
        const struct kb_build *b = &f->builds.rows[i];
        bool fits =
            strcmp(b->package, package) == 0 && is_served(f, b) &&
            model_version_fits(f->a, b->versions, version) &&
            (f->device == CHOOSE_DEVICE_CUDA ? build_serves_cuda(f, b) : build_serves_rocm(f, b));
        if (fits && (!best || (is_plain(f, b) && !is_plain(f, best)))) {
            best = b;
        }
    }
    return best;
}

/* The first CUDA toolkit of the row's major that lists the GPU; NULL: none does. */
static const char *toolkit_first(const struct finder *f)
{
    const char *first = NULL;
    for (size_t i = 0; f->app->cuda && i < f->toolkits.n; i++) {
        const struct kb_toolkit *t = &f->toolkits.rows[i];
        for (size_t k = 0; atoi(t->cuda) == atoi(f->app->cuda) && k < t->sm.n; k++) {
            if (strtoul(t->sm.items[k] + 3, NULL, 10) == f->capability &&
                (!first || is_newer(first, t->cuda))) {
                first = t->cuda;
            }
        }
    }
    return first;
}

/* CUDA's own compiler makes the code, when the program runs or when it is installed: that of any
 * release of the major which lists the GPU. */
static bool toolkit_serves(const struct finder *f)
{
    return f->toolkit && driver_allows(f, f->app->cuda, driver_min(f, f->app->cuda, 0));
}

static bool is_engine(const struct finder *f, const char *package)
{
    return is_among(f->app->engines, ' ', package);
}

/* Whether the device runs the release of an engine. */
static bool engine_fits(const struct finder *f, const char *package, const char *version)
{
    if (f->device == CHOOSE_DEVICE_CPU || !is_engine(f, package)) {
        return true;
    }
    if (f->device == CHOOSE_DEVICE_CUDA && f->app->code != SETUP_CODE_BUILDS) {
        return toolkit_serves(f);
    }
    return build_of(f, package, version) != NULL;
}

/* Whether a support matrix of cuDNN lists the GPU, or an older one of its generation. */
static bool matrix_lists(const struct finder *f, const struct kb_cudnn *row)
{
    unsigned major = 0, minor = 0;
    for (size_t i = 0; i < row->sm.n; i++) {
        if (sscanf(row->sm.items[i], "%u.%u", &major, &minor) == 2 && major == f->capability / 10 &&
            minor <= f->capability % 10) {
            return true;
        }
    }
    return false;
}

/* Newer releases of cuDNN have nothing for old GPUs: where the newest support matrix that was read
 * does not list the GPU, nothing newer than the newest one that does will do. */
static bool cudnn_fits(const struct finder *f, const struct kb_release *r)
{
    const char *newest = NULL, *lists = NULL;
    if (f->device != CHOOSE_DEVICE_CUDA || strncmp(r->package, "nvidia-cudnn-cu", 15) != 0) {
        return true;
    }
    for (size_t i = 0; i < f->cudnns.n; i++) {
        const struct kb_cudnn *row = &f->cudnns.rows[i];
        if (row->cuda_major == atoi(r->package + 15)) {
            newest = newer_of(row->cudnn, newest);
            lists = matrix_lists(f, row) ? newer_of(row->cudnn, lists) : lists;
        }
    }
    return !lists || !is_newer(newest, lists) ||
           model_version_fits(f->a, arena_printf(f->a, "==%s.*", lists), r->version) ||
           !is_newer(r->version, lists);
}

/* ------------------------------------------------------------------ releases */

static bool wheel_fits(const struct finder *f, const struct kb_release *r)
{
    int minor = 0;
    const char *platform = f->q->machine->platform;
    bool has_platform =
        r->platforms.n ? list_has(r->platforms, platform) : strcmp(platform, "linux-x86-64") == 0;
    bool old_glibc = f->q->machine->glibc_minor && r->glibc && !f->q->machine->windows &&
                     sscanf(r->glibc, "2.%d", &minor) == 1 && minor > f->q->machine->glibc_minor;
    return has_platform && !old_glibc && list_has(r->pythons, f->python);
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

/* Up to 2.10 each torchaudio is for the torch of its number; 2.11 is for that and later ones. */
#define TORCHAUDIO_SOURCE                                                                          \
    "https://docs.pytorch.org/audio/2.11.0/installation.html (Compatibility Matrix)"
static const char *audio_torch(const struct finder *f, const char *version)
{
    const char *dot = strchr(version, '.');
    int minor = dot ? atoi(dot + 1) : 0;
    return minor >= 11 ? ">=2.11" : arena_printf(f->a, "==%d.%d.*", atoi(version), minor);
}

static struct plan_solve_release release_of(const struct finder *f, const struct kb_release *r)
{
    need_list needs = {0};
    bool gpu = f->device != CHOOSE_DEVICE_CPU;
    bool main = strcmp(r->package, f->app->package) == 0;
    const struct kb_build *b =
        gpu && has_builds(f, r->package) ? build_of(f, r->package, r->version) : NULL;
    bool plain = !b || is_plain(f, b);
    const char *source = arena_printf(f->a, "knowledge base, releases/%s", r->id);
    for (size_t i = 0; i < r->n_needs; i++) {
        const struct kb_release_need *n = &r->needs[i];
        bool wanted = !n->extra || (gpu && main && is_among(f->app->extras, ',', n->extra)) ||
                      (gpu && strcmp(n->extra, "with-cuda") == 0);
        if (wanted && condition_holds(f, n->when) &&
            ((plain && gpu) || !is_of_plain_wheel(n->package))) {
            need_add(f, &needs, n->package, n->versions, source);
        }
    }
    if (strcmp(r->package, "torchaudio") == 0) {
        need_add(f, &needs, "torch", audio_torch(f, r->version), TORCHAUDIO_SOURCE);
    }
    if (f->device == CHOOSE_DEVICE_CUDA && plain && is_engine(f, r->package)) {
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
    return is_newer(a->version, b->version) ? -1 : is_newer(b->version, a->version);
}

/* The solver's view of a package, made once for each Python. */
static const struct plan_solve_package *package_of(void *arg, const char *name)
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
    *p = (struct plan_solve_package){.name = name};
    for (size_t i = 0; i < f->releases.n; i++) {
        const struct kb_release *r = &f->releases.rows[i];
        if (strcmp(r->package, name) != 0) {
            continue;
        }
        has_platforms = has_platforms || r->platforms.n;
        p->known = has_platforms; // else nothing is known of it for this platform
        if (wheel_fits(f, r) && engine_fits(f, name, r->version) && cudnn_fits(f, r)) {
            VEC_PUSH(f->a, &list, release_of(f, r));
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
        .find = package_of, .arg = f, .goals = &goal, .n_goals = 1};
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
static const char *label_of(const struct kb_build *b)
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
        const struct kb_build *b = gpu && is_engine(f, c->package->name)
                                       ? build_of(f, c->package->name, c->release->version)
                                       : NULL;
        bool own = b && !is_plain(f, b);
        bool cpu = is_of_cpu_index(f, c->package->name);
        // Its builds are labelled +cpu, which is known of those for x86-64 alone.
        bool x86 = strcmp(f->q->machine->platform, "linux-x86-64") == 0;
        const char *label = cpu && x86 ? "cpu" : own ? label_of(b) : NULL;
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
            ret->driver_min = newer_of(build_driver(f, b), ret->driver_min);
        }
    }
    ret->override = f->override;
    ret->toolkit_min = f->app->code == SETUP_CODE_SOURCE ? f->toolkit : NULL;
    bool tegra = f->q->machine->host->tegra.is_tegra.state == HOST_YES;
    if (f->device == CHOOSE_DEVICE_CUDA && !tegra) {
        ret->driver_last = last_branch(f);
        const char *driver = f->q->machine->driver;
        ret->cuda = ret->cuda ? ret->cuda : f->app->cuda;
        ret->driver_min = ret->driver_min ? ret->driver_min : driver_min(f, ret->cuda, 0);
        ret->driver_newer =
            ret->driver_min && (!driver || !kb_driver_reaches(driver, ret->driver_min));
    }
    ret->python = f->python;
    ret->own_python = f->q->machine->python && strcmp(f->python, f->q->machine->python) == 0;
}

static bool find_for_python(struct finder *f, struct setup_pins *ret)
{
    f->packages.n = 0;
    const struct plan_solve_package *p = package_of(f, package_name(f));
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
        if (r->override && r->verdict == KB_VERDICT_SAME_ISA && list_has(r->gfx, f->gfx) &&
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
    f.toolkit = f.capability ? toolkit_first(&f) : NULL;
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
    return 0;
}
