#include "cli/explain.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/str.h"
#include "cli/limit.h"
#include "report/cause.h"

enum { O_JSON = 1, O_LIST, O_FOLLOW, O_HERE, O_KB, O_ALL, O_ROOT };

static const struct cli_option options[] = {
    {"all", NULL, "print every repair, not only the first three", O_ALL},
    {"follow", NULL, "explain a log that grows; print what is certain at once", O_FOLLOW},
    {"here", NULL, "check this machine too, and say where both agree", O_HERE},
    {"root", "DIR", "check the machine whose file system is below DIR, as --here does", O_ROOT},
    {"list", NULL, "print every cause with its one-sentence title", O_LIST},
    {"kb", "DIR", "add these rows and failures to the knowledge base (docs/kb.md)", O_KB},
    CLI_OPTION_LIMIT_LARGE,
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
    return out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output")
                                          : CLI_OK;
}

static int print_cause(const struct diag_cause_row *cause, bool json)
{
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

struct explain_words {
    struct arena arena;
    VEC(const char *) files;
    const char *text;
    const char *kb, *root;
    bool json, list, follow, here, all;
};

static void explain_take(struct explain_words *w, int option, const struct cli_args *args)
{
    w->json |= option == O_JSON;
    w->list |= option == O_LIST;
    w->follow |= option == O_FOLLOW;
    w->here |= option == O_HERE;
    w->all |= option == O_ALL;
    w->kb = option == O_KB ? args->value : w->kb;
    w->root = option == O_ROOT ? args->value : w->root;
    if (option == CLI_ARGUMENT && args->only_arguments) {
        w->text = w->text ? arena_printf(&w->arena, "%s %s", w->text, args->value) : args->value;
    } else if (option == CLI_ARGUMENT) {
        VEC_PUSH(&w->arena, &w->files, args->value);
    }
}

static int unknown_word(const char *word)
{
    struct nearest n;
    nearest_init(&n, word);
    for (size_t i = 0; i < DIAG_CAUSES; i++) {
        nearest_try(&n, diag_causes[i].id);
    }
    const char *best = nearest_best(&n);
    return cli_fail(CLI_USAGE,
                    "explain: no cause and no file is called %s%s%s%s "
                    "(gpumend explain --list names every cause)",
                    word, best ? "; did you mean " : "", best ? best : "", best ? "?" : "");
}

/* A word is a cause, a file, or a mistake. */
static int explain_one_word(const struct explain_words *w, const struct explain_asked *asked,
                            struct arena *a)
{
    const char *word = w->files.items[0];
    const struct diag_cause_row *cause = diag_cause_by_id(word);
    if (cause) {
        return print_cause(cause, w->json);
    }
    if (strcmp(word, "-") != 0 && !strchr(word, '/') && access(word, F_OK) != 0) {
        return unknown_word(word);
    }
    return explain_logs(a, asked);
}

/* Whether something was piped or redirected into the command. */
static bool is_given_text(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

static int run_words(struct explain_words *w)
{
    if (w->list) {
        return list_causes(w->json);
    }
    if (!w->text && w->files.n == 0 && is_given_text()) {
        VEC_PUSH(&w->arena, &w->files, "-");
    }
    if (w->text ? w->files.n > 0 : w->follow && w->files.n > 1) {
        return cli_fail(CLI_USAGE, w->text ? "explain: either files or a text behind --"
                                           : "explain: --follow takes one LOG");
    }
    if (w->here && w->root) {
        return cli_fail(CLI_USAGE, "explain: either --here or --root");
    }
    if (!w->text && w->files.n == 0) {
        return cli_fail(CLI_USAGE, "explain: say which LOG (- is standard input) or which CAUSE "
                                   "(gpumend explain --list names every cause)");
    }
    if (w->follow && cli_limit_lift("explain --follow") != CLI_OK) {
        return CLI_USAGE;
    }
    const struct explain_asked asked = {
        .files = w->files.items,
        .n_files = w->files.n,
        .text = w->text,
        .kb = w->kb,
        .root = w->root,
        .json = w->json,
        .follow = w->follow,
        .here = w->here,
        .all = w->all,
    };
    cli_only_look((struct sandbox){0});
    return w->files.n == 1 ? explain_one_word(w, &asked, &w->arena)
                           : explain_logs(&w->arena, &asked);
}

static int explain_run(const struct cli_command *self, int argc, char **argv)
{
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    struct explain_words w = {0};
    int option;
    cli_arena_init(&w.arena);
    while ((option = cli_next(&args)) != CLI_END && option != CLI_HELP && option != CLI_WRONG) {
        explain_take(&w, option, &args);
    }
    int rc = option == CLI_HELP ? CLI_OK : option == CLI_WRONG ? CLI_USAGE : run_words(&w);
    arena_release(&w.arena);
    return rc;
}

const struct cli_command cli_explain = {
    .name = "explain",
    .arguments = "LOG...|-|CAUSE [options] [-- TEXT]",
    .summary = "reads a crash log and prints its cause and repair, or the page of one cause",
    .text =
        "LOG is a file with what a program printed, - is standard input (also without an argument\n"
        "where something is piped in), and TEXT is used as it is. Each LOG is explained by "
        "itself.\n"
        "The name of a CAUSE prints that cause's page, even if a file has the same name: write\n"
        "./NAME for the file.\n"
        "\n"
        "Exit status: 0 no problem of the GPU runtime, 1 a cause in the GPU runtime, 3 the result\n"
        "is inconclusive or a LOG cannot be read.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = explain_run,
};
