// Shared by the files of diff: an assembled pair of tensors, and the values that the run may have.
#pragma once

#include "orders/order.h"
#include "runner/diff/assemble.h"
#include "runner/diff/diff.h"

// The distance that an optimizer moved parameters apart whose gradients were only rounding, and the
// largest parameter. Tensors computed from them differ in proportion.
typedef struct ls_diff_drift {
    double apart, largest;
    // Of matrices of 16 bits, where rounding moves many elements: that distance by their largest.
    double share;
    // Of step `step`: the share of its largest value by which an activation's gradient differs
    // where rounding changed the activation's sign. Gradients computed from it differ as much.
    double flipped;
    size_t step;
} ls_diff_drift;

// The batches that a step's first module takes.
typedef struct ls_diff_batch {
    const ls_deal *deal;    // the order of its rows
    const size_t *of_part;  // [parts] its rows on the ranks of each part
    size_t parts;
} ls_diff_batch;

#define LS_DIFF_BATCHES_MAX 256

typedef struct ls_diff_batches {
    size_t step;
    bool dealt;   // one is in another order than blocks
    bool padded;  // ranks pad rows to other lengths than the reference
    bool vague;   // an input has another order, which equal rows or offsets leave open
    ls_diff_batch known[LS_DIFF_BATCHES_MAX];  // [count]
    size_t count;
} ls_diff_batches;

typedef struct ls_diff_sides {
    ls_arena *arena;  // of the current tensor
    const ls_capture *ref;
    ls_capture *run;
    const ls_diff_options *options;
    char *alone[2];  // of ref and run: [ranks][ranks], see has_own
    ls_diff_drift *drift;
    ls_diff_batches *batches;
} ls_diff_sides;

// A tensor of both captures, assembled.
typedef struct ls_diff_pair {
    const ls_captured *ref_of;
    ls_assembled ref, run, parts;
    bool has_parts;
    const void **wanted;  // [run.copies] the reference's value for each copy
    bool same;            // all copies should be equal
    bool alike;           // all copies are equal bit for bit: one is judged for all
    const char *losses;   // how the ranks' losses are compared; NULL: it is no loss of a part
} ls_diff_pair;

// The rule that judges a tensor with differing bits.
typedef enum ls_diff_basis {
    BASIS_MOVED,      // every bit counts
    BASIS_MADE,       // the bound of the operation that computed it
    BASIS_PARTS,      // the bound of a sum of known parts
    BASIS_TOLERANCE,  // the user's tolerance
    BASIS_NONE,       // none: half of the digits
} ls_diff_basis;

// The allowed value in place of the reference's.
typedef struct ls_diff_allowance {
    ls_diff_basis by;
    double *exact, *bounds;  // [count]; NULL: every bit counts
    unsigned char *overflow;
    bool vacuous;         // the bound proves nothing
    const char *refuted;  // the reason why the reference itself is wrong; NULL: it is not
} ls_diff_allowance;

// Fills in shape, copies, terms and pieces of *out, as ls_assemble() does before it reads values.
// (place.c)
int ls_diff__place(ls_assembled *out, ls_arena *arena, const ls_shape *like);
// Assembles a tensor of both sides. *why: the reason why they cannot be compared; NULL: they can.
// (pair.c)
int ls_diff__pair(ls_diff_pair *out, const char **why, const ls_diff_sides *sides,
                  const ls_captured *ref, const ls_captured *run);
// *placed: `run` with a term of the whole on each rank. ranks: [of the run]. (pair.c)
void ls_diff__place_terms(ls_captured *placed, int *ranks, const ls_captured *ref,
                          const ls_captured *run, ls_op op);
// Replaces the pair of a loss that each rank has of its own part of the batch by that of the ranks'
// mean or sum, if that is the reference's loss. (losses.c)
int ls_diff__join_losses(ls_diff_pair *p, const ls_diff_sides *d, const ls_captured *run);
// Whether ranks pad rows of the batch to other lengths than the reference, by the inputs of the
// first module of the step that a tensor belongs to. (pair.c)
bool ls_diff__is_padded(const ls_diff_sides *sides, const ls_captured *of);
// The reason why a pair is not compared; NULL: it is. `unlike`: the sides cannot be assembled in
// the same way. (pair.c)
const char *ls_diff__beyond(const ls_diff_sides *sides, const ls_diff_pair *pair,
                            const ls_captured *ref, const ls_captured *run, bool unlike);
// Whether a tensor is an activation of the whole model, by its name. (pair.c)
bool ls_diff__is_root(const ls_captured *tensor);
// Whether the reference has the activation in another call of the module in the step: pipeline
// stages recompute, or alternate between forward and backward. (pair.c)
bool ls_diff__is_other_call(const ls_diff_sides *sides, const ls_diff_pair *pair);
// The allowed value in copy `copy`. (allow.c)
int ls_diff__allow(ls_diff_allowance *out, const ls_diff_sides *sides, const ls_diff_pair *pair,
                   int copy);
// Half of the digits of a tensor's largest value: sqrt(u) times it. (allow.c)
double ls_diff__half_of_digits(const ls_diff_sides *d, const ls_assembled *tensor,
                               const void *wanted);
// The sum that a partial tensor or a gradient with known parts is. False: it is not a sum.
bool ls_diff__is_sum(ls_reduction *out, const ls_diff_pair *pair);

// Reads the step of a tensor from its name ("step 12 ..."); returns the length of that prefix, 0:
// none. (names.c)
size_t ls_diff__step(size_t *step, const char *name);
// The first input of the step that a tensor's name begins with; NULL: there is none.
// (names.c)
const ls_captured *ls_diff__first_input(const ls_capture *of, const char *name);
// The length of a tensor's name without the number of the module's call and of the argument.
// (names.c)
size_t ls_diff__name_length(const char *name);
// Whether two tensors are of one module, in any of its calls. (names.c)
bool ls_diff__is_of(const char *name, const char *other);
// The number of calls of a module in a step. (names.c)
int ls_diff__calls_of(ls_arena *arena, const ls_capture *of, const char *name);
// The order of the ranks' rows of a tensor, beside the one that it is assembled by.
typedef enum ls_diff_order {
    LS_DIFF_ORDER_KEPT,
    LS_DIFF_ORDER_FOUND,    // another, by which the pair was assembled again
    LS_DIFF_ORDER_UNKNOWN,  // it has the reference's rows, in an order that no input has
} ls_diff_order;

// Finds the order of a tensor that is cut along one dimension. An input of the step's first module
// may have the reference's rows in any order; other tensors have an order of such an input, the
// rows of several inputs, joined, or rows out of an earlier tensor. same: the pair is equal.
// (deal.c)
int ls_diff__deal(ls_diff_order *out, const ls_diff_sides *sides, ls_diff_pair *pair, bool same);
// Whether integers of an input count from the start of each rank's rows, as offsets of bags or
// nodes of graphs do. (counted.c)
bool ls_diff__is_counted(const ls_diff_sides *sides, const ls_diff_pair *pair);
// Whether all calls of a module in a step together have the reference's rows, and one call has
// others: micro-batches of each rank's own rows. Then `recut` of the step's activations in `run` is
// set. (recut.c)
int ls_diff__recut(bool *found, const ls_diff_sides *sides, const ls_diff_pair *pair);
