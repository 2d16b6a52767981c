#include "apply/hookfile.h"

#include <string.h>

extern const char apply_hookfile_py[]; // src/apply/hookfile.py, embedded by the build

/* Bytecode would be a third file that nobody wrote down: the flag is set for this import alone. */
static const char pth_line[] =
    "import sys; _d = sys.dont_write_bytecode; sys.dont_write_bytecode = True; "
    "import _gpumend_hook; sys.dont_write_bytecode = _d\n";

struct str apply_hook_pth(void)
{
    return STR(pth_line);
}

struct str apply_hook_start(void)
{
    return STR("_gpumend_hook:start\n");
}

/* The way from `site` to a path below `prefix`, up by "..": "../../libx.so". */
static const char *relative(struct arena *a, const char *prefix, const char *site, const char *path)
{
    size_t n = strlen(prefix), same = 0, i = 0;
    if (strncmp(path, prefix, n) != 0 || path[n] != '/' || strncmp(site, prefix, n) != 0) {
        return path;
    }
    for (; site[i] && site[i] == path[i]; i++) {
        same = site[i] == '/' ? i : same;
    }
    if (site[i] == '\0' && path[i] == '/') {
        return path + i + 1;
    }
    const char *up = "";
    for (const char *s = site + same; *s; s++) {
        up = *s == '/' ? arena_printf(a, "%s../", up) : up;
    }
    return arena_printf(a, "%s%s", up, path + same + 1);
}

struct str apply_hook_module(struct arena *a, const struct apply_hook *hook)
{
    const char *text = "\"\"\"Written by gpumend; `gpumend disable` takes it away.\"\"\"\n"
                       "import os\nimport sys\n\nMODULES = (";
    for (size_t i = 0; i < hook->n_modules; i++) {
        text = arena_printf(a, "%s%s, ", text,
                            str_python_bytes(a, hook->modules[i]) + 1); // text: identifiers
    }
    text = arena_printf(a, "%s)\nLIBRARIES = (\n", text);
    for (size_t i = 0; i < hook->n_paths; i++) {
        const char *path = relative(a, hook->prefix, hook->site, hook->paths[i]);
        text = arena_printf(a, "%s    %s,\n", text, str_python_bytes(a, path));
    }
    return str_of(arena_printf(a, "%s)\n%s", text, apply_hookfile_py));
}
