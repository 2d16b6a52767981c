#!/usr/bin/env python3
"""`gpumend run --trace`: the loader's work is shown as it is, and what differs from the model is named.

    tests/watch/trace.py [--only PATTERN] [GPUMEND]

Programs built here, each started plainly and traced: what they print, their status and their signal
are the same. Then what the trace says of them: requests in the words of `gpumend why`, callers,
failures, and at the end the cause of each difference from the model. Last, programs that the library
must not disturb: of another libc, in secure mode, without its variables, closing all descriptors, forking,
executing others, with threads, under valgrind and AddressSanitizer. What is not on this machine is
skipped by name. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import jsonschema
except ImportError:
    jsonschema = None   # json-schema.py needs it as well, and says so

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
SCHEMA = json.loads((TOP / "docs/json/trace.schema.json").read_text())
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
LIMIT_S = 120
TESTS = []
GLIBC_MINOR = int(os.confstr("CS_GNU_LIBC_VERSION").split(".")[1])
DYNAMIC = ("-Wl,--as-needed", "-ldl")   # glibc before 2.34 has dlopen in a library of its own
VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GPUMEND_TRACE", "GPUMEND_TRACE_FILE",
             "VIRTUAL_ENV", "CONDA_PREFIX", "NO_COLOR")


class Wrong(Exception):
    pass


class Skip(Exception):
    pass


def test(function):
    TESTS.append(function)
    return function


def until(condition, limit_s=30):
    end = time.monotonic() + limit_s
    while not condition():
        require(time.monotonic() < end, "it takes too long")
        time.sleep(0.02)


def require(condition, what):
    if not condition:
        raise Wrong(what)


SOURCES = {
    "thing": "int thing(void) { return 1; }",
    # Needs libthing.so.
    "user": "int thing(void); int user(void) { return thing(); }",
    "opener": """
        #include <dlfcn.h>
        #include <stdio.h>
        void *open_it(const char *name, int flags);
        void *open_it(const char *name, int flags) {
            void *h = dlopen(name, flags);
            printf("%s: %s\\n", name, h ? "opened" : dlerror());
            return h;
        }""",
    "hook": """
        #include <dlfcn.h>
        void *dlopen(const char *name, int flags) {
            static void *(*real)(const char *, int);
            if (!real) real = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
            void *h = real(name, flags);
            return h;
        }""",
    # Opens each of its arguments; "lazy:" "close:" "setenv:" "mkdir:" and so on do something else.
    "program": """
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/syscall.h>
        #include <sys/wait.h>
        #include <unistd.h>
        #include <signal.h>
        static void *last;
        static void *opens(void *name) {
            for (int i = 0; i < 50; i++) {
                void *h = dlopen(name, RTLD_NOW);
                if (!h) { puts(dlerror()); return NULL; }
                dlclose(h);
            }
            return name;
        }
        /* Four libraries, one of which is not there, in turns. */
        static void *several(void *number) {
            static const char *const names[] = {"libthing.so", "libuser.so", "libother.so", "libno.so"};
            for (long i = 0; i < 12; i++) {
                void *h = dlopen(names[((long)number + i) % 4], RTLD_NOW);
                if (h) dlclose(h); else dlerror();
            }
            return NULL;
        }
        static void act(const char *word) {
            if (strncmp(word, "setenv:", 7) == 0) {
                errno = 77;
                setenv("LD_LIBRARY_PATH", word + 7, 1);
                if (errno != 77) puts("errno is changed");
            } else if (strncmp(word, "system:", 7) == 0) {
                if (system(word + 7) != 0) puts("system failed");
            } else if (strcmp(word, "close-all") == 0) {
                fflush(stdout);
                int out = dup2(1, 400); /* kept for what is printed */
                for (int fd = 0; fd < 400; fd++) close(fd);
                for (int fd = 401; fd < 65536; fd++) close(fd);
                dup2(out, 1);
            } else if (strncmp(word, "take:", 5) == 0) {
                /* The program's own file at every number that the library may have had. */
                int own = open(word + 5, O_WRONLY | O_CREAT | O_APPEND, 0600);
                for (int fd = 190; fd < 1024; fd++) if (fd != own) dup2(own, fd);
            } else if (strcmp(word, "fork") == 0) {
                fflush(stdout);
                pid_t child = fork();
                if (child) { int status; waitpid(child, &status, 0); exit(WEXITSTATUS(status)); }
            } else if (strcmp(word, "threads") == 0) {
                pthread_t t[8];
                for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, opens, "libthing.so");
                for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
            } else if (strncmp(word, "threads:", 8) == 0) {
                int n = atoi(word + 8);
                pthread_t *t = calloc(n, sizeof *t);
                for (long i = 0; i < n; i++) pthread_create(&t[i], NULL, several, (void *)i);
                for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
            } else if (strcmp(word, "dlclose") == 0) {
                printf("%d\\n", dlclose(last));
            } else if (strncmp(word, "noload:", 7) == 0) {
                printf("%d\\n", dlopen(word + 7, RTLD_NOW | RTLD_NOLOAD) != NULL);
            } else if (strncmp(word, "dlmopen:", 8) == 0) {
                printf("%d\\n", dlmopen(LM_ID_NEWLM, word + 8, RTLD_NOW) != NULL);
            } else if (strcmp(word, "self") == 0) {
                printf("%d\\n", dlopen(NULL, RTLD_NOW) != NULL);
            } else if (strcmp(word, "descriptors") == 0) {
                int n = 0;
                for (int fd = 0; fd < 100; fd++) n += fcntl(fd, F_GETFD) >= 0;
                printf("%d descriptors below 100\\n", n);
            } else if (strcmp(word, "abort") == 0) {
                fflush(stdout);
                signal(SIGABRT, SIG_DFL);
                abort();
            } else if (strncmp(word, "exit:", 5) == 0) {
                fflush(stdout);
                _exit(atoi(word + 5));
            } else {
                last = dlopen(word, RTLD_NOW);
                printf("%s: %s\\n", word, last ? "opened" : dlerror());
            }
        }
        int main(int argc, char **argv) {
            for (int i = 1; i < argc; i++) act(argv[i]);
            return 0;
        }""",
    "asker": """
        void *open_it(const char *name, int flags);
        int main(int argc, char **argv) {
            for (int i = 1; i < argc; i++) open_it(argv[i], 2);
            return 0;
        }""",
    "nothing": "int main(void) { return 7; }",
    "auditor": "unsigned la_version(unsigned version) { return version; }",
    "leak": """
        #include <stdlib.h>
        static char *volatile block;
        __attribute__((destructor)) static void late(void) {
            if (block) free(block + 1);
        }
        int main(int argc, char **argv) {
            block = malloc(100);
            if (argv[1][0] == 'l') { block[0] = 1; block = NULL; }
            return 0;
        }""",
}


class Lab:
    """Libraries and programs, built once, and traced runs of them."""

    def __init__(self, exe, top):
        self.exe, self.top = str(exe), pathlib.Path(top)
        self.here = self.top / "here"           # on no search path
        self.here.mkdir()
        (self.top / "cwd").mkdir()
        self.so(self.here / "libthing.so", "thing")
        self.program = self.link(self.top / "program", "program", "-pthread")
        self.runs = 0
        draft = getattr(jsonschema, "Draft202012Validator", None)   # since jsonschema 4
        self.validator = draft and draft(SCHEMA)

    def so(self, path, source, *flags):
        path.parent.mkdir(parents=True, exist_ok=True)
        return self.link(path, source, "-shared", "-fPIC", f"-Wl,-soname,{path.name}", *flags)

    def link(self, path, source, *flags, cc="gcc"):
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([cc, "-O1", "-w", "-D_GNU_SOURCE", "-x", "c", "-", "-x", "none", *flags, "-o",
                        str(path), *DYNAMIC], input=SOURCES[source], text=True, check=True)
        return path

    def environment(self, variables):
        env = {k: v for k, v in os.environ.items() if k not in VARIABLES}
        return {**env, "XDG_CACHE_HOME": str(self.top / "cache"), "HOME": str(self.top), **variables}

    def plain(self, *words, preexec_fn=None, **variables):
        return subprocess.run([str(w) for w in words], env=self.environment(variables), text=True,
                              preexec_fn=preexec_fn,
                              cwd=self.top / "cwd", stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=LIMIT_S, errors="backslashreplace")

    def text(self, *words, **variables):
        return self.plain(self.exe, "run", "--trace", "--", *words, **variables)

    def trace(self, *words, like_plain=True, options=(), **variables):
        """The lines of a traced run, which prints and ends as the plain one."""
        self.runs += 1
        record = self.top / f"trace-{self.runs}.jsonl"
        if like_plain:
            plain = self.plain(*words, **variables)
        done = self.plain(self.exe, "run", *options, "--trace", "--trace-file", record, "--", *words,
                          **variables)
        if like_plain:
            require((done.returncode, done.stdout) == (plain.returncode, plain.stdout),
                    f"traced: {done.returncode}, {done.stdout!r} {done.stderr!r}; plainly "
                    f"{plain.returncode}, {plain.stdout!r}")
            own = "".join(line for line in done.stderr.splitlines(True)
                          if not line.startswith("gpumend: run: "))
            require(own == plain.stderr, f"on stderr: {own!r}, plainly {plain.stderr!r}")
        lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
        for line in lines if self.validator else ():
            for error in self.validator.iter_errors(line):
                raise Wrong(f"{line}: {error.message[:300]}")
        return lines


def of(lines, event, **members):
    return [line for line in lines if line["event"] == event
            and all(line.get(k) == v for k, v in members.items())]


def total(lines):
    sums = of(lines, "sum")
    require(len(sums) == 1 and lines[-1] is sums[0], f"{len(sums)} sums")
    return sums[0]


def same_story(lines, requests):
    """Nothing differs, and as many starts and dlopens were compared."""
    require(not of(lines, "difference"), f"differences: {of(lines, 'difference')}")
    found = total(lines)
    require(found["requests"] == found["as_predicted"] == requests and not found["notes"],
            f"{found}, expected {requests} requests")


def one_cause(lines, cause, name):
    """One difference, of this cause and about this library."""
    found = of(lines, "difference")
    require([d["cause"] for d in found] == [cause], f"{found}, expected one {cause}")
    require(found[0]["name"] == name and found[0]["summary"] and found[0]["evidence"]
            and found[0]["to_do"], f"{found[0]}")
    return found[0]


# ------------------------------------------------------------------ what is shown

@test
def a_healthy_program(lab):
    """Its start and its dlopens are as the model has them, and each event is there."""
    lines = lab.trace(lab.program, "libthing.so", "libthing.so", "self", LD_LIBRARY_PATH=lab.here)
    same_story(lines, 3)
    require(of(lines, "open", path=str(lab.here / "libthing.so"), namespace=0), "no open")
    require([line["name"] for line in of(lines, "dlopen")] == ["libthing.so"] * 2 + [None],
            "each dlopen is told")
    require(len(of(lines, "request", name="libthing.so", kind="dlopen", caller=str(lab.program))) == 1,
            "what is loaded is not searched again")
    require(of(lines, "candidate", via="LD_LIBRARY_PATH", path=str(lab.here / "libthing.so"),
               result="taken"), "no candidate")
    require(len(of(lines, "start", exe=str(lab.program))) == 1 and of(lines, "end"), "start or end")
    require(of(lines, "start")[0]["env"]["LD_LIBRARY_PATH"] == str(lab.here), "the start's variables")


@test
def words_of_why(lab):
    """The text of a request that fails has the steps of `gpumend why`."""
    done = lab.text(lab.program, "libno.so", LD_LIBRARY_PATH=f"{lab.here}:{lab.top}/none")
    why = lab.plain(lab.exe, "why", "libno.so", "--exe", lab.program,
                    LD_LIBRARY_PATH=f"{lab.here}:{lab.top}/none")
    block = re.search(r"libno\.so  dlopen from .*\n((?:  .*\n)+)", why.stdout).group(1)
    expected = [line for line in block.splitlines() if "not used" not in line and
                "ld.so.cache" not in line and "the loader says" not in line]
    shown = re.search(r"\] libno\.so  dlopen from .*\n((?:  .*\n)+)", done.stderr).group(1)
    # A folder that is absent is passed over: the trace does not show it a second time.
    missing = [line for line in expected if line not in shown.splitlines()
               and f"{lab.top}/none/" not in line]
    require(not missing and "=> not found" in shown, f"{missing} is not in\n{shown}")
    require("the loader says: libno.so: cannot open shared object file" in done.stderr, done.stderr)
    require("2 starts and dlopens in 1 process: 2 as the model says, 0 not" in done.stderr, done.stderr)


@test
def one_load(lab):
    """What check predicts is one load, by the program's text: it is said of one."""
    program = lab.top / "one-load"
    source = "#include <dlfcn.h>\nint main(void) { dlopen(\"libno.so.1\", RTLD_NOW); return 0; }\n"
    subprocess.run(["cc", "-x", "c", "-", "-o", program, "-ldl"], input=source, text=True, check=True)
    done = lab.text(program)
    require("of 1 load that check predicts for this program, 1 was seen" in done.stderr, done.stderr)


@test
def nothing_on_stdout(lab):
    done = lab.text(lab.program, "libno.so", "descriptors")
    plain = lab.plain(lab.program, "libno.so", "descriptors")
    require((done.stdout, done.returncode) == (plain.stdout, plain.returncode), f"{done}\n{plain}")


@test
def results_of_candidates(lab):
    """What is at a path, in the words of `why`."""
    folders = {}
    for result in ("absent", "dangling", "invalid", "wrong-class", "wrong-machine"):
        folders[result] = lab.top / "results" / result
        folders[result].mkdir(parents=True)
    thing = (lab.here / "libthing.so").read_bytes()
    (folders["dangling"] / "libthing.so").symlink_to("/nowhere")
    (folders["wrong-class"] / "libthing.so").write_bytes(thing[:4] + b"\1" + thing[5:])
    (folders["wrong-machine"] / "libthing.so").write_bytes(thing[:18] + b"\x08\0" + thing[20:])
    (folders["invalid"] / "libthing.so").write_text("INPUT(libthing.so.1)\n" * 9)
    path = [folders[r] for r in ("absent", "dangling", "wrong-class", "wrong-machine")]
    lines = lab.trace(lab.program, "libthing.so",
                      LD_LIBRARY_PATH=":".join(map(str, [*path, lab.here])))
    same_story(lines, 2)
    for folder in path:
        found = of(lines, "candidate", path=str(folder / "libthing.so"))
        require([c["result"] for c in found] == [folder.name], f"{folder.name}: {found}")
    lines = lab.trace(lab.program, "libthing.so",
                      LD_LIBRARY_PATH=f"{folders['invalid']}:{lab.here}")
    same_story(lines, 2)
    require([c["result"] for c in of(lines, "candidate", path=str(folders["invalid"] / "libthing.so"))]
            == ["invalid"], "invalid")
    require(not of(lines, "open", path=str(lab.here / "libthing.so")), "the search ended there")
    require("invalid ELF header" in of(lines, "dlerror")[0]["text"], "dlerror")


@test
def rpath_and_runpath(lab):
    """They share a mark in the loader's interface, and are told apart."""
    for tags, via in (("--enable-new-dtags", "runpath"), ("--disable-new-dtags", "rpath")):
        folder = lab.top / via
        opener = lab.so(folder / "libopener.so", "opener", f"-Wl,-rpath,{lab.here}", f"-Wl,{tags}")
        asker = lab.link(folder / "asker", "asker", f"-L{folder}", "-lopener",
                         f"-Wl,-rpath,{folder}", "-Wl,--enable-new-dtags")
        lines = lab.trace(asker, "libthing.so")
        same_story(lines, 2)
        found = of(lines, "candidate", path=str(lab.here / "libthing.so"))
        require([(c["via"], c["caller"]) for c in found] == [(via, str(opener))], f"{via}: {found}")


@test
def failing_dependencies(lab):
    """What is opened and closed again, since something it needs is missing or lacks a symbol."""
    folder = lab.top / "needs"
    user = lab.so(folder / "libuser.so", "user", f"-L{lab.here}", "-lthing")
    lines = lab.trace(lab.program, user, "libthing.so", user, LD_LIBRARY_PATH=lab.here)
    same_story(lines, 4)
    lines = lab.trace(lab.program, user)
    same_story(lines, 2)
    require("libthing.so: cannot open" in of(lines, "dlerror")[0]["text"], f"{of(lines, 'dlerror')}")
    lacks = lab.so(folder / "liblacks.so", "user")
    lines = lab.trace(lab.program, lacks)
    same_story(lines, 2)
    require("undefined symbol: thing" in of(lines, "dlerror")[0]["text"], f"{of(lines, 'dlerror')}")


@test
def a_start_that_fails(lab):
    folder = lab.top / "fails"
    lab.so(folder / "libopener.so", "opener")
    asker = lab.link(folder / "asker", "asker", f"-L{folder}", "-lopener")
    lines = lab.trace(asker)
    same_story(lines, 1)
    require(not of(lines, "started"), "it did not start")


@test
def preloads(lab):
    lines = lab.trace(lab.program, "libthing.so", LD_PRELOAD=lab.here / "libthing.so")
    same_story(lines, 2)
    require(of(lines, "request", name=str(lab.here / "libthing.so"), kind="preload"), "no preload")
    # Without --keep-env `run` takes out what cannot be preloaded, and the loader complains of nothing.
    same_story(lab.trace(lab.program, "libthing.so", options=("--keep-env",), LD_PRELOAD="libnowhere.so"), 2)


@test
def bound_at_the_start(lab):
    """Callers with -z now, and those that call by no PLT."""
    now = lab.link(lab.top / "now", "program", "-pthread", "-Wl,-z,now")
    lines = lab.trace(now, "libthing.so", LD_LIBRARY_PATH=lab.here)
    same_story(lines, 2)
    require(of(lines, "dlopen", caller=str(now)), "its call is not seen")
    bare = lab.link(lab.top / "bare", "program", "-pthread", "-fno-plt")
    lines = lab.trace(bare, "libthing.so", LD_LIBRARY_PATH=lab.here)
    same_story(lines, 2)
    require(of(lines, "request", kind="dlopen", caller=str(bare)), "its search is not seen")
    fixed = lab.link(lab.top / "fixed", "program", "-pthread", "-no-pie")
    lines = lab.trace(fixed, "libthing.so", LD_LIBRARY_PATH=lab.here)
    same_story(lines, 2)
    require(of(lines, "dlopen", caller=str(fixed)), "its call is not seen")


@test
def not_compared(lab):
    """Other namespaces, RTLD_NOLOAD, and what is opened again after a dlclose, are counted."""
    # glibc 2.31 dies of dlmopen under an audit library that does nothing.
    auditor = lab.so(lab.top / "libauditor.so", "auditor")
    dlmopen = ("dlmopen:libthing.so",)
    if lab.plain(lab.program, *dlmopen, LD_AUDIT=auditor, LD_LIBRARY_PATH=lab.here).returncode != 0:
        require(GLIBC_MINOR < 36, "an audit library and dlmopen")
        dlmopen = ()
    lines = lab.trace(lab.program, "libthing.so", "dlclose", "libthing.so", "noload:libthing.so",
                      "noload:libno.so", *dlmopen, "self", LD_LIBRARY_PATH=lab.here)
    same_story(lines, 2)
    require(total(lines)["not_compared"] >= 3 + len(dlmopen), f"{total(lines)}")
    require(of(lines, "close", path=str(lab.here / "libthing.so")), "no close")
    said = lab.text(lab.program, "noload:libthing.so", LD_LIBRARY_PATH=lab.here).stderr
    require("(RTLD_NOLOAD)\n  => not loaded" in said and "refused" not in said, said)


@test
def odd_names(lab):
    """A name that is no UTF-8, one with quotes and line ends, and a very long one."""
    for name in (b"lib\xff.so", b'li"b\\\n.so', b"l" * 3000 + b".so", b"/" + b"l" * 9000):
        done = subprocess.run([lab.exe, "run", "--trace", "--", lab.program, name],
                              env=lab.environment({}), capture_output=True, timeout=LIMIT_S)
        require(done.returncode == 0 and b"as the model says" in done.stderr, f"{name[:20]}: {done}")
    done = lab.trace(lab.program, "li\"b\\\n.so", "é.so")
    same_story(done, 3)
    require(of(done, "dlopen", name="é.so"), "UTF-8 stays as it is")


# ------------------------------------------------------------------ what differs, and why

def interposed(lab, *flags):
    folder = lab.top / "interposed"
    opener = lab.so(folder / "lib/libopener.so", "opener", f"-Wl,-rpath,{lab.here}",
                    "-Wl,--enable-new-dtags")
    asker = lab.link(folder / "asker", "asker", f"-L{folder}/lib", "-lopener",
                     f"-Wl,-rpath,{folder}/lib", "-Wl,--enable-new-dtags")
    return opener, asker, lab.so(folder / "libhook.so", "hook")


@test
def an_interposed_dlopen(lab):
    opener, asker, hook = interposed(lab)
    same_story(lab.trace(asker, "libthing.so"), 2)
    lines = lab.trace(asker, "libthing.so", LD_PRELOAD=hook)
    found = one_cause(lines, "dlopen-interposed", "libthing.so")
    require(found["caller"] == str(opener) and "libhook.so" in found["summary"], f"{found}")
    require(found["model"] == {"found": True, "path": str(lab.here / "libthing.so")}
            and found["seen"] == {"found": False, "path": None}, f"{found}")
    done = lab.text(asker, "libthing.so", LD_PRELOAD=hook)
    require("which intercepts dlopen; requested by " in done.stderr
            and "gpumend explain dlopen-interposed" in done.stderr, done.stderr)
    # Where it changes nothing it is no difference.
    same_story(lab.trace(asker, "libthing.so", LD_PRELOAD=hook, LD_LIBRARY_PATH=lab.here), 2)


@test
def a_variable_set_in_vain(lab):
    lines = lab.trace(lab.program, f"setenv:{lab.here}", "libthing.so")
    found = one_cause(lines, "variable-set-too-late", "libthing.so")
    require(found["model"]["path"] == str(lab.here / "libthing.so") and not found["seen"]["found"],
            f"{found}")
    require(f"LD_LIBRARY_PATH={lab.here}" in found["to_do"], f"{found}")
    # Set, and it would have made no difference.
    same_story(lab.trace(lab.program, "setenv:/nowhere", "libthing.so"), 2)
    same_story(lab.trace(lab.program, "libthing.so", f"setenv:{lab.here}"), 2)


@test
def os_environ(lab):
    """The same from Python; a child that it starts has the variable."""
    script = ("import ctypes, os, subprocess, sys\n"
              f"os.environ['LD_LIBRARY_PATH'] = {str(lab.here)!r}\n"
              "try:\n    ctypes.CDLL('libthing.so')\nexcept OSError as e:\n    print(e)\n"
              f"sys.stdout.flush()\nsubprocess.run([{str(lab.program)!r}, 'libthing.so'])\n")
    lines = lab.trace(PYTHON, "-c", script)
    found = one_cause(lines, "variable-set-too-late", "libthing.so")
    require("_ctypes" in found["caller"], f"{found}")
    require(of(lines, "open", path=str(lab.here / "libthing.so")), "the child finds it")


@test
def a_folder_made_late(lab):
    late = lab.top / "late"
    make = f"system:mkdir {late} && cp {lab.here}/libthing.so {late}/"

    def again(*words, **variables):
        shutil.rmtree(late, ignore_errors=True)
        return lab.trace(lab.program, *words, like_plain=False, **variables)

    # The loader has met that the folder is absent, and remembers it.
    lines = again("libother.so", make, "libthing.so", LD_LIBRARY_PATH=late)
    found = one_cause(lines, "folder-created-late", "libthing.so")
    require(str(late) in found["summary"] and found["model"]["path"] == str(late / "libthing.so"),
            f"{found}")
    # A folder that was there and empty is looked into again.
    shutil.rmtree(late)
    late.mkdir()
    lines = lab.trace(lab.program, "libother.so", f"system:cp {lab.here}/libthing.so {late}/",
                      "libthing.so", like_plain=False, LD_LIBRARY_PATH=late)
    require(not of(lines, "difference") and of(lines, "open", path=str(late / "libthing.so")),
            f"{of(lines, 'difference')}")


@test
def a_file_that_comes_or_goes(lab):
    folder = lab.top / "comes"
    folder.mkdir()
    lines = lab.trace(lab.program, "libthing.so", f"system:cp {lab.here}/libthing.so {folder}/",
                      like_plain=False, LD_LIBRARY_PATH=folder)
    one_cause(lines, "library-changed-while-running", "libthing.so")
    lines = lab.trace(lab.program, "libthing.so", f"system:rm {folder}/libthing.so",
                      like_plain=False, LD_LIBRARY_PATH=folder)
    found = one_cause(lines, "library-changed-while-running", "libthing.so")
    require("was removed" in found["summary"], f"{found}")


@test
def what_check_foresees(lab):
    """A package of a real environment: its load as check foresees it, and one that what the program
    has loaded before decides."""
    sys.path[:0] = [str(TOP / "tests/mend"), str(TOP / "tests/scenarios")]
    import launcher
    world = launcher.World(lab.exe, lab.top / "world")
    env = launcher.Env(world, world.top / "venv")

    def traced(program, *options, **variables):
        lab.runs += 1
        record = lab.top / f"foreseen-{lab.runs}.jsonl"
        done = world.run(env.python, "-c", program, env=variables,
                         options=("--trace", "--trace-file", record, *options))
        require(done.returncode == 0, f"{done}")
        return done.stdout, [json.loads(line) for line in record.read_text().splitlines()]

    def counted(lines):
        return tuple(total(lines)[k] for k in ("foreseen", "as_foreseen"))

    said, lines = traced(launcher.PROGRAM)
    require(said == b"found\n" and not of(lines, "difference"), f"mended: {said}, {lines[-1]}")
    require(counted(lines) == (1, 1) and total(lines)["not_made"] > 0, f"mended: {lines[-1]}")
    said, lines = traced(launcher.PROGRAM, ASKS_FIRST="1")
    # Before glibc 2.35 the flags of a dlopen from an object that is bound at once are not visible.
    require(said == b"found\n" and (GLIBC_MINOR < 35 or not of(lines, "difference")),
            f"asks first: {said}, {lines[-1]}")
    alone = ("--keep-env", "--no-preload")
    said, lines = traced(launcher.PROGRAM, *alone, LD_LIBRARY_PATH="/nowhere")
    require(said == b"not found\n" and counted(lines) == (1, 1), f"as it is: {said}, {lines[-1]}")
    before = f"import ctypes\nctypes.CDLL('{env.cublas}/libcublas.so.12')\n"
    said, lines = traced(before + launcher.PROGRAM, *alone, LD_LIBRARY_PATH="/nowhere")
    if GLIBC_MINOR < 35:    # no word of a dlopen that needs no search, from an object bound at once
        require(said == b"found\n" and counted(lines) == (0, 0), f"loaded before: {said}, {lines[-1]}")
        return
    require(said == b"found\n" and counted(lines) == (1, 0), f"loaded before: {said}, {lines[-1]}")
    found = of(lines, "difference")
    require([(d["cause"], d["severity"], d["name"]) for d in found]
            == [("import-order", "note", "libcublas.so.12")], f"{found}")
    require(total(lines)["requests"] == total(lines)["as_predicted"], f"{lines[-1]}")


# ------------------------------------------------------------------ several processes

@test
def forks_and_execs(lab):
    lines = lab.trace(lab.program, "libthing.so", "fork", "libno.so", "exit:3",
                      LD_LIBRARY_PATH=lab.here)
    fork = of(lines, "fork")
    require(len(fork) == 1 and fork[0]["ppid"] == of(lines, "start")[0]["pid"], f"{fork}")
    require(of(lines, "dlopen", name="libno.so", pid=fork[0]["pid"]), "the child's dlopen")
    same_story(lines, 3)
    lines = lab.trace("/bin/sh", "-c", f"{lab.program} libthing.so; exec {lab.program} libno.so",
                      LD_LIBRARY_PATH=lab.here)
    require(len(of(lines, "start", exe=str(lab.program))) == 2, "each program starts")
    same_story(lines, 5)


@test
def threads(lab):
    lines = lab.trace(lab.program, "threads", LD_LIBRARY_PATH=lab.here)
    require(len(of(lines, "dlopen", name="libthing.so")) == 400, "each call is told")
    require(not of(lines, "difference"), f"{of(lines, 'difference')}")


@test
def many_threads(lab):
    """200 threads that open and close: each call is told, nothing is invented, nothing is lost."""
    folder = lab.top / "many"
    thing = lab.so(folder / "libthing.so", "thing")
    for name in ("libuser.so", "libother.so"):
        lab.so(folder / name, "user", thing)
    lines = lab.trace(lab.program, "threads:200", LD_LIBRARY_PATH=folder)
    require(len(of(lines, "dlopen")) == 200 * 12, f"{len(of(lines, 'dlopen'))} calls")
    require(not of(lines, "difference"), f"{of(lines, 'difference')[:3]}")
    found = total(lines)
    require(found["complete"] and not found["lost"], f"{found}")
    require(found["requests"] == found["as_predicted"] > 600, f"{found}")
    done = lab.text(lab.program, "threads:200", LD_LIBRARY_PATH=folder)
    require("(null)" not in done.stderr and "the model says that" not in done.stderr,
            done.stderr[-2000:])
    require(" as the model says, 0 not" in done.stderr, done.stderr[-500:])


@test
def closed_libraries(lab):
    """The model keeps what the program closed: what differs only by that is not a difference."""
    folder = lab.top / "closed"
    first = lab.so(folder / "first/libthing.so", "thing")
    lab.so(folder / "second/libthing.so", "thing")
    needs = (f"-L{folder}/first", "-lthing")
    alone = lab.so(folder / "libalone.so", "user", *needs)
    beside = lab.so(folder / "libbeside.so", "user", *needs, f"-Wl,-rpath,{folder}/second")
    for words in ((alone,), (beside,), (f"setenv:{folder}", alone.name)):
        lines = lab.trace(lab.program, first, "dlclose", *words, LD_LIBRARY_PATH=folder)
        require(not of(lines, "difference"), f"{words}: {of(lines, 'difference')}")
        found = total(lines)
        require(found["complete"] and found["not_compared"] == 1, f"{words}: {found}")
        require(found["as_predicted"] == found["requests"] == 2, f"{words}: {found}")


def with_small_files(kib):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kib << 10, kib << 10))


@test
def lost_lines(lab):
    """What the file does not take is counted and said, the program goes on, nothing is compared."""
    program = (lab.program, "libthing.so", "dlclose", "libno.so", "threads:8", "exit:5")
    lab.text(*program)                          # the library lies in the cache
    plain = lab.plain(*program, LD_LIBRARY_PATH=lab.here)
    for kib in (1, 8):
        record = lab.top / f"small-{kib}.jsonl"
        run = [lab.exe, "run", "--trace", "--trace-file", record, "--", *program]
        done = lab.plain(*run, preexec_fn=with_small_files(kib), LD_LIBRARY_PATH=lab.here)
        require((done.returncode, done.stdout) == (plain.returncode, plain.stdout), f"{kib}: {done}")
        require(f"{record} is not complete: File too large" in done.stderr, f"{kib}: {done}")
        require(record.stat().st_size <= kib << 10, f"{kib}: {record.stat().st_size} bytes")
        run[3:5] = []
        done = lab.plain(*run, preexec_fn=with_small_files(kib), LD_LIBRARY_PATH=lab.here)
        require(done.returncode == plain.returncode, f"{kib}: {done}")
        require("the trace is not complete" in done.stderr and "as the model says" not in done.stderr
                and re.search(r"\d+ lines of the trace were lost", done.stderr), f"{kib}: {done}")


@test
def torn_lines(lab):
    """A line that is too long is cut inside its texts: it is JSON, and no other line suffers."""
    for name in ("/" + "l" * 9000, "l" * 9000, "\\" * 3900):
        lines = lab.trace(lab.program, name, "libno.so")
        require(of(lines, "dlopen", cut=True) and of(lines, "request", name="libno.so"), name[:9])
        require(total(lines)["complete"] and not of(lines, "difference"), f"{total(lines)}")
    path = ":".join(f"/nowhere/{i:05}" for i in range(1000))
    lines = lab.trace(lab.program, "libno.so", LD_LIBRARY_PATH=path)
    require("too long" in total(lines)["notes"][0] and not of(lines, "difference"), f"{total(lines)}")


@test
def status_and_signal(lab):
    require(lab.text(lab.program, "exit:41").returncode == 41, "status")
    require(lab.text(lab.program, "abort").returncode == -signal.SIGABRT, "signal")
    require(lab.text(lab.top / "no-such-program").returncode == 127, "not there")


@test
def the_record(lab):
    """A file that is there is appended to; ours goes; what cannot be written is said at once."""
    record = lab.top / "kept.jsonl"
    record.write_text('{"event": "mine", "pid": 1, "text": "kept"}\n')
    run = ["run", "--trace", "--trace-file"]
    lab.plain(lab.exe, *run, record, "--", lab.program)
    lines = record.read_text().splitlines()
    require("kept" in lines[0] and '"sum"' in lines[-1], "appended")
    done = lab.plain(lab.exe, *run, "/nowhere/x", "--", lab.program, "descriptors")
    require(done.returncode == 3 and "/nowhere/x" in done.stderr and not done.stdout, f"{done}")
    lab.text(lab.program)
    left = list((lab.top / "cache/gpumend/traces").iterdir())
    require(not left, f"{left}")
    done = lab.plain(lab.exe, "run", "--trace-file", record, "--", lab.program)
    require(done.returncode == 2, f"{done}")


@test
def records_that_were_left(lab):
    """A killed gpumend leaves its record; the next removes it, and none of a gpumend that lives."""
    folder = lab.top / "cache/gpumend/traces"

    def start():
        process = subprocess.Popen([lab.exe, "run", "--trace", "--", "sleep", "30"], env=lab.environment({}),
                                   stderr=subprocess.DEVNULL)
        until(lambda: b'"event"' in b"".join(r.read_bytes() for r in folder.iterdir()
                                             if r not in known))
        return process, next(r for r in folder.iterdir() if r not in known)
    lab.text(lab.program)
    known = list(folder.iterdir())
    require(not known, f"{known}")
    living, of_living = start()
    known.append(of_living)
    killed, of_killed = start()
    killed.kill()
    killed.wait()
    require(of_killed.exists(), "what is killed removes nothing")
    boot = of_killed.name[len("trace-"):][:8]
    others = [folder / n for n in ("other", "trace-short", f"trace-{'0' * 8}-aaaaaa")]
    gone = [folder / f"trace-{boot}-bbbbbb", folder / f"trace-{'1' * 8}-cccccc"]
    for path in others + gone:
        path.write_text("x")
    os.utime(gone[1], (1, 1))   # of a machine that nobody has heard of for long
    (folder / f"trace-{boot}-dddddd").symlink_to(folder / "other")
    lab.text(lab.program)
    require(not of_killed.exists() and not any(p.exists() for p in gone), "what was left is removed")
    require(of_living.exists() and all(p.exists() for p in others), "nothing else is")
    living.terminate()
    living.wait()
    require(not of_living.exists(), "what lives removes its own")
    shutil.rmtree(folder)


@test
def no_pipe(lab):
    """A trace goes to a file: a pipe without a reader would stop the program."""
    fifo = lab.top / "fifo"
    os.mkfifo(fifo)
    for option in ("--trace", "--trace-gpu"):
        for reader in (None, os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)):
            done = lab.plain(lab.exe, "run", option, "--trace-file", fifo, "--", lab.program)
            require(done.returncode == 3 and "not a regular file" in done.stderr and not done.stdout,
                    f"{done}")
            if reader is not None:
                os.close(reader)
    done = lab.plain(lab.exe, "run", "--trace-gpu", "--trace-file", "/dev/null", "--", lab.program)
    require(done.returncode == 0, f"{done}")


def made_for_32_bits(lab):
    """A dynamic program of 32 bits, made without headers and start files."""
    path = subprocess.run(["gcc", "-m32", "-print-file-name=libc.so.6"], capture_output=True,
                          text=True, check=False).stdout.strip()
    candidates = (path, "/lib32/libc.so.6", "/lib/i386-linux-gnu/libc.so.6")
    libc = next((p for p in candidates if p.startswith("/") and os.path.exists(p)), None)
    if not libc or not os.path.exists("/lib/ld-linux.so.2"):
        return None
    (lab.top / "small.c").write_text("""
        extern int puts(const char *); extern void exit(int) __attribute__((noreturn));
        __attribute__((force_align_arg_pointer)) void _start(void) { puts("small"); exit(7); }""")
    small = lab.top / "small32"
    done = subprocess.run(["gcc", "-m32", "-fno-pic", "-no-pie", "-nostdlib", "-nostartfiles", "-o",
                           small, lab.top / "small.c", libc, "-Wl,--dynamic-linker=/lib/ld-linux.so.2"],
                          capture_output=True, check=False)
    return small if done.returncode == 0 else None


@test
def programs_it_cannot_be_loaded_into(lab):
    """They are told, run without, and their loaders have nothing to complain of."""
    (lab.top / "other.c").write_text("#include <stdio.h>\nint main(void) { puts(\"small\"); return 7; }\n")
    made = {"a 32-bit program": made_for_32_bits(lab)}
    for what, compiler in (("a musl program", ["musl-gcc"]),
                           ("a statically linked program", ["gcc", "-static"])):
        made[what] = lab.top / f"made-{compiler[0]}"
        done = shutil.which(compiler[0]) and subprocess.run(
            [*compiler, "-o", made[what], lab.top / "other.c"], capture_output=True, check=False)
        made[what] = made[what] if done and done.returncode == 0 else None
    for what, program in made.items():
        for option in ("--trace", "--trace-gpu", "--guard-teardown", "--forgive-teardown"):
            if not program:
                continue
            told = "" if option == "--forgive-teardown" else f"gpumend: run: {program.name} is {what}: "
            done = lab.plain(lab.exe, "run", option, "--", program)
            said = done.stderr.splitlines()
            require((done.returncode, done.stdout) == (7, "small\n"), f"{what} {option}: {done}")
            require(told in done.stderr and all(line.startswith("gpumend: run: ") for line in said),
                    f"{what} {option}: {done.stderr}")
    missing = [what for what, program in made.items() if not program]
    if missing:
        raise Skip(f"not made here: {', '.join(missing)}")


@test
def print_and_json(lab):
    done = lab.plain(lab.exe, "run", "--trace", "--print", "--", lab.program, LD_AUDIT="/x/y.so")
    require(re.search(r"^export LD_AUDIT=\S+/gpumend-trace\.so:/x/y\.so$", done.stdout, re.M)
            and "export GPUMEND_TRACE=1" in done.stdout, done.stdout)
    done = lab.plain(lab.exe, "run", "--trace", "--trace-file", "t", "--json", "--", lab.program)
    changes = json.loads(done.stdout)["changes"]
    require(changes["GPUMEND_TRACE_FILE"] == str(lab.top / "cwd/t"), f"{changes}")
    require(not (lab.top / "cwd/t").exists(), "--json makes no file")


@test
def where_the_library_lies(lab):
    """A changed file is replaced; a cache whose path cannot be named is passed over."""
    placed = list((lab.top / "cache/gpumend/helpers").glob("*/gpumend-trace.so"))
    require(len(placed) == 1, f"{placed}")
    good = placed[0].read_bytes()
    placed[0].chmod(0o700)
    placed[0].write_bytes(good[:-1] + b"x")
    same_story(lab.trace(lab.program, like_plain=False), 1)
    require(placed[0].read_bytes() == good, "it is what it was")
    for odd in ("a b", "a:b", "a$b"):
        done = lab.text(lab.program, "self", XDG_CACHE_HOME=lab.top / odd, TMPDIR=lab.top / "tmp",
                        XDG_RUNTIME_DIR="")
        require(done.returncode == 0 and "as the model says" in done.stderr, f"{odd}: {done}")


# ------------------------------------------------------------------ it does no harm

def library(lab):
    lab.text(lab.program)
    return next((lab.top / "cache/gpumend/helpers").glob("*/gpumend-trace.so"))


@test
def without_its_variables(lab):
    path = library(lab)
    plain = lab.plain(lab.program, "libno.so", "descriptors")
    for variables in ({}, {"GPUMEND_TRACE": "1"}, {"GPUMEND_TRACE_FILE": str(lab.top / "unasked")},
                      {"GPUMEND_TRACE": "1", "GPUMEND_TRACE_FILE": "/nowhere/x"},
                      {"GPUMEND_TRACE": "1", "GPUMEND_TRACE_FILE": "relative"},
                      {"GPUMEND_TRACE": "2", "GPUMEND_TRACE_FILE": str(lab.top / "unasked")}):
        (lab.top / "unasked").write_text("")
        done = lab.plain(lab.program, "libno.so", "descriptors", LD_AUDIT=path, **variables)
        require((done.returncode, done.stdout, done.stderr) ==
                (plain.returncode, plain.stdout, plain.stderr), f"{variables}: {done}")
        require(not (lab.top / "unasked").read_text(), "it wrote something")


@test
def another_libc(lab):
    if not shutil.which("musl-gcc"):
        raise Skip("no musl-gcc")
    musl = lab.link(lab.top / "musl", "nothing", cc="musl-gcc")
    static = lab.link(lab.top / "static", "nothing", "-static")
    record = lab.top / "another.jsonl"
    record.write_text("")
    env = {"LD_AUDIT": library(lab), "GPUMEND_TRACE": "1", "GPUMEND_TRACE_FILE": str(record)}
    for program in (musl, static):
        done = lab.plain(program, **env)
        require((done.returncode, done.stderr) == (lab.plain(program).returncode, "")
                and not record.read_text(), f"{program.name}: {done}")


@test
def secure_mode(lab):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    if os.statvfs(lab.top).f_flag & os.ST_NOSUID:
        raise Skip("no setuid programs in the folder for temporary files")
    suid = lab.link(lab.top / "suid", "program", "-pthread")
    try:
        shutil.chown(suid, "nobody")
    except OSError as why:  # a namespace that maps root alone
        raise Skip(f"takes a second user: {why.strerror}") from None
    suid.chmod(0o4755)
    record = lab.top / "secure.jsonl"
    record.write_text("")
    record.chmod(0o666)
    os.chmod(lab.top, 0o755)
    env = {"LD_AUDIT": library(lab), "GPUMEND_TRACE": "1", "GPUMEND_TRACE_FILE": str(record)}
    done = lab.plain(suid, "libno.so", **env)
    require(done.returncode == 0 and "libno.so: cannot open" in done.stdout, f"{done}")
    require(not record.read_text(), "it wrote something")


@test
def descriptors(lab):
    """A program that closes all of them is traced on; its own files get no line."""
    lines = lab.trace(lab.program, "libno.so", "close-all", "libthing.so", "exit:5",
                      LD_LIBRARY_PATH=lab.here)
    require(of(lines, "dlopen", name="libthing.so"), "not traced on")
    same_story(lines, 3)
    own = lab.top / "own"
    lines = lab.trace(lab.program, "libno.so", f"take:{own}", "libthing.so",
                      LD_LIBRARY_PATH=lab.here)
    require(own.read_text() == "", f"in the program's own file: {own.read_text()[:300]}")
    same_story(lines, 3)


@test
def few_descriptors(lab):
    """A limit below the library's numbers."""
    script = f"ulimit -n 40; exec {lab.program} libno.so"
    lines = lab.trace("/bin/bash", "-c", script)
    require(of(lines, "dlopen", name="libno.so"), "not traced")


@test
def under_valgrind(lab):
    if not shutil.which("valgrind"):
        raise Skip("no valgrind")
    words = ("valgrind", "-q", "--leak-check=full", "--error-exitcode=9", lab.program, "libthing.so",
             "libno.so", "setenv:/x", "self")
    lines = lab.trace(*words, like_plain=False, LD_LIBRARY_PATH=lab.here)
    require(of(lines, "dlopen", name="libno.so", caller=str(lab.program)) or
            of(lines, "request", name="libno.so"), "not traced")
    done = lab.text(*words, LD_LIBRARY_PATH=lab.here)
    require(done.returncode == 0 and not re.search(r"^==\d+==", done.stderr, re.M), f"{done}")
    # What valgrind has to say of the program it still says.
    leak = lab.link(lab.top / "leak", "leak")
    for word in ("leak", "wrong"):
        done = lab.text(*words[:4], leak, word)
        require(done.returncode == 9, f"{word}: {done}")


@test
def under_address_sanitizer(lab):
    try:
        asan = lab.link(lab.top / "asan", "program", "-pthread", "-fsanitize=address,undefined", "-g")
    except subprocess.CalledProcessError:
        raise Skip("no AddressSanitizer") from None
    if lab.plain(asan, "self").returncode != 0:
        raise Skip("AddressSanitizer does not run here")
    lines = lab.trace(asan, "libno.so", "libthing.so", "dlclose", "self", LD_LIBRARY_PATH=lab.here)
    require(of(lines, "request", name="libno.so"), "not traced")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpumend", nargs="?", default=TOP / "build/gpumend", type=pathlib.Path)
    parser.add_argument("--only", metavar="PATTERN")
    args = parser.parse_args()
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-trace.") as top:
        lab = Lab(args.gpumend.resolve(), top)
        (lab.top / "world").mkdir()
        for function in TESTS:
            if args.only and not fnmatch.fnmatch(function.__name__, args.only):
                continue
            try:
                function(lab)
                passed += 1
            except Skip as why:
                skipped += 1
                print(f"SKIP {function.__name__}: {why}")
            except (Wrong, AttributeError, KeyError, IndexError, OSError, ValueError, StopIteration,
                    subprocess.SubprocessError) as why:
                failed += 1
                print(f"FAIL {function.__name__}: {type(why).__name__}: {str(why)[-2000:]}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
