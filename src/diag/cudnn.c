/* The libraries of cuDNN in a process, and whether they come from one release. */
#include <string.h>

#include "diag/internal.h"
#include "model/family.h"

diag_cudnn_list diag_cudnn_members(struct diag *d, const struct ldso_process *p)
{
    diag_cudnn_list list = {0};
    for (size_t i = 0; i < p->objects.n; i++) {
        const struct ldso_object *o = p->objects.items[i];
        const char *name = path_base(o->path);
        if (starts_with(name, "libcudnn") && !starts_with(name, "libcudnn_frontend")) {
            const char *path = model_absolute(d->m, o->path);
            VEC_PUSH(d->a, &list,
                     (struct diag_cudnn_member){
                         o, model_object_version(d->m, o->file, path, KB_VERSION_CUDNN),
                         model_stem(name), starts_with(name, "libcudnn_")});
        }
    }
    return list;
}

/* "9" of version "9.26.0"; without a version that of the file's name. */
static struct str major_of(const struct diag_cudnn_member *m)
{
    const char *so = strstr(path_base(m->object->path), ".so.");
    struct str text = str_of(m->version ? m->version : so ? so + strlen(".so.") : "");
    text.n = str_find_char(text, '.');
    return text;
}

/* cuDNN 8 and 9 have other names for all of their libraries: each opens its own alone. */
diag_cudnn_list diag_cudnn_next(struct diag *d, const diag_cudnn_list *all, size_t *at)
{
    diag_cudnn_list list = {0};
    for (; *at < all->n && !list.n; ++*at) {
        struct str major = major_of(&all->items[*at]);
        bool done = false;
        for (size_t i = 0; i < *at && !done; i++) {
            done = str_eq(major_of(&all->items[i]), major);
        }
        for (size_t i = *at; i < all->n && !done; i++) {
            if (str_eq(major_of(&all->items[i]), major)) {
                VEC_PUSH(d->a, &list, all->items[i]);
            }
        }
    }
    return list;
}

static bool differs(const struct diag_cudnn_member *m, const char *version)
{
    return m->version && strcmp(m->version, version) != 0;
}

/* The version that most sub-libraries have; NULL if none tells. */
const char *diag_cudnn_version(const diag_cudnn_list *list)
{
    const char *best = NULL;
    size_t n_best = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct diag_cudnn_member *m = &list->items[i];
        size_t n = 0;
        for (size_t k = 0; m->sub && m->version && k < list->n; k++) {
            n += list->items[k].sub && list->items[k].version &&
                 !differs(&list->items[k], m->version);
        }
        if (n > n_best) {
            n_best = n;
            best = m->version;
        }
    }
    return best;
}

/* A member with another version than the rest: a sub-library, or the main library. */
const struct diag_cudnn_member *diag_cudnn_odd(const diag_cudnn_list *list, const char *common,
                                               bool sub)
{
    for (size_t i = 0; common && i < list->n; i++) {
        if (list->items[i].sub == sub && differs(&list->items[i], common)) {
            return &list->items[i];
        }
    }
    return NULL;
}

/* Two files of one sub-library in a process: the second was asked for by its full version. */
bool diag_cudnn_twice(const diag_cudnn_list *list, const struct diag_cudnn_member **ret_first,
                      const struct diag_cudnn_member **ret_second)
{
    for (size_t i = 0; i < list->n; i++) {
        for (size_t k = i + 1; k < list->n; k++) {
            const struct diag_cudnn_member *a = &list->items[i], *b = &list->items[k];
            bool same = a->version && b->version && strcmp(a->version, b->version) == 0;
            if (a->sub && b->sub && str_eq(a->stem, b->stem) && !same) {
                *ret_first = a;
                *ret_second = b;
                return true;
            }
        }
    }
    return false;
}

bool diag_cudnn_is_mixed(struct diag *d, const struct model_process *p)
{
    const struct diag_cudnn_member *a = NULL, *b = NULL;
    diag_cudnn_list all = p->ldso ? diag_cudnn_members(d, p->ldso) : (diag_cudnn_list){0}, list;
    bool mixed = false;
    for (size_t at = 0; !mixed && (list = diag_cudnn_next(d, &all, &at)).n;) {
        mixed = diag_cudnn_twice(&list, &a, &b) ||
                diag_cudnn_odd(&list, diag_cudnn_version(&list), true);
    }
    return mixed;
}
