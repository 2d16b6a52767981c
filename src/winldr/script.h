/*
 * What the scripts of imports share: small questions to the tree, and what an import does with
 * folders and files. Texts and paths live in the arena of the files.
 */
#ifndef GPUMEND_WINLDR_SCRIPT_H
#define GPUMEND_WINLDR_SCRIPT_H

#include "winldr/python.h"

/* Of an extension module, and of ctypes.CDLL with a path. */
enum { WINLDR_IMPORT_FLAGS = WINLDR_DEFAULT_DIRS | WINLDR_DLL_LOAD_DIR };

const char *winldr_below(struct winldr_files *f, const char *folder, const char *name);
enum winldr_entry_kind winldr_kind(struct winldr_files *f, const char *path);
bool winldr_is_file(struct winldr_files *f, const char *path);
bool winldr_is_folder(struct winldr_files *f, const char *path);
bool winldr_name_ends(const char *name, const char *suffix);

/* A text of at most 256 KiB. False: it is not there, or larger. */
bool winldr_read_text(struct winldr_files *f, const char *path, struct str *ret);

/* Loads each file of a folder whose name has this beginning and end, in the order of names. */
void winldr_load_files(struct winldr_process *p, const char *folder, const char *prefix,
                       const char *suffix);

/* Whether a variable without this value may have one, which is not known: the process is cut. */
bool winldr_is_unseen(struct winldr_process *p, const struct winldr_python *py, const char *value,
                      const char *name);

/* Adds a folder for DLLs if it is there. */
bool winldr_add_existing(struct winldr_process *p, const char *folder);

#endif
