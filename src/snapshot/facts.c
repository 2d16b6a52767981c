#include "snapshot/internal.h"

#include <string.h>

#include "base/root.h"

/*
 * Variables that the rooms of gpumend read, or that the loader, Python and the GPU runtimes act
 * upon, by the names that their documents give. What is not named here is never stored: an
 * environment holds secrets, and a beginning such as NVIDIA_ is shared by keys of services.
 */
static const char *const kept_variables[] = {
    "APPDATA",
    "BNB_CUDA_VERSION",
    "BNB_ROCM_VERSION",
    "CONDA_DEFAULT_ENV",
    "CONDA_EXE",
    "CONDA_PREFIX",
    "CT2_CUDA_ALLOCATOR",
    "CT2_CUDA_ALLOW_BF16",
    "CT2_CUDA_ALLOW_FP16",
    "CT2_CUDA_CACHING_ALLOCATOR_CONFIG",
    "CT2_CUDA_TRUE_FP16_GEMM",
    "CT2_FORCE_CPU_ISA",
    "CT2_USE_EXPERIMENTAL_PACKED_GEMM",
    "CT2_USE_MKL",
    "CT2_VERBOSE",
    "CUDA_AUTO_BOOST",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_CACHE_PATH",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_DISABLE_JIT",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_HOME",
    "CUDA_INJECTION64_PATH",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_MODULE_LOADING",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_SCALE_LAUNCH_QUEUES",
    "CUDA_VERSION",
    "CUDA_VISIBLE_DEVICES",
    "CUDNN_HOME",
    "CUDNN_LOGDEST_DBG",
    "CUDNN_LOGLEVEL_DBG",
    "CUDNN_PATH",
    "CUDNN_ROOT",
    "CUDNN_VERSION",
    "GLIBC_TUNABLES",
    "GPUMEND_GUARD",
    "GPUMEND_HOOK",
    "GPU_DEVICE_ORDINAL",
    "GPU_MAX_ALLOC_PERCENT",
    "GPU_MAX_HEAP_SIZE",
    "GPU_MAX_HW_QUEUES",
    "HIP_DEVICE_LIB_PATH",
    "HIP_LAUNCH_BLOCKING",
    "HIP_PATH",
    "HIP_PLATFORM",
    "HIP_VISIBLE_DEVICES",
    "HOME",
    "HSA_ENABLE_DXG_DETECTION",
    "HSA_ENABLE_SDMA",
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_OVERRIDE_GFX_VERSION_0",
    "HSA_OVERRIDE_GFX_VERSION_1",
    "HSA_OVERRIDE_GFX_VERSION_2",
    "HSA_OVERRIDE_GFX_VERSION_3",
    "HSA_OVERRIDE_GFX_VERSION_4",
    "HSA_OVERRIDE_GFX_VERSION_5",
    "HSA_OVERRIDE_GFX_VERSION_6",
    "HSA_OVERRIDE_GFX_VERSION_7",
    "HSA_XNACK",
    "JAX_PLATFORMS",
    "JAX_PLATFORM_NAME",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "KMP_DUPLICATE_LIB_OK",
    "LD_ASSUME_KERNEL",
    "LD_AUDIT",
    "LD_BIND_NOT",
    "LD_BIND_NOW",
    "LD_DEBUG",
    "LD_DYNAMIC_WEAK",
    "LD_HWCAP_MASK",
    "LD_LIBRARY_PATH",
    "LD_ORIGIN_PATH",
    "LD_PRELOAD",
    "LD_PROFILE",
    "LD_SHOW_AUXV",
    "LD_TRACE_LOADED_OBJECTS",
    "LD_VERBOSE",
    "LD_WARN",
    "LLAMA_CPP_LIB_PATH",
    "MAMBA_ROOT_PREFIX",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_DYNAMIC",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_NUM_THREADS",
    "MKL_SERVICE_FORCE_INTEL",
    "MKL_THREADING_LAYER",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NVIDIA_DISABLE_REQUIRE",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_TF32_OVERRIDE",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_TARGET_OFFLOAD",
    "OMP_WAIT_POLICY",
    "ONEAPI_DEVICE_SELECTOR",
    "ONEAPI_ROOT",
    "PATH",
    "PYENV_DIR",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "PYTHONEXECUTABLE",
    "PYTHONHOME",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONSAFEPATH",
    "PYTHONUSERBASE",
    "PYTHON_LAZY_IMPORTS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ENABLE_MPS_FALLBACK",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "PYTORCH_ROCM_ARCH",
    "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK",
    "PYTORCH_TUNABLEOP_ENABLED",
    "ROCBLAS_TENSILE_LIBPATH",
    "ROCM_HOME",
    "ROCM_PATH",
    "ROCM_VERSION",
    "ROCR_VISIBLE_DEVICES",
    "TF_CUDA_PATHS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR",
    "TORCH_CUDA_ARCH_LIST",
    "UV_PROJECT_ENVIRONMENT",
    "VIRTUAL_ENV",
    "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "ZE_AFFINITY_MASK",
    "ZE_ENABLE_PCI_ID_DEVICE_ORDER",
    "ZE_FLAT_DEVICE_HIERARCHY",
    "__PYVENV_LAUNCHER__",
};

bool snapshot_keeps_variable(const char *entry)
{
    struct str name = {entry, strcspn(entry, "=")};
    for (size_t i = 0; i < sizeof kept_variables / sizeof *kept_variables; i++) {
        if (str_is(name, kept_variables[i])) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ texts */

typedef bool keep_piece(struct str piece);

/* The pieces that are kept, each with its end. A secret in the value of a variable is hidden. */
static void facts_filter(struct arena *a, struct str *data, char end, keep_piece *keep)
{
    VEC(struct str) pieces = {0};
    size_t bytes = 0, n = 0;
    for (struct str rest = *data; rest.s && rest.n;) {
        struct str piece = str_cut(&rest, end);
        if (keep(piece)) {
            piece = end ? piece : str_of(snapshot_hide_secrets(a, str_dup(a, piece)));
            VEC_PUSH(a, &pieces, piece);
            bytes += piece.n + 1;
        }
    }
    char *out = arena_alloc(a, bytes + 1);
    for (size_t i = 0; i < pieces.n; i++) {
        memcpy(out + n, pieces.items[i].s, pieces.items[i].n);
        n += pieces.items[i].n;
        out[n++] = end;
    }
    *data = (struct str){out, n};
}

static bool keep_variable(struct str piece)
{
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    // Engines of containers tell their name to the first process (systemd's container interface).
    bool kept = str_starts(piece, "container=") || snapshot_keeps_variable(str_dup(&a, piece));
    arena_release(&a);
    return kept;
}

static bool begins_with_one_of(struct str line, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_starts(line, words[i])) {
            return true;
        }
    }
    return false;
}

static bool keep_status(struct str line)
{
    static const char *const words[] = {"Uid:",        "Gid:",     "Groups:",           "Cap",
                                        "NoNewPrivs:", "Seccomp:", "Cpus_allowed_list:"};
    return begins_with_one_of(line, words, sizeof words / sizeof *words);
}

static bool keep_meminfo(struct str line)
{
    static const char *const words[] = {"MemTotal:", "SwapTotal:"};
    return begins_with_one_of(line, words, sizeof words / sizeof *words);
}

static bool keep_cpuinfo(struct str line)
{
    static const char *const words[] = {"cpu MHz", "bogomips", "BogoMIPS", "Serial"};
    return !begins_with_one_of(line, words, sizeof words / sizeof *words);
}

/* Mounts of other machines name them. */
static bool keep_mount(struct str line)
{
    static const char *const types[] = {" - nfs",         " - cifs ", " - smb",
                                        " - fuse.sshfs ", " - ceph ", " - lustre "};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (str_find(line, types[i]) < line.n) {
            return false;
        }
    }
    return true;
}

/* "render:x:105:alice,bob": who is in a group is not asked here; who asks knows his own groups. */
static void strip_members(struct arena *a, struct str *data)
{
    char *out = arena_alloc(a, data->n + 2);
    size_t n = 0;
    struct str rest = *data, line;
    while (str_line(&rest, &line)) {
        struct str fields = line;
        for (int i = 0; i < 3 && fields.s; i++) {
            (void)str_cut(&fields, ':');
        }
        size_t head = fields.s ? (size_t)(fields.s - line.s) : line.n;
        memcpy(out + n, line.s, head);
        n += head;
        out[n++] = '\n';
    }
    *data = (struct str){out, n};
}

static const struct {
    const char *path;
    char end;
    keep_piece *keep;
} filters[] = {
    {"/proc/1/environ", '\0', keep_variable}, {"/proc/self/environ", '\0', keep_variable},
    {"/proc/self/status", '\n', keep_status}, {"/proc/meminfo", '\n', keep_meminfo},
    {"/proc/cpuinfo", '\n', keep_cpuinfo},    {"/proc/self/mountinfo", '\n', keep_mount},
};

static void facts_edit_text(struct arena *a, const char *path, struct str *data)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        if (strcmp(filters[i].path, path) == 0) {
            facts_filter(a, data, filters[i].end, filters[i].keep);
        }
    }
    if (strcmp(path, "/etc/group") == 0) {
        strip_members(a, data);
    }
}

/* Of the processes only those that tell something of a GPU are kept; comm has 15 bytes at most. */
static bool edit_name(struct root *from, struct arena *a, const char *dir, const char *name)
{
    static const char *const kept[] = {"nvidia-*", "nv-*", "nvsm*", "rocm-*"};
    uint64_t pid;
    struct str text;
    if (strcmp(dir, "/proc") != 0 || !str_u64(str_of(name), &pid) || pid == 1) {
        return true;
    }
    if (root_read(from, a, arena_printf(a, "/proc/%s/comm", name), 4096, &text) < 0) {
        return false;
    }
    const char *comm = str_dup(a, str_trim(text));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (str_glob(kept[i], comm)) {
            return true;
        }
    }
    return false;
}

struct snap_edit snapshot_edit(void)
{
    return (struct snap_edit){.text = facts_edit_text, .name = edit_name};
}

/* ------------------------------------------------------------------ taking one */

static void keep_variables(struct arena *a, const char *const *env, size_t n, snapshot_texts *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (snapshot_keeps_variable(env[i])) {
            VEC_PUSH(a, ret, snapshot_hide_secrets(a, env[i]));
        }
    }
}

static int begin_live(struct snapshot *s, int pid, struct gm_err *err)
{
    s->live = arena_alloc(s->arena, sizeof *s->live);
    struct root host;
    int rc = root_open(&host, "/", err);
    if (rc == 0) {
        rc = model_live_read(s->arena, &host, pid, s->live, err);
        root_close(&host);
    }
    if (rc == 0) {
        snapshot_texts kept = {0};
        keep_variables(s->arena, s->live->env.items, s->live->env.n, &kept);
        s->live->env.items = kept.items;
        s->live->env.n = kept.n;
        s->live->env.cap = kept.cap;
    }
    return rc;
}

int snapshot_begin(struct snapshot *s, struct arena *a, const struct model_target_options *asked,
                   struct gm_err *err)
{
    *s = (struct snapshot){.arena = a,
                           .path = asked->target,
                           .root = asked->root_path,
                           .imports = asked->imports,
                           .cwd = asked->cwd,
                           .uid = asked->uid,
                           .glibc_minor = asked->glibc_minor};
    snap_init(&s->files, a);
    s->files.edit = snapshot_edit();
    keep_variables(a, asked->env, asked->n_env, &s->env);
    s->cpu = asked->cpu ? *asked->cpu : (struct ldso_cpu){0};
    s->page_size = asked->page_size;
    return asked->pid ? begin_live(s, asked->pid, err) : 0;
}

void snapshot_keep_cpu(struct snapshot *s, struct model_target *t)
{
    const struct model *m = &t->model;
    const struct ldso_cpu *cpu = m->config.cpu;
    for (size_t i = 0; i < m->processes.n && !cpu; i++) {
        cpu = m->processes.items[i]->ldso ? &m->processes.items[i]->ldso->cpu : NULL;
    }
    s->cpu = cpu ? *cpu : *ldso_store_cpu(&t->store, ldso_cpu_own_machine());
}

struct model_target_options snapshot_options(struct snapshot *s, bool record)
{
    return (struct model_target_options){.target = s->path,
                                         .root_path = s->root,
                                         .imports = s->imports,
                                         .pid = s->live ? s->live->pid : 0,
                                         .env = s->env.items,
                                         .n_env = s->env.n,
                                         .cwd = s->cwd,
                                         .uid = s->uid,
                                         .glibc_minor = s->glibc_minor,
                                         .cpu = s->cpu.machine ? &s->cpu : NULL,
                                         .page_size = s->page_size,
                                         .record = record ? &s->files : NULL,
                                         .replay = record ? NULL : &s->files,
                                         .live = s->live};
}
