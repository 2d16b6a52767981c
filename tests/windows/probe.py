#!/usr/bin/python3
"""gpumend.exe probe under Wine, with nvcuda.dll and amdhip64_7.dll that the test builds.

    tests/windows/probe.py GPUMEND_EXE

Drivers that work, answer with an error, crash, hang, end the process, write without end, start a
program that outlives them, lack a function, refuse to start, are for another processor or no DLL at all:
each time the outcome of the stage, its code, what it says, the verdict and the status of the command.
The documents are those of docs/json/probe.schema.json, as on Linux.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jsonschema

sys.path.insert(0, str(Path(__file__).resolve().parent))
import wine  # noqa: E402

HERE = Path(__file__).resolve().parent
SCHEMA = json.loads((HERE.parent.parent / "docs/json/probe.schema.json").read_text(encoding="utf-8"))
NAMES = {"nvidia": "nvcuda.dll", "amd": "amdhip64_7.dll"}
DRIVER = ["driver-found", "driver-opens", "driver-symbols", "driver-version", "driver-init", "device-count",
          "visible-devices"]
DEVICE = ["context", "attributes", "memory-free", "memory", "kernel"]
AMD = ["hip-init", "hip-device", "hip-memory"]


def build(folder, name, *flags):
    path = folder / name
    subprocess.run([wine.CC, "-O1", "-Wall", "-Werror", "-shared", "-o", str(path), *flags,
                    str(HERE / "fake_gpu.c")], check=True)
    return path.read_bytes()


def read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


class Machine:
    """A prefix with gpumend.exe in a folder of an awkward name."""

    def __init__(self, folder, exe):
        self.wine = wine.Wine(folder / "prefix")
        self.exe = folder / "ein Ordner ü" / "gpumend.exe"
        self.exe.parent.mkdir()
        shutil.copy(exe, self.exe)
        self.counts = {"passed": 0, "failed": 0}

    def install(self, **drivers):
        for vendor, name in NAMES.items():
            path = self.wine.system32 / name
            path.unlink(missing_ok=True)
            if drivers.get(vendor):
                path.write_bytes(drivers[vendor])

    def probe(self, *words, fake="", env=()):
        """Status, document and text on standard error of one probe, and the seconds it took."""
        start = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            status = subprocess.run([wine.loader(), str(self.exe), "probe", "--json", *words],
                                    env={**self.wine.env, "FAKE": fake, **dict(env)}, stdout=out, stderr=err,
                                    stdin=subprocess.DEVNULL, timeout=300, check=False).returncode
            out.seek(0)
            err.seek(0)
            text, said = out.read(), err.read()
        return status, json.loads(text) if text else None, said.decode(), time.monotonic() - start

    def count(self, name, fault):
        self.counts["failed" if fault else "passed"] += 1
        if fault:
            print(f"FAIL {name}: {fault}")


def stage(document, name, device=None):
    return next(s for s in document["stages"] if s["name"] == name and s["device"] == device)


def expect(machine, name, status, verdict, first, *words, outcome="failed", code=None, says=(), means=(),
           fake="", env=(), least=0, most=60):
    """One probe and its first failure; `first`: (stage, device), or None."""
    got, document, said, seconds = machine.probe(*words, fake=fake, env=env)
    if not document:
        machine.count(name, f"status {got}, no document: {said}")
        return None
    try:
        jsonschema.validate(document, SCHEMA)
        fault = None
    except jsonschema.ValidationError as error:
        fault = f"schema: {error.message}"
    if (got, document["verdict"]) != (status, verdict):
        fault = fault or f"status {got}, verdict {document['verdict']}"
    if document["first_failure"] != (first[0] if first else None):
        fault = fault or f"first failure: {document['first_failure']}"
    if first and not fault:
        one = stage(document, *first)
        if one["outcome"] != outcome or one["code"] != code:
            fault = f"{one['outcome']}, code {one['code']}: {one['says']}"
        lacking = [w for w in says if w not in one["says"]]
        lacking += [w for w in means if w not in (one["means"] or "")]
        fault = fault or (f"says {one['says']!r}, means {one['means']!r}, without {lacking}" if lacking else None)
    if not least <= seconds <= most:
        fault = fault or f"it took {seconds:.1f} s"
    machine.count(name, fault)
    return document


def working(machine, nvidia, amd):
    machine.install(nvidia=nvidia)
    d = expect(machine, "two cards", 0, "works", None)
    ran = {(s["name"], s["device"]) for s in d["stages"] if s["outcome"] == "passed"}
    machine.count("all stages", None if ran == {(n, None) for n in DRIVER} |
                  {(n, i) for n in DEVICE for i in (0, 1)} else f"passed: {sorted(ran, key=str)}")
    facts = {**stage(d, "driver-version")["facts"], **stage(d, "device-count")["facts"],
             **stage(d, "attributes", 1)["facts"], **stage(d, "memory-free", 0)["facts"]}
    wanted = {"cuda": "12.8", "count": "2", "device.1.name": "NVIDIA Fake 2", "device.1.memory": "8001",
              "device.0.pci": "0000:01:00.0", "device.0.uuid": "GPU-01010101-0101-0101-0101-010101010101",
              "compute.capability": "8.9", "multiprocessors": "128", "memory.free.mib": "7000"}
    machine.count("facts", None if wanted.items() <= facts.items() else f"{facts}")
    absent = {s["name"] for s in d["stages"] if s["says"] == "this stage is not available on Windows"}
    machine.count("what is not there says so", None if {"nvml", "cublas", "cudnn", "nccl", "cpu"} <= absent and
                  not absent & set(DRIVER + DEVICE + AMD) else f"{sorted(absent)}")
    expect(machine, "one stage", 0, "works", None, "--stage", "driver-init")
    expect(machine, "the second card", 0, "works", None, "--device", "1")
    expect(machine, "a card that is not there", 3, "cannot-tell", None, "--device", "7")
    d = expect(machine, "hidden", 1, "broken", ("visible-devices", None), code=100,
               says=["programs see no GPU here"], env={"CUDA_VISIBLE_DEVICES": "-1"})
    machine.count("the variable that hides", None if d and [f["id"] for f in d["findings"]] == ["devices-hidden"]
                  and "CUDA_VISIBLE_DEVICES=-1" in d["findings"][0]["says"] else f"{d and d['findings']}")
    machine.install(amd=amd)
    d = expect(machine, "AMD", 0, "works", None)
    ran = {(s["name"], s["device"]) for s in d["stages"] if s["outcome"] == "passed"}
    machine.count("AMD's stages", None if ran == {("hip-init", None)} | {(n, i) for n in AMD[1:] for i in (0, 1)}
                  else f"{sorted(ran, key=str)}")
    facts = {**stage(d, "hip-init")["facts"], **stage(d, "hip-device", 0)["facts"]}
    wanted = {"hip.version": "6.2.41512", "count": "2", "name": "AMD Fake 1", "memory.total.mib": "16000"}
    machine.count("AMD's facts", None if wanted.items() <= facts.items() else f"{facts}")


def failing(machine, nvidia, amd, sleeper):
    machine.install()
    expect(machine, "nothing", 1, "no-driver", ("driver-found", None), says=["System32 has no nvcuda.dll"])
    machine.install(nvidia=nvidia)
    init = ("driver-init", None)
    expect(machine, "100", 1, "broken", init, fake="cuInit=100", code=100, says=["CUDA_ERROR_NO_DEVICE"],
           means=["has no GPU to offer"])
    expect(machine, "803", 1, "broken", init, fake="cuInit=803", code=803,
           says=["CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"], means=["does not match the version"])
    expect(machine, "999", 1, "broken", init, fake="cuInit=999", code=999, says=["CUDA_ERROR_UNKNOWN"],
           means=["the code alone does not show"])
    expect(machine, "a crash", 1, "broken", init, fake="cuInit=crash", outcome="crashed",
           says=["exception 0xc0000005 (access violation) in cuInit"])
    expect(machine, "a hang", 1, "cannot-tell", init, "--timeout", "2", fake="cuInit=hang", outcome="timed-out",
           says=["no answer within 2 s in cuInit"], least=2, most=20)
    expect(machine, "an end without a word", 1, "broken", init, fake="cuInit=leave", outcome="crashed",
           says=["status 5 in cuInit and without an answer"])
    expect(machine, "a flood", 0, "works", None, "--stage", "driver-init", fake="cuInit=flood")
    expect(machine, "a program left behind", 0, "works", None, "--stage", "driver-init", fake="cuInit=start",
           env={"FAKE_CHILD": wine.windows_path(sleeper)}, most=30)
    left = [p for p in Path("/proc").glob("[0-9]*/cmdline") if sleeper.name.encode() in read(p)]
    machine.count("it was ended", f"{left} lives" if left else None)
    expect(machine, "one context", 1, "broken", ("context", 0), fake="cuDevicePrimaryCtxRetain=999", code=999)
    expect(machine, "a busy card", 1, "busy", ("context", 0), fake="cuDevicePrimaryCtxRetain=46", code=46,
           says=["busy, not broken"])
    expect(machine, "a wrong copy", 1, "broken", ("memory", 0), fake="copy=wrong", says=["instead of"])
    expect(machine, "PTX", 1, "broken", ("kernel", 0), fake="cuModuleLoadData=222", code=222)
    machine.install(amd=amd)
    expect(machine, "hipInit", 1, "broken", ("hip-init", None), fake="hipInit=100", code=100,
           means=["HIP does not start or finds no GPU"])
    expect(machine, "a crash of HIP", 1, "broken", ("hip-init", None), fake="hipInit=crash", outcome="crashed",
           says=["0xc0000005"])
    expect(machine, "a hang of HIP", 1, "cannot-tell", ("hip-memory", 0), "--timeout", "2", "--device", "0",
           fake="hipMalloc=hang", outcome="timed-out", says=["hipMalloc"], most=30)


def files(machine, folder):
    opens = ("driver-opens", None)
    machine.install(nvidia=build(folder, "less.dll", "-DWITHOUT_cuMemGetInfo_v2"))
    expect(machine, "a function less", 1, "broken", ("driver-symbols", None),
           says=["nvcuda.dll lacks 1 of the 20 functions", "cuMemGetInfo_v2"])
    machine.install(nvidia=build(folder, "refuses.dll", "-DREFUSES"))
    expect(machine, "it refuses", 1, "broken", opens, code=1114, says=["ERROR_DLL_INIT_FAILED"])
    machine.install(nvidia=wine.dll(machine=0x14C))
    expect(machine, "32 bits", 1, "broken", opens, code=193, says=["ERROR_BAD_EXE_FORMAT"],
           means=["is not a DLL for this processor"])
    machine.install(nvidia=b"no DLL")
    expect(machine, "a text", 1, "broken", opens, code=193)
    machine.install(nvidia=wine.dll(imports=["missing.dll"]))
    expect(machine, "an import is missing", 1, "broken", opens, code=126, says=["ERROR_MOD_NOT_FOUND"])


def refused(machine):
    for words, status, text in ((["--stage", "cublas"], 3, "not available on Windows"),
                                (["--stage", "x"], 2, "there is no stage"),
                                (["--python", "torch"], 3, "not available"),
                                (["C:\\venv"], 3, "not available"),
                                (["--run-stage"], 2, "--run-stage")):
        got, document, said, _ = machine.probe(*words)
        machine.count(" ".join(words), None if got == status and not document and text in said
                      else f"status {got}: {said}")


REGISTRY = """Windows Registry Editor Version 5.00

[HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Enum\\PCI\\VEN_10DE&DEV_2684&SUBSYS_16F110DE&REV_A1\\4&1&0&0008]
"ClassGUID"="{4d36e968-e325-11ce-bfc1-08002be10318}"
"Driver"="{4d36e968-e325-11ce-bfc1-08002be10318}\\\\0007"
"ConfigFlags"=dword:00000000
"LocationInformation"="@System32\\\\drivers\\\\pci.sys,#65536;PCI bus %1, device %2, function %3;(1,0,0)"

[HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Control\\Class\\{4d36e968-e325-11ce-bfc1-08002be10318}\\0007]
"ProviderName"="NVIDIA"
"DriverVersion"="32.0.15.6614"
"""


def choosing(machine, nvidia):
    """choose --probe: a card whose kernel ran is taken, although no matrix product can be tried here."""
    machine.install(nvidia=nvidia)
    (machine.wine.drive_c / "set.reg").write_text(REGISTRY, encoding="utf-16")
    subprocess.run([wine.loader(), str(machine.wine.system32 / "regedit.exe"), "/S", "C:\\set.reg"],
                   env=machine.wine.env, check=True, capture_output=True)
    for fake, device, says in (("", "cuda", "no matrix product"), ("cuInit=999", "cpu", "cuInit failed"),
                               ("cuDevicePrimaryCtxRetain=999", "cpu", "cuDevicePrimaryCtxRetain failed")):
        done = subprocess.run([wine.loader(), str(machine.exe), "choose", "--app", "torch", "--probe", "--json"],
                              env={**machine.wine.env, "FAKE": fake}, capture_output=True, check=False)
        text = done.stdout.decode()
        good = text and json.loads(text)["device"] == device and says in text
        machine.count(f"choose --probe {fake}", None if good else f"status {done.returncode}: {text}")


def main():
    if why := wine.missing():
        print(f"SKIP {why}")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        machine = Machine(folder, sys.argv[1])
        nvidia, amd = build(folder, "nvcuda.dll"), build(folder, "amdhip64_7.dll", "-DHIP")
        sleeper = folder / f"{folder.name}.exe"
        (folder / "sleeper.c").write_text("#include <windows.h>\nint main(void) { Sleep(100000); return 0; }\n")
        subprocess.run([wine.CC, "-o", str(sleeper), str(folder / "sleeper.c")], check=True)
        working(machine, nvidia, amd)
        failing(machine, nvidia, amd, sleeper)
        files(machine, folder)
        refused(machine)
        choosing(machine, nvidia)
        subprocess.run(["wineserver", "-k"], env=machine.wine.env, check=False, stderr=subprocess.DEVNULL)
    print("{passed} passed, {failed} failed".format(**machine.counts))
    return 1 if machine.counts["failed"] else 0


sys.exit(main())
