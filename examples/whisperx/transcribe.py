"""Starts whisperx with the device, compute type and threads that work on this machine.

    transcribe.py talk.wav ...          # every option of whisperx; one that is given here wins
"""

import os
import sys

import gpumend

MODEL = os.environ.get("WHISPERX_MODEL", "small")


def main():
    choice = gpumend.choose(model="whisper:" + MODEL, app="ctranslate2")
    print(choice.reason, file=sys.stderr)
    if choice.device is None:
        return 1
    os.environ.update(choice.exports)
    words = ["whisperx", "--model", MODEL, "--device", "cpu" if choice.device == "cpu" else "cuda",
             "--device_index", str(choice.index or 0)]
    if choice.compute_type:  # whisperx knows int8, and not int8_float16
        words += ["--compute_type", choice.compute_type.partition("_")[0]]
    if choice.threads:
        words += ["--threads", str(choice.threads)]
    program = os.path.join(os.path.dirname(sys.executable), "whisperx")
    os.execv(program, [*words, *sys.argv[1:]])  # of two options with one name, whisperx takes the last


if __name__ == "__main__":
    sys.exit(main())
