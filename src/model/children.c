#include "model/live.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "py/dist.h"
#include "py/env.h"

enum {
    PROCESSES_MAX = 4 << 20, // the kernel's PID_MAX_LIMIT
    MAPS_BYTES_MAX = 16 << 20,
    NAMED_MAX = 4
};

/* ------------------------------------------------------------------ reading */

struct process {
    int pid, parent;
};

typedef VEC(struct process) processes;
typedef VEC(const char *) texts;

static bool is_number(const char *name, void *arg)
{
    (void)arg;
    return name[0] >= '1' && name[0] <= '9';
}

/* proc(5): "PID (comm) STATE PPID ..."; comm may hold blanks and parentheses. */
static bool parent_of(struct str text, int *ret)
{
    const char *end = memrchr(text.s, ')', text.n);
    uint64_t parent = 0;
    if (!end || end + 4 > text.s + text.n || end[2] == 'Z' || end[2] == 'X') {
        return false;
    }
    struct str rest = {end + 4, text.n - (size_t)(end + 4 - text.s)};
    if (!str_u64(str_cut(&rest, ' '), &parent) || parent > INT32_MAX) {
        return false;
    }
    *ret = (int)parent;
    return true;
}

static void read_processes(struct arena *a, struct root *host, processes *ret)
{
    struct root_dir list;
    if (root_list(host, a, "/proc", PROCESSES_MAX, &(struct root_filter){.keep = is_number},
                  &list) < 0) {
        return; // without /proc nothing of a process can be seen
    }
    for (size_t i = 0; i < list.n; i++) {
        struct str text;
        uint64_t pid;
        int parent;
        if (str_u64(str_of(list.names[i]), &pid) && pid <= INT32_MAX &&
            root_read(host, a, arena_printf(a, "/proc/%d/stat", (int)pid), 4096, &text) == 0 &&
            parent_of(text, &parent)) {
            VEC_PUSH(a, ret, (struct process){(int)pid, parent});
        }
    }
}

const char *model_driver_of(const char *path)
{
    static const char *const heads[] = {"libcuda.so", "libcudart",       "libamdhip64.so",
                                        "libhsa-run", "libze_loader.so", "libnvidia-ml.so"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (starts_with(path_base(path), heads[i])) {
            return path_base(path);
        }
    }
    return NULL;
}

/* "torch" of ".../site-packages/torch/lib/x.so" and of ".../site-packages/torch.so". */
static void child_add_module(struct arena *a, struct model_child *c, struct str path)
{
    static const char mark[] = "-packages/";
    size_t at = str_find(path, mark);
    if (at == path.n) {
        return;
    }
    struct str name = {path.s + at + strlen(mark), path.n - at - strlen(mark)};
    name = str_cut(&name, '/');
    name = str_cut(&name, '.');
    for (size_t i = 0; i < c->modules.n; i++) {
        if (str_is(name, c->modules.items[i])) {
            return;
        }
    }
    VEC_PUSH(a, &c->modules, str_dup(a, name));
}

/* The parent's libraries, sorted, and the variables of the loader that it was started with. */
struct parent {
    texts libraries, variables;
};

static void sort_texts(texts *t)
{
    if (t->n) {
        qsort(t->items, t->n, sizeof *t->items, str_by_bytes);
    }
}

static struct parent parent_of_children(struct arena *a, const struct model_live *live)
{
    struct parent p = {0};
    for (size_t i = 0; i < live->mappings.n; i++) {
        VEC_PUSH(a, &p.libraries, live->mappings.items[i].path);
    }
    for (size_t i = 0; i < live->env.n; i++) {
        if (starts_with(live->env.items[i], "LD_")) {
            VEC_PUSH(a, &p.variables, live->env.items[i]);
        }
    }
    sort_texts(&p.libraries);
    sort_texts(&p.variables);
    return p;
}

static bool has_variables(struct arena *a, struct root *host, int pid, const struct parent *p)
{
    struct str text;
    texts own = {0};
    if (root_read(host, a, arena_printf(a, "/proc/%d/environ", pid), MAPS_BYTES_MAX, &text) < 0) {
        return false;
    }
    while (text.s && text.n) {
        struct str entry = str_cut(&text, '\0');
        if (str_starts(entry, "LD_")) {
            VEC_PUSH(a, &own, str_dup(a, entry));
        }
    }
    sort_texts(&own);
    bool same = own.n == p->variables.n;
    for (size_t i = 0; same && i < own.n; i++) {
        same = strcmp(own.items[i], p->variables.items[i]) == 0;
    }
    return same;
}

static bool parent_has_library(const struct parent *p, const char *path)
{
    return p->libraries.n &&
           bsearch(&path, p->libraries.items, p->libraries.n, sizeof path, str_by_bytes);
}

/* Leaves `alike` as it is where every library is one of the parent's. */
static void read_child_maps(struct arena *a, struct root *host, const struct parent *p,
                            struct model_child *c)
{
    struct str text, line;
    if (root_read(host, a, arena_printf(a, "/proc/%d/maps", c->pid), MAPS_BYTES_MAX, &text) < 0) {
        c->alike = false; // exe is NULL then, too
        return;
    }
    while (str_line(&text, &line)) {
        size_t slash = str_find_char(line, '/');
        struct str path = {line.s + slash, line.n - slash};
        if (memmem(path.s, path.n, ".so", 3)) {
            const char *copy = str_dup(a, path);
            child_add_module(a, c, path);
            c->driver = c->driver ? c->driver : model_driver_of(copy);
            c->alike = c->alike && parent_has_library(p, copy);
        }
    }
}

static void add_child(struct arena *a, struct root *host, int pid, const struct parent *p,
                      struct model_live *live)
{
    struct model_child c = {.pid = pid};
    struct str text;
    char *exe;
    if (root_read(host, a, arena_printf(a, "/proc/%d/comm", pid), 4096, &text) == 0) {
        c.name = str_dup(a, str_trim(text));
    }
    if (root_readlink(host, a, arena_printf(a, "/proc/%d/exe", pid), &exe) == 0) {
        c.exe = exe;
        c.alike = strcmp(exe, live->exe) == 0 && has_variables(a, host, pid, p);
        read_child_maps(a, host, p, &c);
    }
    VEC_PUSH(a, &live->children, c);
}

void model_children_read(struct arena *a, struct root *host, struct model_live *live)
{
    processes all = {0};
    const struct parent own = parent_of_children(a, live);
    int parent = live->pid;
    read_processes(a, host, &all);
    for (size_t next = 0; next <= live->children.n; next++) {
        for (size_t i = 0; i < all.n && live->children.n < MODEL_CHILDREN_MAX; i++) {
            if (all.items[i].parent == parent && all.items[i].pid != getpid()) {
                add_child(a, host, all.items[i].pid, &own, live);
            }
        }
        parent = next < live->children.n ? live->children.items[next].pid : 0;
    }
}

/* ------------------------------------------------------------------ judging */

const char *model_child_sign(const struct model *m, const struct model_child *c)
{
    for (size_t i = 0; i < m->imports.n; i++) {
        struct str rest = str_of(m->imports.rows[i].module), top = str_cut(&rest, '.');
        for (size_t k = 0; k < c->modules.n; k++) {
            if (str_is(top, c->modules.items[k])) {
                return c->modules.items[k];
            }
        }
    }
    return c->driver;
}

static const char *child_text(struct arena *a, const struct model_child *c, const char *sign)
{
    return arena_printf(a, "%d (%s%s%s%s%s): gpumend check --pid %d", c->pid,
                        c->name ? c->name : "unknown", c->exe ? ", " : "", c->exe ? c->exe : "",
                        sign ? ", has loaded " : "", sign ? sign : "", c->pid);
}

/* The descendants that show a sign and were not judged with their ancestor, or all; up to a few. */
static const char *listed_commands(const struct model *m, const struct model_live *live,
                                   bool with_sign, size_t *ret_n)
{
    const char *text = "";
    *ret_n = 0;
    for (size_t i = 0; i < live->children.n; i++) {
        const struct model_child *c = &live->children.items[i];
        const char *sign = model_child_sign(m, c);
        if (((sign && !c->alike) || !with_sign) && ++*ret_n <= NAMED_MAX) {
            text = arena_printf(m->arena, "%s%s%s", text, *text ? "; " : "",
                                child_text(m->arena, c, sign));
        }
    }
    return *ret_n > NAMED_MAX ? arena_printf(m->arena, "%s; and %zu more", text, *ret_n - NAMED_MAX)
                              : text;
}

/* The first installed package of kb/imports, or NULL. */
static const char *gpu_package(const struct model *m, struct py_env *env)
{
    const struct py_dist *dist = NULL;
    for (size_t i = 0; i < m->imports.n && !dist; i++) {
        dist = py_env_by_dist(env, m->imports.rows[i].package);
    }
    return dist ? dist->name : NULL;
}

/* A check of the environment as the process would see it: its root, and its LD_ variables. */
static const char *environment_command(const struct model *m, const struct model_live *live,
                                       const char *prefix)
{
    struct arena *a = m->arena;
    const char *text = arena_printf(a, "gpumend check %s", str_shell_word(a, prefix));
    if (live->container_id) {
        text = arena_printf(a, "%s --root /proc/%d/root", text, live->pid);
    }
    for (size_t i = 0; i < live->env.n; i++) {
        if (starts_with(live->env.items[i], "LD_LIBRARY_PATH=") ||
            starts_with(live->env.items[i], "LD_PRELOAD=")) {
            text = arena_printf(a, "%s --env %s", text, str_shell_word(a, live->env.items[i]));
        }
    }
    return text;
}

/* Of a process that has loaded nothing for a GPU and has no children: what can be looked at. */
static const char *idle_text(const struct model *m, const struct model_live *live)
{
    struct arena *a = m->arena;
    const char *name = path_base(live->exe);
    const char *package = m->live_env ? gpu_package(m, m->live_env) : NULL;
    return package ? arena_printf(a,
                                  "process %d (%s) has not loaded %s or another package that uses "
                                  "a GPU. Check it again when it has, or check its environment "
                                  "now: %s",
                                  live->pid, name, package,
                                  environment_command(m, live, m->live_env->prefix))
                   : arena_printf(a,
                                  "process %d (%s) has loaded nothing for a GPU, so that there is "
                                  "nothing to judge yet. Check it again when it has used the GPU, "
                                  "or check the program or environment that it starts: gpumend "
                                  "check TARGET",
                                  live->pid, name);
}

void model_judge_children(struct model *m, const struct model_live *live)
{
    struct arena *a = m->arena;
    size_t n_programs, n_all;
    const char *programs = listed_commands(m, live, true, &n_programs);
    const char *all = listed_commands(m, live, false, &n_all);
    bool is_program = live->driver || model_loaded_module(m, m->processes.items[0], 0);
    if (is_program && n_programs == 0) {
        m->unsure = live->children.n < MODEL_CHILDREN_MAX
                        ? m->unsure
                        : arena_printf(a,
                                       "process %d has started many others; only the first %d of "
                                       "them were looked at",
                                       live->pid, MODEL_CHILDREN_MAX);
        return;
    }
    m->unsure =
        is_program
            ? arena_printf(a,
                           "%s that process %d started %s a GPU as well, with other libraries "
                           "or variables, and %s not judged here: %s",
                           n_programs == 1 ? "a process" : "processes", live->pid,
                           n_programs == 1 ? "uses" : "use", n_programs == 1 ? "is" : "are",
                           programs)
        : n_programs
            ? arena_printf(a,
                           "process %d (%s) is only the launcher: it has loaded nothing for a "
                           "GPU. Look at the %s that it started: %s",
                           live->pid, path_base(live->exe),
                           n_programs == 1 ? "program" : "programs", programs)
        : n_all ? arena_printf(a,
                               "process %d (%s) has loaded nothing for a GPU and has started "
                               "other processes. If one of them is the program, look at it: %s",
                               live->pid, path_base(live->exe), all)
                : idle_text(m, live);
}
