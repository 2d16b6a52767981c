#!/usr/bin/env python3
"""Wheel variants: tests/python/variants.py GPUMEND [--uv UV]

What machines support is compared with the rules of nvidia-variant-provider, written down here a second time from its
plugin.py at ffea5d3 (get_supported_configs): those rules were compared with the plugin itself under its variables
NV_VARIANT_PROVIDER_FORCE_*, 80 and 83 machines, no difference. The order of variants is compared with the pseudocode of
PEP 825 on random documents. With a uv that has the preview feature wheel-variants (0.13.9 has it; --uv, or on PATH), it
installs from a local index: under the FORCE variables it must choose what `variants --index` calls the best, and with
the list of `variants --static` in the index it must choose the same on this machine.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "fleet"), str(HERE.parent / "trees")]
from build import merged, nvidia, system, without, write  # noqa: E402
from counted import Counts  # noqa: E402

GPUS = {(3, 7): 0x102d, (6, 1): 0x1b06, (7, 0): 0x1db4, (7, 5): 0x1eb8, (8, 0): 0x20b2, (8, 6): 0x2204, (8, 9): 0x2684,
        (9, 0): 0x2330, (10, 0): 0x2901, (12, 0): 0x2b85}
DRIVERS = {"450.51.06": (11, 0), "470.256.02": (11, 4), "525.60.13": (12, 0), "535.183.01": (12, 2), "550.90.07": (12, 4),
           "560.35.03": (12, 6), "570.86.10": (12, 8), "575.57.08": (12, 9)}
SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
PROVIDER = {"requires": ["nvidia-variant-provider"], "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin"}
VARIANTS = {"cu118": {"nvidia": {"cuda_version_lower_bound": ["11.8"], "sm_arch": ["50_real", "60_real", "70_real", "80_real", "90_real"]}},
            "cu126": {"nvidia": {"cuda_version_lower_bound": ["12.6"], "sm_arch": ["50_real", "60_real", "70_real", "80_real", "90_real"]}},
            "cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"], "cuda_version_upper_bound": ["13"],
                                 "sm_arch": ["75_real", "80_real", "90_real", "120_real"]}},
            "cu130": {"nvidia": {"cuda_version_lower_bound": ["13"], "sm_arch": ["80_real", "90_real", "120_virtual"]}},
            "null": {}}
counts = Counts()


def provider(cuda, sm):
    """get_supported_configs(), by its rules."""
    major, minor = cuda
    lower = [f"{m}.{n}" if n is not None else f"{m}" for m in range(major, 10, -1)
             for n in [*range(minor if m == major else 20, -1, -1), None]]
    upper = [f"{m}.{n}" if n is not None else f"{m}" for m in range(15, major - 1, -1)
             for n in ([*range(20, -1, -1), None] if m > major else range(20, minor, -1))]
    found = {"cuda_version_lower_bound": lower, "cuda_version_upper_bound": upper}
    if sm >= (5, 0):
        found["sm_arch"] = [*[f"{sm[0]}{n}_real" for n in range(sm[1], -1, -1)], f"{sm[0]}0_virtual"]
    return found


def machine(top, name, *parts, **flags):
    folder = top / name
    if not folder.exists():
        write(merged(system(**flags), *parts), folder)
    return folder


def gpu_machine(top, driver, *capabilities):
    name = f"{driver}-{capabilities}".replace(" ", "")
    gpus = [(f"0000:{i + 1:02x}:00.0", GPUS[c], "NVIDIA GPU") for i, c in enumerate(capabilities)]
    return machine(top, name, nvidia(driver, *gpus))


def run(exe, *words):
    done = subprocess.run([exe, "variants", "--preview", *map(str, words)], capture_output=True, text=True, check=False,
                          env={"PATH": os.defpath, "LC_ALL": "C"})
    return done.returncode, done.stdout, done.stderr


def static(exe, *nodes):
    words = [word for node in nodes for word in ("--on", node)]
    rc, out, err = run(exe, *words, "--static")
    found = json.loads(out)
    for ns, listed in found["providers"].items():
        counts.judge(f"order of {ns}", listed["feature-order"] == list(listed["static-properties"]), out)
    return rc, {ns: p["static-properties"] for ns, p in found["providers"].items()}, err


def lists(exe, top):
    for driver, cuda in DRIVERS.items():
        for sm in GPUS:
            rc, found, err = static(exe, gpu_machine(top, driver, sm))
            counts.judge(f"{driver} {sm}", (rc, found.get("nvidia")) == (0, provider(cuda, sm)), f"{rc} {found.get('nvidia')} {err}")
    # The highest of several GPUs, as the provider takes it.
    _, found, _ = static(exe, gpu_machine(top, "550.90.07", (7, 5), (8, 9), (8, 0)))
    counts.judge("highest", found["nvidia"] == provider((12, 4), (8, 9)), found)
    counts.judge("level", found["x86_64"] == {"level": ["v3", "v2", "v1"]}, found)
    _, found, _ = static(exe, machine(top, "cpu"))
    counts.judge("no GPU", list(found) == ["x86_64"], found)
    bare = top / "no-nvml"
    write(without(merged(system(), nvidia("550.90.07", ("0000:01:00.0", GPUS[8, 9], "NVIDIA GPU"))),
                  "/usr/lib/x86_64-linux-gnu/libnvidia-ml"), bare)
    rc, found, _ = static(exe, bare)
    counts.judge("no NVML", (rc, list(found)) == (0, ["x86_64"]), found)
    # A driver newer than all that are known: what it supports is not said.
    for name, driver in (("unknown driver", "999.10.01"), ("a beta before its toolkit", "535.43.02")):
        rc, found, err = static(exe, gpu_machine(top, driver, (8, 9)))
        counts.judge(name, rc == 3 and "nvidia" not in found and "nvidia is not in the list" in err, f"{rc} {found} {err}")
    rc, found, err = static(exe, gpu_machine(top, "565.57.01", (8, 9)))
    counts.judge("a branch without a toolkit", (rc, found.get("nvidia")) == (0, provider((12, 7), (8, 9))), f"{rc} {found} {err}")


def least(exe, top):
    one, two = gpu_machine(top, "575.57.08", (9, 0)), gpu_machine(top, "550.90.07", (9, 0))
    _, found, _ = static(exe, one, two)
    a, b = provider((12, 9), (9, 0)), provider((12, 4), (9, 0))
    counts.judge("least", found["nvidia"] == {k: [v for v in a[k] if v in b[k]] for k in a}, found)
    rc, found, _ = static(exe, one, machine(top, "cpu"))
    counts.judge("least without a GPU", rc == 0 and "nvidia" not in found, found)
    rc, found, err = static(exe, one, gpu_machine(top, "999.10.01", (9, 0)))
    counts.judge("least with an unknown one", rc == 3 and "nvidia" not in found and "999.10.01" in err, f"{rc} {found} {err}")
    file = top / "snapshot.json"
    file.write_bytes(subprocess.run([exe, "snapshot", "--root", one], capture_output=True, check=False).stdout)
    counts.judge("a snapshot is its machine", file.stat().st_size and static(exe, file)[1] == static(exe, one)[1], file)


# ------------------------------------------------------------------ installed wheels and indexes

def document(variants, **more):
    return {"$schema": SCHEMA, "default-priorities": {"namespace": ["nvidia"]}, "providers": {"nvidia": PROVIDER},
            "variants": variants, **more}


def environment(top, name, content):
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    info = top / name / f"lib/python{version}/site-packages/demo-1.0.dist-info"
    info.mkdir(parents=True)
    (top / name / "bin").mkdir()
    (top / name / "bin/python").symlink_to(sys._base_executable)
    (top / name / "pyvenv.cfg").write_text(f"home = {os.path.dirname(sys._base_executable)}\nversion = {version}.0\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    (info / "RECORD").write_text("")
    (info / "variant.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return top / name


def judged(exe, env, node, *words):
    rc, out, err = run(exe, env, "--on", node, "--json", *words)
    return rc, json.loads(out) if out else {"machines": [], "unreadable": [], "err": err}


def installed(exe, top):
    h100, t4, cpu = gpu_machine(top, "575.57.08", (9, 0)), gpu_machine(top, "550.90.07", (7, 5)), machine(top, "cpu")
    index = top / "demo-1.0-variants.json"
    index.write_text(json.dumps(document(VARIANTS)))
    only = lambda label: document({label: VARIANTS[label]})
    envs = {label: environment(top, f"env-{label}", only(label)) for label in VARIANTS}
    for label, node, status, fits, says in (
            ("cu129", h100, 0, "yes", "it is the best variant of the index that fits here"),
            ("cu126", h100, 0, "yes", "an installer would choose cu129 here"),
            ("cu130", h100, 1, "no", "an installer would choose cu129 here"),
            ("cu118", t4, 0, "yes", "it is the best variant of the index that fits here"),
            ("cu126", t4, 1, "no", "an installer would choose cu118 here"),
            ("null", cpu, 0, "yes", "it is the best variant of the index that fits here"),
            ("cu129", cpu, 1, "no", "an installer would choose null here")):
        rc, doc = judged(exe, envs[label], node, "--index", index)
        wheel = (doc["machines"] or [{"wheels": [{}]}])[0]["wheels"][0]
        counts.judge(f"{label} on {node.name}", (rc, wheel.get("fits"), wheel.get("chosen")) == (status, fits, says), f"{rc} {wheel}")
    rc, doc = judged(exe, envs["cu129"], h100)
    wheel = doc["machines"][0]["wheels"][0]
    counts.judge("without an index", rc == 0 and "unknown" in wheel["chosen"], wheel)
    by = {p["feature"]: p["by"] for p in wheel["properties"]}
    counts.judge("by", by == {"cuda_version_lower_bound": "12.9", "cuda_version_upper_bound": "13", "sm_arch": "90_real"}, by)
    # The same label with other properties is not that variant of the index.
    other = environment(top, "env-other", document({"cu129": {"nvidia": {"sm_arch": ["90_real"]}}}))
    _, doc = judged(exe, other, h100, "--index", index)
    counts.judge("another cu129", "no variant with this label" in doc["machines"][0]["wheels"][0]["chosen"], doc)
    rc, _, err = run(exe, top)
    counts.judge("no environment", rc == 3 and "not a Python environment" in err, err)
    # Two machines: the worst counts.
    rc, out, _ = run(exe, envs["cu129"], "--on", h100, "--on", cpu)
    counts.judge("two machines", rc == 1 and "cu129: fits" in out and "cu129: does not fit" in out, out)


def unknown(exe, top):
    h100 = gpu_machine(top, "575.57.08", (9, 0))
    cases = {
        "another namespace": document({"x": {"amd": {"gfx_arch": ["gfx1100"]}}}),
        "an instruction": document({"x": {"x86_64": {"avx512_bf16": ["on"]}}}),
        "an optional provider": document({"x": {"nvidia": {"sm_arch": ["90_real"]}}}, providers={"nvidia": {**PROVIDER, "optional": True}}),
    }
    for name, doc in cases.items():
        rc, found = judged(exe, environment(top, "u-" + name.replace(" ", "-"), doc), h100)
        counts.judge(name, rc == 3 and found["machines"][0]["wheels"][0]["fits"] == "unknown", f"{rc} {found}")
    own = document({"x": {"nvidia": {"sm_arch": ["90_real"]}}}, providers={"nvidia": {"static-properties": {"sm_arch": ["80_real"]}}})
    rc, found = judged(exe, environment(top, "u-own", own), h100)
    counts.judge("its own list decides", rc == 1 and found["machines"][0]["wheels"][0]["fits"] == "no", f"{rc} {found}")
    level = document({"v4": {"x86_64": {"level": ["v4"]}}})
    rc, found = judged(exe, environment(top, "u-level", level), h100)
    counts.judge("x86-64-v4 on v3", rc == 1, f"{rc} {found}")
    one = {"x": {"nvidia": {"sm_arch": ["90_real"]}}}
    broken = {"no JSON": "{", "a list": "[]", "no schema": json.dumps({k: v for k, v in document(one).items() if k != "$schema"}),
              "a newer schema": json.dumps({**document(one), "$schema": "https://packaging.python.org/v1.0.0.json"}),
              "two variants": json.dumps(document({**one, "null": {}})), "null with properties": json.dumps(document({"null": one["x"]})),
              "capitals": json.dumps(document({"x": {"nvidia": {"sm_arch": ["90_REAL"]}}})),
              "values that are no list": json.dumps(document({"x": {"nvidia": {"sm_arch": "90_real"}}})),
              "a NUL": json.dumps(document({"x": {"nvidia": {"sm_arch": ["90\u0000"]}}})),
              "twice": '{"$schema": "%s", "$schema": "x"}' % SCHEMA, "too many": json.dumps(document({"x": {"n": {"f": [f"v{i}" for i in range(2000)]}}}))}
    for name, text in broken.items():
        rc, found = judged(exe, environment(top, "b-" + name.replace(" ", "-"), text), h100)
        counts.judge(name, rc == 3 and len(found["unreadable"]) == 1 and not found["machines"][0]["wheels"], f"{rc} {found}")
    done = subprocess.run([exe, "variants"], capture_output=True, text=True, check=False)
    counts.judge("without --preview", done.returncode == 2 and "--preview" in done.stderr, done.stderr)


def conda(exe, top):
    """conda's virtual packages: the driver's CUDA, and the lowest of the GPUs."""
    for name, gpus, cuda, arch in (("two", [(8, 9), (7, 5)], "12.4", "7.5"), ("none", [], None, None)):
        folder = top / f"conda-{name}"
        meta = {f"/opt/conda/conda-meta/{package}.json": "{}" for package in ("python-3.11.7-h1_0_cpython", "cuda-version-12.8-h1_3",
                                                                              "cuda-arch-9.0-h1_0")}
        parts = [nvidia("550.90.07", *[(f"0000:{i + 1:02x}:00.0", GPUS[c], "NVIDIA GPU") for i, c in enumerate(gpus)])] if gpus else []
        write(merged(system(), *parts, {"/opt/conda/conda-meta/history": "", "/opt/conda/lib/python3.11/os.py": "", **meta}), folder)
        doc = json.loads(subprocess.run([exe, "check", "--root", folder, "/opt/conda", "--json"], capture_output=True, check=False).stdout)
        here = doc["python"]["conda"]
        counts.judge(f"conda, {name}", (here["__cuda"], here["__cuda_arch"], doc["python"]["manager"]) == (cuda, arch, "conda"), here)
        text = subprocess.run([exe, "check", "--root", folder, "/opt/conda"], capture_output=True, text=True, check=False).stdout
        counts.judge(f"conda, {name}, text", f"__cuda {cuda or 'none'}, __cuda_arch {arch or 'none'} here; made for cuda-version 12.8" in text
                     and "cuda-arch 9.0" in text, text)


# ------------------------------------------------------------------ order

def by_pep(doc, static_lists):
    """PEP 825, "Variant ordering", for those that fit."""
    def supported(ns, feature):
        return static_lists.get(ns, {}).get(feature, [])

    def key(props):
        keys = []
        for ns, features in props.items():
            names = list(doc["providers"][ns]["feature-order"])
            for feature, values in features.items():
                best = next(v for v in supported(ns, feature) if v in values)
                keys.append((doc["default-priorities"]["namespace"].index(ns), names.index(feature), supported(ns, feature).index(best)))
        return sorted(keys)
    fit = {label: props for label, props in doc["variants"].items()
           if all(set(values) & set(supported(ns, f)) for ns, features in props.items() for f, values in features.items())}

    def order(label):
        # A list that ends earlier comes later.
        return [*key(fit[label]), (9999, 0, 0)], label
    return sorted(fit, key=order)


def orders(exe, top):
    rng = random.Random(825)
    env, cpu = environment(top, "env-order", document({"null": {}})), machine(top, "cpu")
    for number in range(60):
        namespaces = [f"n{i}" for i in range(3)]
        rng.shuffle(namespaces)
        lists_ = {ns: {f"f{i}": rng.sample([f"v{k}" for k in range(5)], 4) for i in range(3)} for ns in namespaces}
        names = {ns: rng.sample(list(lists_[ns]), 3) for ns in namespaces}
        variants = {"null": {}}
        for i in range(12):
            props = {}
            for ns in rng.sample(namespaces, rng.randint(1, 3)):
                props[ns] = {f: rng.sample([f"v{k}" for k in range(5)], rng.randint(1, 2)) for f in rng.sample(list(lists_[ns]), rng.randint(1, 3))}
            variants[f"l{i}"] = props
        doc = {"$schema": SCHEMA, "default-priorities": {"namespace": namespaces}, "variants": variants,
               "providers": {ns: {"static-properties": lists_[ns], "feature-order": names[ns]} for ns in namespaces}}
        file = top / f"order{number}.json"
        file.write_text(json.dumps(doc))
        _, found = judged(exe, env, cpu, "--index", file)
        mine = [v["label"] for v in found["machines"][0]["index"] if v["fits"] == "yes"]
        counts.judge(f"order {number}", mine == by_pep(doc, lists_) and len(mine) > 1, f"{mine} {by_pep(doc, lists_)}")


# ------------------------------------------------------------------ uv

def wheel(folder, label, doc):
    with zipfile.ZipFile(folder / f"demo-1.0-py3-none-any-{label}.whl", "w") as z:
        z.writestr("demo.py", f"label = {label!r}\n")
        info = "demo-1.0.dist-info"
        z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/variant.json", json.dumps({**doc, "variants": {label: doc["variants"][label]}}))
        z.writestr(f"{info}/RECORD", "demo.py,,\n" + "".join(f"{info}/{n},,\n" for n in ("METADATA", "WHEEL", "RECORD", "variant.json")))


def index_of(top, name, doc):
    folder = top / name
    folder.mkdir()
    for label in doc["variants"]:
        wheel(folder, label, doc)
    (folder / "demo-1.0-variants.json").write_text(json.dumps(doc))
    return folder


def chosen_by_uv(uv, top, links, **force):
    env = {**{k: v for k, v in os.environ.items() if not k.startswith(("UV_", "NV_"))}, "UV_CACHE_DIR": str(top / "uv"), **force}
    target = Path(tempfile.mkdtemp(dir=top))
    done = subprocess.run([uv, "pip", "install", "--target", target, "--preview-features", "wheel-variants", "--no-cache", "--no-index",
                           "--python", sys.executable, "--find-links", links, "demo"], capture_output=True, text=True, check=False, env=env)
    text = (target / "demo.py").read_text() if (target / "demo.py").exists() else done.stderr
    return text.partition("'")[2].partition("'")[0] or text


def with_uv(exe, top, uv):
    links = index_of(top, "links", document(VARIANTS))
    env = environment(top, "env-uv", document({"null": {}}))
    for number, (driver, sm) in enumerate((d, s) for d in DRIVERS for s in ((7, 5), (8, 9), (9, 0), (12, 0))):
        node, cuda = gpu_machine(top, driver, sm), DRIVERS[driver]
        _, doc = judged(exe, env, node, "--index", links / "demo-1.0-variants.json")
        best = doc["machines"][0]["index"][0]["label"]
        theirs = chosen_by_uv(uv, top, links, NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION=".".join(map(str, cuda)),
                              NV_VARIANT_PROVIDER_FORCE_SM_ARCH=".".join(map(str, sm)))
        counts.judge(f"uv with FORCE, {driver} {sm}", theirs == best, f"uv {theirs}, gpumend {best}")
        lists_ = json.loads(run(exe, "--on", node, "--static")[1])["providers"]
        own = index_of(top, f"own{number}", document(VARIANTS, providers={"nvidia": lists_["nvidia"]}))
        theirs = chosen_by_uv(uv, top, own)
        counts.judge(f"uv with the list, {driver} {sm}", theirs == best, f"uv {theirs}, gpumend {best}")


def main():
    exe = os.path.abspath(sys.argv[1])
    uv = sys.argv[3] if "--uv" in sys.argv else shutil.which("uv")
    with tempfile.TemporaryDirectory(prefix="gpumend variants.") as folder:
        top = Path(folder)
        lists(exe, top)
        least(exe, top)
        installed(exe, top)
        unknown(exe, top)
        conda(exe, top)
        orders(exe, top)
        if uv:
            with_uv(exe, top, uv)
        else:
            counts.skipped += 1
            print("skipped: uv, which is not installed")
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return counts.failed > 0


if __name__ == "__main__":
    sys.exit(main())
