#!/usr/bin/python3
"""A document is not a log: `explain` gives no cause for texts that describe failures.

    tests/explain/documents.py GPUMEND [FOLDER]...

The texts are those of documents.jsonl, which were written for this test (guides, READMEs,
changelogs, plans, chats, mails, tables, source code; of the kind `healthy` logs of runs that work),
and the project's own documents and sources.
Each file of a FOLDER is one more. A failure is a cause, or a class at all, for one of them, and a
text of documents.jsonl with an earlier answer that is now without a mention. Then each of a few
real failures is put between sentences of a person who reports it, and must keep its cause.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
OWN = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "docs/causes/*.md",
       "src/log/*.c", "src/diag/*.c", "tests/explain/*.py", "scripts/*"]
LOGS_IN_FULL = {"docs/explain.md"}    # half of it is a whole log with its answer
FILES_AT_ONCE = 50
TOOL_S = 120
MENTIONS_WANTED = 0.75    # of the documents of documents.jsonl: they all mention failures

REPORTS = [
    "Hello, since the last update my transcription service does not start any more.\n"
    "When I run it by hand I get this:\n\n{log}\n\nI have an RTX 3060. Any help is appreciated!\n",
    "**Describe the bug**\nI installed it in a fresh environment and it fails at once.\n\n"
    "**To Reproduce**\n```\n$ python transcribe.py\n{log}\n```\n\n**Environment**\n"
    "- OS: Ubuntu 22.04\n\nI have tried to reinstall it but that did not help.\n",
    "- **Device:** a workstation of 2024\n- **OS:** Ubuntu 24.04\n- **Kernel:** 6.8.0\n"
    "- **Python version:** 3.12.3\n- **Installation:** from the archive\n"
    "- **GPU memory:** 12 GB\n- **Container:** no\n- **CPU:** Ryzen 5600\n{log}\n",
    "System:    Host: pc Kernel: 6.8.0 x86_64 bits: 64 Desktop: KDE\n\n"
    "When I start the program on my machine, I see:\n\nthe model is loaded\n{log}\n"
    "the user is member of the group video\n",
    "whisper-server 1.2\nThis program comes with ABSOLUTELY NO WARRANTY; for details type `show w'.\n"
    "This is free software, and you are welcome to redistribute it under certain conditions.\n{log}\n",
]
LOGS = {
    "driver-too-old": "terminate called after throwing an instance of 'std::runtime_error'\n"
                      "  what():  CUDA failed with error CUDA driver version is insufficient for "
                      "CUDA runtime version\nAborted (core dumped)",
    "driver-version-mismatch": "Failed to initialize NVML: Driver/library version mismatch",
    "gpu-memory-exhausted": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
                            "GPU 0 has a total capacity of 3.81 GiB of which 1.2 GiB is free.",
    "device-permission": "Unable to open /dev/kfd read-write: Operation not permitted",
    "gpu-code-missing": "RuntimeError: CUDA error: no kernel image is available for execution on "
                        "the device",
}


def documents(exe, files):
    """The answers about these files, in their order."""
    answers = []
    for first in range(0, len(files), FILES_AT_ONCE):
        some = [str(f) for f in files[first:first + FILES_AT_ONCE]]
        done = subprocess.run([exe, "explain", "--json", *some], capture_output=True, check=False,
                              timeout=TOOL_S)
        doc = json.loads(done.stdout)
        answers += doc.get("logs", [doc])
    return answers


def answer(exe, text):
    done = subprocess.run([exe, "explain", "--json", "-"], input=text.encode(), check=False,
                          capture_output=True, timeout=TOOL_S)
    return json.loads(done.stdout)


class Suite:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, ok):
        self.passed += ok
        self.failed += not ok
        if not ok:
            print(f"FAIL {name}")

    def no_cause(self, name, doc):
        self.check(f"{name}: {doc['class']} ({doc['entry']}, {doc['confidence']}), from "
                   f"{[item['text'][:100] for item in doc['evidence']]}", doc["class"] is None)


def main():
    exe = os.path.abspath(sys.argv[1])
    suite, mentioned = Suite(), 0
    rows = [json.loads(line) for line in (HERE / "documents.jsonl").open(encoding="utf-8")]
    for row in rows:
        doc = answer(exe, row["text"])
        suite.no_cause(f"{row['kind']} {row['id']}", doc)
        mentioned += bool(doc["mentions"])
        for item in doc["mentions"]:
            line = row["text"].split("\n")[item["line"] - 1]
            suite.check(f"{row['id']}: line {item['line']} does not say {item['text']!r}",
                        " ".join(item["text"].split()) in " ".join(line.split()))
    documents_n = sum(row["kind"] != "healthy" for row in rows)
    suite.check(f"{mentioned} of {documents_n} documents have a mention",
                mentioned >= MENTIONS_WANTED * documents_n)
    files = [f for glob in OWN for f in sorted(TOP.glob(glob)) if f.is_file()
             and str(f.relative_to(TOP)) not in LOGS_IN_FULL]
    for folder in sys.argv[2:]:
        files += sorted(f for f in Path(folder).rglob("*") if f.is_file())
    for file, doc in zip(files, documents(exe, files)):
        suite.no_cause(file, doc)
    for cause, log in LOGS.items():
        for i, report in enumerate(REPORTS):
            doc = answer(exe, report.replace("{log}", log))
            suite.check(f"report {i} of {cause}: {doc['cause']}, {doc['summary'][:80]}",
                        doc["cause"] == cause)
    print(f"{len(rows)} documents of documents.jsonl, {mentioned} with a mention; {len(files)} files; "
          f"{len(LOGS) * len(REPORTS)} reports")
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
