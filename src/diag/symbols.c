/* Libraries that are found and do not fit together, or not this system. */
#include <string.h>

#include "diag/internal.h"

static bool is_runtime_version(const char *version)
{
    return version && (starts_with(version, "GLIBC_") || starts_with(version, "GLIBCXX_") ||
                       starts_with(version, "CXXABI_") || starts_with(version, "GCC_"));
}

/* A provider that a search path brought in: neither the system's, nor of the asker's own folder. */
static bool brought_in(struct diag *d, const struct ldso_defect *e)
{
    const struct ldso_object *provider = e->provider;
    if (!provider || strcmp(path_normal(d->a, path_dir(d->a, provider->path)),
                            path_normal(d->a, path_dir(d->a, e->object->path))) == 0) {
        return false;
    }
    return provider->via == LDSO_VIA_LIBRARY_PATH || provider->via == LDSO_VIA_RPATH ||
           provider->via == LDSO_VIA_RUNPATH || provider->via == LDSO_VIA_PRELOAD;
}

static const char *owner_or_name(struct diag *d, const char *path)
{
    const char *owner = model_owner(d->m, path);
    return owner ? owner : path_base(path);
}

/* ------------------------------------------------------------------ the wrong copy */

/* A RUNPATH comes after LD_LIBRARY_PATH, so another copy's folder there wins, if it fits. */
static void repair_by_other_copy(struct diag *d, struct diag_finding *f,
                                 const struct diag_failure *x, const struct ldso_object *provider)
{
    struct model_library *list = NULL;
    const char *name = provider->soname ? provider->soname : path_base(provider->path);
    size_t n = model_libraries(d->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        struct diag_failure *left = NULL;
        const char *dir = path_dir(d->a, list[i].path);
        if (!list[i].usable || strcmp(list[i].name, name) != 0 ||
            strcmp(list[i].path, provider->path) == 0) {
            continue;
        }
        const char *old = diag_getenv(d, "LD_LIBRARY_PATH");
        const struct model_process *tried =
            diag_replay(d, x->process, old && *old ? arena_printf(d->a, "%s:%s", dir, old) : dir);
        if (tried && diag_failures(d, tried, &left) == 0) {
            diag_repair(d, f, DIAG_REPAIR_ENV, diag_prepend_command(d, dir),
                        "Put the folder of the copy that fits first (tried in the model).");
            return;
        }
    }
}

/* Whether an optional load succeeds without the folder: there may be no other copy, or one that
 * does not fit either. */
static bool is_granted_without(struct diag *d, const struct diag_failure *x, const char *dir)
{
    struct diag_failure *left = NULL;
    const struct model_process *tried = diag_replay(d, x->process, diag_path_without(d, dir));
    return tried && diag_wishes(d, tried, &left) < diag_wishes(d, x->process, &left);
}

static void repair_wrong_copy(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    const struct ldso_object *provider = x->defect->provider;
    const char *dir = path_dir(d->a, provider->path), *entry = path_normal(d->a, dir);
    if (provider->via == LDSO_VIA_LIBRARY_PATH && (!x->wish || is_granted_without(d, x, entry)) &&
        diag_repair_without(d, f, x->process, entry)) {
        return;
    }
    repair_by_other_copy(d, f, x, provider);
    const struct ldso_object *from =
        provider->via_object ? provider->via_object : x->defect->object;
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                "Install releases of %s and %s that belong together, or remove the copy in %s.",
                owner_or_name(d, from->path), path_base(provider->path), dir);
}

static bool via_path_of_object(const struct ldso_object *o)
{
    return o->via == LDSO_VIA_RPATH || o->via == LDSO_VIA_RUNPATH;
}

/* ------------------------------------------------------------------ a version or a symbol */

static enum diag_cause defect_cause(struct diag *d, const struct ldso_defect *e)
{
    if (brought_in(d, e)) {
        return DIAG_LIBRARY_WRONG_COPY;
    }
    if (is_runtime_version(e->version)) {
        return DIAG_GLIBC_TOO_OLD;
    }
    return e->version && e->provider ? DIAG_SYMBOL_VERSION_MISSING : DIAG_UNDEFINED_SYMBOL;
}

static const char *lack_summary(struct diag *d, const struct ldso_defect *e)
{
    const char *object = path_base(e->object->path);
    if (!e->provider) {
        return arena_printf(d->a, "%s needs the symbol %s%s%s, and no loaded library defines it.",
                            object, e->symbol, e->version ? ", version " : "",
                            e->version ? e->version : "");
    }
    const char *what = !e->version  ? e->symbol
                       : !e->symbol ? e->version
                                    : arena_printf(d->a, "%s (%s)", e->version, e->symbol);
    return arena_printf(d->a, "%s needs %s from %s; the copy that is loaded, %s, does not have it.",
                        object, what, path_base(e->provider->path), e->provider->path);
}

static void repair_lack(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    const struct ldso_defect *e = x->defect;
    const char *who = owner_or_name(d, e->object->path);
    if (f->cause == DIAG_LIBRARY_WRONG_COPY) {
        repair_wrong_copy(d, f, x);
    } else if (f->cause == DIAG_GLIBC_TOO_OLD && diag_repair_glibc(d, f, x)) {
        return;
    } else if (f->cause == DIAG_GLIBC_TOO_OLD) {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                    "Install a build of %s for older systems, or use a newer system or container.",
                    who);
    } else if (x->process->ldso->loader.kind == LDSO_MUSL) {
        diag_repair(
            d, f, DIAG_REPAIR_PACKAGE, NULL,
            "Use a build of %s for musl, or run it on a system with glibc: it was built for "
            "glibc, and its interpreter is musl's.",
            who);
    } else {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                    "Install releases that belong together: %s was built against another release "
                    "of %s.",
                    who,
                    e->provider ? owner_or_name(d, e->provider->path) : "what it is linked with");
    }
}

/* A library that is looked at alone may leave symbols to the program that will load it, as
 * extension modules leave those of the interpreter. */
static bool is_left_to_program(const struct diag_failure *x)
{
    const struct ldso_object *main = x->process->ldso->main;
    return !x->defect->provider && !x->defect->version && main->file && !main->file->image.interp &&
           main->file->image.type == ET_DYN;
}

static struct diag_finding *rule_left_to_program(struct diag *d, const struct diag_failure *x)
{
    const struct ldso_defect *e = x->defect;
    const char *object = path_base(e->object->path);
    struct diag_finding *f =
        diag_add(d, DIAG_UNDEFINED_SYMBOL, e->object->path, object,
                 arena_printf(d->a,
                              "%s needs the symbol %s, which the program that loads it has "
                              "to "
                              "define: the library was looked at alone.",
                              object, e->symbol));
    f->severity = DIAG_NOTE;
    return f;
}

static struct diag_finding *rule_lack(struct diag *d, const struct diag_failure *x)
{
    const struct ldso_defect *e = x->defect;
    if (is_left_to_program(x)) {
        return rule_left_to_program(d, x);
    }
    enum diag_cause cause = defect_cause(d, e);
    const char *culprit = path_base(e->provider ? e->provider->path : e->object->path);
    const char *key = arena_printf(d->a, "%s|%s", e->provider ? e->provider->path : "",
                                   cause == DIAG_LIBRARY_WRONG_COPY ? "" : e->object->path);
    struct diag_finding *f = diag_add(d, cause, key, culprit, lack_summary(d, e));
    if (e->provider) {
        const char *owner = model_owner(d->m, e->provider->path);
        diag_evidence(d, f, "%s was found through %s%s%s", e->provider->path,
                      diag_via(d, e->provider->via, e->provider->via_object),
                      owner ? " and belongs to " : "", owner ? owner : "");
    }
    if (cause == DIAG_LIBRARY_WRONG_COPY) {
        f->class = via_path_of_object(e->provider) ? "rpath-shadow" : "ld-library-path-shadow";
    }
    repair_lack(d, f, x);
    return f;
}

/* ------------------------------------------------------------------ one object alone */

static struct diag_finding *rule_exec_stack(struct diag *d, const struct diag_failure *x)
{
    const char *path = path_normal(d->a, model_absolute(d->m, x->defect->object->path));
    const struct ldso_process *p = x->process->ldso;
    struct diag_finding *f = diag_add(
        d, DIAG_EXEC_STACK, path, path_base(path),
        arena_printf(d->a, "%s requires an executable stack, which this glibc (2.%d) refuses.",
                     path_base(path), p->glibc_minor));
    if (p->glibc_minor >= 42) {
        diag_repair(d, f, DIAG_REPAIR_ENV, "export GLIBC_TUNABLES=glibc.rtld.execstack=2",
                    "Allow it at the start of the program.");
    }
    diag_repair(d, f, DIAG_REPAIR_FILE, diag_copy_command(d->a, "patchelf --clear-execstack", path),
                "Clear the mark in the file, or install a release of %s without it.",
                owner_or_name(d, path));
    return f;
}

static struct diag_finding *rule_cpu(struct diag *d, const struct diag_failure *x)
{
    const char *path = x->defect->object->path;
    struct diag_finding *f = diag_add(
        d, DIAG_CPU_LEVEL, path, path_base(path),
        arena_printf(d->a, "%s is built for a newer processor than this one.", path_base(path)));
    if (x->process->ldso->cpu.level) {
        diag_evidence(d, f, "this processor has the level %s",
                      ldso_cpu_level_name(&x->process->ldso->cpu));
    }
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL, "Install a build of %s for any x86-64 processor.",
                owner_or_name(d, path));
    return f;
}

void diag_repair_page_size(struct diag *d, struct diag_finding *f, const char *path)
{
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                "Install a build of %s for pages of 64 KiB; if you build it, link it with "
                "-Wl,-z,max-page-size=65536.",
                owner_or_name(d, path));
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Or start a kernel with pages of 4 KiB (Ubuntu: linux-generic in place of "
                "linux-generic-64k; Red Hat: kernel in place of kernel-64k).");
}

static struct diag_finding *rule_pages(struct diag *d, const struct diag_failure *x)
{
    const char *path = x->defect->object->path;
    struct diag_finding *f = diag_add(
        d, DIAG_PAGE_SIZE, path, path_base(path),
        arena_printf(d->a,
                     "%s cannot be started: it is linked for smaller memory pages than the %u "
                     "KiB of this kernel.",
                     path, x->process->ldso->cpu.page_size >> 10));
    diag_repair_page_size(d, f, path);
    return f;
}

static struct diag_finding *rule_static_tls(struct diag *d, const struct diag_failure *x)
{
    const struct ldso_process *p = x->process->ldso;
    const struct ldso_object *o = x->defect->provider;
    const unsigned long long size = o->file->image.tls.size, align = o->file->image.tls.align;
    const char *path = path_normal(d->a, model_absolute(d->m, o->path));
    struct diag_finding *f = diag_add(
        d, DIAG_STATIC_TLS, path, path_base(path),
        arena_printf(d->a,
                     "The thread-local variables of %s do not fit into the memory that was "
                     "set "
                     "aside for them at the start.",
                     path_base(path)));
    diag_evidence(d, f,
                  "it needs %llu bytes of static TLS, aligned to %llu; %llu bytes of the reserve "
                  "for "
                  "what is loaded later are left",
                  size, align, (unsigned long long)x->defect->tls_free);
    for (size_t i = 0; i < x->defect->tls_late.n; i++) {
        const struct ldso_object *late = x->defect->tls_late.items[i];
        diag_evidence(d, f, "%s uses %llu bytes of that reserve", late->path,
                      (unsigned long long)late->file->image.tls.size);
    }
    if (p->glibc_minor >= 32 && align <= p->tls.align) {
        unsigned long long room = (p->tls.room + x->defect->tls_wanted + 511) / 512 * 512;
        diag_repair(
            d, f, DIAG_REPAIR_ENV,
            arena_printf(d->a, "export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=%llu", room),
            "Set more memory aside at the start of the program.");
    }
    diag_repair(d, f, DIAG_REPAIR_ENV,
                arena_printf(d->a, "export LD_PRELOAD=%s", diag_quote(d, path)),
                "Load it at program start, where it gets its own place.");
    return f;
}

static struct diag_finding *rule_cut(struct diag *d, const struct diag_failure *x)
{
    const char *path = path_normal(d->a, model_absolute(d->m, x->defect->object->path));
    const char *end = model_link_end(d->m, path);
    struct diag_finding *f =
        diag_add(d, DIAG_LIBRARY_UNUSABLE_FILE, end, path_base(path),
                 arena_printf(d->a, "%s is cut off: the process dies when it is loaded.", path));
    if (strcmp(end, path) != 0) {
        diag_evidence(d, f, "%s is a link to %s", path, end);
    }
    diag_repair_reinstall(d, f, end);
    return f;
}

bool diag_rule_defect(struct diag *d, const struct diag_failure *x)
{
    if (!x->defect || x->request) {
        return false;
    }
    if (diag_rule_cudnn_defect(d, x)) {
        return true;
    }
    struct diag_finding *f = NULL;
    switch (x->defect->kind) {
    case LDSO_EXEC_STACK: f = rule_exec_stack(d, x); break;
    case LDSO_ISA_LEVEL: f = rule_cpu(d, x); break;
    case LDSO_PAGE_SIZE: f = rule_pages(d, x); break;
    case LDSO_FILE_CUT: f = rule_cut(d, x); break;
    case LDSO_STATIC_TLS: f = rule_static_tls(d, x); break;
    case LDSO_VERSION_MISSING:
    case LDSO_SYMBOL_MISSING:
    case LDSO_SYMBOL_MISSING_LAZY:
    case LDSO_NO_VERSIONS: f = rule_lack(d, x); break;
    }
    diag_failure_evidence(d, f, x);
    return true;
}
