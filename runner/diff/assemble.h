// A captured tensor assembled: from what the ranks have to the whole, by its placements, or,
// where none are said, by the sizes that the whole is known to have.
#ifndef LS_RUNNER_DIFF_ASSEMBLE_H
#define LS_RUNNER_DIFF_ASSEMBLE_H

#include "runner/diff/capture.h"

// One rank's place: which copy of the whole it has a part of, which term of that copy, and where.
typedef struct ls_assembled_piece {
    int rank, copy, term;
    ls_shape local;          // sizes of what it has
    const ls_block *blocks;  // [block_count] in the whole
    const ls_block *within;  // [block_count] in what it has
    size_t block_count;
} ls_assembled_piece;

typedef struct ls_assembled {
    const ls_captured *of;
    ls_dtype dtype;
    ls_shape shape;
    size_t count;  // elements of the whole
    int copies;    // replicas, each of
    int terms;     // so many parts that `op` adds up
    ls_op op;
    void **whole;  // [copies * terms], each [count] of dtype
    ls_assembled_piece *pieces;
    int piece_count;
    bool unknown;  // its parts may make a whole, in a way that nothing names
} ls_assembled;

// Everything in `arena`. like: the sizes of the whole, for tensors that say nothing; NULL: not
// known. LS_ERR_MISMATCH says why the ranks' parts do not make a whole.
int ls_assemble(ls_assembled *out, ls_arena *arena, const ls_captured *tensor,
                const ls_shape *like);
// *value [count] of dtype: copy `copy`, its terms combined.
int ls_assembled_value(const void **value, ls_arena *arena, const ls_assembled *tensor, int copy);
// A rank's part of a whole of elements of so many bytes: *out, dense, of the piece's sizes.
int ls_assembled_cut(const void **out, ls_arena *arena, const ls_assembled *tensor,
                     const ls_assembled_piece *piece, const void *whole, size_t element_bytes);
// Element `element` of what a rank has: where it is in the whole.
size_t ls_assembled_position(const ls_assembled *tensor, const ls_assembled_piece *piece,
                             size_t element);

#endif
