"""The repairs that check prints, carried out in the tree of a case.

carried_out(tree, twin, command, env) does to the tree what a shell, pip and ldconfig would do to the
system, and returns the variables of the shell that typed the command. NotModelled says why a command
cannot be carried out here: it needs a package index, a driver or another machine.

pip is modelled by what a wheel brings: the files of the same distribution in the healthy twin, else
the libraries that the knowledge base lists for the package (provides.json), in its newest release
that fits the requirement (releases.json).
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import releases
from tree import cudnn_library, elf


class NotModelled(Exception):
    pass


def shell_variables(command, env):
    """The variables as a shell has them after the command."""
    done = subprocess.run(["sh", "-c", command + "\nenv -0"], env={"PATH": "/usr/bin:/bin", **env},
                          capture_output=True, text=True, check=True)
    after = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)
    return {k: v for k, v in after.items()
            if k in env or k not in ("PATH", "PWD", "OLDPWD", "SHLVL", "_")}


# ---- pip

def info_folder(tree, name):
    """The dist-info folder of a distribution, or None."""
    for info in sorted(tree.real(tree.site).glob("*.dist-info")):
        if info.name[:-len(".dist-info")].rpartition("-")[0].replace("_", "-").lower() == name:
            return info
    return None


def recorded(info):
    return [line.split(",")[0] for line in (info / "RECORD").read_text().splitlines()]


def remove(tree, name):
    info = info_folder(tree, name)
    if not info:
        return
    for path in recorded(info) if (info / "RECORD").exists() else ():
        place = tree.real(tree.site) / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif place.is_symlink() or place.exists():
            place.unlink()
    shutil.rmtree(info)


def copy_of_twin(tree, twin, name):
    info = info_folder(twin, name)
    for path in recorded(info):
        if not (twin.real(twin.site) / path).exists():
            continue  # that may be missing
        place = tree.real(tree.site) / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif place.is_symlink():
            place.unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(twin.real(twin.site) / path, place, follow_symlinks=False)
    shutil.copytree(info, tree.real(tree.site) / info.name)


def libraries_of(name, version):
    """(folder, SONAME) of what a wheel of the package brings, by the knowledge base."""
    for row in releases.PROVIDES:
        for p in row["providers"]:
            if (p["manager"] == "pip" and p["package"] == name and "folder" in p
                    and releases.fits(version, p.get("versions"))
                    and ("cudnn" not in name or row["major"] == releases.number(version)[0])
                    and re.fullmatch(r"[\w.+-]+\*?", row["soname"])):
                yield p["folder"], row["soname"].rstrip("*")


def needed_by(soname, libraries):
    """cuBLAS needs cuBLASLt; what else the libraries of a wheel need leads out of it."""
    lt = soname.replace("libcublas.", "libcublasLt.")
    return [lt] if lt != soname and lt in [name for _, name in libraries] else []


def newest(name, versions):
    listed = [r["version"] for r in releases.RELEASES
              if r["package"] == name and releases.fits(r["version"], versions)
              and releases.PYTHON in r.get("pythons", [releases.PYTHON])]
    return max(listed, key=releases.number, default=None)


def declared(name, version):
    """What a release of NVIDIA's wheels asks pip for."""
    for r in releases.RELEASES:
        if r["package"] == name and r["version"] == version:
            for need in r.get("needs", ()):
                if need["package"].startswith("nvidia-") and "extra" not in need:
                    yield need["package"], need.get("versions", "")


def requirements(info):
    for line in (info / "METADATA").read_text().splitlines():
        match = re.fullmatch(r"Requires-Dist: ([\w.-]+)(?:\[[\w.,-]+\])?([^;]*)", line)
        if match:
            yield match.group(1), match.group(2).strip()


def requirements_of_extras(info, extras):
    """What the extras of a distribution ask for: name, versions."""
    for line in (info / "METADATA").read_text().splitlines():
        match = re.fullmatch(r"Requires-Dist: ([\w.-]+)([^;]*); extra == ['\"]([\w.-]+)['\"]", line)
        if match and match.group(3) in extras:
            yield match.group(1), match.group(2).strip()


def install(tree, twin, name, versions, again):
    here = releases.installed(tree).get(name)
    if here and not again and releases.fits(here, versions):
        return
    healthy = releases.installed(twin).get(name)
    if healthy and releases.fits(healthy, versions) and (again or here is None or here != healthy):
        remove(tree, name)
        copy_of_twin(tree, twin, name)
        for need, its in () if again else requirements(info_folder(tree, name)):
            install(tree, twin, need, its, False)
        return
    version = newest(name, versions)
    if version is None:
        raise NotModelled("no release of %s%s is listed" % (name, versions))
    if name == "ctranslate2":
        remove(tree, name)
        tree.ctranslate2(version)
        return
    libraries = list(libraries_of(name, version))
    if "nvrtc" in name:
        libraries.append((libraries[0][0], "libnvrtc-builtins.so.%d.%d"
                          % releases.number(version)[:2]))
    if not libraries:
        raise NotModelled("what %s brings is not listed" % name)
    remove(tree, name)
    for folder, soname in libraries:
        made = {"runpath": "$ORIGIN", "needed": needed_by(soname, libraries)}
        data = (cudnn_library(soname, ".".join(version.split(".")[:3]), **made)
                if "cudnn" in name else elf(soname, **made))
        tree.put("%s/%s/%s" % (tree.site, folder, soname), data)
    tree.dist(name, version, ["%s/%s" % row for row in libraries])
    for need, its in declared(name, version):
        install(tree, twin, need, its, False)


def pip(tree, twin, words):
    verb = words[words.index("pip") + 1]
    text = shlex.join(words)
    if verb == "uninstall":
        for name in words[words.index("-y") + 1:]:
            remove(tree, name)
    elif "--torch-backend" in text:
        raise NotModelled("a build of PyTorch's own index")
    else:
        for name, versions in releases.asked(text).items():
            install(tree, twin, name, versions, "--force-reinstall" in words)
        for name, extras in re.findall(r"([\w.-]+)\[([\w.,-]+)\]", text):
            info = info_folder(tree, name)
            for need, its in requirements_of_extras(info, extras.split(",")) if info else ():
                install(tree, twin, need, its, False)


# What adds to a project's lock and installs from it: the words before the names.
ADDS = (("uv", "add", "--project", r"/\S+"), ("poetry", "-C", r"/\S+", "add"), ("pdm", "add", "-p", r"/\S+"),
        (r"PIPENV_PIPFILE=/\S+/Pipfile", "pipenv", "install"),
        ("pixi", "add", "--manifest-path", r"/\S+\.toml", "--pypi"))


def added(words):
    """The names that a project's tool is asked to add, or None."""
    for form in ADDS:
        if len(words) > len(form) and all(re.fullmatch(f, w) for f, w in zip(form, words)):
            return words[len(form):]
    return None


# ---- files

def step_of_files(tree, words):
    if words[0] == "rm":
        for path in words[1:]:
            tree.real(path).unlink()
    elif words[:2] == ["ln", "-sf"]:
        tree.real(words[3]).unlink(missing_ok=True)
        tree.link(words[3], words[2])
    elif words[0] == "chmod" and words[1] == "u-s":
        place = tree.real(words[2])
        place.chmod(place.stat().st_mode & ~0o4000)
    elif words[0] == "ldconfig":
        if os.geteuid() != 0:
            raise NotModelled("ldconfig -r needs root")
        tree.real("/etc").mkdir(exist_ok=True)
        subprocess.run(["/sbin/ldconfig", "-r", str(tree.top)], check=True,
                       stderr=subprocess.DEVNULL)
    else:
        raise NotModelled("%s is not run here" % words[0])


def changes_files(command):
    return any(not re.match(r"(export|unset) ", part) for part in command.split(" && "))


def carried_out(tree, twin, command, env):
    typed = []
    for part in command.split(" && "):
        if re.match(r"(export|unset) ", part):
            typed.append(part)
            continue
        words = shlex.split(part)
        words = words[1:] if words[0] == "sudo" else words
        if added(words):
            pip(tree, twin, ["pip", "install", *added(words)])
        elif "pip" in words:
            pip(tree, twin, words)
        else:
            step_of_files(tree, words)
    return shell_variables("\n".join(typed), env) if typed else env
