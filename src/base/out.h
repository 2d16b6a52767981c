/*
 * What commands print with: colours only where they help, JSON strings that are always valid.
 */
#ifndef GPUMEND_BASE_OUT_H
#define GPUMEND_BASE_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"

enum out_style { OUT_PLAIN, OUT_BOLD, OUT_RED, OUT_YELLOW, OUT_GREEN, OUT_DIM, OUT_STYLES };

struct out {
    FILE *file;
    bool colour;
    unsigned width; // columns to wrap at
};

/* Colours when `file` is a terminal, NO_COLOR is unset or empty and TERM is not "dumb". */
void out_init(struct out *o, FILE *file);

/* Prints text in a style. */
void out_print(const struct out *o, enum out_style style, const char *fmt, ...)
    __attribute__((format(GM_PRINTF, 3, 4)));

/* Around what is printed in a style by other means. */
void out_begin(const struct out *o, enum out_style style);
void out_end(const struct out *o, enum out_style style);

/* Prints a paragraph wrapped at the width, at blanks that are not in a shell's quotes; every line
 * after the first starts with `indent` blanks. The cursor is taken to stand at column `indent`. */
void out_wrap(const struct out *o, unsigned indent, const char *text);

/* A JSON string; bytes that are not UTF-8 become \xNN text (see str_printable), NULL is null.
 * The reference belongs to the caller. */
json_t *out_json_text(struct arena *a, const char *text);

/* A JSON array of such strings, in this order. */
json_t *out_json_texts(struct arena *a, const char *const *items, size_t n);

/* Writes JSON with jansson's flags. What a reader does not see (str_seen) is escaped: the value
 * stays, and a terminal shows it. Returns 0, or -1. */
int out_json_write(FILE *file, const json_t *doc, size_t flags) __attribute__((warn_unused_result));

/* Prints a document to `file` (two blanks of indent, members in the order they were set, a line
 * end) and drops the reference. Returns 0, or -1 if writing failed. */
int out_json_dump(FILE *file, json_t *doc) __attribute__((warn_unused_result));

#endif
