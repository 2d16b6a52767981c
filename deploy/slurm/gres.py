#!/usr/bin/python3
"""gres.conf of this node, out of `gpumend devices --json`: gres.py [NODE] [--mig INSTANCE=TYPE]... < devices.json

    gpumend devices --json | ./gres.py "$(hostname -s)" > /etc/slurm/gres.conf

A line for each GPU, its kind named as Slurm's own AutoDetect names them (lower case, "_" for a blank), and as a comment the
Gres= for slurm.conf. Of a GPU that is divided by MIG, a line for each compute instance, with the device files of the GPU and of both
levels of the instance (gres.conf(5), MultipleFiles, since Slurm 21.08; gpu_nvml.c of Slurm gives out the same three). How large an
instance is, is in no file: all are of the type KIND_mig, unless --mig names them:

    gpumend devices --json | ./gres.py --mig 0/gi1/ci0=a100_3g.40gb --mig 0/gi5/ci0=a100_1g.10gb

(the first number is that of /dev/nvidiaN). It prints nothing, and its status is 3, where a GPU's state, device file or division
does not decide: a wrong gres.conf drains the node. A GPU that is known to be unusable has no line.
"""
import argparse
import json
import os
import re
import sys


def cannot(why):
    print(f"gres.py: no gres.conf: {why}", file=sys.stderr)
    sys.exit(3)


def arguments():
    parser = argparse.ArgumentParser(prog="gres.py", description="gres.conf out of `gpumend devices --json`")
    parser.add_argument("node", nargs="?")
    parser.add_argument("--mig", action="append", default=[], metavar="INSTANCE=TYPE")
    words = parser.parse_args()
    types = dict(word.partition("=")[::2] for word in words.mig)
    for instance, kind in types.items():
        if not re.fullmatch(r"\d+/gi\d+/ci\d+", instance) or not re.fullmatch(r"[A-Za-z0-9_.-]+", kind):
            parser.error(f"--mig expects 0/gi1/ci0=TYPE, not {instance}={kind}")
    return words.node, types


def whole(gpu, kind):
    """The one device file that Slurm hands out."""
    paths = [n["path"] for n in gpu["nodes"]]
    if len(paths) != 1:
        cannot(f"{gpu['name']} has {len(paths)} device files here")
    return [(kind, f"File={paths[0]}", paths[0])]


def instances(gpu, kind, types):
    """One resource for each compute instance."""
    lines = []
    for instance, files in zip(gpu["mig"], gpu["mig_files"], strict=True):
        if not files:
            cannot(f"the device files of {gpu['name']}'s MIG instance {instance} are not known")
        # On the node itself: slurmd wants each of them to be there.
        if os.path.exists(files[0]) and (missing := [f for f in files if not os.path.exists(f)]):
            cannot(f"{missing[0]} of MIG instance {instance} is missing (nvidia-modprobe -f makes it)")
        name = f"{re.sub('.*nvidia', '', files[0])}/{instance}"
        lines.append((types.pop(name, kind + "_mig"), f"MultipleFiles={','.join(files)}", files[0]))
    return lines


def resources(gpu, types):
    partitions = (gpu.get("partitions") or {}).get("value")
    kind = "_".join((gpu["name"] or cannot(gpu["sentence"])).lower().split())
    if gpu["mig"]:
        return instances(gpu, kind, types)
    if (partitions or 1) > 1:
        cannot(f"{gpu['name']} is divided; list its parts by hand (MultipleFiles)")
    return whole(gpu, kind)


def main():
    node, types = arguments()
    document, lines = json.load(sys.stdin), []
    if document["verdict"] == "unknown":
        cannot("which GPUs there are cannot be determined")
    for gpu in document["gpus"]:
        if gpu["usable"] == "unknown":
            cannot(gpu["sentence"])
        if gpu["usable"] == "yes" and not gpu["integrated"]:
            lines += resources(gpu, types)
    if types:
        cannot(f"there is no MIG instance {', '.join(sorted(types))}")
    # By kind; files of one kind in the order of their numbers. The order of instances is the driver's.
    lines.sort(key=lambda line: (line[0], len(line[2]), line[2]))
    for kind, files, _ in lines:
        print(f"{f'NodeName={node} ' if node else ''}Name=gpu Type={kind} {files}")
    if lines:
        kinds = [kind for kind, _, _ in lines]
        print("# slurm.conf: GresTypes=gpu, and of the node Gres=" +
              ",".join(f"gpu:{kind}:{kinds.count(kind)}" for kind in sorted(set(kinds))))


if __name__ == "__main__":
    main()
