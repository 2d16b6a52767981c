"""What the real loader does with the requests that gpumend predicts: run by an environment's Python.

    python replay.py REPORT < PROCESS        PROCESS: one of the processes of `gpumend check --json`

The imports of its script are done for real, with the first calls of FIRST and the modules that an
application imports at their first use, as far as they go without a GPU. Then each attempt of the process is made, in order, by dlopen in the name of the object that
makes it (tests/scenarios/truth.py), candidate by candidate until one opens. REPORT receives one JSON
line an import: {"import", "error"}, and one an attempt: {"attempt", "error"}, error null where it
worked, else the words of the last candidate; "unasked" where the object that asks is not mapped.
"""

import importlib
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenarios"))
from truth import dlopen_as, mapped  # noqa: E402

# Called after the imports: what loads the framework's own plugins, and falls back to the CPU.
FIRST = {
    "jax": lambda m: m.devices(),
    "tensorflow": lambda m: m.config.list_physical_devices("GPU"),
}


class Everything:
    @staticmethod
    def match(_name):
        return True


def real(path):
    for found in mapped(Everything):
        if found == path or (found.startswith("/") and os.path.exists(found)
                             and os.path.exists(path) and os.path.samefile(found, path)):
            return found
    return None


def do_import(name):
    try:
        module = importlib.import_module(name)
        if name in FIRST:
            FIRST[name](module)
        return None
    except BaseException as error:  # whatever a package throws is the answer
        return "%s: %s" % (type(error).__name__, error)


def do_attempt(attempt):
    caller = real(attempt["caller"])
    if not caller:
        return "unasked"
    said = "no candidate"
    for name in attempt["names"]:
        try:
            dlopen_as(caller, name, os.RTLD_LAZY if attempt["phase"] == "use" else os.RTLD_NOW)
            return None
        except (OSError, RuntimeError) as error:
            said = "%s; %s" % (said, error) if said != "no candidate" else str(error)
    return said


def main(report):
    process = json.load(sys.stdin)
    with open(report, "w", encoding="utf-8", errors="surrogateescape") as file:
        for step in process["script"]:
            # "use torch in whisperx.asr": the application imports that module then
            name = step[7:] if step.startswith("import ") else step.partition(" in ")[2]
            if name:
                file.write(json.dumps({"import": name, "error": do_import(name)}) + "\n")
                file.flush()
        for index, attempt in enumerate(process["attempts"]):
            file.write(json.dumps({"attempt": index, "error": do_attempt(attempt)}) + "\n")
            file.flush()
    os._exit(0)  # what the libraries do at their end is not asked here


if __name__ == "__main__":
    main(sys.argv[1])
