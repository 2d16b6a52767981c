/*
 * layer-tree LAYER...: the file system that layers come to, a line each name: its path, a tab, and
 * "d", "f SIZE", "l TARGET", or the letter of another type. A LAYER is a tar archive or a folder of
 * an engine's storage. "refused" and the reason where engines would not unpack it. Status 2: a
 * layer cannot be read.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/root.h"
#include "image/layers.h"

static void print_one(const char *path, const struct stat *st, const char *link)
{
    printf("%s\t", path);
    if (S_ISDIR(st->st_mode)) {
        printf("d\n");
    } else if (S_ISREG(st->st_mode)) {
        printf("f %lld\n", (long long)st->st_size);
    } else if (S_ISLNK(st->st_mode)) {
        printf("l %s\n", link);
    } else {
        printf("%c\n", S_ISCHR(st->st_mode) ? 'c' : S_ISBLK(st->st_mode) ? 'b' : '?');
    }
}

static void print_folder(struct root *r, struct arena *a, const char *folder)
{
    enum { NAMES_MAX = 100000 };
    struct root_dir names;
    if (root_list(r, a, folder, NAMES_MAX, NULL, &names) < 0) {
        return;
    }
    for (size_t i = 0; i < names.n; i++) {
        const char *path = path_join(a, folder, names.names[i]);
        struct stat st;
        char *link = NULL;
        if (root_lstat(r, path, &st) < 0) {
            printf("%s\tnot there\n", path);
            continue;
        }
        if (S_ISLNK(st.st_mode) && root_readlink(r, a, path, &link) < 0) {
            link = NULL;
        }
        print_one(path, &st, link ? link : "");
        if (S_ISDIR(st.st_mode)) {
            print_folder(r, a, path);
        }
    }
}

static int add(struct image_layers *l, struct root *host, const char *path, struct gm_err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s cannot be opened", path);
    }
    struct image_layer_place place = {.fd = fd, .size = (uint64_t)st.st_size, .ino = st.st_ino};
    return S_ISDIR(st.st_mode) ? image_layers_add_folder(l, host, path, err)
                               : image_layers_add(l, &place, err);
}

int main(int argc, char **argv)
{
    struct arena a;
    struct gm_err err;
    struct image_layers layers;
    struct root host = ROOT_EMPTY, root = ROOT_EMPTY;
    arena_init(&a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    int rc = root_open(&host, "/", &err);
    image_layers_init(&layers, &a);
    for (int i = 1; rc == 0 && i < argc; i++) {
        rc = add(&layers, &host, argv[i], &err);
    }
    if (rc < 0) {
        printf("unreadable\t%s\n", err.text);
        return 2;
    }
    if (layers.refused) {
        printf("refused\t%s\n", layers.refused);
    }
    root_replay(&root, &layers.snap, "image");
    print_folder(&root, &a, "/");
    image_layers_release(&layers);
    root_close(&host);
    arena_release(&a);
    return 0;
}
