#!/usr/bin/env python3
"""Completion in zsh and fish, by these shells themselves: each is skipped where it is not installed.

    tests/completion.py GPUMEND

Every command is offered, and of every command every option of its help. tests/documents.py does the
same for bash.
"""
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
OPTION = re.compile(r"^  (--[a-z-]+)", re.MULTILINE)
# A command line, and what has to be offered among others.
CASES = (("gpumend wh", {"why"}), ("gpumend check --cpu x86-64-v3", {"x86-64-v3"}),
         ("gpumend check --page-size 1", {"16384"}), ("gpumend needs --as n", {"nfd"}),
         ("gpumend container check", {"check"}), ("gpumend container podm", {"podman"}),
         ("gpumend explain import-o", {"import-order"}), ("gpumend check --root /et", {"etc"}),
         ("gpumend why --exe /et", {"etc"}), ("gpumend export promet", {"prometheus"}),
         ("gpumend choose --app ctr", {"ctranslate2"}),
         ("gpumend choose --compute-type int8_", {"int8_float16", "int8_float32"}))
# Keys and values of kb: fish offers "os=windows", zsh "windows" behind "os=".
KEYS = (("gpumend kb newest --with cud", {"cuda", "cudnn"}),
        ("gpumend kb newest --with os=w", {"windows", "wsl"}),
        ("gpumend kb --with ctranslate2=4.4", {"4.4.0"}))
# The widget completes; every list goes to a file instead of the screen.
ZSH = """
PS1='$ '; unset RPS1; setopt no_beep no_list_beep
fpath=(%(folder)s $fpath)
autoload -Uz compinit && compinit -u -D
zstyle ':completion:*' verbose no
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
    local -a __found
    builtin compadd -O __found "$@"
    print -rl -- $__found >>%(out)s
    builtin compadd "$@"
}
finished() { : >%(done)s; zle kill-buffer }
zle -N finished; bindkey '^X^F' finished
bindkey '^I' complete-word
print ready >%(done)s
"""

passed = failed = skipped = 0


def check(name, holds, detail=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAIL {name}: {str(detail)[-600:]}")


class Fish:
    def __init__(self, exe, folder):
        self.env = {**os.environ, "PATH": f"{exe.parent}:{os.environ['PATH']}", "HOME": str(folder)}

    def offers(self, line):
        script = f"source {shlex.quote(str(TOP / 'completion/gpumend.fish'))}; complete -C '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True,
                              env=self.env, timeout=30, check=False)
        return {row.split("\t")[0].strip("/") for row in done.stdout.splitlines()}

    def close(self):
        pass


class Zsh:
    """An interactive zsh on a terminal of its own."""

    def __init__(self, exe, folder):
        self.out, self.done = folder / "out", folder / "done"
        paths = {"folder": TOP / "completion", "out": self.out, "done": self.done}
        text = ZSH % {name: shlex.quote(str(path)) for name, path in paths.items()}
        (folder / ".zshrc").write_text(text, encoding="utf-8")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe("zsh", ["zsh", "-i"], {"PATH": f"{exe.parent}:{os.environ['PATH']}", "TERM": "dumb",
                                             "HOME": str(folder), "ZDOTDIR": str(folder), "LC_ALL": "C.UTF-8"})
        self.wait()

    def wait(self):
        """Until the shell has answered; what it draws is thrown away."""
        deadline = time.monotonic() + 30
        while not self.done.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("zsh does not answer")
            if select.select([self.fd], [], [], 0.01)[0]:
                os.read(self.fd, 65536)
        self.done.unlink()

    def offers(self, line):
        self.out.write_text("")
        os.write(self.fd, line.encode() + b"\t\x18\x06")
        self.wait()
        return set(self.out.read_text(encoding="utf-8").split())

    def close(self):
        os.kill(self.pid, signal.SIGHUP)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def of_shell(name, shell, exe):
    told = subprocess.run([exe, "--help"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^  ([a-z]+)  ", told, re.MULTILINE))
    offered = shell.offers("gpumend ")
    check(f"{name}: the commands", commands and commands <= offered, commands - offered)
    for command in sorted(commands):
        told = subprocess.run([exe, command, "--help"], capture_output=True, text=True, check=True).stdout
        options, offered = set(OPTION.findall(told)), shell.offers(f"gpumend {command} --")
        check(f"{name}: the options of {command}", options and options <= offered, options ^ offered)
    for line, wanted in CASES:
        offered = shell.offers(line)
        check(f"{name}: {line}", wanted <= offered, offered)
    for line, wanted in KEYS:
        offered = {word.rstrip("=").rpartition("=")[2] for word in shell.offers(line)}
        check(f"{name}: {line}", wanted <= offered and "driver" not in offered, offered)
    check(f"{name}: nothing for a value that only the user knows", not shell.offers("gpumend check --glibc "))


def main():
    global skipped
    exe = Path(sys.argv[1]).resolve()
    for name, kind in (("fish", Fish), ("zsh", Zsh)):
        if not shutil.which(name):
            print(f"SKIP {name}: it is not installed")
            skipped += 1
            continue
        with tempfile.TemporaryDirectory(prefix="gpumend completion.") as folder:
            shell = kind(exe, Path(folder))
            try:
                of_shell(name, shell, exe)
            finally:
                shell.close()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
