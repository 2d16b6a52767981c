#include "image/contents.h"

#include <elf.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

/* ------------------------------------------------------------------ platforms */

/* GOARCH, and how others write it (containerd, platforms/database.go: normalizeArch()). */
static const struct architecture {
    const char *name, *alias;
    unsigned machine;
    const char *variant; // that having none means
} architectures[] = {
    {"amd64", "x86_64", EM_X86_64, "v1"},
    {"arm64", "aarch64", EM_AARCH64, "v8"},
    {"386", "i386", EM_386, NULL},
    {"arm", "armhf", EM_ARM, "v7"},
    {"ppc64le", "powerpc64le", EM_PPC64, NULL},
    {"s390x", "s390x", EM_S390, NULL},
    {"riscv64", "riscv64", EM_RISCV, NULL},
};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

static const struct architecture *architecture_of(const char *name)
{
    for (size_t i = 0; name && i < ARCHITECTURES; i++) {
        if (strcmp(name, architectures[i].name) == 0 || strcmp(name, architectures[i].alias) == 0) {
            return &architectures[i];
        }
    }
    return NULL;
}

int image_platform_parse(struct arena *a, const char *text, struct image_platform *ret,
                         struct gm_err *err)
{
    struct str rest = str_of(text), os = str_cut(&rest, '/'), arch = str_cut(&rest, '/');
    if (!os.n || !arch.n || str_find_char(rest, '/') < rest.n) {
        return gm_err_set(err, GM_ERR_USAGE, "%s is not a platform (linux/amd64, linux/arm64/v8)",
                          str_printable(a, text));
    }
    const char *name = str_dup(a, arch);
    const struct architecture *known = architecture_of(name);
    *ret = (struct image_platform){str_dup(a, os), known ? known->name : name,
                                   rest.n ? str_dup(a, rest) : NULL};
    return 0;
}

struct image_platform image_platform_of(unsigned machine)
{
    struct image_platform p = {.os = "linux"};
    for (size_t i = 0; i < ARCHITECTURES; i++) {
        p.architecture =
            architectures[i].machine == machine ? architectures[i].name : p.architecture;
    }
    return p;
}

const char *image_platform_text(struct arena *a, const struct image_platform *p)
{
    return arena_printf(a, "%s/%s%s%s", p->os ? p->os : "unknown",
                        p->architecture ? p->architecture : "unknown", p->variant ? "/" : "",
                        p->variant ? p->variant : "");
}

static const char *variant_of(const struct image_platform *p)
{
    const struct architecture *known = architecture_of(p->architecture);
    return p->variant ? p->variant : known && known->variant ? known->variant : "";
}

bool image_platform_fits(const struct image_platform *is, const struct image_platform *wanted)
{
    const struct architecture *one = architecture_of(is->architecture);
    const struct architecture *other = architecture_of(wanted->architecture);
    bool same = one || other
                    ? one == other
                    : is->architecture && strcmp(is->architecture, wanted->architecture) == 0;
    return same && is->os && strcmp(is->os, wanted->os) == 0 &&
           (!wanted->variant || strcmp(variant_of(is), wanted->variant) == 0);
}

static struct image_platform descriptor_platform(const json_t *descriptor)
{
    const json_t *p = json_object_get(descriptor, "platform");
    const char *variant = json_text(p, "variant");
    return (struct image_platform){json_text(p, "os"), json_text(p, "architecture"),
                                   variant && *variant ? variant : NULL};
}

bool image_is_attachment(const json_t *descriptor)
{
    static const char *const types[] = {"application/vnd.oci.image.manifest.",
                                        "application/vnd.oci.image.index.",
                                        "application/vnd.docker.distribution.manifest."};
    struct image_platform p = descriptor_platform(descriptor);
    const char *type = json_text(descriptor, "mediaType"),
               *artifact = json_text(descriptor, "artifactType");
    bool known = !type || !*type;
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++) {
        known |= starts_with(type, types[i]);
    }
    return !known || (artifact && *artifact) ||
           json_text(json_object_get(descriptor, "annotations"), "vnd.docker.reference.type") ||
           (p.os && strcmp(p.os, "unknown") == 0) ||
           (p.architecture && strcmp(p.architecture, "unknown") == 0);
}

/* ------------------------------------------------------------------ lists in a message */

enum { LIST_MAX = 240 }; // bytes of it: an error is short

struct listing {
    struct arena *a;
    const char *text;
    size_t left; // that found no room
};

static void list_one(struct listing *l, const char *item)
{
    const char *more = arena_printf(l->a, "%s%s%s", l->text, *l->text ? ", " : "", item);
    if (l->left || strlen(more) > LIST_MAX) {
        l->left++;
    } else {
        l->text = more;
    }
}

static const char *list_text(const struct listing *l)
{
    return l->left ? arena_printf(l->a, "%s and %zu more", l->text, l->left) : l->text;
}

/* ------------------------------------------------------------------ one manifest */

/* How well it fits: the variant that was asked for, or else the one that needs least. */
static int descriptor_rank(const json_t *descriptor, const struct image_platform *wanted)
{
    struct image_platform p = descriptor_platform(descriptor);
    const struct architecture *known = architecture_of(p.architecture);
    if (!image_platform_fits(&p, wanted)) {
        return 0;
    }
    return !p.variant || (known && known->variant && strcmp(known->variant, p.variant) == 0) ? 2
                                                                                             : 1;
}

int image_manifest_choose(struct arena *a, const json_t *const *list, size_t n,
                          const struct image_platform *wanted, const json_t **ret,
                          struct gm_err *err)
{
    const json_t *best = NULL, *only = NULL;
    struct listing there = {.a = a, .text = ""};
    size_t images = 0;
    int rank = 0;
    for (size_t i = 0; i < n; i++) {
        int own = descriptor_rank(list[i], wanted);
        struct image_platform p = descriptor_platform(list[i]);
        if (image_is_attachment(list[i])) {
            continue;
        }
        best = own > rank ? list[i] : best;
        rank = own > rank ? own : rank;
        only = list[i];
        images++;
        list_one(&there, str_printable(a, image_platform_text(a, &p)));
    }
    if (!best && images != 1) {
        return images == 0
                   ? gm_err_set(err, GM_ERR_FORMAT, "its index names no manifest of an image")
                   : gm_err_set(
                         err, GM_ERR_USAGE, "it has no image for %s; --platform chooses one of: %s",
                         str_printable(a, image_platform_text(a, wanted)), list_text(&there));
    }
    *ret = best ? best : only;
    return 0;
}

/* ------------------------------------------------------------------ names */

bool image_is_reference(const char *name)
{
    static const char all[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";
    bool starts = str_is_letter(*name) || (*name >= '0' && *name <= '9');
    return starts && strlen(name) < 256 && strspn(name, all) == strlen(name);
}

bool image_is_named(struct arena *a, const char *full, const char *name)
{
    const char *slash = strrchr(name, '/');
    bool tagged = strchr(slash ? slash : name, ':') != NULL;
    const char *with_tag = tagged ? name : arena_printf(a, "%s:latest", name);
    return strcmp(full, with_tag) == 0 || ends_with(full, arena_printf(a, "/%s", with_tag));
}

/* ------------------------------------------------------------------ what there is */

static void content_add_name(struct arena *a, struct image_content *c, const char *name)
{
    if (name && *name) {
        VEC_PUSH(a, &c->names, arena_strdup(a, name));
    }
}

void image_contents_saved(struct arena *a, const json_t *manifest, image_contents *ret)
{
    for (size_t i = 0; i < json_array_size(manifest); i++) {
        const json_t *entry = json_array_get(manifest, i),
                     *tags = json_object_get(entry, "RepoTags");
        struct image_content c = {.number = i};
        if (!json_is_object(entry)) {
            continue;
        }
        for (size_t k = 0; k < json_array_size(tags); k++) {
            content_add_name(a, &c, json_string_value(json_array_get(tags, k)));
        }
        VEC_PUSH(a, &c.descriptors, entry);
        VEC_PUSH(a, ret, c);
    }
}

static const char *reference_of(const json_t *descriptor)
{
    return json_text(json_object_get(descriptor, "annotations"),
                     "org.opencontainers.image.ref.name");
}

/* What an index calls a manifest: containerd's full name, or the reference that may be a tag alone.
 */
static const char *name_in_index(const json_t *descriptor)
{
    const char *full =
        json_text(json_object_get(descriptor, "annotations"), "io.containerd.image.name");
    return full && *full ? full : reference_of(descriptor);
}

static bool same_digest(const struct image_content *c, const json_t *descriptor)
{
    const char *digest = json_text(descriptor, "digest");
    return digest && c->digest && strcmp(digest, c->digest) == 0;
}

/* Whether two descriptors are one image: they say the same name, or both none, and are the same
 * manifest or for different platforms. */
static bool content_is_one(const struct image_content *c, const json_t *descriptor,
                           const char *name)
{
    enum { PLATFORMS_MAX = 128 }; // more have no index but a hostile one
    struct image_platform own = descriptor_platform(descriptor);
    bool same_name = c->names.n ? name && strcmp(c->names.items[0], name) == 0 : !name || !*name;
    if (!same_name || c->descriptors.n >= PLATFORMS_MAX || same_digest(c, descriptor)) {
        return same_name && same_digest(c, descriptor);
    }
    for (size_t i = 0; i < c->descriptors.n; i++) {
        struct image_platform other = descriptor_platform(c->descriptors.items[i]);
        if (!own.architecture || !other.architecture ||
            (image_platform_fits(&own, &other) &&
             strcmp(variant_of(&own), variant_of(&other)) == 0)) {
            return false;
        }
    }
    return true;
}

void image_contents_index(struct arena *a, const json_t *index, image_contents *ret)
{
    enum { LOOK_BACK = 64 }; // an index of hostile length is not compared pair by pair
    const json_t *list = json_object_get(index, "manifests");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *d = json_array_get(list, i);
        const char *name = name_in_index(d);
        struct image_content *c = NULL;
        for (size_t k = ret->n; k > 0 && ret->n - k < LOOK_BACK && !c; k--) {
            c = content_is_one(&ret->items[k - 1], d, name) ? &ret->items[k - 1] : NULL;
        }
        if (!json_is_object(d) || image_is_attachment(d)) {
            continue;
        }
        if (c && same_digest(c, d)) {
            continue;
        }
        if (c) {
            VEC_PUSH(a, &c->descriptors, d);
        } else {
            const char *digest = json_text(d, "digest"), *reference = reference_of(d);
            struct image_content fresh = {
                .digest = digest ? arena_strdup(a, digest) : NULL,
                .reference = reference && *reference ? arena_strdup(a, reference) : NULL,
                .number = i};
            content_add_name(a, &fresh, name);
            VEC_PUSH(a, &fresh.descriptors, d);
            VEC_PUSH(a, ret, fresh);
        }
    }
}

/* ------------------------------------------------------------------ the choice */

enum fit { FITS_NOT, FITS_SHORT, FITS_EXACTLY };

static enum fit fit_of(struct arena *a, const struct image_content *c, const char *name)
{
    enum { DIGEST_MIN = 12 };
    uint64_t number;
    enum fit fit = FITS_NOT;
    if (*name == '@') {
        return str_u64(str_of(name + 1), &number) && number == c->number ? FITS_EXACTLY : FITS_NOT;
    }
    if (c->digest && strlen(name) >= strlen("sha256:") + DIGEST_MIN &&
        starts_with(c->digest, name)) {
        return FITS_EXACTLY;
    }
    for (size_t i = 0; i < c->names.n; i++) {
        enum fit own = strcmp(c->names.items[i], name) == 0         ? FITS_EXACTLY
                       : image_is_named(a, c->names.items[i], name) ? FITS_SHORT
                                                                    : FITS_NOT;
        fit = own > fit ? own : fit;
    }
    return fit;
}

/* A name of its own that a user can type, else its number. */
static const char *word_of(struct arena *a, const image_contents *list,
                           const struct image_content *c)
{
    for (size_t i = 0; i < c->names.n; i++) {
        size_t same = 0;
        for (size_t k = 0; k < list->n && same < 2; k++) {
            same += fit_of(a, &list->items[k], c->names.items[i]) == FITS_EXACTLY;
        }
        if (same == 1 && image_is_reference(c->names.items[i])) {
            return c->names.items[i];
        }
    }
    return arena_printf(a, "@%zu", c->number);
}

static const char *list_images(struct arena *a, const image_contents *list)
{
    enum { WORDS_MAX = 20 };
    struct listing l = {.a = a, .text = ""};
    for (size_t i = 0; i < list->n; i++) {
        if (i >= WORDS_MAX) {
            l.left += list->n - i;
            break;
        }
        list_one(&l, word_of(a, list, &list->items[i]));
    }
    return list_text(&l);
}

/* One manifest may have two names. */
static bool content_is_same(const struct image_content *one, const struct image_content *other)
{
    return one->digest && other->digest && strcmp(one->digest, other->digest) == 0;
}

int image_contents_choose(struct arena *a, const image_contents *list, const char *name,
                          const char *path, size_t *ret, struct gm_err *err)
{
    enum fit best = FITS_NOT;
    size_t found = 0;
    if (list->n == 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "it names no image");
    }
    for (size_t i = 0; i < list->n; i++) {
        enum fit fit = name ? fit_of(a, &list->items[i], name) : FITS_EXACTLY;
        bool same = found && content_is_same(&list->items[i], &list->items[*ret]);
        found = fit > best ? 1 : found + (fit == best && fit != FITS_NOT && !same);
        *ret = fit > best ? i : *ret;
        best = fit > best ? fit : best;
    }
    if (found == 1) {
        return 0;
    }
    const char *where = str_printable(a, path);
    const char *there = list_images(a, list);
    return !name ? gm_err_set(err, GM_ERR_USAGE, "it has %zu images; choose one as %.100s:NAME: %s",
                              list->n, where, there)
           : found ? gm_err_set(err, GM_ERR_USAGE,
                                "%zu of its images are called %.60s; choose one as %.100s:NAME: %s",
                                found, str_printable(a, name), where, there)
                   : gm_err_set(err, GM_ERR_USAGE, "it has no image %.60s; it has: %s",
                                str_printable(a, name), there);
}
