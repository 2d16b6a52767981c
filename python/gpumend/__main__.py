"""`python -m gpumend` is the executable itself: it takes the place of this process."""

import os
import sys

from . import Error, executable

try:
    path = executable()
    os.execv(path, ["gpumend", *sys.argv[1:]])
except (Error, OSError) as error:
    sys.stderr.write("gpumend: %s\n" % error)
    sys.exit(3)
