/* libhsa-runtime64.so.1: one CPU agent and one GPU; `hsa_iterate_agents value N` makes it N GPUs.
 */
#include <stdint.h>

#include "amd.h"
#include "table.h"

struct hsa_agent {
    uint64_t handle;
};

int hsa_init(void);
int hsa_shut_down(void);
int hsa_system_get_info(int attribute, void *ret);
int hsa_iterate_agents(int (*callback)(struct hsa_agent, void *), void *data);
int hsa_agent_get_info(struct hsa_agent agent, int attribute, void *ret);
int hsa_status_string(int status, const char **ret);

#ifndef WITHOUT_hsa_init
int hsa_init(void)
{
    FAKE(hsa_init);
    return 0;
}
#endif

int hsa_shut_down(void)
{
    FAKE(hsa_shut_down);
    return 0;
}

int hsa_system_get_info(int attribute, void *ret)
{
    FAKE(hsa_system_get_info);
    *(uint16_t *)ret = (uint16_t)(attribute == 0 ? 1 : fake_number(&fake_now, 14));
    return 0;
}

int hsa_iterate_agents(int (*callback)(struct hsa_agent, void *), void *data)
{
    FAKE(hsa_iterate_agents);
    long n = fake_number(&fake_now, 1);
    for (long i = 0; i <= n; i++) { // 0 is the processor
        int rc = callback((struct hsa_agent){(uint64_t)i}, data);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

int hsa_agent_get_info(struct hsa_agent agent, int attribute, void *ret)
{
    FAKE(hsa_agent_get_info);
    switch (attribute) {
    case 0:
        snprintf(ret, 64, "%s", agent.handle ? fake_word(&fake_now, FAKE_GFX) : "cpu");
        return 0;
    case 17: *(int *)ret = agent.handle != 0; return 0;
    case 0xa006: *(uint32_t *)ret = FAKE_BDF + ((uint32_t)agent.handle - 1) * 256; return 0;
    case 0xa009: snprintf(ret, 64, "AMD Radeon RX 7900 XTX"); return 0;
    case 0xa00f: *(uint32_t *)ret = 0; return 0;
    default: return 0x1001; // HSA_STATUS_ERROR_INVALID_ARGUMENT
    }
}

int hsa_status_string(int status, const char **ret)
{
    *ret = status == 0x1000 ? "HSA_STATUS_ERROR: A generic error has occurred." : NULL;
    return *ret ? 0 : 0x1001;
}
