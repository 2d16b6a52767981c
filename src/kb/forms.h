/*
 * The forms of questions: what a question must name, may name, asks for and says, and the function
 * that looks the rows up.
 */
#ifndef GPUMEND_KB_FORMS_H
#define GPUMEND_KB_FORMS_H

#include "kb/ask.h"

struct form {
    const char *example;
    unsigned named; // all of these must be named (enum named)
    unsigned any;   // and one of these, if any are given
    unsigned takes; // these may be named as well
    unsigned asked; // one of these must be asked for (enum asked), if any are given
    unsigned asks;  // these may be asked for as well
    unsigned said;  // these may be said (enum said)
    int (*answer)(struct ask *k, struct gm_err *err); // 1: answered, 0: not by this form
};

/* What of the question a form would pass over. */
struct form_rest {
    unsigned named, asked, said;
};

/* The forms in the order they are tried; NULL behind the last. */
const struct form *form_at(size_t i);

struct form_rest form_rest(const struct form *f, const struct question *q);

/* Whether the question is about what the form is about, perhaps with more than it takes. */
bool form_concerns(const struct form *f, const struct question *q);

/* Whether the form takes all of the question. */
bool form_fits(const struct form *f, const struct question *q);

#endif
