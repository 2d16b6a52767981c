/* The start environment, and a process that lives. */
#include <string.h>

#include "diag/internal.h"

/* ------------------------------------------------------------------ LD_LIBRARY_PATH */

/* What is wrong with one element, and what stands for it in a clean path. */
struct element {
    const char *what;  // "an empty element, ..."; NULL: in order
    const char *meant; // absolute folder, or NULL: leave it out
    bool harmless;     // a folder that is not there
};

static bool has_token(const char *text)
{
    static const char *const tokens[] = {"$ORIGIN", "${ORIGIN}", "$LIB",
                                         "${LIB}",  "$PLATFORM", "${PLATFORM}"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        if (starts_with(text, tokens[i])) {
            return true;
        }
    }
    return false;
}

static struct element judge_element(struct diag *d, const char *text)
{
    const char *home = diag_getenv(d, "HOME");
    if (!*text) {
        return (struct element){"an empty element, which means the working directory", NULL, false};
    }
    if (*text == '~') {
        bool own = home && (text[1] == '/' || !text[1]);
        return (struct element){arena_printf(d->a, "%s, and the loader does not expand '~'", text),
                                own ? arena_printf(d->a, "%s%s", home, text + 1) : NULL, false};
    }
    if (*text == '$' && !has_token(text)) {
        return (struct element){
            arena_printf(d->a, "%s, a variable that the loader does not know", text), NULL, false};
    }
    if (*text != '/' && *text != '$') {
        return (struct element){
            arena_printf(d->a, "%s, which is relative to the working directory", text),
            path_normal(d->a, model_absolute(d->m, text)), false};
    }
    if (*text == '/' && !strchr(text, '$') && !model_is_folder(d->m, text) &&
        !model_denied_at(d->m, text)) {
        return (struct element){arena_printf(d->a, "%s, which is not a folder", text), NULL, true};
    }
    return (struct element){NULL, text, false};
}

/* One finding for the variable: its elements are mended together. */
static void rule_library_path(struct diag *d)
{
    const char *text = diag_getenv(d, "LD_LIBRARY_PATH"), *clean = "", *first = NULL;
    VEC(const char *) wrong = {0};
    bool harmless = true;
    for (const char *s = text; s && *text; s++) {
        size_t n = strcspn(s, ":;");
        struct element e = judge_element(d, arena_strndup(d->a, s, n));
        if (e.what) {
            VEC_PUSH(d->a, &wrong, e.what);
            first = first && !(harmless && !e.harmless) ? first : e.what;
            harmless = harmless && e.harmless;
        }
        if (e.meant) {
            clean = arena_printf(d->a, "%s%s%s", clean, *clean ? ":" : "", e.meant);
        }
        s += n;
        if (!*s) {
            break;
        }
    }
    if (!first) {
        return;
    }
    struct diag_finding *f = diag_add(d, DIAG_LIBRARY_PATH_ELEMENT, text, "LD_LIBRARY_PATH",
                                      arena_printf(d->a, "LD_LIBRARY_PATH has %s.", first));
    f->severity = harmless ? DIAG_NOTE : DIAG_WARNING;
    diag_evidence(d, f, "LD_LIBRARY_PATH=%s", text);
    for (size_t i = 0; i < wrong.n; i++) {
        if (strcmp(wrong.items[i], first) != 0) {
            diag_evidence(d, f, "it also has %s", wrong.items[i]);
        }
    }
    diag_repair(d, f, DIAG_REPAIR_ENV, diag_path_command(d, clean),
                "Use absolute paths of existing folders, and no stray colon.");
}

/* ------------------------------------------------------------------ secure execution, preload */

static const char *unsecure_command(struct diag *d, const char *why, const char *path)
{
    const char *how = strstr(why, "set-user-ID")    ? "chmod u-s"
                      : strstr(why, "set-group-ID") ? "chmod g-s"
                                                    : "setcap -r";
    return arena_printf(d->a, "%s %s", how, diag_quote(d, path));
}

static void rule_secure(struct diag *d, const struct model_process *p)
{
    const char *variable = diag_getenv(d, "LD_LIBRARY_PATH") ? "LD_LIBRARY_PATH"
                           : diag_getenv(d, "LD_PRELOAD")    ? "LD_PRELOAD"
                                                             : NULL;
    if (!p->ldso || !p->ldso->secure || !variable) {
        return;
    }
    const char *real = model_real_path(d->m, p->ldso->main->path);
    const char *path = real ? real : p->ldso->main->path;
    struct diag_finding *f =
        diag_add(d, DIAG_SECURE_EXECUTION, path, path_base(path),
                 arena_printf(d->a, "%s is %s.", variable, p->ldso->secure_why));
    diag_evidence(d, f, "the program is %s", path);
    diag_repair(d, f, DIAG_REPAIR_FILE, unsecure_command(d, p->ldso->secure_why, path),
                "Start it without these rights, or make the libraries known to all programs "
                "(a file in /etc/ld.so.conf.d, then ldconfig).");
}

static void rule_preload(struct diag *d, const struct model_process *p)
{
    const char *variable = diag_getenv(d, "LD_PRELOAD");
    for (size_t i = 0; p->ldso && i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        if (r->kind != LDSO_PRELOAD || r->outcome == LDSO_LOADED || r->outcome == LDSO_REUSED) {
            continue;
        }
        const char *where =
            variable && strstr(variable, r->name) ? "LD_PRELOAD" : "/etc/ld.so.preload";
        struct diag_finding *f = diag_add(
            d, DIAG_PRELOAD_IGNORED, r->name, r->name,
            arena_printf(d->a, "%s in %s cannot be loaded and is ignored.", r->name, where));
        diag_evidence(d, f, "the loader says: %s", r->glibc_says);
        if (r->really) {
            diag_evidence(d, f, "%s", r->really);
        }
        diag_repair(d, f, DIAG_REPAIR_ENV, NULL, "Correct the path in %s, or remove it.", where);
    }
}

void diag_rule_environment(struct diag *d)
{
    rule_library_path(d);
    for (size_t i = 0; i < d->m->processes.n; i++) {
        rule_secure(d, d->m->processes.items[i]);
        rule_preload(d, d->m->processes.items[i]);
    }
}

/* ------------------------------------------------------------------ a live process */

void diag_rule_live(struct diag *d)
{
    for (size_t i = 0; i < d->m->mappings.n; i++) {
        const struct model_mapping *x = &d->m->mappings.items[i];
        if (x->deleted) {
            struct diag_finding *f = diag_add(
                d, DIAG_MAPPED_FILE_DELETED, "deleted", path_base(x->path),
                arena_printf(d->a, "Process %d uses %s, whose file was replaced or removed since.",
                             d->m->pid, x->path));
            diag_likewise(d, f, path_base(x->path));
            diag_evidence(d, f, "mapped and deleted: %s", x->path);
            diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Start the program again.");
        }
    }
    for (size_t i = 0; i < d->m->late_folders.n; i++) {
        const char *dir = d->m->late_folders.items[i];
        struct diag_finding *f =
            diag_add(d, DIAG_FOLDER_CREATED_LATE, dir, dir,
                     arena_printf(d->a,
                                  "%s was created after process %d had started; the loader "
                                  "no longer searches it.",
                                  dir, d->m->pid));
        diag_evidence(d, f, "LD_LIBRARY_PATH=%s", diag_getenv(d, "LD_LIBRARY_PATH"));
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Start the program again.");
    }
}
