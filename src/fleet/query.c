#include "fleet/query.h"

#include <string.h>

#include "base/str.h"

/*
 * The engines differ in how a file is read and how JSON is taken apart; the statements are written
 * in words for that, which are replaced:
 *
 *   @                  the lines: rows with one column `line`
 *   {text:COLUMN:KEY}  a member as text; NULL where it is absent or null
 *   {object:COLUMN:KEY} a member that is an object; otherwise nothing can be extracted from it
 *   {keys:COLUMN}      the names of the members of an object, as an array
 *   {items:COLUMN:KEY} a member's elements, as an array of JSON
 *   {each:ARRAY}       a row for each element
 *   {matches:TEXT:REGEX}
 *   {list:COLUMN}      the values of a group, sorted, with ", " between them
 */
struct word {
    const char *name;
    const char *text[FLEET_ENGINES]; // $1, $2: the arguments
};

static const struct word words[] = {
    {"text",
     {"json_extract_string($1, $2)",
      "nullIf(if(JSONType($1, $2) = 'String', JSONExtractString($1, $2), "
      "if(JSONHas($1, $2), JSONExtractRaw($1, $2), 'null')), 'null')"}},
    {"object",
     {"CASE WHEN json_type($1, $2) = 'OBJECT' THEN json_extract($1, $2) END",
      "if(JSONType($1, $2) = 'Object', JSONExtractRaw($1, $2), '')"}},
    {"keys", {"json_keys($1)", "JSONExtractKeys($1)"}},
    {"items",
     {"CASE WHEN json_type($1, $2) = 'ARRAY' THEN CAST(json_extract($1, $2) AS JSON[]) END",
      "JSONExtractArrayRaw($1, $2)"}},
    {"each", {"unnest($1)", "arrayJoin($1)"}},
    {"matches", {"regexp_matches($1, $2)", "match($1, $2)"}},
    {"list",
     {"string_agg($1, ', ' ORDER BY $1)", "arrayStringConcat(arraySort(groupArray($1)), ', ')"}},
};

#define LINES                                                                                      \
    "WITH whole AS (\n"                                                                            \
    "  SELECT {text:line:'node'} AS node, {text:line:'time'} AS time, {text:line:'verdict'} AS "   \
    "verdict,\n"                                                                                   \
    "    {text:line:'reason'} AS reason, {text:line:'says'} AS says,\n"                            \
    "    {object:line:'cohort'} AS cohort, {object:line:'facts'} AS facts, line\n"                 \
    "  FROM (@) AS lines),\n"                                                                      \
    "once AS (\n"                                                                                  \
    "  SELECT *, row_number() OVER (PARTITION BY node, time ORDER BY line) AS copy FROM whole\n"   \
    "  WHERE node <> '' AND time <> '' AND verdict IN ('ok', 'broken', 'unknown')),\n"             \
    "aged AS (\n"                                                                                  \
    "  SELECT *, row_number() OVER (PARTITION BY node ORDER BY time DESC) AS age FROM once\n"      \
    "  WHERE copy = 1),\n"                                                                         \
    "latest AS (SELECT * FROM aged WHERE age = 1),\n"                                              \
    "named AS (SELECT DISTINCT {each:{keys:facts}} AS key FROM aged),\n"                           \
    "keys AS (SELECT key FROM named WHERE {matches:key:'^[a-z0-9_]+$'}),\n"                        \
    "environments AS (\n"                                                                          \
    "  SELECT node, age, concat('target ', {text:item:'target'}) AS fact,\n"                       \
    "    {text:item:'environment'} AS value\n"                                                     \
    "  FROM (SELECT node, age, {each:{items:line:'targets'}} AS item FROM aged) AS items),\n"      \
    "targets AS (SELECT DISTINCT fact FROM environments),\n"                                       \
    "facts_of AS (\n"                                                                              \
    "  SELECT node, age, key AS fact, {text:facts:key} AS value FROM aged CROSS JOIN keys\n"       \
    "  UNION ALL\n"                                                                                \
    "  SELECT a.node AS node, a.age AS age, t.fact AS fact, nullIf(max(coalesce(e.value, '')), "   \
    "'') AS value\n"                                                                               \
    "  FROM aged AS a CROSS JOIN targets AS t\n"                                                   \
    "  LEFT JOIN environments AS e ON e.node = a.node AND e.age = a.age AND e.fact = t.fact\n"     \
    "  GROUP BY a.node, a.age, t.fact)\n"

static const struct query {
    const char *name, *text;
} queries[] = {
    {"nodes", LINES "SELECT node, time, verdict, reason, says,\n"
                    "  {text:cohort:'host'} AS cohort_host, {text:cohort:'environment'} AS "
                    "cohort_environment,\n"
                    "  {text:facts:'gpus'} AS gpus, {text:facts:'gpus_usable'} AS gpus_usable,\n"
                    "  {text:facts:'gpu_names'} AS gpu_names, {text:facts:'driver'} AS driver,\n"
                    "  {text:facts:'compute_capabilities'} AS compute_capabilities,\n"
                    "  {text:facts:'gfx'} AS gfx, {text:facts:'kernel'} AS kernel,\n"
                    "  {text:facts:'os'} AS os, {text:facts:'glibc'} AS glibc,\n"
                    "  {text:facts:'cpu_level'} AS cpu_level, {text:line:'gpumend'} AS gpumend\n"
                    "FROM latest ORDER BY node;\n"},
    {"causes", LINES ", found AS (\n"
                     "  SELECT DISTINCT node, {text:item:'cause'} AS cause, {text:item:'severity'} "
                     "AS severity\n"
                     "  FROM (SELECT node, {each:{items:line:'findings'}} AS item FROM latest) AS "
                     "items)\n"
                     "SELECT cause, severity, count(*) AS n_nodes, {list:node} AS nodes\n"
                     "FROM found GROUP BY cause, severity ORDER BY severity, cause;\n"},
    {"cohorts", LINES "SELECT {text:cohort:'host'} AS cohort_host,\n"
                      "  {text:cohort:'environment'} AS cohort_environment,\n"
                      "  count(*) AS n_nodes, {list:node} AS nodes\n"
                      "FROM latest GROUP BY cohort_host, cohort_environment\n"
                      "ORDER BY n_nodes DESC, cohort_host, cohort_environment;\n"},
    {"differs", LINES
     ", kinds AS (\n"
     "  SELECT node, {text:facts:'gpu_names'} AS kind FROM latest\n"
     "  WHERE {text:facts:'gpu_names'} LIKE '[%'),\n"
     "compared AS (\n"
     "  SELECT f.node AS node, k.kind AS kind, f.fact AS fact, coalesce(f.value, 'null') AS "
     "value\n"
     "  FROM facts_of AS f JOIN kinds AS k ON k.node = f.node WHERE f.age = 1),\n"
     "counted AS (\n"
     "  SELECT node, fact, value, kind, count(*) OVER (PARTITION BY kind, fact, value) AS n,\n"
     "    count(*) OVER (PARTITION BY kind, fact) AS n_nodes FROM compared),\n"
     "majorities AS (\n"
     "  SELECT DISTINCT kind, fact, value AS majority, n AS n_majority FROM counted\n"
     "  WHERE n * 2 > n_nodes AND n_nodes >= 3)\n"
     "SELECT c.node AS node, c.fact AS fact, c.value AS value, m.majority AS majority,\n"
     "  m.n_majority AS n_majority, c.n_nodes AS n_nodes\n"
     "FROM counted AS c JOIN majorities AS m ON m.kind = c.kind AND m.fact = c.fact\n"
     "WHERE c.value <> m.majority ORDER BY node, fact;\n"},
    {"changed",
     LINES ", everything AS (\n"
           "  SELECT node, age, fact, value FROM facts_of WHERE age <= 2\n"
           "  UNION ALL SELECT node, age, 'verdict' AS fact, verdict AS value FROM aged WHERE age "
           "<= 2\n"
           "  UNION ALL SELECT node, age, 'reason' AS fact, reason AS value FROM aged WHERE age <= "
           "2)\n"
           "SELECT n.node AS node, n.fact AS what, b.value AS before, n.value AS now\n"
           "FROM everything AS n JOIN everything AS b ON b.node = n.node AND b.fact = n.fact\n"
           "WHERE n.age = 1 AND b.age = 2 AND coalesce(n.value, 'null') <> coalesce(b.value, "
           "'null')\n"
           "ORDER BY node, what;\n"},
};

const char *fleet_query_name(size_t i)
{
    return i < sizeof queries / sizeof *queries ? queries[i].name : NULL;
}

enum fleet_engine fleet_engine_of(const char *name)
{
    return strcmp(name, "duckdb") == 0       ? FLEET_DUCKDB
           : strcmp(name, "clickhouse") == 0 ? FLEET_CLICKHOUSE
                                             : FLEET_ENGINES;
}

/* ------------------------------------------------------------------ replacing words */

/* A text in quotes, as both engines read it. */
static const char *quoted(struct arena *a, enum fleet_engine engine, const char *text)
{
    char *out = arena_alloc(a, strlen(text) * 2 + 3);
    size_t n = 0;
    out[n++] = '\'';
    for (; *text; text++) {
        if (*text == '\'' || (*text == '\\' && engine == FLEET_CLICKHOUSE)) {
            out[n++] = *text == '\'' ? '\'' : '\\';
        }
        out[n++] = *text;
    }
    out[n++] = '\'';
    out[n] = '\0';
    return out;
}

/* DuckDB reads a list of files; ClickHouse one, or those of a pattern. */
static const char *lines_text(struct arena *a, enum fleet_engine engine, const char *const *files,
                              size_t n)
{
    const char *text = "";
    for (size_t i = 0; i < n; i++) {
        const char *name = quoted(a, engine, files[i]);
        text = engine == FLEET_DUCKDB
                   ? arena_printf(a, "%s%s%s", text, i ? ", " : "", name)
                   : arena_printf(a,
                                  "%s%sSELECT line FROM file(%s, 'LineAsString', 'line String') "
                                  "WHERE isValidJSON(line)",
                                  text, i ? "\n    UNION ALL " : "", name);
    }
    return engine == FLEET_DUCKDB
               ? arena_printf(a,
                              "SELECT json AS line FROM read_json_objects([%s], format = "
                              "'newline_delimited', ignore_errors = true)",
                              text)
               : text;
}

/* The form of a word with its arguments in their places. */
static const char *word_text(struct arena *a, const char *form, const char *const arguments[2])
{
    const char *text = "";
    for (struct str rest = str_of(form); rest.s;) {
        struct str head = str_cut(&rest, '$');
        bool is_argument = rest.n && (rest.s[0] == '1' || rest.s[0] == '2');
        text = arena_printf(a, "%s%.*s%s", text, (int)head.n, head.s,
                            is_argument ? arguments[rest.s[0] - '1']
                            : rest.s    ? "$"
                                        : "");
        rest = is_argument ? (struct str){rest.s + 1, rest.n - 1} : rest;
    }
    return text;
}

/* Replaces the words of a text from the innermost on: each is then without braces. */
static const char *replace_words(struct arena *a, enum fleet_engine engine, const char *text)
{
    for (const char *end; (end = strchr(text, '}'));) {
        const char *begin = end;
        while (*begin != '{') {
            begin--;
        }
        struct str inside = {begin + 1, (size_t)(end - begin - 1)};
        struct str name = str_cut(&inside, ':'), first = str_cut(&inside, ':');
        const char *arguments[] = {arena_strndup(a, first.s ? first.s : "", first.n),
                                   arena_strndup(a, inside.s ? inside.s : "", inside.n)};
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            if (str_eq(name, str_of(words[i].name))) {
                text = arena_printf(a, "%.*s%s%s", (int)(begin - text), text,
                                    word_text(a, words[i].text[engine], arguments), end + 1);
                break;
            }
        }
    }
    return text;
}

const char *fleet_query(struct arena *a, enum fleet_engine engine, const char *name,
                        const char *const *files, size_t n)
{
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        if (strcmp(queries[i].name, name) == 0) {
            struct str rest = str_of(replace_words(a, engine, queries[i].text));
            struct str head = str_cut(&rest, '@');
            return arena_printf(a, "%.*s%s%.*s", (int)head.n, head.s,
                                lines_text(a, engine, files, n), (int)rest.n, rest.s);
        }
    }
    return NULL;
}
