/*
 * A snapshot has the contents of its files as one sequence of bytes, compressed in chunks of fixed
 * size: where one environment has a library more than another, all chunks behind it are others.
 * A store cuts the bytes where they themselves say so (a rolling hash over the last 64 of them), so
 * that environments share the pieces of the libraries that they share:
 *
 *   STORE/chunks/HEX      a piece
 *   STORE/contents/HEX    the names of a content's pieces; by the SHA-256 of its chunks' names
 */
#include <nettle/base64.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "fleet/internal.h"

enum {
    PIECE_BYTES_MIN = 32 << 10,
    PIECE_BITS = 17, // of the hash that are zero at a cut: 128 KiB apart
    PIECE_BYTES_MAX = 1 << 20,
    CONTENT_BYTES_MAX = 512 << 20, // as in snapshot/decode.c
};

/* ------------------------------------------------------------------ cutting */

/* Random numbers for the rolling hash, the same in every store (splitmix64). */
static void fill_gear(uint64_t gear[256])
{
    uint64_t state = 0;
    for (size_t i = 0; i < 256; i++) {
        uint64_t z = state += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        gear[i] = z ^ z >> 31;
    }
}

static size_t piece_bytes(const uint64_t gear[256], struct str rest)
{
    size_t end = rest.n < PIECE_BYTES_MAX ? rest.n : PIECE_BYTES_MAX;
    uint64_t hash = 0;
    for (size_t i = PIECE_BYTES_MIN - 64; i < end; i++) {
        hash = (hash << 1) + gear[(unsigned char)rest.s[i]];
        if (i >= PIECE_BYTES_MIN && hash >> (64 - PIECE_BITS) == 0) {
            return i + 1;
        }
    }
    return end;
}

/* Puts the pieces; *ret_list: their names, a line each. */
static int put_pieces(struct arena *a, const char *store, struct str bytes, struct str *ret_list,
                      struct gm_err *err)
{
    uint64_t gear[256];
    char *list = arena_alloc(a, (bytes.n / PIECE_BYTES_MIN + 1) * (STORE_HEX_N + 1));
    size_t n_list = 0;
    fill_gear(gear);
    while (bytes.n) {
        size_t n = piece_bytes(gear, bytes);
        const char *hex = store_hex(a, bytes.s, n);
        int rc = store_put_object(a, store, hex, (struct str){bytes.s, n}, err);
        if (rc < 0) {
            return rc;
        }
        memcpy(list + n_list, hex, STORE_HEX_N);
        list[n_list + STORE_HEX_N] = '\n';
        n_list += STORE_HEX_N + 1;
        bytes = (struct str){bytes.s + n, bytes.n - n};
    }
    *ret_list = (struct str){list, n_list};
    return 0;
}

/* ------------------------------------------------------------------ a snapshot's chunks */

static int unpack_chunk(struct arena *a, const json_t *chunk, char *out, size_t room, size_t *ret)
{
    struct base64_decode_ctx state;
    size_t n = json_string_length(chunk), got = 0;
    uint8_t *packed = arena_alloc(a, BASE64_DECODE_LENGTH(n) + 1);
    base64_decode_init(&state);
    if (!json_is_string(chunk) ||
        !base64_decode_update(&state, &got, packed, n, json_string_value(chunk)) ||
        !base64_decode_final(&state)) {
        return -1;
    }
    *ret = ZSTD_decompress(out, room, packed, got);
    return ZSTD_isError(*ret) ? -1 : 0;
}

static int unpack_chunks(struct arena *a, const json_t *content, struct str *ret,
                         struct gm_err *err)
{
    json_int_t bytes = json_integer_value(json_object_get(content, "bytes"));
    const json_t *chunks = json_object_get(content, "chunks");
    bool good = bytes >= 0 && bytes <= CONTENT_BYTES_MAX;
    char *out = good ? arena_alloc(a, (size_t)bytes + 1) : NULL;
    size_t at = 0;
    for (size_t i = 0, got = 0; i < json_array_size(chunks) && good; i++, at += got) {
        good = unpack_chunk(a, json_array_get(chunks, i), out + at, (size_t)bytes - at, &got) == 0;
    }
    if (!good || at != (size_t)bytes) {
        return gm_err_set(err, GM_ERR_FORMAT, "the content of its files is damaged");
    }
    *ret = (struct str){out, at};
    return 0;
}

static const char *content_key(struct arena *a, const json_t *chunks)
{
    size_t n = json_array_size(chunks);
    char *names = arena_alloc(a, n * STORE_HEX_N + 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(chunks, i);
        memcpy(names + i * STORE_HEX_N,
               store_hex(a, json_string_value(one), json_string_length(one)), STORE_HEX_N);
    }
    return store_hex(a, names, n * STORE_HEX_N);
}

/* ------------------------------------------------------------------ a content */

int store_put_content(struct arena *a, const char *store, json_t *content, const char **ret_key,
                      struct gm_err *err)
{
    const json_t *chunks = json_object_get(content, "chunks");
    struct str bytes, list, packed;
    *ret_key = "";
    if (json_array_size(chunks) == 0) {
        return 0;
    }
    const char *key = content_key(a, chunks);
    const char *path = arena_printf(a, "%s/contents/%s", store, key);
    if (access(path, F_OK) != 0) { // the list comes last: where it is, all pieces are
        int rc = unpack_chunks(a, content, &bytes, err);
        rc = rc < 0 ? rc : put_pieces(a, store, bytes, &list, err);
        rc = rc < 0 ? rc : store_pack(a, list, (struct str){0}, &packed, err);
        rc = rc < 0 ? rc : store_write_file(a, path, packed, err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_key = key;
    return json_object_set_new(content, "chunks", json_string(key)) < 0
               ? gm_err_set(err, GM_ERR_MEMORY, "out of memory")
               : 0;
}

static int join_pieces(struct arena *a, const char *store, struct str list, size_t bytes,
                       struct str *ret, struct gm_err *err)
{
    char *out = arena_alloc(a, bytes + 1);
    struct str line, piece;
    size_t at = 0;
    while (str_line(&list, &line)) {
        int rc = store_take_object(a, store, arena_strndup(a, line.s, line.n), &piece, err);
        if (rc < 0 || piece.n > bytes - at) {
            return rc < 0 ? rc : gm_err_set(err, GM_ERR_FORMAT, "its pieces are too large");
        }
        memcpy(out + at, piece.s, piece.n);
        at += piece.n;
    }
    *ret = (struct str){out, at};
    return at == bytes ? 0 : gm_err_set(err, GM_ERR_FORMAT, "pieces of it are missing");
}

int store_take_content(struct arena *a, const char *store, const json_t *content, struct str *ret,
                       struct gm_err *err)
{
    const char *key = json_string_value(json_object_get(content, "chunks"));
    json_int_t bytes = json_integer_value(json_object_get(content, "bytes"));
    struct str packed, list;
    *ret = (struct str){0};
    if (!key) {
        return 0;
    }
    if (bytes < 0 || bytes > CONTENT_BYTES_MAX || !store_is_hex(key) ||
        store_read_file(a, arena_printf(a, "%s/contents/%s", store, key), &packed) < 0 ||
        store_unpack(a, packed, (struct str){0}, &list) < 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "the list of its contents is missing or damaged");
    }
    return join_pieces(a, store, list, (size_t)bytes, ret, err);
}
