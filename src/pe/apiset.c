#include "pe/apiset.h"

#include <string.h>
#include <strings.h>

enum { NAMESPACE = 28, ENTRY = 24, VALUE = 20, ENTRIES_MAX = 1 << 16, VALUES_MAX = 256 };

static const unsigned char *schema_bytes(const struct pe_apiset *s, uint64_t offset, uint64_t n)
{
    return offset <= s->size && n <= s->size - offset ? s->data + offset : NULL;
}

int pe_apiset_open(const struct pe_image *e, struct pe_apiset *ret, struct gm_err *err)
{
    for (size_t i = 0; i < e->n_sections; i++) {
        const struct pe_section *section = &e->sections[i];
        if (strcmp(section->name, ".apiset") != 0) {
            continue;
        }
        struct pe_apiset s = {.size = pe_room_at(e, section->rva)};
        s.data = pe_at(e, section->rva, s.size);
        const unsigned char *p = s.data ? schema_bytes(&s, 0, NAMESPACE) : NULL;
        if (!p) {
            return gm_err_set(err, GM_ERR_FORMAT, "the API-set schema is cut off");
        }
        s.version = pe_u32(p);
        s.n_entries = pe_u32(p + 12);
        s.entries = pe_u32(p + 16);
        if (s.version != 6) {
            return gm_err_set(err, GM_ERR_UNSUPPORTED,
                              "the API-set schema has version %u; only 6 (Windows 10 and later) is "
                              "read",
                              s.version);
        }
        if (s.n_entries > ENTRIES_MAX ||
            !schema_bytes(&s, s.entries, (uint64_t)s.n_entries * ENTRY)) {
            return gm_err_set(err, GM_ERR_FORMAT, "the API-set schema is damaged");
        }
        *ret = s;
        return 0;
    }
    return gm_err_set(err, GM_ERR_FORMAT, "it has no section .apiset");
}

bool pe_apiset_is_name(const char *dll)
{
    return strncasecmp(dll, "api-", 4) == 0 || strncasecmp(dll, "ext-", 4) == 0;
}

/* Whether n characters are this UTF-16 text, without regard to case. */
static bool text_is(const unsigned char *utf16, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t unit = pe_u16(utf16 + 2 * i);
        char c = unit < 0x80 ? (char)unit : '\0';
        if (!c || strncasecmp(&c, text + i, 1) != 0) {
            return false;
        }
    }
    return true;
}

static struct pe_apiset_answer host_at(struct arena *a, const struct pe_apiset *s,
                                       const unsigned char *entry, const char *importer)
{
    uint32_t values = pe_u32(entry + 16), n = pe_u32(entry + 20);
    const unsigned char *chosen = NULL;
    for (uint32_t i = 0; i < n && i < VALUES_MAX; i++) {
        const unsigned char *v = schema_bytes(s, values + (uint64_t)i * VALUE, VALUE);
        const unsigned char *name = v ? schema_bytes(s, pe_u32(v + 4), pe_u32(v + 8)) : NULL;
        if (!name) {
            return (struct pe_apiset_answer){.state = PE_APISET_DAMAGED};
        }
        size_t units = pe_u32(v + 8) / 2;
        if (i == 0 ||
            (importer && units && units == strlen(importer) && text_is(name, importer, units))) {
            chosen = v; // the first is the default
        }
    }
    uint32_t length = chosen ? pe_u32(chosen + 16) : 0;
    const unsigned char *host = chosen ? schema_bytes(s, pe_u32(chosen + 12), length) : NULL;
    if (chosen && !host) {
        return (struct pe_apiset_answer){.state = PE_APISET_DAMAGED};
    }
    if (!length) {
        return (struct pe_apiset_answer){.state = PE_APISET_NO_HOST};
    }
    return (struct pe_apiset_answer){PE_APISET_HOST, pe_utf8(a, host, length / 2)};
}

struct pe_apiset_answer pe_apiset_find(struct arena *a, const struct pe_apiset *s, const char *dll,
                                       const char *importer)
{
    const char *last = strrchr(dll, '-');
    if (!pe_apiset_is_name(dll) || !last) {
        return (struct pe_apiset_answer){.state = PE_APISET_NONE};
    }
    size_t n = (size_t)(last - dll);
    for (uint32_t i = 0; i < s->n_entries; i++) {
        const unsigned char *entry = schema_bytes(s, s->entries + (uint64_t)i * ENTRY, ENTRY);
        uint32_t hashed = pe_u32(entry + 12);
        if (hashed != 2 * n) {
            continue;
        }
        const unsigned char *name = schema_bytes(s, pe_u32(entry + 4), hashed);
        if (!name) {
            return (struct pe_apiset_answer){.state = PE_APISET_DAMAGED};
        }
        if (text_is(name, dll, n)) {
            return host_at(a, s, entry, importer);
        }
    }
    return (struct pe_apiset_answer){.state = PE_APISET_NONE};
}
