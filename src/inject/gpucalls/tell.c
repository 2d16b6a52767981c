/*
 * Which failures are told, and how: the first of a process in full, every other call that fails in
 * one line, the same again only counted. A failure inside another watched call (the runtime's call
 * of the driver) waits for that call's result: it is told as its reason, or not at all if the outer
 * call succeeded. Records belong to a process, so that a child of fork() tells its own.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "inject/gpucalls/gpucall.h"
#include "inject/record.h"

enum {
    RECORDS = 1024,
    CALL_TEXT = 384,
    WALKS = 100,
    NAME_MAX_SHOWN = 96,
    SYMBOL_MAX = 256,
    PLACE_PATH = 1024,
    ROOM = 40960,
    SIGPIPE_NUMBER = 13,
    WAIT_SPINS = 1000000
};

struct place {
    char object[PLACE_PATH], symbol[SYMBOL_MAX]; // empty: not known
    uintptr_t offset;                            // without an object: the address
};

struct record {
    uint64_t key; // claimed by compare-and-swap; 0: free
    const char *name;
    enum gpucall_api api;
    int result;
    long pid;
    uint32_t order;         // the first failure of all is 0
    uint32_t n, n_harmless; // how often; how often the call around it succeeded
    uint32_t told, ready;
    char call[CALL_TEXT]; // name and arguments
    struct place place;   // where it was called; the loader forgets its objects before the end
    struct gpucall_python_frame python; // the innermost; line 0: none
};

struct text {
    char *at;
    size_t n, max;
};

static struct record records[RECORDS];
static uint32_t n_records, n_lost; // n_lost: failures for which there was no record
static long first_pid;             // the process that has told its first
static const char *path;           // NULL: standard error
static struct loss_page *losses;   // of the supervisor's, or NULL
static uint32_t n_unwritten;       // texts that the file did not take
static struct stat standard_error; // as it was at the start
static bool has_standard_error;

/* ------------------------------------------------------------------ text */

static void text_put(struct text *t, const char *s)
{
    while (*s && t->n + 1 < t->max) {
        t->at[t->n++] = *s++;
    }
    t->at[t->n] = '\0';
}

static void put_char(struct text *t, char c)
{
    const char s[2] = {c, '\0'};
    text_put(t, s);
}

static void text_put_number(struct text *t, uint64_t value, unsigned base)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    text_put(t, base == 16 ? "0x" : "");
    text_put(t, digits + at);
}

static void put_signed(struct text *t, int64_t value)
{
    text_put(t, value < 0 ? "-" : "");
    text_put_number(t, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
}

/* How many bytes of a UTF-8 sequence begin here; 0: none. */
static unsigned utf8_sequence(const unsigned char *s)
{
    unsigned n = *s >= 0xf0 && *s < 0xf5 ? 4 : *s >= 0xe0 ? 3 : *s >= 0xc2 ? 2 : 0;
    if (*s >= 0xf5 || *s < 0xc2) {
        return 0;
    }
    for (unsigned i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

/* The inside of a JSON text; also what a terminal is shown. */
static void text_put_escaped(struct text *t, const char *s)
{
    for (const unsigned char *c = (const unsigned char *)s; *c;) {
        unsigned n = *c >= 0x80 ? utf8_sequence(c) : 1;
        if (*c == '"' || *c == '\\') {
            put_char(t, '\\');
        }
        if (*c < 0x20 || *c == 0x7f) {
            text_put(t, "\\u00");
            put_char(t, "0123456789abcdef"[*c >> 4]);
            put_char(t, "0123456789abcdef"[*c & 15]);
        } else if (!n) {
            text_put(t, "\\ufffd");
        } else {
            for (unsigned i = 0; i < n; i++) {
                put_char(t, (char)c[i]);
            }
        }
        c += n ? n : 1;
    }
}

static void put_string(struct text *t, const char *s)
{
    put_char(t, '"');
    text_put_escaped(t, s);
    put_char(t, '"');
}

/* ------------------------------------------------------------------ names */

static const char *error_name(enum gpucall_api api, int code)
{
    for (uint32_t i = gpucall_errors_at[api]; i < gpucall_errors_at[api + 1]; i++) {
        if (gpucall_errors[i].code == code) {
            return gpucall_text + gpucall_errors[i].name;
        }
    }
    return NULL;
}

static const char *api_name(enum gpucall_api api)
{
    switch (api) {
    case GPUCALL_RUNTIME: return "cuda-runtime";
    case GPUCALL_HIP: return "hip";
    case GPUCALL_DRIVER:
    case GPUCALL_APIS: break;
    }
    return "cuda-driver";
}

static bool pattern_names(const char *pattern, const char *name)
{
    while (*pattern && *pattern != '*' && *pattern == *name) {
        pattern++, name++;
    }
    return *pattern == '*' || *pattern == *name;
}

bool gpucall_by_design(const char *name, int result)
{
    for (uint32_t i = 0; i < gpucall_n_designs; i++) {
        if (gpucall_designs[i].code == result &&
            pattern_names(gpucall_text + gpucall_designs[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ arguments */

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
        text_put(t, "NULL");
        return;
    }
    while (n < NAME_MAX_SHOWN && unwind_read(&s[n], at + n, 1) && s[n]) {
        n++;
    }
    if (n == NAME_MAX_SHOWN) {
        s[n++] = '.', s[n++] = '.', s[n++] = '.';
    }
    s[n] = '\0';
    put_string(t, s);
}

static void put_value(struct text *t, char kind, unsigned size, const uint64_t *words)
{
    switch (kind) {
    case 'd':
    case 'i':
    case 'e': put_signed(t, (int32_t)words[0]); return;
    case 'u': text_put_number(t, (uint32_t)words[0], 10); return;
    case 'c': text_put_number(t, words[0] & 0xff, 10); return;
    case 'n':
    case 'l': text_put_number(t, words[0], 10); return;
    case 's': put_text_at(t, words[0]); return;
    case 'S':
        if (size == 12) { // dim3
            text_put_number(t, (uint32_t)words[0], 10);
            put_char(t, 'x');
            text_put_number(t, words[0] >> 32, 10);
            put_char(t, 'x');
            text_put_number(t, (uint32_t)words[1], 10);
        } else { // a memory location: kind and id
            put_signed(t, (int32_t)words[0]);
            put_char(t, ':');
            put_signed(t, (int32_t)(words[0] >> 32));
        }
        return;
    default: text_put_number(t, words[0], 16); return;
    }
}

static bool argument_is_shown(char kind, unsigned size)
{
    return kind != 'o' && kind != 'F' && (kind != 'S' || size == 12 || size == 8);
}

/* "bytesize=1024, flags=0", or as members of a JSON object. */
static void put_arguments(struct text *t, const struct gpucall_call *c, bool json)
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
        text_put(t, !shown || !more ? "" : json ? "," : ", ");
        text_put(t, json && shown ? "\"" : "");
        for (k++; *k && *k != ' '; k++) {
            if (shown) {
                put_char(t, *k);
            }
        }
        k += *k == ' ';
        if (!shown) {
            continue;
        }
        more = true;
        text_put(t, json ? "\":" : "=");
        bool quoted = json && (kind == 'p' || kind == 'h' || kind == 'S');
        bool null = json && kind == 's' && !words[0];
        text_put(t, quoted ? "\"" : "");
        if (null) {
            text_put(t, "null");
        } else {
            put_value(t, kind, size, words);
        }
        text_put(t, quoted ? "\"" : "");
    }
}

/* ------------------------------------------------------------------ places */

static const char *object_path(const struct gpucall_object *o, char *buffer, size_t max)
{
    const char *name = o->map->l_name;
    if (name && *name) {
        return name;
    }
    long n = system_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)buffer,
                         (long)(max - 1), 0, 0);
    buffer[n > 0 ? n : 0] = '\0';
    return n > 0 ? buffer : "the program";
}

static void copy_cut(char *ret, size_t max, const char *s)
{
    struct text t = {.at = ret, .max = max};
    text_put(&t, s);
}

/* A return address: object and offset, and the function where one is named. */
static void place_find(uintptr_t pc, struct place *ret)
{
    char buffer[PLACE_PATH];
    const struct gpucall_object *o = gpucall_object_of(pc - 1);
    *ret = (struct place){.offset = pc};
    if (!o) {
        return;
    }
    ret->offset = pc - o->map->l_addr;
    copy_cut(ret->object, sizeof ret->object, object_path(o, buffer, sizeof buffer));
    const char *symbol = gpucall_symbol(o, pc - 1);
    if (symbol) {
        copy_cut(ret->symbol, sizeof ret->symbol, symbol);
    } else {
        (void)gpucall_file_symbol(ret->object, ret->offset - 1, ret->symbol, sizeof ret->symbol);
    }
}

static void put_place(struct text *t, const struct place *p)
{
    text_put_escaped(t, p->object);
    text_put(t, *p->object ? "+" : "");
    text_put_number(t, p->offset, 16);
    text_put(t, *p->symbol ? " (" : "");
    text_put_escaped(t, p->symbol);
    text_put(t, *p->symbol ? ")" : "");
}

static void put_string_or_null(struct text *t, const char *s)
{
    if (s && *s) {
        put_string(t, s);
    } else {
        text_put(t, "null");
    }
}

static void put_json_place(struct text *t, const struct place *p)
{
    text_put(t, "{\"object\":");
    put_string_or_null(t, p->object);
    text_put(t, ",\"offset\":\"");
    text_put_number(t, p->offset, 16);
    text_put(t, "\",\"symbol\":");
    put_string_or_null(t, p->symbol);
    text_put(t, "}");
}

static void put_error(struct text *t, enum gpucall_api api, int code)
{
    const char *name = error_name(api, code);
    put_signed(t, code);
    if (name) {
        text_put(t, " (");
        text_put(t, name);
        text_put(t, ")");
    }
}

/* ------------------------------------------------------------------ output */

void gpucall_tell_start(const char *where, const char *page)
{
    path = gpucall_same(where, "-") ? NULL : where;
    losses = path ? record_losses(page) : NULL;
    has_standard_error = system_call(SYS_fstat, 2, (long)&standard_error, 0, 0, 0, 0) == 0;
}

/* Only where descriptor 2 is still what it was: a program may have closed it and opened a file. */
static void write_standard_error(const struct text *t)
{
    struct stat now;
    uint64_t pipe = (uint64_t)1 << (SIGPIPE_NUMBER - 1), old = 0;
    const struct timespec none = {0, 0};
    if (!has_standard_error || system_call(SYS_fstat, 2, (long)&now, 0, 0, 0, 0) ||
        now.st_dev != standard_error.st_dev || now.st_ino != standard_error.st_ino) {
        return;
    }
    (void)system_call(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (long)&pipe, (long)&old, 8, 0, 0);
    if (system_call(SYS_write, 2, (long)t->at, (long)t->n, 0, 0, 0) == -32 /* EPIPE */) {
        (void)system_call(SYS_rt_sigtimedwait, (long)&pipe, 0, (long)&none, 8, 0, 0);
    }
    (void)system_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&old, 0, 8, 0, 0);
}

/* To the file; false: it could not be written, and it is counted. */
static bool text_append(const struct text *t)
{
    long fd =
        system_call(SYS_openat, AT_FDCWD, (long)path,
                    O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666, 0, 0);
    int error = record_append(losses, fd, t->at, t->n);
    if (fd >= 0) {
        (void)system_call(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    return error == 0;
}

/* The program is not disturbed for what cannot be written: what is lost of the file is said on
 * standard error at the first time, and at the end. */
static void text_write_out(const struct text *t)
{
    static const char says[] =
        "gpumend: failing GPU calls are lost, and are counted: they cannot be "
        "written to ";
    char buffer[PLACE_PATH + sizeof says];
    struct text loss = {.at = buffer, .max = sizeof buffer};
    if (!path) {
        write_standard_error(t);
    } else if (!text_append(t) && !__atomic_fetch_add(&n_unwritten, 1, __ATOMIC_RELAXED)) {
        text_put(&loss, says);
        text_put_escaped(&loss, path);
        text_put(&loss, "\n");
        write_standard_error(&loss);
    }
}

/* Room for a text, of the kernel: no memory of the program's. */
static bool text_begin(struct text *t, size_t max)
{
    long at = system_call(SYS_mmap, 0, (long)max, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *t = (struct text){.at = (char *)at, .max = max}; // NOLINT: the kernel's answer
    return at > 0;
}

static void text_end(const struct text *t)
{
    (void)system_call(SYS_munmap, (long)t->at, (long)t->max, 0, 0, 0, 0);
}

/* ------------------------------------------------------------------ one failure */

struct failure {
    const struct gpucall_call *call;
    const struct gpucall_trace *trace;
    const struct record *record, *inner; // inner: why, or NULL
    bool first;
};

static void put_who(struct text *t, long pid)
{
    text_put(t, "process ");
    put_signed(t, pid);
    long tid = system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
    if (tid != pid) {
        text_put(t, ", thread ");
        put_signed(t, tid);
    }
}

/* "/opt/app/train.py:12 (step)" */
static void put_python(struct text *t, const struct gpucall_python_frame *frame)
{
    text_put_escaped(t, frame->file);
    text_put(t, ":");
    put_signed(t, frame->line);
    text_put(t, " (");
    text_put_escaped(t, frame->function);
    text_put(t, ")");
}

static void put_python_of(struct text *t, const struct record *r)
{
    if (r->python.line) {
        text_put(t, ", called by ");
        put_python(t, &r->python);
    }
}

static void put_python_frames(struct text *t)
{
    struct gpucall_python python;
    struct gpucall_python_frame frame;
    bool more = gpucall_python_begin(&python);
    while (more && gpucall_python_next(&python, &frame)) {
        text_put(t, "gpumend:   called by ");
        put_python(t, &frame);
        text_put(t, "\n");
    }
}

static void put_json_python(struct text *t, const struct gpucall_python_frame *frame)
{
    text_put(t, "{\"file\":");
    put_string(t, frame->file);
    text_put(t, ",\"line\":");
    put_signed(t, frame->line);
    text_put(t, ",\"function\":");
    put_string(t, frame->function);
    text_put(t, "}");
}

/* As members of an array. */
static void put_json_python_frames(struct text *t)
{
    struct gpucall_python python;
    struct gpucall_python_frame frame;
    bool more = gpucall_python_begin(&python);
    for (const char *comma = "";
         more && t->max - t->n > ROOM && gpucall_python_next(&python, &frame); comma = ",") {
        text_put(t, comma);
        put_json_python(t, &frame);
    }
}

static void put_failure(struct text *t, const struct failure *f)
{
    text_put(t, f->first ? "gpumend: the first failing GPU call: " : "gpumend: failing GPU call: ");
    text_put(t, f->record->call);
    text_put(t, " = ");
    put_error(t, f->record->api, f->record->result);
    if (!f->first) {
        text_put(t, f->inner ? ", of " : "");
        text_put(t, f->inner ? f->inner->name : "");
        text_put(t, ", at ");
        put_place(t, &f->record->place);
        put_python_of(t, f->record);
        text_put(t, "\n");
        return;
    }
    text_put(t, ", in ");
    put_who(t, f->record->pid);
    text_put(t, "\n");
    if (f->inner) {
        text_put(t, "gpumend:   because of ");
        text_put(t, f->inner->call);
        text_put(t, " = ");
        put_error(t, f->inner->api, f->inner->result);
        text_put(t, "\n");
    }
    for (unsigned i = 0; i < f->trace->n; i++) {
        text_put(t, "gpumend:   #");
        text_put_number(t, i, 10);
        text_put(t, " ");
        struct place place;
        place_find(f->trace->pc[i], &place);
        put_place(t, &place);
        text_put(t, "\n");
    }
    put_python_frames(t);
}

static void put_json_error(struct text *t, enum gpucall_api api, const char *name, int code)
{
    text_put(t, "\"api\":\"");
    text_put(t, api_name(api));
    text_put(t, "\",\"call\":");
    put_string(t, name);
    text_put(t, ",\"code\":");
    put_signed(t, code);
    text_put(t, ",\"error\":");
    put_string_or_null(t, error_name(api, code));
}

static void put_json_start(struct text *t, const char *event, long pid)
{
    struct timespec now = {0, 0};
    (void)system_call(SYS_clock_gettime, 0 /* CLOCK_REALTIME */, (long)&now, 0, 0, 0, 0);
    text_put(t, "{\"event\":\"");
    text_put(t, event);
    text_put(t, "\",\"pid\":");
    put_signed(t, pid);
    text_put(t, ",\"tid\":");
    put_signed(t, system_call(SYS_gettid, 0, 0, 0, 0, 0, 0));
    text_put(t, ",\"time_us\":");
    text_put_number(t, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, 10);
}

static void put_json_failure(struct text *t, const struct failure *f)
{
    put_json_start(t, "gpu-call-failed", f->record->pid);
    text_put(t, f->first ? ",\"first\":true," : ",\"first\":false,");
    put_json_error(t, f->record->api, f->record->name, f->record->result);
    text_put(t, ",\"arguments\":{");
    put_arguments(t, f->call, true);
    text_put(t, "},\"because\":");
    if (f->inner) {
        text_put(t, "{");
        put_json_error(t, f->inner->api, f->inner->name, f->inner->result);
        text_put(t, ",\"says\":");
        put_string(t, f->inner->call);
        text_put(t, "}");
    } else {
        text_put(t, "null");
    }
    text_put(t, ",\"frames\":[");
    for (unsigned i = 0; i < f->trace->n && t->max - t->n > ROOM; i++) {
        struct place place;
        place_find(f->trace->pc[i], &place);
        text_put(t, i ? "," : "");
        put_json_place(t, &place);
    }
    text_put(t, "],\"python\":[");
    put_json_python_frames(t);
    text_put(t, "],\"text\":\"");
    text_put_escaped(t, f->record->call);
    text_put(t, " = ");
    put_error(t, f->record->api, f->record->result);
    text_put(t, "\"}\n");
}

static void failure_tell(const struct failure *f)
{
    struct text t;
    if (!text_begin(&t, GPUCALL_TEXT)) {
        return;
    }
    if (path) {
        put_json_failure(&t, f);
    } else {
        put_failure(&t, f);
    }
    text_write_out(&t);
    text_end(&t);
}

/* ------------------------------------------------------------------ records */

/* The place in Python as a number: one place in a library serves many of these. */
static uint64_t frame_number(const struct gpucall_python_frame *frame)
{
    uint64_t number = (uint64_t)frame->line;
    for (const char *c = frame->line ? frame->file : ""; *c; c++) {
        number = (number ^ (unsigned char)*c) * 1099511628211u;
    }
    return number;
}

static uint64_t call_key(const struct gpucall_call *c, long pid,
                         const struct gpucall_python_frame *python)
{
    uint64_t key = 1469598103934665603u;
    const uint64_t parts[] = {(uintptr_t)c->name, (uint32_t)c->result, c->back, (uint64_t)pid,
                              frame_number(python)};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        key = (key ^ parts[i]) * 0x9e3779b97f4a7c15u;
        key ^= key >> 29;
    }
    return key | 1;
}

static void record_fill(struct record *r, const struct gpucall_call *c, long pid,
                        const struct gpucall_python_frame *python)
{
    struct text t = {.at = r->call, .max = sizeof r->call};
    r->name = c->name, r->api = c->api, r->result = c->result, r->pid = pid;
    r->order = __atomic_fetch_add(&n_records, 1, __ATOMIC_RELAXED);
    text_put(&t, c->name);
    text_put(&t, "(");
    put_arguments(&t, c, false);
    text_put(&t, ")");
    place_find(c->back, &r->place);
    r->python = *python;
    __atomic_store_n(&r->ready, 1, __ATOMIC_RELEASE);
}

/* The record of a call that failed so from there, made where there is none; NULL: no room. */
static struct record *record_of(const struct gpucall_call *c, long pid)
{
    struct gpucall_python walk;
    struct gpucall_python_frame python;
    if (!gpucall_python_begin(&walk) || !gpucall_python_next(&walk, &python)) {
        python.line = 0;
    }
    uint64_t key = call_key(c, pid, &python);
    for (uint32_t i = 0, at = (uint32_t)(key >> 20) % RECORDS; i < RECORDS;
         i++, at = (at + 1) % RECORDS) {
        struct record *r = &records[at];
        uint64_t now = 0;
        if (__atomic_compare_exchange_n(&r->key, &now, key, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            record_fill(r, c, pid, &python);
            return r;
        }
        if (now == key) {
            for (int n = 0; n < WAIT_SPINS && !__atomic_load_n(&r->ready, __ATOMIC_ACQUIRE); n++) {
            }
            return r;
        }
    }
    return NULL;
}

/* Whether this process has told no failure yet; true once. */
static bool is_first(long pid)
{
    long known = __atomic_load_n(&first_pid, __ATOMIC_ACQUIRE);
    return known != pid && __atomic_compare_exchange_n(&first_pid, &known, pid, false,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Counts the failure; NULL: there is nothing more to do. */
static struct record *record_count(const struct gpucall_call *c, long pid)
{
    struct record *r = record_of(c, pid);
    if (!r) {
        (void)__atomic_fetch_add(&n_lost, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    uint32_t before = __atomic_fetch_add(&r->n, 1, __ATOMIC_RELAXED);
    bool told = __atomic_load_n(&r->told, __ATOMIC_RELAXED);
    return before >= WALKS || (before && told) ? NULL : r;
}

static void tell_once(const struct gpucall_call *c, const struct gpucall_trace *trace,
                      struct record *r)
{
    if (__atomic_exchange_n(&r->told, 1, __ATOMIC_ACQ_REL)) {
        return;
    }
    struct record *inner = c->inner && c->inner <= RECORDS ? &records[c->inner - 1] : NULL;
    const struct failure f = {
        .call = c, .trace = trace, .record = r, .inner = inner, .first = is_first(r->pid)};
    if (inner) {
        __atomic_store_n(&inner->told, 1, __ATOMIC_RELAXED);
    }
    failure_tell(&f);
}

void gpucall_failed_at(const struct gpucall_call *c, const struct gpucall_trace *trace,
                       uint64_t *outer)
{
    struct record *r = record_count(c, system_call(SYS_getpid, 0, 0, 0, 0, 0, 0));
    if (r && outer) {
        *outer = (uint64_t)(r - records) + 1;
    } else if (r) {
        tell_once(c, trace, r);
    }
}

void gpucall_failed(const struct gpucall_call *c, struct unwind_registers *registers)
{
    struct gpucall_trace trace;
    struct record *r = record_count(c, system_call(SYS_getpid, 0, 0, 0, 0, 0, 0));
    if (!r) {
        return;
    }
    gpucall_walk(registers, &trace);
    if (trace.outer) {
        trace.outer->inner = (uint64_t)(r - records) + 1;
    } else {
        tell_once(c, &trace, r);
    }
}

void gpucall_succeeded(uint64_t inner)
{
    if (inner && inner <= RECORDS) {
        (void)__atomic_fetch_add(&records[inner - 1].n_harmless, 1, __ATOMIC_RELAXED);
    }
}

/* ------------------------------------------------------------------ the end */

static void put_total(struct text *t, const struct record *r)
{
    text_put(t, "gpumend:   ");
    text_put(t, r->name);
    text_put(t, " = ");
    put_error(t, r->api, r->result);
    text_put(t, ", ");
    text_put_number(t, r->n, 10);
    text_put(t, r->n == 1 ? " time, at " : " times, at ");
    put_place(t, &r->place);
    put_python_of(t, r);
    if (r->n_harmless) {
        text_put(t, ", inside calls that succeeded");
    }
    text_put(t, "\n");
}

static void put_json_total(struct text *t, const struct record *r)
{
    text_put(t, "{");
    put_json_error(t, r->api, r->name, r->result);
    text_put(t, ",\"times\":");
    text_put_number(t, r->n, 10);
    text_put(t, ",\"inside_success\":");
    text_put_number(t, r->n_harmless, 10);
    text_put(t, ",\"at\":");
    put_json_place(t, &r->place);
    text_put(t, ",\"python\":");
    if (r->python.line) {
        put_json_python(t, &r->python);
    } else {
        text_put(t, "null");
    }
    text_put(t, "}");
}

/* Whether the record adds to what was told when it happened: what came again, and what had no
 * effect or came in a call that did not return. */
static bool is_news(const struct record *r)
{
    return r->n > 1 || (!r->told && !r->n_harmless);
}

/* The next record of the process in the order of their first failures, or NULL. */
static const struct record *next_record(long pid, const struct record *last)
{
    const struct record *found = NULL;
    for (uint32_t i = 0; i < RECORDS; i++) {
        const struct record *r = &records[i];
        if (r->ready && r->pid == pid && (!last || r->order > last->order) &&
            (!found || r->order < found->order)) {
            found = r;
        }
    }
    return found;
}

/* Failures without a record, and those of the records from `r` on. */
static uint64_t not_listed(long pid, const struct record *r)
{
    uint64_t n = n_lost;
    for (; r; r = next_record(pid, r)) {
        n += r->n;
    }
    return n;
}

static void put_json_totals(struct text *t, long pid, uint64_t total)
{
    const struct record *r = next_record(pid, NULL);
    put_json_start(t, "gpu-calls", pid);
    text_put(t, ",\"failed\":");
    text_put_number(t, total, 10);
    text_put(t, ",\"calls\":[");
    for (bool more = false; r && t->max - t->n > ROOM; r = next_record(pid, r), more = true) {
        text_put(t, more ? "," : "");
        put_json_total(t, r);
    }
    text_put(t, "],\"not_listed\":");
    text_put_number(t, not_listed(pid, r), 10);
    text_put(t, ",\"unwritten\":");
    text_put_number(t, n_unwritten, 10);
    text_put(t, ",\"text\":\"GPU calls that failed: ");
    text_put_number(t, total, 10);
    text_put(t, "\"}\n");
}

static void put_totals(struct text *t, long pid, uint64_t total)
{
    text_put(t, "gpumend: GPU calls that failed in process ");
    put_signed(t, pid);
    text_put(t, ": ");
    text_put_number(t, total, 10);
    text_put(t, n_unwritten ? ":\n" : "; more than once, or without effect:\n");
    for (const struct record *r = next_record(pid, NULL); r; r = next_record(pid, r)) {
        if (is_news(r) || n_unwritten) {
            put_total(t, r);
        }
    }
    if (n_lost) {
        text_put(t, "gpumend:   ");
        text_put_number(t, n_lost, 10);
        text_put(t, n_lost == 1 ? " more, of another kind\n" : " more, of other kinds\n");
    }
}

void gpucall_tell_end(void)
{
    struct text t;
    long pid = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    uint64_t total = n_lost;
    bool news = path || n_lost;
    if (!n_records && !n_lost) {
        return;
    }
    for (const struct record *r = next_record(pid, NULL); r; r = next_record(pid, r)) {
        total += r->n;
        news = news || is_news(r);
    }
    if (total && news && text_begin(&t, (size_t)4 * GPUCALL_TEXT)) {
        if (path) {
            put_json_totals(&t, pid, total);
            text_write_out(&t);
        }
        t.n = 0;
        if (!path || n_unwritten) {
            put_totals(&t, pid, total);
            write_standard_error(&t);
        }
        text_end(&t);
    }
}
