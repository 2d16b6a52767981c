#!/usr/bin/python3
"""How often the first repair that `explain` prints is the one that solves the failure.

    tests/explain/repairs.py GPUMEND [--again]

repairs.jsonl has the judgement of a person on 60 of the collected cases (corpus.py says where those
are; without them this is skipped): the first repair as it was then, whether it amounts to what
solved the reporter's problem, and why. A failure is a share below LEAST, or a first repair that is
another one than was judged: read it, judge it, and write it down with --again, which keeps the old
judgement of all others and asks for nothing.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import corpus  # noqa: E402

LIST = Path(__file__).resolve().parent / "repairs.jsonl"
LEAST = 0.85
TOOL_S = 30


def first_repair(exe, log):
    done = subprocess.run([exe, "explain", "--json", "-"], input=log.encode(), check=False,
                          capture_output=True, timeout=TOOL_S)
    repairs = json.loads(done.stdout)["repairs"]
    return [repairs[0]["text"], repairs[0]["command"]] if repairs else None


def main():
    exe, again = os.path.abspath(sys.argv[1]), "--again" in sys.argv[2:]
    rows = corpus.read(LIST)
    cases = corpus.collected()
    if cases is None:
        print(f"SKIP no {corpus.COLLECTED} in $GPUMEND_CASES or beside the checkout")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    logs = {row["id"]: row["log"] for row in cases}
    failed = 0
    for row in rows:
        now = first_repair(exe, logs[row["id"]])
        if now != row["first"] and again:
            print(f"{row['id']}: judge it again: {now}")
            row.update(first=now, solves=None)
        elif now != row["first"]:
            failed += 1
            print(f"FAIL {row['id']}: the first repair is not the one that was judged: {now}")
    if again:
        LIST.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
                        encoding="utf-8")
    solved = sum(row["solves"] is True for row in rows)
    print(f"the first repair solves it: {solved} of {len(rows)} ({100 * solved / len(rows):.0f} %)")
    enough = solved >= LEAST * len(rows)
    failed += not enough
    if not enough:
        print(f"FAIL {100 * LEAST:.0f} % are needed")
    print(f"{len(rows) + 1 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
