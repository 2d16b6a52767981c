"""Slurm's own answer to "which of these nodes fit this job?": a real slurmctld and munged, whose nodes have the
Features or the Extra that gpumend printed. No slurmd is needed: `sbatch --test-only` only matches, and nodes
of a cloud count as there while they are switched off.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

PROGRAMS = ("slurmctld", "scontrol", "sbatch", "squeue", "scancel", "munged", "mungekey")


def missing():
    names = [p for p in PROGRAMS if not shutil.which(p)]
    return ", ".join(names) or ("root" if os.getuid() else "")


def version():
    text = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True).stdout
    return tuple(int(n) for n in re.findall(r"\d+", text)[:2])


class Matcher:
    """`nodes`: {name: (features, extra)}"""

    def __init__(self, folder, nodes):
        self.folder, self.nodes, self.children = folder, list(nodes), []
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "LC_ALL": "C"}
        for name in ("state", "spool", "log"):
            (folder / name).mkdir()
        host, sock, key = socket.gethostname().split(".")[0], folder / "munge.socket", folder / "munge.key"
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        lines = "".join(f"NodeName=m{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={port + 1 + i} CPUs=64 RealMemory=64 "
                        f"Feature={features} State=CLOUD\n" for i, (features, _) in enumerate(nodes.values()))
        (folder / "slurm.conf").write_text(f"""ClusterName=match
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={sock}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=600
ResumeTimeout=3600
{'SchedulerParameters=extra_constraints' if version() >= (23, 11) else ''}
{lines}PartitionName=all Nodes=m[0-{len(nodes) - 1}] Default=YES State=UP
""")
        subprocess.run(["mungekey", "--create", "--force", f"--keyfile={key}"], check=True)
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={sock}",
                   f"--pid-file={folder}/munged.pid", f"--log-file={folder}/log/m", f"--seed-file={folder}/munge.seed")
        self.start("slurmctld", "-D")
        end = time.monotonic() + 30
        while "UP" not in self.ask("scontrol", "ping")[1] and time.monotonic() < end:
            time.sleep(0.3)
        for i, (_, extra) in enumerate(nodes.values()):
            self.ask("scontrol", "update", f"NodeName=m{i}", f"Extra={json.dumps(json.loads(extra))}")

    def start(self, *words):
        log = open(self.folder / "log" / words[0], "wb")
        self.children.append(subprocess.Popen(words, env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def ask(self, *words):
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def fit(self, option):
        """{node: fits()}"""
        with ThreadPoolExecutor(16) as pool:
            return dict(zip(self.nodes, pool.map(lambda node: self.fits(node, option), self.nodes)))

    def fits(self, node, option):
        """True, False, or what Slurm said that is neither."""
        status, text = self.ask("sbatch", "--test-only", "--mem=1", f"--nodelist=m{self.nodes.index(node)}", option,
                                "--wrap=true")
        if re.search("to start at", text) and status == 0:
            return True
        return False if re.search("node configuration is not available", text) else text

    def placed(self, option):
        """The nodes on which Slurm starts a job with this option. --test-only passes --extra over."""
        with ThreadPoolExecutor(16) as pool:  # one waits for slurmctld most of its time
            answers = list(pool.map(lambda i: self.ask("sbatch", "--parsable", "--mem=1", f"--nodelist=m{i}", option, "--wrap=true"),
                                    range(len(self.nodes))))
        if wrong := {text for status, text in answers if status}:
            return wrong
        names = {text.strip(): node for (_, text), node in zip(answers, self.nodes)}
        end = time.monotonic() + 30
        while True:
            lines = [x.split(maxsplit=2) for x in self.ask("squeue", "--noheader", "--format=%i %T %r")[1].splitlines()]
            if all(state != "PENDING" or why != "None" for _, state, why in lines) or time.monotonic() > end:
                break
            time.sleep(0.5)
        found = {names[job] for job, state, _ in lines if state == "CONFIGURING" and job in names}
        self.ask("scancel", *names)
        return found

    def end(self):
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
