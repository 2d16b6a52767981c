"""Everything of a folder that taking back has to restore, as a value that can be compared."""

import hashlib
import os
import stat
import time

LARGE = 16 << 20            # bytes, from which on a file counts as what large_file() says
STEP, BLOCK = 4 << 20, 64 << 10


def large_file(path, st):
    """A large file is the same when it is the same inode, whose times and blocks are the same: what
    writes into it changes its time, and what brings it back by a copy makes another inode."""
    found = hashlib.blake2b()
    with open(path, "rb") as file:
        for at in (*range(0, st.st_size, STEP), st.st_size - BLOCK):
            file.seek(at)
            found.update(file.read(BLOCK))
    return [st.st_ino, found.hexdigest()]


def read_content(path, st):
    if st.st_size >= LARGE:
        return large_file(path, st)
    with open(path, "rb") as file:
        return [hashlib.blake2b(file.read()).hexdigest()]


# What was read of a file, by its inode and the time of that inode's last change, which no program can
# set: as long as it is the same, so is the content.
READ = {}
SETTLED_NS = 10**9  # an inode that was changed just now may be changed again at what reads as the same time


def content(path, st):
    key = (st.st_dev, st.st_ino, st.st_ctime_ns, st.st_mtime_ns, st.st_size)
    if key in READ:
        return READ[key]
    now = time.time_ns()
    found = read_content(path, st)
    if now - st.st_ctime_ns > SETTLED_NS:
        READ[key] = found
    return found


def one(path, links):
    """Type, mode, owner, links, times, attributes and content of what stands at a path."""
    st = os.lstat(path)
    said = [stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid,
            st.st_mtime_ns, st.st_nlink if links else None,
            sorted((n, os.getxattr(path, n, follow_symlinks=False))
                   for n in os.listxattr(path, follow_symlinks=False))]
    if stat.S_ISLNK(st.st_mode):
        said.append(os.readlink(path))
    elif stat.S_ISREG(st.st_mode):
        said += [st.st_size, *content(path, st)]
    return tuple(map(repr, said))


def state(top, links=True):
    """{path below top: what is there}; links: whether the number of hard links counts."""
    found = {".": one(top, links)}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, top)] = one(path, links)
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
