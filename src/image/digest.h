/*
 * Digests of contents ("sha256:HEX", OCI image specification, descriptor.md: digests), checked
 * while the content is read. The hash functions are Nettle's, which libarchive brings along; it
 * takes the processor's own instructions for SHA where there are some.
 */
#ifndef GPUMEND_IMAGE_DIGEST_H
#define GPUMEND_IMAGE_DIGEST_H

#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

enum { DIGEST_MAX = SHA512_DIGEST_SIZE };

/* What a content must come to. */
struct digest {
    const char *algorithm; // "sha256" or "sha512"; NULL: nothing is checked
    const char *text;      // "sha256:HEX"
    bool of_unpacked;      // of the layer as it is unpacked, as a configuration names it
};

/* One content on its way. */
struct digest_run {
    const struct digest *wanted; // NULL: nothing is checked
    union {
        struct sha256_ctx sha256;
        struct sha512_ctx sha512;
    };
};

/* GM_ERR_FORMAT: it is no digest; GM_ERR_UNSUPPORTED: of an algorithm that cannot be checked.
 * `text` must outlive the result. */
int digest_parse(const char *text, struct digest *ret, struct gm_err *err) GM_CHECK;

void digest_begin(struct digest_run *r, const struct digest *wanted);
void digest_take(struct digest_run *r, const void *bytes, size_t n);

/* GM_ERR_FORMAT: the content, which `name` names for the message, is another. */
int digest_end(struct digest_run *r, struct arena *a, const char *name,
               struct gm_err *err) GM_CHECK;

#endif
