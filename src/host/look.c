#include "host/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ------------------------------------------------------------------ facts */

const char *host_state_name(enum host_state state)
{
    static const char *const names[] = {
        [HOST_UNKNOWN] = "unknown", [HOST_NO] = "no", [HOST_YES] = "yes"};
    return names[state];
}

const char *host_vendor_name(enum host_vendor vendor)
{
    static const char *const names[] = {[HOST_NVIDIA] = "NVIDIA",
                                        [HOST_AMD] = "AMD",
                                        [HOST_INTEL] = "Intel",
                                        [HOST_OTHER] = "other"};
    return names[vendor];
}

struct host_fact host_yes(const char *where, const char *value)
{
    return (struct host_fact){.state = HOST_YES, .value = value, .where = where};
}

struct host_fact host_amount(const char *where, uint64_t number)
{
    return (struct host_fact){.state = HOST_YES, .number = number, .where = where};
}

struct host_fact host_no(const char *where, const char *why)
{
    return (struct host_fact){.state = HOST_NO, .where = where, .why = why};
}

struct host_fact host_unknown(const char *where, const char *why)
{
    return (struct host_fact){.state = HOST_UNKNOWN, .where = where, .why = why};
}

const char *host_why(struct host_look *l, int rc)
{
    return rc == -ENOENT || rc == -ENOTDIR
               ? "it is not there"
               : arena_printf(l->arena, "cannot be read: %s", strerror(-rc));
}

int host_read(struct host_look *l, const char *path, struct str *ret)
{
    return root_read(l->root, l->arena, path, HOST_TEXT_MAX, ret);
}

struct host_fact host_presence(struct host_look *l, const char *path, const char *parent)
{
    struct stat st;
    int rc = root_stat(l->root, path, &st);
    if (rc == 0) {
        return host_yes(path, NULL);
    }
    if (rc != -ENOENT && rc != -ENOTDIR) {
        return host_unknown(path, host_why(l, rc));
    }
    rc = root_stat(l->root, parent, &st);
    return rc == 0 ? host_no(path, "it is not there")
                   : host_unknown(path, arena_printf(l->arena, "%s cannot be seen", parent));
}

struct host_fact host_text_fact(struct host_look *l, const char *path, const char *parent)
{
    struct str text;
    int rc = host_read(l, path, &text);
    if (rc < 0) {
        struct host_fact fact = host_presence(l, path, parent);
        return fact.state == HOST_YES ? host_unknown(path, host_why(l, rc)) : fact;
    }
    return host_yes(path, str_dup(l->arena, str_trim(text)));
}

static bool name_matches(const char *name, void *pattern)
{
    return str_glob(pattern, name);
}

struct root_dir host_entries(struct host_look *l, const char *path, const char *pattern)
{
    struct root_dir dir = {0};
    char *wanted = arena_strdup(l->arena, pattern);
    int rc = root_list(l->root, l->arena, path, HOST_NODES_MAX,
                       &(struct root_filter){name_matches, wanted}, &dir);
    if (rc < 0) {
        return (struct root_dir){0};
    }
    return dir;
}

/* ------------------------------------------------------------------ device nodes */

/* The line of a captured tree's list for this path. */
static bool listed_node(struct host_look *l, const char *path, struct host_node_line *ret)
{
    struct str rest = l->nodes_list, line;
    while (str_line(&rest, &line)) {
        if (host_parse_node(line, ret) && str_is(ret->path, path)) {
            return true;
        }
    }
    return false;
}

static bool host_in_group(const struct host *h, uint64_t gid)
{
    for (size_t i = 0; i < h->user.groups.n; i++) {
        if (h->user.groups.items[i] == gid) {
            return true;
        }
    }
    return false;
}

enum { OVERFLOW_ID = 65534 }; // what an unmapped id looks like in a user namespace

/* The rights that a program needs: 6, read and write; the nodes of capabilities are only read. */
static unsigned rights_needed(const struct host_node *n)
{
    return starts_with(n->path, "/dev/nvidia-caps/") ? 4 : 6;
}

/* The kernel's answer was not asked: by mode, owner and groups (Linux fs/namei.c,
 * generic_permission). Access lists and device cgroups cannot be seen this way. */
static struct host_fact usable_by_mode(const struct host *h, const struct host_node *n)
{
    const struct host_user *u = &h->user;
    uint64_t others = rights_needed(n), group = others << 3, owner = others << 6;
    if ((n->mode & others) == others) {
        return host_yes(n->path, NULL);
    }
    if (u->uid.state != HOST_YES) {
        return host_unknown(n->path, "whose rights count cannot be determined");
    }
    if ((u->uid.number == n->uid && (n->mode & owner) == owner) ||
        (host_in_group(h, n->gid) && n->gid != OVERFLOW_ID && (n->mode & group) == group)) {
        return host_yes(n->path, NULL);
    }
    bool mapped = n->uid != OVERFLOW_ID && n->gid != OVERFLOW_ID;
    if (u->dac_override.state == HOST_YES && (mapped || h->container.rootless.state == HOST_NO)) {
        return host_yes(n->path, NULL);
    }
    if (n->gid == OVERFLOW_ID && host_in_group(h, OVERFLOW_ID) && (n->mode & group) == group) {
        return host_unknown(n->path, "its group has no number in this user namespace");
    }
    struct host_fact fact = host_no(n->path, "neither the owner's, the group's nor others' "
                                             "permissions allow it");
    fact.value = "EACCES";
    return fact;
}

/* Version 1 of the device cgroup states its list, version 2 does not (it is a program in the
 * kernel: Documentation/admin-guide/cgroup-v2.rst, "Device controller"). */
static bool refused_by_cgroup(struct host_look *l, const struct host_node *n)
{
    struct str list;
    return host_read(l, "/sys/fs/cgroup/devices/devices.list", &list) == 0 && list.n &&
           !host_parse_devices_allow(list, n->major, n->minor);
}

static struct host_fact usable_here(struct host_look *l, const struct host_node *n)
{
    int rc = root_access(l->root, n->path, rights_needed(n) == 4 ? R_OK : R_OK | W_OK);
    if (rc == 0) {
        return host_yes(n->path, NULL);
    }
    struct host_fact fact = host_no(n->path, arena_strdup(l->arena, strerror(-rc)));
    if (rc == -EACCES || rc == -EPERM) {
        fact.value = rc == -EACCES ? "EACCES" : "EPERM";
        return fact;
    }
    return host_unknown(n->path, fact.why);
}

static struct host_fact usable_as_listed(struct host_look *l, const struct host_node *n,
                                         struct str access)
{
    struct host_fact fact = host_no(n->path, "as it was when the tree was captured");
    if (str_is(access, "ok")) {
        return host_yes(n->path, NULL);
    }
    if (str_is(access, "EPERM") || str_is(access, "EACCES")) {
        fact.value = str_is(access, "EPERM") ? "EPERM" : "EACCES";
        return fact;
    }
    fact = usable_by_mode(l->host, n);
    if (fact.state == HOST_YES && refused_by_cgroup(l, n)) {
        fact = host_no("/sys/fs/cgroup/devices/devices.list", "the device cgroup does not list it");
        fact.value = "EPERM";
    }
    return fact;
}

static const char *group_name(struct host_look *l, uint64_t gid)
{
    struct str text, name;
    return host_read(l, "/etc/group", &text) == 0 && host_parse_group(text, gid, &name)
               ? str_dup(l->arena, name)
               : NULL;
}

struct host_node host_node_at(struct host_look *l, const char *path)
{
    struct host_node n = {.path = arena_strdup(l->arena, path)};
    struct host_node_line line;
    struct stat st;
    if (listed_node(l, path, &line)) {
        n.major = line.major, n.minor = line.minor, n.mode = line.mode;
        n.uid = line.uid, n.gid = line.gid;
        n.present = host_yes("/.gpumend-nodes", NULL);
        n.usable = usable_as_listed(l, &n, line.access);
        n.group = group_name(l, n.gid);
        return n;
    }
    int rc = root_stat(l->root, path, &st);
    if (rc == 0 && S_ISCHR(st.st_mode)) {
        n.major = major(st.st_rdev), n.minor = minor(st.st_rdev);
        n.mode = st.st_mode & 07777, n.uid = st.st_uid, n.gid = st.st_gid;
        n.present = host_yes(n.path, NULL);
        n.usable = l->root->is_host ? usable_here(l, &n) : usable_by_mode(l->host, &n);
        n.group = group_name(l, n.gid);
        return n;
    }
    if (rc == 0) {
        n.present = host_no(n.path, "the file there is not a device node");
    } else if (rc != -ENOENT && rc != -ENOTDIR) {
        n.present = host_unknown(n.path, host_why(l, rc));
    } else {
        n.present = l->dev_seen ? host_no(n.path, "it is not there")
                                : host_unknown(n.path, "the device nodes cannot be seen");
    }
    n.usable = host_unknown(n.path, "there is no node to ask about");
    return n;
}

host_texts host_nodes_in(struct host_look *l, const char *folder, const char *pattern)
{
    host_texts paths = {0};
    struct root_dir dir = host_entries(l, folder, pattern);
    for (size_t i = 0; i < dir.n; i++) {
        VEC_PUSH(l->arena, &paths, path_join(l->arena, folder, dir.names[i]));
    }
    struct str rest = l->nodes_list, line;
    while (str_line(&rest, &line)) {
        struct host_node_line node;
        if (!host_parse_node(line, &node)) {
            continue;
        }
        char *path = str_dup(l->arena, node.path);
        if (strcmp(path_dir(l->arena, path), folder) == 0 && str_glob(pattern, path_base(path))) {
            VEC_PUSH(l->arena, &paths, path);
        }
    }
    return paths;
}

/* ------------------------------------------------------------------ libraries */

/* Where the packages of the distributions and of the vendors put their libraries. */
static const char *const library_dirs[] = {
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib64",
    "/usr/lib64/nvidia",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
    "/opt/cuda/lib64",
};

/* ld.so.cache of a 64-bit system may name 32-bit files too. */
bool host_is_32bit(struct root *r, const char *path)
{
    const void *data;
    size_t size;
    struct stat st;
    if (root_map(r, path, &data, &size, &st) < 0) {
        return false;
    }
    const unsigned char *p = data;
    bool yes = size > 4 && memcmp(p, "\177ELF", 4) == 0 && p[4] == 1;
    if (data) {
        (void)munmap((void *)(uintptr_t)data, size); // read only: nothing can be lost
    }
    return yes;
}

static void add_library(struct host_look *l, const char *name, const char *path,
                        struct host_libraries *ret)
{
    char *real;
    struct stat st;
    if (root_stat(l->root, path, &st) < 0 || !S_ISREG(st.st_mode) ||
        root_realpath(l->root, l->arena, path, &real) < 0 || host_is_32bit(l->root, real)) {
        return;
    }
    for (size_t i = 0; i < ret->found.n; i++) {
        if (strcmp(ret->found.items[i].real, real) == 0) {
            return;
        }
    }
    struct str version;
    bool stated = host_parse_so_version(str_of(path_base(real)), &version);
    VEC_PUSH(l->arena, &ret->found,
             (struct host_library){.name = name,
                                   .path = arena_strdup(l->arena, path),
                                   .real = real,
                                   .version = stated ? str_dup(l->arena, version) : NULL});
}

void host_find_library(struct host_look *l, const char *name, struct host_libraries *ret)
{
    *ret = (struct host_libraries){0};
    for (size_t i = 0; i < l->cached.n; i++) {
        if (strcmp(l->cached.items[i].name, name) == 0) {
            add_library(l, name, l->cached.items[i].path, ret);
        }
    }
    for (size_t i = 0; i < sizeof library_dirs / sizeof *library_dirs; i++) {
        add_library(l, name, path_join(l->arena, library_dirs[i], name), ret);
    }
}

static void read_cache(struct host_look *l)
{
    enum { CACHE_BYTES_MAX = 16 << 20, CACHED_MAX = 256 };
    static const char *const kept[] = {"libcuda*",     "libnvidia-*", "libze_*",
                                       "libigc*",      "libigdgmm*",  "libhsa-runtime64*",
                                       "libamdhip64*", "libdxcore*"};
    struct str bytes;
    if (root_read(l->root, l->arena, "/etc/ld.so.cache", CACHE_BYTES_MAX, &bytes) < 0) {
        return;
    }
    ldso_cache_parse(bytes.s, bytes.n, &l->cache);
    for (uint32_t i = 0; i < l->cache.n; i++) {
        if (l->cached.n == CACHED_MAX) {
            root_note_cut(l->root,
                          "/etc/ld.so.cache names more than %d libraries of drivers; the others "
                          "were not looked at",
                          CACHED_MAX);
            return;
        }
        const char *name, *path;
        if (!ldso_cache_entry(&l->cache, i, &name, &path) || path[0] != '/') {
            continue;
        }
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
            if (str_glob(kept[k], name)) {
                VEC_PUSH(l->arena, &l->cached, (struct host_library){.name = name, .path = path});
                break;
            }
        }
    }
}

/* ------------------------------------------------------------------ who and where */

const char *const host_variables[] = {
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HSA_OVERRIDE_GFX_VERSION",
    "ONEAPI_DEVICE_SELECTOR",
    "ZE_AFFINITY_MASK",
    "CUDA_DEVICE_ORDER",
    NULL,
};

static void read_environment(struct host_look *l)
{
    static const char path[] = "/proc/self/environ";
    int rc = host_read(l, path, &l->environ);
    if (rc < 0) {
        l->host->environment = host_unknown(path, host_why(l, rc));
        return;
    }
    l->host->environment = host_yes(path, NULL);
    for (const char *const *name = host_variables; *name; name++) {
        struct str value;
        if (host_parse_environ(l->environ, *name, &value)) {
            VEC_PUSH(l->arena, &l->host->variables,
                     (struct host_setting){*name, str_dup(l->arena, value)});
        }
    }
}

static struct host_fact os_value(struct host_look *l, const char *path, struct str text,
                                 const char *key)
{
    struct str value;
    if (!host_parse_key(text, key, '=', &value)) {
        return host_unknown(path, arena_printf(l->arena, "it has no %s", key));
    }
    if (value.n > 1 && value.s[0] == '"') {
        value = (struct str){value.s + 1, value.n - 2};
    }
    return host_yes(path, str_dup(l->arena, value));
}

/* os-release(5); the second place is the file itself, where /etc has no link to it. */
static void read_os(struct host_look *l)
{
    static const char *const paths[] = {"/etc/os-release", "/usr/lib/os-release"};
    struct host *h = l->host;
    struct str text;
    h->manager = host_manager(l->root, l->arena);
    h->os = host_unknown(paths[0], "no os-release states it");
    h->os_name = h->os_version = h->os_like = h->os_platform = h->os;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && h->os.state != HOST_YES; i++) {
        if (host_read(l, paths[i], &text) == 0) {
            h->os = os_value(l, paths[i], text, "ID");
            h->os_name = os_value(l, paths[i], text, "PRETTY_NAME");
            h->os_version = os_value(l, paths[i], text, "VERSION_ID");
            h->os_like = os_value(l, paths[i], text, "ID_LIKE");
            h->os_platform = os_value(l, paths[i], text, "PLATFORM_ID");
        }
    }
}

enum { CAP_DAC_OVERRIDE_BIT = 1 }; // linux/capability.h

static void read_user(struct host_look *l)
{
    static const char path[] = "/proc/self/status";
    struct host_user *u = &l->host->user;
    int rc = host_read(l, path, &l->status);
    struct str value;
    u->uid = host_unknown(path, rc < 0 ? host_why(l, rc) : "it has no line Uid");
    u->dac_override = host_unknown(path, rc < 0 ? host_why(l, rc) : "it has no line CapEff");
    if (rc < 0) {
        l->status = (struct str){0};
        return;
    }
    for (int i = 0; i < 2; i++) { // real, effective, saved, file system
        uint64_t id;
        if (!host_parse_key(l->status, i ? "Gid" : "Uid", ':', &value)) {
            continue;
        }
        (void)str_cut(&value, '\t');
        if (str_u64(str_cut(&value, '\t'), &id) && i == 0) {
            u->uid = host_amount(path, id);
        } else if (i) {
            VEC_PUSH(l->arena, &u->groups, id);
        }
    }
    if (host_parse_key(l->status, "Groups", ':', &value)) {
        uint64_t id;
        while (value.s) {
            if (str_u64(str_cut(&value, ' '), &id)) {
                VEC_PUSH(l->arena, &u->groups, id);
            }
        }
    }
    uint32_t low;
    if (host_parse_key(l->status, "CapEff", ':', &value) && value.n == 16 &&
        host_parse_hex((struct str){value.s + 8, 8}, 8, &low)) {
        u->dac_override = low >> CAP_DAC_OVERRIDE_BIT & 1
                              ? host_yes(path, NULL)
                              : host_no(path, "CAP_DAC_OVERRIDE is not among the rights");
    }
}

static void look_at_dev(struct host_look *l)
{
    struct stat st;
    if (!l->root->is_host && host_read(l, "/.gpumend-nodes", &l->nodes_list) < 0) {
        l->nodes_list = (struct str){0};
    }
    l->dev_seen =
        l->nodes_list.s || (root_stat(l->root, "/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
}

struct host_fact host_device(struct root *r, struct arena *a, const char *path, char *ret_type)
{
    struct host_look l = {.root = r, .arena = a};
    struct host_node_line line;
    struct stat st;
    look_at_dev(&l);
    if (listed_node(&l, path, &line)) {
        *ret_type = line.is_char ? 'c' : 'b';
        return host_yes("/.gpumend-nodes", NULL);
    }
    int rc = root_lstat(r, path, &st);
    if (rc == 0) {
        *ret_type = S_ISCHR(st.st_mode)    ? 'c'
                    : S_ISBLK(st.st_mode)  ? 'b'
                    : S_ISFIFO(st.st_mode) ? 'p'
                                           : '\0';
        return *ret_type || l.dev_seen ? host_yes(path, NULL)
                                       : host_unknown(path, "the device nodes cannot be seen");
    }
    if (rc != -ENOENT && rc != -ENOTDIR) {
        return host_unknown(path, host_why(&l, rc));
    }
    return l.dev_seen ? host_no(path, "it is not there")
                      : host_unknown(path, "the device nodes cannot be seen");
}

void host_collect_base(struct host_look *l)
{
    look_at_dev(l);
    if (host_read(l, "/proc/devices", &l->devices) < 0) {
        l->devices = (struct str){0};
    }
    l->host->kernel = host_text_fact(l, "/proc/sys/kernel/osrelease", "/proc/sys");
    read_os(l);
    read_user(l);
    read_environment(l);
    read_cache(l);
}
