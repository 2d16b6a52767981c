/* What was begun and has not ended: a repair of our own, or an installer that was killed. */
#include <errno.h>
#include <string.h>

#include "diag/internal.h"
#include "py/dist.h"
#include "py/module.h"
#include "py/owner.h"

enum { NAMED_MAX = 8 };

/* ------------------------------------------------------------------ the journal */

static void add_journal(struct diag *d, const struct model_journal *j, const char *options)
{
    const char *base = d->m->base ? d->m->base : "/";
    struct diag_finding *f =
        diag_add(d, DIAG_REPAIR_INTERRUPTED, j->folder, base,
                 arena_printf(d->a,
                              "A repair in %s was begun and has not ended (journal %lu): its "
                              "files are neither as they were nor as they should be.",
                              *options ? "the system" : base, (unsigned long)j->id));
    diag_evidence(d, f, "the journal is %s", j->folder);
    diag_repair(d, f, DIAG_REPAIR_FILE,
                model_command(d->m, "fix", arena_printf(d->a, "%s--undo", options)),
                "Undo what it did, then plan again. If a gpumend is still running there, wait "
                "until it ends.");
}

void diag_rule_journal(struct diag *d)
{
    if (d->m->unfinished.folder) {
        add_journal(d, &d->m->unfinished, "");
    }
    if (d->m->unfinished_system.folder) {
        add_journal(d, &d->m->unfinished_system, "--system ");
    }
}

/* ------------------------------------------------------------------ what RECORD lists */

static bool file_is_absent(struct diag *d, const char *path)
{
    struct stat st;
    int rc = root_lstat(d->m->root, path, &st);
    return rc == -ENOENT || rc == -ENOTDIR;
}

static const char *record_row_path(struct diag *d, const struct py_dist *dist, struct str row)
{
    const char *path = str_dup(d->a, row);
    return path_normal(d->a, path[0] == '/' ? path : path_join(d->a, dist->site, path));
}

/* The libraries that it lists beside and that are gone as well. */
static void name_absent(struct diag *d, struct diag_finding *f, const struct py_dist *dist,
                        const char *first)
{
    struct py_libraries list;
    size_t absent = 0;
    (void)py_dist_libraries(d->m->env, dist, &list); // empty without a RECORD
    for (size_t i = 0; i < list.rows.n; i++) {
        const char *path = record_row_path(d, dist, list.rows.items[i].path);
        bool counts = file_is_absent(d, path) && strcmp(path, first) != 0;
        absent += counts;
        if (counts && absent <= NAMED_MAX) {
            diag_evidence(d, f, "it also lists %s, which is missing too", path);
        }
    }
    if (absent > NAMED_MAX) {
        diag_evidence(d, f, "and %zu more of its libraries", absent - NAMED_MAX);
    }
}

static struct diag_finding *add_incomplete(struct diag *d, const struct py_dist *dist,
                                           const char *path, const char *how)
{
    struct diag_finding *f =
        diag_add(d, DIAG_PACKAGE_INCOMPLETE, dist->name_normal, dist->name_normal,
                 arena_printf(d->a, "%s %s is incomplete: it records %s, which is %s.",
                              dist->name_normal, dist->version ? dist->version : "", path, how));
    if (f->evidence.n == 0) {
        f->stage = DIAG_STAGE_START;
        name_absent(d, f, dist, path);
        diag_repair_reinstall(d, f, path);
    }
    diag_seen_where_imported(d, f, dist->name);
    return f;
}

bool diag_incomplete(struct diag *d, const struct diag_failure *x)
{
    struct py_env *env = d->m->env;
    const struct py_dist *dist =
        env && *x->name == '/' && file_is_absent(d, x->name) ? py_owner(env, x->name).dist : NULL;
    if (!dist) {
        return false;
    }
    struct diag_finding *f = add_incomplete(d, dist, x->name, "missing");
    f->severity = x->wish && f->scripts.n == 0 ? DIAG_WARNING : f->severity;
    diag_seen_in(d, f, x->process);
    diag_stops(d, f, x);
    return true;
}

/* The first file of a package that Python runs: without it the folder is a namespace, in which the
 * names that programs use are missing. */
static void rule_first_file(struct diag *d, const struct py_dist *dist, const struct kb_import *row)
{
    const char *top = arena_strndup(d->a, row->module, strcspn(row->module, "."));
    const char *path = path_join(d->a, dist->site, arena_printf(d->a, "%s/__init__.py", top));
    struct stat st;
    int rc = root_stat(d->m->root, path, &st);
    if (rc != -ENOENT && (rc < 0 || st.st_size > 0)) {
        return;
    }
    struct py_owned_file f = py_owner(d->m->env, path);
    bool was_empty = f.has_size && f.size_bytes == 0;
    struct py_module module;
    py_module_find(d->m->env, top, &module);
    bool elsewhere = module.kind != PY_MODULE_NAMESPACE && module.kind != PY_MODULE_NONE;
    if (f.dist == dist && (rc < 0 ? !elsewhere : f.has_size && !was_empty)) {
        (void)add_incomplete(d, dist, path, rc < 0 ? "missing" : "empty");
    }
}

/* Libraries whose links dangle, or of another size than recorded. */
struct changed {
    VEC(const char *) paths;
};

/* What lies on the disk is the same in every replay of the model, so that it is asked once. */
static const struct changed *changed_libraries(struct diag *d, const struct py_dist *dist)
{
    const char *key = arena_printf(d->a, "changed %s", dist->info);
    struct changed *known = ldso_store_recall(d->m->store, key);
    struct py_libraries list;
    if (known) {
        return known;
    }
    known = arena_alloc(d->a, sizeof *known);
    (void)py_dist_libraries(d->m->env, dist, &list); // empty without a RECORD
    for (size_t i = 0; i < list.rows.n; i++) {
        const struct py_record_row *row = &list.rows.items[i];
        const char *path = record_row_path(d, dist, row->path);
        struct stat st;
        int rc = root_stat(d->m->root, path, &st);
        bool dangles = rc == -ENOENT && !file_is_absent(d, path);
        bool differs = rc == 0 && row->has_size && row->size_bytes != (uint64_t)st.st_size;
        if (dangles || differs) {
            VEC_PUSH(d->a, &known->paths, path);
        }
    }
    ldso_store_remember(d->m->store, key, known);
    return known;
}

/* A library of a size that is not the recorded one may have been patched or stripped; only one that
 * no loader takes is damaged. */
static void rule_libraries(struct diag *d, const struct py_dist *dist)
{
    const struct changed *changed = changed_libraries(d, dist);
    for (size_t i = 0; i < changed->paths.n; i++) {
        diag_damaged_library(d, changed->paths.items[i]);
    }
}

/* ------------------------------------------------------------------ what an installer left */

/* pip renames what it is about to remove: "ctranslate2-4.5.0.dist-info" to "~translate2-...". */
static bool is_left_of(const char *info, const char *package)
{
    const char *name = path_base(info) + 1;
    for (const char *p = package + 1; *p; p++, name++) {
        if (*name != *p && !(*p == '-' && (*name == '_' || *name == '.'))) {
            return false;
        }
    }
    return *name == '-';
}

/* "4.5.0" of "~translate2-4.5.0.dist-info"; NULL if the name ends otherwise. */
static const char *info_version(struct diag *d, const char *info, const char *package)
{
    static const char end[] = ".dist-info";
    const char *from = path_base(info) + strlen(package) + 1;
    size_t n = strlen(from);
    bool it = ends_with(from, end) && n > sizeof end - 1;
    return it ? arena_strndup(d->a, from, n - (sizeof end - 1)) : NULL;
}

static void rule_left(struct diag *d, const char *info, const struct kb_import *row)
{
    struct py_module module;
    py_module_find(d->m->env, row->module, &module);
    if (module.kind != PY_MODULE_NONE && py_owner(d->m->env, module.file).dist) {
        return; // onnxruntime's module is onnxruntime-gpu's by now: nothing is missing
    }
    struct diag_finding *f =
        diag_add(d, DIAG_PACKAGE_INCOMPLETE, row->package, row->package,
                 arena_printf(d->a,
                              "pip was interrupted while it removed or replaced %s: %s is "
                              "left, "
                              "and %s is not installed.",
                              row->package, info, row->package));
    if (module.kind == PY_MODULE_NONE) {
        f->severity = DIAG_WARNING; // it may have been meant to go, or to be replaced
        d->unsure = true;
    } else {
        diag_evidence(d, f, "some of its files still exist: %s", module.file);
    }
    const char *version = info_version(d, info, row->package);
    const char *spec = version ? arena_printf(d->a, "%s==%s", row->package, version) : row->package;
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_pip(d, diag_quote(d, spec)),
                "Reinstall it, or remove what is left of it.");
}

/* Whether all of a package is there cannot be determined: nothing is called fine. */
static struct diag_finding *add_unsure(struct diag *d, const char *package, const char *says)
{
    struct diag_finding *f = diag_add(d, DIAG_PACKAGE_INCOMPLETE, package, package, says);
    f->severity = DIAG_WARNING;
    d->unsure = true;
    return f;
}

/* The new release was on its way, and what it consists of was not written down yet. */
static void rule_left_behind(struct diag *d, const char *info, const struct py_dist *dist)
{
    struct py_libraries list;
    if (py_dist_libraries(d->m->env, dist, &list)) {
        return; // its RECORD comes last, and says what is missing
    }
    struct diag_finding *f = add_unsure(
        d, dist->name_normal,
        arena_printf(d->a,
                     "pip was interrupted while it replaced %s: %s is left, and %s has no "
                     "RECORD: "
                     "gpumend cannot tell whether all its files exist.",
                     dist->name_normal, info, dist->info));
    const char *spec = dist->version
                           ? arena_printf(d->a, "%s==%s", dist->name_normal, dist->version)
                           : dist->name_normal;
    diag_repair(
        d, f, DIAG_REPAIR_PACKAGE,
        diag_pip(d, arena_printf(d->a, "--force-reinstall --no-deps %s", diag_quote(d, spec))),
        "Install it again.");
}

/* Every wheel has METADATA; without it the folder's name is all that says what is installed. */
static void rule_metadata(struct diag *d, const struct py_dist *dist)
{
    const char *path = dist->info && ends_with(dist->info, ".dist-info")
                           ? path_join(d->a, dist->info, "METADATA")
                           : NULL;
    struct stat st;
    int rc = path ? root_stat(d->m->root, path, &st) : 0;
    if (!path || (rc < 0 ? rc != -ENOENT : st.st_size > 0)) {
        return;
    }
    struct diag_finding *f = add_unsure(
        d, dist->name_normal,
        arena_printf(d->a,
                     "%s is %s, as an interrupted installer leaves it. gpumend cannot tell "
                     "whether all files of %s exist.",
                     path, rc < 0 ? "missing" : "empty", dist->name_normal));
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Remove %s, then reinstall the right release of %s.",
                dist->info, dist->name_normal);
}

/* ------------------------------------------------------------------ files without a package */

static bool module_is_installed(const struct diag *d, const char *module)
{
    for (size_t i = 0; i < d->m->imports.n; i++) {
        const struct kb_import *row = &d->m->imports.rows[i];
        if (strcmp(row->module, module) == 0 && py_env_by_dist(d->m->env, row->package)) {
            return true;
        }
    }
    return false;
}

/* The extension module that an import of the row's package loads, where it lies in site-packages
 * and no package lists it; or NULL. */
static const char *ownerless(struct diag *d, const struct kb_import *row)
{
    for (size_t i = 0; i < row->n_steps; i++) {
        struct py_module module = {.kind = PY_MODULE_NONE};
        if (row->steps[i].kind == KB_STEP_EXTENSION) {
            py_module_find(d->m->env, row->steps[i].module, &module);
        }
        if (module.kind == PY_MODULE_EXTENSION && module.entry->origin == PY_PATH_SITE &&
            !py_owner(d->m->env, module.file).dist) {
            return module.file;
        }
    }
    return NULL;
}

/* An installer removes and writes the metadata apart from the files. */
static void rule_ownerless(struct diag *d, const struct kb_import *row)
{
    const char *file = module_is_installed(d, row->module) ? NULL : ownerless(d, row);
    if (!file || diag_find(d, DIAG_PACKAGE_INCOMPLETE, row->package)) {
        return;
    }
    struct diag_finding *f =
        add_unsure(d, row->package,
                   arena_printf(d->a,
                                "%s exists, but no package of this environment lists it: gpumend "
                                "cannot tell which release of %s it is, or whether it is complete.",
                                file, row->module));
    diag_evidence(d, f, "an interrupted installer leaves files without their .dist-info");
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Reinstall the right release of %s, or remove its folder if nothing uses it.",
                row->module);
}

static void rule_all_left(struct diag *d)
{
    const struct py_env *env = d->m->env;
    for (size_t i = 0; i < env->n_left; i++) {
        for (size_t k = 0; k < d->m->imports.n; k++) {
            const struct kb_import *row = &d->m->imports.rows[k];
            const struct py_dist *dist = py_env_by_dist(d->m->env, row->package);
            if (!is_left_of(env->left[i], row->package)) {
                continue;
            }
            if (dist) {
                rule_left_behind(d, env->left[i], dist);
            } else {
                rule_left(d, env->left[i], row);
            }
            break;
        }
    }
}

void diag_rule_halves(struct diag *d)
{
    if (!d->m->env || d->m->pid) {
        return;
    }
    for (size_t i = 0; i < d->m->known.n; i++) {
        const struct py_dist *dist = d->m->known.items[i];
        const struct kb_import *row = diag_import_row(d, dist);
        if (row) {
            rule_first_file(d, dist, row);
        }
        rule_libraries(d, dist);
        rule_metadata(d, dist);
    }
    for (size_t i = 0; i < d->m->env->n_dists; i++) {
        const struct py_dist *dist = &d->m->env->dists[i];
        if (starts_with(dist->name_normal, "nvidia-") && !dist->shadowed_by) {
            rule_libraries(d, dist);
        }
    }
    rule_all_left(d);
    for (size_t i = 0; i < d->m->imports.n; i++) {
        rule_ownerless(d, &d->m->imports.rows[i]);
    }
}
