"""Files with GPU code, made of a few bytes: CUDA fat binaries, HIP code objects."""

import struct

from tree import LOADER, compiled


def container(*codes):
    """One fat binary: "sm_86", "sm_90a", or "compute_86:8.2" with the version of the PTX ISA."""
    entries = b""
    for code in codes:
        name, _, isa = code.partition(":")
        kind, number = name.split("_")
        flags = 1 << 20 if number.endswith("a") else 0
        major, minor = map(int, (isa or "0.0").split("."))
        entries += struct.pack("<HHIQIIHHIQQQQ", 1 if kind == "compute" else 2, 0x0101, 64, 8, 0, 0,
                               minor, major, int(number.rstrip("a")), 0, flags, 0, 0) + bytes(8)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def bundle(*targets):
    """One offload bundle with a few bytes for each target."""
    ids = [b"host-x86_64-unknown-linux-gnu-", *(b"hipv4-amdgcn-amd-amdhsa--" + t.encode()
                                               for t in targets)]
    at = 32 + sum(24 + len(i) for i in ids)
    table = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids))
    for n, name in enumerate(ids):
        table += struct.pack("<QQQ", at + 8 * max(n - 1, 0), 8 if n else 0, len(name)) + name
    return table + bytes(8 * len(targets))


def with_sections(soname, sections):
    """A library with the bytes of these sections: {name: bytes}."""
    source = ""
    for name, data in sections.items():
        rows = ",".join("0x%02x" % b for b in data)
        source += ('__asm__(".section %s,\\"a\\",@progbits\\n.balign 4096\\n.byte %s\\n"\n'
                   '        ".previous\\n");\n' % (name, rows))
    return compiled(source + "int here(void);\nint here(void) { return 1; }\n",
                    *(["-Wl,-soname," + soname] if soname else []))


def cuda_library(soname, *containers):
    return with_sections(soname, {".nv_fatbin": b"".join(container(*c) for c in containers)})


def cuda_program(*containers):
    """A program, not a library: with an interpreter, and without a soname."""
    return with_sections(None, {".interp": LOADER.encode() + b"\0",
                                ".nv_fatbin": b"".join(container(*c) for c in containers)})


def hip_library(soname, *targets):
    return with_sections(soname, {".hip_fatbin": bundle(*targets)})
