/*
 * The names to be redacted: of people and of the machine, from /etc/passwd, variables and the host.
 */
#include <string.h>

#include "base/root.h"
#include "snapshot/snapshot.h"

/* A home that is no folder of the system's. */
static void add_home(struct arena *a, const char *home, struct snapshot_names *ret)
{
    size_t n = strlen(home);
    while (n > 1 && home[n - 1] == '/') {
        n--;
    }
    if (home[0] == '/' && n > 1) {
        VEC_PUSH(a, &ret->homes, arena_strndup(a, home, n));
    }
}

static void learn_from_passwd(struct arena *a, uid_t own, struct str text,
                              struct snapshot_names *ret)
{
    struct str line;
    while (str_line(&text, &line)) {
        struct str fields[6] = {{0}}; // name, password, uid, gid, comment, home
        for (int i = 0; i < 6 && line.s; i++) {
            fields[i] = str_cut(&line, ':');
        }
        uint64_t uid;
        if (str_u64(fields[2], &uid) && uid == own && uid >= 1000) {
            const char *home = str_dup(a, fields[5]);
            VEC_PUSH(a, &ret->users, str_dup(a, fields[0]));
            VEC_PUSH(a, &ret->users, path_base(home));
            add_home(a, home, ret);
        }
    }
}

/* "gpu7.example.org", and "gpu7" alone. */
static void add_host(struct arena *a, struct str name, struct snapshot_names *ret)
{
    name = str_trim(name);
    if (name.n) {
        VEC_PUSH(a, &ret->hosts, str_dup(a, name));
        VEC_PUSH(a, &ret->hosts, str_dup(a, str_cut(&name, '.')));
    }
}

/* Variables that say who somebody is, and where. */
static void learn_from_variable(struct arena *a, const char *variable, struct snapshot_names *ret)
{
    static const char *const users[] = {"USER=", "LOGNAME=", "SUDO_USER="};
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        if (starts_with(variable, users[i])) {
            VEC_PUSH(a, &ret->users, variable + strlen(users[i]));
        }
    }
    if (starts_with(variable, "HOSTNAME=")) {
        add_host(a, str_of(variable + strlen("HOSTNAME=")), ret);
    }
    if (starts_with(variable, "HOME=/") && strlen(variable) > strlen("HOME=/")) {
        add_home(a, variable + strlen("HOME="), ret);
        if (strcmp(variable, "HOME=/root") != 0) {
            VEC_PUSH(a, &ret->users, path_base(variable));
        }
    }
}

/* What is absent, or no regular file, or not in a snapshot holds no name that could be learnt. */
static bool holds_nothing(int rc)
{
    return rc == -ENOENT || rc == -ENOTDIR || rc == -EISDIR || rc == -ENOTSUP || rc == -ELOOP ||
           rc == -SNAP_NOT_HELD;
}

/* A file that is too large, or closed to us, may hold a name. */
static int read_names(struct arena *a, struct root *r, const char *path, struct str *ret,
                      struct gm_err *err)
{
    enum { TEXT_MAX = 64 << 20 };
    int rc = root_read(r, a, path, TEXT_MAX, ret);
    if (rc == -EFBIG) {
        return gm_err_set(err, GM_ERR_LIMIT,
                          "%s is larger than %d MiB, names in it would not be "
                          "redacted",
                          path, TEXT_MAX >> 20);
    }
    if (rc < 0 && !holds_nothing(rc)) {
        return gm_err_set(err, GM_ERR_LOOK,
                          "%s cannot be read (%s), names in it would not be redacted", path,
                          strerror(-rc));
    }
    if (rc < 0) {
        *ret = (struct str){0};
    }
    return 0;
}

int snapshot_add_names(struct arena *a, uid_t uid, const char *const *env, size_t n_env,
                       struct root *r, struct snapshot_names *ret, struct gm_err *err)
{
    static const char *const hosts[] = {"/etc/hostname", "/proc/sys/kernel/hostname"};
    struct str text;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        int rc = read_names(a, r, hosts[i], &text, err);
        if (rc < 0) {
            return rc;
        }
        add_host(a, text, ret);
    }
    int rc = read_names(a, r, "/etc/passwd", &text, err);
    if (rc < 0) {
        return rc;
    }
    learn_from_passwd(a, uid, text, ret);
    for (size_t i = 0; i < n_env; i++) {
        learn_from_variable(a, env[i], ret);
    }
    return 0;
}

int snapshot_find_names(const struct snapshot *s, struct root *r, struct snapshot_names *ret,
                        struct gm_err *err)
{
    *ret = (struct snapshot_names){0};
    return snapshot_add_names(s->arena, s->uid, s->env.items, s->env.n, r, ret, err);
}
