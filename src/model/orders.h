/*
 * The orders in which a program may import packages and use them for the first time. The imports
 * keep the order that is asked about; each first use comes at any time after its import, or not at
 * all, which is the same as last.
 *
 * Not every order is modelled. Two steps that stand next to each other may change places where
 * neither notices: no name that one asks for is answered by what the other has loaded, or it is
 * answered by the file that the asker finds by itself; neither asks whether something is loaded
 * that the other loads; they are not the first to import or use the same package; and neither makes
 * symbols global or meets a defect. All this is read out of the processes that were modelled.
 * Orders that come out of one another by such changes are one; one of each is modelled (sleep sets,
 * after P. Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems", 1996),
 * and what is learnt from it counts for the next.
 */
#ifndef GPUMEND_MODEL_ORDERS_H
#define GPUMEND_MODEL_ORDERS_H

#include "model/model.h"

/* A process with a copy of the script, not run and not appended. In the model's arena. */
struct model_process *model_new_process(struct model *m, const char *const *script, size_t n);

/* Appends and runs it; its group is set by the caller. */
void model_add_process(struct model *m, struct model_process *p);

#endif
