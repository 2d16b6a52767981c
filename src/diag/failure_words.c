/* The words for a failure: who asks, by which step, and where that is known from. */
#include <string.h>

#include "diag/internal.h"

const char *diag_caller(const struct diag_failure *x)
{
    return x->request && x->request->caller ? x->request->caller->path
           : x->defect                      ? x->defect->object->path
                                            : x->process->ldso->main->path;
}

const char *diag_asker(struct diag *d, const struct diag_failure *x)
{
    const char *object = path_base(diag_caller(x));
    const char *package = x->attempt ? x->attempt->package : NULL;
    return package ? arena_printf(d->a, "%s (%s)", package, object) : object;
}

const char *diag_via(struct diag *d, enum ldso_via via, const struct ldso_object *via_object)
{
    switch (via) {
    case LDSO_VIA_RPATH:
    case LDSO_VIA_RUNPATH:
        return arena_printf(d->a, "the %s of %s", via == LDSO_VIA_RPATH ? "RPATH" : "RUNPATH",
                            via_object ? path_base(via_object->path) : "the program");
    case LDSO_VIA_LIBRARY_PATH: return "LD_LIBRARY_PATH";
    case LDSO_VIA_PRELOAD: return "LD_PRELOAD";
    case LDSO_VIA_CACHE: return "ld.so.cache";
    case LDSO_VIA_DEFAULT: return "the system folders";
    case LDSO_VIA_PATH: return "its path";
    case LDSO_VIA_LOADED: return "its name, it was loaded before";
    case LDSO_VIA_NONE:
    case LDSO_VIA_MAIN:
    case LDSO_VIA_INTERP: break;
    }
    return ldso_via_name(via);
}

void diag_source_evidence(struct diag *d, struct diag_finding *f, const struct model_attempt *at)
{
    switch (at->source) {
    case MODEL_FROM_KB:
        diag_evidence(d, f, "known from: knowledge base, row %s%s%s", at->row,
                      at->feature ? ", for " : "", at->feature ? at->feature : "");
        return;
    case MODEL_FROM_NOTE:
        diag_evidence(d, f, "known from: .note.dlopen of %s (%s%s%s)", path_base(at->caller->path),
                      at->required ? "required" : "recommended", at->feature ? ", for " : "",
                      at->feature ? at->feature : "");
        return;
    case MODEL_FROM_IMPORT:
        diag_evidence(d, f, "known from: the extension module that is imported, %s%s%s",
                      path_base(at->names[0]), at->feature ? ", for " : "",
                      at->feature ? at->feature : "");
        return;
    case MODEL_FROM_MAPS: diag_evidence(d, f, "known from: it is mapped in the process"); return;
    case MODEL_FROM_GUESS: return;
    }
}

bool diag_searched(struct diag *d, const struct ldso_request *r, const char *dir)
{
    for (size_t i = 0; r && i < r->steps.n; i++) {
        const char *path = r->steps.items[i].path;
        if (path &&
            strcmp(path_normal(d->a, model_absolute(d->m, path_dir(d->a, path))), dir) == 0) {
            return true;
        }
    }
    return false;
}
