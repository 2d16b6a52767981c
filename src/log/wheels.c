/* Which wheel brings a library that a text names (kb/provides.json). */
#include <string.h>

#include "log/internal.h"

static const struct kb_provider *wheel_of(const struct kb_provide *row)
{
    for (size_t i = 0; i < row->n_providers; i++) {
        if (row->providers[i].manager == KB_MANAGER_PIP) {
            return &row->providers[i];
        }
    }
    return NULL;
}

static const struct kb_provider *wheel_for(struct log_rules *r, const char *library)
{
    struct kb_provides provides;
    if (!library || kb_provides(r->kb, &provides, NULL) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < provides.n; i++) {
        const struct kb_provider *wheel =
            str_glob(provides.rows[i].soname, library) ? wheel_of(&provides.rows[i]) : NULL;
        if (wheel) {
            return wheel;
        }
    }
    return NULL;
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

const char *wheel_field(struct log_rules *r, struct arena *a, const char *library, struct str field)
{
    if (!str_starts(field, "wheel")) {
        return NULL;
    }
    const struct kb_provider *wheel = wheel_for(r, library);
    if (!wheel) {
        return NULL;
    }
    if (str_is(field, "wheel")) {
        return requirement(a, wheel, library);
    }
    return str_is(field, "wheel_folder") ? wheel->folder : NULL;
}
