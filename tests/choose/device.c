/* What `gpumend run --device` makes of a program on a captured machine, for run.py: `run` itself
 * starts programs here and has no --root.
 *
 *     device ROOT DEVICE PROGRAM IMPORT [NAME=VALUE...]
 *
 * DEVICE "-" with which only require_gpu is asked. PROGRAM is an interpreter in ROOT that imports
 * IMPORT, or "-": one that says nothing of what it starts. Prints a JSON document. */
#include <stdio.h>
#include <string.h>

#include "base/out.h"
#include "choose/choose.h"

static json_t *changes_json(struct arena *a, const struct launch *l, size_t from, size_t to)
{
    json_t *object = json_object();
    for (size_t i = from; i < to; i++) {
        (void)json_object_set_new(object, l->changes.items[i].name,
                                  out_json_text(a, l->changes.items[i].value));
    }
    return object;
}

static json_t *remarks_json(struct arena *a, const struct launch *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->remarks.n; i++) {
        (void)json_array_append_new(list, out_json_text(a, l->remarks.items[i]));
    }
    return list;
}

static int answer(struct arena *a, const struct choose_device_question *q)
{
    struct model_target target;
    struct launch launch;
    const struct launch_options how = {.keep_env = false};
    const char *why = NULL;
    launch_plan(&target, a, q->start, q->program, &how, &launch);
    size_t mended = launch.changes.n;
    enum host_state usable = choose_device_set(a, q, &launch, &why);
    json_t *doc = json_object();
    (void)json_object_set_new(doc, "mended", changes_json(a, &launch, 0, mended));
    (void)json_object_set_new(doc, "changes", changes_json(a, &launch, mended, launch.changes.n));
    (void)json_object_set_new(doc, "remarks", remarks_json(a, &launch));
    (void)json_object_set_new(doc, "usable", out_json_text(a, host_state_name(usable)));
    model_target_close(&target);
    return out_json_dump(stdout, doc) < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    if (argc < 5) {
        fputs("usage: device ROOT DEVICE PROGRAM IMPORT [NAME=VALUE...]\n", stderr);
        return 2;
    }
    bool is_python = strcmp(argv[3], "-") != 0;
    const struct model_target_options start = {.root_path = argv[1],
                                               .env = (const char *const *)argv + 5,
                                               .n_env = (size_t)argc - 5,
                                               .cwd = "/"};
    const struct launch_program program = {.kind = is_python ? LAUNCH_PYTHON : LAUNCH_STARTER,
                                           .file = argv[3],
                                           .python = is_python ? argv[3] : NULL,
                                           .code = arena_printf(&a, "import %s", argv[4])};
    struct choose_device_question q = {.program = &program, .start = &start, .require_gpu = true};
    if (strcmp(argv[2], "-") != 0 && !choose_device_parse(argv[2], &q.device)) {
        return 2;
    }
    int rc = answer(&a, &q);
    arena_release(&a);
    return rc;
}
