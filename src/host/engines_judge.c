/*
 * What keeps containers from the GPUs that programs of the host itself can use. Only what the files
 * say for certain is a problem with the answer no; unknown is what depends on a version or a mode
 * that no file tells.
 */
#include <string.h>

#include "host/internal.h"

struct judge {
    struct host *h;
    struct arena *arena;
};

static struct host_problem *engines_problem(struct judge *j, const char *id, enum host_state state,
                                            const char *culprit, const char *text, const char *step)
{
    VEC_PUSH(j->arena, &j->h->problems,
             (struct host_problem){
                 .id = id, .state = state, .culprit = culprit, .text = text, .step = step});
    return &j->h->problems.items[j->h->problems.n - 1];
}

static bool host_serves(const struct host *h, enum host_vendor vendor)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if (g->vendor == vendor && host_gpu_counts(g) && g->usable != HOST_NO) {
            return true;
        }
    }
    return false;
}

static bool engine_is_kind(const struct host_engine *e, const char *name, const char *kind)
{
    return strcmp(e->name, name) == 0 && strcmp(e->kind, kind) == 0;
}

static const struct host_engine *engine(const struct host *h, const char *name, const char *kind)
{
    for (size_t i = 0; i < h->engines.list.n; i++) {
        if (engine_is_kind(&h->engines.list.items[i], name, kind)) {
            return &h->engines.list.items[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ the settings of an engine */

static const char *configure(struct judge *j, const struct host_engine *e)
{
    bool is_docker = strcmp(e->name, "docker") == 0;
    if (is_docker && strcmp(e->kind, "rootless") == 0) {
        return "nvidia-ctk runtime configure --runtime=docker "
               "--config=$HOME/.config/docker/daemon.json && systemctl --user restart docker";
    }
    return strcmp(e->kind, "package") == 0
               ? arena_printf(j->arena,
                              "sudo nvidia-ctk runtime configure --runtime=%s && sudo systemctl "
                              "restart %s",
                              e->name, e->name)
               : NULL;
}

/* A file of settings that is there and says nothing is no fault; one that is no JSON is. */
static bool settings_broken(struct judge *j, const struct host_engine *e)
{
    if (strcmp(e->name, "docker") != 0 || e->settings.state != HOST_NO ||
        !strstr(e->settings.why, "JSON")) {
        return false;
    }
    engines_problem(
        j, "engine-settings-broken", HOST_NO, e->file,
        arena_printf(j->arena, "%s cannot be read by docker, which does not start with it: %s",
                     e->file, e->settings.why),
        arena_printf(j->arena,
                     "correct %s (python3 -m json.tool %s says where), and start docker "
                     "again",
                     e->file, e->file));
    return true;
}

static void runtimes_of(struct judge *j, const struct host_engine *e)
{
    const char *fallback = e->default_runtime;
    bool defined = false;
    for (size_t i = 0; i < e->runtimes.n; i++) {
        const struct host_runtime *r = &e->runtimes.items[i];
        defined |= fallback && strcmp(r->name, fallback) == 0;
        if (r->present.state == HOST_NO) {
            engines_problem(
                j, "runtime-gone", HOST_NO, r->name,
                arena_printf(j->arena, "%s registers the runtime %s as %s, which does not exist",
                             e->file, r->name, r->path),
                "install the NVIDIA Container Toolkit, or remove the runtime from the settings")
                ->command = NULL;
        }
    }
    if (fallback && starts_with(fallback, "nvidia") && !defined && !e->elsewhere &&
        e->settings.state == HOST_YES) {
        struct host_problem *p = engines_problem(
            j, "runtime-undefined", HOST_NO, fallback,
            arena_printf(j->arena, "%s makes the runtime %s the default and does not register it",
                         e->file, fallback),
            "register it");
        p->command = configure(j, e);
        p->step = p->command ? p->command : p->step;
    }
}

static bool uses_toolkit(const struct host *h, const struct host_engine *e)
{
    return strcmp(e->name, "docker") == 0
               ? strcmp(e->kind, "package") == 0 || strcmp(e->kind, "rootless") == 0
               : strcmp(e->kind, "package") == 0 && h->engines.kubelet.state == HOST_YES;
}

static const char *setup_toolkit(struct judge *j, const char *engine)
{
    const char *install = host_install_container_tools(j->h, j->arena, "nvidia-container-toolkit");
    return install ? arena_printf(j->arena,
                                  "%s && sudo nvidia-ctk runtime configure --runtime=%s "
                                  "&& sudo "
                                  "systemctl restart %s",
                                  install, engine, engine)
                   : NULL;
}

static void toolkit_missing(struct judge *j)
{
    const struct host_engines *x = &j->h->engines;
    const char *who = NULL;
    for (size_t i = 0; i < x->list.n; i++) {
        const struct host_engine *e = &x->list.items[i];
        who = !who && uses_toolkit(j->h, e) && e->runtimes.n == 0 ? e->name : who;
    }
    if (who && x->toolkit.program.state == HOST_NO && x->specification.state == HOST_NO &&
        x->desktop_of_windows.state != HOST_YES) {
        engines_problem(
            j, "toolkit-missing", HOST_UNKNOWN, "nvidia-container-toolkit",
            arena_printf(j->arena,
                         "%s is installed here and the NVIDIA Container Toolkit is not: containers "
                         "get no NVIDIA GPU",
                         who),
            "where containers should have the GPU: install nvidia-container-toolkit (its packages "
            "come from NVIDIA's own repository)")
            ->command = setup_toolkit(j, who);
    }
}

/* ------------------------------------------------------------------ which engine */

/* The runtime was set up in the file of an engine that is not there. */
static void settings_unread(struct judge *j)
{
    const struct host_engines *x = &j->h->engines;
    const struct host_engine *snap = engine(j->h, "docker", "snap");
    const struct host_engine *rootless = engine(j->h, "docker", "rootless");
    const struct host_engine *e = snap ? snap : rootless;
    if (!x->foreign_runtimes.n || !e || e->runtimes.n || e->settings.state == HOST_UNKNOWN) {
        return;
    }
    engines_problem(
        j, "engine-settings-unread", HOST_NO, "/etc/docker/daemon.json",
        arena_printf(j->arena,
                     "/etc/docker/daemon.json registers the runtime %s, and the docker that is "
                     "here (%s) reads %s, which does not",
                     x->foreign_runtimes.items[0], snap ? "the snap" : "in rootless mode", e->file),
        snap ? "install Docker Engine in the place of the snap, which cannot use the host's toolkit"
             : configure(j, e))
        ->command = snap ? NULL : configure(j, e);
}

static void desktop(struct judge *j)
{
    const struct host_engine *e = engine(j->h, "docker", "desktop");
    const struct host_engines *x = &j->h->engines;
    bool alone = !engine(j->h, "docker", "package") && !engine(j->h, "docker", "snap") &&
                 !engine(j->h, "docker", "rootless");
    bool chosen = x->desktop_chosen.state == HOST_YES;
    if (!e || (!alone && !chosen)) {
        return;
    }
    engines_problem(
        j, "engine-in-machine", HOST_NO, "docker-desktop",
        chosen ? "Docker Desktop is the context in use, and runs its containers in a virtual "
                 "machine that has no GPU of this host"
               : "Docker Desktop is the only docker here, and runs its containers in a virtual "
                 "machine that has no GPU of this host",
        alone ? "install Docker Engine, which runs them on the host itself"
              : "docker context use default")
        ->command = alone ? NULL : "docker context use default";
}

/* ------------------------------------------------------------------ the settings of the toolkit */

/* From 1.18 on the toolkit makes its own CDI specification where it may, and then leaves cgroups to
 * the engine. */
static enum host_state old_toolkit(const struct host_toolkit *t)
{
    return !t->version                                ? HOST_UNKNOWN
           : host_version_cmp(t->version, "1.18") < 0 ? HOST_YES
                                                      : HOST_NO;
}

static void cgroups(struct judge *j)
{
    const struct host_toolkit *t = &j->h->engines.toolkit;
    bool rootful = engine(j->h, "docker", "package") != NULL;
    bool rootless = engine(j->h, "docker", "rootless") != NULL;
    enum host_state old = old_toolkit(t);
    bool off = t->no_cgroups.state == HOST_YES;
    if (t->settings.state != HOST_YES || t->program.state != HOST_YES || rootful == rootless ||
        off != rootful || old == HOST_NO || (t->mode && strcmp(t->mode, "cdi") == 0)) {
        return;
    }
    engines_problem(
        j, "toolkit-cgroups", old == HOST_YES ? HOST_NO : HOST_UNKNOWN, t->settings.where,
        off ? arena_printf(j->arena,
                           "%s has no-cgroups = true, which is for rootless engines: docker's "
                           "containers have the nodes but may not use them",
                           t->settings.where)
            : arena_printf(j->arena,
                           "%s does not set no-cgroups = true, but docker runs rootless here: the "
                           "toolkit may not change the device cgroup, so no container starts",
                           t->settings.where),
        off ? "set it to false" : "set it to true")
        ->command =
        arena_printf(j->arena,
                     "sudo nvidia-ctk config --set "
                     "nvidia-container-cli.no-cgroups=%s --in-place%s",
                     off ? "false" : "true", off ? " && sudo systemctl restart docker" : "");
}

/* From 1.14 on the toolkit takes ldconfig itself where its ".real" is not there. */
static void ldconfig(struct judge *j)
{
    const struct host_toolkit *t = &j->h->engines.toolkit;
    const struct host_fact *f = &t->ldconfig_present;
    if (f->state != HOST_NO || t->program.state != HOST_YES) {
        return;
    }
    bool nearly = f->value != NULL;
    if (nearly && (!t->version || host_version_cmp(t->version, "1.14") >= 0)) {
        return;
    }
    engines_problem(j, "toolkit-ldconfig", HOST_NO, t->settings.where,
                    arena_printf(j->arena,
                                 "%s names %s as the host's ldconfig, which does not exist",
                                 t->settings.where, t->ldconfig + 1),
                    arena_printf(j->arena, "name the one that exists: %s",
                                 nearly ? f->value : "/sbin/ldconfig"))
        ->command = arena_printf(j->arena,
                                 "sudo nvidia-ctk config --set "
                                 "nvidia-container-cli.ldconfig=@%s --in-place",
                                 nearly ? f->value : "/sbin/ldconfig");
}

static bool host_has_library(const struct host *h, const char *name)
{
    for (size_t i = 0; i < h->nvidia.libraries.n; i++) {
        if (strcmp(h->nvidia.libraries.items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void driver_root(struct judge *j)
{
    const struct host_toolkit *t = &j->h->engines.toolkit;
    if (t->program.state != HOST_YES) {
        return;
    }
    if (t->root && t->root_driver.state == HOST_NO) {
        engines_problem(
            j, "toolkit-root", HOST_NO, t->settings.where,
            arena_printf(
                j->arena,
                "%s makes the toolkit search for the driver below %s, which does not exist",
                t->settings.where, t->root),
            "remove the line if the driver is the host's own")
            ->command = "sudo nvidia-ctk config --set nvidia-container-cli.root=/ --in-place";
    } else if ((!t->root || strcmp(t->root, "/") == 0) && host_has_library(j->h, "libcuda.so.1") &&
               !host_has_library(j->h, "libnvidia-ml.so.1") && j->h->wsl.is_wsl.state != HOST_YES &&
               j->h->tegra.is_tegra.state != HOST_YES) {
        engines_problem(
            j, "toolkit-without-nvml", HOST_NO, "libnvidia-ml.so.1",
            "the driver's libnvidia-ml.so.1 is not installed, without which the NVIDIA Container "
            "Toolkit starts nothing",
            arena_printf(j->arena,
                         "install the driver's NVML of version %s (Debian: libnvidia-ml1)",
                         j->h->nvidia.module.value ? j->h->nvidia.module.value : "of the module"));
    }
}

/* Debian, Ubuntu and the others have version 2 of cgroups and systemd, and docker then takes
 * systemd as its driver of cgroups (dockerd(8), native.cgroupdriver). */
static void links(struct judge *j)
{
    const struct host_engine *e = engine(j->h, "docker", "package");
    const struct host_engines *x = &j->h->engines;
    const struct host_toolkit *t = &x->toolkit;
    bool by_systemd = e && e->cgroup_driver && strcmp(e->cgroup_driver, "systemd") == 0;
    bool by_default =
        e && !e->cgroup_driver && !e->elsewhere && j->h->container.device_cgroup.state != HOST_YES;
    if (!(by_systemd || by_default) || x->systemd.state != HOST_YES ||
        x->char_links.state != HOST_NO || t->program.state != HOST_YES ||
        (t->mode && strcmp(t->mode, "cdi") == 0) || old_toolkit(t) == HOST_NO ||
        j->h->wsl.is_wsl.state == HOST_YES || j->h->tegra.is_tegra.state == HOST_YES) {
        return;
    }
    engines_problem(
        j, "device-links-missing", HOST_UNKNOWN, "/dev/char",
        "/dev/char has no links to the driver's nodes: a systemd daemon-reload may take the GPU "
        "away from running docker containers",
        "create the links (again after each boot), and name the nodes with --device; or use CDI")
        ->command = "sudo nvidia-ctk system create-dev-char-symlinks --create-all";
}

/* ------------------------------------------------------------------ the questions */

void host_judge_engines(struct host *h, struct arena *a)
{
    static void (*const questions[])(struct judge *) = {
        settings_unread, desktop, cgroups, ldconfig, driver_root, links, toolkit_missing};
    struct judge j = {h, a};
    bool nvidia = host_serves(h, HOST_NVIDIA);
    for (size_t i = 0; nvidia && i < h->engines.list.n; i++) {
        const struct host_engine *e = &h->engines.list.items[i];
        if (!settings_broken(&j, e)) {
            runtimes_of(&j, e);
        }
    }
    for (size_t i = 0; nvidia && i < sizeof questions / sizeof *questions; i++) {
        questions[i](&j);
    }
    if (!nvidia && host_serves(h, HOST_AMD)) {
        desktop(&j);
    }
}
