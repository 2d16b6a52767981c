"""preload(): the libraries of the plan, loaded into this process.

The plan is made by the executable (`gpumend fix --in-process`); ctypes loads what it names.
"""

from __future__ import annotations

import _thread
import ctypes
import os

from ._run import WINDOWS, Error, ask, import_words, target_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal

    from ._run import Path

    State = Literal["loaded", "was-loaded", "other-loaded", "not-loaded"]

RTLD_DI_LINKMAP = 2  # <dlfcn.h>, the same in glibc and musl

_one_at_a_time = _thread.allocate_lock()


class Library:
    """A library of the plan, and what became of it.

    path    the file
    state   "loaded"        by this call
            "was-loaded"    this very file was there already
            "other-loaded"  another file of the same soname was there already: it serves every later
                            request for that name, and nothing can change that in this process
            "not-loaded"    the loader refused it
    says    "other-loaded": that other file, if it can be told; "not-loaded": the loader's words
    """

    __slots__ = ("path", "says", "state")

    def __init__(self, path: str, state: State, says: str | None = None) -> None:
        self.path, self.state, self.says = path, state, says

    def __repr__(self) -> str:
        return "Library(path=%r, state=%r, says=%r)" % (self.path, self.state, self.says)


class Preloaded:
    """What preload() has done.

    libraries    in the order of loading; empty if there was nothing to repair
    n_findings   how many errors check() finds in this environment
    left         what loading cannot mend in a running process, one sentence each
    error        why no plan could be made, or None
    """

    __slots__ = ("error", "left", "libraries", "n_findings")

    def __init__(self, libraries: Sequence[Library], n_findings: int, left: Sequence[str],
                 error: str | None = None) -> None:
        self.libraries, self.left = tuple(libraries), tuple(left)
        self.n_findings, self.error = n_findings, error

    @property
    def ok(self) -> bool:
        """Nothing was to be done, or all of it is done."""
        return not self.problems()

    def problems(self) -> list[str]:
        """One sentence for everything that is not as it should be."""
        texts = [self.error] if self.error else []
        for library in self.libraries:
            if library.state == "not-loaded":
                texts.append("%s was not loaded: %s" % (library.path, library.says))
            elif library.state == "other-loaded":
                texts.append("%s comes too late: %s was loaded before" % (
                    library.path, library.says or "another file of its name"))
        return [*texts, *self.left]

    def __repr__(self) -> str:
        return "Preloaded(libraries=%r, n_findings=%d, left=%r, error=%r)" % (
            self.libraries, self.n_findings, self.left, self.error)


for _shown in (Library, Preloaded):
    _shown.__module__ = "gpumend"


class _LinkMap(ctypes.Structure):
    _fields_ = [("l_addr", ctypes.c_size_t), ("l_name", ctypes.c_char_p)]


def _resident(name: str) -> ctypes.CDLL | None:
    """What answers to a path or a soname in this process; nothing is loaded."""
    try:
        return ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
    except OSError:
        return None


def _path_of(library: ctypes.CDLL) -> str | None:
    link = ctypes.POINTER(_LinkMap)()
    try:
        dlinfo = ctypes.CDLL(None).dlinfo
    except AttributeError:  # glibc before 2.34, in a program without libdl
        return None
    dlinfo.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    if dlinfo(library._handle, RTLD_DI_LINKMAP, ctypes.byref(link)) != 0 or not link:
        return None
    name = link.contents.l_name
    return os.fsdecode(name) if name else None


def _load(path: str, soname: str | None) -> Library:
    if _resident(path):
        return Library(path, "was-loaded")
    other = _resident(soname) if soname else None
    if other:
        return Library(path, "other-loaded", _path_of(other))
    try:
        ctypes.CDLL(path)  # RTLD_NOW and RTLD_LOCAL; ctypes never closes it
    except OSError as error:
        return Library(path, "not-loaded", str(error))
    return Library(path, "loaded")


def _windows_handle(name: str) -> int:
    """What is loaded under a path or a base name; 0: nothing."""
    handle = ctypes.WinDLL("kernel32", use_last_error=True).GetModuleHandleW  # type: ignore[attr-defined]
    handle.argtypes, handle.restype = (ctypes.c_wchar_p,), ctypes.c_void_p
    return handle(name) or 0


def _windows_load(path: str) -> Library:
    if _windows_handle(path):
        return Library(path, "was-loaded")
    if _windows_handle(os.path.basename(path)):
        return Library(path, "other-loaded")
    try:
        ctypes.CDLL(path)
    except OSError as error:
        return Library(path, "not-loaded", str(error))
    return Library(path, "loaded")


def _windows_perform(target: Path | None) -> Preloaded:
    """What a start-up hook would do, in this process: folders that are searched, folders in front of
    PATH, libraries in their order."""
    from ._run import own_environment
    folder = own_environment() if target is None else os.fspath(target)
    n_findings = len(ask("check", target_words(folder))["environments"][0]["findings"])
    program = os.path.join(folder, "Scripts", "python.exe")
    program = program if os.path.exists(program) else os.path.join(folder, "python.exe")
    plan = ask("run", ["--json", "--", program], last=False)
    hook = plan["hook"] or {"searched": (), "on_path": (), "libraries": ()}
    for searched in hook["searched"]:
        os.add_dll_directory(searched)  # type: ignore[attr-defined]
    if hook["on_path"]:
        os.environ["PATH"] = os.pathsep.join([*hook["on_path"], os.environ.get("PATH", "")])
    return Preloaded([_windows_load(path) for path in hook["libraries"]], n_findings, plan["left"])


def _loads(way: dict[str, Any]) -> bool:
    """Whether a way consists of loading alone: nothing else can be done in a running process."""
    return way["reach"] == "start" and all(step["kind"] == "preload" for step in way["steps"])


def _perform(plan: dict[str, Any]) -> Preloaded:
    errors = [i for i, f in enumerate(plan["findings"]) if f["severity"] == "error"]
    way = max(filter(_loads, plan["ways"]), key=lambda w: len(w["mends"]), default=None)
    mended = way["mends"] if way else []
    left = [plan["findings"][i]["summary"] for i in errors if i not in mended]
    libraries = [_load(path, soname) for step in (way["steps"] if way else [])
                 for path, soname in zip(step["paths"], step["sonames"])]
    return Preloaded(libraries, len(errors), left + plan["cannot"])


def preload(imports: Sequence[str] | None = None, *, target: Path | None = None,
            strict: bool = False) -> Preloaded:
    """Loads the libraries that this environment's packages need and would not find.

    Call it before the first import of such a package:

        import gpumend
        gpumend.preload()

    They are loaded in the order in which they need one another, and stay loaded: a later request for
    one of these names is answered by them. Which ones these are is worked out in the loader model
    each time, so nothing has to be changed when a package moves. In a healthy environment nothing
    is loaded. A second call finds them all "was-loaded".

    imports: what the program will import, in this order; without it every order is looked at.

    It does not raise: what could not be done is told by the result. With `strict` it raises
    gpumend.Error unless the result is `ok`.
    """
    words = [*target_words(target), *import_words(imports), "--in-process"]
    with _one_at_a_time:
        try:
            done = _windows_perform(target) if WINDOWS else _perform(ask("fix", words))
        except Error as error:
            if strict:
                raise
            return Preloaded((), 0, (), str(error))
    if strict and not done.ok:
        raise Error("; ".join(done.problems()))
    return done
