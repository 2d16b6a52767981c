#include "report/ci.h"

#include <string.h>

#include "base/str.h"
#include "version.h"
#include "base/json.h"

static const char *repair_text(const struct model *m, const struct diag_finding *f)
{
    const struct diag_repair *r = f->repairs.n ? &f->repairs.items[0] : NULL;
    return !r           ? ""
           : r->command ? arena_printf(m->arena, "\n%s\n%s", r->text, r->command)
                        : arena_printf(m->arena, "\n%s", r->text);
}

/* ------------------------------------------------------------------ GitHub */

/* A value of a property must not hold what ends it. */
static void put_escaped(FILE *file, const char *text, bool property)
{
    for (const char *s = text; *s; s++) {
        bool escape =
            *s == '%' || *s == '\r' || *s == '\n' || (property && (*s == ':' || *s == ','));
        if (escape) {
            fprintf(file, "%%%02X", (unsigned char)*s);
        } else {
            fputc(*s, file);
        }
    }
}

static void put_command(FILE *file, const char *command, const char *title, const char *text)
{
    fprintf(file, "::%s title=", command);
    put_escaped(file, title, true);
    fputs("::", file);
    put_escaped(file, text, false);
    fputc('\n', file);
}

void report_github(FILE *file, const struct model *m, const struct diag_report *r)
{
    static const char *const commands[] = {
        [DIAG_ERROR] = "error", [DIAG_WARNING] = "warning", [DIAG_NOTE] = "notice"};
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        const char *title = arena_printf(m->arena, "gpumend: %s", diag_causes[f->cause].id);
        const char *lines = arena_printf(m->arena, "%s", str_printable(m->arena, f->summary));
        struct str rest = str_of(repair_text(m, f)), line;
        while (str_line(&rest, &line)) { // each of them printable, the line ends between them ours
            const char *text = str_printable(m->arena, str_dup(m->arena, line));
            lines = *text ? arena_printf(m->arena, "%s\n%s", lines, text) : lines;
        }
        put_command(file, commands[f->severity], title, lines);
    }
    for (size_t i = 0; i < r->notes.n && r->verdict == DIAG_CANNOT_TELL; i++) {
        put_command(file, "notice", "gpumend: cannot tell",
                    str_printable(m->arena, r->notes.items[i]));
    }
    fprintf(file, "gpumend: %s\n", diag_verdict_name(r->verdict));
}

/* ------------------------------------------------------------------ SARIF */

static json_t *message(const struct model *m, const char *text)
{
    json_t *o = json_object();
    json_put(o, "text", out_json_text(m->arena, text));
    return o;
}

/* An absolute path as a URI reference: RFC 3986, section 3.3; bytes of others are escaped. */
static const char *file_uri(const struct model *m, const char *path)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/+@";
    size_t n = strlen(path), at = 0;
    char *out = arena_alloc(m->arena, sizeof "file://" + n * 3);
    memcpy(out, "file://", 7);
    at = 7;
    for (size_t i = 0; i < n; i++) {
        if (strchr(plain, path[i])) {
            out[at++] = path[i];
        } else {
            static const char digits[] = "0123456789ABCDEF";
            out[at++] = '%';
            out[at++] = digits[(unsigned char)path[i] >> 4];
            out[at++] = digits[(unsigned char)path[i] & 15];
        }
    }
    out[at] = '\0';
    return out;
}

/* The file that the finding is about, otherwise what was looked at: GitHub refuses the whole log
 * for one result without a location, and wants a line also of a file that has none
 * (github/codeql-action#2459). Never NULL. */
static const char *finding_place(const struct model *m, const struct diag_finding *f)
{
    return f->culprit[0] == '/' ? f->culprit
           : m->target_file     ? m->target_file
           : m->env             ? m->env->prefix
                                : "/";
}

static json_t *result_json(const struct model *m, const struct diag_finding *f)
{
    static const char *const levels[] = {
        [DIAG_ERROR] = "error", [DIAG_WARNING] = "warning", [DIAG_NOTE] = "note"};
    json_t *o = json_object(), *places = json_array();
    json_put(o, "ruleId", json_string(diag_causes[f->cause].id));
    json_put(o, "level", json_string(levels[f->severity]));
    json_put(o, "message",
             message(m, arena_printf(m->arena, "%s%s", f->summary, repair_text(m, f))));
    json_t *place = json_object(), *physical = json_object(), *artifact = json_object();
    json_put(artifact, "uri", out_json_text(m->arena, file_uri(m, finding_place(m, f))));
    json_put(physical, "artifactLocation", artifact);
    json_put(physical, "region", json_pack("{si si}", "startLine", 1, "endLine", 1));
    json_put(place, "physicalLocation", physical);
    json_add(places, place);
    json_put(o, "locations", places);
    return o;
}

static json_t *rules_json(const struct model *m, const struct diag_report *r)
{
    json_t *list = json_array();
    bool told[DIAG_CAUSES] = {false};
    for (size_t i = 0; i < r->findings.n; i++) {
        enum diag_cause cause = r->findings.items[i]->cause;
        if (!told[cause]) {
            json_t *rule = json_object();
            json_put(rule, "id", json_string(diag_causes[cause].id));
            json_put(rule, "shortDescription", message(m, diag_causes[cause].title));
            json_put(rule, "fullDescription", message(m, diag_causes[cause].title));
            const struct diag_page *page = diag_page_by_id(diag_causes[cause].id);
            json_put(rule, "help", message(m, page ? page->text : diag_causes[cause].title));
            json_add(list, rule);
        }
        told[cause] = true;
    }
    return list;
}

static json_t *invocation_json(const struct model *m, const struct diag_report *r)
{
    json_t *o = json_object(), *notifications = json_array();
    for (size_t i = 0; i < r->notes.n; i++) {
        json_t *note = json_object();
        json_put(note, "level", json_string(r->verdict == DIAG_CANNOT_TELL ? "warning" : "note"));
        json_put(note, "message", message(m, r->notes.items[i]));
        json_add(notifications, note);
    }
    json_put(o, "executionSuccessful", json_boolean(r->verdict != DIAG_CANNOT_TELL));
    json_put(o, "toolExecutionNotifications", notifications);
    return o;
}

json_t *report_sarif_json(const struct model *m, const struct diag_report *r)
{
    json_t *doc = json_object(), *runs = json_array(), *run = json_object(), *tool = json_object();
    json_t *driver = json_object(), *results = json_array(), *invocations = json_array();
    json_put(driver, "name", json_string("gpumend"));
    json_put(driver, "semanticVersion", json_string(GPUMEND_VERSION));
    json_put(driver, "rules", rules_json(m, r));
    json_put(tool, "driver", driver);
    json_put(run, "tool", tool);
    json_add(invocations, invocation_json(m, r));
    json_put(run, "invocations", invocations);
    for (size_t i = 0; i < r->findings.n; i++) {
        json_add(results, result_json(m, r->findings.items[i]));
    }
    json_put(run, "results", results);
    json_add(runs, run);
    json_put(doc, "$schema", json_string("https://json.schemastore.org/sarif-2.1.0.json"));
    json_put(doc, "version", json_string("2.1.0"));
    json_put(doc, "runs", runs);
    return doc;
}
