"""What happens to a log before somebody reads it: the same text, as other tools hand it on.

Each function turns a log (str) into bytes. Lines that begin with `note:` were added by a person, so
what a tool puts in front of its lines does not stand in front of them.
"""
import json
import textwrap

BOM_LE, BOM_BE = b"\xff\xfe", b"\xfe\xff"
STAMP = "2025-03-11T08:{:02}:{:02}.{:09}Z"
GREEN, RED, BOLD, OFF = "\x1b[32m", "\x1b[1;31m", "\x1b[1m", "\x1b[0m"
BARS = ["\r{:3}%|{:<10}| {}/64 [00:{:02}<00:{:02}, 3.11it/s]".format(
    n * 100 // 64, "█" * (n * 10 // 64), n, n // 3, 20 - n // 3) for n in range(0, 60, 7)]
ORDINARY = ["INFO     10.0.3.4:41022 - \"GET /healthz HTTP/1.1\" 200 OK",
            "step {} loss 2.31 lr 1.0e-04 18.2 it/s",
            "[download] part {} of 4000 done",
            "DEBUG    cache hit for key segment:{}",
            "worker heartbeat {} (uptime 3 days, 4:11:20)"]


def stamp(i):
    return STAMP.format(i // 60 % 60, i % 60, i * 7919 % 10 ** 9)


def is_note(line):
    return line.lstrip().startswith("note:") or not line.strip()


def each(log, change):
    return "\n".join(line if is_note(line) else change(i, line)
                     for i, line in enumerate(log.split("\n"))) + "\n"


def ordinary(n):
    return "".join(ORDINARY[i % len(ORDINARY)].format(i) + "\n" for i in range(n))


def utf16_le(log):
    return BOM_LE + log.replace("\n", "\r\n").encode("utf-16-le")


def utf16_be(log):
    return BOM_BE + log.encode("utf-16-be")


def utf8_bom(log):
    return b"\xef\xbb\xbf" + log.replace("\n", "\r\n").encode() + b"\r\n"


def latin1(log):
    return ("Gerät für Tonaufnahmen geöffnet, Größe 3 µs\n" + log).encode("latin-1", "replace")


def colours(log):
    def painted(i, line):
        first, _, rest = line.partition(" ")
        return (f"{RED if i % 2 else GREEN}{first}{OFF} {BOLD}{rest}{OFF}\x1b[K" if rest
                else f"\x1b[38;5;208m{line}\x1b[0m")
    return each(log, painted).encode()


def titles(log):
    """Window titles and links (OSC), and a cursor that is hidden and shown."""
    return ("\x1b]0;run\x07\x1b[?25l" + each(
        log, lambda i, l: f"\x1b]8;;file:///tmp/x\x1b\\{l}\x1b]8;;\x1b\\") + "\x1b[?25h").encode()


def progress_bars(log):
    """A bar that is drawn over itself, and the message written over the last one."""
    return ("".join(BARS) + "\n" + each(log, lambda i, l: "".join(BARS[:3]) + "\r" + l)).encode()


def timestamps(log):
    return each(log, lambda i, l: f"{stamp(i)} {l}").encode()


def logging_prefix(log):
    return each(log, lambda i, l: f"2025-03-11 08:00:{i % 60:02},{i % 1000:03} - app.worker - "
                                  f"{'ERROR' if i % 2 else 'INFO'} - {l}").encode()


def docker_compose(log):
    return each(log, lambda i, l: f"stt-worker-1  | {l}").encode()


def docker_compose_stamped(log):
    return each(log, lambda i, l: f"{GREEN}worker-1  | {OFF}{stamp(i)} {l}").encode()


def kubectl(log):
    return each(log, lambda i, l: f"[pod/asr-7c9d8b6f5-x2lkq/main] {l}").encode()


def journald(log):
    return each(log, lambda i, l: f"Mar 11 08:00:{i % 60:02} node3 asr[4242]: {l}").encode()


def json_lines(log):
    return each(log, lambda i, l: json.dumps(
        {"time": stamp(i), "level": "error", "logger": "worker", "message": l})).encode()


def docker_json_file(log):
    return each(log, lambda i, l: json.dumps(
        {"log": l + "\n", "stream": "stderr", "time": stamp(i)})).encode()


def json_at_once(log):
    """One object that holds the whole text, as an error reporter sends it."""
    return json.dumps({"event": {"id": 7, "tags": ["gpu"], "exception": {"value": log}}}).encode()


def interleaved(log):
    """Between the lines of a process stand those of another one, which is well."""
    out, other = [], iter(range(1, 10 ** 6))
    for line in log.split("\n"):
        if not is_note(line):
            out.append(f"web-1   | 10.0.0.{next(other) % 250} - \"GET /status HTTP/1.1\" 200")
        out.append(line if is_note(line) else f"asr-1   | {line}")
    return "\n".join(out).encode()


def quoted(log):
    """Pasted into a mail or an issue."""
    return ("Hello,\n\nthis is what I see:\n\n```\n" + "".join(
        f"> {line}\n" for line in log.split("\n")) + "```\nThank you!\n").encode()


def long_run(log):
    return (ordinary(3000) + log + "\n" + ordinary(40)).encode()


def at_blanks(log):
    """Lines of 80 characters at most, as mail programs and Python's rich print them."""
    return each(log, lambda i, l: "\n".join(textwrap.wrap(
        l, 80, break_long_words=False, break_on_hyphens=False))).encode()


def console(log):
    """As PowerShell writes what it redirects: in lines of 120 characters."""
    return each(log, lambda i, l: "\n".join(
        l[at:at + 120] for at in range(0, max(len(l), 1), 120))).encode()


ALL = [utf16_le, utf16_be, utf8_bom, latin1, colours, titles, progress_bars, timestamps,
       logging_prefix, docker_compose, docker_compose_stamped, kubectl, journald, json_lines,
       docker_json_file, json_at_once, interleaved, quoted, long_run]
# These part what belongs together, so that something is lost.
BROKEN = [at_blanks, console]
