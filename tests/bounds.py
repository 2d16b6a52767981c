#!/usr/bin/env python3
"""docs/bounds.md names every bound of the sources: each constant *_MAX with its value, and no other.

    tests/bounds.py
"""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
NAME = r"[A-Z][A-Z0-9_]*_MAX(?:_[A-Z]+)?"
ENUMERATOR = re.compile(rf"\b({NAME})\b\s*=(?!=)\s*((?:\((?:[^()]|\([^()]*\))*\)|[^,}};(])+)")
MACRO = re.compile(rf"#define\s+({NAME})\s+(.+)")
ROW = re.compile(r"\| (\S+) \| `(\w+)` \| `([^`]+)` \| (.+) \| (.+) \|$")
MEANING = re.compile(r"\| ([a-z ]+) \| [A-Z].*\|$")


def of_sources():
    """{(file, name): value}"""
    found = {}
    for path in sorted((TOP / "src").rglob("*.[ch]")):
        file = str(path.relative_to(TOP / "src"))
        for line in path.read_text(encoding="utf-8").splitlines():
            code = line.partition("//")[0].strip()
            if code.startswith(("*", "/*")):
                continue
            macro = MACRO.match(code)
            for m in [macro] if macro else ENUMERATOR.finditer(code):
                found[(file, m[1])] = m[2].strip()
    return found


def of_page():
    """({(file, name): value}, lines that are wrong)"""
    found, wrong, room, meanings = {}, [], None, set()
    for line in (TOP / "docs/bounds.md").read_text(encoding="utf-8").splitlines():
        row = ROW.match(line)
        if line.startswith("## "):
            room = line[3:]
        elif room is None and MEANING.match(line):
            meanings.add(MEANING.match(line)[1])
        elif row:
            key = (f"{room}/{row[1]}", row[2])
            reached = row[5].partition(": ")[0]
            if key in found or reached not in meanings:
                wrong.append(line)
            found[key] = row[3].replace("\\|", "|")
        elif room and line and not line.startswith(("| file ", "| --- ")):
            wrong.append(line)
    return found, wrong


def main():
    sources, (page, wrong) = of_sources(), of_page()
    for line in wrong:
        print(f"FAIL docs/bounds.md: {line}")
    failed = len(wrong)
    for key in sorted(set(sources) | set(page)):
        if sources.get(key) != page.get(key):
            failed += 1
            print(f"FAIL {' '.join(key)}: {sources.get(key, 'absent')} in src/, "
                  f"{page.get(key, 'absent')} in docs/bounds.md")
    passed = len(sources) - failed if len(sources) > failed else 0
    if len(sources) < 300:
        failed += 1
        print(f"FAIL only {len(sources)} bounds were found in src/")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
