/* What a request would have ended at without the object that was loaded before it. */
#include <string.h>

#include "ldso/internal.h"

/* The loader's own object comes before every search, and musl compares names by other rules. */
static bool is_asked(const struct ldso_process *p, const struct ldso_request *r)
{
    return r->outcome == LDSO_REUSED && r->via == LDSO_VIA_LOADED && p->loader.kind == LDSO_GLIBC &&
           r->object != p->interp && r->object != p->main && !strchr(r->name, '/');
}

/* A file about which nothing is known, and that would come before what is found. */
static bool is_certain(const struct ldso_request *r)
{
    for (size_t i = 0; i < r->steps.n; i++) {
        enum ldso_result result = r->steps.items[i].result;
        if (result == LDSO_UNREADABLE || result == LDSO_DENIED) {
            return false;
        }
    }
    return true;
}

const struct ldso_instead *ldso_instead(struct ldso_process *p, struct ldso_request *r)
{
    if (r->instead_asked || !is_asked(p, r)) {
        return r->instead;
    }
    r->instead_asked = true;
    /* What this search meets says nothing of the loads that did happen. */
    size_t n_by_cpu = p->by_cpu.n;
    struct ldso_request again = {.name = r->name, .caller = r->caller, .kind = r->kind};
    struct ldso_found found = ldso_search(p, &again, r->kind == LDSO_DLOPEN);
    bool by_cpu = p->by_cpu.n > 0;
    p->by_cpu.n = n_by_cpu;
    if (found.entry && !found.refused && found.entry->file != r->object->file && !by_cpu &&
        is_certain(&again)) {
        struct ldso_instead *instead = arena_array(p->arena, 1, sizeof *instead);
        *instead = (struct ldso_instead){found.path, found.via, found.via_object};
        r->instead = instead;
    }
    return r->instead;
}
