/*
 * The container engines of this machine and what their settings say of GPUs. What is read:
 *
 *   docker       /etc/docker/daemon.json; Canonical's snap has its own below /var/snap/docker; in
 *                rootless mode $HOME/.config/docker/daemon.json counts, and Docker Desktop keeps
 *                its own in a virtual machine (dockerd(8), "Daemon configuration file"; Docker's
 *                manual, "Rootless mode"). Options of the command line that set a runtime or
 *                another file stand in the unit of systemd.
 *   containerd   /etc/containerd/config.toml and what it imports (containerd-config.toml(5)), that
 *                of k3s where k3s runs it
 *   CRI-O        /etc/crio/crio.conf and crio.conf.d (crio.conf(5))
 *   the toolkit  /etc/nvidia-container-runtime/config.toml
 *
 * Inside a container there is nothing to see: the engine is the host's.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/json.h"
#include "host/internal.h"
#include "host/toml.h"

static const char *const program_folders[] = {
    "/usr/bin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/local/nvidia/toolkit",
    "/run/current-system/sw/bin",
};

static bool engine_is_there(struct host_look *l, const char *path)
{
    struct stat st;
    return root_stat(l->root, path, &st) == 0;
}

/* The path of a program in the folders of a service's PATH, or NULL. */
static const char *program_of(struct host_look *l, const char *name)
{
    for (size_t i = 0; i < sizeof program_folders / sizeof *program_folders; i++) {
        const char *path = path_join(l->arena, program_folders[i], name);
        if (engine_is_there(l, path)) {
            return path;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ runtimes */

static struct host_fact program_fact(struct host_look *l, const char *path)
{
    if (!path) {
        return host_unknown(NULL, "its program is not stated");
    }
    if (*path == '/') {
        return host_presence(l, path, "/usr");
    }
    const char *found = program_of(l, path);
    return found ? host_yes(found, NULL) : host_no(path, "it is in no folder of programs");
}

static struct host_runtime *runtime_named(struct host_look *l, struct host_engine *e,
                                          const char *name)
{
    for (size_t i = 0; i < e->runtimes.n; i++) {
        if (strcmp(e->runtimes.items[i].name, name) == 0) {
            return &e->runtimes.items[i];
        }
    }
    VEC_PUSH(l->arena, &e->runtimes, (struct host_runtime){.name = name});
    return &e->runtimes.items[e->runtimes.n - 1];
}

static bool is_toolkits(const char *name)
{
    return starts_with(name, "nvidia");
}

static void judge_programs(struct host_look *l, struct host_engine *e)
{
    for (size_t i = 0; i < e->runtimes.n; i++) {
        e->runtimes.items[i].present = program_fact(l, e->runtimes.items[i].path);
    }
}

/* ------------------------------------------------------------------ docker */

static const char *kept_text(struct host_look *l, const json_t *value)
{
    const char *text = json_string_value(value);
    return text ? arena_strdup(l->arena, text) : NULL;
}

static void take_daemon_json(struct host_look *l, struct host_engine *e, const json_t *doc)
{
    static const char driver[] = "native.cgroupdriver=";
    json_t *runtimes = json_object_get(doc, "runtimes"), *value, *option;
    const char *name;
    size_t i;
    json_object_foreach(runtimes, name, value)
    {
        const char *path = kept_text(l, json_object_get(value, "path"));
        if (is_toolkits(name)) { // with "runtimeType" no program is stated
            runtime_named(l, e, arena_strdup(l->arena, name))->path = path;
        }
    }
    e->default_runtime = kept_text(l, json_object_get(doc, "default-runtime"));
    json_array_foreach(json_object_get(doc, "exec-opts"), i, option)
    {
        const char *text = kept_text(l, option);
        if (text && starts_with(text, driver)) {
            e->cgroup_driver = text + sizeof driver - 1;
        }
    }
}

static json_t *engine_json(struct str text)
{
    json_error_t error;
    return json_loadb(text.s, text.n, 0, &error);
}

static void read_daemon_json(struct host_look *l, struct host_engine *e)
{
    struct str text;
    e->settings = host_presence(l, e->file, "/");
    if (e->settings.state != HOST_YES) {
        return;
    }
    int rc = host_read(l, e->file, &text);
    if (rc < 0) {
        e->settings = host_unknown(e->file, host_why(l, rc));
        return;
    }
    if (str_trim(text).n == 0) {
        return; // dockerd takes an empty file
    }
    if (!str_is_utf8(text.s, text.n) || str_starts(text, "\xef\xbb\xbf")) {
        e->settings = host_unknown(e->file, "it is in an encoding that is not read here");
        return; // dockerd knows more of them
    }
    json_t *doc = engine_json(text);
    if (json_is_object(doc)) {
        take_daemon_json(l, e, doc);
    } else {
        e->settings = host_no(e->file, "it is not a JSON object");
    }
    json_decref(doc);
    judge_programs(l, e);
}

/* Options of the daemon's command line that stand before the file. */
static bool has_options(struct host_look *l)
{
    static const char *const files[] = {
        "/lib/systemd/system/docker.service", "/usr/lib/systemd/system/docker.service",
        "/etc/systemd/system/docker.service", "/etc/default/docker", "/etc/sysconfig/docker"};
    static const char folder[] = "/etc/systemd/system/docker.service.d";
    static const char *const words[] = {"--add-runtime", "--config-file", "--default-runtime",
                                        "native.cgroupdriver"};
    struct root_dir more = host_entries(l, folder, "*.conf");
    size_t n = sizeof files / sizeof *files;
    for (size_t i = 0; i < n + more.n; i++) {
        const char *path = i < n ? files[i] : path_join(l->arena, folder, more.names[i - n]);
        struct str text;
        int rc = host_read(l, path, &text);
        for (size_t k = 0; rc == 0 && k < sizeof words / sizeof *words; k++) {
            if (str_find(text, words[k]) < text.n) {
                return true;
            }
        }
    }
    return false;
}

static struct host_engine *add_engine(struct host_look *l, const char *name, const char *kind,
                                      const char *program, const char *file)
{
    VEC_PUSH(l->arena, &l->host->engines.list,
             (struct host_engine){.name = name,
                                  .kind = kind,
                                  .program = program,
                                  .file = file,
                                  .settings = host_unknown(NULL, "they were not looked for")});
    return &l->host->engines.list.items[l->host->engines.list.n - 1];
}

static const char *home_of(struct host_look *l)
{
    struct str home;
    return host_parse_environ(l->environ, "HOME", &home) && home.n && home.s[0] == '/'
               ? str_dup(l->arena, home)
               : NULL;
}

/* A daemon of a user: its socket lies in the folder that the session has at run time. */
static void find_rootless(struct host_look *l)
{
    struct root_dir users = host_entries(l, "/run/user", "*");
    const char *home = home_of(l);
    for (size_t i = 0; i < users.n; i++) {
        const char *socket = arena_printf(l->arena, "/run/user/%s/docker.sock", users.names[i]);
        uint64_t uid;
        if (!engine_is_there(l, socket)) {
            continue;
        }
        bool own = str_u64(str_of(users.names[i]), &uid) && home &&
                   l->host->user.uid.state == HOST_YES && l->host->user.uid.number == uid;
        struct host_engine *e =
            add_engine(l, "docker", "rootless", socket,
                       own ? path_join(l->arena, home, ".config/docker/daemon.json") : NULL);
        if (e->file) {
            read_daemon_json(l, e);
        }
    }
}

static void find_desktop(struct host_look *l)
{
    const char *home = home_of(l);
    struct host_engines *x = &l->host->engines;
    struct str text;
    x->desktop_of_windows = host_presence(l, "/mnt/wsl/docker-desktop", "/mnt");
    x->desktop_chosen = host_unknown(NULL, "whose choice counts is not known");
    if (!engine_is_there(l, "/opt/docker-desktop")) {
        x->desktop_chosen = host_no("/opt/docker-desktop", "it is not installed");
        return;
    }
    (void)add_engine(l, "docker", "desktop", "/opt/docker-desktop", NULL);
    const char *path = home ? path_join(l->arena, home, ".docker/config.json") : NULL;
    if (path && host_read(l, path, &text) == 0) {
        json_t *doc = engine_json(text);
        const char *context = json_text(doc, "currentContext");
        x->desktop_chosen = context && strcmp(context, "desktop-linux") == 0
                                ? host_yes(path, NULL)
                                : host_no(path, "the context is another");
        json_decref(doc);
    }
}

static void find_docker(struct host_look *l)
{
    static const char file[] = "/etc/docker/daemon.json";
    const char *program = program_of(l, "dockerd");
    struct host_engines *x = &l->host->engines;
    if (program) {
        struct host_engine *e = add_engine(l, "docker", "package", program, file);
        e->elsewhere = has_options(l);
        read_daemon_json(l, e);
    }
    if (engine_is_there(l, "/snap/docker/current")) {
        read_daemon_json(l, add_engine(l, "docker", "snap", "/snap/docker/current",
                                       "/var/snap/docker/current/config/daemon.json"));
    }
    find_rootless(l);
    find_desktop(l);
    if (!program && x->list.n) {
        struct host_engine nobody = {.file = file};
        read_daemon_json(l, &nobody);
        for (size_t i = 0; i < nobody.runtimes.n; i++) {
            VEC_PUSH(l->arena, &x->foreign_runtimes, nobody.runtimes.items[i].name);
        }
    }
}

/* ------------------------------------------------------------------ containerd, CRI-O */

/* "plugins.io.containerd.cri.v1.runtime.containerd.runtimes.nvidia.options.BinaryName" and
 * "crio.runtime.runtimes.nvidia.runtime_path" -> nvidia */
static const char *runtime_in(struct host_look *l, const char *key)
{
    static const char word[] = ".runtimes.";
    const char *at = strstr(key, word);
    if (!at) {
        return NULL;
    }
    struct str rest = str_of(at + sizeof word - 1);
    return str_dup(l->arena, str_cut(&rest, '.'));
}

static void take_setting(struct host_look *l, struct host_engine *e, const struct host_toml *t)
{
    const char *name = runtime_in(l, t->key);
    if (name && is_toolkits(name)) {
        struct host_runtime *r = runtime_named(l, e, name);
        if (ends_with(t->key, ".BinaryName") || ends_with(t->key, ".runtime_path")) {
            r->path = t->value;
        }
    }
    if (ends_with(t->key, ".default_runtime_name") ||
        strcmp(t->key, "crio.runtime.default_runtime") == 0) {
        e->default_runtime = t->value;
    }
    if (ends_with(t->key, ".SystemdCgroup") && strcmp(t->value, "true") == 0) {
        e->cgroup_driver = "systemd";
    }
    e->elsewhere |= strcmp(t->key, "imports") == 0;
}

static void note_lines(struct host_look *l, const struct host_toml *t, const char *path)
{
    if (t->lines > HOST_TOML_LINES_MAX && t->rest.n) {
        root_note_cut(l->root, "%s has more than %d lines; the others were not read", path,
                      HOST_TOML_LINES_MAX);
    }
}

static bool take_settings(struct host_look *l, struct host_engine *e, const char *path)
{
    struct str text;
    int rc = host_read(l, path, &text);
    if (rc < 0) {
        e->settings = engine_is_there(l, path) || rc != -ENOENT
                          ? host_unknown(path, host_why(l, rc))
                          : host_no(path, "it is not there");
        return false;
    }
    struct host_toml t = {.rest = text};
    e->settings = host_yes(path, NULL);
    while (host_toml_next(&t, l->arena)) {
        take_setting(l, e, &t);
    }
    note_lines(l, &t, path);
    return true;
}

/* What may stand in further files: where `nvidia-ctk runtime configure` writes, and CRI-O's own. */
static void engine_take_folder(struct host_look *l, struct host_engine *e, const char *folder,
                               const char *pattern)
{
    struct host_fact own = e->settings;
    struct root_dir files = host_entries(l, folder, pattern);
    for (size_t i = 0; i < files.n; i++) {
        (void)take_settings(l, e, path_join(l->arena, folder, files.names[i])); // said in it
        own = e->settings.state == HOST_UNKNOWN || own.state == HOST_NO ? e->settings : own;
    }
    e->settings = own;
}

static void find_containerd(struct host_look *l)
{
    const char *program = program_of(l, "containerd");
    const char *k3s = program_of(l, "k3s");
    if (program) {
        struct host_engine *e =
            add_engine(l, "containerd", "package", program, "/etc/containerd/config.toml");
        if (take_settings(l, e, e->file) && e->elsewhere) {
            engine_take_folder(l, e, "/etc/containerd/conf.d", "*.toml");
        }
        judge_programs(l, e);
    }
    if (k3s) {
        struct host_engine *e = add_engine(l, "containerd", "k3s", k3s,
                                           "/var/lib/rancher/k3s/agent/etc/containerd/config.toml");
        (void)take_settings(l, e, e->file); // said in it
        judge_programs(l, e);
    }
}

static void find_crio(struct host_look *l)
{
    const char *program = program_of(l, "crio");
    if (!program) {
        return;
    }
    struct host_engine *e = add_engine(l, "crio", "package", program, "/etc/crio/crio.conf");
    (void)take_settings(l, e, e->file); // said in it
    engine_take_folder(l, e, "/etc/crio/crio.conf.d", "*");
    judge_programs(l, e);
}

/* ------------------------------------------------------------------ the toolkit */

/* The version of a package that dpkg has installed, "1.17.8" of "1.17.8-1"; NULL: not known. */
static const char *package_version(struct host_look *l, const char *package)
{
    enum { STATUS_MAX = 64 << 20 };
    const char *start = arena_printf(l->arena, "\nPackage: %s\n", package);
    struct str status, line;
    if (root_read(l->root, l->arena, "/var/lib/dpkg/status", STATUS_MAX, &status) < 0) {
        return NULL;
    }
    size_t at = str_find(status, start);
    if (str_starts(status, start + 1)) {
        at = 0;
    } else if (at == status.n) {
        return NULL;
    }
    struct str rest = {status.s + at + 1, status.n - at - 1};
    while (str_line(&rest, &line) && line.n) {
        struct str key = str_cut(&line, ':');
        if (str_is(key, "Version")) {
            line = str_trim(line);
            return str_dup(l->arena, str_cut(&line, '-'));
        }
    }
    return NULL;
}

static struct host_fact driver_below(struct host_look *l, const char *top)
{
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu",
                                          "/usr/lib/aarch64-linux-gnu",
                                          "/usr/lib64",
                                          "/usr/lib",
                                          "/lib64",
                                          "/usr/lib64/nvidia"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *path = arena_printf(l->arena, "%s%s/libnvidia-ml.so.1", top, folders[i]);
        if (engine_is_there(l, path)) {
            return host_yes(path, NULL);
        }
    }
    struct host_fact fact = host_presence(l, top, "/");
    return fact.state == HOST_YES
               ? host_unknown(top, "libnvidia-ml.so.1 is not in its usual folders")
               : fact;
}

/* A path behind '@' is the host's; toolkits take the ".real" of a wrapper's name away or add it. */
static struct host_fact ldconfig_fact(struct host_look *l, const char *written)
{
    if (!written || *written != '@') {
        return host_unknown(NULL, "it is the container's own");
    }
    struct host_fact fact = host_presence(l, written + 1, "/");
    struct str name = str_of(written + 1);
    if (fact.state == HOST_NO && str_ends(name, ".real")) {
        const char *other = str_dup(l->arena, (struct str){name.s, name.n - 5});
        fact.value = engine_is_there(l, other) ? other : NULL;
    }
    return fact;
}

static void read_toolkit(struct host_look *l)
{
    static const char *const programs[] = {
        "nvidia-container-runtime-hook", "nvidia-cdi-hook",
        "nvidia-container-runtime",      "nvidia-ctk",
        "nvidia-container-cli",          "nvidia-container-toolkit"};
    static const char path[] = "/etc/nvidia-container-runtime/config.toml";
    struct host_toolkit *t = &l->host->engines.toolkit;
    struct str text;
    t->program = host_presence(l, "/usr/bin", "/");
    t->program = t->program.state == HOST_YES ? host_no("/usr/bin", "none of its programs exists")
                                              : host_unknown("/usr/bin", "it cannot be seen");
    for (size_t i = 0; i < sizeof programs / sizeof *programs && t->program.state != HOST_YES;
         i++) {
        const char *found = program_of(l, programs[i]);
        t->program = found ? host_yes(found, found) : t->program;
    }
    t->hook = program_of(l, "nvidia-cdi-hook");
    t->hook = t->hook ? t->hook : program_of(l, "nvidia-ctk");
    t->no_cgroups = t->root_driver = t->ldconfig_present =
        host_unknown(path, "it is not stated there");
    int rc = host_read(l, path, &text);
    t->settings = rc == 0 ? host_yes(path, NULL) : host_unknown(path, host_why(l, rc));
    struct host_toml toml = {.rest = rc == 0 ? text : (struct str){0}};
    while (rc == 0 && host_toml_next(&toml, l->arena)) {
        if (strcmp(toml.key, "nvidia-container-cli.root") == 0) {
            t->root = toml.value;
        } else if (strcmp(toml.key, "nvidia-container-cli.ldconfig") == 0) {
            t->ldconfig = toml.value;
        } else if (strcmp(toml.key, "nvidia-container-runtime.mode") == 0) {
            t->mode = toml.value;
        } else if (strcmp(toml.key, "nvidia-container-cli.no-cgroups") == 0) {
            t->no_cgroups = strcmp(toml.value, "true") == 0 ? host_yes(path, NULL)
                                                            : host_no(path, "it is switched off");
        }
    }
    note_lines(l, &toml, path);
    if (t->root && strcmp(t->root, "/") != 0) {
        t->root_driver = driver_below(l, t->root);
    }
    t->ldconfig_present = ldconfig_fact(l, t->ldconfig);
    if (t->settings.state == HOST_YES || t->hook) { // nvidia-cdi-hook is in the package of the base
        t->version = package_version(l, "nvidia-container-toolkit-base");
        t->version = t->version ? t->version : package_version(l, "nvidia-container-toolkit");
    }
}

/* ------------------------------------------------------------------ the rest */

static struct host_fact char_links(struct host_look *l)
{
    static const char folder[] = "/dev/char";
    struct host_fact fact = host_presence(l, folder, "/dev");
    if (fact.state != HOST_YES) {
        return host_unknown(folder, "it cannot be seen");
    }
    struct root_dir links = host_entries(l, folder, "195:*");
    return links.n ? host_yes(folder, links.names[0])
                   : host_no(folder, "it has no link to a node of the driver");
}

/* A file that has NVIDIA's devices, by a look at its text; src/container judges it. */
static struct host_fact specification(struct host_look *l)
{
    static const char *const folders[] = {"/etc/cdi", "/run/cdi", "/var/run/cdi"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct root_dir files = host_entries(l, folders[i], "*");
        for (size_t k = 0; k < files.n; k++) {
            const char *path = path_join(l->arena, folders[i], files.names[k]);
            bool is_read = ends_with(path, ".yaml") || ends_with(path, ".json"); // by engines
            struct str text;
            if (is_read && host_read(l, path, &text) == 0 &&
                str_find(text, "nvidia.com/gpu") < text.n) {
                return host_yes(path, path);
            }
        }
    }
    return host_no(folders[0], "no file there lists NVIDIA devices");
}

/* "1 1": the value now, and the one that is to come (selinuxfs). */
static struct host_fact flag_fact(struct host_look *l, const char *path)
{
    struct host_fact fact = host_text_fact(l, path, "/sys/fs");
    if (fact.state == HOST_YES && fact.value[0] != '1') {
        return host_no(path, "it is off");
    }
    return fact;
}

void host_collect_engines(struct host_look *l)
{
    struct host_engines *x = &l->host->engines;
    static const char *const kubelets[] = {"/var/lib/kubelet/config.yaml", "/usr/bin/kubelet",
                                           "/usr/local/bin/kubelet"};
    *x = (struct host_engines){0};
    if (l->host->container.inside.state != HOST_NO) {
        return;
    }
    find_docker(l);
    find_containerd(l);
    find_crio(l);
    x->kubelet = host_no(kubelets[0], "it is not there");
    for (size_t i = 0; i < sizeof kubelets / sizeof *kubelets; i++) {
        x->kubelet = engine_is_there(l, kubelets[i]) ? host_yes(kubelets[i], NULL) : x->kubelet;
    }
    x->crun = program_of(l, "crun") ? package_version(l, "crun") : NULL;
    read_toolkit(l);
    x->specification = specification(l);
    if (x->list.n) {
        struct host_fact first = host_text_fact(l, "/proc/1/comm", "/proc/1");
        x->systemd = first.state == HOST_YES && strcmp(first.value, "systemd") != 0
                         ? host_no("/proc/1/comm", "process 1 is another")
                         : first;
        x->char_links = char_links(l);
    }
    x->selinux = flag_fact(l, "/sys/fs/selinux/enforce");
    x->selinux_devices = flag_fact(l, "/sys/fs/selinux/booleans/container_use_devices");
}
