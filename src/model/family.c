#include "model/family.h"

#include <string.h>

#include "kb/libver.h"
#include "py/owner.h"

/* "9.1.0.70" -> "9.1.0": what a package's version says of the library in it. */
static const char *three_parts(struct arena *a, const char *version)
{
    struct str s = str_of(version);
    size_t dots = 0, n = 0;
    while (n < s.n && (s.s[n] != '.' || ++dots < 3)) {
        n++;
    }
    return arena_strndup(a, version, n);
}

/* The package's word counts only if the file still has the size that the package recorded. */
static const char *by_package(struct model *m, const struct ldso_file *file, const char *path)
{
    if (!m->env) {
        return NULL;
    }
    struct py_owned_file f = py_owner(m->env, path);
    if (!f.dist || !f.dist->version || !f.has_size || f.size_bytes != file->image.size) {
        return NULL;
    }
    bool nvidia = starts_with(f.dist->name_normal, "nvidia-");
    return nvidia ? three_parts(m->arena, f.dist->version) : NULL;
}

const char *model_object_version(struct model *m, struct ldso_file *file, const char *path,
                                 enum kb_version_from from)
{
    const char *key = arena_printf(m->arena, "version %d %llx:%llx", (int)from,
                                   (unsigned long long)file->dev, (unsigned long long)file->ino);
    const char **known = ldso_store_recall(m->store, key);
    if (!known) {
        struct kb_libver v;
        known = arena_alloc(m->arena, sizeof *known);
        if (kb_library_version(&file->image, path, from, &v)) {
            *known = v.has_pat ? arena_printf(m->arena, "%u.%u.%u", v.maj, v.min, v.pat)
                               : arena_printf(m->arena, "%u.%u", v.maj, v.min);
        } else if (from != KB_VERSION_FILE_NAME) {
            *known = by_package(m, file, path);
        }
        ldso_store_remember(m->store, key, known);
    }
    return *known;
}
