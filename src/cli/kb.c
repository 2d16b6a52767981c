#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/kb_arch.h"
#include "cli/kb_lint.h"
#include "cli/limit.h"
#include "report/kb.h"

enum { O_JSON = 1, O_KB, O_FORMS, O_SEARCH, O_WITH, O_KEYS };

static const struct cli_option options[] = {
    CLI_OPTION_LIMIT,
    {"json", NULL, "print JSON (docs/kb.md)", O_JSON},
    {"kb", "DIR", "add these rows and failures to the knowledge base (docs/kb.md)", O_KB},
    {"with", "KEY=VALUE", "what is given, in the exact form of a question; may be repeated",
     O_WITH},
    {"keys", NULL, "print the keys of --with, and the values of those with a few of their own",
     O_KEYS},
    {"search", NULL, "arch: search the files' data for code as well (slower)", O_SEARCH},
    {"forms", NULL, "print an example of each form of question", O_FORMS},
};

struct kb_arguments {
    const char *question, *folder;
    VEC(const char *) files; // after "arch"
    VEC(const char *) given; // of --with
    const char *lint_folder; // after "lint", or NULL
    bool json, forms, keys, arch, lint, search;
};

static int kb_read_arguments(struct arena *a, struct cli_args *args, struct kb_arguments *ret)
{
    for (int option; (option = cli_next(args)) != CLI_END;) {
        switch (option) {
        case CLI_HELP:
        case CLI_WRONG: return option;
        case O_JSON: ret->json = true; break;
        case O_FORMS: ret->forms = true; break;
        case O_KEYS: ret->keys = true; break;
        case O_WITH: VEC_PUSH(a, &ret->given, args->value); break;
        case O_SEARCH: ret->search = true; break;
        case O_KB:
            ret->folder =
                args->value[0] == '/' ? args->value : path_join(a, cli_cwd(a), args->value);
            break;
        default:
            if (!ret->question && !ret->arch && strcmp(args->value, "arch") == 0) {
                ret->arch = true;
                break;
            }
            if (!ret->question && !ret->arch && !ret->lint && strcmp(args->value, "lint") == 0) {
                ret->lint = true;
                break;
            }
            if (ret->lint && !ret->lint_folder) {
                ret->lint_folder =
                    args->value[0] == '/' ? args->value : path_join(a, cli_cwd(a), args->value);
                break;
            }
            if (ret->arch) {
                VEC_PUSH(a, &ret->files, args->value);
                break;
            }
            ret->question =
                ret->question ? arena_printf(a, "%s %s", ret->question, args->value) : args->value;
        }
    }
    return CLI_END;
}

static int print_forms(bool json)
{
    json_t *list = json_array();
    for (size_t i = 0; kb_form_example(i); i++) {
        (void)json_array_append_new(list, json_string(kb_form_example(i)));
        if (!json) {
            printf("%s\n", kb_form_example(i));
        }
    }
    json_t *doc = json_pack("{s:i, s:o}", "schema", 1, "forms", list);
    if (!json) {
        json_decref(doc);
        return CLI_OK;
    }
    return out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output")
                                          : CLI_OK;
}

/* Packages are keys as well, and their releases the values; the rows of one stand together. */
static int print_packages(struct arena *a, struct root *root, const char *folder)
{
    struct kb kb;
    struct kb_releases releases;
    struct gm_err err;
    if (kb_open(&kb, a, root, folder, &err) < 0 || kb_load_folder(&kb, &err) < 0 ||
        kb_releases(&kb, &releases, &err) < 0) {
        return cli_fail(CLI_CANNOT, "kb: %s", str_printable(a, err.text));
    }
    for (size_t i = 0; i < releases.n; i++) {
        const struct kb_release *row = &releases.rows[i];
        bool same = i > 0 && strcmp(row->package, releases.rows[i - 1].package) == 0;
        printf("%s%s %s", same || i == 0 ? "" : "\n", same ? "" : row->package, row->version);
    }
    printf("\n");
    return CLI_OK;
}

/* A line for each key, with its values behind it. */
static int print_keys(struct arena *a, const struct kb_arguments *arguments)
{
    struct root root;
    struct gm_err err;
    for (size_t i = 0; kb_ask_key(i); i++) {
        const char *key = kb_ask_key(i);
        printf("%s", key);
        for (size_t v = 0; kb_ask_value(key, v); v++) {
            printf(" %s", kb_ask_value(key, v));
        }
        printf("\n");
    }
    if (root_open(&root, "/", &err) < 0) {
        return cli_fail(CLI_CANNOT, "kb: %s", err.text);
    }
    int rc = print_packages(a, &root, arguments->folder);
    root_close(&root);
    return rc;
}

static int answer_question(struct arena *a, struct root *root, const struct kb_arguments *arguments)
{
    struct kb kb;
    struct kb_answer answer;
    struct gm_err err;
    const char *question = arguments->question ? arguments->question : "";
    if (kb_open(&kb, a, root, arguments->folder, &err) < 0 || kb_load_folder(&kb, &err) < 0 ||
        kb_ask(&kb, question, arguments->given.items, arguments->given.n, &answer, &err) < 0) {
        bool usage = err.code == GM_ERR_USAGE;
        return cli_fail(usage ? CLI_USAGE : CLI_CANNOT, "kb: %s%s", str_printable(a, err.text),
                        usage ? " (gpumend kb --keys lists them)" : "");
    }
    if (arguments->json) {
        if (out_json_dump(stdout, report_kb_json(&answer)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        struct out out;
        out_init(&out, stdout);
        report_kb_text(&out, a, &answer);
    }
    return answer.known ? CLI_OK : CLI_CANNOT;
}

/* Whether the arguments say what to do: CLI_OK, or the exit status. */
static int arguments_check(const struct kb_arguments *arguments)
{
    if (arguments->arch && arguments->files.n == 0) {
        return cli_fail(CLI_USAGE, "kb arch: say which FILE");
    }
    if (arguments->search && !arguments->arch) {
        return cli_fail(CLI_USAGE, "kb: --search belongs to arch");
    }
    if (arguments->lint && (arguments->question || arguments->json || arguments->folder)) {
        return cli_fail(CLI_USAGE, "kb lint: it takes one DIR and no other options");
    }
    if (arguments->given.n > 0 && (arguments->arch || arguments->lint)) {
        return cli_fail(CLI_USAGE, "kb: --with belongs to a question");
    }
    if (!arguments->question && arguments->given.n == 0 && !arguments->arch && !arguments->lint) {
        return cli_fail(CLI_USAGE, "kb: ask a question (gpumend kb --forms shows examples)");
    }
    return CLI_OK;
}

static int kb_do(struct arena *a, struct root *root, const struct kb_arguments *arguments)
{
    return arguments->lint   ? cli_kb_lint(a, root, arguments->lint_folder)
           : arguments->arch ? cli_kb_arch(a, root, arguments->files.items, arguments->files.n,
                                           arguments->search, arguments->json)
                             : answer_question(a, root, arguments);
}

static int kb_run(const struct cli_command *self, int argc, char **argv)
{
    struct arena arena;
    struct root root;
    struct gm_err err;
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    struct kb_arguments arguments = {.question = NULL};
    cli_arena_init(&arena);
    int rc = kb_read_arguments(&arena, &args, &arguments);
    cli_only_look((struct sandbox){0});
    if (rc != CLI_END) {
        rc = rc == CLI_HELP ? CLI_OK : CLI_USAGE;
    } else if (arguments.forms) {
        rc = print_forms(arguments.json);
    } else if (arguments.keys) {
        rc = print_keys(&arena, &arguments);
    } else if ((rc = arguments_check(&arguments)) == CLI_OK && root_open(&root, "/", &err) < 0) {
        rc = cli_fail(CLI_CANNOT, "kb: %s", err.text);
    } else if (rc == CLI_OK) {
        rc = kb_do(&arena, &root, &arguments);
        root_close(&root);
    }
    arena_release(&arena);
    return rc;
}

const struct cli_command cli_kb = {
    .name = "kb",
    .arguments = "QUESTION | WHAT [--with KEY=VALUE]... | arch FILE... | lint [DIR] [options]",
    .summary = "answers what works with what: drivers, CUDA, cuDNN, packages, GPUs, error codes",
    .text =
        "Answers a question from the knowledge base, with its sources: \"which driver does CUDA\n"
        "12.4 need\", \"what provides libnvrtc.so.12\", \"which torch runs on sm_61 with driver "
        "535\".\n"
        "Every word of a question counts: one that is not understood is named. The first line of\n"
        "the answer is the question in its exact form, WHAT --with KEY=VALUE, as in\n"
        "\n"
        "    gpumend kb newest ctranslate2 --with cudnn=8\n"
        "\n"
        "where KEY is one of --keys or a package, whose VALUE is a release. A question that the\n"
        "base cannot answer gets \"not known\", with what comes nearest, and exit status 3.\n"
        "\n"
        "`kb arch` prints the GPU architectures that files carry code for.\n"
        "`kb lint` checks the rows and failures of a folder, which --kb adds to what is built in,\n"
        "or without DIR the failures that are built in.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = kb_run,
};
