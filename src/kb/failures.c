#include "kb/failures.h"

#include <errno.h>
#include <string.h>

static int folder_list(struct root *root, struct arena *a, const char *folder, struct root_dir *ret,
                       struct gm_err *err)
{
    int rc = root_list(root, a, folder, 2 * (size_t)KB_FAILURES_MAX, NULL, ret);
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", folder, strerror(-rc));
    }
    return ret->truncated ? gm_err_set(err, GM_ERR_LIMIT, "%s: more than %d files", folder,
                                       2 * KB_FAILURES_MAX)
                          : 0;
}

/* Not read, and no mistake: what editors and version control leave, and a text for people. */
static bool is_passed_over(const char *name)
{
    return name[0] == '.' || starts_with(name, "README");
}

static int file_read(struct root *root, struct arena *a, const char *path, struct node_file *ret,
                     struct gm_err *err)
{
    struct str text;
    int rc = root_read(root, a, path, NODE_FILE_MAX, &text);
    return rc < 0 ? gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(-rc))
                  : node_read_yaml(a, path, text, ret, err);
}

/* `alone`: nothing but failures belongs in the folder. */
static int files_read(struct root *root, struct arena *a, const char *folder, bool alone,
                      struct node_files *ret, struct gm_err *err)
{
    struct root_dir dir;
    int rc = folder_list(root, a, folder, &dir, err);
    if (rc < 0) {
        return rc;
    }
    struct node_file *files = arena_array(a, dir.n + 1, sizeof *files);
    ret->items = files;
    for (size_t i = 0; i < dir.n; i++) {
        const char *name = dir.names[i], *path = path_join(a, folder, name);
        if (is_passed_over(name) ||
            (!alone && !ends_with(name, ".yaml") && !ends_with(name, ".yml"))) {
            continue;
        }
        if (!ends_with(name, ".yaml")) {
            return gm_err_set(err, GM_ERR_FORMAT, "%s: a file of failures is called NAME.yaml",
                              path);
        }
        rc = file_read(root, a, path, &files[ret->n], err);
        if (rc < 0) {
            return rc;
        }
        ret->n++;
    }
    return 0;
}

int kb_failures_read(struct root *root, struct arena *a, const char *folder, struct node_files *ret,
                     struct gm_err *err)
{
    const char *inner = path_join(a, folder, "failures");
    struct stat st;
    *ret = (struct node_files){.n = 0};
    bool has_inner = root_stat(root, inner, &st) != -ENOENT;
    return files_read(root, a, has_inner ? inner : folder, has_inner, ret, err);
}
