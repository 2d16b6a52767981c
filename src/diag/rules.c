/* The rules that look at whole processes. */
#include <string.h>

#include "diag/internal.h"
#include "py/dist.h"

static bool is_musl(const struct model_process *p)
{
    return p->ldso && !p->ldso->is_static && p->ldso->loader.kind == LDSO_MUSL;
}

static void rule_loader(struct diag *d, const struct model_process *p)
{
    const struct ldso_process *l = p->ldso;
    struct diag_finding *f =
        diag_add(d, DIAG_LOADER_MISSING, l->loader.path, l->loader.path,
                 arena_printf(d->a, "%s cannot start: its loader does not exist.", l->main->path));
    diag_evidence(d, f, "its PT_INTERP names %s: %s", l->loader.path, l->loader.missing);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Install the C library that contains %s, or use a build for this system.",
                l->loader.path);
}

/* The libraries by which an object is known to be linked with glibc. musl's own have "libc.so" or
 * "libc.musl-*.so.1" (musl, ldso/dynlink.c, load_library). */
static const char *glibc_need(const struct elf_image *e)
{
    static const char *const names[] = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2",
                                        "ld-linux-*.so.*"};
    for (size_t i = 0; i < e->n_needs; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (str_glob(names[k], e->needs[i].name)) {
                return e->needs[i].name;
            }
        }
    }
    return NULL;
}

/* What shows that the packages are for glibc; NULL: they may be built for musl. */
static const char *glibc_evidence(struct diag *d, const struct model_process *p)
{
    for (size_t i = 0; i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        const char *need = o->file ? glibc_need(&o->file->image) : NULL;
        if (need) {
            return arena_printf(d->a, "%s needs %s", path_normal(d->a, o->path), need);
        }
    }
    for (size_t i = 0; i < d->m->foreign.n; i++) {
        const char *file = d->m->foreign.items[i].file;
        if (ends_with(file, "-linux-gnu.so")) {
            return arena_printf(d->a, "%s is for a Python of glibc", file);
        }
    }
    return NULL;
}

static void rule_musl(struct diag *d, const struct model_process *p)
{
    const char *evidence = glibc_evidence(d, p);
    if (!evidence) {
        return;
    }
    struct diag_finding *f =
        diag_add(d, DIAG_MUSL, p->ldso->loader.path, p->ldso->loader.path,
                 arena_printf(d->a,
                              "%s uses musl; the GPU packages installed for it are built for "
                              "glibc.",
                              p->ldso->main->path));
    diag_seen_in(d, f, p);
    diag_evidence(d, f, "its loader is %s", p->ldso->loader.path);
    diag_evidence(d, f, "%s", evidence);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Use an image or a system with glibc (Debian, Ubuntu, Rocky).");
}

/* A script is in the image, and what its first line names is not: the kernel reports the same error
 * as for a missing program. */
static void add_interpreter(struct diag *d, const char *name, const char *script)
{
    size_t n = strlen(name);
    bool windows = n && name[n - 1] == '\r';
    struct diag_finding *f = diag_add(
        d, DIAG_ENTRY_MISSING, script, script,
        windows ? arena_printf(d->a,
                               "The first line of %s ends with a carriage return: the kernel looks "
                               "for the interpreter \"%.*s\\r\", which does not exist.",
                               script, (int)n - 1, name)
                : arena_printf(d->a, "The image starts %s, whose interpreter %s is not in it.",
                               script, name));
    diag_evidence(d, f, "the start fails with \"no such file or directory\", though %s exists",
                  script);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                windows
                    ? "Convert the file to Unix line endings before it is copied into the image "
                      "(dos2unix; with git: text eol=lf in .gitattributes)."
                    : "Correct the first line of the script, or install the interpreter in the "
                      "image.");
}

static void rule_entry(struct diag *d)
{
    const char *name = d->m->entry_missing;
    if (!name) {
        return;
    }
    if (d->m->entry_missing_for) {
        add_interpreter(d, name, d->m->entry_missing_for);
        return;
    }
    const char *path = diag_getenv(d, "PATH");
    struct diag_finding *f =
        diag_add(d, DIAG_ENTRY_MISSING, name, name,
                 arena_printf(d->a, "The image starts %s, which is not in it.", name));
    if (!strchr(name, '/') && path) {
        diag_evidence(d, f, "looked for in PATH=%s", path);
    }
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Correct ENTRYPOINT, CMD or PATH of the image, or give the container a command "
                "that exists.");
}

static void rule_refused(struct diag *d)
{
    const char *why = d->m->image_refused;
    if (why) {
        struct diag_finding *f =
            diag_add(d, DIAG_IMAGE_REFUSED, why, "image",
                     arena_printf(d->a,
                                  "%s Podman refuses to unpack the image, as docker with its own "
                                  "image "
                                  "store does.",
                                  why));
        diag_evidence(d, f, "each layer is unpacked into its own folder");
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Write the layer again with a tool that writes each path once, with the "
                    "folders "
                    "and hard links of the same layer: docker build, podman build.");
    }
}

void diag_rule_start(struct diag *d)
{
    rule_entry(d);
    rule_refused(d);
    diag_rule_architecture(d);
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (p->ldso && !p->ldso->is_static && p->ldso->loader.missing) {
            rule_loader(d, p);
        } else if (is_musl(p) && p->n_script > 0) {
            rule_musl(d, p);
        }
    }
}

/* ------------------------------------------------------------------ stub */

/* The path of the stub behind an object, or NULL if it is none. */
static const char *stub_of(struct diag *d, const struct ldso_object *o)
{
    if (!o->soname || strcmp(o->soname, "libcuda.so.1") != 0) {
        return NULL;
    }
    const char *real = strstr(o->path, "/stubs/") ? o->path : model_real_path(d->m, o->path);
    return real && strstr(real, "/stubs/") ? real : NULL;
}

/* The folders of DT_RPATH or DT_RUNPATH but this one; NULL: it is written in a way that is not
 * understood. */
static const char *path_without(struct diag *d, const struct ldso_object *by, bool is_rpath,
                                const char *dir)
{
    const char *text = is_rpath ? by->file->image.rpath : by->file->image.runpath, *kept = "";
    const char *origin = path_dir(d->a, model_absolute(d->m, by->path));
    bool found = false;
    for (struct str rest = str_of(text); rest.s;) {
        const char *entry = str_dup(d->a, str_cut(&rest, ':'));
        const char *tail = starts_with(entry, "$ORIGIN")     ? entry + strlen("$ORIGIN")
                           : starts_with(entry, "${ORIGIN}") ? entry + strlen("${ORIGIN}")
                                                             : NULL;
        const char *means = tail ? arena_printf(d->a, "%s%s", origin, tail) : entry;
        bool it = strcmp(path_normal(d->a, model_absolute(d->m, means)), dir) == 0;
        found |= it;
        kept = it ? kept : arena_printf(d->a, "%s%s%s", kept, *kept ? ":" : "", entry);
    }
    return found ? kept : NULL;
}

/* patchelf makes a DT_RUNPATH of a DT_RPATH unless it is told not to (patchelf(1)). */
static void repair_stub_by_path(struct diag *d, struct diag_finding *f,
                                const struct model_process *p, const struct ldso_object *o,
                                const char *dir)
{
    const struct ldso_object *by = o->via_object ? o->via_object : p->ldso->main;
    bool is_rpath = o->via == LDSO_VIA_RPATH;
    const char *path = path_normal(d->a, model_absolute(d->m, by->path));
    const char *kept = path_without(d, by, is_rpath, dir);
    const char *words = !kept ? NULL
                        : *kept
                            ? arena_printf(d->a, "patchelf %s--set-rpath %s",
                                           is_rpath ? "--force-rpath " : "", diag_quote(d, kept))
                            : "patchelf --remove-rpath";
    diag_repair(d, f, DIAG_REPAIR_FILE, words ? diag_copy_command(d->a, words, path) : NULL,
                "Remove %s from the search path in %s, or rebuild the file without it. Edit a copy "
                "that then replaces the file: it may be a hard link into a cache.",
                dir, path_base(path));
}

static void repair_stub(struct diag *d, struct diag_finding *f, const struct model_process *p,
                        const struct ldso_object *o)
{
    const char *dir = path_normal(d->a, path_dir(d->a, o->path));
    if (o->via == LDSO_VIA_LIBRARY_PATH && diag_repair_without(d, f, p, dir)) {
        return;
    }
    if (model_link_target(d->m, o->path) && !strstr(o->path, "/stubs/")) {
        diag_repair(d, f, DIAG_REPAIR_FILE,
                    arena_printf(d->a, "rm %s && ldconfig", diag_quote(d, o->path)),
                    "Remove the link; the driver's package makes the right one.");
    } else if (o->via == LDSO_VIA_RPATH || o->via == LDSO_VIA_RUNPATH) {
        repair_stub_by_path(d, f, p, o, dir);
    } else {
        diag_repair(d, f, DIAG_REPAIR_ENV, NULL, "Remove %s from the search path.", dir);
    }
}

static void rule_stub(struct diag *d, const struct model_process *p, const struct ldso_object *o)
{
    const char *stub = stub_of(d, o);
    const struct host_injection *in;
    enum diag_whose whose = stub ? diag_whose_libcuda(d, o, &in) : DIAG_WHOSE_HOST;
    if (whose == DIAG_WHOSE_HOST) {
        return;
    }
    struct diag_finding *f =
        diag_add(d, DIAG_STUB_LIBCUDA, o->path, "libcuda.so.1",
                 arena_printf(d->a, "%s is the toolkit's stub%s%s%s, not the driver's library.",
                              o->path, strcmp(stub, o->path) ? " (" : "",
                              strcmp(stub, o->path) ? stub : "", strcmp(stub, o->path) ? ")" : ""));
    bool path = o->via == LDSO_VIA_RPATH || o->via == LDSO_VIA_RUNPATH;
    f->class = path ? "rpath-shadow" : "ld-library-path-shadow";
    diag_seen_in(d, f, p);
    diag_evidence(d, f, "found through %s", diag_via(d, o->via, o->via_object));
    if (whose != DIAG_WHOSE_NOT_ASKED) {
        diag_say_precedence(d, f, o, in);
    }
    repair_stub(d, f, p, o);
}

void diag_rule_stub(struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            rule_stub(d, p, p->ldso->objects.items[k]);
        }
    }
}

/* ------------------------------------------------------------------ found by the working directory
 */

static void rule_relative(struct diag *d, const struct model_process *p,
                          const struct ldso_object *o)
{
    if (o->path[0] == '/' || (o->via != LDSO_VIA_RPATH && o->via != LDSO_VIA_RUNPATH)) {
        return;
    }
    const char *dir = path_normal(d->a, model_absolute(d->m, path_dir(d->a, o->path)));
    struct diag_finding *f =
        diag_add(d, DIAG_RELATIVE_SEARCH_PATH, o->path, path_base(o->path),
                 arena_printf(d->a, "%s is found only because the program starts in %s.",
                              path_base(o->path), d->m->config.cwd));
    diag_seen_in(d, f, p);
    diag_evidence(d, f, "%s names the relative folder %s", diag_via(d, o->via, o->via_object),
                  path_dir(d->a, o->path));
    const char *old = diag_getenv(d, "LD_LIBRARY_PATH");
    const struct model_process *tried =
        diag_replay(d, p, old && *old ? arena_printf(d->a, "%s:%s", dir, old) : dir);
    const struct ldso_object *then =
        tried ? ldso_find_object(tried->ldso, o->soname ? o->soname : path_base(o->path)) : NULL;
    if (then && then->path[0] == '/') {
        diag_repair(d, f, DIAG_REPAIR_ENV, diag_prepend_command(d, dir),
                    "Name the absolute folder (tried in the model).");
    } else {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Correct the search path in a copy that then replaces the file (patchelf "
                    "--set-rpath '$ORIGIN/...'; the file may be a hard link into a cache), or "
                    "always start the program in the same folder.");
    }
}

void diag_rule_relative(struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            rule_relative(d, p, p->ldso->objects.items[k]);
        }
    }
}

/* ------------------------------------------------------------------ extension modules */

static void rule_extension(struct diag *d, const struct model_foreign *x)
{
    const struct py_env *env = d->m->env;
    const struct py_dist *dist = py_env_by_dist(d->m->env, x->package);
    struct diag_finding *f = diag_add(
        d, DIAG_EXTENSION_OTHER_PYTHON, x->file, x->package,
        arena_printf(d->a,
                     "%s was built for another Python: this is %d.%d, but %s exists only as "
                     "%s.",
                     x->package, env->major, env->minor, x->module, path_base(x->file)));
    diag_seen_where_imported(d, f, x->package);
    diag_evidence(d, f, "the file is %s", x->file);
    diag_evidence(d, f, "this interpreter looks for %s%s", x->module, env->suffixes[0]);
    const char *spec = dist && dist->version
                           ? arena_printf(d->a, "%s==%s", x->package, dist->version)
                           : x->package;
    diag_repair(
        d, f, DIAG_REPAIR_PACKAGE,
        diag_pip(d, arena_printf(d->a, "--force-reinstall --no-deps %s", diag_quote(d, spec))),
        "Install %s again for this interpreter.", x->package);
}

void diag_rule_extension(struct diag *d)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        const struct diag_finding *f = d->report->findings.items[i];
        if (f->cause == DIAG_MUSL) {
            return; // that is the root cause: nothing here is for this interpreter
        }
    }
    for (size_t i = 0; d->m->env && i < d->m->foreign.n; i++) {
        rule_extension(d, &d->m->foreign.items[i]);
    }
}
