"""Captured trees for the tests of causes: a root file system with a Python environment in it.

The files have the names and the dynamic sections of real GPU packages and nothing else in them
(tests/differential/elfgen.py writes them); the dynamic loader is this machine's own. Nothing of a
tree is ever run.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/differential"))
sys.path.insert(0, str(TOP / "tests/trees"))
import elfgen  # noqa: E402
from build import Link  # noqa: E402
from machines import MACHINES  # noqa: E402,F401  (for the cases)

LOADER = "/lib64/ld-linux-x86-64.so.2"
MUSL_LOADER = "/lib/ld-musl-x86_64.so.1"
SYSTEM = "/lib/x86_64-linux-gnu"
TAG = "cpython-311-x86_64-linux-gnu"
SUBS = ("graph", "ops", "cnn", "adv", "heuristic", "engines_precompiled",
        "engines_runtime_compiled")
SHIM = "libcudnn-74a4c495.so.9.1.0"
ORT_NEEDS = ("libcublasLt.so.12", "libcublas.so.12", "libcurand.so.10", "libcufft.so.11",
             "libcudart.so.12", "libcudnn.so.9")


def elf(name=None, **spec):
    """The bytes of a library whose SONAME is `name`."""
    return elfgen.library({"soname": name, **spec})


def cudnn_library(name, version, **spec):
    """A cuDNN library that says its version as the real ones do: in an object of four bytes."""
    symbol = {"name": "cudnn_graph_version", "kind": "object"}
    raw = bytearray(elf(name, defs=[symbol, *spec.pop("defs", ())], **spec))
    at = raw.find(struct.pack("<QQ", elfgen.DATA_AT, 8))
    assert at > 0, "the symbol's value and size"
    struct.pack_into("<Q", raw, at + 8, 4)
    major, minor, patch = map(int, version.split("."))
    struct.pack_into("<I", raw, elfgen.DATA_AT, major << 16 | minor << 8 | patch)
    return bytes(raw)


def compiled(source, *options):
    """The bytes of a shared object made by cc, for what elfgen does not write."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "made.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", str(out),
                        *options], input=source.encode(), check=True)
        return out.read_bytes()


def dlopen_note(*entries):
    """Assembly in C for a .note.dlopen with these (priority, sonames)."""
    array = ",".join('{"feature":"f%d","priority":"%s","soname":[%s]}' % (
        i, priority, ",".join('"%s"' % n for n in names))
        for i, (priority, names) in enumerate(entries))
    text = "[" + array + "]"
    escaped = text.replace('"', '\\\\\\"')
    return ('__asm__(".section .note.dlopen,\\"a\\",@note\\n.balign 4\\n.long 4\\n'
            '.long %d\\n.long 0x407c0c0a\\n.asciz \\"FDO\\"\\n.asciz \\"%s\\"\\n.balign 4\\n'
            '.previous\\n");\nint here(void);\nint here(void) { return 1; }\n'
            % (len(text) + 1, escaped))


class Skip(Exception):
    """What a case needs is not here."""


def closed(mode):
    """A mode that keeps others out, and where the test is no root, who owns the file himself."""
    return mode if os.geteuid() == 0 else 0


class Tree:
    """A root folder. Paths given to its functions are absolute inside it."""

    def __init__(self, top, prefix="/opt/venv"):
        self.top = Path(top)
        self.prefix = prefix
        self.site = prefix + "/lib/python3.11/site-packages"
        self.cudnn = self.site + "/nvidia/cudnn/lib"
        self.cublas = self.site + "/nvidia/cublas/lib"
        self.top.mkdir(parents=True, exist_ok=self.top == Path("/"))
        self.files = {}  # of distributions: name -> [(path below site, size)]

    @staticmethod
    def of_3_15(path):
        return path.replace("3.11", "3.15").replace("311", "315")

    def to_python_3_15(self):
        """Gives the files of python() and of its packages the names that 3.15 looks for."""
        for at in sorted(self.top.rglob("*3*11*"), key=lambda path: -len(path.parts)):
            at.rename(at.with_name(self.of_3_15(at.name)))
        for link, target in (("/usr/bin/python3", "python3.15"),
                             (self.prefix + "/bin/python", "/usr/bin/python3.15")):
            self.real(link).unlink()
            self.link(link, target)
        self.put(self.prefix + "/pyvenv.cfg", "home = /usr/bin\nversion = 3.15.2\n")

    def real(self, path):
        return self.top / path.lstrip("/")

    def put(self, path, data):
        target = self.real(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        target.chmod(0o755)
        return path

    def lib(self, path, **spec):
        """A library whose SONAME is its file name unless the spec says otherwise."""
        name = spec.pop("soname", os.path.basename(path))
        return self.put(path, elf(name, **spec))

    def machine(self, machine):
        """A machine of tests/trees in this tree; its libraries, empty there, become real ones."""
        machine = dict(machine)
        nodes = machine.pop("nodes", None)
        if nodes is not None:
            self.put("/.gpumend-nodes", "".join(line + "\n" for line in nodes))
        links = {os.path.join(os.path.dirname(path), text): os.path.basename(path)
                 for path, text in machine.items() if isinstance(text, Link)}
        for path, text in machine.items():
            if text is None:
                self.real(path).mkdir(parents=True, exist_ok=True)
            elif isinstance(text, Link):
                self.link(path, text)
            elif ".so" in os.path.basename(path) and not path.endswith(".hsaco"):
                name = links.get(path, os.path.basename(path))
                self.lib(path, soname="libcuda.so.1" if name.startswith("libcuda.so") else name)
            else:
                self.put(path, text)
        return self

    def cudart(self, name="libcudart.so.12"):
        return self.lib(SYSTEM + "/" + name)

    def link(self, path, target):
        self.real(path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, self.real(path))

    def remove(self, path):
        self.real(path).unlink()

    def damage(self, path, kind):
        self.put(path, elfgen.damage(self.real(path).read_bytes(), kind))

    def loader(self):
        target = self.real(LOADER)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(LOADER), target)

    def python(self, interp=LOADER, **spec):
        """A virtual environment over /usr/bin/python3.11."""
        if interp == LOADER:
            self.loader()
        self.put("/usr/bin/python3.11", elf(None, interp=interp, **spec))
        self.link("/usr/bin/python3", "python3.11")
        self.put("/usr/lib/python3.11/os.py", "")
        self.put(self.prefix + "/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n"
                 "include-system-site-packages = false\n")
        self.link(self.prefix + "/bin/python", "/usr/bin/python3.11")
        self.real(self.site).mkdir(parents=True)
        self.dist("pip", "23.0.1", [])
        return self

    def dist(self, name, version, paths, requires=()):
        """dist-info whose RECORD lists paths below site-packages with their sizes."""
        folder = "%s/%s-%s.dist-info" % (self.site, name.replace("-", "_"), version)
        self.put(folder + "/METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: %s\n%s\n" % (
            name, version, "".join("Requires-Dist: %s\n" % r for r in requires)))
        rows = ["%s,,%d\n" % (p, self.real(self.site + "/" + p).stat().st_size) for p in paths]
        self.put(folder + "/RECORD", "".join(rows))

    # ---- packages

    def ctranslate2(self, version="4.8.5", ext=None, **spec):
        """ctranslate2; before 4.6.3 with the bundled main cuDNN library of 9.1.0."""
        bundled = version in ("4.5.0", "4.6.0", "4.6.2")
        needed = [SHIM] if bundled else []
        paths = ["ctranslate2.libs/libctranslate2-01234567.so.4",
                 "ctranslate2/_ext.%s.so" % TAG]
        self.lib(self.site + "/" + paths[0], needed=needed + list(spec.pop("needed", ())), **spec)
        self.lib(self.site + "/" + paths[1], soname=None,
                 **{"needed": ["libctranslate2-01234567.so.4"],
                    "rpath": "$ORIGIN/../ctranslate2.libs", **(ext or {})})
        if bundled:
            paths.append("ctranslate2.libs/" + SHIM)
            self.lib(self.site + "/" + paths[2])
        self.put(self.site + "/ctranslate2/__init__.py", "")
        self.dist("ctranslate2", version, paths)
        return self

    def torch(self, version="2.5.1", **ext):
        """torch, as a build for CUDA 12.4."""
        self.put(self.site + "/torch/version.py", "cuda: Optional[str] = '12.4'\n")
        self.put(self.site + "/torch/__init__.py", "")
        self.lib(self.site + "/torch/lib/libtorch_global_deps.so")
        self.lib(self.site + "/torch/_C.%s.so" % TAG, soname=None, **ext)
        self.dist("torch", version, ["torch/lib/libtorch_global_deps.so", "torch/_C.%s.so" % TAG])

    def torch_for(self, key, built_for, version="2.5.1", **ext):
        """torch, built for a release of CUDA ("cuda") or of ROCm ("hip")."""
        self.torch(version, **ext)
        other = "hip" if key == "cuda" else "cuda"
        self.put(self.site + "/torch/version.py", "%s: Optional[str] = '%s'\n"
                 "%s: Optional[str] = None\n" % (key, built_for, other))
        return self

    def onnxruntime(self, version="1.23.2", needed=ORT_NEEDS, **spec):
        capi = self.site + "/onnxruntime/capi/"
        self.put(self.site + "/onnxruntime/__init__.py", "")
        self.put(capi + "__init__.py", "")
        names = ["onnxruntime_pybind11_state.%s.so" % TAG, "libonnxruntime_providers_shared.so",
                 "libonnxruntime_providers_cuda.so"]
        self.lib(capi + names[0], soname=None)
        self.lib(capi + names[1])
        self.lib(capi + names[2], needed=list(needed), **spec)
        self.dist("onnxruntime-gpu", version, ["onnxruntime/capi/" + n for n in names])

    def pip_cublas(self, version="12.4.5.8"):
        names = ["libcublas.so.12", "libcublasLt.so.12"]
        for name in names:
            self.lib(self.cublas + "/" + name)
        self.dist("nvidia-cublas-cu12", version, ["nvidia/cublas/lib/" + n for n in names])

    def pip_cudnn(self, version="9.1.0.70", folder=None, package="nvidia-cudnn-cu12", **others):
        """A complete cuDNN; `others` maps a sub-library to another version of it."""
        folder = folder or self.cudnn
        plain = version.rsplit(".", 1)[0]
        names = []
        for sub in ("", *SUBS):
            name = "libcudnn%s.so.9" % ("_" + sub if sub else "")
            self.put(folder + "/" + name,
                     cudnn_library(name, others.get(sub, plain), runpath="$ORIGIN"))
            names.append("nvidia/cudnn/lib/" + name)
        if folder == self.cudnn:
            self.dist(package, version, names)

    def system_cublas(self):
        self.lib(SYSTEM + "/libcublas.so.12")
        self.lib(SYSTEM + "/libcublasLt.so.12")
