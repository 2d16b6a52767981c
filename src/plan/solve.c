/* Depth-first search for the fewest changes. */
#include <string.h>

#include "plan/solve.h"

struct choice {
    const struct plan_solve_package *package;
    const struct plan_solve_release *release;
    const char *why;
    bool changed;
};

struct search {
    struct arena *a;
    const struct plan_solve_problem *problem;
    struct plan_solve_answer *answer;
    struct choice choices[PLAN_SOLVE_CHOICES_MAX];
    size_t n, n_changed, n_best, steps;
    bool found, bound;
};

/* One requirement that does not hold. */
struct conflict {
    const char *who;                          // "torch 2.5.1", or NULL: asked for by the program
    const struct plan_solve_need *need;       // on `target`, forward
    const struct plan_solve_package *target;  // whose release must become another
    const struct plan_solve_package *changed; // backward: the one that target's release forbids
    const struct plan_solve_release *changed_to;
    const char *folder; // collision: where `changed` overwrites `target`
};

/* ------------------------------------------------------------------ needs */

bool plan_solve_need_init(struct arena *a, const char *package, const char *versions,
                          const char *source, struct plan_solve_need *ret)
{
    struct gm_err err;
    *ret = (struct plan_solve_need){
        .package = package, .versions = versions ? versions : "", .source = source};
    return py_specifiers_parse(a, str_of(ret->versions), &ret->set, &err) == 0;
}

bool plan_solve_need_fits(const struct plan_solve_need *need, const char *version)
{
    return py_specifiers_match(&need->set, str_of(version)) != PY_NO;
}

static const struct plan_solve_need *need_on(const struct plan_solve_release *r,
                                             const char *package, size_t *from)
{
    for (; *from < r->n_needs; ++*from) {
        if (strcmp(r->needs[*from].package, package) == 0) {
            return &r->needs[(*from)++];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ choices */

static const struct choice *package_choice(const struct search *s,
                                           const struct plan_solve_package *p)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->choices[i].package == p) {
            return &s->choices[i];
        }
    }
    return NULL;
}

static const char *called(struct search *s, const struct plan_solve_package *p,
                          const struct plan_solve_release *r)
{
    return arena_printf(s->a, "%s %s", p->name, r->version);
}

static void contradiction(struct search *s, const char *text)
{
    for (size_t i = 0; i < s->answer->contradictions.n; i++) {
        if (strcmp(s->answer->contradictions.items[i], text) == 0) {
            return;
        }
    }
    if (s->answer->contradictions.n < PLAN_SOLVE_CONTRADICTIONS_MAX) {
        VEC_PUSH(s->a, &s->answer->contradictions, text);
    }
}

/* ------------------------------------------------------------------ what does not hold */

/* A need of an installed release that stays counts when it is strict, or when what it is about
 * changes: what was wrong before is none of our business. */
static bool need_fails(struct search *s, const struct choice *by,
                       const struct plan_solve_need *need,
                       const struct plan_solve_package **ret_target)
{
    const struct plan_solve_package *target = s->problem->find(s->problem->arg, need->package);
    const struct choice *chosen = package_choice(s, target);
    const struct plan_solve_release *now = chosen ? chosen->release : target->installed;
    *ret_target = target;
    if (by && !by->changed && !need->strict && !(chosen && chosen->changed)) {
        return false;
    }
    return now ? !plan_solve_need_fits(need, now->version) : target->known || need->files;
}

/* Of the needs that fail, one whose package has been decided already: no release of it is left to
 * try, so that this part of the search ends at once. Else the first. */
static bool search_forward(struct search *s, struct conflict *ret)
{
    bool found = false;
    *ret = (struct conflict){0};
    for (size_t i = 0; i < s->problem->n_needs; i++) {
        struct conflict c = {.need = &s->problem->needs[i]};
        bool fails = need_fails(s, NULL, c.need, &c.target);
        bool decided = fails && package_choice(s, c.target);
        *ret = fails && (decided || !found) ? c : *ret;
        found |= fails;
        if (decided) {
            return true;
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct choice *by = &s->choices[i];
        for (size_t k = 0; k < by->release->n_needs; k++) {
            struct conflict c = {.need = &by->release->needs[k]};
            bool fails = need_fails(s, by, c.need, &c.target);
            bool decided = fails && package_choice(s, c.target);
            if (fails && (decided || !found)) {
                c.who = called(s, by->package, by->release);
                *ret = c;
            }
            found |= fails;
            if (decided) {
                return true;
            }
        }
    }
    return found;
}

/* The first requirement of q on p that `version` breaks and the installed release did not. */
static const struct plan_solve_need *broken_by(const struct plan_solve_package *q,
                                               const struct plan_solve_package *p,
                                               const char *version)
{
    const struct plan_solve_need *need;
    for (size_t from = 0; (need = need_on(q->installed, p->name, &from));) {
        bool before = !p->installed || plan_solve_need_fits(need, p->installed->version);
        if (before && !plan_solve_need_fits(need, version)) {
            return need;
        }
    }
    return NULL;
}

static bool backward(struct search *s, struct conflict *ret)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct choice *c = &s->choices[i];
        for (size_t k = 0; c->changed && k < s->problem->n_installed; k++) {
            const struct plan_solve_package *q = s->problem->installed[k];
            const struct plan_solve_need *need =
                package_choice(s, q) ? NULL : broken_by(q, c->package, c->release->version);
            if (need) {
                *ret = (struct conflict){.who = called(s, q, q->installed),
                                         .need = need,
                                         .target = q,
                                         .changed = c->package,
                                         .changed_to = c->release};
                return true;
            }
        }
    }
    return false;
}

/* Something that is to be installed would overwrite what stays or comes with it; where both were
 * there before, the harm is done already. */
static bool collides(struct search *s, struct conflict *ret)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct choice *c = &s->choices[i];
        for (size_t k = 0; c->changed && k < c->package->n_collisions; k++) {
            const struct plan_solve_collision *with = &c->package->collisions[k];
            const struct plan_solve_package *q = s->problem->find(s->problem->arg, with->package);
            const struct choice *chosen = package_choice(s, q);
            bool both_were = c->package->installed && q->installed;
            if ((chosen || q->installed) && !both_were) {
                *ret = (struct conflict){.target = q,
                                         .changed = c->package,
                                         .changed_to = c->release,
                                         .who = c->why,
                                         .folder = with->folder};
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------ the search */

static void search_all(struct search *s);

static void try_release(struct search *s, const struct plan_solve_package *p,
                        const struct plan_solve_release *r, const char *why)
{
    if (s->n == PLAN_SOLVE_CHOICES_MAX) {
        s->bound = true;
        return;
    }
    s->choices[s->n++] = (struct choice){p, r, why, r != p->installed};
    s->n_changed += r != p->installed;
    search_all(s);
    s->n_changed -= r != p->installed;
    s->n--;
}

static const char *need_text(struct search *s, const struct conflict *c)
{
    return arena_printf(s->a, "%s needs %s%s (%s)", c->who ? c->who : "the program",
                        c->need->package, c->need->versions, c->need->source);
}

/* "==12.4.127" of a published release says that this version exists. */
static const struct plan_solve_release *pinned(struct search *s, const struct conflict *c)
{
    const struct py_specifiers *set = &c->need->set;
    if (set->n != 1 || set->items[0].op != PY_OP_EQ || set->items[0].prefix || !c->who) {
        return NULL;
    }
    struct plan_solve_release *r = arena_alloc(s->a, sizeof *r);
    r->version = str_dup(s->a, str_trim(set->items[0].text));
    for (size_t i = 0; i < c->target->n_refused; i++) {
        if (strcmp(c->target->refused[i], r->version) == 0) {
            return NULL;
        }
    }
    return r;
}

/* Why no release was found for a need. */
static void say_unfit(struct search *s, const struct conflict *c)
{
    const struct plan_solve_package *t = c->target;
    const struct choice *chosen = package_choice(s, t);
    const char *need = need_text(s, c);
    if (chosen) {
        contradiction(s, arena_printf(s->a, "%s, but %s: %s", need, called(s, t, chosen->release),
                                      chosen->why));
    } else if (!t->known && !t->installed) {
        contradiction(s,
                      arena_printf(s->a, "%s, of which the knowledge base has no releases", need));
    } else if (!t->known) {
        contradiction(s,
                      arena_printf(s->a,
                                   "%s, %s is installed, and the knowledge base has no "
                                   "releases of it: whether another one fits cannot be determined",
                                   need, called(s, t, t->installed)));
    } else {
        contradiction(s, arena_printf(s->a,
                                      "%s, and no release of it that the knowledge base "
                                      "knows fits that and this machine",
                                      need));
    }
}

/* How many of its releases may make a better answer than the best so far. */
static size_t releases_left(const struct search *s, const struct plan_solve_package *p)
{
    for (size_t i = 0; p->newest && i < s->answer->changes.n; i++) {
        const struct plan_solve_change *c = &s->answer->changes.items[i];
        for (size_t k = 0; c->package == p && k < p->n_releases; k++) {
            if (c->release == &p->releases[k]) {
                return k + 1;
            }
        }
    }
    return p->n_releases;
}

static void settle_forward(struct search *s, const struct conflict *c)
{
    const struct plan_solve_package *t = c->target;
    bool tried = false;
    if (!package_choice(s, t)) {
        for (size_t i = 0; i < releases_left(s, t); i++) {
            if (plan_solve_need_fits(c->need, t->releases[i].version)) {
                tried = true;
                try_release(s, t, &t->releases[i], need_text(s, c));
            }
        }
        const struct plan_solve_release *pin = tried ? NULL : pinned(s, c);
        if (pin) {
            tried = true;
            try_release(s, t, pin, need_text(s, c));
        }
    }
    if (!tried) {
        say_unfit(s, c);
    }
}

static bool allows(const struct plan_solve_release *r, const char *package, const char *version)
{
    const struct plan_solve_need *need;
    for (size_t from = 0; (need = need_on(r, package, &from));) {
        if (!plan_solve_need_fits(need, version)) {
            return false;
        }
    }
    return true;
}

static void settle_backward(struct search *s, const struct conflict *c)
{
    const struct plan_solve_package *q = c->target;
    const char *to = called(s, c->changed, c->changed_to);
    const char *why = arena_printf(s->a, "%s, and %s is to be installed", need_text(s, c), to);
    bool tried = false;
    for (size_t i = 0; i < q->n_releases; i++) {
        if (allows(&q->releases[i], c->changed->name, c->changed_to->version)) {
            tried = true;
            try_release(s, q, &q->releases[i], why);
        }
    }
    if (!tried) {
        contradiction(s, q->known ? arena_printf(s->a,
                                                 "%s; no release of %s that the knowledge base "
                                                 "knows fits %s and this machine",
                                                 why, q->name, to)
                                  : arena_printf(s->a,
                                                 "%s; the knowledge base has no releases of %s: "
                                                 "whether another one fits cannot be determined",
                                                 why, q->name));
    }
}

static void say_collision(struct search *s, const struct conflict *c)
{
    const struct choice *chosen = package_choice(s, c->target);
    contradiction(
        s, arena_printf(s->a, "%s, but %s would overwrite files of %s in %s", c->who,
                        called(s, c->changed, c->changed_to),
                        called(s, c->target, chosen ? chosen->release : c->target->installed),
                        c->folder));
}

static void keep_best(struct search *s)
{
    s->found = true;
    s->n_best = s->n_changed;
    s->answer->changes.n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct choice *c = &s->choices[i];
        if (c->changed) {
            VEC_PUSH(s->a, &s->answer->changes,
                     (struct plan_solve_change){c->package, c->release, c->why});
        }
    }
}

static const struct plan_solve_goal *open_goal(const struct search *s)
{
    for (size_t i = 0; i < s->problem->n_goals; i++) {
        if (!package_choice(s, s->problem->goals[i].package)) {
            return &s->problem->goals[i];
        }
    }
    return NULL;
}

static void search_all(struct search *s)
{
    s->bound = s->bound || ++s->steps > PLAN_SOLVE_STEPS_MAX;
    if (s->bound || (s->found && s->n_changed >= s->n_best)) {
        return;
    }
    const struct plan_solve_goal *goal = open_goal(s);
    if (goal && goal->stay) {
        try_release(s, goal->package, goal->package->installed, "it can stay");
        return;
    }
    for (size_t i = 0; goal && i < goal->n_releases; i++) {
        try_release(s, goal->package, &goal->releases[i], goal->why);
    }
    struct conflict c;
    if (goal) {
        return;
    }
    if (collides(s, &c)) {
        say_collision(s, &c);
    } else if (search_forward(s, &c)) {
        settle_forward(s, &c);
    } else if (backward(s, &c)) {
        settle_backward(s, &c);
    } else {
        keep_best(s);
    }
}

void solve(struct arena *a, const struct plan_solve_problem *problem, struct plan_solve_answer *ret)
{
    *ret = (struct plan_solve_answer){0};
    struct search s = {.a = a, .problem = problem, .answer = ret};
    search_all(&s);
    ret->outcome = s.found ? PLAN_SOLVE_FOUND : s.bound ? PLAN_SOLVE_BOUND : PLAN_SOLVE_NONE;
}
