#!/usr/bin/env python3
"""What a command that only looks cannot do, whatever a file makes of its parsers.

    tests/safety/sandbox.py GPUMEND

Each command that looks gives its rights up before it opens what it was given; those that act keep
them. A program with the same code then makes one call after the other: those that are not on the list
end it with a line on stderr and status 3, and none leaves a trace.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tree

TOP = Path(__file__).resolve().parents[2]
REFUSED = re.compile(r"^gpumend: system call \d+ \(.+\) is not one that looking needs; it was refused, "
                     r"and the answer is not known$")

# Calls that looking needs.
ALLOWED = "nothing open list write-stdout".split()
# Landlock's answer or, without it, that of the filter: it cannot see this call's flags.
# A shared mapping fails, as the C library does without one.
FAILS = ["openat2-to-write", "map-shared"]
WORDS = re.compile(r'CALL\("([^"]+)"')

ACTING = {"run", "probe", "enable", "disable"}


def build(folder):
    exe = folder / "calls"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", f"-I{TOP}/src", "-o", exe,
                    TOP / "tests/safety/sandbox_calls.c", TOP / "src/base/sandbox.c",
                    TOP / "src/base/arena.c"], check=True)
    return exe


def looks(env, folder):
    """Command lines that only look, by what they are called; at least one of each command."""
    log = folder / "crash.log"
    log.write_text("OSError: libcudnn_ops.so.9: cannot open shared object file\n")
    return {
        "check": ["check", env], "check --json": ["check", env, "--json"], "check --report": ["check", env, "--report"],
        "check --snapshot": ["check", "--snapshot", log], "check --root": ["check", "--root", env],
        "check --pid": ["check", "--pid", os.getpid()],
        "why": ["why", "--exe", "/usr/bin/python3"], "devices": ["devices"],
        "explain": ["explain", log], "explain --here": ["explain", log, "--here"],
        "explain TEXT": ["explain", "--", "Killed"],
        "choose": ["choose", env], "setup": ["setup", "faster-whisper"], "fix": ["fix", env], "fix --list": ["fix", env, "--list"],
        "fix --in-process": ["fix", env, "--in-process"],
        "container check": ["container", "check", env], "container docker": ["container", "docker", env],
        "container cdi": ["container", "cdi"], "container cdi --check": ["container", "cdi", "--check"],
        "kb": ["kb", "what provides libnvrtc.so.12"], "kb arch": ["kb", "arch", "/usr/bin/python3"],
        "fleet": ["fleet", "report", log], "needs": ["needs", env, "--import", "torch"], "variants": ["variants", "--preview", env], "export": ["export", "ndjson", "--check", env], "snapshot": ["snapshot", env], "snapshot --tree": ["snapshot", env, "--tree", folder / "tree"],
    }


def acts(env):
    return {"run": ["run", "--", "/bin/true"], "fix --undo": ["fix", env, "--undo"],
            "disable": ["disable", env], "choose --probe": ["choose", env, "--probe"]}


def gives_up(exe, arguments, folder, words=b""):
    """The calls that give rights up and succeed, of a command under strace."""
    trace = folder / "trace"
    subprocess.run(["strace", "-f", "-e", "trace=prctl,seccomp,landlock_restrict_self", "-o", trace, exe,
                    *map(str, arguments)], input=words, capture_output=True, check=False)
    text = trace.read_text(errors="backslashreplace")
    return {name for name in ("PR_SET_NO_NEW_PRIVS", "SECCOMP_SET_MODE_FILTER", "landlock_restrict_self")
            if re.search(rf"{name}.*= 0$", text, re.M)}


class Counts:
    passed = failed = 0

    def judge(self, name, good, what=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        if not good:
            print(f"FAIL {name}: {what}")


def check_commands(exe, folder, counts):
    env = tree.environment(folder / "env")
    there = gives_up(folder / "calls", ["nothing", "x"], folder)  # what this kernel has
    wanted = looks(env, folder)
    for name, arguments in wanted.items():
        held = gives_up(exe, arguments, folder)
        lacks = there - held - ({"landlock_restrict_self"} if name == "check --pid" else set())
        counts.judge(name, not lacks, f"lacks {', '.join(sorted(lacks))}")
    for name, arguments in acts(env).items():
        held = gives_up(exe, arguments, folder) & {"SECCOMP_SET_MODE_FILTER", "landlock_restrict_self"}
        counts.judge(name, not held, f"acts, and gave up {held}")
    # The server only starts children; each is a command that looks, and gives up what that does.
    for tool, arguments in (("check", {"target": str(env)}), ("explain", {"text": "CUDA error 35"})):
        asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                            "params": {"name": tool, "arguments": arguments}}).encode()
        lacks = there - gives_up(exe, ["mcp"], folder, asked + b"\n")
        counts.judge(f"mcp: {tool}", not lacks, f"lacks {', '.join(sorted(lacks))}")
    usage = subprocess.run([exe, "--help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"^  (\w+)  ", usage, re.M):
        known = command in ACTING or command == "mcp" or any(w[0] == command for w in wanted.values())
        counts.judge(command, known, "neither among the commands that look nor those that act")
    return there


def call(folder, name, *more):
    return subprocess.run([folder / "calls", name, folder / "victim", *more], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def state(folder):
    victim = folder / "victim"
    return victim.read_bytes(), victim.stat().st_mode, victim.stat().st_mtime_ns, sorted(os.listdir(folder))


def check_calls(folder, counts):
    names = WORDS.findall((TOP / "tests/safety/sandbox_calls.c").read_text(encoding="utf-8"))
    (folder / "victim").write_text("stays")
    before = state(folder)
    for name in names:
        done = call(folder, name)
        if name in ALLOWED:
            counts.judge(name, done.returncode == 0, f"status {done.returncode}: {done.stderr}")
        elif name in FAILS:
            counts.judge(name, done.returncode == 10, f"status {done.returncode}: {done.stderr}")
        else:
            counts.judge(name, done.returncode == 3 and REFUSED.match(done.stderr.strip()),
                         f"status {done.returncode}: {done.stderr}")
        counts.judge(f"{name}, afterwards", state(folder) == before, "something was changed")


def check_grants(folder, there, counts):
    """What one command may do and no other: make a tree, in its folder alone."""
    (folder / "inside").mkdir()
    made = folder / "inside/made"
    done = subprocess.run([folder / "calls", "create", made, folder / "inside"], check=False)
    counts.judge("a tree's file", done.returncode == 0 and made.exists(), f"status {done.returncode}")
    if "landlock_restrict_self" in there:
        for name in ("creat", "mkdir", "unlink", "open-to-write", "symlink"):
            before = state(folder)
            done = call(folder, name, folder / "inside")
            counts.judge(f"{name} outside the tree", done.returncode == 10 and state(folder) == before,
                         f"status {done.returncode}: {done.stderr}")


def check_closed_streams(exe, counts):
    """A closed standard stream is no reason to end otherwise."""
    for closed in ("<&-", "2>&-", "<&- 2>&-"):
        done = subprocess.run(["sh", "-c", f'"$0" why --exe /bin/sh {closed}', exe], check=False,
                              capture_output=True, text=True)
        counts.judge(f"why {closed}", done.returncode == 0 and done.stdout, f"status {done.returncode}")
    done = subprocess.run(["sh", "-c", '"$0" why --exe /bin/sh >&-', exe], capture_output=True,
                          text=True, check=False)
    counts.judge("why >&-", done.returncode == 3 and "cannot write the output" in done.stderr, done.stderr)


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    with tempfile.TemporaryDirectory(prefix="gpumend-sandbox.") as name:
        folder = Path(name)
        build(folder)
        works = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, check=False)
        if works.returncode != 0 or "SECCOMP_SET_MODE_FILTER" not in gives_up(
                folder / "calls", ["nothing", "x"], folder):
            print("SKIP sandbox: strace may not trace here, or the kernel has no filters\n"
                  "0 passed, 0 failed, 1 skipped")
            return 0
        there = check_commands(exe, folder, counts)
        check_calls(folder, counts)
        check_grants(folder, there, counts)
        check_closed_streams(exe, counts)
        if "landlock_restrict_self" not in there:
            print("the kernel has no Landlock: what it confines was not tried")
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
