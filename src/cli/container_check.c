/* A look at an image, repeated until all that it asked is read; and `container check`, which judges
 * what it saw. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pages.h"
#include "base/str.h"
#include "cli/container.h"
#include "cli/limit.h"
#include "cli/paste.h"
#include "cli/target.h"
#include "image/image.h"
#include "diag/finding.h"
#include "host/host.h"
#include "ldso/cpu.h"
#include "launch/program.h"
#include "report/check.h"

enum { PASSES_MAX = 24, PROGRESS_AFTER_MS = 500, PROGRESS_EACH_MS = 100 };

/* What engines set where the image does not (moby, oci/defaults.go). */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ------------------------------------------------------------------ progress */

struct progress {
    bool shown;   // somebody may look at it
    bool drawn;   // the line is on the terminal
    int64_t next; // ms of the monotonic clock: nothing is drawn before
};

static void begin_progress(struct progress *p, bool json)
{
    p->shown = isatty(STDERR_FILENO) && (!json || isatty(STDOUT_FILENO));
    p->drawn = false;
    p->next = clock_ms() + PROGRESS_AFTER_MS;
}

static void show_progress(void *arg, uint64_t done, uint64_t size)
{
    struct progress *p = arg;
    int64_t now = p->shown && size ? clock_ms() : 0;
    if (now > p->next) {
        p->next = now + PROGRESS_EACH_MS;
        p->drawn = true;
        fprintf(stderr, "\rreading the image: %3u %%\033[K",
                (unsigned)((double)done / (double)size * 100));
    }
}

static void end_progress(struct progress *p)
{
    if (p->drawn) {
        fputs("\r\033[K", stderr);
    }
    p->drawn = false;
}

/* ------------------------------------------------------------------ words */

static const char *joined_texts(struct arena *a, const image_texts *first,
                                const image_texts *second)
{
    const char *text = "";
    for (size_t i = 0; i < first->n + second->n; i++) {
        const char *word = i < first->n ? first->items[i] : second->items[i - first->n];
        text = arena_printf(a, "%s%s%s", text, i ? " " : "", diag_shell_word(a, word));
    }
    return text;
}

/* Layers that were not verified, each with its reason. */
static json_t *unverified_json(struct arena *a, const struct image *im)
{
    json_t *list = json_array();
    for (size_t i = 0; i < im->unverified.n; i++) {
        const struct image_unverified *u = &im->unverified.items[i];
        (void)json_array_append_new(list, json_pack("{s:I, s:o}", "layer", (json_int_t)u->number,
                                                    "why", out_json_text(a, u->why)));
    }
    return list;
}

/* All of them in one sentence, those of one reason together; NULL: there are none. */
static const char *unverified_note(struct arena *a, const struct image *im)
{
    const char *text = NULL;
    for (size_t i = 0; i < im->unverified.n; i++) {
        const struct image_unverified *u = &im->unverified.items[i];
        bool same = i && strcmp(u->why, im->unverified.items[i - 1].why) == 0;
        const char *before = i == 0 ? ""
                             : same ? text
                                    : arena_printf(a, "%s (%s)", text, u[-1].why);
        text = arena_printf(a, "%s%s%zu", before, i ? ", " : "", u->number);
    }
    return text ? arena_printf(a,
                               "the contents of these of the image's %zu layers were not "
                               "verified: %s (%s)",
                               im->layers.places.n, text,
                               im->unverified.items[im->unverified.n - 1].why)
                : NULL;
}

static json_t *image_json(struct arena *a, const struct image *im)
{
    json_t *env = json_array();
    for (size_t i = 0; i < im->env.n; i++) {
        (void)json_array_append_new(env, out_json_text(a, im->env.items[i]));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o}", "name",
                     out_json_text(a, im->name), "architecture", out_json_text(a, im->architecture),
                     "starts", out_json_text(a, joined_texts(a, &im->entrypoint, &im->command)),
                     "user", out_json_text(a, im->user), "environment", env, "layers",
                     (json_int_t)im->layers.places.n, "files", (json_int_t)im->layers.n, "left_out",
                     (json_int_t)im->layers.n_refused, "outside", (json_int_t)im->layers.n_outside,
                     "unverified", unverified_json(a, im));
}

static const char *shown(struct arena *a, const char *text, const char *after)
{
    return text ? arena_printf(a, "%s%s", str_printable(a, text), after) : "";
}

static void print_image(const struct out *o, struct arena *a, const struct image *im)
{
    size_t n = im->layers.places.n;
    out_print(o, OUT_DIM, "image     ");
    out_print(o, OUT_PLAIN, "%s%s%zu layer%s, %zu files\n", shown(a, im->name, ", "),
              shown(a, im->architecture, ", "), n, n == 1 ? "" : "s", im->layers.n);
    if (im->entrypoint.n + im->command.n) {
        const char *words = joined_texts(a, &im->entrypoint, &im->command);
        out_print(o, OUT_DIM, "starts    ");
        out_print(o, OUT_PLAIN, "%s%s%s\n", str_printable(a, words), im->user ? " as " : "",
                  shown(a, im->user, ""));
    }
    if (im->layers.n_outside) {
        out_print(o, OUT_DIM, "outside   ");
        out_print(o, OUT_PLAIN, "%zu entries name a place outside the image and end inside it\n",
                  im->layers.n_outside);
    }
}

/* ------------------------------------------------------------------ one look */

struct work {
    struct container_seen seen;
    const struct cli_container_image *asked;
    const char *assumed; // about the platform, or NULL
    const struct container_use *use;
    void *arg;
};

/* What the image starts with, found out in its own files. */
struct entry {
    const char *missing, *missing_for; // as in launch_program, where the start fails for it
    const char *refused;               // why it cannot be executed, a sentence; or NULL
    struct launch_program program;     // file NULL: not known
};

/* A script that the image itself does not have is often mounted. */
static void note_absent_script(struct root *r, struct arena *a, int rc, struct launch_program *p)
{
    struct stat st;
    if (rc == 0 && p->script && !p->unseen && root_stat(r, p->script, &st) == -ENOENT) {
        p->unseen = arena_printf(a, "%s is not in the image (a volume may provide it)", p->script);
    }
}

static struct entry image_entry(struct container_seen *w, struct arena *a)
{
    struct entry e = {0};
    struct root root = ROOT_EMPTY;
    VEC(const char *) words = {0};
    if (!w->image || w->image->entrypoint.n + w->image->command.n == 0) {
        return e;
    }
    for (size_t i = 0; i < w->image->entrypoint.n; i++) {
        VEC_PUSH(a, &words, w->image->entrypoint.items[i]);
    }
    for (size_t i = 0; i < w->image->command.n; i++) {
        VEC_PUSH(a, &words, w->image->command.items[i]);
    }
    const char *path = cli_env_get(&w->t->env, "PATH");
    const char *cwd = w->image->folder ? w->image->folder : "/";
    struct launch_command c = {words.items, words.n,         path ? path : DEFAULT_PATH,
                               cwd,         w->t->asked.env, w->t->asked.n_env};
    root_replay(&root, w->t->asked.replay, w->t->asked.root_path);
    int rc = launch_program_find(&root, a, &c, &e.program);
    note_absent_script(&root, a, rc, &e.program);
    root_close(&root);
    e.missing = rc == -ENOENT ? e.program.absent : NULL;
    e.missing_for = rc == -ENOENT ? e.program.absent_for : NULL;
    e.refused = rc < 0 && rc != -ENOENT
                    ? arena_printf(a, "what the image starts cannot be executed: %s: %s",
                                   words.items[0], strerror(-rc))
                    : NULL;
    e.program = rc < 0 ? (struct launch_program){0} : e.program;
    return e;
}

/* Without a TARGET: the Python that the image starts; where it has none, the program. */
static int image_open_target(struct container_seen *w, struct arena *a, struct gm_err *err)
{
    struct model_target_options o = w->t->asked;
    struct entry e = image_entry(w, a);
    bool free = !o.target && e.program.file, python = free && e.program.kind == LAUNCH_PYTHON;
    o.target = python ? e.program.python : o.target;
    o.entry_known = free && !e.program.unseen;
    if (free) {
        o.cwd = e.program.cwd ? e.program.cwd : w->image->folder ? w->image->folder : "/";
        launch_program_env(a, &e.program, w->t->asked.env, w->t->asked.n_env, &o.env, &o.n_env);
    }
    int rc = model_target_open(&w->target, a, &o, err);
    bool elf = free && e.program.kind == LAUNCH_ELF && rc == 0 && !w->target.model.known.n;
    if (elf || (rc < 0 && python)) {
        model_target_close(&w->target);
        o.target = elf ? e.program.elf : NULL;
        o.entry_known = elf;
        rc = model_target_open(&w->target, a, &o, err);
    }
    struct model *m = &w->target.model;
    if (rc == 0 && free && e.program.unseen) {
        const char *note =
            arena_printf(a, "what the image starts is not known: %s", e.program.unseen);
        if (m->known.n || m->unsure) {
            VEC_PUSH(a, &m->notes, note);
        } else {
            m->unsure = note;
        }
    }
    m->unsure = rc == 0 && e.refused ? e.refused : m->unsure;
    w->shown.path = o.target;
    m->entry_missing = e.missing;
    m->entry_missing_for = e.missing_for;
    m->entry_first = w->t->asked.target ? NULL : e.program.first;
    m->image_refused = w->image ? w->image->layers.refused : NULL;
    return rc;
}

/* What the report reads is asked as well, so that the last pass holds it. */
static int image_look(struct work *w, struct arena *a, struct gm_err *err)
{
    struct container_seen *s = &w->seen;
    int rc = image_open_target(s, a, err);
    if (rc == 0 && w->assumed && s->image && s->image->n_platforms > 1) {
        VEC_PUSH(a, &s->target.model.notes, w->assumed);
    }
    const char *unverified = s->image ? unverified_note(a, s->image) : NULL;
    if (rc == 0 && unverified) {
        VEC_PUSH(a, &s->target.model.notes, unverified);
    }
    if (rc == 0) {
        s->shown.kind = s->target.kind;
        s->target.model.for_cpu = w->asked->for_cpu;
        diag_run(&s->target.model, &s->report);
        w->use->judge(w->arg, s);
    }
    return rc;
}

static int fail(struct arena *a, const struct gm_err *err)
{
    return cli_fail(CLI_CANNOT, "container: %s", str_printable(a, err->text));
}

/* One look at what is held of the image; *ret_more: it lacked something, which was then fetched. */
static int look_once(struct work *w, struct image *im, struct progress *p, bool *ret_more)
{
    struct gm_err err;
    struct arena a;
    int status = CLI_CANNOT;
    cli_arena_init(&a);
    w->seen.arena = &a;
    int rc = image_look(w, &a, &err);
    *ret_more = image_layers_want_more(&im->layers);
    if (!*ret_more) {
        end_progress(p);
        status = rc == 0 ? w->use->print(w->arg, &w->seen) : fail(&a, &err);
    }
    model_target_close(&w->seen.target);
    pages_stop();
    if (*ret_more && image_layers_fetch(&im->layers, &err) < 0) {
        end_progress(p);
        status = fail(&a, &err);
        *ret_more = false;
    }
    w->seen.arena = NULL;
    arena_release(&a);
    return status;
}

static int look_at_image(struct work *w, struct image *im, struct progress *p)
{
    bool more = true;
    int status = CLI_CANNOT;
    for (int pass = 0; pass < PASSES_MAX && more; pass++) {
        status = look_once(w, im, p, &more);
    }
    end_progress(p);
    return more ? cli_fail(CLI_CANNOT,
                           "container: the image was read %d times, and more of it is "
                           "wanted",
                           PASSES_MAX)
                : status;
}

/* Whether --env or --unset names the variable. */
static bool is_given(const struct cli_target *t, const char *key)
{
    for (size_t i = 0; i < t->given.n; i++) {
        struct str rest = str_of(t->given.items[i]);
        if (str_is(str_cut(&rest, '='), key)) {
            return true;
        }
    }
    return false;
}

/* What the image's configuration sets, less what the command line says. */
static void take_environment(struct cli_target *t, const struct image *im)
{
    for (size_t i = 0; i < im->env.n; i++) {
        struct str rest = str_of(im->env.items[i]), name = str_cut(&rest, '=');
        const char *key = str_dup(&t->arena, name);
        if (!is_given(t, key) && (!cli_env_get(&t->env, key) || strcmp(key, "PATH") == 0)) {
            (void)cli_env_set(&t->env, &t->arena, im->env.items[i]); // without '=' it is none
        }
    }
    t->asked.env = t->env.vars.items;
    t->asked.n_env = t->env.vars.n;
}

/* In the storage of the host that it will run on, else in this machine's. Where it is in neither,
 * the host's says why. */
static int open_stored(struct cli_target *t, struct image *im, const struct image_wish *wish,
                       struct root *host, struct gm_err *err)
{
    const char *const roots[] = {t->asked.host_path, "/"};
    size_t n = strcmp(roots[0], roots[1]) == 0 ? 1 : 2;
    struct gm_err first = {0};
    int rc = -1;
    for (size_t i = 0; i < n && rc < 0 && (i == 0 || err->code == GM_ERR_LOOK); i++) {
        first = i ? *err : first;
        image_close(im);
        root_close(host);
        rc = root_open(host, roots[i], err);
        rc = rc < 0 ? rc : image_open_stored(im, &t->arena, host, getenv("HOME"), wish, err);
    }
    if (rc < 0 && n == 2 && err->code == GM_ERR_LOOK) {
        *err = first;
    }
    return rc;
}

/* What the user says; else what the host's own files say; else this machine's. */
static int choose_platform(struct work *w, struct image_wish *ret, struct gm_err *err)
{
    struct cli_target *t = w->seen.t;
    struct root host = ROOT_EMPTY;
    if (w->asked->platform) {
        ret->platform_given = true;
        return image_platform_parse(&t->arena, w->asked->platform, &ret->platform, err);
    }
    int rc = root_open(&host, t->asked.host_path, err);
    uint16_t machine = rc == 0 ? host_machine(&host, &t->arena) : EM_NONE;
    root_close(&host);
    ret->platform = image_platform_of(machine ? machine : ldso_cpu_own_machine());
    if (!machine) {
        w->assumed =
            arena_printf(&t->arena,
                         "the host's processor is not known: of an image for several platforms "
                         "the one for %s is taken, as this machine would",
                         image_platform_text(&t->arena, &ret->platform));
    }
    return rc;
}

static int open_image(struct work *w, struct image *im, struct root *host, struct progress *p,
                      struct gm_err *err)
{
    struct cli_target *t = w->seen.t;
    struct stat st;
    struct image_wish wish = {
        .no_verify = w->asked->no_verify, .progress = show_progress, .progress_arg = p};
    int rc = choose_platform(w, &wish, err);
    if (rc < 0) {
        return rc;
    }
    wish.path = image_split(&t->arena, w->asked->given, &wish.name);
    if (stat(wish.path, &st) == 0 || wish.path[0] == '/') {
        return image_open(im, &t->arena, &wish, err);
    }
    rc = open_stored(t, im, &wish, host, err);
    return rc < 0 ? rc : image_check_platform(im, &wish, err);
}

static int look_into_image(struct work *w)
{
    struct cli_target *t = w->seen.t;
    struct progress p;
    struct image im = IMAGE_EMPTY;
    struct root host = ROOT_EMPTY;
    struct gm_err err;
    int status;
    begin_progress(&p, t->json);
    if (open_image(w, &im, &host, &p, &err) < 0) {
        end_progress(&p);
        status =
            cli_fail(err.code == GM_ERR_USAGE ? CLI_USAGE : CLI_CANNOT, "container: %s: %s",
                     str_printable(&t->arena, w->asked->given), str_printable(&t->arena, err.text));
    } else {
        take_environment(t, &im);
        w->seen.image = &im;
        t->asked.replay = &im.layers.snap;
        status = look_at_image(w, &im, &p);
    }
    image_close(&im);
    root_close(&host);
    return status;
}

static int look_into_folder(struct work *w)
{
    struct gm_err err;
    struct arena *a = &w->seen.t->arena;
    int status = image_look(w, a, &err) == 0 ? w->use->print(w->arg, &w->seen) : fail(a, &err);
    model_target_close(&w->seen.target);
    return status;
}

/* How the lines that repair an image are asked for, as it was asked about here; NULL: no image. */
static const char *lines_command(struct cli_target *t, const struct cli_container_image *image)
{
    const char *options = cli_target_options(t), *blank = *options ? " " : "";
    const char *target = t->asked.target ? str_shell_word(&t->arena, t->asked.target) : "";
    return image->given ? arena_printf(&t->arena, "gpumend container dockerfile %s%s%s%s%s",
                                       str_shell_word(&t->arena, image->given), *target ? " " : "",
                                       target, blank, options)
                        : NULL;
}

int cli_container_look(struct cli_target *t, const struct cli_container_image *image,
                       const struct container_use *use, void *arg)
{
    struct work *w = arena_alloc(&t->arena, sizeof *w);
    w->asked = image;
    w->use = use;
    w->arg = arg;
    w->seen.t = t;
    w->seen.shown = (struct report_target){
        .path = t->asked.target, .root = image->given, .lines = lines_command(t, image)};
    t->asked.host_path = t->asked.host_path ? t->asked.host_path : "/";
    if (!image->given) {
        w->seen.shown.root = t->asked.root_path;
        return look_into_folder(w);
    }
    cli_target_leave_shell(t);
    t->asked.root_path = image->given;
    return image_is(image->given) ? look_into_image(w) : look_into_folder(w);
}

/* ------------------------------------------------------------------ the check */

/* What the report reads is read in every pass. */
static void image_judge(void *arg, struct container_seen *s)
{
    const bool *report = arg;
    if (*report) {
        (void)cli_paste(NULL, &s->target, &s->report, &s->shown); // image_print() does it again
        return;
    }
    json_decref(report_check_json(&s->target.model, &s->report, &s->shown));
}

static int image_print(void *arg, struct container_seen *s)
{
    static const enum cli_status status[] = {
        [DIAG_OK] = CLI_OK, [DIAG_BROKEN] = CLI_FINDINGS, [DIAG_CANNOT_TELL] = CLI_CANNOT};
    struct arena *a = s->target.model.arena;
    const bool *report = arg;
    if (*report) {
        int rc = cli_paste(stdout, &s->target, &s->report, &s->shown);
        if (rc != CLI_OK) {
            return rc;
        }
    } else if (s->t->json) {
        json_t *doc = report_check_json(&s->target.model, &s->report, &s->shown);
        if (s->image) {
            (void)json_object_set_new(doc, "image", image_json(a, s->image));
        }
        if (out_json_dump(stdout, doc) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        struct out out;
        out_init(&out, stdout);
        if (s->image) {
            print_image(&out, a, s->image);
        }
        if (s->t->verbose) {
            report_check_text(&out, &s->target.model, &s->report, &s->shown);
        } else {
            report_check_brief(&out, &s->target.model, &s->report, &s->shown, NULL);
        }
    }
    return status[s->report.verdict];
}

int cli_container_check(struct cli_target *t, const struct cli_container_image *image, bool report)
{
    static const struct container_use use = {.judge = image_judge, .print = image_print};
    return cli_container_look(t, image, &use, &report);
}
