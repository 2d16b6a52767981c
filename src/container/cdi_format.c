/* The format of CDI: its fields, their types and the versions in which they came (SPEC.md 1.1.0,
 * "CDI JSON Specification"; the names' grammar from pkg/parser of the reference library). */
#include "container/cdi.h"

#include <stdlib.h>
#include <string.h>

enum level { SPEC, DEVICE, EDITS, NODE, MOUNT, HOOK, RDT, NET, ANY };

struct field {
    enum level level;
    const char *name;
    json_type type; // JSON_TRUE: a boolean. JSON_ARRAY: of objects of level `of`, or of plain
                    // values where it is ANY
    enum level of;
    const char *since; // version, or NULL: from the first one on
    bool needed;
};

static const struct field fields[] = {
    {SPEC, "cdiVersion", JSON_STRING, ANY, NULL, true},
    {SPEC, "kind", JSON_STRING, ANY, NULL, true},
    {SPEC, "devices", JSON_ARRAY, DEVICE, NULL, true},
    {SPEC, "containerEdits", JSON_OBJECT, EDITS, NULL, false},
    {SPEC, "annotations", JSON_OBJECT, ANY, "0.6.0", false},
    {DEVICE, "name", JSON_STRING, ANY, NULL, true},
    {DEVICE, "containerEdits", JSON_OBJECT, EDITS, NULL, true},
    {DEVICE, "annotations", JSON_OBJECT, ANY, "0.6.0", false},
    {EDITS, "env", JSON_ARRAY, ANY, NULL, false},
    {EDITS, "deviceNodes", JSON_ARRAY, NODE, NULL, false},
    {EDITS, "mounts", JSON_ARRAY, MOUNT, NULL, false},
    {EDITS, "hooks", JSON_ARRAY, HOOK, NULL, false},
    {EDITS, "intelRdt", JSON_OBJECT, RDT, "0.7.0", false},
    {EDITS, "additionalGids", JSON_ARRAY, ANY, "0.7.0", false},
    {EDITS, "netDevices", JSON_ARRAY, NET, "1.1.0", false},
    {NODE, "path", JSON_STRING, ANY, NULL, true},
    {NODE, "hostPath", JSON_STRING, ANY, "0.5.0", false},
    {NODE, "type", JSON_STRING, ANY, NULL, false},
    {NODE, "major", JSON_INTEGER, ANY, NULL, false},
    {NODE, "minor", JSON_INTEGER, ANY, NULL, false},
    {NODE, "fileMode", JSON_INTEGER, ANY, NULL, false},
    {NODE, "permissions", JSON_STRING, ANY, NULL, false},
    {NODE, "uid", JSON_INTEGER, ANY, NULL, false},
    {NODE, "gid", JSON_INTEGER, ANY, NULL, false},
    {MOUNT, "hostPath", JSON_STRING, ANY, NULL, true},
    {MOUNT, "containerPath", JSON_STRING, ANY, NULL, true},
    {MOUNT, "options", JSON_ARRAY, ANY, NULL, false},
    {MOUNT, "type", JSON_STRING, ANY, "0.4.0", false},
    {HOOK, "hookName", JSON_STRING, ANY, NULL, true},
    {HOOK, "path", JSON_STRING, ANY, NULL, true},
    {HOOK, "args", JSON_ARRAY, ANY, NULL, false},
    {HOOK, "env", JSON_ARRAY, ANY, NULL, false},
    {HOOK, "timeout", JSON_INTEGER, ANY, NULL, false},
    {RDT, "closID", JSON_STRING, ANY, NULL, false},
    {RDT, "l3CacheSchema", JSON_STRING, ANY, NULL, false},
    {RDT, "memBwSchema", JSON_STRING, ANY, NULL, false},
    {RDT, "enableCMT", JSON_TRUE, ANY, NULL, false},
    {RDT, "enableMBM", JSON_TRUE, ANY, NULL, false},
    {RDT, "schemata", JSON_ARRAY, ANY, "1.1.0", false},
    {RDT, "enableMonitoring", JSON_TRUE, ANY, "1.1.0", false},
    {NET, "hostInterfaceName", JSON_STRING, ANY, NULL, true},
    {NET, "name", JSON_STRING, ANY, NULL, true},
};

static const char *const versions[] = {"0.3.0", "0.4.0", "0.5.0", "0.6.0",
                                       "0.7.0", "0.8.0", "1.0.0", "1.1.0"};

struct check {
    struct arena *arena;
    const char *lowest; // version that has all that was seen
    const char *fault;  // the first one, or NULL
};

static void need_version(struct check *c, const char *version)
{
    if (version && host_version_cmp(version, c->lowest) > 0) {
        c->lowest = version;
    }
}

static void set_fault(struct check *c, const char *fault)
{
    c->fault = c->fault ? c->fault : fault;
}

static const struct field *field_named(enum level level, const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].level == level && strcmp(fields[i].name, name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

static bool is_type(const json_t *value, json_type type)
{
    return type == JSON_TRUE ? json_is_boolean(value) : json_typeof(value) == type;
}

static void check_object(struct check *c, enum level level, json_t *object);

static void check_value(struct check *c, const struct field *f, json_t *value)
{
    json_t *item;
    size_t i;
    if (!is_type(value, f->type)) {
        set_fault(
            c, arena_printf(c->arena, "\"%s\" is of another type than the format says", f->name));
    } else if (f->type == JSON_ARRAY && f->of != ANY) {
        json_array_foreach(value, i, item)
        {
            check_object(c, f->of, item);
        }
    } else if (f->type == JSON_OBJECT && f->of != ANY) {
        check_object(c, f->of, value);
    }
}

static void check_object(struct check *c, enum level level, json_t *object)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object)) {
        set_fault(c, "a list holds something else than objects");
        return;
    }
    json_object_foreach(object, key, value)
    {
        const struct field *f = field_named(level, key);
        if (!f) {
            set_fault(c, arena_printf(c->arena,
                                      "the format has no field \"%s\" here, and engines "
                                      "refuse unknown ones",
                                      str_printable(c->arena, key)));
            continue;
        }
        need_version(c, f->since);
        check_value(c, f, value);
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].level == level && fields[i].needed &&
            !json_object_get(object, fields[i].name)) {
            set_fault(c, arena_printf(c->arena, "\"%s\" is missing", fields[i].name));
        }
    }
}

/* ------------------------------------------------------------------ names */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Letters and digits at both ends, `between` too between them. */
static bool is_name(struct str s, const char *between)
{
    for (size_t i = 0; i < s.n; i++) {
        bool inner = i && i + 1 < s.n && strchr(between, s.s[i]) && s.s[i];
        if (!str_is_letter(s.s[i]) && !is_digit(s.s[i]) && !inner) {
            return false;
        }
    }
    return s.n > 0;
}

static void check_kind(struct check *c, const char *kind)
{
    struct str class = str_of(kind), vendor = str_cut(&class, '/');
    if (!is_name(vendor, "_-.") || !is_name(class, "_-.") || is_digit(*vendor.s) ||
        is_digit(*class.s)) {
        set_fault(c, arena_printf(c->arena,
                                  "\"%s\" is no kind: VENDOR/CLASS, such as "
                                  "nvidia.com/gpu",
                                  str_printable(c->arena, kind)));
    } else if (str_find_char(class, '.') < class.n) {
        need_version(c, "0.6.0");
    }
}

static void check_devices(struct check *c, const json_t *devices)
{
    if (json_array_size(devices) == 0) {
        set_fault(c, "it has no devices");
    }
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *device = json_array_get(devices, i);
        const char *name = json_string_value(json_object_get(device, "name"));
        if (!name || !is_name(str_of(name), "_-.:")) {
            set_fault(c, "a device has a name that engines refuse");
            continue;
        }
        need_version(c, is_digit(*name) ? "0.5.0" : NULL);
        for (size_t k = 0; k < i && i < 4096; k++) {
            const json_t *other = json_object_get(json_array_get(devices, k), "name");
            if (json_string_value(other) && strcmp(json_string_value(other), name) == 0) {
                set_fault(c, arena_printf(c->arena, "two devices are called \"%s\"", name));
            }
        }
    }
}

static struct check checked(struct arena *a, const json_t *document)
{
    struct check c = {a, versions[0], NULL};
    check_object(&c, SPEC, (json_t *)(uintptr_t)document);
    const char *kind = json_string_value(json_object_get(document, "kind"));
    if (kind) {
        check_kind(&c, kind);
    }
    check_devices(&c, json_object_get(document, "devices"));
    return c;
}

const char *cdi_lowest_version(struct arena *a, const json_t *document)
{
    return checked(a, document).lowest;
}

const char *cdi_fault(struct arena *a, const json_t *document)
{
    struct check c = checked(a, document);
    const char *version = json_string_value(json_object_get(document, "cdiVersion"));
    bool known = false;
    for (size_t i = 0; version && i < sizeof versions / sizeof *versions; i++) {
        known |= strcmp(versions[i], version) == 0;
    }
    if (!c.fault && !known) {
        return arena_printf(a, "there is no version %s of the format", str_printable(a, version));
    }
    if (!c.fault && host_version_cmp(version, c.lowest) < 0) {
        return arena_printf(a, "it says version %s and has fields of version %s: engines refuse it",
                            version, c.lowest);
    }
    return c.fault;
}

/* ------------------------------------------------------------------ text */

static const char mark[] = "# Written by gpumend";

char *cdi_text(struct arena *a, const struct cdi_spec *s)
{
    char *json = json_dumps(s->document, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    char *text = arena_printf(a, "%s (gpumend container cdi)%s%s.\n%s\n", mark, s->note ? ", " : "",
                              s->note ? s->note : "", json ? json : "");
    free(json);
    return text;
}

bool cdi_is_ours(struct str text)
{
    return str_starts(text, mark);
}
