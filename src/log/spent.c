#include "log/spent.h"

#include <string.h>

void spent_init(struct spent *to, struct arena *a, size_t n_owners)
{
    *to = (struct spent){.n_owners = n_owners};
    for (size_t i = 0; i < SPENT_PROCESSES; i++) {
        to->items[i].owners = arena_array(a, n_owners / 64 + 1, sizeof *to->items[i].owners);
    }
}

static const struct spent_process *spent_of(const struct spent *s, uint64_t process)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->items[i].process == process) {
            return &s->items[i];
        }
    }
    return NULL;
}

void spent_add(struct spent *s, uint64_t process, size_t owner)
{
    const struct spent_process *of = spent_of(s, process);
    if (!of && s->n < SPENT_PROCESSES) {
        s->items[s->n].process = process;
        of = &s->items[s->n++];
    }
    if (of) {
        of->owners[owner / 64] |= (uint64_t)1 << (owner % 64);
    }
}

void spent_forget(struct spent *s)
{
    for (size_t i = 0; i < s->n; i++) {
        memset(s->items[i].owners, 0, (s->n_owners / 64 + 1) * sizeof *s->items[i].owners);
    }
    s->n = 0;
    s->forgotten++;
}

bool spent_has(const struct spent *s, uint64_t process, size_t owner)
{
    const struct spent_process *of = spent_of(s, process);
    return of && of->owners[owner / 64] >> (owner % 64) & 1;
}
