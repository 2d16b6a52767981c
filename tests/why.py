#!/usr/bin/env python3
"""`why` is told who asks: by any path of a file that is loaded, as the loader tells files apart.
`--tree` shows each request once, below who made it, and `--invert` who leads to a name.

    tests/why.py GPUMEND
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent
sys.path.insert(0, str(TOP / "causes"))
import tree  # noqa: E402

PROGRAM = "/opt/app/bin/app"
ASKER = "/opt/app/lib/libask.so.1"


def world(folder):
    """A program; a library that asks, under five paths; and what only its RUNPATH leads to."""
    t = tree.Tree(folder)
    t.loader()
    t.put(PROGRAM, tree.elf(None, interp=tree.LOADER))
    t.lib(ASKER, runpath="$ORIGIN/private")
    t.lib("/opt/app/lib/private/libdeep.so.1")
    t.lib("/opt/app/lib/libother.so.1")
    t.link("/opt/app/lib/libask.so", "libask.so.1")
    t.link("/opt/current", "/opt/app")
    t.put("/opt/py@3/lib/x", "")
    os.link(t.real(ASKER), t.real("/opt/py@3/lib/libask.so.1"))
    t.lib("/opt/py@3/lib/libsecond.so.1")
    return t


def why(exe, t, loads, *more):
    command = [exe, "why", "--root", str(t.top), "--exe", PROGRAM, "--cwd", "/", "--json",
               *more]
    for load in loads:
        command += ["--load", load]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done, json.loads(done.stdout)["loads"] if done.stdout else []


# The caller as it is written -> whether it names the object that is loaded as ASKER.
CALLERS = {
    ASKER: True,
    "libask.so.1": True,
    "/opt/app/lib/libask.so": True,
    "/opt/current/lib/libask.so": True,
    "/opt/app/bin/../lib/./libask.so.1": True,
    "/opt/py@3/lib/libask.so.1": True,
    "opt/app/lib/libask.so": True,
    "/opt/app/lib/libother.so.1": False,
    "/opt/app/lib/none.so": False,
    "/opt/app/lib": False,
}


def tree_world(folder):
    """A cycle, a library that two ask for, one that is nowhere, a hostile name, a long chain."""
    t = tree.Tree(folder)
    t.loader()
    t.put(PROGRAM, tree.elf(None, interp=tree.LOADER, runpath="/opt/app/lib",
                            needed=["liba.so", "libb.so", "libchain0.so"]))
    lib = dict(runpath="/opt/app/lib")
    t.lib("/opt/app/lib/liba.so", needed=["libb.so", "libnowhere.so"], **lib)
    t.lib("/opt/app/lib/libb.so", needed=["libc1.so"], **lib)
    t.lib("/opt/app/lib/libc1.so", needed=["liba.so", "libx\x1b[31m\n`-- forged"], **lib)
    for i in range(300):
        t.lib("/opt/app/lib/libchain%d.so" % i, needed=["libchain%d.so" % (i + 1)] if i < 299 else [], **lib)
    return t


def tree_of(exe, t, *options):
    done = subprocess.run([exe, "why", "--root", str(t.top), "--exe", PROGRAM, "--cwd", "/", *options],
                          capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


def edges_of(text):
    """(who, name) of each line, by its indent or its level; what is folded is not repeated."""
    edges, path = [], []
    for line in text.split("\n\n")[0].splitlines():
        head = line[:(len(line) - len(line.lstrip("|`- ")))]
        rest = line[len(head):]
        level = len(head) // 4
        if rest.startswith("(level "):
            level = int(rest[7:rest.index(")")])
            rest = rest[rest.index(")") + 2:]
        name = rest.split(" => ")[0]
        full = rest.split(" => ")[1].split(" (*)")[0] if " => " in rest else rest
        if level:
            edges.append((path[level - 1], name))
        path[level:] = [full]
    return sorted(edges)


def of_tree(exe, t):
    """{name of a check: whether it holds}"""
    _, text = tree_of(exe, t, "--tree")
    document = json.loads(tree_of(exe, t, "--json")[1])
    asked = sorted((r["caller"] or PROGRAM, r["name"].replace("\x1b", "\\x1b").replace("\n", "\\x0a"))
                   for r in document["requests"])
    status, up = tree_of(exe, t, "--tree", "--invert", "libnowhere.so")
    chain = tree_of(exe, t, "--tree", "--invert", "libchain299.so")[1].splitlines()
    return {
        "every request is in the tree, once": edges_of(text) == asked,
        "a name cannot forge a line": "\x1b" not in text and "\n`-- forged" not in text,
        "a cycle is folded": text.count("(*)") == 2,
        "who asks for what is nowhere": status == 1 and up.splitlines()[0] == "libnowhere.so" and
                                        "`-- /opt/app/lib/liba.so  libnowhere.so" in up and
                                        "/opt/app/bin/app  liba.so" in up,
        "a long chain up to the program": len(chain) >= 301 and PROGRAM in chain[300],
        "a name of nobody": tree_of(exe, t, "--tree", "--invert", "libnone.so")[0] == 3,
        "--invert alone": tree_of(exe, t, "--invert", "liba.so")[0] == 2,
        "--tree and --json": tree_of(exe, t, "--tree", "--json")[0] == 2,
    }


def of_snapshot(exe, t, folder):
    """From a snapshot it says what it said there; of what the snapshot lacks nothing is said."""
    file, page = os.path.join(folder, "snapshot.json"), os.path.join(folder, "page.html")
    with open(file, "wb") as out:
        subprocess.run([exe, "snapshot", PROGRAM, "--root", str(t.top), "--env", "LD_LIBRARY_PATH=/opt/none"],
                       stdout=out, check=False, timeout=60)

    def said(*words):
        done = subprocess.run([exe, "why", "--exe", PROGRAM, *words], capture_output=True, text=True, check=False,
                              timeout=60, cwd="/")
        return done.returncode, done.stdout, done.stderr

    there = ("--root", str(t.top), "--env", "LD_LIBRARY_PATH=/opt/none", "--cwd", "/")
    forms = {"text": (), "--json": ("--json",), "--tree": ("--tree",), "NAME": ("libb.so",),
             "--invert": ("--tree", "--invert", "libnowhere.so")}
    facts = {"snapshot, %s: as there" % name: said(*words, "--snapshot", file) == said(*words, *there)
             and said(*words, *there)[1] != "" for name, words in forms.items()}
    status, out, errors = said("--html", page, "--snapshot", file)
    text = Path(page).read_text()
    facts["snapshot, --html"] = (status, out) == (1, "") and "libnowhere.so" in text and "<html" in text
    whole = world(Path(folder) / "asked")
    with open(file, "wb") as out:
        subprocess.run([exe, "snapshot", PROGRAM, "--root", str(whole.top)], stdout=out, check=False, timeout=60)
    for name, words in (("a library that it was not asked for", (ASKER,)), ("in JSON", (ASKER, "--json")),
                        ("another program", ("--exe", ASKER)), ("in a page", (ASKER, "--html", "-"))):
        status, out, errors = said(*words, "--snapshot", file)
        facts["snapshot, %s: cannot be determined" % name] = status == 3 and out == "" and "not in the snapshot" in errors
    for words in (("--root", "/"), ("--env", "A=b"), ("--unset", "A"), ("--cwd", "/"), ("--batch", "-")):
        facts["snapshot, not with %s" % words[0]] = said(*words, "--snapshot", file)[0] == 2
    facts["snapshot, no document"] = said("--snapshot", "/dev/null")[0] == 3
    return facts


def of_wrong(exe, folder):
    """What is wrong is the first thing that the loader's own text hides, in the order of its search."""
    t = tree.Tree(folder)
    t.loader()
    names = {"libnone.so": None, "libgone.so": "a link to /opt/gone.so, which does not exist",
             "libother.so": "built for aarch64, the process is x86-64", "libgood.so": None}
    t.put(PROGRAM, tree.elf(None, interp=tree.LOADER, runpath="/opt/first:/opt/second", needed=list(names)))
    t.lib("/opt/first/libunrelated.so")
    t.link("/opt/second/libgone.so", "/opt/gone.so")
    t.lib("/opt/second/libother.so", machine=183)
    t.lib("/opt/second/libgood.so")
    requests = {r["name"]: r["really"] for r in json.loads(tree_of(exe, t, "--json")[1])["requests"]}
    return {"what is wrong with %s" % name: name in requests and (requests[name] is None if wrong is None else
            str(requests[name]).startswith("/opt/second/%s: %s" % (name, wrong))) for name, wrong in names.items()}


def main():
    exe = os.path.abspath(sys.argv[1])
    failed = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-why-") as folder:
        t = world(Path(folder) / "root with spaces")
        for caller, known in CALLERS.items():
            done, loads = why(exe, t, [ASKER, "libdeep.so.1@" + caller])
            found = len(loads) == 2 and loads[1]["outcome"] == "loaded"
            refused = done.returncode == 3 and "is not among the loaded objects" in done.stderr
            if not (found if known else refused):
                failed += 1
                print("FAIL %s: status %d: %s" % (caller, done.returncode, done.stderr.strip()))
        extra = {
            "a caller for NAME": why(exe, t, [ASKER], "libdeep.so.1", "--caller",
                                     "/opt/current/lib/libask.so")[0].returncode == 0,
            "an @ in the path of a library": why(exe, t, ["/opt/py@3/lib/libsecond.so.1"])[0]
            .returncode == 0,
        }
        extra.update(of_wrong(exe, Path(folder) / "wrong"))
        (t.top / "opt/text.so").write_text("no library\n")
        done, _ = why(exe, t, ["/opt/text.so", "libdeep.so.1@/opt/text.so"])
        extra["a caller that was refused: why"] = (
            done.returncode == 3 and "/opt/text.so could not be loaded: " in done.stderr
            and "load it first" not in done.stderr)
        extra.update(of_tree(exe, tree_world(Path(folder) / "tree")))
        extra.update(of_snapshot(exe, tree_world(Path(folder) / "taken"), folder))
        for name, holds in extra.items():
            failed += not holds
            print("" if holds else "FAIL %s\n" % name, end="")
    n = len(CALLERS) + len(extra)
    print("%d passed, %d failed" % (n - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
