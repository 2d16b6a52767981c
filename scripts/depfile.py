"""Depfiles, by which a script of the build says which files it has read (see Ninja's manual, "depfile")."""


def escaped(path):
    """As Ninja and make read it; Ninja takes a path with a bare blank for two files, of which none exists."""
    return path.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")


def write(depfile, out, files):
    with open(depfile, "w", encoding="utf-8") as file:
        file.write(f"{escaped(out)}: {' '.join(escaped(path) for path in files)}\n")
