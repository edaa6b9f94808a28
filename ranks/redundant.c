// Sums of what is a sum already: all ranks bring the same bits, and an earlier sum or average on
// the communicator gave them those. Reduced twice, gradients are too large by the number of ranks;
// averaged twice, the second does nothing. It is what the program asked for, so it is a warning.
#include <string.h>

#include "base/hash.h"
#include "ranks/internal.h"

#define SAMPLES     64  // words of a result that its fingerprint is made of
#define ELEMENT_MIN 4   // fewer are alike by chance

struct ls_sums {
    uint64_t prints[LS_SUMS_KEPT];
    const char *files[LS_SUMS_KEPT];
    int lines[LS_SUMS_KEPT];
    uint64_t count;
};

static bool is_sum(const ls_call *call) {
    return call->kind == LS_ALL_REDUCE && (call->op == LS_SUM || call->op == LS_AVG) &&
           call->count >= ELEMENT_MIN;
}

static uint64_t print_of(const ls_call *call, const char *data) {
    size_t bytes = call->count * ls_dtype_bytes(call->dtype), words = bytes / sizeof(uint32_t);
    size_t step = words > SAMPLES ? words / SAMPLES : 1;
    uint64_t hash = ls_hash(LS_HASH_START, &call->count, sizeof call->count);
    hash = ls_hash(hash, &call->dtype, sizeof call->dtype);
    for (size_t i = 0; i < words; i += step) {
        hash = ls_hash(hash, data + i * sizeof(uint32_t), sizeof(uint32_t));
    }
    return hash;
}

// Whether all elements are the same one: counters and flags come to the same by chance.
static bool is_constant(const ls_call *call, const char *data) {
    size_t element = ls_dtype_bytes(call->dtype);
    return memcmp(data, data + element, (call->count - 1) * element) == 0;
}

static bool all_alike(ls_request *const *requests, int size) {
    const char *first = ls_flight__send(requests[0]);
    size_t bytes = requests[0]->send_bytes, some = bytes < 64 ? bytes : 64;
    for (size_t part = some;; part = bytes) {  // most differ at once
        for (int m = 1; m < size; m++) {
            if (memcmp(ls_flight__send(requests[m]), first, part) != 0) {
                return false;
            }
        }
        if (part == bytes) {
            return true;
        }
    }
}

// The newest sum that gave a fingerprint: its place in `sums`; -1: none.
static int given_by(const ls_sums *sums, uint64_t print) {
    uint64_t kept = sums->count < LS_SUMS_KEPT ? sums->count : LS_SUMS_KEPT;
    for (uint64_t back = 1; back <= kept; back++) {
        uint64_t at = (sums->count - back) % LS_SUMS_KEPT;
        if (sums->prints[at] == print) {
            return (int)at;
        }
    }
    return -1;
}

void ls_redundant__posted(ls_spmd *run, const ls_meet *meet) {
    const ls_call *call = &meet->requests[0]->call;
    const ls_sums *sums = meet->shared->sums;
    int size = meet->shared->comm->size;
    if (sums == NULL || size < 2 || !is_sum(call)) {
        return;
    }
    const char *data = ls_flight__send(meet->requests[0]);
    int at = given_by(sums, print_of(call, data));  // one rank's samples tell for most calls
    if (at < 0 || !all_alike(meet->requests, size) || is_constant(call, data)) {
        return;
    }
    char what[256], where[LS_CALL_WHERE_MAX];
    ls_call_describe(what, sizeof what, call);
    ls_text text = {0};
    ls_text_printf(&text,
                   "%s at %s reduces what is reduced already: all ranks bring the same bits, "
                   "which the all_reduce at %s:%d gave them\n",
                   what, ls_call__where(where, call), sums->files[at], sums->lines[at]);
    ls_findings__history(&text, meet->requests[0]->rank, 4);
    (void)ls_findings__add(run, LS_FINDING_REDUNDANT_REDUCE, meet->shared->comm->ranks, size,
                           call->file, call->line, ls_findings__string(run, &text));
    ls_text_free(&text);
}

void ls_redundant__met(ls_spmd *run, const ls_meet *meet) {
    const ls_call *call = &meet->requests[0]->call;
    ls_shared_comm *shared = meet->shared;
    if (run->borrowed || !is_sum(call)) {
        return;
    }
    if (shared->sums == NULL) {
        void *memory = NULL;
        if (ls_alloc(&memory, 1, sizeof(ls_sums)) != LS_OK) {
            return;
        }
        shared->sums = memory;
    }
    uint64_t at = shared->sums->count++ % LS_SUMS_KEPT;
    shared->sums->prints[at] = print_of(call, ls_flight__recv(meet->requests[0]));
    shared->sums->files[at] = call->file;
    shared->sums->lines[at] = call->line;
}

void ls_redundant__close(ls_shared_comm *shared) {
    ls_free(shared->sums, 1, sizeof(ls_sums));
}
