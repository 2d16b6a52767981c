/* Drivers, toolkits and cuDNN. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "kb/serves.h"

/* ------------------------------------------------------------------ drivers */

/* The floor of minor-version compatibility of a CUDA release, or NULL. */
const struct kb_driver *ask_floor(struct ask *k, const struct kb_drivers *d, const char *cuda)
{
    const char *major = ask_major(k, cuda);
    for (size_t i = 0; i < d->n; i++) {
        if (d->rows[i].kind == KB_DRIVER_MINOR && strcmp(d->rows[i].cuda, major) == 0) {
            return &d->rows[i];
        }
    }
    return NULL;
}

static void say_toolkit_driver(struct ask *k, const struct kb_driver *d)
{
    HIT(k, KB_AREA_DRIVERS, d);
    ask_say(k, "%s goes with Linux driver %s or later%s%s%s.", d->title, d->linux_min,
            d->windows_min ? " (Windows " : "", d->windows_min ? d->windows_min : "",
            d->windows_min ? ")" : "");
}

void ask_say_floor(struct ask *k, const struct kb_driver *floor)
{
    HIT(k, KB_AREA_DRIVERS, floor);
    ask_say(k, "By minor-version compatibility %s runs from Linux driver %s on, with limits.",
            floor->title, floor->linux_min);
}

/* "which driver does CUDA 12.4 need"; a major alone is answered with its floor. */
int form_driver(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    int rc = kb_drivers(k->kb, &d, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    for (size_t i = 0; i < d.n && strchr(q->cuda, '.'); i++) {
        const struct kb_driver *row = &d.rows[i];
        if (row->kind == KB_DRIVER_TOOLKIT && ask_within(row->cuda, q->cuda)) {
            say_toolkit_driver(k, row);
        }
    }
    const struct kb_driver *floor = ask_floor(k, &d, q->cuda);
    if (floor && (k->answer->known || strcmp(floor->cuda, q->cuda) == 0)) {
        ask_say_floor(k, floor);
    }
    return k->answer->known;
}

/* Nothing but a CUDA release: its driver and its architectures. */
int form_bare_cuda(struct ask *k, struct gm_err *err)
{
    return k->q->n_rest > 0 ? 0 : form_driver(k, err);
}

/* "which CUDA does driver 535 run" */
int form_cuda_of_driver(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    int rc = kb_drivers(k->kb, &d, err);
    if (rc < 0) {
        return rc;
    }
    const char *driver = k->q->driver;
    const struct kb_driver *best = kb_newest_toolkit(&d, driver);
    if (best) {
        HIT(k, KB_AREA_DRIVERS, best);
        ask_say(k, "Driver %s is enough for %s and all before it.", driver, best->title);
    }
    for (size_t i = 0; best && i < d.n; i++) {
        const struct kb_driver *row = &d.rows[i];
        if (row->kind == KB_DRIVER_MINOR && kb_driver_reaches(driver, row->linux_min) &&
            atoi(row->cuda) >= atoi(best->cuda)) {
            ask_say_floor(k, row);
        }
        if (row->kind == KB_DRIVER_BRANCH && ask_within(driver, row->linux_min)) {
            HIT(k, KB_AREA_DRIVERS, row);
            ask_say(k, "It is of %s, which ends %s.", row->title, row->ends);
        }
    }
    return k->answer->known;
}

/* ------------------------------------------------------------------ architectures */

/* "which architectures does CUDA 12.8 compile for" */
int form_toolkit(struct ask *k, struct gm_err *err)
{
    struct kb_toolkits t;
    int rc = kb_toolkits(k->kb, &t, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < t.n; i++) {
        const struct kb_toolkit *row = &t.rows[i];
        if (ask_within(k->q->cuda, row->cuda) || ask_within(row->cuda, k->q->cuda)) {
            HIT(k, KB_AREA_TOOLKITS, row);
            ask_say(k, "CUDA %s compiles for %s; its PTX ISA is %s.%s%s", row->cuda,
                    ask_joined(k->a, row->sm), row->ptx, row->origin.note ? " " : "",
                    row->origin.note ? row->origin.note : "");
        }
    }
    return k->answer->known;
}

/* "which toolkit compiles for sm_90": the first and the last of the rows. */
int form_toolkits_of_sm(struct ask *k, struct gm_err *err)
{
    struct kb_toolkits t;
    int rc = kb_toolkits(k->kb, &t, err);
    if (rc < 0) {
        return rc;
    }
    const struct kb_toolkit *first = NULL, *last = NULL, *oldest = NULL, *newest = NULL;
    const char *sm = arena_printf(k->a, "sm_%d", ask_arch_number(k->q->sm));
    for (size_t i = 0; i < t.n; i++) {
        const struct kb_toolkit *row = &t.rows[i];
        oldest = !oldest || ask_compare(row->cuda, oldest->cuda) < 0 ? row : oldest;
        newest = !newest || ask_compare(row->cuda, newest->cuda) > 0 ? row : newest;
        if (ask_has_text(row->sm, sm)) {
            first = !first || ask_compare(row->cuda, first->cuda) < 0 ? row : first;
            last = !last || ask_compare(row->cuda, last->cuda) > 0 ? row : last;
        }
    }
    if (!first) {
        return 0;
    }
    HIT(k, KB_AREA_TOOLKITS, first);
    HIT(k, KB_AREA_TOOLKITS, last);
    if (first != oldest) {
        ask_say(k, "CUDA %s is the first that compiles for %s.", first->cuda, sm);
    }
    if (last != newest) {
        ask_say(k, "CUDA %s is the last that compiles for %s.", last->cuda, sm);
    } else {
        ask_say(k, "CUDA %s, the newest known here, compiles for %s.", last->cuda, sm);
    }
    return 1;
}

/* ------------------------------------------------------------------ cuDNN */

static void say_cudnn_packages(struct ask *k, const struct kb_releases *r)
{
    const struct kb_release *newest[3] = {NULL, NULL, NULL};
    static const char *const packages[] = {"nvidia-cudnn-cu11", "nvidia-cudnn-cu12",
                                           "nvidia-cudnn-cu13"};
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_release *row = &r->rows[i];
        for (size_t p = 0; p < 3; p++) {
            if (strcmp(row->package, packages[p]) == 0 && ask_within(row->version, k->q->cudnn) &&
                (!newest[p] || ask_compare(row->version, newest[p]->version) > 0)) {
                newest[p] = row;
            }
        }
    }
    for (size_t p = 0; p < 3; p++) {
        if (newest[p]) {
            HIT(k, KB_AREA_RELEASES, newest[p]);
            ask_say(k, "cuDNN %s is published for CUDA %s as %s %s.", k->q->cudnn, packages[p] + 15,
                    packages[p], newest[p]->version);
        }
    }
}

static void say_cudnn_members(struct ask *k, const struct kb_families *f)
{
    const char *id = arena_printf(k->a, "cudnn-%s", ask_major(k, k->q->cudnn));
    for (size_t i = 0; i < f->n; i++) {
        const struct kb_family *row = &f->rows[i];
        if (strcmp(row->id, id) == 0) {
            HIT(k, KB_AREA_FAMILIES, row);
            ask_say(k, "%s consists of %s.", row->title, ask_joined(k->a, row->members));
        }
    }
}

/* "which CUDA does cuDNN 9.17 support" */
int form_cudnn(struct ask *k, struct gm_err *err)
{
    struct kb_cudnns c;
    struct kb_releases r;
    struct kb_families f;
    int rc = kb_cudnns(k->kb, &c, err);
    rc = rc < 0 ? rc : kb_releases(k->kb, &r, err);
    rc = rc < 0 ? rc : kb_families(k->kb, &f, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    if (question_has(q, "libraries sub-libraries sublibraries consist composition members files")) {
        say_cudnn_members(k, &f);
        return k->answer->known;
    }
    for (size_t i = 0; i < c.n; i++) {
        const struct kb_cudnn *row = &c.rows[i];
        bool named = ask_within(row->cudnn, q->cudnn) || ask_within(q->cudnn, row->cudnn);
        if (named && (!q->cuda || atoi(q->cuda) == row->cuda_major)) {
            HIT(k, KB_AREA_CUDNNS, row);
            ask_say(k, "cuDNN %s for CUDA %d: CUDA %s%s%s; compute capability %s.", row->cudnn,
                    row->cuda_major, ask_joined(k->a, row->cuda),
                    row->linux_min ? "; Linux driver from " : "",
                    row->linux_min ? row->linux_min : "", ask_joined(k->a, row->sm));
        }
    }
    say_cudnn_packages(k, &r);
    return k->answer->known;
}
