/* What `check` prints as text: briefly, or with -v with all the evidence. */
#include "report/check.h"

#include <string.h>

#include "report/devices.h"
#include "variant/variant.h"

/* The brief form is to fit on a screen: what is cut is counted, and -v prints it. */
enum {
    GPU_LINES_MAX = 3,
    BRIEF_PACKAGES_MAX = 8,
    BRIEF_FINDINGS_MAX = 6,
    BRIEF_REMARKS_MAX = 3,
    NAMED_ENTRIES_MAX = 6,
    NAMED_LESSER_MAX = 3
};

/* Long folders are written in the head once and shortened below it; commands keep them whole. */
struct page {
    const struct out *o;
    const struct model *m;
    const char *site, *prefix; // "<site>" and "<env>"; NULL: not shortened
    bool brief;
    const struct report_advice *advice; // at the end of the brief form; NULL: none
};

static void page_line(const struct page *p, const char *label, const char *value)
{
    fprintf(p->o->file, "%-12s", label);
    out_wrap(p->o, 12, str_printable(p->m->arena, value));
}

/* A folder stands for itself only at the end of a word or before a slash. */
static const char *shorten_one(struct arena *a, const char *text, const char *folder,
                               const char *name)
{
    const char *out = "";
    size_t n = folder ? strlen(folder) : 0;
    for (const char *at; n && (at = strstr(text, folder)) != NULL; text = at + n) {
        bool whole = !at[n] || strchr("/ :,;)'", at[n]);
        out = arena_printf(a, "%s%.*s%s", out, (int)(at - text), text, whole ? name : folder);
    }
    return arena_printf(a, "%s%s", out, text);
}

static const char *shorten(const struct page *p, const char *text)
{
    struct arena *a = p->m->arena;
    return str_printable(
        a, shorten_one(a, shorten_one(a, text, p->site, "<site>"), p->prefix, "<env>"));
}

static const char *shown_prefix(const struct model *m)
{
    const struct py_env *e = m->env;
    return e && e->kind != PY_ENV_SYSTEM && e->prefix && strlen(e->prefix) > 5 ? e->prefix : NULL;
}

static const char *shown_site(const struct model *m)
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
    struct page p = {.m = m, .site = shown_site(m), .prefix = shown_prefix(m)};
    return shorten(&p, text);
}

static const char *known_packages(const struct page *p)
{
    const struct model *m = p->m;
    const char *list = "";
    size_t shown = p->brief && m->known.n > BRIEF_PACKAGES_MAX ? BRIEF_PACKAGES_MAX : m->known.n;
    for (size_t i = 0; i < shown; i++) {
        const struct py_dist *dist = m->known.items[i];
        list = arena_printf(m->arena, "%s%s%s %s", list, *list ? ", " : "", dist->name,
                            dist->version ? dist->version : "");
    }
    return shown < m->known.n ? arena_printf(m->arena, "%s and %zu more", list, m->known.n - shown)
                              : list;
}

/* "venv, by uv", "conda, by pixi" */
static const char *environment_kind(const struct model *m)
{
    const char *kind = py_env_kind_name(m->env->kind), *by = m->env->manager;
    return by && strcmp(by, kind) != 0 ? arena_printf(m->arena, "%s, by %s", kind, by) : kind;
}

static const char *version_in(const struct py_env *e, const char *name)
{
    for (size_t i = 0; i < e->n_dists; i++) {
        if (e->dists[i].kind == PY_DIST_CONDA && strcmp(e->dists[i].name_normal, name) == 0) {
            return e->dists[i].version;
        }
    }
    return NULL;
}

/* What conda's solver was told to make the environment for, and what it would be told here. */
static void conda_line(struct page *p)
{
    struct arena *a = p->m->arena;
    struct variant_conda here;
    if (p->m->env->kind != PY_ENV_CONDA || !p->m->host) {
        return;
    }
    variant_conda(a, p->m->host, p->m->kb, &here);
    const char *cuda = version_in(p->m->env, "cuda-version");
    const char *arch = version_in(p->m->env, "cuda-arch");
    if (p->brief && !cuda && !arch) {
        return;
    }
    page_line(p, "conda",
              arena_printf(a, "__cuda %s, __cuda_arch %s here; made for cuda-version %s%s%s",
                           here.cuda       ? here.cuda
                           : here.cuda_why ? "unknown"
                                           : "none",
                           here.arch       ? here.arch
                           : here.arch_why ? "unknown"
                                           : "none",
                           cuda ? cuda : "none", arch ? ", cuda-arch " : "", arch ? arch : ""));
}

static void head_python(struct page *p)
{
    const struct model *m = p->m;
    const struct py_env *e = m->env;
    page_line(p, "Python",
              arena_printf(m->arena, "%s (%s, %s)",
                           e->executable ? e->executable : "no interpreter found",
                           py_env_version(m->arena, e), environment_kind(m)));
    p->prefix = p->brief ? NULL : shown_prefix(m);
    p->site = p->brief ? NULL : shown_site(m);
    if (p->prefix) {
        page_line(p, "<env>", p->prefix);
    }
    if (p->site) {
        page_line(p, "<site>", shorten_one(m->arena, p->site, p->prefix, "<env>"));
    }
    conda_line(p);
    const char *known = known_packages(p);
    page_line(p, "packages",
              *known   ? known
              : m->pid ? "none that gpumend knows to use a GPU is loaded"
                       : "none that gpumend knows to use a GPU");
}

static void head_loader(const struct page *p)
{
    const struct ldso_process *l = model_first_process(p->m);
    if (l && l->is_static) {
        page_line(p, "loader", "none: statically linked");
    } else if (l && l->loader.path) {
        page_line(p, "loader",
                  arena_printf(p->m->arena, "%s (%s %s)", l->loader.path,
                               l->loader.kind == LDSO_MUSL ? "musl" : "glibc",
                               l->loader.version ? l->loader.version : "of unknown version"));
    }
}

/* Whether this machine has no GPU and no error is met without one: each is about a library of
 * CUDA's or ROCm's that only the GPU's use asks for. Where the target is to run elsewhere, that is
 * not known. */
static bool is_only_for_gpu(const struct model *m, const struct diag_report *r)
{
    const struct host *h = m->host;
    bool none = h && !m->host_elsewhere && h->gpus.n == 0 && h->pci.state != HOST_UNKNOWN &&
                diag_count(r, DIAG_ERROR);
    for (size_t i = 0; i < r->findings.n && none; i++) {
        const struct diag_finding *f = r->findings.items[i];
        none =
            f->severity != DIAG_ERROR || (f->stage == DIAG_STAGE_USE && diag_is_only_for_gpu(m, f));
    }
    return none;
}

static void head_devices(const struct page *p, const struct diag_report *r)
{
    const size_t max = p->brief ? 1 : GPU_LINES_MAX;
    struct arena *a = p->m->arena;
    host_texts lines = {0};
    if (!p->m->host) {
        page_line(p, "GPU", arena_printf(a, "not looked at: %s", p->m->host_why));
        return;
    }
    report_devices_head(a, p->m->host, &lines);
    for (size_t i = 0; i < lines.n && i < max; i++) {
        const char *line = lines.items[i];
        if (i == max - 1 && lines.n > max) {
            line = arena_printf(a, "%s; and %zu more", line, lines.n - max);
        }
        if (p->brief && i == 0 && is_only_for_gpu(p->m, r)) {
            line = arena_printf(a, "%s, which is not affected (see --device cpu)", line);
        }
        page_line(p, i ? "" : "GPU", line);
    }
}

/* Without a report (`r` is NULL) only what was looked at. */
static void head_text(struct page *p, const struct diag_report *r, const struct report_target *t)
{
    if (p->m->env) {
        head_python(p);
    } else if (p->m->pid) {
        const struct ldso_process *l = model_first_process(p->m);
        page_line(p, "process",
                  arena_printf(p->m->arena, "%d, %s", p->m->pid,
                               l ? l->main->path : "of an unknown program"));
    } else if (t->path) {
        page_line(p, t->kind, t->path);
    } else {
        page_line(p, "Python", "none found: no package was looked at");
    }
    if (!p->brief) {
        head_loader(p);
    }
    head_devices(p, r);
    if (strcmp(t->root, "/") != 0) {
        page_line(p, "below", t->root);
    }
    if (t->snapshot) {
        page_line(p, "snapshot",
                  arena_printf(p->m->arena, "%s, made %s by gpumend %s", t->snapshot,
                               t->made ? t->made : "at an unknown time",
                               t->made_by ? t->made_by : "of unknown version"));
    }
}

static const char *joined_words(const struct model *m, const char *const *items, size_t n)
{
    const char *text = "";
    for (size_t i = 0; i < n; i++) {
        text = arena_printf(m->arena, "%s%s%s", text, i ? ", " : "", items[i]);
    }
    return text;
}

static void page_item(const struct page *p, const char *label, const char *value)
{
    fprintf(p->o->file, "  %-10s", label);
    out_wrap(p->o, 12, value);
}

static void repair_text(const struct page *p, const struct diag_repair *r, const char *label)
{
    page_item(p, label, shorten(p, r->text));
    if (r->command) {
        out_print(p->o, OUT_BOLD, "              %s\n", str_printable(p->m->arena, r->command));
    }
}

static void page_summary(const struct page *p, const struct diag_finding *f)
{
    static const enum out_style styles[] = {
        [DIAG_NOTE] = OUT_DIM, [DIAG_WARNING] = OUT_YELLOW, [DIAG_ERROR] = OUT_RED};
    const char *severity = diag_severity_name(f->severity);
    fputc('\n', p->o->file);
    out_print(p->o, styles[f->severity], "%s", severity);
    fprintf(p->o->file, "%*s", (int)(9 - strlen(severity)), "");
    out_wrap(p->o, 9, shorten(p, f->summary));
    if (f->likewise.n) {
        page_item(p, "likewise", shorten(p, joined_words(p->m, f->likewise.items, f->likewise.n)));
    }
}

static void finding_text(const struct page *p, const struct diag_finding *f)
{
    page_summary(p, f);
    for (size_t i = 0; i < f->repairs.n; i++) {
        repair_text(p, &f->repairs.items[i], i ? "or" : "to do");
    }
    for (size_t i = 0; i < f->evidence.n; i++) {
        page_item(p, i ? "" : "because", shorten(p, f->evidence.items[i]));
    }
    if (f->scripts.n && p->m->processes.n > 1) {
        page_item(p, "seen in",
                  shorten(p, f->scripts.n > 1 ? arena_printf(p->m->arena, "%s (and %zu more)",
                                                             f->scripts.items[0], f->scripts.n - 1)
                                              : f->scripts.items[0]));
    }
    page_item(p, "more", arena_printf(p->m->arena, "gpumend explain %s", diag_causes[f->cause].id));
}

/* ------------------------------------------------------------------ the brief form */

/* What the end says where no command of gpumend's repairs anything: the first error's repair, or
 * of the warnings' the first that is a command; NULL: it says something else. */
static const struct diag_finding *first_to_repair(const struct diag_report *r,
                                                  const struct report_advice *advice)
{
    const struct diag_finding *first = NULL;
    for (size_t i = 0; i < r->findings.n && !advice->start.way && !advice->good.way; i++) {
        const struct diag_finding *f = r->findings.items[i];
        if (f->severity == DIAG_NOTE || !f->repairs.n) {
            continue;
        }
        if (f->severity == DIAG_ERROR || f->repairs.items[0].command) {
            return first && first->severity == DIAG_ERROR ? first : f;
        }
        first = first ? first : f;
    }
    return first;
}

/* The advice for good begins with the repair of what is met only once another finding is. */
static bool is_in_advice(const struct diag_finding *f, const struct report_advice *advice)
{
    return plan_way_mends(advice->start.way, f) || plan_way_mends(advice->good.way, f) ||
           (f->behind && advice->good.way && f->repairs.items[0].command);
}

/* Beside an error a note is only counted: it does not say why something fails. A warning is a
 * line. */
static bool is_told_in_full(const struct diag_report *r, const struct diag_finding *f)
{
    return !f->behind && (r->verdict != DIAG_BROKEN || f->severity == DIAG_ERROR);
}

static size_t told_in_full(const struct diag_report *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        n += is_told_in_full(r, r->findings.items[i]);
    }
    return n;
}

static const char *first_repair_words(const struct diag_finding *f)
{
    return f->at_once
               ? "Install what is missing, then set LD_LIBRARY_PATH before the program starts."
               : f->repairs.items[0].text;
}

/* A finding needs no repair of its own that the advice at the end repairs. The command of the first
 * one is the end; what it does is said there too where the finding is alone. */
static void brief_repair_text(const struct page *p, const struct diag_report *r,
                              const struct diag_finding *f, const struct report_advice *advice)
{
    bool left_out = p->m->for_cpu && f->severity == DIAG_NOTE && diag_is_only_for_gpu(p->m, f);
    if (!f->repairs.n || left_out || is_in_advice(f, advice)) {
        return;
    }
    const struct diag_finding *first = first_to_repair(r, advice);
    const struct diag_repair *repair = &f->repairs.items[0];
    bool at_end = f->behind && f->behind == first && first->at_once && repair->command;
    if (f != first && !at_end) {
        repair_text(p, repair, "to do");
    } else if (f == first && told_in_full(r) > 1 && repair->command) {
        page_item(p, "to do", shorten(p, first_repair_words(f)));
    }
}

/* With what is met once it is repaired: that is one cause, told in one place. */
static void brief_finding_text(const struct page *p, const struct diag_report *r,
                               const struct diag_finding *f, const struct report_advice *advice)
{
    page_summary(p, f);
    brief_repair_text(p, r, f, advice);
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *next = r->findings.items[i];
        if (next->behind == f) {
            page_item(p, "then", shorten(p, next->summary));
            brief_repair_text(p, r, next, advice);
        }
    }
}

/* "warning  TITLE: CULPRIT, CULPRIT (gpumend explain CAUSE)" for the warnings of a cause. */
static void lesser_line(const struct page *p, const struct diag_report *r, enum diag_cause cause)
{
    struct arena *a = p->m->arena;
    const char *title = diag_causes[cause].title, *names = "";
    size_t n = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        if (f->severity == DIAG_WARNING && !f->behind && f->cause == cause &&
            n++ < NAMED_LESSER_MAX) {
            names = arena_printf(a, "%s%s%s", names, *names ? ", " : "", f->culprit);
        }
    }
    if (n > NAMED_LESSER_MAX) {
        names = arena_printf(a, "%s and %zu more", names, n - NAMED_LESSER_MAX);
    }
    out_print(p->o, OUT_YELLOW, "warning");
    fprintf(p->o->file, "  ");
    out_wrap(p->o, 9,
             shorten(p, arena_printf(a, "%.*s: %s (gpumend explain %s)", (int)strcspn(title, "."),
                                     title, names, diag_causes[cause].id)));
}

/* Beside an error the warnings of one cause are one line. */
static void lesser_findings_text(const struct page *p, const struct diag_report *r)
{
    bool begun = false;
    for (size_t i = 0; i < r->findings.n && r->verdict == DIAG_BROKEN; i++) {
        const struct diag_finding *f = r->findings.items[i];
        bool told = f->severity != DIAG_WARNING || f->behind;
        for (size_t k = 0; k < i && !told; k++) {
            const struct diag_finding *g = r->findings.items[k];
            told = g->severity == DIAG_WARNING && !g->behind && g->cause == f->cause;
        }
        if (!told) {
            fputs(begun ? "" : "\n", p->o->file);
            lesser_line(p, r, f->cause);
            begun = true;
        }
    }
}

static void brief_findings_text(const struct page *p, const struct diag_report *r,
                                const struct report_advice *advice)
{
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        if (!is_told_in_full(r, f)) {
            continue;
        }
        if (shown < BRIEF_FINDINGS_MAX) {
            brief_finding_text(p, r, f, advice);
            shown++;
        } else {
            more++;
        }
    }
    if (more) {
        fprintf(p->o->file, "\nand %zu more finding%s: -v prints them all\n", more,
                more == 1 ? "" : "s");
    }
    lesser_findings_text(p, r);
}

static void advice_text(const struct page *p, const char *label, const struct report_repair *repair,
                        const struct diag_report *r)
{
    size_t errors = diag_count(r, DIAG_ERROR);
    size_t all = errors ? errors : diag_count(r, DIAG_WARNING);
    if (!repair->way) {
        return;
    }
    fprintf(p->o->file, "%-12s", label);
    out_print(p->o, OUT_BOLD, "%s", str_printable(p->m->arena, repair->command));
    if (repair->remark) {
        fprintf(p->o->file, "  (%s)", str_printable(p->m->arena, repair->remark));
    }
    fputc('\n', p->o->file);
    if (repair->mends < all) {
        fprintf(p->o->file, "            repairs %zu of the %zu %s\n", repair->mends, all,
                errors ? "errors" : "warnings");
    }
}

/* The commands of an image's repairs are for its build: in a shell of this host they would change,
 * or miss, what the host has at the same path. */
static bool is_of_build(const struct report_target *target, const struct diag_finding *f)
{
    enum diag_repair_kind kind = f->repairs.items[0].kind;
    return target->lines && f->stage != DIAG_STAGE_MACHINE &&
           (kind == DIAG_REPAIR_ENV || kind == DIAG_REPAIR_PACKAGE);
}

static void first_repair_text(const struct page *p, const struct diag_report *r,
                              const struct report_target *target,
                              const struct report_advice *advice)
{
    const struct diag_finding *f = first_to_repair(r, advice);
    const struct diag_repair *first = f ? &f->repairs.items[0] : NULL;
    if (!first) {
        return;
    }
    fprintf(p->o->file, "%-12s", "to do now");
    if (is_of_build(target, f)) {
        out_print(p->o, OUT_BOLD, "%s", str_printable(p->m->arena, target->lines));
        fprintf(p->o->file, "  (prints the lines for its Dockerfile)\n");
        return;
    }
    bool alone = told_in_full(r) == 1;
    if (alone || !first->command) {
        out_wrap(p->o, 12, shorten(p, first_repair_words(f)));
    }
    if (first->command) {
        out_print(p->o, OUT_BOLD, "%s%s\n", alone ? "              " : "",
                  str_printable(p->m->arena, f->at_once ? f->at_once : first->command));
    }
}

/* ------------------------------------------------------------------ the end */

static void page_remark(const struct page *p, enum out_style style, const char *label,
                        const char *text)
{
    out_print(p->o, style, "%s", label);
    fprintf(p->o->file, "     ");
    out_wrap(p->o, 9, shorten(p, text));
}

/* Where there is no verdict the notes say why: none is left out. */
static void remarks_text(const struct page *p, const struct diag_report *r)
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
static const char *entries_with(const struct page *p, const struct diag_report *r,
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
static const char *imports_together(const struct page *p)
{
    const struct model_process *first = p->m->processes.n ? p->m->processes.items[0] : NULL;
    if (!first || !first->imported.n) {
        return NULL;
    }
    const char *list = joined_words(p->m, first->imported.items, first->imported.n);
    return arena_printf(p->m->arena, " in %s, %s%s", str_printable(p->m->arena, list),
                        first->imported.n == 1 ? "from import to first use"
                                               : "used in any order after their imports",
                        first->unknown.n ? "; of the other imports nothing is known" : "");
}

/* What was looked at, behind "no error". */
static const char *looked_at(const struct page *p, const struct diag_report *r,
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
static bool ends_all_errors(const struct page *p, const struct diag_report *r)
{
    bool all = p->advice != NULL;
    for (size_t i = 0; i < r->findings.n && all; i++) {
        const struct diag_finding *f = r->findings.items[i];
        all = f->severity != DIAG_ERROR || is_in_advice(f, p->advice);
    }
    return all;
}

static const char *broken_sentence(const struct page *p, const struct diag_report *r, size_t errors,
                                   size_t warnings)
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
    if (broken && ok) {
        text = arena_printf(a, "%s; affected: %s; not affected: %s", text, broken, ok);
    }
    if (!p->brief && is_only_for_gpu(p->m, r)) { // the brief form has it in the head
        text = arena_printf(a,
                            "%s; no GPU was found here, and what runs on the CPU does not need %s: "
                            "see --device cpu",
                            text, errors == 1 ? "it" : "them");
    }
    return p->brief ? arena_printf(a, "%s (-v prints the evidence)", text) : text;
}

static const char *verdict_sentence(const struct page *p, const struct diag_report *r,
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

static void verdict_text(const struct page *p, const struct diag_report *r,
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
    struct page p = {.m = m};
    return verdict_sentence(&p, r, target);
}

void report_check_text(const struct out *o, const struct model *m, const struct diag_report *r,
                       const struct report_target *target)
{
    struct page p = {.o = o, .m = m};
    head_text(&p, r, target);
    for (size_t i = 0; i < r->findings.n; i++) {
        finding_text(&p, r->findings.items[i]);
    }
    remarks_text(&p, r);
    verdict_text(&p, r, target);
}

void report_check_brief(const struct out *o, const struct model *m, const struct diag_report *r,
                        const struct report_target *target, const struct report_advice *advice)
{
    static const struct report_advice none = {0};
    advice = advice ? advice : &none;
    struct page p = {.o = o, .m = m, .brief = true, .advice = advice};
    head_text(&p, r, target);
    brief_findings_text(&p, r, advice);
    remarks_text(&p, r);
    verdict_text(&p, r, target);
    advice_text(&p, "this start", &advice->start, r);
    advice_text(&p, "for good", &advice->good, r);
    first_repair_text(&p, r, target, advice);
}

void report_target_text(const struct out *o, const struct model *m,
                        const struct report_target *target)
{
    struct page p = {.o = o, .m = m};
    head_text(&p, NULL, target);
}
