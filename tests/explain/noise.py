#!/usr/bin/python3
"""What a server, a training run and a download print beside a failure changes no answer.

    tests/explain/noise.py GPUMEND [--all] [--seed N]

Threads of threads.jsonl are asked about as they are, behind ordinary lines and in front of them. Half
of the time the lines are made here, with the addresses, dates, numbers and hexadecimal digits of a
seed; else they are a part of one of the real logs of tests/bench/logs. An answer is the entry and the
first repair. At most one in a hundred may change: what a line such as "BLAS = 0" alone shows counts
for nothing among lines of a run that works, and a log of packages names a system.
"""
import argparse
import concurrent.futures
import json
import lzma
import os
import random
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
THREADS = HERE / "threads.jsonl"
ASKED = 200
SHARE = 0.01
TOOL_S = 60

WORDS = ("the model loading checkpoint shard from cache epoch step loss learning rate worker request "
         "served client connection tokens per second batch tensor shape started listening thread "
         "pool usage downloading file complete saving state evaluation accuracy validation layer "
         "session queue job retry header body response handler route config default value key path "
         "upload audio segment language chunk frame buffer sample duration text").split()

# What was once taken for something else: the beginning of an address for a build of JetPack's CUDA.
LINES = (
    ('10.0.166.243 - - [21/Nov/2026:18:46:22 +0000] "GET /v1/models HTTP/1.1" 200 1826',
     "RuntimeError: Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, "
     "libcudnn_ops.so.9, libcudnn_ops.so}"),
    ('INFO:     93.41.71.120:40669 - "POST /v1/audio/transcriptions HTTP/1.1" 200 OK',
     "ImportError: flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: "
     "_ZN3c104cuda9SetDeviceEi\nA100-80G cuda 12.1"),
)


class Noise:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.logs = [lzma.decompress(path.read_bytes()).decode(errors="replace").splitlines()
                     for path in sorted((HERE.parent / "bench/logs").glob("*.xz"))]

    def words(self, low, high):
        return " ".join(self.random.choices(WORDS, k=self.random.randint(low, high)))

    def digits(self, n):
        return "%0*x" % (n, self.random.getrandbits(4 * n))

    def address(self):
        return ".".join(str(self.random.randint(1, 255)) for _ in range(4))

    def clock(self):
        r = self.random
        return "%02d:%02d:%02d" % (r.randint(0, 23), r.randint(0, 59), r.randint(0, 59))

    def line(self):
        r = self.random
        day = "2026-%02d-%02d" % (r.randint(1, 12), r.randint(1, 28))
        kinds = (
            lambda: '%s - - [%02d/Nov/2026:%s +0000] "GET /v1/%s HTTP/1.1" %d %d' % (
                self.address(), r.randint(1, 28), self.clock(), r.choice(WORDS),
                r.choice((200, 201, 304, 404)), r.randint(0, 99999)),
            lambda: "%s %s,%03d INFO %s.%s: %s" % (day, self.clock(), r.randint(0, 999),
                                                   r.choice(WORDS), r.choice(WORDS), self.words(3, 12)),
            lambda: 'INFO:     %s:%d - "POST /v1/audio/transcriptions HTTP/1.1" 200 OK' % (
                self.address(), r.randint(1024, 65000)),
            lambda: "%3d%%|%s| %d/1000 [00:%02d<00:%02d, %.2fit/s]" % (
                r.randint(0, 100), "#" * r.randint(0, 20), r.randint(0, 999), r.randint(0, 59),
                r.randint(0, 59), 99 * r.random()),
            lambda: json.dumps({"ts": day, "level": "info", "id": self.digits(32),
                                "ms": 1e4 * r.random(), "msg": self.words(3, 9)}),
            lambda: "step %d loss %.4f lr %.2e grad_norm %.3f" % (
                r.randint(0, 99999), 3 * r.random(), 1e-4 * r.random(), r.random()),
            lambda: "[%d.%06d] %s: %s 0x%s" % (r.randint(0, 99999), r.randint(0, 999999),
                                               r.choice(("systemd", "audit", "eth0", "EXT4-fs")),
                                               self.words(2, 6), self.digits(16)),
            lambda: "%s-1 | %s %s %s=%d" % (r.choice(WORDS), day, self.clock(), r.choice(WORDS),
                                            r.randint(0, 10 ** 6)),
            lambda: "Downloading %s-%d.%d.%d.tar.gz (%d.%d MB)" % (
                r.choice(WORDS), r.randint(0, 20), r.randint(0, 30), r.randint(0, 400),
                r.randint(0, 99), r.randint(0, 9)),
        )
        return r.choice(kinds)()

    def lines(self):
        r = self.random
        n = r.randint(3, 60)
        if r.random() < 0.5:
            return "".join(self.line() + "\n" for _ in range(n))
        log = r.choice(self.logs)
        first = r.randrange(max(1, len(log) - n))
        return "".join(line + "\n" for line in log[first:first + n])


def answer(exe, log):
    done = subprocess.run([exe, "explain", "--json", "-"], input=log.encode(), check=False,
                          capture_output=True, timeout=TOOL_S)
    found = json.loads(done.stdout)
    repairs = found["repairs"]
    return found["entry"], (repairs[0]["text"], repairs[0]["command"]) if repairs else None


def changes(exe, name, log, before, behind):
    """What changes, in words."""
    plain = answer(exe, log)
    log = log if log.endswith("\n") else log + "\n"
    return [f"{name}: lines {where} it change {plain} to {now}"
            for where, now in (("before", answer(exe, before + log)),
                               ("behind", answer(exe, log + behind))) if now != plain]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("exe", type=os.path.abspath)
    parser.add_argument("--all", action="store_true", help="every thread, not %d of them" % ASKED)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    noise = Noise(args.seed)
    rows = [json.loads(line) for line in THREADS.read_text(encoding="utf-8").splitlines()]
    rows = rows if args.all else noise.random.sample(rows, ASKED)
    cases = [(row["id"], row["log"], noise.lines(), noise.lines()) for row in rows]
    failed = 0
    for line, log in LINES:
        for fault in changes(args.exe, line, log, line + "\n", line + "\n"):
            failed += 1
            print("FAIL", fault)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = [one for all_of in pool.map(lambda case: changes(args.exe, *case), cases)
                 for one in all_of]
    for one in found:
        print("changed:", one)
    asked = 2 * len(cases)
    print(f"{len(found)} of {asked} answers change")
    if len(found) > SHARE * asked:
        failed += 1
        print(f"FAIL more than {100 * SHARE:.0f} % change")
    checks = 2 * len(LINES) + 1
    print(f"{checks - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
