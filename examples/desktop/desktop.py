"""A desktop program's speech model: it chooses its device, falls back, and survives a model switch.

    python desktop.py MODEL          # a folder with a Whisper model for CTranslate2

Each line of standard input is a command: `use MODEL` switches, `hear` runs a second of silence through
the model, `quit` ends. What it answers is what a window would show.

The model runs in a process of its own. Its end is the only way to give back all memory of a GPU, and
a library that calls abort() takes that process along and not the window. A model that fails to load,
that aborts, or that hangs is tried on the CPU; if the new model runs nowhere, the old one comes back.
"""

import contextlib
import itertools
import multiprocessing
import os
import pathlib
import sys
import tempfile
from typing import NamedTuple

import gpumend

LOAD_S, ANSWER_S = 180, 120


class Settings(NamedTuple):
    device: str  # as CTranslate2 names it: "cuda" (also with ROCm) or "cpu"
    index: int
    compute_type: str
    threads: int
    exports: dict


class Failed(Exception):
    pass


# ---------------------------------------------------------------- in the model's process

def serve(connection, folder, settings, log):
    """Loads the model, says so, and answers until the other end is closed."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
    os.environ.update(settings.exports)  # before the first use of the device
    gpumend.preload()
    import ctranslate2
    import numpy

    model = ctranslate2.models.Whisper(
        folder, device=settings.device, device_index=settings.index,
        compute_type=settings.compute_type, intra_threads=settings.threads)

    def hear(seconds):
        # In place of the spectrogram of a recording. The first use is what opens cuDNN.
        sound = numpy.zeros((1, model.n_mels, 3000), numpy.float32)
        model.encode(ctranslate2.StorageView.from_array(sound))
        return "%d s of silence" % seconds

    hear(1)
    connection.send("ready")
    while True:
        try:
            seconds = connection.recv()
        except EOFError:
            return
        connection.send(hear(seconds))


# ---------------------------------------------------------------- in the window's process

def reason_of(log, code):
    """Why the model's process ended, in one sentence, from what it wrote."""
    text = pathlib.Path(log).read_text(errors="replace")
    diagnosis = gpumend.explain_log(text)
    if diagnosis.cause:
        return diagnosis.summary
    last = (text.strip().splitlines() or ["it wrote nothing"])[-1]
    return "its process ended with status %d: %s" % (code, last)


class Running:
    """A model in its process. Failed: it cannot be used with these settings."""

    def __init__(self, folder, settings):
        context = multiprocessing.get_context("spawn")  # a fork would inherit the window
        with tempfile.NamedTemporaryFile(prefix="model-", suffix=".log", delete=False) as file:
            self.log = file.name
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, folder, settings, self.log),
                                       daemon=True)
        self.process.start()
        other.close()  # so that the end of the process is the end of the connection
        self.answer(LOAD_S)

    def answer(self, seconds):
        try:
            if self.connection.poll(seconds):
                return self.connection.recv()
            why = "no answer within %d s" % seconds
            self.process.kill()
        except (EOFError, OSError):
            self.process.join()
            why = reason_of(self.log, self.process.exitcode)
        self.end()
        raise Failed(why)

    def ask(self, seconds):
        with contextlib.suppress(OSError):  # that it has ended, answer() says
            self.connection.send(seconds)
        return self.answer(ANSWER_S)

    def end(self):
        self.connection.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        pathlib.Path(self.log).unlink(missing_ok=True)


def settings_for(folder):
    """What to try, the best first, and the sentence that says why."""
    size = os.path.getsize(os.path.join(folder, "model.bin"))
    choice = gpumend.choose(app="ctranslate2", memory_gib=max(2 * size / 2**30, 0.01))
    cpu = Settings("cpu", 0, "auto", choice.threads or 0, {})
    if choice.device in (None, "cpu"):
        return [cpu], choice.reason
    gpu = Settings("cuda", choice.index or 0, choice.compute_type or "auto", 0, dict(choice.exports))
    return [gpu, cpu], choice.reason


class Engine:
    def __init__(self, show):
        self.show, self.folder, self.running, self.device = show, None, None, None

    def start(self, folder, settings):
        for one in settings:
            try:
                self.running, self.folder, self.device = Running(folder, one), folder, one.device
                self.show("%s: ready on %s" % (os.path.basename(folder), one.device))
                return
            except Failed as why:
                self.show("%s: not on %s: %s" % (os.path.basename(folder), one.device, why))
        raise Failed("%s runs on no device" % folder)

    def switch(self, folder):
        settings, reason = settings_for(folder)
        self.show(reason)
        self.stop()  # first, since both together may not fit
        try:
            self.start(folder, settings)
        except Failed:
            if self.folder and self.folder != folder:
                self.start(self.folder, settings_for(self.folder)[0])
            raise

    def hear(self, seconds):
        """The model's process may die at any use: then once more, in a new one on the CPU."""
        if not self.running:
            raise Failed("there is no model")
        try:
            return self.running.ask(seconds)
        except Failed as why:
            self.show("the model stopped: %s" % why)
            self.running = None
            self.start(self.folder, settings_for(self.folder)[0][-1:])
            return self.running.ask(seconds)

    def stop(self):
        if self.running:
            self.running.end()
        self.running = None


def main():
    engine = Engine(lambda text: print(text, flush=True))
    for line in itertools.chain(["use " + sys.argv[1]], sys.stdin):
        word, _, rest = line.strip().partition(" ")
        try:
            if word == "quit":
                break
            if word == "use":
                engine.switch(rest)
            elif word == "hear":
                heard = engine.hear(1)
                engine.show("heard %s on %s" % (heard, engine.device))
        except (Failed, OSError, gpumend.Error) as why:
            engine.show(str(why))
    engine.stop()


if __name__ == "__main__":
    main()
