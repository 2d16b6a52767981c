/* Shared by the files that run a script (script.c); not for other rooms. */
#ifndef GPUMEND_MODEL_RUN_H
#define GPUMEND_MODEL_RUN_H

#include "model/model.h"

/* What an object opens by itself, as it was asked for in a use. */
struct model_opened {
    const struct kb_dlopen *row;
    const struct ldso_object *object;
};

/* One imported distribution and what it loaded by itself. */
struct model_imported {
    const struct py_dist *dist;
    const struct kb_import *row;
    VEC(struct ldso_object *) roots;
    bool begun, prepared;            // some, all of the steps of its first use are done
    VEC(const char *) within;        // ... those of these modules of it
    VEC(struct model_opened) opened; // in its use
    bool used;
    bool acts;  // its own first use opens something, apart from the driver, or imports
    bool opens; // ... opens something
};

/* A script while it runs: imports and first uses in one modelled process. */
struct model_run {
    struct model *m;
    struct model_process *out;
    struct ldso_process *p;
    VEC(struct model_imported *) imports;
    struct ldso_object *ctypes; // the _ctypes extension, once it is loaded
    unsigned depth;
    unsigned wishes; // imports, one inside the other, whose failure is worth a warning only
    bool hooked;     // the environment's start-up hook has done its work
    bool full;       // ATTEMPTS_MAX was reached, and is said
};

/* One request: names that are tried in order, by whom, and what it means when none is found. */
struct model_wanted {
    enum model_source source;
    const char *row;
    enum model_phase phase;
    struct ldso_object *caller;
    const char *const *names;
    size_t n;
    bool required, recommended;
    bool repeated; // what it uses has asked the same just before
    unsigned mode;
    const char *feature, *family, *says, *in_program, *variable; // as in struct model_attempt
};

/* State between the cdll step and the preloads that follow it. */
struct model_cdll {
    bool done, failed;
    const char *file, *says;
    unsigned mode;
    size_t attempt; // its place among the attempts
};

/* ---- attempt.c */

/* Tries the names in order and records what became of it, for `by` (NULL: for the program itself);
 * the object, or NULL. */
struct ldso_object *model_run_attempt(struct model_run *r, struct model_imported *by,
                                      const struct model_wanted *w);

/* What an import loads is not known here: the process cannot be called fine. */
void model_run_unsure(struct model_run *r, const char *text);

/* The object whose code calls dlopen for the interpreter, and for ctypes. */
struct ldso_object *model_run_interpreter(struct model_run *r);
struct ldso_object *model_run_ctypes(struct model_run *r);

/* The first loaded object whose soname or file name matches the glob; NULL: none. */
struct ldso_object *model_run_matching(struct model_run *r, const char *glob);

/* ---- steps.c: one step of an import or first use; false if it failed */

bool model_step_extension(struct model_run *r, struct model_imported *by, const struct kb_step *s);

/* `retry_follows`: a later preload step opens the file again when this one fails. */
bool model_step_cdll(struct model_run *r, struct model_imported *by, const struct kb_step *s,
                     bool retry_follows, struct model_cdll *state);

bool model_step_preload(struct model_run *r, struct model_imported *by, const struct kb_step *s,
                        struct model_cdll *state);

bool model_step_dlopen(struct model_run *r, struct model_imported *by, const struct kb_step *s);

/* ---- rows.c */

/* Makes what the objects that `by` brought open by themselves, in the import or in the first use,
 * and what these bring. */
void model_run_rows(struct model_run *r, struct model_imported *by, bool use);

/* The distribution's entry among those that were imported; NULL: it was not. */
struct model_imported *model_run_imported(struct model_run *r, const struct py_dist *dist);

/* ---- unknown.c */

/* An import without a row: pure Python that needs no GPU package loads nothing of interest. */
void model_import_unknown(struct model_run *r, const char *name);

#endif
