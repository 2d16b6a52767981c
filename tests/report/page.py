#!/usr/bin/env python3
"""`check --html` and `why --html` say what `--json` says, in a page that a name cannot break.

    tests/report/page.py GPUMEND [--browser FOLDER]

With --browser the pages are opened in headless Chromium, at two widths, in both themes, and without
scripts, and axe-core (an npm package that is downloaded into FOLDER) looks at them. FOLDER keeps the
pictures.
"""

import base64
import gzip
import hashlib
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "causes"))
import tree  # noqa: E402

PROGRAM = "/opt/app/bin/app"
HOSTILE = "lib\"><script>alert(1)</script>'&amp;\n\x1b[31m‮{{data}}.so.1"
VOID = {"meta", "input", "br"}
failures = passes = 0


def check(name, holds, detail=""):
    global failures, passes
    passes += bool(holds)
    failures += not holds
    if not holds:
        print(f"FAIL {name}: {str(detail)[-1200:]}")


def run(exe, *arguments, **variables):
    done = subprocess.run([exe, *map(str, arguments)], capture_output=True, timeout=60, check=False,
                          env={**os.environ, **variables})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Page(html.parser.HTMLParser):
    """Elements that are closed where they were opened, their attributes, and texts by id."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.tags, self.ids, self.texts = [], [], [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if "id" in attrs:
            self.wrong += [f"id {attrs['id']} twice"] * (attrs["id"] in self.ids)
            self.ids[attrs["id"]] = ""
        if tag not in VOID:
            self.open.append((tag, attrs.get("id")))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.wrong.append(f"</{tag}> in {self.open[-3:]} at {self.getpos()}")
        else:
            self.open.pop()

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.ids[name] += data
        self.texts.append(data)

    def values(self, attribute):
        return [a[attribute] for _, a in self.tags if attribute in a]


def hash_of(text, tag):
    inner = re.search(f"<{tag}>(.*?)</{tag}>", text, re.S).group(1)
    return "'sha256-" + base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode() + "'"


def judge(name, text, document, verdict):
    page = Page(text)
    check(name + ": every element is closed in its place", not page.wrong and not page.open,
          page.wrong[:5] + page.open)
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    check(name + ": the policy admits the style and the script of the page alone",
          policy.startswith("default-src 'none'; ") and hash_of(text, "style") in policy and
          hash_of(text, "script") in policy and "unsafe" not in policy, policy)
    check(name + ": one script, one style, no handlers, no inline styles",
          [t for t, _ in page.tags].count("script") == 1 and
          not [a for _, attrs in page.tags for a in attrs if a.startswith("on") or a in ("style", "src")])
    links = page.values("href")
    check(name + ": nothing outside of the page", len(links) == 1 and
          links[0].startswith("data:application/gzip;base64,") and "http" not in text.split("<body>")[1].split(
              "<section aria-labelledby=\"data\">")[0].replace("http-equiv", ""), links)
    inside = json.loads(gzip.decompress(base64.b64decode(links[0].split(",", 1)[1])))
    check(name + ": the data is the document of --json", inside == document,
          [k for k in document if inside.get(k) != document[k]])
    check(name + ": the verdict", page.ids.get("verdict") == verdict, page.ids.get("verdict"))
    check(name + ": nothing that a terminal or a reader is misled by",
          not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text))
    check(name + ": readable without scripts: only the search is hidden",
          [a.get("id") for _, a in page.tags if "hidden" in a] == ["search"])
    names = [a.get("aria-label") or a.get("aria-labelledby") for t, a in page.tags
             if t == "section" or a.get("role") == "region"]
    check(name + ": each landmark has a name of its own", None not in names and len(names) == len(set(names)), names)
    return page, "".join(page.texts)


def world(folder, *needed):
    t = tree.Tree(folder)
    t.loader()
    t.put(PROGRAM, tree.elf(None, interp=tree.LOADER, runpath="/opt/app/lib", needed=list(needed)))
    t.put("/proc/cpuinfo", "flags\t: cmov cx8 fpu fxsr mmx sse sse2\n")
    return t


def many(folder, n):
    """A program whose n libraries need the next two each."""
    t = world(folder, "libchain0.so.1")
    for i in range(n):
        needed = [f"libchain{k}.so.1" for k in (i + 1, i + 2) if k < n]
        t.lib(f"/opt/app/lib/libchain{i}.so.1", needed=needed, runpath="/opt/app/lib")
    return t


def of_trees(exe, top):
    pages = {}
    worlds = {"in order": world(top / "ok"), "missing": world(top / "missing", "libnowhere.so.1"),
              "hostile": world(top / "hostile", HOSTILE)}
    for name, t in worlds.items():
        at = ["check", "--root", t.top, PROGRAM]
        status, text, _ = run(exe, *at, "--json")
        document = json.loads(text)
        file = top / f"{name.replace(' ', '-')}.html"
        done = run(exe, *at, "--html", file)
        plain = run(exe, *at, "--html", "-")
        check(name + ": the status is that of the check", done[0] == plain[0] == status, done)
        check(name + ": the same page in a file and on standard output",
              file.read_text() == plain[1] and not done[1], done)
        check(name + ": the verdict is said where the page is a file",
              done[2] == f"gpumend: check: {document['verdict']}; the page is in {file}\n", done[2])
        page, words = judge(name, file.read_text(), document, document["verdict"])
        for f in document["findings"]:
            printable = re.sub(r"[\n\x1b‮]", "", f["summary"]).split("\\")[0].split("lib\"")[0]
            check(name + ": each finding", printable in words, (f["summary"], printable))
            for r in f["repairs"]:
                check(name + ": each repair", r["text"].split("\n")[0] in words, r)
        pages[name] = file
    v3 = world(top / "unknown", "libx.so.1")
    v3.lib("/opt/app/lib/libx.so.1")
    v3.lib("/opt/app/lib/glibc-hwcaps/x86-64-v3/libx.so.1", needed=["libnowhere.so.1"])
    v3.put("/proc/cpuinfo", "")
    at = ["check", "--root", v3.top, PROGRAM]
    _, words = judge("cannot tell", run(exe, *at, "--html", "-")[1], json.loads(run(exe, *at, "--json")[1]),
                     "unknown")
    check("cannot tell: the page does not say that nothing failed", "No lookup that matters failed" not in words and
          "in what could be looked at" in words)
    page, words = judge("missing, again", pages["missing"].read_text(),
                        json.loads(run(exe, "check", "--root", worlds["missing"].top, PROGRAM, "--json")[1]),
                        "broken")
    heads = re.findall(r"(already loaded|LD_LIBRARY_PATH|RUNPATH of app|ld\.so\.cache|system folders)", page.ids["ladders"] +
                       words[words.index("How each lookup went"):words.index("What loads when")])
    check("missing: the stages of the search in their order",
          heads[:5] == ["already loaded", "LD_LIBRARY_PATH", "RUNPATH of app", "ld.so.cache", "system folders"],
          heads)
    why = ["why", "--root", worlds["missing"].top, "--exe", PROGRAM]
    status, text, _ = run(exe, *why, "--json")
    done = run(exe, *why, "--html", "-")
    check("why: the status", done[0] == status == 1, done[0])
    judge("why", done[1], json.loads(text), "fails")
    asked = run(exe, "why", "libabsent.so.9", "--root", worlds["in order"].top, "--exe", PROGRAM, "--html", "-")[1]
    line = asked[asked.index("What loads when"):asked.index("Why each library is loaded")]
    start, _, end = line.partition("what was asked for")
    check("why: what is asked for comes behind the loads, and not at the start",
          "libabsent.so.9" not in start and "<code>libabsent.so.9</code> not found" in end, line)
    pages["why"] = top / "why.html"
    pages["why"].write_text(done[1])
    return pages, worlds


def of_packages(exe, top, pages):
    """A page for people: what is optional is not shown as a failure, what is healthy not as a clash."""
    t = tree.Tree(top / "packages/root").python()
    t.ctranslate2()
    at = ["check", "--root", t.top, t.prefix, "--import", "ctranslate2", "--html", "-"]
    _, text, _ = run(exe, *at)
    check("a load for one feature alone names it", "needed for this alone: tensor parallelism over MPI" in text and
          "libmpi.so.40: cannot open" not in text.split('id="data"')[0], re.findall("libmpi[^\n]*", text)[:3])
    check("a library that is not found is open, with why", "libcublas.so.12: cannot open shared object" in text)
    t.pip_cublas()
    shown = run(exe, *at)[1]
    pages["repair"] = top / "repair.html"
    pages["repair"].write_text(shown)
    before, after = shown.find("before the repair"), shown.find("after the repair")
    check("before and after the repair, one above the other, the winner marked", 0 < before < after and
          re.search(r'class="(won|taken)[^>]*>|<strong>taken|taken</', shown[after:]), shown[after:after + 900])


def of_first_wins(exe, top, pages):
    """Two files of one name: what was loaded first answers, and the page says what it keeps out."""
    t = world(top / "first", "libone.so.1", "libtwo.so.1")
    for which, folder in (("one", "/opt/wheel"), ("two", "/opt/toolkit")):
        t.lib(f"/opt/app/lib/lib{which}.so.1", needed=["libcublas.so.12"], runpath=folder)
        t.lib(f"{folder}/libcublas.so.12")
    at = ["check", "--root", t.top, PROGRAM]
    (top / "first.json").write_text(run(exe, "snapshot", "--root", t.top, PROGRAM)[1])
    for name, where in (("tree", at), ("snapshot", ["check", "--snapshot", top / "first.json"])):
        document, page = json.loads(run(exe, *where, "--json")[1]), run(exe, *where, "--html", "-")[1]
        kept_out = [(r["caller"], r["path"], r["instead_of"]) for r in document["processes"][0]["requests"]
                    if "instead_of" in r]
        check(f"first wins, {name}: --json has the file that is kept out", kept_out == [(
            "/opt/app/lib/libtwo.so.1", "/opt/wheel/libcublas.so.12",
            {"path": "/opt/toolkit/libcublas.so.12", "via": "runpath",
             "via_object": "/opt/app/lib/libtwo.so.1"})], kept_out)
        _, words = judge(f"first wins, {name}", page, document, document["verdict"])
        ladder, loads = words[words.index("How each lookup"):].split("What loads when")
        check(f"first wins, {name}: the ladder has both files", "libcublas.so.12 taken" in ladder and
              "/opt/toolkit/libcublas.so.12 not looked for: first wins" in ladder, ladder)
        check(f"first wins, {name}: the time line says where it decided", "was loaded already; first wins: alone "
              "libtwo.so.1 would load /opt/toolkit/libcublas.so.12" in loads, loads)
    pages["first wins"] = top / "first-wins.html"
    pages["first wins"].write_text(page)
    alone = run(exe, "why", "libcublas.so.12", "--root", t.top, "--exe", "/opt/app/lib/libtwo.so.1", "--json")[1]
    check("first wins: alone it is loaded indeed",
          json.loads(alone)["requests"][0]["path"] == "/opt/toolkit/libcublas.so.12", alone)
    why = run(exe, "why", "libcublas.so.12", "--root", t.top, "--exe", PROGRAM, "--caller", "libtwo.so.1")[1]
    shown = run(exe, "why", "--tree", "--root", t.top, "--exe", PROGRAM)[1]
    check("first wins: why --tree has the mark at the one line", [x.strip("|`- ") for x in shown.splitlines()
          if "first wins" in x] == ["libcublas.so.12 => /opt/wheel/libcublas.so.12 (first wins: alone it would be "
                                    "/opt/toolkit/libcublas.so.12)"], shown)
    check("first wins: why --tree --invert, too", "first wins: alone it would be /opt/toolkit/libcublas.so.12" in
          run(exe, "why", "--tree", "--invert", "libcublas.so.12", "--root", t.top, "--exe", PROGRAM)[1])
    twice = run(exe, "why", "libnone.so.1", "--root", t.top, "--exe", PROGRAM, "--load", "libnone.so.1", "--html", "-")[1]
    check("a lookup that is made twice has one ladder", twice.count("libnone.so.1</code> for") == 1,
          re.findall("<h3>.*?</h3>", twice))
    check("first wins: why says so", "first wins: its own search would find /opt/toolkit/libcublas.so.12" in why, why)
    t.lib("/opt/app/lib/libtwo.so.1", needed=["libcublas.so.12"], runpath="/opt/wheel")
    text = run(exe, *at, "--json")[1]
    check("the same file by another way is not a decision", "instead_of" not in text, text)


def of_size(exe, top, pages):
    t = many(top / "many", 500)
    done = run(exe, "check", "--root", t.top, PROGRAM, "--html", top / "many.html")
    page = Page((top / "many.html").read_text())
    libraries = len(set(re.findall(r"libchain\d+\.so\.1", page.ids["objects"])))
    check("500 libraries are all in the tree", libraries == 500, (libraries, done))
    size = (top / "many.html").stat().st_size
    check("500 libraries in 300 KB", size <= 300_000, size)
    objects = next(a for _, a in page.tags if a.get("id") == "objects")
    check("a chain of 500 scrolls in a region of its own", objects.get("class") == "wide" and
          objects.get("tabindex") == "0", objects)
    pages["many"] = top / "many.html"


def of_names(exe, top, worlds):
    """Without the name of the person, in what is shown and in the data."""
    t = world(top / "secret", "libof-mariagarcia.so.1")
    t.put("/home/mariagarcia/app", (t.top / PROGRAM[1:]).read_bytes())
    at = ["check", "--root", t.top, "/home/mariagarcia/app", "--html", "-"]
    plain, redacted = (run(exe, *at, *more, HOME="/home/mariagarcia")[1] for more in ([], ["--redact"]))
    data = gzip.decompress(base64.b64decode(re.search("base64,([^\"]*)", redacted).group(1))).decode()
    check("names are in the page", "mariagarcia" in plain)
    check("--redact: not in what is shown", "mariagarcia" not in redacted,
          re.findall(".{60}mariagarcia.{20}", redacted))
    check("--redact: not in the data", "mariagarcia" not in data, re.findall(".{60}mariagarcia.{20}", data))
    snapshot = run(exe, "snapshot", "--root", worlds["missing"].top, PROGRAM)[1]
    (top / "snapshot.json").write_text(snapshot)
    at = ["check", "--snapshot", top / "snapshot.json"]
    judge("snapshot", run(exe, *at, "--html", "-")[1], json.loads(run(exe, *at, "--json")[1]), "broken")


def of_paths(exe, top):
    """Folders and files whose names are markup, control characters or no UTF-8."""
    for i, name in enumerate(("\"><script>alert(1)<\u2044script>", "<\u2044details><img src=x onerror=alert(1)>",
                              "' onclick='x &lt;&#x3c;", "a\u202eb\x1b[31m\nc", "\udcff\udcfe", "A" * 200)):
        t = world(top / f"path{i}", "libgood.so.1", "libnone.so.1")
        folder = f"/opt/{name}/lib"
        t.put(PROGRAM, tree.elf(None, interp=tree.LOADER, runpath=folder,
                                needed=["libgood.so.1", "libnone.so.1"]))
        t.lib(f"{folder}/libgood.so.1", needed=[f"lib{name}.so"], runpath=folder)
        t.lib(f"{folder}/lib{name}.so")
        for at in (["check", "--root", t.top, PROGRAM],
                   ["why", "libgood.so.1", "--root", t.top, "--exe", PROGRAM]):
            text = run(exe, *at, "--html", "-")[1]
            document = json.loads(run(exe, *at, "--json")[1])
            judge(f"path {i}, {at[0]}", text, document, document["verdict"] if at[0] == "check" else
                  Page(text).ids.get("verdict"))
            check(f"path {i}, {at[0]}: no markup of a name", not re.search("<(img|details><img|script>alert)", text))


def of_refusals(exe, top, worlds):
    at = ["check", "--root", worlds["in order"].top, PROGRAM]
    for options in (["--html", "-", "--json"], ["--html", "-", "--sarif", "-"], ["--html", "-", "--report"],
                    ["--html", "-", "--github"], ["--redact"], ["--html", "-", "--probe"]):
        check("refused: " + " ".join(options), run(exe, *at, *options)[0] == 2)
    check("a file that cannot be made", run(exe, *at, "--html", top / "no/x")[0] == 3)
    check("a full disk", run(exe, *at, "--html", "/dev/full")[0] == 3)
    (top / "windows/Windows/System32").mkdir(parents=True)
    done = run(exe, "check", "--root", top / "windows", "--html", "-", "--redact")
    check("names of a Windows tree are not redacted", done[0] == 3 and not done[1] and "--redact" in done[2], done)


AXE = """
import puppeteer from 'puppeteer-core';
import { readFileSync } from 'node:fs';
const [pages, folder] = [JSON.parse(process.argv[2]), process.argv[3]];
const axe = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');
const browser = await puppeteer.launch({ executablePath: process.argv[4], args: ['--no-sandbox'] });
const out = [];
for (const [name, file] of Object.entries(pages)) {
    for (const width of [1200, 420]) for (const theme of ['light', 'dark']) {
        const page = await browser.newPage();
        const wrong = [];
        page.on('console', m => { if (m.type() === 'error') wrong.push(m.text()); });
        page.on('request', r => { if (!r.url().startsWith('file:')) wrong.push(r.url().slice(0, 80)); });
        await page.setViewport({ width, height: 900 });
        await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
        await page.goto('file://' + file);
        await page.type('#wanted', 'libc');
        const shown = await page.$eval('#found', e => e.textContent);
        const height = Math.min(16000, await page.evaluate(() => document.documentElement.scrollHeight));
        await page.screenshot({ path: `${folder}/${name}-${width}-${theme}.png`,
            clip: { x: 0, y: 0, width, height } });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
        const cut = await page.$$eval('caption', all => all.filter(caption => {
            const region = caption.closest('.wide'), words = document.createRange();
            words.selectNodeContents(caption);
            return [0, region.scrollWidth].some(to => {
                region.scrollLeft = to;
                const [inner, outer] = [words.getBoundingClientRect(), region.getBoundingClientRect()];
                return inner.left < outer.left - 1 || inner.right > outer.right + 1;
            });
        }).map(caption => caption.textContent));
        await page.evaluate(() => { document.getElementById('wanted').value = '';
            document.getElementById('wanted').dispatchEvent(new Event('input'));
            document.querySelectorAll('details').forEach(d => { d.open = true; }); });
        await page.evaluate(axe);
        const found = await page.evaluate(() => window.axe.run(document));
        out.push([name, width, theme, wrong, shown, wide, cut,
                  found.violations.map(v => v.id + ': ' + v.nodes[0].html.slice(0, 200))]);
        await page.close();
    }
    const page = await browser.newPage();
    await page.setJavaScriptEnabled(false);
    await page.goto('file://' + file);
    out.push([name, 0, 'no scripts', [], await page.$eval('#search', e => getComputedStyle(e).display) === 'none' ?
              'hidden' : 'shown', false, [], []]);
    await page.close();
}
console.log(JSON.stringify(out));
await browser.close();
"""


def in_browser(pages, folder):
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--silent", "axe-core@4.14.1", "puppeteer-core"], cwd=folder, check=True,
                   env={**os.environ, "PUPPETEER_SKIP_DOWNLOAD": "1"}, timeout=600)
    (folder / "axe.mjs").write_text(AXE)
    browser = next(p for p in ("/usr/bin/chromium", "/usr/bin/google-chrome") if os.path.exists(p))
    named = {name.replace(" ", "-"): str(file) for name, file in pages.items()}
    done = subprocess.run(["node", "axe.mjs", json.dumps(named), str(folder), browser], cwd=folder,
                          capture_output=True, text=True, timeout=600, check=False)
    check("the browser ran", done.returncode == 0, done.stderr)
    for name, width, theme, wrong, shown, wide, cut, violations in json.loads(done.stdout or "[]"):
        what = f"{name}, {width} pixels, {theme}"
        if theme == "no scripts":
            check(what + ": no search without scripts", shown == "hidden", shown)
            continue
        check(what + ": no error, and nothing is fetched", not wrong, wrong)
        check(what + ": the search finds", re.fullmatch(r"\d+ librar(y|ies)", shown), shown)
        check(what + ": the page is not wider than the window", not wide)
        check(what + ": each caption can be read whole, wherever its table is scrolled to", not cut, cut)
        check(what + ": axe finds no violation", not violations, violations)


def main():
    exe = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="gpumend-html-") as folder:
        top = Path(folder)
        pages, worlds = of_trees(exe, top)
        of_packages(exe, top, pages)
        of_first_wins(exe, top, pages)
        of_size(exe, top, pages)
        of_names(exe, top, worlds)
        of_paths(exe, top)
        of_refusals(exe, top, worlds)
        if "--browser" in sys.argv:
            in_browser(pages, Path(sys.argv[sys.argv.index("--browser") + 1]).resolve())
    print(f"{passes} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
