/* CDI specifications: YAML that anybody may have written. */
#include <stdint.h>

#include "container/cdi_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    const char *why;
    arena_init(&a, (size_t)1 << 30, NULL, NULL);
    json_t *doc = cdi_parse(&a, (struct str){(const char *)data, size}, &why);
    if (doc) {
        (void)cdi_fault(&a, doc);
        (void)cdi_lowest_version(&a, doc);
    }
    json_decref(doc);
    arena_release(&a);
    return 0;
}
