#include "probe/join.h"

#include <string.h>

#include "base/str.h"

bool probe_is_failure(const struct probe_run *run)
{
    return run->outcome == PROBE_FAIL || run->outcome == PROBE_CRASHED ||
           run->outcome == PROBE_TIMED_OUT;
}

const char *probe_title(struct arena *a, const struct probe_run *run)
{
    return run->device < 0 ? run->stage->title
                           : arena_printf(a, "GPU %d: %s", run->device, run->stage->title);
}

/* ------------------------------------------------------------------ what is there */

static bool loads_driver(const struct model *m)
{
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        for (size_t k = 0; p && k < p->objects.n; k++) {
            if (starts_with(path_base(p->objects.items[k]->path), "libcuda.so")) {
                return true;
            }
        }
    }
    return false;
}

bool probe_is_worth_it(const struct model *m)
{
    const struct host *h = m->host;
    if (!h || h->nvidia.module.state == HOST_YES || h->amd.kfd.state == HOST_YES ||
        h->amd.kfd_node.present.state == HOST_YES) {
        return true;
    }
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_NVIDIA || h->gpus.items[i].vendor == HOST_AMD) {
            return true;
        }
    }
    for (size_t i = 0; i < h->nvidia.libraries.n; i++) {
        if (strcmp(h->nvidia.libraries.items[i].name, "libcuda.so.1") == 0) {
            return true;
        }
    }
    return loads_driver(m);
}

/* ------------------------------------------------------------------ the sentence */

static const char no_driver[] = "cannot tell without a driver";

static const struct probe_run *first_unknown(const struct probe_report *r)
{
    for (size_t i = 0; i < r->runs.n; i++) {
        if (r->runs.items[i].outcome == PROBE_UNKNOWN) {
            return &r->runs.items[i];
        }
    }
    return NULL;
}

static size_t join_count_passed(const struct probe_report *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->runs.n; i++) {
        n += r->runs.items[i].outcome == PROBE_PASSED;
    }
    return n;
}

const char *probe_sentence(struct arena *a, const struct probe_report *r)
{
    const struct probe_run *run = r->first_failure ? r->first_failure : first_unknown(r);
    if (r->verdict == PROBE_WORKS) {
        size_t n = join_count_passed(r);
        return arena_printf(a, "%zu stage%s passed, none failed", n, n == 1 ? "" : "s");
    }
    if (r->verdict == PROBE_NO_DRIVER) {
        return no_driver;
    }
    if (!run) {
        return "the probe was stopped";
    }
    return arena_printf(a, "%s%s: %s", r->verdict == PROBE_CANNOT_TELL ? "cannot tell: " : "",
                        probe_title(a, run), run->says);
}

/* ------------------------------------------------------------------ findings */

/* "libcudnn" of "libcudnn.so" and "/opt/v/libcudnn_ops.so.9"? */
static bool is_of_library(const char *file, const char *library)
{
    struct str stem = str_of(library);
    stem.n = strcspn(library, ".");
    const char *name = path_base(file);
    return strncmp(name, stem.s, stem.n) == 0;
}

static bool names_library(const struct diag_finding *f, const char *library)
{
    for (size_t i = 0; i < f->likewise.n; i++) {
        if (is_of_library(f->likewise.items[i], library)) {
            return true;
        }
    }
    return f->culprit && is_of_library(f->culprit, library);
}

static bool is_one_vendor(const struct probe_report *r, enum probe_vendor vendor)
{
    for (size_t i = 0; i < r->runs.n; i++) {
        enum probe_vendor other = r->runs.items[i].stage->vendor;
        if (other != vendor && (other == PROBE_NVIDIA || other == PROBE_AMD)) {
            return false;
        }
    }
    return true;
}

const struct diag_finding *probe_explained_by(const struct probe_report *r,
                                              const struct probe_run *run,
                                              const struct diag_report *findings)
{
    const char *library = run->stage->stem;
    bool gpu = run->stage->vendor == PROBE_NVIDIA || run->stage->vendor == PROBE_AMD;
    bool machine = !library && gpu && is_one_vendor(r, run->stage->vendor);
    bool asked = probe_is_failure(run) || run->no_library;
    for (size_t i = 0; asked && i < findings->findings.n; i++) {
        const struct diag_finding *f = findings->findings.items[i];
        bool fits = library ? names_library(f, library) : machine && f->stage == DIAG_STAGE_MACHINE;
        if (f->severity == DIAG_ERROR && fits) {
            return f;
        }
    }
    return NULL;
}
