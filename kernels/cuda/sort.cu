// Sorting ids with their positions. As many as a training step of one table has are sorted by one
// kernel that goes over them from the last digit on: a barrier of all its blocks is quicker than
// the next launch. More than fit into the blocks that run at once: CUB.
#include "kernels/cuda/sort.cuh"

#include <cooperative_groups.h>
#include <cub/device/device_radix_sort.cuh>

namespace ls {

constexpr unsigned sort_threads = 1024, sort_warps = sort_threads / 32;
constexpr unsigned items_max = 4;  // of a thread
constexpr unsigned digit_bits = 7, digits = 1u << digit_bits;
constexpr unsigned sort_blocks_max = LS_SORT_ROOM / digits;  // two counts of 4 bytes a digit
constexpr unsigned parts = sort_threads / digits;            // threads that share a digit
static_assert(sort_warps == 32, "a lane has a warp's count");

static int bits_of(uint64_t largest) {
    int bits = 1;
    while (bits < 64 && largest >> bits != 0) {
        bits++;
    }
    return bits;
}

packed_ids packing_of(size_t count, int64_t table_rows) {
    packed_ids packing = {bits_of(count), bits_of((uint64_t)table_rows)};
    LS_ASSERT(packing.position_bits + packing.id_bits <= 64);  // more is no machine's memory
    return packing;
}

static __device__ uint64_t pack(int64_t id, size_t position, int64_t table_rows, int64_t padding_id,
                                packed_ids packing) {
    bool counts = padding_id == -1 || id != padding_id;
    if (counts && (id < 0 || id >= table_rows)) {
        __trap();
    }
    return (uint64_t)(counts ? id : table_rows) << packing.position_bits | position;
}

// ---- One kernel ---------------------------------------------------------------------------------
struct sort_arguments {
    uint64_t *sorted, *other;
    const int64_t *ids;
    uint32_t *counts;  // [2][blocks, digits] by turns
    unsigned count, items;
    int64_t table_rows, padding_id;
    packed_ids packing;
    int passes;
};

// What a block keeps for one pass.
struct sort_memory {
    uint32_t seen[digits][sort_warps + 1];  // items of a digit by warp; then those before its own
    uint32_t sums[2][parts][digits];        // of other blocks: before this one, all
    uint32_t base[digits];                  // where the block's first item of a digit goes
    uint32_t warp_sums[digits / 32];
};

// Ranks of the warp's items among those of the same digit, in the items' order. A digit of
// `digits`: no item.
static __device__ void rank_items(unsigned rank[items_max], sort_memory &own,
                                  const unsigned digit[items_max], unsigned items) {
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (unsigned i = threadIdx.x; i < digits * (sort_warps + 1); i += sort_threads) {
        ((uint32_t *)own.seen)[i] = 0;
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < items_max; i++) {
        if (i < items) {
            unsigned peers = __match_any_sync(~0u, digit[i]);
            unsigned before = (unsigned)__popc(peers & ((1u << lane) - 1));
            bool valid = digit[i] < digits;
            rank[i] = valid ? own.seen[digit[i]][warp] + before : 0;
            __syncwarp();
            if (valid && before == 0) {
                own.seen[digit[i]][warp] += (unsigned)__popc(peers);
            }
            __syncwarp();
        }
    }
    __syncthreads();
}

// The sum of x of this lane and all before it.
static __device__ uint32_t sum_lanes(uint32_t x) {
    unsigned lane = threadIdx.x % 32;
    for (unsigned by = 1; by < 32; by *= 2) {
        uint32_t other = __shfl_up_sync(~0u, x, by);
        x += lane >= by ? other : 0;
    }
    return x;
}

// seen: from the warps' counts to how many the block's warps before have. Tells the other blocks.
static __device__ void count_digits(sort_memory &own, uint32_t *counts) {
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (unsigned i = 0; i < digits / sort_warps; i++) {
        unsigned digit = warp * (digits / sort_warps) + i;
        uint32_t here = own.seen[digit][lane], sum = sum_lanes(here);
        own.seen[digit][lane] = sum - here;
        if (lane == 31) {
            counts[blockIdx.x * digits + digit] = sum;
        }
    }
}

// From all blocks' counts to where this block's items go.
static __device__ void place_digits(sort_memory &own, const uint32_t *counts) {
    unsigned digit = threadIdx.x % digits, part = threadIdx.x / digits;
    uint32_t before = 0, all = 0;
#pragma unroll 4
    for (unsigned block = part; block < gridDim.x; block += parts) {
        uint32_t theirs = __ldcg(&counts[block * digits + digit]);
        all += theirs;
        before += block < blockIdx.x ? theirs : 0;
    }
    own.sums[0][part][digit] = before;
    own.sums[1][part][digit] = all;
    __syncthreads();
    uint32_t sum = 0;
    if (threadIdx.x < digits) {
        before = all = 0;
        for (unsigned p = 0; p < parts; p++) {
            before += own.sums[0][p][digit];
            all += own.sums[1][p][digit];
        }
        sum = sum_lanes(all);
        if (digit % 32 == 31) {
            own.warp_sums[digit / 32] = sum;
        }
    }
    __syncthreads();
    if (threadIdx.x < digits) {
        for (unsigned w = 0; w < digit / 32; w++) {
            sum += own.warp_sums[w];
        }
        own.base[digit] = sum - all + before;
    }
    __syncthreads();
}

static __global__ void __launch_bounds__(sort_threads)
    sort_kernel(const __grid_constant__ sort_arguments a) {
    __shared__ sort_memory own;
    auto grid = cooperative_groups::this_grid();
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned first = (blockIdx.x * sort_warps + warp) * a.items * 32 + lane;
    uint64_t key[items_max];
    unsigned rank[items_max], digit[items_max];
    for (int pass = 0; pass < a.passes; pass++) {
        bool swapped = (a.passes - pass) % 2 == 0;  // the last pass ends in `sorted`
        uint64_t *to = swapped ? a.other : a.sorted, *from = swapped ? a.sorted : a.other;
        uint32_t *counts = a.counts + (size_t)(pass % 2) * gridDim.x * digits;
        int shift = a.packing.position_bits + pass * (int)digit_bits;
#pragma unroll
        for (unsigned i = 0; i < items_max; i++) {
            unsigned at = first + i * 32;
            bool there = i < a.items && at < a.count;
            key[i] = !there      ? 0
                     : pass == 0 ? (uint64_t)a.ids[at]
                                 : __ldcg((const unsigned long long *)&from[at]);  // of all blocks
        }
#pragma unroll
        for (unsigned i = 0; i < items_max; i++) {
            unsigned at = first + i * 32;
            bool there = i < a.items && at < a.count;
            if (there && pass == 0) {
                key[i] = pack((int64_t)key[i], at, a.table_rows, a.padding_id, a.packing);
            }
            digit[i] = there ? (unsigned)(key[i] >> shift) % digits : digits;
        }
        rank_items(rank, own, digit, a.items);
        count_digits(own, counts);
        grid.sync();
        place_digits(own, counts);
#pragma unroll
        for (unsigned i = 0; i < items_max; i++) {
            if (digit[i] < digits) {
                to[own.base[digit[i]] + own.seen[digit[i]][warp] + rank[i]] = key[i];
            }
        }
        if (pass + 1 < a.passes) {
            grid.sync();  // all is written
        }
    }
}

// The blocks that the current GPU runs at once; 0: no kernel of which all must.
static unsigned blocks_at_once() {
    int device = 0, cooperative = 0, processors = 0, each = 0;
    bool known =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device) == cudaSuccess &&
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) ==
            cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, sort_kernel, (int)sort_threads, 0) ==
            cudaSuccess;
    (void)cudaGetLastError();
    return known && cooperative != 0 && each > 0 ? (unsigned)processors : 0;
}

// ---- Any number ---------------------------------------------------------------------------------
static __global__ void pack_kernel(uint64_t *out, const int64_t *ids, size_t count,
                                   int64_t table_rows, int64_t padding_id, packed_ids packing) {
    for (size_t k = thread_index(); k < count; k += thread_count()) {
        out[k] = pack(ids[k], k, table_rows, padding_id, packing);
    }
}

static int sort_many(const sort_arguments &a, cudaStream_t stream) {
    size_t bytes = 0;
    int low = a.packing.position_bits, high = low + a.packing.id_bits;
    pack_kernel<<<blocks_for(a.count), block_threads, 0, stream>>>(
        a.other, a.ids, a.count, a.table_rows, a.padding_id, a.packing);
    LS_TRY(launched("sorting ids"));
    LS_TRY(check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, a.other, a.sorted, (int)a.count,
                                                low, high, stream),
                 "sorting ids"));
    scratch memory(stream);
    LS_TRY(memory.alloc(bytes));
    return check(cub::DeviceRadixSort::SortKeys(memory.as<void>(), bytes, a.other, a.sorted,
                                                (int)a.count, low, high, stream),
                 "sorting ids");
}

int sort_ids(uint64_t *sorted, uint64_t *other, const int64_t *ids, size_t count,
             int64_t table_rows, int64_t padding_id, cudaStream_t stream) {
    LS_ASSERT(count > 0 && count <= INT32_MAX && table_rows >= 0);
    sort_arguments a = {};
    a.sorted = sorted;
    a.other = other;
    a.ids = ids;
    a.counts = (uint32_t *)(other + count);
    a.count = (unsigned)count;
    a.table_rows = table_rows;
    a.padding_id = padding_id;
    a.packing = packing_of(count, table_rows);
    a.passes = (a.packing.id_bits + (int)digit_bits - 1) / (int)digit_bits;
    unsigned most = blocks_at_once(), wanted = (a.count + sort_threads - 1) / sort_threads;
    most = most < sort_blocks_max ? most : sort_blocks_max;
    if (wanted > most * items_max) {
        return sort_many(a, stream);
    }
    a.items = (wanted + most - 1) / most;
    unsigned each = a.items * sort_threads;
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    config.gridDim = dim3((a.count + each - 1) / each);
    config.blockDim = dim3(sort_threads);
    config.attrs = &attribute;
    config.numAttrs = 1;
    config.stream = stream;
    return check(cudaLaunchKernelEx(&config, sort_kernel, a), "sorting ids");
}

}  // namespace ls

using namespace ls;

int ls_kernel_sort_ids_cuda(uint64_t *sorted, uint64_t *other, const int64_t *ids, size_t count,
                            int64_t table_rows, int64_t padding_id, ls_cuda_stream stream) {
    if (count > INT32_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "sort_ids: more than 2^31 - 1 ids");
    }
    return count == 0
               ? LS_OK
               : sort_ids(sorted, other, ids, count, table_rows, padding_id, (cudaStream_t)stream);
}

// ---- For training steps -------------------------------------------------------------------------
static __global__ void bag_of_kernel(int64_t *bag_of, const int64_t *offsets, size_t bags) {
    size_t lane = threadIdx.x % 32, count = thread_count() / 32;
    for (size_t bag = thread_index() / 32; bag < bags; bag += count) {
        auto first = (size_t)(offsets[bag] - offsets[0]),
             end = (size_t)(offsets[bag + 1] - offsets[0]);
        for (size_t k = first + lane; k < end; k += 32) {
            bag_of[k] = (int64_t)bag;
        }
    }
}

int ls_kernel_bag_of_cuda(int64_t *bag_of, const int64_t *offsets, size_t bags,
                          ls_cuda_stream stream) {
    if (bags == 0) {
        return LS_OK;
    }
    bag_of_kernel<<<blocks_for(bags, block_threads / 32), block_threads, 0, (cudaStream_t)stream>>>(
        bag_of, offsets, bags);
    return launched("bag_of");
}
