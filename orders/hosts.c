// Double binary trees over hosts: which rank adds whose partial sums when a tree spans machines.
// Each host's ranks form a chain; the hosts form two trees, half of the channels use each. Follows
// NCCL's graph/trees.cc and connect.cc; no result over several hosts was available to try it on.
#include "orders/internal.h"

// A binary tree over 0 .. count-1 rooted at 0 in which odd numbers are leaves. children [2]: -1
// where there is none.
static void binary_children(int children[2], int count, int host) {
    children[0] = children[1] = -1;
    int bit = 1;
    while (bit < count && (host & bit) == 0) {
        bit <<= 1;
    }
    if (host == 0) {
        children[1] = count > 1 ? bit >> 1 : -1;
        return;
    }
    int step = bit >> 1;
    if (step == 0) {
        return;
    }
    children[0] = host - step;
    while (step > 0 && host + step >= count) {
        step >>= 1;
    }
    children[1] = step > 0 ? host + step : -1;
}

// The second tree: the first one mirrored where the count is even, shifted by one where it is odd.
static void tree_children(int children[2], int count, int host, bool second) {
    if (!second) {
        binary_children(children, count, host);
        return;
    }
    bool odd = count % 2 == 1;
    binary_children(children, count, odd ? (host + count - 1) % count : count - 1 - host);
    for (int i = 0; i < 2; i++) {
        if (children[i] >= 0) {
            children[i] = odd ? (children[i] + 1) % count : count - 1 - children[i];
        }
    }
}

int ls_order__host_tree(ls_fold **out, const ls_order *order, int ranks, int channel) {
    *out = NULL;
    int hosts = order->hosts;
    if (ranks % hosts != 0) {
        return LS_FAIL(LS_ERR_INVALID, "order \"%.200s\": %d ranks do not fill %d hosts evenly",
                       order->text, ranks, hosts);
    }
    int local = ranks / hosts;
    bool second = channel >= (order->channels + 1) / 2;
    int next = local > 1 ? 1 : 0;
    // Which of a host's ranks add the first and the second child host's sum.
    int toward[2] = {order->pattern == LS_TREE_SINGLE ? 0 : next,
                     order->pattern == LS_TREE_SPLIT ? next : 0};
    void *memory = NULL;
    LS_TRY(ls_alloc(&memory, (size_t)ranks * 2, sizeof(int)));
    int *parents = memory;
    int *sequence = parents + ranks;
    for (int r = 0; r < ranks; r++) {
        parents[r] = r % local == 0 ? -1 : r - 1;
    }
    // A rank adds its chain's child before other hosts', and those in order: so children are listed
    // chains first, then each host's first child, then its second.
    int listed = 0;
    for (int r = 0; r < ranks; r++) {
        if (r % local != 0) {
            sequence[listed++] = r;
        }
    }
    for (int i = 0; i < 2; i++) {
        for (int host = 0; host < hosts; host++) {
            int children[2];
            tree_children(children, hosts, host, second);
            if (children[i] >= 0) {
                int head = children[i] * local;
                LS_ASSERT(parents[head] < 0);
                parents[head] = host * local + toward[i];
                sequence[listed++] = head;
            }
        }
    }
    for (int host = 0; host < hosts; host++) {
        if (parents[host * local] < 0) {
            sequence[listed++] = host * local;
        }
    }
    LS_ASSERT(listed == ranks);
    int status = ls_fold__from_parents(out, parents, sequence, ranks);
    ls_free(memory, (size_t)ranks * 2, sizeof(int));
    return status;
}
