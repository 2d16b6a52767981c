/* glibc and wheel tags, models and compute types. */
#include "kb/ask.h"

#include <string.h>

#include "base/str.h"

int form_glibc(struct ask *k, struct gm_err *err)
{
    struct kb_glibcs g;
    int rc = kb_glibcs(k->kb, &g, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    for (size_t i = 0; i < g.n; i++) {
        const struct kb_glibc *row = &g.rows[i];
        bool tagged = q->tag && row->tag && strcmp(row->tag, q->tag) == 0;
        bool same = q->glibc && strcmp(row->glibc, q->glibc) == 0;
        if (!tagged && !same) {
            continue;
        }
        HIT(k, KB_AREA_GLIBCS, row);
        if (row->tag) {
            ask_say(k, "%s promises glibc %s or later; built on %s; pip %s or later knows it.",
                    row->tag, row->glibc, row->image, row->pip);
        } else {
            ask_say(k, "glibc %s is that of %s.", row->glibc, row->systems);
        }
    }
    return k->answer->known;
}

static bool device_applies(struct ask *k, const struct kb_model *m, const char *sm)
{
    bool cpu = question_has(k->q, "cpu");
    if (!cpu && !sm) {
        return k->q->n_rest == 0 || question_has(k->q, "capability compute type types");
    }
    if (strcmp(m->device, "cpu") == 0) {
        return cpu;
    }
    return !cpu && strcmp(m->device, "cuda") == 0 && sm && ask_admits(k, m->applies, sm);
}

/* "int8_float16 on sm_61", "bfloat16 on a GTX 1080" */
int form_compute(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    struct ask_gpus found = {{0}};
    int rc = kb_models(k->kb, &models, err);
    rc = rc < 0 || k->q->sm ? rc : ask_gpus_find(k, true, &found, err);
    if (rc < 0) {
        return rc;
    }
    const char *sm = ask_gpus_alike(&found) ? found.items.items[0]->capability : k->q->sm;
    for (size_t i = 0; i < models.n; i++) {
        const struct kb_model *m = &models.rows[i];
        for (size_t c = 0; m->kind == KB_MODEL_COMPUTE && c < m->n_runs; c++) {
            if (strcmp(m->runs[c].asked, k->q->compute) == 0 && device_applies(k, m, sm)) {
                HIT(k, KB_AREA_MODELS, m);
                ask_say(k, "%s runs as %s with %s on %s %s.", m->runs[c].asked, m->runs[c].runs_as,
                        m->engine, m->device, m->applies);
            }
        }
    }
    return k->answer->known;
}

/* Whether the question names the model or one of its sizes ("large-v2" is of the size large). */
static bool names_model(const struct question *q, const struct kb_model *m)
{
    for (size_t i = 0; m->model && i < q->n; i++) {
        const char *word = q->words[i];
        word += starts_with(word, "whisper:") ? 8 : starts_with(word, "whisper-") ? 8 : 0;
        bool alias = strcmp(word, "turbo") == 0 && strcmp(m->model, "large-v3-turbo") == 0;
        bool size = m->kind == KB_MODEL_MODEL && strcmp(m->model, "large") == 0 &&
                    starts_with(word, "large-v") && !ends_with(word, "turbo");
        if (strcmp(word, m->model) == 0 || alias || size ||
            (m->alias && strcmp(word, m->alias) == 0)) {
            return true;
        }
    }
    return false;
}

static void say_model(struct ask *k, const struct kb_model *m)
{
    HIT(k, KB_AREA_MODELS, m);
    if (m->kind == KB_MODEL_MODEL && m->memory_mib > 0) {
        ask_say(k, "%s %s: %d million parameters, about %d GiB of GPU memory.", m->engine, m->model,
                m->parameters_m, m->memory_mib / 1024);
    } else if (m->kind == KB_MODEL_MODEL) {
        ask_say(k, "%s %s: %d million parameters.", m->engine, m->model, m->parameters_m);
    } else if (m->kind == KB_MODEL_MEASURED) {
        ask_say(k, "%s %s as %s on %s took %d MiB (%s)", m->engine, m->model, m->compute, m->device,
                m->memory_mib, m->origin.note);
    } else if (m->kind == KB_MODEL_ALIAS) {
        ask_say(k, "%s takes %s for %s.", m->engine, m->alias, m->model);
    }
}

/* "how much memory does whisper large-v3 need" */
int form_model(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    int rc = kb_models(k->kb, &models, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < models.n; i++) {
        if (names_model(k->q, &models.rows[i])) {
            say_model(k, &models.rows[i]);
        }
    }
    return k->answer->known;
}
