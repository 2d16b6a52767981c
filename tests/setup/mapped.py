"""What a process has mapped, against what `check` says that it loads."""

from pathlib import Path


def differences(mapped, processes):
    """The faults, and how many of the file names both have. `check` does not list every module of Python.

    The loader finds a library by its soname, so of one name each copy must be a foreseen one. A file
    without a soname is opened by its path, and others of its name may lie elsewhere (`_sparse.so` of
    jaxlib/cpu and of the plugin): the foreseen one must be among them.
    """
    there, foreseen, sonames = {}, {}, set()
    for path in mapped:
        there.setdefault(Path(path).name, set()).add(Path(path).resolve())
    for item in [item for process in processes for item in process["objects"]]:
        name = Path(item["path"]).name
        foreseen.setdefault(name, set()).add(Path(item["path"]).resolve())
        sonames |= {name} if item["soname"] else set()
    both, faults = sorted(there.keys() & foreseen.keys()), []
    for name in both:
        other = there[name] - foreseen[name]
        if other and (name in sonames or not there[name] & foreseen[name]):
            faults.append(f"{name} is {sorted(map(str, other))}, and check says {sorted(map(str, foreseen[name]))}")
    return faults, len(both)


# What check says (path: soname), what is mapped, how many faults.
CASES = [
    ({"/e/lib/liba.so.1": "liba.so.1"}, ["/e/lib/liba.so.1", "/e/cpu/m.so"], 0),
    ({"/e/lib/liba.so.1": "liba.so.1"}, ["/usr/lib/liba.so.1"], 1),
    ({"/e/lib/liba.so.1": "liba.so.1"}, ["/e/lib/liba.so.1", "/usr/lib/liba.so.1"], 1),
    ({"/e/gpu/m.so": None}, ["/e/cpu/m.so", "/e/gpu/m.so"], 0),
    ({"/e/gpu/m.so": None}, ["/e/gpu/m.so", "/e/z/m.so"], 0),
    ({"/e/gpu/m.so": None}, ["/e/cpu/m.so"], 1),
]


def case_faults():
    for says, mapped, n in CASES:
        objects = [{"path": path, "soname": soname} for path, soname in says.items()]
        found, _ = differences(mapped, [{"objects": objects}])
        if len(found) != n:
            yield f"{mapped} against {says}: {found}, not {n} faults"
