// Orders as values: their text, and the three reductions that follow them.
#include "collectives/order/order.h"

#include <string.h>

#include "kernels/kernels.h"

struct ls_order {
    char text[8];
};

int ls_order_parse(ls_order **out, const char *text) {
    LS_ASSERT(out != NULL && text != NULL);
    *out = NULL;
    if (strcmp(text, "rank") != 0) {
        return LS_FAIL(LS_ERR_INVALID, "order \"%.40s\": not a known order", text);
    }
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, 1, sizeof(ls_order)));
    ls_order *order = memory;
    memcpy(order->text, "rank", sizeof "rank");
    *out = order;
    return LS_OK;
}

void ls_order_free(ls_order *order) {
    ls_free(NULL, order, 1, sizeof(ls_order));
}

const char *ls_order_text(const ls_order *order) {
    return order == NULL ? "rank" : order->text;
}

static int reduce_range(void *out, const ls_reduction *reduction, size_t first, size_t length) {
    LS_ASSERT(reduction->in_count >= 1 && first + length <= reduction->count);
    size_t offset = first * ls_dtype_bytes(reduction->dtype);
    size_t ranks = (size_t)reduction->in_count;
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, NULL, ranks, sizeof(void *)));
    const void **in = memory;
    for (size_t k = 0; k < ranks; k++) {
        in[k] = (const char *)reduction->in[k] + offset;
    }
    ls_kernel_reduce(out, in, ranks, reduction->dtype, reduction->op, reduction->premul, length);
    ls_free(NULL, memory, ranks, sizeof(void *));
    return LS_OK;
}

int ls_order_all_reduce(const ls_order *order, void *out, const ls_reduction *reduction,
                        size_t first, size_t length) {
    (void)order;
    return reduce_range(out, reduction, first, length);
}

int ls_order_reduce(const ls_order *order, void *out, const ls_reduction *reduction, int root,
                    size_t first, size_t length) {
    (void)order;
    LS_ASSERT(root >= 0 && root < reduction->in_count);
    return reduce_range(out, reduction, first, length);
}

int ls_order_reduce_scatter(const ls_order *order, void *out, const ls_reduction *reduction,
                            int block, size_t first, size_t length) {
    (void)order;
    LS_ASSERT(block >= 0 && block < reduction->in_count);
    return reduce_range(out, reduction, first, length);
}
