#include "image/split.h"

#include <errno.h>
#include <jansson.h>
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "image/digest.h"

enum { LINE_MAX_BYTES = 8 << 20, BLOCK = 256 << 10, TYPE_FILE = 1 };
enum { LINE_WEIGHT = 16 }; // a byte of JSON takes as long as so many of a file
static const char damaged[] = "the engine's record of its archive is damaged";

struct split {
    struct root *root;
    const char *folder;
    struct arena scratch; // of one line
    struct digest digest;
    struct digest_run run;
    unsigned char *block;
    uint64_t *left;  // bytes that may still be read
    const char *why; // the layer cannot be checked; NULL: so far it can
    struct gm_err *err;
};

static int changed(struct split *s, const char *name, const char *what)
{
    return gm_err_set(s->err, GM_ERR_FORMAT,
                      "a layer of the image is damaged or was changed: %.200s %s; --no-verify "
                      "reads the image all the same",
                      str_printable(&s->scratch, name), what);
}

/* Counts what is read; too much is not checked. */
static bool spend(struct split *s, uint64_t n)
{
    bool enough = n <= *s->left;
    *s->left -= enough ? n : *s->left;
    s->why = enough ? s->why : "more than 64 GiB of the image would have to be read";
    return enough;
}

static void take(struct split *s, const void *bytes, size_t n)
{
    if (spend(s, n)) {
        digest_take(&s->run, bytes, n);
    }
}

static void take_piece(struct split *s, const char *text)
{
    struct base64_decode_ctx ctx;
    size_t n = strlen(text), got = BASE64_DECODE_LENGTH(n);
    unsigned char *bytes = arena_alloc(&s->scratch, got + 1);
    base64_decode_init(&ctx);
    if (base64_decode_update(&ctx, &got, bytes, n, text) && base64_decode_final(&ctx)) {
        take(s, bytes, got);
    } else {
        s->why = damaged;
    }
}

/* Whether a folder part of the name is a link: where the file lies is the engine's business. */
static bool through_link(struct split *s, const char *name)
{
    const char *at = s->folder;
    struct str rest = str_of(name);
    struct stat st;
    while (rest.s) {
        struct str part = str_cut(&rest, '/');
        if (str_is(part, "..")) {
            return true;
        }
        if (!rest.s || part.n == 0 || str_is(part, ".")) {
            continue;
        }
        at = path_join(&s->scratch, at, str_dup(&s->scratch, part));
        if (root_lstat(s->root, at, &st) == 0 && S_ISLNK(st.st_mode)) {
            return true;
        }
    }
    return false;
}

static int take_bytes(struct split *s, int fd, uint64_t size, const char *name)
{
    while (!s->why && size) {
        ssize_t n = read(fd, s->block, size < BLOCK ? (size_t)size : BLOCK);
        if (n <= 0) {
            return changed(s, name, "could not be read to its end");
        }
        size -= (uint64_t)n;
        take(s, s->block, (size_t)n);
    }
    return 0;
}

static int take_file(struct split *s, const char *name, uint64_t size)
{
    struct stat st;
    while (*name == '/') {
        name++;
    }
    if (through_link(s, name)) {
        s->why = "a name in it leads through a link";
        return 0;
    }
    int fd = root_open_file(s->root, path_join(&s->scratch, s->folder, name), &st);
    if (fd == -ENOENT) {
        return changed(s, name, "is missing");
    }
    if (fd < 0) {
        s->why = fd == -EACCES || fd == -EPERM ? "this user may not read all of its files"
                                               : "one of its files cannot be opened";
        return 0;
    }
    int rc = (uint64_t)st.st_size == size ? take_bytes(s, fd, size, name)
                                          : changed(s, name, "has another size");
    (void)close(fd); // only read
    return rc;
}

static int take_line(struct split *s, const char *line)
{
    json_t *doc = json_loads(line, 0, NULL);
    const char *name = json_string_value(json_object_get(doc, "name"));
    const char *payload = json_string_value(json_object_get(doc, "payload"));
    json_int_t size = json_integer_value(json_object_get(doc, "size"));
    bool is_file = json_integer_value(json_object_get(doc, "type")) == TYPE_FILE;
    int rc = 0;
    if (!is_file && payload) {
        take_piece(s, payload);
    } else if (!is_file || size < 0) {
        s->why = damaged;
    } else if (size > 0 && !name) {
        s->why = json_object_get(doc, "name_raw") ? "a name in it is not UTF-8" : damaged;
    } else if (size > 0) {
        rc = take_file(s, name, (uint64_t)size);
    }
    json_decref(doc);
    return rc;
}

static int take_lines(struct split *s, gzFile from, char *line)
{
    bool any = false;
    int rc = 0, code = Z_OK;
    while (rc == 0 && !s->why && gzgets(from, line, LINE_MAX_BYTES)) {
        size_t n = strlen(line);
        any = true;
        if (n == 0 || line[n - 1] != '\n') {
            s->why = damaged;
        } else if (spend(s, (uint64_t)n * LINE_WEIGHT)) {
            arena_init(&s->scratch, 0, NULL, NULL);
            rc = take_line(s, line);
            arena_release(&s->scratch);
        }
    }
    (void)gzerror(from, &code);
    s->why = !s->why && (code != Z_OK || !any) ? damaged : s->why;
    return rc;
}

static int check_lines(struct split *s, gzFile from)
{
    char *line = malloc(LINE_MAX_BYTES);
    s->block = malloc(BLOCK);
    digest_begin(&s->run, &s->digest);
    int rc = line && s->block ? take_lines(s, from, line)
                              : gm_err_set(s->err, GM_ERR_LIMIT, "out of memory");
    if (rc == 0 && !s->why) {
        arena_init(&s->scratch, 0, NULL, NULL);
        rc = digest_end(&s->run, &s->scratch, s->folder, s->err);
        arena_release(&s->scratch);
    }
    free(line);
    free(s->block);
    return rc;
}

int split_check(struct root *r, const struct split_layer *layer, uint64_t *left,
                const char **ret_why, struct gm_err *err)
{
    struct split s = {.root = r, .folder = layer->folder, .left = left, .err = err};
    int rc = digest_parse(layer->digest, &s.digest, err);
    *ret_why = NULL;
    if (rc < 0) {
        return rc;
    }
    int fd = root_open_file(r, layer->record, NULL);
    gzFile from = fd >= 0 ? gzdopen(fd, "rb") : NULL;
    if (!from) {
        *ret_why = fd == -ENOENT ? "the engine kept no record of its archive"
                                 : "the engine's record of its archive cannot be read";
        if (fd >= 0) {
            (void)close(fd); // only read
        }
        return 0;
    }
    rc = check_lines(&s, from);
    *ret_why = s.why;
    (void)gzclose(from); // only read
    return rc;
}
