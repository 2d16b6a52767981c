/* cuDNN: libraries of one family that must come from one release. */
#include <string.h>

#include "diag/internal.h"
#include "model/family.h"

/* ------------------------------------------------------------------ findings */

static const char *member_version(const struct diag_cudnn_member *m)
{
    return m->version ? m->version : "of unknown version";
}

/* The files, those of one folder and version together. */
static void list_members(struct diag *d, struct diag_finding *f, const diag_cudnn_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct diag_cudnn_member *m = &list->items[i];
        const char *dir = path_normal(d->a, path_dir(d->a, m->object->path));
        const char *names = "";
        bool told = false;
        for (size_t k = 0; k < list->n && !told; k++) {
            const struct diag_cudnn_member *x = &list->items[k];
            bool same = strcmp(path_normal(d->a, path_dir(d->a, x->object->path)), dir) == 0 &&
                        strcmp(member_version(x), member_version(m)) == 0 &&
                        x->object->via == m->object->via;
            told = same && k < i;
            names = same ? arena_printf(d->a, "%s%s%s", names, *names ? ", " : "",
                                        path_base(x->object->path))
                         : names;
        }
        if (!told) {
            diag_evidence(d, f, "cuDNN %s in %s, found through %s: %s", member_version(m), dir,
                          diag_via(d, m->object->via, m->object->via_object), names);
        }
    }
}

static void repair_mixed(struct diag *d, struct diag_finding *f, const struct model_process *p,
                         const struct ldso_object *odd)
{
    const char *dir = path_normal(d->a, path_dir(d->a, odd->path));
    if (odd->via == LDSO_VIA_LIBRARY_PATH && diag_repair_without(d, f, p, dir)) {
        return;
    }
    const char *path = odd->path;
    size_t n = 0;
    const char *complete =
        model_owner(d->m, path) ? NULL : model_folder_with(d->m, "libcudnn_*.so.*", &n);
    if (complete && strcmp(complete, dir) == 0) {
        path = path_join(d->a, complete, "libcudnn.so.9"); // who owns the folder's set
    }
    diag_repair_reinstall(d, f, path);
    diag_repair(
        d, f, DIAG_REPAIR_TEXT, NULL,
        "Keep one complete cuDNN release where the loader searches, and remove the others.");
}

static void family_finding(struct diag *d, const struct model_process *p,
                           const diag_cudnn_list *list, const struct diag_cudnn_member *odd,
                           enum diag_cause cause, const char *summary)
{
    const char *path = odd->object->path;
    struct diag_finding *f = diag_add(d, cause, path, path_base(path), summary);
    diag_seen_in(d, f, p);
    list_members(d, f, list);
    if (cause == DIAG_CUDNN_OLDER_SHIM) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Nothing, unless cuDNN reports errors; then use one release for both.");
    } else {
        repair_mixed(d, f, p, odd->object);
    }
}

static void family_cudnn(struct diag *d, const struct model_process *p, diag_cudnn_list list)
{
    const char *common = diag_cudnn_version(&list);
    const struct diag_cudnn_member *first = NULL, *odd = NULL;
    if (diag_cudnn_twice(&list, &first, &odd)) {
        family_finding(d, p, &list, odd, DIAG_FULL_VERSION_SHADOW,
                       arena_printf(d->a,
                                    "%s (cuDNN %s) is loaded although %s (%s) is already "
                                    "loaded: cuDNN requests the name with the full version "
                                    "first.",
                                    odd->object->path, member_version(odd), first->object->path,
                                    member_version(first)));
    } else if ((odd = diag_cudnn_odd(&list, common, true)) != NULL) {
        family_finding(d, p, &list, odd, DIAG_CUDNN_MIXED_VERSIONS,
                       arena_printf(d->a, "%s is cuDNN %s, the other sub-libraries are %s.",
                                    odd->object->path, odd->version, common));
    } else if ((odd = diag_cudnn_odd(&list, common, false)) != NULL) {
        family_finding(d, p, &list, odd, DIAG_CUDNN_OLDER_SHIM,
                       arena_printf(d->a, "%s is of cuDNN %s, but its sub-libraries are of %s.",
                                    path_base(odd->object->path), odd->version, common));
    }
}

static const char *cudnn_version(struct diag *d, const struct ldso_object *o)
{
    return model_object_version(d->m, o->file, model_absolute(d->m, o->path), KB_VERSION_CUDNN);
}

/* Whether the package that records the file is of another version than the file itself. */
static bool is_foreign(struct diag *d, const struct ldso_object *o)
{
    const char *owner = model_owner(d->m, o->path), *version = cudnn_version(d, o);
    const char *blank = owner ? strchr(owner, ' ') : NULL;
    return !blank || !version || !starts_with(blank + 1, version);
}

/* Who should have what is missing: the provider, else the first cuDNN library among the needs. */
static const struct ldso_object *provider_of(const struct ldso_defect *e)
{
    for (size_t i = 0; !e->provider && i < e->object->deps.n; i++) {
        if (starts_with(path_base(e->object->deps.items[i]->path), "libcudnn")) {
            return e->object->deps.items[i];
        }
    }
    return e->provider;
}

/* The one that does not belong: not of its package's version, else the one that asks. */
bool diag_rule_cudnn_defect(struct diag *d, const struct diag_failure *x)
{
    const struct ldso_object *a = x->defect->object, *b = provider_of(x->defect);
    const char *a_version = b ? cudnn_version(d, a) : NULL,
               *b_version = b ? cudnn_version(d, b) : NULL;
    if (!b || !starts_with(path_base(a->path), "libcudnn") ||
        !starts_with(path_base(b->path), "libcudnn") || !a_version || !b_version ||
        strcmp(a_version, b_version) == 0) {
        return false;
    }
    bool other = is_foreign(d, b) && !is_foreign(d, a);
    const struct ldso_object *odd = other ? b : a;
    struct diag_finding *f =
        diag_add(d, DIAG_CUDNN_MIXED_VERSIONS, odd->path, path_base(odd->path),
                 arena_printf(d->a, "%s is cuDNN %s, but %s is cuDNN %s: they do not match.",
                              odd->path, other ? b_version : a_version, other ? a->path : b->path,
                              other ? a_version : b_version));
    diag_evidence(d, f, "%s was found through %s", odd->path,
                  diag_via(d, odd->via, odd->via_object));
    diag_failure_evidence(d, f, x);
    repair_mixed(d, f, x->process, odd);
    return true;
}

void diag_rule_families(struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        diag_cudnn_list list, all = {0};
        if (p->ldso) {
            all = diag_cudnn_members(d, p->ldso);
        }
        for (size_t at = 0; (list = diag_cudnn_next(d, &all, &at)).n;) {
            family_cudnn(d, p, list);
        }
    }
}
