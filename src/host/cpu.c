#include "host/internal.h"

#include <errno.h>
#include <string.h>

#include "ldso/cpu.h"

/* The path of this process in a hierarchy; controller "" is version 2. */
static const char *cgroup_path(struct host_look *l, const char *controller)
{
    struct str text, line;
    if (host_read(l, "/proc/self/cgroup", &text) < 0) {
        return "/";
    }
    while (str_line(&text, &line)) {
        struct host_cgroup_line c;
        if (!host_parse_cgroup(line, &c)) {
            continue;
        }
        struct str rest = c.controllers;
        do {
            if (str_is(str_cut(&rest, ','), controller)) {
                return path_normal(l->arena, str_dup(l->arena, c.path));
            }
        } while (rest.s);
    }
    return "/";
}

/* Takes the smallest limit from the process's cgroup up to the top. In a container the path may be
 * the host's, of which only the top can be seen: what is not there is passed over. */
typedef bool read_limit(struct host_look *l, const char *folder, uint64_t *ret, const char **where);

static bool smallest(struct host_look *l, const char *top, const char *path, read_limit *read,
                     uint64_t *ret, const char **ret_where)
{
    enum { DEPTH_MAX = 64 };
    bool found = false;
    const char *folder = path;
    for (int depth = 0;; depth++) {
        uint64_t value;
        const char *where;
        if (read(l, path_normal(l->arena, path_join(l->arena, top, folder + 1)), &value, &where) &&
            (!found || value < *ret)) {
            *ret = value, *ret_where = where, found = true;
        }
        if (strcmp(folder, "/") == 0) {
            break;
        }
        if (depth == DEPTH_MAX) {
            root_note_cut(l->root,
                          "the control group of this process is deeper than %d folders; "
                          "limits of those above were not read",
                          DEPTH_MAX);
            break;
        }
        folder = path_dir(l->arena, folder);
    }
    return found;
}

static bool number_in(struct host_look *l, const char *folder, const char *name, uint64_t *ret,
                      const char **where)
{
    struct str text;
    *where = path_join(l->arena, folder, name);
    return host_read(l, *where, &text) == 0 && str_u64(str_trim(text), ret);
}

static bool cpu_max(struct host_look *l, const char *folder, uint64_t *ret, const char **where)
{
    struct str text;
    *where = path_join(l->arena, folder, "cpu.max");
    return host_read(l, *where, &text) == 0 && host_parse_cpu_max(text, ret);
}

static bool cfs_quota(struct host_look *l, const char *folder, uint64_t *ret, const char **where)
{
    uint64_t quota, period;
    const char *other;
    if (!number_in(l, folder, "cpu.cfs_period_us", &period, &other) || period == 0 ||
        !number_in(l, folder, "cpu.cfs_quota_us", &quota, where) || quota > UINT64_MAX / 1000) {
        return false; // "-1": no limit
    }
    *ret = quota * 1000 / period;
    return true;
}

static bool memory_max(struct host_look *l, const char *folder, uint64_t *ret, const char **where)
{
    return number_in(l, folder, "memory.max", ret, where);
}

/* Version 1 writes "no limit" as the largest multiple of the page size. */
static bool memory_limit(struct host_look *l, const char *folder, uint64_t *ret, const char **where)
{
    return number_in(l, folder, "memory.limit_in_bytes", ret, where) &&
           *ret < (uint64_t)INT64_MAX - (1 << 20);
}

static void collect_limits(struct host_look *l)
{
    struct host_cpu *c = &l->host->cpu;
    static const char top[] = "/sys/fs/cgroup";
    struct host_fact v2 = host_presence(l, "/sys/fs/cgroup/cgroup.controllers", top);
    struct host_fact cpu1 = host_presence(l, "/sys/fs/cgroup/cpu", top);
    struct host_fact memory1 = host_presence(l, "/sys/fs/cgroup/memory", top);
    c->quota = host_no(top, "no cgroup sets a quota");
    c->memory_limit = host_no(top, "no cgroup sets a limit");
    uint64_t value = 0;
    const char *where = NULL;
    bool seen_cpu = false, seen_memory = false;
    if (v2.state == HOST_YES) {
        seen_cpu = seen_memory = true;
        if (smallest(l, top, cgroup_path(l, ""), cpu_max, &value, &where)) {
            c->quota = host_amount(where, value);
        }
        if (smallest(l, top, cgroup_path(l, ""), memory_max, &value, &where)) {
            c->memory_limit = host_amount(where, value);
        }
    }
    if (cpu1.state == HOST_YES) {
        seen_cpu = true;
        if (smallest(l, "/sys/fs/cgroup/cpu", cgroup_path(l, "cpu"), cfs_quota, &value, &where)) {
            c->quota = host_amount(where, value);
        }
    }
    if (memory1.state == HOST_YES) {
        seen_memory = true;
        if (smallest(l, "/sys/fs/cgroup/memory", cgroup_path(l, "memory"), memory_limit, &value,
                     &where)) {
            c->memory_limit = host_amount(where, value);
        }
    }
    if (!seen_cpu) {
        c->quota = host_unknown(top, "no cgroup of the CPU can be seen");
    }
    if (!seen_memory) {
        c->memory_limit = host_unknown(top, "no cgroup of memory can be seen");
    }
}

static struct host_fact cpu_list(struct host_look *l, const char *path, struct str text, int rc)
{
    uint64_t count;
    if (rc < 0) {
        return host_unknown(path, host_why(l, rc));
    }
    return host_parse_cpu_list(text, &count) ? host_amount(path, count)
                                             : host_unknown(path, "it is not a list of CPUs");
}

static void collect_cores(struct host_look *l)
{
    struct host_cpu *c = &l->host->cpu;
    static const char online[] = "/sys/devices/system/cpu/online", status[] = "/proc/self/status";
    struct str text = {0};
    int rc = host_read(l, online, &text);
    c->cores_online = cpu_list(l, online, text, rc);
    bool stated = host_parse_key(l->status, "Cpus_allowed_list", ':', &text);
    c->cores_affinity = cpu_list(l, status, text, stated ? 0 : -ENOENT);

    const struct host_fact *base =
        c->cores_affinity.state == HOST_YES ? &c->cores_affinity : &c->cores_online;
    c->cores = *base;
    // Offline CPUs may stand in the affinity mask.
    if (c->cores_online.state == HOST_YES && c->cores.number > c->cores_online.number) {
        c->cores = c->cores_online;
    }
    uint64_t by_quota = (c->quota.number + 999) / 1000;
    if (c->quota.state == HOST_YES && c->cores.state == HOST_YES && by_quota < c->cores.number) {
        c->cores = host_amount(c->quota.where, by_quota ? by_quota : 1);
    }
}

static void collect_x86(struct host_cpu *c, const char *path, struct str text)
{
    static const char *const level_names[] = {NULL, "x86-64-v1", "x86-64-v2", "x86-64-v3",
                                              "x86-64-v4"};
    struct ldso_cpu cpu;
    struct str flags;
    ldso_cpu_info(text, &cpu, &flags);
    if (!cpu.level) {
        c->isa = c->vectors = host_unknown(path, cpu.why);
        return;
    }
    c->isa = host_yes(path, level_names[cpu.level]);
    c->isa.number = (uint64_t)cpu.level;
    c->vectors = host_yes(path, ldso_cpu_has_flag(flags, "avx512f") ? "AVX-512"
                                : ldso_cpu_has_flag(flags, "avx2")  ? "AVX2"
                                : ldso_cpu_has_flag(flags, "avx")   ? "AVX"
                                                                    : "no AVX");
}

/* x86-64: "flags"; 64-bit Arm: "Features" (Documentation/arch/arm64/elf_hwcaps.rst). */
static void collect_isa(struct host_look *l)
{
    static const char path[] = "/proc/cpuinfo";
    struct host_cpu *c = &l->host->cpu;
    struct str text, value;
    int rc = root_read(l->root, l->arena, path, LDSO_CPUINFO_MAX, &text);
    c->model = c->isa = c->vectors = host_unknown(path, rc < 0 ? host_why(l, rc) : "not stated");
    if (rc < 0) {
        return;
    }
    if (host_parse_key(text, "model name", ':', &value) && value.n) {
        c->model = host_yes(path, str_dup(l->arena, value));
    }
    if (host_parse_key(text, "flags", ':', &value)) {
        collect_x86(c, path, text);
    } else if (host_parse_key(text, "Features", ':', &value)) {
        c->isa = host_yes(path, "aarch64");
        c->vectors = host_yes(path, ldso_cpu_has_flag(value, "sve")     ? "SVE"
                                    : ldso_cpu_has_flag(value, "asimd") ? "NEON"
                                                                        : "no NEON");
    }
}

static void collect_memory(struct host_look *l)
{
    static const char path[] = "/proc/meminfo";
    struct host_cpu *c = &l->host->cpu;
    struct str text, value;
    uint64_t kib;
    int rc = host_read(l, path, &text);
    c->memory_total = host_unknown(path, rc < 0 ? host_why(l, rc) : "it has no line MemTotal");
    if (rc == 0 && host_parse_key(text, "MemTotal", ':', &value) && str_ends(value, " kB") &&
        str_u64(str_cut(&value, ' '), &kib) && kib < UINT64_MAX / 1024) {
        c->memory_total = host_amount(path, kib * 1024);
    }
}

void host_collect_cpu(struct host_look *l)
{
    collect_limits(l);
    collect_cores(l);
    collect_isa(l);
    collect_memory(l);
}
