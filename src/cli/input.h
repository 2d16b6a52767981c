/*
 * A file that a word of the command line names as input: a log, a document. It may be a pipe, such
 * as the shell's <(COMMAND), or a terminal.
 */
#ifndef GPUMEND_CLI_INPUT_H
#define GPUMEND_CLI_INPUT_H

/* Opens it for reading, close-on-exec; -1: *ret_why says why not. A named pipe that nobody opens
 * for writing is waited for ten seconds, and memory, random numbers and disks are refused. */
int cli_open_input(const char *path, const char **ret_why);

#endif
