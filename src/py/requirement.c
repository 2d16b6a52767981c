#include "py/requirement.h"

#include <stddef.h>
#include <string.h>

enum { REQUIREMENT_BYTES_MAX = 64 << 10, MARKER_NODES_MAX = 4096 };

enum marker_kind { MARKER_AND, MARKER_OR, MARKER_COMPARE };

enum compare_op {
    CMP_LE,
    CMP_LT,
    CMP_NE,
    CMP_EQ,
    CMP_GE,
    CMP_GT,
    CMP_COMPATIBLE,
    CMP_IDENTICAL,
    CMP_IN,
    CMP_NOT_IN,
};

struct value {
    bool variable;
    struct str text; // the name of the variable, or the quoted text
};

struct py_marker {
    enum marker_kind kind;
    const struct py_marker *left, *right; // and, or
    enum compare_op op;
    struct value a, b;
};

/* Text that is still to be read. */
struct reader {
    struct arena *arena;
    struct str rest;
    size_t nodes;
    struct gm_err *err;
};

static bool requirement_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool requirement_is_name_char(char c)
{
    return is_alnum(c) || c == '-' || c == '_' || c == '.';
}

bool py_name_valid(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        if (!requirement_is_name_char(name.s[i])) {
            return false;
        }
    }
    return name.n && is_alnum(name.s[0]) && is_alnum(name.s[name.n - 1]);
}

static void reader_skip(struct reader *r, size_t n)
{
    r->rest.s += n, r->rest.n -= n;
}

static void reader_skip_blanks(struct reader *r)
{
    while (r->rest.n && requirement_is_blank(r->rest.s[0])) {
        reader_skip(r, 1);
    }
}

static int reader_bad(struct reader *r, const char *what)
{
    struct str shown = r->rest;
    shown.n = shown.n > 60 ? 60 : shown.n;
    return gm_err_set(r->err, GM_ERR_FORMAT, "%s expected before \"%s\"", what,
                      str_printable(r->arena, str_dup(r->arena, shown)));
}

static bool reader_take(struct reader *r, const char *text)
{
    reader_skip_blanks(r);
    if (!str_starts(r->rest, text)) {
        return false;
    }
    reader_skip(r, strlen(text));
    return true;
}

/* Takes a word that is not followed by a letter, digit or '_'. */
static bool reader_take_word(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    reader_skip_blanks(r);
    if (!str_starts(r->rest, word)) {
        return false;
    }
    if (r->rest.n > n && (is_alnum(r->rest.s[n]) || r->rest.s[n] == '_')) {
        return false;
    }
    reader_skip(r, n);
    return true;
}

/* A name begins and ends with a letter or digit; what follows that is left. */
static bool reader_take_name(struct reader *r, struct str *ret)
{
    size_t n = 0, end = 0;
    reader_skip_blanks(r);
    while (n < r->rest.n && requirement_is_name_char(r->rest.s[n])) {
        n++;
        end = is_alnum(r->rest.s[n - 1]) ? n : end;
    }
    if (end == 0 || !is_alnum(r->rest.s[0])) {
        return false;
    }
    *ret = (struct str){r->rest.s, end};
    reader_skip(r, end);
    return true;
}

static int take_value(struct reader *r, struct value *ret)
{
    reader_skip_blanks(r);
    if (r->rest.n && (r->rest.s[0] == '"' || r->rest.s[0] == '\'')) {
        char quote = r->rest.s[0];
        reader_skip(r, 1);
        size_t n = str_find_char(r->rest, quote);
        if (n == r->rest.n) {
            return reader_bad(r, "a closing quote");
        }
        *ret = (struct value){false, {r->rest.s, n}};
        reader_skip(r, n + 1);
        return 0;
    }
    if (!reader_take_name(r, &ret->text)) {
        return reader_bad(r, "a marker variable or quoted text");
    }
    ret->variable = true;
    return 0;
}

/* Longer operators first. */
static const struct {
    const char *text;
    enum compare_op op;
} compare_ops[] = {
    {"===", CMP_IDENTICAL}, {"==", CMP_EQ}, {"~=", CMP_COMPATIBLE}, {"!=", CMP_NE},
    {"<=", CMP_LE},         {">=", CMP_GE}, {"<", CMP_LT},          {">", CMP_GT},
};

static int take_compare_op(struct reader *r, enum compare_op *ret)
{
    for (size_t i = 0; i < sizeof compare_ops / sizeof *compare_ops; i++) {
        if (reader_take(r, compare_ops[i].text)) {
            *ret = compare_ops[i].op;
            return 0;
        }
    }
    if (reader_take_word(r, "in")) {
        *ret = CMP_IN;
        return 0;
    }
    if (reader_take_word(r, "not") && reader_take_word(r, "in")) {
        *ret = CMP_NOT_IN;
        return 0;
    }
    return reader_bad(r, "a comparison");
}

static int node_new(struct reader *r, struct py_marker init, struct py_marker **ret)
{
    if (++r->nodes > MARKER_NODES_MAX) {
        return gm_err_set(r->err, GM_ERR_LIMIT, "marker with more than %d parts", MARKER_NODES_MAX);
    }
    *ret = arena_alloc(r->arena, sizeof **ret);
    **ret = init;
    return 0;
}

static int parse_or(struct reader *r, unsigned depth, struct py_marker **ret);

static int parse_atom(struct reader *r, unsigned depth, struct py_marker **ret)
{
    if (reader_take(r, "(")) {
        if (depth == PY_MARKER_DEPTH_MAX) {
            return gm_err_set(r->err, GM_ERR_LIMIT, "marker nested deeper than %d",
                              PY_MARKER_DEPTH_MAX);
        }
        int rc = parse_or(r, depth + 1, ret);
        return rc < 0 ? rc : reader_take(r, ")") ? 0 : reader_bad(r, "a closing parenthesis");
    }
    struct py_marker m = {.kind = MARKER_COMPARE};
    int rc = take_value(r, &m.a);
    if (rc == 0) {
        rc = take_compare_op(r, &m.op);
    }
    if (rc == 0) {
        rc = take_value(r, &m.b);
    }
    if (rc == 0 && !m.a.variable && !m.b.variable) {
        rc = gm_err_set(r->err, GM_ERR_FORMAT, "a marker compares two quoted texts");
    }
    return rc < 0 ? rc : node_new(r, m, ret);
}

/* One operand, then any number of `word` operand. "and" binds stronger than "or". */
static int parse_chain(struct reader *r, unsigned depth, enum marker_kind kind,
                       struct py_marker **ret)
{
    struct py_marker *left = NULL;
    bool is_and = kind == MARKER_AND;
    int rc = is_and ? parse_atom(r, depth, &left) : parse_chain(r, depth, MARKER_AND, &left);
    while (rc == 0 && reader_take_word(r, is_and ? "and" : "or")) {
        struct py_marker *right = NULL;
        rc = is_and ? parse_atom(r, depth, &right) : parse_chain(r, depth, MARKER_AND, &right);
        if (rc == 0) {
            rc = node_new(r, (struct py_marker){.kind = kind, .left = left, .right = right}, &left);
        }
    }
    if (rc == 0) {
        *ret = left;
    }
    return rc;
}

static int parse_or(struct reader *r, unsigned depth, struct py_marker **ret)
{
    return parse_chain(r, depth, MARKER_OR, ret);
}

static int parse_marker(struct reader *r, const struct py_marker **ret)
{
    struct py_marker *m = NULL;
    int rc = parse_or(r, 0, &m);
    reader_skip_blanks(r);
    if (rc == 0 && r->rest.n) {
        rc = reader_bad(r, "the end of the marker");
    }
    if (rc == 0) {
        *ret = m;
    }
    return rc;
}

static int reader_init(struct reader *r, struct arena *a, struct str text, struct gm_err *err)
{
    *r = (struct reader){.arena = a, .rest = text, .err = err};
    if (text.n > REQUIREMENT_BYTES_MAX) {
        return gm_err_set(err, GM_ERR_LIMIT, "requirement longer than %d bytes",
                          REQUIREMENT_BYTES_MAX);
    }
    return 0;
}

int py_marker_parse(struct arena *a, struct str text, const struct py_marker **ret,
                    struct gm_err *err)
{
    struct reader r;
    int rc = reader_init(&r, a, text, err);
    return rc < 0 ? rc : parse_marker(&r, ret);
}

static int parse_extras(struct reader *r, struct py_requirement *req)
{
    VEC(struct str) extras = {0};
    struct str name;
    if (!reader_take(r, "[")) {
        return 0;
    }
    if (!reader_take(r, "]")) {
        do {
            if (!reader_take_name(r, &name)) {
                return reader_bad(r, "the name of an extra");
            }
            if (extras.n == PY_EXTRAS_MAX) {
                return gm_err_set(r->err, GM_ERR_LIMIT, "more than %d extras", PY_EXTRAS_MAX);
            }
            VEC_PUSH(r->arena, &extras, name);
        } while (reader_take(r, ","));
        if (!reader_take(r, "]")) {
            return reader_bad(r, "\"]\"");
        }
    }
    req->extras = extras.items, req->n_extras = extras.n;
    return 0;
}

/* The URL runs to the first blank; a marker behind it needs that blank before its ';'. */
static int parse_url(struct reader *r, struct py_requirement *req)
{
    reader_skip_blanks(r);
    size_t n = 0;
    while (n < r->rest.n && !requirement_is_blank(r->rest.s[n])) {
        n++;
    }
    if (n == 0) {
        return reader_bad(r, "a URL");
    }
    req->url = (struct str){r->rest.s, n};
    reader_skip(r, n);
    return 0;
}

/* The specifier list runs to the ';' of the marker, in parentheses or not. */
static int parse_specifiers(struct reader *r, struct py_requirement *req)
{
    bool parentheses = reader_take(r, "(");
    size_t n = str_find_char(r->rest, parentheses ? ')' : ';');
    struct str list = {r->rest.s, n};
    if (parentheses && n == r->rest.n) {
        return reader_bad(r, "\")\"");
    }
    reader_skip(r, parentheses ? n + 1 : n);
    return py_specifiers_parse(r->arena, list, &req->specifiers, r->err);
}

int py_requirement_parse(struct arena *a, struct str text, struct py_requirement *ret,
                         struct gm_err *err)
{
    struct reader r;
    struct py_requirement req = {0};
    int rc = reader_init(&r, a, text, err);
    if (rc == 0 && !reader_take_name(&r, &req.name)) {
        rc = reader_bad(&r, "a package name");
    }
    if (rc == 0) {
        rc = parse_extras(&r, &req);
    }
    if (rc == 0) {
        rc = reader_take(&r, "@") ? parse_url(&r, &req) : parse_specifiers(&r, &req);
    }
    if (rc == 0 && reader_take(&r, ";")) {
        req.marker_text = str_trim(r.rest);
        rc = parse_marker(&r, &req.marker);
    }
    reader_skip_blanks(&r);
    if (rc == 0 && r.rest.n) {
        rc = reader_bad(&r, "the end of the requirement");
    }
    if (rc == 0) {
        *ret = req;
    }
    return rc;
}

enum variable_kind { VARIABLE_TEXT, VARIABLE_VERSION, VARIABLE_EXTRA };

/* The variables of PEP 508 and their older spellings; those compared as versions are marked. */
static const struct variable {
    const char *name;
    enum variable_kind kind;
    size_t offset;
} variables[] = {
#define VARIABLE(name, kind, field)                                                                \
    {                                                                                              \
        name, kind, offsetof(struct py_marker_env, field)                                          \
    }
    VARIABLE("python_version", VARIABLE_VERSION, python_version),
    VARIABLE("python_full_version", VARIABLE_VERSION, python_full_version),
    VARIABLE("sys_platform", VARIABLE_TEXT, sys_platform),
    VARIABLE("sys.platform", VARIABLE_TEXT, sys_platform),
    VARIABLE("platform_system", VARIABLE_TEXT, platform_system),
    VARIABLE("platform_machine", VARIABLE_TEXT, platform_machine),
    VARIABLE("platform.machine", VARIABLE_TEXT, platform_machine),
    VARIABLE("platform_release", VARIABLE_VERSION, platform_release),
    VARIABLE("platform_version", VARIABLE_TEXT, platform_version),
    VARIABLE("platform.version", VARIABLE_TEXT, platform_version),
    VARIABLE("os_name", VARIABLE_TEXT, os_name),
    VARIABLE("os.name", VARIABLE_TEXT, os_name),
    VARIABLE("implementation_name", VARIABLE_TEXT, implementation_name),
    VARIABLE("implementation_version", VARIABLE_VERSION, implementation_version),
    VARIABLE("platform_python_implementation", VARIABLE_TEXT, platform_python_implementation),
    VARIABLE("platform.python_implementation", VARIABLE_TEXT, platform_python_implementation),
    VARIABLE("python_implementation", VARIABLE_TEXT, platform_python_implementation),
    VARIABLE("extra", VARIABLE_EXTRA, extra),
#undef VARIABLE
};

static const struct variable *variable_find(const struct value *v)
{
    for (size_t i = 0; v->variable && i < sizeof variables / sizeof *variables; i++) {
        if (str_is(v->text, variables[i].name)) {
            return &variables[i];
        }
    }
    return NULL;
}

/* The text of one side; .s is NULL when it is not known. */
static struct str value_text(const struct value *v, const struct py_marker_env *env)
{
    if (!v->variable) {
        return v->text;
    }
    const struct variable *var = variable_find(v);
    if (!var) {
        return (struct str){NULL, 0};
    }
    const char *text;
    memcpy(&text, (const char *)env + var->offset, sizeof text);
    return str_of(!text && var->kind == VARIABLE_EXTRA ? "" : text);
}

static bool str_contains(struct arena *a, struct str needle, struct str hay)
{
    return needle.n == 0 || str_find(hay, str_dup(a, needle)) < hay.n;
}

/* Words are equal or not; an ordering between them has no meaning and holds when they are equal,
 * as in the reference implementation ("packaging"). */
static enum py_answer compare_text(struct arena *a, enum compare_op op, struct str x, struct str y)
{
    switch (op) {
    case CMP_EQ:
    case CMP_LE:
    case CMP_GE: return str_eq(x, y) ? PY_YES : PY_NO;
    case CMP_NE: return str_eq(x, y) ? PY_NO : PY_YES;
    case CMP_IN: return str_contains(a, x, y) ? PY_YES : PY_NO;
    case CMP_NOT_IN: return str_contains(a, x, y) ? PY_NO : PY_YES;
    case CMP_LT:
    case CMP_GT: return PY_NO;
    case CMP_COMPATIBLE:
    case CMP_IDENTICAL: return PY_UNKNOWN;
    }
    return PY_UNKNOWN;
}

static const char *compare_op_text(enum compare_op op)
{
    for (size_t i = 0; i < sizeof compare_ops / sizeof *compare_ops; i++) {
        if (compare_ops[i].op == op) {
            return compare_ops[i].text;
        }
    }
    return NULL;
}

/* As a specifier, if it is one: "3.8.1" >= "3.8" with the left side as the version. */
static bool compare_version(struct arena *a, enum compare_op op, struct str x, struct str y,
                            enum py_answer *ret)
{
    const char *text = compare_op_text(op);
    struct py_specifiers one;
    if (!text || str_find_char(y, ',') < y.n) {
        return false;
    }
    char *spec = arena_printf(a, "%s%s", text, str_dup(a, y));
    if (py_specifiers_parse(a, str_of(spec), &one, NULL) < 0) {
        return false;
    }
    *ret = py_specifiers_match(&one, x);
    return true;
}

static enum py_answer compare_eval(struct arena *a, const struct py_marker *m,
                                   const struct py_marker_env *env)
{
    struct str x = value_text(&m->a, env), y = value_text(&m->b, env);
    const struct variable *var = m->a.variable ? variable_find(&m->a) : variable_find(&m->b);
    if (!x.s || !y.s || !var) {
        return PY_UNKNOWN;
    }
    enum py_answer answer = PY_UNKNOWN;
    if (var->kind == VARIABLE_VERSION && compare_version(a, m->op, x, y, &answer)) {
        return answer;
    }
    if (var->kind == VARIABLE_EXTRA) {
        x = str_of(py_name_normal(a, x)), y = str_of(py_name_normal(a, y));
    }
    return compare_text(a, m->op, x, y);
}

static enum py_answer marker_eval(struct arena *a, const struct py_marker *m,
                                  const struct py_marker_env *env)
{
    if (m->kind == MARKER_COMPARE) {
        return compare_eval(a, m, env);
    }
    enum py_answer decides = m->kind == MARKER_AND ? PY_NO : PY_YES;
    enum py_answer x = marker_eval(a, m->left, env);
    if (x == decides) {
        return x;
    }
    enum py_answer y = marker_eval(a, m->right, env);
    return y == decides || x == PY_YES || x == PY_NO ? y : x;
}

enum py_answer py_marker_eval(struct arena *a, const struct py_marker *m,
                              const struct py_marker_env *env)
{
    return m ? marker_eval(a, m, env) : PY_YES;
}

/* The next character of a normalised name, or 0 at the end. */
static char next_normal(struct str *s)
{
    if (s->n == 0) {
        return '\0';
    }
    char c = s->s[0];
    if (c == '-' || c == '_' || c == '.') {
        while (s->n && (s->s[0] == '-' || s->s[0] == '_' || s->s[0] == '.')) {
            s->s++, s->n--;
        }
        return '-';
    }
    s->s++, s->n--;
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

char *py_name_normal(struct arena *a, struct str name)
{
    char *out = arena_alloc(a, name.n + 1);
    for (size_t n = 0; name.n; n++) {
        out[n] = next_normal(&name);
    }
    return out;
}

bool py_name_eq(struct str a, struct str b)
{
    while (a.n && b.n) {
        if (next_normal(&a) != next_normal(&b)) {
            return false;
        }
    }
    return a.n == 0 && b.n == 0;
}
