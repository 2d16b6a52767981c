/* The loader's questions to the helper, and the stubs that it hands out (gpucall.h). */
#include "inject/gpucalls/gpucall.h"
#include "inject/loss_page.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define ENTRY_POINT __attribute__((visibility("default")))

enum { SPINS = 100000, LOOKS = 8, STACK_MORE = 4, READY = 1, STALE = 2, TAKEN = 3 };

struct gpucall_entry gpucall_entries[GPUCALL_STUBS] __attribute__((aligned(64)));

static const char *where;              // GPUMEND_TRACE_GPU
static const char *losses;             // LOSS_VARIABLE
static const Elf64_Phdr *main_headers; // the program's, out of the auxiliary vector
static size_t n_main_headers;
static bool every_binding; // asked for: costs nothing there
static bool is_ending;

/* ------------------------------------------------------------------ the start */

static void gpucall_start(int argc, char **argv, char **env)
{
    static const char name[] = "GPUMEND_TRACE_GPU=", page[] = LOSS_VARIABLE "=";
    (void)argc, (void)argv;
    for (; *env; env++) {
        where = text_begins(*env, name) ? *env + sizeof name - 1 : where;
        losses = text_begins(*env, page) ? *env + sizeof page - 1 : losses;
    }
    for (const Elf64_auxv_t *at = (const Elf64_auxv_t *)(env + 1); at->a_type != AT_NULL; at++) {
        if (at->a_type == AT_PHDR) {
            main_headers = (const Elf64_Phdr *)at->a_un.a_val; // NOLINT: the kernel's address
        } else if (at->a_type == AT_PHNUM) {
            n_main_headers = at->a_un.a_val;
        } else if (at->a_type == AT_SECURE && at->a_un.a_val) {
            where = NULL;
            return;
        }
    }
}

static void (*const starts[])(int, char **, char **)
    __attribute__((section(".init_array"), used)) = {gpucall_start};
static void (*const ends[])(void)
    __attribute__((section(".fini_array"), used)) = {gpucall_tell_end};

ENTRY_POINT unsigned la_version(unsigned version);
ENTRY_POINT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);
ENTRY_POINT unsigned la_objclose(uintptr_t *cookie);
ENTRY_POINT void la_activity(uintptr_t *cookie, unsigned flag);
ENTRY_POINT void la_preinit(uintptr_t *cookie);
#ifdef __LP64__
ENTRY_POINT uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from,
                                   uintptr_t *to, unsigned *flags, const char *name);
#endif

/* 0: the loader unloads the helper and says nothing. */
unsigned la_version(unsigned version)
{
    /* Before glibc 2.35 an audit library damages calls on aarch64 (glibc's bug 26643). */
#ifdef __aarch64__
    const unsigned least = 2;
#else
    const unsigned least = 1;
#endif
    if (!where || !*where || version < least) {
        return 0;
    }
    /* Before version 2 (glibc 2.35) the loader leaves every call of an object that is watched
     * unbound, which makes all of them slow: few objects are watched there. */
    every_binding = version >= 2;
    gpucall_tell_start(where, losses);
    return version;
}

/* ------------------------------------------------------------------ objects */

static void look_for_waiting(void);

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    (void)space;
    struct gpucall_object *o = NULL;
    for (uint32_t i = 0; i < GPUCALL_OBJECTS && !o; i++) {
        o = gpucall_objects[i].map ? NULL : &gpucall_objects[i];
    }
    *cookie = (uintptr_t)o;
    if (!o) {
        return 0;
    }
    look_for_waiting();
    bool is_main = !gpucall_n_objects;
    struct gpucall_object seen = {.map = map, .gpu = gpucall_is_library(map->l_name)};
    gpucall_object_learn(&seen, is_main ? main_headers : NULL, n_main_headers);
    bool needs = gpucall_needs_library(&seen);
    seen.waiting = needs && !seen.gpu ? LOOKS : 0;
    *o = seen;
    if (text_equal(text_base(map->l_name), "gpumend-gpucall.so")) {
        gpucall_introduce(o);
    }
    uint32_t slot = (uint32_t)(o - gpucall_objects);
    gpucall_n_objects = slot >= gpucall_n_objects ? slot + 1 : gpucall_n_objects;
    bool from = every_binding || needs || seen.gpu || gpucall_refers_to(&seen, "dlsym");
    bool tells = every_binding && text_begins(text_base(map->l_name), "libc.so.");
    return (from ? LA_FLG_BINDFROM : 0u) | (seen.gpu || tells ? LA_FLG_BINDTO : 0u);
}

/* Stubs of functions that are gone wait for the same functions, should the library come back. */
static void free_stubs(const struct gpucall_object *o)
{
    for (uint32_t i = 0; o->gpu && i < GPUCALL_STUBS; i++) {
        struct gpucall_entry *e = &gpucall_entries[i];
        if (e->ready && e->real >= o->memory.low && e->real < o->memory.high) {
            __atomic_store_n(&e->ready, STALE, __ATOMIC_RELEASE);
        }
    }
}

/* The program itself is closed first, when it ends: from then on all stay where they are. */
unsigned la_objclose(uintptr_t *cookie)
{
    struct gpucall_object *o = (struct gpucall_object *)*cookie; // NOLINT: from la_objopen()
    is_ending = is_ending || o == gpucall_objects;
    if (o && !is_ending) {
        o->map = NULL;
        free_stubs(o);
    }
    return 0;
}

/* ------------------------------------------------------------------ functions */

static int versions_compare(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++, b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

/* The first row whose name is not before `name`. */
static uint32_t first_from(const char *name)
{
    uint32_t low = 0, high = gpucall_n_functions;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (versions_compare(gpucall_text + gpucall_functions[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct gpucall_function *gpucall_function_named(const char *name)
{
    uint32_t i = first_from(name);
    return i < gpucall_n_functions && text_equal(gpucall_text + gpucall_functions[i].name, name)
               ? &gpucall_functions[i]
               : NULL;
}

static bool is_asked(const char *base, const char *name, bool per_thread)
{
    if (!text_begins(base, name)) {
        return false;
    }
    const char *rest = base + text_length(name);
    return per_thread ? text_equal(rest, "_ptsz") || text_equal(rest, "_ptds") : !*rest;
}

/* Driver API, cuGetProcAddress: the newest form that is not newer than the version asked for; a
 * function without a form for each thread's own stream is given as it is. */
const struct gpucall_function *gpucall_function_asked(const char *name, uint32_t version,
                                                      bool per_thread)
{
    const struct gpucall_function *found = NULL;
    for (uint32_t i = first_from(name); i < gpucall_n_functions; i++) {
        const struct gpucall_function *f = &gpucall_functions[i];
        if (!text_begins(gpucall_text + f->name, name)) {
            break;
        }
        if (is_asked(gpucall_text + f->base, name, per_thread) && f->version <= version &&
            (!found || f->version > found->version)) {
            found = f;
        }
    }
    return found || !per_thread ? found : gpucall_function_asked(name, version, false);
}

/* System V ABI for x86-64, section 3.2.3; AAPCS64, section 6.8.2: how many words of the arguments
 * stand on the stack. A newer form of the function under the same name may have more. */
static uint32_t words_on_stack(const struct gpucall_function *f)
{
    uint32_t registers = 0, words = 0, arguments = 0;
    for (const char *k = gpucall_text + f->kinds; *k; arguments++) {
        uint32_t size = 0, n = 1;
        bool by_value = *k == 'S', floating = *k == 'F';
        for (k++; *k >= '0' && *k <= '9'; k++) {
            size = size * 10 + (uint32_t)(*k - '0');
        }
        n = by_value ? (size + 7) / 8 : n;
#ifdef __aarch64__
        n = n > 2 ? 1 : n; // by its address
#endif
        if (floating) {
            n = 0;
        } else if (n <= 2 && registers + n <= GPUCALL_REGISTERS) {
            registers += n;
        } else {
            words += n;
        }
        while (*k && *k++ != ' ') {
        }
    }
    words += arguments >= 3 ? STACK_MORE : 0;
    return (words + 1) & ~1u;
}

static bool is_hook(const char *name)
{
    return text_begins(name, "cuGetProcAddress") || text_equal(name, "hipGetProcAddress");
}

static bool wait_ready(struct gpucall_entry *e)
{
    for (int i = 0; i < SPINS; i++) {
        if (__atomic_load_n(&e->ready, __ATOMIC_ACQUIRE) == READY) {
            return true;
        }
    }
    return false; // its maker was lost, in a fork
}

static void entry_fill(struct gpucall_entry *e, uintptr_t real, uint32_t index)
{
    const struct gpucall_function *function = &gpucall_functions[index];
    e->real = real;
    e->function = index;
    e->words = words_on_stack(function);
    e->always = is_hook(gpucall_text + function->name);
    __atomic_store_n(&e->ready, READY, __ATOMIC_RELEASE);
}

/* A stub of the same function in a library that was closed. */
static bool take_stale(struct gpucall_entry *e, uint64_t key, uintptr_t real, uint32_t index)
{
    uint32_t stale = STALE;
    if (e->function != index || !__atomic_compare_exchange_n(&e->ready, &stale, TAKEN, false,
                                                             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return false;
    }
    __atomic_store_n(&e->key, key, __ATOMIC_RELEASE);
    entry_fill(e, real, index);
    return true;
}

/* A hash table by the function, so that all stubs of one stand together. */
static uint32_t entry_place(uint32_t index, uint32_t step)
{
    return (uint32_t)(((index + 1) * 0x9e3779b97f4a7c15u) >> 52) % GPUCALL_STUBS + step;
}

uintptr_t gpucall_stub_for(uintptr_t real, const struct gpucall_function *function)
{
    uintptr_t stubs = (uintptr_t)gpucall_stubs;
    uint32_t index = (uint32_t)(function - gpucall_functions), n = 0;
    uint64_t key = (uint64_t)real << 16 ^ index;
    if (!real || (real >= stubs && real < stubs + (uintptr_t)GPUCALL_STUBS * 16)) {
        return real;
    }
    for (; n < GPUCALL_STUBS; n++) { // one that is there
        uint32_t at = entry_place(index, n) % GPUCALL_STUBS;
        uint64_t now = __atomic_load_n(&gpucall_entries[at].key, __ATOMIC_ACQUIRE);
        if (now == key && __atomic_load_n(&gpucall_entries[at].ready, __ATOMIC_ACQUIRE) != STALE) {
            return wait_ready(&gpucall_entries[at]) ? stubs + (uintptr_t)at * 16 : real;
        }
        if (!now) {
            break;
        }
    }
    for (uint32_t i = 0; i < n; i++) { // one that was
        uint32_t at = entry_place(index, i) % GPUCALL_STUBS;
        if (take_stale(&gpucall_entries[at], key, real, index)) {
            return stubs + (uintptr_t)at * 16;
        }
    }
    for (; n < GPUCALL_STUBS; n++) { // a new one
        uint32_t at = entry_place(index, n) % GPUCALL_STUBS;
        uint64_t now = 0;
        if (__atomic_compare_exchange_n(&gpucall_entries[at].key, &now, key, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            entry_fill(&gpucall_entries[at], real, index);
            return stubs + (uintptr_t)at * 16;
        }
    }
    return real; // as many as there are stubs
}

/* ------------------------------------------------------------------ bindings */

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name)
{
    (void)index, (void)flags;
    const struct gpucall_object *of = (const struct gpucall_object *)*to;     // NOLINT: a cookie
    const struct gpucall_object *user = (const struct gpucall_object *)*from; // NOLINT
    if (user && user->waiting) {
        look_for_waiting();
    }
    if (!of || !of->gpu || of == user) {
        return symbol->st_value;
    }
    const struct gpucall_function *f = gpucall_function_named(name);
    return f ? gpucall_stub_for(symbol->st_value, f) : symbol->st_value;
}

#ifdef __x86_64__
enum { R_DATA = R_X86_64_GLOB_DAT, R_ADDRESS = R_X86_64_64, R_CALL = R_X86_64_JUMP_SLOT };
#else
enum { R_DATA = R_AARCH64_GLOB_DAT, R_ADDRESS = R_AARCH64_ABS64, R_CALL = R_AARCH64_JUMP_SLOT };
#endif

/* By the kernel's hand, which answers EFAULT where the page may not be written. What it answers
 * otherwise but the size of a word says that this system call is not to be had. */
static long write_by_kernel(uintptr_t *slot, uintptr_t value)
{
    const struct iovec word = {&value, sizeof value}, there = {slot, sizeof value};
    long pid = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    long rc = system_call(SYS_process_vm_writev, pid, (long)&word, 1, (long)&there, 1, 0);
    int pipe[2];
    if (rc == (long)sizeof value || rc == -EFAULT ||
        system_call(SYS_pipe2, (long)pipe, O_CLOEXEC | O_NONBLOCK, 0, 0, 0, 0)) {
        return rc;
    }
    rc = system_call(SYS_write, pipe[1], (long)&value, sizeof value, 0, 0, 0);
    if (rc == (long)sizeof value) {
        rc = system_call(SYS_read, pipe[0], (long)slot, sizeof value, 0, 0, 0);
    }
    (void)system_call(SYS_close, pipe[0], 0, 0, 0, 0, 0);
    (void)system_call(SYS_close, pipe[1], 0, 0, 0, 0, 0);
    return rc;
}

/* A page that may not be written is one that the loader made read-only after the relocation, and is
 * so again. mprotect() takes the beginning of a page alone, and says no to one of smaller pages. */
static void write_slot(uintptr_t *slot, uintptr_t value)
{
    bool done = write_by_kernel(slot, value) != -EFAULT;
    for (uintptr_t size = PAGE_SIZE_MIN; !done && size <= PAGE_SIZE_MAX; size *= 4) {
        long page = (long)((uintptr_t)slot & ~(size - 1));
        if (system_call(SYS_mprotect, page, (long)size, PROT_READ | PROT_WRITE, 0, 0, 0) == 0) {
            __atomic_store_n(slot, value, __ATOMIC_RELEASE);
            (void)system_call(SYS_mprotect, page, (long)size, PROT_READ, 0, 0, 0);
            done = true;
        }
    }
}

/* One relocation of an object that refers to GPU functions. False: it is not done yet. */
static bool bind_relocation(const struct gpucall_object *o, const Elf64_Rela *r)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info), s = (uint32_t)ELF64_R_SYM(r->r_info);
    if (!s || s >= o->n_symbols || (type != R_DATA && type != R_ADDRESS && type != R_CALL)) {
        return true;
    }
    const char *name = o->strings + o->symbols[s].st_name;
    if (*name != 'c' && *name != 'h') {
        return true;
    }
    const struct gpucall_function *f = gpucall_function_named(name);
    if (!f) {
        return true;
    }
    uintptr_t *slot = (uintptr_t *)(o->map->l_addr + r->r_offset); // NOLINT: mapped
    uintptr_t value = *slot, stubs = (uintptr_t)gpucall_stubs;
    if (value >= stubs && value < stubs + (uintptr_t)GPUCALL_STUBS * 16) {
        return true;
    }
    const struct gpucall_object *of = gpucall_object_of(value);
    if (of && of->gpu) {
        write_slot(slot, gpucall_stub_for(value, f));
        return true;
    }
    return type == R_CALL; // bound at its first call
}

static bool look_through(const struct gpucall_object *o, int64_t at_tag, int64_t size_tag)
{
    uintptr_t at = gpucall_dynamic(o->map, at_tag);
    const Elf64_Rela *r = (const Elf64_Rela *)gpucall_pointer(o->map, at); // NOLINT: mapped
    bool done = true;
    for (size_t n = at ? gpucall_dynamic(o->map, size_tag) / sizeof *r : 0; n; n--, r++) {
        done = bind_relocation(o, r) && done;
    }
    return done;
}

/*
 * la_symbind64() is not told of addresses that stand in data (code without a PLT, tables of
 * functions), nor before glibc 2.35 of objects that are bound at once. Those slots are looked
 * through after the object's relocation, of which there is no notice: at the next question that
 * the loader asks.
 */
static void look_for_waiting(void)
{
    for (uint32_t i = 0; i < gpucall_n_objects; i++) {
        struct gpucall_object *o = &gpucall_objects[i];
        if (!o->map || !o->waiting || !o->symbols) {
            continue;
        }
        bool done = look_through(o, DT_RELA, DT_RELASZ);
        done = look_through(o, DT_JMPREL, DT_PLTRELSZ) && done;
        o->waiting = done ? 0 : o->waiting - 1;
    }
}

void la_activity(uintptr_t *cookie, unsigned flag)
{
    (void)cookie, (void)flag;
    look_for_waiting();
}

void la_preinit(uintptr_t *cookie)
{
    (void)cookie;
    look_for_waiting();
}

/* ------------------------------------------------------------------ calls */

static enum gpucall_api api_of(const char *name)
{
    return *name == 'h'                ? GPUCALL_HIP
           : text_begins(name, "cuda") ? GPUCALL_RUNTIME
                                       : GPUCALL_DRIVER;
}

/* cuGetProcAddress(symbol, pfn, version, flags, ...): what it handed out is replaced.
 * Driver API, "Driver Entry Point Access": flag 2 asks for each thread's own stream. */
static void hand_out(const struct gpucall_frame *f)
{
    char name[128];
    bool ok = true;
    uintptr_t at = f->arguments[0], place = f->arguments[1], real = unwind_word(place, &ok);
    size_t n = 0;
    while (ok && n < sizeof name - 1 && unwind_read(&name[n], at + n, 1) && name[n]) {
        n++;
    }
    name[n] = '\0';
    if (!ok || !real || !n) {
        return;
    }
    bool hip = *name == 'h';
    const struct gpucall_function *asked = gpucall_function_asked(
        name, hip ? 0 : (uint32_t)f->arguments[2], !hip && (f->arguments[3] & 2));
    if (asked) {
        *(uintptr_t *)place = gpucall_stub_for(real, asked); // NOLINT: it was just written there
    }
}

void gpucall_slow(struct gpucall_frame *f, const uint64_t *saved, int result)
{
    const struct gpucall_function *function = &gpucall_functions[f->entry->function];
    const char *name = gpucall_text + function->name;
    if (!result) {
        if (f->entry->always) {
            hand_out(f);
        }
        gpucall_succeeded(f->inner);
        return;
    }
    const struct gpucall_call call = {.function = function,
                                      .name = name,
                                      .api = api_of(name),
                                      .result = result,
                                      .back = f->back,
                                      .registers = f->arguments,
                                      .stack = f->stack,
                                      .inner = f->inner};
    if (gpucall_by_design(&call)) {
        gpucall_succeeded(f->inner);
        return;
    }
    if (*name == 'c' && gpucall_is_cupti()) {
        return;
    }
    struct unwind_registers registers;
    gpucall_registers_at(f, saved, &registers);
    gpucall_failed(&call, &registers);
}
