/* What the application itself is told: the compute type, the number of threads. */
#include <string.h>

#include "base/str.h"
#include "setup/internal.h"

static const char *device_word(const struct planner *p)
{
    // Also the ROCm builds of these applications call the device so.
    return p->plan->device == CHOOSE_DEVICE_CPU ? "cpu" : "cuda";
}

static uint64_t memory_of(const struct planner *p)
{
    const struct host_gpu *g = p->m->gpu;
    if (p->plan->device == CHOOSE_DEVICE_CPU) {
        return p->m->host ? p->m->host->cpu.memory_total.number : 0;
    }
    // As choose/choose.h has it: what error correction takes.
    return g->memory.number ? g->memory.number : ((uint64_t)g->model_memory_gib << 30) / 16 * 15;
}

/* The first compute type in which the model fits; of unknown memory the smallest. */
static void compute_choose(struct planner *p, struct choose_memory *ret)
{
    enum choose_compute types[CHOOSE_COMPUTES];
    const struct kb_model *model =
        choose_model_find(&p->models, p->q->model ? p->q->model : "large-v3");
    const struct choose_computes_for f = {
        .app = CHOOSE_APP_CTRANSLATE2,
        .device = p->plan->device,
        .capability = p->m->gpu ? p->m->gpu->compute_capability.value : NULL,
        .machine = p->m->platform && strstr(p->m->platform, "aarch64") ? "aarch64" : "x86_64",
        .formats = CHOOSE_FORMATS_ALL,
    };
    size_t n = choose_computes(&p->models, p->a, &f, types);
    uint64_t memory = memory_of(p);
    *ret = (struct choose_memory){0};
    for (size_t i = 0; model && i < n; i++) {
        struct choose_memory need =
            choose_model_memory(&p->models, model, f.app, f.device, types[i]);
        bool fits = memory && need.bytes && need.bytes <= memory;
        bool smaller = !memory && need.bytes && (!ret->bytes || need.bytes < ret->bytes);
        if (fits || smaller) {
            p->plan->compute = types[i];
            p->plan->computes = true;
            *ret = need;
        }
        if (fits) {
            return;
        }
    }
}

static const char *model_name(const struct planner *p)
{
    const char *name = p->q->model ? p->q->model : "large-v3";
    return strncmp(name, "whisper:", 8) == 0 ? name + 8 : name;
}

static const char *settings_code(const struct planner *p)
{
    const char *type = choose_compute_name(p->plan->compute);
    const char *app = p->plan->app;
    if (strcmp(app, "faster-whisper") == 0) {
        return arena_printf(p->a,
                            "from faster_whisper import WhisperModel\n"
                            "model = WhisperModel(\"%s\", device=\"%s\", compute_type=\"%s\")",
                            model_name(p), device_word(p), type);
    }
    if (strcmp(app, "whisperx") == 0) {
        return arena_printf(p->a,
                            "import whisperx\n"
                            "model = whisperx.load_model(\"%s\", \"%s\", compute_type=\"%s\")",
                            model_name(p), device_word(p), type);
    }
    return arena_printf(p->a,
                        "import ctranslate2\n"
                        "model = ctranslate2.models.Whisper(FOLDER, device=\"%s\", "
                        "compute_type=\"%s\")",
                        device_word(p), type);
}

void setup_settings_step(struct planner *p)
{
    struct choose_memory need;
    uint64_t memory = memory_of(p);
    if (!p->plan->row->whisper) {
        return;
    }
    compute_choose(p, &need);
    if (!p->plan->computes) {
        VEC_PUSH(p->a, &p->plan->notes,
                 arena_printf(p->a,
                              "The model %s does not fit into the memory, whatever the compute "
                              "type: choose a smaller one with --model.",
                              model_name(p)));
        return;
    }
    struct setup_step *s = setup_step_new(p, SETUP_SETTINGS, "Choose the compute type");
    s->code = settings_code(p);
    s->why =
        memory ? arena_printf(p->a, "%s takes %s in %s (%s); %s are there.", model_name(p),
                              choose_gib(p->a, need.bytes), choose_compute_name(p->plan->compute),
                              choose_memory_name(need.how), choose_gib(p->a, memory))
               : arena_printf(p->a,
                              "%s takes %s in %s (%s). How much memory the device has is not "
                              "known, so this is the smallest type.",
                              model_name(p), choose_gib(p->a, need.bytes),
                              choose_compute_name(p->plan->compute), choose_memory_name(need.how));
    s->seen = arena_printf(
        p->a, "%s -c %s lists %s.", setup_python_word(p),
        setup_word(p, arena_printf(p->a,
                                   "import ctranslate2; "
                                   "print(ctranslate2.get_supported_compute_types('%s'))",
                                   device_word(p))),
        choose_compute_name(p->plan->compute));
}
