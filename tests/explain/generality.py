#!/usr/bin/python3
r"""Whether the signatures of `explain` name mechanisms, and not the words of one person.

    tests/explain/generality.py [--all]

Each signature is tried on every text with a known cause: our own logs, the collected ones where they
are at hand (corpus.py), and the examples of docs/causes. An alternative of its expression, or one of
its literals where it has no expression, is *long* when it demands more than WORDS words as they
stand. A failure is:

- a row without a source;
- a long alternative that no two texts contain, in a row whose only sources are people's own words
  (PROSE): nobody knows that another person would say it so. What a program prints may be long and
  rare, as its source is where the next person's log comes from;
- literal text that belongs to one machine or person (PERSONAL): a home, an address, a hash, a date;
- an alternative that begins with a run of word characters and not at its edge, "[\w.]+\.so" instead of
  "(?<![\w.])[\w.]+\.so": on a long word it is tried from each character on, to the end;
- a literal that stands in more than one in ORDINARY lines of an ordinary log (those of the benchmark):
  its expression is then searched on each of them.

The last lines say how many texts the signatures match; --all names what is long and rare.
"""
import argparse
import collections
import importlib.util
import random
import re
import sys
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import corpus  # noqa: E402

parser_of_re = getattr(re, "_parser", None) or __import__("sre_parse")
TOP = Path(__file__).resolve().parent.parent.parent
WORDS = 6
ORDINARY = 50
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
PROSE = re.compile(r"\bprose\b|\bpeople\b|\bown words\b", re.I)
PERSONAL = {
    "a home": r"/home/\w{2,}|/Users/\w{2,}|C:\\+Users\\+\w{2,}",
    "an address": r"(?<![\d.])(?!127\.0\.0\.1|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?![\d.])|\w@\w+\.\w",
    "a hash": r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{10,}\b",
    "a date": r"\b(?:19|20)\d\d-[01]\d-[0-3]\d\b|\b[0-2]\d:[0-5]\d:[0-5]\d\b",
}
def rows():
    """The patterns of kb/failures, those inside entries too."""
    for path in sorted((TOP / "kb/failures").glob("*.yaml")):
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CBaseLoader)
        yield from document.get("lines", ())
        for entry in document.get("failures", ()):
            yield from entry.get("lines", ())


def texts():
    """(name, kind, text) of every text with a known cause."""
    for row in corpus.own():
        yield row["id"], "own", row["log"]
    for row in corpus.collected() or []:
        yield row["id"], "collected", row["log"]
    for page in sorted((TOP / "docs/causes").glob("*.md")):
        for n, block in enumerate(re.findall(r"```log\n(.*?)```", page.read_text(encoding="utf-8"),
                                             re.S)):
            yield f"{page.stem}#{n}", "page", block


def lines_of(text):
    for line in text.split("\n"):
        line = ANSI.sub("", line).replace("\t", " ").strip()
        line = re.sub(r"^note:\s*", "", line)
        if line:
            yield line


# ---- what an alternative demands

def demanded(nodes):
    """The literal texts that each way through an expression must meet, as runs; ways are limited."""
    ways = [[""]]
    for op, value in nodes:
        name = str(op)
        if name == "LITERAL":
            for way in ways:
                way[-1] += chr(value)
            continue
        if name == "SUBPATTERN":
            inner = demanded(value[3])
        elif name == "BRANCH":
            inner = [way for branch in value[1] for way in demanded(branch)]
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and value[0] > 0:
            inner = demanded(value[2])
        elif name == "IN" and len(value[1:]) <= 1 and str(value[0][0]) == "LITERAL":
            inner = [[chr(value[0][1])]]    # [Aa]
        elif name == "AT":
            continue
        else:
            inner = [["", ""]]
        ways = [join(way, more) for way in ways for more in inner][:MANY]
    return ways


MANY = 400


def join(way, more):
    return way[:-1] + [way[-1] + more[0]] + more[1:]


def word_count(way):
    return sum(len(re.findall(r"[A-Za-z]{2,}", run)) for run in way)


def alternatives(row):
    """(expression of one alternative, the words that it demands)"""
    if "regex" not in row:
        for literal in row.get("literals") or [row["literal"]]:
            yield re.compile(re.escape(literal), re.I), word_count([literal]), [literal]
        return
    tree = parser_of_re.parse(row["regex"], re.I)
    nodes = list(tree)
    if len(nodes) == 1 and str(nodes[0][0]) == "BRANCH":
        for part, branch in zip(split_top(row["regex"]), nodes[0][1][1]):
            shortest = min(demanded(branch), key=word_count)
            yield re.compile(part, re.I | re.A), word_count(shortest), shortest
    else:
        shortest = min(demanded(nodes), key=word_count)
        yield re.compile(row["regex"], re.I | re.A), word_count(shortest), shortest


def split_top(text):
    """The alternatives of an expression, as written."""
    parts, depth, start, i, in_class = [], 0, 0, 0, False
    while i < len(text):
        c = text[i]
        if c == "\\":
            i += 2
            continue
        if in_class:
            in_class = c != "]" or i == opened + 1
        elif c == "[":
            in_class, opened = True, i + (text[i + 1] == "^")
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "|" and depth == 0:
            parts.append(text[start:i])
            start = i + 1
        i += 1
    return parts + [text[start:]]


# ---- checks

class Found:
    """A signature with the texts that it and its alternatives match."""

    def __init__(self, row, every):
        self.row = row
        wanted = [text.lower() for text in row.get("literals") or [row["literal"]]]
        self.lines = {}
        for name, lines in every:
            some = [line for line, low in lines if any(text in low for text in wanted)]
            if some:
                self.lines[name] = some
        self.alternatives = [(words, way, self.texts(expression))
                             for expression, words, way in alternatives(row)]
        self.all = set().union(*(names for _, _, names in self.alternatives))

    def texts(self, expression):
        return {name for name, lines in self.lines.items()
                if any(expression.search(line) for line in lines)}

    def rare(self):
        """Long alternatives that less than two texts contain."""
        return [(way, names) for words, way, names in self.alternatives
                if words > WORDS and len(names) < 2]


BEGINS_IN_WORD = re.compile(r"(?:\(\?:|\(\?P<\w+>)*\[\\w[^\]]*\](?:[+*]|\{\d+,\})")


def is_prose(source):
    """Whether no part of a source names a program, a file or a document."""
    return all(PROSE.search(part) for part in re.split(r"[;,]", source))


def faults_of(found):
    row = found.row
    if not row.get("source") or not all(text.strip() for text in row["source"]):
        yield "names no source"
    for way, names in found.rare() if all(map(is_prose, row["source"])) else ():
        yield (f"{' ... '.join(run for run in way if run)!r} is in {', '.join(names) or 'no text'}"
               f" only, and its source is {row['source']}")
    for part in split_top(row.get("regex", "")):
        if BEGINS_IN_WORD.match(part):
            yield f"{part[:60]!r} begins in the middle of words"
    for way in [way for _, way, _ in found.alternatives]:
        for what, expression in PERSONAL.items():
            if any(re.search(expression, run) for run in way):
                yield f"has {what}: {way}"


def ordinary_lines():
    """Lines as the benchmark's log has them."""
    spec = importlib.util.spec_from_file_location("bench_run", TOP / "tests/bench/run.py")
    bench = importlib.util.module_from_spec(spec)
    sys.modules["bench_run"] = bench
    sys.path.insert(0, str(TOP / "tests/bench"))
    spec.loader.exec_module(bench)
    source = random.Random(1)
    return [bench.log_line(source, i).lower() for i in range(5000)]


def ordinary_faults(row, lines, whole):
    for text in row.get("literals") or [row["literal"]]:
        if text.lower() in whole:
            share = sum(text.lower() in line for line in lines)
            if share * ORDINARY > len(lines):
                yield f"its literal {text!r} is in {share} of {len(lines)} ordinary lines"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    arguments.add_argument("--all", action="store_true", help="name what is long and rare")
    options = arguments.parse_args()
    every = [(name, [(line, line.lower()) for line in lines_of(text)]) for name, _, text in texts()]
    lines = ordinary_lines()
    whole = "\n".join(lines)
    counts, passed, failed = collections.Counter(), 0, 0
    for row in rows():
        found = Found(row, every)
        faults = [*faults_of(found), *ordinary_faults(row, lines, whole)]
        for fault in faults:
            print(f"FAIL {row['id']}: {fault}")
        passed += not faults
        failed += bool(faults)
        counts[min(len(found.all), 2)] += 1
        for way, names in found.rare() if options.all else ():
            print(f"  {row['id']}: {' ... '.join(r for r in way if r)!r}: "
                  f"{', '.join(names) or 'no text'}; {'; '.join(row['source'])}")
    print(f"{sum(counts.values())} signatures on {len(every)} texts: {counts[2]} match two or more, "
          f"{counts[1]} one, {counts[0]} none (their formats are from their sources)")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
