/*
 * The stubs that a program calls in place of dlopen, dlmopen, dlerror and the functions that change
 * variables. A stub records the call and jumps to the function.
 */
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "inject/system.h"
#include "inject/text.h"
#include "inject/trace/trace.h"

enum {
    SLOTS = 32,
    ERROR_SLOTS = 4,
};

enum call {
    CALL_DLOPEN,
    CALL_DLMOPEN,
    CALL_SETENV,
    CALL_PUTENV,
    CALL_UNSETENV,
    CALL_DLERROR,
    N_CALLS
};

static const char *const call_names[N_CALLS] = {
    [CALL_DLOPEN] = "dlopen", [CALL_DLMOPEN] = "dlmopen",   [CALL_SETENV] = "setenv",
    [CALL_PUTENV] = "putenv", [CALL_UNSETENV] = "unsetenv", [CALL_DLERROR] = "dlerror",
};

enum { CLAIMED = 1 };

/* One function that calls go on to. Filled once; nobody has its thunk before. */
struct slot {
    uintptr_t real; // 0: free, CLAIMED: being filled; by the __atomic functions
    enum call call;
    const char *definer; // whose it is
};

static struct slot slots[SLOTS];

static struct slot error_slots[ERROR_SLOTS];

/* Whose dlopen is not the loader's own. */
static const char *interposer(const char *definer)
{
    const char *base = text_base(definer ? definer : "libc.so");
    bool own = text_begins(base, "libc.so") || text_begins(base, "libdl.so") ||
               text_begins(base, "libdl-2.") || text_begins(base, "libc-2.") ||
               text_begins(base, "ld-linux") || text_begins(base, "ld-2.");
    return own ? NULL : definer;
}

static void tell_dlopen(const struct slot *s, const char *name, long flags, long space,
                        uintptr_t back)
{
    struct line l;
    trace_look_for_fork(&l);
    trace_begin_event(&l, "dlopen");
    trace_put_member(&l, "name", name);
    trace_put_member(&l, "caller", trace_caller_at(back));
    trace_put_count(&l, "flags", flags);
    trace_put_count(&l, "namespace", space);
    trace_put_member(&l, "interposed_by", interposer(s->definer));
    trace_end_event(&l);
}

static void tell_variable(const struct slot *s, const char *name, const char *value, uintptr_t back)
{
    struct line l;
    size_t n = 0;
    while (name && name[n] && name[n] != '=') {
        n++;
    }
    if (!name || !text_begins(name, "LD_") || n >= 64) {
        return; // variables that the loader does not read
    }
    char key[64];
    for (size_t i = 0; i < n; i++) {
        key[i] = name[i];
    }
    key[n] = '\0';
    trace_look_for_fork(&l);
    trace_begin_event(&l, "setenv");
    trace_put_member(&l, "name", key);
    trace_put_member(&l, "value", s->call == CALL_PUTENV && name[n] == '=' ? name + n + 1 : value);
    trace_put_member(&l, "caller", trace_caller_at(back));
    trace_end_event(&l);
}

/* What a thunk asks: notes the call, says where it goes on. */
__attribute__((used, visibility("hidden"))) uintptr_t
gpumend_trace_called(unsigned index, long a, long b, long c, uintptr_t back);

uintptr_t gpumend_trace_called(unsigned index, long a, long b, long c, uintptr_t back)
{
    const struct slot *s = &slots[index];
    uintptr_t real = __atomic_load_n(&s->real, __ATOMIC_ACQUIRE);
    switch (s->call) {
    case CALL_DLOPEN: tell_dlopen(s, (const char *)a, b, 0, back); break;
    case CALL_DLMOPEN: tell_dlopen(s, (const char *)b, c, a, back); break;
    case CALL_SETENV: tell_variable(s, (const char *)a, (const char *)b, back); break;
    case CALL_PUTENV:
    case CALL_UNSETENV: tell_variable(s, (const char *)a, NULL, back); break;
    case CALL_DLERROR:
    case N_CALLS: break;
    }
    return real;
}

/*
 * One thunk a slot: the arguments stay where they are, and the call goes on by a jump, so that the
 * function returns to who called the thunk.
 */
#if defined(__x86_64__)

__asm__(".text\n"
        ".balign 16\n"
        "gpumend_trace_thunks:\n"
        ".set index, 0\n"
        ".rept 32\n"
        "  .balign 16\n"
        "  endbr64\n"
        "  movl $index, %eax\n"
        "  jmp gpumend_trace_common\n"
        "  .set index, index + 1\n"
        ".endr\n"
        ".balign 16\n"
        "gpumend_trace_common:\n"
        "  .cfi_startproc\n"
        "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n"
        "  sub $8, %rsp\n"
        "  .cfi_def_cfa_offset 64\n"
        "  mov %rdx, %rcx\n"
        "  mov %rsi, %rdx\n"
        "  mov %rdi, %rsi\n"
        "  mov %eax, %edi\n"
        "  mov 56(%rsp), %r8\n"
        "  call gpumend_trace_called\n"
        "  add $8, %rsp\n"
        "  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
        "  .cfi_def_cfa_offset 8\n"
        "  jmp *%rax\n"
        "  .cfi_endproc\n");

#else

__asm__(".text\n"
        ".balign 16\n"
        "gpumend_trace_thunks:\n"
        ".set index, 0\n"
        ".rept 32\n"
        "  .balign 16\n"
        "  hint #34\n" // bti c
        "  mov w17, #index\n"
        "  b gpumend_trace_common\n"
        "  .set index, index + 1\n"
        ".endr\n"
        ".balign 16\n"
        "gpumend_trace_common:\n"
        "  .cfi_startproc\n"
        "  stp x29, x30, [sp, #-96]!\n"
        "  .cfi_def_cfa_offset 96\n"
        "  .cfi_offset 29, -96\n"
        "  .cfi_offset 30, -88\n"
        "  mov x29, sp\n"
        "  stp x0, x1, [sp, #16]\n  stp x2, x3, [sp, #32]\n  stp x4, x5, [sp, #48]\n"
        "  stp x6, x7, [sp, #64]\n  str x8, [sp, #80]\n"
        "  mov x4, x30\n"
        "  mov x3, x2\n"
        "  mov x2, x1\n"
        "  mov x1, x0\n"
        "  mov w0, w17\n"
        "  bl gpumend_trace_called\n"
        "  mov x16, x0\n"
        "  ldp x0, x1, [sp, #16]\n  ldp x2, x3, [sp, #32]\n  ldp x4, x5, [sp, #48]\n"
        "  ldp x6, x7, [sp, #64]\n  ldr x8, [sp, #80]\n"
        "  ldp x29, x30, [sp], #96\n"
        "  br x16\n"
        "  .cfi_endproc\n");

#endif

enum { THUNK_BYTES = 16 };

extern const char gpumend_trace_thunks[] __attribute__((visibility("hidden")));

/* dlerror does not ask who calls it, so here its answer is waited for. */
static char *tell_error(unsigned index)
{
    const struct slot *s = &error_slots[index];
    char *(*real)(void) = (char *(*)(void))s->real;
    char *text = real();
    struct line l;
    if (text) {
        trace_look_for_fork(&l);
        trace_begin_event(&l, "dlerror");
        trace_put_member(&l, "text", text);
        trace_end_event(&l);
    }
    return text;
}

static char *error_0(void)
{
    return tell_error(0);
}

static char *error_1(void)
{
    return tell_error(1);
}

static char *error_2(void)
{
    return tell_error(2);
}

static char *error_3(void)
{
    return tell_error(3);
}

static char *(*const error_thunks[ERROR_SLOTS])(void) = {error_0, error_1, error_2, error_3};

/* Until who claimed it has filled it, which takes no time, or was lost in a fork. */
static void wait_claimed(const struct slot *s)
{
    enum { PATIENCE = 1000 };
    for (int i = 0; i < PATIENCE && __atomic_load_n(&s->real, __ATOMIC_ACQUIRE) == CLAIMED; i++) {
        (void)trace_raw(SYS_sched_yield, 0, 0, 0, 0);
    }
}

/* The slot of this function, a new one if there is none; -1 if all are taken. Without a lock, which
 * a forked child could find taken for ever. */
static int slot_for(struct slot *table, int n, uintptr_t real, enum call call, const char *definer)
{
    for (int i = 0; i < n; i++) {
        uintptr_t free = 0;
        wait_claimed(&table[i]);
        if (__atomic_load_n(&table[i].real, __ATOMIC_ACQUIRE) == real && table[i].call == call) {
            return i;
        }
        if (__atomic_compare_exchange_n(&table[i].real, &free, CLAIMED, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            table[i].call = call;
            table[i].definer = definer;
            __atomic_store_n(&table[i].real, real, __ATOMIC_RELEASE);
            return i;
        }
    }
    return -1;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name)
{
    (void)index, (void)from;
    /* An address that was asked for by dlsym may be compared with another one. */
    if (!name || *flags & LA_SYMB_DLSYM || !trace_has_char("dspu", name[0])) {
        return symbol->st_value;
    }
    for (enum call call = 0; call < N_CALLS; call++) {
        if (!text_equal(name, call_names[call])) {
            continue;
        }
        if (call == CALL_DLERROR) {
            int slot =
                slot_for(error_slots, ERROR_SLOTS, symbol->st_value, call, trace_object_name(to));
            return slot < 0 ? symbol->st_value : (uintptr_t)error_thunks[slot];
        }
        int slot = slot_for(slots, SLOTS, symbol->st_value, call, trace_object_name(to));
        return slot < 0 ? symbol->st_value
                        : (uintptr_t)gpumend_trace_thunks + (uintptr_t)slot * THUNK_BYTES;
    }
    return symbol->st_value;
}
