#include "container/split.h"

#include <errno.h>
#include <jansson.h>
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "container/digest.h"

enum { LINE_MAX_BYTES = 8 << 20, LINES_MAX = 4 << 20, BLOCK = 256 << 10, TYPE_FILE = 1 };
static const uint64_t all_max = (uint64_t)256 << 30;

struct split {
    struct root *root;
    const char *folder;
    struct arena scratch; // of one line
    struct digest digest;
    struct digest_run run;
    unsigned char *block;
    uint64_t bytes;  // of the archive so far
    bool not_known;  // the layer cannot be checked
    struct gm_err *err;
};

static int changed(struct split *s, const char *name, const char *what)
{
    return gm_err_set(s->err, GM_ERR_FORMAT,
                      "a layer of the image is damaged or was changed: %.200s %s; --no-verify reads "
                      "the image all the same",
                      str_printable(&s->scratch, name), what);
}

static int take(struct split *s, const void *bytes, size_t n)
{
    s->bytes += n;
    digest_take(&s->run, bytes, n);
    return s->bytes <= all_max ? 0
                               : gm_err_set(s->err, GM_ERR_LIMIT,
                                            "a layer of the image is larger than 256 GiB");
}

static int take_piece(struct split *s, const char *text)
{
    struct base64_decode_ctx ctx;
    size_t n = strlen(text), got = BASE64_DECODE_LENGTH(n);
    unsigned char *bytes = arena_alloc(&s->scratch, got + 1);
    base64_decode_init(&ctx);
    s->not_known |= !base64_decode_update(&ctx, &got, bytes, n, text) ||
                    !base64_decode_final(&ctx);
    return s->not_known ? 0 : take(s, bytes, got);
}

/* Whether a folder part of the name is a link: where the file lies is then the engine's business. */
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
    int rc = 0;
    while (rc == 0 && size) {
        ssize_t n = read(fd, s->block, size < BLOCK ? (size_t)size : BLOCK);
        if (n <= 0) {
            return changed(s, name, "could not be read to its end");
        }
        size -= (uint64_t)n;
        rc = take(s, s->block, (size_t)n);
    }
    return rc;
}

static int take_file(struct split *s, const char *name, uint64_t size)
{
    struct stat st;
    while (*name == '/') {
        name++;
    }
    s->not_known |= through_link(s, name);
    if (s->not_known) {
        return 0;
    }
    int fd = root_open_file(s->root, path_join(&s->scratch, s->folder, name), &st);
    if (fd == -ENOENT) {
        return changed(s, name, "is missing");
    }
    s->not_known = fd < 0;
    if (fd < 0) {
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
        rc = take_piece(s, payload);
    } else if (!is_file || size < 0 || (size > 0 && !name)) {
        s->not_known = true; // "name_raw", and what is not known here
    } else if (size > 0) {
        rc = take_file(s, name, (uint64_t)size);
    }
    json_decref(doc);
    return rc;
}

static int take_lines(struct split *s, gzFile from, char *line)
{
    size_t n_lines = 0;
    int rc = 0;
    while (rc == 0 && !s->not_known && gzgets(from, line, LINE_MAX_BYTES)) {
        size_t n = strlen(line);
        s->not_known = ++n_lines > LINES_MAX || n == 0 || line[n - 1] != '\n';
        if (!s->not_known) {
            arena_init(&s->scratch, 0, NULL, NULL);
            rc = take_line(s, line);
            arena_release(&s->scratch);
        }
    }
    int code = Z_OK;
    (void)gzerror(from, &code);
    s->not_known |= code != Z_OK || n_lines == 0;
    return rc;
}

int split_check(struct root *r, const char *record, const char *folder, const char *wanted,
                struct gm_err *err)
{
    struct split s = {.root = r, .folder = folder, .err = err};
    int rc = digest_parse(wanted, &s.digest, err);
    int fd = rc == 0 ? root_open_file(r, record, NULL) : -1;
    gzFile from = fd >= 0 ? gzdopen(fd, "rb") : NULL;
    if (!from) {
        if (fd >= 0) {
            (void)close(fd); // only read
        }
        return rc;
    }
    char *line = malloc(LINE_MAX_BYTES);
    s.block = malloc(BLOCK);
    digest_begin(&s.run, &s.digest);
    rc = line && s.block ? take_lines(&s, from, line)
                         : gm_err_set(err, GM_ERR_LIMIT, "out of memory");
    if (rc == 0 && !s.not_known) {
        arena_init(&s.scratch, 0, NULL, NULL);
        rc = digest_end(&s.run, &s.scratch, folder, err);
        arena_release(&s.scratch);
    }
    free(line);
    free(s.block);
    (void)gzclose(from); // only read
    return rc;
}
