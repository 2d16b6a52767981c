#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct arena_chunk {
    struct arena_chunk *next;
    size_t size, used;
    size_t mapped; // bytes to unmap; 0: it came from malloc() or calloc()
    max_align_t data[];
};

/* A usual chunk and its head are 64 pages. The first is small: an arena for one small answer should
 * not take much memory. */
enum {
    CHUNK_BYTES = (256 << 10) - 64,
    FIRST_BYTES = CHUNK_BYTES / 8,
    ALIGN = _Alignof(max_align_t)
};

static void oom_exit(void *arg)
{
    (void)arg;
    static const char text[] = "gpumend: out of memory\n";
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n; // nothing better can be done when even that fails
    _exit(3);
}

void arena_init(struct arena *a, size_t limit_bytes, void (*oom)(void *), void *oom_arg)
{
    *a =
        (struct arena){.limit_bytes = limit_bytes, .oom = oom ? oom : oom_exit, .oom_arg = oom_arg};
}

static void give_back(struct arena *a, bool mapped_too)
{
    for (struct arena_chunk *c = a->chunks; c;) {
        struct arena_chunk *next = c->next;
        if (!c->mapped) {
            free(c);
        } else if (mapped_too) {
            (void)munmap(c, c->mapped);
        }
        c = next;
    }
    a->chunks = NULL;
    a->used_bytes = 0;
}

void arena_release(struct arena *a)
{
    give_back(a, true);
}

void arena_leave(struct arena *a)
{
    give_back(a, false);
}

_Noreturn void arena_no_memory(struct arena *a)
{
    if (a->oom) {
        a->oom(a->oom_arg);
    }
    oom_exit(NULL);
    abort();
}

static struct arena_chunk *new_chunk(struct arena *a, size_t want)
{
    struct arena_chunk *c;
    size_t mapped = want == CHUNK_BYTES ? want + sizeof *c : 0;
    if (mapped) { // takes pages as they are used
        c = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        c = c == MAP_FAILED ? NULL : c;
    } else { // pieces of the small one are cleared as they are given out
        c = want == FIRST_BYTES ? malloc(sizeof *c + want) : calloc(1, sizeof *c + want);
    }
    if (!c) {
        arena_no_memory(a);
    }
    *c = (struct arena_chunk){.size = want, .mapped = mapped};
    return c;
}

static size_t padded(size_t size)
{
    return (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX / 4) {
        arena_no_memory(a);
    }
    size = padded(size);
    if (a->limit_bytes && (size > a->limit_bytes || a->used_bytes > a->limit_bytes - size)) {
        arena_no_memory(a);
    }
    struct arena_chunk *c = a->chunks;
    if (!c || c->size - c->used < size) {
        size_t chunk = a->chunks ? CHUNK_BYTES : FIRST_BYTES;
        size_t want = size > chunk / 4 ? size : chunk;
        struct arena_chunk *fresh = new_chunk(a, want);
        if (c && want == size) { // a large piece must not hide the room left in the newest
            fresh->next = c->next;
            c->next = fresh;
        } else {
            fresh->next = c;
            a->chunks = fresh;
        }
        c = fresh;
    }
    void *p = (char *)c->data + c->used;
    c->used += size;
    a->used_bytes += size;
    return c->size == FIRST_BYTES ? memset(p, 0, size) : p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / 4 / size) {
        arena_no_memory(a);
    }
    return arena_alloc(a, count * size);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *copy = arena_alloc(a, n + 1);
    if (n) {
        memcpy(copy, s, n);
    }
    return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
{
    char text[512]; // most texts are paths: they need no second pass
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    char *s = n < 0 ? arena_strdup(a, "") : arena_alloc(a, (size_t)n + 1);
    if (n >= 0 && (size_t)n < sizeof text) {
        memcpy(s, text, (size_t)n);
    } else if (n >= 0) {
        (void)vsnprintf(s, (size_t)n + 1, fmt, again); // measured just above
    }
    va_end(again);
    return s;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}

/* Whether the last piece that was given out could be made longer where it is. */
static bool grow_last(struct arena *a, const void *piece, size_t size, size_t more)
{
    struct arena_chunk *c = a->chunks;
    size_t add = padded(more) - padded(size);
    if (!size || !c || (const char *)piece + padded(size) != (const char *)c->data + c->used ||
        c->size - c->used < add || (a->limit_bytes && add > a->limit_bytes - a->used_bytes)) {
        return false;
    }
    if (c->size == FIRST_BYTES) {
        memset((char *)c->data + c->used, 0, add);
    }
    c->used += add;
    a->used_bytes += add;
    return true;
}

void *arena_grow(struct arena *a, const void *items, size_t n, size_t *cap, size_t item_size)
{
    size_t more = *cap ? *cap * 2 : item_size <= 8 ? 8 : item_size < 32 ? 4 : 2; // many stay short
    if (more <= SIZE_MAX / 4 / item_size &&
        grow_last(a, items, *cap * item_size, more * item_size)) {
        *cap = more;
        return (void *)(uintptr_t)items; // of the caller's own array
    }
    void *fresh = arena_array(a, more, item_size);
    if (n) {
        memcpy(fresh, items, n * item_size);
    }
    *cap = more;
    return fresh;
}
