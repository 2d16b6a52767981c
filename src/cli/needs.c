/* What a target needs of a node, and whether it runs on nodes that are at hand as files: those are
 * answered by a whole check with that node's facts. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/pages.h"
#include "base/str.h"
#include "cdi/files.h"
#include "cli/container.h"
#include "cli/limit.h"
#include "cli/target.h"
#include "image/image.h"
#include "needs/needs.h"
#include "snapshot/snapshot.h"

enum { O_ON = 1, O_AS, O_MODEL, O_COMPUTE, O_FEATURES, O_PLATFORM, O_NO_VERIFY };
enum { SNAPSHOT_BYTES_MAX = 256 << 20 };

static const struct cli_option options[] = {
    {"on", "NODE", "whether it runs there: a node's file system, or its snapshot; again for more",
     O_ON},
    {"as", "FORM",
     "print an expression: nfd, cel, require-cuda, slurm, slurm-extra or wheel-variant", O_AS},
    {"features", "LIST",
     "slurm: leave out alternatives that no node has; LIST is what sinfo prints for %f",
     O_FEATURES},
    {"model", "NAME",
     "also the memory of a GPU that this model takes: whisper:large-v3, turbo, ...", O_MODEL},
    {"compute", "TYPE", "with --model: in float16, float32, int8_float16 or int8_float32",
     O_COMPUTE},
    CLI_OPTION_IMPORT,
    CLI_OPTION_ROOT,
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    CLI_OPTION_KB,
    {"platform", "OS/ARCH", "the platform of a multi-platform image (default: the host's)",
     O_PLATFORM},
    {"no-verify", NULL, "do not check the digests of an archive's or layout's files", O_NO_VERIFY},
    CLI_OPTION_LIMIT_LARGE,
    CLI_OPTION_JSON,
};

enum answer { RUNS, RUNS_NOT, CANNOT_TELL };

struct on_node {
    const char *node;
    enum answer answer;
    const char *cause; // of RUNS_NOT
    const char *says;  // or NULL
};

struct needs_command {
    struct cli_target t;
    const char *words[2];
    size_t n_words;
    struct cli_container_image image;
    enum needs_form form;   // NEEDS_FORMS: none
    const char *features;   // of the cluster's nodes, or NULL
    const char *model_name; // or NULL
    bool compute_given;
    enum choose_compute compute;
    struct gm_err model_err; // of an image, whose model is asked about in a callback
    int model_rc;
    VEC(const char *) nodes;
    /* What is found out. */
    struct needs needs;
    bool found;
    VEC(struct on_node) answers;
    struct on_node *asked_node; // of an image that is looked at now
    VEC(struct arena) kept;     // of the images, until all is printed
};

/* ------------------------------------------------------------------ one node */

/* A check is also "ok" where a program would compute on the CPU; a job that asks for a GPU has no
 * use for such a node. */
static void answer_for_gpus(const struct needs *n, struct model *m, struct on_node *ret)
{
    bool found = !n->nvidia && !n->amd;
    enum host_state fits = found ? HOST_YES : HOST_NO;
    for (size_t i = 0; m->host && i < m->host->gpus.n; i++) {
        const struct host_gpu *g = &m->host->gpus.items[i];
        if (needs_gpu_serves(n, g)) {
            enum host_state one = needs_memory_fits(m, n, g);
            found = true;
            fits = one == HOST_YES || fits == HOST_YES ? HOST_YES
                   : one == HOST_UNKNOWN               ? one
                                                       : fits;
        }
    }
    if (ret->answer == RUNS && found && fits == HOST_NO) {
        ret->answer = RUNS_NOT;
        ret->cause = "too-small";
        ret->says = arena_printf(
            m->arena, "%s takes %s of a GPU (%s), and none of the node's has that", n->memory.model,
            choose_gib(m->arena, n->memory.need.bytes), choose_memory_name(n->memory.need.how));
    } else if (ret->answer == RUNS && found && fits == HOST_UNKNOWN) {
        ret->answer = CANNOT_TELL;
        ret->says = "how much memory its GPUs have is unknown";
    }
    if (ret->answer == RUNS && n->memory.model && !n->memory.need.bytes) {
        ret->answer = CANNOT_TELL;
        ret->says = arena_printf(m->arena, "how much memory %s takes is unknown", n->memory.model);
    }
    if (ret->answer == RUNS && !found) {
        ret->answer = RUNS_NOT;
        ret->cause = "no-gpu";
        ret->says = "the node has no GPU that can be used and that it has code for";
    }
}

static void answer_of_report(const struct needs *n, struct model *m, const struct diag_report *r,
                             struct on_node *ret)
{
    static const enum answer answers[] = {
        [DIAG_OK] = RUNS, [DIAG_BROKEN] = RUNS_NOT, [DIAG_CANNOT_TELL] = CANNOT_TELL};
    const struct diag_finding *first = r->findings.n ? r->findings.items[0] : NULL;
    ret->answer = answers[r->verdict];
    ret->cause = NULL;
    ret->says = NULL;
    if (ret->answer == RUNS_NOT && first) {
        ret->cause = diag_causes[first->cause].id;
        ret->says = first->summary;
    } else if (ret->answer == CANNOT_TELL) {
        ret->says = r->notes.n ? r->notes.items[0] : "something that decides could not be seen";
    }
    if (!m->host) { // without its facts nothing can be said of the node
        ret->answer = CANNOT_TELL;
        ret->cause = NULL;
        ret->says = m->host_why;
    }
    answer_for_gpus(n, m, ret);
}

static int read_whole(struct arena *a, const char *path, struct str *ret)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO may have no writer
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file || fstat(fileno(file), &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_size > SNAPSHOT_BYTES_MAX) {
        if (file) {
            (void)fclose(file); // was only read
        }
        return -1;
    }
    char *text = arena_alloc(a, (size_t)st.st_size + 1);
    size_t n = fread(text, 1, (size_t)st.st_size, file);
    (void)fclose(file); // was only read
    *ret = (struct str){text, n};
    return 0;
}

/* The node's facts out of a folder or a snapshot; NULL, or why there are none. */
static const char *open_node(struct arena *a, const char *path, struct model_target_options *o)
{
    struct stat st;
    struct str text;
    struct gm_err err;
    struct snapshot *s = arena_alloc(a, sizeof *s);
    if (stat(path, &st) < 0) {
        return strerror(errno);
    }
    o->host_path = path;
    if (S_ISDIR(st.st_mode)) {
        return NULL;
    }
    if (read_whole(a, path, &text) < 0) {
        return "it cannot be read";
    }
    if (snapshot_decode(s, a, text.s, text.n, &err) < 0) {
        return arena_strdup(a, err.text);
    }
    if (s->files.misses.n) {
        return "the snapshot is incomplete";
    }
    o->host_path = s->root ? s->root : "/"; // of a tree: it states its device nodes itself
    o->host_replay = &s->files;
    return NULL;
}

static void answer_target(struct needs_command *c, struct on_node *ret)
{
    struct arena *a = &c->t.arena;
    struct model_target t;
    struct diag_report r;
    struct gm_err err;
    struct model_target_options o = c->t.asked;
    const char *why = open_node(a, ret->node, &o);
    int rc = why ? -1 : model_target_open(&t, a, &o, &err);
    if (rc == 0) {
        diag_run(&t.model, &r);
        answer_of_report(&c->needs, &t.model, &r, ret);
        if (o.host_replay && o.host_replay->misses.n && ret->answer == RUNS) {
            ret->answer = CANNOT_TELL;
            ret->says = "the snapshot does not hold all that this gpumend asks of a node";
        }
    } else {
        *ret = (struct on_node){.node = ret->node,
                                .answer = CANNOT_TELL,
                                .says = why ? why : arena_strdup(a, err.text)};
    }
    if (!why) {
        model_target_close(&t);
    }
}

/* ------------------------------------------------------------------ looking */

static int add_model(struct needs_command *c, struct model *m, struct gm_err *err)
{
    return c->model_name ? needs_add_model(m, c->model_name, c->compute_given ? &c->compute : NULL,
                                           &c->needs, err)
                         : 0;
}

static int look_at_target(struct needs_command *c)
{
    struct model_target t;
    struct gm_err err;
    int rc = model_target_open(&t, &c->t.arena, &c->t.asked, &err);
    if (rc == 0 && !t.model.processes.n) {
        rc = gm_err_set(&err, GM_ERR_LOOK,
                        "no program of the target is known to use a GPU; name it with --import");
    }
    if (rc == 0) {
        needs_find(&t.model, false, &c->needs);
        c->found = true;
        rc = add_model(c, &t.model, &err);
    }
    model_target_close(&t);
    if (rc < 0) {
        return cli_fail(rc == GM_ERR_USAGE ? CLI_USAGE : CLI_CANNOT, "needs: %s",
                        str_printable(&c->t.arena, err.text));
    }
    for (size_t i = 0; i < c->nodes.n; i++) {
        struct on_node one = {.node = c->nodes.items[i]};
        answer_target(c, &one);
        VEC_PUSH(&c->t.arena, &c->answers, one);
    }
    return CLI_OK;
}

/* Called in each pass over an image: all of it is read in the last one. */
static void judge_image(void *arg, struct container_seen *seen)
{
    struct needs_command *c = arg;
    needs_find(&seen->target.model, true, &c->needs);
    c->found = seen->target.model.processes.n > 0;
    c->model_rc = add_model(c, &seen->target.model, &c->model_err);
    if (c->asked_node) {
        answer_of_report(&c->needs, &seen->target.model, &seen->report, c->asked_node);
    }
}

static int keep_image(void *arg, struct container_seen *seen)
{
    struct needs_command *c = arg;
    if (seen->arena) { // what was found is printed after the last image
        VEC_PUSH(&c->t.arena, &c->kept, *seen->arena);
        *seen->arena = (struct arena){0};
    }
    return CLI_OK;
}

/* The image as it is on one node, or on this one. */
static int look_at_image_on(struct needs_command *c, const char *node)
{
    static const struct container_use use = {.judge = judge_image, .print = keep_image};
    struct stat st;
    if (node && (stat(node, &st) < 0 || !S_ISDIR(st.st_mode))) {
        return cli_fail(CLI_USAGE, "needs: %s: for an image, --on takes a node's file system",
                        node);
    }
    c->t.asked.host_path = node;
    return cli_container_look(&c->t, &c->image, &use, c);
}

static int look_at_image(struct needs_command *c)
{
    int rc = CLI_OK;
    if (!c->nodes.n) {
        rc = look_at_image_on(c, NULL);
    }
    for (size_t i = 0; i < c->nodes.n && rc == CLI_OK; i++) {
        struct on_node one = {.node = c->nodes.items[i], .answer = CANNOT_TELL};
        c->asked_node = &one;
        rc = look_at_image_on(c, one.node);
        VEC_PUSH(&c->t.arena, &c->answers, one);
    }
    if (rc == CLI_OK && c->model_rc < 0) {
        return cli_fail(c->model_rc == GM_ERR_USAGE ? CLI_USAGE : CLI_CANNOT, "needs: %s",
                        str_printable(&c->t.arena, c->model_err.text));
    }
    return rc == CLI_OK && !c->found
               ? cli_fail(CLI_CANNOT, "needs: no program of the image is known to use a GPU")
               : rc;
}

/* ------------------------------------------------------------------ printing */

static const char *const answer_names[] = {
    [RUNS] = "runs", [RUNS_NOT] = "does-not-run", [CANNOT_TELL] = "unknown"};

static int print_json(struct needs_command *c)
{
    struct arena *a = &c->t.arena;
    json_t *doc = json_object(), *nodes = json_array(), *forms = json_object();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "target", out_json_text(a, c->words[0]));
    json_put(doc, "needs", needs_json(a, &c->needs));
    for (int i = 0; i < NEEDS_FORMS; i++) {
        const char *why = NULL, *text = needs_expression(a, &c->needs, (enum needs_form)i, &why);
        json_put(forms, needs_form_name((enum needs_form)i), out_json_text(a, text));
    }
    json_put(doc, "expressions", forms);
    for (size_t i = 0; i < c->answers.n; i++) {
        const struct on_node *n = &c->answers.items[i];
        json_t *o = json_object();
        json_put(o, "node", out_json_text(a, n->node));
        json_put(o, "answer", json_string(answer_names[n->answer]));
        json_put(o, "cause", out_json_text(a, n->cause));
        json_put(o, "says", out_json_text(a, n->says));
        json_add(nodes, o);
    }
    json_put(doc, "nodes", nodes);
    return out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output")
                                          : CLI_OK;
}

static int print_form(struct needs_command *c)
{
    const char *why = NULL, *text = needs_expression(&c->t.arena, &c->needs, c->form, &why);
    if (text && c->features) {
        text = needs_slurm_within(&c->t.arena, text, c->features, &why);
    }
    if (!text) {
        return cli_fail(CLI_CANNOT, "needs: no expression: %s", why);
    }
    printf("%s", text);
    if (c->needs.memory.need.how == CHOOSE_MEMORY_ESTIMATED) {
        (void)cli_fail(CLI_OK, "needs: the memory is an estimate and an upper bound: a node that "
                               "is excluded for it may run the model");
    }
    for (size_t i = 0; i < c->needs.unknown.n; i++) {
        (void)cli_fail(CLI_OK, "needs: unknown, and not in the expression: %s",
                       str_printable(&c->t.arena, c->needs.unknown.items[i]));
    }
    return CLI_OK;
}

static void needs_print_text(struct needs_command *c)
{
    struct arena *a = &c->t.arena;
    diag_texts lines = {0};
    needs_sentences(a, &c->needs, &lines);
    for (size_t i = 0; i < lines.n; i++) {
        printf("%s\n", str_printable(a, lines.items[i]));
    }
    if (!lines.n) {
        printf("the target needs nothing of a node that is known\n");
    }
    for (size_t i = 0; i < c->answers.n; i++) {
        const struct on_node *n = &c->answers.items[i];
        static const char *const words[] = {
            [RUNS] = "runs", [RUNS_NOT] = "does not run", [CANNOT_TELL] = "cannot tell"};
        const char *cause = n->cause ? arena_printf(a, ": %s", n->cause) : "";
        const char *says = n->says ? arena_printf(a, ": %s", n->says) : "";
        printf("%s%s: %s%s%s\n", i ? "" : "\n", str_printable(a, n->node), words[n->answer], cause,
               str_printable(a, says));
    }
}

static int status_of(const struct needs_command *c)
{
    int status = CLI_OK;
    for (size_t i = 0; i < c->answers.n; i++) {
        enum answer answer = c->answers.items[i].answer;
        status = answer == RUNS_NOT || status == CLI_FINDINGS ? CLI_FINDINGS
                 : answer == CANNOT_TELL                      ? CLI_CANNOT
                                                              : status;
    }
    return status;
}

/* ------------------------------------------------------------------ the command line */

static int needs_take_option(void *command, int id, const char *value)
{
    struct needs_command *c = command;
    switch (id) {
    case O_ON: VEC_PUSH(&c->t.arena, &c->nodes, value); return CLI_OK;
    case O_AS:
        c->form = needs_form_of(value);
        return c->form != NEEDS_FORMS ? CLI_OK
                                      : cli_fail(CLI_USAGE,
                                                 "needs: --as expects nfd, cel, "
                                                 "require-cuda, slurm, slurm-extra or "
                                                 "wheel-variant, not %s",
                                                 value);
    case O_MODEL: c->model_name = value; return CLI_OK;
    case O_COMPUTE:
        c->compute_given = true;
        return choose_compute_parse(value, &c->compute) && c->compute < CHOOSE_INT8
                   ? CLI_OK
                   : cli_fail(CLI_USAGE,
                              "needs: --compute expects float16, float32, int8_float16 or "
                              "int8_float32, not %s",
                              value);
    case O_FEATURES: c->features = value; return CLI_OK;
    case O_PLATFORM: c->image.platform = value; return CLI_OK;
    case O_NO_VERIFY: c->image.no_verify = true; return CLI_OK;
    case CLI_ARGUMENT:
        if (c->n_words == 2) {
            return cli_fail(CLI_USAGE, "needs: give one IMAGE and one TARGET");
        }
        c->words[c->n_words++] = value;
        return CLI_OK;
    default: return cli_target_take(&c->t, id, value);
    }
}

static int needs_print(struct needs_command *c)
{
    int rc = CLI_OK;
    if (c->t.json) {
        rc = print_json(c);
    } else if (c->form != NEEDS_FORMS) {
        rc = print_form(c);
    } else {
        needs_print_text(c);
    }
    return rc != CLI_OK ? rc : status_of(c);
}

static int run_with(void *command)
{
    struct needs_command *c = command;
    bool image = c->n_words == 2 ||
                 (c->n_words == 1 && !c->t.asked.root_path && image_is_meant(c->words[0]));
    if (image && c->t.asked.root_path) {
        return cli_fail(CLI_USAGE, "needs: --root cannot be combined with IMAGE");
    }
    if (c->form != NEEDS_FORMS && (c->t.json || c->nodes.n)) {
        return cli_fail(CLI_USAGE, "needs: --as prints an expression alone, without --json and "
                                   "--on");
    }
    if (c->compute_given && !c->model_name) {
        return cli_fail(CLI_USAGE, "needs: --compute is for --model");
    }
    if (c->features && c->form != NEEDS_SLURM) {
        return cli_fail(CLI_USAGE, "needs: --features is for --as slurm");
    }
    c->image.given = image ? c->words[0] : NULL;
    c->t.asked.target = image ? c->words[1] : c->words[0];
    cli_only_look((struct sandbox){0});
    int rc = image ? look_at_image(c) : look_at_target(c);
    rc = rc == CLI_OK ? needs_print(c) : rc;
    for (size_t i = 0; i < c->kept.n; i++) {
        arena_release(&c->kept.items[i]);
    }
    return rc;
}

static int needs_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = needs_take_option, .run = run_with};
    struct needs_command c = {.form = NEEDS_FORMS};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_needs = {
    .name = "needs",
    .arguments = "[TARGET | IMAGE [TARGET]] [options]",
    .summary = "says what an environment, program or image needs of a node, and where it runs",
    .text =
        "Prints what the libraries need that TARGET would really load: driver, GPUs (as "
        "intervals\n"
        "of compute capabilities with machine code or PTX), C library and processor. --as prints\n"
        "it for a scheduler:\n"
        "  nfd           nodeSelectorTerms over the labels of gpumend export nfd\n"
        "  cel           a selector over the attributes of NVIDIA's driver (DRA)\n"
        "  require-cuda  NVIDIA_REQUIRE_CUDA\n"
        "  slurm         a constraint of Slurm over the features of gpumend export slurm-features\n"
        "  slurm-extra   an extra constraint of Slurm over gpumend export slurm-extra\n"
        "  wheel-variant properties of wheel variants (PEP 825); a preview of a draft\n"
        "An expression is necessary, not sufficient: a node that it excludes does not run the\n"
        "target. With --on, each node is judged by a whole check with its facts.\n"
        "\n"
        "Exit status 1: it does not run on one of the nodes; 3: for one it cannot be determined.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = needs_run,
};
