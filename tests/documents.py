#!/usr/bin/python3
"""What the project says of itself agrees with what it does, and its scripts are well formed.

    tests/documents.py GPUMEND

Options stand in the help text, the manual page and the completion alike; the version is one;
relative links lead somewhere; the picture of the rooms is current; shell scripts parse (and pass shellcheck where it is installed);
the manual page formats without a warning; the completion completes. README.md is short, and what it shows
was recorded; phrases that had to be read twice (PHRASES) do not come back.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# In README.md, the pages, the manual page, every --help, the texts of the sources and the public
# headers; a blank stands for any white space.
PHRASES = (
    "a right to it", "a sub-library that it opens is not", "after these it cannot",
    "are no usable", "are not concerned", "as it should", "ask for another", "asked for of",
    "belong into", "belongs into", "brings TARGET", "cannot be told",
    "contexts know nothing of", "does not get from the GPU", "does not reach Windows",
    "else the text", "ends at the wrong file", "fastest first else",
    "for an application at its start", "goes there and back", "hang on NVSwitch",
    "hangs on NVSwitch", "is no application", "is no failure", "is no name of", "is no usable",
    "is to be run", "mends most", "named like this command", "no need of it",
    "nothing is said of", "of the ways that can be carried out", "only a log is there",
    "print it all the same", "says what it is", "stands in no file", "taken for the least",
    "tells which library", "the text does not tell", "troubles show", "ways to mend what",
    "what acts is asked to", "which there is not", "while the program lives", "why is not known")
README_LINES = 130
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
    if len(commands) != len(set(commands)):
        yield f"--help lists a command twice: {commands}"
    if completes(["gpumend", ""]) - {"--help", "--version", "--licenses"} != set(commands):
        yield f"the completion does not offer the commands {commands}"
    readme = (TOP / "README.md").read_text()
    for command in commands:
        if not re.search(rf"^\| `gpumend {command}[ `]", readme, re.MULTILINE):
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


def readme_is_short_and_recorded():
    """What README.md shows of a terminal stands in docs/session.txt, which scripts/record-session writes."""
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    if len(readme.splitlines()) > README_LINES:
        yield f"README.md has more than {README_LINES} lines"
    recorded = (TOP / "docs/session.txt").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", readme, re.MULTILINE)
    shown = [part for block in blocks for part in re.split(r"^(?=    \$ )", block, flags=re.MULTILINE)
             if part.startswith("    $ ")]
    if len(shown) < 3:
        yield f"README.md shows {len(shown)} commands"
    for part in shown:
        text = re.sub(r"^    ", "", part, flags=re.MULTILINE).strip("\n") + "\n"
        if text not in recorded:
            yield f"README.md: docs/session.txt has not: {text.splitlines()[0]}"


def source_texts(path):
    """The string literals of a C file, a line each; those that are one text are joined."""
    joined = re.sub(r'"\s*\n\s*"', lambda m: "", path.read_text(encoding="utf-8"))
    return "\n".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', joined))


def phrases_stay_away(exe):
    commands = re.findall(r"^  ([a-z]+)  ", output(exe, "--help")[1], re.MULTILINE)
    texts = {f"{c} --help": output(exe, c, "--help")[1] for c in commands}
    texts.update({str(p.relative_to(TOP)): p.read_text(encoding="utf-8")
                  for p in [*TOP.glob("*.md"), *TOP.glob("docs/*.md"), *TOP.glob("docs/causes/*.md"),
                            *TOP.glob("man/*")]})
    # Indented lines are what gpumend printed when the page was written.
    texts = {name: re.sub(r"^ {4}.*", "", text, flags=re.MULTILINE) if name.endswith(".md") else text
             for name, text in texts.items()}
    texts.update((str(p.relative_to(TOP)), source_texts(p)) for p in tracked("src/**/*.c"))
    texts.update((str(p.relative_to(TOP)), p.read_text(encoding="utf-8"))
                 for p in tracked("include/*.h"))
    for phrase in PHRASES:
        wanted = re.compile(r"\b" + r"\s+".join(map(re.escape, phrase.split())) + r"\b", re.IGNORECASE)
        for name, text in texts.items():
            if found := wanted.search(text):
                yield f"{name}, line {text[:found.start()].count(chr(10)) + 1}: {phrase!r}"


def security_names_all_commands():
    """SECURITY.md says of each command what it may do."""
    named = set(re.findall(r"`([a-z]+)[^`]*`", "".join(
        line.split("|")[1] for line in (TOP / "SECURITY.md").read_text().splitlines() if line.startswith("| `"))))
    listed = (TOP / "src/cli/main.c").read_text().split("commands[] = {")[1].split("}")[0]
    for command in re.findall(r"&cli_(\w+)", listed):
        if command not in named:
            yield f"SECURITY.md does not say what {command} may do"


def picture_is_current():
    with tempfile.TemporaryDirectory() as folder:
        status, _, errors = output(sys.executable, "scripts/rooms-svg", f"{folder}/rooms.svg")
        if status != 0:
            yield f"scripts/rooms-svg: {errors[-400:]}"
        elif Path(folder, "rooms.svg").read_bytes() != (TOP / "docs/rooms.svg").read_bytes():
            yield "docs/rooms.svg does not show the rooms and the include lines: run scripts/rooms-svg"


def folders_are_described():
    """docs/ARCHITECTURE.md names each folder of tests; what both documents name in code exists."""
    text = (TOP / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^    (tests/[\w-]+)/ ", text, re.MULTILINE))
    there = {"/".join(path.relative_to(TOP).parts[:2]) for path in tracked("tests/*/*")} - {"tests/__pycache__"}
    for folder in sorted(described ^ there):
        yield f"docs/ARCHITECTURE.md {'names' if folder in described else 'does not name'} {folder}/"
    for document in ("CONTRIBUTING.md", "docs/ARCHITECTURE.md"):
        text = (TOP / document).read_text(encoding="utf-8")
        for name in re.findall(r"`((?:src|tests|docs|scripts|kb|include|LICENSES)/[a-z_/.-]+)[ `]", text):
            if not (TOP / name).exists():
                yield f"{document} names {name}, which is not there"


def scripts_parse():
    for path in tracked("*"):
        if not path.is_file() or path.is_symlink():
            continue
        with open(path, "rb") as f:
            first = f.readline(80)
        shell = re.match(rb"#!.*\b(ba)?sh\b", first) or path.suffix == ".bash"
        if re.search(rb"^(<{7}|>{7}) ", path.read_bytes(), re.MULTILINE):
            yield f"{path.relative_to(TOP)} has the marks of a merge that was not finished"
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
    keys = {line.split()[0] + "=" for line in output(exe, "kb", "--keys")[1].splitlines()}
    if completes([str(exe), "kb", "driver", "--with", ""]) != keys or "cuda=" not in keys:
        yield f"the completion does not offer the keys {sorted(keys)}"
    if completes([str(exe), "kb", "driver", "--with", "os", "=", "w"]) != {"windows", "wsl"}:
        yield "the completion does not offer the values of a key"
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
                  readme_is_short_and_recorded, lambda: phrases_stay_away(exe), picture_is_current, folders_are_described,
                  security_names_all_commands, scripts_parse, manual_formats, lambda: completion_completes(exe)):
        faults = list(check())
        for fault in faults:
            print(f"FAIL {fault}")
        failed += bool(faults)
        passed += not faults
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
