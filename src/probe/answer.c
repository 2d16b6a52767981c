/* What a child has said: names and facts of its answer. */
#include <string.h>

#include "probe/runner.h"

const char *probe_outcome_name(enum probe_outcome outcome)
{
    static const char *const names[] = {
        [PROBE_PASSED] = "passed",       [PROBE_FAIL] = "failed",     [PROBE_CRASHED] = "crashed",
        [PROBE_TIMED_OUT] = "timed-out", [PROBE_NOT_RUN] = "not-run", [PROBE_UNKNOWN] = "unknown"};
    return names[outcome];
}

const char *probe_fact(const probe_facts *facts, const char *key)
{
    for (size_t i = 0; i < facts->n; i++) {
        if (strcmp(facts->items[i].key, key) == 0) {
            return facts->items[i].value;
        }
    }
    return NULL;
}
