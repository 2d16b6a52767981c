/* Wheel variants: whether those that are installed fit a machine, which one of an index an
 * installer would choose, and what a machine supports as a list for installers. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/limit.h"
#include "cli/replayed.h"
#include "cli/target.h"
#include "py/dist.h"
#include "variant/variant.h"

enum { O_PREVIEW = 1, O_ON, O_INDEX, O_STATIC };

static const struct cli_option options[] = {
    {"preview", NULL, "needed: the format of variants is a draft, and this output with it",
     O_PREVIEW},
    {"on", "NODE",
     "the machine: its file system, or its snapshot; again for more (default: this machine)", O_ON},
    {"index", "FILE", "order the variants of an index's NAME-VERSION-variants.json", O_INDEX},
    {"static", NULL, "print what all these machines support, as static-properties of the draft",
     O_STATIC},
    CLI_OPTION_ROOT,
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    CLI_OPTION_KB,
    CLI_OPTION_LIMIT,
    CLI_OPTION_JSON,
};

/* An installed wheel that is a variant. */
struct wheel {
    const char *name, *version, *file;
    const char *why; // it could not be read; else NULL
    struct variant_document doc;
};

struct variants {
    struct cli_target t;
    bool preview, as_list;
    const char *index_file;
    VEC(const char *) nodes;
    /* What is found out. */
    VEC(struct wheel) wheels;
    struct variant_document index;
    const char **names;               // of the machines
    struct variant_machine *machines; // as many
    size_t n_machines;
    const char *env; // prefix of the environment, or NULL
    bool cut;        // it has more than is looked at
    enum host_state worst;
};

/* ------------------------------------------------------------------ looking */

static int read_index(struct variants *c, struct gm_err *err)
{
    struct arena *a = &c->t.arena;
    struct stat st;
    int fd = open(c->index_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO may have no writer
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        int why = file ? EINVAL : errno;
        if (file) {
            (void)fclose(file); // was only read
        }
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", c->index_file, strerror(why));
    }
    char *text = arena_alloc(a, VARIANT_BYTES_MAX + 1);
    size_t n = fread(text, 1, VARIANT_BYTES_MAX + 1, file);
    (void)fclose(file); // was only read
    return variant_read(a, c->index_file, (struct str){text, n}, &c->index, err);
}

static void read_wheel(struct variants *c, struct model_target *t, const struct py_dist *dist)
{
    struct arena *a = &c->t.arena;
    struct wheel w = {.name = dist->name, .version = dist->version};
    struct str text;
    struct gm_err err;
    w.file = path_join(a, dist->info, "variant.json");
    int rc = root_read(&t->root, a, w.file, VARIANT_BYTES_MAX, &text);
    if (rc == -ENOENT || rc == -ENOTDIR) {
        return;
    }
    if (rc < 0) {
        w.why = arena_strdup(a, strerror(-rc));
    } else if (variant_read(a, "variant.json", text, &w.doc, &err) < 0) {
        w.why = arena_strdup(a, err.text);
    } else if (w.doc.variants.n != 1) { // PEP 825: always a single entry there
        w.why = arena_printf(a, "it has %zu variants in place of one", w.doc.variants.n);
    }
    VEC_PUSH(a, &c->wheels, w);
}

static void read_wheels(struct variants *c, struct model_target *t)
{
    const struct py_env *env = t->model.env;
    c->env = env ? env->prefix : NULL;
    c->cut = env && (env->cut || env->denied);
    for (size_t i = 0; env && i < env->n_dists; i++) {
        if (env->dists[i].kind == PY_DIST_INFO && !env->dists[i].shadowed_by) {
            read_wheel(c, t, &env->dists[i]);
        }
    }
}

/* One machine: the node, or the one that is looked at. The wheels are read with the first. */
static int judge_machine(struct variants *c, const char *node, size_t at, struct gm_err *err)
{
    struct arena *a = &c->t.arena;
    struct model_target t;
    struct snapshot *s = NULL;
    struct model_target_options o = c->t.asked;
    struct stat st;
    o.only_open = true;
    if (node) {
        if (stat(node, &st) < 0) {
            return gm_err_set(err, GM_ERR_LOOK, "%s: %s", node, strerror(errno));
        }
        o.host_path = node;
        if (!S_ISDIR(st.st_mode)) {
            s = arena_alloc(a, sizeof *s);
            if (cli_read_snapshot("variants", node, a, s) != CLI_OK) {
                return gm_err_set(err, GM_ERR_LOOK, "%s", "");
            }
            o.host_path = s->root ? s->root : "/";
            o.host_replay = &s->files;
        }
    }
    int rc = model_target_open(&t, a, &o, err);
    if (rc == 0 && !t.model.host) {
        rc = gm_err_set(err, GM_ERR_LOOK, "%s",
                        t.model.host_why ? t.model.host_why : "the machine cannot be looked at");
    }
    if (rc == 0 && c->t.asked.target && !t.model.env) {
        rc = gm_err_set(err, GM_ERR_LOOK, "%s is not a Python environment", c->t.asked.target);
    }
    if (rc == 0) {
        variant_machine(a, t.model.host, &t.kb, &c->machines[at]);
        c->names[at] = node ? node : o.root_path ? o.root_path : "this machine";
    }
    if (rc == 0 && at == 0 && !c->as_list) {
        read_wheels(c, &t);
    }
    model_target_close(&t);
    return rc;
}

static int look_at_machine(struct variants *c, struct gm_err *err)
{
    struct arena *a = &c->t.arena;
    int rc = c->index_file ? read_index(c, err) : 0;
    c->n_machines = c->nodes.n ? c->nodes.n : 1;
    c->machines = arena_alloc(a, c->n_machines * sizeof *c->machines);
    c->names = arena_alloc(a, c->n_machines * sizeof *c->names);
    for (size_t i = 0; rc == 0 && i < c->n_machines; i++) {
        rc = judge_machine(c, c->nodes.n ? c->nodes.items[i] : NULL, i, err);
    }
    return rc;
}

/* ------------------------------------------------------------------ words */

static const char *const fits_words[] = {
    [HOST_YES] = "fits", [HOST_NO] = "does not fit", [HOST_UNKNOWN] = "cannot tell"};
static const char *const fits_names[] = {
    [HOST_YES] = "yes", [HOST_NO] = "no", [HOST_UNKNOWN] = "unknown"};

static const char *values_of(struct arena *a, const struct variant_feature *f)
{
    const char *text = "";
    for (size_t i = 0; i < f->values.n; i++) {
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "", f->values.items[i]);
    }
    return text;
}

static const char *feature_line(struct arena *a, const struct variant_judged *j)
{
    const struct variant_feature *f = j->asked;
    const char *head = arena_printf(a, "%s :: %s :: %s", f->ns, f->name, values_of(a, f));
    return j->best ? arena_printf(a, "%s: fits by %s", head, j->best)
                   : arena_printf(a, "%s: %s: %s", head, fits_words[j->fits], j->why);
}

static void take_worst(struct variants *c, enum host_state fits)
{
    c->worst = fits == HOST_NO || c->worst == HOST_NO ? HOST_NO
               : fits == HOST_UNKNOWN                 ? HOST_UNKNOWN
                                                      : c->worst;
}

static bool same_values(const variant_texts *x, const variant_texts *y)
{
    bool same = x->n == y->n;
    for (size_t i = 0; same && i < x->n; i++) {
        bool found = false;
        for (size_t k = 0; !found && k < y->n; k++) {
            found = strcmp(x->items[i], y->items[k]) == 0;
        }
        same = found;
    }
    return same;
}

static bool same_properties(const struct variant *x, const struct variant *y)
{
    bool same = x->features.n == y->features.n;
    for (size_t i = 0; same && i < x->features.n; i++) {
        const struct variant_feature *f = &x->features.items[i];
        bool found = false;
        for (size_t k = 0; !found && k < y->features.n; k++) {
            const struct variant_feature *g = &y->features.items[k];
            found = strcmp(f->ns, g->ns) == 0 && strcmp(f->name, g->name) == 0 &&
                    same_values(&f->values, &g->values);
        }
        same = found;
    }
    return same;
}

/* The variant of the index that the installed one is: the same label with the same properties. */
static bool is_of_index(const struct variants *c, const struct variant *v)
{
    for (size_t i = 0; i < c->index.variants.n; i++) {
        const struct variant *other = &c->index.variants.items[i];
        if (strcmp(other->label, v->label) == 0) {
            return same_properties(v, other);
        }
    }
    return false;
}

/* Why the installed one is there, as far as the index says. */
static const char *chosen(struct variants *c, const struct variant *v, const variant_ranking *r)
{
    struct arena *a = &c->t.arena;
    if (!c->index_file) {
        return "why it was chosen: the other variants are unknown (--index names them)";
    }
    if (!is_of_index(c, v)) {
        return "the index has no variant with this label and these properties";
    }
    const struct variant_ranked *best = r->n ? &r->items[0] : NULL;
    bool sure = best && best->verdict.fits == HOST_YES;
    for (size_t i = 0; sure && i < r->n; i++) {
        sure = r->items[i].verdict.fits != HOST_UNKNOWN;
    }
    if (!sure) {
        return "why it was chosen: it is unknown whether some variant of the index fits here";
    }
    return strcmp(best->variant->label, v->label) == 0
               ? "it is the best variant of the index that fits here"
               : arena_printf(a, "an installer would choose %s here", best->variant->label);
}

/* ------------------------------------------------------------------ printing */

static void print_verdict(struct arena *a, const struct variant_verdict *v, const char *indent)
{
    for (size_t i = 0; i < v->features.n; i++) {
        printf("%s%s\n", indent, str_printable(a, feature_line(a, &v->features.items[i])));
    }
}

static void print_wheel(struct variants *c, const struct wheel *w, size_t at,
                        const variant_ranking *ranking)
{
    struct arena *a = &c->t.arena;
    const struct variant *v = &w->doc.variants.items[0];
    struct variant_verdict verdict;
    variant_judge(a, &w->doc, v, &c->machines[at], &verdict);
    take_worst(c, verdict.fits);
    printf("%s %s, variant %s: %s\n", str_printable(a, w->name),
           str_printable(a, w->version ? w->version : "?"), v->label, fits_words[verdict.fits]);
    print_verdict(a, &verdict, "  ");
    if (!verdict.features.n) {
        printf("  it has no properties, and so fits every machine\n");
    }
    printf("  %s\n", chosen(c, v, ranking));
}

static void print_machine(struct variants *c, size_t at)
{
    struct arena *a = &c->t.arena;
    variant_ranking ranking = {0};
    variant_rank(a, &c->index, &c->machines[at], &ranking);
    printf("%s%s:\n", at ? "\n" : "", str_printable(a, c->names[at]));
    for (size_t i = 0; i < c->wheels.n; i++) {
        if (!c->wheels.items[i].why) {
            print_wheel(c, &c->wheels.items[i], at, &ranking);
        }
    }
    if (ranking.n) {
        printf("Variants of %s, the best first:\n", str_printable(a, c->index_file));
    }
    for (size_t i = 0; i < ranking.n; i++) {
        const struct variant_ranked *r = &ranking.items[i];
        printf("  %s: %s\n", r->variant->label, fits_words[r->verdict.fits]);
        print_verdict(a, &r->verdict, "    ");
    }
}

static void variants_print_text(struct variants *c)
{
    struct arena *a = &c->t.arena;
    for (size_t i = 0; i < c->wheels.n; i++) {
        const struct wheel *w = &c->wheels.items[i];
        if (w->why) {
            printf("%s %s: cannot tell: %s\n", str_printable(a, w->name),
                   str_printable(a, w->version ? w->version : "?"), str_printable(a, w->why));
        }
    }
    if (!c->wheels.n) {
        printf(c->env ? "No wheel that is installed in %s is a variant.\n"
                      : "There is no Python environment%s.\n",
               c->env ? str_printable(a, c->env) : "");
    }
    for (size_t i = 0; (c->wheels.n || c->index_file) && i < c->n_machines; i++) {
        print_machine(c, i);
    }
}

static json_t *verdict_json(struct arena *a, const struct variant_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->features.n; i++) {
        const struct variant_judged *j = &v->features.items[i];
        json_t *o = json_object(), *values = json_array();
        for (size_t k = 0; k < j->asked->values.n; k++) {
            json_add(values, json_string(j->asked->values.items[k]));
        }
        json_put(o, "namespace", json_string(j->asked->ns));
        json_put(o, "feature", json_string(j->asked->name));
        json_put(o, "values", values);
        json_put(o, "fits", json_string(fits_names[j->fits]));
        json_put(o, "by", out_json_text(a, j->best));
        json_put(o, "why", out_json_text(a, j->why));
        json_add(list, o);
    }
    return list;
}

static json_t *variant_json(struct arena *a, const struct variant *v,
                            const struct variant_verdict *verdict)
{
    json_t *o = json_object();
    json_put(o, "label", json_string(v->label));
    json_put(o, "fits", json_string(fits_names[verdict->fits]));
    json_put(o, "properties", verdict_json(a, verdict));
    return o;
}

static json_t *machine_json(struct variants *c, size_t at)
{
    struct arena *a = &c->t.arena;
    variant_ranking ranking = {0};
    json_t *doc = json_object(), *wheels = json_array(), *order = json_array();
    variant_rank(a, &c->index, &c->machines[at], &ranking);
    for (size_t i = 0; i < c->wheels.n; i++) {
        const struct wheel *w = &c->wheels.items[i];
        struct variant_verdict verdict;
        if (w->why) {
            continue;
        }
        const struct variant *v = &w->doc.variants.items[0];
        variant_judge(a, &w->doc, v, &c->machines[at], &verdict);
        take_worst(c, verdict.fits);
        json_t *o = variant_json(a, v, &verdict);
        json_put(o, "name", out_json_text(a, w->name));
        json_put(o, "version", out_json_text(a, w->version));
        json_put(o, "chosen", out_json_text(a, chosen(c, v, &ranking)));
        json_add(wheels, o);
    }
    for (size_t i = 0; i < ranking.n; i++) {
        json_add(order, variant_json(a, ranking.items[i].variant, &ranking.items[i].verdict));
    }
    json_put(doc, "machine", out_json_text(a, c->names[at]));
    json_put(doc, "wheels", wheels);
    json_put(doc, "index", order);
    return doc;
}

static json_t *document(struct variants *c)
{
    struct arena *a = &c->t.arena;
    json_t *doc = json_object(), *unread = json_array(), *machines = json_array();
    for (size_t i = 0; i < c->wheels.n; i++) {
        const struct wheel *w = &c->wheels.items[i];
        if (w->why) {
            json_t *o = json_object();
            json_put(o, "name", out_json_text(a, w->name));
            json_put(o, "version", out_json_text(a, w->version));
            json_put(o, "file", out_json_text(a, w->file));
            json_put(o, "why", out_json_text(a, w->why));
            json_add(unread, o);
        }
    }
    for (size_t i = 0; i < c->n_machines; i++) {
        json_add(machines, machine_json(c, i));
    }
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "preview", json_true());
    json_put(doc, "environment", out_json_text(a, c->env));
    json_put(doc, "machines", machines);
    json_put(doc, "unreadable", unread);
    return doc;
}

/* The list of what all machines support, and on stderr what it lacks because it is unknown. */
static int print_list(struct variants *c)
{
    struct arena *a = &c->t.arena;
    struct variant_machine least;
    int status = CLI_OK;
    variant_least(a, c->machines, c->names, c->n_machines, &least);
    if (out_json_dump(stdout, variant_static(&least)) < 0) {
        return cli_fail(CLI_CANNOT, "cannot write the output");
    }
    for (size_t i = 0; i < least.namespaces.n; i++) {
        const struct variant_namespace *ns = &least.namespaces.items[i];
        if (ns->state == HOST_UNKNOWN) {
            status = cli_fail(CLI_CANNOT, "variants: %s is not in the list: %s", ns->name,
                              str_printable(a, ns->why));
        }
        for (size_t k = 0; k < ns->features.n; k++) {
            if (ns->features.items[k].why) {
                status = cli_fail(CLI_CANNOT, "variants: %s :: %s is not in the list: %s", ns->name,
                                  ns->features.items[k].name,
                                  str_printable(a, ns->features.items[k].why));
            }
        }
    }
    return status;
}

static int print_answer(struct variants *c)
{
    if (c->as_list) {
        return print_list(c);
    }
    c->worst = c->cut ? HOST_UNKNOWN : HOST_YES;
    for (size_t i = 0; i < c->wheels.n; i++) {
        take_worst(c, c->wheels.items[i].why ? HOST_UNKNOWN : HOST_YES);
    }
    if (!c->t.json) {
        variants_print_text(c);
    } else if (out_json_dump(stdout, document(c)) < 0) {
        return cli_fail(CLI_CANNOT, "cannot write the output");
    }
    if (c->cut) {
        (void)cli_fail(CLI_CANNOT, "variants: not all that is installed could be looked at");
    }
    return c->worst == HOST_NO ? CLI_FINDINGS : c->worst == HOST_UNKNOWN ? CLI_CANNOT : CLI_OK;
}

/* ------------------------------------------------------------------ the command line */

static int variants_take_option(void *command, int id, const char *value)
{
    struct variants *c = command;
    switch (id) {
    case O_PREVIEW: c->preview = true; return CLI_OK;
    case O_ON: VEC_PUSH(&c->t.arena, &c->nodes, value); return CLI_OK;
    case O_INDEX: c->index_file = value; return CLI_OK;
    case O_STATIC: c->as_list = true; return CLI_OK;
    default: return cli_target_take(&c->t, id, value);
    }
}

static int run_with(void *command)
{
    struct variants *c = command;
    struct gm_err err;
    if (!c->preview) {
        return cli_fail(CLI_USAGE, "variants: wheel variants are a draft (PEP 825), and what this "
                                   "command prints may change; --preview asks for it all the same");
    }
    if (c->as_list && (c->t.json || c->index_file || c->t.asked.target)) {
        return cli_fail(CLI_USAGE, "variants: --static prints the list of the machines alone, "
                                   "without --json, --index and TARGET");
    }
    cli_only_look((struct sandbox){0});
    int rc = look_at_machine(c, &err);
    if (rc < 0) {
        return *err.text
                   ? cli_fail(CLI_CANNOT, "variants: %s", str_printable(&c->t.arena, err.text))
                   : CLI_CANNOT;
    }
    return print_answer(c);
}

static int variants_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = variants_take_option, .run = run_with};
    struct variants c = {0};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_variants = {
    .name = "variants",
    .arguments = "--preview [TARGET] [options]",
    .summary = "explains installed wheel variants, and lists what a machine supports (a draft)",
    .text =
        "Reads the variant.json of each wheel that is installed in TARGET, and says for each of\n"
        "its properties whether the machine supports it. With --index, the variants of an index\n"
        "are put in the order of PEP 825 for the machine, and the one that is installed is\n"
        "compared with the best. --static prints what a machine supports, or what all of several\n"
        "do, as the static-properties with which an installer asks no provider.\n"
        "The properties are those of the providers nvidia and x86_64 (its level alone); what\n"
        "other providers would say is unknown.\n"
        "\n"
        "Exit status 1: a variant does not fit a machine; 3: for one it cannot be determined.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = variants_run,
};
