/*
 * CUPTI's way to the calls. The driver loads the library that CUDA_INJECTION64_PATH names at cuInit
 * and calls its InitializeInjection() (CUPTI documentation, "Injection"; the sample
 * cuda_trace_injection). That is this library once more, in the program's own namespace: the copy
 * that the loader asks (LD_AUDIT) is told of it, and leaves it a pointer to itself, so that all is
 * told in one place. The copy subscribes to the calls of the driver and the runtime, which shows a
 * runtime's calls also where it is linked statically; from then on the stubs are silent.
 *
 * CUPTI has room for one subscriber. So it is left alone where the program has it loaded itself
 * (PyTorch's profiler); where it is not found, or refuses, the stubs go on.
 *
 * Types: CUPTI 12.4, cupti_callbacks.h: cuptiSubscribe, cuptiEnableDomain, CUpti_CallbackData;
 * parameters are structures with the arguments as members (generated_cuda_meta.h).
 */
#include <dlfcn.h>
#include <sys/syscall.h>

#include "inject/gpucalls/gpucall.h"

#define ENTRY_POINT __attribute__((visibility("default")))

enum {
    DRIVER_CALLS = 1,
    RUNTIME_CALLS = 2,
    ENTER = 0,
    PATH = 1024,
    NAME = 128,
    THREADS = 1024,
    VERSION = 1
};

struct callback_data { // CUpti_CallbackData
    int site;
    const char *function;
    const void *parameters;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_number;
    uint64_t *correlation_data;
    uint32_t correlation;
};

typedef void (*callback)(void *arg, int domain, uint32_t function,
                         const struct callback_data *data);

/* What the loader's copy gives to the driver's. */
struct gpucall_peer {
    uint32_t version;
    uintptr_t (*symbol)(const char *object, const char *name);
    const char *(*path)(const char *object);
    void (*starts)(void);
    void (*enters)(void);
    void (*leaves)(int domain, const struct callback_data *data, struct unwind_registers *r);
};

ENTRY_POINT extern const struct gpucall_peer *gpucall_peer;
const struct gpucall_peer *gpucall_peer;

/* ------------------------------------------------------------------ the loader's copy */

static long subscribed; // the process in which CUPTI tells of calls

bool gpucall_is_cupti(void)
{
    long pid = subscribed ? system_call(SYS_getpid, 0, 0, 0, 0, 0, 0) : 0;
    return pid && pid == subscribed; // not in a child of fork()
}

static uintptr_t symbol_in(const char *object, const char *name)
{
    for (uint32_t i = 0; i < GPUCALL_OBJECTS; i++) {
        const struct gpucall_object *o = &gpucall_objects[i];
        if (!o->map || !text_begins(text_base(o->map->l_name), object)) {
            continue;
        }
        for (uint32_t s = 1; s < o->n_symbols; s++) {
            if (o->symbols[s].st_shndx != SHN_UNDEF && o->symbols[s].st_name < o->n_strings &&
                text_equal(o->strings + o->symbols[s].st_name, name)) {
                return o->map->l_addr + o->symbols[s].st_value;
            }
        }
    }
    return 0;
}

static const char *path_of(const char *object)
{
    for (uint32_t i = 0; i < GPUCALL_OBJECTS; i++) {
        const struct gpucall_object *o = &gpucall_objects[i];
        if (o->map && text_begins(text_base(o->map->l_name), object)) {
            return o->map->l_name;
        }
    }
    return NULL;
}

static void cupti_starts(void)
{
    subscribed = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* Which runtime calls a thread is in, by the address of its own storage. */
static struct thread {
    uintptr_t who; // 0: free
    uint32_t depth;
    uint64_t inner; // the failure inside it that is known
} threads[THREADS];

static uintptr_t this_thread(void)
{
    uintptr_t who;
#ifdef __x86_64__
    __asm__("mov %%fs:0, %0" : "=r"(who));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(who));
#endif
    return who;
}

static struct thread *cupti_thread(bool make)
{
    uintptr_t who = this_thread();
    uint32_t at = (uint32_t)((who * 0x9e3779b97f4a7c15u) >> 54);
    struct thread *unused = NULL;
    for (uint32_t i = 0; i < 16; i++) {
        struct thread *t = &threads[(at + i) % THREADS];
        uintptr_t now = __atomic_load_n(&t->who, __ATOMIC_ACQUIRE);
        if (now == who) {
            return t;
        }
        unused = unused || now ? unused : t;
    }
    uintptr_t none = 0;
    return make && unused &&
                   __atomic_compare_exchange_n(&unused->who, &none, who, false, __ATOMIC_ACQ_REL,
                                               __ATOMIC_ACQUIRE)
               ? unused
               : NULL;
}

static void runtime_enters(void)
{
    struct thread *t = cupti_thread(true);
    if (t && t->depth++ == 0) {
        t->inner = 0;
    }
}

/* "cudaMalloc_v3020" as well: the runtime's functions have the version in their callback's name. */
static const struct gpucall_function *function_named(const char *given)
{
    char name[NAME];
    size_t n = 0;
    const struct gpucall_function *found = gpucall_function_named(given);
    for (; given[n] && n < NAME - 1; n++) {
        name[n] = given[n];
    }
    name[n] = '\0';
    while (!found && n > 1) {
        if (name[--n] == '_') {
            name[n] = '\0';
            found = gpucall_function_named(name);
        }
    }
    return found;
}

/* Past the frames of the libraries in between: where the program called. */
static void skip_libraries(struct gpucall_trace *trace)
{
    unsigned n = 0;
    while (n < trace->n) {
        const struct gpucall_object *o = gpucall_object_of(trace->pc[n] - 1);
        const char *name = o ? text_base(o->map->l_name) : "";
        if (!o || !(o->gpu || text_begins(name, "libcupti.so") || text_begins(name, "gpumend-"))) {
            break;
        }
        n++;
    }
    if (n == trace->n) {
        return;
    }
    for (unsigned i = n; i < trace->n; i++) {
        trace->pc[i - n] = trace->pc[i];
    }
    trace->n -= n;
}

static void call_failed(int domain, const struct callback_data *d, int result,
                        struct unwind_registers *r, struct thread *t)
{
    const struct gpucall_function *f = function_named(d->function);
    const char *name = f ? gpucall_text + f->name : NULL;
    const struct gpucall_call asked = {
        .function = f, .name = name, .result = result, .members = d->parameters};
    if (!f || gpucall_by_design(&asked)) {
        gpucall_succeeded(t && domain == RUNTIME_CALLS ? t->inner : 0);
        return;
    }
    struct gpucall_trace trace;
    gpucall_walk(r, &trace);
    skip_libraries(&trace);
    const struct gpucall_call call = {.function = f,
                                      .name = name,
                                      .result = result,
                                      .api = domain == RUNTIME_CALLS ? GPUCALL_RUNTIME
                                                                     : GPUCALL_DRIVER,
                                      .back = trace.n ? trace.pc[0] : 0,
                                      .members = d->parameters,
                                      .inner = domain == RUNTIME_CALLS && t ? t->inner : 0};
    gpucall_failed_at(&call, &trace, domain == DRIVER_CALLS && t && t->depth ? &t->inner : NULL);
}

static void call_leaves(int domain, const struct callback_data *d, struct unwind_registers *r)
{
    if (!gpucall_is_cupti()) {
        return; // a child of fork(), whose calls the stubs tell
    }
    struct thread *t = cupti_thread(false);
    int result = d->result ? *(const int *)d->result : 0;
    if (result) {
        call_failed(domain, d, result, r, t);
    } else if (t && domain == RUNTIME_CALLS) {
        gpucall_succeeded(t->inner);
    }
    if (t && domain == RUNTIME_CALLS && t->depth && --t->depth == 0) {
        t->inner = 0;
        __atomic_store_n(&t->who, 0, __ATOMIC_RELEASE);
    }
}

static const struct gpucall_peer self = {.version = VERSION,
                                         .symbol = symbol_in,
                                         .path = path_of,
                                         .starts = cupti_starts,
                                         .enters = runtime_enters,
                                         .leaves = call_leaves};

void gpucall_introduce(const struct gpucall_object *o)
{
    for (uint32_t i = 1; i < o->n_symbols; i++) {
        const Elf64_Sym *s = &o->symbols[i];
        if (s->st_shndx != SHN_UNDEF && s->st_size == sizeof(void *) && s->st_name < o->n_strings &&
            text_equal(o->strings + s->st_name, "gpucall_peer")) {
            *(const struct gpucall_peer **)(o->map->l_addr + s->st_value) =
                &self; // NOLINT: its place
        }
    }
}

/* ------------------------------------------------------------------ the driver's copy */

static void on_call(void *arg, int domain, uint32_t function, const struct callback_data *d)
{
    struct unwind_registers registers;
    (void)arg, (void)function;
    if (d->site == ENTER) {
        if (domain == RUNTIME_CALLS) {
            gpucall_peer->enters();
        }
        return;
    }
    if (domain == DRIVER_CALLS && d->result && !*(const int *)d->result) {
        return;
    }
    gpucall_here(&registers);
    gpucall_peer->leaves(domain, d, &registers);
}

static void *(*open_library)(const char *, int);
static void *(*find_symbol)(void *, const char *);

static bool join_path(char *ret, const char *folder, size_t n_folder, const char *more,
                      const char *major)
{
    const char *const parts[] = {more, "libcupti.so.", major};
    size_t n = 0;
    if (n_folder >= PATH) {
        return false;
    }
    for (; n < n_folder; n++) {
        ret[n] = folder[n];
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (const char *c = parts[i]; *c; c++) {
            if (n + 1 >= PATH) {
                return false;
            }
            ret[n++] = *c;
        }
    }
    ret[n] = '\0';
    return true;
}

/* Beside the runtime: one folder (Debian, conda), NVIDIA's wheels, the toolkit; else by its name.
 * The major versions of runtime and CUPTI are the same from CUDA 12 on. */
static void *open_cupti(void)
{
    static const char *const more[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};
    char path[PATH];
    const char *runtime = gpucall_peer->path("libcudart.so.");
    const char *name = runtime ? text_base(runtime) : NULL;
    const char *major = name ? name + sizeof "libcudart.so." - 1 : "12";
    void *found = NULL;
    for (size_t i = 0; runtime && !found && i < sizeof more / sizeof *more; i++) {
        if (join_path(path, runtime, (size_t)(name - runtime), more[i], major)) {
            found = open_library(path, RTLD_NOW);
        }
    }
    return found || !join_path(path, "", 0, "", major) ? found : open_library(path, RTLD_NOW);
}

ENTRY_POINT int InitializeInjection(void);

/* Whatever comes of it, the driver goes on. */
int InitializeInjection(void)
{
    const struct gpucall_peer *p = gpucall_peer;
    if (!p || p->version != VERSION || p->path("libcupti.so")) {
        return 1;
    }
    uintptr_t opens = p->symbol("libc.so.", "dlopen"), finds = p->symbol("libc.so.", "dlsym");
    opens = opens ? opens : p->symbol("libdl.so.", "dlopen"); // before glibc 2.34
    finds = finds ? finds : p->symbol("libdl.so.", "dlsym");
    open_library = (void *(*)(const char *, int))opens;   // NOLINT
    find_symbol = (void *(*)(void *, const char *))finds; // NOLINT
    void *cupti = opens && finds ? open_cupti() : NULL, *subscriber = NULL;
    if (!cupti) {
        return 1;
    }
    int (*subscribe)(void **, callback, void *) =
        (int (*)(void **, callback, void *))find_symbol(cupti, "cuptiSubscribe");
    int (*enable)(uint32_t, void *, int) =
        (int (*)(uint32_t, void *, int))find_symbol(cupti, "cuptiEnableDomain");
    int (*leave)(void *) = (int (*)(void *))find_symbol(cupti, "cuptiUnsubscribe");
    if (!subscribe || !enable || !leave || subscribe(&subscriber, on_call, NULL)) {
        return 1;
    }
    if (enable(1, subscriber, DRIVER_CALLS) || enable(1, subscriber, RUNTIME_CALLS)) {
        (void)leave(subscriber);
        return 1;
    }
    p->starts();
    return 1;
}
