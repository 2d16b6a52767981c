#include "model/orders.h"

#include <string.h>

#include "elf/image.h"

enum {
    STEPS_MAX = 64,    // bits of a set of steps
    ORDERS_MAX = 64,   // processes of a group
    BROKEN_MAX = 24,   // ... of which one has failed
    ALL_ORDERS_OF = 3, // uses, where one has failed
    NODES_MAX = 20000, // of the search for an order that was not modelled
    BUCKETS = 256
};

/* What a step has to do with a name. */
enum relation {
    ASKS,    // was served by what another step had loaded
    FINDS,   // finds the file by itself, or nothing (NULL)
    PROVIDES // loads the file, which then answers to the name
};

struct entry {
    struct entry *next;
    const char *name;
    uint32_t hash;
    unsigned step;
    enum relation relation;
    const struct ldso_file *file;
};

struct orders {
    struct model *m;
    const struct model_process *first;
    const char **steps; // imports, then uses
    size_t n, n_imports;
    uint64_t hard[STEPS_MAX];  // steps whose order with this one makes a difference, for good
    uint64_t apart[STEPS_MAX]; // ... and as far as is known from names
    struct entry *buckets[BUCKETS];
    unsigned order[STEPS_MAX];
    size_t nodes;
    bool broken; // a process has failed
};

static uint64_t orders_bit(size_t i)
{
    return UINT64_C(1) << i;
}

/* ------------------------------------------------------------------ scripts */

static bool step_is_import(const char *line)
{
    return starts_with(line, "import ");
}

const char *model_import(const struct model_process *p, size_t i)
{
    const char *found = NULL;
    for (size_t k = 0; k < p->n_script && !found; k++) {
        if (step_is_import(p->script[k]) && i-- == 0) {
            found = p->script[k];
        }
    }
    return found;
}

bool model_is_mixed(const struct model_process *p)
{
    bool mixed = false;
    for (size_t i = 1; i < p->n_script; i++) {
        mixed |= step_is_import(p->script[i]) && !step_is_import(p->script[i - 1]);
    }
    return mixed;
}

static bool has_failed(const struct model_process *p)
{
    bool failed = !p->ldso || p->fatal || p->ldso->dead;
    for (size_t i = 0; i < p->attempts.n && !failed; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        failed = at->failed && at->required && !(at->family && strcmp(at->family, "driver") == 0);
    }
    return failed;
}

/* ------------------------------------------------------------------ what the steps have in common
 */

static void learn_name(struct orders *o, unsigned step, enum relation relation, const char *name,
                       const struct ldso_file *file)
{
    uint32_t hash = elf_lookup_key(name).gnu_hash;
    struct entry **bucket = &o->buckets[hash % BUCKETS];
    for (const struct entry *e = *bucket; e; e = e->next) {
        if (e->hash == hash && e->step == step && e->relation == relation && e->file == file &&
            strcmp(e->name, name) == 0) {
            return;
        }
    }
    struct entry *e = arena_alloc(o->m->arena, sizeof *e);
    *e = (struct entry){*bucket, name, hash, step, relation, file};
    *bucket = e;
}

static bool finds(const struct entry *e, unsigned step, const struct entry *name)
{
    for (; e; e = e->next) {
        if (e->relation == FINDS && e->step == step && e->hash == name->hash &&
            strcmp(e->name, name->name) == 0) {
            return true;
        }
    }
    return false;
}

static void part(uint64_t *sets, unsigned a, unsigned b)
{
    if (a != b) {
        sets[a] |= orders_bit(b);
        sets[b] |= orders_bit(a);
    }
}

/* The steps that notice when this file answers to this name. */
static void compare_provided(struct orders *o, const struct entry *bucket, const struct entry *e)
{
    for (const struct entry *x = bucket; x; x = x->next) {
        bool same = x->hash == e->hash && strcmp(x->name, e->name) == 0;
        if (same && ((x->relation == FINDS && x->file != e->file) ||
                     (x->relation == ASKS && !finds(bucket, x->step, x)))) {
            part(o->apart, x->step, e->step);
        }
    }
}

static void compare_names(struct orders *o)
{
    memcpy(o->apart, o->hard, sizeof o->apart);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct entry *e = o->buckets[i]; e; e = e->next) {
            if (e->relation == PROVIDES) {
                compare_provided(o, o->buckets[i], e);
            }
        }
    }
}

static unsigned orders_number(const struct orders *o, const char *line)
{
    unsigned i = 0;
    while (i < o->n && strcmp(o->steps[i], line) != 0) {
        i++;
    }
    return i; // n: a use that makes no difference
}

/* The index among the steps of a process that has loaded the object; n_script: its start did. */
static size_t loaded_by(const struct model_process *p, const struct ldso_object *object)
{
    for (size_t k = 0; k + 1 < p->marks.n; k++) {
        for (size_t i = p->marks.items[k].objects; i < p->marks.items[k + 1].objects; i++) {
            if (p->ldso->objects.items[i] == object) {
                return k;
            }
        }
    }
    return p->n_script;
}

static void learn_requests(struct orders *o, const struct model_process *p, size_t k, unsigned step)
{
    for (size_t i = p->marks.items[k].requests; i < p->marks.items[k + 1].requests; i++) {
        const struct ldso_request *q = p->ldso->requests.items[i];
        size_t by = q->outcome == LDSO_REUSED ? loaded_by(p, q->object) : k;
        /* A path leads to the same file whoever was first. */
        bool other = by < k && !strchr(q->name, '/');
        learn_name(o, step, other ? ASKS : FINDS, q->name,
                   other || !q->object ? NULL : q->object->file);
    }
}

static void learn_objects(struct orders *o, const struct model_process *p, size_t k, unsigned step)
{
    for (size_t i = p->marks.items[k].objects; i < p->marks.items[k + 1].objects; i++) {
        const struct ldso_object *object = p->ldso->objects.items[i];
        for (size_t n = 0; n < object->names.n; n++) {
            learn_name(o, step, PROVIDES, object->names.items[n].text, object->file);
        }
        if (object->soname) {
            learn_name(o, step, PROVIDES, object->soname, object->file);
        }
    }
}

static bool loads_match(const struct model_process *p, size_t k, const char *glob)
{
    for (size_t i = p->marks.items[k].objects; i < p->marks.items[k + 1].objects; i++) {
        const struct ldso_object *object = p->ldso->objects.items[i];
        if (str_glob(glob, object->path) || str_glob(glob, path_base(object->path)) ||
            (object->soname && str_glob(glob, object->soname))) {
            return true;
        }
    }
    return false;
}

/* Whether step a asks whether something is loaded that step b loads. */
static bool looks_at(const struct model_process *p, size_t a, size_t b)
{
    for (size_t i = p->marks.items[a].looks; i < p->marks.items[a + 1].looks; i++) {
        if (loads_match(p, b, p->looks.items[i])) {
            return true;
        }
    }
    return false;
}

/* Whether two steps import or use the same package, and one of them is the first. */
static bool touch_same(const struct model_process *p, size_t a, size_t b)
{
    for (size_t i = p->marks.items[a].touches; i < p->marks.items[a + 1].touches; i++) {
        const struct model_touch *x = &p->touches.items[i];
        for (size_t k = p->marks.items[b].touches; k < p->marks.items[b + 1].touches; k++) {
            const struct model_touch *y = &p->touches.items[k];
            if (x->dist == y->dist && x->use == y->use && (x->fresh || y->fresh)) {
                return true;
            }
        }
    }
    return false;
}

static bool spreads(const struct model_process *p, size_t k)
{
    return p->marks.items[k + 1].spread != p->marks.items[k].spread;
}

static void orders_learn(struct orders *o, const struct model_process *p)
{
    size_t n = p->marks.n ? p->marks.n - 1 : 0;
    for (size_t k = 0; k < n; k++) {
        unsigned step = orders_number(o, p->script[k]);
        if (step == o->n) {
            continue;
        }
        learn_requests(o, p, k, step);
        learn_objects(o, p, k, step);
        for (size_t i = 0; i < n; i++) {
            unsigned other = orders_number(o, p->script[i]);
            if (other < o->n && i != k &&
                (spreads(p, k) || looks_at(p, k, i) || touch_same(p, k, i))) {
                part(o->hard, step, other);
            }
        }
    }
    o->broken |= has_failed(p);
    compare_names(o);
}

/* ------------------------------------------------------------------ the orders that differ */

/* " whisperx" of "import whisperx" and "use whisperx", " whisperx.asr" of "use torch in
 * whisperx.asr". */
static const char *step_package(const char *step)
{
    const char *in = strstr(step, " in ");
    return in ? in + strlen(" in") : strchr(step, ' ');
}

static bool step_is_part(const char *step)
{
    return strstr(step, " in ");
}

/* Whether a step is of the package that is imported or used as a whole in another. */
static bool step_is_of(const char *step, const char *whole)
{
    const char *name = step_package(whole), *own = step_package(step);
    size_t n = strlen(name);
    return strncmp(own, name, n) == 0 && (own[n] == '\0' || (own[n] == '.' && step_is_part(step)));
}

/* Whether b has to come after a: an import after those before it, a use after its import, and what
 * is left of the use of an application after its parts. */
static bool is_before(const struct orders *o, unsigned a, unsigned b)
{
    const char *first = o->steps[a], *then = o->steps[b];
    return a < o->n_imports ? (b < o->n_imports ? a < b : step_is_of(then, first))
                            : b >= o->n_imports && step_is_part(first) && !step_is_part(then) &&
                                  step_is_of(first, then);
}

static void keep_steps_in_order(struct orders *o)
{
    for (unsigned i = 0; i < o->n; i++) {
        for (unsigned k = 0; k < o->n; k++) {
            if (i != k && is_before(o, i, k)) {
                part(o->hard, i, k);
            }
        }
    }
}

static bool is_enabled(const struct orders *o, uint64_t done, unsigned i)
{
    if (done & orders_bit(i)) {
        return false;
    }
    for (unsigned k = 0; k < o->n; k++) {
        if (k != i && !(done & orders_bit(k)) && is_before(o, k, i)) {
            return false;
        }
    }
    return true;
}

/* The least of all orders that come to the same as this one. */
static void normal_order(const struct orders *o, const unsigned *order, size_t n, unsigned *ret)
{
    unsigned left[STEPS_MAX];
    memcpy(left, order, n * sizeof *left);
    for (size_t out = 0; out < n; out++) {
        size_t rest = n - out, best = 0;
        uint64_t before = 0;
        for (size_t i = 0; i < rest; i++) {
            best = !(o->apart[left[i]] & before) && left[i] < left[best] ? i : best;
            before |= orders_bit(left[i]);
        }
        ret[out] = left[best];
        memmove(left + best, left + best + 1, (rest - best - 1) * sizeof *left);
    }
}

static size_t order_of(const struct orders *o, const struct model_process *p, unsigned *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_script; i++) {
        unsigned step = orders_number(o, p->script[i]);
        if (step < o->n) {
            ret[n++] = step;
        }
    }
    return n;
}

static size_t n_processes(const struct orders *o)
{
    return o->m->processes.n - o->first->group;
}

static bool is_modelled(const struct orders *o, const unsigned *order)
{
    unsigned want[STEPS_MAX], own[STEPS_MAX], have[STEPS_MAX];
    normal_order(o, order, o->n, want);
    for (size_t i = 0; i < n_processes(o); i++) {
        size_t n = order_of(o, o->m->processes.items[o->first->group + i], own);
        normal_order(o, own, n, have);
        if (n == o->n && memcmp(want, have, n * sizeof *want) == 0) {
            return true;
        }
    }
    return false;
}

static void add_order(struct orders *o, const unsigned *order)
{
    struct model *m = o->m;
    const char *script[STEPS_MAX];
    struct model_process *out;
    for (size_t i = 0; i < o->n; i++) {
        script[i] = o->steps[order[i]];
    }
    out = model_new_process(m, script, o->n);
    out->group = o->first->group;
    out->order = arena_array(m->arena, o->n, sizeof *out->order);
    for (size_t i = 0; i < o->n; i++) {
        if (!step_is_import(script[i])) {
            out->order[out->n_order++] = out->script[i] + strlen("use ");
        }
    }
    model_add_process(m, out);
    orders_learn(o, out);
}

/* Whether a step that was tried first everywhere cannot be noticed by any that is left. */
static bool comes_to_same(const struct orders *o, uint64_t done, uint64_t sleep)
{
    for (unsigned i = 0; i < o->n; i++) {
        if ((sleep & orders_bit(i)) && !(o->apart[i] & ~done & (orders_bit(o->n - 1) * 2 - 1))) {
            return true;
        }
    }
    return false;
}

/* Models the first order that differs from all others; false: there is none. `sleep`: steps that
 * were tried in this place, and that nothing since has noticed. */
static bool add_missing(struct orders *o, uint64_t done, uint64_t sleep, size_t n)
{
    if (n == o->n) {
        bool missing = !is_modelled(o, o->order);
        if (missing) {
            add_order(o, o->order);
        }
        return missing;
    }
    for (unsigned i = 0; i < o->n && o->nodes < NODES_MAX; i++) {
        if (!is_enabled(o, done, i) || (sleep & orders_bit(i))) {
            continue;
        }
        o->nodes++;
        o->order[n] = i;
        uint64_t still = sleep & ~o->apart[i];
        if (!comes_to_same(o, done | orders_bit(i), still) &&
            add_missing(o, done | orders_bit(i), still, n + 1)) {
            return true;
        }
        sleep |= orders_bit(i);
    }
    return false;
}

/* Whether the program can choose this order. */
static bool is_possible(const struct orders *o, const unsigned *order)
{
    uint64_t done = 0;
    bool possible = true;
    for (size_t i = 0; i < o->n && possible; i++) {
        possible = is_enabled(o, done, order[i]);
        done |= orders_bit(order[i]);
    }
    return possible;
}

/* Each of the first n uses first, with the others behind it in turn and in reverse. */
static void add_rotations(struct orders *o, size_t n)
{
    for (size_t i = 0; i < 2 * n; i++) {
        for (unsigned k = 0; k < o->n; k++) {
            o->order[k] = k;
        }
        for (size_t k = 0; k < n; k++) {
            size_t at = (i / 2 + (i % 2 ? n - k : k)) % n;
            o->order[o->n_imports + k] = (unsigned)(o->n_imports + at);
        }
        if (is_possible(o, o->order) && !is_modelled(o, o->order)) {
            add_order(o, o->order);
        }
    }
}

/* Uses that may come in any order: of one application its parts, since what is left of its use
 * comes last; else all. */
static size_t n_free(const struct orders *o)
{
    return o->n - o->n_imports - (o->n_imports == 1 ? 1 : 0);
}

/* Returns whether all of them are modelled. */
static bool add_orders(struct orders *o)
{
    bool few = n_free(o) <= ALL_ORDERS_OF;
    for (;;) {
        o->nodes = 0;
        if (n_processes(o) >= (o->broken ? BROKEN_MAX : ORDERS_MAX)) {
            return false;
        }
        if (o->broken && !few) {
            add_rotations(o, n_free(o));
            return false;
        }
        if (!add_missing(o, 0, 0, 0)) {
            return o->nodes < NODES_MAX;
        }
    }
}

struct model_process *model_add_imports(struct model *m, const char *const *names, size_t n)
{
    const char **script = arena_array(m->arena, n * 2, sizeof *script);
    for (size_t i = 0; i < n; i++) {
        script[i] = arena_printf(m->arena, "import %s", names[i]);
        script[n + i] = arena_printf(m->arena, "use %s", names[i]);
    }
    struct model_process *first = model_add_script(m, script, n * 2);
    size_t n_steps = n + first->choices.n;
    if (n_steps < 3) {
        return first;
    }
    struct orders *o = arena_alloc(m->arena, sizeof *o);
    *o = (struct orders){.m = m, .first = first, .n = n_steps, .n_imports = n};
    o->steps = arena_array(m->arena, n_steps, sizeof *o->steps);
    memcpy(o->steps, script, n * sizeof *script);
    for (size_t i = 0; i < first->choices.n; i++) {
        o->steps[n + i] = first->choices.items[i];
    }
    if (n_steps > STEPS_MAX) {
        m->unsure = "more packages are imported than can be judged in every order of their uses";
        return first;
    }
    keep_steps_in_order(o);
    orders_learn(o, first);
    if (!add_orders(o) && !m->unsure) {
        m->unsure = "these imports can be used in more orders that differ than were judged; check "
                    "fewer of them at once";
    }
    return first;
}
