// Reduction orders. An order is a value: which ranks' terms are folded with which, in what
// sequence, for each element; where each step rounds; where a multiply-add is fused; how wide the
// accumulator is. The same order gives the same bits on every machine. A NULL order is rank order.
#ifndef LS_ORDERS_ORDER_H
#define LS_ORDERS_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/dtype.h"
#include "base/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_order ls_order;

// Makes an order from its text: "rank"; "ring" or "tree" with ":key=value,..." (protocol, channels,
// NCCL version, per-channel rings or trees, ...); "symmetric:..."; "measured:FILE". docs/orders.md
// lists them all. The caller frees it. LS_ERR_INVALID names the part that is wrong; a measured file
// adds LS_ERR_IO and LS_ERR_FORMAT.
LS_API int ls_order_parse(ls_order **out, const char *text);
// The FILE of "measured:FILE" within `text`; NULL for every other order.
const char *ls_order_file(const char *text);
LS_API void ls_order_free(ls_order *order);  // NULL is allowed
// The canonical text, such that parsing it gives an equal order. Borrowed.
LS_API const char *ls_order_text(const ls_order *order);  // "rank" for NULL

// The reduction, for the functions below.
typedef struct ls_reduction {
    const void *const *in;  // [in_count] inputs, one per rank of the group, in group order
    int in_count;           // ranks
    ls_dtype dtype;
    ls_op op;
    const double *premul;      // [in_count] factors of premul_sum, else NULL
    size_t count;              // elements of the whole call (all_reduce, reduce: per rank;
                               // reduce_scatter: per block), which chunk boundaries depend on
    struct ls_device *device;  // device of in[]'s memory and of the results; NULL: ordinary memory
} ls_reduction;

// The calls whose sums an order describes.
typedef enum ls_order_call {
    LS_ORDER_NONE,  // a call's sum has a fixed order, as a scan's, or there is none
    LS_ORDER_ALL_REDUCE,
    LS_ORDER_REDUCE,
    LS_ORDER_REDUCE_SCATTER,
} ls_order_call;

// out [length] = elements [first, first + length) of `call` on `reduction`. target: the root of a
// reduce; the block of a reduce_scatter, where in[k] points at the block's first element in rank
// k's input; else 0. Any split of a call into ranges gives the same bits. out may equal an input's
// same range. Under an NCCL order, avg of floats multiplies each term by the rounded 1/ranks and
// fuses where NCCL's kernels do. LS_ERR_MEMORY, and the errors of ls_order_runs.
int ls_order_reduce(const ls_order *order, ls_order_call call, void *out,
                    const ls_reduction *reduction, int target, size_t first, size_t length);

// ---- Looking at an order ------------------------------------------------------------------------
// Which elements of which call.
typedef struct ls_order_range {
    ls_order_call call;
    int ranks;
    ls_dtype dtype;
    size_t count;   // as in ls_reduction
    int target;     // the root of a reduce, the block of a reduce_scatter, else 0
    size_t first;   // elements [first, first + length)
    size_t length;  //
} ls_order_range;

// How one element's terms are folded; opaque.
typedef struct ls_fold ls_fold;

// Consecutive elements that are folded alike.
typedef struct ls_order_run {
    size_t first;
    size_t length;
    size_t origin;        // the element where the chunk starts
    int channel;          // -1 where the order has none
    size_t loop;          // of the channel
    int chunk;            // of the loop; -1 where the order has none
    const ls_fold *fold;  // borrowed for the visit
} ls_order_run;

typedef int (*ls_order_visit)(void *arg, const ls_order_run *run);
// Calls `visit` for the runs of a range, ascending and without gaps. Stops at the first status that
// is not LS_OK and returns it. LS_ERR_INVALID where the order does not fit the number of ranks,
// LS_ERR_OVERFLOW where the call's size does not fit.
int ls_order_runs(const ls_order *order, const ls_order_range *range, ls_order_visit visit,
                  void *arg);
// "0(1(2(3)))": rank 3's term, rank 2's added, then 1's, then 0's. out gets a terminating 0 and is
// cut where it does not fit.
void ls_fold_text(char *out, size_t out_bytes, const ls_fold *fold);

#ifdef __cplusplus
}
#endif
#endif
