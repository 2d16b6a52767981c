/*
 * Whose libcuda a program of an image loads once an engine has put the host's into the container by
 * a CDI specification (host/host.h, struct host_injection). The image's own copy comes first where
 *
 *   - DT_RPATH, DT_RUNPATH or a path names it;
 *   - its folder is in LD_LIBRARY_PATH, and the specification sets no other;
 *   - its folder is in ld.so.cache, and the specification has no hook that writes the cache anew,
 *     or a file of ld.so.conf.d that sorts before the hook's 00-nvcr-*.conf names it. From release
 *     1.19 on the hook leaves out folders that the image's loader knows already
 *     (nvidia-container-toolkit, internal/ldconfig/ldconfig.go, filterDirectories; tried).
 *
 * A mount on the copy itself replaces it.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/internal.h"
#include "host/parse.h"

/* ------------------------------------------------------------------ folders */

static const char *normal_dir(struct diag *d, const char *path)
{
    const char *dir = path_dir(d->a, model_absolute(d->m, path));
    const char *real = model_real_path(d->m, dir);
    return real ? real : path_normal(d->a, dir);
}

/* Whether the specification mounts a libcuda in the folder. */
static bool mounts_in(struct diag *d, const struct host_injection *in, const char *dir)
{
    const char *wanted = normal_dir(d, path_join(d->a, dir, "x"));
    for (size_t i = 0; i < in->libcuda.n; i++) {
        if (strcmp(normal_dir(d, in->libcuda.items[i]), wanted) == 0) {
            return true;
        }
    }
    return false;
}

static bool injection_covers(struct diag *d, const struct host_injection *in, const char *real)
{
    for (size_t i = 0; real && i < in->libcuda.n; i++) {
        const char *path = model_real_path(d->m, in->libcuda.items[i]);
        if (path && strcmp(path, real) == 0) {
            return true;
        }
    }
    return false;
}

/* Which of two folders a list of LD_LIBRARY_PATH names first: the image's own, or one of the
 * mounts. */
static enum diag_whose first_of_path(struct diag *d, const struct host_injection *in,
                                     const char *list, const char *own)
{
    for (struct str rest = str_of(list); rest.s;) {
        const char *dir = str_dup(d->a, str_cut(&rest, ':'));
        if (*dir && mounts_in(d, in, dir)) {
            return DIAG_WHOSE_HOST;
        }
        if (*dir && own && strcmp(normal_dir(d, path_join(d->a, dir, "x")), own) == 0) {
            return DIAG_WHOSE_IMAGE;
        }
    }
    return DIAG_WHOSE_NOT_ASKED;
}

/* ------------------------------------------------------------------ the cache */

/* The place of a folder among those of ld.so.conf; their number: it is none of them. */
static size_t conf_index(struct diag *d, const char *dir)
{
    size_t i = 0;
    while (i < d->m->conf.dirs.n &&
           strcmp(normal_dir(d, path_join(d->a, d->m->conf.dirs.items[i].dir, "x")), dir) != 0) {
        i++;
    }
    return i;
}

/* Whether the folder at this place comes before a file 00-nvcr-*.conf of ld.so.conf.d. */
static enum diag_whose before_the_hooks(struct diag *d, size_t index)
{
    static const char folder[] = "/etc/ld.so.conf.d/", hook[] = "00-nvcr-";
    const struct ldso_conf_dir *dirs = d->m->conf.dirs.items;
    if (starts_with(dirs[index].file, folder)) {
        return strcmp(dirs[index].file + strlen(folder), hook) < 0 ? DIAG_WHOSE_IMAGE
                                                                   : DIAG_WHOSE_HOST;
    }
    for (size_t i = 0; i < index; i++) { // ld.so.conf itself: where it includes the others
        if (starts_with(dirs[i].file, folder)) {
            return DIAG_WHOSE_HOST;
        }
    }
    return DIAG_WHOSE_UNKNOWN;
}

static bool is_system_folder(const char *dir)
{
    static const char *const system[] = {"/usr/lib/x86_64-linux-gnu",
                                         "/lib/x86_64-linux-gnu",
                                         "/usr/lib/aarch64-linux-gnu",
                                         "/lib/aarch64-linux-gnu",
                                         "/usr/lib64",
                                         "/lib64",
                                         "/usr/lib",
                                         "/lib"};
    for (size_t i = 0; i < sizeof system / sizeof *system; i++) {
        if (strcmp(dir, system[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The cache that the hook writes, for one of its folders. `own`: the place of the image's folder.
 */
static enum diag_whose by_hook(struct diag *d, const char *folder, size_t own)
{
    const char *version = d->m->host->engines.toolkit.version;
    const char *dir = normal_dir(d, path_join(d->a, folder, "x"));
    size_t known = conf_index(d, dir);
    enum diag_whose added = before_the_hooks(d, own);
    bool left_out = known < d->m->conf.dirs.n || is_system_folder(dir);
    enum diag_whose kept = known < own ? DIAG_WHOSE_HOST : DIAG_WHOSE_IMAGE;
    if (!left_out || added == kept) {
        return added;
    }
    return !version ? DIAG_WHOSE_UNKNOWN : host_version_cmp(version, "1.19.0") >= 0 ? kept : added;
}

/* Whether the hook for forward compatibility puts the image's folder before all others: it compares
 * the major numbers alone where the library has no note. */
static bool prefers_compat(struct diag *d, const struct host_injection *in, const char *real)
{
    const char *driver = diag_driver(d), *compat = model_real_path(d->m, "/usr/local/cuda/compat");
    struct str version;
    return in->compat_hook && driver && real && compat &&
           strcmp(path_dir(d->a, real), compat) == 0 &&
           host_parse_so_version(str_of(path_base(real)), &version) &&
           atoi(str_dup(d->a, version)) > atoi(driver);
}

static enum diag_whose by_cache(struct diag *d, const struct host_injection *in, const char *own,
                                const char *real)
{
    struct model_library *list = NULL;
    if (prefers_compat(d, in, real)) {
        return DIAG_WHOSE_IMAGE;
    }
    (void)model_libraries(d->m, "libcuda.so.1", &list); // reads ld.so.conf
    size_t index = conf_index(d, own);
    enum diag_whose best = DIAG_WHOSE_IMAGE;
    for (size_t i = 0; i < in->cache_folders.n; i++) {
        if (mounts_in(d, in, in->cache_folders.items[i])) {
            /* A folder of the old cache alone is gone from the new one. */
            enum diag_whose one = index == d->m->conf.dirs.n
                                      ? DIAG_WHOSE_HOST
                                      : by_hook(d, in->cache_folders.items[i], index);
            best = one == DIAG_WHOSE_HOST || best == DIAG_WHOSE_IMAGE ? one : best;
        }
    }
    return best;
}

/* ------------------------------------------------------------------ whose */

static enum diag_whose whose_by(struct diag *d, const struct host_injection *in,
                                const struct ldso_object *o)
{
    const char *own = normal_dir(d, o->path);
    bool fixed = o->via == LDSO_VIA_RPATH || o->via == LDSO_VIA_PATH || o->via == LDSO_VIA_PRELOAD;
    bool by_path = o->via == LDSO_VIA_LIBRARY_PATH;
    if (injection_covers(d, in, model_real_path(d->m, o->path))) {
        return DIAG_WHOSE_HOST;
    }
    const char *list = in->library_path ? in->library_path : diag_getenv(d, "LD_LIBRARY_PATH");
    enum diag_whose first = fixed ? DIAG_WHOSE_IMAGE : first_of_path(d, in, list, own);
    if (first != DIAG_WHOSE_NOT_ASKED) {
        return first;
    }
    if (by_path) { // its folder is in the list no more, and what else finds it was not looked for
        return DIAG_WHOSE_UNKNOWN;
    }
    return o->via == LDSO_VIA_RUNPATH ? DIAG_WHOSE_IMAGE
           : o->via == LDSO_VIA_CACHE || o->via == LDSO_VIA_DEFAULT
               ? by_cache(d, in, own, model_real_path(d->m, o->path))
               : DIAG_WHOSE_UNKNOWN;
}

enum diag_whose diag_whose_libcuda(struct diag *d, const struct ldso_object *o,
                                   const struct host_injection **ret)
{
    const struct host *h = d->m->host;
    enum diag_whose answer = DIAG_WHOSE_NOT_ASKED;
    *ret = NULL;
    for (size_t i = 0; h && d->m->host_elsewhere && o && i < h->engines.injections.n; i++) {
        enum diag_whose one = whose_by(d, &h->engines.injections.items[i], o);
        if (answer == DIAG_WHOSE_NOT_ASKED || answer == DIAG_WHOSE_HOST ||
            one == DIAG_WHOSE_IMAGE) {
            answer = one;
            *ret = &h->engines.injections.items[i];
        }
    }
    return answer;
}

/* ------------------------------------------------------------------ what is said */

/* Whether the specification that gpumend would write on this host comes before the image's own. */
static bool ours_would_win(struct diag *d, const struct ldso_object *o)
{
    bool hooks = d->m->host->engines.toolkit.hook;
    struct host_injection in = {.library_path = hooks ? NULL : HOST_DRIVER_FOLDER};
    VEC_PUSH(d->a, &in.libcuda, HOST_DRIVER_FOLDER "/libcuda.so.1");
    if (hooks) {
        VEC_PUSH(d->a, &in.cache_folders, HOST_DRIVER_FOLDER);
    }
    return whose_by(d, &in, o) == DIAG_WHOSE_HOST;
}

/* The variable for one start, where the specification sets none. */
static void repair_by_start(struct diag *d, struct diag_finding *f, const struct host_injection *in)
{
    const char *own = diag_getenv(d, "LD_LIBRARY_PATH");
    const char *list = arena_printf(d->a, "%s%s%s", path_dir(d->a, in->libcuda.items[0]),
                                    own && *own ? ":" : "", own ? own : "");
    diag_repair(d, f, DIAG_REPAIR_TEXT,
                arena_printf(d->a,
                             "podman run --device nvidia.com/gpu=all -e LD_LIBRARY_PATH=%s "
                             "IMAGE",
                             diag_quote(d, list)),
                "Start it with the folder of the host's libcuda before all others.");
}

void diag_say_precedence(struct diag *d, struct diag_finding *f, const struct ldso_object *o,
                         const struct host_injection *in)
{
    bool fixed = o->via == LDSO_VIA_RPATH || o->via == LDSO_VIA_PATH || o->via == LDSO_VIA_PRELOAD;
    const char *file = diag_quote(d, in->file);
    diag_evidence(d, f,
                  in->library_path || in->cache_folders.n
                      ? "on the host, %s puts the driver's libcuda where the image's comes before "
                        "it (%s)"
                      : "on the host, %s mounts the driver's libcuda (%s), and has no hook that "
                        "puts it "
                        "into ld.so.cache",
                  in->file, in->libcuda.items[0]);
    if (ours_would_win(d, o)) {
        diag_repair(d, f, DIAG_REPAIR_TEXT,
                    in->ours ? "sudo gpumend container cdi --refresh"
                             : arena_printf(d->a,
                                            "sudo mv %s %s.old && sudo gpumend container "
                                            "cdi --write",
                                            file, file),
                    "On the host, write a specification that puts the driver's libraries first "
                    "(docs/containers.md).");
    } else if (!in->library_path && !fixed) {
        repair_by_start(d, f, in);
    }
}

/* Why the image's own cannot serve the host's kernel module; NULL: it can, or that is not known. */
static const char *why_wrong(struct diag *d, const char *real, bool *ret_unknown)
{
    const struct host *h = d->m->host;
    const char *driver = diag_driver(d);
    struct str version;
    *ret_unknown = false;
    if (h->wsl.is_wsl.state == HOST_YES) {
        return "WSL has its own libcuda, which no other can replace";
    }
    if (!driver || !host_parse_so_version(str_of(path_base(real)), &version)) {
        *ret_unknown = true;
        return "its version, or that of the host's kernel module, is not known";
    }
    const char *own = str_dup(d->a, version);
    return strcmp(own, driver) == 0
               ? NULL
               : arena_printf(d->a,
                              "it is of driver %s, and the host's kernel module is %s "
                              "(error 803)",
                              own, driver);
}

static void say_uncertain(struct diag *d, enum diag_whose whose)
{
    const char *note = whose == DIAG_WHOSE_UNKNOWN
                           ? "whose libcuda programs of this image load is not known: that "
                             "depends on the "
                             "release of NVIDIA's toolkit on the host, and on the order of "
                             "ld.so.conf"
                           : "whether the image's own libcuda works on this host is not known";
    if (!d->unsure) {
        VEC_PUSH(d->a, &d->report->notes, note);
    }
    d->unsure = true;
}

static void judge_own(struct diag *d, const struct model_process *p, const struct ldso_object *o)
{
    const char *real = model_real_path(d->m, o->path);
    const struct host_injection *in;
    struct host_compat note = {0};
    bool unknown;
    enum diag_whose whose = diag_whose_libcuda(d, o, &in);
    if (!real || (whose != DIAG_WHOSE_IMAGE && whose != DIAG_WHOSE_UNKNOWN)) {
        return;
    }
    model_compat_note(d->m, real, &note);
    bool special = strstr(real, "/stubs/") ||
                   host_compat_is(d->m->host, d->a, real, &note); // rules.c, drivers.c
    const char *why = special ? NULL : why_wrong(d, real, &unknown);
    if (!why) {
        return;
    }
    bool certain = whose == DIAG_WHOSE_IMAGE && !unknown;
    struct diag_finding *f = diag_add(
        d, DIAG_CONTAINER_IMAGE_DRIVER, real, real,
        arena_printf(d->a, "Programs of this image %s its own %s, not the host's driver: %s.",
                     whose == DIAG_WHOSE_IMAGE ? "load" : "may load", real, why));
    f->severity = certain ? DIAG_ERROR : DIAG_WARNING;
    f->stage = DIAG_STAGE_MACHINE;
    if (!certain) {
        say_uncertain(d, whose);
    }
    diag_seen_in(d, f, p);
    diag_evidence(d, f, "found through %s", diag_via(d, o->via, o->via_object));
    diag_say_precedence(d, f, o, in);
    diag_repair(d, f, DIAG_REPAIR_FILE, NULL,
                "Or build the image without it: the driver's libraries must be the host's.");
}

/* ------------------------------------------------------------------ what the variable costs */

/* What the process lacks that it does not lack with the image's own value; NULL: nothing. */
static const struct diag_failure *lost(struct diag *d, const struct model_process *p,
                                       const struct model_process *tried)
{
    struct diag_failure *before = NULL, *after = NULL;
    size_t n = diag_failures(d, p, &before), m = diag_failures(d, tried, &after);
    for (size_t i = 0; i < m; i++) {
        bool had = diag_is_driver_library(d, after[i].name);
        for (size_t k = 0; k < n; k++) {
            had |= strcmp(before[k].name, after[i].name) == 0;
        }
        if (!had) {
            return &after[i];
        }
    }
    return NULL;
}

static void judge_replaced(struct diag *d, const struct model_process *p,
                           const struct host_injection *in)
{
    const char *own = diag_getenv(d, "LD_LIBRARY_PATH");
    const struct model_process *tried = own && *own ? diag_replay(d, p, in->library_path) : NULL;
    const struct diag_failure *x = tried ? lost(d, p, tried) : NULL;
    if (!x) {
        return;
    }
    struct diag_finding *f =
        diag_add(d, DIAG_LIBRARY_NOT_ON_PATH, arena_printf(d->a, "replaced %s", x->name), x->name,
                 arena_printf(d->a,
                              "The host's CDI specification replaces the LD_LIBRARY_PATH of the "
                              "image, and "
                              "%s is not found then.",
                              x->name));
    f->stage = DIAG_STAGE_MACHINE;
    diag_seen_in(d, f, p);
    diag_evidence(d, f, "the image sets LD_LIBRARY_PATH=%s", own);
    diag_evidence(d, f, "%s on the host sets LD_LIBRARY_PATH=%s, in its place and in that of -e",
                  in->file, in->library_path);
    diag_repair(d, f, DIAG_REPAIR_TEXT, in->ours ? "sudo gpumend container cdi --refresh" : NULL,
                "On the host, install NVIDIA's nvidia-container-toolkit-base and write the "
                "specification again: with its hooks it sets no variable.");
    diag_repair(d, f, DIAG_REPAIR_FILE,
                arena_printf(d->a,
                             "RUN printf '%%s\\n' %s | tr ':' '\\n' > "
                             "/etc/ld.so.conf.d/image.conf && ldconfig",
                             diag_quote(d, own)),
                "Or name the folders in the image's ld.so.conf, in place of the variable.");
}

void diag_rule_precedence(struct diag *d)
{
    const struct host *h = d->m->host;
    if (!h || !d->m->host_elsewhere) {
        return;
    }
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            const struct ldso_object *o = p->ldso->objects.items[k];
            if (strcmp(o->soname ? o->soname : path_base(o->path), "libcuda.so.1") == 0) {
                judge_own(d, p, o);
            }
        }
        for (size_t k = 0; k < h->engines.injections.n; k++) {
            if (h->engines.injections.items[k].library_path) {
                judge_replaced(d, p, &h->engines.injections.items[k]);
            }
        }
    }
}
