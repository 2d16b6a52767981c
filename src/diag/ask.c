/* What other rooms ask about a report and its processes. */
#include <string.h>

#include "diag/internal.h"

size_t diag_lacks(struct model *m, const struct model_process *p, struct diag_lack **ret)
{
    struct diag d = {.m = m, .a = m->arena};
    struct diag_failure *list = NULL;
    size_t n = diag_failures(&d, p, &list);
    VEC(struct diag_lack) out = {0};
    for (size_t i = 0; i < n; i++) {
        if (list[i].request && list[i].request->outcome == LDSO_NOT_FOUND) {
            VEC_PUSH(m->arena, &out,
                     (struct diag_lack){list[i].name, list[i].request, list[i].attempt});
        }
    }
    *ret = out.items;
    return out.n;
}

const char *diag_script_words(struct model *m, const struct model_process *p)
{
    struct diag d = {.m = m, .a = m->arena};
    return diag_script_text(&d, p);
}

bool diag_shows_in(struct model *m, const struct diag_finding *f, const struct model_process *p)
{
    const char *text = diag_script_words(m, p);
    for (size_t i = 0; i < f->scripts.n; i++) {
        if (strcmp(f->scripts.items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ commands, read back */

/* The text of $'...' as diag_quote() writes it, with octal numbers alone. Returns what comes after
 * it, or NULL. */
static const char *read_unseen(struct arena *a, const char *s, const char **out)
{
    char *text = arena_alloc(a, strlen(s) + 1), *end = text;
    while (*s && *s != '\'') {
        bool octal = s[0] == '\\' && strspn(s + 1, "01234567") >= 3;
        if (s[0] == '\\' && !octal) {
            return NULL;
        }
        *end++ = octal ? (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0')) : *s;
        s += octal ? 4 : 1;
    }
    *end = '\0';
    *out = arena_printf(a, "%s%s", *out, text);
    return *s ? s + 1 : NULL;
}

/* One word of a shell: plain characters and parts in single quotes. Returns where it ends, NULL
 * where it holds anything else that a shell would act on. */
static const char *read_word(struct arena *a, const char *s, const char **ret)
{
    const char *out = "";
    while (*s && !strchr(" \t\n\"", *s)) {
        size_t n = strcspn(s, " \t\n\"'\\$`&|;<>()*?[]#~!{}");
        if (s[0] == '$' && s[1] == '\'') {
            s = read_unseen(a, s + 2, &out);
            if (!s) {
                return NULL;
            }
        } else if (*s == '\'') {
            n = strcspn(s + 1, "'");
            if (s[n + 1] != '\'') {
                return NULL;
            }
            out = arena_printf(a, "%s%.*s", out, (int)n, s + 1);
            s += n + 2;
        } else if (s[0] == '\\' && s[1] == '\'') {
            out = arena_printf(a, "%s'", out);
            s += 2;
        } else if (n == 0) {
            return NULL;
        } else {
            out = arena_printf(a, "%s%.*s", out, (int)n, s);
            s += n;
        }
    }
    *ret = out;
    return s;
}

bool diag_is_variable_name(struct str s)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return s.n > 0 && strspn(s.s, letters) >= s.n && !(s.s[0] >= '0' && s.s[0] <= '9');
}

bool diag_repair_variable(struct arena *a, const struct diag_repair *r, struct diag_variable *ret)
{
    const char *s = r->command;
    if (r->kind != DIAG_REPAIR_ENV || !s) {
        return false;
    }
    if (starts_with(s, "unset ") && diag_is_variable_name(str_of(s + 6))) {
        *ret = (struct diag_variable){.name = s + 6};
        return true;
    }
    const char *equals = strchr(s, '=');
    if (!starts_with(s, "export ") || !equals ||
        !diag_is_variable_name((struct str){s + 7, (size_t)(equals - s - 7)})) {
        return false;
    }
    struct diag_variable v = {.name = arena_strndup(a, s + 7, (size_t)(equals - s - 7))};
    const char *rest = read_word(a, equals + 1, &v.value);
    const char *keep = arena_printf(a, "\"${%s:+:$%s}\"", v.name, v.name);
    v.prepend = rest && strcmp(rest, keep) == 0;
    if (!rest || (*rest && !v.prepend)) {
        return false;
    }
    *ret = v;
    return true;
}
