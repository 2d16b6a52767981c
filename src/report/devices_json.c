/* The same machine as JSON (docs/json.md). */
#include <string.h>

#include "base/json.h"
#include "report/devices.h"

static json_t *fact_with(struct arena *a, const struct host_fact *f, json_t *value)
{
    json_t *o = json_object();
    json_put(o, "state", out_json_text(a, host_state_name(f->state)));
    json_put(o, "value", value);
    json_put(o, "where", out_json_text(a, f->where));
    json_put(o, "why", out_json_text(a, f->state == HOST_YES ? NULL : f->why));
    return o;
}

static void set_fact(struct arena *a, json_t *o, const char *key, const struct host_fact *f)
{
    json_put(o, key, fact_with(a, f, out_json_text(a, f->value)));
}

static void set_number(struct arena *a, json_t *o, const char *key, const struct host_fact *f)
{
    json_put(
        o, key,
        fact_with(a, f, f->state == HOST_YES ? json_integer((json_int_t)f->number) : json_null()));
}

struct named_fact {
    const char *key;
    const struct host_fact *fact;
    bool is_number;
};

static void set_facts(struct arena *a, json_t *o, const struct named_fact *facts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (facts[i].is_number) {
            set_number(a, o, facts[i].key, facts[i].fact);
        } else {
            set_fact(a, o, facts[i].key, facts[i].fact);
        }
    }
}

#define SET_FACTS(a, o, ...)                                                                       \
    do {                                                                                           \
        const struct named_fact list_[] = {__VA_ARGS__};                                           \
        set_facts((a), (o), list_, sizeof list_ / sizeof *list_);                                  \
    } while (0)

static json_t *devices_node_json(struct arena *a, const struct host_node *n)
{
    json_t *o = json_object();
    bool there = n->present.state == HOST_YES;
    json_put(o, "path", out_json_text(a, n->path));
    set_fact(a, o, "present", &n->present);
    set_fact(a, o, "usable", &n->usable);
    json_put(o, "major", there ? json_integer((json_int_t)n->major) : json_null());
    json_put(o, "minor", there ? json_integer((json_int_t)n->minor) : json_null());
    json_put(o, "mode",
             there ? out_json_text(a, arena_printf(a, "%04o", (unsigned)n->mode)) : json_null());
    json_put(o, "uid", there ? json_integer((json_int_t)n->uid) : json_null());
    json_put(o, "gid", there ? json_integer((json_int_t)n->gid) : json_null());
    json_put(o, "group", out_json_text(a, n->group));
    return o;
}

static json_t *nodes_json(struct arena *a, const struct host_node *nodes, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_add(list, devices_node_json(a, &nodes[i]));
    }
    return list;
}

static json_t *libraries_json(struct arena *a, const struct host_library *libs, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *o = json_object();
        json_put(o, "name", out_json_text(a, libs[i].name));
        json_put(o, "path", out_json_text(a, libs[i].path));
        json_put(o, "real", out_json_text(a, libs[i].real));
        json_put(o, "version", out_json_text(a, libs[i].version));
        json_add(list, o);
    }
    return list;
}

static json_t *devices_problems_json(struct arena *a, const struct host_problem *problems, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct host_problem *p = &problems[i];
        json_t *o = json_object();
        json_put(o, "id", out_json_text(a, p->id));
        json_put(o, "usable", out_json_text(a, host_state_name(p->state)));
        json_put(o, "text", out_json_text(a, p->text));
        json_put(o, "step", out_json_text(a, p->step));
        json_put(o, "command", out_json_text(a, p->command));
        json_add(list, o);
    }
    return list;
}

static json_t *hex(struct arena *a, uint32_t value, int digits)
{
    return out_json_text(a, arena_printf(a, "%0*x", digits, value));
}

static json_t *pci_json(struct arena *a, const struct host_gpu *g)
{
    if (!g->bdf) {
        return json_null();
    }
    json_t *o = json_object();
    json_put(o, "address", out_json_text(a, g->bdf));
    json_put(o, "vendor_id", hex(a, g->vendor_id, 4));
    json_put(o, "device_id", hex(a, g->device_id, 4));
    json_put(o, "subsystem_vendor_id", hex(a, g->subsystem_vendor_id, 4));
    json_put(o, "subsystem_device_id", hex(a, g->subsystem_device_id, 4));
    json_put(o, "revision", g->revision <= 0xff ? hex(a, g->revision, 2) : json_null());
    json_put(o, "class", g->class_id ? hex(a, g->class_id, 6) : json_null());
    return o;
}

/* Of each MIG instance the files that give access to it; null: of one it is not known. */
static json_t *mig_files_json(struct arena *a, const struct host_gpu *g)
{
    json_t *list = json_array();
    for (size_t i = 0; i < g->mig_caps.n; i++) {
        const struct host_mig_caps *c = &g->mig_caps.items[i];
        json_t *files = json_array();
        if (!c->gpu_instance || !c->compute_instance || g->nodes.n != 1) {
            json_decref(files);
            json_add(list, json_null());
            continue;
        }
        json_add(files, out_json_text(a, g->nodes.items[0].path));
        json_add(files, json_string(c->gpu_instance));
        json_add(files, json_string(c->compute_instance));
        json_add(list, files);
    }
    return list;
}

static json_t *gpu_json(struct arena *a, const struct host *h, const struct host_gpu *g)
{
    json_t *o = json_object();
    json_put(o, "vendor", out_json_text(a, host_vendor_name(g->vendor)));
    json_put(o, "name", out_json_text(a, g->name));
    json_put(o, "chip", out_json_text(a, g->chip));
    json_put(o, "kind", out_json_text(a, g->kind));
    json_put(o, "integrated", json_boolean(g->integrated));
    json_put(o, "usable", out_json_text(a, host_state_name(g->usable)));
    json_put(o, "sentence", out_json_text(a, report_device_sentence(a, h, g)));
    json_put(o, "problems", devices_problems_json(a, g->problems.items, g->problems.n));
    json_put(o, "pci", pci_json(a, g));
    SET_FACTS(a, o, {"driver", &g->driver, false}, {"architecture", &g->architecture, false},
              {"compute_capability", &g->compute_capability, false}, {"gfx", &g->gfx, false},
              {"compute_units", &g->compute_units, true}, {"memory_bytes", &g->memory, true},
              {"vram_bytes", &g->vram, true}, {"gtt_bytes", &g->gtt, true},
              {"partitions", &g->partitions, true}, {"numa_node", &g->numa_node, true},
              {"minor", &g->minor, true}, {"uuid", &g->uuid, false}, {"model", &g->model, false});
    if (strcmp(g->kind, "windows") == 0) {
        json_put(o, "driver_version", out_json_text(a, g->driver_version));
    }
    json_put(o, "model_memory_gib",
             g->model_memory_gib ? json_integer(g->model_memory_gib) : json_null());
    json_put(o, "mig", out_json_texts(a, g->mig.items, g->mig.n));
    json_put(o, "mig_files", mig_files_json(a, g));
    json_put(o, "nodes", nodes_json(a, g->nodes.items, g->nodes.n));
    return o;
}

static json_t *nvidia_json(struct arena *a, const struct host_nvidia *n)
{
    json_t *o = json_object();
    SET_FACTS(a, o, {"module", &n->module, false}, {"flavour", &n->flavour, false},
              {"module_on_disk", &n->module_on_disk, false}, {"uvm", &n->uvm, false},
              {"modify_nodes", &n->modify_nodes, false}, {"major", &n->major, true},
              {"uvm_major", &n->uvm_major, true}, {"nvidia_modprobe", &n->modprobe, false},
              {"persistence", &n->persistence, false}, {"nvswitches", &n->nvswitch, true},
              {"fabric_manager", &n->fabric_manager, false},
              {"fabric_manager_installed", &n->fabric_installed, false},
              {"versions_match", &n->versions_match, false});
    json_put(o, "libraries", libraries_json(a, n->libraries.items, n->libraries.n));
    json_put(o, "shadowed", libraries_json(a, n->shadowed.items, n->shadowed.n));
    json_put(o, "compat", libraries_json(a, n->compat.items, n->compat.n));
    json_put(o, "nodes", nodes_json(a, n->nodes.items, n->nodes.n));
    json_put(o, "cap_nodes", nodes_json(a, n->cap_nodes.items, n->cap_nodes.n));
    return o;
}

static json_t *amd_json(struct arena *a, const struct host_amd *amd)
{
    json_t *o = json_object(), *rocm = json_array();
    SET_FACTS(a, o, {"module", &amd->module, false}, {"kfd", &amd->kfd, false});
    json_put(o, "kfd_node", devices_node_json(a, &amd->kfd_node));
    for (size_t i = 0; i < amd->rocm.n; i++) {
        json_t *item = json_object();
        json_put(item, "prefix", out_json_text(a, amd->rocm.items[i].prefix));
        json_put(item, "version", out_json_text(a, amd->rocm.items[i].version));
        json_put(item, "rocblas_targets",
                 out_json_texts(a, amd->rocm.items[i].gfx.items, amd->rocm.items[i].gfx.n));
        json_add(rocm, item);
    }
    json_put(o, "rocm", rocm);
    json_put(o, "pip_rocm", out_json_texts(a, amd->pip_rocm.items, amd->pip_rocm.n));
    json_put(o, "libraries", libraries_json(a, amd->libraries.items, amd->libraries.n));
    return o;
}

static json_t *intel_json(struct arena *a, const struct host_intel *intel)
{
    json_t *o = json_object();
    SET_FACTS(a, o, {"i915", &intel->i915, false}, {"xe", &intel->xe, false});
    json_put(o, "libraries", libraries_json(a, intel->libraries.items, intel->libraries.n));
    return o;
}

static json_t *platforms_json(struct arena *a, const struct host *h)
{
    json_t *o = json_object();
    const struct host_wsl *w = &h->wsl;
    const struct host_tegra *t = &h->tegra;
    SET_FACTS(a, o, {"kernel", &h->kernel, false}, {"wsl", &w->is_wsl, false},
              {"wsl_dxg", &w->dxg, false}, {"wsl_driver", &w->driver, false},
              {"tegra", &t->is_tegra, false}, {"tegra_release", &t->release, false},
              {"tegra_jetpack", &t->jetpack, false}, {"tegra_soc", &t->soc, false});
    json_put(o, "wsl_libcuda", out_json_text(a, w->libcuda.path));
    json_put(o, "wsl_shadows", out_json_texts(a, w->shadows.items, w->shadows.n));
    return o;
}

static json_t *windows_json(struct arena *a, const struct host_windows *w)
{
    json_t *o = json_object(), *toolkits = json_array(), *users = json_array(), *hip = json_array();
    SET_FACTS(a, o, {"registry", &w->registry, false}, {"name", &w->name, false},
              {"build", &w->build, false}, {"safe_search", &w->safe_search, false},
              {"long_paths", &w->long_paths, false}, {"path", &w->path, false},
              {"nvcuda", &w->nvcuda, false}, {"runtime", &w->runtime, false});
    for (size_t i = 0; i < w->toolkits.n; i++) {
        const struct host_windows_toolkit *t = &w->toolkits.items[i];
        json_t *x = json_object();
        json_put(x, "kind", out_json_text(a, t->kind));
        json_put(x, "version", out_json_text(a, t->version));
        json_put(x, "path", out_json_text(a, t->path));
        json_add(toolkits, x);
    }
    for (size_t i = 0; i < w->users.n; i++) {
        json_t *x = json_object();
        json_put(x, "name", out_json_text(a, w->users.items[i].name));
        set_fact(a, x, "path", &w->users.items[i].path);
        json_add(users, x);
    }
    for (size_t i = 0; i < w->hip.n; i++) {
        json_add(hip, fact_with(a, &w->hip.items[i], out_json_text(a, w->hip.items[i].value)));
    }
    json_put(o, "hip", hip);
    json_put(o, "toolkits", toolkits);
    json_put(o, "users", users);
    json_put(o, "known_dlls", out_json_texts(a, w->known_dlls.items, w->known_dlls.n));
    return o;
}

static json_t *container_json(struct arena *a, const struct host_container *c)
{
    json_t *o = json_object();
    SET_FACTS(a, o, {"inside", &c->inside, false}, {"rootless", &c->rootless, false},
              {"device_cgroup", &c->device_cgroup, false}, {"label", &c->label, false});
    json_put(o, "injected_devices",
             out_json_texts(a, c->injected_devices.items, c->injected_devices.n));
    json_put(o, "injected_libraries",
             out_json_texts(a, c->injected_libraries.items, c->injected_libraries.n));
    return o;
}

static json_t *cpu_json(struct arena *a, const struct host_cpu *c)
{
    json_t *o = json_object();
    SET_FACTS(
        a, o, {"model", &c->model, false}, {"isa", &c->isa, false}, {"vectors", &c->vectors, false},
        {"cores", &c->cores, true}, {"cores_online", &c->cores_online, true},
        {"cores_affinity", &c->cores_affinity, true}, {"quota_thousandths", &c->quota, true},
        {"memory_bytes", &c->memory_total, true}, {"memory_limit_bytes", &c->memory_limit, true});
    return o;
}

static json_t *user_json(struct arena *a, const struct host_user *u)
{
    json_t *o = json_object(), *groups = json_array();
    set_number(a, o, "uid", &u->uid);
    for (size_t i = 0; i < u->groups.n; i++) {
        json_add(groups, json_integer((json_int_t)u->groups.items[i]));
    }
    json_put(o, "groups", groups);
    set_fact(a, o, "dac_override", &u->dac_override);
    return o;
}

static json_t *devices_engines_json(struct arena *a, const struct host_engines *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->list.n; i++) {
        const struct host_engine *e = &x->list.items[i];
        json_t *o = json_object(), *runtimes = json_array();
        json_put(o, "name", out_json_text(a, e->name));
        json_put(o, "kind", out_json_text(a, e->kind));
        json_put(o, "program", out_json_text(a, e->program));
        json_put(o, "settings", out_json_text(a, e->file));
        json_put(o, "default_runtime", out_json_text(a, e->default_runtime));
        for (size_t k = 0; k < e->runtimes.n; k++) {
            json_add(runtimes, out_json_text(a, e->runtimes.items[k].name));
        }
        json_put(o, "runtimes", runtimes);
        json_add(list, o);
    }
    return list;
}

static void set_machine(struct arena *a, json_t *doc, const struct host *h)
{
    static const char *const verdicts[] = {
        [HOST_YES] = "ok", [HOST_NO] = "broken", [HOST_UNKNOWN] = "unknown"};
    json_t *gpus = json_array(), *variables = json_object();
    json_put(doc, "verdict", out_json_text(a, verdicts[report_devices_verdict(h)]));
    for (size_t i = 0; i < h->gpus.n; i++) {
        json_add(gpus, gpu_json(a, h, &h->gpus.items[i]));
    }
    json_put(doc, "gpus", gpus);
    json_put(doc, "problems", devices_problems_json(a, h->problems.items, h->problems.n));
    json_put(doc, "other_displays",
             out_json_texts(a, h->other_displays.items, h->other_displays.n));
    set_fact(a, doc, "pci", &h->pci);
    json_put(doc, "nvidia", nvidia_json(a, &h->nvidia));
    json_put(doc, "amd", amd_json(a, &h->amd));
    json_put(doc, "intel", intel_json(a, &h->intel));
    json_put(doc, "platform", platforms_json(a, h));
    if (h->windows.is_windows.state == HOST_YES) {
        json_put(doc, "windows", windows_json(a, &h->windows));
    }
    json_put(doc, "container", container_json(a, &h->container));
    json_put(doc, "engines", devices_engines_json(a, &h->engines));
    json_put(doc, "cpu", cpu_json(a, &h->cpu));
    json_put(doc, "user", user_json(a, &h->user));
    set_fact(a, doc, "environment", &h->environment);
    for (size_t i = 0; i < h->variables.n; i++) {
        json_put(variables, h->variables.items[i].name,
                 out_json_text(a, h->variables.items[i].value));
    }
    json_put(doc, "variables", variables);
    json_put(doc, "notes", out_json_texts(a, h->notes.items, h->notes.n));
}

json_t *report_devices_json(struct arena *a, const struct host *h, const char *root)
{
    json_t *doc = json_object();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "root", out_json_text(a, root));
    set_machine(a, doc, h);
    return doc;
}

json_t *report_devices_facts(struct arena *a, const struct host *h)
{
    json_t *doc = json_object();
    set_machine(a, doc, h);
    return doc;
}
