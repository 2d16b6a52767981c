/*
 * Why NVIDIA's driver does not have a GPU: its release, or its flavour, is not for the GPU; or a
 * module that is on disk, or should be, was kept from loading. The first that is told by files is
 * the answer; otherwise host_judge_nvidia() says what is missing.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* The system is this one or built from it, and the commands are for it, not for a container. */
static bool unloaded_on(const struct host *h, const char *os)
{
    return h->container.inside.state != HOST_YES && host_is(h, os);
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

/* What installs it where the distribution's package is of the release that is wanted; the step says
 * what its package may not be. */
static void install_newest(const struct host *h, struct arena *a, const struct host_gpu *g,
                           unsigned branch, struct host_problem *p)
{
    if (!p->command) {
        p->step = host_install_step(h, a, g, p->step);
        p->command = host_install_nvidia(h, a, g, branch);
    }
}

static const char *install_flavour(const struct host *h, struct arena *a, unsigned branch,
                                   bool open)
{
    if (!unloaded_on(h, "ubuntu") && unloaded_on(h, "debian")) {
        return open ? "sudo apt-get install nvidia-open-kernel-dkms && sudo reboot"
                    : "sudo apt-get install nvidia-kernel-dkms && sudo reboot";
    }
    return install_branch(h, a, branch, open);
}

static bool have_one_driver(const struct host_branches *a, const struct host_branches *b)
{
    unsigned first = a->first > b->first ? a->first : b->first;
    unsigned last = !a->last || (b->last && b->last < a->last) ? b->last : a->last;
    return (!last || first <= last) && ((a->open && b->open) || (a->proprietary && b->proprietary));
}

/* Another GPU that NVIDIA's driver has or could have, and that no driver supports together with
 * `g`; NULL: there is none. */
static const struct host_gpu *excluded_by(const struct host *h, const struct host_gpu *g)
{
    const struct host_branches *own = host_branches_of(g);
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *other = &h->gpus.items[i];
        const struct host_branches *its = host_branches_of(other);
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
    const struct host_branches *b = host_branches_of(g);
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
        install_newest(h, a, g, b->first, &p);
    } else if (b->last && branch > b->last) {
        p.id = "driver-too-new";
        p.text = arena_printf(a, "the driver %s no longer supports this GPU: its last branch is %u",
                              version, b->last);
        p.step = arena_printf(a, "install NVIDIA's driver %u, then reboot", b->last);
        p.command = install_branch(h, a, b->last, false);
        install_newest(h, a, g, 0, &p);
    } else if (branch >= b->first && told && !(open ? b->open : b->proprietary)) {
        p.id = "wrong-module";
        const char *is = h->nvidia.module.state == HOST_YES ? "loaded" : "installed";
        p.text = arena_printf(a,
                              open ? "the open kernel module is %s, which is for Turing and later "
                                     "GPUs"
                                   : "the proprietary kernel module is %s, and this GPU needs the "
                                     "open one",
                              is);
        p.step = open ? "install the proprietary kernel module of the same driver, then reboot"
                      : "install the open kernel module of the same driver, then reboot";
        p.command = install_flavour(h, a, branch, !open);
        if (open && b->last) {
            install_newest(h, a, g, 0, &p);
        }
    } else {
        return false;
    }
    add_release_problem(h, a, g, &p);
    return true;
}

/* ------------------------------------------------------------------ kept from loading */

static const char suse_prime[] = "/etc/prime/current_type";

static bool ask_switched_off(const struct host *h, struct arena *a, struct host_gpu *g)
{
    const struct host_fact *off = &h->nvidia.switched_off;
    if (off->state != HOST_YES) {
        return false;
    }
    bool prime = off->value != NULL, suse = prime && strcmp(off->where, suse_prime) == 0;
    bool owned = starts_with(off->where, "/etc/"); // a package's file would come back
    host_add_problem(a, g, "switched-off", HOST_NO,
                     prime ? arena_printf(a, "prime-select has switched it off (%s)", off->where)
                           : arena_printf(a, "%s forbids the nvidia module to load", off->where),
                     prime ? "switch it on, then reboot"
                           : arena_printf(a, "remove the line from %s, then reboot", off->where))
        ->command = suse    ? "sudo prime-select nvidia && sudo reboot"
                    : prime ? "sudo prime-select on-demand && sudo reboot"
                    : owned ? arena_printf(a,
                                           "sudo sed -i -E 's/^[[:space:]]*(alias nvidia "
                                           "off|blacklist nvidia|install nvidia .*false)"
                                           "[[:space:]]*$/# &/' %s && sudo reboot",
                                           str_shell_word(a, off->where))
                            : NULL;
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
    bool here = is_signed_here(n, "dkms/") || is_signed_here(n, "extra/nvidia/") ||
                is_signed_here(n, "updates/nvidia.ko");
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

static const char akmods_cache[] = "/var/cache/akmods";

/* "default" of openSUSE's "6.11.0-1-default", whose headers are kernel-default-devel. */
static const char *kernel_flavour(const struct host *h)
{
    return h->kernel.state == HOST_YES && ends_with(h->kernel.value, "-longterm") ? "longterm"
                                                                                  : "default";
}

const char *host_build_module(const struct host *h, struct arena *a, bool akmods)
{
    static const char *const red_hat[] = {"fedora", "rhel", "rocky", "almalinux", "centos"};
    const char *kernel = h->kernel.state == HOST_YES ? h->kernel.value : "";
    const char *devel = strstr(kernel, "uek") ? "kernel-uek-devel" : "kernel-devel";
    for (size_t i = 0; i < sizeof red_hat / sizeof *red_hat; i++) {
        if (unloaded_on(h, red_hat[i])) {
            return arena_printf(a,
                                "sudo dnf install %s-$(uname -r) && sudo %s && sudo modprobe "
                                "nvidia",
                                devel, akmods ? "akmods --force" : "dkms autoinstall");
        }
    }
    return unloaded_on(h, "debian") || unloaded_on(h, "ubuntu")
               ? "sudo apt-get install linux-headers-$(uname -r) && sudo dkms autoinstall && sudo "
                 "modprobe nvidia"
           : unloaded_on(h, "arch") || unloaded_on(h, "manjaro")
               ? "sudo pacman -S \"$(cat /usr/lib/modules/$(uname -r)/pkgbase)-headers\" && sudo "
                 "dkms autoinstall && sudo modprobe nvidia"
           : unloaded_on(h, "suse") || unloaded_on(h, "opensuse-tumbleweed")
               ? arena_printf(
                     a,
                     "sudo zypper install kernel-%s-devel && sudo dkms autoinstall && sudo "
                     "modprobe nvidia",
                     kernel_flavour(h))
               : NULL;
}

static bool ask_failed_build(const struct host *h, struct arena *a, struct host_gpu *g)
{
    const struct host_nvidia *n = &h->nvidia;
    if (n->module_on_disk.state != HOST_NO || n->build_log.state != HOST_YES) {
        return false;
    }
    bool headers = n->headers.state != HOST_NO;
    bool akmods = starts_with(n->build_log.where, akmods_cache);
    host_add_problem(a, g, "build-failed", HOST_NO,
                     arena_printf(a, "%s did not build its module for the running kernel %s%s",
                                  akmods ? "akmods" : "DKMS", h->kernel.value,
                                  headers ? "" : ": the headers of that kernel are missing"),
                     headers ? arena_printf(a,
                                            "read why in %s (a kernel newer than the driver is "
                                            "the usual reason: update the driver)",
                                            n->build_log.where)
                             : "install the headers of this kernel and build the module again")
        ->command = headers ? arena_printf(a, "sudo tail -n 40 %s", n->build_log.where)
                            : host_build_module(h, a, akmods);
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

/* The word of Ubuntu's prime-select (package nvidia-prime) or openSUSE's (openSUSE/SUSEPrime:
 * prime-select.sh, set_intel), and what modprobe(8) may not load. */
static struct host_fact switched_off(struct host_look *l)
{
    static const char prime[] = "/etc/prime-discrete";
    static const char *const folders[] = {"/etc/modprobe.d", "/lib/modprobe.d",
                                          "/usr/lib/modprobe.d"};
    struct str text, line;
    if (host_read(l, prime, &text) == 0 && str_is(str_trim(text), "off")) {
        return host_yes(prime, "off");
    }
    if (host_read(l, suse_prime, &text) == 0 &&
        (str_starts(text, "intel") || str_starts(text, "amd"))) {
        return host_yes(suse_prime, "off");
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

enum { KEYS_MAX = 1 << 20 };

/* Whether a certificate is in the list that shim hands on: MokListRT holds the certificates as they
 * are, in DER (shim, MokVars.txt). False: the key cannot be read. */
static bool key_listed(struct host_look *l, const char *path, struct host_fact *ret)
{
    static const char list[] =
        "/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23";
    struct str key, enrolled;
    if (root_read(l->root, l->arena, path, KEYS_MAX, &key) < 0 || key.n < 64) {
        return false;
    }
    int rc = root_read(l->root, l->arena, list, KEYS_MAX, &enrolled);
    bool has = rc == 0 && memmem(enrolled.s, enrolled.n, key.s, key.n);
    *ret = rc < 0 && rc != -ENOENT ? host_unknown(list, host_why(l, rc))
           : has                   ? host_yes(path, NULL)
                                   : host_no(path, "it is not enrolled");
    return true;
}

/* openSUSE's packages make a key for each release of the driver when they build its modules
 * (nvidia-open-driver-G06, kmp-post.sh: MOK-NAME-VERSION-RELEASE-FLAVOUR.der); the folder moved. */
static struct host_fact suse_key_enrolled(struct host_look *l)
{
    static const char *const folders[] = {"/usr/share/nvidia-pubkeys", "/var/lib/nvidia-pubkeys"};
    const char *version = driver_version(l->host, l->arena), *only = NULL, *own = NULL;
    struct host_fact ret;
    size_t keys = 0;
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        struct root_dir files = host_entries(l, folders[f], "MOK-nvidia*.der");
        for (size_t i = 0; i < files.n; i++) {
            only = path_join(l->arena, folders[f], files.names[i]);
            own = version && strstr(files.names[i], version) ? only : own;
            keys++;
        }
    }
    const char *path = own ? own : keys == 1 ? only : NULL;
    return path && key_listed(l, path, &ret) ? ret
                                             : host_unknown(folders[0], "the key cannot be read");
}

/* The key of shim-signed (Ubuntu) or of DKMS (Debian), or that of akmods (README.secureboot) where
 * it built the module. */
static struct host_fact key_enrolled(struct host_look *l)
{
    static const char *const keys[] = {"/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub",
                                       "/etc/pki/akmods/certs/public_key.der"};
    size_t n = sizeof keys / sizeof *keys;
    struct host_fact ret;
    if (is_signed_here(&l->host->nvidia, "updates/nvidia.ko")) {
        return suse_key_enrolled(l);
    }
    for (size_t i = is_signed_here(&l->host->nvidia, "extra/nvidia/") ? n - 1 : 0; i < n; i++) {
        if (key_listed(l, keys[i], &ret)) {
            return ret;
        }
    }
    return host_unknown(keys[0], "the key cannot be read");
}

/* Which module a package of the distribution has installed: by the module's name on Debian, by what
 * packages leave elsewhere. Unknown where both or none is seen. */
static struct host_fact installed_flavour(struct host_look *l)
{
    static const char pacman[] = "/var/lib/pacman/local";
    const struct host_nvidia *n = &l->host->nvidia;
    const char *version = driver_version(l->host, l->arena);
    unsigned branch = version ? (unsigned)strtoul(version, NULL, 10) : 0;
    if (is_signed_here(n, "/nvidia-current-open.ko") || is_signed_here(n, "/nvidia-current.ko")) {
        bool open = is_signed_here(n, "-open.ko");
        return host_yes(n->module_on_disk.where, open ? "open" : "proprietary");
    }
    struct root_dir packages = host_entries(l, pacman, "nvidia-open-*");
    if (packages.n > 0) {
        return host_yes(path_join(l->arena, pacman, packages.names[0]), "open");
    }
    // Ubuntu's: nvidia-dkms-570-open, nvidia-dkms-570-server-open, and the same without "-open".
    const char *found[2] = {NULL, NULL};
    for (size_t open = 0; branch && open < 2; open++) {
        for (size_t server = 0; server < 2; server++) {
            struct stat st;
            const char *path = arena_printf(l->arena, "/usr/share/doc/nvidia-dkms-%u%s%s/copyright",
                                            branch, server ? "-server" : "", open ? "-open" : "");
            found[open] = root_stat(l->root, path, &st) == 0 ? path : found[open];
        }
    }
    return found[0] && !found[1]   ? host_yes(found[0], "proprietary")
           : found[1] && !found[0] ? host_yes(found[1], "open")
                                   : n->flavour;
}

/* "nvidia/570.133.07-1-for-KERNEL.failed.log" of akmods, for the running kernel. */
static struct host_fact akmods_log(struct host_look *l, struct host_fact otherwise)
{
    const struct host_fact *kernel = &l->host->kernel;
    struct root_dir modules = host_entries(l, akmods_cache, "nvidia*");
    for (size_t i = 0; kernel->state == HOST_YES && i < modules.n; i++) {
        const char *folder = path_join(l->arena, akmods_cache, modules.names[i]);
        struct root_dir logs = host_entries(l, folder, "*.failed.log");
        const char *end = arena_printf(l->arena, "-for-%s.failed.log", kernel->value);
        for (size_t k = 0; k < logs.n; k++) {
            if (ends_with(logs.names[k], end)) {
                return host_yes(path_join(l->arena, folder, logs.names[k]), NULL);
            }
        }
    }
    return otherwise;
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
    return akmods_log(l, host_no(top, "no build of a module called nvidia failed"));
}

/* Arch removes the modules of the kernel that runs when it installs another. */
static bool kernel_replaced(struct host_look *l, const char *kernel)
{
    struct stat st;
    const char *own = arena_printf(l->arena, "/lib/modules/%s", kernel);
    struct root_dir kernels = host_entries(l, "/lib/modules", "[0-9]*");
    bool other = false;
    for (size_t i = 0; i < kernels.n && !other; i++) {
        const char *folder = path_join(l->arena, "/lib/modules", kernels.names[i]);
        other = root_stat(l->root, path_join(l->arena, folder, "modules.dep"), &st) == 0;
    }
    return other && root_stat(l->root, own, &st) == -ENOENT;
}

void host_collect_unloaded(struct host_look *l)
{
    struct host *h = l->host;
    struct host_nvidia *n = &h->nvidia;
    bool kernel = h->kernel.state == HOST_YES && !strchr(h->kernel.value, '/');
    n->switched_off = switched_off(l);
    n->secure_boot = secure_boot(l);
    n->key_enrolled = key_enrolled(l);
    if (n->flavour.state != HOST_YES && n->module.state != HOST_YES &&
        n->module_on_disk.state == HOST_YES) {
        n->flavour = installed_flavour(l);
    }
    n->build_log = build_log(l);
    n->kernel_replaced = kernel && kernel_replaced(l, h->kernel.value);
    n->headers =
        kernel ? host_presence(l, arena_printf(l->arena, "/lib/modules/%s/build", h->kernel.value),
                               arena_printf(l->arena, "/lib/modules/%s", h->kernel.value))
               : host_unknown(NULL, "the running kernel is not known");
}
