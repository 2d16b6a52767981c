/* What a page about one process shows (gpumend why --html). */
#include <string.h>

#include "base/json.h"
#include "report/html.h"

enum { LADDERS_MAX = 24 };

static bool lookup_failed(const json_t *request)
{
    const char *outcome = json_text(request, "outcome");
    return outcome && (strcmp(outcome, "not-found") == 0 || strcmp(outcome, "refused") == 0);
}

/* Whether the same lookup of the same object, which went the same way, is on the list. */
static bool request_is_listed(const json_t *list, const json_t *request)
{
    static const char *const keys[] = {"name", "caller", "outcome", "path", "instead_of", "steps"};
    bool listed = false;
    for (size_t i = 0; i < json_array_size(list) && !listed; i++) {
        const json_t *other = json_object_get(json_array_get(list, i), "before");
        listed = true;
        for (size_t k = 0; k < sizeof keys / sizeof *keys && listed; k++) {
            const json_t *x = json_object_get(request, keys[k]),
                         *y = json_object_get(other, keys[k]);
            listed = (!x && !y) || (x && y && json_equal(x, y));
        }
    }
    return listed;
}

static json_t *ladders_json(const struct ldso_process *p, const json_t *document, size_t own,
                            size_t *ret_left)
{
    const json_t *requests = json_object_get(document, "requests");
    json_t *list = json_array();
    *ret_left = 0;
    for (size_t i = 0; i < json_array_size(requests); i++) {
        json_t *r = json_array_get(requests, i);
        bool is_own = own < p->loads.n && i == p->loads.items[own].request;
        bool shown = is_own || lookup_failed(r) || json_object_get(r, "instead_of");
        if (!shown || request_is_listed(list, r)) {
            continue;
        }
        if (json_array_size(list) == LADDERS_MAX && !is_own) {
            ++*ret_left;
            continue;
        }
        json_t *ladder = json_object();
        json_put(ladder, "name", json_incref(json_object_get(r, "name")));
        json_put(ladder, "caller", json_incref(json_object_get(r, "caller")));
        json_put(ladder, "before", json_incref(r));
        json_add(list, ladder);
    }
    return list;
}

static const char *what_fails(const struct ldso_process *p)
{
    for (size_t i = 0; i < p->loads.n; i++) {
        if (p->loads.items[i].glibc_says) {
            return p->loads.items[i].glibc_says;
        }
    }
    return p->start_failed ? p->start_error : NULL;
}

json_t *report_html_why(const struct ldso_process *p, json_t *document, size_t own)
{
    size_t left = 0;
    json_t *page = json_object();
    const char *fails = what_fails(p);
    const char *verdict = p->by_cpu.n ? "unknown" : fails ? "fails" : "loads";
    const char *sentence = p->by_cpu.n ? p->by_cpu.items[0]
                           : fails     ? fails
                                       : arena_printf(p->arena, "%zu objects", p->objects.n);
    json_put(page, "command", json_string("gpumend why"));
    json_put(page, "target", out_json_text(p->arena, p->main->path));
    json_put(page, "head", out_json_text(p->arena, p->main->path));
    json_put(page, "verdict", json_string(verdict));
    json_put(page, "sentence", out_json_text(p->arena, sentence));
    json_put(page, "ladders", ladders_json(p, document, own, &left));
    json_put(page, "ladders_left", json_integer((json_int_t)left));
    json_put(page, "document", document);
    return page;
}
