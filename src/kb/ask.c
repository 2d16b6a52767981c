#include "kb/ask.h"

#include <stdarg.h>
#include <string.h>

#include "base/str.h"
#include "py/version.h"

enum { HITS_MAX = 60 };

/* ------------------------------------------------------------------ saying */

void ask_say(struct ask *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *sentence = arena_vprintf(k->a, fmt, ap);
    va_end(ap);
    k->answer->text =
        k->answer->known ? arena_printf(k->a, "%s %s", k->answer->text, sentence) : sentence;
    k->answer->known = true;
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
