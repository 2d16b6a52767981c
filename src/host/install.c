/* The commands by which a distribution installs NVIDIA's driver and the container tools. */
#include "host/internal.h"

#include <elf.h>
#include <string.h>

#include "host/manager.h"

/* The driver that a distribution's package brings: that of Debian 12 at least, elsewhere the
 * newest; ubuntu-drivers and Manjaro's mhwd find the one for the GPU. */
static const struct distribution {
    const char *os, *command; // NULL: enterprise_command()
    unsigned branch;          // 0: the newest
    bool any, open_only;
    const char *from; // where the package is, if not in what the distribution comes with
} distributions[] = {
    {"ubuntu", "sudo ubuntu-drivers install && sudo reboot", 0, true, false, NULL},
    {"debian", "sudo apt-get install nvidia-driver && sudo reboot", 535, false, false,
     "The package is in the components contrib and non-free of Debian's archive, which have to "
     "be enabled (wiki.debian.org/NvidiaGraphicsDrivers)."},
    {"fedora", "sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda && sudo reboot", 0, false,
     false,
     "The packages are in RPM Fusion's repository nonfree, which has to be enabled "
     "(rpmfusion.org/Howto/NVIDIA)."},
    {"arch", "sudo pacman -S nvidia-open nvidia-utils && sudo reboot", 0, false, true, NULL},
    {"opensuse-tumbleweed",
     "sudo zypper install openSUSE-repos-Tumbleweed-NVIDIA && sudo zypper install-new-recommends "
     "--repo repo-non-free && sudo reboot",
     0, false, false, NULL},
    {"opensuse-leap",
     "sudo zypper install openSUSE-repos-Leap-NVIDIA && sudo zypper install-new-recommends "
     "--repo repo-non-free && sudo reboot",
     0, false, false, NULL},
    {"manjaro", "sudo mhwd -a pci nonfree 0300 && sudo reboot", 0, true, false, NULL},
    {"rhel", NULL, 0, false, true, NULL},
    {"rocky", NULL, 0, false, true, NULL},
    {"almalinux", NULL, 0, false, true, NULL},
    {"centos", NULL, 0, false, true, NULL},
};

/* Red Hat Enterprise Linux and what is built from it have no package of their own: NVIDIA's
 * repository, whose driver is a stream of a module up to release 9 (NVIDIA Driver Installation
 * Guide, "Kernel Modules", table 5), and DKMS from EPEL. */
static const char *enterprise_command(const struct host *h, struct arena *a)
{
    static const char *const releases[] = {"8", "9", "10"};
    const struct host_fact *version = &h->os_version;
    size_t n = version->state == HOST_YES ? strcspn(version->value, ".") : 0;
    if (h->kernel.state == HOST_YES && strstr(h->kernel.value, "uek")) {
        return NULL; // Oracle's own kernel, whose headers are kernel-uek-devel
    }
    for (size_t i = 0; h->machine == EM_X86_64 && i < sizeof releases / sizeof *releases; i++) {
        const char *r = releases[i];
        if (strlen(r) == n && strncmp(version->value, r, n) == 0) {
            return arena_printf(
                a,
                "sudo dnf install "
                "https://dl.fedoraproject.org/pub/epel/epel-release-latest-%s.noarch.rpm && sudo "
                "dnf config-manager --add-repo https://developer.download.nvidia.com/compute/cuda/"
                "repos/rhel%s/x86_64/cuda-rhel%s.repo && %ssudo dnf install kernel-devel-$(uname "
                "-r) nvidia-open && sudo reboot",
                r, r, r, n == 1 ? "sudo dnf module enable nvidia-driver:open-dkms && " : "");
        }
    }
    return NULL;
}

/* What is built from a distribution and has its packages (ID_LIKE of os-release(5)): Linux Mint and
 * Pop!_OS from Ubuntu, without whose desktop ubuntu-drivers may be missing; EndeavourOS and CachyOS
 * from Arch, the latter with kernels that nvidia-open is not built for (ArchWiki, NVIDIA). What is
 * built from Fedora has driver packages of its own. */
static const struct distribution derived[] = {
    {"ubuntu",
     "sudo apt-get install ubuntu-drivers-common && sudo ubuntu-drivers install && sudo reboot", 0,
     true, false, NULL},
    {"debian", "sudo apt-get install nvidia-driver && sudo reboot", 535, false, false,
     "The package is in the components contrib and non-free of Debian's archive, which have to "
     "be enabled (wiki.debian.org/NvidiaGraphicsDrivers)."},
    {"arch",
     "sudo pacman -S \"$(cat /usr/lib/modules/$(uname -r)/pkgbase)-headers\" nvidia-open-dkms "
     "nvidia-utils && sudo reboot",
     0, false, true, NULL},
    {"rhel", NULL, 0, false, true, NULL},
};

static const struct distribution *distribution_of(const struct host *h)
{
    if (h->container.inside.state == HOST_YES || h->os.state != HOST_YES) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof distributions / sizeof *distributions; i++) {
        if (strcmp(h->os.value, distributions[i].os) == 0) {
            return &distributions[i];
        }
    }
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++) {
        if (host_is(h, derived[i].os)) {
            return &derived[i];
        }
    }
    return NULL;
}

static const char *wanted_of(const struct host *h, struct arena *a, const struct host_gpu *g)
{
    const struct distribution *d = distribution_of(h);
    return d && !d->any ? host_driver_wanted(a, g, d->branch, d->open_only) : NULL;
}

/* Release 580, the last for Maxwell, Pascal and Volta, as packages of its own: RPM Fusion's, and
 * the Arch User Repository's, which pacman does not install. */
static const struct legacy {
    const char *os, *command, *step;
} legacies[] = {
    {"fedora", "sudo dnf install akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda && sudo reboot",
     "install NVIDIA's driver 580, the last for this GPU, from RPM Fusion, then reboot"},
    {"arch", NULL,
     "install nvidia-580xx-dkms and nvidia-580xx-utils, the last driver for this GPU, from the "
     "AUR, then reboot"},
};

static const struct legacy *legacy_of(const struct host *h, const char *wanted)
{
    for (size_t i = 0; wanted && i < sizeof legacies / sizeof *legacies; i++) {
        if (starts_with(wanted, "580, the last") && h->container.inside.state != HOST_YES &&
            h->os.state == HOST_YES && strcmp(h->os.value, legacies[i].os) == 0) {
            return &legacies[i];
        }
    }
    return NULL;
}

const char *host_install_nvidia(const struct host *h, struct arena *a, const struct host_gpu *g,
                                unsigned branch)
{
    const struct distribution *d = distribution_of(h);
    const struct legacy *legacy = g && branch == 0 ? legacy_of(h, wanted_of(h, a, g)) : NULL;
    bool old = d && d->branch && d->branch < branch;
    if (legacy) {
        return legacy->command;
    }
    return !d || old || (g && wanted_of(h, a, g)) ? NULL
           : d->command                           ? d->command
                                                  : enterprise_command(h, a);
}

const char *host_install_source(const struct host *h)
{
    const struct distribution *d = distribution_of(h);
    return d ? d->from : NULL;
}

const char *host_install_step(const struct host *h, struct arena *a, const struct host_gpu *g,
                              const char *step)
{
    const struct distribution *d = distribution_of(h);
    const char *wanted = wanted_of(h, a, g);
    const struct legacy *legacy = legacy_of(h, wanted);
    if (legacy) {
        return legacy->step;
    }
    if (d && !d->command && !wanted) {
        return "install NVIDIA's driver from NVIDIA's repository, then reboot";
    }
    return wanted ? arena_printf(a,
                                 "install NVIDIA's driver %s, which this distribution's own "
                                 "package may not be, then reboot",
                                 wanted)
                  : step;
}

const char *host_install_container_tools(const struct host *h, struct arena *a, const char *package)
{
    static const char rpms[] = "https://nvidia.github.io/libnvidia-container/stable/rpm/"
                               "nvidia-container-toolkit.repo";
    const struct host_manager_words *w =
        host_manager_words(h->manager == HOST_MANAGER_NONE ? HOST_APT : h->manager);
    const char *first = w->rpm ? arena_printf(a,
                                              "sudo curl -fsSLo /etc/yum.repos.d/"
                                              "nvidia-container-toolkit.repo %s && ",
                                              rpms)
                        : h->manager == HOST_ZYPPER
                            ? arena_printf(a, "sudo zypper addrepo %s && ", rpms)
                            : "";
    if (h->manager == HOST_PACMAN) {
        package = "nvidia-container-toolkit"; // it brings all of them
    }
    return h->manager == HOST_APK ? NULL
                                  : arena_printf(a, "%ssudo %s %s", first, w->install, package);
}
