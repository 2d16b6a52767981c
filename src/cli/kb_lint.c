#include "cli/kb_lint.h"

#include "base/str.h"
#include "cli/cli.h"
#include "kb/failures.h"
#include "log/lint.h"

static void problem_print(void *arg, const char *text)
{
    printf("%s\n", str_printable(arg, text));
}

/* Every area of a folder; prints what is wrong with it. *ret_rows: those that can be used. */
static size_t areas_lint(struct kb *kb, struct arena *a, size_t *ret_rows)
{
    size_t problems = 0;
    *ret_rows = 0;
    for (enum kb_area area = 0; area < KB_AREAS; area++) {
        struct gm_err err;
        size_t rows;
        if (kb_folder_count(kb, area, &rows, &err) < 0) {
            problem_print(a, err.text);
            problems++;
        } else {
            *ret_rows += rows;
        }
    }
    return problems;
}

/* What a folder is looked through for: its areas, then its failures. */
static int folder_lint(struct arena *a, struct root *root, const char *folder,
                       struct node_files *files, size_t *ret_rows)
{
    struct kb kb;
    struct gm_err err;
    int rc = kb_open(&kb, a, root, folder, &err);
    size_t problems = rc < 0 ? 0 : areas_lint(&kb, a, ret_rows);
    rc = rc < 0 ? rc : kb_failures_read(root, a, folder, files, &err);
    if (rc == GM_ERR_LOOK) {
        return cli_fail(CLI_CANNOT, "kb lint: %s", str_printable(a, err.text));
    }
    if (rc < 0) {
        problem_print(a, err.text);
    }
    if (rc < 0 || problems) {
        return CLI_FINDINGS;
    }
    if (files->n == 0 && *ret_rows == 0) {
        return cli_fail(CLI_CANNOT,
                        "kb lint: %s has no file NAME.yaml and no row in a file AREA.json",
                        str_printable(a, folder));
    }
    return CLI_OK;
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
    size_t rows = 0;
    int status = folder ? folder_lint(a, root, folder, &files, &rows) : CLI_OK;
    if (status != CLI_OK) {
        return status;
    }
    if (rows) {
        printf("rows: %zu; no problems\n", rows);
    }
    if (folder && files.n == 0) {
        return CLI_OK;
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
