"""The children of a probe: ended, counted, left behind where the kernel does not let them go."""

import concurrent.futures
import contextlib
import ctypes
import functools
import json
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

from lab import differences, stage

FREEZER = Path("/sys/fs/cgroup/freezer")
CLONE_NEWIPC = 0x08000000
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17


def stat_of(pid):
    """(name, state, parent) of a process; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name = text[text.index("(") + 1:text.rindex(")")]
    state, parent = text[text.rindex(")") + 2:].split()[:2]
    return name, state, int(parent)


def children_of(pid):
    pids = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    return [p for p in pids if (stat_of(p) or ("", "", 0))[2] == pid]


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    return None


def helpers(mark):
    """Processes of helpers whose environment holds the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes() and \
                    (entry / "cmdline").read_bytes().startswith(b"gpumend-probe\0"):
                found.append(int(entry.name))
    return found


def hung(lab, *arguments, pass_fds=(), **variables):
    """A probe that hangs in cuInit, and the pid of that child."""
    env = lab.environment([lab.driver()], "cuInit hang", **variables)
    table = env["FAKE_GPU_TABLE"].encode()
    process = subprocess.Popen([lab.exe, "probe", "--stage", "driver-init", *arguments], env=env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, pass_fds=pass_fds)

    def in_init():
        for pid in children_of(process.pid):
            with contextlib.suppress(OSError):
                if b"stage=driver-init" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        return None

    pid = wait_for(in_init)
    time.sleep(0.2)  # it has reached the hang, and ignores SIGTERM
    return process, pid, table


# ------------------------------------------------------------------ many of them

def traces(mark, folder):
    """What a probe could leave behind. Other programs' shared memory is not looked at."""
    return (helpers(mark), sorted(os.listdir(folder)),
            Path("/proc/sysvipc/shm").read_text().count("\n"))


def two_hundred(lab):
    """In a row, with ends of every kind."""
    tables = ("", "cuInit abort", "cuLaunchKernel wrong", "cuDeviceGetCount return 3",
              "cuMemAlloc_v2 segfault", "cuLaunchKernel fork")
    mark = f"GPUMEND_PROBE_MARK={os.getpid()}"
    folder = lab.folder / "temporary"
    folder.mkdir()
    envs = [lab.environment([lab.driver()], t, GPUMEND_PROBE_MARK=str(os.getpid()),
                            TMPDIR=str(folder), XDG_RUNTIME_DIR=str(folder))
            for t in tables]
    ctypes.CDLL(None).unshare(CLONE_NEWIPC)  # refused to a user without rights, who sees all of it
    before = traces(mark.encode(), folder)
    for i in range(200):
        answer = lab.probe(envs[i % len(envs)], "--quick")
        expected = 0 if i % len(envs) in (0, 5) else 1
        if answer.status != expected:
            yield f"probe {i} ({tables[i % len(envs)]}): status {answer.status}: {answer.out[-300:]}"
    after = traces(mark.encode(), folder)
    if before != after:
        yield f"left behind: {after}, before: {before}"


def two_at_once(lab):
    tables = ("", "cuLaunchKernel wrong")
    envs = [lab.environment([lab.driver()], t) for t in tables]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(15):
            answers = list(pool.map(lambda env: lab.probe(env, "--quick"), envs))
            kernels = [stage(a.document, "kernel").get("outcome") for a in answers]
            if kernels != ["passed", "failed"]:
                yield f"kernels: {kernels}"


# ------------------------------------------------------------------ ends

def is_stopped(lab):
    """A stopped child is ended like one that hangs."""
    env = lab.environment([lab.driver()], "cuInit stop")
    answer = lab.probe(env, "--stage", "driver-init", "--timeout", "0.3")
    yield from differences(stage(answer.document, "driver-init"), outcome="timed-out")
    if helpers(env["FAKE_GPU_TABLE"].encode()):
        yield "a child is left"


def is_killed(lab):
    """One that ignores SIGTERM is gone half a second after its deadline, and reaped."""
    env = lab.environment([lab.driver()], "cuInit hang")
    started = time.monotonic()
    answer = lab.probe(env, "--stage", "driver-init", "--timeout", "0.2")
    took = time.monotonic() - started
    yield from differences(stage(answer.document, "driver-init"), outcome="timed-out", signal=None)
    if not 0.6 <= took < 3:
        yield f"it took {took:.1f} s"
    if helpers(env["FAKE_GPU_TABLE"].encode()):
        yield "a child is left"


def left(process, pid, state, seconds):
    """The probe ends in time though its child does not, and says which that is."""
    try:
        out = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        yield "the probe waits for a child that cannot be ended"
        return
    entry = stage(json.loads(out), "driver-init")
    yield from differences(entry, outcome="timed-out",
                           says=[f"process {pid} (state {state}", "does not wait for it"])


def held_by_tracer(lab):
    """Killed, and its end held back by a tracer: nobody can reap it."""
    libc = ctypes.CDLL(None, use_errno=True)
    process, pid, _ = hung(lab, "--json", "--timeout", "1")
    if libc.ptrace(PTRACE_SEIZE, pid, 0, 0) != 0:
        process.kill()
        process.communicate()
        yield f"SKIP no ptrace here: {os.strerror(ctypes.get_errno())}"
        return
    yield from left(process, pid, "Z", 10)
    os.waitpid(pid, 0x40000000)  # __WALL
    if stat_of(pid):
        wait_for(lambda: not stat_of(pid))


def uninterruptible(lab):
    """Frozen by a control group of version 1: state D, and SIGKILL waits."""
    group = FREEZER / f"gpumend-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as e:
        yield f"SKIP no freezer of version 1 here: {e.strerror}"
        return
    try:
        process, pid, _ = hung(lab, "--json", "--timeout", "1")
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
        wait_for(lambda: (group / "freezer.state").read_text().strip() == "FROZEN")
        yield from left(process, pid, "D", 10)
        if not stat_of(pid):
            yield "the child was not held at all"
        (group / "freezer.state").write_text("THAWED")
        if not wait_for(lambda: not stat_of(pid)):
            yield "the child outlives its thaw"
    finally:
        (group / "freezer.state").write_text("THAWED")
        if not wait_for(lambda: not (group / "cgroup.procs").read_text()):
            yield "the group is not empty"
        group.rmdir()


def interrupted(lab):
    """By Ctrl-C and its like: at once, nothing left, and the status of the signal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)   # nohup and shells leave some ignored
        process, _, table = hung(lab)
        started = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
        took = time.monotonic() - started
        if process.returncode != -number or b"interrupted" not in errors:
            yield f"{number.name}: status {process.returncode}, {errors}"
        if took > 3:
            yield f"{number.name}: it took {took:.1f} s"
        if helpers(table):
            yield f"{number.name}: a child is left"


def parent_killed(lab):
    """The child goes with its parent."""
    process, pid, _ = hung(lab)
    process.kill()
    process.communicate()
    if not wait_for(lambda: not stat_of(pid), 3):
        yield "the child outlives its parent"


def on_terminal(lab):
    """The stages appear as they run, with their times."""
    master, slave = pty.openpty()
    env = lab.environment([lab.driver()], "cuInit hang", TERM="xterm")
    process = subprocess.Popen([lab.exe, "probe"], env=env, stdin=slave, stdout=slave,
                               stderr=slave, start_new_session=True)
    os.close(slave)
    shown = b""
    os.set_blocking(master, False)
    end = time.monotonic() + 10
    while b"...        cuInit" not in shown and time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            shown += os.read(master, 4096)
        time.sleep(0.02)
    if b"...        cuInit" not in shown or b" ms)" not in shown:
        yield f"not shown while it runs: {shown}"
    process.send_signal(signal.SIGINT)
    if process.wait(timeout=20) != -signal.SIGINT:
        yield f"status {process.returncode}"
    os.close(master)


# ------------------------------------------------------------------ output and limits

def floods(lab):
    """What a library writes without end is read, and kept up to a bound."""
    env = lab.environment([lab.driver()], "cuInit flood 64\ncuInit return 999")
    answer = lab.probe(env, "--stage", "driver-init")
    entry = stage(answer.document, "driver-init")
    yield from differences(entry, outcome="failed", code=999)
    if not 1000 < len(entry.get("output") or "") <= 16384:
        yield f"{len(entry.get('output') or '')} bytes are kept"


def interferes(lab):
    """A library that writes where the helper speaks: its noise is no answer and takes no memory."""
    env = lab.environment([lab.driver()], "cuInit noise 64\ncuInit return 999")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    answer = lab.probe(env, "--stage", "driver-init")
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    entry = stage(answer.document, "driver-init")
    yield from differences(entry, outcome="failed", code=999)
    if len(entry.get("facts", {})) > 256 or after > max(before, 200 * 1024):
        yield f"{len(entry.get('facts', {}))} facts, {after} KiB of memory"


def closes_descriptors(lab):
    """A child holds none of the caller's descriptors, so one that is left keeps nobody waiting."""
    read, write = os.pipe()
    process, pid, _ = hung(lab, pass_fds=[write])
    inside = [os.readlink(p) for p in Path(f"/proc/{pid}/fd").iterdir()]
    theirs = os.readlink(f"/proc/self/fd/{write}")
    kernel = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])
    if theirs in inside and kernel >= (5, 11):
        yield f"it holds {theirs}: {inside}"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    os.close(read)
    os.close(write)


def leaves_a_process(lab):
    """What the library left in its group ends, and its open pipe is not waited for."""
    env = lab.environment([lab.driver()], "cuInit fork")
    started = time.monotonic()
    answer = lab.probe(env, "--stage", "driver-init")
    yield from differences(stage(answer.document, "driver-init"), outcome="passed")
    if time.monotonic() - started > 5:
        yield "it waited for the process that was left"
    if helpers(env["FAKE_GPU_TABLE"].encode()):
        yield "a process is left"


def leaves_a_session(lab):
    """The same where it has left the group of the child, whatever became of the stage."""
    for table, outcome in (("cuInit session", "passed"), ("cuInit session\ncuInit abort", "crashed"),
                           ("cuInit session\ncuInit hang", "timed-out")):
        env = lab.environment([lab.driver()], table)
        answer = lab.probe(env, "--stage", "driver-init", "--timeout", "2")
        yield from differences(stage(answer.document, "driver-init"), outcome=outcome)
        if helpers(env["FAKE_GPU_TABLE"].encode()):
            yield f"{outcome}: a process is left"


def writes_no_core(lab):
    folder = lab.folder / "cores"
    folder.mkdir()
    env = lab.environment([lab.driver()], "cuInit segfault")
    done = subprocess.run(["/bin/sh", "-c", "ulimit -c unlimited; exec \"$0\" probe --quick",
                           str(lab.exe)], env=env, cwd=folder, capture_output=True, check=False)
    if done.returncode != 1 or list(folder.iterdir()):
        yield f"status {done.returncode}, files {list(folder.iterdir())}"


# ------------------------------------------------------------------ places

def without_glibc(lab):
    """In an image without glibc's loader: said as that, and nothing about a GPU."""
    if os.geteuid() != 0:
        yield "SKIP only root may change the root folder"
        return
    root = lab.folder / "root"
    (root / "dev").mkdir(parents=True)
    (root / "dev/null").touch()
    shutil.copy(lab.exe, root / "gpumend")
    done = subprocess.run(["/gpumend", "probe", "--json"], env={"PATH": "/"}, capture_output=True,
                          preexec_fn=functools.partial(os.chroot, root), cwd="/", text=True,
                          check=False)
    document = json.loads(done.stdout) if done.stdout else None
    yield from differences(stage(document, "driver-found"), outcome="unknown",
                           says="needs glibc's loader")
    if done.returncode != 3 or document["verdict"] != "cannot-tell":
        yield f"status {done.returncode}, verdict {document and document['verdict']}"


def without_memory_files(lab):
    """Where the kernel runs no memory files, from a file that is removed at once."""
    folder = lab.folder / "tmp"
    folder.mkdir()
    env = lab.environment([lab.driver()], "", TMPDIR=str(folder))
    env.pop("XDG_RUNTIME_DIR", None)
    script = ("echo 2 > /proc/sys/vm/memfd_noexec || exit 99; "
              f"exec {shlex.quote(str(lab.exe))} probe --quick --json --stage driver-init")
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script],
                          env=env, capture_output=True, text=True, check=False)
    if done.returncode == 99 or not done.stdout:
        yield f"SKIP memory files cannot be switched off here: {done.stderr.strip()[-200:]}"
        return
    yield from differences(stage(json.loads(done.stdout), "driver-init"), outcome="passed")
    if list(folder.iterdir()):
        yield f"left: {list(folder.iterdir())}"


def cases(lab):
    for case in (two_hundred, two_at_once, is_stopped, is_killed, held_by_tracer, uninterruptible,
                 interrupted, parent_killed, on_terminal, floods, interferes, closes_descriptors, leaves_a_process, leaves_a_session, writes_no_core,
                 without_glibc, without_memory_files):
        yield case.__name__.replace("_", " "), functools.partial(case, lab)
