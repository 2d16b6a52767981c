/* Many nodes' lines as one answer. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/fleet_replay.h"
#include "cli/limit.h"
#include "cli/replace.h"
#include "fleet/fleet.h"
#include "fleet/html.h"
#include "fleet/query.h"
#include "fleet/store.h"

enum { O_JSON = 1, O_HTML, O_NAMES, O_ENGINE, O_RUN };
enum { FILES_MAX = 100000, NAMES_DEFAULT = 8, LINE_BYTES_MAX = 4 << 20 };

static const struct cli_option options[] = {
    {"names", "N", "text: how many nodes of a list are named (default: 8)", O_NAMES},
    {"engine", "ENGINE", "query: the statement for duckdb (default) or clickhouse", O_ENGINE},
    {"run", NULL, "query: start duckdb with the statement (default: print it)", O_RUN},
    {"html", "FILE", "report: write a page to FILE (-: standard output)", O_HTML},
    CLI_OPTION_LIMIT_LARGE,
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

struct fleet_command {
    struct arena arena;
    struct fleet fleet;
    const char *what;
    VEC(const char *) paths;
    const char *html_file; // or NULL
    bool json, run;
    enum fleet_engine engine; // FLEET_ENGINES: not stated
    uint64_t names;
};

/* ------------------------------------------------------------------ reading */

static int read_lines(struct fleet_command *c, const char *path)
{
    FILE *file = cli_fleet_open(path);
    struct stat st;
    char *text = NULL;
    size_t cap = 0, line = 0;
    if (!file || fstat(fileno(file), &st) < 0 || !S_ISREG(st.st_mode)) {
        int why = file ? ENOTSUP : errno;
        if (file) {
            (void)fclose(file); // was only read
        }
        return cli_fail(CLI_CANNOT, "fleet: %s: %s", str_printable(&c->arena, path), strerror(why));
    }
    for (ssize_t n; (n = getline(&text, &cap, file)) >= 0;) {
        fleet_add_line(&c->fleet, path, ++line, (struct str){text, (size_t)n});
        if (cap > LINE_BYTES_MAX) { // one long line is not to be paid for by all others
            free(text);
            text = NULL;
            cap = 0;
        }
    }
    bool bad = ferror(file) != 0;
    free(text);
    (void)fclose(file); // was only read
    return bad ? cli_fail(CLI_CANNOT, "fleet: %s: it could not be read to its end",
                          str_printable(&c->arena, path))
               : CLI_OK;
}

typedef VEC(const char *) path_list;

/* The files of a folder with this end, by name. */
static int list_folder(struct fleet_command *c, const char *path, const char *end, path_list *ret)
{
    struct arena *a = &c->arena;
    path_list names = {0};
    DIR *dir = opendir(path);
    if (!dir) {
        return cli_fail(CLI_CANNOT, "fleet: %s: %s", str_printable(a, path), strerror(errno));
    }
    for (struct dirent *e; (e = readdir(dir)) && names.n < FILES_MAX;) {
        if (ends_with(e->d_name, end) && e->d_name[0] != '.') {
            VEC_PUSH(a, &names, path_join(a, path, e->d_name));
        }
    }
    bool full = names.n == FILES_MAX;
    (void)closedir(dir); // was only read
    if (full) {
        return cli_fail(CLI_CANNOT, "fleet: %s has more than %d files", str_printable(a, path),
                        FILES_MAX - 1);
    }
    if (names.n) {
        qsort(names.items, names.n, sizeof *names.items, str_by_bytes);
    }
    *ret = names;
    return CLI_OK;
}

static int read_folder(struct fleet_command *c, const char *path)
{
    path_list names = {0};
    int rc = list_folder(c, path, ".ndjson", &names);
    for (size_t i = 0; i < names.n && rc == CLI_OK; i++) {
        rc = read_lines(c, names.items[i]);
    }
    return rc;
}

/* Of each node of a store the two newest: what is there now, and what it is compared with. */
static int list_store(struct fleet_command *c, const char *path, path_list *ret)
{
    path_list all = {0};
    int rc = list_folder(c, path_join(&c->arena, path, "nodes"), FLEET_MANIFEST, &all);
    for (size_t i = 0; i < all.n && rc == CLI_OK; i++) {
        const char *at = strrchr(all.items[i], '@');
        size_t n = at ? (size_t)(at - all.items[i]) + 1 : strlen(all.items[i]);
        bool later = i + 2 < all.n && strncmp(all.items[i + 2], all.items[i], n) == 0 &&
                     !strchr(all.items[i + 2] + n, '@');
        if (!later) {
            VEC_PUSH(&c->arena, ret, all.items[i]);
        }
    }
    return rc;
}

/* Snapshots: the files NAME.json that are named or lie in a folder that is. */
static int replay_snapshots(struct fleet_command *c)
{
    path_list all = {0};
    int rc = CLI_OK;
    for (size_t i = 0; i < c->paths.n && rc == CLI_OK; i++) {
        struct stat st;
        path_list names = {0};
        const char *path = c->paths.items[i];
        if (fleet_store_is(&c->arena, path)) {
            rc = list_store(c, path, &names);
        } else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            rc = list_folder(c, path, ".json", &names);
        } else if (ends_with(path, ".json")) {
            VEC_PUSH(&c->arena, &names, path);
        }
        for (size_t k = 0; k < names.n; k++) {
            VEC_PUSH(&c->arena, &all, names.items[k]);
        }
    }
    if (rc == CLI_OK) {
        cli_fleet_replay(&c->fleet, all.items, all.n);
    }
    return rc;
}

/* ------------------------------------------------------------------ printing */

static const char *shown_text(const json_t *o, const char *key)
{
    const char *text = json_text(o, key);
    return text ? text : "-";
}

static void print_names(struct fleet_command *c, const json_t *names)
{
    size_t n = json_array_size(names), shown = n < c->names ? n : (size_t)c->names;
    for (size_t i = 0; i < shown; i++) {
        printf("%s%s", i ? ", " : "",
               str_printable(&c->arena, json_string_value(json_array_get(names, i))));
    }
    printf("%s\n", n > shown ? ", ..." : "");
}

static void print_causes(struct fleet_command *c, const json_t *doc)
{
    const json_t *causes = json_object_get(doc, "causes");
    for (size_t i = 0; i < json_array_size(causes); i++) {
        const json_t *one = json_array_get(causes, i), *names = json_object_get(one, "nodes");
        printf("%s%s (%s) on %zu: ", i ? "          " : "causes    ", shown_text(one, "cause"),
               shown_text(one, "severity"), json_array_size(names));
        print_names(c, names);
    }
}

static const char *gpus_text(struct arena *a, const json_t *facts)
{
    char *names = json_dumps(json_object_get(facts, "gpu_names"), JSON_ENCODE_ANY);
    const char *text = json_is_integer(json_object_get(facts, "gpus"))
                           ? arena_printf(a, "%lld GPUs %s", json_whole(facts, "gpus"),
                                          names ? str_printable(a, names) : "-")
                           : "GPUs unknown";
    free(names);
    return text;
}

static void print_cohorts(struct fleet_command *c, const json_t *doc)
{
    const json_t *cohorts = json_object_get(doc, "cohorts");
    printf("cohorts   %zu\n", json_array_size(cohorts));
    for (size_t i = 0; i < json_array_size(cohorts) && i < c->names; i++) {
        const json_t *one = json_array_get(cohorts, i), *names = json_object_get(one, "nodes");
        const json_t *facts = json_object_get(one, "facts");
        printf("          %s/%s: %zu nodes, %s, driver %s, %s: ", shown_text(one, "host"),
               shown_text(one, "environment"), json_array_size(names), gpus_text(&c->arena, facts),
               str_printable(&c->arena, shown_text(facts, "driver")),
               str_printable(&c->arena, shown_text(facts, "os")));
        print_names(c, names);
    }
}

static void print_differences(struct fleet_command *c, const json_t *doc)
{
    struct arena *a = &c->arena;
    const json_t *differs = json_object_get(doc, "differs"), *rare = json_object_get(doc, "rare");
    for (size_t i = 0; i < json_array_size(differs); i++) {
        const json_t *one = json_array_get(differs, i);
        printf("%s%s: %s is %s, and %s on %lld of %lld nodes with these GPUs\n",
               i ? "          " : "differs   ", str_printable(a, shown_text(one, "node")),
               str_printable(a, shown_text(one, "fact")),
               str_printable(a, shown_text(one, "value")),
               str_printable(a, shown_text(one, "majority")), json_whole(one, "of"),
               json_whole(one, "in"));
    }
    for (size_t i = 0; i < json_array_size(rare); i++) {
        const json_t *one = json_array_get(rare, i);
        char *gpus = json_dumps(json_object_get(one, "gpu_names"), JSON_ENCODE_ANY);
        printf("%s%s: hardly another node has its GPUs (%s)\n", i ? "          " : "rare      ",
               str_printable(a, shown_text(one, "node")), gpus ? str_printable(a, gpus) : "-");
        free(gpus);
    }
}

static void print_changes(struct fleet_command *c, const json_t *doc)
{
    struct arena *a = &c->arena;
    const json_t *changed = json_object_get(doc, "changed");
    for (size_t i = 0; i < json_array_size(changed); i++) {
        const json_t *one = json_array_get(changed, i), *list = json_object_get(one, "changes");
        printf("%s%s:", i ? "          " : "changed   ", str_printable(a, shown_text(one, "node")));
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *x = json_array_get(list, k);
            printf("%s %s %s -> %s", k ? "," : "", str_printable(a, shown_text(x, "what")),
                   str_printable(a, shown_text(x, "before")),
                   str_printable(a, shown_text(x, "now")));
        }
        printf("\n");
    }
}

static void fleet_print_text(struct fleet_command *c, const json_t *doc)
{
    struct arena *a = &c->arena;
    const json_t *verdicts = json_object_get(doc, "verdicts");
    const json_t *unknown = json_object_get(doc, "unknown"),
                 *damaged = json_object_get(doc, "damaged");
    printf("nodes     %lld: %lld ok, %lld broken, %lld unknown\n", json_whole(doc, "nodes"),
           json_whole(verdicts, "ok"), json_whole(verdicts, "broken"),
           json_whole(verdicts, "unknown"));
    print_causes(c, doc);
    for (size_t i = 0; i < json_array_size(unknown); i++) {
        const json_t *one = json_array_get(unknown, i);
        printf("%s%s: %s\n", i ? "          " : "unknown   ",
               str_printable(a, shown_text(one, "node")),
               str_printable(a, shown_text(one, "says")));
    }
    print_cohorts(c, doc);
    print_differences(c, doc);
    print_changes(c, doc);
    for (size_t i = 0; i < json_array_size(damaged); i++) {
        const json_t *one = json_array_get(damaged, i);
        printf("%s%s, line %lld: %s\n", i ? "          " : "damaged   ",
               str_printable(a, shown_text(one, "file")), json_whole(one, "line"),
               shown_text(one, "why"));
    }
    if (json_whole(doc, "damaged_left_out")) {
        printf("          and %lld more lines\n", json_whole(doc, "damaged_left_out"));
    }
}

/* ------------------------------------------------------------------ the command line */

/* Prints the verdicts on standard error where the page is a file. */
static int write_page(struct fleet_command *c, const json_t *doc)
{
    const json_t *v = json_object_get(doc, "verdicts");
    fleet_html(stdout, &c->arena, doc);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return cli_fail(CLI_CANNOT, "fleet: cannot write the page: %s", strerror(errno));
    }
    if (strcmp(c->html_file, "-") != 0) {
        (void)cli_fail(CLI_OK, "fleet: %lld ok, %lld broken, %lld unknown; the page is in %s",
                       json_whole(v, "ok"), json_whole(v, "broken"), json_whole(v, "unknown"),
                       str_printable(&c->arena, c->html_file));
    }
    return CLI_OK;
}

static int report_fleet(struct fleet_command *c)
{
    int rc = CLI_OK;
    for (size_t i = 0; i < c->paths.n && rc == CLI_OK; i++) {
        struct stat st;
        const char *path = c->paths.items[i];
        rc = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? read_folder(c, path)
             : ends_with(path, ".json")                  ? CLI_OK
                                                         : read_lines(c, path);
    }
    if (rc != CLI_OK) {
        fleet_end(&c->fleet);
        return rc;
    }
    json_t *doc = fleet_report(&c->fleet);
    const json_t *verdicts = json_object_get(doc, "verdicts");
    int status =
        json_whole(verdicts, "broken") ? CLI_FINDINGS
        : json_whole(verdicts, "unknown") || c->fleet.n_damaged || json_whole(doc, "nodes") == 0
            ? CLI_CANNOT
            : CLI_OK;
    if (c->json) {
        status = out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output")
                                                : status;
    } else if (c->html_file) {
        status = write_page(c, doc) == CLI_OK ? status : CLI_CANNOT;
        json_decref(doc);
    } else {
        fleet_print_text(c, doc);
        json_decref(doc);
    }
    fleet_end(&c->fleet);
    return status;
}

static int add_to_store(struct fleet_command *c)
{
    struct gm_err err;
    if (cli_limit_lift("fleet add") != CLI_OK) {
        return CLI_USAGE;
    }
    if (fleet_store_make(&c->arena, c->paths.items[0], &err) < 0) {
        return cli_fail(CLI_CANNOT, "fleet: %s", str_printable(&c->arena, err.text));
    }
    size_t failed = cli_fleet_add(&c->arena, c->paths.items[0], c->paths.items + 1, c->paths.n - 1);
    return failed ? CLI_CANNOT : CLI_OK;
}

/* Printed, or passed to duckdb in place of this process. */
static int query_lines(struct fleet_command *c)
{
    struct arena *a = &c->arena;
    VEC(const char *) files = {0};
    enum fleet_engine engine = c->engine == FLEET_ENGINES ? FLEET_DUCKDB : c->engine;
    const char *name = c->paths.items[0], *names = "";
    for (size_t i = 1; i < c->paths.n; i++) {
        struct stat st;
        const char *path = c->paths.items[i];
        bool is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
        VEC_PUSH(a, &files, is_folder ? path_join(a, path, "*.ndjson") : path);
    }
    const char *statement = fleet_query(a, engine, name, files.items, files.n);
    if (!statement) {
        for (size_t i = 0; fleet_query_name(i); i++) {
            names = arena_printf(a, "%s%s%s", names, i ? ", " : "", fleet_query_name(i));
        }
        return cli_fail(CLI_USAGE, "fleet: there is no query %s; there are %s", name, names);
    }
    if (!c->run) {
        return fputs(statement, stdout) == EOF ? cli_fail(CLI_CANNOT, "cannot write the output")
                                               : CLI_OK;
    }
    if (engine != FLEET_DUCKDB || cli_limit_lift("fleet query --run") != CLI_OK) {
        return cli_fail(CLI_USAGE, "fleet: --run starts duckdb, without --limit");
    }
    (void)execlp("duckdb", "duckdb", c->json ? "-json" : "-box", "-c", statement, (char *)NULL);
    return cli_fail(CLI_CANNOT, "fleet: duckdb: %s; without --run the statement is printed",
                    strerror(errno));
}

static int take_fleet_word(struct fleet_command *c, const char *value)
{
    if (!c->what) {
        c->what = value;
        return strcmp(value, "report") == 0 || strcmp(value, "add") == 0 ||
                       strcmp(value, "query") == 0
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "fleet: unknown word %s: add, report or query", value);
    }
    VEC_PUSH(&c->arena, &c->paths, value);
    return CLI_OK;
}

static int run_word(struct fleet_command *c)
{
    bool adds = c->what && strcmp(c->what, "add") == 0;
    bool asks = c->what && strcmp(c->what, "query") == 0;
    if (c->paths.n < (adds || asks ? 2 : 1)) {
        return cli_fail(CLI_USAGE,
                        "fleet: gpumend fleet add STORE FILE..., fleet report FILE|DIR... "
                        "or fleet query NAME FILE|DIR...");
    }
    if ((c->run || c->engine != FLEET_ENGINES) && !asks) {
        return cli_fail(CLI_USAGE, "fleet: --engine and --run are for query");
    }
    if (c->html_file && (adds || asks || c->json)) {
        return cli_fail(CLI_USAGE, "fleet: --html is for report, without --json");
    }
    if (c->json && asks && !c->run) {
        return cli_fail(CLI_USAGE, "fleet: --json with query is for --run");
    }
    if (adds || asks) {
        return adds ? add_to_store(c) : query_lines(c);
    }
    fleet_begin(&c->fleet, &c->arena);
    int rc = replay_snapshots(c);
    if (rc == CLI_OK && c->html_file) {
        rc = cli_redirect_output("fleet", c->html_file);
    }
    cli_only_look((struct sandbox){0});
    return rc == CLI_OK ? report_fleet(c) : rc;
}

static int fleet_run(const struct cli_command *self, int argc, char **argv)
{
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    struct fleet_command c = {.names = NAMES_DEFAULT, .engine = FLEET_ENGINES};
    int rc = CLI_OK, id;
    cli_arena_init(&c.arena);
    while (rc == CLI_OK && (id = cli_next(&args)) != CLI_END) {
        switch (id) {
        case CLI_HELP: arena_release(&c.arena); return CLI_OK;
        case O_JSON: c.json = true; break;
        case O_NAMES:
            rc = str_u64(str_of(args.value), &c.names)
                     ? CLI_OK
                     : cli_fail(CLI_USAGE, "fleet: --names expects a number, not %s", args.value);
            break;
        case O_HTML: c.html_file = args.value; break;
        case O_RUN: c.run = true; break;
        case O_ENGINE:
            c.engine = fleet_engine_of(args.value);
            rc = c.engine != FLEET_ENGINES
                     ? CLI_OK
                     : cli_fail(CLI_USAGE, "fleet: --engine expects duckdb or clickhouse, not %s",
                                args.value);
            break;
        case CLI_ARGUMENT: rc = take_fleet_word(&c, args.value); break;
        default: rc = CLI_USAGE; break;
        }
    }
    if (rc == CLI_OK) {
        rc = run_word(&c);
    }
    arena_release(&c.arena);
    return rc;
}

const struct cli_command cli_fleet = {
    .name = "fleet",
    .arguments = "report FILE|DIR|STORE... | add STORE FILE... | query NAME FILE|DIR... [options]",
    .summary = "shows causes, cohorts, and who differs, from the lines of many nodes",
    .text =
        "Reads lines of gpumend export ndjson, from files and from the files *.ndjson of "
        "folders.\n"
        "For each node the newest line counts; the one before it is the last sweep. report "
        "prints\n"
        "the causes with their nodes, the cohorts (nodes with equal facts), which nodes differ "
        "from\n"
        "the majority of those with the same GPUs and in what, what changed since the last "
        "sweep,\n"
        "and damaged lines.\n"
        "\n"
        "query prints a statement for DuckDB or ClickHouse over the same lines; NAME is nodes,\n"
        "causes, cohorts, differs or changed (docs/fleet.md).\n"
        "\n"
        "Exit status 1: a node is broken; 3: one is unknown, or a line is damaged.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = fleet_run,
};
