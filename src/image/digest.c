#include "image/digest.h"

#include <stdint.h>
#include <string.h>

#include "base/str.h"

static const struct kind {
    const char *name;
    size_t bytes;
} kinds[] = {{"sha256", SHA256_DIGEST_SIZE}, {"sha512", SHA512_DIGEST_SIZE}};

static bool is_sha512(const struct image_digest *d)
{
    return d->algorithm == kinds[1].name;
}

int image_digest_parse(const char *text, struct image_digest *ret, struct gm_err *err)
{
    enum { ALGORITHM_MAX = 32 };
    size_t n = text ? strcspn(text, ":") : 0;
    if (!text || !text[n] || n == 0 || n > ALGORITHM_MAX) {
        return gm_err_set(err, GM_ERR_FORMAT,
                          text ? "it names \"%.100s\" where a digest has to be"
                               : "a descriptor of the image has no digest",
                          text);
    }
    const char *hex = text + n + 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(text, kinds[i].name, n) == 0 && !kinds[i].name[n]) {
            if (strspn(hex, "0123456789abcdef") != 2 * kinds[i].bytes || hex[2 * kinds[i].bytes]) {
                return gm_err_set(err, GM_ERR_FORMAT, "\"%.150s\" is no digest of %s", text,
                                  kinds[i].name);
            }
            *ret = (struct image_digest){.algorithm = kinds[i].name, .text = text};
            return 0;
        }
    }
    return gm_err_set(err, GM_ERR_UNSUPPORTED,
                      "the digest \"%.150s\" is of an algorithm that cannot be "
                      "checked (those are sha256 and sha512); --no-verify reads "
                      "the image all the same",
                      text);
}

void image_digest_begin(struct image_digest_run *r, const struct image_digest *wanted)
{
    r->wanted = wanted && wanted->algorithm ? wanted : NULL;
    if (r->wanted && is_sha512(r->wanted)) {
        sha512_init(&r->sha512);
    } else {
        sha256_init(&r->sha256);
    }
}

void image_digest_take(struct image_digest_run *r, const void *bytes, size_t n)
{
    if (r->wanted && is_sha512(r->wanted)) {
        sha512_update(&r->sha512, n, bytes);
    } else if (r->wanted) {
        sha256_update(&r->sha256, n, bytes);
    }
}

int image_digest_end(struct image_digest_run *r, struct arena *a, const char *name,
                     struct gm_err *err)
{
    uint8_t got[IMAGE_DIGEST_MAX];
    size_t n = r->wanted && is_sha512(r->wanted) ? SHA512_DIGEST_SIZE : SHA256_DIGEST_SIZE;
    char hex[2 * IMAGE_DIGEST_MAX + 1];
    if (!r->wanted) {
        return 0;
    }
    if (is_sha512(r->wanted)) {
        sha512_digest(&r->sha512, n, got);
    } else {
        sha256_digest(&r->sha256, n, got);
    }
    for (size_t i = 0; i < n; i++) {
        static const char digits[] = "0123456789abcdef";
        hex[2 * i] = digits[got[i] >> 4];
        hex[2 * i + 1] = digits[got[i] & 15];
    }
    hex[2 * n] = '\0';
    const char *wanted = r->wanted->text + strlen(r->wanted->algorithm) + 1;
    return strcmp(hex, wanted) == 0
               ? 0
               : gm_err_set(
                     err, GM_ERR_FORMAT,
                     "%.150s is damaged or was changed: its content has the digest %s:%.16s..., "
                     "and %.16s... is expected; --no-verify reads the image all the same",
                     str_printable(a, name), r->wanted->algorithm, hex, wanted);
}
