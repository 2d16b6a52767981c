/* Names that a person most likely meant: base/nearest.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/nearest.h"

static const char *best_of(const char *word, const char *const *names, size_t n_names)
{
    struct nearest n;
    nearest_init(&n, word);
    for (size_t i = 0; i < n_names; i++) {
        nearest_try(&n, names[i]);
    }
    return nearest_best(&n);
}

static void finds_what_was_meant(void **state)
{
    (void)state;
    static const char *const names[] = {"check", "choose", "fix",         "run",
                                        "why",   "torch",  "ctranslate2", "library-not-on-path"};
    static const struct {
        const char *word, *meant;
    } cases[] = {
        {"chekc", "check"},            // neighbours swapped
        {"CHECK", "check"},            // letters of either case are equal
        {"chooose", "choose"},         // one too many
        {"ctranslate", "ctranslate2"}, // one too few
        {"ctrnaslate", "ctranslate2"}, // two edits in ten letters
        {"library-on-path", NULL},     // four edits
        {"library-not-in-path", "library-not-on-path"},
        {"fxi", "fix"},
        {"rn", "run"},
        {"w", NULL},
        {"xyz", NULL},
        {"", NULL},
        {"devices", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *best = best_of(cases[i].word, names, sizeof names / sizeof *names);
        if (!cases[i].meant != !best || (best && strcmp(best, cases[i].meant) != 0)) {
            fail_msg("%s: %s", cases[i].word, best ? best : "nothing");
        }
    }
}

/* Of names that are equally near the first wins; a word of any length is no danger. */
static void is_stable_and_bounded(void **state)
{
    (void)state;
    static const char *const names[] = {"bat", "cat"};
    char word[5000];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_string_equal(best_of("hat", names, 2), "bat");
    assert_null(best_of(word, names, 2));
    const char *long_name[] = {word};
    assert_null(best_of("aaa", long_name, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_what_was_meant),
                                       cmocka_unit_test(is_stable_and_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
