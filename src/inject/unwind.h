/*
 * One frame of a backtrace after the other, by call frame information: DWARF 5, section 6.4, as the
 * Linux Standard Base has it in .eh_frame and .eh_frame_hdr ("Exception Frames"). A frame without
 * it is left by its frame pointer. It takes no lock, allocates nothing, uses no library, and reads
 * foreign memory by unwind_read() alone.
 */
#ifndef GPUMEND_INJECT_UNWIND_H
#define GPUMEND_INJECT_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __x86_64__
enum { UNWIND_FRAME = 6, UNWIND_STACK = 7, UNWIND_BACK = 16, UNWIND_REGISTERS = 17 };
#else
enum { UNWIND_FRAME = 29, UNWIND_STACK = 31, UNWIND_BACK = 30, UNWIND_REGISTERS = 33 };
#endif

/* Registers as DWARF numbers them. */
struct unwind_registers {
    uint64_t r[UNWIND_REGISTERS];
    uint64_t pc;
};

/* Where a loaded object lies, and its .eh_frame_hdr (0: none). */
struct unwind_object {
    uintptr_t low, high, frames;
};

/* What is known of one register of the caller's (unwind.c). */
struct unwind_rule {
    uint8_t how;
    int64_t value;       // an offset or a register
    const uint8_t *code; // of an expression: its length and its bytes
};

struct unwind_row {
    struct unwind_rule cfa; // REGISTER: its number is in cfa_register
    uint64_t cfa_register;
    struct unwind_rule registers[UNWIND_REGISTERS];
};

/* What a step works with: some 4 KiB, which a signal handler may not have on its stack. */
enum { UNWIND_ROWS = 6 };
struct unwind_space {
    struct unwind_row row, initial, kept[UNWIND_ROWS];
    unsigned n_kept;
};

/* False where nothing is mapped; nothing is read then, or a part. */
bool unwind_read(void *ret, uintptr_t from, size_t n);

/* A word; *ok becomes false where none can be read, and 0 is returned. */
uintptr_t unwind_word(uintptr_t from, bool *ok);

/* To the caller, by what the object says of the code at `pc`, an address in the instruction that
 * called or was interrupted. *ret_signal: the frame left was a signal's, so that the next pc is
 * where it was interrupted. A pc of 0 is the end of the stack. False: nothing is said; `o` may be
 * NULL. */
bool unwind_described(const struct unwind_object *o, struct unwind_registers *g, uint64_t pc,
                      struct unwind_space *space, bool *ret_signal);

/* To the caller by the frame pointer, which need not be one: whether the pc is plausible says the
 * caller. False: it cannot be one. */
bool unwind_by_pointer(struct unwind_registers *g);

#endif
