// Captures: the named tensors of a model, by rank, in program order, for `lockstep diff`. Sources:
// lockstep.capture() (rank_00003.safetensors with rank_00003.json), one .safetensors file, or a
// folder of such files. Values are read on demand.
#pragma once

#include "embedding/checkpoint.h"
#include "formats/safetensors.h"
#include "local_tensor/local_tensor.h"
#include "runner/result.h"

// One rank's part of a tensor.
typedef struct ls_capture_piece {
    int rank;
    const ls_safetensors *file;  // NULL: the values are in `data`, or of a checkpoint
    const ls_safetensor *at;
    const void *data;           // [at->count]; NULL: they are not in memory
    ls_checkpoint *checkpoint;  // of a checkpoint: the array of `table`
    int table, array;
    bool placed;      // `offset` is known
    ls_shape offset;  //
    ls_shape size;    //
} ls_capture_piece;

// The operation that computed a tensor.
typedef enum ls_made_by {
    LS_MADE_UNKNOWN,
    LS_MADE_LINEAR,            // input weight^T + bias
    LS_MADE_EMBEDDING,         // the rows of weight that input names
    LS_MADE_LINEAR_WEIGHT,     // of gradient^T input, the gradient of a weight
    LS_MADE_LINEAR_BIAS,       // the sum of gradient's rows
    LS_MADE_CHANNEL_BIAS,      // the sum of all but gradient's second dimension, of a convolution
    LS_MADE_EMBEDDING_WEIGHT,  // gradient's rows, summed by the ids in input
    LS_MADE_UPDATE,            // weight after an optimizer step with gradient
    LS_MADE_ROUNDED,           // rounded to another type before a sum
    LS_MADE_ROWS,              // a sum of rows in the type `rounded`, of a layer norm's gradients
    LS_MADE_COUNT
} ls_made_by;

// The distribution of a batch to the ranks: row[i] is the index in the whole batch of row i of the
// ranks' rows in rank order.
typedef struct ls_deal {
    const size_t *row;  // [count]
    size_t count;
    bool in_turns;  // as torch's DistributedSampler distributes it
    bool vague;     // some rows are equal: another order has the same values
    bool taken;     // out of an earlier tensor's rows, on one rank perhaps
    bool joined;    // several batches: each rank has its rows of one after the other
} ls_deal;

typedef struct ls_captured {
    const char *name;
    ls_dtype dtype;
    ls_capture_piece *pieces;  // [piece_count], at most one a rank, ascending
    int piece_count;
    int said_count;      // with ranks without elements, which come last
    bool optional;       // an activation: other runs may compute it in another module call, or not
                         // at all
    bool part;           // a rank's term of a sum: not compared separately
    bool own_losses;     // the gradient of a loss on each rank: copies are terms of a sum
    bool moves;          // not computed: every bit counts
    bool fused;          // the backward pass updates it
    const char *as;      // a tensor with the same values; NULL: none
    double scale;        // the factor from the written values to those of the whole
    uint64_t modulus;    // its values are integers modulo this prime; 0: ordinary values
    const char *opaque;  // an earlier operation without a rule in the field; NULL: none
    // Names of the tensors that it was computed from; NULL: unknown.
    ls_made_by made;
    bool wide;         // narrow floats were summed in f32 and rounded once
    ls_dtype rounded;  // of LS_MADE_ROUNDED and LS_MADE_ROWS
    double rows;       // of LS_MADE_ROWS
    const char *input, *weight, *bias, *gradient;
    const char *parts;  // the tensor whose rank values it sums, by op
    ls_op parts_op;
    // Its placement, if it has one.
    bool has_shape, has_placements;
    ls_shape shape;
    ls_placements placements;
    ls_mesh mesh;
    // [mesh_count][ranks of mesh]; with several meshes of disjoint ranks, each has the whole
    int *mesh_ranks;
    int mesh_count;
    bool recut;             // an activation of different batch rows than the reference's
    const ls_deal *deal;    // of a batch that is cut along one dimension; NULL: one block for
                            // each rank
    const char *otherwise;  // how ranks contradict each other; NULL: they do not
} ls_captured;

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
    ls_checkpoint *checkpoint;  // NULL: not a checkpoint
    ls_omitted *omitted;        // [omitted_count] of all ranks, each name once
    int omitted_count, omitted_room;
} ls_capture;

// Files may be hostile: LS_ERR_FORMAT names file and reason; LS_ERR_IO. Free it with
// ls_capture_free.
int ls_capture_open(ls_capture **out, const char *path);
void ls_capture_free(ls_capture *capture);  // NULL is allowed
// out [piece->at->bytes] = the values.
int ls_capture_read(void *out, const ls_capture_piece *piece);
// NULL: no tensor of the name.
const ls_captured *ls_capture_find(const ls_capture *capture, const char *name);
