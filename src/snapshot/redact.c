/* A snapshot without names of people and of the machine, serial numbers and UUIDs. */
#include <ctype.h>
#include <string.h>

#include "base/root.h"
#include "snapshot/snapshot.h"

/*
 * Placeholders have the length of what they stand for, so that nothing moves inside an ELF file or
 * a cache, and the same text gets the same placeholder everywhere: two files that agreed still do.
 *
 *   names of users and machines   wherever they stand; short ones (below 4 letters) only as words
 *   /home/NAME of anybody else    behind "/home/" or "/Users/" only: build machines leave such
 * paths in binaries GPU and MIG UUIDs             by their form, and their beginnings in variables
 *   serial numbers                in the files that state one
 *
 * Names that come with a system or an image, and so say nothing of anyone, stay: many of them are
 * also words of packages and paths.
 */
static const char *const public_names[] = {
    "admin",       "azureuser", "builder",   "centos", "conda", "debian", "default", "docker",
    "ec2-user",    "fedora",    "gpu",       "guest",  "home",  "jovyan", "linux",   "localhost",
    "localdomain", "node",      "nobody",    "nvidia", "opc",   "podman", "python",  "rocky",
    "root",        "runner",    "server",    "test",   "torch", "ubuntu", "user",    "vagrant",
    "vscode",      "work",      "workspace", "cuda",
};

enum {
    SHORT_NAME = 4,
    UUID_CHARS = 36,
};

struct swap {
    struct str from;
    const char *to;
    bool only_home; // behind "/home/" only
};

struct snapshot_redactor {
    struct snapshot *s; // NULL: single texts only
    struct arena *arena;
    snapshot_texts homes; // written "~", in single texts only: the length changes
    VEC(struct swap) names;
    VEC(struct swap) uuids;
    unsigned users, hosts;
};

static bool is_public(struct str name)
{
    for (size_t i = 0; i < sizeof public_names / sizeof *public_names; i++) {
        if (str_is(name, public_names[i])) {
            return true;
        }
    }
    return false;
}

/* "user1", "host12x": the word, cut where there is no room, and the number, filled up with x. */
static const char *placeholder(struct arena *a, const char *word, unsigned number, size_t n)
{
    const char *digits = arena_printf(a, "%u", number);
    size_t n_digits = strlen(digits), n_word = strlen(word);
    char *out = arena_alloc(a, n + 1);
    memset(out, 'x', n);
    n_digits = n_digits < n ? n_digits : n;
    n_word = n_word < n - n_digits ? n_word : n - n_digits;
    memcpy(out, word, n_word);
    memcpy(out + n_word, digits, n_digits);
    return out;
}

static void redactor_add_name(struct snapshot_redactor *r, struct str name, const char *word,
                              unsigned *number, bool only_home)
{
    if (name.n == 0 || is_public(name)) {
        return;
    }
    for (size_t i = 0; i < r->names.n; i++) {
        if (str_eq(r->names.items[i].from, name)) {
            r->names.items[i].only_home &= only_home;
            return;
        }
    }
    ++*number;
    VEC_PUSH(r->arena, &r->names,
             (struct swap){(struct str){str_dup(r->arena, name), name.n},
                           placeholder(r->arena, word, *number, name.n), only_home});
}

/* ------------------------------------------------------------------ replacing */

static bool redactor_is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Where people's own folders are; the second: Windows' and macOS'. */
static const char *const home_folders[] = {"/home/", "/Users/"};

enum { HOME_FOLDERS = sizeof home_folders / sizeof *home_folders };

static bool behind_home(const char *start, const char *at)
{
    for (size_t i = 0; i < HOME_FOLDERS; i++) {
        size_t n = strlen(home_folders[i]);
        if ((size_t)(at - start) >= n && memcmp(at - n, home_folders[i], n) == 0) {
            return true;
        }
    }
    return false;
}

static bool applies(const struct swap *w, struct str data, const char *at)
{
    const char *end = data.s + data.n, *after = at + w->from.n;
    bool stands_alone =
        (at == data.s || !redactor_is_word(at[-1])) && (after == end || !redactor_is_word(*after));
    if (w->only_home) {
        return behind_home(data.s, at) && stands_alone;
    }
    return w->from.n >= SHORT_NAME || stands_alone;
}

static void replace_names(const struct snapshot_redactor *r, char *data, size_t n)
{
    for (size_t i = 0; i < r->names.n; i++) {
        const struct swap *w = &r->names.items[i];
        char *end = data + n;
        for (char *at = data; (at = memmem(at, (size_t)(end - at), w->from.s, w->from.n));) {
            if (applies(w, (struct str){data, n}, at)) {
                memcpy(at, w->to, w->from.n);
                at += w->from.n;
            } else {
                at++;
            }
        }
    }
}

static bool is_uuid(const char *s, size_t n)
{
    for (size_t i = 0; i < UUID_CHARS; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (i >= n || (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))) {
            return false;
        }
    }
    return true;
}

static const char *const uuid_heads[] = {"GPU-", "MIG-"};

/* Calls `act` with what follows each "GPU-" and "MIG-". */
typedef void uuid_act(struct snapshot_redactor *r, char *at, size_t n);

static void each_uuid(struct snapshot_redactor *r, char *data, size_t n, uuid_act *act)
{
    for (size_t i = 0; i < sizeof uuid_heads / sizeof *uuid_heads; i++) {
        char *end = data + n;
        for (char *at = data; (at = memmem(at, (size_t)(end - at), uuid_heads[i], 4));) {
            at += 4;
            act(r, at, (size_t)(end - at));
        }
    }
}

/* All digits of the n-th UUID are n's own: any beginning of it stays a beginning. */
static void learn_uuid(struct snapshot_redactor *r, char *at, size_t n)
{
    if (!is_uuid(at, n)) {
        return;
    }
    for (size_t i = 0; i < r->uuids.n; i++) {
        if (memcmp(r->uuids.items[i].from.s, at, UUID_CHARS) == 0) {
            return;
        }
    }
    const char *number = arena_printf(r->arena, "%zx", r->uuids.n + 1);
    size_t digits = strlen(number), used = 0;
    char *to = arena_strndup(r->arena, at, UUID_CHARS);
    for (size_t i = 0; i < UUID_CHARS; i++) {
        if (to[i] != '-') {
            to[i] = number[used++ % digits];
        }
    }
    VEC_PUSH(
        r->arena, &r->uuids,
        (struct swap){.from = {arena_strndup(r->arena, at, UUID_CHARS), UUID_CHARS}, .to = to});
}

static void replace_uuid(struct snapshot_redactor *r, char *at, size_t n)
{
    size_t given = 0;
    while (given < n && given < UUID_CHARS &&
           (isxdigit((unsigned char)at[given]) || at[given] == '-')) {
        given++;
    }
    for (size_t i = 0; given && i < r->uuids.n; i++) {
        const struct swap *w = &r->uuids.items[i];
        if ((given == UUID_CHARS || given == n || !redactor_is_word(at[given])) &&
            strncasecmp(w->from.s, at, given) == 0) {
            memcpy(at, w->to, given);
            return;
        }
    }
}

static void replace(struct snapshot_redactor *r, char *data, size_t n)
{
    replace_names(r, data, n);
    if (r->uuids.n) {
        each_uuid(r, data, n, replace_uuid);
    }
}

static struct str replaced(struct snapshot_redactor *r, struct str data)
{
    char *copy = arena_alloc(r->arena, data.n + 1);
    if (data.n) {
        memcpy(copy, data.s, data.n);
    }
    copy[data.n] = '\0';
    replace(r, copy, data.n);
    return (struct str){copy, data.n};
}

static const char *replaced_text(struct snapshot_redactor *r, const char *s)
{
    return s ? replaced(r, str_of(s)).s : NULL;
}

/* ------------------------------------------------------------------ serial numbers */

static void blank_digits(char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (isxdigit((unsigned char)data[i])) {
            data[i] = '1';
        }
    }
}

/* Files that hold a serial number and nothing else; and lines of other files that state one. */
static void blank_serials(const char *path, char *data, size_t n)
{
    static const char *const files[] = {"*serial", "*serial_number", "unique_id", "*_uuid"};
    static const char *const lines[] = {"unique_id ", "Serial", "Board Serial"};
    if (!starts_with(path, "/proc/") && !starts_with(path, "/sys/")) {
        return;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (str_glob(files[i], path_base(path))) {
            blank_digits(data, n);
        }
    }
    struct str rest = {data, n}, line;
    while (str_line(&rest, &line)) {
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            size_t head = strlen(lines[i]);
            if (str_starts(line, lines[i])) {
                blank_digits(data + (line.s - data) + head, line.n - head);
            }
        }
    }
}

/* ------------------------------------------------------------------ names that are seen */

static void learn_groups(struct snapshot_redactor *r, struct str text)
{
    enum { FIRST_USER = 1000, LAST_USER = 59999 }; // Debian policy 9.2.2
    struct str line;
    while (str_line(&text, &line)) {
        struct str name = str_cut(&line, ':');
        uint64_t gid;
        if (line.s) {
            (void)str_cut(&line, ':');
        }
        if (line.s && str_u64(str_cut(&line, ':'), &gid) && gid >= FIRST_USER && gid <= LAST_USER) {
            redactor_add_name(r, name, "group", &r->users, false);
        }
    }
}

/* Folders of /home, and names that were listed there. */
static void learn_homes(struct snapshot_redactor *r, struct snap_node *const *all, size_t n)
{
    static const char home[] = "/home/";
    for (size_t i = 0; i < n; i++) {
        const char *path = all[i]->path;
        bool below = starts_with(path, home) && !strchr(path + sizeof home - 1, '/');
        if (below) {
            redactor_add_name(r, str_of(path + sizeof home - 1), "user", &r->users,
                              all[i]->type == SNAP_ERROR);
        }
        for (size_t k = 0; strcmp(path, "/home") == 0 && k < all[i]->names.n; k++) {
            redactor_add_name(r, str_of(all[i]->names.items[k].name), "user", &r->users, false);
        }
        if (strcmp(path, "/etc/group") == 0 && all[i]->has_data) {
            learn_groups(r, all[i]->data);
        }
    }
}

/* "/home/NAME" inside of files. */
static void learn_homes_within(struct snapshot_redactor *r, struct str data, const char *home)
{
    const char *end = data.s + data.n;
    for (const char *at = data.s; (at = memmem(at, (size_t)(end - at), home, strlen(home)));) {
        at += strlen(home);
        size_t n = 0;
        while (at + n < end && n < 64 &&
               (redactor_is_word(at[n]) || at[n] == '-' || at[n] == '.')) {
            n++;
        }
        redactor_add_name(r, (struct str){at, n}, "user", &r->users, true);
    }
}

static void learn_people(struct snapshot_redactor *r, struct str data)
{
    for (size_t i = 0; i < HOME_FOLDERS; i++) {
        learn_homes_within(r, data, home_folders[i]);
    }
}

static void learn_from_content(struct snapshot_redactor *r, const struct snap_node *n)
{
    if (n->has_data) {
        char *copy = arena_strndup(r->arena, n->data.s, n->data.n);
        learn_people(r, n->data);
        each_uuid(r, copy, n->data.n, learn_uuid);
    }
    for (size_t i = 0; n->pages && i < n->pages->n_ranges; i++) {
        const struct pages_range *range = &n->pages->ranges[i];
        learn_people(r, (struct str){(const char *)range->bytes, range->n});
    }
}

/* ------------------------------------------------------------------ all of it */

static int names_by_name(const void *x, const void *y)
{
    return strcmp(((const struct snap_name *)x)->name, ((const struct snap_name *)y)->name);
}

static void redact_names(struct snapshot_redactor *r, struct snap_node *n)
{
    const char *slash = n->path[1] ? "/" : "";
    for (size_t i = 0; i < n->names.n; i++) {
        struct snap_name *x = &n->names.items[i];
        x->name =
            path_base(replaced_text(r, arena_printf(r->arena, "%s%s%s", n->path, slash, x->name)));
    }
    if (n->names.n == 0) {
        return;
    }
    qsort(n->names.items, n->names.n, sizeof *n->names.items, names_by_name);
    size_t kept = 1; // the placeholders of very short names may meet
    for (size_t i = 1; i < n->names.n; i++) {
        if (names_by_name(&n->names.items[kept - 1], &n->names.items[i]) != 0) {
            n->names.items[kept++] = n->names.items[i];
        }
    }
    n->names.n = kept;
}

static void redact_content(struct snapshot_redactor *r, struct snap_node *n)
{
    if (n->has_data) {
        n->data = replaced(r, n->data);
        blank_serials(n->path, (char *)(uintptr_t)n->data.s, n->data.n); // our own copy
    }
    struct pages *p = n->pages;
    if (!p || !p->n_ranges) {
        return;
    }
    struct pages_range *ranges = arena_array(r->arena, p->n_ranges, sizeof *ranges);
    for (size_t i = 0; i < p->n_ranges; i++) {
        struct str bytes =
            replaced(r, (struct str){(const char *)p->ranges[i].bytes, p->ranges[i].n});
        ranges[i] =
            (struct pages_range){p->ranges[i].offset, bytes.n, (const unsigned char *)bytes.s};
    }
    p->ranges = ranges;
}

static void redact_files(struct snapshot_redactor *r, struct snap_node *const *all, size_t n)
{
    struct snap fresh;
    snap_init(&fresh, r->arena);
    for (size_t i = 0; i < n; i++) {
        struct snap_node *to = snap_put(&fresh, replaced_text(r, all[i]->path));
        if (!to) {
            continue; // the placeholder is a name of this system: the first one stays
        }
        const char *path = to->path;
        redact_names(r, all[i]);
        *to = *all[i];
        to->path = path;
        to->link = replaced_text(r, to->link);
        redact_content(r, to);
    }
    r->s->files.table = fresh.table;
    r->s->files.cap = fresh.cap;
    r->s->files.n = fresh.n;
}

static void redact_texts(struct snapshot_redactor *r, const char **items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        items[i] = replaced_text(r, items[i]);
    }
}

static void redact_start(struct snapshot_redactor *r)
{
    struct snapshot *s = r->s;
    redact_texts(r, s->env.items, s->env.n);
    s->path = replaced_text(r, s->path);
    s->root = replaced_text(r, s->root);
    s->cwd = replaced_text(r, s->cwd);
    struct model_live *l = s->live;
    if (l) {
        l->exe = replaced_text(r, l->exe);
        l->cwd = replaced_text(r, l->cwd);
        l->argv0 = replaced_text(r, l->argv0);
        redact_texts(r, l->env.items, l->env.n);
        redact_texts(r, l->late_folders.items, l->late_folders.n);
        for (size_t i = 0; i < l->mappings.n; i++) {
            l->mappings.items[i].path = replaced_text(r, l->mappings.items[i].path);
        }
        for (size_t i = 0; i < l->children.n; i++) {
            l->children.items[i].name = replaced_text(r, l->children.items[i].name);
            l->children.items[i].exe = replaced_text(r, l->children.items[i].exe);
        }
    }
}

static void take_names(struct snapshot_redactor *r, const struct snapshot_names *names)
{
    for (size_t i = 0; i < names->users.n; i++) {
        redactor_add_name(r, str_of(names->users.items[i]), "user", &r->users, false);
    }
    for (size_t i = 0; i < names->hosts.n; i++) {
        redactor_add_name(r, str_of(names->hosts.items[i]), "host", &r->hosts, false);
    }
}

void snapshot_redact(struct snapshot *s, const struct snapshot_names *names)
{
    struct snapshot_redactor r = {.s = s, .arena = s->arena};
    struct snap_node **all = snap_sorted(&s->files, s->arena);
    size_t n = s->files.n;
    take_names(&r, names);
    learn_homes(&r, all, n);
    for (size_t i = 0; i < n; i++) {
        learn_from_content(&r, all[i]);
    }
    redact_files(&r, all, n);
    redact_start(&r);
    s->redacted = true;
}

/* ------------------------------------------------------------------ single texts */

struct snapshot_redactor *snapshot_redactor_new(struct arena *a, const struct snapshot_names *names)
{
    struct snapshot_redactor *r = arena_alloc(a, sizeof *r);
    *r = (struct snapshot_redactor){.arena = a, .homes = names->homes};
    take_names(r, names);
    return r;
}

/* A folder is a home only as a whole path or the beginning of one. */
static bool stands_as_path(const char *text, const char *at, size_t n)
{
    bool begins = at == text || !(redactor_is_word(at[-1]) || strchr("/.~-", at[-1]));
    return begins && !(redactor_is_word(at[n]) || (at[n] && strchr(".-", at[n])));
}

static const char *with_tilde(struct arena *a, const char *text, const char *home)
{
    const char *out = "", *from = text;
    size_t n = strlen(home);
    for (const char *at = text; (at = strstr(at, home)) != NULL;) {
        if (stands_as_path(text, at, n)) {
            out = arena_printf(a, "%s%.*s~", out, (int)(at - from), from);
            from = at + n;
        }
        at += n;
    }
    return arena_printf(a, "%s%s", out, from);
}

const char *snapshot_redact_text(struct snapshot_redactor *r, const char *text)
{
    for (size_t i = 0; i < r->homes.n; i++) {
        text = with_tilde(r->arena, text, r->homes.items[i]);
    }
    learn_people(r, str_of(text));
    each_uuid(r, arena_strndup(r->arena, text, strlen(text)), strlen(text), learn_uuid);
    return snapshot_hide_secrets(r->arena, replaced_text(r, text));
}
