#include "watch/restart.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "launch/teardown.h"
#include "watch/place.h"

/* ------------------------------------------------------------------ whose library */

/* Libraries of GPUs, as launch_library_is() takes them. */
static const char gpu_libraries[] =
    "libcuda libcudart libcudadebugger libcublas libcublasLt libcudnn libcudnn_adv "
    "libcudnn_adv_infer libcudnn_adv_train libcudnn_cnn libcudnn_cnn_infer "
    "libcudnn_cnn_train libcudnn_engines_precompiled libcudnn_engines_runtime_compiled "
    "libcudnn_ext libcudnn_graph libcudnn_heuristic libcudnn_ops libcudnn_ops_infer "
    "libcudnn_ops_train libcufft libcufftw libcufile libcupti libcurand libcusolver "
    "libcusolverMg libcusparse libcusparseLt libcutensor libcutensorMg libnccl libnppc "
    "libnvidia* libnvinfer libnvinfer_plugin libnvinfer_builder_resource libnvonnxparser "
    "libnvjpeg libnvJitLink libnvrtc libnvToolsExt libnvcuvid libnvshmem_host "
    "libctranslate2 libtorch_cuda libtorch_cuda_linalg libtorch_hip libc10_cuda "
    "libc10_hip libonnxruntime_providers_cuda libonnxruntime_providers_tensorrt "
    "libonnxruntime_providers_rocm libonnxruntime_providers_migraphx libamdhip64 "
    "libhsa-runtime64 libhipblas libhipblaslt libhipfft libhiprand libhiprtc libhipsolver "
    "libhipsparse libhipsparselt librocblas librocfft librocrand librocsolver "
    "librocsparse libroctx64 libroctracer64 librocm_smi64 libMIOpen librccl libggml-cuda "
    "libggml-hip";

static bool is_gpu(const char *object)
{
    return launch_library_is(object, gpu_libraries);
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
    const char *objects[END_OBJECTS_MAX]; // of the stack
    size_t n;
    const char *destructor; // whose destructor was running, or NULL
};

static void page_see(struct arena *a, const struct end_page *page, struct seen *ret)
{
    *ret = (struct seen){.n = 0};
    const char *first = page_text(a, page->destructor_of);
    if (page->where & END_IN_DESTRUCTOR && *first) {
        ret->destructor = first;
    }
    for (size_t i = 0; i < END_OBJECTS_MAX; i++) {
        const char *object = page_text(a, page->objects[i]);
        if (*object) {
            ret->objects[ret->n++] = object;
        }
    }
}

/* The loader, libc and libstdc++ run whoever crashes. */
static bool is_carrier(const char *object)
{
    static const char *const carriers[] = {"libc.so",  "libc-",      "libstdc++", "libgcc_s",
                                           "ld-linux", "libpthread", "gpumend-"};
    for (size_t i = 0; i < sizeof carriers / sizeof *carriers; i++) {
        if (starts_with(path_base(object), carriers[i])) {
            return true;
        }
    }
    return false;
}

/* The object to be named, whether one of a GPU was running, and what is known of the former. Of a
 * stack that could not be walked only the first is evidence, in which the signal hit: the others
 * may be old. */
static void ending_attribute(struct arena *a, const struct seen *seen, const struct end_page *page,
                             unsigned when, struct ending *ret)
{
    bool all = page->walked && !page->code_unknown && seen->n && seen->n < END_OBJECTS_MAX;
    const char *gpu = seen->destructor && is_gpu(seen->destructor) ? seen->destructor : NULL;
    size_t n = page->walked ? seen->n : seen->n && !page->code_unknown ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        gpu = !gpu && is_gpu(seen->objects[i]) ? seen->objects[i] : gpu;
        ret->object =
            !ret->object && !is_carrier(seen->objects[i]) ? seen->objects[i] : ret->object;
    }
    ret->object = ret->object ? ret->object : seen->destructor;
    ret->gpu_object = gpu;
    ret->gpu = gpu ? 1 : all ? 0 : -1;
    const struct launch_teardown *k = ret->object ? launch_teardown_known(ret->object, when) : NULL;
    k = !k && seen->destructor ? launch_teardown_known(seen->destructor, when) : k;
    if (k) {
        ret->upstream = arena_printf(a, "%s: %s", k->thread, k->about);
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
        return e->gpu < 0 && e->kind != ENDING_UNKNOWN ? "; in which library cannot be determined"
                                                       : "";
    }
    const char *name = path_base(e->object);
    return e->gpu_object && strcmp(e->gpu_object, e->object) != 0
               ? arena_printf(a, " (%s, called by %s)", name, path_base(e->gpu_object))
               : arena_printf(a, " (%s)", name);
}

static enum ending_kind page_kind(const struct end_page *page)
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

static const char *ending_sentence(struct arena *a, const struct ending *e,
                                   const struct watch_end *end, const struct end_page *page)
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
        return arena_printf(a, "%s; how far the program had come cannot be determined: %s", died,
                            page && page->loaded
                                ? "it handles that signal itself, or its stack was full"
                                : "the library that would say it was not in the program");
    case ENDING_EXIT:
    case ENDING_OUTSIDE:
    default: return died;
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
    ret->kind = is_crash(end->signal) ? page_kind(page) : ENDING_OUTSIDE;
    if (ret->kind == ENDING_TEARDOWN && page->status_known) {
        ret->status = page->status & 0xff; // as wait(2) has it
    }
    if (page && page->crashed && page->signal == end->signal) {
        page_see(a, page, &seen);
        ending_attribute(a, &seen, page,
                         (page->where & END_IN_DESTRUCTOR ? LAUNCH_AT_THREAD_END : 0u) |
                             (ret->kind == ENDING_TEARDOWN ? LAUNCH_AT_END : 0u),
                         ret);
    }
    ret->gpu_loaded = page && page->gpu_loaded;
    ret->says = ending_sentence(a, ret, end, page);
}

/* Why a crash is passed on as one; NULL: it need not be. */
static const char *unforgivable(const struct ending *e)
{
    return e->kind == ENDING_UNKNOWN    ? "it is not known to have ended"
           : e->kind != ENDING_TEARDOWN ? "it had not ended"
           : e->status < 0              ? "with which status it ended is not known"
           : e->gpu == 0                ? "no code of a GPU library was running"
           : e->gpu < 0 && e->object
               ? "whether code of a GPU library was running cannot be determined"
           : e->gpu < 0 && !e->gpu_loaded ? "in which library it was cannot be determined, and no "
                                            "GPU runtime library was loaded"
                                          : NULL;
}

bool ending_is_forgivable(const struct ending *e)
{
    return unforgivable(e) == NULL;
}

/* ------------------------------------------------------------------ once more */

static void restart_say(struct restart *r, const char *what)
{
    const struct ending *e = &r->last;
    r->says(r->says_arg, arena_printf(r->a, "%s%s%s; %s", e->says, e->upstream ? "; possibly " : "",
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
        restart_say(r, arena_printf(r->a, "forgiven: passed on as status %d", r->last.status));
        return false;
    }
    if (!r->enabled) {
        restart_say(r, arena_printf(r->a, "not forgiven: %s", unforgivable(&r->last)));
        return false;
    }
    if (r->max && r->count == r->max) {
        restart_say(r, arena_printf(r->a, "not started again: %u start%s allowed after the first",
                                    r->max, r->max == 1 ? " was" : "s were"));
        return false;
    }
    *ret_delay_ms = next_delay(r, end);
    r->count++;
    restart_say(r, arena_printf(r->a, "start %u after the first, in %u.%03u s", r->count,
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
