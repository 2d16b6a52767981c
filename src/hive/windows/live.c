#include "hive/live.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/windows/api.h"
#include "base/windows/sys.h"

enum {
    NAME_UNITS_MAX = 16384, // of a value's name; a key's has 255 ("Registry element size limits")
    DATA_BYTES_MAX = 16344, // what one cell of a hive's data may have (hive/hive.h)
    VALUES_MAX = 1024,      // of the reader (hive/hive.c)
    KEYS_MAX = 16384,
    HEAD_BYTES = 4096,
    BIN_HEAD_BYTES = 32,
};

/* ------------------------------------------------------------------ a hive in memory */

struct live_value {
    const wchar_t *name;
    uint32_t type;
    struct str data;
};

struct live_key {
    const wchar_t *name;
    VEC(struct live_value) values;
    VEC(struct live_key *) keys;
};

struct bins {
    struct arena *a;
    unsigned char *bytes;
    size_t n, cap;
};

static void put_16(unsigned char *to, unsigned value)
{
    to[0] = (unsigned char)value;
    to[1] = (unsigned char)(value >> 8);
}

static void put_32(unsigned char *to, uint32_t value)
{
    put_16(to, value & 0xffff);
    put_16(to + 2, value >> 16);
}

/* A cell in use, all zero; returns its offset. What it has begins four bytes behind it. */
static uint32_t add_cell(struct bins *b, size_t n)
{
    size_t size = (n + 4 + 7) / 8 * 8;
    while (b->n + size > b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 65536;
        unsigned char *bytes = arena_alloc(b->a, cap);
        if (b->n) {
            memcpy(bytes, b->bytes, b->n);
        }
        b->bytes = bytes;
        b->cap = cap;
    }
    uint32_t at = (uint32_t)b->n;
    memset(b->bytes + at, 0, size);
    put_32(b->bytes + at, (uint32_t) - (int32_t)size);
    b->n += size;
    return at;
}

static uint32_t add_value(struct bins *b, const struct live_value *v)
{
    size_t n_name = 2 * wcslen(v->name);
    uint32_t data = 0, size = (uint32_t)v->data.n;
    if (v->data.n > 4) {
        data = add_cell(b, v->data.n);
        memcpy(b->bytes + data + 4, v->data.s, v->data.n);
    } else {
        for (size_t i = 0; i < v->data.n; i++) {
            data |= (uint32_t)(unsigned char)v->data.s[i] << 8 * i;
        }
        size |= UINT32_C(0x80000000);
    }
    uint32_t at = add_cell(b, 20 + n_name);
    unsigned char *p = b->bytes + at + 4;
    memcpy(p, "vk", 2);
    put_16(p + 2, (unsigned)n_name);
    put_32(p + 4, size);
    put_32(p + 8, data);
    put_32(p + 12, v->type);
    memcpy(p + 20, v->name, n_name);
    return at;
}

static uint32_t add_key(struct bins *b, const struct live_key *key, bool is_root);

/* A list has a count of 16 bits, as many as KEYS_MAX. */
static uint32_t add_list(struct bins *b, const struct live_key *key)
{
    uint32_t *places = arena_array(b->a, key->keys.n + 1, sizeof *places);
    for (size_t i = 0; i < key->keys.n; i++) {
        places[i] = add_key(b, key->keys.items[i], false);
    }
    uint32_t at = add_cell(b, 4 + 4 * key->keys.n);
    memcpy(b->bytes + at + 4, "li", 2);
    put_16(b->bytes + at + 6, (unsigned)key->keys.n);
    for (size_t i = 0; i < key->keys.n; i++) {
        put_32(b->bytes + at + 8 + 4 * i, places[i]);
    }
    return at;
}

static uint32_t add_key(struct bins *b, const struct live_key *key, bool is_root)
{
    size_t n_name = 2 * wcslen(key->name);
    uint32_t keys = key->keys.n ? add_list(b, key) : UINT32_MAX;
    uint32_t *places = arena_array(b->a, key->values.n + 1, sizeof *places);
    for (size_t i = 0; i < key->values.n; i++) {
        places[i] = add_value(b, &key->values.items[i]);
    }
    uint32_t values = key->values.n ? add_cell(b, 4 * key->values.n) : UINT32_MAX;
    for (size_t i = 0; i < key->values.n; i++) {
        put_32(b->bytes + values + 4 + 4 * i, places[i]);
    }
    uint32_t at = add_cell(b, 76 + n_name);
    unsigned char *p = b->bytes + at + 4;
    memcpy(p, "nk", 2);
    put_16(p + 2, is_root ? 0xc : 0);
    put_32(p + 20, (uint32_t)key->keys.n);
    put_32(p + 28, keys);
    put_32(p + 32, UINT32_MAX);
    put_32(p + 36, (uint32_t)key->values.n);
    put_32(p + 40, values);
    put_32(p + 44, UINT32_MAX);
    put_32(p + 48, UINT32_MAX);
    put_16(p + 72, (unsigned)n_name);
    memcpy(p + 76, key->name, n_name);
    return at;
}

static struct str hive_of(struct arena *a, const struct live_key *root)
{
    struct bins b = {.a = a};
    (void)add_cell(&b, BIN_HEAD_BYTES - 4); // becomes the bin's head
    uint32_t at = add_key(&b, root, true);
    size_t size = (b.n + HEAD_BYTES - 1) / HEAD_BYTES * HEAD_BYTES;
    if (size > b.n) { // a free cell fills the last page
        uint32_t rest = add_cell(&b, size - b.n - 4);
        put_32(b.bytes + rest, (uint32_t)(b.n - rest));
    }
    unsigned char *hive = arena_alloc(a, HEAD_BYTES + b.n);
    memset(hive, 0, HEAD_BYTES);
    memcpy(hive + HEAD_BYTES, b.bytes, b.n);
    memset(hive + HEAD_BYTES, 0, BIN_HEAD_BYTES);
    memcpy(hive + HEAD_BYTES, "hbin", 4);
    put_32(hive + HEAD_BYTES + 8, (uint32_t)b.n);
    memcpy(hive, "regf", 4);
    put_32(hive + 4, 1);
    put_32(hive + 8, 1);
    put_32(hive + 20, 1);
    put_32(hive + 24, 5);
    put_32(hive + 32, 1);
    put_32(hive + 36, at);
    put_32(hive + 40, (uint32_t)b.n);
    put_32(hive + 44, 1);
    uint32_t sum = 0;
    for (size_t i = 0; i < 508; i += 4) {
        sum ^= (uint32_t)hive[i] | (uint32_t)hive[i + 1] << 8 | (uint32_t)hive[i + 2] << 16 |
               (uint32_t)hive[i + 3] << 24;
    }
    put_32(hive + 508, sum == 0 ? 1 : sum == UINT32_MAX ? UINT32_MAX - 1 : sum);
    return (struct str){(char *)hive, HEAD_BYTES + b.n};
}

/* ------------------------------------------------------------------ the registry */

struct live_reader {
    struct arena *a;
    size_t n_keys;
    bool is_cut; // something was left out
};

static const wchar_t *kept_wide(struct arena *a, const wchar_t *text)
{
    size_t bytes = (wcslen(text) + 1) * sizeof *text;
    wchar_t *copy = arena_alloc(a, bytes);
    memcpy(copy, text, bytes);
    return copy;
}

static struct live_key *new_key(struct arena *a, const wchar_t *name)
{
    struct live_key *key = arena_alloc(a, sizeof *key);
    *key = (struct live_key){.name = name};
    return key;
}

static void read_values(struct live_reader *r, HKEY from, struct live_key *to)
{
    wchar_t *name = arena_array(r->a, NAME_UNITS_MAX, sizeof *name);
    unsigned char *data = arena_alloc(r->a, DATA_BYTES_MAX);
    LONG rc = ERROR_SUCCESS;
    for (DWORD i = 0; rc != ERROR_NO_MORE_ITEMS && !r->is_cut; i++) {
        DWORD n_name = NAME_UNITS_MAX, n = DATA_BYTES_MAX, type;
        rc = RegEnumValueW(from, i, name, &n_name, NULL, &type, data, &n);
        r->is_cut |= rc == ERROR_SUCCESS && i == VALUES_MAX;
        if (rc == ERROR_SUCCESS) {
            char *bytes = arena_alloc(r->a, n + 1);
            memcpy(bytes, data, n);
            VEC_PUSH(r->a, &to->values,
                     ((struct live_value){kept_wide(r->a, name), type, {bytes, n}}));
        } else if (rc != ERROR_NO_MORE_ITEMS && rc != ERROR_MORE_DATA) {
            r->is_cut = true; // ERROR_MORE_DATA: of more bytes than anything that is read here
        }
    }
}

static int keys_by_name(const void *x, const void *y)
{
    const struct live_key *const *a = x, *const *b = y;
    return _wcsicmp((*a)->name, (*b)->name);
}

/* The values of a key, and `depth` levels of the keys below it. */
static void read_key(struct live_reader *r, HKEY from, unsigned depth, struct live_key *to)
{
    wchar_t name[256];
    read_values(r, from, to);
    for (DWORD i = 0; depth; i++) {
        DWORD n = 256;
        HKEY below;
        LONG rc = RegEnumKeyExW(from, i, name, &n, NULL, NULL, NULL, NULL);
        if (rc != ERROR_SUCCESS || r->n_keys == KEYS_MAX) {
            r->is_cut |= rc != ERROR_NO_MORE_ITEMS;
            break;
        }
        if (RegOpenKeyExW(from, name, 0, KEY_READ, &below) == ERROR_SUCCESS) {
            struct live_key *key = new_key(r->a, kept_wide(r->a, name));
            r->n_keys++;
            read_key(r, below, depth - 1, key);
            (void)RegCloseKey(below);
            VEC_PUSH(r->a, &to->keys, key);
        } // what may not be read (Properties, for the system alone) is left out
    }
    if (to->keys.n) {
        qsort(to->keys.items, to->keys.n, sizeof(struct live_key *), keys_by_name);
    }
}

/* The key at a path below `at`, made where it is not there. */
static struct live_key *make_path(struct arena *a, struct live_key *at, const wchar_t *path)
{
    while (*path) {
        size_t n = wcscspn(path, L"\\");
        struct live_key *found = NULL;
        for (size_t i = 0; i < at->keys.n && !found; i++) {
            const wchar_t *name = at->keys.items[i]->name;
            found = wcslen(name) == n && _wcsnicmp(name, path, n) == 0 ? at->keys.items[i] : NULL;
        }
        if (!found) {
            wchar_t *name = arena_array(a, n + 1, sizeof *name);
            memcpy(name, path, n * sizeof *name);
            name[n] = L'\0';
            found = new_key(a, name);
            VEC_PUSH(a, &at->keys, found);
            qsort(at->keys.items, at->keys.n, sizeof(struct live_key *), keys_by_name);
        }
        at = found;
        path += n + (path[n] == L'\\');
    }
    return at;
}

struct live_part {
    const char *hive;
    HKEY root;
    const wchar_t *from, *to;
    unsigned depth;
};

#define SET L"SYSTEM\\CurrentControlSet\\"

bool hive_live(struct arena *a, const char *name, struct str *ret)
{
    const struct live_part parts[] = {
        {"SYSTEM", HKEY_LOCAL_MACHINE, SET L"Control\\Session Manager",
         L"ControlSet001\\Control\\Session Manager", 0},
        {"SYSTEM", HKEY_LOCAL_MACHINE, SET L"Control\\Session Manager\\KnownDLLs",
         L"ControlSet001\\Control\\Session Manager\\KnownDLLs", 0},
        {"SYSTEM", HKEY_LOCAL_MACHINE, SET L"Control\\Session Manager\\Environment",
         L"ControlSet001\\Control\\Session Manager\\Environment", 0},
        {"SYSTEM", HKEY_LOCAL_MACHINE, SET L"Control\\FileSystem",
         L"ControlSet001\\Control\\FileSystem", 0},
        {"SYSTEM", HKEY_LOCAL_MACHINE,
         SET L"Control\\Class\\{4d36e968-e325-11ce-bfc1-08002be10318}",
         L"ControlSet001\\Control\\Class\\{4d36e968-e325-11ce-bfc1-08002be10318}", 1},
        {"SYSTEM", HKEY_LOCAL_MACHINE, SET L"Enum\\PCI", L"ControlSet001\\Enum\\PCI", 2},
        {"SOFTWARE", HKEY_LOCAL_MACHINE, L"SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion",
         L"Microsoft\\Windows NT\\CurrentVersion", 0},
        {"SOFTWARE", HKEY_LOCAL_MACHINE, L"SOFTWARE\\Python", L"Python", 4},
        {"SOFTWARE", HKEY_LOCAL_MACHINE, L"SOFTWARE\\WOW6432Node\\Python", L"WOW6432Node\\Python",
         4},
        {"USER", HKEY_CURRENT_USER, L"Environment", L"Environment", 0},
        {"USER", HKEY_CURRENT_USER, L"Software\\Python", L"Software\\Python", 4},
    };
    struct live_reader r = {.a = a};
    struct live_key *root = new_key(a, L"ROOT");
    size_t n = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        HKEY key;
        if (strcmp(parts[i].hive, name) == 0 &&
            RegOpenKeyExW(parts[i].root, parts[i].from, 0, KEY_READ, &key) == ERROR_SUCCESS) {
            read_key(&r, key, parts[i].depth, make_path(a, root, parts[i].to));
            (void)RegCloseKey(key);
            n++;
        }
    }
    if (strcmp(name, "SYSTEM") == 0) {
        static const char one[4] = {1};
        struct live_value current = {L"Current", REG_DWORD, {one, sizeof one}};
        VEC_PUSH(a, &make_path(a, root, L"Select")->values, current);
    }
    if (n == 0 || r.is_cut) {
        return false;
    }
    *ret = hive_of(a, root);
    return true;
}

const char *hive_live_profile(struct arena *a)
{
    const wchar_t *wide = _wgetenv(L"USERPROFILE");
    char *bytes = wide ? sys_narrow(wide) : NULL;
    const char *text = bytes ? arena_strdup(a, bytes) : NULL;
    free(bytes);
    return text;
}
