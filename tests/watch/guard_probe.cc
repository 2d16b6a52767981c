// A library with thread-local objects that say in which order and in which thread they are destroyed.
// Built as one that needs a GPU's library and as one that does not.
#include <atomic>
#include <cstdlib>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#ifdef WITH_CODE
// As nvcc leaves it in a library that links the runtime statically.
__attribute__((section(".nv_fatbin"), used)) static const char code[16] = "";
#endif

namespace {
void (*destroyed)(const char *name, long tid);

struct Named {
    explicit Named(const char *text) : name(text) {}
    ~Named()
    {
        if (destroyed) {
            destroyed(name, syscall(SYS_gettid));
        }
    }
    const char *name;
};

struct Slow {
    ~Slow()
    {
        if (used) {
            sleep(3600); // longer than the tests let a program run
        }
    }
    bool used = false;
};

// Waits in its destructor for a thread that has objects of its own to destroy.
struct Nest {
    ~Nest();
    int depth = 0;
};

std::atomic<int> meeting{0};

// Ends once as many have come as are to meet, each in the destructor of its own thread.
struct Meeting {
    ~Meeting()
    {
        if (size < 0) {
            for (;;) {
                pause();
            }
        }
        for (meeting += size > 0; meeting < size;) {
            usleep(1000);
        }
    }
    int size = 0; // negative: never
};

thread_local Named first("first"), second("second"), third("third");
thread_local Slow slow;
thread_local Nest nest;
thread_local Meeting appointment;
}

extern "C" void probe_use(void (*told)(const char *, long))
{
    destroyed = told;
    third.name = "third";
    first.name = "first";
    second.name = "second";
}

extern "C" void probe_slow(void)
{
    slow.used = true;
}

extern "C" void probe_meet(int size)
{
    appointment.size = size;
}

extern "C" void probe_nest(int depth)
{
    nest.depth = depth;
}

namespace {
Nest::~Nest()
{
    if (depth > 0) {
        std::thread([this] { probe_nest(depth - 1); }).join();
    }
}
}
