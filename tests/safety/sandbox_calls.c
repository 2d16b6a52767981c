/* Gives up what a looking command gives up, then makes the one call that its argument names. Ends
 * with status 0 where the call was made, with 10 where it failed; a refusal ends it before. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/sandbox.h"

#ifndef TIOCSTI
#define TIOCSTI 0x5412
#endif

static char scratch[4096];

static long map(int protection, int flags)
{
    return mmap(NULL, 4096, protection, flags, flags & MAP_ANONYMOUS ? -1 : 0, 0) == MAP_FAILED ? -1
                                                                                                : 0;
}

static long open_to_write_by_openat2(const char *path)
{
    struct open_how how = {.flags = O_WRONLY | O_CREAT, .mode = 0600};
    return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static long of_32_bits(void)
{
#ifdef __x86_64__
    long rc;
    __asm__ volatile("int $0x80"
                     : "=a"(rc)
                     : "a"(20)
                     : "memory", "r8", "r9", "r10", "r11"); // getpid
    return rc;
#else
    return syscall(SYS_execve, NULL, NULL, NULL);
#endif
}

static long x32(void)
{
#ifdef __x86_64__
    return syscall(0x40000000 | SYS_getpid);
#else
    return syscall(SYS_execve, NULL, NULL, NULL);
#endif
}

static const char *path;

static long call(const char *name)
{
    struct iovec piece = {scratch, 1};
    struct rlimit64 {
        unsigned long long soft, hard;
    } limit = {0, 0};
#define CALL(what, made)                                                                           \
    if (strcmp(name, what) == 0) {                                                                 \
        return made;                                                                               \
    }
    CALL("nothing", 0)
    CALL("open", open("/dev/null", O_RDONLY))
    CALL("list", open("/", O_RDONLY | O_DIRECTORY))
    CALL("write-stdout", write(1, "x", 1))
    CALL("openat2-to-write", open_to_write_by_openat2(path))
    CALL("open-to-write", open(path, O_WRONLY))
    CALL("create", open(path, O_RDONLY | O_CREAT, 0600))
    CALL("truncate-at-open", open(path, O_RDONLY | O_TRUNC))
    CALL("open-append", open(path, O_RDONLY | O_APPEND))
    CALL("creat", syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, 0600))
    CALL("truncate", truncate(path, 0))
    CALL("unlink", unlinkat(AT_FDCWD, path, 0))
    CALL("mkdir", mkdirat(AT_FDCWD, path, 0700))
    CALL("rename", renameat2(AT_FDCWD, path, AT_FDCWD, "x", 0))
    CALL("link", linkat(AT_FDCWD, path, AT_FDCWD, "x", 0))
    CALL("symlink", symlinkat(path, AT_FDCWD, "x"))
    CALL("mknod", syscall(SYS_mknodat, AT_FDCWD, path, 0600, 0))
    CALL("chmod", syscall(SYS_fchmodat, AT_FDCWD, path, 0777))
    CALL("chown", syscall(SYS_fchownat, AT_FDCWD, path, 0, 0, 0))
    CALL("utimes", syscall(SYS_utimensat, AT_FDCWD, path, NULL, 0))
    CALL("setxattr", syscall(SYS_setxattr, path, "user.x", "", 0, 0))
    CALL("execve", syscall(SYS_execve, "/bin/true", NULL, NULL))
    CALL("execveat", syscall(SYS_execveat, AT_FDCWD, "/bin/true", NULL, NULL, 0))
    CALL("clone", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))
    CALL("clone3", syscall(SYS_clone3, NULL, 0))
    CALL("socket", socket(AF_UNIX, SOCK_STREAM, 0))
    CALL("socketpair", syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, scratch))
    CALL("sendmsg", sendmsg(0, NULL, 0))
    CALL("sendto", syscall(SYS_sendto, 0, "x", 1, 0, NULL, 0))
    CALL("sendfile", syscall(SYS_sendfile, 1, 0, NULL, 1))
    CALL("splice", syscall(SYS_splice, 0, NULL, 1, NULL, 1, 0))
    CALL("io_uring", syscall(SYS_io_uring_setup, 1, scratch))
    CALL("memfd", syscall(SYS_memfd_create, "x", 0))
    CALL("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0))
    CALL("vm-write", syscall(SYS_process_vm_writev, getppid(), &piece, 1, &piece, 1, 0))
    CALL("kill", kill(getppid(), SIGWINCH))
    CALL("tgkill", syscall(SYS_tgkill, getppid(), getppid(), 0))
    CALL("pidfd", syscall(SYS_pidfd_open, getppid(), 0))
    CALL("terminal-input", ioctl(0, TIOCSTI, scratch))
    CALL("fcntl-flags", fcntl(1, F_SETFL, O_NONBLOCK))
    CALL("fcntl-owner", fcntl(1, F_SETOWN, getpid()))
    CALL("fcntl-dup", fcntl(0, F_DUPFD, 0))
    CALL("dup2", syscall(SYS_dup3, 0, 1, 0))
    CALL("close-stdout", close(1))
    CALL("write-elsewhere", write(7, "x", 1))
    CALL("writev-elsewhere", writev(7, &piece, 1))
    CALL("pwrite", pwrite(1, "x", 1, 0))
    CALL("map-shared", map(PROT_READ | PROT_WRITE, MAP_SHARED))
    CALL("map-executable", map(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS))
    CALL("map-file-executable", map(PROT_READ | PROT_EXEC, MAP_PRIVATE))
    CALL("protect-executable", mprotect(scratch, 1, PROT_EXEC))
    CALL("prctl", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
    CALL("seccomp", syscall(SYS_seccomp, 0, 0, NULL))
    CALL("other-limits", syscall(SYS_prlimit64, getppid(), RLIMIT_CORE, &limit, NULL))
    CALL("setuid", syscall(SYS_setuid, 0))
    CALL("unshare", syscall(SYS_unshare, CLONE_NEWUSER))
    CALL("mount", syscall(SYS_mount, NULL, NULL, NULL, 0, NULL))
    CALL("bpf", syscall(SYS_bpf, 0, NULL, 0))
    CALL("userfaultfd", syscall(SYS_userfaultfd, 0))
    CALL("personality", syscall(SYS_personality, 0x400000))
    CALL("shared-memory", syscall(SYS_shmget, 0, 4096, 01600))
    CALL("call-of-32-bits", of_32_bits())
    CALL("x32", x32())
    CALL("unknown", syscall(4000))
    exit(2);
}

int main(int argc, char **argv)
{
    struct sandbox stays = {0};
    if (argc < 3) {
        return 2;
    }
    path = argv[2];
    stays.tree = argc > 3 ? argv[3] : NULL;
    sandbox_enter(&stays);
    return call(argv[1]) < 0 ? 10 : 0;
}
