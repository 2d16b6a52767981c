/*
 * A plug-in for Slurm: --gpumend=check|mend|probe of srun, sbatch and salloc.
 *
 *   check  the first task on each node prints on its standard error what is wrong with its program
 *   mend   each task starts with the environment that `gpumend run` would give it
 *   probe  the first task on each node runs the GPUs of the job briefly and prints the result
 *
 * Built on a node of the cluster, as a plug-in must be of Slurm's own version (spank(8)):
 *
 *   cc -shared -fPIC -O2 -o spank_gpumend.so spank_gpumend.c
 *   plugstack.conf: optional /usr/lib/slurm/spank_gpumend.so gpumend=/usr/local/bin/gpumend
 *
 * All runs in the task, as its user, in its folder and within its devices. It never fails a task:
 * where gpumend is missing, crashes or hangs, the task starts as it would have without it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(gpumend, 1)

/* gpumend has 30 s; if the shell does not come to its end either, the task goes on. */
enum { DEADLINE_S = 45, OUTPUT_BYTES_MAX = 1 << 20, WORDS_MAX = 4096 };

enum mode { MODE_NONE, MODE_CHECK, MODE_MEND, MODE_PROBE };

/* $0 is gpumend, $@ the task's command. The lines of `run --print` are made for eval. */
static const char *const scripts[] = {
    [MODE_CHECK] = "exec /usr/bin/timeout -k 2 30 \"$0\" check \"$1\" >&2",
    [MODE_MEND] = "eval \"$(/usr/bin/timeout -k 2 30 \"$0\" run --print -- \"$@\")\"\n"
                  "exec /usr/bin/env -0",
    [MODE_PROBE] = "exec /usr/bin/timeout -k 2 30 \"$0\" probe --quick >&2",
};

static enum mode mode;
static const char *program = "/usr/local/bin/gpumend";

/* ------------------------------------------------------------------ the option */

static int take_option(int value, const char *word, int remote)
{
    static const char *const words[] = {
        [MODE_CHECK] = "check", [MODE_MEND] = "mend", [MODE_PROBE] = "probe"};
    (void)value, (void)remote;
    for (int i = MODE_CHECK; i <= MODE_PROBE; i++) {
        if (word && strcmp(word, words[i]) == 0) {
            mode = (enum mode)i;
            return 0;
        }
    }
    slurm_error("--gpumend expects check, mend or probe");
    return -1;
}

int slurm_spank_init(spank_t spank, int n, char **arguments)
{
    static char name[] = "gpumend", shape[] = "check|mend|probe",
                usage[] = "let gpumend check the task's program, mend its environment, or probe "
                          "the job's GPUs before it starts";
    struct spank_option option = {name, shape, usage, 1, 0, take_option};
    for (int i = 0; i < n; i++) {
        if (strncmp(arguments[i], "gpumend=", 8) == 0) {
            program = arguments[i] + 8; // Slurm keeps the arguments
        }
    }
    if (spank_option_register(spank, &option) != ESPANK_SUCCESS) {
        slurm_error("gpumend: Slurm does not take the option --gpumend");
    }
    return 0;
}

/* ------------------------------------------------------------------ gpumend */

static void become_shell(char **words, char **env, int output)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL); // cannot fail for these arguments
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0) {
        _exit(127);
    }
    (void)execve("/bin/sh", words, env); // returns on failure only
    _exit(127);
}

static int left_ms(const struct timespec *begin)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); // cannot fail for this clock
    long done = (now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000;
    return done < DEADLINE_S * 1000 ? (int)(DEADLINE_S * 1000 - done) : 0;
}

/* What comes before the end or the deadline. Returns whether it came to its end. */
static bool read_output(int fd, char *data, size_t *ret_n)
{
    struct timespec begin;
    struct pollfd end = {.fd = fd, .events = POLLIN};
    size_t n = 0;
    ssize_t got = -1;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin); // cannot fail for this clock
    while (n < OUTPUT_BYTES_MAX && left_ms(&begin) > 0) {
        int ready = poll(&end, 1, left_ms(&begin));
        got = ready > 0 ? read(fd, data + n, OUTPUT_BYTES_MAX - n) : -1;
        if (got == 0 || (got < 0 && ready != 0 && errno != EINTR)) {
            break;
        }
        n += got > 0 ? (size_t)got : 0;
    }
    *ret_n = n;
    return got == 0;
}

/* Runs the mode's script. Returns its output, to be freed; NULL: it did not end well. */
static char *run_script(char **command, int n_command, char **env, size_t *ret_n)
{
    int ends[2] = {-1, -1}, status = 0;
    char *data = malloc(OUTPUT_BYTES_MAX), shell[] = "sh", option[] = "-c";
    char **words = calloc((size_t)n_command + 5, sizeof *words);
    char *script = strdup(scripts[mode]), *zero = strdup(program);
    pid_t child = -1, got = -1;
    bool good = data && words && script && zero && pipe(ends) == 0;
    if (good) {
        words[0] = shell;
        words[1] = option;
        words[2] = script;
        words[3] = zero;
        memcpy(words + 4, command, (size_t)n_command * sizeof *words);
        child = fork();
        if (child == 0) {
            (void)close(ends[0]);
            become_shell(words, env, ends[1]);
        }
        (void)close(ends[1]);
        good = child > 0 && read_output(ends[0], data, ret_n);
        (void)close(ends[0]);
    }
    if (child > 0) {
        if (!good) {
            (void)kill(child, SIGKILL); // is still ours: it was not waited for
        }
        while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
        }
    }
    good = good && got > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    free(script);
    free(zero);
    free(words);
    if (!good) {
        free(data);
        data = NULL;
    }
    return data;
}

/* ------------------------------------------------------------------ the environment */

/* A shell sets these itself, or passes them on only if they are its own kind of name. */
static bool is_of_shell(const char *name, size_t n)
{
    static const char *const names[] = {"PWD", "OLDPWD", "SHLVL", "_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == n && strncmp(name, names[i], n) == 0) {
            return true;
        }
    }
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") < n;
}

/* The entry with this name in NAME=VALUE\0NAME=VALUE\0, or NULL. */
static const char *entry_of(const char *data, size_t n, const char *name, size_t n_name)
{
    for (size_t i = 0; i < n; i += strlen(data + i) + 1) {
        if (strncmp(data + i, name, n_name) == 0 && data[i + n_name] == '=') {
            return data + i;
        }
    }
    return NULL;
}

static const char *value_in(char **env, const char *name, size_t n_name)
{
    for (; *env; env++) {
        if (strncmp(*env, name, n_name) == 0 && (*env)[n_name] == '=') {
            return *env + n_name + 1;
        }
    }
    return NULL;
}

/* `data` ends in a NUL. What is gone is taken away first: `env` is Slurm's own and changes. */
static void mend_environment(spank_t spank, char **env, char *data, size_t n)
{
    size_t n_names = 0;
    char **names = NULL;
    for (char **e = env; *e; e++) {
        n_names++;
    }
    names = calloc(n_names + 1, sizeof *names);
    for (size_t i = 0; names && i < n_names; i++) {
        size_t n_name = strcspn(env[i], "=");
        if (env[i][n_name] && !is_of_shell(env[i], n_name) && !entry_of(data, n, env[i], n_name)) {
            names[i] = strndup(env[i], n_name);
        }
    }
    for (size_t i = 0, step; i < n; i += step) {
        size_t n_name = strcspn(data + i, "=");
        step = strlen(data + i) + 1;
        if (!data[i + n_name] || is_of_shell(data + i, n_name)) {
            continue;
        }
        const char *before = value_in(env, data + i, n_name), *now = data + i + n_name + 1;
        data[i + n_name] = '\0';
        if (!before || strcmp(before, now) != 0) {
            (void)spank_setenv(spank, data + i, now, 1); // otherwise it stays as it is
            (void)spank_get_item(spank, S_JOB_ENV, &env); // may have moved
        }
    }
    for (size_t i = 0; names && i < n_names; i++) {
        if (names[i]) {
            (void)spank_unsetenv(spank, names[i]); // otherwise it stays as it is
        }
        free(names[i]);
    }
    free(names);
}

int slurm_spank_task_init(spank_t spank, int n, char **arguments)
{
    char **command = NULL, **env = NULL, *output;
    int n_command = 0, task = 0;
    size_t n_output = 0;
    (void)n, (void)arguments;
    if (mode == MODE_NONE ||
        spank_get_item(spank, S_JOB_ARGV, &n_command, &command) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_ENV, &env) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS || n_command < 1 ||
        n_command > WORDS_MAX || (mode != MODE_MEND && task != 0)) {
        return 0;
    }
    output = run_script(command, n_command, env, &n_output);
    if (mode == MODE_MEND && output && n_output && !output[n_output - 1]) {
        mend_environment(spank, env, output, n_output);
    }
    free(output);
    return 0;
}
