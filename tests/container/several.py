"""Several images in one archive or layout, images for several platforms, and digests: parts of the
suites images and hostile-images.

The good image has its library, the bad one lacks it, so that the verdict shows which was looked at.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import time

from cdi import check, skip

NAME = "org.opencontainers.image.ref.name"


def command(exe, *arguments, shown=None, **options):
    started = time.monotonic()
    done = subprocess.run([str(exe), "container", *map(str, arguments)], capture_output=True,
                          text=True, errors="replace", timeout=120, check=False, **options)
    command.seconds = time.monotonic() - started
    return done.returncode, done.stdout, done.stderr


def config_of(layers, architecture="amd64", **more):
    return json.dumps({"architecture": architecture, "os": "linux", "config": {"Cmd": ["/app"]},
                       "rootfs": {"type": "layers", "diff_ids": [
                           "sha256:" + hashlib.sha256(d).hexdigest() for d in layers]}, **more}).encode()


def put(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def archive(path, images, extra=(), change=None):
    """docker save of (tags, layers, options of the configuration); `change` alters members by name."""
    members, entries = {}, []
    for tags, layers, more in images:
        config = config_of(layers, **more)
        name = hashlib.sha256(config).hexdigest() + ".json"
        names = [hashlib.sha256(d).hexdigest() + "/layer.tar" for d in layers]
        members |= {name: config, **dict(zip(names, layers))}
        entries.append({"Config": name, "RepoTags": tags, "Layers": names})
    members["manifest.json"] = json.dumps(entries).encode()
    with tarfile.open(path, "w") as tar:
        for name, data in [*members.items(), *extra]:
            put(tar, name, change(name, data) if change else data)


class Layout:
    def __init__(self, folder, algorithm="sha256"):
        self.folder, self.algorithm = folder, algorithm
        (folder / "blobs" / algorithm).mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def put(self, data, kind=None, **more):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest = hashlib.new(self.algorithm, data).hexdigest()
        (self.folder / "blobs" / self.algorithm / digest).write_bytes(data)
        kind = {"mediaType": f"application/vnd.oci.image.{kind}.v1+json"} if kind else {}
        return {**kind, "digest": f"{self.algorithm}:{digest}", "size": len(data), **more}

    def image(self, layers, architecture="amd64", name=None, variant=None, platform=True):
        more = {"platform": {"os": "linux", "architecture": architecture,
                             **({"variant": variant} if variant else {})}} if platform else {}
        if name:
            more["annotations"] = {NAME: name}
        return self.put({"schemaVersion": 2, "config": self.put(config_of(layers, architecture)),
                         "layers": [self.put(d) for d in layers]}, "manifest", **more)

    def attestation(self, of):
        return self.put({"schemaVersion": 2, "config": self.put(b"{}"), "layers": []}, "manifest",
                        platform={"os": "unknown", "architecture": "unknown"},
                        annotations={"vnd.docker.reference.type": "attestation-manifest",
                                     "vnd.docker.reference.digest": of["digest"]})

    def index(self, manifests, **more):
        return self.put({"schemaVersion": 2, "manifests": manifests}, "index", **more)

    def done(self, *manifests):
        (self.folder / "index.json").write_text(
            json.dumps({"schemaVersion": 2, "manifests": manifests}))
        return self.folder

    def archive(self):
        path = self.folder.with_suffix(".oci.tar")
        with tarfile.open(path, "w") as tar:
            tar.add(self.folder, ".")
        return path


def good_and_bad(parts):
    return [parts.good().bytes()], [parts.base().bytes()]


# ---------------------------------------------------------------- several images

def refused(exe, what, path, *words, without=()):
    status, out, error = command(exe, "check", path, "/app")
    check(f"{what}: is refused as a usage error, in one line", status == 2 and not out
          and len(error.strip().splitlines()) == 1, (status, out[:200], error))
    check(f"{what}: {words}", all(w in error for w in words)
          and not any(w in error for w in without), error)


def chosen(exe, where, file, names):
    """That each name leads to its own image: status 0 is the good one, 1 the bad one."""
    for name, wanted in names.items():
        status, out, error = command(exe, "check", f"{file}:{name}", "/app", "--json")
        said = json.loads(out or "{}").get("image", {})
        check(f"{where}: {name}", status == wanted, (status, error, said.get("name")))


def of_several(exe, folder, parts):
    good, bad = good_and_bad(parts)
    file = folder / "many: images.tar"
    archive(file, [(["localhost/bad:1", "localhost/bad:old"], bad, {}), (["docker.io/library/good:latest"], good, {}),
                   (None, good, {"created": "2024-01-01T00:00:00Z"})])
    refused(exe, "three images and none chosen", file, "3 images", "localhost/bad:1",
            "docker.io/library/good:latest", "@2")
    chosen(exe, "saved", file, {"localhost/bad:1": 1, "bad:1": 1, "bad:old": 1, "good": 0, "good:latest": 0,
                                "@0": 1, "@1": 0, "@2": 0, "nobody": 2, "good:1": 2, "@3": 2, "@": 2,
                                "@-1": 2, "@00000000000000000000000000000000": 1})
    for transport in ("docker-archive:",):
        status, _, error = command(exe, "check", f"{transport}{file}:good", "/app")
        check("as podman names it", status == 0, error)
    status, out, _ = command(exe, "check", f"{file}:bad:old", "/app", "--json")
    check("the name is the one that was asked for",
          json.loads(out)["image"]["name"] == "localhost/bad:old", out[:300])
    status, out, error = command(exe, "docker", f"{file}:good", "/app", "--host", "/", "--json")
    said = json.loads(out or "{}")
    check("the command names the image, and loads the file", status == 0
          and said["name"] == "docker.io/library/good:latest"
          and f"docker load -i '{file}'" in said["first"][0]["value"], error or said)
    status, out, _ = command(exe, "docker", f"{file}:@2", "/app", "--json")
    check("and the number of one without a name",
          f"'docker-archive:{file}:@2'".replace("'docker-archive:", "docker-archive:'") in out
          or f"docker-archive:'{file}:@2'" in out, out[:800])
    one = folder / "one.tar"
    archive(one, [(["app:1"], good, {})])
    check("one image needs no name", command(exe, "check", one, "/app")[0] == 0, "")
    chosen(exe, "one", one, {"app:1": 0, "app": 2, "@0": 0})
    for form in ("layout", "archive"):
        lay = Layout(folder / form)
        lay.done(lay.image(bad, name="bad"), lay.image(good, name="localhost/good:1"),
                 lay.image(good, "arm64", name="localhost/good:1"), lay.image(good, name="with\nnewline"))
        path = lay.folder if form == "layout" else lay.archive()
        refused(exe, f"OCI {form}", path, "3 images", "bad", "localhost/good:1", "@3", without=("\nnew",))
        digest = json.loads((lay.folder / "index.json").read_text())["manifests"][0]["digest"]
        chosen(exe, f"OCI {form}", path, {"bad": 1, "good:1": 0, "localhost/good:1": 0, digest: 1,
                                          digest[:30]: 1, "@3": 0, "with\nnewline": 0})
    in_folder = command(exe, "check", "one.tar:app:1", "/app", cwd=folder)
    check("a path without a folder", in_folder[0] == 0, in_folder)
    by_podman(exe, file, folder)


def by_podman(exe, file, folder):
    """podman takes the same names."""
    if not shutil.which("podman"):
        return skip("names in podman", "there is no podman")
    plain = folder / "plain.tar"
    plain.symlink_to(file.name)
    top = ["podman", "--root", str(folder / "store"), "--runroot", str(folder / "run"), "--storage-driver",
           "vfs"]
    probe = subprocess.run([*top, "pull", "-q", f"docker-archive:{plain}:localhost/bad:1"],
                           capture_output=True, text=True, check=False)
    if probe.returncode:
        return skip("names in podman", probe.stderr.strip()[-120:])
    for name in ("localhost/bad:old", "docker.io/library/good:latest", "@1", "@2", "@3", "nobody"):
        done = subprocess.run([*top, "pull", "-q", f"docker-archive:{plain}:{name}"],
                              capture_output=True, text=True, check=False)
        ours = command(exe, "check", f"{plain}:{name}", "/app")[0]
        check(f"podman and {name}", (done.returncode == 0) == (ours in (0, 1)), (done.stderr[-200:], ours))
    return None


# ---------------------------------------------------------------- platforms

def of_platforms(exe, folder, parts):
    good, bad = good_and_bad(parts)
    other = folder / "arm-host"
    (other / "proc").mkdir(parents=True)
    (other / "proc/cpuinfo").write_text("processor\t: 0\nCPU architecture: 8\n")
    mine = folder / "this-host"
    (mine / "proc").mkdir(parents=True)
    (mine / "proc/cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu lm sse2\n")
    for form in ("nested", "flat"):
        lay = Layout(folder / form)
        arm, amd = lay.image(bad, "arm64", variant="v8"), lay.image(good, "amd64")
        # The attestations come first, and the index has no name, as buildx writes it.
        list_ = [lay.attestation(arm), lay.attestation(amd), arm, amd]
        path = lay.done(lay.index(list_)) if form == "nested" else lay.done(*list_)
        for options, wanted in (((), "amd64"), (("--host", mine), "amd64"), (("--host", other), "arm64"),
                                (("--platform", "linux/arm64"), "arm64"),
                                (("--platform", "linux/aarch64/v8"), "arm64"),
                                (("--host", other, "--platform", "linux/amd64"), "amd64")):
            status, out, error = command(exe, "check", path, "/app", "--json", *options)
            said = json.loads(out or "{}").get("image", {})
            check(f"{form}: {' '.join(map(str, options[-2:]))}: {wanted}",
                  said.get("architecture") == wanted, (status, error, said))
        for platform in ("linux/s390x", "linux/arm64/v7", "windows/amd64"):
            status, out, error = command(exe, "check", path, "/app", "--platform", platform)
            check(f"{form}: {platform} is refused, and which there are is said", status == 2 and not out
                  and "linux/arm64/v8, linux/amd64" in error, (status, error))
    # Processors that gpumend has no other name for are told apart by the names that they are given.
    lay = Layout(folder / "unknown")
    path = lay.done(lay.image(bad, "mips64le"), lay.image(good, "mips64"))
    status, out, error = command(exe, "check", path, "/app", "--json", "--platform", "linux/mips64")
    check("unknown processors: by their names",
          json.loads(out or "{}").get("image", {}).get("architecture") == "mips64", (status, error))
    for text in ("arm64", "linux/", "/arm64", "linux/arm64/v8/x", ""):
        status, _, error = command(exe, "check", path, "/app", "--platform", text)
        check(f"no platform: {text!r}", status == 2 and "is not a platform" in error, (status, error))
    alone = Layout(folder / "alone")
    path = alone.done(alone.image(good, "arm64"), alone.attestation(alone.image(good, "arm64")))
    status, out, _ = command(exe, "check", path, "/app", "--json", "--host", mine)
    check("one image for another platform needs no choice",
          json.loads(out or "{}").get("image", {}).get("architecture") == "arm64", out[:200])
    status, _, error = command(exe, "check", path, "/app", "--platform", "linux/amd64")
    check("but is not the one that was asked for", status == 2 and "linux/arm64" in error, error)
    file = folder / "saved.tar"
    archive(file, [(["app:1"], good, {})])
    status, _, error = command(exe, "check", file, "/app", "--platform", "linux/arm64")
    check("saved: for another platform", status == 2 and "linux/amd64" in error, error)
    only = Layout(folder / "only")
    path = only.done(only.attestation(only.image(good)))
    status, _, error = command(exe, "check", path, "/app")
    check("attestations are no image", status == 3 and "names no image" in error, error)
    bare = folder / "bare-host"
    (bare / "etc").mkdir(parents=True)
    status, out, _ = command(exe, "check", folder / "nested", "/app", "--json", "--host", bare)
    check("a host whose processor is not known: which was taken is said",
          "one for linux/" in " ".join(json.loads(out)["notes"]), out[-500:])


# ---------------------------------------------------------------- digests

def flipped(data):
    return data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:]


def wrong(exe, what, path, file, readable=True):
    status, out, error = command(exe, "check", path, "/app")
    check(f"{what}: status 3, in one line, and names the file", status == 3 and not out
          and file in error and len(error.strip().splitlines()) == 1, (status, error[-400:]))
    status, out, error = command(exe, "check", path, "/app", "--no-verify")
    check(f"{what}: --no-verify", (status in (0, 1) or not readable) and "digest" not in error,
          (status, error))


def of_digests(exe, folder, parts):
    padding = b"\0" * 4096      # behind the end of the archive: no reader of archives looks there
    layers = [parts.base().bytes(), parts.good().bytes() + padding]
    lay = Layout(folder / "layout")
    manifest = lay.image(layers)
    lay.done(manifest)
    blobs = lay.folder / "blobs/sha256"
    check("all is as its digest says", command(exe, "check", lay.folder, "/app")[0] == 0, "")
    document = json.loads((blobs / manifest["digest"][7:]).read_text())
    places = {"manifest": manifest, "configuration": document["config"],
              "first layer": document["layers"][0], "last layer": document["layers"][1]}
    for what, descriptor in places.items():
        blob = blobs / descriptor["digest"][7:]
        whole = blob.read_bytes()
        # Of documents a blank, and of the last layer what is behind its archive: all can be read.
        blob.write_bytes(whole + b" " if what in ("manifest", "configuration") else
                         whole[:-1] + b"x" if what == "last layer" else flipped(whole))
        for form in ("layout", "archive"):
            path = lay.folder if form == "layout" else lay.archive()
            wrong(exe, f"{form}, {what}", path, blob.name)
        blob.write_bytes(whole)
    wide = Layout(folder / "sha512", "sha512")
    manifest = wide.image(layers)
    path = wide.done(manifest)
    check("sha512", command(exe, "check", path, "/app")[0] == 0, "")
    blob = wide.folder / "blobs/sha512" / json.loads((wide.folder / "blobs/sha512" / manifest[
        "digest"][7:]).read_text())["layers"][0]["digest"][7:]
    blob.write_bytes(flipped(blob.read_bytes()))
    wrong(exe, "sha512, a layer", path, blob.name)
    for name, change, file in (
            ("layer", lambda n, d: flipped(d) if n.endswith("/layer.tar") else d, "/layer.tar"),
            ("configuration", lambda n, d: d + b" " if n.endswith(".json") and n != "manifest.json" else d,
             ".json")):
        archive(folder / f"{name}.tar", [(["app:1"], layers, {})], change=change)
        wrong(exe, f"saved, {name}", folder / f"{name}.tar", file)
    packed = folder / "whole.tar.gz"
    packed.write_bytes(subprocess.run(["gzip", "-1c", folder / "layer.tar"], capture_output=True,
                                      check=True).stdout)
    wrong(exe, "saved and compressed as a whole", packed, "/layer.tar")


def of_hostile_digests(exe, folder, parts):
    good, _ = good_and_bad(parts)
    lay = Layout(folder / "layout")
    manifest = lay.image(good)
    hexes = manifest["digest"][7:]
    for name, digest in (
            ("none", None), ("a number", 7), ("no algorithm", hexes), ("empty", ""), ("a colon", ":"),
            ("another algorithm", "md5:" + "0" * 32), ("no hex", "sha256:" + "g" * 64),
            ("upper case", "sha256:" + hexes.upper()), ("too short", "sha256:" + hexes[:63]),
            ("too long", "sha256:" + hexes + "0"), ("a path", "sha256:../../../../etc/passwd"),
            ("an escape", "sha256:\x1b[2J" + hexes[5:]), ("a line", "sha256\n:" + hexes),
            ("long", "sha256:" + "0" * 100000), ("sha512 of 256 bits", "sha512:" + hexes)):
        entry = {**manifest, "digest": digest}
        if digest is None:
            del entry["digest"]
        path = lay.done(entry)
        status, out, error = command(exe, "check", path, "/app")
        check(f"digest, {name}: cannot be checked", status == 3 and not out
              and len(error.strip().splitlines()) == 1 and "\x1b" not in error, (status, error[-300:]))
        status, _, error = command(exe, "check", path, "/app", "--no-verify")
        check(f"digest, {name}: --no-verify comes to no other file", status == 3
              and "root:x:" not in error and "\x1b" not in error, (status, error[-300:]))


def of_hostile_names(exe, folder, parts):
    good, bad = good_and_bad(parts)
    twice = folder / "twice.tar"
    archive(twice, [(["app:1"], bad, {}), (["app:1"], good, {})])
    refused(exe, "two of one name, none chosen", twice, "2 images", "@0, @1")
    status, _, error = command(exe, "check", f"{twice}:app:1", "/app")
    check("two of one name, by name", status == 2 and "2 of its images" in error and "@0, @1" in error, error)
    chosen(exe, "two of one name", twice, {"@0": 1, "@1": 0})
    evil = ["x\n--privileged", "\x1b[2Jx:1", "../../etc/passwd", "$(reboot)", "'; reboot #", "\u202e", "-rf", ""]
    names = folder / "names.tar"
    archive(names, [([name], good, {"n": i}) for i, name in enumerate(evil)])
    refused(exe, "names that no command may hold", names, "8 images", "@0, @1, @2, @3, @4, @5, @6, @7",
            without=("\x1b", "reboot", "privileged", "\u202e"))
    members = folder / "members.tar"
    for name, extra in (("manifest.json", b"[]"), ("a layer", None)):
        layer = hashlib.sha256(good[0]).hexdigest() + "/layer.tar"
        archive(members, [(["app:1"], good, {})], [(layer, bad[0])] if extra is None else [(name, extra)])
        status, out, error = command(exe, "check", members, "/app")
        check(f"{name} is there twice", status == 3 and "two members" in error and not out, (status, error))
    lay = Layout(folder / "layout")
    one = lay.image(good)
    for name, manifests in (
            ("names", [{**one, "digest": f"sha256:{i:064x}", "annotations": {NAME: f"n{i}"}}
                       for i in range(20000)]),
            ("platforms", [{**one, "digest": f"sha256:{i:064x}",
                            "platform": {"os": "linux", "architecture": f"a{i}"}} for i in range(20000)]),
            ("one", [one] * 20000), ("attestations", [lay.attestation(one)] * 20000),
            ("numbers", [1] * 100000), ("no list", {"a": 1})):
        (lay.folder / "index.json").write_text(json.dumps({"manifests": manifests}))
        status, out, error = command(exe, "check", lay.folder, "/app")
        check(f"a huge index of {name}: in time, in one line",
              status == {"one": 0, "names": 2, "platforms": 2}.get(name, 3) and command.seconds < 20
              and (status == 0 or len(error) < 900 + len(str(lay.folder)) * 2),
              (status, command.seconds, error[-300:]))
    inside = [one]
    for _ in range(8):
        inside = [lay.index(inside)]
    status, _, error = command(exe, "check", lay.done(*inside), "/app")
    check("indexes in indexes have a bound", status == 3, (status, error))
