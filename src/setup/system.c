/* What a plan needs of the system's own packages: a compiler, programs that the application starts,
 * and a ROCm that is there already. */
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "host/manager.h"
#include "kb/package.h"
#include "setup/internal.h"

/* ------------------------------------------------------------------ by the system's manager */

/* What the system's own manager calls it; NULL: not known, or only others of that manager have it.
 */
static const char *system_package(struct planner *p, const char *id)
{
    const struct host *h = p->m->host;
    const struct kb_provider *v = kb_package_by_id(p->q->kb, id, kb_manager_of(h->manager));
    bool has = v && v->systems.n == 0;
    for (size_t i = 0; v && i < v->systems.n && !has; i++) {
        has = host_is(h, v->systems.items[i]);
    }
    return has ? v->package : NULL;
}

/* The command that installs it. In a container there is no sudo. */
static void system_install(struct planner *p, struct setup_step *s, const char *id)
{
    const struct host_manager_words *w = host_manager_words(p->m->host->manager);
    const char *package = system_package(p, id);
    if (!w || p->plan->windows || !package) {
        return;
    }
    bool inside = setup_is_container(p);
    setup_command_add(p, s,
                      arena_printf(p->a, "%s%s %s", inside ? "" : "sudo ",
                                   inside ? w->build : w->install, package));
}

void setup_compiler_add(struct planner *p, struct setup_step *s)
{
    system_install(p, s, "cxx-compiler");
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
    system_install(p, s, t->name);
    s->why = arena_printf(p->a, "In %s, %s", p->plan->app, t->says);
    s->seen = arena_printf(p->a, "%s -version prints a version.", t->name);
    // The images of --script dockerfile are Debian's.
    const struct kb_provider *debian = kb_package_by_id(p->q->kb, t->name, KB_MANAGER_APT);
    s->image = debian ? arena_printf(p->a,
                                     "apt-get update && apt-get install -y "
                                     "--no-install-recommends %s && rm -rf /var/lib/apt/lists/*",
                                     debian->package)
                      : NULL;
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
