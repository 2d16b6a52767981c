/*
 * Whether a text describes failures or shows one. A guide, a changelog, source code, a plan or a
 * chat holds the very words of a failure, but nothing failed where it was written.
 *
 * Each line counts for a document (headings, lists of sentences, tables of a markup, what people
 * say to one another), for source code, for the output of a program, or for nothing. Sentences
 * directly below a program's line are that program's, and "I" and "my" are of somebody who reports
 * what they saw. Only the beginning of a long text is looked at.
 */
#ifndef GPUMEND_LOG_DOCUMENT_H
#define GPUMEND_LOG_DOCUMENT_H

#include "base/str.h"
#include "log/log.h"

/* `found` is what was read out of the text whose beginning is `head`; facts count their lines by
 * place where all have one number. */
bool document_describes(struct log_rules *r, struct str head, const struct log_result *found,
                        bool by_place);

/* The expressions for its lines, of which there are document_lines_count(). */
size_t document_lines_count(void);
void document_lines_prepare(struct log_rules *r);

#endif
