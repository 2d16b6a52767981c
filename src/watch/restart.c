#include "watch/restart.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "mend/teardown.h"
#include "watch/place.h"

/* ------------------------------------------------------------------ whose library */

/* Libraries of GPUs, by the beginning of their file's name. */
static const char *const gpu_libraries[] = {
    "libcu",
    "libnv",
    "libnccl",
    "libctranslate2",
    "libtorch_cuda",
    "libtorch_hip",
    "libc10_cuda",
    "libc10_hip",
    "libonnxruntime_providers_",
    "libamdhip64",
    "libhsa-runtime64",
    "libhip",
    "libroc",
    "libMIOpen",
    "librccl",
    "libggml-cuda",
    "libggml-hip",
};

/* Not GPU's though they begin so. */
static const char *const others[] = {"libcurl", "libcups", "libcurses",
                                     "libcue",  "libnvme", "libnvpair"};

static bool begins_with_one(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (starts_with(name, list[i])) {
            return true;
        }
    }
    return false;
}

static bool is_gpu(const char *object)
{
    const char *base = path_base(object);
    return begins_with_one(base, gpu_libraries, sizeof gpu_libraries / sizeof *gpu_libraries) &&
           !begins_with_one(base, others, sizeof others / sizeof *others);
}

/* ------------------------------------------------------------------ the judgement */

static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

static const char *const kind_names[] = {
    [ENDING_EXIT] = "exit",     [ENDING_OUTSIDE] = "signal",    [ENDING_CRASH] = "crash",
    [ENDING_UNLOAD] = "unload", [ENDING_TEARDOWN] = "teardown", [ENDING_UNKNOWN] = "unknown",
};

const char *ending_kind_name(enum ending_kind kind)
{
    return kind_names[kind];
}

static bool is_crash(int number)
{
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        if (crashes[i] == number) {
            return true;
        }
    }
    return false;
}

/* A text of the page, which another process can write at any time: bounded, and made printable. */
static const char *page_text(struct arena *a, const char *text)
{
    char copy[END_NAME_MAX];
    memcpy(copy, text, sizeof copy);
    copy[sizeof copy - 1] = '\0';
    return str_printable(a, arena_strdup(a, copy));
}

struct seen {
    const char *objects[END_OBJECTS_MAX + 1]; // the destructor's first, then the stack's
    size_t n;
};

static void see(struct arena *a, const struct end_page *page, struct seen *ret)
{
    *ret = (struct seen){.n = 0};
    const char *first = page_text(a, page->destructor_of);
    if (page->where & END_IN_DESTRUCTOR && *first) {
        ret->objects[ret->n++] = first;
    }
    for (size_t i = 0; i < END_OBJECTS_MAX; i++) {
        const char *object = page_text(a, page->objects[i]);
        if (*object) {
            ret->objects[ret->n++] = object;
        }
    }
}

/* The object that is to be named, whether one is a GPU's, and what is known of it. The loader, libc
 * and libstdc++ run whoever crashes. */
static void attribute(struct arena *a, const struct seen *seen, const struct end_page *page,
                      unsigned when, struct ending *ret)
{
    static const char *const carriers[] = {"libc.so",  "libc-",      "libstdc++", "libgcc_s",
                                           "ld-linux", "libpthread", "gpumend-"};
    ret->gpu = page->crashed && seen->n && !page->code_unknown ? 0 : -1;
    for (size_t i = 0; i < seen->n; i++) {
        const char *object = seen->objects[i], *base = path_base(object);
        const struct mend_teardown *k = mend_teardown_known(object, when);
        if (k && !ret->upstream) {
            ret->upstream = arena_printf(a, "%s: %s", k->thread, k->about);
        }
        if (is_gpu(object) && ret->gpu != 1) {
            ret->gpu = 1;
            ret->object = object;
        }
        if (!ret->object && !begins_with_one(base, carriers, sizeof carriers / sizeof *carriers)) {
            ret->object = object;
        }
    }
}

static const char *moment(struct arena *a, const struct ending *e, const struct end_page *page)
{
    const char *what = page->where & END_IN_DESTRUCTOR ? "a thread-local destructor"
                       : page->where & END_IN_DLCLOSE  ? "the closing of a library"
                       : page->phase == END_HANDLERS   ? "an exit handler"
                                                       : "its destructors";
    if (e->kind == ENDING_UNLOAD) {
        return arena_printf(a, "in %s while the program went on", what);
    }
    return e->status < 0 ? arena_printf(a, "in %s after the end of the program", what)
                         : arena_printf(a, "in %s after the program had ended with status %d", what,
                                        e->status);
}

static const char *where_sentence(struct arena *a, const struct ending *e)
{
    if (!e->object) {
        return e->gpu < 0 && e->kind != ENDING_UNKNOWN ? "; in which library cannot be told" : "";
    }
    return arena_printf(a, " (%s)", path_base(e->object));
}

static enum ending_kind kind_of(const struct end_page *page)
{
    if (!page || !page->loaded) {
        return ENDING_UNKNOWN;
    }
    if (page->phase == END_LEAVING || page->phase == END_HANDLERS) {
        return ENDING_TEARDOWN;
    }
    if (!page->crashed) { // the program has a handler of its own: nothing says what the thread did
        return ENDING_UNKNOWN;
    }
    return page->where & (END_IN_DESTRUCTOR | END_IN_DLCLOSE) ? ENDING_UNLOAD : ENDING_CRASH;
}

static const char *sentence(struct arena *a, const struct ending *e, const struct watch_end *end,
                            const struct end_page *page)
{
    const char *name = sigabbrev_np(end->signal);
    const char *died = arena_printf(a, "SIG%s", name ? name : "?");
    switch (e->kind) {
    case ENDING_CRASH:
        return arena_printf(a, "%s in the middle of its work%s", died, where_sentence(a, e));
    case ENDING_UNLOAD:
    case ENDING_TEARDOWN:
        return arena_printf(a, "%s %s%s", died, moment(a, e, page), where_sentence(a, e));
    case ENDING_UNKNOWN:
        return arena_printf(a, "%s; how far the program had come cannot be told: %s", died,
                            page && page->loaded
                                ? "it handles that signal itself, or its stack was full"
                                : "the library that would say it was not in the program");
    case ENDING_EXIT:
    case ENDING_OUTSIDE:
    default:
        return died;
    }
}

void ending_judge(struct arena *a, const struct watch_end *end, const struct end_page *page,
                  struct ending *ret)
{
    struct end_page copy; // the child is gone, but a child of its own may still have the page
    struct seen seen;
    *ret = (struct ending){.kind = ENDING_EXIT, .status = -1, .gpu = -1};
    if (!end->signal) {
        ret->status = end->status;
        ret->says = arena_printf(a, "status %d", end->status);
        return;
    }
    if (page) {
        copy = *page;
        page = &copy;
    }
    ret->kind = is_crash(end->signal) ? kind_of(page) : ENDING_OUTSIDE;
    if (ret->kind == ENDING_TEARDOWN && page->status_known) {
        ret->status = page->status & 0xff; // as wait(2) has it
    }
    if (page && page->crashed && page->signal == end->signal) {
        see(a, page, &seen);
        attribute(a, &seen, page,
                  (page->where & END_IN_DESTRUCTOR ? MEND_AT_THREAD_END : 0u) |
                      (ret->kind == ENDING_TEARDOWN ? MEND_AT_END : 0u),
                  ret);
    }
    if (ret->kind == ENDING_TEARDOWN && ret->gpu < 0 && !page->gpu_loaded) {
        ret->gpu = 0;
    }
    ret->says = sentence(a, ret, end, page);
}

/* Why a crash is passed on as one; NULL: it need not be. Where the library cannot be told, one of a
 * GPU was loaded: else gpu is 0. */
static const char *unforgivable(const struct ending *e)
{
    return e->kind == ENDING_UNKNOWN    ? "it is not known to have ended"
           : e->kind != ENDING_TEARDOWN ? "it had not ended"
           : e->status < 0              ? "with which status it ended is not known"
           : e->gpu == 0                ? "no library of a GPU was in it"
                                        : NULL;
}

bool ending_is_forgivable(const struct ending *e)
{
    return unforgivable(e) == NULL;
}

/* ------------------------------------------------------------------ once more */

static void say(struct restart *r, const char *what)
{
    const struct ending *e = &r->last;
    r->says(r->says_arg,
            arena_printf(r->a, "%s%s%s; %s", e->says, e->upstream ? "; known upstream: " : "",
                         e->upstream ? e->upstream : "", what));
}

static unsigned next_delay(struct restart *r, const struct watch_end *end)
{
    if (!r->delay_ms || end->lived_ms >= RESTART_STEADY_MS) {
        r->delay_ms = r->first_delay_ms;
    } else {
        r->delay_ms =
            r->delay_ms < RESTART_DELAY_MAX_MS / 2 ? r->delay_ms * 2 : RESTART_DELAY_MAX_MS;
    }
    return r->delay_ms;
}

bool restart_again(void *arg, const struct watch_end *end, unsigned *ret_delay_ms)
{
    struct restart *r = arg;
    ending_judge(r->a, end, r->page, &r->last);
    r->forgiven = r->forgive && ending_is_forgivable(&r->last);
    if (r->last.kind == ENDING_EXIT || r->last.kind == ENDING_OUTSIDE) {
        return false;
    }
    if (r->forgiven) {
        say(r, arena_printf(r->a, "its work was done: passed on as status %d", r->last.status));
        return false;
    }
    if (!r->enabled) {
        say(r, arena_printf(r->a, "not forgiven: %s", unforgivable(&r->last)));
        return false;
    }
    if (r->max && r->count == r->max) {
        say(r, arena_printf(r->a, "not started again: %u starts after the first were allowed",
                            r->max));
        return false;
    }
    *ret_delay_ms = next_delay(r, end);
    r->count++;
    say(r, arena_printf(r->a, "start %u after the first, in %u.%03u s", r->count,
                        *ret_delay_ms / 1000, *ret_delay_ms % 1000));
    return true;
}

int restart_page(struct arena *a, struct end_page **ret, const char **ret_path, struct gm_err *err)
{
    void *page = NULL;
    int rc = watch_shared(a, sizeof **ret, &page, ret_path, err);
    if (rc == 0) {
        *ret = page;
    }
    return rc;
}
