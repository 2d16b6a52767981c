"""Random worlds for the loader model: descriptors, and the files that they describe.

A world is plain JSON:

    machine "x86-64" or "aarch64" (a key of MACHINES), whose names and folders the world has
    page    the size of a page, on aarch64
    files   list, built in order. {"path", "type", ...}, paths relative to the world's root:
            lib (elfgen.library's keys), exec and rel (the same, as ET_EXEC and ET_REL), program
            (elfgen.program's keys), copy ("of", "damage": a damaged library of spec "of"),
            symlink and hardlink ("target"), dir, bytes ("data"). "mode" is an octal text.
    exe     the program as it is named on the command line
    start   kernel | loader (a program without PT_INTERP, started by the dynamic loader)
            | trace (a library taken as main program; only its closure is compared)
            | musl (a program for musl, listed by musl's loader)
    env     LD_LIBRARY_PATH, LD_PRELOAD ...
    cwd     relative to the root
    loads   [{"name", "caller"}]: caller is the file name of a library, or "" for the program
    cache   null (the system's), elfgen.cache's keys, or {"ldconfig": [folders]}
    user    null, or a number to run as
    cpu     null, or a level below the machine's ("x86-64-v2"), forced through GLIBC_TUNABLES
    direct  true: the environment and folder are given to the command itself, not as options
    rule    of a hand-written world: the rule it shows, in a sentence
    expect  of a hand-written world: what the real loader makes of each load ("new PATH", "old
            PATH", "err TEXT"); expect_failed: how the start fails
    glibc   [from, before]: the minor versions that expect is true of (null: no bound)

A load may carry "before": {"setenv": "K=V"} or {"symlink": [target, path]}, which the running
program performs first; the prediction is made before the program runs.

`@W@` stands for the absolute path of the root wherever a text may hold one.
"""

import os

import elfgen

STEMS = "abdefg"
FOLDERS = ["d0", "d1", "d2", "d0/sub", "lib", "bin"]
MACHINES = {
    "x86-64": {
        "elf": elfgen.X86_64, "loader": "/lib64/ld-linux-x86-64.so.2", "libdir": "lib/x86_64-linux-gnu",
        "platform": "x86_64", "hwcaps": ["x86-64-v2", "x86-64-v3", "x86-64-v4"],
        "legacy": ["tls", "x86_64", "tls/x86_64", "haswell", "avx512_1", "x86_64/x86_64",
                   "tls/x86_64/x86_64", "tls/haswell"],
        "levels": ["x86-64-v3", "x86-64-v2", "x86-64-v1"],
        "flags": 0x303, "other_flags": [1, 3, 0x803, 0xA03, 0x300, 0x301],
        "hwcap": [1, 1 << 1, 1 << 1, 1 << 2, 1 << 48, 1 << 50, 1 << 63, 1 << 61],
        "pages": [4096]},
    "aarch64": {
        "elf": elfgen.AARCH64, "loader": "/lib/ld-linux-aarch64.so.1", "libdir": "lib/aarch64-linux-gnu",
        "platform": "aarch64", "hwcaps": ["atomics", "x86-64-v2"],
        "legacy": ["tls", "aarch64", "tls/aarch64", "atomics", "aarch64/atomics", "tls/atomics",
                   "tls/aarch64/atomics", "fp", "asimd"],
        "levels": ["armv8.0-a", "armv8.1-a"],
        "flags": 0xA03, "other_flags": [1, 3, 0x303, 0x803, 0xA00, 0xA01],
        "hwcap": [1, 1 << 1, 1 << 8, 1 << 8, 1 << 7, 1 << 48, 1 << 63, 1 << 61],
        "pages": [4096, 16384, 65536]},
}
VERSIONS = ["V1", "V2", "V3"]
NOBODY = 65534

# Which parts of the loader a world exercises, and how often.
FEATURES = {"links": 0.4, "hwcaps": 0.2, "legacy": 0.15, "bad": 0.35, "cache": 0.35, "env": 0.5,
            "preload": 0.25, "tokens": 0.35, "odd_paths": 0.35, "odd_names": 0.35, "versions": 0.15,
            "symbols": 0.15, "tls": 0.2, "user": 0.12, "cpu": 0.1, "flags": 0.15, "stack": 0.1, "system": 0.25,
            "pages": 0.3}


DEFAULTS = {"machine": "x86-64", "page": 4096, "exe": "@W@/bin/prog", "start": "kernel", "env": {}, "cwd": ".", "loads": [], "cache": None,
            "user": None, "cpu": None, "direct": False}


def substitute(value, root):
    """`value` with every @W@ replaced by the root of the world."""
    if isinstance(value, str):
        return value.replace("@W@", root)
    if isinstance(value, list):
        return [substitute(v, root) for v in value]
    if isinstance(value, dict):
        return {k: substitute(v, root) for k, v in value.items()}
    return value


def build(world, root, host, seen_at=None):
    """Writes the files of a world below `root`; raises OSError or AssertionError if it cannot.
    `seen_at`: the path of that folder for its programs, where they are started in another root."""
    modes = []
    for spec in substitute(world["files"], seen_at or root):
        path = os.path.join(root, spec["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        kind = spec["type"]
        if os.path.lexists(path):
            continue
        if kind == "dir":
            os.makedirs(path)
        elif kind == "symlink":
            os.symlink(spec["target"], path)
        elif kind == "hardlink":
            target = os.path.join(root, spec["target"])
            if os.path.isfile(target):
                os.link(target, path)
        else:
            with open(path, "wb") as out:
                out.write(contents(kind, spec, host))
            os.chmod(path, 0o755)
        if spec.get("mode"):
            modes.append((path, int(spec["mode"], 8)))
    for path, mode in modes:
        if os.path.exists(path):
            os.chmod(path, mode)
    os.makedirs(os.path.join(root, world.get("cwd") or "."), exist_ok=True)


def contents(kind, spec, host):
    if kind == "bytes":
        return spec["data"].encode()
    if kind == "program":
        return elfgen.program(host, spec)
    if kind == "copy":
        return elfgen.damage(elfgen.library(spec["of"]), spec["damage"])
    return elfgen.library(dict(spec, type=kind))


class Generator:
    """Draws one world from a random.Random."""

    def __init__(self, rng, abilities, machine="x86-64"):
        self.r = rng
        self.able = abilities
        self.machine = machine
        self.of = MACHINES[machine]
        self.levels = [level for level in self.of["levels"] if "not " + level not in abilities]
        self.hwcaps = ["glibc-hwcaps/" + h for h in self.of["hwcaps"]]
        self.on = {f for f, p in FEATURES.items() if rng.random() < p}
        if rng.random() < 0.04:
            self.on = set(FEATURES)
        self.on &= abilities | (set(FEATURES) - {"cache", "user", "cpu", "pages"})
        self.stems = STEMS[:rng.randint(2, 6)]
        self.files = []
        self.libs = []      # paths of good libraries
        self.folders = rng.sample(FOLDERS, rng.choice([1, 2, 2, 3, 3, 4]))
        self.versions = {s: rng.sample(VERSIONS, rng.randint(0, 3)) for s in self.stems}

    def chance(self, p, feature=None):
        return (feature is None or feature in self.on) and self.r.random() < p

    def soname(self):
        return f"lib{self.r.choice(self.stems)}.so.1"

    # Names and path lists ------------------------------------------------------------------

    def name(self):
        """A name as DT_NEEDED, LD_PRELOAD or dlopen may hold it."""
        r = self.r
        if self.chance(0.3, "odd_names"):
            pick = r.random()
            path = r.choice(self.libs) if self.libs else "d0/liba.so.1"
            if pick < 0.35:
                return "@W@/" + path
            if pick < 0.5:
                return r.choice(["./", "", "../d0/../", "d0/../", ".//"]) + path
            if pick < 0.6:
                return "@W@//" + path.replace("/", "/./", 1)
            if pick < 0.75:
                return r.choice(["$ORIGIN/", "${ORIGIN}/../", "$ORIGIN/../"]) + path
            if pick < 0.9:
                return os.path.basename(path)
            return r.choice(["libmissing.so.1", "@W@/d0/libmissing.so.1", "./libmissing.so.1",
                             "$LIB/liba.so.1", "$ORIGINX/liba.so.1", "@W@/ld0/liba.so.1",
                             "liba.so.01", "liba.so", "@W@/d0/../ld0/libb.so.1", "d0",
                             "@W@/loop/liba.so.1", "libx$ORIGIN.so"])
        if self.chance(0.15, "system"):
            loader, folder = self.of["loader"], "/" + self.of["libdir"]
            return r.choice(["libm.so.6", "libz.so.1", "libc.so.6", os.path.basename(loader),
                             "libdl.so.2", "libpthread.so.0", loader, folder + "/libz.so.1",
                             "/usr" + folder + "/libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"])
        if self.r.random() < 0.01:
            return "libmissing.so.1"
        return self.soname()

    def element(self):
        """One element of a search list."""
        r = self.r
        folder = r.choice(self.folders)
        if self.chance(0.35, "tokens"):
            return r.choice([
                "$ORIGIN", "${ORIGIN}", "$ORIGIN/../" + folder, "${ORIGIN}/../" + folder,
                "$ORIGIN/", "@W@/$LIB", "$ORIGIN/../$LIB", "@W@/${LIB}", "@W@/$PLATFORM",
                "$ORIGIN/../${PLATFORM}", "$ORIGINX", "${ORIGIN", "$ORIGIN_X/../" + folder, "$origin",
                "@W@/$BOGUS", "@W@/" + folder + "$", "$", "$ORIGIN$ORIGIN", "$ORIGIN/../$LIB/../../" + folder,
                "@W@/x$PLATFORM", "$LIB", "@W@/${ORIGIN}", "$ORIGIN-x", "$ORIGIN.", "$ORIGIN/.."])
        if self.chance(0.35, "odd_paths"):
            return r.choice([
                "", ".", folder, "./" + folder, "../" + folder, "@W@/" + folder + "/",
                "@W@/" + folder + "//", "@W@//" + folder, "@W@/./" + folder, "@W@/" + folder + "/../d0",
                "@W@/missing", "missing", "@W@/missing/../" + folder, "~/" + folder, "@W@", "@W@/",
                "@W@/loop", "@W@/ld0", "@W@/ld1", "@W@/dangling", "@W@/plain-file",
                "@W@/" + "n" * 300, "/", "//", "@W@/plain-file/../" + folder, " @W@/" + folder,
                "/" + self.of["libdir"], "/usr/" + self.of["libdir"] + "/", "@W@/empty"])
        return r.choice(["@W@/" + folder, "@W@/" + folder, "@W@/" + folder, "$ORIGIN",
                         "$ORIGIN/../" + folder])

    def search(self, separators=":"):
        """A search list; now and then with a duplicate or an empty end."""
        n = self.r.choice([1, 1, 2, 2, 3, 4])
        parts = [self.element() for _ in range(n)]
        if self.chance(0.4):
            parts += ["@W@/" + f for f in self.r.sample(self.folders, len(self.folders))]
        if self.chance(0.1):
            parts.append(parts[0])
        text = parts[0]
        for part in parts[1:]:
            text += self.r.choice(separators) + part
        if self.chance(0.1, "odd_paths"):
            text = self.r.choice([":" + text, text + ":", "", ":", text + "::" + parts[0]])
        return text

    # Files ---------------------------------------------------------------------------------

    def paths_tags(self, spec, p_rpath, p_runpath):
        pick = self.r.random()
        if pick < p_rpath:
            spec["rpath"] = self.search()
        elif pick < p_rpath + p_runpath:
            spec["runpath"] = self.search()
        elif pick < p_rpath + p_runpath + 0.05:
            spec["rpath"], spec["runpath"] = self.search(), self.search()
        if spec.get("rpath") and self.chance(0.1):
            spec["rpath_before"] = [self.search()]

    def lib_spec(self, stem):
        r = self.r
        spec = {"soname": f"lib{stem}.so.1"}
        pick = r.random()
        if pick < 0.1:
            spec["soname"] = None
        elif pick < 0.16:
            spec["soname"] = self.soname()
        elif pick < 0.18:
            spec["soname"] = r.choice([f"lib{stem}.so", "@W@/d0/liba.so.1", "", "libz.so.1"])
        spec["needed"] = [self.name() for _ in range(r.choice([0, 0, 0, 0, 1, 1, 1, 2, 3]))]
        self.paths_tags(spec, 0.17, 0.22)
        if self.chance(0.25, "flags"):
            spec["flags1"] = r.choice([elfgen.DF_1_NODEFLIB, 0x80, 0x8, 0x2, 0x20, 0x8000000, 0x1, 0x40])
        if self.chance(0.1, "flags"):
            spec["flags"] = r.choice([0x1, 0x2, 0x8, 0x10])
        if self.chance(0.3, "stack"):
            spec["stack"] = r.choice([None, "rwx"])
        if "versions" in self.on:
            self.version_tags(spec, stem)
        if "symbols" in self.on:
            self.symbol_tags(spec, stem)
        if "tls" in self.on:
            self.tls_tags(spec, stem)
        if self.machine != "x86-64":
            spec["machine"] = self.of["elf"]
        if self.chance(0.25, "pages"):
            spec["shift"] = r.choice([0x1000, 0x4000, 0x10000])
        if self.chance(0.1, "pages"):
            spec["align"] = r.choice([0x1000, 0x4000])
        if self.chance(0.03, "bad"):
            spec["dynamic"] = False
        if self.chance(0.03, "bad"):
            spec["align"] = r.choice([0x10000, 0x200000, 1, 0])
        return spec

    def version_tags(self, spec, stem):
        versions = self.versions[stem]
        if versions and not self.chance(0.1):
            spec["verdef"] = [v for v in versions if not self.chance(0.15)]
        needs = []
        for name in spec["needed"]:
            if not self.chance(0.6):
                continue
            known = [v for s in self.stems for v in self.versions[s] if name == f"lib{s}.so.1"]
            pool = known if known and not self.chance(0.15) else VERSIONS
            needs.append({"file": name, "versions": [
                {"name": v, "weak": self.chance(0.15)}
                for v in self.r.sample(pool, self.r.randint(1, len(pool)))]})
        if self.chance(0.03):
            needs.append({"file": self.soname(), "versions": [{"name": "V1"}]})
        if needs:
            spec["verneed"] = needs

    def symbol_tags(self, spec, stem):
        r = self.r
        spec["defs"] = [{"name": f"{stem}_{i}", "kind": r.choice(["func", "func", "object"]),
                         "weak": self.chance(0.1)} for i in range(3) if not self.chance(0.25)]
        undef = []
        for other in self.stems:
            if self.chance(0.35):
                undef.append({"name": f"{other}_{r.randint(0, 2)}",
                              "kind": r.choice(["func", "func", "object"]), "weak": self.chance(0.2)})
        for need in spec.get("verneed") or []:
            if self.chance(0.5):
                version = r.choice(need["versions"])["name"]
                undef.append({"name": f"{need['file'][3:4]}_0", "file": need["file"],
                              "version": version, "weak": self.chance(0.1)})
        spec["undef"] = undef
        for sym in spec["defs"]:
            if spec.get("verdef") and self.chance(0.5):
                sym["version"] = r.choice(spec["verdef"])

    def tls_tags(self, spec, stem):
        """A block of thread-local memory, and relocations that need its place or another one's."""
        r = self.r
        if self.chance(0.8):
            align = r.choice([1, 4, 8, 8, 16, 16, 32, 64, 64, 128, 256, 1024])
            spec["tls"] = {"align": align, "skew": r.choice([0, 0, 0, r.randrange(align)]),
                           "size": r.choice([1, 4, 8, 16, 24, 100, 144, 300, 500, 512, 520, 700, 900, 1200,
                                             1600, 1664, 1700, 4000, r.randint(1, 1700)])}
            if self.chance(0.6):
                spec["tls"].update(name=f"{stem}_t", visibility=r.choice([0, 0, 0, 2, 3]))
        spec["tls_refs"] = []
        for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
            ref = {"descriptor": self.chance(0.35)}
            if "tls" not in spec or self.chance(0.5):
                ref.update(name=f"{r.choice(self.stems)}_t", weak=self.chance(0.85))
            spec["tls_refs"].append(ref)
        spec["tls_first"] = self.chance(0.5)
        if not all(ref["descriptor"] for ref in spec["tls_refs"]):
            spec["flags"] = spec.get("flags", 0) | 0x10  # DF_STATIC_TLS, as linkers set it

    def folder(self):
        """A folder for a library: one of the world's, or a subfolder that glibc looks into."""
        base = self.r.choice(self.folders)
        if self.chance(0.3, "tokens"):
            platform = self.of["platform"]
            base = self.r.choice([self.of["libdir"], platform, "haswell", "$BOGUS", "x" + platform, "d0$", base])
        if self.chance(0.4, "hwcaps"):
            base += "/" + self.r.choice(self.hwcaps)
        elif self.chance(0.4, "legacy"):
            base += "/" + self.r.choice(self.of["legacy"])
        return base

    def library(self, stem):
        r = self.r
        pick = r.random()
        file_name = (f"lib{stem}.so.1" if pick < 0.85 else f"lib{stem}.so" if pick < 0.9
                     else f"lib{stem}-1ab2.so" if pick < 0.95 else f"lib{stem}.so.1.2.3")
        folder = self.folder()
        path = f"{folder}/{file_name}"
        spec = self.lib_spec(stem)
        if self.chance(0.2, "bad"):
            self.files.append(self.bad_file(path, spec))
            return
        entry = {"path": path, "type": "lib", **spec}
        if self.chance(0.12, "user"):
            entry["mode"] = r.choice(["000", "000", "111", "644"])
        self.files.append(entry)
        self.libs.append(path)
        if file_name.endswith(".1.2.3") or self.chance(0.3, "links"):
            link = f"{r.choice([folder, self.folder()])}/lib{stem}.so.1"
            target = os.path.relpath(path, os.path.dirname(link))
            self.files.append(r.choice([
                {"path": link, "type": "symlink", "target": target},
                {"path": link, "type": "symlink", "target": "@W@/" + path},
                {"path": link, "type": "hardlink", "target": path}]))
            self.libs.append(link)

    def bad_file(self, path, spec):
        r = self.r
        pick = r.random()
        if pick < 0.6:
            return {"path": path, "type": "copy", "of": spec, "damage": r.choice(elfgen.DAMAGES)}
        if pick < 0.66:
            return {"path": path, "type": "copy", "of": spec,
                    "damage": "truncate:%d" % r.choice([1, 4, 20, 63, 64, 100, 200, 600, 4095])}
        if pick < 0.72:
            return {"path": path, "type": "bytes", "data": ""}
        if pick < 0.8:
            return {"path": path, "type": "bytes", "data": r.choice([
                "INPUT(libreal.so)\n", "/* GNU ld script */\nGROUP ( libc.so.6 )\n" + " " * 80,
                "x", "#!/bin/sh\n" + "echo\n" * 20, "\x7fELF" + "z" * 100])}
        if pick < 0.86:
            return {"path": path, "type": "dir"}
        if pick < 0.93:
            return {"path": path, "type": "symlink", "target": r.choice(["nowhere", "@W@/loop"])}
        return {"path": path, "type": r.choice(["exec", "rel"]), **spec}

    def backdrop(self):
        """Links, loops and plain files that odd path elements run into."""
        for path, target in (("ld0", "d0"), ("ld1", "@W@/d1"), ("loop", "loop"), ("dangling", "gone"),
                             ("d1/up", "..")):
            if self.chance(0.5):
                self.files.append({"path": path, "type": "symlink", "target": target})
        self.files.append({"path": "plain-file", "type": "bytes", "data": "text\n"})
        self.files.append({"path": "empty", "type": "dir"})
        for name in self.hwcaps + self.of["legacy"]:
            if self.chance(0.08, "hwcaps"):
                self.files.append({"path": f"{self.r.choice(self.folders)}/{name}", "type": "dir"})

    def program(self):
        r = self.r
        spec = {"path": "bin/prog", "type": "program"}
        needed = [self.name() for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]
        needed.insert(r.randint(0, len(needed)), "libc.so.6")
        spec["needed"] = needed
        self.paths_tags(spec, 0.25, 0.25)
        if self.chance(0.2, "flags"):
            spec["flags1"] = r.choice([elfgen.DF_1_NODEFLIB, 0x80, 0x1])
        if self.chance(0.1):
            spec["soname"] = self.soname()
        return spec

    def cache(self):
        if "cache" not in self.on:
            return None
        r = self.r
        if r.random() < 0.08 and self.machine == "x86-64":
            return {"ldconfig": ["@W@/" + f for f in self.folders]}
        if r.random() < 0.03:
            return {"bad": r.choice(["short", "magic", "endian", "endian-unset", "endian-invalid"]),
                    "entries": []}
        entries = []
        for path in self.libs:
            if self.chance(0.6):
                stem_name = self.soname() if self.chance(0.2) else os.path.basename(path)
                entry = {"key": stem_name, "path": "@W@/" + path}
                if self.chance(0.15):
                    entry["hwcaps"] = r.choice(self.of["hwcaps"] + ["x86-64-v9"])
                    if "cpu" not in self.on:    # what GLIBC_TUNABLES takes away counts here still
                        entry["isa"] = r.choice([0, 0, 1, 2, 3, 9])
                elif self.chance(0.08):
                    entry["flags"] = r.choice(self.of["other_flags"])
                elif self.chance(0.08):
                    entry["hwcap"] = r.choice(self.of["hwcap"])
                entries.append(entry)
        for _ in range(r.randint(0, 2)):
            entries.append({"key": self.soname(), "path": "@W@/" + r.choice(
                ["gone/liba.so.1", "plain-file", "d0", "loop", "d0/liba.so.1"])})
        if self.chance(0.7):
            entries.append({"key": "libc.so.6", "path": f"/{self.of['libdir']}/libc.so.6"})
        if self.chance(0.5):
            entries.append({"key": "libz.so.1", "path": f"/usr/{self.of['libdir']}/libz.so.1"})
        for e in list(entries):
            if self.chance(0.05):
                entries.append(dict(e, key=e["key"].replace(".so.1", ".so.01")))
        return {"format": r.choice(["new", "new", "new", "both", "old"]), "entries": entries,
                "flags": self.of["flags"]}

    def environment(self):
        env = {}
        if "env" in self.on:
            env["LD_LIBRARY_PATH"] = self.search(":::;")
        if "preload" in self.on:
            names = [self.name() for _ in range(self.r.choice([1, 1, 2, 3]))]
            env["LD_PRELOAD"] = "".join(n + self.r.choice([" ", ":", " :"]) for n in names)
            if not self.chance(0.2):
                env["LD_PRELOAD"] = env["LD_PRELOAD"].rstrip(" :")
        if self.chance(0.05, "tokens"):
            env["LD_ORIGIN_PATH"] = "@W@/d1"
        if self.chance(0.3, "tls") and "cpu" not in self.on:
            env["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=" + self.r.choice(
                ["0", "100", "1024", "0x800", "4096", "12"])
        return env

    def world(self, only=None):
        """The world; `only`: how it is started, where that is not to be drawn."""
        r = self.r
        start = r.choice(["kernel"] * 8 + ["loader", "trace"])
        if (self.chance(0.05) and "musl" in self.able) or only == "musl":
            # musl looks neither at e_ident nor at symbols before it relocates; not compared.
            start = "musl"
            self.on -= {"bad", "symbols", "versions", "tls"}
        for stem in self.stems:
            for _ in range(r.choice([1, 2, 2, 3, 4])):
                self.library(stem)
        self.backdrop()
        self.files.append(self.program())
        cache = self.cache()
        if "user" in self.on:
            for folder in set(self.folders) - {"bin"}:
                if self.chance(0.1):
                    self.files.append({"path": folder, "type": "dir", "mode": r.choice(["000", "711", "700"])})
        cwd = r.choice([".", ".", "d0", "d1", "bin"])
        exe = "@W@/bin/prog"
        if start == "kernel" and self.chance(0.4, "links"):
            self.files.append({"path": "d2/prog-link", "type": "symlink", "target": "../bin/prog"})
            exe = "@W@/d2/prog-link"
        elif self.chance(0.3, "odd_paths"):
            exe = os.path.relpath("bin/prog", cwd)
            exe = exe if "/" in exe else "./" + exe
        if start == "loader":
            self.files = [dict(f, interp=None) if f["type"] == "program" else f for f in self.files]
        if start == "musl":
            main = next(f for f in self.files if f["type"] == "program")
            main.update(type="lib", interp="/lib/ld-musl-x86_64.so.1")
            exe, cache = "@W@/bin/prog", None
        if start == "trace":
            first = {f["path"]: f for f in reversed(self.files)}  # what a path is built from
            mains = [p for p, f in first.items() if f["type"] == "lib" and f.get("needed") and
                     f.get("dynamic", True)]
            if mains:
                exe = "@W@/" + r.choice(mains)
            else:
                start = "kernel"
        loads = []
        if start not in ("trace", "musl"):
            for _ in range(r.choice([3, 6, 9] if "tls" in self.on else [0, 1, 2, 3, 4, 6])):
                caller = "" if self.chance(0.45) else f"/{self.soname()}"
                loads.append({"name": self.name(), "caller": caller})
        return {"machine": self.machine, "page": r.choice(self.of["pages"]), "files": self.files, "exe": exe, "start": start, "env": self.environment(), "cwd": cwd,
                "loads": loads, "cache": cache, "user": NOBODY if "user" in self.on else None,
                "cpu": r.choice(self.levels) if "cpu" in self.on else None,
                "direct": self.machine == "x86-64" and self.chance(0.1)}
