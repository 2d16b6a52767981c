/* The environment that a command works with, and what it may do from a point on. */
#include <string.h>

#include "base/env.h"
#include "base/str.h"
#include "cli/cli.h"

void cli_env_unset(struct cli_env *env, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < env->vars.n; i++) {
        if (!env_value_of(env->vars.items[i], name)) {
            env->vars.items[kept++] = env->vars.items[i];
        }
    }
    env->vars.n = kept;
}

bool cli_env_set(struct cli_env *env, struct arena *a, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment) {
        return false;
    }
    cli_env_unset(env, arena_strndup(a, assignment, (size_t)(equals - assignment)));
    VEC_PUSH(a, &env->vars, assignment);
    return true;
}

const char *cli_env_get(const struct cli_env *env, const char *name)
{
    return env_value(env->vars.items, env->vars.n, name);
}

bool cli_parse_glibc(const char *text, int *ret)
{
    uint64_t minor = 0;
    struct str s = str_of(text);
    if (!str_starts(s, "2.")) {
        return false;
    }
    s = (struct str){s.s + 2, s.n - 2};
    s.n = str_find_char(s, '.'); // 2.41.1 is 2.41
    if (!str_u64(s, &minor) || minor < 1 || minor > 999) {
        return false;
    }
    *ret = (int)minor;
    return true;
}

void cli_only_look(struct sandbox stays)
{
    stays.processes |= cli_names_process();
    root_open_early("/proc/1/environ"); // says which container this is
    sandbox_enter(&stays);
}
