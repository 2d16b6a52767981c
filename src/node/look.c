/* Reads a machine and its targets into the document of node.h. */
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/out.h"
#include "base/str.h"
#include "choose/need.h"
#include "diag/finding.h"
#include "ldso/loader.h"
#include "model/target.h"
#include "node/internal.h"
#include "node/node.h"
#include "py/dist.h"
#include "report/devices.h"
#include "snapshot/snapshot.h"

const char *node_digest(struct arena *a, const char *text)
{
    struct sha256_ctx run;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&run);
    sha256_update(&run, strlen(text), (const uint8_t *)text);
    sha256_digest(&run, sizeof digest, digest);
    return arena_printf(a, "%02x%02x%02x%02x%02x%02x", digest[0], digest[1], digest[2], digest[3],
                        digest[4], digest[5]);
}

/* ------------------------------------------------------------------ GPUs of the node */

/* What only says that the process which looks may not open a device. */
static bool is_of_the_looker(const struct host_problem *p)
{
    return strcmp(p->id, "device-cgroup") == 0 || strcmp(p->id, "permission") == 0;
}

static enum host_state usable_on_node(const struct host_gpu *g, bool elsewhere)
{
    enum host_state state = HOST_YES;
    if (!elsewhere || g->usable == HOST_YES) {
        return g->usable;
    }
    for (size_t i = 0; i < g->problems.n; i++) {
        const struct host_problem *p = &g->problems.items[i];
        if (!is_of_the_looker(p) && p->state != HOST_YES) {
            state = p->state == HOST_NO || state == HOST_NO ? HOST_NO : HOST_UNKNOWN;
        }
    }
    return g->problems.n ? state : g->usable;
}

struct gpu_count {
    size_t present, usable, unusable, unknown;
};

static struct gpu_count count_gpus(const struct host *h, bool elsewhere)
{
    struct gpu_count n = {0};
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if (host_gpu_counts(g)) {
            enum host_state state = usable_on_node(g, elsewhere);
            n.present++;
            n.usable += state == HOST_YES;
            n.unusable += state == HOST_NO;
            n.unknown += state == HOST_UNKNOWN;
        }
    }
    return n;
}

/* ------------------------------------------------------------------ facts */

static json_t *fact_text(struct arena *a, const struct host_fact *f)
{
    return f->state == HOST_YES ? out_json_text(a, f->value) : json_null();
}

/* Each text once, sorted. */
static json_t *sorted_texts(struct arena *a, host_texts *texts)
{
    json_t *list = json_array();
    if (texts->n) {
        qsort(texts->items, texts->n, sizeof *texts->items, str_by_bytes);
    }
    for (size_t i = 0; i < texts->n; i++) {
        if (i == 0 || strcmp(texts->items[i], texts->items[i - 1]) != 0) {
            json_add(list, out_json_text(a, texts->items[i]));
        }
    }
    return list;
}

/* Nothing was found, and the PCI bus cannot be seen: not a machine without GPUs. */
static bool gpus_are_unknown(const struct host *h)
{
    return h->gpus.n == 0 && h->pci.state == HOST_UNKNOWN;
}

/* One of a GPU's facts, of all GPUs that count; null: of one of them it is unknown. */
static json_t *texts_of_gpus(struct arena *a, const struct host *h, enum host_vendor vendor,
                             struct host_fact (*fact)(const struct host_gpu *))
{
    host_texts texts = {0};
    if (gpus_are_unknown(h)) {
        return json_null();
    }
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        struct host_fact f = fact(g);
        if (!host_gpu_counts(g) || g->vendor != vendor) {
            continue;
        }
        if (f.state != HOST_YES || !f.value) {
            return json_null();
        }
        VEC_PUSH(a, &texts, f.value);
    }
    return sorted_texts(a, &texts);
}

static struct host_fact capability_of(const struct host_gpu *g)
{
    return g->compute_capability;
}

static struct host_fact gfx_of(const struct host_gpu *g)
{
    return g->gfx;
}

static json_t *names_of_gpus(struct arena *a, const struct host *h)
{
    host_texts names = {0};
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if (host_gpu_counts(g)) {
            const char *id = arena_printf(a, "%04x:%04x", g->vendor_id, g->device_id);
            VEC_PUSH(a, &names, g->name ? g->name : id);
        }
    }
    return sorted_texts(a, &names);
}

static bool has_vendor(const struct host *h, enum host_vendor vendor)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == vendor && host_gpu_counts(&h->gpus.items[i])) {
            return true;
        }
    }
    return false;
}

static json_t *c_library(struct arena *a, const struct host *h, struct ldso_store *store)
{
    struct ldso_loader l;
    const char *path = store && h->machine ? ldso_loader_default(h->machine, true) : NULL;
    if (!path) {
        return json_null();
    }
    ldso_loader_read(store, path, h->machine, true, &l);
    return !l.missing && l.kind == LDSO_GLIBC && l.glibc_minor
               ? out_json_text(a, arena_printf(a, "2.%d", l.glibc_minor))
               : json_null();
}

static json_t *rocm_releases(struct arena *a, const struct host *h)
{
    host_texts texts = {0};
    for (size_t i = 0; i < h->amd.rocm.n; i++) {
        if (h->amd.rocm.items[i].version) {
            VEC_PUSH(a, &texts, h->amd.rocm.items[i].version);
        }
    }
    return sorted_texts(a, &texts);
}

/* Of the GPU that has most, in MiB; null: there is none, or of one of them it is unknown. */
static json_t *memory_of_gpus(struct arena *a, const struct model *m)
{
    struct kb_gpus table;
    struct gm_err err;
    uint64_t most = 0;
    if (kb_gpus(m->kb, &table, &err) < 0) {
        return json_null();
    }
    for (size_t i = 0; i < m->host->gpus.n; i++) {
        const struct host_gpu *g = &m->host->gpus.items[i];
        const char *why;
        bool computes = host_gpu_counts(g) && (g->vendor == HOST_NVIDIA || g->vendor == HOST_AMD);
        uint64_t bytes = computes ? choose_gpu_memory(a, &table, g, &why) : 1;
        if (!bytes) {
            return json_null();
        }
        most = bytes > most ? bytes : most;
    }
    return most >> 20 ? json_integer((json_int_t)(most >> 20)) : json_null();
}

json_t *node_facts(struct arena *a, const struct model *m, struct ldso_store *store, bool elsewhere)
{
    const struct host *h = m->host;
    struct gpu_count n = count_gpus(h, elsewhere);
    bool unknown = gpus_are_unknown(h);
    json_t *facts = json_object();
    json_put(facts, "gpus", unknown ? json_null() : json_integer((json_int_t)n.present));
    json_put(facts, "gpus_usable",
             unknown || n.unknown ? json_null() : json_integer((json_int_t)n.usable));
    json_put(facts, "gpu_names", unknown ? json_null() : names_of_gpus(a, h));
    json_put(facts, "gpu_memory_mib", unknown ? json_null() : memory_of_gpus(a, m));
    json_put(facts, "nvidia", unknown ? json_null() : json_boolean(has_vendor(h, HOST_NVIDIA)));
    json_put(facts, "driver", fact_text(a, &h->nvidia.module));
    json_put(facts, "driver_flavour", fact_text(a, &h->nvidia.flavour));
    json_put(facts, "compute_capabilities", texts_of_gpus(a, h, HOST_NVIDIA, capability_of));
    json_put(facts, "gfx", texts_of_gpus(a, h, HOST_AMD, gfx_of));
    json_put(facts, "rocm", rocm_releases(a, h));
    json_put(facts, "kernel", fact_text(a, &h->kernel));
    json_put(facts, "os", fact_text(a, &h->os_name));
    json_put(facts, "glibc", c_library(a, h, store));
    json_put(facts, "cpu_level", fact_text(a, &h->cpu.isa));
    return facts;
}

/* ------------------------------------------------------------------ findings */

/* What is put together of the machine and its targets. */
struct look {
    struct arena *a;
    const struct node_asked *asked;
    bool elsewhere;
    enum diag_verdict verdict;
    const char *reason, *says; // of the first error
    const char *unsure;        // the first that makes it unknown
    json_t *findings, *targets;
    json_t *probe; // NULL: none was asked for
    size_t n_left_out;
};

static void weigh_verdict(struct look *l, enum diag_verdict verdict, const char *unsure)
{
    if (verdict == DIAG_CANNOT_TELL && !l->unsure) {
        l->unsure = unsure;
    }
    if (verdict == DIAG_BROKEN || (verdict == DIAG_CANNOT_TELL && l->verdict == DIAG_OK)) {
        l->verdict = verdict;
    }
}

static void put_finding(struct look *l, const char *cause, enum diag_severity severity,
                        const char *target, const char *culprit, const char *summary)
{
    struct arena *a = l->a;
    if (severity == DIAG_ERROR && !l->reason) {
        l->reason = cause;
        l->says = summary;
    }
    if (json_array_size(l->findings) >= NODE_FINDINGS_MAX) {
        l->n_left_out++;
        return;
    }
    json_t *o = json_object();
    json_put(o, "cause", out_json_text(a, cause));
    json_put(o, "severity", out_json_text(a, diag_severity_name(severity)));
    json_put(o, "target", out_json_text(a, target));
    json_put(o, "culprit", out_json_text(a, culprit));
    json_put(o, "summary", out_json_text(a, summary));
    json_add(l->findings, o);
}

/* A finding about what a pod may open of its host is none about the host. */
static bool is_about_the_looker(const struct look *l, const struct diag_finding *f)
{
    return l->elsewhere && (f->cause == DIAG_DEVICE_CGROUP || f->cause == DIAG_DEVICE_PERMISSION);
}

/* Takes over errors and warnings; returns the verdict of what is left. */
static enum diag_verdict put_report(struct look *l, const struct diag_report *r, const char *target)
{
    size_t errors = 0, passed_over = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        if (is_about_the_looker(l, f)) {
            passed_over += f->severity == DIAG_ERROR;
        } else if (f->severity != DIAG_NOTE) {
            errors += f->severity == DIAG_ERROR;
            put_finding(l, diag_causes[f->cause].id, f->severity, target, f->culprit, f->summary);
        }
    }
    return r->verdict == DIAG_BROKEN && !errors && passed_over ? DIAG_OK : r->verdict;
}

static void judge_machine(struct look *l, const struct host *h, const struct diag_report *r)
{
    struct gpu_count n = count_gpus(h, l->elsewhere);
    weigh_verdict(l, put_report(l, r, NULL), r->notes.n ? r->notes.items[0] : NULL);
    if (gpus_are_unknown(h)) {
        weigh_verdict(l, DIAG_CANNOT_TELL, "the PCI bus cannot be looked at");
    }
    if (n.unusable) {
        weigh_verdict(l, DIAG_BROKEN, NULL);
    }
    if (n.unusable && !l->reason) {
        put_finding(l, "gpu-unusable", DIAG_ERROR, NULL, NULL,
                    arena_printf(l->a, "%zu of %zu GPUs cannot be used", n.unusable, n.present));
    }
    if (n.unknown) {
        weigh_verdict(l, DIAG_CANNOT_TELL,
                      arena_printf(l->a, "whether %zu of %zu GPUs can be used is unknown",
                                   n.unknown, n.present));
    }
    if (n.usable + n.unknown < l->asked->gpus_min) {
        weigh_verdict(l, DIAG_BROKEN, NULL);
        put_finding(l, "gpu-count", DIAG_ERROR, NULL, NULL,
                    arena_printf(l->a, "%zu of the %llu expected GPUs can be used", n.usable,
                                 (unsigned long long)l->asked->gpus_min));
    } else if (n.usable < l->asked->gpus_min) {
        weigh_verdict(l, DIAG_CANNOT_TELL, "whether the expected GPUs can be used is unknown");
    }
}

/* ------------------------------------------------------------------ the GPU, run */

const char *node_probe_name(enum node_probe_result result)
{
    static const char *const names[] = {[NODE_PROBE_WORKS] = "works",
                                        [NODE_PROBE_BROKEN] = "broken",
                                        [NODE_PROBE_UNKNOWN] = "unknown",
                                        [NODE_PROBE_NOT_RUN] = "not-run"};
    return names[result];
}

json_t *node_probe_json(struct arena *a, enum node_probe_result result, const char *says)
{
    json_t *o = json_object();
    json_put(o, "result", json_string(node_probe_name(result)));
    json_put(o, "says", out_json_text(a, says));
    return o;
}

static void judge_probe(struct look *l, const struct node_probe *p)
{
    l->probe = node_probe_json(l->a, p->result, p->says);
    if (p->result == NODE_PROBE_BROKEN) {
        weigh_verdict(l, DIAG_BROKEN, NULL);
        put_finding(l, "gpu-probe", DIAG_ERROR, NULL, NULL, p->says);
    } else if (p->result == NODE_PROBE_UNKNOWN) {
        weigh_verdict(l, DIAG_CANNOT_TELL, p->says);
    }
}

/* ------------------------------------------------------------------ targets */

/* What an environment consists of: its interpreter and packages; of a program, what it loads. */
static const char *identity_of(struct arena *a, const struct model *m)
{
    host_texts parts = {0};
    const char *text = "";
    if (m->env) {
        text = arena_printf(a, "python %d.%d\n", m->env->major, m->env->minor);
        for (size_t i = 0; i < m->env->n_dists; i++) {
            const struct py_dist *d = &m->env->dists[i];
            VEC_PUSH(a, &parts, arena_printf(a, "%s %s", d->name, d->version ? d->version : "?"));
        }
    }
    for (size_t i = 0; !m->env && i < m->processes.n; i++) {
        const struct model_process *p = m->processes.items[i];
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            VEC_PUSH(a, &parts, path_base(p->ldso->objects.items[k]->path));
        }
    }
    json_t *list = sorted_texts(a, &parts);
    char *dumped = json_dumps(list, JSON_COMPACT);
    const char *whole = arena_printf(a, "%s%s", text, dumped ? dumped : "");
    free(dumped);
    json_decref(list);
    return node_digest(a, whole);
}

static const char *const plain_env[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
/* Finds no Python: the machine alone is looked at. */
static const char *const no_env[] = {"PATH=/proc/gpumend-none"};

static struct model_target_options options_of(const struct look *l, const char *target)
{
    return (struct model_target_options){
        .target = target,
        .only_open = !target,
        .root_path = l->asked->root_path,
        .host_path = l->asked->root_path,
        .env = target ? plain_env : no_env,
        .n_env = 1,
        .cwd = l->asked->cwd,
        .uid = l->asked->uid,
        .on_host = l->asked->on_host,
    };
}

static void look_at_target(struct look *l, const char *target)
{
    struct arena *a = l->a;
    struct gm_err err;
    struct model_target t;
    struct diag_report r;
    struct model_target_options o = options_of(l, target);
    json_t *row = json_object();
    enum diag_verdict verdict = DIAG_CANNOT_TELL;
    const char *identity = NULL;
    int rc = model_target_open(&t, a, &o, &err);
    if (rc == 0) {
        diag_run(&t.model, &r);
        verdict = put_report(l, &r, target);
        weigh_verdict(l, verdict,
                      r.notes.n ? r.notes.items[0]
                                : arena_printf(a, "%s could not be judged", target));
        identity = identity_of(a, &t.model);
    } else {
        weigh_verdict(l, DIAG_CANNOT_TELL, arena_printf(a, "%s: %s", target, err.text));
    }
    model_target_close(&t);
    json_put(row, "target", out_json_text(a, target));
    json_put(row, "verdict", out_json_text(a, diag_verdict_name(verdict)));
    json_put(row, "environment", out_json_text(a, identity));
    json_add(l->targets, row);
}

/* ------------------------------------------------------------------ the document */

static json_t *cohort_of(struct arena *a, const json_t *facts, const json_t *targets)
{
    json_t *o = json_object();
    char *text = json_is_object(facts) ? json_dumps(facts, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    const char *identities = "";
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *one = json_text(json_array_get(targets, i), "environment");
        identities = arena_printf(a, "%s%s\n", identities, one ? one : "?");
    }
    json_put(o, "host", out_json_text(a, text ? node_digest(a, text) : NULL));
    json_put(o, "environment",
             out_json_text(a, json_array_size(targets) ? node_digest(a, identities) : NULL));
    free(text);
    return o;
}

/* Takes the findings, targets and facts over; facts are null where the machine is unknown. */
static json_t *document_of(struct arena *a, const struct look *l, const char *says, json_t *facts)
{
    json_t *doc = json_object();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "verdict", out_json_text(a, diag_verdict_name(l->verdict)));
    json_put(doc, "reason", out_json_text(a, l->verdict == DIAG_BROKEN ? l->reason : NULL));
    json_put(doc, "says", out_json_text(a, says));
    json_put(doc, "findings", l->findings);
    json_put(doc, "findings_left_out", json_integer((json_int_t)l->n_left_out));
    json_put(doc, "cohort", cohort_of(a, facts, l->targets));
    json_put(doc, "targets", l->targets);
    json_put(doc, "facts", facts);
    if (l->probe) {
        json_put(doc, "probe", l->probe);
    }
    return doc;
}

static const char *sentence_of(struct look *l, const json_t *facts)
{
    json_int_t gpus = json_integer_value(json_object_get(facts, "gpus"));
    const char *driver = json_text(facts, "driver");
    if (l->verdict == DIAG_BROKEN) {
        return l->says;
    }
    if (l->verdict == DIAG_CANNOT_TELL) {
        return l->unsure;
    }
    return gpus ? arena_printf(l->a, "%lld of %lld GPUs can be used%s%s", (long long)gpus,
                               (long long)gpus, driver ? ", driver " : "", driver ? driver : "")
                : "no GPU is installed";
}

int node_look(struct arena *a, const struct node_asked *asked, json_t **ret, struct gm_err *err)
{
    struct look l = {.a = a, .asked = asked, .verdict = DIAG_OK};
    struct model_target t;
    struct diag_report r;
    l.elsewhere = asked->root_path && strcmp(asked->root_path, "/") != 0;
    struct model_target_options o = options_of(&l, NULL);
    int rc = model_target_open(&t, a, &o, err);
    if (rc == 0 && !t.model.host) {
        rc = gm_err_set(err, GM_ERR_LOOK, "%s", t.model.host_why);
    }
    if (rc < 0) {
        model_target_close(&t);
        return rc;
    }
    l.findings = json_array();
    l.targets = json_array();
    diag_run(&t.model, &r);
    struct node_probe ran = {0};
    if (asked->probe) {
        asked->probe(asked->probe_arg, &t.model, &ran);
    }
    if (ran.changed) {
        diag_run(&t.model, &r);
    }
    judge_machine(&l, t.model.host, &r);
    if (asked->probe) {
        judge_probe(&l, &ran);
    }
    json_t *facts = node_facts(a, &t.model, &t.store, l.elsewhere);
    model_target_close(&t);
    for (size_t i = 0; i < asked->n_targets; i++) {
        look_at_target(&l, asked->targets[i]);
    }
    *ret = document_of(a, &l, sentence_of(&l, facts), facts);
    return 0;
}

/* Its own target's row. */
static void put_snapshot_target(struct look *l, const struct snapshot *s, const struct model *m,
                                const struct diag_report *r)
{
    struct arena *a = l->a;
    json_t *row = json_object();
    json_put(row, "target", out_json_text(a, s->path ? s->path : s->kind));
    json_put(row, "verdict", out_json_text(a, diag_verdict_name(r->verdict)));
    json_put(row, "environment", out_json_text(a, identity_of(a, m)));
    json_add(l->targets, row);
}

int node_look_at_snapshot(struct arena *a, struct snapshot *s, json_t **ret, struct gm_err *err)
{
    const struct node_asked nothing = {0};
    struct look l = {.a = a,
                     .asked = &nothing,
                     .verdict = DIAG_OK,
                     .findings = json_array(),
                     .targets = json_array()};
    struct model_target t;
    struct diag_report r;
    json_t *facts = json_null();
    struct model_target_options o = snapshot_options(s, false);
    int rc = model_target_open(&t, a, &o, err);
    if (rc == 0) {
        diag_run(&t.model, &r);
        if (t.model.host) {
            judge_machine(&l, t.model.host, &r);
        } else {
            weigh_verdict(&l, put_report(&l, &r, NULL), NULL);
            weigh_verdict(&l, DIAG_CANNOT_TELL, t.model.host_why);
        }
        if (t.model.processes.n) {
            put_snapshot_target(&l, s, &t.model, &r);
        }
        if (s->files.misses.n) {
            weigh_verdict(
                &l, DIAG_CANNOT_TELL,
                arena_printf(a, "the snapshot does not hold %s", s->files.misses.items[0]));
        }
        facts = t.model.host ? node_facts(a, &t.model, t.model.processes.n ? &t.store : NULL, false)
                             : json_null();
    }
    model_target_close(&t);
    if (rc < 0) {
        json_decref(l.findings);
        json_decref(l.targets);
        return rc;
    }
    *ret = document_of(a, &l, sentence_of(&l, facts), facts);
    return 0;
}

json_t *node_cannot(struct arena *a, const char *why)
{
    const struct look nothing = {
        .verdict = DIAG_CANNOT_TELL, .findings = json_array(), .targets = json_array()};
    return document_of(a, &nothing, why, json_null());
}
