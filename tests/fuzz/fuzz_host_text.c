/* Any bytes as each of the text files that the host room reads. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "host/names.h"
#include "host/parse.h"
#include "host/toml.h"
#include "ldso/cpu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A slice that a parser gave out lies inside its input. */
static void inside(struct str text, struct str part)
{
    assert(!part.s ||
           (part.s >= text.s && part.n <= text.n && (size_t)(part.s - text.s) <= text.n - part.n));
}

static void lines(struct str text)
{
    struct str rest = text, line;
    while (str_line(&rest, &line)) {
        struct host_mount m;
        struct host_cgroup_line c;
        struct host_node_line n;
        struct host_bdf b;
        struct str version;
        uint64_t number;
        uint32_t hex;
        if (host_parse_mount(line, &m)) {
            inside(text, m.root), inside(text, m.point), inside(text, m.type);
        }
        if (host_parse_cgroup(line, &c)) {
            inside(text, c.controllers), inside(text, c.path);
        }
        if (host_parse_node(line, &n)) {
            inside(text, n.path);
            assert(n.mode <= 0777777);
        }
        if (host_parse_bdf(line, &b)) {
            assert(b.device <= 31 && b.function <= 7);
        }
        if (host_parse_so_version(line, &version)) {
            inside(text, version);
        }
        if (host_parse_cpu_list(line, &number)) {
            assert(number >= 1 && number <= 65536);
        }
        (void)host_parse_hex(line, 8, &hex);
        (void)host_parse_cpu_max(line, &number);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"MemTotal", "Uid", "Model", "simd_count", "flags"};
    struct str text = {(const char *)data, size}, value;
    struct arena arena;
    uint64_t number;
    uint32_t major;
    bool open;
    arena_init(&arena, (size_t)64 << 20, NULL, NULL);
    lines(text);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (host_parse_key(text, keys[i], ':', &value)) {
            inside(text, value);
        }
        if (host_parse_property(text, keys[i], &number)) {
            const char *gfx = host_parse_gfx(&arena, number);
            assert(!gfx || strlen(gfx) <= 7);
        }
    }
    if (host_parse_nvrm(text, &value, &open)) {
        inside(text, value);
        assert(host_parse_is_version(value));
    }
    if (host_parse_environ(text, "A", &value)) {
        inside(text, value);
    }
    if (host_parse_group(text, 44, &value)) {
        inside(text, value);
    }
    (void)host_parse_major(text, "nvidia", &major);
    (void)host_parse_devices_allow(text, 195, 0);
    struct ldso_cpu cpu;
    ldso_cpu_info(text, &cpu, &value);
    assert(cpu.level >= 0 && cpu.level <= 4 && !cpu.why == (cpu.level > 0));
    inside(text, value);
    char *name = arena_strndup(&arena, text.s ? text.s : "", text.n);
    assert(host_marketing_name(&arena, "NVIDIA", name));
    (void)host_chip_name(&arena, name);
    for (struct host_toml t = {.rest = text}; host_toml_next(&t, &arena);) {
        assert(strlen(t.value) <= size);
    }
    arena_release(&arena);
    return 0;
}
