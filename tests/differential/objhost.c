/*
 * Opens shared objects with the real dlopen, each in a child of its own, without running their
 * constructors, and prints the link map or the error text.
 *
 * Reads paths from standard input, one a line. For each it prints
 *     F <path>
 *     M <path>       for each entry of the link map, the main program first, or
 *     E <text>       what dlerror() says
 *     X <signal>     the child died of this signal (14: the time limit)
 *
 * How the constructors are left out: the loader calls the function at r_debug.r_brk when all new
 * objects are mapped and none is relocated or initialised yet (glibc elf/dl-open.c,
 * dl_open_worker_begin). A jump written over that function leads to `on_new_objects`, which
 * empties DT_INIT_ARRAY and turns DT_INIT into a function that does nothing.
 */
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIME_LIMIT_S 10

static struct r_debug *debug;
static struct link_map *last_known;

static void nothing(void)
{
}

static void set_entry(ElfW(Dyn) * entry, uintptr_t value)
{
    uintptr_t page = (uintptr_t)entry & ~(uintptr_t)4095;

    if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE) != 0 &&
        mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) != 0) {
        return;
    }
    entry->d_un.d_ptr = value;
}

static void disarm(struct link_map *map)
{
    for (ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_INIT) {
            set_entry(entry, (uintptr_t)nothing - map->l_addr);
        } else if (entry->d_tag == DT_INIT_ARRAYSZ) {
            set_entry(entry, 0);
        }
    }
}

static void on_new_objects(void)
{
    if (debug->r_state != RT_CONSISTENT) {
        return;
    }
    for (struct link_map *map = last_known->l_next; map; map = map->l_next) {
        disarm(map);
        last_known = map;
    }
}

static void install_hook(void)
{
    unsigned char jump[16];
    size_t n = 0;
    uintptr_t target = (uintptr_t)on_new_objects;
    uintptr_t page;

    for (ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_DEBUG) {
            debug = (struct r_debug *)entry->d_un.d_ptr;
        }
    }
    for (last_known = debug->r_map; last_known->l_next; last_known = last_known->l_next) {
    }
#if defined(__x86_64__) && !defined(__ILP32__)
    jump[n++] = 0x49, jump[n++] = 0xbb; // mov r11, target; jmp r11
    memcpy(jump + n, &target, 8), n += 8;
    jump[n++] = 0x41, jump[n++] = 0xff, jump[n++] = 0xe3;
#else
    jump[n++] = 0xb8; // mov eax, target; jmp eax
    memcpy(jump + n, &target, 4), n += 4;
    jump[n++] = 0xff, jump[n++] = 0xe0;
#endif
    page = (uintptr_t)debug->r_brk & ~(uintptr_t)4095;
    if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
        perror("objhost: mprotect");
        exit(1);
    }
    memcpy((void *)debug->r_brk, jump, n);
    mprotect((void *)page, 8192, PROT_READ | PROT_EXEC);
}

static void open_one(const char *path)
{
    alarm(TIME_LIMIT_S);
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
        printf("E\t%s\n", dlerror());
    } else {
        for (struct link_map *map = debug->r_map; map; map = map->l_next) {
            printf("M\t%s\n", map->l_name);
        }
    }
    fflush(stdout);
    _exit(0);
}

int main(void)
{
    static char path[65536];

    install_hook();
    while (fgets(path, sizeof path, stdin)) {
        int status = 0;
        pid_t child;

        path[strcspn(path, "\n")] = '\0';
        printf("F\t%s\n", path);
        fflush(stdout);
        child = fork();
        if (child == 0) {
            open_one(path);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) {
            return 1;
        }
        if (WIFSIGNALED(status)) {
            printf("X\t%d\n", WTERMSIG(status));
        } else if (WEXITSTATUS(status) != 0) {
            printf("X\t-%d\n", WEXITSTATUS(status));
        }
    }
    return 0;
}
