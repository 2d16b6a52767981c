/*
 * A registry hive of Windows, read with bounds checks from its bytes, which stay the caller's and
 * may be a mapping. Nothing is written. Source: the specification of the regf format by M. Suhanov
 * (github.com/msuhanov/regf, "Windows registry file format specification"), versions 1.2 to 1.6;
 * section names below are that document's.
 *
 *     0        base block: "regf", two sequence numbers, root key, size of the bins, checksum
 *     4096     bins of cells; each cell has its size, negative where it is in use, and is referred
 * to by its offset from here
 *
 *     nk  key: name, list of subkeys, list of values         vk  value: name, type, data
 *     li, lf, lh  list of subkeys                            ri  list of such lists
 *     db  data of more than 16344 bytes, in segments (from version 1.4 on)
 *
 * hive_open()  ->  hive_find() from hive_root()  ->  hive_value() or hive_subkeys()
 *
 * libhivex is not used: it opens files by itself, where this program reads everything below a root
 * or from a snapshot, and it converts texts by iconv(3), for which a static executable needs files
 * of the C library that a minimal system does not have.
 *
 * Not read: transaction logs (.LOG1, .LOG2), so that the last changes to a dirty hive are missing;
 * class names; security. Since Windows 8.1 a hive is dirty whenever Windows runs, and after it was
 * hibernated, as by fast startup; a full shutdown writes it (msuhanov/regf-samples, "Flush
 * strategies in the Windows registry").
 */
#ifndef GPUMEND_HIVE_HIVE_H
#define GPUMEND_HIVE_HIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct hive {
    const unsigned char *bins;
    size_t n_bins; // bytes
    uint32_t root; // offset of the root key
    unsigned minor;
    bool dirty; // changes may be missing or incomplete (section "Dirty state of a hive")
};

/* A key, by the offset of its cell. */
struct hive_key {
    uint32_t at;
};

/* Types of values, as the registry numbers them (winnt.h). */
enum hive_type {
    HIVE_SZ = 1,
    HIVE_EXPAND_SZ = 2,
    HIVE_DWORD = 4,
    HIVE_MULTI_SZ = 7,
};

struct hive_value {
    const char *name; // "" for the default value
    uint32_t type;    // enum hive_type, or another
    struct str data;  // its bytes, in the hive or the arena; s NULL: too many (over 128 KiB)
};

struct hive_subkey {
    const char *name; // UTF-8, in the arena
    struct hive_key key;
};

typedef VEC(struct hive_subkey) hive_subkeys_list;
typedef VEC(struct hive_value) hive_values_list;

/* GM_ERR_FORMAT: it is not a hive, of another version, cut off, or its base block is damaged. */
int hive_open(struct hive *h, const void *data, size_t size, struct gm_err *err) GM_CHECK;

struct hive_key hive_root(const struct hive *h);

/* The key that a path of names with '\\' leads to: 1, 0 if there is none, GM_ERR_FORMAT if what
 * decides is damaged, or GM_ERR_LIMIT. Names are ASCII, and their case does not count. */
int hive_find(const struct hive *h, struct hive_key from, const char *path, struct hive_key *ret,
              struct gm_err *err) GM_CHECK;

/* All subkeys, in the hive's order (by name in capitals). GM_ERR_FORMAT, GM_ERR_LIMIT. */
int hive_subkeys(const struct hive *h, struct arena *a, struct hive_key key, hive_subkeys_list *ret,
                 struct gm_err *err) GM_CHECK;

/* All values, in the hive's order. GM_ERR_FORMAT, GM_ERR_LIMIT. */
int hive_values(const struct hive *h, struct arena *a, struct hive_key key, hive_values_list *ret,
                struct gm_err *err) GM_CHECK;

/* The value of that name (ASCII): 1, 0 if there is none, or an error. */
int hive_value(const struct hive *h, struct arena *a, struct hive_key key, const char *name,
               struct hive_value *ret, struct gm_err *err) GM_CHECK;

/* A text (SZ, EXPAND_SZ; of MULTI_SZ the first) up to its NUL, as UTF-8; NULL for another type. */
const char *hive_text(struct arena *a, const struct hive_value *v);

/* A number (DWORD); false for another value. */
bool hive_number(const struct hive_value *v, uint32_t *ret);

#endif
