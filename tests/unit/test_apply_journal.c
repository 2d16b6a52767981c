/* A journal says what is to be taken back: it is read whole, up to a torn end, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "apply/journal.h"

#define FOLDER "d:755:0:0:4096:7:1795263255.099102223:1795263255.649461285"
#define FILE_  "f:4755:1000:100:36:8:-1.000000001:1795263430.429465277"
#define BEGIN  "begin version=1 id=3 what=fix title=t%20%0a base=/opt/venv at=17"

static struct arena arena;

/* The lines as records with right hashes. */
static struct str log_of(const char *lines)
{
    const char *out = "";
    uint64_t chain = 0;
    struct str rest = str_of(lines), line;
    while (str_line(&rest, &line)) {
        out = arena_printf(&arena, "%s%s", out,
                           apply_journal_record(&arena, &chain, str_dup(&arena, line), NULL).s);
    }
    return str_of(out);
}

static const char whole[] =
    BEGIN "\n"
          "folder path=lib sig=" FOLDER "\n"
          "stage n=1 path=lib/a%25.so tmp=lib/.gpumend-3-1 old=" FILE_ "\n"
          "commit n=1 new=l:777:0:0:36:9:5.000000000:6.000000000 link=../b.so kept=link\n"
          "stage n=2 path=c tmp=.gpumend-3-2 old=-\n"
          "commit n=2 new=" FILE_ " kept=none\n"
          "packages n=3 entries=2 hash=0123456789abcdef\n"
          "packages-done n=3 entries=4 hash=fedcba9876543210\n"
          "left path=lib sig=" FOLDER "\n"
          "applied\n"
          "verified how=verified\n";

static int parse(struct str log, struct apply_journal *ret)
{
    struct gm_err err = {.code = GM_ERR_NONE};
    int rc = apply_journal_parse(&arena, log, ret, &err);
    assert_int_equal(rc, err.code);
    return rc;
}

static void test_reads_what_is_written(void **state)
{
    struct apply_journal j;
    (void)state;
    assert_int_equal(parse(log_of(whole), &j), 0);
    assert_int_equal(j.id, 3);
    assert_string_equal(j.title, "t \n");
    assert_int_equal(j.changes.n, 3);
    const struct apply_journal_change *c = j.changes.items;
    assert_string_equal(c[0].path, "lib/a%.so");
    assert_int_equal(c[0].before.mode, 04755);
    assert_int_equal(c[0].before.uid, 1000);
    assert_int_equal(c[0].before.mtime.tv_sec, -1);
    assert_int_equal(c[0].before.mtime.tv_nsec, 1);
    assert_string_equal(c[0].after.link, "../b.so");
    assert_int_equal(c[0].kept, APPLY_KEPT_LINK);
    assert_true(c[1].committed && c[1].before.type == '-');
    assert_true(c[2].packages && c[2].packages_done && c[2].entries_after == 4);
    assert_int_equal(c[2].hash_before, 0x0123456789abcdef);
    assert_true(j.folders.n == 1 && j.folders.items[0].has_left && !j.folders.items[0].theirs);
    assert_int_equal(apply_journal_state(&j), APPLY_JOURNAL_APPLIED);
    assert_false(j.torn);
    assert_string_equal(apply_journal_sig_text(&arena, &c[0].before), FILE_);
}

/* Cut anywhere, it is what it was up to the last whole record. */
static void test_torn_end(void **state)
{
    struct str log = log_of(whole);
    (void)state;
    for (size_t n = 0; n <= log.n; n++) {
        struct apply_journal j;
        assert_int_equal(parse((struct str){log.s, n}, &j), 0);
        bool at_end = n == 0 || log.s[n - 1] == '\n';
        assert_int_equal(j.torn, !at_end);
        assert_true(j.valid_bytes <= n && (!at_end || j.valid_bytes == n));
    }
}

/* A flipped bit is an error, but for the last record, which is then a torn one. */
static void test_flipped_bits(void **state)
{
    struct str log = log_of(whole);
    size_t last = log.n - 1;
    (void)state;
    while (log.s[last - 1] != '\n') {
        last--;
    }
    last--; // without the line end before it there is one last record, and no good one
    for (size_t i = 0; i < log.n; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct apply_journal j;
            char *copy = arena_strndup(&arena, log.s, log.n);
            copy[i] = (char)(copy[i] ^ (1 << bit));
            int rc = parse((struct str){copy, log.n}, &j);
            assert_true(i < last ? rc == GM_ERR_FORMAT : rc == 0 && j.torn);
        }
    }
}

static void test_records_out_of_order(void **state)
{
    struct str log = log_of(BEGIN "\nfolder path=a sig=" FOLDER "\nfolder path=b sig=" FOLDER "\n"
                                  "applied\n");
    const char *second = memchr(log.s, '\n', log.n);
    const char *third = strchr(second + 1, '\n');
    struct apply_journal j;
    (void)state;
    const char *without =
        arena_printf(&arena, "%.*s%s", (int)(second + 1 - log.s), log.s, third + 1);
    assert_int_equal(parse(str_of(without), &j), GM_ERR_FORMAT);
}

/* Right hashes, and no meaning. */
static void test_nonsense(void **state)
{
    static const char *const cases[] = {
        "applied\n",
        BEGIN "\n" BEGIN "\n",
        "begin version=2 id=3 what=fix title=t base=/ at=17\n",
        "begin version=1 id=3 what=fix title=t base=/\n",
        BEGIN "\nunknown\n",
        BEGIN "\nfolder path=.. sig=" FOLDER "\n",
        BEGIN "\nfolder path=/etc sig=" FOLDER "\n",
        BEGIN "\nfolder path=a//b sig=" FOLDER "\n",
        BEGIN "\nfolder path=a sig=" FILE_ "\n",
        BEGIN "\nfolder path=a sig=" FOLDER "\nfolder path=a sig=" FOLDER "\n",
        BEGIN "\nstage n=1 path=a/../../b tmp=a/../../.gpumend-1 old=-\n",
        BEGIN "\nstage n=1 path=.gpumend/journal/1/log tmp=.gpumend/journal/1/.gpumend-1 old=-\n",
        BEGIN "\nstage n=1 path=a/b tmp=c/.gpumend-1 old=-\n",
        BEGIN "\nstage n=1 path=a/b tmp=a/other old=-\n",
        BEGIN "\nstage n=1 path=a/b tmp=a/.gpumend-x/y old=-\n",
        BEGIN "\nstage n=2 path=a tmp=.gpumend-1 old=-\n",
        BEGIN "\nstage n=1 path=a tmp=.gpumend-1 old=f:644:0:0:1:1:1.5:1.000000000\n",
        BEGIN "\nstage n=1 path=a tmp=.gpumend-1 old=f:944:0:0:1:1:1.000000000:1.000000000\n",
        BEGIN "\nstage n=1 path=a tmp=.gpumend-1 old=x:644:0:0:1:1:1.000000000:1.000000000\n",
        BEGIN "\nstage n=1 path=a tmp=.gpumend-1 old=l:777:0:0:1:1:1.000000000:1.000000000\n",
        BEGIN "\nstage n=1 path=a%2 tmp=.gpumend-1 old=-\n",
        BEGIN "\nstage n=1 path=a%00 tmp=.gpumend-1 old=-\n",
        BEGIN "\ncommit n=1 new=- kept=none\n",
        BEGIN "\nstage n=1 path=a tmp=.gpumend-1 old=-\ncommit n=1 new=" FILE_ " kept=link\n",
        BEGIN "\nstage n=1 path=a tmp=.gpumend-1 old=" FILE_ "\ncommit n=1 new=- kept=none\n",
        BEGIN "\nstage n=1 path=a tmp=.gpumend-1 old=-\ncommit n=1 new=" FILE_ " kept=maybe\n",
        BEGIN "\npackages n=1 entries=1 hash=12\n",
        BEGIN "\npackages-done n=1 entries=1 hash=0123456789abcdef\n",
        BEGIN "\nleft path=a sig=" FOLDER "\n",
        BEGIN "\nverified how=verified\n",
        BEGIN "\nfolder path=a sig=" FOLDER " a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct apply_journal j;
        if (parse(log_of(cases[i]), &j) != GM_ERR_FORMAT) {
            fail_msg("accepted: %s", cases[i]);
        }
    }
}

static void test_same(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {FILE_, "f:4755:1000:100:36:9:-1.000000001:1.000000000", true},
        {FILE_, "f:4755:1000:100:36:8:-1.000000002:1795263430.429465277", false},
        {FILE_, "f:4755:1000:100:37:8:-1.000000001:1795263430.429465277", false},
        {FILE_, "f:4755:1001:100:36:8:-1.000000001:1795263430.429465277", false},
        {FILE_, "f:755:1000:100:36:8:-1.000000001:1795263430.429465277", false},
        {FOLDER, "d:755:0:0:0:1:1.000000000:1.000000000", true},
        {FOLDER, "d:700:0:0:0:1:1.000000000:1.000000000", false},
        {"-", "-", true},
        {"-", FILE_, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct apply_journal_sig a, b;
        assert_true(apply_journal_sig_parse(&arena, str_of(cases[i].a), &a));
        assert_true(apply_journal_sig_parse(&arena, str_of(cases[i].b), &b));
        assert_int_equal(apply_journal_sig_same(&a, &b), cases[i].same);
    }
}

static void test_scan(void **state)
{
    static struct apply_journal_entry entries[] = {{".", {.type = 'd', .mode = 0755}},
                                                   {"a b", {.type = 'l', .mode = 0777, .link = ""}},
                                                   {"c", {.type = 'f', .mode = 0644, .size = 5}}};
    struct apply_journal_scan scan = {0}, again;
    struct gm_err err;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        VEC_PUSH(&arena, &scan.entries, entries[i]);
    }
    struct str text = apply_journal_scan_text(&arena, &scan);
    uint64_t hash = str_hash(text.s, text.n);
    assert_int_equal(apply_journal_scan_parse(&arena, text, 3, hash, &again, &err), 0);
    assert_int_equal(apply_journal_scan_find(&again, "c")->sig.size, 5);
    assert_string_equal(apply_journal_scan_find(&again, "a b")->sig.link, "");
    assert_null(apply_journal_scan_find(&again, "b"));
    assert_int_equal(apply_journal_scan_parse(&arena, text, 2, hash, &again, &err), GM_ERR_FORMAT);
    assert_int_equal(apply_journal_scan_parse(&arena, text, 3, hash + 1, &again, &err),
                     GM_ERR_FORMAT);
}

static int start(void **state)
{
    (void)state;
    arena_init(&arena, 0, NULL, NULL);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_is_written),
        cmocka_unit_test(test_torn_end),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_records_out_of_order),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_scan),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
