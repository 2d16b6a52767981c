#!/usr/bin/python3
"""`gpumend export --probe`: tests/fleet/probe.py GPUMEND

In a mount namespace with a fake driver (tests/probe/fake) and a fake /dev: it runs the GPU where nobody uses it, and loads
no driver at all where somebody does or may: a process that holds a device file, also one that comes while it runs, a job of
Slurm, a user who cannot see the processes of others. Its result is in all five formats; a stage that crashes or hangs drains
nobody. Needs root and gcc; says what it skips.
"""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "probe")]
from counted import COVER_FIRST, Counts  # noqa: E402
from lab import Lab  # noqa: E402

NAMESPACE = f"""set -e
{COVER_FIRST}""" + """
mount -t tmpfs tmpfs "$1/inside"
mkdir "$1/inside/old" "$1/inside/up" "$1/inside/work"
mount --rbind /dev "$1/inside/old"
mount -t tmpfs tmpfs /dev
for d in null zero full random urandom tty; do
    touch /dev/$d
    mount --bind "$1/inside/old/$d" /dev/$d
done
touch /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm
cp "$1"/driver/* "$1/inside/up"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/inside/up,workdir=$1/inside/work" "$2"
shift 2
exec "$@"
"""
SQUEUE = """#!/bin/sh
echo "$@" > "$(dirname "$0")/asked"
{}
"""
FORMATS = ("prometheus", "nfd", "npd", "slurm", "ndjson")


class Machine:
    """One with a fake driver in the loader's own folder, which notes who loads it."""

    def __init__(self, exe, folder):
        self.exe, self.folder = exe, folder
        self.table, self.loaded, self.bin = folder / "table", folder / "loaded", folder / "bin"
        header = folder / "told.h"
        header.write_text(f"""#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void told(void)
{{
    setenv("FAKE_GPU_TABLE", "{self.table}", 1);
    close(open("{self.loaded}", O_CREAT | O_WRONLY, 0600));
}}
""")
        (folder / "inside").mkdir()
        self.bin.mkdir()
        built = Lab(exe, folder).driver("-include", str(header))
        shutil.copytree(built, folder / "driver", symlinks=True)
        triple = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
        self.libraries = f"/usr/lib/{triple}"

    def words(self, *command):
        return ["unshare", "--mount", "sh", "-c", NAMESPACE, "sh", str(self.folder), self.libraries, *map(str, command)]

    def run(self, *command, table="", timeout=60, **env):
        self.table.write_text(table)
        self.loaded.unlink(missing_ok=True)
        done = subprocess.run(self.words(*command), capture_output=True, text=True, timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL, env={"PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin", **env})
        return done.returncode, done.stdout, done.stderr

    def probe(self, *more, holder=None, table="", before=(), **env):
        """The document of `export ndjson --probe`; `holder` is started in the same namespace, before it."""
        command = [*before, str(self.exe), "export", "ndjson", "--probe", "--node", "n1", *map(str, more)]
        if holder:
            command = ["sh", "-c", f'{holder} & one=$!; sleep 0.3; "$@"; kill $one', "sh", *command]
        status, out, err = self.run(*command, table=table, **env)
        return json.loads(out) if out.startswith("{") else {"probe": {"result": None, "says": f"{status} {out}{err}"}}


HOLDER = "sleep 30 3</dev/{}"


def is_not_run(counts, m, name, doc, part):
    probe = doc["probe"]
    counts.judge(name, probe["result"] == "not-run" and part in probe["says"] and not m.loaded.exists() and
                 doc.get("verdict") == "ok", f"{doc}, loaded {m.loaded.exists()}")


def nobody(m, counts):
    doc = m.probe()
    counts.judge("nobody uses it", doc["probe"]["result"] == "works" and m.loaded.exists(), doc)
    status, out, err = m.run(m.exe, "export", "npd", "--probe")
    counts.judge("a kernel ran", status == 0 and "a kernel ran" in out and not err, f"{status} {out}{err}")
    status, out, _ = m.run(m.exe, "export", "ndjson")
    counts.judge("without --probe nothing is run", "probe" not in json.loads(out) and not m.loaded.exists(), out)


def somebody(m, counts):
    for node in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        is_not_run(counts, m, f"/dev/{node} is held", m.probe(holder=HOLDER.format(node)), f"(sleep) holds /dev/{node}")
    doc = m.probe(before=("setpriv", "--reuid=65534", "--clear-groups"))
    is_not_run(counts, m, "a user who cannot see others' files", doc, "cannot be listed")
    doc = m.probe(before=("unshare", "--pid", "--fork", "--mount-proc"))
    is_not_run(counts, m, "a PID namespace of its own", doc, "PID namespaces")
    for form in FORMATS:
        command = f'{HOLDER.format("nvidia0")} & one=$!; sleep 0.3; "$@"; status=$?; kill $one; exit $status'
        status, out, _ = m.run("sh", "-c", command, "sh", m.exe, "export", form, "--probe")
        wanted = {"prometheus": 'gpumend_probe{result="not-run"} 1\n', "nfd": "gpumend-probe=not-run\n",
                  "ndjson": '"probe":{"result":"not-run"'}.get(form, "; not probed: process ")
        counts.judge(f"{form}: it says so", status == 0 and wanted in out and not m.loaded.exists(), f"{status} {out}")


def comes_later(m, counts):
    """The driver answers late; meanwhile a job opens the GPU."""
    begin = time.monotonic()
    doc = m.probe(holder=f"(sleep 1.5; exec {HOLDER.format('nvidia0')})", table="cuInit slow 20000\n")
    took = time.monotonic() - begin
    counts.judge("a job that comes while it runs", doc["probe"]["result"] == "not-run" and took < 8 and
                 doc["probe"]["says"].startswith("stopped: process") and doc["verdict"] == "ok", f"{took} {doc}")


def broken(m, counts):
    refused = "cuInit return 999\n"
    doc = m.probe(table=refused)
    counts.judge("the driver refuses", (doc["verdict"], doc["reason"], doc["probe"]["result"]) ==
                 ("broken", "gpu-probe", "broken") and "cuInit failed" in doc["says"], doc)
    wanted = {"prometheus": (0, 'gpumend_probe{result="broken"} 1\n'), "nfd": (0, "gpumend-probe=broken\n"),
              "npd": (1, "gpu-probe: "), "slurm": (1, "gpu-probe: "), "ndjson": (0, '"reason":"gpu-probe"')}
    for form, (code, part) in wanted.items():
        status, out, _ = m.run(m.exe, "export", form, "--probe", table=refused)
        counts.judge(f"{form} of a refusal", status == code and part in out, f"{status} {out}")
    for name, table, more in (("a crash", "cuInit segfault\n", ()), ("a hang", "cuInit hang\n", ("--deadline", 2))):
        doc = m.probe(*more, table=table)
        counts.judge(f"{name} is unknown", (doc["verdict"], doc["probe"]["result"]) == ("unknown", "unknown"), doc)
        status, out, _ = m.run(m.exe, "export", "slurm", "--probe", *more, table=table)
        counts.judge(f"{name} drains nobody", status == 0 and out.startswith("cannot tell: "), f"{status} {out}")
    doc = m.probe(table="cuDevicePrimaryCtxRetain return 46\n")
    counts.judge("exclusive use is not broken", (doc["verdict"], doc["probe"]["result"]) == ("ok", "not-run"), doc)
    left = subprocess.run(["pgrep", "-f", str(m.table)], capture_output=True, text=True, check=False).stdout
    counts.judge("nothing is left", not left, left)


def slurm(m, counts):
    """What squeue answers; the process that asks was started by slurmd."""
    squeue = m.bin / "squeue"

    def asks(answer, **env):
        squeue.write_text(SQUEUE.format(answer))
        squeue.chmod(0o755)
        return m.probe(SLURMD_NODENAME="n1", **env)
    counts.judge("no job", asks("exit 0")["probe"]["result"] == "works")
    asked = (m.bin / "asked").read_text().split()
    counts.judge("what is asked", "--nodelist=n1" in asked and any(w.startswith("--states=") and "SUSPENDED" in w for w in asked),
                 asked)
    is_not_run(counts, m, "a job", asks("echo 4711"), "Slurm's job 4711 is on this node")
    is_not_run(counts, m, "squeue fails", asks("echo 'Unable to contact slurm controller'; exit 1"), "Unable to contact")
    is_not_run(counts, m, "squeue says something else", asks("echo slurm_load_jobs"), "not understood")
    prolog = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "SLURM_JOB_ID": "4711"}
    counts.judge("the prolog's own job", asks("echo 4711", **prolog)["probe"]["result"] == "works")
    is_not_run(counts, m, "another job", asks("echo 4711; echo 4712", **prolog), "job 4712")
    is_not_run(counts, m, "from within a job", asks("echo 4711", SLURM_JOB_ID="4711"), "job 4711")
    squeue.unlink()
    is_not_run(counts, m, "no squeue", m.probe(before=("env", "PATH=/nothing"), SLURMD_NODENAME="n1"), "squeue is not on PATH")


def words(m, counts):
    for more, part in ((("ndjson", "--probe", "--root", "/"), "without --root"),
                       (("slurm-extra", "--probe"), "not for slurm-extra")):
        status, _, err = m.run(m.exe, "export", *more)
        counts.judge(f"{more}", status == 2 and part in err, err)


def why_not(exe, folder):
    if os.getuid() != 0:
        return "this user is not root", None
    if missing := [p for p in ("gcc", "unshare", "setpriv", "pgrep") if not shutil.which(p)]:
        return ", ".join(missing), None
    m = Machine(exe, folder)
    status, out, err = m.run(exe, "export", "npd", "--probe")
    if status != 0 or "not probed" in out:
        return f"here nothing can be run: {out}{err}", None
    return None, m


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of the crash
    with tempfile.TemporaryDirectory(prefix="gpumend-export-probe.") as name:
        why, m = why_not(exe, Path(name))
        if why:
            print(f"SKIP export --probe: {why}\n0 passed, 0 failed, 1 skipped")
            return 0
        for case in (nobody, somebody, comes_later, broken, slurm, words):
            case(m, counts)
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
