#!/usr/bin/env python3
"""What a person meets first: mistyped words, and what a command says when nothing was asked of it.

    tests/cli.py GPUMEND

Every tree is made by tests/causes/tree.py; nothing of the machine is looked at but in copies.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests/causes"))
from tree import MACHINES, SHIM, Tree, compiled  # noqa: E402
from build import amd_gpu, merged, write  # noqa: E402


class Run:
    """One run of gpumend with an environment of its own."""

    def __init__(self, exe, *words, cwd="/", **env):
        done = subprocess.run([exe, *map(str, words)], cwd=cwd, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, check=False,
                              env={"PATH": "/usr/bin:/bin", **env})
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.lines = self.out.splitlines()


def misspelt(exe):
    """Each of the words that are checked against a list names its nearest neighbour."""
    for words, status, meant in ((["chekc"], 2, "did you mean check?"),
                                 (["devcies", "--json"], 2, "did you mean devices?"),
                                 (["check", "--jsn"], 2, "did you mean --json?"),
                                 (["fix", "--aply=3"], 2, "did you mean --apply?"),
                                 (["explain", "library-not-on-pth"], 2,
                                  "did you mean library-not-on-path?"),
                                 (["kb", "latest torhc"], 3, "did you mean torch?"),
                                 (["kb", "which torhc runs on sm_61"], 3, "did you mean torch?"),
                                 (["kb", "what does ctranslate 4.5.0 need"], 3,
                                  "did you mean ctranslate2?"),
                                 (["kb", "cudnn of ctranslat2"], 3, "did you mean ctranslate2?"),
                                 (["container", "dokcer"], 2, "did you mean docker?"),
                                 (["container", "chekc", "x"], 2, "did you mean check?"),
                                 (["choose", "--model", "whisper:large-v4"], 2,
                                  "did you mean large-v3?"),
                                 (["choose", "--model", "mediun"], 2, "did you mean medium?"),
                                 (["choose", "large-v3"], 2, "--model large-v3"),
                                 (["check", "--import", "tocrh", "/usr"], 3, "did you mean torch?"),
                                 (["container", "docker", "--gpus", "bset"], 2, "best"),
                                 (["check", "--root", "/", "--host", "/no/machine", "/usr"], 3,
                                  "/no/machine: No such file"),
                                 (["check", "--pid", "4194303"], 3, "no process 4194303")):
        r = Run(exe, *words)
        if r.status != status or meant not in r.err + r.out:
            yield f"{words}: status {r.status}: {r.err}{r.out}"
    for words in (["kb", "compute capability of titan v"], ["kb", "latest torch"]):
        r = Run(exe, *words)
        if r.status != 0 or "did you mean" in r.out:
            yield f"{words}: status {r.status}: {r.out}"
    for words in (["qqqqqq"], ["check", "--zzzzzz"], ["explain", "zzzzzzzz"],
                  ["container", "zzzzzzzz"], ["choose", "--model", "zzzzzzzz"]):
        r = Run(exe, *words)
        if r.status != 2 or "did you mean" in r.err:
            yield f"{words}: a guess where nothing is near: {r.err}"


def misspelt_package(exe):
    """A package that is not installed, but nearly the name of one that is."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder) / "root").python()
        tree.dist("torch", "2.5.1", [])
        r = Run(exe, "check", "--root", tree.top, tree.prefix, "--import", "torhc")
        if r.status != 3 or "torhc is not installed; did you mean torch?" not in r.out:
            yield f"status {r.status}: {r.out}"


def imports_that_are_not_all_known(exe):
    """What is not installed leaves no "ok", whatever is imported with it; the standard library,
    with the modules that have no file, needs no GPU library."""
    with tempfile.TemporaryDirectory() as folder:
        env = Path(folder) / "venv"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", env], check=True)
        for words, status, says in (("sys,json,time", 0, "no error in sys, json, time, used in"),
                                    ("sys", 0, "no error in sys, from import"),
                                    ("sys,no_such_module", 3, "no_such_module is not installed"),
                                    ("no_such_module,sys", 3, "no_such_module is not installed")):
            r = Run(exe, "check", env, "--import", words)
            if r.status != status or says not in " ".join(r.out.split()):
                yield f"{words}: status {r.status}: {r.out}"


def first_command_once(exe):
    """Two findings, neither repaired by gpumend: the end has the first one's command, once."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder) / "root").python()
        for name in ("orch-2.5.1", "translate2-4.6.0"):  # as a killed pip leaves them
            left = tree.real(tree.site) / f"~{name}.dist-info"
            left.mkdir()
            (left / "METADATA").write_text("")
        r = Run(exe, "check", "--root", tree.top, tree.prefix)
        last = r.lines[-1].split(maxsplit=3)
        command = last[3] if last[:3] == ["to", "do", "now"] else None
        twice = len(r.out.split("\n  to do ")) != 3 or r.out.count(command or "?") != 1
        if not command or twice or r.status != 3:  # what was meant to stay is not known
            yield f"{command}: {r.out}"


def environment_of_the_folder(exe):
    """Without TARGET the project's own environment is found; an active one comes before it."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "a project"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", project / "venv"],
                       check=True)
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", project / "other"],
                       check=True)
        for env, expected in (({}, "venv"), ({"VIRTUAL_ENV": str(project / "other")}, "other")):
            r = Run(exe, "check", "--json", cwd=project, **env)
            prefix = json.loads(r.out)["python"]["prefix"]
            if prefix != str(project / expected):
                yield f"{env}: {prefix}"
        (project / "venv").rename(project / ".venv")
        found = json.loads(Run(exe, "check", "--json", cwd=project).out)["python"]
        if (found["prefix"], found["chosen_by"]) != (str(project / ".venv"), "./.venv"):
            yield f".venv: {found['prefix']}, {found['chosen_by']}"
        if os.geteuid() == 0:
            os.chown(project / ".venv", 12345, 12345)
            r = Run(exe, "check", "--json", cwd=project)
            if json.loads(r.out)["python"]["prefix"] == str(project / ".venv"):
                yield "another user's environment is taken"
            if "belongs to another user" not in r.out:
                yield f"that it is passed over is not said: {r.out[-500:]}"


def devices_in_order(exe):
    """The GPU that can be used comes first, whatever the bus says; its model's memory is shown,
    and the last line is the command to run next."""
    with tempfile.TemporaryDirectory() as folder:
        machine = merged(MACHINES["geforce-desktop"][1],
                         amd_gpu("0000:00:01.0", 0x744c, 0xc8, 128, 24, driver=None))
        write(machine, Path(folder))
        r = Run(exe, "devices", "--root", folder)
        first, last = r.out.find("RTX 4090"), r.out.find("RX 7900 XTX")
        if first < 0 or last < 0 or first > last:
            yield f"the GPU that can be used is not first: {r.out}"
        if "RTX 4090 (Ada Lovelace, compute capability 8.9), at least 24 GB" not in r.out:
            yield f"memory: {r.out}"
        if not r.lines or r.lines[-1] != f"Run next: gpumend check --root {shlex.quote(folder)}":
            yield f"last line: {r.lines[-1:]}"
        document = json.loads(Run(exe, "devices", "--root", folder, "--json").out)
        gpus = [(g["vendor"], g["model_memory_gib"]) for g in document["gpus"]]
        if gpus != [("AMD", None), ("NVIDIA", 24)]:
            yield f"JSON does not keep the order of the bus with each model's memory: {gpus}"


def one_repair_is_one_finding(exe):
    """cuBLAS and cuDNN outside the search path: one finding, and no repair of one half of it."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder) / "root").python()
        tree.ctranslate2("4.5.0")
        tree.lib(f"{tree.site}/ctranslate2.libs/{SHIM}", rpath="ctranslate2.libs")
        tree.pip_cudnn()
        tree.pip_cublas()
        found = json.loads(Run(exe, "check", "--root", tree.top, tree.prefix, "--json").out)
        errors = [f for f in found["findings"] if f["severity"] == "error"]
        if len(errors) != 1 or errors[0]["cause"] != "library-not-on-path":
            yield f"{[(f['cause'], f['culprit']) for f in errors]}"
            return
        named = {errors[0]["culprit"], *errors[0]["likewise"]}
        if not {"libcublas.so.12", "libcudnn_graph.so.9"} <= named:
            yield f"not all are named: {named}"
        if any("pip install" in (r["command"] or "") for r in errors[0]["repairs"]):
            yield f"a repair of one half is offered for both: {errors[0]['repairs']}"


def library_alone(exe):
    """What an extension module leaves to the interpreter is no error; what a program lacks is."""
    with tempfile.TemporaryDirectory() as folder:
        module, program = Path(folder) / "_ext.cpython-311-x86_64-linux-gnu.so", Path(folder) / "program"
        library = Path(folder) / "libdefines.so"
        code = "extern int PyModule_Of_Test; int *address = &PyModule_Of_Test;"
        module.write_bytes(compiled(code))
        r = Run(exe, "check", module)
        if r.status != 0 or "needs the symbol PyModule_Of_Test, which the program" not in " ".join(
                r.out.split()):
            yield f"status {r.status}: {r.out}{r.err}"
        library.write_bytes(compiled("int PyModule_Of_Test;"))
        subprocess.run(["gcc", "-fPIC", "-x", "c", "-", "-o", program, "-L", folder, "-ldefines",
                        "-Wl,-rpath,$ORIGIN"], input=code + " int main(void) { return *address; }",
                       text=True, check=True)
        library.write_bytes(compiled("int PyModule_Of_Another_Test;"))
        r = Run(exe, "check", program)
        if r.status != 1 or "PyModule_Of_Test, and no loaded library" not in " ".join(r.out.split()):
            yield f"a program: status {r.status}: {r.out}{r.err}"


def distributions(exe):
    """What is no distribution's name is none, and where not all are listed the verdict is not ok."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder) / "root").python()
        site = tree.real(tree.site)
        (site / "-rfoo-1.0.dist-info").mkdir()
        (site / "-rfoo-1.0.dist-info/METADATA").write_text("Name: -rfoo\nVersion: 1.0\n")
        tree.dist("six", "1.16.0", [])
        r = Run(exe, "check", "--root", tree.top, tree.prefix, "--json")
        names = [p["name"] for p in json.loads(r.out)["python"]["packages"]]
        if r.status != 0 or "-rfoo" in names or "six" not in names or "its name is not valid" not in r.out:
            yield f"status {r.status}, {names}"
        for n in range(20000):
            (site / f"aa{n}-1.0.dist-info").mkdir()
        r = Run(exe, "check", "--root", tree.top, tree.prefix)
        if r.status != 3 or "more than 20000 distributions" not in r.out or "unknown" not in r.out:
            yield f"many: status {r.status}: {r.out}"


def places_of_distributions(exe):
    """Where not all places of distributions are looked at the verdict is not ok."""
    def many_files(site):
        for n in range(4100):
            (site / f"a{n}.pth").touch()

    def many_lines(site):
        (site / "a.pth").write_text("".join(f"/nowhere{n}\n" for n in range(16400)))

    def many_folders(site):
        for n in range(1100):
            (site / f"d{n}").mkdir()
        (site / "a.pth").write_text("".join(f"d{n}\n" for n in range(1100)))

    def large(site):
        (site / "a.pth").write_text("#\n" * 150000)

    for make in (many_files, many_lines, many_folders, large):
        with tempfile.TemporaryDirectory() as folder:
            tree = Tree(Path(folder) / "root").python()
            make(tree.real(tree.site))
            r = Run(exe, "check", "--root", tree.top, tree.prefix)
            if r.status != 3 or ".pth" not in r.out and "sys.path" not in r.out:
                yield f"{make.__name__}: status {r.status}: {r.out[-300:]}"


# The constants by which PyInstaller's bootloader is known.
BOOTLOADER = r"""
#include <stdio.h>
int main(int n, char **words) {
    return n > 1 ? printf("%s/base_library.zip", words[1]) : fputs(n ? "_MEIPASS" : "", stdout);
}
"""


def frozen_programs(exe):
    """The packages within a program are not seen, so that it is never ok."""
    def program(path, source):
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-x", "c", "-", "-o", str(path)], input=source.encode(), check=True)
        return path

    with tempfile.TemporaryDirectory() as folder:
        top, empty = Path(folder), "int main(void) { return 0; }"
        pyinstaller = program(top / "app/app", BOOTLOADER)
        cx_freeze, plain = program(top / "cx/app", empty), program(top / "plain/app", empty)
        (top / "cx/lib").mkdir()
        (top / "cx/lib/library.zip").touch()
        link = top / "link"
        link.symlink_to(cx_freeze)
        for path, status, meant in ((pyinstaller, 3, "frozen by PyInstaller"), (plain, 0, "ok"),
                                    (cx_freeze, 3, "frozen by cx_Freeze"),
                                    (link, 3, "frozen by cx_Freeze")):
            r = Run(exe, "check", path)
            if r.status != status or meant not in r.out:
                yield f"{path}: status {r.status}: {r.out}{r.err}"


CASES = [
    frozen_programs, distributions, places_of_distributions, library_alone,
    one_repair_is_one_finding, misspelt,
    misspelt_package, imports_that_are_not_all_known, first_command_once,
    environment_of_the_folder, devices_in_order]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    exe = Path(sys.argv[1]).resolve()
    failed = 0
    for case in CASES:
        faults = list(case(exe))
        failed += bool(faults)
        for fault in faults:
            print(f"FAIL {case.__name__}: {fault}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
