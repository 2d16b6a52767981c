/* Layers of an image: the index, and then every file's content through a root. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/root.h"
#include "image/layers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at_all(struct root *r, struct image_layers *l, struct arena *a, const char *folder,
                        int depth)
{
    struct root_dir names;
    if (depth > 8 || root_list(r, a, folder, 256, NULL, &names) < 0) {
        return;
    }
    for (size_t i = 0; i < names.n; i++) {
        const char *path = path_join(a, folder, names.names[i]);
        struct str text;
        char *real;
        (void)!root_read(r, a, path, 1 << 20, &text);
        (void)!root_realpath(r, a, path, &real);
        look_at_all(r, l, a, path, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct gm_err err;
    struct image_layers layers;
    struct root root = ROOT_EMPTY;
    int fd = memfd_create("layer", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        return 0;
    }
    arena_init(&a, (size_t)1 << 30, NULL, NULL);
    image_layers_init(&layers, &a);
    /* The second half once more, as a layer over the first. */
    struct image_layer_place whole = {.fd = fd, .size = size};
    struct image_layer_place half = {.fd = fd, .offset = size / 2, .size = size - size / 2};
    int rc = image_layers_add(&layers, &whole, &err);
    rc = rc < 0 ? rc : image_layers_add(&layers, &half, &err);
    root_replay(&root, &layers.snap, "image");
    for (int i = 0; i < 3; i++) {
        look_at_all(&root, &layers, &a, "/", 0);
        if (rc < 0 || !image_layers_want_more(&layers) || image_layers_fetch(&layers, &err) < 0) {
            break;
        }
    }
    image_layers_release(&layers);
    arena_release(&a);
    (void)close(fd);
    return 0;
}
