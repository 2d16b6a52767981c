#include "ldso/loader.h"

#include <errno.h>
#include <string.h>

enum { DIRS_MAX = 16, LOADER_BYTES_MAX = 64 << 20 };

static const struct {
    uint16_t machine;
    bool is64;
    const char *path, *lib;
} usual[] = {
    {EM_X86_64, true, "/lib64/ld-linux-x86-64.so.2", "lib64"},
    {EM_X86_64, false, "/libx32/ld-linux-x32.so.2", "libx32"},
    {EM_386, false, "/lib/ld-linux.so.2", "lib"},
    {EM_AARCH64, true, "/lib/ld-linux-aarch64.so.1", "lib64"},
    {EM_ARM, false, "/lib/ld-linux-armhf.so.3", "lib"},
    {EM_PPC64, true, "/lib64/ld64.so.2", "lib64"},
    {EM_S390, true, "/lib/ld64.so.1", "lib64"},
    {EM_RISCV, true, "/lib/ld-linux-riscv64-lp64d.so.1", "lib64/lp64d"},
};

static size_t usual_index(uint16_t machine, bool is64)
{
    size_t n = sizeof usual / sizeof *usual;
    for (size_t i = 0; i < n; i++) {
        if (usual[i].machine == machine && usual[i].is64 == is64) {
            return i;
        }
    }
    return n;
}

const char *ldso_loader_default(uint16_t machine, bool is64)
{
    size_t i = usual_index(machine, is64);
    return i < sizeof usual / sizeof *usual ? usual[i].path : NULL;
}

/* A string that starts right behind a NUL at `at`, if it is printable and ends before `end`. */
static const char *text_here(const char *at, const char *end, size_t *ret_n)
{
    const char *nul = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
    if (!nul || nul == at) {
        return NULL;
    }
    for (const char *p = at; p < nul; p++) {
        if (*p < 0x21 || *p > 0x7e) {
            return NULL;
        }
    }
    *ret_n = (size_t)(nul - at);
    return at;
}

static bool is_dir_text(const char *s, size_t n)
{
    return n >= 2 && s[0] == '/' && s[n - 1] == '/' && !memmem(s, n, "//", 2);
}

/* The longest run of strings "/.../" in which one names a lib folder. */
static void find_dirs(struct arena *a, struct str file, struct ldso_loader *l)
{
    const char *end = file.s + file.n;
    for (const char *p = file.s; (p = memchr(p, '/', (size_t)(end - p))); p++) {
        const char *dirs[DIRS_MAX];
        size_t n = 0, len = 0;
        bool has_lib = false;
        if (p == file.s || p[-1] != '\0') {
            continue;
        }
        for (const char *at = p;
             n < DIRS_MAX && (at = text_here(at, end, &len)) && is_dir_text(at, len);
             at += len + 1) {
            dirs[n++] = at;
            has_lib |= memmem(at, len, "/lib", 4) != NULL;
        }
        if (has_lib && n > l->n_dirs) {
            const char **kept = arena_array(a, n, sizeof *kept);
            memcpy(kept, dirs, n * sizeof *kept);
            l->dirs = kept;
            l->n_dirs = n;
        }
    }
}

/* A whole NUL-bounded string that ends in `suffix` and starts with '/'. */
static const char *find_path_ending(struct str file, const char *suffix)
{
    struct str rest = file;
    for (size_t at; (at = str_find(rest, suffix)) < rest.n;) {
        const char *hit = rest.s + at, *start = hit;
        size_t n = strlen(suffix);
        bool whole = hit + n < file.s + file.n && hit[n] == '\0';
        while (start > file.s && start[-1] > 0x20 && start[-1] < 0x7f && hit - start < 4096) {
            start--;
        }
        if (whole && start > file.s && start[-1] == '\0' && *start == '/') {
            return start;
        }
        rest = (struct str){hit + 1, rest.n - at - 1};
    }
    return NULL;
}

static bool holds_string(struct arena *a, struct str file, const char *s)
{
    size_t n = strlen(s);
    char *bounded = arena_alloc(a, n + 2);
    memcpy(bounded + 1, s, n);
    return memmem(file.s, file.n, bounded, n + 2) != NULL;
}

/* "ld.so (Debian GLIBC 2.36-9) stable release version 2.36." -> 36 */
static void find_version(struct arena *a, struct str file, struct ldso_loader *l)
{
    static const char mark[] = "release version 2.";
    size_t at = str_find(file, mark);
    if (at == file.n) {
        return;
    }
    struct str rest = {file.s + at + sizeof mark - 1, file.n - at - (sizeof mark - 1)};
    size_t n = 0;
    while (n < rest.n && n < 4 && rest.s[n] >= '0' && rest.s[n] <= '9') {
        n++;
    }
    uint64_t minor = 0;
    if (str_u64((struct str){rest.s, n}, &minor)) {
        l->glibc_minor = (int)minor;
        l->version = arena_printf(a, "2.%d", l->glibc_minor);
    }
}

/* Before 2.33 ld.so has no banner; libc.so.6 beside it always has one. */
static void find_version_in_libc(struct ldso_store *s, struct ldso_loader *l)
{
    for (size_t i = 0; i < l->n_dirs && !l->version; i++) {
        struct ldso_entry *e = ldso_store_get(s, arena_printf(s->arena, "%slibc.so.6", l->dirs[i]));
        if (e->file && e->file->image.machine == l->file->image.machine &&
            e->file->image.size <= LOADER_BYTES_MAX) {
            find_version(s->arena, elf_whole(&e->file->image), l);
        }
    }
}

static void assume_dirs(struct arena *a, struct ldso_loader *l, uint16_t machine, bool is64)
{
    size_t i = usual_index(machine, is64);
    const char *lib = i < sizeof usual / sizeof *usual ? usual[i].lib : "lib";
    const char **dirs = arena_array(a, 2, sizeof *dirs);
    dirs[0] = arena_printf(a, "/%s/", lib);
    dirs[1] = arena_printf(a, "/usr/%s/", lib);
    l->dirs = dirs;
    l->n_dirs = 2;
    l->dirs_assumed = true;
}

/* $LIB is the first system directory without its slashes, if the file holds that text on its own
 * ("lib/x86_64-linux-gnu", "lib64"). */
static const char *find_lib_token(struct arena *a, struct str file, const struct ldso_loader *l)
{
    for (size_t i = 0; i < l->n_dirs; i++) {
        const char *dir = l->dirs[i] + (starts_with(l->dirs[i], "/usr/") ? 5 : 1);
        size_t n = strlen(dir);
        char *token = arena_strndup(a, dir, n ? n - 1 : 0);
        if (*token && holds_string(a, file, token)) {
            return token;
        }
    }
    size_t n = strlen(l->dirs[0]);
    return n > 2 ? arena_strndup(a, l->dirs[0] + 1, n - 2) : "lib";
}

static void read_musl(struct arena *a, struct str file, struct ldso_loader *l)
{
    static const char path_default[] = "/lib:/usr/local/lib:/usr/lib";
    l->kind = LDSO_MUSL;
    if (!holds_string(a, file, path_default)) {
        l->dirs_assumed = true;
    }
    const char **dirs = arena_array(a, 3, sizeof *dirs);
    dirs[0] = "/lib/", dirs[1] = "/usr/local/lib/", dirs[2] = "/usr/lib/";
    l->dirs = dirs;
    l->n_dirs = 3;
    /* The version string stands alone; "1.1.x" and "1.2.x" are all that exist. */
    for (const char *p = file.s, *end = file.s + file.n; (p = memmem(p, (size_t)(end - p),
                                                                     "\0"
                                                                     "1.",
                                                                     3));
         p++) {
        size_t n = 0;
        if (text_here(p + 1, end, &n) && n >= 5 && n < 12 && strspn(p + 1, "0123456789.") >= 5) {
            l->version = arena_strndup(a, p + 1, n);
            return;
        }
    }
}

/* Where constants lie: the read-only segment that is not executable, if the file has one of its
 * own (GNU ld -z separate-code), else all of it. */
static struct str loader_constants(const struct elf_image *e)
{
    for (size_t i = e->n_segments; i-- > 0;) {
        const struct elf_segment *s = &e->segments[i];
        const unsigned char *p = elf_bytes(e, s->offset, s->filesz);
        if (s->type == PT_LOAD && s->flags == PF_R && s->offset && p) {
            return (struct str){(const char *)p, s->filesz};
        }
    }
    return elf_whole(e);
}

static void read_glibc(struct ldso_store *s, struct str file, struct ldso_loader *l)
{
    l->n_dirs = 0;
    find_dirs(s->arena, file, l);
    find_version(s->arena, file, l);
    const char *cache = find_path_ending(file, "/ld.so.cache");
    l->cache_path = cache ? cache : l->cache_path;
}

static void read_loader(struct ldso_store *s, const char *interp, uint16_t machine, bool is64,
                        struct ldso_loader *l)
{
    struct arena *a = s->arena;
    *l = (struct ldso_loader){.path = interp, .cache_path = "/etc/ld.so.cache", .lib_token = "lib"};
    bool musl_name = starts_with(path_base(interp), "ld-musl-");
    struct ldso_entry *e = ldso_store_get(s, interp);
    if (!e->file || e->file->image.state != ELF_STATE_OK ||
        e->file->image.size > LOADER_BYTES_MAX) {
        l->missing = e->open_errno ? strerror(e->open_errno) : "not a readable ELF file";
        l->kind = musl_name ? LDSO_MUSL : LDSO_GLIBC;
        assume_dirs(a, l, machine, is64);
        return;
    }
    l->file = e->file;
    l->soname = e->file->image.soname;
    struct str file = elf_whole(&e->file->image);
    if (musl_name || (l->soname && starts_with(l->soname, "libc.musl-"))) {
        read_musl(a, file, l);
        return;
    }
    const struct elf_versions *versions = ldso_file_versions(s, l->file);
    l->kind = LDSO_OTHER;
    for (size_t i = 0; i < versions->n_defs; i++) {
        if (strcmp(versions->defs[i].name, "GLIBC_PRIVATE") == 0) {
            l->kind = LDSO_GLIBC;
        }
    }
    struct str constants = loader_constants(&e->file->image);
    read_glibc(s, constants, l);
    if (l->n_dirs == 0 && constants.n < file.n) {
        constants = file;
        read_glibc(s, file, l);
    }
    if (l->n_dirs == 0) {
        assume_dirs(a, l, machine, is64);
    }
    l->lib_token = find_lib_token(a, constants, l);
    if (!l->version) {
        find_version_in_libc(s, l);
    }
}

void ldso_loader_read(struct ldso_store *s, const char *interp, uint16_t machine, bool is64,
                      struct ldso_loader *ret)
{
    char *key = arena_printf(s->arena, "loader %u %s", machine, interp);
    struct ldso_loader *l = ldso_store_recall(s, key);
    if (!l) {
        l = arena_alloc(s->arena, sizeof *l);
        read_loader(s, interp, machine, is64, l);
        l->path = arena_strdup(s->arena, interp);
        ldso_store_remember(s, key, l);
    }
    *ret = *l;
}
