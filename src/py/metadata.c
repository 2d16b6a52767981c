#include "py/metadata.h"

#include <jansson.h>
#include <string.h>

#include "base/json.h"

/* The line at the head of rest, and what follows it. Unlike str_line(), an empty last line is
 * not a line. */
static struct str peek_line(struct str rest, struct str *ret_after)
{
    size_t n = str_find_char(rest, '\n');
    size_t next = n < rest.n ? n + 1 : n;
    *ret_after = (struct str){rest.s + next, rest.n - next};
    return (struct str){rest.s, n && rest.s[n - 1] == '\r' ? n - 1 : n};
}

static bool is_folded(struct str rest)
{
    return rest.n && (rest.s[0] == ' ' || rest.s[0] == '\t');
}

bool py_header_next(struct str *rest, struct str *ret_name, struct str *ret_value,
                    size_t *ret_skipped)
{
    while (rest->n) {
        struct str after;
        struct str line = peek_line(*rest, &after);
        if (line.n == 0) {
            return false;
        }
        struct str next = after;
        while (is_folded(next)) {
            (void)peek_line(next, &next); // only its end matters here
        }
        size_t colon = str_find_char(line, ':');
        bool is_field = colon > 0 && colon < line.n && !is_folded(line);
        const char *value = line.s + (is_field ? colon + 1 : 0);
        *rest = next;
        if (is_field) {
            *ret_name = (struct str){line.s, colon};
            *ret_value = str_trim((struct str){value, (size_t)(next.s - value)});
            return true;
        }
        if (ret_skipped) {
            (*ret_skipped)++;
        }
    }
    return false;
}

size_t py_header_block(struct str text)
{
    struct str rest = text;
    while (rest.n) {
        struct str line = peek_line(rest, &rest);
        if (line.n == 0) {
            return (size_t)(rest.s - text.s);
        }
    }
    return 0;
}

static void set_first(struct str *field, struct str value)
{
    if (!field->s) {
        *field = value;
    }
}

void py_metadata_parse(struct arena *a, struct str text, struct py_metadata *ret)
{
    struct py_metadata m = {0};
    VEC(struct str) requires = {0};
    struct str name, value;
    while (py_header_next(&text, &name, &value, &m.skipped)) {
        if (str_eq_nocase(name, STR("Name"))) {
            set_first(&m.name, value);
        } else if (str_eq_nocase(name, STR("Version"))) {
            set_first(&m.version, value);
        } else if (str_eq_nocase(name, STR("Metadata-Version"))) {
            set_first(&m.metadata_version, value);
        } else if (str_eq_nocase(name, STR("Requires-Python"))) {
            set_first(&m.requires_python, value);
        } else if (str_eq_nocase(name, STR("Requires-Dist"))) {
            if (requires.n == PY_REQUIRES_MAX) {
                m.truncated = true;
                continue;
            }
            VEC_PUSH(a, &requires, value);
        }
    }
    m.requires_dist = requires.items, m.n_requires_dist = requires.n;
    *ret = m;
}

static enum py_answer answer_of(struct str value)
{
    if (str_eq_nocase(value, STR("true"))) {
        return PY_YES;
    }
    return str_eq_nocase(value, STR("false")) ? PY_NO : PY_UNKNOWN;
}

void py_wheel_parse(struct arena *a, struct str text, struct py_wheel *ret)
{
    struct py_wheel w = {.purelib = PY_UNKNOWN};
    VEC(struct str) tags = {0};
    struct str name, value;
    while (py_header_next(&text, &name, &value, NULL)) {
        if (str_eq_nocase(name, STR("Tag"))) {
            if (tags.n == PY_TAGS_MAX) {
                w.truncated = true;
                continue;
            }
            VEC_PUSH(a, &tags, value);
        } else if (str_eq_nocase(name, STR("Root-Is-Purelib"))) {
            w.purelib = answer_of(value);
        } else if (str_eq_nocase(name, STR("Generator"))) {
            set_first(&w.generator, value);
        }
    }
    w.tags = tags.items, w.n_tags = tags.n;
    *ret = w;
}

/* A quoted field without its quotes: `inner` still has its doubled quotes. */
static struct str unquote(struct arena *a, struct str inner, bool doubled)
{
    if (!doubled) {
        return inner;
    }
    char *out = arena_alloc(a, inner.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < inner.n; i++) {
        out[n++] = inner.s[i];
        i += inner.s[i] == '"';
    }
    return (struct str){out, n};
}

/* Takes one field and the ',' behind it; *ret_last is set when the row ends with it. */
static struct str take_field(struct arena *a, struct str *rest, bool *ret_last)
{
    struct str field = {rest->s, 0};
    size_t i = 0;
    if (rest->n && rest->s[0] == '"') {
        bool doubled = false;
        for (i = 1; i < rest->n; i++) {
            if (rest->s[i] != '"') {
                continue;
            }
            if (i + 1 == rest->n || rest->s[i + 1] != '"') {
                break;
            }
            doubled = true;
            i++;
        }
        size_t end = i < rest->n ? i : rest->n;
        field = unquote(a, (struct str){rest->s + 1, end - 1}, doubled);
    }
    bool quoted = i > 0;
    while (i < rest->n && rest->s[i] != ',' && rest->s[i] != '\n') {
        i++;
    }
    if (!quoted) {
        field.n = i;
    }
    *ret_last = i >= rest->n || rest->s[i] == '\n';
    size_t used = i < rest->n ? i + 1 : rest->n;
    *rest = (struct str){rest->s + used, rest->n - used};
    return field;
}

bool py_record_next(struct arena *a, struct str *rest, struct py_record_row *ret)
{
    while (rest->n) {
        struct str fields[3] = {{0}};
        bool last = false;
        for (size_t i = 0; !last; i++) {
            struct str field = take_field(a, rest, &last);
            if (i < sizeof fields / sizeof *fields) {
                fields[i] = field;
            }
        }
        struct str path = fields[0];
        if (path.n && path.s[path.n - 1] == '\r') { // a row of one field with "\r\n"
            path.n--;
        }
        if (path.n == 0) {
            continue;
        }
        *ret = (struct py_record_row){.path = path, .hash = str_trim(fields[1])};
        ret->has_size = str_u64(str_trim(fields[2]), &ret->size_bytes);
        return true;
    }
    return false;
}

/* The path of "file:///x%20y" or "file://localhost/x"; NULL for every other URL. */
static const char *file_url_path(struct arena *a, const char *url)
{
    static const char *const heads[] = {"file://localhost/", "file:///"};
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
        if (!starts_with(url, heads[h])) {
            continue;
        }
        const char *s = url + strlen(heads[h]) - 1;
        char *out = arena_alloc(a, strlen(s) + 1);
        for (size_t n = 0; *s; n++) {
            int high = s[0] == '%' ? str_hex_digit(s[1]) : -1;
            int low = high >= 0 ? str_hex_digit(s[2]) : -1;
            bool escape = low >= 0 && high * 16 + low != 0;
            out[n] = escape ? (char)(high * 16 + low) : *s;
            s += escape ? 3 : 1;
        }
        return out;
    }
    return NULL;
}

int py_direct_url_parse(struct arena *a, struct str text, struct py_direct_url *ret,
                        struct gm_err *err)
{
    if (text.n > PY_DIRECT_URL_BYTES_MAX) {
        return gm_err_set(err, GM_ERR_LIMIT, "direct_url.json is larger than %d bytes",
                          PY_DIRECT_URL_BYTES_MAX);
    }
    json_error_t where;
    json_t *doc = json_loadb(text.s ? text.s : "", text.n, 0, &where);
    if (!doc) {
        return gm_err_set(err, GM_ERR_FORMAT, "direct_url.json: line %d: %s", where.line,
                          where.text);
    }
    const char *url = json_text(doc, "url");
    int rc = 0;
    if (url) {
        json_t *editable = json_object_get(json_object_get(doc, "dir_info"), "editable");
        ret->url = arena_strdup(a, url);
        ret->path = file_url_path(a, url);
        // PEP 610: an absent "editable" means false
        ret->editable = json_is_true(editable) ? PY_YES : PY_NO;
    } else {
        rc = gm_err_set(err, GM_ERR_FORMAT, "direct_url.json: no \"url\"");
    }
    json_decref(doc);
    return rc;
}
