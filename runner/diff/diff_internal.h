// Shared by the files of diff: a tensor of both captures, assembled, and what the run may have in
// place of the reference's values.
#ifndef LS_RUNNER_DIFF_INTERNAL_H
#define LS_RUNNER_DIFF_INTERNAL_H

#include "orders/order.h"
#include "runner/diff/assemble.h"
#include "runner/diff/diff.h"

// How far an optimizer took parameters apart where their gradients were rounding alone, and the
// largest value of a parameter. Tensors computed of them differ in proportion.
typedef struct ls_diff_drift {
    double apart, largest;
    // Of the step `step`: the share of its largest value by which an activation's gradient differs
    // where rounding changed the sign of the activation. Gradients computed of it differ by as
    // much.
    double flipped;
    size_t step;
} ls_diff_drift;

typedef struct ls_diff_sides {
    ls_arena *arena;  // of the tensor at hand
    const ls_capture *ref;
    ls_capture *run;
    const ls_diff_options *options;
    char *alone[2];  // of ref and run: [ranks][ranks], see has_own
    ls_diff_drift *drift;
} ls_diff_sides;

// A tensor of both captures, assembled.
typedef struct ls_diff_pair {
    const ls_captured *ref_of;
    ls_assembled ref, run, parts;
    bool has_parts;
    const void **wanted;  // [run.copies] the reference's value for each copy
    bool same;            // all copies should be alike
    bool alike;           // and are, bit by bit: one is judged for all
} ls_diff_pair;

// The judge of a tensor with differing bits.
typedef enum ls_diff_basis {
    BASIS_MOVED,      // every bit counts
    BASIS_MADE,       // the bound of what it was computed of
    BASIS_PARTS,      // the bound of a sum of known parts
    BASIS_TOLERANCE,  // the user's tolerance
    BASIS_NONE,       // nothing: half of the digits
} ls_diff_basis;

// The allowed value in place of the reference's.
typedef struct ls_diff_allowance {
    ls_diff_basis by;
    double *exact, *bounds;  // [count]; NULL: every bit counts
    unsigned char *overflow;
    bool vacuous;         // the bound proves nothing
    const char *refuted;  // why the reference itself is wrong; NULL: it is not
} ls_diff_allowance;

// Fills shape, copies, terms and pieces of *out, as ls_assemble() does before it reads values.
// (place.c)
int ls_diff__place(ls_assembled *out, ls_arena *arena, const ls_shape *like);
// Assembles a tensor of both sides. *why: they cannot be compared; NULL: they can. (pair.c)
int ls_diff__pair(ls_diff_pair *out, const char **why, const ls_diff_sides *sides,
                  const ls_captured *ref, const ls_captured *run);
// Why a pair is not compared; NULL: it is. `unlike`: the sides cannot be assembled alike. (pair.c)
const char *ls_diff__beyond(const ls_diff_sides *sides, const ls_diff_pair *pair,
                            const ls_captured *ref, const ls_captured *run, bool unlike);
// Whether a tensor is an activation of the model as a whole, by its name. (pair.c)
bool ls_diff__is_root(const ls_captured *tensor);
// Whether the reference has an activation in another call of the module in the step: stages of a
// pipeline compute again, or alternate between the forward and the backward. (pair.c)
bool ls_diff__is_other_call(const ls_diff_sides *sides, const ls_diff_pair *pair);
// The allowed value in copy `copy`. (allow.c)
int ls_diff__allow(ls_diff_allowance *out, const ls_diff_sides *sides, const ls_diff_pair *pair,
                   int copy);
// The sum that a partial tensor is, or a gradient whose parts are known. False: it is none.
bool ls_diff__is_sum(ls_reduction *out, const ls_diff_pair *pair);

// The step in *step of a tensor whose name begins with one ("step 12 "), and how long that is;
// 0: it is of none. (deal.c)
size_t ls_diff__step(size_t *step, const char *name);
// Whether a step's first input has the reference's rows in another order: the step's batch was
// dealt to the ranks otherwise than in blocks. Then all tensors of the step in `run` say so, in
// `keep`, and the pair is to be made anew. (deal.c)
int ls_diff__deal(bool *found, ls_arena *keep, ls_arena *arena, ls_capture *run,
                  const ls_capture *ref, const ls_diff_pair *pair);

#endif
