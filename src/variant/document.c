#include <string.h>

#include "base/json.h"
#include "variant/variant.h"

/* Versions of the schema whose keys are read here: PEP 825's (peps/pep-0825/variant-schema-*.json),
 * those of wheelnext/variants-schema, and of the drafts of the providers' PEP. */
static const char *const versions[] = {"0.0.1", "0.0.2", "0.0.3", "0.1.0",
                                       "0.1.1", "0.2.0", "0.3.0"};

struct reader {
    struct arena *a;
    const char *name;
    struct gm_err *err;
};

static int bad(struct reader *r, const char *what)
{
    return gm_err_set(r->err, GM_ERR_FORMAT, "%s: %s", r->name, what);
}

static bool all_of(const char *s, size_t n, const char *letters)
{
    return n && strlen(s) == n && strspn(s, letters) == n;
}

#define NAME_LETTERS  "abcdefghijklmnopqrstuvwxyz0123456789_"
#define VALUE_LETTERS NAME_LETTERS "."

static int read_texts(struct reader *r, const json_t *array, const char *letters, size_t max,
                      variant_texts *ret)
{
    size_t i;
    json_t *item;
    if (!array) {
        return 0;
    }
    if (!json_is_array(array)) {
        return bad(r, "a list of texts is something else");
    }
    if (json_array_size(array) > max) {
        return gm_err_set(r->err, GM_ERR_LIMIT, "%s: a list has more than %zu entries", r->name,
                          max);
    }
    json_array_foreach(array, i, item)
    {
        const char *s = json_string_value(item);
        if (!s || !all_of(s, json_string_length(item), letters)) {
            return bad(r, "a name or value has characters that none may have");
        }
        VEC_PUSH(r->a, ret, arena_strdup(r->a, s));
    }
    return 0;
}

/* {feature: [values]} of one namespace. */
static int read_features(struct reader *r, const char *ns, json_t *object, variant_features *ret)
{
    const char *name;
    json_t *values;
    if (!json_is_object(object)) {
        return bad(r, "the features of a namespace are no object");
    }
    if (json_object_size(object) > VARIANT_FEATURES_MAX) {
        return gm_err_set(r->err, GM_ERR_LIMIT, "%s: a namespace has more than %d features",
                          r->name, VARIANT_FEATURES_MAX);
    }
    json_object_foreach(object, name, values)
    {
        struct variant_feature f = {.ns = ns, .name = arena_strdup(r->a, name)};
        if (!all_of(name, strlen(name), NAME_LETTERS)) {
            return bad(r, "the name of a feature has characters that none may have");
        }
        int rc = read_texts(r, values, VALUE_LETTERS, VARIANT_VALUES_MAX, &f.values);
        if (rc < 0) {
            return rc;
        }
        VEC_PUSH(r->a, ret, f);
    }
    return 0;
}

/* {namespace: {feature: [values]}} */
static int read_namespaces(struct reader *r, json_t *object, variant_features *ret)
{
    const char *ns;
    json_t *features;
    if (object && !json_is_object(object)) {
        return bad(r, "a mapping of namespaces is no object");
    }
    if (json_object_size(object) > VARIANT_FEATURES_MAX) {
        return gm_err_set(r->err, GM_ERR_LIMIT, "%s: more than %d namespaces", r->name,
                          VARIANT_FEATURES_MAX);
    }
    json_object_foreach(object, ns, features)
    {
        int rc = !all_of(ns, strlen(ns), NAME_LETTERS)
                     ? bad(r, "a namespace has characters that none may have")
                     : read_features(r, arena_strdup(r->a, ns), features, ret);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int read_priorities(struct reader *r, json_t *object, struct variant_document *ret)
{
    const char *ns;
    json_t *names, *orders = json_object_get(object, "feature");
    if (!json_is_object(object)) {
        return bad(r, "default-priorities is missing");
    }
    int rc = read_texts(r, json_object_get(object, "namespace"), NAME_LETTERS, VARIANT_FEATURES_MAX,
                        &ret->namespaces);
    json_object_foreach(orders, ns, names)
    {
        struct variant_feature f = {.ns = arena_strdup(r->a, ns), .name = ""};
        rc = rc < 0 ? rc : read_texts(r, names, NAME_LETTERS, VARIANT_FEATURES_MAX, &f.values);
        VEC_PUSH(r->a, &ret->orders, f);
    }
    return rc < 0 ? rc : read_namespaces(r, json_object_get(object, "property"), &ret->preferred);
}

static int read_providers(struct reader *r, json_t *doc, struct variant_document *ret)
{
    const char *ns;
    json_t *provider, *providers = json_object_get(doc, "providers");
    json_t *elsewhere = json_object_get(doc, "static-properties"); // up to 0.0.3
    int rc = read_namespaces(r, elsewhere, &ret->statics);
    json_object_foreach(elsewhere, ns, provider)
    {
        VEC_PUSH(r->a, &ret->static_of, arena_strdup(r->a, ns));
    }
    json_object_foreach(providers, ns, provider)
    {
        json_t *listed = json_object_get(provider, "static-properties");
        const char *name = arena_strdup(r->a, ns);
        if (json_is_true(json_object_get(provider, "optional"))) {
            VEC_PUSH(r->a, &ret->optional, name);
        }
        struct variant_feature order = {.ns = name, .name = ""};
        json_t *names = json_object_get(provider, "feature-order"); // 0.2.0 and 0.3.0
        rc = rc < 0 ? rc : read_texts(r, names, NAME_LETTERS, VARIANT_FEATURES_MAX, &order.values);
        if (order.values.n) {
            VEC_PUSH(r->a, &ret->orders, order);
        }
        if (listed && rc == 0) {
            VEC_PUSH(r->a, &ret->static_of, name);
            rc = read_features(r, name, listed, &ret->statics);
        }
    }
    return rc;
}

static int read_variants(struct reader *r, json_t *object, struct variant_document *ret)
{
    const char *label;
    json_t *namespaces;
    if (!json_is_object(object)) {
        return bad(r, "variants is missing");
    }
    if (json_object_size(object) > VARIANT_LABELS_MAX) {
        return gm_err_set(r->err, GM_ERR_LIMIT, "%s: more than %d variants", r->name,
                          VARIANT_LABELS_MAX);
    }
    json_object_foreach(object, label, namespaces)
    {
        struct variant v = {.label = arena_strdup(r->a, label)};
        if (!all_of(label, strlen(label), VALUE_LETTERS)) {
            return bad(r, "a label has characters that none may have");
        }
        int rc = read_namespaces(r, namespaces, &v.features);
        if (rc < 0) {
            return rc;
        }
        if (strcmp(label, "null") == 0 && v.features.n) {
            return bad(r, "the variant \"null\" has properties");
        }
        VEC_PUSH(r->a, &ret->variants, v);
    }
    return 0;
}

/* "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json": the version of the format. */
static const char *url_version(struct arena *a, const char *url)
{
    const char *name = url ? path_base(url) : "";
    size_t n = strlen(name);
    return *name == 'v' && n > 6 && ends_with(name, ".json") ? arena_strndup(a, name + 1, n - 6)
                                                             : NULL;
}

static int check_version(struct reader *r, json_t *doc, struct variant_document *ret)
{
    const char *url = json_text(doc, "$schema");
    ret->version = url_version(r->a, url);
    for (size_t i = 0; ret->version && i < sizeof versions / sizeof *versions; i++) {
        if (strcmp(versions[i], ret->version) == 0) {
            return 0;
        }
    }
    return gm_err_set(r->err, GM_ERR_UNSUPPORTED,
                      "%s: its format is %s, and gpumend knows the drafts 0.0.1 to 0.3.0", r->name,
                      url ? str_printable(r->a, url) : "not stated");
}

int variant_read(struct arena *a, const char *name, struct str text, struct variant_document *ret,
                 struct gm_err *err)
{
    struct reader r = {.a = a, .name = str_printable(a, name), .err = err};
    *ret = (struct variant_document){0};
    if (text.n > VARIANT_BYTES_MAX) {
        return gm_err_set(err, GM_ERR_LIMIT, "%s: more than %d bytes", r.name, VARIANT_BYTES_MAX);
    }
    json_t *doc = text.s ? json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    int rc = json_is_object(doc) ? check_version(&r, doc, ret) : bad(&r, "it is not a JSON object");
    rc = rc < 0 ? rc : read_priorities(&r, json_object_get(doc, "default-priorities"), ret);
    rc = rc < 0 ? rc : read_providers(&r, doc, ret);
    rc = rc < 0 ? rc : read_variants(&r, json_object_get(doc, "variants"), ret);
    json_decref(doc);
    return rc;
}
