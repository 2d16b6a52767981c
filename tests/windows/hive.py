#!/usr/bin/python3
"""What src/hive reads of registry hives is what was written, by hives.py and by libhivex.

    tests/windows/hive.py BUILD [--count N]

Random hives by hives.py (long names, each form of list, data in segments), with a fresh seed, which is
printed. Where hivexsh is installed, it writes two hundred keys into one. Each hive is also cut off at a
random place or has bytes changed: the reader then ends with an error or an answer.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1]))
import hives  # noqa: E402
import seeding  # noqa: E402
import wine  # noqa: E402

LETTERS = "abcXYZ019_-{} .é€Ж😀"


def random_name(rng, taken):
    while True:
        name = "".join(rng.choice(LETTERS) for _ in range(rng.choice((1, 4, 12, 60)))).strip() or "n"
        if name.upper() not in taken:
            taken.add(name.upper())
            return name


def random_value(rng):
    text = "".join(rng.choice(LETTERS) for _ in range(rng.choice((0, 1, 30, 30, 30, 30, 30, 9000))))
    return rng.choice([text, hives.Expand(text), rng.randrange(1 << 32), rng.randbytes(rng.choice((3, 5, 40, 40, 20000))),
                       [text or "x", "second"]])


def random_key(rng, depth=0):
    taken_keys, taken_values, content = set(), set(), {}
    for _ in range(rng.choice((0, 1, 5))):
        content[random_name(rng, taken_values)] = random_value(rng)
    for _ in range(rng.choice((0, 2, (30, 6, 0)[depth])) if depth < 2 else 0):
        name = random_name(rng, taken_keys)
        if name not in content:
            content[name] = random_key(rng, depth + 1)
    return content


def lines_of(content, path=""):
    """What hiveprint should print."""
    lines = [f"key {path}"]
    for name, value in content.items():
        if not isinstance(value, dict):
            kind, data = hives.stored(value)
            text = data.decode("utf-16-le").split("\0")[0] if kind in (1, 2, 7) else "-"
            lines.append(f"value {name} {kind} {text} {data.hex()}")
    for name in sorted((n for n in content if isinstance(content[n], dict)), key=str.upper):
        lines += lines_of(content[name], f"{path}\\{name}")
    return lines


def shown(exe, files):
    done = subprocess.run([exe, *map(str, files)], capture_output=True, check=False, timeout=60)
    if done.returncode != 0:
        raise AssertionError(f"hiveprint ended with {done.returncode}: {files}")
    return done.stdout.decode().split("\n")[:-1]


def by_hivexsh(folder, rng):
    """A hive into which hivexsh wrote; returns its file and the lines to expect."""
    file = folder / "written"
    file.write_bytes(hives.write({"Base": {"Kept": "x"}}))
    text, number = "".join(rng.choice("abcXY") for _ in range(20)), rng.randrange(1 << 32)
    names = sorted({f"K{rng.randrange(1000)}" for _ in range(200)})
    script = "".join(f"cd \\\nadd {name}\ncd {name}\nsetval 2\nText\nstring:{text}\nNumber\n"
                     f"dword:{number}\n" for name in names) + "commit\n"
    subprocess.run(["hivexsh", "-w", str(file)], input=script.encode(), check=True, capture_output=True)
    tree = {name: {"Text": text, "Number": number} for name in names}
    return file, lines_of({"Base": {"Kept": "x"}, **tree})


def damaged(rng, data):
    data = bytearray(data)
    if rng.random() < 0.3:
        return bytes(data[:rng.randrange(len(data))])
    for _ in range(rng.choice((1, 5, 50))):
        data[rng.randrange(4096, len(data))] = rng.choice((0, 255, rng.randrange(256)))
    return bytes(data)


def refused(rng):
    """Files that are not read, each with what is said."""
    good = hives.write({"A": {"b": "c"}})
    version = bytearray(good)
    version[24] ^= 7 ^ 5  # 1.7, and the checksum that goes with it
    version[508] ^= 7 ^ 5
    behind = bytearray(good)
    at = rng.randrange(512, 4096)
    behind[at] ^= 0xFF  # not part of the checksum
    return [("nothing", b"", "error: it is not a registry hive"),
            ("a text", b"x" * 9000, "error: it is not a registry hive"),
            ("cut in the base block", good[:4095], "error: it is cut off within its first 4096 bytes"),
            ("cut in the bins", good[:-1], "error: it is cut off: 4095 bytes of its 4096 are there"),
            ("a changed sequence number", good[:4] + b"\x09" + good[5:],
             "error: the checksum of its base block is wrong"),
            ("another version", bytes(version), "error: it has the unknown version 1.7"),
            ("the rest of the base block does not count", bytes(behind), "key ")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=seeding.fresh())
    args = parser.parse_args()
    rng = random.Random(args.seed)
    exe = wine.built(args.build, "hiveprint")
    failed = skipped = keys = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i in range(args.count):
            content = random_key(rng)
            leaf, dirty = rng.choice((b"lh", b"lf", b"li")), rng.random() < 0.3
            file = folder / str(i)
            data = hives.write(content, dirty=dirty, leaf=leaf, leaf_max=rng.choice((3, 1000)),
                               minor=rng.choice((5, 6)))
            file.write_bytes(data)
            wanted = [*lines_of(content), f"dirty: {'yes' if dirty else 'no'}"]
            keys += sum(line.startswith("key ") for line in wanted)
            seen = shown(exe, [file])
            if seen != wanted:
                failed += 1
                wrong = next((p for p in zip(seen, wanted) if p[0] != p[1]), (len(seen), len(wanted)))
                print(f"FAIL hive {i}: {wrong[0]!r:.200}, not {wrong[1]!r:.200}")
            for k in range(5):
                (folder / f"{i}.{k}").write_bytes(damaged(rng, data))
            shown(exe, [folder / f"{i}.{k}" for k in range(5)])
        for what, data, said in refused(rng):
            (folder / "refused").write_bytes(data)
            if shown(exe, [folder / "refused"])[0] != said:
                failed += 1
                print(f"FAIL {what}: {shown(exe, [folder / 'refused'])[0]}, not {said}")
        if shutil.which("hivexsh"):
            file, wanted = by_hivexsh(folder, rng)
            seen = shown(exe, [file])[:-1]
            if seen != wanted:
                failed += 1
                print(f"FAIL what hivexsh wrote: {set(wanted) ^ set(seen)}")
        else:
            skipped += 1
            print("skipped: hivexsh is not here")
    total = args.count + len(refused(rng)) + 1
    print(f"seed {args.seed}: {args.count} hives, {keys} keys")
    print(f"{total - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
