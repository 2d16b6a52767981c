/*
 * gm_fix, gm_enable, gm_undo, gm_disable: what changes files.
 *
 * A child by fork() does the work, with a context of its own, and leaves its answer in memory that
 * both have. So locks, descriptors and children of a repair go with it, however it ends (lack of
 * memory leaves the middle of a function), what the program does with SIGCHLD does not disturb the
 * trial, and a repair that was cut off is taken back by the next call, as after any other kill.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/internal.h"
#include "apply/repair.h"

enum { TEXT_BYTES_MAX = 4 << 20 };

/* What the child found out. The texts stand one after the other, each ended by NUL: title, why,
 * n_left of them, n_start of them; a text that is NULL is empty. */
struct api_answer {
    volatile bool complete;
    int status;
    struct gm_err err;
    enum gm_result result;
    bool hook_removed;
    unsigned journal, n_recovered;
    size_t n_requests, n_left, n_start;
    size_t used_bytes;
    char bytes[TEXT_BYTES_MAX];
};

enum act { FIX, ENABLE, UNDO, DISABLE };

struct act_question {
    enum act act;
    const struct gm_target *target;
    const struct gm_fix_options *fix_given; // or NULL
    const struct gm_undo_options *undo_given;
    struct gm_fix_options fix;
    struct gm_undo_options undo;
    struct api_answer *answer; // of the child
};

/* ------------------------------------------------------------------ in the child */

static int answer_put_text(struct api_answer *answer, const char *text, struct gm_err *err)
{
    size_t n = strlen(text ? text : "") + 1;
    if (n > TEXT_BYTES_MAX - answer->used_bytes) {
        return gm_err_set(err, GM_ERR_LIMIT, "there is too much to say; journal %u has the change",
                          answer->journal);
    }
    memcpy(answer->bytes + answer->used_bytes, text ? text : "", n);
    answer->used_bytes += n;
    return 0;
}

static int put_repaired(struct gm_context *gm, const struct apply_repaired *r,
                        struct api_answer *answer)
{
    static const enum gm_result results[] = {[APPLY_VERIFIED] = GM_VERIFIED,
                                             [APPLY_FAILED] = GM_TAKEN_BACK,
                                             [APPLY_CANNOT] = GM_NOT_VERIFIED};
    const struct diag_report *now = r->id ? &r->report : r->before;
    answer->result = r->way ? results[r->result] : GM_NOTHING_DONE;
    answer->journal = r->id;
    answer->n_requests = r->n_requests;
    int rc = answer_put_text(answer, r->way ? r->way->title : NULL, &gm->err);
    rc = rc < 0 ? rc : answer_put_text(answer, r->why, &gm->err);
    for (size_t i = 0; rc == 0 && i < now->findings.n; i++) {
        if (now->findings.items[i]->severity == DIAG_ERROR) {
            rc = answer_put_text(answer, now->findings.items[i]->summary, &gm->err);
            answer->n_left++;
        }
    }
    for (size_t i = 0; rc == 0 && r->id && r->by_start && i < r->way->steps.n; i++) {
        const struct plan_step *s = &r->way->steps.items[i];
        if (apply_step_is_left(r->way, s)) {
            rc = answer_put_text(
                answer, arena_printf(&gm->work, "%s=%s", s->name, s->value ? s->value : ""),
                &gm->err);
            answer->n_start++;
        }
    }
    return rc;
}

static int repair_answer(struct gm_context *gm, const struct act_question *q,
                         const struct apply_order *o)
{
    struct apply_repaired done = {.target = {.root = ROOT_EMPTY}};
    struct diag_report report;
    struct plan plan;
    int rc = apply_open(o, q->act == ENABLE, &q->answer->n_recovered, &gm->err);
    if (rc == 0 && q->act == ENABLE) {
        rc = apply_enable(o, &done, &gm->err);
    } else if (rc == 0) {
        struct model *m = &gm->target.model;
        diag_run(m, &report);
        plan_make(m, &report, &(struct plan_options){.manner = PLAN_AT_START}, &plan);
        rc = plan_select(&plan, q->fix.select, &gm->err);
        rc = rc < 0 ? rc : apply_fix(o, &plan, &report, &done, &gm->err);
    }
    rc = rc < 0 ? rc : put_repaired(gm, &done, q->answer);
    apply_repaired_close(&done);
    return rc;
}

static int take_back_answer(struct gm_context *gm, const struct act_question *q,
                            const struct apply_order *o)
{
    struct api_answer *answer = q->answer;
    int rc = model_target_open(&gm->target, &gm->work, o->asked, &gm->err);
    if (rc < 0) {
        return rc;
    }
    return q->act == UNDO ? apply_fix_undo(o, q->undo.journal, &answer->journal, &gm->err)
                          : apply_disable(o, &answer->journal, &answer->hook_removed, &gm->err);
}

static const char *words_of(struct gm_context *gm, const struct model_target_options *asked)
{
    struct arena *a = &gm->work;
    const char *words =
        asked->imports ? arena_printf(a, "--import %s", str_shell_word(a, asked->imports)) : "";
    return asked->kb_path ? arena_printf(a, "%s%s--kb %s", words, *words ? " " : "",
                                         str_shell_word(a, asked->kb_path))
                          : words;
}

static int act(struct gm_context *gm, const void *question, void *answer)
{
    const struct act_question *q = question;
    struct model_target_options asked;
    (void)answer; // it is in q->answer
    int rc = api_asked(gm, q->target, &asked);
    if (rc < 0) {
        return rc;
    }
    bool undoes = q->act == UNDO || q->act == DISABLE;
    asked.only_open = undoes;
    gm->target.root = ROOT_EMPTY;
    gm->target_open = true;
    const struct apply_order o = {
        .arena = &gm->work,
        .target = &gm->target,
        .asked = &asked,
        .options = words_of(gm, &asked),
        .packages = q->act == FIX && q->fix.packages,
        .is_system = (q->act == FIX && q->fix.system) || (q->act == UNDO && q->undo.system),
        .quiet = true,
    };
    return undoes ? take_back_answer(gm, q, &o) : repair_answer(gm, q, &o);
}

/* A child of a program that may have threads, handlers and masks of its own: none of its code runs
 * here. */
__attribute__((noreturn)) static void run_child(const struct act_question *q, pid_t parent)
{
    struct api_answer *answer = q->answer;
    sigset_t none;
    char unused;
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL); // those that have no handler refuse
    }
    (void)sigemptyset(&none); // these cannot fail
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // cannot fail for a valid signal
    gm_context *gm = getppid() == parent ? gm_new() : NULL;
    answer->status = gm ? api_call(gm, act, q, &unused, sizeof unused) : GM_MEMORY;
    answer->err = gm ? gm->err : (struct gm_err){.code = GM_ERR_MEMORY, .text = "out of memory"};
    answer->complete = true;
    _exit(0);
}

/* ------------------------------------------------------------------ in the program */

void api_release_answer(struct gm_context *gm)
{
    if (gm->answer) {
        (void)munmap(gm->answer, sizeof *gm->answer); // a mapping of ours
        gm->answer = NULL;
    }
}

/* Runs the child; its answer is in gm->answer afterwards. */
static int delegate(struct gm_context *gm, struct act_question *q)
{
    void *shared = mmap(NULL, sizeof *gm->answer, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared == MAP_FAILED) {
        return gm_err_set(&gm->err, GM_ERR_MEMORY, "out of memory");
    }
    int status = 0;
    gm->answer = q->answer = shared;
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        return gm_err_set(&gm->err, GM_ERR_LOOK, "no child can be started: %s", strerror(errno));
    }
    if (pid == 0) {
        run_child(q, parent);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!gm->answer->complete) {
        return gm_err_set(&gm->err, GM_ERR_LOOK,
                          "the child that repairs was ended before its time; what it had begun is "
                          "taken back by the next call");
    }
    gm->err = gm->answer->err;
    return gm->answer->status;
}

static const char *next_text(struct gm_context *gm, size_t *at)
{
    const char *text = gm->answer->bytes + *at;
    *at += strlen(text) + 1;
    return api_text(gm, *text ? text : NULL);
}

static const char *const *next_texts(struct gm_context *gm, size_t n, size_t *at)
{
    const char **list = arena_array(&gm->results, n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        list[i] = next_text(gm, at);
    }
    return list;
}

static int get_repaired(struct gm_context *gm, const void *question, void *place)
{
    struct act_question q = *(const struct act_question *)question;
    struct gm_repaired *ret = place;
    int rc = api_take(gm, &q.fix, sizeof q.fix, q.fix_given);
    rc = rc < 0 ? rc : delegate(gm, &q);
    if (rc < 0) {
        return rc;
    }
    size_t at = 0;
    ret->result = gm->answer->result;
    ret->journal = gm->answer->journal;
    ret->n_recovered = gm->answer->n_recovered;
    ret->n_requests = gm->answer->n_requests;
    ret->title = next_text(gm, &at);
    ret->why = next_text(gm, &at);
    ret->n_left = gm->answer->n_left;
    ret->left = next_texts(gm, ret->n_left, &at);
    ret->n_start = gm->answer->n_start;
    ret->start = next_texts(gm, ret->n_start, &at);
    return GM_OK;
}

static int get_undone(struct gm_context *gm, const void *question, void *place)
{
    struct act_question q = *(const struct act_question *)question;
    struct gm_undone *ret = place;
    int rc = api_take(gm, &q.undo, sizeof q.undo, q.undo_given);
    rc = rc < 0 ? rc : delegate(gm, &q);
    if (rc == GM_OK) {
        ret->journal = gm->answer->journal;
        ret->hook_removed = gm->answer->hook_removed;
    }
    return rc;
}

int gm_fix(gm_context *gm, const struct gm_target *target, const struct gm_fix_options *options,
           struct gm_repaired *ret)
{
    const struct act_question q = {.act = FIX, .target = target, .fix_given = options};
    return api_call(gm, get_repaired, &q, ret, sizeof *ret);
}

int gm_enable(gm_context *gm, const struct gm_target *target, struct gm_repaired *ret)
{
    const struct act_question q = {.act = ENABLE, .target = target};
    return api_call(gm, get_repaired, &q, ret, sizeof *ret);
}

int gm_undo(gm_context *gm, const struct gm_target *target, const struct gm_undo_options *options,
            struct gm_undone *ret)
{
    const struct act_question q = {.act = UNDO, .target = target, .undo_given = options};
    return api_call(gm, get_undone, &q, ret, sizeof *ret);
}

int gm_disable(gm_context *gm, const struct gm_target *target, struct gm_undone *ret)
{
    const struct act_question q = {.act = DISABLE, .target = target};
    return api_call(gm, get_undone, &q, ret, sizeof *ret);
}
