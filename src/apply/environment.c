#include "apply/environment.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply/imports.h"
#include "base/child.h"
#include "base/env.h"
#include "base/folder.h"

enum { OUTPUT_BYTES_MAX = 1 << 16 };

/* What a journal is called: of a folder that the setup made, and of one that was there. */
#define WHAT_MADE "setup"
#define WHAT_INTO "setup-into"

/* ------------------------------------------------------------------ the commands */

/* The program that a command starts; NULL: there is none. */
static const char *program_of(const struct apply_environment *e, const struct apply_command *c)
{
    const char *name = c->words[0], *path = env_value(e->env, e->n_env, "PATH");
    if (strchr(name, '/')) {
        return name[0] == '/' ? name : NULL;
    }
    return path ? child_find(e->arena, path, name) : NULL;
}

/* Why the commands are not run; NULL: nothing is against it. One whose program another makes is
 * looked at when its turn comes. */
static const char *commands_objection(const struct apply_environment *e)
{
    for (size_t i = 0; i < e->n_commands; i++) {
        struct gm_err err;
        const char *name = e->commands[i].words[0], *program = program_of(e, &e->commands[i]);
        if (!program) {
            return arena_printf(e->arena, "%s is not installed", name);
        }
        if (!strchr(name, '/') && folder_safe_program(e->arena, program, &err) < 0) {
            return arena_strdup(e->arena, err.text);
        }
    }
    return NULL;
}

/* What a command that was not shown said last. */
static struct str last_line(struct str output)
{
    struct str line, last = STR("");
    while (str_line(&output, &line)) {
        last = str_trim(line).n ? str_trim(line) : last;
    }
    return last;
}

static int command_run(const struct apply_environment *e, const struct apply_command *command,
                       struct gm_err *err)
{
    struct child_end end;
    const struct child c = {.path = program_of(e, command),
                            .argv = command->words,
                            .env = apply_start_env(e->arena, e->env, e->n_env),
                            .n_env = e->n_env,
                            .show = !e->quiet,
                            .output_max_bytes = OUTPUT_BYTES_MAX};
    int rc = folder_safe_program(e->arena, c.path, err);
    rc = rc < 0 ? rc : child_run(e->arena, &c, &end, err);
    if (rc == 0 && end.status != 0) {
        struct str said = last_line(end.output);
        rc = gm_err_set(err, GM_ERR_LOOK, "%s ended with %s %d%s" STR_FMT, command->words[0],
                        end.signal ? "signal" : "status", end.signal ? end.signal : end.status,
                        said.n ? ": " : "", STR_ARG(said));
    }
    return rc;
}

static int commands_run(void *arg, struct gm_err *err)
{
    const struct apply_environment *e = arg;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < e->n_commands; i++) {
        rc = command_run(e, &e->commands[i], err);
    }
    return rc;
}

/* ------------------------------------------------------------------ the folder */

static int folder_said(const char *folder, struct gm_err *err)
{
    return gm_err_set(err, GM_ERR_LOOK, "%s: %s", folder, strerror(errno));
}

/* Removes a folder that a setup made, if nothing is in it. */
static void folder_remove(const char *folder)
{
    (void)rmdir(folder); // what others put there keeps it
}

/* The journal of the latest setup; *ret_made: it made the folder. 0: there is none. */
static int setup_journal(struct apply_place *p, unsigned *ret_id, bool *ret_made,
                         struct gm_err *err)
{
    struct apply_list list;
    int rc = apply_work_list(p, &list, err);
    *ret_id = 0;
    for (size_t i = 0; rc == 0 && i < list.items.n; i++) {
        const struct apply_listed *l = &list.items.items[i];
        bool made = !l->error && l->journal.begun && strcmp(l->journal.what, WHAT_MADE) == 0;
        bool into = !l->error && l->journal.begun && strcmp(l->journal.what, WHAT_INTO) == 0;
        if (made || into) {
            *ret_id = l->id;
            *ret_made = made;
        }
    }
    return rc;
}

/* What an earlier setup left half done is taken back, with the folder, if that made it. Another
 * folder stays as it is. */
static int folder_recover(const struct apply_environment *e, struct gm_err *err)
{
    struct apply_place place;
    unsigned id, count = 0;
    bool made = false;
    int rc = apply_place_open(&place, e->arena, e->root, e->folder, false, err);
    rc = rc < 0 ? rc : apply_place_lock(&place, err);
    rc = rc < 0 ? rc : setup_journal(&place, &id, &made, err);
    rc = rc < 0 ? rc : apply_work_recover(&place, &count, err);
    apply_place_close(&place);
    if (rc == 0 && count && made) {
        folder_remove(e->folder);
    }
    return rc;
}

/* Makes the folder of a new environment; *ret_made false: it is there, and empty. */
static int folder_make(const struct apply_environment *e, bool *ret_made, struct gm_err *err)
{
    struct root_dir found;
    struct stat st;
    *ret_made = false;
    if (stat(e->folder, &st) == 0 && S_ISDIR(st.st_mode)) {
        int rc = folder_recover(e, err);
        if (rc < 0) {
            return rc;
        }
    }
    *ret_made = mkdir(e->folder, 0755) == 0;
    if (*ret_made) {
        return 0;
    }
    if (errno != EEXIST) {
        return folder_said(e->folder, err);
    }
    int rc = root_list(e->root, e->arena, e->folder, 1, NULL, &found);
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", e->folder, strerror(-rc));
    }
    return found.n ? gm_err_set(err, GM_ERR_UNSUPPORTED,
                                "%s is there and not empty: name another folder with --into, or, "
                                "if it is an environment to be changed, with --env",
                                e->folder)
                   : 0;
}

/* ------------------------------------------------------------------ from beginning to end */

static void environment_roll_back(const struct apply_environment *e, struct apply_session *s,
                                  struct gm_err *err)
{
    struct gm_err again;
    unsigned count;
    apply_work_close(&s->work);
    if (apply_work_recover(&s->place, &count, &again) < 0) {
        struct gm_err first = *err;
        if (s->place.n_lost) {
            (void)gm_err_set(err, first.code, "%.250s; %.250s", first.text, again.text);
            return;
        }
        (void)gm_err_set(err, first.code,
                         "%.120s; taking back what was done so far failed too (%.100s): it is "
                         "finished by gpumend setup --undo --into %s",
                         first.text, again.text, e->folder);
    }
}

static int environment_fill(const struct apply_environment *e, const char *what,
                            struct apply_session *ret, struct gm_err *err)
{
    unsigned recovered;
    int rc = apply_place_open(&ret->place, e->arena, e->root, e->folder, false, err);
    rc = rc < 0 ? rc : apply_place_lock(&ret->place, err);
    rc = rc < 0 ? rc : apply_work_recover(&ret->place, &recovered, err);
    if (rc < 0 || recovered) { // the plan was made of another tree
        return rc < 0 ? rc : gm_err_set(err, GM_ERR_LOOK, "the files have changed; try again");
    }
    rc = apply_work_begin(&ret->work, &ret->place, what, e->title, err);
    ret->id = ret->work.journal.id;
    rc = rc < 0 ? rc : apply_work_run(&ret->work, commands_run, (void *)e, err);
    rc = rc < 0 ? rc : apply_work_finish(&ret->work, err);
    if (rc < 0) {
        environment_roll_back(e, ret, err);
    }
    return rc;
}

int apply_environment_make(const struct apply_environment *e, struct apply_session *ret,
                           struct gm_err *err)
{
    bool made = false;
    *ret = (struct apply_session){.place = APPLY_PLACE_EMPTY, .work = APPLY_WORK_EMPTY};
    const char *why = commands_objection(e);
    int rc = why ? gm_err_set(err, GM_ERR_UNSUPPORTED, "%s", why) : 0;
    rc = rc < 0 || e->is_there ? rc : folder_make(e, &made, err);
    rc = rc < 0 ? rc : environment_fill(e, made ? WHAT_MADE : WHAT_INTO, ret, err);
    if (rc < 0 && made) {
        folder_remove(e->folder);
    }
    return rc;
}

/* ------------------------------------------------------------------ taking back */

int apply_environment_undo(struct arena *a, struct root *root, const char *folder, unsigned *ret_id,
                           struct gm_err *err)
{
    struct apply_place place;
    unsigned setup = 0, id = 0;
    bool made = false;
    *ret_id = 0;
    int rc = apply_place_open(&place, a, root, folder, false, err);
    rc = rc < 0 ? rc : apply_place_lock(&place, err);
    rc = rc < 0 ? rc : setup_journal(&place, &setup, &made, err);
    bool more = setup != 0;
    while (rc == 0 && more) { // what was changed since goes first
        rc = apply_work_undo(&place, 0, &id, err);
        more = id && id != setup;
    }
    *ret_id = rc < 0 ? 0 : setup;
    apply_place_close(&place);
    if (rc == 0 && made) {
        folder_remove(folder);
    }
    return rc;
}
