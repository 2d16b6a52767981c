/*
 * Forward compatibility: a libcuda newer than the driver, from the packages
 * cuda-compat-MAJOR-MINOR, for data-centre GPUs only (NVIDIA, "CUDA Compatibility", "Forward
 * Compatibility").
 *
 * The file says of itself what it is for, in a section of notes (NVIDIA Container Toolkit,
 * cmd/nvidia-cdi-hook/cudacompat/cuda-elf-header.go):
 *
 *     .note.cuda.fwd_compatibility
 *     namesz 4 | descsz 4 | type 4 | "NVIDIA Corporation\0" padded | desc, padded with zeros
 *     desc: {"format": 1, "CUDA version": "12.9", "driver": [535, 550], "device": [...]}
 *
 * Which devices the numbers of "device" mean is not documented: they are not used.
 *
 * The libcuda of an ordinary driver has the same note (seen in 580.159.04, beside its kernel module
 * of that version): the note says what a file could serve, not what it came for.
 */
#include "host/internal.h"

#include <jansson.h>
#include <string.h>
#include <sys/mman.h>

#include "base/json.h"
#include "elf/image.h"

enum { NOTE_HEADER = 12, NOTE_MAX = 1 << 16, BRANCHES_MAX = 64 };

static const char owner[] = "NVIDIA Corporation";

/* The JSON text of the note; s NULL when the section is no such note. */
static struct str section_description(struct str section)
{
    if (section.n <= NOTE_HEADER + sizeof owner || section.n > NOTE_MAX) {
        return (struct str){0};
    }
    const unsigned char *head = (const unsigned char *)section.s;
    uint32_t size = elf_u32_in(false, head + 4);
    struct str rest = {section.s + NOTE_HEADER, section.n - NOTE_HEADER};
    if (elf_u32_in(false, head) < sizeof owner - 1 || memcmp(rest.s, owner, sizeof owner) != 0) {
        return (struct str){0};
    }
    rest = (struct str){rest.s + sizeof owner, rest.n - sizeof owner};
    while (rest.n && !*rest.s) { // padding, to 4 or to 8 bytes
        rest = (struct str){rest.s + 1, rest.n - 1};
    }
    rest.n = rest.n < size ? rest.n : size;
    while (rest.n && !rest.s[rest.n - 1]) {
        rest.n--;
    }
    return rest;
}

void host_compat_parse(struct arena *a, struct str section, struct host_compat *ret)
{
    struct str text = section_description(section);
    json_error_t error;
    json_t *doc = text.s ? json_loadb(text.s, text.n, 0, &error) : NULL;
    const char *cuda = json_text(doc, "CUDA version");
    cuda = cuda ? cuda : json_text(doc, "CUDA Version");
    const json_t *branches = json_object_get(doc, "driver");
    *ret = (struct host_compat){.has_note = json_is_object(doc)};
    ret->cuda = cuda ? arena_strdup(a, cuda) : NULL;
    size_t n = json_array_size(branches);
    for (size_t i = 0; i < n && n <= BRANCHES_MAX; i++) { // more of them: not stated
        json_int_t branch = json_integer_value(json_array_get(branches, i));
        if (branch > 0) {
            VEC_PUSH(a, &ret->branches, (uint64_t)branch);
        }
    }
    json_decref(doc);
}

void host_compat_read(struct root *r, struct arena *a, const char *path, struct host_compat *ret)
{
    const void *data;
    size_t size;
    struct stat st;
    *ret = (struct host_compat){0};
    if (root_map(r, path, &data, &size, &st) < 0 || !data) {
        return;
    }
    struct elf_image image;
    uint64_t at, length;
    elf_image_parse(a, data, size, &image);
    if (elf_section(&image, ".note.cuda.fwd_compatibility", &at, &length) && at <= size &&
        length <= size - at) {
        host_compat_parse(a, (struct str){(const char *)data + at, (size_t)length}, ret);
    }
    (void)munmap((void *)(uintptr_t)data, size); // read only: nothing can be lost
}

int host_version_cmp(const char *a, const char *b)
{
    struct str x = str_of(a), y = str_of(b);
    while (x.s || y.s) {
        uint64_t p = 0, q = 0;
        struct str one = x.s ? str_cut(&x, '.') : STR("0"), two = y.s ? str_cut(&y, '.') : STR("0");
        if (!str_u64(one, &p) || !str_u64(two, &q)) {
            return str_cmp(one, two);
        }
        if (p != q) {
            return p < q ? -1 : 1;
        }
    }
    return 0;
}

bool host_compat_is(const struct host *h, struct arena *a, const char *real_path,
                    const struct host_compat *c)
{
    const char *driver = h ? host_nvidia_release(h) : NULL;
    struct str version;
    if (strstr(real_path, "/compat/")) {
        return true;
    }
    return c->has_note && driver && host_parse_so_version(str_of(path_base(real_path)), &version) &&
           host_version_cmp(str_dup(a, version), driver) > 0;
}

const char *host_consumer_gpu(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        const char *name = h->gpus.items[i].name;
        if (h->gpus.items[i].vendor == HOST_NVIDIA &&
            (strstr(name, "GeForce") || strstr(name, "TITAN"))) {
            return name;
        }
    }
    return NULL;
}

static bool compat_lists(const struct host_compat *c, uint64_t branch)
{
    for (size_t i = 0; i < c->branches.n; i++) {
        if (c->branches.items[i] == branch) {
            return true;
        }
    }
    return false;
}

static const char *branches_text(struct arena *a, const struct host_compat *c)
{
    const char *text = "";
    for (size_t i = 0; i < c->branches.n; i++) {
        text = arena_printf(a, "%s%s%u", text, i ? ", " : "", (unsigned)c->branches.items[i]);
    }
    return text;
}

/* Errors 803 and 804: CUDA driver API, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH and
 * CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE. */
enum host_state host_compat_fits(const struct host *h, struct arena *a, const char *version,
                                 const struct host_compat *c, const char **ret_why)
{
    const char *consumer = host_consumer_gpu(h);
    const char *driver = host_nvidia_release(h);
    if (consumer) {
        *ret_why = arena_printf(a,
                                "forward compatibility is for data-centre GPUs, and there is a "
                                "%s (error 804)",
                                consumer);
        return HOST_NO;
    }
    if (!version || !driver) {
        *ret_why = version ? "the version of the kernel module is not known"
                           : "the name of its file states no version";
        return HOST_UNKNOWN;
    }
    if (strcmp(version, driver) == 0) {
        *ret_why = NULL; // as good as the driver's own
        return HOST_YES;
    }
    if (host_version_cmp(version, driver) < 0) {
        *ret_why =
            arena_printf(a, "it is %s, older than the driver %s (error 803)", version, driver);
        return HOST_NO;
    }
    uint64_t branch = 0;
    struct str rest = str_of(driver);
    if (c->branches.n && str_u64(str_cut(&rest, '.'), &branch) && !compat_lists(c, branch)) {
        *ret_why = arena_printf(a, "it is made for the drivers %s, and this one is %s (error 803)",
                                branches_text(a, c), driver);
        return HOST_NO;
    }
    *ret_why = NULL;
    return HOST_YES;
}
