// Shared by the kernels that update listed rows: their arguments, loads, and stepping rows whose
// gradients are added up. Private to this folder.
#ifndef LS_KERNELS_CUDA_UPDATE_LISTED_CUH
#define LS_KERNELS_CUDA_UPDATE_LISTED_CUH

#include <cmath>
#include <cstring>

#include "kernels/cuda/row_lists.cuh"
#include "kernels/stochastic.h"

namespace ls {

struct formulas {
#define LS_T        float
#define LS_TS(name) name
#include "kernels/update_formulas.inc"
#undef LS_T
#undef LS_TS
};

constexpr unsigned columns_max = 512;
constexpr unsigned threads = 128, warps = threads / 32;  // of a block
constexpr unsigned all_lanes = ~0u;

struct listed_arguments {
    row_lists lists;
    float *weights;  // [rows, dim]
    float *state;    // [rows], of rowwise_adagrad
    unsigned dim;
    unsigned room;  // of a row in shared memory, in floats: four rows' columns in different banks
    const float *gradients;
    unsigned stride_bytes;
    const int64_t *row_of;
    const float *scales;
    formulas::ls_step step;
    bool rowwise;  // rowwise_adagrad; else sgd
};

// The place of an occurrence's gradient, and its factor.
struct occurrence {
    unsigned row;
    float scale;
};

__device__ inline occurrence occurrence_of(const listed_arguments &a, unsigned position) {
    occurrence o = {position, 1.0f};
    if (a.row_of != nullptr) {
        o.row = (unsigned)__ldg(&a.row_of[position]);
    }
    if (a.scales != nullptr) {
        o.scale = __ldg(&a.scales[position]);
    }
    return o;
}

// 16 bytes, or zeros. Without a branch, after which the compiler would wait for what was asked for
// before; volatile: loads that stand together stay together.
__device__ inline float4 load_if(bool there, const void *from) {
    float4 x;
    asm volatile("{ .reg .pred p;\n"
                 "setp.ne.u32 p, %5, 0;\n"
                 "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;\n"
                 "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4]; }"
                 : "=&f"(x.x), "=&f"(x.y), "=&f"(x.z), "=&f"(x.w)
                 : "l"(from), "r"((unsigned)there));
    return x;
}

// The same past the L1 cache, for what is read once or was written by other processors.
__device__ inline float4 load_far_if(bool there, const void *from) {
    float4 x;
    asm volatile("{ .reg .pred p;\n"
                 "setp.ne.u32 p, %5, 0;\n"
                 "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;\n"
                 "@p ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4]; }"
                 : "=&f"(x.x), "=&f"(x.y), "=&f"(x.z), "=&f"(x.w)
                 : "l"(from), "r"((unsigned)there)
                 : "memory");
    return x;
}

// A missing gradient is +0, which does not change a sum from +0 on.
__device__ inline float4 load_gradient(const listed_arguments &a, bool there, unsigned row,
                                       unsigned word) {
    return load_if(there, (const char *)a.gradients + (uint64_t)row * a.stride_bytes + word * 16);
}

__device__ inline void add(float4 *sum, float4 x) {
    *sum = make_float4(sum->x + x.x, sum->y + x.y, sum->z + x.z, sum->w + x.w);
}

__device__ inline float4 scaled(float4 x, float by) {
    return make_float4(x.x * by, x.y * by, x.z * by, x.w * by);
}

// ---- Stepping -----------------------------------------------------------------------------------
// Columns c = lane, lane + 8, ... of a row whose gradient is in shared memory.
__device__ inline float square_columns(const listed_arguments &a, const float *gradient,
                                       unsigned id, unsigned lane) {
    float part = 0;
    if (a.step.l2) {
        const float *old = a.weights + (size_t)id * a.dim;
        for (unsigned c = lane; c < a.dim; c += 8) {
            float x = formulas::ls_decayed(&a.step, gradient[c], old[c]);
            part = part + x * x;
        }
    } else {
#pragma unroll 8
        for (unsigned c = lane; c < a.dim; c += 8) {
            part = part + gradient[c] * gradient[c];
        }
    }
    return part;
}

constexpr unsigned lane_words = 4;  // of a row, in float4, that a lane has at once

// Four rows of a warp: eight lanes have the same one, if there is one. Memory that is read before
// the sum of its gradients is known: the row's first words and its state.
struct old_row {
    bool there;
    unsigned id;
    float state;
    float4 w[lane_words];
};

__device__ inline void load_words(float4 (&w)[lane_words], const listed_arguments &a, bool there,
                                  unsigned id, unsigned first) {
    const auto *row = (const float4 *)(a.weights + (size_t)id * a.dim);
#pragma unroll
    for (unsigned m = 0; m < lane_words; m++) {
        w[m] = load_far_if(there && first + m * 8 < a.dim / 4, &row[first + m * 8]);
    }
}

__device__ inline void load_row(old_row *old, const listed_arguments &a, bool there, unsigned id) {
    old->there = there;
    old->id = id;
    old->state = there && a.rowwise ? __ldcg(&a.state[id]) : 0;
    load_words(old->w, a, there, id, threadIdx.x % 8);
}

// Steps the rows, whose gradients are in shared memory.
__device__ inline void step_rows(const listed_arguments &a, old_row &old, const float *shared) {
    unsigned lane = threadIdx.x % 8, words = a.dim / 4;
    const float *gradient = shared + threadIdx.x % 32 / 8 * a.room;
    auto *row = (float4 *)(a.weights + (size_t)old.id * a.dim);
    formulas::ls_row numbers = {};
    if (a.rowwise) {
        float part = old.there ? square_columns(a, gradient, old.id, lane) : 0;
        for (int other = 1; other < 8; other *= 2) {
            part = part + __shfl_xor_sync(all_lanes, part, other);
        }
        formulas::ls_rowwise_adagrad_row(&numbers, &a.step, part, &old.state);
        if (old.there && lane == 0) {
            a.state[old.id] = old.state;
        }
        __syncwarp();  // with l2 all lanes have read the row
    }
#pragma unroll 1
    for (unsigned first = lane; first - lane < words; first += 8 * lane_words) {
        if (first != lane) {
            load_words(old.w, a, old.there, old.id, first);
        }
#pragma unroll
        for (unsigned m = 0; m < lane_words; m++) {
            if (old.there && first + m * 8 < words) {
                float4 g = ((const float4 *)gradient)[first + m * 8];
                float *gs = &g.x, *ws = &old.w[m].x;
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    ws[c] = a.rowwise ? formulas::ls_rowwise_adagrad(&numbers, gs[c], ws[c])
                                      : formulas::ls_sgd(&a.step, gs[c], ws[c]);
                }
                row[first + m * 8] = old.w[m];
            }
        }
    }
    __syncwarp();
}

// Rows of more than short_row occurrences. The kernel lets the next one of the stream begin at
// once.
int update_runs(const listed_arguments &a, size_t count, cudaStream_t stream);

// One block for each that the GPU runs at once, at most `most`. beside: starts without waiting for
// the previous kernel, if that one allows it.
int launch_update(void (*kernel)(listed_arguments), const listed_arguments &a, size_t bytes,
                  size_t most, bool beside, cudaStream_t stream);

}  // namespace ls

#endif
