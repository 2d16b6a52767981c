/*
 * A server of the Model Context Protocol: one JSON-RPC message in, its answer out. It offers the
 * commands that only look as tools, so that an assistant asks the model and does not guess; what
 * runs a command, and which paths may be named, is the caller's. No I/O, no state: a message of the
 * protocol of 2026-07-28 carries all that is to be known of its client, and after `initialize` of
 * the older ones nothing has to be remembered either.
 *
 * Sources: modelcontextprotocol.io, specification 2026-07-28 (server/discover, tools, stdio,
 * version negotiation) and 2025-11-25 (initialize); JSON-RPC 2.0.
 */
#ifndef GPUMEND_MCP_SERVER_H
#define GPUMEND_MCP_SERVER_H

#include <jansson.h>

#include "base/arena.h"
#include "base/str.h"

enum { MCP_LINE_MAX = 8 << 20, MCP_OUTPUT_MAX = 4 << 20 }; // bytes of a message, of an answer

/* A tool's schema of results, docs/json as one document; the last row has no name. */
struct mcp_schema {
    const char *name, *text;
};
extern const struct mcp_schema mcp_schemas[];

/* What came of a command. */
struct mcp_ran {
    int status;        // as the design has it; -1: it was ended, `errors` says why
    struct str output; // standard output
    struct str errors; // standard error
};

struct mcp_server {
    const char *version; // of gpumend
    void *arg;
    /* Runs `gpumend WORDS...` with `input` as standard input. Results live in the arena. */
    void (*run)(void *arg, struct arena *a, const char *const *words, size_t n, struct str input,
                struct mcp_ran *ret);
    /* The path as it is to be given to the command, or NULL: it may not be named. `path` NULL: none
     * was given. */
    const char *(*allow)(void *arg, struct arena *a, const char *path);
    bool machine; // this machine may be described although paths are limited
};

/* The answer to one message, a new reference; NULL where none is due (a notification). */
json_t *mcp_handle(const struct mcp_server *s, struct arena *a, struct str message);

#endif
