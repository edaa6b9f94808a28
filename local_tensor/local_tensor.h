// local_tensor: one logical tensor with a shard for every rank that this process holds, and what it
// rests on: the world (ranks, mesh, seed, memory), placements, per-rank integers. In the simulator
// a process holds all ranks; under MPI its own. Nothing here communicates: distributing from a
// source rank, gathering and redistributing are collectives (collectives/collectives.h).
#ifndef LS_LOCAL_TENSOR_LOCAL_TENSOR_H
#define LS_LOCAL_TENSOR_LOCAL_TENSOR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_DIMS_MAX      8      // dimensions of a tensor
#define LS_MESH_DIMS_MAX 6      // dimensions of a mesh
#define LS_RANKS_MAX     65536  // ranks of a world
#define LS_MESH_NAME_MAX 32     // bytes of a mesh dimension's name, with the 0

// ---- Shapes -------------------------------------------------------------------------------------
typedef struct ls_shape {
    int ndim;                  // 0: a scalar
    int64_t dim[LS_DIMS_MAX];  // sizes, each >= 0
} ls_shape;

#define LS_SHAPE(...)                                                                              \
    ((ls_shape){.ndim = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
                .dim = {__VA_ARGS__}})

int ls_shape_count(size_t *out, const ls_shape *shape);  // elements; LS_ERR_OVERFLOW
bool ls_shape_equal(const ls_shape *a, const ls_shape *b);
// "[2, 16]"; cut off to fit, always terminated. LS_SHAPE_TEXT_MAX bytes hold any shape.
#define LS_SHAPE_TEXT_MAX 192
void ls_shape_format(char *out, size_t out_bytes, const ls_shape *shape);

// A block of a logical tensor: where it starts and how large it is, per tensor dimension.
typedef struct ls_block {
    ls_shape offset;  // ndim and the starting index per dimension
    ls_shape size;    //
} ls_block;

// The part common to two blocks of one logical tensor (same number of dimensions, asserted).
// Returns its elements; 0 when they have none in common (then every size in *out is 0).
size_t ls_block_intersect(ls_block *out, const ls_block *a, const ls_block *b);
// Copies the part common to two blocks between their dense row-major arrays: to [to_block->size],
// from [from_block->size], elements of element_bytes. Returns the elements copied. The one
// primitive that cutting, joining and redistributing are made of.
size_t ls_block_copy(void *to, const ls_block *to_block, const void *from,
                     const ls_block *from_block, size_t element_bytes);

// ---- Mesh ---------------------------------------------------------------------------------------
// An n-D row-major arrangement of ranks. A world's mesh covers all its ranks; the fibers along a
// dimension are the groups that collectives on that axis use.
typedef struct ls_mesh {
    int ndim;
    int dim[LS_MESH_DIMS_MAX];
    char name[LS_MESH_DIMS_MAX][LS_MESH_NAME_MAX];  // "" where unnamed
} ls_mesh;

#define LS_MESH(...)                                                                               \
    ((ls_mesh){.ndim = (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), .dim = {__VA_ARGS__}})
// The same with names for the dimensions: LS_MESH_NAMED(("host", "gpu"), 2, 4).
#define LS_MESH_NAMED(names, ...)                                                                  \
    ((ls_mesh){.ndim = (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)),                          \
               .dim = {__VA_ARGS__},                                                               \
               .name = {LS_MESH_NAMES_ names}})
#define LS_MESH_NAMES_(...) __VA_ARGS__

int ls_mesh_size(int *out, const ls_mesh *mesh);  // number of ranks; checks every limit
void ls_mesh_coordinates(int *out, const ls_mesh *mesh, int rank);  // out [ndim]
int ls_mesh_rank(const ls_mesh *mesh, const int *coordinates);
// The ranks that differ from `rank` only in mesh dimension `axis`, ascending along it: out
// [mesh->dim[axis]].
void ls_mesh_fiber(int *out, const ls_mesh *mesh, int axis, int rank);
int ls_mesh_axis(int *out, const ls_mesh *mesh, const char *name);  // LS_ERR_NOT_FOUND
// "0-3, 7" for ascending ranks [rank_count]; cut off with "..." to fit, always terminated.
void ls_ranks_format(char *out, size_t out_bytes, const int *ranks, int rank_count);
int ls_ranks_find(const int *ranks, int rank_count, int rank);  // its index; -1: it is not there

// ---- World --------------------------------------------------------------------------------------
// The ranks of one program and what they share. No global state: worlds are independent.
typedef struct ls_world ls_world;

typedef struct ls_world_options {
    size_t size;      // sizeof this struct (LS_OPTIONS); 0: as this header has it
    ls_mesh mesh;     // required
    uint64_t seed;    //
    const int *held;  // ranks this process holds, ascending; NULL: all
    int held_count;   // at least 1 when held is given
} ls_world_options;

LS_API int ls_world_create(ls_world **out, const ls_world_options *options);
struct ls_device;
// The same with shards on a device (borrowed), whose memory the host shares. NULL: ordinary memory.
int ls_world_create_on(ls_world **out, const ls_world_options *options, struct ls_device *device);
LS_API void ls_world_free(ls_world *world);  // NULL is allowed; asserts that no tensor is left
const ls_mesh *ls_world_mesh(const ls_world *world);
LS_API_BACKENDS int ls_world_size(const ls_world *world);                  // ranks
LS_API int ls_world_held_count(const ls_world *world);                     // ranks held here
LS_API const int *ls_world_held(const ls_world *world);                    // ascending, borrowed
LS_API_BACKENDS int ls_world_held_index(const ls_world *world, int rank);  // -1 when not held
uint64_t ls_world_seed(const ls_world *world);
// Asked before memory is taken for the values of the world's tensors and modules, whose failure is
// its own: so a rank that runs as a thread has its faults of memory.
typedef int (*ls_memory_gate)(void *arg, size_t bytes);
void ls_world_set_gate(ls_world *world, ls_memory_gate gate, void *arg);
int ls_world_ask_gate(const ls_world *world, size_t bytes);

// ---- Placement ----------------------------------------------------------------------------------
typedef enum ls_placement_kind {
    LS_PLACE_REPLICATE,
    LS_PLACE_SHARD,
    LS_PLACE_PARTIAL
} ls_placement_kind;

// The placement of a tensor along one mesh dimension.
typedef struct ls_placement {
    ls_placement_kind kind;
    int dim;   // shard: which tensor dimension; negative counts from the end
    ls_op op;  // partial: how the ranks' values combine
    // shard: explicit sizes along the tensor dimension, one per coordinate of the mesh dimension,
    // each >= 0, summing to what there is to cut;
    // NULL: chunks of ceil(n / ranks), the last ones smaller or empty, as torch.chunk cuts. The
    // sizes are copied by the tensor that is created with them.
    const int64_t *sizes;
    // shard: as DTensor's _StridedShard. The dimension is first split into this many chunks, and
    // each of them is cut along the mesh dimension: coordinate i holds part i of each, one after
    // the other. 0, 1: no; not with sizes; at most LS_SPLIT_MAX.
    int split;
    // shard: of several mesh dimensions that shard one tensor dimension those of lower turn cut
    // first, those of equal turn from left to right.
    int turn;
} ls_placement;

#define LS_SPLIT_MAX 4096

#define LS_REPLICATE        ((ls_placement){.kind = LS_PLACE_REPLICATE})
#define LS_SHARD(dimension) ((ls_placement){.kind = LS_PLACE_SHARD, .dim = (dimension)})
#define LS_SHARD_SIZES(dimension, sizes_)                                                          \
    ((ls_placement){.kind = LS_PLACE_SHARD, .dim = (dimension), .sizes = (sizes_)})
#define LS_SHARD_STRIDED(dimension, split_)                                                        \
    ((ls_placement){.kind = LS_PLACE_SHARD, .dim = (dimension), .split = (split_)})
#define LS_SHARD_TURN(dimension, turn_)                                                            \
    ((ls_placement){.kind = LS_PLACE_SHARD, .dim = (dimension), .turn = (turn_)})
#define LS_PARTIAL(op_) ((ls_placement){.kind = LS_PLACE_PARTIAL, .op = (op_)})

// One placement per mesh dimension, outermost first; applied left to right but for turns. Several
// partial ones must have the same op, or be sum and avg: other mixtures mean what the order of
// reducing makes of them, and are refused.
typedef struct ls_placements {
    int count;  // must equal the mesh's ndim
    ls_placement at[LS_MESH_DIMS_MAX];
} ls_placements;

#define LS_PLACE(...)                                                                              \
    ((ls_placements){.count = (int)(sizeof((ls_placement[]){__VA_ARGS__}) / sizeof(ls_placement)), \
                     .at = {__VA_ARGS__}})

// Checks placements for a tensor of `shape` on `mesh` and copies them with dimensions >= 0, and
// with turns and splits only where these make a difference.
int ls_placements_normalize(ls_placements *out, const ls_placements *placements,
                            const ls_shape *shape, const ls_mesh *mesh);
// Same kinds, dimensions (as written: -1 and the last one differ), ops, explicit sizes, splits and
// turns.
bool ls_placement_equal(const ls_placement *a, const ls_placement *b, int mesh_dim);
bool ls_placements_equal(const ls_placements *a, const ls_placements *b, int mesh_dim_count,
                         const int *mesh_dims);
bool ls_placements_any_partial(const ls_placements *placements);  // NULL: no
void ls_placements_format(char *out, size_t out_bytes, const ls_placements *placements);
// "S(0), R, P(sum)" and back; "_S(0, 2)" is strided with split 2, "S(0)[1]" of turn 1; explicit
// sizes print as "S(0, sizes)", which does not parse.
LS_API int ls_placements_parse(ls_placements *out, const char *text);

// torch.chunk's rule for `size` elements over `count` parts: part `index` is
// [*offset, *offset + *length). Empty parts get offset = size.
void ls_chunk(int64_t *offset, int64_t *length, int64_t size, int64_t count, int64_t index);

// The block that `rank` holds of a tensor of `shape` under `placements`: left to right over the
// mesh dimensions, each shard cuts what the ones before it left (two may cut the same tensor
// dimension); partial and replicate leave all. LS_ERR_INVALID names the placement, and the rank
// where explicit sizes do not sum to what there is to cut, and a rank that a strided placement
// leaves several blocks.
int ls_placement_block(ls_block *out, const ls_shape *shape, const ls_mesh *mesh,
                       const ls_placements *placements, int rank);

// The blocks of every rank of a mesh: rank r's are blocks [first[r], first[r + 1]).
typedef struct ls_layout {
    int rank_count;
    size_t *first;     // [rank_count + 1]
    ls_block *blocks;  // [room], the first first[rank_count] of them set
    size_t room;
} ls_layout;

int ls_layout_of_placements(ls_layout *out, const ls_mesh *mesh, const ls_shape *shape,
                            const ls_placements *placements);
void ls_layout_free(ls_layout *layout);

// ---- Local tensors ------------------------------------------------------------------------------
// One logical tensor. Each held rank has a list of shards (usually one; several where a rank holds
// several blocks), each a dense row-major array with its block of the logical tensor. A tensor made
// by ls_local_tensor_from_shards may have shards of any shapes (then it has no logical shape).
typedef struct ls_local_tensor ls_local_tensor;

typedef struct ls_shard {
    ls_block block;  // place in the logical tensor; offset 0 when there is none
    void *data;      // dense, row-major, of the tensor's dtype; NULL only when it has no elements
    size_t count;    // elements
} ls_shard;

// A rank-dependent integer: one value per held rank.
typedef struct ls_rank_int ls_rank_int;

LS_API void ls_local_tensor_free(ls_local_tensor *tensor);  // NULL is allowed
LS_API ls_world *ls_local_tensor_world(const ls_local_tensor *tensor);
LS_API ls_dtype ls_local_tensor_dtype(const ls_local_tensor *tensor);
LS_API const ls_shape *
ls_local_tensor_shape(const ls_local_tensor *tensor);  // NULL: no logical one
LS_API const ls_placements *ls_local_tensor_placements(const ls_local_tensor *tensor);  // or NULL
// The ranks that have shards here: a subset of the world's held ranks, ascending.
LS_API int ls_local_tensor_rank_count(const ls_local_tensor *tensor);
LS_API const int *ls_local_tensor_ranks(const ls_local_tensor *tensor);
int ls_local_tensor_shard_count(const ls_local_tensor *tensor, int rank);
// Shard `index` of `rank`; NULL (and an error naming the rank) when there is none. Borrowed.
LS_API ls_shard *ls_local_tensor_shard(const ls_local_tensor *tensor, int rank, int index);

// A tensor of logical `shape` under `placements`, zeroed. Every shard is an allocation of its own,
// so that a memory checker sees an access past its end.
LS_API int ls_local_tensor_zeros(ls_local_tensor **out, ls_world *world, const ls_shape *shape,
                                 ls_dtype dtype, const ls_placements *placements);
// Every held rank cuts its own block out of `full` (dense, the whole tensor, the same on every
// rank); partial puts the values on coordinate 0 and the op's neutral element elsewhere (avg, which
// has none, puts the values everywhere). No communication; distributing from one rank is a
// collective. `full` may be NULL when the shape has no elements.
LS_API int ls_local_tensor_distribute(ls_local_tensor **out, ls_world *world, const void *full,
                                      const ls_shape *shape, ls_dtype dtype,
                                      const ls_placements *placements);
// Any shards at all: for each of ranks [rank_count] (held, ascending; NULL: all held, rank_count is
// then their number), shapes [rank_count] and data [rank_count] (copied; NULL entries, or NULL for
// all, are zeroed).
LS_API int ls_local_tensor_from_shards(ls_local_tensor **out, ls_world *world, ls_dtype dtype,
                                       const int *ranks, int rank_count, const ls_shape *shapes,
                                       const void *const *data);
// Several blocks per rank: blocks [block_count] with their ranks, any ranks of the world in any
// order; a rank's shards follow the order given here, and only held ranks' blocks get memory,
// zeroed. Checked over all ranks: blocks lie inside `shape`, no two overlap (the error names both),
// and, when `cover` is set, they cover it all (the error names an index that none holds). O(n log
// n) where blocks are rows, columns or a grid.
int ls_local_tensor_from_blocks(ls_local_tensor **out, ls_world *world, ls_dtype dtype,
                                const ls_shape *shape, const int *block_ranks,
                                const ls_block *blocks, int block_count, bool cover);
// The blocks of every rank, also of those that are not held here. LS_ERR_INVALID where there is no
// logical shape.
int ls_layout_of_tensor(ls_layout *out, const ls_local_tensor *tensor);
LS_API int ls_local_tensor_clone(ls_local_tensor **out, const ls_local_tensor *tensor);
// Declares that the tensor's shards (one per rank) are those of logical `shape` under `placements`,
// which they then follow. LS_ERR_MISMATCH names the rank and the dimension whose size is another.
int ls_local_tensor_place(ls_local_tensor *tensor, const ls_shape *shape,
                          const ls_placements *placements);

// Standard normal values, rounded to the tensor's floating-point type: element i of the *logical*
// tensor is a function of (seed, stream, i) alone, so any sharding of the same tensor holds the
// same numbers: ls_random_normal(seed, ls_random_stream(stream), LS_RANDOM_LOGICAL, i). Partial
// placements hold them as ls_local_tensor_distribute says.
#define LS_RANDOM_LOGICAL UINT32_MAX  // in place of a rank, which it can never be
LS_API int ls_local_tensor_randn(ls_local_tensor *tensor, const char *stream);

// Zeroes each element with probability p, in [0, 1), and divides the others by 1 - p, in place.
// Which ones is a function of (seed, stream, i) alone for element i of the logical tensor, so that
// replicas stay equal and any sharding drops the same; per_rank: of (seed, stream, rank, i), so
// that replicas differ. Partial values are refused: the ranks' terms would be dropped, not their
// sum.
LS_API int ls_local_tensor_dropout(ls_local_tensor *tensor, double p, const char *stream,
                                   bool per_rank);

// Calls `callback` once per rank of the tensor, ascending, with that rank's shards to fill or read.
// A non-zero return stops and is passed on, wrapped with the rank.
typedef int (*ls_rank_callback)(void *arg, int rank, ls_shard *shards, int shard_count);
LS_API int ls_local_tensor_map(ls_local_tensor *tensor, ls_rank_callback callback, void *arg);

// Checks that all ranks hold the same shape and the same bits (floats: NaN equals NaN of any
// payload; +0 and -0 differ). LS_ERR_MISMATCH names both ranks, the element and both values, and
// all ranks that differ from the first. On success copies one shard to out [count] if out is not
// NULL.
LS_API int ls_local_tensor_reconcile(void *out, const ls_local_tensor *tensor);
// Checks that held ranks which differ in replicated mesh dimensions alone hold the same bits (as
// above). LS_ERR_MISMATCH names the rank at fault (of a group without a majority: those unlike its
// first), the element and both values; wrong [held ranks], [*wrong_count]: the ranks at fault of
// the first group that differs. A tensor without placements has no replicas.
int ls_local_tensor_check_replicas(int *wrong, int *wrong_count, const ls_local_tensor *tensor);
// Checks that dtype, number of dimensions and, for every rank, the block are what the placements
// and the logical shape demand; names rank and dimension.
int ls_local_tensor_check(const ls_local_tensor *tensor);

#define LS_ELEMENT_TEXT_MAX 40
// The shortest text that reads back to the same element; out_bytes >= LS_ELEMENT_TEXT_MAX.
void ls_element_format(char *out, size_t out_bytes, const void *element, ls_dtype dtype);
// The bits of an element, zero-extended.
uint64_t ls_element_bits(const void *element, ls_dtype dtype);

// Prints placement and every held shard's block and head (at most `values_max` values each).
LS_API int ls_local_tensor_print(FILE *stream, const ls_local_tensor *tensor, size_t values_max);

// Metadata agreement across ranks: dtype and number of dimensions must be equal on all ranks, all
// sizes too unless `ragged_dim` (-1: none) names the one dimension that may differ.
int ls_local_tensor_check_metadata(const ls_local_tensor *tensor, int ragged_dim);

// ---- Plain operations, rank by rank -------------------------------------------------------------
// Each works on every rank's single shard alone and makes a new tensor, without logical shape and
// placements where these are not implied by the operands'; errors name the rank. Operands must have
// the same world, dtype and ranks.

// a op b, all ops but premul_sum. Shapes broadcast as torch's do, and a replicated operand is
// sharded as the other one: S + R is S, of any strided shard and any sizes; P(sum) * R and
// P(max) + R stay partial. Nothing is sent, so two shards of different dimensions are refused, and
// the error names a rank. Partial operands that do not combine give a result without placements.
LS_API int ls_local_tensor_elementwise(ls_local_tensor **out, const ls_local_tensor *a,
                                       const ls_local_tensor *b, ls_op op);
// Where placed operands that do not meet like that go first, as DTensor sends them: to the shards
// of the one that is sharded along more mesh dimensions (of equals a); partial values that op does
// not combine are reduced. False: both may stay, or there is no place for them.
bool ls_local_tensor_meeting(ls_placements *a_to, ls_placements *b_to, const ls_local_tensor *a,
                             const ls_local_tensor *b, ls_op op);
// Whether values of dtype that lie so may be multiplied by factor where they lie.
bool ls_placement_scales(const ls_placement *at, ls_dtype dtype, double factor);
// Multiplies in place by factor, first rounded to the dtype (integers: it must be one).
// LS_ERR_INVALID where partial values would not combine to the scaled value: products, maxima times
// what is negative, of integers times more than 1.
LS_API int ls_local_tensor_scale(ls_local_tensor *tensor, double factor);
// Every element converted, rounded once. LS_ERR_INVALID for partial values that would not combine
// to the converted value.
LS_API int ls_local_tensor_cast(ls_local_tensor **out, const ls_local_tensor *tensor,
                                ls_dtype dtype);
// a [m, k] b [k, n] on each rank, f32 or f64. Implied per mesh dimension: S(0) R -> S(0),
// R S(1) -> S(1), S(1) S(0) -> P(sum), R R -> R, and P(sum) or P(avg) with R stays.
LS_API int ls_local_tensor_matmul(ls_local_tensor **out, const ls_local_tensor *a,
                                  const ls_local_tensor *b);
// Joins the shards of each rank along dim; all other sizes must agree.
LS_API int ls_local_tensor_cat(ls_local_tensor **out, const ls_local_tensor *const *tensors,
                               int tensor_count, int dim);
// start and length per rank (ls_rank_int), so that ranks may narrow differently.
int ls_local_tensor_narrow(ls_local_tensor **out, const ls_local_tensor *tensor, int dim,
                           const ls_rank_int *start, const ls_rank_int *length);
// The same elements as a tensor of another shape (one -1: what is left over), where no element
// leaves its rank. A flattened shard of an inner dimension becomes strided, and one whose cuts are
// no chunks any more gets explicit sizes; LS_ERR_UNSUPPORTED says what to redistribute else.
LS_API int ls_local_tensor_view(ls_local_tensor **out, const ls_local_tensor *tensor,
                                const ls_shape *shape);
// Part [start, start + length) of the logical tensor along dim: each rank keeps what it has of it,
// with explicit sizes where dim is sharded.
LS_API int ls_local_tensor_slice(ls_local_tensor **out, const ls_local_tensor *tensor, int dim,
                                 int64_t start, int64_t length);
LS_API int ls_local_tensor_transpose(ls_local_tensor **out, const ls_local_tensor *tensor,
                                     int dim_a, int dim_b);
// Folds dim, which disappears, by sum, prod, max, min or avg (the sum over all ranks' elements will
// be the mean: each rank divides its own by the logical size); in the tensor's dtype, left to
// right. A shard along dim becomes partial by op (avg: by sum).
LS_API int ls_local_tensor_reduce(ls_local_tensor **out, const ls_local_tensor *tensor, int dim,
                                  ls_op op);

// ---- Per-rank integers --------------------------------------------------------------------------
LS_API int ls_rank_int_create(ls_rank_int **out, const ls_world *world, const int64_t *values);
int ls_rank_int_same(ls_rank_int **out, const ls_world *world, int64_t value);
int ls_rank_int_rank(ls_rank_int **out, const ls_world *world);  // each rank's own number
int ls_rank_int_coordinate(ls_rank_int **out, const ls_world *world, int axis);
LS_API void ls_rank_int_free(ls_rank_int *value);
int64_t ls_rank_int_at(const ls_rank_int *value, int rank);  // asserts that rank is held

typedef enum ls_int_op {
    LS_INT_ADD,
    LS_INT_SUB,
    LS_INT_MUL,
    LS_INT_FLOORDIV,
    LS_INT_MOD,
    LS_INT_MIN,
    LS_INT_MAX
} ls_int_op;
// LS_ERR_INVALID for division by zero and LS_ERR_OVERFLOW, both naming the rank.
int ls_rank_int_binary(ls_rank_int **out, ls_int_op op, const ls_rank_int *a, const ls_rank_int *b);

typedef enum ls_int_compare {
    LS_INT_EQ,
    LS_INT_NE,
    LS_INT_LT,
    LS_INT_LE,
    LS_INT_GT,
    LS_INT_GE
} ls_int_compare;
// One answer for all held ranks; LS_ERR_MISMATCH names the ranks on both sides when they disagree
// (a branch on it would split the single instruction stream).
int ls_rank_int_compare(bool *out, ls_int_compare compare, const ls_rank_int *a,
                        const ls_rank_int *b);
// The common value; LS_ERR_MISMATCH names two ranks that differ.
int ls_rank_int_value(int64_t *out, const ls_rank_int *value);

#ifdef __cplusplus
}
#endif
#endif
