/* An environment that exists beside the plan: what is kept, what would change, what that breaks. */
#include <string.h>

#include "model/requires.h"
#include "py/dist.h"
#include "setup/internal.h"

enum { BROKEN_MAX = 20 };

const char *setup_version_there(const struct setup_question *q, const char *package)
{
    const struct py_dist *d = q->there ? py_env_by_dist(q->there->env, package) : NULL;
    return d ? d->version : NULL;
}

/* The part before the label of a build: "2.9.1" of "2.9.1+cu128". */
static struct str public_of(const char *version)
{
    struct str rest = str_of(version);
    return str_cut(&rest, '+');
}

/* The label that the pinned wheel has: its own; that of the index that it comes from, which is not
 * written where that index has one build of each; else that of the build, which in the plain index
 * only the knowledge base has. What goes with torch is built as torch is. NULL: not known. */
static const char *label_of(const struct planner *p, const struct setup_pin *pin)
{
    const struct setup_pins *pins = &p->plan->pins;
    const char *own = strchr(pin->version, '+');
    bool indexed = setup_is_elsewhere(p, pin) && !setup_is_attached_pin(p, pin);
    bool of_torch = pins->build && strcmp(pins->build->package, "torch") == 0;
    return own                       ? own + 1
           : indexed                 ? pins->index
           : pin->build || !of_torch ? pin->build
                                     : pins->build->build;
}

/* Without a label it is the build of the plain index; on the CPU that does, too. */
static bool same_release(const struct planner *p, const struct setup_pin *pin, const char *have)
{
    const char *own = strchr(have, '+'), *label = label_of(p, pin);
    if (!str_eq(public_of(have), public_of(pin->version))) {
        return false;
    }
    bool xpu = p->plan->other == SETUP_OTHER_XPU && setup_is_elsewhere(p, pin);
    return own ? label && strcmp(own + 1, label) == 0 : !strchr(pin->version, '+') && !xpu;
}

bool setup_is_kept(const struct planner *p, const struct setup_pin *pin)
{
    const char *have = setup_version_there(p->q, pin->package);
    return have && same_release(p, pin, have);
}

bool setup_is_other_build(const struct planner *p, const struct setup_pin *pin)
{
    const char *have = p->plan->there ? setup_version_there(p->q, pin->package) : NULL;
    return have && !strchr(pin->version, '+') && !same_release(p, pin, have) &&
           str_eq(public_of(have), public_of(pin->version));
}

static const struct setup_difference *changed(const struct planner *p, struct str name)
{
    for (size_t i = 0; i < p->plan->differences.n; i++) {
        const struct setup_difference *d = &p->plan->differences.items[i];
        if (!d->is_kept && py_name_eq(name, str_of(d->pin->package))) {
            return d;
        }
    }
    return NULL;
}

/* What a distribution that stays declares, and would no longer have. */
static void add_broken(struct planner *p, struct py_dist *dist, const struct py_marker_env *markers)
{
    const struct py_metadata *meta = py_dist_metadata(p->q->there->env, dist);
    for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
        struct py_requirement r;
        struct gm_err err;
        if (py_requirement_parse(p->a, meta->requires_dist[i], &r, &err) < 0 ||
            py_marker_eval(p->a, r.marker, markers) != PY_YES) {
            continue;
        }
        const struct setup_difference *d = changed(p, r.name);
        if (!d || py_specifiers_match(&r.specifiers, str_of(d->pin->version)) != PY_NO) {
            continue;
        }
        if (p->plan->broken.n == BROKEN_MAX) {
            p->plan->n_more_broken++;
        } else {
            VEC_PUSH(p->a, &p->plan->broken,
                     arena_printf(p->a, "%s %s needs " STR_FMT ", and the plan has %s", dist->name,
                                  dist->version ? dist->version : "",
                                  STR_ARG(str_trim(meta->requires_dist[i])), d->pin->version));
        }
    }
}

static bool is_pinned(const struct planner *p, const char *name)
{
    for (size_t i = 0; i < p->plan->differences.n; i++) {
        if (py_name_eq(str_of(p->plan->differences.items[i].pin->package), str_of(name))) {
            return true;
        }
    }
    return false;
}

void setup_compare(struct planner *p)
{
    struct py_env *env = p->q->there->env;
    p->plan->there = env->prefix;
    for (size_t i = 0; i < p->plan->pins.items.n; i++) {
        const struct setup_pin *pin = &p->plan->pins.items.items[i];
        const struct setup_difference d = {.pin = pin,
                                           .have = setup_version_there(p->q, pin->package),
                                           .is_kept = setup_is_kept(p, pin)};
        VEC_PUSH(p->a, &p->plan->differences, d);
    }
    const struct py_marker_env markers = model_markers(p->q->there);
    for (size_t i = 0; i < env->n_dists; i++) {
        struct py_dist *dist = &env->dists[i];
        if (dist->shadowed_by) {
            continue;
        }
        bool pinned = is_pinned(p, dist->name);
        p->plan->n_others += !pinned;
        if (!pinned || !changed(p, str_of(dist->name))) {
            add_broken(p, dist, &markers);
        }
    }
}
