"""Wine for the suites of this folder: a prefix that needs no setting up, and small DLLs.

A prefix made by wineboot takes half a minute and 700 MB. This one is a folder with links to Wine's own
DLLs in System32 and a stamp that says that nothing is to be updated, made in milliseconds.
"""

import glob
import os
import shutil
import struct
import subprocess
from pathlib import Path


def built(build, name):
    """A driver of this folder, made by the build."""
    subprocess.run(["ninja", "-C", build, f"tests/windows/{name}"], capture_output=True, check=True)
    return Path(build) / "tests/windows" / name

HERE = Path(__file__).resolve().parent
CC = "x86_64-w64-mingw32-gcc"
LOADERS = ["/usr/lib/wine/wine64", "/usr/lib/*/wine/wine64", "/opt/wine-*/bin/wine64"]
DLLS = ["/usr/lib/*-linux-gnu/wine/x86_64-windows", "/opt/wine-*/lib64/wine/x86_64-windows"]


def missing():
    """Why there is no comparison with Wine here, or None."""
    if not loader() or not glob.glob(DLLS[0]) + glob.glob(DLLS[1]):
        return "wine64 is not here"
    if not shutil.which(CC):
        return "MinGW is not here"
    return None


def loader():
    found = [path for pattern in LOADERS for path in glob.glob(pattern)]
    return found[0] if found else shutil.which("wine64")


class Wine:
    """A prefix below `folder`."""

    def __init__(self, folder, leave_out=()):
        self.folder = folder
        self.drive_c = folder / "drive_c"
        self.system32 = self.drive_c / "windows/system32"
        self.system32.mkdir(parents=True)
        (self.drive_c / "windows/system").mkdir()
        (folder / "dosdevices").mkdir()
        (folder / "dosdevices/c:").symlink_to("../drive_c")
        (folder / "dosdevices/z:").symlink_to("/")
        source = (glob.glob(DLLS[0]) + glob.glob(DLLS[1]))[0]
        for name in os.listdir(source):
            if name.lower() not in leave_out:
                (self.system32 / name).symlink_to(Path(source) / name)
        (folder / ".update-timestamp").write_text("disable\n")
        self.env = {**os.environ, "WINEPREFIX": str(folder), "WINEDEBUG": "-all",
                    "WINEDLLOVERRIDES": "mscoree,mshtml=", "HOME": str(folder)}
        self.env.pop("DISPLAY", None)

    def run(self, exe, *args, timeout=600):
        """What a program prints."""
        done = subprocess.run([loader(), str(exe), *args], env=self.env, capture_output=True,
                              timeout=timeout, check=False)
        return done.stdout.decode(errors="replace").replace("\r", "")


def windows_path(path):
    """An absolute path of this system as the prefix shows it."""
    return "Z:" + str(path).replace("/", "\\")


def driver(folder):
    """The driver, built into folder."""
    exe = folder / "driver.exe"
    subprocess.run([CC, "-O1", "-Wall", "-Werror", "-o", str(exe), str(HERE / "driver.c")], check=True)
    return exe


def version_resource(version, rva):
    """A resource directory at `rva` with one version, (9, 10, 2, 21)."""
    a, b, c, d = version
    fixed = struct.pack("<13I", 0xFEEF04BD, 0x10000, a << 16 | b, c << 16 | d, a << 16 | b, c << 16 | d,
                        0, 0, 0, 0, 0, 0, 0)
    block = struct.pack("<HHH", 92, 52, 0) + "VS_VERSION_INFO\0".encode("utf-16-le") + b"\0\0" + fixed
    levels = b""
    for number, identifier in enumerate((16, 1, 1033)):
        below = 24 * (number + 1) | (0x80000000 if number < 2 else 0)
        levels += struct.pack("<IIHHHHII", 0, 0, 0, 0, 0, 1, identifier, below)
    return levels + struct.pack("<4I", rva + 88, len(block), 0, 0) + block


def dll(imports=(), machine=0x8664, refuses=False, exports=("f",), name="x.dll", version=None, forward=None,
        arm64x=False):
    """A DLL that imports function f of each name; with `refuses` its start says no; its first export
    leads on to `forward`, "OTHER.f"; with `arm64x` its load configuration says that it has a part for x64."""
    wide = machine in (0x8664, 0xAA64)
    base, code = 0x1000, b"\x31\xc0\xc3" + b"\x90" * 13  # xor eax, eax; ret
    data = bytearray(code)

    def put(bytes_, align=8):
        data.extend(b"\0" * (-len(data) % align))
        at = len(data)
        data.extend(bytes_)
        return base + at

    thunk, size = ("<Q", 8) if wide else ("<I", 4)
    rows = []
    for wanted in imports:
        hint = put(b"\0\0f\0")
        names = put(struct.pack(thunk, hint) + b"\0" * size)
        table = put(struct.pack(thunk, hint) + b"\0" * size)
        rows.append(struct.pack("<5I", names, 0, 0, put(wanted.encode() + b"\0"), table))
    import_at = put(b"".join(rows) + b"\0" * 20) if rows else 0
    names_at = [put(e.encode() + b"\0") for e in exports]
    functions = put(b"".join(struct.pack("<I", base) for _ in exports))
    name_table = put(b"".join(struct.pack("<I", at) for at in names_at))
    places = put(b"".join(struct.pack("<H", i) for i in range(len(exports))))
    export_at = put(struct.pack("<10I", 0, 0, 0, put(name.encode() + b"\0"), 1, len(exports),
                                len(exports), functions, name_table, places))
    text = forward.encode() + b"\0" if forward else b""
    data.extend(text)
    if text:
        struct.pack_into("<I", data, functions - base, export_at + 40)
    data.extend(b"\0" * (-len(data) % 8))
    resource = version_resource(version, base + len(data)) if version else b""
    resource_at = base + len(data) if version else 0
    data.extend(resource)
    config = struct.pack("<I196xQ", 208, 0x180001000) if arm64x else b""
    config_at = put(config) if arm64x else 0
    data.extend(b"\0" * (-len(data) % 0x200))
    room = (len(data) + 0xFFF) // 0x1000 * 0x1000
    entry = base if refuses else 0
    head = struct.pack("<HBBIIIII", 0x20B if wide else 0x10B, 2, 40, len(data), 0, 0, entry, base)
    head += struct.pack("<Q", 0x180000000) if wide else struct.pack("<II", base, 0x10000000)
    head += struct.pack("<IIHHHHHHIIIIHH", 0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0, base + room, 0x200, 0,
                        3, 0x160)
    head += struct.pack("<4Q" if wide else "<4I", 0x100000, 0x1000, 0x100000, 0x1000)
    head += struct.pack("<II", 0, 16)
    directories = [(0, 0)] * 16
    directories[0] = (export_at, 40 + len(text))
    directories[1] = (import_at, 20 * (len(rows) + 1) if rows else 0)
    directories[2] = (resource_at, len(resource))
    directories[10] = (config_at, len(config))
    head += b"".join(struct.pack("<II", *d) for d in directories)
    characteristics = 0x2022 if wide else 0x2102
    coff = struct.pack("<4sHHIIIHH", b"PE\0\0", machine, 1, 0, 0, 0, len(head), characteristics)
    section = struct.pack("<8sIIIIIIHHI", b".text", len(data), base, len(data), 0x200, 0, 0, 0, 0,
                          0xE0000020)
    dos = b"MZ" + b"\0" * 58 + struct.pack("<I", 64)
    return (dos + coff + head + section).ljust(0x200, b"\0") + bytes(data)
