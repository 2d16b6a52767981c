#include "cli/paste.h"

#include <unistd.h>

#include "base/root.h"
#include "cli/cli.h"

int cli_redactor(struct model_target *t, struct snapshot_redactor **ret)
{
    struct model *m = &t->model;
    struct snapshot_names *names = arena_alloc(m->arena, sizeof *names);
    struct root here = ROOT_EMPTY;
    struct gm_err err;
    size_t n = 0;
    while (environ[n]) {
        n++;
    }
    int rc = snapshot_add_names(m->arena, getuid(), m->config.env, m->config.n_env, &t->root, names,
                                &err);
    if (rc == 0 && root_open(&here, "/", &err) == 0) {
        rc = snapshot_add_names(m->arena, getuid(), (const char *const *)environ, n, &here, names,
                                &err);
    }
    root_close(&here);
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "%s", str_printable(m->arena, err.text));
    }
    *ret = snapshot_redactor_new(m->arena, names);
    return CLI_OK;
}

int cli_paste(FILE *file, struct model_target *t, const struct diag_report *r,
              const struct report_target *shown)
{
    struct snapshot_redactor *redactor;
    int rc = cli_redactor(t, &redactor);
    if (rc != CLI_OK) {
        return rc;
    }
    return report_paste(file, &t->model, r, shown, redactor) < 0
               ? cli_fail(CLI_CANNOT, "out of memory")
               : CLI_OK;
}
