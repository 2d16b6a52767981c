#!/usr/bin/env python3
"""What `gpumend container ENGINE` tells a user to start a container with.

    tests/container/settings.py GPUMEND

The hosts are the trees of tests/trees. Checked: every engine for every host (status, JSON, that the
text is a command line or YAML); what single hosts must give; Pod manifests by the published schema,
from the wheel kubernetes-validate where it can be had; and, in podman where it runs, the two
stories of a library that the image lacks: the host has it (the mounts make the program start), and
neither has it (a line for the Dockerfile).
"""

import configparser
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "trees"))
sys.path.insert(0, str(HERE.parent / "causes"))
sys.path.insert(0, str(HERE.parent / "scenarios"))
import cdi  # noqa: E402
import tree as causes_tree  # noqa: E402
import store  # noqa: E402
from build import merged, nvidia, system, write  # noqa: E402
from cdi import PODMAN, check, compiled, counts, skip, tree  # noqa: E402
from image import layout, saved  # noqa: E402
from machines import MACHINES, RTX4090  # noqa: E402

ENGINES = ("docker", "podman", "compose", "kubernetes", "apptainer")
COMMANDS = ("docker", "podman", "apptainer", "enroot", "pyxis", "nspawn")
YAML = ("compose", "kubernetes", "kubernetes-deployment", "kubernetes-claim", "incus")
FORMS = (*ENGINES, "kubernetes-deployment", "kubernetes-claim", "quadlet", "devcontainer", "enroot",
         "pyxis", "incus", "lxc", "nspawn", "dockerfile")
EVERY_FORM = ("geforce-desktop", "a100-mig", "rx6700xt", "wsl-good", "jetson-orin", "arc-a770",
              "cpu-only", "proc-without-sys", "host-of-containers")
KINDS = {"Pod": "pod-v1", "Deployment": "deployment-apps-v1",
         "ResourceClaimTemplate": "resourceclaimtemplate-resource-v1"}
SCHEMAS = "kubernetes-validate==1.37.0"
COMPOSE = "docker-compose==1.29.2"
QUADLETS = ("/usr/libexec/podman/quadlet", "/usr/lib/podman/quadlet")    # from podman 4.4 on


# What a shell inside one of NVIDIA's images has: no settings may take it for the container's own.
OF_THE_SHELL = {"CUDA_VERSION": "13.0.2", "LD_LIBRARY_PATH": "/of/the/shell"}


def run(exe, *arguments, **options):
    options.setdefault("env", {**os.environ, **OF_THE_SHELL})
    return subprocess.run([str(exe), "container", *map(str, arguments)], capture_output=True,
                          text=True, timeout=60, check=False, **options)


def yaml_of(text):
    """The document of a YAML text by libyaml, through whoever reads it here; None: nobody does."""
    try:
        import yaml
    except ImportError:
        return None
    return list(yaml.safe_load_all(text))


def compose_schema():
    try:
        import jsonschema
        wheels = a_store()
        wheels.provide([COMPOSE])
        folder = wheels.wheel_folder(COMPOSE)
        schema = json.loads((folder / "compose/config/compose_spec.json").read_text())
        return jsonschema.Draft7Validator(schema)
    except (store.Skip, ImportError, OSError) as error:
        skip("the schema of Compose", str(error))
        return None


def a_store():
    return store.Store(store.cache_folder(),
                       store.read_pins(HERE.parent / "scenarios/wheels.txt"), print)


def kind_schemas():
    try:
        import jsonschema
        wheels = a_store()
        wheels.provide([SCHEMAS])
        folder = wheels.wheel_folder(SCHEMAS) / "kubernetes_validate/kubernetes-json-schema"
        newest = sorted(folder.glob("v*-local-strict"),
                        key=lambda p: [int(n) for n in p.name[1:].split("-")[0].split(".")])[-1]
        shared = json.loads((newest / "_definitions.json").read_text())
        found = {}
        for kind, name in KINDS.items():
            schema = json.loads((newest / f"{name}.json").read_text())
            resolver = jsonschema.RefResolver("https://kubernetes.io/api/pod/v1", schema, store={
                "https://kubernetes.io/api/_definitions.json": shared})
            found[kind] = jsonschema.Draft202012Validator(schema, resolver=resolver)
        return found
    except (store.Skip, ImportError, OSError, IndexError) as error:
        skip("the schema of Kubernetes", str(error))
        return {}


def schemas_of():
    """A validator for each kind of document, by its "kind"; that of Compose has none."""
    found = kind_schemas()
    compose = compose_schema()
    if compose:
        found[None] = compose
    for kind, schema in found.items():
        wrong = {"services": {"app": {"image": "a", "privilegd": True}}} if kind is None else \
            {"kind": kind, "specs": {}}
        check(f"the schema of {kind or 'Compose'} refuses what is wrong", list(schema.iter_errors(wrong)))
    return found


# ---------------------------------------------------------------- every host, every engine

def check_units(where, text):
    """A quadlet: sections and keys of podman-systemd.unit(5), read by an INI parser."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    keys = {"Image", "AddDevice", "PodmanArgs", "SecurityLabelDisable", "Environment", "Volume",
            "ShmSize"}
    check(f"{where}: keys", set(unit["Container"]) <= keys and unit["Container"]["Image"],
          dict(unit["Container"]))
    generator = shutil.which("quadlet") or next((q for q in QUADLETS if os.path.exists(q)), None)
    if not generator:
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.container").write_text(text)
        done = subprocess.run([generator, "-dryrun", "-user"], capture_output=True, text=True,
                              check=False, env={**os.environ, "QUADLET_UNIT_DIRS": folder})
        starts = [line for line in done.stdout.splitlines() if line.startswith("ExecStart=")]
        values = [v for key in ("adddevice", "volume") for v in unit_values(text, key)]
        check(f"{where}: podman's generator takes it", done.returncode == 0 and len(starts) == 1
              and all(v in starts[0] for v in values), done.stderr + done.stdout)


def unit_values(text, key):
    return [line.split("=", 1)[1] for line in text.splitlines()
            if line.lower().startswith(key + "=")]


def check_form(where, form, text, document, schemas):
    """That a text is what it says it is, by who reads such texts."""
    if form in YAML:
        documents = yaml_of(text)
        if documents is None:
            return
        check(f"{where}: YAML", documents == document["documents"], text)
        for one in documents:
            schema = schemas.get(one.get("kind")) if form != "incus" else None
            faults = [e.message[:100] for e in schema.iter_errors(one)] if schema else []
            check(f"{where}: schema", not faults, faults)
    elif form == "devcontainer":
        check(f"{where}: JSON", json.loads(text) == document["documents"][0], text)
    elif form == "quadlet":
        check_units(where, text)
    elif form == "lxc":
        check(f"{where}: keys", all(line.startswith(("#", "lxc.")) or not line
                                    for line in text.splitlines()), text)
    elif form == "dockerfile":
        check(f"{where}: instructions", all(
            line.split(" ")[0] in ("FROM", "RUN", "ENV", "USER") or line.startswith("#") or not line
            for line in text.splitlines()), text)
    else:
        words = [word for line in text.splitlines() if not line.startswith("#") for word in shlex.split(line.rstrip("\\"))]
        wanted = document["arguments"]
        check(f"{where}: the words of the command are those of --json",
              any(words[i:i + len(wanted)] == wanted for i in range(len(words))) or not wanted, (words, wanted))
        shell = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, check=False)
        check(f"{where}: a shell reads it", shell.returncode == 0, shell.stderr)


def of_machine(exe, folder, name, schemas):
    top = tree(folder, name)
    for form in FORMS if name in EVERY_FORM else ("docker", "kubernetes"):
        where = f"{name}: {form}"
        shown = run(exe, form, "--host", top, "/bin/true")
        told = run(exe, form, "--host", top, "--json", "/bin/true")
        if name == "files-of-an-image":     # nothing of a machine is in it
            check(where, shown.returncode == 3 and "cannot be looked at" in shown.stderr,
                  shown.stderr)
            continue
        check(f"{where}: status", shown.returncode == 0 == told.returncode, shown.stderr)
        said = json.loads(told.stdout)
        check(f"{where}: json", said["schema"] == 1 and said["format"] == form, said)
        for key, items in said.items():
            if isinstance(items, list) and items and isinstance(items[0], dict) \
                    and key not in ("documents", "trials"):
                check(f"{where}: {key} has reasons", all(i["reason"] for i in items), items)
        check(f"{where}: text", shown.stdout.isascii() or "\ufffd" not in shown.stdout, shown.stdout)
        check_form(where, form, shown.stdout, said, schemas)


def values(document, key):
    return [item["value"] for item in document[key]]


def expected(exe, folder):
    def said(machine, engine, **options):
        return json.loads(run(exe, engine, "--host", tree(folder, machine), "--json", "/bin/true",
                              **options).stdout)
    docker = said("geforce-desktop", "docker")
    check("docker asks the toolkit", values(docker, "gpus") == ["all"]
          and docker["arguments"][:2] == ["--gpus", "all"], docker)
    check("docker: the toolkit that is missing is said", "nvidia-container-toolkit"
          in " ".join(values(docker, "first")) and docker["undo"], docker)
    podman = said("geforce-desktop", "podman")
    check("podman asks by name", podman["arguments"][:2] == ["--device", "nvidia.com/gpu=all"],
          podman)
    check("podman: the specification that is missing is said",
          "sudo gpumend container cdi --write" in values(podman, "first"), podman)
    top = tree(folder, "geforce-desktop")
    (top / "etc/cdi").mkdir(parents=True)
    (top / "etc/cdi/nvidia.yaml").write_text(cdi.GOOD)
    (top / "usr/bin").mkdir(parents=True, exist_ok=True)
    (top / "usr/bin/nvidia-container-runtime-hook").write_text("")
    for engine in ("docker", "podman"):
        ready = json.loads(run(exe, engine, "--host", top, "--json", "/bin/true").stdout)
        check(f"{engine}: nothing to do first where all is there", ready["first"] == [], ready)
    amd = said("rx6700xt", "podman")
    check("AMD: nodes and the number of the group",
          set(values(amd, "devices")) == {"/dev/kfd", "/dev/dri/renderD128"}
          and values(amd, "groups") == (["105"] if os.geteuid() == 0 else ["keep-groups"]), amd)
    blank = folder / "a b"
    blank.mkdir()
    shutil.copy(exe, blank / "gpumend")
    for form in ("docker", "kubernetes-deployment", "nspawn"):
        there = run(blank / "gpumend", form, "--host", tree(folder, "geforce-desktop"), "/bin/true").stdout
        check(f"{form}: no test with gpumend below a blank, and why", "gpumend probe is left out" in
              " ".join(there.replace("#", "").split()) and "a b/gpumend:" not in there
              and "bin/gpumend probe" not in there, there)
    rootless = json.loads(run(blank / "gpumend", "podman", "--host", tree(folder, "rx6700xt"), "--json",
                              "/bin/true", preexec_fn=lambda: os.setuid(65534)).stdout
                          ) if os.geteuid() == 0 else None
    if rootless:
        check("AMD without root: keep-groups", values(rootless, "groups") == ["keep-groups"],
              rootless)
    wsl = said("wsl-good", "podman")
    check("WSL: dxg and its libraries", values(wsl, "devices") == ["/dev/dxg"]
          and values(wsl, "mounts") == ["/usr/lib/wsl:/usr/lib/wsl"]
          and "LD_LIBRARY_PATH=/usr/lib/wsl/lib" in values(wsl, "environment"), wsl)
    none = said("cpu-only", "docker")
    check("no GPU: nothing is asked for", none["gpu"] == "none" and none["arguments"] == [], none)
    unknown = said("proc-without-sys", "docker")
    check("a bus that cannot be read is no absence", unknown["gpu"] == "unknown", unknown)
    text = run(exe, "docker", "--host", tree(folder, "proc-without-sys"), "/bin/true").stdout
    check("and is said so", "cannot be determined" in text and "No GPU" not in text, text)
    ours(exe, folder, said)
    broken = said("module-not-loaded", "docker")
    check("a driver that is not loaded comes first", "modprobe" in " ".join(values(broken, "first")),
          broken)


def changed(folder, machine, **files):
    """A machine with further files."""
    top = tree(folder, machine)
    for path, text in files.items():
        file = top / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return top


def ours(exe, folder, said):
    """What the host's own state has to do with a container, and what not."""
    def on(engine, machine, **files):
        top = changed(folder, machine, **files)
        return json.loads(run(exe, engine, "--host", top, "--json", "/bin/true").stdout)
    mixed = said("igpu-and-dgpu", "docker")
    check("integrated graphics stay out beside a card",
          set(values(mixed, "devices")) == {"/dev/kfd", "/dev/dri/renderD128"}, mixed)
    check("the resource of Intel's plugin has the driver's name",
          values(said("arc-half-chain", "kubernetes"), "resource") == ["gpu.intel.com/xe"]
          and values(said("arc-a770", "kubernetes"), "resource") == ["gpu.intel.com/i915"], "")
    check("libraries of the host that images bring along are none of its steps",
          values(said("arc-half-chain", "docker"), "first") == [], "")
    check("no GPU: no groups", values(said("intel-laptop", "kubernetes"), "groups") == [], "")
    shell = said("hidden-by-environment", "podman")
    check("a variable of this shell is no step", "unset" not in " ".join(values(shell, "first")),
          shell)
    jetson = said("jetson-orin", "docker")
    check("Jetson: the runtime", jetson["arguments"][:2] == ["--runtime", "nvidia"]
          and "NVIDIA_VISIBLE_DEVICES=all" in values(jetson, "environment"), jetson)
    newer = on("docker", "jetson-orin", **{"/usr/sbin/nvidia-smi": ""})
    check("Jetson: nvidia-smi is a test where the board has it", [
        any("nvidia-smi" in t["command"] for t in x["trials"]) for x in (jetson, newer)] ==
        [False, True], (jetson, newer))
    wsl = on("docker", "wsl-good", **{"/mnt/wsl/docker-desktop/shared": ""})
    check("Docker Desktop in WSL brings the toolkit", values(wsl, "first") == [], wsl)
    for name, enforce, boolean, expected in (("enforced", "1", "0 0", ["label=disable"]),
                                             ("allowed", "1", "1 1", []),
                                             ("permissive", "0", "0 0", [])):
        for engine in ("docker", "podman", "compose"):
            got = on(engine, "rx6700xt", **{
                "/sys/fs/selinux/enforce": enforce,
                "/sys/fs/selinux/booleans/container_use_devices": boolean})
            check(f"{engine}: SELinux {name}", values(got, "security") == expected, got)
    stale = on("podman", "geforce-desktop", **{"/etc/cdi/nvidia.yaml": cdi.GOOD.replace(
        "550.90.07", "535.183.01")})
    check("podman: a stale file is written again by its own program",
          values(stale, "first") == ["sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"],
          stale)
    for engine in ("docker", "compose"):
        gone = on(engine, "geforce-desktop", **{
            "/usr/bin/dockerd": "", "/usr/bin/nvidia-container-runtime-hook": "",
            "/etc/docker/daemon.json": '{"runtimes": {"nvidia": {"path": "/opt/gone"}}}'})
        check(f"{engine}: a runtime whose program is gone is said", any(
            "/opt/gone" in i["reason"] for i in gone["first"]), gone)
        check(f"{engine}: and not on a host that is in order",
              values(said("host-of-containers", engine), "first") == [], "")


# ---------------------------------------------------------------- which GPUs

def asked(claim):
    return claim["spec"]["spec"]["devices"]["requests"][0]["exactly"]


def selector(claim):
    return asked(claim)["selectors"][0]["cel"]["expression"]


def selected(exe, folder):
    def on(machine, form, gpus, *more):
        done = run(exe, form, "--host", folder / machine, "--json", "--gpus", gpus, *more,
                   "/bin/true")
        return json.loads(done.stdout) if done.returncode == 0 else done
    for machine in ("mixed-quadro-geforce", "a100-mig", "geforce-desktop", "rx6700xt"):
        tree(folder, machine)
    two = on("mixed-quadro-geforce", "docker", "0,2")
    check("docker: a list is one field of CSV", two["arguments"][:2] == ["--gpus", '"device=0,2"'],
          two)
    device = on("mixed-quadro-geforce", "compose", "0,2")["documents"][0]["services"]["app"][
        "deploy"]["resources"]["reservations"]["devices"][0]
    check("compose: device_ids", device["device_ids"] == ["0", "2"] and "count" not in device, device)
    opened = on("mixed-quadro-geforce", "devcontainer", "0")["documents"][0]
    check("devcontainer: what its reader would add to --gpus is not asked for",
          opened["runArgs"][:2] == ["--gpus", "device=0"] and "hostRequirements" not in opened, opened)
    check("podman: names", values(on("a100-mig", "podman", "0:1"), "gpus") == ["nvidia.com/gpu=0:1"],
          "")
    uuid = on("geforce-desktop", "kubernetes-claim", "0")["documents"][0]
    check("a claim selects by UUID", selector(uuid) ==
          'device.attributes["gpu.nvidia.com"].uuid in ["GPU-00000000-0000-0000-0000-000000000000"]',
          uuid)
    mig = "MIG-00000000-0000-0000-0000-000000000001"
    claimed = on("a100-mig", "kubernetes-claim", mig)["documents"][0]
    check("a claim selects a MIG instance by UUID", mig in selector(claimed)
          and asked(claimed)["deviceClassName"] == "mig.nvidia.com", claimed)
    check("and not beside a whole GPU",
          on("a100-mig", "kubernetes-claim", f"0,{mig}").returncode == 2, "")
    by_profile = on("a100-mig", "kubernetes-claim", "mig-1g.10gb")["documents"][0]
    check("a claim selects MIG instances by profile", selector(by_profile) ==
          'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"', by_profile)
    pair = on("mixed-quadro-geforce", "kubernetes-claim", "0,2")["documents"][0]
    check("a claim selects two by UUID", asked(pair)["count"] == 2 and selector(pair).count("GPU-") == 2,
          pair)
    amd = on("rx6700xt", "kubernetes-claim", "0")["documents"][0]
    check("a claim selects AMD's by PCI address", 'pciAddr in ["0000:' in selector(amd)
          and asked(amd)["deviceClassName"] == "gpu.amd.com", amd)
    whole = on("rx6700xt", "kubernetes-claim", "all")["documents"][0]
    check("a claim for any selects none", "selectors" not in asked(whole), whole)
    for form in ("docker", "podman", "kubernetes", "kubernetes-claim", "lxc", "incus"):
        chosen = run(exe, form, "--host", tree(folder, "nouveau"), "--gpus", "best", "/bin/true")
        check(f"{form}: where best is the CPU, that is said", chosen.returncode == 0 and
              "The CPU was chosen" in chosen.stdout and "has no GPU" not in chosen.stdout and
              "nvidia" not in chosen.stdout.split("Chosen as")[0], chosen.stdout + chosen.stderr)
    mig = on("a100-mig", "kubernetes", "mig-1g.10gb")
    check("kubernetes: MIG by its profile", values(mig, "resource") == ["nvidia.com/mig-1g.10gb"], mig)
    check("kubernetes: no profile is invented",
          on("a100-mig", "kubernetes", "0:1").returncode == 2, "")
    check("and that there are instances is said", "mig-PROFILE" in " ".join(
        on("a100-mig", "kubernetes", "all")["notes"]), "")
    for wrong in ("7", "0:9", "GPU-11111111-2222-3333-4444-555555555555", "a;b", "mig-x", "", "0,"):
        check(f"--gpus {wrong!r} is refused", getattr(on("a100-mig", "docker", wrong), "returncode",
                                                      0) == 2, "")
    unknown = on("a100-mig", "docker", "MIG-1234")
    check("what no file names cannot be determined", "cannot be determined" in " ".join(unknown["notes"]), unknown)
    best = on("geforce-desktop", "docker", "best", "--model", "whisper:tiny")
    check("best: by choose, with its reason", "as gpumend choose does" in " ".join(best["notes"]),
          best)
    own = on("mixed-quadro-geforce", "docker", "2", "--env", "CUDA_VISIBLE_DEVICES=2")
    check("the container counts from 0", "CUDA_VISIBLE_DEVICES=0" in values(own, "environment"), own)
    kept = on("geforce-desktop", "docker", "all", "--env", "NVIDIA_DRIVER_CAPABILITIES=all")
    check("what the image states of the driver stays", not any(
        "CAPABILITIES" in v for v in values(kept, "environment")), kept)
    more = on("geforce-desktop", "docker", "all", "--env", "NVIDIA_DRIVER_CAPABILITIES=video")
    check("and is extended", "NVIDIA_DRIVER_CAPABILITIES=video,compute,utility"
          in values(more, "environment"), more)


# ---------------------------------------------------------------- which CUDA meets which driver

FITS = (    # machine, CUDA_VERSION of the image, its release, whether it fits, a part of the rule
    ("geforce-desktop", "12.4.1", "12.4", "yes", "or newer, as CUDA 12.4 needs"),
    ("geforce-desktop", "11.8.0", "11.8", "yes", "or newer, as CUDA 11.8 needs"),
    ("geforce-desktop", "12.9.1", "12.9", "yes", "minor-version compatibility"),
    ("geforce-desktop", "13.0.1", "13.0", "no", "needs driver 580"),
    ("driver-470", "11.4.0", "11.4", "yes", "as CUDA 11.4 needs"),
    ("driver-470", "11.8.0", "11.8", "yes", "minor-version compatibility"),
    ("driver-470", "12.0.0", "12.0", "no", "any CUDA 12.x needs driver 525.60.13 or newer"),
    ("geforce-desktop", "99.1", "99.1", "unknown", "the knowledge base has no CUDA 99.1"),
    ("nouveau", "12.4.1", "12.4", "unknown", "the version of the driver is unknown"))


def environment_of(folder, **packages):
    """An environment of Python that has these distributions, and nothing else of them."""
    site = folder / "lib/python3.11/site-packages"
    for name, version in packages.items():
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "bin").mkdir()
    (folder / "bin/python3").symlink_to(os.path.realpath("/usr/bin/python3"))
    (folder / "bin/python").symlink_to("python3")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    return folder


NEWEST = (    # driver of the host, the newest CUDA that it is sure to support, whether it may be a newer one
    ("550.90.07", "12.4", False), ("565.57.01", "12.7", False), ("568.10", "12.7", True), ("999.10", None, True))


def newest_of_driver(exe, folder):
    for driver, cuda, or_newer in NEWEST:
        write(merged(system(), nvidia(driver, RTX4090)), folder / driver)
        arguments = ("docker", "--host", folder / driver, "/bin/true")
        said = json.loads(run(exe, *arguments, "--json").stdout)["inventory"]
        shown = run(exe, *arguments).stdout
        check(f"driver {driver}: its CUDA", said["driver_cuda_or_newer"] == or_newer
              and (cuda is None or said["driver_cuda"] == cuda)
              and f"CUDA it supports: {said['driver_cuda']}{' or newer' * or_newer}\n" in shown, shown)


def inventory(exe, folder):
    newest_of_driver(exe, folder)
    for machine, version, release, fits, rule in FITS:
        top = tree(folder, machine)
        arguments = ("docker", "--host", top, "--env", f"CUDA_VERSION={version}", "/bin/true")
        said = json.loads(run(exe, *arguments, "--json").stdout)["inventory"]
        where = f"{machine}: CUDA {version}"
        check(where, [(f["cuda"], f["fits"]) for f in said["image"]] == [(release, fits)]
              and rule in said["image"][0]["rule"], said)
        shown = run(exe, *arguments).stdout
        words = {"yes": "fits", "no": "does not fit", "unknown": "cannot tell"}[fits]
        check(f"{where}: in words", f"CUDA of the image: {release} (the image sets CUDA_VERSION): "
              f"{words}: " in shown and f"Driver of the host: {said['driver'] or 'unknown'} (" in shown,
              shown)
    for text in ("latest", "12;4", "", "12.4\n13"):
        said = json.loads(run(exe, "docker", "--host", tree(folder, "geforce-desktop"), "--env",
                              f"CUDA_VERSION={text}", "--json", "/bin/true").stdout)["inventory"]
        check(f"CUDA_VERSION={text!r} is no version", said["image"] == [], said)
    for name, packages, expected in (
            ("runtime", {"nvidia_cuda_runtime_cu12": "12.1.105"}, [("12.1", "yes")]),
            ("built", {"ctranslate2": "4.5.0"}, [("12", "yes")]),
            ("two", {"ctranslate2": "3.24.0", "nvidia_cuda_runtime": "13.0.96"},
             [("13.0", "no"), ("11", "yes")]),
            ("none", {"requests": "2.32.0"}, [])):
        env = environment_of(folder / f"env-{name}", **packages)
        said = json.loads(run(exe, "docker", "--host", folder / "geforce-desktop", "--json",
                              env).stdout)["inventory"]
        check(f"packages: {name}", [(f["cuda"], f["fits"]) for f in said["image"]] == expected, said)


# ---------------------------------------------------------------- an image itself

def layer_of(folder):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(folder, ".")
    return file.getvalue()


def of_image(exe, folder):
    """An image as an archive, a layout and a folder; its own variables are kept."""
    if os.uname().machine != "x86_64":
        return skip("images", "the stand-ins are for x86-64")
    host = host_with_cuda(folder)
    layer = layer_of(image_without(folder, host, exe))
    environment = ["PATH=/bin", "LD_LIBRARY_PATH=/opt/own"]
    config = {"architecture": "amd64", "os": "linux",
              "config": {"Env": environment, "Cmd": ["/app"]}}
    saved(folder / "App One.tar", [layer], config)
    (folder / "app-layout").mkdir()
    layout(folder / "app-layout", [layer], config)
    before = dict(os.environ, LD_LIBRARY_PATH="/nowhere/of/this/shell")
    for form, name, first in (
            ("App One.tar", "app:1", "load -i '"),
            ("app-layout", "localhost/app-layout:local", "skopeo copy oci:"),
            ("image", "localhost/image:local", "tar -C ")):
        for engine in FORMS:
            where = f"{engine} {form}"
            done = run(exe, engine, folder / form, "/app", "--host", host, "--json", env=before)
            said = json.loads(done.stdout) if done.stdout else {}
            check(f"{where}: status", done.returncode == 0, done.stderr)
            if not said:
                continue
            own = ":/opt/own" if form != "image" else ""    # a folder sets no variables
            # Engines that are not given the driver by a toolkit get it in a folder of its own.
            driver = "/opt/gpumend/driver:" if engine in ("lxc", "nspawn") else ""
            check(f"{where}: its LD_LIBRARY_PATH is extended, this shell's is not in it",
                  engine == "dockerfile" or f"LD_LIBRARY_PATH={driver}/opt/gpumend/lib{own}"
                  in values(said, "environment"), said)
            replaced = any("LD_LIBRARY_PATH" in n and "/opt/own is not searched" in n for n in said["notes"])
            check(f"{where}: what a specification replaces is said", replaced
                  == (engine in ("podman", "quadlet") and bool(own)), said["notes"])
            shown = run(exe, engine, folder / form, "/app", "--host", host).stdout
            if engine in ("docker", "podman", "compose"):
                check(f"{where}: it is loaded first, and named", said["name"] == name
                      and any(first in v for v in values(said, "first")), said)
                check(f"{where}: its name is printed", name in shown and "IMAGE" not in shown, shown)
        own = run(exe, "docker", folder / form, "--host", host, "--json").stdout
        check(f"{form}: what it starts is the target",
              form == "image" or json.loads(own)["mounts"], own)
    unit = run(exe, "quadlet", folder / "image", "/app", "--host", host, "--env",
               "LD_LIBRARY_PATH=/a$b/${HOME}/%h").stdout
    check("quadlet: what systemd would expand is literal",
          'Environment="LD_LIBRARY_PATH=/opt/gpumend/lib:/a$$b/$${HOME}/%%h"' in unit, unit)
    check_units("quadlet", unit)
    saved(folder / "evil.tar", [layer], config, manifest=[
        {"Config": "config.json", "RepoTags": ["x\n--privileged y:1"],
         "Layers": [f"{0:064x}/layer.tar"]}])
    evil = run(exe, "docker", folder / "evil.tar", "--host", host).stdout
    check("a name that is no reference is not printed", "--privileged" not in evil
          and "localhost/evil:local" in evil, evil)
    wrong = run(exe, "docker", "no/such:image", "--host", host)
    check("an image that is nowhere cannot be looked at", wrong.returncode == 3
          and not wrong.stdout and "no/such:image" in wrong.stderr, wrong.stderr)
    check("one IMAGE and one TARGET", run(exe, "docker", "a", "b", "c").returncode == 2, "")


# ---------------------------------------------------------------- a library that the image lacks

PROGRAM = """#include <stdio.h>
int cublasCreate(void);
int main(void) { printf("%d\\n", cublasCreate()); return 0; }
"""


def library(path, soname, source, *options):
    path.parent.mkdir(parents=True, exist_ok=True)
    compiled(source, "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", path, *options)
    link = path.parent / soname
    if link != path:
        os.symlink(path.name, link)


def host_with_cuda(folder):
    top = tree(folder, "geforce-desktop")
    lib = top / "usr/local/cuda-12.6/lib64"
    library(lib / "libcublasLt.so.12.6.1.4", "libcublasLt.so.12", "int lt(void) { return 126; }")
    library(lib / "libcublas.so.12.6.1.4", "libcublas.so.12",
            "int lt(void); int cublasCreate(void) { return lt(); }",
            lib / "libcublasLt.so.12.6.1.4")
    return top


def image_without(folder, host, exe):
    image = folder / "image"
    shutil.rmtree(image, ignore_errors=True)
    image.mkdir()
    lib = host / "usr/local/cuda-12.6/lib64"
    compiled(PROGRAM, "-o", image / "app", lib / "libcublas.so.12.6.1.4",
             f"-Wl,-rpath-link,{lib}")
    for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"):
        copy = image / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    shutil.copy(exe, image / "gpumend")
    return image


def lacking(exe, folder):
    if os.uname().machine != "x86_64":
        return skip("libraries that the image lacks", "the stand-ins are for x86-64")
    host = host_with_cuda(folder)
    image = image_without(folder, host, exe)
    said = json.loads(run(exe, "podman", "/app", "--root", image, "--host", host, "--json").stdout)
    mounts = values(said, "mounts")
    check("the host's library is mounted, with what it needs",
          {m.split(":")[1] for m in mounts} >= {"/opt/gpumend/lib/libcublas.so.12",
                                                "/opt/gpumend/lib/libcublasLt.so.12"}, mounts)
    check("and found", "LD_LIBRARY_PATH=/opt/gpumend/lib" in values(said, "environment"), said)
    check("nothing is left for the image", said["image"] == [], said)
    own = json.loads(run(exe, "podman", "/app", "--root", image, "--host", host, "--json", "--env",
                         "LD_LIBRARY_PATH=/opt/own").stdout)
    check("the image's own search path stays behind it", "LD_LIBRARY_PATH=/opt/gpumend/lib:/opt/own"
          in values(own, "environment"), own)
    bare = json.loads(run(exe, "podman", "/app", "--root", image, "--host",
                          tree(folder / "bare", "geforce-desktop"), "--json").stdout)
    check("neither has it: a line for the Dockerfile", bare["mounts"] == []
          and any(v.startswith("RUN ") and "cublas" in v for v in values(bare, "image")), bare)
    in_podman(folder, image, host, said)
    in_folder_engines(exe, folder, image, host)


def needed_by(path):
    said = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return [line.split("[")[1].split("]")[0] for line in said.splitlines() if "(NEEDED)" in line]


def reasons_are_true(exe, folder):
    """NVRTC as NVIDIA's toolkit has it, beside cuSOLVER, which the host has not: what is mounted
    has a reason that readelf shows, and what is mounted is missing no more."""
    if os.uname().machine != "x86_64":
        return skip("reasons of mounts", "the stand-ins are for x86-64")
    host = host_with_cuda(folder)
    lib = host / "usr/local/cuda-12.6/lib64"
    for kind in ("", ".alt"):
        builtins = f"libnvrtc-builtins{kind}.so.12.6"
        library(lib / f"{builtins}.77", builtins, f'const char *name(void) {{ return "{builtins}"; }}')
        library(lib / f"libnvrtc{kind}.so.12.6.77", f"libnvrtc{kind}.so.12",
                f'const char *opens(void) {{ return "{builtins}"; }} int nvrtc(void) {{ return 1; }}')
    gone = folder / "libcusolver.so.11"
    library(gone, gone.name, "int solve(void) { return 1; }")
    image = image_without(folder, host, exe)
    for name, call, path in (("app-nvrtc", "nvrtc", lib / "libnvrtc.so.12.6.77"),
                             ("app", "solve", gone)):
        compiled(f"int {call}(void), cublasCreate(void), nvrtc(void);"
                 f"int main(void) {{ return {call}() + cublasCreate() + nvrtc(); }}", "-o",
                 image / name, path, lib / "libnvrtc.so.12.6.77", lib / "libcublas.so.12.6.1.4",
                 f"-Wl,-rpath-link,{lib}")
    for app in ("/app-nvrtc", "/app"):
        said = json.loads(run(exe, "docker", app, "--root", image, "--host", host, "--json").stdout)
        names = {i["value"].split(":")[1].rsplit("/", 1)[1]: i for i in said["mounts"]}
        check(f"{app}: no second name of a file, and nothing that none asks for", set(names) == ({
            "libnvrtc.so.12", "libnvrtc-builtins.so.12.6", "libcublas.so.12", "libcublasLt.so.12"}
            if app == "/app-nvrtc" else set()), sorted(names))
        for name, item in names.items():
            who, verb = item["reason"].split(" ")[:2]
            file = lib / who
            holds = {"needs": lambda: name in needed_by(file),
                     "opens": lambda: name.encode() in file.read_bytes(),
                     "image": lambda: True}
            check(f"{app}: {name}: {item['reason']}", verb in holds and holds[verb](), item)
        lines = " ".join(i["value"] + i["reason"] for i in said["image"])
        check(f"{app}: what one line installs is not mounted as well", [
            word in lines for word in ("cusolver", "nvrtc", "cublas")] == [app == "/app"] * 3,
            said["image"])
    library(image / "opt/cuda/lib64/libnvrtc.so.12", "libnvrtc.so.12", "int nvrtc(void) { return 2; }")
    library(image / "opt/cuda/lib64/libcublas.so.12", "libcublas.so.12", "int cublasCreate(void) { return 2; }")
    said = json.loads(run(exe, "docker", "/app-nvrtc", "--root", image, "--host", host, "--env",
                          "CUDA_HOME=/opt/cuda", "--json").stdout)
    check("what the image has in another folder is not called lacking", not said["mounts"]
          and "LD_LIBRARY_PATH=/opt/cuda/lib64" in values(said, "environment"), said)


NVIDIA = "https://developer.download.nvidia.com/compute/cuda/repos/"
RPMS = "curl -fsSLo /etc/yum.repos.d/cuda-%s.repo " + NVIDIA + "%s/x86_64/cuda-%s.repo && "
DEB = "curl -fsSLO " + NVIDIA + "%s/x86_64/cuda-keyring_1.1-1_all.deb && dpkg -i cuda-keyring_1.1-1_all.deb && "
# (program of the manager, or None; os-release; files besides; what installs cuBLAS 12 in a build)
SYSTEMS = (
    ("/usr/bin/dnf", "ID=fedora\nVERSION_ID=41\n", ("/usr/bin/curl",),
     RPMS % (("fedora41",) * 3) + "dnf install -y libcublas-12-8"),
    ("/usr/bin/dnf", 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n', ("/usr/bin/curl",),
     RPMS % (("rhel9",) * 3) + "dnf install -y libcublas-12-4"),
    ("/usr/bin/microdnf", 'ID="rhel"\nVERSION_ID="8.10"\n', ("/usr/bin/curl",),
     RPMS % (("rhel8",) * 3) + "microdnf install -y libcublas-12-4"),
    ("/usr/bin/microdnf", 'ID="rhel"\nVERSION_ID="8.10"\n', (), "microdnf install -y curl && "
     + RPMS % (("rhel8",) * 3) + "microdnf install -y libcublas-12-4"),
    ("/usr/bin/yum", 'ID="amzn"\nVERSION_ID="2023"\n', ("/usr/bin/curl",),
     RPMS % (("amzn2023",) * 3) + "yum install -y libcublas-12-5"),
    ("/usr/bin/dnf", "ID=fedora\nVERSION_ID=41\n", ("/etc/yum.repos.d/cuda-fedora41.repo",),
     "dnf install -y libcublas-12-8"),
    ("/usr/bin/dnf", "ID=fedora\nVERSION_ID=410\n", (), None),  # no repository is known for it
    ("/usr/bin/zypper", 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n', (),
     "zypper --non-interactive addrepo " + NVIDIA + "opensuse15/x86_64/cuda-opensuse15.repo && zypper "
     "--gpg-auto-import-keys refresh && zypper --non-interactive install libcublas-12-5"),
    ("/usr/bin/zypper", 'ID="sles"\nVERSION_ID="15.5"\n', (),
     "zypper --non-interactive addrepo " + NVIDIA + "sles15/x86_64/cuda-sles15.repo && zypper "
     "--gpg-auto-import-keys refresh && zypper --non-interactive install libcublas-12-4"),
    ("/usr/bin/apt-get", "ID=debian\nVERSION_ID='12'\n", ("/usr/bin/curl",),
     DEB % "debian12" + "apt-get update && apt-get install -y libcublas-12-4"),
    ("/usr/bin/apt-get", "ID=ubuntu\nVERSION_ID=22.04\n", (),
     "apt-get update && apt-get install -y curl ca-certificates && " + DEB % "ubuntu2204"
     + "apt-get update && apt-get install -y libcublas-12-4"),
    ("/usr/bin/apt-get", "ID=ubuntu\nVERSION_ID=22.04\n", ("/etc/apt/sources.list.d/cuda-x.list",),
     "apt-get update && apt-get install -y libcublas-12-4"),
    (None, "ID=rocky\nID_LIKE='rhel centos fedora'\nVERSION_ID=10.0\n", ("/usr/bin/curl",),
     None),                                             # its repository begins with CUDA 13
    ("/usr/bin/apt-get", "ID=ubuntu\nVERSION_ID=24.04\n", ("/usr/bin/curl",),
     DEB % "ubuntu2404" + "apt-get update && apt-get install -y libcublas-12-5"),
    ("/usr/bin/pacman", "ID=arch\n", (), None),         # its cuda is a newer major
    ("/sbin/apk", "ID=alpine\nVERSION_ID=3.20.1\n", (), None),
)


def by_every_manager(exe, folder):
    """The system's own package manager, with NVIDIA's repository where it is not there yet."""
    if os.uname().machine != "x86_64":
        return skip("package managers", "the stand-ins are for x86-64")
    host = tree(folder / "bare", "geforce-desktop")
    cuda = host_with_cuda(folder)
    for number, (program, release, files, wanted) in enumerate(SYSTEMS):
        image = image_without(folder, cuda, exe)
        for path, text in (("etc/os-release", release), *((f.lstrip("/"), "") for f in files),
                           *([(program.lstrip("/"), "")] if program else [])):
            (image / path).parent.mkdir(parents=True, exist_ok=True)
            (image / path).write_text(text)
        what = f"{number}: {program}, {release.split()[0]} {release.split('VERSION_ID=')[-1].strip()}"
        for form in ("podman", "dockerfile"):
            said = json.loads(run(exe, form, "/app", "--root", image, "--host", host, "--json").stdout)
            lines = [v for v in values(said, "image") if v.startswith("RUN ")]
            check(f"{what}, {form}", lines == ([f"RUN {wanted}"] if wanted else []), lines)
        checked = subprocess.run([str(exe), "check", "/app", "--root", str(image), "--host", str(host),
                                  "--json"], capture_output=True, text=True, check=False)
        repairs = [r for f in json.loads(checked.stdout)["findings"] for r in f["repairs"]]
        text = " ".join(r["text"] + " " + (r["command"] or "") for r in repairs)
        managers = [m for m in ("apt-get", "dnf", "yum ", "zypper", "pacman", "apk") if m + " install" in
                    text.replace("yum install", "yum  install") or m + " -S" in text]
        check(f"{what}: check names no other manager", len(managers) <= 1 and (
            wanted is None or wanted.split()[-1] in text) and (
            ("musl" in text) == (program == "/sbin/apk")), text)


def amd_by_manager(exe, folder):
    """AMD's packages: a line of theirs alone finds nothing where AMD's repository is not known."""
    if os.uname().machine != "x86_64":
        return skip("AMD's packages", "the stand-ins are for x86-64")
    stand_in = folder / "amd/libhipblas.so.2"
    library(stand_in, "libhipblas.so.2", "int hipblasCreate(void) { return 2; }")
    for number, (program, release, list_of, package) in enumerate((
            ("usr/bin/dnf", 'ID="rocky"\nVERSION_ID="9.4"\n', None, "dnf install hipblas"),
            ("usr/bin/dnf", 'ID="rocky"\nVERSION_ID="9.4"\n', "etc/yum.repos.d/rocm.repo", "dnf install hipblas"),
            ("usr/bin/apt-get", "ID=ubuntu\nVERSION_ID=24.04\n", None, "apt-get install hipblas"),
            ("usr/bin/apt-get", "ID=ubuntu\nVERSION_ID=24.04\n", "etc/apt/sources.list.d/amdgpu.list",
             "apt-get install hipblas"),
            ("usr/bin/zypper", 'ID="sles"\nVERSION_ID="15.6"\n', None, "zypper install hipblas"))):
        image = folder / f"amd{number}"
        for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"):
            (image / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, image / path.lstrip("/"))
        compiled("int hipblasCreate(void); int main(void) { return hipblasCreate(); }", "-o", image / "app", stand_in)
        for path, text in ((program, ""), ("etc/os-release", release), *([(list_of, "")] if list_of else [])):
            (image / path).parent.mkdir(parents=True, exist_ok=True)
            (image / path).write_text(text)
        done = subprocess.run([str(exe), "check", "/app", "--root", str(image), "--json"], capture_output=True,
                              text=True, check=False)
        repairs = [r for f in json.loads(done.stdout)["findings"] for r in f["repairs"] if r["command"]]
        check(f"AMD's packages, {number}: {program}", any(
            package in r["command"] and ("AMD's repository" in r["text"]) == (list_of is None) for r in repairs), repairs)


TOOLKIT = "https://nvidia.github.io/libnvidia-container/stable/rpm/nvidia-container-toolkit.repo"
HOSTS = (
    ("/usr/bin/dnf", "sudo curl -fsSLo /etc/yum.repos.d/nvidia-container-toolkit.repo " + TOOLKIT
     + " && sudo dnf install %s", "sudo dnf remove"),
    ("/usr/bin/zypper", "sudo zypper addrepo " + TOOLKIT + " && sudo zypper install %s", "sudo zypper remove"),
    ("/usr/bin/pacman", "sudo pacman -S nvidia-container-toolkit", "sudo pacman -R"),
    ("/usr/bin/apt-get", "sudo apt-get install %s", "sudo apt-get remove"),
    ("/sbin/apk", None, "sudo apk del"),
)


def tools_of_hosts(exe, folder):
    """The host's own package manager brings NVIDIA's container tools."""
    for program, wanted, remove in HOSTS:
        host = tree(folder / "bare", "geforce-desktop")
        for name in ("usr/bin/apt-get", "etc/os-release", "usr/lib/os-release"):
            (host / name).unlink(missing_ok=True)
        (host / program.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (host / program.lstrip("/")).write_text("")
        for form, package in (("docker", "nvidia-container-toolkit"), ("enroot", "libnvidia-container-tools")):
            said = json.loads(run(exe, form, "--host", host, "--json", "/bin/true").stdout)
            first = " ".join(values(said, "first"))
            check(f"{program}, {form}: install", (wanted % package if "%s" in wanted else wanted) in first
                  if wanted else "NVIDIA has no package" in " ".join(said["notes"]), (first, said["notes"]))
            check(f"{program}, {form}: no other manager", sum(
                f"sudo {m} " in first for m in ("dnf", "zypper", "pacman", "apt-get", "apk")) == bool(wanted),
                first)
        said = json.loads(run(exe, "docker", "--host", host, "--json", "/bin/true").stdout)
        check(f"{program}: the way back", f"{remove} nvidia-container-toolkit" in " ".join(values(said, "undo")),
              values(said, "undo"))


def in_podman(folder, image, host, said):
    what = "the command line in podman"
    name = f"localhost/gpumend-settings:{os.getpid()}"
    if not shutil.which("podman"):
        return skip(what, "there is no podman")
    built = subprocess.run(f"tar -C {image} -c . | podman import - {name}", shell=True,
                           capture_output=True, text=True, check=False)
    try:
        plain = subprocess.run([*PODMAN, name, "/gpumend", "--version"], capture_output=True,
                               text=True, check=False)
        if built.returncode or plain.returncode:
            return skip(what, "podman runs no container here: " + plain.stderr.strip()[-120:])
        without = subprocess.run([*PODMAN, name, "/app"], capture_output=True, text=True,
                                 check=False)
        check("without the settings it does not start", without.returncode == 127
              and "libcublas.so.12" in without.stderr, without.stderr)
        # The stand-in host lies in a folder, and its GPU is none: the rest is as it was printed.
        arguments, options = said["arguments"], []
        for flag, value in zip(arguments[::2], arguments[1::2]):
            if flag != "--device":
                options += [flag, str(host) + value if flag == "-v" else value]
        done = subprocess.run([*PODMAN, *options, name, "/app"], capture_output=True, text=True,
                              check=False)
        check("with them it does", done.stdout.strip() == "126", done.stderr[-300:])
        inside = subprocess.run([*PODMAN, *options, name, "/gpumend", "check", "/app", "--json"],
                                capture_output=True, text=True, check=False)
        check("and gpumend in the container agrees", inside.returncode == 0
              and json.loads(inside.stdout)["verdict"] == "ok", inside.stdout[-300:])
    finally:
        subprocess.run(["podman", "rmi", "-f", name], capture_output=True, check=False)


def in_folder_engines(exe, folder, image, host):
    """LXC and systemd-nspawn start the folder, with the lines as they were printed but for the device
    nodes, which are stand-ins, and the place of the host."""
    top = folder / "rootfs"
    shutil.copytree(image, top, symlinks=True)
    for name in ("dev", "proc", "sys", "etc", "tmp", "run"):
        (top / name).mkdir()
    (top / "etc/os-release").write_text("ID=none\n")
    printed = {form: run(exe, form, "/app", "--root", image, "--host", host, "--json")
               for form in ("lxc", "nspawn")}
    said = {form: json.loads(done.stdout) for form, done in printed.items()}

    def started(what, words, name):
        try:
            return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False,
                                  stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            subprocess.run(["lxc-stop", "-k", "-n", name], capture_output=True, check=False)
            return subprocess.CompletedProcess(words, 1, "", f"{what}: no end within 60 s")

    def compared(what, command, extra, name):
        """`command(program, lines)` are the words that start `program` with the printed lines or none."""
        plain = started(what, command("/gpumend", None), name)
        if plain.returncode or "gpumend" not in plain.stdout:
            return skip(what, "it starts nothing here: " + (plain.stderr or plain.stdout).strip()[-120:])
        without = started(what, command("/app", None), name)
        check(f"{what}: without the settings it does not start", without.returncode != 0
              and "libcublas.so.12" in without.stdout + without.stderr, without)
        done = started(what, command("/app", extra), name)
        return check(f"{what}: with them it does", "126" in done.stdout.split(), done)

    if not shutil.which("lxc-execute"):
        skip("the lines in LXC", "there is no lxc-execute")
    else:
        name = f"gpumend-{os.getpid()}"
        lines = [line.replace("lxc.mount.entry = /", f"lxc.mount.entry = {host}/", 1)
                 for line in run(exe, "lxc", "/app", "--root", image, "--host", host).stdout.splitlines()
                 if line.startswith("lxc.") and " = /dev/" not in line and ".devices." not in line]
        check("LXC: the lines are those of --json", len(lines) >= len(said["lxc"]["mounts"]), lines)

        def lxc(program, extra):
            config = folder / "lxc.conf"
            config.write_text("\n".join((f"lxc.rootfs.path = dir:{top}", "lxc.uts.name = app",
                                         "lxc.net.0.type = none", *(extra or []), "")))
            return ["lxc-execute", "-n", name, "-P", str(folder), "-f", str(config), "--", program,
                    *(["--version"] if program == "/gpumend" else [])]
        compared("the lines in LXC", lxc, lines, name)
    if not shutil.which("systemd-nspawn"):
        skip("the command line of systemd-nspawn", "it is not here")
    else:
        options = [value.replace("--bind-ro=/", f"--bind-ro={host}/", 1) for value in said["nspawn"]["arguments"]
                   if not value.startswith(("--bind=/dev/", "--property="))]

        def nspawn(program, extra):
            # Without systemd as the first process there is nobody to register with.
            return ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe", *(extra or []),
                    f"--directory={top}", program, *(["--version"] if program == "/gpumend" else [])]
        compared("the command line of systemd-nspawn", nspawn, options, "")


def not_determined(exe, folder):
    """Where the check cannot tell what an image lacks, the form does not say that it lacks nothing."""
    image = folder / "unknown"
    (image / "etc").mkdir(parents=True)
    (image / "app").write_text("")
    status = run(exe, "check", image).returncode
    check("unknown: the check cannot tell", status == 3, status)
    for form in ("docker", "dockerfile"):
        text = run(exe, form, image).stdout
        check(f"unknown: {form}", "It cannot be determined whether the application of this image works"
              in text and "has no error" not in text, text)
        notes = json.loads(run(exe, form, image, "--json").stdout)["notes"]
        check(f"unknown: {form} as JSON", any("cannot be determined" in n for n in notes), notes)


def of_folders(exe, folder):
    """A root file system needs neither etc nor usr; a prefix with a Python is a TARGET, a project is nothing."""
    app, prefix, project = folder / "scratch", folder / "prefix", folder / "project"
    (project / "src").mkdir(parents=True)
    (project / "requirements.txt").write_text("torch\n")
    (app / "opt/app").mkdir(parents=True)
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python3").symlink_to(sys.executable)
    done = run(exe, "docker", app)
    check("a folder without etc is an image",
          done.returncode == 0 and f"tar -C {app} -c . | docker import" in done.stdout,
          done.stdout + done.stderr)
    done = run(exe, "docker", prefix)
    check("a prefix with a Python is not an image", "docker import" not in done.stdout,
          done.stdout + done.stderr)
    done = run(exe, "docker", project)
    check("a project is not an image", done.returncode != 0 and not done.stdout, done.stdout + done.stderr)


def of_this_host(exe, folder):
    """An environment of this host has its paths in the settings: that is said, with its Python's."""
    tree_ = causes_tree.Tree(folder / "packed").python().ctranslate2()
    tree_.pip_cublas()
    place = str(tree_.real(tree_.prefix))
    for form in ("docker", "dockerfile"):
        done = run(exe, form, place)
        notes = json.loads(run(exe, form, place, "--json").stdout)["notes"]
        told = f"must be at {place} as well"
        check(f"this host: {form}", place + "/lib" in done.stdout and told in done.stdout
              and any(told in n for n in notes), done.stdout + done.stderr)
        done = run(exe, form, "--root", tree_.top, tree_.prefix)
        check(f"this host: {form} of a root", "must be at" not in done.stdout, done.stdout)
    done = run(exe, "docker", environment_of(folder / "empty", sample="1.0"))
    check("this host: no path is named", "must be at" not in done.stdout, done.stdout)


def one_search_path(exe, folder):
    """Folders that exist already and those that a package brings are one LD_LIBRARY_PATH: the later of
    two lines, or the command's, would hide the other's. `container check` leaves the lines to the
    form: its commands are not for a shell of this host."""
    made = causes_tree.Tree(folder / "two causes").python().ctranslate2("4.5.0")
    made.pip_cublas()
    site = made.site + "/nvidia"
    wanted = [f"{site}/{part}/lib" for part in ("cublas", "cudnn", "cuda_nvrtc")]
    root = ("--root", made.top, made.prefix)
    built = json.loads(run(exe, "dockerfile", *root, "--json").stdout)
    started = json.loads(run(exe, "docker", *root, "--json").stdout)
    lines = [v for v in values(built, "image") if v.startswith("ENV LD_LIBRARY_PATH=")]
    paths = [line.split('"')[1].split(":") for line in lines]
    check("one path: one line for the image", paths == [wanted], lines)
    check("one path: its packages", any(v.startswith("RUN ") and "nvidia-cudnn-cu12" in v
                                        for v in values(built, "image")), built["image"])
    bare = causes_tree.Tree(folder / "one install").python().ctranslate2("4.5.0")
    runs = [v for v in values(json.loads(run(exe, "dockerfile", "--root", bare.top, bare.prefix, "--json").stdout),
                              "image") if v.startswith("RUN ")]
    check("one line installs what two findings lack",
          len(runs) == 1 and "nvidia-cudnn-cu12" in runs[0] and "nvidia-cublas-cu12" in runs[0], runs)
    check("one path: that of the command has all of them",
          [v.split("=")[1].split(":") for v in values(started, "environment")] == [wanted], started)
    told = run(exe, "check", made.top, made.prefix).stdout.splitlines()[-1].split("  (")[0]
    words = shlex.split(told.removeprefix("to do now"))
    again = run(exe, *words[2:]).stdout if words[:2] == ["gpumend", "container"] else told
    check("one path: what the check says to do", all(line in again for line in lines), again)


def without_uv(exe, folder):
    """An environment that uv made in an earlier stage has no pip, and the image no uv: it is copied
    in before the line that runs it."""
    for name, path, brought in (("none", None, True), ("there", "/usr/local/bin/uv", False)):
        made = causes_tree.Tree(folder / ("uv " + name)).python().ctranslate2("4.5.0")
        shutil.rmtree(next(made.real(made.site).glob("pip-*"), folder / "none"), ignore_errors=True)
        if path:
            made.put(path, "#!/bin/sh\n")
        said = json.loads(run(exe, "dockerfile", "--root", made.top, made.prefix, "--json").stdout)
        lines = [v for v in values(said, "image") if v.startswith(("RUN ", "COPY "))]
        check(f"uv, {name}: the lines of the build", lines and ("RUN uv " in lines[-1]) and
              any(v.startswith("COPY --from=") for v in lines[:-1]) == brought, lines)


def main():
    exe = Path(sys.argv[1]).resolve()
    schemas = schemas_of()
    if yaml_of("a: 1") is None:
        skip("YAML", "this Python has no yaml module")
    if not shutil.which("quadlet") and not any(map(os.path.exists, QUADLETS)):
        skip("podman's generator for quadlets", "podman is older than 4.4, or not here")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        (folder / "bare").mkdir()
        for name in MACHINES:
            of_machine(exe, folder, name, schemas)
        expected(exe, folder)
        lacking(exe, folder)
        reasons_are_true(exe, folder)
        by_every_manager(exe, folder)
        amd_by_manager(exe, folder)
        tools_of_hosts(exe, folder)
        inventory(exe, folder)
        selected(exe, folder)
        of_image(exe, folder)
        not_determined(exe, folder)
        of_folders(exe, folder)
        of_this_host(exe, folder)
        one_search_path(exe, folder)
        without_uv(exe, folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
