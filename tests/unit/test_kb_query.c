/* Questions: what a text names, and that every area goes through JSON and back unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "kb/query.h"
#include "kb/question.h"
#include "kbfixture.h"

/* ------------------------------------------------------------------ rows */

/* Each row of each area has an id, and its JSON has at least what makes it a row. */
static void every_row_becomes_json(void **state)
{
    struct fixture *f = *state;
    for (int area = 0; area < KB_AREAS; area++) {
        struct kb_rows rows;
        assert_int_equal(kb_rows(&f->kb, (enum kb_area)area, &rows, &f->err), 0);
        assert_true(rows.n > 0);
        for (size_t i = 0; i < rows.n; i++) {
            const void *row = (const char *)rows.items + i * rows.size;
            json_t *json = kb_row_json((enum kb_area)area, row);
            const char *id = json_string_value(json_object_get(json, "id"));
            assert_non_null(id);
            assert_string_equal(id, kb_row_id(row));
            assert_true(json_array_size(json_object_get(json, "source")) > 0);
            assert_int_equal(json_string_length(json_object_get(json, "date")), 10);
            json_decref(json);
        }
    }
}

/* The rows that a folder of the same files gives, which are read as JSON and judged, and those
 * embedded from them are the same. */
static void embedded_rows_are_those_of_the_files(void **state)
{
    struct fixture *f = *state;
    struct kb files;
    const char *folder = arena_printf(&f->arena, "%s/kb", getenv("GPUMEND_SOURCE"));
    assert_int_equal(kb_open(&files, &f->arena, &f->root, folder, &f->err), 0);
    for (int area = 0; area < KB_AREAS; area++) {
        struct kb_rows rows, read;
        assert_int_equal(kb_rows(&f->kb, (enum kb_area)area, &rows, &f->err), 0);
        assert_int_equal(kb_rows(&files, (enum kb_area)area, &read, &f->err), 0);
        assert_int_equal(rows.n, read.n);
        for (size_t i = 0; i < rows.n; i++) {
            size_t at = i * rows.size;
            json_t *row = kb_row_json((enum kb_area)area, (const char *)rows.items + at);
            json_t *file = kb_row_json((enum kb_area)area, (const char *)read.items + at);
            assert_true(json_equal(file, row));
            json_decref(row);
            json_decref(file);
        }
    }
}

/* ------------------------------------------------------------------ what a text names */

static struct question read(struct fixture *f, const char *text)
{
    struct question q;
    assert_int_equal(question_read(&f->kb, &f->arena, text, &q, &f->err), 0);
    return q;
}

static const char *value(const struct question *q, enum question_key key, size_t i)
{
    return i < q->values[key].n ? q->values[key].items[i] : "";
}

static void packages_and_their_versions(void **state)
{
    static const struct {
        const char *text, *package, *version;
    } cases[] = {
        {"torch 2.5.1", "torch", "2.5.1"},
        {"PyTorch==2.5.1?", "torch", "2.5.1"},
        {"torch-2.5.1", "torch", "2.5.1"},
        {"what does faster whisper 1.1 need", "faster-whisper", "1.1"},
        {"faster_whisper", "faster-whisper", NULL},
        {"onnxruntime 1.20.1", "onnxruntime-gpu", "1.20.1"},
        {"torch 2.0.x", "torch", "2.0"},
        {"which ctranslate2 does whisperx 3.8.6 need", "whisperx", "3.8.6"},
        {"tensorboard 2.1", NULL, NULL},
        {"torch", "torch", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct question q = read(*state, cases[i].text);
        const char *package = cases[i].package ? cases[i].package : "";
        const char *version = cases[i].version ? cases[i].version : "";
        if (strcmp(q.package ? q.package : "", package) != 0 ||
            strcmp(q.version ? q.version : "", version) != 0) {
            fail_msg("%s: %s %s", cases[i].text, q.package, q.version);
        }
    }
}

static void numbers_belong_to_their_words(void **state)
{
    struct question q = read(*state, "torch on sm_61 with driver R535 and CUDA12.4, Python 3.11");
    assert_string_equal(value(&q, KEY_SM, 0), "6.1");
    assert_string_equal(value(&q, KEY_DRIVER, 0), "535");
    assert_string_equal(value(&q, KEY_CUDA, 0), "12.4");
    assert_string_equal(value(&q, KEY_PYTHON, 0), "3.11");
    q = read(*state, "sm_120 gfx1030 10DE:2504 libcublasLt.so.12");
    assert_string_equal(value(&q, KEY_SM, 0), "12.0");
    assert_string_equal(value(&q, KEY_GFX, 0), "gfx1030");
    assert_string_equal(value(&q, KEY_PCI, 0), "10de:2504");
    assert_string_equal(value(&q, KEY_LIBRARY, 0), "libcublasLt.so.12");
    q = read(*state, "CUDA toolkit 11.1, CUDA 12 and 13, compute capability 8.6, batch size 8");
    assert_int_equal(q.values[KEY_CUDA].n, 3);
    assert_string_equal(value(&q, KEY_CUDA, 2), "13");
    assert_string_equal(value(&q, KEY_SM, 0), "8.6");
    assert_string_equal(value(&q, KEY_BATCH, 0), "8");
    assert_int_equal(q.n_unknown, 0);
    q = read(*state, "sm_100a driver cuda cudnn");
    assert_int_equal(q.named, 0);
    assert_int_equal(q.asked, ASKED_DRIVER | ASKED_CUDA | ASKED_CUDNN);
    assert_int_equal(q.n_unknown, 1);
    assert_string_equal(q.unknown[0], "sm_100a");
}

/* Each word is a name, a number, a word with a meaning, or unknown. */
static void every_word_counts(void **state)
{
    static const struct {
        const char *text, *unknown, *read_as;
    } cases[] = {
        {"which torch is recommended for CUDA 12.1", "recommended", "torch --with cuda=12.1"},
        {"the newest torch for an RTX 3060", NULL, "newest torch --with 'gpu=RTX 3060'"},
        {"Which torch does Fedora have", "Fedora", "torch"},
        {"CUDA 12.4 on Windows and aarch64", NULL,
         "--with cuda=12.4 --with os=windows --with machine=aarch64"},
        {"torch 2.12 to 2.14 and 2.5.1", NULL, "--with torch=2.12..2.14 --with torch=2.5.1"},
        {"torch up to 2.5", NULL, "--with torch=..2.5"},
        {"torch 2.5 and later", NULL, "--with torch=2.5.."},
        {"sm_61 (Pascal)", NULL, "--with sm=6.1"},
        {"sm_61 (Hopper)", NULL, "--with sm=6.1 --with generation=Hopper"},
        {"a GTX 1080 (6.1)", NULL, "--with 'gpu=GTX 1080'"},
        {"Radeon RX 480 / 470", NULL, "--with 'gpu=Radeon RX 480' --with 'gpu=Radeon RX 470'"},
        {"faster-whisper 1.1.1 and which did 1.1.0", NULL,
         "--with faster-whisper=1.1.1 --with faster-whisper=1.1.0"},
        {"CTranslate2 4.4.0's wheels", NULL, "wheel --with ctranslate2=4.4.0"},
        {"not torch 2.5.1", "not", "--with torch=2.5.1"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct question q = read(f, cases[i].text);
        const char *unknown = q.n_unknown ? q.unknown[0] : "";
        const char *read_as = question_text(&f->arena, &q);
        if (q.n_unknown > 1 || strcmp(unknown, cases[i].unknown ? cases[i].unknown : "") != 0 ||
            strcmp(read_as, cases[i].read_as) != 0) {
            fail_msg("%s: read as \"%s\", not understood '%s'", cases[i].text, read_as, unknown);
        }
    }
}

/* Bounded whatever is written, and refused beyond the bound; nothing is read past the end. */
static void hostile_questions_are_read(void **state)
{
    struct fixture *f = *state;
    size_t n = 200000;
    char *text = arena_alloc(&f->arena, n + 1);
    static const char *const units[] = {"torch 2.5 ",
                                        "1.",
                                        "/",
                                        "cuda ",
                                        ":::",
                                        "gfx",
                                        "\xff\xfe",
                                        "sm_99999999999 ",
                                        "9999999999999999999999 ",
                                        "==",
                                        "' "};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        for (size_t i = 0; i < n; i++) {
            text[i] = units[u][i % strlen(units[u])];
        }
        struct question q;
        int rc = question_read(&f->kb, &f->arena, text, &q, &f->err);
        assert_int_equal(rc, q.too_long ? GM_ERR_USAGE : 0);
        assert_true(!q.too_long || q.n == QUESTION_WORDS_MAX);
        assert_true(q.n <= QUESTION_WORDS_MAX && q.n_unknown <= QUESTION_WORDS_MAX &&
                    q.n_codes <= QUESTION_LIST_MAX && q.n_spans <= QUESTION_LIST_MAX);
        struct kb_answer answer;
        assert_int_equal(kb_ask(&f->kb, text, NULL, 0, &answer, &f->err), rc);
        assert_non_null(answer.text);
    }
}

/* ------------------------------------------------------------------ answers */

/* Every form answers its own example, and no form before it does. */
static void each_form_answers_its_example(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; kb_form_example(i); i++) {
        struct kb_answer answer;
        assert_int_equal(kb_ask(&f->kb, kb_form_example(i), NULL, 0, &answer, &f->err), 0);
        if (!answer.known || strcmp(answer.form, kb_form_example(i)) != 0 || answer.hits.n == 0) {
            fail_msg("%s: %s, by %s", kb_form_example(i), answer.text,
                     answer.form ? answer.form : "no form");
        }
    }
}

static void what_is_not_there_is_not_known(void **state)
{
    struct fixture *f = *state;
    static const char *const texts[] = {
        "",
        "?",
        "what is love",
        "which driver does CUDA 99.1 need",
        "torch 77.1",
        "sm_13",
        "gfx4242",
        "10de:ffff",
        "libnothing.so.1",
        "cuda error 54321",
        "glibc 9.9",
        "rocm 1.0",
        "which cuDNN does vllm 0.32.0 use",
        "rows nothing",
        "CUDNN_STATUS_HAPPY",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct kb_answer answer;
        assert_int_equal(kb_ask(&f->kb, texts[i], NULL, 0, &answer, &f->err), 0);
        if (answer.known || strncmp(answer.text, "not ", 4) != 0 || answer.hits.n != 0) {
            fail_msg("%s: %s", texts[i], answer.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_row_becomes_json, setup, teardown),
        cmocka_unit_test_setup_teardown(embedded_rows_are_those_of_the_files, setup, teardown),
        cmocka_unit_test_setup_teardown(packages_and_their_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_belong_to_their_words, setup, teardown),
        cmocka_unit_test_setup_teardown(every_word_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_questions_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(each_form_answers_its_example, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_not_known, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
