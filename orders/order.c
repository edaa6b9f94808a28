// Orders as values: the three reductions that follow them, run by run.
#include "orders/order.h"

#include "orders/internal.h"

// ---- Overrides ----------------------------------------------------------------------------------
typedef struct overridden {
    const ls_order *order;
    int target;
    ls_order_visit visit;
    void *arg;
} overridden;

// Splits a run where an override begins or ends, and folds the overridden part its own way.
static int visit_overridden(void *arg, const ls_order_run *run) {
    const overridden *o = arg;
    size_t at = run->first;
    size_t end = run->first + run->length;
    while (at < end) {
        ls_order_run part = *run;
        size_t stop = end;
        for (int i = 0; i < o->order->override_count; i++) {
            const ls_order_override *override = &o->order->overrides[i];
            if (override->target >= 0 && override->target != o->target) {
                continue;
            }
            if (override->first <= at && at < override->end) {
                part.fold = override->fold;
                stop = override->end < stop ? override->end : stop;
                break;
            }
            if (override->first > at && override->first < stop) {
                stop = override->first;
            }
        }
        part.first = at;
        part.length = stop - at;
        LS_TRY(o->visit(o->arg, &part));
        at = stop;
    }
    return LS_OK;
}

static int rank_runs(const ls_order_range *range, ls_order_visit visit, void *arg) {
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)range->ranks, sizeof(int)));
    int *identity = memory;
    for (int i = 0; i < range->ranks; i++) {
        identity[i] = i;
    }
    ls_fold *fold = NULL;
    int status = ls_fold__linear(&fold, identity, range->ranks);
    ls_order_run run = {range->first, range->length, range->first, -1, 0, -1, fold};
    if (status == LS_OK && range->length > 0) {
        status = visit(arg, &run);
    }
    ls_fold__free(fold);
    ls_free(memory, (size_t)range->ranks, sizeof(int));
    return status;
}

int ls_order_runs(const ls_order *order, const ls_order_range *range, ls_order_visit visit,
                  void *arg) {
    LS_ASSERT(range != NULL && visit != NULL && range->ranks >= 1);
    LS_ASSERT(range->first <= range->count && range->length <= range->count - range->first);
    LS_ASSERT(range->target >= 0 && range->target < range->ranks);
    if (order != NULL && range->ranks > LS_ORDER_RANKS_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "order \"%.200s\": more than %d ranks", order->text,
                       LS_ORDER_RANKS_MAX);
    }
    overridden o = {order, range->target, visit, arg};
    if (order != NULL && order->override_count > 0) {
        for (int i = 0; i < order->override_count; i++) {
            if (order->overrides[i].fold->ranks != range->ranks) {
                return LS_FAIL(LS_ERR_INVALID, "order \"%.200s\" is for %d ranks, the group has %d",
                               order->text, order->overrides[i].fold->ranks, range->ranks);
            }
        }
        visit = visit_overridden;
        arg = &o;
    }
    switch (order == NULL ? LS_ORDER_RANK : order->kind) {
    case LS_ORDER_RANK:
        return rank_runs(range, visit, arg);
    case LS_ORDER_RING:
        return ls_nccl__ring_runs(order, range, visit, arg);
    case LS_ORDER_TREE:
        return ls_nccl__tree_runs(order, range, visit, arg);
    case LS_ORDER_SYMMETRIC:
        return ls_order__symmetric_runs(order, range, visit, arg);
    case LS_ORDER_MEASURED:
        return ls_order__measured_runs(order, range, visit, arg);
    }
    LS_ASSERT(!"a kind of order");
    return LS_ERR_INVALID;
}

// ---- Reductions ---------------------------------------------------------------------------------
typedef struct target {
    unsigned char *out;
    size_t first;
    size_t bytes;
    ls_fold_terms terms;
    ls_fma fma;
} target;

static int fold_run(void *arg, const ls_order_run *run) {
    target *t = arg;
    unsigned char *out = t->out + (run->first - t->first) * t->bytes;
    return ls_fold__run(out, &t->terms, run->fold, t->fma, run->origin, run->first, run->length);
}

// How the order rounds: whether partial results are kept in f32, and where products are fused.
static int arithmetic(bool *accumulate_f32, ls_fma *fma, const ls_order *order,
                      const ls_order_range *range, const ls_reduction *reduction) {
    *accumulate_f32 = false;
    *fma = LS_FMA_NEVER;
    if (order->kind == LS_ORDER_MEASURED) {
        const ls_measured_call *call = NULL;
        LS_TRY(ls_order__measured_find(&call, order, range));
        *accumulate_f32 = call->accumulate_f32 && reduction->op == LS_SUM;
        *fma = call->fma;
    } else if (order->kind == LS_ORDER_SYMMETRIC) {
        if (reduction->op != LS_SUM) {
            return LS_FAIL(LS_ERR_UNSUPPORTED,
                           "order \"%s\": NCCL's symmetric-memory kernels sum floats and nothing "
                           "else, not %s",
                           order->text, ls_op_name(reduction->op));
        }
        *accumulate_f32 = true;
    } else {
        *fma = ls_nccl__fma(order, reduction->dtype);
    }
    return LS_OK;
}

int ls_order_reduce(const ls_order *order, ls_order_call call, void *out,
                    const ls_reduction *reduction, int target_rank, size_t first, size_t length) {
    LS_ASSERT(reduction != NULL && reduction->in_count >= 1);
    LS_ASSERT(call != LS_ORDER_NONE && target_rank >= 0 && target_rank < reduction->in_count);
    LS_ASSERT(first <= reduction->count && length <= reduction->count - first);
    LS_ASSERT(ls_op_supports(reduction->op, reduction->dtype));
    LS_ASSERT(reduction->op != LS_PREMUL_SUM || reduction->premul != NULL);
    if (length == 0) {
        return LS_OK;
    }
    bool plain = order == NULL || order->kind == LS_ORDER_RANK;
    target t = {.out = out, .first = first, .bytes = ls_dtype_bytes(reduction->dtype)};
    t.terms.reduction = reduction;
    if (plain || !ls_fold__order_matters(reduction)) {
        return ls_fold__run(out, &t.terms, NULL, LS_FMA_NEVER, first, first, length);
    }
    ls_order_range range = {
        call, reduction->in_count, reduction->dtype, reduction->count, target_rank, first, length};
    bool accumulate_f32 = false;
    LS_TRY(arithmetic(&accumulate_f32, &t.fma, order, &range, reduction));
    LS_TRY(ls_fold__terms(&t.terms, reduction, accumulate_f32));
    int status = ls_order_runs(order, &range, fold_run, &t);
    ls_fold__terms_free(&t.terms);
    return status;
}
