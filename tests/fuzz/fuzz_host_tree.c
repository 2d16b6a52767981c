/* A host whose files are pieces of the input, cut at 0xff bytes: /proc of processes, the settings
 * of container engines, the driver's files. */
#include <stdint.h>

#include "host/host.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const pieces[] = {
    "/proc/self/status",
    "/proc/self/cgroup",
    "/proc/self/mountinfo",
    "/proc/self/environ",
    "/proc/self/uid_map",
    "/proc/self/attr/current",
    "/proc/1/cgroup",
    "/proc/1/environ",
    "/proc/1/comm",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/devices",
    "/proc/sys/kernel/osrelease",
    "/proc/filesystems",
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/params",
    "/etc/docker/daemon.json",
    "/etc/containerd/config.toml",
    "/etc/crio/crio.conf",
    "/etc/containers/containers.conf",
    "/etc/nvidia-container-runtime/config.toml",
    "/etc/os-release",
    "/etc/group",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gm_err err;
    struct arena a;
    struct root root;
    struct host host;
    world_write_pieces(pieces, sizeof pieces / sizeof *pieces, data, size);
    arena_init(&a, (size_t)1 << 30, NULL, NULL);
    if (root_open(&root, world_top(), &err) == 0) {
        (void)!host_collect(&root, &a, &host, &err);
        root_close(&root);
    }
    arena_release(&a);
    return 0;
}
