/* The folder of one environment below the journals' home: found, made, and swept. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "apply/place.h"
#include "apply/place_internal.h"

/*
 * The folder comes and goes without a trace in the times of its home: while it is on its way in or
 * out it is called "<top>.new.MTIME", so that the name itself keeps the time that is to be put
 * back; once it has its own name the file "before" in it does, until the time is put back.
 *
 *     mkdir top.new.T    write before=T    rename top    times of home = T    unlink before
 *     rename top.new.T   remove all in it  rmdir         times of home = T
 */
static char *times_text(struct arena *a, const struct apply_journal_sig *sig)
{
    return arena_printf(a, "%lld.%09ld", (long long)sig->mtime.tv_sec, sig->mtime.tv_nsec);
}

/* Puts the home's time of change back; that of access is left to the kernel. */
static int restore_home(struct apply_place *p, const char *text, struct gm_err *err)
{
    struct apply_journal_sig sig;
    const char *as_sig = arena_printf(p->arena, "d:0:0:0:0:0:%s:0.000000000", text);
    if (!apply_journal_sig_parse(p->arena, str_of(as_sig), &sig)) {
        return 0; // not a time: not ours, or never completed; nothing to put back
    }
    sig.atime = (struct timespec){.tv_nsec = UTIME_OMIT};
    return apply_place_times(p->home, ".", &sig, err);
}

static char *passing_name(struct apply_place *p, struct gm_err *err)
{
    struct apply_journal_sig home;
    if (apply_place_sig(p, p->home, ".", &home, err) < 0) {
        return NULL;
    }
    return arena_printf(p->arena, "%s.new.%s", p->top, times_text(p->arena, &home));
}

static int place_open_top(struct apply_place *p)
{
    return openat(p->home, p->top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int apply_place_find_top(struct apply_place *p, struct gm_err *err)
{
    int fd = place_open_top(p);
    if (fd >= 0 || errno == ENOENT) {
        err->code = GM_ERR_NONE;
        return fd;
    }
    return apply_place_said(err, p->top);
}

static int make_top(struct apply_place *p, struct gm_err *err)
{
    const char *passing = passing_name(p, err);
    if (!passing) {
        return GM_ERR_LOOK;
    }
    const char *times = passing + strlen(p->top) + strlen(".new.");
    if (mkdirat(p->home, passing, 0700) < 0) {
        return apply_place_said(err, p->base_path);
    }
    int fd = openat(p->home, passing, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = fd < 0 || mkdirat(fd, "journal", 0700) < 0 ? apply_place_said(err, passing) : 0;
    rc = rc < 0 ? rc : apply_place_write(fd, "before", 0600, str_of(times), err);
    rc = rc < 0 ? rc : apply_place_sync(fd, passing, err);
    apply_place_close_fd(fd);
    if (rc == 0 && renameat(p->home, passing, p->home, p->top) < 0) {
        rc = apply_place_said(err, p->top);
    }
    return rc < 0 ? rc : apply_place_sync(p->home, p->base_path, err);
}

/* Finishes the making of the folder: the times of its home. */
static int settle_top(struct apply_place *p, int top, struct gm_err *err)
{
    struct apply_journal_sig sig;
    struct str times;
    int rc = apply_place_sig(p, top, "before", &sig, err);
    if (rc < 0 || sig.type == '-') {
        return rc;
    }
    rc = apply_place_read(p, top, "before", 64, &times, err);
    rc = rc < 0 ? rc : restore_home(p, times.s, err);
    return rc < 0 || unlinkat(top, "before", 0) == 0 ? rc : apply_place_said(err, "before");
}

int apply_place_top(struct apply_place *p, struct gm_err *err)
{
    int rc = apply_place_check_folder(p, p->home, ".", err);
    int fd = rc < 0 ? -1 : place_open_top(p);
    if (rc < 0 || (fd < 0 && errno != ENOENT)) {
        return rc < 0 ? rc : apply_place_said(err, p->top);
    }
    if (fd < 0) {
        rc = make_top(p, err);
        fd = rc < 0 ? -1 : place_open_top(p);
        rc = rc < 0 || fd >= 0 ? rc : apply_place_said(err, p->top);
    }
    rc = rc < 0 ? rc : apply_place_check_folder(p, fd, p->top, err);
    rc = rc < 0 ? rc : settle_top(p, fd, err);
    if (rc < 0) {
        apply_place_close_fd(fd);
        return rc;
    }
    return fd;
}

/* A folder on its way out or one that never came in: removed, and the home's time put back. */
static int finish_passing(struct apply_place *p, const char *name, struct gm_err *err)
{
    int rc = apply_place_remove(p->home, name, err);
    return rc < 0 ? rc : restore_home(p, name + strlen(p->top) + strlen(".new."), err);
}

static bool is_passing(const char *name, void *top)
{
    return starts_with(name, top) && starts_with(name + strlen(top), ".new.");
}

static bool name_is_gone(const char *name, void *unused)
{
    (void)unused;
    return starts_with(name, "gone-");
}

static int sweep_passing(struct apply_place *p, struct gm_err *err)
{
    struct root_dir found;
    char *top = arena_strdup(p->arena, p->top);
    int rc = apply_place_names_in(p, p->home, &(struct root_filter){is_passing, top}, &found, err);
    for (size_t i = 0; rc == 0 && i < found.n; i++) {
        rc = finish_passing(p, found.names[i], err);
    }
    return rc;
}

/* Removes what is done with in the folder of journals; *ret_empty: nothing else is there. */
static int sweep_journals(struct apply_place *p, int top, bool *ret_empty, struct gm_err *err)
{
    struct root_dir found;
    int dir = openat(top, "journal", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0) {
        return apply_place_said(err, "journal");
    }
    int rc = apply_place_check_folder(p, dir, "journal", err);
    rc = rc < 0 ? rc
                : apply_place_names_in(p, dir, &(struct root_filter){.keep = name_is_gone}, &found,
                                       err);
    for (size_t i = 0; rc == 0 && i < found.n; i++) {
        rc = apply_place_remove(dir, found.names[i], err);
    }
    rc = rc < 0 ? rc : apply_place_names_in(p, dir, NULL, &found, err);
    *ret_empty = rc == 0 && found.n == 0;
    apply_place_close_fd(dir);
    return rc;
}

int apply_place_sweep(struct apply_place *p, struct gm_err *err)
{
    int rc = apply_place_check_folder(p, p->home, ".", err);
    rc = rc < 0 ? rc : sweep_passing(p, err);
    int top = rc < 0 ? -1 : place_open_top(p);
    if (rc < 0 || top < 0) {
        return rc < 0 || errno == ENOENT ? rc : apply_place_said(err, p->top);
    }
    bool empty = false;
    rc = apply_place_check_folder(p, top, p->top, err);
    rc = rc < 0 ? rc : settle_top(p, top, err);
    rc = rc < 0 ? rc : sweep_journals(p, top, &empty, err);
    apply_place_close_fd(top);
    if (rc < 0 || !empty) {
        return rc;
    }
    const char *passing = passing_name(p, err);
    if (!passing || renameat(p->home, p->top, p->home, passing) < 0) {
        return passing ? apply_place_said(err, p->top) : GM_ERR_LOOK;
    }
    return finish_passing(p, passing, err);
}
