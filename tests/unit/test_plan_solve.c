/* The solver: small problems by hand, and small random ones against trying everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "plan/solve.h"

enum { PACKAGES_MAX = 5, RELEASES_MAX = 4 };

struct world {
    struct arena a;
    struct plan_solve_package packages[PACKAGES_MAX];
    const struct plan_solve_package *installed[PACKAGES_MAX];
    size_t n, n_installed;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    arena_init(&w->a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    arena_release(&w->a);
    free(w);
    return 0;
}

static const struct plan_solve_package *find(void *arg, const char *name)
{
    struct world *w = arg;
    for (size_t i = 0; i < w->n; i++) {
        if (strcmp(w->packages[i].name, name) == 0) {
            return &w->packages[i];
        }
    }
    fail_msg("%s is asked for", name);
    return NULL;
}

/* "2.0: a>=1 b==3" */
static struct plan_solve_release release(struct world *w, const char *text)
{
    struct str rest = str_of(text);
    VEC(struct plan_solve_need) needs = {0};
    struct plan_solve_release r = {.version = str_dup(&w->a, str_trim(str_cut(&rest, ':')))};
    rest = rest.s ? str_trim(rest) : rest;
    while (rest.s && rest.n) {
        struct str one = str_cut(&rest, ' ');
        size_t n = strcspn(str_dup(&w->a, one), "=<>!");
        struct plan_solve_need need;
        assert_true(plan_solve_need_init(&w->a, arena_strndup(&w->a, one.s, n),
                                         arena_strndup(&w->a, one.s + n, one.n - n), "its row",
                                         &need));
        VEC_PUSH(&w->a, &needs, need);
    }
    r.needs = needs.items;
    r.n_needs = needs.n;
    return r;
}

/* Adds "name", installed (or NULL), and the others, the best first and separated by "|". */
static struct plan_solve_package *package(struct world *w, const char *name, const char *installed,
                                          const char *others)
{
    struct plan_solve_package *p = &w->packages[w->n++];
    VEC(struct plan_solve_release) list = {0};
    *p = (struct plan_solve_package){.name = name, .known = others != NULL};
    for (struct str rest = str_of(others); rest.s && rest.n;) {
        VEC_PUSH(&w->a, &list, release(w, str_dup(&w->a, str_trim(str_cut(&rest, '|')))));
    }
    p->releases = list.items;
    p->n_releases = list.n;
    if (installed) {
        struct plan_solve_release *r = arena_alloc(&w->a, sizeof *r);
        *r = release(w, installed);
        p->installed = r;
        w->installed[w->n_installed++] = p;
    }
    return p;
}

static struct plan_solve_answer ask(struct world *w, const struct plan_solve_goal *goals, size_t n)
{
    struct plan_solve_answer answer;
    struct plan_solve_problem problem = {.find = find,
                                         .arg = w,
                                         .installed = w->installed,
                                         .n_installed = w->n_installed,
                                         .goals = goals,
                                         .n_goals = n};
    solve(&w->a, &problem, &answer);
    return answer;
}

static struct plan_solve_goal move(const struct plan_solve_package *p)
{
    return (struct plan_solve_goal){p, false, p->releases, p->n_releases, "asked for"};
}

/* "a 2.0, b 3" */
static const char *words(struct world *w, const struct plan_solve_answer *s)
{
    const char *text = s->outcome == PLAN_SOLVE_FOUND  ? ""
                       : s->outcome == PLAN_SOLVE_NONE ? "none"
                                                       : "bound";
    for (size_t i = 0; s->outcome == PLAN_SOLVE_FOUND && i < s->changes.n; i++) {
        text =
            arena_printf(&w->a, "%s%s%s %s", text, i ? ", " : "", s->changes.items[i].package->name,
                         s->changes.items[i].release->version);
    }
    return text;
}

static void newest_of_what_fits(void **state)
{
    struct world *w = *state;
    struct plan_solve_package *a = package(w, "a", "1.0", "3.0: b>=2|2.0: b>=1");
    (void)package(w, "b", "1.5", "2.5|2.0");
    struct plan_solve_goal goal = move(a);
    struct plan_solve_answer s = ask(w, &goal, 1);
    assert_string_equal(words(w, &s), "a 2.0"); // one change, not two
}

static void newest_whatever_else_it_takes(void **state)
{
    struct world *w = *state;
    struct plan_solve_goal goal = move(package(w, "app", NULL, "1: engine>=1"));
    struct plan_solve_package *engine =
        package(w, "engine", NULL, "3: more>=9|2: more>=1 other>=1|1:");
    (void)package(w, "more", NULL, "2: third==1|1:");
    (void)package(w, "other", NULL, "1:");
    (void)package(w, "third", NULL, "1:");
    struct plan_solve_answer s = ask(w, &goal, 1);
    assert_string_equal(words(w, &s), "app 1, engine 1");
    engine->newest = true; // of what else it takes, the least
    s = ask(w, &goal, 1);
    assert_string_equal(words(w, &s), "app 1, engine 2, more 1, other 1");
}

static void what_pins_it_moves_with_it(void **state)
{
    struct world *w = *state;
    struct plan_solve_package *torch = package(w, "torch", "2.5.1: lib==12.4", "2.8.0: lib==12.8");
    (void)package(w, "lib", "12.4", "12.9|12.8");
    (void)package(w, "vision", "0.20: torch==2.5.1", "0.24: torch==2.9|0.23: torch==2.8.0");
    (void)package(w, "other", "1: torch>=2", "2");
    struct plan_solve_goal goal = move(torch);
    struct plan_solve_answer s = ask(w, &goal, 1);
    assert_string_equal(words(w, &s), "torch 2.8.0, lib 12.8, vision 0.23");
}

/* A pin of a published release says that the version exists, known or not. */
static void pinned_version_without_a_row(void **state)
{
    struct world *w = *state;
    struct plan_solve_package *a = package(w, "a", "1", "2: b==7.1");
    (void)package(w, "b", "6", "8");
    struct plan_solve_goal goal = move(a);
    struct plan_solve_answer s = ask(w, &goal, 1);
    assert_string_equal(words(w, &s), "a 2, b 7.1");
}

static void what_is_not_known_stays(void **state)
{
    struct world *w = *state;
    struct plan_solve_package *a = package(w, "a", "1", "2: b<2");
    (void)package(w, "b", "2.3", NULL);
    struct plan_solve_goal goal = move(a);
    struct plan_solve_answer s = ask(w, &goal, 1);
    assert_string_equal(words(w, &s), "none");
    assert_int_equal(s.contradictions.n, 1);
    assert_string_equal(
        s.contradictions.items[0],
        "a 2 needs b<2 (its row), b 2.3 is installed, and the knowledge base has no "
        "releases of it: whether another one fits cannot be determined");
}

static void pins_that_contradict(void **state)
{
    struct world *w = *state;
    struct plan_solve_package *a = package(w, "a", "1", "2: lib==9.1"), *b;
    b = package(w, "b", "1", "2: lib==9.10");
    (void)package(w, "lib", "9.1", "9.10");
    struct plan_solve_goal goals[] = {move(a), move(b)};
    struct plan_solve_answer s = ask(w, goals, 2);
    assert_string_equal(words(w, &s), "none");
    assert_non_null(strstr(s.contradictions.items[0], "b 2 needs lib==9.10"));
    assert_non_null(strstr(s.contradictions.items[0], "a 2 needs lib==9.1 "));
}

/* What was wrong before, and what nobody asks about, is left alone. */
static void old_wounds_are_left_alone(void **state)
{
    struct world *w = *state;
    struct plan_solve_package *a = package(w, "a", "1", "2");
    (void)package(w, "b", "1", "2");
    (void)package(w, "c", "1: b>=2", "2");
    struct plan_solve_goal goal = move(a);
    struct plan_solve_answer s = ask(w, &goal, 1);
    assert_string_equal(words(w, &s), "a 2");
}

/* What would overwrite the files of something else is not installed beside it. */
static void files_are_not_overwritten(void **state)
{
    static const struct plan_solve_collision collision = {"lib13", "lib/folder"};
    struct world *w = *state;
    struct plan_solve_package *a = package(w, "a", "1", "3: lib12|2");
    struct plan_solve_package *lib12 = package(w, "lib12", NULL, "12.1");
    (void)package(w, "lib13", "13.0", NULL);
    lib12->collisions = &collision;
    lib12->n_collisions = 1;
    struct plan_solve_release r = release(w, "3: lib12");
    ((struct plan_solve_need *)r.needs)->files = true;
    struct plan_solve_goal goal = move(a), only = {a, false, &r, 1, "asked for"};
    struct plan_solve_answer s = ask(w, &goal, 1);
    assert_string_equal(words(w, &s), "a 2");
    s = ask(w, &only, 1);
    assert_string_equal(words(w, &s), "none");
    assert_string_equal(s.contradictions.items[0],
                        "a 3 needs lib12 (its row), but lib12 12.1 would overwrite files of lib13 "
                        "13.0 in lib/folder");
    lib12->installed = &lib12->releases[0]; // both are there already
    struct plan_solve_release moved = release(w, "12.2");
    struct plan_solve_goal other = {lib12, false, &moved, 1, "asked for"};
    s = ask(w, &other, 1);
    assert_string_equal(words(w, &s), "lib12 12.2");
}

static void the_bound_is_said(void **state)
{
    struct world *w = *state;
    const char *many = "1: z==1";
    for (int i = 2; i < 160; i++) {
        many = arena_printf(&w->a, "%s|%d: z==%d", many, i, i);
    }
    struct plan_solve_package *x = package(w, "x", "0", many), *y = package(w, "y", "0", many);
    struct plan_solve_package *v = package(w, "v", "0", many);
    struct plan_solve_package *z = package(w, "z", "0", NULL);
    struct plan_solve_goal goals[] = {move(x), move(y), move(v), {.package = z, .stay = true}};
    struct plan_solve_answer s = ask(w, goals, 4);
    assert_string_equal(words(w, &s), "bound");
}

/* ------------------------------------------------------------------ against trying everything */

static uint32_t seed;

static size_t dice(size_t n)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 16) % n;
}

static const char *random_release(struct world *w, size_t self, size_t n, size_t version)
{
    static const char *const ops[] = {">=", "<=", "==", "!="};
    const char *text = arena_printf(&w->a, "%zu:", version);
    for (size_t i = 0; i < n; i++) {
        if (i != self && dice(3) == 0) {
            text = arena_printf(&w->a, "%s %c%s%zu", text, (char)('a' + i), ops[dice(4)],
                                1 + dice(RELEASES_MAX));
        }
    }
    return text;
}

static const struct plan_solve_release *pick(const struct plan_solve_package *p, size_t i)
{
    return i == 0 ? p->installed : &p->releases[i - 1];
}

/* Whether a full assignment holds: the needs of what changed, and those of what stayed on what
 * changed, unless they failed before. */
static bool holds(struct world *w, const size_t *at)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct plan_solve_release *r = pick(&w->packages[i], at[i]);
        for (size_t k = 0; k < r->n_needs; k++) {
            size_t t = (size_t)(r->needs[k].package[0] - 'a');
            bool before = plan_solve_need_fits(&r->needs[k], w->packages[t].installed->version);
            bool now = plan_solve_need_fits(&r->needs[k], pick(&w->packages[t], at[t])->version);
            if (!now && (at[i] || (at[t] && before))) {
                return false;
            }
        }
    }
    return true;
}

/* The fewest changes that move the first package; 0 if nothing does. */
static size_t fewest(struct world *w)
{
    size_t at[PACKAGES_MAX] = {1}, best = 0;
    for (;;) {
        size_t changed = 0;
        for (size_t i = 0; i < w->n; i++) {
            changed += at[i] != 0;
        }
        if ((!best || changed < best) && holds(w, at)) {
            best = changed;
        }
        size_t i = 0;
        for (; i < w->n && ++at[i] > w->packages[i].n_releases; i++) {
            at[i] = i == 0;
        }
        if (i == w->n) {
            return best;
        }
    }
}

static void check_random(struct world *w)
{
    size_t n = 2 + dice(PACKAGES_MAX - 1), at[PACKAGES_MAX] = {0};
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < n; i++) {
        const char *others = "";
        size_t have = 1 + dice(RELEASES_MAX);
        for (size_t v = RELEASES_MAX; v > 0; v--) {
            others = v == have ? others
                               : arena_printf(&w->a, "%s%s%s", others, *others ? "|" : "",
                                              random_release(w, i, n, v));
        }
        (void)package(w, names[i], random_release(w, i, n, have), others);
    }
    struct plan_solve_goal goal = move(&w->packages[0]);
    struct plan_solve_answer s = ask(w, &goal, 1);
    size_t best = fewest(w);
    assert_int_equal(s.outcome, best ? PLAN_SOLVE_FOUND : PLAN_SOLVE_NONE);
    assert_int_equal(s.changes.n, best);
    for (size_t i = 0; i < s.changes.n; i++) {
        const struct plan_solve_package *p = s.changes.items[i].package;
        at[p - w->packages] = (size_t)(s.changes.items[i].release - p->releases) + 1;
    }
    assert_true(!best || holds(w, at));
}

static void random_problems(void **state)
{
    struct world *w = *state;
    for (uint32_t i = 0; i < 2000; i++) {
        seed = i;
        w->n = w->n_installed = 0;
        check_random(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(newest_of_what_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(newest_whatever_else_it_takes, setup, teardown),
        cmocka_unit_test_setup_teardown(what_pins_it_moves_with_it, setup, teardown),
        cmocka_unit_test_setup_teardown(pinned_version_without_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_known_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(pins_that_contradict, setup, teardown),
        cmocka_unit_test_setup_teardown(old_wounds_are_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(files_are_not_overwritten, setup, teardown),
        cmocka_unit_test_setup_teardown(the_bound_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(random_problems, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
