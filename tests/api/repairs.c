/*
 * gm_fix, gm_enable, gm_undo and gm_disable, as a program calls them that has a life of its own.
 *
 *     repairs FUNCTION TARGET [NUMBER] [packages] [ignored]
 *
 * NUMBER is a way of gm_plan() or a journal. With "ignored" the program has SIGCHLD ignored, as
 * servers do that never wait. Prints the answer as lines "KEY VALUE"; the status is 1 if a child, a
 * descriptor or a changed handler is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <gpumend.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static int descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static const char *shown(const char *text)
{
    return text ? text : "-";
}

static int repair(gm_context *gm, const char *function, const struct gm_target *target,
                  const struct gm_fix_options *options)
{
    struct gm_repaired done;
    int rc = strcmp(function, "fix") == 0 ? gm_fix(gm, target, options, &done)
                                          : gm_enable(gm, target, &done);
    printf("result %d\ntitle %s\nwhy %s\njournal %u\nrecovered %u\nrequests %zu\n", done.result,
           shown(done.title), shown(done.why), done.journal, done.n_recovered, done.n_requests);
    for (size_t i = 0; i < done.n_left; i++) {
        printf("left %s\n", done.left[i]);
    }
    for (size_t i = 0; i < done.n_start; i++) {
        printf("start %s\n", done.start[i]);
    }
    return rc;
}

static int take_back(gm_context *gm, const char *function, const struct gm_target *target,
                     const struct gm_undo_options *options)
{
    struct gm_undone done;
    int rc = strcmp(function, "undo") == 0 ? gm_undo(gm, target, options, &done)
                                           : gm_disable(gm, target, &done);
    printf("journal %u\nhook_removed %d\n", done.journal, done.hook_removed);
    return rc;
}

int main(int argc, char **argv)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    if (argc < 3) {
        return 2;
    }
    const char *function = argv[1];
    struct gm_target target;
    struct gm_fix_options fix;
    struct gm_undo_options undo;
    memset(&target, 0, sizeof target);
    memset(&fix, 0, sizeof fix);
    memset(&undo, 0, sizeof undo);
    target.size = sizeof target;
    target.path = argv[2];
    target.env = env;
    target.cwd = "/";
    fix.size = sizeof fix;
    undo.size = sizeof undo;
    int ignored = 0;
    for (int i = 3; i < argc; i++) {
        ignored |= strcmp(argv[i], "ignored") == 0;
        fix.packages |= strcmp(argv[i], "packages") == 0;
        if (argv[i][0] >= '0' && argv[i][0] <= '9') {
            fix.select = undo.journal = (unsigned)strtoul(argv[i], NULL, 10);
        }
    }
    if (ignored) {
        (void)signal(SIGCHLD, SIG_IGN);
    }
    int open_before = descriptors();
    gm_context *gm = gm_new();
    int acts = strcmp(function, "fix") == 0 || strcmp(function, "enable") == 0;
    int rc = acts ? repair(gm, function, &target, &fix) : take_back(gm, function, &target, &undo);
    printf("status %d\nerror %s\n", rc, gm_error(gm));
    gm_free(gm);
    int children = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
    int handler = signal(SIGCHLD, SIG_DFL) != (ignored ? SIG_IGN : SIG_DFL);
    if (children || handler || descriptors() != open_before) {
        printf("left behind: %d %d %d\n", children, handler, descriptors() - open_before);
        return 1;
    }
    return 0;
}
