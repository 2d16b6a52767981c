/*
 * A CDI specification on this machine: shared by the file that reads the folders (files.c) and the
 * one that judges a document (spec_judge.c).
 */
#ifndef GPUMEND_CDI_JUDGE_H
#define GPUMEND_CDI_JUDGE_H

#include <jansson.h>

#include "cdi/files.h"
#include "host/host.h"

struct judge {
    struct root *root;
    struct arena *arena;
    const struct host *host;
    struct cdi_files *files;
    struct cdi_file *file; // in hand
    bool engine;           // ask which are installed
};

/* Adds a problem to the file that is judged. */
void cdi_judge_add_problem(struct judge *j, enum cdi_fault_kind kind, enum cdi_severity severity,
                           const char *text);

/* The vendor of a kind, "nvidia.com/gpu". */
enum host_vendor cdi_kind_vendor(const char *kind);

/* Judges a document that could be read. */
void cdi_judge_document(struct judge *j);

#endif
