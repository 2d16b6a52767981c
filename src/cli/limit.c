#include "cli/limit.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/bound.h"

/* With less memory not even the knowledge base is loaded. */
enum { SECONDS_MAX = 7 * 24 * 3600, BYTES_MIN = 16 << 20 };

static struct {
    uint64_t seconds, bytes;
    bool given;
    bool is_below;     // in a child of cli_redirect_output()
    char said[2][200]; // what is written at each limit: a handler can put nothing together
} limit = {.seconds = CLI_LIMIT_SECONDS, .bytes = ARENA_LIMIT_DEFAULT};

struct unit {
    const char *name;
    uint64_t times;
};

static const struct unit times[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {NULL, 0}};
static const struct unit sizes[] = {
    {"MiB", (uint64_t)1 << 20}, {"GiB", (uint64_t)1 << 30}, {NULL, 0}};

/* "90s", "2GiB": a whole number above 0, and at most `max`, with one of the units. */
static bool read_amount(struct str text, const struct unit *units, uint64_t max, uint64_t *ret)
{
    size_t digits = 0;
    uint64_t number;
    while (digits < text.n && text.s[digits] >= '0' && text.s[digits] <= '9') {
        digits++;
    }
    if (!str_u64((struct str){text.s, digits}, &number) || number == 0) {
        return false;
    }
    for (const struct unit *u = units; u->name; u++) {
        if (str_is((struct str){text.s + digits, text.n - digits}, u->name)) {
            *ret = number * u->times;
            return number <= max / u->times;
        }
    }
    return false;
}

static bool read_limit(const char *value)
{
    struct str text = str_of(value);
    size_t comma = str_find_char(text, ',');
    return read_amount((struct str){text.s, comma}, times, SECONDS_MAX, &limit.seconds) &&
           (comma == text.n || read_amount((struct str){text.s + comma + 1, text.n - comma - 1},
                                           sizes, SIZE_MAX / 2, &limit.bytes)) &&
           limit.bytes >= BYTES_MIN;
}

enum { AT_TIME, AT_MEMORY };

static void prepare(const char *command)
{
    (void)snprintf(limit.said[AT_TIME], sizeof limit.said[AT_TIME],
                   "gpumend: %s: stopped after %llu s of processor time; --limit TIME gives it "
                   "more\n",
                   command, (unsigned long long)limit.seconds);
    (void)snprintf(limit.said[AT_MEMORY], sizeof limit.said[AT_MEMORY],
                   "gpumend: %s: stopped: it needs more memory than %llu MiB, the limit, or than "
                   "there is; --limit TIME,MEM sets the limit\n",
                   command, (unsigned long long)limit.bytes >> 20);
}

static bool has_option(const struct cli_command *command)
{
    bool found = false;
    for (size_t i = 0; i < command->n_options; i++) {
        if (command->options[i].id == CLI_LIMIT_LARGE) {
            limit.seconds = CLI_LIMIT_SECONDS_LARGE;
        }
        found |= command->options[i].id == CLI_LIMIT || command->options[i].id == CLI_LIMIT_LARGE;
    }
    return found;
}

static void stop(const char *said)
{
    ssize_t n = write(STDERR_FILENO, said, (unsigned)strlen(said));
    (void)n; // nothing better can be done when even that fails
    _exit(limit.is_below ? CLI_LIMIT_STOPPED : CLI_CANNOT);
}

static void on_time(void)
{
    stop(limit.said[AT_TIME]);
}

static void on_memory(void *arg)
{
    (void)arg;
    stop(limit.said[AT_MEMORY]);
}

/* jansson's setters would leave out what there is no memory for: the document would be another one,
 * and look whole. */
static void *json_memory(size_t n)
{
    void *memory = malloc(n);
    if (!memory) {
        stop(limit.said[AT_MEMORY][0] ? limit.said[AT_MEMORY] : "gpumend: out of memory\n");
    }
    return memory;
}

void cli_arena_init(struct arena *a)
{
    bool option = limit.said[AT_MEMORY][0] != '\0';
    arena_init(a, (size_t)limit.bytes, option ? on_memory : NULL, NULL);
}

/* The last --limit among the words counts; false: one is not understood, which is said. */
static bool read_words(const struct cli_command *command, int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *value = strcmp(argv[i], "--limit") == 0 && i + 1 < argc ? argv[i + 1]
                            : strncmp(argv[i], "--limit=", 8) == 0          ? argv[i] + 8
                                                                            : NULL;
        if (value && !read_limit(value)) {
            (void)cli_fail(CLI_USAGE,
                           "%s: --limit takes a time and a size of 16 MiB or more, such as "
                           "5m or 90s,4GiB, not %s",
                           command->name, value);
            return false;
        }
        limit.given |= value != NULL;
    }
    return true;
}

int cli_limit_start(const struct cli_command *command, int argc, char **argv)
{
    json_set_alloc_funcs(json_memory, free);
    if (!has_option(command)) {
        return CLI_OK;
    }
    if (!read_words(command, argc, argv)) {
        return CLI_USAGE;
    }
    prepare(command->name);
    bound_time(limit.seconds, on_time);
    bound_memory(limit.bytes);
    return CLI_OK;
}

void cli_limit_restart(void)
{
    bound_time(limit.seconds, on_time);
}

void cli_limit_restart_below(void)
{
    limit.is_below = true;
    if (limit.said[AT_TIME][0]) {
        cli_limit_restart();
    }
}

int cli_limit_lift(const char *what)
{
    if (limit.given) {
        return cli_fail(CLI_USAGE, "%s has no limit: --limit belongs to commands that only look",
                        what);
    }
    bound_lift();
    return CLI_OK;
}
