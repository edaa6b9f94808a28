// Redistribution planned: the cheapest sequence of collectives that takes a tensor from one set of
// placements on an n-dimensional mesh to another. Only plans; the owner of the tensor
// executes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#define LS_RESHARD_MESH_MAX   6
#define LS_RESHARD_STATES_MAX 300000  // placements of all mesh dimensions that a search examines

typedef enum ls_reshard_kind {
    LS_RESHARD_REPLICATE,
    LS_RESHARD_SHARD,
    LS_RESHARD_PARTIAL
} ls_reshard_kind;

// The placement of a tensor along one mesh dimension. If several mesh dimensions shard one tensor
// dimension, the first of them cuts first.
typedef struct ls_reshard_placement {
    ls_reshard_kind kind;
    int dim;   // SHARD: the tensor's dimension
    ls_op op;  // PARTIAL
} ls_reshard_placement;

// The mesh as PyTorch's cost model sees it (DTensor's MeshTopoInfo): one bandwidth (GB/s, while
// bytes count in GiB) and one hop latency (us) per mesh dimension.
typedef struct ls_reshard_mesh {
    int ndim;
    int size[LS_RESHARD_MESH_MAX];
    double bandwidth[LS_RESHARD_MESH_MAX];
    double latency_us[LS_RESHARD_MESH_MAX];
} ls_reshard_mesh;

// Its numbers: 87.7 and 0.6 inside a host; from the mesh dimension on whose running product from
// the last dimension exceeds devices_per_host, 0.22 of that bandwidth and 2.7. LS_ERR_INVALID.
int ls_reshard_mesh_make(ls_reshard_mesh *out, const int *sizes, int ndim, int devices_per_host);

// Microseconds of one ring collective over mesh dimension `dim`; gib: of the gathered or whole
// buffer (all_gather, all_reduce, reduce_scatter), or of a rank's own (all_to_all).
double ls_reshard_all_gather_us(double gib, const ls_reshard_mesh *mesh, int dim);
double ls_reshard_reduce_scatter_us(double gib, const ls_reshard_mesh *mesh, int dim);
double ls_reshard_all_reduce_us(double gib, const ls_reshard_mesh *mesh, int dim);
double ls_reshard_all_to_all_us(double gib, const ls_reshard_mesh *mesh, int dim);

// PyTorch's redistribute_cost, restated: mesh dimensions in order, one collective each; shard to
// shard costs an all_gather plus one. INFINITY where PyTorch's is. bytes: of the whole tensor.
double ls_reshard_cost_us(double bytes, const ls_reshard_placement *from,
                          const ls_reshard_placement *to, const ls_reshard_mesh *mesh);

typedef struct ls_reshard_step {
    int mesh_dim;
    ls_reshard_placement from, to;
    const char *collective;  // "all_gather", "all_to_all", "all_reduce", "reduce_scatter", or NULL:
                             // local
    double bytes;            // a rank's own shard before the step
    double us;
} ls_reshard_step;

// Longest plans: every mesh dimension is touched at most a few times.
#define LS_RESHARD_STEPS_MAX 64
typedef struct ls_reshard_plan {
    ls_reshard_step steps[LS_RESHARD_STEPS_MAX];
    int count;
    double us;
} ls_reshard_plan;

// The cheapest sequence, by search over all placements. Ties go to fewer steps. from, to
// [mesh->ndim]; tensor_ndim dimensions; bytes of the whole tensor. LS_ERR_INVALID: a placement
// outside the tensor, or partial to partial of another operation; LS_ERR_LIMIT: too many
// placements.
int ls_reshard_search(ls_reshard_plan *out, double bytes, int tensor_ndim,
                      const ls_reshard_placement *from, const ls_reshard_placement *to,
                      const ls_reshard_mesh *mesh);
// The order that ls_tensor_redistribute takes: from the last mesh dimension to the first, with
// inner ones gathered that cut what an outer one changes, and partial values made last.
int ls_reshard_in_order(ls_reshard_plan *out, double bytes, int tensor_ndim,
                        const ls_reshard_placement *from, const ls_reshard_placement *to,
                        const ls_reshard_mesh *mesh);
// DTensor's own order: inner mesh dimensions first while nested shards differ, then
// the rest from the first on. LS_ERR_UNSUPPORTED: it needs shard to partial.
int ls_reshard_greedy(ls_reshard_plan *out, double bytes, int tensor_ndim,
                      const ls_reshard_placement *from, const ls_reshard_placement *to,
                      const ls_reshard_mesh *mesh);
