#!/usr/bin/python3
"""A snapshot, and a tree made of one, give the findings of the system they were taken of.

    tests/snapshot/run.py [--only PATTERN] [GPUMEND]

For every captured tree of tests/causes and tests/trees, for this machine and for a running process:
the document, checked after the original was moved away, gives the same JSON byte for byte, but for
the target; so does the tree of --tree; two snapshots are the same bytes; redacted ones hold none of
the names, not inside their content either, and find the same. And: what a document does not hold is
told; secrets of the environment are not in it; hostile documents end in words.
"""

import argparse
import base64
import copy
import fnmatch
import json
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "causes"), str(HERE.parent / "trees")]
sys.path.append(str(HERE.parent))
import build  # noqa: E402
import cases  # noqa: E402
import seeding  # noqa: E402
from machines import MACHINES  # noqa: E402
from tree import Tree  # noqa: E402

SCHEMA = TOP / "docs/json/snapshot.schema.json"
ENV = {"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": "1700000000"}
TARGET = re.compile(r'^  "target": \{.*?^  \},\n', re.S | re.M)


class Wrong(Exception):
    pass


Skip = cases.tree.Skip


def run(exe, args, given=None, env=None, as_nobody=False, limit_s=60, cwd="/"):
    command = [exe, *map(str, args)]
    if as_nobody and os.geteuid() == 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    done = subprocess.run(command, env={**ENV, **(env or {})}, cwd=cwd, timeout=limit_s,
                          input=given if given is not None else b"", capture_output=True,
                          check=False)
    if done.returncode not in (0, 1, 3):
        raise Wrong("status %d: %s" % (done.returncode, done.stderr.decode(errors="replace")))
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def answer(exe, args, **more):
    """Status and JSON without the target."""
    status, out, errors = run(exe, [*args, "--json"], **more)
    text, cut = TARGET.subn("", out.decode())
    if not cut:
        raise Wrong("no document: " + errors)
    return status, text


def difference(what, one, other):
    if one == other:
        return
    if one[0] != other[0]:
        yield "%s: status %d instead of %d" % (what, other[0], one[0])
    for a, b in zip(one[1].splitlines(), other[1].splitlines()):
        if a != b:
            yield "%s: %s instead of %s" % (what, b.strip(), a.strip())
            return
    yield "%s: the documents differ in length" % what


def unpacked(document):
    """The content of a document, by the command zstd: an independent reader."""
    if not shutil.which("zstd"):
        raise Skip("the command zstd is not installed")
    out = b""
    for chunk in document["content"]["chunks"]:
        out += subprocess.run(["zstd", "-dcq"], input=base64.b64decode(chunk, validate=True),
                              capture_output=True, check=True).stdout
    if len(out) != document["content"]["bytes"]:
        raise Wrong("the content has %d bytes" % len(out))
    return out


def schema_faults(document):
    """What in a document the schema does not allow, as far as the validator is installed."""
    try:
        import jsonschema
    except ImportError:
        return
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    for error in list(validator.iter_errors(json.loads(document)))[:3]:
        yield "schema: %s: %s" % ("/".join(map(str, error.absolute_path)), error.message[:200])


# ------------------------------------------------------------------ the same findings

def compare(exe, folder, top, args, **how):
    """A tree below `top` against its snapshot and its own tree; `args` follow --root DIR."""
    as_nobody = how.get("as_nobody", False)
    at = ["--root", top, *args]
    before = answer(exe, ["check", *at], as_nobody=as_nobody)
    status, document, errors = run(exe, ["snapshot", *at], as_nobody=as_nobody)
    if status or errors:
        return ["snapshot: status %d: %s" % (status, errors)]
    wrong = list(schema_faults(document))
    if run(exe, ["snapshot", *at], as_nobody=as_nobody)[1] != document:
        wrong.append("a second snapshot has other bytes")
    small = folder / "small"
    privileged = any(f.is_file() and f.lstat().st_mode & 0o6000 for f in top.rglob("*"))
    status, _, errors = run(exe, ["snapshot", *at, "--tree", small], as_nobody=as_nobody)
    # From within the folder: the output names its root.
    devices = run(exe, ["devices", "--root", "."], as_nobody=as_nobody, cwd=top)
    top.rename(folder / "moved-away")
    try:
        after = answer(exe, ["check", "--snapshot", "-"], given=document, as_nobody=as_nobody)
        wrong += difference("snapshot", before, after)
        if status:
            return wrong + ["--tree: status %d: %s" % (status, errors)]
        again = answer(exe, ["check", "--root", small, *args], as_nobody=as_nobody)
        again = again[0], again[1].replace(str(small), str(top))  # in printed commands
        if privileged:  # a tree has no setuid files: what follows from them is not there
            wrong += ["the tree has a setuid file" for f in small.rglob("*")
                      if f.is_file() and f.lstat().st_mode & 0o6000]
        else:
            wrong += difference("tree", before, again)
        told = run(exe, ["devices", "--root", "."], as_nobody=as_nobody, cwd=small)
        if how.get("devices") and told[:2] != devices[:2]:
            wrong.append("the tree has other devices:\n%s" % told[1].decode())
    finally:
        (folder / "moved-away").rename(top)
    return wrong


def cause_test(exe, case, folder):
    tree = Tree(folder / "root", case.prefix)
    wants = case.build(tree, True) or {}
    args = [wants.get("target", tree.prefix)]
    for name, value in wants.get("env", {}).items():
        args += ["--env", "%s=%s" % (name, value)]
    return compare(exe, folder, folder / "root", args + wants.get("args", []),
                   as_nobody=wants.get("as_nobody", False))


def machine_test(exe, machine, folder):
    top = folder / "root"
    top.mkdir()
    build.write(machine, top)
    return compare(exe, folder, top, [], devices=True)


def this_machine(exe, folder, target):
    """The running system, which cannot be moved: that the replay asks it for nothing is seen under
    strace."""
    args = [target] if target else []
    before = answer(exe, ["check", *args])
    status, document, errors = run(exe, ["snapshot", *args])
    if status:
        return [errors]
    wrong = list(schema_faults(document))
    wrong += difference("snapshot", before,
                        answer(exe, ["check", "--snapshot", "-"], given=document))
    if run(exe, ["snapshot", *args])[1] != document:
        wrong.append("a second snapshot has other bytes")
    if shutil.which("strace"):
        done = subprocess.run(["strace", "-f", "-s", "4096", "-e", "trace=openat,openat2,stat,newfstatat,readlink",
                               exe, "check", "--snapshot", "-"], input=document,
                              capture_output=True, cwd="/", check=False)
        # What the C library and jansson ask for in any program.
        asked = {m for m in re.findall(r'"([^"]*)"', done.stderr.decode(errors="replace"))
                 if m.startswith("/")} - {"/", "/dev/urandom", "/proc/self/exe", exe}
        wrong += ["the replay asked this machine for " + path for path in sorted(asked)]
    # Started as the printed command says, with a PATH that leads to the same interpreter.
    status, command, errors = run(exe, ["snapshot", *args, "--tree", folder / "small"])
    if status or b"check --root" not in command:
        return wrong + ["--tree: " + errors]
    done = subprocess.run(["sh", "-c", command.decode().replace("gpumend", shlex.quote(exe), 1).strip()
                           + " --json"], env=ENV, cwd="/", capture_output=True, check=False)
    again = done.returncode, TARGET.sub("", done.stdout.decode())
    again = again[0], again[1].replace('"where": "/proc/self/environ"',
                                       '"where": "the start environment"')
    # A tree has its device nodes in a list (docs: the file .gpumend-nodes).
    before, again = ((status, re.sub(r'"where": "/(?:dev/[^"]*|\.gpumend-nodes)"', '"where": "nodes"', out))
                     for status, out in (before, again))
    return wrong + list(difference("tree", before, again))


def named_from_within(exe, folder):
    """The printed command finds the target that was named from another folder than it is run in."""
    tree = Tree(folder / "root", "/opt/env")
    tree.python()
    wrong = []
    for n, (word, at) in enumerate((("env", "opt"), ("../opt/./env", "usr"), (".", "opt/env"))):
        (folder / "root" / at).mkdir(exist_ok=True)
        done = subprocess.run([exe, "snapshot", word, "--tree", folder / str(n)], env=ENV,
                              cwd=folder / "root" / at, capture_output=True, text=True, check=False)
        command = done.stdout.replace("gpumend", shlex.quote(exe), 1).strip()
        again = subprocess.run(["sh", "-c", command], env=ENV, cwd="/", capture_output=True, text=True,
                               check=False)
        if not done.stdout.startswith("gpumend check --root ") or again.stderr:
            wrong.append("%s: %s %s" % (word, done.stderr, again.stderr))
    return wrong


def live_process(exe, folder):
    code = "import ctypes, time; print(flush=True); time.sleep(60)"
    child = subprocess.Popen(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE)
    try:
        if not child.stdout.readline():  # before, it may still be loading
            raise Skip("the child ended: no ctypes here")
        before = answer(exe, ["check", "--pid", child.pid])
        document = run(exe, ["snapshot", "--pid", child.pid])[1]
    finally:
        child.kill()
        child.communicate()
    return list(difference("snapshot", before,
                           answer(exe, ["check", "--snapshot", "-"], given=document)))


# ------------------------------------------------------------------ names

USER, HOST, OTHER, GPU = "zaphodbee", "heartofgold7", "trillian", "9a3c51f2-77aa-4be1-8c0d-0123456789ab"


def name_tree(folder):
    """A broken environment in somebody's home, whose files and libraries name him."""
    case = next(c for c in cases.CASES if c.name == "not-on-path-with-blanks")
    prefix = "/home/%s/env of %s" % (USER, USER)
    tree = Tree(folder / "root", prefix)
    wants = case.build(tree, True) or {}
    machine = dict(MACHINES["geforce-desktop"][1])
    machine.pop("nodes", None)
    machine.update({
        "/etc/hostname": HOST + ".example.org\n",
        "/proc/sys/kernel/hostname": HOST + "\n",
        "/etc/group": "root:x:0:\nvideo:x:44:%s\n%s:x:1001:\n" % (USER, OTHER),
        "/proc/self/environ": "CUDA_VISIBLE_DEVICES=GPU-%s\0" % GPU[:8],
        "/etc/ld.so.conf": "/home/%s/lib\n/home/%s/lib\n/opt/%s\n" % (USER, OTHER, HOST),
    })
    for path, text in machine.items():
        if not (folder / "root").joinpath(path[1:]).exists():
            build.write({path: text}, folder / "root")
    for path in ("/proc/self/environ", "/etc/group", "/etc/hostname"):
        (folder / "root").joinpath(path[1:]).write_text(machine[path])
    info = list((folder / "root").glob("proc/driver/nvidia/gpus/*/information"))
    for file in info:
        file.write_text(re.sub(r"GPU-[0-9a-f-]{36}", "GPU-" + GPU, file.read_text()))
    if not info:
        raise Wrong("the machine has no GPU with a UUID")
    (folder / "root/home" / OTHER).mkdir(exist_ok=True)
    args = [wants.get("target", prefix), "--env", "HOME=/home/" + USER]
    for name, value in wants.get("env", {}).items():
        args += ["--env", "%s=%s" % (name, value)]
    return folder / "root", args


def names_in(what, data):
    for name in (USER, HOST, OTHER, GPU, GPU[:8]):
        if name.encode() in data:
            yield "%s is in %s" % (name, what)


def redaction(exe, folder):
    top, args = name_tree(folder)
    at = ["--root", top, *args]
    status, before = answer(exe, ["check", *at])
    if '"severity": "error"' not in before or USER not in before:
        return ["the tree is not broken, or its findings do not name anybody"]
    plain = run(exe, ["snapshot", *at])[1]
    content = unpacked(json.loads(plain))
    if not {USER} <= {n for n in (USER, HOST) if n.encode() in content + plain}:
        return ["the name is not in the snapshot to begin with"]
    _, document, errors = run(exe, ["snapshot", *at, "--redact"])
    wrong = ["said: " + errors] if errors else []
    wrong += schema_faults(document)
    parsed = json.loads(document)
    wrong += names_in("the document", document)
    wrong += names_in("its content", unpacked(parsed))
    user = re.match("/home/([^/]*)/env of", parsed["target"]["path"]).group(1)
    if len(user) != len(USER):
        wrong.append("the placeholder %s has another length" % user)
    after = answer(exe, ["check", "--snapshot", "-"], given=document)
    before = before.replace(USER, user).replace(
        GPU, re.sub("[0-9a-f]", "1", GPU)).replace(GPU[:8], "11111111")
    wrong += difference("redacted", (status, before), after)
    run(exe, ["snapshot", *at, "--redact", "--tree", folder / "small"])
    for file in sorted((folder / "small").rglob("*")):
        wrong += names_in(str(file), str(file.relative_to(folder)).encode())
        if file.is_symlink():
            wrong += names_in(str(file), os.readlink(file).encode())
        elif file.is_file():
            wrong += names_in(str(file), file.read_bytes())
    return wrong


def names_too_large(exe, folder):
    """Files of names that are not read: what cannot be redacted is not printed."""
    top, args = name_tree(folder)
    at = ["--root", top, *args]
    wrong = []
    for path in ("etc/passwd", "etc/hostname"):
        file = top / path
        before = file.read_bytes() if file.exists() else b""
        with file.open("wb") as f:
            f.truncate((64 << 20) + 1)
        page = folder / "page.html"
        for command in (["snapshot", *at, "--redact"], ["check", *at, "--report"],
                        ["check", *at, "--html", page, "--redact"]):
            status, document, errors = run(exe, command)
            if status != 3 or document or f"/{path} is larger than 64 MiB" not in errors:
                wrong.append("%s, %s: status %d, %d bytes, %s" % (
                    command[0], path, status, len(document), errors))
        if page.exists():
            wrong.append("the page was written, /%s" % path)
        file.write_bytes(before)
    return wrong


def names_closed(exe, folder):
    """Files of names that we may not read: what cannot be redacted is not printed."""
    top, args = name_tree(folder)
    program = shutil.copy(exe, folder / "gpumend")  # where anyone may run it
    at = ["--root", top, *args]
    wrong = []
    for path in ("etc/passwd", "etc/hostname"):
        file = top / path
        before = file.read_bytes() if file.exists() else b""
        file.write_bytes(before)
        page = folder / "page.html"
        page.write_text("old")
        page.chmod(0o666)
        for mode, want in ((0o000, False), (0o644, True)):
            file.chmod(mode)
            for command in (["snapshot", *at, "--redact"], ["check", *at, "--report"],
                            ["check", *at, "--html", page, "--redact"]):
                status, document, errors = run(program, command, as_nobody=True)
                refused = (status == 3 and not document and page.read_text() == "old" and
                           f"/{path} cannot be read (Permission denied)" in errors)
                if refused == want or (want and "cannot be read" in errors):
                    wrong.append("%s, %s, mode %o: status %d, %d bytes, %s" % (
                        command[0], path, mode, status, len(document), errors))
    return wrong


def secrets(exe, folder):
    env = {"AWS_SECRET_ACCESS_KEY": "sesame-1", "HF_TOKEN": "sesame-2", "CUDA_MY_TOKEN": "sesame-3",
           "DATABASE_URL": "sesame-4", "CUDA_VISIBLE_DEVICES": "0", "SSH_AUTH_SOCK": "sesame-5",
           "XLA_FLAGS": "--xla_dump_to=https://me:sesame-6@example.org/x --token=sesame-7",
           "PYTHONPATH": "/srv/hf_sesame8abcdefghijklmnop/lib"}
    document = run(exe, ["snapshot", "/usr/bin/python3"], env=env)[1]
    content = document + unpacked(json.loads(document))
    wrong = ["a secret is in it"] if b"sesame" in content else []
    kept = json.loads(document)["start"]["env"]
    hidden = "XLA_FLAGS=--xla_dump_to=https://<hidden>@example.org/x --token=<hidden>"
    if not {"CUDA_VISIBLE_DEVICES=0", "PATH=/usr/bin:/bin", hidden} <= set(kept):
        wrong.append("the variables kept are %s" % kept)
    return wrong


def private_files(exe, folder):
    """A link of the target to a file that only its owner may read puts nothing of it into a document
    that is made to be shown. A program, a script and a file under its own name are held."""
    site = folder / "env/lib/python3.11/site-packages"
    info = site / "ctranslate2-4.5.0.dist-info"
    info.mkdir(parents=True)
    (folder / "env/bin").mkdir()
    (folder / "env/bin/python").symlink_to("/usr/bin/python3")
    (folder / "env/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    (info / "METADATA").write_text("Name: ctranslate2\nVersion: 4.5.0\nSummary: kept-1\n")
    (info / "METADATA").chmod(0o600)
    (folder / "secret").mkdir()
    for n, (name, link) in enumerate((("id_rsa", info / "INSTALLER"), ("shadow", info / "WHEEL"),
                                      ("netrc", site / "a.pth"), ("token", info / "direct_url.json"))):
        file = folder / "secret" / name
        file.write_text("sesame-%d\n" % n)
        file.chmod(0o600 if n else 0o640)
        link.symlink_to(file)
    script = folder / "secret/start.py"
    script.write_text("#!%s\n# kept-2\n" % (folder / "env/bin/python"))
    script.chmod(0o700)
    (folder / "env/bin/start").symlink_to(script)
    wrong = []
    for target in ("env", "env/bin/start"):
        for more in ([], ["--redact"]):
            document = run(exe, ["snapshot", folder / target, *more])[1]
            content = document + unpacked(json.loads(document))
            wrong += ["%s %s: a secret is in it" % (target, more)] if b"sesame" in content else []
            kept = b"kept-1" if target == "env" else b"kept-2"
            wrong += ["%s %s: %s is not in it" % (target, more, kept)] if kept not in content else []
    return wrong


# ------------------------------------------------------------------ what it does not hold

def small_document(exe, folder):
    case = next(c for c in cases.CASES if c.name == "not-on-path-with-blanks")
    tree = Tree(folder / "root", case.prefix)
    wants = case.build(tree, False) or {}
    args = ["--root", tree.top, wants.get("target", tree.prefix)]
    for name, value in wants.get("env", {}).items():
        args += ["--env", "%s=%s" % (name, value)]
    return json.loads(run(exe, ["snapshot", *args])[1])


def checked(exe, document, limit_s=20):
    """The status, the output and the complaint of a check of a document that may be anything."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()

    def limits():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))

    return subprocess.run([exe, "check", "--snapshot", "-", "--json"], input=data, cwd="/",
                          capture_output=True, timeout=3 * limit_s, preexec_fn=limits, check=False)


def not_held(exe, folder):
    whole = small_document(exe, folder)
    libraries = [f for f in whole["files"] if f.get("pages") and "/lib" in f["path"]]
    wrong = []
    if json.loads(checked(exe, whole).stdout)["verdict"] != "ok":
        return ["the healthy tree is not healthy"]
    for what in ("pages", "node", "open", "names"):
        document = copy.deepcopy(whole)
        path = libraries[-1]["path"]
        if what == "names":
            path = next(f["path"] for f in whole["files"] if len(f.get("names", [])) > 2)
        node = next(f for f in document["files"] if f["path"] == path)
        if what == "node":
            document["files"].remove(node)
            folder_node = next(f for f in document["files"] if f["path"] == os.path.dirname(path))
            folder_node.pop("names", None)
            folder_node.pop("list", None)
        elif what == "names":
            node.pop("names")
            node.pop("list")
        elif what == "pages":
            node["pages"] = node["pages"][:1]
            node["pages"][0][1] = 64
        else:
            node.pop("open")
        done = checked(exe, document)
        if done.returncode < 0 or not done.stdout:
            wrong.append("%s: status %d: %s" % (what, done.returncode, done.stderr.decode()))
            continue
        answer_json = json.loads(done.stdout)
        if not any("not in the snapshot" in n for n in answer_json["notes"]):
            wrong.append("%s: no note says that %s is not held" % (what, path))
        if answer_json["verdict"] == "ok":
            wrong.append("%s: the verdict is ok all the same" % what)
    return wrong


def refused(exe, what, document):
    done = checked(exe, document)
    if done.returncode != 3 or done.stdout or not done.stderr.startswith(b"gpumend: check: "):
        yield "%s: status %d, %s" % (what, done.returncode,
                                     (done.stderr or done.stdout[:200]).decode(errors="replace"))


def spoilt(document, change):
    fresh = copy.deepcopy(document)
    change(fresh)
    return fresh


def bomb():
    zeros = bytes(1 << 20)
    with subprocess.Popen(["zstd", "-cq", "-19"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child:
        for _ in range(64):
            child.stdin.write(zeros)
        child.stdin.close()
        return base64.b64encode(child.stdout.read()).decode()


def hostile(exe, folder):
    whole = small_document(exe, folder)
    text = json.dumps(whole).encode()
    first = next(i for i, f in enumerate(whole["files"]) if f.get("pages"))
    wrong = []
    for cut in sorted({len(text) * i // 40 for i in range(40)} | set(range(0, 60, 7))):
        wrong += refused(exe, "cut at %d" % cut, text[:cut])
    chunk = whole["content"]["chunks"][0]
    deep = b'{"schema":1,"kind":"snapshot","files":' + b"[" * 100000
    changes = {
        "another schema": lambda d: d.update(schema=2),
        "another kind": lambda d: d.update(kind="fleet"),
        "base64 with a blank": lambda d: d["content"].update(chunks=[" " + chunk[1:]]),
        "base64 cut": lambda d: d["content"].update(chunks=[chunk[:-3]]),
        "not zstd": lambda d: d["content"].update(chunks=["AAAA" + chunk[4:]]),
        "no chunks": lambda d: d["content"].update(chunks=[]),
        "too many chunks": lambda d: d["content"].update(chunks=[chunk] * 3),
        "more bytes than unpack": lambda d: d["content"].update(bytes=d["content"]["bytes"] + 1),
        "a petabyte": lambda d: d["content"].update(bytes=1 << 50, chunks=[chunk]),
        "a negative size": lambda d: d["files"][first].update(size=-1),
        "a page past the end": lambda d: d["files"][first].update(pages=[[1 << 40, 1, 0]]),
        "a page out of the content": lambda d: d["files"][first].update(pages=[[0, 1, 1 << 40]]),
        "pages that overlap": lambda d: d["files"][first].update(pages=[[0, 9, 0], [8, 9, 0]]),
        "a size that wraps": lambda d: d["files"][first].update(pages=[[1, (1 << 63) - 1, 0]]),
        "dots in a path": lambda d: d["files"][first].update(path="/usr/../etc/passwd"),
        "a relative path": lambda d: d["files"][first].update(path="usr"),
        "a path twice": lambda d: d["files"].append(copy.deepcopy(d["files"][first])),
        "in no folder": lambda d: d["files"].append({"path": "/no/where", "type": "other", "mode": 0,
                                                     "uid": 0, "gid": 0}),
        "no root": lambda d: d.update(files=d["files"][1:]),
        "a name with a slash": lambda d: d["files"][0].update(absent=["a/b"]),
        "names out of order": lambda d: d["files"][0].update(list=0, names=["b", "a"]),
        "the same as nothing": lambda d: d["files"][first].update(same_as="/nothing"),
        "an errno above 0": lambda d: d["files"][first].update(open=5),
        "a working directory that is none": lambda d: d["start"].update(cwd="x"),
        "a platform with slashes": lambda d: d["host_facts"]["cpu"].update(platform="../.."),
    }
    if shutil.which("zstd"):
        packed = bomb()
        changes["a bomb"] = lambda d: d["content"].update(chunks=[packed])
    for what, change in changes.items():
        wrong += refused(exe, what, spoilt(whole, change))
    wrong += refused(exe, "deep", deep)
    wrong += refused(exe, "ten million values", b"[" + b"0," * 10000000 + b"0]")
    huge = spoilt(whole, lambda d: [f.update(size=1 << 34) for f in d["files"] if f.get("pages")])
    done = checked(exe, huge)
    if done.returncode not in (0, 1, 3):
        wrong.append("files of 16 GiB: status %d" % done.returncode)
    seed = seeding.fresh()
    dice = random.Random(seed)
    for _ in range(150):
        data = bytearray(text)
        for _ in range(dice.choice((1, 1, 2, 8))):
            data[dice.randrange(len(data))] = dice.choice(b'0123456789"[]{},:-/ax\\\xff')
        done = checked(exe, bytes(data))
        if done.returncode not in (0, 1, 3):
            wrong.append("seed %d: status %d: %s" % (seed, done.returncode,
                                                     done.stderr.decode(errors="replace")[-300:]))
    return wrong


def usage(exe, folder):
    """--snapshot stands alone; --tree wants an empty folder and writes nowhere else."""
    wrong = []
    for extra in (["--root", "/"], ["/usr"], ["--env", "A=b"], ["--glibc", "2.36"]):
        done = subprocess.run([exe, "check", "--snapshot", "-", *extra], input=b"",
                              capture_output=True, check=False)
        if done.returncode != 2:
            wrong.append("--snapshot with %s: status %d" % (extra, done.returncode))
    (folder / "full").mkdir()
    (folder / "full/file").write_text("mine")
    status, _, errors = run(exe, ["snapshot", "/bin/ls", "--tree", folder / "full"])
    if status != 3 or "not empty" not in errors or os.listdir(folder / "full") != ["file"]:
        wrong.append("--tree into a folder with a file: status %d: %s" % (status, errors))
    status, _, errors = run(exe, ["check", "--snapshot", folder / "nothing"])
    if status != 3 or "No such file" not in errors:
        wrong.append("a file that is not there: status %d: %s" % (status, errors))
    return wrong


def tests(exe):
    for case in cases.CASES:
        yield "cause-" + case.name, lambda folder, c=case: cause_test(exe, c, folder)
    for name, (status, machine) in MACHINES.items():
        if status != 3:
            yield "tree-" + name, lambda folder, m=machine: machine_test(exe, m, folder)
    yield "this-machine", lambda folder: this_machine(exe, folder, None)
    yield "this-python", lambda folder: this_machine(exe, folder, "/usr/bin/python3")
    yield "this-program", lambda folder: this_machine(exe, folder, "/bin/ls")
    for name in ("named_from_within", "live_process", "redaction", "names_too_large", "names_closed",
                 "secrets", "private_files", "not_held", "hostile", "usage"):
        yield name.replace("_", "-"), lambda folder, f=globals()[name]: f(exe, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exe", nargs="?", default=str(TOP / "build/gpumend"), metavar="GPUMEND")
    parser.add_argument("--only", action="append", metavar="PATTERN")
    args = parser.parse_args()
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    with tempfile.TemporaryDirectory(prefix="gpumend-snapshot-") as folder:
        os.chmod(folder, 0o755)
        for name, test in tests(os.path.abspath(args.exe)):
            if args.only and not any(fnmatch.fnmatch(name, p) for p in args.only):
                continue
            place = Path(folder) / name
            place.mkdir()
            place.chmod(0o777)
            try:
                wrong = test(place)
                state = "FAIL" if wrong else "PASS"
            except Skip as reason:
                state, wrong = "SKIP", [str(reason)]
            except Exception as error:  # a broken test is a failure, the others go on
                state, wrong = "FAIL", ["%s: %s" % (type(error).__name__, error)]
            counts[state] += 1
            if state != "PASS":
                print("%s %s" % (state, name) + "".join("\n     " + w for w in wrong), flush=True)
            shutil.rmtree(place, ignore_errors=True)
    print("%d passed, %d failed, %d skipped" % tuple(counts.values()))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
