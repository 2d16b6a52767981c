/*
 * Variables of a Windows by its registry: those of all users (SYSTEM, Session Manager\Environment),
 * and each user's own (NTUSER.DAT, Environment), which count before them; of PATH, the user's
 * folders come behind the system's.
 *
 * A text of type REG_EXPAND_SZ names others as %NAME%. Those of type REG_SZ are set before those
 * that name others (Wine 8.0, dlls/userenv/userenv_main.c: set_registry_variables()), so that they
 * have a value then; one that names others itself is not followed.
 */
#include <stdio.h>
#include <string.h>

#include "host/names.h"
#include "host/windows_look.h"
#include "winldr/path.h"

#define ENVIRONMENT_KEY "Control\\Session Manager\\Environment"

enum { EM_X86_64 = 62, EM_AARCH64 = 183 };

/* Those that are kept, of all users and of each. */
static const char *const kept[] = {
    "CUDA_PATH",
    "HIP_PATH",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "HSA_OVERRIDE_GFX_VERSION",
    "CUDA_HOME",
    "BNB_CUDA_VERSION",
    "BNB_ROCM_VERSION",
    "ROCM_SDK_PRELOAD_LIBRARIES",
};

static const char *const of_python[] = {"PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE"};

enum { N_KEPT = sizeof kept / sizeof *kept, N_OF_PYTHON = sizeof of_python / sizeof *of_python };

/* Where the variables are that a text may name. */
struct scope {
    struct windows_look *w;
    const struct hive *user; // NULL: a text of all users
    struct hive_key user_key;
    const char *home;
};

/* ------------------------------------------------------------------ %NAME% */

static bool has_type(struct windows_look *w, const struct hive *h, struct hive_key key,
                     const char *name, uint32_t type)
{
    struct hive_value v;
    struct gm_err err;
    return hive_value(h, w->l->arena, key, name, &v, &err) == 1 && v.type == type;
}

/* The value of a variable that names no others, or NULL. */
static const char *plain_value(struct windows_look *w, const struct hive *h, struct hive_key key,
                               const char *name)
{
    const char *text =
        has_type(w, h, key, name, HIVE_SZ) ? host_windows_text(w, h, key, name) : NULL;
    return text && !strchr(text, '%') ? text : NULL;
}

/* NULL: it is not known. */
static const char *value_named(const struct scope *s, struct str name)
{
    const struct {
        const char *name, *value;
    } always[] = {
        {"SystemRoot", "C:\\Windows"},
        {"windir", "C:\\Windows"},
        {"SystemDrive", "C:"},
        {"ProgramFiles", "C:\\Program Files"},
        {"ProgramData", "C:\\ProgramData"},
        {"USERPROFILE", s->home},
        {"Path", NULL}, // of two parts
    };
    struct hive_key key;
    struct hive_value own;
    struct gm_err err;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (winldr_name_part_is(name, str_of(always[i].name))) {
            return always[i].value;
        }
    }
    const char *text = str_dup(s->w->l->arena, name);
    if (s->user && hive_value(s->user, s->w->l->arena, s->user_key, text, &own, &err) != 0) {
        return plain_value(s->w, s->user, s->user_key, text);
    }
    return host_windows_key(&s->w->system, s->w->set, ENVIRONMENT_KEY, &key)
               ? plain_value(s->w, &s->w->system, key, text)
               : NULL;
}

/* The text with the variables whose value is known; the others stay as they are. */
static const char *expand(const struct scope *s, const char *text)
{
    struct arena *a = s->w->l->arena;
    const char *done = "";
    while (*text) {
        size_t n = strcspn(text, "%");
        const char *end = text[n] ? strchr(text + n + 1, '%') : NULL;
        const char *value =
            end ? value_named(s, (struct str){text + n + 1, (size_t)(end - text - n) - 1}) : NULL;
        size_t taken = value ? (size_t)(end - text) + 1 : n + (text[n] == '%');
        done =
            arena_printf(a, "%s%.*s%s", done, (int)(value ? n : taken), text, value ? value : "");
        text += taken;
    }
    return done;
}

/* NAME of a "%NAME%" that is left in a PATH; s NULL: none is. A lone % is a part of a folder's
 * name. */
static struct str variable_left(const char *path)
{
    struct str rest = str_of(path);
    while (rest.s) {
        struct str folder = str_cut(&rest, ';');
        (void)str_cut(&folder, '%'); // what is before it
        struct str name = folder.s ? str_cut(&folder, '%') : (struct str){0};
        if (folder.s) {
            return name;
        }
    }
    return (struct str){0};
}

/* ------------------------------------------------------------------ one key */

/* The value Path of a key. Where it names a variable that is not known here, which folders are
 * searched is not known either; nor is it where its hive is dirty. */
static struct host_fact path_fact(const struct scope *s, const struct hive *h, struct hive_key key,
                                  const char *where)
{
    struct arena *a = s->w->l->arena;
    if (h->dirty) {
        return host_unknown(where,
                            "the hive is dirty: its last changes are in its logs, which are not "
                            "read");
    }
    struct host_fact path = host_windows_value(s->w, h, key, "Path", where);
    if (path.state != HOST_YES) {
        return path;
    }
    bool expands = has_type(s->w, h, key, "Path", HIVE_EXPAND_SZ);
    path.value = expands ? expand(s, path.value) : path.value;
    struct str left = variable_left(path.value);
    if (!left.s) {
        return path;
    }
    return host_unknown(
        where, arena_printf(a,
                            expands ? "it has %%%.*s%%, whose value is not known"
                                    : "it has %%%.*s%%, which Windows may not expand in a value of "
                                      "type REG_SZ",
                            (int)left.n, left.s));
}

static const char *variable_value(const struct scope *s, const struct hive *h, struct hive_key key,
                                  const char *name)
{
    const char *value = host_windows_text(s->w, h, key, name);
    return value && has_type(s->w, h, key, name, HIVE_EXPAND_SZ) ? expand(s, value) : value;
}

/* Those of the names that the key has. */
static void add_settings(const struct scope *s, const struct hive *h, struct hive_key key,
                         const char *const *names, size_t n, host_settings *ret)
{
    for (size_t i = 0; i < n; i++) {
        const char *value = variable_value(s, h, key, names[i]);
        if (value) {
            VEC_PUSH(s->w->l->arena, ret, (struct host_setting){names[i], value});
        }
    }
}

/* ------------------------------------------------------------------ all users, and each */

static void read_common(struct windows_look *w)
{
    struct host *h = w->l->host;
    const struct scope s = {.w = w};
    struct hive_key key;
    uint64_t cores = 0;
    if (!host_windows_key(&w->system, w->set, ENVIRONMENT_KEY, &key)) {
        return;
    }
    const char *machine = host_windows_text(w, &w->system, key, "PROCESSOR_ARCHITECTURE");
    const char *number = host_windows_text(w, &w->system, key, "NUMBER_OF_PROCESSORS");
    h->windows.path = path_fact(&s, &w->system, key, w->hive.where);
    h->machine = !machine                           ? 0
                 : winldr_name_is(machine, "AMD64") ? EM_X86_64
                 : winldr_name_is(machine, "ARM64") ? EM_AARCH64
                                                    : 0;
    if (number && str_u64(str_of(number), &cores) && cores) {
        h->cpu.cores_online = h->cpu.cores = host_amount(w->hive.where, cores);
    }
    h->environment = host_yes(w->hive.where, NULL);
    add_settings(&s, &w->system, key, kept, N_KEPT, &h->variables);
    add_settings(&s, &w->system, key, of_python, N_OF_PYTHON, &h->windows.python);
}

static void read_user(struct windows_look *w, const char *name)
{
    struct arena *a = w->l->arena;
    const char *home = winldr_path_join(a, "C:\\Users", name);
    struct hive h = {0};
    struct gm_err err;
    struct host_fact file = host_windows_open(w, winldr_path_join(a, home, "NTUSER.DAT"), &h);
    struct host_windows_user user = {
        .name = name,
        .path = file,
        .is_read = file.state == HOST_YES,
        .is_dirty = file.state == HOST_YES && h.dirty,
    };
    struct scope s = {.w = w, .user = &h, .home = home};
    if (file.state == HOST_NO) {
        return; // Public and the like
    }
    int rc =
        file.state == HOST_YES ? hive_find(&h, hive_root(&h), "Environment", &s.user_key, &err) : 0;
    if (file.state == HOST_YES) {
        user.path = rc > 0   ? path_fact(&s, &h, s.user_key, file.where)
                    : rc < 0 ? host_unknown(file.where, arena_strdup(a, err.text))
                             : host_no(file.where, "this user has no variables");
    }
    if (rc > 0) {
        add_settings(&s, &h, s.user_key, kept, N_KEPT, &user.variables);
        add_settings(&s, &h, s.user_key, of_python, N_OF_PYTHON, &user.python);
    }
    host_windows_read_pythons(w, &h, "Software\\Python", name, file.where);
    VEC_PUSH(a, &w->l->host->windows.users, user);
}

void host_windows_read_variables(struct windows_look *w)
{
    struct winldr_names names = winldr_files_list(&w->files, "C:\\Users");
    struct host *h = w->l->host;
    read_common(w);
    for (size_t i = 0; i < names.n && h->windows.users.n < HOST_WINDOWS_USERS_MAX; i++) {
        read_user(w, names.items[i]);
    }
    if (h->windows.users.n == HOST_WINDOWS_USERS_MAX) {
        root_note_cut(w->l->root, "%d users were looked at, the most; the others were not",
                      HOST_WINDOWS_USERS_MAX);
    }
    for (size_t i = 0; h->windows.users.n == 1 && i < h->windows.users.items[0].variables.n; i++) {
        host_set_variable(h, w->l->arena, h->windows.users.items[0].variables.items[i]);
    }
}
