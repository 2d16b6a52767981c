/*
 * What a matrix product and a convolution must come to, computed here, and how far a device may be
 * off. Vendors' number formats as bits, matrices of pseudo-random values that are neither square
 * nor symmetric (so that a swapped dimension, a transposition or a wrong number format is seen in
 * the result), the reference in double precision, and the comparison.
 *
 *   product_make()     the operands, as the library wants them, and an output of garbage
 *   product_compare()  the output that came back against the reference
 *
 * The tolerance is a bound, not a guess. The reference takes the operands after they were rounded
 * to their format, so a correct device differs by what it rounds itself: with S = the sum of |a*b|
 * over one element's k terms and u = the format's unit roundoff,
 *
 *   float32    (k + 2) * 2^-24 * S     k sums and products in float32, in any order (N. J. Higham,
 *              Accuracy and Stability of Numerical Algorithms, section 3.1). TF32 in its place is
 *              off by more than that and is found.
 *   tf32       2^-9 * S more, as each operand may be cut to 10 bits of fraction (2^-10 each)
 *   float16,   u * (S + |c|), u = 2^-11 or 2^-8: the result c is rounded to the format, and before
 *   bfloat16   the library may split the sum in parts that are (CUBLAS_MATH_DISALLOW_REDUCED_
 *              PRECISION_REDUCTION is off by default); besides (k + 2) * 2^-22 * S, as tensor cores
 *              cut where they add
 *   int8       0: sums of 32-bit integers are exact
 *
 * An element that is not a number is always wrong. Sources: IEEE 754-2019 (binary16); CUDA C++
 * Programming Guide, "Alternate Floating Point" (bfloat16, tf32).
 */
#ifndef GPUMEND_INJECT_PROBE_NUMBERS_H
#define GPUMEND_INJECT_PROBE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_type { NUMBER_FLOAT32, NUMBER_TF32, NUMBER_FLOAT16, NUMBER_BFLOAT16, NUMBER_INT8 };

uint16_t number_to_half(float value); // rounds to nearest, ties to even
float number_from_half(uint16_t bits);
uint16_t number_to_bfloat(float value); // likewise
float number_from_bfloat(uint16_t bits);

/* C (m x n) = op(A) * op(B), column-major without gaps, as BLAS has it. A holds m x k or, where
 * transposed, k x m elements of the type; C holds the type too, but float32 for tf32 and 32-bit
 * integers for int8. The sizes are multiples of 16, which every kernel of a vendor takes. */
struct product {
    enum number_type type;
    bool transpose_a, transpose_b;
    int m, n, k, lda, ldb, ldc;
    void *a, *b, *c; // from malloc; c is filled with bytes that no right answer has
    size_t a_bytes, b_bytes, c_bytes;
};

/* False without memory. */
bool product_make(enum number_type type, bool transpose_a, bool transpose_b, struct product *ret);
void product_release(struct product *p);

/* One-dimensional, as the first layers of Whisper: input (1, channels, 1, length) and filters
 * (filters, channels, 1, width) in NCHW order without gaps, a cross-correlation with padding and
 * stride along the length, output (1, filters, 1, out_length). */
struct convolution {
    enum number_type type; // float32 is compared as tf32, which cuDNN may use; not int8
    int channels, length, filters, width, padding, stride, out_length;
    void *input, *filter, *output; // as in struct product
    size_t input_bytes, filter_bytes, output_bytes;
};

bool convolution_make(enum number_type type, struct convolution *ret);
void convolution_release(struct convolution *c);

/* The worst element of a result. */
struct mismatch {
    size_t wrong, count; // elements outside the tolerance, of all
    size_t untouched;    // of the wrong ones: still the garbage that was there before
    int row, column;     // of the worst; of a convolution: filter and position
    double expected, got, tolerance;
    double worst; // its error as a part of the tolerance; at most 1 is right
};

/* Whether p->c (c->output) is right; *ret is filled in any case, with the largest error relative to
 * its tolerance. */
bool product_compare(const struct product *p, struct mismatch *ret);
bool convolution_compare(const struct convolution *c, struct mismatch *ret);

/* "12 of 4608 numbers are wrong, the worst at row 3, column 7: 1.25 instead of 0.5 (+-0.001)", or
 * that nothing was written. */
void mismatch_text(const struct mismatch *m, char *text, size_t size);

#endif
