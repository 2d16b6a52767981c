/* One lookup as a table: a column for each stage of the search, in its order, with the candidates
 * and why each was passed over. */
#include <string.h>

#include "report/html_internal.h"

/* The first of them are those that findings are about: more are shown when they are asked for. */
enum { LADDERS_OPEN = 2 };

struct stage {
    const char *via, *title; // via: ldso_via_name(), winldr_via_text()
};

static const struct stage linux_stages[] = {
    {"loaded", "already loaded"}, {"rpath", "RPATH"},       {"LD_LIBRARY_PATH", "LD_LIBRARY_PATH"},
    {"runpath", "RUNPATH"},       {"cache", "ld.so.cache"}, {"default", "system folders"},
};

static const struct stage windows_stages[] = {
    {"API set", "API set"},
    {"loaded under this name", "already loaded"},
    {"known DLL", "known DLLs"},
    {"folder of the DLL that was asked for", "folder of the DLL that was asked for"},
    {"folder of the program", "folder of the program"},
    {"add_dll_directory", "add_dll_directory"},
    {"SetDllDirectory", "SetDllDirectory"},
    {"System32", "System32"},
    {"System", "System"},
    {"Windows folder", "Windows folder"},
    {"working directory", "working directory"},
    {"PATH", "PATH"},
};

static const struct stage *stages_of(const struct html *h, size_t *ret_n)
{
    *ret_n = h->is_windows ? sizeof windows_stages / sizeof *windows_stages
                           : sizeof linux_stages / sizeof *linux_stages;
    return h->is_windows ? windows_stages : linux_stages;
}

static size_t rank_of(const struct html *h, const char *via)
{
    size_t i = 0, n;
    const struct stage *stages = stages_of(h, &n);
    while (i < n && strcmp(stages[i].via, via) != 0) {
        i++;
    }
    return i;
}

static const char *via_title(const struct html *h, const char *via)
{
    size_t n, i = rank_of(h, via);
    const struct stage *stages = stages_of(h, &n);
    return i < n ? stages[i].title : strcmp(via, "path") == 0 ? "path as given" : via;
}

/* Steps first <= i < last of a request: one column. */
struct column {
    const char *via, *object; // object: whose RPATH or RUNPATH, or ""
    size_t first, last;
};
typedef VEC(struct column) column_list;

static column_list columns_of(const struct html *h, const json_t *steps)
{
    column_list out = {0};
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        struct column c = {html_member(step, "via"), html_member(step, "via_object"), i, i + 1};
        struct column *last = out.n ? &out.items[out.n - 1] : NULL;
        if (last && strcmp(last->via, c.via) == 0 && strcmp(last->object, c.object) == 0) {
            last->last = i + 1;
        } else {
            VEC_PUSH(h->a, &out, c);
        }
    }
    return out;
}

static bool took(const json_t *request)
{
    const char *outcome = html_member(request, "outcome");
    return strcmp(outcome, "loaded") == 0 || strcmp(outcome, "reused") == 0;
}

/* The stage that answered has no step of its own where the name was loaded already. */
static void add_winner(const struct html *h, const json_t *request, column_list *columns)
{
    const char *via = html_member(request, "via");
    bool there = false;
    for (size_t i = 0; i < columns->n; i++) {
        there |= strcmp(columns->items[i].via, via) == 0;
    }
    if (took(request) && *via && !there) {
        VEC_PUSH(h->a, columns, ((struct column){via, html_member(request, "via_object"), 0, 0}));
    }
}

/* Where the search that did not take place would have ended. */
static void add_kept_out(const struct html *h, const json_t *request, column_list *columns)
{
    const json_t *instead = json_object_get(request, "instead_of");
    if (instead) {
        VEC_PUSH(h->a, columns,
                 ((struct column){html_member(instead, "via"), html_member(instead, "via_object"),
                                  0, 0}));
    }
}

static bool is_kept_out(const json_t *request, const struct column *c)
{
    const json_t *instead = json_object_get(request, "instead_of");
    return instead && strcmp(html_member(instead, "via"), c->via) == 0 &&
           strcmp(html_member(instead, "via_object"), c->object) == 0;
}

/* Stages without a step stand in their place: the search ended before them or had no folder. */
static void add_silent(const struct html *h, column_list *columns)
{
    column_list all = {0};
    size_t next = 0, n_stages;
    const struct stage *stages = stages_of(h, &n_stages);
    for (size_t i = 0; i < columns->n; i++) {
        size_t rank = rank_of(h, columns->items[i].via);
        if (rank == n_stages) { // a path as given: there is no search
            return;
        }
        for (; next < rank; next++) {
            VEC_PUSH(h->a, &all, ((struct column){stages[next].via, "", 0, 0}));
        }
        VEC_PUSH(h->a, &all, columns->items[i]);
        next = rank + 1 > next ? rank + 1 : next;
    }
    for (; next < n_stages; next++) {
        VEC_PUSH(h->a, &all, ((struct column){stages[next].via, "", 0, 0}));
    }
    *columns = all;
}

static bool is_taken(const json_t *step)
{
    return strcmp(html_member(step, "result"), "taken") == 0;
}

static const char *words_of(const char *result)
{
    static const char *const words[][2] = {
        {"dangling", "link that leads nowhere"},
        {"denied", "permission denied"},
        {"wrong-class", "wrong ELF class"},
        {"wrong-machine", "wrong architecture"},
        {"invalid", "refused"},
        {"unreadable", "cannot be opened"},
        {"not-used", "not used"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i][0], result) == 0) {
            return words[i][1];
        }
    }
    return result;
}

static void put_step(const struct html *h, const json_t *step)
{
    const char *path = html_member(step, "path"), *result = html_member(step, "result");
    bool quiet = strcmp(result, "absent") == 0 || strcmp(result, "not-used") == 0;
    fprintf(h->file, "<li class=\"%s\">", is_taken(step) ? "taken" : quiet ? "soft" : "failed");
    if (*path) {
        fputs("<code>", h->file);
        html_path(h, path);
        fputs("</code> ", h->file);
    }
    fputs("<b>", h->file);
    html_text(h, words_of(result));
    fputs("</b>", h->file);
    if (html_has(step, "detail")) {
        fputs(": ", h->file);
        html_text(h, html_member(step, "detail"));
    }
    fputs("</li>", h->file);
}

static bool is_won(const json_t *request, const struct column *c)
{
    bool same = strcmp(html_member(request, "via"), c->via) == 0 &&
                strcmp(html_member(request, "via_object"), c->object) == 0;
    return took(request) && same;
}

static void put_cell(const struct html *h, const json_t *request, const struct column *c)
{
    const json_t *steps = html_list(request, "steps");
    bool won = is_won(request, c), told = false;
    fputs(won ? "<td class=\"won\"><ul>" : "<td><ul>", h->file);
    for (size_t i = c->first; i < c->last; i++) {
        put_step(h, json_array_get(steps, i));
        told |= is_taken(json_array_get(steps, i));
    }
    if (won && !told) {
        fputs("<li class=\"taken\"><code>", h->file);
        html_path(h, html_member(request, "path"));
        fputs("</code> <b>taken</b></li>", h->file);
    } else if (is_kept_out(request, c)) {
        fputs("<li class=\"failed\"><code>", h->file);
        html_path(h, html_member(json_object_get(request, "instead_of"), "path"));
        fputs("</code> <b>not looked for</b>: first wins</li>", h->file);
    } else if (c->first == c->last) {
        fputs("<li class=\"soft\">&#8211;</li>", h->file);
    }
    fputs("</ul></td>", h->file);
}

static void put_outcome(const struct html *h, const json_t *request)
{
    fputs(took(request) ? "<span class=\"taken\">" : "<span class=\"failed\">", h->file);
    bool absent = strcmp(html_member(request, "outcome"), "not-found") == 0;
    html_text(h, absent ? "not found" : html_member(request, "outcome"));
    fputs("</span>", h->file);
    if (took(request)) {
        fputs(" <code>", h->file);
        html_path(h, html_member(request, "path"));
        fputs("</code>", h->file);
    } else if (html_has(request, "really") || html_has(request, "glibc_says")) {
        fputs(": ", h->file);
        html_text(h, html_has(request, "really") ? html_member(request, "really")
                                                 : html_member(request, "glibc_says"));
    }
}

/* `when`: "before the repair"; NULL: there is only one. */
static void put_ladder(const struct html *h, const json_t *request, const char *when, size_t number)
{
    column_list columns = columns_of(h, html_list(request, "steps"));
    add_winner(h, request, &columns);
    add_kept_out(h, request, &columns);
    add_silent(h, &columns);
    fprintf(h->file,
            "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"lookup %zu%s%s\">"
            "<table><caption><div>%s%s",
            number, when ? ", " : "", when ? when : "", when ? when : "", when ? ": " : "");
    put_outcome(h, request);
    fputs("</div></caption><thead><tr>", h->file);
    for (size_t i = 0; i < columns.n; i++) {
        const struct column *c = &columns.items[i];
        fputs("<th scope=\"col\">", h->file);
        html_text(h, via_title(h, c->via));
        if (*c->object) {
            fputs(" of ", h->file);
            html_text(h, html_base(c->object));
        }
        fputs("</th>", h->file);
    }
    fputs("</tr></thead><tbody><tr>", h->file);
    for (size_t i = 0; i < columns.n; i++) {
        put_cell(h, request, &columns.items[i]);
    }
    fputs("</tr></tbody></table></div>\n", h->file);
}

/* That nothing failed may only be said where all that matters was looked at. */
static void put_none(const struct html *h)
{
    const char *verdict = html_member(h->page, "verdict");
    bool is_sure = strcmp(verdict, "ok") == 0 || strcmp(verdict, "loads") == 0;
    fputs(is_sure ? "<p>No lookup that matters failed.</p>\n"
          : html_n_processes(h)
              ? "<p>No failed lookup was found in what could be looked at: the loads below.</p>\n"
              : "<p>No failed lookup was found in what could be looked at.</p>\n",
          h->file);
}

void html_ladders(const struct html *h)
{
    const json_t *ladders = html_list(h->page, "ladders");
    json_int_t left = json_integer_value(json_object_get(h->page, "ladders_left"));
    if (json_array_size(ladders) == 0) {
        put_none(h);
        return;
    }
    fprintf(h->file,
            "<p class=\"soft\">A column is a stage of the search, in its order. &#8211; means that "
            "the search ended before this stage, or that it %s.</p>\n",
            h->is_windows ? "is none that this call searches" : "has nothing to look in");
    size_t n = json_array_size(ladders);
    for (size_t i = 0; i < n; i++) {
        const json_t *l = json_array_get(ladders, i);
        const json_t *after = json_object_get(l, "after");
        if (i == LADDERS_OPEN && n > LADDERS_OPEN + 1) {
            fprintf(h->file, "<details><summary>%zu more lookups</summary>\n", n - i);
        }
        fputs("<h3><code>", h->file);
        html_path(h, html_member(l, "name"));
        fputs("</code> for <code>", h->file);
        html_path(h, html_member(l, "caller"));
        fputs("</code></h3>\n", h->file);
        if (html_has(l, "script")) {
            fputs("<p class=\"soft\">in a program that runs: ", h->file);
            html_text(h, html_member(l, "script"));
            fputs("</p>\n", h->file);
        }
        put_ladder(h, json_object_get(l, "before"), after ? "before the repair" : NULL, i + 1);
        if (after) {
            put_ladder(h, after, "after the repair", i + 1);
        }
    }
    if (n > LADDERS_OPEN + 1) {
        fputs("</details>\n", h->file);
    }
    if (left > 0) {
        fprintf(h->file, "<p>%lld more are in the data below.</p>\n", (long long)left);
    }
}
