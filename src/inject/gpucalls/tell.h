/*
 * What is said of a failed call: shared by the buffer (text.c), the arguments (arguments.c), the
 * words for one failure (words.c), and the records of what was told (tell.c).
 */
#ifndef GPUMEND_INJECT_GPUCALLS_TELL_H
#define GPUMEND_INJECT_GPUCALLS_TELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/gpucalls/gpucall.h"

enum {
    CALL_TEXT = 384,
    SYMBOL_MAX = 256,
    PLACE_PATH = 1024,
    ROOM = 40960,
};

struct place {
    char object[PLACE_PATH], symbol[SYMBOL_MAX]; // empty: not known
    uintptr_t offset;                            // without an object: the address
};

struct record {
    uint64_t key; // claimed by compare-and-swap; 0: free
    const char *name;
    enum gpucall_api api;
    int result;
    long pid;
    uint32_t order;         // the first failure of all is 0
    uint32_t n, n_harmless; // how often; how often the call around it succeeded
    uint32_t told, ready;
    char call[CALL_TEXT]; // name and arguments
    struct place place;   // where it was called; the loader forgets its objects before the end
    struct gpucall_python_frame python; // the innermost; line 0: none
};

struct text {
    char *at;
    size_t n, max;
};

struct failure {
    const struct gpucall_call *call;
    const struct gpucall_trace *trace;
    const struct record *record, *inner; // inner: why, or NULL
    bool first;
};

/* Appends; what does not fit is cut. */
void gpucall_text_put(struct text *t, const char *s);

void gpucall_put_char(struct text *t, char c);

/* A number to base 10 or 16. */
void gpucall_text_put_number(struct text *t, uint64_t value, unsigned base);

void gpucall_put_signed(struct text *t, int64_t value);

/* The inside of a JSON text; also what a terminal is shown. */
void gpucall_text_put_escaped(struct text *t, const char *s);

/* A JSON string. */
void gpucall_put_string(struct text *t, const char *s);

void gpucall_put_string_or_null(struct text *t, const char *s);

/* "bytesize=1024, flags=0", or as members of a JSON object. */
void gpucall_put_arguments(struct text *t, const struct gpucall_call *c, bool json);

/* A return address: object and offset, and the function where one is named. */
void gpucall_place_find(uintptr_t pc, struct place *ret);

/* "OBJECT+0xOFFSET (SYMBOL)"; without an object, the address. */
void gpucall_put_place(struct text *t, const struct place *p);

void gpucall_put_json_place(struct text *t, const struct place *p);

/* "100 (CUDA_ERROR_NO_DEVICE)", or the number alone. */
void gpucall_put_error(struct text *t, enum gpucall_api api, int code);

/* The Python file and line of a record, if one is known. */
void gpucall_put_python_of(struct text *t, const struct record *r);

void gpucall_put_json_python(struct text *t, const struct gpucall_python_frame *frame);

/* The failure in words, with its backtrace. */
void gpucall_put_failure(struct text *t, const struct failure *f);

void gpucall_put_json_error(struct text *t, enum gpucall_api api, const char *name, int code);

/* How every event begins: its kind, process, thread and time. */
void gpucall_put_json_start(struct text *t, const char *event, long pid);

/* The failure as one line of JSON. */
void gpucall_put_json_failure(struct text *t, const struct failure *f);

#endif
