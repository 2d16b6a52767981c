/*
 * Many nodes, each by lines of `gpumend export ndjson`, as an answer that a person can read.
 *
 *   fleet_begin()  ->  fleet_add_line() for each line  ->  fleet_report()
 *
 * Of one node the newest line counts, and the one before it is the last sweep. A line that is
 * damaged, or no document of a node, is named and stops nothing.
 *
 * Who differs: nodes with the same kinds of GPUs are compared with one another, fact by fact. A
 * fact has a majority where more than half of at least FLEET_GROUP_MIN nodes share its value; who
 * has another value differs from it. Where there is no majority nobody differs, and the cohorts
 * show it.
 */
#ifndef GPUMEND_FLEET_FLEET_H
#define GPUMEND_FLEET_FLEET_H

#include <jansson.h>

#include "base/arena.h"
#include "base/str.h"

enum {
    FLEET_GROUP_MIN = 3,
    FLEET_DAMAGED_MAX = 100000,
    FLEET_DAMAGED_SHOWN = 100,
    FLEET_LINES_MAX = 2000000
};

struct fleet_node {
    const char *name, *time; // of `now`
    json_t *now, *before;    // documents of node/node.h; before: or NULL
    const char *kind;        // its GPUs, as one text; "": they are unknown
};

struct fleet_damage {
    const char *file, *why;
    size_t line; // from 1; 0: the file as a whole
};

struct fleet {
    struct arena *arena;
    VEC(struct fleet_node) lines; // as they came; one for each node after fleet_report()
    VEC(struct fleet_damage) damaged;
    size_t n_damaged; // all of them
};

void fleet_begin(struct fleet *f, struct arena *a);

/* `file` names it in messages and must outlive the fleet. */
void fleet_add_line(struct fleet *f, const char *file, size_t line, struct str text);

/* Whether it is a time as nodes and snapshots have it: "2026-05-01T12:00:00Z". */
bool fleet_is_time(const char *text);

/* A file that gives no line at all: line 0. */
void fleet_add_damage(struct fleet *f, const char *file, const char *why);

/* The whole answer (docs/json/fleet.schema.json); a new reference. */
json_t *fleet_report(struct fleet *f);

/* Gives the documents back; the arena is the caller's. */
void fleet_end(struct fleet *f);

#endif
