#include "winldr/files.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "winldr/path.h"

enum { NAMES_MAX = 1 << 17, LINKS_MAX = 40 };

struct winldr_folder {
    const char *place;
    struct root_dir names;
    struct winldr_table by_name; // without regard to case
    int error;                   // 0, or why it cannot be listed
};

void winldr_files_open(struct winldr_files *f, struct root *root, struct arena *arena,
                       const struct winldr_drive *drives, size_t n_drives)
{
    *f =
        (struct winldr_files){.root = root, .arena = arena, .drives = drives, .n_drives = n_drives};
}

void winldr_files_open_root(struct winldr_files *f, struct root *root, struct arena *arena)
{
    struct winldr_drive *drives = arena_array(arena, WINLDR_DRIVES_MAX, sizeof *drives);
    size_t n = 0;
    struct stat st;
    bool by_letter = root_stat(root, "/C:", &st) == 0;
    for (char letter = 'A'; by_letter && letter <= 'Z'; letter++) {
        const char *path = arena_printf(arena, "/%c:", letter);
        if (root_stat(root, path, &st) == 0 && S_ISDIR(st.st_mode)) {
            drives[n++] = (struct winldr_drive){letter, path};
        }
    }
    if (n == 0) {
        drives[n++] = (struct winldr_drive){'C', "/"};
    }
    winldr_files_open(f, root, arena, drives, n);
}

void winldr_files_close(struct winldr_files *f)
{
    for (size_t i = 0; i < f->maps.n; i++) {
        (void)munmap((void *)(uintptr_t)f->maps.items[i].data, f->maps.items[i].size);
    }
    f->maps.n = 0;
}

/* ------------------------------------------------------------------ tables */

/* With room for n items, which keep their order. */
static struct winldr_table table_for(struct arena *a, size_t n)
{
    struct winldr_table t = {.size = 64};
    while (t.size <= 2 * n) {
        t.size *= 2;
    }
    t.slots = arena_array(a, t.size, sizeof *t.slots);
    memset(t.slots, 0, t.size * sizeof *t.slots);
    return t;
}

static void table_put(struct arena *a, struct winldr_table *t, uint64_t hash, const char *key,
                      void *item)
{
    if (2 * t->n >= t->size) {
        struct winldr_table larger = table_for(a, t->size);
        for (size_t i = 0; i < t->size; i++) {
            if (t->slots[i].item) {
                table_put(a, &larger, t->slots[i].hash, t->slots[i].key, t->slots[i].item);
            }
        }
        *t = larger;
    }
    size_t at = hash & (t->size - 1);
    while (t->slots[at].item) {
        at = (at + 1) & (t->size - 1);
    }
    t->slots[at] = (struct winldr_slot){hash, key, item};
    t->n++;
}

/* The next slot with this hash; *at is 0 before the first. NULL: there are no more. */
static const struct winldr_slot *table_next(const struct winldr_table *t, uint64_t hash, size_t *at)
{
    while (t->size) {
        const struct winldr_slot *slot = &t->slots[(hash + (*at)++) & (t->size - 1)];
        if (!slot->item || slot->hash == hash) {
            return slot->item ? slot : NULL;
        }
    }
    return NULL;
}

static void *table_find(const struct winldr_table *t, uint64_t hash, const char *key)
{
    const struct winldr_slot *slot;
    for (size_t at = 0; (slot = table_next(t, hash, &at));) {
        if (strcmp(slot->key, key) == 0) {
            return slot->item;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ folders */

static struct winldr_folder *folder_at(struct winldr_files *f, const char *place)
{
    uint64_t hash = str_hash(place, strlen(place));
    struct winldr_folder *folder = table_find(&f->folders, hash, place);
    if (folder) {
        return folder;
    }
    folder = arena_alloc(f->arena, sizeof *folder);
    folder->place = arena_strdup(f->arena, place);
    folder->error = root_list(f->root, f->arena, place, NAMES_MAX, NULL, &folder->names);
    folder->by_name = table_for(f->arena, folder->names.n);
    for (size_t i = 0; i < folder->names.n; i++) {
        char *name = folder->names.names[i];
        table_put(f->arena, &folder->by_name, winldr_name_hash(str_of(name)), name, name);
    }
    table_put(f->arena, &f->folders, hash, folder->place, folder);
    return folder;
}

/* The name as the folder has it: what is written, else the first that differs in case alone. */
static const char *name_in_folder(const struct winldr_folder *folder, struct str part)
{
    const char *found = NULL;
    const struct winldr_slot *slot;
    uint64_t hash = winldr_name_hash(part);
    for (size_t at = 0; (slot = table_next(&folder->by_name, hash, &at));) {
        struct str name = str_of(slot->key);
        if (str_eq(name, part)) {
            return name.s;
        }
        found = !found && winldr_name_part_is(name, part) ? name.s : found;
    }
    return found;
}

static bool is_short_name(struct str part)
{
    size_t tilde = str_find_char(part, '~');
    return tilde + 1 < part.n && str_is_digit(part.s[tilde + 1]);
}

static const struct winldr_drive *drive_of(const struct winldr_files *f, char letter)
{
    for (size_t i = 0; i < f->n_drives; i++) {
        if ((f->drives[i].letter | 0x20) == (letter | 0x20)) {
            return &f->drives[i];
        }
    }
    return NULL;
}

static void say_kind(struct winldr_entry *e, enum winldr_entry_kind kind, const char *detail)
{
    e->kind = kind;
    e->detail = detail;
}

static const char outside[] =
    "a link that leads out of what is looked at, or a file of a kind that "
    "this mount does not read";

/* Where a link leads whose text is a path of the system that mounts the drive: WSL shows a junction
 * to C:\\Users as a link to /mnt/c/Users (https://github.com/microsoft/WSL/issues/3822). NULL: it
 * is none, or leads out of the root. */
static const char *path_of_link(struct winldr_files *f, const char *place)
{
    static const char mounts[] = "/mnt/";
    const char *top = f->root->path ? f->root->path : "", *rest = NULL;
    char *text = NULL;
    size_t n = strlen(top);
    n -= n && top[n - 1] == '/';
    if (root_readlink(f->root, f->arena, place, &text) < 0) {
        return NULL;
    }
    if (n && strncmp(text, top, n) == 0 && text[n] == '/') {
        rest = text + n;
    } else if (starts_with(text, mounts)) {
        rest = text + sizeof mounts - 1;
        const struct winldr_drive *drive = rest[0] && rest[1] == '/' ? drive_of(f, rest[0]) : NULL;
        rest = drive ? path_join(f->arena, drive->path, rest + 2) : NULL;
    }
    return rest ? winldr_files_name(f, f->arena, rest) : NULL;
}

/* Why a name is not in its folder. */
static void say_missing(struct winldr_entry *e, const struct winldr_folder *folder, struct str part,
                        bool listed)
{
    bool led = listed && folder->error == -ENOENT, is_short = is_short_name(part);
    bool hidden = folder->error && folder->error != -ENOENT && folder->error != -ENOTDIR;
    bool unseen = led || hidden || is_short || folder->names.truncated;
    say_kind(e, unseen ? WINLDR_ENTRY_UNSEEN : WINLDR_ENTRY_MISSING,
             led                       ? outside
             : hidden                  ? strerror(-folder->error)
             : is_short                ? "a short name is known to the volume alone"
             : folder->names.truncated ? "its folder has too many files"
                                       : NULL);
}

/* Walks the parts of `path` behind the drive; returns the place, or NULL with the entry saying why
 * not. A folder that its own folder lists and that is not there is a link: it is followed where it
 * can be, `links` times at most. */
static const char *find_place(struct winldr_files *f, struct winldr_entry *e, const char *path,
                              unsigned links)
{
    const struct winldr_drive *drive =
        winldr_path_kind(path) == WINLDR_PATH_DRIVE ? drive_of(f, path[0]) : NULL;
    if (!drive) {
        say_kind(e, WINLDR_ENTRY_UNSEEN,
                 winldr_path_kind(path) == WINLDR_PATH_OF_DRIVE
                     ? "the working directory of this drive is not known"
                     : "the drive is not part of what is looked at");
        return NULL;
    }
    const char *place = drive->path;
    struct str rest = str_of(path + 3);
    for (bool listed = false; rest.s && rest.n; listed = true) {
        struct str whole = rest, part = str_cut(&rest, '\\');
        struct winldr_folder *folder = folder_at(f, place);
        const char *to = listed && folder->error && links ? path_of_link(f, place) : NULL;
        if (to) {
            to = winldr_path_join(f->arena, to, str_dup(f->arena, whole));
            return find_place(f, e, to, links - 1);
        }
        const char *name = name_in_folder(folder, part);
        if (!name) {
            say_missing(e, folder, part, listed);
            return NULL;
        }
        place = path_join(f->arena, place, name);
    }
    return place;
}

/* The same, through a link at the end. */
static const char *find_end(struct winldr_files *f, struct winldr_entry *e)
{
    struct stat st;
    const char *place = find_place(f, e, e->path, LINKS_MAX);
    for (unsigned links = LINKS_MAX; place && links && root_stat(f->root, place, &st) < 0;
         links--) {
        const char *to = path_of_link(f, place);
        if (!to) {
            break;
        }
        place = find_place(f, e, to, links);
    }
    return place;
}

/* ------------------------------------------------------------------ files */

static struct winldr_file *file_by_id(struct winldr_files *f, dev_t dev, ino_t ino)
{
    for (size_t i = 0; i < f->files.n; i++) {
        if (f->files.items[i]->dev == dev && f->files.items[i]->ino == ino) {
            return f->files.items[i];
        }
    }
    return NULL;
}

static void entry_read_file(struct winldr_files *f, struct winldr_entry *e, const struct stat *st)
{
    e->kind = WINLDR_ENTRY_FILE;
    e->file = file_by_id(f, st->st_dev, st->st_ino);
    if (e->file) {
        return;
    }
    const void *data = NULL;
    size_t size = 0;
    struct stat mapped;
    int rc = root_access(f->root, e->place, R_OK);
    rc = rc < 0 ? rc : root_map(f->root, e->place, &data, &size, &mapped);
    if (rc < 0) {
        say_kind(e, WINLDR_ENTRY_DENIED, strerror(-rc));
        return;
    }
    if (size) {
        VEC_PUSH(f->arena, &f->maps, (struct winldr_map){data, size});
    }
    e->file = arena_alloc(f->arena, sizeof *e->file);
    e->file->served = arena_alloc(f->arena, sizeof *e->file->served);
    e->file->dev = st->st_dev;
    e->file->ino = st->st_ino;
    pe_image_parse(f->arena, data, size, &e->file->image);
    pe_imports_read(f->arena, &e->file->image, &e->file->imports);
    VEC_PUSH(f->arena, &f->files, e->file);
}

static void look_at_place(struct winldr_files *f, struct winldr_entry *e)
{
    struct stat st;
    e->place = find_end(f, e);
    if (!e->place) {
        return;
    }
    int rc = root_stat(f->root, e->place, &st);
    if (rc < 0) {
        say_kind(e, WINLDR_ENTRY_UNSEEN, outside);
    } else if (S_ISDIR(st.st_mode)) {
        say_kind(e, WINLDR_ENTRY_FOLDER, NULL);
    } else if (S_ISREG(st.st_mode)) {
        entry_read_file(f, e, &st);
    } else {
        say_kind(e, WINLDR_ENTRY_DENIED, "not a regular file");
    }
}

struct winldr_entry *winldr_files_get(struct winldr_files *f, const char *path)
{
    uint64_t hash = str_hash(path, strlen(path));
    struct winldr_entry *e = table_find(&f->entries, hash, path);
    if (e) {
        return e;
    }
    e = arena_alloc(f->arena, sizeof *e);
    e->path = arena_strdup(f->arena, path);
    look_at_place(f, e);
    table_put(f->arena, &f->entries, hash, e->path, e);
    return e;
}

struct winldr_entry *winldr_files_place(struct winldr_files *f, const char *path)
{
    struct winldr_entry *e = arena_alloc(f->arena, sizeof *e);
    e->path = arena_strdup(f->arena, path);
    e->place = find_end(f, e);
    return e;
}

const char *winldr_files_name(const struct winldr_files *f, struct arena *a, const char *place)
{
    for (size_t i = 0; i < f->n_drives; i++) {
        const struct winldr_drive *d = &f->drives[i];
        size_t n = strcmp(d->path, "/") == 0 ? 0 : strlen(d->path);
        if (strncmp(place, d->path, n) == 0 && (place[n] == '/' || !place[n])) {
            char *name = arena_printf(a, "%c:\\%s", d->letter, place[n] ? place + n + 1 : "");
            for (char *c = name; *c; c++) {
                *c = *c == '/' ? '\\' : *c;
            }
            return name;
        }
    }
    return NULL;
}

struct winldr_names winldr_files_list(struct winldr_files *f, const char *path)
{
    struct winldr_entry *e = winldr_files_get(f, path);
    if (e->kind != WINLDR_ENTRY_FOLDER) {
        return (struct winldr_names){NULL, 0};
    }
    struct winldr_folder *folder = folder_at(f, e->place);
    return (struct winldr_names){folder->names.names, folder->names.n};
}
