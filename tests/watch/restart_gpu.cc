// A GPU library in little that crashes when it is told to: built as libcudart.so.12 and, with another
// name, as a library that is none of a GPU.
#include <cstdlib>

namespace {
void crash()
{
    *reinterpret_cast<volatile int *>(8) = 1;
}

struct Crashing {
    ~Crashing()
    {
        if (armed) {
            crash();
        }
    }
    bool armed = false;
};

thread_local Crashing of_thread;
Crashing of_process;
}

extern "C" void crash_in_thread_local(void)
{
    of_thread.armed = true;
}

extern "C" void crash_in_static(void)
{
    of_process.armed = true;
}

extern "C" void crash_now(void)
{
    crash();
}

extern "C" void abort_at_exit(void)
{
    std::atexit([] { std::abort(); });
}

// Leaves its addresses on the stack for what is called next.
extern "C" void go_deep(int n)
{
    volatile long block[8] = {n};
    if (n > 0) {
        go_deep(n - 1);
    }
    block[1] = block[0];
}
