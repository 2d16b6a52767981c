/* The steps of a plan, but for the settings: the driver, the environment, the packages, the proof.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "setup/internal.h"

/* ------------------------------------------------------------------ the driver */

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
        setup_step_new(p, SETUP_DRIVER,
                       arena_printf(p->a, "Install NVIDIA's driver %s or later", pins->driver_min));
    const char *command = NULL, *where = "";
    if (setup_is_wsl(p)) {
        where = " WSL uses the driver of Windows: install it there, and no driver in WSL.";
    } else if (p->plan->windows) {
        where = " It is NVIDIA's own download for Windows.";
    } else if (setup_is_container(p)) {
        where = " A container uses the driver of its host: install it there, and start the "
                "container with the GPU (gpumend container).";
    } else if (p->m->host) {
        command =
            host_install_nvidia(p->m->host, p->a, p->m->gpu, (unsigned)atoi(pins->driver_min));
        const char *source = host_install_source(p->m->host);
        where = !command ? " How this distribution installs such a driver is not known here."
                : source ? arena_printf(p->a, " %s", source)
                         : "";
    }
    s->why = arena_printf(p->a, "%s %s%s", have, driver_need(p), where);
    s->seen = arena_printf(p->a, "nvidia-smi prints driver version %s or later.", pins->driver_min);
    s->to_do = true;
    s->reboot = !setup_is_wsl(p) && !setup_is_container(p);
    s->cost = s->reboot ? "A restart of the machine." : NULL;
    if (command) {
        setup_command_add(p, s, command);
    }
}

/* " To do: reboot." */
static const char *problem_step(const struct planner *p, const struct host_problem *problem)
{
    return problem->step ? arena_printf(p->a, " To do: %s.", problem->step) : "";
}

/* What keeps programs from the GPU, as a step's command and price. */
static void problem_solve(struct planner *p, struct setup_step *s,
                          const struct host_problem *problem)
{
    s->seen = "gpumend devices says that programs can use the GPU.";
    s->to_do = true;
    if (problem->command) {
        setup_command_add(p, s, problem->command);
        s->reboot = strstr(problem->command, "reboot") != NULL;
        s->cost = s->reboot ? "A restart of the machine." : NULL;
    }
}

void setup_driver_step_nvidia(struct planner *p)
{
    const struct host_problem *problem = setup_problem(p->m->gpu);
    if (p->m->host->tegra.is_tegra.state == HOST_YES) {
        struct setup_step *s = setup_step_new(p, SETUP_DRIVER, "Keep JetPack's driver");
        s->why = "The driver of a Jetson is a part of JetPack.";
        s->seen = "gpumend devices says that programs can use the GPU.";
        return;
    }
    if (p->plan->pins.driver_newer) {
        driver_install(p);
        return;
    }
    if (p->m->gpu->usable == HOST_YES || !problem) {
        struct setup_step *s = setup_step_new(p, SETUP_DRIVER, "Keep the driver");
        s->why = arena_printf(p->a, "Driver %s is there. %s", p->m->driver, driver_need(p));
        s->seen = "gpumend devices says that programs can use the GPU.";
        return;
    }
    struct setup_step *s = setup_step_new(p, SETUP_DRIVER, "Make the GPU usable");
    s->why = arena_printf(p->a, "%s. Driver %s is there. %s%s", sentence_of(p, problem->text),
                          p->m->driver, driver_need(p), problem_step(p, problem));
    problem_solve(p, s, problem);
}

/* The wheels have ROCm's libraries in them; the driver is a part of the kernel. */
void setup_driver_step_amd(struct planner *p)
{
    const struct host_problem *problem = setup_problem(p->m->gpu);
    struct setup_step *s =
        setup_step_new(p, SETUP_DRIVER, problem ? "Make the GPU usable" : "Keep the driver");
    s->why = arena_printf(
        p->a, "%s%sThe wheels are for ROCm %s%s. On the machine they need %s.%s",
        problem ? sentence_of(p, problem->text) : "", problem ? ". " : "",
        p->plan->pins.build->rocm,
        p->plan->row->rocm || setup_is_attached(p) ? "" : " and have its libraries in them",
        p->plan->windows ? "AMD's graphics driver"
                         : "the kernel's amdgpu driver, and access to /dev/kfd and the GPU's "
                           "render node",
        problem ? problem_step(p, problem) : "");
    s->seen = "gpumend devices says that programs can use the GPU.";
    if (problem) {
        problem_solve(p, s, problem);
    }
}

/* ------------------------------------------------------------------ the environment, packages */

typedef VEC(const char *) word_list;

/* Of a word that no shell reads otherwise, itself. */
static const char *run_word(const struct planner *p, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_+=:./-";
    return *text && strspn(text, plain) == strlen(text) ? text : setup_word(p, text);
}

/* The command as a program gets it, and as a person types it. */
static void run_add(struct planner *p, struct setup_step *s, const word_list *words)
{
    const char *text = "";
    const char **kept = arena_array(p->a, words->n + 1, sizeof *kept);
    for (size_t i = 0; i < words->n; i++) {
        const char *word = run_word(p, words->items[i]);
        bool quoted = p->plan->windows && i == 0 && word != words->items[i];
        text = arena_printf(p->a, "%s%s%s%s", text, i ? " " : "", quoted ? "& " : "", word);
        kept[i] = words->items[i];
    }
    kept[words->n] = NULL;
    VEC_PUSH(p->a, &s->runs, (struct setup_run){kept, words->n});
    setup_command_add(p, s, text);
}

static void words_add(const struct planner *p, word_list *list, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        VEC_PUSH(p->a, list, words[i]);
    }
}

static const char *python_path(const struct planner *p)
{
    return arena_printf(p->a, p->plan->windows ? "%s\\Scripts\\python.exe" : "%s/bin/python",
                        p->plan->folder);
}

static void environment_keep(struct planner *p)
{
    struct setup_step *s = setup_step_new(
        p, SETUP_ENVIRONMENT, arena_printf(p->a, "Keep the environment %s", p->plan->there));
    s->why =
        arena_printf(p->a, "It has Python %s, for which every package of the plan has a wheel.",
                     p->plan->pins.python);
    s->seen = arena_printf(p->a, "%s --version prints Python %s.", setup_python_word(p),
                           p->plan->pins.python);
}

void setup_environment_step(struct planner *p)
{
    const struct setup_pins *pins = &p->plan->pins;
    if (p->plan->there) {
        environment_keep(p);
        return;
    }
    if (p->plan->source) {
        setup_clone_step(p);
        return;
    }
    word_list words = {0};
    const char *folder = p->plan->folder;
    const char *python = p->plan->windows ? arena_printf(p->a, "-%s", pins->python)
                                          : arena_printf(p->a, "python%s", pins->python);
    const char *const uv[] = {"uv", "venv", "--python", pins->python, folder};
    const char *const py[] = {"py", python, "-m", "venv", folder};
    struct setup_step *s =
        setup_step_new(p, SETUP_ENVIRONMENT,
                       arena_printf(p->a, "Make an environment with Python %s", pins->python));
    if (p->plan->uv) {
        words_add(p, &words, uv, 5);
        s->why = arena_printf(p->a,
                              "Every package of the plan has a wheel for Python %s. %s, and uv "
                              "brings it.%s",
                              pins->python,
                              p->m->python
                                  ? arena_printf(p->a, "The machine has Python %s", p->m->python)
                                  : "Which Python the machine has is not known",
                              setup_uv_text(p));
    } else {
        words_add(p, &words, py + !p->plan->windows, 5 - (size_t)!p->plan->windows);
        s->why = "Packages of the system and of other programs do not mix with these.";
    }
    run_add(p, s, &words);
    s->seen =
        arena_printf(p->a, "%s --version prints Python %s.", setup_python_word(p), pins->python);
}

static const char *pin_text(const struct planner *p, const struct setup_pin *pin)
{
    return pin->extras ? arena_printf(p->a, "%s[%s]==%s", pin->package, pin->extras, pin->version)
                       : arena_printf(p->a, "%s==%s", pin->package, pin->version);
}

static void installer_add(const struct planner *p, word_list *words)
{
    const char *const uv[] = {"uv", "pip", "install", "--python", p->plan->folder};
    const char *const pip[] = {python_path(p), "-m", "pip", "install"};
    if (p->plan->uv) {
        words_add(p, words, uv, 5);
    } else {
        words_add(p, words, pip, 4);
    }
}

static void index_add(const struct planner *p, word_list *words)
{
    const char *const index[] = {
        "--index-url",
        arena_printf(p->a, "https://download.pytorch.org/whl/%s", p->plan->pins.index)};
    words_add(p, words, index, 2);
}

/* What PyTorch's own index has, built for the same CUDA or for the CPU. */
static const char *packages_why(const struct planner *p)
{
    const struct setup_pins *pins = &p->plan->pins;
    const char *rest = p->plan->replaces ? "--force-reinstall replaces a build of the same release "
                                           "that is there: the installer would keep it. The "
                                           "installer finds their other dependencies."
                                         : "The installer finds their other dependencies.";
    if (p->plan->source) {
        return arena_printf(p->a,
                            "uv.lock has the packages, for Python 3.12; NVIDIA's libraries, which "
                            "it lacks, are of releases that fit them.%s",
                            setup_uv_text(p));
    }
    if (setup_cmake_args(p)) {
        return arena_printf(p->a,
                            "CMAKE_ARGS says for what it is compiled: without it, or from a cache "
                            "that holds a build without it, it would compute on the CPU alone. %s",
                            rest);
    }
    if (setup_is_attached(p) && p->plan->windows) {
        return arena_printf(p->a,
                            "CTranslate2's wheels for ROCm are attached to its releases, and load "
                            "HIP, hipBLAS and rocBLAS from a HIP SDK or from AMD's packages. %s",
                            rest);
    }
    if (p->plan->other == SETUP_OTHER_XPU) {
        return arena_printf(p->a, "torch comes from PyTorch's index for Intel's GPUs. %s", rest);
    }
    if (p->plan->device == CHOOSE_DEVICE_CPU) {
        return arena_printf(p->a, "These releases fit one another.%s %s",
                            pins->index ? " torch comes from PyTorch's index for CPUs, whose "
                                          "wheels are built without CUDA."
                                        : "",
                            rest);
    }
    return pins->build && pins->build->sm.n
               ? arena_printf(p->a,
                              "These releases fit one another, and %s has code for this GPU. %s",
                              pins->build->package, rest)
               : arena_printf(p->a, "These releases fit one another and this GPU. %s", rest);
}

/* What is compiled is told for what, and is not taken from a cache, which may have it for the CPU.
 */
static void source_words(struct planner *p, struct setup_step *s, word_list *words)
{
    const char *args = setup_cmake_args(p);
    if (!args) {
        return;
    }
    word_list all = {0};
    const char *set = arena_printf(p->a, "CMAKE_ARGS=%s", args);
    const char *const prefix[] = {"env", set};
    if (p->plan->windows) {
        setup_command_add(p, s, arena_printf(p->a, "$env:CMAKE_ARGS = '%s'", args));
    } else {
        words_add(p, &all, prefix, 2);
    }
    words_add(p, &all, words->items, words->n);
    VEC_PUSH(p->a, &all, p->plan->uv ? "--no-cache" : "--no-cache-dir");
    *words = all;
}

/* "ctranslate2 and onnxruntime-gpu" */
static const char *engines_text(const struct planner *p)
{
    const char *text = "";
    for (struct str rest = str_of(p->plan->row->engines); rest.s && rest.n;) {
        struct str one = str_cut(&rest, ' ');
        text = arena_printf(p->a, "%s%s" STR_FMT, text,
                            !*text   ? ""
                            : rest.s ? ", "
                                     : " and ",
                            STR_ARG(one));
    }
    return text;
}

/* For an installer 2.8.0+cpu satisfies ==2.8.0: what is there is replaced by name. */
static void replace_add(struct planner *p, struct setup_step *s, bool indexed)
{
    const char *const options[] = {"--force-reinstall", "--no-deps"};
    word_list words = {0};
    installer_add(p, &words);
    words_add(p, &words, options, 2);
    size_t before = words.n;
    for (size_t i = 0; i < p->plan->pins.items.n; i++) {
        const struct setup_pin *pin = &p->plan->pins.items.items[i];
        if (setup_is_other_build(p, pin) && setup_is_elsewhere(p, pin) == indexed &&
            !setup_is_attached_pin(p, pin)) {
            VEC_PUSH(p->a, &words, arena_printf(p->a, "%s==%s", pin->package, pin->version));
        }
    }
    if (words.n == before) {
        return;
    }
    if (indexed) {
        index_add(p, &words);
    }
    run_add(p, s, &words);
    p->plan->replaces = true;
}

/* What is from PyTorch's own index goes first: what else is needed is in the plain one. */
void setup_packages_step(struct planner *p)
{
    const struct setup_pins *pins = &p->plan->pins;
    struct setup_step *s = setup_step_new(p, SETUP_PACKAGES, "Install the packages");
    word_list own = {0}, plain = {0};
    installer_add(p, &own);
    installer_add(p, &plain);
    size_t before = own.n, plain_before = plain.n;
    bool *counts = arena_array(p->a, pins->items.n, sizeof *counts);
    if (setup_is_attached(p)) {
        setup_attached_add(p, s);
    }
    if (p->plan->source) {
        setup_sync_add(p, s);
    }
    for (size_t i = 0; i < pins->items.n; i++) {
        const struct setup_pin *pin = &pins->items.items[i];
        bool labelled = !setup_is_attached_pin(p, pin) && setup_is_elsewhere(p, pin);
        bool locked = p->plan->source && strncmp(pin->package, "nvidia-", 7) != 0;
        counts[i] = !(p->plan->there && setup_is_kept(p, pin)) && !locked;
        if (!counts[i]) {
            continue;
        }
        if (labelled) {
            VEC_PUSH(p->a, &own, pin_text(p, pin));
        } else {
            VEC_PUSH(p->a, &plain, pin_text(p, pin));
        }
    }
    if (own.n > before) {
        index_add(p, &own);
        replace_add(p, s, true);
        run_add(p, s, &own);
    }
    if (plain.n > plain_before) {
        replace_add(p, s, false);
        source_words(p, s, &plain);
        run_add(p, s, &plain);
    }
    setup_packages_cost(p, s, counts);
    s->title = s->commands.n ? s->title : "Keep the packages";
    s->why = s->commands.n ? packages_why(p) : "Every package of the plan is there.";
    // A lock file may replace what its packages declare: onnxruntime by onnxruntime-gpu.
    s->seen =
        p->plan->source ? arena_printf(p->a, "uv pip list --python %s has the libraries, and %s.",
                                       setup_word(p, p->plan->folder), engines_text(p))
        : p->plan->uv   ? arena_printf(p->a, "uv pip check --python %s finds no conflict.",
                                       setup_word(p, p->plan->folder))
                      : arena_printf(p->a, "%s -m pip check prints: No broken requirements found.",
                                     setup_python_word(p));
}

/* "--import whisperx ". What the import of an application outside of the package index loads is not
 * known: all that is in its environment is judged. */
static const char *import_words(const struct planner *p)
{
    return p->plan->source ? "" : arena_printf(p->a, "--import %s ", p->plan->row->module);
}

/* NVIDIA's wheels put the libraries into folders in which the loader does not look. */
void setup_libraries_step(struct planner *p)
{
    if (p->plan->device != CHOOSE_DEVICE_CUDA || !p->plan->row->hook ||
        (p->plan->windows && setup_preloads(p))) {
        return;
    }
    struct setup_step *s = setup_step_new(p, SETUP_LIBRARIES, "Make the libraries findable");
    s->why = arena_printf(p->a,
                          p->plan->row->hook_some
                              ? "NVIDIA's wheels install their libraries in folders of their own, "
                                "and %s %s not search all of them."
                              : "NVIDIA's wheels install their libraries in folders that %s %s "
                                "not search.",
                          engines_text(p), strchr(p->plan->row->engines, ' ') ? "do" : "does");
    if (p->plan->windows) {
        setup_command_add(
            p, s,
            arena_printf(p->a, "$env:PATH = (Resolve-Path %s).Path + ';' + $env:PATH",
                         setup_word(p, arena_printf(p->a,
                                                    "%s\\Lib\\site-packages\\nvidia\\cublas\\"
                                                    "bin",
                                                    p->plan->folder))));
        s->why =
            arena_printf(p->a, "%s This line is for the current PowerShell session only.", s->why);
        s->seen = "where.exe cublas64_12.dll prints a path in that folder.";
        return;
    }
    setup_command_add(
        p, s,
        arena_printf(p->a, "gpumend enable %s%s", import_words(p), setup_word(p, p->plan->folder)));
    s->why = arena_printf(p->a,
                          "%s A hook in the environment loads them first; gpumend disable removes "
                          "it.",
                          s->why);
    s->seen = "The last step finds no error.";
}

/* ------------------------------------------------------------------ the proof */

/* gpumend.exe has no probe, and its check takes no --device. */
static void proof_step_import(struct planner *p)
{
    struct setup_step *s = setup_step_new(p, SETUP_PROOF, "Prove it");
    bool gpu = p->plan->device != CHOOSE_DEVICE_CPU || p->plan->other != SETUP_OTHER_NONE;
    const char *code = p->plan->other == SETUP_OTHER_XPU
                           ? "import torch; print(torch.xpu.device_count())"
                       : gpu ? p->plan->row->counts
                             : arena_printf(p->a, "import %s", p->plan->row->module);
    setup_command_add(p, s, setup_python_code(p, code));
    s->why = "The import loads every library that it needs.";
    s->seen = gpu ? "It prints 1 or more: the GPUs that it can use." : "It ends without an error.";
}

void setup_proof_step(struct planner *p)
{
    const char *folder = setup_word(p, p->plan->folder);
    bool gpu = p->plan->device != CHOOSE_DEVICE_CPU;
    if (p->plan->windows || p->plan->other != SETUP_OTHER_NONE) {
        proof_step_import(p);
        return;
    }
    struct setup_step *s = setup_step_new(p, SETUP_PROOF, "Prove it");
    setup_command_add(p, s,
                      arena_printf(p->a, "gpumend check %s%s%s", gpu ? "" : "--device cpu ",
                                   import_words(p), folder));
    if (gpu) {
        setup_command_add(p, s, arena_printf(p->a, "gpumend probe %s", folder));
        s->why = "check follows every library that the packages load; probe computes on the GPU.";
        s->seen = "check finds no error, and every stage of probe that runs passes.";
        return;
    }
    setup_command_add(p, s,
                      setup_python_code(p, arena_printf(p->a, "import %s", p->plan->row->module)));
    s->why =
        "check follows every library that the packages load on the CPU; the import loads them.";
    s->seen = "check finds no error, and the import ends without one.";
}
