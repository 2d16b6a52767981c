#include "hive/hive.h"

#include <string.h>

#include "pe/image.h"

enum {
    BASE_BYTES = 4096,
    KEYS_MAX = 16384,      // of one key
    VALUES_MAX = 1024,     // of one key
    NAME_MAX_BYTES = 510,  // of a key: 255 characters
    DATA_MAX = 128 << 10,  // PATH, the longest that is read, has at most 32767 characters
    SEGMENT_BYTES = 16344, // section "Big data"
};

/* ------------------------------------------------------------------ bytes */

/* The one gate: what is in the cell at `at`, if it is in use and holds `want` bytes or more. */
static const unsigned char *cell_at(const struct hive *h, uint32_t at, size_t want, size_t *ret_n)
{
    if (at % 8 != 0 || at > h->n_bins || h->n_bins - at < 4) {
        return NULL;
    }
    uint32_t size = 0 - pe_u32(h->bins + at); // negative: in use
    if (size < 8 || size > INT32_MAX || size > h->n_bins - at || size - 4 < want) {
        return NULL;
    }
    *ret_n = size - 4;
    return h->bins + at + 4;
}

static int damaged(struct gm_err *err, const char *what, uint32_t at)
{
    return gm_err_set(err, GM_ERR_FORMAT, "%s at offset 0x%x of the bins is damaged", what,
                      (unsigned)at);
}

/* ------------------------------------------------------------------ texts */

/* A name as it is stored: UTF-16, or with the flag "compressed" a byte for each character, which
 * are those up to U+00FF. */
struct name {
    const unsigned char *s;
    size_t n; // bytes
    bool compressed;
};

static size_t name_units(struct name name)
{
    return name.compressed ? name.n : name.n / 2;
}

static uint32_t name_unit(struct name name, size_t i)
{
    return name.compressed ? name.s[i] : pe_u16(name.s + 2 * i);
}

static uint32_t ascii_capital(uint32_t c)
{
    return c >= 'a' && c <= 'z' ? c - 0x20 : c;
}

/* `wanted` is ASCII. */
static bool key_name_is(struct name name, struct str wanted)
{
    if (name_units(name) != wanted.n) {
        return false;
    }
    for (size_t i = 0; i < wanted.n; i++) {
        if (ascii_capital(name_unit(name, i)) != ascii_capital((unsigned char)wanted.s[i])) {
            return false;
        }
    }
    return true;
}

/* Up to a NUL or the end. */
static char *utf16_text(struct arena *a, const unsigned char *s, size_t units)
{
    size_t n = 0;
    while (n < units && pe_u16(s + 2 * n)) {
        n++;
    }
    return pe_utf8(a, s, n);
}

static char *name_text(struct arena *a, struct name name)
{
    if (!name.compressed) {
        return utf16_text(a, name.s, name.n / 2);
    }
    char *text = arena_alloc(a, name.n * 2 + 1);
    size_t n = 0;
    for (size_t i = 0; i < name.n && name.s[i]; i++) {
        if (name.s[i] < 0x80) {
            text[n++] = (char)name.s[i];
        } else {
            text[n++] = (char)(0xc0 | name.s[i] >> 6);
            text[n++] = (char)(0x80 | (name.s[i] & 0x3f));
        }
    }
    text[n] = '\0';
    return text;
}

/* ------------------------------------------------------------------ the base block */

static uint32_t checksum_of(const unsigned char *p)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < 508; i += 4) {
        sum ^= pe_u32(p + i);
    }
    return sum == 0 ? 1 : sum == UINT32_MAX ? UINT32_MAX - 1 : sum;
}

int hive_open(struct hive *h, const void *data, size_t size, struct gm_err *err)
{
    const unsigned char *p = data;
    if (size < 4 || memcmp(p, "regf", 4) != 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "it is not a registry hive");
    }
    if (size < BASE_BYTES) {
        return gm_err_set(err, GM_ERR_FORMAT, "it is cut off within its first 4096 bytes");
    }
    uint32_t major = pe_u32(p + 20), minor = pe_u32(p + 24), bins = pe_u32(p + 40);
    if (checksum_of(p) != pe_u32(p + 508)) {
        return gm_err_set(err, GM_ERR_FORMAT, "the checksum of its base block is wrong");
    }
    if (major != 1 || minor < 2 || minor > 6) {
        return gm_err_set(err, GM_ERR_FORMAT, "it has the unknown version %u.%u", major, minor);
    }
    if (bins > size - BASE_BYTES) {
        return gm_err_set(err, GM_ERR_FORMAT, "it is cut off: %u bytes of its %u are there",
                          (unsigned)(size - BASE_BYTES), bins);
    }
    *h = (struct hive){
        .bins = p + BASE_BYTES,
        .n_bins = bins,
        .root = pe_u32(p + 36),
        .minor = minor,
        .dirty = pe_u32(p + 4) != pe_u32(p + 8),
    };
    return 0;
}

struct hive_key hive_root(const struct hive *h)
{
    return (struct hive_key){h->root};
}

/* ------------------------------------------------------------------ keys */

enum { KEY_HEAD = 0x4c, VALUE_HEAD = 0x14, COMPRESSED_KEY = 0x20, COMPRESSED_VALUE = 1 };

static const unsigned char *key_at(const struct hive *h, uint32_t at, struct name *ret_name)
{
    size_t n = 0;
    const unsigned char *p = cell_at(h, at, KEY_HEAD, &n);
    size_t name_bytes = p ? pe_u16(p + 0x48) : 0;
    if (!p || memcmp(p, "nk", 2) != 0 || name_bytes > NAME_MAX_BYTES || name_bytes > n - KEY_HEAD) {
        return NULL;
    }
    *ret_name = (struct name){p + KEY_HEAD, name_bytes, pe_u16(p + 2) & COMPRESSED_KEY};
    return p;
}

/* A walk over the subkeys of a key: to the one of a name, or all into a list. */
struct walk {
    const struct hive *h;
    struct arena *arena;
    struct gm_err *err;
    size_t n;
    struct str wanted; // s NULL: all
    hive_subkeys_list *list;
    struct hive_key found;
};

/* 1: it is the wanted one. */
static int take_subkey(struct walk *w, uint32_t at)
{
    struct name name;
    if (!key_at(w->h, at, &name)) {
        return damaged(w->err, "the key", at);
    }
    if (!w->wanted.s) {
        VEC_PUSH(w->arena, w->list, ((struct hive_subkey){name_text(w->arena, name), {at}}));
        return 0;
    }
    w->found.at = at;
    return key_name_is(name, w->wanted) ? 1 : 0;
}

static bool is_leaf(const unsigned char *p)
{
    return p[0] == 'l' && (p[1] == 'i' || p[1] == 'f' || p[1] == 'h');
}

static int walk_leaf(struct walk *w, const unsigned char *p, size_t n, uint32_t at)
{
    size_t count = pe_u16(p + 2), each = p[1] == 'i' ? 4 : 8; // lf and lh have a hash as well
    if (count * each > n - 4) {
        return damaged(w->err, "the list of keys", at);
    }
    for (size_t i = 0; i < count; i++) {
        if (++w->n > KEYS_MAX) {
            return gm_err_set(w->err, GM_ERR_LIMIT, "a key has more than %d subkeys", KEYS_MAX);
        }
        int rc = take_subkey(w, pe_u32(p + 4 + i * each));
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int walk_list(struct walk *w, uint32_t at)
{
    size_t n = 0;
    const unsigned char *p = cell_at(w->h, at, 4, &n);
    if (p && is_leaf(p)) {
        return walk_leaf(w, p, n, at);
    }
    if (!p || memcmp(p, "ri", 2) != 0 || pe_u16(p + 2) * (size_t)4 > n - 4) {
        return damaged(w->err, "the list of keys", at);
    }
    int rc = 0;
    for (size_t i = 0, count = pe_u16(p + 2); rc == 0 && i < count; i++) {
        uint32_t below = pe_u32(p + 4 + i * 4);
        size_t n_below = 0;
        const unsigned char *leaf = cell_at(w->h, below, 4, &n_below);
        rc = leaf && is_leaf(leaf) ? walk_leaf(w, leaf, n_below, below)
                                   : damaged(w->err, "the list of keys", below);
    }
    return rc;
}

static int walk_subkeys(struct walk *w, struct hive_key key)
{
    struct name name;
    const unsigned char *p = key_at(w->h, key.at, &name);
    if (!p) {
        return damaged(w->err, "the key", key.at);
    }
    return pe_u32(p + 0x14) ? walk_list(w, pe_u32(p + 0x1c)) : 0;
}

int hive_find(const struct hive *h, struct hive_key from, const char *path, struct hive_key *ret,
              struct gm_err *err)
{
    struct str rest = str_of(path);
    while (rest.s) {
        struct walk w = {.h = h, .err = err, .wanted = str_cut(&rest, '\\')};
        int rc = walk_subkeys(&w, from);
        if (rc <= 0) {
            return rc;
        }
        from = w.found;
    }
    *ret = from;
    return 1;
}

int hive_subkeys(const struct hive *h, struct arena *a, struct hive_key key, hive_subkeys_list *ret,
                 struct gm_err *err)
{
    struct walk w = {.h = h, .arena = a, .err = err, .list = ret};
    *ret = (hive_subkeys_list){0};
    return walk_subkeys(&w, key);
}

/* ------------------------------------------------------------------ values */

/* Data in segments, each in a cell of its own; all but the last are full. */
static int read_segments(const struct hive *h, struct arena *a, const unsigned char *p, uint32_t at,
                         size_t size, struct str *ret, struct gm_err *err)
{
    size_t count = pe_u16(p + 2), n_list = 0, n_segment = 0, n = 0;
    const unsigned char *list = cell_at(h, pe_u32(p + 4), count * 4, &n_list);
    if (!list || count * (size_t)SEGMENT_BYTES < size) {
        return damaged(err, "the data", at);
    }
    char *data = arena_alloc(a, size);
    for (size_t i = 0; i < count && n < size; i++) {
        size_t want = size - n < SEGMENT_BYTES ? size - n : SEGMENT_BYTES;
        const unsigned char *segment = cell_at(h, pe_u32(list + i * 4), want, &n_segment);
        if (!segment) {
            return damaged(err, "the data", at);
        }
        memcpy(data + n, segment, want);
        n += want;
    }
    *ret = (struct str){data, size};
    return 0;
}

static int read_data(const struct hive *h, struct arena *a, const unsigned char *value,
                     struct str *ret, struct gm_err *err)
{
    uint32_t size = pe_u32(value + 4), at = pe_u32(value + 8);
    size_t n = 0;
    if (size & 0x80000000u) { // it is in the place of the offset
        size &= 0x7fffffffu;
        *ret = (struct str){(const char *)value + 8, size};
        return size <= 4 ? 0 : damaged(err, "the data", at);
    }
    if (size > DATA_MAX || size == 0) {
        *ret = (struct str){size ? NULL : "", 0};
        return 0;
    }
    bool segments = size > SEGMENT_BYTES && h->minor > 3;
    const unsigned char *p = cell_at(h, at, segments ? 8 : size, &n);
    if (!p || (segments && memcmp(p, "db", 2) != 0)) {
        return damaged(err, "the data", at);
    }
    if (segments) {
        return read_segments(h, a, p, at, size, ret, err);
    }
    *ret = (struct str){(const char *)p, size};
    return 0;
}

/* The value at an offset, if it is the wanted one (s NULL: any): 1. */
static int read_value(const struct hive *h, struct arena *a, uint32_t at, struct str wanted,
                      struct hive_value *ret, struct gm_err *err)
{
    size_t n = 0;
    const unsigned char *p = cell_at(h, at, VALUE_HEAD, &n);
    if (!p || memcmp(p, "vk", 2) != 0 || pe_u16(p + 2) > n - VALUE_HEAD) {
        return damaged(err, "the value", at);
    }
    struct name name = {p + VALUE_HEAD, pe_u16(p + 2), pe_u16(p + 0x10) & COMPRESSED_VALUE};
    if (wanted.s && !key_name_is(name, wanted)) {
        return 0;
    }
    *ret = (struct hive_value){.name = name_text(a, name), .type = pe_u32(p + 12)};
    int rc = read_data(h, a, p, &ret->data, err);
    return rc < 0 ? rc : 1;
}

/* Each value of the key (with `wanted`, the first of that name) goes into the list. */
static int walk_values(const struct hive *h, struct arena *a, struct hive_key key,
                       struct str wanted, hive_values_list *list, struct gm_err *err)
{
    struct name name;
    size_t n = 0;
    const unsigned char *p = key_at(h, key.at, &name);
    if (!p) {
        return damaged(err, "the key", key.at);
    }
    size_t count = pe_u32(p + 0x24);
    if (count == 0) {
        return 0;
    }
    if (count > VALUES_MAX) {
        return gm_err_set(err, GM_ERR_LIMIT, "a key has more than %d values", VALUES_MAX);
    }
    const unsigned char *offsets = cell_at(h, pe_u32(p + 0x28), count * 4, &n);
    if (!offsets) {
        return damaged(err, "the list of values", pe_u32(p + 0x28));
    }
    for (size_t i = 0; i < count && !(wanted.s && list->n); i++) {
        struct hive_value value;
        int rc = read_value(h, a, pe_u32(offsets + i * 4), wanted, &value, err);
        if (rc < 0) {
            return rc;
        }
        if (rc > 0) {
            VEC_PUSH(a, list, value);
        }
    }
    return 0;
}

int hive_values(const struct hive *h, struct arena *a, struct hive_key key, hive_values_list *ret,
                struct gm_err *err)
{
    *ret = (hive_values_list){0};
    return walk_values(h, a, key, (struct str){0}, ret, err);
}

int hive_value(const struct hive *h, struct arena *a, struct hive_key key, const char *name,
               struct hive_value *ret, struct gm_err *err)
{
    hive_values_list list = {0};
    int rc = walk_values(h, a, key, str_of(name), &list, err);
    if (rc < 0 || list.n == 0) {
        return rc;
    }
    *ret = list.items[0];
    return 1;
}

const char *hive_text(struct arena *a, const struct hive_value *v)
{
    bool is_text = v->type == HIVE_SZ || v->type == HIVE_EXPAND_SZ || v->type == HIVE_MULTI_SZ;
    return is_text && v->data.s ? utf16_text(a, (const unsigned char *)v->data.s, v->data.n / 2)
                                : NULL;
}

bool hive_number(const struct hive_value *v, uint32_t *ret)
{
    if (v->type != HIVE_DWORD || v->data.n != 4) {
        return false;
    }
    *ret = pe_u32((const unsigned char *)v->data.s);
    return true;
}
