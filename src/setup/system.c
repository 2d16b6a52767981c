/* What a plan needs of the system's own packages: a compiler, programs that the application starts,
 * and a ROCm that is there already. */
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "host/manager.h"
#include "setup/internal.h"

/* ------------------------------------------------------------------ by the distribution's manager
 */

/* g++ and gcc-c++ bring the C compiler: BUILDING.md of Node.js, "Unix prerequisites". */
static const char *const compilers[HOST_MANAGERS] = {
    [HOST_APT] = "g++",     [HOST_DNF] = "gcc-c++",    [HOST_MICRODNF] = "gcc-c++",
    [HOST_YUM] = "gcc-c++", [HOST_ZYPPER] = "gcc-c++", [HOST_PACMAN] = "gcc",
};

/* README.md of openai/whisper, "Setup"; Fedora's by packages.fedoraproject.org, ffmpeg-free. */
static const char *const ffmpegs[HOST_MANAGERS] = {
    [HOST_APT] = "ffmpeg",
    [HOST_DNF] = "ffmpeg-free",
    [HOST_PACMAN] = "ffmpeg",
};

/* Only Fedora has ffmpeg-free in its own repositories. */
static bool has_package(const struct host *h, const char *package)
{
    return package && (strcmp(package, "ffmpeg-free") != 0 || host_is(h, "fedora"));
}

/* The command that installs the system's package of the machine's manager. In a container there is
 * no sudo. */
static void system_install(struct planner *p, struct setup_step *s, const char *const *packages)
{
    const struct host *h = p->m->host;
    const struct host_manager_words *w = host_manager_words(h->manager);
    if (!w || p->plan->windows || !has_package(h, packages[h->manager])) {
        return;
    }
    bool inside = setup_is_container(p);
    setup_command_add(p, s,
                      arena_printf(p->a, "%s%s %s", inside ? "" : "sudo ",
                                   inside ? w->build : w->install, packages[h->manager]));
}

void setup_compiler_add(struct planner *p, struct setup_step *s)
{
    system_install(p, s, compilers);
}

/* ------------------------------------------------------------------ programs */

static const struct kb_trait *program_of(const struct planner *p)
{
    for (size_t i = 0; i < p->traits.n; i++) {
        const struct kb_trait *t = &p->traits.rows[i];
        if (t->kind == KB_TRAIT_PROGRAM && t->has &&
            strcmp(t->package, p->plan->row->package) == 0) {
            return t;
        }
    }
    return NULL;
}

static bool has_program(const struct planner *p, const char *name)
{
    static const char *const folders[] = {"/usr/bin/", "/usr/local/bin/"};
    struct stat st;
    for (size_t i = 0; p->m->root && i < sizeof folders / sizeof *folders; i++) {
        if (root_stat(p->m->root, str_concat(p->a, folders[i], name, ""), &st) == 0) {
            return true;
        }
    }
    return false;
}

const char *setup_uv_text(const struct planner *p)
{
    return !p->q->image && has_program(p, "uv")
               ? ""
               : " uv itself: https://docs.astral.sh/uv/getting-started/installation";
}

void setup_program_step(struct planner *p)
{
    const struct kb_trait *t = program_of(p);
    if (!t || (!p->q->image && has_program(p, t->name))) {
        return;
    }
    struct setup_step *s =
        setup_step_new(p, SETUP_RUNTIME, arena_printf(p->a, "Install %s", t->name));
    if (strcmp(t->name, "ffmpeg") == 0) {
        system_install(p, s, ffmpegs);
    }
    s->why = arena_printf(p->a, "In %s, %s", p->plan->app, t->says);
    s->seen = arena_printf(p->a, "%s -version prints a version.", t->name);
    // The images of --script dockerfile are Debian's.
    s->image = arena_printf(p->a,
                            "apt-get update && apt-get install -y --no-install-recommends %s "
                            "&& rm -rf /var/lib/apt/lists/*",
                            t->name);
    s->to_do = true;
}

/* ------------------------------------------------------------------ ROCm */

const struct host_rocm *setup_rocm_there(const struct planner *p, const char *wanted)
{
    const struct host *h = p->m->host;
    size_t n = strlen(wanted);
    for (size_t i = 0; i < h->amd.rocm.n; i++) {
        const struct host_rocm *one = &h->amd.rocm.items[i];
        if (one->version && strncmp(one->version, wanted, n) == 0 &&
            (!n || one->version[n] == '.' || !one->version[n])) {
            return one;
        }
    }
    return NULL;
}
