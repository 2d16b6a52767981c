#!/usr/bin/env python3
"""`gpumend mcp` by its messages: both eras of the protocol, every tool, what is malformed or endless.

    tests/mcp/run.py GPUMEND

clients.py does the same with the official clients, which have to be downloaded.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "causes"))
import tree  # noqa: E402

PROGRAM = "/opt/app/bin/app"
MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {}}}
TOOLS = ["check", "why", "explain", "plan", "choose", "devices", "kb", "needs", "setup", "compare"]
failures = passes = 0


def check(name, holds, detail=""):
    global failures, passes
    passes += bool(holds)
    failures += not holds
    if not holds:
        print(f"FAIL {name}: {str(detail)[-1200:]}")


class Server:
    def __init__(self, exe, *options, cwd="/", env=None):
        self.process = subprocess.Popen([exe, "mcp", *options], stdin=subprocess.PIPE, cwd=cwd, env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.number = 0

    def send(self, raw):
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, method, params=None, modern=False):
        self.number += 1
        params = dict(params or {}, **(MODERN if modern else {}))
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}).encode())
        answer = self.answer()
        assert answer["id"] == self.number, answer
        return answer

    def call(self, tool, modern=False, **arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments}, modern)["result"]
        if "structuredContent" in result:
            if not Server.tools:
                Server.tools = self.ask("tools/list")["result"]["tools"]
            check(f"{tool} {str(arguments)[:40]}: by its schema", valid(tool, result["structuredContent"]), result)
        return result

    tools = None  # as the server lists them

    def end(self):
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def world(folder):
    t = tree.Tree(folder)
    t.loader()
    t.put(PROGRAM, tree.elf(None, interp=tree.LOADER, needed=["libnowhere.so.1\x1b[2J"]))
    t.put("/proc/cpuinfo", "flags\t: cmov cx8 fpu fxsr mmx sse sse2\n")
    return t


def references(value):
    if isinstance(value, list):
        return [r for v in value for r in references(v)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [r for v in value.values() for r in references(v)]


def of_eras(exe):
    s = Server(exe)
    for asked, spoken in (("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")):
        result = s.ask("initialize", {"protocolVersion": asked, "capabilities": {}})["result"]
        check(f"initialize {asked}", result["protocolVersion"] == spoken and "tools" in result["capabilities"] and
              result["serverInfo"]["name"] == "gpumend", result)
    s.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    check("ping, and no answer to a notification", s.ask("ping")["result"] == {})
    result = s.ask("server/discover", modern=True)["result"]
    check("server/discover", result["supportedVersions"][0] == "2026-07-28" and result["resultType"] == "complete" and
          result["ttlMs"] > 0 and result["cacheScope"] == "public", result)
    lists = [s.ask("tools/list", modern=m)["result"] for m in (True, False, True)]
    check("the tools, always in the same order", [t["name"] for t in lists[0]["tools"]] == TOOLS and
          lists[0]["tools"] == lists[1]["tools"] == lists[2]["tools"])
    check("a list of the new era may be kept", lists[0]["ttlMs"] > 0 and "ttlMs" not in lists[1], lists[1].keys())
    for t in lists[0]["tools"]:
        check(f"{t['name']}: only looks", t["annotations"]["readOnlyHint"] and not t["annotations"]["destructiveHint"])
        check(f"{t['name']}: schemas of objects", t["inputSchema"]["type"] == "object" and
              t["outputSchema"]["type"] == "object")
        check(f"{t['name']}: a schema without other files", all(ref.startswith("#") for ref in references(t)))
    error = s.ask("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}})["error"]
    check("a version of the future", error["code"] == -32022 and "2026-07-28" in error["data"]["supported"], error)
    check("it ends with its input", s.end()[0] == 0)


def of_tools(exe, t):
    s = Server(exe)
    for modern in (False, True):
        r = s.call("check", modern, target=PROGRAM, root=str(t.top))
        doc = r["structuredContent"]
        check("check", doc["verdict"] == "broken" and doc["processes"] == [] and not r["isError"] and
              r["_meta"]["gpumend/exitStatus"] == 1, r)
        check("check: the text is the data", json.loads(r["content"][0]["text"]) == doc)
        check("check: marked as data", "not instructions" in r["_meta"]["gpumend/untrusted"])
        check("check: what a model reads is marked", [c["type"] for c in r["content"]] == ["text"] * 2 and
              r["content"][1]["text"] == r["_meta"]["gpumend/untrusted"], r["content"][1:])
        check("check: what belongs to the era", ("resultType" in r) == modern, r.keys())
    check("no control character", "\x1b" not in json.dumps(r, ensure_ascii=False).replace("\\u001b", ""), r)
    full = s.call("check", target=PROGRAM, root=str(t.top), detail=True)["structuredContent"]
    check("check with detail", len(full["processes"]) == 1, full)
    windows = t.top.parent / "windows"
    (windows / "Windows/System32").mkdir(parents=True)
    r = s.call("check", root=str(windows))
    check("check of a Windows tree", r["structuredContent"]["verdict"] == "unknown" and
          "processes" not in r["structuredContent"], r)
    r = s.call("why", exe=PROGRAM, root=str(t.top), name="libc.so.6", loads=["libnone.so"], env=["A=b c"])
    check("why", [q["name"] for q in r["structuredContent"]["requests"]][0].startswith("libnowhere"), r)
    r = s.call("explain", text="ImportError: libcublas.so.12: cannot open shared object file: No such file or directory")
    check("explain", r["structuredContent"]["culprit"] == "libcublas.so.12", r)
    r = s.call("plan", target=PROGRAM, root=str(t.top))
    check("plan", "ways" in r["structuredContent"] or "repairs" in r["structuredContent"], r)
    r = s.call("choose", root=str(t.top), memory_gib=3.5)
    check("choose", r["structuredContent"]["device"] in ("cpu", None), r)
    r = s.call("devices", root=str(t.top))
    check("devices", "gpus" in r["structuredContent"], r)
    r = s.call("kb", question="which driver does CUDA 12.4 need")
    check("kb", "550.54.14" in r["structuredContent"]["answer"], r)
    check("it ends", s.end()[0] == 0)


def snapshot_of(exe, t, path):
    with open(path, "wb") as file:
        subprocess.run([exe, "snapshot", PROGRAM, "--root", str(t.top)], stdout=file, timeout=60, check=False)
    return str(path)


def valid(name, document):
    """By the schema that the server states for the tool."""
    try:
        import jsonschema
    except ImportError:
        return True
    schema = next(t for t in Server.tools if t["name"] == name)["outputSchema"]
    return not list(jsonschema.Draft202012Validator(schema).iter_errors(document))


def of_needs(exe, t):
    s = Server(exe)
    Server.tools = s.ask("tools/list")["result"]["tools"]
    for nodes in ([], [str(t.top)]):
        r = s.call("needs", target=PROGRAM, root=str(t.top), **({"nodes": nodes} if nodes else {}))
        doc = r["structuredContent"]
        check("needs", doc["needs"]["machine"] == "x86-64" and valid("needs", doc), r)
        check("needs: one answer a node", len(doc.get("nodes") or []) == len(nodes), doc)
    doc = s.call("needs", target=PROGRAM, root=str(t.top), nodes=["/no/such"])["structuredContent"]
    check("needs: a node that is none is unknown", [n["answer"] for n in doc["nodes"]] == ["unknown"], doc)
    s.end()


def of_setup(exe, t):
    s = Server(exe, "--allow", str(t.top))
    for arguments in ({"machine": "rtx-3060-linux"}, {"machine": "rx-7900-xtx-windows"}, {"root": str(t.top)}):
        r = s.call("setup", app="whisperx", **arguments)
        check(f"setup {sorted(arguments)}", not r["isError"] and valid("setup", r["structuredContent"]), r)
    for arguments, words in (({}, "app is required"), ({"app": "whisperx", "machine": "/etc"}, "not a path"),
                             ({"app": "whisperx", "machine": "../x"}, "not a path"),
                             ({"app": "whisperx", "machine": "."}, "not a path"),
                             ({"app": "whisperx", "root": "/"}, "may not look"), ({"app": "none-such", "root": str(t.top)}, "none-such"),
                             ({"app": "whisperx", "apply": True}, "unknown argument")):
        r = s.call("setup", **arguments)
        check(f"setup {arguments}", r["isError"] and words in r["content"][0]["text"], r)
    s.end()


def of_compare(exe, t, top):
    """A machine before and after something changed: each kind of difference, and no other."""
    before = snapshot_of(exe, t, top / "before.json")
    changed = tree.Tree(top / "later")
    changed.loader()
    changed.put(PROGRAM, tree.elf(None, interp=tree.LOADER, needed=["libnew.so.1"]))
    changed.lib("/usr/lib/x86_64-linux-gnu/libnew.so.1")
    changed.put("/proc/cpuinfo", "flags\t: cmov cx8 fpu fxsr mmx sse sse2 avx2\n")
    after = snapshot_of(exe, changed, top / "after.json")
    s = Server(exe, "--allow", str(top), cwd=str(top))
    doc = s.call("compare", before=before, after=after)["structuredContent"]
    check("compare: the verdicts", (doc["before"]["verdict"], doc["after"]["verdict"]) == ("broken", "ok"), doc)
    check("compare: what is gone", [f["cause"] for f in doc["findings"]["gone"]] == ["library-missing"] and
          doc["findings"]["new"] == [], doc["findings"])
    libraries = {row["name"]: (row["before"], row["after"]) for row in doc["libraries"]}
    check("compare: the libraries", libraries.get("libnew.so.1") ==
          (None, ["/lib/x86_64-linux-gnu/libnew.so.1"]) or libraries.get("libnew.so.1") ==
          (None, ["/usr/lib/x86_64-linux-gnu/libnew.so.1"]), libraries)
    check("compare: what was not found ends at null", any(v == ([None], None) for v in libraries.values()), libraries)
    check("compare: by its schema", valid("compare", doc) and doc["left_out"] == 0, doc)
    back = s.call("compare", before=after, after=before)["structuredContent"]
    check("compare: the other way round", back["findings"]["new"] == doc["findings"]["gone"] and
          back["facts"] == [dict(f, before=f["after"], after=f["before"]) for f in back["facts"] and doc["facts"]],
          (back["facts"], doc["facts"]))
    same = s.call("compare", before=before, after=before)["structuredContent"]
    check("compare: nothing differs from itself", same["facts"] == same["packages"] == same["libraries"] == [] and
          same["findings"] == {"gone": [], "new": []}, same)
    for arguments, words in (({"before": before}, "after is required"), ({"before": before, "after": "/etc/passwd"},
                             "may not look"), ({"before": before, "after": str(top)}, ""),
                             ({"before": before, "after": after, "root": "/"}, "unknown argument")):
        r = s.call("compare", **arguments)
        check(f"compare {sorted(arguments)}", r["isError"] and words in r["content"][0]["text"], r)
    r = s.call("check", snapshot=before)
    check("--allow: a snapshot needs no target", not r["isError"] and r["structuredContent"]["verdict"] == "broken", r)
    r = s.call("needs", target=str(t.top) + PROGRAM, nodes=["/"])
    check("--allow: a node elsewhere", r["isError"] and "may not look" in r["content"][0]["text"], r)
    s.end()


def of_wrong(exe, t):
    s = Server(exe)
    for name, arguments, words in (
            ("check", {"target": "/no/such"}, "no"), ("check", {"target": 7}, "wrong type"),
            ("check", {"apply": True}, "unknown argument"), ("why", {}, "exe is required"),
            ("why", {"exe": PROGRAM, "loads": "x"}, "wrong type"), ("explain", {"text": ""}, ""),
            ("why", {"exe": PROGRAM, "env": ["x"] * 300}, "too many"), ("check", {"target": "--apply"}, ""),
            ("kb", {"question": "--help"}, "")):
        r = s.call(name, **arguments)
        said = r["content"][0]["text"]
        check(f"{name} {str(arguments)[:40]}", words in said and (r["isError"] or not words), r)
    for arguments in ({"target": "/bin/ls\0x"}, {"env": ["A=\0"]}, {"imports": "torch\0"}):
        r = s.call("check", **arguments)  # with the number of the question
        check(f"a NUL in {list(arguments)}", r["isError"] and "NUL" in r["content"][0]["text"], r)
    r = s.call("explain", text="\0\0ImportError: libcublas.so.12: cannot open shared object file: No such file\0")
    check("a NUL in a log", r["structuredContent"]["culprit"] == "libcublas.so.12", r)
    r = s.call("plan", target="--undo", root=str(t.top))
    check("a target is no option", r["isError"] and "--undo" in r["content"][0]["text"], r)
    check("what a command says of a failure is data, too", "not instructions" in r["content"][1]["text"] and
          r["_meta"]["gpumend/untrusted"] == r["content"][1]["text"], r)
    for raw, code in ((b"x", -32700), (b"[]", -32600), (b"[" * 100000, -32700), (b"{}", -32600), (b"7", -32600),
                      (b'{"jsonrpc":"2.0","id":1,"method":"tools/run"}', -32601),
                      (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602),
                      (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
                      (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
                      (b'{"id":1,"method":"ping"}', -32600), (b"null", -32600),
                      (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600),
                      (b'{"id":1,"id":2,"method":"ping"}', -32700), (b"\xff\xfe", -32700),
                      (b'"' + b"a" * (9 << 20) + b'"', -32700)):
        s.send(raw)
        answer = s.answer()
        check(f"malformed {raw[:30]!r}", answer["error"]["code"] == code, answer)
    for raw in (b"", b"   ", b'{"jsonrpc":"2.0","id":9,"result":{}}', b'{"jsonrpc":"2.0","method":"tools/call"}'):
        s.send(raw)
    check("what is no request has no answer", s.ask("ping")["result"] == {})
    s.process.stdin.write(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')  # without its line end
    s.process.stdin.close()
    check("the last line needs no end", json.loads(s.process.stdout.read())["id"] == "last")
    check("it ends by itself", s.process.wait(60) == 0)


def of_named_paths(s, own, inside, t):
    """Where only some folders may be named, a library's path and a variable's value name one, too."""
    t.lib("/lib/libelsewhere.so.1")
    own.lib("/lib/libhere.so.1")
    there, here, program = str(t.top / "lib/libelsewhere.so.1"), str(own.top / "lib/libhere.so.1"), str(
        own.top) + PROGRAM
    folder, other = str(own.top / "lib"), str(t.top / "lib")
    for more, allowed in (
            ({"name": there}, False), ({"name": here}, True), ({"name": "libelsewhere.so.1"}, True),
            ({"name": "../root/lib/libelsewhere.so.1"}, False), ({"name": "own/lib/libhere.so.1"}, True),
            ({"loads": [there]}, False), ({"loads": [here, "libc.so.6"]}, True),
            ({"loads": [f"{there}@{PROGRAM}"]}, False), ({"loads": [f"libx.so@{there}"]}, False),
            ({"caller": there}, False), ({"name": str(inside / "no/such.so")}, False),
            ({"env": [f"LD_LIBRARY_PATH={folder}:{other}"]}, False), ({"env": [f"LD_LIBRARY_PATH={folder}"]}, True),
            ({"env": [f"LD_PRELOAD=own/lib/libhere.so.1 {there}"]}, False),
            ({"env": ["LD_PRELOAD=own/lib/libhere.so.1 own/lib/libhere.so.1"]}, True),
            ({"env": ["LD_PRELOAD=libx.so", "A=b c", "LD_LIBRARY_PATH=", "NO_VALUE"]}, True),
            ({"env": ["PYTHONPATH=../root"]}, False), ({"env": ["LD_LIBRARY_PATH=own"]}, True),
            ({"env": ["LD_LIBRARY_PATH=.."]}, False), ({"env": [f"PYTHONHOME={other}"]}, False)):
        r = s.call("why", exe=program, **more)
        check(f"--allow: why {more}", ("may not look" in r["content"][0]["text"]) != allowed, r)
    r = s.call("why", exe=PROGRAM, root=str(own.top), name="/lib/libhere.so.1", env=["LD_LIBRARY_PATH=/opt"])
    check("--allow: inside a root paths are those of the root", not r["isError"], r)


def of_folders(exe, t, top):
    inside = top / "allowed"
    inside.mkdir()
    (inside / "out").symlink_to(t.top)
    os.mkfifo(inside / "pipe")  # Nobody writes to it.
    s = Server(exe, "--allow", str(inside), cwd=str(inside))
    for name, arguments in (("check", {"target": str(t.top)}), ("check", {"root": str(t.top)}),
                            ("check", {"snapshot": "/etc/passwd"}), ("check", {"target": str(inside / "out")}),
                            ("check", {"root": str(inside / ".." / "root")}), ("why", {"exe": "/bin/ls"}),
                            ("check", {}), ("plan", {}), ("choose", {}),
                            ("check", {"target": str(top / "allowed-not")}), ("devices", {}),
                            ("setup", {"app": "torch"}), ("setup", {"app": "torch", "root": str(t.top)}),
                            ("compare", {"before": str(inside / "pipe"), "after": str(inside / "pipe")})):
        r = s.call(name, **arguments)
        check(f"--allow: {name} {arguments}", r["isError"] and
              ("may not look" in r["content"][0]["text"] or "required on this server" in r["content"][0]["text"]), r)
    own = world(inside / "own")
    r = s.call("check", root=str(own.top), target=PROGRAM)
    check("--allow: what is below", not r["isError"] and r["structuredContent"]["verdict"] == "broken", r)
    check("--allow: a folder of its own", not s.call("devices", root=str(own.top))["isError"])
    of_named_paths(s, own, inside, t)
    check("it ends", s.end()[0] == 0)
    s = Server(exe, "--allow", str(inside), "--allow-machine", cwd=str(top))
    check("--allow-machine: devices", not s.call("devices")["isError"])
    r = s.call("setup", app="torch")
    check("--allow-machine: setup", not r["isError"] and r["structuredContent"]["machine"] == "this machine", r)
    check("--allow-machine is for the machine", s.call("devices", root=str(t.top))["isError"] and
          s.call("check", target=str(t.top))["isError"] and s.call("check")["isError"])
    s.end()
    env = top / "elsewhere"
    (env / "lib/python3.12/site-packages/torch-1.0.dist-info").mkdir(parents=True)
    (env / "lib/python3.12/site-packages/torch-1.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    (env / "bin").mkdir()
    (env / "bin/python3").symlink_to(sys.executable)
    (env / "bin/python").symlink_to("python3")
    (env / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.1\n")
    for options, compared in (((), True), (("--allow", str(inside), "--allow-machine"), False)):
        s = Server(exe, *options, env={**os.environ, "VIRTUAL_ENV": str(env)})
        r = s.call("setup", app="torch")
        check(f"the server's own environment, {options[:1]}",
              ("elsewhere" in json.dumps(r["structuredContent"])) == compared, r)
        s.end()
    check("--allow of nothing", Server(exe, "--allow", "/no/such").end()[0] == 2)


def of_time(exe):
    """A call that is slow delays the next one and loses nothing; the server holds no children."""
    s = Server(exe)
    began = time.monotonic()
    for n in range(3):
        s.send(json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/call",
                           "params": {"name": "explain", "arguments": {"text": "CUDA error 999\n" * 2000}}}).encode())
    ids = [s.answer()["id"] for _ in range(3)]
    check("answers in the order of the questions", ids == [0, 1, 2], (ids, time.monotonic() - began))
    children = Path(f"/proc/{s.process.pid}/task/{s.process.pid}/children")
    check("no child is left", not children.exists() or children.read_text() == "")
    check("it ends", s.end()[0] == 0)


def main():
    exe = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="gpumend-mcp-") as folder:
        top = Path(folder)
        t = world(top / "root")
        of_eras(exe)
        of_tools(exe, t)
        of_needs(exe, t)
        of_setup(exe, t)
        of_compare(exe, t, top)
        of_wrong(exe, t)
        of_folders(exe, t, top)
        of_time(exe)
    print(f"{passes} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
