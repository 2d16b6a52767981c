"""The seeds of suites that try random things.

One that tests/run.py starts takes GPUMEND_SEED, which is that of the commit: each commit tries other things,
and the same commit the same ones on every machine, so that what passed before a change went in passes
after it. A suite that is started by itself takes a seed of its own. Both print it.
"""

import os
import random
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
MAX = 1 << 31  # libFuzzer takes no larger one


def fresh():
    """A number from 1 to MAX - 1."""
    return int(os.environ.get("GPUMEND_SEED") or random.SystemRandom().randrange(1, MAX))


def of_commit():
    """The seed that stands for the files of the commit; another one each time where git cannot tell."""
    try:
        tree = subprocess.run(["git", "-C", str(TOP), "rev-parse", "HEAD^{tree}"], capture_output=True,
                              text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return fresh()
    return int(tree[:12], 16) % (MAX - 1) + 1
