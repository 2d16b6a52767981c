#include "inject/unwind.h"

#include <sys/syscall.h>
#include <sys/uio.h>

#include "inject/system.h"

enum { UNDEFINED, SAME, OFFSET, VALUE_OFFSET, REGISTER, EXPRESSION, VALUE_EXPRESSION };
enum { STACK = 32 };

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
 * process read even itself (an old seccomp filter), mincore() says whether the pages are there. */
bool unwind_read(void *ret, uintptr_t from, size_t n)
{
    const struct iovec to = {ret, n}, at = {(void *)from, n}; // NOLINT: an address, by design
    unsigned char pages[8];
    uintptr_t first = from & ~(uintptr_t)4095;
    long pid = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    long rc = system_call(SYS_process_vm_readv, pid, (long)&to, 1, (long)&at, 1, 0);
    if (rc >= 0 || rc == -14 /* EFAULT */) {
        return rc == (long)n;
    }
    if (from + n < from || from + n - first > sizeof pages * 4096 ||
        system_call(SYS_mincore, (long)first, (long)(from + n - first), (long)pages, 0, 0, 0)) {
        return false;
    }
    memcpy(ret, (const void *)from, n); // NOLINT
    return true;
}

uintptr_t unwind_word(uintptr_t from, bool *ok)
{
    uintptr_t value = 0;
    *ok = *ok && unwind_read(&value, from, sizeof value);
    return *ok ? value : 0;
}

/* ------------------------------------------------------------------ numbers */

static uint64_t take(struct bytes *b, unsigned n)
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
    case 0x00: value = take(b, 8); break;
    case 0x01: value = take_unsigned(b); break;
    case 0x02: value = take(b, 2); break;
    case 0x03: value = take(b, 4); break;
    case 0x04:
    case 0x0c: value = take(b, 8); break;
    case 0x09: value = (uint64_t)take_signed(b); break;
    case 0x0a: value = (uint64_t)(int16_t)take(b, 2); break;
    case 0x0b: value = (uint64_t)(int32_t)take(b, 4); break;
    default: b->at = b->end; return 0;
    }
    switch (encoding & 0x70) {
    case 0x10: return value + here;
    case 0x30: return value + base;
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
    uint64_t n = take(&b, 4);
    if (!n || n == 0xffffffff || n > o->high - at - 4) {
        return false;
    }
    *ret = (struct bytes){b.at, b.at + n};
    return true;
}

static bool read_cie(const struct unwind_object *o, uintptr_t at, struct cie *ret)
{
    struct bytes b;
    if (!take_record(o, at, &b) || take(&b, 4) != 0) {
        return false;
    }
    uint64_t version = take(&b, 1);
    const char *augmentation = (const char *)b.at;
    while (take(&b, 1)) {
    }
    *ret = (struct cie){.code_align = take_unsigned(&b)};
    ret->data_align = take_signed(&b);
    ret->back = version == 1 ? take(&b, 1) : take_unsigned(&b);
    if (*augmentation == 'z') {
        ret->sized = true;
        uint64_t n = take_unsigned(&b);
        struct bytes more = {b.at, n <= (uint64_t)(b.end - b.at) ? b.at + n : b.end};
        b.at = more.end;
        for (const char *c = augmentation + 1; *c && (const uint8_t *)c < b.end; c++) {
            switch (*c) {
            case 'R': ret->pointers = (uint8_t)take(&more, 1); break;
            case 'L': (void)take(&more, 1); break;
            case 'P': {
                uint8_t encoding = (uint8_t)take(&more, 1);
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
    uint64_t version = take(&b, 1);
    uint8_t frame = (uint8_t)take(&b, 1), count = (uint8_t)take(&b, 1),
            table = (uint8_t)take(&b, 1);
    (void)take_pointer(&b, frame, at);
    uint64_t n = take_pointer(&b, count, at);
    if (version != 1 || table != 0x3b || n > (uint64_t)(b.end - b.at) / 8 || !n) {
        return 0;
    }
    const uint8_t *rows = b.at;
    uint64_t low = 0, high = n;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        struct bytes r = {rows + middle * 8, rows + middle * 8 + 8};
        if (at + (uint64_t)(int32_t)take(&r, 4) <= pc) {
            low = middle;
        } else {
            high = middle;
        }
    }
    struct bytes r = {rows + low * 8, rows + low * 8 + 8};
    return at + (uint64_t)(int32_t)take(&r, 4) <= pc ? at + (uint64_t)(int32_t)take(&r, 4) : 0;
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
        if (op >= 0x30 && op <= 0x4f) {
            stack[n++] = op - 0x30u;
            continue;
        }
        if (op >= 0x70 && op <= 0x8f) {
            int64_t offset = take_signed(&b);
            if (op - 0x70u >= UNWIND_REGISTERS) {
                return false;
            }
            stack[n++] = g->r[op - 0x70] + (uint64_t)offset;
            continue;
        }
        switch (op) {
        case 0x08: stack[n++] = take(&b, 1); continue;
        case 0x09: stack[n++] = (uint64_t)(int8_t)take(&b, 1); continue;
        case 0x0a: stack[n++] = take(&b, 2); continue;
        case 0x0b: stack[n++] = (uint64_t)(int16_t)take(&b, 2); continue;
        case 0x0c: stack[n++] = take(&b, 4); continue;
        case 0x0d: stack[n++] = (uint64_t)(int32_t)take(&b, 4); continue;
        case 0x10: stack[n++] = take_unsigned(&b); continue;
        case 0x11: stack[n++] = (uint64_t)take_signed(&b); continue;
        default: break;
        }
        if (!n) {
            return false;
        }
        switch (op) {
        case 0x06: stack[n - 1] = unwind_word(stack[n - 1], &ok); break;
        case 0x12: stack[n] = stack[n - 1], n++; break;
        case 0x13: n--; break;
        case 0x23: stack[n - 1] += take_unsigned(&b); break;
        default:
            if (n < 2) {
                return false;
            }
            n--;
            switch (op) {
            case 0x1a: stack[n - 1] &= stack[n]; break;
            case 0x1c: stack[n - 1] -= stack[n]; break;
            case 0x21: stack[n - 1] |= stack[n]; break;
            case 0x22: stack[n - 1] += stack[n]; break;
            case 0x24: stack[n - 1] = stack[n] < 64 ? stack[n - 1] << stack[n] : 0; break;
            case 0x25: stack[n - 1] = stack[n] < 64 ? stack[n - 1] >> stack[n] : 0; break;
            case 0x29: stack[n - 1] = stack[n - 1] == stack[n]; break;
            case 0x2a: stack[n - 1] = (int64_t)stack[n - 1] >= (int64_t)stack[n]; break;
            case 0x2b: stack[n - 1] = (int64_t)stack[n - 1] > (int64_t)stack[n]; break;
            case 0x2c: stack[n - 1] = (int64_t)stack[n - 1] <= (int64_t)stack[n]; break;
            case 0x2d: stack[n - 1] = (int64_t)stack[n - 1] < (int64_t)stack[n]; break;
            case 0x2e: stack[n - 1] = stack[n - 1] != stack[n]; break;
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

static void set(struct unwind_row *r, uint64_t number, struct unwind_rule rule)
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

/* Runs instructions up to the row of `pc` (section 6.4.2). False: one that is not known. */
static bool run(struct bytes b, const struct cie *cie, uint64_t at, uint64_t pc,
                struct unwind_row *r, const struct unwind_row *initial, struct unwind_row *kept,
                unsigned *n_kept, uintptr_t base)
{
    while (b.at < b.end && at <= pc) {
        uint8_t op = *b.at++;
        uint64_t low = op & 0x3f, number;
        switch (op & 0xc0) {
        case 0x40: at += low * cie->code_align; continue;
        case 0x80:
            set(r, low,
                (struct unwind_rule){.how = OFFSET,
                                     .value = (int64_t)take_unsigned(&b) * cie->data_align});
            continue;
        case 0xc0:
            set(r, low, low < UNWIND_REGISTERS ? initial->registers[low] : (struct unwind_rule){0});
            continue;
        default: break;
        }
        switch (op) {
        case 0x00: break;
        case 0x01: at = take_pointer(&b, cie->pointers, base); break;
        case 0x02: at += take(&b, 1) * cie->code_align; break;
        case 0x03: at += take(&b, 2) * cie->code_align; break;
        case 0x04: at += take(&b, 4) * cie->code_align; break;
        case 0x05:
            number = take_unsigned(&b);
            set(r, number,
                (struct unwind_rule){.how = OFFSET,
                                     .value = (int64_t)take_unsigned(&b) * cie->data_align});
            break;
        case 0x06:
            number = take_unsigned(&b);
            set(r, number,
                number < UNWIND_REGISTERS ? initial->registers[number] : (struct unwind_rule){0});
            break;
        case 0x07: set(r, take_unsigned(&b), (struct unwind_rule){.how = UNDEFINED}); break;
        case 0x08: set(r, take_unsigned(&b), (struct unwind_rule){.how = SAME}); break;
        case 0x09:
            number = take_unsigned(&b);
            set(r, number,
                (struct unwind_rule){.how = REGISTER, .value = (int64_t)take_unsigned(&b)});
            break;
        case 0x0a:
            if (*n_kept >= UNWIND_ROWS) {
                return false;
            }
            kept[(*n_kept)++] = *r;
            break;
        case 0x0b:
            if (!*n_kept) {
                return false;
            }
            *r = kept[--*n_kept];
            break;
        case 0x0c:
            r->cfa_register = take_unsigned(&b);
            r->cfa = (struct unwind_rule){.how = OFFSET, .value = (int64_t)take_unsigned(&b)};
            break;
        case 0x0d: r->cfa_register = take_unsigned(&b); break;
        case 0x0e: r->cfa.value = (int64_t)take_unsigned(&b); break;
        case 0x0f: r->cfa = (struct unwind_rule){.how = EXPRESSION, .code = skip_block(&b)}; break;
        case 0x10:
        case 0x16:
            number = take_unsigned(&b);
            set(r, number,
                (struct unwind_rule){.how = op == 0x10 ? EXPRESSION : VALUE_EXPRESSION,
                                     .code = skip_block(&b)});
            break;
        case 0x11:
            number = take_unsigned(&b);
            set(r, number,
                (struct unwind_rule){.how = OFFSET, .value = take_signed(&b) * cie->data_align});
            break;
        case 0x12:
            r->cfa_register = take_unsigned(&b);
            r->cfa =
                (struct unwind_rule){.how = OFFSET, .value = take_signed(&b) * cie->data_align};
            break;
        case 0x13: r->cfa.value = take_signed(&b) * cie->data_align; break;
        case 0x14:
        case 0x15:
            number = take_unsigned(&b);
            set(r, number,
                (struct unwind_rule){
                    .how = VALUE_OFFSET,
                    .value = (op == 0x14 ? (int64_t)take_unsigned(&b) : take_signed(&b)) *
                             cie->data_align});
            break;
        case 0x2d: break; // return addresses are signed from here: the signature is taken off below
        case 0x2e: (void)take_unsigned(&b); break;
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
    unsigned n_kept = 0;
    uintptr_t at = o ? find_fde(o, pc) : 0;
    if (!at || !take_record(o, at, &b)) {
        return false;
    }
    uintptr_t here = (uintptr_t)b.at;
    uint64_t back = take(&b, 4);
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
    if (!run(cie.code, &cie, 0, UINT64_MAX, &space->row, &space->initial, space->kept, &n_kept,
             o->frames)) {
        return false;
    }
    space->initial = space->row;
    if (!run(b, &cie, start, pc, &space->row, &space->initial, space->kept, &n_kept, o->frames) ||
        !apply(&space->row, &cie, g)) {
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
