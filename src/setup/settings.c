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

/* The release of CTranslate2 that the plan installs, or NULL. */
static const char *ctranslate2_version(const struct planner *p)
{
    const char *version = NULL;
    for (size_t i = 0; i < p->plan->pins.items.n; i++) {
        const struct setup_pin *pin = &p->plan->pins.items.items[i];
        version = strcmp(pin->package, "ctranslate2") == 0 ? pin->version : version;
    }
    return version;
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
        .version = ctranslate2_version(p),
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

/* ------------------------------------------------------------------ threads */

/* Processors that programs here may use; 0: not known. */
static unsigned processors(const struct planner *p)
{
    const struct host_fact *cores = p->m->host ? &p->m->host->cpu.cores : NULL;
    return cores && cores->state == HOST_YES && cores->number <= 4096 ? (unsigned)cores->number : 0;
}

/* The argument that sets the number of threads on the CPU; "": it stays at the default. Names:
 * faster_whisper/transcribe.py, whisperx/asr.py, docs/parallel.md of CTranslate2. */
static const char *threads_argument(const struct planner *p)
{
    unsigned n = p->plan->device == CHOOSE_DEVICE_CPU ? processors(p) : 0;
    const char *app = p->plan->app;
    const char *name = strcmp(app, "faster-whisper") == 0 ? "cpu_threads"
                       : strcmp(app, "whisperx") == 0     ? "threads"
                                                          : "intra_threads";
    return n ? arena_printf(p->a, ", %s=%u", name, n) : "";
}

static const char *threads_text(const struct planner *p)
{
    unsigned n = processors(p);
    return n ? arena_printf(p->a,
                            "%u %s usable here; CTranslate2 advises no more threads than there are "
                            "physical cores, so where two processors share a core, half of them",
                            n, n == 1 ? "processor is" : "processors are")
             : "How many processors it has is not known: the default is 4 threads, and CTranslate2 "
               "advises no more than there are physical cores";
}

/* docs/hardware_support.md and docs/performance.md of CTranslate2. */
static const char *ctranslate2_on_cpu(const struct planner *p)
{
    bool x86 = strstr(p->m->platform, "x86-64");
    return arena_printf(p->a, "%s%s.",
                        x86 ? "On the CPU its wheels compute with Intel MKL on Intel's processors "
                              "and with oneDNN on others, and int8 is what CTranslate2 advises "
                              "there. "
                            : "int8 is what CTranslate2 advises on a CPU. ",
                        threads_text(p));
}

/* "CPU threading and TorchScript inference" in PyTorch's documentation. */
static void torch_on_cpu(struct planner *p)
{
    unsigned n = processors(p);
    VEC_PUSH(p->a, &p->plan->notes,
             arena_printf(p->a,
                          "On the CPU torch computes with as many threads as there are cores; "
                          "OMP_NUM_THREADS in the environment or torch.set_num_threads() sets "
                          "another number, such as that of the processors in a container's "
                          "quota.%s",
                          n ? arena_printf(p->a, " %u %s usable here.", n,
                                           n == 1 ? "processor is" : "processors are")
                            : ""));
}

/* ------------------------------------------------------------------ the step */

static const char *settings_code(const struct planner *p)
{
    const char *type = choose_compute_name(p->plan->compute), *threads = threads_argument(p);
    const char *app = p->plan->app;
    if (strcmp(app, "faster-whisper") == 0) {
        return arena_printf(p->a,
                            "from faster_whisper import WhisperModel\n"
                            "model = WhisperModel(\"%s\", device=\"%s\", compute_type=\"%s\"%s)",
                            model_name(p), device_word(p), type, threads);
    }
    if (strcmp(app, "whisperx") == 0) {
        return arena_printf(p->a,
                            "import whisperx\n"
                            "model = whisperx.load_model(\"%s\", \"%s\", compute_type=\"%s\"%s)",
                            model_name(p), device_word(p), type, threads);
    }
    return arena_printf(p->a,
                        "import ctranslate2\n"
                        "model = ctranslate2.models.Whisper(FOLDER, device=\"%s\", "
                        "compute_type=\"%s\"%s)",
                        device_word(p), type, threads);
}

static void override_step(struct planner *p)
{
    const char *value = p->plan->pins.override;
    struct setup_step *s = setup_step_new(p, SETUP_SETTINGS, "Set HSA_OVERRIDE_GFX_VERSION");
    setup_command_add(p, s, arena_printf(p->a, "export HSA_OVERRIDE_GFX_VERSION=%s", value));
    s->why = arena_printf(p->a,
                          "No build has code for %s itself; the GPU of that number has the same "
                          "instructions. AMD does not support it, and crashes were reported: only "
                          "a run shows it. Every program that computes needs the variable.",
                          p->m->gpu->gfx.value);
    s->seen = "The last step passes with the variable set.";
}

bool setup_preloads(const struct planner *p)
{
    for (size_t i = 0; p->plan->device == CHOOSE_DEVICE_CUDA && i < p->plan->pins.items.n; i++) {
        const struct setup_pin *pin = &p->plan->pins.items.items[i];
        if (strcmp(pin->package, "onnxruntime-gpu") == 0) {
            return model_version_fits(p->a, p->plan->windows ? ">=1.21" : ">=1.28", pin->version);
        }
    }
    return false;
}

static void preload_step(struct planner *p)
{
    struct setup_step *s = setup_step_new(p, SETUP_SETTINGS, "Let the program load the libraries");
    s->code = "import onnxruntime\nonnxruntime.preload_dlls()";
    s->why = arena_printf(
        p->a,
        "%s Before the first session this call loads them from where pip has put "
        "them.%s",
        p->plan->windows ? "NVIDIA's wheels install their libraries in folders that "
                           "onnxruntime-gpu does not search."
                         : "onnxruntime-gpu opens cuDNN and cuFFT when an operator needs them, "
                           "and does not search their folders.",
        p->plan->windows ? "" : " check does not see the call and warns of them.");
    s->seen = "The call prints nothing.";
}

void setup_settings_step(struct planner *p)
{
    struct choose_memory need;
    uint64_t memory = memory_of(p);
    if (p->plan->pins.override) {
        override_step(p);
    }
    if (setup_preloads(p)) {
        preload_step(p);
    }
    if (p->plan->other != SETUP_OTHER_NONE) {
        return;
    }
    if (p->plan->device == CHOOSE_DEVICE_CPU && p->plan->pins.index) {
        torch_on_cpu(p);
    }
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
    if (p->plan->device == CHOOSE_DEVICE_CPU) {
        s->title = "Choose the compute type and the number of threads";
        s->why = arena_printf(p->a, "%s %s", s->why, ctranslate2_on_cpu(p));
    }
    s->seen = arena_printf(
        p->a, "%s lists %s.",
        setup_python_code(p, arena_printf(p->a,
                                          "import ctranslate2; "
                                          "print(ctranslate2.get_supported_compute_types('%s'))",
                                          device_word(p))),
        choose_compute_name(p->plan->compute));
}
