// restart_end MODE LIBRARY.so: a program that ends as MODE says, some by a call into the library.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static void *library;

static void call(const char *name)
{
    auto function = reinterpret_cast<void (*)()>(dlsym(library, name));
    if (!function) {
        std::_Exit(99);
    }
    function();
}

static void own_handler(int)
{
    std::signal(SIGSEGV, SIG_DFL);
}

static void close_all()
{
    for (int fd = 0; fd < 256; fd++) {
        close(fd);
    }
}

// As runtimes of other languages have it: little room for a handler, and nothing below it.
static void small_stack()
{
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t n = static_cast<size_t>(sysconf(_SC_MINSIGSTKSZ)) + 2560, room = (n / page + 1) * page;
    char *at = static_cast<char *>(
        mmap(nullptr, page + room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    stack_t stack = {at + page, 0, n};
    if (mprotect(at + page, room, PROT_READ | PROT_WRITE) || sigaltstack(&stack, nullptr)) {
        std::_Exit(94);
    }
}

// As a just-in-time compiler leaves it: code in no file, which keeps the address on the stack and
// then writes to 0.
static void generated(void *address)
{
#ifdef __x86_64__
    static const unsigned char code[] = {0x57, 0x31, 0xc0, 0x89, 0x00}; // push, xor, mov
#else
    static const unsigned char code[] = {0xe0, 0x0f, 0x1f, 0xf8, 0x00, 0x00, 0x80, 0xd2, // str, mov,
                                         0x00, 0x00, 0x00, 0xf9};                         // str
#endif
    void *at = mmap(nullptr, sizeof code, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(at, code, sizeof code);
    if (mprotect(at, sizeof code, PROT_READ | PROT_EXEC) == 0) {
        __builtin___clear_cache(static_cast<char *>(at), static_cast<char *>(at) + sizeof code);
        reinterpret_cast<void (*)(void *)>(at)(address);
    }
}

struct OwnThreadLocal {
    ~OwnThreadLocal()
    {
        if (armed) {
            std::abort();
        }
    }
    bool armed = false;
};

static thread_local OwnThreadLocal own;

int main(int argc, char **argv)
{
    if (argc < 3) {
        return 98;
    }
    std::string mode = argv[1];
    library = dlopen(argv[2], RTLD_NOW);
    if (!library) {
        return 97;
    }
    if (mode == "exec") {
        execl(argv[0], argv[0], "static", argv[2], nullptr);
        return 96;
    }
    if (mode == "exit-0" || mode == "exit-1") {
        return mode == "exit-1";
    } else if (mode == "thread-local") {
        call("crash_in_thread_local");
    } else if (mode == "static") {
        call("crash_in_static");
    } else if (mode == "static-exit-3") {
        call("crash_in_static");
        std::exit(3);
    } else if (mode == "abort-at-exit") {
        call("abort_at_exit");
    } else if (mode == "worker") {
        std::thread([] { call("crash_in_thread_local"); }).join();
    } else if (mode == "worker-exit") {
        std::thread([] {
            call("crash_in_thread_local");
            std::exit(0);
        }).join();
    } else if (mode == "close") {
        call("crash_in_static");
        dlclose(library);
    } else if (mode == "now") {
        call("crash_now");
    } else if (mode == "abort") {
        std::abort();
    } else if (mode == "own-thread-local") {
        own.armed = true;
    } else if (mode == "own-after-gpu" || mode == "own-after-gpu-exit-5") {
        std::atexit([] {
            reinterpret_cast<void (*)(int)>(dlsym(library, "go_deep"))(40);
            std::abort();
        });
        return mode == "own-after-gpu" ? 0 : 5;
    } else if (mode == "small-stack") {
        small_stack();
        std::atexit([] { std::abort(); });
    } else if (mode == "generated-code") {
        std::atexit([] { generated(dlsym(library, "go_deep")); });
    } else if (mode == "null-code") { // of a library that is gone, say
        std::atexit([] { reinterpret_cast<void (*volatile)()>(16)(); });
    } else if (mode == "own-exit") {
        std::atexit([] { std::abort(); });
    } else if (mode == "killed") {
        raise(SIGKILL);
    } else if (mode == "terminated") {
        raise(SIGTERM);
    } else if (mode == "sent") {
        raise(SIGSEGV);
    } else if (mode == "handler") {
        std::signal(SIGSEGV, own_handler);
        call("crash_in_static");
    } else if (mode == "handler-now") {
        std::signal(SIGSEGV, own_handler);
        call("crash_now");
    } else if (mode == "closed") {
        close_all();
        call("crash_in_static");
    } else if (mode == "fork") {
        pid_t child = fork();
        if (child == 0) {
            call("crash_now");
        }
        waitpid(child, nullptr, 0);
        return 5;
    } else if (mode == "quick") {
        std::_Exit(7);
    } else if (mode == "overflow") {
        struct Deep {
            static int down(volatile int n)
            {
                volatile char block[65536];
                block[n % 65536] = 1;
                return down(n + 1) + block[0];
            }
        };
        return Deep::down(0);
    } else {
        return 95;
    }
    return 0;
}
