/* What `gpumend why` was asked, and its parts: one request, or a list of objects. */
#ifndef GPUMEND_CLI_WHY_H
#define GPUMEND_CLI_WHY_H

#include "cli/replayed.h"
#include "cli/target.h"
#include "ldso/process.h"

struct cli_why {
    struct arena arena;
    struct root root;
    struct ldso_store store;
    struct cli_env env;
    struct out out;
    const char *name, *exe, *caller, *cwd, *root_path, *batch, *invert, *html_file, *snapshot_file;
    struct snapshot snapshot;
    VEC(const char *) loads;
    struct ldso_cpu cpu;
    struct ldso_config config;
    bool has_cpu, json, tree, env_given;
    bool unknown; // of a list: something depends on an unknown processor, or reached a bound
};

/* A process of the model that was not started yet. */
struct ldso_process *cli_why_process(struct cli_why *w);

/* The process and its first loads as JSON; a new reference. */
json_t *cli_why_document(struct ldso_process *p, size_t n_loads);

/* Answers the request; an exit status. */
int cli_why_answer(struct cli_why *w);

/* Says what the snapshot does not have; whether that is something. */
bool cli_why_say_misses(struct cli_why *w);

/* The closure of each object of w->batch; an exit status. */
int cli_why_batch(struct cli_why *w);

#endif
