/*
 * The document of a snapshot: target, start, running process, facts; files are those of
 * decode_files.c.
 */
#include <string.h>
#include <zstd.h>

#include "base/json.h"
#include "snapshot/decoder.h"

/*
 * A document may come from anywhere. Bounded here: its size, the number of its values, the bytes
 * that its content unpacks to, the size of a file it speaks of. Everything is checked before it is
 * believed: paths are absolute and without links, ranges lie inside the content and their file.
 */
enum {
    DOCUMENT_BYTES_MAX = 128 << 20,
    VALUES_MAX = 8 << 20,
};

/* ------------------------------------------------------------------ the rest */

static bool decoder_read_target(struct decoder *d, const json_t *o)
{
    struct snapshot *s = d->s;
    s->redacted = json_is_true(json_object_get(o, "redacted"));
    return snapshot_decode_text(d, json_object_get(o, "kind"), &s->kind) &&
           snapshot_decode_text(d, json_object_get(o, "path"), &s->path) &&
           snapshot_decode_text(d, json_object_get(o, "root"), &s->root) &&
           snapshot_decode_text(d, json_object_get(o, "imports"), &s->imports) &&
           snapshot_decode_text(d, json_object_get(o, "made"), &s->made) && s->kind;
}

static bool are_variables(const snapshot_texts *env)
{
    for (size_t i = 0; i < env->n; i++) {
        if (!strchr(env->items[i], '=')) {
            return false;
        }
    }
    return true;
}

static bool read_start(struct decoder *d, const json_t *o)
{
    struct snapshot *s = d->s;
    json_int_t uid, minor = 0;
    if (!snapshot_texts_of(d, json_object_get(o, "env"), &s->env) || !are_variables(&s->env) ||
        !snapshot_decode_text(d, json_object_get(o, "cwd"), &s->cwd) || !s->cwd ||
        s->cwd[0] != '/' || !snapshot_integer_in(o, "uid", 0, UINT32_MAX, &uid)) {
        return false;
    }
    if (!json_is_null(json_object_get(o, "glibc_minor")) &&
        !snapshot_integer_in(o, "glibc_minor", 1, 999, &minor)) {
        return false;
    }
    s->uid = (uid_t)uid;
    s->glibc_minor = (int)minor;
    return true;
}

static bool read_mappings(struct decoder *d, const json_t *list, struct model_live *live)
{
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        struct model_mapping m = {.deleted = json_is_true(json_object_get(item, "deleted"))};
        if (!snapshot_decode_text(d, json_object_get(item, "path"), &m.path) || !m.path ||
            m.path[0] != '/') {
            return false;
        }
        VEC_PUSH(d->arena, &live->mappings, m);
    }
    return true;
}

/* Older documents have none. */
static bool read_children(struct decoder *d, const json_t *list, struct model_live *live)
{
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        struct model_child c = {0};
        snapshot_texts modules = {0};
        json_int_t pid;
        if (n > MODEL_CHILDREN_MAX || !snapshot_integer_in(item, "pid", 1, 4194304, &pid) ||
            !snapshot_decode_text(d, json_object_get(item, "name"), &c.name) ||
            !snapshot_decode_text(d, json_object_get(item, "exe"), &c.exe) ||
            !snapshot_decode_text(d, json_object_get(item, "driver"), &c.driver) ||
            !snapshot_texts_of(d, json_object_get(item, "modules"), &modules)) {
            return false;
        }
        c.pid = (int)pid;
        c.alike = json_is_true(json_object_get(item, "alike")); // older documents do not say it
        for (size_t k = 0; k < modules.n; k++) {
            VEC_PUSH(d->arena, &c.modules, modules.items[k]);
        }
        VEC_PUSH(d->arena, &live->children, c);
    }
    return true;
}

static bool read_live(struct decoder *d, const json_t *o, int pid)
{
    struct model_live *live = arena_alloc(d->arena, sizeof *live);
    snapshot_texts env = {0}, late = {0};
    if (!snapshot_decode_text(d, json_object_get(o, "exe"), &live->exe) || !live->exe ||
        live->exe[0] != '/' || !snapshot_decode_text(d, json_object_get(o, "cwd"), &live->cwd) ||
        !live->cwd || live->cwd[0] != '/' ||
        !snapshot_texts_of(d, json_object_get(o, "env"), &env) || !are_variables(&env) ||
        !snapshot_texts_of(d, json_object_get(o, "late_folders"), &late) ||
        !read_mappings(d, json_object_get(o, "mappings"), live) ||
        !read_children(d, json_object_get(o, "children"), live)) {
        return false;
    }
    const json_t *id = json_object_get(o, "container_id");
    if (id && (!snapshot_decode_text(d, id, &live->container_id) ||
               !snapshot_decode_text(d, json_object_get(o, "container_engine"),
                                     &live->container_engine) ||
               !live->container_id || !live->container_engine)) {
        return false;
    }
    const json_t *argv0 = json_object_get(o, "argv0");
    if (argv0 && !snapshot_decode_text(d, argv0, &live->argv0)) {
        return false;
    }
    live->pid = pid;
    for (size_t i = 0; i < live->mappings.n && !live->driver; i++) {
        live->driver = model_driver_of(live->mappings.items[i].path);
    }
    for (size_t i = 0; i < env.n; i++) {
        VEC_PUSH(d->arena, &live->env, env.items[i]);
    }
    for (size_t i = 0; i < late.n; i++) {
        VEC_PUSH(d->arena, &live->late_folders, late.items[i]);
    }
    d->s->live = live;
    return true;
}

static bool read_facts(struct decoder *d, const json_t *o, const json_t *target)
{
    const json_t *cpu = json_object_get(o, "cpu"), *live = json_object_get(o, "process");
    json_int_t machine, level, pid = 0, page = 0;
    const json_t *page_size = json_object_get(cpu, "page_size");
    struct ldso_cpu *c = &d->s->cpu;
    if (!snapshot_integer_in(cpu, "machine", 0, UINT16_MAX, &machine) ||
        !snapshot_integer_in(cpu, "level", 0, 4, &level) ||
        !snapshot_decode_text(d, json_object_get(cpu, "platform"), &c->platform) || !c->platform ||
        strchr(c->platform, '/') || strlen(c->platform) > 64 ||
        !snapshot_decode_text(d, json_object_get(cpu, "why"), &c->why)) {
        return false;
    }
    if (page_size && !json_is_null(page_size) &&
        (!snapshot_integer_in(cpu, "page_size", 4096, 65536, &page) || (page & (page - 1)))) {
        return false;
    }
    c->page_size = (uint32_t)page;
    c->machine = (uint16_t)machine;
    c->level = (int)level;
    c->why = !ldso_cpu_is_unknown(c) ? NULL : c->why ? c->why : "the snapshot does not hold it";
    c->avx512_1 = json_is_true(json_object_get(cpu, "avx512_1"));
    if (!live || json_is_null(live)) {
        return true;
    }
    return snapshot_integer_in(target, "pid", 1, 4194304, &pid) && read_live(d, live, (int)pid);
}

static int decoder_read_document(struct decoder *d, const json_t *doc)
{
    const char *kind;
    json_int_t schema;
    if (!snapshot_decode_text(d, json_object_get(doc, "kind"), &kind) || !kind ||
        strcmp(kind, "snapshot") != 0) {
        return snapshot_decoder_bad(d, "the document", "it is not a snapshot");
    }
    if (!snapshot_integer_in(doc, "schema", 1, 1, &schema)) {
        return gm_err_set(d->err, GM_ERR_UNSUPPORTED,
                          "its schema is not 1: another gpumend made it");
    }
    const json_t *target = json_object_get(doc, "target");
    if (!snapshot_decode_text(d, json_object_get(doc, "gpumend"), &d->s->gpumend) ||
        !decoder_read_target(d, target)) {
        return snapshot_decoder_bad(d, "target", "what is said of it makes no sense");
    }
    if (!read_start(d, json_object_get(doc, "start"))) {
        return snapshot_decoder_bad(d, "start", "what is said of it makes no sense");
    }
    if (!read_facts(d, json_object_get(doc, "host_facts"), target)) {
        return snapshot_decoder_bad(d, "host_facts", "what is said of it makes no sense");
    }
    int rc = snapshot_read_content(d, json_object_get(doc, "content"));
    return rc < 0 ? rc : snapshot_read_files(d, json_object_get(doc, "files"));
}

/* In words of our own: jansson's quote the text, and the file may be one that the caller is not to
 * know, behind a link where a snapshot was expected. */
static const char *json_problem(const json_error_t *why)
{
    enum json_error_code code = json_error_code(why);
    return code == json_error_duplicate_key            ? "an object has a name twice"
           : code == json_error_premature_end_of_input ? "the JSON document ends too early"
           : code == json_error_stack_overflow         ? "it is nested too deeply"
                                                       : "it is not a JSON document";
}

int snapshot_decode(struct snapshot *ret, struct arena *a, const char *text, size_t n,
                    struct gm_err *err)
{
    return snapshot_decode_with(ret, a, (struct str){text, n}, (struct str){0}, err);
}

int snapshot_decode_with(struct snapshot *ret, struct arena *a, struct str text, struct str content,
                         struct gm_err *err)
{
    json_error_t why;
    if (text.n > DOCUMENT_BYTES_MAX || json_text_exceeds(text, VALUES_MAX)) {
        return gm_err_set(err, GM_ERR_LIMIT, "it is too large to be a snapshot");
    }
    json_t *doc = json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!doc) {
        return gm_err_set(err, GM_ERR_FORMAT, "line %d: %s", why.line, json_problem(&why));
    }
    *ret = (struct snapshot){.arena = a};
    snap_init(&ret->files, a);
    struct decoder d = {.s = ret, .arena = a, .err = err, .given = content};
    int rc = decoder_read_document(&d, doc);
    json_decref(doc);
    return rc;
}
