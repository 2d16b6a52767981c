/* The little of XML that manifests are read by: tags by their name, with their attributes. */
#ifndef GPUMEND_WINLDR_TAG_H
#define GPUMEND_WINLDR_TAG_H

#include "base/str.h"

/* The next tag that begins with `name`, "<file", behind which `text` goes on; comments are passed
 * over. *ret: what the tag holds, within `text`. False: there is none. */
bool winldr_tag_next(struct str *text, const char *name, struct str *ret);

/* The value of an attribute in a tag; empty: it has none. */
struct str winldr_tag_value(struct str tag, const char *name);

#endif
