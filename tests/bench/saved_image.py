"""What `container check` of a saved image takes beside decompressing it.

One image of 5 GB is made here, and removed again: this machine's Python, the wheels of torch and
ctranslate2 where the store has them, then copies of the machine's own libraries under other names and
data that do not compress, until it is large enough. It is looked at with a GPU on the host, so that
the GPU code in it is read too.
"""

import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("container", "scenarios", "trees")]

import cases                                                                        # noqa: E402
import slim                                                                         # noqa: E402
import store                                                                        # noqa: E402
from build import write as write_tree                                               # noqa: E402
from machines import MACHINES                                                       # noqa: E402

MIB = 1 << 20
GB = 10**9
IMAGE_BYTES = 5 * GB
GZIP_BYTES = GB                # of it, where the layer is made with gzip, which is slow
FREE_BYTES = 20 * GB
NOISE_BYTES = 256 * MIB
TURNS = 2
RUN_LIMIT_S = 120
RATIO = 1.5
MEMORY_BYTES = 100 * MIB
SITE = "usr/local/lib/python3.11/dist-packages"


def below(folder, place):
    """[(name in the image, file)] of a folder's regular files, those with a link left out."""
    for base, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(base, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.join(place, os.path.relpath(path, folder)), path


def wheels_here():
    cache = store.cache_folder() / "store"
    for requirement in dict.fromkeys((*cases.TORCH12, *cases.CT_485)):
        folder = cache / requirement.replace("==", "-")
        if (folder / ".complete").exists():
            yield folder


def python_files():
    yield "usr/bin/python3", "/usr/bin/python3.11"
    yield from below("/usr/lib/python3.11", "usr/lib/python3.11")
    for library in slim.needed(["/usr/bin/python3.11"]):
        yield library.lstrip("/"), os.path.realpath(library)


def other_files():
    """The machine's libraries, again and again."""
    number = 0
    while True:
        for name, path in below("/usr/lib", ""):
            if ".so" in name:
                yield "opt/%d/%s" % (number, name.lstrip("/")), path
        number += 1


def all_files():
    yield from python_files()
    for folder in wheels_here():
        yield from below(folder, SITE)
    yield from other_files()


def write_layer(stream, least):
    """A tar archive of `least` bytes or a little more; ret how many files are in it."""
    files = 1
    with tarfile.open(fileobj=stream, mode="w|", bufsize=MIB, copybufsize=MIB) as tar:
        info = tarfile.TarInfo("opt/model.bin")
        info.size = NOISE_BYTES
        with open("/dev/urandom", "rb") as noise:
            tar.addfile(info, noise)
        for name, path in all_files():
            tar.add(path, name, recursive=False)
            files += 1
            if tar.offset >= least:
                return files


def packed_layer(path, packer, least):
    with open(path, "wb") as file:
        if not packer:
            return write_layer(file, least)
        with subprocess.Popen(packer, stdin=subprocess.PIPE, stdout=file) as process:
            files = write_layer(process.stdin, least)
            process.stdin.close()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, packer)
        return files


def write_archive(path, layer):
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["python3"]}}
    manifest = [{"Config": "config.json", "RepoTags": ["bench:1"], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w", copybufsize=MIB) as tar:
        tar.add(layer, "layer.tar")
        for name, document in (("config.json", config), ("manifest.json", manifest)):
            info = tarfile.TarInfo(name)
            text = json.dumps(document).encode()
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))


# Runs a command and prints what it took. A process of its own: the peak memory of a child is at least
# what its parent took when it was made.
MEASURE = """
import json, os, signal, sys, time
began = time.perf_counter()
pid = os.posix_spawnp(sys.argv[3], sys.argv[3:], os.environ, file_actions=[
    (os.POSIX_SPAWN_OPEN, 1, sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)])
signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
signal.alarm(int(sys.argv[2]))
_, status, used = os.wait4(pid, 0)
print(json.dumps({"clock": time.perf_counter() - began, "processor": used.ru_utime + used.ru_stime,
                  "memory": used.ru_maxrss * 1024, "status": os.waitstatus_to_exitcode(status)}))
"""


def measured(command, to=os.devnull):
    """Of one run: seconds by the clock and of the processor, and peak memory in bytes, which is at
    least what a small Python takes (some 10 MiB)."""
    done = subprocess.run([sys.executable, "-ISc", MEASURE, to, str(RUN_LIMIT_S), *command],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


FORMS = (("zstd", ["zstd", "-q", "-3", "-T2", "-c"], ["zstd", "-q", "-dc"], IMAGE_BYTES),
         ("uncompressed", None, ["cat"], IMAGE_BYTES),
         ("gzip", ["gzip", "-1", "-c"], ["gzip", "-dc"], GZIP_BYTES))


def least_of(samples, what):
    return min(sample[what] for sample in samples)


def has_all(answer, files):
    """Whether the answer is of this image, to its last file."""
    with open(answer, encoding="utf-8") as file:
        about = json.load(file)["image"]
    return about["name"] == "bench:1" and about["files"] >= files


def of_form(bench, top, host, form):
    name, packer, unpacker, least = form
    layer, archive, answer = (os.path.join(top, f) for f in ("layer", "image.tar", "answer"))
    files = packed_layer(layer, packer, least)
    write_archive(archive, layer)
    ours = [bench.gpumend, "container", "check", archive, "--json", "--host", str(host)]
    samples = {"gpumend": [], " ".join(unpacker): []}
    for _ in range(TURNS):
        samples["gpumend"].append(measured(ours, answer))
        samples[" ".join(unpacker)].append(measured([*unpacker, layer]))
    # 3: of the last package only a part may be in the layer, which leaves the answer open.
    answered = samples["gpumend"][-1]["status"] in (0, 1, 3) and has_all(answer, files)
    sizes = [os.path.getsize(p) for p in (layer, archive)]
    os.unlink(layer)
    os.unlink(archive)
    if not answered:
        return bench.skip("image, %s" % name, "gpumend has no answer")
    print("\nimage: %.1f GB in a layer of %.1f GB, %s" % (least / GB, sizes[0] / GB, name))
    for tool, runs in samples.items():
        print("  %-34s %7.2f s of processor time, %7.2f s by the clock (quickest of %d turns), "
              "%.1f MiB" % (tool, least_of(runs, "processor"), least_of(runs, "clock"), TURNS,
                            max(r["memory"] for r in runs) / MIB))
    mine, theirs = samples.values()
    peak = max(r["memory"] for r in mine)
    for what in ("processor", "clock"):
        ratio = least_of(mine, what) / least_of(theirs, what)
        bench.budget("%s, beside %s, %s" % (name, " ".join(unpacker), what), "%.2f x" % ratio,
                     "<= %.1f x" % RATIO, ratio <= RATIO)
    bench.budget("%s, peak memory" % name, "%.1f MiB" % (peak / MIB), "< 100 MiB",
                 peak < MEMORY_BYTES)
    return None


def bench_image(bench):
    if shutil.disk_usage(tempfile.gettempdir()).free < FREE_BYTES:
        return bench.skip("image", "less than %d GB of the disk are free" % (FREE_BYTES // GB))
    try:
        store.usable_python()
    except store.Skip as reason:
        return bench.skip("image", str(reason))
    print("\nimage: with %d wheels of the store" % len(list(wheels_here())))
    with tempfile.TemporaryDirectory(prefix="gpumend-bench-") as top:
        host = pathlib.Path(top) / "host"
        write_tree(MACHINES["geforce-desktop"][1], host)
        for form in FORMS:
            missing = [c[0] for c in form[1:3] if c and not shutil.which(c[0])]
            if missing:
                bench.skip("image, %s" % form[0], "there is no %s" % missing[0])
            else:
                of_form(bench, top, host, form)
    return None
