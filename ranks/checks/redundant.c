// Sums of what is a sum already: all ranks bring the same bits, and an earlier sum or average on
// the communicator gave them those. Reduced twice, gradients are too large by the number of ranks;
// averaged twice, the second does nothing. It is what the program asked for, so it is a warning.
#include <string.h>

#include "base/hash.h"
#include "kernels/device.h"
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

// Every `step`-th word [count] of data on a device.
static int copy_samples(uint32_t *out, size_t count, const void *data, size_t step,
                        ls_device *device) {
    void *some = NULL;
    const size_t word = sizeof *out;
    LS_TRY(device->ops->alloc(device, &some, count * word));
    int status = device->ops->copy_2d(device, some, word, data, step * word, word, count);
    status = status == LS_OK ? device->ops->copy_out(device, out, some, count * word) : status;
    device->ops->free(device, some, count * word);
    return status;
}

// device: of the data; NULL: ordinary memory.
static int print_of(uint64_t *out, const ls_call *call, const char *data, ls_device *device) {
    size_t bytes = call->count * ls_dtype_bytes(call->dtype), words = bytes / sizeof(uint32_t);
    size_t step = words > SAMPLES ? words / SAMPLES : 1, count = (words + step - 1) / step;
    uint32_t samples[2 * SAMPLES];
    LS_ASSERT(count <= sizeof samples / sizeof *samples);
    if (device != NULL && count > 0) {
        LS_TRY(copy_samples(samples, count, data, step, device));
    }
    for (size_t i = 0; i < count && device == NULL; i++) {
        memcpy(&samples[i], data + i * step * sizeof *samples, sizeof *samples);
    }
    uint64_t hash = ls_hash(LS_HASH_START, &call->count, sizeof call->count);
    hash = ls_hash(hash, &call->dtype, sizeof call->dtype);
    for (size_t i = 0; i < count; i++) {
        hash = ls_hash(hash, &samples[i], sizeof samples[i]);
    }
    *out = hash;
    return LS_OK;
}

// Values that cannot be compared are not the same.
static bool same(const void *a, const void *b, size_t bytes, ls_device *device) {
    bool equal = false;
    device = device != NULL ? device : ls_device_host();
    return device->ops->equal(device, &equal, a, b, bytes) == LS_OK && equal;
}

// Whether all elements are equal: counters and flags are often equal by chance.
static bool is_constant(const ls_call *call, const char *data, ls_device *device) {
    size_t element = ls_dtype_bytes(call->dtype);
    return same(data, data + element, (call->count - 1) * element, device);
}

static bool all_alike(ls_request *const *requests, int size, ls_device *device) {
    const char *first = ls_flight__send(requests[0]);
    size_t bytes = requests[0]->send_bytes, some = bytes < 64 ? bytes : 64;
    for (size_t part = some;; part = bytes) {  // most differ at once
        for (int m = 1; m < size; m++) {
            if (!same(ls_flight__send(requests[m]), first, part, device)) {
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

static void moving(ls_spmd *run, ls_move *move) {
    const ls_call *call = &move->requests[0]->call;
    const ls_sums *sums = move->shared->sums;
    ls_device *device = move->device;
    int size = move->size;
    uint64_t print = 0;
    if (!run->checks[LS_FINDING_REDUNDANT_REDUCE] || sums == NULL || size < 2 || !is_sum(call)) {
        return;
    }
    const char *data = ls_flight__send(move->requests[0]);
    // One rank's samples decide for most calls.
    int at = print_of(&print, call, data, device) == LS_OK ? given_by(sums, print) : -1;
    if (at < 0 || !all_alike(move->requests, size, device) || is_constant(call, data, device)) {
        return;
    }
    char what[256], where[LS_CALL_WHERE_MAX];
    ls_call_describe(what, sizeof what, call);
    ls_text text = {0};
    ls_text_printf(&text,
                   "%s at %s reduces data that is already reduced: all ranks send the same bits, "
                   "the result of the all_reduce at %s:%d\n",
                   what, ls_call__where(where, call), sums->files[at], sums->lines[at]);
    ls_findings__history(&text, move->requests[0]->rank, 4);
    (void)ls_findings__add(run, LS_FINDING_REDUNDANT_REDUCE, move->shared->comm->ranks, size,
                           call->file, call->line, ls_findings__string(run, &text));
    ls_text_free(&text);
}

static void moved(ls_spmd *run, ls_move *move) {
    const ls_call *call = &move->requests[0]->call;
    ls_shared_comm *shared = move->shared;
    uint64_t print = 0;
    if (!run->checks[LS_FINDING_REDUNDANT_REDUCE] || run->borrowed || !is_sum(call) ||
        print_of(&print, call, ls_flight__recv(move->requests[0]), move->device) != LS_OK) {
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
    shared->sums->prints[at] = print;
    shared->sums->files[at] = call->file;
    shared->sums->lines[at] = call->line;
}

static void closed_comm(ls_shared_comm *shared) {
    ls_free(shared->sums, 1, sizeof(ls_sums));
}

const ls_rank_check ls_rank_check__redundant = {
    .moving = moving, .moved = moved, .closed_comm = closed_comm};
