/*
 * The Python frames of the calling thread, without the GIL: ctypes and most extensions release it
 * before they call a library, and to wait for it could wait for ever. The thread's own frames do
 * not change while it is in a call. Two functions of the interpreter are called that neither
 * allocate nor change anything: PyGILState_GetThisThreadState(), made for signal handlers (CPython,
 * Modules/faulthandler.c), and the one that computes a line out of a code object. All else is read
 * by unwind_read(), and believed only where the types of the objects are those that they have to
 * be: another build (with debugging, free-threaded) has other layouts, and nothing is said of it.
 *
 * Layouts: CPython 3.9 to 3.13, Include/cpython/{pystate,frameobject,code,unicodeobject}.h and
 * Include/internal/pycore_frame.h, for 64 bits; they are fixed within a minor version. 3.14:
 * Include/internal/pycore_debug_offsets.h; bits of a reference: pycore_stackref.h; owners:
 * pycore_interpframe_structs.h.
 */
#include "inject/gpucalls/gpucall.h"

enum { OWNED_BY_C = 3, TAG = 3, NOWHERE = 0xffff, CHARACTERS = 4096, AT_ONCE = 256 };

static const struct gpucall_layout layouts[] = {
    {9, 10, 24, NOWHERE, 32, 24, NOWHERE, NOWHERE, 104, 112, 0, 48, 72, 8, 16, 32},
    {11, 11, 56, 8, 32, 48, 56, NOWHERE, 112, 128, 184, 48, 72, 8, 16, 32},
    {12, 12, 56, 0, 0, 8, 56, 70, 112, 128, 192, 40, 56, 8, 16, 32},
    {13, 13, 72, NOWHERE, 0, 8, 56, 70, 112, 128, 200, 40, 56, 8, 16, 32},
};

static uintptr_t symbol_of(const struct gpucall_object *o, const char *name)
{
    for (uint32_t i = 1; i < o->n_symbols; i++) {
        const Elf64_Sym *s = &o->symbols[i];
        if (s->st_shndx != SHN_UNDEF && s->st_name < o->n_strings &&
            text_equal(o->strings + s->st_name, name)) {
            return o->map->l_addr + s->st_value;
        }
    }
    return 0;
}

/* 0: none that is known. Py_Version is there since 3.11, PyFrame_GetCode() since 3.9. */
static unsigned minor_of(const struct gpucall_object *o)
{
    bool ok = true;
    uintptr_t version = symbol_of(o, "Py_Version");
    if (version) {
        uintptr_t hex = unwind_word(version, &ok);
        return ok && hex >> 24 == 3 ? hex >> 16 & 0xff : 0;
    }
    return symbol_of(o, "PyFrame_GetCode") ? 9 : 0;
}

/* The table with which _PyRuntime begins since 3.13, for debuggers: eight bytes "xdebugpy", then
 * words. Which word says what is fixed for a minor version; these are 3.14's. */
enum {
    TABLE_VERSION = 1,
    TABLE_FREE = 2,
    TABLE_FRAME = 26,
    TABLE_PREVIOUS = 32,
    TABLE_CODE = 33,
    TABLE_AT = 34,
    TABLE_OWNER = 36,
    TABLE_FILE = 40,
    TABLE_NAME = 42,
    TABLE_CODE_BYTES = 48,
    TABLE_TYPE = 51,
    TABLE_STATE = 78,
    TABLE_LENGTH = 79,
    TABLE_ASCII = 80,
    TABLE_WORDS = 81,
    COMPACT_MORE = 16
}; // a compact text that is not ASCII has its UTF-8 and that one's length too

static uint16_t table_word(const uint64_t *table, unsigned i, bool *ok)
{
    *ok = *ok && table[i] < 4096;
    return (uint16_t)table[i];
}

static bool read_layout(uintptr_t runtime, unsigned minor, struct gpucall_layout *ret)
{
    uint64_t t[TABLE_WORDS];
    bool ok = minor == 14 && runtime && unwind_read(t, runtime, sizeof t) &&
              memcmp(t, "xdebugpy", 8) == 0 && t[TABLE_VERSION] >> 16 == 0x30e && !t[TABLE_FREE];
    if (!ok) {
        return false;
    }
    uint16_t ascii = table_word(t, TABLE_ASCII, &ok);
    *ret = (struct gpucall_layout){minor,
                                   minor,
                                   table_word(t, TABLE_FRAME, &ok),
                                   NOWHERE,
                                   table_word(t, TABLE_CODE, &ok),
                                   table_word(t, TABLE_PREVIOUS, &ok),
                                   table_word(t, TABLE_AT, &ok),
                                   table_word(t, TABLE_OWNER, &ok),
                                   table_word(t, TABLE_FILE, &ok),
                                   table_word(t, TABLE_NAME, &ok),
                                   table_word(t, TABLE_CODE_BYTES, &ok),
                                   ascii,
                                   (uint16_t)(ascii + COMPACT_MORE),
                                   table_word(t, TABLE_TYPE, &ok),
                                   table_word(t, TABLE_LENGTH, &ok),
                                   table_word(t, TABLE_STATE, &ok)};
    return ok;
}

static bool layout_of(const struct gpucall_object *o, unsigned minor, struct gpucall_layout *ret)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (minor >= layouts[i].from && minor <= layouts[i].to) {
            *ret = layouts[i];
            return true;
        }
    }
    return read_layout(symbol_of(o, "_PyRuntime"), minor, ret);
}

static bool is_of_type(const struct gpucall_layout *l, uintptr_t object, uintptr_t type)
{
    bool ok = object && !(object & 7);
    return ok && unwind_word(object + l->type, &ok) == type && ok;
}

/* ------------------------------------------------------------------ texts */

/* A byte of a file's name that is not UTF-8 is a lone surrogate (PEP 383), which has no UTF-8. */
static size_t frame_put_utf8(char *to, uint32_t c)
{
    c = (c >= 0xd800 && c < 0xe000) || c > 0x10ffff ? 0xfffd : c;
    unsigned n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (unsigned i = n; i > 1; i--, c >>= 6) {
        to[i - 1] = (char)(0x80 | (c & 0x3f));
    }
    to[0] = (char)(lead[n] | c);
    return n;
}

/* A compact str (PEP 393) as UTF-8, cut to `max` bytes. */
static bool copy_text(const struct gpucall_python *p, uintptr_t text, char *ret, size_t max)
{
    const struct gpucall_layout *l = &p->of.layout;
    bool ok = true;
    uint32_t state = 0;
    if (!is_of_type(l, text, p->of.text_type) ||
        !unwind_read(&state, text + l->state, sizeof state)) {
        return false;
    }
    uintptr_t length = unwind_word(text + l->length, &ok);
    uint32_t kind = state >> 2 & 7, compact = state >> 5 & 1, ascii = state >> 6 & 1;
    if (!ok || !compact || (kind != 1 && kind != 2 && kind != 4) || length > CHARACTERS) {
        return false;
    }
    unsigned char piece[AT_ONCE];
    uintptr_t at = text + (ascii ? l->ascii : l->compact);
    size_t n = 0, end = length * kind;
    for (size_t i = 0; i < end && n + 4 < max; i += kind) {
        size_t rest = end - i < sizeof piece ? end - i : sizeof piece;
        if (i % sizeof piece == 0 && !unwind_read(piece, at + i, rest)) {
            return false;
        }
        uint32_t c = 0; // little-endian, as the two architectures are
        memcpy(&c, piece + i % sizeof piece, kind);
        n += frame_put_utf8(ret + n, c);
    }
    ret[n] = '\0';
    return n > 0;
}

/* ------------------------------------------------------------------ frames */

static uintptr_t innermost(const struct gpucall_layout *l, uintptr_t thread)
{
    bool ok = thread != 0;
    uintptr_t frame = ok ? unwind_word(thread + l->thread_frame, &ok) : 0;
    if (ok && frame && l->c_frame != NOWHERE) {
        frame = unwind_word(frame + l->c_frame, &ok);
    }
    return ok ? frame : 0;
}

/* Where an interpreter is looked for: in the program and in libpython. */
static bool may_be_python(const struct gpucall_object *o)
{
    return o->map && (o == gpucall_objects || text_begins(text_base(o->map->l_name), "libpython"));
}

static bool interpreter_find_in(const struct gpucall_object *o, struct gpucall_interpreter *ret)
{
    uintptr_t state = symbol_of(o, "PyGILState_GetThisThreadState");
    struct gpucall_layout layout;
    if (!state || !layout_of(o, minor_of(o), &layout)) {
        return false;
    }
    *ret = (struct gpucall_interpreter){
        .layout = layout,
        .thread_state = state,
        .code_type = symbol_of(o, "PyCode_Type"),
        .text_type = symbol_of(o, "PyUnicode_Type"),
        .line = symbol_of(o, layout.at == NOWHERE ? "PyFrame_GetLineNumber" : "PyCode_Addr2Line")};
    return ret->code_type && ret->text_type && ret->line;
}

/* What was found once; an interpreter is not unloaded while a process lives. */
static struct {
    uint32_t state; // 1 being written, 2 there
    const struct link_map *map;
    struct gpucall_interpreter interpreter;
} known;

static bool interpreter_find(struct gpucall_interpreter *ret)
{
    for (uint32_t i = 0; i < gpucall_n_objects; i++) {
        const struct gpucall_object *o = &gpucall_objects[i];
        if (!may_be_python(o)) {
            continue;
        }
        if (__atomic_load_n(&known.state, __ATOMIC_ACQUIRE) == 2 && known.map == o->map) {
            *ret = known.interpreter;
            return true;
        }
        uint32_t free = 0;
        if (interpreter_find_in(o, ret)) {
            if (__atomic_compare_exchange_n(&known.state, &free, 1, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED)) {
                known.map = o->map;
                known.interpreter = *ret;
                __atomic_store_n(&known.state, 2, __ATOMIC_RELEASE);
            }
            return true;
        }
    }
    return false;
}

bool gpucall_python_begin(struct gpucall_python *ret)
{
    *ret = (struct gpucall_python){.frame = 0};
    if (interpreter_find(&ret->of)) {
        uintptr_t thread = ((uintptr_t(*)(void))ret->of.thread_state)(); // NOLINT: of Python's
        ret->frame = innermost(&ret->of.layout, thread);
    }
    return ret->frame != 0;
}

static int line_of(const struct gpucall_python *p, uintptr_t frame, uintptr_t code)
{
    bool ok = true;
    if (p->of.layout.at == NOWHERE) {
        return ((int (*)(uintptr_t))p->of.line)(frame); // NOLINT: of the interpreter
    }
    intptr_t offset =
        (intptr_t)(unwind_word(frame + p->of.layout.at, &ok) - (code + p->of.layout.code_bytes));
    return ok && offset >= 0 && offset <= INT32_MAX
               ? ((int (*)(uintptr_t, int))p->of.line)(code, (int)offset)
               : -1; // NOLINT
}

bool gpucall_python_next(struct gpucall_python *p, struct gpucall_python_frame *ret)
{
    const struct gpucall_layout *l = &p->of.layout;
    for (bool ok = true; p->frame && p->n < GPUCALL_FRAMES;) {
        uintptr_t frame = p->frame, code = unwind_word(frame + l->code, &ok) & ~(uintptr_t)TAG;
        uint8_t owner = 0;
        p->frame = unwind_word(frame + l->previous, &ok);
        if (!ok || (l->owner != NOWHERE && !unwind_read(&owner, frame + l->owner, 1))) {
            return false;
        }
        p->n++;
        if (owner >= OWNED_BY_C && l->owner != NOWHERE) {
            continue; // between two calls of the interpreter's loop
        }
        if (!is_of_type(l, code, p->of.code_type) ||
            !copy_text(p, unwind_word(code + l->file, &ok), ret->file, sizeof ret->file) ||
            !copy_text(p, unwind_word(code + l->name, &ok), ret->function, sizeof ret->function)) {
            return false;
        }
        ret->line = line_of(p, frame, code);
        return ret->line > 0;
    }
    return false;
}
