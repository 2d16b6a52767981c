/*
 * ld.so.conf: which folders ldconfig would put into ld.so.cache. The loader itself never reads it,
 * so it predicts nothing; it explains a library that lies in a named folder and is not in the
 * cache: ldconfig was not run.
 *
 *     # comment            to the end of the line
 *     include GLOB...      further files, sorted by name; relative to the including file's folder
 *     hwcap ...            ignored
 *     /folder              one a line, trailing slashes dropped
 *
 * Source: glibc 2.36, elf/ldconfig.c (parse_conf, parse_conf_include, add_dir_1). Not modelled:
 * "=TYPE" suffixes of the libc5 days.
 */
#ifndef GPUMEND_LDSO_CONF_H
#define GPUMEND_LDSO_CONF_H

#include "base/arena.h"
#include "base/root.h"
#include "base/str.h"

enum {
    LDSO_CONF_DEPTH_MAX = 16,
    LDSO_CONF_FILES_MAX = 256,
    LDSO_CONF_DIRS_MAX = 4096,
    LDSO_CONF_BYTES_MAX = 256 << 10, // of one file
};

enum ldso_conf_kind { LDSO_CONF_DIR, LDSO_CONF_INCLUDE };

struct ldso_conf_line {
    enum ldso_conf_kind kind;
    struct str text; // the folder, or the patterns behind "include"; blanks trimmed
};

/* The next line that says something; false at the end. Points into the text. */
bool ldso_conf_next(struct str *rest, struct ldso_conf_line *ret);

struct ldso_conf_dir {
    const char *dir;  // absolute
    const char *file; // that names it
};

struct ldso_conf {
    VEC(struct ldso_conf_dir) dirs; // in the order of ldconfig, each once
    size_t n_files;                 // that were read
};

/* Reads /etc/ld.so.conf and what it includes. A file that is not there or cannot be read names no
 * folder; at the bounds above reading ends, and root->cut says so. */
void ldso_conf_read(struct root *r, struct arena *a, struct ldso_conf *ret);

#endif
