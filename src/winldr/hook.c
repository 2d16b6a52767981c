#include "winldr/hook.h"

#include <inttypes.h>
#include <string.h>

#include "winldr/path.h"

extern const char winldr_hook_py[]; // winldr/hook.py, embedded by the build

enum { TEXT_MAX = 1 << 20, ITEMS_MAX = 1024 };

const char winldr_hook_pth[] =
    "import sys; _d = sys.dont_write_bytecode; sys.dont_write_bytecode = True; "
    "import _gpumend_hook; sys.dont_write_bytecode = _d\n";
const char winldr_hook_start[] = "_gpumend_hook:start\n";

static const char first_line[] =
    "\"\"\"Written by gpumend; `gpumend disable` takes it away.\"\"\"\n";

/* ------------------------------------------------------------------ writing */

static const char *relative(const char *site, const char *path)
{
    return winldr_path_is_below(path, site) ? path + strlen(site) + 1 : path;
}

static const char *tuple(struct arena *a, const char *name, const winldr_texts *items,
                         const char *site)
{
    const char *text = arena_printf(a, "%s = (", name);
    for (size_t i = 0; i < items->n; i++) {
        const char *item = items->items[i];
        text = site ? arena_printf(a, "%s%s, ", text, str_python_bytes(a, relative(site, item)))
                    : arena_printf(a, "%s%s, ", text, str_python_bytes(a, item) + 1); // a str
    }
    return arena_printf(a, "%s)\n", text);
}

struct str winldr_hook_text(struct arena *a, const struct winldr_hook *hook, const char *site,
                            const char *prefix)
{
    const char *text = arena_printf(
        a, "%simport os\nimport sys\n\n%s%s%s%sPREFIX = %s\n%s", first_line,
        tuple(a, "MODULES", &hook->modules, NULL), tuple(a, "SEARCHED", &hook->searched, site),
        tuple(a, "ON_PATH", &hook->on_path, site), tuple(a, "LIBRARIES", &hook->libraries, site),
        str_python_bytes(a, prefix ? prefix : ""), winldr_hook_py);
    return str_of(arena_printf(a, "%s# %016" PRIx64 "\n", text, str_hash(text, strlen(text))));
}

bool winldr_hook_is_whole(struct str text)
{
    enum { LAST_LINE = 2 + 16 + 1 };
    struct arena scratch;
    if (!str_starts(text, first_line) || text.n < sizeof first_line + LAST_LINE) {
        return false;
    }
    struct str rest = {text.s, text.n - LAST_LINE};
    arena_init(&scratch, 0, NULL, NULL);
    const char *line = arena_printf(&scratch, "# %016" PRIx64 "\n", str_hash(rest.s, rest.n));
    bool same = memcmp(text.s + rest.n, line, LAST_LINE) == 0;
    arena_release(&scratch);
    return same;
}

/* ------------------------------------------------------------------ reading */

/* "text" or b"text" with escapes \xNN; NULL: it has another form. */
static const char *read_literal(struct arena *a, struct str text)
{
    text = str_starts(text, "b") ? (struct str){text.s + 1, text.n - 1} : text;
    if (text.n < 2 || text.s[0] != '"' || text.s[text.n - 1] != '"') {
        return NULL;
    }
    char *out = arena_alloc(a, text.n);
    size_t n = 0;
    for (size_t i = 1; i + 1 < text.n; i++) {
        int c = (unsigned char)text.s[i];
        if (c == '\\') {
            int high = text.n - i > 4 ? str_hex_digit_small(text.s[i + 2]) : -1;
            int low = text.n - i > 4 ? str_hex_digit_small(text.s[i + 3]) : -1;
            if (text.s[i + 1] != 'x' || high < 0 || low < 0) {
                return NULL;
            }
            c = high * 16 + low;
            i += 3;
        }
        if (c == '\0' || c == '"') {
            return NULL;
        }
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return out;
}

/* The line `NAME = (b"...", b"...", )`; no item has a comma and a blank unless it ends one. */
static bool read_tuple(struct winldr_files *f, struct str text, const char *name, const char *site,
                       winldr_texts *ret)
{
    struct str line;
    while (str_line(&text, &line)) {
        const char *head = arena_printf(f->arena, "%s = (", name);
        if (!str_starts(line, head) || line.s[line.n - 1] != ')') {
            continue;
        }
        line = (struct str){line.s + strlen(head), line.n - strlen(head) - 1};
        while (line.n && ret->n < ITEMS_MAX) {
            size_t end = str_find(line, "\", ");
            const char *item =
                end < line.n ? read_literal(f->arena, (struct str){line.s, end + 1}) : NULL;
            if (!item) {
                return false;
            }
            VEC_PUSH(f->arena, ret, site ? winldr_path_full(f->arena, site, item) : item);
            line = (struct str){line.s + end + 3, line.n - end - 3};
        }
        if (line.n) {
            root_note_cut(f->root,
                          "a start-up hook lists more than %d items; what it does is unknown",
                          ITEMS_MAX);
        }
        return line.n == 0;
    }
    return false;
}

static bool is_there(struct winldr_files *f, const char *site, const char *name)
{
    return winldr_files_place(f, winldr_path_join(f->arena, site, name))->place != NULL;
}

bool winldr_hook_read(struct winldr_files *files, const char *site, struct winldr_hook *ret)
{
    struct str text;
    const struct winldr_entry *e =
        winldr_files_place(files, winldr_path_join(files->arena, site, WINLDR_HOOK_MODULE));
    *ret = (struct winldr_hook){0};
    return (is_there(files, site, WINLDR_HOOK_PTH) || is_there(files, site, WINLDR_HOOK_START)) &&
           e->place && root_read(files->root, files->arena, e->place, TEXT_MAX, &text) == 0 &&
           read_tuple(files, text, "MODULES", NULL, &ret->modules) &&
           read_tuple(files, text, "SEARCHED", site, &ret->searched) &&
           read_tuple(files, text, "ON_PATH", site, &ret->on_path) &&
           read_tuple(files, text, "LIBRARIES", site, &ret->libraries);
}

/* ------------------------------------------------------------------ in the model */

static bool is_waited_for(const struct winldr_hook *hook, const char *module)
{
    for (size_t i = 0; i < hook->modules.n; i++) {
        if (strcmp(hook->modules.items[i], module) == 0) {
            return true;
        }
    }
    return false;
}

void winldr_hook_perform(struct winldr_process *p, const struct winldr_hook *hook,
                         const char *module)
{
    if (p->hook_done || !is_waited_for(hook, module)) {
        return;
    }
    p->hook_done = true;
    p->hook_first = p->loads.n;
    for (size_t i = 0; i < hook->searched.n; i++) {
        (void)winldr_add_directory(p, hook->searched.items[i]); // one that is not full is refused
    }
    for (size_t i = hook->on_path.n; i-- > 0 && p->config.path;) {
        winldr_set_path(p, arena_printf(p->arena, "%s;%s", hook->on_path.items[i], p->config.path));
    }
    for (size_t i = 0; i < hook->libraries.n; i++) {
        (void)winldr_load(p, hook->libraries.items[i], WINLDR_DEFAULT_DIRS | WINLDR_DLL_LOAD_DIR);
    }
    p->hook_end = p->loads.n;
}
