/* Whether a path is an image, and which words of a command line are. */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/image.h"

static bool folder_has(struct arena *a, const char *folder, const char *name)
{
    struct stat st;
    return stat(path_join(a, folder, name), &st) == 0;
}

bool image_is(const char *path)
{
    struct stat st;
    struct arena a;
    if (stat(path, &st) < 0 || S_ISREG(st.st_mode)) {
        return true;
    }
    arena_init(&a, 0, NULL, NULL);
    bool is = folder_has(&a, path, "oci-layout") ||
              (folder_has(&a, path, "manifest.json") && !folder_has(&a, path, "usr") &&
               !folder_has(&a, path, "etc"));
    arena_release(&a);
    return is;
}

/* An ELF file, or a script with an interpreter line. */
static bool is_program(const char *path)
{
    char head[4] = {0};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head) : 0;
    if (fd >= 0) {
        (void)close(fd); // nothing was written
    }
    return n == (ssize_t)sizeof head &&
           (memcmp(head, "\177ELF", 4) == 0 || memcmp(head, "#!", 2) == 0);
}

bool image_is_meant(const char *path)
{
    /* Folders at the top of a file system [FHS 3.0] that a project has none of. */
    static const char *const tops[] = {"bin", "dev",  "lib", "lib64", "opt", "proc", "root",
                                       "run", "sbin", "srv", "sys",   "tmp", "var"};
    struct stat st;
    struct arena a;
    if (stat(path, &st) < 0) {
        return path[0] != '/' && path[0] != '.';
    }
    if (!S_ISDIR(st.st_mode)) {
        return S_ISREG(st.st_mode) && !is_program(path);
    }
    arena_init(&a, 0, NULL, NULL);
    bool environment = folder_has(&a, path, "pyvenv.cfg") || folder_has(&a, path, "conda-meta");
    bool prefix = folder_has(&a, path, "bin/python3") || folder_has(&a, path, "bin/python");
    bool by_skopeo = folder_has(&a, path, "manifest.json") && folder_has(&a, path, "version");
    bool system = folder_has(&a, path, "oci-layout") || folder_has(&a, path, "usr") ||
                  folder_has(&a, path, "etc") || by_skopeo;
    bool top = false; // of an image that has its program alone
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        top = top || folder_has(&a, path, tops[i]);
    }
    arena_release(&a);
    return !environment && (system || (top && !prefix));
}

/* Whether there is an archive or a layout of this path; a program is none. */
static bool holds_images(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (S_ISREG(st.st_mode) ? !is_program(path) : image_is(path));
}

const char *image_split(struct arena *a, const char *text, const char **ret_name)
{
    static const char *const transports[] = {"docker-archive:", "oci-archive:", "oci:", "dir:"};
    struct stat st;
    *ret_name = NULL;
    if (stat(text, &st) == 0) {
        return text;
    }
    const char *from = text;
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        from = starts_with(text, transports[i]) ? text + strlen(transports[i]) : from;
    }
    if (from != text && holds_images(from)) {
        return from;
    }
    for (const char *colon = strchr(from, ':'); colon; colon = strchr(colon + 1, ':')) {
        const char *path = arena_strndup(a, from, (size_t)(colon - from));
        if (*path && colon[1] && holds_images(path)) {
            *ret_name = colon + 1;
            return path;
        }
    }
    return text;
}
