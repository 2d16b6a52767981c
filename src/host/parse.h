/*
 * The text files of /proc and /sys as values. Pure functions over slices: no file is opened here,
 * every input is taken as hostile, nothing is longer than its line.
 *
 * Sources: Linux Documentation/filesystems/proc.rst, admin-guide/cgroup-v1, cgroup-v2.rst,
 * drivers/gpu/drm/amd/amdkfd/kfd_topology.c; NVIDIA open-gpu-kernel-modules
 * kernel-open/nvidia/nv-procfs.c; x86-64 psABI, "Micro-Architecture Levels".
 */
#ifndef GPUMEND_HOST_PARSE_H
#define GPUMEND_HOST_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* "key<sep>value": the trimmed value of the first line whose trimmed key is `key`; false if there
 * is none. Fits cpuinfo, meminfo, status, and /proc/driver/nvidia (sep ':'). */
bool host_parse_key(struct str text, const char *key, char sep, struct str *ret);

/* A line "key number" of KFD's properties files; false without it or when it is no number. */
bool host_parse_property(struct str text, const char *key, uint64_t *ret);

/* "0x10de" or "10de"; at most `digits` hexadecimal digits. */
bool host_parse_hex(struct str text, unsigned digits, uint32_t *ret);

/* The name of a PCI function, "0000:01:00.0"; the domain may have 4 to 8 digits. */
struct host_bdf {
    uint32_t domain;
    uint8_t bus, device, function;
};
bool host_parse_bdf(struct str text, struct host_bdf *ret);

/* The driver version of the NVRM line of /proc/driver/nvidia/version: the first word of digits and
 * dots behind "Kernel Module". *ret_open: the line says "Open Kernel Module". False when there is
 * no such line, or its version is no number ("TempVersion"). */
bool host_parse_nvrm(struct str text, struct str *ret_version, bool *ret_open);

/* Whether text is a driver version: 2 to 4 groups of digits ("550.90.07"). */
bool host_parse_is_version(struct str text);

/* What follows ".so." in a file name when it is a version by the rule above. */
bool host_parse_so_version(struct str file_name, struct str *ret);

/* Major number of a character device driver in /proc/devices. */
bool host_parse_major(struct str text, const char *name, uint32_t *ret);

/* Number of members of a CPU list "0-3,8,10-11"; false for anything else, or above 65536. */
bool host_parse_cpu_list(struct str text, uint64_t *ret_count);

/* "gfx" and the digits of KFD's gfx_target_version: major * 10000 + minor * 100 + stepping, the
 * latter two as one hexadecimal digit each (kfd_device.c). NULL for 0 and what fits no name. */
const char *host_parse_gfx(struct arena *a, uint64_t gfx_target_version);

/* "gfx1030" for HSA_OVERRIDE_GFX_VERSION=10.3.0: three numbers of at most 15, as a name has one
 * digit for each of the last two. NULL for another form. */
const char *host_parse_gfx_override(struct arena *a, const char *text);

/* A line of /proc/self/mountinfo: the fields that are used, escapes (\040) kept. */
struct host_mount {
    struct str root, point, type, source, options;
};
bool host_parse_mount(struct str line, struct host_mount *ret);

/* A line of /proc/self/cgroup, "5:devices:/a" or "0::/a". */
struct host_cgroup_line {
    struct str controllers, path;
};
bool host_parse_cgroup(struct str line, struct host_cgroup_line *ret);

/* cpu.max ("max 100000", "150000 100000"): thousandths of a CPU; false without a limit. */
bool host_parse_cpu_max(struct str text, uint64_t *ret_millis);

/* A line of a captured tree's list of device nodes, see host.h:
 * "PATH c|b MAJOR MINOR MODE UID GID ACCESS". */
struct host_node_line {
    struct str path, access;
    uint64_t major, minor, mode, uid, gid;
    bool is_char;
};
bool host_parse_node(struct str line, struct host_node_line *ret);

/* One value of the blocks of NUL-ended "K=V" in /proc/PID/environ; false if unset. */
bool host_parse_environ(struct str block, const char *name, struct str *ret);

/* The name of a group in /etc/group; false if it has none. */
bool host_parse_group(struct str text, uint64_t gid, struct str *ret_name);

/* The devices cgroup of version 1 (devices.list): whether a character device may be read and
 * written. "a *:* rwm", "c 195:* rw". */
bool host_parse_devices_allow(struct str list, uint64_t major, uint64_t minor);

#endif
