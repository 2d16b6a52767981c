#include <stdlib.h>
#include <string.h>

#include "variant/variant.h"

static size_t index_of(const variant_texts *list, const char *text)
{
    size_t i = 0;
    while (i < list->n && strcmp(list->items[i], text) != 0) {
        i++;
    }
    return i;
}

static bool has_text(const variant_texts *list, const char *text)
{
    return index_of(list, text) < list->n;
}

static const struct variant_feature *find_feature(const variant_features *list, const char *ns,
                                                  const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i].ns, ns) == 0 && strcmp(list->items[i].name, name) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ one feature */

/* What decides a feature: the wheel's own list, or the machine's; NULL, and a verdict. */
static const struct variant_feature *supported(const struct variant_document *doc,
                                               const struct variant_feature *asked,
                                               const struct variant_machine *m,
                                               struct variant_judged *ret)
{
    const struct variant_namespace *ns = variant_namespace_of(m, asked->ns);
    const struct variant_feature *own = find_feature(&doc->statics, asked->ns, asked->name);
    ret->fits = HOST_NO;
    if (has_text(&doc->static_of, asked->ns)) {
        ret->why = "the wheel's own list of compatible features does not have it";
        return own;
    }
    if (has_text(&doc->optional, asked->ns)) {
        ret->fits = HOST_UNKNOWN;
        ret->why = "its provider is optional: whether it counts is set in the installer";
        return NULL;
    }
    if (!ns) {
        ret->fits = HOST_UNKNOWN;
        ret->why = "gpumend does not determine what a machine supports in this namespace";
        return NULL;
    }
    if (ns->state != HOST_YES) {
        ret->fits = ns->state;
        ret->why = ns->why;
        return NULL;
    }
    const struct variant_feature *f = find_feature(&ns->features, asked->ns, asked->name);
    if (!f && strcmp(asked->ns, "nvidia") != 0) { // of processors, only the level is known
        ret->fits = HOST_UNKNOWN;
        ret->why = "gpumend does not determine this feature";
    } else if (!f) {
        ret->why = "the provider lists no such feature here";
    } else if (f->why) {
        ret->fits = HOST_UNKNOWN;
        ret->why = f->why;
        return NULL;
    }
    return f;
}

static struct variant_judged judge_feature(struct arena *a, const struct variant_document *doc,
                                           const struct variant_feature *asked,
                                           const struct variant_machine *m)
{
    struct variant_judged ret = {.asked = asked};
    const struct variant_feature *f = supported(doc, asked, m, &ret);
    if (!f) {
        return ret;
    }
    const struct variant_feature *first = find_feature(&doc->preferred, asked->ns, asked->name);
    const variant_texts *lists[] = {first ? &first->values : NULL, &f->values};
    for (size_t i = 0; !ret.best && i < 2; i++) {
        for (size_t k = 0; lists[i] && !ret.best && k < lists[i]->n; k++) {
            const char *value = lists[i]->items[k];
            ret.best =
                has_text(&asked->values, value) && has_text(&f->values, value) ? value : NULL;
        }
    }
    ret.fits = ret.best ? HOST_YES : HOST_NO;
    ret.why = ret.best       ? NULL
              : !f->values.n ? "the machine supports no value of it"
                             : arena_printf(a, "the machine supports %s%s", f->values.items[0],
                                            f->values.n > 1 ? " and what that implies" : "");
    return ret;
}

void variant_judge(struct arena *a, const struct variant_document *doc, const struct variant *v,
                   const struct variant_machine *m, struct variant_verdict *ret)
{
    *ret = (struct variant_verdict){.fits = HOST_YES};
    for (size_t i = 0; i < v->features.n; i++) {
        struct variant_judged one = judge_feature(a, doc, &v->features.items[i], m);
        VEC_PUSH(a, &ret->features, one);
        ret->fits = one.fits == HOST_NO || ret->fits == HOST_NO ? HOST_NO
                    : one.fits == HOST_UNKNOWN                  ? HOST_UNKNOWN
                                                                : ret->fits;
    }
}

/* ------------------------------------------------------------------ order (PEP 825) */

struct key {
    size_t ns, feature, value;
};

/* Where a text comes in a list that is followed by another. */
static size_t index_in(const variant_texts *first, const variant_texts *then, const char *text)
{
    size_t at = first ? index_of(first, text) : 0, n = first ? first->n : 0;
    return first && at < n ? at : n + (then ? index_of(then, text) : 0);
}

static struct key variant_key(struct arena *a, const struct variant_document *doc,
                              const struct variant_machine *m, const struct variant_judged *j)
{
    const struct variant_feature *f = j->asked;
    const struct variant_feature *order = find_feature(&doc->orders, f->ns, "");
    const struct variant_feature *first = find_feature(&doc->preferred, f->ns, f->name);
    bool own = has_text(&doc->static_of, f->ns);
    const struct variant_namespace *ns = own ? NULL : variant_namespace_of(m, f->ns);
    const variant_features *listed = own ? &doc->statics : ns ? &ns->features : NULL;
    const struct variant_feature *values = listed ? find_feature(listed, f->ns, f->name) : NULL;
    variant_texts names = {0};
    for (size_t i = 0; listed && i < listed->n; i++) {
        if (strcmp(listed->items[i].ns, f->ns) == 0) {
            VEC_PUSH(a, &names, listed->items[i].name);
        }
    }
    return (struct key){
        .ns = index_of(&doc->namespaces, f->ns),
        .feature = index_in(order ? &order->values : NULL, &names, f->name),
        .value = j->best ? index_in(first ? &first->values : NULL, values ? &values->values : NULL,
                                    j->best)
                         : SIZE_MAX,
    };
}

static int compare_keys(const void *x, const void *y)
{
    const struct key *one = x, *two = y;
    return one->ns != two->ns ? (one->ns > two->ns) - (one->ns < two->ns)
           : one->feature != two->feature
               ? (one->feature > two->feature) - (one->feature < two->feature)
               : (one->value > two->value) - (one->value < two->value);
}

struct sorted {
    struct variant_ranked ranked;
    VEC(struct key) keys;
};

static int group_of(enum host_state fits)
{
    return fits == HOST_YES ? 0 : fits == HOST_UNKNOWN ? 1 : 2;
}

static int compare(const void *x, const void *y)
{
    const struct sorted *one = x, *two = y;
    int by = group_of(one->ranked.verdict.fits) - group_of(two->ranked.verdict.fits);
    for (size_t i = 0; !by && i < one->keys.n && i < two->keys.n; i++) {
        by = compare_keys(&one->keys.items[i], &two->keys.items[i]);
    }
    by = by ? by : (one->keys.n < two->keys.n) - (one->keys.n > two->keys.n);
    return by ? by : strcmp(one->ranked.variant->label, two->ranked.variant->label);
}

void variant_rank(struct arena *a, const struct variant_document *doc,
                  const struct variant_machine *m, variant_ranking *ret)
{
    VEC(struct sorted) all = {0};
    *ret = (variant_ranking){0};
    for (size_t i = 0; i < doc->variants.n; i++) {
        struct sorted one = {.ranked.variant = &doc->variants.items[i]};
        variant_judge(a, doc, one.ranked.variant, m, &one.ranked.verdict);
        for (size_t k = 0; k < one.ranked.verdict.features.n; k++) {
            VEC_PUSH(a, &one.keys, variant_key(a, doc, m, &one.ranked.verdict.features.items[k]));
        }
        if (one.keys.n) {
            qsort(one.keys.items, one.keys.n, sizeof *one.keys.items, compare_keys);
        }
        VEC_PUSH(a, &all, one);
    }
    if (all.n) {
        qsort(all.items, all.n, sizeof *all.items, compare);
    }
    for (size_t i = 0; i < all.n; i++) {
        VEC_PUSH(a, ret, all.items[i].ranked);
    }
}
