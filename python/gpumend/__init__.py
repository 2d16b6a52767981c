"""gpumend: finds out why a GPU program does not load or run, and makes it.

    import gpumend
    gpumend.preload()       # first line of an application's entry module
    import ctranslate2

Nothing here has dependencies, and nothing is written to a terminal. All judgement is that of the
executable `gpumend`, a static program that comes with this package and that each call starts: what
is wrong with this environment is so looked at from outside of it. Only preload() changes this
process: it loads libraries by ctypes.

Where `target` can be given it is a Python environment's folder, an interpreter, a program or a
library; without it this interpreter's own environment is meant.

Every failure is a gpumend.Error. A broken environment is no failure of check(): it is its answer.
"""

from __future__ import annotations

from ._preload import Library, Preloaded, preload
from ._run import Error, executable
from ._version import __version__

TYPE_CHECKING = False  # typing's constant, without the import of typing
if TYPE_CHECKING:
    from ._ask import (Choice, Diagnosis, Enabled, Finding, LogLine, LogRepair, Page, Repair,
                       Repaired, Report, check, choose, disable, enable, explain, explain_log, fix,
                       undo)

__all__ = ["Choice", "Diagnosis", "Enabled", "Error", "Finding", "Library", "LogLine", "LogRepair",
           "Page", "Preloaded", "Repair", "Repaired", "Report", "__version__", "check", "choose",
           "disable", "enable", "executable", "explain", "explain_log", "fix", "preload", "undo"]


# A program that only preloads does not pay for what the other calls import.
def __getattr__(name: str) -> object:
    if name in __all__:
        from . import _ask
        return getattr(_ask, name)
    raise AttributeError("module 'gpumend' has no attribute %r" % name)


def __dir__() -> list[str]:
    return __all__
