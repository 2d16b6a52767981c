#include "py/version.h"

#include <string.h>

#include "base/str.h"

static bool version_is_word(char c)
{
    return str_is_digit(c) || (str_lower(c) >= 'a' && str_lower(c) <= 'z');
}

static bool is_separator(char c)
{
    return c == '.' || c == '-' || c == '_';
}

static void version_skip(struct str *s, size_t n)
{
    s->s += n, s->n -= n;
}

static bool starts_nocase(struct str s, const char *word)
{
    size_t n = strlen(word);
    return s.n >= n && str_eq_nocase((struct str){s.s, n}, (struct str){word, n});
}

/* Takes the digits at the head; false if there are none or they do not fit. */
static bool version_take_number(struct str *s, uint64_t *ret)
{
    size_t n = 0;
    while (n < s->n && str_is_digit(s->s[n])) {
        n++;
    }
    if (!str_u64((struct str){s->s, n}, ret)) {
        return false;
    }
    version_skip(s, n);
    return true;
}

/* What may stand between release and local label; longer spellings first. */
enum label_kind { LABEL_PRE, LABEL_POST, LABEL_DEV };

static const struct label {
    enum label_kind kind;
    enum py_pre pre;
    const char *word;
} labels[] = {
    {LABEL_PRE, PY_PRE_ALPHA, "alpha"}, {LABEL_PRE, PY_PRE_ALPHA, "a"},
    {LABEL_PRE, PY_PRE_BETA, "beta"},   {LABEL_PRE, PY_PRE_BETA, "b"},
    {LABEL_PRE, PY_PRE_RC, "preview"},  {LABEL_PRE, PY_PRE_RC, "pre"},
    {LABEL_PRE, PY_PRE_RC, "c"},        {LABEL_PRE, PY_PRE_RC, "rc"},
    {LABEL_POST, PY_PRE_NONE, "post"},  {LABEL_POST, PY_PRE_NONE, "rev"},
    {LABEL_POST, PY_PRE_NONE, "r"},     {LABEL_DEV, PY_PRE_NONE, "dev"},
};

/*
 * Takes "[sep] label [sep] [number]" of one kind. Returns the label's row, or NULL if none is
 * there; *ret_bad is set when the number does not fit.
 */
static const struct label *take_label(struct str *s, enum label_kind kind, uint64_t *ret_number,
                                      bool *ret_bad)
{
    struct str rest = *s;
    if (rest.n && is_separator(rest.s[0])) {
        version_skip(&rest, 1);
    }
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        if (labels[i].kind != kind || !starts_nocase(rest, labels[i].word)) {
            continue;
        }
        version_skip(&rest, strlen(labels[i].word));
        if (rest.n && is_separator(rest.s[0])) {
            version_skip(&rest, 1);
        }
        *ret_number = 0;
        if (rest.n && str_is_digit(rest.s[0]) && !version_take_number(&rest, ret_number)) {
            *ret_bad = true;
        }
        *s = rest;
        return &labels[i];
    }
    return NULL;
}

static bool take_release(struct str *s, struct py_version *v)
{
    for (;;) {
        if (v->n_release == PY_RELEASE_MAX || !version_take_number(s, &v->release[v->n_release])) {
            return false;
        }
        v->n_release++;
        if (s->n < 2 || s->s[0] != '.' || !str_is_digit(s->s[1])) {
            return true;
        }
        version_skip(s, 1);
    }
}

/* "-1" right behind the release or the pre-release is a post-release too. */
static bool take_post(struct str *s, struct py_version *v)
{
    bool bad = false;
    if (s->n >= 2 && s->s[0] == '-' && str_is_digit(s->s[1])) {
        version_skip(s, 1);
        v->has_post = true;
        return version_take_number(s, &v->post_number);
    }
    v->has_post = take_label(s, LABEL_POST, &v->post_number, &bad) != NULL;
    return !bad;
}

/* The local label: words of letters and digits with single separators between them. */
static bool take_local(struct str *s, struct py_version *v)
{
    if (!s->n) {
        return true;
    }
    if (s->s[0] != '+' || s->n < 2) {
        return false;
    }
    version_skip(s, 1);
    for (size_t i = 0; i < s->n; i++) {
        bool between = i && i + 1 < s->n && is_separator(s->s[i]) && version_is_word(s->s[i - 1]);
        if (!version_is_word(s->s[i]) && !between) {
            return false;
        }
    }
    v->local = *s;
    return true;
}

bool py_version_parse(struct str text, struct py_version *ret)
{
    struct py_version v = {0};
    struct str s = str_trim(text);
    bool bad = false;
    if (s.n && str_lower(s.s[0]) == 'v') {
        version_skip(&s, 1);
    }
    struct str behind_epoch = s;
    if (version_take_number(&behind_epoch, &v.epoch) && behind_epoch.n &&
        behind_epoch.s[0] == '!') {
        version_skip(&behind_epoch, 1);
        s = behind_epoch;
    } else {
        v.epoch = 0;
    }
    if (!take_release(&s, &v)) {
        return false;
    }
    const struct label *pre = take_label(&s, LABEL_PRE, &v.pre_number, &bad);
    v.pre = pre ? pre->pre : PY_PRE_NONE;
    if (bad || !take_post(&s, &v)) {
        return false;
    }
    v.has_dev = take_label(&s, LABEL_DEV, &v.dev_number, &bad) != NULL;
    if (bad || !take_local(&s, &v)) {
        return false;
    }
    *ret = v;
    return true;
}

static int cmp_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static uint64_t release_at(const struct py_version *v, size_t i)
{
    return i < v->n_release ? v->release[i] : 0;
}

static int cmp_release(const struct py_version *a, const struct py_version *b)
{
    int c = cmp_u64(a->epoch, b->epoch);
    for (size_t i = 0; c == 0 && i < PY_RELEASE_MAX; i++) {
        c = cmp_u64(release_at(a, i), release_at(b, i));
    }
    return c;
}

/* A dev release alone sorts before every pre-release, a release without label after them. */
static int pre_rank(const struct py_version *v)
{
    if (v->pre != PY_PRE_NONE) {
        return (int)v->pre;
    }
    return v->has_dev && !v->has_post ? 0 : PY_PRE_RC + 1;
}

static struct str take_local_part(struct str *s)
{
    size_t n = 0;
    while (n < s->n && !is_separator(s->s[n])) {
        n++;
    }
    struct str part = {s->s, n};
    version_skip(s, n < s->n ? n + 1 : n);
    return part;
}

static bool all_digits(struct str s)
{
    size_t n = 0;
    while (n < s.n && str_is_digit(s.s[n])) {
        n++;
    }
    return n == s.n;
}

static struct str without_zeros(struct str s)
{
    while (s.n > 1 && s.s[0] == '0') {
        version_skip(&s, 1);
    }
    return s;
}

/* Numbers as numbers of any length, words without regard to case; a number is above a word. */
static int cmp_local_part(struct str a, struct str b)
{
    bool a_number = all_digits(a), b_number = all_digits(b);
    if (a_number != b_number) {
        return a_number ? 1 : -1;
    }
    if (a_number) {
        a = without_zeros(a), b = without_zeros(b);
        return a.n != b.n ? (a.n > b.n ? 1 : -1) : str_cmp(a, b);
    }
    for (size_t i = 0; i < a.n && i < b.n; i++) {
        int c = str_lower(a.s[i]) - str_lower(b.s[i]);
        if (c) {
            return c;
        }
    }
    return (a.n > b.n) - (a.n < b.n);
}

static int cmp_local(struct str a, struct str b)
{
    while (a.n && b.n) {
        int c = cmp_local_part(take_local_part(&a), take_local_part(&b));
        if (c) {
            return c;
        }
    }
    return (a.n > 0) - (b.n > 0);
}

static int cmp_public(const struct py_version *a, const struct py_version *b)
{
    int c = cmp_release(a, b);
    if (c == 0) {
        c = pre_rank(a) - pre_rank(b);
    }
    if (c == 0) {
        c = cmp_u64(a->pre_number, b->pre_number);
    }
    if (c == 0) {
        c = a->has_post - b->has_post;
    }
    if (c == 0) {
        c = cmp_u64(a->post_number, b->post_number);
    }
    if (c == 0) {
        c = b->has_dev - a->has_dev;
    }
    return c ? c : cmp_u64(a->dev_number, b->dev_number);
}

int py_version_cmp(const struct py_version *a, const struct py_version *b)
{
    int c = cmp_public(a, b);
    return c ? c : cmp_local(a->local, b->local);
}

/* Longer operators first. */
static const struct {
    const char *text;
    enum py_specifier_op op;
} operators[] = {
    {"===", PY_OP_IDENTICAL}, {"==", PY_OP_EQ}, {"~=", PY_OP_COMPATIBLE}, {"!=", PY_OP_NE},
    {"<=", PY_OP_LE},         {">=", PY_OP_GE}, {"<", PY_OP_LT},          {">", PY_OP_GT},
};

static bool take_operator(struct str *s, enum py_specifier_op *ret)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (str_starts(*s, operators[i].text)) {
            version_skip(s, strlen(operators[i].text));
            *ret = operators[i].op;
            return true;
        }
    }
    return false;
}

static bool has_label(const struct py_version *v)
{
    return v->pre != PY_PRE_NONE || v->has_post || v->has_dev || v->local.n;
}

static bool specifier_parse(struct str part, struct py_specifier *ret)
{
    struct py_specifier s = {0};
    if (!take_operator(&part, &s.op)) {
        return false;
    }
    s.text = str_trim(part);
    if (s.op == PY_OP_IDENTICAL) {
        *ret = s;
        return true;
    }
    bool equality = s.op == PY_OP_EQ || s.op == PY_OP_NE;
    struct str version = s.text;
    if (equality && str_ends(version, ".*")) {
        s.prefix = true;
        version.n -= 2;
    }
    if (!py_version_parse(version, &s.version) || (s.prefix && has_label(&s.version)) ||
        (s.version.local.n && !equality) || (s.op == PY_OP_COMPATIBLE && s.version.n_release < 2)) {
        return false;
    }
    *ret = s;
    return true;
}

int py_specifiers_parse(struct arena *a, struct str text, struct py_specifiers *ret,
                        struct gm_err *err)
{
    VEC(struct py_specifier) items = {0};
    while (text.s) {
        struct str part = str_trim(str_cut(&text, ','));
        struct py_specifier one;
        if (part.n == 0) {
            continue;
        }
        if (items.n == PY_SPECIFIERS_MAX) {
            return gm_err_set(err, GM_ERR_LIMIT, "more than %d version specifiers",
                              PY_SPECIFIERS_MAX);
        }
        if (!specifier_parse(part, &one)) {
            return gm_err_set(err, GM_ERR_FORMAT, "\"%s\" is not a version specifier",
                              str_printable(a, str_dup(a, part)));
        }
        VEC_PUSH(a, &items, one);
    }
    *ret = (struct py_specifiers){items.items, items.n};
    return 0;
}

/* Whether v's release begins with the first n segments of the prefix. */
static bool match_prefix(const struct py_version *v, const struct py_version *prefix, size_t n)
{
    if (v->epoch != prefix->epoch) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (release_at(v, i) != prefix->release[i]) {
            return false;
        }
    }
    return true;
}

static bool match_equal(const struct py_specifier *s, const struct py_version *v)
{
    if (s->prefix) {
        return match_prefix(v, &s->version, s->version.n_release);
    }
    return s->version.local.n ? py_version_cmp(v, &s->version) == 0
                              : cmp_public(v, &s->version) == 0;
}

/* "<3.1" excludes 3.1.dev0 and 3.1rc1 unless it names such a release itself. */
static bool match_less(const struct py_version *s, const struct py_version *v)
{
    bool s_early = s->pre != PY_PRE_NONE || s->has_dev;
    bool v_early = v->pre != PY_PRE_NONE || v->has_dev;
    if (!s_early && v_early && cmp_release(v, s) == 0) {
        return false;
    }
    return py_version_cmp(v, s) < 0;
}

/* ">3.1" excludes 3.1.post1 unless it names a post-release itself, and never admits 3.1+local. */
static bool match_greater(const struct py_version *s, const struct py_version *v)
{
    struct py_version origin = *v; // what v is a post-release of
    origin.has_post = origin.has_dev = false;
    origin.post_number = origin.dev_number = 0;
    if (!s->has_post && v->has_post && cmp_public(&origin, s) == 0) {
        return false;
    }
    return cmp_public(v, s) > 0;
}

bool py_specifier_match(const struct py_specifier *s, const struct py_version *v, struct str text)
{
    switch (s->op) {
    case PY_OP_EQ: return match_equal(s, v);
    case PY_OP_NE: return !match_equal(s, v);
    case PY_OP_COMPATIBLE:
        return cmp_public(v, &s->version) >= 0 &&
               match_prefix(v, &s->version, s->version.n_release - 1);
    case PY_OP_LE: return cmp_public(v, &s->version) <= 0;
    case PY_OP_LT: return match_less(&s->version, v);
    case PY_OP_GE: return cmp_public(v, &s->version) >= 0;
    case PY_OP_GT: return match_greater(&s->version, v);
    case PY_OP_IDENTICAL: return str_eq_nocase(s->text, str_trim(text));
    }
    return false;
}

enum py_answer py_specifiers_match(const struct py_specifiers *set, struct str text)
{
    struct py_version v = {0};
    bool parsed = py_version_parse(text, &v);
    enum py_answer answer = PY_YES;
    for (size_t i = 0; i < set->n; i++) {
        if (!parsed && set->items[i].op != PY_OP_IDENTICAL) {
            answer = PY_UNKNOWN;
        } else if (!py_specifier_match(&set->items[i], &v, text)) {
            return PY_NO;
        }
    }
    return answer;
}
