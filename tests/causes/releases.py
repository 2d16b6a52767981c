"""Which releases a printed repair asks an installer for, against what the knowledge base says of them.

lacking(tree, command) yields what is wrong with a command that moves a package to another release:
no wheel of it for the Python of the tree, or a library that the release opens, does not ask an
installer for, and finds neither in the tree nor in the command.
"""

import json
import re
import shlex
from pathlib import Path

KB = Path(__file__).resolve().parents[2] / "kb"
PYTHON = "3.11"      # of the trees


def rows(area):
    document = json.loads((KB / (area + ".json")).read_text())
    return [{**document.get("defaults", {}), **row} for row in document["rows"]]


RELEASES, COMPAT, PROVIDES = rows("releases"), rows("compat"), rows("provides")


def number(version):
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0]))


def fits(version, versions):
    """Whether a release is in a set of clauses: >=, <=, <, >, ==, ==1.2.*, !=, ~=."""
    own = number(version)
    for clause in filter(None, (versions or "").replace(" ", "").split(",")):
        sign, text = re.match(r"([<>=!~]=?)(.*)", clause).groups()
        wanted = number(text)
        width = max(len(own), len(wanted))
        a, b = (n + (0,) * (width - len(n)) for n in (own, wanted))
        same = own[:len(wanted)] == wanted if text.endswith(".*") else a == b
        good = {">=": a >= b, "<=": a <= b, "<": a < b, ">": a > b, "==": same, "!=": not same,
                "~=": a >= b and own[:len(wanted) - 1] == wanted[:-1]}
        if not good[sign]:
            return False
    return True


def installed(tree):
    """{name: version} of the dist-info folders of the tree."""
    found = {}
    for info in Path(tree.top).rglob("*.dist-info"):
        name, _, version = info.name[:-len(".dist-info")].rpartition("-")
        found[name.replace("_", "-").lower()] = version
    return found


def asked(command):
    """{name: versions} of the requirements after each `pip install`, without their extras."""
    found = {}
    for part in re.split(r"&&|;", command):
        words = shlex.split(part)
        if "install" not in words or "pip" not in words:
            continue
        for word in words[words.index("install") + 1:]:
            match = re.fullmatch(r"([A-Za-z][\w.-]*?)(?:\[[\w.,-]+\])?((?:[<>=!~]=?[\w.*+,<>=!~]+)?)", word)
            if match:
                found[match.group(1).lower()] = match.group(2)
    return found


def is_served(tree, package):
    """Whether a library that the package brings lies in the tree."""
    globs = [r["soname"] for r in PROVIDES
             if any(p.get("package") == package for p in r["providers"])]
    return any(next(Path(tree.top).rglob(g), None) for g in globs)


def lacking(tree, command):
    here, wanted = installed(tree), asked(command)
    for name, versions in wanted.items():
        listed = [r for r in RELEASES if r["package"] == name and fits(r["version"], versions)]
        if name not in here or not listed or fits(here[name], versions):
            continue
        usable = [r for r in listed if PYTHON in r.get("pythons", [])]
        if not usable:
            yield "%s%s has no wheel for Python %s" % (name, versions, PYTHON)
            continue
        newest = max(usable, key=lambda r: number(r["version"]))
        declared = {n["package"] for n in newest["needs"] if not n.get("extra")}
        compat = [c for c in COMPAT if c["package"] == name and fits(newest["version"], c["versions"])]
        for need in [n for c in compat for n in c.get("needs", [])]:
            package = need["package"]
            if "cuda-toolkit" in declared and package.startswith("nvidia-") and "-cu1" not in package:
                continue  # it comes with an extra of that
            if package not in declared | set(wanted) and not is_served(tree, package) and not (
                    package in here and fits(here[package], need.get("versions"))):
                yield "%s %s opens libraries of %s, which is neither there nor asked for: %s" % (
                    name, newest["version"], package, command)
