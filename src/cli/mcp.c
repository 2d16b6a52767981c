#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/limit.h"
#include "mcp/server.h"
#include "version.h"

enum { O_ALLOW = 1, O_MACHINE };
/* The clock of one call; processor time has the command's own limit. Bytes of an error text. */
enum { CALL_MS = 120000, OUTPUT_MAX = 64 << 20, ERRORS_MAX = 16 << 10, FOLDERS_MAX = 64 };

static const struct cli_option options[] = {
    {"allow", "DIR", "targets must lie below DIR; may be given again (default: anywhere)", O_ALLOW},
    {"allow-machine", NULL, "with --allow: devices and setup may describe this machine", O_MACHINE},
};

/* The commands that the tools name; each of them only looks. */
static const struct cli_command *const commands[] = {&cli_check, &cli_why,    &cli_explain,
                                                     &cli_fix,   &cli_choose, &cli_devices,
                                                     &cli_kb,    &cli_needs,  &cli_setup};

struct allowed {
    char *folders[FOLDERS_MAX]; // without links
    size_t n;
};

/* ------------------------------------------------------------------ paths */

static bool path_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strcmp(folder, "/") == 0 ||
           (strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

/* Reading from a pipe or a terminal waits for somebody who may never write. What is absent, the
 * command reports. */
static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* The path without links, so that the command cannot be led elsewhere by one that is there now. */
static const char *allow(void *arg, struct arena *a, const char *path)
{
    const struct allowed *allowed = arg;
    if (path && is_special(path)) {
        return NULL;
    }
    if (allowed->n == 0) {
        return path ? path : "";
    }
    char *real = path ? realpath(path, NULL) : NULL;
    const char *kept = real ? arena_strdup(a, real) : NULL;
    free(real);
    for (size_t i = 0; kept && i < allowed->n; i++) {
        if (path_is_below(kept, allowed->folders[i])) {
            return kept;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ a command in a child */

static _Noreturn void be_command(const char *const *words, size_t n)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i]->name, words[0]) == 0) {
            char **argv = (char **)(uintptr_t)(words + 1);
            int status = cli_limit_start(commands[i], (int)n - 1, argv);
            status = status ? status : commands[i]->run(commands[i], (int)n - 1, argv);
            exit(cli_finish(status));
        }
    }
    exit(CLI_USAGE);
}

/* Standard input of the command: the text, at its beginning. */
static int input_of(struct str text)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    size_t done = 0;
    while (fd >= 0 && done < text.n) {
        ssize_t n = write(fd, text.s + done, text.n - done);
        if (n <= 0) {
            (void)close(fd);
            return -1;
        }
        done += (size_t)n;
    }
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* What one pipe has brought. */
struct stream {
    int fd;
    char *data;
    size_t n, cap, max;
};

/* False: it has all that it may. */
static bool make_room(struct stream *s, struct arena *a)
{
    if (s->n == s->cap && s->cap < s->max) {
        size_t cap = s->cap ? s->cap * 2 : s->max < 65536 ? s->max : 65536;
        char *data = arena_alloc(a, cap);
        memcpy(data, s->data ? s->data : "", s->n);
        s->data = data;
        s->cap = cap;
    }
    return s->n < s->cap;
}

/* Reads both to their ends; returns why that did not happen, or NULL. */
static const char *read_streams(struct stream *out, struct stream *err, struct arena *a)
{
    int64_t end = clock_ms() + CALL_MS;
    struct stream *streams[] = {out, err};
    while (out->fd >= 0 || err->fd >= 0) {
        struct pollfd wait[2] = {{out->fd, POLLIN, 0}, {err->fd, POLLIN, 0}};
        int64_t left = end - clock_ms();
        if (left <= 0 || poll(wait, 2, (int)left) == 0) {
            return "the command was ended: it took longer than two minutes";
        }
        for (int i = 0; i < 2; i++) {
            struct stream *s = streams[i];
            if (!wait[i].revents) {
                continue;
            }
            char rest[4096]; // of an error text that is long enough
            bool full = !make_room(s, a);
            if (full && s == out) {
                return "the answer is larger than 64 MiB: ask for a narrower target";
            }
            ssize_t n =
                full ? read(s->fd, rest, sizeof rest) : read(s->fd, s->data + s->n, s->cap - s->n);
            if (n > 0) {
                s->n += full ? 0 : (size_t)n;
            } else if (n == 0 || errno != EINTR) {
                s->fd = -1;
            }
        }
    }
    return NULL;
}

static void run_command(void *arg, struct arena *a, const char *const *words, size_t n,
                        struct str input, struct mcp_ran *ret)
{
    (void)arg;
    int out[2], err[2], in = input_of(input), status = 0;
    *ret = (struct mcp_ran){.status = -1, .errors = str_of("no process could be started")};
    if (in < 0 || pipe(out) < 0) {
        return;
    }
    if (pipe(err) < 0) {
        (void)close(out[0]);
        (void)close(out[1]);
        (void)close(in);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(in, 0);
        (void)dup2(out[1], 1);
        (void)dup2(err[1], 2);
        (void)close(out[0]);
        (void)close(err[0]);
        be_command(words, n);
    }
    (void)close(in);
    (void)close(out[1]);
    (void)close(err[1]);
    struct stream texts[] = {{.fd = out[0], .max = OUTPUT_MAX}, {.fd = err[0], .max = ERRORS_MAX}};
    const char *why =
        child < 0 ? "no process could be started" : read_streams(&texts[0], &texts[1], a);
    (void)close(out[0]);
    (void)close(err[0]);
    if (child > 0 && why) {
        (void)kill(child, SIGKILL);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ret->output = (struct str){texts[0].data, texts[0].n};
    ret->errors = why ? str_of(why) : (struct str){texts[1].data, texts[1].n};
    ret->status = !why && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ------------------------------------------------------------------ the conversation */

/* The next line without its end: 1 got one, 0 at the end. One that is too long is cut to a length
 * that mcp_handle() refuses. */
static int next_message(char **line, size_t *cap, size_t *ret_n)
{
    size_t n = 0;
    int c;
    while ((c = getc_unlocked(stdin)) != EOF && c != '\n') {
        if (n == *cap && *cap <= MCP_LINE_MAX) {
            size_t more = *cap ? *cap * 2 : 4096;
            char *larger = realloc(*line, more);
            if (!larger) {
                return 0;
            }
            *line = larger;
            *cap = more;
        }
        if (n < *cap) {
            (*line)[n++] = (char)c;
        }
    }
    *ret_n = n;
    return c != EOF || n > 0;
}

static int serve(const struct mcp_server *s)
{
    char *line = NULL;
    size_t cap = 0, n = 0;
    int status = CLI_OK;
    while (status == CLI_OK && next_message(&line, &cap, &n)) {
        struct arena a;
        arena_init(&a, 0, NULL, NULL);
        struct str message = str_trim((struct str){line, n});
        json_t *answer = message.n ? mcp_handle(s, &a, message) : NULL;
        if (answer && (out_json_write(stdout, answer, JSON_COMPACT) < 0 || putchar('\n') == EOF ||
                       fflush(stdout) != 0)) {
            status = cli_fail(CLI_CANNOT, "cannot write the output");
        }
        json_decref(answer);
        arena_release(&a);
    }
    free(line);
    return status;
}

static int allowed_take_folder(struct allowed *allowed, const char *value)
{
    char *real = realpath(value, NULL);
    if (!real || allowed->n == FOLDERS_MAX) {
        free(real);
        return cli_fail(CLI_USAGE, "mcp: --allow %s: %s", value,
                        real ? "too many folders" : strerror(errno));
    }
    allowed->folders[allowed->n++] = real;
    return CLI_OK;
}

static int mcp_run(const struct cli_command *self, int argc, char **argv)
{
    static struct allowed allowed;
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    bool machine = false;
    int rc = CLI_OK;
    for (int id; rc == CLI_OK && (id = cli_next(&args)) != CLI_END;) {
        switch (id) {
        case CLI_HELP: return CLI_OK;
        case O_MACHINE: machine = true; break;
        case O_ALLOW: rc = allowed_take_folder(&allowed, args.value); break;
        case CLI_ARGUMENT:
            rc = cli_fail(CLI_USAGE, "mcp: no argument is expected (%s)", args.value);
            break;
        default: rc = CLI_USAGE; break;
        }
    }
    const struct mcp_server server = {.version = GPUMEND_VERSION,
                                      .arg = &allowed,
                                      .run = run_command,
                                      .allow = allow,
                                      .machine = machine};
    rc = rc == CLI_OK ? serve(&server) : rc;
    for (size_t i = 0; i < allowed.n; i++) {
        free(allowed.folders[i]);
    }
    allowed.n = 0;
    return rc;
}

const struct cli_command cli_mcp = {
    .name = "mcp",
    .arguments = "[options]",
    .summary = "answers assistants by the Model Context Protocol on standard input and output",
    .text =
        "Serves an assistant in an editor, so that it can ask gpumend instead of guessing. Its\n"
        "tools are check, why, explain, plan (what fix lists), choose, devices, kb, needs,\n"
        "setup and compare (of two snapshots): all of them only look. It speaks the protocol of\n"
        "2026-07-28 and the older ones with initialize. Each call is a child process with the\n"
        "limits of its command.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = mcp_run,
};
