/*
 * How a fake library is told to misbehave. The file named by FAKE_GPU_TABLE holds lines
 *
 *   FUNCTION[#CALL][@STAGE] BEHAVIOUR [VALUE]
 *
 *   return N    the function answers N and does nothing
 *   value V     what a query answers: a number, or a word (a name, a bus address)
 *   wrong       what is computed is off
 *   slow MS     it sleeps first
 *   garbage     it writes on standard output and standard error first
 *   hang        it never returns, and does not end at SIGTERM
 *   stop        it stops itself, as by SIGSTOP
 *   flood MIB   it writes that much on standard output first
 *   noise MIB   it writes that much into descriptor 3, which is the probe's
 *   fork        it leaves a process behind that holds its descriptors
 *   session     the same, in a session of its own
 *   kill N      it gets signal N
 *   abort, segfault
 *
 * #CALL counts the calls of the function in one process, from 1; without it every call is meant.
 * @STAGE means the process of one stage alone.
 * Several rows may be for one function. A line that begins with # is a remark. A symbol that must
 * be missing is left out by the build (-DWITHOUT_hipInit).
 *
 * Each function of a fake begins with
 *
 *   FAKE(hipInit);                  returns here if the table says so
 *
 * and then has `fake_now.wrong` and `fake_now.value`.
 */
#ifndef FAKE_TABLE_H
#define FAKE_TABLE_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct fake {
    bool wrong, returns;
    long code;
    char value[128]; // empty: none
};

enum { FAKE_FUNCTIONS = 128 };

/* How many times the function was called, this time among them. */
static inline unsigned fake_count(const char *function)
{
    static struct {
        const char *name;
        unsigned calls;
    } counts[FAKE_FUNCTIONS];
    for (size_t i = 0; i < FAKE_FUNCTIONS; i++) {
        if (!counts[i].name || strcmp(counts[i].name, function) == 0) {
            counts[i].name = counts[i].name ? counts[i].name : strdup(function);
            return ++counts[i].calls;
        }
    }
    return 0;
}

static inline void fake_hang(void)
{
    signal(SIGTERM, SIG_IGN);
    for (;;) {
        pause();
    }
}

static inline void fake_sleep(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static inline void fake_garbage(void)
{
    static const char junk[] = "\0\377\033[31mpassed failed 0 x%zz\ncall nothing\r\n";
    for (int i = 0; i < 3; i++) {
        (void)!write(1, junk, sizeof junk);
        (void)!write(2, junk, sizeof junk);
    }
}

static inline void fake_flood(long mib)
{
    static char block[1 << 16];
    memset(block, 'x', sizeof block);
    for (long i = 0; i < mib * 16; i++) {
        (void)!write(1, block, sizeof block);
    }
}

/* Lines that look like the probe's, bytes that look like nothing, and no line end behind them. */
static inline void fake_noise(long mib)
{
    static char block[1 << 16];
    static const char line[] = "call of_nothing\nfact a b\nfact\ncall\n%zz \0\377\nsomething ";
    for (size_t i = 0; i < sizeof block; i++) {
        block[i] = line[i % (sizeof line - 1)];
    }
    for (long i = 0; i < mib * 16; i++) {
        (void)!write(3, block, sizeof block);
    }
}

static inline void fake_fork(void)
{
    if (fork() == 0) {
        fake_sleep(60000);
        _exit(0);
    }
}

/* The same in a session of its own, whose parent is gone. */
static inline void fake_session(void)
{
    if (fork() == 0) {
        setsid();
        fake_fork();
        _exit(0);
    }
}

static inline void fake_behave(struct fake *f, const char *behaviour, const char *value)
{
    if (strcmp(behaviour, "return") == 0) {
        f->returns = true;
        f->code = strtol(value, NULL, 0);
    } else if (strcmp(behaviour, "value") == 0) {
        snprintf(f->value, sizeof f->value, "%s", value);
    } else if (strcmp(behaviour, "wrong") == 0) {
        f->wrong = true;
    } else if (strcmp(behaviour, "slow") == 0) {
        fake_sleep(strtol(value, NULL, 0));
    } else if (strcmp(behaviour, "garbage") == 0) {
        fake_garbage();
    } else if (strcmp(behaviour, "hang") == 0) {
        fake_hang();
    } else if (strcmp(behaviour, "stop") == 0) {
        raise(SIGSTOP);
    } else if (strcmp(behaviour, "flood") == 0) {
        fake_flood(strtol(value, NULL, 0));
    } else if (strcmp(behaviour, "noise") == 0) {
        fake_noise(strtol(value, NULL, 0));
    } else if (strcmp(behaviour, "fork") == 0) {
        fake_fork();
    } else if (strcmp(behaviour, "session") == 0) {
        fake_session();
    } else if (strcmp(behaviour, "kill") == 0) {
        raise((int)strtol(value, NULL, 10));
    } else if (strcmp(behaviour, "abort") == 0) {
        abort();
    } else if (strcmp(behaviour, "segfault") == 0) {
        raise(SIGSEGV);
    } else {
        fprintf(stderr, "fake: the table has no behaviour %s\n", behaviour);
        _exit(99);
    }
}

/* Whether the process has the argument "stage=NAME". */
static inline bool fake_stage_is(const char *name)
{
    char text[65536], wanted[80];
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    bool found = false;
    snprintf(wanted, sizeof wanted, "stage=%s", name);
    text[n] = '\0';
    for (size_t i = 0; i < n && !found; i += strlen(text + i) + 1) {
        found = strcmp(text + i, wanted) == 0;
    }
    if (file) {
        fclose(file);
    }
    return found;
}

/* Whether the row's first word means this call. */
static inline bool fake_meant(char *word, const char *function, unsigned count)
{
    char *at = strchr(word, '@'), *hash = strchr(word, '#');
    if (at) {
        *at = '\0';
    }
    if (hash) {
        *hash = '\0';
    }
    if (at && !fake_stage_is(at + 1)) {
        return false;
    }
    return strcmp(word, function) == 0 && (!hash || strtoul(hash + 1, NULL, 10) == count);
}

static inline struct fake fake_call(const char *function)
{
    struct fake f = {0};
    const char *path = getenv("FAKE_GPU_TABLE");
    unsigned count = fake_count(function);
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        char word[128] = "", behaviour[32] = "", value[128] = "";
        if (line[0] != '#' && sscanf(line, "%127s %31s %127[^\n]", word, behaviour, value) >= 2 &&
            fake_meant(word, function, count)) {
            fake_behave(&f, behaviour, value);
        }
    }
    if (file) {
        fclose(file);
    }
    return f;
}

/* The value as a number, or what a healthy card says. */
static inline long fake_number(const struct fake *f, long healthy)
{
    return f->value[0] ? strtol(f->value, NULL, 0) : healthy;
}

static inline const char *fake_word(const struct fake *f, const char *healthy)
{
    return f->value[0] ? f->value : healthy;
}

#define FAKE(function)                                                                             \
    struct fake fake_now = fake_call(#function);                                                   \
    if (fake_now.returns) {                                                                        \
        return (int)fake_now.code;                                                                 \
    }                                                                                              \
    (void)fake_now

#endif
