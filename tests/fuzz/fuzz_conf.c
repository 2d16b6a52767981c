/* ld.so.conf: every line lies in the text, is trimmed and not empty, and the rest grows shorter. */
#include <stddef.h>
#include <stdint.h>

#include "ldso/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *start = (const char *)data;
    struct str rest = {start, size};
    struct ldso_conf_line line;
    size_t left = size + 1;
    while (ldso_conf_next(&rest, &line)) {
        bool inside = line.text.s >= start && line.text.s + line.text.n <= start + size;
        bool comment = str_find_char(line.text, '#') < line.text.n;
        if (!inside || comment || rest.n >= left || str_trim(line.text).n != line.text.n ||
            (line.kind == LDSO_CONF_DIR && line.text.n == 0)) {
            __builtin_trap();
        }
        left = rest.s ? rest.n : 0;
        if (!rest.s) {
            break;
        }
    }
    return 0;
}
