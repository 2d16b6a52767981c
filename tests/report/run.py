#!/usr/bin/python3
"""`check --report`: what people paste into an issue.

    tests/report/run.py GPUMEND [--rewrite] [--keep DIR]

Trees with a machine, a Python environment and a fault are reported, and must print golden/NAME.md
(less gpumend's version and the C library, which is this machine's); --rewrite writes them. The same
tree gives the same report from a snapshot, and an image a like one. Hostile values (names, secrets,
controls, Markdown) do not come out, nor out of the fence.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
for folder in ("causes", "trees", "container"):
    sys.path.insert(0, str(TESTS / folder))
from build import merged, nvidia, nvidia_gpus, nvidia_libraries, nvidia_module  # noqa: E402
from build import nvidia_nodes, system  # noqa: E402
from findings import archive  # noqa: E402
from machines import MACHINES, RTX4090  # noqa: E402
from tree import Tree  # noqa: E402

GOLDEN = HERE / "golden"
LINES_MAX = 75
OS = "/etc/os-release"
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n'
DESKTOP = merged(system(), nvidia("550.90.07", RTX4090), {OS: DEBIAN})
BETWEEN = merged(system(), nvidia("565.57.01", RTX4090), {OS: DEBIAN})
MISMATCHED = merged(system(), nvidia_module("535.183.01"), nvidia_gpus(RTX4090),
                    nvidia_nodes([0]), nvidia_libraries("550.90.07"), {OS: DEBIAN})
NVIDIA_WHEELS = {"nvidia-cuda-runtime-cu12": "12.4.127", "nvidia-nccl-cu12": "2.21.5"}


# ------------------------------------------------------------------ trees

def whisper(tree):
    """ctranslate2 beside pip's libraries, which it does not find; toolkits in both spellings."""
    tree.machine(DESKTOP).ctranslate2("4.5.0")
    tree.torch("2.5.1+cu124")
    tree.pip_cublas()
    tree.pip_cudnn()
    for name, version in NVIDIA_WHEELS.items():
        tree.dist(name, version, [])
    for name, version in (("triton", "3.1.0"), ("left-pad", "1.0")):
        tree.dist(name, version, [])
    tree.put("/usr/local/cuda-12.4/version.json",
             '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}')
    tree.put("/usr/local/cuda-12.4/bin/nvcc", "")
    tree.link("/usr/local/cuda", "cuda-12.4")
    tree.link("/usr/local/cuda-12", "cuda-12.4")
    tree.lib("/usr/local/cuda-12.4/compat/libcuda.so.550.54.15", soname="libcuda.so.1")
    tree.put("/usr/local/cuda-10.2/version.txt", "CUDA Version 10.2.89\n")
    tree.put("/usr/local/cuda-9/bin/nvcc", "")
    tree.lib("/usr/local/cuda-12.4/lib64/libcudart.so.12.4.127", soname="libcudart.so.12")
    tree.link("/usr/local/cuda-12.4/lib64/libcudart.so.12", "libcudart.so.12.4.127")


def mismatched(tree):
    tree.machine(MISMATCHED).torch("2.5.1")


def between(tree):
    """A driver of a branch that came with no toolkit."""
    tree.machine(BETWEEN).torch("2.5.1+cu124")


def amd(tree):
    tree.machine(MACHINES["mi210"][1]).torch_for("hip", "6.2.41133", "2.5.1+rocm6.2")
    tree.put(OS, DEBIAN)


def bare(tree):
    """No machine can be seen, and no package of a GPU program is there."""


WORLDS = {
    "whisper": (whisper, ["--env", "LD_LIBRARY_PATH=/opt/lib:/usr/local/cuda/lib64",
                          "--env", "CUDA_HOME=/usr/local/cuda", "--env", "HF_HOME=/models",
                          "--env", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"], 1),
    "mismatched": (mismatched, [], 1),
    "between": (between, [], None),
    "amd": (amd, ["--env", "HSA_OVERRIDE_GFX_VERSION=9.0.10"], None),
    "bare": (bare, [], None),
}


def built(folder, name):
    tree = Tree(folder / name).python()
    WORLDS[name][0](tree)
    return tree


# ------------------------------------------------------------------ running

def run(exe, folder, *args, env=None):
    """In the folder of the trees, so that no path names it."""
    done = subprocess.run([str(exe), *map(str, args)], cwd=folder, stdin=subprocess.DEVNULL,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/home/nobody-here", **(env or {})},
                          capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def report(exe, folder, name, *more, env=None, at="/opt/venv"):
    return run(exe, folder, "check", "--report", "--root", name, *WORLDS[name][1], *more, at,
               env=env)


def settled(text):
    """Less what is this machine's and this version's."""
    text = re.sub(r"^\*\*gpumend [^:]*:", "**gpumend VERSION:", text)
    return re.sub(r"^(  C library +)(glibc|musl) .*$", r"\1LOADER", text, flags=re.M)


def form_faults(text):
    """One line, an empty one, and one fenced block that ends the text and that no line in it ends."""
    lines = text.split("\n")
    fence = re.fullmatch(r"(`{3,})text", lines[2]) if len(lines) > 4 else None
    if not fence or lines[1] or not re.fullmatch(r"\*\*gpumend [^*]*\*\* \([^)<]*\)", lines[0]):
        return ["the head is " + repr(lines[:3])]
    inside = lines[3:-2]
    wrong = [] if lines[-2:] == [fence.group(1), ""] else ["the end is " + repr(lines[-3:])]
    ends = re.compile(r"^ {0,3}`{%d,}\s*$" % len(fence.group(1)))
    wrong += ["a line ends the fence: " + line for line in inside if ends.match(line)]
    unseen = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f]")
    return wrong + ["unseen characters: " + repr(line) for line in inside if unseen.search(line)]


# ------------------------------------------------------------------ tests

def golden(exe, folder, rewrite):
    for name, (_, _, expected) in WORLDS.items():
        status, text, errors = report(exe, folder, name)
        plain = run(exe, folder, "check", "--root", name, *WORLDS[name][1], "/opt/venv")[0]
        if errors or status != plain or expected not in (None, status):
            yield f"{name}: status {status}, of check {plain}: {errors}"
        yield from (f"{name}: {fault}" for fault in form_faults(text))
        if text.count("\n") > LINES_MAX:
            yield f"{name}: {text.count(chr(10))} lines"
        path = GOLDEN / (name + ".md")
        if rewrite:
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(settled(text))
        elif path.read_text() != settled(text):
            yield f"{name} differs from {path.name}:\n{text}"


def block(text):
    """The report without the head and what names the target's place."""
    return [line for line in text.split("\n")[3:] if not re.match("  (looked at|snapshot) ", line)]


def forms(exe, folder, _):
    _, text, _ = report(exe, folder, "whisper")
    status, document, errors = run(exe, folder, "snapshot", "--root", "whisper",
                                   *WORLDS["whisper"][1], "/opt/venv")
    (folder / "whisper.json").write_text(document)
    status, again, errors = run(exe, folder, "check", "--report", "--snapshot", "whisper.json")
    if status != 1 or errors or block(again) != block(text) or "  snapshot " not in again:
        yield f"the snapshot's report is another: {status}, {errors}\n{again}"
    # A library of an image is judged with the host's driver.
    tree = Tree(folder / "image-tree").python().ctranslate2("4.5.0")
    tree.pip_cudnn()
    image = archive(folder, "image", tree, {"Env": ["PATH=/opt/venv/bin:/usr/bin:/bin"],
                                            "Cmd": ["python", "app.py"]})
    Tree(folder / "host").machine(DESKTOP)
    for words in (["container", "check", image.name], ["check", "--root", "image-tree"]):
        status, text, errors = run(exe, folder, *words, "--host", "host", "--report", "/opt/venv")
        wanted = ("System (the host)", "nvidia-*", "550.90.07", "libcudnn.so.9", "ctranslate2")
        if status != 1 or errors or [w for w in wanted if w not in text] or form_faults(text):
            yield f"{words}: {status}, {errors}\n{text}"
    text = run(exe, folder, "check", "--report", "--root", "whisper", "/lib64/ld-linux-x86-64.so.2")[1]
    if "a program or library was looked at" not in text or form_faults(text):
        yield "a file as target:\n" + text


def live(exe, folder, _):
    program = subprocess.Popen(["/bin/sleep", "60"], env={"CUDA_VISIBLE_DEVICES": "7",
                                                          "CUDA_TOKEN": "sesame"})
    try:
        time.sleep(0.2)  # until it is sleep, and not this Python
        status, text, errors = run(exe, folder, "check", "--report", "--pid", program.pid)
        if f"process {program.pid}" not in text or "sesame" in text or form_faults(text) or \
                not re.search(r"^  CUDA_VISIBLE_DEVICES +7$", text, re.M):
            yield f"status {status}, {errors}\n{text}"
    finally:
        program.kill()
        program.wait()


def unknown(exe, folder, _):
    """What cannot be seen is unknown and says why; it is never told as absent."""
    _, text, _ = report(exe, folder, "bare")
    if not re.search(r"^  machine +unknown: .+", text, re.M) or "none found" in text.split("Python")[0]:
        yield "no machine is seen:\n" + text
    if os.getuid() == 0:
        return  # may read everything
    (folder / "whisper/usr/local").chmod(0)
    _, text, _ = report(exe, folder, "whisper")
    (folder / "whisper/usr/local").chmod(0o755)
    if not re.search(r"^  toolkits +unknown: /usr/local: ", text, re.M):
        yield "a closed folder:\n" + text


NAMES = {"HOME": "/home/zacharias", "USER": "zacharias", "LOGNAME": "zacharias",
         "HOSTNAME": "gpu-olymp7.example.org"}
HOSTILE = {
    "LD_LIBRARY_PATH": "/home/zacharias/lib:/home/eusebia/lib:/mnt/c/Users/Walburga/x:/x`````y",
    "CUDA_HOME": "/opt/```\n```\n<script>alert(1)</script>",
    "CUDA_PATH": "\x1b]0;owned\x07\x1b[31m\u202eevil\u2066\u200b\u009b31m",
    "CUDA_CACHE_PATH": "https://joe:sesame-1@example.org/?sig=a&api_key=sesame-2&x=1",
    "NVIDIA_API_KEY": "sesame-3", "CUDA_MY_TOKEN": "sesame-4", "HSA_AUTH": "sesame-5",
    "ROCM_PATH": "hf_sesameSesameSesame123 sk-sesame-sesame-sesame-99 x=ghp_sesame0123456789abcdef",
    "AWS_SECRET_ACCESS_KEY": "sesame-6", "DATABASE_URL": "sesame-7", "NVIDIA_PASSWD": "sesame-8",
    "CUDNN_HOME": "gpu-olymp7.example.org", "CUDNN_PATH": "A" * 4000 + "END",
    "CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
}
SECRET = ("sesame", "zacharias", "eusebia", "Walburga", "olymp7", "\x1b", "\x07", "AAAEND",
          "8932f937", "joe:")


def hostile(exe, folder, _):
    """All values at once, and as names of a package, a file and a folder."""
    tree = Tree(folder / "home/zacharias/tree").python()
    tree.machine(DESKTOP).torch("2.5.1")
    tree.dist("torch\n````\nx\u202e<img src=x>", "1.0", [])
    tree.dist("nvidia-````", "hf_sesameSesameSesame123", [])
    tree.lib(tree.site + "/nvidia/cublas/lib/libcublas.so.12\n```\n")
    tree.put("/usr/local/cuda-`````\n/version.json", '{"cuda": {"version": "1\\n```\\u202e"}}')
    tree.put("/usr/local/cuda-`````\n/bin/nvcc", "")
    tree.put(OS, 'ID=x\nPRETTY_NAME="</details>\x1b[2J````"\n')
    args = [word for name, value in HOSTILE.items() for word in ("--env", f"{name}={value}")]
    at = folder / "home/zacharias/tree"
    status, text, errors = run(exe, folder, "check", "--report", "--root", at, *args, "/opt/venv",
                               env={**NAMES, "HOME": str(folder / "home/zacharias")})
    yield from form_faults(text)
    for secret in SECRET:
        if secret in text:
            yield f"{secret!r} is in the report:\n{text}"
    for kept in ("below ~/tree", "https://<hidden>@example.org/?sig=a&api_key=<hidden>&x=1",
                 "/home/user", "/Users/user", "CUDNN_HOME", "ROCM_PATH", "more bytes)"):
        if kept not in text:
            yield f"{kept!r} is not in the report:\n{text}"
    if status not in (0, 1, 3) or errors:
        yield f"status {status}: {errors}"


def usage(exe, folder, _):
    for words, said in ((["check", "--report", "--json"], "check --json"),
                        (["check", "--report", "--probe"], "--probe"),
                        (["container", "check", "x.tar", "--report", "--json"], "check --json"),
                        (["container", "docker", "--report"], "goes with check")):
        status, text, errors = run(exe, folder, *words)
        if status != 2 or text or said not in errors:
            yield f"{words}: status {status}: {text}{errors}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    args = parser.parse_args()
    failed = 0
    tests = (golden, forms, live, unknown, hostile, usage)
    with tempfile.TemporaryDirectory(prefix="gpumend-report.") as temporary:
        folder = args.keep or Path(temporary)
        for name in WORLDS:
            built(folder, name)
        for test in tests:
            faults = list(test(args.gpumend.resolve(), folder, args.rewrite))
            for fault in faults:
                print(f"FAIL {test.__name__}: {fault}")
            failed += bool(faults)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
