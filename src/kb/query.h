/*
 * Questions to the knowledge base: "which driver does CUDA 12.4 need", and their exact form,
 * "driver --with cuda=12.4".
 *
 *   text  ->  what it names, asks for and narrows (kb/question.h)  ->  the form that takes all of
 * it
 *         ->  rows  ->  the answer
 *
 * A form is a row of a table: what the question must name, what it may name, ask for and say, and
 * the function that looks the rows up. A form that would pass something over does not fit; a word
 * that is not understood is named, and the answer is "not known". Nothing is inferred beyond what
 * docs/kb.md states. A key with several values is asked for each of them.
 */
#ifndef GPUMEND_KB_QUERY_H
#define GPUMEND_KB_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "kb/kb.h"

struct kb_hit {
    enum kb_area area;
    const void *row;
    const struct kb_origin *origin;
};

struct kb_answer {
    bool known;
    const char *form;        // which form answered, as `gpumend kb --forms` shows it; NULL: none
    const char *read_as;     // the question in its exact form; NULL: rows were asked for, or a
                             // word was not understood
    const char *text;        // sentences and tables, lines of which begin with two blanks;
                             // if !known "not known" or "not understood", and why
    VEC(struct kb_hit) hits; // the rows it rests on, the most important first
};

/* Answers `text`, given also the n texts "KEY=VALUE". Fails if an area cannot be loaded (a
 * replacement folder), and with GM_ERR_USAGE for a wrong KEY=VALUE. Everything lives in the
 * knowledge base's arena. */
int kb_ask(struct kb *kb, const char *text, const char *const *given, size_t n_given,
           struct kb_answer *ret, struct gm_err *err) GM_CHECK;

/* The forms in the order they are tried: an example of each; NULL behind the last. */
const char *kb_form_example(size_t i);

/* The keys of KEY=VALUE besides packages, and the values of those that have a few of their own;
 * NULL behind the last. */
const char *kb_ask_key(size_t i);
const char *kb_ask_value(const char *key, size_t i);

#endif
