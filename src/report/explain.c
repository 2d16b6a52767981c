#include "report/explain.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "log/shells.h"
#include "report/windows_check.h"

enum {
    ALSO_MAX = 4,
    MENTIONS_MAX = 6,
    REPAIRS_FEW = 3,
    EVIDENCE_LINES_MAX = 8,
    FACTS_SHOWN_MAX = 1000
};

/* ------------------------------------------------------------------ what both share */

const char *report_log_class(const struct log_candidate *c)
{
    if (!c->cause) {
        return "not-gpu-runtime";
    }
    const struct diag_cause_row *row = diag_cause_by_id(c->cause);
    return row ? row->class : NULL;
}

static bool texts_are_same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* The finding of this machine that bears a reading out: the same cause, or one of its class; else
 * an error about the same library. */
static const struct diag_finding *borne_out(const struct report_log *l,
                                            const struct log_candidate *c)
{
    const struct diag_finding *of_class = NULL, *of_library = NULL;
    for (size_t i = 0; l->here && c->cause && i < l->here->findings.n; i++) {
        const struct diag_finding *f = l->here->findings.items[i];
        if (texts_are_same(diag_causes[f->cause].id, c->cause)) {
            return f;
        }
        of_class = of_class ? of_class : texts_are_same(f->class, report_log_class(c)) ? f : NULL;
        bool same = f->severity == DIAG_ERROR && texts_are_same(f->culprit, c->culprit);
        of_library = of_library ? of_library : same ? f : NULL;
    }
    return of_class ? of_class : of_library;
}

const struct log_candidate *report_log_best(const struct report_log *l)
{
    const struct log_candidate *best = l->result->n ? &l->result->candidates[0] : NULL;
    if (!best || best->confidence == LOG_CERTAIN || borne_out(l, best)) {
        return best;
    }
    for (size_t i = 1; i < l->result->n; i++) {
        if (borne_out(l, &l->result->candidates[i])) {
            return &l->result->candidates[i];
        }
    }
    return best;
}

/* Where a reading begins in the text; behind everything if it rests on no line. */
static uint64_t first_line(const struct log_candidate *c)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < c->n_evidence; i++) {
        first = c->evidence[i]->line < first ? c->evidence[i]->line : first;
    }
    return first;
}

/* Whether a reading adds to the verdict's lines only what contradicts it: its class has been read
 * from them already, and less well. */
static bool is_contradicted(const struct report_log *l, const struct log_candidate *best,
                            size_t index)
{
    const struct log_candidate *list = l->result->candidates;
    const char *class = report_log_class(&list[index]);
    for (size_t i = 0; i <= index; i++) {
        if (texts_are_same(report_log_class(&list[i]), class) && log_contradicts(best, &list[i])) {
            return log_reads_again(best, &list[index]);
        }
    }
    return false;
}

/* Whether two readings rest on different lines: failures that are repaired one by one. */
static bool is_apart(const struct log_candidate *a, const struct log_candidate *b)
{
    for (size_t i = 0; i < a->n_evidence; i++) {
        for (size_t k = 0; k < b->n_evidence; k++) {
            if (a->evidence[i]->line == b->evidence[k]->line) {
                return false;
            }
        }
    }
    return a->n_evidence && b->n_evidence;
}

/* Whether what is told says this already: a reading of the class is, but for another failure of the
 * same cause. */
static bool is_told_by(const struct log_candidate *told, const struct log_candidate *c)
{
    if (!texts_are_same(report_log_class(c), report_log_class(told))) {
        return false;
    }
    return !texts_are_same(c->cause, told->cause) || log_is_same_failure(told, c) ||
           !is_apart(told, c);
}

/* Readings of other classes, the best of each, and other failures of the same, by line, without
 * those that contradict the verdict; how many. */
static size_t also(const struct report_log *l, const struct log_candidate *best,
                   const struct log_candidate *ret[ALSO_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < l->result->n && n < ALSO_MAX; i++) {
        const struct log_candidate *c = &l->result->candidates[i];
        bool told = is_told_by(best, c) || is_contradicted(l, best, i);
        for (size_t k = 0; k < n; k++) {
            told = told || is_told_by(ret[k], c) || log_contradicts(ret[k], c);
        }
        size_t at = told ? n : n++;
        for (; !told && at && first_line(ret[at - 1]) > first_line(c); at--) {
            ret[at] = ret[at - 1];
        }
        if (!told) {
            ret[at] = c;
        }
    }
    return n;
}

bool report_log_quoted_before(const struct log_candidate *c, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (c->evidence[i]->line == c->evidence[index]->line) {
            return true;
        }
    }
    return false;
}

static const char nothing_known[] =
    "The text does not show what is wrong: none of its messages, alone or together, has one known "
    "cause in the GPU runtime.";
static const char nothing_seen[] =
    "The text does not show what is wrong: it contains no message of a GPU library, a driver, the "
    "dynamic linker or a package that gpumend knows.";
static const char describes[] =
    "The text describes failures rather than shows one: it reads like a document, source code or a "
    "conversation, not like the output of a program.";
static const char output_would_decide[] =
    "The output of the program itself, as it was printed, from its start.";
static const char would_decide[] =
    "The whole output of the failing program from its start, standard error too, and what "
    "`gpumend check` prints on that machine.";

const char *report_log_summary(const struct report_log *l, const struct log_candidate *best)
{
    if (!best && l->result->n_mentions) {
        return describes;
    }
    return best ? best->says : l->result->n_facts ? nothing_known : nothing_seen;
}

const char *report_log_decides(const struct report_log *l, const struct log_candidate *best)
{
    return best ? best->decides : l->result->n_mentions ? output_would_decide : would_decide;
}

/* What a text mentions that describes failures: each cause once, by line; how many. */
static size_t mentions(const struct report_log *l, const struct log_candidate *ret[MENTIONS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < l->result->n_mentions && n < MENTIONS_MAX; i++) {
        const struct log_candidate *c = &l->result->candidates[i];
        bool told = !c->cause || !c->n_evidence;
        for (size_t k = 0; k < n; k++) {
            told = told || texts_are_same(c->cause, ret[k]->cause);
        }
        if (told) {
            continue;
        }
        size_t at = n++;
        for (; at && ret[at - 1]->evidence[0]->line > c->evidence[0]->line; at--) {
            ret[at] = ret[at - 1];
        }
        ret[at] = c;
    }
    return n;
}

/* ------------------------------------------------------------------ JSON */

static json_t *explain_text(const struct report_log *l, const char *value)
{
    return out_json_text(l->arena, value);
}

static json_t *evidence_json(const struct report_log *l, const struct log_candidate *c)
{
    json_t *list = json_array();
    for (size_t i = 0; c && i < c->n_evidence; i++) {
        const struct log_fact *f = c->evidence[i];
        if (!report_log_quoted_before(c, i)) {
            json_t *item = json_object();
            json_put(item, "line", json_integer((json_int_t)f->line));
            json_put(item, "text", explain_text(l, f->text));
            json_add(list, item);
        }
    }
    return list;
}

static json_t *repairs_json(const struct report_log *l, const struct log_candidate *c)
{
    json_t *list = json_array();
    for (size_t i = 0; c && i < c->n_repairs; i++) {
        json_t *item = json_object();
        json_put(item, "platform", explain_text(l, log_platform_name(c->repairs[i].platform)));
        json_put(item, "engine", explain_text(l, c->repairs[i].engine));
        json_put(item, "program", explain_text(l, c->repairs[i].program));
        json_put(item, "text", explain_text(l, c->repairs[i].text));
        json_put(item, "command", explain_text(l, c->repairs[i].command));
        json_add(list, item);
    }
    return list;
}

static json_t *fact_json(const struct report_log *l, const struct log_fact *f)
{
    json_t *item = json_object();
    json_put(item, "line", json_integer((json_int_t)f->line));
    for (size_t i = 0; i < f->n_fields; i++) {
        json_put(item, f->fields[i].name, explain_text(l, f->fields[i].value));
    }
    return item;
}

static json_t *explain_facts_json(const struct report_log *l)
{
    json_t *kinds = json_object();
    for (size_t i = 0; i < l->result->n_facts && i < FACTS_SHOWN_MAX; i++) {
        const struct log_fact *f = l->result->facts[i];
        if (!json_object_get(kinds, f->kind)) {
            json_put(kinds, f->kind, json_array());
        }
        json_add(json_object_get(kinds, f->kind), fact_json(l, f));
    }
    return kinds;
}

static json_t *also_json(const struct report_log *l, const struct log_candidate *best)
{
    const struct log_candidate *others[ALSO_MAX];
    json_t *list = json_array();
    size_t n = best ? also(l, best, others) : 0;
    for (size_t i = 0; i < n; i++) {
        json_t *item = json_object();
        json_put(item, "cause", explain_text(l, others[i]->cause));
        json_put(item, "class", explain_text(l, report_log_class(others[i])));
        json_put(item, "culprit", explain_text(l, others[i]->culprit));
        json_put(item, "confidence", explain_text(l, log_confidence_name(others[i]->confidence)));
        json_put(item, "summary", explain_text(l, others[i]->says));
        json_put(item, "evidence", evidence_json(l, others[i]));
        json_put(item, "repairs", repairs_json(l, others[i]));
        json_add(list, item);
    }
    return list;
}

static json_t *mentions_json(const struct report_log *l)
{
    const struct log_candidate *of[MENTIONS_MAX];
    json_t *list = json_array();
    size_t n = mentions(l, of);
    for (size_t i = 0; i < n; i++) {
        json_t *item = json_object();
        json_put(item, "line", json_integer((json_int_t)of[i]->evidence[0]->line));
        json_put(item, "text", explain_text(l, of[i]->evidence[0]->text));
        json_put(item, "cause", explain_text(l, of[i]->cause));
        json_add(list, item);
    }
    return list;
}

static json_t *explain_finding_json(const struct report_log *l, const struct diag_finding *f)
{
    json_t *item = json_object();
    json_put(item, "cause", explain_text(l, diag_causes[f->cause].id));
    json_put(item, "class", explain_text(l, f->class));
    json_put(item, "severity", explain_text(l, diag_severity_name(f->severity)));
    json_put(item, "culprit", explain_text(l, f->culprit));
    json_put(item, "summary", explain_text(l, f->summary));
    return item;
}

static json_t *here_json(const struct report_log *l, const struct log_candidate *best)
{
    json_t *o = json_object(), *list = json_array();
    const struct diag_finding *f = best ? borne_out(l, best) : NULL;
    json_put(o, "verdict", explain_text(l, diag_verdict_name(l->here->verdict)));
    json_put(o, "agrees", best && best->cause ? json_boolean(f) : json_null());
    json_put(o, "finding", f ? explain_finding_json(l, f) : json_null());
    for (size_t i = 0; i < l->here->findings.n; i++) {
        json_add(list, explain_finding_json(l, l->here->findings.items[i]));
    }
    json_put(o, "findings", list);
    return o;
}

static const char *const outcomes_there[] = {[DIAG_WINDOWS_ABSENT] = "absent",
                                             [DIAG_WINDOWS_FAILS] = "fails",
                                             [DIAG_WINDOWS_LOADS] = "loads",
                                             [DIAG_WINDOWS_UNKNOWN] = "unknown"};

static json_t *windows_answer_json(const struct report_log *l, const struct diag_windows_answer *w)
{
    json_t *item = json_object(), *repairs = json_array();
    for (size_t i = 0; w->finding && i < w->finding->repairs.n; i++) {
        json_add(repairs, report_windows_repair_json(l->arena, &w->finding->repairs.items[i]));
    }
    json_put(item, "line", json_integer((json_int_t)w->subject->line));
    json_put(item, "name", explain_text(l, w->subject->path ? w->subject->path : w->subject->name));
    json_put(item, "code", w->code ? json_integer(w->code) : json_null());
    json_put(item, "environment",
             explain_text(l, w->environment ? w->environment->py->folder : NULL));
    json_put(item, "outcome", json_string(outcomes_there[w->outcome]));
    json_put(item, "says", explain_text(l, w->says));
    json_put(item, "cause", explain_text(l, w->finding ? w->finding->cause : NULL));
    json_put(item, "repairs", repairs);
    return item;
}

static json_t *windows_answers_json(const struct report_log *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->windows->n; i++) {
        json_add(list, windows_answer_json(l, &l->windows->items[i]));
    }
    return list;
}

json_t *report_log_json(const struct report_log *l)
{
    const struct log_candidate *best = report_log_best(l);
    json_t *doc = json_object();
    json_put(doc, "schema", json_integer(1));
    if (l->file) {
        json_put(doc, "file", explain_text(l, l->file));
    }
    json_put(doc, "cause", explain_text(l, best ? best->cause : NULL));
    json_put(doc, "class", explain_text(l, best ? report_log_class(best) : NULL));
    json_put(doc, "culprit", explain_text(l, best && *best->culprit ? best->culprit : NULL));
    json_put(doc, "entry", explain_text(l, best ? best->rule : NULL));
    json_put(doc, "confidence",
             explain_text(l, best ? log_confidence_name(best->confidence) : NULL));
    json_put(doc, "summary", explain_text(l, report_log_summary(l, best)));
    json_put(doc, "evidence", evidence_json(l, best));
    json_put(doc, "repairs", repairs_json(l, best));
    json_put(doc, "decides", explain_text(l, report_log_decides(l, best)));
    json_put(doc, "platform",
             l->result->platform == LOG_ANY
                 ? json_null()
                 : explain_text(l, log_platform_name(l->result->platform)));
    json_put(doc, "facts", explain_facts_json(l));
    json_put(doc, "also", also_json(l, best));
    json_put(doc, "describes", json_boolean(l->result->n_mentions));
    json_put(doc, "mentions", mentions_json(l));
    if (l->here) {
        json_put(doc, "here", here_json(l, best));
    }
    if (l->windows) {
        json_put(doc, "windows", windows_answers_json(l));
    }
    return doc;
}

/* ------------------------------------------------------------------ text */

static void explain_item(const struct out *o, const struct report_log *l, const char *label,
                         const char *value)
{
    fprintf(o->file, "  %-10s", label);
    out_wrap(o, 12, str_printable(l->arena, value));
}

static void evidence_text(const struct out *o, const struct report_log *l,
                          const struct log_candidate *c)
{
    for (size_t i = 0; i < c->n_evidence && i < EVIDENCE_LINES_MAX; i++) {
        const struct log_fact *f = c->evidence[i];
        if (!report_log_quoted_before(c, i)) {
            explain_item(
                o, l, i ? "" : "because",
                arena_printf(l->arena, "line %llu: %s", (unsigned long long)f->line, f->text));
        }
    }
}

static void repairs_text(const struct out *o, const struct report_log *l,
                         const struct log_candidate *c)
{
    size_t shown = l->all_repairs || c->n_repairs < REPAIRS_FEW ? c->n_repairs : REPAIRS_FEW;
    bool for_sh = false;
    for (size_t i = 0; i < shown; i++) {
        const struct log_repair *r = &c->repairs[i];
        bool say_for = l->result->platform == LOG_ANY && r->platform != LOG_ANY;
        explain_item(
            o, l, i ? "or" : "to do",
            say_for ? arena_printf(l->arena, "(%s) %s", log_platform_name(r->platform), r->text)
                    : r->text);
        if (r->command) {
            out_print(o, OUT_BOLD, "              %s\n", str_printable(l->arena, r->command));
            for_sh = for_sh || log_is_for_sh(r->command);
        }
    }
    if (for_sh) {
        explain_item(o, l, "in fish", "Start bash first: a command above is for bash, zsh and sh.");
    }
    if (shown < c->n_repairs) {
        explain_item(o, l, "",
                     arena_printf(l->arena, "--all shows %zu more repairs", c->n_repairs - shown));
    }
}

static void here_text(const struct out *o, const struct report_log *l,
                      const struct log_candidate *best)
{
    const struct diag_finding *f = best ? borne_out(l, best) : NULL;
    if (f) {
        explain_item(o, l, "here",
                     arena_printf(l->arena, "the check of %s agrees: %s", l->machine, f->summary));
        return;
    }
    if (best && best->cause) {
        explain_item(
            o, l, "here",
            arena_printf(l->arena,
                         "the check of %s does not find this: the log is of another machine, the "
                         "fault is gone, or it shows only when the program runs",
                         l->machine));
    }
    for (size_t i = 0; i < l->here->findings.n; i++) {
        f = l->here->findings.items[i];
        if (f->severity == DIAG_ERROR) {
            explain_item(o, l, "here",
                         arena_printf(l->arena, "the check of %s finds: %s (%s)", l->machine,
                                      f->summary, diag_causes[f->cause].id));
        }
    }
}

/* The loads of the log in the tree. */
static void windows_text(const struct out *o, const struct report_log *l)
{
    for (size_t i = 0; i < l->windows->n; i++) {
        const struct diag_windows_answer *w = &l->windows->items[i];
        const char *where = w->environment ? w->environment->py->folder : NULL;
        explain_item(o, l, "there",
                     arena_printf(l->arena, "%s%sline %llu: %s%s", where ? where : "",
                                  where ? ", " : "", (unsigned long long)w->subject->line, w->says,
                                  w->outcome != DIAG_WINDOWS_LOADS
                                      ? ""
                                      : ": the log is of another machine, the fault is gone, or it "
                                        "lies behind the load"));
        for (size_t k = 0; w->finding && k < w->finding->repairs.n; k++) {
            report_windows_repair_text(o, l->arena, &w->finding->repairs.items[k]);
        }
    }
    if (l->windows->n == 0) {
        explain_item(o, l, "there", "the log names no load of a DLL that could be looked at");
    }
}

static void headline(const struct out *o, const struct report_log *l,
                     const struct log_candidate *best)
{
    static const struct {
        const char *word;
        enum out_style style;
    } heads[] = {[LOG_POSSIBLE] = {"possible", OUT_YELLOW},
                 [LOG_LIKELY] = {"likely", OUT_YELLOW},
                 [LOG_CERTAIN] = {"certain", OUT_RED}};
    const char *word = !best ? "unknown" : !best->cause ? "not GPU" : heads[best->confidence].word;
    out_print(o, !best || !best->cause ? OUT_BOLD : heads[best->confidence].style, "%s", word);
    fprintf(o->file, "%*s", (int)(12 - strlen(word)), "");
    out_wrap(o, 12, str_printable(l->arena, report_log_summary(l, best)));
}

static void also_text(const struct out *o, const struct report_log *l,
                      const struct log_candidate *best)
{
    const struct log_candidate *others[ALSO_MAX];
    size_t n = also(l, best, others);
    for (size_t i = 0; i < n; i++) {
        const struct log_candidate *c = others[i];
        const char *where = is_apart(best, c) ? arena_printf(l->arena, " (line %llu)",
                                                             (unsigned long long)first_line(c))
                                              : "";
        explain_item(o, l, i ? "" : "also",
                     arena_printf(l->arena, "%s, %s%s: %s", log_confidence_name(c->confidence),
                                  c->cause ? c->cause : "not GPU", where, c->says));
        if (*where && c->cause && c->n_repairs) {
            explain_item(o, l, "", arena_printf(l->arena, "to do: %s", c->repairs[0].text));
            if (c->repairs[0].command) {
                out_print(o, OUT_BOLD, "              %s\n",
                          str_printable(l->arena, c->repairs[0].command));
            }
        }
    }
}

static void mentions_text(const struct out *o, const struct report_log *l)
{
    const struct log_candidate *of[MENTIONS_MAX];
    size_t n = mentions(l, of);
    for (size_t i = 0; i < n; i++) {
        const struct log_fact *f = of[i]->evidence[0];
        explain_item(o, l, i ? "" : "mentions",
                     arena_printf(l->arena, "line %llu: %s (%s)", (unsigned long long)f->line,
                                  f->text, of[i]->cause));
    }
}

void report_log_text(const struct out *o, const struct report_log *l)
{
    const struct log_candidate *best = report_log_best(l);
    headline(o, l, best);
    if (best && *best->culprit) {
        explain_item(o, l, "culprit", best->culprit);
    }
    if (best) {
        evidence_text(o, l, best);
        repairs_text(o, l, best);
    }
    mentions_text(o, l);
    if (report_log_decides(l, best)) {
        explain_item(o, l, "to decide", report_log_decides(l, best));
    }
    if (l->here) {
        here_text(o, l, best);
    }
    if (l->windows) {
        windows_text(o, l);
    }
    if (best) {
        also_text(o, l, best);
    }
    if (best && best->cause) {
        explain_item(o, l, "more", arena_printf(l->arena, "gpumend explain %s", best->cause));
    }
}
