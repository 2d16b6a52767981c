/*
 * The words of a program as one line, as Windows hands them over: CreateProcess() takes a line, and
 * the program takes it apart by the rules of CommandLineToArgvW() and of Microsoft's C runtime
 * ("Parsing C command-line arguments"): a word in quotes may have blanks; 2n backslashes before a
 * quote are n of them, 2n+1 are n and a quote; elsewhere a backslash is one.
 */
#ifndef GPUMEND_LAUNCH_COMMAND_LINE_H
#define GPUMEND_LAUNCH_COMMAND_LINE_H

#include <stdbool.h>

#include "base/arena.h"

/* words[0] is the program, whose quotes have other rules: it is always quoted, and no path has a
 * quote. NULL: it has one. */
const char *launch_command_line(struct arena *a, const char *const *words, size_t n);

#endif
