#!/usr/bin/env python3
"""How fast gpumend is beside the tools that people use today: medians of one run, as ratios.

    tests/bench/run.py [--gpumend PATH] [--runs N] [--strict]

Every figure comes from processes started for it here, one tool after the other in turns, with
output to /dev/null and a warm page cache (each is run once before). A ratio is the other tool's
median over gpumend's: 2.0 means gpumend is twice as fast. These questions have a budget:

  why    one executable's closure: within 1.25 of plain libtree, which looks up no symbol, and ahead
         of `libtree -v`; the loader's own trace beside it. Each tool takes turns with gpumend alone: what a third one leaves in the processor's caches
         counts for neither. Plain libtree leaves out the C library and its like; -v shows all
         objects, -vvv whole closures of each
  batch  the closure of every ELF file of the machine in one process: 10 times faster than
         `libtree -vvv` given the same list, which goes through whole closures as gpumend does;
         plain libtree, which passes over system libraries and what it has shown before, and so
         does not answer the question for each file, stands beside it
  check  an environment with torch and ctranslate2: 50 times faster than
         `python -m torch.utils.collect_env`, under 35 ms, under 46 MiB
  run    what `gpumend run` adds to the start of a Python program in an environment with torch and
         ctranslate2, and of /bin/true: with a plan that is kept from an earlier start, under 5 ms;
         without one beside it. Other work on the machine only adds, so the quickest turns count
  probe  `gpumend probe --quick` of an environment with torch, with a fake driver in whose stages next
         to nothing happens, beside `import torch; torch.cuda.is_available()`, which answers less:
         5 times faster; and what one stage more costs, a process of its own: under 10 ms
  arch   the GPU architectures in libcublasLt: milliseconds; `cuobjdump -lelf` beside it
  explain  a log of 1 GiB of ordinary text with one failure in its middle: 500 MB/s, under 32 MiB;
         beside it a search for a few words of failures with grep, which tells no cause; and eight
         kinds of real logs (logs/README.md), 256 MiB of each: 300 MB/s of processor time for the
         slowest
  guard  what `run --guard-teardown` adds to the end of a thread: under 50 us for a destructor
  gpucall  what `run --trace-gpu` adds to a GPU call that succeeds: under 20 ns
  trace  what `run --trace` costs the program (watch_trace.py), beside LD_DEBUG=libs: the whole process takes
         less than twice its time
  image  `gpumend container check` of a saved image of 5 GB (saved_image.py), beside the tool that only
         decompresses its layer (zstd -dc, gzip -dc) or reads it (cat), to /dev/null: at most 1.5
         times that, the quickest turn of each, by the processor and by the clock; under 100 MiB
  fleet  `gpumend fleet report` of 10,000 nodes with planted differences: all of them and no other, under
         1 GiB, beside jq and DuckDB, which are asked who differs; `export` in each format: under 50 ms

A missing tool or environment is skipped by name. The last line is `N passed, N failed, N skipped`,
a budget each; a missed one gives exit status 1 with --strict only.
"""

import argparse
import lzma
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scenarios"))

import fleet                                                                        # noqa: E402
import guard                                                                        # noqa: E402
import gpucall                                                                      # noqa: E402
import saved_image                                                                  # noqa: E402
import cases                                                                        # noqa: E402
import store                                                                        # noqa: E402
import watch_trace                                                                   # noqa: E402

EXECUTABLES = ("true", "ls", "curl", "git", "python3", "gdb", "perl", "vim", "ssh", "ffmpeg",
               "gcc", "clang", "cmake", "podman", "qemu-system-x86_64", "gpg", "systemctl")
SKIP_TOPS = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/cache", str(HERE.parent.parent))
NULL = os.open(os.devnull, os.O_RDWR)
TO_NULL = [(os.POSIX_SPAWN_DUP2, NULL, fd) for fd in (0, 1, 2)]
MIB = 1 << 20
TIME_LIMIT_S = 120         # no more turns of one comparison than fit into this
RUN_LIMIT_S = 60           # libtree does not end on some damaged files


class Bench:
    def __init__(self, gpumend):
        self.gpumend = gpumend
        self.counts = {"met": 0, "MISSED": 0, "skipped": 0}

    def budget(self, what, value, wanted, ok):
        state = "met" if ok else "MISSED"
        self.counts[state] += 1
        print("  budget %-44s %-12s wanted %-12s %s" % (what, value, wanted, state))

    def skip(self, what, why):
        self.counts["skipped"] += 1
        print("SKIP %s: %s" % (what, why))


def run(command, env=None):
    """Start a command and wait; ret (seconds, exit status)."""
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ if env is None else env,
                         file_actions=TO_NULL, setpgroup=0)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(pid, signal.SIGKILL))
    signal.alarm(RUN_LIMIT_S)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - began
    signal.alarm(0)
    return took, os.waitstatus_to_exitcode(status)


# Linux counts the memory of the starting process until the exec, so a small one starts it.
PEAK = """
import os, sys
null = os.open(os.devnull, os.O_RDWR)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
                     file_actions=[(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)])
print(os.wait4(pid, 0)[2].ru_maxrss * 1024)
"""


def peak_memory(command):
    """Peak resident memory of one run in bytes; at least that of a bare interpreter (9 MiB)."""
    return int(subprocess.run([sys.executable, "-I", "-S", "-c", PEAK, *command], check=True,
                              capture_output=True, text=True).stdout)


class Measured:
    def __init__(self, samples):
        self.seconds = statistics.median(s[0] for s in samples)
        self.spread = (min(s[0] for s in samples), max(s[0] for s in samples))
        self.status = samples[-1][1]
        self.turns = len(samples)


def in_turns(commands, turns):
    """{name: (command, env)} -> {name: Measured}; the first turn only warms the cache, and is all there
    is of a command that had to be ended."""
    samples = {name: [] for name in commands}
    ended = {}
    for name, (command, env) in commands.items():
        first = run(command, env)
        if first[1] == -signal.SIGKILL:
            ended[name] = Measured([first])
    until = time.monotonic() + TIME_LIMIT_S
    for _ in range(turns):
        for name, (command, env) in commands.items():
            if name not in ended:
                samples[name].append(run(command, env))
        if time.monotonic() > until and all(len(samples[n]) >= 3 for n in commands if n not in ended):
            break
    return {name: ended[name] if name in ended else Measured(samples[name]) for name in commands}


def in_pairs(ours, others, turns):
    """Each of the others in turns with ours alone: [(name, Measured, Measured of ours)]."""
    return [(name, *reversed(in_turns({"gpumend": ours, name: other}, turns).values()))
            for name, other in others.items()]


def milliseconds(seconds):
    return "%.2f ms" % (seconds * 1e3) if seconds < 1 else "%.2f s" % seconds


def print_table(title, measured, notes=()):
    ours = measured.get("gpumend")
    print("\n%s" % title)
    for name, m in measured.items():
        ratio = "" if m is ours or not ours else "%8.1f x" % (m.seconds / ours.seconds)
        ratio += "  (ended after %d s)" % RUN_LIMIT_S if m.status == -signal.SIGKILL else ""
        print("  %-34s %11s  (%s to %s, %d turns)%s" % (
            name, milliseconds(m.seconds), milliseconds(m.spread[0]), milliseconds(m.spread[1]),
            m.turns, ratio))
    for note in notes:
        print("  " + note)


def print_pairs(title, pairs):
    print("\n%s" % title)
    for name, theirs, ours in pairs:
        print("  %-34s %11s  (%s to %s, %d turns)%8.2f x of gpumend's %s (%s to %s)" % (
            name, milliseconds(theirs.seconds), milliseconds(theirs.spread[0]),
            milliseconds(theirs.spread[1]), theirs.turns, theirs.seconds / ours.seconds,
            milliseconds(ours.seconds), milliseconds(ours.spread[0]), milliseconds(ours.spread[1])))


def answers(gpumend, word, *arguments):
    """Whether gpumend knows the question: it succeeds, and the word is in its answer."""
    done = subprocess.run([gpumend, *arguments], stdin=subprocess.DEVNULL, capture_output=True)
    return done.returncode in (0, 1) and word in done.stdout


# ---- why ---------------------------------------------------------------------------------------

def closure_size(path):
    """Objects that the loader itself reports for an executable."""
    done = subprocess.run([path], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)
    return done.stdout.count("\n") if done.returncode == 0 else 0


def dynamic_executables():
    """[(objects, path)] of the known executables that are here, smallest closure first."""
    found = {}
    for name in EXECUTABLES:
        path = shutil.which(name, path="/usr/bin:/bin:/usr/local/bin")
        if not path:
            continue
        path = os.path.realpath(path)
        with open(path, "rb") as file:
            if file.read(4) == b"\x7fELF":
                found[path] = closure_size(path)
    return sorted((size, path) for path, size in found.items() if size > 0)


def bench_why(bench, runs, libtree):
    if not answers(bench.gpumend, b"libc.so.6", "why", "--exe", "/bin/true"):
        return bench.skip("why", "gpumend has no such command")
    sizes = dynamic_executables()
    rows = sizes[:1] + sizes[len(sizes) // 2:len(sizes) // 2 + 1] + sizes[-1:]
    for size, path in rows:
        traced = dict(os.environ, LD_TRACE_LOADED_OBJECTS="1")
        others = {"LD_TRACE_LOADED_OBJECTS": ([path], traced)}
        for flag in ([], ["-v"], ["-vvv"]) if libtree else ():
            others[" ".join(["libtree", *flag])] = ([libtree, *flag, path], None)
        pairs = in_pairs(([bench.gpumend, "why", "--exe", path], None), others, runs)
        print_pairs("why: closure of %s, %d objects" % (path, size), pairs)
    if not libtree:
        return bench.skip("why beside libtree", "there is no libtree")
    for rival, least in (("libtree", 0.8), ("libtree -v", 1)):
        ratio = next(theirs.seconds / ours.seconds for name, theirs, ours in pairs if name == rival)
        bench.budget("largest closure, beside " + rival, "%.2f x" % ratio, ">= %g x" % least,
                     ratio >= least)


# ---- batch -------------------------------------------------------------------------------------

def elf_files():
    """Every regular file of the machine, less this checkout, that begins as ELF does; sorted."""
    found = []
    for base, folders, names in os.walk("/"):
        folders[:] = [f for f in folders if os.path.join(base, f) not in SKIP_TOPS]
        for name in names:
            path = os.path.join(base, name)
            if os.path.islink(path) or not os.path.isfile(path) or "\n" in path:
                continue
            try:
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        found.append(path)
            except OSError:
                pass
    return sorted(found)


def bench_batch(bench, runs, libtree):
    with tempfile.NamedTemporaryFile("w", suffix=".list", errors="surrogateescape") as listing:
        paths = elf_files()
        listing.write("".join(p + "\n" for p in paths))
        listing.flush()
        if not answers(bench.gpumend, os.fsencode(paths[-1]), "why", "--batch", listing.name):
            return bench.skip("batch", "gpumend has no such option")
        commands = {"gpumend": ([bench.gpumend, "why", "--batch", listing.name], None)}
        if libtree:     # xargs starts it again where the list is longer than arguments may be
            xargs = ["/usr/bin/xargs", "-d", "\n", "-s", "1900000", "-a", listing.name, libtree]
            commands["libtree -vvv"] = ([*xargs, "-vvv"], None)
            commands["libtree"] = (xargs, None)
        measured = in_turns(commands, min(runs, 5))
        peak = peak_memory(commands["gpumend"][0])
    ours = measured["gpumend"]
    print_table("batch: closures of %d ELF files" % len(paths), measured,
                ("gpumend: %.0f closures a second, peak memory %.1f MiB"
                 % (len(paths) / ours.seconds, peak / MIB),))
    if not libtree:
        return bench.skip("batch beside libtree", "there is no libtree")
    ratio = measured["libtree -vvv"].seconds / ours.seconds
    bench.budget("all closures, beside libtree -vvv", "%.1f x" % ratio, ">= 10 x", ratio >= 10)


# ---- check -------------------------------------------------------------------------------------

def bench_check(bench, runs):
    wheels = store.Store(store.cache_folder(),
                         store.read_pins(HERE.parent / "scenarios" / "wheels.txt"),
                         lambda text: print("  " + text, flush=True))
    try:
        store.usable_python()
        env = wheels.build("bench", list(dict.fromkeys(
            (*cases.TORCH12, *cases.CT_485, "pip==25.3"))))
    except store.Skip as reason:
        return bench.skip("check", str(reason))
    try:
        if not answers(bench.gpumend, b'"verdict"', "check", str(env), "--json"):
            return bench.skip("check", "gpumend has no such command")
        clean = store.clean_environment()
        measured = in_turns({
            "gpumend": ([bench.gpumend, "check", str(env)], clean),
            "torch.utils.collect_env": (
                [str(env / "bin/python"), "-m", "torch.utils.collect_env"], clean)},
            min(runs, 9))
        peak = peak_memory([bench.gpumend, "check", str(env)])
        files = sum(len(names) for _, _, names in os.walk(env))
    finally:
        shutil.rmtree(env, ignore_errors=True)
    ours, theirs = measured["gpumend"], measured["torch.utils.collect_env"]
    print_table("check: torch 2.5.1 and ctranslate2 4.8.5, %d files" % files, measured,
                ("gpumend ended with status %d, collect_env with %d" % (
                    ours.status, theirs.status),))
    ratio = theirs.seconds / ours.seconds
    bench.budget("beside torch.utils.collect_env", "%.0f x" % ratio, ">= 50 x", ratio >= 50)
    bench.budget("warm", milliseconds(ours.seconds), "< 35 ms", ours.seconds < 0.035)
    bench.budget("peak memory", "%.1f MiB" % (peak / MIB), "< 46 MiB", peak < 46 * MIB)
    return None


# ---- probe -------------------------------------------------------------------------------------

IS_AVAILABLE = "import torch; print(torch.cuda.is_available())"


def fake_driver(folder):
    """The environment of a program that finds the fake driver of tests/probe."""
    subprocess.run(["cc", "-std=gnu17", "-O1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o",
                    os.path.join(folder, "libcuda.so.1"),
                    str(HERE.parent / "probe/fake/cuda.c")], check=True)
    return dict(store.clean_environment(), LD_LIBRARY_PATH=folder)


def bench_probe(bench, runs):
    if not answers(bench.gpumend, b"cpu", "probe", "--stages"):
        return bench.skip("probe", "gpumend has no such command")
    wheels = store.Store(store.cache_folder(),
                         store.read_pins(HERE.parent / "scenarios" / "wheels.txt"),
                         lambda text: print("  " + text, flush=True))
    try:
        store.usable_python()
        env = wheels.build("bench-probe", list(cases.TORCH12))
    except store.Skip as reason:
        return bench.skip("probe", str(reason))
    probe = [bench.gpumend, "probe", str(env)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            faked = fake_driver(folder)
            measured = in_turns({
                "gpumend": ([*probe, "--quick"], faked),
                "import torch; is_available()": ([str(env / "bin/python"), "-c", IS_AVAILABLE],
                                                 store.clean_environment()),
                "one stage": ([*probe, "--stage", "driver-found"], faked),
                "five stages": ([*probe, "--stage", "device-count"], faked)}, min(runs, 9))
    finally:
        shutil.rmtree(env, ignore_errors=True)
    ours, theirs = measured["gpumend"], measured["import torch; is_available()"]
    more = (measured["five stages"].seconds - measured["one stage"].seconds) / 4
    print_table("probe: torch 2.5.1, a fake driver", measured, (
        "gpumend ended with status %d, Python with %d; a stage more costs %s" % (
            ours.status, theirs.status, milliseconds(more)),))
    ratio = theirs.seconds / ours.seconds
    bench.budget("quick probe, beside import torch", "%.1f x" % ratio, ">= 5 x",
                 ours.status == 0 and ratio >= 5)
    bench.budget("a stage", milliseconds(more), "< 10 ms", more < 0.01)
    return None


# ---- arch --------------------------------------------------------------------------------------

CUBLAS, TRITON = "nvidia-cublas-cu12==12.4.5.8", "triton==3.1.0"  # triton's wheel has cuobjdump


def bench_arch(bench, runs):
    wheels = store.Store(store.cache_folder(),
                         store.read_pins(HERE.parent / "scenarios" / "wheels.txt"),
                         lambda text: print("  " + text, flush=True))
    try:
        wheels.provide([CUBLAS, TRITON])
    except store.Skip as reason:
        return bench.skip("arch", str(reason))
    library = wheels.wheel_folder(CUBLAS) / "nvidia/cublas/lib/libcublasLt.so.12"
    cuobjdump = wheels.wheel_folder(TRITON) / "triton/backends/nvidia/bin/cuobjdump"
    if not answers(bench.gpumend, b"sm_90", "kb", "arch", str(library)):
        return bench.skip("arch", "gpumend has no such command")
    with tempfile.TemporaryDirectory() as folder:
        tool = shutil.copy(cuobjdump, folder)
        os.chmod(tool, 0o700)
        measured = in_turns({
            "gpumend": ([bench.gpumend, "kb", "arch", str(library)], None),
            "cuobjdump -lelf": ([tool, "-lelf", str(library)], None)}, min(runs, 9))
    ours = measured["gpumend"]
    print_table("arch: libcublasLt.so.12, %.0f MiB" % (library.stat().st_size / MIB), measured)
    bench.budget("architectures of libcublasLt", milliseconds(ours.seconds), "< 10 ms",
                 ours.seconds < 0.01)
    return None


# ---- run ---------------------------------------------------------------------------------------

# The launcher reads the imports; the program itself does nothing.
IMPORTER = "if not __name__:\n    import torch\n    import ctranslate2\n"


def start_turns(bench, command, cache, turns):
    """{name: Measured}: the command alone, under run with a kept plan, and without one."""
    started = [bench.gpumend, "run", "--", *command]
    clean = store.clean_environment()
    warm, cold = (dict(clean, XDG_CACHE_HOME=str(cache / name)) for name in ("warm", "cold"))
    time.sleep(0.2)        # a plan is kept only if nothing it looked at is younger
    for _ in range(2):
        run(started, warm)
    samples = {"plain": [], "run, plan kept": [], "run, no plan": []}
    for _ in range(turns):
        shutil.rmtree(cache / "cold", ignore_errors=True)
        samples["plain"].append(run(command, clean))
        samples["run, plan kept"].append(run(started, warm))
        samples["run, no plan"].append(run(started, cold))
    kept = len(list((cache / "warm/gpumend/plans").iterdir()))
    return {name: Measured(s) for name, s in samples.items()}, kept


def bench_run(bench, runs):
    if not answers(bench.gpumend, b"CMD", "run", "--help"):
        return bench.skip("run", "gpumend has no such command")
    wheels = store.Store(store.cache_folder(),
                         store.read_pins(HERE.parent / "scenarios" / "wheels.txt"),
                         lambda text: print("  " + text, flush=True))
    commands = {"/bin/true": ["/bin/true"]}
    env = None
    with tempfile.TemporaryDirectory(prefix="gpumend-bench-") as top:
        top = pathlib.Path(top)
        try:
            store.usable_python()
            env = wheels.build("bench-run", list(dict.fromkeys((*cases.TORCH12, *cases.CT_450))))
            (top / "importer.py").write_text(IMPORTER)
            commands["a Python program, torch 2.5.1 and ctranslate2 4.5.0"] = [
                str(env / "bin/python"), "-I", "-S", str(top / "importer.py")]
        except store.Skip as reason:
            bench.skip("run with torch", str(reason))
        try:
            for number, (what, command) in enumerate(commands.items()):
                measured, kept = start_turns(bench, command, top / str(number), runs)
                plain = measured["plain"]
                print_table("run: %s" % what, measured, tuple(
                    "%s: %s more (quickest turns), %s more (medians), %.1f x" % (
                        name, milliseconds(m.spread[0] - plain.spread[0]),
                        milliseconds(m.seconds - plain.seconds), m.seconds / plain.seconds)
                    for name, m in measured.items() if m is not plain))
                more = measured["run, plan kept"].spread[0] - plain.spread[0]
                bench.budget("added to the start, plan kept", milliseconds(more), "< 5 ms",
                             kept == 1 and more < 0.005)
        finally:
            if env:
                shutil.rmtree(env, ignore_errors=True)
    return None


# ---- explain -----------------------------------------------------------------------------------

LOG_BYTES = 1 << 30
FAILURE = ("RuntimeError: Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, "
           "libcudnn_ops.so.9, libcudnn_ops.so}\nInvalid handle. Cannot load symbol "
           "cudnnCreateTensorDescriptor\n")
GREP_FOR = "cannot open shared object|CUDA error|out of memory|Unable to load any of|undefined symbol"
LOG_WORDS = ("the model loading checkpoint shard from cache epoch step loss learning rate worker "
             "request served client connection tokens per second batch tensor shape float32 device "
             "cpu server started listening thread pool memory usage downloading file complete "
             "saving state evaluation accuracy validation layer attention decoder encoder").split()


def log_line(random, number):
    """A line as training, serving and downloading print them."""
    stamp = "2026-11-21 %02d:%02d:%02d,%03d " % (number // 3600 % 24, number // 60 % 60,
                                                 number % 60, number * 7 % 1000)
    def words(low, high):
        return " ".join(random.choices(LOG_WORDS, k=random.randint(low, high)))
    kind = random.random()
    if kind < 0.4:
        return stamp + "INFO %s: %s" % (random.choice(("trainer", "server", "__main__")),
                                        words(4, 14))
    if kind < 0.6:
        return "step %d loss %.4f lr %.2e grad_norm %.3f tokens/s %d mem %.1f GiB" % (
            number, random.random() * 3, random.random() * 1e-4, random.random(),
            random.randint(1000, 90000), random.random() * 80)
    if kind < 0.75:
        return '10.0.%d.%d - - [21/Nov/2026:18:%02d:%02d +0000] "GET /v1/models HTTP/1.1" 200 %d' % (
            number % 255, number * 3 % 255, number % 60, number * 7 % 60, number * 11 % 9999)
    if kind < 0.85:
        return ('DEBUG:urllib3.connectionpool:https://example.org:443 "HEAD /large-v3/resolve/main/'
                'config.json HTTP/1.1" 200 0')
    if kind < 0.9:
        return "%3d%%|%s| %d/1000 [00:%02d<00:%02d, %.2fit/s]" % (
            number % 100, "\u2588" * (number % 40), number % 1000, number % 60, number * 3 % 60,
            random.random() * 100)
    return "[%d] %s" % (number, words(8, 30))


def write_log(path):
    """One block of 20 MB again and again, with the failure in the middle."""
    source = random.Random(1)
    block = ("\n".join(log_line(source, i) for i in range(200000)) + "\n").encode()
    count = LOG_BYTES // len(block) + 1
    with open(path, "wb") as file:
        for number in range(count):
            file.write(block)
            if number == count // 2:
                file.write(FAILURE.encode())
        file.truncate(LOG_BYTES)


def bench_explain(bench, runs):
    with tempfile.TemporaryDirectory(prefix="gpumend-bench-") as top:
        if shutil.disk_usage(top).free < 2 * LOG_BYTES:
            return bench.skip("explain", "no room for a log of 1 GiB")
        path = os.path.join(top, "log")
        write_log(path)
        if not answers(bench.gpumend, b"libcudnn_ops.so.9", "explain", path):
            return bench.skip("explain", "gpumend does not find the failure")
        ours = [bench.gpumend, "explain", path]
        grep = shutil.which("grep")
        commands = {"gpumend": (ours, None),
                    "grep -E, 5 phrases": ([grep, "-E", "-c", GREP_FOR, path],
                                           dict(os.environ, LC_ALL="C")),
                    "grep -E -i, 5 phrases": ([grep, "-E", "-i", "-c", GREP_FOR, path],
                                              dict(os.environ, LC_ALL="C.UTF-8"))}
        measured = in_turns(commands, min(runs, 7))
        peak = peak_memory(ours)
    seconds = measured["gpumend"].seconds
    speed = LOG_BYTES / seconds / 1e6
    print_table("explain: 1 GiB of ordinary text with one failure", measured,
                ("gpumend: %.0f MB/s (quickest turn %.0f MB/s), peak memory %.1f MiB" % (
                    speed, LOG_BYTES / measured["gpumend"].spread[0] / 1e6, peak / MIB),))
    bench.budget("speed", "%.0f MB/s" % speed, ">= 500 MB/s", speed >= 500)
    bench.budget("peak memory", "%.1f MiB" % (peak / MIB), "< 32 MiB", peak < 32 * MIB)
    return None


# Real logs, repeated: what is slow is what they say again and again.
REAL_BYTES = 256 << 20


def real_logs():
    """{kind: text}"""
    kinds = {path.stem: lzma.decompress(path.read_bytes())
             for path in sorted((HERE / "logs").glob("*.xz"))}
    sources = sorted((HERE.parent.parent / "src").glob("*/*.c"))
    kinds["source code"] = b"".join(path.read_bytes() for path in sources)
    return kinds


def processor_seconds(command):
    """Of the quickest of three runs: other work on the machine only adds."""
    def once():
        before = os.times()
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4])
    return min(once() for _ in range(3))


def bench_real_logs(bench):
    speeds = {}
    print("\nexplain: %d MiB of each kind of real logs, by processor time" % (REAL_BYTES >> 20))
    for kind, text in real_logs().items():
        with tempfile.NamedTemporaryFile(prefix="gpumend-bench-") as file:
            for _ in range(REAL_BYTES // len(text) + 1):
                file.write(text)
            file.truncate(REAL_BYTES)
            speeds[kind] = REAL_BYTES / processor_seconds([bench.gpumend, "explain", file.name]) / 1e6
        print("  %-34s %8.0f MB/s" % (kind, speeds[kind]), flush=True)
    slowest = min(speeds, key=speeds.get)
    bench.budget("slowest real log: " + slowest, "%.0f MB/s" % speeds[slowest], ">= 300 MB/s",
                 speeds[slowest] >= 300)


def measure(bench, args):
    libtree = shutil.which("libtree")
    if args.only in (None, "why"):
        bench_why(bench, args.runs, libtree)
    if args.only in (None, "batch"):
        bench_batch(bench, args.runs, libtree)
    if args.only in (None, "check"):
        bench_check(bench, args.runs)
    if args.only in (None, "probe"):
        bench_probe(bench, args.runs)
    if args.only in (None, "arch"):
        bench_arch(bench, args.runs)
    if args.only in (None, "run"):
        bench_run(bench, args.runs)
    if args.only in (None, "explain"):
        bench_explain(bench, args.runs)
        bench_real_logs(bench)
    if args.only in (None, "gpucall"):
        gpucall.bench_gpucall(bench, args.runs)
    if args.only in (None, "trace"):
        watch_trace.bench_trace(bench, args.runs, in_turns, print_table)
    if args.only in (None, "guard"):
        guard.bench_guard(bench, args.runs)
    if args.only in (None, "fleet"):
        fleet.bench_fleet(bench, args.runs, peak_memory)
    if args.only in (None, "image"):
        saved_image.bench_image(bench)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpumend", default=str(HERE.parent.parent / "build/gpumend"))
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--only", choices=("why", "batch", "check", "probe", "arch", "run", "explain",
                                           "gpucall", "trace", "guard", "image", "fleet"))
    args = parser.parse_args()
    if not os.access(args.gpumend, os.X_OK):
        parser.error("%s is not there: build it first" % args.gpumend)
    with tempfile.TemporaryDirectory(prefix="gpumend-bench-") as folder:
        # As installed, like the tools beside it: the pages of a file that the linker has written here
        # and there lie scattered in memory, and take a tenth of a millisecond more to start.
        bench = Bench(shutil.copy(args.gpumend, folder))
        measure(bench, args)
    print("\n%d passed, %d failed, %d skipped" % (
        bench.counts["met"], bench.counts["MISSED"], bench.counts["skipped"]))
    return 1 if args.strict and bench.counts["MISSED"] else 0


if __name__ == "__main__":
    sys.exit(main())
