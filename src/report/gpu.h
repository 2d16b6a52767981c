/* What files say of the GPU code in them, as a table and as JSON (docs/json.md, "kb arch"). */
#ifndef GPUMEND_REPORT_GPU_H
#define GPUMEND_REPORT_GPU_H

#include "base/out.h"
#include "gpu/code.h"
#include "gpu/family.h"

struct report_gpu_file {
    const char *path;
    const char *error; // why it could not be read, or NULL
    struct gpu_code code;
    struct gpu_families families;
};

json_t *report_gpu_json(struct arena *a, const struct report_gpu_file *files, size_t n);
void report_gpu_text(const struct out *o, struct arena *a, const struct report_gpu_file *files,
                     size_t n);

#endif
