#ifndef GUARD_RUNTIME_H
#define GUARD_RUNTIME_H

struct handle {
    long bytes;
};

extern "C" {
handle *rt_create(long bytes);
void rt_destroy(handle *h);
long rt_device_bytes(void);
}

#endif
