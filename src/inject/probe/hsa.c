/*
 * The two lowest stages of AMD: the kernel's compute driver (KFD) opens for this user, and the HSA
 * runtime, on which HIP stands, starts and lists its GPUs.
 *
 * Sources: linux/include/uapi/linux/kfd_ioctl.h (AMDKFD_IOC_GET_VERSION, _IOR('K', 1, two u32) and
 * the interface's major version 1) and drivers/gpu/drm/amd/amdkfd/kfd_chardev.c, kfd_open(), for
 * EAGAIN (a reset is under way); ROCm/rocminfo#27 for ENOMEM, and ROCm/legacy-rocm-build#1185
 * for EFAULT ("kfd not supported on this ASIC" in the kernel's log). HSA Runtime
 * Programmer's Reference Manual 1.2, sections 2.1 and 2.3.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/probe/amd.h"

static const char kfd[] = "/dev/kfd";

void *amd_open(const struct job *j)
{
    if (j->lib) {
        job_load_before(j, j->lib);
    }
    void *library = open_library(j->lib);
    const char *path = library_path(library);
    say_fact("library", "%s", path ? path : j->lib);
    return library;
}

struct kfd_version {
    uint32_t major, minor;
};
enum { KFD_MAJOR = 1 };
#define KFD_GET_VERSION _IOR('K', 1, struct kfd_version)

/* What an error of open() means here. */
struct kfd_error {
    int error;
    const char *name, *meaning;
    bool absent, busy; // there is no driver; a GPU is in use
};

static const struct kfd_error kfd_errors[] = {
    {ENOENT, "ENOENT",
     "it does not exist: the kernel's amdgpu driver is not loaded, or the container "
     "was not given the device (--device /dev/kfd)",
     true, false},
    {ENXIO, "ENXIO", "no driver answers for the node: amdgpu is not loaded", true, false},
    {ENODEV, "ENODEV", "no driver answers for the node: amdgpu is not loaded", true, false},
    {ENOMEM, "ENOMEM",
     "the driver has no GPU for compute: it does not support the chip, or the GPU "
     "did not start (the kernel's log says which)",
     false, false},
    {EFAULT, "EFAULT",
     "the driver has no GPU for compute: it does not support the chip, or the GPU "
     "did not start (the kernel's log says which)",
     false, false},
    {EAGAIN, "EAGAIN", "a GPU is being reset: it is busy, not broken; try again", false, true},
    {EACCES, "EACCES", NULL, false, false},
    {EPERM, "EPERM", NULL, false, false},
};

static const struct kfd_error *kfd_error(int error)
{
    for (size_t i = 0; i < sizeof kfd_errors / sizeof *kfd_errors; i++) {
        if (kfd_errors[i].error == error) {
            return &kfd_errors[i];
        }
    }
    return NULL;
}

static bool is_in_group(gid_t group)
{
    enum { GROUPS_MAX = 1024 };
    gid_t groups[GROUPS_MAX];
    int n = getgroups(GROUPS_MAX, groups);
    bool found = getegid() == group;
    for (int i = 0; i < n; i++) {
        found |= groups[i] == group;
    }
    return found;
}

/* By the mode of the node; the groups' names are the host's, in a container only the number counts.
 */
static _Noreturn void kfd_forbidden(const struct kfd_error *e)
{
    struct stat
        st; // the kernel's layout is glibc's on both architectures; stat() is too young here
    if (syscall(SYS_newfstatat, AT_FDCWD, kfd, &st, 0) != 0) {
        say_failed(e->error, e->name, "user %u may not open %s", (unsigned)geteuid(), kfd);
    }
    bool admits = geteuid() == 0 || (st.st_mode & 06) == 06 ||
                  ((st.st_mode & 060) == 060 && is_in_group(st.st_gid));
    if (admits) {
        say_failed(
            e->error, e->name,
            "user %u may not open %s although its mode %03o and its group %u would allow it: "
            "the container's or the service's device rules forbid it",
            (unsigned)geteuid(), kfd, (unsigned)st.st_mode & 0777, (unsigned)st.st_gid);
    }
    say_failed(e->error, e->name,
               "user %u may not open %s: its mode is %03o and its group %u, so the user must be in "
               "group %u (in a container: --group-add %u)",
               (unsigned)geteuid(), kfd, (unsigned)st.st_mode & 0777, (unsigned)st.st_gid,
               (unsigned)st.st_gid, (unsigned)st.st_gid);
}

static _Noreturn void kfd_refused(int error)
{
    const struct kfd_error *e = kfd_error(error);
    if (error == ENOENT && access("/dev/dxg", R_OK | W_OK) == 0) {
        say_passed(
            "%s does not exist and is not needed: under WSL, programs use the GPU through /dev/dxg",
            kfd);
    }
    if (!e) {
        say_failed(error, NULL, "%s does not open: %s", kfd, strerror(error));
    }
    if (e->absent) {
        say_fact("absent", "%s", kfd);
    }
    if (e->busy) {
        say_fact("busy", "%s", kfd);
    }
    if (!e->meaning) {
        kfd_forbidden(e);
    }
    say_failed(error, e->name, "%s: %s", kfd, e->meaning);
}

void stage_kfd(const struct job *j)
{
    struct kfd_version version = {0};
    (void)j; // asks nothing of a target
    say_call("open");
    int fd = open(kfd, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        kfd_refused(errno);
    }
    say_call("ioctl(AMDKFD_IOC_GET_VERSION)");
    if (ioctl(fd, KFD_GET_VERSION, &version) < 0) {
        say_failed(errno, NULL, "%s opens, but does not report its version: %s", kfd,
                   strerror(errno));
    }
    say_fact("kfd.version", "%u.%u", version.major, version.minor);
    if (version.major != KFD_MAJOR) {
        say_failed(
            0, NULL,
            "the kernel's compute driver uses version %u of its interface; ROCm's runtimes need %d",
            version.major, KFD_MAJOR);
    }
    say_passed("%s opens, and the kernel's compute driver has interface version %u.%u", kfd,
               version.major, version.minor);
}

/* ------------------------------------------------------------------ the HSA runtime */

struct hsa_agent {
    uint64_t handle;
};

enum { HSA_SUCCESS = 0, HSA_OUT_OF_RESOURCES = 0x1008 };
enum { HSA_SYSTEM_MAJOR = 0, HSA_SYSTEM_MINOR = 1 };
enum {
    HSA_AGENT_NAME = 0,
    HSA_AGENT_DEVICE = 17,
    HSA_AGENT_BDF = 0xa006,
    HSA_AGENT_PRODUCT = 0xa009,
    HSA_AGENT_DOMAIN = 0xa00f
};
enum { HSA_DEVICE_GPU = 1 };

typedef int hsa_callback(struct hsa_agent agent, void *data);

/* Every function returns a hsa_status_t. */
#define HSA_FUNCTIONS(X)                                                                           \
    X(hsa_init, (void))                                                                            \
    X(hsa_system_get_info, (int attribute, void *ret))                                             \
    X(hsa_iterate_agents, (hsa_callback * callback, void *data))                                   \
    X(hsa_agent_get_info, (struct hsa_agent agent, int attribute, void *ret))                      \
    X(hsa_shut_down, (void))

static struct hsa {
#define HSA_MEMBER(name, arguments) int(*name) arguments;
    HSA_FUNCTIONS(HSA_MEMBER)
#undef HSA_MEMBER
    int (*hsa_status_string)(int status, const char **ret); // may be NULL
} hsa;

static void hsa_find(void *library)
{
#define HSA_FIND(name, arguments) *(void **)&hsa.name = symbol(library, #name);
    HSA_FUNCTIONS(HSA_FIND)
#undef HSA_FIND
    *(void **)&hsa.hsa_status_string = symbol_optional(library, "hsa_status_string");
}

static void hsa_check(const char *function, int status)
{
    const char *text = NULL;
    if (status == HSA_SUCCESS) {
        return;
    }
    if (status == HSA_OUT_OF_RESOURCES) {
        say_failed(status, "HSA_STATUS_ERROR_OUT_OF_RESOURCES", "%s failed", function);
    }
    if (hsa.hsa_status_string && hsa.hsa_status_string(status, &text) != HSA_SUCCESS) {
        text = NULL;
    }
    say_failed(status, NULL, "%s failed: %s", function, text ? text : "no description");
}

#define HSA(name, ...) hsa_check(#name, (say_call(#name), hsa.name(__VA_ARGS__)))

static int keep_gpu(struct hsa_agent agent, void *data)
{
    struct hsa_gpus *all = data;
    struct hsa_gpu gpu = {0};
    int device = -1;
    HSA(hsa_agent_get_info, agent, HSA_AGENT_DEVICE, &device);
    if (device != HSA_DEVICE_GPU) {
        return HSA_SUCCESS;
    }
    uint32_t bdf = 0, domain = 0;
    HSA(hsa_agent_get_info, agent, HSA_AGENT_NAME, gpu.name);
    HSA(hsa_agent_get_info, agent, HSA_AGENT_BDF, &bdf);
    // These two are younger than the others.
    if (hsa.hsa_agent_get_info(agent, HSA_AGENT_DOMAIN, &domain) != HSA_SUCCESS) {
        domain = 0;
    }
    if (hsa.hsa_agent_get_info(agent, HSA_AGENT_PRODUCT, gpu.product) != HSA_SUCCESS) {
        gpu.product[0] = '\0';
    }
    gpu.name[sizeof gpu.name - 1] = gpu.product[sizeof gpu.product - 1] = '\0';
    gpu.bdf = bdf, gpu.domain = domain;
    if (all->n < HSA_GPUS_MAX) {
        all->items[all->n] = gpu;
    }
    all->n++;
    return HSA_SUCCESS;
}

void hsa_list(void *library, struct hsa_gpus *ret)
{
    hsa_find(library);
    HSA(hsa_init);
    HSA(hsa_iterate_agents, keep_gpu, ret);
}

/* "0000:03:00.0" -> domain and bus, device and function; false for anything else. */
static bool parse_bus(const char *text, unsigned *ret_domain, unsigned *ret_bdf)
{
    unsigned part[4] = {0};
    size_t at = 0;
    for (; *text; text++) {
        const char *hex = "0123456789abcdef", *digit = strchr(hex, *text | 0x20);
        if (*text == ':' || *text == '.') {
            if (++at > 3) {
                return false;
            }
        } else if (digit) {
            part[at] = part[at] << 4 | (unsigned)(digit - hex);
        } else {
            return false;
        }
    }
    *ret_domain = part[0];
    *ret_bdf = (part[1] & 0xff) << 8 | (part[2] & 0x1f) << 3 | (part[3] & 7);
    return at == 3;
}

const char *hsa_gfx_of(const struct hsa_gpus *gpus, int device)
{
    char text[32] = "";
    unsigned domain, bdf;
    HIP(hipDeviceGetPCIBusId, text, (int)sizeof text - 1, device);
    if (!parse_bus(text, &domain, &bdf)) {
        return NULL;
    }
    for (size_t i = 0; i < gpus->n && i < HSA_GPUS_MAX; i++) {
        const struct hsa_gpu *gpu = &gpus->items[i];
        // Older runtimes leave the function out of one of the two.
        if (gpu->domain == domain && (gpu->bdf & ~7u) == (bdf & ~7u)) {
            return gpu->name;
        }
    }
    return NULL;
}

static void say_gpu(const struct hsa_gpu *gpu, size_t i)
{
    char pci[32];
    (void)snprintf(pci, sizeof pci, "%04x:%02x:%02x.%x", gpu->domain & 0xffff, gpu->bdf >> 8 & 0xff,
                   gpu->bdf >> 3 & 0x1f, gpu->bdf & 7);
    device_fact(i, "gfx", gpu->name);
    device_fact(i, "pci", pci);
    if (gpu->product[0]) {
        device_fact(i, "name", gpu->product);
    }
}

/* With the variables cleared that hide devices. */
void stage_hsa(const struct job *j)
{
    struct hsa_gpus gpus = {0};
    uint16_t major = 0, minor = 0;
    hsa_list(amd_open(j), &gpus);
    HSA(hsa_system_get_info, HSA_SYSTEM_MAJOR, &major);
    HSA(hsa_system_get_info, HSA_SYSTEM_MINOR, &minor);
    say_fact("hsa.version", "%u.%u", major, minor);
    say_fact("count", "%zu", gpus.n);
    for (size_t i = 0; i < gpus.n && i < HSA_GPUS_MAX; i++) {
        say_gpu(&gpus.items[i], i);
    }
    if (gpus.n == 0) {
        say_failed(
            0, NULL,
            "the HSA runtime starts but lists no GPU: the kernel's compute driver offers none, "
            "or this user may not open its render node below /dev/dri");
    }
    HSA(hsa_shut_down);
    say_passed("the HSA runtime lists %zu GPU%s, the first is %s", gpus.n, gpus.n > 1 ? "s" : "",
               gpus.items[0].name);
}
