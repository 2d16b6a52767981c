/*
 * Plans kept from one start to the next. The first start looks at everything and writes down what
 * it has looked at; a later one only asks whether all of that is as it was.
 *
 *     launch_seen_add()      every path that is asked about, found or not (struct root, on_look),
 * with its identity right before launch_cache_write()   these identities, the question, and its
 * answer launch_cache_read()    the answer, if the question is the same and every identity too
 *
 * An identity is device, inode, size, mode, and the times of change to the nanosecond; of a path
 * that leads nowhere it is the errno, and the topmost folder that is missing stands for what is
 * below it. Of a file with several names the time of the inode's change is left out: installers
 * make environments of hard links, and each link made elsewhere would change it. Of device nodes
 * only what they are counts, and /proc and /sys, whose files have no times, are left out: the
 * caller puts what matters of them into the question.
 *
 * The file is this user's own (0600, in a folder of his own), and what it says decides what a
 * program loads: whatever is wrong with it, of another owner, cut off or spoilt, it counts as
 * absent.
 *
 *     "gpumend-plan 2\n", then fields, each LENGTH ":" BYTES "\n":
 *     question, counts of all lists, identities, changes, links, findings, remarks; then a checksum
 */
#ifndef GPUMEND_LAUNCH_CACHE_H
#define GPUMEND_LAUNCH_CACHE_H

#include "base/root.h"
#include "launch/launch.h"

enum { LAUNCH_SEEN_MAX = 65536 };

struct launch_identity {
    uint64_t v[9]; // errno, device, inode, size or node, mode, mtime s and ns, ctime s and ns
};

struct launch_seen {
    const char *path;
    struct launch_identity identity;
};

/* What was looked at: a set of paths. The caller fills in the first three. */
struct launch_seen_set {
    struct arena *a;
    struct root *root;         // to look through; one without on_look
    struct timespec began;     // when the plan was begun, CLOCK_REALTIME
    struct launch_seen *slots; // open addressing; path NULL: free
    size_t n, cap;
    const char *young; // a file that changed when the plan was made, or right before; or NULL
};

/* An on_look function of struct root; arg is a struct launch_seen_set. */
void launch_seen_add(void *arg, const char *path);

/* A path of the set that is not as it was, or NULL. */
const char *launch_seen_changed(const struct launch_seen_set *s);

/* A cached plan as it stands in a file. */
struct launch_cached {
    const char *question;
    VEC(struct launch_seen) seen;
    struct launch launch;
};

/* GM_ERR_FORMAT: the bytes are no plan. Texts are copied into the arena. */
int launch_cache_parse(struct arena *a, struct str bytes, struct launch_cached *ret,
                       struct gm_err *err) GM_CHECK;

/* The plan for this question, if the folder has one and nothing has changed since. */
bool launch_cache_read(struct root *r, struct arena *a, const char *folder, const char *question,
                       struct launch *ret);

/* Keeps a plan; 0, or why it is not kept: GM_ERR_LIMIT if something has just changed, so that a
 * further change could bear the same time, GM_ERR_LOOK if the folder or the file cannot be written.
 */
int launch_cache_write(struct root *r, const char *folder, const char *question,
                       const struct launch_seen_set *seen, const struct launch *launch,
                       struct gm_err *err);

#endif
