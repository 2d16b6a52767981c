/*
 * What keeps containers of this machine from its GPUs: the problems that src/host found in the
 * settings of the engines. Programs of the host itself do not meet them, so they are said of a
 * machine alone and of an image that is to run on it, and they break nothing that runs now.
 */
#include <string.h>

#include "diag/internal.h"

static const struct {
    const char *id;
    enum diag_cause cause;
} rows[] = {
    {"engine-settings-broken", DIAG_CONTAINER_RUNTIME},
    {"runtime-gone", DIAG_CONTAINER_RUNTIME},
    {"runtime-undefined", DIAG_CONTAINER_RUNTIME},
    {"toolkit-missing", DIAG_CONTAINER_RUNTIME},
    {"engine-settings-unread", DIAG_CONTAINER_ENGINE},
    {"engine-in-machine", DIAG_CONTAINER_ENGINE},
    {"toolkit-cgroups", DIAG_CONTAINER_TOOLKIT},
    {"toolkit-ldconfig", DIAG_CONTAINER_TOOLKIT},
    {"toolkit-root", DIAG_CONTAINER_HOST_DRIVER},
    {"toolkit-without-nvml", DIAG_CONTAINER_HOST_DRIVER},
    {"cdi", DIAG_CONTAINER_CDI},
    {"device-links-missing", DIAG_CONTAINER_LINKS},
};

/* Whether the problem is asked about; *ret_image: for an image that would use the GPU. */
static bool engines_are_asked(struct diag *d, bool *ret_image)
{
    const char *who = NULL;
    *ret_image = d->m->host_elsewhere && ((diag_wants(d, HOST_NVIDIA, &who) && who) ||
                                          (diag_wants(d, HOST_AMD, &who) && who));
    return *ret_image || (!d->m->host_elsewhere && d->m->processes.n == 0);
}

static enum diag_severity engine_severity(const struct host_problem *p, bool image)
{
    bool likely = image && strcmp(p->id, "toolkit-missing") == 0;
    return p->state == HOST_NO || likely ? DIAG_WARNING : DIAG_NOTE;
}

static void engine_problem_add(struct diag *d, const struct host_problem *p, enum diag_cause cause,
                               bool image)
{
    const char *text = p->text;
    char *summary = arena_printf(d->a, "%s.", text);
    summary[0] = (char)(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0]);
    struct diag_finding *f = diag_add(d, cause, text, p->culprit, summary);
    f->stage = DIAG_STAGE_MACHINE;
    f->severity = engine_severity(p, image);
    if (p->state == HOST_UNKNOWN) {
        diag_evidence(d, f, "whether it matters here cannot be determined from files alone");
    }
    if (p->step) {
        bool same = p->command && strcmp(p->step, p->command) == 0;
        char *step = arena_printf(d->a, "%s.", same ? "Run this" : p->step);
        step[0] = (char)(step[0] >= 'a' && step[0] <= 'z' ? step[0] - 'a' + 'A' : step[0]);
        diag_repair(d, f, DIAG_REPAIR_TEXT, p->command, "%s", step);
    }
}

void diag_rule_engines(struct diag *d)
{
    const struct host *h = d->m->host;
    bool image;
    for (size_t i = 0; h && h->problems.n && engines_are_asked(d, &image) && i < h->problems.n;
         i++) {
        const struct host_problem *p = &h->problems.items[i];
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            if (strcmp(rows[k].id, p->id) == 0) {
                engine_problem_add(d, p, rows[k].cause, image);
            }
        }
    }
}
