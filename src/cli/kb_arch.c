#include <sys/mman.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/kb_arch.h"
#include "report/gpu.h"

/* The families of a file, from a mapping that ends with the call; their texts are in the arena. */
static void read_families(struct root *root, struct arena *a, const char *path,
                          struct gpu_families *ret)
{
    const void *data = NULL;
    size_t size = 0;
    struct stat st;
    if (root_map(root, path, &data, &size, &st) < 0 || !data) {
        return; // said by the reading of its code
    }
    struct elf_image image;
    elf_image_parse(a, data, size, &image);
    gpu_families_read(a, &image, path, ret);
    (void)munmap((void *)(uintptr_t)data, size); // our own mapping
}

int cli_kb_arch(struct arena *a, struct root *root, const char *const *paths, size_t n, bool all,
                bool json)
{
    struct report_gpu_file *files = arena_array(a, n, sizeof *files);
    bool failed = false;
    for (size_t i = 0; i < n; i++) {
        struct gm_err err;
        const char *path = paths[i][0] == '/' ? paths[i] : path_join(a, cli_cwd(a), paths[i]);
        files[i].path = paths[i];
        if (gpu_code_read_file(root, a, path, all ? GPU_READ_ALL : GPU_READ_SECTIONS,
                               &files[i].code, &err) < 0) {
            files[i].error = arena_strdup(a, err.text);
            failed = true;
            continue;
        }
        read_families(root, a, path, &files[i].families);
    }
    if (json) {
        if (out_json_dump(stdout, report_gpu_json(a, files, n)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        struct out out;
        out_init(&out, stdout);
        report_gpu_text(&out, a, files, n);
    }
    return failed ? CLI_CANNOT : CLI_OK;
}
