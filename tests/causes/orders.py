"""Orders of imports and of first uses: what a program may choose, and what holds for each choice.

Importing torch maps libcudnn.so.9 alone; its sub-libraries come when torch uses cuDNN, which a
program may never do. What is said of a list of imports must hold for every order of uses.
"""

import json

import imports
from live import answer, expect, run
from tree import TAG, Tree

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
def a_use_between_imports_counts(exe, folder, show):
    """What torch's import brings comes too late for a use before it, and no order of uses shows it."""
    tree = Tree(folder / "root").python()
    tree.ctranslate2("4.8.5")
    tree.torch(needed=["libcublas.so.12"], runpath="$ORIGIN/../nvidia/cublas/lib")
    tree.pip_cublas()
    args = ["check", "--root", str(tree.top), tree.prefix, "--import", "ctranslate2,torch"]
    yield from expect(exe, args, 1, "before they import the next", show=show)
    document = check(exe, tree, "--import", "ctranslate2,torch")[1]
    seen = {s for f in document["findings"] if f["severity"] == "error" for s in f["scripts"]}
    if seen != {"import ctranslate2, use ctranslate2, import torch"}:
        yield "seen in %s" % seen


@answer
def parts_of_an_application_in_any_order(exe, folder, show):
    """whisperx uses torch first with one of its options, and ctranslate2 first with another."""
    tree = both(folder)
    for name, version in (("whisperx", "3.8.6"), ("faster_whisper", "1.2.1")):
        tree.put(tree.site + "/%s/__init__.py" % name, "")
        tree.dist(name.replace("_", "-"), version, [])
    status, document = check(exe, tree, "--import", "whisperx")
    first = {next(s for s in p["script"] if s.startswith("use ")) for p in document["processes"]}
    if not {"use torch in whisperx.alignment", "use torch in whisperx.asr",
            "use ctranslate2 in whisperx.asr"} <= first:
        yield "used first: %s" % sorted(first)
    said = [e for f in document["findings"] if f["severity"] == "error" for e in f["evidence"]]
    if show:
        print("\n".join(said))
    if status != 1 or not any("used first" in e and "use torch in whisperx" in e for e in said):
        yield "status %d, not said that the order of uses decides: %s" % (status, said)


def whisperx(folder):
    tree = both(folder)
    for name, version in (("whisperx", "3.8.6"), ("faster_whisper", "1.2.1")):
        tree.put(tree.site + "/%s/__init__.py" % name, "")
        tree.dist(name.replace("_", "-"), version, [])
    return tree


@answer
def modules_of_an_application_in_any_order(exe, folder, show):
    """whisperx imports its modules at their first use: after load_align_model() torch has been used
    before ctranslate2 is imported, after load_model() both are imported before either is used."""
    tree = whisperx(folder)
    seen = set()
    for process in check(exe, tree, "--import", "whisperx")[1]["processes"]:
        names = [o["path"].rsplit("/", 1)[1] for o in process["objects"]]
        if "libcudnn_graph.so.9" in names and "libctranslate2-01234567.so.4" in names:
            seen.add((process["script"][1], names.index("libcudnn_graph.so.9") <
                      names.index("libctranslate2-01234567.so.4")))
    if show:
        print(seen)
    for want in (("use torch in whisperx.alignment", True), ("use torch in whisperx.asr", False)):
        if want not in seen:
            yield "not modelled: %s, %s" % want


@answer
def parts_in_a_list_of_imports(exe, folder, show):
    """A list of imports does not keep the parts of an application in the order of its row."""
    tree = whisperx(folder)
    scripts = [p["script"] for p in check(exe, tree, "--import", "torch,whisperx")[1]["processes"]]
    if show:
        print("\n".join(map(str, scripts)))
    for first in ("torch in whisperx.alignment", "ctranslate2 in whisperx.asr", "torch"):
        if not any(uses_of(s)[:1] == [first] for s in scripts):
            yield "never first: %s" % first


def uses_of(script):
    return [s[4:] for s in script if s.startswith("use ")]


@answer
def too_many_orders_are_not_ok(exe, folder, show):
    """Where more orders differ than are modelled, and none of those fails, nothing is called ok."""
    tree = Tree(folder / "root")
    imports.cupy(tree, "13.6.0")
    folders = imports.toolkit(tree)
    tree.pip_cudnn()
    own = {name: "$ORIGIN" + "/.." * up + "/%s/own" % name for name, up in
           (("torch", 1), ("ctranslate2", 1), ("onnxruntime", 2), ("cupy", 4))}
    tree.torch(**{**CUDNN, "needed": ["libcudnn.so.9", "libcublas.so.12"],
                  "runpath": own["torch"] + ":$ORIGIN/../nvidia/cudnn/lib"})
    tree.ctranslate2("4.8.5", rpath=own["ctranslate2"])
    tree.onnxruntime(rpath=own["onnxruntime"])
    tree.lib(tree.site + "/cupy_backends/cuda/libs/cublas.%s.so" % TAG, soname=None,
             needed=["libcublas.so.12"], rpath=own["cupy"])
    tree.cudart()
    for name in own:  # each finds a cuBLAS of its own, and all of them serve
        for library in ("libcublas.so.12", "libcublasLt.so.12"):
            tree.lib("%s/%s/own/%s" % (tree.site, name, library))
    for name, version in (("whisperx", "3.8.6"), ("faster_whisper", "1.2.1"), ("av", "15.1.0"),
                          ("tokenizers", "0.22.1"), ("transformers", "4.57.6")):
        tree.put(tree.site + "/%s/__init__.py" % name, "")
        tree.dist(name.replace("_", "-"), version, [])
    args = ["--import", "onnxruntime,cupy,whisperx", "--env",
            "LD_LIBRARY_PATH=" + ":".join([tree.cudnn, *folders.values()])]
    status, document = check(exe, tree, *args)
    if show:
        print(status, len(document["processes"]), document["notes"])
        print([f["summary"] for f in document["findings"]])
    if (status, document["verdict"]) != (3, "unknown"):
        yield "status %d, %s, %d orders" % (status, document["verdict"],
                                            len(document["processes"]))
    if not any("more orders" in n for n in document["notes"]):
        yield "not said why: %s" % document["notes"]


def interleavings(names):
    """Every order of imports and uses with the imports in this order."""
    if not names:
        return [[]]
    out = []
    for rest in interleavings(names[1:]):
        for at in range(len(rest) + 1):
            out.append(["import " + names[0], *rest[:at], "use " + names[0], *rest[at:]])
    return out


@answer
def orders_that_differ_are_all(exe, folder, show):
    """Where each use loads another file of the same name, every order of the uses is modelled."""
    tree = both(folder)
    scripts = [p["script"] for p in check(exe, tree, "--import", "torch,ctranslate2")[1]["processes"]]
    want = [s for s in interleavings(["torch", "ctranslate2"]) if s[1].startswith("import ")]
    if show:
        print(scripts)
    yield from ("not modelled: %s" % s for s in want if s not in scripts)


@answer
def orders_that_come_to_the_same_are_one(exe, folder, show):
    """Where all find the same files by themselves, a few orders stand for the 105 of four packages."""
    tree = four(folder)
    tree.system_cublas()
    names = ["torch", "ctranslate2", "onnxruntime", "cupy"]
    document = check(exe, tree, "--import", ",".join(names), "--env",
                     "LD_LIBRARY_PATH=" + tree.cudnn)[1]
    scripts = [p["script"] for p in document["processes"]]
    if show:
        print(scripts)
    if not 1 <= len(scripts) <= 10 or any(s not in interleavings(names) for s in scripts):
        yield "%d orders: %s" % (len(scripts), scripts)


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
