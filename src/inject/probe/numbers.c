#include "inject/probe/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 64,
    COLUMNS = 48,
    INNER = 80,     // of C, and the length of a sum
    GARBAGE = 0xff, // a byte: not a number as float, half and bfloat, -1 as an integer
};

/* ------------------------------------------------------------------ formats */

static uint32_t bits_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Drops `drop` low bits, to nearest, ties to even. */
static uint32_t rounded(uint32_t bits, unsigned drop)
{
    uint32_t half = 1u << (drop - 1), rest = bits & ((1u << drop) - 1);
    uint32_t kept = bits >> drop;
    return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t number_to_half(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00); // not a number
    }
    if (size >= 0x477ff000) { // 65520 and above round to infinity
        return (uint16_t)(sign | 0x7c00);
    }
    if (size < 0x33000000) { // below half of the smallest: 2^-25
        return (uint16_t)sign;
    }
    if (size < 0x38800000) { // below 2^-14: subnormal, in units of 2^-24
        uint32_t fraction = (size & 0x7fffff) | 0x800000;
        return (uint16_t)(sign | rounded(fraction, 126 - (size >> 23)));
    }
    return (uint16_t)(sign | rounded(size - (112u << 23), 13));
}

float number_from_half(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f;
    uint32_t fraction = bits & 0x3ff;
    if (exponent == 0x1f) {
        return float_of(sign | 0x7f800000 | fraction << 13);
    }
    if (exponent == 0) {
        float size = (float)fraction * 0x1p-24f;
        return sign ? -size : size;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t number_to_bfloat(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)rounded(bits, 16);
}

float number_from_bfloat(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

/* ------------------------------------------------------------------ elements */

/* The i-th value of a sequence, -1 <= x < 1, with 24 bits (splitmix64, which S. Vigna has put into
 * the public domain). */
static double random_value(uint64_t seed, size_t i)
{
    uint64_t z = (seed << 32) + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(int32_t)(z >> 40) * 0x1p-23 - 1;
}

static size_t operand_size(enum number_type type)
{
    switch (type) {
    case NUMBER_FLOAT16:
    case NUMBER_BFLOAT16: return 2;
    case NUMBER_INT8: return 1;
    case NUMBER_FLOAT32:
    case NUMBER_TF32: break;
    }
    return 4;
}

static size_t result_size(enum number_type type)
{
    return type == NUMBER_INT8 ? 4 : operand_size(type);
}

static void store(enum number_type type, void *data, size_t i, double value)
{
    float f = (float)value;
    uint16_t bits = type == NUMBER_FLOAT16 ? number_to_half(f) : number_to_bfloat(f);
    int8_t byte = (int8_t)(value * 127);
    size_t size = operand_size(type);
    const void *from = type == NUMBER_INT8 ? (const void *)&byte
                       : size == 2         ? (const void *)&bits
                                           : (const void *)&f;
    memcpy((char *)data + i * size, from, size);
}

static double load(enum number_type type, const void *data, size_t i)
{
    uint16_t bits = 0;
    float f = 0;
    if (type == NUMBER_INT8) {
        return ((const int8_t *)data)[i];
    }
    if (operand_size(type) == 4) {
        memcpy(&f, (const char *)data + i * 4, 4);
        return f;
    }
    memcpy(&bits, (const char *)data + i * 2, 2);
    return type == NUMBER_FLOAT16 ? number_from_half(bits) : number_from_bfloat(bits);
}

static double load_result(enum number_type type, const void *data, size_t i)
{
    int32_t n = 0;
    if (type != NUMBER_INT8) {
        return load(type, data, i);
    }
    memcpy(&n, (const char *)data + i * 4, 4);
    return n;
}

static bool is_untouched(const void *data, size_t i, size_t size)
{
    const unsigned char *p = (const unsigned char *)data + i * size;
    for (size_t j = 0; j < size; j++) {
        if (p[j] != GARBAGE) {
            return false;
        }
    }
    return true;
}

static void *filled(enum number_type type, uint64_t seed, size_t count)
{
    void *data = malloc(count * operand_size(type));
    for (size_t i = 0; data && i < count; i++) {
        store(type, data, i, random_value(seed, i));
    }
    return data;
}

static void *garbage(size_t size)
{
    void *data = malloc(size);
    if (data) {
        memset(data, GARBAGE, size);
    }
    return data;
}

/* ------------------------------------------------------------------ comparing */

struct sum {
    double value, size; // of the products, and of their absolute values
    int terms;
};

static void add_product(struct sum *s, double a, double b)
{
    s->value += a * b;
    s->size += __builtin_fabs(a * b);
    s->terms++;
}

static double tolerance(enum number_type type, const struct sum *s)
{
    double terms = s->terms + 2, cut = terms * 0x1p-22 * s->size;
    double rounded_twice = s->size + __builtin_fabs(s->value); // in units of the format's roundoff
    switch (type) {
    case NUMBER_FLOAT32: return terms * 0x1p-24 * s->size;
    case NUMBER_TF32: return 0x1p-9 * s->size + cut;
    case NUMBER_FLOAT16: return 0x1p-11 * rounded_twice + cut;
    case NUMBER_BFLOAT16: return 0x1p-8 * rounded_twice + cut;
    case NUMBER_INT8: break;
    }
    return 0;
}

/* Error against tolerance; below or at 1 is right. An integer that is off is far off. */
static double badness(double error, double allowed)
{
    if (error != error) { // not a number
        return 1e300;
    }
    return error <= allowed ? (allowed > 0 ? error / allowed : 0)
                            : (allowed > 0 ? error / allowed : 1e9 + error);
}

struct comparison {
    enum number_type type, compared_as;
    const void *data;
    struct mismatch *m;
};

static void compare_element(struct comparison *c, size_t i, int row, int column,
                            const struct sum *s)
{
    struct mismatch *m = c->m;
    double got = load_result(c->type, c->data, i);
    double allowed = tolerance(c->compared_as, s);
    double bad = badness(__builtin_fabs(got - s->value), allowed);
    m->count++;
    if (bad > 1) {
        m->wrong++;
        m->untouched += is_untouched(c->data, i, result_size(c->type));
    }
    if (bad > m->worst || m->count == 1) {
        m->worst = bad;
        m->row = row, m->column = column;
        m->expected = s->value, m->got = got, m->tolerance = allowed;
    }
}

void mismatch_text(const struct mismatch *m, char *text, size_t size)
{
    if (m->untouched == m->count) {
        (void)snprintf(text, size, "the call succeeded but wrote no result");
        return;
    }
    (void)snprintf(text, size,
                   "%zu of %zu numbers are wrong, the worst at row %d, column %d: %.7g instead of "
                   "%.7g (%.2g off is allowed)",
                   m->wrong, m->count, m->row, m->column, m->got, m->expected, m->tolerance);
}

/* ------------------------------------------------------------------ the product */

bool product_make(enum number_type type, bool transpose_a, bool transpose_b, struct product *ret)
{
    struct product p = {.type = type,
                        .transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .m = ROWS,
                        .n = COLUMNS,
                        .k = INNER};
    p.lda = transpose_a ? p.k : p.m;
    p.ldb = transpose_b ? p.n : p.k;
    p.ldc = p.m;
    p.a_bytes = (size_t)(p.m * p.k) * operand_size(type);
    p.b_bytes = (size_t)(p.k * p.n) * operand_size(type);
    p.c_bytes = (size_t)(p.m * p.n) * result_size(type);
    p.a = filled(type, 1, (size_t)(p.m * p.k));
    p.b = filled(type, 2, (size_t)(p.k * p.n));
    p.c = garbage(p.c_bytes);
    *ret = p;
    if (!p.a || !p.b || !p.c) {
        product_release(ret);
        return false;
    }
    return true;
}

void product_release(struct product *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
    p->a = p->b = p->c = NULL;
}

static struct sum product_element(const struct product *p, int row, int column)
{
    struct sum s = {0};
    for (int i = 0; i < p->k; i++) {
        int a = p->transpose_a ? i + row * p->lda : row + i * p->lda;
        int b = p->transpose_b ? column + i * p->ldb : i + column * p->ldb;
        add_product(&s, load(p->type, p->a, (size_t)a), load(p->type, p->b, (size_t)b));
    }
    return s;
}

bool product_compare(const struct product *p, struct mismatch *ret)
{
    *ret = (struct mismatch){0};
    struct comparison c = {.type = p->type, .compared_as = p->type, .data = p->c, .m = ret};
    for (int column = 0; column < p->n; column++) {
        for (int row = 0; row < p->m; row++) {
            struct sum s = product_element(p, row, column);
            compare_element(&c, (size_t)(row + column * p->ldc), row, column, &s);
        }
    }
    return ret->wrong == 0;
}

/* ------------------------------------------------------------------ the convolution */

bool convolution_make(enum number_type type, struct convolution *ret)
{
    struct convolution c = {.type = type,
                            .channels = 16,
                            .length = 60,
                            .filters = 24,
                            .width = 3,
                            .padding = 1,
                            .stride = 2};
    c.out_length = (c.length + 2 * c.padding - c.width) / c.stride + 1;
    size_t inputs = (size_t)(c.channels * c.length);
    size_t weights = (size_t)(c.filters * c.channels * c.width);
    c.input_bytes = inputs * operand_size(type);
    c.filter_bytes = weights * operand_size(type);
    c.output_bytes = (size_t)(c.filters * c.out_length) * result_size(type);
    c.input = filled(type, 3, inputs);
    c.filter = filled(type, 4, weights);
    c.output = garbage(c.output_bytes);
    *ret = c;
    if (!c.input || !c.filter || !c.output) {
        convolution_release(ret);
        return false;
    }
    return true;
}

void convolution_release(struct convolution *c)
{
    free(c->input);
    free(c->filter);
    free(c->output);
    c->input = c->filter = c->output = NULL;
}

static struct sum convolution_element(const struct convolution *c, int filter, int position)
{
    struct sum s = {0};
    for (int channel = 0; channel < c->channels; channel++) {
        for (int i = 0; i < c->width; i++) {
            int at = position * c->stride - c->padding + i;
            if (at >= 0 && at < c->length) {
                size_t x = (size_t)(channel * c->length + at);
                size_t w = (size_t)((filter * c->channels + channel) * c->width + i);
                add_product(&s, load(c->type, c->input, x), load(c->type, c->filter, w));
            }
        }
    }
    return s;
}

bool convolution_compare(const struct convolution *c, struct mismatch *ret)
{
    *ret = (struct mismatch){0};
    struct comparison all = {.type = c->type, .compared_as = c->type, .data = c->output, .m = ret};
    if (c->type == NUMBER_FLOAT32) {
        all.compared_as = NUMBER_TF32;
    }
    for (int filter = 0; filter < c->filters; filter++) {
        for (int position = 0; position < c->out_length; position++) {
            struct sum s = convolution_element(c, filter, position);
            compare_element(&all, (size_t)(filter * c->out_length + position), filter, position,
                            &s);
        }
    }
    return ret->wrong == 0;
}
