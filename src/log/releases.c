/* Which release of a package has a name that a message misses: what the releases that were read
 * have (kb/names.h), and where in that the installed one is. */
#include <string.h>

#include "kb/names.h"
#include "log/internal.h"
#include "py/requirement.h"
#include "py/version.h"

/* ------------------------------------------------------------------ what the message misses */

/* A message of Python, taken apart. */
struct missed {
    const struct log_fact *fact;
    const char *of;   // module, class or function
    const char *name; // NULL: the module itself
};

static bool ends_with_file(struct str path, const char *module)
{
    size_t n = strlen(module);
    return str_ends(path, ".py") && path.n > n + 3 &&
           memcmp(path.s + path.n - n - 3, module, n) == 0 &&
           strchr("/\\", path.s[path.n - n - 4]) != NULL;
}

/* Whether the message says that something else than the package was imported under its name: a file
 * or an empty folder of somebody's own. */
static bool is_not_the_package(const struct log_fact *f, const char *module)
{
    static const char *const places[] = {"site-packages", "dist-packages"};
    const char *open = strrchr(f->text, '(');
    const char *close = open ? strchr(open, ')') : NULL;
    if (strstr(f->text, "(unknown location)")) {
        return true;
    }
    struct str path = {open ? open + 1 : "", close ? (size_t)(close - open - 1) : 0};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (str_find(path, places[i]) < path.n) {
            return false;
        }
    }
    return !strchr(module, '.') && ends_with_file(path, module);
}

/* "Trainer.__init__()" is the call of the class: "Trainer()". */
static const char *call_name(struct arena *a, const char *function)
{
    const char *init = strstr(function, ".__init__()");
    return init ? arena_printf(a, "%.*s()", (int)(init - function), function) : function;
}

static bool is_argument(const struct missed *x)
{
    return str_ends(str_of(x->of), "()");
}

static bool missed_of(struct arena *a, const struct log_fact *f, struct missed *ret)
{
    const char *package = log_fact_field(f, "package"), *symbol = log_fact_field(f, "symbol");
    const char *function = log_fact_field(f, "function"), *value = log_fact_field(f, "value");
    *ret = (struct missed){.fact = f};
    if (strcmp(f->kind, "python-api-missing") == 0) {
        ret->of = package;
        ret->name = symbol;
    } else if (strcmp(f->kind, "python-module-missing") == 0) {
        ret->of = package;
    } else if (strcmp(f->kind, "python-call-mismatch") == 0 && function && value) {
        ret->of = call_name(a, function);
        ret->name = value;
    }
    return ret->of && (ret->name || strcmp(f->kind, "python-module-missing") == 0) &&
           !is_not_the_package(f, ret->of);
}

/* ------------------------------------------------------------------ which package it is of */

static bool is_of_package(size_t package, const char *text)
{
    return text && (kb_names_is_module_of(package, str_of(text)) ||
                    py_name_eq(str_of(text), str_of(kb_names_package(package))));
}

/* The package whose release a fact states, and that; false: it states none. */
static bool release_stated(const struct log_fact *f, const char **ret_package,
                           const char **ret_version)
{
    bool own = strcmp(f->kind, "python-release") == 0;
    *ret_package = log_fact_field(f, own ? "pip_package" : "package");
    *ret_version = log_fact_field(f, own ? "pip_version" : "version");
    return (own || strcmp(f->kind, "installed") == 0) && *ret_package && *ret_version;
}

/* Whether the text has the package: in a list of packages, or in a path of a traceback. */
static bool is_shown(const struct log_matched *m, size_t package)
{
    const char *name, *version;
    for (size_t i = 0; i < m->n_facts; i++) {
        const struct log_fact *f = m->facts[i];
        if ((release_stated(f, &name, &version) && is_of_package(package, name)) ||
            is_of_package(package, log_fact_field(f, "asker"))) {
            return true;
        }
    }
    return false;
}

/* A name of the module, or a module in it: that can be imported from it in any case, and is an
 * attribute of it only where something has imported it. */
static bool found_in_module(const struct log_matched *m, size_t package, const struct missed *x,
                            struct kb_name *ret)
{
    struct kb_names *names = &m->rules->names;
    struct kb_name module;
    if (!x->name) {
        return kb_names_module(names, package, x->of, ret);
    }
    bool has_name = kb_names_in_module(names, package, x->of, x->name, ret);
    bool has_module =
        kb_names_module(names, package, arena_printf(m->a, "%s.%s", x->of, x->name), &module);
    if (has_module && !has_name) {
        *ret = module;
    }
    for (size_t i = 0; has_module && strstr(x->fact->text, "cannot import") && i < ret->n; i++) {
        ret->has[i] |= module.has[i];
    }
    return has_name || has_module;
}

/* Whether a class or function of this name is hardly anybody's own: "DynamicCache",
 * "Blocks.launch()". */
static bool is_telling(const char *name)
{
    enum { CAPITALS = 2, LETTERS = 8 };
    if (strchr(name, '.')) {
        return true;
    }
    size_t capitals = 0;
    for (const char *c = name; *c; c++) {
        capitals += *c >= 'A' && *c <= 'Z';
    }
    return capitals >= CAPITALS && strlen(name) >= LETTERS;
}

/* A name with the number of its package. */
struct found {
    struct kb_name name;
    size_t package;
};

/* The only package whose class or function of this name has such a name inside. With `shown`, of
 * those that the text has. */
static bool found_inside(const struct log_matched *m, const struct missed *x, bool shown,
                         struct found *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < kb_names_count(); i++) {
        struct found one = {.package = i};
        if ((!shown || is_shown(m, i)) &&
            kb_names_inside(&m->rules->names, i, x->of, x->name, &one.name)) {
            *ret = one;
            n++;
        }
    }
    return n == 1;
}

/* Whether the first part is a module of a package; *ret is the name if one has it. */
static bool found_of_module(const struct log_matched *m, const struct missed *x, struct found *ret,
                            bool *ret_found)
{
    bool is_module = false;
    *ret_found = false;
    for (size_t i = 0; i < kb_names_count() && !*ret_found; i++) {
        if (kb_names_is_module_of(i, str_of(x->of))) {
            is_module = true;
            ret->package = i;
            *ret_found = found_in_module(m, i, x, &ret->name);
        }
    }
    return is_module;
}

/* By the name of a module, which is a package's own, or with `inside` by that of a class or
 * function, which may be somebody else's too. */
static bool found_anywhere(const struct log_matched *m, const struct missed *x, bool inside,
                           struct found *ret)
{
    bool found;
    bool is_module = found_of_module(m, x, ret, &found);
    if (!inside) {
        return found;
    }
    return !is_module && x->name &&
           (found_inside(m, x, true, ret) || (is_telling(x->of) && found_inside(m, x, false, ret)));
}

/* ------------------------------------------------------------------ where the installed release is
 */

/* The release of the package that the text shows; NULL: none, or several. */
static const char *version_shown(const struct log_matched *m, size_t package)
{
    const char *found = NULL;
    for (size_t i = 0; i < m->n_facts; i++) {
        const char *name, *version;
        struct py_version parsed;
        if (!release_stated(m->facts[i], &name, &version) || !is_of_package(package, name) ||
            !py_version_parse(str_of(version), &parsed)) {
            continue;
        }
        if (found && strcmp(found, version) != 0) {
            return NULL;
        }
        found = version;
    }
    return found;
}

static bool is_of_minor(const struct kb_name *name, size_t at, const struct py_version *v)
{
    struct py_version one;
    return at < name->n && py_version_parse(str_of(name->releases[at]), &one) &&
           one.n_release > 1 && v->n_release > 1 && one.release[0] == v->release[0] &&
           one.release[1] == v->release[1];
}

/* How many of the releases that were read are not newer than this. The only one of a minor release
 * stands for each patch of it. */
static size_t releases_up_to(const struct kb_name *name, const char *version)
{
    struct py_version have, one;
    size_t n = 0;
    if (!py_version_parse(str_of(version), &have)) {
        return 0;
    }
    while (n < name->n && py_version_parse(str_of(name->releases[n]), &one) &&
           py_version_cmp(&one, &have) <= 0) {
        n++;
    }
    bool stands = is_of_minor(name, n, &have) && !is_of_minor(name, n + 1, &have) &&
                  !(n && is_of_minor(name, n - 1, &have));
    return n + stands;
}

/* Releases in a row that have the name: from `first` on up to before `end`. */
struct span {
    size_t first, end;
};

static struct span span_from(const struct kb_name *name, size_t at)
{
    struct span s = {at, at};
    while (s.first < name->n && !name->has[s.first]) {
        s.first++;
    }
    for (s.end = s.first; s.end < name->n && name->has[s.end]; s.end++) {
    }
    return s;
}

/* The last before release `at`; false: there is none. */
static bool span_before(const struct kb_name *name, size_t at, struct span *ret)
{
    bool found = false;
    for (struct span s = span_from(name, 0); s.first < at && s.first < s.end;
         s = span_from(name, s.end)) {
        *ret = s;
        found = true;
    }
    return found;
}

enum way { WAY_EARLIER, WAY_LATER, WAY_BETWEEN };

/* Which releases to go to. */
static bool span_chosen(const struct kb_name *name, const char *version, struct span *ret,
                        enum way *ret_way)
{
    size_t known = version ? releases_up_to(name, version) : 0;
    if (version) {
        struct span later = span_from(name, known), before;
        bool is_before = span_before(name, known, &before);
        if (known && name->has[known - 1]) {
            return false; // the text contradicts itself, or the package is damaged
        }
        bool is_later = later.first < later.end && (later.end == name->n || !is_before);
        *ret_way = is_later ? WAY_LATER : WAY_EARLIER;
        *ret = is_later ? later : before;
        return is_later || is_before;
    }
    if (!span_before(name, name->n, ret)) {
        return false;
    }
    *ret_way = ret->end == name->n ? WAY_LATER : ret->first == 0 ? WAY_EARLIER : WAY_BETWEEN;
    return true;
}

/* ------------------------------------------------------------------ words */

/* Whether two releases that were read are of one minor release. */
static bool is_same_minor(const struct kb_name *name, size_t one, size_t other)
{
    struct py_version a;
    return one < name->n && py_version_parse(str_of(name->releases[one]), &a) &&
           is_of_minor(name, other, &a);
}

/* "4.48.3" -> "4.48": where the last patch of a minor release was read, it stands for all of it.
 * "5.0.1" -> "5". */
static const char *bound_of(struct arena *a, const struct kb_name *name, size_t at)
{
    struct py_version v;
    if (is_same_minor(name, at, at - 1) || is_same_minor(name, at, at + 1) ||
        !py_version_parse(str_of(name->releases[at]), &v) || v.n_release < 2) {
        return name->releases[at];
    }
    unsigned long long major = v.release[0], minor = v.release[1];
    return major && !minor ? arena_printf(a, "%llu", major)
                           : arena_printf(a, "%llu.%llu", major, minor);
}

/* "4.49.0 has it, 4.50.3 does not", of the releases around the span. Of a name that may come in
 * other ways only what the files show: "4.49.0 has it". */
static const char *history_of(struct arena *a, const struct kb_name *name, struct span s,
                              bool argument)
{
    const char *first = name->releases[s.first], *last = name->releases[s.end - 1];
    const char *before = s.first && !name->unsure ? name->releases[s.first - 1] : NULL;
    const char *after = s.end < name->n && !name->unsure ? name->releases[s.end] : NULL;
    const char *span = s.end == name->n      ? arena_printf(a, "%s and later", first)
                       : s.first == 0        ? last
                       : s.end - s.first > 1 ? arena_printf(a, "%s to %s", first, last)
                                             : first;
    bool several = s.end == name->n || (s.first && s.end - s.first > 1);
    const char *verb = argument ? several ? "name" : "names" : several ? "have" : "has";
    const char *lack = before && after ? arena_printf(a, "; %s and %s do not", before, after)
                       : before        ? arena_printf(a, "; %s does not", before)
                       : after         ? arena_printf(a, "; %s does not", after)
                                       : "";
    return arena_printf(a, "%s %s %s it%s", name->package, span, verb, lack);
}

/* "transformers>=4.31,<4.48" */
static const char *pin_of(struct arena *a, const struct kb_name *name, struct span s, enum way way)
{
    bool with_cuda = way == WAY_LATER && s.end == name->n && strcmp(name->package, "jax") == 0;
    const char *from =
        s.first && way != WAY_EARLIER ? arena_printf(a, ">=%s", bound_of(a, name, s.first)) : "";
    const char *below = s.end < name->n ? arena_printf(a, "<%s", bound_of(a, name, s.end)) : "";
    return arena_printf(a, "\"%s%s%s%s%s\"", name->package, with_cuda ? "[cuda12]" : "", from,
                        *from && *below ? "," : "", below);
}

static bool shows_package(const struct log_matched *m, const char *package)
{
    bool shown = false;
    for (size_t i = 0; i < kb_names_count() && !shown; i++) {
        shown = strcmp(kb_names_package(i), package) == 0 && is_shown(m, i);
    }
    return shown;
}

/* What has to move along, as its releases are made for one of the package. torchaudio asks for its
 * torch up to 2.8 alone: without a bound, pip takes the newest for any torch, 2.11.0 for 2.8.0. */
static const char *along_of(const struct log_matched *m, const struct kb_name *name, struct span s)
{
    const char *below = s.end < name->n ? bound_of(m->a, name, s.end) : NULL;
    if (strcmp(name->package, "torchaudio") == 0) {
        return " torch torchvision";
    }
    if (strcmp(name->package, "torchvision") == 0) {
        return " torch";
    }
    if (strcmp(name->package, "torch") == 0) {
        return below ? arena_printf(m->a, " torchvision \"torchaudio<%s\"", below)
               : shows_package(m, "torchaudio") ? " torchvision torchaudio"
                                                : " torchvision";
    }
    return strcmp(name->package, "jax") == 0 && below ? arena_printf(m->a, " \"jaxlib<%s\"", below)
                                                      : "";
}

/* ------------------------------------------------------------------ the answer */

struct log_release {
    const struct log_fact *fact;
    const char *package, *name, *history, *pin, *along, *way, *asker;
};

/* The package whose file is the last of the traceback before the message. */
static const char *asker_of(const struct log_matched *m, const struct log_fact *fact,
                            const char *package)
{
    enum { LINES_OF_FRAME = 4 }; // the frame, its code, marks below that, the message
    const char *found = NULL;
    for (size_t i = 0; i < m->n_facts; i++) {
        const struct log_fact *f = m->facts[i];
        const char *asker = log_fact_field(f, "asker");
        bool is_last = asker && f->place < fact->place && fact->place - f->place <= LINES_OF_FRAME;
        found = is_last ? asker : found;
    }
    for (size_t i = 0; found && i < kb_names_count(); i++) {
        if (kb_names_is_module_of(i, str_of(found))) {
            const char *name = kb_names_package(i);
            return strcmp(name, package) == 0 ? NULL : name;
        }
    }
    return NULL;
}

/* What is missing, as a sentence names it. */
static const char *missed_text(struct arena *a, const struct missed *x)
{
    if (!x->name) {
        return arena_printf(a, "the module %s", x->of);
    }
    return is_argument(x) ? arena_printf(a, "the argument %s of %s", x->name, x->of)
                          : arena_printf(a, "%s.%s", x->of, x->name);
}

static const struct log_release *release_of(const struct log_matched *m, const struct missed *x,
                                            bool inside)
{
    static const char *const ways[] = {"earlier", "later", "between"};
    struct found found;
    struct span span;
    enum way way;
    if (!found_anywhere(m, x, inside, &found) ||
        !span_chosen(&found.name, version_shown(m, found.package), &span, &way)) {
        return NULL;
    }
    struct log_release *r = arena_alloc(m->a, sizeof *r);
    *r = (struct log_release){
        .fact = x->fact,
        .package = found.name.package,
        .name = missed_text(m->a, x),
        .history = history_of(m->a, &found.name, span, is_argument(x)),
        .pin = pin_of(m->a, &found.name, span, way),
        .along = along_of(m, &found.name, span),
        .way = ways[way],
        .asker = asker_of(m, x->fact, found.name.package),
    };
    return r;
}

bool log_release_find(struct log_matched *m, bool inside)
{
    size_t looked = 0;
    for (size_t i = 0; i < m->n_facts && !m->release && looked < LOG_MISSED_MAX; i++) {
        struct missed x;
        if (missed_of(m->a, m->facts[i], &x)) {
            m->release = release_of(m, &x, inside);
            looked++;
        }
    }
    return m->release != NULL;
}

const struct log_fact *log_release_fact(const struct log_release *r)
{
    return r->fact;
}

bool log_is_release_field(struct str field)
{
    return str_starts(field, "release_");
}

const char *log_release_field(const struct log_release *r, struct str field)
{
    if (!r) {
        return NULL;
    }
    const struct {
        const char *name, *value;
    } fields[] = {
        {"release_package", r->package}, {"release_name", r->name},
        {"release_history", r->history}, {"release_pin", r->pin},
        {"release_along", r->along},     {"release_way", r->way},
        {"release_asker", r->asker},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (str_is(field, fields[i].name)) {
            return fields[i].value;
        }
    }
    return NULL;
}
