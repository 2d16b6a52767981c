/* Logs, from files, standard input or the command line, to what they show. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/explain.h"
#include "cli/input.h"
#include "cli/limit.h"
#include "cli/windows_tree.h"
#include "diag/finding.h"
#include "kb/failures.h"
#include "log/log.h"
#include "model/target.h"
#include "report/explain.h"

enum { READ_BYTES = 256 << 10, POLL_MS = 200 };

struct explain {
    const struct explain_asked *asked;
    struct arena *arena;
    struct kb kb;
    struct root root;
    struct log_rules *rules;
    struct model_target target; // with --here
    struct diag_report here;
    bool looked;
    struct root tree_root; // with is_windows
    struct cli_windows_tree tree;
    bool is_windows;   // what was looked at is a Windows tree
    char *block;       // READ_BYTES
    json_t *documents; // of several files
    int status;
};

/* ------------------------------------------------------------------ the answer */

static bool fails_there(const struct report_log *l)
{
    bool fails = false;
    for (size_t i = 0; l->windows && i < l->windows->n; i++) {
        fails |= l->windows->items[i].outcome == DIAG_WINDOWS_FAILS;
    }
    return fails;
}

static int explain_status(const struct report_log *l)
{
    const struct log_candidate *best = report_log_best(l);
    bool here = !best && ((l->here && l->here->verdict == DIAG_BROKEN) || fails_there(l));
    return here || (best && best->cause) ? CLI_FINDINGS : best ? CLI_OK : CLI_CANNOT;
}

/* The status of several logs: a finding says most, then what could not be told. */
static void add_status(struct explain *e, int status)
{
    static const int weight[] = {
        [CLI_OK] = 0, [CLI_CANNOT] = 1, [CLI_USAGE] = 2, [CLI_FINDINGS] = 3};
    e->status = weight[status] > weight[e->status] ? status : e->status;
}

static bool explain_is_one(const struct explain *e)
{
    return e->asked->text || e->asked->n_files == 1;
}

static int explain_print_text(const struct report_log *shown)
{
    struct out out;
    out_init(&out, stdout);
    if (shown->file) {
        out_print(&out, OUT_BOLD, "%s\n", str_printable(shown->arena, shown->file));
    }
    report_log_text(&out, shown);
    return 0;
}

/* With --follow a document is one line, as there may be more. */
static int explain_print_json(struct explain *e, const struct report_log *shown)
{
    json_t *doc = report_log_json(shown);
    if (!explain_is_one(e) && !e->asked->follow) {
        return json_array_append_new(e->documents, doc);
    }
    if (!e->asked->follow) {
        return out_json_dump(stdout, doc);
    }
    int rc = doc ? out_json_write(stdout, doc, JSON_COMPACT) : -1;
    json_decref(doc);
    return rc == 0 && fputc('\n', stdout) != EOF ? 0 : -1;
}

/* The loads that the log names, in the tree. */
static void ask_windows(struct explain *e, struct arena *a, const struct log_result *result,
                        diag_windows_answers *ret)
{
    diag_windows_subjects *subjects = arena_alloc(a, sizeof *subjects);
    diag_windows_read_log(a, result, subjects);
    diag_windows_ask(e->tree.all, e->tree.n, subjects, ret);
    diag_windows_ask_rest(a, subjects, ret);
}

/* "this machine (/opt/venv)": which of its environments was checked. */
static const char *machine_name(struct explain *e, struct arena *a)
{
    const char *name = e->asked->root ? "the machine below --root" : "this machine";
    const struct py_env *env = e->looked ? e->target.model.env : NULL;
    return env && env->prefix ? arena_printf(a, "%s (%s)", name, str_printable(a, env->prefix))
                              : name;
}

static void explain_answer(struct explain *e, const char *file, struct log *log, struct arena *a)
{
    struct log_result result;
    diag_windows_answers answers = {0};
    log_judge(log, a, &result);
    if (e->is_windows) {
        ask_windows(e, a, &result, &answers);
    }
    struct report_log shown = {
        .file = explain_is_one(e) ? NULL : file,
        .result = &result,
        .here = e->looked ? &e->here : NULL,
        .machine = machine_name(e, a),
        .windows = e->is_windows ? &answers : NULL,
        .all_repairs = e->asked->all,
        .arena = a,
    };
    int rc = e->asked->json ? explain_print_json(e, &shown) : explain_print_text(&shown);
    add_status(e,
               rc < 0 ? cli_fail(CLI_CANNOT, "cannot write the output") : explain_status(&shown));
}

/* ------------------------------------------------------------------ following */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static void end_at_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt}; // no SA_RESTART: read() is to end
    (void)sigaction(SIGINT, &action, NULL);                 // cannot fail for valid signals
    (void)sigaction(SIGTERM, &action, NULL);
}

static void wait_a_little(void)
{
    struct timespec pause = {0, POLL_MS * 1000000L};
    (void)nanosleep(&pause, NULL); // cut short by a signal: no harm
}

struct following {
    size_t facts; // when it was last judged
    const char *cause, *culprit;
};

/* Prints a reading that is certain and was not printed yet. */
static void print_when_certain(struct explain *e, struct following *f, struct log *log,
                               struct arena *a)
{
    struct log_result result;
    if (log_facts_count(log) == f->facts) {
        return;
    }
    f->facts = log_facts_count(log);
    log_judge(log, a, &result);
    const struct log_candidate *best = result.n ? &result.candidates[0] : NULL;
    if (!best || !best->cause || best->confidence != LOG_CERTAIN ||
        (f->cause && strcmp(best->cause, f->cause) == 0 &&
         strcmp(best->culprit, f->culprit) == 0)) {
        return;
    }
    f->cause = best->cause;
    f->culprit = best->culprit;
    explain_answer(e, NULL, log, a);
    (void)fflush(stdout); // a failure shows at the end
}

/* ------------------------------------------------------------------ reading */

/* A log while it is read; with --follow its file may be cut, or another one take its name. */
struct reading {
    const char *file; // NULL: standard input
    int fd;
    struct log *log;
    struct following following;
    bool ended;    // the last byte was a line end
    bool replaced; // the name leads to another file; this one was not read to its end since
};

static bool is_growing(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* What is fed next is the beginning of a file. */
static void begin_anew(struct reading *r)
{
    if (!r->ended) {
        log_feed(r->log, "\n", 1);
    }
    r->ended = true;
    r->replaced = false;
}

/* A file that became shorter is read from its beginning. */
static void rewind_if_cut(struct reading *r)
{
    struct stat st;
    off_t at = lseek(r->fd, 0, SEEK_CUR);
    if (at > 0 && fstat(r->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < at &&
        lseek(r->fd, 0, SEEK_SET) == 0) {
        begin_anew(r);
    }
}

/* Whether another file has the name now. One that is gone may come again. */
static bool is_replaced(const struct reading *r)
{
    struct stat mine, named;
    return r->file && fstat(r->fd, &mine) == 0 && stat(r->file, &named) == 0 &&
           S_ISREG(named.st_mode) && (mine.st_dev != named.st_dev || mine.st_ino != named.st_ino);
}

/* Goes on with the file of that name; one that cannot be opened is tried again later. */
static void reopen(struct reading *r)
{
    int fd = open(r->file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && is_growing(fd)) {
        (void)close(r->fd); // was only read
        r->fd = fd;
        begin_anew(r);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

/* At the end of what is there. The file that lost its name is read once more before it is left, as
 * its writer may have used it until then. */
static void wait_for_more(struct reading *r)
{
    if (r->replaced) {
        reopen(r);
    } else if (is_replaced(r)) {
        r->replaced = true;
        return;
    }
    wait_a_little();
    rewind_if_cut(r);
}

static void feed(struct explain *e, struct reading *r, size_t n, struct arena *a)
{
    log_feed(r->log, e->block, n);
    r->ended = e->block[n - 1] == '\n';
    if (e->asked->follow) {
        print_when_certain(e, &r->following, r->log, a);
    }
}

/* Feeds all that can be read; 0 or a negative errno. */
static int feed_file(struct explain *e, struct reading *r, struct arena *a)
{
    bool follow = e->asked->follow;
    for (;;) {
        ssize_t n = read(r->fd, e->block, READ_BYTES);
        if (n < 0 && errno == EINTR && !interrupted) {
            continue;
        }
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        if (interrupted || (n == 0 && !(follow && is_growing(r->fd)))) {
            return 0;
        }
        if (n == 0) {
            wait_for_more(r);
        } else {
            feed(e, r, (size_t)n, a);
        }
    }
}

static void explain_file(struct explain *e, const char *file)
{
    bool standard = strcmp(file, "-") == 0;
    const char *why = NULL;
    int fd = standard ? STDIN_FILENO : cli_open_input(file, &why);
    if (fd < 0) {
        add_status(e, cli_fail(CLI_CANNOT, "explain: %s: %s", file, why));
        return;
    }
    struct arena a;
    cli_arena_init(&a);
    struct reading r = {
        .file = standard ? NULL : file, .fd = fd, .log = log_open(e->rules, &a), .ended = true};
    int rc = feed_file(e, &r, &a);
    if (!standard) {
        (void)close(r.fd); // was only read
    }
    if (rc < 0) {
        add_status(e, cli_fail(CLI_CANNOT, "explain: %s: %s", file, strerror(-rc)));
    } else {
        log_end(r.log);
        explain_answer(e, file, r.log, &a);
    }
    arena_release(&a);
}

static void explain_text(struct explain *e, const char *text)
{
    struct log *log = log_open(e->rules, e->arena);
    log_feed(log, text, strlen(text));
    log_end(log);
    explain_answer(e, NULL, log, e->arena);
}

/* ------------------------------------------------------------------ this machine */

/* Whether a Windows tree was there to be looked at; *ret_rc then says what came of it. */
static bool look_at_windows(struct explain *e, const struct cli_env *env, int *ret_rc)
{
    struct gm_err err;
    if (!e->asked->root && !cli_is_windows()) {
        return false;
    }
    if (root_open(&e->tree_root, e->asked->root ? e->asked->root : "/", &err) < 0) {
        *ret_rc = cli_fail(CLI_CANNOT, "explain: %s", str_printable(e->arena, err.text));
        return true;
    }
    int rc = cli_windows_open(&e->tree, e->arena, &e->tree_root, NULL, env, &err);
    e->is_windows = rc > 0;
    if (rc > 0) {
        cli_windows_judge(&e->tree);
    }
    *ret_rc =
        rc < 0 ? cli_fail(CLI_CANNOT, "explain: %s", str_printable(e->arena, err.text)) : CLI_OK;
    return rc != 0;
}

static void close_windows(struct explain *e)
{
    cli_windows_close(&e->tree);
    root_close(&e->tree_root);
}

static int look_here(struct explain *e)
{
    struct gm_err err;
    struct cli_env env = {0};
    int rc = CLI_OK;
    if (!e->asked->root) {
        cli_env_init(&env, e->arena);
    }
    if (look_at_windows(e, e->asked->root ? NULL : &env, &rc)) {
        return rc;
    }
    if (e->asked->root) {
        (void)cli_env_set(&env, e->arena, CLI_PATH_ELSEWHERE); // has its '='
    }
    struct model_target_options options = {
        .root_path = e->asked->root,
        .kb_path = e->asked->kb,
        .env = env.vars.items,
        .n_env = env.vars.n,
        .cwd = cli_cwd(e->arena),
        .uid = getuid(),
    };
    if (model_target_open(&e->target, e->arena, &options, &err) < 0) {
        return cli_fail(CLI_CANNOT, "explain: %s: %s", e->asked->root ? "--root" : "--here",
                        str_printable(e->arena, err.text));
    }
    diag_run(&e->target.model, &e->here);
    e->looked = true;
    return CLI_OK;
}

/* ------------------------------------------------------------------ all of it */

static void explain_all(struct explain *e)
{
    if (e->asked->follow) {
        end_at_interrupt();
    }
    if (e->asked->text) {
        explain_text(e, e->asked->text);
        return;
    }
    if (!explain_is_one(e)) {
        e->documents = json_array();
    }
    for (size_t i = 0; i < e->asked->n_files; i++) {
        explain_file(e, e->asked->files[i]);
    }
    if (e->documents && e->asked->json) {
        json_t *doc = json_pack("{s:i, s:O}", "schema", 1, "logs", e->documents);
        if (out_json_dump(stdout, doc) < 0) {
            add_status(e, cli_fail(CLI_CANNOT, "cannot write the output"));
        }
    }
    json_decref(e->documents);
}

static int open_rules(struct explain *e)
{
    struct gm_err err;
    struct node_files files = {.n = 0};
    const char *folder = e->asked->kb;
    folder = folder && folder[0] != '/' ? path_join(e->arena, cli_cwd(e->arena), folder) : folder;
    if (root_open(&e->root, "/", &err) < 0 ||
        kb_open(&e->kb, e->arena, &e->root, folder, &err) < 0 || kb_load_folder(&e->kb, &err) < 0 ||
        (folder && kb_failures_read(&e->root, e->arena, folder, &files, &err) < 0) ||
        log_rules_load(&e->kb, e->arena, &files, &e->rules, &err) < 0) {
        return cli_fail(CLI_CANNOT, "explain: %s", str_printable(e->arena, err.text));
    }
    return CLI_OK;
}

int explain_logs(struct arena *a, const struct explain_asked *asked)
{
    struct explain e = {
        .asked = asked, .arena = a, .root = ROOT_EMPTY, .tree_root = ROOT_EMPTY, .status = CLI_OK};
    e.block = arena_alloc(a, READ_BYTES);
    int rc = open_rules(&e);
    rc = rc == CLI_OK && (asked->here || asked->root) ? look_here(&e) : rc;
    if (rc == CLI_OK) {
        explain_all(&e);
        rc = e.status;
    }
    log_rules_close(e.rules);
    if (e.looked) {
        model_target_close(&e.target);
    }
    close_windows(&e);
    root_close(&e.root);
    return rc;
}
