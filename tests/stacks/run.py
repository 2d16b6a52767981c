#!/usr/bin/env python3
"""The most installed GPU stacks, made as their documentation says: what check finds, and whether it is so.

    tests/stacks/run.py [--gpumend EXE] [--only NAME]... [--keep] [--envs DIR] [--list]

Each stack is installed into an environment of its own by uv (else pip), below
$GPUMEND_CACHE/stacks; the files are hard links into uv's cache, and the environment is removed after
its turn unless --keep is given. With --envs DIR the environments DIR/NAME are used as they are.

Every process that `gpumend check` models is replayed by the real loader in a child (replay.py):

  a finding of severity error or warning   a request that it is about fails in the child as well
  a request that a use needs, predicted    it opens in the child
    to be found

A finding that no request stands behind (a package that is missing, say) must be confirmed by an
import that fails. Tens of GiB are downloaded: this is not part of CI. Versions are those that the
index has today, so that new releases are seen; what was installed is printed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "scenarios"))
from store import GIB, cache_folder, folder_bytes  # noqa: E402

# name: what the documentation of each says to install
STACKS = {
    "faster-whisper": ["faster-whisper"],
    "cupy": ["cupy-cuda12x"],
    "numba-cuda": ["numba-cuda[cu12]"],
    "onnxruntime-gpu": ["onnxruntime-gpu[cuda,cudnn]"],
    "torch": ["torch"],
    "openai-whisper": ["openai-whisper"],
    "transformers": ["transformers", "torch"],
    "diffusers": ["diffusers", "torch"],
    "bitsandbytes": ["bitsandbytes"],
    "xformers": ["xformers"],
    "pyannote": ["pyannote.audio"],
    "whisperx": ["whisperx"],
    "flashinfer": ["flashinfer-python"],
    "deepspeed": ["torch", "deepspeed"],
    "jax": ["jax[cuda12]"],
    "tensorflow": ["tensorflow[and-cuda]"],
    "paddle": ["paddlepaddle-gpu"],
    "tensorrt": ["tensorrt"],
    "vllm": ["vllm"],
    "nemo": ["nemo_toolkit[asr]"],
}
FREE_BYTES = 10 * GIB   # must be free before a stack is installed
KNOWN = re.compile(r"^(?!nvidia-)")


class Cannot(Exception):
    """A stack that cannot be made here; the message says why."""


def run(command, timeout=1800, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          errors="surrogateescape", timeout=timeout, check=False, **more)


def install(env, requirements):
    if shutil.disk_usage(env.parent).free < FREE_BYTES:
        raise Cannot("less than %d GiB are free" % (FREE_BYTES // GIB))
    uv = os.environ.get("UV") or shutil.which("uv")
    python = env / "bin/python"
    made = run([uv, "venv", "-q", "--python", sys.executable, env] if uv
               else [sys.executable, "-m", "venv", env])
    if made.returncode == 0:
        made = run([uv, "pip", "install", "-q", "--python", python, *requirements] if uv
                   else [python, "-m", "pip", "-q", "install", *requirements])
    if made.returncode:
        raise Cannot(made.stderr.strip()[-300:])


def check(exe, env):
    done = run([exe, "check", "--json", env], timeout=300,
               env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
    if done.returncode not in (0, 1, 3):
        raise Cannot("check: status %d: %s" % (done.returncode, done.stderr))
    return json.loads(done.stdout)


class Replay:
    """One process in a child: errors[i] of attempt i, imports[name]."""

    def __init__(self, env, process):
        self.process = process
        with tempfile.NamedTemporaryFile(prefix="gpumend-replay-") as report:
            done = run([env / "bin/python", HERE / "replay.py", report.name], timeout=900,
                       input=json.dumps(process), cwd="/",
                       env={"PATH": "/usr/bin:/bin", "HOME": tempfile.gettempdir()})
            lines = [json.loads(x) for x in open(report.name, encoding="utf-8")]
        self.status = done.returncode
        self.imports = {x["import"]: x["error"] for x in lines if "import" in x}
        self.errors = {x["attempt"]: x["error"] for x in lines if "attempt" in x}

    def failed(self):
        """The words of every attempt and import that failed."""
        return [e for e in [*self.errors.values(), *self.imports.values()]
                if e and e != "unasked"]


def imports_of(text):
    return re.findall(r"import ([\w.]+)", text)


def shows_in(finding, process):
    own = [s[7:] for s in process["script"] if s.startswith("import ")]
    return not finding["scripts"] or any(imports_of(s) == own for s in finding["scripts"])


def is_confirmed(finding, replays):
    if any(e.startswith("foreseen: ") for e in finding["evidence"]):
        return True  # met only once another error is repaired: no child comes that far
    names = [finding["culprit"], *finding["likewise"]]
    return any(name in said for r in replays if shows_in(finding, r.process)
               for said in r.failed() for name in names)


def wrong_loads(replay):
    """Required requests that check predicts to be served, and the loader does not serve."""
    for index, attempt in enumerate(replay.process["attempts"]):
        error = replay.errors.get(index)
        served = attempt["outcome"] in ("loaded", "reused")
        if error == "unasked" and attempt["required"]:
            yield "%s: %s, which asks for it, is not mapped" % (attempt["names"][0],
                                                               attempt["caller"])
        elif attempt["required"] and served and error:
            yield "%s, asked for by %s: predicted %s, and: %s" % (
                attempt["names"][0], attempt["caller"], attempt["path"], error)


def judge(exe, env):
    document = check(exe, env)
    replays = [Replay(env, p) for p in document["processes"]]
    serious = [f for f in document["findings"] if f["severity"] != "note"]
    wrong = ["not confirmed: %s: %s" % (f["severity"], f["summary"]) for f in serious
             if not is_confirmed(f, replays)]
    wrong += sorted({line for r in replays for line in wrong_loads(r)})
    wrong += ["%s ended with status %d" % (r.process["script"], r.status) for r in replays
              if r.status]
    return document, serious, wrong, asked(replays)


def asked(replays):
    """How many requests were made in children, and how many of them failed."""
    errors = [e for r in replays for e in r.errors.values() if e != "unasked"]
    return len(errors), sum(1 for e in errors if e)


def tell(name, env, document, serious, wrong, requests):
    packages = ["%s %s" % (p["name"], p["version"]) for p in document["python"]["packages"]]
    print("%s %s: %s, %d processes, %d requests made, %d of them failed, %.1f GiB" % (
        "FAIL" if wrong else "PASS", name, document["verdict"], len(document["processes"]),
        *requests, folder_bytes(env) / GIB))
    print("     " + ", ".join(filter(KNOWN.match, packages)))
    for entry in document["entries"]:
        print("     entry %s: %s%s" % (entry["module"], entry["verdict"], ", part of %s" %
                                       entry["part_of"] if entry["part_of"] else ""))
    for f in serious:
        print("     %s: %s" % (f["severity"], f["summary"]))
    for line in wrong:
        print("     WRONG: " + line)
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpumend", default=str(TOP / "build/gpumend"), metavar="EXE")
    parser.add_argument("--only", action="append", choices=sorted(STACKS), metavar="NAME")
    parser.add_argument("--keep", action="store_true", help="leave the environments")
    parser.add_argument("--envs", type=Path, metavar="DIR", help="environments that are there")
    parser.add_argument("--list", action="store_true", help="print what is installed, and end")
    args = parser.parse_args()
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    folder = (args.envs or cache_folder() / "stacks").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for name, requirements in STACKS.items():
        if args.list:
            print("%-16s %s" % (name, " ".join(requirements)))
        if args.list or (args.only and name not in args.only):
            continue
        env = folder / name
        try:
            if not args.envs:
                shutil.rmtree(env, ignore_errors=True)
                install(env, requirements)
            elif not env.is_dir():
                raise Cannot("%s is not there" % env)
            judged = judge(os.path.abspath(args.gpumend), env)
            tell(name, env, *judged)
            counts["FAIL" if judged[2] else "PASS"] += 1
        except (Cannot, subprocess.TimeoutExpired) as error:
            print("SKIP %s: %s" % (name, error), flush=True)
            counts["SKIP"] += 1
        if not args.envs and not args.keep:
            shutil.rmtree(env, ignore_errors=True)
    print("%d passed, %d failed, %d skipped" % tuple(counts.values()))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
