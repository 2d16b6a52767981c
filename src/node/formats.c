/*
 * The forms of a node's document. Each reader has rules of its own for what it takes:
 *
 *   Prometheus  text exposition format; "# EOF" makes it OpenMetrics as well; no timestamps, for
 *               which node_exporter passes a file over (collector/textfile.go)
 *   NFD         NAME=VALUE; a value has at most 63 characters of [-A-Za-z0-9_.] and alphanumeric
 *               ends (Kubernetes, "Labels and Selectors"); "# +expiry-time" (NFD, local source)
 *   NPD         the first 80 bytes of the output (custom plug-ins, max_output_length)
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/out.h"
#include "base/str.h"
#include "host/host.h"
#include "node/internal.h"
#include "node/node.h"
#include "version.h"

/* ------------------------------------------------------------------ the document itself */

/* A reason becomes a label, a word of a command line and a line of a log. */
static bool is_id(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && n < 64 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static bool has_texts(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!json_is_string(json_array_get(list, i))) {
            return false;
        }
    }
    return true;
}

static bool findings_are_whole(const json_t *findings)
{
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *f = json_array_get(findings, i);
        const char *cause = json_text(f, "cause"), *severity = json_text(f, "severity");
        if (!cause || !is_id(cause) || !severity || !is_id(severity)) {
            return false;
        }
    }
    return json_is_array(findings) && json_array_size(findings) <= NODE_FINDINGS_MAX;
}

static bool probe_is_whole(const json_t *doc)
{
    const json_t *probe = json_object_get(doc, "probe");
    const char *result = json_text(probe, "result");
    bool known = !probe;
    for (int i = 0; result && i < NODE_PROBE_RESULTS; i++) {
        known |= strcmp(result, node_probe_name((enum node_probe_result)i)) == 0;
    }
    return known;
}

bool node_is_whole(const json_t *doc)
{
    const char *verdict = json_text(doc, "verdict"), *reason = json_text(doc, "reason");
    const json_t *facts = json_object_get(doc, "facts"), *cohort = json_object_get(doc, "cohort");
    bool known = verdict && (strcmp(verdict, "ok") == 0 || strcmp(verdict, "broken") == 0 ||
                             strcmp(verdict, "unknown") == 0);
    bool is_broken = known && strcmp(verdict, "broken") == 0;
    return known && is_broken == (reason != NULL) && (!reason || is_id(reason)) &&
           findings_are_whole(json_object_get(doc, "findings")) && json_is_object(cohort) &&
           (json_is_object(facts) || (json_is_null(facts) && strcmp(verdict, "ok") != 0)) &&
           has_texts(node_fact(doc, "compute_capabilities")) && has_texts(node_fact(doc, "gfx")) &&
           json_is_array(json_object_get(doc, "targets")) && probe_is_whole(doc);
}

const char *node_verdict(const json_t *doc)
{
    return json_text(doc, "verdict");
}

void node_put_probe(struct arena *a, json_t *doc, enum node_probe_result result, const char *says)
{
    json_put(doc, "probe", node_probe_json(a, result, says));
    if (result == NODE_PROBE_UNKNOWN && strcmp(node_verdict(doc), "ok") == 0) {
        json_put(doc, "verdict", json_string("unknown"));
        json_put(doc, "says", out_json_text(a, says));
    }
}

const char *node_reason(const json_t *doc)
{
    return json_text(doc, "reason");
}

void node_sign(struct arena *a, json_t *doc, const char *name, const char *time, double seconds)
{
    json_put(doc, "node", out_json_text(a, name));
    json_put(doc, "time", out_json_text(a, time));
    json_put(doc, "seconds", json_real(seconds));
    json_put(doc, "gpumend", json_string(GPUMEND_VERSION));
}

/* What a probe adds to the sentence of the verdict; "": it is in that, or there was none. */
static const char *probe_clause(struct arena *a, const json_t *doc)
{
    const json_t *probe = json_object_get(doc, "probe");
    const char *result = json_text(probe, "result"), *says = json_text(probe, "says");
    bool works = result && strcmp(result, "works") == 0;
    bool not_run = result && strcmp(result, "not-run") == 0;
    return works     ? "; a kernel ran on them"
           : not_run ? arena_printf(a, "; not probed: %s", says ? says : "?")
                     : "";
}

const char *node_sentence(struct arena *a, const json_t *doc, size_t bytes_max)
{
    const char *reason = node_reason(doc), *says = json_text(doc, "says");
    const char *verdict = node_verdict(doc);
    bool is_ok = strcmp(verdict, "ok") == 0;
    const char *head = reason ? reason : is_ok ? "ok" : "cannot tell";
    const char *more = is_ok ? probe_clause(a, doc) : "";
    char *text = str_printable(
        a, arena_printf(a, "%s%s%s%s", head, says ? ": " : "", says ? says : "", more));
    size_t n = 0;
    for (size_t step; text[n] && n < bytes_max; n += step) {
        (void)str_code_point(text + n, strlen(text + n), &step);
        if (n + step > bytes_max) {
            break;
        }
    }
    text[n] = '\0';
    return text;
}

const char *node_line(struct arena *a, const json_t *doc)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    int rc = file ? out_json_write(file, doc, JSON_COMPACT | JSON_REAL_PRECISION(6)) : -1;
    rc = file && fclose(file) != 0 ? -1 : rc;
    const char *kept = rc == 0 ? arena_strndup(a, text, n) : NULL;
    free(text);
    return kept;
}

const char *node_identity(struct arena *a, const json_t *doc)
{
    /* That the GPU was in use this time is news of a job, not of the node; a probe that failed is
     * among the findings. */
    static const char *const moving[] = {"time", "seconds", "probe"};
    json_t *copy = json_copy((json_t *)(uintptr_t)doc);
    for (size_t i = 0; i < sizeof moving / sizeof *moving; i++) {
        (void)json_object_del(copy, moving[i]); // may be absent
    }
    const char *line = node_line(a, copy);
    json_decref(copy);
    return line ? node_digest(a, line) : "";
}

/* ------------------------------------------------------------------ Prometheus */

/* A label's value in quotes (text exposition format: \\, \" and \n are escaped). */
static const char *label(struct arena *a, const char *text)
{
    const char *seen = str_printable(a, text ? text : "");
    char *out = arena_alloc(a, strlen(seen) * 2 + 3);
    size_t n = 0;
    out[n++] = '"';
    for (; *seen; seen++) {
        if (*seen == '\\' || *seen == '"') {
            out[n++] = '\\';
        }
        out[n++] = *seen;
    }
    out[n] = '"';
    return out;
}

static const char *metric(struct arena *a, const char *name, const char *help)
{
    return arena_printf(a, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static const char *verdict_metric(struct arena *a, const json_t *doc)
{
    static const char *const verdicts[] = {"ok", "broken", "unknown"};
    const char *text = metric(a, "gpumend_verdict",
                              "Verdict about this node: 1 for the one that "
                              "holds.");
    for (size_t i = 0; i < 3; i++) {
        text = arena_printf(a, "%sgpumend_verdict{verdict=\"%s\"} %d\n", text, verdicts[i],
                            strcmp(node_verdict(doc), verdicts[i]) == 0);
    }
    return text;
}

/* Each cause once, however many targets show it: a series more for each would be for nobody. */
static const char *cause_metric(struct arena *a, const json_t *doc)
{
    const json_t *findings = json_object_get(doc, "findings");
    const char *text = metric(a, "gpumend_cause", "Findings of one cause and severity.");
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *f = json_array_get(findings, i);
        const char *cause = json_text(f, "cause"), *severity = json_text(f, "severity");
        size_t n = 0, before = 0;
        for (size_t k = 0; k < json_array_size(findings); k++) {
            const json_t *g = json_array_get(findings, k);
            bool same = strcmp(json_text(g, "cause"), cause) == 0 &&
                        strcmp(json_text(g, "severity"), severity) == 0;
            n += same;
            before += same && k < i;
        }
        if (!before) {
            text = arena_printf(a, "%sgpumend_cause{cause=\"%s\",severity=\"%s\"} %zu\n", text,
                                cause, severity, n);
        }
    }
    return text;
}

static const char *probe_metric(struct arena *a, const json_t *doc)
{
    const char *result = json_text(json_object_get(doc, "probe"), "result");
    const char *text = metric(a, "gpumend_probe", "What came of running the GPUs: 1 for what did.");
    for (int i = 0; result && i < NODE_PROBE_RESULTS; i++) {
        const char *name = node_probe_name((enum node_probe_result)i);
        text = arena_printf(a, "%sgpumend_probe{result=\"%s\"} %d\n", text, name,
                            strcmp(result, name) == 0);
    }
    return result ? text : "";
}

/* A fact that is not known has no sample. */
static const char *number_metric(struct arena *a, const json_t *doc, const char *key,
                                 const char *name, const char *help)
{
    const json_t *value = node_fact(doc, key);
    return json_is_integer(value) ? arena_printf(a, "%s%s %lld\n", metric(a, name, help), name,
                                                 (long long)json_integer_value(value))
                                  : "";
}

const char *node_prometheus(struct arena *a, const json_t *doc, int64_t now)
{
    const json_t *cohort = json_object_get(doc, "cohort");
    const char *text = arena_printf(
        a, "%s%s%s%s%s", verdict_metric(a, doc), cause_metric(a, doc), probe_metric(a, doc),
        number_metric(a, doc, "gpus", "gpumend_gpus", "GPUs that programs are expected to use."),
        number_metric(a, doc, "gpus_usable", "gpumend_gpus_usable",
                      "GPUs of these that can be used."));
    text = arena_printf(
        a, "%s%sgpumend_cohort_info{host=%s,environment=%s} 1\n", text,
        metric(a, "gpumend_cohort_info", "Nodes with the same labels have the same facts."),
        label(a, json_text(cohort, "host")), label(a, json_text(cohort, "environment")));
    text = arena_printf(a, "%s%sgpumend_build_info{version=%s} 1\n", text,
                        metric(a, "gpumend_build_info", "The gpumend that looked."),
                        label(a, GPUMEND_VERSION));
    text = arena_printf(a, "%s%sgpumend_last_run_timestamp_seconds %lld\n", text,
                        metric(a, "gpumend_last_run_timestamp_seconds", "When it looked."),
                        (long long)now);
    return arena_printf(a, "%s%sgpumend_run_duration_seconds %.6f\n# EOF\n", text,
                        metric(a, "gpumend_run_duration_seconds", "How long it looked."),
                        json_number_value(json_object_get(doc, "seconds")));
}

/* ------------------------------------------------------------------ NFD */

#define NFD_PREFIX "feature.node.kubernetes.io/gpumend-"

/* A text as the value of a label: what it may not hold becomes "_", its ends are alphanumeric. */
const char *node_label_value(struct arena *a, const char *text)
{
    char *out = arena_strdup(a, text);
    size_t n = strlen(out) > 63 ? 63 : strlen(out), from = 0;
    for (size_t i = 0; i < n; i++) {
        bool good = str_is_letter(out[i]) || str_is_digit(out[i]) || strchr("-_.", out[i]);
        out[i] = good ? out[i] : '_';
    }
    while (n > 0 && strchr("-_.", out[n - 1])) {
        n--;
    }
    while (from < n && strchr("-_.", out[from])) {
        from++;
    }
    out[n] = '\0';
    return out + from;
}

static const char *nfd_text(struct arena *a, const char *name, const char *value)
{
    return value ? arena_printf(a, NFD_PREFIX "%s=%s\n", name, node_label_value(a, value)) : "";
}

/* 550.90.07 as 550090007, so that nodeAffinity's Gt and Lt, which compare whole numbers, order
 * drivers exactly. 0: it is no version of at most three parts below 1,000. */
const json_t *node_fact(const json_t *doc, const char *name)
{
    return json_object_get(json_object_get(doc, "facts"), name);
}

long long node_driver_number(const char *version)
{
    uint64_t parts[3] = {0};
    size_t n = 0;
    for (struct str rest = str_of(version); rest.s; n++) {
        if (n == 3 || !str_u64(str_cut(&rest, '.'), &parts[n]) || parts[n] > 999) {
            return 0;
        }
    }
    return (long long)(parts[0] * 1000000 + parts[1] * 1000 + parts[2]);
}

/* "8.9" as 89; 0: it is none. */
long long node_capability_number(const char *text)
{
    uint64_t major = 0, minor = 0;
    struct str rest = str_of(text), head = str_cut(&rest, '.');
    return rest.s && str_u64(head, &major) && str_u64(rest, &minor) && major < 100 && minor < 10
               ? (long long)(major * 10 + minor)
               : 0;
}

static const char *nfd_number(struct arena *a, const char *name, long long value)
{
    return value ? arena_printf(a, NFD_PREFIX "%s=%lld\n", name, value) : "";
}

/* One label for each compute capability and gfx target: a node can have several. */
static const char *nfd_list(struct arena *a, const json_t *doc, const char *key, const char *name,
                            bool numbers)
{
    const json_t *list = node_fact(doc, key);
    const char *text = "";
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));
        long long number = numbers ? node_capability_number(one) : 0;
        if (!numbers || number) {
            const char *value =
                numbers ? arena_printf(a, "%lld", number) : node_label_value(a, one);
            text = arena_printf(a, "%s" NFD_PREFIX "%s.%s=true\n", text, name, value);
        }
    }
    return json_array_size(list) == 1 && numbers
               ? arena_printf(
                     a, "%s%s", text,
                     nfd_number(a, name,
                                node_capability_number(json_string_value(json_array_get(list, 0)))))
               : text;
}

long long node_glibc_minor(const json_t *doc)
{
    const char *glibc = json_string_value(node_fact(doc, "glibc"));
    uint64_t minor = 0;
    return glibc && starts_with(glibc, "2.") && str_u64(str_of(glibc + 2), &minor)
               ? (long long)minor
               : 0;
}

/* Expressions over the labels cannot decide about these nodes (src/needs): with NVIDIA GPUs of
 * several kinds, or whose driver or kind is unknown, or where it is unknown whether it has any. */
bool node_nvidia_is_open(const json_t *doc)
{
    const json_t *list = node_fact(doc, "compute_capabilities");
    const char *driver = json_string_value(node_fact(doc, "driver"));
    bool has_nvidia = !json_is_false(node_fact(doc, "nvidia")), mixed = json_array_size(list) != 1;
    return has_nvidia && (mixed || !driver || !node_driver_number(driver) ||
                          !node_capability_number(json_string_value(json_array_get(list, 0))));
}

long long node_memory_mib(const json_t *doc)
{
    const json_t *value = node_fact(doc, "gpu_memory_mib");
    return json_is_integer(value) ? (long long)json_integer_value(value) : 0;
}

/* It may have GPUs, and how much memory they have is unknown. */
bool node_memory_is_open(const json_t *doc)
{
    const json_t *gpus = node_fact(doc, "gpus");
    return !node_memory_mib(doc) && !(json_is_integer(gpus) && json_integer_value(gpus) == 0);
}

const char *node_nfd(struct arena *a, const json_t *doc, const char *expires)
{
    const json_t *usable = node_fact(doc, "gpus_usable");
    const char *driver = json_string_value(node_fact(doc, "driver"));
    const char *level = json_string_value(node_fact(doc, "cpu_level"));
    const char *text = arena_printf(
        a, "# +expiry-time=%s\n%s%s%s", expires, nfd_text(a, "verdict", node_verdict(doc)),
        nfd_text(a, "cause", node_reason(doc)),
        nfd_text(a, "cohort", json_text(json_object_get(doc, "cohort"), "host")));
    text = arena_printf(a, "%s%s%s%s%s", text,
                        nfd_text(a, "probe", json_text(json_object_get(doc, "probe"), "result")),
                        nfd_text(a, "driver", driver),
                        node_nvidia_is_open(doc) ? NFD_PREFIX "nvidia-open=true\n" : "",
                        nfd_number(a, "driver-number", driver ? node_driver_number(driver) : 0));
    text =
        arena_printf(a, "%s%s%s%s", text, nfd_list(a, doc, "compute_capabilities", "compute", true),
                     nfd_list(a, doc, "gfx", "gfx", false),
                     json_is_array(node_fact(doc, "gfx")) ? "" : NFD_PREFIX "amd-open=true\n");
    text = arena_printf(a, "%s%s%s", text, nfd_number(a, "glibc-minor", node_glibc_minor(doc)),
                        nfd_text(a, "cpu-level", level));
    text = arena_printf(a, "%s%s%s", text, nfd_number(a, "memory-mib", node_memory_mib(doc)),
                        node_memory_is_open(doc) ? NFD_PREFIX "memory-open=true\n" : "");
    return json_is_integer(usable) ? arena_printf(a, "%s" NFD_PREFIX "gpus-usable=%lld\n", text,
                                                  (long long)json_integer_value(usable))
                                   : text;
}
