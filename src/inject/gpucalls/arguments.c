/* The arguments of a call, as its row of functions.txt describes them. */
#include "inject/gpucalls/gpucall.h"
#include "inject/gpucalls/tell.h"

enum { NAME_MAX_SHOWN = 96 };

/* Takes the words of one argument after the other from the registers and the stack. */
struct arguments {
    const uint64_t *registers, *stack;
    unsigned n_registers, n_stack;
    const unsigned char *members; // instead: a structure
    size_t at;                    // in it
};

/* The members are aligned as C has them. */
static void take_member(struct arguments *a, char kind, unsigned size, uint64_t *ret)
{
    size_t align = 8, n = 8;
    if (kind == 'd' || kind == 'i' || kind == 'u' || kind == 'e' || kind == 'F') {
        align = n = 4;
    } else if (kind == 'c') {
        align = n = 1;
    } else if (kind == 'S') {
        n = size;
        align = size == 64 ? 1 : size == 12 || size == 8 ? 4 : 8;
    }
    a->at = (a->at + align - 1) / align * align;
    __builtin_memcpy(ret, a->members + a->at, n < 16 ? n : 16);
    a->at += n;
}

static void arguments_take_words(struct arguments *a, unsigned n, uint64_t *ret)
{
    bool in_registers = n <= 2 && a->n_registers + n <= GPUCALL_REGISTERS;
    for (unsigned i = 0; i < n; i++) {
        uint64_t word = in_registers ? a->registers[a->n_registers++] : a->stack[a->n_stack++];
        if (i < 2) {
            ret[i] = word;
        }
    }
}

static void put_text_at(struct text *t, uintptr_t at)
{
    char s[NAME_MAX_SHOWN + 4];
    size_t n = 0;
    if (!at) {
        gpucall_text_put(t, "NULL");
        return;
    }
    while (n < NAME_MAX_SHOWN && unwind_read(&s[n], at + n, 1) && s[n]) {
        n++;
    }
    if (n == NAME_MAX_SHOWN) {
        s[n++] = '.', s[n++] = '.', s[n++] = '.';
    }
    s[n] = '\0';
    gpucall_put_string(t, s);
}

static void put_value(struct text *t, char kind, unsigned size, const uint64_t *words)
{
    switch (kind) {
    case 'd':
    case 'i':
    case 'e': gpucall_put_signed(t, (int32_t)words[0]); return;
    case 'u': gpucall_text_put_number(t, (uint32_t)words[0], 10); return;
    case 'c': gpucall_text_put_number(t, words[0] & 0xff, 10); return;
    case 'n':
    case 'l': gpucall_text_put_number(t, words[0], 10); return;
    case 's': put_text_at(t, words[0]); return;
    case 'S':
        if (size == 12) { // dim3
            gpucall_text_put_number(t, (uint32_t)words[0], 10);
            gpucall_put_char(t, 'x');
            gpucall_text_put_number(t, words[0] >> 32, 10);
            gpucall_put_char(t, 'x');
            gpucall_text_put_number(t, (uint32_t)words[1], 10);
        } else { // a memory location: kind and id
            gpucall_put_signed(t, (int32_t)words[0]);
            gpucall_put_char(t, ':');
            gpucall_put_signed(t, (int32_t)(words[0] >> 32));
        }
        return;
    default: gpucall_text_put_number(t, words[0], 16); return;
    }
}

static bool argument_is_shown(char kind, unsigned size)
{
    return kind != 'o' && kind != 'F' && (kind != 'S' || size == 12 || size == 8);
}

void gpucall_put_arguments(struct text *t, const struct gpucall_call *c, bool json)
{
    struct arguments a = {.registers = c->registers, .stack = c->stack, .members = c->members};
    const char *k = c->registers || c->members ? gpucall_text + c->function->kinds : "";
    for (bool more = false; *k;) {
        uint64_t words[2] = {0, 0};
        char kind = *k++;
        unsigned size = 0;
        for (; *k >= '0' && *k <= '9'; k++) {
            size = size * 10 + (unsigned)(*k - '0');
        }
        unsigned n = kind == 'F' ? 0 : kind == 'S' ? (size + 7) / 8 : 1;
#ifdef __aarch64__
        n = n > 2 ? 1 : n;
#endif
        if (c->members) {
            take_member(&a, kind, size, words);
        } else {
            arguments_take_words(&a, n, words);
        }
        bool shown = argument_is_shown(kind, size);
        gpucall_text_put(t, !shown || !more ? "" : json ? "," : ", ");
        gpucall_text_put(t, json && shown ? "\"" : "");
        for (k++; *k && *k != ' '; k++) {
            if (shown) {
                gpucall_put_char(t, *k);
            }
        }
        k += *k == ' ';
        if (!shown) {
            continue;
        }
        more = true;
        gpucall_text_put(t, json ? "\":" : "=");
        bool quoted = json && (kind == 'p' || kind == 'h' || kind == 'S');
        bool null = json && kind == 's' && !words[0];
        gpucall_text_put(t, quoted ? "\"" : "");
        if (null) {
            gpucall_text_put(t, "null");
        } else {
            put_value(t, kind, size, words);
        }
        gpucall_text_put(t, quoted ? "\"" : "");
    }
}
