"""The executable: where it is, in which environment it is asked, and what it answers."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Union
    Path = Union[str, "os.PathLike[str]"]

# A plan takes tens of milliseconds, in a large environment on a slow disk some seconds.
LIMIT_S = 300
# What decides at the start of a process, and not when it is changed later.
AT_START = (b"LD_", b"GLIBC_TUNABLES", b"PYTHON")
WINDOWS = os.name == "nt"
NO_WINDOW = 0x08000000 if WINDOWS else 0  # subprocess.CREATE_NO_WINDOW: a program without a console gets none


class Error(Exception):
    """What was asked could not be answered or done; the text is one sentence, or a few.

    status: the exit status of the executable (2: wrong usage, 3: it could not look), or None if it
    did not get that far.
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


Error.__module__ = "gpumend"


def executable() -> str:
    """The path of the executable that was installed with this package.

    PATH is not asked: what lies there could be of another version. Installers put a package into
    `lib/python3.X/site-packages` and its programs into `bin` beside `lib`; with `pip --home` into
    `lib/python`; with `pip --target` the programs are in a `bin` beside the package. On Windows they
    are in `Scripts`, beside `Lib` or, of a user, beside `site-packages`. No other folder above the
    package is searched: it can be anybody's, such as /tmp.
    """
    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parts = site.split(os.sep)
    if WINDOWS:
        return _first([os.path.join(site, "bin", "gpumend.exe"), *_scripts(site, parts)])
    places = [os.path.join(site, "bin", "gpumend")]
    if parts[-2:] in (["lib", "python"], ["lib64", "python"]):
        places.append(os.path.join(os.sep.join(parts[:-2]), "bin", "gpumend"))
    if parts[-1] in ("site-packages", "dist-packages") and parts[-3:-2] in (["lib"], ["lib64"]):
        places.append(os.path.join(os.sep.join(parts[:-3]), "bin", "gpumend"))
    return _first(places)


def _scripts(site: str, parts: list[str]) -> list[str]:
    """Where gpumend.exe is, for a package in `site`."""
    if parts[-1].lower() != "site-packages":
        return []
    above = os.path.dirname(site)
    prefix = os.path.dirname(above) if parts[-2].lower() == "lib" else above
    return [os.path.join(prefix, "Scripts", "gpumend.exe")]


def _first(places: list[str]) -> str:
    for place in places:
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return place
    raise Error("the executable gpumend is not there; looked for " + ", ".join(places))


def own_environment() -> str:
    """This interpreter's environment, as a target."""
    if WINDOWS:
        return sys.prefix
    if os.path.basename(sys.executable or "").startswith("python"):
        return sys.executable
    return sys.prefix  # embedded: the executable is another program


def variables() -> dict[bytes, bytes] | None:
    """The variables that count in this process.

    The loader and Python have read theirs at the start: of these the values of the start count, of
    all others those of now. A program that writes its title over them (setproctitle) has left no
    values of the start; then those of now are the best there is. None: those of this process.
    """
    if WINDOWS:  # what a process is given there is what os.environ has
        return None
    now = dict(os.environb)
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = [entry for entry in file.read().split(b"\0") if entry]
    except OSError:
        return now
    if any(b"=" not in entry for entry in entries) or (now and not entries):
        return now
    start = dict(entry.split(b"=", 1) for entry in entries)
    merged = {name: value for name, value in now.items() if not name.startswith(AT_START)}
    merged.update((name, value) for name, value in start.items() if name.startswith(AT_START))
    return merged


def target_words(target: Path | None) -> list[str]:
    path = own_environment() if target is None else os.fspath(target)
    return [os.path.join(".", path) if path.startswith("-") else path]


def import_words(imports: Sequence[str] | None) -> list[str]:
    if isinstance(imports, str):
        raise TypeError("imports is a sequence of names, not a text")
    return ["--import", ",".join(imports)] if imports else []


def ask(command: str, words: Sequence[str], given: bytes = b"",
        limit_s: int | None = LIMIT_S, last: bool = True) -> dict[str, Any]:
    """Runs `gpumend COMMAND WORDS --json`, with `given` as its standard input, and returns the
    document; Error if it prints none. What changes files has no limit: it would be cut off in the
    middle, and each of its trials has a limit of its own."""
    import json
    import subprocess
    try:
        done = subprocess.run([executable(), command, *words, *(["--json"] if last else [])], env=variables(),
                              input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=limit_s, creationflags=NO_WINDOW)
    except OSError as error:
        raise Error("the executable does not start: %s" % error) from error
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise Error("gpumend %s: %s" % (command, error)) from error
    # By what it printed, not by its status: where SIGCHLD is ignored there is no status.
    if done.stdout:
        try:
            document: dict[str, Any] = json.loads(done.stdout)
            return document
        except ValueError as error:
            raise Error("gpumend %s printed what is no document: %s" % (command, error),
                        done.returncode) from error
    said = done.stderr.decode("utf-8", "backslashreplace").strip()
    if said.startswith("gpumend: "):
        said = said[len("gpumend: "):]
    raise Error(said or "gpumend %s ended with status %d and said nothing"
                % (command, done.returncode), done.returncode)
