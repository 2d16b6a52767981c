#!/usr/bin/python3
"""A newer Slurm than this system's: tests/fleet/slurm_root.py GPUMEND [--few]

Debian 13 has Slurm 24.11, whose nodes have an Extra that `--extra` of a job is compared with (from 23.11 on). A root
file system with it is made once by mmdebstrap, in the cache of the tests; in an overlay upon it run slurm.py, and of needs.py
the whole matrix with --slurm (--few: a part of it). Needs root, mmdebstrap, and the first time a Debian mirror: says what it skips.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "machines"), str(TESTS / "fleet")]
from roots import inside, of_output, system  # noqa: E402

SYSTEM = "trixie"
PACKAGES = "slurmctld,slurmd,slurm-client,munge,python3,python3-yaml,gcc,g++,libc6-dev,libslurm-dev,strace,procps"
PARTS = ("tests", "kb", "deploy", "docs/json")
SUITES = {"slurm": ["tests/fleet/slurm.py", "gpumend"], "needs": ["tests/fleet/needs.py", "gpumend", "--slurm"]}


def main():
    exe, few = Path(sys.argv[1]).resolve(), ["--few"] if "--few" in sys.argv else []
    missing = [what for what, have in (("root", os.geteuid() == 0), ("mmdebstrap", shutil.which("mmdebstrap")),
                                       ("an x86-64 processor", os.uname().machine == "x86_64")) if not have]
    sums = [0, 0, 0]
    try:
        if missing:
            raise OSError(f"it needs {' and '.join(missing)}")
        with system(SYSTEM, exe, PACKAGES, "slurm", parts=PARTS) as root:
            for name, words in SUITES.items():
                done = inside(root, "python3", *words, *(few if name == "needs" else []), timeout=3000)
                print(*[x for x in done.stdout.splitlines() if x.startswith(("FAIL", "SKIP", "Slurm "))], sep="\n")
                *counts, reasons = of_output(done)
                print(f"{name}: {counts} {reasons}")
                sums = [a + b for a, b in zip(sums, counts)]
    except (OSError, subprocess.SubprocessError) as error:
        print(f"SKIP a newer Slurm: {error}")
        sums[2] += 1
    print("{} passed, {} failed, {} skipped".format(*sums))
    return 1 if sums[1] else 0


if __name__ == "__main__":
    sys.exit(main())
