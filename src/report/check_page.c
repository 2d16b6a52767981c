#include "report/check_page.h"

#include <string.h>

void report_page_line(const struct report_page *p, const char *label, const char *value)
{
    fprintf(p->o->file, "%-12s", label);
    out_wrap(p->o, 12, str_printable(p->m->arena, value));
}

/* A folder stands for itself only at the end of a word or before a slash. */
const char *report_fold(struct arena *a, const char *text, const char *folder, const char *name)
{
    const char *out = "";
    size_t n = folder ? strlen(folder) : 0;
    for (const char *at; n && (at = strstr(text, folder)) != NULL; text = at + n) {
        bool whole = !at[n] || strchr("/ :,;)'", at[n]);
        out = arena_printf(a, "%s%.*s%s", out, (int)(at - text), text, whole ? name : folder);
    }
    return arena_printf(a, "%s%s", out, text);
}

const char *report_page_shorten(const struct report_page *p, const char *text)
{
    struct arena *a = p->m->arena;
    return str_printable(
        a, report_fold(a, report_fold(a, text, p->site, "<site>"), p->prefix, "<env>"));
}

const char *report_folded_prefix(const struct model *m)
{
    const struct py_env *e = m->env;
    return e && e->kind != PY_ENV_SYSTEM && e->prefix && strlen(e->prefix) > 5 ? e->prefix : NULL;
}

const char *report_folded_site(const struct model *m)
{
    for (size_t i = 0; m->env && i < m->env->n_paths; i++) {
        if (m->env->paths[i].is_dir && m->env->paths[i].origin == PY_PATH_SITE) {
            return m->env->paths[i].dir;
        }
    }
    return NULL;
}

const char *report_shorten(const struct model *m, const char *text)
{
    struct report_page p = {
        .m = m, .site = report_folded_site(m), .prefix = report_folded_prefix(m)};
    return report_page_shorten(&p, text);
}

const char *report_page_words(const struct model *m, const char *const *items, size_t n)
{
    const char *text = "";
    for (size_t i = 0; i < n; i++) {
        text = arena_printf(m->arena, "%s%s%s", text, i ? ", " : "", items[i]);
    }
    return text;
}

void report_page_item(const struct report_page *p, const char *label, const char *value)
{
    fprintf(p->o->file, "  %-10s", label);
    out_wrap(p->o, 12, value);
}

void report_page_repair(const struct report_page *p, const struct diag_repair *r, const char *label)
{
    report_page_item(p, label, report_page_shorten(p, r->text));
    if (r->command) {
        out_print(p->o, OUT_BOLD, "              %s\n", str_printable(p->m->arena, r->command));
    }
}

void report_page_summary(const struct report_page *p, const struct diag_finding *f)
{
    static const enum out_style styles[] = {
        [DIAG_NOTE] = OUT_DIM, [DIAG_WARNING] = OUT_YELLOW, [DIAG_ERROR] = OUT_RED};
    const char *severity = diag_severity_name(f->severity);
    fputc('\n', p->o->file);
    out_print(p->o, styles[f->severity], "%s", severity);
    fprintf(p->o->file, "%*s", (int)(9 - strlen(severity)), "");
    out_wrap(p->o, 9, report_page_shorten(p, f->summary));
    if (f->likewise.n) {
        report_page_item(
            p, "likewise",
            report_page_shorten(p, report_page_words(p->m, f->likewise.items, f->likewise.n)));
    }
}

/* The advice for good begins with the repair of what is met only once another finding is. */
bool report_is_in_advice(const struct diag_finding *f, const struct report_advice *advice)
{
    return plan_way_mends(advice->start.way, f) || plan_way_mends(advice->good.way, f) ||
           (f->behind && advice->good.way && f->repairs.items[0].command);
}
