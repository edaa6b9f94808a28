// Arithmetic modulo the prime p = 2^31 - 1, on arrays of int32_t whose elements are in [0, p). All
// results are exact, so that the order of sums does not matter.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LS_FIELD_PRIME UINT32_C(0x7FFFFFFF)

// ---- One number ---------------------------------------------------------------------------------
uint32_t ls_field_plus(uint32_t a, uint32_t b);
uint32_t ls_field_minus(uint32_t a, uint32_t b);
uint32_t ls_field_times(uint32_t a, uint32_t b);
uint32_t ls_field_over(uint32_t a, uint32_t b);  // times the inverse; of 0 it is 0
uint32_t ls_field_power(uint32_t a, uint64_t exponent);
// A constant: whole numbers modulo p, others as the fraction of the smallest denominator that f32
// cannot distinguish from them, so that 0.1 in f32 and in f64 are both 1/10. A number of the field,
// as a double, is itself.
uint32_t ls_field_of(double value);
// The `which`-th square root: of small squares, which random numbers hardly are, the root, so that
// the field and floats agree on them; else an uninterpreted function of its argument.
uint32_t ls_field_root(uint32_t a, uint64_t which);
// Of doubles that hold numbers of the field or constants.
double ls_field_sum_f64(double a, double b);
double ls_field_product_f64(double a, double b);
double ls_field_quotient_f64(double a, double b);

// ---- Arrays -------------------------------------------------------------------------------------

// out [batch, m, n] = a [batch, m, k] times b [batch, k, n]. Steps are in elements, between
// matrices, rows and columns of a and b; out is dense.
typedef struct ls_field_product {
    int32_t *out;
    const int32_t *a, *b;
    size_t batch, m, k, n;
    ptrdiff_t a_batch, a_row, a_column;
    ptrdiff_t b_batch, b_row, b_column;
} ls_field_product;

void ls_field_matmul(const ls_field_product *product);
void ls_field_matmul_reference(const ls_field_product *product);

typedef enum ls_field_op { LS_FIELD_ADD, LS_FIELD_SUB, LS_FIELD_MUL } ls_field_op;

// out [rows, columns] = a op b, with strides of the operands; 0: broadcast.
typedef struct ls_field_pairs {
    int32_t *out;
    const int32_t *a, *b;
    size_t rows, columns;
    ptrdiff_t a_row, a_column, b_row, b_column;
} ls_field_pairs;

void ls_field_pairwise(const ls_field_pairs *pairs, ls_field_op op);

// out [count] = 1 / a; of 0 it is 0.
void ls_field_inverse(int32_t *out, const int32_t *a, size_t count);
// out [count] = a keyed hash of each element, an uninterpreted function of it.
void ls_field_hash(int32_t *out, const int32_t *a, size_t count, uint64_t key);
// out [outer, inner] = the sums of a [outer, middle, inner] over the middle.
void ls_field_sum(int32_t *out, const int32_t *a, size_t outer, size_t middle, size_t inner);
