#include "launch/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/folder.h"

enum {
    FILE_BYTES_MAX = 16 << 20,
    ITEMS_MAX = 4096, // of every list but the identities
    PLANS_MAX = 256,  // files in the folder
    N_IDENTITY = 9,
    YOUNG_NS = 50 * 1000 * 1000, // more than a tick of the clock that file systems use
};

static const char magic[] = "gpumend-plan 2\n";

/* ------------------------------------------------------------------ what was looked at */

static void identify(const struct stat *st, struct launch_identity *ret)
{
    uint64_t *v = ret->v;
    *ret =
        (struct launch_identity){{0, st->st_dev, st->st_ino, (uint64_t)st->st_size, st->st_mode}};
    if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) {
        v[3] = st->st_rdev, v[5] = st->st_uid, v[6] = st->st_gid;
        return;
    }
    v[5] = (uint64_t)st->st_mtim.tv_sec, v[6] = (uint64_t)st->st_mtim.tv_nsec;
    if (S_ISDIR(st->st_mode) || st->st_nlink == 1) {
        v[7] = (uint64_t)st->st_ctim.tv_sec, v[8] = (uint64_t)st->st_ctim.tv_nsec;
    }
}

/* The identity of what the path leads to now; returns whether `ret_st` was filled. */
static bool identity_of(struct root *r, const char *path, struct launch_identity *ret,
                        struct stat *ret_st)
{
    int rc = root_stat(r, path, ret_st);
    if (rc < 0) {
        *ret = (struct launch_identity){{(uint64_t)-rc}};
        return false;
    }
    identify(ret_st, ret);
    return true;
}

/* Whether a further change could bear the same time as the last one. */
static bool is_young(const struct stat *st, const struct timespec *began)
{
    int64_t s = st->st_ctim.tv_sec - began->tv_sec;
    int64_t ns = st->st_ctim.tv_nsec - began->tv_nsec;
    return (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)) &&
           (s > 1 || (s >= -1 && s * 1000000000 + ns > -YOUNG_NS));
}

static size_t slot_of(const struct launch_seen_set *s, const char *path)
{
    size_t i = (size_t)str_hash(path, strlen(path)) & (s->cap - 1);
    while (s->slots[i].path && strcmp(s->slots[i].path, path) != 0) {
        i = (i + 1) & (s->cap - 1);
    }
    return i;
}

static void grow(struct launch_seen_set *s)
{
    struct launch_seen_set more = *s;
    more.cap = s->cap ? s->cap * 2 : 1024;
    more.slots = arena_array(s->a, more.cap, sizeof *more.slots);
    for (size_t i = 0; i < s->cap; i++) {
        if (s->slots[i].path) {
            more.slots[slot_of(&more, s->slots[i].path)] = s->slots[i];
        }
    }
    *s = more;
}

/* Where a folder is missing, what would be in it is too: the topmost that is missing stands for
 * all of them. */
static const char *topmost_missing(struct launch_seen_set *s, const char *path)
{
    struct stat st;
    for (const char *above = path_dir(s->a, path); root_stat(s->root, above, &st) == -ENOENT;
         above = path_dir(s->a, above)) {
        path = above;
    }
    return path;
}

void launch_seen_add(void *arg, const char *path)
{
    struct launch_seen_set *s = arg;
    struct launch_identity identity;
    struct stat st;
    if (path[0] != '/' || starts_with(path, "/proc/") || starts_with(path, "/sys/")) {
        return;
    }
    if (s->n * 2 >= s->cap) {
        grow(s);
    }
    if (s->slots[slot_of(s, path)].path || s->n == LAUNCH_SEEN_MAX) {
        return;
    }
    bool is_there = identity_of(s->root, path, &identity, &st);
    path = identity.v[0] == ENOENT ? topmost_missing(s, path) : path;
    struct launch_seen *slot = &s->slots[slot_of(s, path)];
    if (!slot->path) {
        *slot = (struct launch_seen){arena_strdup(s->a, path), identity};
        s->n++;
    }
    if (is_there && is_young(&st, &s->began)) {
        s->young = slot->path;
    }
}

static bool is_as_it_was(struct root *r, const struct launch_seen *seen)
{
    struct launch_identity now;
    struct stat st;
    (void)identity_of(r, seen->path, &now, &st); // an errno is an identity too
    return memcmp(&now, &seen->identity, sizeof now) == 0;
}

const char *launch_seen_changed(const struct launch_seen_set *s)
{
    for (size_t i = 0; i < s->cap; i++) {
        if (s->slots[i].path && !is_as_it_was(s->root, &s->slots[i])) {
            return s->slots[i].path;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ writing */

struct writer {
    FILE *file;
    uint64_t sum;
};

/* str_hash() of all that was written, piece by piece. */
static uint64_t add_sum(uint64_t sum, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) {
        sum = (sum ^ p[i]) * 0x100000001b3u;
    }
    return sum;
}

static void put_bytes(struct writer *w, const void *data, size_t n)
{
    w->sum = add_sum(w->sum, data, n);
    (void)fwrite(data, 1, n, w->file); // ferror() is asked at the end
}

static void cache_put_text(struct writer *w, const char *text)
{
    char head[32];
    int n = snprintf(head, sizeof head, "%zu:", strlen(text));
    put_bytes(w, head, (size_t)n);
    put_bytes(w, text, strlen(text));
    put_bytes(w, "\n", 1);
}

static void write_number(struct writer *w, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    cache_put_text(w, text);
}

static void put_seen(struct writer *w, const char *path, const struct launch_identity *id)
{
    char text[256] = "";
    size_t n = 0;
    for (int i = 0; i < N_IDENTITY; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%" PRIx64, i ? " " : "", id->v[i]);
    }
    cache_put_text(w, path);
    cache_put_text(w, text);
}

static void put_told(struct writer *w, const struct launch_told *items, size_t n)
{
    write_number(w, n);
    for (size_t i = 0; i < n; i++) {
        cache_put_text(w, items[i].cause);
        cache_put_text(w, items[i].text);
        cache_put_text(w, items[i].of_program ? "program" : "machine");
    }
}

static void put_launch(struct writer *w, const struct launch *l)
{
    write_number(w, l->changes.n);
    for (size_t i = 0; i < l->changes.n; i++) {
        const struct launch_change *c = &l->changes.items[i];
        cache_put_text(w, c->name);
        cache_put_text(w, c->value ? "set" : "unset");
        cache_put_text(w, c->value ? c->value : "");
    }
    write_number(w, l->links.n);
    for (size_t i = 0; i < l->links.n; i++) {
        cache_put_text(w, l->links.items[i].path);
        cache_put_text(w, l->links.items[i].target);
    }
    put_told(w, l->mends.items, l->mends.n);
    put_told(w, l->left.items, l->left.n);
    write_number(w, l->remarks.n);
    for (size_t i = 0; i < l->remarks.n; i++) {
        cache_put_text(w, l->remarks.items[i]);
    }
}

static int write_plan(FILE *file, const char *question, const struct launch_seen_set *seen,
                      const struct launch *launch, struct gm_err *err)
{
    struct writer w = {file, str_hash(NULL, 0)};
    put_bytes(&w, magic, sizeof magic - 1);
    cache_put_text(&w, question);
    write_number(&w, seen->n);
    for (size_t i = 0; i < seen->cap; i++) {
        if (seen->slots[i].path) {
            put_seen(&w, seen->slots[i].path, &seen->slots[i].identity);
        }
    }
    put_launch(&w, launch);
    uint64_t sum = w.sum;
    write_number(&w, sum);
    return fflush(file) != 0 || ferror(file) ? gm_err_set(err, GM_ERR_LOOK, "cannot write") : 0;
}

/* ------------------------------------------------------------------ the folder */

static void question_name(const char *question, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%016" PRIx64, str_hash(question, strlen(question)));
}

/* Keeps the number of plans bounded: beyond PLANS_MAX the oldest goes. */
static void drop_oldest(struct root *r, struct arena *a, const char *folder, int fd)
{
    struct root_dir list;
    const char *oldest = NULL;
    struct timespec when = {0};
    if (root_list(r, a, folder, PLANS_MAX * 4, NULL, &list) < 0 || list.n < PLANS_MAX) {
        return;
    }
    for (size_t i = 0; i < list.n; i++) {
        struct stat st;
        if (fstatat(fd, list.names[i], &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue; // another start was quicker
        }
        if (!oldest || st.st_mtim.tv_sec < when.tv_sec ||
            (st.st_mtim.tv_sec == when.tv_sec && st.st_mtim.tv_nsec < when.tv_nsec)) {
            oldest = list.names[i];
            when = st.st_mtim;
        }
    }
    if (oldest) {
        (void)unlinkat(fd, oldest, 0); // one plan too many does no harm
    }
}

static int write_in(int fd, const char *question, const struct launch_seen_set *seen,
                    const struct launch *launch, struct gm_err *err)
{
    char name[32], fresh[64];
    question_name(question, name, sizeof name);
    (void)snprintf(fresh, sizeof fresh, ".new-%s-%ld", name, (long)getpid());
    (void)unlinkat(fd, fresh, 0); // left by a process of that number that was killed
    int out = openat(fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *file = out < 0 ? NULL : fdopen(out, "w");
    if (!file) {
        int saved = errno;
        if (out >= 0) {
            (void)close(out); // nothing was written
        }
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", fresh, strerror(saved));
    }
    int rc = write_plan(file, question, seen, launch, err);
    if (fclose(file) != 0 && rc == 0) {
        rc = gm_err_set(err, GM_ERR_LOOK, "%s: %s", fresh, strerror(errno));
    }
    if (rc == 0 && renameat(fd, fresh, fd, name) < 0) {
        rc = gm_err_set(err, GM_ERR_LOOK, "%s: %s", name, strerror(errno));
    }
    if (rc < 0) {
        (void)unlinkat(fd, fresh, 0); // the error is already told
    }
    return rc;
}

int launch_cache_write(struct root *r, const char *folder, const char *question,
                       const struct launch_seen_set *seen, const struct launch *launch,
                       struct gm_err *err)
{
    if (seen->young) {
        return gm_err_set(err, GM_ERR_LIMIT, "%s has just changed", seen->young);
    }
    if (seen->n == LAUNCH_SEEN_MAX) {
        return gm_err_set(err, GM_ERR_LIMIT, "%d paths were looked at", LAUNCH_SEEN_MAX);
    }
    int fd = folder_own(folder, err);
    if (fd < 0) {
        return fd;
    }
    int rc = write_in(fd, question, seen, launch, err);
    if (rc == 0) {
        struct arena scratch;
        arena_init(&scratch, 0, NULL, NULL);
        drop_oldest(r, &scratch, folder, fd);
        arena_release(&scratch);
    }
    (void)close(fd); // a folder: nothing can be lost
    return rc;
}

/* ------------------------------------------------------------------ reading */

struct reader {
    struct arena *a;
    struct str rest;
    bool bad;
};

static struct str take_field(struct reader *in)
{
    struct str digits = {in->rest.s, 0};
    while (digits.n < in->rest.n && digits.n < 9 && digits.s[digits.n] >= '0' &&
           digits.s[digits.n] <= '9') {
        digits.n++;
    }
    uint64_t n = 0;
    size_t left = in->rest.n - digits.n;
    if (in->bad || !str_u64(digits, &n) || left < 2 || digits.s[digits.n] != ':' || n > left - 2 ||
        digits.s[digits.n + 1 + n] != '\n' || memchr(digits.s + digits.n + 1, '\0', n)) {
        in->bad = true;
        return (struct str){"", 0};
    }
    struct str field = {digits.s + digits.n + 1, n};
    in->rest = (struct str){field.s + n + 1, left - 2 - n};
    return field;
}

static const char *take_text(struct reader *in)
{
    return str_dup(in->a, take_field(in));
}

/* A count; each item has at least one field, of three bytes at least. */
static size_t take_count(struct reader *in, size_t max)
{
    uint64_t n = 0;
    if (!str_u64(take_field(in), &n) || n > max || n > in->rest.n / 3) {
        in->bad = true;
        return 0;
    }
    return n;
}

static bool parse_hex(struct str s, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.s[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit > 15 || i == 16) {
            return false;
        }
        value = value << 4 | digit;
    }
    *ret = value;
    return s.n > 0;
}

static void take_seen(struct reader *in, struct launch_cached *out)
{
    size_t n = take_count(in, LAUNCH_SEEN_MAX);
    for (size_t i = 0; i < n && !in->bad; i++) {
        struct launch_seen seen = {.path = take_text(in)};
        struct str rest = take_field(in);
        for (int k = 0; k < N_IDENTITY && !in->bad; k++) {
            in->bad = !rest.s || !parse_hex(str_cut(&rest, ' '), &seen.identity.v[k]);
        }
        in->bad = in->bad || rest.s || seen.path[0] != '/';
        VEC_PUSH(in->a, &out->seen, seen);
    }
}

static void take_changes(struct reader *in, struct launch *l)
{
    size_t n = take_count(in, ITEMS_MAX);
    for (size_t i = 0; i < n && !in->bad; i++) {
        struct launch_change c = {.name = take_text(in)};
        struct str kind = take_field(in);
        c.value = take_text(in);
        in->bad = in->bad || !*c.name || strchr(c.name, '=') ||
                  (!str_is(kind, "set") && (!str_is(kind, "unset") || *c.value));
        c.value = str_is(kind, "set") ? c.value : NULL;
        VEC_PUSH(in->a, &l->changes, c);
    }
    n = take_count(in, ITEMS_MAX);
    for (size_t i = 0; i < n && !in->bad; i++) {
        struct plan_link link = {.path = take_text(in)};
        link.target = take_text(in);
        in->bad = in->bad || link.path[0] != '/' || link.target[0] != '/';
        VEC_PUSH(in->a, &l->links, link);
    }
}

static struct launch_told take_told(struct reader *in)
{
    struct launch_told told = {.cause = take_text(in)};
    told.text = take_text(in);
    struct str whose = take_field(in);
    told.of_program = str_is(whose, "program");
    in->bad = in->bad || (!told.of_program && !str_is(whose, "machine"));
    return told;
}

static void take_launch(struct reader *in, struct launch *l)
{
    take_changes(in, l);
    size_t n = take_count(in, ITEMS_MAX);
    for (size_t i = 0; i < n && !in->bad; i++) {
        VEC_PUSH(in->a, &l->mends, take_told(in));
    }
    n = take_count(in, ITEMS_MAX);
    for (size_t i = 0; i < n && !in->bad; i++) {
        VEC_PUSH(in->a, &l->left, take_told(in));
    }
    n = take_count(in, ITEMS_MAX);
    for (size_t i = 0; i < n && !in->bad; i++) {
        const char *text = take_text(in);
        VEC_PUSH(in->a, &l->remarks, text);
    }
}

int launch_cache_parse(struct arena *a, struct str bytes, struct launch_cached *ret,
                       struct gm_err *err)
{
    struct launch_cached out = {0};
    if (!str_starts(bytes, magic)) {
        return gm_err_set(err, GM_ERR_FORMAT, "no plan of this version");
    }
    struct reader in = {a, {bytes.s + sizeof magic - 1, bytes.n - (sizeof magic - 1)}, false};
    out.question = take_text(&in);
    take_seen(&in, &out);
    take_launch(&in, &out.launch);
    size_t summed = bytes.n - in.rest.n;
    uint64_t sum = 0;
    struct str field = take_field(&in);
    if (in.bad || in.rest.n || !str_u64(field, &sum) || sum != str_hash(bytes.s, summed)) {
        return gm_err_set(err, GM_ERR_FORMAT, "the plan is cut off or spoilt");
    }
    *ret = out;
    return 0;
}

/* The bytes of a file of this user's that nobody else may write. */
static bool read_own(int folder, struct arena *a, const char *name, struct str *ret)
{
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
              !(st.st_mode & (S_IWGRP | S_IWOTH)) && st.st_size <= FILE_BYTES_MAX;
    size_t size = ok ? (size_t)st.st_size : 0, n = 0;
    char *data = arena_alloc(a, size + 1);
    for (ssize_t got = 1; n < size && got > 0; n += got > 0 ? (size_t)got : 0) {
        got = read(fd, data + n, size - n);
    }
    (void)close(fd); // opened for reading
    *ret = (struct str){data, n};
    return ok && n == size;
}

static bool holds(struct root *r, const struct launch_cached *c)
{
    for (size_t i = 0; i < c->seen.n; i++) {
        if (!is_as_it_was(r, &c->seen.items[i])) {
            return false;
        }
    }
    return true;
}

bool launch_cache_read(struct root *r, struct arena *a, const char *folder, const char *question,
                       struct launch *ret)
{
    char name[32];
    struct str bytes;
    struct gm_err err;
    struct launch_cached cached;
    question_name(question, name, sizeof name);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
              !(st.st_mode & (S_IWGRP | S_IWOTH)) && read_own(fd, a, name, &bytes);
    if (fd >= 0) {
        (void)close(fd); // a folder: nothing can be lost
    }
    if (!ok || launch_cache_parse(a, bytes, &cached, &err) < 0 ||
        strcmp(cached.question, question) != 0 || !holds(r, &cached)) {
        return false;
    }
    *ret = cached.launch;
    return true;
}
