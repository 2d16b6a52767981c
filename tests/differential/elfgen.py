"""Small ELF files of x86-64 and aarch64, and ld.so.cache files, written without a compiler.

`library(spec)` returns the bytes of a shared object with exactly the dynamic tags that `spec`
asks for; `program(host, spec)` rewrites the dynamic section of a compiled host program;
`cache(spec)` returns the bytes of an ld.so.cache. A world of a dozen objects takes a millisecond.

A library is laid out like this (one page of text, one of data):

    0x000  ELF header
    0x040  program headers (LOAD R+X, LOAD RW, DYNAMIC, GNU_STACK, INTERP, TLS)
    0x1f0  MAGIC, by which the host recognises a library of ours
    0x200  trampoline(function, name, flags): calls function(name, flags) and returns its result,
           so that a dlopen passed in sees a return address inside this library
    0x240  interpreter, hash table, symbols, strings, versions, relocations
    0x1000 data: three reserved words and a slot per symbol, then the dynamic section; 0x10000 on
           aarch64, whose pages may be of 64 KiB

Sources: System V gABI (ELF header, dynamic section), psABI x86-64 and aaelf64 (relocations), LSB core
(symbol versions), glibc 2.36 sysdeps/generic/dl-cache.h and elf/dl-cache.c (cache).
"""

import struct

MAGIC = b"gpumend-worldlib"
MAGIC_AT = 0x1F0
TRAMPOLINE_AT = 0x200
BODY_AT = 0x240
DATA_AT = 0x1000  # on x86-64
X86_64, AARCH64 = 62, 183

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_TLS = 1, 2, 3, 4, 7
PT_GNU_EH_FRAME, PT_GNU_STACK, PT_GNU_PROPERTY = 0x6474E550, 0x6474E551, 0x6474E553
(DT_NEEDED, DT_PLTRELSZ, DT_PLTGOT, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT,
 DT_STRSZ, DT_SYMENT) = range(1, 12)
DT_SONAME, DT_RPATH, DT_SYMBOLIC, DT_PLTREL, DT_JMPREL, DT_FLAGS = 14, 15, 16, 20, 23, 30
DT_RUNPATH = 29
DT_VERSYM, DT_FLAGS_1 = 0x6FFFFFF0, 0x6FFFFFFB
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
DF_1_NODEFLIB = 0x800
# By e_machine: where the data lie, and relocations. The trampoline of x86-64: sub rsp,8; mov rax,rdi;
# mov rdi,rsi; mov esi,edx; call rax; add rsp,8; ret. Of aarch64: stp x29,x30,[sp,-16]!; mov x3,x0;
# mov x0,x1; mov w1,w2; blr x3; ldp x29,x30,[sp],16; ret.
MACHINES = {
    X86_64: {"data_at": DATA_AT, "glob_dat": 6, "jump_slot": 7, "tpoff": 18, "tlsdesc": 36,
             "trampoline": bytes.fromhex("4883ec08" "4889f8" "4889f7" "89d6" "ffd0" "4883c408" "c3")},
    AARCH64: {"data_at": 0x10000, "glob_dat": 1025, "jump_slot": 1026, "tpoff": 1030, "tlsdesc": 1031,
              "trampoline": bytes.fromhex("fd7bbfa9" "e30300aa" "e00301aa" "e103022a" "60003fd6"
                                          "fd7bc1a8" "c0035fd6")},
}
STT_TLS = 6
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3


class Strings:
    """A string table that stores each text once."""

    def __init__(self, start=b"\0"):
        self.data = bytearray(start)
        self.known = {}

    def add(self, text):
        raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        if raw not in self.known:
            self.known[raw] = len(self.data)
            self.data += raw + b"\0"
        return self.known[raw]

    def at(self, offset):
        return bytes(self.data[offset:self.data.index(b"\0", offset)]).decode()


def elf_hash(name):
    """The hash of the gABI's symbol hash table, also used by version tables."""
    h = 0
    for c in name.encode():
        h = (h << 4) + c
        g = h & 0xF0000000
        if g:
            h ^= g >> 24
        h &= ~g & 0xFFFFFFFF
    return h


def _version_tables(spec, strings):
    """Verdef and Verneed bytes and the index of every (file, version) and of every own version."""
    defs, needs = spec.get("verdef") or [], spec.get("verneed") or []
    own, wanted = {}, {}
    verdef = b""
    index = 1
    if defs:
        rows = [(spec.get("soname") or "base", 1)] + [(d, 0) for d in defs]
        for at, (name, flags) in enumerate(rows):
            last = at == len(rows) - 1
            verdef += struct.pack("<HHHHIII", 1, flags, index, 1, elf_hash(name), 20,
                                  0 if last else 28)
            verdef += struct.pack("<II", strings.add(name), 0)
            if not flags:
                own[name] = index
            index += 1
    index = max(index, 2)
    verneed = b""
    for at, need in enumerate(needs):
        names = need["versions"]
        verneed += struct.pack("<HHIII", 1, len(names), strings.add(need["file"]), 16,
                               0 if at == len(needs) - 1 else 16 + 16 * len(names))
        for j, version in enumerate(names):
            verneed += struct.pack("<IHHII", elf_hash(version["name"]),
                                   2 if version.get("weak") else 0, index,
                                   strings.add(version["name"]),
                                   0 if j == len(names) - 1 else 16)
            wanted[(need["file"], version["name"])] = index
            index += 1
    return verdef, len(defs) + 1 if defs else 0, verneed, len(needs), own, wanted


def _tls_symbols(spec, strings, symbols, versym):
    """Adds the TLS symbols that the object defines or its relocations name; their indices by name."""
    index = {}
    tls = spec.get("tls") or {}
    rows = [dict(tls, defined=True)] if tls.get("name") else []
    for row in rows + (spec.get("tls_refs") or []):
        if row.get("name") and row["name"] not in index:
            index[row["name"]] = len(symbols)
            symbols.append(struct.pack("<IBBHQQ", strings.add(row["name"]),
                                       (2 if row.get("weak") else 1) << 4 | STT_TLS,
                                       row.get("visibility", 0), 2 if row.get("defined") else 0, 0, 1))
            versym.append(1)
    return index


def library(spec):
    """The bytes of the shared object that `spec` describes; every key is optional. `shift` moves the
    data in memory away from where they lie in the file, by a multiple of the smallest page."""
    base = 0x400000 if spec.get("type") == "exec" else 0
    machine = MACHINES.get(spec.get("machine"), MACHINES[X86_64])
    data_at, shift = machine["data_at"], spec.get("shift", 0)
    strings = Strings()
    verdef, n_verdef, verneed, n_verneed, own, wanted = _version_tables(spec, strings)
    undefined, defined = spec.get("undef") or [], spec.get("defs") or []

    symbols, versym, slots = [b"\0" * 24], [0], []
    rela, jmprel = b"", b""
    slot_at = data_at + shift + 24
    for sym in undefined:
        kind = 2 if sym.get("kind", "func") == "func" else 1
        bind = 2 if sym.get("weak") else 1
        symbols.append(struct.pack("<IBBHQQ", strings.add(sym["name"]), bind << 4 | kind, 0, 0, 0, 0))
        versym.append(wanted.get((sym.get("file"), sym.get("version")), 1))
        lazy = sym.get("lazy", kind == 2)
        row = struct.pack("<QQq", base + slot_at + 8 * len(slots),
                          (len(symbols) - 1) << 32 | (machine["jump_slot"] if lazy else machine["glob_dat"]), 0)
        if lazy:
            jmprel += row
        else:
            rela += row
        slots.append(TRAMPOLINE_AT if lazy else 0)
    tls = spec.get("tls")
    tls_symbols = _tls_symbols(spec, strings, symbols, versym)
    offsets = b""
    for ref in spec.get("tls_refs") or []:
        slot = base + slot_at + 8 * len(slots)
        kind = machine["tlsdesc"] if ref.get("descriptor") else machine["tpoff"]
        slots += [0, 0]
        offsets += struct.pack("<QQq", slot, tls_symbols.get(ref.get("name"), 0) << 32 | kind, 0)
    rela = offsets + rela if spec.get("tls_first") else rela + offsets
    for sym in defined:
        is_object = sym.get("kind", "func") == "object"
        bind = 2 if sym.get("weak") else 1
        symbols.append(struct.pack("<IBBHQQ", strings.add(sym["name"]), bind << 4 | (1 if is_object else 2),
                                   0, 2 if is_object else 1,
                                   base + (data_at + shift if is_object else TRAMPOLINE_AT), 8))
        versym.append(own.get(sym.get("version"), 1))

    hashtab = struct.pack("<II", 1, len(symbols)) + struct.pack("<I", 1 if len(symbols) > 1 else 0)
    hashtab += struct.pack("<I", 0)
    hashtab += b"".join(struct.pack("<I", i + 1 if i + 1 < len(symbols) else 0)
                        for i in range(1, len(symbols)))

    tags = [(DT_NEEDED, strings.add(n)) for n in spec.get("needed") or []]
    for key, tag in (("soname", DT_SONAME), ("rpath", DT_RPATH), ("runpath", DT_RUNPATH)):
        if spec.get(key) is not None:
            tags.append((tag, strings.add(spec[key])))
    for old in spec.get("rpath_before") or []:  # earlier DT_RPATH tags, which the last one replaces
        tags.insert(0, (DT_RPATH, strings.add(old)))
    for key, tag in (("flags", DT_FLAGS), ("flags1", DT_FLAGS_1)):
        if spec.get(key):
            tags.append((tag, spec[key]))

    text = bytearray(b"\0" * BODY_AT)
    text[MAGIC_AT:MAGIC_AT + 16] = MAGIC
    trampoline = machine["trampoline"]
    text[TRAMPOLINE_AT:TRAMPOLINE_AT + len(trampoline)] = trampoline

    def place(data, align=8):
        text.extend(b"\0" * (-len(text) % align))
        at = len(text)
        text.extend(data)
        return base + at

    interp_at = 0
    if spec.get("interp"):
        interp_at = place(spec["interp"].encode() + b"\0")
    tags += [(DT_HASH, place(hashtab)), (DT_SYMTAB, place(b"".join(symbols))), (DT_SYMENT, 24)]
    if verdef:
        tags += [(DT_VERDEF, place(verdef)), (DT_VERDEFNUM, n_verdef)]
    if verneed:
        tags += [(DT_VERNEED, place(verneed)), (DT_VERNEEDNUM, n_verneed)]
    if verdef or verneed:
        tags.append((DT_VERSYM, place(b"".join(struct.pack("<H", v) for v in versym))))
    if rela:
        tags += [(DT_RELA, place(rela)), (DT_RELASZ, len(rela)), (DT_RELAENT, 24)]
    if jmprel:
        tags += [(DT_JMPREL, place(jmprel)), (DT_PLTRELSZ, len(jmprel)), (DT_PLTREL, DT_RELA),
                 (DT_PLTGOT, base + data_at + shift)]
    tags += [(DT_STRTAB, place(bytes(strings.data))), (DT_STRSZ, len(strings.data)), (0, 0)]
    assert len(text) <= data_at, "a generated library must fit one page of text"
    text.extend(b"\0" * (data_at - len(text)))
    data_off, vaddr = data_at, base + data_at + shift
    data = struct.pack("<QQQ", 0, 0, 0) + b"".join(struct.pack("<Q", s) for s in slots)
    dyn_at = len(data)
    dynamic = b"".join(struct.pack("<qQ", t, v) for t, v in tags)
    data += dynamic

    heads = []

    def head(kind, flags, off, addr, size, align):
        heads.append(struct.pack("<IIQQQQQQ", kind, flags, off, addr, addr, size, size, align))

    if interp_at:
        head(PT_INTERP, 4, interp_at - base, interp_at, len(spec["interp"]) + 1, 1)
    align = spec.get("align", data_at)
    head(PT_LOAD, 5, 0, base, data_off, align)
    head(PT_LOAD, 6, data_off, vaddr, len(data), align)
    if spec.get("dynamic", True):
        head(PT_DYNAMIC, 6, data_off + dyn_at, vaddr + dyn_at, len(dynamic), 8)
    if tls:
        at = (vaddr + tls["align"] - 1) // tls["align"] * tls["align"] + tls.get("skew", 0)
        heads.append(struct.pack("<IIQQQQQQ", PT_TLS, 4, data_off, at, at, 0, tls["size"], tls["align"]))
    stack = spec.get("stack", "rw")
    if stack:
        head(PT_GNU_STACK, 7 if stack == "rwx" else 6, 0, 0, 0, 16)
    etype = {"exec": ET_EXEC, "rel": ET_REL}.get(spec.get("type"), ET_DYN)
    text[0:64] = struct.pack("<4sBBBBB7sHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, spec.get("osabi", 0),
                             spec.get("abiversion", 0), b"\0" * 7, etype, spec.get("machine", X86_64), 1,
                             base + TRAMPOLINE_AT, 64, 0, 0, 64, 56, len(heads), 0, 0, 0)
    text[64:64 + 56 * len(heads)] = b"".join(heads)
    return bytes(text) + data


def damage(data, kind):
    """A damaged copy of a library; `kind` names the defect, `truncate:N` keeps N bytes."""
    raw = bytearray(data)
    if kind.startswith("truncate:"):
        return bytes(raw[:int(kind.split(":")[1])])
    patches = {
        "class32": [(4, b"\x01")], "class-bad": [(4, b"\x03")],
        "machine": [(18, struct.pack("<H", X86_64 if raw[18] == AARCH64 else AARCH64))], "machine-386": [(18, struct.pack("<H", 3))],
        "class32-386": [(4, b"\x01"), (18, struct.pack("<H", 3))],
        "endian": [(5, b"\x02")], "ei-version": [(6, b"\x02")], "e-version": [(20, b"\x02\0\0\0")],
        "osabi": [(7, b"\x09")], "osabi-gnu": [(7, b"\x03")], "abiversion": [(8, b"\x01")],
        "gnu-abiversion": [(7, b"\x03"), (8, b"\x09")], "padding": [(12, b"\x01")],
        "etrel": [(16, b"\x01\0")], "etcore": [(16, b"\x04\0")], "phentsize": [(54, b"\x20\0")],
        "magic": [(0, b"\x7fELG")], "phnum0": [(56, b"\0\0")], "phoff": [(32, struct.pack("<Q", 1 << 40))],
    }
    for at, new in patches[kind]:
        raw[at:at + len(new)] = new
    return bytes(raw)


DAMAGES = ["class32", "class32-386", "class-bad", "machine", "machine-386", "endian", "ei-version",
           "e-version", "osabi", "osabi-gnu", "abiversion", "gnu-abiversion", "padding", "etrel",
           "etcore", "phentsize", "magic", "phnum0", "phoff"]


def program(host, spec):
    """A copy of the compiled program `host` with the dynamic tags of `spec`.

    The new dynamic section and its strings go into a segment of their own at the end of the file,
    for which program headers that are not needed at run time make room.
    """
    raw = bytearray(host)
    page = MACHINES[struct.unpack_from("<H", raw, 18)[0]]["data_at"]
    phoff, = struct.unpack_from("<Q", raw, 32)
    phentsize, phnum = struct.unpack_from("<HH", raw, 54)
    heads = [list(struct.unpack_from("<IIQQQQQQ", raw, phoff + i * phentsize)) for i in range(phnum)]
    dyn = next(h for h in heads if h[0] == PT_DYNAMIC)
    tags = []
    for at in range(dyn[2], dyn[2] + dyn[5], 16):
        tag = struct.unpack_from("<qQ", raw, at)
        if tag[0] == 0:
            break
        tags.append(tag)
    fixed = dict(tags)
    strings = Strings(bytes(raw[fixed[DT_STRTAB]:fixed[DT_STRTAB] + fixed[DT_STRSZ]]))
    drop = {DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRTAB, DT_STRSZ}
    needed = list(spec.get("needed") or [])
    # Before glibc 2.34 its dlopen comes from libdl.so.2, whose versions it names.
    own = [strings.at(value) for tag, value in tags if tag == DT_NEEDED]
    needed += [n for n in own if n != "libc.so.6" and n not in needed]
    new = [(DT_NEEDED, strings.add(n)) for n in needed]
    for key, tag in (("soname", DT_SONAME), ("rpath", DT_RPATH), ("runpath", DT_RUNPATH)):
        if spec.get(key) is not None:
            new.append((tag, strings.add(spec[key])))
    flags1 = spec.get("flags1", 0)
    for tag, value in tags:
        if tag == DT_FLAGS_1:
            value, flags1 = value | flags1, 0
        if tag not in drop:
            new.append((tag, value))
    if flags1:
        new.append((DT_FLAGS_1, flags1))
    end = max(h[3] + h[6] for h in heads if h[0] == PT_LOAD)
    raw.extend(b"\0" * (-len(raw) % page))
    off = len(raw)
    addr = (end + page - 1) // page * page
    new += [(DT_STRTAB, addr), (DT_STRSZ, len(strings.data)), (0, 0)]
    body = bytes(strings.data) + b"\0" * (-len(strings.data) % 16)
    dyn_off = len(body)
    body += b"".join(struct.pack("<qQ", t, v) for t, v in new)
    dyn_size = len(body) - dyn_off
    body += b"\0" * (-len(body) % page)  # qemu's user mode does not let system calls read part of a page
    raw.extend(body)
    out = []
    for h in heads:
        if h[0] in (PT_NOTE, PT_GNU_EH_FRAME, PT_GNU_PROPERTY):
            continue
        if h[0] == PT_INTERP and spec.get("interp", True) is None:
            continue
        if h[0] == PT_DYNAMIC:
            h[2:7] = [off + dyn_off, addr + dyn_off, addr + dyn_off, dyn_size, dyn_size]
        out.append(h)
    last = max(i for i, h in enumerate(out) if h[0] == PT_LOAD)
    out.insert(last + 1, [PT_LOAD, 6, off, addr, addr, len(body), len(body), page])
    assert len(out) <= phnum, "no room for another program header"
    for i, h in enumerate(out):
        struct.pack_into("<IIQQQQQQ", raw, phoff + i * phentsize, *h)
    struct.pack_into("<H", raw, 56, len(out))
    return bytes(raw)


def cache_compare(a, b):
    """glibc's _dl_cache_libcmp: digits compare as numbers. Negative, zero or positive."""
    i = j = 0
    digits = "0123456789"
    while i < len(a):
        if a[i] in digits:
            if j >= len(b) or b[j] not in digits:
                return 1
            x = y = 0
            while i < len(a) and a[i] in digits:
                x, i = x * 10 + int(a[i]), i + 1
            while j < len(b) and b[j] in digits:
                y, j = y * 10 + int(b[j]), j + 1
            if x != y:
                return x - y
        elif j < len(b) and b[j] in digits:
            return -1
        elif j >= len(b) or a[i] != b[j]:
            return ord(a[i]) - (ord(b[j]) if j < len(b) else 0)
        else:
            i, j = i + 1, j + 1
    return 0 if j >= len(b) else -ord(b[j])


def cache(spec):
    """The bytes of an ld.so.cache with the entries of `spec`, sorted as ldconfig sorts them.

    spec: {"format": "new"|"both"|"old", "entries": [{"key", "path", "flags", "hwcaps", "hwcap"}],
    "flags": those of entries that state none (0x303, libraries of x86-64),
    "bad": None|"endian"|"short"|"magic"}.
    """
    import functools
    entries = list(spec.get("entries") or [])
    names = sorted({e["hwcaps"] for e in entries if e.get("hwcaps")})

    def flags_of(entry):
        return entry.get("flags", spec.get("flags", 0x303))

    def order(a, b):
        diff = cache_compare(b["key"], a["key"])
        if diff:
            return diff
        if flags_of(a) != flags_of(b):
            return flags_of(b) - flags_of(a)
        if a.get("hwcap", 0) != b.get("hwcap", 0):
            return (b.get("hwcap", 0) > a.get("hwcap", 0)) * 2 - 1
        if bool(a.get("hwcaps")) != bool(b.get("hwcaps")):
            return -1 if a.get("hwcaps") else 1
        if a.get("hwcaps"):
            return (a["hwcaps"] > b["hwcaps"]) - (a["hwcaps"] < b["hwcaps"])
        return 0

    entries.sort(key=functools.cmp_to_key(order))
    form = spec.get("format", "new")
    plain = [e for e in entries if not e.get("hwcaps")]
    head = b"ld.so-1.7.0\0" + struct.pack("<I", len(plain))
    if form == "old":
        strings = Strings(b"")
        rows = b"".join(struct.pack("<iII", flags_of(e), strings.add(e["key"]),
                                    strings.add(e["path"])) for e in plain)
        return head + rows + bytes(strings.data)
    # In a file of both parts the new header stands behind the old table, on a multiple of 8. The
    # strings follow the new table and belong to both.
    start = 0 if form == "new" else (16 + 12 * len(plain) + 7) // 8 * 8
    strings = Strings(b"")
    at = 48 + 24 * len(entries)  # of the strings, from the new header
    table = b""
    for e in entries:
        hwcap = e.get("hwcap", 0)
        if e.get("hwcaps"):
            hwcap = 1 << 62 | names.index(e["hwcaps"]) | e.get("isa", 0) << 32
        table += struct.pack("<iIIIQ", flags_of(e), at + strings.add(e["key"]),
                             at + strings.add(e["path"]), 0, hwcap)
    # Extension offsets and those of the names count from the start of the file.
    name_offsets = [start + at + strings.add(n) for n in names]
    text = bytes(strings.data)
    text_len = len(text)
    text += b"\0" * (-(at + len(text)) % 4)
    extension = 0
    tail = b""
    if names:
        extension = start + at + len(text)
        body = extension + 8 + 16
        tail = struct.pack("<II", 0xEAA42174, 1) + struct.pack("<IIII", 1, 0, body, 4 * len(names))
        tail += b"".join(struct.pack("<I", o) for o in name_offsets)
    endian = {"endian": 3, "endian-unset": 0, "endian-invalid": 1}.get(spec.get("bad"), 2)
    new = b"glibc-ld.so.cache1.1" + struct.pack("<IIB3xI12x", len(entries), text_len, endian, extension)
    new += table + text + tail
    if form == "both":
        old = b"".join(struct.pack("<iII", flags_of(e),
                                   start - 16 - 12 * len(plain) + at + strings.add(e["key"]),
                                   start - 16 - 12 * len(plain) + at + strings.add(e["path"]))
                       for e in plain)
        new = (head + old).ljust(start, b"\0") + new
    if spec.get("bad") == "short":
        return new[:40]
    if spec.get("bad") == "magic":
        return b"X" + new[1:]
    return new
