// Point to point: one send and its matching receive, as calls [2].
#include "collectives/check.h"

static int fail_pair(const ls_call *send, const ls_call *recv, ls_finding_id id, const char *what) {
    char send_text[256], recv_text[256];
    ls_call_format(send_text, sizeof send_text, send);
    ls_call_format(recv_text, sizeof recv_text, recv);
    ls_check__note(id, send);
    if (recv->rank != send->rank) {
        ls_check__note_rank(recv);
    }
    return LS_FAIL_RANK(LS_ERR_MISMATCH, send->rank, "%s meets %s: %s", send_text, recv_text, what);
}

static int check(const ls_call *const *calls, int size) {
    LS_ASSERT(size == 2);
    const ls_call *send = calls[0], *recv = calls[1];
    if (send->kind != LS_SEND || recv->kind != LS_RECV) {
        return fail_pair(send, recv, LS_FINDING_KIND_MISMATCH, "they are not a send and a receive");
    }
    if (send->comm != recv->comm) {
        return fail_pair(send, recv, LS_FINDING_GROUP_MISMATCH, "the communicators differ");
    }
    if (send->comm->ranks[send->root] != recv->rank ||
        recv->comm->ranks[recv->root] != send->rank) {
        return fail_pair(send, recv, LS_FINDING_GROUP_MISMATCH, "they name different peers");
    }
    if (send->dtype != recv->dtype) {
        return fail_pair(send, recv, LS_FINDING_P2P_DTYPE_MISMATCH, "the dtypes differ");
    }
    if (send->count != recv->count) {
        return fail_pair(send, recv, LS_FINDING_P2P_COUNT_MISMATCH, "the counts differ");
    }
    return LS_OK;
}

static uint64_t bytes(const ls_call *const *calls, int from, int to) {
    return from == 0 && to == 1 ? (uint64_t)calls[0]->count * ls_dtype_bytes(calls[0]->dtype) : 0;
}

static int math(const ls_call *const *calls, int size, const ls_order *order) {
    (void)size, (void)order;
    return ls_block__move(ls_call__device(calls[0]), calls[1]->recv, calls[0]->send,
                          calls[0]->count * ls_dtype_bytes(calls[0]->dtype));
}

static int reference(const ls_call *const *calls, int size) {
    (void)size;
    for (size_t k = 0; k < calls[0]->count * ls_dtype_bytes(calls[0]->dtype); k++) {
        ((unsigned char *)calls[1]->recv)[k] = ((const unsigned char *)calls[0]->send)[k];
    }
    return LS_OK;
}

const ls_collective ls_collective__send = {
    .doc = "Sends a message to a rank, which receives it.",
    .send = {.form = LS_SIDE_COUNT},
    .root_word = "to",
    .check = check,
    .bytes = bytes,
    .math = math,
    .reference = reference,
};

const ls_collective ls_collective__recv = {
    .doc = "Receives a message from a rank, which sends it.",
    .recv = {.form = LS_SIDE_COUNT},
    .root_word = "from",
    .check = check,
    .bytes = bytes,
    .math = math,
    .reference = reference,
};
