#include "winldr/bitsandbytes.h"

#include <string.h>

#include "winldr/script.h"

struct release { // of CUDA or ROCm
    uint64_t major, minor;
};

/* "12.4" or "6.2.41134"; a major of 0: not understood. */
static struct release release_of(const char *text)
{
    struct release r = {0};
    struct str rest = str_of(text ? text : "");
    bool good =
        str_u64(str_cut(&rest, '.'), &r.major) && rest.s && str_u64(str_cut(&rest, '.'), &r.minor);
    return good ? r : (struct release){0};
}

/* "libbitsandbytes_cuda124.dll" -> 12.4, "libbitsandbytes_rocm72.dll" -> 7.2: CUDA's major has two
 * digits, ROCm's one. A major of 0: another file. */
static struct release bitsandbytes_release(const char *name, bool hip)
{
    struct release r = {0};
    const char *prefix = hip ? "libbitsandbytes_rocm" : "libbitsandbytes_cuda";
    size_t n = strlen(prefix), length = strlen(name), digits = hip ? 1 : 2;
    bool good = strncmp(name, prefix, n) == 0 && winldr_name_ends(name, ".dll") &&
                length > n + digits + sizeof ".dll" - 1 &&
                str_u64((struct str){name + n, digits}, &r.major) &&
                str_u64((struct str){name + n + digits, length - n - digits - 4}, &r.minor);
    return good ? r : (struct release){0};
}

/* The library of this release, or the newest older one of its major, or the oldest newer one;
 * NULL: there is none, and it is not loaded. */
static const char *bitsandbytes_library(struct winldr_files *f, const char *package,
                                        struct release wanted, bool hip)
{
    struct winldr_names names = winldr_files_list(f, package);
    const char *older = NULL, *newer = NULL;
    uint64_t older_minor = 0, newer_minor = UINT64_MAX;
    for (size_t i = 0; i < names.n; i++) {
        struct release r = bitsandbytes_release(names.items[i], hip);
        if (r.major == 0 || r.major != wanted.major) {
            continue;
        }
        if (r.minor <= wanted.minor && (!older || r.minor > older_minor)) {
            older = names.items[i];
            older_minor = r.minor;
        } else if (r.minor > wanted.minor && r.minor < newer_minor) {
            newer = names.items[i];
            newer_minor = r.minor;
        }
    }
    return older ? older : newer;
}

const char *winldr_bitsandbytes_library(struct winldr_files *f, const struct winldr_python *py,
                                        const char *package)
{
    struct winldr_torch torch = winldr_torch_read(f, py);
    struct release wanted = release_of(torch.cuda ? torch.cuda : torch.hip);
    bool hip = !torch.cuda;
    if (!wanted.major) {
        return "libbitsandbytes_cpu.dll";
    }
    const char *forced =
        py->variables[hip ? WINLDR_VARIABLE_BNB_ROCM_VERSION : WINLDR_VARIABLE_BNB_CUDA_VERSION];
    if (forced) {
        bool is_number = *forced && strspn(forced, "0123456789") == strlen(forced);
        return is_number ? arena_printf(f->arena, "libbitsandbytes_%s%s.dll", hip ? "rocm" : "cuda",
                                        forced)
                         : NULL;
    }
    return bitsandbytes_library(f, package, wanted, hip);
}
