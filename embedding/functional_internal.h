// Shared by the files of the functional embedding. Private to this folder.
#pragma once

#include "embedding/functional.h"

typedef struct ls_functional {
    const ls_functional_options *options;
    const ls_axis *axis;
    ls_backend *backend;
    ls_world *world;
    const ls_local_tensor *ids;
    ls_local_tensor *weight;
    ls_arena *arena;
    int64_t rows, columns;  // of the whole weight
    int dim;                // which of these is sharded
    bool replicated;        // the ids, along the axis
    int held;
} ls_functional;

// Checks all arguments of a lookup (bag: also those of bags) and fills what follows from them, all
// but the arena.
int ls_functional__check(ls_functional *f, bool bag);
// The single shard of the i-th held rank.
ls_shard *ls_functional__shard(const ls_functional *f, const ls_local_tensor *tensor, int i);
const ls_comm *ls_functional__comm(const ls_functional *f, int i);
void *ls_functional__need(const ls_functional *f, size_t count, size_t size);

// The ids of all ranks of the axis, one after another; *owned is NULL where they are replicated.
int ls_functional__gather(const ls_local_tensor **out, ls_local_tensor **owned,
                          const ls_functional *f, const ls_local_tensor *tensor);
// max_norm: scales down the rows of each shard that the ids of `seen` name.
int ls_functional__renormalise(ls_functional *f, const ls_local_tensor *seen);
// out [ids' shape, D] by the exchange of ids and rows.
int ls_functional__exchange(ls_local_tensor **out, ls_functional *f);
// Every rank's results for all ids or bags, [all, ..., its columns], reduced or joined by columns,
// and cut to what each asked for: as much along dimension 0 as it has of `own`.
int ls_functional__combine(ls_local_tensor **out, const ls_functional *f,
                           const ls_local_tensor *made, const ls_local_tensor *own, ls_op op);
