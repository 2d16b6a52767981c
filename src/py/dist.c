#include "py/dist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "py/internal.h"
#include "py/requirement.h"

enum {
    SITE_NAMES_MAX = 20000,
    METADATA_FIRST_BYTES = 16 << 10,
    METADATA_BYTES_MAX = 1 << 20,
    SMALL_FILE_BYTES_MAX = 64 << 10,
};

struct py_dist_details {
    bool metadata_read, install_read;
    struct py_metadata *metadata; // NULL if it could not be read
    struct py_dist_install install;
};

static bool keep_info(const char *name, void *arg)
{
    (void)arg;
    return ends_with(name, ".dist-info") || ends_with(name, ".egg-info");
}

static bool keep_json(const char *name, void *arg)
{
    (void)arg;
    return ends_with(name, ".json");
}

/*
 * "NAME-VERSION.dist-info" and "NAME-VERSION-py3.11.egg-info". '-' in a name is written '_'
 * (binary distribution format, "Escaping and Unicode"), but old tools did not: if what follows the
 * first '-' is no version, the last '-' that a version follows is taken.
 */
static void split_name(struct arena *a, struct str stem, struct py_dist *d)
{
    struct py_version version;
    struct str name = {NULL, 0}, text = {NULL, 0};
    for (size_t i = 0; i < stem.n; i++) {
        struct str rest = {stem.s + i + 1, stem.n - i - 1};
        if (stem.s[i] != '-') {
            continue;
        }
        struct str head = {rest.s, str_find_char(rest, '-')};
        if (py_version_parse(head, &version)) {
            name = (struct str){stem.s, i}, text = head;
            break;
        }
    }
    if (!name.s) {
        name = (struct str){stem.s, str_find_char(stem, '-')};
        if (name.n + 1 < stem.n) {
            text = (struct str){stem.s + name.n + 1, stem.n - name.n - 1};
        }
    }
    d->name = str_dup(a, name);
    d->name_normal = py_name_normal(a, name);
    d->version = text.n ? str_dup(a, text) : NULL;
}

/* By name; of equal names the earlier on sys.path first. */
static int dists_by_name(const void *x, const void *y)
{
    const struct py_dist *a = *(struct py_dist *const *)x, *b = *(struct py_dist *const *)y;
    int c = strcmp(a->name_normal, b->name_normal);
    return c ? c : (a > b) - (a < b);
}

/* What an uninstaller leaves of a release whose folder holds a file that RECORD does not list. */
static bool is_husk(const struct py_env *env, const struct py_dist *d)
{
    struct stat st;
    return ends_with(d->info, ".dist-info") &&
           root_stat(env->root, path_join(env->arena, d->info, "METADATA"), &st) == -ENOENT;
}

/* Marks every distribution whose name an earlier one has; of two in one folder, one without
 * METADATA is none. */
static void mark_shadowed(struct py_env *env)
{
    struct py_dist **sorted = arena_array(env->arena, env->n_dists + 1, sizeof *sorted);
    for (size_t i = 0; i < env->n_dists; i++) {
        sorted[i] = &env->dists[i];
    }
    qsort(sorted, env->n_dists, sizeof *sorted, dists_by_name);
    for (size_t i = 1; i < env->n_dists; i++) {
        struct py_dist *d = sorted[i], *before = sorted[i - 1];
        if (strcmp(d->name_normal, before->name_normal) != 0) {
            continue;
        }
        if (!before->shadowed_by && strcmp(d->site, before->site) == 0 && is_husk(env, before) &&
            !is_husk(env, d)) {
            before->shadowed_by = d;
        } else {
            d->shadowed_by = before->shadowed_by ? before->shadowed_by : before;
        }
        bool differ = d->version && before->version && strcmp(d->version, before->version) != 0;
        if (differ && strcmp(d->site, before->site) == 0) {
            py_note(env, "%s is recorded twice in %s: %s and %s", d->name_normal, d->site,
                    path_base(before->info), path_base(d->info));
        }
    }
}

struct lister {
    struct py_env *env;
    VEC(struct py_dist) dists;
    VEC(const char *) left;
};

static bool list_is_full(struct lister *l)
{
    if (l->dists.n < PY_DISTS_MAX) {
        return false;
    }
    py_note(l->env, "more than %d distributions; the rest is not listed", PY_DISTS_MAX);
    l->env->cut = true;
    return true;
}

/* Of PEP 440 or conda's; old ones follow neither to the letter. */
static bool is_version_text(struct str s)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.!+_-";
    bool is_plain = s.n > 0 && s.s[0] != '-';
    for (size_t i = 0; i < s.n; i++) {
        is_plain &= s.s[i] && strchr(plain, s.s[i]);
    }
    return is_plain;
}

/* Names and versions become words of commands: what is none is not taken for a distribution, as pip
 * does not ("Ignoring invalid distribution"). */
static void add_dist(struct lister *l, struct py_dist d)
{
    if (!py_name_valid(str_of(d.name))) {
        py_note(l->env, "%s is not a distribution: its name is not valid", d.info);
        return;
    }
    d.version = d.version && is_version_text(str_of(d.version)) ? d.version : NULL;
    VEC_PUSH(l->env->arena, &l->dists, d);
}

static void list_site(struct lister *l, const char *site)
{
    struct py_env *env = l->env;
    struct root_dir names;
    int rc = root_list(env->root, env->arena, site, SITE_NAMES_MAX,
                       &(struct root_filter){.keep = keep_info}, &names);
    if (rc == -EACCES) {
        py_note_denied(env, site);
        return;
    }
    if (rc < 0) {
        py_note(env, "%s: %s", site, py_why(rc));
        return;
    }
    if (names.truncated) {
        py_note(env, "%s: more than %d distributions; the rest is not listed", site,
                SITE_NAMES_MAX);
        env->cut = true;
    }
    for (size_t i = 0; i < names.n && !list_is_full(l); i++) {
        struct str stem = str_of(names.names[i]);
        struct py_dist d = {.kind = str_ends(stem, ".dist-info") ? PY_DIST_INFO : PY_DIST_EGG,
                            .site = site,
                            .info = path_join(env->arena, site, names.names[i])};
        stem.n = strrchr(stem.s, '.') - stem.s;
        if (stem.n && stem.s[0] == '~') { // pip renames what it is about to remove
            py_note(env, "%s was left over by an interrupted pip", d.info);
            VEC_PUSH(env->arena, &l->left, d.info);
            continue;
        }
        split_name(env->arena, stem, &d);
        add_dist(l, d);
    }
}

/* conda-meta/NAME-VERSION-BUILD.json */
static void list_conda(struct lister *l)
{
    struct py_env *env = l->env;
    char *meta = path_join(env->arena, env->prefix, "conda-meta");
    struct root_dir names;
    int rc = root_list(env->root, env->arena, meta, SITE_NAMES_MAX,
                       &(struct root_filter){.keep = keep_json}, &names);
    if (rc < 0) {
        py_note(env, "%s: %s", meta, py_why(rc));
        return;
    }
    if (names.truncated) {
        py_note(env, "%s: more than %d distributions; the rest is not listed", meta,
                SITE_NAMES_MAX);
        env->cut = true;
    }
    for (size_t i = 0; i < names.n && !list_is_full(l); i++) {
        char *stem =
            arena_strndup(env->arena, names.names[i], strlen(names.names[i]) - strlen(".json"));
        char *build = strrchr(stem, '-');
        char *version = build ? memrchr(stem, '-', (size_t)(build - stem)) : NULL;
        if (!version || version == stem) {
            continue; // conda's own "history" and the like
        }
        struct str name = {stem, (size_t)(version - stem)};
        struct py_dist d = {
            .name = str_dup(env->arena, name),
            .name_normal = py_name_normal(env->arena, name),
            .version = arena_strndup(env->arena, version + 1, (size_t)(build - version - 1)),
            .kind = PY_DIST_CONDA,
            .site = env->prefix,
            .info = path_join(env->arena, meta, names.names[i])};
        add_dist(l, d);
    }
}

void py_dists_list(struct py_env *env)
{
    struct lister l = {.env = env};
    for (size_t i = 0; i < env->n_paths; i++) {
        if (env->paths[i].is_dir) {
            list_site(&l, env->paths[i].dir);
        }
    }
    if (env->kind == PY_ENV_CONDA) {
        list_conda(&l);
    }
    env->dists = l.dists.items, env->n_dists = l.dists.n;
    env->left = l.left.items, env->n_left = l.left.n;
    for (size_t i = 0; i < env->n_dists; i++) {
        struct py_dist *d = &env->dists[i];
        if (d->version) {
            continue;
        }
        const struct py_metadata *m = py_dist_metadata(env, d); // the name does not tell
        if (m && is_version_text(m->version)) {
            d->version = str_dup(env->arena, m->version);
        }
    }
    mark_shadowed(env);
}

struct py_dist *py_env_by_dist(struct py_env *env, const char *name)
{
    const char *normal = py_name_normal(env->arena, str_of(name));
    for (size_t i = 0; i < env->n_dists; i++) {
        if (!env->dists[i].shadowed_by && strcmp(env->dists[i].name_normal, normal) == 0) {
            return &env->dists[i];
        }
    }
    return NULL;
}

static struct py_dist_details *details_of(struct py_env *env, struct py_dist *dist)
{
    if (!dist->details) {
        dist->details = arena_alloc(env->arena, sizeof *dist->details);
    }
    return dist->details;
}

/* Reads the header block: a first piece, and more while its end has not been seen. */
static int read_header_block(struct py_env *env, const char *path, struct str *ret)
{
    for (size_t want = METADATA_FIRST_BYTES; want <= METADATA_BYTES_MAX; want *= 4) {
        struct str text;
        bool all = false;
        int rc = py_read_head(env, path, want, &text, &all);
        if (rc < 0) {
            return rc;
        }
        size_t block = py_header_block(text);
        if (block || all) {
            *ret = (struct str){text.s, block ? block : text.n};
            return 0;
        }
    }
    return -EFBIG;
}

/* Where a distribution's metadata may stand: in its folder, or the egg-info file itself. */
static int read_metadata(struct py_env *env, const struct py_dist *dist, struct str *ret)
{
    const char *name = dist->kind == PY_DIST_INFO ? "METADATA" : "PKG-INFO";
    int rc = read_header_block(env, path_join(env->arena, dist->info, name), ret);
    if (rc == -ENOTDIR && dist->kind == PY_DIST_EGG) {
        rc = read_header_block(env, dist->info, ret);
    }
    return rc;
}

const struct py_metadata *py_dist_metadata(struct py_env *env, struct py_dist *dist)
{
    struct py_dist_details *details = details_of(env, dist);
    if (details->metadata_read || dist->kind == PY_DIST_CONDA) {
        return details->metadata;
    }
    details->metadata_read = true;
    struct str text;
    int rc = read_metadata(env, dist, &text);
    if (rc < 0) {
        py_note(env, "%s: metadata: %s", dist->info, py_why(rc));
        env->cut |= rc == -EFBIG;
        return NULL;
    }
    details->metadata = arena_alloc(env->arena, sizeof *details->metadata);
    py_metadata_parse(env->arena, text, details->metadata);
    if (details->metadata->truncated) {
        py_note(env, "%s: more than %d requirements; the rest is not looked at", dist->info,
                PY_REQUIRES_MAX);
        env->cut = true;
    }
    return details->metadata;
}

bool py_conda_is_forge(struct str head)
{
    static const char key[] = "\"channel\"";
    size_t at = str_find(head, key);
    struct str rest = {head.s + at, head.n - at};
    struct str value = at < head.n ? str_cut(&rest, ',') : (struct str){"", 0};
    return str_find(value, "/conda-forge/") < value.n ||
           str_find(value, "\"conda-forge\"") < value.n;
}

bool py_dist_is_conda_forge(struct py_env *env, const struct py_dist *dist)
{
    struct str head;
    return dist->kind == PY_DIST_CONDA &&
           py_read_head(env, dist->info, PY_CONDA_HEAD_BYTES_MAX, &head, NULL) == 0 &&
           py_conda_is_forge(head);
}

/* A small file beside METADATA; false if it is absent (no note) or cannot be read (a note). */
static bool read_beside(struct py_env *env, const struct py_dist *dist, const char *name,
                        struct str *ret, bool *ret_unreadable)
{
    char *path = path_join(env->arena, dist->info, name);
    int rc = root_read(env->root, env->arena, path, SMALL_FILE_BYTES_MAX, ret);
    *ret_unreadable = rc < 0 && rc != -ENOENT && rc != -ENOTDIR;
    if (*ret_unreadable) {
        py_note(env, "%s: %s", path, py_why(rc));
    }
    return rc == 0;
}

static void read_direct_url(struct py_env *env, const struct py_dist *dist,
                            struct py_dist_install *install)
{
    struct str text;
    struct gm_err err = {0};
    struct py_direct_url direct = {0};
    bool unreadable = false;
    if (!read_beside(env, dist, "direct_url.json", &text, &unreadable)) {
        install->editable = unreadable ? PY_UNKNOWN : PY_NO;
        return;
    }
    if (py_direct_url_parse(env->arena, text, &direct, &err) < 0) {
        py_note(env, "%s: %s", dist->info, err.text);
        install->editable = PY_UNKNOWN;
        return;
    }
    install->direct_url = direct.url;
    install->editable = direct.editable;
    install->editable_dir = direct.editable == PY_YES ? direct.path : NULL;
}

const struct py_dist_install *py_dist_install(struct py_env *env, struct py_dist *dist)
{
    struct py_dist_details *details = details_of(env, dist);
    if (details->install_read) {
        return &details->install;
    }
    details->install_read = true;
    struct py_dist_install *install = &details->install;
    struct str text;
    bool unreadable = false;
    install->wheel.purelib = PY_UNKNOWN;
    if (dist->kind == PY_DIST_CONDA) {
        install->installer = "conda";
        return install;
    }
    if (read_beside(env, dist, "WHEEL", &text, &unreadable)) {
        py_wheel_parse(env->arena, text, &install->wheel);
    }
    if (read_beside(env, dist, "INSTALLER", &text, &unreadable)) {
        struct str first = str_trim(str_cut(&text, '\n'));
        install->installer = first.n ? str_dup(env->arena, first) : NULL;
    }
    read_direct_url(env, dist, install);
    return install;
}
