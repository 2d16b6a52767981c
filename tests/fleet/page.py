#!/usr/bin/python3
"""docs/fleet.md can be followed: tests/fleet/page.py GPUMEND

Runs every indented command of the page as it stands there, block by block, in a folder that holds build/gpumend, deploy/, an
environment and a job; in a network of its own (loopback only) and with /etc/prometheus, /etc/slurm, /usr/local/bin and the
other places that it writes to replaced by empty ones or copies. There is no systemd: a `systemctl` of the test starts what
the units name. `apt-get` of the test checks that the package is installed. A captured machine stands for this one.
The waiting times of the rules and of Prometheus are cut down to a second. Needs root and Debian's packages; says what is missing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/trees"), str(TOP / "tests/fleet"), str(TOP / "tests/mend")]
import launcher  # noqa: E402
import slurm  # noqa: E402
from build import write  # noqa: E402
from machines import MACHINES  # noqa: E402

PROGRAMS = (*slurm.PROGRAMS, "prometheus", "prometheus-node-exporter", "promtool", "ansible-playbook", "curl", "cc", "ip",
            "unshare", "systemd-analyze")
# What the page writes to: empty, or a copy of what is there.
PLACES = {"/etc/prometheus": True, "/etc/systemd/system": False, "/etc/kubernetes": False, "/etc/slurm": False, "/shared": False,
          "/var/lib/prometheus": False, "/var/lib/gpumend": False, "/var/log": False, "/usr/local/bin": False}

WRAPPER = """#!/bin/sh
case $* in
*--drain* | *--root* | *--probe*) ;;
export*) exec {exe} "$@" --root /host ;;
esac
exec {exe} "$@"
"""
# Starts what a unit names, as far as the page's units go: oneshot, or a program that stays.
SYSTEMCTL = """#!/usr/bin/python3
import os, re, shlex, signal, subprocess, sys, time
from pathlib import Path
words = [w for w in sys.argv[1:] if not w.startswith("--")]
verb, units = words[0], words[1:]
if verb == "daemon-reload":
    files = sorted(map(str, Path("/etc/systemd/system").glob("gpumend*")))
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True)
    ours = [x for x in done.stderr.splitlines() if "gpumend" in x]
    sys.exit("\\n".join(ours) or (0 if files else "no unit"))
for unit in units:
    name = unit if "." in unit else unit + ".service"
    file = next(p for p in (Path("/etc/systemd/system", name), Path("/lib/systemd/system", name)) if p.exists())
    text, pid = file.read_text(), Path("{state}", name)
    if verb in ("restart", "stop") and pid.exists():
        os.kill(int(pid.read_text()), signal.SIGTERM)
        pid.unlink()
        time.sleep(1)
    if verb == "stop" or name.endswith(".timer"):
        continue
    if found := re.search("(?m)^StateDirectory=(.*)$", text):
        Path("/var/lib", found[1]).mkdir(exist_ok=True)
    to = re.search("(?m)^StandardOutput=append:(.*)$", text)
    for line in re.findall("(?m)^ExecStart=(.*)$", text):
        words = shlex.split(line.replace("$ARGS", ""))
        out = open(to[1] if to else "{state}/" + name + ".log", "ab")
        child = subprocess.Popen(words, stdout=out, stderr=out if not to else None, stdin=subprocess.DEVNULL,
                                 start_new_session=True)
        if "Type=oneshot" not in text:
            pid.write_text(str(child.pid))
        elif child.wait():
            sys.exit(f"{{line}}: {{child.returncode}}")
"""
APT_GET = """#!/bin/sh
for package; do :; done
exec dpkg --status "$package" >/dev/null
"""


def blocks(text):
    """(line, commands) of each indented block."""
    found, last = [], -2
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("    "):
            if last == number - 1:
                found[-1][1].append(line[4:])
            else:
                found.append((number, [line[4:]]))
            last = number
    return found


class Page:
    def __init__(self, folder, exe, counts):
        self.folder, self.exe, self.counts, self.made = folder, exe, counts, []
        self.work, self.bin, self.state = (folder / x for x in ("work", "bin", "state"))
        self.env = {"PATH": f"{self.bin}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8",
                    "SLURMD_NODENAME": "n1"}

    def mount(self):
        """The places of this mount namespace, and the machine that /host is."""
        write(MACHINES["geforce-desktop"][1], self.folder / "machine")
        for place, copied in PLACES.items():
            stand_in = self.folder / "places" / place[1:]
            stand_in.parent.mkdir(parents=True, exist_ok=True)
            if copied:
                shutil.copytree(place, stand_in, symlinks=True)
            else:
                stand_in.mkdir()
            self.bind(stand_in, place)
        for place in ("/host", "/mnt/node8"):
            self.bind(self.folder / "machine", place)
        for name in ("node-exporter", "metrics2"):
            Path("/var/lib/prometheus", name).mkdir()

    def bind(self, what, place):
        if not Path(place).exists():
            Path(place).mkdir()
            self.made.append(place)
        subprocess.run(["mount", "--bind", what, place], check=True)

    def prepare(self):
        for folder in (self.work / "build", self.work / "lines", self.bin, self.state):
            folder.mkdir(parents=True)
        (self.work / "deploy").symlink_to(TOP / "deploy")
        for path, text in ((self.work / "build/gpumend", WRAPPER.format(exe=self.exe)),
                           (self.bin / "systemctl", SYSTEMCTL.format(state=self.state)), (self.bin / "apt-get", APT_GET),
                           (self.work / "job.sh", "#!/bin/sh\nvenv/bin/python3 train.py > job.out 2>&1\n")):
            path.write_text(text)
            path.chmod(0o755)
        (self.work / "train.py").write_text("import ctranslate2\nprint('cuBLAS', ctranslate2.look())\n")
        (self.work / "hosts").write_text("".join(f"n{i} ansible_connection=local ansible_python_interpreter=/usr/bin/python3\n"
                                                 for i in range(3)))
        launcher.Env(launcher.World(self.exe, self.folder), self.work / "venv")

    def shell(self, text):
        done = subprocess.run(["sh", "-e", "-c", text], cwd=self.work, env=self.env, stdin=subprocess.DEVNULL, timeout=150,
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def after(self, text, out):
        """What the page says of a block, beyond its status."""
        judge = self.counts.judge
        if "gpumend.rules.yml" in text:
            for file, change in (("/etc/prometheus/gpumend.rules.yml", (r"\bfor: \w+", "for: 1s")),
                                 ("/etc/prometheus/prometheus.yml", (r"_interval: +\w+", "_interval: 1s")),
                                 ("/etc/prometheus/prometheus.yml", (r"scrape_timeout: +\w+", "scrape_timeout: 1s"))):
                Path(file).write_text(re.sub(*change, Path(file).read_text()))
            judge("the rules are configured", "1 rule files found" in out, out)
            self.shell("systemctl restart prometheus")
        elif "curl" in text:
            judge("node_exporter serves the verdict", 'gpumend_verdict{verdict="ok"} 1' in out, out)
        elif "gpumend export slurm --gpus 64" in text:
            judge("the node says why", out.startswith("gpu-count: ") and "the status is 1" in out, out)
        elif text == "systemctl start gpumend-export.timer\nsystemctl start gpumend-export.service":
            judge("the alert ends", self.until_alert(False))
        elif "srun" in text:
            judge("--gpumend=mend and check", out.count("cuBLAS found") == 1 and out.count("cuBLAS not found") == 1, out)
            job = (self.work / "job.out").read_text()
            judge("sbatch --gpumend=mend", job == "cuBLAS found\n", job)
        elif "--constraint" in text:
            job = (self.work / "job.out").read_text()
            judge("sbatch --constraint", job == "cuBLAS not found\n", job)
        elif "gpumend-features" in text and "install" not in text:
            seen = self.shell("scontrol --oneliner show node n1")[1]
            judge("features", "gpumend-compute-" in seen, seen)
        elif "ansible-playbook" in text:
            judge("a report of three nodes", "nodes     3: 3 ok" in out, out)
        elif "ALERTS" in text:
            judge("the alert fires", self.until_alert(True))

    def until_alert(self, there):
        end = time.monotonic() + 60
        query = next(c for _, b in blocks((TOP / "docs/fleet.md").read_text()) for c in b if "ALERTS" in c)
        while time.monotonic() < end:
            if ("GpumendBroken" in self.shell(query)[1]) == there:
                return True
            time.sleep(1)
        return False

    def run(self):
        text = (TOP / "docs/fleet.md").read_text()
        for line, commands in blocks(text):
            block = "\n".join(commands)
            (self.work / "job.out").unlink(missing_ok=True)
            if "ALERTS" in block:
                self.until_alert(True)
            status, out, err = self.shell(block)
            verdict = commands[-1].startswith("gpumend")  # its status is its answer
            self.counts.judge(f"line {line}: {commands[-1]}", status == 0 or (verdict and status in (1, 3)), f"{status} {out} {err}")
            self.after(block, out + err)

    def end(self):
        for pid in self.state.glob("*.service"):
            try:
                os.kill(int(pid.read_text()), 15)
            except (OSError, ValueError):
                continue


def inside(exe):
    """In namespaces of its own."""
    counts = slurm.Counts()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Slurm asks getaddrinfo() with AI_ADDRCONFIG, which wants an address that is not 127.0.0.1.
    subprocess.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"], check=True)
    with tempfile.TemporaryDirectory(prefix="gpumend-page.") as name:
        folder = Path(name)
        folder.chmod(0o755)
        page = Page(folder, exe, counts)
        page.mount()
        page.prepare()
        slurm.build_plug_in = lambda path: None  # the page builds it
        cluster = slurm.Cluster(Path("/etc/slurm"), exe)
        try:
            if cluster.begin():
                page.run()
            else:
                counts.judge("Slurm starts", False, [p.read_text()[-500:] for p in (cluster.folder / "log").iterdir()])
        finally:
            page.end()
            cluster.end()
            for place in reversed([*PLACES, "/host", "/mnt/node8"]):
                subprocess.run(["umount", place], check=False)
            for place in page.made:
                Path(place).rmdir()
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


def main():
    exe = Path(sys.argv[1]).resolve()
    missing = [p for p in PROGRAMS if not shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if not Path("/usr/include/slurm/spank.h").exists():
        missing.append("slurm/spank.h")
    if missing or os.getuid() != 0:
        print(f"SKIP page: {', '.join(missing) or 'this user is not root'}\n0 passed, 0 failed, 1 skipped")
        return 0
    if "--inside" in sys.argv:
        return inside(exe)
    return subprocess.run(["unshare", "--mount", "--net", "--propagation", "private", sys.executable, __file__, exe, "--inside"],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
