/* A process of Windows: how the loader finds each module, and what a load brings. */
#include <string.h>

#include "winldr/assembly.h"
#include "winldr/internal.h"
#include "winldr/path.h"
#include "winldr/process.h"
#include "winldr/search.h"

enum {
    MODULES_MAX = 20000,
    DEPTH_MAX = 256,
    FORWARDERS_MAX = 16,
};

struct search { // of one request, and of all that it imports
    struct winldr_list list;
    int load;
    unsigned depth;
    bool is_alone;                        // imports are not loaded
    const struct winldr_module *manifest; // whose manifest counts
    const char *assembly_unseen; // an assembly that may have the DLL of this request, or NULL
};

/* ------------------------------------------------------------------ one request */

static void request_add_step(struct winldr_process *p, struct winldr_request *r, const char *path,
                             enum winldr_via via, enum winldr_result result, const char *detail)
{
    VEC_PUSH(p->arena, &r->steps, (struct winldr_step){path, via, result, detail});
}

static void request_say_failed(struct winldr_request *r, enum winldr_code code, const char *path)
{
    r->outcome = WINLDR_FAILED;
    r->code = code;
    r->path = path;
}

static void say_unseen(struct winldr_request *r, const char *what)
{
    r->outcome = WINLDR_UNKNOWN;
    r->unseen = r->unseen ? r->unseen : what;
}

/* Something was found behind a place that was not seen. */
static void say_unsure(struct winldr_request *r)
{
    r->outcome = WINLDR_UNKNOWN;
    if (r->module) {
        r->module->unseen = r->unseen;
    }
}

static void say_module(struct winldr_request *r, enum winldr_outcome outcome,
                       struct winldr_module *m, enum winldr_via via)
{
    r->outcome = outcome;
    r->module = m;
    r->path = m->path;
    r->via = via;
}

/* "x" is "x.dll"; "x." is "x" (LoadLibrary(), "Remarks"). */
static const char *name_with_extension(struct winldr_process *p, const char *name)
{
    size_t n = strlen(name);
    while (n && name[n - 1] == ' ') {
        n--;
    }
    char *text = arena_strndup(p->arena, name, n);
    if (n && text[n - 1] == '.') {
        text[n - 1] = '\0';
        return text;
    }
    return strchr(winldr_path_base(text), '.') ? text : str_concat(p->arena, text, ".dll", "");
}

static void assume_module(struct winldr_process *p, struct winldr_request *r, const char *name,
                          enum winldr_via via, const char *detail)
{
    const char *path = winldr_path_join(p->arena, p->system32, name);
    struct winldr_module *m = winldr_find_module(p, name);
    request_add_step(p, r, path, via, WINLDR_STEP_ASSUMED, detail);
    if (m) {
        say_module(r, WINLDR_REUSED, m, via);
    } else {
        say_module(r, WINLDR_LOADED, winldr_add_module(p, path, NULL, r->load), via);
    }
}

static void load_imports(struct winldr_process *p, struct winldr_module *m, struct search *s,
                         struct winldr_request *r);

/* Takes a file that was found. False: the search goes on. */
static bool take_file(struct winldr_process *p, struct winldr_request *r, struct search *s,
                      const struct winldr_entry *e, enum winldr_via via)
{
    const struct pe_image *image = &e->file->image;
    struct winldr_module *same = winldr_module_of_file(p, e->file);
    if (same) {
        request_add_step(p, r, e->path, via, WINLDR_STEP_SAME_FILE, same->path);
        say_module(r, WINLDR_REUSED, same, via);
        return true;
    }
    if (p->config.machine == PE_MACHINE_AMD64 && pe_is_arm64x(image)) {
        request_add_step(p, r, e->path, via, WINLDR_STEP_ARM64X, "its part for x64 is not read");
        say_module(r, WINLDR_LOADED, winldr_add_module(p, e->path, NULL, r->load), via);
        return true;
    }
    if (image->state == PE_STATE_OK && image->machine != p->config.machine) {
        const char *machine = pe_machine_name(p->arena, image->machine);
        request_add_step(p, r, e->path, via, WINLDR_STEP_OTHER_MACHINE, machine);
        r->path = r->path ? r->path : e->path;
        return false;
    }
    if (image->state != PE_STATE_OK || image->cut) {
        request_add_step(p, r, e->path, via, WINLDR_STEP_NOT_PE,
                         image->defect ? image->defect
                         : image->cut  ? "it is cut off"
                                       : "it is not a PE file");
        request_say_failed(r, WINLDR_BAD_EXE_FORMAT, e->path);
        return true;
    }
    request_add_step(p, r, e->path, via, WINLDR_STEP_FOUND, NULL);
    struct winldr_module *m = winldr_add_module(p, e->path, e->file, r->load);
    say_module(r, WINLDR_LOADED, m, via);
    if (!s->is_alone) {
        load_imports(p, m, s, r);
    }
    return true;
}

/* Looks at one place. False: the search goes on. */
static bool try_place(struct winldr_process *p, struct winldr_request *r, struct search *s,
                      const char *path, enum winldr_via via)
{
    const struct winldr_entry *e = winldr_files_get(p->files, path);
    switch (e->kind) {
    case WINLDR_ENTRY_FILE: return take_file(p, r, s, e, via);
    case WINLDR_ENTRY_MISSING:
        if (via == WINLDR_VIA_SYSTEM32 && !p->system_seen) {
            request_add_step(p, r, path, via, WINLDR_STEP_UNSEEN, "System32 is not in the tree");
            r->unseen = r->unseen ? r->unseen : p->system32;
        } else if (via == WINLDR_VIA_APPLICATION && !p->exe_seen) {
            request_add_step(p, r, path, via, WINLDR_STEP_UNSEEN,
                             "the program is not in the tree, or cannot be read there");
            r->unseen = r->unseen ? r->unseen : p->config.exe;
        } else {
            request_add_step(p, r, path, via, WINLDR_STEP_MISSING, NULL);
        }
        return false;
    case WINLDR_ENTRY_UNSEEN:
        request_add_step(p, r, path, via, WINLDR_STEP_UNSEEN, e->detail);
        r->unseen = r->unseen ? r->unseen : path;
        return false;
    case WINLDR_ENTRY_FOLDER:
    case WINLDR_ENTRY_DENIED:
        request_add_step(p, r, path, via, WINLDR_STEP_DENIED,
                         e->kind == WINLDR_ENTRY_FOLDER ? "it is a folder" : e->detail);
        request_say_failed(r, WINLDR_ACCESS_DENIED, path);
        return true;
    }
    return false;
}

static void request_add_unseen_place(struct winldr_process *p, struct winldr_request *r,
                                     enum winldr_via via)
{
    bool is_path = via == WINLDR_VIA_ENVIRONMENT, is_package = via == WINLDR_VIA_PACKAGE;
    request_add_step(p, r, NULL, via, WINLDR_STEP_UNSEEN,
                     is_path      ? "PATH is not known"
                     : is_package ? "not all packages are in the tree"
                                  : "whether Windows takes a path of this form is not known");
    r->unseen = r->unseen    ? r->unseen
                : is_path    ? "PATH"
                : is_package ? "the package graph"
                             : "a folder that was added";
}

/* What the places of the list have; what was found behind an unseen place is not certain. */
static void search_places(struct winldr_process *p, struct winldr_request *r, struct search *s,
                          const char *name)
{
    if (winldr_path_kind(name) != WINLDR_PATH_RELATIVE) {
        const char *full = winldr_path_full(p->arena, p->config.cwd, name);
        if (try_place(p, r, s, full, WINLDR_VIA_PATH_GIVEN)) {
            return;
        }
    } else {
        for (size_t i = 0; i < s->list.places.n; i++) {
            const struct winldr_place *place = &s->list.places.items[i];
            if (!place->folder) {
                request_add_unseen_place(p, r, place->via);
                continue;
            }
            const char *joined = winldr_path_join(p->arena, place->folder, name);
            const char *full = winldr_path_full(p->arena, p->config.cwd, joined);
            if (place->is_quoted &&
                winldr_files_get(p->files, full)->kind != WINLDR_ENTRY_MISSING) {
                request_add_step(p, r, full, place->via, WINLDR_STEP_UNSEEN,
                                 "whether Windows drops the quotes in PATH is not known");
                r->unseen = r->unseen ? r->unseen : "a folder in quotes in PATH";
                continue;
            }
            if (try_place(p, r, s, full, place->via)) {
                if (r->unseen) {
                    say_unsure(r);
                }
                return;
            }
        }
    }
    if (r->unseen) {
        r->outcome = WINLDR_UNKNOWN;
    } else {
        request_say_failed(r, r->path ? WINLDR_BAD_EXE_FORMAT : WINLDR_MOD_NOT_FOUND, r->path);
    }
}

/* An assembly of the manifest that counts. False: it has no such DLL. */
static bool answer_by_assembly(struct winldr_process *p, struct winldr_request *r, struct search *s,
                               const char *name)
{
    const struct winldr_module *m = s->manifest ? s->manifest : p->modules.items[0];
    struct winldr_redirect to = winldr_assembly_find(p, m, name);
    if (!to.path) {
        s->assembly_unseen = to.unseen;
        return false;
    }
    if (to.doubt) {
        say_unseen(r, arena_printf(p->arena, "a manifest with %s", to.doubt));
        return true;
    }
    if (!try_place(p, r, s, to.path, WINLDR_VIA_ASSEMBLY)) {
        request_say_failed(r, r->path ? WINLDR_BAD_EXE_FORMAT : WINLDR_MOD_NOT_FOUND, r->path);
    }
    return true;
}

/* An API set, an assembly, a module that is loaded, a known DLL. False: files decide. */
static bool answer_before_files(struct winldr_process *p, struct winldr_request *r,
                                struct search *s, const char **name)
{
    if (pe_apiset_is_name(*name)) {
        const char *importer = r->importer ? r->importer->name : NULL;
        struct pe_apiset_answer set = {.state = PE_APISET_NONE};
        if (p->apiset) {
            set = pe_apiset_find(p->arena, p->apiset, *name, importer);
        } else if (strncmp(*name, "api-ms-win-", 11) == 0) {
            assume_module(p, r, *name, WINLDR_VIA_API_SET, "the schema is not in the tree");
            return true;
        }
        if (set.state == PE_APISET_HOST) {
            const char *path = winldr_path_join(p->arena, p->system32, set.host);
            (void)try_place(p, r, s, path, WINLDR_VIA_API_SET);
            if (r->steps.n && r->steps.items[r->steps.n - 1].result == WINLDR_STEP_MISSING) {
                request_say_failed(r, WINLDR_MOD_NOT_FOUND, NULL);
            }
            return true;
        }
        if (set.state == PE_APISET_NO_HOST) {
            request_say_failed(r, WINLDR_MOD_NOT_FOUND, NULL);
            return true;
        }
        if (set.state == PE_APISET_DAMAGED) {
            say_unseen(r, "the API-set schema");
            return true;
        }
    }
    s->assembly_unseen = NULL;
    if (answer_by_assembly(p, r, s, *name)) {
        return true;
    }
    struct winldr_module *loaded = winldr_find_module(p, *name);
    if (loaded) {
        request_add_step(p, r, loaded->path, WINLDR_VIA_LOADED, WINLDR_STEP_FOUND, NULL);
        say_module(r, WINLDR_REUSED, loaded, WINLDR_VIA_LOADED);
        if (loaded->unseen) {
            say_unseen(r, loaded->unseen);
        }
        return true;
    }
    if (winldr_is_known_dll(p, *name)) {
        const char *path = winldr_path_join(p->arena, p->system32, *name);
        if (!p->system_seen) {
            assume_module(p, r, *name, WINLDR_VIA_KNOWN_DLL, "System32 is not in the tree");
            return true;
        }
        return try_place(p, r, s, path, WINLDR_VIA_KNOWN_DLL);
    }
    if (p->is_known_cut) {
        say_unseen(r, "whether it is a known DLL: there are more than are read");
        return true;
    }
    return false;
}

/* Whether EXE.local counts is in the registry: where it would give another file, that decides. */
static void judge_local(struct winldr_process *p, struct winldr_request *r, const char *name)
{
    const char *path = winldr_local_file(p, name);
    bool settled = r->outcome == WINLDR_LOADED || r->outcome == WINLDR_REUSED;
    if (path && !winldr_is_known_dll(p, winldr_path_base(name)) &&
        !(settled && winldr_name_is(r->path, path))) {
        say_unseen(r, arena_printf(p->arena, "whether %s.local counts (DevOverrideEnable)",
                                   winldr_path_base(p->config.exe)));
        say_unsure(r);
    }
}

static struct winldr_request *make_request(struct winldr_process *p, const char *name,
                                           struct winldr_module *importer, struct search *s)
{
    struct winldr_request *r = arena_alloc(p->arena, sizeof *r);
    r->name = name;
    r->importer = importer;
    r->load = s->load;
    VEC_PUSH(p->arena, &p->requests, r);
    if (p->modules.n > MODULES_MAX || s->depth > DEPTH_MAX) {
        say_unseen(r, "more modules than are modelled");
        return r;
    }
    const char *file = name_with_extension(p, name);
    bool is_bare = !winldr_path_has_folder(file) && winldr_path_kind(file) == WINLDR_PATH_RELATIVE;
    if (winldr_path_kind(file) != WINLDR_PATH_VERBATIM && winldr_path_is_device(file)) {
        say_unseen(r, "a device, or a file with a name of one");
    } else if (!is_bare || !answer_before_files(p, r, s, &file)) {
        search_places(p, r, s, file);
        if (r->outcome == WINLDR_FAILED && r->code == WINLDR_MOD_NOT_FOUND && is_bare &&
            s->assembly_unseen) {
            say_unseen(r, s->assembly_unseen);
        }
    }
    judge_local(p, r, file);
    return r;
}

/* ------------------------------------------------------------------ imports */

/* The list for the imports of a module: that of the top request, unless the module has its own. */
static struct search search_for_imports(struct winldr_process *p, const struct winldr_module *m,
                                        const struct search *s)
{
    const unsigned bits = WINLDR_DLL_LOAD_DIR | WINLDR_APPLICATION_DIR | WINLDR_USER_DIRS |
                          WINLDR_SYSTEM32 | WINLDR_DEFAULT_DIRS;
    struct search below = {.list = s->list,
                           .load = s->load,
                           .depth = s->depth + 1,
                           .manifest = winldr_assembly_has(m) ? m : s->manifest};
    unsigned own = pe_dependent_load_flags(&m->file->image) & bits;
    if (own && !p->config.no_dependent_flags) {
        below.list = (struct winldr_list){0};
        winldr_search_flags(p, m->path, own, &below.list);
    }
    return below;
}

static bool request_is_settled(const struct winldr_request *r)
{
    return r->outcome == WINLDR_LOADED || r->outcome == WINLDR_REUSED;
}

static const char *symbol_text(struct winldr_process *p, const struct pe_symbol *symbol)
{
    return symbol->name ? symbol->name : arena_printf(p->arena, "#%u", symbol->ordinal);
}

/* What an export leads on to: "NTDLL.RtlAllocateHeap", "DLL.#12". */
struct forwarder {
    const char *dll;
    struct pe_symbol symbol;
};

static bool forwarder_read(struct winldr_process *p, const char *text, struct forwarder *ret)
{
    const char *dot = strrchr(text, '.');
    uint64_t ordinal = 0;
    if (!dot || dot == text) {
        return false;
    }
    const char *dll = str_dup(p->arena, (struct str){text, (size_t)(dot - text)});
    ret->dll = strchr(dll, '.') ? dll : str_concat(p->arena, dll, ".dll", "");
    ret->symbol = (struct pe_symbol){.name = dot + 1};
    if (dot[1] != '#') {
        return true;
    }
    bool good = str_u64(str_of(dot + 2), &ordinal) && ordinal <= UINT16_MAX;
    ret->symbol = (struct pe_symbol){.ordinal = (uint16_t)ordinal};
    return good;
}

/* The module that an export of the provider leads on to, loaded by its base name; the importer
 * holds it. NULL: it is not known, or its own request has failed. */
static struct winldr_module *load_forwarded(struct winldr_process *p, struct winldr_module *m,
                                            struct winldr_module *provider, const char *dll,
                                            struct search *s)
{
    bool is_set = pe_apiset_is_name(dll);
    struct winldr_module *loaded = is_set ? NULL : winldr_find_module(p, dll);
    if (loaded) {
        return loaded->unseen ? NULL : loaded;
    }
    struct winldr_request *r = make_request(p, dll, provider, s);
    r->is_forwarded = true;
    if (request_is_settled(r)) {
        VEC_PUSH(p->arena, &m->imports, r->module);
        return r->module;
    }
    if (is_set && r->outcome == WINLDR_FAILED) { // no document says how such an import ends
        r->code = WINLDR_OK;
        say_unseen(r, "what an API set without a DLL means for an export that leads on to it");
    }
    return NULL;
}

/* Follows an export from one DLL to the next, up to the one that has the function. */
static void follow_forwarder(struct winldr_process *p, struct winldr_module *m,
                             struct winldr_request *r, const char *text,
                             const struct pe_symbol *imported, struct search *s)
{
    struct winldr_module *provider = r->module;
    struct pe_export x = {PE_EXPORT_FORWARDED, text};
    for (unsigned n = 0; x.state == PE_EXPORT_FORWARDED; n++) {
        struct forwarder f;
        if (n == FORWARDERS_MAX || !forwarder_read(p, x.forwarder, &f)) {
            say_unseen(r, n == FORWARDERS_MAX
                              ? "exports that lead on to one another more often than is followed"
                              : "an export that leads on in a form that is not read");
            return;
        }
        provider = load_forwarded(p, m, provider, f.dll, s);
        if (!provider || !provider->file) {
            return;
        }
        text = x.forwarder;
        x = pe_export_find(&provider->file->image, &f.symbol);
    }
    if (x.state == PE_EXPORT_ABSENT) {
        request_say_failed(r, WINLDR_PROC_NOT_FOUND, provider->path);
        r->symbol = symbol_text(p, imported);
        r->forwarder = text;
    }
}

static bool is_served(const struct winldr_file *file, struct winldr_served wanted)
{
    for (size_t i = 0; i < file->served->items.n; i++) {
        const struct winldr_served *x = &file->served->items.items[i];
        if (x->import == wanted.import && x->by == wanted.by) {
            return true;
        }
    }
    return false;
}

/* Looks for the imported functions in the copy that was found; the first that it does not export is
 * 127. */
static void check_symbols(struct winldr_process *p, struct winldr_module *m,
                          const struct pe_import *import, struct winldr_request *r,
                          struct search *s)
{
    struct pe_symbols symbols;
    struct winldr_module *provider = r->module;
    struct winldr_served wanted = {(size_t)(import - m->file->imports.items), provider->file};
    bool is_whole = true;
    if (p->config.no_symbols || !provider->file || is_served(m->file, wanted)) {
        return;
    }
    pe_import_symbols(p->arena, &m->file->image, import, &symbols);
    for (size_t i = 0; i < symbols.n; i++) {
        const struct pe_symbol *symbol = &symbols.items[i];
        struct pe_export x = pe_export_find(&provider->file->image, symbol);
        is_whole = is_whole && x.state == PE_EXPORT_HERE;
        if (x.state == PE_EXPORT_FORWARDED) {
            follow_forwarder(p, m, r, x.forwarder, symbol, s);
        } else if (x.state == PE_EXPORT_ABSENT) {
            request_say_failed(r, WINLDR_PROC_NOT_FOUND, provider->path);
            r->symbol = symbol_text(p, symbol);
        }
        if (!request_is_settled(r)) {
            return;
        }
    }
    if (symbols.defect) {
        say_unseen(r, symbols.defect);
    } else if (is_whole) {
        VEC_PUSH(p->files->arena, &m->file->served->items, wanted);
    }
}

/* Loads what a module imports; what is wrong stays with the requests. */
static void load_imports(struct winldr_process *p, struct winldr_module *m, struct search *s,
                         struct winldr_request *r)
{
    struct search below = search_for_imports(p, m, s);
    if (m->file->imports.defect) {
        say_unseen(r, m->file->imports.defect);
    }
    for (size_t i = 0; i < m->file->imports.n; i++) {
        const struct pe_import *import = &m->file->imports.items[i];
        if (import->delayed || import->unused) {
            continue;
        }
        struct winldr_request *wanted = make_request(p, import->dll, m, &below);
        if (request_is_settled(wanted)) {
            VEC_PUSH(p->arena, &m->imports, wanted->module);
            check_symbols(p, m, import, wanted, &below);
        }
    }
}

/* ------------------------------------------------------------------ the start */

/* What the program imports is loaded first, by the classic list; what is wrong stays with the
 * requests of load -1. */
static void start_program(struct winldr_process *p, struct winldr_module *program)
{
    struct search s = {.load = -1};
    struct winldr_request *r = arena_alloc(p->arena, sizeof *r);
    *r = (struct winldr_request){.name = program->name, .load = -1};
    if (winldr_search_list(p, program->path, 0, &s.list)) {
        load_imports(p, program, &s, r);
    }
}

struct winldr_process *winldr_process_new(struct winldr_files *files, struct arena *arena,
                                          const struct winldr_config *config)
{
    struct winldr_process *p = arena_alloc(arena, sizeof *p);
    *p = (struct winldr_process){.files = files, .arena = arena, .config = *config};
    struct winldr_config *c = &p->config;
    c->windows = c->windows ? c->windows : "C:\\Windows";
    c->machine = c->machine ? c->machine : PE_MACHINE_AMD64;
    p->system32 = winldr_path_join(arena, c->windows, "System32");
    const char *kernel = winldr_path_join(arena, p->system32, "kernel32.dll");
    p->system_seen = winldr_files_get(files, kernel)->kind == WINLDR_ENTRY_FILE;
    if (p->system_seen) {
        winldr_open_apiset(p);
    }
    struct winldr_entry *exe = winldr_files_get(files, c->exe);
    p->exe_seen = exe->kind == WINLDR_ENTRY_FILE && exe->file->image.state == PE_STATE_OK;
    struct winldr_module *m = winldr_add_module(p, c->exe, p->exe_seen ? exe->file : NULL, -1);
    m->is_pinned = true;
    winldr_assembly_start(p);
    if (p->exe_seen) {
        start_program(p, m);
    }
    return p;
}

/* ------------------------------------------------------------------ one load */

/* Whether the start of one of the modules that this load brought says no. */
static bool init_fails(struct winldr_process *p, size_t first)
{
    for (size_t i = first; p->config.init_fails && i < p->modules.n; i++) {
        if (p->config.init_fails(p->modules.items[i], p->config.init_arg)) {
            return true;
        }
    }
    return false;
}

/* The request that decides: the first that failed, else the first that is unknown. */
static void load_judge(struct winldr_process *p, struct winldr_load *load)
{
    load->blame = load->request;
    load->outcome = p->requests.items[load->request]->outcome;
    load->code = p->requests.items[load->request]->code;
    for (size_t i = load->request; i < load->end; i++) {
        const struct winldr_request *r = p->requests.items[i];
        bool worse = r->outcome == WINLDR_FAILED
                         ? load->outcome != WINLDR_FAILED
                         : r->outcome == WINLDR_UNKNOWN && load->outcome != WINLDR_FAILED &&
                               load->outcome != WINLDR_UNKNOWN;
        if (worse) {
            load->blame = i;
            load->outcome = r->outcome;
            load->code = r->code;
        }
    }
}

bool winldr_is_loaded(const struct winldr_load *l)
{
    return l->outcome == WINLDR_LOADED || l->outcome == WINLDR_REUSED;
}

const struct winldr_load *winldr_load(struct winldr_process *p, const char *name, unsigned flags)
{
    struct search s = {.load = (int)p->loads.n, .is_alone = flags & WINLDR_DONT_RESOLVE};
    struct winldr_load load = {
        .name = arena_strdup(p->arena, name), .flags = flags, .request = p->requests.n};
    size_t first = p->modules.n;
    bool is_valid = winldr_search_list(p, name, flags, &s.list);
    if (is_valid && !(flags & ~(unsigned)WINLDR_FLAGS_MODELLED)) {
        load.module = make_request(p, load.name, NULL, &s)->module;
    } else {
        struct winldr_request *r = arena_alloc(p->arena, sizeof *r);
        *r = (struct winldr_request){.name = load.name, .load = s.load};
        if (is_valid) {
            say_unseen(r, "what these flags ask for, which is not modelled");
        } else {
            request_say_failed(r, WINLDR_INVALID_PARAMETER, NULL);
        }
        VEC_PUSH(p->arena, &p->requests, r);
    }
    load.end = p->requests.n;
    load_judge(p, &load);
    if (load.outcome == WINLDR_LOADED && !s.is_alone && init_fails(p, first)) {
        load.outcome = WINLDR_FAILED;
        load.code = WINLDR_DLL_INIT_FAILED;
    }
    if (load.outcome == WINLDR_FAILED) {
        load.module = NULL;
        winldr_sweep_modules(p); // what it brought goes with it
    } else if (load.module) {
        load.module->refs++;
    }
    VEC_PUSH(p->arena, &p->loads, load);
    return &p->loads.items[p->loads.n - 1];
}
