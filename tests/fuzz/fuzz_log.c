/* Any bytes as a log, in pieces, through the whole engine with the built-in rules. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/root.h"
#include "log/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Loaded once; they live as long as the process. */
static struct log_rules *rules_of(void)
{
    static struct arena arena;
    static struct root root = ROOT_EMPTY;
    static struct kb kb;
    static struct log_rules *rules;
    struct gm_err err;
    if (!rules) {
        arena_init(&arena, 0, NULL, NULL);
        int rc = root_open(&root, "/", &err);
        rc = rc < 0 ? rc : kb_open(&kb, &arena, &root, NULL, &err);
        rc = rc < 0 ? rc : log_rules_load(&kb, &arena, &rules, &err);
        assert(rc == 0);
    }
    return rules;
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
        assert(!i || r->candidates[i - 1].rank >= r->candidates[i].rank);
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
