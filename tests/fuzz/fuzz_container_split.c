/* An engine's record of a layer's archive, beside a small folder of files and a link. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/gpumend-fuzz-split-XXXXXX";

static bool write_file(const char *name, const void *data, size_t size)
{
    int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(top, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, data, size) == (ssize_t)size;
    (void)close(fd);
    (void)close(top);
    return written;
}

static void remove_world(void)
{
    static const char *const names[] = {"diff/app/data", "diff/app/note", "diff/link", "record"};
    int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)unlinkat(top, names[i], 0);
    }
    (void)unlinkat(top, "diff/app", AT_REMOVEDIR);
    (void)unlinkat(top, "diff", AT_REMOVEDIR);
    (void)close(top);
    (void)rmdir(folder);
}

static bool make_world(void)
{
    static bool made;
    if (made) {
        return true;
    }
    made = mkdtemp(folder) != NULL;
    int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    made = made && mkdirat(top, "diff", 0700) == 0 && mkdirat(top, "diff/app", 0700) == 0 &&
           symlinkat("app", top, "diff/link") == 0 &&
           write_file("diff/app/data", "0123456789", 10) && write_file("diff/app/note", "text", 4);
    (void)close(top);
    (void)atexit(remove_world);
    return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct image_split_layer layer = {
        "/diff", "/record",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
    struct root root = ROOT_EMPTY;
    struct arena a;
    struct gm_err err;
    uint64_t left = 1 << 24;
    const char *why;
    arena_init(&a, 0, NULL, NULL);
    if (make_world() && write_file("record", data, size) && root_open(&root, folder, &err) == 0) {
        (void)!image_split_check(&root, &a, &layer, &left, &why, &err);
    }
    root_close(&root);
    arena_release(&a);
    return 0;
}
