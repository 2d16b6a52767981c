/*
 * Why NVIDIA's driver does not have a GPU: its release, or its flavour, is not for the GPU; or a
 * module that is on disk, or should be, was kept from loading. The first that is told by files is
 * the answer; otherwise host_judge_nvidia() says what is missing.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct branches {
    const char *capability;
    unsigned first, last; // 0: none is known
    bool open, proprietary;
};

/* First and last driver branch by compute capability, as a prefix. First: CUDA Toolkit release
 * notes, the driver of the first toolkit for it (10.0, 11.0, 11.1, 11.8, 12.8). Last:
 * kb/drivers.json, last-kepler and last-maxwell-pascal-volta. Open: NVIDIA's open kernel modules
 * are for Turing and later, and Blackwell has no others (open-gpu-kernel-modules, README.md;
 * "Transitioning to open-source GPU kernel modules", NVIDIA). */
static const struct branches branches[] = {
    {"3.", 0, 470, false, true},   {"5.", 0, 580, false, true}, {"6.", 0, 580, false, true},
    {"7.0", 0, 580, false, true},  {"7.5", 410, 0, true, true}, {"8.0", 450, 0, true, true},
    {"8.6", 455, 0, true, true},   {"8.9", 520, 0, true, true}, {"10.0", 570, 0, true, false},
    {"12.0", 570, 0, true, false},
};

/* That of the module, else of the libraries that came with it. */
static const char *driver_version(const struct host *h, struct arena *a)
{
    const struct host_nvidia *n = &h->nvidia;
    if (n->module.state == HOST_YES && n->module.value) {
        return n->module.value;
    }
    const struct host_library *cuda = n->libraries.n ? &n->libraries.items[0] : NULL;
    return cuda && strcmp(cuda->name, "libcuda.so.1") == 0 &&
                   !host_compat_is(h, a, cuda->real, &n->libcuda_compat)
               ? cuda->version
               : NULL;
}

static bool unloaded_on(const struct host *h, const char *os)
{
    return h->os.state == HOST_YES && strcmp(h->os.value, os) == 0 &&
           h->container.inside.state != HOST_YES;
}

/* Ubuntu's packages have the branch in their name, Debian's have the flavour. */
static const char *install_branch(const struct host *h, struct arena *a, unsigned branch, bool open)
{
    if (unloaded_on(h, "ubuntu")) {
        return arena_printf(a, "sudo apt-get install nvidia-driver-%u%s && sudo reboot", branch,
                            open ? "-open" : "");
    }
    return NULL;
}

static const char *install_flavour(const struct host *h, struct arena *a, unsigned branch,
                                   bool open)
{
    if (unloaded_on(h, "debian")) {
        return open ? "sudo apt-get install nvidia-open-kernel-dkms && sudo reboot"
                    : "sudo apt-get install nvidia-kernel-dkms && sudo reboot";
    }
    return install_branch(h, a, branch, open);
}

/* NULL: its capability is not known, or has no row. */
static const struct branches *branches_of(const struct host_gpu *g)
{
    const char *capability =
        g->compute_capability.state == HOST_YES ? g->compute_capability.value : NULL;
    for (size_t i = 0; capability && i < sizeof branches / sizeof *branches; i++) {
        if (starts_with(capability, branches[i].capability)) {
            return &branches[i];
        }
    }
    return NULL;
}

/* What the driver of a distribution must be for a GPU: "570 or later", "580, its last"; NULL: the
 * one that it has serves, as far as is known. `branch` 0: the newest. */
const char *host_driver_wanted(struct arena *a, const struct host_gpu *g, unsigned branch,
                               bool open_only)
{
    const struct branches *b = branches_of(g);
    if (!b) {
        return NULL;
    }
    if (b->last && (branch == 0 || branch > b->last || open_only)) {
        return arena_printf(a, "%u, the last for this GPU", b->last);
    }
    return branch && branch < b->first ? arena_printf(a, "%u or later", b->first) : NULL;
}

static bool have_one_driver(const struct branches *a, const struct branches *b)
{
    unsigned first = a->first > b->first ? a->first : b->first;
    unsigned last = !a->last || (b->last && b->last < a->last) ? b->last : a->last;
    return (!last || first <= last) && ((a->open && b->open) || (a->proprietary && b->proprietary));
}

/* Another GPU that NVIDIA's driver has or could have, and that no driver supports together with
 * `g`; NULL: there is none. */
static const struct host_gpu *excluded_by(const struct host *h, const struct host_gpu *g)
{
    const struct branches *own = branches_of(g);
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *other = &h->gpus.items[i];
        const struct branches *its = branches_of(other);
        bool elsewhere =
            other->driver.state == HOST_YES && strcmp(other->driver.value, "nvidia") != 0;
        if (other != g && other->vendor == HOST_NVIDIA && its && !elsewhere &&
            !have_one_driver(own, its)) {
            return other;
        }
    }
    return NULL;
}

/* Adds the problem; a step that would take the driver from another GPU is none. */
static void add_release_problem(const struct host *h, struct arena *a, struct host_gpu *g,
                                const struct host_problem *p)
{
    const struct host_gpu *other = excluded_by(h, g);
    struct host_problem *added = host_add_problem(
        a, g, p->id, HOST_NO, p->text,
        other ? arena_printf(a, "use it in another machine: no driver supports both it and %s",
                             other->name)
              : p->step);
    added->command = other ? NULL : p->command;
}

/* `bound`: the driver has the GPU all the same. A release before Blackwell, one behind the last for
 * a GPU, and the wrong flavour cannot; of older first branches a table is no better witness. */
static bool ask_release(const struct host *h, struct arena *a, struct host_gpu *g, bool bound)
{
    enum { BLACKWELL = 570 };
    const char *version = driver_version(h, a);
    const struct branches *b = branches_of(g);
    unsigned branch = version ? (unsigned)strtoul(version, NULL, 10) : 0;
    struct host_problem p = {.id = NULL};
    if (!branch || !b) {
        return false;
    }
    bool told = h->nvidia.flavour.state == HOST_YES;
    bool open = told && strcmp(h->nvidia.flavour.value, "open") == 0;
    if (branch < b->first && (!bound || b->first >= BLACKWELL)) {
        p.id = "driver-too-old";
        p.text = arena_printf(a, "the driver %s is too old for this GPU, which needs %u or later",
                              version, b->first);
        p.step = arena_printf(a, "install NVIDIA's driver %u or later, then reboot", b->first);
        p.command = install_branch(h, a, b->first, !b->proprietary);
    } else if (b->last && branch > b->last) {
        p.id = "driver-too-new";
        p.text = arena_printf(a, "the driver %s no longer supports this GPU: its last branch is %u",
                              version, b->last);
        p.step = arena_printf(a, "install NVIDIA's driver %u, then reboot", b->last);
        p.command = install_branch(h, a, b->last, false);
    } else if (branch >= b->first && told && !(open ? b->open : b->proprietary)) {
        p.id = "wrong-module";
        p.text = open ? "the open kernel module is loaded, which is for Turing and later GPUs"
                      : "the proprietary kernel module is loaded, and this GPU needs the open one";
        p.step = open ? "install the proprietary kernel module of the same driver, then reboot"
                      : "install the open kernel module of the same driver, then reboot";
        p.command = install_flavour(h, a, branch, !open);
    } else {
        return false;
    }
    add_release_problem(h, a, g, &p);
    return true;
}

/* ------------------------------------------------------------------ kept from loading */

static bool ask_switched_off(const struct host *h, struct arena *a, struct host_gpu *g)
{
    const struct host_fact *off = &h->nvidia.switched_off;
    if (off->state != HOST_YES) {
        return false;
    }
    bool prime = off->value != NULL;
    host_add_problem(a, g, "switched-off", HOST_NO,
                     prime ? arena_printf(a, "prime-select has switched it off (%s)", off->where)
                           : arena_printf(a, "%s forbids the nvidia module to load", off->where),
                     prime ? "switch it on, then reboot"
                           : arena_printf(a, "remove the line from %s, then reboot", off->where))
        ->command = prime ? "sudo prime-select on-demand && sudo reboot" : NULL;
    return true;
}

/* DKMS and akmods sign what they build with a key of the machine's own, which the firmware must
 * know. akmods puts its modules into extra/NAME (kmodtool). */
static bool is_signed_here(const struct host_nvidia *n, const char *folder)
{
    return n->module_on_disk.state == HOST_YES && n->module_on_disk.value &&
           strstr(n->module_on_disk.value, folder);
}

static bool ask_secure_boot(const struct host *h, struct arena *a, struct host_gpu *g)
{
    const struct host_nvidia *n = &h->nvidia;
    bool here = is_signed_here(n, "dkms/") || is_signed_here(n, "extra/nvidia/");
    if (!here || n->secure_boot.state != HOST_YES || n->key_enrolled.state != HOST_NO) {
        return false;
    }
    host_add_problem(a, g, "secure-boot", HOST_NO,
                     arena_printf(a,
                                  "Secure Boot is on, and the key that signed the module (%s) is "
                                  "not enrolled",
                                  n->key_enrolled.where),
                     "enrol the key, reboot, and confirm it in the blue screen (Enroll MOK)")
        ->command =
        arena_printf(a, "sudo mokutil --import %s && sudo reboot", n->key_enrolled.where);
    return true;
}

static bool ask_failed_build(const struct host *h, struct arena *a, struct host_gpu *g)
{
    const struct host_nvidia *n = &h->nvidia;
    if (n->module_on_disk.state != HOST_NO || n->build_log.state != HOST_YES) {
        return false;
    }
    bool headers = n->headers.state != HOST_NO;
    host_add_problem(a, g, "build-failed", HOST_NO,
                     arena_printf(a, "DKMS did not build its module for the running kernel %s%s",
                                  h->kernel.value,
                                  headers ? "" : ": the headers of that kernel are missing"),
                     headers ? arena_printf(a,
                                            "read why in %s (a kernel newer than the driver is "
                                            "the usual reason: update the driver)",
                                            n->build_log.where)
                             : "install the headers of this kernel and build the module again")
        ->command =
        headers ? arena_printf(a, "tail -n 40 %s", n->build_log.where)
        : unloaded_on(h, "debian") || unloaded_on(h, "ubuntu")
            ? "sudo apt-get install linux-headers-$(uname -r) && sudo dkms autoinstall"
        : unloaded_on(h, "fedora") || unloaded_on(h, "rhel") || unloaded_on(h, "rocky") ||
                unloaded_on(h, "almalinux") || unloaded_on(h, "centos")
            ? "sudo dnf install kernel-devel-$(uname -r) && sudo dkms autoinstall"
        : unloaded_on(h, "arch") || unloaded_on(h, "manjaro")
            ? "sudo pacman -S \"$(cat /usr/lib/modules/$(uname -r)/pkgbase)-headers\" && sudo dkms "
              "autoinstall"
            : NULL;
    return true;
}

bool host_judge_bound(const struct host *h, struct arena *a, struct host_gpu *g)
{
    return ask_release(h, a, g, true);
}

bool host_judge_unloaded(const struct host *h, struct arena *a, struct host_gpu *g)
{
    return ask_release(h, a, g, false) ||
           (h->nvidia.module.state != HOST_YES &&
            (ask_switched_off(h, a, g) || ask_secure_boot(h, a, g) || ask_failed_build(h, a, g)));
}

/* ------------------------------------------------------------------ facts */

/* The word of Ubuntu's prime-select (package nvidia-prime), and what modprobe(8) may not load. */
static struct host_fact switched_off(struct host_look *l)
{
    static const char prime[] = "/etc/prime-discrete";
    static const char *const folders[] = {"/etc/modprobe.d", "/lib/modprobe.d",
                                          "/usr/lib/modprobe.d"};
    struct str text, line;
    if (host_read(l, prime, &text) == 0 && str_is(str_trim(text), "off")) {
        return host_yes(prime, "off");
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct root_dir files = host_entries(l, folders[i], "*.conf");
        for (size_t k = 0; k < files.n; k++) {
            const char *path = path_join(l->arena, folders[i], files.names[k]);
            if (host_read(l, path, &text) < 0) {
                continue;
            }
            while (str_line(&text, &line)) {
                line = str_trim(line);
                if (str_is(line, "alias nvidia off") || str_is(line, "blacklist nvidia") ||
                    str_is(line, "install nvidia /bin/false")) {
                    return host_yes(path, NULL);
                }
            }
        }
    }
    return host_no(folders[0], "nothing there forbids it");
}

/* UEFI specification, "Globally Defined Variables"; efivarfs puts four bytes of attributes first.
 */
static struct host_fact secure_boot(struct host_look *l)
{
    static const char path[] =
        "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    struct str text;
    int rc = host_read(l, path, &text);
    return rc < 0        ? host_unknown(path, host_why(l, rc))
           : text.n == 5 ? (text.s[4] == 1 ? host_yes(path, NULL) : host_no(path, "it is off"))
                         : host_unknown(path, "its form is not known");
}

/* The key of shim-signed (Ubuntu) or of DKMS (Debian), or that of akmods (README.secureboot) where
 * it built the module, in the list that shim hands on: MokListRT holds the certificates as they
 * are, in DER (shim, MokVars.txt). */
static struct host_fact key_enrolled(struct host_look *l)
{
    enum { KEYS_MAX = 1 << 20 };
    static const char list[] =
        "/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23";
    static const char *const keys[] = {"/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub",
                                       "/etc/pki/akmods/certs/public_key.der"};
    size_t n = sizeof keys / sizeof *keys;
    for (size_t i = is_signed_here(&l->host->nvidia, "extra/nvidia/") ? n - 1 : 0; i < n; i++) {
        struct str key, enrolled;
        if (root_read(l->root, l->arena, keys[i], KEYS_MAX, &key) < 0 || key.n < 64) {
            continue;
        }
        int rc = root_read(l->root, l->arena, list, KEYS_MAX, &enrolled);
        if (rc < 0 && rc != -ENOENT) {
            return host_unknown(list, host_why(l, rc));
        }
        bool has = rc == 0 && memmem(enrolled.s, enrolled.n, key.s, key.n);
        return has ? host_yes(keys[i], NULL) : host_no(keys[i], "it is not enrolled");
    }
    return host_unknown(keys[0], "the key cannot be read");
}

/* "/var/lib/dkms/nvidia/550.90.07/build/make.log" stays where a build failed: dkms(8). */
static struct host_fact build_log(struct host_look *l)
{
    static const char top[] = "/var/lib/dkms";
    struct root_dir modules = host_entries(l, top, "nvidia*");
    for (size_t i = 0; i < modules.n; i++) {
        const char *module = path_join(l->arena, top, modules.names[i]);
        struct root_dir versions = host_entries(l, module, "[0-9]*");
        for (size_t k = 0; k < versions.n; k++) {
            const char *path =
                arena_printf(l->arena, "%s/%s/build/make.log", module, versions.names[k]);
            struct stat st;
            if (root_stat(l->root, path, &st) == 0) {
                return host_yes(path, NULL);
            }
        }
    }
    return host_no(top, "no build of a module called nvidia failed");
}

void host_collect_unloaded(struct host_look *l)
{
    struct host *h = l->host;
    struct host_nvidia *n = &h->nvidia;
    bool kernel = h->kernel.state == HOST_YES && !strchr(h->kernel.value, '/');
    n->switched_off = switched_off(l);
    n->secure_boot = secure_boot(l);
    n->key_enrolled = key_enrolled(l);
    n->build_log = build_log(l);
    n->headers =
        kernel ? host_presence(l, arena_printf(l->arena, "/lib/modules/%s/build", h->kernel.value),
                               arena_printf(l->arena, "/lib/modules/%s", h->kernel.value))
               : host_unknown(NULL, "the running kernel is not known");
}
