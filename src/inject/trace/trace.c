/*
 * The audit library of `run --trace`: what the loader of one process searches, opens and misses,
 * one JSON line an event, appended to the file that GPUMEND_TRACE_FILE names (docs/watch.md,
 * docs/json.md).
 *
 * It looks and never changes what it looks at:
 *   - No library, no thread-local data, no memory of the program's malloc, no errno: system calls
 * alone.
 *   - dlopen and dlmopen choose the search path by the address that they return to, so what stands
 * in front of them here notes the call and jumps on; nothing is put between caller and loader. So
 *     what came of a call is not seen by itself, but by what is opened and closed after it, and by
 *     the text that dlerror gives.
 *   - Whose file the descriptor is, is asked before each line: a program may close all of them.
 *   - What cannot be written is counted for the supervisor (inject/loss_page.h).
 *
 * The interface is that of rtld-audit(7). la_objsearch is told each name before it is looked for
 * and each file before it is opened (glibc, elf/dl-load.c: _dl_map_object, open_verify; not for a
 * path with a slash, nor for a folder that is known to be absent). RPATH and RUNPATH have one flag;
 * which of them it is follows from the object that asks: with a DT_RUNPATH the RPATH stage is left
 * out. What is loaded already under a name is not searched for and makes no event but that of
 * dlopen.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "inject/record.h"
#include "inject/system.h"

#define LA_EXPORT __attribute__((visibility("default")))

LA_EXPORT unsigned la_version(unsigned version);
LA_EXPORT char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag);
LA_EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);
LA_EXPORT unsigned la_objclose(uintptr_t *cookie);
LA_EXPORT void la_activity(uintptr_t *cookie, unsigned flag);
LA_EXPORT void la_preinit(uintptr_t *cookie);
LA_EXPORT uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                                 unsigned *flags, const char *name);

enum {
    LINE_MAX_BYTES = 7168,
    PATH_BYTES = 4096,
    TAIL_BYTES = 1024,
    SHORT_BYTES = 32,
    SLOTS = 32,
    ERROR_SLOTS = 4,
    HIGH_FD = 1000,
    LESS_HIGH_FD = 200,
    OBJECTS_MAX = 4096,
    NAMES_BYTES = 1 << 20,
    HEAD_BYTES = 2048
};

/* ------------------------------------------------------------------ the system */

static long raw(long n, long a, long b, long c, long d)
{
    return system_call(n, a, b, c, d, 0, 0);
}

static int raw_open(const char *path, int flags)
{
    return (int)raw(SYS_openat, AT_FDCWD, (long)path, flags, 0);
}

static long raw_stat(const char *path, struct stat *ret, int flags)
{
    return raw(SYS_newfstatat, AT_FDCWD, (long)path, (long)ret, flags);
}

static int raw_pid(void)
{
    return (int)raw(SYS_getpid, 0, 0, 0, 0);
}

/* ------------------------------------------------------------------ text */

static size_t length(const char *s)
{
    size_t n = 0;
    while (s[n]) {
        n++;
    }
    return n;
}

static bool same(const char *a, const char *b)
{
    size_t i = 0;
    while (a[i] && a[i] == b[i]) {
        i++;
    }
    return a[i] == b[i];
}

static bool begins(const char *s, const char *with)
{
    size_t i = 0;
    while (with[i] && s[i] == with[i]) {
        i++;
    }
    return with[i] == '\0';
}

static const char *base_of(const char *path)
{
    const char *base = path;
    for (; *path; path++) {
        base = *path == '/' ? path + 1 : base;
    }
    return base;
}

static bool has_char(const char *s, char c)
{
    for (; *s; s++) {
        if (*s == c) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ one line */

struct line {
    size_t n;
    bool cut; // a text did not fit
    char text[LINE_MAX_BYTES];
};

static void put_plain(struct line *l, const char *s)
{
    while (*s && l->n < LINE_MAX_BYTES) {
        l->text[l->n++] = *s++;
    }
}

static void put_number(struct line *l, long value)
{
    char digits[24];
    size_t n = 0;
    unsigned long left = value < 0 ? 0ul - (unsigned long)value : (unsigned long)value;
    do {
        digits[n++] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0) {
        digits[n++] = '-';
    }
    while (n && l->n < LINE_MAX_BYTES) {
        l->text[l->n++] = digits[--n];
    }
}

/* Bytes of the UTF-8 sequence at s (RFC 3629), 0 if it is none. */
static size_t sequence(const unsigned char *s)
{
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)) {
        return 0;
    }
    return n;
}

/* As out_json_text() writes it: what is not printable UTF-8 becomes \xNN. NULL is null. Behind a
 * text that was cut there is room for words, and other texts are null. */
static void line_put_text(struct line *l, const char *s)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *at = (const unsigned char *)s;
    if (!s || (l->cut && length(s) > SHORT_BYTES)) {
        put_plain(l, "null");
        return;
    }
    put_plain(l, "\"");
    while (*at) {
        size_t n = sequence(at);
        if (!l->cut && l->n + TAIL_BYTES > LINE_MAX_BYTES) {
            l->cut = true;
            break;
        }
        if (n == 0 || *at < 0x20 || *at == 0x7f) {
            const char escaped[] = {'\\', '\\', 'x', hex[*at >> 4], hex[*at & 15], '\0'};
            put_plain(l, escaped);
            at++;
            continue;
        }
        if (*at == '"' || *at == '\\') {
            put_plain(l, "\\");
        }
        for (; n; n--) {
            l->text[l->n++] = (char)*at++;
        }
    }
    put_plain(l, "\"");
}

static void put_member(struct line *l, const char *key, const char *value)
{
    put_plain(l, ", \"");
    put_plain(l, key);
    put_plain(l, "\": ");
    line_put_text(l, value);
}

static void put_count(struct line *l, const char *key, long value)
{
    put_plain(l, ", \"");
    put_plain(l, key);
    put_plain(l, "\": ");
    put_number(l, value);
}

/* ------------------------------------------------------------------ the file */

static struct {
    const char *file;
    int fd; // -1: not open; read and changed by the __atomic functions
    dev_t dev;
    ino_t ino;
    int pid;
    struct loss_page *losses;    // or NULL
    bool started, adding, ended; // changed under the loader's lock
    const char *preload;         // LD_PRELOAD at the start, or NULL
    char exe[PATH_BYTES];
    uintptr_t program_headers; // of the main program (AT_PHDR)
    size_t n_program_headers;
} me = {.fd = -1};

/* Opens the record, at a number that programs seldom come to. A negative errno if it is not to be
 * had. */
static int open_record(void)
{
    static const int numbers[] = {HIGH_FD, LESS_HIGH_FD};
    struct stat st;
    int fd = raw_open(me.file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    long rc = fd < 0 ? fd : raw(SYS_fstat, fd, (long)&st, 0, 0);
    if (rc < 0) {
        return (int)rc;
    }
    if (me.ino && (st.st_dev != me.dev || st.st_ino != me.ino)) {
        (void)raw(SYS_close, fd, 0, 0, 0);
        return -ENOENT; // another file under that name: in another root
    }
    me.dev = st.st_dev, me.ino = st.st_ino;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int high = (int)raw(SYS_fcntl, fd, F_DUPFD_CLOEXEC, numbers[i], 0);
        if (high >= 0) {
            (void)raw(SYS_close, fd, 0, 0, 0);
            return high;
        }
    }
    return fd;
}

/* The descriptor, if it is still that of the record; else a new one. */
static int record(void)
{
    struct stat st;
    int fd = __atomic_load_n(&me.fd, __ATOMIC_SEQ_CST);
    if (fd >= 0 && raw(SYS_fstat, fd, (long)&st, 0, 0) == 0 && st.st_dev == me.dev &&
        st.st_ino == me.ino) {
        return fd;
    }
    int opened = open_record();
    if (opened >= 0 && !__atomic_compare_exchange_n(&me.fd, &fd, opened, false, __ATOMIC_SEQ_CST,
                                                    __ATOMIC_SEQ_CST)) {
        (void)raw(SYS_close, opened, 0, 0, 0); // another thread was quicker
        return fd;
    }
    return opened;
}

static void begin_event(struct line *l, const char *event)
{
    struct timespec now = {0, 0};
    l->n = 0;
    l->cut = false;
    (void)raw(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0, 0);
    put_plain(l, "{\"event\": \"");
    put_plain(l, event);
    put_plain(l, "\"");
    put_count(l, "pid", raw_pid());
    put_count(l, "tid", raw(SYS_gettid, 0, 0, 0, 0));
    put_count(l, "time_us", (long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

static void end_event(struct line *l)
{
    put_plain(l, l->cut ? ", \"cut\": true}\n" : "}\n");
    (void)record_append(me.losses, record(), l->text, l->n); // a loss is counted there
}

/* A child that was forked goes on with what its parent had loaded. */
static void look_for_fork(struct line *l)
{
    int pid = raw_pid(), parent = __atomic_load_n(&me.pid, __ATOMIC_RELAXED);
    if (pid != parent && __atomic_compare_exchange_n(&me.pid, &parent, pid, false, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED)) { // one of its threads
        begin_event(l, "fork");
        put_count(l, "ppid", parent);
        end_event(l);
    }
}

/* ------------------------------------------------------------------ objects */

/*
 * What is open, in storage of our own: the loader's link maps go with a dlclose in another thread,
 * and calls are noted before the loader's lock is taken. Changed under that lock, read without:
 * names are never taken back, so that the worst of a race is another object's name.
 */
struct object {
    uintptr_t from, to; // its addresses; from 0: not known, or not open
    const char *name;
    bool open, has_runpath;
};

static struct object objects[OBJECTS_MAX]; // the first is the program
static size_t n_objects;
static bool objects_full; // some have no row: their cookie is what it was, the link map's address
static char names[NAMES_BYTES];
static size_t n_names;

/* The cookie of an object is its row, where it has one. */
static struct object *object_of(const uintptr_t *cookie)
{
    uintptr_t at = cookie ? *cookie : 0;
    bool known = at >= (uintptr_t)objects && at < (uintptr_t)(objects + OBJECTS_MAX);
    return known ? (struct object *)at : NULL;
}

/* rtld-audit(7): a cookie that was not changed "is initialized to point to link map". Valid where
 * the loader asks about the object, under its lock. */
static const struct link_map *map_of(const uintptr_t *cookie)
{
    return !cookie || object_of(cookie) ? NULL : (const struct link_map *)*cookie;
}

static const char *object_name(const uintptr_t *cookie)
{
    const struct object *o = object_of(cookie);
    const struct link_map *map = map_of(cookie);
    return o ? __atomic_load_n(&o->name, __ATOMIC_ACQUIRE) : map ? map->l_name : NULL;
}

static const char *keep_name(const char *name)
{
    size_t n = length(name) + 1;
    if (n > NAMES_BYTES - n_names) {
        return NULL;
    }
    char *kept = names + n_names;
    for (size_t i = 0; i < n; i++) {
        kept[i] = name[i];
    }
    n_names += n;
    return kept;
}

/* A row for it: one that had this name before, else a new one. NULL if there is none. */
static struct object *row_for(const char *name)
{
    for (size_t i = 1; i < n_objects; i++) {
        if (!objects[i].open && same(objects[i].name, name)) {
            return &objects[i];
        }
    }
    const char *kept = n_objects == OBJECTS_MAX ? NULL : n_objects ? keep_name(name) : me.exe;
    if (!kept) {
        __atomic_store_n(&objects_full, true, __ATOMIC_RELEASE);
        return NULL;
    }
    struct object *o = &objects[n_objects];
    __atomic_store_n(&o->name, kept, __ATOMIC_RELEASE);
    __atomic_store_n(&n_objects, n_objects + 1, __ATOMIC_RELEASE);
    return o;
}

static void set_addresses(struct object *o, uintptr_t base, const Elf64_Phdr *headers, size_t n)
{
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (size_t i = 0; i < n; i++) {
        uintptr_t start = base + headers[i].p_vaddr, end = start + headers[i].p_memsz;
        if (headers[i].p_type == PT_LOAD) {
            from = start < from ? start : from;
            to = end > to ? end : to;
        }
    }
    if (to) {
        __atomic_store_n(&o->to, to, __ATOMIC_RELEASE);
        __atomic_store_n(&o->from, from, __ATOMIC_RELEASE);
    }
}

/* Out of the file: in memory the headers need not be where the object begins. */
static void read_addresses(struct object *o, const struct link_map *map)
{
    union {
        Elf64_Ehdr header;
        char bytes[HEAD_BYTES];
    } head;
    int fd = map->l_name && has_char(map->l_name, '/')
                 ? raw_open(map->l_name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
                 : -1;
    if (fd < 0) {
        return; // the kernel's own object
    }
    long n = raw(SYS_read, fd, (long)head.bytes, sizeof head.bytes, 0);
    (void)raw(SYS_close, fd, 0, 0, 0);
    const Elf64_Ehdr *h = &head.header;
    if (n > (long)sizeof *h && h->e_phoff <= (size_t)n && h->e_phentsize == sizeof(Elf64_Phdr) &&
        h->e_phoff % _Alignof(Elf64_Phdr) == 0 &&
        h->e_phnum <= ((size_t)n - h->e_phoff) / sizeof(Elf64_Phdr)) {
        set_addresses(o, map->l_addr, (const Elf64_Phdr *)(head.bytes + h->e_phoff), h->e_phnum);
    }
}

static bool has_tag(const struct link_map *map, Elf64_Sxword tag)
{
    for (const Elf64_Dyn *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == tag) {
            return true;
        }
    }
    return false;
}

static struct object *add_object(const struct link_map *map)
{
    struct object *o = row_for(map->l_name ? map->l_name : "");
    if (!o) {
        return NULL;
    }
    o->open = true;
    o->has_runpath = has_tag(map, DT_RUNPATH);
    if (o == objects) {
        set_addresses(o, map->l_addr, (const Elf64_Phdr *)me.program_headers, me.n_program_headers);
    } else {
        read_addresses(o, map);
    }
    return o;
}

/* The object that the loader takes for the caller: that whose code the call returns to, else the
 * program (glibc, elf/dl-open.c: _dl_find_dso_for_object). NULL: one that has no row, perhaps. */
static const char *caller_at(uintptr_t address)
{
    size_t n = __atomic_load_n(&n_objects, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < n; i++) {
        uintptr_t from = __atomic_load_n(&objects[i].from, __ATOMIC_ACQUIRE);
        if (from && address >= from &&
            address < __atomic_load_n(&objects[i].to, __ATOMIC_ACQUIRE)) {
            return __atomic_load_n(&objects[i].name, __ATOMIC_ACQUIRE);
        }
    }
    return __atomic_load_n(&objects_full, __ATOMIC_ACQUIRE) ? NULL : me.exe;
}

/* ------------------------------------------------------------------ the search */

/* What the first bytes say: the words of ldso_result_name(). The loader asks more; what it refuses
 * beyond that is seen by its not being opened. */
static const char *file_kind(const char *path)
{
#if defined(__x86_64__)
    enum { MACHINE = EM_X86_64 };
#else
    enum { MACHINE = EM_AARCH64 };
#endif
    unsigned char head[64];
    int fd = raw_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return fd == -13 ? "denied" : "unreadable"; // EACCES
    }
    long n = raw(SYS_read, fd, (long)head, sizeof head, 0);
    (void)raw(SYS_close, fd, 0, 0, 0);
    if (n < (long)sizeof head || head[0] != ELFMAG0 || head[1] != ELFMAG1 || head[2] != ELFMAG2 ||
        head[3] != ELFMAG3) {
        return "invalid";
    }
    if (head[EI_CLASS] != ELFCLASS64) {
        return "wrong-class";
    }
    return (head[18] | head[19] << 8) != MACHINE ? "wrong-machine" : "taken";
}

/* Most are absent: one question is enough for those. */
static const char *result_of(const char *path)
{
    enum { NO_ENTRY = -2, DENIED = -13, NOT_FOLDER = -20 };
    struct stat st;
    long rc = raw_stat(path, &st, AT_SYMLINK_NOFOLLOW);
    bool link = rc == 0 && S_ISLNK(st.st_mode);
    rc = link ? raw_stat(path, &st, 0) : rc;
    if (rc == NO_ENTRY || rc == NOT_FOLDER) {
        return link ? "dangling" : "absent";
    }
    if (rc < 0) {
        return rc == DENIED ? "denied" : "unreadable";
    }
    /* What is no file is not opened here: that could wait for somebody. */
    return S_ISREG(st.st_mode) ? file_kind(path) : "invalid";
}

static void tell_candidate(struct line *l, const uintptr_t *caller, const char *path,
                           const char *via)
{
    begin_event(l, "candidate");
    put_member(l, "caller", object_name(caller));
    put_member(l, "path", path);
    put_member(l, "via", via);
    put_member(l, "result", has_char(path, '$') ? NULL : result_of(path));
    end_event(l);
}

/* Whether `name` is an entry of LD_PRELOAD. */
static bool is_preload(const char *name)
{
    size_t n = length(name);
    const char *at = me.preload;
    while (at && *at) {
        size_t entry = 0;
        while (at[entry] && at[entry] != ':' && at[entry] != ' ') {
            entry++;
        }
        size_t i = 0;
        while (i < entry && i < n && at[i] == name[i]) {
            i++;
        }
        if (i == entry && i == n) {
            return true;
        }
        at += entry + (at[entry] != '\0');
    }
    return false;
}

/* By which of the two an object is searched that has a RUNPATH, or has none. */
static bool has_runpath(const uintptr_t *cookie)
{
    const struct object *o = object_of(cookie);
    const struct link_map *map = map_of(cookie);
    return o ? o->has_runpath : map && has_tag(map, DT_RUNPATH);
}

static const char *kind_of_request(const uintptr_t *caller, const char *name)
{
    if (me.started) {
        return me.adding ? "needed" : "dlopen";
    }
    return object_of(caller) == objects && is_preload(name) ? "preload" : "needed";
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
    struct line l;
    look_for_fork(&l);
    switch (flag) {
    case LA_SER_ORIG:
        begin_event(&l, "request");
        put_member(&l, "name", name);
        put_member(&l, "caller", object_name(cookie));
        put_member(&l, "kind", kind_of_request(cookie, name));
        end_event(&l);
        if (has_char(name, '/')) {
            tell_candidate(&l, cookie, name, "path");
        }
        break;
    case LA_SER_LIBPATH: tell_candidate(&l, cookie, name, "LD_LIBRARY_PATH"); break;
    case LA_SER_RUNPATH:
        tell_candidate(&l, cookie, name, has_runpath(cookie) ? "runpath" : "rpath");
        break;
    case LA_SER_CONFIG: tell_candidate(&l, cookie, name, "cache"); break;
    case LA_SER_DEFAULT: tell_candidate(&l, cookie, name, "default"); break;
    default: break;
    }
    return (char *)name;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    struct line l;
    const struct object *o = add_object(map);
    *cookie = o ? (uintptr_t)o : (uintptr_t)map;
    look_for_fork(&l);
    begin_event(&l, "open");
    put_member(&l, "path", o == objects ? me.exe : map->l_name);
    put_count(&l, "namespace", space);
    end_event(&l);
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

unsigned la_objclose(uintptr_t *cookie)
{
    struct object *o = object_of(cookie);
    struct line l;
    if (me.ended) {
        return 0;
    }
    look_for_fork(&l);
    me.ended = o == objects; // exit() closes the program first, then everything
    begin_event(&l, me.ended ? "end" : "close");
    if (!me.ended) {
        put_member(&l, "path", object_name(cookie));
    }
    end_event(&l);
    if (o && !me.ended) {
        __atomic_store_n(&o->from, 0, __ATOMIC_RELEASE);
        o->open = false;
    }
    return 0;
}

void la_activity(uintptr_t *cookie, unsigned flag)
{
    (void)cookie;
    me.adding = flag == LA_ACT_ADD;
}

void la_preinit(uintptr_t *cookie)
{
    struct line l;
    (void)cookie;
    me.started = true;
    me.adding = false;
    begin_event(&l, "started");
    end_event(&l);
}

/* ------------------------------------------------------------------ calls */

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
    const char *base = base_of(definer ? definer : "libc.so");
    bool own = begins(base, "libc.so") || begins(base, "libdl.so") || begins(base, "libdl-2.") ||
               begins(base, "libc-2.") || begins(base, "ld-linux") || begins(base, "ld-2.");
    return own ? NULL : definer;
}

static void tell_dlopen(const struct slot *s, const char *name, long flags, long space,
                        uintptr_t back)
{
    struct line l;
    look_for_fork(&l);
    begin_event(&l, "dlopen");
    put_member(&l, "name", name);
    put_member(&l, "caller", caller_at(back));
    put_count(&l, "flags", flags);
    put_count(&l, "namespace", space);
    put_member(&l, "interposed_by", interposer(s->definer));
    end_event(&l);
}

static void tell_variable(const struct slot *s, const char *name, const char *value, uintptr_t back)
{
    struct line l;
    size_t n = 0;
    while (name && name[n] && name[n] != '=') {
        n++;
    }
    if (!name || !begins(name, "LD_") || n >= 64) {
        return; // variables that the loader does not read
    }
    char key[64];
    for (size_t i = 0; i < n; i++) {
        key[i] = name[i];
    }
    key[n] = '\0';
    look_for_fork(&l);
    begin_event(&l, "setenv");
    put_member(&l, "name", key);
    put_member(&l, "value", s->call == CALL_PUTENV && name[n] == '=' ? name + n + 1 : value);
    put_member(&l, "caller", caller_at(back));
    end_event(&l);
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
        look_for_fork(&l);
        begin_event(&l, "dlerror");
        put_member(&l, "text", text);
        end_event(&l);
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
        (void)raw(SYS_sched_yield, 0, 0, 0, 0);
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
    if (!name || *flags & LA_SYMB_DLSYM || !has_char("dspu", name[0])) {
        return symbol->st_value;
    }
    for (enum call call = 0; call < N_CALLS; call++) {
        if (!same(name, call_names[call])) {
            continue;
        }
        if (call == CALL_DLERROR) {
            int slot = slot_for(error_slots, ERROR_SLOTS, symbol->st_value, call, object_name(to));
            return slot < 0 ? symbol->st_value : (uintptr_t)error_thunks[slot];
        }
        int slot = slot_for(slots, SLOTS, symbol->st_value, call, object_name(to));
        return slot < 0 ? symbol->st_value
                        : (uintptr_t)gpumend_trace_thunks + (uintptr_t)slot * THUNK_BYTES;
    }
    return symbol->st_value;
}

/* ------------------------------------------------------------------ the start */

/* As the loader calls it: with the vectors of the program's start. */
static const char *const *environment;

__attribute__((constructor)) static void remember(int argc, char **argv, char **envp)
{
    (void)argc, (void)argv;
    environment = (const char *const *)envp;
}

static const char *trace_variable(const char *name)
{
    size_t n = length(name);
    for (const char *const *e = environment; e && *e; e++) {
        if (begins(*e, name) && (*e)[n] == '=') {
            return *e + n + 1;
        }
    }
    return NULL;
}

/* Behind the environment the kernel has put the auxiliary vector. False in secure mode. */
static bool read_auxiliary(void)
{
    const char *const *e = environment;
    bool secure = false;
    while (*e) {
        e++;
    }
    for (const Elf64_auxv_t *a = (const Elf64_auxv_t *)(e + 1); a->a_type != AT_NULL; a++) {
        if (a->a_type == AT_SECURE) {
            secure = a->a_un.a_val != 0;
        } else if (a->a_type == AT_PHDR) {
            me.program_headers = a->a_un.a_val;
        } else if (a->a_type == AT_PHNUM) {
            me.n_program_headers = a->a_un.a_val;
        }
    }
    return !secure;
}

static void tell_start(unsigned version)
{
    static char folder[PATH_BYTES];
    struct line l;
    bool first = true;
    begin_event(&l, "start");
    put_count(&l, "ppid", raw(SYS_getppid, 0, 0, 0, 0));
    put_member(&l, "exe", me.exe);
    put_member(&l, "cwd", raw(SYS_getcwd, (long)folder, sizeof folder, 0, 0) > 0 ? folder : NULL);
    put_count(&l, "audit_version", version);
    put_plain(&l, ", \"env\": {");
    for (const char *const *e = environment; *e && !l.cut; e++) {
        char key[64];
        size_t n = 0;
        while (n < sizeof key - 1 && (*e)[n] && (*e)[n] != '=') {
            key[n] = (*e)[n];
            n++;
        }
        key[n] = '\0';
        if ((*e)[n] == '=' && (begins(key, "LD_") || same(key, "GLIBC_TUNABLES"))) {
            put_plain(&l, first ? "" : ", ");
            line_put_text(&l, key);
            put_plain(&l, ": ");
            line_put_text(&l, *e + n + 1);
            first = false;
        }
    }
    put_plain(&l, "}");
    end_event(&l);
}

unsigned la_version(unsigned version)
{
    /* glibc before 2.35 loses registers of calls on aarch64 while an audit library is there (its
     * bug 26643); LAV_CURRENT was 1 until then. */
#if defined(__aarch64__)
    const unsigned least = 2;
#else
    const unsigned least = 1;
#endif
    const char *asked = environment ? trace_variable("GPUMEND_TRACE") : NULL;
    me.file = environment ? trace_variable("GPUMEND_TRACE_FILE") : NULL;
    if (version < least || !asked || !same(asked, "1") || !me.file || me.file[0] != '/' ||
        !read_auxiliary()) {
        return 0; // the loader lets go of a library that answers so
    }
    long n = raw(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)me.exe, sizeof me.exe - 1);
    me.exe[n > 0 ? n : 0] = '\0';
    me.pid = raw_pid();
    me.preload = trace_variable("LD_PRELOAD");
    me.losses = record_losses(trace_variable(LOSS_VARIABLE));
    if (record() < 0) {
        return 0;
    }
    tell_start(version);
    return version;
}
