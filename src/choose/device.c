#include "choose/device.h"

#include <string.h>

#include "base/env.h"
#include "choose/choose.h"

bool choose_device_parse(const char *text, struct choose_device *ret)
{
    static const struct {
        const char *name;
        enum choose_device_kind kind;
        bool numbered;
    } kinds[] = {{"auto", CHOOSE_DEVICE_AUTO, false},
                 {"cuda", CHOOSE_DEVICE_CUDA, true},
                 {"rocm", CHOOSE_DEVICE_ROCM, true},
                 {"cpu", CHOOSE_DEVICE_CPU, false}};
    struct str rest = str_of(text);
    struct str name = str_cut(&rest, ':');
    uint64_t index = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (str_is(name, kinds[i].name)) {
            if (rest.s && (!kinds[i].numbered || !str_u64(rest, &index) || index > 1023)) {
                return false;
            }
            *ret = (struct choose_device){kinds[i].kind, rest.s ? (int)index : -1};
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ variables */

struct setter {
    struct arena *a;
    const struct choose_device_question *q;
    struct choose_variables variables;
    struct launch *launch;
};

static void setter_set(struct setter *s, const char *name, const char *value)
{
    const char *old = env_value(s->q->start->env, s->q->start->n_env, name);
    if (!old || (!s->q->keep_env && strcmp(old, value) != 0)) {
        VEC_PUSH(s->a, &s->launch->changes, (struct launch_change){name, value});
    }
}

static void set_cpu(struct setter *s)
{
    setter_set(s, "CUDA_VISIBLE_DEVICES", "-1");
    setter_set(s, "HIP_VISIBLE_DEVICES", "-1");
}

/* How the device is written in the variable: the entry there where that holds a list already. One
 * that is not there is none. */
static const char *entry(struct setter *s, const struct choose_visible *visible, const char *list,
                         long index)
{
    struct str rest = str_of(list), name = {"-1", 2};
    if (!list) {
        return arena_printf(s->a, "%ld", index);
    }
    for (long i = 0; i <= index && (size_t)index < visible->shown; i++) {
        name = str_trim(str_cut(&rest, ','));
    }
    return str_dup(s->a, name);
}

static void set_gpu(struct setter *s, const struct host *h, enum choose_device_kind kind,
                    long index, const char *override)
{
    struct choose_visible visible;
    const char *list = choose_variable(
        &s->variables, kind == CHOOSE_DEVICE_ROCM ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES");
    if (kind == CHOOSE_DEVICE_ROCM) {
        choose_visible_rocm(h, &s->variables, s->a, &visible);
        list = list ? list : choose_variable(&s->variables, "CUDA_VISIBLE_DEVICES");
        setter_set(s, "HIP_VISIBLE_DEVICES", entry(s, &visible, list, index));
        if (override) {
            setter_set(s, "HSA_OVERRIDE_GFX_VERSION", override);
        }
        return;
    }
    choose_visible_cuda(h, &s->variables, s->a, &visible);
    if (visible.set_order) {
        setter_set(s, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    setter_set(s, "CUDA_VISIBLE_DEVICES", entry(s, &visible, list, index));
}

/* ------------------------------------------------------------------ the choice */

static bool is_of_kind(const struct choose_device *d, const struct choose_candidate *x)
{
    bool any = d->kind == CHOOSE_DEVICE_NONE || d->kind == CHOOSE_DEVICE_AUTO;
    return x->gpu && (any || (x->device == d->kind && (d->index < 0 || x->index == d->index)));
}

/* No GPU was chosen: whether that is for what is known. */
static enum host_state no_or_unknown(const struct choose_device *d, const struct host *h,
                                     const struct choose_result *choice)
{
    bool unknown = h->pci.state == HOST_UNKNOWN ||
                   (choice->cause && strcmp(choice->cause, "device-unknown") == 0);
    for (size_t i = 0; i < choice->candidates.n && !unknown; i++) {
        const struct choose_candidate *x = &choice->candidates.items[i];
        unknown = is_of_kind(d, x) && (choose_gpu_state(x->gpu, NULL) == HOST_UNKNOWN ||
                                       (x->cause && strcmp(x->cause, "gfx-unknown") == 0));
    }
    return unknown ? HOST_UNKNOWN : HOST_NO;
}

/* choose_best() for the program with what the launch makes of it. */
static int setter_choose(const struct setter *s, struct model *m, struct choose_result *ret,
                         struct gm_err *err)
{
    const struct choose_device_question *q = s->q;
    struct diag_report report = {0};
    struct choose_options o = {
        .variables = s->variables, .device = q->device, .require_gpu = q->require_gpu};
    if (!choose_app_of(m, &o, &o.app)) {
        o.app_given = true;
        o.app = CHOOSE_APP_TORCH; // which has builds for either vendor
    }
    for (size_t i = 0; i < s->launch->left.n && !o.standing; i++) {
        const struct launch_told *left = &s->launch->left.items[i];
        if (left->of_program) {
            o.standing = left->text;
            o.standing_cause = left->cause;
        }
    }
    return choose_best(m, &report, &o, ret, err);
}

static void set_chosen(struct setter *s, const struct host *h, const struct choose_result *choice)
{
    const struct choose_device *d = &s->q->device;
    const struct choose_candidate *x = choice->chosen;
    bool numbered = d->kind != CHOOSE_DEVICE_AUTO && d->index >= 0;
    if (x && x->gpu) {
        set_gpu(s, h, x->device, numbered ? d->index : x->index, x->override);
        return;
    }
    if (x) {
        set_cpu(s);
    } else if (numbered) { // it was asked for by number: no other is shown instead
        set_gpu(s, h, d->kind, d->index, NULL);
    }
    if (!choice->cause || strcmp(choice->cause, "no-gpu") != 0 || !x) {
        VEC_PUSH(s->a, &s->launch->remarks, arena_printf(s->a, "--device: %s", choice->reason));
    }
}

static enum host_state setter_decide(struct setter *s, struct model_target *t, const char **ret_why)
{
    struct choose_result choice;
    struct gm_err err;
    bool sets = s->q->device.kind != CHOOSE_DEVICE_NONE;
    int rc = model_target_open(t, s->a, s->q->start, &err);
    s->variables.host = s->q->start->root_path ? &t->host : NULL;
    rc = rc < 0 ? rc : setter_choose(s, &t->model, &choice, &err);
    if (rc < 0) {
        *ret_why = arena_strdup(s->a, err.text);
        if (sets) {
            VEC_PUSH(s->a, &s->launch->remarks,
                     arena_printf(s->a, "--device chooses nothing: %s", *ret_why));
        }
        return HOST_UNKNOWN;
    }
    if (sets) {
        set_chosen(s, t->model.host, &choice);
    }
    if (choice.chosen && choice.chosen->gpu) {
        return HOST_YES;
    }
    *ret_why = choice.reason;
    return no_or_unknown(&s->q->device, t->model.host, &choice);
}

enum host_state choose_device_set(struct arena *a, const struct choose_device_question *q,
                                  struct launch *launch, const char **ret_why)
{
    const struct launch_program *p = q->program;
    struct model_target_options asked = *q->start;
    struct choose_device_question opened = *q;
    struct model_target t = {.root = ROOT_EMPTY};
    struct setter s = {.a = a,
                       .q = &opened,
                       .launch = launch,
                       .variables = {.env = asked.env, .n_env = asked.n_env}};
    opened.start = &asked;
    asked.only_open = true;
    asked.target = launch_program_target(p);
    *ret_why = "nothing was asked";
    if (q->device.kind == CHOOSE_DEVICE_CPU) {
        set_cpu(&s);
    }
    if (q->device.kind == CHOOSE_DEVICE_CPU ||
        (q->device.kind == CHOOSE_DEVICE_NONE && !q->require_gpu)) {
        return HOST_UNKNOWN;
    }
    enum host_state state = setter_decide(&s, &t, ret_why);
    model_target_close(&t);
    return state;
}

/* ------------------------------------------------------------------ after a run */

/* What the program will find in the variable; NULL: it is not set. */
static const char *launched(const struct choose_device_question *q, const struct launch *launch,
                            const char *name)
{
    for (size_t i = 0; i < launch->changes.n; i++) {
        if (strcmp(launch->changes.items[i].name, name) == 0) {
            return launch->changes.items[i].value;
        }
    }
    return env_value(q->start->env, q->start->n_env, name);
}

static void launch_change_add(struct arena *a, struct launch *launch, const char *name,
                              const char *value)
{
    for (size_t i = 0; i < launch->changes.n; i++) {
        if (strcmp(launch->changes.items[i].name, name) == 0) {
            launch->changes.items[i].value = value;
            return;
        }
    }
    VEC_PUSH(a, &launch->changes, (struct launch_change){name, value});
}

/* The entry of a list for a device that is counted by it: "0,GPU-1234" has the second for 1. */
static const char *entry_of(struct arena *a, const char *list, long index)
{
    struct str rest = str_of(list ? list : ""), name = {"", 0};
    if (!list) {
        return arena_printf(a, "%ld", index);
    }
    for (long i = 0; i <= index && rest.s; i++) {
        name = str_trim(str_cut(&rest, ','));
    }
    return str_dup(a, name);
}

/* The variable's new value: those of the kind that passed; "-1": none. NULL: it stays as it is, as
 * nothing of the kind failed, and it is not `needed` anew or nothing of the kind was counted. */
static const char *passed_list(struct arena *a, enum choose_device_kind kind, const char *list,
                               const struct choose_ran *ran, size_t n, bool needed)
{
    const char *text = NULL;
    bool failed = false;
    for (size_t i = 0; i < n; i++) {
        if (ran[i].device == kind && ran[i].index >= 0 && ran[i].passed) {
            text = arena_printf(a, "%s%s%s", text ? text : "", text ? "," : "",
                                entry_of(a, list, ran[i].index));
        }
        failed |= ran[i].device == kind && !ran[i].passed;
    }
    return !failed && !(needed && text) ? NULL : text ? text : "-1";
}

/* HIP takes CUDA's variable where its own is not set. */
static const char *visible_list(const struct choose_device_question *q, const struct launch *launch,
                                enum choose_device_kind kind)
{
    const char *cuda = launched(q, launch, "CUDA_VISIBLE_DEVICES");
    const char *hip = launched(q, launch, "HIP_VISIBLE_DEVICES");
    return kind == CHOOSE_DEVICE_ROCM && hip ? hip : cuda;
}

bool choose_device_show_passed(struct arena *a, const struct choose_device_question *q,
                               const struct choose_ran *ran, size_t n, struct launch *launch)
{
    static const struct {
        enum choose_device_kind kind;
        const char *name;
    } rows[] = {{CHOOSE_DEVICE_CUDA, "CUDA_VISIBLE_DEVICES"},
                {CHOOSE_DEVICE_ROCM, "HIP_VISIBLE_DEVICES"}};
    enum { ROWS = sizeof rows / sizeof *rows };
    const char *values[ROWS] = {NULL};
    for (size_t i = 0; i < ROWS; i++) {
        const char *set = env_value(q->start->env, q->start->n_env, rows[i].name);
        bool cuda_changes = i > 0 && values[0] && !launched(q, launch, rows[i].name);
        values[i] = passed_list(a, rows[i].kind, visible_list(q, launch, rows[i].kind), ran, n,
                                cuda_changes);
        if (values[i] && set && q->keep_env) {
            return false;
        }
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (values[i]) {
            launch_change_add(a, launch, rows[i].name, values[i]);
        }
    }
    return true;
}
