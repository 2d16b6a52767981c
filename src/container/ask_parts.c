/* What the forms of a container have in common: nodes, capabilities, the engine's repair. */
#include <string.h>

#include "container/ask.h"
#include "container/internal.h"

void container_repair_engine(struct container_work *w)
{
    static const struct {
        enum container_way way;
        const char *problems; // glob
    } rows[] = {
        {CONTAINER_BY_TOOLKIT, "engine-*"},        {CONTAINER_BY_TOOLKIT, "runtime-*"},
        {CONTAINER_BY_TOOLKIT, "toolkit-[clrw]*"}, {CONTAINER_BY_NAME, "cdi"},
        {CONTAINER_BY_PLUGIN, "runtime-*"},        {CONTAINER_BY_PLUGIN, "toolkit-[lrw]*"},
    };
    const struct host *h = w->q->host;
    for (size_t i = 0; i < h->problems.n; i++) {
        const struct host_problem *p = &h->problems.items[i];
        const char *step = p->command ? p->command : p->step;
        for (size_t k = 0; step && k < sizeof rows / sizeof *rows; k++) {
            if (rows[k].way == container_format_way(w->q->format) &&
                str_glob(rows[k].problems, p->id)) {
                container_add(w, &w->s->first, step, p->text);
            }
        }
    }
}

static bool is_picked(const struct container_work *w, const struct host_gpu *g)
{
    const struct container_pick *p = w->s->pick;
    bool is = p->all;
    for (size_t i = 0; i < p->devices.n && !is; i++) {
        is = p->devices.items[i].gpu == g;
    }
    return is;
}

/* Whether a list such as "compute,utility" has the word, or has all. */
static bool list_has_word(const char *list, struct str word)
{
    for (struct str rest = str_of(list); rest.s;) {
        struct str one = str_trim(str_cut(&rest, ','));
        if (str_eq(one, word) || str_is(one, "all")) {
            return true;
        }
    }
    return false;
}

/* The words that the toolkit knows; it starts no container for another one (NVIDIA/
 * nvidia-container-toolkit, internal/config/image/capabilities.go). */
static bool is_capability(struct str word)
{
    static const char *const known[] = {"all",      "compute", "compat32", "display",
                                        "graphics", "ngx",     "utility",  "video"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (str_is(word, known[i])) {
            return true;
        }
    }
    return false;
}

/* What the image states, with the words that it lacks; NULL: it lacks none. */
static const char *with_capabilities(struct container_work *w, const char *needed)
{
    const char *own = container_own_value(w, "NVIDIA_DRIVER_CAPABILITIES"), *list = NULL;
    const char *all = own && *own ? arena_printf(w->a, "%s,%s", own, needed) : needed;
    for (struct str rest = str_of(all); rest.s;) {
        struct str word = str_trim(str_cut(&rest, ','));
        if (is_capability(word) && !(list && list_has_word(list, word))) {
            list = arena_printf(w->a, "%s%s%.*s", list ? list : "", list ? "," : "", (int)word.n,
                                word.s);
        }
    }
    return own && strcmp(own, list) == 0 ? NULL : list;
}

void container_add_capabilities(struct container_work *w)
{
    static const char *const video[] = {"torchcodec", "PyNvVideoCodec",      "pynvvideocodec",
                                        "decord",     "nvidia-dali-cuda120", "nvidia-dali-cuda130",
                                        "VPF"};
    const char *who = NULL, *asked = diag_driver_capabilities(w->q->model, &who);
    if (!asked && container_uses_package(w->q->model, video, sizeof video / sizeof *video, &who)) {
        asked = ",video";
    }
    const char *value =
        with_capabilities(w, arena_printf(w->a, "compute,utility%s", asked ? asked : ""));
    if (value) {
        container_set(
            w, "NVIDIA_DRIVER_CAPABILITIES", value,
            asked ? arena_printf(w->a,
                                 "libcuda (compute), nvidia-smi and NVML (utility), and what "
                                 "%s asks for beside them: without it they are not injected",
                                 who)
                  : "libcuda (compute), and nvidia-smi and NVML (utility): an image that sets "
                    "less gets less of the driver");
    }
}

void container_work_add_node(struct container_work *w, const struct host_node *n,
                             const char *reason)
{
    if (n->present.state != HOST_YES) {
        return;
    }
    container_add(w, &w->s->devices, n->path, reason);
    if (n->gid && (n->mode & 0006) != 0006) {
        bool keep = container_format_way(w->q->format) == CONTAINER_BY_NAME && w->q->rootless;
        container_add(
            w, &w->s->groups,
            keep ? "keep-groups" : arena_printf(w->a, "%llu", (unsigned long long)n->gid),
            keep ? "without root the engine can pass on only the groups that you have (this needs "
                   "the runtime crun)"
                 : arena_printf(w->a,
                                "the group of %s%s%s%s here, by number: a name may stand for "
                                "another number in the image",
                                n->path, n->group ? " (" : "", n->group ? n->group : "",
                                n->group ? ")" : ""));
    }
}

void container_add_nodes(struct container_work *w, enum host_vendor vendor, const char *reason)
{
    const struct host *h = w->q->host;
    bool any = false;
    for (size_t i = 0; i < h->gpus.n; i++) {
        any |= h->gpus.items[i].vendor == vendor && host_gpu_counts(&h->gpus.items[i]);
    }
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        bool counts = g->vendor == vendor && (!any || host_gpu_counts(g)) && is_picked(w, g);
        for (size_t k = 0; counts && k < g->nodes.n; k++) {
            container_work_add_node(w, &g->nodes.items[k], reason);
        }
    }
}
