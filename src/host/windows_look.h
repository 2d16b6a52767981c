/* What the files that read a Windows tree share: its hives, and how values are read of them. */
#ifndef GPUMEND_HOST_WINDOWS_LOOK_H
#define GPUMEND_HOST_WINDOWS_LOOK_H

#include "hive/hive.h"
#include "host/internal.h"
#include "winldr/files.h"

struct windows_look {
    struct host_look *l;
    struct winldr_files files;
    struct hive system;    // bins NULL: not read
    struct hive_key set;   // the control set in use
    struct host_fact hive; // of SYSTEM: why a fact of it is unknown
    VEC(struct winldr_map) maps;
};

/* Adds a sentence to the notes of the machine. */
void host_windows_note(struct windows_look *w, const char *text);

/* Yes: `ret` is open, from the file at a path of Windows, or from the running Windows. */
struct host_fact host_windows_open(struct windows_look *w, const char *path, struct hive *ret);

bool host_windows_key(const struct hive *h, struct hive_key from, const char *path,
                      struct hive_key *ret);

/* The text of a value as a fact: no only where the key has no such value. */
struct host_fact host_windows_value(struct windows_look *w, const struct hive *h,
                                    struct hive_key key, const char *name, const char *where);

/* NULL: there is none, or it cannot be read. */
const char *host_windows_text(struct windows_look *w, const struct hive *h, struct hive_key key,
                              const char *name);

/* The Pythons below a key of the hive, "Python". `user`: whose hive it is, NULL: of all users. */
void host_windows_read_pythons(struct windows_look *w, const struct hive *h, const char *path,
                               const char *user, const char *where);

/* PATH and the variables that matter, of all users and of each. */
void host_windows_read_variables(struct windows_look *w);

#endif
