// Assembles a captured tensor from the ranks' pieces: by its placements, or, without placements, by
// the known sizes of the whole.
#pragma once

#include "runner/diff/capture.h"

// One rank's place: the copy and the term that its piece belongs to, and the piece's blocks.
typedef struct ls_assembled_piece {
    int rank, copy, term;
    ls_shape local;          // sizes of the piece
    const ls_block *blocks;  // [block_count] in the whole
    const ls_block *within;  // [block_count] in the piece
    size_t block_count;
} ls_assembled_piece;

typedef struct ls_assembled {
    const ls_captured *of;
    ls_dtype dtype;
    ls_shape shape;
    size_t count;  // elements of the whole
    int copies;    // replicas, each of
    int terms;     // number of parts that `op` reduces
    ls_op op;
    void **whole;  // [copies * terms], each [count] of dtype
    ls_assembled_piece *pieces;
    int piece_count;
    bool dealt;    // its rows are in the order of its batch (`of->deal`)
    bool unknown;  // its parts may form a whole in a way that no metadata states
} ls_assembled;

// Everything in `arena`. like: the sizes of the whole, for tensors without metadata; NULL: unknown.
// LS_ERR_MISMATCH: the text names why the pieces do not form a whole.
int ls_assemble(ls_assembled *out, ls_arena *arena, const ls_captured *tensor,
                const ls_shape *like);
// *value [count] of dtype: copy `copy`, its terms combined.
int ls_assembled_value(const void **value, ls_arena *arena, const ls_assembled *tensor, int copy);
// A rank's piece of a whole: *out, dense, of the piece's sizes.
int ls_assembled_cut(const void **out, ls_arena *arena, const ls_assembled *tensor,
                     const ls_assembled_piece *piece, const void *whole, size_t element_bytes);
// The index in the whole of element `element` of a piece.
size_t ls_assembled_position(const ls_assembled *tensor, const ls_assembled_piece *piece,
                             size_t element);
