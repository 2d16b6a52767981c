/* Does in the model (src/winldr) what tests/windows/driver.c does under Wine, and prints the same.
 *
 *   modeldriver SCRIPT TOP EXE DRIVE:FOLDER...
 *
 * A line "functions 0" is for it alone: from the next world on, imported functions count as there.
 * A code whose cause is below the top, in an import, has an asterisk; one that comes of an export
 * that leads on to another DLL, and each after a DLL was unloaded to which one had led, or after a
 * free amid DLLs that import one another, a tilde. A DLL whose start is "xor eax, eax; ret" refuses
 * (tests/windows/wine.py); any other start counts as successful.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "winldr/path.h"
#include "winldr/process.h"

enum { LOADS_MAX = 256, TEXT = 16384 };

struct state {
    struct arena arena; // of one world
    struct winldr_files files;
    struct winldr_config config;
    struct winldr_process *process;
    struct winldr_module *loads[LOADS_MAX];
    int n_loads, world;
    bool is_over; // what comes is not for Wine to judge
};

static bool refuses(const struct winldr_module *m, void *arg)
{
    (void)arg;
    if (!m->file) {
        return false;
    }
    const struct pe_image *e = &m->file->image;
    const unsigned char *at = pe_bytes(e, 60, 4);
    const unsigned char *entry = at ? pe_bytes(e, (uint64_t)pe_u32(at) + 24 + 16, 4) : NULL;
    const unsigned char *code = entry && pe_u32(entry) ? pe_at(e, pe_u32(entry), 3) : NULL;
    return code && memcmp(code, "\x31\xc0\xc3", 3) == 0;
}

/* Whether the start of a module says no, or of one that it imports. */
static bool refuses_below(struct winldr_module *m)
{
    bool seen = m->is_marked;
    m->is_marked = true;
    bool any = !seen && refuses(m, NULL);
    for (size_t i = 0; !seen && !any && i < m->imports.n; i++) {
        any = refuses_below(m->imports.items[i]);
    }
    return any;
}

/* Whether what failed is only what an export leads on to: Wine forgets a DLL there whose start says
 * no, and has a stub for the export. */
static bool is_forgotten(const struct state *s, const struct winldr_load *load)
{
    const struct winldr_process *p = s->process;
    bool any = false;
    for (size_t i = load->request; i < load->end; i++) {
        if (p->requests.items[i]->module) {
            p->requests.items[i]->module->is_marked = false;
        }
    }
    for (size_t i = load->request; load->code == WINLDR_DLL_INIT_FAILED && i < load->end; i++) {
        const struct winldr_request *r = p->requests.items[i];
        any |= r->is_forwarded && r->module && refuses_below(r->module);
    }
    return any;
}

static bool is_loaded(const struct winldr_process *p, const struct winldr_module *m)
{
    bool any = false;
    for (size_t i = 0; i < p->modules.n; i++) {
        any |= p->modules.items[i] == m;
    }
    return any;
}

/* Whether a DLL that an export had led to was unloaded: Wine keeps it, as it counts who loads it,
 * but not for whom (find_forwarded_export). */
static bool is_kept(const struct state *s)
{
    const struct winldr_process *p = s->process;
    bool any = false;
    for (size_t i = 0; i < p->requests.n; i++) {
        const struct winldr_request *r = p->requests.items[i];
        any |= r->is_forwarded && r->module && !is_loaded(p, r->module);
    }
    return any;
}

static bool imports(struct winldr_module *m, const struct winldr_module *wanted)
{
    bool any = false;
    m->is_marked = true;
    for (size_t i = 0; i < m->imports.n; i++) {
        struct winldr_module *next = m->imports.items[i];
        any |= next == wanted || (!next->is_marked && imports(next, wanted));
    }
    return any;
}

/* Whether loaded DLLs import one another: when such a circle is complete, Wine counts its first DLL
 * as loaded once (load_dll), and unloads it although another one of the circle is in use. */
static bool has_circle(const struct winldr_process *p)
{
    bool any = false;
    for (size_t i = 0; i < p->modules.n; i++) {
        for (size_t j = 0; j < p->modules.n; j++) {
            p->modules.items[j]->is_marked = false;
        }
        any |= imports(p->modules.items[i], p->modules.items[i]);
    }
    return any;
}

static void print_result(const struct state *s, const struct winldr_module *m, unsigned code,
                         const char *remark)
{
    printf("%d.%d\t%u%s\t%s", s->world, s->n_loads, m ? 0 : code, remark, m ? m->path : "-");
    for (size_t i = 0; i < s->process->modules.n; i++) {
        const struct winldr_module *loaded = s->process->modules.items[i];
        bool ours = strncasecmp(loaded->name, "tw", 2) == 0;
        if (ours || (i > 0 && strncasecmp(loaded->path, "C:\\windows\\", 11) != 0)) {
            printf("\t%s", loaded->path);
        }
    }
    putchar('\n');
}

static void perform_load(struct state *s, const char *name, unsigned flags)
{
    const struct winldr_load *load = winldr_load(s->process, name, flags);
    bool below = load->outcome == WINLDR_FAILED && load->blame != load->request;
    const struct winldr_request *blame = s->process->requests.items[load->blame];
    bool led = s->is_over || is_kept(s) ||
               (load->outcome == WINLDR_FAILED &&
                (blame->is_forwarded || blame->forwarder || is_forgotten(s, load)));
    s->loads[s->n_loads] = load->module;
    if (load->outcome == WINLDR_UNKNOWN) {
        print_result(s, NULL, 0, "unknown");
    } else {
        print_result(s, load->module, load->code, led ? "~" : below ? "*" : "");
    }
    s->n_loads++;
}

static void begin_world(struct state *s, struct root *root, const struct winldr_drive *drives,
                        size_t n_drives, int world)
{
    if (s->process) {
        winldr_files_close(&s->files);
        arena_release(&s->arena);
    }
    arena_init(&s->arena, 0, NULL, NULL);
    winldr_files_open(&s->files, root, &s->arena, drives, n_drives);
    s->process = winldr_process_new(&s->files, &s->arena, &s->config);
    s->n_loads = 0;
    s->is_over = false;
    s->world = world;
}

static void obey(struct state *s, const char *verb, const char *value, const char *more)
{
    struct winldr_process *p = s->process;
    unsigned number = (unsigned)strtoul(value, NULL, 0);
    if (strcmp(verb, "functions") == 0) { // 0: as if each imported one were there
        s->config.no_symbols = number == 0;
    } else if (strcmp(verb, "add") == 0) {
        (void)winldr_add_directory(p, value); // a relative path is refused, as it is there
    } else if (strcmp(verb, "remove") == 0) {
        winldr_remove_directory(p, value);
    } else if (strcmp(verb, "setdir") == 0) {
        winldr_set_directory(p, value);
    } else if (strcmp(verb, "unset") == 0) {
        winldr_set_directory(p, NULL);
    } else if (strcmp(verb, "default") == 0) {
        (void)winldr_set_default_flags(p, number);         // refused there as well
        s->config.default_flags = p->config.default_flags; // for the worlds that follow, too
    } else if (strcmp(verb, "path") == 0) {
        winldr_set_path(p, value);
    } else if (strcmp(verb, "cd") == 0) {
        winldr_set_cwd(p, value);
    } else if (strcmp(verb, "load") == 0 && more) {
        perform_load(s, more, number);
    } else if (strcmp(verb, "free") == 0 && (int)number < s->n_loads && s->loads[number]) {
        s->is_over |= has_circle(p);
        winldr_free(p, s->loads[number]);
        s->loads[number] = NULL;
    }
}

int main(int argc, char **argv)
{
    static char line[TEXT];
    struct winldr_drive drives[WINLDR_DRIVES_MAX];
    size_t n_drives = 0;
    struct gm_err err;
    struct root root = ROOT_EMPTY;
    FILE *script = argc > 4 ? fopen(argv[1], "rb") : NULL;
    if (!script || root_open(&root, "/", &err) < 0) {
        return 2;
    }
    struct state s = {0};
    s.config = (struct winldr_config){.exe = argv[3],
                                      .cwd = argv[2],
                                      .path = "",
                                      .no_dependent_flags = true,
                                      .init_fails = refuses};
    for (int i = 4; i < argc && n_drives < WINLDR_DRIVES_MAX; i++) {
        drives[n_drives++] = (struct winldr_drive){argv[i][0], argv[i] + 2};
    }
    begin_world(&s, &root, drives, n_drives, 0);
    while (fgets(line, sizeof line, script)) {
        line[strcspn(line, "\r\n")] = '\0';
        char *rest = line;
        char *verb = strsep(&rest, "\t"), *value = strsep(&rest, "\t"), *more = strsep(&rest, "\t");
        if (strcmp(verb, "world") == 0 && value) {
            begin_world(&s, &root, drives, n_drives, atoi(value));
        } else if (*verb) {
            obey(&s, verb, value ? value : "", more);
        }
    }
    (void)fclose(script);
    winldr_files_close(&s.files);
    arena_release(&s.arena);
    root_close(&root);
    return 0;
}
