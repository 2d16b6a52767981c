#include "base/str.h"
#include "cli/cli.h"
#include "report/cause.h"

enum { O_JSON = 1, O_LIST };

static const struct cli_option options[] = {
    {"list", NULL, "print every cause with its one-sentence title", O_LIST},
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

static void list_text(FILE *file)
{
    for (size_t i = 0; i < DIAG_CAUSES; i++) {
        fprintf(file, "%-28s %s\n", diag_causes[i].id, diag_causes[i].title);
    }
}

static int list_causes(bool json)
{
    if (!json) {
        list_text(stdout);
        return CLI_OK;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < DIAG_CAUSES; i++) {
        (void)json_array_append_new(list, report_cause_json(&diag_causes[i]));
    }
    json_t *doc = json_pack("{s:i, s:o}", "schema", 1, "causes", list);
    return out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output") : CLI_OK;
}

static int explain_run(const struct cli_command *self, int argc, char **argv)
{
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    const char *id = NULL;
    bool json = false, list = false;
    for (int option; (option = cli_next(&args)) != CLI_END;) {
        if (option == CLI_HELP || option == CLI_WRONG) {
            return option == CLI_HELP ? CLI_OK : CLI_USAGE;
        }
        json |= option == O_JSON;
        list |= option == O_LIST;
        if (option == CLI_ARGUMENT) {
            if (id) {
                return cli_fail(CLI_USAGE, "explain: one CAUSE at a time (%s, %s)", id, args.value);
            }
            id = args.value;
        }
    }
    if (list) {
        return list_causes(json);
    }
    const struct diag_cause_row *cause = id ? diag_cause_by_id(id) : NULL;
    if (!cause) {
        (void)(id ? cli_fail(CLI_USAGE, "explain: no cause is called %s; those that --list prints are:",
                             id)
                  : cli_fail(CLI_USAGE, "explain: say which CAUSE, one of those that --list prints:"));
        list_text(stderr);
        return CLI_USAGE;
    }
    if (json) {
        return out_json_dump(stdout, report_cause_json(cause)) < 0
                   ? cli_fail(CLI_CANNOT, "cannot write the output")
                   : CLI_OK;
    }
    struct out out;
    out_init(&out, stdout);
    report_cause_text(&out, cause);
    return CLI_OK;
}

const struct cli_command cli_explain = {
    .name = "explain",
    .arguments = "CAUSE [options]",
    .summary = "the page of one cause: what happens, how to see it, what to do",
    .text = "Prints what gpumend knows of a cause that `check` has named.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = explain_run,
};
