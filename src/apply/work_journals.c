/* The folder of journals, and the journals in it: found, opened, locked, listed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apply/journals.h"
#include "apply/work.h"

enum {
    JOURNALS_MAX = 100000,
    DIGITS_MAX = 9,
};

int apply_work_said(struct gm_err *err, const char *what)
{
    return gm_err_set(err, GM_ERR_LOOK, "%s: %s", what, strerror(errno));
}

const char *apply_work_number(struct apply_work *w, uint64_t n)
{
    return arena_printf(w->place->arena, "%" PRIu64, n);
}

int apply_work_open_folder(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* "17" -> 17; 0 for what is no journal. */
static unsigned journal_id(const char *name)
{
    uint64_t id;
    struct str s = str_of(name);
    return s.n <= DIGITS_MAX && s.s[0] != '0' && str_u64(s, &id) ? (unsigned)id : 0;
}

static bool is_journal(const char *name, void *unused)
{
    (void)unused;
    return journal_id(name) != 0;
}

static int by_id(const void *a, const void *b)
{
    const unsigned *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int apply_work_list_ids(struct apply_place *p, int journals, struct ids *ret, struct gm_err *err)
{
    struct root here = {.fd = journals, .path = "."};
    struct root_dir found;
    int rc = root_list(&here, p->arena, "/", JOURNALS_MAX,
                       &(struct root_filter){.keep = is_journal}, &found);
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "the journals: %s", strerror(-rc));
    }
    if (found.truncated) { // the newest may be among those that are left out
        return gm_err_set(err, GM_ERR_LIMIT, "there are more than %d journals", JOURNALS_MAX);
    }
    *ret = (struct ids){arena_array(p->arena, found.n + 1, sizeof *ret->items), found.n};
    for (size_t i = 0; i < found.n; i++) {
        ret->items[i] = journal_id(found.names[i]);
    }
    qsort(ret->items, ret->n, sizeof *ret->items, by_id);
    return 0;
}

int apply_work_open_journals(struct apply_work *w, struct apply_place *p, struct gm_err *err)
{
    struct gm_err found = {.code = GM_ERR_NONE};
    *w = APPLY_WORK_EMPTY;
    w->place = p;
    w->top = apply_place_find_top(p, &found);
    if (w->top < 0) {
        return found.code == GM_ERR_NONE ? 0 : gm_err_set(err, found.code, "%s", found.text);
    }
    w->journals = apply_work_open_folder(w->top, "journal");
    return w->journals >= 0 ? 0 : apply_work_said(err, "the journals");
}

int apply_work_open_journal(struct apply_work *w, unsigned id, int flags, struct gm_err *err)
{
    const char *name = apply_work_number(w, id);
    struct str text;
    w->folder = apply_work_open_folder(w->journals, name);
    w->log = w->folder < 0 ? -1 : openat(w->folder, "log", flags | O_NOFOLLOW | O_CLOEXEC);
    if (w->log < 0 && errno == ENOENT && w->folder >= 0) {
        w->journal = (struct apply_journal){.id = id}; // it never began
        return 0;
    }
    if (w->log < 0) {
        return apply_work_said(err, "the journal");
    }
    int rc = apply_place_read(w->place, w->folder, "log", APPLY_JOURNAL_BYTES_MAX, &text, err);
    rc = rc < 0 ? rc : apply_journal_parse(w->place->arena, text, &w->journal, err);
    if (rc == 0 && w->journal.begun && w->journal.id != id) {
        rc = gm_err_set(err, GM_ERR_FORMAT, "it is the journal of another repair");
    }
    w->journal.id = id;
    return rc < 0 ? gm_err_wrap(err, "journal %u", id) : 0;
}

void apply_work_close_journal(struct apply_work *w)
{
    int *fds[] = {&w->folder, &w->log};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0) {
            (void)close(*fds[i]); // synced record by record
        }
        *fds[i] = -1;
    }
}

void apply_work_close(struct apply_work *w)
{
    apply_work_close_journal(w);
    if (w->journals >= 0) {
        (void)close(w->journals); // only read from
    }
    if (w->top >= 0) {
        (void)close(w->top);
    }
    w->journals = w->top = -1;
}

int apply_work_list(struct apply_place *p, struct apply_list *ret, struct gm_err *err)
{
    struct apply_work w;
    struct ids ids = {0};
    *ret = (struct apply_list){0};
    int rc = apply_work_open_journals(&w, p, err);
    if (rc < 0 || w.journals < 0) {
        return rc;
    }
    rc = apply_work_list_ids(p, w.journals, &ids, err);
    for (size_t i = 0; rc == 0 && i < ids.n; i++) {
        struct apply_listed l = {.id = ids.items[i]};
        struct gm_err wrong;
        if (apply_work_open_journal(&w, l.id, O_RDONLY, &wrong) < 0) {
            l.error = arena_strdup(p->arena, wrong.text);
        }
        l.journal = w.journal;
        apply_work_close_journal(&w);
        VEC_PUSH(p->arena, &ret->items, l);
    }
    apply_work_close(&w);
    return rc;
}
