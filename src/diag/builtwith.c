/*
 * What a library was built with against what it meets: cuDNN's headers, numpy's C API, glibc.
 */
#include <string.h>

#include "diag/internal.h"
#include "model/family.h"
#include "model/gpu.h"
#include "model/package.h"

static bool imports(const struct model_process *p, const char *package)
{
    for (size_t i = 0; i < p->imported.n; i++) {
        if (strcmp(p->imported.items[i], package) == 0) {
            return true;
        }
    }
    return false;
}

static struct py_dist *named_dist(struct diag *d, const char *name)
{
    return d->m->env ? py_env_by_dist(d->m->env, name) : NULL;
}

/* ------------------------------------------------------------------ cuDNN's headers */

/* PyTorch compares major and minor versions when cuDNN is first used and refuses an older one
 * (torch/backends/cudnn/__init__.py, _init). What it was built with is what it pins. */
struct cudnn_pin {
    const char *package; // "nvidia-cudnn-cu12"
    const char *version; // "9.1.0.70"
};

static bool cudnn_pin(struct diag *d, struct cudnn_pin *ret)
{
    const char *specifiers = NULL;
    if (!diag_requirement(d, "torch", "nvidia-cudnn-cu*", &ret->package, &specifiers) ||
        !starts_with(specifiers, "==") || strpbrk(specifiers, ",*")) {
        return false;
    }
    ret->version = specifiers + 2;
    return true;
}

/* Major and minor of "9.1.0"; false if it has no two numbers. */
static bool two_numbers(const char *version, uint64_t *ret_major, uint64_t *ret_minor)
{
    struct str rest = str_of(version);
    return str_u64(str_cut(&rest, '.'), ret_major) && rest.s &&
           str_u64(str_cut(&rest, '.'), ret_minor);
}

static const struct ldso_object *cudnn_of(const struct model_process *p)
{
    for (size_t i = 0; i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        if (str_glob("libcudnn.so.*", path_base(o->path))) {
            return o;
        }
    }
    return NULL;
}

static void built_with_cudnn(struct diag *d, const struct model_process *p)
{
    struct cudnn_pin pin;
    uint64_t major = 0, minor = 0, run_major = 0, run_minor = 0;
    const char *skip = diag_variable(d, "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK");
    const struct ldso_object *o = imports(p, "torch") ? cudnn_of(p) : NULL;
    const char *path = o ? model_absolute(d->m, o->path) : NULL;
    const char *runs = o ? model_object_version(d->m, o->file, path, KB_VERSION_CUDNN) : NULL;
    if (!runs || (skip && strcmp(skip, "1") == 0) || !cudnn_pin(d, &pin) ||
        !two_numbers(pin.version, &major, &minor) || !two_numbers(runs, &run_major, &run_minor) ||
        run_major != major || run_minor >= minor || diag_cudnn_is_mixed(d, p)) {
        return;
    }
    struct diag_finding *f = diag_add(
        d, DIAG_CUDNN_OLDER_THAN_BUILD, path, path_base(path),
        arena_printf(d->a, "torch was built with cuDNN %s and gets %s: it refuses to use it.",
                     pin.version, runs));
    diag_seen_in(d, f, p);
    f->stage = DIAG_STAGE_USE;
    diag_evidence(d, f, "%s is cuDNN %s, found through %s", path_normal(d->a, path), runs,
                  diag_via(d, o->via, o->via_object));
    diag_evidence(d, f, "torch declares %s==%s", pin.package, pin.version);
    diag_evidence(d, f,
                  "the program then says: cuDNN version incompatibility: PyTorch was compiled "
                  "against (%u, %u, ...) but found runtime version (%u, %u, ...)",
                  (unsigned)major, (unsigned)minor, (unsigned)run_major, (unsigned)run_minor);
    if (f->repairs.n == 0) {
        const char *dir = path_normal(d->a, path_dir(d->a, path));
        bool without = o->via == LDSO_VIA_LIBRARY_PATH && diag_repair_without(d, f, p, dir);
        if (!without && !diag_repair_overwritten(d, f, path)) {
            const struct py_dist *have = named_dist(d, pin.package);
            bool is_listed = have && have->version && strcmp(have->version, pin.version) == 0;
            const char *spec =
                diag_quote(d, arena_printf(d->a, "%s==%s", pin.package, pin.version));
            const char *again =
                is_listed ? arena_printf(d->a, "--force-reinstall --no-deps %s", spec) : spec;
            diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_pip(d, again),
                        "Install the cuDNN that torch was built with.");
        }
    }
}

/* ------------------------------------------------------------------ numpy's C API */

static bool is_extension(const struct ldso_object *o)
{
    const char *name = path_base(o->path);
    return str_glob("*.cpython-*.so", name) || ends_with(name, ".abi3.so") ||
           strcmp(name, "libtorch_python.so") == 0;
}

/* Whether a module with this mark cannot work with the numpy that is there. */
static bool refuses(const struct model_numpy *n, uint64_t major, uint64_t minor)
{
    bool old = n->headers == 1 && major >= 2;
    bool newer = n->headers == 2 && n->target_major > 0 &&
                 (n->target_major > major || (n->target_major == major && n->target_minor > minor));
    return old || newer;
}

static const char *built_against(struct diag *d, const struct model_numpy *n)
{
    return n->headers == 1
               ? "numpy 1.x"
               : arena_printf(d->a, "numpy %u.%u or later", n->target_major, n->target_minor);
}

static void add_numpy(struct diag *d, const struct model_process *p, const struct ldso_object *o,
                      const struct model_numpy *n, const struct py_dist *numpy)
{
    const char *owner = model_owner(d->m, o->path), *name = path_base(o->path);
    bool torch = strcmp(name, "libtorch_python.so") == 0;
    struct diag_finding *f =
        diag_add(d, DIAG_NUMPY_ABI, "numpy", "numpy",
                 arena_printf(d->a, "%s (%s) was built against %s, and numpy %s is installed: %s.",
                              owner ? owner : "an extension module", name, built_against(d, n),
                              numpy->version,
                              torch ? "it is imported, and everything between it and numpy fails"
                                    : "it cannot be imported"));
    if (!torch) {
        f->severity = DIAG_ERROR;
        f->stage = DIAG_STAGE_START;
    } else if (f->evidence.n == 0) {
        f->severity = DIAG_WARNING; // until a module that fails at import comes
        f->stage = DIAG_STAGE_USE;
    }
    diag_seen_in(d, f, p);
    diag_evidence(d, f, "%s holds %s", path_normal(d->a, o->path),
                  n->headers == 1
                      ? "\"numpy.core._multiarray_umath\" and not \"numpy._core._multiarray_umath\""
                      : arena_printf(d->a, "\"NumPy C-API version ... (NumPy %u.%u)\"",
                                     n->target_major, n->target_minor));
    diag_evidence(d, f, "the program then says: %s",
                  n->headers == 1 ? "A module that was compiled using NumPy 1.x cannot be run in "
                                    "NumPy 2 (_ARRAY_API not found)"
                                  : "module was compiled against a newer NumPy C-API version");
    if (f->repairs.n == 0) {
        const char *spec =
            n->headers == 1 ? "numpy<2"
                            : arena_printf(d->a, "numpy>=%u.%u", n->target_major, n->target_minor);
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_pip(d, diag_quote(d, spec)),
                    "Install the numpy that it was built for, or a newer release of %s.",
                    owner ? arena_strndup(d->a, owner, strcspn(owner, " ")) : "the package");
    }
}

static void rule_numpy(struct diag *d, const struct model_process *p)
{
    const struct py_dist *numpy = named_dist(d, "numpy");
    uint64_t major = 0, minor = 0;
    if (!numpy || !numpy->version || !two_numbers(numpy->version, &major, &minor)) {
        return;
    }
    for (size_t i = 0; i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        const struct model_numpy *n = is_extension(o) ? model_numpy_of(d->m, o) : NULL;
        if (n && refuses(n, major, minor)) {
            add_numpy(d, p, o, n, numpy);
        }
    }
}

void diag_rule_built_with(struct diag *d)
{
    for (size_t i = 0; d->m->env && i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (p->ldso) {
            built_with_cudnn(d, p);
            rule_numpy(d, p);
        }
    }
}

/* ------------------------------------------------------------------ glibc */

static const struct kb_release *installed_release(const struct kb_releases *rows,
                                                  const struct py_dist *dist)
{
    for (size_t i = 0; i < rows->n; i++) {
        if (strcmp(rows->rows[i].package, dist->name_normal) == 0 && dist->version &&
            strcmp(rows->rows[i].version, dist->version) == 0) {
            return &rows->rows[i];
        }
    }
    return NULL;
}

/* Systems that are known to have this glibc or a newer one. */
static const char *systems_with(struct diag *d, int minor)
{
    struct kb_glibcs rows;
    struct gm_err err;
    const char *text = "";
    if (kb_glibcs(d->m->kb, &rows, &err) < 0) {
        return text;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_glibc *r = &rows.rows[i];
        if (!r->tag && r->systems && diag_glibc_minor(r->glibc) >= minor) {
            text = arena_printf(d->a, "%s%s%s", text, *text ? ", " : "", r->systems);
        }
    }
    return text;
}

bool diag_repair_glibc(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    const char *owner = model_owner(d->m, x->defect->object->path);
    const struct py_dist *dist =
        owner ? named_dist(d, arena_strndup(d->a, owner, strcspn(owner, " "))) : NULL;
    const char *version = x->defect->version;
    int wanted = version && starts_with(version, "GLIBC_") ? diag_glibc_minor(version + 6) : -1;
    int have = x->process->ldso->glibc_minor;
    struct kb_releases rows;
    struct gm_err err;
    if (!dist || wanted < 0 || have <= 0 || kb_releases(d->m->kb, &rows, &err) < 0) {
        return false;
    }
    const struct kb_release *now = installed_release(&rows, dist);
    const struct kb_release *fits = diag_release_for(d, dist->name_normal, NULL, have);
    f->summary = arena_printf(d->a, "%s %s (%s) needs glibc 2.%d, and this system has 2.%d.",
                              dist->name_normal, dist->version ? dist->version : "",
                              path_base(x->defect->object->path), wanted, have);
    if (now && now->glibc) {
        diag_evidence(d, f, "the wheels of %s %s promise to run with glibc %s and later",
                      dist->name_normal, now->version, now->glibc);
    }
    if (fits && fits->glibc && (!now || strcmp(fits->version, now->version) != 0)) {
        const char *command = diag_release_command(d, false, "", dist->name_normal,
                                                   arena_printf(d->a, "==%s", fits->version));
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, command,
                    "Install %s %s, the newest release known here whose wheels are for glibc %s.",
                    dist->name_normal, fits->version, fits->glibc);
    }
    const char *systems = systems_with(d, wanted);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Use a system or container with glibc 2.%d%s%s%s.",
                wanted, *systems ? " (" : "", systems, *systems ? ")" : "");
    return true;
}
