/* The forms that are documents: compose, Kubernetes, a profile of Incus, devcontainer.json. Field
 * names: docs/containers.md names the source of each. */
#include "report/container_forms.h"

#include <stdlib.h>
#include <string.h>

#include "cdi/build.h"

static json_t *document_text(const char *value)
{
    json_t *string = json_string(value);
    return string ? string : json_string(""); // what settings hold is UTF-8
}

/* What the reader of the document would take for a variable is taken literally: `from` -> `to`. */
static const char *literal(struct arena *a, const char *value, const char *from, const char *to)
{
    const char *out = "";
    for (struct str rest = str_of(value); rest.n;) {
        size_t n = str_find(rest, from);
        bool found = n < rest.n;
        out = arena_printf(a, "%s%.*s%s", out, (int)n, rest.s, found ? to : "");
        n += found ? strlen(from) : 0;
        rest = (struct str){rest.s + n, rest.n - n};
    }
    return out;
}

static const char *item_name(struct arena *a, const struct container_item *item)
{
    struct str rest = str_of(item->value);
    return str_dup(a, str_cut(&rest, '='));
}

static const char *item_value(struct arena *a, const struct container_item *item)
{
    struct str rest = str_of(item->value);
    (void)str_cut(&rest, '=');
    return str_dup(a, rest);
}

/* "FROM:TO" */
static const char *half(struct arena *a, const struct container_item *item, bool second)
{
    struct str rest = str_of(item->value), first = str_cut(&rest, ':');
    return str_dup(a, second ? rest : first);
}

/* ------------------------------------------------------------------ compose */

static void set_list(json_t *object, struct arena *a, const char *key, const container_items *items,
                     const char *suffix)
{
    json_t *list = json_array();
    for (size_t i = 0; i < items->n; i++) {
        const char *value = arena_printf(a, "%s%s", items->items[i].value, suffix);
        cdi_append(list, document_text(literal(a, value, "$", "$$")));
    }
    if (items->n) {
        cdi_set(object, key, list);
    } else {
        json_decref(list);
    }
}

static json_t *reservation(const struct container_settings *s)
{
    json_t *device = json_object();
    cdi_set(device, "driver", document_text("nvidia"));
    if (s->pick->all || s->pick->devices.n == 0) {
        cdi_set(device, "count", document_text("all"));
    } else {
        json_t *ids = json_array();
        for (size_t i = 0; i < s->pick->devices.n; i++) {
            cdi_append(ids, document_text(s->pick->devices.items[i].id));
        }
        cdi_set(device, "device_ids", ids);
    }
    cdi_set(device, "capabilities", json_pack("[s]", "gpu"));
    return json_pack("{s:{s:{s:[o]}}}", "resources", "reservations", "devices", device);
}

static json_t *compose(struct arena *a, const struct container_settings *s)
{
    json_t *app = json_object();
    cdi_set(app, "image", document_text(s->subject));
    if (s->by_toolkit) {
        cdi_set(app, "deploy", reservation(s));
    }
    if (s->runtime.value) {
        cdi_set(app, "runtime", document_text(s->runtime.value));
    }
    set_list(app, a, "devices", &s->devices, "");
    set_list(app, a, "group_add", &s->groups, "");
    set_list(app, a, "security_opt", &s->security, "");
    set_list(app, a, "environment", &s->env, "");
    set_list(app, a, "volumes", &s->mounts, ":ro");
    if (s->shm.value) {
        cdi_set(app, "shm_size", document_text(s->shm.value));
    }
    return json_pack("[{s:{s:o}}]", "services", "app", app);
}

/* ------------------------------------------------------------------ Kubernetes */

static size_t wanted(const struct container_settings *s)
{
    return s->pick->all || s->pick->devices.n == 0 ? 1 : s->pick->devices.n;
}

static json_t *env_of(struct arena *a, const struct container_settings *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->env.n; i++) {
        const struct container_item *item = &s->env.items[i];
        cdi_append(list, json_pack("{s:o, s:o}", "name", document_text(item_name(a, item)), "value",
                                   document_text(literal(a, item_value(a, item), "$(", "$$("))));
    }
    return list;
}

static json_t *mounts_of(struct arena *a, const struct container_settings *s)
{
    json_t *list = json_array();
    if (s->shm.value) {
        cdi_append(list, json_pack("{s:s, s:s}", "name", "shm", "mountPath", "/dev/shm"));
    }
    for (size_t i = 0; i < s->mounts.n; i++) {
        cdi_append(list, json_pack("{s:s, s:o, s:b}", "name", arena_printf(a, "library-%zu", i),
                                   "mountPath", document_text(half(a, &s->mounts.items[i], true)),
                                   "readOnly", 1));
    }
    return list;
}

static json_t *volumes_of(struct arena *a, const struct container_settings *s)
{
    json_t *list = json_array();
    if (s->shm.value) { // "1g"
        cdi_append(list,
                   json_pack("{s:s, s:{s:s, s:s}}", "name", "shm", "emptyDir", "medium", "Memory",
                             "sizeLimit", arena_printf(a, "%cGi", s->shm.value[0])));
    }
    for (size_t i = 0; i < s->mounts.n; i++) {
        const char *from = half(a, &s->mounts.items[i], false);
        cdi_append(list, json_pack("{s:s, s:{s:o, s:s}}", "name", arena_printf(a, "library-%zu", i),
                                   "hostPath", "path", document_text(from), "type",
                                   ends_with(from, "/wsl") ? "Directory" : "File"));
    }
    return list;
}

static void set_unless_empty(json_t *object, const char *key, json_t *list)
{
    if (json_array_size(list)) {
        cdi_set(object, key, list);
    } else {
        json_decref(list);
    }
}

static json_t *container_of(struct arena *a, const struct container_settings *s,
                            enum container_format format)
{
    json_t *c = json_object();
    cdi_set(c, "name", document_text("app"));
    cdi_set(c, "image", document_text(s->subject));
    if (s->resource.value && format == CONTAINER_CLAIM) {
        cdi_set(c, "resources", json_pack("{s:[{s:s}]}", "claims", "name", "gpu"));
    } else if (s->resource.value) {
        cdi_set(c, "resources",
                json_pack("{s:{s:I}}", "limits", s->resource.value, (json_int_t)wanted(s)));
    }
    set_unless_empty(c, "env", env_of(a, s));
    set_unless_empty(c, "volumeMounts", mounts_of(a, s));
    return c;
}

static json_t *pod_spec(struct arena *a, const struct container_settings *s,
                        enum container_format format)
{
    json_t *spec = json_object(), *groups = json_array();
    if (format != CONTAINER_DEPLOYMENT) {
        cdi_set(spec, "restartPolicy", document_text("Never"));
    }
    if (s->runtime_class.value) {
        cdi_set(spec, "runtimeClassName", document_text(s->runtime_class.value));
    }
    for (size_t i = 0; i < s->groups.n; i++) {
        cdi_append(groups, json_integer(atoll(s->groups.items[i].value)));
    }
    if (s->groups.n) {
        cdi_set(spec, "securityContext", json_pack("{s:O}", "supplementalGroups", groups));
    }
    json_decref(groups);
    if (format == CONTAINER_CLAIM && s->resource.value) {
        cdi_set(spec, "resourceClaims",
                json_pack("[{s:s, s:s}]", "name", "gpu", "resourceClaimTemplateName", "app-gpu"));
    }
    cdi_set(spec, "containers", json_pack("[o]", container_of(a, s, format)));
    set_unless_empty(spec, "volumes", volumes_of(a, s));
    return spec;
}

static json_t *pod(struct arena *a, const struct container_settings *s,
                   enum container_format format)
{
    return json_pack("{s:s, s:s, s:{s:s}, s:o}", "apiVersion", "v1", "kind", "Pod", "metadata",
                     "name", "app", "spec", pod_spec(a, s, format));
}

static json_t *deployment(struct arena *a, const struct container_settings *s)
{
    json_t *spec = json_pack("{s:i, s:{s:{s:s}}, s:{s:{s:{s:s}}, s:o}}", "replicas", 1, "selector",
                             "matchLabels", "app", "app", "template", "metadata", "labels", "app",
                             "app", "spec", pod_spec(a, s, CONTAINER_DEPLOYMENT));
    return json_pack("[{s:s, s:s, s:{s:s}, s:o}]", "apiVersion", "apps/v1", "kind", "Deployment",
                     "metadata", "name", "app", "spec", spec);
}

/* resource.k8s.io/v1 */
static json_t *claim(const struct container_settings *s)
{
    json_t *exactly = json_object();
    cdi_set(exactly, "deviceClassName", document_text(s->resource.value));
    if (wanted(s) > 1) {
        cdi_set(exactly, "count", json_integer((json_int_t)wanted(s)));
    }
    if (s->selector.value) {
        cdi_set(exactly, "selectors",
                json_pack("[{s:{s:o}}]", "cel", "expression", document_text(s->selector.value)));
    }
    return json_pack("{s:s, s:s, s:{s:s}, s:{s:{s:{s:[{s:s, s:o}]}}}}", "apiVersion",
                     "resource.k8s.io/v1", "kind", "ResourceClaimTemplate", "metadata", "name",
                     "app-gpu", "spec", "spec", "devices", "requests", "name", "gpu", "exactly",
                     exactly);
}

static json_t *claimed(struct arena *a, const struct container_settings *s)
{
    json_t *list = json_array();
    if (s->resource.value) {
        cdi_append(list, claim(s));
    }
    cdi_append(list, pod(a, s, CONTAINER_CLAIM));
    return list;
}

/* ------------------------------------------------------------------ Incus */

static json_t *incus_gpu(const struct container_device *d)
{
    json_t *device = json_pack("{s:s}", "type", "gpu");
    bool mig = starts_with(d->id, "MIG-");
    cdi_set(device, "gputype", document_text(mig ? "mig" : "physical"));
    if (mig) {
        cdi_set(device, "mig.uuid", document_text(d->id + strlen("MIG-")));
    }
    if (d->gpu && d->gpu->bdf) {
        cdi_set(device, "pci", document_text(d->gpu->bdf));
    }
    return device;
}

static json_t *incus_devices(struct arena *a, const struct container_settings *s)
{
    json_t *devices = json_object();
    for (size_t i = 0;
         i < s->pick->devices.n && s->gpu != CONTAINER_NO_GPU && s->gpu != CONTAINER_WSL; i++) {
        cdi_set(devices, arena_printf(a, "gpu%zu", i), incus_gpu(&s->pick->devices.items[i]));
    }
    for (size_t i = 0; i < s->devices.n; i++) { // /dev/kfd, /dev/dxg
        const char *path = s->devices.items[i].value;
        cdi_set(devices, path_base(path),
                json_pack("{s:s, s:s}", "type", "unix-char", "path", path));
    }
    for (size_t i = 0; i < s->mounts.n; i++) {
        cdi_set(devices, arena_printf(a, "library%zu", i),
                json_pack("{s:s, s:o, s:o, s:s}", "type", "disk", "source",
                          document_text(half(a, &s->mounts.items[i], false)), "path",
                          document_text(half(a, &s->mounts.items[i], true)), "readonly", "true"));
    }
    return devices;
}

static json_t *incus(struct arena *a, const struct container_settings *s)
{
    static const char capabilities[] = "NVIDIA_DRIVER_CAPABILITIES";
    json_t *config = json_object();
    if (s->runtime.value) {
        cdi_set(config, "nvidia.runtime", document_text(s->runtime.value));
    }
    for (size_t i = 0; i < s->env.n; i++) {
        const char *name = item_name(a, &s->env.items[i]);
        bool driver = strcmp(name, capabilities) == 0;
        cdi_set(config,
                driver ? "nvidia.driver.capabilities" : arena_printf(a, "environment.%s", name),
                document_text(item_value(a, &s->env.items[i])));
    }
    return json_pack("[{s:o, s:s, s:o}]", "config", config, "description", "the GPUs of this host",
                     "devices", incus_devices(a, s));
}

/* ------------------------------------------------------------------ devcontainer.json */

static json_t *devcontainer(struct arena *a, const struct container_settings *s)
{
    json_t *doc = json_pack("{s:s, s:o}", "name", "app", "image", document_text(s->subject));
    json_t *arguments = json_array(), *env = json_object(), *mounts = json_array();
    report_options list = report_form_options(a, s, CONTAINER_DOCKER);
    for (size_t i = 0; i < list.n; i++) {
        const char *flag = list.items[i].flag;
        if (strcmp(flag, "-e") != 0 && strcmp(flag, "-v") != 0) {
            cdi_append(arguments, document_text(flag));
            cdi_append(arguments, document_text(list.items[i].value));
        }
    }
    for (size_t i = 0; i < s->env.n; i++) {
        cdi_set(env, item_name(a, &s->env.items[i]),
                document_text(item_value(a, &s->env.items[i])));
    }
    for (size_t i = 0; i < s->mounts.n; i++) {
        cdi_append(mounts, document_text(arena_printf(a, "type=bind,source=%s,target=%s,readonly",
                                                      half(a, &s->mounts.items[i], false),
                                                      half(a, &s->mounts.items[i], true))));
    }
    /* Not hostRequirements.gpu: where its reader finds NVIDIA's runtime, it adds "--gpus all" to
     * the arguments below, and the container gets other GPUs than were chosen. */
    set_unless_empty(doc, "runArgs", arguments);
    cdi_set(doc, "containerEnv", env);
    set_unless_empty(doc, "mounts", mounts);
    return json_pack("[o]", doc);
}

json_t *report_form_documents(struct arena *a, const struct container_settings *s,
                              enum container_format format)
{
    return format == CONTAINER_COMPOSE        ? compose(a, s)
           : format == CONTAINER_KUBERNETES   ? json_pack("[o]", pod(a, s, format))
           : format == CONTAINER_DEPLOYMENT   ? deployment(a, s)
           : format == CONTAINER_CLAIM        ? claimed(a, s)
           : format == CONTAINER_INCUS        ? incus(a, s)
           : format == CONTAINER_DEVCONTAINER ? devcontainer(a, s)
                                              : NULL;
}
