#!/usr/bin/python3
"""A real Slurm, with deploy/slurm: tests/fleet/slurm.py GPUMEND

Starts munged, slurmctld and three slurmd on this machine, in a folder, on ports of their own. A node that gpumend
calls broken is drained with the reason and resumed when it is repaired; a node that an administrator drained stays
drained; a gpumend that crashes, hangs, is missing or has a full disk drains nobody; a prolog drains a broken
node; a job with --gpumend=mend starts with the mended environment. Needs root and
Debian's slurmctld, slurmd, slurm-client and munge; says what it skips.
"""
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/mend"))
from counted import COVER_FIRST, Counts, free_ports  # noqa: E402
import launcher  # noqa: E402
import slurm_match  # noqa: E402

PROGRAMS = ("slurmctld", "slurmd", "scontrol", "munged", "mungekey")
NODES = ("n1", "n2", "n3")


def build_plug_in(path):
    """Built as its head says, with all warnings; None without Slurm's headers."""
    if not (shutil.which("cc") and Path("/usr/include/slurm/spank.h").exists()):
        return None
    subprocess.run(["cc", "-std=c17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O2", "-o", path,
                    TOP / "deploy/slurm/spank_gpumend.c"], check=True)
    return path


class Cluster:
    def __init__(self, folder, exe):
        self.folder, self.exe, self.children = folder, exe, []
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "LC_ALL": "C"}
        for name in ("state", "spool", "log", "etc", "venvs"):
            (folder / name).mkdir()

    def start(self, *words):
        log = open(self.folder / "log" / f"{Path(words[0]).name}-{len(self.children)}", "wb")
        self.children.append(subprocess.Popen([str(w) for w in words], env=self.env, stdout=log, stderr=log,
                                              stdin=subprocess.DEVNULL))

    def begin(self):
        host = socket.gethostname().split(".")[0]
        key, sock = self.folder / "etc/munge.key", self.folder / "munge.socket"
        subprocess.run(["mungekey", "--create", "--force", f"--keyfile={key}"], check=True)
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={sock}",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/log/munged",
                   f"--seed-file={self.folder}/munge.seed")
        control, *ports = free_ports(1 + len(NODES))
        nodes = "".join(f"NodeName={n} NodeHostname={host} NodeAddr=127.0.0.1 Port={p} CPUs=1 RealMemory=64\n"
                        for n, p in zip(NODES, ports))
        (self.folder / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={sock}
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool/%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
ReturnToService=2
SlurmdTimeout=300
Prolog={self.folder}/etc/prolog
PrologFlags=Alloc
{nodes}PartitionName=all Nodes={','.join(NODES)} Default=YES State=UP
""")
        if slurm_match.version() >= (23, 11):  # without it slurmd asks for /sys/fs/cgroup
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        self.script("prolog", "exit 0")
        self.spank = build_plug_in(self.folder / "spank_gpumend.so")
        if self.spank:
            self.script("gpumend", f'exec {self.exe} "$@"')
            (self.folder / "plugstack.conf").write_text(f"optional {self.spank} gpumend={self.folder}/etc/gpumend\n")
        self.start("slurmctld", "-D")
        for node in NODES:
            self.start("slurmd", "-D", "-N", node)
        return self.until(lambda: all(self.state(n)[0] == "IDLE" for n in NODES), 60)

    def end(self):
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()

    def script(self, name, text):
        file = self.folder / "etc" / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return file

    def until(self, true, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if true():
                return True
            time.sleep(0.3)
        return False

    def scontrol(self, *words):
        return subprocess.run(["scontrol", *words], env=self.env, capture_output=True, text=True, timeout=30,
                              check=False).stdout

    def state(self, node):
        text = self.scontrol("show", "node", node)
        state = text.partition("State=")[2].split()
        return (state[0] if state else "?"), text.partition("Reason=")[2].partition(" [")[0].strip()

    def health(self, node, options="", before="", gpumend=None):
        """HealthCheckProgram as slurmd starts it."""
        env = {**self.env, "SLURMD_NODENAME": node, "GPUMEND": str(gpumend or self.exe), "GPUMEND_OPTIONS": options,
               "GPUMEND_DRAINS": str(self.folder / "drains")}
        words = [*before.split(), str(TOP / "deploy/slurm/healthcheck.sh")]
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=90, check=False)
        return done.returncode, done.stdout + done.stderr


def drains(c, counts):
    status, said = c.health("n1", "--gpus 64")
    state, reason = c.state("n1")
    counts.judge("a broken node is drained", status == 0 and "DRAIN" in state and reason ==
                 "gpumend: gpu-count: 0 of the 64 expected GPUs can be used", f"{status} {said} {state} {reason}")
    _, said = c.health("n1", "--gpus 64 --check /opt/none")
    counts.judge("and stays drained", "DRAIN" in c.state("n1")[0], said)
    _, said = c.health("n1", "--check /opt/none")
    counts.judge("unknown does not resume it", "DRAIN" in c.state("n1")[0] and "cannot tell" in said, said)
    _, said = c.health("n1")
    counts.judge("a repaired one is resumed", c.until(lambda: c.state("n1")[0] == "IDLE"), f"{said} {c.state('n1')}")
    c.scontrol("update", "NodeName=n2", "State=DRAIN", "Reason=disk is being replaced")
    _, said = c.health("n2")
    counts.judge("an administrator's drain stays", c.state("n2") == ("IDLE+DRAIN", "disk is being replaced"),
                 f"{said} {c.state('n2')}")
    _, said = c.health("n2", "--gpus 64")
    counts.judge("and its reason", c.state("n2")[1] == "disk is being replaced", said)
    c.scontrol("update", "NodeName=n2", "State=RESUME")
    counts.judge("n2 is idle", c.until(lambda: c.state("n2")[0] == "IDLE"), c.state("n2"))


def nobody_is_drained(c, counts):
    crash = c.script("crash", "ulimit -c 0; kill -SEGV $$")
    hang = c.script("hang", f"exec timeout 1 {c.exe} export slurm --check /opt/none")
    disk = c.script("disk", "exec strace -f -o /dev/null -e inject=pwrite64,write:error=ENOSPC:when=1+ "
                            f'-P "$GPUMEND_DRAINS" {c.exe} "$@"')
    for what, gpumend, options in (("a crash", crash, ""), ("a hang", hang, ""), ("no gpumend", c.folder / "none", ""),
                                   ("a full disk", disk, "--gpus 64"), ("a wrong option", c.exe, "--wrong"),
                                   ("cannot tell", c.exe, "--check /opt/none")):
        status, said = c.health("n3", options, gpumend=gpumend)
        counts.judge(f"{what} drains nobody", status == 0 and "DRAIN" not in c.state("n3")[0], f"{said} {c.state('n3')}")
    (c.folder / "drains").write_text("")
    for node in NODES:
        c.health(node, "--gpus 64 --drain-limit 2")
    drained = [n for n in NODES if "DRAIN" in c.state(n)[0]]
    counts.judge("two an hour", len(drained) == 2, drained)
    for node in NODES:
        c.health(node)
    counts.judge("all are resumed", c.until(lambda: all(c.state(n)[0] == "IDLE" for n in NODES)),
                 [c.state(n) for n in NODES])


def features(c, counts):
    """deploy/slurm/features.sh, and a job that asks for what it wrote."""
    def written(gpumend):
        env = {**c.env, "SLURMD_NODENAME": "n1", "GPUMEND": str(gpumend)}
        done = subprocess.run([TOP / "deploy/slurm/features.sh"], env=env, capture_output=True, text=True, timeout=90, check=False)
        text = c.scontrol("--oneliner", "show", "node", "n1")
        return done.returncode, text.partition(" ActiveFeatures=")[2].split()[0].split(","), text
    c.scontrol("update", "NodeName=n1", "AvailableFeatures=gpumend-old,rack7", "ActiveFeatures=gpumend-old,rack7")
    printed = subprocess.run([c.exe, "export", "slurm-features"], capture_output=True, text=True, check=True).stdout.strip()
    status, names, text = written(c.folder / "none")
    counts.judge("features without gpumend", status != 0 and names == ["gpumend-old", "rack7"], f"{status} {names}")
    status, names, text = written(c.exe)
    counts.judge("features", status == 0 and names == ["rack7", *printed.split(",")], f"{status} {names}")
    counts.judge("extra", ' Extra={"gpumend_' in text, text)
    status, again, text = written(c.exe)
    counts.judge("features, twice", status == 0 and again == names and text.count("gpumend_verdict") == 1, text)
    for option in ("rack7&gpumend-glibc-2.2", "(gpumend-x86-64-v1&rack7)"):
        done = subprocess.run(["srun", "--constraint", option, "--mem=1", "sh", "-c", "echo $SLURMD_NODENAME"], env=c.env,
                              capture_output=True, text=True, timeout=60, check=False, cwd=c.folder)
        counts.judge(f"a job for {option}", done.stdout == "n1\n", f"{done.stdout} {done.stderr}")
    c.scontrol("update", "NodeName=n1", "Extra=serial 7")
    counts.judge("an Extra of others stays", " Extra=serial 7" in written(c.exe)[2], text)


def plug_in(c, counts):
    """--gpumend=MODE of srun and sbatch, with an environment that lacks its cuBLAS without `run`."""
    if not c.spank:
        print("SKIP the plug-in: no compiler, or no slurm/spank.h")
        counts.skipped += 1
        return
    env = launcher.Env(launcher.World(c.exe, c.folder / "venvs"), c.folder / "venvs/v")
    show = [env.python, "-c", "import ctranslate2, os; print(os.environ['SLURM_PROCID'], ctranslate2.look(), "
                              "os.environ.get('BASH_FUNC_x%%'))"]

    def job(*options, program=show):
        done = subprocess.run([str(w) for w in ("srun", "-w", "n1", "--mem=1", *options, *program)], text=True, timeout=120,
                              env={**c.env, "BASH_FUNC_x%%": "() { :\n}"}, capture_output=True, check=False, cwd=c.folder)
        return done.returncode, done.stdout, done.stderr
    plain = job()
    counts.judge("without it cuBLAS is missing", plain[0] == 0 and plain[1].startswith("0 not found"), plain)
    mended = job("--gpumend=mend")
    counts.judge("mend", mended[0] == 0 and "0 found () { :\n}\n" in mended[1], mended)
    two = job("--gpumend=mend", "--ntasks=2", "--overcommit")
    counts.judge("mend, two tasks", "0 found" in two[1] and "1 found" in two[1], two)
    script = c.script("batch", f"{shlex.join(map(str, show))} > {c.folder}/batch.out 2>&1")
    subprocess.run(["sbatch", "--wait", "-w", "n1", "--mem=1", "--gpumend=mend", f"--output={c.folder}/batch.log", script],
                   env=c.env, capture_output=True, timeout=120, check=False)
    text = (c.folder / "batch.out").read_text() if (c.folder / "batch.out").exists() else "nothing"
    counts.judge("mend, sbatch", text.startswith("0 found"), text)
    checked = job("--gpumend=check")
    counts.judge("check", checked[:2] == plain[:2] and "cublas" in checked[2], checked)
    probed = job("--gpumend=probe")
    counts.judge("probe", probed[:2] == plain[:2] and probed[2].strip() and "expects" not in probed[2], probed)
    counts.judge("another word", job("--gpumend=fix")[0] != 0)
    wrong = {"crash": "ulimit -c 0; kill -SEGV $$", "status": "exit 1", "hang": "sleep 600", "strange": "echo 'exit 3'",
             "endless": "yes 'export A=b'"}
    for what, text in wrong.items():
        c.script("gpumend", text)
        begin = time.monotonic()
        got = job("--gpumend=mend")
        counts.judge(f"mend, {what}", got[:2] == plain[:2] and time.monotonic() - begin < 60, got)
    (c.folder / "etc/gpumend").unlink()
    counts.judge("mend without gpumend", job("--gpumend=mend")[:2] == plain[:2])
    counts.judge("nobody is drained", c.until(lambda: c.state("n1")[0] == "IDLE"), c.state("n1"))


def probes(c, counts):
    """`export --probe` while a job has the node: running, suspended, ended; and in the job's own prolog."""
    def says(node, before=()):
        words = [*before, str(c.exe), "export", "ndjson", "--probe", "--node", node]
        done = subprocess.run(["unshare", "--mount", "sh", "-c", COVER_FIRST + 'exec "$@"', "sh", *words], env=c.env,
                              capture_output=True, text=True, timeout=60, check=False)
        return json.loads(done.stdout)["probe"]["says"] if done.stdout else done.stderr
    nobody = says("n1")
    if "no GPU" not in nobody:
        print(f"SKIP probes: {nobody}")
        counts.skipped += 1
        return
    job = subprocess.run(["sbatch", "--parsable", "-w", "n1", "--mem=1", f"--output={c.folder}/batch.log", "--wrap=sleep 60"],
                         env=c.env, capture_output=True, text=True, timeout=60, check=True, cwd=c.folder).stdout.strip()
    counts.judge("a job runs", c.until(lambda: "ALLOC" in c.state("n1")[0] or "MIX" in c.state("n1")[0]), c.state("n1"))
    wanted = f"Slurm's job {job} is on this node"
    counts.judge("not beside a job", says("n1") == wanted, says("n1"))
    counts.judge("a node without a job", says("n2") == nobody, says("n2"))
    counts.judge("a node that Slurm does not know", "Invalid node name" in says("n9"), says("n9"))
    c.scontrol("suspend", job)
    counts.judge("not beside a suspended job", says("n1") == wanted, says("n1"))
    c.scontrol("resume", job)
    subprocess.run(["scancel", job], env=c.env, timeout=30, check=True)
    counts.judge("after the job", c.until(lambda: says("n1") == nobody, 60), says("n1"))
    counts.judge("slurmctld does not answer", "Slurm's jobs cannot be determined" in says(
        "n1", ("env", f"SLURM_CONF={c.folder}/none")), "")
    said = c.folder / "said"
    c.script("prolog", f"SLURM_CONF={c.folder}/slurm.conf PATH={os.environ['PATH']} unshare --mount sh -c "
             f"{shlex.quote(COVER_FIRST + 'exec ' + shlex.join([str(c.exe), 'export', 'ndjson', '--probe', '--out', str(said)]))}")
    subprocess.run(["srun", "-w", "n1", "--mem=1", "true"], env=c.env, timeout=60, check=True, cwd=c.folder)
    text = json.loads(said.read_text())["probe"]["says"] if said.exists() else "nothing"
    counts.judge("a prolog's own job does not count", text == nobody, text)
    c.script("prolog", "exit 0")


def prologs(c, counts):
    """Slurm itself runs the prolog of a job."""
    def job(node):
        return subprocess.run(["srun", "-w", node, "--mem=1", "hostname"], env=c.env, capture_output=True, text=True,
                              timeout=60, check=False, cwd=c.folder)
    broken = c.script("broken", f"{c.exe} export slurm --gpus 64")
    unknown = c.script("unknown", f"{c.exe} export slurm --check /opt/none")
    for what, gpumend, good in (("ok", c.exe, True), ("cannot tell", unknown, True), ("a crash", c.folder / "etc/crash", True)):
        c.script("prolog", f"GPUMEND={gpumend} exec {TOP}/deploy/slurm/prolog.sh")
        done = job("n1")
        counts.judge(f"a job with a prolog, {what}", (done.returncode == 0) == good and c.state("n1")[0].startswith(("IDLE", "COMP")),
                     f"{done.stderr} {c.state('n1')}")
    c.script("prolog", f"GPUMEND={broken} exec {TOP}/deploy/slurm/prolog.sh")
    try:
        job("n3")
    except subprocess.TimeoutExpired:
        pass  # requeued, and waits for a node
    counts.judge("a prolog drains a broken node", c.until(lambda: "DRAIN" in c.state("n3")[0]), c.state("n3"))


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing or os.getuid() != 0:
        print(f"SKIP slurm: {', '.join(missing) or 'this user is not root'}\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpumend-slurm.") as name:
        os.chmod(name, 0o755)
        cluster = Cluster(Path(name), exe)
        try:
            if not cluster.begin():
                for log in sorted((cluster.folder / "log").iterdir()):
                    print(log.name, log.read_text(errors="replace")[-1500:])
                print("SKIP slurm: its daemons do not start here\n0 passed, 0 failed, 1 skipped")
                return 0
            drains(cluster, counts)
            nobody_is_drained(cluster, counts)
            features(cluster, counts)
            probes(cluster, counts)
            plug_in(cluster, counts)
            prologs(cluster, counts)
        finally:
            cluster.end()
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
