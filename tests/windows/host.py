#!/usr/bin/python3
"""`gpumend devices --root TREE` and `choose --root TREE` of a Windows tree, by its registry and files.

    tests/windows/host.py GPUMEND

The hives are written by hives.py. The form of the values below Enum\\PCI and Control\\Class is that of
Windows 10 and 11.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hives  # noqa: E402
import wine  # noqa: E402

DISPLAY = "{4d36e968-e325-11ce-bfc1-08002be10318}"
RTX4090 = "VEN_10DE&DEV_2684&SUBSYS_40BE103C&REV_A1"
GTX1060 = "VEN_10DE&DEV_1C03&SUBSYS_61603842&REV_A1"
RX5700 = "VEN_1002&DEV_731F&SUBSYS_0B361002&REV_C1"
NVIDIA, AMD = "NVIDIA", "Advanced Micro Devices, Inc."


def adapter(number, bus, **more):
    """A device below Enum\\PCI\\ID."""
    return {f"4&1&0&{number}": {
        "ClassGUID": DISPLAY, "Driver": f"{DISPLAY}\\{number:04}", "ConfigFlags": 0,
        "LocationInformation": f"@System32\\drivers\\pci.sys,#65536;PCI bus %1;({bus},0,0)", **more}}


def driver(provider, version):
    return {"ProviderName": provider, "DriverVersion": version}


class Tree:
    """A Windows tree in parts; write() makes the files."""

    def __init__(self, devices, drivers):
        self.control = {
            "Control": {
                "Class": {DISPLAY: {f"{i:04}": d for i, d in enumerate(drivers)}},
                "FileSystem": {"LongPathsEnabled": 0},
                "Session Manager": {
                    "KnownDLLs": {"kernel32": "kernel32.dll", "DllDirectory": "%SystemRoot%\\system32"},
                    "Environment": {
                        "Path": hives.Expand("%SystemRoot%\\system32;C:\\tools"),
                        "NUMBER_OF_PROCESSORS": "16", "PROCESSOR_ARCHITECTURE": "AMD64"}}},
            "Enum": {"PCI": devices}}
        self.system = {"Select": {"Current": 2}, "ControlSet002": self.control}
        self.release = {"ProductName": "Windows 10 Pro", "DisplayVersion": "23H2",
                        "CurrentBuild": "22631", "UBR": 3880}
        self.user = {"Environment": {"Path": hives.Expand("%USERPROFILE%\\bin")}}
        self.files = {"Windows/System32/nvcuda.dll": (32, 0, 15, 6614)}
        self.folders = ["Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.4/bin",
                        "Program Files/NVIDIA/CUDNN/v9.6/bin/12.6", "Program Files/AMD/ROCm/6.2/bin"]
        self.dirty, self.hive = False, None

    def write(self, folder):
        config = folder / "Windows/System32/config"
        config.mkdir(parents=True, exist_ok=True)
        if self.system:
            data = self.hive or hives.write(self.system, dirty=self.dirty)
            (config / "SYSTEM").write_bytes(data)
        (config / "SOFTWARE").write_bytes(
            hives.write({"Microsoft": {"Windows NT": {"CurrentVersion": self.release}}}))
        (folder / "Users/ann").mkdir(parents=True, exist_ok=True)
        (folder / "Users/ann/NTUSER.DAT").write_bytes(hives.write(self.user))
        (folder / "Users/Public").mkdir(exist_ok=True)
        for path, version in self.files.items():
            (folder / path).write_bytes(wine.dll(version=version))
        for path in self.folders:
            (folder / path).mkdir(parents=True)


def one(**more):
    return Tree({RTX4090: adapter(0, 1, **more)}, [driver(NVIDIA, "32.0.15.6614")])


def disabled():
    return one(ConfigFlags=1)


def without_driver():
    tree = one()
    del tree.control["Enum"]["PCI"][RTX4090]["4&1&0&0"]["Driver"]
    return tree


def odd_driver():
    return one(Driver=7)


def basic():
    return Tree({RTX4090: adapter(0, 1)}, [driver("Microsoft", "10.0.22621.1")])


def without_nvcuda():
    tree = one()
    tree.files = {}
    return tree


def two_drivers():
    tree = one()
    tree.files = {"Windows/System32/nvcuda.dll": (31, 0, 15, 3623)}
    return tree


def replaced():
    return Tree({RTX4090: adapter(0, 1), GTX1060: adapter(1, 1)},
                [driver(NVIDIA, "32.0.15.6614"), driver(NVIDIA, "32.0.15.6614")])


def amd():
    tree = Tree({RX5700: adapter(0, 45)}, [driver(AMD, "31.0.24027.1012")])
    tree.files = {"Windows/System32/amdhip64_6.dll": (6, 2, 41512, 0)}
    return tree


def sound_card():
    tree = one()
    tree.control["Enum"]["PCI"]["VEN_10DE&DEV_22BA&SUBSYS_40BE103C&REV_A1"] = adapter(
        1, 1, ClassGUID="{4d36e97d-e325-11ce-bfc1-08002be10318}")
    return tree


def dirty():
    tree = one()
    tree.dirty = True
    return tree


def dirty_of(tree):
    tree.dirty = True
    return tree


def dirty_without_gpu():
    """One that was put in lately is in the logs."""
    tree = dirty_of(Tree({}, []))
    tree.files = {}
    return tree


def no_system():
    tree = one()
    tree.system = None
    return tree


def cut():
    tree = one()
    tree.hive = hives.write(tree.system)[:-100]
    return tree


def other_set():
    """A device of a control set that is not in use does not count."""
    tree = one()
    tree.system = {"Select": {"Current": 1}, "ControlSet002": tree.control,
                   "ControlSet001": {"Enum": {"PCI": {}}}}
    return tree


# Name, tree, status of devices, texts of it, usable of each GPU, device of choose.
CASES = [
    ("one of NVIDIA's", one, 0,
     ["NVIDIA GeForce RTX 4090", "at 0000:01:00.0", "driver 566.14 installed",
      "also keeps devices that were removed", "Windows 11 Pro 23H2 (build 22631.3880)",
      "CUDA toolkit 12.4: C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.4", "16 cores"],
     ["yes"], "cuda"),
    ("switched off", disabled, 1, ["disabled in the device manager"], ["no"], "cpu"),
    ("no driver", without_driver, 1, ["Windows has no driver for it"], ["no"], "cpu"),
    ("a driver that cannot be read", odd_driver, 3, ["driver is not known: Driver is not a text"],
     ["unknown"], None),
    ("Microsoft's driver", basic, 1, ["one of Microsoft"], ["no"], "cpu"),
    ("no nvcuda.dll", without_nvcuda, 1, ["no nvcuda.dll"], ["no"], "cpu"),
    ("nvcuda.dll of another driver", two_drivers, 3, ["is 566.14", "of 536.23"], ["unknown"], None),
    ("a card was replaced", replaced, 3, ["one of the two was removed"], ["unknown", "unknown"], None),
    ("AMD's", amd, 0, ["gfx1010", "driver 31.0.24027.1012 installed"], ["yes"], None),
    ("other classes do not count", sound_card, 0, ["RTX 4090"], ["yes"], "cuda"),
    ("a dirty hive", dirty, 0, ["a dirty hive", "shutdown /s /t 0"], ["yes"], "cuda"),
    ("no GPU in a dirty hive", dirty_without_gpu, 3, ["Cannot tell which GPUs", "a dirty hive"], [], None),
    ("switched off in a dirty hive", lambda: dirty_of(disabled()), 3, ["by a registry that lacks its last changes"],
     ["unknown"], None),
    ("no driver in a dirty hive", lambda: dirty_of(without_driver()), 3, ["Windows has no driver for it, by a registry"],
     ["unknown"], None),
    ("Microsoft's driver in a dirty hive", lambda: dirty_of(basic()), 3, ["one of Microsoft", "lacks its last changes"],
     ["unknown"], None),
    ("no SYSTEM", no_system, 3, ["Cannot tell which GPUs"], [], None),
    ("a hive that is cut off", cut, 3, ["it is cut off"], [], None),
    ("the control set in use", other_set, 0, ["No supported GPU found"], [], "cpu"),
]


def faults_of(gpumend, folder, status, texts, usable, device):
    root = ["--root", folder]
    done = subprocess.run([gpumend, "devices", *root], capture_output=True, text=True, check=False)
    shown = json.loads(subprocess.run([gpumend, "devices", "--json", *root], capture_output=True,
                                      text=True, check=False).stdout or "{}")
    text = " ".join(done.stdout.split())
    faults = [f"not found: {t}" for t in texts if t not in text]
    if done.returncode != status:
        faults.append(f"status {done.returncode}, not {status}: {done.stderr}")
    seen = sorted(g["usable"] for g in shown.get("gpus", []))
    if seen != usable:
        faults.append(f"usable {seen}, not {usable}")
    if device:
        chosen = subprocess.run([gpumend, "choose", "--model", "small", "--json", *root],
                                capture_output=True, text=True, check=False)
        got = json.loads(chosen.stdout or "{}").get("device")
        if got != device:
            faults.append(f"chosen: {got}, not {device}: {chosen.stderr}")
    return [*faults, *([done.stdout] if faults else [])]


def paths(gpumend, folder):
    """The facts of the registry that devices shows as JSON alone."""
    one().write(folder)
    document = json.loads(subprocess.run([gpumend, "devices", "--json", "--root", str(folder)],
                                         capture_output=True, text=True, check=False).stdout)
    w = document["windows"]
    wanted = {"path": "C:\\Windows\\system32;C:\\tools", "long_paths": None, "nvcuda": "566.14",
              "build": "22631.3880"}
    faults = [f"{k}: {w[k]}" for k, v in wanted.items() if w[k]["value"] != v]
    faults += [] if w["long_paths"]["state"] == "no" and w["safe_search"]["state"] == "yes" else [str(w)]
    faults += [] if w["known_dlls"] == ["kernel32.dll"] else [str(w["known_dlls"])]
    users = [(u["name"], u["path"]["value"]) for u in w["users"]]
    faults += [] if users == [("ann", "C:\\Users\\ann\\bin")] else [str(users)]
    kinds = [(t["kind"], t["version"]) for t in w["toolkits"]]
    want = [("CUDA toolkit", "12.4"), ("cuDNN", "9.6"), ("HIP SDK", "6.2")]
    return faults + ([] if kinds == want else [str(kinds)])


def planned(gpumend, folder):
    """What setup says of Windows on ARM64, for which its releases have no wheels."""
    faults = []
    for machine, status, verdict in (("AMD64", 0, "cpu"), ("ARM64", 3, "unknown")):
        tree = Tree({}, [])
        tree.control["Control"]["Session Manager"]["Environment"]["PROCESSOR_ARCHITECTURE"] = machine
        tree.files, tree.folders = {}, []
        tree.write(folder / machine)
        done = subprocess.run([gpumend, "setup", "faster-whisper", "--json", "--root", str(folder / machine)],
                              capture_output=True, text=True, check=False)
        got = json.loads(done.stdout or "{}").get("verdict")
        faults += [] if (done.returncode, got) == (status, verdict) else [f"{machine}: {done.stdout}{done.stderr}"]
    return faults


# What the registry has, and the state that is shown of the fact: what cannot be read is not "no".
SETTINGS = [
    ("path", "Path", None, "no"), ("path", "Path", 7, "unknown"),
    ("path", "Path", "C:\\" + 70000 * "x", "unknown"),
    ("path", "Path", hives.Expand("C:\\a;%JAVA_HOME%\\bin"), "unknown"),
    ("path", "Path", "C:\\100%;C:\\50%", "yes"),
    ("safe_search", "SafeDllSearchMode", 0, "no"), ("safe_search", "SafeDllSearchMode", 1, "yes"),
    ("safe_search", "SafeDllSearchMode", "0", "unknown"), ("safe_search", "SafeDllSearchMode", 2, "unknown"),
    ("long_paths", "LongPathsEnabled", 1, "yes"), ("long_paths", "LongPathsEnabled", None, "no"),
    ("long_paths", "LongPathsEnabled", "1", "unknown"),
]


def setting_faults(gpumend, folder, fact, name, value, state):
    tree = one()
    manager = tree.control["Control"]["Session Manager"]
    key = {"path": manager["Environment"], "safe_search": manager,
           "long_paths": tree.control["Control"]["FileSystem"]}[fact]
    key.pop(name, None)
    key.update({} if value is None else {name: value})
    tree.write(folder)
    document = json.loads(subprocess.run([gpumend, "devices", "--json", "--root", str(folder)],
                                         capture_output=True, text=True, check=False).stdout)
    seen = document["windows"][fact]
    return [] if seen["state"] == state else [f"{seen}, not {state}"]


def main():
    gpumend = os.path.abspath(sys.argv[1])
    failed = 0
    for name, make, status, texts, usable, device in CASES:
        with tempfile.TemporaryDirectory() as folder:
            make().write(Path(folder))
            faults = faults_of(gpumend, folder, status, texts, usable, device)
        failed += bool(faults)
        if faults:
            print(f"FAIL {name}: " + "\n  ".join(faults))
    for setting in SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            faults = setting_faults(gpumend, Path(folder), *setting)
        failed += bool(faults)
        if faults:
            print(f"FAIL {setting[1]} {str(setting[2])[:40]}: {faults}")
    for ask in (paths, planned):
        with tempfile.TemporaryDirectory() as folder:
            faults = ask(gpumend, Path(folder))
        failed += bool(faults)
        if faults:
            print(f"FAIL {ask.__name__}: {faults}")
    print(f"{len(CASES) + len(SETTINGS) + 2 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
