#include "fleet/store.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum {
    CHUNK_BYTES_MIN = 4000, // shorter texts stay in the manifest
    DOCUMENT_BYTES_MAX = 256 << 20,
    HEX_N = 2 * SHA256_DIGEST_SIZE,
    WINDOW_LOG = 27, // a base and a manifest of any snapshot
    LEVEL = 9,
};

#define MARK "@sha256:"

/* ------------------------------------------------------------------ files */

static const char *hex_of(struct arena *a, const void *data, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    struct sha256_ctx run;
    uint8_t digest[SHA256_DIGEST_SIZE];
    char *text = arena_alloc(a, HEX_N + 1);
    sha256_init(&run);
    sha256_update(&run, n, data);
    sha256_digest(&run, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    return text;
}

static int read_file(struct arena *a, const char *path, struct str *ret)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > DOCUMENT_BYTES_MAX) {
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
static int write_file(struct arena *a, const char *path, struct str data, struct gm_err *err)
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

static int pack(struct arena *a, struct str text, struct str base, struct str *ret,
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

static int unpack(struct arena *a, struct str data, struct str base, struct str *ret)
{
    unsigned long long n = ZSTD_getFrameContentSize(data.s, data.n);
    if (n > DOCUMENT_BYTES_MAX) { // an error and "unknown" are larger
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

/* ------------------------------------------------------------------ long texts of a document */

/* What is done with each text of a document; *ret: what stands in its place, or NULL: it stays. */
struct walk {
    struct arena *a;
    const char *store;
    int (*each)(struct walk *w, const char *text, size_t n, json_t **ret, struct gm_err *err);
    const char *names; // of the chunks that were put, one after the other
};

static int walk_json(struct walk *w, json_t *value, struct gm_err *err)
{
    const char *key;
    json_t *inner;
    size_t i;
    void *next;
    int rc = 0;
    json_array_foreach(value, i, inner)
    {
        json_t *other = NULL;
        rc = json_is_string(inner)
                 ? w->each(w, json_string_value(inner), json_string_length(inner), &other, err)
                 : walk_json(w, inner, err);
        if (rc < 0 || (other && json_array_set_new(value, i, other) < 0)) {
            return rc < 0 ? rc : gm_err_set(err, GM_ERR_MEMORY, "out of memory");
        }
    }
    json_object_foreach_safe(value, next, key, inner)
    {
        json_t *other = NULL;
        rc = json_is_string(inner)
                 ? w->each(w, json_string_value(inner), json_string_length(inner), &other, err)
                 : walk_json(w, inner, err);
        if (rc < 0 || (other && json_object_set_new(value, key, other) < 0)) {
            return rc < 0 ? rc : gm_err_set(err, GM_ERR_MEMORY, "out of memory");
        }
    }
    return rc;
}

static int put_chunk(struct walk *w, const char *text, size_t n, json_t **ret, struct gm_err *err)
{
    struct str packed;
    if (starts_with(text, MARK)) {
        return gm_err_set(err, GM_ERR_FORMAT, "a text of it looks like the name of a chunk");
    }
    if (n < CHUNK_BYTES_MIN) {
        return 0;
    }
    const char *hex = hex_of(w->a, text, n);
    const char *path = arena_printf(w->a, "%s/chunks/%s", w->store, hex);
    if (access(path, F_OK) != 0) {
        int rc = pack(w->a, (struct str){text, n}, (struct str){0}, &packed, err);
        rc = rc < 0 ? rc : write_file(w->a, path, packed, err);
        if (rc < 0) {
            return rc;
        }
    }
    w->names = arena_printf(w->a, "%s%s", w->names, hex);
    *ret = json_string(arena_printf(w->a, MARK "%s", hex));
    return *ret ? 0 : gm_err_set(err, GM_ERR_MEMORY, "out of memory");
}

static bool is_hex(const char *text)
{
    return strlen(text) == HEX_N && strspn(text, "0123456789abcdef") == HEX_N;
}

static int take_chunk(struct walk *w, const char *text, size_t n, json_t **ret, struct gm_err *err)
{
    struct str packed, whole;
    const char *hex = text + strlen(MARK);
    (void)n;
    if (!starts_with(text, MARK)) {
        return 0;
    }
    if (!is_hex(hex) ||
        read_file(w->a, arena_printf(w->a, "%s/chunks/%s", w->store, hex), &packed) < 0 ||
        unpack(w->a, packed, (struct str){0}, &whole) < 0 ||
        strcmp(hex_of(w->a, whole.s, whole.n), hex) != 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "the chunk %.64s is missing or damaged", hex);
    }
    *ret = json_stringn(whole.s, whole.n);
    return *ret ? 0 : gm_err_set(err, GM_ERR_FORMAT, "the chunk %s is no text", hex);
}

static int dump_json(struct arena *a, const json_t *doc, struct str *ret, struct gm_err *err)
{
    char *text = json_dumps(doc, JSON_COMPACT);
    if (!text) {
        return gm_err_set(err, GM_ERR_MEMORY, "out of memory");
    }
    *ret = (struct str){arena_strdup(a, text), strlen(text)};
    free(text);
    return 0;
}

/* ------------------------------------------------------------------ the store */

bool fleet_store_is(struct arena *a, const char *path)
{
    struct stat st;
    return stat(path_join(a, path, "chunks"), &st) == 0 && S_ISDIR(st.st_mode) &&
           stat(path_join(a, path, "nodes"), &st) == 0 && S_ISDIR(st.st_mode);
}

int fleet_store_make(struct arena *a, const char *path, struct gm_err *err)
{
    const char *const folders[] = {path, path_join(a, path, "chunks"), path_join(a, path, "bases"),
                                   path_join(a, path, "nodes")};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (mkdir(folders[i], 0755) < 0 && errno != EEXIST) {
            return gm_err_set(err, GM_ERR_LOOK, "%s: %s", folders[i], strerror(errno));
        }
    }
    return 0;
}

/* The base of a set of chunks; the first manifest with it is its base. */
static int find_base(struct arena *a, const char *store, const char *key, struct str text,
                     struct str *ret, struct gm_err *err)
{
    struct str packed;
    const char *path = arena_printf(a, "%s/bases/%s", store, key);
    int rc = access(path, F_OK) == 0 ? 1 : pack(a, text, (struct str){0}, &packed, err);
    rc = rc == 0 ? write_file(a, path, packed, err) : rc;
    if (rc < 0) {
        return rc;
    }
    return read_file(a, path, &packed) < 0 || unpack(a, packed, (struct str){0}, ret) < 0
               ? gm_err_set(err, GM_ERR_FORMAT, "%s is damaged", path)
               : 0;
}

static int write_manifest(struct arena *a, const char *store, const char *path, const char *names,
                          struct str text, bool *ret_new, struct gm_err *err)
{
    struct str base, packed, there;
    const char *key = hex_of(a, names, strlen(names));
    int rc = find_base(a, store, key, text, &base, err);
    rc = rc < 0 ? rc : pack(a, text, base, &packed, err);
    if (rc < 0) {
        return rc;
    }
    char *all = arena_alloc(a, HEX_N + 1 + packed.n);
    memcpy(all, key, HEX_N);
    all[HEX_N] = '\n';
    memcpy(all + HEX_N + 1, packed.s, packed.n);
    struct str file = {all, HEX_N + 1 + packed.n};
    rc = write_file(a, path, file, err);
    *ret_new = rc == 0;
    if (rc == 1 && (read_file(a, path, &there) < 0 || !str_eq(there, file))) {
        return gm_err_set(err, GM_ERR_FORMAT, "another snapshot of this node and time is there");
    }
    return rc < 0 ? rc : 0;
}

int fleet_store_add(struct arena *a, const char *store, const char *node, const char *made,
                    struct str text, bool *ret_new, struct gm_err *err)
{
    struct walk w = {.a = a, .store = store, .each = put_chunk, .names = ""};
    struct str manifest;
    json_t *doc = json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES, NULL);
    int rc = doc ? walk_json(&w, doc, err) : gm_err_set(err, GM_ERR_FORMAT, "it is no JSON");
    rc = rc < 0 ? rc : dump_json(a, doc, &manifest, err);
    json_decref(doc);
    const char *path = arena_printf(a, "%s/nodes/%s@%s" FLEET_MANIFEST, store, node, made);
    return rc < 0 ? rc : write_manifest(a, store, path, w.names, manifest, ret_new, err);
}

int fleet_store_read(struct arena *a, const char *store, const char *manifest, struct str *ret,
                     struct gm_err *err)
{
    struct walk w = {.a = a, .store = store, .each = take_chunk};
    struct str file, packed, base, text;
    if (read_file(a, manifest, &file) < 0 || file.n <= HEX_N || file.s[HEX_N] != '\n') {
        return gm_err_set(err, GM_ERR_FORMAT, "the manifest is damaged");
    }
    const char *key = arena_strndup(a, file.s, HEX_N);
    struct str rest = {file.s + HEX_N + 1, file.n - HEX_N - 1};
    if (!is_hex(key) || read_file(a, arena_printf(a, "%s/bases/%s", store, key), &packed) < 0 ||
        unpack(a, packed, (struct str){0}, &base) < 0 || unpack(a, rest, base, &text) < 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "the manifest or its base is damaged");
    }
    json_t *doc = json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES, NULL);
    int rc = doc ? walk_json(&w, doc, err) : gm_err_set(err, GM_ERR_FORMAT, "it is no JSON");
    rc = rc < 0 ? rc : dump_json(a, doc, ret, err);
    json_decref(doc);
    return rc;
}
