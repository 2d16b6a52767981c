// guard_ends LIBRARY.so N: starts and ends N threads, one after the other, each with the library's
// thread-local objects; says how many nanoseconds one takes.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <thread>

static void nothing(const char *, long) {}

int main(int argc, char **argv)
{
    void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : nullptr;
    void *found = library ? dlsym(library, "probe_use") : nullptr;
    if (!found) {
        return 97;
    }
    auto use = reinterpret_cast<void (*)(void (*)(const char *, long))>(found);
    long n = std::atol(argv[2]);
    auto began = std::chrono::steady_clock::now();
    for (long i = 0; i < n; i++) {
        std::thread(use, nothing).join();
    }
    auto took = std::chrono::steady_clock::now() - began;
    std::printf("%ld\n", static_cast<long>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(took).count() / n));
    return 0;
}
