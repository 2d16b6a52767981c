"""What really happens: run inside an environment, by the environment's own interpreter.

    python truth.py REPORT STEP...        STEP: `import NAME` or `use NAME`, in this order

`import` is a real import. `use` makes the calls that the package's first work on a GPU makes, as
far as they go without one: what is tested is which file every library request ends at, and that
the libraries accept one another. A request that only a GPU would reach is made by the real dlopen
under the name of the library that makes it (see dlopen_as).

REPORT receives one JSON line a step: {"step", "outcome": "worked|failed|aborted", "text", "maps"},
with the files of the GPU families mapped after it, in the order of their appearance. An abort()
inside a library is recorded and ends the run with status 134, as it would end the program; after
a failure that a program can catch the next step follows.
"""

import ctypes
import json
import mmap
import os
import re
import sys

FAMILY = re.compile(r"^lib(cudnn|cublas|nvrtc|cudart|torch|c10|ctranslate2|cufft|curand|cusparse"
                    r"|cusolver|nccl|nvJitLink|nvToolsExt|cupti|nvshmem|cufile|onnxruntime)")


def mapped(pattern=FAMILY):
    """Files whose name fits, from /proc/self/maps, each once."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            path = fields[5] if len(fields) > 5 else ""
            if pattern.match(os.path.basename(path)) and path not in found:
                found.append(path)
    return found


def only(pattern):
    found = mapped(re.compile(pattern))
    if not found:
        raise RuntimeError("no library %s is mapped" % pattern)
    return found[0]


# ---- dlopen in the name of another library -----------------------------------------------------
#
# glibc takes the caller of dlopen from the return address. So dlopen is entered with the address
# of a `ret` instruction inside the library that shall be the caller; that `ret` leads back here.
#
#     lea  rax, [rip+4] ; push rax          where the `ret` in the library returns to
#     push rdx                              the `ret` in the library, where dlopen returns to
#     jmp  rcx                              dlopen(rdi, esi)
#     ret
TRAMPOLINE = bytes.fromhex("488d0504000000" "50" "52" "ffe1" "c3")


def ret_instruction(path):
    """Address of a byte 0xc3 in the executable mapping of the file."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) > 5 and fields[5] == path and "x" in fields[1]:
                start, end = (int(x, 16) for x in fields[0].split("-"))
                at = ctypes.string_at(start, min(end - start, 1 << 20)).find(b"\xc3")
                if at >= 0:
                    return start + at
    raise RuntimeError("%s has no executable mapping" % path)


def dlopen_as(caller, name, flags):
    """dlopen(name, flags) called by the mapped file caller; raise OSError with dlerror's text."""
    libc = ctypes.CDLL(None)
    dlopen, dlerror = libc.dlopen, libc.dlerror      # found now: a later search clears the error
    dlerror.restype = ctypes.c_char_p
    code = mmap.mmap(-1, len(TRAMPOLINE), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(TRAMPOLINE)
    entry = ctypes.addressof(ctypes.c_char.from_buffer(code))
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p,
                            ctypes.c_void_p)(entry)
    dlopen_as.kept.append(code)
    handle = call(name.encode(), flags, ret_instruction(caller),
                  ctypes.cast(dlopen, ctypes.c_void_p))
    if not handle:
        raise OSError((dlerror() or b"dlopen said nothing").decode(errors="replace"))
    return handle


dlopen_as.kept = []


# ---- first use ---------------------------------------------------------------------------------

def convolve(shim):
    """The calls a convolution begins with: they load _graph, _ops and _cnn through the shim."""
    cudnn = ctypes.CDLL(shim)
    created = ctypes.c_void_p()
    for name in ("cudnnCreateTensorDescriptor", "cudnnCreateFilterDescriptor",
                 "cudnnCreateConvolutionDescriptor"):
        status = getattr(cudnn, name)(ctypes.byref(created))
        if status != 0:
            raise RuntimeError("%s: status %d" % (name, status))
    for name in ("cudnnGraphVersionCheck", "cudnnOpsVersionCheck", "cudnnCnnVersionCheck"):
        status = getattr(cudnn, name)()
        if status != 0:
            raise RuntimeError("%s: status %d" % (name, status))


def use_ctranslate2():
    """A Whisper encoder: a convolution, then a matrix product (cuBLAS opened by its soname)."""
    library = only(r"^libctranslate2")
    vendored = [p for p in mapped(re.compile(r"^libcudnn")) if "/ctranslate2.libs/" in p]
    if vendored:
        convolve(vendored[0])
    with open(library, "rb") as file:
        content = file.read()
    for name in sorted(set(re.findall(rb"libcublas\.so\.\d+", content))):
        dlopen_as(library, name.decode(), os.RTLD_LAZY)


def use_torch():
    convolve(only(r"^libcudnn\.so"))


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def message(*fields):
    """Protocol buffer text: (field number, int | bytes | str)."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def identity_model():
    """An ONNX model of one Identity node, float[1] in and out (onnx.proto: ModelProto)."""
    shape = message((1, message((1, 1))))
    tensor = message((1, message((1, 1), (2, shape))))
    graph = message((1, message((1, "x"), (2, "y"), (4, "Identity"))), (2, "g"),
                    (11, message((1, "x"), (2, tensor))), (12, message((1, "y"), (2, tensor))))
    return message((1, 8), (7, graph), (8, message((2, 13))))


def use_onnxruntime():
    """A session that asks for CUDA: onnxruntime only logs it when it falls back to the CPU."""
    import onnxruntime
    first, second = os.pipe()
    saved = os.dup(2)
    os.dup2(second, 2)
    try:
        onnxruntime.InferenceSession(
            identity_model(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    finally:
        os.dup2(saved, 2)
        os.close(second)
    os.set_blocking(first, False)
    try:
        said = os.read(first, 65536).decode(errors="replace")
    except BlockingIOError:
        said = ""
    refused = re.search(r"Failed to load library .*", said)
    if refused:
        raise RuntimeError(refused.group(0).strip())


USES = {"ctranslate2": use_ctranslate2, "torch": use_torch, "onnxruntime": use_onnxruntime}


# ---- the run -----------------------------------------------------------------------------------

class Report:
    pattern = FAMILY        # of the files that are listed

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8", errors="surrogateescape")
        self.step = None

    def write(self, outcome, text=""):
        line = {"step": self.step, "outcome": outcome, "text": text,
                "maps": mapped(self.pattern)}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def main(report_path, steps):
    report = Report(report_path)

    def on_abort(_signal):
        report.write("aborted")
        os._exit(134)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(on_abort)
    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    libc.signal(6, handler)
    status = 0
    for step in steps:
        report.step = step
        verb, name = step.split()
        try:
            __import__(name) if verb == "import" else USES[name]()
            report.write("worked")
        except Exception as error:     # whatever a package throws is the answer
            report.write("failed", "%s: %s" % (type(error).__name__, error))
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
