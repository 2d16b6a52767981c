#!/usr/bin/python3
"""`fleet report --html` says what `--json` says, in a page that a name cannot break: tests/fleet/report_page.py GPUMEND

The nodes are those of report.py: planted differences, causes, hostile names, damaged lines, and redacted snapshots, of which the
page holds no name. The page is judged as those of `check --html` are: closed elements, a content policy that
admits its own style alone, no scripts, nothing outside of it.
"""
import json
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "report")]
import report  # noqa: E402
from report import Counts, dump, line_of, run  # noqa: E402

sys.path.remove(str(HERE))  # whose page.py is another
from page import Page, hash_of  # noqa: E402

HOSTILE = "n\"><script>alert(1)</script>'&amp;\n\x1b[31m\u202e{{causes}}"


def judge(counts, name, exe, *words):
    """(the page, its words, the document) of a report."""
    status, out, _ = run(exe, "fleet", "report", *words, "--json")
    document = json.loads(out)
    got, text, err = run(exe, "fleet", "report", *words, "--html", "-")
    page = Page(text)
    counts.judge(f"{name}: the status", got == status and not err, f"{got}, not {status}: {err}")
    counts.judge(f"{name}: every element is closed in its place", not page.wrong and not page.open, page.wrong[:5] + page.open)
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    counts.judge(f"{name}: the policy", policy.startswith("default-src 'none'; style-src " + hash_of(text, "style")) and
                 "script" not in policy and "unsafe" not in policy, policy)
    counts.judge(f"{name}: no scripts, no handlers, nothing outside", not [
        (t, a) for t, attrs in page.tags for a in attrs
        if t in ("script", "link", "img", "iframe", "object") or a.startswith("on") or a in ("style", "src", "href")])
    counts.judge(f"{name}: nothing that misleads a terminal or a reader",
                 not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text))
    verdicts = document["verdicts"]
    wanted = "broken" if verdicts["broken"] else "unknown" if status else "ok"
    counts.judge(f"{name}: the verdict", page.ids.get("verdict") == wanted, page.ids.get("verdict"))
    return page, "".join(page.texts), document


def rows(page_text, section):
    part = page_text.partition(f'id="{section}"')[2].partition("</section>")[0]
    return part.count("<tr") - 1 if "<tr" in part else 0


def planted(counts, exe, folder):
    lines, _ = report.synthetic(exe, folder, 600)
    broken = {**line_of(exe, folder, "mismatched-driver"), "node": "m1"}
    rare = {**line_of(exe, folder, "laptop-intel-nvidia"), "node": "m3"}
    unknown = json.loads(run(exe, "export", "ndjson", "--root", folder / "nowhere", "--node", "m2")[1])
    later = {**lines[0], "time": "2026-05-02T12:00:00Z", "facts": {**lines[0]["facts"], "kernel": "7.7"}}
    dump(folder / "nodes", [*lines, broken, rare, unknown, later, {"node": "damaged"}])
    _, words, doc = judge(counts, "planted", exe, folder / "nodes")
    text = run(exe, "fleet", "report", folder / "nodes", "--html", "-")[1]
    for section in ("causes", "differs", "unknown", "rare", "cohorts", "damaged"):
        counts.judge(f"planted: all rows of {section}", rows(text, section) == len(doc[section]) > 0,
                     f"{rows(text, section)}, not {len(doc[section])}")
    counts.judge("planted: what changed", rows(text, "changed") == sum(len(c["changes"]) for c in doc["changed"]) > 0)
    missing = [n for n in {x["node"] for x in lines} if n not in words]
    counts.judge("planted: every node is named", not missing, missing[:5])
    for one in doc["differs"]:
        counts.judge(f"planted: {one['node']} differs in {one['fact']}", f"{one['node']}{one['fact']}{one['value']}"
                     f"{one['majority']}{one['of']}{one['in']}" in words, one)
    file = folder / "page.html"
    status, out, err = run(exe, "fleet", "report", folder / "nodes", "--html", file)
    counts.judge("planted: a file", (status, out, file.read_text()) == (1, "", text) and "the page is in" in err, err)
    counts.judge("planted: of a size that a browser likes", len(text) < 400_000, len(text))


def hostile(counts, exe, folder):
    good = line_of(exe, folder, "geforce-desktop")
    lines = [{**good, "node": HOSTILE + str(i), "says": HOSTILE} for i in range(4)]
    lines[0]["facts"] = {**good["facts"], "driver": HOSTILE, "os": ["<b>", 1], HOSTILE: HOSTILE}
    lines[1]["facts"] = {**good["facts"], "gpu_names": {"<i>": "</td>"}}
    dump(folder / HOSTILE.replace("/", "_"), [*lines, {"node": HOSTILE}])
    _, words, _ = judge(counts, "hostile", exe, folder / HOSTILE.replace("/", "_"))
    counts.judge("hostile: the name is shown", "<script>alert(1)</script>'&amp;" in words)
    dump(folder / "none", [])
    judge(counts, "no nodes", exe, folder / "none")


def redacted(counts, exe, folder):
    """What is not in a snapshot is not in the page."""
    root, sweep = folder / "trees/geforce-desktop", folder / "sweep"
    sweep.mkdir()
    venv = root / "home/mariagarcia/venv/bin"
    venv.mkdir(parents=True)
    (venv / "tool").write_bytes(Path("/bin/true").read_bytes())
    for more, name in (([], "plain"), (["--redact"], "n1")):
        (sweep / f"{name}.json").write_text(run(exe, "snapshot", "/home/mariagarcia/venv/bin/tool", "--root", root, *more)[1])
    counts.judge("the name is in the snapshot", "mariagarcia" in (sweep / "plain.json").read_text())
    (sweep / "plain.json").unlink()
    _, words, doc = judge(counts, "redacted", exe, sweep)
    counts.judge("redacted: one node", doc["nodes"] == 1 and "n1" in words, doc["damaged"])
    counts.judge("redacted: no name", "mariagarcia" not in run(exe, "fleet", "report", sweep, "--html", "-")[1])


def refusals(counts, exe, folder):
    for words in (["report", folder / "nodes", "--html", "-", "--json"], ["add", folder / "s", folder / "x", "--html", "-"],
                  ["query", "nodes", folder / "nodes", "--html", "-"]):
        counts.judge(f"refused: {words[0]}", run(exe, "fleet", *words)[0] == 2)
    counts.judge("a file that cannot be made", run(exe, "fleet", "report", folder / "nodes", "--html", folder / "no/x")[0] == 3)
    counts.judge("a full disk", run(exe, "fleet", "report", folder / "nodes", "--html", "/dev/full")[0] == 3)


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    with tempfile.TemporaryDirectory(prefix="gpumend-fleet-html.") as name:
        for part in (planted, hostile, redacted, refusals):
            part(counts, exe, Path(name))
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
