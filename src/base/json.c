#include "base/json.h"

void json_put(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new_nocheck(object, key, value);
}

void json_add(json_t *list, json_t *value)
{
    (void)json_array_append_new(list, value);
}

long long json_whole(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

const char *json_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

bool json_text_exceeds(struct str text, size_t max)
{
    size_t values = 0;
    for (size_t i = 0; i < text.n; i++) {
        values += text.s[i] == ',' || text.s[i] == '[' || text.s[i] == '{';
    }
    return values > max;
}
