/* Images whose documents are pieces of the input, cut at 0xff bytes: an OCI layout, an unpacked
 * archive of docker save, and the storage of podman and of docker. Digests are not checked: no
 * input would have one. */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>

#include "image/image.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ID     "1111111111111111111111111111111111111111111111111111111111111111"
#define LAYER  "2222222222222222222222222222222222222222222222222222222222222222"
#define PODMAN "/var/lib/containers/storage"
#define DOCKER "/var/lib/docker/image/overlay2"
#define BLOBS  "/layout/blobs/sha256/"

static const char *const pieces[] = {
    "/layout/oci-layout",
    "/layout/index.json",
    BLOBS ID,
    BLOBS LAYER,
    "/save/manifest.json",
    "/save/config.json",
    PODMAN "/overlay-images/images.json",
    PODMAN "/overlay-layers/layers.json",
    PODMAN
    "/overlay-images/" ID "/="
    "c2hhMjU2OjExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTEx",
    DOCKER "/repositories.json",
    DOCKER "/imagedb/content/sha256/" ID,
    DOCKER "/layerdb/sha256/" LAYER "/diff",
    DOCKER "/layerdb/sha256/" LAYER "/parent",
    DOCKER "/layerdb/sha256/" LAYER "/cache-id",
};

static void open_folder(const char *folder)
{
    char path[256];
    struct gm_err err;
    struct arena a;
    struct image image = IMAGE_EMPTY;
    (void)snprintf(path, sizeof path, "%s%s", world_top(), folder);
    const struct image_wish wish = {
        .path = path, .no_verify = true, .platform = image_platform_of(EM_X86_64)};
    arena_init(&a, (size_t)1 << 30, NULL, NULL);
    (void)!image_open(&image, &a, &wish, &err);
    image_close(&image);
    arena_release(&a);
}

static void open_stored(void)
{
    struct gm_err err;
    struct arena a;
    struct root root;
    struct image image = IMAGE_EMPTY;
    arena_init(&a, (size_t)1 << 30, NULL, NULL);
    if (root_open(&root, world_top(), &err) == 0) {
        const struct image_wish wish = {.path = "app", .no_verify = true};
        (void)!image_open_stored(&image, &a, &root, NULL, &wish, &err);
        image_close(&image);
        root_close(&root);
    }
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world_write_pieces(pieces, sizeof pieces / sizeof *pieces, data, size);
    open_folder("/layout");
    open_folder("/save");
    open_stored();
    return 0;
}
