// A library built like CTranslate2's: a worker thread for each model, with a thread-local handle of the
// runtime that is destroyed when the thread ends.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "guard_runtime.h"

#ifdef WITH_CODE
// As nvcc leaves it in a library that links the runtime statically.
__attribute__((section(".nv_fatbin"), used)) static const char code[16] = "";
#endif

namespace {
struct ThreadHandle {
    ~ThreadHandle()
    {
        if (h) {
            rt_destroy(h);
        }
    }
    handle *get()
    {
        if (!h) {
            h = rt_create(1 << 20);
        }
        return h;
    }
    handle *h = nullptr;
};

thread_local ThreadHandle blas;

struct Model {
    Model() : worker([this] { work(); })
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return ready; });
    }
    ~Model()
    {
        {
            std::lock_guard<std::mutex> lock(mutex);
            stop = true;
        }
        changed.notify_all();
        worker.join();
    }
    void work()
    {
        blas.get();
        std::unique_lock<std::mutex> lock(mutex);
        ready = true;
        changed.notify_all();
        changed.wait(lock, [this] { return stop; });
    }
    std::mutex mutex;
    std::condition_variable changed;
    bool ready = false, stop = false;
    std::thread worker;
};
}

extern "C" void *model_load(void)
{
    return new Model;
}

extern "C" void model_unload(void *model)
{
    delete static_cast<Model *>(model);
}

// The handle of the calling thread itself.
extern "C" void model_use_here(void)
{
    blas.get();
}
