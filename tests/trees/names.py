#!/usr/bin/env python3
"""Every GPU of the last twelve years has a name and an architecture.

    tests/trees/names.py GPUMEND [PCI.ids]

One machine holds each display controller of AMD, Intel and NVIDIA that src/host/newer.ids, the
system's pci.ids and PCI.ids name, with its PCI id alone. `devices --json` must name it; of NVIDIA's it
must know the compute capability, of AMD's the gfx target. What is older than 2014 is told by its
chip, whatever is not on that list counts as recent; UNKNOWN are those whose makers have published
nothing. A second machine has ids that no table has: the driver's name then decides.
"""

import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tests/trees"))
from build import merged, nvidia, system, write  # noqa: E402

CLASS = {"1002": "amdgpu", "8086": "i915", "10de": "nvidia"}
# NVIDIA before Maxwell, AMD before GCN 3. The chips are those of pci.ids, at the beginning of the name.
OLD = {
    "10de": r"NV|nForce|RIVA|Riva|Vanta|MCP|C[5678]|G[789T]|GF1|GK",
    "1002": r"R[0-9SVDC]|Rage|RAGE|ES1|Mach|68800|2[0-9]{5}|[0-9]{3}[A-Z]|Crayola|Lexington|Starsha|Cayman|Cypress|Juniper|Redwood|Cedar|"
            r"Barts|Turks|Caicos|Hemlock|Antilles|Sumo|SuperSumo|Wrestler|Trinity|Richland|Devastator|Park|"
            r"Madison|Broadway|Robson|Seymour|Whistler|Thames|Lombok|Blackcomb|Capilano|Granville|Manhattan|"
            r"Pinewood|Scrapper|Tahiti|Malta|Pitcairn|Curacao|Cape Verde|Oland|Mars|Heathrow|Chelsea|Venus|"
            r"Neptune|Wimbledon|Opal|Sun|Jet|Kaveri|Kabini|Temash|Mullins|Hawaii|Bonaire|Saturn|Vesuvius|"
            r"Tobago",
    "8086": r"8[0-9]{4}|Mobile|Atom|Core Processor|[2-4][nrdt][dh] Gen|Xeon E3|4 Series|Haswell|Crystal Well|"
            r"E7221|NM10|Timna|Moorestown|Larrabee|Graphics Media|LE80578|Clover|Cedar|Poulsbo|Bay Trail",
}
# Consoles' chips, engineering samples and announced GPUs of which no architecture is published.
UNKNOWN = {
    "10de": r"GR10|GB120|GB6-",
    "1002": r"Ariel|Oberon|Dummy|Kryptos|Garfield|Arlene|Pooky|Anubis|Fenghuang|Arden|XENOS|M1|Onega|Amur|"
            r"Nolan|Bishop|Liverpool|Starshp|Gladius|Jupiter",
}
# The driver's name for a GPU whose id no table has: NVIDIA, "CUDA GPU Compute Capability".
MODELS = {
    "Tesla V100-PCIE-16GB": ("7.0", 16), "NVIDIA A100-PCIE-40GB": ("8.0", 40), "NVIDIA A30": ("8.0", None),
    "NVIDIA A100 80GB PCIe": ("8.0", 80), "NVIDIA L40S": ("8.9", None), "NVIDIA GeForce RTX 4060": ("8.9", None),
    "NVIDIA GeForce RTX 4060 Laptop GPU": ("8.9", None), "NVIDIA H100 PCIe": ("9.0", None),
    "NVIDIA GeForce RTX 5070 Ti": ("12.0", None), "NVIDIA GeForce MX450": ("7.5", None),
    "Tesla P100-PCIE-16GB": ("6.0", 16), "GRID A100-10C": ("8.0", 10), "NVIDIA A10-24Q": ("8.6", 24),
    "NVIDIA GeForce GTX 860M": (None, None),  # sold with a Kepler and a Maxwell chip
    "NVIDIA Nonesuch 9000": (None, None),
}


def load_script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(TOP / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def devices(exe, folder):
    done = subprocess.run([exe, "devices", "--json", "--root", folder], capture_output=True, text=True,
                          timeout=120, check=False)
    return json.loads(done.stdout)["gpus"]


def all_rows(paths):
    """(vendor, device, revision): name"""
    embed = load_script("pci-embed")
    rows = {}
    for path in paths:
        for vendor, device, revision, name in embed.rows_of(path.read_text(encoding="utf-8").splitlines()):
            if vendor in CLASS and embed.wanted(vendor, device, name):
                rows.setdefault((vendor, device, revision), name)
    return rows


def recent(vendor, name):
    return not re.match(OLD[vendor], name) and not re.match(UNKNOWN.get(vendor, "$^"), name)


def faults_of_ids(exe, rows):
    """The bus has 256 buses of 32 devices; a machine takes 4,000 of them."""
    keys = sorted(rows, key=lambda key: (key[0], key[1], key[2] or ""))
    for start in range(0, len(keys), 4000):
        parts = {}
        at = {}
        for n, key in enumerate(keys[start:start + 4000]):
            bdf = "%04x:%02x:%02x.0" % (n // 8192, n // 32 % 256, n % 32)
            at[bdf] = key
            top = f"/sys/bus/pci/devices/{bdf}/"
            parts.update({top + "vendor": f"0x{key[0]}\n", top + "device": f"0x{key[1]}\n",
                          top + "class": "0x030000\n", top + "revision": f"0x{key[2] or 'ff'}\n"})
        with tempfile.TemporaryDirectory() as folder:
            write(merged(system(), parts), folder)
            for gpu in devices(exe, folder):
                yield from faults_of_gpu(gpu, at[gpu["pci"]["address"]], rows[at[gpu["pci"]["address"]]])


def faults_of_gpu(gpu, key, name):
    vendor, device, revision = key
    what = f"{vendor}:{device}{'/' + revision if revision else ''} {name}"
    if f"{vendor}:{device}" in gpu["name"]:
        yield f"{what}: it has no name ({gpu['name']})"
    if not recent(vendor, name):
        return
    if vendor == "10de" and gpu["compute_capability"]["state"] != "yes":
        yield f"{what}: no compute capability"
    if vendor == "1002" and gpu["gfx"]["state"] != "yes":
        yield f"{what}: no gfx target"
    if vendor != "8086" and gpu["architecture"]["state"] != "yes":
        yield f"{what}: no architecture"


def faults_of_models(exe):
    for model, (capability, gib) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            write(merged(system(), nvidia("580.95.05", ("0000:01:00.0", 0xfff0, model))), folder)
            gpu = devices(exe, folder)[0]
        got = (gpu["compute_capability"]["value"], gpu["model_memory_gib"])
        if got != (capability, gib):
            yield f"{model}: {got} instead of {(capability, gib)}"


def main():
    exe = str(Path(sys.argv[1]).resolve())
    embed = load_script("pci-embed")
    paths = [TOP / "src/host/newer.ids", *map(Path, sys.argv[2:]),
             *(Path(place) for place in embed.PLACES if Path(place).exists())]
    rows = all_rows(paths)
    faults = [*faults_of_ids(exe, rows), *faults_of_models(exe)]
    counted = [key for key in rows if recent(key[0], rows[key])]
    print(*faults, sep="\n")
    print(f"{len(rows)} ids and revisions, {len(counted)} of the last twelve years, {len(MODELS)} names")
    print(f"{len(rows) + len(MODELS) - len(faults)} passed, {len(faults)} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
