#!/usr/bin/python3
"""Whether `explain` judges by words as scripts/kb-words does, and only then.

    tests/explain/words.py GPUMEND

The model of kb/words.json is read by the script as well, and asked of the logs of corpus/ that no
rule knows, alone and as parts of others (a log's first lines, its last ones, every other one). The
executable must name the class that the script finds, with its probability, exactly where that is
high enough. Then: an empty text, words that are not known, and a text that rules know, of all of
which nothing is said by words; a long text, of which the lines with a literal count; a model that is
damaged, which is refused.
"""
import importlib.machinery
import importlib.util
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import corpus  # noqa: E402
from run import explain_all  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
NEAR = 0.006  # of probabilities that are printed with two digits
KNOWN_MIN = 8
PRINTED_AROUND = re.compile(r"[{\x1b\r|>]|\d:\d\d|\[\w*\d")  # times, processes, JSON


def load_script():
    loader = importlib.machinery.SourceFileLoader("kb_words", str(TOP / "scripts/kb-words"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("kb_words", loader))
    loader.exec_module(module)
    return module


def explain(exe, log, *options):
    done = subprocess.run([exe, "explain", "--json", *options, "-"], input=log.encode(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=30)
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def variants():
    """Plain logs and parts of them; what only some tools print around lines is left to run.py."""
    for row in corpus.own():
        lines = row["log"].split("\n")
        if PRINTED_AROUND.search(row["log"]):
            continue
        for part in (lines, lines[:len(lines) // 2], lines[len(lines) // 2:], lines[::2]):
            if part:
                yield "\n".join(part)


class Suite:
    def __init__(self, exe):
        self.exe, self.passed, self.failed = exe, 0, 0

    def check(self, name, ok):
        self.passed += bool(ok)
        self.failed += not ok
        if not ok:
            print(f"FAIL {name}")

    def compare(self, script):
        judge = script.Judge(json.loads((TOP / "kb/words.json").read_text(encoding="utf-8")))
        enough = judge.enough
        told = 0
        logs = list(dict.fromkeys(variants()))
        for log, answer in zip(logs, explain_all(self.exe, [log.encode() for log in logs])):
            doc = answer.doc
            self.check(f"{'; '.join(answer.faults)}: {log[:200]!r}", not answer.faults)
            said = doc["facts"].get("words")
            if doc["class"] is not None and not said:
                continue  # by a rule
            if doc["describes"]:
                self.check(f"a document is judged by its words: {log[:200]!r}", said is None)
                continue
            words = script.words_of(log, doc)
            plain = {w for w in words if not w.startswith(("fact:", "platform:"))}
            shares = judge.shares(words)
            best, other = sorted(shares, key=shares.get, reverse=True)[:2]
            if (math.isclose(shares[best], enough, abs_tol=NEAR) or
                    math.isclose(shares[best], judge.sure, abs_tol=NEAR) or
                    math.isclose(shares[best], 2 * shares[other], abs_tol=NEAR)):
                continue
            known = sum(w in judge.rows and not w[0].isdigit() for w in plain)
            wanted = known >= KNOWN_MIN and judge.told(shares)
            if said is None:
                ok = not wanted or not self.speaks(judge, script, log, best)
            else:
                first = next(f for f in said if f["rank"] == "1")
                ok = first["class"] == wanted and doc["confidence"] == "possible" and abs(
                    float(first["share"]) - shares[best]) < NEAR
                told += 1
            self.check(f"{best} {shares[best]:.3f}, said {said}: {log[:200]!r}", ok)
        self.check(f"only {told} texts were judged by their words", told > 50)

    @staticmethod
    def speaks(judge, script, log, best):
        """Whether a line speaks for the class."""
        index = [c["class"] for c in judge.classes].index(best)
        for line in script.lines_near(log):
            rows = [judge.rows[w] for w in set(script.words_of_line(line)) if w in judge.rows]
            if sum(row["weights"].get(index, 0) for row in rows) > 0:
                return True
        return False

    def silent(self):
        for name, log in (("empty", ""), ("one byte", "x"), ("numbers", "1 2 3 4 5 6 7 8 9\n" * 9),
                          ("unknown words", "qwxz zzkj vvbq jjxq kkwz qqzz wwxx\n" * 50),
                          ("not text", "".join(chr(c) for c in range(1, 256)) * 20)):
            _, doc = explain(self.exe, log)
            self.check(f"{name}: {doc['class']}", doc["class"] is None and "words" not in doc["facts"])
        _, doc = explain(self.exe, "OSError: libcublas.so.12: cannot open shared object file: "
                         "No such file or directory")
        self.check("a rule goes before words", doc["class"] and "words" not in doc["facts"])

    def in_time(self):
        """One line, and a text of which each line is looked at."""
        for name, log in (("long line", "cuda_error_" * 200000), ("many lines", "CUDA error\n" * 200000)):
            _, doc = explain(self.exe, log)
            self.check(f"{name}: no answer", doc is not None)

    def damaged(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "words.json")
            good = json.loads((TOP / "kb/words.json").read_text(encoding="utf-8"))
            for name, change in (
                    ("no classes", {"classes": []}), ("steps of 0", {"steps": 0}),
                    ("a class without a name", {"classes": [{"bias": 1}]}),
                    ("an index too high", {"rows": [{"id": "x", "idf": 5, "weights": "99 1"}]}),
                    ("an index below 0", {"rows": [{"id": "x", "idf": 5, "weights": "-1 1"}]}),
                    ("a weight too large", {"rows": [{"id": "x", "idf": 5, "weights": "0 99999"}]}),
                    ("a number alone", {"rows": [{"id": "x", "idf": 5, "weights": "0 1 2"}]}),
                    ("no numbers", {"rows": [{"id": "x", "idf": 5, "weights": "0 a"}]}),
                    ("idf of 0", {"rows": [{"id": "x", "idf": 0, "weights": ""}]}),
                    ("no id", {"rows": [{"idf": 5, "weights": ""}]})):
                file.write_text(json.dumps({**good, **change}), encoding="utf-8")
                status, _ = explain(self.exe, "CUDA error", "--kb", folder)
                self.check(f"{name}: accepted", status == 3)
            file.write_text(json.dumps({**good, "rows": []}), encoding="utf-8")
            status, doc = explain(self.exe, "nothing that is known", "--kb", folder)
            self.check("no rows: nothing is told by words", status == 3 and doc["class"] is None)


def unlearnt():
    """Kinds of facts that the patterns yield and no log of the training data has."""
    learnt = set(re.findall(r"fact:([\w-]+)", (TOP / "kb/words/logs.tsv").read_text(encoding="utf-8")))
    for path in sorted((TOP / "kb/failures").glob("*.yaml")):
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CBaseLoader)
        entries = document.get("failures", ())
        for owner, lines in [({}, document.get("lines", ()))] + [(e, e.get("lines", ())) for e in entries]:
            for row in lines:
                kind = row.get("fact", owner.get("id"))
                if kind not in learnt:
                    yield kind


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    kinds = sorted(set(unlearnt()))
    print(f"{len(kinds)} kinds of facts are in no log of the training data: {', '.join(kinds)}")
    suite = Suite(sys.argv[1])
    script = load_script()
    suite.compare(script)
    suite.silent()
    suite.in_time()
    suite.damaged()
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
