/* What the sections of the report for issues share. */
#ifndef GPUMEND_REPORT_PASTE_INTERNAL_H
#define GPUMEND_REPORT_PASTE_INTERNAL_H

#include "report/paste.h"

struct paste {
    struct out out; // the block, in memory
    struct model *m;
    struct arena *a;
    struct snapshot_redactor *names;
};

void paste_section(struct paste *p, const char *title);

/* "  key               value", wrapped. Both may be foreign. */
void paste_line(struct paste *p, const char *key, const char *value);

/* The same with a key of ours, and long folders as they are, not as <env> and <site>. */
void paste_whole(struct paste *p, const char *key, const char *value);

/* A line with a value that is known only when the fact is "yes": otherwise its state and why. */
void paste_fact(struct paste *p, const char *key, const struct host_fact *f, const char *value);

/* "unknown: why" */
const char *paste_unknown(struct paste *p, const char *why);

/* Foreign text as it may be shown: redacted, printable, of bounded length. */
const char *paste_shown(struct paste *p, const char *text);

void paste_system(struct paste *p); // system, GPUs, drivers
void paste_stack(struct paste *p);  // Python, packages, toolkits, libraries, variables

#endif
