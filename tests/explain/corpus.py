"""The logs with known causes: our own in corpus/*.jsonl, and the collected ones outside.

A row has the fields of the collected cases (id, source, log, platform, cause, also_acceptable,
culprit, confirmed, fix) and two more: `format_source` says where the format of its messages comes
from (a file of the project that prints it, or its document), and `kind` is there for some:

    healthy     nothing failed; the texts only look alarming. Right is any answer without a cause.
    two         an earlier failure caused the later one, which is the louder.
    misleading  the message names something else than what is wrong.

`cause` is a class of the list, `not-gpu-runtime`, or `cannot-tell`: the text alone does not decide,
and the right answer is to say so. `confirmed` is for our own rows: the text states the cause
("confirmed"), or the cause follows from what it shows ("likely").

The causes are written down from the mechanisms, not from what the rules answer: a row that is not got
right is a fault of the rules unless the definitions of the classes say otherwise.
"""
import collections
import json
import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
COLLECTED = "failures-dev.jsonl"

NOT_GPU = "not-gpu-runtime"
CANNOT_TELL = "cannot-tell"
CLASSES = """
    lib-missing lib-not-on-path partial-cudnn sublib-version-mismatch wrong-major
    header-runtime-mismatch symbol-missing rpath-shadow ld-library-path-shadow env-set-too-late
    glibc-too-old exec-stack windows-dll crash-on-unload
    driver-too-old driver-not-loaded driver-lib-mismatch driver-bug forward-compat arch-unsupported
    gfx-unsupported compute-type-unsupported no-device device-busy permission uvm-not-loaded
    xid-hardware mig-config secure-boot fabric-manager nccl-error out-of-memory
    container-no-gpu container-lib-missing cgroup-lost wsl-specific jetson platform-unsupported
    cpu-only-build python-dep-conflict numpy-abi toolkit-missing lib-bug app-bug
""".split()
PLATFORMS = {"linux", "wsl", "windows", "container", "jetson", "macos", "unknown"}
FIELDS = {"id", "source", "log", "platform", "cause", "also_acceptable", "culprit", "confirmed",
          "fix", "format_source"}
KINDS = {"healthy", "two", "misleading"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def own():
    """Our own logs, in the order of their files."""
    return [row for path in sorted((HERE / "corpus").glob("*.jsonl")) for row in read(path)]


def collected():
    """The collected cases, or None where they are not at hand.

    $GPUMEND_CASES names the file or its folder; else the folder shared/cases beside the checkout.
    """
    place = Path(os.environ.get("GPUMEND_CASES") or TOP.parent / "shared/cases")
    path = place / COLLECTED if place.is_dir() else place
    return read(path) if path.is_file() else None


def row_faults(row):
    if not FIELDS <= set(row) <= FIELDS | {"kind"}:
        yield f"has the fields {sorted(row)}"
        return
    known = set(CLASSES) | {NOT_GPU, CANNOT_TELL}
    if row["cause"] not in known or not set(row["also_acceptable"]) <= known - {CANNOT_TELL}:
        yield f"names an unknown class: {row['cause']}, {row['also_acceptable']}"
    if row["cause"] in row["also_acceptable"]:
        yield "its cause is also_acceptable"
    if row["cause"] == CANNOT_TELL and (row["culprit"] or row["also_acceptable"]):
        yield "names a culprit though the text does not tell"
    if row["platform"] not in PLATFORMS or row["confirmed"] not in ("confirmed", "likely"):
        yield f"platform {row['platform']}, {row['confirmed']}"
    if "kind" in row and row["kind"] not in KINDS:
        yield f"is of the unknown kind {row['kind']}"
    for field in ("log", "fix", "format_source"):
        if not row[field].strip():
            yield f"{field} is empty"


def form_faults(rows):
    """What is wrong with the form of our own rows, and what of the kinds that they must cover."""
    for row in rows:
        for fault in row_faults(row):
            yield f"{row.get('id')}: {fault}"
    for field in ("id", "log"):
        for value, n in collections.Counter(row[field] for row in rows).items():
            if n > 1:
                yield f"{n} rows have the same {field}: {value[:60]!r}"
    per_class = collections.Counter(row["cause"] for row in rows)
    wanted = {name: 6 for name in CLASSES} | {NOT_GPU: 60, CANNOT_TELL: 40}
    for name, least in wanted.items():
        if per_class[name] < least:
            yield f"{name}: {per_class[name]} rows, {least} are needed"
    for platform in PLATFORMS - {"unknown", "macos"}:
        if sum(row["platform"] == platform for row in rows) < 6:
            yield f"platform {platform}: less than 6 rows"
