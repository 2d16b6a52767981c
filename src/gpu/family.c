#include "gpu/family.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/bytes.h"

enum { BODY_MAX = 4096, CALLS_MAX = 8, CALLED_BYTES = 24, TEXT_MAX = 40 };
#define TEXT_SEARCH_MAX ((size_t)256 << 20)

enum way {
    WAY_CONSTANT,   // a number in the code of `symbol`
    WAY_CALLED,     // a number in what `symbol` calls
    WAY_TEXT,       // behind `text`
    WAY_TEXT_COMMA, // behind the ", V" behind `text`
    WAY_VERDEF,     // a version definition that starts with `text`
    WAY_SONAME,     // three numbers at the soname's end
    WAY_DEBUGLINK,  // three numbers or more behind `text` in .gnu_debuglink
    WAY_FILE_NAME,
};

/* How a number is made of major, minor and patch version. */
enum scheme {
    SCHEME_NONE,
    SCHEME_CUDART,   // cuda_runtime_api.h, CUDART_VERSION: 1000 major + 10 minor
    SCHEME_THOUSAND, // cufft.h, curand.h, cusparse.h, cusolver_common.h: 1000, 100, 1
    SCHEME_CUBLAS,   // cublas_api.h, CUBLAS_VERSION, since 11: 10000, 100, 1
    SCHEME_HIP,      // hip_version.h, HIP_VERSION: 10000000, 100000, 1
    SCHEME_ROC,      // rocsparse_get_version(), documentation: 100000, 100, 1
    SCHEME_TENSORRT, // NvInferVersion.h, NV_TENSORRT_VERSION: 10000, 100, 1 since 10; before 1000
};

static const struct scheme_row {
    uint32_t lo, hi; // what can be a version; a number outside is no candidate
    uint32_t major, minor, patch;
} schemes[] = {
    [SCHEME_CUDART] = {8000, 99990, 1000, 10, 0},
    [SCHEME_THOUSAND] = {8000, 99999, 1000, 100, 1},
    [SCHEME_CUBLAS] = {110000, 999999, 10000, 100, 1},
    [SCHEME_HIP] = {40000000, 199999999, 10000000, 100000, 1},
    [SCHEME_ROC] = {100000, 1999999, 100000, 100, 1},
    [SCHEME_TENSORRT] = {100000, 299999, 10000, 100, 1},
};

struct recipe {
    const char *family;
    const char *symbol; // the library defines it; or
    const char *soname; // ... its soname starts so
    enum way way;
    enum scheme scheme;
    const char *text;
};

/*
 * Numbers checked on the libraries named in docs/gpu-code.md; TensorRT's after its header only.
 * cuBLAS by its soname: CTranslate2 defines cublasCreate_v2 too. With WAY_CONSTANT, `text` begins
 * symbol versions "hip_5.2", and no candidate below the highest of them counts.
 */
static const struct recipe recipes[] = {
    {"cublas", NULL, "libcublas.so.", WAY_DEBUGLINK, SCHEME_NONE, "libcublas.so."},
    {"cublasLt", "cublasLtGetVersion", NULL, WAY_CONSTANT, SCHEME_CUBLAS, NULL},
    {"cudart", "cudaRuntimeGetVersion", NULL, WAY_CALLED, SCHEME_CUDART, NULL},
    {"cufft", "cufftGetVersion", NULL, WAY_CONSTANT, SCHEME_THOUSAND, NULL},
    {"curand", "curandGetVersion", NULL, WAY_CONSTANT, SCHEME_THOUSAND, NULL},
    {"cusolver", "cusolverGetVersion", NULL, WAY_CONSTANT, SCHEME_THOUSAND, NULL},
    {"cusparse", "cusparseGetVersion", NULL, WAY_CONSTANT, SCHEME_THOUSAND, NULL},
    {"ctranslate2", NULL, "libctranslate2", WAY_SONAME, SCHEME_NONE, NULL},
    {"hip", "hipRuntimeGetVersion", NULL, WAY_CONSTANT, SCHEME_HIP, "hip_"},
    {"libcuda", NULL, "libcuda.so.1", WAY_FILE_NAME, SCHEME_NONE, NULL},
    {"nccl", "ncclGetVersion", NULL, WAY_TEXT, SCHEME_NONE, "NCCL version "},
    {"nvjitlink", NULL, "libnvJitLink.so.", WAY_TEXT_COMMA, SCHEME_NONE,
     "Cuda compilation tools, release "},
    {"nvml", NULL, "libnvidia-ml.so.1", WAY_FILE_NAME, SCHEME_NONE, NULL},
    {"onnxruntime", "OrtGetApiBase", NULL, WAY_VERDEF, SCHEME_NONE, "VERS_"},
    {"rocsparse", "rocsparse_get_version", NULL, WAY_CONSTANT, SCHEME_ROC, NULL},
    {"tensorrt", "getInferLibVersion", NULL, WAY_CONSTANT, SCHEME_TENSORRT, NULL},
};

struct reading {
    struct arena *arena;
    const struct elf_image *e;
    const char *file_name;
    const struct recipe *recipe;
    struct elf_symbol symbol;
    struct gpu_family *ret;
};

/* ------------------------------------------------------------------ numbers in code */

/* Where the immediate of "mov r32, imm32" (b8+r) or "mov dword [..], imm32" (c7 /0) begins; 0 if
 * `p` is neither. Intel SDM volume 2, MOV, and table 2-2 for the lengths. */
static size_t immediate_at(const unsigned char *p, size_t n)
{
    if (n >= 5 && (p[0] & 0xf8) == 0xb8) {
        return 1;
    }
    if (n < 7 || p[0] != 0xc7 || (p[1] & 0x38) != 0) {
        return 0;
    }
    unsigned mod = p[1] >> 6, rm = p[1] & 7;
    size_t at = 2 + (mod != 3 && rm == 4); // a SIB byte
    at += mod == 1 ? 1 : mod == 2 || (mod == 0 && rm == 5) ? 4 : 0;
    return at + 4 <= n ? at : 0;
}

/* The only number in these bytes that can be a version; 0 if there is none or more than one. */
static uint32_t constant_in(const unsigned char *p, size_t n, const struct scheme_row *s)
{
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = immediate_at(p + i, n - i);
        uint32_t value = at ? gpu_u32(p + i + at) : 0;
        if (value < s->lo || value > s->hi || (s->patch == 0 && value % s->minor)) {
            continue;
        }
        if (found && found != value) {
            return 0;
        }
        found = value;
    }
    return found;
}

static const unsigned char *code_at(const struct elf_image *e, uint64_t address, uint64_t size)
{
    uint64_t offset;
    return elf_offset_of(e, address, &offset) ? elf_bytes(e, offset, size) : NULL;
}

/* In the bytes at the start of what this code calls (e8 rel32). */
static uint32_t constant_in_called(const struct elf_image *e, const unsigned char *p, size_t n,
                                   uint64_t address, const struct scheme_row *s)
{
    size_t calls = 0;
    for (size_t i = 0; i + 5 <= n && calls < CALLS_MAX; i++) {
        if (p[i] != 0xe8) {
            continue;
        }
        calls++;
        uint64_t to = address + i + 5 + (uint64_t)(int64_t)(int32_t)gpu_u32(p + i + 1);
        const unsigned char *called = code_at(e, to, CALLED_BYTES);
        uint32_t value = called ? constant_in(called, CALLED_BYTES, s) : 0;
        if (value) {
            return value;
        }
    }
    return 0;
}

/* The number of the highest symbol version definition "<text>5.2", or 0. */
static uint32_t floor_of_verdefs(struct reading *r, const struct scheme_row *s)
{
    struct elf_versions versions;
    uint32_t highest = 0;
    elf_versions_read(r->arena, r->e, &versions);
    for (size_t i = 0; i < versions.n_defs; i++) {
        struct str rest = str_of(versions.defs[i].name ? versions.defs[i].name : "");
        uint64_t major = 0, minor = 0;
        if (!str_starts(rest, r->recipe->text)) {
            continue;
        }
        rest.s += strlen(r->recipe->text);
        rest.n -= strlen(r->recipe->text);
        if (str_u64(str_cut(&rest, '.'), &major) && rest.s && str_u64(rest, &minor) && major < 20 &&
            minor < 100) {
            uint32_t value = (uint32_t)major * s->major + (uint32_t)minor * s->minor;
            highest = value > highest ? value : highest;
        }
    }
    return highest;
}

static void read_constant(struct reading *r)
{
    struct scheme_row row = schemes[r->recipe->scheme], *s = &row;
    uint32_t floor = r->recipe->text ? floor_of_verdefs(r, s) : 0;
    s->lo = floor > s->lo ? floor : s->lo;
    uint64_t size = r->symbol.size < BODY_MAX ? r->symbol.size : BODY_MAX;
    const unsigned char *p = code_at(r->e, r->symbol.value, size);
    if (r->e->machine != EM_X86_64 || !p) {
        return;
    }
    uint32_t v = r->recipe->way == WAY_CALLED
                     ? constant_in_called(r->e, p, size, r->symbol.value, s)
                     : constant_in(p, size, s);
    if (!v) {
        return;
    }
    uint32_t rest = v % s->major;
    r->ret->version = s->patch ? arena_printf(r->arena, "%u.%u.%u", v / s->major, rest / s->minor,
                                              rest % s->minor)
                               : arena_printf(r->arena, "%u.%u", v / s->major, rest / s->minor);
    r->ret->source = arena_printf(r->arena, "constant in %s", r->recipe->symbol);
}

/* ------------------------------------------------------------------ texts */

/* "2.21.5+cuda12.4" up to what cannot be part of a version; NULL unless a digit begins it and
 * it has a dot. */
static const char *version_at(struct reading *r, const unsigned char *p, size_t n)
{
    size_t k = 0;
    while (k < n && k < TEXT_MAX && (isalnum(p[k]) || strchr(".+-", p[k])) && p[k]) {
        k++;
    }
    if (k == 0 || !isdigit(p[0]) || !memchr(p, '.', k)) {
        return NULL;
    }
    return arena_strndup(r->arena, (const char *)p, k);
}

static void family_read_text(struct reading *r)
{
    const struct elf_image *e = r->e;
    size_t length = strlen(r->recipe->text);
    size_t size = e->size < TEXT_SEARCH_MAX ? e->size : TEXT_SEARCH_MAX;
    const unsigned char *data = elf_bytes(e, 0, size), *p = data, *end = data ? data + size : NULL;
    while (p < end && (p = memmem(p, (size_t)(end - p), r->recipe->text, length)) != NULL) {
        const unsigned char *at = p + length;
        if (r->recipe->way == WAY_TEXT_COMMA) {
            size_t room = (size_t)(end - at) < TEXT_MAX ? (size_t)(end - at) : TEXT_MAX;
            const unsigned char *comma = memmem(at, room, ", V", 3);
            at = comma ? comma + 3 : end;
        }
        r->ret->version = version_at(r, at, (size_t)(end - at));
        if (r->ret->version) {
            r->ret->source = arena_printf(r->arena, "text at offset 0x%zx", (size_t)(p - data));
            return;
        }
        p += length;
    }
}

static void read_verdef(struct reading *r)
{
    struct elf_versions versions;
    elf_versions_read(r->arena, r->e, &versions);
    for (size_t i = 0; i < versions.n_defs; i++) {
        const char *name = versions.defs[i].name;
        if (name && starts_with(name, r->recipe->text)) {
            name += strlen(r->recipe->text);
            r->ret->version = version_at(r, (const unsigned char *)name, strlen(name));
            r->ret->source = "symbol version definition";
            return;
        }
    }
}

/* Three numbers or more at the end of "libx.so.1.2.3". */
static void family_read_name(struct reading *r, const char *name, const char *source)
{
    const char *tail = name ? strstr(name, ".so.") : NULL;
    size_t dots = 0, n = 0;
    for (tail = tail ? tail + 4 : ""; isdigit((unsigned char)tail[n]) || tail[n] == '.'; n++) {
        dots += tail[n] == '.';
    }
    if (!tail[n] && dots >= 1 && n <= TEXT_MAX) {
        r->ret->version = version_at(r, (const unsigned char *)tail, n);
        r->ret->source = source;
    }
}

/* "libcublas.so.13.4.1.2.sym": the name is kept in a section without a segment, near the end of
 * the file, so the last piece of the file is searched. */
static void read_debuglink(struct reading *r)
{
    enum { TAIL = 64 << 10 };
    const struct elf_image *e = r->e;
    size_t length = strlen(r->recipe->text), from = e->size > TAIL ? e->size - TAIL : 0;
    const unsigned char *tail = elf_bytes(e, from, e->size - from);
    const unsigned char *p = tail ? memmem(tail, e->size - from, r->recipe->text, length) : NULL;
    const unsigned char *end = tail ? tail + (e->size - from) : NULL;
    const char *version = p ? version_at(r, p + length, (size_t)(end - p) - length) : NULL;
    size_t n = version ? strlen(version) : 0;
    if (n > 4 && strcmp(version + n - 4, ".sym") == 0) {
        r->ret->version = arena_strndup(r->arena, version, n - 4);
        r->ret->source = "name of its debug file";
    }
}

/* ------------------------------------------------------------------ which library */

static bool keep_defined(const struct elf_symbol *sym, void *arg)
{
    struct elf_symbol *ret = arg;
    if (sym->shndx == SHN_UNDEF || sym->type != STT_FUNC) {
        return false;
    }
    *ret = *sym;
    return true;
}

static bool recognised(struct reading *r)
{
    if (r->recipe->soname) {
        return r->e->soname && starts_with(r->e->soname, r->recipe->soname);
    }
    struct elf_lookup_key key = elf_lookup_key(r->recipe->symbol);
    return elf_symbol_find(r->e, &key, keep_defined, &r->symbol);
}

static void family_read_version(struct reading *r)
{
    switch (r->recipe->way) {
    case WAY_CONSTANT:
    case WAY_CALLED: read_constant(r); break;
    case WAY_TEXT:
    case WAY_TEXT_COMMA: family_read_text(r); break;
    case WAY_VERDEF: read_verdef(r); break;
    case WAY_SONAME: family_read_name(r, r->e->soname, "soname"); break;
    case WAY_DEBUGLINK: read_debuglink(r); break;
    case WAY_FILE_NAME:
        family_read_name(r, r->file_name ? path_base(r->file_name) : NULL, "file name");
        break;
    }
    if (!r->ret->version) {
        r->ret->source = "the file does not say it in a known way";
    }
}

static int families_by_name(const void *x, const void *y)
{
    const struct gpu_family *a = x, *b = y;
    return strcmp(a->name, b->name);
}

void gpu_families_read(struct arena *a, const struct elf_image *e, const char *file_name,
                       struct gpu_families *ret)
{
    VEC(struct gpu_family) found = {0};
    for (size_t i = 0; e->state == ELF_STATE_OK && i < sizeof recipes / sizeof *recipes; i++) {
        struct gpu_family one = {.name = recipes[i].family};
        struct reading r = {a, e, file_name, &recipes[i], {0}, &one};
        if (recognised(&r)) {
            family_read_version(&r);
            VEC_PUSH(a, &found, one);
        }
    }
    if (found.n) {
        qsort(found.items, found.n, sizeof *found.items, families_by_name);
    }
    *ret = (struct gpu_families){found.items, found.n};
}
