#!/usr/bin/python3
"""What a target needs of a node, and whether `check` says the same: tests/fleet/needs.py GPUMEND [--few] [--print] [--evaluate PROGRAM] [--slurm] [--provider FOLDER] [--toolkit CHECKOUT] [--dsl FILE]

A matrix: environments (builds of torch for CUDA and ROCm with different code, C library, processor, pages) x the
machines of tests/trees. For each pair `needs --on NODE` answers what `check --root ENVIRONMENT --host NODE` finds,
and the expression that `needs --as nfd` prints, over the labels that `export nfd` writes for the node, excludes no
node on which the environment runs, and admits none on which the driver or the GPU code is what is missing. With --evaluate that expression and the one for CEL are evaluated by Kubernetes' own code
(evaluate/, built as PROGRAM), and a snapshot of the node answers as its files do. With --slurm those for Slurm's --constraint
and, from Slurm 23.11 on, --extra are evaluated by a real slurmctld. --few: a part of the matrix. Wheel variants are evaluated by what NVIDIA's provider reports;
with --provider by its own code, a checkout of wheelnext/nvidia-variant-provider. With --toolkit (a checkout of NVIDIA/nvidia-container-toolkit) and
--dsl (src/cli/dsl.c of NVIDIA/libnvidia-container) NVIDIA_REQUIRE_CUDA is evaluated by their code.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "trees"), str(HERE.parent / "causes")]
from counted import Counts  # noqa: E402
import require_cuda  # noqa: E402
import slurm_match  # noqa: E402
from build import write  # noqa: E402
from gpucode import CU121, CU130, cuda_library, cuda_program, hip_library  # noqa: E402
from machines import MACHINES  # noqa: E402
from tree import SYSTEM, TAG, Tree  # noqa: E402

PREFIX = "feature.node.kubernetes.io/gpumend-"
# Causes that the expression decides, and that no other need of the node hides.
DECIDED = ("driver-too-old", "gpu-code-missing", "gfx-not-covered")


def cuda(version, release, *containers):
    def make(tree):
        tree.put(tree.site + "/torch/lib/libtorch_cuda.so", cuda_library("libtorch_cuda.so", *containers))
        tree.torch_for("cuda", release, version, needed=["libtorch_cuda.so"], rpath="$ORIGIN/lib")
        tree.dist("torch", version, ["torch/lib/libtorch_cuda.so", f"torch/_C.{TAG}.so"])
    return make


def rocm(*gfx):
    def make(tree):
        tree.put(tree.site + "/torch/lib/libtorch_hip.so", hip_library("libtorch_hip.so", *gfx))
        tree.torch_for("hip", "6.4.43482", "2.9.0", needed=["libtorch_hip.so"], rpath="$ORIGIN/lib")
        tree.dist("torch", "2.9.0", ["torch/lib/libtorch_hip.so", f"torch/_C.{TAG}.so"])
    return make


ENVIRONMENTS = {
    "cu118": cuda("2.1.0", "11.8", CU121), "cu121": cuda("2.5.1", "12.1", CU121), "cu124": cuda("2.5.1", "12.4", CU121),
    "cu126": cuda("2.7.0", "12.6", CU121), "cu128": cuda("2.7.0", "12.8", CU130), "cu130": cuda("2.9.0", "13.0", CU130),
    "cu128-ptx": cuda("2.7.0", "12.8", (*CU121, "compute_90:8.7")), "cu124-both": cuda("2.5.1", "12.4", CU121, CU130), "rocm-all": rocm("gfx900", "gfx90a", "gfx942", "gfx1030", "gfx1100"),
    "rocm-mi300": rocm("gfx942"), "rocm-rdna": rocm("gfx1030", "gfx1100", "gfx1101"),
    "rocm-generic": rocm("gfx11-generic"), "rocm-xnack": rocm("gfx90a:xnack-", "gfx942:xnack-"),
}


def run(exe, *words):
    done = subprocess.run([str(exe), *map(str, words)], capture_output=True, text=True, timeout=300, check=False,
                          stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"})
    return done.returncode, done.stdout, done.stderr


def holds(expression, labels):
    """One requirement of Kubernetes' node affinity (component-helpers, nodeaffinity)."""
    value, operator = labels.get(expression["key"]), expression["operator"]
    values = [str(v) for v in expression.get("values", [])]
    if operator == "Exists":
        return value is not None
    if operator == "In":
        return value in values
    if value is None or not re.fullmatch(r"-?\d+", value):
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def admits(terms, labels):
    return any(all(holds(e, labels) for e in term["matchExpressions"]) for term in terms)


def labels_of(exe, node):
    _, text, _ = run(exe, "export", "nfd", "--root", node)
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


def check_of(exe, env, node):
    _, out, err = run(exe, "check", "/opt/venv", "--root", env, "--host", node, "--json")
    doc = json.loads(out) if out else {"verdict": "unknown", "findings": [], "why": err}
    return doc["verdict"], next((f["cause"] for f in doc["findings"] if f["severity"] == "error"), None)


def pair(counts, name, answer, wanted, admitted, is_open):
    verdict, cause = wanted
    words = {"ok": "runs", "broken": "does-not-run", "unknown": "unknown"}
    no_gpu = answer["cause"] == "no-gpu" and verdict == "ok"
    no_facts = answer["answer"] == "unknown" and "neither /sys nor /proc" in answer["says"]
    counts.judge(f"{name}: the answer", no_gpu or no_facts or (answer["answer"] == words[verdict] and answer["cause"] in
                                                   (cause, None)), f"{answer}, check: {wanted}")
    if answer["answer"] == "runs":
        counts.judge(f"{name}: the expression excludes it", admitted, "and it runs")
    if (no_gpu or cause in DECIDED) and not is_open:
        counts.judge(f"{name}: the expression admits it", not admitted, answer)


def attributes(node):
    """What NVIDIA's driver would publish of a node with one GPU; None of others."""
    facts = node["facts"] or {}
    numbers, driver = facts.get("compute_capabilities"), facts.get("driver")
    if not driver or not numbers or len(numbers) != 1:
        return {}
    memory = facts.get("gpu_memory_mib")
    return {**({"memory": f"{memory}Mi"} if memory else {}), "driver": ".".join(str(int(x)) for x in (driver + ".0.0").split(".")[:3]), "compute": numbers[0] + ".0"}


# The CUDA of a driver, as nvidia-smi and NVML print it: the toolkit that came with its branch.
def cuda_of(driver):
    rows = json.loads((HERE.parents[1] / "kb/drivers.json").read_text())["rows"]
    key = lambda text: [int(x) for x in text.split(".")]  # noqa: E731
    reached = [r["cuda"] for r in rows if r["kind"] == "toolkit" and key(r["linux"]) <= key(driver)]
    return max(([int(x) for x in cuda.split(".")[:2]] for cuda in reached), default=None)


def reported(node, provider=None):
    """{(namespace, feature): values} that the providers report on a node (src/needs/variant.c has their code's names)."""
    facts, found = node["facts"] or {}, {}
    cuda = facts.get("driver") and facts.get("nvidia") and cuda_of(facts["driver"])
    archs = sorted((tuple(map(int, c.split("."))) for c in facts.get("compute_capabilities") or []), reverse=True)
    if cuda and cuda >= [11, 0]:
        bounds = [f"{major}.{minor}" for major in range(11, cuda[0] + 1)
                  for minor in range(21) if [major, minor] <= cuda] + [str(major) for major in range(11, cuda[0] + 1)]
        found["nvidia", "cuda_version_lower_bound"] = set(bounds)
        if archs and archs[0] >= (5, 0):
            major, minor = archs[0]
            found["nvidia", "sm_arch"] = {f"{major}{m}_real" for m in range(minor + 1)} | {f"{major}0_virtual"}
        if provider:
            found.update(by_provider(provider, cuda, archs))
    if facts.get("gfx"):
        found["amd", "gfx_arch"] = {g.partition(":")[0] for g in facts["gfx"]}
    level = re.fullmatch(r"x86-64-v(\d)", facts.get("cpu_level") or "")
    if level:
        found["x86_64", "level"] = {f"v{n}" for n in range(1, int(level[1]) + 1)}
    return found


def by_provider(folder, cuda, archs):
    """The same by NVIDIA's own provider, out of a checkout of it."""
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder), "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION":
           ".".join(map(str, cuda))}
    if archs:
        env["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"] = ".".join(map(str, archs[0]))
    code = ("import json\nfrom nvidia_variant_provider.plugin import NvidiaVariantPlugin as P\n"
            "print(json.dumps([[c.name, c.values] for c in P.get_supported_configs()]))")
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True, check=True)
    return {("nvidia", name): set(values) for name, values in json.loads(out.stdout)}


def fits(document, has):
    """Whether one of the variants suits a machine (PEP 825): of each feature one value."""
    return any(all(set(values) & has.get((space, feature), set()) for space, features in variant.items()
                   for feature, values in features.items()) for variant in document["variants"].values())


def variants(counts, asked, nodes, labels):
    """Wheel variants: where the environment runs, one fits; where the driver or the code is missing, none. The providers report
    a driver's version, and the newest of several kinds of GPUs alone: what labels leave open cannot be asked here either."""
    n = 0
    for name, node, answer, text in asked:
        if text is None:
            continue
        document = json.loads(text)
        words = [w for v in document["variants"].values() for space, features in v.items() for f, values in features.items()
                 for w in (space, f, *values)]
        counts.judge(f"{name}: wheel variant", set(document) == {"$schema", "default-priorities", "variants"} and
                     all(re.fullmatch(r"[a-z0-9_.]+", w) for w in words) and
                     all(re.fullmatch(r"[a-z0-9_.]{1,16}", label) for label in document["variants"]), text)
        got = fits(document, nodes[node])
        n += 1
        if {PREFIX + "nvidia-open", PREFIX + "amd-open"} & set(labels[node]):
            continue
        if answer["answer"] == "runs":
            counts.judge(f"{name} on {node}: a wheel variant fits", got, f"{document} {nodes[node]}")
        elif answer["cause"] in (*DECIDED, "no-gpu"):
            counts.judge(f"{name} on {node}: no wheel variant fits", not got, f"{document} {nodes[node]}")
    counts.judge("wheel variants were asked", n > 10, n)


def admission(counts, program, exe, nodes):
    """The example of a claim has the needs of an environment of the matrix; the policy refuses one without them."""
    folder = HERE.parents[1] / "deploy/kubernetes"
    env = next(iter(nodes.values())).parents[1] / "envs/cu124"
    text = (folder / "resourceclaimtemplate.yaml").read_text()
    claim = yaml.safe_load(text)
    request = claim["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    cel = run(exe, "needs", "/opt/venv", "--root", env, "--as", "cel")[1]
    counts.judge("the example's expression", request["selectors"][0]["cel"]["expression"].split() == cel.split(), cel)
    plain = {**claim, "kind": "ResourceClaim", "spec": claim["spec"]["spec"]}
    other = json.loads(json.dumps(claim).replace('"gpu.nvidia.com"', '"gpu.amd.com"').replace("selectors", "unused"))
    bare = json.loads(json.dumps(claim))
    del bare["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
    bare_plain = {**bare, "kind": "ResourceClaim", "spec": bare["spec"]["spec"]}
    for name, document, wanted in (("template", claim, "admitted"), ("claim", plain, "admitted"), ("other", other, "admitted"),
                                   ("bare", bare, "refused"), ("bare-claim", bare_plain, "refused")):
        file = env.parents[1] / f"{name}.yaml"
        file.write_text(yaml.safe_dump(document))
        done = subprocess.run([program, "--admit", folder / "admission.yaml", file], capture_output=True, text=True, check=True)
        counts.judge(f"admission of {name}", done.stdout.endswith(f" {wanted} <nil>\n"), done.stdout + done.stderr)


def evaluate(counts, program, exe, asked, nodes):
    """Each pair by Kubernetes' own code, and CEL against the same needs."""
    source = HERE / "evaluate"
    subprocess.run(["go", "build", "-o", program, "."], cwd=source, check=True)
    manifests = sorted((HERE.parents[1] / "deploy/kubernetes").glob("*.yaml"))
    for file in manifests:
        if file.name not in ("kustomization.yaml", "nodefeaturerule.yaml"):  # the latter: kubernetes_code.py
            text = subprocess.run([program, file], capture_output=True, text=True, check=True).stdout
            counts.judge(f"{file.name}: strict decoding", text.endswith(" <nil>\n"), text)
    admission(counts, program, exe, nodes)
    facts = {n: attributes(json.loads(run(exe, "export", "ndjson", "--root", p)[1])) for n, p in nodes.items()}
    # NVIDIA's driver publishes the memory of each GPU; where the files do not tell it, nothing can stand for that.
    lines = [json.dumps({"terms": terms, "labels": labels, **facts[node],
                         "cel": cel if "memory" in facts[node] or "device.capacity" not in (cel or "") else None})
             for _, node, terms, labels, cel in asked]
    answers = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True,
                             check=True).stdout.splitlines()
    selected = 0
    for (name, node, terms, labels, _), line in zip(asked, answers, strict=True):
        affinity, cel = line.split("|")
        mine = admits(terms, labels)
        counts.judge(f"{name} on {node}: affinity", affinity == str(mine).lower(), f"{line}, not {mine}")
        if cel != "-":
            selected += 1
            counts.judge(f"{name} on {node}: CEL", cel == str(mine).lower(), f"{line}, not {mine}")
    counts.judge("CEL was asked", selected > 100, selected)


def require(counts, folder, required, lines):
    """NVIDIA_REQUIRE_CUDA by the container toolkit, and by libnvidia-container."""
    programs = [build(folder, Path(option(name)).resolve()) for name, build in (
        ("--toolkit", require_cuda.toolkit), ("--dsl", require_cuda.libnvidia_container)) if option(name)]
    facts = {n: line["facts"] or {} for n, line in lines.items()}
    require_cuda.judge(counts, programs, [(f"{name} on {n}", text, facts[n].get("driver"), facts[n].get("compute_capabilities"), answer)
                                          for name, n, answer, text in required])


def slurm(counts, exe, asked, nodes, folder):
    """Each pair by Slurm: it admits what Kubernetes' labels admit. One slurmctld has all nodes."""
    if missing := slurm_match.missing():
        print(f"SKIP slurm: {missing}")
        return
    folder.mkdir()
    lines = {n: [run(exe, "export", f, "--root", p)[1].strip() for f in ("slurm-features", "slurm-extra")]
             for n, p in nodes.items()}
    matcher = slurm_match.Matcher(folder, lines)
    features = "\n".join(x[0] for x in lines.values())
    has_extra = slurm_match.version() >= (23, 11)
    n_constraint = n_extra = 0
    try:
        for name, (env, terms, extra, more) in asked.items():
            status, text, err = run(exe, "needs", "/opt/venv", "--root", env, *more, "--as", "slurm", "--features", features)
            wanted = {n: admits(terms[n][0], terms[n][1]) for n in nodes}
            counts.judge(f"{name}: a constraint", (status == 0) == any(wanted.values()), f"{status} {err} {wanted}")
            fit = matcher.fit("--constraint=" + text.strip()) if text else dict.fromkeys(nodes, False)
            for node, got in fit.items():
                counts.judge(f"{name} on {node}: --constraint", got == wanted[node], f"{got}, not {wanted[node]}: {text}")
                n_constraint += 1
            if has_extra:
                placed = matcher.placed("--extra=" + extra.strip())
                counts.judge(f"{name}: --extra", placed == {n for n in nodes if wanted[n]}, f"{sorted(placed)}: {extra}")
                n_extra += len(nodes)
    finally:
        matcher.end()
    print(f"Slurm {slurm_match.version()}: {n_constraint} pairs for --constraint, {n_extra} for --extra")


def snapshots(counts, exe, folder, env, nodes, answers):
    """A node's snapshot answers as its files do."""
    for answer, (node, path) in zip(answers, nodes.items()):
        file = folder / f"{node}.json"
        file.write_text(run(exe, "snapshot", "--root", path)[1])
        _, out, err = run(exe, "needs", "/opt/venv", "--root", env, "--on", file, "--json")
        got = json.loads(out)["nodes"][0] if out else {"answer": err, "cause": None}
        same = (got["answer"], got["cause"]) == (answer["answer"], answer["cause"])
        counts.judge(f"a snapshot of {node}", same or got["answer"] == "unknown", f"{got}, not {answer}")


def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def unknowns(counts, exe, folder):
    """What stays unknown of ctranslate2's build for CUDA, with cuBLAS and where it is missing."""
    library = "libctranslate2-01234567.so.4"
    for name, has_cublas in (("with cuBLAS", True), ("without cuBLAS", False)):
        env = folder / "unknowns" / name
        tree = Tree(env).python().ctranslate2("4.5.0")
        tree.put(f"{tree.site}/ctranslate2.libs/{library}", cuda_library(library, CU121))
        if has_cublas:
            tree.system_cublas()
        needs = json.loads(run(exe, "needs", "/opt/venv", "--root", env, "--json")[1])["needs"]
        said = " ".join(needs["unknown"])
        counts.judge(f"{name}: the driver", bool(needs["driver"]) == has_cublas and
                     ("which driver it needs" in said) != has_cublas, needs)
        counts.judge(f"{name}: its code", needs["compute_capabilities"] and "code for" not in said, needs)
    os.mkfifo(folder / "fifo")
    status, out, _ = run(exe, "needs", "/bin/true", "--on", folder / "fifo")
    counts.judge("a FIFO without a writer", status == 3 and "cannot be read" in out, out)
    made_by_nvcc = folder / "unknowns/made-by-nvcc"
    made_by_nvcc.write_bytes(cuda_program(("sm_86", "compute_86:8.4")))
    made_by_nvcc.chmod(0o755)
    needs = json.loads(run(exe, "needs", made_by_nvcc, "--json")[1])["needs"]
    counts.judge("a program's own code", [(r["from"], r["to"]) for r in needs["compute_capabilities"]][0] ==
                 ("8.6", "8.6"), needs)


# For these environments; the memory of what they name lies between that of the machines' GPUs.
MODELS = {"cu124": ("whisper:large-v3", None), "rocm-all": ("whisper:large-v3", None), "cu121": ("medium", "float32")}


def most_memory(exe, node):
    """Of the GPUs that `choose` sees; None: of one of them it is unknown, or there is none."""
    out = run(exe, "choose", "--root", node, "--json")[1]
    if not out:  # nothing of the machine can be seen
        return None
    doc = json.loads(out)
    gpus = [c for c in doc["candidates"] if c["device"] in ("cuda", "rocm")]
    bytes_ = [c["available_bytes"] for c in gpus]
    if len({c["name"] for c in gpus}) > 1:
        return "several kinds"
    return max(bytes_) if bytes_ and None not in bytes_ and 0 not in bytes_ else None


def memory(counts, exe, name, env, nodes, labels, plain, asked, for_slurm):
    """--model: where the environment runs, the GPU's memory decides, and the expression excludes what is too small."""
    model, compute = MODELS[name]
    words = ["needs", "/opt/venv", "--root", env, "--model", model, *(["--compute", compute] if compute else [])]
    doc = json.loads(run(exe, *words, "--json", *[w for n in nodes.values() for w in ("--on", n)])[1])
    need, terms = doc["needs"]["memory"], yaml.safe_load(doc["expressions"]["nfd"])
    counts.judge(f"{name}: {model}", need["model"] == model and need["bytes"] and (not compute or need["compute"] == compute),
                 need)
    seen = set()
    for answer, before, (node, path) in zip(doc["nodes"], plain, nodes.items(), strict=True):
        has, wanted = most_memory(exe, path), (before["answer"], before["cause"])
        if has == "several kinds":  # of which the build may serve one
            counts.judge(f"{name} with {model} on {node}: the expression", answer["answer"] != "runs" or
                         admits(terms, labels[node]), answer)
            continue
        if wanted[0] == "runs":
            wanted = ("unknown", None) if has is None else wanted if has >= need["bytes"] else ("does-not-run", "too-small")
        seen.add(wanted)
        counts.judge(f"{name} with {model} on {node}", (answer["answer"], answer["cause"]) == wanted, f"{answer}, not {wanted}")
        admitted = admits(terms, labels[node])
        if answer["answer"] == "runs" or PREFIX + "memory-open" not in labels[node]:
            counts.judge(f"{name} with {model} on {node}: the expression", answer["answer"] == "unknown" or
                         wanted[1] not in (None, "too-small") or admitted == (wanted[0] == "runs"), f"{wanted}, {admitted}")
        asked.append((name, node, terms, labels[node], doc["expressions"]["cel"]))
    for_slurm[f"{name} with {model}"] = env, {n: (terms, labels[n]) for n in nodes}, doc["expressions"]["slurm-extra"], words[4:]
    return seen


def main():
    exe, counts, asked, answers, for_slurm = Path(sys.argv[1]).resolve(), Counts(), [], {}, {}
    few, wheels, required = "--few" in sys.argv, [], []
    program = option("--evaluate") and Path(option("--evaluate")).resolve()
    with tempfile.TemporaryDirectory(prefix="gpumend-needs.") as folder:
        nodes = {}
        for name, (_, machine) in sorted(MACHINES.items())[::6 if few else 1]:
            nodes[name] = Path(folder) / "nodes" / name
            write(machine, nodes[name])
        labels = {name: labels_of(exe, node) for name, node in nodes.items()}
        if len(nodes) < (10 if few else 40) or len(ENVIRONMENTS) < 12:
            counts.judge("the matrix", False, "is too small")
        for name, make in list(ENVIRONMENTS.items())[::2 if few else 1]:
            env = Path(folder) / "envs" / name
            tree = Tree(env).python()
            for library in ("libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"):
                tree.lib(SYSTEM + "/" + library)
            make(tree)
            words = ["needs", "/opt/venv", "--root", env]
            status, out, err = run(exe, *words, "--json", *[w for n in nodes.values() for w in ("--on", n)])
            if not out:
                counts.judge(name, False, f"status {status}: {err}")
                continue
            doc = json.loads(out)
            text = run(exe, *words, "--as", "nfd")[1]
            counts.judge(f"{name}: one expression", text == doc["expressions"]["nfd"], text)
            if "--print" in sys.argv:
                print(name, json.dumps(doc["needs"]), text, doc["expressions"]["cel"], doc["expressions"]["require-cuda"])
            terms = yaml.safe_load(text)
            for answer, (node, path) in zip(doc["nodes"], nodes.items()):
                pair(counts, f"{name} on {node}", answer, check_of(exe, env, path), admits(terms, labels[node]),
                     {PREFIX + "nvidia-open", PREFIX + "amd-open"} & set(labels[node]))
                asked.append((name, node, terms, labels[node], doc["expressions"]["cel"]))
            answers[env] = doc["nodes"]
            required += [(name, node, answer, doc["expressions"]["require-cuda"]) for answer, node in zip(doc["nodes"], nodes)]
            wheels += [(name, node, answer, doc["expressions"]["wheel-variant"]) for answer, node in zip(doc["nodes"], nodes)]
            for_slurm[name] = env, {n: (terms, labels[n]) for n in nodes}, doc["expressions"]["slurm-extra"], []
        seen = set()
        for env, plain in list(answers.items()):
            if env.name in MODELS:
                seen |= memory(counts, exe, env.name, env, nodes, labels, plain, asked, for_slurm)
        lines = {n: json.loads(run(exe, "export", "ndjson", "--root", path)[1]) for n, path in nodes.items()}
        variants(counts, wheels, {n: reported(line, option("--provider")) for n, line in lines.items()}, labels)
        counts.judge("memory decides", {("runs", None), ("does-not-run", "too-small")} <= seen or few, seen)
        unknowns(counts, exe, Path(folder))
        require(counts, Path(folder), required, lines)
        if "--slurm" in sys.argv:
            slurm(counts, exe, for_slurm, nodes, Path(folder) / "slurm")
        if program:
            evaluate(counts, program, exe, asked, nodes)
            env = Path(folder) / "envs/cu124"
            snapshots(counts, exe, Path(folder), env, nodes, answers[env])
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
