#include "probe/listen.h"

#include <stdlib.h>
#include <string.h>

void listener_init(struct listener *l, struct arena *a, struct probe_answer *answer)
{
    *l = (struct listener){.a = a, .answer = answer, .output = arena_alloc(a, LISTENER_OUTPUT_MAX)};
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The next word of a line, its escapes undone. */
static const char *word(struct arena *a, struct str *rest)
{
    struct str w = rest->s ? str_cut(rest, ' ') : (struct str){0};
    char *text = arena_alloc(a, w.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < w.n; i++) {
        int high = w.s[i] == '%' && i + 2 < w.n ? hex_value(w.s[i + 1]) : -1;
        int low = high >= 0 ? hex_value(w.s[i + 2]) : -1;
        text[n++] = low >= 0 ? (char)(high * 16 + low) : w.s[i];
        i += low >= 0 ? 2 : 0;
    }
    text[n] = '\0';
    return text;
}

static void hear_end(struct listener *l, enum probe_outcome outcome, struct str rest)
{
    struct probe_answer *r = l->answer;
    l->ended = true;
    r->outcome = outcome;
    if (outcome == PROBE_FAIL) {
        const char *code = word(l->a, &rest), *name = word(l->a, &rest);
        r->code = strtol(code, NULL, 10);
        r->code_name = *name ? name : NULL;
    }
    r->text = word(l->a, &rest);
}

/* A line that is none of ours (a library that writes to descriptor 3) is passed over. */
static void hear(struct listener *l, struct str line)
{
    struct probe_answer *r = l->answer;
    struct str verb = str_cut(&line, ' ');
    if (l->ended) {
        return;
    }
    if (str_is(verb, "call") && line.s) {
        l->n_call = line.n < sizeof l->call ? line.n : sizeof l->call;
        memcpy(l->call, line.s, l->n_call);
    } else if (str_is(verb, "fact") && r->facts.n < LISTENER_FACTS_MAX) {
        const char *key = word(l->a, &line);
        VEC_PUSH(l->a, &r->facts, (struct probe_fact){key, word(l->a, &line)});
    } else if (str_is(verb, "passed")) {
        hear_end(l, PROBE_PASSED, line);
    } else if (str_is(verb, "failed")) {
        hear_end(l, PROBE_FAIL, line);
    } else if (str_is(verb, "unknown")) {
        hear_end(l, PROBE_UNKNOWN, line);
    } else if (str_is(verb, "skipped")) {
        hear_end(l, PROBE_NOT_RUN, line);
    }
}

void listener_take_report(struct listener *l, const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (data[i] != '\n' && l->n < sizeof l->line) {
            l->line[l->n++] = data[i];
        } else if (data[i] != '\n') {
            l->too_long = true;
        } else {
            if (!l->too_long) {
                hear(l, (struct str){l->line, l->n});
            }
            l->n = 0, l->too_long = false;
        }
    }
}

void listener_take_output(struct listener *l, const char *data, size_t n)
{
    size_t room = LISTENER_OUTPUT_MAX - l->n_output, take = n < room ? n : room;
    for (size_t i = 0; i < take; i++) {
        l->output[l->n_output++] = data[i] ? data[i] : ' '; // it is shown as a text
    }
}

void listener_end(struct listener *l)
{
    struct str call = {l->call, l->n_call};
    l->answer->last_call = l->n_call ? word(l->a, &call) : NULL;
    l->answer->output = (struct str){l->output, l->n_output};
}

const char *listener_during(const struct listener *l)
{
    const char *call = l->answer->last_call;
    return call ? arena_printf(l->a, " in %s", call) : "";
}
