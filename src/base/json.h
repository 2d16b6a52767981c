/*
 * JSON values that are put together. A value that could not be made for want of memory (NULL) is
 * left out; the text of the whole then cannot be made either, or is shorter: whoever writes it asks
 * json_dumps() for its result. And the look-up of a text, the kind of value that is mostly read.
 */
#ifndef GPUMEND_BASE_JSON_H
#define GPUMEND_BASE_JSON_H

#include <jansson.h>

#include "base/str.h"

/* Both take the value over. The key, and texts in the value, are not checked for UTF-8 here. */
void json_put(json_t *object, const char *key, json_t *value);
void json_add(json_t *list, json_t *value);

/* The text of that key; NULL: there is none, or it is another kind of value, or `object` is. It
 * lives as long as the object. */
const char *json_text(const json_t *object, const char *key);

/* The whole number of a key; 0 if there is none, or another kind of value. */
long long json_whole(const json_t *object, const char *key);

/* Whether the text of a document may have more values than `max`: jansson makes one of each comma
 * and bracket, some twenty times as large as its text. */
bool json_text_exceeds(struct str text, size_t max);

#endif
