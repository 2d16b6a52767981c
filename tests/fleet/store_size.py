#!/usr/bin/python3
"""A store of many snapshots: tests/fleet/store_size.py GPUMEND [--nodes N]

Real snapshots of 40 environments (torch of different releases, each with its own code) on four machines of tests/trees, made
into N nodes by changing what differs from node to node: name, time, kernel, addresses. Differences are planted in the driver. It
measures how long `fleet add` and `fleet report` take, the most memory of a process, and what the store takes, and judges the
size and what the report finds.
"""
import functools
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "trees"), str(HERE.parent / "causes")]
from build import write  # noqa: E402
from gpucode import CU121, cuda_library  # noqa: E402
from machines import MACHINES  # noqa: E402
from report import Counts, run  # noqa: E402
from tree import SYSTEM, TAG, Tree  # noqa: E402

ENVIRONMENTS, MACHINE = 40, "geforce-desktop"
STORE_BYTES_MAX, MEMORY_MIB_MAX = 200 * 10**6, 1024  # of 10,000 nodes
BATCH = 200


PARTS = 12


def part_name(k, number):
    return f"libpart{k}-{number:08x}.so"


@functools.cache
def part(k):
    """Compiled once: what makes a library another one is its name, which has the same length everywhere."""
    return cuda_library(part_name(k, 0), CU121)


@functools.cache
def torch_library():
    return cuda_library("libtorch_cuda.so", CU121)


def snapshot_of(exe, folder, i):
    """A machine with its own build of torch, and libraries around it whose contents no other has."""
    root = folder / f"env{i}"
    tree = Tree(root).python()
    write(MACHINES[MACHINE][1], root)
    tree.lib(SYSTEM + "/libcudart.so.12")
    numbers = random.Random(i)
    names = [part_name(k, numbers.getrandbits(32)) for k in range(PARTS)]
    for k, name in enumerate(names):
        tree.put(f"{tree.site}/torch/lib/{name}", part(k).replace(part_name(k, 0).encode(), name.encode()))
    tree.put(tree.site + "/torch/lib/libtorch_cuda.so", torch_library())
    tree.torch_for("cuda", "12.1", f"2.5.{i}", needed=["libtorch_cuda.so", *names], rpath="$ORIGIN/lib")
    tree.dist("torch", f"2.5.{i}", ["torch/lib/libtorch_cuda.so", f"torch/_C.{TAG}.so"])
    done = run(exe, "snapshot", "/opt/venv", "--root", root)
    return json.loads(done[1])


def tree_bytes(folder):
    """As the file system holds it, and the sum of the files."""
    stats = [p.stat() for p in folder.rglob("*") if p.is_file()]
    return sum(s.st_blocks * 512 for s in stats), sum(s.st_size for s in stats), len(stats)


def perturbed(text, made, i, numbers, planted):
    second = f"2026-05-01T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}Z"
    text = text.replace(made, second)
    if numbers.random() < 0.01:
        planted.add(f"n{i:05}")
        text = text.replace("550.90.07", "550.90.99")
    # What differs on every node: numbers of inodes, times and sizes of its own files.
    return re.sub(r'"mtime":(\d+)', lambda m: f'"mtime":{int(m[1]) + numbers.randrange(10**6)}', text)


def main():
    exe, counts = Path(sys.argv[1]).resolve(), Counts()
    number = int(sys.argv[sys.argv.index("--nodes") + 1]) if "--nodes" in sys.argv else 10000
    numbers, planted = random.Random(3), set()
    with tempfile.TemporaryDirectory(prefix="gpumend-store.") as name:
        folder = Path(name)
        documents = []
        for i in range(ENVIRONMENTS):
            text = json.dumps(snapshot_of(exe, folder, i), separators=(",", ":"))
            documents.append((text, re.search(r'"(\d{4}-\d\d-\d\dT[0-9:]{8}Z)"', text)[1]))
            subprocess.run(["rm", "-rf", folder / f"env{i}"], check=True)
        sizes = [len(t) for t, _ in documents]
        store, sweep, seconds, raw = folder / "store", folder / "sweep", 0.0, 0
        sweep.mkdir()
        for first in range(0, number, BATCH):
            files = []
            for i in range(first, min(first + BATCH, number)):
                text = perturbed(*documents[i % ENVIRONMENTS], i, numbers, planted)
                files.append(sweep / f"n{i:05}.json")
                files[-1].write_text(text)
                raw += len(text)
            begin = time.monotonic()
            status, _, err = run(exe, "fleet", "add", store, *files)
            seconds += time.monotonic() - begin
            if status:
                counts.judge("add", False, err[:500])
                break
            for file in files:
                file.unlink()
        used, bytes_, n_files = tree_bytes(store)
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{number} snapshots of {min(sizes) // 1000} to {max(sizes) // 1000} kB, {raw / 1e6:.0f} MB: add {seconds:.1f} s, "
              f"{bytes_ / 1e6:.1f} MB in {n_files} files ({used / 1e6:.1f} MB of disk), at most {memory:.0f} MiB")
        begin = time.monotonic()
        done = subprocess.run([exe, "fleet", "report", store, "--json"], capture_output=True, text=True, check=False)
        report_s, doc = time.monotonic() - begin, json.loads(done.stdout)
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        found = {d["node"] for d in doc["differs"] if d["fact"] == "driver"}
        others = {(d["node"], d["fact"]) for d in doc["differs"] if d["fact"] != "driver"}
        print(f"report {report_s:.1f} s on {os.cpu_count()} processors, at most {memory:.0f} MiB; {len(planted)} planted, "
              f"{len(found & planted)} found, {len(found - planted)} false, {len(doc['cohorts'])} cohorts")
        limit = STORE_BYTES_MAX * number / 10000 + 2e6
        counts.judge("the store's size", bytes_ <= limit, f"{bytes_} bytes, more than {limit:.0f}")
        counts.judge("memory", memory < MEMORY_MIB_MAX, memory)
        counts.judge("all nodes", doc["nodes"] == number and not doc["damaged"], f"{doc['nodes']} {doc['damaged'][:3]}")
        counts.judge("who differs", found == planted, f"missed {sorted(planted - found)[:5]}, false {sorted(found - planted)[:5]}")
        counts.judge("nobody in anything else", not others, sorted(others)[:5])
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
