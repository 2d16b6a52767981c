/*
 * Slices of text: a pointer and a length that point into a mapping or an arena. Cut, compared
 * and split by pure functions; never NUL-terminated by promise. Text that must outlive its file
 * is copied with arena_strndup().
 */
#ifndef GPUMEND_BASE_STR_H
#define GPUMEND_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct str {
    const char *s;
    size_t n;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
#define STR_FMT      "%.*s"
#define STR_ARG(x)   (int)((x).n > 4096 ? 4096 : (x).n), (x).s

struct str str_of(const char *nul_terminated);
bool str_eq(struct str a, struct str b);
bool str_eq_nocase(struct str a, struct str b); // ASCII only
bool str_is(struct str a, const char *b);
int str_cmp(struct str a, struct str b); // bytes, then length
bool str_starts(struct str s, const char *prefix);
bool str_ends(struct str s, const char *suffix);
struct str str_trim(struct str s); // blanks and line ends off both ends
char *str_dup(struct arena *a, struct str s);

/* Index of c or of needle, or s.n if absent. */
size_t str_find_char(struct str s, char c);
size_t str_find(struct str s, const char *needle);

/* Cuts at the first sep: returns the head, leaves the rest (after sep) in *s. Without sep the
 * head is everything and *s becomes empty with s == NULL, so `while (s.s)` visits each piece. */
struct str str_cut(struct str *s, char sep);

/* The next line without its line end ("\n", "\r\n"); false at the end. */
bool str_line(struct str *rest, struct str *ret_line);

/* Decimal number, all of s; false if empty, too large or anything else. */
bool str_u64(struct str s, uint64_t *ret);

/* Shell pattern with `*`, `?` and `[...]`, over the whole text; linear in practice, no escapes,
 * `/` is an ordinary character. */
bool str_glob(const char *pattern, const char *text);

static inline bool str_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool str_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline char str_lower(char c) // ASCII only
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The value of a hexadecimal digit, or -1. The first form takes only small letters, for formats
 * whose writers have no others. */
static inline int str_hex_digit_small(char c)
{
    return str_is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline int str_hex_digit(char c)
{
    return str_hex_digit_small(str_lower(c));
}

static inline bool starts_with(const char *s, const char *prefix)
{
    while (*prefix && *s == *prefix) {
        s++, prefix++;
    }
    return !*prefix;
}
bool ends_with(const char *s, const char *suffix);
const char *path_base(const char *path);           // after the last '/'
char *path_dir(struct arena *a, const char *path); // "/" for "/x", "." without '/'
char *path_join(struct arena *a, const char *dir, const char *name);
/* Three texts, one after the other. A model makes tens of thousands of paths, for which the time of
 * printf counts. */
char *str_concat(struct arena *a, const char *x, const char *y, const char *z);
/* Removes "." and empty components and resolves ".." by text. Only for showing and comparing:
 * where a link precedes "..", the text and the file system disagree. */
char *path_normal(struct arena *a, const char *path);

/* The first character of UTF-8 and how many bytes it has; UINT32_MAX and 1: it is none. n > 0 */
uint32_t str_code_point(const char *s, size_t n, size_t *ret_len);

/* How many bytes the first character has; 0: it is not UTF-8, or nothing that a reader sees: a
 * control, a mark that reorders the text around it, a line separator, a noncharacter. */
size_t str_seen(const char *s, size_t n);
bool str_is_seen(const char *s); // all of it

/* A text as one word of a shell: as it is where no shell sees more in it, else in single quotes,
 * with
 * $'...' for what str_seen() refuses. */
const char *str_shell_word(struct arena *a, const char *s);

/* The same for PowerShell, always in quotes; NULL: no word, because a reader would not see all of
 * it.
 */
const char *str_powershell_word(struct arena *a, const char *s);

/* RFC 4648, section 4, with padding. */
char *str_base64(struct arena *a, const void *data, size_t n);

/* Foreign bytes made printable: those of what str_seen() refuses become \xNN. */
char *str_printable(struct arena *a, const char *s);
bool str_is_utf8(const char *s, size_t n);

/* A bytes literal of Python: b"/opt/\xc3\xa9". Any path can be one. */
const char *str_python_bytes(struct arena *a, const char *text);

/* For qsort() and bsearch() of texts (const char *): by their bytes, whatever the locale. */
int str_by_bytes(const void *x, const void *y);

uint64_t str_hash(const void *data, size_t n); // FNV-1a, for tables

#endif
