// Plants faults into the calls of ranks.
#include <string.h>

#include "ranks/internal.h"
#include "ranks/planted.h"

static int flip_bit(ls_request *request, int64_t amount) {
    size_t bytes = 0;
    if (ls_kind_is_ask(request->call.kind)) {
        bytes = request->call.count;
    } else {
        LS_TRY(ls_call_send_elements(&bytes, &request->call));
    }
    // Nothing is written past what the call itself may read.
    const ls_allocation *known = ls_memory__find(request->rank, request->call.send);
    if (!ls_dtype_valid((int)request->call.dtype) ||
        ls_size_mul(&bytes, bytes, ls_dtype_bytes(request->call.dtype)) != LS_OK) {
        return LS_OK;  // the call's own checks say so
    }
    if (known != NULL) {
        size_t left = known->bytes - (size_t)((const char *)request->call.send - known->start);
        bytes = bytes < left ? bytes : left;
    }
    if (request->call.send != NULL && bytes > 0 && bytes <= PTRDIFF_MAX / 8) {
        uint64_t bit = (uint64_t)amount % ((uint64_t)bytes * 8);
        // The buffer is the program's own, which it may write; the call alone promises not to.
        unsigned char *memory = (unsigned char *)(uintptr_t)request->call.send;
        memory[bit / 8] = (unsigned char)(memory[bit / 8] ^ (1u << (bit % 8)));
    }
    return LS_OK;
}

// Whether a call's count says how much it moves: a barrier moves nothing, and an all_to_all may
// have counts of its own.
static bool has_count(const ls_call *call) {
    if (ls_kind_is_ask(call->kind)) {
        return call->kind == LS_CHECK_REPLICA;
    }
    const ls_collective *collective = ls_collective_of(call->kind);
    bool own = ls_collective_has_splits(collective) && call->send_counts != NULL;
    return ls_collective_has_data(collective) && !own;
}

// Notes that the fault found its call; false: it changes nothing there, and why is noted instead.
static bool finds_call(const ls_request *request, int index) {
    ls_spmd_result *result = request->rank->run->result;
    const ls_call *call = &request->call;
    ls_fault_type type = request->rank->run->options.faults[index].type;
    bool split =
        type == LS_FAULT_WRONG_SPLIT && (call->send_counts != NULL || call->recv_counts != NULL);
    bool changes =
        (type != LS_FAULT_WRONG_COUNT && type != LS_FAULT_WRONG_SPLIT) || split || has_count(call);
    result->missed[index] =
        changes
            ? NULL
            : ls_arena_printf(result->arena,
                              "call %llu of rank %d, %s, has no count that says how much it "
                              "moves%s",
                              (unsigned long long)request->number, request->rank->id,
                              ls_kind_name(call->kind),
                              call->send_counts != NULL ? "; wrong_split changes its counts" : "");
    return changes;
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
    if (changed == NULL) {
        return LS_ERR_MEMORY;
    }
    changed[0] += (size_t)amount;
    if (call->send_counts != NULL) {
        call->send_counts = changed;
    } else {
        call->recv_counts = changed;
    }
    return LS_OK;
}

int ls_fault__apply(ls_fault_do *out, bool *twice, ls_request *request) {
    const ls_spmd_options *options = &request->rank->run->options;
    *out = LS_FAULT_DO_CALL;
    for (int i = 0; i < options->fault_count; i++) {
        const ls_fault *fault = &options->faults[i];
        // An allocation's call number says nothing, nor does that of a fault of training.
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
            LS_TRY(flip_bit(request, fault->amount));
            break;
        case LS_FAULT_WRONG_COUNT:
            request->call.count += (size_t)fault->amount;
            break;
        case LS_FAULT_WRONG_SPLIT:
            LS_TRY(change_split(request, fault->amount));
            break;
        default:
            break;
        }
    }
    return LS_OK;
}

bool ls_fault__allocation_fails(const ls_rank *rank, uint64_t number) {
    const ls_spmd_options *options = &rank->run->options;
    for (int i = 0; i < options->fault_count; i++) {
        const ls_fault *fault = &options->faults[i];
        if (fault->type == LS_FAULT_ALLOCATION && fault->rank == rank->id &&
            (uint64_t)fault->amount == number) {
            rank->run->result->missed[i] = NULL;
            return true;
        }
    }
    return false;
}

bool ls_rank_planted(ls_rank *self, ls_fault_type type, int64_t amount) {
    LS_ASSERT(ls_fault_of_training(type));
    const ls_spmd_options *options = &self->run->options;
    for (int i = 0; i < options->fault_count; i++) {
        const ls_fault *fault = &options->faults[i];
        if (fault->type == type && fault->rank == self->id && fault->amount == amount) {
            self->run->result->missed[i] = NULL;
            return true;
        }
    }
    return false;
}
