#include "cli/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/root.h"
#include "base/str.h"
#include "cli/slurm.h"
#include "node/users.h"

/* States of a job that has its node (squeue(1), "JOB STATE CODES"). */
#define STATES "CONFIGURING,RUNNING,COMPLETING,SUSPENDED,STOPPED,SIGNALING,STAGE_OUT,RESIZING"

/* ------------------------------------------------------------------ Slurm */

static bool is_own_job(struct str id)
{
    const char *context = getenv("SLURM_SCRIPT_CONTEXT"), *job = getenv("SLURM_JOB_ID");
    return context && strcmp(context, "prolog_slurmd") == 0 && job && str_is(id, job);
}

/* Each line is the number of a job; a line that is none (a warning) tells nothing. */
static const char *other_job(struct arena *a, struct str text)
{
    struct str line;
    while (str_line(&text, &line)) {
        struct str id = str_trim(line);
        uint64_t number;
        if (!id.n || is_own_job(id)) {
            continue;
        }
        return str_u64(id, &number)
                   ? arena_printf(a, "Slurm's job %llu is on this node", (unsigned long long)number)
                   : "what squeue prints is not understood";
    }
    return NULL;
}

static const char *slurm_jobs(struct arena *a, const char *node)
{
    const char *const argv[] = {"squeue",      "--noheader",
                                "--all",       "--states=" STATES,
                                "--format=%A", arena_printf(a, "--nodelist=%s", node),
                                NULL};
    struct str text;
    struct gm_err err;
    int rc = *node ? cli_slurm_ask(a, argv, &text, &err)
                   : gm_err_set(&err, GM_ERR_LOOK, "the node has no name");
    return rc < 0 ? arena_printf(a, "Slurm's jobs cannot be determined: %s", err.text)
                  : other_job(a, text);
}

/* ------------------------------------------------------------------ both */

static const char *look_at_users(struct arena *a, pid_t ours, bool *ret_slurmd)
{
    struct root r = ROOT_EMPTY;
    struct gm_err err;
    struct node_users users;
    if (root_open(&r, "/", &err) < 0) {
        return "the processes of this machine cannot be listed";
    }
    node_users(&r, a, ours, &users);
    root_close(&r);
    *ret_slurmd = users.has_slurmd;
    return users.use == NODE_FREE ? NULL : users.says;
}

const char *cli_jobs_of_others(struct arena *a, const char *node)
{
    bool has_slurmd = false;
    const char *why = look_at_users(a, 0, &has_slurmd);
    const char *by_slurm = getenv("SLURMD_NODENAME");
    if (why) {
        return why;
    }
    return has_slurmd || (by_slurm && *by_slurm) ? slurm_jobs(a, node) : NULL;
}

const char *cli_jobs_at_gpu(struct arena *a, pid_t ours)
{
    bool unused;
    return look_at_users(a, ours, &unused);
}
