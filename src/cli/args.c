/* What is said, and the words of a command line. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/str.h"
#include "cli/cli.h"

int cli_fail(enum cli_status status, const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    struct arena scratch;
    arena_init(&scratch, 0, NULL, NULL);
    fprintf(stderr, "gpumend: %s\n", n < 0 ? "no memory" : str_printable(&scratch, text));
    arena_release(&scratch);
    free(n < 0 ? NULL : text);
    return status;
}

int cli_finish(enum cli_status status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return cli_fail(CLI_CANNOT, "cannot write the output");
    }
    return status;
}

void cli_help(const struct cli_command *c)
{
    printf("usage: gpumend %s %s\n\n%s\n", c->name, c->arguments, c->text);
    if (c->n_options) {
        fputs("\noptions:\n", stdout);
    }
    for (size_t i = 0; i < c->n_options; i++) {
        const struct cli_option *o = &c->options[i];
        char left[64];
        (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "",
                       o->value ? o->value : "");
        printf("  %-24s %s\n", left, o->help);
    }
    printf("  %-24s %s\n", "--help", "print this");
}

static const struct cli_option *find_option(const struct cli_command *c, struct str name)
{
    for (size_t i = 0; i < c->n_options; i++) {
        if (str_is(name, c->options[i].name)) {
            return &c->options[i];
        }
    }
    return NULL;
}

static void unknown_option(const struct cli_command *c, struct str name, const char *word)
{
    char written[64]; // longer ones are near to no option
    struct nearest n;
    (void)snprintf(written, sizeof written, STR_FMT, STR_ARG(name));
    nearest_init(&n, written + strspn(written, "-"));
    for (size_t i = 0; i < c->n_options; i++) {
        nearest_try(&n, c->options[i].name);
    }
    const char *best = nearest_best(&n);
    (void)cli_fail(CLI_USAGE, "%s: unknown option %s%s%s%s (see gpumend %s --help)", c->name, word,
                   best ? "; did you mean --" : "", best ? best : "", best ? "?" : "", c->name);
}

int cli_next(struct cli_args *args)
{
    if (args->next >= args->argc) {
        return CLI_END;
    }
    char *word = args->argv[args->next++];
    args->value = word;
    if (args->only_arguments || word[0] != '-' || word[1] == '\0') {
        return CLI_ARGUMENT;
    }
    if (strcmp(word, "--") == 0) {
        args->only_arguments = true;
        return cli_next(args);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_help(args->command);
        return CLI_HELP;
    }
    struct str name = str_of(strcmp(word, "-v") == 0 ? "--verbose" : word);
    size_t equals = str_find_char(name, '=');
    const char *inline_value = equals < name.n ? word + equals + 1 : NULL;
    name.n = equals;
    const struct cli_option *o = NULL;
    if (str_starts(name, "--")) {
        o = find_option(args->command, (struct str){name.s + 2, name.n - 2});
    }
    if (!o) {
        unknown_option(args->command, name, word);
        return CLI_WRONG;
    }
    if (o->value && !inline_value && args->next >= args->argc) {
        (void)cli_fail(CLI_USAGE, "%s: --%s needs a value: %s", args->command->name, o->name,
                       o->value);
        return CLI_WRONG;
    }
    if (!o->value && inline_value) {
        (void)cli_fail(CLI_USAGE, "%s: --%s takes no value", args->command->name, o->name);
        return CLI_WRONG;
    }
    args->value = !o->value ? NULL : inline_value ? inline_value : args->argv[args->next++];
    return o->id == CLI_LIMIT || o->id == CLI_LIMIT_LARGE ? cli_next(args) : o->id;
}
