#include "kb/query.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kb/question.h"
#include "kb/serves.h"
#include "py/version.h"

/* One question being answered. */
struct ask {
    struct kb *kb;
    struct arena *a;
    const struct question *q;
    struct kb_answer *answer;
};

enum { HITS_MAX = 60 };

/* ------------------------------------------------------------------ saying */

static void say(struct ask *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds a sentence. */
static void say(struct ask *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *sentence = arena_vprintf(k->a, fmt, ap);
    va_end(ap);
    k->answer->text =
        k->answer->known ? arena_printf(k->a, "%s %s", k->answer->text, sentence) : sentence;
    k->answer->known = true;
}

static void hit(struct ask *k, enum kb_area area, const void *row, const struct kb_origin *origin)
{
    for (size_t i = 0; i < k->answer->hits.n; i++) {
        if (k->answer->hits.items[i].row == row) {
            return;
        }
    }
    if (k->answer->hits.n < HITS_MAX) {
        VEC_PUSH(k->a, &k->answer->hits, ((struct kb_hit){area, row, origin}));
    }
}

#define HIT(k, area, row) hit(k, area, row, &(row)->origin)

/* "a, b, c" */
static const char *joined(struct arena *a, struct kb_strs list)
{
    const char *text = list.n ? list.items[0] : "";
    for (size_t i = 1; i < list.n; i++) {
        text = arena_printf(a, "%s, %s", text, list.items[i]);
    }
    return text;
}

/* ------------------------------------------------------------------ versions */

/* Order of two versions; texts that are no versions are equal. */
static int compare(const char *one, const char *two)
{
    struct py_version a, b;
    return py_version_parse(str_of(one), &a) && py_version_parse(str_of(two), &b)
               ? py_version_cmp(&a, &b)
               : 0;
}

/* "12.4.1" is within "12.4" and "12". */
static bool within(const char *version, const char *part)
{
    size_t n = part ? strlen(part) : 0;
    return version && part && strncmp(version, part, n) == 0 &&
           (version[n] == '\0' || version[n] == '.' || strcmp(version + n, "-") == 0);
}

static bool admits(struct ask *k, const char *set, const char *version)
{
    struct py_specifiers specifiers;
    return py_specifiers_parse(k->a, str_of(set), &specifiers, NULL) == 0 &&
           py_specifiers_match(&specifiers, str_of(version)) == PY_YES;
}

static const char *major_of(struct ask *k, const char *version)
{
    return arena_strndup(k->a, version, strcspn(version, "."));
}

/* ------------------------------------------------------------------ rows AREA */

static int form_rows(struct ask *k, struct gm_err *err)
{
    struct kb_rows rows;
    size_t found = 0;
    for (int area = 0; area < KB_AREAS; area++) {
        if (strcmp(kb_area_name((enum kb_area)area), k->q->area) != 0) {
            continue;
        }
        int rc = kb_rows(k->kb, (enum kb_area)area, &rows, err);
        if (rc < 0) {
            return rc;
        }
        for (size_t i = 0; i < rows.n; i++) {
            const void *row = (const char *)rows.items + i * rows.size;
            if (k->q->n_rest == 0 || str_glob(k->q->rest[0], kb_row_id(row))) {
                VEC_PUSH(k->a, &k->answer->hits, ((struct kb_hit){(enum kb_area)area, row, NULL}));
                found++;
            }
        }
    }
    if (found) {
        say(k, "%zu rows of %s.", found, k->q->area);
    }
    return found > 0;
}

/* ------------------------------------------------------------------ errors */

static const char *const api_titles[] = {
    [KB_API_CUDA_RUNTIME] = "CUDA runtime",
    [KB_API_CUDA_DRIVER] = "CUDA driver API",
    [KB_API_CUDNN] = "cuDNN",
    [KB_API_CUBLAS] = "cuBLAS",
    [KB_API_NVRTC] = "NVRTC",
    [KB_API_NVML] = "NVML",
    [KB_API_HIP] = "HIP",
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
};

static bool api_wanted(const struct question *q, enum kb_api api)
{
    bool any = false;
    for (size_t i = 0; i < sizeof api_words / sizeof *api_words; i++) {
        any = any || question_has(q, api_words[i]);
    }
    return !any || question_has(q, api_words[api]);
}

static bool has_code(const struct question *q, int code)
{
    for (size_t i = 0; i < q->n_codes; i++) {
        if (q->codes[i] == code) {
            return true;
        }
    }
    return false;
}

static void say_error(struct ask *k, const struct kb_error *e)
{
    HIT(k, KB_AREA_ERRORS, e);
    say(k, "%s%s%s %d is %s%s%s.", api_titles[e->api], e->versions ? " " : "",
        e->versions ? e->versions : "", e->code, e->name, e->meaning ? ": " : "",
        e->meaning ? e->meaning : "");
}

/* By name, or by number where the question names a library or says that it is an error. */
static int form_error(struct ask *k, struct gm_err *err)
{
    struct kb_errors errors;
    int rc = kb_errors(k->kb, &errors, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    for (size_t i = 0; i < errors.n; i++) {
        const struct kb_error *e = &errors.rows[i];
        bool by_name = q->error && str_eq_nocase(str_of(q->error), str_of(e->name));
        bool by_code = !q->error && has_code(q, e->code) && api_wanted(q, e->api);
        if (by_name || by_code) {
            say_error(k, e);
        }
    }
    return k->answer->known;
}

/* ------------------------------------------------------------------ provides */

static const char *const manager_titles[] = {
    [KB_MANAGER_PIP] = "pip",     [KB_MANAGER_APT] = "apt",       [KB_MANAGER_DNF] = "dnf",
    [KB_MANAGER_CONDA] = "conda", [KB_MANAGER_DRIVER] = "driver",
};

static void say_providers(struct ask *k, const struct kb_provide *p)
{
    const char *list = "";
    for (size_t i = 0; i < p->n_providers; i++) {
        const struct kb_provider *v = &p->providers[i];
        list =
            arena_printf(k->a, "%s%s%s %s%s%s%s%s", list, i ? "; " : "", manager_titles[v->manager],
                         v->package, v->versions ? " " : "", v->versions ? v->versions : "",
                         v->folder ? ", in " : "", v->folder ? v->folder : "");
    }
    HIT(k, KB_AREA_PROVIDES, p);
    say(k, "%s (%s): %s.", k->q->library ? k->q->library : p->soname, p->library, list);
}

static int form_provides(struct ask *k, struct gm_err *err)
{
    struct kb_provides provides;
    int rc = kb_provides(k->kb, &provides, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < provides.n; i++) {
        const struct kb_provide *p = &provides.rows[i];
        bool stem = ends_with(k->q->library, ".so") && starts_with(p->soname, k->q->library);
        if (str_glob(p->soname, k->q->library) || stem) {
            say_providers(k, p);
        }
    }
    return k->answer->known;
}

/* "which package has cuFFT of CUDA 13": a library by what people call it. */
static int form_library(struct ask *k, struct gm_err *err)
{
    struct kb_provides provides;
    int rc = kb_provides(k->kb, &provides, err);
    for (size_t i = 0; rc == 0 && i < provides.n; i++) {
        const struct kb_provide *p = &provides.rows[i];
        size_t n = strcspn(p->library, " ,");
        for (size_t w = 0; w < k->q->n; w++) {
            bool named = str_eq_nocase(str_of(k->q->words[w]), (struct str){p->library, n});
            if (named && strcmp(k->q->words[w], "cuda") != 0 &&
                (!k->q->cuda || atoi(k->q->cuda) == p->cuda_major)) {
                say_providers(k, p);
            }
        }
    }
    return rc < 0 ? rc : k->answer->known;
}

/* ------------------------------------------------------------------ drivers */

/* The floor of minor-version compatibility of a CUDA release, or NULL. */
static const struct kb_driver *floor_of(struct ask *k, const struct kb_drivers *d, const char *cuda)
{
    const char *major = major_of(k, cuda);
    for (size_t i = 0; i < d->n; i++) {
        if (d->rows[i].kind == KB_DRIVER_MINOR && strcmp(d->rows[i].cuda, major) == 0) {
            return &d->rows[i];
        }
    }
    return NULL;
}

static void say_toolkit_driver(struct ask *k, const struct kb_driver *d)
{
    HIT(k, KB_AREA_DRIVERS, d);
    say(k, "%s goes with Linux driver %s or later%s%s%s.", d->title, d->linux_min,
        d->windows_min ? " (Windows " : "", d->windows_min ? d->windows_min : "",
        d->windows_min ? ")" : "");
}

static void say_floor(struct ask *k, const struct kb_driver *floor)
{
    HIT(k, KB_AREA_DRIVERS, floor);
    say(k, "By minor-version compatibility %s runs from Linux driver %s on, with limits.",
        floor->title, floor->linux_min);
}

/* "which driver does CUDA 12.4 need"; a major alone is answered with its floor. */
static int form_driver(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    int rc = kb_drivers(k->kb, &d, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    for (size_t i = 0; i < d.n && strchr(q->cuda, '.'); i++) {
        const struct kb_driver *row = &d.rows[i];
        if (row->kind == KB_DRIVER_TOOLKIT && within(row->cuda, q->cuda)) {
            say_toolkit_driver(k, row);
        }
    }
    const struct kb_driver *floor = floor_of(k, &d, q->cuda);
    if (floor && (k->answer->known || strcmp(floor->cuda, q->cuda) == 0)) {
        say_floor(k, floor);
    }
    return k->answer->known;
}

/* Nothing but a CUDA release: its driver and its architectures. */
static int form_bare_cuda(struct ask *k, struct gm_err *err)
{
    return k->q->n_rest > 0 ? 0 : form_driver(k, err);
}

/* "which CUDA does driver 535 run" */
static int form_cuda_of_driver(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    int rc = kb_drivers(k->kb, &d, err);
    if (rc < 0) {
        return rc;
    }
    const char *driver = k->q->driver;
    const struct kb_driver *best = kb_newest_toolkit(&d, driver);
    if (best) {
        HIT(k, KB_AREA_DRIVERS, best);
        say(k, "Driver %s is enough for %s and all before it.", driver, best->title);
    }
    for (size_t i = 0; best && i < d.n; i++) {
        const struct kb_driver *row = &d.rows[i];
        if (row->kind == KB_DRIVER_MINOR && kb_driver_reaches(driver, row->linux_min) &&
            atoi(row->cuda) >= atoi(best->cuda)) {
            say_floor(k, row);
        }
        if (row->kind == KB_DRIVER_BRANCH && within(driver, row->linux_min)) {
            HIT(k, KB_AREA_DRIVERS, row);
            say(k, "It is of %s, which ends %s.", row->title, row->ends);
        }
    }
    return k->answer->known;
}

/* ------------------------------------------------------------------ architectures */

/* 86 for "sm_86", "compute_86" and "8.6"; 0 for architecture-specific ones, which run nowhere
 * else. */
static int arch_number(const char *text)
{
    int number = 0;
    text += strcspn(text, "0123456789");
    for (; *text; text++) {
        if (*text == '.') {
            continue;
        }
        if (*text < '0' || *text > '9' || number > 9999) {
            return 0;
        }
        number = number * 10 + (*text - '0');
    }
    return number;
}

static bool has_text(struct kb_strs list, const char *text)
{
    for (size_t i = 0; i < list.n; i++) {
        if (strcmp(list.items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* "which architectures does CUDA 12.8 compile for" */
static int form_toolkit(struct ask *k, struct gm_err *err)
{
    struct kb_toolkits t;
    int rc = kb_toolkits(k->kb, &t, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < t.n; i++) {
        const struct kb_toolkit *row = &t.rows[i];
        if (within(k->q->cuda, row->cuda) || within(row->cuda, k->q->cuda)) {
            HIT(k, KB_AREA_TOOLKITS, row);
            say(k, "CUDA %s compiles for %s; its PTX ISA is %s.%s%s", row->cuda,
                joined(k->a, row->sm), row->ptx, row->origin.note ? " " : "",
                row->origin.note ? row->origin.note : "");
        }
    }
    return k->answer->known;
}

/* "which toolkit compiles for sm_90": the first and the last of the rows. */
static int form_toolkits_of_sm(struct ask *k, struct gm_err *err)
{
    struct kb_toolkits t;
    int rc = kb_toolkits(k->kb, &t, err);
    if (rc < 0) {
        return rc;
    }
    const struct kb_toolkit *first = NULL, *last = NULL, *oldest = NULL, *newest = NULL;
    const char *sm = arena_printf(k->a, "sm_%d", arch_number(k->q->sm));
    for (size_t i = 0; i < t.n; i++) {
        const struct kb_toolkit *row = &t.rows[i];
        oldest = !oldest || compare(row->cuda, oldest->cuda) < 0 ? row : oldest;
        newest = !newest || compare(row->cuda, newest->cuda) > 0 ? row : newest;
        if (has_text(row->sm, sm)) {
            first = !first || compare(row->cuda, first->cuda) < 0 ? row : first;
            last = !last || compare(row->cuda, last->cuda) > 0 ? row : last;
        }
    }
    if (!first) {
        return 0;
    }
    HIT(k, KB_AREA_TOOLKITS, first);
    HIT(k, KB_AREA_TOOLKITS, last);
    if (first != oldest) {
        say(k, "CUDA %s is the first that compiles for %s.", first->cuda, sm);
    }
    if (last != newest) {
        say(k, "CUDA %s is the last that compiles for %s.", last->cuda, sm);
    } else {
        say(k, "CUDA %s, the newest known here, compiles for %s.", last->cuda, sm);
    }
    return 1;
}

/* ------------------------------------------------------------------ GPUs by name */

/* Words of a question that say nothing about which GPU is meant. */
static const char no_gpu[] = " nvidia amd gpu gpus card cards graphics capability compute target "
                             "targets architecture llvm pci id device ati arch memory vram driver "
                             "cuda rocm gfx sm version kfd report integrated generation ";
/* Words of a name that people leave out. */
static const char brands[] = " geforce radeon instinct tesla nvidia amd generation ";

struct tokens {
    struct str items[24];
    size_t n;
};

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool listed(const char *list, struct str word)
{
    for (const char *at = list; *at; at++) {
        if (*at == ' ' && str_eq_nocase((struct str){at + 1, strcspn(at + 1, " ")}, word)) {
            return true;
        }
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Runs of letters and runs of digits, so that "RTX3060" and "6 GB" are what "RTX 3060" and "6GB"
 * are; words of `without` are left out. */
static void tokens_add(struct tokens *t, const char *text, const char *without)
{
    while (*text && t->n < sizeof t->items / sizeof *t->items) {
        size_t whole = 0;
        while (word_char(text[whole])) {
            whole++;
        }
        bool skip = whole == 0 || listed(without, (struct str){text, whole});
        size_t n = skip ? whole + (whole == 0) : 1;
        while (!skip && n < whole && is_digit(text[n]) == is_digit(text[n - 1])) {
            n++;
        }
        if (!skip && !listed(without, (struct str){text, n})) {
            t->items[t->n++] = (struct str){text, n};
        }
        text += n;
    }
}

static bool tokens_has(const struct tokens *t, struct str word)
{
    for (size_t i = 0; i < t->n; i++) {
        if (str_eq_nocase(t->items[i], word)) {
            return true;
        }
    }
    return false;
}

static bool tokens_within(const struct tokens *part, const struct tokens *whole)
{
    for (size_t i = 0; i < part->n; i++) {
        if (!tokens_has(whole, part->items[i])) {
            return false;
        }
    }
    return part->n > 0;
}

static bool has_digit(const struct tokens *t)
{
    for (size_t i = 0; i < t->n; i++) {
        for (size_t c = 0; c < t->items[i].n; c++) {
            if (is_digit(t->items[i].s[c])) {
                return true;
            }
        }
    }
    return false;
}

struct gpus_found {
    VEC(const struct kb_gpu *) items;
};

static const char *gpu_value(const struct kb_gpu *g)
{
    return g->capability ? g->capability : g->gfx;
}

/* Cards whose name has every word asked for; if some have no other words, only those. Without a
 * digit among the words ("TITAN V") nothing less will do. */
static void gpus_named(struct ask *k, const struct kb_gpus *gpus, const struct tokens *asked,
                       const struct tokens *bare, struct gpus_found *ret)
{
    bool exact = !has_digit(asked);
    size_t before = ret->items.n;
    for (size_t i = 0; i < gpus->n; i++) {
        const struct kb_gpu *g = &gpus->rows[i];
        struct tokens all = {.n = 0}, name = {.n = 0};
        tokens_add(&all, g->name, "");
        tokens_add(&all, g->vendor == KB_VENDOR_AMD ? "amd radeon" : "nvidia", "");
        tokens_add(&name, g->name, brands);
        bool same = bare->n == name.n && tokens_within(&name, bare);
        if (!tokens_within(asked, &all) || (exact && !same)) {
            continue;
        }
        ret->items.n = same && !exact ? before : ret->items.n;
        exact = exact || same;
        VEC_PUSH(k->a, &ret->items, g);
    }
}

/* Whether a word is part of any GPU's name. */
static bool in_a_name(const struct kb_gpus *gpus, const char *word)
{
    struct tokens wanted = {.n = 0};
    tokens_add(&wanted, word, "");
    for (size_t i = 0; i < gpus->n; i++) {
        struct tokens name = {.n = 0};
        tokens_add(&name, gpus->rows[i].name, "");
        if (tokens_within(&wanted, &name)) {
            return true;
        }
    }
    return false;
}

/* The words of the question that name nothing else, in pieces between "/". Where the question is
 * about more than the GPU (`loose`), words that occur in no name are passed over. */
static void gpus_by_name(struct ask *k, const struct kb_gpus *gpus, bool loose,
                         struct gpus_found *ret)
{
    const struct question *q = k->q;
    const char *without = arena_printf(k->a, "%s%s", no_gpu, brands);
    for (size_t from = 0, to; from < q->n_rest; from = to + 1) {
        struct tokens asked = {.n = 0}, bare = {.n = 0};
        for (to = from; to < q->n_rest && strcmp(q->rest[to], "/") != 0; to++) {
            if (!loose || (!strchr(q->rest[to], '.') && in_a_name(gpus, q->rest[to]))) {
                tokens_add(&asked, q->rest[to], no_gpu);
                tokens_add(&bare, q->rest[to], without);
            }
        }
        gpus_named(k, gpus, &asked, &bare, ret);
    }
}

static void gpus_by_pci(struct ask *k, const struct kb_gpus *gpus, struct gpus_found *ret)
{
    const struct question *q = k->q;
    for (size_t i = 0; i < gpus->n; i++) {
        const struct kb_gpu *g = &gpus->rows[i];
        const char *vendor = g->vendor == KB_VENDOR_AMD ? "1002" : "10de";
        if (strcmp(vendor, q->pci_vendor) == 0 && has_text(g->pci, q->pci_device)) {
            VEC_PUSH(k->a, &ret->items, g);
        }
    }
}

static int gpus_find(struct ask *k, bool loose, struct gpus_found *ret, struct gm_err *err)
{
    struct kb_gpus gpus;
    int rc = kb_gpus(k->kb, &gpus, err);
    if (rc < 0) {
        return rc;
    }
    if (k->q->pci_vendor) {
        gpus_by_pci(k, &gpus, ret);
    } else {
        gpus_by_name(k, &gpus, loose, ret);
    }
    return 0;
}

static bool all_alike(const struct gpus_found *found)
{
    for (size_t i = 1; i < found->items.n; i++) {
        if (strcmp(gpu_value(found->items.items[0]), gpu_value(found->items.items[i])) != 0) {
            return false;
        }
    }
    return found->items.n > 0;
}

static const char *gpu_words(struct ask *k, const struct kb_gpu *g)
{
    return g->capability ? arena_printf(k->a, "compute capability %s (sm_%d)", g->capability,
                                        arch_number(g->capability))
                         : arena_printf(k->a, "gfx target %s", g->gfx);
}

/* How the kernel reports a target. */
static int say_kfd(struct ask *k, const char *gfx, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err);
    for (size_t i = 0; rc == 0 && i < r.n; i++) {
        if (r.rows[i].kind == KB_ROCM_TARGET && has_text(r.rows[i].gfx, gfx)) {
            HIT(k, KB_AREA_ROCMS, &r.rows[i]);
            say(k, "KFD reports it as gfx_target_version %d.", r.rows[i].kfd);
        }
    }
    return rc < 0 ? rc : 1;
}

/* "compute capability of RTX 3060", "10de:2504"; cards that differ are named one by one. */
static int form_gpu(struct ask *k, struct gm_err *err)
{
    struct gpus_found found = {{0}};
    int rc = gpus_find(k, false, &found, err);
    if (rc < 0 || found.items.n == 0) {
        return rc;
    }
    const struct kb_gpu *first = found.items.items[0];
    bool alike = all_alike(&found);
    for (size_t i = 0; i < found.items.n; i++) {
        const struct kb_gpu *g = found.items.items[i];
        HIT(k, KB_AREA_GPUS, g);
        if (!alike && i < 12) {
            say(k, "%s: %s, %s.", g->name, gpu_words(k, g), g->generation);
        }
    }
    if (alike) {
        say(k, "%s%s: %s, %s.", first->name, found.items.n > 1 ? " and its variants" : "",
            gpu_words(k, first), first->generation);
    }
    return alike && first->gfx ? say_kfd(k, first->gfx, err) : 1;
}

/* ------------------------------------------------------------------ releases of packages */

/* The release that the question names, or the newest one that fits; NULL if none. */
static const struct kb_release *release_of(struct ask *k, const struct kb_releases *r)
{
    const struct question *q = k->q;
    const struct kb_release *best = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_release *row = &r->rows[i];
        if (strcmp(row->package, q->package) != 0 ||
            (q->version && !within(row->version, q->version))) {
            continue;
        }
        if (q->version && strcmp(row->version, q->version) == 0) {
            return row;
        }
        best = !best || compare(row->version, best->version) > 0 ? row : best;
    }
    return best;
}

/* Everything known of one release: its own row, the builds and the compat row of its version. */
struct release {
    const char *name;               // "torch 2.5.1"
    const char *version;            // as precise as known, or NULL
    const struct kb_release *row;   // or NULL
    const struct kb_compat *compat; // or NULL
    const struct kb_build *build;   // the default one, or NULL
    struct kb_builds builds;
};

static void release_rest(struct ask *k, const struct kb_compats *c, struct release *ret)
{
    const char *package = k->q->package;
    for (size_t i = 0; ret->version && i < ret->builds.n; i++) {
        const struct kb_build *b = &ret->builds.rows[i];
        if (strcmp(b->package, package) == 0 && b->is_default &&
            admits(k, b->versions, ret->version)) {
            ret->build = b;
        }
    }
    for (size_t i = 0; ret->version && i < c->n; i++) {
        if (strcmp(c->rows[i].package, package) == 0 &&
            admits(k, c->rows[i].versions, ret->version)) {
            ret->compat = &c->rows[i];
        }
    }
}

static int release_find(struct ask *k, struct release *ret, struct gm_err *err)
{
    struct kb_releases r;
    struct kb_compats c;
    *ret = (struct release){.name = NULL};
    int rc = kb_releases(k->kb, &r, err);
    rc = rc < 0 ? rc : kb_compats(k->kb, &c, err);
    rc = rc < 0 ? rc : kb_builds(k->kb, &ret->builds, err);
    if (rc < 0) {
        return rc;
    }
    ret->row = release_of(k, &r);
    ret->version = ret->row ? ret->row->version : k->q->version;
    ret->name = arena_printf(k->a, "%s %s", k->q->package, ret->version ? ret->version : "");
    release_rest(k, &c, ret);
    return 0;
}

static void release_hits(struct ask *k, const struct release *r)
{
    if (r->row) {
        HIT(k, KB_AREA_RELEASES, r->row);
    }
    if (r->build) {
        HIT(k, KB_AREA_BUILDS, r->build);
    }
    if (r->compat) {
        HIT(k, KB_AREA_COMPATS, r->compat);
    }
}

static const char *cuda_of(struct ask *k, const struct release *r)
{
    if (r->row && r->row->cuda && strchr(r->row->cuda, '.')) {
        return r->row->cuda;
    }
    if (r->build && r->build->cuda) {
        return r->build->cuda;
    }
    if (r->row && r->row->cuda) {
        return r->row->cuda;
    }
    return r->compat && r->compat->cuda_major > 0 ? arena_printf(k->a, "%d", r->compat->cuda_major)
                                                  : NULL;
}

static const char *cudnn_of(const struct release *r)
{
    if (r->row && r->row->cudnn) {
        return r->row->cudnn;
    }
    if (r->build && r->build->cudnn) {
        return r->build->cudnn;
    }
    return r->compat ? r->compat->cudnn : NULL;
}

/* The builds of a release, filtered by the CUDA or ROCm of the question. */
static bool build_asked(struct ask *k, const struct release *r, const struct kb_build *b)
{
    const struct question *q = k->q;
    return r->version && strcmp(b->package, q->package) == 0 &&
           admits(k, b->versions, r->version) && (!q->cuda || within(b->cuda, q->cuda)) &&
           (!q->rocm || within(b->rocm, q->rocm));
}

static void say_build(struct ask *k, const struct release *r, const struct kb_build *b)
{
    HIT(k, KB_AREA_BUILDS, b);
    say(k, "%s, build %s%s%s%s%s.", r->name, b->build, b->is_default ? " (default)" : "",
        b->status == KB_STATUS_EXPERIMENTAL ? " (experimental)" : "", b->cudnn ? ": cuDNN " : "",
        b->cudnn ? b->cudnn : "");
}

/* Every build but the default one; for CUDA (rocm false) or for ROCm. */
static void say_builds_of(struct ask *k, const struct release *r, bool rocm, bool with_default)
{
    for (size_t i = 0; i < r->builds.n; i++) {
        const struct kb_build *b = &r->builds.rows[i];
        if (build_asked(k, r, b) && (b->rocm != NULL) == rocm && (with_default || !b->is_default)) {
            say_build(k, r, b);
        }
    }
}

static int say_cudnn(struct ask *k, const struct release *r)
{
    const char *cudnn = cudnn_of(r);
    if (k->q->cuda) {
        say_builds_of(k, r, false, true);
        return k->answer->known;
    }
    if (cudnn) {
        say(k, "%s goes with cuDNN %s.", r->name, cudnn);
        say_builds_of(k, r, false, false);
    } else if (r->build && r->build->origin.note) {
        say(k, "%s: %s", r->name, r->build->origin.note); // a row without cuDNN says why
    }
    return k->answer->known;
}

static int say_cuda(struct ask *k, const struct release *r)
{
    const char *cuda = cuda_of(k, r);
    if (cuda) {
        say(k, "%s goes with CUDA %s.", r->name, cuda);
    }
    say_builds_of(k, r, false, false);
    return k->answer->known;
}

static int say_rocm(struct ask *k, const struct release *r)
{
    say_builds_of(k, r, true, true);
    return k->answer->known;
}

static int say_python(struct ask *k, const struct release *r)
{
    if (r->row) {
        say(k, "%s has wheels for Python %s%s%s.", r->name, joined(k->a, r->row->pythons),
            r->row->python ? " and declares " : "", r->row->python ? r->row->python : "");
    } else if (r->build && r->build->python) {
        say(k, "%s supports Python %s.", r->name, r->build->python);
    }
    return k->answer->known;
}

static int say_glibc(struct ask *k, const struct release *r)
{
    if (r->row && r->row->glibc) {
        say(k, "The wheel of %s is tagged for glibc %s or later.", r->name, r->row->glibc);
    } else if (r->row) {
        say(k, "The wheel of %s is for any platform.", r->name);
    }
    return k->answer->known;
}

static int say_driver(struct ask *k, const struct release *r, struct gm_err *err)
{
    struct kb_drivers d;
    const char *cuda = cuda_of(k, r);
    int rc = cuda ? kb_drivers(k->kb, &d, err) : 0;
    const struct kb_driver *floor = cuda && rc == 0 ? floor_of(k, &d, cuda) : NULL;
    if (rc < 0 || !floor) {
        return rc;
    }
    say(k, "%s goes with CUDA %s.", r->name, cuda);
    say_floor(k, floor);
    return 1;
}

static const char *platform_text(struct ask *k, const struct kb_build *b)
{
    const char *text = joined(k->a, b->sm);
    text = b->ptx.n ? arena_printf(k->a, "%s and PTX %s", text, joined(k->a, b->ptx)) : text;
    return b->ptx_isa ? arena_printf(k->a, "%s (ISA %s)", text, b->ptx_isa) : text;
}

static int say_architectures(struct ask *k, const struct release *r)
{
    for (size_t i = 0; r->version && i < r->builds.n; i++) {
        const struct kb_build *b = &r->builds.rows[i];
        if (!build_asked(k, r, b) || (b->sm.n == 0 && b->gfx.n == 0)) {
            continue;
        }
        HIT(k, KB_AREA_BUILDS, b);
        say(k, "%s, build %s%s: %s.", r->name, b->build, b->is_default ? " (default)" : "",
            b->gfx.n ? joined(k->a, b->gfx) : platform_text(k, b));
    }
    return k->answer->known;
}

/* One property of a release: "which cuDNN does torch 2.5.1 use". */
static int form_property(struct ask *k, struct gm_err *err)
{
    struct release r;
    int rc = release_find(k, &r, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    int answered = 0;
    if (question_has(q, "rocm")) {
        answered = say_rocm(k, &r);
    } else if (question_has(q, "cudnn")) {
        answered = question_has(q, "builds build") ? say_cuda(k, &r) : say_cudnn(k, &r);
    } else if (question_has(q, "driver")) {
        answered = say_driver(k, &r, err);
    } else if (question_has(q, "architecture architectures arch archs sm kernels gpus")) {
        answered = say_architectures(k, &r);
    } else if (question_has(q, "cuda toolkit builds build")) {
        answered = say_cuda(k, &r);
    } else if (question_has(q, "python pythons")) {
        answered = say_python(k, &r);
    } else if (question_has(q, "glibc manylinux")) {
        answered = say_glibc(k, &r);
    }
    if (answered > 0) {
        release_hits(k, &r);
    }
    return answered;
}

static const char *need_text(struct ask *k, const struct kb_release_need *n)
{
    const char *text = arena_printf(k->a, "%s%s%s", n->package, n->versions ? " " : "",
                                    n->versions ? n->versions : "");
    text = n->extra ? arena_printf(k->a, "%s (with the extra %s)", text, n->extra) : text;
    return n->when ? arena_printf(k->a, "%s (if %s)", text, n->when) : text;
}

/* "what does ctranslate2 4.5.0 need" */
static int form_release(struct ask *k, struct gm_err *err)
{
    struct release r;
    if (k->q->n_rest > 0 &&
        !question_has(k->q, "need needs require requires requirements dependencies")) {
        return 0; // something else is wanted than what a release needs
    }
    int rc = release_find(k, &r, err);
    if (rc < 0 || (!r.row && !r.compat && !r.build)) {
        return rc;
    }
    release_hits(k, &r);
    (void)say_python(k, &r);
    (void)say_glibc(k, &r);
    const char *cuda = cuda_of(k, &r);
    if (cuda) {
        say(k, "It goes with CUDA %s.", cuda);
    }
    (void)say_cudnn(k, &r);
    const char *needs = "";
    for (size_t i = 0; r.row && i < r.row->n_needs; i++) {
        needs = arena_printf(k->a, "%s%s%s", needs, i ? "; " : "", need_text(k, &r.row->needs[i]));
    }
    if (needs[0]) {
        say(k, "It requires %s.", needs);
    }
    for (size_t i = 0; r.compat && i < r.compat->n_needs && !needs[0]; i++) {
        say(k, "It needs %s%s%s.", r.compat->needs[i].package,
            r.compat->needs[i].versions ? " " : "",
            r.compat->needs[i].versions ? r.compat->needs[i].versions : "");
    }
    if (r.compat && r.compat->origin.note) {
        say(k, "%s", r.compat->origin.note);
    }
    return 1;
}

static bool say_need(struct ask *k, const struct release *r, const char *other)
{
    bool found = false;
    for (size_t i = 0; i < r->row->n_needs; i++) {
        if (strcmp(r->row->needs[i].package, other) == 0) {
            say(k, "%s requires %s.", r->name, need_text(k, &r->row->needs[i]));
            found = true;
        }
    }
    return found;
}

/* The other way round: which releases of `other` admit this one. */
static bool say_needed_by(struct ask *k, const struct kb_releases *all, const struct release *r,
                          const char *other)
{
    enum { SHOWN = 6 };
    size_t found = 0;
    for (size_t i = all->n; i-- > 0;) {
        const struct kb_release *row = &all->rows[i];
        for (size_t n = 0; strcmp(row->package, other) == 0 && n < row->n_needs; n++) {
            const struct kb_release_need *need = &row->needs[n];
            if (strcmp(need->package, k->q->package) == 0 && need->versions &&
                admits(k, need->versions, r->version) && found++ < SHOWN) {
                HIT(k, KB_AREA_RELEASES, row);
                say(k, "%s %s requires %s.", other, row->version, need_text(k, need));
            }
        }
    }
    if (found > SHOWN) {
        say(k, "So do %zu more releases of %s.", found - SHOWN, other);
    }
    return found > 0;
}

/* "which ctranslate2 does whisperx 3.8.6 need", "which torchvision goes with torch 2.5.1" */
static int form_need(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct release r;
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : release_find(k, &r, err);
    if (rc < 0 || !r.row) {
        return rc;
    }
    bool asked = k->q->version || strcmp(k->q->words[0], "does") == 0;
    for (size_t o = 0; asked && o < k->q->n_others; o++) {
        if (!say_need(k, &r, k->q->others[o]) && !say_needed_by(k, &all, &r, k->q->others[o])) {
            say(k, "%s does not declare %s among what is gathered here.", r.name, k->q->others[o]);
        }
    }
    if (k->answer->known) {
        release_hits(k, &r);
    }
    return k->answer->known;
}

/* "which is the last ctranslate2 3.x" */
static int form_newest(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    int rc = kb_releases(k->kb, &all, err);
    const struct kb_release *row = rc < 0 ? NULL : release_of(k, &all);
    if (!row) {
        return rc;
    }
    HIT(k, KB_AREA_RELEASES, row);
    say(k, "%s %s is the newest%s%s gathered here.", row->package, row->version,
        k->q->version ? " of " : "", k->q->version ? k->q->version : "");
    return 1;
}

/* "does torch 2.5.1 have wheels for Python 3.13", "which torch for Python 3.8" */
static int form_python(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct release r;
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : release_find(k, &r, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    if (q->version && r.row) {
        HIT(k, KB_AREA_RELEASES, r.row);
        say(k, "%s %s a wheel for Python %s.", r.name,
            has_text(r.row->pythons, q->python) ? "has" : "has not", q->python);
        return 1;
    }
    const struct kb_release *first = NULL, *last = NULL;
    for (size_t i = 0; i < all.n; i++) {
        const struct kb_release *row = &all.rows[i];
        if (strcmp(row->package, q->package) == 0 && has_text(row->pythons, q->python)) {
            first = !first || compare(row->version, first->version) < 0 ? row : first;
            last = !last || compare(row->version, last->version) > 0 ? row : last;
        }
    }
    if (!first) {
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, first);
    HIT(k, KB_AREA_RELEASES, last);
    say(k, "%s has wheels for Python %s from %s to %s, as far as gathered here.", q->package,
        q->python, first->version, last->version);
    return 1;
}

/* ------------------------------------------------------------------ builds */

struct wanted {
    const char *sm, *gfx, *driver, *cuda, *rocm;
};

/* Without a driver in the question, PTX counts: some driver compiles it. */
static enum gpu_serves build_serves(struct ask *k, const struct kb_build *b, const struct wanted *w)
{
    unsigned number = (unsigned)arch_number(w->sm);
    return kb_build_serves(b, number, w->driver ? kb_isa_of_driver(k->kb, w->driver) : KB_ISA_ANY);
}

/* PY_UNKNOWN when the build does not say what it has kernels for. */
static enum py_answer build_fits(struct ask *k, const struct kb_drivers *d,
                                 const struct kb_build *b, const struct wanted *w)
{
    if ((w->cuda && !within(b->cuda, w->cuda)) || (w->rocm && !within(b->rocm, w->rocm)) ||
        (w->sm && !b->cuda) || (w->gfx && !b->rocm) || (w->driver && !b->cuda)) {
        return PY_NO;
    }
    const struct kb_driver *floor = w->driver ? floor_of(k, d, b->cuda) : NULL;
    if (w->driver && floor && !kb_driver_reaches(w->driver, floor->linux_min)) {
        return PY_NO;
    }
    if ((w->driver && !floor) || (w->sm && b->sm.n == 0) || (w->gfx && b->gfx.n == 0)) {
        return PY_UNKNOWN;
    }
    if (w->gfx && !has_text(b->gfx, w->gfx)) {
        return PY_NO;
    }
    enum gpu_serves serves = w->sm ? build_serves(k, b, w) : GPU_SERVES_NATIVE;
    return serves == GPU_SERVES_NATIVE || serves == GPU_SERVES_JIT ? PY_YES
           : serves == GPU_SERVES_NONE                             ? PY_NO
                                                                   : PY_UNKNOWN;
}

/* A build that fits, and the version its set begins with: "2.8" of ">=2.8,<2.9". */
struct fit {
    const struct kb_build *build;
    const char *series;
};

static struct fit fit_of(struct ask *k, const struct kb_build *b)
{
    const char *from = b->versions + strspn(b->versions, "<>=~");
    return (struct fit){b, arena_strndup(k->a, from, strcspn(from, ","))};
}

static int newer_first(const void *one, const void *two)
{
    const struct fit *a = one, *b = two;
    int by_version = compare(b->series, a->series);
    return by_version ? by_version : strcmp(b->build->build, a->build->build);
}

static const char *wanted_text(struct ask *k, const struct wanted *w)
{
    const char *text = "";
    if (w->sm) {
        text = arena_printf(k->a, " for sm_%d", arch_number(w->sm));
    }
    if (w->gfx) {
        text = arena_printf(k->a, "%s for %s", text, w->gfx);
    }
    if (w->driver) {
        text = arena_printf(k->a, "%s on driver %s", text, w->driver);
    }
    if (w->cuda) {
        text = arena_printf(k->a, "%s with CUDA %s", text, w->cuda);
    }
    return w->rocm ? arena_printf(k->a, "%s with ROCm %s", text, w->rocm) : text;
}

/* "2.8 (cu126, default)"; where the GPU gets only PTX, which driver compiles it. */
static const char *fit_text(struct ask *k, const struct fit *f, const struct wanted *w)
{
    const struct kb_build *b = f->build;
    bool jit = w->sm && build_serves(k, b, w) == GPU_SERVES_JIT;
    const struct kb_driver *d =
        jit && b->ptx_isa ? kb_driver_of_isa(k->kb, kb_isa_number(b->ptx_isa)) : NULL;
    if (d) {
        HIT(k, KB_AREA_DRIVERS, d);
    }
    const char *text = arena_printf(k->a, "%s (%s%s%s", f->series, b->build,
                                    b->is_default ? ", default" : "", jit ? ", by PTX" : "");
    return d ? arena_printf(k->a, "%s from driver %s on)", text, d->linux_min)
             : arena_printf(k->a, "%s)", text);
}

static bool is_asked(struct ask *k, const struct kb_build *b)
{
    return strcmp(b->package, k->q->package) == 0 &&
           (!k->q->version || admits(k, b->versions, k->q->version));
}

/* None fits: the answer rests on all that were judged. */
static int say_no_build(struct ask *k, const struct kb_builds *builds, const struct wanted *w)
{
    for (size_t i = 0; i < builds->n; i++) {
        if (is_asked(k, &builds->rows[i])) {
            HIT(k, KB_AREA_BUILDS, &builds->rows[i]);
        }
    }
    say(k, "No build of %s%s%s here is%s.", k->q->package, k->q->version ? " " : "",
        k->q->version ? k->q->version : "", wanted_text(k, w));
    return 1;
}

static int say_builds(struct ask *k, const struct kb_drivers *d, const struct kb_builds *builds,
                      const struct wanted *w)
{
    VEC(struct fit) fits = {0};
    size_t judged = 0, unknown = 0;
    for (size_t i = 0; i < builds->n; i++) {
        const struct kb_build *b = &builds->rows[i];
        if (!is_asked(k, b)) {
            continue;
        }
        enum py_answer answer = build_fits(k, d, b, w);
        judged++;
        unknown += answer == PY_UNKNOWN;
        if (answer == PY_YES) {
            VEC_PUSH(k->a, &fits, fit_of(k, b));
        }
    }
    if (fits.n == 0) {
        return judged == 0 || unknown > 0 ? 0 : say_no_build(k, builds, w);
    }
    qsort(fits.items, fits.n, sizeof *fits.items, newer_first);
    const char *list = "";
    for (size_t i = 0; i < fits.n; i++) {
        HIT(k, KB_AREA_BUILDS, fits.items[i].build);
        list = arena_printf(k->a, "%s%s%s", list, i ? ", " : "", fit_text(k, &fits.items[i], w));
    }
    say(k, "%s builds%s, newest first: %s.", k->q->package, wanted_text(k, w), list);
    if (unknown > 0) {
        say(k, "Of %zu more it is not known.", unknown);
    }
    return 1;
}

/* "which torch runs on sm_61 with driver 535"; the GPU may be given by name. */
static int form_builds(struct ask *k, struct gm_err *err)
{
    struct kb_builds builds;
    struct kb_drivers d;
    struct gpus_found found = {{0}};
    const struct question *q = k->q;
    struct wanted w = {q->sm, q->gfx, q->driver, q->cuda, q->rocm};
    int rc = kb_builds(k->kb, &builds, err);
    rc = rc < 0 ? rc : kb_drivers(k->kb, &d, err);
    rc = rc < 0 || w.sm || w.gfx ? rc : gpus_find(k, true, &found, err);
    if (rc < 0) {
        return rc;
    }
    if (all_alike(&found)) {
        w.sm = found.items.items[0]->capability;
        w.gfx = found.items.items[0]->gfx;
        HIT(k, KB_AREA_GPUS, found.items.items[0]);
    }
    if (!w.sm && !w.gfx && !w.driver && !w.cuda && !w.rocm) {
        return 0;
    }
    return say_builds(k, &d, &builds, &w);
}

/* ------------------------------------------------------------------ cuDNN */

static void say_cudnn_packages(struct ask *k, const struct kb_releases *r)
{
    const struct kb_release *newest[3] = {NULL, NULL, NULL};
    static const char *const packages[] = {"nvidia-cudnn-cu11", "nvidia-cudnn-cu12",
                                           "nvidia-cudnn-cu13"};
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_release *row = &r->rows[i];
        for (size_t p = 0; p < 3; p++) {
            if (strcmp(row->package, packages[p]) == 0 && within(row->version, k->q->cudnn) &&
                (!newest[p] || compare(row->version, newest[p]->version) > 0)) {
                newest[p] = row;
            }
        }
    }
    for (size_t p = 0; p < 3; p++) {
        if (newest[p]) {
            HIT(k, KB_AREA_RELEASES, newest[p]);
            say(k, "cuDNN %s is published for CUDA %s as %s %s.", k->q->cudnn, packages[p] + 15,
                packages[p], newest[p]->version);
        }
    }
}

static void say_cudnn_members(struct ask *k, const struct kb_families *f)
{
    const char *id = arena_printf(k->a, "cudnn-%s", major_of(k, k->q->cudnn));
    for (size_t i = 0; i < f->n; i++) {
        const struct kb_family *row = &f->rows[i];
        if (strcmp(row->id, id) == 0) {
            HIT(k, KB_AREA_FAMILIES, row);
            say(k, "%s consists of %s.", row->title, joined(k->a, row->members));
        }
    }
}

/* "which CUDA does cuDNN 9.17 support" */
static int form_cudnn(struct ask *k, struct gm_err *err)
{
    struct kb_cudnns c;
    struct kb_releases r;
    struct kb_families f;
    int rc = kb_cudnns(k->kb, &c, err);
    rc = rc < 0 ? rc : kb_releases(k->kb, &r, err);
    rc = rc < 0 ? rc : kb_families(k->kb, &f, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    if (question_has(q, "libraries sub-libraries sublibraries consist composition members files")) {
        say_cudnn_members(k, &f);
        return k->answer->known;
    }
    for (size_t i = 0; i < c.n; i++) {
        const struct kb_cudnn *row = &c.rows[i];
        bool named = within(row->cudnn, q->cudnn) || within(q->cudnn, row->cudnn);
        if (named && (!q->cuda || atoi(q->cuda) == row->cuda_major)) {
            HIT(k, KB_AREA_CUDNNS, row);
            say(k, "cuDNN %s for CUDA %d: CUDA %s%s%s; compute capability %s.", row->cudnn,
                row->cuda_major, joined(k->a, row->cuda),
                row->linux_min ? "; Linux driver from " : "", row->linux_min ? row->linux_min : "",
                joined(k->a, row->sm));
        }
    }
    say_cudnn_packages(k, &r);
    return k->answer->known;
}

/* ------------------------------------------------------------------ ROCm */

static void say_target(struct ask *k, const struct kb_rocm *row)
{
    HIT(k, KB_AREA_ROCMS, row);
    say(k, "%s (%s): %s. KFD reports it as %d.%s%s", row->id, row->generation, row->products,
        row->kfd, row->origin.note ? " " : "", row->origin.note ? row->origin.note : "");
}

static void say_override(struct ask *k, const struct kb_rocm *row)
{
    HIT(k, KB_AREA_ROCMS, row);
    say(k, "HSA_OVERRIDE_GFX_VERSION=%s is %s: %s", row->override,
        row->verdict == KB_VERDICT_UNSAFE ? "wrong here"
                                          : "an override to the same instruction set",
        row->origin.note);
}

static void say_support(struct ask *k, const struct kb_rocms *r)
{
    const char *in = "", *gfx = k->q->gfx;
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind != KB_ROCM_RELEASE || !has_text(row->gfx, gfx)) {
            continue;
        }
        HIT(k, KB_AREA_ROCMS, row);
        in = arena_printf(k->a, "%s%s%s", in, in[0] ? ", " : "", row->rocm);
    }
    if (in[0]) {
        say(k, "The official lists of ROCm %s have it.", in);
    } else {
        say(k, "No official list of a ROCm release known here has it.");
    }
}

/* Whether a release's own list has a target; only for releases that have a row. */
static int say_release_support(struct ask *k, const struct kb_rocms *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind == KB_ROCM_RELEASE && within(k->q->rocm, row->rocm)) {
            HIT(k, KB_AREA_ROCMS, row);
            say(k, "The official list of ROCm %s %s %s.", row->rocm,
                has_text(row->gfx, k->q->gfx) ? "has" : "does not have", k->q->gfx);
        }
    }
    return k->answer->known;
}

/* "gfx1010", "does ROCm 6.3 support gfx1031" */
static int form_gfx(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err);
    if (rc < 0 || (k->q->rocm && !k->q->package)) {
        return rc < 0 ? rc : say_release_support(k, &r);
    }
    for (size_t i = 0; i < r.n; i++) {
        const struct kb_rocm *row = &r.rows[i];
        if (row->kind == KB_ROCM_TARGET && has_text(row->gfx, k->q->gfx)) {
            say_target(k, row);
            say_support(k, &r);
        }
    }
    for (size_t i = 0; k->answer->known && i < r.n; i++) {
        const struct kb_rocm *row = &r.rows[i];
        if (row->kind == KB_ROCM_OVERRIDE && has_text(row->gfx, k->q->gfx)) {
            say_override(k, row);
        }
    }
    return k->answer->known;
}

/* "which gfx target is gfx_target_version 100302" */
static int form_kfd(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err);
    for (size_t i = 0; rc == 0 && i < r.n; i++) {
        if (r.rows[i].kind == KB_ROCM_TARGET && has_code(k->q, r.rows[i].kfd)) {
            say_target(k, &r.rows[i]);
        }
    }
    return rc < 0 ? rc : k->answer->known;
}

static int form_rocm(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < r.n; i++) {
        const struct kb_rocm *row = &r.rows[i];
        if (row->kind == KB_ROCM_RELEASE &&
            (within(row->rocm, k->q->rocm) || within(k->q->rocm, row->rocm))) {
            HIT(k, KB_AREA_ROCMS, row);
            say(k, "The official list of ROCm %s: %s.%s%s", row->rocm, joined(k->a, row->gfx),
                row->origin.note ? " " : "", row->origin.note ? row->origin.note : "");
        }
    }
    return k->answer->known;
}

/* ------------------------------------------------------------------ glibc, models */

static int form_glibc(struct ask *k, struct gm_err *err)
{
    struct kb_glibcs g;
    int rc = kb_glibcs(k->kb, &g, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    for (size_t i = 0; i < g.n; i++) {
        const struct kb_glibc *row = &g.rows[i];
        bool tagged = q->tag && row->tag && strcmp(row->tag, q->tag) == 0;
        bool same = q->glibc && strcmp(row->glibc, q->glibc) == 0;
        if (!tagged && !same) {
            continue;
        }
        HIT(k, KB_AREA_GLIBCS, row);
        if (row->tag) {
            say(k, "%s promises glibc %s or later; built on %s; pip %s or later knows it.",
                row->tag, row->glibc, row->image, row->pip);
        } else {
            say(k, "glibc %s is that of %s.", row->glibc, row->systems);
        }
    }
    return k->answer->known;
}

static bool device_applies(struct ask *k, const struct kb_model *m, const char *sm)
{
    bool cpu = question_has(k->q, "cpu");
    if (!cpu && !sm) {
        return k->q->n_rest == 0 || question_has(k->q, "capability compute type types");
    }
    if (strcmp(m->device, "cpu") == 0) {
        return cpu;
    }
    return !cpu && strcmp(m->device, "cuda") == 0 && sm && admits(k, m->applies, sm);
}

/* "int8_float16 on sm_61", "bfloat16 on a GTX 1080" */
static int form_compute(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    struct gpus_found found = {{0}};
    int rc = kb_models(k->kb, &models, err);
    rc = rc < 0 || k->q->sm ? rc : gpus_find(k, true, &found, err);
    if (rc < 0) {
        return rc;
    }
    const char *sm = all_alike(&found) ? found.items.items[0]->capability : k->q->sm;
    for (size_t i = 0; i < models.n; i++) {
        const struct kb_model *m = &models.rows[i];
        for (size_t c = 0; m->kind == KB_MODEL_COMPUTE && c < m->n_runs; c++) {
            if (strcmp(m->runs[c].asked, k->q->compute) == 0 && device_applies(k, m, sm)) {
                HIT(k, KB_AREA_MODELS, m);
                say(k, "%s runs as %s with %s on %s %s.", m->runs[c].asked, m->runs[c].runs_as,
                    m->engine, m->device, m->applies);
            }
        }
    }
    return k->answer->known;
}

/* Whether the question names the model or one of its sizes ("large-v2" is of the size large). */
static bool names_model(const struct question *q, const struct kb_model *m)
{
    for (size_t i = 0; m->model && i < q->n; i++) {
        const char *word = q->words[i];
        word += starts_with(word, "whisper:") ? 8 : starts_with(word, "whisper-") ? 8 : 0;
        bool alias = strcmp(word, "turbo") == 0 && strcmp(m->model, "large-v3-turbo") == 0;
        bool size = m->kind == KB_MODEL_MODEL && strcmp(m->model, "large") == 0 &&
                    starts_with(word, "large-v") && !ends_with(word, "turbo");
        if (strcmp(word, m->model) == 0 || alias || size ||
            (m->alias && strcmp(word, m->alias) == 0)) {
            return true;
        }
    }
    return false;
}

static void say_model(struct ask *k, const struct kb_model *m)
{
    HIT(k, KB_AREA_MODELS, m);
    if (m->kind == KB_MODEL_MODEL && m->memory_mib > 0) {
        say(k, "%s %s: %d million parameters, about %d GiB of GPU memory.", m->engine, m->model,
            m->parameters_m, m->memory_mib / 1024);
    } else if (m->kind == KB_MODEL_MODEL) {
        say(k, "%s %s: %d million parameters.", m->engine, m->model, m->parameters_m);
    } else if (m->kind == KB_MODEL_MEASURED) {
        say(k, "%s %s as %s on %s took %d MiB (%s)", m->engine, m->model, m->compute, m->device,
            m->memory_mib, m->origin.note);
    } else if (m->kind == KB_MODEL_ALIAS) {
        say(k, "%s takes %s for %s.", m->engine, m->alias, m->model);
    }
}

/* "how much memory does whisper large-v3 need" */
static int form_model(struct ask *k, struct gm_err *err)
{
    struct kb_models models;
    int rc = kb_models(k->kb, &models, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < models.n; i++) {
        if (names_model(k->q, &models.rows[i])) {
            say_model(k, &models.rows[i]);
        }
    }
    return k->answer->known;
}

/* ------------------------------------------------------------------ the forms */

struct form {
    const char *example;
    unsigned named;                                   // all of these must be named (enum named)
    unsigned any;                                     // and one of these, if any are given
    unsigned not_named;                               // and none of these
    const char *words;                                // and one of these words, or NULL
    int (*answer)(struct ask *k, struct gm_err *err); // 1: answered, 0: not by this form
};

/* Tried from the top; the first one that answers wins. `gpumend kb arch FILE...` is not a
 * question: src/cli/kb.c takes it before it asks. */
static const struct form forms[] = {
    {"rows drivers", NAMED_AREA, 0, 0, NULL, form_rows},
    {"CUDNN_STATUS_NOT_INITIALIZED", NAMED_ERROR, 0, 0, NULL, form_error},
    {"cuda error 35", NAMED_CODE, 0, NAMED_PACKAGE, "error code status errno", form_error},
    {"what provides libnvrtc.so.12", NAMED_LIBRARY, 0, 0, NULL, form_provides},
    {"which ctranslate2 does whisperx 3.8.6 need", NAMED_PACKAGE | NAMED_OTHER, 0, 0, NULL,
     form_need},
    {"how much memory does whisper large-v3 need", 0, 0, 0,
     "memory vram model parameters gib ram alias aliases", form_model},
    {"int8_float16 on sm_61", NAMED_COMPUTE, 0, 0, NULL, form_compute},
    {"does torch 2.5.1 have wheels for Python 3.13", NAMED_PACKAGE | NAMED_PYTHON, 0, 0, NULL,
     form_python},
    {"which is the newest ctranslate2 3.x", NAMED_PACKAGE, 0, 0, "last latest newest", form_newest},
    {"which cuDNN does torch 2.5.1 use", NAMED_PACKAGE, 0,
     NAMED_SM | NAMED_GFX | NAMED_DRIVER | NAMED_PCI,
     "cudnn architecture architectures arch archs kernels", form_property},
    {"which torch runs on sm_61 with driver 535", NAMED_PACKAGE,
     NAMED_SM | NAMED_GFX | NAMED_DRIVER | NAMED_CUDA | NAMED_ROCM | NAMED_PCI, 0, NULL,
     form_builds},
    {"which CUDA does vllm 0.33.0 need", NAMED_PACKAGE, 0, 0,
     "driver cuda toolkit builds build rocm python pythons glibc manylinux gpus", form_property},
    {"does torch 2.8 run on a GTX 1080", NAMED_PACKAGE, 0, 0, NULL, form_builds},
    {"what does ctranslate2 4.5.0 need", NAMED_PACKAGE, 0, 0, NULL, form_release},
    {"which architectures does CUDA 12.8 compile for", NAMED_CUDA, 0, NAMED_SM | NAMED_CUDNN,
     "architecture architectures arch archs sm ptx compile compiles isa gpus capability",
     form_toolkit},
    {"which CUDA does cuDNN 9.17 support", NAMED_CUDNN, 0, NAMED_PACKAGE, NULL, form_cudnn},
    {"which CUDA toolkit compiles for sm_90", NAMED_SM, 0, NAMED_PACKAGE, NULL,
     form_toolkits_of_sm},
    {"which driver does CUDA 12.4 need", NAMED_CUDA, 0, NAMED_DRIVER | NAMED_PACKAGE,
     "driver drivers", form_driver},
    {"CUDA 12.4", NAMED_CUDA, 0, ~(unsigned)NAMED_CUDA, NULL, form_bare_cuda},
    {"which CUDA does driver 535 run", NAMED_DRIVER, 0, NAMED_PACKAGE, NULL, form_cuda_of_driver},
    {"which gfx target is gfx_target_version 100302", NAMED_CODE, 0, 0, "gfx_target_version kfd",
     form_kfd},
    {"gfx1010", NAMED_GFX, 0, 0, NULL, form_gfx},
    {"which gfx targets does ROCm 6.3 support", NAMED_ROCM, 0, 0, NULL, form_rocm},
    {"manylinux_2_28", 0, NAMED_TAG | NAMED_GLIBC, 0, NULL, form_glibc},
    {"which package has cuFFT of CUDA 13", 0, 0, NAMED_PACKAGE | NAMED_LIBRARY,
     "soname sonames package packages pip apt dnf conda provides library libraries", form_library},
    {"compute capability of RTX 3060", 0, 0, 0, NULL, form_gpu},
};

enum { FORMS = sizeof forms / sizeof *forms };

const char *kb_form_example(size_t i)
{
    return i < FORMS ? forms[i].example : NULL;
}

static bool form_fits(const struct form *f, const struct question *q)
{
    return (q->named & f->named) == f->named && (!f->any || (q->named & f->any)) &&
           !(q->named & f->not_named) && (!f->words || question_has(q, f->words));
}

/* Names of packages: those with rows, and those that they need. */
static bool package_known(void *arg, const char *name)
{
    const struct ask *k = arg;
    struct kb_releases r;
    struct kb_compats c;
    if (starts_with(name, "cuda-")) {
        return false; // "cuda toolkit" is not the package of that name
    }
    if (kb_releases(k->kb, &r, NULL) < 0 || kb_compats(k->kb, &c, NULL) < 0) {
        return false; // said by kb_ask(), which loads both first
    }
    for (size_t i = 0; i < c.n; i++) {
        if (strcmp(c.rows[i].package, name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < r.n; i++) {
        const struct kb_release *row = &r.rows[i];
        bool found = strcmp(row->package, name) == 0;
        for (size_t n = 0; n < row->n_needs && !found; n++) {
            found = strcmp(row->needs[n].package, name) == 0;
        }
        if (found) {
            return true;
        }
    }
    return false;
}

int kb_ask(struct kb *kb, const char *text, struct kb_answer *ret, struct gm_err *err)
{
    struct question q;
    struct ask k = {kb, kb->arena, &q, ret};
    struct kb_releases releases;
    struct kb_compats compats;
    *ret = (struct kb_answer){.text = "not known"};
    int rc = kb_releases(kb, &releases, err);
    rc = rc < 0 ? rc : kb_compats(kb, &compats, err);
    if (rc < 0) {
        return rc;
    }
    question_read(kb->arena, text, package_known, &k, &q);
    for (size_t i = 0; i < FORMS; i++) {
        if (!form_fits(&forms[i], &q)) {
            continue;
        }
        rc = forms[i].answer(&k, err);
        if (rc < 0) {
            return rc;
        }
        if (rc > 0) {
            ret->form = forms[i].example;
            return 0;
        }
        *ret = (struct kb_answer){.text = "not known"};
    }
    return 0;
}
