/*
 * One arena for each command: all that is found out goes into it and is dropped with it.
 *
 * Memory comes zeroed and stays valid until arena_release(). The arena never returns NULL: when
 * the system has no memory left, or the arena would grow beyond its limit, the arena's oom
 * function is called, which must not return (the command line ends with exit status 3; a library
 * entry point jumps back to its frame). The limit keeps hostile input from taking all memory.
 */
#ifndef GPUMEND_BASE_ARENA_H
#define GPUMEND_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; // newest first
    size_t used_bytes;          // handed out so far
    size_t limit_bytes;         // 0: no limit
    void (*oom)(void *oom_arg); // must not return
    void *oom_arg;
};

/* The limit of a command's arena. Far above what a real environment needs (docs/bench). */
#define ARENA_LIMIT_DEFAULT ((size_t)2 << 30)

/* Starts an empty arena. With oom == NULL, running out ends the process with status 3. */
void arena_init(struct arena *a, size_t limit_bytes, void (*oom)(void *), void *oom_arg);

/* What an arena does without memory, for memory that others hold for us. */
_Noreturn void arena_no_memory(struct arena *a);

/* Gives everything back. Accepts an arena that was only zeroed. */
void arena_release(struct arena *a);
/* The same for a process that ends: its mappings go faster with it. */
void arena_leave(struct arena *a);

void *arena_alloc(struct arena *a, size_t size) __attribute__((malloc, returns_nonnull));
void *arena_array(struct arena *a, size_t count, size_t size)
    __attribute__((malloc, returns_nonnull));
char *arena_strndup(struct arena *a, const char *s, size_t n) __attribute__((returns_nonnull));
char *arena_strdup(struct arena *a, const char *s) __attribute__((returns_nonnull));
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((returns_nonnull, format(GM_PRINTF, 2, 3)));
char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
    __attribute__((returns_nonnull, format(GM_PRINTF, 2, 0)));

/*
 * A growing array of any type: declare `struct { T *items; size_t n, cap; } v;` (zeroed) and use
 * VEC_PUSH(arena, &v, item). Items move when the array grows, unless it was the last
 * that the arena gave out; old storage stays in the arena.
 */
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *items;                                                                                  \
        size_t n, cap;                                                                             \
    }
#define VEC_PUSH(a, v, ...)                                                                        \
    do {                                                                                           \
        if ((v)->n == (v)->cap) {                                                                  \
            (v)->items = arena_grow((a), (v)->items, (v)->n, &(v)->cap, sizeof *(v)->items);       \
        }                                                                                          \
        (v)->items[(v)->n++] = (__VA_ARGS__);                                                      \
    } while (0)

/* For VEC_PUSH: doubles *cap and returns storage that holds the first n items. */
void *arena_grow(struct arena *a, const void *items, size_t n, size_t *cap, size_t item_size)
    __attribute__((returns_nonnull));

#endif
