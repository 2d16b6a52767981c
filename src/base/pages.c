#include "base/pages.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct region {
    unsigned char *base;
    size_t length; // whole pages
    struct pages *pages;
    bool recording;
    bool open;      // all of it is readable: no fault is ours any more
    size_t last;    // page of the last fault: it does not fault twice in a row
    unsigned holes; // pages that were read and not known
};

/* A document's file of many gigabytes of which nothing is known is not walked page by page. */
enum { HOLES_MAX = 1024 };

/* The handler has no other way to its data. */
static struct {
    struct region *regions; // newest last
    size_t n, cap;
    size_t unit;
    bool handling;
    struct sigaction former;
} state;

size_t pages_unit(void)
{
    if (!state.unit) {
        long unit = sysconf(_SC_PAGESIZE);
        state.unit = unit > 0 ? (size_t)unit : 4096;
    }
    return state.unit;
}

size_t pages_bitmap_bytes(size_t size)
{
    return size / pages_unit() / 8 + 1;
}

static struct region *region_of(const unsigned char *at)
{
    for (size_t i = state.n; i-- > 0;) {
        struct region *r = &state.regions[i];
        if (at >= r->base && (size_t)(at - r->base) < r->length) {
            return r;
        }
    }
    return NULL;
}

/* The first range that ends behind `offset`. */
static size_t first_range(const struct pages *p, uint64_t offset)
{
    size_t low = 0, high = p->n_ranges;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->ranges[mid].offset + p->ranges[mid].n > offset) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return low;
}

/* Copies what is known of [from, to) of the file to its place; the number of bytes. */
static size_t copy_known(const struct region *r, uint64_t from, uint64_t to)
{
    const struct pages *p = r->pages;
    size_t copied = 0;
    for (size_t i = first_range(p, from); i < p->n_ranges && p->ranges[i].offset < to; i++) {
        const struct pages_range *x = &p->ranges[i];
        uint64_t start = x->offset > from ? x->offset : from;
        uint64_t end = x->offset + x->n < to ? x->offset + x->n : to;
        memcpy(r->base + start, x->bytes + (start - x->offset), (size_t)(end - start));
        copied += (size_t)(end - start);
    }
    return copied;
}

/* Whether something of [from, to) is known. */
static bool knows(const struct region *r, uint64_t from, uint64_t to)
{
    const struct pages *p = r->pages;
    size_t i = first_range(p, from);
    return (i < p->n_ranges && p->ranges[i].offset < to) ||
           (p->more && p->more(p->more_arg, from, (size_t)(to - from), NULL));
}

/* Copies what is known of a page to its place; false: not all of it is known. */
static bool copy_page(const struct region *r, size_t start, size_t end)
{
    const struct pages *p = r->pages;
    size_t known = copy_known(r, start, end);
    return known == end - start ||
           (p->more && p->more(p->more_arg, start, end - start, r->base + start));
}

/* Too many single pages for the kernel: everything becomes readable at once. */
static bool open_all(struct region *r)
{
    r->open = true;
    r->pages->failed |= r->recording;
    if (r->recording) {
        return mprotect(r->base, r->length, PROT_READ) == 0;
    }
    r->pages->missing |= !r->pages->rest_is_zero;
    if (mprotect(r->base, r->length, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    size_t unit = pages_unit(), size = r->pages->size;
    for (size_t at = 0; at < size; at += unit) {
        if (knows(r, at, size - at < unit ? size : at + unit)) {
            (void)copy_page(r, at, size - at < unit ? size : at + unit);
        }
    }
    return mprotect(r->base, r->length, PROT_READ) == 0;
}

static bool region_fill(struct region *r, size_t start)
{
    unsigned char *page = r->base + start;
    size_t unit = pages_unit();
    size_t end = r->pages->size - start < unit ? r->pages->size : start + unit;
    if (!knows(r, start, end)) {
        bool known = r->pages->rest_is_zero;
        r->pages->missing |= !known; // never written: the kernel's page of zeros serves
        return (known || r->holes++ < HOLES_MAX) && mprotect(page, unit, PROT_READ) == 0;
    }
    if (mprotect(page, unit, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    r->pages->missing |= !copy_page(r, start, end);
    return mprotect(page, unit, PROT_READ) == 0;
}

/* A page is read for the first time. */
static bool touch(struct region *r, const unsigned char *at)
{
    size_t page = (size_t)(at - r->base) / pages_unit();
    unsigned char bit = (unsigned char)(1u << (page & 7));
    if (r->open || r->last == page) {
        return false;
    }
    r->last = page;
    r->pages->touched[page / 8] |= bit;
    size_t start = page * pages_unit();
    if (r->recording) {
        return mprotect(r->base + start, pages_unit(), PROT_READ) == 0 || open_all(r);
    }
    return region_fill(r, start) || open_all(r);
}

static void pages_on_fault(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    const unsigned char *at = info->si_addr;
    struct region *r = info->si_code == SEGV_ACCERR ? region_of(at) : NULL;
    if (!r || !touch(r, at)) {
        (void)sigaction(signal_number, &state.former, NULL); // the access repeats, and goes there
        state.handling = false;
    }
    errno = saved;
}

static int start_handling(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
    action.sa_sigaction = pages_on_fault;
    (void)sigemptyset(&action.sa_mask); // cannot fail
    if (state.handling) {
        return 0;
    }
    if (sigaction(SIGSEGV, &action, &state.former) != 0) {
        return -errno;
    }
    state.handling = true;
    return 0;
}

/* Regions that were unmapped, and whose addresses are now another's, are dropped. */
static void drop_overlapped(const unsigned char *base, size_t length)
{
    size_t kept = 0;
    for (size_t i = 0; i < state.n; i++) {
        const struct region *r = &state.regions[i];
        if (r->base >= base + length || r->base + r->length <= base) {
            state.regions[kept++] = *r;
        }
    }
    state.n = kept;
}

static bool make_room(void)
{
    if (state.n < state.cap) {
        return true;
    }
    size_t cap = state.cap ? state.cap * 2 : 256;
    struct region *more = realloc(state.regions, cap * sizeof *more);
    if (!more) {
        return false;
    }
    state.regions = more;
    state.cap = cap;
    return true;
}

int pages_map(struct pages *p, int fd, const void **ret)
{
    size_t unit = pages_unit();
    if (p->size > SIZE_MAX - unit) {
        return -EFBIG;
    }
    size_t length = (p->size + unit - 1) / unit * unit;
    int rc = start_handling();
    if (rc < 0) {
        return rc;
    }
    int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS | MAP_NORESERVE : 0);
    void *base = mmap(NULL, length, PROT_NONE, flags, fd, 0);
    if (base == MAP_FAILED) {
        return -errno;
    }
    drop_overlapped(base, length);
    if (!make_room()) {
        (void)munmap(base, length); // nothing was read yet
        return -ENOMEM;
    }
    state.regions[state.n++] = (struct region){
        .base = base, .length = length, .pages = p, .recording = fd >= 0, .last = SIZE_MAX};
    *ret = base;
    return 0;
}

void pages_give_back(const void *from, size_t n)
{
    size_t unit = pages_unit(), skip = (unit - (size_t)((uintptr_t)from % unit)) % unit;
    if (n < skip + unit) {
        return;
    }
    unsigned char *start = (unsigned char *)(uintptr_t)from + skip;
    size_t whole = (n - skip) / unit * unit;
    struct region *r = region_of(start);
    bool replaying = r && !r->recording;
    /* What was filled in is gone then, and is filled in again. */
    if (!replaying || (!r->open && mprotect(start, whole, PROT_NONE) == 0)) {
        (void)madvise(start, whole, MADV_DONTNEED); // else they stay
    }
    if (r) {
        r->last = SIZE_MAX;
    }
}

void pages_stop(void)
{
    if (state.handling) {
        (void)sigaction(SIGSEGV, &state.former, NULL); // was valid when it was taken
    }
    free(state.regions);
    state.regions = NULL;
    state.n = state.cap = 0;
    state.handling = false;
}
