"""`python -m gpumend` is the executable itself: it takes the place of this process, or on
Windows is waited for."""

import os
import sys

from . import Error, executable

try:
    path = executable()
    if os.name == "nt":  # where execv() returns to the shell before the program has ended
        import subprocess
        sys.exit(subprocess.run([path, *sys.argv[1:]]).returncode)
    os.execv(path, ["gpumend", *sys.argv[1:]])
except (Error, OSError) as error:
    sys.stderr.write("gpumend: %s\n" % error)
    sys.exit(3)
