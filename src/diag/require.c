/*
 * What an image asks of the driver by NVIDIA_REQUIRE_*, and whether the host's has it.
 *
 * nvidia-container-cli refuses to start a container whose requirement is not met. Each variable is
 * one: alternatives with blanks between, each of conditions with commas between, `NAME OPERATOR
 * VALUE` without blanks (NVIDIA/libnvidia-container, src/cli/dsl.c; "Specialized Configurations
 * with Docker", Constraints). NVIDIA_DISABLE_REQUIRE drops them all.
 *
 * `cuda` is what the driver says of itself, of which the knowledge base has only which driver each
 * toolkit came with: a driver of an older branch than that has no such CUDA. `arch`, `brand` and
 * what else there may be are unknown, so that an alternative with them is not refused by them.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "diag/internal.h"
#include "host/host.h"
#include "kb/serves.h"
#include "model/target.h"

enum answer { NO, UNKNOWN, YES };

struct condition {
    struct str name, operator, value;
};

static bool condition_read(struct str text, struct condition *ret)
{
    size_t name = 0, end;
    while (name < text.n && !strchr("<>=!", text.s[name])) {
        name++;
    }
    for (end = name; end < text.n && strchr("<>=!", text.s[end]);) {
        end++;
    }
    *ret = (struct condition){
        {text.s, name}, {text.s + name, end - name}, {text.s + end, text.n - end}};
    return name && end > name && end < text.n;
}

static enum answer compared(int order, struct str operator)
{
    bool holds = str_is(operator, "=")    ? order == 0
                 : str_is(operator, "!=") ? order != 0
                 : str_is(operator, "<")  ? order < 0
                 : str_is(operator, "<=") ? order <= 0
                 : str_is(operator, ">")  ? order > 0
                                          : order >= 0;
    return holds ? YES : NO;
}

/* The driver that the first toolkit of a CUDA ("12.6") came with. */
static const struct kb_driver *first_with(struct diag *d, const struct kb_drivers *drivers,
                                          struct str cuda)
{
    const struct kb_driver *first = NULL;
    const char *wanted = arena_printf(d->a, "%.*s.", (int)cuda.n, cuda.s);
    for (size_t i = 0; i < drivers->n; i++) {
        const struct kb_driver *row = &drivers->rows[i];
        bool is = kb_driver_has_cuda(row) &&
                  (str_is(cuda, row->cuda) || strncmp(row->cuda, wanted, strlen(wanted)) == 0);
        if (is && (!first || host_version_cmp(row->linux_min, first->linux_min) < 0)) {
            first = row;
        }
    }
    return first;
}

static enum answer of_cuda(struct diag *d, const struct condition *c, const char *driver)
{
    struct kb_drivers drivers;
    struct gm_err err;
    bool least = str_is(c->operator, ">=") || str_is(c->operator, ">");
    if (!least || kb_drivers(d->m->kb, &drivers, &err) < 0) {
        return UNKNOWN;
    }
    const struct kb_driver *first = first_with(d, &drivers, c->value);
    if (!first) {
        return UNKNOWN;
    }
    if (host_version_cmp(driver, first->linux_min) >= 0 && str_is(c->operator, ">=")) {
        return YES;
    }
    return atoi(driver) < atoi(first->linux_min) ? NO : UNKNOWN;
}

static enum answer of_condition(struct diag *d, struct str text, const char *driver)
{
    struct condition c;
    if (!condition_read(text, &c)) {
        return UNKNOWN;
    }
    if (str_is(c.name, "driver")) {
        return compared(host_version_cmp(driver, str_dup(d->a, c.value)), c.operator);
    }
    return str_is(c.name, "cuda") ? of_cuda(d, &c, driver) : UNKNOWN;
}

static enum answer of_requirement(struct diag *d, const char *text, const char *driver)
{
    struct str rest = str_of(text);
    enum answer best = NO;
    bool any = false;
    while (rest.n) {
        struct str one = str_cut(&rest, ' ');
        enum answer all = YES;
        any |= one.n > 0;
        for (struct str left = one; left.n;) {
            struct str condition = str_cut(&left, ',');
            enum answer now = condition.n ? of_condition(d, condition, driver) : YES;
            all = now < all ? now : all;
        }
        best = one.n && all > best ? all : best;
    }
    return any ? best : YES;
}

static bool is_dropped(const struct diag *d)
{
    const char *value = diag_getenv(d, "NVIDIA_DISABLE_REQUIRE");
    return value && (strcmp(value, "1") == 0 || strcasecmp(value, "true") == 0 ||
                     strcasecmp(value, "t") == 0);
}

static void say_unmet(struct diag *d, const char *variable, const char *driver)
{
    struct diag_finding *f =
        diag_add(d, DIAG_DRIVER_OLD_IMAGE, "image", variable,
                 arena_printf(d->a,
                              "The image requires another driver than the host's %s, and NVIDIA's "
                              "Container Toolkit refuses to start it.",
                              driver));
    f->severity = DIAG_WARNING;
    f->stage = DIAG_STAGE_MACHINE;
    diag_evidence(d, f, "the image sets %s", variable);
    diag_evidence(d, f,
                  "docker run --gpus checks it; an engine that uses a CDI specification does not");
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Use a build of the image for a CUDA release that the driver supports, or install "
                "a driver that the image asks for.");
    diag_repair(d, f, DIAG_REPAIR_TEXT,
                "docker run --gpus all -e NVIDIA_DISABLE_REQUIRE=true IMAGE",
                "Start it without the check, at your own risk: what the driver lacks, the "
                "programs lack.");
}

void diag_image_requires(struct diag *d)
{
    static const char prefix[] = "NVIDIA_REQUIRE_";
    const char *driver = diag_driver(d);
    if (!driver || is_dropped(d)) {
        return;
    }
    for (size_t i = 0; i < d->m->config.n_env; i++) {
        const char *variable = d->m->config.env[i], *value = strchr(variable, '=');
        if (value && strncmp(variable, prefix, sizeof prefix - 1) == 0 &&
            of_requirement(d, value + 1, driver) == NO) {
            say_unmet(d, variable, driver);
        }
    }
}
