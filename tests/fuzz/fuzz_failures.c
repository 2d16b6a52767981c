/* A folder of --kb with one file of failures: read, laid over what is built in for its kinds of
 * facts, and tried on a line. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "kb/failures.h"
#include "log/internal.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void log_explain(struct log_rules *rules, struct arena *a, const char *text)
{
    struct log_result result;
    struct log *log = log_open(rules, a);
    log_feed(log, text, strlen(text));
    log_end(log);
    log_judge(log, a, &result);
    for (size_t i = 0; i < result.n; i++) {
        assert(result.candidates[i].says && result.candidates[i].culprit);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gm_err err = {.text = ""};
    struct arena a;
    struct root root;
    struct kb kb;
    struct node_files files;
    struct log_rules *rules = NULL;
    world_write("/kb/failures/input.yaml", data, size);
    arena_init(&a, (size_t)1 << 30, NULL, NULL);
    int rc = root_open(&root, world_top(), &err);
    rc = rc < 0 ? rc : kb_open(&kb, &a, &root, NULL, &err);
    assert(rc == 0);
    rc = kb_failures_read(&root, &a, "/kb", &files, &err);
    if (rc == 0) {
        struct str bytes = node_pack(&a, &files.items[0].root, (const char *const[]){NULL});
        struct node again;
        assert(node_unpack(&a, &bytes, &again) == 0 && bytes.n == 0);
        rc = log_rules_of(&kb, &a, &(struct log_sources){.files = &files}, &rules, &err);
    }
    if (rc == 0) {
        log_explain(rules, &a, "RuntimeError: cannot load libcudnn.so.9: out of memory\n");
    } else {
        assert(strncmp(err.text, "/kb", 3) == 0 || strncmp(err.text, "more than", 9) == 0 ||
               rc == GM_ERR_MEMORY);
    }
    log_rules_close(rules);
    root_close(&root);
    arena_release(&a);
    return 0;
}
