/* METADATA, WHEEL and direct_url.json of a distribution, and the requirements they hold. */
#include <stddef.h>
#include <stdint.h>

#include "py/metadata.h"
#include "py/requirement.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_requirement(struct arena *a, struct str text)
{
    static const struct py_marker_env env = {.python_version = "3.11",
                                             .python_full_version = "3.11.7",
                                             .sys_platform = "linux",
                                             .extra = "gpu"};
    struct py_requirement r;
    if (py_requirement_parse(a, text, &r, NULL) == 0) {
        (void)py_marker_eval(a, r.marker, &env);
        (void)py_name_normal(a, r.name);
        (void)py_specifiers_match(&r.specifiers, STR("2.1.0+cu118"));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct str text = {(const char *)data, size};
    struct py_metadata m;
    struct py_wheel w;
    struct py_direct_url url;
    struct py_version v;
    arena_init(&a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    py_metadata_parse(&a, text, &m);
    for (size_t i = 0; i < m.n_requires_dist; i++) {
        try_requirement(&a, m.requires_dist[i]);
    }
    if (py_version_parse(m.version, &v) && py_version_cmp(&v, &v) != 0) {
        __builtin_trap(); // a version equals itself
    }
    try_requirement(&a, text);
    py_wheel_parse(&a, text, &w);
    (void)py_direct_url_parse(&a, text, &url, NULL);
    (void)py_header_block(text);
    arena_release(&a);
    return 0;
}
