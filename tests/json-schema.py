#!/usr/bin/python3
"""The JSON that gpumend prints is what docs/json/*.schema.json promise, and has no key beside that.

    tests/json-schema.py GPUMEND

Validates the schemas themselves, then the output of the commands on several trees, sound and broken,
that of those that act on an environment that really runs, and what the schemas cannot say: that two runs print the same bytes, that the exit status
agrees with the verdict, that a request's steps end with the one that was taken. A part of the
test spoils documents on purpose, so that a schema which accepts everything would be noticed. No
schema may be left without a document.
"""

import copy
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urljoin

import jsonschema

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE / "windows"))
import host as windows_host  # noqa: E402

# The suites have a module `tree` each: this one's stands beside `apply`, which has the other.
SPEC = importlib.util.spec_from_file_location("safety_tree", HERE / "safety/tree.py")
tree = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tree)
sys.path.insert(0, str(HERE / "mend"))
import apply  # noqa: E402



def module_of_windows(name):
    spec = importlib.util.spec_from_file_location(f"windows_{name}", HERE / f"windows/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


windows, windows_check = module_of_windows("why"), module_of_windows("check")

SCHEMAS = {p.name: json.loads(p.read_text())
           for p in (HERE.parent / "docs/json").glob("*.schema.json")}
# What differs between two runs stands in docs/json.md: whether a plan was kept, when it was made, how
# long it took.
VARIES = ("run", "snapshot", "probe")
STORE = {schema["$id"]: schema for schema in SCHEMAS.values()}


def validator(name):
    schema = SCHEMAS[name]
    return jsonschema.Draft202012Validator(
        schema, resolver=jsonschema.RefResolver.from_schema(schema, store=STORE))


# ------------------------------------------------------------------ keys that no schema names

def said(schema, root):
    """The schemas that may speak of a value which this one speaks of, each with its root."""
    if not isinstance(schema, dict):
        return
    yield schema, root
    if "$ref" in schema:
        file, _, path = schema["$ref"].partition("#")
        root = STORE[urljoin(root["$id"], file)] if file else root
        target = root
        for part in path.strip("/").split("/") if path.strip("/") else ():
            target = target[part]
        yield from said(target, root)
    branches = [b for key in ("allOf", "anyOf", "oneOf") for b in schema.get(key, ())]
    for branch in branches + [schema[key] for key in ("if", "then", "else") if key in schema]:
        yield from said(branch, root)


def within(schema, key):
    """What a schema says of a member."""
    if key in schema.get("properties", {}):
        yield schema["properties"][key]
    yield from (inner for pattern, inner in schema.get("patternProperties", {}).items()
                if re.search(pattern, key))
    if "additionalProperties" in schema:
        yield schema["additionalProperties"]


def unnamed(schemas, value, where=""):
    """The keys of a document that no schema speaks of. The schemas admit them, as later versions may
    have new ones; those of this version are to be described."""
    spoken = [s for schema, root in schemas for s in said(schema, root)]
    if isinstance(value, dict):
        for key, inner in value.items():
            told = [(s, root) for schema, root in spoken for s in within(schema, key)]
            if all(s is False for s, _ in told):
                yield f"{where}/{key}: no schema names it"
            elif not any(s is True for s, _ in told):
                yield from unnamed(told, inner, f"{where}/{key}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            told = [(schema["prefixItems"][i] if i < len(schema.get("prefixItems", ()))
                     else schema.get("items"), root) for schema, root in spoken]
            yield from unnamed(told, inner, where)


USED = set()


def schema_faults(name, document):
    USED.add(name)
    yield from sorted(set(unnamed([(SCHEMAS[name], SCHEMAS[name])], document)))
    for error in sorted(validator(name).iter_errors(document), key=lambda e: list(e.absolute_path)):
        where = "/".join(map(str, error.absolute_path)) or "the document"
        yield f"{where}: {error.message[:300]}"


def step_faults(request):
    """A loaded request ends at the step that was taken, and at no other."""
    taken = [s for s in request["steps"] if s["result"] == "taken"]
    if request["outcome"] == "loaded":
        if len(taken) != 1 or request["steps"][-1]["result"] != "taken":
            yield f"{request['name']}: loaded, but its steps do not end with the one taken"
        elif (taken[0]["via"], taken[0]["path"]) != (request["via"], request["path"]):
            yield f"{request['name']}: the step taken is not the request's path and via"
    elif request["outcome"] == "not-found" and taken:
        yield f"{request['name']}: not found, yet a step was taken"


def faults_of(command, status, document):
    page = command == "explain" and ("page" in document or "causes" in document)
    faults = list(schema_faults("cause.schema.json" if page else f"{command}.schema.json", document))
    if faults:
        yield from faults
        return
    if page or command in ("run", "snapshot"):
        if status != 0:
            yield f"status {status}"
        return
    if command == "explain":
        logs = document.get("logs", [document])
        told = [1 if log["cause"] else 0 if log["class"] else 3 for log in logs]
        broken = any(log.get("here", {}).get("verdict") == "broken" for log in logs)
        if status not in ([1] if 1 in told else [1, 3] if broken and 3 in told else [max(told)]):
            yield f"status {status} where the logs say {told}"
        return
    if command == "probe":
        expected = 1 if document["first_failure"] else 3 * (document["verdict"] == "cannot-tell")
        if status != expected:
            yield f"status {status} with verdict {document['verdict']}"
        return
    if command == "container":
        nothing = document.get("verdict") == "unknown" or document.get("specifications") == []
        if status != (1 if document.get("verdict") == "broken" else 3 if nothing else 0):
            yield f"status {status} with verdict {document.get('verdict')}"
        return
    if command == "setup":
        if (status == 3) != (document["verdict"] == "unknown"):
            yield f"status {status} with verdict {document['verdict']}"
        return
    if command == "kb":
        if (status == 0) != document["known"] or status not in (0, 3):
            yield f"status {status} with known {document['known']}"
        return
    if command in ("devices", "choose"):
        if (status == 1) != (document["verdict"] == "broken"):
            yield f"status {status} with verdict {document['verdict']}"
        return
    if command == "fix":
        if (status == 1) != bool(document["ways"] or document["left"]):
            yield f"status {status} with {len(document['ways'])} ways"
        numbers = [w["number"] for w in document["ways"]]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"the ways are numbered {numbers}"
        for way in document["ways"]:
            if (way["unproved"] is None) != bool(way["proof"]) and way["reach"] != "start":
                yield f"way {way['number']} has neither a proof nor a reason, or both"
        return
    if command == "why":
        requests, expected = document["requests"], None
        if any(o["by"] is None for o in document["objects"][1:]):
            yield "only the main program has no object that asked for it"
    else:
        requests = [r for p in document["processes"] for r in p["requests"]]
        expected = {"ok": 0, "broken": 1, "unknown": 3}[document["verdict"]]
        if document["verdict"] == "unknown" and status in (0, 3):
            expected = status
    for request in requests:
        yield from step_faults(request)
    if expected is not None and status != expected:
        yield f"status {status} with verdict {document['verdict']}"


CRASH = """Traceback (most recent call last):
RuntimeError: Library libcublas.so.12 is not found or cannot be loaded
Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9}
"""


def run(exe, arguments):
    """`snapshot` prints nothing but JSON, and what stands behind `run` CMD is CMD's."""
    json_word = [] if arguments[0] == "snapshot" or "--json" in arguments else ["--json"]
    done = subprocess.run([str(exe), *map(str, arguments), *json_word], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def cases(top):
    """Trees and the commands that look at them."""
    env = tree.environment(top / "env")
    site = env / "lib/python3.11/site-packages"
    extension = site / "ctranslate2" / tree.EXTENSION
    cudnn = site / "nvidia/cudnn/lib/libcudnn.so.9"
    bare = top / "bare"
    (bare / "bin").mkdir(parents=True)
    (bare / "lib/python3.11/site-packages").mkdir(parents=True)
    shutil.copy(env / "pyvenv.cfg", bare)
    os.symlink("/usr/bin/python3", bare / "bin/python")
    short = top / "short.so"
    short.write_bytes(cudnn.read_bytes()[:200])
    odd = Path(os.fsdecode(os.fsencode(top) + b"/odd-\xff.so"))
    shutil.copy(cudnn, odd)
    lost = top / "lost.so"
    tree.library(top / "gone/libgone.so.1", "libgone.so.1")
    tree.library(lost, None, [top / "gone/libgone.so.1"])
    (top / "gone/libgone.so.1").unlink()
    gpu = top / "gpu"
    device = gpu / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (gpu / "proc").mkdir()
    for name, text in (("vendor", "0x10de"), ("device", "0x2684"), ("class", "0x030000")):
        (device / name).write_text(text + "\n")
    windows_host.replaced().write(top / "windows")
    python = "/usr/bin/python3"
    logs = [top / "crash.log", top / "disk.log", top / "odd.log"]
    logs[0].write_text(CRASH)
    logs[1].write_text("OSError: [Errno 28] No space left on device\n")
    logs[2].write_bytes(b"\xff\xfe\x00not a log\x1b[31m\n" * 3)
    return [("explain", [log]) for log in logs] + [
            ("explain", ["library-not-on-path"]), ("explain", ["--list"]),
            ("explain", logs), ("explain", [logs[0], "--here"]), ("explain", [logs[2], "--here"]),
            ("check", []), ("check", [env]), ("check", [env / "bin/python"]), ("check", [bare]),
            ("check", [extension]), ("check", [short]), ("check", [odd]), ("check", [lost]),
            ("check", [python]), ("check", ["--pid", os.getpid()]),
            ("check", [env, "--import", "ctranslate2"]),
            ("check", [env, "--device", "cpu"]),
            ("fix", [env]), ("fix", [bare]), ("fix", [lost]), ("fix", [short]), ("fix", [python]),
            ("fix", [env, "--import", "ctranslate2"]), ("fix", [odd]), ("fix", [env, "--in-process"]),
            ("run", ["--json", "--", "true"]), ("run", ["--json", "--device", "auto", "--", "true"]),
            ("run", ["--json", "--device", "cuda:7", "--", env / "bin/python", "-c",
                     "import ctranslate2"]),
            ("snapshot", [env]), ("snapshot", ["--redact", "--root", gpu]), ("snapshot", [lost]),
            ("snapshot", ["--pid", os.getpid()]),
            ("devices", []), ("devices", ["--root", gpu]), ("devices", ["--root", top / "windows"]),
            ("container", ["cdi", "--check"]), ("container", ["docker", env]),
            ("container", ["kubernetes", env, "--host", gpu]), ("check", [env, "--host", gpu]),
            ("container", ["cdi", "--check", "--host", gpu]), ("container", ["cdi", "--host", gpu]),
            ("container", ["cdi"]),
            ("probe", []), ("probe", ["--quick", "--env", "CUDA_VISIBLE_DEVICES="]),
            ("kb", ["which driver does CUDA 12.4 need"]), ("kb", ["what provides libnvrtc.so.12"]),
            ("kb", ["newest torch for an RTX 3060"]), ("kb", ["cudnn"]), ("kb", ["is the moon round"]),
            ("kb", ["newest", "ctranslate2", "--with", "cudnn=8"]),
            ("setup", ["torch"]), ("setup", ["faster-whisper", "--for", "rtx-3060-linux"]),
            ("choose", []), ("choose", ["--root", gpu, "--model", "turbo"]),
            ("choose", [env, "--model", "whisper:large-v3", "--require-gpu"]),
            ("choose", [env, "--memory-gib", "1000000"]),
            ("why", ["--exe", python]), ("why", ["--exe", lost]), ("why", ["--exe", odd]),
            ("why", ["--exe", short]),
            ("why", ["libcudnn_ops.so.9", "--exe", python, "--load", cudnn]),
            ("why", ["libcudnn_ops.so.9", "--exe", python, "--load", cudnn,
                     "--load", "libcudnn_ops.so.9@libcudnn.so.9"]),
            ("why", ["libc.so.6", "--caller", extension]),
            ("why", ["libgone.so.1", "--exe", python, "--load", "libnowhere.so.1"]),
            ("why", ["libcudnn_ops.so.9", "--exe", python,
                     "--env", f"LD_LIBRARY_PATH=:/nowhere:{cudnn.parent}"])]


# What acts on an environment, in this order, and what its document must say.
ACTS = [
    (["fix", "--list"], {"did": "list", "journals": []}),
    (["fix", "--undo"], {"did": "undo", "journal": None}),
    (["enable"], {"did": "apply", "result": "verified", "taken_back": False, "journal": 1}),
    (["fix", "--list"], {"did": "list"}),
    (["disable"], {"did": "undo", "journal": 1}),
    (["fix", "--apply"], {"did": "apply", "result": "verified", "taken_back": False}),
    (["fix", "--undo"], {"did": "undo"}),
    (["fix", "--list"], {"did": "list", "journals": []}),
]


def act_faults(exe, folder):
    """A line for each fault, with the arguments; the environment is that of the suite mend-apply."""
    world = apply.World(exe, folder)
    for words, wanted in ACTS:
        status, output, errors = run(exe, [words[0], world.prefix, *words[1:]])
        what = " ".join(words)
        try:
            document = json.loads(output.decode("utf-8"))
        except ValueError as e:
            yield what, [f"status {status}, not JSON ({e}): {errors[-300:]!r}"]
            continue
        faults = list(schema_faults("act.schema.json", document))
        faults += [f"{k} is {document.get(k)!r} instead of {v!r}" for k, v in wanted.items()
                   if document.get(k) != v]
        expected = 3 if wanted.get("journal", 1) is None else 0  # nothing to take back
        yield what, faults + ([] if status == expected else [f"status {status}"])
        for key in set(document) - {"schema"}:
            other = {k: v for k, v in document.items() if k != key}
            yield f"{what} without {key} is refused", \
                [] if list(schema_faults("act.schema.json", other)) else ["it was accepted"]


def spoiled(document):
    """Copies of a document of `why`, each with one promise broken."""
    for key in ("schema", "objects", "loads", "requests"):
        other = copy.deepcopy(document)
        del other[key]
        yield f"without {key}", other
    for key, value in (("outcome", "perhaps"), ("kind", None), ("steps", None), ("via", "luck")):
        other = copy.deepcopy(document)
        other["requests"][0][key] = value
        yield f"with requests/0/{key} = {value!r}", other
    other = copy.deepcopy(document)
    other["requests"][0]["steps"].append({"news": 1})
    yield "with a key that the schema does not name", other


def contained(exe):
    """A snapshot of a process in a container has two keys more, and check says what they hold."""
    document = json.loads(run(exe, ["snapshot", "--pid", os.getpid()])[1])
    document["host_facts"]["process"].update(container_engine="podman", container_id="5e" * 32)
    yield from schema_faults("snapshot.schema.json", document)
    done = subprocess.run([str(exe), "check", "--json", "--snapshot", "-"],
                          input=json.dumps(document).encode(), capture_output=True, timeout=60,
                          check=False)
    checked = json.loads(done.stdout)
    yield from schema_faults("check.schema.json", checked)
    if checked["target"]["container"] != {"engine": "podman", "id": "5e" * 32}:
        yield f"its container is {checked['target']['container']}"


def trace_faults(exe, folder):
    """The lines of `run --trace-file`; tests/watch/trace.py tries more of them."""
    folder.mkdir()
    record = folder / "trace.jsonl"
    subprocess.run([exe, "run", "--trace", "--trace-file", record, "--", "/usr/bin/python3", "-c",
                    "import ctypes, os\nos.environ['LD_LIBRARY_PATH'] = '/x'\nif os.fork():\n os.wait()\n"
                    "try:\n ctypes.CDLL('libno.so')\nexcept OSError:\n pass"],
                   env={**os.environ, "XDG_CACHE_HOME": str(folder)}, check=True,
                   stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    for i, line in enumerate(lines):
        yield f"line {i} of a trace", list(schema_faults("trace.schema.json", line))
    missing = {"start", "request", "candidate", "open", "dlopen", "dlerror", "setenv", "started",
               "fork", "end", "sum"} - {line["event"] for line in lines}
    yield "the events of a trace", [f"no line of {event}" for event in sorted(missing)]


def main():
    exe = Path(sys.argv[1]).resolve()
    passed = failed = 0
    last_why = None

    def count(what, faults):
        nonlocal passed, failed
        faults = list(faults)
        for fault in faults[:5]:
            print(f"FAIL {what}: {fault}")
        failed += bool(faults)
        passed += not faults

    for name, schema in sorted(SCHEMAS.items()):
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
            count(name, [])
        except jsonschema.SchemaError as e:
            count(name, [e.message])
    areas = sorted(p.stem for p in (HERE.parent / "kb").glob("*.json"))
    count("the areas of the knowledge base",
          [] if SCHEMAS["kb.schema.json"]["$defs"]["row"]["properties"]["area"]["enum"] == areas else [areas])
    with tempfile.TemporaryDirectory(prefix="gpumend-json.") as folder:
        short = Path(folder) / "short.so"
        cannot = [("why", ["--exe", short]), ("check", [short]), ("fix", [short])]
        for command, arguments in cases(Path(folder)):
            status, output, errors = run(exe, [command, *arguments])
            what = " ".join(map(ascii, map(str, [command, *arguments])))
            if status == 3 and not output and errors.strip() and (command, arguments) in cannot:
                count(what, [])  # could not look: a reason, and no document
                continue
            try:
                document = json.loads(output.decode("utf-8"))
            except ValueError as e:
                count(what, [f"status {status}, not JSON ({e}): {errors[-300:]!r}"])
                continue
            count(what, faults_of(command, status, document))
            if command not in VARIES:
                count(f"{what}, again", [] if run(exe, [command, *arguments])[1] == output
                      else ["the same question gave another answer"])
            if command == "why" and document.get("requests"):
                last_why = document
        for what, faults in act_faults(exe, Path(folder) / "acts"):
            count(what, faults)
        for what, faults in trace_faults(exe, Path(folder) / "trace"):
            count(what, faults)
    with tempfile.TemporaryDirectory(prefix="gpumend-json.") as folder:
        windows.make_tree(Path(folder))
        for name, arguments, *_ in windows.CASES:
            _, output, _ = run(exe, ["why", *arguments, "--root", folder, "--json", *windows.EXE])
            count(f"why for Windows: {name}",
                  schema_faults("why-windows.schema.json", json.loads(output.decode("utf-8"))))
    with tempfile.TemporaryDirectory(prefix="gpumend-json.") as folder:
        windows_check.no_runtime(Path(folder))
        _, output, _ = run(exe, ["check", "--root", folder, "--json"])
        count("check for Windows", schema_faults("check-windows.schema.json",
                                                 json.loads(output.decode("utf-8"))))
    with tempfile.TemporaryDirectory(prefix="gpumend-json.") as folder:
        env = tree.environment(Path(folder) / "env")
        for words in ([], ["--check", env, "--gpus", "64"], ["--root", env]):
            output = subprocess.run([exe, "export", "ndjson", *map(str, words)], capture_output=True, check=False).stdout
            count(f"export ndjson {len(words)}", schema_faults("node.schema.json", json.loads(output)))
    with tempfile.TemporaryDirectory(prefix="gpumend-json.") as folder:
        env = tree.environment(Path(folder) / "env")
        for words in ([], ["--on", "/", "--on", folder]):
            output = subprocess.run([exe, "needs", "/usr/bin/env", "--json", *words], capture_output=True,
                                    check=False).stdout
            variants = subprocess.run([exe, "variants", "--preview", "--json", *(words and words[:2])], capture_output=True, check=False)
            count(f"variants {len(words)}", schema_faults("variants.schema.json", json.loads(variants.stdout)))
            Path(folder, "lines").write_bytes(b"{\n" + b"\n".join(
                subprocess.run([exe, "export", "ndjson", "--node", name, "--gpus", gpus], capture_output=True, check=False).stdout
                for name, gpus in (("n1", "0"), ("n2", "0"), ("n3", "0"), ("n3", "64"), ("n4", "64"))))
            lines = subprocess.run([exe, "fleet", "report", Path(folder, "lines"), "--json"], capture_output=True, check=False)
            count(f"fleet {len(words)}", schema_faults("fleet.schema.json", json.loads(lines.stdout)))
            count(f"needs {len(words)}", schema_faults("needs.schema.json", json.loads(output)))
    count("a snapshot from a container", contained(exe))
    with tempfile.TemporaryDirectory(prefix="gpumend-json.") as folder:
        files = {}
        for name, program in (("before", "/bin/ls"), ("after", sys.executable)):
            files[name] = os.path.join(folder, name)
            with open(files[name], "wb") as file:
                subprocess.run([exe, "snapshot", program], stdout=file, check=True)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "compare", "arguments": files}}
        output = subprocess.run([exe, "mcp"], input=json.dumps(call).encode(), capture_output=True, check=True).stdout
        count("compare", schema_faults("compare.schema.json", json.loads(output)["result"]["structuredContent"]))
    count("every schema has a document", sorted(set(SCHEMAS) - USED))
    if last_why:
        for what, document in spoiled(last_why):
            count(f"a document {what} is refused",
                  [] if list(schema_faults("why.schema.json", document)) else ["it was accepted"])
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
