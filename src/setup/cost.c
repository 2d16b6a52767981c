/* What the steps of a plan cost: how much they download, and what else of it is known. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "setup/internal.h"

/* ------------------------------------------------------------------ sizes */

static const struct kb_size *size_row(const struct planner *p, const char *package)
{
    for (size_t i = 0; i < p->sizes.n; i++) {
        if (strcmp(p->sizes.rows[i].package, package) == 0) {
            return &p->sizes.rows[i];
        }
    }
    return NULL;
}

/* Of "2.15.0 linux-x86-64 530123456", the number, if the words before it are those. */
static uint64_t bytes_behind(const char *entry, const char *begins)
{
    size_t n = strlen(begins);
    return strncmp(entry, begins, n) == 0 && entry[n] == ' ' ? strtoull(entry + n + 1, NULL, 10)
                                                             : 0;
}

/* Of one wheel; 0: not known, such as what the package index does not serve. */
static uint64_t wheel_bytes(const struct planner *p, const struct setup_pin *pin)
{
    const struct kb_size *row = setup_is_elsewhere(p, pin) ? NULL : size_row(p, pin->package);
    const char *const platforms[] = {p->m->platform, "any", "source"};
    for (size_t k = 0; row && k < 3; k++) {
        const char *begins = arena_printf(p->a, "%s %s", pin->version, platforms[k]);
        for (size_t i = 0; i < row->wheels.n; i++) {
            uint64_t bytes = bytes_behind(row->wheels.items[i], begins);
            if (bytes) {
                return bytes;
            }
        }
    }
    return 0;
}

/* Of all that a plan like this one brought when it was resolved; 0: it was not. */
static uint64_t whole_bytes(const struct planner *p, unsigned long *ret_files)
{
    const struct setup_pin *own = &p->plan->pins.items.items[0];
    bool all = !p->plan->pins.index && !setup_is_attached(p);
    const struct kb_size *row = all ? size_row(p, own->package) : NULL;
    const char *begins = arena_printf(p->a, "%s %s %s %s", own->version, p->m->platform,
                                      setup_device_name(p->plan), p->plan->pins.python);
    for (size_t i = 0; row && i < row->totals.n; i++) {
        uint64_t bytes = bytes_behind(row->totals.items[i], begins);
        const char *last = strrchr(row->totals.items[i], ' ');
        if (bytes && last) {
            *ret_files = strtoul(last + 1, NULL, 10);
            return bytes;
        }
    }
    return 0;
}

static const char *bytes_text(struct arena *a, uint64_t bytes)
{
    return bytes >= 950000000 ? arena_printf(a, "%.1f GB", (double)bytes / 1e9)
                              : arena_printf(a, "%.0f MB", (double)(bytes + 999999) / 1e6);
}

/* ------------------------------------------------------------------ the packages */

/* The largest of the named packages: "torch 0.9 GB, nvidia-cudnn-cu13 420 MB". */
static const char *largest_text(const struct planner *p, const bool *counts)
{
    const char *text = "";
    uint64_t below = UINT64_MAX;
    for (size_t k = 0; k < 3; k++) {
        uint64_t best = 0;
        const struct setup_pin *one = NULL;
        for (size_t i = 0; i < p->plan->pins.items.n; i++) {
            uint64_t bytes = counts[i] ? wheel_bytes(p, &p->plan->pins.items.items[i]) : 0;
            if (bytes > best && bytes < below) {
                best = bytes;
                one = &p->plan->pins.items.items[i];
            }
        }
        if (!one || (k && best < 30000000)) {
            return text;
        }
        text = arena_printf(p->a, "%s%s%s %s", text, k ? ", " : "", one->package,
                            bytes_text(p->a, best));
        below = best;
    }
    return text;
}

void setup_packages_cost(struct planner *p, struct setup_step *s, const bool *counts)
{
    const struct setup_pins *pins = &p->plan->pins;
    uint64_t sum = 0;
    unsigned long files = 0;
    size_t named = 0, unknown = 0;
    for (size_t i = 0; i < pins->items.n; i++) {
        uint64_t bytes = counts[i] ? wheel_bytes(p, &pins->items.items[i]) : 0;
        sum += bytes;
        named += counts[i];
        unknown += counts[i] && !bytes;
    }
    // What a new environment brings is known as a whole; of an existing one only what it lacks is.
    uint64_t whole = p->plan->there || p->plan->source ? 0 : whole_bytes(p, &files);
    const char *largest = largest_text(p, counts);
    if (!named || (!whole && !sum)) {
        s->cost = named
                      ? "Downloads wheels of another index than the package index; how large they "
                        "are is not known here."
                      : NULL;
        return;
    }
    s->download_bytes = whole;
    s->cost =
        whole ? arena_printf(p->a, "Downloads %s in %lu files%s%s.", bytes_text(p->a, whole), files,
                             *largest ? ", of which " : "", largest)
              : arena_printf(p->a, "Downloads at least %s (%s)%s, and their other dependencies.",
                             bytes_text(p->a, sum), largest,
                             unknown ? ", packages of a size that is not known here" : "");
}
