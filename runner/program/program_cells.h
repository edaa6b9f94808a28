// Arrays of the oracle of programs and plain arithmetic on them: f64 with the distance that
// rounding in the tensor's type can cause, in any order of a sum. Integers are exact. New arrays
// are in the arena. Private to program_oracle*.c.
#pragma once

#include "runner/program/program_oracle.h"

// An array for computed values: floats without bits.
int ls_cells__new(ls_cells *out, ls_arena *arena, const ls_shape *shape, ls_dtype dtype);
// An array for moved values: with bits; fill it by ls_cells__copy or ls_cells__paste.
int ls_cells__room(ls_cells *out, ls_arena *arena, const ls_shape *shape, ls_dtype dtype);
// data: dense, of shape and dtype.
int ls_cells__of(ls_cells *out, ls_arena *arena, const void *data, const ls_shape *shape,
                 ls_dtype dtype);
void ls_cells__set(ls_cells *cells, size_t index, ls_dtype dtype, double value);
// Sets all elements to the neutral value of a partial `op`.
int ls_cells__neutral(ls_cells *cells, ls_arena *arena, ls_dtype dtype, ls_op op);
// Floats: takes the exact values of `from` and widens the bounds by the distance. Keeps an element
// if either is not finite, since sums of parts need not be infinite where the whole is.
void ls_cells__take_exact(ls_cells *cells, const ls_cells *from);

// ---- Moving -------------------------------------------------------------------------------------
// to[at] = from[index]; both have bits.
void ls_cells__copy(ls_cells *to, size_t at, const ls_cells *from, size_t index, ls_dtype dtype);
// The index in a whole tensor of `shape` of element `index` of a block.
size_t ls_cells__global(const ls_shape *shape, const ls_block *block, size_t index);
int ls_cells__cut(ls_cells *out, ls_arena *arena, const ls_cells *whole, const ls_block *block,
                  ls_dtype dtype);
void ls_cells__paste(ls_cells *whole, const ls_cells *part, const ls_block *block, ls_dtype dtype);
int ls_cells__narrow(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, int64_t start,
                     int64_t length, ls_dtype dtype);
// Part `index` of `count` along dim, as in torch.chunk.
int ls_cells__chunk(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, int count,
                    int index, ls_dtype dtype);
// Joins cells[which[0]], cells[which[1]], ... [count] along dim.
int ls_cells__join(ls_cells *out, ls_arena *arena, const ls_cells *cells, const int *which,
                   int count, int dim, ls_dtype dtype);
// The elements of an operand for block `want` of a result, by broadcasting: dimensions align at the
// last one, and size 1 repeats. `in` is block `own` of the operand, of `shape`.
int ls_cells__meet(ls_cells *out, ls_arena *arena, const ls_cells *in, const ls_block *own,
                   const ls_shape *shape, const ls_block *want, ls_dtype dtype);
int ls_cells__transpose(ls_cells *out, ls_arena *arena, const ls_cells *in, ls_dtype dtype);

// ---- Computing ----------------------------------------------------------------------------------
typedef struct ls_cell {
    const ls_cells *of;
    size_t index;
} ls_cell;

// out[to] = op over in [count]; out[to] may be one of them. Its size is the size of a term of each
// rank.
int ls_cells__fold(ls_cells *out, size_t to, const ls_cell *in, int count, ls_dtype dtype,
                   ls_op op);
// The same for whole arrays of one shape.
int ls_cells__reduce(ls_cells *out, ls_arena *arena, const ls_cells *cells, const int *members,
                     int count, ls_dtype dtype, ls_op op);
int ls_cells__elementwise(ls_cells *out, ls_arena *arena, const ls_cells *a, const ls_cells *b,
                          ls_dtype dtype, ls_op op);
int ls_cells__scale(ls_cells *out, ls_arena *arena, const ls_cells *in, ls_dtype dtype,
                    double factor);
// Folds one dimension, which disappears; without elements: the neutral value.
int ls_cells__fold_dim(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, ls_dtype dtype,
                       ls_op op);
// Every float divided by a count, with one rounding.
void ls_cells__divide(ls_cells *cells, ls_dtype dtype, int64_t count);
// ---- program_cells_math.c -----------------------------------------------------------------------
int ls_cells__matmul(ls_cells *out, ls_arena *arena, const ls_cells *a, const ls_cells *b,
                     ls_dtype dtype);
// Converts every element. *known false: a computed float may round to either of two integers.
int ls_cells__cast(ls_cells *out, bool *known, ls_arena *arena, const ls_cells *in, ls_dtype from,
                   ls_dtype to);
// Sets elements to 0 by `drops` and divides the others by 1 - p.
typedef bool (*ls_cells_drops)(void *arg, size_t index);
int ls_cells__drop(ls_cells *out, ls_arena *arena, const ls_cells *in, ls_dtype dtype, double p,
                   ls_cells_drops drops, void *arg);
// exp(x) / sum along dim, or its logarithm.
int ls_cells__softmax(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, ls_dtype dtype,
                      bool logarithm);
// out [samples] of logits [samples, classes], targets [samples] (i64) and weights [classes] or
// NULL.
typedef struct ls_cells_loss {
    const ls_cells *logits, *targets, *weights;
    int64_t ignored;
    double smoothing;
} ls_cells_loss;
int ls_cells__cross_entropy(ls_cells *out, ls_arena *arena, const ls_cells_loss *loss,
                            ls_dtype dtype);
// out []: the sum of the losses; for a mean divided by the weights of the targets that count.
int ls_cells__sum_losses(ls_cells *out, ls_arena *arena, const ls_cells *losses,
                         const ls_cells_loss *loss, bool mean, ls_dtype dtype);
// The p-norm along dim, which disappears.
int ls_cells__norm(ls_cells *out, ls_arena *arena, const ls_cells *in, int dim, double p,
                   ls_dtype dtype);

// Scales rows of weight [rows, columns] by max_norm / (norm + eps) if ids (i64) name them and their
// p-norm exceeds max_norm.
int ls_cells__renormalise(ls_cells *out, ls_arena *arena, const ls_cells *weight,
                          const ls_cells *ids, double max_norm, double p, double eps,
                          ls_dtype dtype);

// The same elements, in the same order, under another shape.
void ls_cells__view(ls_cells *out, const ls_cells *in, const ls_shape *shape);
