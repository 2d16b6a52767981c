/* What may be installed here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/finding.h"
#include "kb/serves.h"
#include "plan/knowledge.h"
#include "model/gpu.h"
#include "py/dist.h"
#include "py/requirement.h"

enum { OTHER_BUILDS_MAX = 4 };

/* ------------------------------------------------------------------ the machine */

static void look_at_python(struct plan_knowledge *k)
{
    const struct py_env *env = k->m->env;
    if (env->major < 0 || env->minor < 0) {
        return;
    }
    k->machine.python = arena_printf(k->a, "%d.%d", env->major, env->minor);
    k->machine.python_full =
        env->micro < 0 ? NULL : arena_printf(k->a, "%s.%d", k->machine.python, env->micro);
}

static void look_at_gpus(struct plan_knowledge *k, const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        struct plan_knowledge_gpu gpu = {.name = g->name};
        const char *value = g->compute_capability.value;
        if (g->vendor == HOST_NVIDIA && g->compute_capability.state == HOST_YES && value &&
            sscanf(value, "%u.%u", &gpu.major, &gpu.minor) == 2) {
            VEC_PUSH(k->a, &k->machine.gpus, gpu);
        }
    }
}

static void look_at_driver(struct plan_knowledge *k, const struct host *h)
{
    const struct host_fact *facts[] = {&h->nvidia.module, &h->nvidia.versions_match};
    for (size_t i = 0; i < sizeof facts / sizeof *facts && !k->machine.driver; i++) {
        struct py_version v;
        if (facts[i]->value && py_version_parse(str_of(facts[i]->value), &v)) {
            k->machine.driver = facts[i]->value;
            k->machine.driver_where = facts[i]->where;
        }
    }
}

static void knowledge_look(struct plan_knowledge *k)
{
    look_at_python(k);
    for (size_t i = 0; i < k->m->processes.n && !k->machine.glibc_minor; i++) {
        const struct ldso_process *p = k->m->processes.items[i]->ldso;
        k->machine.glibc_minor = p ? p->glibc_minor : 0;
    }
    if (k->m->host) {
        look_at_gpus(k, k->m->host);
        look_at_driver(k, k->m->host);
    }
}

bool plan_knowledge_open(struct model *m, struct plan_knowledge *ret)
{
    struct gm_err err;
    *ret = (struct plan_knowledge){.m = m, .a = m->arena};
    if (!m->env || kb_releases(m->kb, &ret->releases, &err) < 0 ||
        kb_builds(m->kb, &ret->builds, &err) < 0 || kb_compats(m->kb, &ret->compats, &err) < 0 ||
        kb_cudnns(m->kb, &ret->cudnns, &err) < 0 || kb_drivers(m->kb, &ret->drivers, &err) < 0 ||
        kb_provides(m->kb, &ret->provides, &err) < 0 ||
        kb_toolkits(m->kb, &ret->toolkits, &err) < 0) {
        return false;
    }
    knowledge_look(ret);
    return true;
}

/* ------------------------------------------------------------------ rows */

/* What the package index serves is for CUDA; an installed build for the CPU or for AMD asks for
 * other libraries, and another release would be another build. */
static bool is_other_build(const struct plan_knowledge *k, const char *package)
{
    const struct py_dist *dist = py_env_by_dist(k->m->env, package);
    enum model_build build = dist ? model_build_of_dist(k->m, dist) : MODEL_BUILD_UNKNOWN;
    return build == MODEL_BUILD_CPU || build == MODEL_BUILD_HIP;
}

const struct kb_compat *plan_knowledge_compat(const struct plan_knowledge *k, const char *package,
                                              const char *version)
{
    for (size_t i = 0; i < k->compats.n && !is_other_build(k, package); i++) {
        const struct kb_compat *c = &k->compats.rows[i];
        if (strcmp(c->package, package) == 0 && model_version_fits(k->a, c->versions, version)) {
            return c;
        }
    }
    return NULL;
}

const struct kb_build *plan_knowledge_build(const struct plan_knowledge *k, const char *package,
                                            const char *version)
{
    for (size_t i = 0; i < k->builds.n && !is_other_build(k, package); i++) {
        const struct kb_build *b = &k->builds.rows[i];
        if (b->is_default && strcmp(b->package, package) == 0 &&
            model_version_fits(k->a, b->versions, version)) {
            return b;
        }
    }
    return NULL;
}

static int cuda_major_of_package(const struct plan_knowledge *k, const char *package)
{
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        for (size_t n = 0; n < row->n_providers; n++) {
            if (row->providers[n].manager == KB_MANAGER_PIP &&
                strcmp(row->providers[n].package, package) == 0) {
                return row->cuda_major;
            }
        }
    }
    return -1;
}

const struct kb_provider *plan_knowledge_provider(const struct plan_knowledge *k,
                                                  const char *soname, int cuda_major,
                                                  const struct kb_provide **ret_row)
{
    const struct kb_provider *found = NULL;
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        bool other = cuda_major >= 0 && row->cuda_major >= 0 && row->cuda_major != cuda_major;
        for (size_t n = 0; n < row->n_providers && !other && str_glob(row->soname, soname); n++) {
            const struct kb_provider *v = &row->providers[n];
            if (v->manager == KB_MANAGER_PIP && found && strcmp(found->package, v->package) != 0 &&
                *ret_row != row) {
                return NULL;
            }
            if (v->manager == KB_MANAGER_PIP && !found) {
                found = v;
                *ret_row = row;
            }
        }
    }
    return found;
}

const char *plan_knowledge_folder(const struct plan_knowledge *k, const char *package)
{
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        for (size_t n = 0; n < row->n_providers; n++) {
            const struct kb_provider *v = &row->providers[n];
            if (v->manager == KB_MANAGER_PIP && v->folder && strcmp(v->package, package) == 0) {
                return v->folder;
            }
        }
    }
    return NULL;
}

/* "libcublas.so.12*" -> "libcublas.so.12", if the star is all there is to it. */
static const char *plain_name(struct plan_knowledge *k, const char *glob)
{
    size_t n = strcspn(glob, "*?[");
    return glob[n] == '*' && !glob[n + 1] && n && glob[n - 1] != '.' ? arena_strndup(k->a, glob, n)
                                                                     : NULL;
}

static bool lies_outside(struct plan_knowledge *k, const char *name)
{
    struct model_library *list = NULL;
    size_t n = model_libraries(k->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        if (list[i].usable && !list[i].package && strcmp(list[i].name, name) == 0 &&
            !strstr(list[i].path, "/stubs/") && !diag_serves_other_arm(k->m, list[i].path)) {
            return true;
        }
    }
    return false;
}

bool plan_knowledge_served_otherwise(struct plan_knowledge *k, const char *package)
{
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        for (size_t n = 0; n < row->n_providers; n++) {
            const struct kb_provider *v = &row->providers[n];
            const char *name = v->manager == KB_MANAGER_PIP && strcmp(v->package, package) == 0
                                   ? plain_name(k, row->soname)
                                   : NULL;
            if (name && lies_outside(k, name)) {
                return true;
            }
        }
    }
    return false;
}

/* Seen in what torch pins: 2.5.1, for CUDA 12.4, pins them all to 12.4.*; the versions of the
 * other libraries, and of cuBLAS for CUDA 13, run on their own. */
bool plan_knowledge_numbered_as_cuda(const char *package)
{
    static const char *const names[] = {
        "nvidia-cublas-cu12",  "nvidia-cuda-nvrtc",        "nvidia-cuda-nvrtc-cu12",
        "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-nvjitlink-cu12",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], package) == 0) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ the driver */

static int cmp_versions(const char *a, const char *b)
{
    struct py_version x, y;
    return py_version_parse(str_of(a), &x) && py_version_parse(str_of(b), &y)
               ? py_version_cmp(&x, &y)
               : strcmp(a, b);
}

int plan_knowledge_toolkit_of_driver(const struct plan_knowledge *k, int cuda_major)
{
    int best = -1;
    for (size_t i = 0; i < k->drivers.n && k->machine.driver; i++) {
        const struct kb_driver *d = &k->drivers.rows[i];
        int major = 0, minor = 0;
        if (d->kind == KB_DRIVER_TOOLKIT && d->cuda && d->linux_min &&
            sscanf(d->cuda, "%d.%d", &major, &minor) == 2 && major == cuda_major && minor > best &&
            cmp_versions(d->linux_min, k->machine.driver) <= 0) {
            best = minor;
        }
    }
    return best;
}

static bool compiles_for(const struct kb_toolkit *t, const struct plan_knowledge_gpu *gpu)
{
    char name[32];
    (void)snprintf(name, sizeof name, "sm_%u%u", gpu->major, gpu->minor);
    for (size_t i = 0; i < t->sm.n; i++) {
        if (strcmp(t->sm.items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

int plan_knowledge_toolkit_of_gpus(const struct plan_knowledge *k, int cuda_major)
{
    int least = -1;
    for (size_t i = 0; i < k->toolkits.n && k->machine.gpus.n; i++) {
        const struct kb_toolkit *t = &k->toolkits.rows[i];
        int major = 0, minor = 0;
        bool all = sscanf(t->cuda, "%d.%d", &major, &minor) == 2 && major == cuda_major;
        for (size_t g = 0; g < k->machine.gpus.n && all; g++) {
            all = compiles_for(t, &k->machine.gpus.items[g]);
        }
        least = all && (least < 0 || minor < least) ? minor : least;
    }
    return least;
}

/* ------------------------------------------------------------------ does a release fit */

/* CUDA of a release as a text, "12.4" or "12"; NULL if it is not known or none. */
static const char *cuda_of(const struct plan_knowledge *k, const struct kb_release *r)
{
    if (r->cuda) {
        return r->cuda;
    }
    const struct kb_build *b = plan_knowledge_build(k, r->package, r->version);
    if (b && b->cuda) {
        return b->cuda;
    }
    const struct kb_compat *c = plan_knowledge_compat(k, r->package, r->version);
    int major = c ? c->cuda_major : cuda_major_of_package(k, r->package);
    return major > 0 ? arena_printf(k->a, "%d", major) : NULL;
}

static const char *python_refuses(const struct plan_knowledge *k, const struct kb_release *r)
{
    const struct plan_knowledge_machine *m = &k->machine;
    bool wheel = !m->python || r->pythons.n == 0;
    for (size_t i = 0; i < r->pythons.n && !wheel; i++) {
        wheel = strcmp(r->pythons.items[i], m->python) == 0;
    }
    if (!wheel) {
        return arena_printf(k->a, "no wheel for Python %s", m->python);
    }
    if (m->python_full && r->python && !model_version_fits(k->a, r->python, m->python_full)) {
        return arena_printf(k->a, "for Python %s only, %s is here", r->python, m->python_full);
    }
    return NULL;
}

static const char *glibc_refuses(const struct plan_knowledge *k, const struct kb_release *r)
{
    int minor = 0;
    if (!r->glibc || !k->machine.glibc_minor || sscanf(r->glibc, "2.%d", &minor) != 1 ||
        minor <= k->machine.glibc_minor) {
        return NULL;
    }
    return arena_printf(k->a, "for glibc %s or later, 2.%d is here", r->glibc,
                        k->machine.glibc_minor);
}

static const char *driver_refuses(const struct plan_knowledge *k, const char *cuda)
{
    const char *driver = k->machine.driver;
    const struct kb_driver *least = driver && cuda ? kb_driver_minor(&k->drivers, cuda) : NULL;
    if (!least || cmp_versions(least->linux_min, driver) <= 0) {
        return NULL;
    }
    return arena_printf(k->a, "for CUDA %d, which needs driver %s or later, %s is here", atoi(cuda),
                        least->linux_min, driver);
}

static const char *gpu_refuses(const struct plan_knowledge *k, const struct kb_build *b)
{
    struct kb_isa isa = kb_isa_of_driver(k->m->kb, k->machine.driver);
    for (size_t i = 0; b && b->sm.n && i < k->machine.gpus.n; i++) {
        const struct plan_knowledge_gpu *gpu = &k->machine.gpus.items[i];
        unsigned number = gpu->major * 10 + gpu->minor;
        if (kb_build_serves(b, number, isa) == GPU_SERVES_NONE) {
            return arena_printf(k->a, "no code for sm_%u%s (%s)", number,
                                kb_build_serves(b, number, KB_ISA_ANY) == GPU_SERVES_JIT
                                    ? ", and PTX too new for the driver"
                                    : "",
                                gpu->name ? gpu->name : "the GPU");
        }
    }
    return NULL;
}

/* Code for 8.6 runs on 8.7 and 8.9 as well. */
static bool row_lists_gpu(const struct kb_cudnn *row, const struct plan_knowledge_gpu *gpu)
{
    for (size_t i = 0; i < row->sm.n; i++) {
        unsigned major = 0, minor = 0;
        if (sscanf(row->sm.items[i], "%u.%u", &major, &minor) == 2 && major == gpu->major &&
            minor <= gpu->minor) {
            return true;
        }
    }
    return false;
}

/* Whether the support matrix of this cuDNN has a row that admits the GPU and the driver. */
static bool matrix_admits(const struct plan_knowledge *k, const char *cudnn, int cuda_major,
                          const struct plan_knowledge_gpu *gpu)
{
    for (size_t i = 0; i < k->cudnns.n; i++) {
        const struct kb_cudnn *row = &k->cudnns.rows[i];
        if (row->cuda_major == cuda_major && strcmp(row->cudnn, cudnn) == 0 &&
            row_lists_gpu(row, gpu) &&
            (!k->machine.driver || !row->linux_min ||
             cmp_versions(row->linux_min, k->machine.driver) <= 0)) {
            return true;
        }
    }
    return false;
}

/* The support matrices next to a release, below (or at) it and above it; NULL where there is none.
 * What both of them admit, a release between them is taken to support. */
static void matrices_around(const struct plan_knowledge *k, const struct kb_release *r,
                            int cuda_major, const char **ret_below, const char **ret_above)
{
    *ret_below = *ret_above = NULL;
    for (size_t i = 0; i < k->cudnns.n; i++) {
        const struct kb_cudnn *row = &k->cudnns.rows[i];
        bool below = cmp_versions(row->cudnn, r->version) <= 0;
        const char **best = below ? ret_below : ret_above;
        if (row->cuda_major == cuda_major && atoi(row->cudnn) == atoi(r->version) &&
            (!*best || (cmp_versions(row->cudnn, *best) > 0) == below)) {
            *best = row->cudnn;
        }
    }
}

static const char *cudnn_refuses(const struct plan_knowledge *k, const struct kb_release *r)
{
    if (!starts_with(r->package, "nvidia-cudnn-")) {
        return NULL;
    }
    const char *around[2];
    int cuda_major = cuda_major_of_package(k, r->package);
    matrices_around(k, r, cuda_major, &around[0], &around[1]);
    for (size_t i = 0; i < 2 * k->machine.gpus.n; i++) {
        const struct plan_knowledge_gpu *gpu = &k->machine.gpus.items[i / 2];
        const char *cudnn = around[i % 2];
        if (cudnn && !matrix_admits(k, cudnn, cuda_major, gpu)) {
            return arena_printf(k->a, "cuDNN %s does not support sm_%u%u with this driver", cudnn,
                                gpu->major, gpu->minor);
        }
    }
    return NULL;
}

bool plan_knowledge_surely_runs(const struct plan_knowledge *k, const char *package,
                                const char *version)
{
    const struct kb_build *b = plan_knowledge_build(k, package, version);
    struct kb_isa isa = kb_isa_of_driver(k->m->kb, k->machine.driver);
    for (size_t i = 0; b && i < k->machine.gpus.n; i++) {
        const struct plan_knowledge_gpu *gpu = &k->machine.gpus.items[i];
        enum gpu_serves serves = kb_build_serves(b, gpu->major * 10 + gpu->minor, isa);
        if (serves != GPU_SERVES_NATIVE && serves != GPU_SERVES_JIT) {
            return false;
        }
    }
    return b != NULL;
}

static const char *refuses(const struct plan_knowledge *k, const struct kb_release *r)
{
    const char *why = python_refuses(k, r);
    why = why ? why : glibc_refuses(k, r);
    why = why ? why : driver_refuses(k, cuda_of(k, r));
    why = why ? why : cudnn_refuses(k, r);
    return why ? why : gpu_refuses(k, plan_knowledge_build(k, r->package, r->version));
}

/* The build that the version names itself ("2.5.1+cu121"), else the plain index's. */
static const struct kb_build *build_of_installed(const struct plan_knowledge *k,
                                                 const struct plan_knowledge_package *p)
{
    const char *local = strchr(p->dist->version, '+');
    for (size_t i = 0; i < k->builds.n && local; i++) {
        const struct kb_build *b = &k->builds.rows[i];
        if (strcmp(b->build, local + 1) == 0 && strcmp(b->package, p->solve.name) == 0 &&
            model_version_fits(k->a, b->versions, p->dist->version)) {
            return b;
        }
    }
    return local ? NULL : plan_knowledge_build(k, p->solve.name, p->dist->version);
}

const char *plan_knowledge_refuses_installed(const struct plan_knowledge *k,
                                             const struct plan_knowledge_package *p)
{
    const struct kb_build *b = p->dist ? build_of_installed(k, p) : NULL;
    const struct kb_compat *c =
        p->dist ? plan_knowledge_compat(k, p->solve.name, p->dist->version) : NULL;
    const char *cuda = b && b->cuda             ? b->cuda
                       : c && c->cuda_major > 0 ? arena_printf(k->a, "%d", c->cuda_major)
                                                : NULL;
    const char *why = driver_refuses(k, cuda);
    return why ? why : gpu_refuses(k, b);
}

const char *plan_knowledge_other_builds(struct plan_knowledge *k, const char *package)
{
    const char *out = "";
    size_t n = 0;
    for (size_t i = k->builds.n; i-- > 0 && n < OTHER_BUILDS_MAX;) {
        const struct kb_build *b = &k->builds.rows[i];
        int low = 0, high = 0;
        if (b->is_default || !b->cuda || b->sm.n == 0 || strcmp(b->package, package) != 0 ||
            !b->python || sscanf(b->python, "3.%d-3.%d", &low, &high) != 2 ||
            k->m->env->minor < low || k->m->env->minor > high || driver_refuses(k, b->cuda) ||
            gpu_refuses(k, b)) {
            continue;
        }
        out = arena_printf(k->a, "%s%s%s %s for %s", out, n ? ", " : "", package, b->versions,
                           b->build);
        n++;
    }
    return out;
}

/* ------------------------------------------------------------------ what a release needs */

typedef VEC(struct plan_solve_need) need_list;

static void add_need(struct plan_knowledge *k, need_list *out, const char *package,
                     const char *versions, const char *source, bool library)
{
    struct plan_solve_need need;
    if (plan_solve_need_init(k->a, package, versions, source, &need)) {
        need.strict = need.files = library;
        VEC_PUSH(k->a, out, need);
    }
}

static bool marker_holds(const struct plan_knowledge *k, const struct py_marker *marker)
{
    const struct py_marker_env env = {
        .python_version = k->machine.python,
        .python_full_version = k->machine.python_full,
        .sys_platform = "linux",
        .platform_system = "Linux",
        .os_name = "posix",
        .platform_machine = k->m->env->machine,
        .implementation_name = k->m->env->implementation,
        .platform_python_implementation = "CPython",
    };
    return py_marker_eval(k->a, marker, &env) == PY_YES;
}

static bool condition_holds(const struct plan_knowledge *k, const char *when)
{
    const struct py_marker *marker = NULL;
    struct gm_err err;
    return !when ||
           (py_marker_parse(k->a, str_of(when), &marker, &err) == 0 && marker_holds(k, marker));
}

/* A release that bundles the main cuDNN library needs the others of that very version. */
static const char *cudnn_set(const struct plan_knowledge *k, const struct kb_compat *c,
                             const struct kb_need *need)
{
    size_t dots = 0;
    for (const char *s = c->cudnn; s && *s; s++) {
        dots += *s == '.';
    }
    return !strstr(need->package, "cudnn") || dots < 2
               ? need->versions
               : arena_printf(k->a, dots == 2 ? "==%s.*" : "==%s", c->cudnn);
}

static struct plan_solve_need *said_already(const need_list *list, const char *package)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i].package, package) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

/* What a release asks of libraries by name. Where its metadata has a word on it, that holds. */
static void library_needs(struct plan_knowledge *k, const char *package, const char *version,
                          need_list *out)
{
    const struct kb_compat *c = plan_knowledge_compat(k, package, version);
    const char *source = c ? arena_printf(k->a, "knowledge base, compat/%s", c->id) : NULL;
    for (size_t i = 0; c && i < c->n_needs; i++) {
        const struct kb_need *need = &c->needs[i];
        const char *set = cudnn_set(k, c, need);
        struct plan_solve_need *said = said_already(out, need->package);
        if (said) {
            said->strict = said->files = true;
        } else if (!plan_knowledge_served_otherwise(k, need->package)) {
            add_need(k, out, need->package, set, source, true);
        }
    }
}

static struct plan_solve_release release_of_row(struct plan_knowledge *k,
                                                const struct kb_release *r, bool asks)
{
    need_list needs = {0};
    const char *source = arena_printf(k->a, "knowledge base, releases/%s", r->id);
    for (size_t i = 0; i < r->n_needs; i++) {
        if (!r->needs[i].extra && condition_holds(k, r->needs[i].when)) {
            add_need(k, &needs, r->needs[i].package, r->needs[i].versions, source, false);
        }
    }
    if (asks) {
        library_needs(k, r->package, r->version, &needs);
    }
    return (struct plan_solve_release){r->version, needs.items, needs.n, r->id};
}

static const struct plan_solve_release *release_of_dist(struct plan_knowledge *k,
                                                        struct py_dist *dist, bool asks)
{
    const struct py_metadata *meta = py_dist_metadata(k->m->env, dist);
    need_list needs = {0};
    for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
        struct py_requirement r;
        struct gm_err err;
        if (py_requirement_parse(k->a, meta->requires_dist[i], &r, &err) == 0 && !r.url.n &&
            marker_holds(k, r.marker)) {
            struct plan_solve_need need = {.package = py_name_normal(k->a, r.name),
                                           .set = r.specifiers,
                                           .source = "its metadata",
                                           .versions = ""};
            for (size_t n = 0; n < r.specifiers.n; n++) {
                static const char *const ops[] = {"==", "!=", "~=", "<=", "<", ">=", ">", "==="};
                const struct py_specifier *s = &r.specifiers.items[n];
                need.versions = arena_printf(k->a, "%s%s%s" STR_FMT, need.versions, n ? "," : "",
                                             ops[s->op], STR_ARG(s->text));
            }
            VEC_PUSH(k->a, &needs, need);
        }
    }
    if (asks) {
        library_needs(k, dist->name_normal, dist->version, &needs);
    }
    struct plan_solve_release *out = arena_alloc(k->a, sizeof *out);
    *out = (struct plan_solve_release){dist->version, needs.items, needs.n, NULL};
    return out;
}

/* ------------------------------------------------------------------ one package */

static int newest_first(const void *x, const void *y)
{
    const struct kb_release *a = *(const struct kb_release *const *)x;
    const struct kb_release *b = *(const struct kb_release *const *)y;
    return cmp_versions(b->version, a->version);
}

/* "2.5.1+cu121" and "2.5.1" are one release for pip. */
static bool package_is_installed(const struct plan_knowledge_package *p, const char *version)
{
    const char *have = p->dist ? p->dist->version : NULL;
    size_t n = have ? strcspn(have, "+") : 0;
    return have && strlen(version) == n && strncmp(have, version, n) == 0;
}

static void version_refuse(struct plan_knowledge *k, struct plan_knowledge_package *p,
                           const char *version, const char *reason)
{
    struct plan_knowledge_refusal *last =
        p->refusals.n ? &p->refusals.items[p->refusals.n - 1] : NULL;
    if (last && strcmp(last->reason, reason) == 0) {
        last->first = version;
        return;
    }
    VEC_PUSH(k->a, &p->refusals, (struct plan_knowledge_refusal){version, version, reason});
}

/* Of equal worth otherwise, the driver's own CUDA is better than a newer one. */
static bool beyond_driver(const struct plan_knowledge *k, const char *package, const char *version)
{
    int major = 0, minor = 0;
    if (!plan_knowledge_numbered_as_cuda(package) ||
        sscanf(version, "%d.%d", &major, &minor) != 2) {
        return false;
    }
    int best = plan_knowledge_toolkit_of_driver(k, major);
    return best >= 0 && minor > best;
}

static void collect_releases(struct plan_knowledge *k, struct plan_knowledge_package *p)
{
    VEC(const struct kb_release *) rows = {0};
    VEC(struct plan_solve_release) good = {0};
    VEC(const char *) refused = {0};
    for (size_t i = 0; i < k->releases.n && !is_other_build(k, p->solve.name); i++) {
        if (strcmp(k->releases.rows[i].package, p->solve.name) == 0) {
            VEC_PUSH(k->a, &rows, &k->releases.rows[i]);
        }
    }
    if (rows.n) {
        qsort(rows.items, rows.n, sizeof *rows.items, newest_first);
    }
    for (int beyond = 0; beyond < 2; beyond++) {
        for (size_t i = 0; i < rows.n; i++) {
            const struct kb_release *r = rows.items[i];
            if (package_is_installed(p, r->version) ||
                beyond_driver(k, r->package, r->version) != (beyond == 1)) {
                continue;
            }
            const char *why = refuses(k, r);
            if (why) {
                version_refuse(k, p, r->version, why);
                VEC_PUSH(k->a, &refused, r->version);
            } else {
                VEC_PUSH(k->a, &good, release_of_row(k, r, p->asks));
            }
        }
    }
    p->solve.known = rows.n > 0;
    p->solve.releases = good.items;
    p->solve.n_releases = good.n;
    p->solve.refused = refused.items;
    p->solve.n_refused = refused.n;
}

/* Whether the list names the package already. */
static bool has_collision(const struct plan_solve_collision *list, size_t n, const char *package)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

/* Other packages that put a library of the same name into the same folder. */
static void collect_collisions(struct plan_knowledge *k, struct plan_knowledge_package *p)
{
    VEC(struct plan_solve_collision) list = {0};
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        const char *folder = NULL;
        for (size_t n = 0; n < row->n_providers; n++) {
            const struct kb_provider *v = &row->providers[n];
            bool own = v->manager == KB_MANAGER_PIP && strcmp(v->package, p->solve.name) == 0;
            folder = own ? v->folder : folder;
        }
        for (size_t n = 0; folder && n < row->n_providers; n++) {
            const struct kb_provider *v = &row->providers[n];
            if (v->manager == KB_MANAGER_PIP && v->folder && strcmp(v->folder, folder) == 0 &&
                strcmp(v->package, p->solve.name) != 0 &&
                !has_collision(list.items, list.n, v->package)) {
                VEC_PUSH(k->a, &list, (struct plan_solve_collision){v->package, folder});
            }
        }
    }
    p->solve.collisions = list.items;
    p->solve.n_collisions = list.n;
}

static struct plan_knowledge_package *made_package(struct plan_knowledge *k, const char *name)
{
    for (size_t i = 0; i < k->packages.n; i++) {
        if (strcmp(k->packages.items[i]->solve.name, name) == 0) {
            return k->packages.items[i];
        }
    }
    return NULL;
}

static struct plan_knowledge_package *make_package(struct plan_knowledge *k, const char *name,
                                                   bool asks)
{
    struct plan_knowledge_package *p = arena_alloc(k->a, sizeof *p);
    struct py_dist *dist = py_env_by_dist(k->m->env, name);
    p->solve.name = name;
    p->asks = asks;
    if (dist && dist->version) {
        p->dist = dist;
        p->solve.installed = release_of_dist(k, dist, asks);
    }
    VEC_PUSH(k->a, &k->packages, p);
    collect_releases(k, p);
    collect_collisions(k, p);
    return p;
}

void plan_knowledge_asks(struct plan_knowledge *k, const char *name)
{
    if (!made_package(k, name)) {
        (void)make_package(k, name, true);
    }
}

struct plan_knowledge_package *plan_knowledge_package(struct plan_knowledge *k, const char *name)
{
    struct plan_knowledge_package *p = made_package(k, name);
    return p ? p : make_package(k, name, false);
}

static int packages_by_name(const void *x, const void *y)
{
    return strcmp((*(const struct plan_solve_package *const *)x)->name,
                  (*(const struct plan_solve_package *const *)y)->name);
}

void plan_knowledge_all_installed(struct plan_knowledge *k)
{
    for (size_t i = 0; i < k->m->env->n_dists; i++) {
        const struct py_dist *dist = &k->m->env->dists[i];
        const struct plan_solve_package *p =
            dist->shadowed_by ? NULL : &plan_knowledge_package(k, dist->name_normal)->solve;
        if (p && p->installed) {
            VEC_PUSH(k->a, &k->installed, p);
        }
    }
    if (k->installed.n) {
        qsort(k->installed.items, k->installed.n, sizeof *k->installed.items, packages_by_name);
    }
}
