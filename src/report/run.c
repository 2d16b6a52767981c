#include "report/run.h"

#include <string.h>

#include "base/json.h"

/* The value as a word of any POSIX shell: these lines are for `eval`, and not every sh knows
 * $'...'. What a terminal does not show as it is goes through printf, in octal; `$( )` would drop
 * line ends at the end, which stand behind it. */
static const char *evaluated_word(struct arena *a, const char *value)
{
    size_t n = strlen(value), shown = n;
    const char *out = "\"$(printf '";
    if (str_is_seen(value)) {
        return diag_shell_word(a, value);
    }
    while (shown && value[shown - 1] == '\n') {
        shown--;
    }
    for (size_t i = 0, len; i < shown; i += len) {
        len = strchr("'\\%", value[i]) ? 0 : str_seen(value + i, shown - i);
        out = len ? arena_printf(a, "%s%.*s", out, (int)len, value + i)
                  : arena_printf(a, "%s\\%03o", out, (unsigned char)value[i]);
        len = len ? len : 1;
    }
    return arena_printf(a, "%s')\"'%s'", out, value + shown);
}

void report_run_shell(FILE *file, struct arena *a, const struct launch *launch)
{
    for (size_t i = 0; i < launch->changes.n; i++) {
        const struct launch_change *c = &launch->changes.items[i];
        if (c->value) {
            fprintf(file, "export %s=%s\n", c->name, evaluated_word(a, c->value));
        } else {
            fprintf(file, "unset %s\n", c->name);
        }
    }
    if (launch->changes.n == 0) {
        fputs(launch->left.n ? "# no variable to change: none would help\n"
                             : "# no variable to change\n",
              file);
    }
}

static json_t *changes_json(struct arena *a, const struct launch *l)
{
    json_t *object = json_object();
    for (size_t i = 0; i < l->changes.n; i++) {
        json_put(object, l->changes.items[i].name, out_json_text(a, l->changes.items[i].value));
    }
    return object;
}

static json_t *run_links_json(struct arena *a, const struct launch *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->links.n; i++) {
        json_t *link = json_object();
        json_put(link, "path", out_json_text(a, l->links.items[i].path));
        json_put(link, "target", out_json_text(a, l->links.items[i].target));
        json_add(list, link);
    }
    return list;
}

static json_t *told_json(struct arena *a, const struct launch_told *items, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *told = json_object();
        json_put(told, "cause", out_json_text(a, items[i].cause));
        json_put(told, "summary", out_json_text(a, items[i].text));
        json_add(list, told);
    }
    return list;
}

static json_t *program_json(struct arena *a, const struct launch_program *p)
{
    json_t *object = json_object();
    json_put(object, "file", out_json_text(a, p->file));
    json_put(object, "kind", json_string_nocheck(launch_program_kind_name(p->kind)));
    json_put(object, "python", out_json_text(a, p->python));
    json_put(object, "script", out_json_text(a, p->script));
    json_put(object, "module", out_json_text(a, p->module));
    return object;
}

json_t *report_run_json(struct arena *a, const struct report_run *r)
{
    json_t *doc = json_object();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "program", r->program ? program_json(a, r->program) : json_null());
    json_put(doc, "changes", changes_json(a, r->launch));
    json_put(doc, "links", run_links_json(a, r->launch));
    json_put(doc, "mends", told_json(a, r->launch->mends.items, r->launch->mends.n));
    json_put(doc, "left", told_json(a, r->launch->left.items, r->launch->left.n));
    json_put(doc, "remarks", out_json_texts(a, r->launch->remarks.items, r->launch->remarks.n));
    json_put(doc, "cached", json_boolean(r->cached));
    return doc;
}
