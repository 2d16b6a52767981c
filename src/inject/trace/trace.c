/*
 * The audit library of `run --trace`: what the loader of one process searches, opens and misses,
 * one JSON line an event, appended to the file that GPUMEND_TRACE_FILE names (docs/watch.md,
 * docs/json.md).
 *
 * It looks and never changes what it looks at:
 *   - It makes system calls only: no library, no thread-local data, no malloc, no errno.
 *   - dlopen and dlmopen choose the search path by the address that they return to. The stubs
 *     (calls.c) therefore record the call and jump; nothing is between the caller and the loader.
 *     The result of a call shows in what is opened and closed after it, and in dlerror's text.
 *   - Before each line it checks that the descriptor is still its own: a program may close it.
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

#include "inject/record.h"
#include "inject/text.h"
#include "inject/trace/trace.h"

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
    int fd = trace_raw_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return fd == -13 ? "denied" : "unreadable"; // EACCES
    }
    long n = trace_raw(SYS_read, fd, (long)head, sizeof head, 0);
    (void)trace_raw(SYS_close, fd, 0, 0, 0);
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
    long rc = trace_raw_stat(path, &st, AT_SYMLINK_NOFOLLOW);
    bool link = rc == 0 && S_ISLNK(st.st_mode);
    rc = link ? trace_raw_stat(path, &st, 0) : rc;
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
    trace_begin_event(l, "candidate");
    trace_put_member(l, "caller", trace_object_name(caller));
    trace_put_member(l, "path", path);
    trace_put_member(l, "via", via);
    trace_put_member(l, "result", trace_has_char(path, '$') ? NULL : result_of(path));
    trace_end_event(l);
}

/* Whether `name` is an entry of LD_PRELOAD. */
static bool is_preload(const char *name)
{
    size_t n = text_length(name);
    const char *at = trace_me.preload;
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
    const struct object *o = trace_object_of(cookie);
    const struct link_map *map = trace_map_of(cookie);
    return o ? o->has_runpath : map && trace_has_tag(map, DT_RUNPATH);
}

static const char *kind_of_request(const uintptr_t *caller, const char *name)
{
    if (trace_me.started) {
        return trace_me.adding ? "needed" : "dlopen";
    }
    return trace_is_program(trace_object_of(caller)) && is_preload(name) ? "preload" : "needed";
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
    struct line l;
    trace_look_for_fork(&l);
    switch (flag) {
    case LA_SER_ORIG:
        trace_begin_event(&l, "request");
        trace_put_member(&l, "name", name);
        trace_put_member(&l, "caller", trace_object_name(cookie));
        trace_put_member(&l, "kind", kind_of_request(cookie, name));
        trace_end_event(&l);
        if (trace_has_char(name, '/')) {
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
    const struct object *o = trace_add_object(map);
    *cookie = o ? (uintptr_t)o : (uintptr_t)map;
    trace_look_for_fork(&l);
    trace_begin_event(&l, "open");
    trace_put_member(&l, "path", trace_is_program(o) ? trace_me.exe : map->l_name);
    trace_put_count(&l, "namespace", space);
    trace_end_event(&l);
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

unsigned la_objclose(uintptr_t *cookie)
{
    struct object *o = trace_object_of(cookie);
    struct line l;
    if (trace_me.ended) {
        return 0;
    }
    trace_look_for_fork(&l);
    trace_me.ended = trace_is_program(o); // exit() closes the program first, then everything
    trace_begin_event(&l, trace_me.ended ? "end" : "close");
    if (!trace_me.ended) {
        trace_put_member(&l, "path", trace_object_name(cookie));
    }
    trace_end_event(&l);
    if (o && !trace_me.ended) {
        __atomic_store_n(&o->from, 0, __ATOMIC_RELEASE);
        o->open = false;
    }
    return 0;
}

void la_activity(uintptr_t *cookie, unsigned flag)
{
    (void)cookie;
    trace_me.adding = flag == LA_ACT_ADD;
}

void la_preinit(uintptr_t *cookie)
{
    struct line l;
    (void)cookie;
    trace_me.started = true;
    trace_me.adding = false;
    trace_begin_event(&l, "started");
    trace_end_event(&l);
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
    size_t n = text_length(name);
    for (const char *const *e = environment; e && *e; e++) {
        if (text_begins(*e, name) && (*e)[n] == '=') {
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
            trace_me.program_headers = a->a_un.a_val;
        } else if (a->a_type == AT_PHNUM) {
            trace_me.n_program_headers = a->a_un.a_val;
        }
    }
    return !secure;
}

static void tell_start(unsigned version)
{
    static char folder[PATH_BYTES];
    struct line l;
    bool first = true;
    trace_begin_event(&l, "start");
    trace_put_count(&l, "ppid", trace_raw(SYS_getppid, 0, 0, 0, 0));
    trace_put_member(&l, "exe", trace_me.exe);
    trace_put_member(&l, "cwd",
                     trace_raw(SYS_getcwd, (long)folder, sizeof folder, 0, 0) > 0 ? folder : NULL);
    trace_put_count(&l, "audit_version", version);
    trace_put_plain(&l, ", \"env\": {");
    for (const char *const *e = environment; *e && !l.cut; e++) {
        char key[64];
        size_t n = 0;
        while (n < sizeof key - 1 && (*e)[n] && (*e)[n] != '=') {
            key[n] = (*e)[n];
            n++;
        }
        key[n] = '\0';
        if ((*e)[n] == '=' && (text_begins(key, "LD_") || text_equal(key, "GLIBC_TUNABLES"))) {
            trace_put_plain(&l, first ? "" : ", ");
            trace_line_put_text(&l, key);
            trace_put_plain(&l, ": ");
            trace_line_put_text(&l, *e + n + 1);
            first = false;
        }
    }
    trace_put_plain(&l, "}");
    trace_end_event(&l);
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
    trace_me.file = environment ? trace_variable("GPUMEND_TRACE_FILE") : NULL;
    if (version < least || !asked || !text_equal(asked, "1") || !trace_me.file ||
        trace_me.file[0] != '/' || !read_auxiliary()) {
        return 0; // the loader lets go of a library that answers so
    }
    long n = trace_raw(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)trace_me.exe,
                       sizeof trace_me.exe - 1);
    trace_me.exe[n > 0 ? n : 0] = '\0';
    trace_me.pid = trace_raw_pid();
    trace_me.preload = trace_variable("LD_PRELOAD");
    trace_me.losses = record_losses(trace_variable(LOSS_VARIABLE));
    if (trace_record() < 0) {
        return 0;
    }
    tell_start(version);
    return version;
}
