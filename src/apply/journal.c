#include "apply/journal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_DIGITS = 16, FIELDS_MAX = 10, NAME_BYTES_MAX = 255, PATH_BYTES_MAX = 16 << 10 };

static const char own_name[] = ".gpumend";

/* ------------------------------------------------------------------ values */

static char *encoded(struct arena *a, const char *s)
{
    static const char digits[] = "0123456789abcdef";
    char *out = arena_alloc(a, strlen(s) * 3 + 1), *p = out;
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c > ' ' && c < 0x7f && c != '%') {
            *p++ = *s;
        } else {
            *p++ = '%';
            *p++ = digits[c >> 4];
            *p++ = digits[c & 15];
        }
    }
    return out;
}

/* NULL if it is not what encoded() writes. */
static char *decoded(struct arena *a, struct str s)
{
    char *out = arena_alloc(a, s.n + 1), *p = out;
    for (size_t i = 0; i < s.n; i++) {
        if (s.s[i] != '%') {
            *p++ = s.s[i];
            continue;
        }
        int high = s.n - i > 2 ? str_hex_digit_small(s.s[i + 1]) : -1;
        int low = s.n - i > 2 ? str_hex_digit_small(s.s[i + 2]) : -1;
        if (high < 0 || low < 0 || (high == 0 && low == 0)) {
            return NULL;
        }
        *p++ = (char)(high << 4 | low);
        i += 2;
    }
    return out;
}

static bool hex_u64(struct str s, uint64_t *ret)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        int digit = str_hex_digit_small(s.s[i]);
        if (digit < 0) {
            return false;
        }
        v = v << 4 | (unsigned)digit;
    }
    *ret = v;
    return s.n == HASH_DIGITS;
}

static uint64_t chained(uint64_t before, struct str line)
{
    uint64_t parts[2] = {before, str_hash(line.s, line.n)};
    return str_hash(parts, sizeof parts);
}

struct str apply_journal_record(struct arena *a, uint64_t *chain, const char *kind,
                                const char *const *fields)
{
    const char *text = kind;
    for (; fields && *fields; fields += 2) {
        if (fields[1]) {
            text = arena_printf(a, "%s %s=%s", text, fields[0], encoded(a, fields[1]));
        }
    }
    *chain = chained(*chain, str_of(text));
    return str_of(arena_printf(a, "%016" PRIx64 " %s\n", *chain, text));
}

/* ------------------------------------------------------------------ signatures */

struct apply_journal_sig apply_journal_sig_of(const struct stat *st, const char *link)
{
    char type = S_ISREG(st->st_mode)   ? 'f'
                : S_ISDIR(st->st_mode) ? 'd'
                : S_ISLNK(st->st_mode) ? 'l'
                                       : 'o';
    return (struct apply_journal_sig){
        .type = type,
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .size = (uint64_t)st->st_size,
        .inode = st->st_ino,
        .mtime = st->st_mtim,
        .atime = st->st_atim,
        .link = type == 'l' ? link : NULL,
    };
}

char *apply_journal_sig_text(struct arena *a, const struct apply_journal_sig *s)
{
    if (s->type == '-') {
        return arena_strdup(a, "-");
    }
    return arena_printf(a, "%c:%o:%u:%u:%" PRIu64 ":%" PRIu64 ":%lld.%09ld:%lld.%09ld", s->type,
                        s->mode, s->uid, s->gid, s->size, s->inode, (long long)s->mtime.tv_sec,
                        s->mtime.tv_nsec, (long long)s->atime.tv_sec, s->atime.tv_nsec);
}

static bool parse_octal(struct str s, mode_t *ret)
{
    unsigned v = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.s[i] < '0' || s.s[i] > '7') {
            return false;
        }
        v = v << 3 | (unsigned)(s.s[i] - '0');
    }
    *ret = v;
    return s.n > 0 && s.n <= 4;
}

static bool parse_id(struct str s, unsigned *ret)
{
    uint64_t v;
    if (!str_u64(s, &v) || v > UINT32_MAX) {
        return false;
    }
    *ret = (unsigned)v;
    return true;
}

/* "SECONDS.NANOSECONDS"; files from before 1970 exist. */
static bool parse_time(struct str s, struct timespec *ret)
{
    bool negative = str_starts(s, "-");
    if (negative) {
        s = (struct str){s.s + 1, s.n - 1};
    }
    struct str seconds = str_cut(&s, '.');
    uint64_t sec, nsec;
    if (!s.s || s.n != 9 || !str_u64(seconds, &sec) || !str_u64(s, &nsec) || nsec > 999999999 ||
        sec > INT64_MAX / 2) {
        return false;
    }
    ret->tv_sec = negative ? -(time_t)sec : (time_t)sec;
    ret->tv_nsec = (long)nsec;
    return true;
}

bool apply_journal_sig_parse(struct arena *a, struct str text, struct apply_journal_sig *ret)
{
    (void)a; // a signature holds no text of its own
    *ret = (struct apply_journal_sig){.type = '-'};
    if (str_is(text, "-")) {
        return true;
    }
    struct str type = str_cut(&text, ':'), mode = str_cut(&text, ':'), uid = str_cut(&text, ':');
    struct str gid = str_cut(&text, ':'), size = str_cut(&text, ':'), ino = str_cut(&text, ':');
    struct str mtime = str_cut(&text, ':');
    if (type.n != 1 || !memchr("fdlo", type.s[0], 4) || !text.s) {
        return false;
    }
    ret->type = type.s[0];
    return parse_octal(mode, &ret->mode) && parse_id(uid, &ret->uid) && parse_id(gid, &ret->gid) &&
           str_u64(size, &ret->size) && str_u64(ino, &ret->inode) &&
           parse_time(mtime, &ret->mtime) && parse_time(text, &ret->atime);
}

bool apply_journal_same_mtime(const struct apply_journal_sig *a, const struct apply_journal_sig *b)
{
    return a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec;
}

bool apply_journal_sig_same(const struct apply_journal_sig *a, const struct apply_journal_sig *b)
{
    if (a->type != b->type || a->type == '-') {
        return a->type == b->type;
    }
    if (a->uid != b->uid || a->gid != b->gid) {
        return false;
    }
    switch (a->type) {
    case 'l': return a->link && b->link && strcmp(a->link, b->link) == 0;
    case 'f': return a->mode == b->mode && a->size == b->size && apply_journal_same_mtime(a, b);
    default: return a->mode == b->mode;
    }
}

/* ------------------------------------------------------------------ records in */

/* One record on its way in: its fields, and the journal it is added to. */
struct record {
    struct arena *a;
    struct str names[FIELDS_MAX], values[FIELDS_MAX];
    size_t n;
};

static const char *field(const struct record *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++) {
        if (str_is(r->names[i], name)) {
            return decoded(r->a, r->values[i]);
        }
    }
    return NULL;
}

static bool field_u64(const struct record *r, const char *name, uint64_t *ret)
{
    return str_u64(str_of(field(r, name)), ret);
}

static bool field_hash(const struct record *r, const char *name, uint64_t *ret)
{
    return hex_u64(str_of(field(r, name)), ret);
}

static bool field_sig(const struct record *r, const char *name, struct apply_journal_sig *ret)
{
    const char *text = field(r, name);
    if (!text || !apply_journal_sig_parse(r->a, str_of(text), ret)) {
        return false;
    }
    if (ret->type == 'l') {
        ret->link = field(r, "link");
    }
    return ret->type != 'l' || ret->link;
}

/* A path that stays below the base and out of our own folder. */
static bool path_is_inside(const char *path)
{
    size_t n = strlen(path);
    if (n == 0 || n > PATH_BYTES_MAX || path[0] == '/' || path[n - 1] == '/') {
        return false;
    }
    struct str rest = str_of(path);
    if (str_is(rest, own_name) || starts_with(path, ".gpumend/")) {
        return false;
    }
    while (rest.s) {
        struct str part = str_cut(&rest, '/');
        if (part.n == 0 || part.n > NAME_BYTES_MAX || str_is(part, ".") || str_is(part, "..")) {
            return false;
        }
    }
    return true;
}

static const char *field_path(const struct record *r, const char *name)
{
    const char *path = field(r, name);
    return path && path_is_inside(path) ? path : NULL;
}

/* The name that a change has while it is made: ours, and in the folder of its path. */
static bool tmp_fits(const char *tmp, const char *path)
{
    size_t dir = (size_t)(path_base(path) - path);
    return strncmp(tmp, path, dir) == 0 && starts_with(tmp + dir, ".gpumend-") &&
           !strchr(tmp + dir, '/');
}

static struct apply_journal_folder *journal_folder(struct apply_journal *j, const struct record *r)
{
    const char *path = field(r, "path");
    for (size_t i = 0; path && i < j->folders.n; i++) {
        if (strcmp(j->folders.items[i].path, path) == 0) {
            return &j->folders.items[i];
        }
    }
    return NULL;
}

/* Change n, if it is the last one. */
static struct apply_journal_change *last_change(struct apply_journal *j, const struct record *r)
{
    uint64_t n;
    return field_u64(r, "n", &n) && j->changes.n && n == j->changes.n
               ? &j->changes.items[j->changes.n - 1]
               : NULL;
}

static bool take_begin(struct apply_journal *j, const struct record *r)
{
    uint64_t version, id;
    if (j->begun || !field_u64(r, "version", &version) || version != 1 ||
        !field_u64(r, "id", &id) || id > UINT32_MAX || !field_u64(r, "at", &j->at_s)) {
        return false;
    }
    j->begun = true;
    j->id = (unsigned)id;
    j->what = field(r, "what");
    j->title = field(r, "title");
    j->base = field(r, "base");
    return j->what && j->title && j->base;
}

static bool journal_take_folder(struct apply_journal *j, const struct record *r)
{
    struct apply_journal_folder f = {.path = field(r, "path")};
    if (!f.path || journal_folder(j, r) || (strcmp(f.path, ".") != 0 && !path_is_inside(f.path)) ||
        !field_sig(r, "sig", &f.before) || f.before.type != 'd') {
        return false;
    }
    VEC_PUSH(r->a, &j->folders, f);
    return true;
}

static bool take_stage(struct apply_journal *j, const struct record *r)
{
    uint64_t n;
    struct apply_journal_change c = {.path = field_path(r, "path"), .tmp = field_path(r, "tmp")};
    if (!field_u64(r, "n", &n) || n != j->changes.n + 1 || !c.path || !c.tmp ||
        !tmp_fits(c.tmp, c.path) || !field_sig(r, "old", &c.before)) {
        return false;
    }
    c.n = (unsigned)n;
    VEC_PUSH(r->a, &j->changes, c);
    return true;
}

static bool take_commit(struct apply_journal *j, const struct record *r)
{
    static const char *const names[] = {
        [APPLY_KEPT_NONE] = "none", [APPLY_KEPT_LINK] = "link", [APPLY_KEPT_COPY] = "copy"};
    struct apply_journal_change *c = last_change(j, r);
    const char *kept = field(r, "kept");
    if (!c || c->packages || c->committed || !kept || !field_sig(r, "new", &c->after)) {
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], kept) == 0) {
            c->kept = (enum apply_journal_kept)i;
            c->committed = (c->kept == APPLY_KEPT_NONE) == (c->before.type == '-');
        }
    }
    return c->committed;
}

static bool take_packages(struct apply_journal *j, const struct record *r)
{
    uint64_t n;
    struct apply_journal_change c = {.path = ".", .packages = true};
    if (!field_u64(r, "n", &n) || n != j->changes.n + 1 ||
        !field_u64(r, "entries", &c.entries_before) || !field_hash(r, "hash", &c.hash_before)) {
        return false;
    }
    c.n = (unsigned)n;
    VEC_PUSH(r->a, &j->changes, c);
    return true;
}

static bool take_packages_done(struct apply_journal *j, const struct record *r)
{
    struct apply_journal_change *c = last_change(j, r);
    if (!c || !c->packages || c->packages_done || !field_u64(r, "entries", &c->entries_after) ||
        !field_hash(r, "hash", &c->hash_after)) {
        return false;
    }
    c->packages_done = true;
    return true;
}

static bool take_left(struct apply_journal *j, const struct record *r)
{
    struct apply_journal_folder *f = journal_folder(j, r);
    if (!f || !field_sig(r, "sig", &f->left)) {
        return false;
    }
    f->has_left = true;
    return true;
}

static bool take_applied(struct apply_journal *j, const struct record *r)
{
    (void)r; // it has no fields
    j->applied = true;
    return true;
}

static bool take_verified(struct apply_journal *j, const struct record *r)
{
    j->verified = field(r, "how");
    return j->verified && j->applied;
}

static bool take_theirs(struct apply_journal *j, const struct record *r)
{
    struct apply_journal_folder f = {.path = field(r, "path"), .theirs = true};
    struct apply_journal_folder *known = journal_folder(j, r);
    if (known) {
        known->theirs = true;
        return true;
    }
    if (!f.path || (strcmp(f.path, ".") != 0 && !path_is_inside(f.path))) {
        return false;
    }
    VEC_PUSH(r->a, &j->folders, f); // known by a scan, not by a record of its own
    return true;
}

static bool take_undo(struct apply_journal *j, const struct record *r)
{
    (void)r; // it has no fields
    j->undoing = true;
    return true;
}

static const struct {
    const char *kind;
    bool (*take)(struct apply_journal *j, const struct record *r);
} kinds[] = {
    {"begin", take_begin},       {"folder", journal_take_folder},
    {"stage", take_stage},       {"commit", take_commit},
    {"packages", take_packages}, {"packages-done", take_packages_done},
    {"left", take_left},         {"applied", take_applied},
    {"verified", take_verified}, {"theirs", take_theirs},
    {"undo", take_undo},
};

static bool journal_take_record(struct arena *a, struct apply_journal *j, struct str text)
{
    struct record r = {.a = a};
    struct str kind = str_cut(&text, ' ');
    while (text.s) {
        struct str value = str_cut(&text, ' ');
        struct str name = str_cut(&value, '=');
        if (!value.s || name.n == 0 || r.n == FIELDS_MAX) {
            return false;
        }
        r.names[r.n] = name;
        r.values[r.n++] = value;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (str_is(kind, kinds[i].kind)) {
            return j->begun == (kinds[i].take != take_begin) && kinds[i].take(j, &r);
        }
    }
    return false;
}

/* The text of a whole line behind its hash, if the hash is right. */
static bool line_is_whole(struct str line, uint64_t chain, struct str *ret_text, uint64_t *ret_hash)
{
    uint64_t hash;
    if (line.n <= HASH_DIGITS || line.s[HASH_DIGITS] != ' ' ||
        !hex_u64((struct str){line.s, HASH_DIGITS}, &hash)) {
        return false;
    }
    *ret_text = (struct str){line.s + HASH_DIGITS + 1, line.n - HASH_DIGITS - 1};
    *ret_hash = hash;
    return chained(chain, *ret_text) == hash;
}

int apply_journal_parse(struct arena *a, struct str log, struct apply_journal *ret,
                        struct gm_err *err)
{
    *ret = (struct apply_journal){0};
    struct str rest = log;
    for (size_t number = 1; rest.n; number++) {
        if (number > APPLY_JOURNAL_RECORDS_MAX) {
            return gm_err_set(err, GM_ERR_LIMIT, "more than %d records", APPLY_JOURNAL_RECORDS_MAX);
        }
        size_t n = str_find_char(rest, '\n');
        struct str text;
        uint64_t hash;
        bool ends = n < rest.n;
        if (!ends || !line_is_whole((struct str){rest.s, n}, ret->chain, &text, &hash)) {
            if (ends && n + 1 < rest.n) {
                return gm_err_set(err, GM_ERR_FORMAT, "record %zu is damaged", number);
            }
            ret->torn = true;
            return 0;
        }
        if (!journal_take_record(a, ret, text)) {
            return gm_err_set(err, GM_ERR_FORMAT, "record %zu has no meaning", number);
        }
        ret->chain = hash;
        ret->valid_bytes += n + 1;
        rest = (struct str){rest.s + n + 1, rest.n - n - 1};
    }
    return 0;
}

enum apply_journal_state apply_journal_state(const struct apply_journal *j)
{
    return j->undoing   ? APPLY_JOURNAL_UNDOING
           : j->applied ? APPLY_JOURNAL_APPLIED
                        : APPLY_JOURNAL_INTERRUPTED;
}

const char *apply_journal_state_name(enum apply_journal_state state)
{
    static const char *const names[] = {[APPLY_JOURNAL_APPLIED] = "applied",
                                        [APPLY_JOURNAL_INTERRUPTED] = "interrupted",
                                        [APPLY_JOURNAL_UNDOING] = "undo interrupted"};
    return names[state];
}

/* ------------------------------------------------------------------ scans */

struct str apply_journal_scan_text(struct arena *a, const struct apply_journal_scan *scan)
{
    size_t size = 0, at = 0;
    char **lines = arena_array(a, scan->entries.n + 1, sizeof *lines);
    for (size_t i = 0; i < scan->entries.n; i++) {
        const struct apply_journal_entry *e = &scan->entries.items[i];
        lines[i] = arena_printf(a, "%s %s %s\n", apply_journal_sig_text(a, &e->sig),
                                encoded(a, e->path), e->sig.link ? encoded(a, e->sig.link) : "");
        size += strlen(lines[i]);
    }
    char *text = arena_alloc(a, size + 1);
    for (size_t i = 0; i < scan->entries.n; i++) {
        size_t n = strlen(lines[i]);
        memcpy(text + at, lines[i], n);
        at += n;
    }
    return (struct str){text, size};
}

static bool parse_entry(struct arena *a, struct str line, struct apply_journal_entry *ret)
{
    struct str sig = str_cut(&line, ' '), path = str_cut(&line, ' ');
    ret->path = decoded(a, path);
    if (!line.s || !ret->path || !apply_journal_sig_parse(a, sig, &ret->sig) ||
        ret->sig.type == '-' || (strcmp(ret->path, ".") != 0 && !path_is_inside(ret->path))) {
        return false;
    }
    if (ret->sig.type == 'l') {
        ret->sig.link = decoded(a, line);
    }
    return ret->sig.type != 'l' || ret->sig.link;
}

int apply_journal_scan_parse(struct arena *a, struct str text, uint64_t entries, uint64_t hash,
                             struct apply_journal_scan *ret, struct gm_err *err)
{
    *ret = (struct apply_journal_scan){0};
    if (str_hash(text.s, text.n) != hash) {
        return gm_err_set(err, GM_ERR_FORMAT, "the list of files is damaged");
    }
    struct str line;
    while (str_line(&text, &line)) {
        struct apply_journal_entry e;
        if (!parse_entry(a, line, &e) ||
            (ret->entries.n && strcmp(ret->entries.items[ret->entries.n - 1].path, e.path) >= 0)) {
            return gm_err_set(err, GM_ERR_FORMAT, "entry %zu of the list of files has no meaning",
                              ret->entries.n + 1);
        }
        VEC_PUSH(a, &ret->entries, e);
    }
    return ret->entries.n == entries
               ? 0
               : gm_err_set(err, GM_ERR_FORMAT, "the list of files is not whole");
}

static int entry_by_path(const void *key, const void *entry)
{
    return strcmp(key, ((const struct apply_journal_entry *)entry)->path);
}

const struct apply_journal_entry *apply_journal_scan_find(const struct apply_journal_scan *scan,
                                                          const char *path)
{
    return scan->entries.n ? bsearch(path, scan->entries.items, scan->entries.n,
                                     sizeof *scan->entries.items, entry_by_path)
                           : NULL;
}
