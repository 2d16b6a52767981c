/*
 * Whether programs can use a GPU here. Each vendor has a table of questions; each question may add
 * a problem. The worst of the problems is the answer: one that says no, then one that leaves it
 * unknown. Without either the answer is yes.
 */
#include <string.h>

#include "host/internal.h"
#include "host/judge.h"

struct host_problem *host_judge_add(struct judge *j, const char *id, enum host_state state,
                                    const char *text, const char *step)
{
    return host_add_problem(j->arena, j->g, id, state, text, step);
}

bool host_gpu_is_bound(const struct host_gpu *g, const char *driver)
{
    return g->driver.state == HOST_YES && g->driver.value && strcmp(g->driver.value, driver) == 0;
}

void host_judge_driver_unknown(struct judge *j)
{
    host_judge_add(
        j, "driver-unknown", HOST_UNKNOWN,
        arena_printf(j->arena, "which driver is bound cannot be determined: %s", j->g->driver.why),
        NULL);
}

bool host_judge_in_container(const struct judge *j)
{
    return j->h->container.inside.state == HOST_YES;
}

/* ------------------------------------------------------------------ all vendors */

void host_ask_passed_through(struct judge *j)
{
    if (host_gpu_is_bound(j->g, "vfio-pci") || host_gpu_is_bound(j->g, "pci-stub")) {
        host_judge_add(
            j, "reserved-for-vm", HOST_NO,
            arena_printf(j->arena, "it is set aside for a virtual machine (bound to %s)",
                         j->g->driver.value),
            "if no virtual machine should have it: take its id out of the vfio-pci options (kernel "
            "command line, /etc/modprobe.d) and reboot");
    }
}

/* A refusal that the node's mode does not explain, in a container with SELinux' label. */
static bool host_ask_by_label(struct judge *j, const struct host_node *n)
{
    const struct host_fact *label = &j->h->container.label;
    if (!host_judge_in_container(j) || label->state != HOST_YES ||
        !strstr(label->value, ":container_t:") || (n->mode & 06) != 06) {
        return false;
    }
    struct host_problem *p = host_judge_add(
        j, "permission", HOST_NO,
        arena_printf(j->arena,
                     "%s may not be used, though its mode %04o lets everybody: SELinux keeps "
                     "containers from it (label %s)",
                     n->path, (unsigned)n->mode, label->value),
        "start the container with --security-opt label=disable, or on the host: sudo setsebool -P "
        "container_use_devices on");
    p->culprit = n->path;
    return true;
}

bool host_ask_rights(struct judge *j, const struct host_node *n)
{
    if (n->present.state != HOST_YES || n->usable.state == HOST_YES) {
        return false;
    }
    if (n->usable.state == HOST_UNKNOWN) {
        host_judge_add(j, "permission-unknown", HOST_UNKNOWN,
                       arena_printf(j->arena, "gpumend cannot tell whether %s may be used: %s",
                                    n->path, n->usable.why),
                       NULL);
        return true;
    }
    if (strcmp(n->usable.value, "EPERM") == 0) {
        struct host_problem *p = host_judge_add(
            j, "device-cgroup", HOST_NO,
            arena_printf(j->arena, "%s exists, but the device cgroup denies access (EPERM)",
                         n->path),
            host_judge_in_container(j)
                ? "restart the container; to prevent it: "
                  "nvidia-ctk system create-dev-char-symlinks --create-all on the host, or CDI, or "
                  "name the nodes with --device"
                : "allow it in the service or job that this runs in (systemd: DeviceAllow=)");
        p->culprit = n->path;
        return true;
    }
    if (host_ask_by_label(j, n)) {
        return true;
    }
    const char *group = n->group ? n->group : arena_printf(j->arena, "%u", (unsigned)n->gid);
    bool group_has = (n->mode & 060) == 060 && n->gid != 0;
    struct host_problem *p = host_judge_add(
        j, "permission", HOST_NO,
        arena_printf(j->arena, "this user does not have permission to use %s (mode %04o, group %s)",
                     n->path, (unsigned)n->mode, group),
        !group_has ? arena_printf(j->arena,
                                  "grant the users' group access: a udev rule for %s with GROUP "
                                  "and MODE=\"0660\"",
                                  n->path)
        : host_judge_in_container(j)
            ? arena_printf(j->arena, "start the container with --group-add %u%s", (unsigned)n->gid,
                           j->h->container.rootless.state == HOST_YES
                               ? " (rootless podman: --group-add keep-groups)"
                               : "")
            : arena_printf(j->arena, "sudo usermod -aG %s $USER, then log in again", group));
    p->culprit = n->path;
    p->command = group_has && !host_judge_in_container(j) && n->group
                     ? arena_printf(j->arena, "sudo usermod -aG %s \"$USER\"", group)
                     : NULL;
    return true;
}

void host_ask_all_rights(struct judge *j)
{
    for (size_t i = 0; i < j->g->nodes.n; i++) {
        if (host_ask_rights(j, &j->g->nodes.items[i])) {
            return;
        }
    }
}

void host_ask_visible(struct judge *j)
{
    host_judge_visible(j->h, j->arena, j->g);
}

/* ------------------------------------------------------------------ NVIDIA */

const struct host_library *host_judge_library(const struct host_nvidia *n, const char *name)
{
    for (size_t i = 0; i < n->libraries.n; i++) {
        if (strcmp(n->libraries.items[i].name, name) == 0) {
            return &n->libraries.items[i];
        }
    }
    return NULL;
}
