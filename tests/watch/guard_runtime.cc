// A GPU runtime in little (built as libcudart.so.12): memory of a device that is counted, and a
// state for each thread, made by the thread's first call and gone before what was registered
// earlier. A handle that is destroyed without the state is lost at the first time and a crash at
// the second, as of every two.
#include "guard_runtime.h"

#include <atomic>
#include <cstdlib>

namespace {
struct ThreadState {
    ThreadState() : cells(static_cast<int *>(std::calloc(16, sizeof(int)))) {}
    ~ThreadState()
    {
        std::free(cells);
        cells = nullptr;
    }
    int *volatile cells; // read after the destructor: that is the fault
};

thread_local ThreadState state;
std::atomic<long> device_bytes{0}, gone{0};
}

extern "C" handle *rt_create(long bytes)
{
    state.cells[0]++;
    device_bytes += bytes;
    return new handle{bytes};
}

extern "C" void rt_destroy(handle *h)
{
    int *cells = state.cells;
    if (!cells && ++gone % 2) {
        return; // its memory stays taken
    }
    cells[0]--;
    device_bytes -= h->bytes;
    delete h;
}

extern "C" long rt_device_bytes(void)
{
    return device_bytes;
}
