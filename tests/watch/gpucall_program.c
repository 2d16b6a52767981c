/* A program that never looks at the result of a GPU call: gpucall_program MODE [ARGUMENTS]. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpucall_runtime.h"

static char from[4096], *to;

/* One call out of a thousand fails, as the driver's table says. */
__attribute__((noinline)) void deepest(int i)
{
    (void)cudaMemcpy(to, from, 256 + (size_t)(i == 4), 1);
    __asm__ volatile("");
}

__attribute__((noinline)) void middle(int i)
{
    deepest(i);
    __asm__ volatile("");
}

static void thousand(void)
{
    (void)cudaMalloc((void **)&to, 4096);
    for (int i = 0; i < 1000; i++) {
        middle(i);
    }
}

static void *in_thread(void *size)
{
    void *at;
    (void)cudaMalloc(&at, (size_t)(uintptr_t)size);
    return NULL;
}

static void threads(void)
{
    pthread_t a, b;
    (void)cudaMalloc((void **)&to, 16);
    pthread_create(&a, NULL, in_thread, (void *)((uintptr_t)1 << 40));
    pthread_create(&b, NULL, in_thread, (void *)((uintptr_t)1 << 41));
    pthread_join(a, NULL);
    pthread_join(b, NULL);
}

__attribute__((noinline)) static void too_much(void)
{
    void *at;
    (void)cudaMalloc(&at, (size_t)1 << 42);
}

static void forks(void)
{
    too_much();
    pid_t child = fork();
    if (child == 0) {
        too_much();
        too_much();
        exit(0);
    }
    waitpid(child, NULL, 0);
    printf("%d %d\n", (int)getpid(), (int)child);
}

/* Where it was called from, as libgcc's unwinder has it. */
static int by_unwinder(const void *a, const void *b)
{
    void *frames[64], *at;
    char **names;
    int n = backtrace(frames, 64);
    (void)a, (void)b;
    names = backtrace_symbols(frames, n);
    for (int i = 1; i < n; i++) {
        puts(names[i]);
    }
    fflush(stdout);
    errno = 77;
    (void)cudaMalloc(&at, (size_t)1 << 43);
    printf("errno %d\n", errno);
    exit(0);
}

__attribute__((noinline)) static void with_array(size_t n, int depth)
{
    char array[n]; // its frame is found by a frame pointer only
    memset(array, depth, n);
    if (depth) {
        with_array(n + 7, depth - 1);
    } else {
        int numbers[] = {2, 1};
        qsort(numbers, 2, sizeof *numbers, by_unwinder);
    }
    __asm__ volatile("" : : "r"(array) : "memory");
}

static void by_design(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*attribute)(void *, int, uint64_t) =
        (int (*)(void *, int, uint64_t))dlsym(driver, "cuPointerGetAttribute");
    int (*current)(void **) = (int (*)(void **))dlsym(driver, "cuCtxGetCurrent");
    int (*of_device)(int *, int, int) =
        (int (*)(int *, int, int))dlsym(driver, "cuDeviceGetAttribute");
    int (*function)(const char *, void **, int, uint64_t, int *) =
        (int (*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
    int value;
    void *found;
    printf("%d", cudaStreamQuery(NULL));
    printf(" %d", attribute(&value, 1, (uintptr_t)from));
    printf(" %d", current(&context));
    printf(" %d", of_device(&value, 99999, 0));
    printf(" %d\n", function("cuMemAlloc", &found, 99999, 0, NULL));
}

static void kernels(void)
{
    typedef int (*get)(void **, void *, const char *);
    get f = (get)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLibraryGetKernel");
    void *kernel;
    printf("%d",
           f(&kernel, (void *)1, "_Z54ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_f8e4m3"));
    printf(" %d\n", f(&kernel, (void *)1, "_Z1fv"));
}

static void many_arguments(void)
{
    typedef int (*batch)(void *, void *, void *, size_t, void *, void *, size_t, void *);
    batch f = (batch)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyBatchAsync_v2");
    printf("%d\n", f((void *)1, (void *)2, (void *)3, 4, (void *)5, (void *)6, 7, (void *)8));
}

/* Descriptor 2 becomes a file of the program's, in which nobody else may write. */
static void closes(const char *path)
{
    for (int fd = 0; fd < 256; fd++) {
        close(fd);
    }
    if (open("/dev/null", O_RDWR) != 0 || open("/dev/null", O_RDWR) != 1 ||
        open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) != 2) {
        _exit(3);
    }
    too_much();
    (void)!write(2, "mine", 4);
    _exit(lseek(2, 0, SEEK_CUR) == 4 ? 0 : 4);
}

static void clean(void *arg)
{
    (void)arg;
    puts("cleaned up");
}

static void *is_cancelled(void *arg)
{
    (void)arg;
    pthread_cleanup_push(clean, NULL);
    (void)cudaMemcpy(to, from, 1, 1); // sleeps in the driver
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel(void)
{
    pthread_t thread;
    void *result;
    (void)cudaMalloc((void **)&to, 16);
    pthread_create(&thread, NULL, is_cancelled, NULL);
    usleep(300000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    puts(result == PTHREAD_CANCELED ? "cancelled" : "went on");
}

/* A library that comes and goes, at another address each time. */
static void reopens(int times)
{
    int failed = 0, value;
    for (int i = 0; i < times; i++) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW), *kept = malloc((size_t)1 << (12 + i % 8));
        int (*of_device)(int *, int, int) =
            (int (*)(int *, int, int))dlsym(driver, "cuDeviceGetAttribute");
        int (*many)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
        failed += of_device(&value, 1, 0) != 0 || many(&value) != 0;
        dlclose(driver);
        free(kept);
    }
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*of_device)(int *, int, int) =
        (int (*)(int *, int, int))dlsym(driver, "cuDeviceGetAttribute");
    (void)setenv("FAKE_GPU_TABLE", getenv("OTHER_TABLE"), 1);
    printf("%d %d\n", failed, of_device(&value, 1, 0));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "thousand") == 0) {
        thousand();
    } else if (strcmp(mode, "threads") == 0) {
        threads();
    } else if (strcmp(mode, "fork") == 0) {
        forks();
    } else if (strcmp(mode, "unwind") == 0) {
        with_array(100, 3);
    } else if (strcmp(mode, "design") == 0) {
        by_design();
    } else if (strcmp(mode, "kernels") == 0) {
        kernels();
    } else if (strcmp(mode, "many") == 0) {
        many_arguments();
    } else if (strcmp(mode, "closes") == 0 && argc > 2) {
        closes(argv[2]);
    } else if (strcmp(mode, "exec") == 0) {
        too_much();
        execl(argv[0], argv[0], "once", NULL);
    } else if (strcmp(mode, "cancel") == 0) {
        cancel();
    } else if (strcmp(mode, "reopens") == 0 && argc > 2) {
        reopens(atoi(argv[2]));
    } else if (strcmp(mode, "once") == 0) {
        too_much();
    } else {
        return 2;
    }
    return 0;
}
