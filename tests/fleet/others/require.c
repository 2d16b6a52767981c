/* Evaluates NVIDIA_REQUIRE_CUDA by libnvidia-container's src/cli/dsl.c
 * (tests/fleet/require_cuda.py). This file is that one's "dsl.h" and "utils.h" as well, with what
 * it uses of them. A line is "REQUIRE<tab>DRIVER<tab>COMPUTE CAPABILITY"; printed: true, false, or
 * "invalid". */
#ifndef GPUMEND_REQUIRE
#define GPUMEND_REQUIRE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct error {
    const char *text;
};
enum dsl_comparator { EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL };
struct dsl_rule {
    const char *name;
    int (*func)(void *, enum dsl_comparator, const char *);
};
#define nitems(x)                    (sizeof(x) / sizeof *(x))
#define str_case_equal(x, y)         (strcasecmp(x, y) == 0)
#define xstrdup(err, text)           strdup(text)
#define error_setx(err, format, ...) ((err)->text = format)
#endif

#ifdef GPUMEND_REQUIRE_MAIN
#undef GPUMEND_REQUIRE_MAIN
#include "dsl.c"

static char *words[3];

static int driver(void *unused, enum dsl_comparator cmp, const char *version)
{
    (void)unused;
    return dsl_compare_version(words[1], cmp, version);
}

static int arch(void *unused, enum dsl_comparator cmp, const char *version)
{
    (void)unused;
    return dsl_compare_version(words[2], cmp, version);
}

int main(void)
{
    static const struct dsl_rule rules[] = {{"driver", driver}, {"arch", arch}};
    char line[65536];
    while (fgets(line, sizeof line, stdin)) {
        char *rest = line;
        for (size_t i = 0; i < 3; i++) {
            words[i] = strsep(&rest, "\t\n");
        }
        struct error err = {NULL};
        int rc = dsl_evaluate(&err, words[0], NULL, rules, nitems(rules));
        puts(rc == 0 ? "true" : strncmp(err.text, "invalid", 7) == 0 ? "invalid" : "false");
    }
    return 0;
}
#endif
