/*
 * An environment as execve(2) takes it: "NAME=VALUE" texts. Where a name is set twice, the first
 * one counts, as in getenv(3). A text without "=" sets nothing.
 */
#ifndef GPUMEND_BASE_ENV_H
#define GPUMEND_BASE_ENV_H

#include <stdbool.h>
#include <stddef.h>

/* The value that the entry gives to the variable; NULL: it sets another one, or nothing. */
const char *env_value_of(const char *entry, const char *name);

/* The value of a variable, which points into the entry, or NULL. */
const char *env_value(const char *const *env, size_t n, const char *name);

#endif
