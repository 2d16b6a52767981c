#!/usr/bin/python3
"""What `gpumend fleet report` makes of many nodes: tests/fleet/report.py GPUMEND [--nodes N]

Nodes are lines of `export ndjson` of machines of tests/trees, each repeated, with differences that are planted: a
driver, a kernel, a C library, an environment, a lost GPU. The report must name each of them and nobody else, count
the causes, say what changed since the last sweep, and name damaged lines without stopping.
"""
import base64
import copy
import json
import os
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "trees"))
from counted import Counts  # noqa: E402
from build import write  # noqa: E402
from machines import MACHINES  # noqa: E402

KINDS = ("geforce-desktop", "nvswitch-with-fabric-manager", "mi210", "cpu-only")
PLANTED = {"driver": "999.1", "kernel": "1.2.3", "glibc": "2.99", "os": "Other", "target /opt/app": "eeeeeeeeeeee"}


def run(exe, *words):
    done = subprocess.run([str(exe), *map(str, words)], capture_output=True, text=True, timeout=600, check=False,
                          stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"})
    return done.returncode, done.stdout, done.stderr


def line_of(exe, folder, machine):
    root = folder / "trees" / machine
    if not root.exists():
        write(MACHINES[machine][1], root)
    line = json.loads(run(exe, "export", "ndjson", "--root", root)[1])
    line["targets"] = [{"target": "/opt/app", "verdict": "ok", "environment": "aaaaaaaaaaaa"}]
    line["facts"]["glibc"] = "2.36"
    line["time"] = "2026-05-01T12:00:00Z"
    return line


def plant(node, key):
    """Returns whether this node can have it."""
    if key == "gpus":
        node["facts"]["gpus"] -= 1
        return node["facts"]["gpus"] > 0
    if key.startswith("target"):
        node["targets"][0]["environment"] = PLANTED[key]
        return True
    before = node["facts"][key]
    node["facts"][key] = PLANTED[key]
    return before is not None


def synthetic(exe, folder, number):
    """(lines, {(node, fact)} that are planted)"""
    numbers = random.Random(7)
    bases = [line_of(exe, folder, kind) for kind in KINDS]
    keys = [*PLANTED, "gpus"]
    lines, planted = [], set()
    for i in range(number):
        node = copy.deepcopy(bases[i % len(bases)])
        node["node"] = f"n{i:05}"
        if numbers.random() < 0.02:
            for key in numbers.sample(keys, numbers.choice((1, 1, 2))):
                trial = copy.deepcopy(node)
                if plant(trial, key):
                    node = trial
                    planted.add((node["node"], key))
        node["cohort"]["host"] = f"{hash(json.dumps(node['facts'], sort_keys=True)) & 0xffffffffffff:012x}"
        lines.append(node)
    return lines, planted


def dump(path, lines):
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))


def differences(exe, folder, counts, number):
    lines, planted = synthetic(exe, folder, number)
    file = folder / "nodes.ndjson"
    dump(file, lines)
    begin = time.monotonic()
    status, out, err = run(exe, "fleet", "report", file, "--json")
    seconds = time.monotonic() - begin
    doc = json.loads(out)
    found = {(d["node"], d["fact"]) for d in doc["differs"]}
    counts.judge("nodes", doc["nodes"] == number and status == 0 and not err, f"{status} {doc['nodes']} {err}")
    counts.judge("found", planted <= found, f"missed {sorted(planted - found)[:5]}")
    counts.judge("nobody else", found <= planted, f"false {sorted(found - planted)[:5]}")
    counts.judge("something was planted", len(planted) > number / 100, len(planted))
    hosts = {x["cohort"]["host"] for x in lines}
    counts.judge("cohorts", len(doc["cohorts"]) == len(hosts), f"{len(doc['cohorts'])}, not {len(hosts)}")
    counts.judge("cohorts' nodes", sum(len(c["nodes"]) for c in doc["cohorts"]) == number)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{number} nodes: {seconds:.2f} s, at most {memory:.0f} MiB, {len(planted)} planted, "
          f"{len(found & planted)} found, {len(found - planted)} false, {len(doc['cohorts'])} cohorts")


def sweeps(exe, folder, counts):
    root = folder / "sweeps"
    root.mkdir()
    first = [line_of(exe, folder, "geforce-desktop") for _ in range(4)]
    second = copy.deepcopy(first)
    for i in range(4):
        first[i]["node"] = second[i]["node"] = f"n{i}"
        second[i]["time"] = "2026-05-02T12:00:00Z"
    broken = line_of(exe, folder, "mismatched-driver")
    second[1] = {**broken, "node": "n1", "time": "2026-05-02T12:00:00Z"}
    second[2]["facts"]["driver"] = "570.1"
    dump(root / "b.ndjson", first + first[:1])
    dump(root / "a.ndjson", second)
    (root / "c.txt").write_text("is not read")
    status, out, _ = run(exe, "fleet", "report", root, "--json")
    doc = json.loads(out)
    changed = {c["node"]: {x["what"]: (x["before"], x["now"]) for x in c["changes"]} for c in doc["changed"]}
    counts.judge("who changed", set(changed) == {"n1", "n2"} and doc["nodes"] == 4, changed)
    counts.judge("a driver changed", changed["n2"] == {"driver": ("550.90.07", "570.1")}, changed["n2"])
    counts.judge("a verdict changed", changed["n1"]["verdict"] == ("ok", "broken") and
                 changed["n1"]["reason"] == (None, "driver-version-mismatch"), changed["n1"])
    counts.judge("causes", [(c["cause"], c["nodes"]) for c in doc["causes"] if c["severity"] == "error"] ==
                 [("driver-version-mismatch", ["n1"])] and status == 1, doc["causes"])
    counts.judge("verdicts", doc["verdicts"] == {"ok": 3, "broken": 1, "unknown": 0}, doc["verdicts"])
    status, out, _ = run(exe, "fleet", "report", root)
    counts.judge("text", status == 1 and "driver-version-mismatch (error) on 1: n1\n" in out and
                 "n2: driver 550.90.07 -> 570.1\n" in out, out)


def damage(exe, folder, counts):
    """Each kind of damage is one line of the report, and the sound line counts."""
    good = {**line_of(exe, folder, "geforce-desktop"), "node": "n1"}
    bad = [b"{", b"[]", b"null", b"\xff\xfe", b'{"node": "n2"}', b"x" * 600000, b'{"a":1,"a":2}']
    for key, value in (("verdict", "fine"), ("node", 7), ("node", ""), ("time", "yesterday"), ("time", "2026-05-01T12:00:00"),
                       ("findings", [{"cause": "A b", "severity": "error"}]), ("findings", [1]), ("facts", None), ("facts", []),
                       ("cohort", None), ("targets", {}), ("reason", "x")):
        bad.append(json.dumps({**good, key: value}).encode())
    file = folder / "damaged"
    file.write_bytes(b"\n".join(bad) + b"\n\n" + json.dumps(good).encode())  # without a line's end
    status, out, err = run(exe, "fleet", "report", file, "--json")
    doc = json.loads(out)
    counts.judge("damage", status == 3 and not err and doc["nodes"] == 1 and
                 [d["line"] for d in doc["damaged"]] == list(range(1, len(bad) + 1)), f"{status} {doc['damaged']}")
    odd = {**good, "targets": [1, {"target": 2}, {"target": "x\u202ey", "environment": []}], "says": "\x1b[2J"}
    odd["facts"] = {"gpus": "many", "gpu_names": 3, "driver": {"a": []}, "x\n": 1}
    file.write_text("".join(json.dumps({**odd, "node": f"n{i}\x1b]0;"}) + "\n" for i in range(4)))
    status, out, err = run(exe, "fleet", "report", file)
    counts.judge("odd values", status == 0 and "\x1b" not in out + err, f"{status} {err} {out}")
    file.write_bytes(b"{\n" * 300)
    doc = json.loads(run(exe, "fleet", "report", file, "--json")[1])
    counts.judge("much damage", len(doc["damaged"]) == 100 and doc["damaged_left_out"] == 200)
    unknown = json.loads(run(exe, "export", "ndjson", "--root", folder / "nowhere", "--node", "n9")[1])
    dump(file, [good, unknown])
    status, out, _ = run(exe, "fleet", "report", file)
    counts.judge("unknown stays unknown", status == 3 and "1 ok, 0 broken, 1 unknown" in out and "n9: " in out, out)
    root = folder / "trees/proc-without-sys"
    write(MACHINES["proc-without-sys"][1], root)
    blind = [json.loads(run(exe, "export", "ndjson", "--root", root, "--node", f"n{i}")[1]) for i in range(4)]
    blind[0]["facts"]["kernel"] = "1.2.3"
    dump(file, [*blind, unknown])
    doc = json.loads(run(exe, "fleet", "report", file, "--json")[1])
    counts.judge("unknown GPUs are no kind", not doc["differs"] and not doc["rare"], f"{doc['differs']} {doc['rare']}")
    out = run(exe, "fleet", "report", file)[1]
    counts.judge("unknown GPUs are not none", out.count("GPUs unknown") == 2 and " 0 GPUs" not in out, out)
    for words in (["report", folder / "none"], ["report", "/dev/null"]):
        counts.judge(f"{words}", run(exe, "fleet", *words)[0] == 3)
    for words in (["report"], ["repport", file], []):
        counts.judge(f"{words}", run(exe, "fleet", *words)[0] == 2)


def snapshots(exe, folder, counts):
    """Snapshots are judged again as `check --snapshot` does; a damaged one is a line and stops nothing."""
    root, verdicts = folder / "snapshots", {}
    root.mkdir()
    for i, (name, (_, machine)) in enumerate(sorted(MACHINES.items())):
        if i % 4 == 0:
            tree = folder / "trees" / name
            if not tree.exists():
                write(machine, tree)
            (root / f"{name}.json").write_text(run(exe, "snapshot", "--root", tree)[1])
            status, out, _ = run(exe, "check", "--snapshot", root / f"{name}.json", "--json")
            verdicts[name] = (json.loads(out)["verdict"], status)
    text = (root / "affinity.json").read_text() if (root / "affinity.json").exists() else next(root.iterdir()).read_text()
    (root / "x-cut.json").write_text(text[:len(text) // 2])
    (root / "x-empty.json").write_text("")
    (root / "x-other.json").write_text('{"schema": 1}')
    status, out, err = run(exe, "fleet", "report", root, "--json")
    doc = json.loads(out)
    got = {n: "broken" for c in doc["causes"] if c["severity"] == "error" for n in c["nodes"]}
    got.update({u["node"]: "unknown" for u in doc["unknown"]})
    for name, (verdict, _) in verdicts.items():
        mine = got.get(name, "ok")
        # A machine of which nothing is known is never ok in a fleet.
        counts.judge(f"snapshot of {name}", mine == verdict or (verdict == "ok" and mine == "unknown"),
                     f"{mine}, check: {verdict}")
    counts.judge("damaged snapshots", [Path(d["file"]).name for d in doc["damaged"]] ==
                 ["x-cut.json", "x-empty.json", "x-other.json"] and doc["nodes"] == len(verdicts) and not err, doc["damaged"])
    begin = time.monotonic()
    run(exe, "fleet", "report", root)
    print(f"{len(verdicts) + 3} snapshots: {time.monotonic() - begin:.2f} s")


def report_of(exe, what):
    """Verdicts, causes, unknown and who differs: what does not depend on where it came from."""
    out = run(exe, "fleet", "report", what, "--json")[1]
    doc = json.loads(out)
    return {k: doc[k] for k in ("nodes", "verdicts", "causes", "unknown", "cohorts", "differs", "damaged", "changed")}


def content(store):
    return {str(p.relative_to(store)): p.read_bytes() for p in store.rglob("*") if p.is_file()}


def store_of(exe, folder, counts):
    """A store answers as its snapshots do, holds a content once, and is whole whatever interrupts an add."""
    root, store = folder / "sweep", folder / "store"
    root.mkdir()
    text = json.loads(run(exe, "snapshot", "/usr/bin/env")[1])
    long = [len(x) for x in text["content"]["chunks"]]
    for i in range(6):
        text["files"] = [{**f, "text": f"n{i}\n"} if f.get("path") == "/etc/hostname" else f for f in text["files"]]
        (root / f"n{i}.json").write_text(json.dumps(text))
    for name in ("geforce-desktop", "mismatched-driver"):
        (root / f"{name}.json").write_text(run(exe, "snapshot", "--root", folder / "trees" / name)[1])
    files = sorted(root.iterdir())
    status, _, err = run(exe, "fleet", "add", store, *files)
    counts.judge("add", status == 0 and not err, f"{status} {err}")
    counts.judge("the same answer", report_of(exe, store) == report_of(exe, root), report_of(exe, store))
    chunks = list((store / "chunks").iterdir())
    counts.judge("each content once", len(chunks) <= len(long) + 4, len(chunks))
    before = content(store)
    status, _, err = run(exe, "fleet", "add", store, *files)
    counts.judge("once more", status == 0 and content(store) == before, err)
    text["target"] = {**text["target"], "kind": "machine"}
    (root / "n0.json").write_text(json.dumps(text))
    status, _, err = run(exe, "fleet", "add", store, root / "n0.json")
    counts.judge("another of the same time", status == 3 and "another snapshot" in err and
                 all(content(store)[k] == v for k, v in before.items()), f"{status} {err}")
    for what, words in (("cut", b"{"), ("other", b'{"schema":1}')):
        (root / f"{what}.json").write_bytes(words)
        status, _, err = run(exe, "fleet", "add", store, root / f"{what}.json")
        counts.judge(f"{what} is not added", status == 3 and f"{what}.json" in err, err)
    first = root / "geforce-desktop.json"
    later = folder / "later/geforce-desktop.json"
    later.parent.mkdir()
    made = re.search(r'"\d{4}-\d\d-\d\dT[0-9:]{8}Z"', first.read_text())[0]
    later.write_text(first.read_text().replace(made, '"2099-01-01T00:00:00Z"').replace("550.90.07", "550.90.99"))
    status, _, err = run(exe, "fleet", "add", store, later)
    changed = report_of(exe, store)["changed"]
    counts.judge("a later sweep", status == 0 and [c["node"] for c in changed] == ["geforce-desktop"] and
                 {"what": "driver", "before": "550.90.07", "now": "550.90.99"} in changed[0]["changes"], f"{err} {changed}")
    killed(exe, folder, counts, files[:1])
    chunk = max(chunks, key=lambda p: p.stat().st_size)
    bytes_ = bytearray(chunk.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    chunk.write_bytes(bytes_)
    damaged = {Path(d["file"]).name.partition("@")[0] for d in report_of(exe, store)["damaged"]}
    counts.judge("a damaged chunk", damaged and "geforce-desktop" not in damaged, damaged)


def raw_frame(data):
    """As zstd has it (RFC 8878), with raw blocks."""
    blocks = [data[i:i + (1 << 17)] for i in range(0, len(data), 1 << 17)]
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data)) + b"".join(
        struct.pack("<I", len(b) << 3 | (i == len(blocks) - 1))[:3] + b for i, b in enumerate(blocks))


def shared_content(exe, folder, counts):
    """Environments of which one has a library more than the other share the contents of all others, and come back as they were."""
    root, store = folder / "shared", folder / "shared-store"
    root.mkdir()
    text = json.loads(run(exe, "snapshot", "--root", folder / "trees/geforce-desktop")[1])
    common, more = random.Random(5).randbytes(3 << 20), random.Random(6).randbytes(1000)
    sizes = []
    for name, data in (("a", common), ("b", common[:1 << 20] + more + common[1 << 20:]), ("c", common), ("d", common[:10])):
        text["content"] = {"bytes": len(data), "chunks": [base64.b64encode(raw_frame(data)).decode()]}
        text["files"] = [{**f, "whole": True, "size": len(data), "head": [[0, len(data), 0]]} if "head" in f else f for f in text["files"]]
        (root / f"{name}.json").write_text(json.dumps(text))
        status, _, err = run(exe, "fleet", "add", store, root / f"{name}.json")
        counts.judge(f"content {name} is added", status == 0, err)
        sizes.append(sum(len(x) for x in content(store).values()))
    counts.judge("a library more costs a piece or two", 3 << 20 < sizes[0] and sizes[1] - sizes[0] < 2300000 and
                 sizes[2] - sizes[1] < 5000, sizes)
    one, other = report_of(exe, store), report_of(exe, root)
    counts.judge("the same answer for contents", one == other and one["nodes"] == 4, f"{one} not {other}")
    piece = max((store / "chunks").iterdir(), key=lambda p: p.stat().st_size)
    piece.unlink()
    lost = {Path(d["file"]).name[0] for d in report_of(exe, store)["damaged"]}
    counts.judge("a missing piece is damage", {"a", "c"} <= lost and "d" not in lost, lost)
    for file in (store / "contents").iterdir():
        file.write_bytes(file.read_bytes()[:20])
    doc = report_of(exe, store)
    counts.judge("damaged lists are damage", doc["nodes"] == 0 and len(doc["damaged"]) == 4, doc["damaged"])


def hostile_add(exe, folder, counts):
    """What is not a snapshot of a node at a time is refused and named; the others of the same call are added."""
    root, store = folder / "hostile", folder / "hostile-store"
    root.mkdir()
    text = run(exe, "snapshot", "--root", folder / "trees/geforce-desktop")[1]
    made = re.search(r'"\d{4}-\d\d-\d\dT[0-9:]{8}Z"', text)[0]
    bad = {f"time{i}.json": text.replace(made, time_) for i, time_ in enumerate((
        '"../../../evil"', '"2026-05-01T12:00:00Z/../x"', '"\\n"', '""', "7", "null", '"2026-05-01"'))}
    bad |= {".json": text, "..json": text, "deep.json": "[" * 100000, "dup.json": text.rstrip()[:-1] + ',"schema":1}',
            "mark.json": text.rstrip()[:-1] + f',"x":"@sha256:{"0" * 64}"}}', "cut.json": text[:len(text) // 2]}
    for name, document in bad.items():
        (root / name).write_text(document)
    os.mkfifo(root / "fifo.json")
    os.mkfifo(root / "fifo.ndjson")
    (root / "good.json").write_text(text)
    names = [*bad, "fifo.json", "none.json", "good.json"]
    status, _, err = run(exe, "fleet", "add", store, *[root / n for n in names])
    counts.judge("hostile snapshots are named", status == 3 and all(f"{root / n}: " in err for n in names[:-1]) and
                 err.count("\n") == len(names) - 1, err)
    kept = [p.name for p in (store / "nodes").iterdir()]
    counts.judge("and the good one alone is added", kept == [f"good@{made[1:-1]}.manifest"], kept)
    doc = json.loads(run(exe, "fleet", "report", store, "--json")[1])
    counts.judge("and reported", doc["nodes"] == 1 and not doc["damaged"], doc["damaged"])
    (root / "other").write_text("secret-word another\n")
    (root / "dup-name").write_text('{"secret-word":1,"secret-word":2}')
    for name in ("other", "dup-name"):
        (root / "link.json").unlink(missing_ok=True)
        (root / "link.json").symlink_to(name)
        said = [run(exe, *words)[1:] for words in (("fleet", "add", store, root / "link.json"),
                                                   ("check", "--snapshot", root / "link.json"))]
        counts.judge(f"nothing of the file behind a link is printed ({name})", all("line 1: " in err for _, err in said) and
                     "secret" not in str(said), said)
    begin = time.monotonic()
    status, _, err = run(exe, "fleet", "report", root / "fifo.ndjson")
    counts.judge("a FIFO holds nothing up", status == 3 and time.monotonic() - begin < 20, f"{status} {err}")


def killed(exe, folder, counts, files):
    """Killed at each write and link: what is there is whole, and adding again completes it."""
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode:
        print("SKIP killed: strace may not trace here")
        return
    whole = folder / "whole"
    run(exe, "fleet", "add", whole, *files)
    for rule in [f"inject={call}:{end}:when={n}" for call in ("pwrite64", "fsync", "linkat", "unlinkat")
                 for n in (1, 2, 3, 4) for end in ("signal=KILL", "error=ENOSPC")]:
        store = folder / "killed"
        subprocess.run(["rm", "-rf", store], check=True)
        subprocess.run(["strace", "-f", "-o", "/dev/null", "-e", rule, str(exe), "fleet", "add", store, *files],
                       capture_output=True, check=False, env={"PATH": "/usr/bin:/bin"})
        good = content(whole)
        there = {k: v for k, v in content(store).items() if "/.new." not in k}
        counts.judge(f"{rule}: whole files", all(good.get(k) == v for k, v in there.items()), sorted(there))
        status, _, err = run(exe, "fleet", "add", store, *files)
        there = {k: v for k, v in content(store).items() if "/.new." not in k}
        counts.judge(f"{rule}: added again", status == 0 and there == good, f"{status} {err}")


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    number = int(sys.argv[sys.argv.index("--nodes") + 1]) if "--nodes" in sys.argv else 600
    with tempfile.TemporaryDirectory(prefix="gpumend-fleet.") as name:
        folder = Path(name)
        differences(exe, folder, counts, number)
        sweeps(exe, folder, counts)
        damage(exe, folder, counts)
        snapshots(exe, folder, counts)
        store_of(exe, folder, counts)
        shared_content(exe, folder, counts)
        hostile_add(exe, folder, counts)
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
