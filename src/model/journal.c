#include "model/journal.h"

#include <errno.h>

enum { JOURNALS_MAX = 10000, LOG_BYTES_MAX = 16 << 20 };

/* The kind of a record, `HASH KIND key=value...` (src/apply/journal.h). */
static struct str line_kind(struct str line)
{
    (void)str_cut(&line, ' '); // the hash
    return str_cut(&line, ' ');
}

/* Begun, and not applied; or being taken back. */
static bool is_unfinished(struct str log)
{
    struct str line;
    bool begun = false, applied = false;
    while (str_line(&log, &line)) {
        struct str kind = line_kind(line);
        begun |= str_is(kind, "begin");
        applied |= str_is(kind, "applied");
        if (str_is(kind, "undo")) {
            return true;
        }
    }
    return begun && !applied;
}

bool model_journal_open(struct root *root, struct arena *a, const char *folder,
                        struct model_journal *ret, const char **ret_why)
{
    struct root_dir list;
    bool found = false;
    if (root_list(root, a, folder, JOURNALS_MAX, NULL, &list) < 0) {
        return false; // not there: nothing was begun
    }
    for (size_t i = 0; i < list.n; i++) {
        struct str log;
        uint64_t id;
        const char *dir = path_join(a, folder, list.names[i]);
        if (!str_u64(str_of(list.names[i]), &id) || (found && id <= ret->id)) {
            continue;
        }
        int rc = root_read(root, a, path_join(a, dir, "log"), LOG_BYTES_MAX, &log);
        if (rc == -EFBIG) {
            *ret_why =
                arena_printf(a,
                             "%s/log is larger than %d MiB; whether that repair has ended is "
                             "not known",
                             dir, LOG_BYTES_MAX >> 20);
        } else if (rc == 0 && is_unfinished(log)) {
            *ret = (struct model_journal){dir, id};
            found = true;
        }
    }
    return found;
}
