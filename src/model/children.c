#include <string.h>
#include <unistd.h>

#include "model/live.h"

enum { PROCESSES_MAX = 65536, MAPS_BYTES_MAX = 16 << 20, NAMED_MAX = 4 };

/* ------------------------------------------------------------------ reading */

struct process {
    int pid, parent;
};

typedef VEC(struct process) processes;

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
    if (root_list(host, a, "/proc", PROCESSES_MAX, is_number, NULL, &list) < 0) {
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
static void add_module(struct arena *a, struct model_child *c, struct str path)
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

static void read_child_maps(struct arena *a, struct root *host, struct model_child *c)
{
    struct str text, line;
    if (root_read(host, a, arena_printf(a, "/proc/%d/maps", c->pid), MAPS_BYTES_MAX, &text) < 0) {
        return; // exe is NULL then, too
    }
    while (str_line(&text, &line)) {
        size_t slash = str_find_char(line, '/');
        struct str path = {line.s + slash, line.n - slash};
        if (memmem(path.s, path.n, ".so", 3)) {
            const char *copy = str_dup(a, path);
            add_module(a, c, path);
            c->driver = c->driver ? c->driver : model_driver_of(copy);
        }
    }
}

static void add_child(struct arena *a, struct root *host, int pid, struct model_live *live)
{
    struct model_child c = {.pid = pid};
    struct str text;
    char *exe;
    if (root_read(host, a, arena_printf(a, "/proc/%d/comm", pid), 4096, &text) == 0) {
        c.name = str_dup(a, str_trim(text));
    }
    if (root_readlink(host, a, arena_printf(a, "/proc/%d/exe", pid), &exe) == 0) {
        c.exe = exe;
        read_child_maps(a, host, &c);
    }
    VEC_PUSH(a, &live->children, c);
}

void model_children_read(struct arena *a, struct root *host, struct model_live *live)
{
    processes all = {0};
    int parent = live->pid;
    read_processes(a, host, &all);
    for (size_t next = 0; next <= live->children.n; next++) {
        for (size_t i = 0; i < all.n && live->children.n < MODEL_CHILDREN_MAX; i++) {
            if (all.items[i].parent == parent && all.items[i].pid != getpid()) {
                add_child(a, host, all.items[i].pid, live);
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

/* The descendants that show a sign, or all; up to a few. */
static const char *listed(const struct model *m, const struct model_live *live, bool with_sign,
                          size_t *ret_n)
{
    const char *text = "";
    *ret_n = 0;
    for (size_t i = 0; i < live->children.n; i++) {
        const struct model_child *c = &live->children.items[i];
        const char *sign = model_child_sign(m, c);
        if ((sign || !with_sign) && ++*ret_n <= NAMED_MAX) {
            text = arena_printf(m->arena, "%s%s%s", text, *text ? "; " : "",
                                child_text(m->arena, c, sign));
        }
    }
    return *ret_n > NAMED_MAX ? arena_printf(m->arena, "%s; and %zu more", text, *ret_n - NAMED_MAX)
                              : text;
}

void model_judge_children(struct model *m, const struct model_live *live)
{
    struct arena *a = m->arena;
    size_t n_programs, n_all;
    const char *programs = listed(m, live, true, &n_programs);
    const char *all = listed(m, live, false, &n_all);
    bool is_program = live->driver || model_loaded_module(m, m->processes.items[0], 0);
    if (n_all == 0 || (is_program && n_programs == 0)) {
        return;
    }
    if (is_program) {
        VEC_PUSH(a, &m->notes,
                 arena_printf(a, "%s that it started %s a GPU as well, and %s not judged here: %s",
                              n_programs == 1 ? "a process" : "processes",
                              n_programs == 1 ? "uses" : "use", n_programs == 1 ? "is" : "are",
                              programs));
        return;
    }
    m->unsure = n_programs
                    ? arena_printf(a, "process %d (%s) is only the launcher: it has loaded nothing for a "
                                      "GPU. Look at the %s that it started: %s",
                                   live->pid, path_base(live->exe),
                                   n_programs == 1 ? "program" : "programs", programs)
                    : arena_printf(a, "process %d (%s) has loaded nothing for a GPU and has started "
                                      "other processes. If one of them is the program, look at it: %s",
                                   live->pid, path_base(live->exe), all);
}
