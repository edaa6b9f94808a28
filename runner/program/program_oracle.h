// The expected tensors of a program: the unsharded operation, plain, in f64 with a bound. Values
// without an unsharded meaning (partial values, shards without a placement) are computed rank by
// rank. Shares no arithmetic with the code under test. Private to the runner.
#pragma once

#include "collectives/collectives.h"
#include "runner/scenario/scenario.h"

// An array of a tensor's type. Floats: exact values (possibly beyond the type's largest), the bound
// of rounding and the possible overflow; and, if they have only been moved, their bits. Integers:
// only the bits.
typedef struct ls_cells {
    ls_shape shape;
    size_t count;
    double *exact, *bounds;   // [count]; integers: NULL
    double *sizes;            // [count] of the computation (ls_bound_proves); integers: NULL
    unsigned char *overflow;  // [count] of ls_overflow; integers: NULL
    void *bits;               // [count] of the type; computed floats: NULL
} ls_cells;

// The oracle's values of one tensor, in the program's arena. Both NULL: unknown.
typedef struct ls_known {
    ls_cells *whole;  // the logical tensor
    ls_cells *ranks;  // [ranks of the world] its shards; NULL: cut from `whole`
} ls_known;

// An operand: its known values, and the tensor, of which only the geometry is read.
typedef struct ls_known_tensor {
    ls_known known;
    const ls_local_tensor *tensor;
} ls_known_tensor;

// The whole tensor is `full` (dense, of shape and dtype), placed as `tensor` is.
int ls_known__create(ls_known *out, ls_arena *arena, const void *full, const ls_shape *shape,
                     const ls_local_tensor *tensor);

// The same for partial values that differ by rank: those of `rank` are `full`, cut to its shards.
// Called for every rank.
int ls_known__create_part(ls_known *out, ls_arena *arena, const void *full, const ls_shape *shape,
                          const ls_local_tensor *tensor, int rank);

// The expected result of `step` for in [count]; of `made`, its actual result, only the placements
// are read.
int ls_known__step(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                   const ls_known_tensor *in, int count, const ls_local_tensor *made);

// Implementations for kinds of steps (steps/step.h): redistribution; a collective on shards; the
// kind's operation on arrays, rank by rank, and on the whole tensors if all of them are known.
int ls_known__redistribute(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                           const ls_known_tensor *in, int count, const ls_local_tensor *made);
int ls_known__collective(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                         const ls_known_tensor *in, int count, const ls_local_tensor *made);
int ls_known__operate(ls_known *out, ls_arena *arena, const ls_scenario_step *step,
                      const ls_known_tensor *in, int count, const ls_local_tensor *made);

// The whole of `made` from its shards (out->ranks), if no values are partial and no rank has
// several blocks.
int ls_known__of_shards(ls_known *out, ls_arena *arena, const ls_local_tensor *made);

// The shard of `rank` in `block`; *out is in the arena, empty if unknown. index: of the rank's
// shards.
int ls_known__shard(ls_cells *out, bool *known, ls_arena *arena, const ls_known_tensor *of,
                    int rank, const ls_block *block);

// The whole tensor after summing its partial values; *known false: unknown.
int ls_known__full(ls_cells *out, bool *known, ls_arena *arena, const ls_known_tensor *of);
