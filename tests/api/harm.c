/*
 * What the library must not do to its host, whatever happens while it looks.
 *
 *     harm TREE PART [REAL [N]]
 *
 * TREE is a captured tree with a broken environment at /opt/venv, REAL an environment of this
 * machine that is broken alike, for what acts. Functions of the C library that this program defines
 * stand before those of libc for libgpumend and what it uses: they fail the nth allocation, cut off
 * the nth mapped file, and count what is not given back. Prints what is wrong, and ends with status
 * 1 if anything is.
 */
#include <errno.h>
#include <fcntl.h>
#include <gpumend.h>
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static const char *tree, *real;
static int failures;
static long allocations, live, mapped_files, cut_at;
static long fork_every; /* 0: no allocation is failed in a child */
static long fail_at;    /* 0: none is failed in this process and in those it becomes by fork() */
static long *most;      /* allocations of this process or of a child, in memory of both */
static long failed;     /* which allocation of this process has failed; 0: none */
static int failed_map;  /* it was a file that could not be mapped */
static struct {
    char path[4096];
    char *bytes;
    size_t n;
} cut;

static int expect(int holds, const char *what, long n)
{
    if (!holds) {
        printf("wrong: %s (%ld)\n", what, n);
        failures++;
    }
    return holds;
}

/* ------------------------------------------------------------------ before libc */

/*
 * Whether this allocation fails: in a child by fork(), which is this call from here on and ends by
 * itself; the caller goes on when it has. So each allocation of a call is failed once, and the way
 * to it is gone only once.
 */
static int fails(void)
{
    static int inside;
    allocations++;
    if (most && *most < allocations) {
        *most = allocations;
    }
    if (fail_at) {
        return allocations == fail_at;
    }
    if (!fork_every || inside || allocations % fork_every != 0) {
        return 0;
    }
    inside = 1;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        fork_every = 0;
        failed = allocations;
        failures = 0;
        (void)alarm(60);
    } else if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        failures++;
        fork_every = failures < 20 ? fork_every : 0;
    }
    inside = 0;
    return child == 0;
}

static void *counted(void *p)
{
    live += p != NULL;
    return p;
}

static uintptr_t jansson_begin, jansson_end;

static int find_jansson(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size, (void)arg;
    for (int i = 0; strstr(info->dlpi_name, "libjansson") && i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            jansson_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            jansson_end = jansson_begin + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 0;
}

/* jansson 2.14 does not look whether its buffer of a token could grow (load.c: lex_save()) and then
 * reads past its end: that buffer, whose sizes are powers of two, is not failed. */
static int is_token(size_t n, const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    return at >= jansson_begin && at < jansson_end && n >= 16 && (n & (n - 1)) == 0;
}

void *malloc(size_t n)
{
    if (is_token(n, __builtin_return_address(0))) {
        return counted(__libc_malloc(n));
    }
    return fails() ? (errno = ENOMEM, (void *)NULL) : counted(__libc_malloc(n));
}

void *calloc(size_t count, size_t n)
{
    return fails() ? (errno = ENOMEM, (void *)NULL) : counted(__libc_calloc(count, n));
}

void *realloc(void *p, size_t n)
{
    if (fails()) {
        errno = ENOMEM;
        return NULL;
    }
    void *more = __libc_realloc(p, n);
    live += !p && more;
    return more;
}

void free(void *p)
{
    live -= p != NULL;
    __libc_free(p);
}

/* Cuts the file off that has just been mapped; what it held is kept. */
static void cut_off(int fd)
{
    char link[64];
    struct stat st;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, cut.path, sizeof cut.path - 1);
    if (n > 0 && strncmp(cut.path, tree, strlen(tree)) == 0 && fstat(fd, &st) == 0) {
        cut.path[n] = '\0';
        cut.n = (size_t)st.st_size;
        cut.bytes = __libc_malloc(cut.n + 1);
        if (!cut.bytes || pread(fd, cut.bytes, cut.n, 0) != (ssize_t)cut.n ||
            truncate(cut.path, 0) != 0) {
            abort();
        }
    }
}

static void restore(void)
{
    int fd = cut.bytes ? open(cut.path, O_WRONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && write(fd, cut.bytes, cut.n) != (ssize_t)cut.n) {
        abort();
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    __libc_free(cut.bytes);
    cut.bytes = NULL;
}

static void *map(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (fails()) {
        failed_map = fd >= 0;
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *p = (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
    if (fd >= 0 && ++mapped_files == cut_at) {
        cut_off(fd);
    }
    return p;
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    return map(at, n, protection, flags, fd, offset);
}

/* What a library built with 64-bit offsets calls. */
void *mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t offset)
{
    return map(at, n, protection, flags, fd, offset);
}

/* ------------------------------------------------------------------ questions */

static const char *const none[] = {NULL};

static struct gm_target target_of(void)
{
    struct gm_target t;
    memset(&t, 0, sizeof t);
    t.size = sizeof t;
    t.root = tree;
    t.path = "/opt/venv";
    t.env = none;
    return t;
}

/* What a call found, where it did. */
static size_t found;

enum { CHECK, PLAN, WHY, CHOOSE, EXPLAIN, PRELOAD, FUNCTIONS, PAGE = FUNCTIONS, ALL_FUNCTIONS };

static int ask(gm_context *gm, int function)
{
    static const char text[] = "Failed to initialize NVML: Driver/library version mismatch\n";
    struct gm_target t = target_of();
    found = 0;
    union {
        struct gm_check check;
        struct gm_plan plan;
        struct gm_why why;
        struct gm_choice choice;
        struct gm_explained explained;
        struct gm_preloaded preloaded;
        struct gm_cause cause;
    } ret;
    int rc;
    if (function == PRELOAD && real) {
        t.root = NULL;
        t.path = real;
    }
    switch (function) {
    case CHECK:
        rc = gm_check(gm, &t, &ret.check);
        found = (size_t)ret.check.verdict * 1000 + ret.check.n_findings;
        return rc;
    case PLAN:
        rc = gm_plan(gm, &t, &ret.plan);
        found = ret.plan.n_ways;
        return rc;
    case WHY:
        rc = gm_why(gm, &t, "/opt/venv/bin/python", NULL, "libcublas.so.12", &ret.why);
        found = ret.why.n_steps;
        return rc;
    case CHOOSE: return gm_choose(gm, &t, NULL, &ret.choice);
    case EXPLAIN:
        rc = gm_explain_text(gm, text, sizeof text - 1, &ret.explained);
        found = ret.explained.cause != NULL;
        return rc;
    case PAGE: return gm_explain(gm, "library-not-on-path", &ret.cause);
    default: return gm_preload(gm, &t, &ret.preloaded);
    }
}

static int is_status(int rc)
{
    return rc <= GM_OK && rc >= GM_MEMORY;
}

/* ------------------------------------------------------------------ parts */

static volatile sig_atomic_t host_handled;

static void hosts_handler(int number)
{
    host_handled = number;
}

/* Each file that is mapped is cut off at once: an answer or an error, and the host's handler is
 * there afterwards, though its thread had the signal blocked. */
static void cuts(void)
{
    struct sigaction before, after;
    sigset_t blocked, mask;
    memset(&before, 0, sizeof before);
    before.sa_handler = hosts_handler;
    sigaction(SIGBUS, &before, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    long errors = 0, calls = 0;
    for (int function = 0; function < FUNCTIONS; function++) {
        long n = 0;
        do {
            gm_context *gm = gm_new();
            mapped_files = 0;
            cut_at = ++n;
            calls++;
            int rc = ask(gm, function);
            expect(is_status(rc) && (rc == GM_OK || *gm_error(gm)), "a status after a cut", rc);
            errors += rc == GM_LOOK && strstr(gm_error(gm), "shorter");
            cut_at = 0;
            restore();
            gm_free(gm);
        } while (mapped_files >= n && n < 500);
    }
    sigaction(SIGBUS, NULL, &after);
    expect(after.sa_handler == hosts_handler && !host_handled, "the host's handler", 0);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    expect(sigismember(&mask, SIGBUS), "the host's mask", 0);
    expect(errors > 0, "no file was cut off while it was read", errors);
    printf("%ld of %ld calls failed\n", errors, calls);
}

static const char *const names[] = {
    [CHECK] = "gm_check",         [PLAN] = "gm_plan",       [WHY] = "gm_why",
    [CHOOSE] = "gm_choose",       [PRELOAD] = "gm_preload", [PAGE] = "gm_explain",
    [EXPLAIN] = "gm_explain_text"};

/* In the child whose allocation failed: an error or an answer, nothing is left, and the same
 * context answers afterwards. */
static void end_without_memory(gm_context *gm, int function, int rc, int wanted,
                               size_t wanted_found, long live_before)
{
    long n = failed;
    /* A file that could not be mapped is a fact: then nothing is decided. */
    int may_differ = failed_map && (function != CHECK || found / 1000 == GM_UNKNOWN);
    expect(rc != GM_FORMAT, "a file is blamed", n);
    expect(rc != GM_OK || found == wanted_found || may_differ, "another answer", n);
    expect(is_status(rc) && (gm || rc == GM_MEMORY), "a status without memory", rc);
    if (gm && n % 64 == 1) {
        expect(ask(gm, function) == wanted, "the next call", n);
    }
    gm_free(gm);
    /* What dlopen() keeps is the process's. */
    expect(live <= live_before || function == PRELOAD, "allocations that are left",
           live - live_before);
    if (failures) {
        printf("%s, allocation %ld, %d\n", names[function], n, rc);
    }
    fflush(stdout);
    _exit(failures != 0);
}

/* Each allocation of the call, or one in `step`. */
static void memory(int function, long step)
{
    gm_context *gm = gm_new();
    int wanted = ask(gm, function);
    size_t wanted_found = found;
    gm_free(gm);
    long before = live;
    fflush(stdout);
    allocations = 0;
    found = 0;
    fork_every = step;
    gm = gm_new();
    int rc = gm ? ask(gm, function) : GM_MEMORY;
    fork_every = 0;
    if (failed) {
        end_without_memory(gm, function, rc, wanted, wanted_found, before);
    }
    expect(rc == wanted, "the answer of the caller", rc);
    gm_free(gm);
    expect(allocations > 0, "allocations", allocations);
    printf("%s (%d): %ld allocations\n", names[function], wanted, allocations);
}

/* gm_fix() without its Nth allocation: which one that is in its child does not matter. What is left
 * of the environment is for the caller to look at. */
static void fix_without_memory(long n)
{
    struct gm_target t = target_of();
    struct gm_repaired done;
    most = mmap(NULL, sizeof *most, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    t.root = NULL;
    t.path = real;
    gm_context *gm = gm_new();
    allocations = 0;
    fail_at = n;
    int rc = gm_fix(gm, &t, NULL, &done);
    fail_at = 0;
    expect(is_status(rc), "a status", rc);
    expect(n < 0 ? rc == GM_OK : rc != GM_OK || done.result != GM_NOTHING_DONE, "an answer", rc);
    gm_free(gm);
    printf("allocations %ld status %d\n", *most, rc);
}

/* ------------------------------------------------------------------ questions without a meaning */

static int is_zero(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    size_t i = 0;
    while (i < n && !bytes[i]) {
        i++;
    }
    return i == n;
}

#define EXPECT_ERROR(call, ret)                                                                    \
    do {                                                                                           \
        memset(&(ret), 0x5a, sizeof(ret));                                                         \
        int rc_ = (call);                                                                          \
        expect(rc_ < 0 && rc_ >= GM_MEMORY && is_zero(&(ret), sizeof(ret)), #call, rc_);           \
    } while (0)

static void sizes(gm_context *gm)
{
    static const size_t wrong[] = {0, 1, sizeof(size_t), sizeof(struct gm_target) - 1, SIZE_MAX};
    struct gm_target t = target_of();
    struct gm_wish wish;
    struct gm_check check;
    struct gm_choice choice;
    struct gm_why why;
    memset(&wish, 0, sizeof wish);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        t.size = wrong[i];
        EXPECT_ERROR(gm_check(gm, &t, &check), check);
        EXPECT_ERROR(gm_why(gm, &t, "/bin/sh", NULL, "libc.so.6", &why), why);
        wish.size = wrong[i] < sizeof t - 1 || wrong[i] == SIZE_MAX ? wrong[i] : sizeof wish - 1;
        EXPECT_ERROR(gm_choose(gm, NULL, &wish, &choice), choice);
    }
    struct {
        struct gm_target known;
        size_t more;
    } newer = {target_of(), 0};
    newer.known.size = sizeof newer;
    expect(gm_check(gm, &newer.known, &check) == GM_OK, "a newer caller", 0);
    newer.more = 1;
    EXPECT_ERROR(gm_check(gm, &newer.known, &check), check);
}

static void nulls(void)
{
    gm_context *gm = gm_new();
    struct gm_target t = target_of();
    struct gm_check check;
    struct gm_plan plan;
    struct gm_why why;
    struct gm_choice choice;
    struct gm_cause cause;
    struct gm_explained explained;
    struct gm_preloaded preloaded;
    struct gm_repaired repaired;
    struct gm_undone undone;
    struct gm_fix_options fix; /* without their sizes */
    struct gm_undo_options undo;
    memset(&fix, 0, sizeof fix);
    memset(&undo, 0, sizeof undo);
    EXPECT_ERROR(gm_check(NULL, &t, &check), check);
    EXPECT_ERROR(gm_plan(NULL, &t, &plan), plan);
    EXPECT_ERROR(gm_why(NULL, &t, "/bin/sh", NULL, "libc.so.6", &why), why);
    EXPECT_ERROR(gm_why(gm, &t, NULL, NULL, "libc.so.6", &why), why);
    EXPECT_ERROR(gm_why(gm, &t, "/opt/venv/bin/python", NULL, NULL, &why), why);
    EXPECT_ERROR(gm_choose(NULL, &t, NULL, &choice), choice);
    EXPECT_ERROR(gm_explain(NULL, "library-not-on-path", &cause), cause);
    EXPECT_ERROR(gm_explain(gm, NULL, &cause), cause);
    EXPECT_ERROR(gm_explain_text(NULL, "", 0, &explained), explained);
    EXPECT_ERROR(gm_explain_text(gm, NULL, 1, &explained), explained);
    EXPECT_ERROR(gm_preload(NULL, &t, &preloaded), preloaded);
    expect(gm_check(gm, &t, NULL) == GM_USAGE && *gm_error(gm), "no place for a check", 0);
    expect(gm_plan(gm, &t, NULL) == GM_USAGE, "no place for a plan", 0);
    expect(gm_why(gm, &t, "/bin/sh", NULL, "libc.so.6", NULL) == GM_USAGE, "no place for why", 0);
    expect(gm_choose(gm, &t, NULL, NULL) == GM_USAGE, "no place for a choice", 0);
    expect(gm_explain(gm, "library-not-on-path", NULL) == GM_USAGE, "no place for a page", 0);
    expect(gm_explain_text(gm, "", 0, NULL) == GM_USAGE, "no place for an explanation", 0);
    expect(gm_preload(gm, &t, NULL) == GM_USAGE, "no place for a preload", 0);
    EXPECT_ERROR(gm_fix(NULL, &t, NULL, &repaired), repaired);
    EXPECT_ERROR(gm_enable(NULL, &t, &repaired), repaired);
    EXPECT_ERROR(gm_undo(NULL, &t, NULL, &undone), undone);
    EXPECT_ERROR(gm_disable(NULL, &t, &undone), undone);
    EXPECT_ERROR(gm_fix(gm, &t, &fix, &repaired), repaired);
    EXPECT_ERROR(gm_undo(gm, &t, &undo, &undone), undone);
    expect(gm_fix(gm, &t, NULL, NULL) == GM_USAGE, "no place for a repair", 0);
    expect(gm_enable(gm, &t, NULL) == GM_USAGE, "no place for a hook", 0);
    expect(gm_undo(gm, &t, NULL, NULL) == GM_USAGE, "no place for what is undone", 0);
    expect(gm_disable(gm, &t, NULL) == GM_USAGE, "no place for what is disabled", 0);
    expect(gm_error(NULL) && *gm_error(NULL), "an error without a context", 0);
    sizes(gm);
    gm_free(gm);
}

/* ------------------------------------------------------------------ the process */

static int descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void *ask_all(void *arg)
{
    for (int function = 0; function < FUNCTIONS; function++) {
        gm_context *gm = gm_new();
        int rc = ask(gm, function);
        expect(is_status(rc) && rc != GM_MEMORY, "a thread's call", rc);
        gm_free(gm);
    }
    return arg;
}

static void threads(void)
{
    pthread_t list[2];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, GM_STACK_BYTES);
    for (int i = 0; i < 2; i++) {
        pthread_create(&list[i], &attributes, ask_all, NULL);
    }
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(60);
        (void)ask_all(NULL);
        _exit(failures != 0);
    }
    int status = -1;
    expect(waitpid(child, &status, 0) == child && status == 0, "a child by fork()", status);
    for (int i = 0; i < 2; i++) {
        pthread_join(list[i], NULL);
    }
    pthread_attr_destroy(&attributes);
}

static void process(void)
{
    char before[4096], after[4096];
    const char *locale = setlocale(LC_ALL, "de_DE.UTF-8");
    mode_t mask = umask(027);
    struct rlimit all, few;
    int open_before = descriptors();
    (void)ask_all(NULL);
    expect(descriptors() == open_before, "descriptors that are left", descriptors() - open_before);
    expect(getcwd(before, sizeof before) && chdir("/") == 0, "another folder", 0);
    errno = ENOTTY;
    (void)ask_all(NULL);
    expect(errno == ENOTTY, "errno", errno);
    expect(getcwd(after, sizeof after) && strcmp(after, "/") == 0, "the working directory", 0);
    expect(umask(mask) == 027, "the umask", 0);
    expect(!locale || strcmp(setlocale(LC_ALL, NULL), locale) == 0, "the locale", 0);
    getrlimit(RLIMIT_NOFILE, &all);
    few = all;
    few.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &few);
    int filled[64], n = 0;
    while (n < 64 && (filled[n] = dup(0)) >= 0) {
        n++;
    }
    for (int function = 0; function < FUNCTIONS; function++) {
        gm_context *gm = gm_new();
        int rc = ask(gm, function);
        expect(function == EXPLAIN ? rc == GM_OK : rc == GM_LOOK, "a call without descriptors", rc);
        gm_free(gm);
    }
    while (n > 0) {
        (void)close(filled[--n]);
    }
    setrlimit(RLIMIT_NOFILE, &all);
    expect(descriptors() == open_before, "descriptors that are left at last", 0);
}

/* A working directory whose path is longer than is read is an error, and no other folder is taken
 * for it; one that is shorter is none. */
static void deep(void)
{
    enum { FEW = 100, LEVELS = 8500 };
    char name[251];
    memset(name, 'd', sizeof name - 1);
    name[sizeof name - 1] = 0;
    if (!expect(chdir(tree) == 0, "a folder for it", 0)) {
        return;
    }
    for (int level = 1; level <= LEVELS; level++) {
        if (mkdir(name, 0700) < 0 || chdir(name) < 0) {
            expect(0, "a deep folder", level);
            return;
        }
        if (level == FEW || level == LEVELS) {
            gm_context *gm = gm_new();
            int rc = ask(gm, CHECK);
            expect(rc == (level == FEW ? GM_OK : GM_LIMIT), "the deep folder's check", rc);
            expect(rc == GM_OK || strstr(gm_error(gm), "working directory") != NULL, "its message",
                   rc);
            gm_free(gm);
        }
    }
    for (int level = 0; level < LEVELS && chdir("..") == 0; level++) {
        (void)rmdir(name);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        return 2;
    }
    setvbuf(stdout, NULL, _IONBF, 0); /* its buffer would count as left */
    tree = argv[1];
    real = argc > 3 ? argv[3] : NULL;
    (void)dl_iterate_phdr(find_jansson, NULL); // its value is the last visit's
    const char *part = argv[2];
    long step = argc > 4 ? strtol(argv[4], NULL, 10) : 1;
    if (strcmp(part, "cuts") == 0) {
        cuts();
    } else if (strcmp(part, "memory") == 0) {
        for (int function = 0; function < ALL_FUNCTIONS; function++) {
            memory(function,
                   function == CHECK || function == EXPLAIN || function == PAGE ? 1 : step);
        }
    } else if (strcmp(part, "nulls") == 0) {
        nulls();
    } else if (strcmp(part, "fix") == 0 && argc > 4) {
        fix_without_memory(step);
    } else if (strcmp(part, "process") == 0) {
        process();
    } else if (strcmp(part, "deep") == 0) {
        deep();
    } else {
        threads();
    }
    return failures != 0;
}
