"""Whether an answer is right.

Class: it is right when it is the row's cause or one of also_acceptable. A row whose cause is
not-gpu-runtime wants exactly that; of a healthy log (kind) "cannot tell" is right too, and a
`cannot-tell` row wants no cause and no class. An answer that names no class is told apart from a
wrong one everywhere.

Culprit: right when it shares one telling word with the row's culprit. Words are compared without
case, with a library's name reduced to what it is called everywhere (libcudnn_ops_infer.so.8,
cudnn_ops_infer64_8.dll: cudnn_ops_infer; nvidia-cublas-cu12: cublas), the nodes of one driver in
/dev to their common part, and with the names of one thing taken for one (SAME). A cuDNN sub-library
counts as cuDNN. Words that stand in half of all culprits (STOP) tell nothing, except where both are
about a GPU from their first word on.
"""
import collections
import re

from corpus import CANNOT_TELL, NOT_GPU

Score = collections.namedtuple("Score", "cause culprit")  # True, False; cause: None: no answer

STOP = set("""
    a an and are at be beside by for from in is it its not of on one or other out over than that the
    then to two under was were with without
    amd available build built copy cuda damaged device devices env error file files found gpu gpus
    in-use installed intel issue libraries library linux loaded log machine missing name named names
    needed needs newer nvidia old older package packages process program release releases running
    runtime same set system that their this too used user users version versions wanted wants wheel
    windows wrong
""".split())
SAME = {
    "nvidia-container-runtime": "container-toolkit", "nvidia-docker2": "container-toolkit",
    "nvidia-container-toolkit": "container-toolkit", "nvidia-docker": "container-toolkit",
    "nvidia-fabricmanager": "fabric", "fabricmanager": "fabric", "nv-fabricmanager": "fabric",
    "nvidia_uvm": "uvm", "nvidia-uvm": "uvm", "nvidia-uvm-tools": "uvm",
    "/dev/nvidia-uvm": "uvm", "nvidia.ko": "module",
    "vram": "memory", "oom": "memory", "exclusive_process": "exclusive",
    "exclusive_thread": "exclusive", "e.process": "exclusive", "nvcuda": "cuda-driver",
    "libcuda": "cuda-driver", "drivers": "driver", "modules": "module", "permissions": "permission",
    "stubs": "stub", "shadows": "shadow", "kernels": "kernel", "labels": "label",
    "arguments": "argument", "capabilities": "capability",
}
WORD = re.compile(r"[\w./+@=~:-]+")
LIBRARY = re.compile(r"^(?:.*/)?lib([\w+-]+?)(?:-[0-9a-f]{8})?\.so(?:\.[\w.]+)?$")
MODULE = re.compile(r"^(?:.*/)?([\w-]+?)\.cpython-[\w-]+\.so$")
DLL = re.compile(r"^(?:.*[/\\])?([\w+-]+?)(?:64)?(?:_\d+)*(?:_[a-z]\d+)?\.dll$")
WHEEL = re.compile(r"^nvidia[-_](\w+?)[-_]cu\d+")


def reduced(word):
    word = word.lower().strip(".:,=-~")
    found = LIBRARY.match(word) or MODULE.match(word) or DLL.match(word) or WHEEL.match(word)
    if found:
        word = found.group(1)
        return SAME.get("lib" + word, SAME.get(word, word))
    word = re.sub(r"^(/dev/(?:nvidia|dri))(?:ctl|\d+|/.*)?$", r"\1", word)
    return SAME.get(word, re.sub(r"^lib(?=\w{3})", "", word))


def parts_of(raw):
    """A word and what it is made of: NAME=VALUE, a/b, and the package that a file belongs to."""
    yield raw
    yield from re.split(r"[=@:]+", raw)
    if not raw.startswith("/"):
        yield from raw.split("/")
    elif "-packages/" in raw:
        yield raw.split("-packages/")[1].split("/")[0]


def words(text):
    """The telling words of a culprit."""
    every = [reduced(part) for raw in WORD.findall(text or "") for part in parts_of(raw)]
    every = [word for word in every if word]
    return {word for word in every if word not in STOP} | set(every[:1]) & {"gpu"}


def same_word(a, b):
    """Equal, or a cuDNN sub-library and cuDNN."""
    return a == b or (a.startswith("cudnn") and b.startswith("cudnn") and "cudnn" in (a, b))


def culprit_right(wanted, got):
    return any(same_word(a, b) for a in words(wanted) for b in words(got))


def class_right(row, got):
    """Whether the class `got` (None: cannot tell) is right; None: it is no answer."""
    if row["cause"] == CANNOT_TELL:
        return got is None
    if row.get("kind") == "healthy":
        return got in (None, NOT_GPU)
    if got is None:
        return None
    return got == row["cause"] or got in row["also_acceptable"]


def has_cause(row):
    return row["cause"] not in (NOT_GPU, CANNOT_TELL)


def score(row, answer):
    right = class_right(row, answer["class"])
    return Score(right, bool(has_cause(row) and culprit_right(row["culprit"], answer["culprit"])))
