"""Tries a repair out inside the environment: python -c THIS REQUESTS

REQUESTS is JSON: {"script": ["import a", "also b", ...], "requests": [[name, caller, expected], ...],
"driver": [GLOB, ...]}, where the globs are of libraries that only a driver brings. The imports are
made in order; then each request is made by the real dlopen in the name of its caller, and has to end
at the expected file. Each event is one line that starts with "gpumend-verify: ":

    import NAME      right before it is made
    failed TEXT      a request or an import went wrong because of a library
    cannot TEXT      it could not be tried
    held NAME        a request ended where it should
    done             all were tried
"""

import sys

if sys.path and not sys.path[0]:
    del sys.path[0]  # the working folder, whose modules are not the environment's

import json
import os
import re
from fnmatch import fnmatch

# dlopen takes its caller from the return address, so it is entered with the address of a `ret`
# instruction inside the library that shall be the caller; that `ret` leads back here:
#     lea rax, [rip+4]; push rax; push rdx; jmp rcx; ret
TRAMPOLINE = bytes.fromhex("488d0504000000" "50" "52" "ffe1" "c3")
RTLD_DI_LINKMAP = 2
KEPT = []


def say(kind, text=""):
    line = "\ngpumend-verify: %s %s\n" % (kind, " ".join(str(text).split()))
    os.write(1, line.encode("utf-8", "replace"))


def mappings():
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) > 5 and fields[5].startswith("/"):
                start, end = (int(x, 16) for x in fields[0].split("-"))
                yield fields[5], fields[1], start, end


def ret_instruction(ctypes, path):
    """Address of a byte 0xc3 in the executable mapping of the file; None if it is not mapped."""
    for mapped, flags, start, end in mappings():
        if mapped == path and "x" in flags:
            at = ctypes.string_at(start, min(end - start, 1 << 20)).find(b"\xc3")
            if at >= 0:
                return start + at
    return None


def dlopen_as(ctypes, address, name):
    """The path that dlopen(name, RTLD_NOW) ends at for the caller around address."""
    import mmap
    libc = ctypes.CDLL(None)
    dlopen, dlerror, dlinfo = libc.dlopen, libc.dlerror, libc.dlinfo
    dlerror.restype = ctypes.c_char_p
    code = mmap.mmap(-1, len(TRAMPOLINE), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(TRAMPOLINE)
    KEPT.append(code)
    entry = ctypes.addressof(ctypes.c_char.from_buffer(code))
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p,
                            ctypes.c_void_p)(entry)
    handle = call(os.fsencode(name), os.RTLD_NOW, address, ctypes.cast(dlopen, ctypes.c_void_p))
    if not handle:
        raise OSError((dlerror() or b"dlopen said nothing").decode(errors="replace"))
    link_map = ctypes.POINTER(ctypes.c_void_p)()
    if dlinfo(ctypes.c_void_p(handle), RTLD_DI_LINKMAP, ctypes.byref(link_map)) != 0:
        raise OSError("dlinfo failed")
    return os.fsdecode(ctypes.string_at(link_map[1]))  # l_addr, l_name, ...


def lacks_driver(error, driver):
    """The library of the driver that is missing, or None."""
    found = re.search(r"([^\s:/]+): cannot open shared object", str(error))
    return found.group(1) if found and any(fnmatch(found.group(1), g) for g in driver) else None


def say_error(error, about, names, driver):
    """What an error means: the repair does not hold, or it cannot be determined."""
    library = lacks_driver(error, driver)
    if library:
        say("cannot", "%s: %s of the driver is not here" % (about, library))
    else:
        say("failed" if is_about_library(error, names) else "cannot", "%s: %s" % (about, error))


def is_about_library(error, names):
    text = str(error)
    return "cannot open shared object" in text or any(n in text for n in names)


def import_also(name):
    """One that fails decides nothing: the requests that need it do."""
    try:
        __import__(name)
    except BaseException:  # whatever a package throws
        pass


def make_imports(script, names, driver):
    for step in script:
        verb, _, name = step.partition(" ")
        if verb == "also":
            import_also(name)
        if verb != "import":
            continue
        say("import", name)
        try:
            __import__(name)
        except BaseException as error:  # whatever a package throws is the answer
            say_error(error, "import %s: %s" % (name, type(error).__name__), names, driver)
            return False
    return True


def make_request(ctypes, name, caller, expected, names, driver):
    """Whether it was made and held."""
    real = os.path.realpath(caller)
    address = ret_instruction(ctypes, real)
    if address is None:
        try:
            KEPT.append(ctypes.CDLL(caller))
        except OSError as error:
            say_error(error, "%s, which asks for %s" % (os.path.basename(caller), name), names,
                      driver)
            return False
        address = ret_instruction(ctypes, real)
    if address is None:
        say("cannot", "%s, which asks for %s, is not in the process" % (caller, name))
        return False
    try:
        found = dlopen_as(ctypes, address, name)
    except OSError as error:
        say_error(error, "%s asks for %s" % (os.path.basename(caller), name), [name], driver)
        return False
    if os.path.realpath(found) != os.path.realpath(expected):
        say("failed", "%s ends at %s, not at %s" % (name, found, expected))
        return False
    say("held", name)
    return True


def main():
    wanted = json.loads(sys.argv[1])
    names = [os.path.basename(r[0]) for r in wanted["requests"]]
    driver = wanted["driver"]
    if not make_imports(wanted["script"], names, driver):
        return
    machine = os.uname().machine
    if machine != "x86_64" or sys.maxsize < 1 << 32:
        say("cannot", "the imports work; requests in the name of a library are made on x86-64 "
            "only, not on " + machine)
        return
    try:
        import ctypes
    except ImportError as error:
        say("cannot", "no ctypes in this Python: %s" % error)
        return
    held = [make_request(ctypes, r[0], r[1] or sys.executable, r[2], names, driver)
            for r in wanted["requests"]]
    if all(held):
        say("done")


main()
sys.stdout.flush()
os._exit(0)  # what libraries do at exit is another question
