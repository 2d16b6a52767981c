/* gm_preload: the one call that changes the process. */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "api/internal.h"
#include "plan/plan.h"

/* A file that the process has mapped, looked for by what makes the loader reuse it. */
struct resident {
    struct gm_context *gm;
    const char *path, *soname; // soname NULL: unknown
    struct stat st;
    bool have_st;
    const char *same, *other; // path of this very file; of another that answers to its soname
};

/* The soname in a mapped object's dynamic section; glibc has already turned the addresses into
 * those of this process, musl has not. */
static const char *mapped_soname(const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) {
            continue;
        }
        uintptr_t strings = 0, at = 0;
        bool named = false;
        const ElfW(Dyn) *d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; d->d_tag != DT_NULL; d++) {
            strings = d->d_tag == DT_STRTAB ? d->d_un.d_ptr : strings;
            at = d->d_tag == DT_SONAME ? d->d_un.d_val : at;
            named |= d->d_tag == DT_SONAME;
        }
        strings += strings < info->dlpi_addr ? info->dlpi_addr : 0;
        return named && strings ? (const char *)(strings + at) : NULL;
    }
    return NULL;
}

static int object_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct resident *r = arg;
    struct stat st;
    (void)size;
    if (!info->dlpi_name || !*info->dlpi_name) {
        return 0;
    }
    if (r->have_st && stat(info->dlpi_name, &st) == 0 && st.st_dev == r->st.st_dev &&
        st.st_ino == r->st.st_ino) {
        r->same = api_text(r->gm, info->dlpi_name);
        return 1;
    }
    const char *soname = mapped_soname(info);
    if (soname && r->soname && strcmp(soname, r->soname) == 0) {
        r->other = api_text(r->gm, info->dlpi_name);
    }
    return 0;
}

static struct gm_library resident_load(struct gm_context *gm, struct resident *r)
{
    struct gm_library library = {.path = r->path, .state = GM_LOADED};
    r->have_st = stat(r->path, &r->st) == 0;
    (void)dl_iterate_phdr(object_visit, r); // its value is the last visit's
    if (r->same) {
        library.state = GM_WAS_LOADED;
    } else if (r->other) {
        library.state = GM_OTHER_LOADED;
        library.says = r->other;
    } else if (!dlopen(r->path, RTLD_NOW)) {
        const char *says = dlerror();
        library.state = GM_NOT_LOADED;
        library.says = api_text(gm, says ? says : "dlopen failed");
    }
    return library;
}

/* What the libraries of a way are reused by: read before any of them is loaded, as their code must
 * not run while our handler stands. */
static int load_all(struct gm_context *gm, const struct plan_way *way, struct gm_preloaded *ret)
{
    VEC(struct resident) all = {0};
    for (size_t i = 0; i < way->steps.n; i++) {
        const struct plan_step *s = &way->steps.items[i];
        for (size_t k = 0; s->kind == PLAN_PRELOAD && k < s->n_paths; k++) {
            const struct ldso_entry *e = ldso_store_get(gm->target.model.store, s->paths[k]);
            const char *soname = e->file ? e->file->image.soname : NULL;
            VEC_PUSH(&gm->work, &all,
                     (struct resident){.gm = gm,
                                       .path = api_text(gm, s->paths[k]),
                                       .soname = api_text(gm, soname)});
        }
    }
    struct gm_library *list = arena_array(&gm->results, all.n + 1, sizeof *list);
    if (api_is_cut()) {
        return api_cut(gm);
    }
    api_unguard(gm);
    for (size_t i = 0; i < all.n; i++) {
        list[ret->n_libraries++] = resident_load(gm, &all.items[i]);
    }
    ret->libraries = list;
    return GM_OK;
}

/* A way that loads libraries and needs nothing else: only that can be done in a running process. */
static const struct plan_way *way_by_loading(const struct plan *plan)
{
    const struct plan_way *best = NULL;
    for (size_t i = 0; i < plan->ways.n; i++) {
        const struct plan_way *w = &plan->ways.items[i];
        bool only_loads = w->reach == PLAN_FOR_ONE_START && w->steps.n;
        for (size_t k = 0; k < w->steps.n; k++) {
            only_loads &= w->steps.items[k].kind == PLAN_PRELOAD;
        }
        if (only_loads && (!best || w->mends.n > best->mends.n)) {
            best = w;
        }
    }
    return best;
}

static bool mends(const struct plan_way *way, const struct diag_finding *f)
{
    for (size_t i = 0; way && i < way->mends.n; i++) {
        if (way->mends.items[i] == f) {
            return true;
        }
    }
    return false;
}

static int preload(struct gm_context *gm, const void *question, void *answer)
{
    struct gm_preloaded *ret = answer;
    struct diag_report report;
    struct plan plan;
    int rc = api_open(gm, question, false);
    if (rc < 0) {
        return rc;
    }
    if (!gm->target.root.is_host) {
        return gm_err_set(&gm->err, GM_ERR_USAGE, "libraries below another root cannot be loaded");
    }
    diag_run(&gm->target.model, &report);
    plan_make(&gm->target.model, &report,
              &(struct plan_options){.manner = PLAN_IN_PROCESS, .launch_only = true}, &plan);
    const struct plan_way *way = way_by_loading(&plan);
    VEC(const char *) left = {0};
    for (size_t i = 0; i < report.findings.n; i++) {
        const struct diag_finding *f = report.findings.items[i];
        if (f->severity != DIAG_ERROR) {
            continue;
        }
        ret->n_findings++;
        if (!mends(way, f)) {
            ret->n_left++;
            VEC_PUSH(&gm->work, &left, f->summary);
        }
    }
    for (size_t i = 0; i < plan.cannot.n; i++) {
        VEC_PUSH(&gm->work, &left, plan.cannot.items[i]);
    }
    ret->left = api_texts(gm, left.items, left.n);
    ret->n_left_texts = left.n;
    return way ? load_all(gm, way, ret) : GM_OK;
}

int gm_preload(gm_context *gm, const struct gm_target *target, struct gm_preloaded *ret)
{
    return api_call(gm, preload, target, ret, sizeof *ret);
}
