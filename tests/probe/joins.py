"""The probe in the other commands: check --probe, choose --probe, run --verify, fix --apply."""

import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import machine
from machine import Machine, TESTS

import jsonschema

SCHEMAS = {p.name: json.loads(p.read_text()) for p in (TESTS.parent / "docs/json").glob("*.json")}
STORE = {schema["$id"]: schema for schema in SCHEMAS.values()}


def schema_faults(name, document):
    schema = SCHEMAS[name + ".schema.json"]
    validator = jsonschema.Draft202012Validator(
        schema, resolver=jsonschema.RefResolver.from_schema(schema, store=STORE))
    for error in validator.iter_errors(document):
        yield f"{name}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"


# ------------------------------------------------------------------ the machines

MACHINES = {}


def cuda_env(t):
    """ctranslate2 with cuBLAS where the loader looks."""
    t.python().ctranslate2()
    t.system_cublas()


def bare_env(t):
    t.python()


def rocm_env(t):
    """torch for ROCm, whose libraries are where the loader looks."""
    t.python()
    t.torch_for("hip", "6.2.41133", version="2.5.1+rocm6.2",
                needed=["libamdhip64.so.6", "libhiprtc.so.6", "libhipblas.so.2"])


def no_env(t):
    """Python is this machine's own."""
    for path in ("/usr/lib/os-release", "/usr/bin/env"):
        t.remove(path)


def fake_cublas(lab):
    """Folder and name of both libraries; the first needs the second."""
    lt = lab.library("libcublasLt.so.12", "cublaslt.c")
    return [(lab.library("libcublas.so.12", "cublas.c", "-Wl,--no-as-needed",
                         str(lt / "libcublasLt.so.12")), "libcublas.so.12"),
            (lt, "libcublasLt.so.12")]


def nvidia_machine(lab, count, install):
    name = f"nvidia{count}-{install.__name__}"
    if name not in MACHINES:
        m = Machine(lab, name, machine.nvidia(count), install).drivers()
        if install is cuda_env:
            for folder, library in fake_cublas(lab):
                m.put_fake(machine.SYSTEM + "/" + library, folder / library)
        MACHINES[name] = m
    return MACHINES[name]


def amd_machine(lab):
    """The program links every library of ROCm; /dev/kfd is answered by a preloaded library."""
    if "amd" not in MACHINES:
        import amd
        folder = lab.folder / "amd"
        if not folder.exists():
            folder.mkdir()
            amd.build(folder)
        m = MACHINES["amd"] = Machine(lab, "amd", machine.amd(), rocm_env)
        shutil.copytree(folder / "plain", m.top / "opt/app")
        shutil.copy(folder / "kfd.so", m.top / "kfd.so")
        for name in amd.LIBRARIES:
            m.put_fake(machine.SYSTEM + "/" + name, folder / "plain" / name)
        subprocess.run(["cc", "-o", m.top / "opt/app/show", m.top / "show.c", "-Wl,--no-as-needed",
                        *(folder / "plain" / name for name in amd.LIBRARIES),
                        "-Wl,-rpath,$ORIGIN"], check=True)
    return MACHINES["amd"]


# ------------------------------------------------------------------ choose --probe

TWO = "cards value 2\n"
# cards, environment, table, arguments, status, keys of the document, what the reason says
CHOICES = {
    "all works": (2, cuda_env, TWO, [], 0, {
        "device": "cuda", "index": 0, "compute_type": "float16", "fits": "yes"}, "CUDA|cuda"),
    # 8 GiB are free of the fake card, in which the model fits in float16 or with weights of 8 bits.
    "float16 is wrong": (1, cuda_env, "format-2 wrong", [], 0, {
        "device": "cuda", "compute_type": "int8_float32"}, "cuda 0"),
    "float16 is wrong and there is room": (1, cuda_env, "format-2 wrong", ["--memory-gib", "4"], 0, {
        "device": "cuda", "compute_type": "float32"}, "cuda 0"),
    "int8 is wrong": (1, cuda_env, "format-3 wrong", [], 0, {
        "device": "cuda", "compute_type": "float16"}, "cuda 0"),
    "float16 and int8 are wrong": (1, cuda_env, "format-2 wrong\nformat-3 wrong", [], 0, {
        "device": "cpu", "fallback": True, "cause": "too-small"}, "in float32"),
    "one of the libraries refuses all": (1, cuda_env, "cublasLtMatmul return 15", [], 0, {
        "device": "cpu", "cause": "probe-failed"}, "cublasLtMatmul failed"),
    "float32 and float16 are wrong": (1, cuda_env, "format-0 wrong\nformat-2 wrong", [], 0, {
        "device": "cpu", "fallback": True, "cause": "no-compute-type"}, "no compute type"),
    "the first card is broken": (2, cuda_env, TWO + "card-0 return 719", [], 0, {
        "device": "cuda", "index": 1, "compute_type": "float16"}, "cuda 1"),
    "both cards are broken": (2, cuda_env, TWO + "card-0 return 719\ncard-1 return 719", [], 0, {
        "device": "cpu", "fallback": True, "cause": "probe-failed"}, "the probe failed on it"),
    "a GPU is required": (1, cuda_env, "cuLaunchKernel wrong", ["--require-gpu"], 1, {
        "device": None, "cause": "probe-failed", "verdict": "broken"}, "A GPU is required"),
    "the driver does not start": (1, cuda_env, "cuInit return 999", [], 0, {
        "device": "cpu", "cause": "probe-failed"}, "not come as far as this GPU: cuInit failed"),
    "the driver crashes": (1, cuda_env, "cuInit abort", [], 0, {
        "device": "cpu", "cause": "probe-failed"}, "signal 6"),
    "the memory is taken": (1, cuda_env, "cuMemGetInfo_v2 value 900", [], 0, {
        "device": "cpu", "cause": "too-small"}, "it has 900 MiB|it has 0.9 GiB"),
    "nothing multiplies": (1, bare_env, "", [], 0, {
        "device": "cpu", "cause": "probe-failed"}, "no library of the environment has multiplied"),
}


def chooses(lab, row):
    cards, install, table, arguments, status, keys, says = row
    m = nvidia_machine(lab, cards, install)
    done = m.run("choose", "/opt/venv", "--probe", "--model", "whisper:large-v3", "--json",
                 *arguments, table=table)
    if done.returncode != status or not done.stdout:
        yield f"status {done.returncode}: {done.stdout}{done.stderr}"
        return
    document = json.loads(done.stdout)
    yield from schema_faults("choose", document)
    for key, value in keys.items():
        if document[key] != value:
            yield f"{key} is {document[key]!r}, not {value!r}: {document['reason']}"
    if not re.search(says, document["reason"]):
        yield f"reason: {document['reason']}"
    if "format-2 wrong" in table and document["device"] == "cuda" and \
            not any(n.startswith("float16 is not offered") for n in document["notes"]):
        yield f"notes: {document['notes']}"


def choose_believes(lab):
    """Without --probe the same machine has the GPU chosen, which shows what --probe is for."""
    m = nvidia_machine(lab, 1, cuda_env)
    done = m.run("choose", "/opt/venv", "--json", table="cuLaunchKernel wrong")
    if json.loads(done.stdout)["device"] != "cuda":
        yield done.stdout
    done = m.run("choose", "--root", "/", "--probe")
    if done.returncode != 2 or "not with --root" not in done.stderr:
        yield f"--root: status {done.returncode}: {done.stderr}"


# table, keys of the document, what the reason says
ROCM_CHOICES = {
    "all works": ("", {"device": "rocm", "index": 0, "compute_type": "float16"}, "rocm 0"),
    "float16 is read as bfloat16": ("types wrong", {"device": "rocm", "compute_type": "float32"},
                                    "rocm 0"),
    "the kernel is wrong": ("hipModuleLaunchKernel wrong",
                            {"device": "cpu", "cause": "probe-failed"}, "computed a wrong result"),
    "rocBLAS has no kernels": ("hipblasCreate abort", {"device": "cpu", "cause": "probe-failed"},
                               "signal 6"),
    "kfd is closed": ("kfd-open return 13", {"device": "cpu", "cause": "probe-failed"},
                      "not come as far as this GPU: user 0 may not open /dev/kfd"),
}


def chooses_rocm(lab, row):
    table, keys, says = row
    done = amd_machine(lab).run("choose", "/opt/venv", "--probe", "--json", table=table,
                                LD_PRELOAD="/kfd.so")
    document = json.loads(done.stdout)
    yield from schema_faults("choose", document)
    for key, value in keys.items():
        if document[key] != value:
            yield f"{key} is {document[key]!r}, not {value!r}: {document['reason']}"
    if not re.search(says, document["reason"]):
        yield f"reason: {document['reason']}"


# ------------------------------------------------------------------ check --probe

def check(m, *arguments, table="", **variables):
    done = m.run("check", *arguments, "--probe", "--json", table=table, **variables)
    document = json.loads(done.stdout)
    return done.returncode, document, document["probe"]


def check_works(lab):
    m = nvidia_machine(lab, 1, cuda_env)
    status, document, probe = check(m, "/opt/venv")
    yield from schema_faults("check", document)
    if status != 0 or probe["verdict"] != "works" or document["verdict"] != "ok":
        yield f"status {status}, {document['verdict']}, {probe['verdict']}: {probe['says']}"
    passed = [s["name"] for s in probe["stages"] if s["outcome"] == "passed"]
    for name in ("kernel", "cublas-float16", "cublaslt-int8"):
        if name not in passed:
            yield f"{name} is not among {passed}"
    if "schema" in probe or "target" in probe:
        yield "the head of a document stands within another"
    text = m.run("check", "/opt/venv", "--probe")
    if not re.search(r"^probe    \d+ stages passed", text.stdout, re.M):
        yield f"text: {text.stdout}"
    plain = json.loads(m.run("check", "/opt/venv", "--json").stdout)
    if "probe" in plain or plain["findings"] != document["findings"]:
        yield "without --probe the document is another"


def check_fails(lab):
    m = nvidia_machine(lab, 1, cuda_env)
    status, document, probe = check(m, "/opt/venv", table="cuLaunchKernel wrong")
    if status != 1 or probe["verdict"] != "broken" or probe["first_failure"] != "kernel":
        yield f"status {status}: {probe['verdict']}, {probe['first_failure']}"
    if not probe["says"].startswith("GPU 0: kernel: "):
        yield f"says {probe['says']}"
    text = m.run("check", "/opt/venv", "--probe", table="cuLaunchKernel wrong").stdout
    if not re.search(r"^  failed     GPU 0: kernel: .*\n(.*\n)*First failure: GPU 0: kernel", text,
                     re.M):
        yield f"text: {text}"


def check_explains(lab):
    """A device node that is missing, and what makes it: the finding explains why cuInit fails."""
    m = nvidia_machine(lab, 2, cuda_env)
    for name in ("dev/nvidiactl", "usr/bin/nvidia-modprobe"):
        (m.top / name).rename(m.top / Path(name).name)
    try:
        status, document, probe = check(m, "/opt/venv", table=TWO + "cuInit return 999")
        causes = [f["cause"] for f in document["findings"] if f["severity"] == "error"]
        stage = next(s for s in probe["stages"] if s["name"] == "driver-init")
        if status != 1 or not causes or stage["explained_by"] != causes[0]:
            yield f"status {status}, {causes}, explained by {stage['explained_by']}"
        text = m.run("check", "/opt/venv", "--probe", table=TWO + "cuInit return 999").stdout
        if not causes or f"explained by {causes[0]}, above" not in text:
            yield f"text: {text}"
        for s in probe["stages"]:
            if s["outcome"] == "passed" and s["explained_by"]:
                yield f"{s['name']} passed and is explained"
    finally:
        for name in ("dev/nvidiactl", "usr/bin/nvidia-modprobe"):
            (m.top / Path(name).name).rename(m.top / name)


def check_library(lab):
    """A damaged cuBLAS: the finding about the file explains why its stage fails."""
    m = nvidia_machine(lab, 1, cuda_env)
    path = m.top / (machine.SYSTEM.lstrip("/") + "/libcublas.so.12")
    good = path.read_bytes()
    try:
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
        status, document, probe = check(m, "/opt/venv")
        stage = next(s for s in probe["stages"] if s["name"] == "cublas")
        causes = {f["cause"] for f in document["findings"] if f["severity"] == "error"}
        if stage["outcome"] != "failed" or stage["explained_by"] not in causes:
            yield f"{stage['outcome']}, explained by {stage['explained_by']}, findings {causes}"
        text = m.run("check", "/opt/venv", "--probe").stdout
        if status != 1 or text.count("explained by") != 1:
            yield f"status {status}: {text}"
    finally:
        path.write_bytes(good)


def check_amd(lab):
    m = amd_machine(lab)
    status, document, probe = check(m, "/opt/app/program", LD_PRELOAD="/kfd.so")
    yield from schema_faults("check", document)
    passed = {s["name"] for s in probe["stages"] if s["outcome"] == "passed"}
    wanted = {"kfd", "hsa", "hip-init", "hip-memory", "hiprtc-kernel", "hipblas-float16",
              "miopen-convolution"}
    if status != 0 or probe["verdict"] != "works" or not wanted <= passed:
        yield f"status {status}, {probe['says']}, passed {sorted(passed)}"
    if any(s["name"].startswith("driver-") for s in probe["stages"]):
        yield "NVIDIA's stages are run on a machine of AMD"
    status, document, probe = check(m, "/opt/app/program", LD_PRELOAD="/kfd.so",
                                    table="kfd-open return 13\nkfd-mode value 660")
    if status != 1 or probe["first_failure"] != "kfd":
        yield f"kfd forbidden: status {status}, {probe['says']}"


def check_refuses(lab):
    exe = str(lab.exe)
    for arguments in (["--root", "/"], ["--pid", "1"], ["--snapshot", "/dev/null"]):
        done = subprocess.run([exe, "check", "--probe", *arguments], capture_output=True, text=True,
                              check=False, timeout=60)
        if done.returncode != 2 or "--probe runs on this machine" not in done.stderr:
            yield f"{arguments}: status {done.returncode}: {done.stderr}"


# ------------------------------------------------------------------ run --verify

# cards, table, options, variables, status, standard output, standard error
STARTS = {
    "all works": (2, TWO, [], {}, 0, "cuda=unset hip=unset", r"^$"),
    "one card is broken": (2, TWO + "card-1 return 719", [], {}, 0, "cuda=0 hip=unset",
                           "--verify: a GPU is hidden that did not pass: GPU 1: context"),
    "one card of a list is broken": (2, TWO + "card-0 return 719", [],
                                     {"CUDA_VISIBLE_DEVICES": "1,0"}, 0, "cuda=1 hip=unset",
                                     "a GPU is hidden that did not pass"),
    "no card works": (2, TWO + "cuLaunchKernel wrong", [], {}, 0, "cuda=-1 hip=unset",
                      "--verify: no GPU passed, the CPU is used: GPU 0: kernel"),
    "the driver does not start": (1, "cuInit return 999", [], {}, 0, "cuda=-1 hip=unset",
                                  "the CPU is used: cuInit: cuInit failed"),
    "auto falls back": (1, "cuLaunchKernel wrong", ["--device", "auto"], {}, 0,
                        "cuda=-1 hip=unset", "the CPU is used"),
    "a GPU is required": (1, "cuLaunchKernel wrong", ["--require-gpu"], {}, 1, "",
                          "run: not started: no GPU passed the probe: GPU 0: kernel"),
    "a GPU is required and there": (2, TWO + "card-0 return 719", ["--require-gpu"], {}, 0,
                                    "cuda=1 hip=unset", "a GPU is hidden"),
    "a GPU is asked for": (1, "cuInit return 999", ["--device", "cuda"], {}, 1, "",
                           "run: not started: no GPU passed"),
    "the one that is asked for is broken": (2, TWO + "card-1 return 719", ["--device", "cuda:1"],
                                            {}, 1, "", "run: not started: no GPU passed"),
    "the one that is asked for works": (2, TWO + "card-1 return 719", ["--device", "cuda:0"], {}, 0,
                                        "cuda=0 hip=unset", r"^$"),
    "the other variables are kept": (2, TWO + "card-1 return 719", ["--keep-env"],
                                     {"CUDA_VISIBLE_DEVICES": "0,1"}, 1, "",
                                     "not started: the variables that are kept show CMD a GPU"),
    "kept, and all works": (2, TWO, ["--keep-env"], {"CUDA_VISIBLE_DEVICES": "0,1"}, 0,
                            "cuda=0,1 hip=unset", r"^$"),
    "the CPU is asked for": (1, "", ["--device", "cpu"], {}, 2, "", "exclude one another"),
}


def starts(lab, row):
    cards, table, options, variables, status, out, errors = row
    m = nvidia_machine(lab, cards, cuda_env)
    done = m.run("run", "--verify", *options, "--", "/show", table=table, **variables)
    if done.returncode != status or done.stdout.strip() != out or \
            not re.search(errors, done.stderr):
        yield f"status {done.returncode}: {done.stdout}{done.stderr}"


def starts_rocm(lab):
    m = amd_machine(lab)
    for table, status, out, errors, *options in (
            ("", 0, "cuda=unset hip=unset", r"^$"),
            ("hipMemcpy#2 wrong", 0, "cuda=unset hip=-1", "the CPU is used: GPU 0: memory"),
            ("kfd-open return 13", 0, "cuda=unset hip=-1", "the CPU is used: compute driver"),
            ("hsa_init abort", 1, "", "not started: no GPU passed", "--device", "rocm")):
        done = m.run("run", "--verify", *options, "--", "/opt/app/show", table=table,
                     LD_PRELOAD="/kfd.so")
        if done.returncode != status or done.stdout.strip() != out or \
                not re.search(errors, done.stderr):
            yield f"{table}: status {done.returncode}: {done.stdout}{done.stderr}"


def starts_without(lab):
    """Where there is neither a GPU nor a driver the program starts on the CPU, and it is said."""
    done = subprocess.run([lab.exe, "run", "--verify", "--", "/bin/sh", "-c",
                           "echo $CUDA_VISIBLE_DEVICES"], capture_output=True, text=True,
                          timeout=120, check=False, env={"PATH": "/usr/bin:/bin", "HOME": "/"})
    if done.returncode != 0 or "cannot tell without a driver" not in done.stderr:
        yield f"status {done.returncode}: {done.stdout}{done.stderr}"


def prints(lab):
    """--print shows what a start would have, with what the probe leaves."""
    m = nvidia_machine(lab, 2, cuda_env)
    done = m.run("run", "--verify", "--print", "--", "/show", table=TWO + "card-0 return 719")
    if "export CUDA_VISIBLE_DEVICES=1" not in done.stdout:
        yield f"{done.stdout}{done.stderr}"


# ------------------------------------------------------------------ fix --apply

def fix_world(lab):
    sys.path.insert(0, str(TESTS / "mend"))
    import apply  # the environments of that suite really run
    folder = lab.folder / f"fix-{len(list(lab.folder.glob('fix-*')))}"
    folder.mkdir()
    return apply.World(str(lab.exe), folder)


def fix_without(lab):
    w = fix_world(lab)
    said = w.apply("link") if has_way(w, "link") else w.gpumend("fix", w.prefix, "--apply")
    if not re.search(r"^probe     cannot tell without a driver$", said, re.M):
        yield f"text: {said}"
    w.gpumend("fix", w.prefix, "--undo")
    document = json.loads(w.gpumend("fix", w.prefix, "--apply", "--json"))
    yield from schema_faults("act", document)
    if document["probe"] is not None or document["probe_why"] != "cannot tell without a driver":
        yield f"JSON: {document['probe']}, {document.get('probe_why')}"
    enabled = w.gpumend("fix", w.prefix, "--undo") and w.gpumend("enable", w.prefix)
    if re.search("^probe ", enabled, re.M):
        yield f"enable: {enabled}"


def has_way(w, kind):
    document = json.loads(w.gpumend("fix", w.prefix, "--json", status=1))
    return any(s["kind"] == kind for way in document["ways"] for s in way["steps"])


# This machine's own files below those of one with a GPU, in a mount namespace; the environment and
# the executable stay where they are.
OVERLAY = """set -e
mount -t tmpfs none /mnt
cp -a "$TREE" /mnt/tree
mkdir /mnt/all
mount -t overlay overlay -o lowerdir=/mnt/tree:/ /mnt/all
for folder in "$WORLD" "$(dirname "$EXE")"; do
    mount --bind "$folder" "/mnt/all$folder"
done
mount --rbind /proc /mnt/all/proc
mount -t tmpfs none /mnt/all/proc/driver
cp -a /mnt/tree/proc/driver/. /mnt/all/proc/driver
mount --bind /mnt/tree/proc/devices /mnt/all/proc/devices
exec chroot /mnt/all "$EXE" "$@"
"""


def overlaid(lab, w, table, *arguments):
    m = nvidia_machine(lab, 1, no_env)
    (m.top / "table").write_text(table + "\n")
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "FAKE_GPU_TABLE": "/table", "TREE": str(m.top),
           "WORLD": str(w.tree.top), "EXE": str(lab.exe)}
    return subprocess.run(["/usr/bin/unshare", "-m", "/bin/sh", "-c", OVERLAY, "sh", *arguments],
                          env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=180, check=False)


def fix_with(lab, table, status, verdict, text):
    """The environment is mended, and then the GPU is run with the library that it found."""
    w = fix_world(lab)
    for folder, name in fake_cublas(lab):
        shutil.copy(folder / name, w.tree.real(w.tree.cublas) / name)
    for json_too in (False, True):
        done = overlaid(lab, w, table, "fix", str(w.prefix), "--apply",
                        *(["--json"] if json_too else []))
        if "overlay" in done.stderr:
            yield "SKIP joins: overlay file systems cannot be mounted here"
            return
        if done.returncode != status:
            yield f"status {done.returncode}: {done.stdout}{done.stderr}"
            return
        if json_too:
            document = json.loads(done.stdout)
            yield from schema_faults("act", document)
            if document["probe"]["verdict"] != verdict or document["result"] != "verified":
                yield f"{document['result']}, {document['probe']['verdict']}"
        elif not re.search(text, done.stdout, re.M):
            yield done.stdout
        w.gpumend("fix", w.prefix, "--undo")


def cases(lab):
    why = machine.why_not(lab.folder)
    if why:
        yield "machines", lambda: [f"SKIP joins: {why}"]
        return
    for name, row in CHOICES.items():
        yield f"choose: {name}", functools.partial(chooses, lab, row)
    yield "choose without a probe", functools.partial(choose_believes, lab)
    for case in (check_works, check_fails, check_explains, check_library, check_amd, check_refuses):
        yield case.__name__.replace("_", " "), functools.partial(case, lab)
    for name, row in STARTS.items():
        yield f"run: {name}", functools.partial(starts, lab, row)
    for name, row in ROCM_CHOICES.items():
        yield f"choose on AMD: {name}", functools.partial(chooses_rocm, lab, row)
    yield "run on AMD", functools.partial(starts_rocm, lab)
    yield "run without a driver", functools.partial(starts_without, lab)
    yield "run --print", functools.partial(prints, lab)
    yield "fix without a driver", functools.partial(fix_without, lab)
    yield "fix and a GPU that works", functools.partial(
        fix_with, lab, "", 0, "works", r"^probe     \d+ stages passed, none failed$")
    yield "fix and a GPU that does not", functools.partial(
        fix_with, lab, "cuLaunchKernel wrong", 1, "broken", r"^probe     GPU 0: kernel: ")
