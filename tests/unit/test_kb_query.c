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

/* What a row says under a key; null says nothing. */
static const json_t *said(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_is_null(value) ? NULL : value;
}

/* A file of kb/ and the rows embedded from it are the same, row by row: kb-embed writes the
 * origins once and the decoder gives them back. */
static void embedded_rows_are_those_of_the_files(void **state)
{
    struct fixture *f = *state;
    for (int area = 0; area < KB_AREAS; area++) {
        const char *path = arena_printf(&f->arena, "%s/kb/%s.json", getenv("GPUMEND_SOURCE"),
                                        kb_area_name((enum kb_area)area));
        json_t *doc = json_load_file(path, 0, NULL);
        assert_non_null(doc);
        struct kb_rows rows;
        assert_int_equal(kb_rows(&f->kb, (enum kb_area)area, &rows, &f->err), 0);
        assert_int_equal(rows.n, json_array_size(json_object_get(doc, "rows")));
        for (size_t i = 0; i < rows.n; i++) {
            const json_t *file = json_array_get(json_object_get(doc, "rows"), i);
            json_t *row = kb_row_json((enum kb_area)area, (const char *)rows.items + i * rows.size);
            const char *keys[] = {"id", "evidence", "source", "date", "note"};
            for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
                const json_t *one = said(file, keys[k]), *two = said(row, keys[k]);
                assert_true(one == two || json_equal(one, two));
            }
            json_decref(row);
        }
        json_decref(doc);
    }
}

/* ------------------------------------------------------------------ what a text names */

static bool some_package(void *arg, const char *name)
{
    (void)arg;
    static const char *const names[] = {"torch", "ctranslate2", "whisperx", "faster-whisper",
                                        "onnxruntime-gpu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static struct question read(struct fixture *f, const char *text)
{
    struct question q;
    question_read(&f->arena, text, some_package, NULL, &q);
    return q;
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
    assert_string_equal(q.sm, "6.1");
    assert_string_equal(q.driver, "535");
    assert_string_equal(q.cuda, "12.4");
    assert_string_equal(q.python, "3.11");
    q = read(*state, "sm_120 gfx1030 10DE:2504 libcublasLt.so.12");
    assert_string_equal(q.sm, "12.0");
    assert_string_equal(q.gfx, "gfx1030");
    assert_string_equal(q.pci_vendor, "10de");
    assert_string_equal(q.pci_device, "2504");
    assert_string_equal(q.library, "libcublasLt.so.12");
    q = read(*state, "sm_90a driver cuda cudnn");
    assert_null(q.sm);
    assert_null(q.driver);
    assert_null(q.cuda);
    assert_null(q.cudnn);
    assert_int_equal(q.named, 0);
}

/* Bounded whatever is written; nothing is read past the end. */
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
        struct question q = read(f, text);
        assert_true(q.n <= QUESTION_WORDS_MAX && q.n_rest <= QUESTION_WORDS_MAX &&
                    q.n_codes <= QUESTION_LIST_MAX && q.n_others <= QUESTION_LIST_MAX);
        struct kb_answer answer;
        assert_int_equal(kb_ask(&f->kb, text, &answer, &f->err), 0);
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
        assert_int_equal(kb_ask(&f->kb, kb_form_example(i), &answer, &f->err), 0);
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
        "which cuDNN does vllm 0.33.0 use",
        "rows nothing",
        "CUDNN_STATUS_HAPPY",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct kb_answer answer;
        assert_int_equal(kb_ask(&f->kb, texts[i], &answer, &f->err), 0);
        if (answer.known || strcmp(answer.text, "not known") != 0 || answer.hits.n != 0) {
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
        cmocka_unit_test_setup_teardown(hostile_questions_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(each_form_answers_its_example, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_not_known, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
