/* The time line of each process: what was asked for, one load after the other. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "report/html_internal.h"

/* More rows than anybody reads; the data has them all. */
enum { ROWS_MAX = 4000 };

/* ------------------------------------------------------------------ where the first one decided */

/* Where a name that an object asks for ended in one of the processes. */
struct ending {
    const char *caller, *name, *path;
};
typedef VEC(struct ending) ending_list;

static int compare_requests(const struct ending *a, const struct ending *b)
{
    int c = strcmp(a->caller, b->caller);
    return c ? c : strcmp(a->name, b->name);
}

static int compare_endings(const void *left, const void *right)
{
    const struct ending *a = left, *b = right;
    int c = compare_requests(a, b);
    return c ? c : strcmp(a->path, b->path);
}

/* All of them, each once, sorted. */
static ending_list endings_of(const struct html *h)
{
    ending_list out = {0};
    for (size_t i = 0; i < html_n_processes(h); i++) {
        const json_t *requests = html_list(html_process(h, i), "requests");
        for (size_t k = 0; k < json_array_size(requests); k++) {
            const json_t *r = json_array_get(requests, k);
            if (html_has(r, "path") && html_has(r, "via")) {
                VEC_PUSH(h->a, &out,
                         ((struct ending){html_member(r, "caller"), html_member(r, "name"),
                                          html_member(r, "path")}));
            }
        }
    }
    if (out.n) {
        qsort(out.items, out.n, sizeof *out.items, compare_endings);
    }
    size_t n = 0;
    for (size_t i = 0; i < out.n; i++) {
        if (n == 0 || compare_endings(&out.items[n - 1], &out.items[i]) != 0) {
            out.items[n++] = out.items[i];
        }
    }
    out.n = n;
    return out;
}

/* Another file that the same request ends at in another process; NULL: none does. */
static const char *other_ending(const ending_list *all, const json_t *request)
{
    struct ending key = {html_member(request, "caller"), html_member(request, "name"),
                         html_member(request, "path")};
    const struct ending *found =
        all->n ? bsearch(&key, all->items, all->n, sizeof key, compare_endings) : NULL;
    if (!found) {
        return NULL;
    }
    const struct ending *end = all->items + all->n;
    return found > all->items && compare_requests(found - 1, &key) == 0 ? found[-1].path
           : found + 1 < end && compare_requests(found + 1, &key) == 0  ? found[1].path
                                                                        : NULL;
}

/* ------------------------------------------------------------------ time line */

/* The requests of one load; those of the start are of load -1, and what `why` asks for comes behind
 * the last load. */
struct span {
    size_t first, n; // in `order`
};

typedef VEC(uint64_t) key_list;

struct timeline {
    const struct html *h;
    key_list *shown; // loads that were written out, of this and of earlier processes
    const ending_list *endings;
    const json_t *process, *requests, *loads;
    size_t *order; // of requests, by load
    struct span *spans;
    size_t rows; // that may still be written
};

static size_t load_of(const struct timeline *t, const json_t *request)
{
    const json_t *load = json_object_get(request, "load");
    size_t n = json_array_size(t->loads);
    json_int_t i = json_integer_value(load);
    return json_is_integer(load) && i >= 0 ? (size_t)i < n ? (size_t)i + 1 : n + 1 : 0;
}

/* By counting: a process has many requests. */
static void sort_requests(struct timeline *t)
{
    size_t n = json_array_size(t->requests), n_spans = json_array_size(t->loads) + 2;
    t->order = arena_array(t->h->a, n + 1, sizeof *t->order);
    t->spans = arena_array(t->h->a, n_spans + 1, sizeof *t->spans);
    for (size_t i = 0; i < n; i++) {
        t->spans[load_of(t, json_array_get(t->requests, i))].n++;
    }
    for (size_t i = 1; i < n_spans; i++) {
        t->spans[i].first = t->spans[i - 1].first + t->spans[i - 1].n;
        t->spans[i - 1].n = 0;
    }
    t->spans[n_spans - 1].n = 0;
    for (size_t i = 0; i < n; i++) {
        struct span *s = &t->spans[load_of(t, json_array_get(t->requests, i))];
        t->order[s->first + s->n++] = i;
    }
}

static bool is_new(const json_t *request)
{
    return strcmp(html_member(request, "outcome"), "loaded") == 0;
}

static bool has_failed(const json_t *request)
{
    const char *outcome = html_member(request, "outcome");
    return strcmp(outcome, "not-found") == 0 || strcmp(outcome, "refused") == 0;
}

static void put_request(struct timeline *t, const json_t *r)
{
    const struct html *h = t->h;
    const json_t *instead = json_object_get(r, "instead_of");
    const char *other = instead ? NULL : other_ending(t->endings, r);
    fputs(has_failed(r) ? "<li class=\"failed\">" : "<li>", h->file);
    fputs("<code>", h->file);
    html_path(h, html_has(r, "path") ? html_member(r, "path") : html_member(r, "name"));
    fputs("</code>", h->file);
    if (has_failed(r)) {
        bool absent = strcmp(html_member(r, "outcome"), "not-found") == 0;
        fputs(absent ? " not found" : " refused", h->file);
    } else if (!is_new(r)) {
        fputs(" was loaded already", h->file);
    }
    if (instead) {
        fputs("; <span class=\"failed\">first wins: alone <code>", h->file);
        html_text(h, html_base(html_member(r, "caller")));
        fputs("</code> would load <code>", h->file);
        html_path(h, html_member(instead, "path"));
        fputs("</code></span>", h->file);
    }
    if (other) {
        fprintf(h->file, " <span class=\"failed\">%sin another of these programs it is <code>",
                is_new(r) ? "" : "first wins: ");
        html_path(h, other);
        fputs("</code></span>", h->file);
    }
    fputs("</li>\n", h->file);
}

/* What a load brought, what it lacks, and where another order would have brought another file. The
 * line of the load itself names the file that was asked for. */
static bool matters(const struct timeline *t, const json_t *r)
{
    bool own = strcmp(html_member(r, "kind"), "dlopen") == 0 && !has_failed(r);
    return (is_new(r) && !own) || has_failed(r) || json_object_get(r, "instead_of") ||
           other_ending(t->endings, r);
}

/* Of what put_span() writes; 0: it writes nothing. */
static uint64_t span_key(const struct timeline *t, const struct span *s)
{
    uint64_t key = 0;
    for (size_t i = 0; i < s->n; i++) {
        const json_t *r = json_array_get(t->requests, t->order[s->first + i]);
        if (matters(t, r)) {
            const char *path = html_has(r, "path") ? html_member(r, "path") : "";
            key = key * 31 + str_hash(path, strlen(path)) + (is_new(r) ? 1 : 2);
            key += str_hash(html_member(r, "name"), strlen(html_member(r, "name")));
        }
    }
    return key;
}

/* Whether the same was written out before; notes that it is now. */
static bool is_shown(struct timeline *t, uint64_t key)
{
    for (size_t i = 0; i < t->shown->n; i++) {
        if (t->shown->items[i] == key) {
            return true;
        }
    }
    VEC_PUSH(t->h->a, t->shown, key);
    return false;
}

static size_t count_new(const struct timeline *t, const struct span *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        n += is_new(json_array_get(t->requests, t->order[s->first + i]));
    }
    return n;
}

static void put_span(struct timeline *t, const struct span *s)
{
    bool open = false;
    for (size_t i = 0; i < s->n && t->rows; i++) {
        const json_t *r = json_array_get(t->requests, t->order[s->first + i]);
        if (matters(t, r)) {
            fputs(open ? "" : "<ul>\n", t->h->file);
            open = true;
            t->rows--;
            put_request(t, r);
        }
    }
    fputs(open ? "</ul>\n" : "", t->h->file);
}

/* Whether it brought or lacks anything. */
static bool span_matters(const struct timeline *t, const struct span *s)
{
    return count_new(t, s) || span_key(t, s);
}

/* What is missed by a load that nothing else needs; NULL: the load is required, or not such a one.
 */
static const char *only_for(const struct timeline *t, size_t load)
{
    const json_t *attempts = html_list(t->process, "attempts");
    for (size_t i = 0; i < json_array_size(attempts); i++) {
        const json_t *at = json_array_get(attempts, i), *first = json_object_get(at, "first_load");
        json_int_t begin = json_integer_value(first),
                   n = json_integer_value(json_object_get(at, "n_loads"));
        if (json_is_integer(first) && (json_int_t)load >= begin && (json_int_t)load < begin + n &&
            json_is_false(json_object_get(at, "required")) && html_has(at, "feature")) {
            return html_member(at, "feature");
        }
    }
    return NULL;
}

static void put_load(struct timeline *t, size_t i)
{
    const struct html *h = t->h;
    const json_t *load = json_array_get(t->loads, i);
    const struct span *s = &t->spans[i + 1];
    size_t n = count_new(t, s);
    uint64_t key = span_key(t, s);
    t->rows -= t->rows > 0;
    fputs(h->is_windows ? "<li>LoadLibraryEx <code>" : "<li>dlopen <code>", h->file);
    html_path(h, html_member(load, "name"));
    fputs("</code> from <code>", h->file);
    html_text(h, html_base(html_member(load, "caller")));
    fputs("</code>: ", h->file);
    const char *feature = html_has(load, "glibc_says") ? only_for(t, i) : NULL;
    if (feature && n == 0) {
        fputs("<span class=\"soft\">not there; it is needed for this alone: ", h->file);
        html_text(h, feature);
        fputs("</span></li>\n", h->file);
        return;
    }
    if (html_has(load, "glibc_says")) {
        fputs("<span class=\"failed\">fails</span>: ", h->file);
        html_text(h, html_member(load, "glibc_says"));
    } else {
        fprintf(h->file, "%zu new", n);
    }
    if (key && is_shown(t, key)) {
        fputs(", as above", h->file);
    } else {
        put_span(t, s);
    }
    fputs("</li>\n", h->file);
}

/* Loads first <= i < last; those that neither brought nor lack anything are left out. */
static void put_loads(struct timeline *t, const char *label, size_t first, size_t last)
{
    bool open = false;
    for (size_t i = first; i < last && i < json_array_size(t->loads) && t->rows; i++) {
        if (!span_matters(t, &t->spans[i + 1])) {
            continue;
        }
        if (!open) {
            fputs("<li>", t->h->file);
            html_text(t->h, label);
            fputs("<ul>\n", t->h->file);
        }
        open = true;
        put_load(t, i);
    }
    fputs(open ? "</ul></li>\n" : "", t->h->file);
}

static const char *attempt_label(struct arena *a, const json_t *attempt)
{
    const char *package = html_member(attempt, "package");
    return *package ? arena_printf(a, "%s of %s", html_member(attempt, "phase"), package)
                    : arena_printf(a, "by %s", html_base(html_member(attempt, "caller")));
}

/* Attempts of one label that follow one another are one step; loads of no attempt keep their
 * place between them. */
static void put_steps(struct timeline *t)
{
    const json_t *attempts = html_list(t->process, "attempts");
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(attempts);) {
        const char *label = attempt_label(t->h->a, json_array_get(attempts, i));
        size_t first = SIZE_MAX, last = 0;
        for (; i < json_array_size(attempts); i++) {
            const json_t *attempt = json_array_get(attempts, i);
            const json_t *index = json_object_get(attempt, "first_load");
            if (strcmp(attempt_label(t->h->a, attempt), label) != 0) {
                break;
            }
            if (json_is_integer(index) && json_integer_value(index) >= 0) {
                size_t begin = (size_t)json_integer_value(index);
                size_t n = (size_t)json_integer_value(json_object_get(attempt, "n_loads"));
                first = begin < first ? begin : first;
                last = begin + n > last ? begin + n : last;
            }
        }
        if (first != SIZE_MAX) {
            put_loads(t, "further loads", at, first > at ? first : at);
            put_loads(t, label, first > at ? first : at, last);
            at = last > at ? last : at;
        }
    }
    put_loads(t, json_array_size(attempts) ? "further loads" : "loads", at, SIZE_MAX);
}

static void put_timeline(struct timeline *t, bool open)
{
    const struct html *h = t->h;
    sort_requests(t);
    fprintf(h->file, "<details%s><summary>", open ? " open" : "");
    html_script(h, t->process);
    fputs("</summary>\n<ol>\n<li>start of the program", h->file);
    uint64_t key = span_key(t, &t->spans[0]);
    if (key && is_shown(t, key)) {
        fputs(": as above", h->file);
    } else {
        put_span(t, &t->spans[0]);
    }
    fputs("</li>\n", h->file);
    put_steps(t);
    const struct span *asked = &t->spans[json_array_size(t->loads) + 1];
    if (span_key(t, asked)) {
        fputs("<li>what was asked for", h->file);
        put_span(t, asked);
        fputs("</li>\n", h->file);
    }
    fputs("</ol>\n", h->file);
    fputs(t->rows ? "" : "<p>The rest is in the data below.</p>\n", h->file);
    if (html_has(t->process, "error")) {
        fputs("<p class=\"failed\">", h->file);
        html_text(h, html_member(t->process, "error"));
        fputs("</p>\n", h->file);
    }
    fputs("</details>\n", h->file);
}

void html_loads(const struct html *h)
{
    ending_list endings = endings_of(h);
    key_list shown = {0};
    size_t rows = ROWS_MAX;
    if (!html_n_processes(h)) {
        fputs("<p>No program was followed.</p>\n", h->file);
    }
    for (size_t i = 0; i < html_n_processes(h); i++) {
        const json_t *process = html_process(h, i);
        struct timeline t = {.h = h,
                             .shown = &shown,
                             .endings = &endings,
                             .process = process,
                             .requests = html_list(process, "requests"),
                             .loads = html_list(process, "loads"),
                             .rows = rows};
        put_timeline(&t, i == 0);
        rows = t.rows;
    }
}
