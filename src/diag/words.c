/* Variables of the start environment, and words of a shell. */
#include "base/env.h"
#include "diag/internal.h"

const char *diag_getenv(const struct diag *d, const char *name)
{
    return env_value(d->m->config.env, d->m->config.n_env, name);
}

const char *diag_quote(struct diag *d, const char *text)
{
    return str_shell_word(d->a, text);
}

const char *diag_path_command(struct diag *d, const char *library_path)
{
    return *library_path
               ? arena_printf(d->a, "export LD_LIBRARY_PATH=%s", diag_quote(d, library_path))
               : "unset LD_LIBRARY_PATH";
}

const char *diag_shell_word(struct arena *a, const char *text)
{
    return str_shell_word(a, text);
}
