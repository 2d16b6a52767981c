#include "cli/fleet_replay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pages.h"
#include "cdi/files.h"
#include "cli/cli.h"
#include "cli/limit.h"
#include "fleet/store.h"
#include "node/node.h"
#include "snapshot/snapshot.h"

enum { AT_ONCE_MAX = 64, DEADLINE_MS = 60000, SNAPSHOT_BYTES_MAX = 256 << 20 };

/* ------------------------------------------------------------------ the child */

FILE *cli_fleet_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !file) {
        (void)close(fd); // was only to be read
    }
    return file;
}

static int read_snapshot(struct arena *a, const char *path, struct str *ret)
{
    struct stat st;
    FILE *file = cli_fleet_open(path);
    if (!file || fstat(fileno(file), &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_size > SNAPSHOT_BYTES_MAX) {
        return -1; // the process ends
    }
    char *text = arena_alloc(a, (size_t)st.st_size + 1);
    *ret = (struct str){text, fread(text, 1, (size_t)st.st_size, file)};
    return 0;
}

/* "n7" of "sweep/n7.json" and of "store/nodes/n7@2026-05-01T12:00:00Z.manifest" */
static const char *name_of_node(struct arena *a, const char *path)
{
    const char *base = path_base(path), *at = strrchr(base, '@');
    if (at && ends_with(base, FLEET_MANIFEST)) {
        return arena_strndup(a, base, (size_t)(at - base));
    }
    return ends_with(base, ".json") ? arena_strndup(a, base, strlen(base) - strlen(".json")) : base;
}

static _Noreturn void replay_in_child(const char *path, int output)
{
    struct arena a;
    struct str text, content = {0};
    struct gm_err err = {0};
    struct snapshot s;
    json_t *doc = NULL;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // cannot fail for a valid signal
    if (dup2(output, STDOUT_FILENO) < 0) {
        _exit(CLI_CANNOT);
    }
    cli_arena_init(&a);
    sandbox_enter(&(struct sandbox){0});
    const char *store = path_dir(&a, path_dir(&a, path));
    int rc = ends_with(path, FLEET_MANIFEST)
                 ? fleet_store_read(&a, store, path, &text, &content, &err)
                 : read_snapshot(&a, path, &text);
    if (rc < 0 || snapshot_decode_with(&s, &a, text, content, &err) < 0 ||
        node_look_at_snapshot(&a, &s, &doc, &err) < 0) {
        _exit(CLI_CANNOT);
    }
    node_sign(&a, doc, name_of_node(&a, path), s.made, 0);
    rc = out_json_write(stdout, doc, JSON_COMPACT);
    _exit(rc == 0 && fflush(stdout) == 0 ? CLI_OK : CLI_CANNOT);
}

/* ------------------------------------------------------------------ all of them */

struct replay {
    const char *file; // NULL: free
    pid_t child;
    int fd;
    char *data;
    size_t n;
    int64_t end_ms;
};

static void start_replay(struct fleet *f, struct replay *r, const char *file)
{
    int ends[2];
    if (pipe(ends) < 0) {
        fleet_add_damage(f, file, "no process could be started");
        return;
    }
    r->child = fork();
    if (r->child == 0) {
        (void)close(ends[0]);
        replay_in_child(file, ends[1]);
    }
    (void)close(ends[1]);
    if (r->child < 0) {
        (void)close(ends[0]);
        fleet_add_damage(f, file, "no process could be started");
        return;
    }
    r->file = file;
    r->fd = ends[0];
    r->n = 0;
    r->end_ms = clock_ms() + DEADLINE_MS;
}

/* What it printed counts only if it ended well: half a document is none. */
static void end_replay(struct fleet *f, struct replay *r, bool is_late)
{
    int status = 0;
    pid_t got;
    if (is_late) {
        (void)kill(r->child, SIGKILL); // is still ours: it was not waited for
    }
    while ((got = waitpid(r->child, &status, 0)) < 0 && errno == EINTR) {
    }
    (void)close(r->fd);
    bool good = got > 0 && !is_late && WIFEXITED(status) && WEXITSTATUS(status) == CLI_OK;
    if (good) {
        fleet_add_line(f, r->file, 0, (struct str){r->data, r->n});
    } else {
        fleet_add_damage(f, r->file,
                         is_late ? "judging it took longer than a minute" : "it is no snapshot");
    }
    r->file = NULL;
}

/* Reads what has come; true: it is at its end, or has too much. */
static bool read_replay(struct replay *r)
{
    ssize_t got = read(r->fd, r->data + r->n, NODE_BYTES_MAX - r->n);
    r->n += got > 0 ? (size_t)got : 0;
    return (got <= 0 && errno != EINTR) || got == 0 || r->n == NODE_BYTES_MAX;
}

static void wait_for_some(struct fleet *f, struct replay *all, size_t n)
{
    struct pollfd waits[AT_ONCE_MAX];
    for (size_t i = 0; i < n; i++) {
        waits[i] = (struct pollfd){all[i].file ? all[i].fd : -1, POLLIN, 0};
    }
    (void)poll(waits, n, 1000); // however it ends, each is looked at
    for (size_t i = 0; i < n; i++) {
        struct replay *r = &all[i];
        bool is_late = r->file && clock_ms() > r->end_ms;
        if (r->file && ((waits[i].revents && read_replay(r)) || is_late)) {
            end_replay(f, r, is_late || r->n == NODE_BYTES_MAX);
        }
    }
}

static size_t processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > AT_ONCE_MAX ? AT_ONCE_MAX : (size_t)n;
}

void cli_fleet_replay(struct fleet *f, const char *const *files, size_t n)
{
    size_t at_once = processors();
    struct replay all[AT_ONCE_MAX] = {0};
    size_t next = 0, running = 1;
    for (size_t i = 0; i < at_once; i++) {
        all[i].data = arena_alloc(f->arena, NODE_BYTES_MAX);
    }
    while (next < n || running) {
        running = 0;
        for (size_t i = 0; i < at_once; i++) {
            if (!all[i].file && next < n) {
                start_replay(f, &all[i], files[next++]);
            }
            running += all[i].file != NULL;
        }
        if (running) {
            wait_for_some(f, all, at_once);
        }
    }
}

/* ------------------------------------------------------------------ adding */

static _Noreturn void add_in_child(const char *store, const char *path)
{
    struct arena a;
    struct str text;
    struct gm_err err = {.text = "it cannot be read"};
    struct snapshot s;
    bool is_new = false;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // cannot fail for a valid signal
    cli_arena_init(&a);
    sandbox_enter(&(struct sandbox){.tree = store});
    int rc = read_snapshot(&a, path, &text);
    rc = rc < 0 ? rc : snapshot_decode(&s, &a, text.s, text.n, &err);
    const char *node = name_of_node(&a, path);
    if (rc == 0 && !fleet_is_time(s.made)) {
        rc = gm_err_set(&err, GM_ERR_FORMAT, "it does not say when it was made");
    }
    if (rc == 0 && (!*node || *node == '.')) { // a store passes over names with a dot
        rc = gm_err_set(&err, GM_ERR_FORMAT, "its name is not one of a node: NODE.json");
    }
    rc = rc < 0 ? rc : fleet_store_add(&a, store, node, s.made, text, &is_new, &err);
    if (rc < 0) {
        (void)cli_fail(CLI_CANNOT, "fleet: %s: %s", str_printable(&a, path),
                       str_printable(&a, err.text));
    }
    _exit(rc < 0 ? CLI_CANNOT : CLI_OK);
}

struct adding {
    pid_t child; // -1: it could not be started
    int fd;      // what it says
};

/* What a child says is kept in its pipe, so that the files are told of in their order. */
static struct adding start_add(const char *store, const char *path)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return (struct adding){-1, -1};
    }
    pid_t child = fork();
    if (child == 0) {
        if (dup2(ends[1], STDERR_FILENO) < 0) {
            _exit(CLI_CANNOT);
        }
        add_in_child(store, path);
    }
    (void)close(ends[1]);
    return (struct adding){child, ends[0]};
}

static bool end_add(struct arena *a, struct adding *one, const char *path)
{
    char text[4096];
    int status = 0;
    pid_t got = -1;
    for (ssize_t n = 1; one->fd >= 0 && n != 0;) { // until it has ended
        n = read(one->fd, text, sizeof text);
        if (n > 0) {
            (void)fwrite(text, 1, (size_t)n, stderr); // a remark
        } else if (n < 0 && errno != EINTR) {
            break;
        }
    }
    if (one->fd >= 0) {
        (void)close(one->fd);
    }
    while ((got = one->child < 0 ? -1 : waitpid(one->child, &status, 0)) < 0 && errno == EINTR) {
    }
    bool ended = got > 0 && WIFEXITED(status);
    if (!ended) {
        (void)cli_fail(CLI_CANNOT, "fleet: %s: the process that adds it was lost",
                       str_printable(a, path));
    }
    return ended && WEXITSTATUS(status) == CLI_OK;
}

size_t cli_fleet_add(struct arena *a, const char *store, const char *const *files, size_t n)
{
    struct adding all[AT_ONCE_MAX];
    size_t failed = 0, started = 0, at_once = processors();
    for (size_t i = 0; i < n; i++) {
        for (; started < n && started < i + at_once; started++) {
            all[started % at_once] = start_add(store, files[started]);
        }
        failed += !end_add(a, &all[i % at_once], files[i]);
    }
    return failed;
}
