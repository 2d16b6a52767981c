/* Ends of programs and what follows from them: kinds, what may be forgiven, delays. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "launch/teardown.h"
#include "watch/restart.h"

enum { NONE = 0, LOADED = 1, CRASHED = 2, KNOWN = 4, RUNTIME = 8, NO_CODE = 16, OLD = 32 };

static const struct row {
    const char *name;
    int signal;
    unsigned has; // of the page; 0: there is none
    enum end_phase phase;
    unsigned where;
    const char *destructor, *object;
    enum ending_kind kind;
    int status, gpu;
    bool forgiven;
} rows[] = {
    {"a status", .has = LOADED, .phase = END_LEAVING, .kind = ENDING_EXIT, .status = 7, .gpu = -1},
    {"from outside", .signal = SIGTERM, .has = LOADED, .kind = ENDING_OUTSIDE, .status = -1,
     .gpu = -1},
    {"killed", .signal = SIGKILL, .has = LOADED, .phase = END_HANDLERS, .kind = ENDING_OUTSIDE,
     .status = -1, .gpu = -1},
    {"no page", .signal = SIGSEGV, .kind = ENDING_UNKNOWN, .status = -1, .gpu = -1},
    {"own handler", .signal = SIGSEGV, .has = LOADED, .kind = ENDING_UNKNOWN, .status = -1,
     .gpu = -1},
    {"mid-work", .signal = SIGSEGV, .has = LOADED | CRASHED, .object = "/l/libcudnn.so.9",
     .kind = ENDING_CRASH, .status = -1, .gpu = 1},
    {"a thread's end", .signal = SIGABRT, .has = LOADED | CRASHED, .where = END_IN_DESTRUCTOR,
     .destructor = "/l/libctranslate2.so.4", .object = "/l/libc.so.6", .kind = ENDING_UNLOAD,
     .status = -1, .gpu = 1},
    {"dlclose", .signal = SIGBUS, .has = LOADED | CRASHED, .where = END_IN_DLCLOSE,
     .object = "/l/libx.so", .kind = ENDING_UNLOAD, .status = -1},
    {"a program's own library of a like name", .signal = SIGSEGV,
     .has = LOADED | CRASHED | KNOWN | RUNTIME, .phase = END_HANDLERS,
     .object = "/l/libcudnn_mine.so", .kind = ENDING_TEARDOWN, .status = 7},
    {"after the end, off a stack that was not walked", .signal = SIGSEGV,
     .has = LOADED | CRASHED | KNOWN | RUNTIME | OLD, .phase = END_HANDLERS,
     .object = "/l/libc.so.6", .kind = ENDING_TEARDOWN, .status = 7, .gpu = -1, .forgiven = true},
    {"the same without a runtime", .signal = SIGSEGV, .has = LOADED | CRASHED | KNOWN | OLD,
     .phase = END_HANDLERS, .object = "/l/libc.so.6", .kind = ENDING_TEARDOWN, .status = 7,
     .gpu = -1},
    {"the same, in the driver itself", .signal = SIGSEGV, .has = LOADED | CRASHED | KNOWN | OLD,
     .phase = END_HANDLERS, .object = "/l/libcuda.so.1", .kind = ENDING_TEARDOWN, .status = 7,
     .gpu = 1, .forgiven = true},
    {"after the end", .signal = SIGSEGV, .has = LOADED | CRASHED | KNOWN, .phase = END_HANDLERS,
     .object = "/l/libcuda.so.1", .kind = ENDING_TEARDOWN, .status = 7, .gpu = 1, .forgiven = true},
    {"after an end of unknown status", .signal = SIGSEGV, .has = LOADED | CRASHED,
     .phase = END_HANDLERS, .object = "/l/libcuda.so.1", .kind = ENDING_TEARDOWN, .status = -1,
     .gpu = 1},
    {"after the end, in no GPU's library", .signal = SIGSEGV,
     .has = LOADED | CRASHED | KNOWN | RUNTIME, .phase = END_HANDLERS, .object = "/l/libcurl.so.4",
     .kind = ENDING_TEARDOWN, .status = 7},
    {"after the end, code in no file", .signal = SIGSEGV,
     .has = LOADED | CRASHED | KNOWN | RUNTIME | NO_CODE, .phase = END_HANDLERS,
     .object = "/l/libc.so.6", .kind = ENDING_TEARDOWN, .status = 7, .gpu = -1, .forgiven = true},
    {"after the end, own handler, a runtime", .signal = SIGSEGV, .has = LOADED | KNOWN | RUNTIME,
     .phase = END_LEAVING, .kind = ENDING_TEARDOWN, .status = 7, .gpu = -1, .forgiven = true},
    {"after the end, own handler, no runtime", .signal = SIGSEGV, .has = LOADED | KNOWN,
     .phase = END_LEAVING, .kind = ENDING_TEARDOWN, .status = 7, .gpu = -1},
};

static struct end_page page_of(const struct row *r)
{
    struct end_page p = {.magic = END_MAGIC,
                         .loaded = 1,
                         .phase = r->phase,
                         .where = r->where,
                         .status = 7,
                         .status_known = (r->has & KNOWN) != 0,
                         .crashed = (r->has & CRASHED) != 0,
                         .signal = r->signal,
                         .walked = !(r->has & OLD),
                         .gpu_loaded = (r->has & RUNTIME) != 0,
                         .code_unknown = (r->has & NO_CODE) != 0};
    (void)snprintf(p.destructor_of, sizeof p.destructor_of, "%s",
                   r->destructor ? r->destructor : "");
    (void)snprintf(p.objects[0], sizeof p.objects[0], "%s", r->object ? r->object : "");
    return p;
}

static void kinds(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        const struct end_page page = page_of(r);
        const struct watch_end end = {.status = r->signal ? -1 : 7, .signal = r->signal};
        struct ending e;
        ending_judge(&a, &end, r->has ? &page : NULL, &e);
        if (e.kind != r->kind || e.status != r->status || e.gpu != r->gpu ||
            ending_is_forgivable(&e) != r->forgiven || !e.says) {
            fail_msg("%s: %s, status %d, gpu %d, forgiven %d: %s", r->name,
                     ending_kind_name(e.kind), e.status, e.gpu, ending_is_forgivable(&e),
                     e.says ? e.says : "nothing");
        }
    }
    arena_release(&a);
}

/* What stands in the page may be anything: another process can write it. */
static void hostile_page(void **state)
{
    (void)state;
    struct arena a;
    struct end_page page;
    struct ending e;
    const struct watch_end end = {.status = -1, .signal = SIGSEGV};
    arena_init(&a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    for (unsigned byte = 0; byte < 256; byte++) {
        memset(&page, (int)byte, sizeof page);
        page.signal = SIGSEGV;
        ending_judge(&a, &end, &page, &e);
        assert_non_null(e.says);
        for (const char *c = e.says; *c; c++) {
            assert_true((unsigned char)*c >= 0x20);
        }
    }
    arena_release(&a);
}

static void say_nothing(void *arg, const char *sentence)
{
    (void)sentence;
    ++*(unsigned *)arg;
}

static void delays(void **state)
{
    (void)state;
    struct arena a;
    unsigned said = 0, delay = 0;
    arena_init(&a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    struct restart r = {.a = &a,
                        .enabled = true,
                        .max = 12,
                        .first_delay_ms = 1000,
                        .says = say_nothing,
                        .says_arg = &said};
    struct watch_end end = {.status = -1, .signal = SIGSEGV, .lived_ms = 10};
    static const unsigned expected[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_true(restart_again(&r, &end, &delay));
        assert_int_equal(delay, expected[i]);
    }
    end.lived_ms = RESTART_STEADY_MS; // a long life: from the beginning, and still counted
    assert_true(restart_again(&r, &end, &delay));
    assert_int_equal(delay, 1000);
    end.lived_ms = 10;
    assert_true(restart_again(&r, &end, &delay));
    assert_int_equal(delay, 2000);
    assert_true(restart_again(&r, &end, &delay));
    assert_true(restart_again(&r, &end, &delay));
    assert_false(restart_again(&r, &end, &delay)); // the thirteenth
    assert_int_equal(said, 13);
    end = (struct watch_end){.status = 1};
    r.max = 0;
    assert_false(restart_again(&r, &end, &delay)); // no crash
    end = (struct watch_end){.status = -1, .signal = SIGTERM};
    assert_false(restart_again(&r, &end, &delay));
    assert_int_equal(said, 13);
    arena_release(&a);
}

/* A report on a library is named where that library crashed, and nowhere else. */
static void blamed(void **state)
{
    (void)state;
    struct arena a;
    struct ending e;
    const struct watch_end end = {.status = -1, .signal = SIGSEGV};
    struct end_page page = {.magic = END_MAGIC,
                            .loaded = 1,
                            .phase = END_HANDLERS,
                            .crashed = 1,
                            .signal = SIGSEGV,
                            .status_known = 1,
                            .walked = 1,
                            .gpu_loaded = 1,
                            .objects = {"/l/libc.so.6", "/l/libmine.so", "/l/libcudart.so.12"}};
    arena_init(&a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    ending_judge(&a, &end, &page, &e);
    assert_null(e.upstream);
    assert_string_equal(e.object, "/l/libmine.so");
    assert_non_null(strstr(e.says, "(libmine.so, called by libcudart.so.12)"));
    (void)snprintf(page.objects[1], sizeof page.objects[1], "/l/libcudart.so.12");
    ending_judge(&a, &end, &page, &e);
    assert_non_null(e.upstream);
    page.walked = 0; // what is behind libc may be old
    ending_judge(&a, &end, &page, &e);
    assert_null(e.upstream);
    assert_null(e.object);
    assert_int_equal(e.gpu, -1);
    (void)snprintf(page.objects[0], sizeof page.objects[0], "/l/libmine.so"); // the signal hit it
    ending_judge(&a, &end, &page, &e);
    assert_string_equal(e.object, "/l/libmine.so");
    assert_int_equal(e.gpu, -1);
    arena_release(&a);
}

static void upstream(void **state)
{
    (void)state;
    const struct launch_teardown *k =
        launch_teardown_known("/e/libctranslate2-64.so.4", LAUNCH_AT_THREAD_END);
    assert_non_null(k);
    assert_true(k->guarded);
    assert_string_equal(k->thread, "OpenNMT/CTranslate2#1201");
    k = launch_teardown_known("libctranslate2.so.4", LAUNCH_AT_END);
    assert_string_equal(k->thread, "OpenNMT/CTranslate2#1782");
    assert_null(launch_teardown_known("/l/libcurl.so.4", LAUNCH_AT_END | LAUNCH_AT_THREAD_END));
    assert_null(launch_teardown_known("/l/libcudnn.so.9", 0));
    static const char *const own[] = {"libtorch_mine.so",       "libtorchvision.so",
                                      "libcudnn_wrap.so.9",     "libctranslate2x.so",
                                      "libctranslate2-mine.so", "libcublas"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        assert_null(launch_teardown_known(own[i], LAUNCH_AT_END | LAUNCH_AT_THREAD_END));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),    cmocka_unit_test(hostile_page), cmocka_unit_test(delays),
        cmocka_unit_test(upstream), cmocka_unit_test(blamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
