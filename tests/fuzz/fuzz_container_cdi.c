/* CDI specifications: YAML that anybody may have written. */
#include <stdint.h>

#include "cdi/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const libraries[] = {"0.4.0", "0.5.2", "0.8.1", cdi_newest_library};
    struct arena a;
    const char *why;
    arena_init(&a, (size_t)1 << 30, NULL, NULL);
    json_t *doc = cdi_parse(&a, (struct str){(const char *)data, size}, &why);
    if (doc) {
        cdi_tidy(doc);
        for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
            bool too_new = false;
            (void)cdi_refusal(&a, doc, libraries[i], &too_new);
        }
        cdi_fold(doc);
        (void)cdi_lowest_version(&a, doc);
    }
    json_decref(doc);
    arena_release(&a);
    return 0;
}
