#include "apply/trial.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/json.h"
#include "base/out.h"

extern const char apply_trial_py[]; // src/apply/trial.py, embedded by the build

enum { OUTPUT_BYTES_MAX = 1 << 20 };

static const size_t memory_max_bytes = (size_t)16
                                       << 30; // written data; torch alone takes 1 to 2 GiB
static const char mark[] = "gpumend-verify: ";

static json_t *script_json(struct arena *a, const char *script)
{
    json_t *steps = json_array();
    struct str rest = str_of(script);
    while (rest.s) {
        struct str step = str_trim(str_cut(&rest, ';'));
        if (step.n) {
            json_add(steps, out_json_text(a, str_dup(a, step)));
        }
    }
    return steps;
}

/* The argument of trial.py; NULL without memory. */
static const char *wanted_json(struct arena *a, const struct apply_trial *t)
{
    json_t *requests = json_array();
    for (size_t i = 0; i < t->n_requests; i++) {
        const struct apply_request *r = &t->requests[i];
        json_t *one = json_array();
        json_add(one, out_json_text(a, r->name));
        json_add(one, out_json_text(a, r->caller));
        json_add(one, out_json_text(a, r->expected));
        json_add(requests, one);
    }
    json_t *driver = json_array();
    for (size_t i = 0; i < t->n_driver; i++) {
        json_add(driver, out_json_text(a, t->driver[i]));
    }
    json_t *all = json_pack("{s:o, s:o, s:o}", "script", script_json(a, t->script), "requests",
                            requests, "driver", driver);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    const char *copy = text ? arena_strdup(a, text) : NULL;
    free(text);
    json_decref(all);
    return copy;
}

/* What the child said of itself. */
struct said {
    const char *import, *failed, *cannot; // the last import begun, the first of the others
    size_t held;
    bool done;
};

static struct said read_events(struct arena *a, struct str output)
{
    struct said said = {0};
    struct str line;
    while (str_line(&output, &line)) {
        if (!str_starts(line, mark)) {
            continue;
        }
        line = (struct str){line.s + sizeof mark - 1, line.n - (sizeof mark - 1)};
        struct str kind = str_cut(&line, ' ');
        const char *text = str_dup(a, str_trim(line.s ? line : STR("")));
        if (str_is(kind, "import")) {
            said.import = text;
        } else if (str_is(kind, "failed")) {
            said.failed = said.failed ? said.failed : text;
        } else if (str_is(kind, "cannot")) {
            said.cannot = said.cannot ? said.cannot : text;
        }
        said.held += str_is(kind, "held");
        said.done |= str_is(kind, "done");
    }
    return said;
}

static enum apply_result trial_judge(struct arena *a, const struct apply_trial *t,
                                     const struct child_end *end, const char **ret_why)
{
    struct said said = read_events(a, end->output);
    const char *where = said.import ? arena_printf(a, "import %s", said.import) : "its start";
    *ret_why = NULL;
    if (said.failed) {
        *ret_why = said.failed;
        return APPLY_FAILED;
    }
    if (end->timed_out) {
        *ret_why = arena_printf(a, "%s: no end within %u s", where, t->deadline_ms / 1000);
        return APPLY_CANNOT;
    }
    if (end->signal) {
        *ret_why = arena_printf(a, "the process was ended by signal %d (%s) after %s", end->signal,
                                strsignal(end->signal), where);
        return APPLY_FAILED;
    }
    if (said.cannot || !said.done || end->status != 0) {
        *ret_why = said.cannot ? said.cannot
                               : arena_printf(a, "the interpreter ended with status %d at %s",
                                              end->status, where);
        return APPLY_CANNOT;
    }
    return APPLY_VERIFIED;
}

enum apply_result apply_try(struct arena *a, const struct apply_trial *t, const char **ret_why)
{
    struct gm_err err;
    struct child_end end;
    struct apply_trial limited = *t;
    limited.deadline_ms = t->deadline_ms ? t->deadline_ms : APPLY_TRIAL_MS;
    const char *wanted = wanted_json(a, t);
    if (!wanted) {
        *ret_why = "out of memory";
        return APPLY_CANNOT;
    }
    VEC(const char *) env = {0};
    for (size_t i = 0; i < t->n_env; i++) {
        VEC_PUSH(a, &env, t->env[i]);
    }
    VEC_PUSH(a, &env, "PYTHONDONTWRITEBYTECODE=1");
    const char *const argv[] = {t->interpreter, "-c", apply_trial_py, wanted, NULL};
    const struct child c = {
        .path = t->interpreter,
        .argv = argv,
        .env = env.items,
        .n_env = env.n,
        .deadline_ms = limited.deadline_ms,
        .memory_max_bytes = memory_max_bytes,
        .output_max_bytes = OUTPUT_BYTES_MAX,
    };
    if (child_run(a, &c, &end, &err) < 0) {
        *ret_why = arena_strdup(a, err.text);
        return APPLY_CANNOT;
    }
    return trial_judge(a, &limited, &end, ret_why);
}
