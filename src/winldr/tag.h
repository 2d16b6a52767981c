/* The little of XML that manifests are read by: tags by their name, with their attributes. */
#ifndef GPUMEND_WINLDR_TAG_H
#define GPUMEND_WINLDR_TAG_H

#include "base/arena.h"
#include "base/str.h"

/* A manifest as UTF-8, in the arena where it begins with a byte order mark of UTF-16. Without one
 * Wine 8.0 does not read UTF-16. */
struct str winldr_tag_text(struct arena *a, struct str bytes);

/* The next tag of this name, with any namespace's prefix ("file": <file>, <asm:file>), behind which
 * `text` goes on; comments are passed over. *ret: what the tag holds, within `text`. False: there
 * is none. */
bool winldr_tag_next(struct str *text, const char *name, struct str *ret);

/* The value of an attribute in a tag; empty: it has none. */
struct str winldr_tag_value(struct str tag, const char *name);

#endif
