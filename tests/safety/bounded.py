#!/usr/bin/env python3
"""Small files that ask for much: the processor time of a command stays bounded, and it says why.

Each case has a bound of some ten times what it takes; without the limits it takes far longer.

    tests/safety/bounded.py GPUMEND
"""

import json
import os
import resource
import shlex
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "differential")]
import tree                                                                         # noqa: E402
import elfgen                                                                       # noqa: E402

SECONDS = 2
TOO_LARGE = "it is larger or nested deeper than any specification"

HEAD = 'cdiVersion: "0.6.0"\nkind: nvidia.com/gpu\ncontainerEdits: {}\ndevices: '
SPECIFICATIONS = {
    "sequences in flow style": HEAD + "[" * 50000 + "]" * 50000 + "\n",
    "sequences, a line each": HEAD + "[\n" * 50000 + "]" * 50000 + "\n",
    "sequences in block style": HEAD + "\n  " + "- " * 50000 + "a\n",
    "mappings in flow style": HEAD + "{a: " * 50000 + "}" * 50000 + "\n",
    "directives": "".join(f"%TAG !t{i}! x\n" for i in range(20000)) + "--- a\n",
    "directives in UTF-16": "".join(f"%TAG !t{i}! x\n" for i in range(20000)) + "--- a\n",
    "anchors": HEAD + "\n" + "".join(f"- &a{i} x\n" for i in range(50000)),
}


ELF_SECONDS = 3
LOADER = "/lib64/ld-linux-x86-64.so.2"


def room(size):
    """How much of a library is in front of its data."""
    elfgen.MACHINES[elfgen.X86_64]["data_at"] = size


def library(spec):
    return elfgen.library({"align": 0x1000, **spec})


def one_chain(top):
    """A DT_HASH table whose 60,000 symbols are in one chain, and a program that wants them all."""
    room(8 << 20)                       # for their names
    names = [{"name": f"symbol_{i}", "lazy": False} for i in range(60000)]
    (top / "libmany.so").write_bytes(library({"soname": "libmany.so", "defs": names}))
    (top / "main").write_bytes(library(
        {"needed": ["libmany.so"], "runpath": "$ORIGIN", "interp": LOADER, "undef": names}))


DT_HASH, DT_SYMTAB, DT_GNU_HASH = 4, 6, 0x6ffffef5


def gnu_hash(name):
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xffffffff
    return value


def one_gnu_chain(top):
    """A DT_GNU_HASH table whose 260,000 entries are one chain, with what is wanted at its end."""
    data_at, before, table_at, symbols_at = 8 << 20, 200000, 4 << 20, 6 << 20
    room(data_at)
    names = [f"symbol_{i}" for i in range(60000)]
    many = bytearray(library({"soname": "libmany.so", "defs": [{"name": n} for n in names]}))

    def dynamic(tag, new_tag, value):
        at = many.index(struct.pack("<q", tag), data_at)
        old = struct.unpack_from("<Q", many, at + 8)[0]
        struct.pack_into("<qQ", many, at, new_tag, value)
        return old

    symbols = dynamic(DT_SYMTAB, DT_SYMTAB, symbols_at - 24 * before)
    many[symbols_at:symbols_at + 24 * 60001] = many[symbols:symbols + 24 * 60001]
    chain = [2] * before + [gnu_hash(name) & ~1 for name in names]
    chain[-1] |= 1
    table = struct.pack(f"<IIIIQI{len(chain)}I", 1, 1, 1, 0, (1 << 64) - 1, 1, *chain)
    dynamic(DT_HASH, DT_GNU_HASH, table_at)
    many[table_at:table_at + len(table)] = table
    (top / "libmany.so").write_bytes(many)
    (top / "main").write_bytes(library(
        {"needed": ["libmany.so"], "runpath": "$ORIGIN", "interp": LOADER,
         "undef": [{"name": name, "lazy": False} for name in names]}))


def many_libraries(top):
    """20,000 libraries that need one another."""
    count = 20000
    room(0x800)
    for i in range(count):
        (top / f"lib{i}.so").write_bytes(library({
            "soname": f"lib{i}.so", "runpath": "$ORIGIN", "defs": [{"name": f"s{i}"}],
            "needed": [f"lib{(i + 1) % count}.so", f"lib{(i * 7 + 1) % count}.so"],
            "undef": [{"name": f"s{(i + 1) % count}"}]}))
    (top / "main").write_bytes(library(
        {"needed": ["lib0.so"], "runpath": "$ORIGIN", "interp": LOADER, "undef": [{"name": "s0"}]}))


OBJECTS_MAX = 32768                 # of a process that is modelled


def too_many_libraries(top):
    """More libraries than are modelled, each of which needs the next one."""
    room(0x800)
    one = library({"soname": "libOWNNN.so", "runpath": "$ORIGIN", "needed": ["libNEXTT.so"]})
    for i in range(OBJECTS_MAX + 1):
        (top / f"lib{i:05}.so").write_bytes(one.replace(b"OWNNN", b"%05d" % i)
                                            .replace(b"NEXTT", b"%05d" % (i + 1)))


def limit_faults(exe, top):
    """Where a bound that is reached is not named, or ends in "ok" or "broken"."""
    too_many_libraries(top)
    musl, main = top / "ld-musl-x86_64.so.1", top / "main"
    musl.write_bytes(library({"soname": "libc.musl-x86_64.so.1"}))
    says = f"main loads more than {OBJECTS_MAX} libraries, the most that are modelled in one process"
    for interp in (LOADER, str(musl)):
        main.write_bytes(library(
            {"needed": ["lib00000.so"], "runpath": "$ORIGIN", "interp": interp}))
        main.chmod(0o755)
        for words in (["check", "main"], ["why", "--exe", "main", "libx.so"]):
            done = subprocess.run([str(exe), *words], capture_output=True, text=True, timeout=60,
                                  check=False, cwd=top)
            if done.returncode != 3 or says not in done.stdout + done.stderr:
                yield f"{Path(interp).name}: {words[0]}: status {done.returncode}: " \
                      f"{(done.stdout + done.stderr)[:300]}"


def whole_faults(exe, top):
    """A document that memory does not do for is not printed in part: 4000 libraries make 3 MB."""
    count = 4000
    room(0x800)
    for i in range(count + 1):
        (top / f"lib{i}.so").write_bytes(library(
            {"soname": f"lib{i}.so", "needed": [f"lib{i + 1}.so"] if i < count else []}))
    (top / "main").write_bytes(library(
        {"needed": ["lib0.so"], "rpath": "$ORIGIN", "interp": LOADER}))
    (top / "main").chmod(0o755)

    def check(*words):
        return subprocess.run([str(exe), "check", "--json", str(top / "main"), *words],
                              capture_output=True, timeout=60, check=False)
    whole, ended = check(), 0
    if whole.returncode != 0 or len(whole.stdout) < 1 << 20:
        yield f"with the memory: status {whole.returncode}, {len(whole.stdout)} bytes"
    for mebibytes in range(16, 40, 4):
        done = check("--limit", f"60s,{mebibytes}MiB")
        is_ended = done.returncode == 3 and not done.stdout and b"it needs more memory" in done.stderr
        ended += is_ended
        if not is_ended and (done.returncode, done.stdout) != (whole.returncode, whole.stdout):
            yield f"with {mebibytes} MiB: status {done.returncode}, {len(done.stdout)} bytes of " \
                  f"{len(whole.stdout)}"
    if not ended:
        yield "there is memory enough for each"


def report_faults(exe, top):
    """A report that memory does not do for is not printed in part: 200 libraries that are missing."""
    count = 200
    room(0x400)
    for i in range(count):
        following = [f"lib{i + 1}.so"] if i + 1 < count else []
        (top / f"lib{i}.so").write_bytes(library(
            {"soname": f"lib{i}.so", "needed": [f"libmissing{i}.so", *following],
             "rpath": "$ORIGIN"}))
    (top / "main").write_bytes(library(
        {"needed": ["lib0.so"], "rpath": "$ORIGIN", "interp": LOADER}))
    (top / "main").chmod(0o755)

    def report(*words):
        return subprocess.run([str(exe), "check", "--report", str(top / "main"), *words],
                              capture_output=True, timeout=60, check=False)
    whole, ended = report(), 0
    if whole.returncode != 1 or b"libmissing0.so" not in whole.stdout:
        yield f"with the memory: status {whole.returncode}, {len(whole.stdout)} bytes"
    for mebibytes in range(20, 56, 4):
        done = report("--limit", f"60s,{mebibytes}MiB")
        is_ended = done.returncode == 3 and not done.stdout and b"it needs more memory" in done.stderr
        ended += is_ended
        if not is_ended and (done.returncode, done.stdout) != (whole.returncode, whole.stdout):
            yield f"with {mebibytes} MiB: status {done.returncode}, {len(done.stdout)} bytes of " \
                  f"{len(whole.stdout)}"
    if not ended:
        yield "there is memory enough for each"


def input_faults(exe, top):
    """A pipe without a writer is waited for a while, memory devices not at all; what comes through a
    pipe, late too, is read."""
    line = "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"
    fifo = top / "fifo"
    os.mkfifo(fifo)
    for words in (["explain"], ["check", "--snapshot"]):
        for name, says in ((fifo, "no program opened for writing"), ("/dev/zero", "it is a device")):
            done = subprocess.run([str(exe), *words, str(name)], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=60, check=False)
            if done.returncode != 3 or says not in done.stderr:
                yield f"{words[0]} {name}: status {done.returncode}: {done.stderr}"
    explain, pipe = f"exec {shlex.quote(str(exe))} explain", shlex.quote(str(fifo))
    for shell in (f"{explain} <(sleep 1; echo '{line}')", f"{explain} - <<< '{line}'",
                  f"{explain} /dev/stdin <<< '{line}'",
                  f"(sleep 1; echo '{line}' > {pipe}) & {explain} {pipe}"):
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=False)
        if "libcudart.so.12" not in done.stdout:
            yield f"{shell}: status {done.returncode}: {done.stdout}{done.stderr}"


def journal_faults(exe, top):
    """Journals that are not all read are never "ok": 10001 of them, and one of 17 MiB."""
    main = top / "main"
    main.write_bytes(library({"interp": LOADER}))
    main.chmod(0o755)

    def check():
        done = subprocess.run([str(exe), "check", str(main)], capture_output=True, text=True,
                              timeout=60, check=False)
        done.stdout = " ".join(done.stdout.split())  # lines are folded
        return done
    if check().returncode != 0:
        yield f"without a journal: status {check().returncode}"
    log = top / ".gpumend" / "journal" / "1" / "log"
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        file.truncate(17 << 20)
    done = check()
    if done.returncode != 3 or "is larger than 16 MiB; whether that repair has ended" \
            not in done.stdout:
        yield f"a large one: status {done.returncode}: {done.stdout[:300]}"
    log.unlink()
    for i in range(2, 10002):
        (log.parents[1] / str(i)).mkdir()
    done = check()
    if done.returncode != 3 or "journal has more than 10000 entries; the others were not looked " \
            "at" not in done.stdout:
        yield f"many: status {done.returncode}: {done.stdout[:300]}"


def folder_faults(exe, top):
    """Folders of libraries that are not all looked at are named: 2000 before the one with a copy."""
    room(0x400)
    here = top / "has-it"
    here.mkdir()
    (here / "libwanted.so.1").write_bytes(library({"soname": "libwanted.so.1"}))
    folders = [top / f"f{i}" for i in range(2000)]
    for folder in folders:
        folder.mkdir()
        (folder / "libother.so").touch()
    main = top / "main"
    main.write_bytes(library({"needed": ["libwanted.so.9"], "interp": LOADER}))
    main.chmod(0o755)
    for count, named in ((100, False), (2000, True)):
        path = ":".join(map(str, [*folders[:count], here]))
        done = subprocess.run([str(exe), "check", str(main)], capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, "LD_LIBRARY_PATH": path})
        said = " ".join(done.stdout.split())
        if ("more than 2000 folders have libraries" in said and "was not looked at" in said) != named:
            yield f"{count} before it: status {done.returncode}: {said[:400]}"


def conf_faults(exe, top):
    """Bounds of ld.so.conf that are reached are said: folders, files, depth, bytes of a file."""
    room(0x400)
    main = top / "main"
    main.write_bytes(library({"needed": ["libwanted.so.9"], "interp": LOADER}))
    main.chmod(0o755)
    etc = top / "etc"
    (etc / "more").mkdir(parents=True)
    (top / "lib64").mkdir()
    (top / LOADER[1:]).write_bytes(Path(LOADER).read_bytes())

    def said(texts):
        for name, text in texts.items():
            (etc / name).write_text(text)
        done = subprocess.run([str(exe), "check", "--root", str(top), "/main"], capture_output=True,
                              text=True, timeout=60, check=False)
        return " ".join(done.stdout.split())
    few = {"ld.so.conf": "include more/*.conf\n/a\n", "more/0.conf": "/b\n"}
    if "ld.so.conf" in said(few):
        yield f"few: {said(few)[:400]}"
    cases = (("names more than 4096 folders", {"ld.so.conf": "".join(f"/f{i}\n" for i in range(4097))}),
             ("is larger than 262144 bytes; it was not read", {"ld.so.conf": "#" * (257 << 10)}),
             ("include one another more than 16 deep",
              {"ld.so.conf": "include more/0.conf\n",
               **{f"more/{i}.conf": f"include {i + 1}.conf\n" for i in range(20)}}),
             ("includes more than 256 files",
              {"ld.so.conf": "include more/*.conf\n", **{f"more/{i}.conf": "/a\n" for i in range(300)}}))
    for wanted, texts in cases:
        found = said(texts)
        if wanted not in found:
            yield f"{wanted}: {found[-600:]}"


def mapped_faults(exe, top):
    """A process that has mapped more libraries than are compared is never "ok"."""
    room(0x1000)
    for i in range(2001):
        (top / f"{i}.so").write_bytes(library({"soname": f"{i}.so"}))
    program = ("import ctypes, sys\nfor i in range(int(sys.argv[1])): ctypes.CDLL(f'{sys.argv[2]}/{i}.so')\n"
               "print('ready', flush=True)\nsys.stdin.read()\n")
    for count, wanted in ((5, False), (2001, True)):
        with subprocess.Popen([sys.executable, "-c", program, str(count), str(top)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            done = subprocess.run([str(exe), "check", "--pid", str(process.pid)], capture_output=True,
                                  text=True, timeout=60, check=False)
            process.communicate("")
        text = " ".join((done.stdout + done.stderr).split())
        if ("has mapped more than 2000 libraries" in text) != wanted or \
                (wanted and done.returncode not in (1, 3)):
            yield f"{count}: status {done.returncode}: {text[-500:]}"


def host_faults(exe, top):
    """What is left out of a host's files is said, and the verdict is "cannot tell"."""
    main = top / "main"
    room(0x400)
    main.write_bytes(library({"interp": LOADER}))
    main.chmod(0o755)
    loader = top / LOADER[1:]
    loader.parent.mkdir()
    loader.write_bytes(Path(LOADER).read_bytes())
    for folder in ("proc/self", "sys/bus/pci/devices", "etc/nvidia-container-runtime", "sys/fs/cgroup"):
        (top / folder).mkdir(parents=True)
    (top / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory\n")
    mount = "22 1 0:20 / /m{} rw - tmpfs tmpfs rw\n"
    cases = (("", "proc/self/mountinfo", mount.format(0)),
             ("mountinfo has more than 20000 lines", "proc/self/mountinfo",
              "".join(mount.format(i) for i in range(20001))),
             ("config.toml has more than 20000 lines", "etc/nvidia-container-runtime/config.toml",
              "[nvidia-container-cli]\n" + "a = 1\n" * 20001),
             ("", "proc/self/cgroup", "0::" + "/a" * 64 + "\n"),
             ("deeper than 64 folders", "proc/self/cgroup", "0::" + "/a" * 65 + "\n"))
    for wanted, name, text in cases:
        (top / name).write_text(text)
        done = subprocess.run([str(exe), "check", "--root", str(top), "/main"], capture_output=True,
                              text=True, timeout=60, check=False)
        found = " ".join(done.stdout.split())
        if ("were not read" in found) != bool(wanted) or wanted not in found or \
                (wanted and done.returncode != 3):
            yield f"{name}: status {done.returncode}: {found[-500:]}"
        (top / name).write_text("")


def bank_faults(exe, top):
    """A GPU of AMD with more banks of memory than are added up."""
    main, bus = top / "main", top / "sys/bus/pci/devices/0000:03:00.0"
    node = top / "sys/class/kfd/kfd/topology/nodes/1"
    room(0x400)
    main.write_bytes(library({}))
    main.chmod(0o755)
    bus.mkdir(parents=True)
    for name, value in (("vendor", "0x1002"), ("device", "0x73bf"), ("class", "0x030000")):
        (bus / name).write_text(value + "\n")
    for bank in range(17):
        (node / f"mem_banks/{bank}").mkdir(parents=True)
        (node / f"mem_banks/{bank}/properties").write_text("heap_type 1\nsize_in_bytes 1073741824\n")
        (node / "properties").write_text("simd_count 160\ngfx_target_version 100300\nlocation_id 768\n")
        if bank < 15:
            continue
        done = subprocess.run([str(exe), "check", "--root", str(top), "/main"], capture_output=True,
                              text=True, timeout=60, check=False)
        found = " ".join(done.stdout.split())
        if ("more than 16 banks" in found) != (bank == 16) or (bank == 16 and done.returncode not in (1, 3)):
            yield f"{bank + 1}: status {done.returncode}: {found[-500:]}"


def question_faults(exe, top):
    """A question of more words than are read is refused."""
    for count, status in ((60, (0, 1, 2, 3)), (65, (2,))):
        done = subprocess.run([str(exe), "kb", " ".join(["torch"] * count)], capture_output=True, text=True,
                              timeout=60, check=False, cwd=top)
        if done.returncode not in status or ("has at most 64 words" in done.stderr) != (count > 64):
            yield f"{count}: status {done.returncode}: {(done.stdout + done.stderr)[:300]}"
    for count in (8, 9):
        minors = [f"2.{i}" for i in range(count)]
        for asked in (["does driver 525 support cuda " + " ".join(f"12.{i}" for i in range(count))],
                      ["does torch run with python 3.8", *(f"--with=torch={m}" for m in minors)]):
            done = subprocess.run([str(exe), "kb", *asked], capture_output=True, text=True, timeout=60,
                                  check=False, cwd=top)
            if ("has at most 8 values" in done.stderr) != (count > 8) or (count > 8) != (done.returncode == 2):
                yield f"{asked}: status {done.returncode}: {(done.stdout + done.stderr)[:300]}"


def known_packages(top, steps):
    """An environment with a package for each list of steps, and how it is checked."""
    top.mkdir()
    env, knowledge = top / "env", top / "kb"
    site = tree.environment(env) / "lib/python3.11/site-packages"
    doc = json.loads((HERE.parent.parent / "kb/imports.json").read_text())
    row = next(r for r in doc["rows"] if r["package"] == "ctranslate2")
    doc["rows"] = [{**row, "id": f"many{i:02}", "package": f"many{i:02}", "module": f"many{i:02}",
                    "versions": ">=1", "steps": list_of} for i, list_of in enumerate(steps)]
    knowledge.mkdir()
    (knowledge / "imports.json").write_text(json.dumps(doc))
    for i in range(len(steps)):
        tree.dist_info(site, f"many{i:02}", "1.0", [f"many{i:02}/__init__.py"])
        (site / f"many{i:02}").mkdir()
        (site / f"many{i:02}/__init__.py").write_text("")
    return [str(env), "--kb", str(knowledge)]


def fault_of_known(exe, top, steps, says, reached):
    """What is wrong with the answer about these packages, or None; `reached`: a bound is."""
    done = subprocess.run([str(exe), "check", *known_packages(top, steps)], text=True,
                          capture_output=True, timeout=60, check=False)
    said = " ".join(done.stdout.split())
    if (says in said) != reached or done.returncode != (3 if reached else 0):
        return f"{len(steps)}: status {done.returncode}: {(said + done.stderr)[:400]}"
    return None


def package_faults(exe, top):
    """Packages whose imports are known and that are too many, or nested too deep: never ok."""
    def imports(package):
        return [{"do": "import", "package": package, "optional": package == "numpy"}]
    for count in (63, 64):              # and ctranslate2
        yield fault_of_known(exe, top / f"n{count}", [imports("numpy")] * count,
                             "more than 64 packages whose imports are known are installed; ",
                             count == 64)
    for count in (10, 20):
        yield fault_of_known(exe, top / f"d{count}",
                             [*(imports(f"many{i + 1:02}") for i in range(count - 1)), imports("numpy")],
                             "imports are nested more than 16 deep: what many16 loads was not judged",
                             count == 20)


def cut_faults(exe, top):
    """A file that is cut off while it is read: status 3 and a line, no signal and no verdict."""
    one_chain(top)
    (top / "main").chmod(0o755)
    library_file, answers = top / "libmany.so", set()
    whole = library_file.read_bytes()
    for _ in range(60):
        with subprocess.Popen([str(exe), "check", str(top / "main")], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            maps = Path(f"/proc/{process.pid}/maps")
            try:
                while "libmany.so" not in maps.read_text():
                    pass
                os.truncate(library_file, 4096)
            except OSError:
                pass                    # it has ended
            out, err = process.communicate(timeout=60)
        library_file.write_bytes(whole)
        said = not out and "a file was changed while it was read" in err
        answers.add((process.returncode, said))
        if process.returncode < 0 or (process.returncode == 3) != said:
            yield f"status {process.returncode}: {(out + err)[:300]}"
            return
        if said:
            return
    yield f"never cut in time: {answers}"


def elf_fault(exe, top, make):
    """What is wrong with the answers about a program that loads much, or None."""
    make(top)
    (top / "main").chmod(0o755)
    for command in ("check", "fix"):
        before = cpu_seconds()
        try:
            done = subprocess.run([str(exe), command, str(top / "main")], capture_output=True,
                                  text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            return f"{command}: still running after 60 s"
        took = cpu_seconds() - before
        if took > ELF_SECONDS:
            return f"{command}: took {took:.1f} s of processor time"
        if done.returncode != 0:
            return f"{command}: status {done.returncode}: {(done.stdout + done.stderr)[:300]}"
    return None


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fault(exe, top, text, encoding):
    """What is wrong with the answer about a host with this specification, or None."""
    for folder in ("etc/cdi", "proc", "sys/bus/pci/devices"):
        (top / folder).mkdir(parents=True)
    (top / "etc/cdi/nvidia.yaml").write_text(text, encoding=encoding)
    before = cpu_seconds()
    try:
        done = subprocess.run([str(exe), "container", "cdi", "--host", str(top), "--check"],
                              capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return "still running after 30 s"
    took = cpu_seconds() - before
    if took > SECONDS:
        return f"took {took:.1f} s of processor time"
    if done.returncode != 3 or TOO_LARGE not in done.stdout + done.stderr:
        return f"status {done.returncode}: {(done.stdout + done.stderr)[:300]}"
    return None


def limits(exe):
    """What --limit says, where it ends a command, and where it is refused."""
    def run(*words, **more):
        return subprocess.run([str(exe), *words], capture_output=True, text=True, timeout=60,
                              check=False, **more)
    with subprocess.Popen(["yes", "an endless log of nothing"], stdout=subprocess.PIPE) as endless:
        timed = run("explain", "-", "--limit", "1s", stdin=endless.stdout)
        endless.kill()
    yield "a log without an end", timed.returncode == 3 and not timed.stdout and \
        "explain: stopped after 1 s of processor time; --limit TIME" in timed.stderr, timed
    with tempfile.NamedTemporaryFile("w", suffix=".json") as large:
        large.write('{"schema": 1, "text": "' + "x" * 40_000_000 + '"}')
        large.flush()
        small = run("check", "--json", "--limit=60s,16MiB", "--snapshot", large.name)
    yield "too little memory", small.returncode == 3 and not small.stdout and \
        "check: stopped: it needs more memory than 16 MiB" in small.stderr, small
    for words in (["check", "/", "--limit", "5m"], ["devices", "--limit=90"],
                  ["kb", "newest torch", "--limit", "1h,4GiB"]):
        given = run(*words)
        yield " ".join(words), given.returncode == run(*words[:2]).returncode and \
            given.stdout == run(*words[:2]).stdout if words[0] != "devices" else \
            given.returncode == run("devices").returncode, given
    for value in ("0", "", "5x", "-1", "60s,", "60s,5", "60s,15MiB", "9" * 30, "60s,9999999999999GiB", "8d"):
        wrong = run("check", "/", "--limit", value)
        yield f"--limit {value}", wrong.returncode == 2 and "--limit takes" in wrong.stderr, wrong
    for words in (["fix", "--apply", "/nonexistent"], ["fix", "--undo", "/nonexistent"],
                  ["check", "--probe"], ["choose", "--probe"],
                  ["container", "cdi", "--write", "--folder", "/nonexistent/cdi"]):
        acts = run(*words, "--limit", "60s")
        yield " ".join(words), acts.returncode == 2 and "has no limit" in acts.stderr, acts


def main():
    exe, failed = Path(sys.argv[1]).resolve(), 0
    passed = 0
    for name, good, seen in limits(exe):
        passed += good
        failed += not good
        if not good:
            print(f"FAIL {name}: status {seen.returncode}: {(seen.stdout + seen.stderr)[:300]}")
    for name, text in SPECIFICATIONS.items():
        with tempfile.TemporaryDirectory(prefix="gpumend-bounded.") as top:
            why = fault(exe, Path(top), text, "utf-16" if "UTF-16" in name else "utf-8")
        if why:
            failed += 1
            print(f"FAIL a specification of {name}: {why}")
        else:
            passed += 1
    for make in (one_chain, one_gnu_chain, many_libraries):
        with tempfile.TemporaryDirectory(prefix="gpumend-bounded.") as top:
            why = elf_fault(exe, Path(top), make)
        if why:
            failed += 1
            print(f"FAIL {make.__doc__} {why}")
        else:
            passed += 1
    with tempfile.TemporaryDirectory(prefix="gpumend-bounded.") as top:
        for why in limit_faults(exe, Path(top)):
            failed += 1
            print(f"FAIL too many libraries: {why}")
        passed += 1
    for faults in (whole_faults, report_faults, journal_faults, folder_faults,
                   package_faults, cut_faults, conf_faults, mapped_faults, host_faults, bank_faults,
                   question_faults, input_faults):
        with tempfile.TemporaryDirectory(prefix="gpumend-bounded.") as top:
            wrong = [why for why in faults(exe, Path(top)) if why]
        for why in wrong:
            failed += 1
            print(f"FAIL {faults.__doc__.split(':', maxsplit=1)[0]}: {why}")
        passed += not wrong
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
