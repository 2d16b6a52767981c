/*
 * The start of a program: its loader, LD_PRELOAD and /etc/ld.so.preload, and its own needs. glibc
 * elf/rtld.c.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ldso/internal.h"
#include "ldso/process.h"

enum { GLIBC_MINOR_ASSUMED = 36 };

static bool user_in_group(gid_t gid)
{
    return getegid() == gid;
}

/* AT_SECURE: set-id of another user, or file capabilities for anyone but root
 * (security/commoncap.c, cap_bprm_creds_from_file). */
static void find_secure(struct ldso_process *p, const char *path)
{
    const struct ldso_file *f = p->main->file;
    if (f->mode & S_ISUID && f->uid != p->config.uid) {
        p->secure_why = "ignored, the program is set-user-ID (secure-execution mode)";
    } else if (f->mode & S_ISGID && f->mode & S_IXGRP && !user_in_group(f->gid)) {
        p->secure_why = "ignored, the program is set-group-ID (secure-execution mode)";
    } else if (p->config.uid != 0 && root_has_capabilities(p->store->root, path) == 1) {
        p->secure_why = "ignored, the program has file capabilities (secure-execution mode)";
    }
    p->secure = p->secure_why != NULL;
}

/* The secure-execution rule for names with a slash is LD_PRELOAD's, not that of the file
 * (elf/rtld.c, handle_preload_list). */
static void preload_one(struct ldso_process *p, const char *name, bool from_env,
                        object_list *preloads)
{
    struct ldso_request *r = ldso_request_new(p, p->main, name, LDSO_PRELOAD);
    if (p->secure && from_env && strchr(name, '/')) {
        (void)ldso_refuse(r, LDSO_REFUSED, NULL,
                          "ignored in secure-execution mode: the name has a slash");
        return;
    }
    struct ldso_object *o = ldso_map_object(p, r, p->main, false);
    if (!o && !p->limit) {
        r->glibc_says = arena_printf(
            p->arena,
            "ERROR: ld.so: object '%s' from LD_PRELOAD cannot be preloaded (%s): ignored.", name,
            r->errstring ? r->errstring : r->glibc_says);
        return;
    }
    if (o && r->outcome == LDSO_LOADED) {
        o->via = LDSO_VIA_PRELOAD;
        VEC_PUSH(p->arena, preloads, o);
    }
}

static void preload_list(struct ldso_process *p, const char *text, const char *separators,
                         bool from_env, object_list *preloads)
{
    for (const char *s = text; *s && !p->dead && !p->limit;) {
        size_t n = strcspn(s, separators);
        if (n) {
            preload_one(p, arena_strndup(p->arena, s, n), from_env, preloads);
        }
        s += n + (s[n] != '\0');
    }
}

/* /etc/ld.so.preload: names between blanks and colons, '#' to the end of the line is a comment. */
static void preload_file(struct ldso_process *p, object_list *preloads)
{
    struct str text;
    if (root_read(p->store->root, p->arena, "/etc/ld.so.preload", 1 << 20, &text) < 0) {
        return; // most systems have none
    }
    char *s = (char *)(uintptr_t)text.s; // our own copy
    bool comment = false;
    for (size_t i = 0; i < text.n; i++) {
        comment = s[i] == '#' || (comment && s[i] != '\n');
        if (comment || s[i] == '\0') {
            s[i] = ' ';
        }
    }
    preload_list(p, s, " \t\n:", false, preloads);
}

/* The loader's object stands right behind the program while dependencies are mapped, and then
 * where it comes in the program's search list. If nobody needs it by name, it is behind what is in
 * that list since glibc 2.41, and in no link map before (elf/rtld.c). */
static void place_interp(struct ldso_process *p)
{
    if (!p->interp) {
        return;
    }
    size_t at = 0;
    while (at < p->objects.n && p->objects.items[at] != p->interp) {
        at++;
    }
    memmove(&p->objects.items[at], &p->objects.items[at + 1],
            (p->objects.n - at - 1) * sizeof *p->objects.items);
    p->objects.n--;
    struct ldso_object *before = NULL;
    for (size_t i = 1; i < p->main->scope.n && !before; i++) {
        if (p->main->scope.items[i] == p->interp) {
            before = p->main->scope.items[i - 1];
        }
    }
    if (!before && p->glibc_minor < 41) {
        p->interp = NULL;
        return;
    }
    before = before ? before : p->main->scope.items[p->main->scope.n - 1];
    at = 0;
    while (at < p->objects.n && p->objects.items[at] != before) {
        at++;
    }
    VEC_PUSH(p->arena, &p->objects, p->interp); // makes room
    memmove(&p->objects.items[at + 2], &p->objects.items[at + 1],
            (p->objects.n - at - 2) * sizeof *p->objects.items);
    p->objects.items[at + 1] = p->interp;
    for (size_t i = 0; i < p->objects.n; i++) {
        p->objects.items[i]->place = i;
    }
}

/* The stated processor, else the system's; glibc.cpu.hwcaps and hwcap_mask take features of it
 * away. */
static void find_cpu(struct ldso_process *p, uint16_t machine)
{
    const char *tunables = ldso_getenv(p, "GLIBC_TUNABLES");
    bool stated = p->config.cpu && p->config.cpu->machine == machine;
    p->cpu = stated ? *p->config.cpu : *ldso_store_cpu(p->store, machine);
    if (!stated && p->cpu.level && tunables && strstr(tunables, "glibc.cpu.hwcap")) {
        p->cpu.level = 0;
        p->cpu.platform = machine == EM_X86_64 ? "x86_64" : p->cpu.platform;
        p->cpu.avx512_1 = false;
        p->cpu.why = "GLIBC_TUNABLES takes features of the processor away";
    }
    p->cpu.page_size = p->config.page_size ? p->config.page_size : p->cpu.page_size;
    p->cpu.why = ldso_cpu_is_unknown(&p->cpu) ? p->cpu.why : NULL;
}

static int start_objects(struct ldso_process *p, const char *path, struct ldso_file *file,
                         struct gm_err *err)
{
    const struct elf_image *e = &file->image;
    p->explicit_loader = !e->interp;
    p->main = ldso_object_new(p, path, file, NULL, LDSO_VIA_MAIN);
    p->machine_name = elf_machine_name(p->arena, e->machine);
    find_cpu(p, e->machine);
    const char *interp = e->interp ? e->interp : ldso_loader_default(e->machine, e->is64);
    if (!interp) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s: no loader is known for %s", path,
                          p->machine_name);
    }
    ldso_loader_read(p->store, interp, e->machine, e->is64, &p->loader);
    p->glibc_minor = p->config.glibc_minor   ? p->config.glibc_minor
                     : p->loader.glibc_minor ? p->loader.glibc_minor
                                             : GLIBC_MINOR_ASSUMED;
    if (p->loader.kind == LDSO_OTHER) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s: its loader %s is neither glibc's nor musl's; the search order is "
                          "not known",
                          path, interp);
    }
    VEC_PUSH(p->arena, &p->objects, p->main);
    p->is_static = (!e->has_dynamic && !e->interp) || p->loader.file == file ||
                   (!e->interp && e->flags_1 & DF_1_PIE && e->n_needs == 0);
    return 0;
}

static void add_interp(struct ldso_process *p)
{
    if (p->loader.file) {
        p->interp = ldso_object_new(p, p->loader.path, p->loader.file, p->main, LDSO_VIA_INTERP);
        ldso_add_name(p, p->interp, p->loader.path);
        VEC_PUSH(p->arena, &p->objects, p->interp);
    }
}

static void start_fails(struct ldso_process *p, const char *text)
{
    p->start_failed = true;
    p->start_error = p->start_error ? p->start_error : text;
}

static void check_start(struct ldso_process *p)
{
    for (size_t i = 0; i < p->main->scope.n; i++) {
        p->main->scope.items[i]->global = true;
        VEC_PUSH(p->arena, &p->global, p->main->scope.items[i]);
    }
    const char *text = ldso_check_isa(p, p->objects.items, p->objects.n);
    if (!text) {
        text = ldso_check_versions(p, p->objects.items, p->objects.n, true);
    }
    if (text) {
        start_fails(p, text);
    }
    if (p->start_failed || p->limit) {
        return; // symbols of an incomplete set say nothing
    }
    object_list order = ldso_relocation_order(p, p->main);
    const char *now = ldso_getenv(p, "LD_BIND_NOW");
    text = ldso_check_symbols(p, order.items, order.n, NULL, now && *now);
    if (text) {
        start_fails(p, text);
    }
}

static void start_glibc(struct ldso_process *p)
{
    add_interp(p);
    ldso_search_init(p);
    object_list preloads = {0};
    const char *env = ldso_getenv(p, "LD_PRELOAD");
    if (env) {
        preload_list(p, env, " :", true, &preloads);
    }
    preload_file(p, &preloads);
    const char *text = p->limit ? NULL : ldso_map_deps(p, p->main, &preloads, false);
    if (p->limit) {
        return; // what would come after is not known
    }
    if (text) {
        start_fails(p, text);
    }
    place_interp(p);
    check_start(p);
    ldso_tls_start(p);
}

/* What the kernel maps itself: the program and its loader. */
static void check_pages(struct ldso_process *p, const struct ldso_entry *program)
{
    const struct ldso_entry *loader =
        p->loader.file ? ldso_store_get(p->store, p->loader.path) : NULL;
    const struct ldso_entry *mapped[] = {p->explicit_loader ? NULL : program, loader};
    for (size_t i = 0; i < sizeof mapped / sizeof *mapped; i++) {
        uint32_t page = mapped[i] && mapped[i]->file ? ldso_kernel_refuses(p, mapped[i]) : 0;
        if (page) {
            const char *text = arena_printf(p->arena,
                                            "%s: cannot be started: the kernel cannot map its "
                                            "segments on pages of %u KiB",
                                            mapped[i]->path, page >> 10);
            ldso_defect_add(p, (struct ldso_defect){.kind = LDSO_PAGE_SIZE,
                                                    .object = i ? p->interp : p->main,
                                                    .text = text,
                                                    .load = p->current_load,
                                                    .fatal = true});
            start_fails(p, text);
        }
    }
}

int ldso_start(struct ldso_process *p, const char *path, struct gm_err *err)
{
    const char *absolute = ldso_absolute(p, path);
    struct ldso_entry *e = ldso_store_get(p->store, absolute);
    if (e->open_errno) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(e->open_errno));
    }
    if (!e->file) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s: %s", path,
                          e->is_dir ? "is a folder" : "is not a regular file");
    }
    const struct elf_image *image = &e->file->image;
    if (image->state != ELF_STATE_OK) {
        const unsigned char *begin = elf_bytes(image, 0, 2);
        bool script = begin && memcmp(begin, "#!", 2) == 0;
        bool json = begin && begin[0] == '{';
        const char *what = image->size == 0 ? "is empty"
                           : json   ? "is JSON, not an ELF program (a snapshot is read by check "
                                      "--snapshot FILE)"
                           : script ? "is a script, not an ELF program"
                           : image->state == ELF_STATE_NOT_ELF   ? "is not an ELF file"
                           : image->state == ELF_STATE_TOO_SHORT ? "is too short to be an ELF file"
                                                                 : image->defect;
        return gm_err_set(err, GM_ERR_FORMAT, "%s: %s", path, what);
    }
    if (image->type != ET_DYN && image->type != ET_EXEC) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s: neither a program nor a shared library", path);
    }
    bool loads = false;
    for (size_t i = 0; i < image->n_segments; i++) {
        loads |= image->segments[i].type == PT_LOAD;
    }
    if (!loads) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s: has nothing that could be loaded (no PT_LOAD)",
                          path);
    }
    if (image->dynamic_bad) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s: %s", path, image->defect);
    }
    int rc = start_objects(p, path, e->file, err);
    if (rc < 0 || p->is_static) {
        return rc;
    }
    find_secure(p, absolute);
    struct ldso_verdict v = ldso_judge(p, e, false, true);
    if (p->explicit_loader && v.fatal) {
        start_fails(p, ldso_error_text(p, path, v.says, v.error));
        return 0;
    }
    if (!p->loader.file) {
        start_fails(p, arena_printf(p->arena, "%s: cannot be started, its loader %s: %s", path,
                                    p->loader.path, p->loader.missing));
    }
    check_pages(p, e);
    if (p->loader.kind == LDSO_MUSL) {
        ldso_musl_start(p);
    } else {
        start_glibc(p);
    }
    return p->limit ? gm_err_set(err, GM_ERR_LIMIT, "%s", p->limit) : 0;
}
