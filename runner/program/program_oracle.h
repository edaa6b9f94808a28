// The expected tensors of a program: the unsharded operation, plain, in f64 with a bound, and for
// what has no unsharded meaning (partial values, shards without a placement) the same rank by rank.
// Shares no arithmetic with the code that it judges. Private to the runner.
#ifndef LS_RUNNER_PROGRAM_PROGRAM_ORACLE_H
#define LS_RUNNER_PROGRAM_PROGRAM_ORACLE_H

#include "collectives/collectives.h"
#include "runner/scenario/scenario.h"

// An array of a tensor's type. Floats: exact values, how far rounding can take them and how it can
// have made them infinite (an exact value may lie beyond the type's largest); and, while they have
// only been moved, their bits. Integers: the bits alone.
typedef struct ls_cells {
    ls_shape shape;
    size_t count;
    double *exact, *bounds;   // [count]; integers: NULL
    double *sizes;            // [count] of what they are made of (ls_bound_proves); integers: NULL
    unsigned char *overflow;  // [count] of ls_overflow; integers: NULL
    void *bits;               // [count] of the type; floats that were computed: NULL
} ls_cells;

// The oracle's knowledge of one tensor, in the program's arena. Both NULL: nothing.
typedef struct ls_known {
    ls_cells *whole;  // the logical tensor
    ls_cells *ranks;  // [ranks of the world] its shards; NULL: they are cut out of `whole`
} ls_known;

// An operand: what is known of it, and the tensor itself, of which only the geometry is read.
typedef struct ls_known_tensor {
    ls_known known;
    const ls_local_tensor *tensor;
} ls_known_tensor;

// The whole tensor is `full` (dense, of shape and dtype), placed as `tensor` is.
int ls_known__create(ls_known *out, ls_arena *arena, const void *full, const ls_shape *shape,
                     const ls_local_tensor *tensor);

// The same of partial values that every part has of its own: those of `rank` are `full`, cut as it
// lies. Called for every rank.
int ls_known__create_part(ls_known *out, ls_arena *arena, const void *full, const ls_shape *shape,
                          const ls_local_tensor *tensor, int rank);

// The expected result of `step` for in [count]; `made` is what it made, read for its placements
// alone.
int ls_known__step(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                   const ls_known_tensor *in, int count, const ls_local_tensor *made);

// What kinds of steps do for that (steps/step.h): redistributing; a collective on shards; the
// kind's operation on arrays, rank by rank, and on the whole tensors where all of them are known.
int ls_known__redistribute(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                           const ls_known_tensor *in, int count, const ls_local_tensor *made);
int ls_known__collective(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                         const ls_known_tensor *in, int count, const ls_local_tensor *made);
int ls_known__operate(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                      const ls_known_tensor *in, int count, const ls_local_tensor *made);

// The whole of `made` from its shards (out->ranks), where no values are partial and no rank has
// several blocks.
int ls_known__of_shards(ls_known *out, ls_arena *arena, const ls_local_tensor *made);

// A shard of `rank` in `block`; *out is in the arena, with count 0 and no arrays where nothing is
// known. index: of the rank's shards.
int ls_known__shard(ls_cells *out, bool *known, ls_arena *arena, const ls_known_tensor *of,
                    int rank, const ls_block *block);

// The whole tensor once its partial values are summed up; *known false: it is not known.
int ls_known__full(ls_cells *out, bool *known, ls_arena *arena, const ls_known_tensor *of);

#endif
