/* Number formats are converted as IEEE 754 says, and the tolerances let pass what a correct device
 * may answer and nothing that a wrong one does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inject/probe/numbers.h"

/* ------------------------------------------------------------------ formats */

static void test_half_there_and_back(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        bool is_nan = (h & 0x7fff) > 0x7c00;
        uint16_t back = number_to_half(number_from_half((uint16_t)h));
        assert_true(is_nan ? (back & 0x7fff) > 0x7c00 : back == h);
    }
}

static void test_bfloat_there_and_back(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 65536; b++) {
        bool is_nan = (b & 0x7fff) > 0x7f80;
        uint16_t back = number_to_bfloat(number_from_bfloat((uint16_t)b));
        assert_true(is_nan ? (back & 0x7fff) > 0x7f80 : back == b);
    }
}

static const struct {
    const char *name;
    float value;
    uint16_t half, bfloat;
} roundings[] = {
    {"one", 1.0f, 0x3c00, 0x3f80},
    {"minus two", -2.0f, 0xc000, 0xc000},
    {"a third", 0.33333334f, 0x3555, 0x3eab},
    {"largest half", 65504.0f, 0x7bff, 0x4780},
    {"below infinity", 65519.0f, 0x7bff, 0x4780},
    {"infinity for half", 65520.0f, 0x7c00, 0x4780},
    {"a tie down to even", 2049.0f, 0x6800, 0x4500},
    {"a tie up to even", 2051.0f, 0x6802, 0x4500},
    {"a tie of bfloat down", 257.0f, 0x5c04, 0x4380},
    {"a tie of bfloat up", 259.0f, 0x5c0c, 0x4382},
    {"smallest half", 0x1p-24f, 0x0001, 0x3380},
    {"half of it", 0x1p-25f, 0x0000, 0x3300},
    {"a little more", 0x1.1p-25f, 0x0001, 0x3308},
    {"largest subnormal half", 0x1.ff8p-15f, 0x03ff, 0x3880},
    {"rounds up to a normal half", 0x1.fffp-15f, 0x0400, 0x3880},
    {"minus nothing", -0.0f, 0x8000, 0x8000},
};

static void test_rounding(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++) {
        uint16_t half = number_to_half(roundings[i].value);
        uint16_t bfloat = number_to_bfloat(roundings[i].value);
        if (half != roundings[i].half || bfloat != roundings[i].bfloat) {
            fail_msg("%s: half %04x, bfloat %04x", roundings[i].name, half, bfloat);
        }
    }
}

/* ------------------------------------------------------------------ products */

static float cut_to_tf32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits &= ~0x1fffu; // 10 bits of fraction
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float half_of(float f)
{
    return number_from_half(number_to_half(f));
}

static float bfloat_of(float f)
{
    return number_from_bfloat(number_to_bfloat(f));
}

static float same(float f)
{
    return f;
}

static float element(enum number_type type, const void *data, size_t i)
{
    switch (type) {
    case NUMBER_FLOAT16: return number_from_half(((const uint16_t *)data)[i]);
    case NUMBER_BFLOAT16: return number_from_bfloat(((const uint16_t *)data)[i]);
    case NUMBER_INT8: return ((const int8_t *)data)[i];
    case NUMBER_FLOAT32:
    case NUMBER_TF32: break;
    }
    return ((const float *)data)[i];
}

static void put(const struct product *p, size_t i, float value)
{
    switch (p->type) {
    case NUMBER_FLOAT16: ((uint16_t *)p->c)[i] = number_to_half(value); return;
    case NUMBER_BFLOAT16: ((uint16_t *)p->c)[i] = number_to_bfloat(value); return;
    case NUMBER_INT8: ((int32_t *)p->c)[i] = (int32_t)value; return;
    case NUMBER_FLOAT32:
    case NUMBER_TF32: break;
    }
    ((float *)p->c)[i] = value;
}

/* A device: its operands are cut by `operand`, its sums kept by `kept`. */
static void multiply(const struct product *p, bool transpose_a, bool transpose_b,
                     float (*operand)(float), float (*kept)(float))
{
    for (int column = 0; column < p->n; column++) {
        for (int row = 0; row < p->m; row++) {
            float sum = 0;
            for (int i = 0; i < p->k; i++) {
                int a = transpose_a ? i + row * p->k : row + i * p->m;
                int b = transpose_b ? column + i * p->n : i + column * p->k;
                sum = kept(sum + operand(element(p->type, p->a, (size_t)a)) *
                                     operand(element(p->type, p->b, (size_t)b)));
            }
            put(p, (size_t)(row + column * p->ldc), sum);
        }
    }
}

static const struct {
    const char *name;
    enum number_type type;
    float (*operand)(float), (*kept)(float);
    bool right;
} devices[] = {
    {"float32", NUMBER_FLOAT32, same, same, true},
    {"float32 done in tf32", NUMBER_FLOAT32, cut_to_tf32, same, false},
    {"float32 done in half", NUMBER_FLOAT32, half_of, same, false},
    {"tf32 done in float32", NUMBER_TF32, same, same, true},
    {"tf32", NUMBER_TF32, cut_to_tf32, same, true},
    {"float16", NUMBER_FLOAT16, same, same, true},
    {"float16 from operands of bfloat16", NUMBER_FLOAT16, bfloat_of, same, false},
    {"bfloat16", NUMBER_BFLOAT16, same, same, true},
    {"int8", NUMBER_INT8, same, same, true},
};

static void test_devices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        for (int way = 0; way < 4; way++) {
            struct product p;
            struct mismatch m;
            bool ta = way & 1, tb = way & 2;
            assert_true(product_make(devices[i].type, ta, tb, &p));
            multiply(&p, ta, tb, devices[i].operand, devices[i].kept);
            if (product_compare(&p, &m) != devices[i].right) {
                fail_msg("%s: %zu wrong, %g of the tolerance", devices[i].name, m.wrong, m.worst);
            }
            assert_true(m.count == (size_t)(p.m * p.n) && (m.worst <= 1) == devices[i].right);
            product_release(&p);
        }
    }
}

static void test_transposition_is_seen(void **state)
{
    (void)state;
    for (enum number_type type = NUMBER_FLOAT32; type <= NUMBER_INT8; type++) {
        struct product p;
        struct mismatch m;
        assert_true(product_make(type, false, false, &p));
        multiply(&p, true, false, same, same);
        assert_false(product_compare(&p, &m));
        assert_true(m.wrong > m.count / 4);
        multiply(&p, false, true, same, same);
        assert_false(product_compare(&p, &m));
        assert_true(m.wrong > m.count / 4);
        product_release(&p);
    }
}

static void test_one_element_is_seen(void **state)
{
    (void)state;
    char text[200];
    struct product p;
    struct mismatch m;
    assert_true(product_make(NUMBER_INT8, true, false, &p));
    multiply(&p, true, false, same, same);
    ((int32_t *)p.c)[3 + 7 * p.ldc] += 1;
    assert_false(product_compare(&p, &m));
    assert_true(m.wrong == 1 && m.row == 3 && m.column == 7 && m.got - m.expected == 1);
    mismatch_text(&m, text, sizeof text);
    assert_non_null(strstr(text, "1 of 3072 numbers are wrong, the worst at row 3, column 7"));
    product_release(&p);
}

/* What was in the memory before is no answer, and no number is one. */
static void test_untouched(void **state)
{
    (void)state;
    for (enum number_type type = NUMBER_FLOAT32; type <= NUMBER_INT8; type++) {
        char text[200];
        struct product p;
        struct mismatch m;
        assert_true(product_make(type, false, false, &p));
        assert_false(product_compare(&p, &m));
        mismatch_text(&m, text, sizeof text);
        assert_string_equal(text, "the call succeeded but wrote no result");
        product_release(&p);
    }
}

/* ------------------------------------------------------------------ the convolution */

static void test_convolution(void **state)
{
    (void)state;
    struct convolution c;
    struct mismatch m;
    for (int flipped = 0; flipped < 2; flipped++) {
        assert_true(convolution_make(NUMBER_FLOAT32, &c));
        const float *in = c.input, *by = c.filter;
        for (int i = 0; i < c.filters * c.out_length; i++) {
            int f = i / c.out_length, x = i % c.out_length;
            float sum = 0;
            for (int j = 0; j < c.channels * c.width; j++) {
                int at = x * c.stride - c.padding + j % c.width;
                int w = flipped ? c.width - 1 - j % c.width : j % c.width;
                sum += at < 0 || at >= c.length
                           ? 0
                           : in[j / c.width * c.length + at] *
                                 by[(f * c.channels + j / c.width) * c.width + w];
            }
            ((float *)c.output)[i] = sum;
        }
        assert_true(convolution_compare(&c, &m) == !flipped);
        convolution_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_there_and_back),
        cmocka_unit_test(test_bfloat_there_and_back),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_transposition_is_seen),
        cmocka_unit_test(test_one_element_is_seen),
        cmocka_unit_test(test_untouched),
        cmocka_unit_test(test_convolution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
