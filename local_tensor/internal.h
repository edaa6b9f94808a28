// Private to the files of local_tensor/: the structs behind the opaque types, and the steps that
// create a tensor.
#pragma once

#include <stdatomic.h>

#include "kernels/device.h"
#include "local_tensor/local_tensor.h"

struct ls_world {
    ls_mesh mesh;
    int size;
    uint64_t seed;
    int *held;   // [held_count] ascending
    int *index;  // [size] held index of a rank or -1; NULL when all ranks are held
    int held_count;
    ls_device *device;    // never NULL
    atomic_int tensors;   // alive
    ls_memory_gate gate;  // NULL: none
    void *gate_arg;
};

struct ls_local_tensor {
    ls_world *world;
    ls_dtype dtype;
    bool has_shape;       // a logical shape exists
    bool has_placements;  // only with a shape
    ls_shape shape;
    ls_placements placements;  // shard dimensions >= 0; sizes point into `sizes`
    int64_t *sizes;            // explicit sizes of all placements, or NULL
    size_t sizes_count;
    int *ranks;  // [rank_count] ascending
    int rank_count;
    size_t *first;     // [rank_count + 1] index of a rank's first shard
    ls_shard *shards;  // [shard_count] rank-major
    size_t shard_count;
    ls_layout listed;  // every rank's blocks, where there are a shape and no placements
};

// ---- Placements ----
// The mesh dimensions in the order in which they cut: out [placements->count].
void ls_placements__order(int *out, const ls_placements *placements);
// Whether some rank may hold several blocks.
bool ls_placements__strided(const ls_placements *placements);
// That every partial placement's op is defined on dtype.
int ls_placements__check_ops(const ls_placements *placements, ls_dtype dtype);
// Prefix sums of the explicit sizes per placement, so that every rank's block takes one step.
typedef struct ls_starts {
    int64_t *memory;
    size_t count;
    const int64_t *of[LS_MESH_DIMS_MAX];
} ls_starts;

int ls_starts__create(ls_starts *out, const ls_placements *placements, const ls_mesh *mesh);
void ls_starts__free(ls_starts *starts);
// ls_placement_block for normalized placements that are not strided. starts[d]: prefix sums
// [mesh->dim[d] + 1] of the explicit sizes of placement d; used where starts and starts[d] are not
// NULL, so that cutting a tensor for all ranks takes one step per rank.
int ls_placement__block(ls_block *out, const ls_shape *shape, const ls_mesh *mesh,
                        const ls_placements *placements, const int64_t *const *starts, int rank);
// The blocks of one rank, row-major, under any normalized placements; at least one, which may be
// empty.
typedef struct ls_pieces {
    ls_block one;  // where `at` is NULL
    ls_block *at;  // [count]
    size_t count;
    size_t allocated;
} ls_pieces;

int ls_pieces__create(ls_pieces *out, const ls_shape *shape, const ls_mesh *mesh,
                      const ls_placements *placements, const int64_t *const *starts, int rank);
void ls_pieces__free(ls_pieces *pieces);
const ls_block *ls_pieces__at(const ls_pieces *pieces, size_t index);
// The layout of listed blocks, in range and without overlap; and a copy of one.
int ls_layout__of_list(ls_layout *out, const ls_world *world, const int *block_ranks,
                       const ls_block *blocks, int block_count);
int ls_layout__copy(ls_layout *out, const ls_layout *layout);
// The op whose neutral element `rank` holds under partial placements; -1 when it holds the values.
int ls_placements__neutral_op(const ls_placements *placements, const ls_mesh *mesh, int rank);
// A shard full of what changes nothing under op.
void ls_local_tensor__fill_neutral(ls_shard *shard, ls_dtype dtype, ls_op op);

// ---- Making a tensor ----
// An empty tensor with room for shard_counts[i] (NULL: one each) shards on ranks[i]; ranks must
// ascend and be held. Next, set every shard's block, then call ls_local_tensor__allocate.
int ls_local_tensor__new(ls_local_tensor **out, ls_world *world, ls_dtype dtype, const int *ranks,
                         int rank_count, const int *shard_counts);
// Allocates every shard's data from its block's size.
int ls_local_tensor__allocate(ls_local_tensor *tensor);
// Gives the tensor a logical shape and normalized placements, whose sizes it copies.
int ls_local_tensor__set_placements(ls_local_tensor *tensor, const ls_shape *shape,
                                    const ls_placements *normalized);
// Checks that each rank has exactly one shard; the error names the first other rank.
int ls_local_tensor__check_single(const ls_local_tensor *tensor);
// The index of `rank` in tensor->ranks, or -1.
int ls_local_tensor__rank_index(const ls_local_tensor *tensor, int rank);

// ---- Shapes ----
// Strides in elements of a dense row-major array: out [ndim].
void ls_shape__strides(int64_t *out, const ls_shape *shape);
// Copies an n-D box of `size` elements between strided arrays; strides in elements.
void ls_shape__copy(void *to, const int64_t *to_stride, const void *from,
                    const int64_t *from_stride, const ls_shape *size, size_t element_bytes);
// The position in a dense logical tensor of element `index` of a block of it.
uint64_t ls_shape__position(const ls_shape *shape, const ls_block *block, size_t index);
// "[1, 2]" for a flat index into a dense array of `shape`.
void ls_shape__format_index(char *out, size_t out_bytes, const ls_shape *shape, size_t index);
// A negative dimension counts from the end; LS_ERR_INVALID when out of range.
int ls_shape__dim(int *out, int ndim, int dim);

// ---- Elements and operations ----
// That two operands have the same world, dtype and ranks.
int ls_local_tensor__check_pair(const ls_local_tensor *a, const ls_local_tensor *b);

// The end of an operation: on failure frees `tensor` and passes `status` on; otherwise declares the
// implied placement (NULL: none) and hands the tensor out.
int ls_local_tensor__finish(ls_local_tensor **out, ls_local_tensor *tensor, int status,
                            const ls_shape *shape, const ls_placements *placements);
// A zeroed tensor of `dtype` with the layout of `tensor`.
int ls_local_tensor__like(ls_local_tensor **out, const ls_local_tensor *tensor, ls_dtype dtype);
// Replicated, or partial by sum or avg.
bool ls_placement__is_linear_or_whole(const ls_placement *placement);
const ls_world *ls_rank_int__world(const ls_rank_int *value);
