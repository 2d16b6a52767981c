/* What a named model takes of a GPU. */
#include "base/str.h"
#include "choose/choose.h"
#include "needs/internal.h"

/* The type that takes least, of those that the application has on a GPU. */
static void find_least(const struct kb_models *models, const struct kb_model *model,
                       enum choose_app app, enum choose_device_kind device,
                       const enum choose_compute *compute, struct needs_memory *ret)
{
    bool has_int8 = app == CHOOSE_APP_CTRANSLATE2;
    for (enum choose_compute i = CHOOSE_FLOAT16; i < CHOOSE_INT8; i++) {
        bool is_int8 = i == CHOOSE_INT8_FLOAT16 || i == CHOOSE_INT8_FLOAT32;
        if (compute ? i != *compute : is_int8 && !has_int8) {
            continue;
        }
        struct choose_memory one = choose_model_memory(models, model, app, device, i);
        if (one.bytes && (!ret->need.bytes || one.bytes < ret->need.bytes)) {
            ret->need = one;
            ret->compute = i;
        }
    }
}

int needs_add_model(struct model *m, const char *name, const enum choose_compute *compute,
                    struct needs *n, struct gm_err *err)
{
    const struct choose_options none = {0};
    struct kb_models models;
    enum choose_app app;
    int rc = kb_models(m->kb, &models, err);
    if (rc < 0) {
        return rc;
    }
    const struct kb_model *model = choose_model_find(&models, name);
    if (!model) {
        return choose_model_unknown(&models, m->arena, name, err);
    }
    (void)choose_app_of(m, &none, &app); // NULL: none is installed, and the default is taken
    n->memory = (struct needs_memory){.model = name, .app = choose_app_name(app)};
    if (!n->nvidia && !n->amd) {
        VEC_PUSH(
            m->arena, &n->unknown,
            arena_printf(m->arena, "how much memory %s takes: the target asks for no GPU", name));
        return 0;
    }
    find_least(&models, model, app, n->nvidia ? CHOOSE_DEVICE_CUDA : CHOOSE_DEVICE_ROCM, compute,
               &n->memory);
    if (!n->memory.need.bytes) {
        VEC_PUSH(m->arena, &n->unknown,
                 arena_printf(m->arena, "how much memory %s takes with %s%s%s", name, n->memory.app,
                              compute ? " in " : "", compute ? choose_compute_name(*compute) : ""));
    }
    return 0;
}

unsigned long long needs_memory_mib(const struct needs *n)
{
    return n->memory.need.bytes >> 20;
}

int needs_memory_cases(const struct needs *n)
{
    return needs_memory_mib(n) && (n->nvidia || n->amd) ? 2 : 1;
}

enum host_state needs_memory_fits(struct model *m, const struct needs *n, const struct host_gpu *g)
{
    struct kb_gpus table;
    struct gm_err err;
    const char *why;
    if (!n->memory.need.bytes) {
        return HOST_YES;
    }
    uint64_t has =
        kb_gpus(m->kb, &table, &err) < 0 ? 0 : choose_gpu_memory(m->arena, &table, g, &why);
    return !has ? HOST_UNKNOWN : has >= n->memory.need.bytes ? HOST_YES : HOST_NO;
}
