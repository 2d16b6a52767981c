#include "apply/scan.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int journal_said(struct gm_err *err)
{
    return gm_err_set(err, GM_ERR_LOOK, "the journal: %s", strerror(errno));
}

/* A record that did not get onto the disk is cut off again, so that the next one can follow. */
int apply_work_record(struct apply_work *w, const char *kind, const char *const *fields,
                      struct gm_err *err)
{
    uint64_t chain = w->journal.chain;
    struct str line = apply_journal_record(w->place->arena, &chain, kind, fields);
    size_t at = w->journal.valid_bytes;
    if (w->journal.torn && ftruncate(w->log, (off_t)at) < 0) {
        return journal_said(err);
    }
    w->journal.torn = false;
    ssize_t n = pwrite(w->log, line.s, line.n, (off_t)at);
    if (n != (ssize_t)line.n || fdatasync(w->log) < 0) {
        int rc = n >= 0 && n != (ssize_t)line.n
                     ? gm_err_set(err, GM_ERR_LOOK, "the journal: no space left")
                     : journal_said(err);
        (void)!ftruncate(w->log, (off_t)at); // else it is seen as torn, which it is
        return rc;
    }
    w->journal.chain = chain;
    w->journal.valid_bytes += line.n;
    return 0;
}
