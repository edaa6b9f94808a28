// Row gradients of a pooled lookup on a GPU, without atomics: the ids are sorted by row, equal ones
// keeping the order of bags and ids, and one warp adds up each row's contributions in that order.
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/device.cuh"

using namespace ls;

struct backward_arguments {
    float *gradient;
    size_t dim;
    int64_t rows;
    const float *grad_out;
    size_t grad_stride;
    const float *table;
    const int64_t *ids, *offsets;
    size_t ids_count;
    const float *weights;
    int64_t padding_id;
    ls_pooling pooling;
    size_t bags;
    // Made here:
    uint32_t *bag_of;    // [ids_count]
    float *divisor;      // [bags], for mean
    uint32_t *winner;    // [bags, dim] position of the maximum, for max; ids_count: none
    int64_t *keys;       // [ids_count] ids; `rows` for padding, which sorts last
    uint32_t *position;  // [ids_count]
};

static __device__ bool counts(const backward_arguments &a, size_t i) {
    return a.padding_id == -1 || a.ids[i] != a.padding_id;
}

// A thread per bag: which bag each id is of, keys, and what a mean divides by.
static __global__ void prepare_kernel(const __grid_constant__ backward_arguments a) {
    for (size_t bag = thread_index(); bag < a.bags; bag += thread_count()) {
        size_t first = (size_t)(a.offsets[bag] - a.offsets[0]);
        size_t end = (size_t)(a.offsets[bag + 1] - a.offsets[0]);
        float weight_sum = 0;
        size_t counted = 0;
        for (size_t i = first; i < end; i++) {
            bool in = counts(a, i);
            if (in && (a.ids[i] < 0 || a.ids[i] >= a.rows)) {
                __trap();
            }
            a.bag_of[i] = (uint32_t)bag;
            a.position[i] = (uint32_t)i;
            a.keys[i] = in ? a.ids[i] : a.rows;
            if (in) {
                weight_sum = weight_sum + (a.weights != nullptr ? a.weights[i] : 0.0f);
                counted++;
            }
        }
        a.divisor[bag] = a.weights != nullptr ? weight_sum : (float)counted;
    }
}

// A thread per (bag, column): the first maximum.
static __global__ void winner_kernel(const __grid_constant__ backward_arguments a) {
    size_t total = a.bags * a.dim;
    for (size_t cell = thread_index(); cell < total; cell += thread_count()) {
        size_t bag = cell / a.dim, d = cell % a.dim;
        size_t first = (size_t)(a.offsets[bag] - a.offsets[0]);
        size_t end = (size_t)(a.offsets[bag + 1] - a.offsets[0]);
        size_t best = a.ids_count;
        float maximum = 0;
        for (size_t i = first; i < end; i++) {
            if (!counts(a, i)) {
                continue;
            }
            float w = a.weights != nullptr ? a.weights[i] : 1.0f;
            float value = a.table[(size_t)a.ids[i] * a.dim + d] * w;
            bool wins = best == a.ids_count || (isnan(maximum) && !isnan(value)) ||
                        value > maximum ||
                        (value == maximum && signbit(maximum) && !signbit(value));
            if (wins) {
                best = i;
                maximum = value;
            }
        }
        a.winner[cell] = (uint32_t)best;
    }
}

// A warp per run of equal keys, found at its first position; lanes share the columns.
static __global__ void add_kernel(const __grid_constant__ backward_arguments a, const int64_t *keys,
                                  const uint32_t *position) {
    size_t lane = threadIdx.x % 32, warps = thread_count() / 32;
    for (size_t at = thread_index() / 32; at < a.ids_count; at += warps) {
        int64_t key = keys[at];
        if (key >= a.rows || (at > 0 && keys[at - 1] == key)) {
            continue;
        }
        for (size_t d = lane; d < a.dim; d += 32) {
            float *row = &a.gradient[(size_t)key * a.dim + d];
            float sum = *row;
            for (size_t k = at; k < a.ids_count && keys[k] == key; k++) {
                uint32_t i = position[k];
                size_t bag = a.bag_of[i];
                float g = a.grad_out[bag * a.grad_stride + d];
                float w = a.weights != nullptr ? a.weights[i] : 1.0f;
                if (a.pooling == LS_POOL_MEAN) {
                    sum = sum + g * w / a.divisor[bag];
                } else if (a.pooling == LS_POOL_SUM || a.winner[bag * a.dim + d] == i) {
                    sum = sum + g * w;
                }
            }
            *row = sum;
        }
    }
}

static int add_rows(backward_arguments &a, cudaStream_t stream) {
    size_t n = a.ids_count, cells = a.pooling == LS_POOL_MAX ? a.bags * a.dim : 0, sort_bytes = 0;
    int bits = 1;
    while (bits < 63 && (a.rows >> bits) != 0) {
        bits++;
    }
    scratch bag_of(stream), divisor(stream), winner(stream), sort(stream);
    scratch keys(stream), keys_sorted(stream), position(stream), position_sorted(stream);
    LS_TRY(bag_of.alloc(n * sizeof(uint32_t)));
    LS_TRY(divisor.alloc(a.bags * sizeof(float)));
    LS_TRY(winner.alloc(cells * sizeof(uint32_t)));
    LS_TRY(keys.alloc(n * sizeof(int64_t)));
    LS_TRY(keys_sorted.alloc(n * sizeof(int64_t)));
    LS_TRY(position.alloc(n * sizeof(uint32_t)));
    LS_TRY(position_sorted.alloc(n * sizeof(uint32_t)));
    a.bag_of = bag_of.as<uint32_t>();
    a.divisor = divisor.as<float>();
    a.winner = winner.as<uint32_t>();
    a.keys = keys.as<int64_t>();
    a.position = position.as<uint32_t>();
    prepare_kernel<<<blocks_for(a.bags), block_threads, 0, stream>>>(a);
    LS_TRY(launched("pooled_lookup_backward"));
    if (cells != 0) {
        winner_kernel<<<blocks_for(cells), block_threads, 0, stream>>>(a);
        LS_TRY(launched("pooled_lookup_backward"));
    }
    // Radix sort is stable.
    LS_TRY(check(cub::DeviceRadixSort::SortPairs(
                     nullptr, sort_bytes, a.keys, keys_sorted.as<int64_t>(), a.position,
                     position_sorted.as<uint32_t>(), (int)n, 0, bits, stream),
                 "sorting ids"));
    LS_TRY(sort.alloc(sort_bytes));
    LS_TRY(check(cub::DeviceRadixSort::SortPairs(
                     sort.as<void>(), sort_bytes, a.keys, keys_sorted.as<int64_t>(), a.position,
                     position_sorted.as<uint32_t>(), (int)n, 0, bits, stream),
                 "sorting ids"));
    add_kernel<<<blocks_for(n, block_threads / 32), block_threads, 0, stream>>>(
        a, keys_sorted.as<int64_t>(), position_sorted.as<uint32_t>());
    return launched("pooled_lookup_backward");
}

int ls_kernel_pooled_lookup_backward_cuda(float *gradient, const ls_table_shape *shape,
                                          const float *grad_out, size_t grad_stride,
                                          const float *table, const ls_bags *bags, size_t ids_count,
                                          ls_cuda_stream stream) {
    LS_ASSERT(bags->pooling == LS_POOL_SUM || bags->pooling == LS_POOL_MEAN ||
              bags->pooling == LS_POOL_MAX);
    LS_ASSERT((bags->count <= 1 || grad_stride >= shape->dim) && bags->offsets != nullptr &&
              shape->rows >= 0);
    LS_ASSERT(bags->pooling != LS_POOL_MAX || table != nullptr);
    if (ids_count == 0 || shape->dim == 0 || bags->count == 0) {
        return LS_OK;
    }
    if (ids_count > INT32_MAX || bags->count > INT32_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "pooled_lookup_backward: more than 2^31 - 1 ids or bags");
    }
    backward_arguments a = {
        gradient,    shape->dim,    shape->rows, grad_out,      grad_stride,      table,
        bags->ids,   bags->offsets, ids_count,   bags->weights, bags->padding_id, bags->pooling,
        bags->count, nullptr,       nullptr,     nullptr,       nullptr,          nullptr};
    return add_rows(a, (cudaStream_t)stream);
}
