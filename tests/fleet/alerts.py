#!/usr/bin/python3
"""The alerts of deploy/prometheus, fired: tests/fleet/alerts.py GPUMEND

Prometheus and one node_exporter for each node, both Debian's, on this machine's loopback: the rules of
gpumend.rules.yml, with their waiting times (`for:`) cut down to a second, over what `export prometheus` writes of captured
machines. Each alert fires for the node it is about and for no other, and ends when the node is repaired. Each expression of the
dashboard is evaluated by that Prometheus. Skipped, by name, where one of the programs is missing.
"""
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/trees"), str(TOP / "tests/fleet")]
from counted import Counts, free_ports  # noqa: E402
from build import write  # noqa: E402
from machines import MACHINES  # noqa: E402

PROGRAMS = ("prometheus", "prometheus-node-exporter", "promtool")
DEPLOY = TOP / "deploy/prometheus"
# Each node, and the captured machine that it is.
NODES = {"fine": "geforce-desktop", "broken": "mismatched-driver", "unknown": "proc-without-sys",
         "lost": "nvswitch-with-fabric-manager", "stale": "geforce-desktop", "absent": None}
FIRING = {("GpumendBroken", "broken"), ("GpumendUnknown", "unknown"), ("GpumendGpuLost", "lost"), ("GpumendStale", "stale"),
          ("GpumendAbsent", "absent")}


class Monitored:
    """One Prometheus and the exporters of the nodes."""

    def __init__(self, folder, exe):
        self.folder, self.exe, self.children = folder, exe, []
        port, *ports = free_ports(1 + len(NODES))
        self.url, self.ports = f"http://127.0.0.1:{port}", dict(zip(NODES, ports, strict=True))
        self.address = f"127.0.0.1:{port}"

    def start(self, *words):
        log = open(self.folder / f"log-{len(self.children)}", "wb")
        self.children.append(subprocess.Popen([str(w) for w in words], stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def export(self, node, machine):
        """As a node's timer does."""
        tree = self.folder / "trees" / machine
        if not tree.exists():
            write(MACHINES[machine][1], tree)
        subprocess.run([self.exe, "export", "prometheus", "--root", tree, "--out", self.folder / node / "gpumend.prom"],
                       check=True, stdin=subprocess.DEVNULL, timeout=60)

    def begin(self):
        for node, machine in NODES.items():
            (self.folder / node).mkdir()
            if machine:
                self.export(node, machine)
            self.start("prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                       f"--collector.textfile.directory={self.folder / node}",
                       f"--web.listen-address=127.0.0.1:{self.ports[node]}")
        file = self.folder / "stale/gpumend.prom"
        file.write_text(re.sub(r"(?m)^(gpumend_last_run_timestamp_seconds) \d+$",
                               lambda m: f"{m[1]} {int(time.time()) - 8000}", file.read_text()))
        rules = (DEPLOY / "gpumend.rules.yml").read_text()
        (self.folder / "gpumend.rules.yml").write_text(re.sub(r"\bfor: \w+", "for: 1s", rules))
        targets = "".join(f"      - targets: ['127.0.0.1:{port}']\n        labels: {{instance: {node}}}\n"
                          for node, port in self.ports.items())
        (self.folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [gpumend.rules.yml]\nscrape_configs:\n"
            f"  - job_name: node\n    static_configs:\n{targets}")
        self.start("prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                   f"--web.listen-address={self.address}", "--storage.tsdb.retention.size=64MB")

    def end(self):
        for child in self.children:
            child.send_signal(signal.SIGTERM)
        for child in self.children:
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                child.kill()

    def ask(self, what, **words):
        """The data of an answer of Prometheus' interface; None: it does not answer yet."""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(words)}", timeout=10) as answer:
                return json.load(answer)["data"]
        except (OSError, ValueError):
            return None

    def firing(self):
        alerts = (self.ask("alerts") or {"alerts": []})["alerts"]
        return {(a["labels"]["alertname"], a["labels"]["instance"]) for a in alerts if a["state"] == "firing"}

    def until(self, wanted, seconds=90):
        end, got = time.monotonic() + seconds, None
        while got != wanted and time.monotonic() < end:
            time.sleep(0.5)
            got = self.firing()
        return got


def alerts(m, counts):
    scraped = time.monotonic() + 60
    while len((m.ask("query", query="gpumend_gpus") or {"result": []})["result"]) < 3 and time.monotonic() < scraped:
        time.sleep(0.5)
    time.sleep(3)  # some samples with all GPUs
    before = m.firing()
    counts.judge("no GPU is lost yet", ("GpumendGpuLost", "lost") not in before, before)
    m.export("lost", "geforce-desktop")
    got = m.until(FIRING)
    counts.judge("each alert fires, for its node alone", got == FIRING,
                 f"missing {sorted(FIRING - got)}, false {sorted(got - FIRING)}")
    time.sleep(5)
    counts.judge("and no other comes later", m.firing() == FIRING, m.firing())
    texts = {a["labels"]["alertname"]: a["annotations"]["summary"] for a in m.ask("alerts")["alerts"]}
    counts.judge("the annotations name the node", texts["GpumendBroken"] == "Programs cannot use the GPUs of broken.", texts)


def dashboard(m, counts):
    doc = json.loads((DEPLOY / "gpumend-dashboard.json").read_text())
    exported = set(re.findall(r'"(gpumend_\w+)"', (TOP / "src/node/formats.c").read_text()))
    seen = set()
    for panel in doc["panels"]:
        for target in panel["targets"]:
            answer = m.ask("query", query=target["expr"])
            counts.judge(f"dashboard, {panel['title']}", answer and answer["result"], f"{target['expr']}: {answer}")
            names = set(re.findall(r"gpumend_\w+", target["expr"]))
            counts.judge(f"dashboard, {panel['title']}: metrics", names <= exported, names - exported)
            seen |= names
    counts.judge("the dashboard has all facts", {"gpumend_verdict", "gpumend_cause", "gpumend_cohort_info", "gpumend_gpus",
                                                 "gpumend_gpus_usable"} <= seen, seen)
    one = m.ask("query", query=doc["panels"][1]["targets"][0]["expr"])
    counts.judge("one node is broken", one and one["result"][0]["value"][1] == "1", one)
    cells = [(x, y) for p in doc["panels"] for g in [p["gridPos"]] for x in range(g["x"], g["x"] + g["w"])
             for y in range(g["y"], g["y"] + g["h"])]
    counts.judge("no panel covers another", len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24)
    ids = [p["id"] for p in doc["panels"]]
    counts.judge("panels have numbers of their own", len(ids) == len(set(ids)), ids)


def repaired(m, counts):
    for node in ("broken", "unknown", "stale", "absent"):
        m.export(node, "geforce-desktop")
    m.export("lost", "nvswitch-with-fabric-manager")
    got = m.until(set())
    counts.judge("repaired nodes raise nothing", got == set(), got)
    (m.folder / "fine/gpumend.prom").unlink()
    got = m.until({("GpumendAbsent", "fine")})
    counts.judge("a file that goes is an alert", got == {("GpumendAbsent", "fine")}, got)


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing:
        print(f"SKIP alerts: {', '.join(missing)} is missing\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpumend-alerts.") as name:
        m = Monitored(Path(name), exe)
        try:
            m.begin()
            done = subprocess.run(["promtool", "check", "config", m.folder / "prometheus.yml"], capture_output=True, text=True,
                                  check=False)
            counts.judge("promtool check config", done.returncode == 0, done.stdout + done.stderr)
            alerts(m, counts)
            dashboard(m, counts)
            repaired(m, counts)
        finally:
            m.end()
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
