// A table's update directly from the gradients of its bags: duplicates are summed and the optimizer
// steps each row in one pass, with the bits of row_gradients and update_rows. These kernels are for
// f32 rows of up to 512 columns and optimizers with at most one number of state for each row, as
// large tables have; those two kernels serve all others.
//
// Most rows of a batch occur once or a few times: here a warp sums four of those at once;
// update_runs.cu has the others. The sums go through shared memory to the eight lanes that step a
// row. The total is some microseconds, so the number of sequential memory waits of a warp matters:
// loads are grouped without branches between them, and both kernels run concurrently.
#include "kernels/cuda/update_listed.cuh"

using namespace ls;

// ---- Short rows ---------------------------------------------------------------------------------
// Four lanes' numbers in ascending order.
static __device__ unsigned order_four(unsigned x, unsigned lane) {
    unsigned other = __shfl_xor_sync(all_lanes, x, 1);
    x = (lane & 1) == 0 ? min(x, other) : max(x, other);
    other = __shfl_xor_sync(all_lanes, x, 2);
    x = (lane & 2) == 0 ? min(x, other) : max(x, other);
    other = __shfl_xor_sync(all_lanes, x, 3);
    if (lane % 4 == 1) {
        return min(x, other);
    }
    return lane % 4 == 2 ? max(x, other) : x;
}

// A warp's data of four rows of the list: a lane has a word of its row's entry, and the last four
// an occurrence each, once they are in order.
struct four_rows {
    unsigned id, count;
    bool there;
    occurrence o;
};

static __device__ four_rows look_at(const listed_arguments &a, unsigned own, unsigned first,
                                    unsigned rows) {
    unsigned lane = threadIdx.x % 32, word = lane % 8;
    four_rows r = {0, 0, first + lane / 8 < rows, {0, 1.0f}};
    r.id = __shfl_sync(all_lanes, own, lane & ~7u);
    r.count = __shfl_sync(all_lanes, own, (lane & ~7u) + 1);
    r.count = r.there && r.count <= short_row ? r.count : 0;
    bool occurs = word >= 4 && word - 4 < r.count;
    unsigned position = order_four(occurs ? own : ~0u, lane);
    if (occurs) {
        r.o = occurrence_of(a, position);
    }
    return r;
}

template <bool scaled_by>
static __device__ void step_short_rows(const listed_arguments &a, const four_rows &r,
                                       float *shared) {
    unsigned lane = threadIdx.x % 32, word = lane % 8, words = a.dim / 4;
    if (r.there && word == 0) {
        a.lists.occurrences[r.id] = 0;  // fit for the next call
    }
    unsigned most = __reduce_max_sync(all_lanes, r.count);
    if (most == 0) {
        return;
    }
    old_row old;
    load_row(&old, a, r.count != 0, r.id);
#pragma unroll 1
    for (unsigned at = word; at - word < words; at += 8 * lane_words) {
        float4 sum[lane_words] = {};
#pragma unroll 1
        for (unsigned t = 0; t < most; t++) {
            unsigned of = (lane & ~7u) + 4 + t, row = __shfl_sync(all_lanes, r.o.row, of);
            float scale = scaled_by ? __shfl_sync(all_lanes, r.o.scale, of) : 1.0f;
            float4 x[lane_words];
#pragma unroll
            for (unsigned m = 0; m < lane_words; m++) {
                x[m] = load_gradient(a, t < r.count && at + m * 8 < words, row, at + m * 8);
            }
#pragma unroll
            for (unsigned m = 0; m < lane_words; m++) {
                add(&sum[m], scaled_by ? scaled(x[m], scale) : x[m]);
            }
        }
#pragma unroll
        for (unsigned m = 0; m < lane_words; m++) {
            if (at + m * 8 < words) {
                ((float4 *)(shared + lane / 8 * a.room))[at + m * 8] =
                    scaled(sum[m], a.step.factor);
            }
        }
    }
    __syncwarp();
    step_rows(a, old, shared);
}

// ---- All rows -----------------------------------------------------------------------------------
// Of four short rows, the lane's word.
static __device__ unsigned load_entry(const listed_arguments &a, unsigned first, unsigned rows) {
    return first < rows ? __ldcg((const unsigned *)&a.lists.rows[first] + threadIdx.x % 32) : 0;
}

template <bool scaled_by>
static __global__ void __launch_bounds__(threads, 7)
    update_short_kernel(const __grid_constant__ listed_arguments a) {
    extern __shared__ __align__(16) float memory[];
    float *shared = memory + threadIdx.x / 32 * 4 * a.room;
    unsigned rows = __ldcg(&a.lists.counts->rows), all = gridDim.x * warps * 4;
    unsigned first = (blockIdx.x * warps + threadIdx.x / 32) * 4;
    unsigned own = load_entry(a, first, rows);
#pragma unroll 1
    for (; first < rows; first += all) {
        unsigned next = load_entry(a, first + all, rows);
        step_short_rows<scaled_by>(a, look_at(a, own, first, rows), shared);
        own = next;
    }
    cudaGridDependencySynchronize();  // done when both are
    // The last block resets it for the next call, when no other reads it.
    __syncthreads();
    auto *counts = (unsigned *)a.lists.counts;
    if (threadIdx.x == 0 && atomicAdd(&a.lists.counts->done, 1u) + 1 == gridDim.x) {
        for (unsigned i = 0; i < sizeof(row_counts) / sizeof(unsigned); i++) {
            counts[i] = 0;
        }
    }
}

// ---- Entry --------------------------------------------------------------------------------------
static bool has(const ls_optimizer *o, const ls_row_update *u, size_t stride,
                const float *gradients) {
    uintptr_t alignment = (uintptr_t)u->weights | (uintptr_t)gradients;
    return o->form == LS_OPTIMIZER_FUSED && u->dtype == LS_F32 && u->dim % 4 == 0 && u->dim > 0 &&
           u->dim <= columns_max && stride % 4 == 0 && stride <= UINT32_MAX / sizeof(float) &&
           alignment % 16 == 0 &&
           (o->kind == LS_OPTIMIZER_SGD || o->kind == LS_OPTIMIZER_ROWWISE_ADAGRAD);
}

int ls_kernel_update_listed_cuda(const ls_optimizer *o, const ls_row_update *u, void *lists,
                                 size_t room, size_t count, const ls_gradients *from,
                                 ls_cuda_stream stream_) {
    auto *stream = (cudaStream_t)stream_;
    size_t bytes = 0;
    auto *gradients = (const float *)from->values;
    LS_ASSERT(from->dtype == LS_F32);
    LS_ASSERT(o != nullptr && u != nullptr && ls_optimizer_check(o) == LS_OK && count <= room);
    if (room > LS_ROW_LISTS_MAX || u->rows > INT32_MAX || !has(o, u, from->stride, gradients)) {
        return LS_FAIL(LS_ERR_UNSUPPORTED, "update_listed: %s of %s rows of %zu columns, %zu ids",
                       ls_optimizer_about(o->kind)->name, ls_dtype_name(u->dtype), u->dim, room);
    }
    if (count == 0) {
        return LS_OK;
    }
    listed_arguments a = {};
    a.lists = lay_out_lists(lists, room, (size_t)u->rows, u->dim, &bytes);
    a.weights = (float *)u->weights;
    a.state = (float *)u->states[0];
    a.dim = (unsigned)u->dim;
    a.room = (unsigned)(u->dim + 63) / 64 * 64 + 8;
    a.gradients = gradients;
    a.stride_bytes = (unsigned)(from->stride * sizeof(float));
    a.row_of = from->row_of;
    a.scales = from->scales;
    a.step = formulas::ls_step_make(o, u);
    a.rowwise = o->kind == LS_OPTIMIZER_ROWWISE_ADAGRAD;
    LS_TRY(update_runs(a, count, stream));
    auto *kernel = from->scales != nullptr ? update_short_kernel<true> : update_short_kernel<false>;
    return launch_update(kernel, a, (size_t)warps * 4 * a.room * sizeof(float), (count + 15) / 16,
                         true, stream);
}
