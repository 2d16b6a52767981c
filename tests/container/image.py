#!/usr/bin/env python3
"""`gpumend container check` of images as files.

    tests/container/image.py GPUMEND

One application whose library is there, hidden, removed or linked by the rules of layers; as a saved
archive, an OCI layout and an OCI archive, plain, gzip and zstd; all of them must say what the
unpacked folder says. Then archives that mean harm: each ends in time, with little memory, in one
sentence, and never reads a file of this machine.
"""

import base64
import gzip
import hashlib
import io
import json
import lzma
import os
import random
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "trees"))
import several  # noqa: E402
from build import write  # noqa: E402
from machines import MACHINES  # noqa: E402
from cdi import check, compiled, counts, skip  # noqa: E402

PROGRAM = "int cublasCreate(void); int main(void) { return cublasCreate(); }"
MEMORY_MIB = 100
SECONDS = 60


def run(exe, image, *arguments):
    started = time.monotonic()
    child = subprocess.Popen([str(exe), "container", "check", str(image), *arguments],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             errors="replace")
    try:
        out, error = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return 124, "", "took longer than its limit"
    run.seconds = time.monotonic() - started
    return child.returncode, out, error


# ---------------------------------------------------------------- building images

class Layer:
    def __init__(self):
        self.file = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.file, mode="w")

    def add(self, name, content=b"", mode=0o755, kind=tarfile.REGTYPE, link=""):
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.linkname, info.size = kind, mode, link, len(content)
        self.tar.addfile(info, io.BytesIO(content))
        return self

    def folder(self, name):
        return self.add(name, kind=tarfile.DIRTYPE)

    def symlink(self, name, to):
        return self.add(name, kind=tarfile.SYMTYPE, link=to)

    def hardlink(self, name, to):
        return self.add(name, kind=tarfile.LNKTYPE, link=to)

    def bytes(self):
        self.tar.close()
        return self.file.getvalue()


def sha(data):
    return hashlib.sha256(data).hexdigest()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


CONFIG = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"], "Cmd": ["/app"]}}


def saved(path, layers, config=CONFIG, manifest=None, backwards=False):
    """What `docker save` wrote before it knew OCI; `backwards`: the last layer comes first, and the
    manifest before all."""
    with tarfile.open(path, "w") as tar:
        def put(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        names = [f"{n:064x}/layer.tar" for n in range(len(layers))]
        members = [*zip(names, layers), ("config.json", json.dumps(config).encode()),
                   ("manifest.json", json.dumps(manifest or [
                       {"Config": "config.json", "RepoTags": ["app:1"], "Layers": names}]).encode())]
        for name, data in reversed(members) if backwards else members:
            put(name, data)


def layout(folder, layers, config=CONFIG):
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def put(data):
        (blobs / sha(data)).write_bytes(data)
        return {"digest": "sha256:" + sha(data), "size": len(data)}
    manifest = put(json.dumps({"schemaVersion": 2, "config": put(json.dumps(config).encode()),
                               "layers": [put(data) for data in layers]}).encode())
    manifest["platform"] = {"os": "linux", "architecture": "amd64"}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))


def beside(folder, layers):
    """What skopeo's "dir:" and `podman save --format docker-dir` write."""
    folder.mkdir()

    def put(data):
        (folder / sha(data)).write_bytes(data)
        return {"digest": "sha256:" + sha(data), "size": len(data)}
    (folder / "version").write_text("Directory Transport Version: 1.1\n")
    (folder / "manifest.json").write_text(json.dumps({
        "schemaVersion": 2, "config": put(json.dumps(CONFIG).encode()), "layers": [put(d) for d in layers]}))


def forms(folder, layers):
    """The same image in every form."""
    packed = {"plain": lambda d: d, "gzip": lambda d: gzip.compress(d, 1)}
    if shutil.which("zstd"):
        packed["zstd"] = zstd
    for name, pack in packed.items():
        data = [pack(layer) for layer in layers]
        saved(folder / f"{name}.tar", data)
        yield f"{name}, saved", folder / f"{name}.tar"
        layout(folder / f"{name}-layout", data)
        yield f"{name}, layout", folder / f"{name}-layout"
        beside(folder / f"{name}-dir", data)
        yield f"{name}, folder of skopeo", folder / f"{name}-dir"
        with tarfile.open(folder / f"{name}-oci.tar", "w") as tar:
            tar.add(folder / f"{name}-layout", ".")
        yield f"{name}, OCI archive", folder / f"{name}-oci.tar"
    yield from whole_forms(folder, layers)


def whole_forms(folder, layers):
    """Archives that are compressed as a whole."""
    saved(folder / "backwards.tar", layers, backwards=True)
    plain, oci = (folder / "plain.tar").read_bytes(), (folder / "gzip-oci.tar").read_bytes()
    backwards = (folder / "backwards.tar").read_bytes()
    for name, data in (("plain.tar.gz", gzip.compress(plain, 1)),
                       ("plain.tar.xz", lzma.compress(plain, preset=0)),
                       ("backwards.tar.gz", gzip.compress(backwards, 1)),
                       ("oci.tar.gz", gzip.compress(oci, 1)),
                       *([("plain.tar.zst", zstd(plain))] if shutil.which("zstd") else [])):
        (folder / name).write_bytes(data)
        yield f"as a whole, {name}", folder / name


# ---------------------------------------------------------------- the application

class Parts:
    """The application, its loader and its library as bytes."""

    def __init__(self, folder):
        library = folder / "libcublas.so.12"
        compiled("int cublasCreate(void) { return 0; }", "-shared", "-fPIC",
                 "-Wl,-soname,libcublas.so.12", "-o", library)
        compiled(PROGRAM, "-o", folder / "app", library)
        self.app, self.library = (folder / "app").read_bytes(), library.read_bytes()
        self.loader = Path("/lib64/ld-linux-x86-64.so.2").read_bytes()
        self.libc = Path("/lib/x86_64-linux-gnu/libc.so.6").read_bytes()

    def base(self):
        return (Layer().folder("usr/lib/x86_64-linux-gnu").symlink("lib", "usr/lib")
                .symlink("lib64", "usr/lib64")
                .add("usr/lib64/ld-linux-x86-64.so.2", self.loader)
                .add("usr/lib/x86_64-linux-gnu/libc.so.6", self.libc).add("app", self.app))

    def good(self):
        return self.base().add("usr/lib/x86_64-linux-gnu/libcublas.so.12", self.library)


def stories(p):
    """Name, layers, and whether the program finds its library."""
    lib = "usr/lib/x86_64-linux-gnu"
    yield "it is there", [p.good()], True
    yield "it is not there", [p.base()], False
    yield "a later layer brings it", [p.base(), Layer().add(f"{lib}/libcublas.so.12", p.library)], True
    yield "through a linked folder", [p.base(), Layer().add("lib/x86_64-linux-gnu/libcublas.so.12",
                                                            p.library)], True
    yield "a whiteout removes it", [p.good(), Layer().add(f"{lib}/.wh.libcublas.so.12")], False
    yield "and it comes back", [p.good(), Layer().add(f"{lib}/.wh.libcublas.so.12"),
                                Layer().add(f"{lib}/libcublas.so.12", p.library)], True
    yield "a whiteout before its layer's own file is not for it", [p.good(), Layer().add(
        f"{lib}/.wh.libcublas.so.12").add(f"{lib}/libcublas.so.12", p.library)], True
    yield "a whiteout behind its layer's own file is refused", [p.base(), Layer().add(
        f"{lib}/libcublas.so.12", p.library).add(f"{lib}/.wh.libcublas.so.12")], False
    yield "an opaque folder", [p.good(), Layer().add(f"{lib}/.wh..wh..opq")
                               .add(f"{lib}/libc.so.6", p.libc)], False
    yield "an opaque folder keeps its own layer's", [p.base(), Layer().add(
        f"{lib}/libcublas.so.12", p.library).add(f"{lib}/libc.so.6", p.libc)
        .add(f"{lib}/.wh..wh..opq")], True
    yield "the folder is removed", [p.base(), Layer().add("opt/cuda/libcublas.so.12", p.library)
                                    .symlink(f"{lib}/libcublas.so.12", "/opt/cuda/libcublas.so.12"),
                                    Layer().add("opt/.wh.cuda")], False
    yield "a folder in the file's place", [p.good(), Layer().folder(f"{lib}/libcublas.so.12")], False
    yield "a link to it", [p.base(), Layer().add("opt/real.so", p.library)
                           .symlink(f"{lib}/libcublas.so.12", "../../../opt/real.so")], True
    yield "a link above the root", [p.base(), Layer().add("opt/real.so", p.library).symlink(
        f"{lib}/libcublas.so.12", "/../../../../../../opt/real.so")], True
    yield "a hard link", [p.base(), Layer().add("opt/real.so", p.library)
                          .hardlink(f"{lib}/libcublas.so.12", "opt/real.so")], True
    yield "a hard link whose target is removed later", [
        p.base(), Layer().add("opt/real.so", p.library).hardlink(f"{lib}/libcublas.so.12",
                                                                 "opt/real.so"),
        Layer().add("opt/.wh.real.so")], True
    yield "a name through a link of a lower layer replaces the link", [
        p.base().symlink(f"{lib}/cuda", "../../../opt/cuda").symlink(
            f"{lib}/libcublas.so.12", "cuda/libcublas.so.12").add("opt/cuda/libcublas.so.12", p.library),
        Layer().add(f"{lib}/cuda/libfoo.so")], False
    yield "a whiteout through a link of a lower layer replaces the link", [
        p.base().symlink(f"{lib}/cuda", "../../../opt/cuda").symlink(
            f"{lib}/libcublas.so.12", "cuda/libcublas.so.12").add("opt/cuda/libcublas.so.12", p.library),
        Layer().add(f"{lib}/cuda/.wh.other")], False
    yield "a name below a file of a lower layer replaces the file", [
        p.good(), Layer().add(f"{lib}/libcublas.so.12/x")], False
    yield "a name that climbs out ends inside", [p.base(), Layer().add(
        f"../../{lib}/libcublas.so.12", p.library)], True
    yield "names with ./ and //", [p.base(), Layer().add(f"./{lib}//libcublas.so.12", p.library)], True
    yield "an absolute name", [p.base(), Layer().add(f"/{lib}/libcublas.so.12", p.library)], True


def of_stories(exe, folder, parts):
    for number, (name, layers, found) in enumerate(stories(parts)):
        place = folder / str(number)
        place.mkdir()
        answers = {}
        for form, image in forms(place, [layer.bytes() for layer in layers]):
            status, out, error = run(exe, image, "/app", "--json")
            check(f"{name}: {form}: status", status in (0, 1), error)
            try:
                said = json.loads(out)
            except ValueError:
                check(f"{name}: {form}", False, error)
                continue
            check(f"{name}: {form}: verdict", (said["verdict"] == "ok") == found,
                  [f["summary"] for f in said["findings"]])
            answers[form] = json.dumps([said["processes"], said["findings"]], sort_keys=True)
        check(f"{name}: every form says the same", len(set(answers.values())) == 1, answers.keys())


def of_needs(exe, folder, parts):
    """What `needs` says of each form is the same; it is printed after the image was read."""
    layers = [parts.base().bytes(), Layer().add("usr/lib/x86_64-linux-gnu/libcublas.so.12", parts.library).bytes()]
    place, answers = folder / "needs", {}
    place.mkdir()
    for form, image in forms(place, layers):
        for words in ([], ["--json"], ["--as", "cel"], ["--on", "/"]):
            done = subprocess.run([str(exe), "needs", str(image), "/app", *words], capture_output=True, text=True,
                                  timeout=SECONDS, check=False)
            answers.setdefault(" ".join(words), {})[form] = (
                done.returncode, done.stdout.replace(str(image), "IMAGE"), done.stderr)
    for words, told in answers.items():
        status, out, error = next(iter(told.values()))
        check(f"needs {words}: status", status in (0, 1) and out, (status, out, error))
        check(f"needs {words}: every form says the same", len(set(told.values())) == 1, told)


def of_configuration(exe, folder, parts):
    config = {"architecture": "amd64", "os": "linux", "config": {
        "Env": ["PATH=/bin", "LD_LIBRARY_PATH=/opt/cuda"], "Entrypoint": ["/app"], "Cmd": ["--x y"],
        "User": "1000"}}
    image = folder / "configured.tar"
    saved(image, [parts.base().bytes(), Layer().add("opt/cuda/libcublas.so.12", parts.library)
                  .bytes()], config)
    status, out, error = run(exe, image, "/app", "--json")
    said = json.loads(out)
    check("the image's environment counts", status == 0 and said["verdict"] == "ok", error)
    about = said["image"]
    check("what the image starts is said", about["starts"] == "/app '--x y'"
          and about["user"] == "1000" and about["name"] == "app:1"
          and about["layers"] == 2, about)
    status, out, _ = run(exe, image, "/app", "--env", "LD_LIBRARY_PATH=/nowhere", "--json")
    check("the command line's counts more", status == 1 and json.loads(out)["verdict"] == "broken",
          out[:200])


def of_hosts(exe, folder, parts):
    """The host's driver comes into the container at its start: that the image's loader does not know
    its folder is no fault."""
    stub = folder / "libcuda.so.1"
    compiled("int cuInit(unsigned n) { return (int)n; }", "-shared", "-fPIC",
             "-Wl,-soname,libcuda.so.1", "-o", stub)
    compiled("int cuInit(unsigned); int main(void) { return cuInit(0); }", "-o", folder / "app", stub)
    image = folder / "cuda.tar"
    saved(image, [parts.base().add("cuda-app", (folder / "app").read_bytes()).bytes()])
    host = folder / "host"
    write(MACHINES["geforce-desktop"][1], host)
    status, out, error = run(exe, image, "/cuda-app", "--json", "--host", str(host))
    causes = [f["cause"] for f in json.loads(out)["findings"]] if out else [error]
    check("a driver's library of the host", "driver-library-not-on-path" not in causes
          and "library-missing" not in causes, causes)


# ---------------------------------------------------------------- the storage of engines

def of_podman(exe, folder, parts):
    """Podman unpacks the layers; what is said of its image is what is said of the archive."""
    if not shutil.which("podman") or os.geteuid() != 0:
        return skip("podman's storage", "there is no podman for root")
    for number, (name, layers, found) in enumerate(stories(parts)):
        data = [layer.bytes() for layer in layers]
        config = dict(CONFIG, rootfs={"type": "layers",
                                      "diff_ids": ["sha256:" + sha(d) for d in data]})
        tag = f"localhost/gpumend-image-{os.getpid()}:{number}"
        image = folder / f"{number}.tar"
        saved(image, data, config, [{
            "Config": "config.json", "RepoTags": [tag],
            "Layers": [f"{n:064x}/layer.tar" for n in range(len(data))]}])
        loaded = subprocess.run(["podman", "load", "-q", "-i", str(image)], capture_output=True,
                                text=True, check=False)
        if loaded.returncode:
            skip(f"podman: {name}", loaded.stderr.strip()[-150:])
            continue
        try:
            status, out, error = run(exe, tag, "/app", "--json")
            check(f"podman: {name}", status == (0 if found else 1)
                  and json.loads(out)["image"]["layers"] == len(data), (status, error))
        finally:
            subprocess.run(["podman", "rmi", "-f", tag], capture_output=True, check=False)


def unpacked(data, folder):
    """A layer as overlay file systems keep it."""
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar.getmembers():
            base = os.path.basename(member.name)
            if base.startswith(".wh."):
                place = folder / os.path.dirname(member.name)
                place.mkdir(parents=True, exist_ok=True)
                os.mknod(place / base[4:], 0o600 | 0o020000, os.makedev(0, 0))
            else:
                tar.extract(member, folder)


def of_docker(exe, folder, parts):
    """Docker's folders, written by hand below another root."""
    if os.geteuid() != 0:
        return skip("docker's storage", "whiteouts are device nodes")
    wanted = ("it is there", "it is not there", "a later layer brings it", "a whiteout removes it",
              "and it comes back")
    for number, (name, layers, found) in enumerate(s for s in stories(parts) if s[0] in wanted):
        host = folder / str(number)
        docker, top = host / "var/lib/docker", host / "var/lib/docker/image/overlay2"
        data = [layer.bytes() for layer in layers]
        diffs, parent = ["sha256:" + sha(d) for d in data], None
        for n, (layer, diff) in enumerate(zip(data, diffs)):
            chain = sha(f"chain {number} {n}".encode())
            entry = top / "layerdb/sha256" / chain
            entry.mkdir(parents=True)
            (entry / "diff").write_text(diff)
            (entry / "cache-id").write_text(f"cache{n}")
            if parent:
                (entry / "parent").write_text("sha256:" + parent)
            parent = chain
            try:
                unpacked(layer, docker / f"overlay2/cache{n}/diff")
            except OSError as error:
                return skip("docker's storage", str(error))
        config = json.dumps(dict(CONFIG, rootfs={"type": "layers", "diff_ids": diffs})).encode()
        (top / "imagedb/content/sha256").mkdir(parents=True)
        (top / "imagedb/content/sha256" / sha(config)).write_bytes(config)
        (top / "repositories.json").write_text(json.dumps(
            {"Repositories": {"app": {"app:latest": "sha256:" + sha(config)}}}))
        for asked in ("app", "app:latest", sha(config)[:12]):
            status, out, error = run(exe, asked, "/app", "--json", "--host", str(host))
            check(f"docker: {name}: {asked}", status == (0 if found else 1), (status, error, out[:200]))
    status, _, error = run(exe, "no-such-image", "/app")
    check("no such image", status == 3 and "no image of this name" in error, error)


def record(data, path, plain=None):
    """What engines keep of a layer beside its files (vbatts/tar-split): the pieces between them.
    `plain`: names whose content it holds itself, or which file's it reads instead of which."""
    renamed = plain if isinstance(plain, dict) else {}
    lines, at = [], 0
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar.getmembers():
            lines.append({"type": 2, "payload": base64.b64encode(data[at:member.offset_data]).decode()})
            size = member.size if member.isreg() and (renamed or member.name not in (plain or ())) else 0
            name = renamed.get(member.name, member.name)
            lines.append({"type": 1, "name": name, "size": size, "payload": None})
            at = member.offset_data + size
    lines.append({"type": 2, "payload": base64.b64encode(data[at:]).decode()})
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(dict(line, position=n)) + "\n" for n, line in enumerate(lines))


def of_changed_storage(exe, folder, _):
    """What was changed in a storage after the engine unpacked it is not judged, unless asked for."""
    layer = Layer().folder("app").add("app/data", b"0123456789" * 2000).add("app/note", b"text")
    data = layer.bytes()
    config = json.dumps(dict(CONFIG, rootfs={"type": "layers", "diff_ids": ["sha256:" + sha(data)]})).encode()

    def make(name):
        docker = folder / name / "var/lib/docker"
        entry = docker / "image/overlay2/layerdb/sha256" / sha(b"chain")
        entry.mkdir(parents=True)
        (entry / "diff").write_text("sha256:" + sha(data))
        (entry / "cache-id").write_text("cache")
        record(data, entry / "tar-split.json.gz")
        unpacked(data, docker / "overlay2/cache/diff")
        content = docker / "image/overlay2/imagedb/content/sha256"
        content.mkdir(parents=True)
        (content / sha(config)).write_bytes(config)
        (docker / "image/overlay2/repositories.json").write_text(json.dumps(
            {"Repositories": {"app": {"app:latest": "sha256:" + sha(config)}}}))
        return docker, docker / "overlay2/cache/diff/app", content / sha(config), entry

    def flip(path):
        old = bytearray(path.read_bytes())
        old[len(old) // 2] ^= 1
        path.write_bytes(old)
    changes = {
        "nothing": (lambda app, conf, entry: None, ""),
        "a byte": (lambda app, conf, entry: flip(app / "data"), "was changed"),
        "a longer file": (lambda app, conf, entry: (app / "note").write_bytes(b"texts"), "app/note has another size"),
        "a missing file": (lambda app, conf, entry: (app / "note").unlink(), "app/note is missing"),
        "the configuration": (lambda app, conf, entry: conf.write_bytes(conf.read_bytes() + b" "), "was changed"),
    }
    for name, (change, message) in changes.items():
        docker, app, conf, entry = make(name)
        change(app, conf, entry)
        host = docker.parents[2]
        status, _, error = run(exe, "app", "--json", "--host", str(host))
        check(f"storage, {name}: judged", status == 3 and message in error if message
              else "--no-verify" not in error, (status, error))
        status, _, error = run(exe, "app", "--json", "--host", str(host), "--no-verify")
        check(f"storage, {name}: not verified", "--no-verify" not in error, (status, error))
    of_unverified_storage(exe, make)
    of_deceiving_storage(exe, folder)


def stored(folder, data, plain=None):
    """A storage of docker's with one layer; `plain`: what its record reads out of the files."""
    docker = folder / "var/lib/docker"
    entry = docker / "image/overlay2/layerdb/sha256" / sha(b"chain")
    entry.mkdir(parents=True)
    (entry / "diff").write_text("sha256:" + sha(data))
    (entry / "cache-id").write_text("cache")
    record(data, entry / "tar-split.json.gz", plain)
    unpacked(data, docker / "overlay2/cache/diff")
    config = json.dumps(dict(CONFIG, rootfs={"type": "layers", "diff_ids": ["sha256:" + sha(data)]})).encode()
    content = docker / "image/overlay2/imagedb/content/sha256"
    content.mkdir(parents=True)
    (content / sha(config)).write_bytes(config)
    (docker / "image/overlay2/repositories.json").write_text(json.dumps(
        {"Repositories": {"app": {"app:latest": "sha256:" + sha(config)}}}))
    return docker / "overlay2/cache/diff"


def of_containerd(exe, folder, _):
    """Images that containerd keeps are not read; who asks for one is told how to get at it."""
    for place, command in (("var/lib/containerd", "ctr -n k8s.io images export image.tar NAME"),
                           ("var/lib/docker/containerd/daemon", "docker save -o image.tar NAME"),
                           ("var/lib/rancher/k3s/agent/containerd", "k3s ctr -n k8s.io images export")):
        host = folder / place.replace("/", "-")
        blobs = host / place / "io.containerd.content.v1.content/blobs/sha256"
        blobs.mkdir(parents=True)
        status, _, error = run(exe, "app:1", "--host", str(host))
        check(f"{place}: empty", status == 3 and "containerd" not in error, error)
        (blobs / ("0" * 64)).write_bytes(b"{}")
        status, out, error = run(exe, "app:1", "--host", str(host))
        check(f"{place}: cannot tell, and what to do", status == 3 and not out and f"in /{place}," in error
              and command in error and error.count("\n") == 1, (status, error))


def of_deceiving_storage(exe, folder):
    """A record that comes to the digest by itself vouches for no file: what it leaves out, what was
    added beside it and where links lead is compared with the archive."""
    def layer():
        return (Layer().folder("app").folder("app/sub").add("app/data", b"0123456789" * 2000)
                .add("app/note", b"texts").add("app/other", b"other").add("app/empty")
                .symlink("app/link", "data").hardlink("app/hard", "app/data")
                .add("app/sub/\u00e4", b"name")).bytes()
    changes = {
        "nothing": (None, lambda app: None, None),
        "a file that the record leaves out": (
            {"app/note"}, lambda app: (app / "note").write_bytes(b"TEXTS"), "app/note is not compared"),
        "a hard link to it": (
            {"app/data"}, lambda app: (app / "hard").write_bytes(b"x" * 20000), "is not compared"),
        "a hard link of its own": (None, lambda app: (
            (app / "hard").unlink(), (app / "hard").write_bytes(b"x" * 20000)), "app/hard is not compared"),
        "a record that exchanges two files": (
            {"app/note": "app/other", "app/other": "app/note"}, lambda app: (
                os.rename(app / "note", app / "third"), os.rename(app / "other", app / "note"),
                os.rename(app / "third", app / "other")), "is not compared"),
        "a file that was added": (None, lambda app: (app / "libcuda.so.1").write_bytes(b"x"),
                                  "app/libcuda.so.1 is not in its archive"),
        "a link that was added": (None, lambda app: (app / "sub/x").symlink_to("/"), "app/sub/x is not in its archive"),
        "a folder that was added": (None, lambda app: (app / "new").mkdir(), "app/new is not in its archive"),
        "a link that leads elsewhere": (None, lambda app: (
            (app / "link").unlink(), (app / "link").symlink_to("/etc")), "app/link leads elsewhere"),
        "an empty file that was filled": (None, lambda app: (app / "empty").write_bytes(b"x"),
                                          "app/empty has another size"),
        "an empty file that is a link": (None, lambda app: (
            (app / "empty").unlink(), (app / "empty").symlink_to("data")), "app/empty is of another kind"),
        "an empty file that is missing": (None, lambda app: (app / "empty").unlink(),
                                          "app/empty is not in the layer's folder"),
    }
    for name, (plain, change, what) in changes.items():
        host = folder / f"deceiving {name}"
        change(stored(host, layer(), plain) / "app")
        _, out, error = run(exe, "app", "--json", "--host", str(host))
        why = [layer["why"] for layer in json.loads(out)["image"]["unverified"]] if out else [error]
        check(f"storage, {name}: never verified", len(why) == 1 and what in why[0] if what else why == [],
              (why, error))


def of_unverified_storage(exe, make):
    """What cannot be compared with its digest is said, whatever else is found."""
    def through_link(app, path):
        os.rename(app, app.parent / "real")
        app.symlink_to("real")

    def write(path, *lines):
        with gzip.open(path, "wt") as file:
            file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    cases = {
        "no record": (lambda app, path: path.unlink(), "kept no record"),
        "half a record": (lambda app, path: path.write_bytes(path.read_bytes()[:-20]), "is damaged"),
        "an empty record": (lambda app, path: path.write_bytes(b""), "is damaged"),
        "no JSON": (lambda app, path: write(path, "{\n"), "is damaged"),
        "no base64": (lambda app, path: write(path, {"type": 2, "payload": "!"}), "is damaged"),
        "a line without an end": (lambda app, path: write(path, "{}"), "is damaged"),
        "a raw name": (lambda app, path: write(path, {"type": 1, "name_raw": "/w==", "size": 3}), "not UTF-8"),
        "a link": (through_link, "leads through a link"),
        "a folder": (lambda app, path: write(path, {"type": 1, "name": "app", "size": 3}), "cannot be opened"),
        "out of the layer": (lambda app, path: write(path, {"type": 1, "name": "../../x", "size": 3}), "through a link"),
        "an unknown piece": (lambda app, path: write(path, {"type": 3}), "is damaged"),
    }
    for name, (change, why) in cases.items():
        docker, app, _, entry = make(f"unverified {name}")
        change(app, entry / "tar-split.json.gz")
        host = docker.parents[2]
        _, out, error = run(exe, "app", "--json", "--host", str(host))
        found = json.loads(out) if out else {}
        layers, notes = found.get("image", {}).get("unverified"), found.get("notes", [])
        check(f"storage, {name}: said", layers and layers[0]["layer"] == 1 and why in layers[0]["why"]
              and sum("not verified: 1 (" in n and why in n for n in notes) == 1, (layers, notes, error))
        _, out, error = run(exe, "app", "--host", str(host))
        check(f"storage, {name}: in words", why in " ".join(out.split()), (out, error))


def of_changed_podman(exe, folder, _):
    """The same of a layer that podman itself unpacked."""
    if not shutil.which("podman") or os.geteuid() != 0:
        return skip("podman's storage, changed", "there is no podman for root")
    data = Layer().folder("app").add("app/data", b"0123456789" * 2000).bytes()
    config = dict(CONFIG, rootfs={"type": "layers", "diff_ids": ["sha256:" + sha(data)]})
    tag, image = f"localhost/gpumend-changed-{os.getpid()}:1", folder / "changed.tar"
    saved(image, [data], config, [{"Config": "config.json", "RepoTags": [tag],
                                   "Layers": [f"{0:064x}/layer.tar"]}])
    loaded = subprocess.run(["podman", "load", "-q", "-i", str(image)], capture_output=True,
                            text=True, check=False)
    if loaded.returncode:
        return skip("podman's storage, changed", loaded.stderr.strip()[-150:])
    try:
        found = subprocess.run(["podman", "image", "inspect", "--format", "{{.GraphDriver.Data.UpperDir}}",
                                tag], capture_output=True, text=True, check=False).stdout.strip()
        path = Path(found) / "app/data"
        if not path.is_file():
            return skip("podman's storage, changed", "its driver is not overlay")
        before = run(exe, tag)
        path.write_bytes(b"1" + path.read_bytes()[1:])
        after = run(exe, tag)
        check("podman, a byte: judged", "--no-verify" not in before[2] and after[0] == 3 and "was changed" in after[2],
              (before, after))
    finally:
        subprocess.run(["podman", "rmi", "-f", tag], capture_output=True, check=False)


# ---------------------------------------------------------------- harm

def header(name, size=0, kind=b"0", raw_size=None):
    data = bytearray(512)
    data[0:len(name)] = name
    data[100:108] = b"0000644\0"
    data[108:116] = data[116:124] = b"0000000\0"
    data[124:136] = raw_size or b"%011o\0" % size
    data[136:148] = b"00000000000\0"
    data[156:157] = kind
    data[257:265] = b"ustar\x0000"
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data)
    return bytes(data)


def harms(folder, parts):
    good = folder / "good.tar"
    saved(good, [gzip.compress(parts.good().bytes(), 1)])
    data = good.read_bytes()

    def file(name, content):
        path = folder / name.replace("/", "-of-")
        path.write_bytes(content)
        return name, path

    def image(name, layer, manifest=None):
        path = folder / (name + ".tar")
        saved(path, [layer], manifest=manifest)
        return name, path
    yield file("empty", b"")
    yield file("text", b"not an image\n")
    yield file("zeros", b"\0" * 65536)
    random.seed(7)
    yield file("noise", random.randbytes(65536))
    for n in range(1, 20):
        yield file(f"cut after {n}/20", data[:len(data) * n // 20])
    for n in range(60):
        at = random.randrange(len(data))
        yield file(f"a byte at {at} is another", data[:at] + bytes([data[at] ^ 0x5a]) + data[at + 1:])
    whole = gzip.compress(data, 1)
    for n in range(1, 10):
        yield file(f"compressed as a whole, cut after {n}/10", whole[:len(whole) * n // 10])
    yield file("compressed as a whole, twice", gzip.compress(whole, 1))
    yield file("compressed, and no tar", gzip.compress(b"garbage" * 100000, 1))
    yield image("layer is no tar", b"garbage" * 1000)
    yield image("layer is empty", b"")
    yield image("negative size", header(b"a", raw_size=b"\xff" * 12) + b"\0" * 1024)
    yield image("huge size", header(b"a", raw_size=b"\x80" + b"\0" * 3 + b"\x7f" * 8) + b"\0" * 1024)
    many = b"".join(header(b"f%d" % n) for n in range(20000))
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as packed:
        for _ in range(55):
            packed.write(many.replace(b"\0\0\0\0ustar", b"\0\0\0\0ustar"))
    yield image("the same names again and again", stream.getvalue())
    zeros = io.BytesIO()
    with gzip.GzipFile(fileobj=zeros, mode="wb", compresslevel=1) as packed:
        packed.write(header(b"zeros", 2 << 30))
        for _ in range(2048):
            packed.write(bytes(1 << 20))
    yield image("two GiB of zeros", zeros.getvalue())
    yield image("deep folders", Layer().add("a/" * 3000 + "f").bytes())
    yield image("a name of a megabyte", Layer().add("x" * (1 << 20)).bytes())
    yield image("links in a circle", Layer().symlink("a", "b").symlink("b", "a").add("a/f")
                .bytes())
    yield image("the manifest names no layer that is there", b"", [
        {"Config": "config.json", "Layers": ["none.tar"]}])
    yield image("the manifest names a file of this machine", b"", [
        {"Config": "config.json", "Layers": ["/etc/passwd"]}])
    yield image("the manifest climbs out", b"", [
        {"Config": "../../../../etc/passwd", "Layers": []}])
    yield image("the manifest is a list of numbers", b"", [1, 2])
    linked = folder / "linked-layout"
    layout(linked, [parts.good().bytes()])
    for blob in (linked / "blobs/sha256").iterdir():
        if blob.stat().st_size > 100000:
            blob.unlink()
            blob.symlink_to("/etc/passwd")
    yield "a blob is a link to a file of this machine", linked
    pipe = folder / "pipe-layout"
    layout(pipe, [parts.good().bytes()])
    (pipe / "index.json").unlink()
    os.mkfifo(pipe / "index.json")
    yield "the index is a pipe", pipe


def of_harms(exe, folder, parts):
    for name, path in harms(folder, parts):
        status, out, error = run(exe, path, "/app")
        cut = "cut after" in name
        check(f"harm: {name}", status == 3 or (status in (0, 1) and not cut), (status, error[-300:]))
        if status == 3:
            check(f"harm: {name}: one sentence", len(error.strip().splitlines()) == 1
                  or out.strip(), error[-300:])
        check(f"harm: {name}: no file of this machine", "root:x:" not in out + error, out[:300])


def of_escapes(exe, folder, parts):
    """Names end inside the image. What engines cannot unpack is an error, counted and said."""
    image, good = folder / "escapes.tar", folder / "inside.tar"
    upper = Layer().add("../../usr/lib/x86_64-linux-gnu/libcublas.so.12", parts.library).symlink(
        "usr/lib/x86_64-linux-gnu/host", "../../../../../../../../etc")
    saved(good, [parts.base().bytes(), upper.bytes()])
    saved(image, [parts.base().bytes(), Layer().hardlink("usr/passwd", "../../../etc/passwd").bytes()])
    status, out, error = run(exe, good, "/app", "--json")
    said = json.loads(out or "{}")
    check("escapes: inside", status == 0 and said["image"]["outside"] == 1
          and said["image"]["left_out"] == 0, (said.get("image"), error))
    status, out, error = run(exe, image, "/app", "--json")
    said = json.loads(out or "{}")
    refused = [f for f in said.get("findings", []) if f["cause"] == "container-image-refused"]
    check("escapes: a hard link to what its layer lacks", status == 1 and len(refused) == 1
          and said["image"]["left_out"] == 1 and "usr/passwd" in refused[0]["summary"],
          (said.get("image"), error))
    status, out, error = run(exe, good, "/usr/lib/x86_64-linux-gnu/host/hostname")
    check("escapes: a link above the root ends in the image", status == 3
          and "host/hostname" in error, error)


def main():
    exe = Path(sys.argv[1]).resolve()
    if os.uname().machine != "x86_64":
        skip("images", "the stand-ins are for x86-64")
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            parts = Parts(folder)
            for name, part in (("stories", of_stories), ("needs", of_needs), ("configuration", of_configuration),
                               ("hosts", of_hosts), ("podman", of_podman), ("docker", of_docker),
                               ("changed", of_changed_storage), ("containerd", of_containerd), ("changed-podman", of_changed_podman),
                               ("harms", of_harms), ("escapes", of_escapes),
                               ("several", several.of_several), ("platforms", several.of_platforms),
                               ("digests", several.of_digests)):
                (folder / name).mkdir()
                part(exe, folder / name, parts)
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            check(f"no run took more than {MEMORY_MIB} MiB", peak < MEMORY_MIB, f"{peak:.0f} MiB")
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
