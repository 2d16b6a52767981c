/* The commands by which a distribution installs NVIDIA's driver and the container tools. */
#include "host/internal.h"

#include <string.h>

#include "host/manager.h"

static bool install_on(const struct host *h, const char *os)
{
    return h->os.state == HOST_YES && strcmp(h->os.value, os) == 0;
}

/* The driver that a distribution's package brings: that of Debian 12 at least, elsewhere the
 * newest; ubuntu-drivers finds the one for the GPU. */
static const struct distribution {
    const char *os, *command;
    unsigned branch; // 0: the newest
    bool any, open_only;
} distributions[] = {
    {"ubuntu", "sudo ubuntu-drivers install && sudo reboot", 0, true, false},
    {"debian", "sudo apt-get install nvidia-driver && sudo reboot", 535, false, false},
    {"fedora", "sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda && sudo reboot", 0, false,
     false},
    {"arch", "sudo pacman -S nvidia-open nvidia-utils && sudo reboot", 0, false, true},
};

static const struct distribution *distribution_of(const struct host *h)
{
    for (size_t i = 0; i < sizeof distributions / sizeof *distributions; i++) {
        if (h->container.inside.state != HOST_YES && install_on(h, distributions[i].os)) {
            return &distributions[i];
        }
    }
    return NULL;
}

static const char *wanted_of(const struct host *h, struct arena *a, const struct host_gpu *g)
{
    const struct distribution *d = distribution_of(h);
    return d && !d->any ? host_driver_wanted(a, g, d->branch, d->open_only) : NULL;
}

const char *host_install_nvidia(const struct host *h, struct arena *a, const struct host_gpu *g,
                                unsigned branch)
{
    const struct distribution *d = distribution_of(h);
    bool old = d && d->branch && d->branch < branch;
    return d && !old && (!g || !wanted_of(h, a, g)) ? d->command : NULL;
}

const char *host_install_step(const struct host *h, struct arena *a, const struct host_gpu *g,
                              const char *step)
{
    const char *wanted = wanted_of(h, a, g);
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
