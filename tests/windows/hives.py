"""Registry hives for the suites of this folder, written from nested dictionaries.

    write({"Select": {"Current": 1}, "Setup": {"Cmd": "x"}})

A dictionary is a key; what else stands in one is a value: text (REG_SZ), Expand, a list of texts
(REG_MULTI_SZ), a number (REG_DWORD), bytes (REG_BINARY). Names are compared by Windows, and sorted
here, in capitals. Layout: the format's specification by M. Suhanov (github.com/msuhanov/regf).
"""

import struct

SEGMENT = 16344
TYPES = {"sz": 1, "expand": 2, "binary": 3, "dword": 4, "multi": 7}


class Expand(str):
    """A text with variables (REG_EXPAND_SZ)."""


def stored(value):
    """Type and bytes of a value."""
    if isinstance(value, bytes):
        return TYPES["binary"], value
    if isinstance(value, int):
        return TYPES["dword"], struct.pack("<I", value)
    if isinstance(value, list):
        return TYPES["multi"], "".join(text + "\0" for text in [*value, ""]).encode("utf-16-le")
    kind = "expand" if isinstance(value, Expand) else "sz"
    return TYPES[kind], (value + "\0").encode("utf-16-le")


class Writer:
    def __init__(self, leaf, leaf_max):
        self.bins, self.leaf, self.leaf_max = bytearray(32), leaf, leaf_max  # 32: the bin's head
        # One descriptor for all keys, empty and self-relative, which libhivex wants for new keys.
        self.security = self.cell(struct.pack("<2sHIIII", b"sk", 0, 32, 32, 1, 20)
                                  + struct.pack("<BBHIIII", 1, 0, 0x8000, 0, 0, 0, 0))

    def cell(self, data):
        at = len(self.bins)
        size = (len(data) + 4 + 7) // 8 * 8
        self.bins += struct.pack("<i", -size) + data + b"\0" * (size - 4 - len(data))
        return at

    def data(self, data):
        if len(data) <= SEGMENT:
            return self.cell(data)
        parts = [self.cell(data[i:i + SEGMENT]) for i in range(0, len(data), SEGMENT)]
        places = self.cell(struct.pack(f"<{len(parts)}I", *parts))
        return self.cell(struct.pack("<2sHII", b"db", len(parts), places, 0))

    def value(self, name, value):
        kind, data = stored(value)
        packed, flag = name_of(name)
        if len(data) <= 4:
            size, at = len(data) | 0x80000000, int.from_bytes(data.ljust(4, b"\0"), "little")
        else:
            size, at = len(data), self.data(data)
        return self.cell(struct.pack("<2sHIIIHH", b"vk", len(packed), size, at, kind, flag, 0) + packed)

    def list_of(self, keys):
        leaves = []
        for i in range(0, len(keys), self.leaf_max):
            part, row = keys[i:i + self.leaf_max], b""
            for name, at in part:
                row += struct.pack("<I", at) + (b"" if self.leaf == b"li" else hash_of(self.leaf, name))
            leaves.append(self.cell(self.leaf + struct.pack("<H", len(part)) + row))
        if len(leaves) == 1:
            return leaves[0]
        return self.cell(struct.pack(f"<2sH{len(leaves)}I", b"ri", len(leaves), *leaves))

    def key(self, name, content, root=False):
        below = [(n, self.key(n, c)) for n, c in sorted(content.items(), key=lambda x: x[0].upper())
                 if isinstance(c, dict)]
        values = [self.value(n, v) for n, v in content.items() if not isinstance(v, dict)]
        subkeys = self.list_of(below) if below else 0xFFFFFFFF
        places = self.cell(struct.pack(f"<{len(values)}I", *values)) if values else 0xFFFFFFFF
        packed, flag = name_of(name)
        flags = (0x20 if flag else 0) | (0xC if root else 0)
        return self.cell(struct.pack("<2sHQ15IHH", b"nk", flags, 0, 0, 0, len(below), 0,
                                     subkeys, 0xFFFFFFFF, len(values), places, self.security, 0xFFFFFFFF,
                                     0, 0, 0, 0, 0, len(packed), 0) + packed)


def name_of(name):
    """As it is stored, and the flag for a byte for each character."""
    try:
        return name.encode("latin-1"), 1
    except UnicodeEncodeError:
        return name.encode("utf-16-le"), 0


def hash_of(leaf, name):
    if leaf == b"lf":
        return name.encode("latin-1", "replace")[:4].ljust(4, b"\0")
    total = 0
    for c in name.upper():
        total = (total * 37 + ord(c)) & 0xFFFFFFFF
    return struct.pack("<I", total)


def write(content, dirty=False, leaf=b"lh", leaf_max=1000, minor=5):
    w = Writer(leaf, leaf_max)
    root = w.key("ROOT", content, root=True)
    room = -len(w.bins) % 4096
    if 0 < room < 8:
        room += 4096
    if room:
        w.bins += struct.pack("<i", room) + b"\0" * (room - 4)
    w.bins[:32] = struct.pack("<4sII20s", b"hbin", 0, len(w.bins), b"")
    head = bytearray(struct.pack("<4sIIQIIIIIII", b"regf", 8 if dirty else 7, 7, 0, 1, minor, 0, 1, root,
                                 len(w.bins), 1).ljust(4096, b"\0"))
    total = 0
    for (word,) in struct.iter_unpack("<I", head[:508]):
        total ^= word
    total = 1 if total == 0 else 0xFFFFFFFE if total == 0xFFFFFFFF else total
    head[508:512] = struct.pack("<I", total)
    return bytes(head + w.bins)
