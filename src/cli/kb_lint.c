#include "cli/kb_lint.h"

#include "base/str.h"
#include "cli/cli.h"
#include "kb/failures.h"
#include "log/lint.h"

static void problem_print(void *arg, const char *text)
{
    printf("%s\n", str_printable(arg, text));
}

int cli_kb_lint(struct arena *a, struct root *root, const char *folder)
{
    struct kb kb;
    struct gm_err err;
    struct log_linted linted;
    struct node_files files = {.n = 0};
    if (kb_open(&kb, a, root, NULL, &err) < 0) {
        return cli_fail(CLI_CANNOT, "kb lint: %s", str_printable(a, err.text));
    }
    if (folder && kb_failures_read(root, a, folder, &files, &err) < 0) {
        if (err.code == GM_ERR_LOOK) {
            return cli_fail(CLI_CANNOT, "kb lint: %s", str_printable(a, err.text));
        }
        problem_print(a, err.text);
        return CLI_FINDINGS;
    }
    if (folder && files.n == 0) {
        return cli_fail(CLI_CANNOT, "kb lint: %s has no file NAME.yaml", str_printable(a, folder));
    }
    log_lint(&kb, a, &files, problem_print, a, &linted);
    if (linted.problems) {
        printf("problems: %zu\n", linted.problems);
        return CLI_FINDINGS;
    }
    printf("entries: %zu, patterns: %zu, examples: %zu, near misses: %zu; no problems\n",
           linted.entries, linted.patterns, linted.examples, linted.near_misses);
    return CLI_OK;
}
