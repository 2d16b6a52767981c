/* The head of what `check` prints: what was looked at, with which Python, loader and devices. */
#include "report/check_page.h"

#include <string.h>

#include "report/devices.h"
#include "variant/variant.h"

enum { GPU_LINES_MAX = 3, BRIEF_PACKAGES_MAX = 8 };

static const char *known_packages(const struct report_page *p)
{
    const struct model *m = p->m;
    const char *list = "";
    size_t shown = p->brief && m->known.n > BRIEF_PACKAGES_MAX ? BRIEF_PACKAGES_MAX : m->known.n;
    for (size_t i = 0; i < shown; i++) {
        const struct py_dist *dist = m->known.items[i];
        list = arena_printf(m->arena, "%s%s%s %s", list, *list ? ", " : "", dist->name,
                            dist->version ? dist->version : "");
    }
    return shown < m->known.n ? arena_printf(m->arena, "%s and %zu more", list, m->known.n - shown)
                              : list;
}

/* "venv, by uv", "conda, by pixi" */
static const char *environment_kind(const struct model *m)
{
    const char *kind = py_env_kind_name(m->env->kind), *by = m->env->manager;
    return by && strcmp(by, kind) != 0 ? arena_printf(m->arena, "%s, by %s", kind, by) : kind;
}

static const char *version_in(const struct py_env *e, const char *name)
{
    for (size_t i = 0; i < e->n_dists; i++) {
        if (e->dists[i].kind == PY_DIST_CONDA && strcmp(e->dists[i].name_normal, name) == 0) {
            return e->dists[i].version;
        }
    }
    return NULL;
}

/* What conda's solver was told to make the environment for, and what it would be told here. */
static void conda_line(struct report_page *p)
{
    struct arena *a = p->m->arena;
    struct variant_conda here;
    if (p->m->env->kind != PY_ENV_CONDA || !p->m->host) {
        return;
    }
    variant_conda(a, p->m->host, p->m->kb, &here);
    const char *cuda = version_in(p->m->env, "cuda-version");
    const char *arch = version_in(p->m->env, "cuda-arch");
    if (p->brief && !cuda && !arch) {
        return;
    }
    report_page_line(p, "conda",
                     arena_printf(a, "__cuda %s, __cuda_arch %s here; made for cuda-version %s%s%s",
                                  here.cuda       ? here.cuda
                                  : here.cuda_why ? "unknown"
                                                  : "none",
                                  here.arch       ? here.arch
                                  : here.arch_why ? "unknown"
                                                  : "none",
                                  cuda ? cuda : "none", arch ? ", cuda-arch " : "",
                                  arch ? arch : ""));
}

static void head_python(struct report_page *p)
{
    const struct model *m = p->m;
    const struct py_env *e = m->env;
    report_page_line(p, "Python",
                     arena_printf(m->arena, "%s (%s, %s)",
                                  e->executable ? e->executable : "no interpreter found",
                                  py_env_version(m->arena, e), environment_kind(m)));
    p->prefix = p->brief ? NULL : report_folded_prefix(m);
    p->site = p->brief ? NULL : report_folded_site(m);
    if (p->prefix) {
        report_page_line(p, "<env>", p->prefix);
    }
    if (p->site) {
        report_page_line(p, "<site>", report_fold(m->arena, p->site, p->prefix, "<env>"));
    }
    conda_line(p);
    const char *known = known_packages(p);
    report_page_line(p, "packages",
                     *known   ? known
                     : m->pid ? "none that gpumend knows to use a GPU is loaded"
                              : "none that gpumend knows to use a GPU");
}

static void head_loader(const struct report_page *p)
{
    const struct ldso_process *l = model_first_process(p->m);
    if (l && l->is_static) {
        report_page_line(p, "loader", "none: statically linked");
    } else if (l && l->loader.path) {
        report_page_line(
            p, "loader",
            arena_printf(p->m->arena, "%s (%s %s)", l->loader.path,
                         l->loader.kind == LDSO_MUSL ? "musl" : "glibc",
                         l->loader.version ? l->loader.version : "of unknown version"));
    }
}

/* Whether this machine has no GPU and no error is met without one: each is about a library of
 * CUDA's or ROCm's that only the GPU's use asks for. Where the target is to run elsewhere, that is
 * not known. */
bool report_is_only_for_gpu(const struct model *m, const struct diag_report *r)
{
    const struct host *h = m->host;
    bool none = h && !m->host_elsewhere && h->gpus.n == 0 && h->pci.state != HOST_UNKNOWN &&
                diag_count(r, DIAG_ERROR);
    for (size_t i = 0; i < r->findings.n && none; i++) {
        const struct diag_finding *f = r->findings.items[i];
        none =
            f->severity != DIAG_ERROR || (f->stage == DIAG_STAGE_USE && diag_is_only_for_gpu(m, f));
    }
    return none;
}

static void head_devices(const struct report_page *p, const struct diag_report *r)
{
    const size_t max = p->brief ? 1 : GPU_LINES_MAX;
    struct arena *a = p->m->arena;
    host_texts lines = {0};
    if (!p->m->host) {
        report_page_line(p, "GPU", arena_printf(a, "not looked at: %s", p->m->host_why));
        return;
    }
    report_devices_head(a, p->m->host, &lines);
    for (size_t i = 0; i < lines.n && i < max; i++) {
        const char *line = lines.items[i];
        if (i == max - 1 && lines.n > max) {
            line = arena_printf(a, "%s; and %zu more", line, lines.n - max);
        }
        if (p->brief && i == 0 && report_is_only_for_gpu(p->m, r)) {
            line = arena_printf(a, "%s, which is not affected (see --device cpu)", line);
        }
        report_page_line(p, i ? "" : "GPU", line);
    }
}

/* Without a report (`r` is NULL) only what was looked at. */
void report_page_head(struct report_page *p, const struct diag_report *r,
                      const struct report_target *t)
{
    if (p->m->env) {
        head_python(p);
    } else if (p->m->pid) {
        const struct ldso_process *l = model_first_process(p->m);
        report_page_line(p, "process",
                         arena_printf(p->m->arena, "%d, %s", p->m->pid,
                                      l ? l->main->path : "of an unknown program"));
    } else if (t->path) {
        report_page_line(p, t->kind, t->path);
    } else {
        report_page_line(p, "Python", "none found: no package was looked at");
    }
    if (!p->brief) {
        head_loader(p);
    }
    head_devices(p, r);
    if (strcmp(t->root, "/") != 0) {
        report_page_line(p, "below", t->root);
    }
    if (t->snapshot) {
        report_page_line(p, "snapshot",
                         arena_printf(p->m->arena, "%s, made %s by gpumend %s", t->snapshot,
                                      t->made ? t->made : "at an unknown time",
                                      t->made_by ? t->made_by : "of unknown version"));
    }
}
