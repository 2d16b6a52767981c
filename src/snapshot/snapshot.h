/*
 * A snapshot: all that a check asked of a machine, as one value. Checked again, here or on another
 * machine, it gives the same findings.
 *
 *   snapshot_take()        runs a check that is recorded
 *   snapshot_redact()      takes names and serial numbers out of it
 *   snapshot_encode()      the document (docs/json.md, docs/json/snapshot.schema.json)
 *   snapshot_write_tree()  the same as files, for `check --root`
 *   snapshot_decode()      a document, which may be hostile, to a value
 *   snapshot_options()     what to open it with (model_target_open)
 *
 * Of environments only variables of a list are kept (snapshot_keeps_variable()). Texts that change
 * from one moment to the next or speak of other people are kept in part: see facts.c.
 *
 * All lives in the arena that is given.
 */
#ifndef GPUMEND_SNAPSHOT_SNAPSHOT_H
#define GPUMEND_SNAPSHOT_SNAPSHOT_H

#include <jansson.h>

#include "base/snap.h"
#include "model/target.h"

/* `kind` of a Windows tree's (docs/windows.md), which model_target_open() does not read. */
#define SNAPSHOT_WINDOWS "windows"

typedef VEC(const char *) snapshot_texts;

struct snapshot {
    struct arena *arena;
    struct snap files;
    /* The target. */
    const char *kind, *path, *root, *imports; // of model_target_options; path, root, imports may be
                                              // NULL
    const char *made;                         // "2026-05-01T12:00:00Z"
    const char *gpumend;                      // version that made it
    bool redacted;
    /* The start. */
    snapshot_texts env;
    const char *cwd;
    uid_t uid;
    int glibc_minor;         // that was stated, or 0
    struct ldso_cpu cpu;     // machine 0: none was stated, and none is found yet
    uint32_t page_size;      // bytes, that was stated; or 0
    struct model_live *live; // NULL without a pid
};

/* Fills `s` from what is asked for: filters the environment, makes `files` ready to
 * record. */
int snapshot_begin(struct snapshot *s, struct arena *a, const struct model_target_options *asked,
                   struct gm_err *err) GM_CHECK;

/* What model_target_open() is to be called with, to record or to replay. */
struct model_target_options snapshot_options(struct snapshot *s, bool record);

/* Keeps the processor that the target was judged by. While the check that is recorded is open. */
void snapshot_keep_cpu(struct snapshot *s, struct model_target *t);

/* Whether a variable of an environment, "NAME=VALUE" or "NAME", is kept. */
bool snapshot_keeps_variable(const char *entry);

/* How snap_edit is filled for a recording. */
struct snap_edit snapshot_edit(void);

json_t *snapshot_encode(struct snapshot *s, struct gm_err *err);

/* A document of n bytes. GM_ERR_FORMAT, GM_ERR_LIMIT, GM_ERR_UNSUPPORTED (another schema). */
int snapshot_decode(struct snapshot *ret, struct arena *a, const char *text, size_t n,
                    struct gm_err *err) GM_CHECK;

/* The same for a document whose content was kept elsewhere, and whose chunks are passed over.
 * `content` lives as long as `a`; its s is NULL: the document has it. */
int snapshot_decode_with(struct snapshot *ret, struct arena *a, struct str text, struct str content,
                         struct gm_err *err) GM_CHECK;

/* Where names that are to be taken out come from. Empty texts are passed over. */
struct snapshot_names {
    snapshot_texts users, hosts;
    snapshot_texts homes; // folders; for single texts
};

/* Adds the names that a root and an environment ("K=V") know: of the user `uid`, the home, the
 * machine. GM_ERR_LIMIT: a file of names is too large to be read, GM_ERR_LOOK: it cannot be read; a
 * name may be missing then. */
int snapshot_add_names(struct arena *a, uid_t uid, const char *const *env, size_t n_env,
                       struct root *r, struct snapshot_names *ret, struct gm_err *err) GM_CHECK;

/* The names that a root and the snapshot's environment know. Fails as snapshot_add_names() does. */
int snapshot_find_names(const struct snapshot *s, struct root *r, struct snapshot_names *ret,
                        struct gm_err *err) GM_CHECK;

/* Replaces names, GPU UUIDs and serial numbers by placeholders of the same length. */
void snapshot_redact(struct snapshot *s, const struct snapshot_names *names);

/* The same for texts that are printed one at a time: homes become "~", names and UUIDs placeholders
 * that stay the same from one text to the next, secrets are hidden. The names must outlive it. */
struct snapshot_redactor;
struct snapshot_redactor *snapshot_redactor_new(struct arena *a,
                                                const struct snapshot_names *names);
const char *snapshot_redact_text(struct snapshot_redactor *r, const char *text);

/* Hides what a text shows to be a secret: the user of a URL, the value behind a name such as
 * TOKEN=, and words that begin as the tokens of well-known services do. */
const char *snapshot_hide_secrets(struct arena *a, const char *text);

/* Writes the files below `dir`, which must be empty or not exist. GM_ERR_LOOK. */
int snapshot_write_tree(const struct snapshot *s, const char *dir, struct gm_err *err) GM_CHECK;

#endif
