/* What a stage says on its descriptor, and what it was given, on every system. */
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inject/probe/helper.h"

/* ------------------------------------------------------------------ saying */

/* One line, at most PIPE_BUF bytes so that it is written at once; what is longer is cut. It begins
 * with a line end, should a library have written to the descriptor. */
struct line {
    char text[4000];
    size_t n;
};

static void say_text(struct line *l, const char *text, bool escape)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *text && l->n + 4 < sizeof l->text; text++) {
        unsigned char c = (unsigned char)*text;
        if (escape && (c <= ' ' || c == '%' || c == 0x7f)) {
            l->text[l->n++] = '%';
            l->text[l->n++] = hex[c >> 4];
            l->text[l->n++] = hex[c & 15];
        } else {
            l->text[l->n++] = *text;
        }
    }
}

static void send(struct line *l)
{
    size_t done = 0;
    l->text[l->n++] = '\n';
    while (done < l->n) {
        ssize_t n = write(REPORT_FD, l->text + done, (unsigned)(l->n - done));
        if (n <= 0) {
            _exit(1); // nobody listens: the parent is gone
        }
        done += (size_t)n;
    }
}

static void put_formatted(struct line *l, const char *fmt, va_list ap)
{
    char text[2000];
    (void)vsnprintf(text, sizeof text, fmt, ap); // what is longer is cut
    say_text(l, text, true);
}

void say_call(const char *function)
{
    struct line l = {.text = "\n", .n = 1};
    say_text(&l, "call ", false);
    say_text(&l, function, true);
    send(&l);
}

void say_fact(const char *key, const char *fmt, ...)
{
    struct line l = {.text = "\n", .n = 1};
    va_list ap;
    say_text(&l, "fact ", false);
    say_text(&l, key, true);
    say_text(&l, " ", false);
    va_start(ap, fmt);
    put_formatted(&l, fmt, ap);
    va_end(ap);
    send(&l);
}

/* The end of the stage; the libraries' destructors are not what is asked about. */
static _Noreturn void end(const char *verb, const char *fmt, va_list ap)
{
    struct line l = {.text = "\n", .n = 1};
    say_text(&l, verb, false);
    put_formatted(&l, fmt, ap);
    send(&l);
    _exit(0);
}

void say_passed(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    end("passed ", fmt, ap);
}

void say_unknown(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    end("unknown ", fmt, ap);
}

void say_skipped(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    end("skipped ", fmt, ap);
}

void say_failed(long code, const char *code_name, const char *fmt, ...)
{
    struct line l = {.text = "\n", .n = 1};
    va_list ap;
    char number[32];
    (void)snprintf(number, sizeof number, "%ld", code);
    say_text(&l, "failed ", false);
    say_text(&l, number, true);
    say_text(&l, " ", false);
    say_text(&l, code_name ? code_name : "", true);
    say_text(&l, " ", false);
    va_start(ap, fmt);
    put_formatted(&l, fmt, ap);
    va_end(ap);
    send(&l);
    _exit(0);
}

/* ------------------------------------------------------------------ the job */

const char *job_value(const struct job *j, const char *key)
{
    size_t n = strlen(key);
    for (char *const *word = j->arguments; *word; word++) {
        if (strncmp(*word, key, n) == 0 && (*word)[n] == '=') {
            return *word + n + 1;
        }
    }
    return NULL;
}

long job_number(const struct job *j, const char *key, long otherwise)
{
    const char *text = job_value(j, key);
    bool negative = text && *text == '-';
    long value = 0;
    text += negative;
    if (!text || !*text) {
        return otherwise;
    }
    for (; *text >= '0' && *text <= '9' && value < LONG_MAX / 10 - 1; text++) {
        value = value * 10 + (*text - '0');
    }
    return *text ? otherwise : negative ? -value : value;
}

void job_read(struct job *j, char *const *arguments)
{
    *j = (struct job){.arguments = arguments};
    for (char *const *word = arguments; *word && j->n_load < LOADS_MAX; word++) {
        if (strncmp(*word, "load=", 5) == 0) {
            j->load[j->n_load++] = *word + 5;
        }
    }
    j->stage = job_value(j, "stage");
    j->lib = job_value(j, "lib");
    j->device = (int)job_number(j, "device", -1);
}
