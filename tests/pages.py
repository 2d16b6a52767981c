#!/usr/bin/python3
"""docs/causes/*.md and docs/causes.md agree with the causes that gpumend knows.

    tests/pages.py GPUMEND [--write-index]

Every cause has a page and every page a cause, with the cause's title, its class first, and every
section; `explain CAUSE` prints the page, in colours on a terminal. Commands of a shell and Python
parse; commands of gpumend and their options stand in --help, and its knowledge base answers the
questions; threads lead where their names say. A log that a page gives as an example is explained as
that very cause. The table of docs/causes.md is that of `explain --list`; --write-index writes it.
"""

import importlib.machinery
import importlib.util
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
INDEX = TOP / "docs/causes.md"
ROW = re.compile(r"^\| \[`.*\n", re.MULTILINE)
CLASS_ROW = re.compile(r"^\| `([a-z-]+)` \| (.+) \|$", re.MULTILINE)
LANGUAGES = {"log", "text", "sh", "bat", "python", "dockerfile", "yaml"}
THREAD = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)$")
OWN_COMMAND = re.compile(r"(?<![\w/-])gpumend +([a-z]+)([^;|&\n]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
QUESTION = re.compile(r"gpumend kb (?!arch )([^;|&\n]+)")
PYTHON = re.compile(r"\bpython3? (?:-X \w+ )?-c '([^']+)'")


def load_script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(TOP / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
sys.path.insert(0, str(TOP / "scripts"))
EMBED = load_script("pages-embed")


def output(exe, *words):
    done = subprocess.run([exe, *words], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def index_rows(causes):
    return "".join("| [`%s`](causes/%s.md) | `%s` | %s | %s |\n" % (
        c["cause"], c["cause"], c["class"], c["severity"], c["title"]) for c in causes)


def write_index(causes):
    text = INDEX.read_text(encoding="utf-8")
    first = ROW.search(text).start()
    INDEX.write_text(text[:first] + index_rows(causes) + ROW.sub("", text[first:]), encoding="utf-8")


def index_faults(causes):
    if "".join(ROW.findall(INDEX.read_text(encoding="utf-8"))) != index_rows(causes):
        yield "docs/causes.md: the table is not that of explain --list (--write-index writes it)"


def id_faults(causes):
    ids = {c["cause"] for c in causes}
    pages = {p.stem for p in (TOP / "docs/causes").glob("*.md")}
    for name in sorted(ids - pages):
        yield f"docs/causes/{name}.md is missing"
    for name in sorted(pages - ids):
        yield f"docs/causes/{name}.md: there is no such cause"


def form_faults(sections):
    """Every section is there and of its kind."""
    yield from (f"no section {name!r}" for name in EMBED.SECTIONS
                if name != "Upstream" and not sections.get(name))
    for name, blocks in sections.items():
        kinds = {kind for kind, _, _ in blocks}
        yield from (f"a fence of {kind!r}" for kind in kinds - LANGUAGES - {"prose", "item"})
        if name == "Example" and not kinds & {"log", "text"}:
            yield "the example is no fence"
        if name == "What to do":
            marks = [lines[0] for kind, _, lines in blocks if kind == "item"]
            if marks != [f"{n}." for n in range(1, len(marks) + 1)] or not marks:
                yield f"the ways out are numbered {' '.join(marks)}"


def fences(sections, *languages):
    for blocks in sections.values():
        for kind, _, lines in blocks:
            if kind in languages:
                yield "\n".join(lines)


def command_faults(exe, sections, helps):
    """Shells take the commands; gpumend's own are in its --help."""
    for script in fences(sections, "sh"):
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True,
                              timeout=60, check=False)
        if done.returncode != 0:
            yield f"bash does not take: {script}: {done.stderr.strip()}"
    told = "\n".join(" ".join(lines) for blocks in sections.values() for _, _, lines in blocks)
    for text in [*fences(sections, "sh"), *re.findall("`([^`]+)`", told)]:
        for command, rest in OWN_COMMAND.findall(text):
            if command not in helps:
                status, helps[command] = output(exe, command, "--help")
                if status != 0:
                    yield f"gpumend has no command {command}"
                    continue
            unknown = set(OPTION.findall(rest.split(" -- ")[0])) - set(OPTION.findall(helps[command]))
            if unknown:
                yield f"gpumend {command} has no {', '.join(sorted(unknown))}"


def content_faults(exe, sections):
    """Python compiles, and the knowledge base answers what a page asks it."""
    scripts = list(fences(sections, "sh"))
    for program in [*fences(sections, "python"), *PYTHON.findall("\n".join(scripts))]:
        try:
            compile(program, "page", "exec")
        except SyntaxError as error:
            yield f"Python does not take: {program}: {error}"
    for question in QUESTION.findall("\n".join(scripts)):
        status, text = output(exe, "kb", *shlex.split(question))
        if status != 0:
            yield f"gpumend kb {question}: status {status}: {text.strip()}"


def colour_faults(exe, ident):
    """Headings and commands stand out on a terminal, unless colours are not wanted."""
    told = {}
    for name, value in (("yes", ""), ("no", "1")):
        ours, theirs = pty.openpty()
        with subprocess.Popen([exe, "explain", ident], stdout=theirs, stdin=subprocess.DEVNULL,
                              env={**os.environ, "TERM": "xterm", "NO_COLOR": value}) as child:
            os.close(theirs)
            told[name] = b""
            try:
                while chunk := os.read(ours, 65536):
                    told[name] += chunk
            except OSError:  # the other end is closed
                pass
            child.wait(60)
        os.close(ours)
    if b"\033[1mWhat to do\033[0m" not in told["yes"] or b"\033[32m      " not in told["yes"]:
        yield f"explain {ident}: no colours on a terminal"
    if b"\033" in told["no"] or not told["no"]:
        yield f"explain {ident}: NO_COLOR is not heeded"


def thread_faults(threads):
    for thread in threads:
        link = THREAD.match(thread["url"])
        if not link or thread["thread"] != "%s#%s" % link.groups() or not thread["says"]:
            yield f"the thread {thread['thread']}: {thread['url']}"


def class_faults(sections, classes):
    for text in EMBED.prose(sections.get("Class", [])):
        name, _, meaning = text.partition(": ")
        if EMBED.plain(classes.get(name, "")) != meaning:
            yield f"the class {name} is not that of docs/causes.md"


def log_faults(exe, cause, sections):
    """Each example that a log shows is explained as this cause."""
    for log in fences(sections, "log"):
        done = subprocess.run([exe, "explain", "--json", "-"], input=log, capture_output=True,
                              text=True, timeout=60, check=False)
        try:
            named = json.loads(done.stdout)["cause"]
        except (ValueError, KeyError):
            named = done.stderr.strip()
        if named != cause:
            yield f"its example is explained as {named}: {log.splitlines()[0]}"


def explains_logs(exe):
    return "LOG" in output(exe, "explain", "--help")[1].split("options:")[0]


def page_faults(exe, cause, classes, helps):
    path = TOP / "docs/causes" / (cause["cause"] + ".md")
    if not path.exists():
        return
    ident, title, sections = EMBED.read_page(path)
    faults = [f"the title is not {cause['title']!r}"] * (
        (ident, title) != (cause["cause"], cause["title"]))
    if cause["classes"][:1] != [cause["class"]]:
        faults.append(f"its classes are {cause['classes']}, the cause's is {cause['class']}")
    if cause["page"] != EMBED.terminal(sections):
        faults.append("explain --json has another text")
    status, text = output(exe, "explain", ident)
    if status != 0 or not text.endswith(cause["page"] + "\n") or title not in text:
        faults.append(f"explain prints something else (status {status})")
    faults += [*form_faults(sections), *command_faults(exe, sections, helps),
               *content_faults(exe, sections),
               *thread_faults(cause["threads"]), *class_faults(sections, classes)]
    if explains_logs(exe):
        faults += log_faults(exe, ident, sections)
    yield from (f"{path.relative_to(TOP)}: {fault}" for fault in faults)


def main():
    exe = str(Path(sys.argv[1]).resolve())
    causes = json.loads(output(exe, "explain", "--list", "--json")[1])["causes"]
    if "--write-index" in sys.argv:
        write_index(causes)
    classes = dict(CLASS_ROW.findall(INDEX.read_text(encoding="utf-8")))
    helps = {}
    passed = failed = 0
    for check in (lambda: index_faults(causes), lambda: id_faults(causes),
                  lambda: colour_faults(exe, causes[0]["cause"]),
                  *(lambda c=c: page_faults(exe, c, classes, helps) for c in causes)):
        faults = list(check())
        for fault in faults:
            print(f"FAIL {fault}")
        failed += bool(faults)
        passed += not faults
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
