"""Cases of torch on Intel's GPUs: its builds for them (XPU), for the CPU and for other vendors.

The libraries of oneAPI come as wheels, which put them into lib below the prefix of the environment,
where torch's RPATH leads. See cases.py.
"""

from cases import case
from gpucode import RTX3060
from tree import MACHINES

ARC = MACHINES["arc-a770"][1]
UHD = MACHINES["intel-laptop"][1]
VERSION = "cuda: Optional[str] = %s\nhip: Optional[str] = None\nxpu: Optional[str] = %s\n"
SYCL = ("libsycl.so.8", "libur_loader.so.0", "libur_adapter_level_zero.so.0", "libumf.so.0")


def torch(t, machine, version, cuda="None", xpu="None", **spec):
    t.python().machine(machine).torch(version, **spec)
    t.put(t.site + "/torch/version.py", VERSION % (cuda, xpu))


def xpu_torch(t, machine, sycl="libsycl.so.8"):
    torch(t, machine, "2.9.0+xpu", xpu="'20250201'", needed=["libtorch_xpu.so"],
          rpath="$ORIGIN/lib")
    t.lib(t.site + "/torch/lib/libtorch_xpu.so", rpath="$ORIGIN/../../../..:$ORIGIN",
          needed=[sycl, "libur_loader.so.0"])
    t.dist("torch", "2.9.0+xpu", ["torch/lib/libtorch_xpu.so"],
           requires=["intel-sycl-rt==2025.2.1", "intel-cmplr-lib-ur==2025.2.1"])


def oneapi(t, *names):
    needed = {"libsycl.so.8": ["libur_loader.so.0"],
              "libur_adapter_level_zero.so.0": ["libumf.so.0"]}
    for name in names:
        t.lib(t.prefix + "/lib/" + name, needed=needed.get(name, []), rpath="$ORIGIN/../lib")
    umf = ["umf"] if "libumf.so.0" in names else []
    for package, start in (("intel-sycl-rt", "libsycl"), ("intel-cmplr-lib-ur", "libur_")):
        t.dist(package, "2025.2.1", ["../../../lib/" + n for n in names if n.startswith(start)],
               requires=umf if start == "libur_" else [])
    for package in umf:
        t.dist(package, "0.11.0", ["../../../lib/libumf.so.0"])


@case("build-without-gpu", "cpu-only-build", "torch", severity="warning",
      repair="--torch-backend=xpu torch=='2.9.*'")
def cpu_torch_beside_arc(t, bad):
    """The twin has older integrated graphics, for which PyTorch has no build."""
    torch(t, ARC if bad else UHD, "2.9.1+cpu")


@case("build-for-other-vendor", "cpu-only-build", "torch", severity="warning",
      repair="--torch-backend=xpu")
def cuda_torch_beside_arc(t, bad):
    torch(t, ARC if bad else RTX3060, "2.9.1", cuda="'12.8'")


@case("build-for-other-vendor", "cpu-only-build", "torch", severity="warning",
      repair="torch>=")
def xpu_torch_beside_nvidia(t, bad):
    xpu_torch(t, RTX3060 if bad else ARC)
    oneapi(t, *SYCL)


@case("library-missing", "lib-missing", "libsycl.so.8", evidence="libur_loader.so.0",
      repair=r"pip install intel-sycl-rt==2025.2.1 intel-cmplr-lib-ur==2025.2.1$")
def xpu_torch_without_sycl(t, bad):
    """In the versions that torch declares; the twin has the wheels."""
    xpu_torch(t, ARC)
    if not bad:
        oneapi(t, *SYCL)


@case("library-missing", "lib-missing", "libsycl.so.9", repair="intel-sycl-rt>=2026")
def xpu_torch_with_older_sycl(t, bad):
    """oneAPI 2026 has another SONAME than 2025: what torch declares here cannot bring it."""
    xpu_torch(t, ARC, "libsycl.so.9" if bad else "libsycl.so.8")
    oneapi(t, *SYCL)


@case("library-missing", "lib-missing", "libumf.so.0", evidence="every use of an Intel GPU",
      repair="pip install 'umf<1'")
def xpu_torch_without_umf(t, bad):
    """The adapter that finds Intel's GPUs is opened at the first use, and does not load."""
    xpu_torch(t, ARC)
    oneapi(t, *SYCL[:-1], *(() if bad else SYCL[-1:]))
