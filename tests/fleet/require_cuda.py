"""NVIDIA_REQUIRE_CUDA by NVIDIA's own code: the container toolkit's (Go, inside a checkout of it), and libnvidia-container's src/cli/dsl.c."""
import json
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
DECIDED = ("driver-too-old", "gpu-code-missing")


def toolkit(folder, checkout):
    program, overlay = folder / "require-toolkit", folder / "require.json"
    source = folder / "require.go"
    shutil.copy(HERE / "others/require.go.txt", source)
    overlay.write_text(json.dumps({"Replace": {str(checkout / "cmd/gpumend-check/main.go"): str(source)}}))
    subprocess.run(["go", "build", "-overlay", overlay, "-o", program, "./cmd/gpumend-check"], cwd=checkout, check=True)
    return program


def libnvidia_container(folder, file):
    at, program = folder / "require-dsl", folder / "require-libnvidia-container"
    at.mkdir()
    shutil.copy(file, at / "dsl.c")
    for name in ("dsl.h", "utils.h", "require.c"):
        shutil.copy(HERE / "others/require.c", at / name)
    subprocess.run(["cc", "-w", "-D_GNU_SOURCE", "-DGPUMEND_REQUIRE_MAIN", "-include", "dsl.h", "-I", ".", "-o", program,
                    "-x", "c", "require.c"], cwd=at, check=True)
    return program


def judge(counts, programs, asked):
    """`asked`: of each pair its name, the expression, the node's driver and compute capabilities, and its answer. A node on which
    the target runs has a GPU that is admitted; one that lacks the driver or the code has none."""
    lines, pairs = [], []
    for name, expression, driver, numbers, answer in asked:
        if expression and driver and numbers:
            pairs.append((name, answer, len(numbers)))
            lines += [f"{expression.strip()}\t{driver}\t{number}" for number in numbers]
    for program in programs:
        got = iter(subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True,
                                  check=True).stdout.splitlines())
        admitted = excluded = 0
        for name, answer, n in pairs:
            each = [next(got) for _ in range(n)]
            counts.judge(f"{name}: {program.name}", set(each) <= {"true", "false"}, each)
            if answer["answer"] == "runs":
                admitted += 1
                counts.judge(f"{name}: {program.name} excludes it", "true" in each, f"{each} {answer}")
            elif answer["cause"] in DECIDED:
                excluded += 1
                counts.judge(f"{name}: {program.name} admits it", "false" in each, f"{each} {answer}")
        print(f"{program.name}: {len(pairs)} pairs, {admitted} admitted, {excluded} excluded")
        counts.judge(f"{program.name} was asked", admitted and excluded, f"{admitted} {excluded}")
