/* Lines of a trace put together again: threads that wait for the loader, what ends in the middle,
 * lines that were lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch/trace.h"

enum { WAITING = 3000, OTHERS = 2000 }; // others: threads with an id of their own

struct record {
    char path[64];
    FILE *file;
    struct arena arena;
    struct watch_trace trace;
};

static void begin(struct record *r)
{
    struct gm_err err;
    (void)snprintf(r->path, sizeof r->path, "/tmp/gpumend-test-XXXXXX");
    int fd = mkstemp(r->path);
    assert_true(fd >= 0);
    r->file = fdopen(fd, "w");
    assert_non_null(r->file);
    arena_init(&r->arena, 0, NULL, NULL);
    assert_int_equal(watch_trace_open(&r->trace, &r->arena, r->path, &err), 0);
}

/* A line of thread `tid`; `rest`: further members, each with a comma before it. */
static void line(struct record *r, int tid, const char *event, const char *rest)
{
    (void)fprintf(r->file, "{\"event\": \"%s\", \"pid\": 7, \"tid\": %d, \"time_us\": 1%s}\n",
                  event, tid, rest);
}

static const struct watch_process *end(struct record *r)
{
    assert_int_equal(fclose(r->file), 0);
    watch_trace_end(&r->trace);
    assert_int_equal(unlink(r->path), 0);
    return r->trace.processes.n ? r->trace.processes.items[0] : NULL;
}

static void start(struct record *r)
{
    begin(r);
    line(r, 7, "start", ", \"ppid\": 1, \"exe\": \"/p\", \"cwd\": \"/\", \"env\": {}");
    line(r, 7, "started", "");
}

#define DLOPEN(name)  ", \"name\": \"" name "\", \"caller\": \"/p\", \"flags\": 2, \"namespace\": 0"
#define REQUEST(name) ", \"name\": \"" name "\", \"caller\": \"/p\", \"kind\": \"dlopen\""
#define FOUND(path)                                                                                \
    ", \"caller\": \"/p\", \"path\": \"" path "\", \"via\": \"cache\", \"result\": \"taken\""
#define ABSENT(path)                                                                               \
    ", \"caller\": \"/p\", \"path\": \"" path "\", \"via\": \"cache\", \"result\": \"absent\""
#define PATH(path) ", \"path\": \"" path "\", \"namespace\": 0"

/* However many threads came between a call and the loader's work for it, it is that call's. */
static void waiting_threads(void **state)
{
    struct record r;
    (void)state;
    start(&r);
    line(&r, 100, "dlopen", DLOPEN("liba.so"));
    for (int i = 0; i < WAITING; i++) {
        line(&r, 200 + i % OTHERS, "dlopen", DLOPEN("libb.so"));
    }
    line(&r, 100, "request", REQUEST("liba.so"));
    line(&r, 300, "dlopen", DLOPEN("libb.so"));
    line(&r, 100, "candidate", FOUND("/l/liba.so"));
    line(&r, 301, "dlerror", ", \"text\": \"nothing of its\"");
    line(&r, 100, "open", PATH("/l/liba.so"));
    line(&r, 100, "end", "");
    const struct watch_process *p = end(&r);
    const struct watch_load *l = &p->loads.items[0];
    assert_int_equal(p->loads.n, WAITING + 2);
    assert_false(l->unknown || l->failed || l->reused);
    assert_string_equal(l->path, "/l/liba.so");
    assert_int_equal(l->opened.n, 1);
    assert_int_equal(p->requests.n, 1);
    assert_int_equal(watch_trace_lost(&r.trace), 0);
    arena_release(&r.arena);
}

/* A thread that found the name loaded did so after the one that loaded it, whoever called first. */
static void order_of_the_loader(void **state)
{
    struct record r;
    (void)state;
    start(&r);
    line(&r, 8, "dlopen", DLOPEN("liba.so"));
    line(&r, 9, "dlopen", DLOPEN("liba.so"));
    line(&r, 9, "request", REQUEST("liba.so"));
    line(&r, 9, "open", PATH("/l/liba.so"));
    line(&r, 9, "end", "");
    line(&r, 8, "dlopen", DLOPEN("liba.so"));
    const struct watch_process *p = end(&r);
    assert_true(p->loads.items[0].reused && !p->loads.items[0].unknown);
    assert_true(p->loads.items[0].at > p->loads.items[1].at);
    assert_true(p->loads.items[2].unknown); // it may still wait
    arena_release(&r.arena);
}

/* dlclose, and then a text of dlsym about something else: the dlopen was good. */
static void closed_by_the_program(void **state)
{
    static const struct {
        const char *text;
        bool failed;
    } rows[] = {
        {", \"text\": \"/l/liba.so: undefined symbol: f\"", true},
        {", \"text\": \"/p: undefined symbol: g\"", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct record r;
        start(&r);
        line(&r, 7, "dlopen", DLOPEN("liba.so"));
        line(&r, 7, "request", REQUEST("liba.so"));
        line(&r, 7, "open", PATH("/l/liba.so"));
        line(&r, 7, "close", PATH("/l/liba.so"));
        line(&r, 7, "close", ", \"path\": null"); // one that the library had no room for
        line(&r, 7, "dlerror", rows[i].text);
        const struct watch_process *p = end(&r);
        assert_int_equal(p->loads.items[0].failed, rows[i].failed);
        assert_int_equal(p->closes.n, 2);
        arena_release(&r.arena);
    }
}

/* Killed in the middle of a search: nobody knows what it would have found. */
static void ends_in_the_middle(void **state)
{
    struct record r;
    (void)state;
    start(&r);
    line(&r, 7, "dlopen", DLOPEN("liba.so"));
    line(&r, 7, "request", REQUEST("liba.so"));
    line(&r, 7, "candidate", ABSENT("/l/liba.so"));
    const struct watch_process *p = end(&r);
    assert_true(p->loads.items[0].unknown && !p->loads.items[0].failed);
    assert_false(p->requests.items[0].settled);
    arena_release(&r.arena);
}

/* The line that says what was opened may be the lost one. */
static void lost_lines(void **state)
{
    static const char *const torn[] = {"{\"event\": \"open\", \"pid\": 7, \"ti\n", "\n",
                                       "no JSON\n"};
    static const unsigned lost[] = {1, 0, 1};
    (void)state;
    for (size_t i = 0; i < sizeof torn / sizeof *torn; i++) {
        struct record r;
        start(&r);
        line(&r, 7, "dlopen", DLOPEN("liba.so"));
        line(&r, 7, "request", REQUEST("liba.so"));
        (void)fputs(torn[i], r.file);
        line(&r, 7, "dlerror", ", \"text\": \"liba.so: cannot open shared object file\"");
        const struct watch_process *p = end(&r);
        assert_int_equal(watch_trace_lost(&r.trace), lost[i]);
        assert_int_equal(p->loads.items[0].failed, lost[i] == 0);
        assert_int_equal(p->requests.items[0].settled, lost[i] == 0);
        arena_release(&r.arena);
    }
}

/* What the helpers count is part of it, and a line without its end. */
static void counted_losses(void **state)
{
    const struct loss_page page = {.magic = LOSS_MAGIC, .lines = 41, .error = 28};
    struct record r;
    (void)state;
    start(&r);
    r.trace.losses = &page;
    (void)fputs("{\"event\":", r.file);
    (void)end(&r);
    assert_int_equal(watch_trace_lost(&r.trace), 42);
    arena_release(&r.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_threads),
        cmocka_unit_test(order_of_the_loader),
        cmocka_unit_test(closed_by_the_program),
        cmocka_unit_test(ends_in_the_middle),
        cmocka_unit_test(lost_lines),
        cmocka_unit_test(counted_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
