"""Everything of a folder that taking back has to restore, as a value that can be compared."""

import hashlib
import os
import stat


def one(path):
    """Type, mode, owner, links, times, attributes and content of what stands at a path."""
    st = os.lstat(path)
    said = [stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid,
            st.st_mtime_ns, st.st_nlink,
            sorted((n, os.getxattr(path, n, follow_symlinks=False))
                   for n in os.listxattr(path, follow_symlinks=False))]
    if stat.S_ISLNK(st.st_mode):
        said.append(os.readlink(path))
    elif stat.S_ISREG(st.st_mode):
        with open(path, "rb") as file:
            said += [st.st_size, hashlib.blake2b(file.read()).hexdigest()]
    return tuple(map(repr, said))


def state(top):
    """{path below top: what is there}."""
    found = {".": one(top)}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, top)] = one(path)
    return found


def differences(before, after):
    """One line for each path that is not the same."""
    lines = []
    for path in sorted(before.keys() | after.keys()):
        a, b = before.get(path), after.get(path)
        if a is None or b is None:
            lines.append("%s: %s" % (path, "gone" if b is None else "new"))
        elif a != b:
            lines.append("%s: %s" % (path, "; ".join(
                "%s -> %s" % (x, y) for x, y in zip(a, b) if x != y)))
    return lines
