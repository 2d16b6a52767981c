"""Orders of imports and of first uses: what a program may choose, and what holds for each choice.

Importing torch maps libcudnn.so.9 alone; its sub-libraries come when torch uses cuDNN, which a
program may never do. What is said of a list of imports must hold for every order of uses.
"""

import itertools
import json

import imports
from live import answer, expect, run
from tree import Tree

CUDNN = {"needed": ["libcudnn.so.9"], "runpath": "$ORIGIN/../nvidia/cudnn/lib"}


def both(folder, **torch):
    """ctranslate2 4.6.0, whose cuDNN looks in no wheel, and a torch whose cuDNN does."""
    tree = Tree(folder / "root").python()
    tree.ctranslate2("4.6.0")
    tree.torch(**{**CUDNN, **torch})
    tree.pip_cudnn()
    tree.system_cublas()
    return tree


def check(exe, tree, *args):
    status, text, err = run(exe, ["check", "--root", str(tree.top), tree.prefix, "--json", *args])
    return status, json.loads(text)


def uses(process):
    return [s.split()[1] for s in process["script"] if s.startswith("use ")]


def repairs(document):
    return [r["text"] for f in document["findings"] for r in f["repairs"]]


@answer
def importing_torch_first_is_no_cure(exe, folder, show):
    """Imported first and never used, torch serves nobody: an error that names the order of uses."""
    tree = both(folder)
    args = ["check", "--root", str(tree.top), tree.prefix, "--import", "torch,ctranslate2"]
    yield from expect(exe, args, 1, "use ctranslate2 before torch", show=show)
    for import_order in ("torch,ctranslate2", "ctranslate2,torch"):
        status, document = check(exe, tree, "--import", import_order)
        causes = {f["cause"] for f in document["findings"] if f["severity"] == "error"}
        if status != 1 or causes != {"library-not-on-path"}:
            yield "--import %s: status %d, %s" % (import_order, status, causes)
        found = [f for f in document["findings"] if f["cause"] == "library-not-on-path"]
        if not any("use torch before ctranslate2" in e for f in found for e in f["evidence"]):
            yield "--import %s: not said that the order of uses decides" % import_order


@answer
def no_repair_trusts_in_a_use(exe, folder, show):
    """Neither check nor fix offers what only the use of another package would do."""
    tree = both(folder)
    documents = [check(exe, tree)[1]]
    status, text, _ = run(exe, ["fix", "--root", str(tree.top), tree.prefix, "--json"])
    plan = json.loads(text)
    said = repairs(documents[0]) + [s["text"] for w in plan["ways"] for s in w["steps"]]
    if show:
        print("\n".join(said))
    if not said:
        yield "nothing is offered"
    yield from ("offered: " + s for s in said if "import torch" in s)


@answer
def a_real_cure_is_offered(exe, folder, show):
    """Importing this torch maps cuBLAS itself, used or not: then ctranslate2 is served."""
    tree = Tree(folder / "root").python()
    tree.ctranslate2("4.8.5")
    tree.torch(needed=["libcublas.so.12"], runpath="$ORIGIN/../nvidia/cublas/lib")
    tree.pip_cublas()
    status, document = check(exe, tree)
    if status != 1 or not any("torch" in r and "serve" in r for r in repairs(document)):
        yield "status %d, repairs %s" % (status, repairs(document))
    args = ["check", "--root", str(tree.top), tree.prefix, "--import", "torch,ctranslate2"]
    yield from expect(exe, args, 0, "then use them", show=show, verdict="ok")


@answer
def every_order_holds_on_the_path(exe, folder, show):
    """With cuDNN on the path it works in every order, and that is what is said."""
    tree = both(folder)
    args = ["check", "--root", str(tree.top), tree.prefix, "--import", "torch,ctranslate2",
            "--env", "LD_LIBRARY_PATH=" + tree.cudnn]
    yield from expect(exe, args, 0, "use them in any order", show=show, verdict="ok")


def four(folder):
    tree = Tree(folder / "root")
    imports.cupy(tree, "13.6.0")
    imports.toolkit(tree)
    tree.ctranslate2("4.6.0")
    tree.torch(**CUDNN)
    tree.pip_cudnn()
    tree.onnxruntime()
    return tree


@answer
def orders_of_up_to_three_are_all(exe, folder, show):
    tree = four(folder)
    for names in (["torch"], ["torch", "ctranslate2"], ["torch", "ctranslate2", "onnxruntime"]):
        document = check(exe, tree, "--import", ",".join(names))[1]
        got = sorted(tuple(uses(p)) for p in document["processes"])
        if got != sorted(itertools.permutations(names)):
            yield "%s: %s" % (names, got)


@answer
def orders_of_more_are_bounded(exe, folder, show):
    """Of four: each is the first, and each comes before and after each other; 2n of them."""
    tree = four(folder)
    names = ["torch", "ctranslate2", "onnxruntime", "cupy"]
    document = check(exe, tree, "--import", ",".join(names))[1]
    got = [uses(p) for p in document["processes"]]
    if show:
        print(got)
    if len(got) != 8 or len({tuple(o) for o in got}) != 8 or got[0] != names:
        yield "orders: %s" % got
    if any(sorted(o) != sorted(names) for o in got) or {o[0] for o in got} != set(names):
        yield "each is not the first once: %s" % got
    pairs = {(a, b) for o in got for a, b in itertools.combinations(o, 2)}
    if pairs != set(itertools.permutations(names, 2)):
        yield "pairs in one order only: %s" % (set(itertools.permutations(names, 2)) - pairs)


@answer
def uses_that_are_the_same_count_once(exe, folder, show):
    """torchaudio uses what torch uses, and numpy nothing: there is one order only."""
    tree = both(folder)
    for name in ("torchaudio", "numpy"):
        tree.put(tree.site + "/%s/__init__.py" % name, "")
        tree.dist(name, "2.5.1", [])
    document = check(exe, tree, "--import", "numpy,torch,torchaudio")[1]
    if len(document["processes"]) != 1:
        yield "orders: %s" % [uses(p) for p in document["processes"]]
    document = check(exe, tree, "--import", "numpy,torchaudio,torch,ctranslate2")[1]
    got = sorted(tuple(uses(p)) for p in document["processes"])
    want = [("ctranslate2", "torchaudio"), ("numpy", "torchaudio", "torch", "ctranslate2")]
    if got != want:
        yield "orders: %s" % got
