#!/usr/bin/python3
"""How `gpumend explain` takes its arguments, ends, follows a log that grows, and joins this machine.

    tests/explain/command.py GPUMEND
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "causes"))
from tree import Tree  # noqa: E402

# The text of each states its cause itself, so that these tests do not hang on a judgement.
CERTAIN = "Failed to initialize NVML: Driver/library version mismatch\n"
NOT_GPU = "OSError: [Errno 28] No space left on device: '/data/out.bin'\n"
NOTHING = "all is well\n"
WAIT_S = 20


class World:
    def __init__(self, exe, folder):
        self.exe, self.folder = exe, folder

    def run(self, *arguments, given=None):
        return subprocess.run([self.exe, "explain", *map(str, arguments)], cwd=self.folder, text=True,
                              input=given, stdin=None if given else subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False)

    def start(self, *arguments, stdin=subprocess.DEVNULL):
        return subprocess.Popen([self.exe, "explain", *arguments], cwd=self.folder, text=True,
                                stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def status_is(done, wanted):
    if done.returncode != wanted:
        yield f"status {done.returncode} instead of {wanted}: {done.stdout}{done.stderr}"


def piped(w):
    """What is piped in needs no word; without it, one short line asks for the log."""
    for text, wanted in ((CERTAIN, 1), (NOTHING, 3)):
        yield from status_is(w.run(given=text), wanted)
    for words in ((), ("crash.log",)):
        done = w.run(*words)
        yield from status_is(done, 2)
        if done.stdout or done.stderr.count("\n") != 1 or "--list" not in done.stderr:
            yield f"{words}: {done.stdout}{done.stderr}"


def statuses(w):
    """0: not of the GPU runtime; 1: a cause; 3: the text does not tell."""
    for text, wanted in ((CERTAIN, 1), (NOT_GPU, 0), (NOTHING, 3)):
        yield from status_is(w.run("-", given=text), wanted)
        yield from status_is(w.run("--", text), wanted)
        done = w.run("-", "--json", given=text)
        doc = json.loads(done.stdout)
        if (doc["cause"] is not None) != (wanted == 1) or (doc["class"] is None) != (wanted == 3):
            yield f"{text!r}: {doc['cause']}, {doc['class']}"


def long_prose(w):
    """A long text that names nothing of GPU programs is not a report of one that fails, and release
    notes are none at all."""
    head = "Notes of release 4.2\n"
    end = " * A segmentation fault of 4.1 at startup has been fixed.\n"
    fillers = "".join(f" * The parser is faster in case {i}.\n" for i in range(40))
    steps = "".join(f"part {i}: 3 of 7\n" for i in range(40))
    crash = "step 7 of release 4.1: segmentation fault, fixed in 4.2\n"
    for text, wanted in ((head + end, 1), (head + fillers + end, 3),
                         (head + fillers + end + " * It works with PyTorch 2.5.\n", 3),
                         (steps + crash, 3), (steps + crash + "torch 2.5\n", 1)):
        yield from status_is(w.run("-", given=text), wanted)


def issue_form(w):
    """Under a heading the only line is its value; a paragraph below it is not."""
    for text, wanted in (("### TensorFlow version\n\n2.12.1\n\n### Other\n\nx\n", ["2.12.1"]),
                         ("### TensorFlow version\n2.12.1\n", ["2.12.1"]),
                         ("### TensorFlow version\n\n2.12.1\n\nis what I want\n", []),
                         ("### TensorFlow version\n\n- 2.12.1\n", []),
                         ("Some text\n\n2.12.1\n", [])):
        facts = json.loads(w.run("--json", "-", given=text).stdout)["facts"]
        found = [fact["tensorflow"] for fact in facts.get("tensorflow-named", [])]
        if found != wanted:
            yield f"{text!r}: {found}"


def long_warning(w):
    """A warning of Python gives advice over many lines: it is a program's all the same."""
    said = "Could not load libtorchcodec. Likely causes:\n%s\nFFmpeg version 7: libavutil.so.59: cannot open " \
           "shared object file: No such file or directory\n" % "\n".join(
               "  %d. The part %d is not properly installed in your environment; see the table." % (n, n)
               for n in range(1, 7))
    for text, wanted in (("cpu\n/opt/io.py:48: UserWarning: \n%s  warnings.warn(\n" % said, False),
                         ("cpu\n/opt/io.py:48: UserWarning: \n" + said, True), ("cpu\n" + said, True)):
        doc = json.loads(w.run("--json", "-", given=text).stdout)
        if doc["describes"] != wanted:
            yield f"{text!r}: {doc['cause']}, {doc['describes']}"


def several(w):
    """Each log by itself; a cause counts most, then what could not be told."""
    for name, text in (("a", CERTAIN), ("b", NOT_GPU), ("c", NOTHING)):
        (w.folder / name).write_text(text)
    for names, wanted in (("abc", 1), ("bc", 3), ("bb", 0)):
        done = w.run(*(f"./{n}" for n in names), "--json")
        yield from status_is(done, wanted)
        files = [log["file"] for log in json.loads(done.stdout)["logs"]]
        if files != [f"./{n}" for n in names]:
            yield f"the logs are {files}"
    done = w.run("./b", "./gone")
    yield from status_is(done, 3)
    if "./gone" not in done.stderr or "No space" not in done.stdout:
        yield f"beside a file that is gone: {done.stdout}{done.stderr}"


def cause_or_file(w):
    """The name of a cause is that cause, unless it is written as a path."""
    (w.folder / "driver-too-old").write_text(NOT_GPU)
    page, log = w.run("driver-too-old"), w.run("./driver-too-old")
    if page.returncode != 0 or "No space" in page.stdout:
        yield f"the cause: {page.stdout[:200]}"
    if log.returncode != 0 or "No space" not in log.stdout:
        yield f"the file: {log.stdout[:200]}"
    yield from status_is(w.run("no-such-name"), 2)
    yield from status_is(w.run("no/such/file"), 3)
    yield from status_is(w.run("./driver-too-old", "--", "text"), 2)
    yield from status_is(w.run("--follow", "a", "b"), 2)


def follow_file(w):
    """What is certain is printed while the log still grows; Ctrl-C ends it."""
    log = w.folder / "growing"
    log.write_text(NOTHING)
    child = w.start("--follow", "--json", "./growing")
    time.sleep(0.5)
    with open(log, "a", encoding="utf-8") as file:
        file.write(CERTAIN[:20])
        file.flush()
        time.sleep(0.5)
        file.write(CERTAIN[20:])
    os.set_blocking(child.stdout.fileno(), False)
    first, until = "", time.monotonic() + WAIT_S
    while not first.endswith("\n") and time.monotonic() < until:
        try:
            first += os.read(child.stdout.fileno(), 1 << 20).decode()
        except BlockingIOError:
            time.sleep(0.05)
    if child.poll() is not None or not first or json.loads(first)["cause"] is None:
        yield f"while it grows: {first!r}, status {child.poll()}"
    child.send_signal(signal.SIGINT)
    os.set_blocking(child.stdout.fileno(), True)
    rest, errors = child.communicate(timeout=WAIT_S)
    if child.returncode != 1 or json.loads(rest)["cause"] != json.loads(first)["cause"]:
        yield f"at the end: status {child.returncode}, {rest!r}, {errors!r}"


def follow_cut(w):
    """A log that is begun anew is read from its beginning."""
    log = w.folder / "cut"
    log.write_text(NOTHING * 100)
    child = w.start("--follow", "./cut")
    time.sleep(0.6)
    log.write_text(CERTAIN)
    time.sleep(1.0)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=WAIT_S)
    if child.returncode != 1 or "kernel module" not in output:
        yield f"status {child.returncode}: {output}{errors}"


def await_line(child, what):
    """The next line that it prints, or "" if it does not come."""
    os.set_blocking(child.stdout.fileno(), False)
    line, until = "", time.monotonic() + WAIT_S
    while not line.endswith("\n") and time.monotonic() < until and child.poll() is None:
        try:
            line += os.read(child.stdout.fileno(), 1 << 20).decode()
        except BlockingIOError:
            time.sleep(0.05)
    os.set_blocking(child.stdout.fileno(), True)
    return [] if line.endswith("\n") else [f"{what}: {line!r}, status {child.poll()}"]


def stop(child):
    child.send_signal(signal.SIGINT)
    return child.communicate(timeout=WAIT_S)


def follow_rotated(w):
    """Another file of the same name is gone on with, as logrotate makes it; the old one first."""
    log = w.folder / "app.log"
    log.write_text(NOTHING + "the last line has no end")
    child = w.start("--follow", "--json", "./app.log")
    time.sleep(0.5)
    old = open(log, "a", encoding="utf-8")          # the writer has not been told yet
    log.rename(w.folder / "app.log.1")
    time.sleep(0.5)                                 # no file of that name for a while
    log.write_text(NOTHING)
    old.write(", but now\n")
    old.close()
    time.sleep(0.7)
    with open(log, "a", encoding="utf-8") as file:
        file.write(CERTAIN)
    yield from await_line(child, "behind a rotation")
    output, errors = stop(child)
    doc = json.loads(output) if output else {}
    if child.returncode != 1 or [e["line"] for e in doc.get("evidence", [])] != [4]:
        yield f"status {child.returncode}: {output}{errors}"


def follow_rotated_at_once(w):
    """What was written to the old file just before the change is not lost."""
    log = w.folder / "app.log"
    log.write_text(NOTHING)
    child = w.start("--follow", "--json", "./app.log")
    time.sleep(0.5)
    with open(log, "a", encoding="utf-8") as file:
        file.write(CERTAIN)
    log.rename(w.folder / "app.log.1")
    log.write_text(NOTHING)
    yield from await_line(child, "before a rotation")
    output, errors = stop(child)
    if child.returncode != 1 or not output or json.loads(output)["cause"] is None:
        yield f"status {child.returncode}: {output}{errors}"


def follow_cut_line(w):
    """A line that was cut off does not join the first line of what comes after."""
    log = w.folder / "cut"
    log.write_text(NOTHING * 100 + "Failed to initialize NVML: Driver/library ")
    child = w.start("--follow", "--json", "./cut")
    time.sleep(0.6)
    log.write_text("version mismatch\n")
    time.sleep(0.8)
    output, errors = stop(child)
    if not output or any("library version" in e["text"] for e in json.loads(output)["evidence"]):
        yield f"two halves of two files: {output}{errors}"


def follow_replaced_by_other(w):
    """A folder or a pipe of that name is no log; the file that was opened is read on."""
    log = w.folder / "app.log"
    log.write_text(NOTHING)
    child = w.start("--follow", "--json", "./app.log")
    time.sleep(0.5)
    log.rename(w.folder / "app.log.1")
    os.mkfifo(log)
    time.sleep(0.5)
    with open(w.folder / "app.log.1", "a", encoding="utf-8") as file:
        file.write(CERTAIN)
    yield from await_line(child, "with a pipe in its place")
    output, errors = stop(child)
    if child.returncode != 1:
        yield f"status {child.returncode}: {output}{errors}"


def follow_stdin(w):
    """Standard input ends the following where it ends."""
    child = w.start("--follow", "--json", "-", stdin=subprocess.PIPE)
    child.stdin.write(NOTHING + CERTAIN)
    child.stdin.flush()
    first = child.stdout.readline()
    output, errors = child.communicate(input=NOTHING, timeout=WAIT_S)
    if child.returncode != 1 or json.loads(first) != json.loads(output):
        yield f"status {child.returncode}: {first!r}, {output!r}, {errors!r}"


def here(w):
    """The verdict of this machine's check stands beside the text's."""
    check = subprocess.run([w.exe, "check", "--json"], cwd=w.folder, capture_output=True, text=True,
                           timeout=60, check=False)
    checked = json.loads(check.stdout)
    for text in (CERTAIN, NOTHING):
        doc = json.loads(w.run("--here", "--json", "-", given=text).stdout)
        mine = [(f["cause"], f["culprit"]) for f in doc["here"]["findings"]]
        if (doc["here"]["verdict"], mine) != (
                checked["verdict"], [(f["cause"], f["culprit"]) for f in checked["findings"]]):
            yield f"here is {doc['here']}"
        if (doc["here"]["agrees"] is None) != (doc["cause"] is None):
            yield f"{doc['cause']}: agrees is {doc['here']['agrees']}"
        if (doc["here"]["finding"] is not None) != bool(doc["here"]["agrees"]):
            yield f"agrees is {doc['here']['agrees']} with {doc['here']['finding']}"


def there(w):
    """A finding about the library that the text names agrees, and the environment is named."""
    t = Tree(w.folder / "root")
    t.python().ctranslate2()
    t.pip_cublas()
    text = "RuntimeError: Library libcublas.so.12 is not found or cannot be loaded\n"
    doc = json.loads(w.run("--root", w.folder / "root", "--json", "-", given=text).stdout)
    if not doc["here"]["agrees"] or doc["here"]["finding"]["cause"] != "library-not-on-path":
        yield f"{doc['cause']}: here is {doc['here']}"
    said = w.run("--root", w.folder / "root", "-", given=text).stdout
    if "below --root (/opt/venv) agrees" not in " ".join(said.split()):
        yield said


def main():
    exe = str(Path(sys.argv[1]).resolve())
    passed = failed = 0
    for test in (piped, statuses, long_prose, issue_form, long_warning, several, cause_or_file, follow_file, follow_cut,
                 follow_cut_line,
                 follow_rotated, follow_rotated_at_once, follow_replaced_by_other, follow_stdin, here,
                 there):
        with tempfile.TemporaryDirectory(prefix="gpumend-explain-") as folder:
            faults = list(test(World(exe, Path(folder))))
        for fault in faults:
            print(f"FAIL {test.__name__}: {fault}")
        failed += bool(faults)
        passed += not faults
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
