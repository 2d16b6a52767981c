#!/usr/bin/python3
"""What the project says of itself agrees with what it does, and its scripts are well formed.

    tests/documents.py GPUMEND

Options stand in the help text, the manual page and the completion alike; the version is one;
relative links lead somewhere; shell scripts parse (and pass shellcheck where it is installed);
the manual page formats without a warning; the completion completes.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def tracked(*patterns):
    if shutil.which("git"):
        done = subprocess.run(["git", "ls-files", *patterns], cwd=TOP, capture_output=True,
                              text=True, check=False)
        if done.returncode == 0 and done.stdout:
            return [TOP / line for line in done.stdout.splitlines() if (TOP / line).exists()]
    return [p for pattern in patterns for p in TOP.rglob(pattern)
            if not p.relative_to(TOP).parts[0].startswith(("build", ".git"))]


def output(*command, given=None):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, input=given,
                          cwd=TOP, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def manual_section(command):
    """The text of a command's subsection in the manual page, without its escapes."""
    page = (TOP / "man/gpumend.1").read_text().replace("\\-", "-")
    found = re.search(rf"^\.SS {command}\n(.*?)(?=^\.S[SH] )", page, re.DOTALL | re.MULTILINE)
    return found.group(1) if found else ""


def completes(words):
    """What the completion offers for a command line whose last word is being typed."""
    script = ("source completion/gpumend.bash; compopt() { :; }; COMP_WORDS=(\"$@\"); "
              "COMP_CWORD=$(($# - 1)); _gpumend \"$1\"; printf '%s\\n' \"${COMPREPLY[@]}\"")
    return set(output("bash", "-c", script, "bash", *words)[1].split())


def options_agree(exe):
    status, text, _ = output(exe, "--help")
    commands = re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE)
    if status != 0 or not {"check", "why"} <= set(commands):
        yield f"--help: status {status}, commands {commands}"
    if completes(["gpumend", ""]) - {"--help", "--version", "--licenses"} != set(commands):
        yield f"the completion does not offer the commands {commands}"
    readme = (TOP / "README.md").read_text()
    for command in commands:
        if not re.search(rf"^    gpumend {command} ", readme, re.MULTILINE):
            yield f"README.md does not list {command}"
        status, text, errors = output(exe, command, "--help")
        if status != 0 or not text or errors:
            yield f"{command} --help: status {status}, {len(text)} bytes, on stderr: {errors[:200]}"
            continue
        told = set(OPTION.findall(text)) | {"--help"}
        manual = set(OPTION.findall(manual_section(command))) | {"--help"}
        offered = {w for w in completes(["gpumend", command, "--"]) if w.startswith("--")}
        if told != manual:
            yield f"{command}: help and manual page differ in {sorted(told ^ manual)}"
        if told != offered:
            yield f"{command}: help and completion differ in {sorted(told ^ offered)}"


def version_agrees(exe):
    version = re.search(r"version : '([^']+)'", (TOP / "meson.build").read_text()).group(1)
    if output(exe, "--version")[1].strip() != f"gpumend {version}":
        yield f"--version prints {output(exe, '--version')[1]!r}, the project is {version}"
    if f'"gpumend {version}"' not in (TOP / "man/gpumend.1").read_text():
        yield f"the manual page is not of version {version}"


def links_lead_somewhere():
    for page in tracked("*.md"):
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                yield f"{page.relative_to(TOP)}: {target} does not exist"


def scripts_parse():
    for path in tracked("*"):
        if not path.is_file() or path.is_symlink():
            continue
        with open(path, "rb") as f:
            first = f.readline(80)
        shell = re.match(rb"#!.*\b(ba)?sh\b", first) or path.suffix == ".bash"
        if shell:
            name = "bash" if b"bash" in first or path.suffix == ".bash" else "sh"
            status, _, errors = output(name, "-n", path)
            if status == 0 and shutil.which("shellcheck") and path.suffix != ".bash":
                status, errors, _ = output("shellcheck", "-S", "warning", path)
            if status != 0:
                yield f"{path.relative_to(TOP)}: {errors[-600:]}"
        elif path.suffix == ".py" or re.match(rb"#!.*python", first):
            try:
                compile(path.read_bytes(), str(path), "exec")
            except SyntaxError as e:
                yield f"{path.relative_to(TOP)}: {e}"


def manual_formats():
    status, text, errors = output("groff", "-man", "-Tutf8", "-P-cbou", "-ww", "man/gpumend.1")
    if status != 0 or errors or "EXIT STATUS" not in text:
        yield f"groff: status {status}: {errors[:400]}"


def completion_completes(exe):
    causes = set(re.findall(r"^(\S+) ", output(exe, "explain", "--list")[1], re.MULTILINE))
    if completes([str(exe), "explain", ""]) != causes or not causes:
        yield "explain: the causes offered are not those of --list"
    for words, expected in ((["gpumend", "wh"], {"why"}), (["gpumend", "why", "--cp"], {"--cpu"}),
                            (["gpumend", "why", "--cpu", "x86-64-v3"], {"x86-64-v3"}),
                            (["gpumend", "check", "--cpu", "x86-64-v3"], {"x86-64-v3"}),
                            ([str(exe), "explain", "import-o"], {"import-order"}),
                            (["gpumend", "check", "/et"], {"/etc"}),
                            (["gpumend", "check", "--root", "/et"], {"/etc"}),
                            (["gpumend", "check", "--pid", "1"], {"1"})):
        got = completes(words)
        if not got.issuperset(expected) or not all(g.startswith(words[-1]) for g in got):
            yield f"{' '.join(words)}: {sorted(got)[:10]} instead of {sorted(expected)}"


def main():
    exe = Path(sys.argv[1]).resolve()
    passed = failed = 0
    for check in (lambda: options_agree(exe), lambda: version_agrees(exe), links_lead_somewhere,
                  scripts_parse, manual_formats, lambda: completion_completes(exe)):
        faults = list(check())
        for fault in faults:
            print(f"FAIL {fault}")
        failed += bool(faults)
        passed += not faults
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
