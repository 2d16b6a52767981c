/* Which folder's environment `uv run` uses for a project: see uv.c. Not for other rooms. */
#ifndef GPUMEND_LAUNCH_UV_H
#define GPUMEND_LAUNCH_UV_H

#include "launch/start.h"

/* The folder that has the environment of the project in `project` (absolute, normal): its own, or
 * the root of the workspace that it is a member of. NULL: its settings do not say which in a way
 * that is understood here. Lives in the arena of the start. */
const char *launch_uv_root(struct launch_start *s, const char *project);

#endif
