#!/usr/bin/python3
"""The file of an option (--html, --sarif) is the whole output, or what it was before.

    tests/report/outputs.py GPUMEND
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

failed, passed = [], 0


def expect(name, good):
    global passed
    if good:
        passed += 1
    else:
        failed.append(name)
        print(f"FAIL {name}")


def run(exe, folder, *words):
    done = subprocess.run([exe, *words], capture_output=True, text=True, cwd=folder, check=False)
    return done.returncode, done.stderr


def main():
    exe = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "windows/Windows/System32").mkdir(parents=True)
        (folder / "linux/usr/lib").mkdir(parents=True)
        errors = [("check", "--root", "windows", "--sarif"), ("check", "--root", "nowhere", "--html"),
                  ("check", "--snapshot", "nowhere", "--sarif"), ("why", "x.dll", "--root", "nowhere", "--html"),
                  ("fleet", "report", "nowhere", "--html")]
        for words in errors:
            name = " ".join(words)
            status, said = run(exe, folder, *words, "new")
            expect(f"{name}: an error", status == 3 and said)
            expect(f"{name}: no file", not (folder / "new").exists())
            (folder / "old").write_text("kept")
            run(exe, folder, *words, "old")
            expect(f"{name}: an older file stays", (folder / "old").read_text() == "kept")
        for option, end in (("--html", "</html>\n"), ("--sarif", "}\n")):
            (folder / "old").write_text("x" * (1 << 20))
            whole = subprocess.run([exe, "check", "--root", "linux", option, "-"], capture_output=True,
                                   text=True, cwd=folder, check=False)
            status, _ = run(exe, folder, "check", "--root", "linux", option, "old")
            text = (folder / "old").read_text()
            expect(f"{option}: the status", status == whole.returncode)
            expect(f"{option}: the whole", text.endswith(end) and text == whole.stdout)
        status, said = run(exe, folder, "check", "--root", "linux", "--html", "/dev/full")
        expect("a full device is said", status == 3 and "No space left" in said)
        status, said = run(exe, folder, "check", "--root", "linux", "--html", "nowhere/x")
        expect("a folder that is not there", status == 3 and "nowhere/x" in said)
        os.mkfifo(folder / "pipe")
        with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, cwd=folder) as reader:
            run(exe, folder, "check", "--root", "linux", "--html", "pipe")
            expect("a pipe", reader.communicate(timeout=60)[0].endswith(b"</html>\n"))
    print(f"{passed} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
