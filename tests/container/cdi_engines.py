#!/usr/bin/env python3
"""What `container cdi --check` says of a specification against what engines make of it.

    tests/container/cdi_engines.py GPUMEND            compare with the recorded answers
    tests/container/cdi_engines.py --record FOLDER    record them anew; needs Go and its module proxy

The answers are those of the reference library itself, which every engine is built with: for each
release in LIBRARIES a program of ten lines was built that calls ReadSpec of its package pkg/cdi for
each case, and says whether it fails, succeeds or panics. cdi_answers.json has one letter a release
for each case ("." loads, "-" refuses, "P" panics), and a sum of the text it was asked about, so that
an answer cannot be taken for another text's. cases() makes the same texts everywhere: one for each
rule of the format, by itself and in four versions, and random combinations of edits, from a
generator of its own.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "cdi_answers.json"
LIBRARIES = ("0.4.0 0.5.0 0.5.2 0.5.3 0.5.4 0.6.0 0.6.1 0.6.2 0.7.1 0.7.2 0.8.0 0.8.1 1.0.0 1.0.1 1.1.0 "
             "1.1.1").split()
RANDOM_CASES = 300

# ---------------------------------------------------------------- the cases

SPEC = "cdiVersion: %s\nkind: %s\ndevices:\n- name: %s\n  containerEdits: {%s}\n"
PLAIN = "env: [A=1]"

VERSIONS = "0.1.0 0.2.0 0.3.0 0.4.0 0.5.0 v0.5.0 vv0.5.0 0.6.0 0.7.0 0.8.0 0.9.0 1.0.0 1.1.0 1.2.0 " \
           "2.0.0 0.5 1.0 0.5.0.0 '' ~ five".split()
KINDS = "aa/bb a/b a.b/cc aa/b a/bb aa/b.c aa/bb/cc 1a/bb aa/1b aa/bb- -aa/bb a_b/c-d aa/ /bb aa / '' ~ " \
        "é/bb aa/é a..b/cc AA/BB a2/b2 5".split()
NAMES = "x xx 0 00 007 0x1f a:b a- :a a.b -a yes no ~ null '' 1.5 1e3 true a/b é [] {} a=b \"a b\" " \
        "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c 0:1".split(" ")

NODE = ["type: z", "type: b", "type: c", "type: u", "type: p", "type: ''", "type: ~", "type: cc",
        "permissions: rwx", "permissions: rwm", "permissions: rrr", "permissions: none",
        "permissions: ''", "permissions: R", "permissions: 'r w'", "major: '1'", "major: 1.0",
        "major: 1.5", "major: -1", "major: 0o17", "major: 0b11", "major: 1_000", "major: 0x1F",
        "major: 9223372036854775807", "major: 9223372036854775808", "major: ~", "major: true",
        "major: []", "minor: -3", "fileMode: 0660", "fileMode: 438", "fileMode: -1",
        "fileMode: 4294967295", "fileMode: 4294967296", "fileMode: 1.5", "fileMode: '0660'",
        "uid: -1", "uid: 0", "uid: 4294967295", "uid: 4294967296", "uid: -1.5", "uid: root",
        "gid: 44", "gid: -44", "hostPath: ''", "hostPath: /x", "hostPath: ~", "hostpath: /x",
        "Type: c", "TYPE: z", "foo: 1", "path: /dev/zero"]

EDITS = [
    "", "env: []", "env: [A]", "env: [=1]", "env: [A=]", "env: [A=b=c]", "env: [1]", "env: [~]",
    "env: [A=1, ~]", "env: ['']", "env: A=1", "env: ~", "env: {A: 1}", "env: [[A=1]]", "env: [A=1, B]",
    "env: [A=1], env: [B=2]", "Env: [A=1]", "env: [A=1], Env: [B]", "colour: red",
    "deviceNodes: [~]", "deviceNodes: []", "deviceNodes: {}", "deviceNodes: [x]",
    "deviceNodes: [{path: /dev/null}]", "deviceNodes: [{path: ''}]", "deviceNodes: [{}]",
    "deviceNodes: [{path: dev/null}]", "deviceNodes: [{path: 5}]", "deviceNodes: [{path: ~}]",
    "deviceNodes: [{hostPath: /dev/null}]", "devicenodes: [{path: /dev/null}]",
    "hooks: [~]", "hooks: [{}]", "hooks: [{hookName: x, path: /a}]", "hooks: [{path: /a}]",
    "hooks: [{hookName: prestart, path: ''}]", "hooks: [{hookName: prestart}]",
    "hooks: [{hookName: prestart, path: a}]", "hooks: [{hookName: Prestart, path: /a}]",
    "hooks: [{hookName: createruntime, path: /a}]",
    "hooks: [{hookName: prestart, path: /a, env: [A]}]",
    "hooks: [{hookName: prestart, path: /a, env: [A=1]}]",
    "hooks: [{hookName: prestart, path: /a, env: []}]",
    "hooks: [{hookName: prestart, path: /a, timeout: -1}]",
    "hooks: [{hookName: prestart, path: /a, timeout: 1.5}]",
    "hooks: [{hookName: prestart, path: /a, timeout: '5'}]",
    "hooks: [{hookName: prestart, path: /a, args: [1, true, x]}]",
    "hooks: [{hookName: prestart, path: /a, args: x}]",
    "mounts: [~]", "mounts: [{}]", "mounts: [{hostPath: /a}]", "mounts: [{containerPath: /a}]",
    "mounts: [{hostPath: '', containerPath: /b}]", "mounts: [{hostPath: /a, containerPath: ''}]",
    "mounts: [{hostPath: /a, containerPath: b}]", "mounts: [{hostPath: a, containerPath: /b}]",
    "mounts: [{hostPath: /a, containerPath: /b}]",
    "mounts: [{hostPath: /a, containerPath: /b, type: x}]",
    "mounts: [{hostPath: /a, containerPath: /b, type: ''}]",
    "mounts: [{hostPath: /a, containerPath: /b, options: ro}]",
    "mounts: [{hostPath: /a, containerPath: /b, options: [ro, 5, ~]}]",
    "mounts: [{hostPath: /a, containerPath: /b, mode: ro}]",
    "intelRdt: {}", "intelRdt: ~", "intelRdt: []", "intelRdt: {closID: a}",
    "intelRdt: {closID: a/b}", "intelRdt: {closID: /}", "intelRdt: {closID: .}",
    "intelRdt: {closID: ..}", "intelRdt: {closID: \"a\\nb\"}", "intelRdt: {closID: %s}" % ("a" * 4095),
    "intelRdt: {closID: %s}" % ("a" * 4096), "intelRdt: {l3CacheSchema: x, memBwSchema: 5}",
    "intelRdt: {enableCMT: true}", "intelRdt: {enableMBM: false}", "intelRdt: {enableCMT: 1}",
    "intelRdt: {schemata: []}", "intelRdt: {schemata: [a]}", "intelRdt: {enableMonitoring: false}",
    "intelRdt: {enableMonitoring: true}", "intelRdt: {enableMonitoring: yes}", "intelRdt: {foo: 1}",
    "additionalGids: [1]", "additionalGids: []", "additionalGids: [-1]", "additionalGids: [0]",
    "additionalGids: [4294967296]", "additionalGids: ['1']", "additionalGids: 5",
    "netDevices: []", "netDevices: [{hostInterfaceName: a, name: b}]", "netDevices: [~]",
    "netDevices: [{name: b}]", "netDevices: [{hostInterfaceName: a}]",
    "netDevices: [{hostInterfaceName: a, name: b}, {hostInterfaceName: a, name: c}]",
    "netDevices: [{hostInterfaceName: a, name: b}, {hostInterfaceName: d, name: b}]",
] + ["deviceNodes: [{path: /dev/null, %s}]" % one for one in NODE]


def whole():
    """Documents as such: their form, keys, and what is around the devices."""
    base = SPEC % ("0.5.0", "aa/bb", "xx", PLAIN)
    six = base.replace("0.5.0", "0.6.0")
    first = base.replace("containerEdits: {", "containerEdits: &e {")
    edits = "  containerEdits: {%s}\n" % PLAIN
    return {
        "plain": base, "json": json.dumps({"cdiVersion": "0.5.0", "kind": "aa/bb", "devices": [
            {"name": "0", "containerEdits": {"env": ["A=1"]}}]}, indent=2),
        "no devices": '{"cdiVersion": "0.5.0", "kind": "aa/bb", "devices": []}',
        "devices null": '{"cdiVersion": "0.5.0", "kind": "aa/bb", "devices": null}',
        "devices missing": '{"cdiVersion": "0.5.0", "kind": "aa/bb"}',
        "devices a mapping": '{"cdiVersion": "0.5.0", "kind": "aa/bb", "devices": {}}',
        "a null device": '{"cdiVersion": "0.5.0", "kind": "aa/bb", "devices": [null]}',
        "a device and null": base + "- ~\n",
        "version missing": base.split("\n", 1)[1], "kind missing": base.replace("kind: aa/bb\n", ""),
        "name missing": base.replace("name: xx\n  ", ""),
        "key twice": base + "kind: aa/bb\n", "key twice, other value": base + "kind: cc/dd\n",
        "key twice in JSON": '{"cdiVersion": "0.5.0", "kind": "aa/bb", "kind": "aa/bb", "devices": []}',
        "key twice in a device": base + "- name: yy\n  name: zz\n" + edits,
        "other case": base.replace("kind", "Kind"), "both cases": base + "Kind: cc/dd\n",
        "other case of edits": base.replace("containerEdits", "containeredits"),
        "other case of a name": base.replace("name", "Name"),
        "device twice": base + "- name: xx\n" + edits,
        "two devices": base + "- name: yy\n" + edits,
        "one of two without edits": base + "- name: yy\n",
        "no edits": base.replace(edits, ""), "null edits": base.replace("{%s}" % PLAIN, "~"),
        "device of an unknown field": base + "- name: yy\n  id: 5\n" + edits,
        "merge": first + "- name: yy\n  containerEdits: {<<: *e}\n",
        "merge of two": first + "- name: yy\n  containerEdits: {<<: [*e, {deviceNodes: [{path: /x}]}]}\n",
        "alias": first + "- name: yy\n  containerEdits: *e\n",
        "alias of nothing": base + "- name: yy\n  containerEdits: *f\n",
        "two documents": base + "---\nfoo: [\n", "a document's end": base + "...\n",
        "annotations": base + "annotations: {a: b}\n", "annotations 0.6": six + "annotations: {a: b}\n",
        "annotations odd": six + "annotations: {a b/c/d: 1, '': x}\n",
        "annotations a list": six + "annotations: []\n", "annotations deep": six + "annotations: {x: [1]}\n",
        "annotations empty": base + "annotations: {}\n", "annotations null": base + "annotations: ~\n",
        "annotations of a device": six + "  annotations: {a: b}\n",
        "annotations of a device 0.5": base + "  annotations: {a: b}\n",
        "invalid UTF-8 made of a letter": base + "é", "a tab": base.replace("  cont", "\tcont"),
        "empty": "", "a remark": "# x\n", "a list": "- a\n", "a word": "abc\n", "null": "~\n",
        "a number as key": base + "1: 2\n", "an unknown field": base + "colour: red\n",
        "an unknown null field": base + "colour: ~\n",
        "edits of all null": base + "containerEdits: ~\n", "edits of all {}": base + "containerEdits: {}\n",
        "edits of all []": base + "containerEdits: []\n",
        "edits of all bad": base + "containerEdits: {env: [A]}\n",
        "edits of all with a hook": base + "containerEdits: {hooks: [{hookName: x, path: /a}]}\n",
        "a tag of text": base.replace("name: xx", "name: !!str 5"),
        "a byte order mark": "\ufeff" + base, "quoted": base.replace("0.5.0", '"0.5.0"'),
        "a digit first in 0.3.0": SPEC % ("0.3.0", "aa/bb", "1x", PLAIN),
        "a digit first in 0.5.0": SPEC % ("0.5.0", "aa/bb", "1x", PLAIN),
        "dots in the class, 0.5.0": SPEC % ("0.5.0", "aa/b.c", "xx", PLAIN),
        "dots in the class, 0.6.0": SPEC % ("0.6.0", "aa/b.c", "xx", PLAIN),
    }


class Dice:
    """The same numbers in every Python."""
    def __init__(self, state):
        self.state = state

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % n


def cases():
    """Name -> text."""
    found = {f"version {v}": SPEC % (v, "aa/bb", "xx", PLAIN) for v in VERSIONS}
    for version in ("0.5.0", "1.1.0"):
        found |= {f"kind {k} in {version}": SPEC % (version, k, "xx", PLAIN) for k in KINDS}
        found |= {f"name {n} in {version}": SPEC % (version, "aa/bb", n, PLAIN) for n in NAMES}
    for version in ("0.1.0", "0.3.0", "0.5.0", "0.7.0", "1.1.0"):
        found |= {f"{e[:60]} in {version} ({i})": SPEC % (version, "aa/bb", "xx", e)
                  for i, e in enumerate(EDITS)}
    found |= whole()
    dice = Dice(7)
    good = [e for e in EDITS if e]
    for n in range(RANDOM_CASES):
        text = SPEC % (VERSIONS[dice.below(13)], KINDS[dice.below(2) * dice.below(len(KINDS))],
                       NAMES[dice.below(6)], good[dice.below(len(good))])
        for device in range(dice.below(3)):
            text += "- name: d%d\n  containerEdits: {%s}\n" % (dice.below(3), good[dice.below(len(good))])
        if dice.below(2):
            text += "containerEdits: {%s}\n" % EDITS[dice.below(len(EDITS))]
        found[f"random {n}"] = text
    return found


def sum_of(text):
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# ---------------------------------------------------------------- recording

PROGRAM = """package main

import (
	"bufio"
	"encoding/json"
	"os"

	"%s/pkg/cdi"
)

func load(path string) (answer string) {
	defer func() {
		if recover() != nil {
			answer = "P"
		}
	}()
	if _, err := cdi.ReadSpec(path, 0); err != nil {
		return "-"
	}
	return "."
}

func main() {
	in, answers := bufio.NewScanner(os.Stdin), ""
	in.Buffer(nil, 1<<26)
	for in.Scan() {
		var text string
		if json.Unmarshal(in.Bytes(), &text) != nil || os.WriteFile(os.Args[1], []byte(text), 0644) != nil {
			os.Exit(1)
		}
		answers += load(os.Args[1])
	}
	os.Stdout.WriteString(answers)
}
"""


def module_of(library):
    old = [int(n) for n in library.split(".")] < [0, 6, 2]
    return ("github.com/container-orchestrated-devices" if old else "tags.cncf.io") \
        + "/container-device-interface"


def program_of(folder, library):
    place = folder / library
    place.mkdir(parents=True, exist_ok=True)
    (place / "main.go").write_text(PROGRAM % module_of(library))
    (place / "go.mod").unlink(missing_ok=True)
    for command in (["mod", "init", "load"],
                    ["mod", "edit", f"-require={module_of(library)}@v{library}"],
                    ["mod", "tidy"], ["build", "-o", "load", "."]):
        subprocess.run(["go", *command], cwd=place, check=True, capture_output=True)
    return place / "load"


def record(folder):
    found = cases()
    text = "".join(json.dumps(text) + "\n" for text in found.values())
    columns = []
    for library in LIBRARIES:
        program = program_of(folder, library)
        columns.append(subprocess.run([program, folder / "spec.yaml"], input=text, text=True,
                                      capture_output=True, check=True).stdout)
        assert len(columns[-1]) == len(found), library
    answers = {name: [sum_of(text), "".join(column[i] for column in columns)]
               for i, (name, text) in enumerate(found.items())}
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in answers.items())
    ANSWERS.write_text('{\n  "source": "ReadSpec of container-device-interface, by cdi_engines.py '
                       f'--record",\n  "libraries": {json.dumps(LIBRARIES)},\n  "answers": {{\n{rows}\n  }}\n}}\n')
    print(f"recorded {len(answers)} cases of {len(LIBRARIES)} releases")


# ---------------------------------------------------------------- comparing

def answers_of(exe, folder, text):
    """Library -> whether gpumend says that it loads the text, and the whole document."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        (Path(place) / "spec.yaml").write_text(text, encoding="utf-8")
        done = subprocess.run([exe, "container", "cdi", "--check", "--json", "--folder", place],
                              capture_output=True, text=True, timeout=60, check=False)
    file = json.loads(done.stdout)["files"][0]
    return {e["library"]: e["loads"] for e in file["engines"]}, file, done.returncode


def main():
    if sys.argv[1] == "--record":
        return record(Path(sys.argv[2]))
    exe = str(Path(sys.argv[1]).resolve())
    recorded = json.loads(ANSWERS.read_text(encoding="utf-8"))
    libraries, answers = recorded["libraries"], recorded["answers"]
    found = cases()
    wrong, asked = [], 0
    if {name: sum_of(text) for name, text in found.items()} != {n: row[0] for n, row in answers.items()}:
        wrong.append("cdi_answers.json is of other cases: record it anew")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda text: answers_of(exe, folder, text), found.values())
        for (name, text), (loads, file, _) in zip(found.items(), said):
            if not loads:  # no mapping: refused by all
                loads = dict.fromkeys(libraries, False)
                if not any(p["severity"] == "error" for p in file["problems"]):
                    wrong.append(f"{name}: no engine was asked, and nothing is said")
            for library, letter in zip(libraries, answers[name][1]):
                asked += 1
                if loads.get(library) != (letter == "."):
                    wrong.append(f"{name}: {library}: {letter}, gpumend says {loads.get(library)}: "
                                 f"{[e['why'] for e in file['engines'] if e['library'] == library][:1]}")
    for line in wrong:
        print("FAIL", line)
    print(f"{asked - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
