// Injects faults into the calls of ranks.

#include "ranks/internal.h"
#include "ranks/injected.h"

// The bytes of its own memory that a call sends: a bit flip affects those.
static size_t sent_bytes(const ls_request *request) {
    const ls_call *call = &request->call;
    size_t bytes = call->count;
    if (call->send == NULL || !ls_dtype_valid((int)call->dtype) ||
        (!ls_kind_is_ask(call->kind) && ls_call_send_elements(&bytes, call) != LS_OK) ||
        ls_size_mul(&bytes, bytes, ls_dtype_bytes(call->dtype)) != LS_OK ||
        bytes > PTRDIFF_MAX / 8) {
        return 0;  // the call's own checks say what is wrong
    }
    // Nothing is written past what the call itself may read.
    const ls_allocation *known = ls_memory__find(request->rank, call->send);
    if (known != NULL) {
        size_t left = known->bytes - (size_t)((const char *)call->send - known->start);
        bytes = bytes < left ? bytes : left;
    }
    return bytes;
}

static void flip_bit(const ls_request *request, int64_t amount) {
    uint64_t bit = (uint64_t)amount % ((uint64_t)sent_bytes(request) * 8);
    // The buffer is the program's own, which it may write; only the call is const.
    unsigned char *memory = (unsigned char *)(uintptr_t)request->call.send;
    memory[bit / 8] = (unsigned char)(memory[bit / 8] ^ (1u << (bit % 8)));
}

// Whether a call's count determines its data: a barrier moves nothing, and an all_to_all may have
// separate counts.
static bool has_count(const ls_call *call) {
    if (ls_kind_is_ask(call->kind)) {
        return call->kind == LS_CHECK_REPLICA;
    }
    const ls_collective *collective = ls_collective_of(call->kind);
    bool own = ls_collective_has_splits(collective) && call->send_counts != NULL;
    return ls_collective_has_data(collective) && !own;
}

// Why a fault changes nothing in a call; NULL: it does.
static const char *misses(const ls_request *request, ls_fault_type type) {
    const ls_call *call = &request->call;
    bool splits = call->send_counts != NULL || call->recv_counts != NULL;
    if (type == LS_FAULT_BIT_FLIP && request->rank->run->options.shape_only) {
        return "has no data in a run of shapes only";
    }
    if (type == LS_FAULT_BIT_FLIP) {
        return sent_bytes(request) > 0 ? NULL : "sends no data, so no bit can flip";
    }
    if ((type != LS_FAULT_WRONG_COUNT && type != LS_FAULT_WRONG_SPLIT) || has_count(call) ||
        (type == LS_FAULT_WRONG_SPLIT && splits)) {
        return NULL;
    }
    return call->send_counts != NULL ? "has no single count; wrong_split changes its counts"
                                     : "has no count";
}

// Notes that the fault found its call; false: it changes nothing there, and why is noted instead.
static bool finds_call(const ls_request *request, int index) {
    ls_spmd_result *result = request->rank->run->result;
    const char *why = misses(request, request->rank->run->options.faults[index].type);
    result->missed[index] =
        why == NULL ? NULL
                    : ls_arena_printf(result->arena, "call %llu of rank %d, %s, %s",
                                      (unsigned long long)request->number, request->rank->id,
                                      ls_kind_name(request->call.kind), why);
    return why == NULL;
}

// Changes the first count of a copy; where the call has no counts, what it sends to everyone.
static int change_split(ls_request *request, int64_t amount) {
    ls_call *call = &request->call;
    size_t size = (size_t)call->comm->size;
    const size_t *counts = call->send_counts != NULL ? call->send_counts : call->recv_counts;
    if (counts == NULL) {
        call->count += (size_t)amount;
        return LS_OK;
    }
    size_t *changed = ls_arena_copy(request->rank->run->arena, counts, size * sizeof *counts);
    LS_TRY_MEMORY(changed != NULL);
    changed[0] += (size_t)amount;
    if (call->send_counts != NULL) {
        call->send_counts = changed;
    } else {
        call->recv_counts = changed;
    }
    return LS_OK;
}

// The sizes of the call's buffers before a fault changes the call; a comparison of replicas is no
// collective, and reads its memory itself.
static int note_before(ls_request *request) {
    if (request->call.kind >= LS_KIND_COUNT) {
        return LS_OK;
    }
    request->recounted = true;
    LS_TRY(ls_call_send_elements(&request->send_before, &request->call));
    return ls_call_recv_elements(&request->recv_before, &request->call);
}

// Whether its buffers would have to be larger than they are. A call without a count is reported so.
static bool overstates(const ls_request *request) {
    size_t send = 0, recv = 0;
    return ls_call_send_elements(&send, &request->call) == LS_OK &&
           ls_call_recv_elements(&recv, &request->call) == LS_OK &&
           (send > request->send_before || recv > request->recv_before);
}

int ls_fault__apply(ls_fault_do *out, bool *twice, ls_request *request) {
    const ls_spmd_options *options = &request->rank->run->options;
    *out = LS_FAULT_DO_CALL;
    for (int i = 0; i < options->fault_count; i++) {
        const ls_fault *fault = &options->faults[i];
        // An allocation has no call number, nor has a fault of training.
        if (fault->type == LS_FAULT_ALLOCATION || ls_fault_of_training(fault->type) ||
            fault->rank != request->rank->id || fault->call != request->number ||
            !finds_call(request, i)) {
            continue;
        }
        switch (fault->type) {
        case LS_FAULT_DIE:
            *out = LS_FAULT_DO_DIE;
            break;
        case LS_FAULT_STALL:
            *out = LS_FAULT_DO_STALL;
            break;
        case LS_FAULT_SLOW:
            request->rank->slow = true;
            break;
        case LS_FAULT_SKIP_CALL:
            *out = LS_FAULT_DO_SKIP;
            break;
        case LS_FAULT_DOUBLE_CALL:
            *twice = true;
            break;
        case LS_FAULT_BIT_FLIP:
            if (request->staged) {  // its data may not have arrived yet
                request->flip = (uint64_t)fault->amount + 1;
                break;
            }
            flip_bit(request, fault->amount);
            break;
        case LS_FAULT_WRONG_COUNT:
            LS_TRY(note_before(request));
            request->call.count += (size_t)fault->amount;
            request->call.overstated = overstates(request);
            break;
        case LS_FAULT_WRONG_SPLIT:
            LS_TRY(note_before(request));
            LS_TRY(change_split(request, fault->amount));
            request->call.overstated = overstates(request);
            break;
        default:
            break;
        }
    }
    return LS_OK;
}

bool ls_rank_injected(ls_rank *self, ls_fault_type type, int64_t amount) {
    LS_ASSERT(ls_fault_of_training(type));
    return ls_fault__reached(self, type, amount);
}
