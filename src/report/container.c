#include "report/container.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ one list of options */

struct option {
    const char *flag; // NULL: the value stands alone
    const char *value, *reason;
};
typedef VEC(struct option) options;

static void add(struct arena *a, options *list, const char *flag, const struct ctr_item *item,
                const char *suffix)
{
    if (item->value) {
        VEC_PUSH(a, list,
                 (struct option){flag, arena_printf(a, "%s%s", item->value, suffix), item->reason});
    }
}

static void add_all(struct arena *a, options *list, const char *flag, const ctr_items *items,
                    const char *suffix)
{
    for (size_t i = 0; i < items->n; i++) {
        add(a, list, flag, &items->items[i], suffix);
    }
}

/* What stands between "docker run" and the image. */
static options run_options(struct arena *a, const struct ctr_settings *s)
{
    options list = {0};
    add(a, &list, "--runtime", &s->runtime, "");
    add_all(a, &list, s->by_toolkit ? "--gpus" : "--device", &s->gpus, "");
    add_all(a, &list, "--device", &s->devices, "");
    add_all(a, &list, "--group-add", &s->groups, "");
    add_all(a, &list, "--security-opt", &s->security, "");
    add_all(a, &list, "-e", &s->env, "");
    add_all(a, &list, "-v", &s->mounts, ":ro");
    add(a, &list, "--shm-size", &s->shm, "");
    return list;
}

/* What stands between "apptainer exec" and the image. It shares /dev/shm with the host. */
static options exec_options(struct arena *a, const struct ctr_settings *s)
{
    options list = {0};
    add_all(a, &list, NULL, &s->gpus, "");
    add_all(a, &list, "--bind", &s->devices, "");
    add_all(a, &list, "--env", &s->env, "");
    add_all(a, &list, "--bind", &s->mounts, ":ro");
    return list;
}

static options options_of(struct arena *a, const struct ctr_settings *s, enum ctr_format format)
{
    return format == CTR_APPTAINER ? exec_options(a, s) : run_options(a, s);
}

static const char *option_text(struct arena *a, const struct option *o)
{
    const char *value = diag_shell_word(a, o->value);
    return o->flag ? arena_printf(a, "%s %s", o->flag, value) : value;
}

static const char *start_of(enum ctr_format format)
{
    switch (format) {
    case CTR_DOCKER:
        return "docker run --rm";
    case CTR_PODMAN:
        return "podman run --rm";
    case CTR_APPTAINER:
        return "apptainer exec";
    case CTR_COMPOSE:
    case CTR_KUBERNETES:
    case CTR_FORMATS:
        break;
    }
    return NULL;
}

/* ------------------------------------------------------------------ text */

static void print_command(const struct out *o, struct arena *a, const struct ctr_settings *s,
                          enum ctr_format format)
{
    options list = options_of(a, s, format);
    for (size_t i = 0; i < list.n; i++) {
        out_print(o, OUT_DIM, "# %s\n", option_text(a, &list.items[i]));
        out_print(o, OUT_DIM, "#     %s\n", list.items[i].reason);
    }
    out_print(o, OUT_BOLD, "%s%s", list.n ? "\n" : "", start_of(format));
    for (size_t i = 0; i < list.n; i++) {
        out_print(o, OUT_BOLD, " \\\n    %s", option_text(a, &list.items[i]));
    }
    out_print(o, OUT_BOLD, "%s%s\n", list.n ? " \\\n    " : " ", diag_shell_word(a, s->subject));
}

/* YAML of double-quoted strings: JSON's. */
static void print_yaml(const struct out *o, struct arena *a, const char *indent, const char *key,
                       const char *value, const char *reason)
{
    json_t *text = out_json_text(a, value);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    if (*reason) {
        out_print(o, OUT_DIM, "%s# %s\n", indent, reason);
    }
    out_print(o, OUT_PLAIN, "%s%s%s\n", indent, key, quoted ? quoted : "\"\"");
    free(quoted);
    json_decref(text);
}

static void print_list(const struct out *o, struct arena *a, const char *indent, const char *key,
                       const ctr_items *items, const char *suffix)
{
    if (items->n) {
        out_print(o, OUT_PLAIN, "%s%s:\n", indent, key);
    }
    for (size_t i = 0; i < items->n; i++) {
        print_yaml(o, a, arena_printf(a, "%s  ", indent), "- ",
                   arena_printf(a, "%s%s", items->items[i].value, suffix), items->items[i].reason);
    }
}

static void print_compose(const struct out *o, struct arena *a, const struct ctr_settings *s)
{
    static const char indent[] = "    ";
    out_print(o, OUT_PLAIN, "services:\n  app:\n");
    print_yaml(o, a, indent, "image: ", s->subject, "");
    if (s->by_toolkit) {
        out_print(o, OUT_DIM, "%s# %s\n", indent, s->gpus.items[0].reason);
        out_print(o, OUT_PLAIN,
                  "    deploy:\n      resources:\n        reservations:\n          devices:\n"
                  "            - driver: nvidia\n              count: all\n"
                  "              capabilities: [gpu]\n");
    }
    if (s->runtime.value) {
        print_yaml(o, a, indent, "runtime: ", s->runtime.value, s->runtime.reason);
    }
    print_list(o, a, indent, "devices", &s->devices, "");
    print_list(o, a, indent, "group_add", &s->groups, "");
    print_list(o, a, indent, "security_opt", &s->security, "");
    print_list(o, a, indent, "environment", &s->env, "");
    print_list(o, a, indent, "volumes", &s->mounts, ":ro");
    if (s->shm.value) {
        print_yaml(o, a, indent, "shm_size: ", s->shm.value, s->shm.reason);
    }
}

/* "FROM:TO" */
static const char *half(struct arena *a, const char *value, bool second)
{
    struct str rest = str_of(value), first = str_cut(&rest, ':');
    return str_dup(a, second ? rest : first);
}

static void print_volumes(const struct out *o, struct arena *a, const struct ctr_settings *s)
{
    if (s->shm.value || s->mounts.n) {
        out_print(o, OUT_PLAIN, "  volumes:\n");
    }
    if (s->shm.value) {
        out_print(o, OUT_DIM, "    # %s\n", s->shm.reason);
        out_print(o, OUT_PLAIN,
                  "    - name: shm\n      emptyDir: {medium: Memory, sizeLimit: %cGi}\n",
                  s->shm.value[0]); // "1g"
    }
    for (size_t i = 0; i < s->mounts.n; i++) {
        out_print(o, OUT_DIM, "    # %s\n", s->mounts.items[i].reason);
        out_print(o, OUT_PLAIN, "    - name: library-%zu\n      hostPath: {path: %s, type: File}\n",
                  i, half(a, s->mounts.items[i].value, false));
    }
}

static void print_pod(const struct out *o, struct arena *a, const struct ctr_settings *s)
{
    out_print(o, OUT_PLAIN,
              "apiVersion: v1\nkind: Pod\nmetadata:\n  name: app\nspec:\n"
              "  restartPolicy: Never\n");
    if (s->runtime_class.value) {
        print_yaml(o, a, "  ", "runtimeClassName: ", s->runtime_class.value,
                   s->runtime_class.reason);
    }
    if (s->groups.n) {
        out_print(o, OUT_PLAIN, "  securityContext:\n    supplementalGroups:\n");
        for (size_t i = 0; i < s->groups.n; i++) {
            out_print(o, OUT_DIM, "      # %s\n", s->groups.items[i].reason);
            out_print(o, OUT_PLAIN, "      - %s\n", s->groups.items[i].value);
        }
    }
    out_print(o, OUT_PLAIN, "  containers:\n    - name: app\n");
    print_yaml(o, a, "      ", "image: ", s->subject, "");
    if (s->resource.value) {
        out_print(o, OUT_DIM, "      # %s\n", s->resource.reason);
        out_print(o, OUT_PLAIN, "      resources:\n        limits:\n          %s: 1\n",
                  s->resource.value);
    }
    if (s->env.n) {
        out_print(o, OUT_PLAIN, "      env:\n");
    }
    for (size_t i = 0; i < s->env.n; i++) {
        struct str rest = str_of(s->env.items[i].value), name = str_cut(&rest, '=');
        out_print(o, OUT_DIM, "        # %s\n", s->env.items[i].reason);
        out_print(o, OUT_PLAIN, "        - name: %s\n", str_dup(a, name));
        print_yaml(o, a, "          ", "value: ", str_dup(a, rest), "");
    }
    if (s->shm.value || s->mounts.n) {
        out_print(o, OUT_PLAIN, "      volumeMounts:\n");
    }
    if (s->shm.value) {
        out_print(o, OUT_PLAIN, "        - {name: shm, mountPath: /dev/shm}\n");
    }
    for (size_t i = 0; i < s->mounts.n; i++) {
        out_print(o, OUT_PLAIN, "        - {name: library-%zu, mountPath: %s, readOnly: true}\n", i,
                  half(a, s->mounts.items[i].value, true));
    }
    print_volumes(o, a, s);
}

/* Lines that a shell and a YAML reader pass over. */
static void print_steps(const struct out *o, const ctr_items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        out_print(o, OUT_DIM, "#   %s\n", items->items[i].reason);
        out_print(o, OUT_PLAIN, "#   %s\n", items->items[i].value);
    }
}

void report_container_text(const struct out *o, struct arena *a, const struct ctr_settings *s,
                           enum ctr_format format)
{
    if (s->gpu == CTR_UNKNOWN_GPU) {
        out_print(o, OUT_DIM, "# Whether there is a GPU here cannot be told: the bus could not be "
                              "read, so nothing is asked for.\n");
    }
    if (s->gpu == CTR_NO_GPU) {
        out_print(o, OUT_DIM, "# No GPU here that a container could use: it runs on the CPU.\n");
    }
    if (s->first.n) {
        out_print(o, OUT_DIM, "# First, on the host:\n");
        print_steps(o, &s->first);
        out_print(o, OUT_PLAIN, "\n");
    }
    if (format == CTR_COMPOSE) {
        print_compose(o, a, s);
    } else if (format == CTR_KUBERNETES) {
        print_pod(o, a, s);
    } else {
        print_command(o, a, s, format);
    }
    if (s->image.n) {
        out_print(o, OUT_DIM,
                  "\n# What neither the image nor this host has, as lines for the "
                  "Dockerfile:\n");
    }
    print_steps(o, &s->image);
    out_print(o, OUT_DIM,
              "\n# To return, start the container without these settings: they change "
              "nothing else.\n");
    print_steps(o, &s->undo);
    for (size_t i = 0; i < s->notes.n; i++) {
        out_print(o, OUT_PLAIN, "%s# %s\n", i ? "" : "\n", s->notes.items[i]);
    }
}

/* ------------------------------------------------------------------ JSON */

static json_t *items_json(struct arena *a, const ctr_items *items)
{
    json_t *list = json_array();
    for (size_t i = 0; i < items->n; i++) {
        (void)json_array_append_new(
            list, json_pack("{s:o, s:o}", "value", out_json_text(a, items->items[i].value),
                            "reason", out_json_text(a, items->items[i].reason)));
    }
    return list;
}

static json_t *item_json(struct arena *a, const struct ctr_item *item)
{
    ctr_items one = {0};
    if (item->value) {
        VEC_PUSH(a, &one, *item);
    }
    return items_json(a, &one);
}

json_t *report_container_json(struct arena *a, const struct ctr_settings *s, enum ctr_format format)
{
    static const char *const gpus[] = {[CTR_UNKNOWN_GPU] = "unknown", [CTR_NO_GPU] = "none",
                                       [CTR_NVIDIA] = "nvidia",
                                       [CTR_AMD] = "amd",
                                       [CTR_INTEL] = "intel",
                                       [CTR_WSL] = "wsl"};
    json_t *doc = json_pack("{s:i, s:s, s:o, s:s}", "schema", 1, "format", ctr_format_name(format),
                            "name", out_json_text(a, s->subject), "gpu", gpus[s->gpu]);
    const struct {
        const char *key;
        json_t *value;
    } rows[] = {
        {"first", items_json(a, &s->first)},
        {"gpus", items_json(a, &s->gpus)},
        {"runtime", item_json(a, &s->runtime)},
        {"devices", items_json(a, &s->devices)},
        {"groups", items_json(a, &s->groups)},
        {"environment", items_json(a, &s->env)},
        {"mounts", items_json(a, &s->mounts)},
        {"security", items_json(a, &s->security)},
        {"shared_memory", item_json(a, &s->shm)},
        {"resource", item_json(a, &s->resource)},
        {"runtime_class", item_json(a, &s->runtime_class)},
        {"image", items_json(a, &s->image)},
        {"undo", items_json(a, &s->undo)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)json_object_set_new(doc, rows[i].key, rows[i].value);
    }
    json_t *arguments = json_array(), *notes = json_array();
    options list = start_of(format) ? options_of(a, s, format) : (options){0};
    for (size_t i = 0; i < list.n; i++) {
        if (list.items[i].flag) {
            (void)json_array_append_new(arguments, json_string(list.items[i].flag));
        }
        (void)json_array_append_new(arguments, out_json_text(a, list.items[i].value));
    }
    for (size_t i = 0; i < s->notes.n; i++) {
        (void)json_array_append_new(notes, out_json_text(a, s->notes.items[i]));
    }
    (void)json_object_set_new(doc, "arguments", arguments);
    (void)json_object_set_new(doc, "notes", notes);
    return doc;
}
