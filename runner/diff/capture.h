// Captures: the named tensors of a model, rank by rank, in program order, as `lockstep diff` reads
// them: what lockstep.capture() wrote (rank_00003.safetensors, with rank_00003.json beside it), a
// .safetensors file, or a folder of such files. Values are read on demand.
#ifndef LS_RUNNER_DIFF_CAPTURE_H
#define LS_RUNNER_DIFF_CAPTURE_H

#include "embedding/checkpoint.h"
#include "formats/safetensors.h"
#include "local_tensor/local_tensor.h"

// One rank's part of a tensor.
typedef struct ls_capture_piece {
    int rank;
    const ls_safetensors *file;  // NULL: the values are in `data`, or of a checkpoint
    const ls_safetensor *at;
    const void *data;           // [at->count]; NULL: they are not in memory
    ls_checkpoint *checkpoint;  // whose `array` of `table` it is
    int table, array;
    bool placed;      // `offset` says where in the whole it begins
    ls_shape offset;  //
    ls_shape size;    //
} ls_capture_piece;

// How a tensor was computed.
typedef enum ls_made_by {
    LS_MADE_UNKNOWN,
    LS_MADE_LINEAR,            // input weight^T + bias
    LS_MADE_EMBEDDING,         // the rows of weight that input names
    LS_MADE_LINEAR_WEIGHT,     // of gradient^T input, the gradient of a weight
    LS_MADE_LINEAR_BIAS,       // the sum of gradient's rows
    LS_MADE_CHANNEL_BIAS,      // the sum of all but gradient's second dimension, of a convolution
    LS_MADE_EMBEDDING_WEIGHT,  // gradient's rows, added up where input names them
    LS_MADE_UPDATE,            // weight, changed by an optimizer that took gradient
    LS_MADE_ROUNDED,           // rounded to another type before it was added up
    LS_MADE_COUNT
} ls_made_by;

// How a batch was dealt to the ranks: row[i] is the place in the whole of row i of the ranks' rows,
// one rank after another.
typedef struct ls_deal {
    const size_t *row;  // [count]
    size_t count;
    bool in_turns;  // as torch's DistributedSampler deals it
} ls_deal;

typedef struct ls_captured {
    const char *name;
    ls_dtype dtype;
    ls_capture_piece *pieces;  // [piece_count], at most one a rank, ascending
    int piece_count;
    int said_count;      // with those of ranks that have no element, which are behind the others
    bool optional;       // an activation: other modules may make it elsewhere, or not at all
    bool part;           // a rank's term of a sum: not compared itself
    bool own_losses;     // the gradient of a loss that each rank has: copies are terms of a sum
    bool moves;          // nothing computed it: every bit counts
    bool fused;          // the backward itself updates it
    const char *as;      // the name of the tensor whose values it still had; NULL: it has its own
    uint64_t modulus;    // its values are integers modulo this prime; 0: they are what they are
    const char *opaque;  // an operation before it that has no rule in the field; NULL: all have one
    // Of what it was computed, by names; NULL: nothing.
    ls_made_by made;
    bool wide;         // narrow floats were added up in f32 and rounded once
    ls_dtype rounded;  // of LS_MADE_ROUNDED
    const char *input, *weight, *bias, *gradient;
    const char *parts;  // whose values on the ranks it adds up, by op
    ls_op parts_op;
    // How it lies, where it is said.
    bool has_shape, has_placements;
    ls_shape shape;
    ls_placements placements;
    ls_mesh mesh;
    // [mesh_count][ranks of mesh]: of several meshes, each of ranks of its own, each has it all.
    int *mesh_ranks;
    int mesh_count;
    const ls_deal *deal;    // of a batch that is cut along dimension 0; NULL: one block to a rank
    const char *otherwise;  // how ranks contradict each other about it; NULL: they do not
} ls_captured;

// A tensor that is not compared, and why.
typedef struct ls_capture_omission {
    const char *name, *why;
} ls_capture_omission;

typedef struct ls_capture {
    ls_arena *arena;
    const char *path;
    int ranks;
    ls_captured *tensors;  // [count], in the order of their first appearance
    size_t count, capacity;
    size_t *slots;  // [slot_count], index + 1 of a tensor, 0: none; a power of two
    size_t slot_count;
    ls_safetensors **files;  // [file_count]
    size_t file_count;
    ls_checkpoint *checkpoint;     // NULL: it is none
    ls_capture_omission *omitted;  // [omitted_count], of all ranks, each name once
    size_t omitted_count, omitted_capacity;
} ls_capture;

// Files may be hostile: LS_ERR_FORMAT names file and reason; LS_ERR_IO. Free it with
// ls_capture_free.
int ls_capture_open(ls_capture **out, const char *path);
void ls_capture_free(ls_capture *capture);  // NULL is allowed
// out [piece->at->bytes] = the values.
int ls_capture_read(void *out, const ls_capture_piece *piece);
// NULL: there is none of the name.
const ls_captured *ls_capture_find(const ls_capture *capture, const char *name);

#endif
