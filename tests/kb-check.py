#!/usr/bin/env python3
"""Checks the knowledge data itself: kb-check.py [KB-FOLDER]

Each kb/AREA.json against kb/schema/AREA.json and what a schema cannot say: rows sorted by unique
ids, real dates, expressions, version sets that are valid and do not overlap for one subject, globs that match
something, references between the areas, placeholders that exist. Standard library only; the
schemas use a small part of JSON Schema, which `validate` knows and anything else makes fail.
"""
import datetime
import json
import os
import re
import sys

SCHEMA_KEYS = {"$schema", "$id", "title", "description", "type", "required", "properties", "items",
               "additionalProperties", "enum", "const", "pattern", "minItems", "minLength", "$ref",
               "$defs"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
         "number": (int, float), "null": type(None)}
PLACEHOLDERS = {"dlopen": {"maj", "min", "pat", "file", "dir"},
                "imports": {"cuda", "cuda_nearest", "rocm", "rocm_nearest",
                            "cuda_major", "site", "CONDA_PREFIX", "CUDA_PATH"}}


# ---------------------------------------------------------------- a small JSON Schema

def type_matches(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def validate(value, schema, root, where, problems):
    """Appends a line to `problems` for each way in which value does not fit the schema."""
    for key in set(schema) - SCHEMA_KEYS:
        problems.append("%s: the schema uses %s, which is not known here" % (where, key))
    if "$ref" in schema:
        validate(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, where, problems)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(type_matches(value, name) for name in types):
        problems.append("%s: is no %s" % (where, " or ".join(types)))
        return
    if "enum" in schema and value not in schema["enum"]:
        problems.append("%s: %r is none of %s" % (where, value, schema["enum"]))
    if "const" in schema and value != schema["const"]:
        problems.append("%s: is not %r" % (where, schema["const"]))
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            problems.append("%s: %r does not match %s" % (where, value, schema["pattern"]))
        if len(value) < schema.get("minLength", 0):
            problems.append("%s: is too short" % where)
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            problems.append("%s: has too few entries" % where)
        for index, item in enumerate(value):
            validate(item, schema.get("items", {}), root, "%s[%d]" % (where, index), problems)
    if isinstance(value, dict):
        validate_object(value, schema, root, where, problems)


def validate_object(value, schema, root, where, problems):
    properties = schema.get("properties", {})
    for key in schema.get("required", []):
        if key not in value:
            problems.append("%s: %s is missing" % (where, key))
    for key, item in value.items():
        if key in properties:
            validate(item, properties[key], root, "%s.%s" % (where, key), problems)
        elif schema.get("additionalProperties") is False:
            problems.append("%s: unknown key %s" % (where, key))


# ---------------------------------------------------------------- version sets

SPECIFIER = re.compile(r"^(==|!=|~=|<=|>=|<|>)([0-9]+(?:\.[0-9]+)*)(\.\*)?$")
DECLARED = re.compile(r"^(==|!=|~=|<=|>=|<|>)[0-9][0-9A-Za-z.+!*-]*$")
BOTTOM, TOP = (), (float("inf"),)


def padded(version):
    """Release segments without trailing zeros, so that 2 and 2.0 are one version."""
    parts = [int(part) for part in version.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def interval(text):
    """The half-open interval [low, high) of a set; None if the text is no valid set. "!=" cuts
    nothing off, "==X" is [X, X.0...1)."""
    low, high = BOTTOM, TOP
    for part in text.split(","):
        match = SPECIFIER.match(part.strip())
        if not match or (match[3] and match[1] not in ("==", "!=")):
            return None
        operator, version = match[1], padded(match[2])
        after = version + (0, 0, 0, 1) if operator in ("<=", "==", ">") else version
        if operator == "~=" or match[3]:
            parts = [int(p) for p in match[2].split(".")]
            parts = parts if match[3] else parts[:-1]
            if not parts:
                return None
            after = tuple(parts[:-1] + [parts[-1] + 1])
        if operator in (">=", "~=", "=="):
            low = max(low, version)
        if operator == ">":
            low = max(low, after)
        if operator == "<":
            high = min(high, version)
        if operator in ("<=", "==", "~="):
            high = min(high, after)
    return (low, high) if low < high else None


def check_sets(rows, subject, text_of, problems):
    """Rows of one subject must have valid version sets that do not overlap."""
    by_subject = {}
    for row in rows:
        text = text_of(row)
        if text is None:
            continue
        span = interval(text)
        if span is None:
            problems.append("%s: %r is no version set, or an empty one" % (row["id"], text))
            continue
        by_subject.setdefault(subject(row), []).append((span, row["id"]))
    for spans in by_subject.values():
        spans.sort()
        for (one, first), (two, second) in zip(spans, spans[1:]):
            if two[0] < one[1]:
                problems.append("%s and %s: their version sets overlap" % (first, second))


def check_gaps(rows, problems):
    """The rows of one package leave no release out between the oldest and the newest."""
    by_package = {}
    for row in rows:
        span = interval(row["versions"])
        if span:
            by_package.setdefault(row["package"], []).append((span, row["id"]))
    for spans in by_package.values():
        spans.sort()
        for (one, first), (two, second) in zip(spans, spans[1:]):
            if two[0] != one[1]:
                problems.append("%s and %s: a gap between their version sets" % (first, second))


# ---------------------------------------------------------------- texts

def check_glob(glob, where, problems):
    """No alternatives, closed brackets, and not a pattern for everything."""
    if glob.strip("*?") == "" or re.search(r"[{}!\\]", glob):
        problems.append("%s: %r is no useful glob" % (where, glob))
    if glob.count("[") != glob.count("]") or "[]" in glob:
        problems.append("%s: %r has an open bracket" % (where, glob))


def check_placeholders(area, texts, where, problems):
    for text in texts:
        for name in re.findall(r"{([^}]*)}", text):
            if name not in PLACEHOLDERS[area]:
                problems.append("%s: no placeholder {%s} exists" % (where, name))


def check_row(row, before, problems):
    where = row.get("id", "a row without id")
    if before is not None and not before < row["id"]:
        problems.append("%s: stands behind %s, rows ascend by unique id" % (where, before))
    if "date" not in row:  # what gpumend makes of facts: a rule, no fact with a source
        return
    try:
        day = datetime.date.fromisoformat(row["date"])
        if day < datetime.date(2024, 1, 1):
            problems.append("%s: checked in %s?" % (where, day))
    except ValueError:
        problems.append("%s: %r is no date" % (where, row["date"]))
    for source in row["source"]:
        if not source.strip():
            problems.append("%s: an empty source" % where)
    if row["evidence"] == "ran" and not any("LD_DEBUG" in s or "loadLibraries" in s or "strace" in s
                                            or s.endswith(", called")
                                            or s.startswith("sys.meta_path ")
                                            for s in row["source"]) and "recipe" not in row:
        problems.append("%s: says it was run, and not how" % where)


# ---------------------------------------------------------------- areas

def check_dlopen(rows, areas, problems):
    families = {row["id"] for row in areas["families"]}
    for row in rows:
        for glob in row["objects"]:
            check_glob(glob, row["id"], problems)
        for request in row["opens"]:
            check_placeholders("dlopen", request["names"], row["id"], problems)
            if request.get("family", None) not in families | {None}:
                problems.append("%s: no family %s" % (row["id"], request["family"]))
            wants = any(re.search(r"{(maj|min|pat)}", name) for name in request["names"])
            if wants and row.get("version_from", "none") == "none":
                problems.append("%s: a version is wanted and not read from anywhere" % row["id"])
        if "object_version" in row and row.get("version_from", "none") == "none":
            problems.append("%s: object_version without version_from" % row["id"])
    def opened(row):
        return tuple(sorted(n for o in row["opens"] for n in o["names"]))
    check_sets(rows, lambda r: (tuple(r["objects"]), r["phase"], opened(r)),
               lambda r: r.get("object_version"), problems)
    check_sets([r for r in rows if r["id"].startswith("cudnn-9.") and "package" not in r],
               lambda r: tuple(r["objects"]), lambda r: r.get("object_version"), problems)
    check_sets(rows, lambda r: (r["package"]["name"], tuple(r["objects"]), opened(r))
               if "package" in r else r["id"],
               lambda r: r.get("package", {}).get("versions"), problems)


def check_imports(rows, areas, problems):
    check_sets(rows, lambda r: r["package"], lambda r: r["versions"], problems)
    check_gaps(rows, problems)
    known = {row["package"] for row in rows}
    for row in rows:
        if row["package"] != re.sub(r"[-_.]+", "-", row["package"]).lower():
            problems.append("%s: the package name is not normalised" % row["id"])
        for step in row["steps"]:
            for lib in step.get("libs", []):
                if "glob" in lib:
                    check_glob(lib["glob"], row["id"], problems)
                check_placeholders("imports", lib["folders"] + lib.get("late", []) +
                                   lib.get("names", []), row["id"], problems)
                if ("glob" in lib) == ("names" in lib):
                    problems.append("%s: a library has either glob or names" % row["id"])
            check_placeholders("imports", [step.get("file", "")] + step.get("fallback", []) +
                               step.get("names", []), row["id"], problems)
            if step["do"] == "import" and step["package"] == row["package"]:
                problems.append("%s: imports itself" % row["id"])
            if step["do"] == "preload" and step["when"] == "always" and "missing" not in step:
                problems.append("%s: a preload without 'missing': what must be there is a dlopen, "
                                "which tells what failed" % row["id"])
    for must in ("torch", "ctranslate2", "onnxruntime-gpu", "tensorflow", "jax", "vllm",
                 "bitsandbytes", "whisperx", "faster-whisper", "cupy-cuda12x"):
        if must not in known:
            problems.append("imports: nothing about %s" % must)


def check_provides(rows, areas, problems):
    families = {row["id"] for row in areas["families"]}
    for row in rows:
        check_glob(row["soname"], row["id"], problems)
        if row.get("family", None) not in families | {None}:
            problems.append("%s: no family %s" % (row["id"], row["family"]))
        for provider in row["providers"]:
            text = provider.get("versions")
            if text is not None and interval(text) is None:
                problems.append("%s: %r is no version set" % (row["id"], text))
            folder = provider.get("folder", "")
            if provider["manager"] in ("pip", "conda") and folder.startswith("/"):
                problems.append("%s: %s is not below the site folder" % (row["id"], folder))
            if provider["manager"] in ("apt", "dnf") and folder and not folder.startswith("/"):
                problems.append("%s: %s is not absolute" % (row["id"], folder))


def check_packages(rows, areas, problems):
    """One name for each manager; pip's are normalised, and belong to no other area."""
    elsewhere = {row["package"] for row in areas["releases"] + areas["imports"]}
    for row in rows:
        managers = [package["manager"] for package in row["packages"]]
        if len(managers) != len(set(managers)):
            problems.append("%s: a manager stands twice" % row["id"])
        for package in row["packages"]:
            name = package["package"]
            if package["manager"] != "pip":
                continue
            if name != re.sub(r"[-_.]+", "-", name).lower():
                problems.append("%s: the package name is not normalised" % row["id"])
            if name in elsewhere:
                problems.append("%s: pip's %s is in releases or imports" % (row["id"], name))


def check_repositories(rows, areas, problems):
    """One row a system and version; each vendor that a provider names has a row."""
    seen = set()
    for row in rows:
        for system in row["systems"]:
            if (system, row["version"]) in seen:
                problems.append("%s: %s %s stands twice" % (row["id"], system, row["version"]))
            seen.add((system, row["version"]))
        ending = ".deb" if row["manager"] == "apt" else ".repo"
        if "{arch}" not in row["address"] or not row["address"].endswith(ending):
            problems.append("%s: %s is no address of %s" % (row["id"], row["address"], row["manager"]))
    vendors = {row["vendor"] for row in rows} | {"rocm"}  # a folder for each release: named, not added
    for row in areas["provides"]:
        for provider in row["providers"]:
            if provider.get("repository", "cuda") not in vendors:
                problems.append("%s: no repository %s" % (row["id"], provider["repository"]))


def check_families(rows, areas, problems):
    for row in rows:
        for glob in row["members"]:
            check_glob(glob, row["id"], problems)


def check_compat(rows, areas, problems):
    check_sets(rows, lambda r: r["package"], lambda r: r["versions"], problems)
    for row in rows:
        for need in row["needs"]:
            if "versions" in need and interval(need["versions"]) is None:
                problems.append("%s: %r is no version set" % (row["id"], need["versions"]))


def numbers(version):
    return [int(part) for part in version.split(".")]


def check_ascending(texts, where, problems):
    """Architectures ascend and stand once."""
    values = [int(re.sub(r"\D", "", text)) for text in texts]
    if values != sorted(set(values)):
        problems.append("%s: %s do not ascend" % (where, texts))


def check_drivers(rows, areas, problems):
    toolkits = sorted((numbers(r["cuda"]), numbers(r["linux"]), r["id"]) for r in rows
                      if r["kind"] == "toolkit")
    for (_, one, first), (_, two, second) in zip(toolkits, toolkits[1:]):
        if two < one:
            problems.append("%s needs an older driver than %s" % (second, first))
    floors = {r["cuda"]: numbers(r["linux"]) for r in rows if r["kind"] == "minor-version"}
    for version, driver, name in toolkits:
        # CUDA 11.0 came with an older driver than the floor that 11.x got afterwards.
        if str(version[0]) in floors and version[1] > 0 and driver < floors[str(version[0])]:
            problems.append("%s: its driver is below the floor of its major" % name)
    for row in rows:
        if row["kind"].endswith("branch") == ("cuda" in row):
            problems.append("%s: a toolkit or a floor has a CUDA release, a branch none" %
                            row["id"])
        if (row["kind"] in ("last-branch", "first-branch")) != ("sm" in row):
            problems.append("%s: the last branch for architectures names them" % row["id"])
        check_ascending(row.get("sm", []), row["id"], problems)


def check_toolkits(rows, areas, problems):
    ordered = sorted(rows, key=lambda r: numbers(r["cuda"]))
    for row in rows:
        check_ascending(row["sm"], row["id"], problems)
    for one, two in zip(ordered, ordered[1:]):
        if numbers(two["ptx"]) < numbers(one["ptx"]):
            problems.append("%s: its PTX is older than that of %s" % (two["id"], one["id"]))
    names = {".".join(r["cuda"].split(".")[:2]) for r in areas["drivers"] if r["kind"] == "toolkit"}
    for row in rows:
        if row["cuda"] not in names:
            problems.append("%s: no driver is known for this toolkit" % row["id"])


def check_gpus(rows, areas, problems):
    known = {name for toolkit in areas["toolkits"] for name in toolkit["sm"]}
    targets = {r["gfx"][0] for r in areas["rocm"] if r["kind"] == "target"}
    by_id, chips = {}, {}
    for row in rows:
        value = row.get("capability") or row.get("gfx")
        is_nvidia = row["vendor"] == "nvidia"
        if is_nvidia != ("capability" in row) or is_nvidia == ("gfx" in row):
            problems.append("%s: NVIDIA has a capability, AMD a gfx target" % row["id"])
        if "capability" in row and "sm_" + value.replace(".", "") not in known:
            problems.append("%s: no toolkit compiles for %s" % (row["id"], value))
        if "gfx" in row and value not in targets:
            problems.append("%s: %s is no target of kb/rocm.json" % (row["id"], value))
        for device in row["pci"]:
            other = by_id.setdefault((row["vendor"], device), row["id"])
            if other != row["id"]:
                problems.append("%s and %s have the device id %s" % (other, row["id"], device))
        for chip in row["chips"]:
            if row["vendor"] == "nvidia" and chips.setdefault(chip, value) != value:
                problems.append("%s: %s has %s elsewhere" % (row["id"], chip, chips[chip]))


def check_builds(rows, areas, problems):
    # A wheel of the index may have other code on each platform.
    for platform in ("linux-x86-64", "linux-aarch64", "windows-x86-64"):
        check_sets([r for r in rows if platform in r.get("index_platforms", ["linux-x86-64"])],
                   lambda r: (r["package"], r["build"]), lambda r: r["versions"], problems)
    defaults = [r for r in rows if r["default"]]
    check_sets(defaults, lambda r: r["package"], lambda r: r["versions"], problems)
    toolkits = {row["cuda"]: row["sm"] for row in areas["toolkits"]}
    isas = {row["cuda"]: row["ptx"] for row in areas["toolkits"]}
    for row in rows:
        check_ascending(row.get("sm", []), row["id"], problems)
        check_ascending(row.get("ptx", []), row["id"], problems)
        if "ptx_isa" in row and "ptx" not in row:
            problems.append("%s: an ISA of PTX that it does not have" % row["id"])
        if row.get("ptx_isa", "") not in ("", *isas.values()):
            problems.append("%s: no toolkit has PTX ISA %s" % (row["id"], row["ptx_isa"]))
        isa, written = row.get("ptx_isa"), isas.get(row.get("cuda"))
        # Another compiler than the toolkit's writes its own: seen in tensorflow's wheels, read as files.
        read = any(source.startswith("wheel ") for source in row["source"])
        if isa and written and isa != written and not (read and numbers(isa) < numbers(written)):
            problems.append("%s: CUDA %s does not write PTX ISA %s" %
                            (row["id"], row["cuda"], row["ptx_isa"]))
        missing = set(row.get("sm", [])) - set(toolkits.get(row.get("cuda"), row.get("sm", [])))
        if missing:
            problems.append("%s: CUDA %s does not compile for %s" %
                            (row["id"], row["cuda"], missing))
        unread = row["package"] == "jetpack" and "cuda" not in row # of which only the L4T is known
        if ("cuda" in row) == ("rocm" in row) and not unread:
            problems.append("%s: a build is for CUDA or for ROCm" % row["id"])


def check_releases(rows, areas, problems):
    for row in rows:
        if row["id"] != "%s-%s" % (row["package"], row["version"]):
            problems.append("%s: is not PACKAGE-VERSION" % row["id"])
        for need in row["needs"]:
            for part in need.get("versions", "").split(","):
                if part and not DECLARED.match(part):
                    problems.append("%s: %r is no version set" % (row["id"], need["versions"]))
    for package, version in (("torch", "2.15"), ("ctranslate2", "4.8.5"), ("whisperx", "3.8.6"),
                             ("onnxruntime-gpu", "1.31"), ("vllm", "0.33"),
                             ("bitsandbytes", "0.50"), ("nvidia-cudnn-cu13", "9.28")):
        if not any(r["package"] == package and r["version"].startswith(version) for r in rows):
            problems.append("releases: nothing about %s %s" % (package, version))


def check_errors(rows, areas, problems):
    seen = {}
    for row in rows:
        key = (row["api"], row["code"], row.get("versions", "").startswith("<"))
        if seen.setdefault(key, row["id"]) != row["id"]:
            problems.append("%s and %s are the same code" % (seen[key], row["id"]))
        if not row["id"].endswith("-%d" % row["code"]):
            problems.append("%s: the id does not end with the code" % row["id"])


def check_rocm(rows, areas, problems):
    targets = {}
    for row in rows:
        if row["kind"] == "target":
            targets[row["gfx"][0]] = row
            major, rest = divmod(row["kfd"], 10000)
            name = "gfx%d%x%x" % (major, rest // 100, rest % 100)
            if [name] != row["gfx"] or row["id"] != name:
                problems.append("%s: gfx_target_version %d is %s" % (row["id"], row["kfd"], name))
    for row in rows:
        for name in row["gfx"]:
            if name not in targets and row["kind"] != "part-dropped":  # LLVM has those no more
                problems.append("%s: %s is no target here" % (row["id"], name))
        if (row["kind"] == "override") != ("override" in row and "verdict" in row):
            problems.append("%s: an override has a value and a verdict" % row["id"])
        if (row["kind"] == "part-dropped") != ({"part", "part_version", "rocm"} <= set(row)):
            problems.append("%s: a library that dropped targets has a version and a release" %
                            row["id"])


def check_models(rows, areas, problems):
    for row in rows:
        if (row["kind"] == "compute-type") != ("runs" in row):
            problems.append("%s: compute types have what they run as" % row["id"])
        if row["kind"] == "measured" and "memory_mib" not in row:
            problems.append("%s: without memory" % row["id"])
        if row["kind"] == "model" and "parameters_m" not in row:
            problems.append("%s: without its size" % row["id"])
    for device in ("cuda", "cpu"):
        check_sets([r for r in rows if r["kind"] == "compute-type" and r["device"] == device and
                    len(r["runs"]) > 1 and r["applies"][0] in "<>="],
                   lambda r: (r["engine"], r["device"]), lambda r: r["applies"], problems)


def check_nothing(rows, areas, problems):
    """The schema says it all."""


# ---------------------------------------------------------------- logs

# Classes of which no text without a known message was found that the model is sure enough about
# (docs/words.md): it says nothing of them.
WITHOUT_WORDS = {"device-busy", "exec-stack", "forward-compat", "out-of-memory", "symbol-missing"}


def check_words(rows, areas, problems):
    """Each class that is learnt has its rule, and the other way round."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "kb", "words", "logs.tsv"), encoding="utf-8") as file:
        learnt = {line.split("\t")[1] for line in file} - {"cannot-tell", "healthy"}
    told = set()
    for name in os.listdir(os.path.join(here, "..", "kb", "failures")):
        with open(os.path.join(here, "..", "kb", "failures", name), encoding="utf-8") as file:
            told.update(re.findall(r"^- id: words-(\S+)$", file.read(), re.M))
    for name in sorted((learnt - WITHOUT_WORDS) ^ told):
        problems.append("%s: %s" % (name, "no log has the class" if name in told else
                                    "kb/failures has no entry words-%s" % name))
    for row in rows:
        if not re.fullmatch(r"(?:\d+ -?\d+(?: (?=\d)|$))*", row["weights"]):
            problems.append("%s: weights are pairs of numbers" % row["id"])


CHECKS = {"builds": check_builds, "compat": check_compat, "cudnn": check_nothing,
          "dlopen": check_dlopen, "drivers": check_drivers, "errors": check_errors,
          "engines": check_nothing, "families": check_families, "glibc": check_nothing, "gpus": check_gpus,
          "imports": check_imports, "models": check_models, "packages": check_packages, "provides": check_provides,
          "releases": check_releases, "repositories": check_repositories, "rocm": check_rocm,
          "toolkits": check_toolkits, "traits": check_nothing, "words": check_words}


def load(path):
    def refuse_twice(pairs):
        keys = [key for key, _ in pairs]
        if len(keys) != len(set(keys)):
            raise ValueError("a key stands twice in one object: %s" % keys)
        return dict(pairs)
    with open(path, encoding="utf-8") as file:
        return json.load(file, object_pairs_hook=refuse_twice)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "kb")
    areas, passed, failed = {}, 0, 0
    for area in sorted(CHECKS):
        areas[area] = load(os.path.join(folder, area + ".json"))
    rows = {area: document["rows"] for area, document in areas.items()}
    for area, document in areas.items():
        problems = []
        schema = load(os.path.join(folder, "schema", area + ".json"))
        validate(document, schema, schema, area, problems)
        if not problems:
            before = None
            for row in document["rows"]:
                check_row(row, before, problems)
                before = row["id"]
            CHECKS[area](document["rows"], rows, problems)
        for line in problems:
            print("kb/%s.json: %s" % (area, line))
        failed += bool(problems)
        passed += not problems
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
