/* Any bytes as what a traced program has recorded, whole and in pieces: it is read, shown and
 * compared with the model of this system's programs. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct out null_out;

static void show(void *arg, const struct watch_event *event)
{
    (void)arg;
    report_trace_event(&null_out, event);
}

static void drop(void *arg, const char *line, size_t n)
{
    (void)arg;
    assert(n > 1 && line[n - 1] == '\n');
}

static void check(const struct watch_comparison *c)
{
    assert(c->n_same <= c->n_requests);
    for (size_t i = 0; i < c->differences.n; i++) {
        assert(c->differences.items[i].summary && c->differences.items[i].name);
    }
}

static void put(int fd, const uint8_t *data, size_t size)
{
    ssize_t n = write(fd, data, size);
    assert(n == (ssize_t)size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct watch_comparison c;
    struct watch_trace t;
    struct arena arena;
    struct root host = ROOT_EMPTY;
    struct gm_err err;
    char path[64];
    if (!null_out.file) {
        out_init(&null_out, fopen("/dev/null", "w"));
    }
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert(fd >= 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    arena_init(&arena, (size_t)1 << 30, NULL, NULL);
    int rc = watch_trace_open(&t, &arena, path, &err);
    int root = root_open(&host, "/", &err);
    assert(rc == 0 && root == 0);
    t.show = show;
    put(fd, data, size / 2);
    watch_trace_read(&t);
    put(fd, data + size / 2, size - size / 2);
    watch_trace_end(&t);
    watch_compare(&t, &arena, &host, &c);
    check(&c);
    report_trace_text(&null_out, &arena, &c);
    report_trace_json(&arena, &c, drop, NULL);
    root_close(&host);
    arena_release(&arena);
    (void)close(fd);
    return 0;
}
