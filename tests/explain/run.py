#!/usr/bin/python3
"""How often `gpumend explain LOG` is right, over logs whose causes are known.

    tests/explain/run.py GPUMEND [--misses] [--only ID]...

Explains every log of corpus/ and every collected case (corpus.py says where those are; without
them they are skipped by name) and prints for both a table of causes, what was taken for what, and
the means over cases and over classes. score.py says when an answer is right. Then logs go through
the hands of other tools first (wrap.py: UTF-16, colours, progress bars, the prefixes of containers,
JSON), which must not change a right answer, and some are given as files and as words.

A failure is: a document that is not valid, evidence that quotes a line that is not there, a share
below its limit (LIMITS), a cause for a log that has none. --misses prints every log whose class or
culprit is not right, with what was said.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import corpus  # noqa: E402
import score  # noqa: E402
import wrap  # noqa: E402
from corpus import CANNOT_TELL, NOT_GPU  # noqa: E402

# Shares that must be reached, of the collected cases and of our own.
Limits = collections.namedtuple("Limits", "causes culprits cannot_tell")
LIMITS = {"collected": Limits(0.95, 0.90, 0.0), "own": Limits(0.90, 0.85, 1.0)}
ONE_IN = 5        # each wrapper gets one in so many logs
BROKEN_IN = 12    # lines of a message that a screen broke
LOST = 0.05       # of the right answers, where a wrapper breaks lines
KEYS = {"schema", "cause", "class", "culprit", "confidence", "summary", "evidence", "repairs",
        "facts", "also"}
CONFIDENCE = {"certain", "likely", "possible", None}
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
STATUS = {None: 3, NOT_GPU: 0}  # of every other class: 1
TOOL_S = 30
TOGETHER = 40      # logs in one call, with two or more of which it says `logs`
ALONE_ONE_IN = 20  # of our own logs, asked alone as well, in three ways

Answer = collections.namedtuple("Answer", "doc text faults")
NO_ANSWER = {"class": None, "culprit": None, "cause": None, "confidence": None}


def decoded(data):
    for bom, coding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"),
                        (b"\xef\xbb\xbf", "utf-8")):
        if data.startswith(bom):
            return data[len(bom):].decode(coding)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def strings_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)


def plain(text):
    """What stands in a line for the eye: no escapes, no control characters, single blanks."""
    text = ANSI.sub("", text)
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def said_in(line):
    """The texts in a line: itself, and the strings within a line of JSON."""
    yield plain(line)
    for start in {line.find("{"), 0} - {-1}:
        try:
            yield from map(plain, strings_of(json.loads(line[start:])))
        except ValueError:
            continue


def said_on(lines):
    """A line and those that it may go on in, without blanks."""
    return "".join("".join(plain(line).split()) for line in lines[:BROKEN_IN])


def quoted_faults(doc, text, broken):
    lines = text.split("\n")
    for item in doc["evidence"]:
        n, quote = item["line"], plain(item["text"]).rstrip("….").strip()
        if not 1 <= n <= len(lines):
            yield f"evidence names line {n} of {len(lines)}"
        elif not (any(quote in said for said in said_in(lines[n - 1]))
                  or broken and said_on(lines[n - 1:]).startswith("".join(quote.split()))):
            yield f"evidence quotes what line {n} does not say: {quote[:80]!r}"


def document_faults(doc, text, broken=False):
    if not isinstance(doc, dict) or not KEYS <= set(doc):
        yield f"the document lacks {sorted(KEYS - set(doc))}"
        return
    if doc["schema"] != 1 or doc["confidence"] not in CONFIDENCE:
        yield f"schema {doc['schema']}, confidence {doc['confidence']}"
    if (doc["class"] is None or doc["class"] == NOT_GPU) and doc["cause"] is not None:
        yield f"the cause {doc['cause']} of class {doc['class']}"
    if doc["class"] not in (None, NOT_GPU) and doc["cause"] is None:
        yield f"the class {doc['class']} without a cause"
    if doc["class"] is not None and not (doc["summary"] and doc["evidence"]):
        yield f"the class {doc['class']} without a summary or without evidence"
    if doc["class"] not in (None, NOT_GPU) and not doc["repairs"]:
        yield f"{doc['cause']}: no repair"
    yield from quoted_faults(doc, text, broken)


def explain(exe, data, broken=False):
    """The answer to a log, with what is wrong with its form."""
    try:
        done = subprocess.run([exe, "explain", "--json", "-"], input=data, capture_output=True,
                              timeout=TOOL_S, check=False)
    except subprocess.TimeoutExpired:
        return Answer(NO_ANSWER, "", [f"no answer within {TOOL_S} s"])
    if done.stderr:
        return Answer(NO_ANSWER, "", [f"status {done.returncode}: {done.stderr[:200]!r}"])
    try:
        doc = json.loads(done.stdout)
    except ValueError as error:
        return Answer(NO_ANSWER, "", [f"not JSON: {error}"])
    faults = list(document_faults(doc, decoded(data), broken))
    if done.returncode != STATUS.get(doc.get("class"), 1):
        faults.append(f"status {done.returncode} for the class {doc.get('class')}")
    return Answer(doc if KEYS <= set(doc) else NO_ANSWER, decoded(data), faults)


def asked(exe, *words):
    """The document for a question that `explain` answers."""
    done = subprocess.run([exe, "explain", "--json", *map(str, words)], capture_output=True,
                          timeout=TOOL_S, check=False)
    return json.loads(done.stdout)


def status_of(docs):
    """The status of several logs: a finding says most, then what could not be told."""
    statuses = {STATUS.get(doc.get("class"), 1) for doc in docs}
    return 1 if 1 in statuses else 3 if 3 in statuses else 0


def explain_together(exe, texts, broken):
    """The answers to a few logs, given as files of one call, which compiles the rules once. Where the call
    goes wrong as a whole that is a fault, and each is explained alone, so that it is seen which is to
    blame."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(n)) for n in range(len(texts))]
        for file, data in zip(files, texts):
            file.write_bytes(data)
        try:
            done = subprocess.run([exe, "explain", "--json", *map(str, files)], capture_output=True,
                                  timeout=TOOL_S, check=False)
            docs = json.loads(done.stdout)["logs"]
            in_order = [doc.pop("file") for doc in docs] == list(map(str, files))
        except (subprocess.TimeoutExpired, ValueError, KeyError):
            in_order = False
    if not in_order or done.stderr or done.returncode != status_of(docs):
        answers = [explain(exe, data, broken) for data in texts]
        if len(texts) > 1:
            answers[0].faults.append(f"together with {len(texts) - 1} more no usable answer")
        return answers
    return [Answer(doc if KEYS <= set(doc) else NO_ANSWER, decoded(data),
                   list(document_faults(doc, decoded(data), broken))) for doc, data in zip(docs, texts)]


def explain_all(exe, texts, broken=False):
    groups = [texts[i:i + TOGETHER] for i in range(0, len(texts), TOGETHER)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        answers = pool.map(lambda group: explain_together(exe, group, broken), groups)
        return [answer for group in answers for answer in group]


def called(answer):
    return answer.doc["class"] or "(cannot tell)"


def share(part, whole):
    return part / whole if whole else 1.0


def percent(part, whole):
    return f"{100 * share(part, whole):5.1f} % ({part} of {whole})"


class Judged:
    """Rows with their answers, and how many of them are right."""

    def __init__(self, name, rows, answers):
        self.name = name
        self.all = [(row, answer, score.score(row, answer.doc))
                    for row, answer in zip(rows, answers)]

    def of(self, test):
        return [item for item in self.all if test(item[0])]

    def causes(self):
        return self.of(score.has_cause)

    def negatives(self):
        return self.of(lambda row: row["cause"] == NOT_GPU)

    def unclear(self):
        return self.of(lambda row: row["cause"] == CANNOT_TELL)

    @staticmethod
    def right(items):
        return sum(s.cause is True for _, _, s in items)

    @staticmethod
    def culprits(items):
        return sum(s.culprit for _, _, s in items)

    @staticmethod
    def false_causes(items):
        return [(row, a) for row, a, s in items
                if s.cause is not True and a.doc["class"] not in (None, NOT_GPU)]


def print_table(judged):
    """Every class: how many, how many right, unanswered, with the culprit; what it was taken for."""
    print(f"{'class':26}{'logs':>5}{'right':>6}{'none':>6}{'culprit':>8}  taken for")
    for name in corpus.CLASSES + [NOT_GPU, CANNOT_TELL]:
        items = judged.of(lambda row, name=name: row["cause"] == name)
        wrong = collections.Counter(called(a) for _, a, s in items if s.cause is False)
        if items:
            print(f"{name:26}{len(items):5}{judged.right(items):6}"
                  f"{sum(s.cause is None for _, _, s in items):6}"
                  f"{judged.culprits(items) if name in corpus.CLASSES else '-':>8}  "
                  + ", ".join(f"{c} {n}" if n > 1 else c for c, n in wrong.most_common()))


def print_means(judged):
    items = judged.all
    per_class = collections.defaultdict(list)
    for row, _, s in items:
        per_class[row["cause"]].append(s.cause is True)
    mean = sum(sum(v) / len(v) for v in per_class.values()) / len(per_class)
    print(f"right, all logs             {percent(judged.right(items), len(items))}")
    print(f"right, mean over classes    {100 * mean:5.1f} % ({len(per_class)} classes)")
    for word in ("confirmed", "likely"):
        some = [i for i in judged.of(lambda row, w=word: row["confirmed"] == w)
                if i[0]["cause"] != CANNOT_TELL]
        print(f"right, {word:20} {percent(judged.right(some), len(some))}")
    for kind in sorted(corpus.KINDS):
        some = judged.of(lambda row, k=kind: row.get("kind") == k)
        if some:
            print(f"right, kind {kind:15} {percent(judged.right(some), len(some))}")
    causes = judged.causes()
    print(f"culprit, logs with a cause  {percent(judged.culprits(causes), len(causes))}")
    for level in ("certain", "likely", "possible"):
        some = [i for i in items if i[1].doc["confidence"] == level]
        print(f"right where said {level:10} {percent(judged.right(some), len(some))}")


def print_misses(judged):
    for row, answer, s in judged.all:
        word = ("wrong" if s.cause is False else "none" if s.cause is None else
                "culprit" if score.has_cause(row) and not s.culprit else None)
        if word:
            print(f"{word:8}{row['id']} {row['cause']} {row['also_acceptable']} / "
                  f"{row['culprit']!r}: said {called(answer)} ({answer.doc['cause']}, "
                  f"{answer.doc['confidence']}) / {answer.doc['culprit']!r}")


def limit_checks(judged):
    """(what, whether it holds) for each limit."""
    limits, causes, unclear = LIMITS[judged.name], judged.causes(), judged.unclear()
    for what, part, whole, least in (
            ("causes", judged.right(causes + judged.negatives()),
             len(causes + judged.negatives()), limits.causes),
            ("culprits", judged.culprits(causes), len(causes), limits.culprits),
            ("logs that do not tell", judged.right(unclear), len(unclear), limits.cannot_tell)):
        if whole:
            yield (f"{judged.name}: {what}: {percent(part, whole)}, "
                   f"{100 * least:.0f} % are needed", share(part, whole) >= least)
    for row, answer in judged.false_causes(judged.negatives()):
        yield f"{judged.name}: {row['id']} has no cause, {called(answer)} is named", False
    if not judged.false_causes(judged.negatives()):
        yield f"{judged.name}: no cause for {len(judged.negatives())} logs that have none", True


class Suite:
    def __init__(self, args):
        self.args, self.passed, self.failed, self.skipped = args, 0, 0, 0

    def check(self, name, ok):
        self.passed += ok
        self.failed += not ok
        if not ok:
            print(f"FAIL {name}")

    def answers(self, rows, texts, what, broken=False):
        answers = explain_all(self.args.gpumend, texts, broken)
        for row, answer in zip(rows, answers):
            self.check(f"{what} {row['id']}: {'; '.join(answer.faults)}", not answer.faults)
        return answers

    def score(self, name, rows):
        judged = Judged(name, rows, self.answers(rows, [r["log"].encode() for r in rows], name))
        print(f"\n{name}: {len(rows)} logs")
        print_table(judged)
        print_means(judged)
        if self.args.misses:
            print_misses(judged)
        if not self.args.only:
            for text, ok in limit_checks(judged):
                self.check(text, ok)
        return judged

    def wrapped(self, judged):
        """A right answer stays right, however the text arrives."""
        print(f"\nthe same logs by other ways, one in {ONE_IN}")
        for n, way in enumerate(wrap.ALL + wrap.BROKEN):
            some = [item for i, item in enumerate(judged.all)
                    if self.args.only or (i + n) % ONE_IN == 0]
            rows = [row for row, _, _ in some]
            answers = self.answers(rows, [way(row["log"]) for row in rows], way.__name__,
                                   way in wrap.BROKEN)
            lost = 0
            for (row, base, before), after in zip(some, answers):
                now = score.score(row, after.doc)
                if before.cause is True and now.cause is not True:
                    lost += 1
                    text = f"{way.__name__} {row['id']}: {called(base)} becomes {called(after)}"
                    if way in wrap.BROKEN:
                        print("lost:", text)
                    else:
                        self.check(text, False)
            print(f"  {way.__name__:24}{len(some):5} logs, {lost} right answers lost")
            self.check(f"{way.__name__}: {lost} of {len(some)} right answers lost",
                       lost <= (LOST if way in wrap.BROKEN else 0) * len(some))

    def other_words(self, rows):
        """The answer is the same from standard input, for a file, for a text behind `--`, and for one log
        of several; and each has the status of its own."""
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, row["id"]) for row in rows]
            for file, row in zip(files, rows):
                file.write_text(row["log"], encoding="utf-8")
            several = asked(self.args.gpumend, *files)
            self.check("several logs: their documents in the order of the files",
                       [log.pop("file", None) for log in several["logs"]] == list(map(str, files)))
            for row, file, log in zip(rows, files, several["logs"]):
                base, _, faults = explain(self.args.gpumend, row["log"].encode())
                self.check(f"alone {row['id']}: {'; '.join(faults)}", not faults)
                for way, doc in (("file", asked(self.args.gpumend, file)), ("several", log),
                                 ("text", asked(self.args.gpumend, "--", row["log"]))):
                    self.check(f"{way} {row['id']}: another answer than from standard input",
                               doc == base)

    def run(self):
        own = corpus.own()
        for fault in corpus.form_faults(own):
            self.check(f"corpus: {fault}", False)
        wanted = [r for r in own if not self.args.only or r["id"] in self.args.only]
        if wanted:
            self.wrapped(self.score("own", wanted))
        if len(wanted) > ALONE_ONE_IN:
            self.other_words(wanted[::ALONE_ONE_IN])
        cases = corpus.collected()
        if cases is None:
            self.skipped += 1
            print(f"SKIP the collected cases: no {corpus.COLLECTED} in $GPUMEND_CASES or beside "
                  "the checkout")
        else:
            cases = [r for r in cases if not self.args.only or r["id"] in self.args.only]
            if cases:
                self.score("collected", cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("gpumend")
    parser.add_argument("--misses", action="store_true", help="print every log not got right")
    parser.add_argument("--only", action="append", metavar="ID", help="these logs alone")
    args = parser.parse_args()
    args.gpumend = os.path.abspath(args.gpumend)
    suite = Suite(args)
    suite.run()
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
