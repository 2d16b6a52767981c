/*
 * Embedded rows: what scripts/kb-embed makes of kb/AREA.json, so that a command does not read a
 * megabyte of JSON first.
 *
 *     area    := object (defaults of the rows)  list (the rows)
 *     value   := 's' number         text: where it begins in kb_texts
 *              | 'n' number | 'z'   a number, or null
 *              | 't' | 'f'
 *              | 'l' number value*  a list of that many
 *              | 'o' number (number value)*  an object; a key is a text
 *     number  := seven bits a byte, the lowest first; the eighth says that one follows
 *
 * Texts lie in kb_texts, ended by NUL, each once, and rows point into it.
 */
#include <assert.h>
#include <string.h>

#include "kb/internal.h"

struct packed {
    struct arena *a;
    const unsigned char *at, *end;
};

/* Whatever is wrong with the bytes is a mistake of the build. */
static unsigned packed_byte(struct packed *p)
{
    assert(p->at < p->end);
    return *p->at++;
}

static size_t packed_number(struct packed *p)
{
    size_t number = 0;
    for (unsigned shift = 0; shift < 32; shift += 7) {
        unsigned byte = packed_byte(p);
        number |= (size_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            break;
        }
    }
    return number;
}

static const char *packed_text(struct packed *p)
{
    size_t offset = packed_number(p);
    assert(offset < kb_texts_size);
    return (const char *)kb_texts + offset;
}

static size_t packed_begin(struct packed *p, unsigned tag)
{
    unsigned byte = packed_byte(p);
    assert(byte == tag);
    (void)byte;
    return packed_number(p);
}

static void packed_record(struct packed *p, const struct record *r, char *to);

static void packed_texts(struct packed *p, const struct field *f, char *to)
{
    size_t n = packed_begin(p, 'l');
    const char **items = arena_array(p->a, n, sizeof *items);
    for (size_t i = 0; i < n; i++) {
        (void)packed_byte(p);
        items[i] = packed_text(p);
    }
    memcpy(to + f->offset, &items, sizeof items);
    memcpy(to + f->count_offset, &n, sizeof n);
}

static void packed_list(struct packed *p, const struct field *f, char *to)
{
    size_t n = packed_begin(p, 'l');
    char *items = arena_array(p->a, n, f->record->size);
    for (size_t i = 0; i < n; i++) {
        packed_record(p, f->record, items + i * f->record->size);
    }
    memcpy(to + f->offset, &items, sizeof items);
    memcpy(to + f->count_offset, &n, sizeof n);
}

static void packed_scalar(struct packed *p, const struct field *f, char *to)
{
    unsigned tag = packed_byte(p);
    const char *text = tag == 's' ? packed_text(p) : NULL;
    int number = tag == 'n' ? (int)packed_number(p) : -1;
    bool truth = tag == 't';
    switch (f->type) {
    case FIELD_TEXT: memcpy(to + f->offset, &text, sizeof text); break;
    case FIELD_NUMBER: memcpy(to + f->offset, &number, sizeof number); break;
    case FIELD_BOOL: memcpy(to + f->offset, &truth, sizeof truth); break;
    case FIELD_WORD:
    case FIELD_FLAG: kb_store_word(f, text, to + f->offset); break;
    case FIELD_TEXTS:
    case FIELD_LIST:
    case FIELD_INSIDE: break;
    }
}

/* Null is what a field is that the row lacks. */
static void packed_field(struct packed *p, const struct field *f, char *to)
{
    bool null = *p->at == 'z';
    if (null && f->optional) {
        (void)packed_byte(p);
    } else if (f->type == FIELD_TEXTS) {
        packed_texts(p, f, to);
    } else if (f->type == FIELD_LIST) {
        packed_list(p, f, to);
    } else if (f->type == FIELD_INSIDE) {
        packed_record(p, f->record, to);
    } else {
        packed_scalar(p, f, to);
    }
}

/* Keys follow mostly in the order of the fields: each is looked for behind the one before. */
static size_t field_named(const struct record *r, size_t from, const char *key)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t at = (from + i) % r->n;
        if (strcmp(r->fields[at].key, key) == 0) {
            return at;
        }
    }
    assert(false);
    return 0;
}

static void packed_members(struct packed *p, const struct record *r, char *to)
{
    size_t n = packed_begin(p, 'o'), at = 0;
    for (size_t i = 0; i < n; i++) {
        at = field_named(r, at, packed_text(p));
        packed_field(p, &r->fields[at], to);
        at++;
    }
}

static void packed_record(struct packed *p, const struct record *r, char *to)
{
    kb_preset(r, to);
    packed_members(p, r, to);
}

void *kb_unpack(struct arena *a, const struct kb_blob *blob, const struct record *r, size_t *ret_n)
{
    const unsigned char *data = (const unsigned char *)blob->data;
    struct packed p = {a, data, data + blob->size};
    char *defaults = arena_array(a, 1, r->size);
    packed_record(&p, r, defaults);
    size_t n = packed_begin(&p, 'l');
    char *rows = arena_array(a, n, r->size);
    for (size_t i = 0; i < n; i++) {
        memcpy(rows + i * r->size, defaults, r->size);
        packed_members(&p, r, rows + i * r->size);
    }
    assert(p.at == p.end);
    *ret_n = n;
    return rows;
}
