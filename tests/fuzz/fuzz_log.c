/* Any bytes as a log, in pieces, through the whole engine with the built-in rules. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/root.h"
#include "log/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Loaded once, for all inputs. */
static struct {
    struct arena arena;
    struct root root;
    struct kb kb;
    struct log_rules *rules;
} world = {.root = ROOT_EMPTY};

static void drop_rules(void)
{
    log_rules_close(world.rules);
    root_close(&world.root);
    arena_release(&world.arena);
}

static struct log_rules *rules_of(void)
{
    struct gm_err err;
    if (!world.rules) {
        arena_init(&world.arena, 0, NULL, NULL);
        int rc = root_open(&world.root, "/", &err);
        rc = rc < 0 ? rc : kb_open(&world.kb, &world.arena, &world.root, NULL, &err);
        rc = rc < 0 ? rc : log_rules_load(&world.kb, &world.arena, NULL, &world.rules, &err);
        assert(rc == 0 && atexit(drop_rules) == 0);
    }
    return world.rules;
}

static void check_result(const struct log_result *r)
{
    uint64_t before = 0;
    assert(r->n_facts <= LOG_FACTS_MAX);
    for (size_t i = 0; i < r->n_facts; i++) {
        assert(r->facts[i]->line >= before && r->facts[i]->line <= r->lines);
        assert(strlen(r->facts[i]->text) <= LOG_EVIDENCE_MAX + 3);
        before = r->facts[i]->line;
    }
    for (size_t i = 0; i < r->n; i++) {
        assert(r->candidates[i].says && r->candidates[i].culprit);
        for (size_t k = 0; k < i; k++) {
            // an entry may tell of several failures
            assert(strcmp(r->candidates[k].rule, r->candidates[i].rule) != 0 ||
                   strcmp(r->candidates[k].culprit, r->candidates[i].culprit) != 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct log_result result;
    arena_init(&a, (size_t)256 << 20, NULL, NULL);
    struct log *log = log_open(rules_of(), &a);
    size_t piece = size ? data[0] * (size_t)7 + 1 : 1; // the first byte is text, too
    for (size_t at = 0; at < size; at += piece) {
        log_feed(log, data + at, size - at < piece ? size - at : piece);
    }
    log_end(log);
    log_judge(log, &a, &result);
    assert(result.bytes == size);
    check_result(&result);
    arena_release(&a);
    return 0;
}
