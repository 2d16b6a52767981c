/* Whether a model fits into the memory of a GPU, by what was measured. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kb/serves.h"

/* What the driver and a desktop take of the memory before a program gets any: a measurement that is
 * nearer to the whole than this settles nothing. */
enum { MARGIN_MIB = 300 };

/* "4GB" in MiB; 0: it is none. */
static int memory_mib(const char *text)
{
    char *end;
    double gib = strtod(text, &end);
    return end > text && gib > 0 && gib < 4096 ? (int)(gib * 1024) : 0;
}

/* "8 and with 12 GiB" of a card that was sold with several sizes, of which its row has the smaller;
 * NULL: it was not. */
static const char *sizes_of(struct ask *k, const struct kb_gpu *g)
{
    const char *note = g->origin.note, *sold = "Sold with ";
    return note && starts_with(note, sold)
               ? arena_strndup(k->a, note + strlen(sold), strcspn(note + strlen(sold), ";."))
               : NULL;
}

/* Of the cards that are named one that was sold with several sizes; NULL: none was. */
static const char *several_sizes(struct ask *k, struct gm_err *err)
{
    struct kb_gpu_list found = {{0}};
    const char *sizes = NULL;
    int rc = ask_given(k, KEY_MEMORY) ? -1 : ask_gpus_find(k, &found, err);
    for (size_t i = 0; rc == 0 && i < found.items.n && !sizes; i++) {
        sizes = sizes_of(k, found.items.items[i]);
    }
    return sizes;
}

/* The memory of the GPU that is named, the same of every card that the name stands for; 0: not
 * known, and said why. */
static int gpu_memory_mib(struct ask *k, struct gm_err *err)
{
    struct kb_gpu_list found = {{0}};
    int gib = 0, rc = ask_gpus_find(k, &found, err);
    for (size_t i = 0; rc == 0 && i < found.items.n; i++) {
        const struct kb_gpu *g = found.items.items[i];
        if (g->memory_gib == 0 || (gib && g->memory_gib != gib)) {
            ask_missing(k, "%s of %s",
                        gib ? "there are several memory sizes" : "the memory was not read",
                        ask_given(k, KEY_GPU) ? ask_given(k, KEY_GPU) : g->name);
            return 0;
        }
        gib = g->memory_gib;
        HIT(k, KB_AREA_GPUS, g);
    }
    return rc < 0 ? rc : gib * 1024;
}

static int parameters_of(const struct kb_models *models, const char *name)
{
    for (size_t i = 0; i < models->n; i++) {
        const struct kb_model *m = &models->rows[i];
        if (m->kind == KB_MODEL_MODEL && m->model && question_names_model(m, name)) {
            return m->parameters_m;
        }
    }
    return starts_with(name, "large-v") && !ends_with(name, "turbo")
               ? parameters_of(models, "large")
               : 0;
}

/* Whether a row is a run of the kind that is asked for. Without a package those of faster-whisper
 * are meant, which has most. */
static bool is_run(const struct ask *k, const struct kb_model *m)
{
    const char *compute = ask_given(k, KEY_COMPUTE), *batch = ask_given(k, KEY_BATCH);
    const char *package = k->q->package ? k->q->package : "faster-whisper";
    bool above = strcmp(package, "ctranslate2") == 0 || strcmp(package, "whisperx") == 0;
    return m->kind == KB_MODEL_MEASURED && strcmp(m->device, "cuda") == 0 &&
           strcmp(m->engine, above ? "faster-whisper" : package) == 0 &&
           (!compute || strcmp(m->compute, compute) == 0) &&
           (m->batch ? m->batch : 1) == (batch ? atoi(batch) : 1);
}

struct fits {
    const char *list; // "int8 2953 MiB"
    int least, most;
};

static void take_run(struct ask *k, const struct kb_model *m, struct fits *f)
{
    HIT(k, KB_AREA_MODELS, m);
    f->least = !f->least || m->memory_mib < f->least ? m->memory_mib : f->least;
    f->most = m->memory_mib > f->most ? m->memory_mib : f->most;
    f->list = arena_printf(
        k->a, "%s%s%s as %s %d MiB (%s)", f->list, f->list[0] ? "; " : "", m->model, m->compute,
        m->memory_mib,
        m->origin.note ? arena_strndup(k->a, m->origin.note,
                                       strlen(m->origin.note) - ends_with(m->origin.note, "."))
                       : "measured");
}

/* The model itself; where it was not measured, a larger one, which needs at least as much. */
static bool find_runs(struct ask *k, const struct kb_models *models, struct fits *ret)
{
    const char *model = ask_given(k, KEY_MODEL);
    int size = parameters_of(models, model);
    const struct kb_model *larger = NULL;
    model = strcmp(model, "turbo") == 0   ? "large-v3-turbo"
            : strcmp(model, "large") == 0 ? "large-v3"
                                          : model;
    *ret = (struct fits){.list = ""};
    for (size_t i = 0; i < models->n; i++) {
        const struct kb_model *m = &models->rows[i];
        if (!is_run(k, m)) {
            continue;
        }
        bool english =
            ends_with(model, ".en") && str_is((struct str){model, strlen(model) - 3}, m->model);
        if (strcmp(m->model, model) == 0 || english) {
            take_run(k, m, ret);
        } else if (size && kb_model_is_plain_size(model) && kb_model_is_plain_size(m->model) &&
                   parameters_of(models, m->model) > size &&
                   (!larger || m->memory_mib < larger->memory_mib)) {
            larger = m;
        }
    }
    if (!ret->list[0] && larger) {
        take_run(k, larger, ret);
        ret->least = 0; // it may need less
    }
    return ret->list[0] != '\0';
}

/* "how much memory has an RTX 4090": as it is sold, of each card that the name stands for. */
int form_gpu_memory(struct ask *k, struct gm_err *err)
{
    struct kb_gpu_list found = {{0}};
    struct ask_table t = {.heads = {"GPU", "sold with"}, .columns = 2, .named = 1};
    int rc = ask_gpus_find(k, &found, err);
    for (size_t i = 0; rc == 0 && i < found.items.n; i++) {
        const struct kb_gpu *g = found.items.items[i];
        if (g->memory_gib == 0) {
            ask_missing(k, "the memory of %s was not read", g->name);
            return 0;
        }
        const char *sizes = sizes_of(k, g);
        struct ask_line line = {
            .cells = {g->name, sizes ? sizes : arena_printf(k->a, "%d GB", g->memory_gib)}};
        HIT(k, KB_AREA_GPUS, g);
        VEC_PUSH(k->a, &t.lines, line);
    }
    if (t.lines.n > 0) {
        ask_say_table(k, "GPUs of that name", &t);
    }
    return rc < 0 ? rc : t.lines.n > 0;
}

/* "which models fit in 8 GB": the runs that were measured with less. */
int form_models_fit(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    const char *given = ask_given(k, KEY_MEMORY), *none = "";
    struct ask_table t = {.heads = {"model", "as", "took", ""}, .columns = 4, .named = 1};
    int rc = kb_models(k->kb, &models, err), mib = given ? memory_mib(given) : 0;
    mib = rc == 0 && !given ? gpu_memory_mib(k, err) : mib;
    const char *sizes = rc == 0 && mib > 0 ? several_sizes(k, err) : NULL;
    if (sizes) {
        ask_missing(k, "it was sold with %s: ask with the memory", sizes);
        return 0;
    }
    if (rc < 0 || mib <= 0) {
        return rc < 0 ? rc : mib;
    }
    for (size_t i = 0; i < models.n; i++) {
        const struct kb_model *m = &models.rows[i];
        if (!is_run(k, m)) {
            continue;
        }
        HIT(k, KB_AREA_MODELS, m);
        if (m->memory_mib + MARGIN_MIB > mib) {
            none = arena_printf(k->a, "%s%s%s as %s (%d MiB)", none, none[0] ? ", " : "", m->model,
                                m->compute, m->memory_mib);
            continue;
        }
        const char *note = m->origin.note;
        struct ask_line line = {
            .cells = {m->model, m->compute, arena_printf(k->a, "%d MiB", m->memory_mib),
                      note ? arena_strndup(k->a, note, strlen(note) - ends_with(note, "."))
                           : NULL}};
        VEC_PUSH(k->a, &t.lines, line);
    }
    const char *package = k->q->package ? k->q->package : "faster-whisper";
    if (t.lines.n > 0) {
        ask_say_table(k,
                      arena_printf(k->a, "Runs of %s that were measured and fit in %d GiB", package,
                                   mib / 1024),
                      &t);
    }
    if (none[0]) {
        ask_say(k, "%s do not, or leave less than %d MiB: %s.",
                t.lines.n > 0 ? "These" : "Those that were measured", MARGIN_MIB, none);
    }
    if (t.lines.n == 0 && !none[0]) {
        ask_missing(k, "no run of %s was measured", package);
    }
    return t.lines.n > 0 || none[0];
}

/* "does large-v3 fit in 4 GB with int8", "can I run medium on a GTX 1650" */
int form_fit(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    struct fits f;
    const char *given = ask_given(k, KEY_MEMORY);
    int rc = kb_models(k->kb, &models, err), mib = given ? memory_mib(given) : 0;
    mib = rc == 0 && !given ? gpu_memory_mib(k, err) : mib;
    if (rc < 0 || mib < 0) {
        return rc < 0 ? rc : mib;
    }
    if (mib == 0 || !find_runs(k, &models, &f)) {
        if (!k->missing) {
            ask_missing(k, "the GPU memory of %s%s%s was not measured", ask_given(k, KEY_MODEL),
                        ask_given(k, KEY_COMPUTE) ? " as " : "",
                        ask_given(k, KEY_COMPUTE) ? ask_given(k, KEY_COMPUTE) : "");
        }
        return 0;
    }
    bool larger = f.least == 0, all = f.most + MARGIN_MIB <= mib,
         some = !larger && f.least + MARGIN_MIB <= mib, none = !larger && f.least > mib;
    const char *sizes = all ? NULL : several_sizes(k, err);
    if (sizes) {
        ask_missing(k, "it was sold with %s, and %s needs %s: ask with the memory", sizes,
                    ask_given(k, KEY_MODEL), f.list);
        return 0;
    }
    if (!all && !some && !none) {
        ask_missing(k,
                    larger ? "%s was not measured, and a larger model needs more than %d GiB (%s)"
                           : "%s is too near to all of the %d GiB: %s",
                    larger ? ask_given(k, KEY_MODEL) : "what was measured", mib / 1024, f.list);
        return 0;
    }
    ask_say(k, "%s: of %d GiB of GPU memory %s needs %s.",
            all    ? "Yes"
            : some ? "It depends on the compute type"
                   : "No",
            mib / 1024, k->q->package ? k->q->package : "faster-whisper", f.list);
    if (larger) {
        ask_say(k, "%s is smaller.", ask_given(k, KEY_MODEL));
    }
    return 1;
}
