/*
 * How far the process has come, and where a fatal signal hit it, written into the supervisor's page
 * (inject/end_page.h). The handler of signals is set only where the program has the default; it
 * writes down what it sees, takes itself away and lets the signal happen again, so that core files
 * and exit statuses are what they would be. It takes no lock and asks the kernel alone.
 *
 * Which objects' code was running is read off the stack's frames (inject/unwind.h). Where they
 * do not lead to the stack's end, each word of the stack that is an address of code counts, and old
 * ones are among these.
 */
#include "inject/guard/guard.h"
#include "inject/unwind.h"

#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { STACK_WORDS = 1024, FRAMES_MAX = 128, MAPS_BYTES = 16384, NO_OBJECT = 255 };

__thread struct end_thread end_thread;

static struct end_page *page;

bool end_active(void)
{
    /* A forked child has the page too, but it is not the one that is supervised. */
    return page && page->pid == sys_pid();
}

void end_leaving(int status, bool status_known)
{
    if (!end_active() || page->phase != END_RUNNING) {
        return;
    }
    page->status = status;
    page->status_known = status_known;
    page->gpu_loaded = object_runtime_loaded();
    __atomic_store_n(&page->phase, END_LEAVING, __ATOMIC_RELEASE);
}

void end_handlers(void)
{
    if (end_active()) {
        end_leaving(0, false); // unless it is known already
        __atomic_store_n(&page->phase, END_HANDLERS, __ATOMIC_RELEASE);
    }
}

/* ------------------------------------------------------------------ where the signal hit */

/* What the handler works with; it runs once. */
static struct {
    uint32_t ran;
    uintptr_t words[STACK_WORDS + 1]; // [0]: the program counter
    unsigned char object[STACK_WORDS + 1];
    unsigned n, n_objects;
    char names[STACK_WORDS / 8][END_NAME_MAX];
    char maps[MAPS_BYTES];
} crash;

struct mapping {
    uintptr_t from, to, offset;
    bool executable;
    const char *path; // "" where it is of no file
};

static uintptr_t take_hex(const char **at)
{
    uintptr_t value = 0;
    for (;; (*at)++) {
        char c = **at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit == 16) {
            return value;
        }
        value = value * 16 + digit;
    }
}

/* "from-to rwxp offset dev inode   path" (proc_pid_maps(5)) */
static struct mapping take_mapping(const char *line)
{
    struct mapping m = {.from = take_hex(&line)};
    line += *line == '-';
    m.to = take_hex(&line);
    line += *line == ' ';
    if (text_length(line) > 5) {
        m.executable = line[2] == 'x';
        line += 5;
        m.offset = take_hex(&line);
    }
    while (*line && *line != '/') {
        line++;
    }
    m.path = line;
    return m;
}

/* Calls `each` for every line of /proc/self/maps; false: it cannot be read. */
static bool each_mapping(void (*each)(const struct mapping *))
{
    int fd = sys_open("/proc/self/maps", O_RDONLY);
    size_t kept = 0;
    long got = 0;
    while (fd >= 0 && (got = sys_read(fd, crash.maps + kept, MAPS_BYTES - 1 - kept)) > 0) {
        size_t n = kept + (size_t)got, line = 0;
        for (size_t i = kept; i < n; i++) {
            if (crash.maps[i] == '\n') {
                crash.maps[i] = '\0';
                struct mapping m = take_mapping(crash.maps + line);
                each(&m);
                line = i + 1;
            }
        }
        for (size_t i = line; i < n; i++) {
            crash.maps[i - line] = crash.maps[i];
        }
        /* A line that is too long is no path of ours. */
        kept = n - line < MAPS_BYTES - 1 ? n - line : 0;
    }
    if (fd >= 0) {
        sys_close(fd);
    }
    return fd >= 0 && got == 0;
}

/* Copies the stack into words, as far as its mapping goes. */
static uintptr_t stack_at;

static void copy_stack(const struct mapping *m)
{
    if (stack_at < m->from || stack_at >= m->to) {
        return;
    }
    for (uintptr_t at = stack_at; at + sizeof at <= m->to && crash.n <= STACK_WORDS;
         at += sizeof at) {
        crash.words[crash.n++] = *(const uintptr_t *)at;
    }
}

static unsigned char object_number(const char *path)
{
    unsigned max = sizeof crash.names / sizeof *crash.names;
    for (unsigned i = crash.n_objects; i > 0; i--) {
        if (text_equal(crash.names[i - 1], path)) {
            return (unsigned char)(i - 1);
        }
    }
    if (crash.n_objects == max || text_length(path) >= END_NAME_MAX) {
        return NO_OBJECT;
    }
    text_copy(crash.names[crash.n_objects], path, END_NAME_MAX);
    return (unsigned char)crash.n_objects++;
}

static void mapping_assign(const struct mapping *m)
{
    unsigned char number = NO_OBJECT;
    uintptr_t destructor = (uintptr_t)end_thread.destructor;
    if (end_thread.destructors && destructor >= m->from && destructor < m->to) {
        text_copy(page->destructor_of, m->path, END_NAME_MAX);
    }
    for (unsigned i = 0; m->executable && *m->path && i < crash.n; i++) {
        if (crash.words[i] >= m->from && crash.words[i] < m->to) {
            number = number == NO_OBJECT ? object_number(m->path) : number;
            crash.object[i] = number;
        }
    }
}

static void write_objects(void)
{
    bool seen[STACK_WORDS / 8] = {false};
    unsigned n = 0;
    page->code_unknown = crash.object[0] == NO_OBJECT;
    for (unsigned i = 0; i < crash.n && n < END_OBJECTS_MAX; i++) {
        unsigned char number = crash.object[i];
        if (number != NO_OBJECT && !seen[number]) {
            seen[number] = true;
            text_copy(page->objects[n++], crash.names[number], END_NAME_MAX);
        }
    }
}

static void look_at_words(uintptr_t sp)
{
    stack_at = sp & ~(uintptr_t)(sizeof sp - 1);
    if (!each_mapping(copy_stack)) {
        page->code_unknown = 1;
        return;
    }
    memset(crash.object, NO_OBJECT, sizeof crash.object);
    if (each_mapping(mapping_assign)) {
        write_objects();
    }
}

/* ------------------------------------------------------------------ by frames */

/* The object of the address `around.at`: its file's mappings follow one another, from offset 0. */
static struct {
    uintptr_t at;
    bool found, begun; // begun: in a file's mappings
    char path[END_NAME_MAX];
    struct unwind_object object;
} around;

static void look_around(const struct mapping *m)
{
    if (around.found && !text_equal(m->path, around.path)) {
        around.begun = false;
    }
    if (!around.found && !m->offset && *m->path && text_length(m->path) < END_NAME_MAX) {
        around.begun = true;
        text_copy(around.path, m->path, END_NAME_MAX);
        around.object = (struct unwind_object){.low = m->from};
    }
    if (around.begun && text_equal(m->path, around.path)) {
        around.object.high = m->to;
        around.found |= around.at >= m->from && around.at < m->to;
    }
}

/* .eh_frame_hdr by the headers of the program, which the first mapping holds. */
static void find_frames(struct unwind_object *o)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) p;
    uintptr_t base = o->low;
    bool based = false;
    if (!unwind_read(&head, o->low, sizeof head) || head.e_phentsize != sizeof p) {
        return;
    }
    for (unsigned i = 0; i < head.e_phnum; i++) {
        if (!unwind_read(&p, o->low + head.e_phoff + i * sizeof p, sizeof p)) {
            return;
        }
        if (p.p_type == PT_LOAD && !based) {
            base = o->low - (p.p_vaddr - p.p_offset);
            based = true;
        } else if (p.p_type == PT_GNU_EH_FRAME) {
            o->frames = base + p.p_vaddr;
        }
    }
}

static bool object_around(uintptr_t at)
{
    memset(&around, 0, sizeof around);
    around.at = at;
    if (!each_mapping(look_around) || !around.found) {
        return false;
    }
    find_frames(&around.object);
    return true;
}

/* Adds the object that was just found; false: that of the guard itself, or there is no room. Who
 * called exit() or dlclose(), or runs destructors through us, is not what crashed. */
static bool add_object(void)
{
    unsigned n = 0;
    if (text_begins(text_base(around.path), "gpumend-guard")) {
        return false;
    }
    while (n < END_OBJECTS_MAX && *page->objects[n] && !text_equal(page->objects[n], around.path)) {
        n++;
    }
    if (n == END_OBJECTS_MAX) {
        return false;
    }
    text_copy(page->objects[n], around.path, END_NAME_MAX);
    return true;
}

/* Whether the objects of all frames are known, up to the guard's or the end of the stack. `exact`:
 * the pc is that of the instruction, and not behind it. */
static bool look_at_frames(struct unwind_registers *g, bool exact)
{
    static struct unwind_space space; // the program's stack for signals may be small
    for (unsigned n = 0; g->pc && n < FRAMES_MAX; n++) {
        uintptr_t at = exact ? g->pc : g->pc - 1;
        if (!object_around(at)) {
            return false;
        }
        if (!add_object()) {
            return true;
        }
        if (!unwind_described(&around.object, g, at, &space, &exact)) {
            return false; // by the frame pointer it would be a guess
        }
    }
    return g->pc == 0;
}

/* Of the interrupted code: those registers that DWARF numbers. */
static void registers_of(const ucontext_t *context, struct unwind_registers *ret)
{
#if defined(__x86_64__)
    /* System V ABI for x86-64, figure 3.36 */
    static const unsigned char order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                          REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                          REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++) {
        ret->r[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
    }
    ret->pc = ret->r[UNWIND_BACK];
#elif defined(__aarch64__)
    for (unsigned i = 0; i < UNWIND_STACK; i++) {
        ret->r[i] = context->uc_mcontext.regs[i];
    }
    ret->r[UNWIND_STACK] = context->uc_mcontext.sp;
    ret->pc = context->uc_mcontext.pc;
#endif
}

/* Out of code that is not there (a null pointer was called, or a library that is gone), as its
 * first instruction would return. */
static void step_back(struct unwind_registers *g)
{
#if defined(__x86_64__)
    bool ok = true;
    g->pc = unwind_word(g->r[UNWIND_STACK], &ok);
    g->r[UNWIND_STACK] += sizeof g->pc;
#elif defined(__aarch64__)
    g->pc = g->r[UNWIND_BACK];
#endif
}

static void look_at_stack(const ucontext_t *context)
{
    struct unwind_registers g;
    registers_of(context, &g);
    uintptr_t sp = g.r[UNWIND_STACK];
    page->pc = g.pc;
    crash.words[crash.n++] = g.pc;
    page->code_unknown = !object_around(g.pc);
    /* Of code that was generated, and is there, no frame can be left. */
    bool nothing_there =
        (page->signal == SIGSEGV || page->signal == SIGBUS) && page->address == g.pc;
    if (page->code_unknown && nothing_there) {
        step_back(&g);
    }
    page->walked = (!page->code_unknown || nothing_there) &&
                   look_at_frames(&g, !page->code_unknown) && *page->objects[0];
    if (!page->walked) {
        memset(page->objects, 0, sizeof page->objects);
        look_at_words(sp);
        return;
    }
    memset(crash.object, NO_OBJECT, sizeof crash.object);
    (void)each_mapping(mapping_assign); // for the library whose destructor runs
}

/* ------------------------------------------------------------------ the handler */

static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

/* The kernel's struct sigaction (arch/x86 and arch/arm64: asm/signal.h, asm-generic/signal.h). */
struct kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
};

enum { KERNEL_SA_RESTORER = 0x04000000 };

#if defined(__x86_64__)
/* The bytes by which debuggers know the frame of a signal (glibc, sysdeps/unix/sysv/linux/x86_64).
 */
void guard_restore(void);
__asm__(".text\n.type guard_restore, @function\n.hidden guard_restore\nguard_restore:\n"
        "    mov $15, %rax\n    syscall\n.size guard_restore, . - guard_restore\n");
#endif

static void set_default(int signal)
{
    const struct kernel_action standard = {0};
    (void)system_call(SYS_rt_sigaction, signal, (long)&standard, 0, sizeof standard.mask, 0, 0);
}

static void describe(int signal, const siginfo_t *info, const ucontext_t *context)
{
    page->signal = signal;
    page->code = info->si_code;
    page->tid = sys_tid();
    page->address = info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : 0;
    page->where = (end_thread.destructors ? END_IN_DESTRUCTOR : 0u) |
                  (end_thread.closing ? END_IN_DLCLOSE : 0u) |
                  (end_thread.keeper ? END_ON_KEEPER : 0u);
    __atomic_store_n(&page->crashed, 1, __ATOMIC_RELEASE);
    look_at_stack(context);
}

static void handle(int signal, siginfo_t *info, void *context)
{
    set_default(signal);
    if (end_active() && !__atomic_exchange_n(&crash.ran, 1, __ATOMIC_ACQ_REL)) {
        describe(signal, info, context);
    }
    /* What was sent, and is no fault of the code, does not come back by itself. */
    if (info->si_code <= 0) {
        sys_tell_self(signal);
    }
}

static bool has_default(int signal)
{
    struct kernel_action now = {0};
    return system_call(SYS_rt_sigaction, signal, 0, (long)&now, sizeof now.mask, 0, 0) == 0 &&
           now.handler == NULL;
}

static void set_handler(int signal)
{
    const struct kernel_action ours = {
        .handler = (void *)handle,
        .flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER
#if defined(__x86_64__)
                 | KERNEL_SA_RESTORER,
        .restorer = (void *)guard_restore,
#endif
    };
    if (has_default(signal)) {
        (void)system_call(SYS_rt_sigaction, signal, (long)&ours, 0, sizeof ours.mask, 0, 0);
        page->handler = 1;
    }
}

void end_open(const char *path)
{
    struct {
        uint32_t magic;
        int32_t pid;
    } head = {0};
    int fd = sys_open(path, O_RDWR);
    /* What the program starts has the variable too, and its page is not this one. */
    bool ours = fd >= 0 && sys_pread(fd, &head, sizeof head, 0) == (long)sizeof head &&
                head.magic == END_MAGIC && head.pid == sys_pid();
    page = ours ? sys_map_shared(fd, sizeof *page) : NULL;
    if (fd >= 0) {
        sys_close(fd);
    }
    if (!page) {
        return;
    }
    page->phase = END_RUNNING; // an exec of the same process begins anew
    page->loaded = 1;
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        set_handler(fatal[i]);
    }
}
