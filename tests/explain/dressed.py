#!/usr/bin/python3
"""A log that somebody handed on in a list, a quotation or a program's own form keeps its answer.

    tests/explain/dressed.py GPUMEND [--all] [--seed N]

Threads of threads.jsonl and logs of the corpus are asked about as they are and in each dressing: a
list or a quotation of Markdown, the numbers of grep -n and cat -n, characters as HTML writes them,
and Python's repr() of the whole. An answer is the entry and the first repair. Each dressing must keep
the share of answers in DRESSINGS. Documents in the same dressings must not get a verdict.
"""
import argparse
import concurrent.futures
import html
import json
import os
import random
from pathlib import Path

from noise import answer

HERE = Path(__file__).resolve().parent
ASKED = 40
KEPT_BYTES = 16 << 10  # a longer text is read as it stands


def marked(mark):
    return lambda log: "".join((mark + line).rstrip() + "\n" for line in log.splitlines())


def numbered(mark):
    return lambda log: "".join(mark.format(i) + line + "\n"
                               for i, line in enumerate(log.splitlines(), 1))


DRESSINGS = {
    "list, -": (marked("- "), 0.99),
    "list, *": (marked("* "), 0.99),
    "quotation": (marked("> "), 0.99),
    "quotation in a list": (marked("- > "), 0.99),
    "grep -n": (numbered("{}:"), 0.99),
    "grep -Hn": (numbered("logs/run.log:{}:"), 0.99),
    "cat -n": (numbered("{:6}\t"), 0.99),
    "HTML": (html.escape, 0.99),
    "repr": (lambda log: repr(log) + "\n", 0.99),
    "repr of bytes": (lambda log: repr(log.encode()) + "\n", 0.99),
}


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("exe", type=os.path.abspath)
    parser.add_argument("--all", action="store_true", help="every text, not %d of them" % ASKED)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="name the texts whose answer is lost")
    args = parser.parse_args()
    texts = {row["id"]: row["log"] for row in rows(HERE / "threads.jsonl")}
    documents = {row["id"]: row["text"] for row in rows(HERE / "documents.jsonl")}
    chosen = random.Random(args.seed)
    names = sorted(name for name in texts if len(texts[name].encode()) < KEPT_BYTES // 2)
    names = names if args.all else sorted(chosen.sample(names, ASKED))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        plain = dict(zip(names, pool.map(lambda name: answer(args.exe, texts[name]), names)))
        for what, (dress, least) in DRESSINGS.items():
            known = [name for name in names if plain[name][0]]
            now = pool.map(lambda name: answer(args.exe, dress(texts[name])), known)
            lost = [(name, found) for name, found in zip(known, now) if found != plain[name]]
            share = 1 - len(lost) / len(known)
            print(f"{what}: {share:.1%} of {len(known)} answers kept")
            for name, found in lost if args.show else []:
                print("   ", name, plain[name], "->", found)
            if share < least:
                failed += 1
                print(f"FAIL {what}: less than {least:.0%}")
            asked = [name for name in sorted(documents)
                     if len(documents[name].encode()) < KEPT_BYTES // 2]
            spoken = [name for name, found in zip(asked, pool.map(
                lambda name: answer(args.exe, dress(documents[name])), asked)) if found[0]]
            if spoken:
                print(f"    a verdict for {len(spoken)} of {len(asked)} documents: {spoken}")
    print(f"{len(DRESSINGS) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
