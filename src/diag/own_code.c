/*
 * Whose GPU code a program brings along: what nvcc and hipcc link into a file.
 */
#include "base/str.h"
#include "diag/finding.h"
#include "model/gpu.h"

/* Libraries of the toolkit and its kin, whose thousands of containers are not worth the memory. */
static bool is_of_vendor(const struct ldso_object *o)
{
    static const char *const names[] = {"libcu*",  "libnv*",  "libnpp*",   "libnccl*",
                                        "libroc*", "libhip*", "libMIOpen*"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (str_glob(names[i], path_base(o->path))) {
            return true;
        }
    }
    return false;
}

static const struct gpu_code *code_within(struct model *m, const struct ldso_object *o)
{
    const struct gpu_code *code = model_gpu_code(m, o, GPU_READ_SECTIONS);
    return code && (code->cuda.n_native || code->cuda.n_ptx || code->n_targets) ? code : NULL;
}

const struct ldso_object *diag_own_code(struct model *m, const struct model_process *p,
                                        const struct gpu_code **ret_code)
{
    const struct ldso_object *found = NULL;
    *ret_code = NULL;
    for (size_t i = 0; p->ldso && !m->env && i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        const struct gpu_code *code = is_of_vendor(o) ? NULL : code_within(m, o);
        if (code && o == p->ldso->main) {
            *ret_code = code;
            return o;
        }
        if (code && found) {
            *ret_code = NULL; // which of them the program uses, only the program knows
            return NULL;
        }
        if (code) {
            found = o;
            *ret_code = code;
        }
    }
    return found;
}
