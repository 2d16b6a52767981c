#include "model/live.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "host/parse.h"
#include "py/env.h"

enum { PROC_BYTES_MAX = 16 << 20, MAPPINGS_MAX = 20000 };

static int read_proc(struct arena *a, struct root *host, int pid, const char *name, struct str *ret,
                     struct gm_err *err)
{
    const char *path = arena_printf(a, "/proc/%d/%s", pid, name);
    int rc = root_read(host, a, path, PROC_BYTES_MAX, ret);
    return rc < 0 ? gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(-rc)) : 0;
}

static int read_proc_link(struct arena *a, struct root *host, int pid, const char *name,
                          const char **ret, struct gm_err *err)
{
    char *target;
    const char *path = arena_printf(a, "/proc/%d/%s", pid, name);
    int rc = root_readlink(host, a, path, &target);
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(-rc));
    }
    *ret = target;
    return 0;
}

static void read_environ(struct arena *a, struct model_live *live, struct str text)
{
    while (text.s && text.n) {
        struct str entry = str_cut(&text, '\0');
        if (entry.n) {
            VEC_PUSH(a, &live->env, str_dup(a, entry));
        }
    }
}

/* "7f..-7f.. r-xp 00000000 fe:00 123   /path (deleted)" */
static int read_maps(struct arena *a, struct model_live *live, struct str text, struct gm_err *err)
{
    struct str line;
    while (str_line(&text, &line)) {
        size_t slash = str_find_char(line, '/');
        struct str path = {line.s + slash, line.n - slash};
        bool deleted = str_ends(path, " (deleted)");
        if (path.n == 0 || str_starts(path, "/dev/") || str_starts(path, "/memfd:") ||
            str_starts(path, "/SYSV")) {
            continue;
        }
        path.n -= deleted ? strlen(" (deleted)") : 0;
        bool library = memmem(path.s, path.n, ".so", 3) != NULL, known = false;
        for (size_t i = 0; library && i < live->mappings.n && !known; i++) {
            known = str_is(path, live->mappings.items[i].path);
        }
        if (!known && library && live->mappings.n == MAPPINGS_MAX) {
            return gm_err_set(err, GM_ERR_LIMIT,
                              "process %d has mapped more than %d libraries, the most that are "
                              "looked at",
                              live->pid, MAPPINGS_MAX);
        }
        if (!known && library) {
            VEC_PUSH(a, &live->mappings, (struct model_mapping){str_dup(a, path), deleted});
        }
    }
    return 0;
}

/* Seconds since 1970 at which the process started: boot time plus field 22 of its stat line. */
static bool start_time(struct arena *a, struct root *host, int pid, int64_t *ret_seconds)
{
    struct str stat_text, boot;
    struct gm_err err;
    if (read_proc(a, host, pid, "stat", &stat_text, &err) < 0) {
        return false;
    }
    int rc = root_read(host, a, "/proc/stat", PROC_BYTES_MAX, &boot);
    size_t at = rc < 0 ? 0 : str_find(boot, "btime ");
    if (rc < 0 || at == boot.n) {
        return false;
    }
    struct str rest = {boot.s + at + 6, boot.n - at - 6};
    uint64_t btime = 0, ticks = 0;
    if (!str_u64(str_cut(&rest, '\n'), &btime)) {
        return false;
    }
    const char *paren = memrchr(stat_text.s, ')', stat_text.n); // the name may hold blanks
    if (!paren) {
        return false;
    }
    struct str fields = {paren + 1, stat_text.n - (size_t)(paren + 1 - stat_text.s)};
    struct str field = {NULL, 0};
    for (int i = 2; i <= 22 && fields.s; i++) { // the cut before the first blank is field 2
        field = str_cut(&fields, ' ');
    }
    long per_second = sysconf(_SC_CLK_TCK);
    if (!str_u64(field, &ticks) || per_second <= 0) {
        return false;
    }
    *ret_seconds = (int64_t)(btime + ticks / (uint64_t)per_second);
    return true;
}

/* When the folder was made, in seconds since 1970; 0: not known. */
static int64_t made_at(struct arena *a, struct root *r, const char *dir)
{
    struct statx info;
    char *real; // its links lead inside the root, and not where this process would follow them
    if (root_realpath(r, a, dir, &real) < 0 || statx(AT_FDCWD, path_join(a, r->path, real + 1),
                                                     AT_SYMLINK_NOFOLLOW, STATX_BTIME, &info) < 0) {
        return 0;
    }
    return info.stx_mask & STATX_BTIME ? info.stx_btime.tv_sec : 0;
}

/* Folders of LD_LIBRARY_PATH that were made after the process had started. The birth time counts,
 * where the file system keeps one. */
static void find_late_folders(struct arena *a, struct root *host, struct model_live *live)
{
    int64_t started = 0;
    const char *path = NULL;
    struct root own;
    for (size_t i = 0; i < live->env.n; i++) {
        if (starts_with(live->env.items[i], "LD_LIBRARY_PATH=")) {
            path = live->env.items[i] + strlen("LD_LIBRARY_PATH=");
        }
    }
    if (!path || !start_time(a, host, live->pid, &started) ||
        root_open(&own, path_join(a, host->path, arena_printf(a, "proc/%d/root", live->pid)),
                  NULL) < 0) {
        return;
    }
    for (struct str rest = str_of(path); rest.s;) {
        struct str dir = str_cut(&rest, ':');
        if (dir.n && dir.s[0] == '/' && made_at(a, &own, str_dup(a, dir)) > started + 1) {
            VEC_PUSH(a, &live->late_folders, str_dup(a, dir));
        }
    }
    root_close(&own);
}

/* Whether another mapped file names the library in DT_NEEDED. */
static bool soname_is_needed(struct model *m, const char *soname)
{
    enum { ASKED_MAX = 2000 };
    if (soname && m->mappings.n > ASKED_MAX) {
        root_note_cut(m->root,
                      "process %d has mapped more than %d libraries; which of the others need "
                      "which was not looked at",
                      m->pid, ASKED_MAX);
    }
    for (size_t i = 0; soname && i < m->mappings.n && i < ASKED_MAX; i++) {
        const struct ldso_entry *e = ldso_store_get(m->store, m->mappings.items[i].path);
        for (size_t k = 0; e->file && k < e->file->image.n_needs; k++) {
            if (strcmp(e->file->image.needs[k].name, soname) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void load_one(struct model *m, struct model_process *out, const struct model_mapping *x,
                     bool needed)
{
    struct ldso_process *p = out->ldso;
    struct ldso_entry *e = ldso_store_get(m->store, x->path);
    bool known = x->deleted || !e->file || e->file == p->main->file;
    for (size_t k = 0; k < p->objects.n && !known; k++) {
        known = p->objects.items[k]->file == e->file;
    }
    if (known || (!needed && soname_is_needed(m, e->file->image.soname))) {
        return;
    }
    const char **names = arena_array(m->arena, 1, sizeof *names);
    names[0] = x->path;
    struct model_attempt at = {.source = MODEL_FROM_MAPS,
                               .phase = MODEL_USE,
                               .caller = p->main,
                               .names = names,
                               .n_names = 1,
                               .first_load = p->loads.n};
    const struct ldso_load *load = ldso_dlopen(p, p->main, x->path, 0);
    if (p->limit) {
        return; // it has not failed
    }
    at.n_loads = load != NULL;
    at.failed = !load || !load->object;
    VEC_PUSH(m->arena, &out->attempts, at);
}

static void show_all(struct ldso_process *p)
{
    for (size_t i = 0, n = p->objects.n; i < n && !p->dead && !p->limit; i++) {
        (void)ldso_dlopen(p, p->main, p->objects.items[i]->path, LDSO_GLOBAL_SCOPE);
    }
}

/* Which libraries were opened for all others to see, RTLD_GLOBAL, /proc does not say. Where one
 * that is mapped does not load without that, some were: all are then. */
static void load_with_all_seen(struct model *m, struct model_process *out)
{
    struct ldso_process *p = out->ldso;
    VEC(const struct model_attempt *) failed = {0};
    size_t n_kept = 0;
    for (size_t i = 0; i < out->attempts.n; i++) {
        const struct model_attempt *at = &out->attempts.items[i];
        if (at->failed && at->source == MODEL_FROM_MAPS) {
            struct model_attempt *copy = arena_alloc(m->arena, sizeof *copy);
            *copy = *at;
            VEC_PUSH(m->arena, &failed, copy);
        } else {
            out->attempts.items[n_kept++] = *at;
        }
    }
    out->attempts.n = n_kept;
    if (failed.n) {
        show_all(p);
    }
    for (size_t i = 0; i < failed.n && !p->dead && !p->limit; i++) {
        const struct model_mapping x = {failed.items[i]->names[0], false};
        load_one(m, out, &x, true);
    }
}

/* Loads what is mapped and the model has not loaded yet, each by its path. What no other file needs
 * comes first, so that libraries get the callers whose RPATH they inherit. */
static void load_mapped(struct model *m, struct model_process *out)
{
    struct ldso_process *p = out->ldso;
    for (size_t i = 0; i < m->mappings.n * 2 && !p->dead && !p->limit && !p->start_failed; i++) {
        bool second = i >= m->mappings.n;
        load_one(m, out, &m->mappings.items[second ? i - m->mappings.n : i], second);
    }
    load_with_all_seen(m, out);
    model_settle(out);
}

static bool path_is_below(const char *path, const char *dir)
{
    return dir && starts_with(path, dir) && path[strlen(dir)] == '/';
}

/* How many of the mapped files lie below the environment's site folders. The kernel shows files
 * without links. */
static size_t n_covered(struct model *m, const struct py_env *env, const struct model_live *live)
{
    VEC(const char *) sites = {0};
    size_t covered = 0;
    for (size_t i = 0; i < env->n_paths; i++) {
        const struct py_path *p = &env->paths[i];
        if (p->is_dir && p->origin != PY_PATH_STDLIB && p->origin != PY_PATH_DYNLOAD) {
            VEC_PUSH(m->arena, &sites, model_real_path(m, p->dir));
        }
    }
    for (size_t i = 0; i < live->mappings.n; i++) {
        bool below = false;
        for (size_t k = 0; k < sites.n && !below; k++) {
            below = path_is_below(live->mappings.items[i].path, sites.items[k]);
        }
        covered += below;
    }
    return covered;
}

/* "/srv/venv" of "/srv/venv/lib/python3.11/site-packages/torch/..."; NULL: it is no such path. */
static const char *prefix_of(struct arena *a, const char *path)
{
    const char *at = strstr(path, "-packages/"), *lib = at ? strstr(path, "/lib/python") : NULL;
    lib = lib ? lib : at ? strstr(path, "/lib64/python") : NULL;
    return lib && lib < at ? arena_strndup(a, path, (size_t)(lib - path)) : NULL;
}

static struct py_env_hints live_hints(const struct model_live *live)
{
    return (struct py_env_hints){
        .home = env_value(live->env.items, live->env.n, "HOME"),
        .pythonpath = env_value(live->env.items, live->env.n, "PYTHONPATH"),
        .pythonhome = env_value(live->env.items, live->env.n, "PYTHONHOME"),
        .pythonnousersite = env_value(live->env.items, live->env.n, "PYTHONNOUSERSITE"),
        .pythonuserbase = env_value(live->env.items, live->env.n, "PYTHONUSERBASE"),
        .cwd = live->cwd};
}

/* The path behind argv[0]: from the working directory, or the first on PATH; NULL: none is there.
 */
static const char *started_path(struct model *m, const struct model_live *live)
{
    const char *search = env_value(live->env.items, live->env.n, "PATH"), *name = live->argv0;
    if (strchr(name, '/')) {
        return path_join(m->arena, live->cwd, name);
    }
    for (struct str rest = str_of(search ? search : ""); *name && rest.n;) {
        struct str dir = str_cut(&rest, ':');
        const char *path = path_join(m->arena, str_dup(m->arena, dir), name);
        struct stat st;
        if (dir.n && dir.s[0] == '/' && root_stat(m->root, path, &st) == 0 && S_ISREG(st.st_mode)) {
            return path;
        }
    }
    return NULL;
}

/* The environment that most of the mapped files below site folders belong to. Candidates are the
 * prefixes of those files, and the interpreter itself: Debian's Python in /usr has packages in
 * /usr/local, and everybody's has some in the user site. */
static void find_environment(struct model *m, const struct model_live *live)
{
    enum { CANDIDATES_MAX = 8 };
    const struct py_env_hints hints = live_hints(live);
    VEC(const char *) candidates = {0};
    size_t best = 0;
    for (size_t i = 0; i < live->mappings.n; i++) {
        const char *prefix = prefix_of(m->arena, live->mappings.items[i].path);
        bool known = !prefix;
        for (size_t k = 0; k < candidates.n && !known; k++) {
            known = strcmp(candidates.items[k], prefix) == 0;
        }
        if (!known && candidates.n == CANDIDATES_MAX) {
            root_note_cut(m->root,
                          "process %d has loaded libraries of more than %d Python environments; "
                          "the others were not looked at",
                          live->pid, CANDIDATES_MAX);
            break;
        }
        if (!known) {
            VEC_PUSH(m->arena, &candidates, prefix);
        }
    }
    VEC_PUSH(m->arena, &candidates, live->exe);
    for (size_t i = 0; i < candidates.n; i++) {
        struct py_env *env = arena_alloc(m->arena, sizeof *env);
        struct gm_err err;
        size_t n = py_env_open(m->root, m->arena, candidates.items[i], &hints, env, &err) == 0
                       ? n_covered(m, env, live)
                       : 0;
        if (n > best) {
            best = n;
            m->env = env;
        }
    }
}

/* The environment whose interpreter the process was started by, by its own word for it; NULL where
 * that is another program. A program may rewrite its command line. */
static struct py_env *started_environment(struct model *m, const struct model_live *live)
{
    const struct py_env_hints hints = live_hints(live);
    const char *path = live->argv0 ? started_path(m, live) : NULL;
    const char *real = path ? model_real_path(m, path) : NULL;
    struct py_env *env = arena_alloc(m->arena, sizeof *env);
    struct gm_err err;
    bool same = real && strcmp(real, live->exe) == 0;
    return same && py_env_open(m->root, m->arena, path, &hints, env, &err) == 0 ? env : NULL;
}

static struct model_process *live_new_process(struct model *m, const char *exe, bool all_seen,
                                              struct gm_err *err)
{
    struct model_process *out = arena_alloc(m->arena, sizeof *out);
    struct ldso_process *p = ldso_process_new(m->store, m->arena, &m->config);
    VEC_PUSH(m->arena, &m->processes, out);
    if (ldso_start(p, exe, err) < 0) {
        return NULL;
    }
    out->ldso = p;
    if (!p->is_static) {
        load_mapped(m, out);
    }
    if (all_seen) {
        show_all(p);
    }
    return out;
}

static bool lacks_a_symbol(const struct ldso_process *p)
{
    bool found = false;
    for (size_t i = 0; i < p->defects.n && !found; i++) {
        found = p->defects.items[i].fatal && p->defects.items[i].kind == LDSO_SYMBOL_MISSING;
    }
    return found;
}

/* The next use of a package in `out`. Where that lacks a symbol, `out` becomes a process in which
 * all that is mapped is seen by it, as an import may have opened it. */
static void use_next(struct model *m, struct model_process *out, const char *exe,
                     const char *module)
{
    struct gm_err err;
    size_t known = m->known.n;
    model_use_loaded(m, out, module);
    if (lacks_a_symbol(out->ldso)) {
        struct model_process *again = live_new_process(m, exe, true, &err);
        m->processes.n--;
        if (again) {
            m->known.n = known;
            model_use_loaded(m, again, module);
            *out = *again;
        }
    }
    model_settle(out);
}

/* What each package that is loaded will open at its next use, in a process of its own: which of
 * them is used, and when, is the program's matter. */
static void use_packages(struct model *m, const char *exe)
{
    enum { PACKAGES_MAX = 16 };
    struct model_process *first = m->processes.items[m->processes.n - 1];
    struct gm_err err;
    const char *module;
    for (size_t n = 1; n < PACKAGES_MAX; n++) {
        module = first->ldso->is_static ? NULL : model_loaded_module(m, first, n);
        struct model_process *out = module ? live_new_process(m, exe, false, &err) : NULL;
        if (!out) {
            break;
        }
        use_next(m, out, exe, module);
    }
    if (!first->ldso->is_static && model_loaded_module(m, first, PACKAGES_MAX)) {
        root_note_cut(m->root,
                      "process %d has loaded more than %d GPU packages; the next use of the others "
                      "was not judged",
                      m->pid, PACKAGES_MAX);
    }
    module = first->ldso->is_static ? NULL : model_loaded_module(m, first, 0);
    if (module) {
        use_next(m, first, exe, module);
    }
}

/* ------------------------------------------------------------------ the container */

/* The digits of an id of 64 hexadecimal digits at `s`. */
static bool text_is_id(const char *s)
{
    return strspn(s, "0123456789abcdef") == 64;
}

/* Names as the engines make them: of cgroups (docker and libpod with systemd: ENGINE-ID.scope,
 * otherwise a folder; cri-containerd-ID.scope and crio-ID.scope of Kubernetes), and of the files
 * that they mount into a container from its own folder (mountinfo, field 4). */
static void find_container(struct arena *a, struct str text, struct model_live *live)
{
    static const struct {
        const char *before, *engine;
        bool nested; // the id stands folders below
    } marks[] = {
        {"cri-containerd-", "containerd", false},
        {"crio-", "cri-o", false},
        {"docker-", "docker", false},
        {"libpod-", "podman", false},
        {"/docker/containers/", "docker", false},
        {"/overlay-containers/", "podman", false},
        {"/docker/", "docker", false},
        {"/libpod/", "podman", false},
        {"/kubepods/", "kubernetes", true},
    };
    const char *whole = str_dup(a, text);
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !live->container_id; i++) {
        const char *at = whole;
        while (!live->container_id && (at = strstr(at, marks[i].before))) {
            at += strlen(marks[i].before);
            for (const char *slash; !text_is_id(at) && marks[i].nested &&
                                    (slash = memchr(at, '/', strcspn(at, "\n"))) != NULL;) {
                at = slash + 1;
            }
            if (text_is_id(at)) {
                live->container_engine = marks[i].engine;
                live->container_id = arena_strndup(a, at, 64);
            }
        }
    }
}

/* The folders that engines mount a container's own files from. Other mounts say nothing: the host
 * sees those of all its containers, such as .../overlay-containers/ID/userdata/shm. */
static struct str own_mounts(struct arena *a, struct str mountinfo)
{
    static const char *const points[] = {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf",
                                         "/run/.containerenv"};
    const char *roots = "";
    struct str line;
    while (str_line(&mountinfo, &line)) {
        struct host_mount mount;
        for (size_t i = 0; host_parse_mount(line, &mount) && i < sizeof points / sizeof *points;
             i++) {
            roots = str_is(mount.point, points[i])
                        ? arena_printf(a, "%s" STR_FMT "\n", roots, STR_ARG(mount.root))
                        : roots;
        }
    }
    return str_of(roots);
}

/* Where neither its cgroup nor its mounts say it, the container is not known. */
static void read_container(struct arena *a, struct root *host, struct model_live *live)
{
    struct str text;
    struct gm_err err;
    if (read_proc(a, host, live->pid, "cgroup", &text, &err) == 0) {
        find_container(a, text, live);
    }
    if (!live->container_id && read_proc(a, host, live->pid, "mountinfo", &text, &err) == 0) {
        find_container(a, own_mounts(a, text), live);
    }
}

int model_live_read(struct arena *a, struct root *host, int pid, struct model_live *ret,
                    struct gm_err *err)
{
    struct str text;
    *ret = (struct model_live){.pid = pid};
    if (read_proc_link(a, host, pid, "exe", &ret->exe, err) < 0 ||
        read_proc_link(a, host, pid, "cwd", &ret->cwd, err) < 0 ||
        read_proc(a, host, pid, "environ", &text, err) < 0) {
        return err->code;
    }
    read_environ(a, ret, text);
    if (read_proc(a, host, pid, "maps", &text, err) < 0) {
        return err->code;
    }
    if (read_maps(a, ret, text, err) < 0) {
        return err->code;
    }
    if (read_proc(a, host, pid, "cmdline", &text, err) == 0 && text.n) {
        ret->argv0 = str_dup(a, str_cut(&text, '\0'));
    }
    find_late_folders(a, host, ret);
    read_container(a, host, ret);
    model_children_read(a, host, ret);
    for (size_t i = 0; i < ret->mappings.n && !ret->driver; i++) {
        ret->driver = model_driver_of(ret->mappings.items[i].path);
    }
    return 0;
}

int model_add_live(struct model *m, const struct model_live *live, struct gm_err *err)
{
    m->pid = live->pid;
    m->live = live;
    m->config.env = live->env.items;
    m->config.n_env = live->env.n;
    m->config.cwd = live->cwd;
    for (size_t i = 0; i < live->mappings.n; i++) {
        VEC_PUSH(m->arena, &m->mappings, live->mappings.items[i]);
    }
    for (size_t i = 0; i < live->late_folders.n; i++) {
        VEC_PUSH(m->arena, &m->late_folders, live->late_folders.items[i]);
    }
    m->container_engine = live->container_engine;
    m->container_id = live->container_id;
    if (m->container_id) {
        VEC_PUSH(m->arena, &m->notes,
                 arena_printf(m->arena, "process %d runs in container %.12s (%s)", live->pid,
                              m->container_id, m->container_engine));
    }
    find_environment(m, live);
    m->live_env = m->env ? m->env : started_environment(m, live);
    if (!live_new_process(m, live->exe, false, err)) {
        return gm_err_wrap(err, "process %d", live->pid);
    }
    use_packages(m, live->exe);
    model_judge_children(m, live);
    return 0;
}
