/* The backtrace of a failing call (inject/unwind.h), through stubs that lie on the way. */
#include "inject/gpucalls/gpucall.h"

#ifdef __x86_64__
void gpucall_registers_at(const struct gpucall_frame *f, const uint64_t *saved,
                          struct unwind_registers *ret)
{
    *ret = (struct unwind_registers){.pc = f->back};
    ret->r[3] = saved[0]; // rbx, r12 to r15
    for (unsigned i = 0; i < 4; i++) {
        ret->r[12 + i] = saved[1 + i];
    }
    ret->r[UNWIND_FRAME] = f->frame;
    ret->r[UNWIND_STACK] = (uintptr_t)f->stack;
}

static struct gpucall_frame *frame_of(const struct unwind_registers *g)
{
    return (struct gpucall_frame *)(g->r[UNWIND_FRAME] -
                                    offsetof(struct gpucall_frame, frame)); // NOLINT
}
#else
void gpucall_registers_at(const struct gpucall_frame *f, const uint64_t *saved,
                          struct unwind_registers *ret)
{
    *ret = (struct unwind_registers){.pc = f->back};
    for (unsigned i = 0; i < GPUCALL_SAVED; i++) {
        ret->r[19 + i] = saved[i]; // x19 to x28
    }
    ret->r[UNWIND_FRAME] = f->frame;
    ret->r[UNWIND_BACK] = f->back;
    ret->r[UNWIND_STACK] = (uintptr_t)f->stack;
}

static struct gpucall_frame *frame_of(const struct unwind_registers *g)
{
    return (struct gpucall_frame *)g->r[UNWIND_FRAME]; // NOLINT: of gpucall_enter
}
#endif

/* Out of gpucall_enter, which is of no object of the program. */
static void step_out(struct unwind_registers *g, const struct gpucall_frame *f)
{
    g->pc = f->back;
    g->r[UNWIND_FRAME] = f->frame;
    g->r[UNWIND_STACK] = (uintptr_t)f->stack;
}

void gpucall_walk(struct unwind_registers *g, struct gpucall_trace *ret)
{
    struct unwind_space space;
    bool signal = false;
    ret->n = 0;
    ret->outer = NULL;
    while (g->pc && ret->n < GPUCALL_FRAMES) {
        uint64_t stack = g->r[UNWIND_STACK];
        if (g->pc == (uintptr_t)gpucall_returned) {
            struct gpucall_frame *f = frame_of(g);
            ret->outer = ret->outer ? ret->outer : f;
            step_out(g, f);
            continue;
        }
        ret->pc[ret->n++] = g->pc;
        uint64_t at = signal ? g->pc : g->pc - 1; // a call may be its function's last instruction
        signal = false;
        const struct gpucall_object *o = gpucall_object_of(at);
        if (!unwind_described(o ? &o->memory : NULL, g, at, &space, &signal) &&
            !(unwind_by_pointer(g) && gpucall_object_of(g->pc))) {
            return;
        }
        if (g->r[UNWIND_STACK] <= stack && ret->n > 1 && !signal) {
            return;
        }
    }
}
