/* The verdict, and the steps that lead there. */
#include "setup/setup.h"

#include <string.h>

#include "base/str.h"

struct planner {
    const struct setup_question *q;
    struct arena *a;
    const struct setup_machine *m;
    struct setup_plan *plan;
    struct kb_models models;
    struct kb_builds builds;
    struct kb_releases releases;
};

const char *setup_step_name(enum setup_step_kind kind)
{
    static const char *const names[SETUP_STEPS] = {
        [SETUP_DRIVER] = "driver",
        [SETUP_RUNTIME] = "runtime",
        [SETUP_ENVIRONMENT] = "environment",
        [SETUP_PACKAGES] = "packages",
        [SETUP_LIBRARIES] = "libraries",
        [SETUP_SETTINGS] = "settings",
        [SETUP_PROOF] = "proof",
    };
    return names[kind];
}

const char *setup_verdict_name(enum setup_verdict verdict)
{
    static const char *const names[] = {
        [SETUP_GPU] = "gpu", [SETUP_CPU] = "cpu", [SETUP_NOT] = "not", [SETUP_UNKNOWN] = "unknown"};
    return names[verdict];
}

/* ------------------------------------------------------------------ words */

static bool is_wsl(const struct planner *p)
{
    return p->m->host && p->m->host->wsl.is_wsl.state == HOST_YES;
}

static bool is_container(const struct planner *p)
{
    return p->m->host && p->m->host->container.inside.state == HOST_YES;
}

static const char *gpu_text(const struct planner *p)
{
    const struct host_gpu *g = p->m->gpu;
    const char *kind = g->compute_capability.value ? arena_printf(p->a, ", compute capability %s",
                                                                  g->compute_capability.value)
                       : g->gfx.value              ? arena_printf(p->a, ", %s", g->gfx.value)
                                                   : "";
    return arena_printf(p->a, "%s%s", g->name ? g->name : "the GPU", kind);
}

static const char *word_of(const struct planner *p, const char *text)
{
    return p->plan->windows ? str_powershell_word(p->a, text) : str_shell_word(p->a, text);
}

/* The environment's interpreter, ready for the shell. */
static const char *python_word(const struct planner *p)
{
    const char *folder = p->plan->folder;
    return p->plan->windows
               ? arena_printf(p->a, "& %s",
                              word_of(p, arena_printf(p->a, "%s\\Scripts\\python.exe", folder)))
               : word_of(p, arena_printf(p->a, "%s/bin/python", folder));
}

static struct setup_step *step_new(struct planner *p, enum setup_step_kind kind, const char *title)
{
    VEC_PUSH(p->a, &p->plan->steps, (struct setup_step){.kind = kind, .title = title});
    return &p->plan->steps.items[p->plan->steps.n - 1];
}

static void command_add(struct planner *p, struct setup_step *s, const char *command)
{
    VEC_PUSH(p->a, &s->commands, command);
}

/* ------------------------------------------------------------------ the driver */

static const struct host_problem *problem_of(const struct host_gpu *g)
{
    for (size_t i = 0; i < g->problems.n; i++) {
        if (g->problems.items[i].state != HOST_YES) {
            return &g->problems.items[i];
        }
    }
    return NULL;
}

/* A clause as the beginning of a paragraph. */
static const char *sentence_of(const struct planner *p, const char *text)
{
    char *s = arena_strndup(p->a, text, strlen(text));
    s[0] = s[0] >= 'a' && s[0] <= 'z' ? (char)(s[0] - 'a' + 'A') : s[0];
    return s;
}

static const char *driver_need(const struct planner *p)
{
    const struct setup_pins *pins = &p->plan->pins;
    return arena_printf(
        p->a, "The packages are for CUDA %s and need driver %s or later on this GPU%s%s.",
        pins->cuda, pins->driver_min, pins->driver_last ? ", whose last branch is " : "",
        pins->driver_last ? pins->driver_last : "");
}

/* A driver that is missing or too old. */
static void driver_install(struct planner *p)
{
    const struct setup_pins *pins = &p->plan->pins;
    const char *have = p->m->driver  ? arena_printf(p->a, "Driver %s is there.", p->m->driver)
                       : p->m->named ? "Which driver it has is not known."
                                     : "No driver of NVIDIA's was found.";
    struct setup_step *s =
        step_new(p, SETUP_DRIVER,
                 arena_printf(p->a, "Install NVIDIA's driver %s or later", pins->driver_min));
    const char *command = NULL, *where = "";
    if (is_wsl(p)) {
        where = " WSL uses the driver of Windows: install it there, and no driver in WSL.";
    } else if (p->plan->windows) {
        where = " It is NVIDIA's own download for Windows.";
    } else if (is_container(p)) {
        where = " A container uses the driver of its host: install it there, and start the "
                "container with the GPU (gpumend container).";
    } else if (p->m->host) {
        command =
            host_install_nvidia(p->m->host, p->a, p->m->gpu, (unsigned)atoi(pins->driver_min));
        where = command ? "" : " How this distribution installs such a driver is not known here.";
    }
    s->why = arena_printf(p->a, "%s %s%s", have, driver_need(p), where);
    s->seen = arena_printf(p->a, "nvidia-smi prints driver version %s or later.", pins->driver_min);
    s->reboot = !is_wsl(p) && !is_container(p);
    if (command) {
        command_add(p, s, command);
    }
}

static void driver_step_nvidia(struct planner *p)
{
    const struct host_problem *problem = problem_of(p->m->gpu);
    if (p->plan->pins.driver_newer) {
        driver_install(p);
        return;
    }
    if (p->m->gpu->usable == HOST_YES || !problem) {
        struct setup_step *s = step_new(p, SETUP_DRIVER, "Keep the driver");
        s->why = arena_printf(p->a, "Driver %s is there. %s", p->m->driver, driver_need(p));
        s->seen = "gpumend devices says that programs can use the GPU.";
        return;
    }
    struct setup_step *s = step_new(p, SETUP_DRIVER, "Make the GPU usable");
    s->why = arena_printf(p->a, "%s. Driver %s is there. %s%s%s", sentence_of(p, problem->text),
                          p->m->driver, driver_need(p), problem->step ? " To do: " : "",
                          problem->step ? arena_printf(p->a, "%s.", problem->step) : "");
    s->seen = "gpumend devices says that programs can use the GPU.";
    if (problem->command) {
        command_add(p, s, problem->command);
    }
}

/* The wheels have ROCm's libraries in them; the driver is a part of the kernel. */
static void driver_step_amd(struct planner *p)
{
    const struct host_problem *problem = problem_of(p->m->gpu);
    struct setup_step *s =
        step_new(p, SETUP_DRIVER, problem ? "Make the GPU usable" : "Keep the driver");
    s->why =
        arena_printf(p->a,
                     "%s%sThe wheels are for ROCm %s and have its libraries in them. Of the "
                     "machine they need the kernel's amdgpu driver, and access to /dev/kfd and "
                     "the GPU's render node.",
                     problem ? sentence_of(p, problem->text) : "", problem ? ". " : "",
                     p->plan->pins.build->rocm);
    s->seen = "gpumend devices says that programs can use the GPU.";
    if (problem && problem->command) {
        command_add(p, s, problem->command);
    }
}

/* ------------------------------------------------------------------ the environment, packages */

static void environment_step(struct planner *p)
{
    const struct setup_pins *pins = &p->plan->pins;
    const char *folder = word_of(p, p->plan->folder);
    struct setup_step *s =
        step_new(p, SETUP_ENVIRONMENT,
                 arena_printf(p->a, "Make an environment with Python %s", pins->python));
    if (p->plan->uv) {
        command_add(p, s, arena_printf(p->a, "uv venv --python %s %s", pins->python, folder));
        s->why = arena_printf(p->a,
                              "Every package of the plan has a wheel for Python %s. %s, and uv "
                              "brings it.",
                              pins->python,
                              p->m->python
                                  ? arena_printf(p->a, "The machine has Python %s", p->m->python)
                                  : "Which Python the machine has is not known");
    } else {
        command_add(p, s,
                    arena_printf(p->a,
                                 p->plan->windows ? "py -%s -m venv %s" : "python%s -m venv %s",
                                 pins->python, folder));
        s->why = "Packages of the system and of other programs do not mix with these.";
    }
    s->seen = arena_printf(p->a, "%s --version prints Python %s.", python_word(p), pins->python);
}

static const char *pin_text(const struct planner *p, const struct setup_pin *pin)
{
    return pin->extras ? word_of(p, arena_printf(p->a, "%s[%s]==%s", pin->package, pin->extras,
                                                 pin->version))
                       : arena_printf(p->a, "%s==%s", pin->package, pin->version);
}

static const char *installer(const struct planner *p)
{
    return p->plan->uv
               ? arena_printf(p->a, "uv pip install --python %s", word_of(p, p->plan->folder))
               : arena_printf(p->a, "%s -m pip install", python_word(p));
}

/* What PyTorch's own index has beside torch, built for the same CUDA. */
static bool is_of_torch(const char *package)
{
    return strcmp(package, "torchaudio") == 0 || strcmp(package, "torchvision") == 0;
}

/* What is from PyTorch's own index goes first: what else is needed is in the plain one. */
static void packages_step(struct planner *p)
{
    const struct setup_pins *pins = &p->plan->pins;
    struct setup_step *s = step_new(p, SETUP_PACKAGES, "Install the packages");
    const char *own = "", *plain = "";
    for (size_t i = 0; i < pins->items.n; i++) {
        const struct setup_pin *pin = &pins->items.items[i];
        const char **list =
            strchr(pin->version, '+') || (pins->index && is_of_torch(pin->package)) ? &own : &plain;
        *list = arena_printf(p->a, "%s %s", *list, pin_text(p, pin));
    }
    if (*own) {
        command_add(p, s,
                    arena_printf(p->a, "%s%s --index-url https://download.pytorch.org/whl/%s",
                                 installer(p), own, pins->index));
    }
    if (*plain) {
        command_add(p, s, arena_printf(p->a, "%s%s", installer(p), plain));
    }
    s->why = p->plan->device == CHOOSE_DEVICE_CPU
                 ? "These releases fit one another. What else they need, the installer finds."
             : pins->build && pins->build->sm.n
                 ? arena_printf(p->a,
                                "These releases fit one another, and %s has code for this GPU. "
                                "What else they need, the installer finds.",
                                pins->build->package)
                 : "These releases fit one another and this GPU. What else they need, the "
                   "installer finds.";
    s->seen = p->plan->uv
                  ? arena_printf(p->a, "uv pip check --python %s finds no conflict.",
                                 word_of(p, p->plan->folder))
                  : arena_printf(p->a, "%s -m pip check prints: No broken requirements found.",
                                 python_word(p));
}

/* NVIDIA's wheels put the libraries into folders in which the loader does not look. */
static void libraries_step(struct planner *p)
{
    if (p->plan->device != CHOOSE_DEVICE_CUDA || !p->plan->row->hook) {
        return;
    }
    struct setup_step *s = step_new(p, SETUP_LIBRARIES, "Make the libraries findable");
    s->why = arena_printf(
        p->a, "NVIDIA's wheels put their libraries into folders in which %s does not look.",
        p->plan->row->engines);
    if (p->plan->windows) {
        command_add(p, s,
                    arena_printf(p->a, "$env:PATH = (Resolve-Path %s).Path + ';' + $env:PATH",
                                 word_of(p, arena_printf(p->a,
                                                         "%s\\Lib\\site-packages\\nvidia\\cublas\\"
                                                         "bin",
                                                         p->plan->folder))));
        s->why = arena_printf(p->a, "%s The line holds for this PowerShell alone.", s->why);
        s->seen = "where.exe cublas64_12.dll prints a path in that folder.";
        return;
    }
    command_add(p, s,
                arena_printf(p->a, "gpumend enable --import %s %s", p->plan->row->module,
                             word_of(p, p->plan->folder)));
    s->why = arena_printf(p->a,
                          "%s A hook in the environment loads them first; gpumend disable takes it "
                          "back.",
                          s->why);
    s->seen = "The next step finds no error.";
}

/* ------------------------------------------------------------------ settings */

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

static void settings_step(struct planner *p)
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
    struct setup_step *s = step_new(p, SETUP_SETTINGS, "Choose the compute type");
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
    s->seen =
        arena_printf(p->a, "%s -c %s lists %s.", python_word(p),
                     word_of(p, arena_printf(p->a,
                                             "import ctranslate2; "
                                             "print(ctranslate2.get_supported_compute_types('%s'))",
                                             device_word(p))),
                     choose_compute_name(p->plan->compute));
}

/* gpumend.exe has neither check nor probe. */
static void proof_step_import(struct planner *p)
{
    struct setup_step *s = step_new(p, SETUP_PROOF, "Prove it");
    bool gpu = p->plan->device != CHOOSE_DEVICE_CPU;
    const char *code =
        gpu ? p->plan->row->counts : arena_printf(p->a, "import %s", p->plan->row->module);
    command_add(p, s, arena_printf(p->a, "%s -c %s", python_word(p), word_of(p, code)));
    s->why = "The import loads every library that it needs.";
    s->seen = gpu ? "It prints 1 or more: the GPUs that it can use." : "It ends without an error.";
}

static void proof_step(struct planner *p)
{
    const char *folder = word_of(p, p->plan->folder);
    bool gpu = p->plan->device != CHOOSE_DEVICE_CPU;
    // On the CPU check would judge the use of a GPU that the plan does without.
    if (p->plan->windows || !gpu) {
        proof_step_import(p);
        return;
    }
    struct setup_step *s = step_new(p, SETUP_PROOF, "Prove it");
    command_add(p, s,
                arena_printf(p->a, "gpumend check --import %s %s", p->plan->row->module, folder));
    if (gpu) {
        command_add(p, s, arena_printf(p->a, "gpumend probe %s", folder));
    }
    s->why = gpu ? "check follows every library that the packages load; probe computes on the GPU."
                 : "check follows every library that the packages load.";
    s->seen = gpu ? "check finds no error, and every stage of probe that runs passes."
                  : "check finds no error.";
}

/* ------------------------------------------------------------------ the verdict */

static bool has_releases(const struct planner *p, const char *package)
{
    for (size_t i = 0; i < p->releases.n; i++) {
        if (strcmp(p->releases.rows[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

static bool lists_platform(const struct planner *p, struct kb_strs list)
{
    for (size_t i = 0; i < list.n; i++) {
        if (strcmp(list.items[i], p->m->platform) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the knowledge base says for which GPUs of this kind the engine's builds have code; and
 * whether one of those is for the platform. */
static bool knows_code(const struct planner *p, struct str engine, enum host_state *ret_platform)
{
    bool cuda = p->m->gpu->vendor == HOST_NVIDIA, known = false;
    bool x86 = strcmp(p->m->platform, "linux-x86-64") == 0;
    for (size_t i = 0; i < p->builds.n; i++) {
        const struct kb_build *b = &p->builds.rows[i];
        bool code = cuda ? b->cuda && b->sm.n : b->rocm && b->gfx.n;
        if (!code || !str_eq(engine, str_of(b->package))) {
            continue;
        }
        known = true;
        if (lists_platform(p, b->index_platforms) || lists_platform(p, b->platforms) || x86) {
            *ret_platform = HOST_YES;
        } else if (!b->index_platforms.n && *ret_platform == HOST_NO) {
            *ret_platform = HOST_UNKNOWN;
        }
    }
    return known && *ret_platform != HOST_UNKNOWN;
}

/* A build for this GPU of AMD's of one of the engines, which no index has; NULL: none is known. */
static const struct kb_build *rocm_build(const struct planner *p)
{
    for (size_t i = 0; i < p->builds.n; i++) {
        const struct kb_build *b = &p->builds.rows[i];
        for (size_t k = 0; b->rocm && k < b->gfx.n; k++) {
            struct str rest = str_of(p->plan->row->engines);
            while (strcmp(b->gfx.items[k], p->m->gpu->gfx.value) == 0 && rest.s && rest.n) {
                if (str_eq(str_cut(&rest, ' '), str_of(b->package))) {
                    return b;
                }
            }
        }
    }
    return NULL;
}

/* Why no release serves the GPU, as a clause; NULL: that is not known. */
static const char *gpu_refusal(const struct planner *p)
{
    const struct host_gpu *g = p->m->gpu;
    bool toolkit = p->plan->row->code == SETUP_CODE_TOOLKIT;
    bool tegra = p->m->host->tegra.is_tegra.state == HOST_YES;
    // Of AMD's builds not all say for which GPUs they are, and some GPUs run code for others.
    // What an application that compiles by itself has for other GPUs was not read.
    if (g->vendor != HOST_NVIDIA || (toolkit && tegra)) {
        return NULL;
    }
    if (tegra) {
        return "the wheels of the package index have no code for the GPU of a Jetson, whose CUDA "
               "is a part of JetPack";
    }
    struct str rest = str_of(p->plan->row->engines);
    while (rest.s && rest.n) {
        struct str one = str_cut(&rest, ' ');
        enum host_state platform = HOST_NO;
        if (p->plan->row->code == SETUP_CODE_BUILDS && !knows_code(p, one, &platform)) {
            return NULL;
        }
        if (p->plan->row->code == SETUP_CODE_BUILDS && platform == HOST_NO) {
            return arena_printf(p->a, "no build of %s for GPUs is known for %s", str_dup(p->a, one),
                                p->m->platform);
        }
    }
    return "no release is known to have code for its GPU and to fit a driver that it can have";
}

static int pins_for(struct planner *p, enum choose_device_kind device, struct gm_err *err)
{
    const struct setup_app *row;
    int policies = device == CHOOSE_DEVICE_CUDA ? SETUP_DRIVER_POLICIES : 1;
    p->plan->device = device;
    for (int k = 0; k < policies; k++) {
        for (size_t i = 0; (row = setup_app_find(p->plan->app, i)) != NULL; i++) {
            int rc = setup_pins_find(p->q, row, device, (enum setup_driver_policy)k, &p->plan->pins,
                                     err);
            if (rc < 0 || p->plan->pins.items.n) {
                p->plan->row = row;
                return rc;
            }
        }
    }
    return 0;
}

static void verdict_unknown(struct planner *p, const char *why)
{
    p->plan->verdict = SETUP_UNKNOWN;
    p->plan->device = CHOOSE_DEVICE_NONE;
    p->plan->pins.items.n = 0;
    p->plan->sentence = arena_printf(p->a, "cannot tell how %s works on %s: %s", p->plan->app,
                                     p->plan->machine, why);
}

static int verdict_cpu(struct planner *p, const char *why, struct gm_err *err)
{
    if (p->plan->row->gpu_only) {
        p->plan->verdict = SETUP_NOT;
        p->plan->device = CHOOSE_DEVICE_NONE;
        p->plan->sentence = arena_printf(p->a, "%s cannot work on %s: %s, and %s", p->plan->app,
                                         p->plan->machine, p->plan->row->gpu_only, why);
        return 0;
    }
    int rc = pins_for(p, CHOOSE_DEVICE_CPU, err);
    if (rc < 0) {
        return rc;
    }
    if (!p->plan->pins.items.n) {
        verdict_unknown(p, arena_printf(p->a, "%s, and no release for its CPU is known", why));
        return 0;
    }
    p->plan->verdict = SETUP_CPU;
    p->plan->gpu_lost = p->m->gpu != NULL;
    p->plan->sentence =
        arena_printf(p->a, "%s works on the CPU of %s: %s", p->plan->app, p->plan->machine, why);
    return 0;
}

static const char *after_driver(const struct planner *p)
{
    const struct host_problem *problem = problem_of(p->m->gpu);
    bool later = p->plan->pins.driver_newer || (p->m->gpu->usable == HOST_NO && problem);
    return later ? p->m->named
                       ? arena_printf(p->a, ", with driver %s or later", p->plan->pins.driver_min)
                       : ", once step 1 is done"
                 : "";
}

static int gpu_verdict(struct planner *p, struct gm_err *err)
{
    const struct host_gpu *g = p->m->gpu;
    bool nvidia = g->vendor == HOST_NVIDIA;
    if ((nvidia && !g->compute_capability.value) || (g->vendor == HOST_AMD && !g->gfx.value)) {
        verdict_unknown(p, "which GPU it has cannot be seen; name it with --for, such as --for "
                           "rtx-3060-wsl");
        return 0;
    }
    bool tegra = p->m->host->tegra.is_tegra.state == HOST_YES;
    if (nvidia && !tegra) {
        int rc = pins_for(p, CHOOSE_DEVICE_CUDA, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (g->vendor == HOST_AMD) {
        int rc = pins_for(p, CHOOSE_DEVICE_ROCM, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (p->plan->pins.items.n) {
        p->plan->verdict = SETUP_GPU;
        p->plan->sentence = arena_printf(p->a, "%s works on the GPU of %s, %s%s", p->plan->app,
                                         p->plan->machine, gpu_text(p), after_driver(p));
        return 0;
    }
    const char *why = gpu_refusal(p);
    if (why) {
        return verdict_cpu(p, arena_printf(p->a, "%s (%s)", why, gpu_text(p)), err);
    }
    const struct kb_build *rocm = g->vendor == HOST_AMD ? rocm_build(p) : NULL;
    if (rocm) {
        verdict_unknown(p, arena_printf(p->a,
                                        "%s %s has a build for ROCm %s with code for this GPU, and "
                                        "how it is installed is not in the knowledge base (%s)",
                                        rocm->package, rocm->versions, rocm->rocm, gpu_text(p)));
        return 0;
    }
    verdict_unknown(p, arena_printf(p->a,
                                    "the knowledge base does not say for which GPUs its builds "
                                    "for %s have code (%s)",
                                    p->m->platform, gpu_text(p)));
    return 0;
}

static int verdict_find(struct planner *p, struct gm_err *err)
{
    const char *cpu = p->plan->row->cpu;
    if (!has_releases(p, p->plan->row->package) && !(cpu && has_releases(p, cpu))) {
        verdict_unknown(p, "no release of it is in the knowledge base");
        return 0;
    }
    if (!p->m->platform) {
        verdict_unknown(p, "its processor is not known");
        return 0;
    }
    if (p->m->gpus_unknown) {
        verdict_unknown(p, "its GPUs cannot be seen; name the machine with --for, such as --for "
                           "rtx-3060-linux, or --for cpu-linux");
        return 0;
    }
    return p->m->gpu ? gpu_verdict(p, err) : verdict_cpu(p, "no GPU was found", err);
}

static void steps_make(struct planner *p)
{
    p->plan->uv = !p->plan->pins.own_python && !p->q->python && !p->plan->windows;
    if (p->plan->device == CHOOSE_DEVICE_CUDA) {
        driver_step_nvidia(p);
    } else if (p->plan->device == CHOOSE_DEVICE_ROCM) {
        driver_step_amd(p);
    }
    environment_step(p);
    packages_step(p);
    libraries_step(p);
    settings_step(p);
    proof_step(p);
}

int setup_plan_make(const struct setup_question *q, struct setup_plan *ret, struct gm_err *err)
{
    struct planner p = {.q = q, .a = q->a, .m = q->machine, .plan = ret};
    *ret =
        (struct setup_plan){.app = q->app,
                            .machine = q->machine->shown,
                            .row = setup_app_find(q->app, 0),
                            .folder = q->folder ? q->folder : arena_printf(q->a, "%s-env", q->app),
                            .windows = q->machine->windows};
    if (!ret->row) {
        const char *near = setup_app_near(q->app);
        return near ? gm_err_set(err, GM_ERR_USAGE, "unknown application %s; did you mean %s?",
                                 str_printable(q->a, q->app), near)
                    : gm_err_set(err, GM_ERR_USAGE, "unknown application %s",
                                 str_printable(q->a, q->app));
    }
    int rc = kb_models(q->kb, &p.models, err);
    rc = rc < 0 ? rc : kb_builds(q->kb, &p.builds, err);
    rc = rc < 0 ? rc : kb_releases(q->kb, &p.releases, err);
    if (rc == 0 && q->model && !choose_model_find(&p.models, q->model)) {
        return gm_err_set(err, GM_ERR_USAGE, "unknown model %s", str_printable(q->a, q->model));
    }
    rc = rc < 0 ? rc : verdict_find(&p, err);
    if (rc == 0 && ret->pins.items.n) {
        steps_make(&p);
    }
    return rc;
}
