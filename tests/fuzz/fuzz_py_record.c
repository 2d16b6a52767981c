/* RECORD of a distribution: every row leaves less to be read, and lies in bounds. */
#include <stddef.h>
#include <stdint.h>

#include "py/metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct str rest = {(const char *)data, size};
    struct py_record_row row;
    size_t left = size;
    arena_init(&a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    while (py_record_next(&a, &rest, &row)) {
        if (row.path.n == 0 || rest.n >= left) {
            __builtin_trap();
        }
        (void)str_dup(&a, row.path);
        (void)str_dup(&a, row.hash);
        left = rest.n;
    }
    arena_release(&a);
    return 0;
}
