#!/usr/bin/env python3
"""Looking never runs what it looks at: `check`, `why` and `explain` under strace.

After its own execve the process may make only the calls listed here, with arguments that read:
it starts no process, opens no socket, opens nothing for writing, writes to nothing but its
standard output and error, maps nothing executable, and sends no signal. The list is of what is
allowed, so that a call nobody thought of fails the test.

    tests/safety/looking_only.py GPUMEND
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tree

# Calls that neither change anything outside the process nor start anything.
HARMLESS = set("""
    arch_prctl brk clock_gettime close dup dup2 dup3 exit exit_group fadvise64 fgetxattr fstat
    fstatfs futex getcwd getdents64 getegid geteuid getgid getpid getppid getrandom getresgid
    getresuid getrlimit getrusage gettid gettimeofday getuid getxattr lgetxattr lseek lstat madvise
    mremap munmap newfstatat poll pread64 preadv prlimit64 read readlink readlinkat readv rseq
    rt_sigaction rt_sigprocmask rt_sigreturn sched_getaffinity set_robust_list set_tid_address setitimer
    sigaltstack stat statfs statx sysinfo time umask uname
    access faccessat faccessat2 restart_syscall
""".split())
OPENS = {"open", "openat", "openat2"}
OPENS_TO_WRITE = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
# What gives up rights before anything is read (tests/safety/sandbox.py).
GIVES_UP = {"prctl": re.compile(r"PR_SET_NO_NEW_PRIVS"), "seccomp": re.compile(r"SECCOMP_SET_MODE_FILTER"),
            "landlock_create_ruleset": re.compile(""), "landlock_add_rule": re.compile(""),
            "landlock_restrict_self": re.compile("")}
CALL = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(\w+)\((.*)$")


def objection(name, rest):
    """Why a call (its name, and the text after the parenthesis) is not looking; None if it is."""
    if name in HARMLESS:
        return None
    if name in OPENS:
        return "opens for writing" if OPENS_TO_WRITE.search(rest) else None
    if name in GIVES_UP:
        return None if GIVES_UP[name].match(rest) else "changes rights"
    if name in ("mmap", "mprotect", "pkey_mprotect"):
        return "executable memory" if "PROT_EXEC" in rest else None
    if name in ("write", "writev"):
        return None if re.match(r"[12],", rest) else "writes elsewhere than to its output"
    if name == "ioctl":
        return None if re.search(r"TCGETS|TIOCGWINSZ", rest) else "ioctl that may change something"
    if name == "fcntl":
        return None if re.search(r"F_(GET|SETFD|DUPFD)", rest) else "fcntl that changes something"
    return "not one of the calls that only look"


def objections(trace):
    """All calls of a trace that are not looking, the first execve apart."""
    found, started = [], False
    for line in trace.splitlines():
        call = CALL.match(line)
        if not call:
            continue  # signals and exits
        name, rest = call.groups()
        if name == "execve" and not started:
            started = True
            continue
        why = objection(name, rest)
        if why:
            found.append(f"{why}: {line.strip()[:200]}")
    return found if started else ["the trace does not show the start"]


def traced(command, folder):
    """Runs a command under strace; returns its status, output and trace."""
    trace = Path(folder) / "trace"
    done = subprocess.run(["strace", "-f", "-s", "256", "-o", str(trace), *map(str, command)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="backslashreplace", timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr, trace.read_text(errors="backslashreplace")


def snapshot(top):
    """Every path below `top` with what would change if it were touched (access times apart)."""
    seen = {}
    for path in sorted(Path(top).rglob("*")):
        st = path.lstat()
        seen[str(path)] = (st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino)
    return seen


def main():
    exe = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="gpumend-looking.") as folder:
        if subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True,
                          check=False).returncode != 0:
            print("SKIP looking-only: strace may not trace here\n0 passed, 0 failed, 1 skipped")
            return 0
        env = tree.environment(Path(folder) / "env")
        site = env / "lib/python3.11/site-packages"
        extension = site / "ctranslate2" / tree.EXTENSION
        python = "/usr/bin/python3"
        log = Path(folder) / "crash.log"
        log.write_text("OSError: libcudnn_ops.so.9: cannot open shared object file: No such file or "
                       "directory\n")
        commands = {
            "check ENV": ["check", env],
            "check ENV --json": ["check", env, "--json"],
            "check ENV --report": ["check", env, "--report"],
            "check INTERPRETER": ["check", env / "bin/python"],
            "check FILE": ["check", extension],
            "check": ["check"],
            "check --pid": ["check", "--pid", os.getpid()],
            "check --root": ["check", "--root", env],
            "fix ENV": ["fix", env],
            "fix ENV --json": ["fix", env, "--import", "ctranslate2", "--json"],
            "fix ENV --in-process": ["fix", env, "--in-process", "--json"],
            "why, closure": ["why", "--exe", python],
            "why NAME": ["why", "libcudnn.so.9", "--caller", extension],
            "why NAME --load --json": ["why", "libcudnn_ops.so.9", "--exe", python, "--load",
                                       site / "nvidia/cudnn/lib/libcudnn.so.9", "--json"],
            "devices": ["devices"],
            "snapshot": ["snapshot"],
            "devices --root --json": ["devices", "--root", "/", "--json"],
            "choose ENV": ["choose", env, "--model", "large-v3"],
            "choose --json": ["choose", "--json"],
            "setup": ["setup", "torch"],
            "explain CAUSE": ["explain", "cudnn-sublibrary-missing"],
            "explain LOG": ["explain", log],
            "explain LOG --here": ["explain", log, "--here", "--json"],
        }
        # Neither a program nor devices below that folder; and this process has only started strace.
        nothing_there = {"check --root", "check --pid"}
        before = snapshot(env)
        passed = failed = 0
        for name, arguments in commands.items():
            status, output, trace = traced([exe, *arguments], folder)
            found = objections(trace)
            # Where /sys is not mounted, which GPUs there are cannot be determined: a status of its own.
            blind = "devices" in arguments and not os.path.isdir("/sys/bus")
            if status not in ((3,) if name in nothing_there else (0, 1, 3) if blind else (0, 1)):
                found.append(f"status {status}: {output.strip()[-300:]}")
            if snapshot(env) != before:
                found.append("the environment was changed")
            for fault in found[:8]:
                print(f"FAIL {name}: {fault}")
            failed += bool(found)
            passed += not found

        # The test itself: each of these must be objected to, for its own reason.
        written = Path(folder) / "written"
        for reason, command in {"not one of the calls": ["sh", "-c", "/bin/true; :"],
                                "opens for writing": ["touch", written],
                                "executable memory": ["/usr/bin/env", "--version"]}.items():
            if any(o.startswith(reason) for o in objections(traced(command, folder)[2])):
                passed += 1
            else:
                print(f"FAIL the test itself does not notice: {reason} ({command[0]})")
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
