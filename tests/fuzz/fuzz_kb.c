/* A folder of --kb: the first byte chooses the area, the others are its file. What is read can be
 * printed. An area of its own is loaded, no built-in one: that takes longer than a thousand inputs.
 */
#include <assert.h>
#include <stdint.h>

#include "kb/kb.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gm_err err;
    struct arena a;
    struct root root;
    struct kb kb;
    struct kb_rows rows;
    char path[64];
    if (!size) {
        return 0;
    }
    enum kb_area area = (enum kb_area)(data[0] % KB_AREAS);
    (void)snprintf(path, sizeof path, "/kb/%s.json", kb_area_name(area));
    world_write(path, data + 1, size - 1);
    arena_init(&a, (size_t)1 << 30, NULL, NULL);
    int rc = root_open(&root, world_top(), &err);
    rc = rc < 0 ? rc : kb_open(&kb, &a, &root, "/kb", &err);
    assert(rc == 0);
    if (kb_rows(&kb, area, &rows, &err) == 0) {
        for (size_t i = 0; i < rows.n; i++) {
            json_t *row = kb_row_json(area, (const char *)rows.items + i * rows.size);
            assert(row);
            json_decref(row);
        }
    }
    root_close(&root);
    arena_release(&a);
    return 0;
}
