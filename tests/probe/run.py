#!/usr/bin/python3
"""`gpumend probe` against fake drivers and libraries: every stage, every outcome.

    tests/probe/run.py GPUMEND [--only WORD]

The fakes (fake/*.c) are built here and told by a table how to misbehave (fake/table.h). Each file of
cases has `cases(lab)`, which yields (name, function); a function yields what is wrong. No GPU and no
driver is needed. Where NVIDIA's kernel module is loaded, the cases of its fake driver are skipped: the
fake library beside the real module is a mismatch, which the first stage tells.
"""

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from lab import Lab  # noqa: E402

NVIDIA_HERE = Path("/proc/driver/nvidia/version").exists()
BESIDE_NO_MODULE = ("driver", "children", "nvlibs", "joins", "wheels")
FILES = ("driver", "children", "nvlibs", "amd", "joins", "declarations", "wheels")


def faults_of(lab, case):
    """A case that ends in an exception is a failure, and the others go on."""
    try:
        return [*case(), *lab.schema_faults]
    except Exception as error:
        line = error.__traceback__
        while line.tb_next:
            line = line.tb_next
        return [f"{type(error).__name__}: {error} ({Path(line.tb_frame.f_code.co_filename).name}:{line.tb_lineno})"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumend")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    args = parser.parse_args()
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-probe-test-") as folder:
        lab = Lab(args.gpumend, folder)
        for name in FILES:
            if not (HERE / f"{name}.py").exists():
                continue
            for title, case in importlib.import_module(name).cases(lab):
                if args.only not in f"{name}: {title}":
                    continue
                lab.schema_faults.clear()
                faults = ([f"SKIP {name}: {title}: NVIDIA's kernel module is loaded here"]
                          if NVIDIA_HERE and name in BESIDE_NO_MODULE else faults_of(lab, case))
                reasons = [f for f in faults if f.startswith("SKIP ")]
                for fault in faults:
                    print(fault if fault in reasons else f"FAIL {name}: {title}: {fault}")
                skipped += bool(reasons)
                failed += len(faults) > len(reasons)
                passed += not faults
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
