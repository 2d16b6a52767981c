#include "model/requires.h"

struct py_marker_env model_markers(struct model *m)
{
    const struct py_env *env = m->env;
    bool known = env->major >= 0 && env->minor >= 0;
    return (struct py_marker_env){
        .python_version = known ? arena_printf(m->arena, "%d.%d", env->major, env->minor) : NULL,
        .python_full_version =
            known && env->micro >= 0
                ? arena_printf(m->arena, "%d.%d.%d", env->major, env->minor, env->micro)
                : NULL,
        .sys_platform = "linux",
        .platform_system = "Linux",
        .platform_machine = env->machine,
        .os_name = "posix",
        .implementation_name = env->implementation,
        .platform_python_implementation = "CPython",
    };
}
