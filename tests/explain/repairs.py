#!/usr/bin/python3
"""How often the first repair that `explain` prints is the one that solves the failure.

    tests/explain/repairs.py GPUMEND [--again]

Two lists have the judgement of a person: the first repair as it was then, whether it amounts to what
solved the reporter's problem, and why. repairs.jsonl is about 60 of the collected cases (corpus.py
says where those are; without them it is skipped). threads.jsonl has excerpts of public threads whose
solution the thread states (`solved`), in two parts (`list`): `written on` are those that rules and
repairs were written on, `hold-out` those that were looked up afterwards, which alone say how often
`explain` is right about what it has not seen. No rule may be written for a row of `hold-out`.

A failure is a share below LEAST of what rules were written on, below HOLD_OUT of what they were not,
or a first repair that is another one than was judged: read it, judge it, and write it down with
--again, which keeps the old judgement of all others and asks for nothing.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import corpus  # noqa: E402

HERE = Path(__file__).resolve().parent
LIST, THREADS = HERE / "repairs.jsonl", HERE / "threads.jsonl"
LEAST = 0.85
HOLD_OUT = 0.6
TOOL_S = 30


def answer(exe, log):
    done = subprocess.run([exe, "explain", "--json", "-"], input=log.encode(), check=False,
                          capture_output=True, timeout=TOOL_S)
    found = json.loads(done.stdout)
    repairs = found["repairs"]
    return found["class"], [repairs[0]["text"], repairs[0]["command"]] if repairs else None


def compared(exe, rows, logs, again):
    """Asks again about each row: failures, and how often the class of the row came first."""
    failed = classes = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        answers = pool.map(lambda row: answer(exe, logs[row["id"]]), rows)
    for row, (first_class, now) in zip(rows, answers):
        classes += first_class in [row.get("cause"), *row.get("also_acceptable", ())]
        if now != row["first"] and again:
            print(f"{row['id']}: judge it again: {now}")
            row.update(first=now, solves=None)
        elif now != row["first"]:
            failed += 1
            print(f"FAIL {row['id']}: the first repair is not the one that was judged: {now}")
    return failed, classes


def share_faults(name, rows, least):
    solved = sum(row["solves"] is True for row in rows)
    print(f"{name}: the first repair solves it: {solved} of {len(rows)}"
          f" ({100 * solved / max(len(rows), 1):.0f} %)")
    if solved < least * len(rows):
        print(f"FAIL {100 * least:.0f} % are needed")
        return 1
    return 0


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
                    encoding="utf-8")


def main():
    exe, again = os.path.abspath(sys.argv[1]), "--again" in sys.argv[2:]
    rows, failed = corpus.read(THREADS), 0
    checks = len(rows) + 2
    for part, least in (("written on", LEAST), ("hold-out", HOLD_OUT)):
        of_part = [row for row in rows if row["list"] == part]
        wrong, classes = compared(exe, of_part, {row["id"]: row["log"] for row in of_part}, again)
        print(f"{part}: an acceptable class comes first: {classes} of {len(of_part)}")
        failed += wrong + share_faults(part, of_part, least)
    if again:
        write(THREADS, rows)
    cases, skipped = corpus.collected(), 0
    if cases is None:
        print(f"SKIP no {corpus.COLLECTED} in $GPUMEND_CASES or beside the checkout")
        skipped = 1
    else:
        rows = corpus.read(LIST)
        failed += compared(exe, rows, {row["id"]: row["log"] for row in cases}, again)[0]
        failed += share_faults("collected", rows, LEAST)
        checks += len(rows) + 1
        if again:
            write(LIST, rows)
    print(f"{checks - failed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
