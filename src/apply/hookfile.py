LOADED = []
# Only compiled when it is needed: most starts of an environment import none of MODULES.
LOAD = """
def say(error):
    if os.environ.get("GPUMEND_HOOK_VERBOSE") == "1":
        sys.stderr.write("gpumend hook: %s\\n" % error)


try:
    import ctypes
    here = os.path.dirname(os.path.abspath(__file__))
    for library in LIBRARIES:
        try:
            LOADED.append(ctypes.CDLL(os.path.normpath(os.path.join(here, os.fsdecode(library)))))
        except OSError as error:
            say(error)
except Exception as error:  # the program must not notice
    say(error)
"""


class Finder(object):
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            # A new list: the old one is being walked by the import that asks.
            sys.meta_path = [f for f in sys.meta_path if f is not self]
            exec(LOAD, globals())
        return None


if os.environ.get("GPUMEND_HOOK") != "0":
    sys.meta_path.insert(0, Finder())


def start():  # what a .start file can name: the import has done all
    pass
