#include "host/parse.h"

#include <string.h>

bool host_parse_key(struct str text, const char *key, char sep, struct str *ret)
{
    struct str line;
    while (str_line(&text, &line)) {
        struct str rest = line;
        struct str name = str_trim(str_cut(&rest, sep));
        if (rest.s && str_is(name, key)) {
            *ret = str_trim(rest);
            return true;
        }
    }
    return false;
}

bool host_parse_property(struct str text, const char *key, uint64_t *ret)
{
    struct str value;
    return host_parse_key(text, key, ' ', &value) && str_u64(value, ret);
}

bool host_parse_hex(struct str text, unsigned digits, uint32_t *ret)
{
    text = str_trim(text);
    if (str_starts(text, "0x")) {
        text = (struct str){text.s + 2, text.n - 2};
    }
    if (text.n == 0 || text.n > digits || digits > 8) {
        return false;
    }
    uint32_t value = 0;
    for (size_t i = 0; i < text.n; i++) {
        int d = str_hex_digit(text.s[i]);
        if (d < 0) {
            return false;
        }
        value = value << 4 | (uint32_t)d;
    }
    *ret = value;
    return true;
}

bool host_parse_bdf(struct str text, struct host_bdf *ret)
{
    struct str rest = text;
    struct str domain = str_cut(&rest, ':');
    struct str bus = str_cut(&rest, ':');
    struct str device = str_cut(&rest, '.');
    uint32_t d, b, v, f;
    if (!rest.s || domain.n < 4 || bus.n != 2 || device.n != 2 || rest.n != 1 ||
        !host_parse_hex(domain, 8, &d) || !host_parse_hex(bus, 2, &b) ||
        !host_parse_hex(device, 2, &v) || !host_parse_hex(rest, 1, &f) || v > 31 || f > 7) {
        return false;
    }
    *ret = (struct host_bdf){d, (uint8_t)b, (uint8_t)v, (uint8_t)f};
    return true;
}

bool host_parse_is_version(struct str text)
{
    size_t groups = 0;
    while (text.s) {
        struct str group = str_cut(&text, '.');
        uint64_t n;
        if (group.n > 6 || !str_u64(group, &n)) {
            return false;
        }
        groups++;
    }
    return groups >= 2 && groups <= 4;
}

bool host_parse_nvrm(struct str text, struct str *ret_version, bool *ret_open)
{
    struct str line;
    while (str_line(&text, &line)) {
        size_t at = str_find(line, "Kernel Module");
        if (!str_starts(line, "NVRM version:") || at == line.n) {
            continue;
        }
        struct str words = {line.s + at, line.n - at};
        while (words.s) {
            struct str word = str_cut(&words, ' ');
            if (host_parse_is_version(word)) {
                *ret_version = word;
                *ret_open = str_find(line, "Open Kernel Module") < line.n;
                return true;
            }
        }
        return false;
    }
    return false;
}

bool host_parse_so_version(struct str name, struct str *ret)
{
    size_t at = str_find(name, ".so.");
    if (at == name.n) {
        return false;
    }
    struct str version = {name.s + at + 4, name.n - at - 4};
    if (!host_parse_is_version(version)) {
        return false;
    }
    *ret = version;
    return true;
}

bool host_parse_major(struct str text, const char *name, uint32_t *ret)
{
    struct str line;
    while (str_line(&text, &line) && !str_is(line, "Block devices:")) {
        struct str rest = str_trim(line);
        struct str number = str_cut(&rest, ' ');
        uint64_t major;
        if (rest.s && str_is(str_trim(rest), name) && str_u64(number, &major) &&
            major <= UINT32_MAX) {
            *ret = (uint32_t)major;
            return true;
        }
    }
    return false;
}

enum { CPUS_MAX = 65536 };

bool host_parse_cpu_list(struct str text, uint64_t *ret_count)
{
    uint64_t count = 0;
    text = str_trim(text);
    if (text.n == 0) {
        return false;
    }
    while (text.s) {
        struct str range = str_cut(&text, ',');
        struct str last = range;
        struct str first = str_cut(&last, '-');
        uint64_t a, b;
        if (!str_u64(first, &a) || (last.s && !str_u64(last, &b))) {
            return false;
        }
        b = last.s ? b : a;
        if (b < a || b >= CPUS_MAX) {
            return false;
        }
        count += b - a + 1;
        if (count > CPUS_MAX) {
            return false;
        }
    }
    *ret_count = count;
    return true;
}

const char *host_parse_gfx(struct arena *a, uint64_t version)
{
    uint64_t major = version / 10000, minor = version / 100 % 100, stepping = version % 100;
    if (major == 0 || major > 99 || minor > 15 || stepping > 15) {
        return NULL;
    }
    return arena_printf(a, "gfx%u%x%x", (unsigned)major, (unsigned)minor, (unsigned)stepping);
}

const char *host_parse_gfx_override(struct arena *a, const char *text)
{
    struct str rest = str_of(text);
    uint64_t part[3];
    for (size_t i = 0; i < 3; i++) {
        if (!str_u64(str_cut(&rest, '.'), &part[i]) || part[i] > 15) {
            return NULL;
        }
    }
    return rest.s ? NULL : host_parse_gfx(a, part[0] * 10000 + part[1] * 100 + part[2]);
}

/* Linux Documentation/filesystems/proc.rst, 3.5: ID parent major:minor root point options
 * [optional fields] - type source super-options */
bool host_parse_mount(struct str line, struct host_mount *ret)
{
    for (int i = 0; i < 3; i++) {
        (void)str_cut(&line, ' ');
    }
    if (!line.s) {
        return false;
    }
    ret->root = str_cut(&line, ' ');
    if (!line.s) {
        return false;
    }
    ret->point = str_cut(&line, ' ');
    while (line.s) {
        if (str_is(str_cut(&line, ' '), "-") && line.s) {
            ret->type = str_cut(&line, ' ');
            ret->source = str_cut(&line, ' ');
            ret->options = line.s ? line : STR("");
            return ret->point.n != 0;
        }
    }
    return false;
}

bool host_parse_cgroup(struct str line, struct host_cgroup_line *ret)
{
    uint64_t id;
    if (!str_u64(str_cut(&line, ':'), &id) || !line.s) {
        return false;
    }
    ret->controllers = str_cut(&line, ':');
    ret->path = line;
    return line.s && line.n && line.s[0] == '/';
}

bool host_parse_cpu_max(struct str text, uint64_t *ret_millis)
{
    struct str rest = str_trim(text);
    struct str quota = str_cut(&rest, ' ');
    uint64_t q, p;
    if (!rest.s || !str_u64(quota, &q) || !str_u64(str_trim(rest), &p) || p == 0 ||
        q > UINT64_MAX / 1000) {
        return false;
    }
    *ret_millis = q * 1000 / p;
    return true;
}

static bool octal(struct str s, uint64_t *ret)
{
    uint64_t value = 0;
    if (s.n == 0 || s.n > 6) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.s[i] < '0' || s.s[i] > '7') {
            return false;
        }
        value = value << 3 | (uint64_t)(s.s[i] - '0');
    }
    *ret = value;
    return true;
}

bool host_parse_node(struct str line, struct host_node_line *ret)
{
    struct str rest = str_trim(line);
    ret->path = str_cut(&rest, ' ');
    struct str type = str_cut(&rest, ' ');
    ret->is_char = str_is(type, "c");
    if (ret->path.n == 0 || ret->path.s[0] != '/' || (!ret->is_char && !str_is(type, "b"))) {
        return false;
    }
    bool ok = str_u64(str_cut(&rest, ' '), &ret->major);
    ok = ok && str_u64(str_cut(&rest, ' '), &ret->minor);
    ok = ok && octal(str_cut(&rest, ' '), &ret->mode);
    ok = ok && str_u64(str_cut(&rest, ' '), &ret->uid);
    ok = ok && str_u64(str_cut(&rest, ' '), &ret->gid);
    ret->access = rest.s ? str_trim(rest) : STR("-");
    return ok;
}

bool host_parse_environ(struct str block, const char *name, struct str *ret)
{
    while (block.s) {
        struct str value = str_cut(&block, '\0');
        struct str key = str_cut(&value, '=');
        if (value.s && str_is(key, name)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

bool host_parse_group(struct str text, uint64_t gid, struct str *ret_name)
{
    struct str line;
    while (str_line(&text, &line)) {
        struct str rest = line;
        struct str name = str_cut(&rest, ':');
        (void)str_cut(&rest, ':');
        uint64_t id;
        if (rest.s && name.n && str_u64(str_cut(&rest, ':'), &id) && id == gid) {
            *ret_name = name;
            return true;
        }
    }
    return false;
}

static bool number_fits(struct str pattern, uint64_t number)
{
    uint64_t n;
    return str_is(pattern, "*") || (str_u64(pattern, &n) && n == number);
}

bool host_parse_devices_allow(struct str list, uint64_t major, uint64_t minor)
{
    struct str line;
    while (str_line(&list, &line)) {
        struct str rest = str_trim(line);
        struct str type = str_cut(&rest, ' ');
        struct str numbers = str_cut(&rest, ' ');
        struct str first = str_cut(&numbers, ':');
        bool rw = rest.s && str_find_char(rest, 'r') < rest.n && str_find_char(rest, 'w') < rest.n;
        if (rw && numbers.s && (str_is(type, "a") || str_is(type, "c")) &&
            number_fits(first, major) && number_fits(numbers, minor)) {
            return true;
        }
    }
    return false;
}
