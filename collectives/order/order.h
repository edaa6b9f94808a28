// Reduction orders. An order is a value: which ranks' terms are folded with which, in what sequence,
// for each element; where each step rounds; where a multiply-add is fused; how wide the accumulator
// is. The same order gives the same bits on every machine. A NULL order is rank order.
#ifndef LS_COLLECTIVES_ORDER_ORDER_H
#define LS_COLLECTIVES_ORDER_ORDER_H

#include <stddef.h>

#include "base/dtype.h"
#include "base/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_order ls_order;

// Makes an order from its text: "rank"; "ring" or "tree" with ":key=value,..." (protocol, channels,
// nccl version, per-channel rings or trees); "symmetric:..."; "measured:FILE". docs/orders.md lists
// them all. The caller frees it.
LS_API int ls_order_parse(ls_order **out, const char *text);
LS_API void ls_order_free(ls_order *order);  // NULL is allowed
// The canonical text, such that parsing it gives an equal order. Borrowed.
LS_API const char *ls_order_text(const ls_order *order);  // "rank" for NULL

// What is reduced, for the functions below.
typedef struct ls_reduction {
    const void *const *in;  // [in_count] inputs, one per rank of the group, in group order
    int in_count;           // ranks
    ls_dtype dtype;
    ls_op op;
    const double *premul;  // [in_count] factors of premul_sum, else NULL
    size_t count;          // elements of the whole call (all_reduce, reduce: per rank;
                           // reduce_scatter: per block), which chunk boundaries depend on
} ls_reduction;

// out [length] = elements [first, first + length) of the all_reduce of `reduction`. Any split of a
// call into ranges gives the same bits. out may equal an input's same range.
LS_API int ls_order_all_reduce(const ls_order *order, void *out, const ls_reduction *reduction,
                               size_t first, size_t length);
// The same for reduce to group member `root`.
LS_API int ls_order_reduce(const ls_order *order, void *out, const ls_reduction *reduction,
                           int root, size_t first, size_t length);
// The same for block `block` of a reduce_scatter: in[k] points at the block's first element in rank
// k's input.
LS_API int ls_order_reduce_scatter(const ls_order *order, void *out, const ls_reduction *reduction,
                                   int block, size_t first, size_t length);

#ifdef __cplusplus
}
#endif
#endif
