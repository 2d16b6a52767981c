/* Problems of GPUs, and the commands that mend some. */
#include "host/internal.h"

#include <string.h>

#include "host/manager.h"

static bool problem_on(const struct host *h, const char *os)
{
    return h->os.state == HOST_YES && strcmp(h->os.value, os) == 0;
}

struct host_problem *host_add_problem(struct arena *a, struct host_gpu *g, const char *id,
                                      enum host_state state, const char *text, const char *step)
{
    VEC_PUSH(a, &g->problems,
             (struct host_problem){.id = id, .text = text, .step = step, .state = state});
    return &g->problems.items[g->problems.n - 1];
}

const char *host_install_nvidia(const struct host *h)
{
    static const char *const commands[][2] = {
        {"ubuntu", "sudo ubuntu-drivers install && sudo reboot"},
        {"debian", "sudo apt-get install nvidia-driver && sudo reboot"},
        {"fedora", "sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda && sudo reboot"},
        {"arch", "sudo pacman -S nvidia-open nvidia-utils && sudo reboot"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (h->container.inside.state != HOST_YES && problem_on(h, commands[i][0])) {
            return commands[i][1];
        }
    }
    return NULL;
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
