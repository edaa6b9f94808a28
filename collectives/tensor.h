// Shared by the operations on local tensors. Private to this folder.
#pragma once

#include "collectives/collectives.h"

// Changes the placement only along mesh dimension `axis`, from that of `in` to `to`: shard to
// replicate (all_gather), partial to replicate (all_reduce) or shard (reduce_scatter), shard to
// shard (all_to_all), replicate to shard or partial (local). No inner mesh dimension may shard a
// tensor dimension that either placement shards.
int ls_tensor__step(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in, int axis,
                    const ls_placement *to);

// Moves a tensor with a logical shape to the layout of `to`, whose partial dimensions must be those
// of `in`: any blocks to any blocks, in one all_to_all of all ranks, or in none where nothing
// moves.
int ls_tensor__exchange(ls_local_tensor **out, ls_backend *backend, const ls_local_tensor *in,
                        const ls_placements *to);

// The backend's communicators along a mesh dimension, made on first use (making them is slow on
// real backends) and owned by the backend.
int ls_tensor__axis(const ls_axis **out, ls_backend *backend, int axis);

// The only shard of a rank that the tensor holds; LS_ERR_INVALID names a rank with several or none.
int ls_tensor__single(ls_shard **out, const ls_local_tensor *tensor, int rank);
