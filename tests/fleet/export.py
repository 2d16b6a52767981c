#!/usr/bin/python3
"""What `gpumend export` tells the engines: tests/fleet/export.py GPUMEND

Every machine of tests/trees in every format: the verdict is that of `devices`, the labels are ones that
Kubernetes takes, the metrics ones that Prometheus takes, the line of NPD fits. Then what must not happen:
a half file, a drain on "unknown", after a crash or a hang, of a node that others drained, or one too many.
Slurm is a program in this folder that answers as scontrol does.
"""
import json
import os
import re
import resource
import shutil
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

VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
SAMPLE = re.compile(r'[a-z_]+(\{([a-z]+="[^"\\\n]*",?)+\})? -?[0-9.]+')
WORDS = {0: "ok", 1: "broken", 3: "unknown"}
# `devices` says what the user may open; a node is not that user.
OF_THE_LOOKER = ("device-cgroup", "permission", "hidden")
SCONTROL = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
case $1 in
show) cat "$(dirname "$0")/node" ;;
update) case $3 in State=DRAIN) shift 3; printf 'NodeName=n1 Arch=x86_64\\n   State=IDLE+DRAIN ThreadsPerCore=1\\n   %s [root@2026-01-01T00:00:00]\\n' "$*" ;;
   State=RESUME) printf 'NodeName=n1\\n   State=IDLE ThreadsPerCore=1\\n' ;; esac > "$(dirname "$0")/node" ;;
esac
"""


def run(exe, *words, before=(), **env):
    done = subprocess.run([*before, str(exe), *map(str, words)], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False, env={"PATH": "/usr/bin:/bin", **env})
    return done.returncode, done.stdout, done.stderr


# ------------------------------------------------------------------ each machine in each format

def devices_status(exe, root):
    """That of `devices`, less what only the user of that process may not open."""
    status, out, _ = run(exe, "devices", "--root", root, "--json")
    if status != 1:
        return status, None
    doc = json.loads(out)
    for gpu in doc["gpus"]:
        gpu["problems"] = [p for p in gpu["problems"] if p["id"] not in OF_THE_LOOKER]
    left = [p for g in doc["gpus"] if g["usable"] == "no" for p in g["problems"] if p["usable"] == "no"]
    return (1 if left else 0), doc


def label_faults(text):
    names = set()
    if not re.match(r"# \+expiry-time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n", text) or len(text) > 65536:
        yield "no expiry, or too long"
    for line in text.splitlines()[1:]:
        name, _, value = line.partition("=")
        prefix, _, name = name.partition("/")
        if prefix != "feature.node.kubernetes.io" or not VALUE.fullmatch(name) or len(name) > 63:
            yield f"name {line}"
        if not VALUE.fullmatch(value) or len(value) > 63 or name in names:
            yield f"value {line}"
        names.add(name)


def metric_faults(text):
    families, samples = {}, set()
    lines = text.splitlines()
    if not text.endswith("\n# EOF\n"):
        yield "does not end in # EOF"
    for line in lines[:-1]:
        if found := re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)", line):
            families.setdefault(found[2], []).append(found[1])
        elif not SAMPLE.fullmatch(line):
            yield f"no sample: {line}"
        else:
            samples.add(line.rpartition(" ")[0])
            if re.match("[a-z_]+", line)[0] not in families:
                yield f"no HELP before {line}"
    if any(kinds != ["HELP", "TYPE"] for kinds in families.values()):
        yield f"families {families}"
    if len(samples) != len([x for x in lines if not x.startswith("#")]) or len(samples) > 20:
        yield "a series twice, or too many"


def machines(exe, folder, counts):
    promtool = shutil.which("promtool")
    for name, (_, machine) in sorted(MACHINES.items()):
        root = folder / "trees" / name
        write(machine, root)
        wanted, _ = devices_status(exe, root)
        status, out, err = run(exe, "export", "npd", "--root", root)
        counts.judge(f"{name}: npd", status == wanted and not err, f"{status} {out}{err}, not {wanted}")
        counts.judge(f"{name}: line", re.fullmatch(r"[^\n]{2,80}\n", out) and len(out.encode()) <= 81, out)
        status, out, _ = run(exe, "export", "slurm", "--root", root)
        counts.judge(f"{name}: slurm", status == (wanted == 1), f"{status} {out}")
        status, out, _ = run(exe, "export", "nfd", "--root", root)
        counts.judge(f"{name}: nfd", not (bad := list(label_faults(out))) and status == 0, bad)
        counts.judge(f"{name}: nfd verdict", f"gpumend-verdict={WORDS[wanted]}\n" in out, out)
        status, out, _ = run(exe, "export", "prometheus", "--root", root)
        bad = list(metric_faults(out))
        if promtool:
            done = subprocess.run([promtool, "check", "metrics"], input=out, capture_output=True, text=True,
                                  check=False)
            bad += [done.stderr] if done.returncode or done.stderr else []
        counts.judge(f"{name}: prometheus", not bad and status == 0, bad)
        shown = re.findall(r'gpumend_verdict{verdict="(\w+)"} 1', out)
        counts.judge(f"{name}: prometheus verdict", shown == [WORDS[wanted]], shown)
        status, out, _ = run(exe, "export", "ndjson", "--root", root, "--node", "n\n1")
        doc = json.loads(out)
        counts.judge(f"{name}: ndjson", doc["verdict"] == WORDS[wanted] and out.count("\n") == 1 and status == 0
                     and doc["node"] == "n\\x0a1" or doc["node"] == "n\n1", out)


def unknown_gpus(exe, folder, counts):
    """Where the PCI bus cannot be seen, no format says that the machine has no GPU."""
    root = folder / "trees/proc-without-sys"
    facts = json.loads(run(exe, "export", "ndjson", "--root", root)[1])["facts"]
    known = [k for k in ("gpus", "gpus_usable", "gpu_names", "nvidia", "compute_capabilities", "gfx")
             if facts[k] is not None]
    counts.judge("unknown GPUs: facts", not known, known)
    out = run(exe, "export", "prometheus", "--root", root)[1]
    counts.judge("unknown GPUs: metrics", "gpumend_gpus" not in out, out)
    out = run(exe, "export", "nfd", "--root", root)[1]
    counts.judge("unknown GPUs: labels", "gpus-usable" not in out and "nvidia-open=true" in out and "amd-open=true" in out,
                 out)


def expected_gpus(exe, folder, counts):
    root = folder / "trees/nvswitch-with-fabric-manager"
    for number, status in ((8, 0), (9, 1)):
        got, out, _ = run(exe, "export", "npd", "--root", root, "--gpus", number)
        counts.judge(f"--gpus {number}", got == status, out)


def targets(exe, folder, counts):
    """An environment that cannot be looked at is not fine, and what a job sets is not the node's."""
    root = folder / "trees/geforce-desktop"
    status, out, _ = run(exe, "export", "npd", "--root", root, "--check", "/opt/none")
    counts.judge("--check of nothing", status == 3 and out.startswith("cannot tell: /opt/none"), out)
    status, out, _ = run(exe, "export", "npd", "--root", root, CUDA_VISIBLE_DEVICES="")
    counts.judge("a job's variables", status == 0, out)


# ------------------------------------------------------------------ crashes, hangs, full disks

def injected(exe, folder, rule, *words, **env):
    return run(exe, *words, before=["strace", "-f", "-o", "/dev/null", "-e", rule], **env)


def failures(exe, folder, counts):
    root, out = folder / "trees/nouveau", folder / "out.prom"
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode:
        print("SKIP failures: strace may not trace here")
        counts.skipped += 1
        return
    for what, rule in (("crash", "inject=readlink,readlinkat,newfstatat,statx:signal=SEGV:when=40+"),
                       ("hang", "inject=newfstatat,statx,openat2:delay_enter=3s:when=20")):
        status, text, _ = injected(exe, folder, rule, "export", "npd", "--root", root, "--deadline", 1)
        counts.judge(f"{what}: npd", status == 3 and text.startswith("cannot tell"), f"{status} {text}")
        status, text, _ = injected(exe, folder, rule, "export", "slurm", "--root", root, "--deadline", 1)
        counts.judge(f"{what}: slurm", status == 0 and text.startswith("cannot tell"), f"{status} {text}")
    run(exe, "export", "prometheus", "--root", root, "--out", out)
    before = out.read_text()
    counts.judge("a file", before.endswith("# EOF\n") and out.stat().st_mode & 0o777 == 0o644, before)
    for call in ("fsync", "rename", "fchmod"):
        status, _, err = injected(exe, folder, f"inject={call}:error=ENOSPC", "export", "prometheus", "--root", root,
                                  "--out", out)
        counts.judge(f"full disk at {call}", status == 3 and "No space left" in err and out.read_text() == before
                     and [p.name for p in folder.glob(".out*")] == [], f"{status} {err}")
    status, _, err = run(exe, "export", "slurm", "--root", folder / "trees/geforce-desktop", "--out", "/nowhere/x")
    counts.judge("slurm without its file", status == 0 and "/nowhere" in err, f"{status} {err}")


def lines(exe, folder, counts):
    root, state = folder / "trees/geforce-desktop", folder / "state"

    def line(*more):
        status, out, err = run(exe, "export", "ndjson", "--root", root, "--state", state, *more)
        return out if status == 0 and not err else f"{status} {err}"
    counts.judge("first line", json.loads(line())["verdict"] == "ok")
    counts.judge("unchanged", line() == "")
    counts.judge("changed", json.loads(line("--gpus", 2))["verdict"] == "broken")
    counts.judge("back", json.loads(line())["verdict"] == "ok")
    identity = state.read_text().split()[0]
    state.write_text(f"{identity} {int(time.time()) - 4000}\n")
    counts.judge("heartbeat", json.loads(line())["verdict"] == "ok")
    state.write_text(f"{identity} {int(time.time()) + 4000}\n")
    counts.judge("a state of the future", line() != "")
    state.write_text("damaged")
    counts.judge("a damaged state", line() != "")
    counts.judge("and repaired", line() == "")


# ------------------------------------------------------------------ Slurm

class Slurm:
    """A node of Slurm; the machine itself is what is looked at, with more GPUs expected or none."""

    def __init__(self, exe, folder):
        self.exe, self.folder = exe, folder
        folder.mkdir()
        (folder / "scontrol").write_text(SCONTROL)
        (folder / "scontrol").chmod(0o755)
        self.count = folder / "count"
        self.number = 0

    def node(self, state, reason=None):
        text = f"NodeName=n1 Arch=x86_64\n   State={state} ThreadsPerCore=1\n"
        (self.folder / "node").write_text(text + (f"   Reason={reason}\n" if reason else ""))

    def run(self, broken, *more, before=()):
        (self.folder / "asked").write_text("")
        gpus = ["--gpus", "64"] if broken else []
        status, out, err = run(self.exe, "export", "slurm", "--node", "n1", "--drain", "--drain-count", self.count,
                               *gpus, *more, before=before, PATH=f"{self.folder}:/usr/bin:/bin")
        updates = [x for x in (self.folder / "asked").read_text().splitlines() if x.startswith("update")]
        return status, updates, out + err


def drains(exe, folder, counts):
    if run(exe, "export", "npd")[0] != 0:
        print("SKIP drains: this machine's own GPUs are not in order")
        counts.skipped += 1
        return
    s = Slurm(exe, folder / "slurm")
    s.node("IDLE")
    status, updates, text = s.run(True)
    counts.judge("drained", status == 0 and updates == [
        "update NodeName=n1 State=DRAIN Reason=gpumend: gpu-count: 0 of the 64 expected GPUs can be used"], text)
    status, updates, text = s.run(True)
    counts.judge("drained already", status == 0 and not updates, text)
    status, updates, text = s.run(False)
    counts.judge("resumed", status == 0 and updates == ["update NodeName=n1 State=RESUME"], text)
    for state, reason in (("IDLE+DRAIN", "maintenance of gpumend: later"), ("IDLE+DRAIN", None),
                          ("DOWN+DRAIN", "gpumend: x"), ("IDLE*+DRAIN", "gpumend: x"),
                          ("ALLOCATED+DRAIN", "Prolog error"), ("DOWN", "Not responding"),
                          ("IDLE+DRAIN+REBOOT_ISSUED", "gpumend: x"), ("IDLE+MAINTENANCE", None)):
        for broken in (False, True):
            s.node(state, reason)
            status, updates, text = s.run(broken)
            counts.judge(f"{state} {reason}, broken {broken}", status == 0 and not updates, text)
    for state in ("IDLE", "MIXED", "ALLOCATED"):
        s.node(state)
        status, updates, text = s.run(False)
        counts.judge(f"ok and {state}", status == 0 and not updates, text)
    s.count.write_text("")
    drained = 0
    for _ in range(5):
        s.node("IDLE")
        status, updates, text = s.run(True, "--drain-limit", 3)
        drained += len(updates)
    counts.judge("three an hour", drained == 3 and status == 0 and "the limit" in text, f"{drained} {text}")
    now = int(time.time())
    for content, want, what in ((f"{now - 3700} a\n" * 9, 1, "older than an hour"), (f"{now + 9999} a\n", 0, "of the future"),
                                ("what\n", 0, "damaged"), (f"{now} a", 0, "without a line's end")):
        s.count.write_text(content)
        s.node("IDLE")
        status, updates, text = s.run(True, "--drain-limit", 1)
        counts.judge(f"a count {what}", len(updates) == want and status == 0, text)
    for name in ("ALL", "all", "n[1-3]", "n1,n2", "n1 State=RESUME", "--help", "n\n1", "n1;reboot", "n\u00e9"):
        s.node("IDLE")
        s.count.write_text("")
        (s.folder / "asked").write_text("")
        status, _, err = run(exe, "export", "slurm", "--node", name, "--drain", "--drain-count", s.count, "--gpus", 64,
                             PATH=f"{s.folder}:/usr/bin:/bin")
        counts.judge(f"{name!r} is no node", status == 0 and not (s.folder / "asked").read_text() and not s.count.read_text() and
                     "not that of one node" in err and err.count("\n") == 1, err)
    s.count.unlink()
    s.count.mkdir()
    s.node("IDLE")
    status, updates, text = s.run(True)
    counts.judge("a count that is a folder", status == 0 and not updates, text)
    s.count.rmdir()
    concurrent(s, counts)
    s.node("IDLE")
    s.count.write_text("")
    status, updates, text = s.run(True, "--check", "/opt/none")
    counts.judge("unknown and broken", len(updates) == 1, text)
    s.node("IDLE+DRAIN", "gpumend: x")
    status, updates, text = s.run(False, "--check", "/opt/none")
    counts.judge("unknown changes nothing", status == 0 and not updates and "cannot tell" in text, text)
    (s.folder / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    status, updates, text = s.run(True)
    counts.judge("scontrol fails", status == 0 and not updates and "was not drained" in text, text)
    (s.folder / "scontrol").write_text(SCONTROL)
    (s.folder / "scontrol").chmod(0o777)
    s.node("IDLE")
    status, updates, text = s.run(True)
    counts.judge("a scontrol that others may replace", status == 0 and not (s.folder / "asked").read_text()
                 and "another user could put something else there" in text, text)
    (s.folder / "scontrol").chmod(0o755)
    if shutil.which("strace"):
        (s.folder / "scontrol").write_text(SCONTROL)
        s.node("IDLE")
        s.count.write_text("")
        status, updates, text = s.run(True, before=["strace", "-f", "-o", "/dev/null", "-e",
                                                    "inject=pwrite64:error=ENOSPC"])
        counts.judge("full disk at the count", status == 0 and not updates, text)
        s.node("IDLE")
        s.count.write_text(f"{now - 4000} node-of-long-ago\n" * 3)
        s.run(True, before=["strace", "-f", "-o", "/dev/null", "-e", "inject=ftruncate:signal=KILL"])
        status, updates, text = s.run(True)
        counts.judge("killed before the count was cut", len(updates) == 1 and s.count.read_text().count(" n1\n") == 2,
                     f"{text} {s.count.read_text()!r}")
    for words in (["--drain"], ["--drain", "--drain-count", "x", "--root", "/"]):
        status, _, err = run(exe, "export", "slurm", *words)
        counts.judge(f"{words}", status == 2 and err, err)
    status, _, err = run(exe, "export", "npd", "--drain", "--drain-count", "x")
    counts.judge("--drain of another format", status == 2, err)


def concurrent(s, counts):
    """Ten nodes at once, as Slurm starts HealthCheckProgram."""
    s.count.write_text("")
    nodes = []
    for i in range(10):
        one = Slurm(s.exe, s.folder / f"n{i}")
        one.count = s.count
        one.node("IDLE")
        (one.folder / "asked").write_text("")
        nodes.append((one, subprocess.Popen(
            [str(s.exe), "export", "slurm", "--node", f"n{i}", "--gpus", "64", "--drain", "--drain-count", str(s.count),
             "--drain-limit", "4"], env={"PATH": f"{one.folder}:/usr/bin:/bin"}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)))
    good = all(p.wait(60) == 0 for _, p in nodes)
    drained = sum("State=DRAIN" in (one.folder / "asked").read_text() for one, _ in nodes)
    counts.judge("ten at once", good and drained == 4, f"{drained} drained")


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of the crashes below
    with tempfile.TemporaryDirectory(prefix="gpumend-export.") as name:
        folder = Path(name)
        machines(exe, folder, counts)
        unknown_gpus(exe, folder, counts)
        expected_gpus(exe, folder, counts)
        targets(exe, folder, counts)
        failures(exe, folder, counts)
        lines(exe, folder, counts)
        drains(exe, folder, counts)
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
