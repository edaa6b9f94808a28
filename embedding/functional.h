// torch.nn.functional.embedding and embedding_bag on local tensors whose weight is sharded by rows
// or by columns along a mesh axis, as torch.distributed._shard does them: without a module, a plan
// or jagged inputs (module.h has those). Each is made of the collectives that real ranks would
// make.
#ifndef LS_EMBEDDING_FUNCTIONAL_H
#define LS_EMBEDDING_FUNCTIONAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "collectives/collectives.h"
#include "kernels/pooling.h"

#ifdef __cplusplus
extern "C" {
#endif

// How rows of a weight that is sharded by rows reach the ranks that request them.
typedef enum ls_rows_way {
    // Ids are gathered; each rank looks its own up, 0 (max: -infinity) for the others; then
    // reduce_scatter, or all_reduce where the ids are replicated. Every rank asks for as many.
    LS_ROWS_MASKED,
    // Each id goes to the rank that owns its row by all_to_all, and the row comes back. Ranks may
    // ask for different numbers.
    LS_ROWS_EXCHANGED,
} ls_rows_way;

typedef struct ls_functional_options {
    size_t size;      // sizeof this struct (LS_OPTIONS); 0: as this header has it
    ls_rows_way way;  // of a weight sharded by rows
    bool has_padding_id;
    int64_t padding_id;  // in [0, rows); in bags: ids that are ignored. Otherwise an ordinary row.
    bool has_max_norm;   // looked-up rows whose norm is larger are first scaled down in place
    double max_norm;     // above 0
    double norm_type;    // the p of that norm; 0: 2
    bool scale_grad_by_freq, sparse;  // of torch's signature: refused
    // only bags
    ls_pooling mode;                 // sum, mean or max
    const ls_local_tensor *offsets;  // i64 [bags] on each rank, of ids [n]; NULL: ids [bags, k]
    bool include_last_offset;        // offsets [bags + 1] end with the number of ids
    const ls_local_tensor *weights;  // f32, one for each id, only for sums; NULL: none
} ls_functional_options;

// out [ids' shape, D] = rows of weight [V, D] (f32, f64, f16, bf16), which one placement, along
// `axis`, shards by rows or by columns, and nothing else cuts. ids are i64: replicated along the
// axis by their placement, else each rank's own, as is then the result. A weight sharded by
// columns, and masked rows, need as many ids (along dimension 0) on every rank of the axis as
// torch.chunk gives. LS_ERR_INVALID says what is wrong with which argument, and names the rank and
// the place of an id that is out of range; nothing was sent or changed then.
LS_API int ls_tensor_embedding(ls_local_tensor **out, const ls_local_tensor *ids,
                               ls_local_tensor *weight, const ls_functional_options *options,
                               const ls_axis *axis);
// out [bags, D] of the pooled rows of each bag: f32, of f64 tables f64. An empty bag, and one of
// padding alone, gives 0; a mean divides by the ids that count.
LS_API int ls_tensor_embedding_bag(ls_local_tensor **out, const ls_local_tensor *ids,
                                   ls_local_tensor *weight, const ls_functional_options *options,
                                   const ls_axis *axis);

#ifdef __cplusplus
}
#endif
#endif
