// Ids and lengths on a GPU: resolving ids, offsets, bucketize.
#include <cub/device/device_scan.cuh>

#include "kernels/cuda/device.cuh"

using namespace ls;

// ---- Resolving ids ------------------------------------------------------------------------------
static __global__ void find_bad_id(const int64_t *ids, size_t count, int64_t rows,
                                   unsigned long long *first_bad) {
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        if (ids[i] < 0 || ids[i] >= rows) {
            note_bad(first_bad, i);
        }
    }
}

static __global__ void move_ids(int64_t *ids, size_t count, int64_t rows, bool wrap) {
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        int64_t id = ids[i];
        if (wrap) {
            int64_t rest = id % rows;
            ids[i] = rest < 0 ? rest + rows : rest;
        } else {
            id = id < 0 ? 0 : id;
            ids[i] = id >= rows ? rows - 1 : id;
        }
    }
}

int ls_kernel_resolve_ids_cuda(int64_t *ids, size_t count, int64_t rows, ls_id_policy policy,
                               size_t *bad_index, ls_cuda_stream stream_) {
    auto *stream = (cudaStream_t)stream_;
    LS_ASSERT((count == 0 || ids != nullptr) && rows >= 0);
    if (count == 0) {
        return LS_OK;
    }
    if (policy != LS_ID_ERROR && rows > 0) {
        move_ids<<<blocks_for(count), block_threads, 0, stream>>>(ids, count, rows,
                                                                  policy == LS_ID_WRAP);
        LS_TRY(launched("resolve_ids"));
        return check(cudaStreamSynchronize(stream), "resolve_ids");
    }
    scratch first_bad(stream);
    LS_TRY(begin_bad(first_bad, stream));
    find_bad_id<<<blocks_for(count), block_threads, 0, stream>>>(
        ids, count, rows, first_bad.as<unsigned long long>());
    LS_TRY(launched("resolve_ids"));
    size_t bad = 0;
    LS_TRY(read_bad(&bad, first_bad, stream));
    if (bad >= count) {
        return LS_OK;
    }
    if (bad_index != nullptr) {
        *bad_index = bad;
    }
    int64_t id = 0;
    LS_TRY(check(cudaMemcpy(&id, ids + bad, sizeof id, cudaMemcpyDeviceToHost), "resolve_ids"));
    return LS_FAIL(LS_ERR_INVALID, "id %lld at position %zu is outside [0, %lld)", (long long)id,
                   bad, (long long)rows);
}

// ---- Bucketize ----------------------------------------------------------------------------------
static int exclusive_sum(int64_t *out, const int64_t *in, size_t count, cudaStream_t stream) {
    if (count > INT32_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "a prefix sum of more than 2^31 - 1 numbers");
    }
    size_t bytes = 0;
    LS_TRY(check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, in, out, (int)count, stream),
                 "prefix sum"));
    scratch memory(stream);
    LS_TRY(memory.alloc(bytes));
    return check(
        cub::DeviceScan::ExclusiveSum(memory.as<void>(), bytes, in, out, (int)count, stream),
        "prefix sum");
}

struct bucketize_arguments {
    int64_t *out_lengths, *out_ids;
    float *out_weights;
    int64_t *out_positions;
    const int64_t *ids, *lengths;
    const float *weights;
    const int64_t *row_starts;
    size_t owners, bags;
    int64_t *bag_starts;  // [bags] where a bag's ids begin
    int64_t *places;      // [owners, bags] where the next id of a segment goes
};

// The last owner whose first row is at most id: empty owners share their start with the next one.
static __device__ size_t owner_of(int64_t id, const int64_t *row_starts, size_t owners) {
    size_t low = 0, length = owners;
    while (length > 1) {
        size_t half = length / 2;
        low += row_starts[low + half] <= id ? half : 0;
        length -= half;
    }
    return low;
}

// A thread per bag counts, or places, the bag's ids in order.
static __global__ void bucketize_kernel(const __grid_constant__ bucketize_arguments a, bool place) {
    for (size_t bag = thread_index(); bag < a.bags; bag += thread_count()) {
        int64_t first = a.bag_starts[bag];
        for (int64_t i = first; i < first + a.lengths[bag]; i++) {
            int64_t id = a.ids[i];
            if (id < a.row_starts[0] || id >= a.row_starts[a.owners]) {
                __trap();
            }
            size_t owner = owner_of(id, a.row_starts, a.owners), cell = owner * a.bags + bag;
            if (!place) {
                a.out_lengths[cell]++;
                continue;
            }
            int64_t to = a.places[cell]++;
            a.out_ids[to] = id - a.row_starts[owner];
            if (a.weights != nullptr) {
                a.out_weights[to] = a.weights[i];
            }
            if (a.out_positions != nullptr) {
                a.out_positions[to] = i;
            }
        }
    }
}

int ls_kernel_bucketize_cuda(const ls_buckets *out, const int64_t *ids, const int64_t *lengths,
                             const float *weights, const int64_t *row_starts, size_t owners,
                             size_t bags, ls_cuda_stream stream_) {
    auto *stream = (cudaStream_t)stream_;
    LS_ASSERT(owners >= 1 && row_starts != nullptr);
    LS_ASSERT(bags == 0 || (out->lengths != nullptr && lengths != nullptr));
    LS_ASSERT((out->weights != nullptr) == (weights != nullptr));
    if (bags == 0) {
        return LS_OK;
    }
    size_t cells = 0, bytes = 0;
    LS_TRY(ls_size_mul(&cells, owners, bags));
    LS_TRY(ls_size_mul(&bytes, cells, sizeof(int64_t)));
    scratch starts(stream), places(stream);
    LS_TRY(starts.alloc(bags * sizeof(int64_t)));
    LS_TRY(places.alloc(bytes));
    bucketize_arguments a = {out->lengths,
                             out->ids,
                             out->weights,
                             out->positions,
                             ids,
                             lengths,
                             weights,
                             row_starts,
                             owners,
                             bags,
                             starts.as<int64_t>(),
                             places.as<int64_t>()};
    LS_TRY(check(cudaMemsetAsync(out->lengths, 0, bytes, stream), "bucketize"));
    LS_TRY(exclusive_sum(a.bag_starts, lengths, bags, stream));
    bucketize_kernel<<<blocks_for(bags), block_threads, 0, stream>>>(a, false);
    LS_TRY(launched("bucketize"));
    LS_TRY(exclusive_sum(a.places, out->lengths, cells, stream));
    bucketize_kernel<<<blocks_for(bags), block_threads, 0, stream>>>(a, true);
    return launched("bucketize");
}
