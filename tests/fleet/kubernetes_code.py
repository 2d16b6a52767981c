#!/usr/bin/python3
"""What gpumend gives Kubernetes, read by the code that reads it there: tests/fleet/kubernetes_code.py GPUMEND --nfd CHECKOUT --npd CHECKOUT

Builds programs (others/*.go.txt) inside checkouts of node-feature-discovery and node-problem-detector, whose modules are not to be
had everywhere; nothing is written into the checkouts. NFD's local source reads the files that `export nfd` writes for machines
of tests/trees, an expired one and a damaged one, and deploy/kubernetes/nodefeaturerule.yaml is executed on them. NPD's custom plug-in monitor
runs deploy/kubernetes/gpumend.json with gpumend as it is, with one that crashes, hangs, is missing, and finds a broken node. Needs root, Go.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "trees")]
from counted import Counts  # noqa: E402
from build import write  # noqa: E402
from machines import MACHINES  # noqa: E402

FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"
PREFIX = "feature.node.kubernetes.io/gpumend-"
IN_PLACE = f'mkdir -p /etc/kubernetes && mount -t tmpfs tmpfs /etc/kubernetes && mkdir -p {FEATURES} && cp "$1" {FEATURES}/gpumend && shift && exec "$@"'


def option(name):
    return Path(sys.argv[sys.argv.index(name) + 1]).resolve() if name in sys.argv else None


def build(folder, name, checkout):
    source, program = folder / f"{name}.go", folder / name
    shutil.copy(HERE / f"others/{name}.go.txt", source)
    overlay = folder / f"{name}.json"
    overlay.write_text(json.dumps({"Replace": {str(checkout / "cmd/gpumend-check/main.go"): str(source)}}))
    subprocess.run(["go", "build", "-overlay", overlay, "-o", program, "./cmd/gpumend-check"], cwd=checkout, check=True)
    return program


def nfd(exe, counts, folder, program):
    def read(file):
        words = ["unshare", "--mount", "sh", "-c", IN_PLACE, "sh", str(file), str(program), str(TOP / "deploy/kubernetes/nodefeaturerule.yaml")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {"labels": {}, "rules": {}, "why": done.stderr}
    seen = set()
    for name, (_, machine) in sorted(MACHINES.items()):
        root, file = folder / "trees" / name, folder / "features"
        write(machine, root)
        subprocess.run([exe, "export", "nfd", "--root", root, "--out", file], check=True)
        text = file.read_text()
        wanted = dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))
        got = read(file)
        counts.judge(f"{name}: NFD's labels", got["labels"] == wanted, f"{got} not {wanted}")
        verdict, usable = wanted[PREFIX + "verdict"], int(wanted.get(PREFIX + "gpus-usable", 0))
        ready, taints = got["rules"]["gpumend GPUs can be used"]["labels"], got["rules"]["gpumend GPUs are broken"]["taints"]
        counts.judge(f"{name}: ready", bool(ready) == (verdict == "ok" and usable > 0), f"{wanted} {ready}")
        counts.judge(f"{name}: tainted", bool(taints) == (verdict == "broken"), f"{wanted} {taints}")
        seen.add((verdict, bool(ready), bool(taints)))
    counts.judge("ready, broken and neither", {("ok", True, False), ("broken", False, True), ("unknown", False, False)} <= seen, seen)
    file.write_text(re.sub(r"expiry-time=\S+", "expiry-time=2020-01-01T00:00:00Z", text))
    counts.judge("an expired file", read(file)["labels"] == {}, read(file))


def npd(exe, counts, folder, program):
    def run(what, script, status, message):
        wrapper = folder / "gpumend"
        wrapper.unlink(missing_ok=True)
        if script:
            wrapper.write_text(f"#!/bin/sh\n{script}\n")
            wrapper.chmod(0o755)
        config = json.loads((TOP / "deploy/kubernetes/gpumend.json").read_text())
        config["rules"][0].update(path=str(wrapper), timeout="5s")
        (folder / "config.json").write_text(json.dumps(config))
        done = subprocess.run([program, folder / "config.json"], capture_output=True, text=True, timeout=90, check=False)
        last = json.loads(done.stdout.splitlines()[-1])["conditions"][0] if done.stdout else {}
        counts.judge(f"NPD, {what}", last.get("type") == "GPUProgramsBroken" and last.get("status") == status and
                     message in last.get("message", ""), f"{done.stdout} {done.stderr[-600:]}")
    run("as it is", f'exec {exe} "$@"', "False", "")
    run("a broken node", f'exec {exe} "$@" --gpus 64', "True", "gpu-count: 0 of the 64 expected GPUs can be used")
    run("cannot tell", f'exec {exe} "$@" --check /opt/none', "Unknown", "cannot tell: /opt/none")
    run("a crash", "ulimit -c 0; kill -SEGV $$", "Unknown", "")
    run("a hang", "exec sleep 60", "Unknown", "")


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    checkouts = {name: option(f"--{name}") for name in ("nfd", "npd")}
    missing = [n for n, c in checkouts.items() if not (c and c.exists())] + [p for p in ("go", "unshare") if not shutil.which(p)]
    if missing or os.getuid() != 0:
        print(f"SKIP Kubernetes' code: {', '.join(missing) or 'this user is not root'}\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpumend-kubernetes.") as name:
        folder = Path(name)
        for which, judge in (("nfd", nfd), ("npd", npd)):
            judge(exe, counts, folder, build(folder, which, checkouts[which]))
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
