// What the operations on local tensors share. Private to this folder.
#ifndef LS_COLLECTIVES_TENSOR_H
#define LS_COLLECTIVES_TENSOR_H

#include "collectives/collectives.h"

// Changes the placement along mesh dimension `axis` alone, from what `in` has to `to`: shard to
// replicate (all_gather), partial to replicate (all_reduce) or shard (reduce_scatter), shard to
// shard (all_to_all), replicate to shard or partial (local). No inner mesh dimension may shard a
// tensor dimension that either placement shards.
int ls_tensor__step(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in, int axis,
                    const ls_placement *to);

// The backend's communicators along a mesh dimension, made on first use (making them is slow on
// real backends) and owned by the backend.
int ls_tensor__axis(const ls_axis **out, ls_backend *backend, int axis);

// The only shard of a rank that the tensor holds; LS_ERR_INVALID names a rank with several or none.
int ls_tensor__single(ls_shard **out, const ls_local_tensor *tensor, int rank);

#endif
