#include "report/paste.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "report/paste_internal.h"
#include "version.h"

enum {
    FINDINGS_MAX = 12,
    EVIDENCE_MAX = 4,
    NOTES_MAX = 6,
    FINE_MAX = 4,
};

/* ------------------------------------------------------------------ findings */

static void evidence(struct paste *p, const diag_texts *texts)
{
    for (size_t i = 0; i < texts->n && i < EVIDENCE_MAX; i++) {
        fprintf(p->out.file, "    - ");
        out_wrap(&p->out, 6, paste_shown(p, texts->items[i]));
    }
    if (texts->n > EVIDENCE_MAX) {
        fprintf(p->out.file, "    - and %zu more\n", texts->n - EVIDENCE_MAX);
    }
}

static void finding(struct paste *p, const struct diag_finding *f)
{
    fprintf(p->out.file, "  %s: %s\n    ", diag_severity_name(f->severity),
            diag_causes[f->cause].id);
    out_wrap(&p->out, 4, paste_shown(p, f->summary));
    evidence(p, &f->evidence);
}

static void paste_texts(struct paste *p, const char *key, const char *const *items, size_t n,
                        size_t most)
{
    for (size_t i = 0; i < n && i < most; i++) {
        paste_line(p, key, items[i]);
    }
    if (n > most) {
        paste_line(p, key, arena_printf(p->a, "and %zu more", n - most));
    }
}

static void findings(struct paste *p, const struct diag_report *r)
{
    paste_section(p, "Findings");
    for (size_t i = 0; i < r->findings.n && i < FINDINGS_MAX; i++) {
        finding(p, r->findings.items[i]);
    }
    if (r->findings.n > FINDINGS_MAX) {
        fprintf(p->out.file, "  and %zu more\n", r->findings.n - FINDINGS_MAX);
    }
    paste_texts(p, "fine", r->fine.items, r->fine.n, FINE_MAX);
    paste_texts(p, "note", r->notes.items, r->notes.n, NOTES_MAX);
    if (r->findings.n + r->fine.n + r->notes.n == 0) {
        fprintf(p->out.file, "  none\n");
    }
}

/* ------------------------------------------------------------------ the head and the fence */

/* Only words of gpumend's own: nothing here is in the fence. */
static void verdict_line(FILE *file, struct arena *a, const struct diag_report *r)
{
    static const char *const words[] = {[DIAG_OK] = "no error in what was looked at",
                                        [DIAG_BROKEN] = "broken",
                                        [DIAG_CANNOT_TELL] = "cannot tell"};
    const char *causes = "";
    size_t counts[] = {[DIAG_NOTE] = 0, [DIAG_WARNING] = 0, [DIAG_ERROR] = 0};
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        const char *id = arena_printf(a, "`%s`", diag_causes[f->cause].id);
        counts[f->severity]++;
        if (f->severity != DIAG_NOTE && !strstr(causes, id)) {
            causes = arena_printf(a, "%s%s%s", causes, *causes ? ", " : ": ", id);
        }
    }
    fprintf(file, "**gpumend %s: %s** (%zu error%s, %zu warning%s%s)\n", GPUMEND_VERSION,
            words[r->verdict], counts[DIAG_ERROR], counts[DIAG_ERROR] == 1 ? "" : "s",
            counts[DIAG_WARNING], counts[DIAG_WARNING] == 1 ? "" : "s", causes);
}

/* CommonMark 0.31, 4.5: a fence ends at a line of at least as many backticks. */
static void fenced(FILE *file, const char *block, size_t n)
{
    size_t longest = 2, run = 0;
    for (size_t i = 0; i < n; i++) {
        run = block[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (int twice = 0; twice < 2; twice++) {
        for (size_t i = 0; i <= longest; i++) {
            fputc('`', file);
        }
        fputs(twice ? "\n" : "text\n", file);
        if (!twice) {
            (void)fwrite(block, 1, n, file); // shows in ferror()
        }
    }
}

static void target(struct paste *p, const struct report_target *t)
{
    const char *path = t->path ? t->path : p->m->env ? p->m->env->prefix : NULL;
    const char *text = path ? arena_printf(p->a, "%s %s", t->kind, path) : t->kind;
    if (p->m->pid) {
        text = arena_printf(p->a, "process %d", p->m->pid);
    }
    if (strcmp(t->root, "/") != 0) {
        text = arena_printf(p->a, "%s, below %s", text, t->root);
    }
    paste_whole(p, "looked at", text);
    if (t->snapshot) {
        paste_line(p, "snapshot",
                   arena_printf(p->a, "%s, made %s by gpumend %s", t->snapshot,
                                t->made ? t->made : "at an unknown time",
                                t->made_by ? t->made_by : "of unknown version"));
    }
    if (p->m->container_id) {
        paste_line(p, "in container",
                   arena_printf(p->a, "%.12s (%s)", p->m->container_id, p->m->container_engine));
    }
}

int report_paste(FILE *file, struct model *m, const struct diag_report *r,
                 const struct report_target *t, struct snapshot_redactor *names)
{
    char *block = NULL;
    size_t n = 0;
    struct paste p = {.m = m, .a = m->arena, .names = names};
    FILE *memory = open_memstream(&block, &n);
    if (!memory) {
        return -1;
    }
    p.out = (struct out){.file = memory, .width = 100};
    fprintf(memory, "Target\n");
    target(&p, t);
    paste_system(&p);
    paste_stack(&p);
    findings(&p, r);
    bool failed = ferror(memory);
    failed |= fclose(memory) != 0; // it sets block and n
    if (failed) {
        free(block);
        return -1; // part of a report is none
    }
    if (file) {
        verdict_line(file, p.a, r);
        fputc('\n', file);
        fenced(file, block, n);
    }
    free(block);
    return 0;
}
