#include "cli/windows_snapshot.h"

#include "cli/windows_tree.h"
#include "report/windows_check.h"

/* The variables are the registry's, and those that are given; of the running Windows the
 * process's. */
static int begin_snapshot(struct cli_target *t, const struct cli_env *env, struct snapshot *ret,
                          struct gm_err *err)
{
    struct model_target_options asked = t->asked;
    asked.env = env->vars.items;
    asked.n_env = env->vars.n;
    int rc = snapshot_begin(ret, &t->arena, &asked, err);
    ret->kind = SNAPSHOT_WINDOWS;
    ret->cpu = (struct ldso_cpu){// decides nothing there
                                 .machine = ldso_cpu_own_machine(),
                                 .platform = "windows",
                                 .why = "Windows' loader does not ask for it"};
    return rc;
}

/* The check that is recorded, with all that its report reads. */
static int check_recorded(struct cli_target *t, struct root *root, const struct cli_env *env,
                          struct snapshot *s, struct gm_err *err)
{
    struct arena *a = &t->arena;
    struct cli_windows_tree tree;
    root_record(root, &s->files);
    int rc = cli_windows_open(&tree, a, root, t->asked.target, env, err);
    if (rc > 0) {
        cli_windows_judge(&tree);
        struct report_windows r = {.arena = a, .host = tree.host, .all = tree.all, .n = tree.n};
        json_decref(report_windows_check_json(&r));
        rc = snap_finish(&s->files, err);
    }
    cli_windows_close(&tree);
    pages_stop();
    return rc;
}

int cli_windows_snapshot(struct cli_target *t, struct root *root, struct snapshot *ret,
                         struct gm_err *err)
{
    struct cli_env env = t->asked.root_path ? cli_target_given(t) : t->env;
    int rc = begin_snapshot(t, &env, ret, err);
    return rc < 0 ? rc : check_recorded(t, root, &env, ret, err);
}
