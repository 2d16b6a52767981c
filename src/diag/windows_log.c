#include "diag/windows_log.h"
#include "diag/windows_internal.h"

#include <string.h>

#include "base/str.h"
#include "winldr/frozen.h"
#include "winldr/path.h"
#include "winldr/syspath.h"
#include "winldr/words.h"

enum { SUBJECTS_MAX = 16, IMPORT_FLAGS = WINLDR_DEFAULT_DIRS | WINLDR_DLL_LOAD_DIR };

/* ------------------------------------------------------------------ the log */

/* What a line of a failed load says; the first code that is found counts. With 0, the line gives
 * the code, or no line does. Sources: CPython Modules/_ctypes and Lib/ctypes/__init__.py,
 * Python/dynload_win.c; torch/__init__.py; CTranslate2 src/cuda/cublas_stub.cc; onnxruntime
 * core/platform/windows/env.cc; PyInstaller's bootloader; FormatMessage() in English. */
static const struct {
    const char *words;
    unsigned code;
} failures[] = {
    {"specified module could not be found", WINLDR_MOD_NOT_FOUND},
    {"specified procedure could not be found", WINLDR_PROC_NOT_FOUND},
    {"not a valid Win32 application", WINLDR_BAD_EXE_FORMAT},
    {"initialization routine failed", WINLDR_DLL_INIT_FAILED},
    {"Could not find module", WINLDR_MOD_NOT_FOUND},
    {"[WinError ", 0},
    {"Error code ", 0},
    {"LoadLibrary failed with error ", 0},
    {"DLL load failed while importing ", 0},
    {"is not found or cannot be loaded", 0},
    {"or one of its dependencies", 0},
    {"Could not load library ", 0},
    {"Could not locate ", 0},
    {"load Python DLL", 0},
    {"loading Python DLL", 0},
};

static size_t find_nocase(struct str text, const char *words)
{
    struct str wanted = str_of(words);
    for (size_t i = 0; i + wanted.n <= text.n; i++) {
        if (str_eq_nocase((struct str){text.s + i, wanted.n}, wanted)) {
            return i;
        }
    }
    return text.n;
}

static unsigned number_behind(struct str text, const char *words)
{
    size_t at = find_nocase(text, words);
    unsigned number = 0;
    for (at += at < text.n ? strlen(words) : 0;
         at < text.n && str_is_digit(text.s[at]) && number < 10000; at++) {
        number = number * 10 + (unsigned)(text.s[at] - '0');
    }
    return number;
}

/* Whether the line is one of a failed load, and its code. */
static bool shows_failure(struct str text, unsigned *ret_code)
{
    bool shows = false;
    *ret_code = 0;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        if (find_nocase(text, failures[i].words) < text.n) {
            shows = true;
            unsigned code =
                failures[i].code ? failures[i].code : number_behind(text, failures[i].words);
            *ret_code = *ret_code ? *ret_code : code;
        }
    }
    return shows;
}

static bool is_in_name(char c)
{
    return str_is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
           (c && strchr("_-.+", c)) || (unsigned char)c >= 0x80;
}

/* Where ".dll" or ".pyd" ends that ends a word; 0: there is none. */
static size_t end_of_file_name(struct str text, size_t from)
{
    for (size_t i = from; i + 4 <= text.n; i++) {
        struct str four = {text.s + i, 4};
        bool ends = i + 4 == text.n || !is_in_name(text.s[i + 4]) || text.s[i + 4] == '.';
        if (ends && (str_eq_nocase(four, STR(".dll")) || str_eq_nocase(four, STR(".pyd")))) {
            return i + 4;
        }
    }
    return 0;
}

/* "C:\\x\\y.dll", with single or, as Python prints texts, doubled separators. */
static const char *path_in(struct arena *a, struct str text)
{
    for (size_t i = 0; i + 3 < text.n; i++) {
        bool drive = (text.s[i] | 0x20) >= 'a' && (text.s[i] | 0x20) <= 'z' &&
                     text.s[i + 1] == ':' && (text.s[i + 2] == '\\' || text.s[i + 2] == '/') &&
                     (i == 0 || !is_in_name(text.s[i - 1]));
        size_t end = drive ? end_of_file_name(text, i) : 0;
        struct str path = {text.s + i, end > i ? end - i : 0};
        if (path.n && str_find_char(path, '"') == path.n && str_find_char(path, '\'') == path.n) {
            return winldr_path_full(a, "C:\\", str_dup(a, path));
        }
    }
    return NULL;
}

static const char *name_in(struct arena *a, struct str text)
{
    size_t end = end_of_file_name(text, 0), begin = end;
    while (begin && is_in_name(text.s[begin - 1])) {
        begin--;
    }
    return end > begin + 4 ? str_dup(a, (struct str){text.s + begin, end - begin}) : NULL;
}

static const char *module_in(struct arena *a, struct str text)
{
    static const char words[] = "DLL load failed while importing ";
    size_t at = find_nocase(text, words), end;
    at += at < text.n ? sizeof words - 1 : 0;
    for (end = at; end < text.n && is_in_name(text.s[end]); end++) {
    }
    return end > at && at >= sizeof words - 1 ? str_dup(a, (struct str){text.s + at, end - at})
                                              : NULL;
}

static bool subject_is_listed(const diag_windows_subjects *list,
                              const struct diag_windows_subject *s)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct diag_windows_subject *o = &list->items[i];
        if (winldr_name_is(o->name, s->name) &&
            (!s->path || !o->path || winldr_name_is(o->path, s->path))) {
            return true;
        }
    }
    return false;
}

void diag_windows_read_log(struct arena *a, const struct log_result *log,
                           diag_windows_subjects *ret)
{
    uint64_t last = 0;
    for (size_t i = 0; i < log->n_facts && ret->n < SUBJECTS_MAX; i++) {
        const struct log_fact *f = log->facts[i];
        struct str text = str_of(f->text);
        struct diag_windows_subject s = {.line = f->line};
        if (f->line == last || !shows_failure(text, &s.code)) {
            continue;
        }
        last = f->line;
        const char *module = module_in(a, text);
        s.path = path_in(a, text);
        s.is_module = !s.path && module;
        s.name = s.path ? winldr_path_base(s.path) : module ? module : name_in(a, text);
        if (s.name && !subject_is_listed(ret, &s)) {
            VEC_PUSH(a, ret, s);
        }
    }
}

/* ------------------------------------------------------------------ the tree */

struct windows_ask {
    const struct diag_windows *n;
    const struct diag_windows_subject *s;
    diag_windows_answers *ret;
};

static const struct diag_windows_finding *finding_of(const struct diag_windows *n,
                                                     const char *cause)
{
    for (size_t i = 0; i < n->findings.n; i++) {
        const struct diag_windows_finding *f = &n->findings.items[i];
        if (strncmp(f->evidence, cause, strlen(cause)) == 0) {
            return f;
        }
    }
    return NULL;
}

/* Adds what became of a load. */
static void add_answer(struct windows_ask *q, const struct winldr_process *p,
                       const struct winldr_load *l, const char *how)
{
    struct arena *a = q->n->arena;
    struct diag_windows_answer answer = {.subject = q->s, .environment = q->n};
    if (winldr_is_loaded(l)) {
        answer.outcome = DIAG_WINDOWS_LOADS;
        answer.says =
            arena_printf(a, "%s loads %s, and all that it imports is found", how, l->module->path);
    } else if (l->outcome == WINLDR_UNKNOWN) {
        answer.outcome = DIAG_WINDOWS_UNKNOWN;
        answer.says = arena_printf(a, "%s: %s", how, winldr_load_cause(p, l));
    } else {
        const char *cause = winldr_load_cause(p, l);
        answer.outcome = DIAG_WINDOWS_FAILS;
        answer.code = (unsigned)l->code;
        answer.says =
            arena_printf(a, "%s fails: %s: %s", how, winldr_error_text(a, l->code), cause);
        answer.finding = finding_of(q->n, cause);
    }
    VEC_PUSH(a, q->ret, answer);
}

/* Whether the load of this name is that of the subject. */
static bool is_subject(const struct windows_ask *q, const char *path, const char *load)
{
    const char *base = winldr_path_base(load);
    size_t n = strlen(q->s->name);
    if (!q->s->is_module) {
        return path && winldr_name_is(load, path);
    }
    struct str head = {base, strlen(base) > n ? n : 0};
    return head.n && winldr_name_part_is(head, (struct str){q->s->name, n}) && base[n] == '.';
}

/* The load of the subject by the import of a package: the last one, as torch tries twice. */
static bool ask_import(struct windows_ask *q, const char *package, const char *path)
{
    for (size_t i = 0; i < q->n->processes.n; i++) {
        const struct diag_windows_process *d = &q->n->processes.items[i];
        if (strcmp(d->package, package) != 0) {
            continue;
        }
        for (size_t k = d->process->loads.n; k > 0; k--) {
            const struct winldr_load *l = &d->process->loads.items[k - 1];
            if (is_subject(q, path, l->name)) {
                add_answer(q, d->process, l, d->script);
                return true;
            }
        }
    }
    return false;
}

static bool is_file(const struct diag_windows *n, const char *path)
{
    return winldr_files_get(n->files, path)->kind == WINLDR_ENTRY_FILE;
}

/* The subject's file in the environment: by its path, or by what follows the folder of the
 * packages: site-packages, `_internal` of PyInstaller, `lib` of cx_Freeze. */
static const char *subject_file(const struct diag_windows *n, const struct diag_windows_subject *s)
{
    const char *words = "\\site-packages\\";
    if (winldr_path_is_below(s->path, n->py->folder)) {
        return is_file(n, s->path) ? s->path : NULL;
    }
    if (n->py->is_frozen && !winldr_name_is(n->py->site, n->py->folder)) {
        words = str_concat(n->arena, "\\", winldr_path_base(n->py->site), "\\");
    }
    size_t at = find_nocase(str_of(s->path), words), length = strlen(s->path);
    const char *path =
        at < length ? winldr_python_path(n->files, n->py, s->path + at + strlen(words)) : s->path;
    return is_file(n, path) ? path : NULL;
}

static void ask_path(struct windows_ask *q)
{
    const struct diag_windows *n = q->n;
    const char *path = subject_file(n, q->s);
    if (!path) {
        return;
    }
    for (size_t i = 0; i < n->py->n_places; i++) {
        const char *place = n->py->places[i];
        struct str rest = str_of(path);
        if (winldr_path_is_below(path, place)) {
            rest = (struct str){path + strlen(place) + 1, rest.n - strlen(place) - 1};
            if (ask_import(q, str_dup(n->arena, str_cut(&rest, '\\')), path)) {
                return;
            }
        }
    }
    struct winldr_process *p = winldr_python_start(n->files, n->py);
    const struct winldr_load *l = winldr_load(p, path, IMPORT_FLAGS);
    add_answer(q, p, l, "a load by its path");
}

static void ask_module(struct windows_ask *q)
{
    for (size_t i = 0; i < q->n->processes.n; i++) {
        if (ask_import(q, q->n->processes.items[i].package, NULL)) {
            return;
        }
    }
}

static struct winldr_process *import_all(const struct diag_windows *n, unsigned default_flags,
                                         const char *added_path)
{
    struct winldr_python py = diag_windows_with_path(n, added_path);
    struct winldr_process *p = winldr_python_start(n->files, &py);
    winldr_set_default_flags(p, default_flags);
    for (const char *const *name = winldr_packages; *name; name++) {
        if (winldr_has_package(n->files, &py, *name) &&
            !winldr_frozen_unseen(n->files, &py, *name)) {
            winldr_import_package(p, &py, *name);
        }
    }
    return p;
}

/* On what it depends whether a plain call finds the DLL; NULL: on nothing. */
static const char *condition_of(const struct diag_windows *n, const struct winldr_load *plain)
{
    const char *activated = diag_windows_activated_path(n), *name = plain->name;
    bool strictly =
        winldr_is_loaded(winldr_load(import_all(n, WINLDR_DEFAULT_DIRS, NULL), name, 0));
    if (plain->outcome != WINLDR_FAILED) {
        return strictly || !winldr_is_loaded(plain)
                   ? NULL
                   : ", unless the program calls SetDefaultDllDirectories()";
    }
    if (activated && winldr_is_loaded(winldr_load(import_all(n, 0, activated), name, 0))) {
        return " if the environment is activated (conda activate)";
    }
    return strictly ? " only if the program calls SetDefaultDllDirectories()" : NULL;
}

/* Answered by the check where it opens this DLL as the package does, otherwise by a plain call. */
static void ask_name(struct windows_ask *q)
{
    const struct diag_windows *n = q->n;
    struct arena *a = n->arena;
    for (size_t i = 0; i < n->findings.n; i++) {
        const struct diag_windows_finding *f = &n->findings.items[i];
        if (find_nocase(str_of(f->evidence), q->s->name) == 0) {
            VEC_PUSH(a, q->ret,
                     ((struct diag_windows_answer){q->s, n, DIAG_WINDOWS_FAILS, q->s->code,
                                                   arena_printf(a, "%s: %s", f->title, f->evidence),
                                                   f}));
            return;
        }
    }
    struct winldr_process *p = import_all(n, 0, NULL);
    const struct winldr_load *l = winldr_load(p, q->s->name, 0);
    const char *how = arena_printf(a, "a plain LoadLibrary(\"%s\") after the imports", q->s->name);
    const char *condition = condition_of(n, l);
    if (condition) {
        VEC_PUSH(a, q->ret,
                 ((struct diag_windows_answer){q->s, n, DIAG_WINDOWS_UNKNOWN, 0,
                                               str_concat(a, how, " finds it", condition), NULL}));
    } else {
        add_answer(q, p, l, how);
    }
}

/* The environment whose file the path is of, the innermost; NULL: of none. */
static const struct diag_windows *owner_of(const struct diag_windows *all, size_t n,
                                           const char *path)
{
    const struct diag_windows *found = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *folder = all[i].py->folder;
        if (winldr_path_is_below(path, folder) &&
            (!found || strlen(folder) > strlen(found->py->folder))) {
            found = &all[i];
        }
    }
    return found;
}

static void ask_environment(const struct diag_windows *all, size_t n_all,
                            const struct diag_windows *n, const diag_windows_subjects *subjects,
                            diag_windows_answers *ret)
{
    for (size_t i = 0; i < subjects->n; i++) {
        struct windows_ask q = {n, &subjects->items[i], ret};
        const struct diag_windows *owner = q.s->path ? owner_of(all, n_all, q.s->path) : NULL;
        owner = owner && is_file(n, q.s->path) ? owner : NULL;
        if (n->py->is_packaged && owner == n) {
            VEC_PUSH(
                n->arena, ret,
                ((struct diag_windows_answer){q.s, n, DIAG_WINDOWS_UNKNOWN, 0,
                                              "the file is of a packaged process, and no load of "
                                              "one is performed",
                                              NULL}));
        }
        if (n->py->is_packaged || (owner && owner != n)) {
            continue; // no process of another one loads it
        }
        void (*ask)(struct windows_ask *) = q.s->path        ? ask_path
                                            : q.s->is_module ? ask_module
                                                             : ask_name;
        ask(&q);
    }
}

void diag_windows_ask(const struct diag_windows *all, size_t n,
                      const diag_windows_subjects *subjects, diag_windows_answers *ret)
{
    for (size_t i = 0; i < n; i++) {
        ask_environment(all, n, &all[i], subjects, ret);
    }
}

void diag_windows_ask_rest(struct arena *a, const diag_windows_subjects *subjects,
                           diag_windows_answers *ret)
{
    for (size_t i = 0; i < subjects->n; i++) {
        const struct diag_windows_subject *s = &subjects->items[i];
        bool answered = false;
        for (size_t k = 0; k < ret->n; k++) {
            answered |= ret->items[k].subject == s;
        }
        if (!answered) {
            VEC_PUSH(a, ret,
                     ((struct diag_windows_answer){s, NULL, DIAG_WINDOWS_ABSENT, 0,
                                                   arena_printf(a, "no Python of this tree has %s",
                                                                s->path ? s->path : s->name),
                                                   NULL}));
        }
    }
}
