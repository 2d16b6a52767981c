/* The format of CDI, and what each release of the reference library, which engines are built with,
 * makes of a document. Sources: SPEC.md 1.1.0 of cncf-tags/container-device-interface ("CDI JSON
 * Specification" and its table of releases) for the fields and the versions in which they came;
 * pkg/cdi, pkg/parser and specs-go of the releases 0.4.0 to 1.1.1 for what they refuse beyond it.
 * tests/container/cdi_engines.py compares the answers with those of the library itself. */
#include "cdi/cdi.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Up to 1.1.0 a document becomes JSON (sigs.k8s.io/yaml) and is decoded without regard to the case
 * of keys; from this release on go.yaml.in/yaml/v3 decodes it, with regard to it. */
static const char yaml_decoder[] = "1.1.1";

enum level { SPEC, DEVICE, EDITS, NODE, MOUNT, HOOK, RDT, NET, PLAIN };
enum type { TEXT, INTEGER, UNSIGNED, FLAG, TEXTS, NUMBERS, TABLE, OBJECT, OBJECTS };

struct check {
    struct arena *arena;
    const char *library;       // release that is asked
    bool strict;               // it decodes as from yaml_decoder on
    const char *lowest;        // version that has all that was seen
    const char *device;        // name of the device in hand, or NULL
    bool all;                  // count the fields of all devices, as the format says
    bool is_last;              // the device in hand is the last one, or there is none in hand
    const char *shape, *value; // the first fault of each sort, or NULL
};

/* What is wrong with a text, as a clause; NULL: nothing. */
typedef const char *rule(const struct check *c, const char *text);

static rule filled, variable, hook_name, node_type, permissions, clos_id;

struct field {
    enum level level;
    const char *name;
    enum type type;
    enum level of;            // of OBJECT and OBJECTS
    const char *since;        // version of the format, or NULL: from the first one on
    const char *from, *until; // releases of the library that know it: from <= R < until, or NULL
    rule *rule;               // of TEXT, which is "" where it is missing, or of each of TEXTS
};

static const struct field fields[] = {
    {SPEC, "cdiVersion", TEXT, PLAIN, NULL, NULL, NULL, NULL},
    {SPEC, "kind", TEXT, PLAIN, NULL, NULL, NULL, NULL},
    {SPEC, "devices", OBJECTS, DEVICE, NULL, NULL, NULL, NULL},
    {SPEC, "containerEdits", OBJECT, EDITS, NULL, NULL, NULL, NULL},
    {SPEC, "annotations", TABLE, PLAIN, "0.6.0", "0.6.0", NULL, NULL},
    {DEVICE, "name", TEXT, PLAIN, NULL, NULL, NULL, NULL},
    {DEVICE, "containerEdits", OBJECT, EDITS, NULL, NULL, NULL, NULL},
    {DEVICE, "annotations", TABLE, PLAIN, "0.6.0", "0.6.0", NULL, NULL},
    {EDITS, "env", TEXTS, PLAIN, NULL, NULL, NULL, variable},
    {EDITS, "deviceNodes", OBJECTS, NODE, NULL, NULL, NULL, NULL},
    {EDITS, "mounts", OBJECTS, MOUNT, NULL, NULL, NULL, NULL},
    {EDITS, "hooks", OBJECTS, HOOK, NULL, NULL, NULL, NULL},
    {EDITS, "intelRdt", OBJECT, RDT, "0.7.0", "0.7.0", NULL, NULL},
    {EDITS, "additionalGids", NUMBERS, PLAIN, "0.7.0", "0.7.0", NULL, NULL},
    {EDITS, "netDevices", OBJECTS, NET, "1.1.0", "1.1.0", NULL, NULL},
    {NODE, "path", TEXT, PLAIN, NULL, NULL, NULL, filled},
    {NODE, "hostPath", TEXT, PLAIN, "0.5.0", "0.5.0", NULL, NULL},
    {NODE, "type", TEXT, PLAIN, NULL, NULL, NULL, node_type},
    {NODE, "major", INTEGER, PLAIN, NULL, NULL, NULL, NULL},
    {NODE, "minor", INTEGER, PLAIN, NULL, NULL, NULL, NULL},
    {NODE, "fileMode", UNSIGNED, PLAIN, NULL, NULL, NULL, NULL},
    {NODE, "permissions", TEXT, PLAIN, NULL, NULL, NULL, permissions},
    {NODE, "uid", UNSIGNED, PLAIN, NULL, NULL, NULL, NULL},
    {NODE, "gid", UNSIGNED, PLAIN, NULL, NULL, NULL, NULL},
    {MOUNT, "hostPath", TEXT, PLAIN, NULL, NULL, NULL, filled},
    {MOUNT, "containerPath", TEXT, PLAIN, NULL, NULL, NULL, filled},
    {MOUNT, "options", TEXTS, PLAIN, NULL, NULL, NULL, NULL},
    {MOUNT, "type", TEXT, PLAIN, "0.4.0", NULL, NULL, NULL},
    {HOOK, "hookName", TEXT, PLAIN, NULL, NULL, NULL, hook_name},
    {HOOK, "path", TEXT, PLAIN, NULL, NULL, NULL, filled},
    {HOOK, "args", TEXTS, PLAIN, NULL, NULL, NULL, NULL},
    {HOOK, "env", TEXTS, PLAIN, NULL, NULL, NULL, variable},
    {HOOK, "timeout", INTEGER, PLAIN, NULL, NULL, NULL, NULL},
    {RDT, "closID", TEXT, PLAIN, NULL, NULL, NULL, clos_id},
    {RDT, "l3CacheSchema", TEXT, PLAIN, NULL, NULL, NULL, NULL},
    {RDT, "memBwSchema", TEXT, PLAIN, NULL, NULL, NULL, NULL},
    {RDT, "enableCMT", FLAG, PLAIN, NULL, NULL, "1.1.0", NULL},
    {RDT, "enableMBM", FLAG, PLAIN, NULL, NULL, "1.1.0", NULL},
    {RDT, "schemata", TEXTS, PLAIN, "1.1.0", "1.1.0", NULL, NULL},
    {RDT, "enableMonitoring", FLAG, PLAIN, "1.1.0", "1.1.0", NULL, NULL},
    {NET, "hostInterfaceName", TEXT, PLAIN, NULL, NULL, NULL, filled},
    {NET, "name", TEXT, PLAIN, NULL, NULL, NULL, filled},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static const char *const versions[] = {"0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0",
                                       "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"};
static const char earliest[] = "0.3.0"; // what a document without newer fields needs

static bool is_from(const struct check *c, const char *release)
{
    return host_version_cmp(c->library, release) >= 0;
}

static void need_version(struct check *c, const char *version)
{
    if (version && host_version_cmp(version, c->lowest) > 0) {
        c->lowest = version;
    }
}

/* Keeps the first fault of its sort, with the device that it is in. */
static void set_fault(const struct check *c, const char **slot, const char *fault)
{
    if (!*slot) {
        *slot = c->device ? arena_printf(c->arena, "device \"%s\": %s", c->device, fault) : fault;
    }
}

static const char *printable(const struct check *c, const char *text)
{
    return str_printable(c->arena, text);
}

/* ------------------------------------------------------------------ rules of values */

static bool text_is_one_of(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(words[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static const char *filled(const struct check *c, const char *text)
{
    (void)c;
    return *text ? NULL : "is missing or empty";
}

static const char *variable(const struct check *c, const char *text)
{
    const char *equals = strchr(text, '=');
    return equals && equals > text
               ? NULL
               : arena_printf(c->arena, "has \"%s\", which is not NAME=VALUE", printable(c, text));
}

static const char *hook_name(const struct check *c, const char *text)
{
    static const char *const names[] = {"prestart",       "createRuntime", "createContainer",
                                        "startContainer", "poststart",     "poststop"};
    return text_is_one_of(text, names, sizeof names / sizeof *names)
               ? NULL
               : arena_printf(c->arena,
                              "is \"%s\"; it must be prestart, createRuntime, createContainer, "
                              "startContainer, poststart or poststop",
                              printable(c, text));
}

static const char *node_type(const struct check *c, const char *text)
{
    static const char *const types[] = {"", "b", "c", "u", "p"};
    return text_is_one_of(text, types, sizeof types / sizeof *types)
               ? NULL
               : arena_printf(c->arena, "is \"%s\"; it must be b, c, u or p", printable(c, text));
}

static const char *permissions(const struct check *c, const char *text)
{
    bool none = strcmp(text, "none") == 0 && is_from(c, "1.1.1");
    return none || strspn(text, "rwm") == strlen(text)
               ? NULL
               : arena_printf(c->arena, "is \"%s\"; it must be made of r, w and m",
                              printable(c, text));
}

/* The name of a folder of resctrl; the root's is "/". */
static const char *clos_id(const struct check *c, const char *text)
{
    enum { ID_MAX = 4095 };
    bool root = strcmp(text, "/") == 0 && is_from(c, "1.1.0");
    bool bad = strlen(text) > ID_MAX || strcmp(text, ".") == 0 || strcmp(text, "..") == 0 ||
               strpbrk(text, "/\n");
    return root || !bad ? NULL : "is not a file name";
}

/* ------------------------------------------------------------------ types */

static bool value_is_plain(const json_t *value)
{
    return json_is_string(value) || json_is_number(value) || json_is_boolean(value);
}

/* The JSON decoder takes a number only with a fraction of 0; that of YAML cuts fractions off. */
static bool field_is_integer(const struct check *c, const json_t *value, json_int_t low,
                             json_int_t high)
{
    if (json_is_integer(value)) {
        return json_integer_value(value) >= low && json_integer_value(value) <= high;
    }
    double number = json_real_value(value), whole = trunc(number);
    return json_is_real(value) && (c->strict || whole == number) && whole >= (double)low &&
           whole < (double)high + 1;
}

static bool is_list_of(const struct check *c, const json_t *list, enum type item)
{
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        bool good =
            json_is_null(one) || (item == TEXT       ? value_is_plain(one)
                                  : item == UNSIGNED ? field_is_integer(c, one, 0, UINT32_MAX)
                                                     : json_is_object(one));
        if (!good) {
            return false;
        }
    }
    return json_is_array(list);
}

static bool is_table(const json_t *value)
{
    const char *key;
    json_t *one;
    json_object_foreach((json_t *)(uintptr_t)value, key, one)
    {
        if (!value_is_plain(one) && !json_is_null(one)) {
            return false;
        }
    }
    return json_is_object(value);
}

static bool is_type(const struct check *c, const struct field *f, const json_t *value)
{
    switch (f->type) {
    case TEXT: return value_is_plain(value);
    case INTEGER: return field_is_integer(c, value, INT64_MIN, INT64_MAX);
    case UNSIGNED: return field_is_integer(c, value, 0, UINT32_MAX);
    case FLAG: return json_is_boolean(value);
    case TEXTS: return is_list_of(c, value, TEXT);
    case NUMBERS: return is_list_of(c, value, UNSIGNED);
    case OBJECTS: return is_list_of(c, value, OBJECT);
    case TABLE: return is_table(value);
    case OBJECT: break;
    }
    return json_is_object(value);
}

/* Whether a value is what its field came for: the version is not needed for an empty one. */
static bool field_is_set(const struct field *f, const json_t *value)
{
    switch (f->type) {
    case TEXT: return !json_is_string(value) || *json_string_value(value);
    case FLAG: return json_is_true(value);
    case NUMBERS:
    case OBJECTS: return json_array_size(value) > 0;
    case TABLE: return json_object_size(value) > 0;
    case TEXTS:
    case OBJECT:
    case INTEGER:
    case UNSIGNED: break;
    }
    return true;
}

/* ------------------------------------------------------------------ fields */

static const struct field *field_named(const struct check *c, enum level level, const char *name)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const struct field *f = &fields[i];
        if (f->level == level &&
            (c->strict ? strcmp(f->name, name) : strcasecmp(f->name, name)) == 0 &&
            (!f->from || is_from(c, f->from)) && (!f->until || !is_from(c, f->until))) {
            return f;
        }
    }
    return NULL;
}

/* The value of a field as this release sees it, or NULL: missing or null. Of keys that differ in
 * case alone the last in the order of bytes counts: they are decoded in that order. */
static json_t *get_member(const struct check *c, const json_t *object, const char *name)
{
    json_t *found = c->strict ? json_object_get(object, name) : NULL, *value;
    const char *key, *last = "";
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (!c->strict && strcasecmp(key, name) == 0 && strcmp(key, last) > 0) {
            last = key;
            found = value;
        }
    }
    return json_is_null(found) ? NULL : found;
}

/* "" where it is missing or is not a text. */
static const char *text_member(const struct check *c, const json_t *object, const char *name)
{
    const char *text = json_string_value(get_member(c, object, name));
    return text ? text : "";
}

static void check_object(struct check *c, enum level level, json_t *object);

static void apply_rule(struct check *c, const struct field *f, const char *text)
{
    const char *fault = f->rule ? f->rule(c, text) : NULL;
    if (fault) {
        set_fault(c, &c->value, arena_printf(c->arena, "\"%s\" %s", f->name, fault));
    }
}

static void check_texts(struct check *c, const struct field *f, const json_t *list)
{
    const json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        if (!json_is_null(one) || !c->strict) {
            const char *text = json_string_value(one);
            apply_rule(c, f, text ? text : "");
        }
    }
}

/* `counts`: no other key overrides it. The library means to look at the nodes and mounts of every
 * device for the version, and sees those of the last one alone (requiresV040 and requiresV050 keep
 * the address of a loop's variable): so do engines. */
static void check_value(struct check *c, const struct field *f, json_t *value, bool counts)
{
    json_t *item;
    size_t i;
    if (!is_type(c, f, value)) {
        set_fault(c, &c->shape,
                  arena_printf(c->arena, "\"%s\" has a value of the wrong type", f->name));
    } else if (f->type == TEXTS && counts) {
        check_texts(c, f, value);
    } else if (f->type == OBJECT) {
        check_object(c, f->of, value);
    } else if (f->type == OBJECTS) {
        json_array_foreach(value, i, item)
        {
            c->is_last = f->of == DEVICE ? i + 1 == json_array_size(value) : c->is_last;
            if (!json_is_null(item)) {
                check_object(c, f->of, item);
            } else if (f->of != DEVICE) {
                set_fault(c, &c->value,
                          arena_printf(c->arena,
                                       "\"%s\" has an empty entry, on which engines crash",
                                       f->name));
            }
        }
    }
    bool counts_here = c->all || c->is_last || (f->level != NODE && f->level != MOUNT);
    if (f->since && field_is_set(f, value) && counts_here) {
        need_version(c, f->since);
    }
}

/* Two network devices of one name, on either side. */
static void check_net_devices(struct check *c, const json_t *list)
{
    static const char *const keys[] = {"hostInterfaceName", "name"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        json_t *seen = json_object();
        for (size_t i = 0; i < json_array_size(list); i++) {
            const char *name = text_member(c, json_array_get(list, i), keys[k]);
            if (json_object_get(seen, name)) {
                set_fault(c, &c->value,
                          arena_printf(c->arena, "two of \"netDevices\" have the %s \"%s\"",
                                       keys[k], printable(c, name)));
            }
            (void)json_object_set_new(seen, name, json_true());
        }
        json_decref(seen);
    }
}

static void check_object(struct check *c, enum level level, json_t *object)
{
    const char *key, *outer = c->device;
    json_t *value;
    if (level == DEVICE) {
        c->device = printable(c, text_member(c, object, "name"));
    }
    json_object_foreach(object, key, value)
    {
        const struct field *f = field_named(c, level, key);
        if (!f) {
            set_fault(
                c, &c->shape,
                arena_printf(c->arena, "the field \"%s\" is unknown there", printable(c, key)));
        } else if (!json_is_null(value)) {
            check_value(c, f, value, get_member(c, object, f->name) == value);
        }
    }
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].level == level && fields[i].type == TEXT) {
            apply_rule(c, &fields[i], text_member(c, object, fields[i].name));
        }
    }
    if (level == EDITS) {
        check_net_devices(c, get_member(c, object, "netDevices"));
    }
    c->device = outer;
}

/* ------------------------------------------------------------------ names */

/* Letters and digits at both ends, `between` too between them. */
static bool text_is_name(struct str s, const char *between)
{
    for (size_t i = 0; i < s.n; i++) {
        bool inner = i && i + 1 < s.n && strchr(between, s.s[i]) && s.s[i];
        if (!str_is_letter(s.s[i]) && !str_is_digit(s.s[i]) && !inner) {
            return false;
        }
    }
    return s.n > 0;
}

static const char *kind_fault(struct check *c, const char *kind)
{
    struct str class = str_of(kind), vendor = str_cut(&class, '/');
    bool dots = is_from(c, "0.6.0");
    if (!text_is_name(vendor, "_-.") || !text_is_name(class, dots ? "_-." : "_-") ||
        str_is_digit(*vendor.s) || str_is_digit(*class.s)) {
        return arena_printf(c->arena, "the kind \"%s\" is not VENDOR/CLASS, such as nvidia.com/gpu",
                            printable(c, kind));
    }
    if ((vendor.n == 1 || class.n == 1) && !is_from(c, "1.1.1")) {
        return "the kind has a vendor or a class of one character, on which engines crash";
    }
    if (str_find_char(class, '.') < class.n) {
        need_version(c, "0.6.0");
    }
    return NULL;
}

static void check_name(struct check *c, const char *name)
{
    bool digits = is_from(c, "0.5.0"); // they may be first
    if (!text_is_name(str_of(name), "_-.:") || (str_is_digit(*name) && !digits)) {
        set_fault(c, &c->value,
                  arena_printf(c->arena, "\"%s\" is not a valid device name", printable(c, name)));
    } else if (!name[1] && !digits) {
        set_fault(c, &c->value, "a device has a name of one character, on which engines crash");
    }
    need_version(c, str_is_digit(*name) ? "0.5.0" : NULL);
}

/* The number of edits, as far as a list's entries count. */
static size_t n_edits(const struct check *c, const json_t *edits)
{
    size_t n = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        const struct field *f = &fields[i];
        const json_t *value = f->level == EDITS ? get_member(c, edits, f->name) : NULL, *one;
        size_t k;
        n += f->type == OBJECT && value;
        json_array_foreach(value, k, one)
        {
            n += !(c->strict && json_is_null(one) && f->type != OBJECTS);
        }
    }
    return n;
}

static void check_devices(struct check *c, const json_t *devices)
{
    json_t *seen = json_object();
    const json_t *device;
    size_t i, n = 0;
    json_array_foreach(devices, i, device)
    {
        if (json_is_null(device) && c->strict) {
            continue; // passed over
        }
        const char *name = text_member(c, device, "name");
        check_name(c, name);
        if (n_edits(c, get_member(c, device, "containerEdits")) == 0) {
            set_fault(c, &c->value,
                      arena_printf(c->arena, "device \"%s\" has no containerEdits, or empty ones",
                                   printable(c, name)));
        }
        if (json_object_get(seen, name)) {
            set_fault(
                c, &c->value,
                arena_printf(c->arena, "two devices have the name \"%s\"", printable(c, name)));
        }
        (void)json_object_set_new(seen, name, json_true());
        n++;
    }
    json_decref(seen);
    if (n == 0 && is_from(c, "1.0.0")) {
        set_fault(c, &c->value, "it has no devices");
    }
}

/* ------------------------------------------------------------------ a document */

static struct check checked(struct arena *a, const json_t *document, const char *library, bool all)
{
    struct check c = {
        .arena = a, .library = library, .lowest = earliest, .all = all, .is_last = true};
    c.strict = is_from(&c, yaml_decoder);
    check_object(&c, SPEC, (json_t *)(uintptr_t)document);
    const char *kind = kind_fault(&c, text_member(&c, document, "kind"));
    if (kind) {
        c.value = kind; // it is looked at before the edits
    }
    check_devices(&c, get_member(&c, document, "devices"));
    return c;
}

const char *cdi_lowest_version(struct arena *a, const json_t *document)
{
    return checked(a, document, cdi_newest_library, true).lowest;
}

const char *cdi_newest_version(const char *library)
{
    const char *newest = versions[0];
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        newest = host_version_cmp(versions[i], library) <= 0 ? versions[i] : newest;
    }
    return newest;
}

/* From 0.5.4 on versions may have a "v" before them, and are compared with what the fields need. */
static const char *version_fault(const struct check *c, const char *version, bool *ret_too_new)
{
    bool compares = is_from(c, "0.5.4"), known = false;
    const char *number = compares && *version == 'v' ? version + 1 : version;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        known |= strcmp(versions[i], number) == 0;
    }
    if (!known) {
        return *version ? arena_printf(c->arena, "there is no version %s of the format",
                                       printable(c, version))
                        : "\"cdiVersion\" is missing or empty";
    }
    if (host_version_cmp(number, cdi_newest_version(c->library)) > 0) {
        *ret_too_new = true;
        return arena_printf(c->arena, "version %s of the format is newer than it knows", number);
    }
    if (compares && host_version_cmp(number, c->lowest) < 0) {
        if (strcmp(c->lowest, earliest) == 0) {
            return arena_printf(c->arena, "version %s of the format is no longer supported",
                                number);
        }
        return arena_printf(c->arena, "its version is %s, and it has what came with version %s",
                            number, c->lowest);
    }
    return NULL;
}

const char *cdi_refusal(struct arena *a, const json_t *document, const char *library,
                        bool *ret_too_new)
{
    struct check c = checked(a, document, library, false);
    const char *fault = version_fault(&c, text_member(&c, document, "cdiVersion"), ret_too_new);
    *ret_too_new &= !c.shape;
    return c.shape ? c.shape : fault ? fault : c.value;
}

/* ------------------------------------------------------------------ one form for readers */

static json_t *as_text(const json_t *value)
{
    return json_is_integer(value) ? json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value))
           : json_is_real(value)  ? json_sprintf("%g", json_real_value(value))
                                  : json_string(json_is_true(value) ? "true" : "false");
}

static void tidy(enum level level, json_t *object);

static void tidy_value(const struct field *f, json_t *object, const char *key, json_t *value)
{
    if (f->type == TEXT && (json_is_number(value) || json_is_boolean(value))) {
        (void)json_object_set_new(object, key, as_text(value));
    } else if (f->type == OBJECT) {
        tidy(f->of, value);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_t *one = json_array_get(value, i);
        if (f->type == TEXTS && (json_is_number(one) || json_is_boolean(one))) {
            (void)json_array_set_new(value, i, as_text(one));
        } else if (f->type == OBJECTS) {
            tidy(f->of, one);
        }
    }
}

static void tidy(enum level level, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        for (size_t i = 0; i < FIELDS; i++) {
            if (fields[i].level == level && strcasecmp(fields[i].name, key) == 0) {
                tidy_value(&fields[i], object, key, value);
                break;
            }
        }
    }
}

void cdi_tidy(json_t *document)
{
    tidy(SPEC, document);
}

static void fold(enum level level, json_t *object)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const struct field *f = &fields[i];
        const char *key = NULL, *other;
        json_t *value, *one;
        size_t k;
        if (f->level != level) {
            continue;
        }
        json_object_foreach(object, other, value)
        {
            key = strcasecmp(other, f->name) == 0 ? other : key;
        }
        if (key && !json_object_get(object, f->name)) {
            (void)json_object_set(object, f->name, json_object_get(object, key));
            (void)json_object_del(object, key);
        }
        value = json_object_get(object, f->name);
        if (f->type == OBJECT) {
            fold(f->of, value);
        }
        json_array_foreach(value, k, one)
        {
            fold(f->of, one);
        }
    }
}

void cdi_fold(json_t *document)
{
    fold(SPEC, document);
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
