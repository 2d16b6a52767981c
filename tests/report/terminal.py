#!/usr/bin/env python3
"""What `check` shows on a terminal while it works, and `check --watch`.

    tests/report/terminal.py GPUMEND

A line of progress appears on standard error after half a second, only where that is a terminal, and is
erased before the answer; strace makes the look slow enough. --watch prints an answer again only when it
is another one, names the file, and ends at Ctrl-C without a word, with the last status and no child left.
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "causes"))
import tree  # noqa: E402

PROGRAM = "/opt/app/bin/app"
LIMIT_S = 60
PROGRESS = re.compile(r"\r[a-z ]+ \(\d+ s\)\x1b\[K")
ERASED = "\r\x1b[K"
counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(name, holds, detail=""):
    counts["passed" if holds else "failed"] += 1
    if not holds:
        print(f"FAIL {name}: {str(detail)[-1500:]}")


class Terminal:
    """A program whose standard error, and standard output if wanted, is a terminal."""

    def __init__(self, words, output=True, **variables):
        self.fd, end = pty.openpty()
        self.text = ""
        self.child = subprocess.Popen(
            words, stdin=end, stdout=end if output else subprocess.PIPE, stderr=end, start_new_session=True,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", **variables},
            preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0))
        os.close(end)

    def read(self, until=None, seconds=LIMIT_S):
        """Until it says that, or ends; ret what was said since the last time."""
        begin, end = len(self.text), time.monotonic() + seconds
        while time.monotonic() < end and not (until and re.search(until, self.text[begin:])):
            if not select.select([self.fd], [], [], 0.05)[0]:
                continue
            try:
                more = os.read(self.fd, 65536)
            except OSError:  # the terminal has no other end any more
                more = b""
            if not more:
                break
            self.text += more.decode().replace("\r\n", "\n")
        return self.text[begin:]

    def end(self):
        self.child.wait(LIMIT_S)
        os.close(self.fd)
        return self.child.returncode


def children_of(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


# ---------------------------------------------------------------- progress

def slowly(exe, *arguments):
    """Each question after a file takes 15 ms."""
    return ["strace", "-qq", "-f", "-o", "/dev/null", "-e", "trace=openat,openat2", "-e",
            "inject=openat,openat2:delay_enter=15000", exe, "check", *arguments]


def progress(exe, top):
    if not shutil.which("strace") or subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], check=False,
                                                    capture_output=True).returncode:
        counts["skipped"] += 1
        print("SKIP progress: strace traces nothing here")
        return
    arguments = ("--root", top, PROGRAM)
    plain = subprocess.run([exe, "check", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    t = Terminal(slowly(exe, *arguments))
    text = t.read()
    t.end()
    check("after half a second it says what it does", PROGRESS.match(text), repr(text))
    check("and erases that before the answer", text.endswith(ERASED + plain.stdout), repr(text))
    t = Terminal(slowly(exe, *arguments), output=False)
    text, out = t.read(), t.child.stdout.read().decode()
    t.end()
    check("nothing of it is in a pipe", out == plain.stdout and PROGRESS.match(text) and text.endswith(ERASED),
          repr((out, text)))
    for name, words, variables in (("in JSON", ("--json",), {}), ("among annotations", ("--github",), {}),
                                   ("where nothing can be erased", (), {"TERM": "dumb"})):
        t = Terminal(slowly(exe, *arguments, *words), **variables)
        text = t.read()
        t.end()
        check("not " + name, "\r" not in text and "(1 s)" not in text and text, repr(text))
    done = subprocess.run(slowly(exe, *arguments), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    check("not in a log", (done.stdout, done.stderr) == (plain.stdout, ""), done)
    for _ in range(10):  # On a busy machine it may take half a second indeed.
        began, t = time.monotonic(), Terminal([exe, "check", *arguments])
        text = t.read()
        t.end()
        if time.monotonic() - began < 0.45:
            check("a quick look says nothing", text == plain.stdout, repr(text))
            break
    else:
        counts["skipped"] += 1
        print("SKIP a quick look: each of ten took half a second")


# ---------------------------------------------------------------- --watch

def watch(exe, t):
    w = Terminal([exe, "check", "--watch", "--root", str(t.top), PROGRAM])
    first = w.read("to do now .*\n")  # its last line
    check("the first answer", "libgone.so.1" in first and "changed" not in first, first)
    os.utime(str(t.top) + PROGRAM)
    check("a change that changes nothing is not printed", w.read("zzz", 3) == "", w.text)
    t.lib("/opt/app/lib/libgone.so.1")
    again = w.read("ok .*\n")
    check("what is new is printed, with the file", re.match(r"\n\d\d:\d\d:\d\d  changed: /opt/app/lib", again)
          and "libgone.so.1, which" not in again, repr(again))
    shutil.rmtree(str(t.top) + "/opt/app")
    gone = w.read("No such file")
    check("a target that goes away is an answer", "changed: /opt/app" in gone and PROGRAM in gone, repr(gone))
    below = children_of(w.child.pid)
    w.child.send_signal(signal.SIGINT)
    rest, status = w.read(), w.end()
    check("Ctrl-C ends it without a word", rest == "" and status == 3, (rest, status))
    check("with its child", below and not any(Path(f"/proc/{pid}").exists() for pid in below), below)


def refused(exe):
    for option in ("--json", "--github", "--sarif=-", "--html=-", "--report", "--probe", "--snapshot=x"):
        done = subprocess.run([exe, "check", "--watch", option], capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)
        check(f"not with {option}", done.returncode == 2 and "--watch" in done.stderr and not done.stdout, done)
    done = subprocess.run([exe, "check", "--watch", "--nonsense"], capture_output=True, text=True, timeout=LIMIT_S,
                          check=False)
    check("wrong usage ends it", done.returncode == 2, done)


def main():
    exe = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory(prefix="gpumend-terminal-") as folder:
        t = tree.Tree(Path(folder) / "root")
        t.loader()
        t.put(PROGRAM, tree.elf(None, interp=tree.LOADER, runpath="/opt/app/lib", needed=["libgone.so.1"]))
        progress(exe, str(t.top))
        watch(exe, t)
    refused(exe)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
