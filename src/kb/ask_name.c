/* Errors by name and number, and what a library or package name stands for. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* ------------------------------------------------------------------ errors */

static const char *const api_titles[] = {
    [KB_API_CUDA_RUNTIME] = "CUDA runtime",
    [KB_API_CUDA_DRIVER] = "CUDA driver API",
    [KB_API_CUDNN] = "cuDNN",
    [KB_API_CUBLAS] = "cuBLAS",
    [KB_API_NVRTC] = "NVRTC",
    [KB_API_NVML] = "NVML",
    [KB_API_HIP] = "HIP",
    [KB_API_HSA] = "the HSA runtime",
    [KB_API_HIPRTC] = "hipRTC",
    [KB_API_HIPBLAS] = "hipBLAS",
    [KB_API_MIOPEN] = "MIOpen",
    [KB_API_NCCL] = "NCCL",
    [KB_API_XID] = "Xid",
};

/* Words that choose a library, by enum kb_api. "driver" alone says little. */
static const char *const api_words[] = {
    [KB_API_CUDA_RUNTIME] = "cuda runtime cudart",
    [KB_API_CUDA_DRIVER] = "cuda cuda-driver driver",
    [KB_API_CUDNN] = "cudnn",
    [KB_API_CUBLAS] = "cublas",
    [KB_API_NVRTC] = "nvrtc",
    [KB_API_NVML] = "nvml nvidia-smi",
    [KB_API_HIP] = "hip rocm",
    [KB_API_HSA] = "hsa rocr",
    [KB_API_HIPRTC] = "hiprtc",
    [KB_API_HIPBLAS] = "hipblas",
    [KB_API_MIOPEN] = "miopen",
    [KB_API_NCCL] = "nccl",
    [KB_API_XID] = "xid",
};

/* Whether the question names a library of the list: by a word, as a part, or cuDNN by its version.
 */
static bool names_api(const struct ask *k, const char *words)
{
    const char *part = ask_given(k, KEY_PART);
    struct str rest = str_of(words);
    while (rest.s) {
        struct str word = str_cut(&rest, ' ');
        if ((part && str_is(word, part)) || (ask_given(k, KEY_CUDNN) && str_is(word, "cudnn"))) {
            return true;
        }
    }
    return question_has(k->q, words);
}

/* Where "runtime" or "driver API" is said, "cuda" does not stand for both. An error of no library
 * that is named is none of the kernel's log, where it is always called an Xid. */
static bool api_wanted(const struct ask *k, enum kb_api api)
{
    bool any = false, runtime = question_has(k->q, "runtime cudart");
    bool driver = question_has(k->q, "driver cuda-driver");
    if ((runtime && api == KB_API_CUDA_DRIVER) || (driver && api == KB_API_CUDA_RUNTIME)) {
        return false;
    }
    for (size_t i = 0; i < sizeof api_words / sizeof *api_words; i++) {
        any = any || names_api(k, api_words[i]);
    }
    return any ? names_api(k, api_words[api]) : api != KB_API_XID;
}

static void say_error(struct ask *k, const struct kb_error *e)
{
    HIT(k, KB_AREA_ERRORS, e);
    ask_say(k, "%s%s%s %d is %s%s%s.", api_titles[e->api], e->versions ? " " : "",
            e->versions ? e->versions : "", e->code, e->name, e->meaning ? ": " : "",
            e->meaning ? e->meaning : "");
}

/* A cuDNN that is named has the numbers of its major. */
static bool error_of_cudnn(struct ask *k, const struct kb_error *e)
{
    const char *cudnn = ask_given(k, KEY_CUDNN);
    const char *asked = cudnn && !strchr(cudnn, '.') ? arena_printf(k->a, "%s.99", cudnn) : cudnn;
    return !cudnn || e->api != KB_API_CUDNN || !e->versions || ask_admits(k, e->versions, asked);
}

/* Which of the question's numbers it is. */
static unsigned code_bit(const struct question *q, int code)
{
    unsigned bit = 1;
    for (size_t i = 0; i < q->n_codes && q->codes[i] != code; i++) {
        bit <<= 1;
    }
    return bit;
}

/* By name, or by number where the question names a library or says that it is an error. */
int form_error(struct ask *k, struct gm_err *err)
{
    struct kb_errors errors;
    int rc = kb_errors(k->kb, &errors, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    const char *name = ask_given(k, KEY_ERROR);
    unsigned answered = 0;
    for (size_t i = 0; i < errors.n; i++) {
        const struct kb_error *e = &errors.rows[i];
        bool by_name = name && str_eq_nocase(str_of(name), str_of(e->name));
        bool by_code = !name && ask_has_code(q, e->code) && api_wanted(k, e->api);
        if ((by_name || by_code) && error_of_cudnn(k, e)) {
            say_error(k, e);
            answered |= code_bit(q, e->code);
        }
    }
    return answered && (name || answered == (1U << q->n_codes) - 1);
}

/* ------------------------------------------------------------------ provides */

static const char *const manager_titles[] = {
    [KB_MANAGER_PIP] = "pip",       [KB_MANAGER_APT] = "apt",       [KB_MANAGER_DNF] = "dnf",
    [KB_MANAGER_CONDA] = "conda",   [KB_MANAGER_DRIVER] = "driver", [KB_MANAGER_PACMAN] = "pacman",
    [KB_MANAGER_ZYPPER] = "zypper", [KB_MANAGER_APK] = "apk",
};

/* A vendor's repository for SUSE has the RPM packages that its others have, by the same names. */
static bool wanted_of_suse(const struct kb_provider *v)
{
    return v->manager == KB_MANAGER_ZYPPER || (v->manager == KB_MANAGER_DNF && v->repository);
}

static bool provider_wanted(const struct ask *k, const struct kb_provider *v)
{
    enum kb_manager manager = v->manager;
    unsigned said = k->q->said;
    if (said & SAID_DNF && k->q->zypper && wanted_of_suse(v)) {
        return true;
    }
    if (said & SAID_DNF && k->q->zypper && manager == KB_MANAGER_DNF) {
        return false;
    }
    return !(said & SAID_MANAGERS) || (said & SAID_PIP && manager == KB_MANAGER_PIP) ||
           (said & SAID_APT && manager == KB_MANAGER_APT) ||
           (said & SAID_DNF && manager == KB_MANAGER_DNF) ||
           (said & SAID_CONDA && manager == KB_MANAGER_CONDA);
}

/* Of the wheels of cuDNN and NCCL only that of the CUDA that is named: nvidia-cudnn-cu12. */
static bool provider_for_cuda(const struct ask *k, const struct kb_provide *p,
                              const struct kb_provider *v)
{
    const char *cuda = ask_given(k, KEY_CUDA);
    size_t n = strlen(v->package);
    bool marked = n > 5 && strncmp(v->package + n - 5, "-cu1", 4) == 0;
    bool named = n > 8 && strncmp(v->package + n - 8, "-cuda-1", 7) == 0;
    return !cuda || p->cuda_major >= 0 || (!marked && !named) ||
           v->package[n - 1] == cuda[strcspn(cuda, ".") - 1];
}

/* Packages of apt and dnf carry the CUDA release: "libcublas-12-4", in "/usr/local/cuda-12.4". For
 * another release of the same major that is known the name is that one's. */
static const char *for_release(struct ask *k, const struct kb_provide *p, const char *text)
{
    struct kb_toolkits t;
    const char *cuda = ask_given(k, KEY_CUDA);
    if (!cuda || !strchr(cuda, '.') || p->cuda_major < 0 || kb_toolkits(k->kb, &t, NULL) < 0) {
        return text;
    }
    const char *major = arena_printf(k->a, "%d", p->cuda_major);
    const char *minor = strchr(cuda, '.') + 1;
    bool known = false;
    for (size_t i = 0; i < t.n; i++) {
        known = known || ask_within(cuda, t.rows[i].cuda);
    }
    for (const char *sep = "-."; *sep && known; sep++) {
        const char *mark = arena_printf(k->a, "-%s%c", major, *sep), *at = strstr(text, mark);
        size_t digits = at ? strspn(at + strlen(mark), "0123456789") : 0;
        if (digits > 0) {
            return arena_printf(k->a, "%.*s%s%.*s%s", (int)(at - text), text, mark,
                                (int)strcspn(minor, "."), minor, at + strlen(mark) + digits);
        }
    }
    return text;
}

/* The package with the library, its headers or all of it, as is asked for; NULL: not known. */
static const char *package_wanted(const struct ask *k, const struct kb_provider *v)
{
    return k->q->said & SAID_DEVELOPMENT ? v->development
           : k->q->said & SAID_META      ? v->meta
                                         : v->package;
}

/* Returns whether a package was named. */
static bool say_providers(struct ask *k, const struct kb_provide *p, const char *library)
{
    const char *list = "";
    for (size_t i = 0; i < p->n_providers; i++) {
        const struct kb_provider *v = &p->providers[i];
        const char *package = package_wanted(k, v);
        const char *folder = package == v->package ? v->folder : NULL;
        if (package && provider_wanted(k, v) && provider_for_cuda(k, p, v)) {
            list = arena_printf(
                k->a, "%s%s%s %s%s%s%s%s", list, list[0] ? "; " : "",
                k->q->zypper && v->manager == KB_MANAGER_DNF ? "zypper"
                                                             : manager_titles[v->manager],
                for_release(k, p, package), v->versions ? " " : "", v->versions ? v->versions : "",
                folder ? ", in " : "", folder ? for_release(k, p, folder) : "");
        }
    }
    if (list[0]) {
        HIT(k, KB_AREA_PROVIDES, p);
        ask_say(k, "%s (%s): %s.", library ? library : p->soname, p->library, list);
    }
    return list[0] != '\0';
}

/* A library that is not bound to a CUDA goes with each. */
static bool provide_for_cuda(const struct ask *k, const struct kb_provide *p)
{
    const char *cuda = ask_given(k, KEY_CUDA);
    return !cuda || p->cuda_major < 0 || atoi(cuda) == p->cuda_major;
}

/* On Windows pip's package has the DLL in a folder of its own; the driver's come with the driver.
 */
static bool say_dll(struct ask *k, const struct kb_provide *p, const char *name)
{
    if (!p->dll || (k->q->said & SAID_MANAGERS && !(k->q->said & SAID_PIP))) {
        return false;
    }
    HIT(k, KB_AREA_PROVIDES, p);
    const char *list = "";
    for (size_t i = 0; i < p->n_providers && p->dll_folder; i++) {
        const struct kb_provider *v = &p->providers[i];
        if (v->manager == KB_MANAGER_PIP && provider_for_cuda(k, p, v)) {
            list = arena_printf(k->a, "%s%spip %s%s%s", list, list[0] ? "; " : "", v->package,
                                v->versions ? " " : "", v->versions ? v->versions : "");
        }
    }
    const char *more = k->q->said & SAID_PIP && list[0] ? NULL : p->dll_from;
    ask_say(k, "%s (%s): %s%s%s%s%s.", name ? name : p->dll, p->library, list,
            list[0] ? ", in " : "", list[0] ? p->dll_folder : "", list[0] && more ? "; " : "",
            more ? more : "");
    return true;
}

/* "which libraries does libcusolver need" is not about the package that brings it. */
static bool asks_for_needs(const struct question *q)
{
    return q->asked & ASKED_NEEDS ||
           (q->asked & ASKED_PARTS && question_has(q, "need needs require "
                                                      "requires"));
}

/* Whether people call what a library depends on so: "libcublasLt" of "cuBLASLt". */
static bool needs_part(const struct kb_provide *p, const char *part)
{
    struct str name = str_of(part), bare = name;
    bare = str_starts(name, "lib") ? (struct str){name.s + 3, name.n - 3} : name;
    for (size_t i = 0; i < p->needs.n; i++) {
        struct str need = str_of(p->needs.items[i]);
        if (str_eq_nocase(need, name) || str_eq_nocase(need, bare)) {
            return true;
        }
    }
    return false;
}

/* "does libcublas depend on libcublasLt": said at the first of the two. */
static int say_depends(struct ask *k, const struct kb_provide *p, const char *on)
{
    bool does = needs_part(p, on);
    ask_say(k, "%s: %s depends on %s.", does ? "Yes" : "No", p->library,
            ask_joined(k->a, p->needs));
    return 1;
}

/* "which libraries does libcusolver depend on" */
int form_depends(struct ask *k, struct gm_err *err)
{
    struct kb_provides provides;
    const struct question_values *parts = &k->q->values[KEY_PART];
    const char *part = ask_given(k, KEY_PART), *library = ask_given(k, KEY_LIBRARY);
    int rc = kb_provides(k->kb, &provides, err), found = 0;
    bool does = k->q->said & SAID_DOES, two = parts->n == 2 && !library;
    if (rc < 0 || !asks_for_needs(k->q) || does != two) {
        return rc < 0 ? rc : 0;
    }
    if (two && part == parts->items[1]) {
        return k->answer->known;
    }
    for (size_t i = 0; i < provides.n; i++) {
        const struct kb_provide *p = &provides.rows[i];
        bool asked = part ? question_names_part(p, part) : str_glob(p->soname, library);
        if (!asked || !provide_for_cuda(k, p) || p->needs.n == 0) {
            continue;
        }
        HIT(k, KB_AREA_PROVIDES, p);
        if (two) {
            found = say_depends(k, p, parts->items[1]);
        } else {
            ask_say(k, "%s depends on %s.", p->library, ask_joined(k->a, p->needs));
            found = 1;
        }
    }
    return found;
}

/* Windows compares names without their case. */
static const char *lower_copy(struct ask *k, const char *text)
{
    char *copy = arena_strdup(k->a, text);
    for (char *c = copy; *c; c++) {
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    }
    return copy;
}

int form_provides(struct ask *k, struct gm_err *err)
{
    struct kb_provides provides;
    int rc = kb_provides(k->kb, &provides, err);
    if (rc < 0) {
        return rc;
    }
    const char *library = ask_given(k, KEY_LIBRARY);
    for (size_t i = 0; i < provides.n; i++) {
        const struct kb_provide *p = &provides.rows[i];
        if (p->dll && str_glob(lower_copy(k, p->dll), lower_copy(k, library)) &&
            provide_for_cuda(k, p)) {
            (void)say_dll(k, p, library);
            continue;
        }
        bool stem = ends_with(library, ".so") && starts_with(p->soname, library);
        if ((str_glob(p->soname, library) || stem) && provide_for_cuda(k, p)) {
            bool dll = k->q->said & SAID_WINDOWS && !(k->q->said & SAID_LINUX);
            (void)(dll ? say_dll(k, p, NULL) : say_providers(k, p, library));
        }
    }
    return k->answer->known;
}

/* cuDNN is asked for by its main library. */
static bool is_cudnn(struct ask *k, const struct kb_provide *p)
{
    const char *cudnn = ask_given(k, KEY_CUDNN);
    const char *id = cudnn ? arena_printf(k->a, "cudnn-%s-shim", ask_major(k, cudnn)) : "";
    return cudnn ? strcmp(p->id, id) == 0
                 : k->q->asked & ASKED_CUDNN && starts_with(p->id, "cudnn-") &&
                       ends_with(p->id, "-shim");
}

/* "which package has cuFFT of CUDA 13": a library by what people call it. */
int form_library(struct ask *k, struct gm_err *err)
{
    struct kb_provides provides;
    const char *part = ask_given(k, KEY_PART);
    bool found = false, cudart = !part && !ask_given(k, KEY_CUDNN);
    if ((cudart && !(k->q->said & SAID_RUNTIME)) ||
        (asks_for_needs(k->q) && !(k->q->asked & ASKED_PACKAGE))) {
        return 0;
    }
    part = cudart ? "cudart" : part;
    bool windows = k->q->said & SAID_WINDOWS;
    if (windows && k->q->said & (SAID_APT | SAID_DNF | SAID_CONDA | SAID_LINUX)) {
        return 0;
    }
    int rc = kb_provides(k->kb, &provides, err);
    for (size_t i = 0; rc == 0 && i < provides.n; i++) {
        const struct kb_provide *p = &provides.rows[i];
        bool asked = (part && question_names_part(p, part)) || is_cudnn(k, p);
        if (asked && provide_for_cuda(k, p)) {
            found = (windows ? say_dll(k, p, NULL) : say_providers(k, p, NULL)) || found;
        }
    }
    return rc < 0 ? rc : found;
}
