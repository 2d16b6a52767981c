/* The end of what `check` prints: remarks, and the verdict in a sentence. */
#include "report/check_page.h"

#include <string.h>

enum { BRIEF_REMARKS_MAX = 3, NAMED_ENTRIES_MAX = 6 };

static void page_remark(const struct report_page *p, enum out_style style, const char *label,
                        const char *text)
{
    out_print(p->o, style, "%s", label);
    fprintf(p->o->file, "     ");
    out_wrap(p->o, 9, report_page_shorten(p, text));
}

/* Where there is no verdict the notes say why: none is left out. */
void report_page_remarks(const struct report_page *p, const struct diag_report *r)
{
    bool all = !p->brief || r->verdict == DIAG_CANNOT_TELL;
    size_t max = all ? SIZE_MAX : BRIEF_REMARKS_MAX;
    size_t fine = all || r->verdict == DIAG_OK ? r->fine.n : 0;
    if (fine || r->notes.n) {
        fputc('\n', p->o->file);
    }
    for (size_t i = 0; i < fine && i < max; i++) {
        page_remark(p, OUT_GREEN, "fine", r->fine.items[i]);
    }
    for (size_t i = 0; i < r->notes.n && i < max; i++) {
        page_remark(p, OUT_DIM, "note", r->notes.items[i]);
    }
    if (p->m->hook.file) {
        out_print(p->o, OUT_DIM, "hook");
        fprintf(p->o->file, "     remove it with: %s\n",
                str_printable(p->m->arena, model_command(p->m, "disable", "")));
    }
    if (fine > max || r->notes.n > max) {
        fprintf(p->o->file, "         and %zu more: -v prints them all\n",
                (fine > max ? fine - max : 0) + (r->notes.n > max ? r->notes.n - max : 0));
    }
}

/* "faster_whisper, torch and 3 more"; NULL: none has this verdict. */
static const char *entries_with(const struct report_page *p, const struct diag_report *r,
                                enum diag_verdict verdict)
{
    const char *list = "";
    size_t n = 0;
    for (size_t i = 0; i < r->entries.n; i++) {
        const struct diag_entry *e = &r->entries.items[i];
        if (e->part_of || e->verdict != verdict) {
            continue;
        }
        n++;
        if (!p->brief || n <= NAMED_ENTRIES_MAX) {
            list = arena_printf(p->m->arena, "%s%s%s", list, *list ? ", " : "", e->module);
        }
    }
    if (p->brief && n > NAMED_ENTRIES_MAX) {
        list = arena_printf(p->m->arena, "%s and %zu more", list, n - NAMED_ENTRIES_MAX);
    }
    return n ? str_printable(p->m->arena, list) : NULL;
}

/* Behind "no error" where several imports were judged together, so that none is an entry. */
static const char *imports_together(const struct report_page *p)
{
    const struct model_process *first = p->m->processes.n ? p->m->processes.items[0] : NULL;
    if (!first || !first->imported.n) {
        return NULL;
    }
    const char *list = report_page_words(p->m, first->imported.items, first->imported.n);
    return arena_printf(p->m->arena, " in %s, %s%s", str_printable(p->m->arena, list),
                        first->imported.n == 1 ? "from import to first use"
                                               : "used in any order after their imports",
                        first->unknown.n ? "; of the other imports nothing is known" : "");
}

/* What was looked at, behind "no error". */
static const char *looked_at(const struct report_page *p, const struct diag_report *r,
                             const struct report_target *t)
{
    const char *ok = entries_with(p, r, DIAG_OK);
    if (ok) {
        return arena_printf(p->m->arena, " in %s, from import to first use%s", ok,
                            p->m->for_cpu ? " on the CPU" : "");
    }
    if (p->m->pid) {
        return " in what the process has loaded, and in what its packages are known to load next";
    }
    const char *together = p->m->env ? imports_together(p) : NULL;
    if (together) {
        return together;
    }
    if (p->m->env) {
        return "; only the interpreter was looked at, as no known GPU package is installed";
    }
    return t->path ? " in what it is linked with, and in what it is known to load later"
                   : "; no Python environment was found, so no package was looked at";
}

static const char *counted(struct arena *a, size_t n, const char *what)
{
    return arena_printf(a, "%zu %s%s", n, what, n == 1 ? "" : "s");
}

/* Whether what the brief form ends with repairs all errors at once. */
static bool ends_all_errors(const struct report_page *p, const struct diag_report *r)
{
    bool all = p->advice != NULL;
    for (size_t i = 0; i < r->findings.n && all; i++) {
        const struct diag_finding *f = r->findings.items[i];
        all = f->severity != DIAG_ERROR || report_is_in_advice(f, p->advice);
    }
    return all;
}

/* An error of the machine is met by whatever uses the GPU, though no import shows it. */
static bool has_machine_error(const struct diag_report *r)
{
    bool any = false;
    for (size_t i = 0; i < r->findings.n && !any; i++) {
        const struct diag_finding *f = r->findings.items[i];
        any = f->severity == DIAG_ERROR && f->stage == DIAG_STAGE_MACHINE && !f->scripts.n;
    }
    return any;
}

static const char *broken_sentence(const struct report_page *p, const struct diag_report *r,
                                   size_t errors, size_t warnings)
{
    struct arena *a = p->m->arena;
    size_t notes = diag_count(r, DIAG_NOTE);
    const char *broken = entries_with(p, r, DIAG_BROKEN), *ok = entries_with(p, r, DIAG_OK);
    const char *text = counted(a, errors, "error");
    if (warnings) {
        text = arena_printf(a, "%s, %s", text, counted(a, warnings, "warning"));
    }
    if (p->brief && notes) {
        text = arena_printf(a, "%s, %s", text, counted(a, notes, "note"));
    }
    if (errors > 1 && !ends_all_errors(p, r)) {
        text = arena_printf(a, "%s: begin with the first", text);
    }
    if (broken && ok && has_machine_error(r)) {
        text = arena_printf(a, "%s; every program that uses the GPU is affected", text);
    } else if (broken && ok) {
        text = arena_printf(a, "%s; affected: %s; not affected: %s", text, broken, ok);
    }
    if (!p->brief && report_is_only_for_gpu(p->m, r)) { // the brief form has it in the head
        text = arena_printf(a,
                            "%s; no GPU was found here, and what runs on the CPU does not need %s: "
                            "see --device cpu",
                            text, errors == 1 ? "it" : "them");
    }
    return p->brief ? arena_printf(a, "%s (-v prints the evidence)", text) : text;
}

static const char *verdict_sentence(const struct report_page *p, const struct diag_report *r,
                                    const struct report_target *t)
{
    struct arena *a = p->m->arena;
    size_t errors = diag_count(r, DIAG_ERROR), warnings = diag_count(r, DIAG_WARNING);
    if (r->verdict == DIAG_BROKEN) {
        return broken_sentence(p, r, errors, warnings);
    }
    if (r->verdict == DIAG_OK) {
        const char *more =
            warnings ? arena_printf(a, " (%s)", counted(a, warnings, "warning")) : "";
        return arena_printf(a, "no error%s%s", looked_at(p, r, t), more);
    }
    return warnings ? "not all could be judged; the warnings and notes say why"
                    : "it cannot be determined whether this works; the notes say why";
}

void report_page_verdict(const struct report_page *p, const struct diag_report *r,
                         const struct report_target *t)
{
    static const struct {
        enum out_style style;
        const char *name;
    } shown[] = {[DIAG_OK] = {OUT_GREEN, "ok"},
                 [DIAG_BROKEN] = {OUT_RED, "broken"},
                 [DIAG_CANNOT_TELL] = {OUT_YELLOW, "unknown"}};
    fputc('\n', p->o->file);
    out_print(p->o, shown[r->verdict].style, "%s", shown[r->verdict].name);
    fprintf(p->o->file, "%*s", (int)(9 - strlen(shown[r->verdict].name)), "");
    out_wrap(p->o, 9, verdict_sentence(p, r, t));
}

const char *report_verdict_sentence(const struct model *m, const struct diag_report *r,
                                    const struct report_target *target)
{
    struct report_page p = {.m = m};
    return verdict_sentence(&p, r, target);
}
