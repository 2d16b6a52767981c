#!/usr/bin/env python3
"""What a hostile image makes of the fifteen forms of `gpumend container FORM`: nothing.

    tests/safety/forms.py GPUMEND

An image whose names are attacks (DT_NEEDED and soname, the name, ENV, entrypoint, user, labels,
working directory, folders, the archive's own name) is compared with the same image with plain names.
For each form: the text has no control character and no mark that reorders it; a document has exactly
the keys that the plain twin's has, and the values of --json; a command, and each line that is to be
pasted, is run by a real shell whose programs record their words, and starts only what the twin's
starts; and each mount is a library in the host's own folders, below no link that leads elsewhere.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "container"))
sys.path.insert(0, str(HERE.parent / "trees"))
from cdi import check, compiled, counts, skip, tree  # noqa: E402
from image import saved  # noqa: E402
from settings import FORMS, YAML, layer_of, values, yaml_of  # noqa: E402

LIB = "usr/lib/x86_64-linux-gnu"
FOLDERS = ("/usr/lib/", "/usr/lib64/", "/usr/local/lib/", "/usr/local/cuda", "/opt/rocm", "/lib/")
PLAIN = "pla in"
PAYLOADS = {
    "lines of YAML": "x\n    privileged: true\n    pid: host\n#",
    "lines of a shell": "x\r\n\tExecStartPre=touch PWN1\ntouch PWN2\n\\",
    "quotes": "x' ; touch PWN3; '\" ; touch PWN4; \"",
    "substitution": "x$(touch PWN5)`touch PWN6`; touch PWN7 ; ${HOME}$$ {{.}} %n%s%h%% # y",
    "a tag": "!!python/object/apply:os.system ['touch PWN8']",
    "escapes": "x\x1b]0;owned\x07\x1b[2J\u009b31m",
    "reordered": "x\u202ecod.\u2066y\u2069",
    "separators": "x\u2028privileged: true\u2029\u0085touch PWN9",
    "an option": "--privileged",
    "mounts": "x,type=bind,source=/etc,target=/etc:/etc:rw",
    "not UTF-8": "x\udcff\udcfe",
    "nothing": "",
}
PATHS = ("../../../etc/shadow", "/etc/shadow", "../../../../../../etc/shadow",
         "../../../home/user/libaway.so.1", "./libhere.so.1", "..", ".", "libaway.so.1",
         "libshadow.so.1", "libtext.so.1", "libloop.so.1", "libfolder.so.1", "libfifo.so.1")
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
RECORDER = """#!/bin/sh
printf '%s\\001' "${0##*/}" "$@" > "$GPUMEND_TEST_LOG/$$"
"""
STUBS = ("docker", "podman", "apptainer", "enroot", "srun", "sudo", "systemd-nspawn", "kubectl",
         "skopeo", "tar", "mkdir", "rm", "cp", "systemctl", "devcontainer", "incus", "cat",
         "systemd-run", "lxc-start", "curl", "pip", "python3", "apt-get")


def raw(text):
    return text.encode("utf-8", "surrogateescape")


# ---------------------------------------------------------------- the image and the host

def library(path, soname):
    path.parent.mkdir(parents=True, exist_ok=True)
    compiled("int f(void) { return 1; }", "-shared", "-fPIC", "-nostdlib", "-Xlinker", "-soname",
             "-Xlinker", soname, "-o", path)


def linked(source, *options):
    subprocess.run(["cc", "-x", "c", "-", "-x", "none", *options], input=source.encode(), check=True)


def program(folder, path, needs):
    """A program that asks for libraries of these names."""
    made = folder / "made"
    made.mkdir(exist_ok=True)
    options = []
    for n, name in enumerate(needs):
        stand_in = made / f"lib{n}.so"
        linked(f"int f{n}(void) {{ return 1; }}", "-shared", "-fPIC", "-nostdlib", "-Xlinker",
               "-soname", "-Xlinker", raw(name), "-o", stand_in)
        options.append(stand_in)
    calls = "".join(f"int f{n}(void);" for n in range(len(needs)))
    linked(f"{calls} int main(void) {{ return {'+'.join(f'f{n}()' for n in range(len(needs)))}; }}",
           "-o", path, *options)


def host_of(folder, needs):
    """A host that has a real library by every name, at every place that a path leads to."""
    top = tree(folder, "geforce-desktop")
    real = folder / "real.so"
    library(real, "libreal.so.1")
    (top / LIB).mkdir(parents=True, exist_ok=True)
    for place in ("etc/shadow", "home/user/libaway.so.1", f"{LIB}/libhere.so.1"):
        (top / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(real, top / place)
    (top / LIB / "libaway.so.1").symlink_to("../../../home/user/libaway.so.1")
    (top / LIB / "libshadow.so.1").symlink_to("/etc/shadow")
    (top / LIB / "libtext.so.1").write_text("root:*:0:0\n")
    (top / LIB / "libloop.so.1").symlink_to("libloop.so.1")
    (top / LIB / "libfolder.so.1").mkdir()
    os.mkfifo(top / LIB / "libfifo.so.1")
    (top / "usr/local").mkdir(exist_ok=True)
    (top / "usr/local/cuda-99.9").symlink_to("../../home/user/cuda")
    cuda = top / "usr/local/cuda-12.6/lib64"
    cuda.mkdir(parents=True)
    away = top / "home/user/cuda/lib64"
    away.mkdir(parents=True)
    for name in needs:
        if name and "/" not in name and name not in (".", ".."):
            for place in (away,) if name in PATHS else (cuda, top / LIB, away):
                path = os.path.join(raw(str(place)), raw(name))
                if not os.path.lexists(path):
                    shutil.copy(real, path)
    return top


def config_of(payload):
    def each(*names):
        return [f"{name}={payload}" for name in names]
    user = payload or "b ad"
    return {"architecture": "amd64", "os": "linux", "config": {
        "Env": [*each("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
                      "NVIDIA_VISIBLE_DEVICES", "CUDA_VERSION", "HOME"), f"{payload}=1", payload,
                "PATH=/bin"],
        "Cmd": [payload], "Entrypoint": ["/app/server", payload], "User": user,
        "WorkingDir": f"/{payload}", "Labels": {payload or "x": payload}}}


def image_of(folder, payload, needs):
    """An archive, and the same file system as a folder, both named by the payload."""
    root = folder / "root"
    (root / "app").mkdir(parents=True)
    program(folder, root / "app/server", [n for n in needs if n])
    inside = os.path.join(raw(str(root)), raw(payload.replace("/", "_") or "x"))
    if not os.path.lexists(inside):
        os.mkdir(inside)
        shutil.copy(root / "app/server", os.path.join(inside, b"server"))
    for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"):
        copy = root / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    name = payload.replace("/", "_") or "x"
    archive = os.path.join(raw(str(folder)), raw("i" + name + ".tar"))
    text = payload.encode("utf-8", "replace").decode()
    saved(os.fsdecode(archive), [layer_of(root)], config_of(text), manifest=[
        {"Config": "config.json", "RepoTags": [text or "not one"], "Layers": [f"{0:064x}/layer.tar"]}])
    moved = os.path.join(raw(str(folder)), raw("f" + name))
    os.rename(root, moved)
    return archive, moved, b"/" + raw(name) + b"/server"


# ---------------------------------------------------------------- what is printed

def run(exe, *arguments):
    return subprocess.run([str(exe), "container", *arguments], capture_output=True, timeout=60,
                          check=False)


def keys(value):
    """The shape of a document: its keys, without what the keys hold."""
    if isinstance(value, dict):
        return {k: keys(v) for k, v in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(keys(v), sort_keys=True) for v in value})
    return type(value).__name__


class Shell:
    """A shell that finds only programs which record their words, and touch."""

    def __init__(self, folder):
        self.bin, self.home, self.log = folder / "bin", folder / "home", folder / "log"
        self.known = {}
        self.bin.mkdir()
        for name in STUBS:
            (self.bin / name).write_text(RECORDER)
            (self.bin / name).chmod(0o755)
        for name in ("touch", "env", "sh"):
            (self.bin / name).symlink_to(shutil.which(name))

    def words(self, text):
        """What a shell starts for the text: lists of words; None: it did something else, too."""
        if text not in self.known:
            self.known[text] = self.started(text)
        return self.known[text]

    def started(self, text):
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()
        shutil.rmtree(self.log, ignore_errors=True)
        self.log.mkdir()
        done = subprocess.run(["/bin/bash"], input=text, cwd=self.home, capture_output=True,
                              timeout=30, check=False,
                              env={"PATH": str(self.bin), "HOME": str(self.home),
                                   "GPUMEND_TEST_LOG": str(self.log)})
        left = sorted(os.listdir(self.home))
        begun = sorted(one.read_bytes().split(b"\x01")[:-1] for one in self.log.iterdir())
        return None if left else begun, (left, done.stderr[-200:])


def body_of(text):
    return "".join(line + "\n" for line in text.splitlines() if line and not line.startswith("#"))


def of_mounts(where, said, host):
    for mount in values(said, "mounts"):
        source, target = mount.split(":")       # two parts, or it is none
        real = os.path.realpath(os.path.join(str(host), source.lstrip("/")))
        check(f"{where}: {source} is where it says", real == str(host) + source, real)
        check(f"{where}: {source} is in a folder of libraries", source.startswith(FOLDERS)
              and ".." not in source and os.path.isfile(real), mount)
        check(f"{where}: {target} is one name", re.fullmatch(
            r"/(opt/gpumend/(lib|driver)|usr/lib\S*|lib\S*)/[\w.+-]+|/usr/bin/nvidia-[\w-]+|/lib/firmware/\S+",
            target), mount)


def texts_of(value):
    if isinstance(value, dict):
        return [t for item in value.items() for t in texts_of(item)]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in texts_of(item)]
    return [value] if isinstance(value, str) else []


def of_paths(where, said, host):
    """Whatever a form's own part of the JSON calls a mount, it names no other file of the host."""
    sources = {mount.split(":")[0] for mount in values(said, "mounts")}
    for text in texts_of([said["arguments"], said["documents"], said["lines"]]):
        for path in re.findall(r"/[^\s:,=\"'\\]+", text):
            if os.path.isfile(os.path.join(str(host), path.lstrip("/"))) and path not in sources:
                check(f"{where}: {path} is named", False, text)


def of_command(where, shell, body, said, twin):
    begun, detail = shell.words(raw(body))
    check(f"{where}: starts one program", begun is not None and len(begun) == 1, (detail, body))
    if begun and len(begun) == 1:
        words = [w.decode("utf-8", "backslashreplace") for w in begun[0]]
        joined = "\0".join(words)
        check(f"{where}: has the words of --json", "\0".join(said["arguments"]) in joined
              and any(w.endswith(said["name"]) for w in words), words)
        last = next(n for n, w in enumerate(words) if w.endswith(said["name"]))
        options = [w for w in words[:last] if w.startswith("-") and "=" not in w]
        check(f"{where}: has the plain twin's options", twin in (None, options), (twin, words))
        return options
    return None


def shape(begun):
    """Programs and how many words they have; variables and the folder may be left out."""
    return [(w[0], sum(not one.startswith((b"--setenv=", b"--chdir=")) for one in w)) for w in begun]


def line_keys(lines):
    """The settings of a file of lines; the folder may be left out."""
    return {line.split("=")[0].split(" ")[0] for line in body_of(lines).splitlines()} - {"lxc.init.cwd"}


def of_pasted(where, shell, said, twin):
    """Each line that is to be pasted starts what the plain twin's starts."""
    for key in ("first", "trials", "undo"):
        field = "command" if key == "trials" else "value"
        lines, plain = [x[field] for x in said[key]], [x[field] for x in twin[key]]
        check(f"{where}: as many lines", len(lines) == len(plain), (lines, plain))
        for line, like in zip(lines, plain):
            begun, detail = shell.words(raw(line) + b"\n")
            same, _ = shell.words(raw(like) + b"\n")
            check(f"{where}: {key}", begun is not None and shape(begun) == shape(same or []),
                  (line, begun, detail))


def of_form(exe, folder, form, where, arguments, twin, shell, host):
    shown, told = (run(exe, form, *arguments, "--host", str(host), *more)
                   for more in ((), ("--json",)))
    if shown.returncode == 3 == told.returncode and b"" != shown.stderr:
        text = shown.stderr.decode()
        check(f"{where}: an error of one line", not BAD.search(text.rstrip("\n")) and
              text.count("\n") == 1, text)
        return None
    check(f"{where}: status", shown.returncode == 0 == told.returncode, shown.stderr + told.stderr)
    if told.returncode or shown.returncode:
        return None
    text, plain = shown.stdout.decode(), told.stdout.decode()
    check(f"{where}: text is printable", not BAD.search(text + shown.stderr.decode()),
          ascii(BAD.findall(text)))
    check(f"{where}: JSON is printable", not BAD.search(plain), ascii(BAD.findall(plain)))
    said = json.loads(plain)
    of_mounts(where, said, host)
    of_paths(where, said, host)
    body, expected = body_of(text), twin[form] if twin else said
    if form in YAML:
        documents = yaml_of(text)
        check(f"{where}: what --json says", documents in (None, said["documents"]), text)
    if form == "devcontainer":
        check(f"{where}: what --json says", [json.loads(text)] == said["documents"], text)
    if said["documents"]:
        check(f"{where}: its keys", keys(said["documents"]) == keys(expected["documents"]), body)
    elif said["lines"]:
        check(f"{where}: what --json says", body == body_of(said["lines"]), body)
        check(f"{where}: its keys", line_keys(said["lines"]) == line_keys(expected["lines"]), body)
    else:
        said["options"] = of_command(where, shell, body, said, expected.get("options"))
    of_pasted(where, shell, said, expected)
    return said


def of_payload(exe, folder, name, payload, twin, shell):
    needs = ["libcublas.so.12", *PATHS, payload]
    if not re.fullmatch(r"[\w.-]*", payload):     # what is left is a good name
        needs += [payload + ".so.1", "lib" + payload + ".so.12"]
    host = host_of(folder, needs)
    archive, root, inside = image_of(folder, payload, needs)
    found = {}
    for kind, forms, arguments in (("archive", FORMS, (archive, "/app/server")),
                                   ("archive alone", ("docker", "compose"), (archive,)),
                                   ("folder", FORMS, (root, "/app/server")),
                                   ("--root", ("podman", "quadlet"), ("--root", root, inside))):
        found[kind] = {}
        for form in forms:
            found[kind][form] = of_form(exe, folder, form, f"{name}: {kind}: {form}", arguments,
                                        twin and twin[kind], shell, host)
    return found


def of_single(exe, folder):
    """One name at a time: what an image lacks is mounted only where all that one cause asks for is."""
    for n, name in enumerate(("libcublas.so.12", *PATHS)):
        place = folder / f"single{n}"
        place.mkdir()
        host = host_of(place, ["libcublas.so.12", name])
        archive, _, _ = image_of(place, PLAIN, [name])
        mounted = []
        for form in FORMS:
            done = run(exe, form, archive, "/app/server", "--host", str(host), "--json")
            where = f"{name} alone: {form}"
            check(f"{where}: status", done.returncode == 0, done.stderr)
            said = json.loads(done.stdout)
            of_mounts(where, said, host)
            of_paths(where, said, host)
            mounted += [form for mount in values(said, "mounts") if mount.endswith(f"/lib/{path_base(name)}")]
        check(f"{name} alone: mounted where it is a library of the host", bool(mounted) == (n == 0), mounted)
        shutil.rmtree(place)


def path_base(name):
    return name.rsplit("/", 1)[-1]


def main():
    exe = Path(sys.argv[1]).resolve()
    if os.uname().machine != "x86_64":
        skip("hostile images in forms", "the stand-ins are for x86-64")
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            shell = Shell(folder)
            twin = None
            for n, (name, payload) in enumerate([("plain", PLAIN), *PAYLOADS.items()]):
                place = folder / str(n)
                place.mkdir()
                found = of_payload(exe, place, name, payload, twin, shell)
                twin = twin or found
                shutil.rmtree(place)
            of_single(exe, folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
