#!/usr/bin/python3
"""docs/causes/*.md and docs/causes.md agree with the causes that gpumend knows.

    tests/pages.py GPUMEND [--write-index]

Every cause has a page and every page a cause, with the cause's title and its class first; `explain
CAUSE` prints the page. The table of docs/causes.md is that of `explain --list`; --write-index writes
it.
"""

import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
INDEX = TOP / "docs/causes.md"
ROW = re.compile(r"^\| \[`.*\n", re.MULTILINE)


def load_script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(TOP / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
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


def page_faults(exe, cause):
    path = TOP / "docs/causes" / (cause["cause"] + ".md")
    if not path.exists():
        return
    ident, title, sections = EMBED.read_page(path)
    where = f"{path.relative_to(TOP)}: "
    if (ident, title) != (cause["cause"], cause["title"]):
        yield where + f"the title is not {cause['title']!r}"
    if cause["classes"][:1] != [cause["class"]]:
        yield where + f"its classes are {cause['classes']}, the cause's is {cause['class']}"
    if cause["page"] != EMBED.terminal(sections):
        yield where + "explain --json has another text"
    status, text = output(exe, "explain", ident)
    if status != 0 or not text.endswith(cause["page"] + "\n") or title not in text:
        yield where + f"explain prints something else (status {status})"


def main():
    exe = str(Path(sys.argv[1]).resolve())
    causes = json.loads(output(exe, "explain", "--list", "--json")[1])["causes"]
    if "--write-index" in sys.argv:
        write_index(causes)
    passed = failed = 0
    for check in (lambda: index_faults(causes), lambda: id_faults(causes),
                  *(lambda c=c: page_faults(exe, c) for c in causes)):
        faults = list(check())
        for fault in faults:
            print(f"FAIL {fault}")
        failed += bool(faults)
        passed += not faults
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
