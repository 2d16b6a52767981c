// guard_switch MODEL.so N: loads and unloads a model N times, and says how much of the device's memory
// and of the machine's is taken at the end.
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

static long resident_pages()
{
    long size = 0, resident = 0;
    FILE *f = std::fopen("/proc/self/statm", "r");
    if (!f || std::fscanf(f, "%ld %ld", &size, &resident) != 2) {
        std::abort();
    }
    std::fclose(f);
    return resident;
}

int main(int argc, char **argv)
{
    void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    auto load = reinterpret_cast<void *(*)()>(dlsym(library, "model_load"));
    auto unload = reinterpret_cast<void (*)(void *)>(dlsym(library, "model_unload"));
    auto bytes = reinterpret_cast<long (*)()>(dlsym(library, "rt_device_bytes"));
    long n = std::atol(argv[2]), before = 0;
    for (long i = 0; i < n; i++) {
        unload(load());
        before = i == n / 10 ? resident_pages() : before;
    }
    std::printf("switched %ld device %ld grown %ld\n", n, bytes(), resident_pages() - before);
    return 0;
}
