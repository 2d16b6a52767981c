/*
 * The main program of a random world: performs a sequence of dlopen calls, each from a chosen
 * caller, and prints what the real loader did.
 *
 * Each argument is "NAME\tCALLER", or "NAME\tCALLER\tVERB\tA\tB" with a VERB that is done first:
 * setenv (variable A, value B) or symlink (target A, path B). CALLER is a file name: the first
 * loaded library of the world whose path ends in it performs the call through its own trampoline,
 * so that the loader sees a return address inside that library; where there is none, the program
 * calls itself.
 *
 * Output, one record a line, fields separated by tabs:
 *     L <caller's path> <new|old|err> <path or text>     for each argument
 *     M <path>                                           the link map at the end, main first
 */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC         "gpumend-worldlib"
#define MAGIC_AT      0x1f0
#define TRAMPOLINE_AT 0x200

typedef void *(*trampoline_fn)(void *(*)(const char *, int), const char *, int);

static struct link_map *first;

static int is_ours(const struct link_map *map)
{
    return map != first && map->l_name[0] != '\0' && strcmp(map->l_name, "linux-vdso.so.1") != 0 &&
           memcmp((const char *)map->l_addr + MAGIC_AT, MAGIC, 16) == 0;
}

static struct link_map *find_caller(const char *suffix)
{
    for (struct link_map *map = first; map && *suffix; map = map->l_next) {
        size_t have = strlen(map->l_name), want = strlen(suffix);
        if (have >= want && strcmp(map->l_name + have - want, suffix) == 0 && is_ours(map)) {
            return map;
        }
    }
    return NULL;
}

static int is_listed(const struct link_map *wanted, struct link_map **before, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (before[i] == wanted) {
            return 1;
        }
    }
    return 0;
}

static char *cut(char **rest)
{
    return strsep(rest, "\t");
}

static void prepare(char *rest)
{
    const char *verb = cut(&rest), *a = cut(&rest), *b = cut(&rest);

    if (!verb || !a || !b) {
        return;
    }
    if (strcmp(verb, "setenv") == 0 ? setenv(a, b, 1) != 0 : symlink(a, b) != 0) {
        perror("host: prepare");
        exit(3);
    }
}

static void load(char *argument)
{
    static struct link_map *before[4096];
    size_t n = 0;
    char *rest = argument;
    const char *name = cut(&rest), *suffix = cut(&rest);
    struct link_map *caller = find_caller(suffix ? suffix : "");
    void *handle;

    prepare(rest);
    for (struct link_map *map = first; map && n < 4096; map = map->l_next) {
        before[n++] = map;
    }
    if (caller) {
        handle = ((trampoline_fn)(uintptr_t)(caller->l_addr + TRAMPOLINE_AT))(
            dlopen, name, RTLD_NOW | RTLD_LOCAL);
    } else {
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    printf("L\t%s\t", caller ? caller->l_name : "");
    if (handle) {
        const struct link_map *map = handle;
        printf("%s\t%s\n", is_listed(map, before, n) ? "old" : "new", map->l_name);
    } else {
        printf("err\t%s\n", dlerror());
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    first = dlopen(NULL, RTLD_NOW);
    printf("S\n");
    fflush(stdout);
    for (int i = 1; i < argc; i++) {
        load(argv[i]);
    }
    for (struct link_map *map = first; map; map = map->l_next) {
        printf("M\t%s\n", map->l_name);
    }
    fflush(stdout);
    _exit(0);
}
