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

/* Why Windows may refuse a manifest, or read another one out of it than the two functions here, as
 * a noun ("a tag that is not closed"); NULL: it is of a plain form. Source: Microsoft, "Assembly
 * Manifests" (xmlns and manifestVersion are required); Wine 8.0 takes none of these for one. */
const char *winldr_tag_doubt(struct str text);

/* The value of an attribute in a tag; empty: it has none. */
struct str winldr_tag_value(struct str tag, const char *name);

#endif
