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

enum { IMAGE_DIGEST_MAX = SHA512_DIGEST_SIZE };

/* What a content must come to. */
struct image_digest {
    const char *algorithm; // "sha256" or "sha512"; NULL: nothing is checked
    const char *text;      // "sha256:HEX"
    bool of_unpacked;      // of the layer as it is unpacked, as a configuration names it
};

/* One content on its way. */
struct image_digest_run {
    const struct image_digest *wanted; // NULL: nothing is checked
    union {
        struct sha256_ctx sha256;
        struct sha512_ctx sha512;
    };
};

/* GM_ERR_FORMAT: it is no digest; GM_ERR_UNSUPPORTED: of an algorithm that cannot be checked.
 * `text` must outlive the result. */
int image_digest_parse(const char *text, struct image_digest *ret, struct gm_err *err) GM_CHECK;

void image_digest_begin(struct image_digest_run *r, const struct image_digest *wanted);
void image_digest_take(struct image_digest_run *r, const void *bytes, size_t n);

/* GM_ERR_FORMAT: the content, which `name` names for the message, is another. */
int image_digest_end(struct image_digest_run *r, struct arena *a, const char *name,
                     struct gm_err *err) GM_CHECK;

#endif
