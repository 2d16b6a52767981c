/* The tools: which command each is, and what may be asked of it. */
#ifndef GPUMEND_MCP_TOOLS_H
#define GPUMEND_MCP_TOOLS_H

#include "mcp/server.h"

/* For tools/list; a new reference. Always in the same order. */
json_t *mcp_tools_json(void);

/* Whether there is a tool of this name. */
bool mcp_has_tool(const char *name);

/* The result of tools/call, errors included: a new reference. `arguments` may be NULL. */
json_t *mcp_call(const struct mcp_server *s, struct arena *a, const char *name,
                 const json_t *arguments);

#endif
