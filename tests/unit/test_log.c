/* From text to facts and causes, with a small knowledge base of the test's own; and the rules that
 * are built in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kbfixture.h"
#include "log/internal.h"

/* ------------------------------------------------------------------ a clock */

static unsigned clock_asked;

/* In place of the C library's: an hour passes from one question to the next. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
    (void)clock;
    clock_asked++;
    *ret = (struct timespec){.tv_sec = 3600 * (time_t)clock_asked};
    return 0;
}

/* ------------------------------------------------------------------ a knowledge base */

static const char base[] =
    "cause: c-general\n"
    "lines:\n"
    "- id: load\n"
    "  literal: 'cannot load'\n"
    "  fact: not-loaded\n"
    "  fields: {vendor: v}\n"
    "  regex: 'cannot load (?P<library>lib[\\w.]+)(?: of (?P<version>[\\d.]+))?'\n"
    "- {id: oom, literals: ['out of memory', alloc_failed], fact: memory}\n"
    "- {id: quoted, literal: 'version \"', regex: 'version \"(?P<version>[^\"]+)\"', fact: "
    "version}\n"
    "- {id: slow, literal: 'slow slow', regex: '^(?:(?:\\w+)\\s?)+(?<!ab)$', fact: slow}\n"
    "- {id: arch, literal: 'arch ', regex: 'arch (?P<arch>\\S+)', fact: arch}\n"
    "- {id: arches, literal: 'list [', regex: 'list \\[(?P<arches>[^\\]]*)', fact: list}\n"
    "- {id: drv, literal: 'driver ', regex: 'driver (?P<driver>[\\d.]+)', fact: driver}\n"
    "- {id: cu, literal: 'cuda ', regex: 'cuda (?P<cuda>[\\d.]+)', fact: cuda}\n"
    "- {id: asked, literal: 'works?', regex: 'works\\?', fact: memory, refuted_by: '^yes\\b'}\n"
    "- {id: file, literal: 'file ', regex: 'file (?P<file>\\S+)', fact: file-present}\n"
    "- {id: dist, literal: 'dist ', regex: 'dist (?P<package>\\S+) (?P<version>\\S+)',\n"
    "   fact: installed}\n"
    "- {id: wants, literal: 'wants ', regex: 'wants (?P<library>\\S+)', fact: wanted}\n"
    "- {id: os, literal: windows, fact: platform, fields: {platform: windows}}\n"
    "failures:\n"
    "- {id: arch-rule, all: [list], test: arch-not-in-list, confidence: certain, culprit: "
    "'{arch}',\n"
    "   says: '{arch} of {arches}'}\n"
    "- {id: drv-rule, all: [cuda], test: [driver-below-cuda], confidence: certain,\n"
    "   culprit: '{driver}', says: s}\n"
    "- {id: other-major, all: [wanted], test: [other-major-installed], confidence: certain,\n"
    "   culprit: '{library}', says: s}\n"
    "- {id: same-major, all: [wanted], test: [same-major-installed], confidence: certain,\n"
    "   culprit: '{library}', says: s}\n"
    "- id: general\n"
    "  all: [not-loaded]\n"
    "  shows: hint\n"
    "  confidence: possible\n"
    "  culprit: '{library}'\n"
    "  says: '{nothing|library} {not closed'\n"
    "  decides: ask\n"
    "  repairs:\n"
    "  - {platform: windows, says: w}\n"
    "  - {platform: linux, says: l, command: 'do {library}'}\n"
    "  - {says: a}\n"
    "- id: near-rule\n"
    "  all: [not-loaded, {fact: memory, near: 2}]\n"
    "  shows: reason\n"
    "  overrides: [special]\n"
    "  confidence: likely\n"
    "  culprit: x\n"
    "  says: n\n"
    "- id: special\n"
    "  all:\n"
    "  - {fact: [not-loaded, version], library: '^LIBCUDNN', not: {version: '^9'}}\n"
    "  any: [memory, not-loaded]\n"
    "  confidence: certain\n"
    "  culprit: '{library}'\n"
    "  says: s\n";

static const char other_base[] =
    "cause: none\n"
    "failures:\n"
    "- {id: memory-rule, all: [memory], none: [not-loaded], shows: symptom, confidence: likely,\n"
    "   culprit: x, says: m}\n";

struct world {
    struct fixture f;
    struct node_file files[2];
    struct log_rules *rules;
};

static int rules_read(struct world *w)
{
    int rc = node_read_yaml(&w->f.arena, "base.yaml", str_of(base), &w->files[0], &w->f.err);
    rc = rc < 0 ? rc
                : node_read_yaml(&w->f.arena, "other.yaml", str_of(other_base), &w->files[1],
                                 &w->f.err);
    struct node_files files = {w->files, 2};
    return rc < 0 ? rc
                  : log_rules_of(&w->f.kb, &w->f.arena, &(struct log_sources){.files = &files},
                                 &w->rules, &w->f.err);
}

static int setup_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    arena_init(&w->f.arena, 0, NULL, NULL);
    w->f.root = ROOT_EMPTY;
    if (root_open(&w->f.root, "/", &w->f.err) < 0 ||
        kb_open(&w->f.kb, &w->f.arena, &w->f.root, NULL, &w->f.err) < 0 || rules_read(w) < 0) {
        fail_msg("%s", w->f.err.text);
    }
    *state = w;
    return 0;
}

static int teardown_world(void **state)
{
    struct world *w = *state;
    log_rules_close(w->rules);
    root_close(&w->f.root);
    arena_release(&w->f.arena);
    free(w);
    return 0;
}

/* ------------------------------------------------------------------ facts */

/* Every fact as "LINE:KIND(FIELD=VALUE,...)", in order. */
static const char *told(struct world *w, const char *text, size_t n, size_t piece)
{
    struct arena *a = &w->f.arena;
    struct log *l = log_open(w->rules, a);
    struct log_result r;
    for (size_t at = 0; at < n; at += piece) {
        log_feed(l, text + at, n - at < piece ? n - at : piece);
    }
    log_end(l);
    log_judge(l, a, &r);
    const char *out = "";
    for (size_t i = 0; i < r.n_facts; i++) {
        const struct log_fact *f = r.facts[i];
        out = arena_printf(a, "%s%s%d:%s(", out, i ? " " : "", (int)f->line, f->kind);
        for (size_t k = 0; k < f->n_fields; k++) {
            out = arena_printf(a, "%s%s%s=%s", out, k ? "," : "", f->fields[k].name,
                               f->fields[k].value);
        }
        out = arena_printf(a, "%s)", out);
    }
    return out;
}

static const struct {
    const char *name, *text, *facts;
} lines[] = {
    {"plain", "a\nx cannot load libx.so of 9.1 y\n",
     "2:not-loaded(vendor=v,library=libx.so,version=9.1)"},
    {"no line end", "Cannot Load libx.so", "1:not-loaded(vendor=v,library=libx.so)"},
    {"CRLF", "a\r\nb\r\ncannot load libx\r\n", "3:not-loaded(vendor=v,library=libx)"},
    {"carriage returns", "10%\r20% out of memory\r30%\nalloc_failed\n", "1:memory() 2:memory()"},
    {"colours", "\033[31mcannot \033[1;32mload\033[0m lib\033]0;title\007x.so\n",
     "1:not-loaded(vendor=v,library=libx.so)"},
    {"escape without end", "\033]0;cannot load libx\nout of memory\n",
     "1:not-loaded(vendor=v,library=libx) 2:memory()"},
    {"note", "note: cannot load libx\n", "1:not-loaded(vendor=v,library=libx)"},
    {"compose", "web-1  | cannot load libx\n", "1:not-loaded(vendor=v,library=libx)"},
    {"JSON",
     "{\"log\":\"a\\ncannot load libx\\nversion \\\"9\\\"\",\"n\":{\"x\":[\"out\\u0020of "
     "memory\"]}}\n",
     "1:not-loaded(vendor=v,library=libx) 1:version(version=9) 1:memory()"},
    {"no JSON", "{\"log\": cannot load libx \\ \n", "1:not-loaded(vendor=v,library=libx)"},
    {"several in one line", "cannot load liba cannot load libb\n",
     "1:not-loaded(vendor=v,library=liba) 1:not-loaded(vendor=v,library=libb)"},
    {"ISO 8859-1", "f\xfcr cannot load libx\n", "1:not-loaded(vendor=v,library=libx)"},
    {"pip list", "Package  Version\n-------- -------\ntorch    2.1.0+cu118\nnumpy    2.0\n\nx 1\n",
     "3:installed(package=torch,version=2.1.0+cu118) 4:installed(package=numpy,version=2.0)"},
    {"conda list",
     "# Name   Version   Build  Channel\r\npytorch  2.1.0  py3_0  conda-forge\r\nout of memory\r\n",
     "2:installed(package=pytorch,version=2.1.0) 3:memory()"},
    {"byte order mark",
     "\xef\xbb\xbf"
     "cannot load libx",
     "1:not-loaded(vendor=v,library=libx)"},
    {"the same again and again",
     "out of memory\nout of memory\nout of memory\nout of memory\n"
     "out of memory\nout of memory\n",
     "1:memory() 2:memory() 3:memory() 4:memory()"},
};

/* A log gives the same facts in pieces of any size. */
static void test_lines(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        for (size_t piece = 1; piece < 40; piece++) {
            const char *got = told(w, lines[i].text, strlen(lines[i].text), piece);
            if (strcmp(got, lines[i].facts) != 0) {
                fail_msg("%s, in pieces of %zu: %s", lines[i].name, piece, got);
            }
        }
    }
}

static void test_utf16(void **state)
{
    struct world *w = *state;
    const char *text = "a\r\ncannot load libx\r\n";
    for (int big = 0; big < 2; big++) {
        for (int mark = 0; mark < 2; mark++) {
            char wide[100];
            size_t n = 0;
            if (mark) {
                wide[n++] = (char)(big ? 0xfe : 0xff);
                wide[n++] = (char)(big ? 0xff : 0xfe);
            }
            for (const char *c = text; *c; c++) {
                wide[n++] = big ? 0 : *c;
                wide[n++] = big ? *c : 0;
            }
            for (size_t piece = 1; piece < 9; piece++) {
                assert_string_equal(told(w, wide, n, piece), "2:not-loaded(vendor=v,library=libx)");
            }
        }
    }
}

/* One line of many megabytes: what it holds is found, wherever it stands. */
static void test_long_line(void **state)
{
    struct world *w = *state;
    enum { BYTES = 3 << 20 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    static const size_t places[] = {0, 8185, 65530, 524280, 524288, 1048570, BYTES - 40};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memset(text, 'x', BYTES);
        memcpy(text + places[i], " cannot load libfar.so.9 ", 25);
        assert_string_equal(told(w, text, BYTES, 100000),
                            "1:not-loaded(vendor=v,library=libfar.so.9)");
    }
    free(text);
}

/* What a log took to read has no say in what is told of it: a clock by which each search takes an
 * hour is not asked, and the same text gets the same answer again. An expression that takes too
 * many steps is given up, and the rest goes on. Its automaton cannot tell, as it does not look back
 * over two letters. */
static void check_slow(struct world *w)
{
    struct log *l = log_open(w->rules, &w->f.arena);
    unsigned asked = clock_asked;
    char line[400];
    memset(line, 'a', sizeof line);
    memcpy(line, "slow slow ", 10);
    memcpy(line + sizeof line - 3, "ab\n", 3);
    for (int i = 0; i < 200; i++) {
        log_feed(l, line, sizeof line);
    }
    log_feed(l, "out of memory\n", 14);
    log_end(l);
    struct log_result r;
    log_judge(l, &w->f.arena, &r);
    assert_true(r.gave_up);
    assert_int_equal(r.n_facts, 1);
    assert_int_equal(r.lines, 202);
    assert_int_equal(clock_asked, asked);
}

static void test_slow(void **state)
{
    check_slow(*state);
    check_slow(*state);
}

/* Long lines that need few steps are none that an expression is given up for, by any clock. */
static void test_no_clock(void **state)
{
    struct world *w = *state;
    char line[400];
    unsigned asked = clock_asked;
    memset(line, 'x', sizeof line);
    memcpy(line, "slow slow\n", 10);
    memcpy(line + 10, "cannot load libfar.so.9 ", 24);
    line[sizeof line - 1] = '\n';
    assert_string_equal(told(w, line, sizeof line, sizeof line),
                        "1:slow() 2:not-loaded(vendor=v,library=libfar.so.9)");
    assert_int_equal(clock_asked, asked);
}

/* Different facts without end: only so many are kept, the earliest. */
static void test_bounded(void **state)
{
    struct world *w = *state;
    struct log *l = log_open(w->rules, &w->f.arena);
    for (int i = 0; i < 100000; i++) {
        char line[60];
        int n = snprintf(line, sizeof line, "cannot load lib%d\n", i);
        log_feed(l, line, (size_t)n);
    }
    log_end(l);
    struct log_result r;
    log_judge(l, &w->f.arena, &r);
    assert_true(r.facts_dropped);
    assert_int_equal(r.n_facts, LOG_PER_SIGNATURE_MAX);
    assert_int_equal(r.facts[0]->line, 1);
}

static void test_processes(void **state)
{
    static const struct {
        const char *line, *body;
        bool process;
    } cases[] = {
        {"2026-11-21T18:00:00.123Z x", "x", false},
        {"[2026-11-21 18:00:00,123] x", "x", false},
        {"2026-11-21 18:00:00 +0100 x", "+0100 x", false},
        {"[   12.345678] x", "x", false},
        {"Nov 21 18:00:00 host dockerd[12]: x", "x", true},
        {"Nov  1 18:00:00 host kernel: x", "x", true},
        {"Nov 21 18:00:00 some words: x", "x", true},
        {"api-1  | 18:00:00 x", "x", true},
        {"api | x", "api | x", false},
        {"[pod/web-0/main] x", "x", true},
        {"[rank3]: x", "x", true},
        {"(EngineCore pid=12) x", "x", true},
        {"[1,0]<stderr>: x", "x", true},
        {"> x", "x", false},
        {"[ ", "[ ", false},
        {"", "", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct log_line line = {.text = cases[i].line, .n = strlen(cases[i].line)};
        line_prefix(&line);
        if (strcmp(line.text + line.body, cases[i].body) != 0 ||
            (line.process != 0) != cases[i].process) {
            fail_msg("'%s': '%s'", cases[i].line, line.text + line.body);
        }
    }
}

/* ------------------------------------------------------------------ causes */

static const struct {
    const char *text, *rules; // the ids of all candidates, the best first
} judged[] = {
    {"nothing\n", ""},
    {"cannot load liba\n", "general"},
    {"cannot load libcudnn.so of 8\n", "special general"},
    {"cannot load libcudnn.so of 9.1\n", "general"},
    {"out of memory\n", "memory-rule"},
    {"works?\nno\nyes\n", "memory-rule"},
    {"works?\n\n yes, it does\n", ""},
    {"works?\n", "memory-rule"},
    {"works? yes\nyes\nworks?\nno\n", "memory-rule"},
    {"{\"a\": \"works?\", \"b\": \"yes\"}\n{\"a\": \"no\"}\n", "memory-rule"},
    {"{\"a\": \"works?\", \"b\": \"x\"}\n{\"b\": \"x\", \"a\": \"yes\"}\n", ""},
    {"cannot load liba\n\nout of memory\n", "near-rule general"},
    {"cannot load liba\n\n\n\nout of memory\n", "general"},
    {"arch sm_120\nlist [sm_50 sm_90]\n", "arch-rule"},
    {"arch 8.9\nlist [sm_50 sm_86]\n", ""},
    {"arch 9.0\nlist [sm_80, compute_80]\n", ""},
    {"arch gfx1030\nlist [gfx1030 gfx1100]\n", ""},
    {"arch gfx1031\nlist [gfx1030 gfx1100]\n", "arch-rule"},
    {"arch none\nlist [sm_50]\n", ""},
    {"driver 470.82\ncuda 12.4\n", "drv-rule"},
    {"driver 550.54\ncuda 12.4\n", ""},
    {"driver 999.1\ncuda 12.4\n", ""},
    {"wants libcudnn.so.8\n", ""},
    {"wants libcudnn.so.8\nfile libcudnn.so.9\n", "other-major"},
    {"wants libcudnn.so.8\nfile libcudnn.so.9\nfile libcudnn.so.8\n", ""},
    {"wants libcudnn.so.8\nfile libcublas.so.11\n", ""},
    {"wants libcudnn.so.8\ndist cudnn 9.1.0\n", "other-major"},
    {"wants libcudnn.so.8\ndist cudnn 8.9.7\n", "same-major"},
    {"wants libcudnn.so.8\ndist cudnn 8.9.7\ndist cudnn 9.1.0\n", "same-major"},
    {"wants libcudnn.so.8\ndist cuda 8.0\n", ""},
    {"wants libsomething.so.8\ndist cudnn 9.1.0\n", ""},
    {"wants cudart64_101.dll\ndist cuda 10.1\n", "same-major"}, // up to 10.2: both numbers
    {"wants cudart64_101.dll\ndist cuda 10.2\n", "other-major"},
    {"wants cudart64_90.dll\ndist cuda 9.0\n", "same-major"},
    {"wants cudart64_12.dll\ndist cuda 12.4\n", "same-major"},
};

static void test_judged(void **state)
{
    struct world *w = *state;
    struct arena *a = &w->f.arena;
    for (size_t i = 0; i < sizeof judged / sizeof *judged; i++) {
        struct log *l = log_open(w->rules, a);
        struct log_result r;
        log_feed(l, judged[i].text, strlen(judged[i].text));
        log_end(l);
        log_judge(l, a, &r);
        const char *got = "";
        for (size_t k = 0; k < r.n; k++) {
            got = arena_printf(a, "%s%s%s", got, k ? " " : "", r.candidates[k].rule);
        }
        if (strcmp(got, judged[i].rules) != 0) {
            fail_msg("'%s': %s", judged[i].text, got);
        }
    }
}

static void test_texts(void **state)
{
    struct world *w = *state;
    struct log_result r;
    struct log *l = log_open(w->rules, &w->f.arena);
    log_feed(l, "on Windows\ncannot load liba\n", 28);
    log_judge(l, &w->f.arena, &r);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.platform, LOG_WINDOWS);
    assert_string_equal(r.candidates[0].culprit, "liba");
    assert_string_equal(r.candidates[0].says, "liba {not closed");
    assert_int_equal(r.candidates[0].n_repairs, 2);
    assert_string_equal(r.candidates[0].repairs[0].text, "w");
    assert_string_equal(r.candidates[0].repairs[1].text, "a");
    assert_int_equal(r.candidates[0].evidence[0]->line, 2);
    assert_string_equal(r.candidates[0].evidence[0]->text, "cannot load liba");
}

/* ------------------------------------------------------------------ what is built in */

/* Every expression of the built-in rules compiles, so that none is silently without effect. */
static void test_built_in(void **state)
{
    struct fixture *f = *state;
    struct log_rules *r;
    struct gm_err err;
    assert_int_equal(log_rules_load(&f->kb, &f->arena, NULL, &r, &err), 0);
    assert_true(r->n_signatures > 0 && r->n_rules > 0);
    for (size_t i = 0; i < r->n_signatures; i++) {
        struct log_signature *s = &r->signatures[i];
        if (s->regex.text && regex_check(r, &s->regex, &err) < 0) {
            fail_msg("signature %s: %s", s->id, err.text);
        }
        if (s->refuted_by.text && regex_check(r, &s->refuted_by, &err) < 0) {
            fail_msg("signature %s, refuted_by: %s", s->id, err.text);
        }
    }
    for (size_t i = 0; i < r->n_rules; i++) {
        const struct log_elements *lists[] = {&r->rules[i].all, &r->rules[i].any,
                                              &r->rules[i].none};
        for (size_t k = 0; k < 3; k++) {
            for (size_t e = 0; e < lists[k]->n; e++) {
                for (size_t c = 0; c < lists[k]->items[e].n_conditions; c++) {
                    if (regex_check(r, lists[k]->items[e].conditions[c].regex, &err) < 0) {
                        fail_msg("rule %s: %s", r->rules[i].id, err.text);
                    }
                }
            }
        }
    }
    log_rules_close(r);
}

/* ------------------------------------------------------------------ what files add */

/* The error of a file that is laid over what is built in, or "". */
static const char *refused(struct fixture *f, const char *text)
{
    struct node_file *file = arena_alloc(&f->arena, sizeof *file);
    struct log_rules *r = NULL;
    f->err.text[0] = '\0';
    if (node_read_yaml(&f->arena, "x.yaml", str_of(text), file, &f->err) == 0) {
        struct node_files files = {file, 1};
        if (log_rules_load(&f->kb, &f->arena, &files, &r, &f->err) == 0) {
            f->err.text[0] = '\0';
        }
        log_rules_close(r);
    }
    return f->err.text;
}

#define ENTRY(id)                                                                                  \
    "- {id: " id ", lines: [{literal: 'is no line of a log'}], confidence: likely, says: s"

/* Whatever of a file cannot be used is an error that names the file and the line. */
static void test_refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"cause: c\nfailures:\n" ENTRY("new") "}\n", ""},
        {"cause: c\nfailures:\n" ENTRY("new") ", overrides: [dev-802]}\n", ""},
        {"cause: c\nfailures:\n\n" ENTRY("new") ", colour: red}\n",
         "x.yaml:4: unknown key \"colour\""},
        {"cause: c\nlines:\n- id: a\n  fact: a\n  literal: 'some text'\n  regex: 'a(b'\n",
         "x.yaml:6: expression, at 3: missing closing parenthesis"},
        {"cause: c\nfailures:\n" ENTRY("a") ", overrides: [nobody]}\n",
         "x.yaml:3: a overrides nobody, which is not an entry"},
        {"cause: c\nfailures:\n" ENTRY("a") ", overrides: [b]}\n" ENTRY("b") ", overrides: [a]}\n",
         "x.yaml:3: overrides go in a circle: a -> b -> a"},
        {"cause: c\nfailures:\n" ENTRY(
             "a") ", overrides: [b]}\n"
                  "- {id: b, all: [a, platform], confidence: likely, says: s}\n",
         "x.yaml:4: b can never win: a, which overrides it, holds wherever it does"},
        {"cause: c\nfailures:\n" ENTRY(
             "a") ", overrides: [b], none: [platform]}\n"
                  "- {id: b, all: [a, platform], confidence: likely, says: s}\n",
         ""},
        {"cause: c\nfailures:\n" ENTRY("a") "}\n" ENTRY("a") "}\n",
         "x.yaml:4: the id a stands in x.yaml:3 as well"},
        {"cause: c\nfailures:\n- {id: a, all: [no-such-fact], confidence: likely, says: s}\n",
         "x.yaml:3: a: nothing yields the fact \"no-such-fact\""},
        {"cause: c\nfailures:\n- {id: a, all: [{fact: platform, colour: x}], confidence: likely, "
         "says: s}\n",
         "x.yaml:3: a: \"platform\" has no field \"colour\""},
        {"cause: c\nfailures:\n" ENTRY("a") ", culprit: '{library|\"a library\"}'}\n",
         "x.yaml:3: a: \"{library|\"a library\"}\" is not a field"},
        {"cause: c\nfailures:\n" ENTRY("a") ", test: nothing}\n",
         "x.yaml:3: there is no test nothing"},
        {"cause: c\nfailures:\n" ENTRY("a") ", repairs: [{platform: beos, says: s}]}\n",
         "x.yaml:3: \"beos\" is not a value of \"platform\""},
        {"failures:\n" ENTRY("a") "}\n", "x.yaml:2: failures need a \"cause\" above them"},
        {"cause: c\ncause: d\n", "x.yaml:2: the key stands twice in one mapping"},
        {"cause: &a c\n", "x.yaml:1: anchors and aliases are not read here"},
        {"cause: !!str c\n", "x.yaml:1: tags are not read here"},
        {"cause: c\n---\ncause: d\n", "x.yaml:2: a second document is not read"},
        {"%YAML 1.1\n---\ncause: c\n", "x.yaml:1: directives are not read here"},
        {"cause: [c\n", "x.yaml:2: it is not YAML: did not find expected ',' or ']'"},
        {"", "x.yaml:1: it is empty"},
        {"a: [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\n",
         "x.yaml:1: it is larger or nested deeper than is read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(refused(f, cases[i].text), cases[i].why);
    }
}

/* An id that is built in is replaced, with the patterns that stand in it; all else stays. */
static void test_replaced(void **state)
{
    struct fixture *f = *state;
    static const char text[] = "cause: c-mine\nfailures:\n- {id: dev-802, all: [cuda-not-ready], "
                               "confidence: certain, says: mine, overrides: []}\n";
    struct node_file file;
    struct node_files files = {&file, 1};
    struct log_rules *r = NULL, *plain = NULL;
    assert_int_equal(node_read_yaml(&f->arena, "x.yaml", str_of(text), &file, &f->err), 0);
    assert_int_equal(log_rules_load(&f->kb, &f->arena, NULL, &plain, &f->err), 0);
    if (log_rules_load(&f->kb, &f->arena, &files, &r, &f->err) < 0) {
        fail_msg("%s", f->err.text);
    }
    assert_int_equal(r->n_rules, plain->n_rules);
    size_t mine = 0;
    for (size_t i = 0; i < r->n_rules; i++) {
        mine += strcmp(r->rules[i].says, "mine") == 0;
        assert_string_equal(r->rules[i].id, plain->rules[i].id);
    }
    assert_int_equal(mine, 1);
    log_rules_close(r);
    log_rules_close(plain);
}

/* Packed bytes that end too early are no tree. */
static void test_packed(void **state)
{
    struct fixture *f = *state;
    struct node_file file;
    static const char *const none[] = {NULL}, *const no_says[] = {"says", NULL};
    assert_int_equal(node_read_yaml(&f->arena, "x.yaml", str_of(base), &file, &f->err), 0);
    struct str bytes = node_pack(&f->arena, &file.root, none), rest = bytes;
    struct node tree;
    assert_int_equal(node_unpack(&f->arena, &rest, &tree), 0);
    assert_int_equal(rest.n, 0);
    struct str again = node_pack(&f->arena, &tree, none);
    assert_true(again.n == bytes.n && memcmp(again.s, bytes.s, bytes.n) == 0);
    for (size_t n = 0; n < bytes.n; n++) {
        rest = (struct str){bytes.s, n};
        assert_true(node_unpack(&f->arena, &rest, &tree) < 0);
    }
    rest = node_pack(&f->arena, &file.root, no_says);
    assert_int_equal(node_unpack(&f->arena, &rest, &tree), 0);
    const struct node *first = &node_get(&tree, "failures")->items[0];
    assert_null(node_get(first, "says"));
    assert_string_equal(node_text(first, "id"), "arch-rule");
}

#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, setup_world, teardown_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_lines),
        WORLD_TEST(test_utf16),
        WORLD_TEST(test_long_line),
        WORLD_TEST(test_slow),
        WORLD_TEST(test_no_clock),
        WORLD_TEST(test_bounded),
        cmocka_unit_test(test_processes),
        WORLD_TEST(test_judged),
        WORLD_TEST(test_texts),
        cmocka_unit_test_setup_teardown(test_built_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_packed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
