#include "base/env.h"

#include <string.h>

const char *env_value_of(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 && entry[n] == '=' ? entry + n + 1 : NULL;
}

const char *env_value(const char *const *env, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        const char *value = env_value_of(env[i], name);
        if (value) {
            return value;
        }
    }
    return NULL;
}
