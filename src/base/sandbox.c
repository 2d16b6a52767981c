#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"

#if defined(GPUMEND_SANITIZED) || !(defined(__x86_64__) || defined(__aarch64__))
/* The sanitizers make calls of their own: a thread that looks for leaks, files of /proc, memory.
 * For other processors there is no list. */
void sandbox_enter(const struct sandbox *s)
{
    (void)s;
}
#else

#if defined(__x86_64__)
enum { OWN_ARCH = AUDIT_ARCH_X86_64 & 0x7fffffff, X32_BIT = 0x40000000 };
#else
enum { OWN_ARCH = AUDIT_ARCH_AARCH64 & 0x7fffffff };
#endif

/* ------------------------------------------------------------------ the list */

/* Calls that neither change anything outside the process nor start anything, whatever their
 * arguments. */
static const unsigned harmless[] = {
    SYS_read,
    SYS_newfstatat,
    SYS_fstat,
    SYS_munmap,
    SYS_pread64,
    SYS_getdents64,
    SYS_brk,
    SYS_lseek,
    SYS_readlinkat,
    SYS_madvise,
    SYS_mremap,
    SYS_faccessat,
    SYS_statx,
    SYS_fstatfs,
    SYS_statfs,
    SYS_readv,
    SYS_preadv,
    SYS_fgetxattr,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fadvise64,
    SYS_getcwd,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_futex,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getresuid,
    SYS_getresgid,
    SYS_getrandom,
    SYS_getrusage,
    SYS_sched_getaffinity,
    SYS_sysinfo,
    SYS_uname,
    SYS_ppoll,
    SYS_dup,
    SYS_exit,
    SYS_exit_group,
    SYS_setitimer,
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
#ifdef SYS_open // the calls that newer processors do not have
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_poll,
    SYS_time,
    SYS_getrlimit,
#endif
};

/* One row: where `arg` of the call is `value`, or has one of its bits, `action` follows. The first
 * row that holds decides; a call without one is refused. */
enum test { ALWAYS, IS, HAS };
struct row {
    unsigned call, arg;
    enum test test;
    unsigned value, action;
};

#define REFUSE   SECCOMP_RET_TRAP
#define ALLOW    SECCOMP_RET_ALLOW
#define TO_WRITE (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY))

static const struct row looking[] = {
    {SYS_openat, 2, HAS, TO_WRITE, REFUSE},
    {SYS_openat, 0, ALWAYS, 0, ALLOW},
#ifdef SYS_open
    {SYS_open, 1, HAS, TO_WRITE, REFUSE},
    {SYS_open, 0, ALWAYS, 0, ALLOW},
#endif
    /* Standard output stays what it was: no other file gets its number. */
    {SYS_close, 0, IS, STDIN_FILENO, REFUSE},
    {SYS_close, 0, IS, STDOUT_FILENO, REFUSE},
    {SYS_close, 0, IS, STDERR_FILENO, REFUSE},
    {SYS_close, 0, ALWAYS, 0, ALLOW},
    /* A shared mapping of a file that was inherited would write to it. iconv_open() wants one of
     * its cache, and reads that without. */
    {SYS_mmap, 3, HAS, MAP_SHARED, SECCOMP_RET_ERRNO | EACCES},
    {SYS_mmap, 2, HAS, PROT_EXEC, REFUSE},
    {SYS_mmap, 0, ALWAYS, 0, ALLOW},
    {SYS_mprotect, 2, HAS, PROT_EXEC, REFUSE},
    {SYS_mprotect, 0, ALWAYS, 0, ALLOW},
    {SYS_write, 0, IS, STDOUT_FILENO, ALLOW},
    {SYS_write, 0, IS, STDERR_FILENO, ALLOW},
    {SYS_writev, 0, IS, STDOUT_FILENO, ALLOW},
    {SYS_writev, 0, IS, STDERR_FILENO, ALLOW},
    {SYS_ioctl, 1, IS, TCGETS, ALLOW},
    {SYS_ioctl, 1, IS, TIOCGWINSZ, ALLOW},
    {SYS_fcntl, 1, IS, F_GETFD, ALLOW},
    {SYS_fcntl, 1, IS, F_SETFD, ALLOW},
    {SYS_fcntl, 1, IS, F_GETFL, ALLOW},
    {SYS_fcntl, 1, IS, F_DUPFD_CLOEXEC, ALLOW},
    {SYS_prlimit64, 0, IS, 0, ALLOW}, // of this process
    {SYS_kill, 1, IS, 0, ALLOW},      // asks whether a process is there
};

/* For sandbox.tree: Landlock says where. */
static const struct row making[] = {
    {SYS_openat, 0, ALWAYS, 0, ALLOW},  {SYS_pwrite64, 0, ALWAYS, 0, ALLOW},
    {SYS_mkdirat, 0, ALWAYS, 0, ALLOW}, {SYS_symlinkat, 0, ALWAYS, 0, ALLOW},
    {SYS_linkat, 0, ALWAYS, 0, ALLOW},  {SYS_unlinkat, 0, ALWAYS, 0, ALLOW},
    {SYS_mknodat, 0, ALWAYS, 0, ALLOW}, {SYS_ftruncate, 0, ALWAYS, 0, ALLOW},
    {SYS_fchmod, 0, ALWAYS, 0, ALLOW},  {SYS_fchmodat, 0, ALWAYS, 0, ALLOW},
    {SYS_fsync, 0, ALWAYS, 0, ALLOW},
#ifdef SYS_mkdir
    {SYS_mkdir, 0, ALWAYS, 0, ALLOW},
#endif
};

/* ------------------------------------------------------------------ the filter */

enum { FILTER_MAX = 512, ROWS_MAX = 160 };

struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short n;
};

static void filter_add(struct filter *f, unsigned code, unsigned k, unsigned char yes,
                       unsigned char no)
{
    if (f->n < FILTER_MAX) {
        f->code[f->n] = (struct sock_filter){(unsigned short)code, yes, no, k};
    }
    f->n++;
}

static void add_load(struct filter *f, size_t offset)
{
    filter_add(f, BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

static void add_row(struct filter *f, const struct row *r)
{
    size_t arg = offsetof(struct seccomp_data, args) + r->arg * sizeof(uint64_t); // its low half
    if (r->test == ALWAYS) {
        filter_add(f, BPF_JMP | BPF_JEQ | BPF_K, r->call, 0, 1);
        filter_add(f, BPF_RET | BPF_K, r->action, 0, 0);
        return;
    }
    filter_add(f, BPF_JMP | BPF_JEQ | BPF_K, r->call, 0, 4);
    add_load(f, arg);
    filter_add(f, BPF_JMP | (r->test == IS ? BPF_JEQ : BPF_JSET) | BPF_K, r->value, 0, 1);
    filter_add(f, BPF_RET | BPF_K, r->action, 0, 0);
    add_load(f, offsetof(struct seccomp_data, nr));
}

/* The rows that may hold, by their calls; rows of one call stay in the order in which they came. */
struct rows {
    const struct row *items[ROWS_MAX];
    size_t n;
};

static void rows_take(struct rows *all, const struct row *r)
{
    size_t at = all->n < ROWS_MAX ? all->n++ : ROWS_MAX - 1; // the tables have fewer
    for (; at > 0 && all->items[at - 1]->call > r->call; at--) {
        all->items[at] = all->items[at - 1];
    }
    all->items[at] = r;
}

#define TAKE_ROWS(all, rows)                                                                       \
    for (size_t row_at = 0; row_at < sizeof(rows) / sizeof *(rows); row_at++) {                    \
        rows_take(all, &(rows)[row_at]);                                                           \
    }

/* Halves what is left: the kernel walks the filter for every call number when it is installed. */
static void filter_add_rows(struct filter *f, const struct row *const *rows, size_t n)
{
    enum { FEW = 4 };
    size_t mid = n / 2;
    while (mid > 0 && rows[mid - 1]->call == rows[mid]->call) {
        mid--;
    }
    if (n <= FEW || mid == 0) {
        for (size_t i = 0; i < n; i++) {
            add_row(f, rows[i]);
        }
        filter_add(f, BPF_RET | BPF_K, REFUSE, 0, 0);
        return;
    }
    filter_add(f, BPF_JMP | BPF_JGE | BPF_K, rows[mid]->call, 1, 0);
    unsigned short jump = f->n;
    filter_add(f, BPF_JMP | BPF_JA, 0, 0, 0); // to the lower half, behind the upper one
    filter_add_rows(f, rows + mid, n - mid);
    if (jump < FILTER_MAX) {
        f->code[jump].k = (unsigned)(f->n - jump - 1);
    }
    filter_add_rows(f, rows, mid);
}

static void add_head(struct filter *f)
{
    add_load(f, offsetof(struct seccomp_data, arch));
    filter_add(f, BPF_ALU | BPF_AND | BPF_K, 0x7fffffff, 0,
               0); // less the highest bit, which all have
    filter_add(f, BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0);
    filter_add(f, BPF_RET | BPF_K, REFUSE, 0, 0);
    add_load(f, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
    filter_add(f, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    filter_add(f, BPF_RET | BPF_K, REFUSE, 0, 0);
#endif
}

static void filter_build(struct filter *f, const struct sandbox *s, bool by_landlock)
{
    const struct row own[] = {
        {SYS_openat2, 0, ALWAYS, 0, by_landlock ? ALLOW : SECCOMP_RET_ERRNO | ENOSYS},
        {SYS_tgkill, 0, IS, (unsigned)getpid(), ALLOW}, // abort()
    };
    struct row plain[sizeof harmless / sizeof *harmless];
    struct rows all = {.n = 0};
    if (s->tree) {
        TAKE_ROWS(&all, making);
    }
    TAKE_ROWS(&all, looking);
    TAKE_ROWS(&all, own);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        plain[i] = (struct row){harmless[i], 0, ALWAYS, 0, ALLOW};
        rows_take(&all, &plain[i]);
    }
    f->n = 0;
    add_head(f);
    filter_add_rows(f, all.items, all.n);
}

static void filter_install(const struct filter *f)
{
    struct sock_fprog program = {.len = f->n, .filter = (struct sock_filter *)(uintptr_t)f->code};
    /* Older kernels slow a filtered process down against speculation; nothing foreign runs here. */
    if (f->n <= FILTER_MAX &&
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) !=
            0 &&
        errno == EINVAL) {
        (void)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0,
                      &program); // absent: said in the header
    }
}

/* ------------------------------------------------------------------ a call that is refused */

static const struct {
    int call;
    const char *name;
} names[] = {
    {SYS_execve, "execve"},
    {SYS_execveat, "execveat"},
    {SYS_clone, "clone"},
    {SYS_clone3, "clone3"},
    {SYS_socket, "socket"},
    {SYS_connect, "connect"},
    {SYS_ptrace, "ptrace"},
    {SYS_kill, "kill"},
    {SYS_tgkill, "tgkill"},
    {SYS_openat, "openat"},
    {SYS_write, "write"},
    {SYS_writev, "writev"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_close, "close"},
    {SYS_mmap, "mmap"},
    {SYS_mprotect, "mprotect"},
    {SYS_ioctl, "ioctl"},
    {SYS_fcntl, "fcntl"},
    {SYS_prctl, "prctl"},
    {SYS_unlinkat, "unlinkat"},
    {SYS_mkdirat, "mkdirat"},
    {SYS_renameat2, "renameat2"},
    {SYS_fchmod, "fchmod"},
    {SYS_dup3, "dup3"},
    {SYS_memfd_create, "memfd_create"},
    {SYS_process_vm_writev, "process_vm_writev"},
#ifdef SYS_open
    {SYS_open, "open"},
    {SYS_dup2, "dup2"},
    {SYS_fork, "fork"},
    {SYS_vfork, "vfork"},
    {SYS_mkdir, "mkdir"},
    {SYS_unlink, "unlink"},
    {SYS_rename, "rename"},
#endif
};

static const char *call_name(int call)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].call == call) {
            return names[i].name;
        }
    }
    return "it has no name here";
}

static void on_refused(int signal_number, siginfo_t *info, void *context)
{
    char text[160];
    (void)signal_number;
    (void)context;
    int n =
        snprintf(text, sizeof text,
                 "gpumend: system call %d (%s) is not one that looking needs; it was refused, and "
                 "the answer is not known\n",
                 info->si_syscall, call_name(info->si_syscall));
    ssize_t done = write(STDERR_FILENO, text, n > 0 ? (size_t)n : 0);
    (void)done; // nothing better can be done when even that fails
    _exit(3);
}

static void listen_for_refusals(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    sigset_t set;
    action.sa_sigaction = on_refused;
    (void)sigemptyset(&action.sa_mask); // these cannot fail for valid signals
    (void)sigaction(SIGSYS, &action, NULL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGSYS);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* ------------------------------------------------------------------ Landlock */

/* linux/landlock.h of the newest ABI; the kernel takes as much of it as it knows. */
struct ruleset {
    uint64_t fs, net, scoped;
};

enum {
    FIRST_RIGHTS = (1 << 13) - 1, // ABI 1
    READ_RIGHTS = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
    REFER = 1 << 13,     // ABI 2
    TRUNCATE = 1 << 14,  // ABI 3
    IOCTL_DEV = 1 << 15, // ABI 5
};

static uint64_t rights_of(long abi)
{
    return (FIRST_RIGHTS & ~READ_RIGHTS) | (abi >= 2 ? REFER : 0) | (abi >= 3 ? TRUNCATE : 0) |
           (abi >= 5 ? IOCTL_DEV : 0);
}

/* The tree's folder; one that is still to be made, by its parent. */
static int open_tree(const char *path)
{
    struct arena a;
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        arena_init(&a, 0, NULL, NULL);
        char *parent = arena_strdup(&a, path);
        size_t n = strlen(parent);
        while (n && parent[n - 1] == '/') {
            n--;
        }
        while (n && parent[n - 1] != '/') {
            n--;
        }
        parent[n] = '\0';
        fd = open(n ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        arena_release(&a);
    }
    return fd;
}

static bool grant_tree(int rules, const char *tree, uint64_t rights)
{
    const uint64_t not_needed = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                                IOCTL_DEV;
    struct landlock_path_beneath_attr below = {.allowed_access = rights & ~not_needed,
                                               .parent_fd = open_tree(tree)};
    if (below.parent_fd < 0) {
        return true; // nothing can be made there: said when it is tried
    }
    long rc = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
    (void)close(below.parent_fd);
    return rc == 0;
}

/* Whether it holds now. */
static bool lock_files(const struct sandbox *s)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    /* Two names of a file in two folders of a tree need ABI 2. */
    if (abi < (s->tree ? 2 : 1) || s->processes) {
        return false;
    }
    const struct ruleset all = {rights_of(abi), 3, 3};
    size_t size = abi >= 6   ? sizeof all
                  : abi >= 4 ? offsetof(struct ruleset, scoped)
                             : sizeof all.fs;
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
    if (rules < 0) {
        return false;
    }
    bool good = (!s->tree || grant_tree(rules, s->tree, all.fs)) &&
                syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    (void)close(rules);
    return good;
}

/* ------------------------------------------------------------------ all of it */

/* A standard stream that is closed stays unusable, and its number taken. */
static void take_free_streams(void)
{
    int fd;
    do {
        fd = open("/", O_PATH | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
}

void sandbox_enter(const struct sandbox *s)
{
    struct filter f;
    take_free_streams();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return; // what follows needs it
    }
    listen_for_refusals();
    filter_build(&f, s, lock_files(s));
    filter_install(&f);
}
#endif
