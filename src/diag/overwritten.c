/*
 * One package installed over another: the wheels of cuDNN for CUDA 12 and for CUDA 13 have the same
 * paths, and pip and uv let the last one win. Both are "installed" by their metadata, so that an
 * installer that is asked for the lost one does nothing.
 */
#include <string.h>
#include <sys/stat.h>

#include "diag/internal.h"
#include "py/dist.h"
#include "py/owner.h"

/* The recorded size of the path, if the distribution lists it. */
static bool lists(struct diag *d, const struct py_dist *dist, const char *path, uint64_t *ret_bytes)
{
    struct py_libraries list;
    (void)py_dist_libraries(d->m->env, dist, &list); // empty without a RECORD
    for (size_t i = 0; i < list.rows.n; i++) {
        const struct py_record_row *row = &list.rows.items[i];
        const char *its = path_join(d->a, dist->site, str_dup(d->a, row->path));
        if (row->has_size && strcmp(path_normal(d->a, its), path) == 0) {
            *ret_bytes = row->size_bytes;
            return true;
        }
    }
    return false;
}

static bool find_both(struct diag *d, const char *path, uint64_t size,
                      const struct py_dist **ret_lost, const struct py_dist **ret_winner)
{
    const struct py_env *env = d->m->env;
    *ret_lost = *ret_winner = NULL;
    for (size_t i = 0; i < env->n_dists; i++) {
        const struct py_dist *dist = &env->dists[i];
        uint64_t bytes = 0;
        if (!starts_with(dist->name_normal, "nvidia-") || dist->shadowed_by || !dist->version ||
            !lists(d, dist, path, &bytes)) {
            continue;
        }
        *(bytes == size ? ret_winner : ret_lost) = dist;
    }
    return *ret_lost && *ret_winner;
}

bool diag_repair_overwritten(struct diag *d, struct diag_finding *f, const char *path)
{
    const struct py_dist *lost, *winner;
    struct stat st;
    const char *file = path_normal(d->a, model_absolute(d->m, path));
    if (!d->m->env || root_stat(d->m->root, file, &st) < 0 ||
        !find_both(d, file, (uint64_t)st.st_size, &lost, &winner)) {
        return false;
    }
    const struct py_dist *by = diag_required_by(d, lost->name_normal);
    if (!by) {
        return false; // which of the two should stay is not known
    }
    diag_evidence(d, f,
                  "%s %s was installed over %s %s: both list %s, and its size is the former's",
                  winner->name_normal, winner->version, lost->name_normal, lost->version, file);
    const char *spec = arena_printf(d->a, "%s==%s", lost->name_normal, lost->version);
    diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                arena_printf(d->a, "%s && %s", diag_pip_remove(d, winner->name_normal),
                             diag_pip(d, arena_printf(d->a, "--force-reinstall --no-deps %s",
                                                      diag_quote(d, spec)))),
                "Remove %s, which overwrote files of %s, and install that again: %s requires it, "
                "and the two cannot be in one environment.",
                winner->name_normal, lost->name_normal, by->name_normal);
    return true;
}
