/* Words and small answers that every step uses. */
#include <string.h>

#include "base/str.h"
#include "py/env.h"
#include "setup/internal.h"

const char *setup_device_name(const struct setup_plan *plan)
{
    return plan->other == SETUP_OTHER_XPU      ? "xpu"
           : plan->other == SETUP_OTHER_VULKAN ? "vulkan"
           : plan->other == SETUP_OTHER_HIP    ? "rocm"
                                               : choose_device_name(plan->device);
}

bool setup_is_wsl(const struct planner *p)
{
    return p->m->host && p->m->host->wsl.is_wsl.state == HOST_YES;
}

bool setup_is_container(const struct planner *p)
{
    return p->m->host && p->m->host->container.inside.state == HOST_YES;
}

const char *setup_gpu_text(const struct planner *p)
{
    const struct host_gpu *g = p->m->gpu;
    const char *kind = g->compute_capability.value ? arena_printf(p->a, ", compute capability %s",
                                                                  g->compute_capability.value)
                       : g->gfx.value              ? arena_printf(p->a, ", %s", g->gfx.value)
                                                   : "";
    return arena_printf(p->a, "%s%s", g->name ? g->name : "the GPU", kind);
}

const char *setup_word(const struct planner *p, const char *text)
{
    return p->plan->windows ? str_powershell_word(p->a, text) : str_shell_word(p->a, text);
}

/* The environment's interpreter, ready for the shell. */
const char *setup_python_word(const struct planner *p)
{
    const char *folder = p->plan->folder;
    return p->plan->windows
               ? arena_printf(p->a, "& %s",
                              setup_word(p, arena_printf(p->a, "%s\\Scripts\\python.exe", folder)))
               : setup_word(p, arena_printf(p->a, "%s/bin/python", folder));
}

const char *setup_python_code(const struct planner *p, const char *code)
{
    return arena_printf(p->a, "%s -c %s", setup_python_word(p),
                        setup_word(p, arena_printf(p->a, PY_CODE_START "%s", code)));
}

struct setup_step *setup_step_new(struct planner *p, enum setup_step_kind kind, const char *title)
{
    VEC_PUSH(p->a, &p->plan->steps, (struct setup_step){.kind = kind, .title = title});
    return &p->plan->steps.items[p->plan->steps.n - 1];
}

void setup_command_add(struct planner *p, struct setup_step *s, const char *command)
{
    VEC_PUSH(p->a, &s->commands, command);
}

const struct host_problem *setup_problem(const struct host_gpu *g)
{
    for (size_t i = 0; i < g->problems.n; i++) {
        if (g->problems.items[i].state != HOST_YES) {
            return &g->problems.items[i];
        }
    }
    return NULL;
}

/* As a person types it. */
const char *setup_installer(const struct planner *p)
{
    const char *folder = setup_word(p, p->plan->folder);
    return p->plan->uv ? arena_printf(p->a, "uv pip install --python %s", folder)
                       : arena_printf(p->a, "%s -m pip install", setup_python_word(p));
}
