#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "fleet/internal.h"

enum {
    WINDOW_LOG = 27, // a base and a manifest of any snapshot
    LEVEL = 9,
};

/* ------------------------------------------------------------------ files */

const char *store_hex(struct arena *a, const void *data, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    struct sha256_ctx run;
    uint8_t digest[SHA256_DIGEST_SIZE];
    char *text = arena_alloc(a, STORE_HEX_N + 1);
    sha256_init(&run);
    sha256_update(&run, n, data);
    sha256_digest(&run, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    return text;
}

int store_read_file(struct arena *a, const char *path, struct str *ret)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_size > STORE_OBJECT_BYTES_MAX) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return -1;
    }
    char *text = arena_alloc(a, (size_t)st.st_size + 1);
    size_t n = 0;
    for (ssize_t got;
         n < (size_t)st.st_size && (got = read(fd, text + n, (size_t)st.st_size - n)) > 0;) {
        n += (size_t)got;
    }
    (void)close(fd);
    *ret = (struct str){text, n};
    return n == (size_t)st.st_size ? 0 : -1;
}

/* Under a name of its own, whole and on the disk, and then under `path`. 1: there is one already.
 */
int store_write_file(struct arena *a, const char *path, struct str data, struct gm_err *err)
{
    uint64_t number = 0;
    size_t done = 0;
    if (access(path, F_OK) == 0) {
        return 1;
    }
    if (getrandom(&number, sizeof number, 0) < 0) {
        number = (uint64_t)getpid(); // only avoids a clash, about which O_EXCL decides
    }
    const char *beside = path_join(a, path_dir(a, path),
                                   arena_printf(a, ".new.%016llx", (unsigned long long)number));
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
    }
    while (done < data.n) {
        ssize_t got = pwrite(fd, data.s + done, data.n - done, (off_t)done);
        if (got < 0 && errno != EINTR) {
            break;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    int why = errno;
    bool good = done == data.n && fsync(fd) == 0;
    (void)close(fd); // fsync() has said what there is to say
    int rc = good ? linkat(AT_FDCWD, beside, AT_FDCWD, path, 0) : -1;
    int link_why = errno;
    (void)unlinkat(AT_FDCWD, beside, 0); // a name more is no harm
    return rc == 0 ? 0
           : good && link_why == EEXIST
               ? 1
               : gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(good ? link_why : why));
}

/* ------------------------------------------------------------------ zstd */

int store_pack(struct arena *a, struct str text, struct str base, struct str *ret,
               struct gm_err *err)
{
    size_t room = ZSTD_compressBound(text.n);
    char *data = arena_alloc(a, room);
    ZSTD_CCtx *z = ZSTD_createCCtx();
    if (!z) {
        return gm_err_set(err, GM_ERR_MEMORY, "out of memory");
    }
    size_t rc = ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, LEVEL);
    rc = ZSTD_isError(rc) ? rc : ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    if (base.n && !ZSTD_isError(rc)) {
        rc = ZSTD_CCtx_setParameter(z, ZSTD_c_enableLongDistanceMatching, 1);
        rc = ZSTD_isError(rc) ? rc : ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, WINDOW_LOG);
        rc = ZSTD_isError(rc) ? rc : ZSTD_CCtx_refPrefix(z, base.s, base.n);
    }
    rc = ZSTD_isError(rc) ? rc : ZSTD_compress2(z, data, room, text.s, text.n);
    (void)ZSTD_freeCCtx(z); // cannot fail
    if (ZSTD_isError(rc)) {
        return gm_err_set(err, GM_ERR_LIMIT, "%s", ZSTD_getErrorName(rc));
    }
    *ret = (struct str){data, rc};
    return 0;
}

int store_unpack(struct arena *a, struct str data, struct str base, struct str *ret)
{
    unsigned long long n = ZSTD_getFrameContentSize(data.s, data.n);
    if (n > STORE_OBJECT_BYTES_MAX) { // an error and "unknown" are larger
        return -1;
    }
    char *text = arena_alloc(a, (size_t)n + 1);
    ZSTD_DCtx *z = ZSTD_createDCtx();
    if (!z) {
        return -1;
    }
    size_t rc = ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WINDOW_LOG + 1);
    rc = ZSTD_isError(rc) || !base.n ? rc : ZSTD_DCtx_refPrefix(z, base.s, base.n);
    rc = ZSTD_isError(rc) ? rc : ZSTD_decompressDCtx(z, text, (size_t)n, data.s, data.n);
    (void)ZSTD_freeDCtx(z); // cannot fail
    *ret = (struct str){text, (size_t)n};
    return ZSTD_isError(rc) || rc != n ? -1 : 0;
}

/* ------------------------------------------------------------------ objects */

bool store_is_hex(const char *text)
{
    return strlen(text) == STORE_HEX_N && strspn(text, "0123456789abcdef") == STORE_HEX_N;
}

int store_put_object(struct arena *a, const char *store, const char *hex, struct str data,
                     struct gm_err *err)
{
    struct str packed;
    const char *path = arena_printf(a, "%s/chunks/%s", store, hex);
    if (access(path, F_OK) == 0) {
        return 0;
    }
    int rc = store_pack(a, data, (struct str){0}, &packed, err);
    rc = rc < 0 ? rc : store_write_file(a, path, packed, err);
    return rc < 0 ? rc : 0;
}

int store_take_object(struct arena *a, const char *store, const char *hex, struct str *ret,
                      struct gm_err *err)
{
    struct str packed;
    bool good = store_is_hex(hex) &&
                store_read_file(a, arena_printf(a, "%s/chunks/%s", store, hex), &packed) == 0 &&
                store_unpack(a, packed, (struct str){0}, ret) == 0 &&
                strcmp(store_hex(a, ret->s, ret->n), hex) == 0;
    return good ? 0 : gm_err_set(err, GM_ERR_FORMAT, "the chunk %.64s is missing or damaged", hex);
}
