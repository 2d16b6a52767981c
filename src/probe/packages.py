"""Uses a package on the GPU: python -c THIS MODULE DEVICE named|found

Imports the package, computes something on the device with its own functions, and compares that with
what its own code for the CPU computes. What came of it is said on descriptor 3 as by the probe
helper (inject/probe/helper.h): call NAME, fact KEY VALUE, passed TEXT, failed CODE NAME TEXT,
unknown TEXT, skipped TEXT. Standard output and error belong to the package. Nothing is written to a disk.
"""

import sys

if sys.path and not sys.path[0]:
    del sys.path[0]  # the working folder, whose modules are not the environment's

import json
import os
import re


def escaped(text):
    data = " ".join(str(text).split()).encode("utf-8", "replace")[:1000]
    return b"".join(b"%%%02X" % c if c <= 32 or c in (37, 127) else bytes((c,)) for c in data)


def say(*words):
    os.write(3, b" ".join([words[0].encode()] + [escaped(w) for w in words[1:]]) + b"\n")


def call(name, function, *args, **named):
    say("call", name)
    return function(*args, **named)


class Failed(Exception):
    """What is wrong, in one sentence."""


class Unknown(Exception):
    """Why it cannot be determined."""


class ForCpu(Failed):
    """The distribution is the one for the CPU by its name: a failure where the package is asked for
    by name; nothing to try where it was only found, for applications require it (faster-whisper)."""


def is_about_driver(error, text):
    """Whether the driver is missing and nothing else is seen to be. A package that is not there, or
    a library of its own, is missing with a driver, too."""
    missing = re.search(r"([^\s:]+): cannot open shared object", text)
    if isinstance(error, ImportError) and not missing:
        return False
    if missing and "libcuda.so" not in missing.group(1):
        return False
    try:
        import ctypes
        ctypes.CDLL("libcuda.so.1")
    except ImportError:
        return False
    except OSError:
        return not os.path.exists("/dev/kfd")
    return False


def check(what, worst, allowed):
    """worst: the largest difference, which is not below or above anything if it is not a number."""
    say("fact", "error.of.tolerance." + what, "%.3f" % (worst / allowed))
    if not worst <= allowed:
        raise Failed("%s on the GPU differs from the CPU by %.3g, where %.3g is allowed"
                     % (what, worst, allowed))


# ------------------------------------------------------------------ torch


def torch_compare(torch, what, function, inputs, device, dtype, allowed):
    on_cpu = function(*[x.double() for x in inputs])
    on_gpu = call("torch " + what, function, *[x.to(device=device, dtype=dtype) for x in inputs])
    difference = (on_gpu.to(device="cpu", dtype=torch.float64) - on_cpu).abs().max().item()
    check(what, difference, allowed * on_cpu.abs().max().item())


def use_torch(index):
    torch = call("import torch", __import__, "torch")
    say("fact", "version", torch.__version__)
    say("fact", "built.for", "CUDA %s" % torch.version.cuda if torch.version.cuda else
        "ROCm %s" % torch.version.hip if torch.version.hip else "CPU")
    if not torch.version.cuda and not torch.version.hip:
        raise Failed("torch %s is a build for the CPU and has no code for a GPU"
                     % torch.__version__)
    call("torch.cuda.init", torch.cuda.init)  # raises with the reason that is_available() hides
    count = call("torch.cuda.device_count", torch.cuda.device_count)
    if index >= count:
        raise Failed("torch counts %d GPUs, so there is no GPU %d" % (count, index))
    device = torch.device("cuda", index)
    name = call("torch.cuda.get_device_name", torch.cuda.get_device_name, device)
    generator = torch.Generator().manual_seed(1)

    def random(*shape):
        return torch.rand(*shape, generator=generator) - 0.5

    product = [random(64, 80), random(80, 48)]
    convolution = [random(1, 16, 60), random(24, 16, 3)]
    conv1d = torch.nn.functional.conv1d
    # float32 may be computed as tf32, which has 10 bits of fraction.
    for kind, allowed in (("float32", 0.01), ("float16", 0.02)):
        dtype = getattr(torch, kind)
        torch_compare(torch, "matmul in " + kind, torch.matmul, product, device, dtype, allowed)
        torch_compare(torch, "conv1d in " + kind, conv1d, convolution, device, dtype, allowed)
    return "torch %s multiplies and convolves on %s in float32 and float16" % (
        torch.__version__, name)


# ------------------------------------------------------------------ ctranslate2


def whisper_spec(ctranslate2, numpy):
    """A Whisper model with one layer of everything and random weights."""
    width, inner, words, features = 64, 128, 64, 80
    generator = numpy.random.RandomState(1)

    def random(*shape):
        return (generator.standard_normal(shape) / shape[-1] ** 0.5).astype(numpy.float32)

    def set_norm(layer):
        layer.gamma = numpy.ones(width, numpy.float32)
        layer.beta = numpy.zeros(width, numpy.float32)

    def set_linear(layer, outputs, inputs):
        layer.weight, layer.bias = random(outputs, inputs), random(outputs)

    def set_attention(layer, sizes):
        set_norm(layer.layer_norm)
        for linear, outputs in zip(layer.linear, sizes):
            set_linear(linear, outputs, width)

    def set_feed_forward(layer):
        set_norm(layer.layer_norm)
        set_linear(layer.linear_0, inner, width)
        set_linear(layer.linear_1, width, inner)

    spec = ctranslate2.specs.WhisperSpec(1, 1, 1, 1)
    encoder, decoder = spec.encoder, spec.decoder
    encoder.conv1.weight, encoder.conv1.bias = random(width, features, 3), random(width)
    encoder.conv2.weight, encoder.conv2.bias = random(width, width, 3), random(width)
    encoder.position_encodings.encodings = random(1500, width)
    decoder.position_encodings.encodings = random(448, width)
    decoder.embeddings.weight = random(words, width)
    decoder.projection.weight = decoder.embeddings.weight
    for part in encoder, decoder:
        set_norm(part.layer_norm)
        set_attention(part.layer[0].self_attention, (3 * width, width))
        set_feed_forward(part.layer[0].ffn)
    set_attention(decoder.layer[0].attention, (width, 2 * width, width))
    spec.register_vocabulary(["<|%d|>" % i for i in range(words - 4)] + [
        "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>", "<|nocaptions|>"])
    spec.config.suppress_ids = spec.config.suppress_ids_begin = []
    spec.config.lang_ids = spec.config.alignment_heads = []
    spec.validate()
    spec.optimize()
    return spec


def model_files(spec):
    """The model's files without a folder to write them to."""
    fd = os.memfd_create("gpumend-probe")
    spec._serialize("/proc/self/fd/%d" % fd)  # save() wants a folder
    with open(fd, "rb") as file:
        file.seek(0)
        data = file.read()
    return {"model.bin": data, "config.json": json.dumps(spec.config.to_dict()).encode(),
            "vocabulary.json": json.dumps(spec._vocabulary).encode()}


def use_ctranslate2(index):
    ctranslate2 = call("import ctranslate2", __import__, "ctranslate2")
    say("fact", "version", ctranslate2.__version__)
    types = call("ctranslate2.get_supported_compute_types",
                 ctranslate2.get_supported_compute_types, "cuda", index)
    say("fact", "compute.types", ",".join(sorted(types)))
    numpy = call("import numpy", __import__, "numpy")
    try:
        files = model_files(whisper_spec(ctranslate2, numpy))
    except (AttributeError, TypeError, ValueError, OSError) as error:
        raise Unknown("CTranslate2 %s builds no model to try it with: %s"
                      % (ctranslate2.__version__, error)) from error
    sound = numpy.random.RandomState(2).standard_normal((1, 80, 3000)).astype(numpy.float32)

    def encode(device, device_index, kind):
        model = ctranslate2.models.Whisper("gpumend-probe", device=device, files=files,
                                           device_index=device_index, compute_type=kind)
        return numpy.array(model.encode(ctranslate2.StorageView.from_array(sound), to_cpu=True),
                           dtype=numpy.float64)

    right = encode("cpu", 0, "float32")
    tried = []
    for kind, allowed in (("float32", 0.02), ("float16", 0.05), ("int8_float16", 0.1)):
        if kind in types:
            result = call("ctranslate2 Whisper.encode " + kind, encode, "cuda", index, kind)
            worst = float(numpy.abs(result - right).max())
            check("encode in " + kind, worst, allowed * float(numpy.abs(right).max()))
            tried.append(kind)
    return "CTranslate2 %s encodes with a small Whisper model on the GPU in %s" % (
        ctranslate2.__version__, ", ".join(tried))


# ------------------------------------------------------------------ onnxruntime


def field(number, value):
    """One field of a protocol buffer: a number, or bytes."""
    def varint(n):
        out = bytearray()
        while n > 127:
            out.append(n & 127 | 128)
            n >>= 7
        return bytes(out + bytes((n,)))
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_tensor(name, shape):
    dims = b"".join(field(1, field(1, n)) for n in shape)
    return field(1, name.encode()) + field(2, field(1, field(1, 1) + field(2, dims)))


def onnx_node(kind, inputs, output):
    return b"".join(field(1, name.encode()) for name in inputs) + field(
        2, output.encode()) + field(4, kind.encode())


def onnx_model(tensors):
    """MatMul and Conv, as the file of onnx.proto3 has them (ModelProto, IR version 8, opset 13)."""
    graph = field(1, onnx_node("MatMul", ("a", "b"), "c")) + field(
        1, onnx_node("Conv", ("x", "w"), "y")) + field(2, b"gpumend")
    graph += b"".join(field(11, onnx_tensor(n, s)) for n, s in tensors.items())
    graph += field(12, onnx_tensor("c", (64, 48))) + field(12, onnx_tensor("y", (1, 24, 1, 58)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


class Stderr:
    """What the library writes while it runs; shown afterwards all the same."""

    def __enter__(self):
        self.kept, self.file = os.dup(2), os.memfd_create("gpumend-probe")
        os.dup2(self.file, 2)
        return self

    def __exit__(self, *_):
        os.dup2(self.kept, 2)
        os.close(self.kept)
        self.text = os.pread(self.file, 65536, 0).decode("utf-8", "replace")
        os.write(2, self.text.encode("utf-8", "replace"))
        os.close(self.file)

    def reason(self):
        """The library's own sentence, without colours and the place in its source."""
        for line in self.text.splitlines():
            for mark in ("Failed to load library", "error:", "CUDA failure", "CUDA error"):
                at = line.find(mark)
                if at >= 0:
                    return line[at:].replace("\x1b[m", "").strip()
        return ""


# The distributions of the module "onnxruntime" that have such a provider (kb/imports.json).
GPU_DISTRIBUTIONS = ("onnxruntime-gpu", "onnxruntime-rocm", "onnxruntime-migraphx")
GPU_PROVIDERS = ("CUDAExecutionProvider", "ROCMExecutionProvider", "MIGraphXExecutionProvider")


def installed(names):
    """Those of the distributions that the interpreter sees."""
    from importlib import metadata
    found = []
    for name in names:
        try:
            found.append(metadata.distribution(name).metadata["Name"])
        except metadata.PackageNotFoundError:
            pass
    return found


def use_onnxruntime(index):
    runtime = call("import onnxruntime", __import__, "onnxruntime")
    say("fact", "version", runtime.__version__)
    numpy = call("import numpy", __import__, "numpy")
    available = runtime.get_available_providers()
    provider = next((p for p in GPU_PROVIDERS if p in available), None)
    if not provider and not installed(GPU_DISTRIBUTIONS):
        raise ForCpu("onnxruntime %s is the build for the CPU, and no build for a GPU is installed"
                     % runtime.__version__)
    if not provider:
        raise Failed("onnxruntime %s has no provider for a GPU, only %s: it is the build for the "
                     "CPU, or one lies over the other"
                     % (runtime.__version__, ", ".join(available)))
    shapes = {"a": (64, 80), "b": (80, 48), "x": (1, 16, 1, 60), "w": (24, 16, 1, 3)}
    model, generator = onnx_model(shapes), numpy.random.RandomState(1)
    inputs = {n: (generator.rand(*s) - 0.5).astype(numpy.float32) for n, s in shapes.items()}
    right = runtime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)
    with Stderr() as written:
        session = call("onnxruntime.InferenceSession", runtime.InferenceSession, model,
                       providers=[(provider, {"device_id": index})])
    used = session.get_providers()
    if not used or used[0] != provider:
        raise Failed("onnxruntime took %s in place of %s: %s" % (
            used[0] if used else "nothing", provider, written.reason() or "it gives no reason"))
    results = call("onnxruntime InferenceSession.run", session.run, None, inputs)
    for what, result, expected in zip(("MatMul", "Conv"), results, right):
        worst = float(numpy.abs(result - expected).max())
        check(what, worst, 0.01 * float(numpy.abs(expected).max()))
    return "onnxruntime %s multiplies and convolves with %s" % (runtime.__version__, provider)


# ------------------------------------------------------------------ the run

USES = {"torch": use_torch, "ctranslate2": use_ctranslate2, "onnxruntime": use_onnxruntime}


def main(module, device, asked):
    try:
        say("passed", USES[module](max(int(device), 0)))
    except Unknown as why:
        say("unknown", why)
    except ForCpu as why:
        if asked == "found":
            say("skipped", why)
        else:
            say("failed", "0", "", why)
    except BaseException as error:  # whatever a package throws is the answer
        text = "" if isinstance(error, Failed) else type(error).__name__ + ": "
        text += str(error) or "no words"
        if is_about_driver(error, text):
            say("fact", "absent", "driver")
            text += " (no library of a GPU driver opens here)"
        say("failed", "0", "", text)


main(*sys.argv[1:4])
sys.stdout.flush()
os._exit(0)  # what libraries do at exit is another question
