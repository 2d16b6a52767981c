#include "cli/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/slurm.h"

enum { HOUR = 3600, COUNT_BYTES_MAX = 256 << 10, LOCK_TRIES = 50 };

/* ------------------------------------------------------------------ scontrol */

static int ask_scontrol(struct arena *a, const char *const *words, struct str *ret,
                        struct gm_err *err)
{
    VEC(const char *) argv = {0};
    VEC_PUSH(a, &argv, "scontrol");
    for (; *words; words++) {
        VEC_PUSH(a, &argv, *words);
    }
    VEC_PUSH(a, &argv, NULL);
    return cli_slurm_ask(a, argv.items, ret, err);
}

/* The text behind "KEY=" up to the next blank, or to the end of the line: reasons have blanks. */
static const char *scontrol_value(struct arena *a, struct str text, const char *key,
                                  bool whole_line)
{
    struct str line;
    while (str_line(&text, &line)) {
        for (size_t i = 0; i + strlen(key) < line.n; i++) {
            struct str at = {line.s + i, line.n - i};
            if ((i == 0 || line.s[i - 1] == ' ') && str_starts(at, key)) {
                at.s += strlen(key);
                at.n -= strlen(key);
                return str_dup(a, whole_line ? str_trim(at) : str_cut(&at, ' '));
            }
        }
    }
    return NULL;
}

/* scontrol(1) takes "n[1-9]", "n1,n2" and "ALL" for a name, and would drain as many. */
static int check_name(const char *node, struct gm_err *err)
{
    size_t n = strspn(node, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    bool is_one = *node && *node != '-' && !node[n] && !str_eq_nocase(str_of(node), STR("ALL"));
    return is_one ? 0 : gm_err_set(err, GM_ERR_USAGE, "its name is not that of one node");
}

/* How a node stands: in use, out of use by gpumend's own drain, or out of use by others. */
enum standing { IN_USE, DRAINED_HERE, OTHERS };

static int standing_of(struct arena *a, const struct cli_drain *d, enum standing *ret,
                       const char **ret_why, struct gm_err *err)
{
    static const char *const out_of_use[] = {"DRAIN",   "DOWN",  "FAIL",   "MAINT",
                                             "REBOOT",  "POWER", "FUTURE", "NOT_RESPONDING",
                                             "UNKNOWN", "ERROR", "INVALID"};
    const char *const words[] = {"show", "node", d->node, NULL};
    struct str text = {0};
    int rc = check_name(d->node, err);
    rc = rc < 0 ? rc : ask_scontrol(a, words, &text, err);
    if (rc < 0) {
        return rc;
    }
    const char *state = scontrol_value(a, text, "State=", false);
    const char *reason = scontrol_value(a, text, "Reason=", true);
    if (!state || !*state) {
        return gm_err_set(err, GM_ERR_FORMAT, "scontrol show node prints no State");
    }
    *ret_why = arena_printf(a, "%s%s%s", state, reason ? ": " : "",
                            reason ? str_printable(a, reason) : "");
    *ret = IN_USE;
    for (size_t i = 0; i < sizeof out_of_use / sizeof *out_of_use; i++) {
        if (strstr(state, out_of_use[i])) {
            *ret = OTHERS;
        }
    }
    /* Down and failing are more than a drain: Slurm or a person has to end that. */
    bool only_drained = strstr(state, "DRAIN") && !strstr(state, "DOWN") &&
                        !strstr(state, "FAIL") && !strstr(state, "MAINT") &&
                        !strstr(state, "REBOOT") && !strstr(state, "NOT_RESPONDING") &&
                        !strchr(state, '*');
    if (*ret == OTHERS && only_drained && reason && starts_with(reason, CLI_DRAIN_WORD)) {
        *ret = DRAINED_HERE;
    }
    return 0;
}

/* ------------------------------------------------------------------ the count */

/* A lock of the open file: other processes here, and by NFSv4 those of other nodes. */
static int lock_count(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (fcntl(fd, F_OFD_SETLK, &whole) == 0) {
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
            return -1;
        }
        (void)nanosleep(&pause, NULL); // shorter is no harm
    }
    return -1;
}

static int read_count(struct arena *a, int fd, struct str *ret)
{
    char *text = arena_alloc(a, COUNT_BYTES_MAX + 1);
    ssize_t n = pread(fd, text, COUNT_BYTES_MAX + 1, 0);
    *ret = (struct str){text, n > 0 ? (size_t)n : 0};
    return n >= 0 && n <= COUNT_BYTES_MAX ? 0 : -1;
}

/* Lines "SECONDS NODE", and empty ones. Keeps those of the last hour, and counts them; -1: a line
 * is none. A time in the future counts. */
static int keep_recent(struct arena *a, struct str text, int64_t now, const char **ret, uint64_t *n)
{
    struct str line;
    const char *kept = "";
    *n = 0;
    while (str_line(&text, &line)) {
        struct str rest = line;
        uint64_t time = 0;
        if (!line.n) {
            continue;
        }
        if (!str_u64(str_cut(&rest, ' '), &time) || time > INT64_MAX || !rest.s || !rest.n) {
            return -1;
        }
        if ((int64_t)time > now - HOUR) {
            kept = arena_printf(a, "%s" STR_FMT "\n", kept, STR_ARG(line));
            *n += 1;
        }
    }
    *ret = kept;
    return 0;
}

/* The time of whoever keeps the file, which all nodes share; a node's own clock may be wrong. */
static int64_t shared_time(const struct cli_drain *d, int fd)
{
    struct stat st;
    return futimens(fd, NULL) == 0 && fstat(fd, &st) == 0 ? (int64_t)st.st_mtime : d->now;
}

/* What is shorter than what was there ends in empty lines: whoever is killed before the file is cut
 * leaves no half line behind. */
static const char *padded(struct arena *a, const char *text, size_t size)
{
    size_t n = strlen(text);
    if (n >= size) {
        return text;
    }
    char *whole = arena_alloc(a, size + 1);
    memcpy(whole, text, n);
    memset(whole + n, '\n', size - n);
    return whole;
}

/* Under the lock. Written before the drain: a drain that is not counted would be one too many. */
static int count_one(struct arena *a, const struct cli_drain *d, int fd, struct gm_err *err)
{
    struct str text;
    const char *kept;
    uint64_t n;
    if (lock_count(fd) < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s cannot be locked", d->count_file);
    }
    int64_t now = shared_time(d, fd);
    if (read_count(a, fd, &text) < 0 || keep_recent(a, text, now, &kept, &n) < 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s is no list of drains", d->count_file);
    }
    if (n >= d->limit) {
        return gm_err_set(err, GM_ERR_LIMIT, "%llu nodes were drained in the last hour, the limit",
                          (unsigned long long)n);
    }
    const char *all = arena_printf(a, "%s%lld %s\n", kept, (long long)now, d->node);
    const char *whole = padded(a, all, text.n);
    size_t size = strlen(whole);
    /* What is longer first, so that a full disk leaves more lines and not fewer. */
    if (pwrite(fd, whole, size, 0) != (ssize_t)size || ftruncate(fd, (off_t)strlen(all)) < 0 ||
        fsync(fd) < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", d->count_file, strerror(errno));
    }
    return 0;
}

static int take_one_of_the_hour(struct arena *a, const struct cli_drain *d, struct gm_err *err)
{
    struct stat st;
    int fd = open(d->count_file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        int why = fd < 0 ? errno : EINVAL;
        if (fd >= 0) {
            (void)close(fd);
        }
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", d->count_file, strerror(why));
    }
    int rc = count_one(a, d, fd, err);
    (void)close(fd); // and with it the lock
    return rc;
}

/* ------------------------------------------------------------------ what is done */

int cli_drain_node(struct arena *a, const struct cli_drain *d, const char *reason, const char **ret,
                   struct gm_err *err)
{
    enum standing standing = OTHERS;
    const char *why = NULL;
    struct str unused;
    int rc = standing_of(a, d, &standing, &why, err);
    if (rc < 0) {
        return rc;
    }
    if (standing != IN_USE) {
        *ret = arena_printf(a, "left as it is (%s)", why);
        return 0;
    }
    rc = take_one_of_the_hour(a, d, err);
    if (rc < 0) {
        return rc;
    }
    const char *words[] = {"update", arena_printf(a, "NodeName=%s", d->node), "State=DRAIN",
                           arena_printf(a, "Reason=" CLI_DRAIN_WORD " %s", reason), NULL};
    rc = ask_scontrol(a, words, &unused, err);
    *ret = "drained";
    return rc;
}

int cli_drain_resume(struct arena *a, const struct cli_drain *d, const char **ret,
                     struct gm_err *err)
{
    enum standing standing = OTHERS;
    const char *why = NULL;
    struct str unused;
    int rc = standing_of(a, d, &standing, &why, err);
    *ret = NULL;
    if (rc < 0 || standing != DRAINED_HERE) {
        return rc;
    }
    const char *words[] = {"update", arena_printf(a, "NodeName=%s", d->node), "State=RESUME", NULL};
    rc = ask_scontrol(a, words, &unused, err);
    *ret = "resumed";
    return rc;
}
