#include "kb/ask.h"

#include <stdarg.h>
#include <string.h>

#include "base/str.h"
#include "py/version.h"

enum { HITS_MAX = 60 };

const char *ask_given(const struct ask *k, enum question_key key)
{
    return k->q->one[key];
}

const char *ask_platform(const struct ask *k)
{
    bool arm = k->q->said & SAID_AARCH64;
    return k->q->said & SAID_WINDOWS ? (arm ? NULL : "windows-x86-64")
           : arm                     ? "linux-aarch64"
                                     : NULL;
}

/* ------------------------------------------------------------------ saying */

static void say_text(struct ask *k, const char *text, char before)
{
    k->answer->text =
        k->answer->known ? arena_printf(k->a, "%s%c%s", k->answer->text, before, text) : text;
    k->answer->known = true;
}

void ask_say(struct ask *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *sentence = arena_vprintf(k->a, fmt, ap);
    va_end(ap);
    const char *line = strrchr(k->answer->text, '\n');
    if (k->answer->known && strstr(k->answer->text, sentence)) {
        return; // of two values that have the same answer
    }
    bool behind_table = k->answer->known && line && starts_with(line + 1, "  ");
    say_text(k, sentence, behind_table ? '\n' : ' ');
}

void ask_missing(struct ask *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    k->missing = arena_vprintf(k->a, fmt, ap);
    va_end(ap);
}

/* "torch 2.13.0, build cu126: CUDA 12.6, cuDNN 9.10.2.21." */
static void say_line(struct ask *k, const struct ask_table *t, const struct ask_line *line)
{
    const char *text = line->cells[0];
    for (size_t c = 1; c < t->columns; c++) {
        const char *before = c < t->named ? ", " : c == t->named ? ": " : ", ";
        if (line->cells[c]) {
            text = arena_printf(k->a, "%s%s%s%s%s", text, before, t->heads[c],
                                t->heads[c][0] ? " " : "", line->cells[c]);
        }
    }
    ask_say(k, "%s.", text);
}

static bool column_used(const struct ask_table *t, size_t column)
{
    for (size_t i = 0; i < t->lines.n; i++) {
        if (t->lines.items[i].cells[column]) {
            return true;
        }
    }
    return false;
}

static size_t column_width(const struct ask_table *t, size_t column)
{
    size_t width = strlen(t->heads[column]);
    for (size_t i = 0; i < t->lines.n; i++) {
        const char *cell = t->lines.items[i].cells[column];
        width = cell && strlen(cell) > width ? strlen(cell) : width;
    }
    return width;
}

static const char *row_text(struct ask *k, const struct ask_table *t, const char *const *cells)
{
    const char *text = "";
    size_t pad = 0;
    for (size_t c = 0; c < t->columns; c++) {
        if (column_used(t, c)) {
            const char *cell = cells[c] ? cells[c] : "-";
            text = arena_printf(k->a, "%s%*s  %s", text, (int)pad, "", cell);
            pad = column_width(t, c) - strlen(cell);
        }
    }
    return text;
}

void ask_say_table(struct ask *k, const char *title, const struct ask_table *t)
{
    enum { SENTENCES_MAX = 2 };
    if (t->lines.n <= SENTENCES_MAX) {
        for (size_t i = 0; i < t->lines.n; i++) {
            say_line(k, t, &t->lines.items[i]);
        }
        return;
    }
    ask_say(k, "%s:", title);
    say_text(k, row_text(k, t, t->heads), '\n');
    for (size_t i = 0; i < t->lines.n; i++) {
        say_text(k, row_text(k, t, t->lines.items[i].cells), '\n');
    }
}

void ask_hit(struct ask *k, enum kb_area area, const void *row, const struct kb_origin *origin)
{
    for (size_t i = 0; i < k->answer->hits.n; i++) {
        if (k->answer->hits.items[i].row == row) {
            return;
        }
    }
    if (k->answer->hits.n < HITS_MAX) {
        VEC_PUSH(k->a, &k->answer->hits, ((struct kb_hit){area, row, origin}));
    }
}

const char *ask_joined(struct arena *a, struct kb_strs list)
{
    const char *text = list.n ? list.items[0] : "";
    for (size_t i = 1; i < list.n; i++) {
        text = arena_printf(a, "%s, %s", text, list.items[i]);
    }
    return text;
}

/* ------------------------------------------------------------------ versions */

int ask_compare(const char *one, const char *two)
{
    struct py_version a, b;
    return py_version_parse(str_of(one), &a) && py_version_parse(str_of(two), &b)
               ? py_version_cmp(&a, &b)
               : 0;
}

bool ask_within(const char *version, const char *part)
{
    size_t n = part ? strlen(part) : 0;
    return version && part && strncmp(version, part, n) == 0 &&
           (version[n] == '\0' || version[n] == '.' || strcmp(version + n, "-") == 0);
}

bool ask_meets(const char *one, const char *two)
{
    return ask_within(one, two) || ask_within(two, one);
}

bool ask_admits(struct ask *k, const char *set, const char *version)
{
    struct py_specifiers specifiers;
    return py_specifiers_parse(k->a, str_of(set), &specifiers, NULL) == 0 &&
           py_specifiers_match(&specifiers, str_of(version)) == PY_YES;
}

const char *ask_major(struct ask *k, const char *version)
{
    return arena_strndup(k->a, version, strcspn(version, "."));
}

int ask_arch_number(const char *text)
{
    int number = 0;
    text += strcspn(text, "0123456789");
    for (; *text; text++) {
        if (*text == '.') {
            continue;
        }
        if (*text < '0' || *text > '9' || number > 9999) {
            return 0;
        }
        number = number * 10 + (*text - '0');
    }
    return number;
}

bool ask_has_text(struct kb_strs list, const char *text)
{
    for (size_t i = 0; i < list.n; i++) {
        if (strcmp(list.items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

bool ask_has_code(const struct question *q, int code)
{
    for (size_t i = 0; i < q->n_codes; i++) {
        if (q->codes[i] == code) {
            return true;
        }
    }
    return false;
}

/* "~=2.8.0" takes the releases of the series 2.8 and no others. */
static bool is_series_of(const char *need, const char *version)
{
    size_t n = strlen(version);
    return starts_with(need, "~=") && strchr(version, '.') && strncmp(need + 2, version, n) == 0 &&
           need[2 + n] == '.' && !strpbrk(need + 3 + n, ".,");
}

bool ask_needs_just(const struct kb_release *row, const char *package, const char *version)
{
    for (size_t i = 0; i < row->n_needs; i++) {
        const char *need = row->needs[i].versions;
        if (strcmp(row->needs[i].package, package) == 0) {
            return need && (starts_with(need, "==") || is_series_of(need, version));
        }
    }
    return strcmp(package, "numpy") == 0 && row->numpy_abi && strcmp(row->numpy_abi, "1") == 0;
}

const char *ask_need_text(struct ask *k, const struct kb_release_need *n)
{
    const char *text = arena_printf(k->a, "%s%s%s", n->package, n->versions ? " " : "",
                                    n->versions ? n->versions : "");
    text = n->extra ? arena_printf(k->a, "%s (with the extra %s)", text, n->extra) : text;
    return n->when ? arena_printf(k->a, "%s (if %s)", text, n->when) : text;
}
