/* libcupti.so.12: one subscriber, and what the other fakes tell it. */
#include <stdint.h>

#include "../probe/fake/table.h"

struct callback_data {
    int site;
    const char *function;
    const void *parameters;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_number;
    uint64_t *correlation_data;
    uint32_t correlation;
};

static void (*subscriber)(void *, int, uint32_t, const struct callback_data *);
static void *argument;
static unsigned domains;

int cuptiSubscribe(void **ret,
                   void (*callback)(void *, int, uint32_t, const struct callback_data *), void *arg)
{
    FAKE(cuptiSubscribe);
    if (subscriber) {
        return 39; // CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
    }
    subscriber = callback, argument = arg;
    *ret = &subscriber;
    return 0;
}

int cuptiEnableDomain(uint32_t enable, void *of, int domain)
{
    FAKE(cuptiEnableDomain);
    domains |= of == &subscriber && enable ? 1u << domain : 0;
    return 0;
}

int cuptiUnsubscribe(void *of)
{
    (void)of;
    subscriber = NULL;
    return 0;
}

void fake_cupti_call(int domain, int site, const char *name, const void *members, int *result)
{
    const struct callback_data data = {
        .site = site, .function = name, .parameters = members, .result = result};
    if (subscriber && domains & 1u << domain) {
        subscriber(argument, domain, 1, &data);
    }
}
