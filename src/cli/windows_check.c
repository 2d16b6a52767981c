#include <string.h>

#include "cli/html.h"
#include "cli/windows.h"
#include "cli/windows_tree.h"
#include "report/windows_check.h"

static int windows_check_print(const struct report_windows *r,
                               const struct cli_windows_check *check)
{
    struct out out;
    int status = report_windows_is_broken(r) ? CLI_FINDINGS : CLI_CANNOT;
    out_init(&out, stdout);
    if (check->html) {
        int rc = cli_html_write("check", check->html, r->arena, report_html_windows_check(r));
        return rc == CLI_OK ? status : rc;
    }
    if (check->json) {
        return out_json_dump(stdout, report_windows_check_json(r)) < 0
                   ? cli_fail(CLI_CANNOT, "cannot write the output")
                   : status;
    }
    if (check->is_fix) {
        return report_windows_plan_text(&out, r) ? CLI_FINDINGS : CLI_CANNOT;
    }
    report_windows_check_text(&out, r);
    return status;
}

/* What a snapshot does not hold, which another gpumend made, and a bound that was reached. */
static void note_unread(struct arena *a, struct snap *files, const char *cut,
                        struct report_windows *r)
{
    size_t n = files ? files->misses.n : 0;
    const char **list = arena_array(a, n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        list[i] = arena_printf(a, "%s: the snapshot does not hold it", files->misses.items[i]);
    }
    if (*cut) {
        list[n++] = cut;
    }
    r->unheld = list;
    r->n_unheld = n;
}

static int windows_check_look(struct arena *a, struct cli_windows_tree *t,
                              const struct cli_windows_check *check, const struct root *root)
{
    cli_windows_judge(t);
    struct report_windows r = {
        .arena = a, .host = t->host, .all = t->all, .n = t->n, .root = check->root_path};
    if (check->replayed) {
        json_decref(report_windows_check_json(&r)); // what a report reads, too
        snap_note_pages(check->replayed);
    }
    note_unread(a, check->replayed, root->cut, &r);
    return windows_check_print(&r, check);
}

bool cli_windows_check(struct arena *a, struct root *root, const struct cli_windows_check *check,
                       int *ret_status)
{
    struct cli_windows_tree t;
    struct gm_err err;
    const char *command = check->is_fix ? "fix" : "check";
    int rc = cli_windows_open(&t, a, root, check->target, check->env, &err);
    if (rc < 0) {
        *ret_status = cli_fail(CLI_CANNOT, "%s: %s", command, str_printable(a, err.text));
    } else if (rc > 0 && check->refused) {
        *ret_status = cli_fail(CLI_CANNOT, "%s: %s is not available for a Windows tree", command,
                               check->refused);
    } else if (rc > 0) {
        *ret_status = windows_check_look(a, &t, check, root);
    }
    cli_windows_close(&t);
    return rc != 0;
}
