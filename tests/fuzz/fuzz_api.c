/* The C library: each call is a byte for the function, one for what is NULL or of a wrong size, and
 * a text that ends with NUL. An answer has what it counts; after a failure it is zeros and there is
 * a sentence. gm_preload() is left out, as it loads what it finds. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpumend.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

union answer {
    struct gm_check check;
    struct gm_plan plan;
    struct gm_why why;
    struct gm_choice choice;
    struct gm_cause cause;
    struct gm_explained explained;
};

enum { CHECK, PLAN, WHY, CHOOSE, EXPLAIN, TEXT, FUNCTIONS };
enum { CALLS_MAX = 2, TEXTS_MAX = 5000 };

/* A context that has loaded the signatures, which takes as long as a thousand calls. What it has
 * answered stays in its memory, so that it is given up in time. */
static gm_context *reading;

static void drop_reading(void)
{
    gm_free(reading);
    reading = NULL;
}

static gm_context *reading_context(void)
{
    static unsigned asked;
    if (!reading || ++asked % TEXTS_MAX == 0) {
        drop_reading();
        reading = gm_new();
        assert(reading);
    }
    return reading;
}

/* The folder of --kb. */
static const char *knowledge(void)
{
    static char folder[128];
    if (!folder[0]) {
        world_write_knowledge("/kb");
        (void)snprintf(folder, sizeof folder, "%s/kb", world_top());
        (void)atexit(drop_reading);
    }
    return folder;
}

static int ask(gm_context *gm, unsigned function, unsigned how, const char *text, union answer *ret)
{
    const char *const env[] = {text, "PATH=/bin", NULL};
    /* A size that is said is there. */
    union {
        struct gm_target target;
        unsigned char bytes[256];
    } given = {.bytes = {0}};
    given.target = (struct gm_target){.size = how & 1 ? how : sizeof given.target,
                                      .root = world_top(),
                                      .env = env,
                                      .kb = knowledge(),
                                      .path = how & 2 ? text : WORLD_PROGRAM,
                                      .cwd = how & 4 ? text : "/",
                                      .imports = how & 8 ? text : NULL};
    const struct gm_wish wish = {.size = sizeof wish, .app = how & 16 ? text : NULL, .model = text};
    const char *name = how & 32 ? NULL : text;
    void *place = how & 64 ? NULL : ret;
    switch (function % FUNCTIONS) {
    case CHECK: return gm_check(gm, &given.target, place);
    case PLAN: return gm_plan(gm, &given.target, place);
    case WHY: return gm_why(gm, &given.target, WORLD_PROGRAM, how & 128 ? text : NULL, name, place);
    case CHOOSE: return gm_choose(gm, &given.target, how & 128 ? &wish : NULL, place);
    case EXPLAIN: return gm_explain(gm, name, place);
    default: return gm_explain_text(gm, name, strlen(text), place);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const union answer none;
    char *text = malloc(size + 1);
    assert(text);
    gm_context *gm = gm_new();
    assert(gm);
    for (int i = 0; i < CALLS_MAX && size > 2; i++) {
        const uint8_t *end = memchr(data + 2, 0, size - 2);
        size_t n = end ? (size_t)(end - data) : size;
        union answer ret;
        memcpy(text, data + 2, n - 2);
        text[n - 2] = '\0';
        memset(&ret, 0, sizeof ret);
        gm_context *used = data[0] % FUNCTIONS == TEXT ? reading_context() : gm;
        int rc = ask(used, data[0], data[1], text, &ret);
        assert(rc <= GM_OK && rc >= GM_MEMORY && (rc == GM_OK) == !*gm_error(used));
        assert(rc == GM_OK || memcmp(&ret, &none, sizeof ret) == 0);
        n += end != NULL;
        data += n;
        size -= n;
    }
    gm_free(gm);
    free(text);
    return 0;
}
