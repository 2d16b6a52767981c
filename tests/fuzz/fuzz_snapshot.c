/* Any bytes as a snapshot: read, and where it is one, checked with its text and JSON. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "diag/finding.h"
#include "report/check.h"
#include "snapshot/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct snapshot *s, struct arena *a)
{
    struct gm_err err;
    struct model_target t;
    struct diag_report report;
    struct model_target_options o = snapshot_options(s, false);
    if (model_target_open(&t, a, &o, &err) == 0) {
        diag_run(&t.model, &report);
        struct report_target shown = {.kind = t.kind, .path = o.target, .root = "/"};
        json_t *doc = report_check_json(&t.model, &report, &shown);
        assert(doc);
        json_decref(doc);
        snap_note_pages(&s->files);
        assert(s->files.misses.n <= SNAP_MISSES_MAX);
    }
    model_target_close(&t);
    pages_stop();
}

/* What was read can be written, and is then read as the same. */
static void write_again(struct snapshot *s, struct arena *a)
{
    struct gm_err err;
    struct snapshot again;
    json_t *doc = snapshot_encode(s, &err);
    assert(doc);
    char *text = json_dumps(doc, JSON_COMPACT);
    json_decref(doc);
    assert(text);
    int rc = snapshot_decode(&again, a, text, strlen(text), &err);
    assert(rc == 0 && again.files.n <= s->files.n);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gm_err err;
    struct snapshot s;
    struct snapshot_names names = {0};
    struct arena a;
    arena_init(&a, (size_t)1 << 30, NULL, NULL);
    if (snapshot_decode(&s, &a, (const char *)data, size, &err) == 0) {
        write_again(&s, &a);
        check(&s, &a);
        snapshot_redact(&s, &names);
    }
    arena_release(&a);
    return 0;
}
