"""The stages of AMD's runtime against fake libraries: every stage, every outcome, and its words.

The fakes (fake/*.c) are built into a folder and linked by a program, which is the TARGET; a table
says how they misbehave (fake/table.h), a preloaded library stands for /dev/kfd (fake/kfd.c). Each
case below is a table, the stages that are asked for, and what must come out for one of them.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

from lab import HERE, case_faults, differences, stage

sys.path.insert(0, str(HERE.parent / "scenarios"))
import store  # noqa: E402

FAKE = Path(__file__).resolve().parent / "fake"
CC = ["cc", "-O1", "-fPIC", "-shared", "-D_GNU_SOURCE", "-w", f"-I{FAKE}"]
HSA, HIP, RTC, BLAS, OPEN = ("libhsa-runtime64.so.1", "libamdhip64.so.6", "libhiprtc.so.6",
                             "libhipblas.so.2", "libMIOpen.so.1")
# name: (source, what it is linked against)
LIBRARIES = {HSA: ("hsa-runtime64.c", ()), HIP: ("amdhip64.c", (HSA,)), RTC: ("hiprtc.c", ()),
             BLAS: ("hipblas.c", (HIP,)), OPEN: ("MIOpen.c", (HIP,))}
# Programs with other copies of a library: {name of the variant: {library: (new name, options)}}
VARIANTS = {
    "plain": {},
    "rocm7": {BLAS: ("libhipblas.so.3", ("-DROCM_7",))},
    "rocm5": {BLAS: ("libhipblas.so.0", ("-DROCM_5",))},
    "no-hsa-init": {HSA: (HSA, ("-DWITHOUT_hsa_init",))},
    "undefined": {RTC: (RTC, ("-DUNDEFINED",))},
}


def build(folder):
    """Each variant is a folder of libraries with a program that is linked against them."""
    run = lambda *words: subprocess.run(words, check=True)
    run(*CC, str(FAKE / "kfd.c"), "-o", str(folder / "kfd.so"), "-ldl")
    for variant, changes in VARIANTS.items():
        place, built = folder / variant, {}
        place.mkdir()
        for library, (source, needs) in LIBRARIES.items():
            name, options = changes.get(library, (library, ()))
            undefined = ["-Wl,-z,lazy", "-DUNDEFINED"] if "-DUNDEFINED" in options else []
            run(*CC, *options, *undefined, str(FAKE / source), "-o", str(place / name),
                f"-Wl,-soname,{name}", *(str(place / built[n]) for n in needs),
                "-Wl,--allow-shlib-undefined", "-Wl,-rpath,$ORIGIN")
            built[library] = name
        (place / "main.c").write_text("int main(void) { return 0; }\n")
        run("cc", str(place / "main.c"), "-o", str(place / "program"), "-Wl,--no-as-needed",
            "-Wl,--unresolved-symbols=ignore-all", *(str(place / n) for n in built.values()),
            "-Wl,-rpath,$ORIGIN")


class Probe:
    """One case. `stage` is the one that is judged; it is asked for unless `ask` says otherwise."""

    def __init__(self, name, stage, table, outcome, says, **more):
        self.name, self.stage, self.table = name, stage, table
        self.outcome, self.says = outcome, says
        self.more = more


P, F, C, T, N, U = "passed", "failed", "crashed", "timed-out", "not-run", "unknown"
QUICK = ["kfd", "hsa", "hip-init", "hip-device", "hip-memory", "hiprtc-kernel"]
GEMMS = ["hipblas-float32", "hipblas-float16", "hipblas-bfloat16", "hipblas-int8"]
ALL = [*QUICK, *GEMMS, "miopen-convolution"]
CRASHES = (("abort", r"signal 6 \(Aborted\)"), ("segfault", r"signal 11 \(Segmentation fault\)"))


def crashes(stage, function):
    """A crash and a hang are told with the call they happened in."""
    for behaviour, signal in CRASHES:
        yield Probe(f"{stage} {behaviour}", stage, f"{function} {behaviour}", C,
                    f"{signal} in {function}$", last_call=function)
    yield Probe(f"{stage} hang", stage, f"{function} hang", T, function, last_call=function,
                options=["--timeout", "0.5"])


CASES = [
    # ---------------------------------------------------------------- the kernel's driver
    Probe("kfd opens", "kfd", "", P, r"/dev/kfd opens.*1\.18", facts={"kfd.version": "1.18"}),
    Probe("kfd is not there", "kfd", "kfd-open return 2", F, "it does not exist.*amdgpu.*--device",
          code=2, code_name="ENOENT", verdict="no-driver", facts={"absent": "/dev/kfd"}),
    Probe("kfd without a driver", "kfd", "kfd-open return 6", F, "amdgpu is not loaded",
          code_name="ENXIO", verdict="no-driver"),
    Probe("kfd by its mode", "kfd", "kfd-open return 13\nkfd-mode value 660", F,
          "may not open /dev/kfd although" if os.getuid() == 0 else r"group 105.*--group-add 105",
          code=13, code_name="EACCES", verdict="broken"),
    Probe("kfd by the device cgroup", "kfd", "kfd-open return 1\nkfd-mode value 666", F,
          "although its mode 666 and its group 105 would allow it.*device rules forbid", code=1, code_name="EPERM"),
    Probe("kfd has no GPU", "kfd", "kfd-open return 12", F, "no GPU for compute.*does not support",
          code_name="ENOMEM"),
    Probe("kfd in a reset", "kfd", "kfd-open return 11", F, "busy, not broken", code_name="EAGAIN",
          verdict="busy"),
    Probe("kfd with another error", "kfd", "kfd-open return 5", F, "Input/output error", code=5),
    Probe("kfd does not answer", "kfd", "kfd-ioctl return 22", F, "Invalid argument", code=22),
    Probe("kfd of another interface", "kfd", "kfd-version value 2.0", F, "uses version 2.*need 1"),
    Probe("kfd hangs", "kfd", "kfd-open hang", T, "open", last_call="open",
          options=["--timeout", "0.5"]),
    # ---------------------------------------------------------------- HSA
    Probe("hsa lists", "hsa", "", P, "lists 1 GPU, the first is gfx1100",
          facts={"count": "1", "device.0.gfx": "gfx1100", "device.0.pci": "0000:03:00.0",
                 "device.0.name": "AMD Radeon RX 7900 XTX", "hsa.version": "1.14"}),
    Probe("hsa lists two", "hsa", "hsa_iterate_agents value 2", P, "lists 2 GPUs"),
    Probe("hsa gets nothing", "hsa", "hsa_init return 0x1008", F,
          "hsa_init failed: HSA_STATUS_ERROR_OUT_OF_RESOURCES .4104.*/dev/kfd", code=0x1008,
          code_name="HSA_STATUS_ERROR_OUT_OF_RESOURCES"),
    Probe("hsa fails", "hsa", "hsa_init return 0x1000", F, "hsa_init failed.*HSA_STATUS_ERROR .4096",
          code=0x1000, code_name="HSA_STATUS_ERROR"),
    Probe("hsa without a GPU", "hsa", "hsa_iterate_agents value 0", F,
          "lists no GPU.*render node"),
    Probe("hsa in the middle", "hsa", "hsa_agent_get_info#2 return 0x1004", F,
          "hsa_agent_get_info failed", code=0x1004, code_name="HSA_STATUS_ERROR_INVALID_AGENT"),
    Probe("hsa without its function", "hsa", "", F, "no function hsa_init", variant="no-hsa-init"),
    Probe("hsa not run", "hsa", "kfd-open return 13", N, "kfd", because="kfd"),
    Probe("hsa is slow", "hsa", "hsa_init slow 400", P, "gfx1100", ms_min=300),
    Probe("hsa is slower than allowed", "hsa", "hsa_init slow 3000", T, "hsa_init",
          options=["--timeout", "0.5"]),
    *crashes("hsa", "hsa_init"),
    # ---------------------------------------------------------------- HIP
    Probe("hip starts", "hip-init", "", P, "counts 1 device", facts={"hip.version": "6.4.43484"}),
    Probe("hip sees none", "hip-init", "hipInit return 100", F,
          "hipInit failed: hipErrorNoDevice .100.*HIP_VISIBLE_DEVICES", code=100,
          code_name="hipErrorNoDevice"),
    Probe("hip counts none", "hip-init", "devices value 0", F, "hipErrorNoDevice", code=100),
    Probe("hip counts none and says success", "hip-init", "hipGetDeviceCount return 0", F,
          "hipErrorNoDevice", code=100),
    Probe("hip and an old driver", "hip-init", "hipInit return 35", F, "hipInit failed.*35", code=35),
    Probe("hip and variables that hide", "hip-init", "hsa_iterate_agents value 2", P, "counts 1",
          env={"ROCR_VISIBLE_DEVICES": "0"},
          findings=["The driver has 2 GPUs, but programs see 1 here: ROCR_VISIBLE_DEVICES=0 hides"]),
    Probe("hip and variables that hide all", "hip-init", "hipInit return 100", F, "hipErrorNoDevice",
          env={"HIP_VISIBLE_DEVICES": "-1"},
          findings=["The driver has 1 GPU, but programs see 0 here: HIP_VISIBLE_DEVICES=-1 hides"]),
    Probe("hip not run", "hip-init", "hsa_init return 0x1000", N, "hsa", because="hsa"),
    *crashes("hip-init", "hipInit"),
    Probe("hip's device", "hip-device", "", P, "RX 7900 XTX at 0000:03:00.0 with 24576 MiB",
          facts={"pci": "0000:03:00.0", "multiprocessors": "48",
                 "memory.free.mib": str(23 << 10)}),
    Probe("hip's second device", "hip-device", "devices value 2", P, "0000:04:00.0", device=1),
    Probe("only the second device", "hip-device", "devices value 2", P, "0000:04:00.0", device=1,
          options=["--device", "1"], devices=[1]),
    Probe("a device that is not there", "hip-device", "devices value 2", U, "no GPU 5",
          device=5, options=["--device", "5"]),
    Probe("hip's device fails", "hip-device", "hipSetDevice return 101", F, "hipSetDevice failed",
          code=101, code_name="hipErrorUnknown"),
    Probe("hip's device is empty", "hip-device", "hipDeviceGetAttribute value 0", F,
          "0 multiprocessors"),
    *crashes("hip-device", "hipSetDevice"),
    Probe("hip's memory", "hip-memory", "", P, "came back unchanged"),
    Probe("hip's memory is taken", "hip-memory", "hipMalloc return 2\nhipMemGetInfo value 9000000", F,
          "busy, not broken", code=2, code_name="hipErrorOutOfMemory", verdict="busy"),
    Probe("hip refuses free memory", "hip-memory", "hipMalloc return 2", F, "^hipMalloc failed", code=2,
          verdict="broken"),
    Probe("hip does not say what is free", "hip-memory", "hipMalloc return 2\nhipMemGetInfo@hip-memory return 2", U,
          "out of memory .2.*is unknown", verdict="cannot-tell"),
    Probe("hip's memory is wrong", "hip-memory", "hipMemcpy#2 wrong", F, "came back changed: word"),
    Probe("hip's memory is wrong on its way there", "hip-memory", "hipMemcpy#1 wrong", F,
          "came back changed: word"),
    Probe("hip's copy fails", "hip-memory", "hipMemcpy return 1", F, "hipMemcpy failed", code=1),
    *crashes("hip-memory", "hipMemcpy"),
    # ---------------------------------------------------------------- a kernel
    Probe("a kernel", "hiprtc-kernel", "", P, "compiled for gfx1100 ran.*10000 sums are correct",
          facts={"gfx": "gfx1100"}),
    Probe("a target that the compiler lacks", "hiprtc-kernel", "hiprtcCompileProgram return 6", F,
          "does not compile a kernel for gfx1100: error: unknown target CPU 'gfx1100'.*"
          "HIPRTC_ERROR_COMPILATION", code=6),
    Probe("code for another target", "hiprtc-kernel", "hiprtcCompileProgram value gfx906", F,
          "hipModuleLoadData failed.*209", code=209),
    Probe("a kernel that computes wrong", "hiprtc-kernel", "hipModuleLaunchKernel wrong", F,
          "computed a wrong result: sum 5000 is 20002, not 20001"),
    Probe("a kernel that does not write", "hiprtc-kernel", "hipModuleLaunchKernel return 0", F,
          "computed a wrong result: sum 0"),
    Probe("a kernel that fails later", "hiprtc-kernel", "hipDeviceSynchronize return 719", F,
          "hipDeviceSynchronize failed", code=719),
    Probe("a GPU that HSA does not list", "hiprtc-kernel",
          "hipDeviceGetPCIBusId value 0000:41:00.0", U, "gfx target is unknown"),
    Probe("a bus that is none", "hiprtc-kernel", "hipDeviceGetPCIBusId value garbage", U,
          "gfx target is unknown"),
    Probe("a compiler without code", "hiprtc-kernel", "hiprtcGetCodeSize value 0", F, "0 bytes"),
    Probe("a compiler that does not open", "hiprtc-kernel", "", F, "undefined symbol: gone",
          variant="undefined"),
    Probe("the kernel not run", "hiprtc-kernel", "hipMalloc return 2", N, "hip-memory",
          because="hip-memory"),
    *crashes("hiprtc-kernel", "hiprtcCompileProgram"),
    *crashes("hiprtc-kernel", "hipModuleLaunchKernel"),
    # ---------------------------------------------------------------- hipBLAS
    *(Probe(f"{s} is right", s, "", P, s.split("-")[1] + " is correct",
            facts={"function": "hipblasGemmEx_v2"}, error_max=1) for s in GEMMS),
    *(Probe(f"{s} is wrong", s, "hipblasGemmEx_v2 wrong", F,
            "reports success for a product in " + s.split("-")[1] + ", but the result is wrong: 1 of")
      for s in GEMMS),
    *(Probe(f"{s} transposed is wrong", s, "hipblasGemmEx_v2#2 wrong", F, "but the result is wrong")
      for s in GEMMS),
    *(Probe(f"{s} writes nothing", s, "hipblasGemmEx_v2 return 0", F, "but the result is wrong")
      for s in GEMMS),
    Probe("an enumeration taken for another", "hipblas-float16", "types wrong", F,
          "result is wrong.*types 2 and 2 and compute type 2 were requested from hipblasGemmEx_v2"),
    Probe("and the others are right then", "hipblas-bfloat16", "types wrong", P, "is correct"),
    Probe("a type that the GPU lacks", "hipblas-int8", "hipblasGemmEx_v2 return 7", F,
          "not broken: use another type.*HIPBLAS_STATUS_NOT_SUPPORTED", code=7),
    Probe("an enumeration that is refused", "hipblas-float16", "hipblasGemmEx_v2 return 10", F,
          "HIPBLAS_STATUS_INVALID_ENUM.*different releases", code=10),
    Probe("rocBLAS has no kernels", "hipblas-float32", "hipblasCreate abort", C,
          r"signal 6 \(Aborted\) in hipblasCreate", last_call="hipblasCreate"),
    Probe("hipblas hang", "hipblas-float32", "hipblasGemmEx_v2 hang", T, "hipblasGemmEx_v2",
          options=["--timeout", "0.5"]),
    Probe("memory for hipBLAS is taken", "hipblas-float32",
          "hipMalloc#2 return 2\nhipMemGetInfo value 9000000", F, "busy, not broken", verdict="busy"),
    *(Probe(f"{s} of ROCm 7", s, "hipRuntimeGetVersion value 70151831", P, "is correct",
            variant="rocm7", facts={"function": "hipblasGemmEx"}) for s in GEMMS),
    Probe("ROCm 7's product is wrong", "hipblas-float32",
          "hipRuntimeGetVersion value 70151831\nhipblasGemmEx wrong", F, "from hipblasGemmEx",
          variant="rocm7"),
    Probe("hipBLAS of before ROCm 6", "hipblas-float32", "hipRuntimeGetVersion value 50731921", U,
          r"no hipblasGemmEx_v2.*runtime is 5\.7.*is not called", variant="rocm5"),
    # ---------------------------------------------------------------- MIOpen
    Probe("miopen is right", "miopen-convolution", "", P, "is correct", error_max=1,
          facts={"miopen.version": "3.4.0"}),
    Probe("miopen is wrong", "miopen-convolution", "miopenConvolutionForward wrong", F,
          "reports success for a convolution, but the result is wrong: 1 of"),
    Probe("miopen writes nothing", "miopen-convolution", "miopenConvolutionForward return 0", F,
          "but the result is wrong"),
    Probe("miopen finds nothing", "miopen-convolution",
          "miopenFindConvolutionForwardAlgorithm value 0", F, "finds no algorithm"),
    Probe("miopen does not compile", "miopen-convolution",
          "miopenFindConvolutionForwardAlgorithm return 7", F,
          "failed: miopenStatusUnknownError .7.*did not compile", code=7),
    Probe("miopen without a workspace", "miopen-convolution",
          "miopenConvolutionForwardGetWorkSpaceSize value 0", P, "is correct"),
    *crashes("miopen-convolution", "miopenConvolutionForward"),
    # ---------------------------------------------------------------- all
    *(Probe(f"{s} with garbage on its outputs", s,
            "\n".join(f"{f} garbage" for f in ("hsa_init", "hipInit", "hipMalloc",
                                               "hiprtcCompileProgram", "hipblasCreate",
                                               "miopenCreate", "kfd-open")), P, ".", ask=ALL)
      for s in ALL),
]


def probe(exe, folder, case):
    table = folder / "table"
    table.write_text(case.table + "\n")
    program = folder / case.more.get("variant", "plain") / "program"
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "FAKE_GPU_TABLE": str(table),
           "LD_PRELOAD": str(folder / "kfd.so"), "TMPDIR": str(folder), **case.more.get("env", {})}
    ask = case.more.get("ask", [case.stage])
    done = subprocess.run([exe, "probe", str(program), "--json", "--stage", ",".join(ask),
                           *case.more.get("options", ())], env=env, capture_output=True,
                          text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    if not done.stdout:
        raise ValueError(f"status {done.returncode}: {done.stderr.strip()}")
    return done.returncode, json.loads(done.stdout)


def faults(case, status, document):
    more = case.more
    device = more.get("device", 0)
    found = [s for s in document["stages"] if s["name"] == case.stage
             and s["device"] in (None, device)]
    if len(found) != 1:
        yield f"the stage is there {len(found)} times"
        return
    stage = found[0]
    yield from case_faults(case, stage, document)
    if "error_max" in more and not 0 <= float(stage["facts"]["error.of.tolerance"]) <= 1:
        yield f"error {stage['facts']['error.of.tolerance']}"
    if case.outcome == P and stage["name"] != "kfd" and "library" not in stage["facts"]:
        yield "the library's path is not among the facts"
    if "devices" in more:
        devices = sorted({s["device"] for s in document["stages"] if s["device"] is not None})
        if devices != more["devices"]:
            yield f"devices {devices}"
    for text in more.get("findings", ()):
        if not any(f["says"].startswith(text) for f in document["findings"]):
            yield f"findings {[f['says'] for f in document['findings']]}"
    yield from sum_faults(case, status, document)


def sum_faults(case, status, document):
    """The first failure is the first, and the status agrees with the verdict."""
    bad = [s["name"] for s in document["stages"] if s["outcome"] in (F, C, T)]
    if document["first_failure"] != (bad[0] if bad else None):
        yield f"first failure {document['first_failure']}, failed {bad}"
    if (status == 0) != (document["verdict"] == "works"):
        yield f"status {status} with verdict {document['verdict']}"
    if case.outcome == P and not bad and document["verdict"] != "works":
        yield f"all passed, and the verdict is {document['verdict']}"


def run(lab, folder, case):
    with lab.lock:
        if not folder.exists():
            folder.mkdir()
            build(folder)
    try:
        yield from faults(case, *probe(lab.exe, folder, case))
    except (ValueError, subprocess.TimeoutExpired) as error:
        yield str(error)


REAL = ("libhsa-runtime64.so.1", "libamdhip64.so.5")


def real(lab):
    """Real libraries of ROCm 5.2 answer as they do where there is no GPU."""
    place = store.cache_folder() / "rocm-5.2.3"
    if not all((place / name).exists() for name in REAL):
        yield ("SKIP amd: no ROCm in the store: libamdhip64-5, libhsa-runtime64-1 and what they "
               f"need, of Debian 12, unpacked into {place}")
        return
    folder = lab.folder / "amd-real"
    folder.mkdir()
    subprocess.run([*CC, str(FAKE / "kfd.c"), "-o", str(folder / "kfd.so"), "-ldl"], check=True)
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", str(folder / "main.c"), "-o", str(folder / "program"),
                    "-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all",
                    *(str(place / n) for n in REAL), f"-Wl,-rpath,{place}"], check=True)
    env = lab.environment([place], "", LD_PRELOAD=str(folder / "kfd.so"))
    answer = lab.probe(env, str(folder / "program"), "--stage", "hip-init")
    yield from differences(stage(answer.document, "hsa"), outcome="failed", code=0x1008,
                           code_name="HSA_STATUS_ERROR_OUT_OF_RESOURCES", last_call="hsa_init",
                           says="/dev/kfd")
    yield from differences(stage(answer.document, "hip-init"), outcome="not-run", because="hsa")


def cases(lab):
    for case in CASES:
        yield case.name, functools.partial(run, lab, lab.folder / "amd", case)
    yield "real libraries without a GPU", functools.partial(real, lab)
