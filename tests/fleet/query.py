#!/usr/bin/python3
"""`gpumend fleet query` says what `fleet report` says: tests/fleet/query.py GPUMEND [FOLDER]

With FOLDER, whose environment gets duckdb and chdb (ClickHouse as a module) from a package index, each statement is
run by the real engine over the same lines as a report: planted differences, two sweeps, damaged and hostile lines.
Without it: the statements' text, and what --run starts.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from report import Counts, dump, run, synthetic  # noqa: E402

NAMES = ("nodes", "causes", "cohorts", "differs", "changed")
ENGINE = """
import json, sys
for line in sys.stdin:
    engine, statement = json.loads(line)
    try:
        if engine == "duckdb":
            import duckdb
            duckdb.sql("SET enable_progress_bar = false")
            done = duckdb.sql(statement)
            rows = [dict(zip(done.columns, row)) for row in done.fetchall()]
        else:
            import chdb
            rows = [json.loads(x) for x in str(chdb.query(statement.rstrip().rstrip(";"), "JSONEachRow")).splitlines()]
            rows = [{k: int(v) if k.startswith("n_") else v for k, v in r.items()} for r in rows]
    except Exception as e:
        rows = str(e)
    print(json.dumps(rows, default=str), flush=True)
"""
# Not lines of a node, or lines that try to break the statement.
HOSTILE = ['{', 'null', '[1]', '"x"', '{"node": 7}', '{"node": ""}', '{"a":1,"a":2', '\x00', '{"node": "x", "verdict": "fine"}']
STRANGE = [("facts", "a text"), ("facts", 7), ("facts", [1]), ("targets", {"a": 1}), ("targets", [1, None, {"target": "/x"}]),
           ("findings", "x"), ("findings", [{"severity": "error"}, 7]), ("cohort", "x"), ("cohort", None)]


def engines(folder):
    """Asks both; installs them first."""
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run(["python3", "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "-q", "install", "duckdb", "chdb"], check=True)
    child = subprocess.Popen([python, "-c", ENGINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(engine, statement):
        child.stdin.write(json.dumps([engine, statement]) + "\n")
        child.stdin.flush()
        return json.loads(child.stdout.readline())
    return ask


def wanted_of(report):
    """The rows of each query, out of a report."""
    return {
        "causes": {(c["cause"], c["severity"], len(c["nodes"]), ", ".join(sorted(c["nodes"]))) for c in report["causes"]},
        "cohorts": {(c["host"], c["environment"], len(c["nodes"]), ", ".join(sorted(c["nodes"]))) for c in report["cohorts"]},
        "differs": {(d["node"], d["fact"], d["value"], d["majority"], d["of"], d["in"]) for d in report["differs"]},
        "changed": {(c["node"], x["what"], x["before"] or "null", x["now"] or "null")
                    for c in report["changed"] for x in c["changes"]}}


def rows_of(name, rows):
    if isinstance(rows, str):
        return rows
    return {tuple("null" if v is None and name == "changed" else v for v in row.values()) for row in rows}


def compare(counts, exe, ask, what, paths):
    report = json.loads(run(exe, "fleet", "report", "--json", *paths)[1])
    wanted = wanted_of(report)
    for engine in ("duckdb", "clickhouse"):
        for name in NAMES:
            statement = run(exe, "fleet", "query", name, "--engine", engine, *paths)[1]
            begin = time.monotonic()
            rows = ask(engine, statement)
            seconds = time.monotonic() - begin
            got = rows_of(name, rows)
            if name == "nodes":
                good = not isinstance(got, str) and len(rows) == report["nodes"] and {r["verdict"] for r in rows} == {
                    k for k, v in report["verdicts"].items() if v}
                counts.judge(f"{what}, {engine}: nodes", good, got if isinstance(got, str) else f"{len(rows)}, not {report['nodes']}")
            else:
                counts.judge(f"{what}, {engine}: {name}", got == wanted[name],
                             got if isinstance(got, str) else f"only here {sorted(got - wanted[name], key=str)[:3]}, "
                             f"only in the report {sorted(wanted[name] - got, key=str)[:3]}")
            if report["nodes"] > 1000:
                print(f"{what}, {engine}: {name} {len(rows)} rows in {seconds:.2f} s")


def answers(counts, exe, ask, folder, number):
    lines, planted = synthetic(exe, folder, number)
    first = folder / "it's a sweep"
    first.mkdir()
    dump(first / "a.ndjson", lines)
    compare(counts, exe, ask, f"{number} nodes", [first])
    counts.judge("something was planted", planted)
    later = [json.loads(json.dumps(x)) for x in lines[:40]]
    for i, line in enumerate(later):
        line["time"] = "2026-05-02T12:00:00Z"
        if i % 4 == 1:
            line["facts"]["driver"] = None if i % 8 == 1 else "570.1"
        if i % 10 == 2:
            line.update(verdict="broken", reason="gpu-count", findings=[
                {"cause": "gpu-count", "severity": "error", "target": None, "culprit": None, "summary": "x"}] * 2)
    dump(folder / "later.ndjson", later + later[:3])
    compare(counts, exe, ask, "two sweeps", [first, folder / "later.ndjson"])
    text = "".join(json.dumps(x) + "\n" for x in lines[:20])
    (folder / "damaged.ndjson").write_text(text + "\n".join(HOSTILE) + "\n" + text)
    compare(counts, exe, ask, "damaged lines", [folder / "damaged.ndjson"])
    strange = [{**lines[0], "node": f"s{i}", key: value} for i, (key, value) in enumerate(STRANGE)]
    strange.append({**lines[0], "node": "s99", "facts": {**lines[0]["facts"], "$[": 1, "a\"b": 2, "/x": 3}})
    dump(folder / "strange.ndjson", strange)
    for engine in ("duckdb", "clickhouse"):
        for name in NAMES:
            rows = ask(engine, run(exe, "fleet", "query", name, "--engine", engine, folder / "strange.ndjson")[1])
            counts.judge(f"strange lines, {engine}: {name}", not isinstance(rows, str), rows)


def texts(counts, exe, folder):
    for engine in ("duckdb", "clickhouse"):
        for name in NAMES:
            status, out, err = run(exe, "fleet", "query", name, "x.ndjson", "it's {y}.ndjson", "--engine", engine)
            counts.judge(f"{engine}: {name}", status == 0 and not err and out.count(";") == 1 and out.endswith(";\n") and
                         "it''s {y}.ndjson" in out and "@" not in out and "$" not in out.replace("+$'", ""), f"{status} {err} {out}")
    for words in (["query"], ["query", "nodes"], ["query", "none", "x"], ["query", "nodes", "x", "--engine", "mysql"],
                  ["report", "x", "--run"], ["query", "nodes", "x", "--json"], ["query", "nodes", "x", "--run", "--engine",
                                                                                "clickhouse"]):
        counts.judge(" ".join(words), run(exe, "fleet", *words)[0] == 2, run(exe, "fleet", *words))
    fake = folder / "bin/duckdb"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nprintf "%s|" "$1" "$2"; printf "%s" "$3"\n')
    fake.chmod(0o755)
    statement = run(exe, "fleet", "query", "nodes", "x")[1]
    for option, word in ((), "-box"), (("--json",), "-json"):
        done = subprocess.run([exe, "fleet", "query", "nodes", "x", "--run", *option], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{fake.parent}:/usr/bin:/bin"})
        counts.judge(f"--run {option}", done.stdout == f"{word}|-c|{statement}", done)
    status, _, err = run(exe, "fleet", "query", "nodes", "x", "--run") if not Path("/usr/bin/duckdb").exists() else (3, "", "duckdb")
    counts.judge("--run without duckdb", status == 3 and "duckdb" in err, f"{status} {err}")


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    number = int(sys.argv[sys.argv.index("--nodes") + 1]) if "--nodes" in sys.argv else 600
    with tempfile.TemporaryDirectory(prefix="gpumend-query.") as name:
        texts(counts, exe, Path(name))
        if len(sys.argv) > 2:
            answers(counts, exe, engines(Path(sys.argv[2]).resolve()), Path(name), number)
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
