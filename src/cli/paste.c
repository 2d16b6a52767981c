#include "cli/paste.h"

#include <unistd.h>

#include "base/root.h"
#include "cli/cli.h"

struct snapshot_redactor *cli_redactor(struct model_target *t)
{
    struct model *m = &t->model;
    struct snapshot_names *names = arena_alloc(m->arena, sizeof *names);
    struct root here = ROOT_EMPTY;
    struct gm_err err;
    size_t n = 0;
    while (environ[n]) {
        n++;
    }
    snapshot_add_names(m->arena, getuid(), m->config.env, m->config.n_env, &t->root, names);
    if (root_open(&here, "/", &err) == 0) {
        snapshot_add_names(m->arena, getuid(), (const char *const *)environ, n, &here, names);
    }
    root_close(&here);
    return snapshot_redactor_new(m->arena, names);
}

int cli_paste(FILE *file, struct model_target *t, const struct diag_report *r,
              const struct report_target *shown)
{
    return report_paste(file, &t->model, r, shown, cli_redactor(t)) < 0
               ? cli_fail(CLI_CANNOT, "out of memory")
               : CLI_OK;
}
