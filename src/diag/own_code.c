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

diag_own_code_list diag_own_codes(struct model *m, const struct model_process *p)
{
    diag_own_code_list ret = {0};
    for (size_t i = 0; p->ldso && !m->env && i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        const struct gpu_code *code = is_of_vendor(o) ? NULL : code_within(m, o);
        struct diag_own_code one = {o, code};
        if (code && o == p->ldso->main) {
            ret.n = 0;
            VEC_PUSH(m->arena, &ret, one);
            return ret;
        }
        if (code) {
            VEC_PUSH(m->arena, &ret, one);
        }
    }
    return ret;
}

const struct ldso_object *diag_own_code(struct model *m, const struct model_process *p,
                                        const struct gpu_code **ret_code)
{
    diag_own_code_list all = diag_own_codes(m, p);
    *ret_code = all.n == 1 ? all.items[0].code : NULL;
    return all.n == 1 ? all.items[0].object : NULL; // which of several it uses, only it knows
}
