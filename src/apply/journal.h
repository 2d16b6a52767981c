/*
 * The journal of one repair: what is changed, written down before it is changed. This file is the
 * format alone; nothing here touches the file system (src/apply/work.h does).
 *
 * A journal is a folder (docs/mend.md):
 *
 *     log      records, one a line, appended and synced one by one
 *     old/N    what change N replaced or removed: the same inode (a hard link), else a copy
 *     scan/N   for packages: every path of the environment before (N.before) and after (N.after)
 *     farm/N/  for packages: every file of the environment before
 *
 * A record is `HASH KIND key=value...`. Values have every byte outside the printable ASCII range,
 * and blank and `%`, as %XX. HASH is FNV-1a over the line and the hash of the line before, so that
 * a record that was lost, moved or damaged is seen. Only the last record may be torn, since each
 * one is synced before the next is written; it is dropped, for what it announces did not begin.
 *
 * Kinds, in the order in which they come:
 *
 *     begin    version=1 id= what= title= base= at=      (at: seconds since 1970)
 *     folder   path= sig=                  a folder before the first change in it
 *     stage    n= path= tmp= old= [link=]  change n begins; the new thing is made at `tmp`
 *     commit   n= new= [link=] kept=       it is made, the old is kept; next: rename to `path`
 *     packages n= entries= hash=           scan and farm are kept; next: the installer runs
 *     packages-done n= entries= hash=      it has ended, and `N.after` says what it left
 *     left     path= sig=                  a folder as this repair left it
 *     applied                              all of it is done
 *     verified how=                        the repair was tried: "verified", or why it could not be
 *     theirs   path=                       a folder that others changed since: its times stay
 *     undo                                 taking back has begun
 *
 * A signature is `-` (nothing there) or
 * `TYPE:MODE:UID:GID:SIZE:INODE:MTIME_S.MTIME_NS:ATIME_S.ATIME_NS`, TYPE one of f d l o.
 */
#ifndef GPUMEND_APPLY_JOURNAL_H
#define GPUMEND_APPLY_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    APPLY_JOURNAL_BYTES_MAX = 16 << 20,
    APPLY_JOURNAL_SCAN_BYTES_MAX = 512 << 20,
    APPLY_JOURNAL_RECORDS_MAX = 200000,
};

/* Everything about a file that taking back has to restore, but for content and attributes. */
struct apply_journal_sig {
    char type;   // 'f', 'd', 'l', 'o' (anything else), '-' (nothing there)
    mode_t mode; // without the type
    uid_t uid;
    gid_t gid;
    uint64_t size, inode;
    struct timespec mtime, atime;
    const char *link; // target of a symbolic link, else NULL
};

enum apply_journal_kept { APPLY_KEPT_NONE, APPLY_KEPT_LINK, APPLY_KEPT_COPY };

struct apply_journal_change {
    unsigned n;
    const char *path; // below the base
    /* One file, link or folder: */
    const char *tmp;
    struct apply_journal_sig before, after;
    bool committed; // else `after` and `kept` are not known, and nothing stands at `path` yet
    enum apply_journal_kept kept;
    /* Packages: */
    bool packages, packages_done;
    uint64_t entries_before, entries_after, hash_before, hash_after;
};

struct apply_journal_folder {
    const char *path; // "." is the base
    struct apply_journal_sig before, left;
    bool has_left, theirs;
};

struct apply_journal {
    unsigned id;
    const char *what, *title, *base; // base as it was called then; only for showing
    uint64_t at_s;
    VEC(struct apply_journal_change) changes;
    VEC(struct apply_journal_folder) folders;
    bool begun, applied, undoing;
    const char *verified; // NULL: not tried
    bool torn;            // the last record was not whole and is not counted
    size_t valid_bytes;   // of the log
    uint64_t chain;       // hash of the last whole record
};

/* What a user sees of it. */
enum apply_journal_state {
    APPLY_JOURNAL_APPLIED,
    APPLY_JOURNAL_INTERRUPTED,
    APPLY_JOURNAL_UNDOING
};
enum apply_journal_state apply_journal_state(const struct apply_journal *j);
const char *apply_journal_state_name(enum apply_journal_state state); // "applied", ...

/*
 * Reads the log. GM_ERR_FORMAT, with the line: it is damaged, or says what gpumend never writes (a
 * path that leaves the base above all); nothing may be done with such a journal. An empty log is
 * no error: `begun` is false then. Strings are in the arena.
 */
int apply_journal_parse(struct arena *a, struct str log, struct apply_journal *ret,
                        struct gm_err *err) GM_CHECK;

/* A record with its hash and line end, in the arena. `fields` is NAME, VALUE, ..., NULL; a NULL
 * value leaves the field out. *chain is the hash of the record before and becomes this one's. */
struct str apply_journal_record(struct arena *a, uint64_t *chain, const char *kind,
                                const char *const *fields);

struct apply_journal_sig apply_journal_sig_of(const struct stat *st, const char *link);
char *apply_journal_sig_text(struct arena *a, const struct apply_journal_sig *sig);
bool apply_journal_sig_parse(struct arena *a, struct str text, struct apply_journal_sig *ret);

/* Whether it is still the same thing: type, mode, owner, and for files size and time of change,
 * for links the target. Of a folder nothing more, since its times change with its content. */
bool apply_journal_sig_same(const struct apply_journal_sig *a, const struct apply_journal_sig *b);
bool apply_journal_same_mtime(const struct apply_journal_sig *a, const struct apply_journal_sig *b);

/* Every path below a folder with its signature; sorted by path, a folder before its content. */
struct apply_journal_entry {
    const char *path;
    struct apply_journal_sig sig;
};
struct apply_journal_scan {
    VEC(struct apply_journal_entry) entries;
};

struct str apply_journal_scan_text(struct arena *a, const struct apply_journal_scan *scan);
/* GM_ERR_FORMAT as above, or the hash or the number of entries is not the one of the record. */
int apply_journal_scan_parse(struct arena *a, struct str text, uint64_t entries, uint64_t hash,
                             struct apply_journal_scan *ret, struct gm_err *err) GM_CHECK;
const struct apply_journal_entry *apply_journal_scan_find(const struct apply_journal_scan *scan,
                                                          const char *path);

#endif
