"""The stages of NVIDIA's driver, NVML and the CPU."""

import functools
import json
import os
import subprocess
from pathlib import Path

from lab import PATIENCE, differences, stage

BEFORE_CONTEXT = ("driver-found", "driver-opens", "driver-symbols", "driver-version", "driver-init",
                  "device-count", "visible-devices")
PER_DEVICE = ("context", "attributes", "memory-free", "memory", "kernel")

# table, first failure, its outcome and code, name of the code, parts of its sentence, verdict
FAILURES = [
    ("cuInit return 999", "driver-init", "failed", 999, "CUDA_ERROR_UNKNOWN",
     ["cuInit failed", "nvidia_uvm"], "broken"),
    ("cuInit return 803", "driver-init", "failed", 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     ["cuInit failed"], "broken"),
    ("cuInit return 802", "driver-init", "failed", 802, "CUDA_ERROR_SYSTEM_NOT_READY",
     ["fabric manager"], "broken"),
    ("cuInit return 34", "driver-init", "failed", 34, "CUDA_ERROR_STUB_LIBRARY",
     ["stub library"], "broken"),
    ("cuInit return 77777", "driver-init", "failed", 77777, None, ["cuInit failed: error 77777"],
     "broken"),
    ("cuInit abort", "driver-init", "crashed", None, None, ["signal 6", "in cuInit"], "broken"),
    ("cuInit kill 9", "driver-init", "crashed", None, None, ["signal 9", "in cuInit"], "cannot-tell"),
    ("cuInit kill 15", "driver-init", "crashed", None, None, ["signal 15", "in cuInit"], "cannot-tell"),
    ("cuLaunchKernel kill 9", "kernel", "crashed", None, None, ["signal 9", "in cuLaunchKernel"], "cannot-tell"),
    ("cuInit segfault", "driver-init", "crashed", None, None, ["signal 11", "in cuInit"], "broken"),
    ("cuDriverGetVersion return 1", "driver-version", "failed", 1, "CUDA_ERROR_INVALID_VALUE",
     ["cuDriverGetVersion failed"], "broken"),
    ("cuDriverGetVersion value 0", "driver-version", "failed", None, None, ["CUDA 0.0"], "broken"),
    ("cards value 0", "driver-init", "failed", 100, "CUDA_ERROR_NO_DEVICE",
     ["the driver sees no GPU"], "broken"),
    ("cuDeviceGetCount value 0", "device-count", "failed", None, None, ["counts no GPU"], "broken"),
    ("cuDeviceGetCount abort", "device-count", "crashed", None, None, ["in cuDeviceGetCount"],
     "broken"),
    ("cuDevicePrimaryCtxRetain return 46", "context", "failed", 46, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     ["busy, not broken"], "busy"),
    ("attribute-20 value 2", "context", "failed", None, None, ["admits no program"], "busy"),
    ("cuDevicePrimaryCtxRetain return 2\ncuMemGetInfo_v2 value 3", "context", "failed", 2,
     "CUDA_ERROR_OUT_OF_MEMORY", ["cuDevicePrimaryCtxRetain", "busy, not broken"], "busy"),
    ("cuDevicePrimaryCtxRetain return 2", "context", "failed", 2, "CUDA_ERROR_OUT_OF_MEMORY",
     ["busy, not broken"], "busy"),
    ("cuInit return 804", "driver-init", "failed", 804,
     "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", ["forward compatibility"], "broken"),
    ("cuDevicePrimaryCtxRetain segfault", "context", "crashed", None, None,
     ["in cuDevicePrimaryCtxRetain"], "broken"),
    ("attribute-75 value 0", "attributes", "failed", None, None, ["compute capability 0.0"],
     "broken"),
    ("attribute-16 value 0", "attributes", "failed", None, None, ["0 multiprocessors"], "broken"),
    ("cuMemGetInfo_v2 value 9000", "memory-free", "failed", None, None, ["bytes are free"],
     "broken"),
    ("cuMemGetInfo_v2 return 214", "memory-free", "failed", 214, "CUDA_ERROR_ECC_UNCORRECTABLE",
     ["cuMemGetInfo_v2 failed"], "broken"),
    ("cuMemAlloc_v2 return 2\ncuMemGetInfo_v2 value 3", "memory", "failed", 2,
     "CUDA_ERROR_OUT_OF_MEMORY", ["busy, not broken", "memory"], "busy"),
    ("cuMemAlloc_v2 return 2", "memory", "failed", 2, "CUDA_ERROR_OUT_OF_MEMORY",
     ["cuMemAlloc_v2 failed"], "broken"),
    ("cuMemcpyDtoH_v2 wrong", "memory", "failed", None, None, ["and back, but word", "instead of"],
     "broken"),
    ("cuMemcpyHtoD_v2 abort", "memory", "crashed", None, None, ["in cuMemcpyHtoD_v2"], "broken"),
    ("cuModuleLoadData return 221", "kernel", "failed", 221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
     ["libnvidia-ptxjitcompiler"], "broken"),
    ("cuModuleLoadData return 222", "kernel", "failed", 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     ["cuModuleLoadData failed"], "broken"),
    ("cuLaunchKernel wrong", "kernel", "failed", None, None, ["the kernel ran", "instead of"],
     "broken"),
    ("cuLaunchKernel return 700", "kernel", "failed", 700, "CUDA_ERROR_ILLEGAL_ADDRESS",
     ["cuLaunchKernel failed"], "broken"),
    ("nvmlInit_v2 return 18", "nvml", "failed", 18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
     ["different versions"], "broken"),
    ("nvmlDeviceGetCount_v2 value 3", "nvml", "failed", None, None,
     ["NVML counts 3 GPUs and CUDA 1"], "broken"),
    ("nvmlDeviceGetName value NVIDIA Other", "nvml", "failed", None, None,
     ["differ in the name", "NVIDIA Other"], "broken"),
    ("nvmlDeviceGetMemoryInfo value 9999", "nvml", "failed", None, None,
     ["differ in the memory", "9999 MiB and 8000 MiB"], "broken"),
    ("nvmlDeviceGetHandleByPciBusId_v2 return 6", "nvml", "failed", 6, "NVML_ERROR_NOT_FOUND",
     ["does not find it"], "broken"),
    ("nvmlDeviceGetMigMode segfault", "nvml", "crashed", None, None, ["in nvmlDeviceGetMigMode"],
     "broken"),
]

HANGS = [("cuInit", "driver-init"), ("cuDriverGetVersion", "driver-version"),
         ("cuDeviceGetCount", "device-count"), ("cuDevicePrimaryCtxRetain", "context"),
         ("cuDeviceGetName", "device-count"), ("cuMemGetInfo_v2", "memory-free"),
         ("cuMemcpyDtoD_v2", "memory"), ("cuLaunchKernel", "kernel"), ("nvmlInit_v2", "nvml")]


def both(lab):
    return [lab.driver(), lab.nvml()]


def healthy(lab, answer, devices=1):
    if answer.document is None:
        yield f"status {answer.status}: {answer.errors}"
        return
    for name in (*BEFORE_CONTEXT, "nvml", "cpu"):
        yield from differences(stage(answer.document, name), outcome="passed", code=None)
    for device in range(devices):
        for name in PER_DEVICE:
            yield from differences(stage(answer.document, name, device), outcome="passed")
    if (answer.status, answer.document["verdict"], answer.document["first_failure"]) != \
            (0, "works", None):
        yield f"status {answer.status}, verdict {answer.document['verdict']}"


def works(lab):
    answer = lab.probe(lab.environment(both(lab)))
    yield from healthy(lab, answer)
    yield from differences(stage(answer.document, "driver-version"), says=["CUDA 12.8", "550.54.15"])
    yield from differences(stage(answer.document, "attributes"),
                           says="NVIDIA Fake 1, compute capability 9.0, 132 multiprocessors")
    if answer.document["findings"]:
        yield f"findings: {answer.document['findings']}"


def fails(lab, row):
    table, name, outcome, code, code_name, says, verdict = row
    answer = lab.probe(lab.environment(both(lab), table))
    if answer.document is None:
        yield f"status {answer.status}: {answer.errors}"
        return
    entry = stage(answer.document, name)
    yield from differences(entry, outcome=outcome, code=code, code_name=code_name, says=says)
    if answer.document["first_failure"] != name:
        yield f"the first failure is {answer.document['first_failure']}"
    if verdict and answer.document["verdict"] != verdict:
        yield f"the verdict is {answer.document['verdict']}"
    if answer.status != 1:
        yield f"status {answer.status}"
    yield from reasons(answer.document, name)
    page = lab.text(lab.environment(both(lab), table))
    joined = " ".join(page.out.split())
    for part in ("First failure:", *says):
        if part not in joined:
            yield f"the text does not say \"{part}\": {page.out[-600:]}"
    if "versions match" in joined:  # no kernel module is here to compare with
        yield f"it says that versions match: {page.out[-600:]}"


MEANS = [
    ("cuInit return 803", ["libcuda.so.1 does not match the version of the loaded kernel module", "search path"],
     "the GPU cannot be used until they match"),
    ("cuInit return 804", ["forward-compatibility library (package cuda-compat)", "LD_LIBRARY_PATH"],
     "Remove its folder from the search path"),
    ("cuInit return 34", ["a stub for linking"], "The driver and the GPU were not tested"),
    ("cuInit return 802", ["fabric manager"], "not ready yet"),
    ("cuInit return 805", ["MPS daemon"], "The driver and the GPU were not tested"),
    ("cuInit return 999", ["does not show whether the kernel module"], "dmesg"),
    ("cuInit return 77777", ["does not show whether the kernel module"], "dmesg"),
    ("cuInit abort", ["during cuInit", "is unknown"], "dmesg"),
    ("cuInit segfault", ["during cuInit", "is unknown"], "dmesg"),
    ("cuInit kill 9", ["Signal 9 (Killed) comes from another process, or from the kernel", "oom-kill"],
     "does not show that the driver or the GPU is at fault"),
]


def means(lab, row):
    """What follows from an end of cuInit is no more than what was seen, and is said once."""
    table, parts, last = row
    env = lab.environment(both(lab), table)
    answer = lab.probe(env, "--stage", "driver-init")
    text = stage(answer.document, "driver-init").get("means") or ""
    for part in (*parts, last):
        if part not in text:
            yield f"\"{part}\" is not in \"{text}\""
    page = " ".join(lab.text(env, "--stage", "driver-init").out.split())
    if page.count(text) != 1:
        yield f"said {page.count(text)} times: {page[-800:]}"
    says = stage(answer.document, "driver-init")["says"]
    if page.count(says) != 1:
        yield f"the failure is said {page.count(says)} times: {page[-800:]}"
    for wrong in ("kernel side refuses", "No package of the environment can repair that, and none",
                  "fits its kernel module"):
        if wrong in page:
            yield f"it says \"{wrong}\""


def short_of_memory(lab):
    """Before a context is made nothing shows whose memory is short."""
    answer = lab.probe(lab.environment(both(lab), "cuInit return 2"), "--stage", "context")
    yield from differences(stage(answer.document, "driver-init"), outcome="unknown",
                           says=["cuInit: out of memory (2)", "or the host's", "is unknown"])
    if (answer.status, answer.document["verdict"]) != (3, "cannot-tell"):
        yield f"status {answer.status}, verdict {answer.document['verdict']}"


def limited(lab):
    """A limit on addresses is known to be in the way: not broken, not busy."""
    env = lab.environment(both(lab), "cuDevicePrimaryCtxRetain return 2")
    done = subprocess.run(["/bin/sh", "-c", "ulimit -v 4000000; exec \"$0\" probe --stage context",
                           str(lab.exe)], env=env, capture_output=True, text=True, check=False)
    page = " ".join(done.stdout.split())
    if done.returncode != 3 or "ulimit -v" not in page or "busy" in page or "broken" in page:
        yield f"status {done.returncode}: {page[-600:]} {done.stderr[-300:]}"


def reasons(document, failed):
    """Every stage that was not run names a stage that did not pass."""
    outcomes = {}
    for entry in document["stages"]:
        outcomes.setdefault(entry["name"], set()).add(entry["outcome"])
        if entry["because"] and not outcomes.get(entry["because"], set()) & {
                "failed", "crashed", "timed-out", "unknown"}:
            yield f"{entry['name']} was not run because of {entry['because']}"
    if failed in BEFORE_CONTEXT[4:] and stage(document, "kernel").get("because") != failed:
        yield f"the kernel was not run because of {stage(document, 'kernel').get('because')}"


def hangs(lab, function, name):
    deadline = f"{0.3 * PATIENCE:g}"
    answer = lab.probe(lab.environment(both(lab), f"{function} hang"), "--timeout", deadline, "--stage", name)
    entry = stage(answer.document, name)
    yield from differences(entry, outcome="timed-out", last_call=function,
                           says=[f"no answer within {deadline} s", f"in {function}"])
    if (answer.status, answer.document["verdict"]) != (1, "cannot-tell"):
        yield f"status {answer.status}, verdict {answer.document['verdict']}"
    if not 300 * PATIENCE <= (entry.get("ms") or 0) < 3000 * PATIENCE:
        yield f"it took {entry.get('ms')} ms"


def is_slow(lab):
    answer = lab.probe(lab.environment(both(lab), "cuInit slow 400"), "--stage", "driver-init",
                       "--timeout", "5")
    entry = stage(answer.document, "driver-init")
    yield from differences(entry, outcome="passed")
    if (entry.get("ms") or 0) < 350:  # a busy machine hears late of the call's beginning
        yield f"it took {entry.get('ms')} ms"


def starts_slowly(lab):
    """A slow cuInit is a pass that took long; later stages get that time besides their own."""
    env = lab.environment(both(lab), "cuInit slow 5200")
    answer = lab.probe(env, "--stage", "context")
    for name in ("driver-init", "context"):
        yield from differences(stage(answer.document, name), outcome="passed", slow=True,
                               says="slow: it took 5.")
    if (answer.status, answer.document["verdict"]) != (0, "works"):
        yield f"status {answer.status}, verdict {answer.document['verdict']}"
    if [f["id"] for f in answer.document["findings"]] != ["driver-starts-slowly"]:
        yield f"findings: {answer.document['findings']}"


def starts_very_slowly(lab):
    """More than ten seconds, well below what a stage has by itself."""
    answer = lab.probe(lab.environment(both(lab), "cuInit slow 10400"), "--stage", "driver-init")
    yield from differences(stage(answer.document, "driver-init"), outcome="passed", slow=True,
                           says="slow: it took 10.")
    if [f["id"] for f in answer.document["findings"]] != ["driver-starts-slowly"]:
        yield f"findings: {answer.document['findings']}"


def talks(lab):
    """What a library writes disturbs nothing, and is kept."""
    table = "".join(f"{f} garbage\n" for f in ("cuInit", "cuDeviceGetCount", "cuLaunchKernel"))
    answer = lab.probe(lab.environment(both(lab), table))
    yield from healthy(lab, answer)


def missing_symbol(lab):
    folders = [lab.driver("-DWITHOUT_cuLaunchKernel"), lab.nvml()]
    answer = lab.probe(lab.environment(folders))
    yield from differences(stage(answer.document, "driver-symbols"), outcome="failed", code=None,
                           says="lacks 1 of the 20 functions")
    yield from differences(stage(answer.document, "kernel"), outcome="not-run",
                           because="driver-symbols")


def no_driver(lab):
    """Said as that; where a real driver is installed there is nothing to see."""
    answer = lab.probe(lab.environment([]))
    entry = stage(answer.document, "driver-found")
    if entry.get("outcome") == "passed":
        yield "SKIP a driver is installed here"
        return
    yield from differences(entry, outcome="failed", says="no NVIDIA driver here")
    if (answer.status, answer.document["verdict"]) != (1, "no-driver"):
        yield f"status {answer.status}, verdict {answer.document['verdict']}"
    if any(word in answer.out.lower() for word in ("no gpu", "not broken")):
        yield "it says more than it can tell"


def does_not_open(lab):
    folder = lab.folder / "no-elf"
    folder.mkdir()
    (folder / "libcuda.so.1").symlink_to("libcuda.so.1.real")
    real = lab.driver() / "libcuda.so.1"
    data = bytearray(real.read_bytes())
    data[data.index(b"libc.so.6")] = ord("q")  # wants qibc.so.6
    (folder / "libcuda.so.1.real").write_bytes(data)
    # The loader takes no other file for one that is found and does not load.
    answer = lab.probe(lab.environment([folder, lab.nvml()]), "--stage", "driver-init")
    yield from differences(stage(answer.document, "driver-found"), outcome="passed")
    yield from differences(stage(answer.document, "driver-opens"), outcome="failed",
                           says=["does not open", "qibc.so.6"])
    if answer.document["verdict"] != "broken":
        yield f"the verdict is {answer.document['verdict']}"


def no_nvml(lab):
    answer = lab.probe(lab.environment([lab.driver()]))
    entry = stage(answer.document, "nvml")
    if entry.get("outcome") == "passed":
        yield "SKIP a real NVML is installed here"
        return
    yield from differences(entry, outcome="not-run", because=None, says="CUDA does not need it")
    if answer.document["verdict"] != "works":
        yield f"the verdict is {answer.document['verdict']}"


def nvml_alone(lab):
    """CUDA does not start, NVML does: both are said."""
    answer = lab.probe(lab.environment(both(lab), "cuInit return 999"))
    yield from differences(stage(answer.document, "nvml"), outcome="passed",
                           says=["NVML counts 1 GPU", "CUDA does not start"])


def two_cards(lab):
    answer = lab.probe(lab.environment(both(lab), "cards value 2"))
    yield from healthy(lab, answer, devices=2)
    one = lab.probe(lab.environment(both(lab), "cards value 2"), "--device", "1", "--quick")
    devices = {e["device"] for e in one.document["stages"]}
    if devices != {None, 1}:
        yield f"--device 1 ran {devices}"
    third = lab.probe(lab.environment(both(lab), "cards value 2"), "--device", "2", "--quick")
    yield from differences(stage(third.document, "context"), outcome="unknown",
                           says="there is no GPU 2: the driver counts 2")
    if third.status != 3:
        yield f"status {third.status} for a GPU that is not there"


def one_bad_card(lab):
    """The second card is busy: the first one's stages stand, and the sum says busy."""
    table = "cards value 2\ncuDevicePrimaryCtxRetain return 46\n"
    env = lab.environment(both(lab), table, CUDA_VISIBLE_DEVICES="0")
    yield from differences(stage(lab.probe(env).document, "context", 0), outcome="failed", code=46)


def hidden(lab):
    cases = (("1", 1, "GPU-01010101"), ("", 0, "CUDA_VISIBLE_DEVICES=\"\""), ("7", 0, "=7"))
    for value, seen, says in cases:
        env = lab.environment(both(lab), "cards value 2", CUDA_VISIBLE_DEVICES=value)
        answer = lab.probe(env)
        texts = [f["says"] for f in answer.document["findings"] if f["id"] == "devices-hidden"]
        if not texts or says not in texts[0] or f"programs see {seen}" not in texts[0]:
            yield f"CUDA_VISIBLE_DEVICES={value}: {texts}"
        yield from differences(stage(answer.document, "device-count"), outcome="passed",
                               says="2 GPUs")
        expected = {"outcome": "passed"} if seen else {
            "outcome": "failed", "code": 100, "says": "programs see no GPU here"}
        yield from differences(stage(answer.document, "visible-devices"), **expected)
        if answer.status != (0 if seen else 1):
            yield f"CUDA_VISIBLE_DEVICES={value}: status {answer.status}"


def compiles_nothing(lab):
    """Programs may compile no PTX; the probe's own kernel is compiled all the same."""
    yield from healthy(lab, lab.probe(lab.environment(both(lab), CUDA_DISABLE_PTX_JIT="1")))


def helper(lab, *arguments, folders=(), **variables):
    """Runs the helper alone; its lines."""
    program = lab.exe.parent / "src/inject/probe/gpumend-probe-helper"
    read, write = os.pipe()
    # The helper says it on descriptor 3, whatever number the pipe has here.
    command = ["/bin/sh", "-c", f"exec 3>&{write}; exec \"$@\"", "sh", str(program), *arguments]
    subprocess.run(command, env=lab.environment(folders, **variables), pass_fds=[write], timeout=30,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    os.close(write)
    with os.fdopen(read) as lines:
        return lines.read().replace("%20", " ").splitlines()


def version_against_module(lab):
    lib = f"lib={lab.driver()}/libcuda.so.1"
    for module, extra, begin, says in (
            ("550.54.15", (), "passed", "driver 550.54.15, kernel module 550.54.15"),
            ("535.10.01", (), "failed", "its kernel module 535.10.01"),
            ("535.10.01", ("starts",), "passed", "although the library's file is named for 550"),
            ("535.10.01", ("compat=yes",), "passed", "forward compatibility")):
        fault = None if module == "550.54.15" or extra else "cuInit return 803"
        last = helper(lab, "stage=driver-version", lib, f"module={module}", *extra,
                      table=fault)[-1]
        if not last.startswith(begin) or says not in last:
            yield f"module {module}: {last}"


def found_elsewhere(lab):
    """The file is there and no search of the loader ends at it."""
    if stage(lab.probe(lab.environment([])).document, "driver-found").get("outcome") == "passed":
        yield "SKIP a driver is installed here"
        return
    elsewhere = "elsewhere=/opt/driver/libcuda.so.1"
    for name, begin, says in (("driver-found", "passed", "/opt/driver/libcuda.so.1"),
                              ("driver-opens", "failed 0", "where the loader does not look")):
        last = helper(lab, f"stage={name}", elsewhere)[-1]
        if not last.startswith(begin) or says not in last:
            yield last
    last = helper(lab, "stage=driver-found", "hint=the kernel module is loaded")[-1]
    if not last.endswith("there is no libcuda.so.1; the kernel module is loaded"):
        yield last


def cpu_level(lab):
    last = helper(lab, "stage=cpu", "level=2", "threads=1")[-1]
    if not last.startswith("passed x86-64-v2 and 1 thread"):
        yield last
    last = helper(lab, "stage=cpu", "level=1", "threads=100000")[-1]
    if not last.startswith("failed") or "choose reports 100000 threads" not in last:
        yield last


def no_such_stage(lab):
    if helper(lab, "stage=bogus")[-1] != "unknown the helper has no stage bogus":
        yield "the helper ran a stage that there is not"
    for arguments in (("--stage", "bogus"), ("--timeout", "0"), ("--timeout", "x"),
                      ("--device", "-1"), ("--device", "a"), ("--frobnicate",)):
        answer = lab.probe(lab.environment([]), *arguments)
        if answer.status != 2 or not answer.errors or answer.document:
            yield f"{arguments}: status {answer.status}: {answer.errors}"


def every_stage(lab):
    """The helper has each stage of the table; those of packages are the interpreter's."""
    names = lab.text(lab.environment([]), "--stages").out.split()
    listed = [name for name in names if not name.startswith("python-")]
    for name in listed:
        lines = helper(lab, f"stage={name}", "device=0", "lib=/nonexistent/lib.so", "timeout=1")
        if not lines or "the helper has no stage" in lines[-1]:
            yield f"{name}: {lines}"


def asked_in_vain(lab):
    """A library that the target needs and does not find is a failure, not nothing to try."""
    folder = lab.folder / "in-vain"
    folder.mkdir()
    library, program = folder / "libcublas.so.12", folder / "program"
    subprocess.run(["cc", "-shared", "-o", library, "-Wl,-soname,libcublas.so.12", "-x", "c",
                    "/dev/null"], check=True)
    subprocess.run(["cc", "-o", program, "-Wl,--no-as-needed", "-x", "c", "-", "-x", "none",
                    library], input=b"int main(void) { return 0; }", check=True)
    library.unlink()
    answer = lab.probe(lab.environment(both(lab)), str(program))
    yield from differences(stage(answer.document, "cublas"), outcome="failed", because=None,
                           says=["needs libcublas.so.12", "the loader does not find it", "gpumend check TARGET"])
    yield from differences(stage(answer.document, "cublas-float32"), outcome="not-run",
                           because="cublas")
    yield from differences(stage(answer.document, "kernel"), outcome="passed")
    if (answer.status, answer.document["verdict"]) != (1, "broken"):
        yield f"status {answer.status}, verdict {answer.document['verdict']}"


def devices(lab, table, *options):
    done = subprocess.run([lab.exe, "devices", "--probe", *options],
                          env=lab.environment(both(lab), table), capture_output=True, text=True,
                          timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def in_devices(lab):
    """devices --probe tells what only the driver knows: memory, processes, mode, its CUDA."""
    table = "cards value 2\nnvmlDeviceGetComputeRunningProcesses_v3 value 2\nattribute-20 value 3"
    status, out, err = devices(lab, table, "--json")
    document = json.loads(out) if out else {"probe": None}
    card = {"vendor": "nvidia", "name": "NVIDIA Fake 1", "memory_free_mib": 7000,
            "memory_total_mib": 8000, "compute_mode": "exclusive-process",
            "processes": [{"pid": 4000, "memory_mib": 512}, {"pid": 4001, "memory_mib": None}],
            "problem": None}
    wanted = [{**card, "device": n, "pci": f"0000:0{n + 1}:00.0"} for n in range(2)]
    probe = document["probe"] or {}
    if probe.get("devices") != wanted or (probe["cuda"], probe["driver"]) != ("12.8", "550.54.15") \
            or probe["verdict"] != "works" or status not in (0, 1, 3) or err:
        yield f"status {status}: {probe} {err}"
    status, out, err = devices(lab, table)
    words = " ".join(out.split())
    for part in ("driver 550.54.15 runs programs up to CUDA 12.8", "7000 of 8000 MiB are free",
                 "compute mode exclusive-process", "used by process 4000 (512 MiB), 4001."):
        if part not in words:
            yield f"does not say {part!r}: {out}"
    if not out.strip().splitlines()[-1].startswith("Run next: "):
        yield f"the last line is not the command: {out}"
    status, out, err = devices(lab, "cuInit return 999")
    if status != 1 or "cuInit failed" not in out:
        yield f"cuInit failed, status {status}: {out} {err}"
    for options, says in ((("--root", "/tmp"), "not with --root"),
                          (("--limit", "1s"), "has no limit")):
        status, out, err = devices(lab, "", *options)
        if status != 2 or says not in err:
            yield f"{options}: status {status}: {err}"


def documented(lab):
    """docs/probe.md names every stage, those of the number formats by -TYPE."""
    page = (Path(__file__).resolve().parent.parent.parent / "docs/probe.md").read_text()
    for name in lab.text(lab.environment([]), "--stages").out.split():
        if f"`{name}`" not in page and f"`{name.rsplit('-', 1)[0]}-TYPE`" not in page:
            yield f"{name} is not there"


def cases(lab):
    yield "all works", functools.partial(works, lab)
    for row in FAILURES:
        yield row[0].replace("\n", ", "), functools.partial(fails, lab, row)
    for function, name in HANGS:
        yield f"{function} hangs", functools.partial(hangs, lab, function, name)
    for row in MEANS:
        yield f"means, {row[0]}", functools.partial(means, lab, row)
    for case in (is_slow, short_of_memory, limited, starts_slowly, starts_very_slowly, talks, missing_symbol, no_driver, does_not_open, no_nvml, nvml_alone,
                 two_cards, one_bad_card, hidden, compiles_nothing, version_against_module, found_elsewhere,
                 cpu_level, no_such_stage, every_stage, asked_in_vain, in_devices, documented):
        yield case.__name__.replace("_", " "), functools.partial(case, lab)
