/* A running process whose /proc is the input, pieces cut at 0xff bytes: its program, folder,
 * variables, mappings, container and children; what `check --pid` reads, models and prints. */
#include <stdint.h>
#include <string.h>

#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PID = 77, LINKS = 2, LINK_BYTES_MAX = 255 };

static const char *const pieces[] = {
    "/proc/77/maps",      "/proc/77/environ", "/proc/77/stat", "/proc/77/cgroup",
    "/proc/77/mountinfo", "/proc/stat",       "/proc/78/stat", "/proc/78/comm",
    "/proc/78/maps",      "/proc/79/stat",    "/proc/79/comm", "/proc/79/maps",
};

static const char *const links[LINKS] = {"/proc/77/exe", "/proc/77/cwd"};

/* The first pieces, as targets of links, which are never empty; returns how many bytes they
 * take. */
static size_t make_links(const uint8_t *data, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < LINKS; i++) {
        char target[LINK_BYTES_MAX + 1] = "/";
        const uint8_t *end = at < size ? memchr(data + at, 0xff, size - at) : NULL;
        size_t n = end ? (size_t)(end - data) - at : size - at;
        size_t kept = n < LINK_BYTES_MAX ? n : LINK_BYTES_MAX;
        if (kept && data[at]) { // a name ends with its first NUL
            memcpy(target, data + at, kept);
            target[kept] = '\0';
        }
        world_link(links[i], target);
        at += n + (end != NULL);
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = make_links(data, size);
    world_link("/proc/77/root", world_top());
    world_write_pieces(pieces, sizeof pieces / sizeof *pieces, data + at, size - at);
    world_check_process(PID);
    return 0;
}
