#!/usr/bin/python3
"""gres.conf of this node, out of `gpumend devices --json`: gres.py [NODE] < devices.json

    gpumend devices --json | ./gres.py "$(hostname -s)" > /etc/slurm/gres.conf

A line for each GPU, its kind named as Slurm's own AutoDetect names them (lower case, "_" for a blank), and as a comment the
Gres= for slurm.conf. It prints nothing, and its status is 3, where a GPU's state, device file or division (MIG, partitions) does
not decide: a wrong gres.conf drains the node. A GPU that is known to be unusable has no line.
"""
import json
import sys


def cannot(why):
    print(f"gres.py: no gres.conf: {why}", file=sys.stderr)
    sys.exit(3)


def file_of(gpu):
    """The one device file that Slurm hands out."""
    name, partitions = gpu.get("name") or "a GPU without a name", (gpu.get("partitions") or {}).get("value")
    paths = [n["path"] for n in gpu["nodes"]]
    if gpu["mig"] or (partitions or 1) > 1:
        cannot(f"{name} is divided; list its parts by hand (MultipleFiles)")
    if len(paths) != 1:
        cannot(f"{name} has {len(paths)} device files here")
    return paths[0]


def main():
    node = f"NodeName={sys.argv[1]} " if len(sys.argv) > 1 else ""
    document, kinds = json.load(sys.stdin), {}
    if document["verdict"] == "unknown":
        cannot("which GPUs there are cannot be determined")
    for gpu in document["gpus"]:
        if gpu["usable"] == "unknown":
            cannot(gpu["sentence"])
        if gpu["usable"] == "yes" and not gpu["integrated"]:
            kind = "_".join((gpu["name"] or cannot(gpu["sentence"])).lower().split())
            kinds.setdefault(kind, []).append(file_of(gpu))
    for kind, files in sorted(kinds.items()):
        for file in sorted(files, key=lambda f: (len(f), f)):
            print(f"{node}Name=gpu Type={kind} File={file}")
    if kinds:
        print("# slurm.conf: GresTypes=gpu, and of the node Gres=" +
              ",".join(f"gpu:{kind}:{len(files)}" for kind, files in sorted(kinds.items())))


if __name__ == "__main__":
    main()
