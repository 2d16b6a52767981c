#!/usr/bin/python3
"""Questions to the knowledge base, answered by the executable.

    tests/kb/run.py GPUMEND

queries.json holds questions with parts of their answers and rows that they rest on, and questions
whose answer must be "not known" or "not understood". asked.jsonl holds questions in users' words, whose
truth was looked up before they were first asked: none may be answered wrong. Beside it: text and JSON agree, the exact form
of a question has the same answer, another folder of data replaces
an area and nothing else, damaged data is refused with the file and the reason, and kb-refresh
reads requirements and markers as the packaging specifications have them.
"""
import importlib.machinery
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
DATA = TOP / "kb"


def ask(exe, *words):
    done = subprocess.run([exe, "kb", *words], capture_output=True, text=True, timeout=30,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def document(exe, question, *options):
    status, out, err = ask(exe, "--json", *options, "--", question)
    return status, json.loads(out) if out else None, err


def shape_faults(status, doc):
    if doc is None or set(doc) - {"read_as"} != {"schema", "known", "answer", "source", "rows"}:
        yield f"the document has {sorted(doc or [])}"
        return
    if doc["schema"] != 1 or doc["known"] != (status == 0):
        yield f"schema {doc['schema']}, known {doc['known']}, status {status}"
    if doc["known"] and not (doc["rows"] and doc["answer"]):
        yield "an answer without rows"
    for row in doc["rows"]:
        if not (row["area"] and row["id"] and row["source"] and row["date"]):
            yield f"a row without origin: {row.get('id')}"
        if doc["source"] and not set(row["source"]) <= set(doc["source"]):
            yield f"{row['id']}: its source is not among those of the answer"


def known_faults(exe, case):
    status, doc, err = document(exe, case["ask"])
    faults = list(shape_faults(status, doc))
    if faults or err:
        yield from faults + [err] * bool(err)
        return
    rows = {f"{r['area']}/{r['id']}" for r in doc["rows"]}
    for text in case["says"]:
        if text not in doc["answer"]:
            yield f"does not say {text!r}: {doc['answer'][:300]}"
    for text in case.get("never", []):
        if text in doc["answer"]:
            yield f"says {text!r}: {doc['answer'][:300]}"
    for row in case.get("rows", []):
        if row not in rows:
            yield f"does not rest on {row}, but {sorted(rows)[:8]}"
    for row in case.get("not", []):
        if row in rows:
            yield f"rests on {row}"
    if not case["ask"].startswith("rows "):
        yield from form_faults(exe, case["ask"], doc)


def form_faults(exe, question, doc):
    """The first line of the text is the exact form, which asks the same."""
    text = ask(exe, "--", question)[1].split("\n", 1)
    if text[0] != "read as: " + doc.get("read_as", ""):
        yield f"read as {doc.get('read_as')!r}, but the text begins with {text[0]!r}"
        return
    if doc["answer"].split() != text[1].split("\n  source:")[0].split():
        yield f"text and JSON differ: {text[1][:200]}"
    again = ask(exe, "--json", *shlex.split(doc["read_as"]))
    if not again[1] or json.loads(again[1])["answer"] != doc["answer"]:
        yield f"its exact form {doc['read_as']!r} answers {again[1][:300]!r}, {again[2][:100]!r}"


def not_known_faults(exe, case):
    """A question that must not be answered, and what is said instead."""
    question, says = (case, []) if isinstance(case, str) else (case["ask"], case["says"])
    status, doc, err = document(exe, question) if question else document(exe, " ")
    yield from shape_faults(status, doc)
    if status != 3 or not doc["answer"].startswith(("not known", "not understood")) or \
            doc["rows"] or doc["source"] or err:
        yield f"status {status}: {doc['answer'][:200]}"
    for text in says:
        if text not in doc["answer"]:
            yield f"does not say {text!r}: {doc['answer'][:300]}"


def asked_faults(exe, case):
    """`known`: answered when it was last measured. What is not known may be answered later."""
    status, doc, err = document(exe, case["ask"])
    yield from shape_faults(status, doc)
    if err or status not in (0, 3) or (case["known"] and status == 3):
        yield f"status {status}: {doc['answer'][:200]}"
    if status == 0:
        for text in case["says"]:
            if text not in doc["answer"]:
                yield f"the truth is {case['truth']!r}, but: {doc['answer'][:300]}"


def with_faults(exe):
    for words, status, says in (
            (("newest", "ctranslate2", "--with", "cudnn=8"), 0, "4.4.0"),
            (("--with", "gpu=RTX 5090"), 0, "sm_120"),
            (("cuda", "--with", "torch=2.5.1", "--with", "cuda=12.1"), 0, "cu121"),
            (("cudnn", "--with", "onnxruntime-gpu=1.2..1.4"), 0, "7.6.5"),
            (("driver", "--with", "colour=red"), 2, "no such key"),
            (("driver", "--with", "cuda=red"), 2, "not a value of cuda"),
            (("driver", "--with", "gpu=RTX 9999"), 2, "not a value of gpu"),
            (("driver", "--with", "os=beos"), 2, "not one of its values"),
            (("driver", "--with", "cuda"), 2, "KEY=VALUE"),
            (("arch", "x", "--with", "cuda=12"), 2, "belongs to a question")):
        got, out, err = ask(exe, *words)
        if got != status or says not in out + err:
            yield f"{words}: status {got}, {out[:120]!r}, {err[:120]!r}"
    keys = ask(exe, "--keys")[1].splitlines()
    if not any(line.startswith("torch ") and " 2.5.1 " in line for line in keys):
        yield "--keys does not show the releases of torch"
    for line in ("cuda", "gpu", "os linux windows wsl jetson", "machine x86-64 aarch64"):
        if line not in keys:
            yield f"--keys does not show {line!r}: {keys}"


def command_faults(exe):
    for words, status in (((), 2), (("--nothing",), 2), (("--help",), 0), (("--forms",), 0),
                          (("--kb", "/nowhere", "cuda", "12.4"), 3)):
        got, out, err = ask(exe, *words)
        if got != status or bool(err) != (status != 0) or bool(out) != (status == 0):
            yield f"{words}: status {got}, {out[:80]!r}, {err[:80]!r}"
    for example in ask(exe, "--forms")[1].splitlines():
        if ask(exe, *example.split())[0] != 0:
            yield f"the example {example!r} is not answered"
        if example not in (TOP / "docs/kb.md").read_text(encoding="utf-8"):
            yield f"docs/kb.md does not show {example!r}"


# ---------------------------------------------------------------- another folder

ROW = {"id": "cuda-12.4.0", "kind": "toolkit", "cuda": "12.4.0", "title": "CUDA 12.4",
       "linux": "999.1", "evidence": "read", "source": ["here"], "date": "2026-01-01"}


def areas(rows, **more):
    return dict({"schema": 1, "area": "drivers", "rows": rows}, **more)


def folder_faults(exe):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "drivers.json")
        path.write_text(json.dumps(areas([ROW])))
        doc = document(exe, "which driver does CUDA 12.4 need", "--kb", folder)[1]
        if "999.1" not in doc["answer"] or "here" not in doc["source"]:
            yield f"the folder's area is not used: {doc['answer']}"
        if not document(exe, "cuda error 35", "--kb", folder)[1]["known"]:
            yield "an area without a file in the folder is lost"
        if document(exe, "which driver does CUDA 12.5 need", "--kb", folder)[1] != document(
                exe, "which driver does CUDA 12.5 need")[1]:
            yield "a built-in row that the folder does not replace is lost"
        path.write_text(json.dumps(areas([ROW], whole=True)))
        if document(exe, "which driver does CUDA 12.5 need", "--kb", folder)[1]["known"]:
            yield "an area that says it is whole has other rows"
        lint = subprocess.run([exe, "kb", "lint", folder], capture_output=True, text=True, timeout=30,
                              check=False)
        if (lint.returncode, lint.stdout) != (0, "rows: 1; no problems\n"):
            yield f"kb lint of one row: {lint}"
        path.write_text(json.dumps(areas([ROW, dict(ROW, id="e"), dict(ROW, id="f", colour="red")]),
                                   indent=1))
        line = path.read_text().split("\n").index('   "id": "f",')  # the brace above it, from 1 on
        lint = subprocess.run([exe, "kb", "lint", folder], capture_output=True, text=True, timeout=30,
                              check=False)
        said = f'{path}:{line}: row f: unknown key "colour"\n'
        if (lint.returncode, lint.stdout) != (1, said):
            yield f"kb lint of a wrong row: {lint}, and not {said}"
        Path(folder, "driver.json").write_text(path.read_text())
        status, _, err = ask(exe, "--kb", folder, "cuda error 35")
        if status != 3 or "/driver.json: no area has this name" not in err:
            yield f"a file that is no area: {status}, {err}"
        Path(folder, "driver.json").unlink()
        short = {k: v for k, v in ROW.items() if k not in ("source", "date")}
        defaults = {"source": ["x"], "date": "2026-01-01"}
        path.write_text(json.dumps(areas([short], defaults=defaults)))
        if "x" not in document(exe, "which driver does CUDA 12.4 need", "--kb", folder)[1]["source"]:
            yield "defaults of the document are not taken"


def damaged():
    good = json.dumps(areas([ROW]))
    yield "empty", ""
    yield "no JSON", "{"
    yield "not an object", "[]"
    yield "another schema", good.replace('"schema": 1', '"schema": 2')
    yield "another area", good.replace('"area": "drivers"', '"area": "gpus"')
    yield "whole is no boolean", json.dumps(areas([ROW], whole=1))
    yield "rows are no list", json.dumps(areas({}))
    yield "a row is no object", json.dumps(areas([7]))
    yield "a key twice", good.replace('"linux"', '"linux": "1", "linux"')
    yield "an unknown key", json.dumps(areas([dict(ROW, colour="red")]))
    yield "no source", json.dumps(areas([dict(ROW, source=[])]))
    yield "a number for a text", json.dumps(areas([dict(ROW, linux=550)]))
    yield "an unknown word", json.dumps(areas([dict(ROW, kind="other")]))
    yield "twice the same id", json.dumps(areas([ROW, ROW]))
    yield "ids descend", json.dumps(areas([dict(ROW, id="b"), dict(ROW, id="a")]))
    yield "deep", "[" * 100000
    yield "too many values", '{"schema": 1, "area": "drivers", "rows": [' + "{}," * 300000 + "{}]}"
    yield "a zero in a text", good.replace("CUDA 12.4", "CUDA\\u0000")
    yield "not UTF-8", good.encode().replace(b"CUDA 12.4", b"CUDA \xff")
    for end in range(0, len(good), 7):
        yield f"cut at {end}", good[:end]


def damage_faults(exe):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "drivers.json")
        for name, content in damaged():
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            status, out, err = ask(exe, "--kb", folder, "which driver does CUDA 12.4 need")
            if status != 3 or out or "drivers.json" not in err or len(err.splitlines()) != 1:
                yield f"{name}: status {status}, {out[:60]!r}, {err[:200]!r}"
        path.unlink()
        yield from unread_faults(exe, folder)


def unread_faults(exe, folder):
    """A file that cannot be used is said by each command, also by one that asks another area."""
    for area in ("releases", "drivers", "words", "sizes", "models"):
        path = Path(folder, f"{area}.json")
        path.write_text(json.dumps({"schema": 1, "area": area, "rows": [{"id": 7}]}))
        for words in (["explain", "--", "no such words"], ["kb", "cuda error 35"], ["kb", "--keys"],
                      ["check", "/bin/true"], ["setup", "torch"]):
            if area == "words" and words[0] != "explain":
                continue  # which alone has a use for them
            done = subprocess.run([exe, *words[:1], "--kb", folder, *words[1:]], capture_output=True,
                                  text=True, timeout=60, check=False)
            if done.returncode != 3 or f"{path}:" not in done.stderr:
                yield f"{area}.json, {words}: status {done.returncode}: {done.stdout[:60]}{done.stderr}"
        path.unlink()


# ---------------------------------------------------------------- what kb-refresh reads

def refresh_module():
    loader = importlib.machinery.SourceFileLoader("kb_refresh", str(TOP / "scripts/kb-refresh"))
    spec = importlib.util.spec_from_loader("kb_refresh", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


REQUIREMENTS = {
    "nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == \"Linux\" and "
    "platform_machine == \"x86_64\"":
        {"package": "nvidia-cudnn-cu12", "versions": "==9.1.0.70"},
    "cuda-toolkit[cublas,cudart]==13.2.2; platform_system == \"Linux\"":
        {"package": "cuda-toolkit", "versions": "==13.2.2"},
    "triton~=3.9.0; platform_system == \"Linux\" and python_version < \"3.16\"":
        {"package": "triton", "versions": "~=3.9.0", "when": "python_version < '3.16'"},
    "pywin32; sys_platform == 'win32'": None,
    "x; sys_platform == 'win32' and python_version < '3.9'": None,
    "x; sys_platform != 'darwin' or platform_machine == 'arm64'": {"package": "x"},
    "x; (platform_machine == 'aarch64' or platform_machine == 'x86_64') and os_name == 'posix'":
        {"package": "x"},
    "nvidia-cublas-cu12>=12.1.3.1 ; extra == 'with_cuda'":
        {"package": "nvidia-cublas-cu12", "versions": ">=12.1.3.1", "extra": "with_cuda"},
    "Huggingface_Hub (>=0.13, <1)": {"package": "huggingface-hub", "versions": "<1,>=0.13"},
    "x @ https://example.org/x.whl": None,
}
WHEELS = {"torch-2.15.0-cp312-cp312-manylinux_2_28_x86_64.whl": "2.28",
          "ctranslate2-4.5.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl": "2.17",
          "torch-2.5.1-cp311-cp311-manylinux1_x86_64.whl": "2.5",
          "x-1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl": "2.27",
          "faster_whisper-1.2.1-py3-none-any.whl": None}


def refresh_faults(_exe):
    module = refresh_module()
    for text, expected in REQUIREMENTS.items():
        if module.requirement(text) != expected:
            yield f"{text}: {module.requirement(text)}"
    for name, expected in WHEELS.items():
        if module.glibc_of(name) != expected:
            yield f"{name}: glibc {module.glibc_of(name)}"
    path = DATA / "releases.json"
    rows = {r["id"]: r for r in json.loads(path.read_text(encoding="utf-8"))["rows"]}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "releases.json")
        module.write(str(copy), rows)
        if copy.read_bytes() != path.read_bytes():
            yield "kb/releases.json is not as kb-refresh writes it"
    for row in rows.values():
        derived = (module.cuda_of(row["package"], row["needs"]),
                   module.pinned(row["needs"], r"nvidia-cudnn(-cu\d+)?$"))
        if derived != (row.get("cuda"), row.get("cudnn")):
            yield f"{row['id']}: {derived} follows from its needs"
        if not set(row["pythons"]) <= set(module.PYTHONS):
            yield f"{row['id']}: {row['pythons']}"


# ---------------------------------------------------------------- the data itself

def spoiled_faults(_exe):
    """kb-check.py refuses what it promises to refuse; else it would prove nothing."""
    spoil = {
        "drivers": lambda rows: rows[40].update(linux="9999.1") or rows,
        "toolkits": lambda rows: rows[3]["sm"].reverse() or rows,
        "gpus": lambda rows: rows[5].update(capability="8.8", vendor="amd") or rows,
        "builds": lambda rows: [dict(rows[0], id="aa-twin")] + rows,
        "releases": lambda rows: [r for r in rows if r["package"] != "vllm"],
        "errors": lambda rows: rows[7].update(code=9999) or rows,
        "rocm": lambda rows: [dict(r, kfd=r["kfd"] + 1) if "kfd" in r else r for r in rows],
        "models": lambda rows: [{k: v for k, v in r.items() if k != "memory_mib"} for r in rows],
        "glibc": lambda rows: rows[0].update(source=[]) or rows,
        "cudnn": lambda rows: list(reversed(rows)),
    }
    for area, change in spoil.items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cp", "-r", f"{DATA}/.", folder], check=True)
            path = Path(folder, f"{area}.json")
            data = json.loads(path.read_text(encoding="utf-8"))
            data["rows"] = change(data["rows"])
            path.write_text(json.dumps(data), encoding="utf-8")
            done = subprocess.run([sys.executable, TOP / "tests/kb-check.py", folder],
                                  capture_output=True, text=True, check=False)
            if done.returncode == 0 or not re.search(rf"^kb/{area}\.json: ", done.stdout, re.M):
                yield f"{area}: spoiled data passes: {done.stdout[:200]}"


def main():
    exe = str(Path(sys.argv[1]).resolve())
    table = json.loads((HERE / "queries.json").read_text(encoding="utf-8"))
    checks = [(case["ask"], lambda e, c=case: known_faults(e, c)) for case in table["known"]]
    checks += [(str(q), lambda e, q=q: not_known_faults(e, q)) for q in table["not_known"]]
    asked = (HERE / "asked.jsonl").read_text(encoding="utf-8").splitlines()
    checks += [(case["ask"], lambda e, c=case: asked_faults(e, c)) for case in map(json.loads, asked)]
    checks += [("the command", command_faults), ("the exact form", with_faults), ("another folder", folder_faults),
               ("damaged data", damage_faults), ("kb-refresh", refresh_faults),
               ("spoiled data", spoiled_faults)]
    failed = 0
    for name, check in checks:
        faults = list(check(exe))
        failed += bool(faults)
        for fault in faults:
            print(f"FAIL {name}: {fault}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
