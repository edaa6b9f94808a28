// The update of rows that occur more than a few times. A middling row has a warp; of a long row, a
// warp has a run of LS_GRADIENT_RUN occurrences, and the last that is done adds the runs up.
#include "kernels/cuda/update_listed.cuh"

namespace ls {

constexpr unsigned batch = 8;  // loads of a lane at once

// A word of the left fold, from +0, of the gradients of some occurrences.
template <bool scaled_by>
static __device__ float4 fold(const listed_arguments &a, const occurrence *its, unsigned count,
                              unsigned word) {
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (unsigned i = 0; i < count; i += batch) {
        float4 x[batch];
        float scale[batch];
#pragma unroll
        for (unsigned k = 0; k < batch; k++) {
            bool there = i + k < count;
            occurrence o = its[there ? i + k : i];
            scale[k] = there ? o.scale : 1.0f;
            x[k] = load_gradient(a, there, o.row, word);
        }
#pragma unroll
        for (unsigned k = 0; k < batch; k++) {
            add(&sum, scaled_by ? scaled(x[k], scale[k]) : x[k]);
        }
    }
    return sum;
}

// Of a warp in shared memory, in floats: a row, and behind it a middling row's occurrences.
static __host__ __device__ unsigned warp_room(const listed_arguments &a) {
    return a.room + middling_row * (unsigned)(sizeof(occurrence) / sizeof(float));
}

// A warp steps one row.
template <bool scaled_by>
static __device__ void step_middling_row(const listed_arguments &a, unsigned number,
                                         float *shared) {
    static_assert(middling_row == 64, "a lane has two occurrences");
    uint2 of = __ldcg((const uint2 *)&a.lists.middling[number]);
    const middling_entry entry = {of.x, of.y};
    unsigned lane = threadIdx.x % 32, count = entry.count;
    const unsigned *places = a.lists.positions + (size_t)number * middling_row;
    unsigned position[2], rank[2] = {0, 0};
    occurrence own[2];
    old_row old;
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        unsigned at = half * 32 + lane;
        position[half] = __ldcg(&places[at]);
        position[half] = at < count ? position[half] : ~0u;
    }
    if (count == 0) {
        return;  // became a long one
    }
    load_row(&old, a, lane < 8, entry.id);
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        if (half * 32 + lane < count) {
            own[half] = occurrence_of(a, position[half]);
        }
    }
#pragma unroll 4
    for (unsigned i = 0; i < count; i++) {
        unsigned other = __shfl_sync(all_lanes, i < 32 ? position[0] : position[1], (int)i % 32);
        rank[0] += other < position[0];
        rank[1] += other < position[1];
    }
    auto *ordered = (occurrence *)(shared + a.room);
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        if (half * 32 + lane < count) {
            ordered[rank[half]] = own[half];
        }
    }
    __syncwarp();
    for (unsigned word = lane; word < a.dim / 4; word += 32) {
        float4 sum = fold<scaled_by>(a, ordered, count, word);
        ((float4 *)shared)[word] = scaled(sum, a.step.factor);
    }
    __syncwarp();
    step_rows(a, old, shared);
}

// A block's data for the runs of a span; behind it the row's map.
struct __align__(16) span_memory {
    occurrence own[span_runs * LS_GRADIENT_RUN];
    uint2 hits[span_runs * LS_GRADIENT_RUN];  // words of the map: which, how many before
    unsigned before[warps], hit_count;
};

// The span's occurrences in their order.
static __device__ void order_span(span_memory &own, unsigned *map, const listed_arguments &a,
                                  const span_entry &entry) {
    constexpr unsigned size = span_runs * LS_GRADIENT_RUN;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, words = a.lists.map_words;
    unsigned low = entry.span * size, high = min(low + size, entry.count);
    const auto *from = (const uint4 *)(a.lists.maps + (size_t)entry.map * words);
    for (unsigned i = threadIdx.x; i < words / 4; i += 8 * threads) {
        float4 part[8];
#pragma unroll
        for (unsigned k = 0; k < 8; k++) {
            part[k] = load_far_if(i + k * threads < words / 4, &from[i + k * threads]);
        }
#pragma unroll
        for (unsigned k = 0; k < 8; k++) {
            if (i + k * threads < words / 4) {
                ((float4 *)map)[i + k * threads] = part[k];
            }
        }
    }
    if (threadIdx.x == 0) {
        own.hit_count = 0;
    }
    __syncthreads();
    unsigned each = (words + threads - 1) / threads | 1, first = threadIdx.x * each, sum = 0;
    unsigned end = min(first + each, words);
#pragma unroll 4
    for (unsigned i = first; i < end; i++) {
        sum += (unsigned)__popc(map[i]);
    }
    unsigned upto = sum;
    for (unsigned by = 1; by < 32; by *= 2) {
        unsigned other = __shfl_up_sync(all_lanes, upto, by);
        upto += lane >= by ? other : 0;
    }
    if (lane == 31) {
        own.before[warp] = upto;
    }
    __syncthreads();
    unsigned rank = upto - sum;
    for (unsigned w = 0; w < warp; w++) {
        rank += own.before[w];
    }
    if (rank < high && rank + sum > low) {
#pragma unroll 2
        for (unsigned i = first; i < end; i++) {
            unsigned count = (unsigned)__popc(map[i]);
            if (count != 0 && rank < high && rank + count > low) {
                own.hits[atomicAdd(&own.hit_count, 1u)] = make_uint2(i, rank);
            }
            rank += count;
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < own.hit_count; i += threads) {
        uint2 hit = own.hits[i];
        unsigned word = map[hit.x];
        for (rank = hit.y; word != 0 && rank < high; word &= word - 1, rank++) {
            if (rank >= low) {
                own.own[rank - low].row = hit.x * 32 + (unsigned)__ffs((int)word) - 1;
            }
        }
    }
    __syncthreads();
    static_assert(size == 2 * threads, "two for each");
    occurrence o[2];
#pragma unroll
    for (unsigned k = 0; k < 2; k++) {
        unsigned i = threadIdx.x + k * threads;
        o[k] = occurrence_of(a, own.own[i < high - low ? i : 0].row);
    }
    __syncthreads();
    own.own[threadIdx.x] = o[0];
    own.own[threadIdx.x + threads] = o[1];
    __syncthreads();
}

// A block adds up the runs of a span, a warp each.
template <bool scaled_by>
static __device__ void step_span(const listed_arguments &a, uint4 of, unsigned number,
                                 span_memory &own, unsigned *map, float *shared) {
    static_assert(span_runs == warps, "a run for each warp");
    const span_entry entry = {of.x, of.y, of.z, of.w};
    order_span(own, map, a, entry);
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, words = a.dim / 4;
    unsigned run = entry.span * span_runs + warp;
    unsigned runs = (entry.count + LS_GRADIENT_RUN - 1) / LS_GRADIENT_RUN;
    if (run >= runs) {
        return;
    }
    unsigned count = min(entry.count - run * LS_GRADIENT_RUN, (unsigned)LS_GRADIENT_RUN);
    auto *partials =
        (float4 *)(a.lists.partials + (size_t)(number - entry.span) * span_runs * a.dim);
    const occurrence *its = own.own + warp * LS_GRADIENT_RUN;
    for (unsigned word = lane; word < words; word += 32) {
        float4 sum = fold<scaled_by>(a, its, count, word);
        __stcg(&partials[run * words + word], sum);
    }
    __threadfence();
    __syncwarp();
    unsigned done = lane == 0 ? atomicAdd(&a.lists.arrived[entry.map], 1u) + 1 : 0;
    done = __shfl_sync(all_lanes, done, 0);
    if (done != runs) {
        return;
    }
    __threadfence();
    old_row old;
    load_row(&old, a, lane < 8, entry.id);
    // Fit for the next call.
    if (lane == 0) {
        a.lists.arrived[entry.map] = 0;
    }
    auto *from = (uint4 *)(a.lists.maps + (size_t)entry.map * a.lists.map_words);
    for (unsigned i = lane; i < a.lists.map_words / 4; i += 32) {
        from[i] = make_uint4(0, 0, 0, 0);
    }
    for (unsigned word = lane; word < words; word += 32) {
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 1
        for (unsigned i = 0; i < runs; i += 2 * batch) {
            float4 x[2 * batch];
#pragma unroll
            for (unsigned k = 0; k < 2 * batch; k++) {
                x[k] = load_far_if(i + k < runs, &partials[(i + k) * words + word]);
            }
#pragma unroll
            for (unsigned k = 0; k < 2 * batch; k++) {
                add(&sum, x[k]);
            }
        }
        ((float4 *)shared)[word] = scaled(sum, a.step.factor);
    }
    __syncwarp();
    step_rows(a, old, shared);
}

// ---- All rows -----------------------------------------------------------------------------------
// The blocks have a span each, and those without one middling rows.
template <bool scaled_by>
static __global__ void __launch_bounds__(threads, 5)
    update_runs_kernel(const __grid_constant__ listed_arguments a) {
    cudaTriggerProgrammaticLaunchCompletion();
    extern __shared__ __align__(16) float memory[];  // of the warps; then of a span
    float *shared = memory + threadIdx.x / 32 * warp_room(a);
    auto &own = *(span_memory *)(memory + warps * warp_room(a));
    unsigned middling = __ldcg(&a.lists.counts->middling), spans = __ldcg(&a.lists.counts->spans);
    for (unsigned i = blockIdx.x; i < spans; i += gridDim.x) {
        uint4 span = __ldcg((const uint4 *)&a.lists.spans[i]);
        step_span<scaled_by>(a, span, i, own, (unsigned *)(&own + 1), shared);
        __syncthreads();
    }
    unsigned begin = spans < gridDim.x / 2 ? spans : 0;
    if (blockIdx.x < begin) {
        return;
    }
    unsigned all = (gridDim.x - begin) * warps;
#pragma unroll 1
    for (unsigned i = (blockIdx.x - begin) * warps + threadIdx.x / 32; i < middling; i += all) {
        step_middling_row<scaled_by>(a, i, shared);
    }
}

int launch_update(void (*kernel)(listed_arguments), const listed_arguments &a, size_t bytes,
                  size_t most, bool beside, cudaStream_t stream) {
    int device = 0, processors = 0, each = 0;
    LS_TRY(
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
              "update_listed"));
    LS_TRY(check(cudaGetDevice(&device), "update_listed"));
    LS_TRY(check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                 "update_listed"));
    LS_TRY(check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, (int)threads, bytes),
                 "update_listed"));
    size_t blocks = (size_t)processors * (size_t)(each > 0 ? each : 1);
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3((unsigned)(blocks < most ? blocks : most));
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = bytes;
    config.attrs = &attribute;
    config.numAttrs = beside ? 1 : 0;
    config.stream = stream;
    return check(cudaLaunchKernelEx(&config, kernel, a), "update_listed");
}

int update_runs(const listed_arguments &a, size_t count, cudaStream_t stream) {
    size_t bytes = warps * warp_room(a) * sizeof(float) + sizeof(span_memory) +
                   (size_t)a.lists.map_words * sizeof(unsigned);
    auto *kernel = a.scales != nullptr ? update_runs_kernel<true> : update_runs_kernel<false>;
    return launch_update(kernel, a, bytes, count / short_row + 1, false, stream);
}

}  // namespace ls
