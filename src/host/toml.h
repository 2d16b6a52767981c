/*
 * The settings of a TOML file, line by line, as far as those of container engines need it: tables,
 * keys with dots and quotes, and values that end on their line. Arrays of several lines, tables in
 * one line and escapes in texts are not understood: their lines give nothing, or the text as it
 * stands there.
 */
#ifndef GPUMEND_HOST_TOML_H
#define GPUMEND_HOST_TOML_H

#include "base/str.h"

enum { HOST_TOML_LINES_MAX = 20000 };

struct host_toml {
    struct str rest;     // of the text; to be set
    const char *section; // NULL at the beginning
    size_t lines;
    const char *key;   // with its table, without quotes: "a.b.key"
    const char *value; // without quotes
};

/* The next setting; false at the end. Texts live in the arena. */
bool host_toml_next(struct host_toml *t, struct arena *a);

#endif
