/* Where a library that a text names comes from: the package of the knowledge base
 * (kb/provides.json) for the CUDA release that the text shows, and the folder that the text has the
 * file in. */
#include <stdlib.h>
#include <string.h>

#include "log/internal.h"

/* ------------------------------------------------------------------ the CUDA release of a text */

/* The number behind a mark such as "-cu" in a package's name, or 0: "nvidia-cudnn-cu12" is 12,
 * "2.4.0+cu121" too. */
static unsigned major_behind(const char *name, const char *mark)
{
    unsigned long major = 0;
    for (const char *at = name; at && !major && (at = strstr(at, mark)); at += strlen(mark)) {
        major = strtoul(at + strlen(mark), NULL, 10);
    }
    return major > 99 ? (unsigned)(major / 10) : (unsigned)major;
}

/* The CUDA major of a library whose number is the toolkit's, or 0. */
static unsigned major_of_library(const char *name)
{
    static const char *const numbered[] = {"libcublas.so.", "libcublasLt.so.", "libcudart.so.",
                                           "libnvrtc.so.", "libcupti.so."};
    for (size_t i = 0; name && i < sizeof numbered / sizeof *numbered; i++) {
        const char *at = strstr(name, numbered[i]);
        if (at) {
            return (unsigned)strtoul(at + strlen(numbered[i]), NULL, 10);
        }
    }
    return 0;
}

/* How a fact shows the CUDA release that programs of the text use: the surer first. */
enum shown_by { BY_WHEEL, BY_BUILD, BY_LIBRARY, BY_TOOLKIT, BY_COUNT };

static unsigned major_shown(const struct log_fact *f, enum shown_by by)
{
    const char *package = log_fact_field(f, "package"), *version = log_fact_field(f, "version");
    const char *how = log_fact_field(f, "variable");
    bool installed = strcmp(f->kind, "installed") == 0 && package && version;
    bool toolkit = installed && strcmp(package, "cuda") == 0;
    switch (by) {
    case BY_WHEEL:
        return toolkit && how && strcmp(how, "wheel") == 0 ? (unsigned)strtoul(version, NULL, 10)
               : installed && !toolkit                     ? major_behind(package, "-cu")
                                                           : 0;
    case BY_BUILD: return installed && !toolkit ? major_behind(version, "+cu") : 0;
    case BY_LIBRARY: return major_of_library(log_fact_field(f, "library"));
    case BY_TOOLKIT: return toolkit ? (unsigned)strtoul(version, NULL, 10) : 0;
    case BY_COUNT: break;
    }
    return 0;
}

/* The major that the surest facts agree on, or 0. */
static unsigned cuda_major(const struct log_matched *m)
{
    for (enum shown_by by = BY_WHEEL; by < BY_COUNT; by++) {
        unsigned found = 0;
        bool agree = true;
        for (size_t i = 0; i < m->n_facts; i++) {
            unsigned major = major_shown(m->facts[i], by);
            agree = agree && (!major || !found || major == found);
            found = major ? major : found;
        }
        if (found) {
            return agree ? found : 0;
        }
    }
    return 0;
}

/* The major of the toolkit that the text shows to be installed, or "unknown". */
static const char *toolkit_major(const struct log_matched *m)
{
    for (size_t i = 0; i < m->n_facts; i++) {
        unsigned major = major_shown(m->facts[i], BY_TOOLKIT);
        if (major) {
            return arena_printf(m->a, "%u", major);
        }
    }
    return "unknown";
}

/* The CUDA releases whose toolkit brings a library or a DLL: "12", "11 or 12"; NULL: not known. */
static const char *toolkit_of(const struct log_matched *m, const char *library)
{
    struct kb_provides provides;
    if (!library || kb_provides(m->rules->kb, &provides, NULL) < 0) {
        return NULL;
    }
    const char *list = NULL;
    int last = 0;
    for (size_t i = 0; i < provides.n; i++) {
        const struct kb_provide *row = &provides.rows[i];
        bool brings = str_glob(row->soname, library) || (row->dll && str_glob(row->dll, library));
        if (brings && row->cuda_major > last) {
            last = row->cuda_major;
            list =
                list ? arena_printf(m->a, "%s or %d", list, last) : arena_printf(m->a, "%d", last);
        }
    }
    return list;
}

/* Whether a GPU of the text is older than what PyTorch's builds for CUDA 12.8 have code for (7.5
 * from torch 2.11 on), and none needs CUDA 12.8. kb/builds.json has their architectures. */
static bool has_older_gpu(const struct log_matched *m)
{
    bool older = false;
    for (size_t i = 0; i < m->n_facts; i++) {
        const char *arch = strcmp(m->facts[i]->kind, "capability") == 0
                               ? log_fact_field(m->facts[i], "arch")
                               : NULL;
        double capability = arch ? strtod(arch, NULL) : 0;
        if (capability >= 10) {
            return false;
        }
        older = older || (capability > 0 && capability < 7.5);
    }
    return older;
}

/* The index of PyTorch's wheels that the driver and the GPU of the text can run, or NULL. CUDA
 * Toolkit release notes, "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version
 * Compatibility": CUDA 11 needs 450.80.02, CUDA 12 needs 525.60.13. */
static const char *torch_index(const struct log_matched *m)
{
    const char *newest = has_older_gpu(m) ? "cu126" : "cu128";
    for (size_t i = 0; i < m->n_facts; i++) {
        const char *driver = log_fact_field(m->facts[i], "driver");
        unsigned long branch = driver ? strtoul(driver, NULL, 10) : 0;
        if (strcmp(m->facts[i]->kind, "driver") == 0 && branch > 0) {
            return branch >= 525 ? newest : branch >= 450 ? "cu118" : NULL;
        }
    }
    return newest;
}

/* The processor that has code in most builds of ROCm and the instructions of this one. LLVM's
 * AMDGPU backend guide, "Generic processors": gfx101x is gfx10-1-generic, gfx103x gfx10-3-generic,
 * gfx110x and gfx115x gfx11-generic, gfx902, gfx909 and gfx90c gfx9-generic. */
static const char *gfx_override(const struct log_matched *m)
{
    static const struct {
        const char *begins, *is, *override;
    } nearest[] = {{"gfx902", "gfx900", "9.0.0"},   {"gfx909", "gfx900", "9.0.0"},
                   {"gfx90c", "gfx900", "9.0.0"},   {"gfx101", "gfx1010", "10.1.0"},
                   {"gfx103", "gfx1030", "10.3.0"}, {"gfx110", "gfx1100", "11.0.0"},
                   {"gfx115", "gfx1100", "11.0.0"}};
    for (size_t i = 0; i < m->n + m->n_facts; i++) { // what the entry rests on goes first
        const struct log_fact *f = i < m->n ? m->items[i] : m->facts[i - m->n];
        const char *arch = log_fact_field(f, "arch");
        for (size_t k = 0; arch && k < sizeof nearest / sizeof *nearest; k++) {
            if (str_starts(str_of(arch), nearest[k].begins)) {
                return strcmp(arch, nearest[k].is) == 0 ? NULL : nearest[k].override;
            }
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ packages */

/* The CUDA major that a package is for; 0: for any, or not known. */
static unsigned provider_major(const struct kb_provider *p)
{
    unsigned major = major_behind(p->package, "-cu");
    major = major ? major : major_behind(p->package, "-cuda-");
    return major ? major : major_behind(p->folder, "/cu");
}

/* The package of this manager: the one for CUDA `major`, otherwise the one for CUDA 12, which most
 * builds use, otherwise the first. */
static const struct kb_provider *provider_for(const struct log_matched *m, const char *library,
                                              enum kb_manager manager)
{
    enum { USUAL_MAJOR = 12 };
    struct kb_provides provides;
    if (!library || kb_provides(m->rules->kb, &provides, NULL) < 0) {
        return NULL;
    }
    unsigned wanted = cuda_major(m);
    const struct kb_provider *first = NULL, *usual = NULL;
    for (size_t i = 0; i < provides.n; i++) {
        const struct kb_provide *row = &provides.rows[i];
        for (size_t k = 0; str_glob(row->soname, library) && k < row->n_providers; k++) {
            const struct kb_provider *p = &row->providers[k];
            if (p->manager != manager) {
                continue;
            }
            if (wanted && provider_major(p) == wanted) {
                return p;
            }
            usual = !usual && provider_major(p) == USUAL_MAJOR ? p : usual;
            first = first ? first : p;
        }
    }
    return usual ? usual : first;
}

/* The package of the distribution that the text names: a vendor's RPM packages have the names of
 * dnf's rows. */
static const struct kb_provider *provider_of_system(const struct log_matched *m,
                                                    const char *library)
{
    enum kb_manager manager = log_manager(m);
    const struct kb_provider *p = provider_for(m, library, manager);
    return p || manager != KB_MANAGER_ZYPPER ? p : provider_for(m, library, KB_MANAGER_DNF);
}

/* "libcudnn_ops.so.9.1.0" -> "9.1": cuDNN's files have the release in their names. */
static struct str release_in(const char *library)
{
    const char *at = strstr(library, ".so.");
    size_t n = 0, dots = 0, cut = 0;
    for (const char *c = at ? at + 4 : ""; str_is_digit(c[n]) || c[n] == '.'; n++) {
        dots += c[n] == '.';
        cut = c[n] == '.' && dots == 2 ? n : cut;
    }
    return (struct str){at ? at + 4 : library, dots == 2 && cut + 1 < n ? cut : 0};
}

static const char *requirement(struct arena *a, const struct kb_provider *wheel,
                               const char *library)
{
    struct str release = release_in(library);
    if (release.n && str_starts(str_of(library), "libcudnn")) {
        return arena_printf(a, "%s==%.*s.*", wheel->package, (int)release.n, release.s);
    }
    return arena_printf(a, "%s%s", wheel->package, wheel->versions ? wheel->versions : "");
}

/* What pip installs for all libraries that are missing, as one quoted list goes on (a" "b); NULL if
 * it is one package. */
static const char *wheels_missing(const struct log_matched *m)
{
    const char *list = NULL;
    size_t n = 0;
    for (size_t i = 0; i < m->n_facts; i++) {
        const char *library = log_fact_field(m->facts[i], "library");
        const struct kb_provider *p = strcmp(m->facts[i]->kind, "library-not-found") == 0
                                          ? provider_for(m, library, KB_MANAGER_PIP)
                                          : NULL;
        if (p && !(list && strstr(list, p->package))) {
            const char *wheel = requirement(m->a, p, library);
            list = list ? arena_printf(m->a, "%s\" \"%s", list, wheel) : wheel;
            n++;
        }
    }
    return n > 1 ? list : NULL;
}

/* ------------------------------------------------------------------ fields */

/* libcudnn_ops.so.9 and libcudnn_ops.so.9.1.0 are. */
static bool wheel_is_same_file(const char *a, const char *b)
{
    return str_starts(str_of(a), b) || str_starts(str_of(b), a);
}

/* The folder of a file of this name that the text shows to exist, or NULL. */
static const char *folder_shown(const struct log_matched *m, const char *library)
{
    for (size_t i = 0; library && i < m->n_facts; i++) {
        const char *path = log_fact_field(m->facts[i], "path");
        const char *slash = path ? strrchr(path, '/') : NULL;
        bool whole = path && (*path == '/' || *path == '~'); // not from where somebody was
        if (whole && slash > path && strcmp(m->facts[i]->kind, "file-present") == 0 &&
            wheel_is_same_file(slash + 1, library)) {
            return str_dup(m->a, (struct str){path, (size_t)(slash - path)});
        }
    }
    return NULL;
}

bool is_provided_field(struct str field)
{
    return str_starts(field, "wheel") || str_is(field, "apt") || str_is(field, "conda") ||
           str_is(field, "gfx_override") || str_is(field, "torch_index");
}

const char *provided_field(const struct log_matched *m, const char *library, struct str field)
{
    const struct kb_provider *p = NULL;
    if (str_is(field, "library_folder")) {
        return folder_shown(m, library);
    }
    if (str_is(field, "wheels")) {
        return wheels_missing(m);
    }
    if (str_is(field, "toolkit_major")) {
        return toolkit_major(m);
    }
    if (str_is(field, "toolkit_of")) {
        return toolkit_of(m, library);
    }
    if (str_is(field, "torch_index")) {
        return torch_index(m);
    }
    if (str_is(field, "gfx_override")) {
        return gfx_override(m);
    }
    if (str_is(field, "apt") || str_is(field, "conda")) {
        p = str_is(field, "apt") ? provider_of_system(m, library)
                                 : provider_for(m, library, KB_MANAGER_CONDA);
        return !p ? NULL : arena_printf(m->a, "%s%s", p->package, p->versions ? p->versions : "");
    }
    p = str_starts(field, "wheel") ? provider_for(m, library, KB_MANAGER_PIP) : NULL;
    return !p                               ? NULL
           : str_is(field, "wheel")         ? requirement(m->a, p, library)
           : str_is(field, "wheel_folder")  ? p->folder
           : str_is(field, "wheel_package") ? p->package
                                            : NULL;
}
