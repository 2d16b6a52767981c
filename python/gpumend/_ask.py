"""check(), choose(), explain(), explain_log(), fix(), undo(), enable(), disable(): questions to the
executable.

The dataclasses hold what docs/json.md promises, under the same names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ._run import WINDOWS, Error, ask, import_words, target_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._run import Path

Severity = Literal["error", "warning", "note"]


# ---- check -----------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Repair:
    """What can be done about a finding."""

    kind: str
    text: str
    command: str | None
    """Can be pasted into a shell; None: there is none."""


@dataclass(frozen=True)
class Finding:
    """One root cause; several symptoms of it are one finding."""

    cause: str
    """Stable identifier, as explain() takes it."""
    cause_class: str
    severity: Severity
    culprit: str
    summary: str
    """One sentence about this very case."""
    evidence: tuple[str, ...]
    likewise: tuple[str, ...]
    """Further libraries with the same fault."""
    scripts: tuple[str, ...]
    """The imports in which it shows."""
    repairs: tuple[Repair, ...]
    """The least invasive first."""


@dataclass(frozen=True)
class Report:
    """What check() found."""

    verdict: Literal["ok", "broken", "unknown"]
    """"unknown": no error was found, and something that matters could not be looked at."""
    findings: tuple[Finding, ...]
    """The one to act on first stands first."""
    fine: tuple[str, ...]
    notes: tuple[str, ...]
    """What could not be looked at."""
    document: Mapping[str, Any] = field(repr=False, compare=False)
    """All that `gpumend check --json` prints (docs/json.md)."""

    @property
    def ok(self) -> bool:
        """Everything was looked at, and nothing is an error."""
        return self.verdict == "ok"


def _finding(f: dict[str, Any]) -> Finding:
    return Finding(cause=f["cause"], cause_class=f["class"], severity=f["severity"],
                   culprit=f["culprit"], summary=f["summary"], evidence=tuple(f["evidence"]),
                   likewise=tuple(f["likewise"]), scripts=tuple(f["scripts"]),
                   repairs=tuple(Repair(r["kind"], r["text"], r["command"]) for r in f["repairs"]))


def check(target: Path | None = None, *, imports: Sequence[str] | None = None,
          root: Path | None = None, pid: int | None = None) -> Report:
    """Which library requests fail or end at the wrong file, and why. Nothing is executed or changed.

    imports: what the program imports, in this order; without it every order is looked at.
    root: look at the file system below this folder, a container's or another machine's.
    pid: look at a running process.
    """
    if WINDOWS:
        return _windows_check(target, imports, root, pid)
    words = import_words(imports)
    if root is not None:
        words += ["--root", os.fspath(root)]
    if pid is not None:
        words += ["--pid", str(pid)]
    if target is not None or (root is None and pid is None):
        words += target_words(target)
    document = ask("check", words)
    return Report(verdict=document["verdict"],
                  findings=tuple(map(_finding, document["findings"])),
                  fine=tuple(document["fine"]), notes=tuple(document["notes"]), document=document)


def _refuse(**given: object) -> None:
    """What gpumend.exe has no option for."""
    for name, value in given.items():
        if value:
            raise Error("%s is not available on Windows" % name, 3)


def _windows_finding(f: dict[str, Any], script: str) -> Finding:
    """The document of a Windows machine has other members (docs/json/check-windows.schema.json)."""
    repairs = tuple(Repair("python" if r["python"] else "text", r["says"],
                           r["powershell"] or r["cmd"] or r["python"]) for r in f["repairs"])
    return Finding(cause=f["id"], cause_class=f["class"], severity=f["severity"], culprit=f["title"],
                   summary=f["title"], evidence=(f["evidence"],), likewise=(), scripts=(script,),
                   repairs=repairs)


def _windows_check(target: Path | None, imports: Sequence[str] | None, root: Path | None,
                   pid: int | None) -> Report:
    _refuse(imports=imports, pid=pid is not None)
    words = ["--root", os.fspath(root)] if root is not None else []
    if target is not None or root is None:
        words += target_words(target)
    document = ask("check", words)
    found = tuple(_windows_finding(f, e["path"]) for e in document["environments"] for f in e["findings"])
    unknown = tuple(text for e in document["environments"] for text in e["unknown"])
    return Report(verdict=document["verdict"], findings=found, fine=(),
                  notes=unknown + tuple(document["not_looked_at"]), document=document)


# ---- choose ----------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Choice:
    """The device that will work here and that the model fits on."""

    verdict: Literal["ok", "broken", "unknown"]
    """"unknown": it cannot be determined whether the model fits; "broken": nothing will work."""
    device: Literal["cuda", "rocm", "cpu"] | None
    """None: nothing will work, and `reason` says why."""
    index: int | None
    """As the runtime counts with `exports` set; None for the CPU."""
    name: str | None
    argument: str | None
    """The device in the words of the application: "cuda:1", "CUDAExecutionProvider"."""
    compute_type: str | None
    threads: int | None
    fallback: bool
    """The CPU, though a GPU would be preferred."""
    cause: str | None
    reason: str
    step: str | None
    """What would give the GPU back, or tell its memory."""
    command: str | None
    """The step, or its end, as a shell takes it."""
    required_bytes: int | None
    available_bytes: int | None
    exports: Mapping[str, str]
    """Variables that should be set before the application's first use of the device."""
    notes: tuple[str, ...]
    document: Mapping[str, Any] = field(repr=False, compare=False)
    """All that `gpumend choose --json` prints (docs/json.md)."""


def choose(model: str | None = None, app: str | None = None, *, memory_gib: float | None = None,
           compute_type: str | None = None, require_gpu: bool = False,
           target: Path | None = None) -> Choice:
    """Device, compute type and threads that will work here.

    model: "whisper:large-v3" and the other sizes of Whisper.
    app: "ctranslate2", "torch", "onnxruntime" or "whisperx"; without it the first that is installed.
    memory_gib: what the model takes on the device, where it is not known by name.
    compute_type: this one and no other, "int8_float16".
    require_gpu: no GPU is an answer without a device, not the CPU.
    """
    if WINDOWS:  # where the packages of an environment are not asked
        _refuse(target=target is not None)
    words = [] if WINDOWS else target_words(target)
    for option, value in (("--model", model), ("--app", app), ("--memory-gib", memory_gib),
                          ("--compute-type", compute_type)):
        if value is not None:
            words += [option, str(value)]
    if require_gpu:
        words.append("--require-gpu")
    d = ask("choose", words)
    return Choice(verdict=d["verdict"], device=d["device"], index=d["index"], name=d["name"],
                  argument=d["argument"], compute_type=d["compute_type"], threads=d["threads"],
                  fallback=d["fallback"], cause=d["cause"], reason=d["reason"], step=d["step"],
                  command=d["command"],
                  required_bytes=d["required_bytes"], available_bytes=d["available_bytes"],
                  exports=d["exports"], notes=tuple(d["notes"]), document=d)


# ---- explain ---------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Page:
    """What is known of a cause."""

    cause: str
    cause_class: str
    severity: Severity
    title: str
    """One sentence."""
    page: str
    """What happens, how to see it, what to do."""


def explain(text: str) -> Page:
    """The page of a cause, by the identifier that a finding has ("library-not-on-path").

    Error if `text` is none. What a program prints when it fails is for explain_log().
    """
    none = Error("no cause is called %r" % text, 2)
    if not text or text.startswith("-") or "\0" in text:
        raise none
    try:
        d = ask("explain", [text])
    except Error as error:
        if error.status != 2:
            raise
        raise none from None
    if "page" not in d:  # a file of that name, which is a log to the executable
        raise none
    return Page(cause=d["cause"], cause_class=d["class"], severity=d["severity"], title=d["title"],
                page=d["page"])


# ---- explain a log ---------------------------------------------------------------------------------

@dataclass(frozen=True)
class LogLine:
    """A line of a log, counted from 1 on."""

    line: int
    text: str


@dataclass(frozen=True)
class LogRepair:
    """What can be done about the cause that a log shows."""

    platform: str
    """That it is for: "any", "linux", "windows", "wsl", "container", "jetson", "macos"."""
    text: str
    command: str | None


@dataclass(frozen=True)
class Diagnosis:
    """Which cause a log shows."""

    cause: str | None
    """As explain() takes it; None: no problem of the GPU runtime, or the text does not tell."""
    cause_class: str | None
    """"not-gpu-runtime": no problem of the GPU runtime; None: the text does not tell."""
    culprit: str | None
    entry: str | None
    """The entry of the rule base that this is from; None: the text does not tell."""
    confidence: Literal["certain", "likely", "possible"] | None
    summary: str
    evidence: tuple[LogLine, ...]
    repairs: tuple[LogRepair, ...]
    decides: str | None
    """What to send or run to be sure; None: nothing more is needed."""
    document: Mapping[str, Any] = field(repr=False, compare=False)
    """All that `gpumend explain - --json` prints (docs/json.md)."""


def explain_log(text: str | bytes) -> Diagnosis:
    """Which cause the text shows that a program printed when it failed, and what to do about it.

    Nothing of this machine is looked at: the text may be of another one.
    """
    given = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    d = ask("explain", ["-"], given)
    return Diagnosis(cause=d["cause"], cause_class=d["class"], culprit=d["culprit"],
                     entry=d["entry"], confidence=d["confidence"], summary=d["summary"],
                     evidence=tuple(LogLine(e["line"], e["text"]) for e in d["evidence"]),
                     repairs=tuple(LogRepair(r["platform"], r["text"], r["command"])
                                   for r in d["repairs"]),
                     decides=d["decides"], document=d)


# ---- fix and undo ----------------------------------------------------------------------------------

@dataclass(frozen=True)
class Repaired:
    """What fix() has done."""

    result: Literal["verified", "not-verified", "failed"] | None
    """"failed": it did not help and was taken back; None: nothing was to be done, or no repair is
    known for what is in `left`."""
    why: str | None
    """Why it failed or could not be tried."""
    title: str | None
    journal: int | None
    """For undo(); None: nothing stays changed."""
    left: tuple[str, ...]
    """The errors that there are now, one sentence each."""
    start: Mapping[str, str | None]
    """Variables that programs must be started with besides; None: without it."""
    document: Mapping[str, Any] = field(repr=False, compare=False)
    """All that `gpumend fix --apply --json` prints (docs/json.md)."""


def fix(target: Path | None = None, *, imports: Sequence[str] | None = None,
        select: int | None = None, packages: bool = False) -> Repaired:
    """Carries out the repair that fixes the most errors, tries it, and takes it back if it fails.

    The files are changed behind a journal; the environment's own interpreter tries the repair, and
    the GPU is run if there is one. undo() takes back what fix() has done. Error if there are repairs
    and none of them can be applied here: nothing is changed then.

    select: the number of a repair, as `gpumend fix` prints it.
    packages: packages of the environment may be changed, by its own pip or by uv.
    """
    if WINDOWS:
        raise Error("fix() is not available on Windows; check() has the repairs, enable() and preload() make "
                    "those that need no installer", 3)
    words = [*target_words(target), "--apply", *import_words(imports)]
    if select is not None:
        words += ["--select", str(select)]
    if packages:
        words.append("--packages")
    d = ask("fix", words, limit_s=None)
    if "did" not in d:  # the plan, which has nothing that could be carried out
        left = tuple(f["summary"] for f in d["findings"] if f["severity"] == "error")
        return Repaired(result=None, why=None, title=None, journal=None, left=left, start={},
                        document=d)
    return Repaired(result=d["result"], why=d["why"], title=d["title"], journal=d["journal"],
                    left=tuple(d["left"]), start=d["start"], document=d)


def undo(target: Path | None = None, *, journal: int | None = None) -> int | None:
    """Takes back what fix() has done: the files are byte for byte what they were before.

    journal: which one; without it the latest. The number of the journal that was taken back; None
    if there was none. Error if others have changed the files since: nothing is changed then.
    """
    if WINDOWS:
        raise Error("undo() is not available on Windows; disable() takes back what enable() did", 3)
    words = [*target_words(target), "--undo"]
    if journal is not None:
        words.append(str(journal))
    done: int | None = ask("fix", words, limit_s=None)["journal"]
    return done


# ---- enable and disable ----------------------------------------------------------------------------

@dataclass(frozen=True)
class Enabled:
    """The start-up hook that enable() has put into an environment."""

    journal: int
    """Number of the journal, as `gpumend fix --list` shows it; 0 on Windows, which has none."""
    title: str
    verified: bool
    """The environment's own interpreter found every library with it."""
    why: str | None
    """Why it could not be tried; None if `verified`."""


def enable(target: Path | None = None, *, imports: Sequence[str] | None = None) -> Enabled:
    """Puts a start-up hook into an environment, so that its programs are mended unchanged.

    Two files are added to site-packages; disable() takes them out again. The hook is tried out by the
    environment's interpreter. Error if no hook helps: the environment is then as it was.
    """
    if WINDOWS:
        _refuse(imports=imports)
        d = ask("enable", target_words(target), limit_s=None)
        if d["result"] not in ("verified", "not-verified"):
            raise Error("no start-up hook helps here" if d["result"] is None else
                        "the hook did not help and was taken back: %s" % d["why"], 1)
        return Enabled(journal=0, title="a start-up hook", verified=d["result"] == "verified", why=d["why"])
    d = ask("enable", [*target_words(target), *import_words(imports)], limit_s=None)
    if d["taken_back"] or d["journal"] is None:
        raise Error("the hook did not help and was taken back: %s" % d["why"], 1)
    return Enabled(journal=d["journal"], title=d["title"], verified=d["result"] == "verified",
                   why=d["why"])


def disable(target: Path | None = None) -> int | None:
    """Takes the start-up hook out: the environment is byte for byte what it was before.

    The number of the journal that was taken back (0 on Windows); None if there was no hook.
    """
    if WINDOWS:
        return 0 if ask("disable", target_words(target))["removed"] else None
    journal: int | None = ask("disable", target_words(target))["journal"]
    return journal


for _shown in (Repair, Finding, Report, Choice, Page, LogLine, LogRepair, Diagnosis, Enabled,
               Repaired):
    _shown.__module__ = "gpumend"
for _function in (check, choose, explain, explain_log, fix, undo, enable, disable):
    _function.__module__ = "gpumend"
