/* What a plan has outside the package index: sources that are compiled, a repository with its lock
 * file, wheels that are attached to releases, and what those need of the machine. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "setup/internal.h"

/* ------------------------------------------------------------------ the driver */

/* "Getting Started on Intel GPU" of PyTorch; docs/build.md of llama.cpp, "Vulkan". */
void setup_driver_step_other(struct planner *p)
{
    const struct host_problem *problem = setup_problem(p->m->gpu);
    bool xpu = p->plan->other == SETUP_OTHER_XPU;
    if (p->plan->other == SETUP_OTHER_HIP) {
        struct setup_step *keep = setup_step_new(p, SETUP_DRIVER, "Keep the driver");
        keep->why = "ROCm needs the kernel's amdgpu driver, and access to /dev/kfd and the GPU's "
                    "render node.";
        keep->seen = "gpumend devices says that programs can use the GPU.";
        return;
    }
    bool there = xpu && p->m->gpu->usable == HOST_YES;
    struct setup_step *s = setup_step_new(p, SETUP_DRIVER,
                                          there ? "Keep Intel's GPU driver"
                                          : xpu ? "Install Intel's GPU driver"
                                                : "Install the GPU's Vulkan driver");
    s->why = arena_printf(
        p->a, "%s%s%s", problem ? problem->text : "", problem ? ". " : "",
        xpu ? "The wheels have Intel's compute libraries with them; the driver with Level Zero "
              "is the system's. PyTorch calls its use of Intel's GPUs a prototype, validated on "
              "Arc graphics with Windows 11 and Ubuntu 24.04 or later."
            : "llama.cpp uses this GPU through Vulkan, whose driver comes with that of the GPU.");
    s->seen = xpu ? "The last step counts the GPU."
                  : "vulkaninfo --summary names the GPU (package vulkan-tools).";
    s->to_do = !there;
}

/* ------------------------------------------------------------------ the runtime */

static void toolkit_step(struct planner *p)
{
    bool tegra = p->m->host->tegra.is_tegra.state == HOST_YES;
    const char *cuda = p->plan->row->cuda;
    struct setup_step *s = setup_step_new(
        p, SETUP_RUNTIME,
        tegra ? "Install JetPack's CUDA toolkit and a C++ compiler"
              : arena_printf(p->a, "Install a CUDA toolkit %s and a C++ compiler", cuda));
    s->why = tegra
                 ? "The package index has only the source. nvcc, which compiles it for this "
                   "GPU, is a part of JetPack."
                 : arena_printf(p->a,
                                "The package index has only the source. nvcc compiles it for "
                                "this GPU, which CUDA %s supports from release %s on. Code from a "
                                "toolkit that is newer than the driver may not load.",
                                cuda, p->plan->pins.toolkit_min);
    s->seen = tegra ? "nvcc --version (in /usr/local/cuda/bin) and c++ --version print a release."
                    : arena_printf(p->a,
                                   "nvcc --version prints release %s or a later one of CUDA %s, "
                                   "and c++ --version a release.",
                                   p->plan->pins.toolkit_min, cuda);
    s->seen = p->plan->windows ? arena_printf(p->a,
                                              "nvcc --version prints release %s or a later one of "
                                              "CUDA %s; cl, in a developer prompt, its version.",
                                              p->plan->pins.toolkit_min, cuda)
                               : s->seen;
    s->to_do = true;
}

static void compiler_step(struct planner *p)
{
    bool vulkan = p->plan->other == SETUP_OTHER_VULKAN;
    if (p->plan->other == SETUP_OTHER_HIP) {
        struct setup_step *s =
            setup_step_new(p, SETUP_RUNTIME, "Install ROCm with its compiler, and a C++ compiler");
        s->why = "The package index has only the source, which ROCm's clang compiles for this GPU "
                 "(AMD, \"ROCm installation for Linux\", quick start).";
        s->seen = "/opt/rocm/bin/hipcc --version and c++ --version print a version.";
        s->to_do = true;
        return;
    }
    struct setup_step *s = setup_step_new(p, SETUP_RUNTIME,
                                          vulkan ? "Install the Vulkan SDK and a C++ compiler"
                                                 : "Install a C and C++ compiler");
    s->why = arena_printf(p->a, "The package index has only the source, which is compiled here%s.",
                          vulkan ? "; glslc and Vulkan's headers are from the SDK" : "");
    if (!vulkan) {
        setup_compiler_add(p, s);
    }
    s->seen = p->plan->windows ? vulkan ? "glslc --version prints a version; cl, in a developer "
                                          "prompt, too."
                                        : "cl, in a developer prompt, prints its version."
              : vulkan         ? "glslc --version and c++ --version print a version."
                               : "cc --version and c++ --version print a version.";
    s->to_do = true;
}

bool setup_is_attached(const struct planner *p)
{
    return p->plan->device == CHOOSE_DEVICE_ROCM &&
           strcmp(p->plan->pins.build->package, "ctranslate2") == 0;
}

/* CTranslate2's wheels for ROCm leave ROCm's libraries to the system (auditwheel's --exclude in
 * .github/workflows/ci.yml); those for Windows take AMD's packages (OpenNMT/CTranslate2#1989), or,
 * of the community's build, a HIP SDK (PinW/ctranslate2-rocm-rdna1, README.md). */
/* A ROCm that the machine has stays, if it is of the release. */
static struct setup_step *rocm_step_new(struct planner *p, const char *why)
{
    const char *wanted = p->plan->pins.build->rocm;
    const struct host_rocm *there = setup_rocm_there(p, wanted), *any = setup_rocm_there(p, "");
    struct setup_step *s =
        setup_step_new(p, SETUP_RUNTIME,
                       arena_printf(p->a, "%s ROCm %s", there ? "Keep" : "Install",
                                    there ? there->version : wanted));
    any = there ? there : any;
    s->why = any ? arena_printf(p->a, "ROCm %s is in %s. %s", any->version, any->prefix, why) : why;
    s->to_do = !there;
    return s;
}

static void rocm_local_step(struct planner *p)
{
    const char *rocm = p->plan->pins.build->rocm;
    const char *why = arena_printf(
        p->a,
        "The wheels are for the ROCm %s of the system, whose libraries they load (AMD, \"ROCm "
        "installation for Linux\", quick start). A GPU for which those have no code does not "
        "compute with them.",
        rocm);
    struct setup_step *s = rocm_step_new(p, why);
    s->seen = "/opt/rocm/bin/rocminfo names the GPU.";
}

static void rocm_step(struct planner *p)
{
    const struct kb_build *b = p->plan->pins.build;
    bool community = strcmp(b->build, "rocm") != 0;
    if (p->plan->windows && !community) {
        return; // AMD's packages go into the environment
    }
    if (!community) {
        struct setup_step *s = rocm_step_new(
            p,
            "The wheels have none of ROCm's libraries in them: they load hipBLAS, rocBLAS, hipRAND "
            "and rocRAND of this major release from the system (AMD, \"ROCm installation for "
            "Linux\", quick start).");
        s->seen = "ldconfig -p or /opt/rocm/lib has librocblas.so.5, libhipblas.so.3 and "
                  "libhiprand.so.1.";
        return;
    }
    struct setup_step *s = setup_step_new(
        p, SETUP_RUNTIME,
        arena_printf(p->a, "Install the HIP SDK %s and a rocBLAS for this GPU", b->rocm));
    s->why = "The driver of these GPUs has ROCm 6: with the HIP SDK 7 they are not seen. AMD's own "
             "rocBLAS has no code for gfx1010; one that has replaces rocblas.dll and its folder "
             "library in C:\\Program Files\\AMD\\ROCm\\6.2\\bin "
             "(github.com/likelovewant/ROCmLibs-for-gfx1103-AMD780M-APU, v0.6.2.4).";
    s->seen = "hipInfo.exe, in C:\\Program Files\\AMD\\ROCm\\6.2\\bin, names the GPU.";
    s->to_do = true;
}

void setup_runtime_step(struct planner *p)
{
    if (setup_is_attached(p)) {
        rocm_step(p);
    } else if (p->plan->row->rocm) {
        rocm_local_step(p);
    } else if (p->plan->row->code == SETUP_CODE_SOURCE && p->plan->device == CHOOSE_DEVICE_CUDA) {
        toolkit_step(p);
    } else if (p->plan->row->code == SETUP_CODE_SOURCE) {
        compiler_step(p);
    }
}

/* ------------------------------------------------------------------ what is installed */

/* README.md of llama-cpp-python, "Supported Backends". */
const char *setup_cmake_args(const struct planner *p)
{
    return p->plan->row->code != SETUP_CODE_SOURCE ? NULL
           : p->plan->device == CHOOSE_DEVICE_CUDA ? "-DGGML_CUDA=on"
           : p->plan->other == SETUP_OTHER_VULKAN  ? "-DGGML_VULKAN=on"
           : p->plan->other == SETUP_OTHER_HIP     ? "-DGGML_HIP=on"
                                                   : NULL;
}

/* A release's archive of wheels, unpacked: "temp-linux" is the folder in it. */
static void wheels_official(struct planner *p, struct setup_step *s, const char *version)
{
    const char *system = p->plan->windows ? "Windows" : "Linux";
    const char *zip = arena_printf(p->a, "rocm-python-wheels-%s.zip", system);
    setup_command_add(p, s,
                      arena_printf(p->a,
                                   "%s -LO https://github.com/OpenNMT/CTranslate2/releases/"
                                   "download/v%s/%s",
                                   p->plan->windows ? "curl.exe" : "curl -f", version, zip));
    setup_command_add(p, s,
                      p->plan->windows
                          ? arena_printf(p->a, "Expand-Archive %s -DestinationPath ct2-rocm", zip)
                          : arena_printf(p->a, "unzip -j -d ct2-rocm %s", zip));
    if (p->plan->windows) {
        // "PyTorch via PIP installation" of AMD's ROCm on Radeon and Ryzen has these addresses.
        static const char base[] = "https://repo.radeon.com/rocm/windows/rocm-rel-7.2/";
        setup_command_add(p, s,
                          arena_printf(p->a,
                                       "%s -m pip install %srocm_sdk_core-7.2.0.dev0-py3-none-"
                                       "win_amd64.whl %srocm_sdk_libraries_custom-7.2.0.dev0-py3-"
                                       "none-win_amd64.whl",
                                       setup_python_word(p), base, base));
    }
    setup_command_add(p, s,
                      arena_printf(p->a, "%s --no-deps --no-index --find-links %s ctranslate2==%s",
                                   setup_installer(p),
                                   p->plan->windows ? "ct2-rocm\\temp-windows" : "ct2-rocm",
                                   version));
}

static bool is_of_torch(const char *package)
{
    return strcmp(package, "torch") == 0 || strcmp(package, "torchaudio") == 0 ||
           strcmp(package, "torchvision") == 0;
}

bool setup_is_attached_pin(const struct planner *p, const struct setup_pin *pin)
{
    return strcmp(pin->package, "ctranslate2") == 0 && setup_is_attached(p);
}

bool setup_is_elsewhere(const struct planner *p, const struct setup_pin *pin)
{
    return strchr(pin->version, '+') || setup_is_attached_pin(p, pin) ||
           (p->plan->pins.index && is_of_torch(pin->package));
}

/* The wheel of CTranslate2 for ROCm, before what needs it. */
void setup_attached_add(struct planner *p, struct setup_step *s)
{
    const char *version = NULL;
    for (size_t i = 0; i < p->plan->pins.items.n; i++) {
        const struct setup_pin *pin = &p->plan->pins.items.items[i];
        version = strcmp(pin->package, "ctranslate2") == 0 ? pin->version : version;
    }
    if (!strchr(version, '+')) {
        wheels_official(p, s, version);
        return;
    }
    // Its release page has the one wheel; the name is that of its README.
    setup_command_add(p, s,
                      arena_printf(p->a,
                                   "%s --no-deps ctranslate2-%s-cp313-cp313-win_amd64.whl  # from "
                                   "https://github.com/PinW/ctranslate2-rocm-rdna1/releases",
                                   setup_installer(p), version));
}

/* The repository, at the release, beside which its environment is made. */
void setup_clone_step(struct planner *p)
{
    const struct setup_pin *own = &p->plan->pins.items.items[0];
    struct setup_step *s = setup_step_new(
        p, SETUP_ENVIRONMENT, arena_printf(p->a, "Get %s %s", p->plan->app, own->version));
    setup_command_add(p, s,
                      arena_printf(p->a, "git clone --depth 1 --branch v%s %s %s", own->version,
                                   p->plan->row->git, setup_word(p, p->plan->source)));
    s->why = arena_printf(p->a,
                          "%s is not in the package index: it is its repository, whose uv.lock "
                          "names every package that it was released with.",
                          p->plan->app);
    s->seen = arena_printf(p->a, "%s has a file uv.lock.", setup_word(p, p->plan->source));
}

void setup_sync_add(struct planner *p, struct setup_step *s)
{
    setup_command_add(p, s,
                      arena_printf(p->a, "uv sync --frozen --all-extras --directory %s",
                                   setup_word(p, p->plan->source)));
}

bool setup_needs_hands(const struct setup_plan *plan)
{
    const struct kb_build *b = plan->pins.build;
    return plan->source ||
           (plan->device == CHOOSE_DEVICE_ROCM && b && strcmp(b->package, "ctranslate2") == 0);
}

bool setup_needs_tools(const struct setup_plan *plan)
{
    return setup_needs_hands(plan) || plan->row->code == SETUP_CODE_SOURCE;
}
