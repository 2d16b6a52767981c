#!/usr/bin/env python3
"""What a reader does not see never reaches a terminal raw: arguments, paths and variables.

    tests/safety/unseen.py GPUMEND

Each command gets each hostile text in an option, a value, a target and a variable, and looks at a
tree, an environment, an image, a snapshot and a log whose every name holds it (unseen_tree.py).
Standard output and error then hold no control character but line ends, no mark that reorders or
hides text, and are UTF-8. A path in a command that is to be pasted is still the path.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import unseen_tree

TEXTS = {"ESC": b"\x1b]0;x\x07\x1b[2J", "CR and DEL": b"a\r\x7f\x08b", "tab": b"a\tb",
         "C1": b"a\xc2\x9b31m", "bidirectional": "a\u202eb\u2066c\u200f".encode(),
         "zero width": "a\u200b\u2060b\ufeff".encode(), "not UTF-8": b"a\xff\xfeb",
         "line": b"a\nINJECTED b", "separator": "a\u2028b\u0085".encode()}
HIDDEN = {0x61c, 0x180e, 0x200b, 0x200e, 0x200f, 0xfeff, *range(0x2028, 0x202f),
          *range(0x2060, 0x2070)}
COMMANDS = ("check", "fix", "enable", "disable", "run", "why", "explain", "devices", "probe", "choose",
            "setup", "container", "snapshot", "kb")


def fault(output):
    try:
        text = output.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    bad = [c for c in text if (ord(c) < 0x20 and c != "\n") or 0x7f <= ord(c) < 0xa0
           or ord(c) in HIDDEN]
    if bad:
        return f"holds {ascii(''.join(sorted(set(bad))))}"
    if "(null)" in text:
        return "a text that is none"
    return "a line of the text's own" if "\nINJECTED" in text else None


def cases(text, there):
    yield [text]
    for command in COMMANDS:
        yield [command, b"--" + text]
        yield [command, b"--json=" + text]
    for command in ("check", "fix", "enable", "disable", "why", "choose", "snapshot", "probe"):
        yield [command, b"/nowhere/" + text]
    for command in ("check", "fix", "choose", "why"):
        yield [command, there]
        yield [command, there, "--json"]
    for option in ("--root", "--kb", "--env", "--cpu", "--glibc", "--import", "--pid", "--snapshot"):
        yield ["check", option, text]
    for words in (["devices", "--root"], ["why", "--exe"], ["why", "--load"], ["why", "--cwd"],
                  ["why", "--batch"], ["explain"], ["explain", "--"], ["kb"], ["kb", "arch"],
                  ["container"], ["container", "docker"], ["container", "check"],
                  ["container", "cdi", "--check", "--folder"], ["run", "--print", "--"],
                  ["run", "--print", "--json", "--"], ["run", "--"], ["run", "--device"],
                  ["run", "--restart"], ["probe", "--stage"], ["probe", "--timeout"],
                  ["choose", "--model"], ["choose", "--app"], ["choose", "--export"], ["setup"], ["setup", "torch", "--for"],
                  ["setup", "torch", "--for", "cpu-linux", "--into"],
                  ["fix", "--select"], ["why", "--exe", "/bin/true", "--json"],
                  ["why", "libc.so.6", "--exe", "/bin/true", "--caller"],
                  ["setup", "torch", "--for", "rtx-3060-windows", "--into"],
                  ["setup", "torch", "--for", "rtx-3060-linux", "--into"]):
        yield [*words, text]


OCTAL = re.compile(rb"\\([0-7]{3})")
QUOTED = re.compile(rb"\$'((?:[^'\\]|\\[0-7]{3})*)'")


def lost(output, path):
    """Whether commands name the path, and none of them does so as a shell would read it."""
    begin = path[:path.rindex(b"/env-") + len(b"/env-")]
    named = [w for w in QUOTED.findall(output) if begin in w]
    read = [OCTAL.sub(lambda m: bytes([int(m[1], 8)]), w) for w in named]
    return bool(named) and not any(path in w for w in read)


class Counts:
    passed = failed = 0

    def judge(self, name, words, done, path=None):
        wrong = fault(done.stdout) or fault(b"\n" + done.stderr)
        wrong = f"signal {-done.returncode}" if done.returncode < 0 else wrong
        if b"is not one that looking needs" in done.stderr:
            wrong = done.stderr.decode(errors="replace")
        wrong = wrong or (path and lost(done.stdout, path) and "the path is another in a command")
        self.passed, self.failed = self.passed + (not wrong), self.failed + bool(wrong)
        if wrong:
            print(f"FAIL {name}: {' '.join(ascii(w) for w in words)}: {wrong}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    exe = str(Path(sys.argv[1]).resolve())
    counts = Counts()
    with tempfile.TemporaryDirectory(prefix="gpumend-unseen.") as top:
        (Path(top) / "made").mkdir()
        files = unseen_tree.compiled(Path(top) / "made")
        for name, text in TEXTS.items():
            there = os.path.join(os.fsencode(top), text.replace(b"/", b""))
            os.mkdir(there)
            env = {b"PATH": b"/usr/bin:/bin", b"LD_LIBRARY_PATH": there, b"CUDA_HOME": text,
                   b"HOME": os.fsencode(top), b"CUDA_VISIBLE_DEVICES": text}
            for words in cases(text, there):
                counts.judge(name, words, subprocess.run(
                    [exe, *words], capture_output=True, timeout=60, check=False,
                    stdin=subprocess.DEVNULL, env=env, cwd=top))
            folder = os.path.join(os.fsencode(top), name.replace(" ", "-").encode())
            os.mkdir(folder)
            for words in unseen_tree.make(exe, folder, text, files):
                counts.judge(name, words, subprocess.run(
                    [exe, *words], capture_output=True, timeout=60, check=False,
                    stdin=subprocess.DEVNULL, env={b"PATH": b"/usr/bin:/bin"}, cwd=top),
                    os.path.join(folder, b"env-" + text.replace(b"/", b"")))
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed or not counts.passed else 0


if __name__ == "__main__":
    sys.exit(main())
