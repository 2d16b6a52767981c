#include "cli/probing.h"

#include <stdio.h>
#include <unistd.h>

#include "probe/libraries.h"
#include "report/probe.h"

struct shown {
    struct out out;
    struct arena *arena;
};

static void stages_on_start(void *arg, const struct probe_stage *s, int device)
{
    struct shown *c = arg;
    report_probe_start(&c->out, c->arena, s, device);
    fflush(c->out.file);
}

static void stages_on_end(void *arg, const struct probe_run *run)
{
    struct shown *c = arg;
    (void)run; // only that it has ended
    fputs("\r\033[K", c->out.file);
    fflush(c->out.file);
}

int cli_probing_run(const struct cli_probing *p, struct probe_report *ret, struct gm_err *err)
{
    struct probe_libraries libraries = {0};
    struct shown shown = {.arena = p->model->arena};
    bool terminal = isatty(STDERR_FILENO);
    out_init(&shown.out, stderr);
    probe_libraries(p->model, p->named, &libraries);
    const struct probe_options o = {
        .libraries = libraries.items.items,
        .n_libraries = libraries.items.n,
        .model = p->model,
        .device = -1,
        .quick = p->quick,
        .only = p->only,
        .n_only = p->n_only,
        .stop_fd = -1, // the children end with this process
        .on_start = terminal ? stages_on_start : NULL,
        .on_end = terminal ? stages_on_end : NULL,
        .arg = &shown,
    };
    return probe_run(&o, ret, err);
}

enum cli_status cli_probing_status(enum cli_status found, const struct probe_report *r)
{
    bool cannot = r->verdict == PROBE_CANNOT_TELL || r->verdict == PROBE_NO_DRIVER;
    if (found == CLI_FINDINGS || r->verdict == PROBE_BROKEN || r->verdict == PROBE_BUSY) {
        return CLI_FINDINGS;
    }
    return cannot || found == CLI_CANNOT ? CLI_CANNOT : CLI_OK;
}
