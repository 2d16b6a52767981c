#include "cli/node_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/out.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/jobs.h"
#include "probe/choice.h"
#include "probe/join.h"

enum { ASK_AGAIN_MS = 250 }; // for others at the GPU, while it runs

struct child_of {
    struct arena *a;
    const struct cli_node *n;
    int stop_fd;            // the prober's end of the pipe that stops it; -1: it only looks
    int stop;               // ours
    const char *stopped_by; // why it was stopped, or NULL
    pid_t pid;
    int64_t end_ms, asked_ms; // on clock_ms()
};

/* ------------------------------------------------------------------ in the child */

/* A stage that crashed or hung may have had reasons that are not the GPU's, and so has memory that
 * is short; what the driver refuses with a code is its answer. */
static const struct probe_run *refusal(const struct probe_report *r)
{
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        bool is_full = run->code_name && (strstr(run->code_name, "OUT_OF_MEMORY") ||
                                          strstr(run->code_name, "OutOfMemory"));
        if (run->outcome == PROBE_FAIL && !run->busy && !run->absent && !is_full) {
            return run;
        }
    }
    return NULL;
}

static void conclude(struct arena *a, const struct probe_report *r, struct node_probe *ret)
{
    const struct probe_run *run = refusal(r);
    ret->says = probe_sentence(a, r);
    if (r->verdict == PROBE_WORKS) {
        ret->result = NODE_PROBE_WORKS;
    } else if (r->stopped || r->verdict == PROBE_BUSY) {
        ret->result = NODE_PROBE_NOT_RUN;
    } else if (r->verdict == PROBE_BROKEN && run) {
        ret->result = NODE_PROBE_BROKEN;
        ret->says = arena_printf(a, "%s: %s", probe_title(a, run), run->says);
    } else {
        ret->result = NODE_PROBE_UNKNOWN;
    }
}

static void run_stages(void *arg, struct model *m, struct node_probe *ret)
{
    const struct child_of *c = arg;
    struct probe_report r;
    struct gm_err err;
    const struct probe_options o = {.model = m, .device = -1, .quick = true, .stop_fd = c->stop_fd};
    if (!probe_is_worth_it(m)) {
        *ret = (struct node_probe){.result = NODE_PROBE_NOT_RUN,
                                   .says = "no GPU of NVIDIA or AMD is here"};
    } else if (probe_run(&o, &r, &err) < 0) {
        *ret =
            (struct node_probe){.result = NODE_PROBE_UNKNOWN, .says = arena_strdup(c->a, err.text)};
    } else {
        conclude(c->a, &r, ret);
        ret->changed = probe_believe(&r, m);
    }
}

static _Noreturn void look_in_child(struct child_of *c, int output)
{
    struct gm_err err;
    json_t *doc = NULL;
    struct node_asked asked = c->n->asked;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // cannot fail for a valid signal
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (dup2(output, STDOUT_FILENO) < 0 || (null >= 0 && dup2(null, STDIN_FILENO) < 0)) {
        _exit(CLI_CANNOT);
    }
    if (c->stop_fd < 0) {
        cli_only_look((struct sandbox){0});
    } else {
        asked.probe = run_stages;
        asked.probe_arg = c;
    }
    int rc = node_look(c->a, &asked, &doc, &err);
    if (rc < 0) {
        doc = node_cannot(c->a, err.text);
    }
    rc = out_json_write(stdout, doc, JSON_COMPACT);
    _exit(rc == 0 && fflush(stdout) == 0 ? CLI_OK : CLI_CANNOT);
}

/* ------------------------------------------------------------------ beside the child */

/* Whether another process has opened a GPU since; then the prober ends its stage and answers. */
static void stop_for_others(struct child_of *c)
{
    struct arena scratch;
    int64_t now = clock_ms();
    if (c->stop < 0 || c->stopped_by || now - c->asked_ms < ASK_AGAIN_MS) {
        return;
    }
    arena_init(&scratch, c->a->limit_bytes, c->a->oom, c->a->oom_arg);
    const char *why = cli_jobs_at_gpu(&scratch, c->pid);
    c->stopped_by = why ? arena_strdup(c->a, why) : NULL;
    arena_release(&scratch);
    c->asked_ms = clock_ms();
    if (why && write(c->stop, "", 1) < 0) {
        (void)kill(c->pid, SIGKILL); // and with it its stage
    }
}

/* Reads to the end of the pipe; NULL, or why that did not happen. */
static const char *read_document(struct child_of *c, int fd, char *data, size_t *n)
{
    for (*n = 0;;) {
        int64_t left = c->end_ms - clock_ms();
        struct pollfd wait = {fd, POLLIN, 0};
        int wait_ms = (int)(c->stop >= 0 && left > ASK_AGAIN_MS ? ASK_AGAIN_MS : left);
        if (left <= 0) {
            return "looking took longer than --deadline";
        }
        int ready = poll(&wait, 1, wait_ms);
        stop_for_others(c);
        if (ready == 0 || (ready < 0 && errno == EINTR)) {
            continue;
        }
        ssize_t got = read(fd, data + *n, NODE_BYTES_MAX - *n);
        if (got == 0) {
            return NULL;
        }
        if (got < 0 && errno != EINTR) {
            return "the process that looks was lost";
        }
        *n += got > 0 ? (size_t)got : 0;
        if (*n == NODE_BYTES_MAX) {
            return "the answer is too large";
        }
    }
}

/* Waits for the child, which is killed first if its answer did not come. */
static const char *end_child(struct child_of *c, const char *why)
{
    int status = 0;
    pid_t got;
    if (why) {
        (void)kill(c->pid, SIGKILL); // is still ours: it was not waited for
    }
    while ((got = waitpid(c->pid, &status, 0)) < 0 && errno == EINTR) {
    }
    if (why || got < 0) {
        return why ? why : "the process that looks was lost";
    }
    if (WIFSIGNALED(status)) {
        return arena_printf(c->a, "the process that looks crashed with signal %d",
                            WTERMSIG(status));
    }
    return WEXITSTATUS(status) == CLI_OK ? NULL : "the process that looks failed";
}

/* A whole document, or NULL and why there is none. */
static json_t *ask_child(struct child_of *c, const char **ret_why)
{
    int ends[2];
    size_t n = 0;
    char *data = arena_alloc(c->a, NODE_BYTES_MAX);
    *ret_why = "no process could be started";
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return NULL;
    }
    c->end_ms = clock_ms() + (int64_t)c->n->deadline_s * 1000;
    c->pid = fork();
    if (c->pid == 0) {
        look_in_child(c, ends[1]);
    }
    (void)close(ends[1]);
    if (c->pid > 0) {
        *ret_why = end_child(c, read_document(c, ends[0], data, &n));
    }
    (void)close(ends[0]);
    json_t *doc = *ret_why ? NULL : json_loadb(data, n, JSON_REJECT_DUPLICATES, NULL);
    if (doc && node_is_whole(doc)) {
        return doc;
    }
    json_decref(doc);
    *ret_why = *ret_why ? *ret_why : "the answer of the process that looks is damaged";
    return NULL;
}

/* ------------------------------------------------------------------ both children */

/* What the prober found, or `looked` with why there is nothing of it. Takes `looked` over. */
static json_t *probed_document(struct arena *a, const struct cli_node *n, json_t *looked)
{
    struct child_of c = {.a = a, .n = n, .stop_fd = -1, .stop = -1};
    const char *why = cli_jobs_of_others(a, n->name);
    int ends[2];
    if (why) {
        node_put_probe(a, looked, NODE_PROBE_NOT_RUN, why);
        return looked;
    }
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
        node_put_probe(a, looked, NODE_PROBE_UNKNOWN, "no process could be started");
        return looked;
    }
    c.stop_fd = ends[0];
    c.stop = ends[1];
    json_t *doc = ask_child(&c, &why);
    (void)close(ends[0]);
    (void)close(ends[1]);
    if (doc && !c.stopped_by) {
        json_decref(looked);
        return doc;
    }
    json_decref(doc);
    if (c.stopped_by) {
        node_put_probe(a, looked, NODE_PROBE_NOT_RUN, arena_printf(a, "stopped: %s", c.stopped_by));
    } else {
        node_put_probe(a, looked, NODE_PROBE_UNKNOWN, arena_printf(a, "probe: %s", why));
    }
    return looked;
}

json_t *cli_node_document(struct arena *a, const struct cli_node *n)
{
    struct child_of c = {.a = a, .n = n, .stop_fd = -1, .stop = -1};
    const char *why;
    json_t *doc = ask_child(&c, &why);
    doc = doc ? doc : node_cannot(a, why);
    return n->probe ? probed_document(a, n, doc) : doc;
}
