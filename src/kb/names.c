#include "kb/names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "kb/names_packed.h"

size_t kb_names_count(void)
{
    return kb_n_names_files;
}

const char *kb_names_package(size_t package)
{
    return kb_names_files[package].package;
}

bool kb_names_is_module_of(size_t package, struct str module)
{
    struct str roots = str_of(kb_names_files[package].roots);
    while (roots.s) {
        struct str root = str_cut(&roots, ',');
        if (module.n >= root.n && memcmp(module.s, root.s, root.n) == 0 &&
            (module.n == root.n || module.s[root.n] == '.')) {
            return true;
        }
    }
    return false;
}

/* The embedded bytes are the build's own: what is wrong with them is a mistake of it. */
static struct str part_inflated(struct arena *a, const struct kb_names_part *part)
{
    char *text = arena_alloc(a, part->text_size + 1);
    uLongf n = part->text_size;
    int rc = uncompress((Bytef *)text, &n, part->data, part->size);
    assert(rc == Z_OK && n == part->text_size);
    (void)rc;
    text[n] = '\0';
    return (struct str){text, n};
}

static struct str part_text(struct kb_names *names, size_t package, int part)
{
    if (!names->texts) {
        names->texts =
            arena_array(names->arena, kb_n_names_files * KB_NAMES_PARTS, sizeof *names->texts);
    }
    struct str *text = &names->texts[package * KB_NAMES_PARTS + (size_t)part];
    if (!text->s) {
        *text = part_inflated(names->arena, &kb_names_files[package].parts[part]);
    }
    return *text;
}

/* The lines of a section: behind "\n[TITLE]\n" up to the next title. */
static struct str section_lines(struct arena *a, struct str text, const char *title)
{
    const char *head = arena_printf(a, "\n[%s]\n", title);
    size_t at = str_find(text, head);
    if (at >= text.n) {
        return (struct str){NULL, 0};
    }
    size_t skip = at + strlen(head);
    struct str rest = {text.s + skip, text.n - skip};
    size_t end = str_find(rest, "\n[");
    return (struct str){rest.s, end < rest.n ? end + 1 : rest.n};
}

/* Whether a line of names has this one; *ret_spans: the releases that have those of the line. */
static bool line_has(struct str line, const char *name, struct str *ret_spans)
{
    *ret_spans = str_cut(&line, ' ');
    while (line.s) {
        if (str_is(str_cut(&line, ' '), name)) {
            return true;
        }
    }
    return false;
}

static size_t number_of(struct str text, size_t otherwise)
{
    uint64_t number;
    return text.n && str_u64(text, &number) ? (size_t)number : otherwise;
}

/* "3-7,9-": from the fourth release on up to before the eighth, and from the tenth on; "?3-7": the
 * others may have it too. */
static void spans_read(struct str spans, struct kb_name *to)
{
    to->unsure = str_starts(spans, "?");
    spans.s += to->unsure;
    spans.n -= to->unsure;
    while (spans.s) {
        struct str end = str_cut(&spans, ',');
        struct str begin = str_cut(&end, '-');
        size_t last = number_of(end, to->n);
        for (size_t i = number_of(begin, 0); i < last && i < to->n; i++) {
            to->has[i] = true;
        }
    }
}

static void releases_read(struct arena *a, const struct kb_names_file *file, struct kb_name *to)
{
    struct str rest = str_of(file->releases);
    size_t n = 1;
    for (size_t i = 0; i < rest.n; i++) {
        n += rest.s[i] == ' ';
    }
    to->package = file->package;
    to->releases = arena_array(a, n, sizeof *to->releases);
    to->has = arena_array(a, n, sizeof *to->has);
    while (rest.s) {
        to->releases[to->n++] = str_dup(a, str_cut(&rest, ' '));
    }
}

static bool names_look(struct kb_names *names, size_t package, int part, const char *title,
                       const char *name, struct kb_name *ret)
{
    const struct kb_names_file *file = &kb_names_files[package];
    struct arena *a = names->arena;
    struct str lines = section_lines(a, part_text(names, package, part), title);
    struct str line, spans;
    *ret = (struct kb_name){0};
    while (lines.s && str_line(&lines, &line)) {
        if (line_has(line, name, &spans)) {
            releases_read(a, file, ret);
            spans_read(spans, ret);
            return true;
        }
    }
    return false;
}

bool kb_names_module(struct kb_names *names, size_t package, const char *module,
                     struct kb_name *ret)
{
    return names_look(names, package, KB_NAMES_MODULES, "", module, ret);
}

bool kb_names_in_module(struct kb_names *names, size_t package, const char *module,
                        const char *name, struct kb_name *ret)
{
    return names_look(names, package, KB_NAMES_MODULES, module, name, ret);
}

/* The classes of the package that a class has members from: the line of "[:]" that names it,
 * "SPANS BASE BASE : CLASS CLASS". *ret_spans: the releases that have the class. */
static struct str bases_of(struct kb_names *names, size_t package, const char *of,
                           struct str *ret_spans)
{
    struct str text = part_text(names, package, KB_NAMES_INNER), line, unused;
    struct str lines = section_lines(names->arena, text, ":");
    while (lines.s && str_line(&lines, &line)) {
        struct str bases = {line.s, str_find(line, " : ")};
        struct str classes = {line.s + bases.n, line.n - bases.n};
        *ret_spans = str_cut(&bases, ' ');
        if (line_has(classes, of, &unused)) {
            return bases;
        }
    }
    return (struct str){NULL, 0};
}

/* What a class has from one that it inherits from, in the releases that have the class itself. */
static bool inherited_look(struct kb_names *names, size_t package, const char *of, const char *name,
                           struct kb_name *ret)
{
    struct str spans, bases = bases_of(names, package, of, &spans);
    bool found = false;
    while (bases.s && !found) {
        const char *base = str_dup(names->arena, str_cut(&bases, ' '));
        found = names_look(names, package, KB_NAMES_INNER, arena_printf(names->arena, ":%s", base),
                           name, ret);
    }
    if (!found) {
        return false;
    }
    struct kb_name own = {0};
    bool any = false;
    releases_read(names->arena, &kb_names_files[package], &own);
    spans_read(spans, &own);
    for (size_t i = 0; i < ret->n; i++) {
        ret->has[i] = ret->has[i] && own.has[i];
        any = any || ret->has[i];
    }
    return any;
}

bool kb_names_inside(struct kb_names *names, size_t package, const char *of, const char *name,
                     struct kb_name *ret)
{
    return names_look(names, package, KB_NAMES_INNER, arena_printf(names->arena, ":%s", of), name,
                      ret) ||
           inherited_look(names, package, of, name, ret);
}
