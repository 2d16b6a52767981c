/*
 * Shared by the files of the audit library of `run --trace`: its hooks (trace.c), a line (line.c),
 * the file of lines (file.c), the objects of the process (objects.c), and the calls that it watches
 * (calls.c).
 */
#ifndef GPUMEND_INJECT_TRACE_TRACE_H
#define GPUMEND_INJECT_TRACE_TRACE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "inject/loss_page.h"

enum {
    LINE_MAX_BYTES = 7168,
    PATH_BYTES = 4096,
};

/* ------------------------------------------------------------------ what the loader calls */

#define LA_EXPORT __attribute__((visibility("default")))

LA_EXPORT unsigned la_version(unsigned version);
LA_EXPORT char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag);
LA_EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);
LA_EXPORT unsigned la_objclose(uintptr_t *cookie);
LA_EXPORT void la_activity(uintptr_t *cookie, unsigned flag);
LA_EXPORT void la_preinit(uintptr_t *cookie);
LA_EXPORT uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                                 unsigned *flags, const char *name);

/* ------------------------------------------------------------------ line.c */

struct line {
    size_t n;
    bool cut; // a text did not fit
    char text[LINE_MAX_BYTES];
};

bool trace_has_char(const char *s, char c);

void trace_put_plain(struct line *l, const char *s);

/* As out_json_text() writes it: what is not printable UTF-8 becomes \xNN. NULL is null. Behind a
 * text that was cut there is room for words, and other texts are null. */
void trace_line_put_text(struct line *l, const char *s);

void trace_put_member(struct line *l, const char *key, const char *value);
void trace_put_count(struct line *l, const char *key, long value);

/* ------------------------------------------------------------------ file.c */

struct trace_process {
    const char *file;
    int fd; // -1: not open; read and changed by the __atomic functions
    dev_t dev;
    ino_t ino;
    int pid;
    struct loss_page *losses;    // or NULL
    bool started, adding, ended; // changed under the loader's lock
    const char *preload;         // LD_PRELOAD at the start, or NULL
    char exe[PATH_BYTES];
    uintptr_t program_headers; // of the main program (AT_PHDR)
    size_t n_program_headers;
};

extern struct trace_process trace_me;

long trace_raw(long n, long a, long b, long c, long d);
int trace_raw_open(const char *path, int flags);
long trace_raw_stat(const char *path, struct stat *ret, int flags);
int trace_raw_pid(void);

/* The descriptor, if it is still that of the record; else a new one. */
int trace_record(void);

void trace_begin_event(struct line *l, const char *event);
void trace_end_event(struct line *l);

/* A child that was forked goes on with what its parent had loaded. */
void trace_look_for_fork(struct line *l);

/* ------------------------------------------------------------------ objects.c */

/*
 * What is open, in storage of our own: the loader's link maps go with a dlclose in another thread,
 * and calls are noted before the loader's lock is taken. Changed under that lock, read without:
 * names are never taken back, so that the worst of a race is another object's name.
 */
struct object {
    uintptr_t from, to; // its addresses; from 0: not known, or not open
    const char *name;
    bool open, has_runpath;
};

/* The cookie of an object is its row, where it has one. */
struct object *trace_object_of(const uintptr_t *cookie);

/* rtld-audit(7): a cookie that was not changed "is initialized to point to link map". Valid where
 * the loader asks about the object, under its lock. */
const struct link_map *trace_map_of(const uintptr_t *cookie);

const char *trace_object_name(const uintptr_t *cookie);

bool trace_is_program(const struct object *o);

bool trace_has_tag(const struct link_map *map, Elf64_Sxword tag);

struct object *trace_add_object(const struct link_map *map);

/* The object that the loader takes for the caller: that whose code the call returns to, else the
 * program (glibc, elf/dl-open.c: _dl_find_dso_for_object). NULL: one that has no row, perhaps. */
const char *trace_caller_at(uintptr_t address);

#endif
