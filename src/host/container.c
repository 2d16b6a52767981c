/*
 * Inside a container or not, and which. Each sign is weak alone; they are asked in an order in
 * which the more exact answer comes first:
 *
 *   /.singularity.d              Apptainer
 *   /run/secrets/kubernetes.io, "kubepods" in /proc/self/cgroup or the cgroup's mount
 *   /run/.containerenv           podman (podman-run(1))
 *   /.dockerenv                  docker, unless the root is a disk of its own: a virtual machine
 *                                made of an image keeps the file
 *   container= of process 1      systemd's container interface: lxc, systemd-nspawn, wsl, ...
 *   /run/systemd/container       the same, written by systemd itself
 *   the root is an overlay of docker or of containers/storage
 */
#include "host/internal.h"

#include <errno.h>
#include <string.h>

static struct host_fact found(const char *where, const char *kind)
{
    return host_yes(where, kind);
}

/* A path whose being there is the sign. */
static const char *const signs[][2] = {
    {"/.singularity.d", "apptainer"},
    {"/run/secrets/kubernetes.io", "kubernetes"},
    {"/var/run/secrets/kubernetes.io", "kubernetes"},
    {"/run/.containerenv", "podman"},
    {"/.dockerenv", "docker"}, // the last: see mounts.root_is_disk
};

static struct host_fact by_sign(struct host_look *l, size_t first, size_t end)
{
    struct stat st;
    for (size_t i = first; i < end; i++) {
        if (root_lstat(l->root, signs[i][0], &st) == 0) {
            return found(signs[i][0], signs[i][1]);
        }
    }
    return (struct host_fact){0};
}

static struct host_fact by_cgroup(struct host_look *l)
{
    static const char *const words[][2] = {
        {"kubepods", "kubernetes"},
        {"/docker", "docker"},
        {"/lxc", "lxc"},
        {"/machine.slice/libpod", "podman"},
    };
    static const char path[] = "/proc/1/cgroup";
    struct str text;
    if (host_read(l, path, &text) < 0) {
        return (struct host_fact){0};
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_find(text, words[i][0]) < text.n) {
            return found(path, words[i][1]);
        }
    }
    return (struct host_fact){0};
}

static struct host_fact by_manager(struct host_look *l)
{
    struct str text, value;
    if (host_read(l, "/run/systemd/container", &text) == 0 && str_trim(text).n) {
        return found("/run/systemd/container", str_dup(l->arena, str_trim(text)));
    }
    if (host_read(l, "/proc/1/environ", &text) == 0 &&
        host_parse_environ(text, "container", &value) && value.n) {
        return found("/proc/1/environ", str_dup(l->arena, value));
    }
    return (struct host_fact){0};
}

/* What the driver's container tools mount: device nodes and versioned libraries. */
static void note_injected(struct host_look *l, const struct host_mount *m)
{
    struct host_container *c = &l->host->container;
    char *point = str_dup(l->arena, m->point);
    const char *base = path_base(point);
    bool device = str_glob("/dev/nvidia*", point) || str_glob("/dev/dri/*", point) ||
                  strcmp(point, "/dev/kfd") == 0 || strcmp(point, "/dev/dxg") == 0 ||
                  strcmp(point, "/dev/dri") == 0;
    bool library = str_glob("libcuda.so*", base) || str_glob("libnvidia-*.so*", base) ||
                   str_glob("libcudadebugger.so*", base) || strcmp(point, "/usr/lib/wsl/lib") == 0;
    if (device) {
        VEC_PUSH(l->arena, &c->injected_devices, point);
    } else if (library) {
        VEC_PUSH(l->arena, &c->injected_libraries, point);
    }
}

struct mounts {
    bool seen;
    bool root_is_disk;          // the whole of a block device's file system
    struct host_fact container; // what the root's mount says
};

static struct host_fact by_root(const struct host_mount *m, const char *path)
{
    static const char *const words[][2] = {
        {"/docker/", "docker"}, {"containers/storage", "podman"}, {"containerd", "containerd"}};
    for (size_t i = 0; str_is(m->type, "overlay") && i < sizeof words / sizeof *words; i++) {
        if (str_find(m->options, words[i][0]) < m->options.n) {
            return found(path, words[i][1]);
        }
    }
    return (struct host_fact){0};
}

static struct mounts read_mounts(struct host_look *l)
{
    enum { MOUNTS_MAX = 20000 };
    static const char path[] = "/proc/self/mountinfo";
    struct mounts all = {0};
    struct str text, line;
    struct host_mount m;
    all.seen = root_read(l->root, l->arena, path, (size_t)8 << 20, &text) == 0;
    for (int i = 0; all.seen && str_line(&text, &line); i++) {
        if (i == MOUNTS_MAX) {
            root_note_cut(l->root, "%s has more than %d lines; the others were not read", path,
                          MOUNTS_MAX);
            break;
        }
        if (!host_parse_mount(line, &m)) {
            continue;
        }
        note_injected(l, &m);
        if (str_is(m.point, "/")) {
            all.container = by_root(&m, path);
            all.root_is_disk = str_is(m.root, "/") && str_starts(m.source, "/dev/") &&
                               str_find(m.source, "docker") == m.source.n;
        }
    }
    return all;
}

static void collect_rootless(struct host_look *l)
{
    static const char path[] = "/proc/self/uid_map";
    struct host_container *c = &l->host->container;
    struct str text;
    uint64_t inside = 1, outside = 1, count = 0;
    int rc = host_read(l, path, &text);
    if (rc < 0) {
        c->rootless = host_unknown(path, host_why(l, rc));
        return;
    }
    uint64_t *const fields[] = {&inside, &outside, &count};
    struct str rest = text;
    size_t n = 0;
    while (rest.s && n < 3) {
        struct str word = str_trim(str_cut(&rest, ' '));
        n += word.n != 0 && str_u64(word, fields[n]);
    }
    // The first user namespace maps everything onto itself: user_namespaces(7).
    bool initial = n == 3 && inside == 0 && outside == 0 && count == UINT32_MAX;
    c->rootless = initial ? host_no(path, "the whole range of users is mapped onto itself")
                          : host_yes(path, NULL);
}

/* The label under which the kernel's security module has the process: proc_pid_attr(5). */
static struct host_fact security_label(struct host_look *l)
{
    static const char path[] = "/proc/self/attr/current";
    struct str text;
    int rc = host_read(l, path, &text);
    if (rc < 0 && rc != -EINVAL) { // EINVAL: no module that is active gives labels
        return host_unknown(path, host_why(l, rc));
    }
    struct str label = rc < 0 ? (struct str){0} : text;
    label.n = str_find_char(label, '\0');
    label = str_trim(label);
    return label.n ? host_yes(path, str_dup(l->arena, label))
                   : host_unknown(path, "no security module assigns one");
}

void host_collect_container(struct host_look *l)
{
    enum { N_SIGNS = sizeof signs / sizeof *signs, FIRST_ENGINE = 3 };
    struct host_container *c = &l->host->container;
    struct mounts mounts = read_mounts(l);
    struct host_fact answers[] = {
        by_sign(l, 0, FIRST_ENGINE),
        by_cgroup(l),
        by_sign(l, FIRST_ENGINE, mounts.root_is_disk ? N_SIGNS - 1 : N_SIGNS),
        by_manager(l),
        mounts.container,
    };
    c->inside = mounts.seen ? host_no("/proc/self/mountinfo", "no sign of a container was found")
                            : host_unknown("/proc/self/mountinfo", "it cannot be seen");
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (answers[i].state == HOST_YES) {
            c->inside = answers[i];
            break;
        }
    }
    collect_rootless(l);
    c->label = security_label(l);
    c->device_cgroup = host_presence(l, "/sys/fs/cgroup/devices/devices.list", "/sys/fs/cgroup");
    if (c->device_cgroup.state == HOST_YES) {
        c->device_cgroup.value = "1";
    } else if (c->device_cgroup.state == HOST_NO) {
        c->device_cgroup = host_unknown("/sys/fs/cgroup", "version 2 does not state its rules");
    }
}
