/*
 * A line on the terminal while a command works for longer than half a second:
 *
 *     cli_progress_begin()    before the work
 *     cli_progress_step()     what is done now
 *     cli_progress_end()      erases it; before anything is printed
 *
 * It is on standard error, and only where that is a terminal that can erase it: nothing of it is in
 * a file, a pipe, or a log. A timer draws it, so that it moves while nothing is read.
 */
#ifndef GPUMEND_CLI_PROGRESS_H
#define GPUMEND_CLI_PROGRESS_H

void cli_progress_begin(const char *step);

/* The text must live until the end. */
void cli_progress_step(const char *step);

void cli_progress_end(void);

#endif
