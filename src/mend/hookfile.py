

class Finder(object):
    """Asked by every import until one of MODULES comes; answers none."""

    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            # A new list: the old one is being walked by the import that asks.
            sys.meta_path = [f for f in sys.meta_path if f is not self]
            load()
        return None


def load():
    try:
        import ctypes
        import os
        here = os.path.dirname(os.path.abspath(__file__))
        for library in LIBRARIES:
            path = os.path.normpath(os.path.join(here, os.fsdecode(library)))
            try:
                LOADED.append(ctypes.CDLL(path))
            except OSError as error:
                say(error)
    except Exception as error:  # the program must not notice
        say(error)


def say(error):
    import os
    if os.environ.get("GPUMEND_HOOK_VERBOSE") == "1":
        sys.stderr.write("gpumend hook: %s\n" % error)


LOADED = []


def wanted():
    import os
    return os.environ.get("GPUMEND_HOOK") != "0"


if wanted():
    sys.meta_path.insert(0, Finder())
