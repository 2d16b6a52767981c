#include "report/devices_probe.h"

#include <stddef.h>
#include <string.h>

#include "base/str.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* AMD's first, so that a machine of NVIDIA alone takes what is behind them. */
static const char *const stages[] = {"hip-device", "driver-version", "attributes", "memory-free",
                                     "nvml"};
enum { AMD_STAGES = 1 };

const char *const *report_devices_stages(const struct host *h, size_t *ret_n)
{
    bool amd = false, nvidia = false;
    for (size_t i = 0; i < h->gpus.n; i++) {
        amd |= h->gpus.items[i].vendor == HOST_AMD;
        nvidia |= h->gpus.items[i].vendor == HOST_NVIDIA;
    }
    nvidia |= !amd; // of a GPU that no file shows, NVIDIA's driver may know
    *ret_n = (nvidia ? COUNT(stages) - AMD_STAGES : 0) + (amd ? AMD_STAGES : 0);
    return amd ? stages : stages + AMD_STAGES;
}

/* What is known of one device, each a text of the stages; NULL: not known. */
struct seen {
    const char *name, *pci, *unused, *total, *mode, *processes, *problem;
};

static const char *fact_of(const struct probe_report *r, const char *key)
{
    for (size_t i = 0; i < r->runs.n; i++) {
        const char *value = probe_fact(&r->runs.items[i].facts, key);
        if (value) {
            return value;
        }
    }
    return NULL;
}

static const char *device_fact(struct arena *a, const struct probe_report *r,
                               enum probe_vendor vendor, int device, const char *what)
{
    const char *key = arena_printf(a, "device.%d.%s", device, what);
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        bool hidden = run->stage->all_devices; // it counts those that variables hide as well
        const char *value =
            run->stage->vendor == vendor && !hidden ? probe_fact(&run->facts, key) : NULL;
        if (value) {
            return value;
        }
    }
    return NULL;
}

static void take_run(const struct probe_run *run, struct seen *s)
{
    static const struct {
        const char *key;
        size_t at;
    } facts[] = {{"name", offsetof(struct seen, name)},
                 {"memory.free.mib", offsetof(struct seen, unused)},
                 {"memory.total.mib", offsetof(struct seen, total)},
                 {"compute.mode", offsetof(struct seen, mode)}};
    for (size_t i = 0; i < COUNT(facts); i++) {
        const char *value = probe_fact(&run->facts, facts[i].key);
        const char **to = (const char **)(void *)((char *)s + facts[i].at);
        *to = value ? value : *to;
    }
    bool bad = run->outcome != PROBE_PASSED && run->outcome != PROBE_NOT_RUN;
    s->problem = bad && !s->problem ? run->says : s->problem;
}

static struct seen device_seen(struct arena *a, const struct probe_report *r,
                               enum probe_vendor vendor, int device)
{
    struct seen s = {.name = NULL};
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        if (run->stage->vendor == vendor && run->device == device) {
            take_run(run, &s);
        }
    }
    const char *name = device_fact(a, r, vendor, device, "name");
    s.name = s.name ? s.name : name;
    s.pci = device_fact(a, r, vendor, device, "pci");
    s.processes = s.pci ? fact_of(r, arena_printf(a, "processes.%s", s.pci)) : NULL;
    return s;
}

/* How many devices of a vendor a stage was run for. */
static int device_count(const struct probe_report *r, enum probe_vendor vendor)
{
    int last = -1;
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        last = run->stage->vendor == vendor && run->device > last ? run->device : last;
    }
    return last + 1;
}

size_t report_devices_probe_count(const struct probe_report *r)
{
    return (size_t)(device_count(r, PROBE_NVIDIA) + device_count(r, PROBE_AMD));
}

/* ------------------------------------------------------------------ text */

static void paragraph(const struct out *o, struct arena *a, const char *text)
{
    out_wrap(o, 0, str_printable(a, text));
}

/* "1234 (512 MiB), 99": the pairs of the helper, PID and MiB or "-". */
static const char *processes_text(struct arena *a, const char *processes)
{
    const char *text = "";
    struct str rest = str_of(processes);
    while (rest.s && rest.n > 0) {
        struct str pair = str_cut(&rest, ',');
        struct str pid = str_cut(&pair, ' ');
        const char *memory =
            pair.n > 0 && !str_is(pair, "-") ? arena_printf(a, " (%s MiB)", str_dup(a, pair)) : "";
        text = arena_printf(a, "%s%s%s%s", text, text[0] ? ", " : "", str_dup(a, pid), memory);
    }
    return text;
}

static void probed_device_text(const struct out *o, struct arena *a, const char *kind, int device,
                               const struct seen *s)
{
    const char *text =
        arena_printf(a, "%s %d%s%s%s%s:", kind, device, s->name ? ", " : "", s->name ? s->name : "",
                     s->pci ? " at " : "", s->pci ? s->pci : "");
    const char *parts[4];
    size_t n = 0;
    if (s->problem) {
        parts[n++] = s->problem;
    }
    if (s->unused && s->total) {
        parts[n++] = arena_printf(a, "%s of %s MiB are free", s->unused, s->total);
    }
    if (s->mode) {
        parts[n++] = arena_printf(a, "compute mode %s", s->mode);
    }
    if (s->processes) {
        parts[n++] = !s->processes[0]
                         ? "no process computes on it"
                         : arena_printf(a, "used by process %s", processes_text(a, s->processes));
    }
    for (size_t i = 0; i < n; i++) {
        text = arena_printf(a, "%s%s %s", text, i ? ";" : "", parts[i]);
    }
    paragraph(o, a, arena_printf(a, "%s%s.", text, n ? "" : " the driver said nothing"));
}

void report_devices_probe_text(const struct out *o, struct arena *a, const struct probe_report *r)
{
    static const struct {
        enum probe_vendor vendor;
        const char *kind;
    } kinds[] = {{PROBE_NVIDIA, "CUDA device"}, {PROBE_AMD, "HIP device"}};
    const char *cuda = fact_of(r, "cuda");
    if (cuda) {
        const char *version = fact_of(r, "driver.version");
        paragraph(o, a,
                  arena_printf(a, "The driver%s%s runs programs up to CUDA %s.", version ? " " : "",
                               version ? version : "", cuda));
    }
    for (size_t i = 0; i < COUNT(kinds); i++) {
        for (int d = 0; d < device_count(r, kinds[i].vendor); d++) {
            struct seen s = device_seen(a, r, kinds[i].vendor, d);
            probed_device_text(o, a, kinds[i].kind, d, &s);
        }
    }
    if (report_devices_probe_count(r) == 0) {
        paragraph(o, a,
                  r->first_failure ? arena_printf(a, "The driver tells nothing more: %s.",
                                                  r->first_failure->says)
                                   : "No driver could be asked.");
    }
}

/* ------------------------------------------------------------------ JSON */

static json_t *number_json(const char *text)
{
    uint64_t n;
    return text && str_u64(str_of(text), &n) ? json_integer((json_int_t)n) : json_null();
}

static json_t *processes_json(struct arena *a, const char *processes)
{
    if (!processes) {
        return json_null();
    }
    json_t *list = json_array();
    struct str rest = str_of(processes);
    while (rest.s && rest.n > 0) {
        struct str pair = str_cut(&rest, ',');
        json_t *o = json_object();
        json_put(o, "pid", number_json(str_dup(a, str_cut(&pair, ' '))));
        json_put(o, "memory_mib", number_json(pair.n > 0 ? str_dup(a, pair) : NULL));
        json_add(list, o);
    }
    return list;
}

static void add_devices(struct arena *a, const struct probe_report *r, enum probe_vendor vendor,
                        json_t *list)
{
    for (int d = 0; d < device_count(r, vendor); d++) {
        struct seen s = device_seen(a, r, vendor, d);
        json_t *o = json_object();
        json_put(o, "vendor", out_json_text(a, vendor == PROBE_AMD ? "amd" : "nvidia"));
        json_put(o, "device", json_integer(d));
        json_put(o, "name", out_json_text(a, s.name));
        json_put(o, "pci", out_json_text(a, s.pci));
        json_put(o, "memory_free_mib", number_json(s.unused));
        json_put(o, "memory_total_mib", number_json(s.total));
        json_put(o, "compute_mode", out_json_text(a, s.mode));
        json_put(o, "processes", processes_json(a, s.processes));
        json_put(o, "problem", out_json_text(a, s.problem));
        json_add(list, o);
    }
}

json_t *report_devices_probe_json(struct arena *a, const struct probe_report *r)
{
    json_t *o = json_object(), *list = json_array();
    json_put(o, "verdict", out_json_text(a, probe_verdict_name(r->verdict)));
    json_put(o, "cuda", out_json_text(a, fact_of(r, "cuda")));
    json_put(o, "driver", out_json_text(a, fact_of(r, "driver.version")));
    json_put(o, "says", out_json_text(a, r->first_failure ? r->first_failure->says : NULL));
    add_devices(a, r, PROBE_NVIDIA, list);
    add_devices(a, r, PROBE_AMD, list);
    json_put(o, "devices", list);
    return o;
}
