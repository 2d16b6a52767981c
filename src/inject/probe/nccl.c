/*
 * NCCL: its version, and a sum over one rank, which comes back as it went in. Declared from nccl.h
 * of NCCL 2.21 ("NCCL User Guide").
 */
#include "inject/probe/cuda.h"

enum { NCCL_FLOAT32 = 7, NCCL_SUM = 0, NUMBERS = 1000 }; // ncclDataType_t, ncclRedOp_t

struct nccl {
    struct vendor vendor;
    void *dso;
    int version; // 22105 for 2.21.5, and 2708 for 2.7.8
};

static void open_nccl(struct nccl *n, const struct job *j)
{
    *n = (struct nccl){.dso = open_library(stage_library(j))};
    int (*ncclGetVersion)(int *) = symbol(n->dso, "ncclGetVersion");
    TRY(&n->vendor, ncclGetVersion, &n->version);
    say_fact("nccl.version", "%d", n->version);
}

/* NCCL_VERSION of nccl.h: from 2.9 on major * 10000, before major * 1000. */
static int major_of(int version)
{
    return version >= 10000 ? version / 10000 : version / 1000;
}
static int minor_of(int version)
{
    return version % (version >= 10000 ? 10000 : 1000) / 100;
}

void stage_nccl(const struct job *j)
{
    struct nccl n;
    open_nccl(&n, j);
    say_passed("NCCL %d.%d.%d opens", major_of(n.version), minor_of(n.version), n.version % 100);
}

/* As vendor_check(), with NCCL's own words. */
static void check(const struct nccl *n, const char *function, int code)
{
    const char *(*ncclGetLastError)(void *) = symbol_optional(n->dso, "ncclGetLastError");
    const char *text = code != 0 && ncclGetLastError ? ncclGetLastError(NULL) : NULL; // since 2.13
    if (text && *text) {
        say_fact("log", "%s", text);
    }
    vendor_check(&n->vendor, function, code);
}

static void check_sum(const float *sent, const float *received)
{
    for (int i = 0; i < NUMBERS; i++) {
        if (received[i] != sent[i]) {
            say_failed(0, NULL,
                       "ncclAllReduce over one rank: number %d of %d is %.9g instead of "
                       "%.9g",
                       i, NUMBERS, (double)received[i], (double)sent[i]);
        }
    }
}

void stage_nccl_allreduce(const struct job *j)
{
    struct cuda c;
    struct nccl n;
    void *communicator = NULL;
    float sent[NUMBERS], received[NUMBERS];
    cuda_start(&c, j);
    open_nccl(&n, j);
    n.vendor.cuda = &c;
    int (*ncclCommInitAll)(void **, int count, const int *devices) =
        symbol(n.dso, "ncclCommInitAll");
    int (*ncclAllReduce)(const void *, void *, size_t, int type, int operation, void *communicator,
                         void *stream) = symbol(n.dso, "ncclAllReduce");
    int (*ncclCommDestroy)(void *) = symbol(n.dso, "ncclCommDestroy");
    for (int i = 0; i < NUMBERS; i++) {
        sent[i] = (float)i * 0.73f - 200, received[i] = -1e30f;
    }
    check(&n, "ncclCommInitAll", CALL(ncclCommInitAll, &communicator, 1, &c.device));
    uint64_t from = cuda_put(&c, sent, sizeof sent), to = cuda_put(&c, received, sizeof received);
    check(&n, "ncclAllReduce",
          CALL(ncclAllReduce, cuda_pointer(from), cuda_pointer(to), NUMBERS, NCCL_FLOAT32, NCCL_SUM,
               communicator, NULL));
    cuda_get(&c, received, to, sizeof received);
    check_sum(sent, received);
    TRY(&n.vendor, ncclCommDestroy, communicator);
    say_passed("a sum over one rank with NCCL %d.%d.%d is correct", major_of(n.version),
               minor_of(n.version), n.version % 100);
}
