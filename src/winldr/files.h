/*
 * What lies at a path of a Windows file system that is seen below a root: a mounted drive, a
 * captured tree. Asked once; process models share what was found.
 *
 *   "C:\\Python312\\DLLs\\x.dll"  ->  the drive's folder below the root, then each part in its
 *   folder's list without regard to case  ->  a file with its parsed image, a folder, or nothing
 *
 * Two names that differ in case alone, which only a file system of another kind can have, count as
 * what is written, then as the first one. A short name ("PROGRA~1") that is not there as written
 * cannot be resolved, since it is kept in the volume: WINLDR_ENTRY_UNSEEN, as are drives and
 * network paths that nobody has given a place, and links (reparse points) that lead out of the
 * root.
 */
#ifndef GPUMEND_WINLDR_FILES_H
#define GPUMEND_WINLDR_FILES_H

#include <sys/types.h>

#include "base/root.h"
#include "pe/image.h"

enum { WINLDR_DRIVES_MAX = 26 };

struct winldr_drive {
    char letter;      // 'C'
    const char *path; // of its root folder, absolute below the root
};

struct winldr_file;

/* The imports of a file whose functions were all found in another one, none of them led on to a
 * third: the process models need not look again. */
struct winldr_served {
    size_t import; // index
    const struct winldr_file *by;
};
struct winldr_served_list {
    VEC(struct winldr_served) items;
};

/* One file, by what Windows calls its file id: hard links are one file. */
struct winldr_file {
    dev_t dev;
    ino_t ino;
    struct pe_image image;
    struct pe_imports imports;
    struct winldr_served_list *served;
};

enum winldr_entry_kind {
    WINLDR_ENTRY_MISSING,
    WINLDR_ENTRY_FILE,
    WINLDR_ENTRY_FOLDER,
    WINLDR_ENTRY_DENIED, // it is there and cannot be opened: `detail`
    WINLDR_ENTRY_UNSEEN, // whether it is there cannot be determined: `detail`
};

struct winldr_entry {
    const char *path;  // as asked, full
    const char *place; // below the root; NULL unless something is there
    enum winldr_entry_kind kind;
    const char *detail;
    struct winldr_file *file; // with WINLDR_ENTRY_FILE
};

struct winldr_folder;

struct winldr_map { // unmapped by winldr_files_close()
    const void *data;
    size_t size;
};

/* What was asked for, by a hash of its name. */
struct winldr_slot {
    uint64_t hash;
    const char *key;
    void *item; // NULL: free
};
struct winldr_table {
    struct winldr_slot *slots;
    size_t size, n; // size: 0 or a power of two
};

struct winldr_files {
    struct root *root;
    struct arena *arena;
    const struct winldr_drive *drives;
    size_t n_drives;
    struct winldr_table entries, folders; // by their paths
    VEC(struct winldr_file *) files;
    VEC(struct winldr_map) maps;
};

/* root, arena and drives must outlive the files. */
void winldr_files_open(struct winldr_files *f, struct root *root, struct arena *arena,
                       const struct winldr_drive *drives, size_t n_drives);
/* The same with the drives that the root has: "/C:", "/D:" and so on, as the running Windows is
 * seen, otherwise the root as drive C. */
void winldr_files_open_root(struct winldr_files *f, struct root *root, struct arena *arena);
void winldr_files_close(struct winldr_files *f);

/* Never NULL; `path` is full (winldr_path_full). */
struct winldr_entry *winldr_files_get(struct winldr_files *f, const char *path);

/* The same without reading the file: `kind` of what is there is not filled in. For files that are
 * no images. */
struct winldr_entry *winldr_files_place(struct winldr_files *f, const char *path);

/* The path that Windows gives to what lies at `place` below the root; NULL: on no drive. */
const char *winldr_files_name(const struct winldr_files *f, struct arena *a, const char *place);

/* The names in a folder, sorted, as they are written; n 0: none, or it is not there. */
struct winldr_names {
    char *const *items;
    size_t n;
};
struct winldr_names winldr_files_list(struct winldr_files *f, const char *path);

#endif
