#!/usr/bin/env python3
"""`run --restart` and `--forgive-teardown`: each end classed right, and a supervisor that leaks nothing.

    tests/watch/restart.py [GPUMEND]
"""

import os
import pty
import resource
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path

sys.dont_write_bytecode = True
import guardlab  # noqa: E402
from guardlab import differs, lacks  # noqa: E402

RESTARTS = 1000
GPU, PLAIN = "libcudart.so.12", "libplain.so"

SEGV, ABRT = -signal.SIGSEGV, -signal.SIGABRT
AFTER = "after the program had ended with status "

# mode, library, status with --forgive-teardown (negative: signal), what is said ("": nothing)
ENDS = (
    ("exit-0", GPU, 0, ""),
    ("exit-1", GPU, 1, ""),
    ("quick", GPU, 7, ""),
    ("thread-local", GPU, 0, "SIGSEGV in a thread-local destructor " + AFTER + "0 (libcudart.so.12)"),
    ("thread-local", GPU, 0, "possibly rapidsai/rmm#1371"),
    ("static", GPU, 0, "SIGSEGV in an exit handler " + AFTER + "0 (libcudart.so.12)"),
    ("static", GPU, 0, "possibly NVIDIA/cccl#7063"),
    ("static-exit-3", GPU, 3, AFTER + "3 (libcudart.so.12)"),
    ("abort-at-exit", GPU, 0, "SIGABRT in an exit handler " + AFTER + "0 (libcudart.so.12)"),
    ("worker-exit", GPU, 0, "in a thread-local destructor " + AFTER + "0 (libcudart.so.12)"),
    ("closed", GPU, 0, "in an exit handler " + AFTER + "0 (libcudart.so.12)"),
    ("exec", GPU, 0, "in an exit handler " + AFTER + "0 (libcudart.so.12)"),
    ("handler", GPU, 0, "in which library cannot be determined"),
    ("fork", GPU, 5, ""),
    ("worker", GPU, SEGV, "in a thread-local destructor while the program went on (libcudart.so.12)"),
    ("close", GPU, SEGV, "in the closing of a library while the program went on (libcudart.so.12)"),
    ("now", GPU, SEGV, "SIGSEGV in the middle of its work (libcudart.so.12)"),
    ("sent", GPU, SEGV, "SIGSEGV in the middle of its work"),
    ("abort", GPU, ABRT, "SIGABRT in the middle of its work (restart_end)"),
    ("handler-now", GPU, SEGV, "cannot be determined: it handles that signal itself"),
    ("overflow", GPU, SEGV, "cannot be determined"),
    ("own-thread-local", GPU, ABRT, "not forgiven: no code of a GPU library was running"),
    ("own-exit", GPU, ABRT, "not forgiven: no code of a GPU library was running"),
    ("thread-local", PLAIN, SEGV, "(libplain.so); not forgiven: no code of a GPU library was running"),
    ("static", PLAIN, SEGV, "(libplain.so); not forgiven: no code of a GPU library was running"),
    ("handler", PLAIN, SEGV, "not forgiven: in which library it was cannot be determined, and no GPU runtime"),
    ("own-after-gpu", GPU, ABRT, "(restart_end); not forgiven: no code of a GPU library was running"),
    ("own-after-gpu-exit-5", GPU, ABRT, "(restart_end); not forgiven: no code of a GPU"),
    ("static-exit-3", GPU, 3, "; forgiven: passed on as status 3"),
    ("static", "librocket.so", SEGV, "(librocket.so); not forgiven: no code of a GPU"),
    ("small-stack", GPU, ABRT, "(restart_end); not forgiven: no code of a GPU"),
    ("generated-code", GPU, 0, AFTER + "0; in which library cannot be determined; forgiven"),
    ("null-code", GPU, SEGV, AFTER + "0 (restart_end); not forgiven: whether code of a GPU library was"),
    ("killed", GPU, -signal.SIGKILL, ""),
    ("terminated", GPU, -signal.SIGTERM, ""),
)


def ends(lab, program):
    for mode, library, status, says in ENDS:
        done = lab.run(["--forgive-teardown"], [program, mode, lab.folder / library])
        wrong = differs(status, done.returncode)
        wrong = wrong or (lacks(says, done.stderr) if says else differs("", done.stderr))
        lab.check(f"{mode} with {library}: {says[:40]}", wrong)
        if "destructor" in says or "handler" in says:  # without forgiving it stays a crash
            done = lab.run(["--restart", "on-crash:1"], [program, mode, lab.folder / library],
                           env=lab.environment(GPUMEND_RESTART_DELAY="0"))
            lab.check(f"{mode} with {library}: started again",
                      lacks("start 1 after the first, in 0.000 s", done.stderr)
                      or lacks("not started again: 1 start was", done.stderr)
                      or differs(True, done.returncode < 0))


def upstream(lab, program):
    for name, thread, mode in (("libctranslate2-0a1b.so.4.5.0", "OpenNMT/CTranslate2#1201", "worker"),
                               ("libctranslate2.so.4", "OpenNMT/CTranslate2#1782", "static"),
                               ("libcudnn_ops.so.9", "pytorch/pytorch#17658", "thread-local"),
                               ("libnvinfer.so.10", "NVIDIA/TensorRT#4617", "static"),
                               ("libamdhip64.so.6", "ROCm/AMDMIGraphX#4792", "static")):
        shutil.copy(lab.folder / PLAIN, lab.folder / name)
        done = lab.run(["--forgive-teardown"], [program, mode, lab.folder / name])
        lab.check(f"upstream of {name}", lacks(f"possibly {thread}:", done.stderr))
    done = lab.run(["--forgive-teardown"], [program, "now", lab.folder / "libctranslate2.so.4"])
    lab.check("no thread for a crash in mid-work", lacks("middle", done.stderr)
              or ("possibly" in done.stderr and done.stderr))


def counted(lab):
    log = lab.folder / "starts"
    script = f"echo x >> {log}; kill -SEGV $$"
    done = lab.run(["--restart", "on-crash:3"], ["sh", "-c", script],
                   env=lab.environment(GPUMEND_RESTART_DELAY="10"))
    lab.check("three new starts", differs(4, len(log.read_text().split())))
    lab.check("ends by the signal", differs(SEGV, done.returncode))
    for n, delay in ((1, "0.010"), (2, "0.020"), (3, "0.040")):
        lab.check(f"delay {n}", lacks(f"start {n} after the first, in {delay} s", done.stderr))
    log.unlink()
    done = lab.run(["--restart", "on-crash:3"],
                   ["sh", "-c", f"echo x >> {log}; [ $(wc -l < {log}) = 3 ] || kill -ABRT $$; exit 4"],
                   env=lab.environment(GPUMEND_RESTART_DELAY="0"))
    lab.check("status after a new start", differs(4, done.returncode))
    for value in ("on-crash:0", "on-crash:", "on-crash:x", "always", "on-crash:9999999999"):
        done = lab.run(["--restart", value], ["true"])
        lab.check(f"--restart {value}", differs(2, done.returncode))
    done = lab.run(["--restart", "on-crash"], [lab.folder / "not-there"])
    lab.check("not there", differs(127, done.returncode))


def children(pid):
    """States of the processes whose parent it is."""
    states = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                states.append(fields[0])
    return states


def thousand(lab, program):
    """After many starts as few descriptors, children and pages as after few."""
    log = lab.folder / "thousand"
    errors = open(log, "w+", encoding="utf-8")
    command = [lab.exe, "run", "--restart", f"on-crash:{RESTARTS}", "--", program, "now",
               lab.folder / GPU]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors, pass_fds=(),
                             env=lab.environment(GPUMEND_RESTART_DELAY="0"),
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
    seen = []
    while child.poll() is None:
        try:
            starts = log.read_text(encoding="utf-8").count("start ")
            seen.append((starts, len(os.listdir(f"/proc/{child.pid}/fd")),
                         len(children(child.pid)),
                         int(Path(f"/proc/{child.pid}/statm").read_text().split()[1])))
        except (OSError, IndexError):
            pass  # it has just ended
        time.sleep(0.05)
    text = log.read_text(encoding="utf-8")
    errors.close()
    lab.check("thousand: ends by the signal", differs(SEGV, child.returncode))
    lab.check("thousand: starts", lacks(f"start {RESTARTS} after the first", text))
    late = [s for s in seen if s[0] > 0]
    lab.check("thousand: it was looked at", differs(True, len(late) > 5))
    if late:
        lab.check("thousand: descriptors", differs(True, max(s[1] for s in late) <= late[0][1] + 3))
        lab.check("thousand: children", differs(True, max(s[2] for s in late) <= 1))
        lab.check("thousand: pages", differs(True, late[-1][3] <= late[0][3] + 1024))


WAITS = """
import os, signal, sys, time
def got(number, frame):
    os.write(1, b"got %d\\n" % number)   # not print(), which a signal may find at work
    if number == signal.SIGTERM:
        sys.exit(9)
for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
    signal.signal(n, got)
os.write(1, b"ready\\n")
while True:
    time.sleep(0.05)
"""


def start(lab, options, command, **variables):
    return subprocess.Popen([lab.exe, "run", *options, "--", *map(str, command)],
                            env=lab.environment(**variables), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def signals(lab):
    child = start(lab, ["--restart", "on-crash"], [sys.executable, "-c", WAITS])
    child.stdout.readline()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
        child.send_signal(number)
        lab.check(f"{number.name} reaches it", differs(f"got {number.value}\n", child.stdout.readline()))
    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=30)
    lab.check("SIGTERM reaches it", differs("got 15\n", out))
    lab.check("its status", differs(9, child.returncode))

    child = start(lab, ["--restart", "on-crash"], ["sh", "-c", "kill -SEGV $$"],
                  GPUMEND_RESTART_DELAY="60000")
    line = child.stderr.readline()
    began = time.monotonic()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
    lab.check("SIGTERM in the delay", lacks("in 60.000 s", line)
              or differs(-signal.SIGTERM, child.returncode)
              or differs(True, time.monotonic() - began < 10))

    child = start(lab, ["--restart", "on-crash"],
                  [sys.executable, "-c", WAITS.replace("sys.exit(9)", "os.abort()")])
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
    lab.check("a crash after SIGTERM is not started again", differs(ABRT, child.returncode))

    child = start(lab, ["--restart", "on-crash"], [sys.executable, "-c", WAITS])
    child.stdout.readline()
    child.kill()
    rest = child.stdout.readline()
    child.communicate(timeout=30)
    lab.check("gpumend is killed: the program gets SIGTERM", differs("got 15\n", rest))


def process_one(lab):
    """As process 1 of a namespace it reaps what it did not start."""
    prefix = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        lab.skip("process 1", "no namespace can be made here")
        return
    script = ("(sleep 0.1 & exec true) & sleep 0.6; "
              "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l")
    done = subprocess.run([*prefix, lab.exe, "run", "--restart", "on-crash", "--", "sh", "-c", script],
                          env=lab.environment(), capture_output=True, text=True, timeout=60,
                          check=False)
    lab.check("process 1: no zombies", differs(("0\n", 0), (done.stdout, done.returncode)))


def systemd(lab):
    path = lab.folder / "notify"
    taker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    taker.bind(str(path))
    script = """
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
print(os.environ["LISTEN_PID"] == str(os.getpid()), os.environ["WATCHDOG_PID"] == str(os.getpid()),
      os.environ["LISTEN_FDS"], os.fstat(3).st_ino)
"""
    read_end, write_end = os.pipe()
    command = ("import os, sys; os.dup2({0}, 3); os.set_inheritable(3, True); "
               "os.environ.update(LISTEN_PID=str(os.getpid()), WATCHDOG_PID=str(os.getpid())); "
               "os.execv(sys.argv[1], sys.argv[1:])").format(read_end)
    done = subprocess.run([sys.executable, "-c", command, lab.exe, "run", "--restart", "on-crash",
                           "--", sys.executable, "-c", script], pass_fds=(read_end, 3), text=True,
                          env=lab.environment(NOTIFY_SOCKET=str(path), LISTEN_FDS="1"),
                          capture_output=True, timeout=60, check=False)
    lab.check("systemd: its process, its sockets",
              differs(f"True True 1 {os.fstat(read_end).st_ino}\n", done.stdout or done.stderr))
    taker.settimeout(5)
    lab.check("systemd: notified", differs(b"READY=1", taker.recv(100)))
    taker.close()
    os.close(read_end)
    os.close(write_end)


def descriptors(lab):
    code = "import os; print(sorted(os.listdir('/proc/self/fd'))[:9])"
    plain = subprocess.run([sys.executable, "-c", code], env=lab.environment(), capture_output=True,
                           stdin=subprocess.DEVNULL, text=True, check=True)
    done = lab.run(["--restart", "on-crash"], [sys.executable, "-c", code])
    lab.check("the program's descriptors", differs(plain.stdout, done.stdout))


def terminal(lab):
    leader, follower = pty.openpty()
    before = termios.tcgetattr(follower)
    code = ("import os, signal, termios, tty; tty.setraw(0); "
            "signal.signal(signal.SIGTTOU, signal.SIG_IGN); os.abort()")
    script = "import os, sys; os.setsid(); os.close(os.open(os.ttyname(0), os.O_RDWR)); " \
             "os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", script, lab.exe, "run", "--restart", "on-crash:1",
                           "--", sys.executable, "-c", code], stdin=follower, capture_output=True,
                          env=lab.environment(GPUMEND_RESTART_DELAY="0"), text=True, timeout=60,
                          check=False)
    after = termios.tcgetattr(follower)
    lab.check("the terminal is put back", differs(ABRT, done.returncode)
              or differs(before[:4], after[:4]))
    os.close(leader)
    os.close(follower)


def truncated_page(lab):
    """A program that cuts what it shares with gpumend off does not end gpumend."""
    for option, variable in ((["--restart", "on-crash:1"], "GPUMEND_END"),
                             (["--trace"], "GPUMEND_TRACE_LOSS")):
        done = lab.run(option, ["sh", "-c", f'[ -e "${variable}" ] || exit 7; '
                                            f'truncate -s 0 "${variable}" 2>/dev/null; exit 5'])
        lab.check(f"{variable} truncated", differs(5, done.returncode))


def others(lab, program):
    """Programs in which the library does nothing run all the same, and it is said."""
    told = "cannot be determined: the library that would say it was not in the program"
    static = lab.compile("static_end", "-static", source="restart_plain.c", compiler="gcc")
    done = lab.run(["--restart", "on-crash:1"], [static], env=lab.environment(GPUMEND_RESTART_DELAY="0"))
    lab.check("linked statically", lacks(told, done.stderr))
    musl = lab.compile("musl_end", source="restart_plain.c", compiler="musl-gcc")
    if musl:
        done = lab.run(["--restart", "on-crash:1"], [musl],
                       env=lab.environment(GPUMEND_RESTART_DELAY="0"))
        lab.check("musl", lacks(told, done.stderr) or differs("at work\nat work\n", done.stdout))
        done = lab.run(["--forgive-teardown"], [musl, "fine"])
        lab.check("musl, without a crash", differs((0, "at work\n", ""),
                                                   (done.returncode, done.stdout, done.stderr)))
    else:
        lab.skip("musl", "no musl-gcc")
    if os.geteuid() == 0 and shutil.which("setpriv"):
        folder = Path("/var/tmp") / f"gpumend-watch-{os.getpid()}"
        folder.mkdir(mode=0o755)
        try:
            for file in (lab.exe, lab.folder / "plain_end"):
                shutil.copy(file, folder)
            (folder / "plain_end").chmod(0o4755)
            (folder / "home").mkdir()
            try:
                os.chown(folder / "home", 65534, 65534)
            except OSError as why:  # a namespace that maps root alone
                lab.skip("set-user-ID", f"takes a second user: {why.strerror}")
                return
            done = subprocess.run(
                ["setpriv", "--reuid=65534", "--clear-groups", folder / "gpumend", "run", "--restart",
                 "on-crash:1", "--", folder / "plain_end"], capture_output=True, text=True,
                env={**lab.environment(GPUMEND_RESTART_DELAY="0"), "HOME": str(folder / "home"),
                     "XDG_CACHE_HOME": str(folder / "home")}, timeout=60, check=False)
            lab.check("set-user-ID", lacks(told, done.stderr)
                      or differs("at work\nat work\n", done.stdout))
        finally:
            shutil.rmtree(folder)
    else:
        lab.skip("set-user-ID", "takes root and setpriv")


def run(lab):
    lab.library(GPU, "restart_gpu.cc")
    lab.library(PLAIN, "restart_gpu.cc")
    lab.library("librocket.so", "restart_gpu.cc")
    program = lab.compile("restart_end", source="restart_end.cc")
    lab.compile("plain_end", source="restart_plain.c", compiler="gcc")
    ends(lab, program)
    upstream(lab, program)
    counted(lab)
    signals(lab)
    process_one(lab)
    systemd(lab)
    descriptors(lab)
    terminal(lab)
    truncated_page(lab)
    others(lab, program)
    thousand(lab, program)


if __name__ == "__main__":
    sys.exit(guardlab.main(run, sys.argv))
