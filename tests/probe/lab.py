"""What the files of this suite share: the fake libraries, and probes that run against them."""

import collections
import json
import os
import re
import subprocess
import threading
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

HERE = Path(__file__).resolve().parent
# What hides devices from a program, or starts one elsewhere: a test sets it or has none of it.
CLEARED = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
           "GPU_DEVICE_ORDINAL", "LD_LIBRARY_PATH", "LD_PRELOAD", "FAKE_GPU_TABLE")

PATIENCE = int(os.environ.get("GPUMEND_TEST_PATIENCE", "1"))   # how much slower this machine may be
SCHEMA = HERE.parent.parent / "docs/json/probe.schema.json"

Answer = collections.namedtuple("Answer", "status document out errors")


class Lab:
    """Builds fakes on demand, each variant in a folder of its own, and probes with them."""

    def __init__(self, exe, folder):
        self.exe = Path(exe).resolve()
        self.folder = Path(folder)
        self.lock = threading.Lock()
        self.schema_faults = []
        self.validator = jsonschema and jsonschema.Draft202012Validator(
            json.loads(SCHEMA.read_text()))

    def library(self, name, source, *flags, version=None):
        """The folder that holds the fake `name` (its soname) built from fake/`source`."""
        key = "-".join([name, source, *flags, version or ""]).replace("/", "_").replace(" ", "")
        folder = self.folder / "libraries" / key
        with self.lock:
            if folder.exists():
                return folder
            folder.mkdir(parents=True)
            real = f"{name.rsplit('.', 1)[0]}.{version}" if version else name
            subprocess.run(["gcc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC",
                            *flags, f"-Wl,-soname,{name}", "-o", folder / real,
                            HERE / "fake" / source], check=True)
            if real != name:
                (folder / name).symlink_to(real)
        return folder

    def driver(self, *flags):
        return self.library("libcuda.so.1", "cuda.c", *flags, version="550.54.15")

    def nvml(self, *flags):
        return self.library("libnvidia-ml.so.1", "nvml.c", *flags)

    def environment(self, folders, table=None, **variables):
        """A start environment in which the loader finds the libraries of `folders`."""
        env = {k: v for k, v in os.environ.items() if k not in CLEARED}
        env["LD_LIBRARY_PATH"] = ":".join(str(f) for f in folders)
        if table is not None:
            with self.lock:
                path = self.folder / f"table-{len(list(self.folder.glob('table-*')))}"
                path.write_text(table)
            env["FAKE_GPU_TABLE"] = str(path)
        env.update(variables)
        return env

    def probe(self, env, *arguments, timeout=120):
        """Runs a probe with --json; the document is None where none was printed."""
        done = subprocess.run([self.exe, "probe", "--json", *arguments], env=env, timeout=timeout,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="backslashreplace", check=False)
        document = json.loads(done.stdout) if done.stdout.startswith("{") else None
        if document and self.validator:
            self.schema_faults += [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}"
                                   for e in self.validator.iter_errors(document)]
        return Answer(done.returncode, document, done.stdout, done.stderr)

    def text(self, env, *arguments, timeout=120):
        """The same as a person sees it."""
        done = subprocess.run([self.exe, "probe", *arguments], env=env, timeout=timeout,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="backslashreplace", check=False)
        return Answer(done.returncode, None, done.stdout, done.stderr)


def stage(document, name, device="any"):
    """The stage of this name (and device), or {}."""
    for entry in document["stages"] if document else ():
        if entry["name"] == name and device in ("any", entry["device"]):
            return entry
    return {}


def differences(entry, **expected):
    """What is not as expected in a stage; `says` is a part of the sentence, or several."""
    for key, value in expected.items():
        if key == "says":
            for part in [value] if isinstance(value, str) else value:
                if part not in (entry.get("says") or ""):
                    yield f"{entry.get('name')}: \"{part}\" is not in \"{entry.get('says')}\""
        elif entry.get(key) != value:
            yield (f"{entry.get('name')}: {key} is {entry.get(key)!r}, not {value!r} "
                   f"({entry.get('says')})")


def case_faults(case, stage, document):
    """What differs from the answer that a case's row wants of its stage."""
    more = case.more
    if stage["outcome"] != case.outcome:
        yield f"{stage['outcome']}, not {case.outcome}: {stage['says']}"
    if not re.search(case.says, stage["says"] or ""):
        yield f"says: {stage['says']}"
    for key in ("code", "code_name", "last_call", "because"):
        if key in more and stage[key] != more[key]:
            yield f"{key} is {stage[key]!r}, not {more[key]!r}"
    for key, value in more.get("facts", {}).items():
        if stage["facts"].get(key) != value:
            yield f"the fact {key} is {stage['facts'].get(key)!r}, not {value!r}"
    blames = stage["means"] or ""
    if case.outcome == "crashed" and "is unknown" not in blames:
        yield f"a crash means: {blames}"
    if "not the driver" in blames or "is not at fault" in blames or "are not at fault" in blames:
        yield f"it clears what it has not looked at: {blames}"
    if "ms_min" in more and (stage["ms"] or 0) < more["ms_min"]:
        yield f"took {stage['ms']} ms"
    if "verdict" in more and document["verdict"] != more["verdict"]:
        yield f"verdict {document['verdict']}, not {more['verdict']}"
