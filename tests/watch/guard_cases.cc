// guard_cases MODE LIBRARY.so [N]: programs with thread-local objects of their own and of a library.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::mutex mutex;
static thread_local long self;
static std::atomic<int> count;

static void told(const char *name, long tid)
{
    std::lock_guard<std::mutex> lock(mutex);
    std::printf("%s %s\n", name, tid == self ? "here" : "elsewhere");
}

static long waiting_tid;

static void told_of_waiting(const char *name, long tid)
{
    std::lock_guard<std::mutex> lock(mutex);
    std::printf("%s %s\n", name, tid == waiting_tid ? "here" : "elsewhere");
}

static std::atomic<long> worker;
static std::atomic<int> elsewhere;

static void counted(const char *, long tid)
{
    count++;
    elsewhere += tid != worker;
}

struct Own {
    explicit Own(const char *text) : name(text) {}
    ~Own() { told_of_waiting(name, syscall(SYS_gettid)); }
    const char *name;
};

static thread_local Own own_early("own-early"), own_late("own-late");

template <typename F> static F symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        std::_Exit(99);
    }
    return reinterpret_cast<F>(found);
}

#ifdef DENY_KEEPER
// A system that has no thread left after DENY_KEEPER keepers; std::thread passes an argument.
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                              void *argument) noexcept
{
    using type = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static auto real = reinterpret_cast<type>(dlsym(RTLD_NEXT, "pthread_create"));
    static std::atomic<int> keepers;
    return argument || keepers++ < DENY_KEEPER ? real(thread, attr, run, argument) : 11;
}
#endif

static int threads()
{
    char line[256];
    int n = 0;
    FILE *f = std::fopen("/proc/self/status", "r");
    while (f && std::fgets(line, sizeof line, f)) {
        std::sscanf(line, "Threads: %d", &n);
    }
    if (f) {
        std::fclose(f);
    }
    return n;
}

static void meet_all(void (*meet)(int), int n)
{
    std::vector<std::thread> all;
    for (int i = 0; i < n; i++) {
        all.emplace_back(meet, n);
    }
    for (auto &t : all) {
        t.join();
    }
}

int main(int argc, char **argv)
{
    std::string mode = argc > 2 ? argv[1] : "";
    void *library = argc > 2 ? dlopen(argv[2], RTLD_NOW) : nullptr;
    if (!library) {
        return 97;
    }
    auto use = symbol<void (*)(void (*)(const char *, long))>(library, "probe_use");
    auto slow = symbol<void (*)()>(library, "probe_slow");
    auto nest = symbol<void (*)(int)>(library, "probe_nest");
    auto meet = symbol<void (*)(int)>(library, "probe_meet");
    int n = argc > 3 ? std::atoi(argv[3]) : 0;
    auto ordered = [use] {
        waiting_tid = syscall(SYS_gettid);
        (void)own_early.name;
        use(told_of_waiting);
    };
    if (mode == "order") {
        std::thread(ordered).join();
        std::thread(ordered).join();
    } else if (mode == "first-thread") {
        use(told);
        self = syscall(SYS_gettid);
    } else if (mode == "exit-in-thread") {
        std::thread([&] {
            use(told);
            std::exit(6);
        }).join();
    } else if (mode == "many") {
        std::vector<std::thread> all;
        for (int i = 0; i < 200; i++) {
            all.emplace_back([use] { use(counted); });
        }
        for (auto &t : all) {
            t.join();
        }
        std::printf("%d destroyed, few threads: %s\n", count.load(), threads() < 40 ? "yes" : "no");
    } else if (mode == "nested") {
        std::thread([nest] { nest(5); }).join();
        std::printf("joined\n");
    } else if (mode == "chain") {
        std::thread([&] { nest(n); }).join();
        std::printf("joined\n");
    } else if (mode == "meet") {
        meet_all(meet, n);
        std::printf("%d met\n", n);
    } else if (mode == "meet-fork") { // a child that is made while they wait begins anew
        std::thread waiting([&] { meet_all(meet, n); });
        usleep(500000);
        pid_t child = fork();
        if (child == 0) {
            std::thread([use] { use(counted); }).join();
            std::_Exit(count == 3 ? 3 : 4);
        }
        int status = 0;
        waitpid(child, &status, 0);
        waiting.join();
        std::printf("child %d, %d met\n", WEXITSTATUS(status), n);
    } else if (mode == "meet-exit") { // one is missing: they would wait for ever
        for (int i = 0; i < n; i++) {
            std::thread(meet, n + 1).detach();
        }
        usleep(500000);
        std::printf("leaving\n");
        std::exit(4);
    } else if (mode == "never") { // n keepers never come back
        for (int i = 0; i < n; i++) {
            std::thread(meet, -1).detach();
        }
        usleep(5500000); // longer than keepers have for a job before others are given back
        std::thread([use] {
            worker = syscall(SYS_gettid);
            use(counted);
        }).join();
        std::printf("%d of %d elsewhere\n", elsewhere.load(), count.load());
        meet_all(meet, 40);
        std::printf("40 met\n");
        std::exit(5);
    } else if (mode == "fork") {
        std::thread([use] { use(counted); }).join();
        pid_t child = fork();
        if (child == 0) {
            elsewhere = 0;
            for (int i = 0; i < 2; i++) {
                std::thread([use] {
                    worker = syscall(SYS_gettid);
                    use(counted);
                }).join();
            }
            std::printf("%d of %d elsewhere\n", elsewhere.load(), count.load());
            std::exit(3);
        }
        int status = 0;
        waitpid(child, &status, 0);
        std::printf("child %d\n", WEXITSTATUS(status));
    } else if (mode == "exec") {
        std::thread([use] { use(counted); }).join();
        execl(argv[0], argv[0], "order", argv[2], nullptr);
    } else if (mode == "first-leaves") {
        std::thread([use] {
            usleep(100000);
            use(counted);
        }).detach();
        pthread_exit(nullptr);
    } else if (mode == "exit-while-waiting") {
        std::thread(slow).detach();
        usleep(300000);
        std::printf("leaving\n");
        std::exit(4);
    } else if (mode == "close-all") {
        int out = dup2(1, 200);
        for (int fd = 0; fd < 100; fd++) {
            close(fd);
        }
        std::thread([use] { use(counted); }).join();
        dprintf(out, "%d destroyed\n", count.load());
    } else if (mode == "unload") {
        std::thread([use] { use(counted); }).join();
        dlclose(library);
        library = dlopen(argv[2], RTLD_NOW);
        std::thread(symbol<void (*)(void (*)(const char *, long))>(library, "probe_use"), counted).join();
        std::printf("%d destroyed\n", count.load());
    } else {
        return 95;
    }
    return 0;
}
