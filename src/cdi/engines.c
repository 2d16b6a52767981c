/* Which engines load a specification: those of the knowledge base, each by the release of the
 * reference library that it is built with. */
#include "cdi/files.h"

#include <string.h>
#include <sys/mman.h>

#include "elf/gobuild.h"
#include "kb/kb.h"

enum { STATUS_MAX = 64 << 20 };

/* ------------------------------------------------------------------ what is installed */

/* "4.3.1+ds1-8+deb12u1" -> "4.3.1" */
static const char *plain_release(struct arena *a, struct str version)
{
    if (str_find_char(version, ':') < version.n) {
        (void)str_cut(&version, ':'); // an epoch
    }
    size_t n = 0;
    while (n < version.n && strchr("0123456789.", version.s[n])) {
        n++;
    }
    return arena_strndup(a, version.s, n);
}

/* The databases of dpkg and of apk: paragraphs of "KEY: VALUE" and of "K:VALUE". */
struct database {
    const char *path, *package, *version, *status;
};

static const struct database databases[] = {
    {"/var/lib/dpkg/status", "Package", "Version", "Status"},
    {"/lib/apk/db/installed", "P", "V", NULL},
};

/* The release of a package in the text of a database, or NULL: it is not installed. */
static const char *release_in(struct arena *a, const struct database *db, struct str text,
                              const char *package)
{
    const char *release = NULL;
    bool named = false, installed = true;
    struct str line;
    while (str_line(&text, &line)) {
        struct str key = str_cut(&line, ':');
        if (key.n == 0) { // the end of a paragraph
            if (named) {
                break;
            }
            release = NULL;
            installed = true;
        } else if (str_is(key, db->package)) {
            named = str_is(str_trim(line), package);
        } else if (str_is(key, db->version)) {
            release = plain_release(a, str_trim(line));
        } else if (db->status && str_is(key, db->status)) {
            installed = str_ends(str_trim(line), " installed");
        }
    }
    return named && installed ? release : NULL;
}

/* pacman has a folder NAME-VERSION-RELEASE for each package. */
static const char *release_of_pacman(struct root *r, struct arena *a, const char *package)
{
    enum { PACKAGES_MAX = 65536 };
    struct root_dir names;
    size_t n = strlen(package);
    if (root_list(r, a, "/var/lib/pacman/local", PACKAGES_MAX, NULL, &names) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < names.n; i++) {
        const char *name = names.names[i];
        if (starts_with(name, package) && name[n] == '-' && strspn(name + n + 1, "0123456789:")) {
            return plain_release(a, str_of(name + n + 1));
        }
    }
    return NULL;
}

static const char *installed_release(struct root *r, struct arena *a, const struct str *texts,
                                     const char *package)
{
    for (size_t i = 0; i < sizeof databases / sizeof *databases; i++) {
        const char *release = texts[i].s ? release_in(a, &databases[i], texts[i], package) : NULL;
        if (release && *release) {
            return release;
        }
    }
    return release_of_pacman(r, a, package);
}

/* A release that is later than all that were read loads no less than the newest rules allow. */
static void add_later(struct arena *a, struct cdi_files *f, size_t at, const char *release)
{
    f->engines.items[at].until = release;
    struct cdi_engine later = f->engines.items[at];
    later.from = release;
    later.until = NULL;
    later.library = cdi_newest_library;
    later.installed = release;
    VEC_PUSH(a, &f->engines, later);
    struct cdi_engine *rows = f->engines.items;
    memmove(&rows[at + 2], &rows[at + 1], (f->engines.n - at - 2) * sizeof *rows);
    rows[at + 1] = later;
}

static void mark(struct arena *a, struct cdi_files *f, const char *engine, const char *release)
{
    size_t at = SIZE_MAX;
    for (size_t i = 0; i < f->engines.n; i++) {
        const struct cdi_engine *e = &f->engines.items[i];
        if (strcmp(e->engine, engine) == 0 && e->installed) {
            return; // two packages of it
        }
        if (strcmp(e->engine, engine) == 0 && host_version_cmp(e->from, release) <= 0) {
            at = i;
        }
    }
    if (at == SIZE_MAX) {
        return; // from before all that are known: it reads no specifications
    }
    const char *to = f->engines.items[at].to;
    if (to && host_version_cmp(release, to) > 0) {
        add_later(a, f, at, release);
    } else {
        f->engines.items[at].installed = release;
    }
}

/* The release of the reference library that a program of Go's names, "1.0.1", or NULL. */
static const char *library_in(struct root *r, struct arena *a, const char *path)
{
    static const char *const modules[] = {
        "tags.cncf.io/container-device-interface",
        "github.com/container-orchestrated-devices/container-device-interface"}; // before 0.6.2
    const char *found = NULL;
    struct elf_image image;
    const void *data;
    struct stat st;
    size_t size;
    if (root_map(r, path, &data, &size, &st) < 0) {
        return NULL;
    }
    elf_image_parse(a, data, size, &image);
    struct str text = elf_go_modules(&image);
    for (size_t i = 0; !found && i < sizeof modules / sizeof *modules; i++) {
        struct str version = elf_go_module(text, modules[i]);
        const char *release = version.n && version.s[0] == 'v'
                                  ? plain_release(a, (struct str){version.s + 1, version.n - 1})
                                  : "";
        found = *release ? release : NULL;
    }
    (void)munmap((void *)(uintptr_t)data, size); // our own
    return found;
}

/* The engine has this release of the library; which of its own releases it is, is not known. */
static void mark_library(struct arena *a, struct cdi_files *f, const char *engine,
                         const char *library)
{
    size_t at = SIZE_MAX;
    for (size_t i = 0; i < f->engines.n; i++) {
        const struct cdi_engine *e = &f->engines.items[i];
        if (strcmp(e->engine, engine) != 0) {
            continue;
        }
        if (e->installed) {
            return; // by its package
        }
        at = strcmp(e->library, library) == 0 ? i : at;
    }
    if (at != SIZE_MAX) { // else no release that was read has it
        f->engines.items[at].installed =
            arena_printf(a, "(with container-device-interface %s)", library);
    }
}

/* What no package database tells: systems with rpm, and programs that no package brought. */
static void find_programs(struct root *r, struct arena *a, struct cdi_files *f, bool docker)
{
    static const struct {
        const char *name, *engine;
    } programs[] = {{"podman", "podman"},
                    {"dockerd", "docker"},
                    {"containerd", "containerd"},
                    {"crio", "cri-o"}};
    static const char *const folders[] = {"/usr/bin", "/usr/local/bin"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *library = NULL;
        for (size_t k = 0; !library && k < sizeof folders / sizeof *folders; k++) {
            struct stat st;
            const char *path = path_join(a, folders[k], programs[i].name);
            bool is_there = root_stat(r, path, &st) == 0;
            library = is_there ? library_in(r, a, path) : NULL;
            docker |= is_there && strcmp(programs[i].engine, "docker") == 0;
        }
        if (library && !(docker && strcmp(programs[i].engine, "containerd") == 0)) {
            mark_library(a, f, programs[i].engine, library);
        }
    }
}

/* Docker brings a containerd of its own that serves nobody else. */
static void find_installed(struct root *r, struct arena *a, struct cdi_files *f)
{
    static const struct {
        const char *package, *engine;
    } packages[] = {
        {"podman", "podman"},
        {"docker-ce", "docker"},
        {"docker.io", "docker"},
        {"docker", "docker"},
        {"moby-engine", "docker"},
        {"containerd", "containerd"},
        {"containerd.io", "containerd"},
        {"cri-o", "cri-o"},
    };
    struct str texts[sizeof databases / sizeof *databases] = {{0}};
    bool docker = false;
    for (size_t i = 0; i < sizeof databases / sizeof *databases; i++) {
        if (root_read(r, a, databases[i].path, STATUS_MAX, &texts[i]) < 0) {
            texts[i] = (struct str){0};
        }
    }
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        const char *release = installed_release(r, a, texts, packages[i].package);
        docker |= release && strcmp(packages[i].engine, "docker") == 0;
        if (release && !(docker && strcmp(packages[i].engine, "containerd") == 0)) {
            mark(a, f, packages[i].engine, release);
        }
    }
    find_programs(r, a, f, docker);
}

void cdi_engines_find(struct root *r, struct arena *a, bool installed, struct cdi_files *ret)
{
    struct gm_err err;
    struct kb_engines engines;
    struct kb kb;
    if (kb_open(&kb, a, r, NULL, &err) < 0 || kb_engines(&kb, &engines, &err) < 0) {
        return; // the embedded rows do not fail
    }
    for (size_t i = 0; i < engines.n; i++) {
        const struct kb_engine *e = &engines.rows[i], *next = i + 1 < engines.n ? e + 1 : NULL;
        bool same = next && strcmp(next->engine, e->engine) == 0;
        VEC_PUSH(a, &ret->engines,
                 (struct cdi_engine){.engine = arena_strdup(a, e->engine),
                                     .from = arena_strdup(a, e->from),
                                     .until = same ? arena_strdup(a, next->from) : NULL,
                                     .to = e->to ? arena_strdup(a, e->to) : NULL,
                                     .library = arena_strdup(a, e->library)});
    }
    if (installed) {
        find_installed(r, a, ret);
    }
    for (size_t i = 0; i < ret->engines.n; i++) {
        const struct cdi_engine *e = &ret->engines.items[i];
        const char *max = cdi_newest_version(e->library);
        if (e->installed && (!ret->engine_max || host_version_cmp(max, ret->engine_max) < 0)) {
            ret->engine = arena_printf(a, "%s %s", e->engine, e->installed);
            ret->engine_max = max;
        }
    }
}

/* ------------------------------------------------------------------ what they say of a file */

static bool answer_is_same(const struct cdi_answer *x, const char *why)
{
    return why ? x->why && strcmp(x->why, why) == 0 : !x->why;
}

/* "podman before 4.7", "podman 4.7 and later", "podman 4.3 to before 4.5", "podman" */
static const char *range_text(struct arena *a, const struct cdi_engine *first,
                              const struct cdi_engine *last, bool is_first)
{
    if (!last->until) {
        return is_first ? first->engine
                        : arena_printf(a, "%s %s and later", first->engine, first->from);
    }
    if (is_first) {
        return arena_printf(a, "%s before %s", first->engine, last->until);
    }
    return arena_printf(a, "%s %s to before %s", first->engine, first->from, last->until);
}

const char *cdi_engines_text(struct arena *a, const struct cdi_files *files,
                             const struct cdi_file *f, const char *why)
{
    const char *text = NULL;
    for (size_t i = 0; i < files->engines.n; i++) {
        const struct cdi_engine *e = &files->engines.items[i];
        size_t last = i;
        if (!answer_is_same(&f->answers.items[i], why)) {
            continue;
        }
        while (last + 1 < files->engines.n && answer_is_same(&f->answers.items[last + 1], why) &&
               strcmp(files->engines.items[last + 1].engine, e->engine) == 0) {
            last++;
        }
        bool is_first = i == 0 || strcmp(files->engines.items[i - 1].engine, e->engine) != 0;
        const char *range = range_text(a, e, &files->engines.items[last], is_first);
        text = text ? arena_printf(a, "%s, %s", text, range) : range;
        i = last;
    }
    return text ? text : "";
}

static void fault_add(struct arena *a, struct cdi_file *f, enum cdi_fault_kind kind,
                      enum cdi_severity severity, const char *text)
{
    VEC_PUSH(a, &f->problems, (struct cdi_problem){kind, severity, text});
}

static void judge_installed(struct arena *a, const struct cdi_files *files, struct cdi_file *f)
{
    for (size_t i = 0; i < files->engines.n; i++) {
        const struct cdi_engine *e = &files->engines.items[i];
        const struct cdi_answer *answer = &f->answers.items[i];
        if (!e->installed || !answer->why) {
            continue;
        }
        const char *name = arena_printf(a, "%s %s", e->engine, e->installed);
        if (answer->too_new) {
            fault_add(
                a, f, CDI_TOO_NEW, CDI_ERROR,
                arena_printf(a,
                             "it is of version %s, and %s loads specifications up to "
                             "%s: it passes over this file, and its devices cannot be resolved",
                             str_printable(a, f->version), name, cdi_newest_version(e->library)));
        } else {
            fault_add(a, f, CDI_REFUSED, CDI_ERROR,
                      arena_printf(a, "%s refuses it: %s", name, answer->why));
        }
    }
}

/* No engine was found here. That older ones pass over a newer version is not a fault of the file;
 * what today's refuse and older ones load depends on the engine. */
static void judge_all(struct arena *a, const struct cdi_files *files, struct cdi_file *f)
{
    const struct cdi_answer *newest = NULL;
    const char *library = "0";
    bool any = false;
    for (size_t i = 0; i < files->engines.n; i++) {
        any |= !f->answers.items[i].why;
        if (host_version_cmp(files->engines.items[i].library, library) > 0) {
            library = files->engines.items[i].library;
            newest = &f->answers.items[i];
        }
    }
    if (newest && newest->why && !any) {
        fault_add(a, f, CDI_REFUSED, CDI_ERROR,
                  arena_printf(a, "engines refuse it: %s", newest->why));
    } else if (newest && newest->why) {
        fault_add(
            a, f, CDI_REFUSED, CDI_OPEN,
            arena_printf(a,
                         "it depends on the engine, and none was found here: %s load it, today's "
                         "refuse it: %s",
                         cdi_engines_text(a, files, f, NULL), newest->why));
    }
}

void cdi_engines_judge(struct arena *a, const struct cdi_files *files, struct cdi_file *f)
{
    bool installed = false;
    for (size_t i = 0; i < files->engines.n; i++) {
        const struct cdi_engine *e = &files->engines.items[i];
        struct cdi_answer answer = {0};
        bool known = false;
        for (size_t k = 0; k < i && !known; k++) {
            known = strcmp(files->engines.items[k].library, e->library) == 0;
            answer = known ? f->answers.items[k] : answer;
        }
        if (!known) {
            answer.why = cdi_refusal(a, f->document, e->library, &answer.too_new);
        }
        VEC_PUSH(a, &f->answers, answer);
        installed |= e->installed != NULL;
    }
    if (installed) {
        judge_installed(a, files, f);
    } else {
        judge_all(a, files, f);
    }
}
