#!/usr/bin/env python3
"""CDI specifications: what `gpumend container cdi` writes, and what it says of those that are there.

    tests/container/cdi.py GPUMEND

The machines are the trees of tests/trees. Checked: each document by the format's published schema
where it is installed (Debian's golang-github-container-orchestrated-devices-container-device-
interface-dev); that it names what the machine has; that podman, where it runs, loads it and gives
the container its devices, mounts and variables (stand-ins for the nodes); writing in a root of its
own (chroot), never over another's file; and every fault that --check knows, with a healthy twin.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "trees"))
from build import write  # noqa: E402
from machines import MACHINES  # noqa: E402

SCHEMA = Path("/usr/share/gocode/src/github.com/container-orchestrated-devices/"
              "container-device-interface/schema/schema.json")
PODMAN = ["podman", "run", "--rm", "--runtime", "runc", "--cgroup-manager=cgroupfs",
          "--network=none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]

counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(what, good, detail=""):
    counts["passed" if good else "failed"] += 1
    if not good:
        print(f"FAIL {what}: {detail}")


def skip(what, why):
    counts["skipped"] += 1
    print(f"SKIP {what}: {why}")


def run(exe, *arguments, **options):
    return subprocess.run([str(exe), "container", "cdi", *arguments], capture_output=True,
                          text=True, timeout=60, check=False, **options)


def documents(text):
    return [json.loads(part.split("\n", 1)[1]) for part in text.split("---\n") if part]


def tree(folder, name):
    top = folder / name
    shutil.rmtree(top, ignore_errors=True)
    write(MACHINES[name][1], top)
    return top


# ---------------------------------------------------------------- what is written

def validator():
    try:
        import jsonschema
    except ImportError:
        return None
    if not SCHEMA.is_file():
        return None
    resolver = jsonschema.RefResolver(SCHEMA.as_uri(), json.loads(SCHEMA.read_text()))
    return jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()), resolver=resolver)


def edits_of(document):
    yield document.get("containerEdits", {})
    for device in document["devices"]:
        yield device["containerEdits"]


def nodes_of(document):
    return {n["path"] for e in edits_of(document) for n in e.get("deviceNodes", [])}


def of_machine(exe, folder, name, schema):
    top = tree(folder, name)
    done = run(exe, "--host", str(top))
    check(f"{name}: status", done.returncode in (0, 3), done.stderr)
    stated = top / ".gpumend-nodes"
    there = {line.split()[0] for line in stated.read_text().splitlines()} if stated.exists() else set()
    found = documents(done.stdout)
    check(f"{name}: says why where it writes none", found or done.stderr.strip(), "nothing said")
    for document in found:
        where = f"{name}: {document['kind']}"
        if schema:
            faults = [e.message for e in schema.iter_errors(document)]
            check(f"{where}: schema", not faults, faults)
        check(f"{where}: version", document["cdiVersion"] in ("0.3.0", "0.4.0", "0.5.0"),
              document["cdiVersion"])
        check(f"{where}: nodes", nodes_of(document) <= there, nodes_of(document) - there)
        names = [d["name"] for d in document["devices"]]
        check(f"{where}: names", len(set(names)) == len(names) and "all" in names, names)
        for edits in edits_of(document):
            for mount in edits.get("mounts", []):
                path = top / mount["hostPath"].lstrip("/")
                check(f"{where}: {mount['hostPath']}", path.exists(), "is not in the tree")
    return found


def expected(exe, folder):
    """What single machines must have."""
    mig, = documents(run(exe, "--host", str(tree(folder, "a100-mig"))).stdout)
    slices = [d for d in mig["devices"] if ":" in d["name"]]
    check("a100-mig: three slices", len(slices) == 3, slices)
    for one in slices:
        caps = [n for n in one["containerEdits"]["deviceNodes"] if "nvidia-cap" in n["path"]]
        check("a100-mig: two capabilities each, to be read", len(caps) == 2
              and all(n["permissions"] == "r" for n in caps), one)
    amd, = documents(run(exe, "--host", str(tree(folder, "rx6700xt"))).stdout)
    check("rx6700xt: kfd for all", {"path": "/dev/kfd", "gid": 105}
          in amd["containerEdits"]["deviceNodes"], amd)
    wsl, = documents(run(exe, "--host", str(tree(folder, "wsl-good"))).stdout)
    mounts = {m["containerPath"] for m in wsl["containerEdits"]["mounts"]}
    check("wsl-good: libcuda where loaders look", "/usr/lib64/libcuda.so.1" in mounts
          and "/usr/lib/wsl/drivers" in mounts, mounts)
    unknown = run(exe, "--host", str(tree(folder, "proc-without-sys")))
    check("a bus that cannot be read is no absence", unknown.returncode == 3
          and "cannot be told" in unknown.stderr, unknown.stderr)
    none = run(exe, "--host", str(tree(folder, "cpu-only")))
    check("cpu-only: no specification, and why", none.returncode == 3 and not none.stdout
          and "no GPU" in none.stderr, none.stderr)


# ---------------------------------------------------------------- podman

OPENS = """#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        void *l = dlopen(argv[i], RTLD_NOW);
        int (*f)(void) = l ? (int (*)(void))dlsym(l, "driver") : NULL;
        printf("%s %d\\n", argv[i], f ? f() : -1);
    }
    return 0;
}
"""


def compiled(source, *options):
    subprocess.run(["cc", "-x", "c", "-", "-x", "none", *map(str, options)], input=source, text=True, check=True)


def in_podman(exe, folder):
    what = "podman loads it"
    if not shutil.which("podman") or os.uname().machine != "x86_64":
        return skip(what, "there is no podman on this machine, or it is not x86-64")
    top = tree(folder, "geforce-desktop")
    for file in (top / "usr/lib/x86_64-linux-gnu").glob("lib*.so.550.90.07"):
        soname = file.name.split(".so.")[0] + ".so.1"   # real libraries, that a loader can load
        file.unlink()
        compiled("int driver(void) { return 550; }", "-shared", "-fPIC", f"-Wl,-soname,{soname}",
                 "-o", file)
    document, = documents(run(exe, "--host", str(top)).stdout)
    document["kind"] = "gpumend-test.example/gpu"
    for edits in edits_of(document):
        for node in edits.get("deviceNodes", []):   # /dev/null stands in for each
            node["hostPath"] = "/dev/null"
        for mount in edits.get("mounts", []):
            mount["hostPath"] = str(top) + mount["hostPath"]
    image = folder / "image"
    image.mkdir()
    shutil.copy(exe, image / "gpumend")
    compiled(OPENS, "-o", image / "opens")
    for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"):
        copy = image / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    name = f"localhost/gpumend-cdi:{os.getpid()}"
    built = subprocess.run(f"tar -C {image} -c . | podman import - {name}", shell=True,
                           capture_output=True, text=True, check=False)
    if built.returncode:
        return skip(what, built.stderr.strip().splitlines()[-1] if built.stderr else "import failed")
    try:
        plain = subprocess.run([*PODMAN, name, "/gpumend", "--version"], capture_output=True,
                               text=True, check=False)
        if plain.returncode:
            return skip(what, "podman runs no container here: " + plain.stderr.strip()[-120:])
        used_by_podman(exe, folder, document, name)
    finally:
        subprocess.run(["podman", "rmi", "-f", name], capture_output=True, check=False)


def used_by_podman(exe, folder, document, image):
    place = Path("/etc/cdi/gpumend-test-%d.json" % os.getpid())
    made = not place.parent.exists()
    try:
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(document))
    except OSError as error:
        return skip("podman loads it", str(error))
    try:
        device = "gpumend-test.example/gpu=0"
        done = subprocess.run([*PODMAN, "--device", device, image, "/gpumend", "devices", "--json"],
                              capture_output=True, text=True, check=False)
        check("podman starts it", done.returncode in (0, 1, 3) and done.stdout.startswith("{"),
              done.stderr[-300:])
        seen = json.loads(done.stdout or "{}")
        nvidia = seen.get("nvidia", {})
        nodes = {n["path"]: n["present"]["state"] for n in nvidia.get("nodes", [])}
        check("the container has the nodes", nodes.get("/dev/nvidiactl") == "yes"
              and nodes.get("/dev/nvidia-uvm") == "yes", nodes)
        libraries = {n["name"]: n["path"] for n in nvidia.get("libraries", [])}
        check("the container has the libraries",
              {"libcuda.so.1", "libnvidia-ml.so.1"} <= set(libraries), libraries)
        loaded = subprocess.run([*PODMAN, "--device", device, image, "/opens", "libcuda.so.1",
                                 "libcuda.so", "libnvidia-ml.so.1"], capture_output=True,
                                text=True, check=False)
        check("the container's loader loads them", loaded.stdout.split() == [
            "libcuda.so.1", "550", "libcuda.so", "550", "libnvidia-ml.so.1", "550"],
              loaded.stdout + loaded.stderr[-200:])
        check("the container has the variable",
              seen["variables"].get("NVIDIA_VISIBLE_DEVICES") == "void", seen["variables"])
        document["cdiVersion"] = "0.7.0"
        place.write_text(json.dumps(document))
        newer = subprocess.run([*PODMAN, "--device", device, image, "/gpumend", "--version"],
                               capture_output=True, text=True, check=False)
        said = json.loads(run(exe, "--check", "--json").stdout)
        mine = [f for f in said["files"] if f["path"] == str(place)]
        kinds = {p["kind"] for f in mine for p in f["problems"]}
        check("a specification that podman refuses is said to be too new",
              (newer.returncode != 0) == ("too-new" in kinds), (newer.stderr[-200:], kinds))
    finally:
        place.unlink()
        if made:
            place.parent.rmdir()


# ---------------------------------------------------------------- writing

def in_chroot(exe, top, *arguments, umask=0o022):
    def enter():
        os.chroot(top)
        os.chdir("/")
        os.umask(umask)
    return subprocess.run(["/gpumend", "container", "cdi", *arguments], capture_output=True,
                          text=True, timeout=60, check=False, preexec_fn=enter)


def real_nodes(top):
    """The stated nodes as real ones; False where that may not be."""
    try:
        for line in (top / ".gpumend-nodes").read_text().splitlines():
            path, kind, major, minor = line.split()[:4]
            if kind == "c":
                file = top / path.lstrip("/")
                file.parent.mkdir(parents=True, exist_ok=True)
                os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(int(major), int(minor)))
    except OSError:
        return False
    return True


def writing(exe, folder):
    top = tree(folder, "geforce-desktop")
    if os.geteuid() != 0 or not real_nodes(top):
        return skip("writing", "device nodes cannot be made here")
    shutil.copy(exe, top / "gpumend")
    done = in_chroot(exe, top, "--write", umask=0o077)
    file = top / "etc/cdi/gpumend-nvidia.yaml"
    check("write", done.returncode == 0 and file.is_file(), done.stderr)
    if not file.is_file():
        return
    check("write: mode 0644 whatever the umask", stat.S_IMODE(file.stat().st_mode) == 0o644,
          oct(file.stat().st_mode))
    check("write: nothing else is left", os.listdir(file.parent) == [file.name],
          os.listdir(file.parent))
    first = file.read_text()
    fine = in_chroot(exe, top, "--check")
    check("check: what was written is ok", fine.returncode == 0 and "ok" in fine.stdout, fine.stdout)
    (top / "sys/module/nvidia/version").write_text("555.42.02\n")
    stale = in_chroot(exe, top, "--check", "--json")
    kinds = {p["kind"] for f in json.loads(stale.stdout)["files"] for p in f["problems"]}
    check("check: another driver", stale.returncode == 1 and "other-driver" in kinds, kinds)
    (top / "sys/module/nvidia/version").write_text("550.90.07\n")
    os.unlink(top / "dev/nvidia-uvm-tools")
    gone = in_chroot(exe, top, "--check", "--json")
    texts = [p["text"] for f in json.loads(gone.stdout)["files"] for p in f["problems"]]
    check("check: a node that is gone", gone.returncode == 1
          and any("/dev/nvidia-uvm-tools" in t for t in texts), texts)
    again = in_chroot(exe, top, "--refresh")
    check("refresh", again.returncode == 0 and "uvm-tools" not in file.read_text(), again.stderr)
    check("refresh: then it is ok", in_chroot(exe, top, "--check").returncode == 0, "")
    file.write_text("# by hand\n" + first.split("\n", 1)[1])
    for option in ("--write", "--refresh"):
        refused = in_chroot(exe, top, option)
        check(f"{option}: another's file stays", refused.returncode == 3
              and file.read_text().startswith("# by hand"), refused.stderr)
    file.unlink()
    (file.parent / "nvidia.yaml").write_text(first.split("\n", 1)[1])
    refused = in_chroot(exe, top, "--write")
    check("write: not beside another of the same kind", refused.returncode == 3
          and not file.exists() and "nvidia.yaml" in refused.stderr, refused.stderr)
    (file.parent / "nvidia.yaml").unlink()
    os.symlink("/etc/passwd", file)
    refused = in_chroot(exe, top, "--write")
    check("write: never through a link", refused.returncode == 3 and file.is_symlink(),
          refused.stderr)


# ---------------------------------------------------------------- faults

YAML = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{driver}
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{driver}
    options: [ro, nosuid, nodev, bind]
"""
PODMAN_431 = """Package: podman
Status: install ok installed
Version: 4.3.1+ds1-8+deb12u1
"""
GOOD = YAML.format(driver="550.90.07")

# name -> machine, files, the kinds of problem that it must have
FAULTS = {
    "yaml-of-another": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD}, set()),
    "json-in-run": ("geforce-desktop", {"/run/cdi/n.json": json.dumps(
        {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [
            {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}]})},
        set()),
    "older-driver": ("geforce-desktop",
                     {"/etc/cdi/nvidia.yaml": YAML.format(driver="535.104.05")},
                     {"path-gone", "other-driver"}),
    "unknown-field": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD + "colour: red\n"},
                      {"refused"}),
    "version-too-low": ("geforce-desktop",
                        {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.3.0")}, {"refused"}),
    "no-such-version": ("geforce-desktop",
                        {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.2.9")}, {"refused"}),
    "no-devices": ("geforce-desktop",
                   {"/etc/cdi/n.yaml": "cdiVersion: 0.5.0\nkind: a.b/c\ndevices: []\n"},
                   {"refused"}),
    "bad-kind": ("geforce-desktop", {"/etc/cdi/n.yaml": GOOD.replace("nvidia.com/gpu", "gpu")},
                 {"refused"}),
    "too-new-for-podman": ("geforce-desktop",
                           {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.7.0"),
                            "/var/lib/dpkg/status": PODMAN_431}, {"too-new"}),
    "new-enough-podman": ("geforce-desktop",
                          {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.7.0"),
                           "/var/lib/dpkg/status": PODMAN_431.replace("4.3.1", "5.4.2")}, set()),
    "two-of-a-kind": ("geforce-desktop", {"/etc/cdi/a.yaml": GOOD, "/etc/cdi/b.yaml": GOOD},
                      {"conflict"}),
    "same-in-two-folders": ("geforce-desktop", {"/etc/cdi/a.yaml": GOOD, "/run/cdi/a.yaml": GOOD},
                            set()),
    "gpu-left-out": ("mixed-quadro-geforce", {"/etc/cdi/nvidia.yaml": GOOD}, {"gpu-left-out"}),
    "slices-made-later": ("a100-mig", {"/etc/cdi/nvidia.yaml": GOOD}, {"gpu-left-out"}),
    "not-yaml": ("geforce-desktop", {"/etc/cdi/n.yaml": "a: [b"}, {"unreadable"}),
    "empty": ("geforce-desktop", {"/etc/cdi/n.yaml": ""}, {"unreadable"}),
    "a-list": ("geforce-desktop", {"/etc/cdi/n.yaml": "- a\n"}, {"unreadable"}),
    "binary": ("geforce-desktop", {"/etc/cdi/n.json": "\x00\x01\x7fELF"}, {"unreadable"}),
    "deep": ("geforce-desktop", {"/etc/cdi/n.yaml": "[" * 20000}, {"unreadable"}),
    "alias-bomb": ("geforce-desktop", {"/etc/cdi/n.yaml": "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{n}: &a{n} [{','.join(['*a%d' % (n - 1)] * 10)}]\n" for n in range(1, 12))},
        {"unreadable"}),
    "five-megabytes": ("geforce-desktop", {"/etc/cdi/n.yaml": "#" * (5 << 20)}, {"unreadable"}),
    "hidden-file": ("geforce-desktop", {"/etc/cdi/.n.yaml": "a: [b"}, set()),
}


def faults(exe, folder):
    for name, (machine, files, kinds) in FAULTS.items():
        top = tree(folder, machine)
        for path, text in files.items():
            file = top / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = run(exe, "--check", "--json", "--host", str(top))
        try:
            said = json.loads(done.stdout)
        except ValueError:
            check(f"fault {name}", False, done.stderr)
            continue
        found = {p["kind"] for f in said["files"] for p in f["problems"]}
        check(f"fault {name}", found == kinds, (found, said["files"]))
        errors = any(p["severity"] == "error" for f in said["files"] for p in f["problems"])
        check(f"fault {name}: status", done.returncode == (1 if errors else 0), done.returncode)
        text = run(exe, "--check", "--host", str(top)).stdout
        missing = [p["text"] for f in said["files"] for p in f["problems"]
                   if "".join(p["text"].split()) not in "".join(text.split())]
        check(f"fault {name}: text", not missing, (missing, text))
    top = tree(folder, "geforce-desktop")
    file = top / "etc/cdi/nvidia.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(GOOD)
    file.chmod(0o600)
    said = json.loads(run(exe, "--check", "--json", "--host", str(top)).stdout)
    check("fault not-for-all", [p["kind"] for p in said["files"][0]["problems"]] == ["not-for-all"],
          said)


def main():
    exe = Path(sys.argv[1]).resolve()
    schema = validator()
    if not schema:
        skip("schema", "the published schema is not installed")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        for name in MACHINES:
            of_machine(exe, folder, name, schema)
        expected(exe, folder)
        faults(exe, folder)
        writing(exe, folder)
        in_podman(exe, folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
