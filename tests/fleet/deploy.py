#!/usr/bin/python3
"""The files of deploy/ do what they say: tests/fleet/deploy.py GPUMEND

Prometheus' rules by promtool (value and absence), Slurm's scripts with a gpumend that is broken, missing, crashes and
hangs, what is in the manifests, each command of docs/fleet.md. What is not installed is skipped, by name.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/trees"))
from build import write  # noqa: E402
from counted import Counts  # noqa: E402
from machines import MACHINES  # noqa: E402

DEPLOY = TOP / "deploy"


def run(*words, **more):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=120, check=False,
                          stdin=subprocess.DEVNULL, **more)
    return done.returncode, done.stdout + done.stderr


def prometheus(counts):
    if not shutil.which("promtool"):
        counts.skip("promtool is not installed")
        return
    for words in (["check", "rules", "gpumend.rules.yml"], ["test", "rules", "gpumend.rules.test.yml"]):
        status, text = run("promtool", *words, cwd=DEPLOY / "prometheus")
        counts.judge(" ".join(words), status == 0, text)
    exported = set(re.findall(r'"(gpumend_\w+)"', (TOP / "src/node/formats.c").read_text()))
    used = set(re.findall(r"gpumend_\w+", (DEPLOY / "prometheus/gpumend.rules.yml").read_text()))
    counts.judge("the rules' metrics", used <= exported, used - exported)


def slurm(counts, folder):
    fake = folder / "gpumend"
    prolog, health = DEPLOY / "slurm/prolog.sh", DEPLOY / "slurm/healthcheck.sh"
    for what, script, status in (
            ("broken", "echo 'nouveau-bound: x'; exit 1", 1), ("ok", "echo 'ok: 1 of 1'; exit 0", 0),
            ("cannot tell", "echo 'cannot tell: x'; exit 0", 0), ("another 1", "echo 'cannot tell: x'; exit 1", 0),
            ("nothing said", "exit 1", 0), ("usage", "exit 2", 0), ("crash", "ulimit -c 0; kill -SEGV $$", 0),
            ("killed", "echo 'nouveau-bound: x'; kill -KILL $$", 0)):
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        for file, wanted in ((prolog, status), (health, 0)):
            got, text = run(file, env={"PATH": os.environ["PATH"], "GPUMEND": str(fake)})
            counts.judge(f"{file.name}, {what}", got == wanted and (got == 0 or text == "print gpumend: nouveau-bound: x\n"),
                         f"{got} {text}")
    for file in (prolog, health):
        got, _ = run(file, env={"PATH": os.environ["PATH"], "GPUMEND": str(folder / "none")})
        counts.judge(f"{file.name} without gpumend", got == 0, got)
    # A hang: timeout is replaced by one that waits a second only.
    (folder / "bin").mkdir()
    (folder / "bin/timeout").write_text('#!/bin/sh\nshift 3\nexec /usr/bin/timeout -k 1 1 "$@"\n')
    (folder / "bin/timeout").chmod(0o755)
    fake.write_text("#!/bin/sh\nsleep 30\n")
    for file in (prolog, health):
        got, _ = run(file, env={"PATH": f"{folder}/bin:{os.environ['PATH']}", "GPUMEND": str(fake)})
        counts.judge(f"{file.name}, hang", got == 0, got)


def gres(counts, exe, folder):
    """gres.py for machines of tests/trees; Slurm reads the result where slurmd is installed."""
    def of(name, *more):
        if not (folder / "gres" / name).exists():
            write(MACHINES[name][1], folder / "gres" / name)
        text = run(exe, "devices", "--root", folder / "gres" / name, "--json")[1]
        done = subprocess.run([sys.executable, DEPLOY / "slurm/gres.py", "n1", *more], input=text, capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout, done.stderr
    status, eight, said = of("nvswitch-with-fabric-manager")
    lines = [f"NodeName=n1 Name=gpu Type=nvidia_a100-sxm4-80gb File=/dev/nvidia{i}" for i in range(8)]
    counts.judge("gres.conf of eight GPUs", status == 0 and eight.splitlines()[:8] == lines and
                 eight.splitlines()[8].endswith("Gres=gpu:nvidia_a100-sxm4-80gb:8"), f"{status} {eight} {said}")
    status, one, said = of("mi210")
    counts.judge("gres.conf of an MI210", one.startswith("NodeName=n1 Name=gpu Type=amd_instinct_mi210 File=/dev/dri/renderD128\n"),
                 f"{status} {one} {said}")
    status, mig, said = of("a100-mig")
    kind, cap = "nvidia_a100-sxm4-80gb_mig", "/dev/nvidia-caps/nvidia-cap"
    lines = [f"NodeName=n1 Name=gpu Type={kind} MultipleFiles=/dev/nvidia0,{cap}{g},{cap}{c}" for g, c in ((3, 4), (12, 13), (21, 22))]
    counts.judge("gres.conf of MIG instances", status == 0 and mig.splitlines() ==
                 [*lines, f"# slurm.conf: GresTypes=gpu, and of the node Gres=gpu:{kind}:3"], f"{status} {mig} {said}")
    status, typed, said = of("a100-mig", "--mig", "0/gi1/ci0=a100_3g.40gb", "--mig", "0/gi5/ci0=a100_1g.10gb")
    counts.judge("gres.conf of named MIG instances", typed.splitlines()[-1].endswith(
        f"Gres=gpu:a100_1g.10gb:1,gpu:a100_3g.40gb:1,gpu:{kind}:1") and f"a100_3g.40gb MultipleFiles=/dev/nvidia0,{cap}3," in typed,
                 f"{status} {typed} {said}")
    status, typed, said = of("a100-mig", "--mig", "0/gi9/ci0=a100_3g.40gb")
    counts.judge("a MIG instance that is not there", (status, typed) == (3, "") and "0/gi9/ci0" in said, f"{status} {typed} {said}")
    (folder / "gres/a100-mig/proc/driver/nvidia/capabilities/gpu0/mig/gi2/access").unlink()
    text = run(exe, "devices", "--root", folder / "gres/a100-mig", "--json")[1]
    done = subprocess.run([sys.executable, DEPLOY / "slurm/gres.py"], input=text, capture_output=True, text=True, check=False)
    counts.judge("a MIG instance without its capability", (done.returncode, done.stdout) == (3, "") and "gi2/ci0 are not known" in
                 done.stderr, done.stderr)
    status, none, said = of("cpu-only")
    counts.judge("gres.conf without a GPU", (status, none) == (0, ""), f"{status} {none} {said}")
    status, unseen, said = of("proc-without-sys")
    counts.judge("no gres.conf where GPUs are unknown", (status, unseen) == (3, "") and "cannot be determined" in said,
                 f"{status} {unseen} {said}")
    if not shutil.which("slurmd"):
        counts.skip("slurmd is not installed")
        return
    etc = folder / "etc"
    (etc / "dev").mkdir(parents=True)
    for i in range(8):
        (etc / f"dev/nvidia{i}").symlink_to("/dev/null")
    (etc / "gres.conf").write_text(eight.replace("/dev/", f"{etc}/dev/"))
    (etc / "dev/nvidia-caps").mkdir()
    for i in (3, 4, 12, 13, 21, 22):
        (etc / f"dev/nvidia-caps/nvidia-cap{i}").symlink_to("/dev/null")
    for conf, gres in ((eight, "nvidia_a100-sxm4-80gb:8"), (mig, f"{kind}:3")):
        (etc / "gres.conf").write_text(conf.replace("/dev/", f"{etc}/dev/"))
        (etc / "slurm.conf").write_text("ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu\nProctrackType=proctrack/pgid\n"
                                        f"NodeName=n1 NodeHostname=h Gres=gpu:{gres} CPUs=1\nPartitionName=p Nodes=n1\n")
        status, text = run("slurmd", "-G", "-N", "n1", "-f", etc / "slurm.conf")
        name, number = gres.split(":")
        counts.judge(f"slurmd reads it, {gres}", text.count(f"Type={name} Count=1") == int(number) and "error" not in text and
                     ("nvidia-cap22" in text) == ("mig" in name), text)


def kubernetes(counts, exe):
    """What is decided by us; tests/fleet/evaluate decodes the files into the API's own types."""
    pod = yaml.safe_load((DEPLOY / "kubernetes/daemonset.yaml").read_text())["spec"]["template"]["spec"]
    one = pod["containers"][0]
    security = one["securityContext"]
    mounts = {m["mountPath"]: m for m in one["volumeMounts"]}
    counts.judge("no privileges", security["capabilities"] == {"drop": ["ALL"]} and "privileged" not in security and
                 security["allowPrivilegeEscalation"] is False, security)
    counts.judge("the host is only read", mounts["/host"]["readOnly"] is True)
    for command in re.findall(r"^ *(gpumend export .*)$", one["args"][0], re.MULTILINE):
        words = shlex.split(command)
        counts.judge(command, run(exe, words[1], words[2], "--help")[0] == 0 and
                     all(w in run(exe, words[1], "--help")[1] for w in words if w.startswith("--")))
    plug_in = json.loads((DEPLOY / "kubernetes/gpumend.json").read_text())
    types = {c["type"] for c in plug_in["conditions"]}
    counts.judge("NPD's conditions", all(r["condition"] in types for r in plug_in["rules"]), types)
    status, text = run(exe, *plug_in["rules"][0]["args"])
    counts.judge("NPD's command", status in (0, 1, 3) and len(text.encode()) <= 81, text)
    kustomization = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
    files = kustomization["resources"] + [f for g in kustomization["configMapGenerator"] for f in g["files"]]
    counts.judge("kustomize's files", all((DEPLOY / "kubernetes" / f).exists() for f in files), files)


def ansible(counts, exe, folder):
    if not shutil.which("ansible-playbook"):
        counts.skip("ansible is not installed")
        return
    place = folder / "a blank"
    place.mkdir()
    (place / "lines").mkdir()
    (place / "gpumend").symlink_to(exe)
    hosts = place / "hosts"
    hosts.write_text(yaml.safe_dump({"all": {"hosts": {f"n{i}": {
        "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
        "remote": str(place / f"n{i}-gpumend")} for i in range(3)}}}))
    status, text = run("ansible-playbook", "-i", hosts, DEPLOY / "ansible/gpumend.yml", "-e",
                       json.dumps({"gpumend": str(place / "gpumend"), "lines": str(place / "lines")}),
                       env={**os.environ, "HOME": str(folder), "LC_ALL": "C.UTF-8"})
    counts.judge("ansible", status == 0 and re.search(r"nodes +3: ", text), text[-2000:])


def page(counts, exe, folder):
    """Each command of docs/fleet.md that begins with gpumend, in a folder of its own; page.py runs all of them."""
    (folder / "page").mkdir()
    text = (TOP / "docs/fleet.md").read_text()
    commands = re.findall(r"^    (gpumend .*)$", text, re.MULTILINE)
    stand_ins = {"/host": "/", "/shared/gpumend-drains": "drains", "venv": "/usr/bin/env", "node7.json": "node7.json",
                 "/mnt/node8": "/", "lines": "lines", "deploy/slurm/gres.py": str(DEPLOY / "slurm/gres.py")}
    (folder / "page/lines").mkdir()
    run("sh", "-c", f"{shlex.quote(str(exe))} export ndjson > lines/n1.ndjson; {shlex.quote(str(exe))} snapshot --root / > "
        "node7.json", cwd=folder / "page")
    for command in commands:
        words = []
        for word in shlex.split(command)[1:]:
            word = stand_ins.get(word, word)
            words.append(word if word in (">>", ">", "|", "||") else shlex.quote(
                Path(word).name if word.startswith(("/var/", "/etc/")) else word))
        status, said = run("sh", "-c", " ".join([shlex.quote(str(exe)), *words]), cwd=folder / "page")
        no_words = any(f"--as {form}" in command for form in ("cel", "require-cuda", "wheel-variant"))  # for a program without a GPU
        counts.judge(command, (status in (0, 1) or (status == 3 and no_words)) and "unknown option" not in said,
                     f"{status} {said}")
    counts.judge("the page has commands", len(commands) >= 10, len(commands))


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    with tempfile.TemporaryDirectory(prefix="gpumend-deploy.") as name:
        folder = Path(name)
        prometheus(counts)
        slurm(counts, folder)
        gres(counts, exe, folder)
        kubernetes(counts, exe)
        ansible(counts, exe, folder)
        page(counts, exe, folder)
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
