/* Any bytes as the log of a journal, and as a list of files: what is read names no path outside of
 * the base, and counts only bytes that are there. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "apply/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path)
{
    if (strcmp(path, ".") == 0) {
        return;
    }
    assert(path[0] && path[0] != '/' && strncmp(path, ".gpumend/", 9) != 0);
    struct str rest = str_of(path);
    while (rest.s) {
        struct str part = str_cut(&rest, '/');
        assert(part.n > 0 && !str_is(part, "..") && !str_is(part, "."));
    }
}

static void check_log(struct arena *a, struct str text)
{
    struct apply_journal j;
    struct gm_err err;
    if (apply_journal_parse(a, text, &j, &err) < 0) {
        return;
    }
    assert(j.valid_bytes <= text.n && (j.torn || j.valid_bytes == text.n));
    for (size_t i = 0; i < j.changes.n; i++) {
        check_path(j.changes.items[i].path);
        assert(j.changes.items[i].n == i + 1);
        if (j.changes.items[i].tmp) {
            check_path(j.changes.items[i].tmp);
        }
    }
    for (size_t i = 0; i < j.folders.n; i++) {
        check_path(j.folders.items[i].path);
    }
}

/* The input as the texts of records, with hashes that are right: what a hash alone would stop. */
static struct str with_hashes(struct arena *a, struct str text)
{
    uint64_t chain = 0;
    char *out = arena_alloc(a, text.n * 32 + 64);
    size_t at = 0;
    struct str line;
    while (str_line(&text, &line)) {
        const char *kind = str_dup(a, line);
        if (strlen(kind) != line.n) {
            continue; // records are text
        }
        struct str record = apply_journal_record(a, &chain, kind, NULL);
        memcpy(out + at, record.s, record.n);
        at += record.n;
    }
    return (struct str){out, at};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct apply_journal_scan scan;
    struct gm_err err;
    struct str text = {(const char *)data, size};
    arena_init(&arena, (size_t)256 << 20, NULL, NULL);
    check_log(&arena, text);
    check_log(&arena, with_hashes(&arena, text));
    uint64_t lines = 0;
    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n' || i + 1 == size;
    }
    if (apply_journal_scan_parse(&arena, text, lines, str_hash(data, size), &scan, &err) == 0) {
        for (size_t i = 0; i < scan.entries.n; i++) {
            check_path(scan.entries.items[i].path);
            assert(apply_journal_scan_find(&scan, scan.entries.items[i].path));
        }
    }
    arena_release(&arena);
    return 0;
}
