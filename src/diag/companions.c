/*
 * torchvision and torchaudio compare, when they are imported, the CUDA that they were compiled for
 * with that of torch, and refuse another one: torchaudio and torchvision up to 0.15 another
 * release, torchvision from 0.16 and torchaudio from 2.11.1 on another major release.
 *
 * Source: wheels torchvision 0.15.2, 0.20.1 and 0.28.0, torchvision/extension.py; wheels torchaudio
 * 2.0.2, 2.5.1, 2.8.0, 2.11.0 and 2.11.1, torchaudio/_extension/utils.py; import of
 * torchaudio 2.11.0 beside torch 2.15.0.
 */
#include <string.h>

#include "diag/internal.h"
#include "model/package.h"

enum { SOURCE_BYTES_MAX = 1 << 20 };

static const struct companion {
    const char *name, *title;
    const char *version, *check; // files below its site folder: its release, and the comparison
} companions[] = {
    {"torchvision", "torchvision", "torchvision/version.py", "torchvision/extension.py"},
    {"torchaudio", "TorchAudio", "torchaudio/version.py", "torchaudio/_extension/utils.py"},
};

static struct str companion_text(struct diag *d, const struct py_dist *dist, const char *file)
{
    struct str text = STR("");
    return root_read(d->m->root, d->a, path_join(d->a, dist->site, file), SOURCE_BYTES_MAX, &text) <
                   0
               ? STR("")
               : text;
}

/* "13.0" of "__version__ = '2.11.0+cu130'"; NULL: it is not for CUDA, or does not say for which. */
static const char *cuda_of_release(struct diag *d, struct str text)
{
    static const char mark[] = "+cu";
    size_t at = str_find(text, mark) + strlen(mark), n = 0;
    while (at + n < text.n && text.s[at + n] >= '0' && text.s[at + n] <= '9') {
        n++;
    }
    return at < text.n && n >= 2
               ? arena_printf(d->a, "%.*s.%c", (int)n - 1, text.s + at, text.s[at + n - 1])
               : NULL;
}

/* Whether the first two numbers of "13.2" and "13.2.1" are the same, or the first alone. */
static bool is_same_cuda(const char *a, const char *b, bool major_only)
{
    struct str x = str_of(a), y = str_of(b);
    bool same = str_eq(str_cut(&x, '.'), str_cut(&y, '.'));
    return same && (major_only || str_eq(str_cut(&x, '.'), str_cut(&y, '.')));
}

/* "cu132" of "13.2". */
static const char *build_of_cuda(struct diag *d, const char *cuda)
{
    struct str rest = str_of(cuda), major = str_cut(&rest, '.'), minor = str_cut(&rest, '.');
    return arena_printf(d->a, "cu" STR_FMT STR_FMT, STR_ARG(major), STR_ARG(minor));
}

/* PyTorch's own index has all of them for each CUDA; which torch is for torchaudio's is known of
 * the package index, and needed where torchaudio has no build for torch's. */
static void repair_companion(struct diag *d, struct diag_finding *f, const struct py_dist *torch,
                             const struct py_dist *dist, const char *built)
{
    bool audio = strcmp(dist->name_normal, "torchaudio") == 0;
    const struct kb_release *r = audio ? diag_torch_for(d, built, dist->version) : NULL;
    const char *pinned = r ? diag_pinned_text(d, "torch", r->version) : "";
    if (r && !*pinned) {
        const char *others = py_env_by_dist(d->m->env, "torchvision") ? " torchvision" : "";
        diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                    diag_pip(d, arena_printf(d->a, "torch==%s%s", r->version, others)),
                    "Install torch %s, which is built for CUDA %s as well.", r->version, built);
        return;
    }
    const char *release = arena_strndup(d->a, torch->version, strcspn(torch->version, "+"));
    const char *cuda = model_torch(d->m)->cuda;
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_torch_command(d, release, build_of_cuda(d, cuda)),
                "Install both for CUDA %s from PyTorch's own index (with uv, which knows it).",
                cuda);
}

static void rule_companion(struct diag *d, const struct companion *c)
{
    const char *cuda = model_torch(d->m)->cuda;
    const struct py_dist *torch = py_env_by_dist(d->m->env, "torch");
    const struct py_dist *dist = py_env_by_dist(d->m->env, c->name);
    if (!cuda || !torch || !torch->version || !dist || !dist->version ||
        !diag_may_be_imported(d, dist)) {
        return;
    }
    struct str check = companion_text(d, dist, c->check);
    bool major = str_find(check, "different CUDA major versions") < check.n;
    bool compares = major || str_find(check, "different CUDA versions") < check.n;
    const char *built = compares ? cuda_of_release(d, companion_text(d, dist, c->version)) : NULL;
    if (!built || is_same_cuda(built, cuda, major)) {
        return;
    }
    struct diag_finding *f = diag_add(
        d, DIAG_PACKAGES_CONFLICT, dist->name_normal, dist->name_normal,
        arena_printf(d->a,
                     "%s %s is built for CUDA %s and torch %s for CUDA %s: the import of %s "
                     "fails.",
                     c->name, dist->version, built, torch->version, cuda, c->name));
    VEC_PUSH(d->a, &f->askers, dist->name_normal);
    diag_seen_where_imported(d, f, dist->name);
    diag_evidence(d, f, "%s compares the two", path_join(d->a, dist->site, c->check));
    diag_evidence(d, f,
                  "the program then says: RuntimeError: Detected that PyTorch and %s were compiled "
                  "with different CUDA %sversions.",
                  c->title, major ? "major " : "");
    repair_companion(d, f, torch, dist, built);
}

void diag_rule_companions(struct diag *d)
{
    for (size_t i = 0; d->m->env && i < sizeof companions / sizeof *companions; i++) {
        rule_companion(d, &companions[i]);
    }
}
