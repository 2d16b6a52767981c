#!/usr/bin/env python3
"""What layers come to, against what podman makes of them.

    tests/container/layers.py BUILD            recorded answers; then fresh ones of podman, if it runs
    tests/container/layers.py BUILD --record   ask podman again and write the answers down

Layers are generated: few names, so that files, folders, links, hard links, whiteouts and opaque
folders meet in every way, with and without entries for their folders, in their layer and over one
another. BUILD/tests/container/layer-tree says what they come to, of the archives, and, where podman
is there, of the folders in its storage too; and the layers in its storage are verified. Answers are podman's: the mounted image, name by name,
or that it refuses to load it. tests/container/layers.json holds layers and answers of podman 4.3.1
with native overlay on Linux, so that the test needs no podman.
"""

import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "trees"))
sys.path.append(str(HERE.parent))
from cdi import check, counts, skip  # noqa: E402
from image import CONFIG, saved, sha  # noqa: E402
import seeding  # noqa: E402

RECORD = HERE / "layers.json"
RECORDED, FRESH = 300, 25
NAMES = ("a", "b", "lib64", "usr", "usr/lib64", "usr/a", "lib64/a", "a/b", "a/b/c", "lib64/b/c",
         "b/a", "usr/lib64/a", "usr/lib64/b")
TARGETS = ("a", "b", "usr", "usr/lib64", "/usr/lib64", "/a", "../a", "../../usr", ".", "nowhere",
           "lib64")
# What real images have, and what was found wrong before.
STORIES = (
    [[["d", "usr"], ["d", "usr/lib64"], ["f", "usr/lib64/a", 1], ["l", "lib64", "usr/lib64"]],
     [["f", "lib64/libfoo.so", 2]]],
    [[["d", "usr"], ["d", "usr/lib64"], ["f", "usr/lib64/a", 1], ["l", "lib64", "usr/lib64"]],
     [["f", "lib64/.wh.a", 0]]],
    [[["f", "a", 1]], [["f", "a/b", 2]]],
    [[["f", "usr/lib64/a", 1]], [["l", "lib64", "usr/lib64"], ["f", "lib64/b", 2]]],
    [[["d", "usr/lib64"]], [["d", "usr/lib64"], ["l", "lib64", "usr/lib64"], ["f", "lib64/b", 2]]],
    [[["f", "usr/a", 1]], [["h", "b", "usr/a"]]],
    [[["f", "a/b", 1], ["f", "a/c", 1]], [["f", "a/.wh..wh..opq", 0], ["f", "a/d", 2]]],
    [[["f", "a/b", 1]], [["f", ".wh.a", 0], ["d", "a"], ["f", "a/c", 2]]],
    [[["f", "a/b", 1]], [["d", "a"], ["f", ".wh.a", 0]]],
    [[["f", "a", 1]], [["f", ".wh..wh..opq", 0], ["f", "b", 1]]],
    [[["f", "a", 1]], [["f", "../../b", 1], ["f", "usr/../c", 1], ["f", "/d", 1], ["f", ".//e", 1]]],
    [[["f", "a", 1]], [["f", "b", 1], ["f", "./b", 2]]],
    [[["d", "/a"], ["l", "a", "nowhere"]]],
    [[["d", "/a"], ["f", "a", 3]]],
    [[["d", "/a"], ["l", "a", "lib"], ["d", "lib"]]],
    [[["d", "b/c"], ["l", "/b", "nowhere"]]],
    [[["d", "b"], ["l", "a", "b"], ["d", "a/c"], ["d", "/d"], ["l", "/a", "/d"]]],
    [[["f", "a/b", 1], ["l", "/a", "c"], ["d", "c"], ["f", "./a/b", 2]]],
    [[["l", "a", "/b"], ["d", "b"], ["d", "a/c"], ["f", "a/c", 3]]],
    [[["f", "/a/b", 1], ["f", "a/b", 2], ["f", "../a/b", 3]]],
    [[["f", "/a/b", 1], ["f", "../a/b", 3], ["f", "../a/b", 4]]],
    [[["f", "b", 1], ["h", "/a", "b"], ["h", "a", "b"]]],
)
# What is written by another name lands on a file that stands before it: that is no change of the layer.
OVERWRITTEN = {
    "overwritten through a link": [[["f", "a", 1]], [["f", "b/a", 160], ["l", "usr", "b"], ["f", "usr/a", 776]]],
    "overwritten by its other name": [[["f", "a", 1]], [["f", "b/a", 160], ["f", "/b/a", 776]]],
    "overwritten by a name that climbs": [[["f", "a", 1]], [["f", "b/a", 160], ["f", "../b/a", 776]]],
}


# ---------------------------------------------------------------- layers

def spelled(r, name):
    how = r.random()
    return ("./" + name if how < .1 else "/" + name if how < .12 else "../" + name if how < .13
            else name.replace("/", "//") if how < .15 else name)


def operation(r, names):
    name = r.choice(names)
    folder, _, last = name.rpartition("/")
    kind = r.choices("fdlhwoc", (44, 25, 15, 3, 10, 3, 1))[0]
    if kind == "w":
        return ["f", f"{folder}/.wh.{last}" if folder else f".wh.{last}", 0]
    if kind == "o":
        return ["f", f"{name}/.wh..wh..opq", 0]
    if kind == "f":
        return ["f", spelled(r, name), r.randrange(1, 1000)]
    if kind in "lh":
        return [kind, spelled(r, name), r.choice(TARGETS if kind == "l" else NAMES)]
    return [kind, spelled(r, name)]


def generated(r):
    """Sorted entries are what tools write; in some they are not, and few names are given twice."""
    layers = []
    for _ in range(r.randrange(2, 4)):
        names = r.sample(NAMES, r.randrange(1, 5))
        operations = [operation(r, [name]) for name in names]
        if r.random() < .05:
            operations.append(operation(r, names))
        layers.append(sorted(operations, key=lambda o: o[1]) if r.random() < .9 else operations)
    return layers


def archive(operations):
    file = io.BytesIO()
    kinds = {"f": tarfile.REGTYPE, "d": tarfile.DIRTYPE, "l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE,
             "c": tarfile.CHRTYPE}
    with tarfile.open(fileobj=file, mode="w") as tar:
        for kind, name, *more in operations:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kinds[kind], 0o755
            if kind == "f":
                info.size = more[0]
            elif kind in "lh":
                info.linkname = more[0]
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    return file.getvalue()


# ---------------------------------------------------------------- podman's answer

class Podman:
    def __init__(self, folder):
        self.folder = folder
        self.words = ["podman", "--root", str(folder / "var/lib/containers/storage"), "--runroot",
                      str(folder / "run")]
        self.name = "localhost/layers:1"

    def call(self, *words):
        return subprocess.run([*self.words, *words], capture_output=True, text=True, check=False)

    def load(self, data):
        image = self.folder / "image.tar"
        diffs = ["sha256:" + sha(d) for d in data]
        saved(image, data, dict(CONFIG, rootfs={"type": "layers", "diff_ids": diffs}),
              [{"Config": "config.json", "RepoTags": [self.name],
                "Layers": [f"{n:064x}/layer.tar" for n in range(len(data))]}])
        return self.call("load", "-q", "-i", str(image))

    def why_not(self):
        """Why it is no judge here, or None."""
        if not shutil.which("podman") or os.geteuid() != 0:
            return "there is no podman for root"
        loaded = self.load([archive([["f", "a", 1]])])
        top = self.call("image", "mount", self.name).stdout.strip()
        good = loaded.returncode == 0 and top and os.path.exists(top + "/a")
        driver = self.call("info", "--format", "{{.Store.GraphDriverName}}").stdout.strip()
        self.remove()
        return (None if good and driver == "overlay" else
                f"podman does not work with overlay here: {driver} {loaded.stderr.strip()[-100:]}")

    def remove(self):
        self.call("image", "umount", "-f", self.name)
        self.call("rmi", "-f", self.name)

    def ask(self, data):
        """["refused"], or the lines of layer-tree; and the folders of the layers."""
        if self.load(data).returncode:
            return ["refused"], []
        top = self.call("image", "mount", self.name).stdout.strip()
        lines = sorted(line_of(top, os.path.join(where, name))
                       for where, folders, files in os.walk(top) for name in folders + files
                       if os.path.lexists(os.path.join(where, name)))  # whiteouts are listed
        return lines, self.folders()

    def folders(self):
        image = json.loads(self.call("image", "inspect", self.name).stdout)[0]
        data = image["GraphDriver"]["Data"]
        return [*reversed(data.get("LowerDir", "").split(":")), data["UpperDir"]]


def line_of(top, path):
    if os.path.islink(path):
        what = "l " + os.readlink(path)
    elif os.path.isdir(path):
        what = "d"
    else:
        what = f"f {os.path.getsize(path)}" if os.path.isfile(path) else "c"
    return f"{path[len(top):]}\t{what}"


# ---------------------------------------------------------------- gpumend's

def tree(build, places):
    done = subprocess.run([str(build / "tests/container/layer-tree"), *map(str, places)],
                          capture_output=True, text=True, timeout=60, check=False)
    lines = sorted(done.stdout.splitlines())
    refused = [line for line in lines if line.startswith("refused\t")]
    return (["refused"] if refused else lines), refused


def judge(build, folder, what, layers, answer):
    places = []
    for n, operations in enumerate(layers):
        places.append(folder / f"{n}.tar")
        places[-1].write_bytes(archive(operations))
    said, why = tree(build, places)
    check(what, said == answer, f"{json.dumps(layers)}\n  podman:  {answer}\n  gpumend: {said} {why}")


def verified(build, podman, what, layers):
    """What podman has unpacked is not called changed, and is verified as far as its names stay what they were."""
    done = subprocess.run([str(build / "gpumend"), "container", "check", podman.name, "--host",
                           str(podman.folder), "--json"], capture_output=True, text=True, timeout=60, check=False)
    image = json.loads(done.stdout)["image"] if done.stdout else {}
    why = [layer["why"] for layer in image.get("unverified", [])]
    # Behind ".." no name is followed either.
    linked = any(entry[0] == "l" or ".." in entry[1].split("/") for layer in layers for entry in layer)
    reasons = "two names|cannot be opened" + "|through a link" * linked
    check(f"{what}: verified", image and all(re.search(reasons, w) for w in why),
          f"{json.dumps(layers)}\n  {why} {done.stderr}")


def fresh(build, folder):
    podman = Podman(folder)
    why = podman.why_not()
    if why:
        return skip("podman's answer to fresh layers", why)
    seed = seeding.fresh()
    print("seed", seed)
    r = random.Random(seed)
    worlds = {f"fresh {seed}/{n}": generated(r) for n in range(int(os.environ.get("GPUMEND_LAYERS", FRESH)))}
    for name, layers in {**OVERWRITTEN, **worlds}.items():
        try:
            answer, folders = podman.ask([archive(o) for o in layers])
            judge(build, folder, name, layers, answer)
            if folders:
                verified(build, podman, name, layers)
                said, _ = tree(build, folders)
                check(f"{name}: of the storage", said == answer,
                      f"{json.dumps(layers)}\n  podman:  {answer}\n  gpumend: {said}")
        finally:
            podman.remove()


def record(folder):
    podman = Podman(folder)
    r = random.Random(1)
    cases = []
    for layers in [*STORIES, *(generated(r) for _ in range(RECORDED))]:
        cases.append([layers, podman.ask([archive(o) for o in layers])[0]])
        podman.remove()
    RECORD.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


def main():
    build = Path(sys.argv[1]).resolve()
    subprocess.run(["ninja", "-C", str(build), "tests/container/layer-tree"], check=True,
                   stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if sys.argv[2:] == ["--record"]:
            record(folder)
            return 0
        for n, (layers, answer) in enumerate(json.loads(RECORD.read_text())):
            judge(build, folder, f"recorded {n}", layers, answer)
        fresh(build, folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
