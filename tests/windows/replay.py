#!/usr/bin/python3
"""Snapshots and pages of Windows trees: `snapshot --root TREE`, `check --snapshot`, `why --snapshot`,
`check --html`, `why --html`.

    tests/windows/replay.py GPUMEND

The trees are those of check.py and why.py. A snapshot, as a document and as files, must give the
document of `check --json` that the tree gives; a page must show each finding, each failed lookup and
Windows' places.
"""

import html
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check  # noqa: E402
import why  # noqa: E402


class Runner:
    def __init__(self, gpumend):
        self.gpumend = gpumend
        self.failed = self.passed = 0

    def run(self, *words, stdin=None):
        return subprocess.run([self.gpumend, *words], capture_output=True, text=True, check=False,
                              input=stdin)

    def expect(self, good, name, *shown):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print(f"FAIL {name}:", *(str(s)[:300] for s in shown), sep="\n")

    def replay(self, name, tree, target, scratch):
        words = [target] if target else []
        real = self.run("check", *words, "--root", str(tree), "--json")
        taken = self.run("snapshot", *words, "--root", str(tree))
        again = self.run("check", "--snapshot", "-", "--json", stdin=taken.stdout)
        self.expect(again.stdout == real.stdout and again.returncode == real.returncode, name,
                    "from its snapshot", taken.stderr, again.stdout, again.stderr, real.stdout)
        written = self.run("snapshot", *words, "--root", str(tree), "--tree", str(scratch / "copy"))
        copied = self.run("check", *words, "--root", str(scratch / "copy"), "--json")
        # A link to a path of the system that mounts the drive is kept as written: elsewhere it leads out.
        away = any(path.is_symlink() and os.readlink(path).startswith(f"{tree}/") for path in tree.rglob("*"))
        same = copied.stdout == real.stdout and copied.returncode == real.returncode
        self.expect(copied.returncode == 3 if away else same, name,
                    "from the snapshot's files", written.stderr, copied.stdout, real.stdout)

    def page(self, name, tree, target, findings):
        words = [target] if target else []
        page = self.run("check", *words, "--root", str(tree), "--html", "-")
        text = html.unescape(re.sub("<[^>]*>", "", page.stdout))
        document = json.loads(self.run("check", *words, "--root", str(tree), "--json").stdout)
        titles = [f["title"] for e in document["environments"] for f in e["findings"]]
        repairs = [r[shell] for e in document["environments"] for f in e["findings"]
                   for r in f["repairs"] for shell in ("powershell", "cmd", "python") if r[shell]]
        missing = [t for t in titles + repairs if t not in text]
        self.expect(not missing and len(titles) == len(findings), f"page: {name}", missing, page.stderr)

    def why_cases(self):
        """The steps of a lookup that failed are a table of Windows' places."""
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            why.make_tree(tree)
            missing = [f"{why.SP}\\torch\\lib\\fbgemm.dll", "--root", folder, *why.EXE]
            page = self.run("why", *missing, "--html", "-")
            heads = re.findall("<th scope=\"col\">([^<]*)</th>", page.stdout)
            wanted = ["API set", "already loaded", "known DLLs", "folder of the DLL that was asked for",
                      "folder of the program", "add_dll_directory", "SetDllDirectory", "System32", "System",
                      "Windows folder", "working directory", "PATH"]
            self.expect(page.returncode == 1 and heads == wanted and "libomp140.x86_64.dll" in page.stdout,
                        "the page of a DLL", heads, page.stderr)
            two = self.run("why", "cublas64_12.dll@0", "--root", folder, *why.EXE, "--env",
                           "PATH=C:\\cublas", "--html", "-")
            self.expect(two.returncode == 3 and two.stdout.count("<table>") == 2, "a page of two answers",
                        two.stdout.count("<table>"), two.stderr)
            broken = self.run("why", *missing, "--html", "-", "--json")
            self.expect(broken.returncode == 2, "--html with --json", broken.stderr)

    def why_snapshot(self):
        with tempfile.TemporaryDirectory() as folder:
            check.hidden(Path(folder))
            taken = self.run("snapshot", "--root", folder)
            snapshot = Path(folder) / "snapshot.json"
            snapshot.write_text(taken.stdout)
            name = f"{why.SP}\\torch\\lib\\torch_cuda.dll"
            real = self.run("why", name, "--root", folder, *why.EXE, "--json")
            again = self.run("why", name, "--snapshot", str(snapshot), *why.EXE, "--json")
            self.expect(real.returncode == 1 and again.stdout == real.stdout, "why of a snapshot",
                        again.stdout, again.stderr, real.stdout)
            other = self.run("why", "C:\\other\\x.dll", "--snapshot", str(snapshot), *why.EXE)
            self.expect(other.returncode == 1 and "was not found" in other.stdout,
                        "why of what a listed folder does not have", other.stdout, other.stderr)
            unheld = self.run("why", f"{why.SP}\\torch\\lib\\x\\y.dll", "--snapshot", str(snapshot),
                              *why.EXE)
            self.expect(unheld.returncode in (1, 3), "why of what is not held", unheld.stdout)


def main():
    r = Runner(os.path.abspath(sys.argv[1]))
    for name, make, target, _, findings, _, _ in check.CASES:
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            (scratch / "tree").mkdir()
            make(scratch / "tree")
            r.replay(name, scratch / "tree", target, scratch)
            if findings:
                r.page(name, scratch / "tree", target, findings)
    r.why_cases()
    r.why_snapshot()
    print(f"{r.passed} passed, {r.failed} failed, 0 skipped")
    return 1 if r.failed else 0


if __name__ == "__main__":
    sys.exit(main())
