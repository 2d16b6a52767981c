/* glibc and wheel tags, models and compute types. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* "2.31" -> "manylinux_2_31": PEP 600 has the glibc in the tag's name. */
static const char *glibc_tag(struct arena *a, const char *glibc)
{
    const char *dot = strchr(glibc, '.');
    return dot ? arena_printf(a, "manylinux_%.*s_%s", (int)(dot - glibc), glibc, dot + 1) : glibc;
}

int form_glibc(struct ask *k, struct gm_err *err)
{
    struct kb_glibcs g;
    int rc = kb_glibcs(k->kb, &g, err);
    if (rc < 0) {
        return rc;
    }
    const char *tag = ask_given(k, KEY_TAG), *glibc = ask_given(k, KEY_GLIBC);
    for (size_t i = 0; i < g.n; i++) {
        const struct kb_glibc *row = &g.rows[i];
        bool tagged = tag && row->tag && strcmp(row->tag, tag) == 0;
        bool same = glibc && strcmp(row->glibc, glibc) == 0;
        if (!tagged && !same) {
            continue;
        }
        HIT(k, KB_AREA_GLIBCS, row);
        if (row->tag) {
            ask_say(k, "%s promises glibc %s or later; built on %s; pip %s or later knows it.",
                    row->tag, row->glibc, row->image, row->pip);
        } else {
            ask_say(k, "glibc %s is that of %s; wheels up to %s run there.", row->glibc,
                    row->systems, glibc_tag(k->a, row->glibc));
        }
    }
    return k->answer->known;
}

/* faster-whisper and whisperx compute with ctranslate2, which they require. */
static bool engine_of(const struct ask *k, const struct kb_model *m)
{
    const char *package = k->q->package;
    bool above =
        package && (strcmp(package, "faster-whisper") == 0 || strcmp(package, "whisperx") == 0);
    return !package || strcmp(above ? "ctranslate2" : package, m->engine) == 0;
}

/* Without a device every row is one. */
static bool device_applies(struct ask *k, const struct kb_model *m, const char *sm)
{
    bool cpu = k->q->said & SAID_CPU;
    if (!cpu && !sm) {
        return true;
    }
    if (strcmp(m->device, "cpu") == 0) {
        return cpu;
    }
    return !cpu && strcmp(m->device, "cuda") == 0 && sm && ask_admits(k, m->applies, sm);
}

static void add_compute(struct ask *k, struct ask_table *t, const struct kb_model *m,
                        const char *asked, const char *runs_as)
{
    HIT(k, KB_AREA_MODELS, m);
    const char *title = arena_printf(k->a, "%s runs as %s with %s on %s %s", asked, runs_as,
                                     m->engine, m->device, m->applies);
    VEC_PUSH(k->a, &t->lines, ((struct ask_line){.cells = {title}}));
}

/* "int8" alone is the int8 of the type that the model has: what int8_float32 keeps of int8. */
static void compute_rows(struct ask *k, struct ask_table *t, const struct kb_model *m)
{
    const char *asked = ask_given(k, KEY_COMPUTE);
    bool int8 = strcmp(asked, "int8") == 0;
    for (size_t c = 0; c < m->n_runs; c++) {
        if (strcmp(m->runs[c].asked, int8 ? "int8_float32" : asked) != 0) {
            continue;
        }
        bool kept = int8 && starts_with(m->runs[c].runs_as, "int8");
        if (k->q->said & SAID_NATIVE && !kept && strcmp(m->runs[c].runs_as, asked) != 0) {
            continue; // "where is int16 efficient": only where it runs as it is
        }
        add_compute(k, t, m, asked, kept ? "int8" : m->runs[c].runs_as);
    }
}

/* "int8_float16 on sm_61", "bfloat16 on a GTX 1080" */
int form_compute(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    struct ask_arch arch;
    struct ask_table t = {.heads = {"compute type"}, .columns = 1, .named = 1};
    int rc = kb_models(k->kb, &models, err);
    rc = rc < 0 ? rc : ask_arch_find(k, &arch, err);
    if (rc < 0 || k->missing || arch.gfx) {
        return rc < 0 ? rc : 0;
    }
    for (size_t i = 0; i < models.n; i++) {
        const struct kb_model *m = &models.rows[i];
        if (m->kind == KB_MODEL_COMPUTE && engine_of(k, m) && device_applies(k, m, arch.sm)) {
            compute_rows(k, &t, m);
        }
    }
    bool named = k->q->named & (NAMED_GPU | NAMED_SM | NAMED_PCI); // "do RTX 3060 cards ..."
    unsigned places = named ? ASKED_FOLDER : ASKED_FOLDER | ASKED_GPU;
    bool where = k->q->asked & places || k->q->said & SAID_NATIVE;
    if ((k->q->said & SAID_DOES && t.lines.n != 1) || (where && !(k->q->said & SAID_NATIVE)) ||
        (where && k->q->said & SAID_DOES)) {
        return 0; // the answer depends on the device
    }
    if (k->q->said & SAID_DOES) {
        const char *runs = arena_printf(k->a, " runs as %s with", ask_given(k, KEY_COMPUTE));
        ask_say(k, "%s:", strstr(t.lines.items[0].cells[0], runs) ? "Yes" : "No");
    }
    if (t.lines.n > 0) {
        ask_say_table(k, arena_printf(k->a, "%s by device", ask_given(k, KEY_COMPUTE)), &t);
    }
    return t.lines.n > 0;
}

static int say_since(struct ask *k, const struct kb_models *models)
{
    const char *asked = ask_given(k, KEY_COMPUTE);
    for (size_t i = 0; i < models->n; i++) {
        const struct kb_model *m = &models->rows[i];
        if (m->kind == KB_MODEL_SINCE && strcmp(m->compute, asked) == 0 &&
            strcmp(m->engine, k->q->package) == 0) {
            HIT(k, KB_AREA_MODELS, m);
            ask_say(k, "%s has %s since %s.", m->engine, asked,
                    m->applies + strspn(m->applies, ">="));
            return 1;
        }
    }
    ask_missing(k, "since which release %s has %s was not read", k->q->package, asked);
    return 0;
}

/* "which compute types for a GTX 1650", "which ctranslate2 added bfloat16" */
int form_compute_types(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    struct ask_arch arch;
    struct ask_table t = {.heads = {"asked", "runs as", "where"}, .columns = 3, .named = 1};
    int rc = kb_models(k->kb, &models, err);
    rc = rc < 0 ? rc : ask_arch_find(k, &arch, err);
    if (rc < 0 || k->missing || arch.gfx) {
        return rc < 0 ? rc : 0;
    }
    if (k->q->named & NAMED_COMPUTE) {
        return k->q->said & (SAID_ADDED | SAID_FIRST) ? say_since(k, &models) : 0;
    }
    if (!arch.sm && !(k->q->said & SAID_CPU)) {
        return 0;
    }
    for (size_t i = 0; i < models.n; i++) {
        const struct kb_model *m = &models.rows[i];
        if (m->kind != KB_MODEL_COMPUTE || !engine_of(k, m) || !device_applies(k, m, arch.sm)) {
            continue;
        }
        HIT(k, KB_AREA_MODELS, m);
        for (size_t c = 0; c < m->n_runs; c++) {
            const char *where = arena_printf(k->a, "%s on %s %s", m->engine, m->device, m->applies);
            VEC_PUSH(k->a, &t.lines,
                     ((struct ask_line){.cells = {m->runs[c].asked, m->runs[c].runs_as, where}}));
        }
    }
    if (t.lines.n > 0) {
        ask_say_table(k, "What a compute type that is asked for runs as", &t);
    }
    return t.lines.n > 0;
}

/* "which compute type does whisperx use by default" */
int form_default(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    int rc = kb_models(k->kb, &models, err);
    if (rc < 0 || !(k->q->said & SAID_DEFAULT)) {
        return rc < 0 ? rc : 0;
    }
    bool compute = k->q->asked & ASKED_COMPUTE;
    for (size_t i = 0; i < models.n; i++) {
        const struct kb_model *m = &models.rows[i];
        if (m->kind == KB_MODEL_DEFAULT && strcmp(m->engine, k->q->package) == 0 &&
            (compute ? m->compute != NULL : m->model != NULL)) {
            HIT(k, KB_AREA_MODELS, m);
            ask_say(k, "By default %s uses %s%s%s.%s%s", m->engine, compute ? m->compute : m->model,
                    m->device ? " on " : "", m->device ? m->device : "", m->origin.note ? " " : "",
                    m->origin.note ? m->origin.note : "");
        }
    }
    return k->answer->known;
}

/* Whether the row is about the model that is asked for: by its name, an alias, or its size
 * ("large-v2" is of the size large). A compute type, a batch and an engine choose among runs. */
static bool names_model(struct ask *k, const struct kb_model *m)
{
    const char *model = ask_given(k, KEY_MODEL);
    bool alias = strcmp(model, "turbo") == 0 && m->model && strcmp(m->model, "large-v3-turbo") == 0;
    bool size = m->kind == KB_MODEL_MODEL && strcmp(m->model, "large") == 0 &&
                starts_with(model, "large-v") && !ends_with(model, "turbo");
    return m->model && (question_names_model(m, model) || alias || size ||
                        (m->alias && strcmp(model, m->alias) == 0));
}

static bool engine_wanted(const struct ask *k, const struct kb_model *m)
{
    const char *package = k->q->package;
    bool whisper = !package && k->q->said & SAID_WHISPER && k->q->said & SAID_README;
    package = whisper ? "openai-whisper" : package;
    return !package || strcmp(package, m->engine) == 0;
}

static bool run_wanted(const struct ask *k, const struct kb_model *m)
{
    const char *compute = ask_given(k, KEY_COMPUTE), *batch = ask_given(k, KEY_BATCH);
    bool cpu = k->q->said & SAID_CPU, gpu = k->q->asked & ASKED_GPU;
    bool narrowed = compute || batch || cpu;
    if (m->kind != KB_MODEL_MEASURED) {
        return !narrowed && (k->q->asked & ASKED_ALIAS || m->kind == KB_MODEL_MODEL);
    }
    bool beam = batch && starts_with(batch, "beam ");
    const char *note = m->origin.note ? m->origin.note : "";
    bool beam_said = strstr(note, "Beam ") == note && beam &&
                     atoi(note + strlen("Beam ")) == atoi(batch + strlen("beam "));
    return k->q->asked & ASKED_MEMORY && (!compute || strcmp(compute, m->compute) == 0) &&
           (!batch || beam ? true : atoi(batch) == (m->batch ? m->batch : 1)) &&
           (!beam || beam_said) && (!cpu || strcmp(m->device, "cpu") == 0) &&
           (!gpu || strcmp(m->device, "cuda") == 0);
}

static void say_model(struct ask *k, const struct kb_model *m)
{
    HIT(k, KB_AREA_MODELS, m);
    if (m->kind == KB_MODEL_MODEL && m->memory_mib > 0) {
        const char *model = ask_given(k, KEY_MODEL);
        ask_say(k, "%s %s: %d million parameters, about %d GiB of GPU memory as its authors say.",
                m->engine, ends_with(model, ".en") ? model : m->model, m->parameters_m,
                m->memory_mib / 1024);
    } else if (m->kind == KB_MODEL_MODEL) {
        ask_say(k, "%s %s: %d million parameters.", m->engine, m->model, m->parameters_m);
    } else if (m->kind == KB_MODEL_ALIAS) {
        ask_say(k, "%s takes %s for %s.", m->engine, m->alias, m->model);
    }
}

static void add_measured(struct ask *k, struct ask_table *t, const struct kb_model *m)
{
    HIT(k, KB_AREA_MODELS, m);
    const char *memory = arena_printf(k->a, "%d MiB", m->memory_mib);
    const char *title =
        arena_printf(k->a, "%s %s as %s on %s", m->engine, m->model, m->compute, m->device);
    size_t n = m->origin.note ? strlen(m->origin.note) : 0;
    const char *note =
        n ? arena_strndup(k->a, m->origin.note, n - ends_with(m->origin.note, ".")) : NULL;
    VEC_PUSH(k->a, &t->lines, ((struct ask_line){.cells = {title, memory, note}}));
}

/* "how much memory does whisper large-v3 need" */
int form_model(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    struct ask_table t = {.heads = {"measured", "memory", ""}, .columns = 3, .named = 1};
    bool found = false;
    int rc = kb_models(k->kb, &models, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < models.n; i++) {
        const struct kb_model *m = &models.rows[i];
        if (!names_model(k, m) || !engine_wanted(k, m) || !run_wanted(k, m)) {
            continue;
        }
        found = true;
        if (m->kind == KB_MODEL_MEASURED) {
            add_measured(k, &t, m);
        } else {
            say_model(k, m);
        }
    }
    if (t.lines.n > 0) {
        ask_say_table(k, arena_printf(k->a, "Memory measured for %s", ask_given(k, KEY_MODEL)), &t);
    }
    return found;
}
