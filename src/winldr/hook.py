LOADED = []


def say(error):
    if os.environ.get("GPUMEND_HOOK_VERBOSE") == "1":
        sys.stderr.write("gpumend hook: %s\n" % error)


def full(path):
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.normpath(os.path.join(here, os.fsdecode(path)))


def load():
    for folder in SEARCHED:
        try:
            LOADED.append(os.add_dll_directory(full(folder)))
        except (OSError, AttributeError) as error:  # AttributeError: before Python 3.8
            say(error)
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([*map(full, ON_PATH), *([before] if before else [])])
    import ctypes
    for library in LIBRARIES:
        try:
            LOADED.append(ctypes.CDLL(full(library)))
        except OSError as error:
            say("%s: %s" % (full(library), error))


class Finder(object):
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            # A new list: the old one is being walked by the import that asks.
            sys.meta_path = [f for f in sys.meta_path if f is not self]
            try:
                load()
            except Exception as error:  # the program must not notice
                say(error)
        return None


def is_meant():
    if not PREFIX:
        return True
    same = os.path.normcase(os.path.realpath(sys.prefix))
    return same == os.path.normcase(os.path.realpath(os.fsdecode(PREFIX)))


if os.environ.get("GPUMEND_HOOK") != "0" and is_meant():
    sys.meta_path.insert(0, Finder())


def start():  # what a .start file can name: the import has done all
    pass
