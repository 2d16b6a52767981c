/* Where the loader looks, in which order. glibc elf/dl-load.c: _dl_map_object, open_path. */
#include <errno.h>
#include <string.h>

#include "ldso/internal.h"

/* ------------------------------------------------------------------ one candidate */

struct search {
    struct ldso_process *p;
    struct ldso_request *r;
    bool dlopened;
    bool other_class; // a file of the other class was seen
    struct ldso_found found;
};

static enum ldso_result errno_result(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR: return LDSO_ABSENT;
    case EACCES:
    case EPERM: return LDSO_DENIED;
    default: return LDSO_UNREADABLE;
    }
}

static void search_add_step(struct search *s, struct ldso_step step)
{
    VEC_PUSH(s->p->arena, &s->r->steps, step);
}

/* Most candidates are absent, and only in subfolders that are not told: their paths share one
 * place. Valid until the next call. */
static char *search_candidate(struct ldso_process *p, const char *dir, const char *sub,
                              size_t n_sub, const char *name)
{
    size_t n = strlen(dir), m = strlen(name), need = n + n_sub + m + 1;
    if (need > p->text_cap) {
        p->text_cap = need * 2;
        p->text = arena_alloc(p->arena, p->text_cap);
    }
    memcpy(p->text, dir, n);
    memcpy(p->text + n, sub, n_sub);
    memcpy(p->text + n + n_sub, name, m + 1);
    return p->text;
}

/* Tries one file: true if the search ends here, by success or by a fatal error. */
static bool try_file(struct search *s, const char *path, enum ldso_via via,
                     struct ldso_object *via_object, bool quiet)
{
    struct ldso_process *p = s->p;
    struct ldso_entry *e = ldso_store_get(p->store, ldso_absolute(p, path));
    enum ldso_result failed = errno_result(e->open_errno);
    if (e->open_errno && quiet && failed == LDSO_ABSENT) {
        p->ld_errno = e->open_errno;
        return false;
    }
    path =
        path[0] == '/' ? e->path : arena_strdup(p->arena, path); // the candidate's place is shared
    if (e->open_errno) {
        p->ld_errno = e->open_errno;
        const char *why = failed == LDSO_UNREADABLE ? strerror(e->open_errno) : NULL;
        search_add_step(s, (struct ldso_step){path, via, via_object, failed, false, why, e});
        return false;
    }
    struct ldso_verdict v;
    if (e->is_dir) {
        v = (struct ldso_verdict){.result = LDSO_INVALID,
                                  .fatal = true,
                                  .detail = "a folder",
                                  .error = EISDIR,
                                  .says = "cannot read file data"};
    } else if (e->is_special) {
        v = (struct ldso_verdict){.result = LDSO_INVALID,
                                  .fatal = true,
                                  .says = "file too short",
                                  .detail = "not a regular file; the loader may hang here"};
    } else {
        v = ldso_judge(p, e, s->dlopened, false);
    }
    search_add_step(s, (struct ldso_step){path, via, via_object, v.result, v.fatal, v.detail, e});
    p->ld_errno = v.result == LDSO_TAKEN || v.fatal ? v.error : ENOENT;
    if (v.result == LDSO_TAKEN || v.at_map) {
        s->found = (struct ldso_found){.entry = e,
                                       .path = path,
                                       .via = via,
                                       .crash = v.crash,
                                       .via_object = via_object,
                                       .refused = v.says};
        return true;
    }
    s->other_class |= v.other_class;
    if (v.fatal) {
        s->found = (struct ldso_found){.path = path,
                                       .via = via,
                                       .via_object = via_object,
                                       .fatal = true,
                                       .errstring = v.says,
                                       .says = ldso_error_text(p, path, v.says, v.error)};
    }
    return v.fatal;
}

/* 0 if the folder is there, else what open() says of a file in it; -1: that is not known. */
static int folder_errno(struct ldso_process *p, const char *dir, const char *sub, size_t n_sub)
{
    char *path = search_candidate(p, dir, sub, n_sub, "");
    size_t n = strlen(path);
    if (n > 1 && path[n - 1] == '/') {
        path[n - 1] = '\0';
    }
    const struct ldso_entry *e = ldso_store_get(p->store, path);
    return e->is_dir ? 0 : e->open_errno == ENOENT ? ENOENT : -1;
}

static int dir_errno(struct ldso_process *p, struct ldso_dir *d)
{
    if (!d->asked) {
        d->asked = true;
        d->error = folder_errno(p, d->text, "", 0);
    }
    return d->error;
}

/* The same of one of its subfolders. Neighbours in the lists have the same parent, which is asked
 * about once. */
static int subdir_errno(struct ldso_process *p, struct ldso_dir *d, const char *sub)
{
    size_t n = strcspn(sub, "/");
    if (!d->head || strncmp(d->head, sub, n + 1) != 0) {
        d->head = sub;
        d->head_error = folder_errno(p, d->text, sub, n);
    }
    return d->head_error ? d->head_error : folder_errno(p, d->text, sub, strlen(sub));
}

/* Settles whether a folder exists. glibc tries the file first and asks about the folder only when
 * that fails; the answer is the same, and a missing parent answers for all folders in it. */
static void probe_dir(struct search *s, struct ldso_dir *d, size_t k)
{
    struct ldso_process *p = s->p;
    const char *sub = p->subdirs[k];
    int error = dir_errno(p, d);
    error = *sub && !error ? subdir_errno(p, d, sub) : error;
    d->status[k] = error ? DIR_MISSING : DIR_EXISTING;
    if (error) { // of the file, which was tried first
        const char *file = search_candidate(p, d->text, sub, strlen(sub), s->r->name);
        p->ld_errno = error > 0 ? error : ldso_store_get(p->store, file)->open_errno;
    }
}

static void read_others(struct ldso_process *p, struct ldso_dir *d)
{
    d->others_read = true;
    d->others = arena_array(p->arena, p->n_other_subdirs, sizeof *d->others);
    for (size_t i = 0; i < p->n_other_subdirs; i++) {
        const char *sub = p->other_subdirs[i];
        if (dir_errno(p, d) == 0 && subdir_errno(p, d, sub) == 0) {
            d->others[d->n_others++] = sub;
        }
    }
}

/* What some processor would take out of this folder. */
static void note_others(struct search *s, struct ldso_dir *d)
{
    struct ldso_process *p = s->p;
    if (!d->others_read && p->n_other_subdirs) {
        read_others(p, d);
    }
    for (size_t i = 0; i < d->n_others; i++) {
        const char *path = arena_printf(p->arena, "%s%s%s", d->text, d->others[i], s->r->name);
        if (!ldso_store_get(p->store, ldso_absolute(p, path))->open_errno) {
            ldso_note_cpu(p, arena_printf(p->arena, "%s is %s", s->r->name, path));
        }
    }
}

/* open_path(): true if the search ends here. */
static bool try_list(struct search *s, struct ldso_list *list, enum ldso_via via,
                     struct ldso_object *via_object)
{
    struct ldso_process *p = s->p;
    bool any = false;
    for (size_t i = 0; i < list->dirs.n; i++) {
        struct ldso_dir *d = list->dirs.items[i];
        bool here = false;
        note_others(s, d);
        for (size_t k = 0; k < p->n_subdirs; k++) {
            bool base = p->subdirs[k][0] == '\0';
            if (d->status[k] == DIR_UNKNOWN) {
                probe_dir(s, d, k);
            }
            if (d->status[k] == DIR_MISSING) {
                if (base) {
                    const char *path = str_concat(p->arena, d->text, s->r->name, "");
                    search_add_step(s, (struct ldso_step){path, via, via_object, LDSO_ABSENT, false,
                                                          "the folder does not exist", NULL});
                }
                continue;
            }
            here = true;
            const char *sub = p->subdirs[k];
            const char *path = search_candidate(p, d->text, sub, strlen(sub), s->r->name);
            if (try_file(s, path, via, via_object, !base)) {
                return true;
            }
        }
        bool go_on = p->ld_errno == ENOENT || p->ld_errno == EACCES ||
                     (p->ld_errno == ENOTDIR && p->glibc_minor >= 39);
        if (here && !go_on) {
            return false; // ends this list, the next stage still runs
        }
        any |= here;
    }
    if (!any && !list->permanent) {
        list->dead = true;
    }
    return false;
}

/* ------------------------------------------------------------------ stages */

static void note_stage(struct search *s, enum ldso_via via, struct ldso_object *via_object,
                       const char *why)
{
    search_add_step(s, (struct ldso_step){NULL, via, via_object, LDSO_NOT_USED, false, why, NULL});
}

/* The next one with a DT_RPATH above an object that has one. */
static struct ldso_object *rpath_above(const struct ldso_object *o)
{
    return o->loader ? o->loader->with_rpath : NULL;
}

/* DT_RPATH of the caller, of who loaded it, and up; then of the program. */
static bool try_rpaths(struct search *s, struct ldso_object *loader)
{
    struct ldso_process *p = s->p;
    if (loader->file->image.runpath) {
        if (loader->file->image.rpath) {
            note_stage(s, LDSO_VIA_RPATH, loader, "forgotten, the object also has RUNPATH");
        }
        const struct ldso_object *by = loader->loader ? loader->loader : p->main;
        for (struct ldso_object *l = by->with_rpath; l && l != loader; l = rpath_above(l)) {
            if (!l->file->image.runpath) {
                note_stage(s, LDSO_VIA_RPATH, l,
                           arena_printf(p->arena, "does not count, %s has RUNPATH",
                                        path_base(loader->path)));
            }
        }
        return false;
    }
    bool did_main = false;
    for (struct ldso_object *l = loader->with_rpath; l; l = rpath_above(l)) {
        struct ldso_list *list = ldso_rpath_of(p, l);
        if (!list->dead) {
            if (try_list(s, list, LDSO_VIA_RPATH, l)) {
                return true;
            }
            did_main |= l == p->main;
        }
    }
    if (!did_main && !ldso_rpath_of(p, p->main)->dead) {
        return try_list(s, p->main->rpath, LDSO_VIA_RPATH, p->main);
    }
    return false;
}

/* What entries with legacy hwcap bits are matched against up to 2.39: sysdeps/x86/dl-procinfo.h
 * and dl-hwcap.h (bit 1 x86_64, bit 2 avx512_1; platforms from bit 48: i586, i686, haswell,
 * xeon_phi; bit 63 is always set). */
static void legacy_hwcap(const struct ldso_cpu *cpu, uint64_t *ret_have, uint64_t *ret_platform)
{
    static const char *const platforms[] = {"i586", "i686", "haswell", "xeon_phi"};
    *ret_have = (uint64_t)1 << 63;
    *ret_platform = 0;
    if (cpu->machine == EM_X86_64) {
        *ret_have |= 2u | (cpu->avx512_1 ? 4u : 0u);
    }
    if (cpu->machine == EM_AARCH64 && cpu->level >= LDSO_ARMV8_1) {
        *ret_have |= 1u << 8; // HWCAP_ATOMICS
    }
    for (size_t i = 0; i < sizeof platforms / sizeof *platforms; i++) {
        if (strcmp(platforms[i], cpu->platform) == 0) {
            *ret_platform = (uint64_t)1 << (48 + i);
        }
    }
}

static void cache_key(struct ldso_process *p, const struct ldso_cpu *cpu,
                      struct ldso_cache_key *key)
{
    const struct elf_image *e = &p->main->file->image;
    *key = (struct ldso_cache_key){.glibc_minor = p->glibc_minor, .n_flags = 1};
    switch (e->machine) { // sysdeps/unix/sysv/linux/*/dl-cache.h, ldconfig.h
    case EM_X86_64: key->flags[0] = e->is64 ? 0x0303 : 0x0803; break;
    case EM_AARCH64: key->flags[0] = 0x0a03; break;
    case EM_ARM: key->flags[0] = 0x0903; break;
    case EM_PPC64: key->flags[0] = 0x0503; break;
    case EM_S390: key->flags[0] = 0x0403; break;
    case EM_RISCV: key->flags[0] = 0x1003; break;
    default:
        key->flags[0] = 0x0003;
        key->flags[1] = 0x0001;
        key->n_flags = 2;
        break;
    }
    legacy_hwcap(cpu, &key->legacy_have, &key->legacy_platform);
    key->hwcaps = ldso_cpu_hwcaps(cpu, &key->n_hwcaps);
}

/* What the cache names for some processor and not for one about which nothing is known. */
static void note_cached(struct search *s, const char *path)
{
    struct ldso_process *p = s->p;
    size_t n = 0;
    const struct ldso_cpu_kind *kinds = ldso_cpu_kinds(p->cpu.machine, &n);
    for (size_t i = 0; i < n && ldso_cpu_is_unknown(&p->cpu); i++) {
        struct ldso_cache_key key;
        cache_key(p, &kinds[i].cpu, &key);
        const char *other = ldso_cache_find(&p->cache, s->r->name, &key);
        if (other && (!path || strcmp(other, path) != 0)) {
            ldso_note_cpu(p, arena_printf(p->arena, "%s is %s", s->r->name, other));
        }
    }
}

static bool try_cache(struct search *s, struct ldso_object *loader)
{
    struct ldso_process *p = s->p;
    if (!p->cache_read) {
        p->cache_read = true;
        ldso_open_cache(p);
        // The loader opens it once, and where that fails its error is the last one
        // (elf/dl-cache.c, _dl_load_cache_lookup).
        p->ld_errno = p->cache.open_errno ? p->cache.open_errno : p->ld_errno;
    }
    if (p->cache_note) {
        note_stage(s, LDSO_VIA_CACHE, NULL, p->cache_note);
        return false;
    }
    struct ldso_cache_key key;
    cache_key(p, &p->cpu, &key);
    const char *path = ldso_cache_find(&p->cache, s->r->name, &key);
    note_cached(s, path);
    if (!path) {
        note_stage(s, LDSO_VIA_CACHE, NULL, "not listed");
        return false;
    }
    if (loader->file->image.flags_1 & DF_1_NODEFLIB) {
        for (size_t i = 0; i < p->loader.n_dirs; i++) {
            if (starts_with(path, p->loader.dirs[i])) {
                note_stage(s, LDSO_VIA_CACHE, NULL,
                           arena_printf(p->arena,
                                        "%s is passed over, the caller forbids default "
                                        "directories (DF_1_NODEFLIB)",
                                        path));
                return false;
            }
        }
    }
    return try_file(s, path, LDSO_VIA_CACHE, NULL, false);
}

static bool try_stages(struct search *s, struct ldso_object *loader)
{
    struct ldso_process *p = s->p;
    if (try_rpaths(s, loader)) {
        return true;
    }
    if (!p->library_path->dead && try_list(s, p->library_path, LDSO_VIA_LIBRARY_PATH, NULL)) {
        return true;
    }
    if (p->secure && ldso_getenv(p, "LD_LIBRARY_PATH")) {
        note_stage(s, LDSO_VIA_LIBRARY_PATH, NULL, p->secure_why);
    }
    struct ldso_list *runpath = ldso_runpath_of(p, loader);
    if (!runpath->dead && try_list(s, runpath, LDSO_VIA_RUNPATH, loader)) {
        return true;
    }
    if (try_cache(s, loader)) {
        return true;
    }
    if (loader->file->image.flags_1 & DF_1_NODEFLIB) {
        note_stage(s, LDSO_VIA_DEFAULT, NULL, "the caller forbids them (DF_1_NODEFLIB)");
        return false;
    }
    return try_list(s, p->system, LDSO_VIA_DEFAULT, NULL);
}

const char *ldso_error_text(struct ldso_process *p, const char *name, const char *errstring,
                            int error)
{
    bool at_start = p->current_load < 0;
    bool known = error == ENOENT || error == EACCES || error == ENOMEM || error == EINVAL ||
                 error == EPERM || error == EIO;
    if (error == 0) {
        return arena_printf(p->arena, "%s: %s", name, errstring);
    }
    if (at_start && !known) {
        return arena_printf(p->arena, "%s: %s: Error %d", name, errstring, error);
    }
    return arena_printf(p->arena, "%s: %s: %s", name, errstring, strerror(error));
}

struct ldso_found ldso_search(struct ldso_process *p, struct ldso_request *r, bool dlopened)
{
    struct search s = {.p = p, .r = r, .dlopened = dlopened};
    struct ldso_object *loader = r->caller ? r->caller : p->main;
    bool ended;
    if (strchr(r->name, '/')) {
        const char *path = ldso_expand(p, loader, r->name);
        ended = try_file(&s, path ? path : "", LDSO_VIA_PATH, NULL, false);
    } else {
        ended = try_stages(&s, loader);
    }
    if (ended) {
        return s.found;
    }
    const char *text = !s.other_class              ? "cannot open shared object file"
                       : p->main->file->image.is64 ? "wrong ELF class: ELFCLASS32"
                                                   : "wrong ELF class: ELFCLASS64";
    return (struct ldso_found){
        .errstring = text,
        .says = ldso_error_text(p, r->name, text, s.other_class ? 0 : p->ld_errno)};
}

/* What is really wrong, where the loader's own text hides it. */
void ldso_explain_failure(struct ldso_process *p, struct ldso_request *r)
{
    for (size_t i = 0; i < r->steps.n; i++) {
        struct ldso_step *s = &r->steps.items[i];
        if (s->entry && s->result == LDSO_ABSENT && !s->detail &&
            ldso_entry_is_link(p->store, s->entry)) {
            char *target = NULL;
            s->result = LDSO_DANGLING;
            if (root_readlink(p->store->root, p->arena, ldso_absolute(p, s->path), &target) == 0) {
                s->detail = arena_printf(p->arena, "a link to %s, which does not exist", target);
            }
        }
        bool hidden = s->result == LDSO_DENIED || s->result == LDSO_WRONG_MACHINE ||
                      s->result == LDSO_DANGLING || s->result == LDSO_UNREADABLE ||
                      s->result == LDSO_WRONG_CLASS || s->fatal;
        if (hidden && !r->really) {
            r->really = arena_printf(p->arena, "%s: %s", s->path,
                                     s->detail                  ? s->detail
                                     : s->result == LDSO_DENIED ? "permission denied"
                                                                : ldso_result_name(s->result));
        }
    }
}
