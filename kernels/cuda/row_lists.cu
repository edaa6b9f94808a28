// The rows that a batch touches, with number and places, without sorting: a row's occurrences are
// counted and then stored side by side. Rows and the positions of a row have no order here; the
// code that sums a row's gradients sorts its positions.
//
// One kernel whose blocks all run at once: a block first counts the ids of its own positions in
// shared memory, so an id that is half of the batch is no bottleneck of the L2 cache. After all
// blocks, a row's number of occurrences determines their place.
#include "kernels/cuda/row_lists.cuh"

namespace ls {

constexpr unsigned threads = 1024;  // of a block, and its positions
constexpr unsigned own_slot_bits = 11, own_slots = 1u << own_slot_bits;
constexpr unsigned span = span_runs * LS_GRADIENT_RUN;
static_assert(own_slots >= 2 * threads, "a search ends");

row_lists lay_out_lists(void *memory, size_t room, size_t table_rows, size_t dim, size_t *bytes) {
    row_lists l = {};
    size_t longs = room / (middling_row + 1), spans = room / 32 + 1, at = 0;
    l.map_words = (unsigned)((room + 127) / 128 * 4);
    auto place = [&](size_t size) {
        char *part = (char *)memory + at;
        at += (size + 127) / 128 * 128;
        return (void *)part;
    };
    l.counts = (row_counts *)place(sizeof(row_counts));
    l.occurrences = (unsigned *)place(table_rows * sizeof(unsigned));
    l.places = (row_places *)place(table_rows * sizeof(row_places));
    l.rows = (row_entry *)place((room + 3) * sizeof(row_entry));
    l.middling = (middling_entry *)place((room / (short_row + 1)) * sizeof(middling_entry));
    l.positions = (unsigned *)place(room / (short_row + 1) * middling_row * sizeof(unsigned));
    l.spans = (span_entry *)place(spans * sizeof(span_entry));
    l.arrived = (unsigned *)place(longs * sizeof(unsigned));
    l.maps = (unsigned *)place(longs * l.map_words * sizeof(unsigned));
    l.partials = (float *)place(spans * span_runs * dim * sizeof(float));
    *bytes = at;
    return l;
}

struct list_arguments {
    row_lists lists;
    const int64_t *ids;
    unsigned count;
    int64_t table_rows, padding_id;
};

// A block's own ids.
struct list_memory {
    unsigned key[own_slots];    // id + 1; 0: free
    unsigned count[own_slots];  // here; then how many other blocks have counted before
    unsigned sums[3], bases[3];
};

// Waits for all blocks, which run at once.
static __device__ void wait_for_blocks(unsigned *arrived) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (*(volatile unsigned *)arrived != gridDim.x) {
        }
        __threadfence();
    }
    __syncthreads();
}

// Numbers that no other thread of any block has, for each kind that the thread wants one of; all
// threads of the block call.
static __device__ void share_out(unsigned (&at)[3], list_memory &own, unsigned *counts,
                                 const bool (&wanted)[3]) {
    unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned i = 0; i < 3; i++) {
        unsigned wishes = __ballot_sync(~0u, wanted[i]), first = 0;
        if (lane == 0 && wishes != 0) {
            first = atomicAdd(&own.sums[i], (unsigned)__popc(wishes));
        }
        at[i] = __shfl_sync(~0u, first, 0) + (unsigned)__popc(wishes & ((1u << lane) - 1));
    }
    __syncthreads();
    if (threadIdx.x < 3) {
        own.bases[threadIdx.x] = atomicAdd(&counts[threadIdx.x], own.sums[threadIdx.x]);
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < 3; i++) {
        at[i] += own.bases[i];
    }
}

static __global__ void __launch_bounds__(threads)
    list_kernel(const __grid_constant__ list_arguments a) {
    __shared__ list_memory own;
    const row_lists &l = a.lists;
    unsigned position = blockIdx.x * threads + threadIdx.x;
    int64_t id = position < a.count ? a.ids[position] : 0;
    for (unsigned i = threadIdx.x; i < own_slots; i += threads) {
        own.key[i] = 0;
        own.count[i] = 0;
    }
    if (threadIdx.x < 3) {
        own.sums[threadIdx.x] = 0;
    }
    bool counts = position < a.count && (a.padding_id == -1 || id != a.padding_id);
    if (counts && (id < 0 || id >= a.table_rows)) {
        __trap();
    }
    __syncthreads();
    // In the block.
    unsigned key = (unsigned)id + 1, mine = 0, before = 0;
    bool first = false;  // of the block's positions with this id
    if (counts) {
        mine = key * 0x9E3779B1u >> (32 - own_slot_bits);
        for (;; mine = (mine + 1) % own_slots) {
            unsigned old = atomicCAS(&own.key[mine], 0u, key);
            first = old == 0;
            if (first || old == key) {
                break;
            }
        }
        before = atomicAdd(&own.count[mine], 1u);
    }
    __syncthreads();
    // Among the blocks.
    unsigned elsewhere = 0;
    if (first) {
        elsewhere = atomicAdd(&l.occurrences[id], own.count[mine]);
    }
    // The thread with the first occurrence of a row lists it. The thread with the first that makes
    // it a middling or a long one lists that.
    unsigned upto = first ? elsewhere + own.count[mine] : 0, at[3];
    const bool wanted[3] = {first && elsewhere == 0, elsewhere <= short_row && upto > short_row,
                            elsewhere <= middling_row && upto > middling_row};
    share_out(at, own, &l.counts->rows, wanted);
    row_places *places = &l.places[counts ? id : 0];
    if (wanted[0]) {
        __stcg(&places->row, at[0]);
    }
    if (wanted[1]) {
        __stcg(&places->middling, at[1]);
    }
    if (wanted[2]) {
        __stcg(&places->map, at[2]);
    }
    if (first) {
        own.count[mine] = elsewhere;
    }
    wait_for_blocks(&l.counts->arrived);
    if (!counts) {
        return;
    }
    uint4 x = __ldcg((const uint4 *)places);
    const row_places found = {x.x, x.y, x.z, x.w};
    unsigned count = __ldcg(&l.occurrences[id]), number = own.count[mine] + before;
    if (count <= short_row) {
        l.rows[found.row].positions[number] = position;
    } else if (count <= middling_row) {
        l.positions[found.middling * middling_row + number] = position;
    } else {
        atomicOr(&l.maps[found.map * l.map_words + position / 32], 1u << position % 32);
    }
    if (wanted[0]) {
        *(uint2 *)&l.rows[at[0]] = make_uint2((unsigned)id, count);
    }
    if (wanted[1]) {  // of a long row: nothing to do
        *(uint2 *)&l.middling[at[1]] = make_uint2((unsigned)id, count <= middling_row ? count : 0);
    }
    if (wanted[2]) {
        unsigned spans = (count + span - 1) / span, begin = atomicAdd(&l.counts->spans, spans);
        for (unsigned i = 0; i < spans; i++) {
            *(uint4 *)&l.spans[begin + i] = make_uint4((unsigned)id, count, at[2], i);
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
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, list_kernel, (int)threads, 0) ==
            cudaSuccess;
    (void)cudaGetLastError();
    return known && cooperative != 0 ? (unsigned)(processors * each) : 0;
}

}  // namespace ls

using namespace ls;

int ls_kernel_row_lists_bytes(size_t *bytes, size_t room, int64_t table_rows, size_t dim) {
    *bytes = 0;
    if (room > LS_ROW_LISTS_MAX) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "lists of rows: %zu ids, which are more than %d", room,
                       (int)LS_ROW_LISTS_MAX);
    }
    (void)lay_out_lists(nullptr, room, (size_t)table_rows, dim, bytes);
    return LS_OK;
}

int ls_kernel_list_rows_cuda(void *lists, size_t room, const int64_t *ids, size_t count,
                             int64_t table_rows, int64_t padding_id, ls_cuda_stream stream) {
    size_t bytes = 0;
    LS_ASSERT(lists != nullptr && count <= room && (count == 0 || ids != nullptr));
    if (room > LS_ROW_LISTS_MAX || table_rows > INT32_MAX || count > blocks_at_once() * threads) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "list_rows: %zu ids of %lld rows on this GPU", count,
                       (long long)table_rows);
    }
    if (count == 0) {
        return LS_OK;
    }
    list_arguments a = {lay_out_lists(lists, room, (size_t)table_rows, 0, &bytes), ids,
                        (unsigned)count, table_rows, padding_id};
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    config.gridDim = dim3((unsigned)((count + threads - 1) / threads));
    config.blockDim = dim3(threads);
    config.attrs = &attribute;
    config.numAttrs = 1;
    config.stream = (cudaStream_t)stream;
    return check(cudaLaunchKernelEx(&config, list_kernel, a), "list_rows");
}
