/*
 * Two documents of `check --json` as one: what differs in verdict, facts, packages, libraries and
 * findings (docs/json/compare.schema.json). "Not known" is a value: a fact that one of the two does
 * not have is null there.
 */
#ifndef GPUMEND_MCP_COMPARE_H
#define GPUMEND_MCP_COMPARE_H

#include <jansson.h>

#include "base/arena.h"

/* A new reference. Texts that are built live in the arena until then. */
json_t *mcp_compare(struct arena *a, const json_t *before, const json_t *after);

#endif
