/* Who uses the GPUs, by the /proc of a tree: "free" only where every process could be looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "node/users.h"

struct file {
    const char *path, *text; // a link's target where `path` is below "fd" or "ns"
};

enum { FILES = 8 };

static const struct users_case {
    const char *name;
    struct file files[FILES];
    enum node_use use;
    const char *says; // a part
    pid_t ours;
} cases[] = {
    {"nobody", {{"1/comm", "init\n"}, {"1/fd/0", "/dev/null"}}, NODE_FREE, NULL, 0},
    {"no process at all", {{NULL, NULL}}, NODE_USE_UNKNOWN, "cannot be listed", 0},
    {"a program",
     {{"1/comm", "init\n"},
      {"1/fd/0", "/dev/null"},
      {"71/comm", "python3\n"},
      {"71/fd/3", "/dev/nvidia0"}},
     NODE_IN_USE,
     "process 71 (python3) holds /dev/nvidia0",
     0},
    {"AMD", {{"71/comm", "x\n"}, {"71/fd/3", "/dev/kfd"}}, NODE_IN_USE, "/dev/kfd", 0},
    {"a render node",
     {{"71/comm", "x\n"}, {"71/fd/3", "/dev/dri/renderD128"}},
     NODE_IN_USE,
     "renderD128",
     0},
    {"a display's node",
     {{"71/comm", "logind\n"}, {"71/fd/3", "/dev/dri/card0"}},
     NODE_FREE,
     NULL,
     0},
    {"a name of its own is no file",
     {{"71/comm", "x\n"}, {"71/fd/3", "/home/dev/nvidia0"}},
     NODE_FREE,
     NULL,
     0},
    {"a service",
     {{"9/comm", "nvidia-persiste\n"},
      {"9/status", "Name:\tx\nUid:\t112\t112\t112\t112\n"},
      {"9/fd/3", "/dev/nvidia0"},
      {"9/fd/4", "/dev/nvidiactl"}},
     NODE_FREE,
     NULL,
     0},
    {"a user's program with a service's name",
     {{"9/comm", "nvidia-persiste\n"},
      {"9/status", "Name:\tx\nUid:\t1001\t1001\t1001\t1001\n"},
      {"9/fd/3", "/dev/nvidia0"}},
     NODE_IN_USE,
     "process 9",
     0},
    {"a service that computes",
     {{"9/comm", "nv-hostengine\n"},
      {"9/status", "Name:\tx\nUid:\t0\t0\t0\t0\n"},
      {"9/fd/3", "/dev/nvidia0"},
      {"9/fd/4", "/dev/nvidia-uvm"}},
     NODE_IN_USE,
     "process 9",
     0},
    {"ours",
     {{"80/comm", "gpumend\n"},
      {"80/status", "PPid:\t70\n"},
      {"80/fd/3", "/dev/nvidia0"},
      {"70/comm", "gpumend\n"},
      {"70/status", "PPid:\t1\n"}},
     NODE_FREE,
     NULL,
     70},
    {"not ours",
     {{"80/comm", "gpumend\n"},
      {"80/status", "PPid:\t60\n"},
      {"80/fd/3", "/dev/nvidia0"},
      {"60/status", "PPid:\t1\n"}},
     NODE_IN_USE,
     "process 80",
     70},
    {"a thread outlives the first",
     {{"80/comm", "x\n"},
      {"80/fd/", NULL},
      {"80/task/80/fd/", NULL},
      {"80/task/81/fd/5", "/dev/nvidia3"}},
     NODE_IN_USE,
     "/dev/nvidia3",
     0},
    {"Kubernetes",
     {{"80/comm", "kubelet\n"}, {"80/fd/0", "/dev/null"}},
     NODE_USE_UNKNOWN,
     "pods",
     0},
    {"in use is more than unknown",
     {{"80/comm", "kubelet\n"},
      {"80/fd/0", "/dev/null"},
      {"90/comm", "x\n"},
      {"90/fd/0", "/dev/nvidia1"}},
     NODE_IN_USE,
     "process 90",
     0},
};

static void put(const char *folder, const struct file *file)
{
    char path[256];
    bool is_link = strstr(file->path, "/fd/") || strstr(file->path, "/ns/");
    (void)snprintf(path, sizeof path, "%s/proc/%s", folder, file->path);
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        (void)mkdir(path, 0755); // may be there
        *p = '/';
    }
    if (is_link && file->text) {
        assert_int_equal(symlink(file->text, path), 0);
    } else if (file->text) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        assert_true(fputs(file->text, out) >= 0);
        assert_int_equal(fclose(out), 0);
    }
}

static void clear(const char *folder)
{
    pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", folder, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void one(const struct users_case *c, const char *ns, enum node_use use, const char *says)
{
    char folder[] = "/tmp/gpumend-users-XXXXXX";
    struct arena a;
    struct root r = ROOT_EMPTY;
    struct gm_err err;
    struct node_users got;
    const struct file self = {"self/ns/pid", ns};
    assert_non_null(mkdtemp(folder));
    arena_init(&a, 0, NULL, NULL);
    put(folder, &self);
    for (size_t i = 0; i < FILES && c->files[i].path; i++) {
        put(folder, &c->files[i]);
    }
    assert_int_equal(root_open(&r, folder, &err), 0);
    node_users(&r, &a, c->ours, &got);
    if (got.use != use || (says == NULL) != (got.says == NULL) ||
        (says && !strstr(got.says, says))) {
        fail_msg("%s: %d, %s", c->name, got.use, got.says ? got.says : "nothing");
    }
    root_close(&r);
    arena_release(&a);
    clear(folder);
}

static void each_case(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        one(&cases[i], "pid:[4026531836]", cases[i].use, cases[i].says);
    }
}

/* In a PID namespace of its own nothing is ever free, and what is seen in use is in use. */
static void in_a_container(void **state)
{
    (void)state;
    one(&cases[0], "pid:[4026532201]", NODE_USE_UNKNOWN, "PID namespaces");
    one(&cases[2], "pid:[4026532201]", NODE_IN_USE, "process 71");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_case),
                                       cmocka_unit_test(in_a_container)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
