#include "mcp/compare.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

enum { ROWS_MAX = 1000, DEPTH_MAX = 32 };

struct differences {
    struct arena *a;
    json_t *rows;
    size_t left_out;
};

static void differences_add(struct differences *d, json_t *row)
{
    if (json_array_size(d->rows) < ROWS_MAX) {
        json_add(d->rows, row);
    } else {
        d->left_out++;
        json_decref(row);
    }
}

static json_t *or_null(const json_t *value)
{
    return value ? json_deep_copy(value) : json_null();
}

static json_t *pair_json(const char *key, const char *name, const json_t *before,
                         const json_t *after)
{
    json_t *o = json_object();
    json_put(o, key, json_string(name));
    json_put(o, "before", or_null(before));
    json_put(o, "after", or_null(after));
    return o;
}

/* ------------------------------------------------------------------ facts */

/* Of a fact what is known; where it was read and why not is no difference. */
static const json_t *known_of(const json_t *value)
{
    const json_t *state = json_object_get(value, "state"), *known = json_object_get(value, "value");
    return !state || !known ? value : json_is_null(known) ? state : known;
}

static const char *below(struct arena *a, const char *path, const char *key)
{
    return *path ? arena_printf(a, "%s.%s", path, key) : key;
}

static void compare_facts(struct differences *d, const char *path, const json_t *before,
                          const json_t *after, int depth);

static void compare_keys(struct differences *d, const char *path, const json_t *before,
                         const json_t *after, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)before, key, value)
    {
        compare_facts(d, below(d->a, path, key), value, json_object_get(after, key), depth);
    }
    json_object_foreach((json_t *)(uintptr_t)after, key, value)
    {
        if (!json_object_get(before, key)) {
            compare_facts(d, below(d->a, path, key), NULL, value, depth);
        }
    }
}

static void compare_facts(struct differences *d, const char *path, const json_t *before,
                          const json_t *after, int depth)
{
    before = known_of(before);
    after = known_of(after);
    if (json_is_object(before) && json_is_object(after) && depth < DEPTH_MAX) {
        compare_keys(d, path, before, after, depth + 1);
        return;
    }
    if (json_is_array(before) && json_is_array(after) && depth < DEPTH_MAX &&
        json_array_size(before) == json_array_size(after)) {
        for (size_t i = 0; i < json_array_size(before); i++) {
            compare_facts(d, arena_printf(d->a, "%s[%zu]", path, i), json_array_get(before, i),
                          json_array_get(after, i), depth + 1);
        }
        return;
    }
    if (!json_equal(before, after) && (before || after)) {
        differences_add(d, pair_json("fact", path, before, after));
    }
}

/* ------------------------------------------------------------------ rows with names */

/* Rows of two lists under their names; what is the same under one name is no difference. */
static void compare_named(struct differences *d, const char *key, const json_t *before,
                          const json_t *after)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)before, name, value)
    {
        const json_t *now = json_object_get(after, name);
        if (!now || !json_equal(value, now)) {
            differences_add(d, pair_json(key, name, value, now));
        }
    }
    json_object_foreach((json_t *)(uintptr_t)after, name, value)
    {
        if (!json_object_get(before, name)) {
            differences_add(d, pair_json(key, name, NULL, value));
        }
    }
}

/* {name: [versions]}: one that is installed twice has both. */
static json_t *packages_of(const json_t *doc)
{
    json_t *found = json_object(), *row;
    size_t i;
    json_array_foreach(json_object_get(json_object_get(doc, "python"), "packages"), i, row)
    {
        const char *name = json_text(row, "name");
        json_t *version = json_object_get(row, "version"), *have = NULL;
        if (!name || !version) {
            continue;
        }
        have = json_object_get(found, name);
        if (!have) {
            have = json_array();
            json_put(found, name, have);
        }
        json_add(have, json_incref(version));
    }
    return found;
}

/* {name that was asked for: [files that it ended at, in any of the programs]}; one that was not
 * found ended at null. */
static json_t *libraries_of(const json_t *doc)
{
    json_t *found = json_object(), *process, *request;
    size_t i, j, k;
    json_array_foreach(json_object_get(doc, "processes"), i, process)
    {
        json_array_foreach(json_object_get(process, "requests"), j, request)
        {
            const char *name = json_text(request, "name");
            json_t *path = json_object_get(request, "path"), *have, *one;
            bool is_known = false;
            if (!name || !path) {
                continue;
            }
            have = json_object_get(found, path_base(name));
            if (!have) {
                have = json_array();
                json_put(found, path_base(name), have);
            }
            json_array_foreach(have, k, one)
            {
                is_known |= json_equal(one, path) != 0;
            }
            if (!is_known) {
                json_add(have, json_incref(path));
            }
        }
    }
    return found;
}

/* ------------------------------------------------------------------ findings */

static bool has_finding(const json_t *doc, const json_t *finding)
{
    json_t *other;
    size_t i;
    json_array_foreach(json_object_get(doc, "findings"), i, other)
    {
        if (json_equal(json_object_get(other, "cause"), json_object_get(finding, "cause")) &&
            json_equal(json_object_get(other, "culprit"), json_object_get(finding, "culprit")) &&
            json_equal(json_object_get(other, "severity"), json_object_get(finding, "severity"))) {
            return true;
        }
    }
    return false;
}

/* Those of `doc` that `other` lacks, by their cause, culprit and severity. */
static json_t *only_in(const json_t *doc, const json_t *other)
{
    static const char *const keys[] = {"cause", "severity", "culprit", "summary"};
    json_t *rows = json_array(), *finding;
    size_t i;
    json_array_foreach(json_object_get(doc, "findings"), i, finding)
    {
        if (has_finding(other, finding)) {
            continue;
        }
        json_t *row = json_object();
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            json_put(row, keys[k], or_null(json_object_get(finding, keys[k])));
        }
        json_add(rows, row);
    }
    return rows;
}

/* ------------------------------------------------------------------ the document */

static json_t *side_json(const json_t *doc)
{
    json_t *o = json_object();
    json_put(o, "verdict", or_null(json_object_get(doc, "verdict")));
    json_put(o, "target", or_null(json_object_get(doc, "target")));
    return o;
}

static json_t *python_without_packages(const json_t *doc)
{
    json_t *python = json_copy((json_t *)(uintptr_t)json_object_get(doc, "python"));
    if (python) {
        (void)json_object_del(python, "packages"); // absent is fine
    }
    return python;
}

json_t *mcp_compare(struct arena *a, const json_t *before, const json_t *after)
{
    struct differences facts = {a, json_array(), 0}, packages = {a, json_array(), 0},
                       libraries = {a, json_array(), 0};
    json_t *o = json_object(), *findings = json_object();
    json_t *old[] = {packages_of(before), libraries_of(before), python_without_packages(before)};
    json_t *now[] = {packages_of(after), libraries_of(after), python_without_packages(after)};
    compare_facts(&facts, "host", json_object_get(before, "host"), json_object_get(after, "host"),
                  0);
    compare_facts(&facts, "python", old[2], now[2], 0);
    compare_named(&packages, "name", old[0], now[0]);
    compare_named(&libraries, "name", old[1], now[1]);
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        json_decref(old[i]);
        json_decref(now[i]);
    }
    json_put(findings, "gone", only_in(before, after));
    json_put(findings, "new", only_in(after, before));
    json_put(o, "schema", json_integer(1));
    json_put(o, "before", side_json(before));
    json_put(o, "after", side_json(after));
    json_put(o, "facts", facts.rows);
    json_put(o, "packages", packages.rows);
    json_put(o, "libraries", libraries.rows);
    json_put(o, "findings", findings);
    json_put(o, "left_out",
             json_integer((json_int_t)(facts.left_out + packages.left_out + libraries.left_out)));
    return o;
}
