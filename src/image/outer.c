#include "image/outer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static const uint64_t UNPACKED_MAX = (uint64_t)256 << 30;
static const uint64_t FREE_BYTES = (uint64_t)4 << 30;
enum { BLOCK = 256 << 10, TIMES = 50 };

int image_outer_bound(uint64_t unpacked, uint64_t in_all, uint64_t packed, struct gm_err *err)
{
    if (in_all > UNPACKED_MAX) {
        return gm_err_set(err, GM_ERR_LIMIT, "it unpacks to more than %u GiB",
                          (unsigned)(UNPACKED_MAX >> 30));
    }
    return unpacked > FREE_BYTES && (unpacked - FREE_BYTES) / TIMES > packed
               ? gm_err_set(err, GM_ERR_LIMIT,
                            "it unpacks to more than %u GiB and %d times its size, as no "
                            "image does that is meant to be used",
                            (unsigned)(FREE_BYTES >> 30), TIMES)
               : 0;
}

static int outer_broken(const struct image_outer *o, struct gm_err *err)
{
    const char *why = o->ar ? archive_error_string(o->ar) : NULL;
    return gm_err_set(err, GM_ERR_FORMAT, "the archive is damaged: %s", why ? why : "no memory");
}

void image_outer_release(struct image_outer *o)
{
    if (o->ar) {
        (void)archive_read_free(o->ar); // what it says after reading does not matter
    }
    o->ar = NULL;
    o->at = 0;
    o->n = 0;
}

static int outer_begin(struct image_outer *o, struct gm_err *err)
{
    struct archive_entry *e;
    image_outer_release(o);
    if (lseek(o->fd, 0, SEEK_SET) < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "the image: %s", strerror(errno));
    }
    o->ar = archive_read_new();
    if (!o->ar) {
        return outer_broken(o, err);
    }
    (void)archive_read_support_format_raw(o->ar); // each is compiled in
    (void)archive_read_support_filter_gzip(o->ar);
    (void)archive_read_support_filter_zstd(o->ar);
    (void)archive_read_support_filter_xz(o->ar);
    return archive_read_open_fd(o->ar, o->fd, BLOCK) == ARCHIVE_OK &&
                   archive_read_next_header(o->ar, &e) == ARCHIVE_OK
               ? 0
               : outer_broken(o, err);
}

/* The block behind the last; n is 0 at the end. */
static int step(struct image_outer *o, struct gm_err *err)
{
    const void *block = NULL;
    size_t n = 0;
    la_int64_t offset = 0;
    int rc = archive_read_data_block(o->ar, &block, &n, &offset);
    if (rc != ARCHIVE_OK && rc != ARCHIVE_EOF) {
        return outer_broken(o, err);
    }
    o->at += o->n;
    o->block = block;
    o->n = rc == ARCHIVE_EOF ? 0 : n;
    o->unpacked += o->n;
    if (o->progress) {
        o->progress(o->progress_arg, (uint64_t)archive_filter_bytes(o->ar, -1), o->size);
    }
    return image_outer_bound(o->at + o->n, o->unpacked, o->size, err);
}

int image_outer_read(struct image_outer *o, uint64_t offset, const void **ret, size_t *ret_n,
                     struct gm_err *err)
{
    int rc = 0;
    if (!o->ar || offset < o->at) {
        rc = outer_begin(o, err);
        rc = rc < 0 ? rc : step(o, err);
    }
    while (rc == 0 && o->n && offset >= o->at + o->n) {
        rc = step(o, err);
    }
    if (rc < 0) {
        return rc;
    }
    size_t skip = o->n ? (size_t)(offset - o->at) : 0;
    *ret = o->block + skip;
    *ret_n = o->n - skip;
    return 0;
}
