/* libnccl.so.2 */
#include "table.h"

int ncclGetVersion(int *version)
{
    FAKE(ncclGetVersion);
    *version = (int)fake_number(&fake_now, 22105);
    return 0;
}

int ncclCommInitAll(void **communicator, int count, const int *devices)
{
    FAKE(ncclCommInitAll);
    *communicator = communicator;
    return count == 1 && devices[0] >= 0 ? 0 : 4; // ncclInvalidArgument
}

#ifndef WITHOUT_ncclAllReduce
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                  void *communicator, void *stream)
{
    FAKE(ncclAllReduce);
    if (type != 7 || operation != 0 || !communicator || stream) {
        return 4;
    }
    memcpy(to, from, count * sizeof(float));
    if (fake_now.wrong) {
        ((float *)to)[count / 2] *= 2;
    }
    return 0;
}
#endif

int ncclCommDestroy(void *communicator)
{
    FAKE(ncclCommDestroy);
    return communicator ? 0 : 4;
}
