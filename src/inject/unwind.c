#include "inject/unwind.h"

#include <sys/syscall.h>
#include <sys/uio.h>

#include "inject/system.h"

enum { UNDEFINED, SAME, OFFSET, VALUE_OFFSET, REGISTER, EXPRESSION, VALUE_EXPRESSION };
enum { STACK = 32 };

/* The names of DWARF 5 (7.7.1, 7.24) and of the LSB (10.5.1, encodings of pointers). */
enum {
    DW_EH_PE_absptr = 0x00,
    DW_EH_PE_uleb128 = 0x01,
    DW_EH_PE_udata2 = 0x02,
    DW_EH_PE_udata4 = 0x03,
    DW_EH_PE_udata8 = 0x04,
    DW_EH_PE_sleb128 = 0x09,
    DW_EH_PE_sdata2 = 0x0a,
    DW_EH_PE_sdata4 = 0x0b,
    DW_EH_PE_sdata8 = 0x0c,
    DW_EH_PE_pcrel = 0x10,
    DW_EH_PE_datarel = 0x30,
};
enum {
    DW_OP_deref = 0x06,
    DW_OP_const1u = 0x08,
    DW_OP_const1s = 0x09,
    DW_OP_const2u = 0x0a,
    DW_OP_const2s = 0x0b,
    DW_OP_const4u = 0x0c,
    DW_OP_const4s = 0x0d,
    DW_OP_constu = 0x10,
    DW_OP_consts = 0x11,
    DW_OP_dup = 0x12,
    DW_OP_drop = 0x13,
    DW_OP_and = 0x1a,
    DW_OP_minus = 0x1c,
    DW_OP_or = 0x21,
    DW_OP_plus = 0x22,
    DW_OP_plus_uconst = 0x23,
    DW_OP_shl = 0x24,
    DW_OP_shr = 0x25,
    DW_OP_eq = 0x29,
    DW_OP_ge = 0x2a,
    DW_OP_gt = 0x2b,
    DW_OP_le = 0x2c,
    DW_OP_lt = 0x2d,
    DW_OP_ne = 0x2e,
    DW_OP_lit0 = 0x30,
    DW_OP_lit31 = 0x4f,
    DW_OP_breg0 = 0x70,
    DW_OP_breg31 = 0x8f,
};
enum {
    DW_CFA_nop = 0x00,
    DW_CFA_set_loc = 0x01,
    DW_CFA_advance_loc1 = 0x02,
    DW_CFA_advance_loc2 = 0x03,
    DW_CFA_advance_loc4 = 0x04,
    DW_CFA_offset_extended = 0x05,
    DW_CFA_restore_extended = 0x06,
    DW_CFA_undefined = 0x07,
    DW_CFA_same_value = 0x08,
    DW_CFA_register = 0x09,
    DW_CFA_remember_state = 0x0a,
    DW_CFA_restore_state = 0x0b,
    DW_CFA_def_cfa = 0x0c,
    DW_CFA_def_cfa_register = 0x0d,
    DW_CFA_def_cfa_offset = 0x0e,
    DW_CFA_def_cfa_expression = 0x0f,
    DW_CFA_expression = 0x10,
    DW_CFA_offset_extended_sf = 0x11,
    DW_CFA_def_cfa_sf = 0x12,
    DW_CFA_def_cfa_offset_sf = 0x13,
    DW_CFA_val_offset = 0x14,
    DW_CFA_val_offset_sf = 0x15,
    DW_CFA_val_expression = 0x16,
    DW_CFA_AARCH64_negate_ra_state = 0x2d,
    DW_CFA_GNU_args_size = 0x2e,
    DW_CFA_advance_loc = 0x40,
    DW_CFA_offset = 0x80,
    DW_CFA_restore = 0xc0,
};

struct bytes {
    const uint8_t *at, *end;
};

struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t back;
    uint8_t pointers; // encoding of the addresses in its FDEs
    bool sized, signal;
    struct bytes code;
};

/* ------------------------------------------------------------------ memory */

/* By the kernel, which answers EFAULT where a load would end the program. Where it does not let a
 * process read even itself (an old seccomp filter), mincore() says whether the pages are there. It
 * takes the beginning of a page alone, and says no to one of smaller pages. */
bool unwind_read(void *ret, uintptr_t from, size_t n)
{
    const struct iovec to = {ret, n}, at = {(void *)from, n}; // NOLINT: an address, by design
    unsigned char pages[8];
    long pid = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    long rc = system_call(SYS_process_vm_readv, pid, (long)&to, 1, (long)&at, 1, 0);
    if (rc >= 0 || rc == -14 /* EFAULT */) {
        return rc == (long)n;
    }
    for (uintptr_t page = PAGE_SIZE_MIN; page <= PAGE_SIZE_MAX; page *= 4) {
        uintptr_t first = from & ~(page - 1), size = from + n - first;
        if (from + n >= from && size <= sizeof pages * page &&
            system_call(SYS_mincore, (long)first, (long)size, (long)pages, 0, 0, 0) == 0) {
            memcpy(ret, (const void *)from, n); // NOLINT
            return true;
        }
    }
    return false;
}

uintptr_t unwind_word(uintptr_t from, bool *ok)
{
    uintptr_t value = 0;
    *ok = *ok && unwind_read(&value, from, sizeof value);
    return *ok ? value : 0;
}

/* ------------------------------------------------------------------ numbers */

static uint64_t take_bytes(struct bytes *b, unsigned n)
{
    uint64_t value = 0;
    if ((size_t)(b->end - b->at) < n) {
        b->at = b->end;
        return 0;
    }
    for (unsigned i = 0; i < n; i++) {
        value |= (uint64_t)*b->at++ << (8 * i);
    }
    return value;
}

static uint64_t take_unsigned(struct bytes *b)
{
    uint64_t value = 0;
    for (unsigned shift = 0; b->at < b->end; shift += 7) {
        uint8_t byte = *b->at++;
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (!(byte & 0x80)) {
            break;
        }
    }
    return value;
}

static int64_t take_signed(struct bytes *b)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0;
    while (b->at < b->end) {
        byte = *b->at++;
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        shift += 7;
        if (!(byte & 0x80)) {
            break;
        }
    }
    return (int64_t)(byte & 0x40 && shift < 64 ? value | ~(uint64_t)0 << shift : value);
}

/* An encoded pointer: DW_EH_PE_*. Where it is relative to data, base is .eh_frame_hdr. */
static uint64_t take_pointer(struct bytes *b, uint8_t encoding, uintptr_t base)
{
    uintptr_t here = (uintptr_t)b->at;
    uint64_t value = 0;
    switch (encoding & 0x0f) {
    case DW_EH_PE_absptr: value = take_bytes(b, 8); break;
    case DW_EH_PE_uleb128: value = take_unsigned(b); break;
    case DW_EH_PE_udata2: value = take_bytes(b, 2); break;
    case DW_EH_PE_udata4: value = take_bytes(b, 4); break;
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8: value = take_bytes(b, 8); break;
    case DW_EH_PE_sleb128: value = (uint64_t)take_signed(b); break;
    case DW_EH_PE_sdata2: value = (uint64_t)(int16_t)take_bytes(b, 2); break;
    case DW_EH_PE_sdata4: value = (uint64_t)(int32_t)take_bytes(b, 4); break;
    default: b->at = b->end; return 0;
    }
    switch (encoding & 0x70) {
    case DW_EH_PE_pcrel: return value + here;
    case DW_EH_PE_datarel: return value + base;
    default: return value;
    }
}

/* ------------------------------------------------------------------ finding the description */

/* Record at `at`, which lies in the object. */
static bool take_record(const struct unwind_object *o, uintptr_t at, struct bytes *ret)
{
    if (at < o->low || at + 8 > o->high) {
        return false;
    }
    struct bytes b = {(const uint8_t *)at, (const uint8_t *)at + 4}; // NOLINT: in the object
    uint64_t n = take_bytes(&b, 4);
    if (!n || n == 0xffffffff || n > o->high - at - 4) {
        return false;
    }
    *ret = (struct bytes){b.at, b.at + n};
    return true;
}

static bool read_cie(const struct unwind_object *o, uintptr_t at, struct cie *ret)
{
    struct bytes b;
    if (!take_record(o, at, &b) || take_bytes(&b, 4) != 0) {
        return false;
    }
    uint64_t version = take_bytes(&b, 1);
    const char *augmentation = (const char *)b.at;
    while (take_bytes(&b, 1)) {
    }
    *ret = (struct cie){.code_align = take_unsigned(&b)};
    ret->data_align = take_signed(&b);
    ret->back = version == 1 ? take_bytes(&b, 1) : take_unsigned(&b);
    if (*augmentation == 'z') {
        ret->sized = true;
        uint64_t n = take_unsigned(&b);
        struct bytes more = {b.at, n <= (uint64_t)(b.end - b.at) ? b.at + n : b.end};
        b.at = more.end;
        for (const char *c = augmentation + 1; *c && (const uint8_t *)c < b.end; c++) {
            switch (*c) {
            case 'R': ret->pointers = (uint8_t)take_bytes(&more, 1); break;
            case 'L': (void)take_bytes(&more, 1); break;
            case 'P': {
                uint8_t encoding = (uint8_t)take_bytes(&more, 1);
                (void)take_pointer(&more, encoding, 0);
                break;
            }
            case 'S': ret->signal = true; break;
            default: break;
            }
        }
    }
    ret->code = b;
    return version == 1 || version == 3;
}

/* .eh_frame_hdr: its table of (start, FDE) pairs, sorted, both 4 bytes relative to it. */
static uintptr_t find_fde(const struct unwind_object *o, uintptr_t pc)
{
    uintptr_t at = o->frames;
    if (at < o->low || at + 12 > o->high) {
        return 0;
    }
    struct bytes b = {(const uint8_t *)at, (const uint8_t *)o->high}; // NOLINT: in the object
    uint64_t version = take_bytes(&b, 1);
    uint8_t frame = (uint8_t)take_bytes(&b, 1), count = (uint8_t)take_bytes(&b, 1),
            table = (uint8_t)take_bytes(&b, 1);
    (void)take_pointer(&b, frame, at);
    uint64_t n = take_pointer(&b, count, at);
    if (version != 1 || table != (DW_EH_PE_datarel | DW_EH_PE_sdata4) ||
        n > (uint64_t)(b.end - b.at) / 8 || !n) {
        return 0;
    }
    const uint8_t *rows = b.at;
    uint64_t low = 0, high = n;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        struct bytes r = {rows + middle * 8, rows + middle * 8 + 8};
        if (at + (uint64_t)(int32_t)take_bytes(&r, 4) <= pc) {
            low = middle;
        } else {
            high = middle;
        }
    }
    struct bytes r = {rows + low * 8, rows + low * 8 + 8};
    return at + (uint64_t)(int32_t)take_bytes(&r, 4) <= pc
               ? at + (uint64_t)(int32_t)take_bytes(&r, 4)
               : 0;
}

/* ------------------------------------------------------------------ expressions (DWARF 5, 2.5) */

static bool evaluate(const uint8_t *code, const struct unwind_registers *g, bool has_first,
                     uint64_t first, uint64_t *ret)
{
    uint64_t stack[STACK] = {first};
    unsigned n = has_first;
    struct bytes b = {code, code + 16};
    uint64_t size = take_unsigned(&b);
    if (size > 256) {
        return false;
    }
    b.end = b.at + size;
    while (b.at < b.end) {
        uint8_t op = *b.at++;
        bool ok = true;
        if (n >= STACK - 1) {
            return false;
        }
        if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
            stack[n++] = op - (unsigned)DW_OP_lit0;
            continue;
        }
        if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
            int64_t offset = take_signed(&b);
            if (op - (unsigned)DW_OP_breg0 >= UNWIND_REGISTERS) {
                return false;
            }
            stack[n++] = g->r[op - DW_OP_breg0] + (uint64_t)offset;
            continue;
        }
        switch (op) {
        case DW_OP_const1u: stack[n++] = take_bytes(&b, 1); continue;
        case DW_OP_const1s: stack[n++] = (uint64_t)(int8_t)take_bytes(&b, 1); continue;
        case DW_OP_const2u: stack[n++] = take_bytes(&b, 2); continue;
        case DW_OP_const2s: stack[n++] = (uint64_t)(int16_t)take_bytes(&b, 2); continue;
        case DW_OP_const4u: stack[n++] = take_bytes(&b, 4); continue;
        case DW_OP_const4s: stack[n++] = (uint64_t)(int32_t)take_bytes(&b, 4); continue;
        case DW_OP_constu: stack[n++] = take_unsigned(&b); continue;
        case DW_OP_consts: stack[n++] = (uint64_t)take_signed(&b); continue;
        default: break;
        }
        if (!n) {
            return false;
        }
        switch (op) {
        case DW_OP_deref: stack[n - 1] = unwind_word(stack[n - 1], &ok); break;
        case DW_OP_dup: stack[n] = stack[n - 1], n++; break;
        case DW_OP_drop: n--; break;
        case DW_OP_plus_uconst: stack[n - 1] += take_unsigned(&b); break;
        default:
            if (n < 2) {
                return false;
            }
            n--;
            switch (op) {
            case DW_OP_and: stack[n - 1] &= stack[n]; break;
            case DW_OP_minus: stack[n - 1] -= stack[n]; break;
            case DW_OP_or: stack[n - 1] |= stack[n]; break;
            case DW_OP_plus: stack[n - 1] += stack[n]; break;
            case DW_OP_shl: stack[n - 1] = stack[n] < 64 ? stack[n - 1] << stack[n] : 0; break;
            case DW_OP_shr: stack[n - 1] = stack[n] < 64 ? stack[n - 1] >> stack[n] : 0; break;
            case DW_OP_eq: stack[n - 1] = stack[n - 1] == stack[n]; break;
            case DW_OP_ge: stack[n - 1] = (int64_t)stack[n - 1] >= (int64_t)stack[n]; break;
            case DW_OP_gt: stack[n - 1] = (int64_t)stack[n - 1] > (int64_t)stack[n]; break;
            case DW_OP_le: stack[n - 1] = (int64_t)stack[n - 1] <= (int64_t)stack[n]; break;
            case DW_OP_lt: stack[n - 1] = (int64_t)stack[n - 1] < (int64_t)stack[n]; break;
            case DW_OP_ne: stack[n - 1] = stack[n - 1] != stack[n]; break;
            default: return false;
            }
        }
        if (!ok) {
            return false;
        }
    }
    *ret = n ? stack[n - 1] : 0;
    return n > 0;
}

/* ------------------------------------------------------------------ the rows */

static void set_rule(struct unwind_row *r, uint64_t number, struct unwind_rule rule)
{
    if (number < UNWIND_REGISTERS) {
        r->registers[number] = rule;
    }
}

static const uint8_t *skip_block(struct bytes *b)
{
    const uint8_t *start = b->at;
    uint64_t n = take_unsigned(b);
    b->at = n <= (uint64_t)(b->end - b->at) ? b->at + n : b->end;
    return start;
}

/* Runs instructions from `at` up to the row of `pc` (section 6.4.2). False: one that is not known.
 */
static bool run_rows(struct unwind_space *space, struct bytes b, const struct cie *cie, uint64_t at,
                     uint64_t pc, uintptr_t base)
{
    struct unwind_row *r = &space->row;
    const struct unwind_row *initial = &space->initial;
    while (b.at < b.end && at <= pc) {
        uint8_t op = *b.at++;
        uint64_t low = op & 0x3f, number;
        switch (op & 0xc0) {
        case DW_CFA_advance_loc: at += low * cie->code_align; continue;
        case DW_CFA_offset:
            set_rule(r, low,
                     (struct unwind_rule){.how = OFFSET,
                                          .value = (int64_t)take_unsigned(&b) * cie->data_align});
            continue;
        case DW_CFA_restore:
            set_rule(r, low,
                     low < UNWIND_REGISTERS ? initial->registers[low] : (struct unwind_rule){0});
            continue;
        default: break;
        }
        switch (op) {
        case DW_CFA_nop: break;
        case DW_CFA_set_loc: at = take_pointer(&b, cie->pointers, base); break;
        case DW_CFA_advance_loc1: at += take_bytes(&b, 1) * cie->code_align; break;
        case DW_CFA_advance_loc2: at += take_bytes(&b, 2) * cie->code_align; break;
        case DW_CFA_advance_loc4: at += take_bytes(&b, 4) * cie->code_align; break;
        case DW_CFA_offset_extended:
            number = take_unsigned(&b);
            set_rule(r, number,
                     (struct unwind_rule){.how = OFFSET,
                                          .value = (int64_t)take_unsigned(&b) * cie->data_align});
            break;
        case DW_CFA_restore_extended:
            number = take_unsigned(&b);
            set_rule(r, number,
                     number < UNWIND_REGISTERS ? initial->registers[number]
                                               : (struct unwind_rule){0});
            break;
        case DW_CFA_undefined:
            set_rule(r, take_unsigned(&b), (struct unwind_rule){.how = UNDEFINED});
            break;
        case DW_CFA_same_value:
            set_rule(r, take_unsigned(&b), (struct unwind_rule){.how = SAME});
            break;
        case DW_CFA_register:
            number = take_unsigned(&b);
            set_rule(r, number,
                     (struct unwind_rule){.how = REGISTER, .value = (int64_t)take_unsigned(&b)});
            break;
        case DW_CFA_remember_state:
            if (space->n_kept >= UNWIND_ROWS) {
                return false;
            }
            space->kept[space->n_kept++] = *r;
            break;
        case DW_CFA_restore_state:
            if (!space->n_kept) {
                return false;
            }
            *r = space->kept[--space->n_kept];
            break;
        case DW_CFA_def_cfa:
            r->cfa_register = take_unsigned(&b);
            r->cfa = (struct unwind_rule){.how = OFFSET, .value = (int64_t)take_unsigned(&b)};
            break;
        case DW_CFA_def_cfa_register: r->cfa_register = take_unsigned(&b); break;
        case DW_CFA_def_cfa_offset: r->cfa.value = (int64_t)take_unsigned(&b); break;
        case DW_CFA_def_cfa_expression:
            r->cfa = (struct unwind_rule){.how = EXPRESSION, .code = skip_block(&b)};
            break;
        case DW_CFA_expression:
        case DW_CFA_val_expression:
            number = take_unsigned(&b);
            set_rule(
                r, number,
                (struct unwind_rule){.how = op == DW_CFA_expression ? EXPRESSION : VALUE_EXPRESSION,
                                     .code = skip_block(&b)});
            break;
        case DW_CFA_offset_extended_sf:
            number = take_unsigned(&b);
            set_rule(
                r, number,
                (struct unwind_rule){.how = OFFSET, .value = take_signed(&b) * cie->data_align});
            break;
        case DW_CFA_def_cfa_sf:
            r->cfa_register = take_unsigned(&b);
            r->cfa =
                (struct unwind_rule){.how = OFFSET, .value = take_signed(&b) * cie->data_align};
            break;
        case DW_CFA_def_cfa_offset_sf: r->cfa.value = take_signed(&b) * cie->data_align; break;
        case DW_CFA_val_offset:
        case DW_CFA_val_offset_sf:
            number = take_unsigned(&b);
            set_rule(
                r, number,
                (struct unwind_rule){.how = VALUE_OFFSET,
                                     .value = (op == DW_CFA_val_offset ? (int64_t)take_unsigned(&b)
                                                                       : take_signed(&b)) *
                                              cie->data_align});
            break;
        case DW_CFA_AARCH64_negate_ra_state:
            break; // return addresses are signed from here: the signature is taken off below
        case DW_CFA_GNU_args_size: (void)take_unsigned(&b); break;
        default: return false;
        }
    }
    return true;
}

static bool apply(const struct unwind_row *row, const struct cie *cie, struct unwind_registers *g)
{
    struct unwind_registers next = *g;
    uint64_t cfa;
    if (row->cfa.how == EXPRESSION) {
        if (!evaluate(row->cfa.code, g, false, 0, &cfa)) {
            return false;
        }
    } else if (row->cfa.how == OFFSET && row->cfa_register < UNWIND_REGISTERS) {
        cfa = g->r[row->cfa_register] + (uint64_t)row->cfa.value;
    } else {
        return false;
    }
    next.r[UNWIND_STACK] = cfa;
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++) {
        const struct unwind_rule *rule = &row->registers[i];
        bool ok = true;
        uint64_t at = cfa + (uint64_t)rule->value;
        switch (rule->how) {
        case OFFSET: next.r[i] = unwind_word(at, &ok); break;
        case VALUE_OFFSET: next.r[i] = at; break;
        case REGISTER:
            next.r[i] = rule->value >= 0 && rule->value < UNWIND_REGISTERS ? g->r[rule->value] : 0;
            break;
        case EXPRESSION:
            ok = evaluate(rule->code, g, true, cfa, &at);
            next.r[i] = unwind_word(at, &ok);
            break;
        case VALUE_EXPRESSION: ok = evaluate(rule->code, g, true, cfa, &next.r[i]); break;
        case UNDEFINED: // the first frame of a thread says so of its return address
            if (i == cie->back) {
                next.r[i] = 0;
            }
            break;
        default: break;
        }
        if (!ok) {
            return false;
        }
    }
    if (cie->back >= UNWIND_REGISTERS) {
        return false;
    }
    next.pc = next.r[cie->back];
#ifdef __aarch64__
    register uint64_t x30 __asm__("x30") = next.pc; // xpaclri
    __asm__("hint #7" : "+r"(x30));
    next.pc = x30;
#endif
    *g = next;
    return true;
}

bool unwind_described(const struct unwind_object *o, struct unwind_registers *g, uint64_t pc,
                      struct unwind_space *space, bool *ret_signal)
{
    struct bytes b;
    struct cie cie;
    space->n_kept = 0;
    uintptr_t at = o ? find_fde(o, pc) : 0;
    if (!at || !take_record(o, at, &b)) {
        return false;
    }
    uintptr_t here = (uintptr_t)b.at;
    uint64_t back = take_bytes(&b, 4);
    if (!back || !read_cie(o, here - back, &cie)) {
        return false;
    }
    uint64_t start = take_pointer(&b, cie.pointers, o->frames);
    uint64_t size = take_pointer(&b, cie.pointers & 0x0f, 0);
    if (pc < start || pc - start >= size) {
        return false;
    }
    if (cie.sized) {
        (void)skip_block(&b);
    }
    __builtin_memset(&space->row, 0, sizeof space->row);
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++) {
        space->row.registers[i].how = SAME;
    }
    space->initial = space->row;
    if (!run_rows(space, cie.code, &cie, 0, UINT64_MAX, o->frames)) {
        return false;
    }
    space->initial = space->row;
    if (!run_rows(space, b, &cie, start, pc, o->frames) || !apply(&space->row, &cie, g)) {
        return false;
    }
    *ret_signal = cie.signal;
    return true;
}

bool unwind_by_pointer(struct unwind_registers *g)
{
    bool ok = true;
    uint64_t at = g->r[UNWIND_FRAME];
    if (at < g->r[UNWIND_STACK] || at - g->r[UNWIND_STACK] > 1 << 20 || at & 7) {
        return false;
    }
    uint64_t frame = unwind_word(at, &ok), pc = unwind_word(at + 8, &ok);
    if (!ok) {
        return false;
    }
    g->pc = pc;
    g->r[UNWIND_FRAME] = frame;
    g->r[UNWIND_STACK] = at + 16;
    return true;
}
