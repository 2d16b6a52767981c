#include "node/users.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/str.h"

enum {
    PROCESSES_MAX = 65536,
    FILES_MAX = 65536, // of one process
    THREADS_MAX = 4096,
    MAJORS_MAX = 512, // CHRDEV_MAJOR_MAX of Linux, include/linux/fs.h
    ANCESTORS_MAX = 64,
    STATUS_BYTES_MAX = 1 << 20, // with all of NGROUPS_MAX (65536) groups; linux/limits.h
};

enum { NVIDIA_MAJOR = 195, DRM_MAJOR = 226, DRM_RENDER_MINOR = 128 }; // Linux: devices.txt

struct looker {
    struct root *r;
    struct arena *a, scratch; // of one process
    struct node_users *ret;
    pid_t ours;
    unsigned majors[MAJORS_MAX]; // of the drivers' device files, by /proc/devices
    size_t n_majors;
};

/* ------------------------------------------------------------------ device files */

static void find_majors(struct looker *l)
{
    struct str text, line;
    l->majors[l->n_majors++] = NVIDIA_MAJOR;
    if (root_read(l->r, l->a, "/proc/devices", STATUS_BYTES_MAX, &text) < 0) {
        return; // the names remain
    }
    while (str_line(&text, &line)) {
        struct str rest = str_trim(line), number = str_cut(&rest, ' ');
        uint64_t major = 0;
        bool known = rest.s && (str_starts(rest, "nvidia") || str_is(rest, "kfd"));
        if (known && str_u64(number, &major) && l->n_majors < MAJORS_MAX) {
            l->majors[l->n_majors++] = (unsigned)major;
        }
    }
}

static bool is_gpu_name(const char *path)
{
    return starts_with(path, "/dev/nvidia") || starts_with(path, "/dev/kfd") ||
           starts_with(path, "/dev/dri/renderD") || starts_with(path, "/dev/dxg");
}

/* `link` leads to the open file itself, whatever its name is now. */
static bool is_gpu_number(struct looker *l, const char *link)
{
    struct stat st;
    if (root_stat(l->r, link, &st) < 0 || !S_ISCHR(st.st_mode)) {
        return false;
    }
    for (size_t i = 0; i < l->n_majors; i++) {
        if (major(st.st_rdev) == l->majors[i]) {
            return true;
        }
    }
    return major(st.st_rdev) == DRM_MAJOR && minor(st.st_rdev) >= DRM_RENDER_MINOR;
}

/* What is under /dev alone is looked at: a file of a lost network share would not answer. */
static bool is_gpu_file(struct looker *l, const char *link, const char *path)
{
    return is_gpu_name(path) || (starts_with(path, "/dev/") && is_gpu_number(l, link));
}

/* ------------------------------------------------------------------ one process */

struct process {
    const char *pid, *comm;
    const char *file; // the GPU's that it holds, or NULL
    bool computes;    // it holds what only a program that computes opens
    bool unknown;     // its files cannot be listed
    size_t n_files;
};

/* A file or process that has gone meanwhile holds nothing; another errno hides something. */
static bool has_gone(int rc)
{
    return rc == -ENOENT || rc == -ESRCH;
}

static void look_at_files(struct looker *l, struct process *p, const char *folder)
{
    struct root_dir files;
    int rc = root_list(l->r, &l->scratch, folder, FILES_MAX, NULL, &files);
    if (rc < 0 || files.truncated) {
        p->unknown |= rc == 0 || !has_gone(rc);
        return;
    }
    p->n_files += files.n;
    for (size_t i = 0; i < files.n; i++) {
        const char *link = arena_printf(&l->scratch, "%s/%s", folder, files.names[i]);
        char *path;
        rc = root_readlink(l->r, &l->scratch, link, &path);
        if (rc < 0) {
            p->unknown |= !has_gone(rc);
        } else if (is_gpu_file(l, link, path)) {
            p->file = p->file ? p->file : arena_strdup(l->a, path);
            p->computes |= starts_with(path, "/dev/nvidia-uvm") || starts_with(path, "/dev/kfd");
        }
    }
}

/* The files of a process whose first thread has ended are those of its other threads. */
static void look_at_threads(struct looker *l, struct process *p)
{
    struct root_dir threads;
    int rc = root_list(l->r, &l->scratch, arena_printf(&l->scratch, "/proc/%s/task", p->pid),
                       THREADS_MAX, NULL, &threads);
    if (rc < 0 || threads.truncated) {
        p->unknown |= rc == 0 || !has_gone(rc);
        return;
    }
    for (size_t i = 0; i < threads.n; i++) {
        if (strcmp(threads.names[i], p->pid) != 0) {
            look_at_files(
                l, p, arena_printf(&l->scratch, "/proc/%s/task/%s/fd", p->pid, threads.names[i]));
        }
    }
}

/* A number of /proc/PID/status, the first of its line; false: it has gone, or has none. */
static bool status_number(struct looker *l, const char *pid, const char *key, uint64_t *ret)
{
    struct str text, line;
    if (root_read(l->r, &l->scratch, arena_printf(&l->scratch, "/proc/%s/status", pid),
                  STATUS_BYTES_MAX, &text) < 0) {
        return false;
    }
    while (str_line(&text, &line)) {
        if (str_starts(line, key)) {
            line.s += strlen(key);
            line.n -= strlen(key);
            line = str_trim(line);
            return str_u64(str_trim(str_cut(&line, '\t')), ret);
        }
    }
    return false;
}

static bool is_ours(struct looker *l, const char *pid)
{
    uint64_t at = 0;
    if (!l->ours || !str_u64(str_of(pid), &at)) {
        return false;
    }
    for (int i = 0; i < ANCESTORS_MAX && at > 1; i++) {
        if (at == (uint64_t)l->ours) {
            return true;
        }
        const char *child = arena_printf(&l->scratch, "%llu", (unsigned long long)at);
        if (!status_number(l, child, "PPid:", &at)) {
            return false;
        }
    }
    return false;
}

/*
 * Services of the driver that hold device files while nobody uses the GPU, by their names as the
 * kernel cuts them (15 characters), and run by a system user (login.defs(5): SYS_UID_MAX). That one
 * computes is not excused: DCGM's diagnostics do.
 *   nvidia-persistenced(1); the manuals of Fabric Manager and DCGM
 */
static bool is_service(struct looker *l, const struct process *p)
{
    static const char *const names[] = {"nvidia-persiste", "nv-fabricmanage", "nv-hostengine",
                                        "dcgm-exporter"};
    uint64_t uid = 0;
    if (p->computes || !status_number(l, p->pid, "Uid:", &uid) || uid > 999) {
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(p->comm, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static const char *comm_of(struct looker *l, const char *pid)
{
    struct str text;
    int rc = root_read(l->r, &l->scratch, arena_printf(&l->scratch, "/proc/%s/comm", pid),
                       STATUS_BYTES_MAX, &text);
    return rc < 0 ? "?" : str_dup(l->a, str_trim(text));
}

static void note_use(struct looker *l, enum node_use use, const char *says)
{
    if (l->ret->use == NODE_FREE || (use == NODE_IN_USE && l->ret->use != NODE_IN_USE)) {
        l->ret->use = use;
        l->ret->says = says;
    }
}

/* What hands GPUs out and does not say here to whom. */
static bool hands_out(const char *comm)
{
    static const char *const names[] = {"kubelet", "k3s-server", "k3s-agent", "kubelite"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(comm, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void look_at_process(struct looker *l, const char *pid)
{
    struct arena *a = l->a;
    struct process p = {.pid = pid, .comm = comm_of(l, pid)};
    look_at_files(l, &p, arena_printf(&l->scratch, "/proc/%s/fd", pid));
    if (p.n_files == 0 && !p.unknown) {
        look_at_threads(l, &p);
    }
    l->ret->has_slurmd |= strcmp(p.comm, "slurmd") == 0;
    const char *name = arena_printf(a, "process %s (%s)", pid, str_printable(a, p.comm));
    if (p.file && !is_service(l, &p) && !is_ours(l, pid)) {
        note_use(l, NODE_IN_USE, arena_printf(a, "%s holds %s", name, str_printable(a, p.file)));
    } else if (p.unknown) {
        note_use(l, NODE_USE_UNKNOWN, arena_printf(a, "the files of %s cannot be listed", name));
    } else if (hands_out(p.comm)) {
        note_use(l, NODE_USE_UNKNOWN,
                 arena_printf(a, "%s gives GPUs to pods, which ones is unknown here", name));
    }
}

/* ------------------------------------------------------------------ all of them */

static bool is_number(const char *name, void *unused)
{
    (void)unused;
    return *name && strspn(name, "0123456789") == strlen(name);
}

/* The first PID namespace has a fixed number (Linux: include/linux/proc_ns.h, PROC_PID_INIT_INO):
 * in any other one, processes of the machine are not seen. */
static bool sees_all_processes(struct looker *l)
{
    char *name;
    return root_readlink(l->r, l->a, "/proc/self/ns/pid", &name) == 0 &&
           strcmp(name, "pid:[4026531836]") == 0;
}

void node_users(struct root *r, struct arena *a, pid_t ours, struct node_users *ret)
{
    static const struct root_filter numbers = {.keep = is_number};
    struct looker l = {.r = r, .a = a, .ret = ret, .ours = ours};
    struct root_dir processes;
    *ret = (struct node_users){.use = NODE_FREE};
    find_majors(&l);
    int rc = root_list(r, a, "/proc", PROCESSES_MAX, &numbers, &processes);
    if (rc < 0 || processes.truncated || processes.n == 0) {
        note_use(&l, NODE_USE_UNKNOWN, "the processes of this machine cannot be listed");
        return;
    }
    for (size_t i = 0; i < processes.n; i++) {
        arena_init(&l.scratch, a->limit_bytes, a->oom, a->oom_arg);
        look_at_process(&l, processes.names[i]);
        arena_release(&l.scratch);
    }
    if (!sees_all_processes(&l)) {
        note_use(&l, NODE_USE_UNKNOWN, "the processes of other PID namespaces cannot be seen");
    }
}
