// Gathering rows and pooled lookup on a GPU. The common case (f32 rows of a multiple of 4 numbers,
// sum or mean) is bound by the memory: a warp owns 128 columns of a bag, its lanes read the bag's
// ids together, and several rows are on their way before the first is added; they are added in the
// bag's order all the same.
#include "kernels/cuda/quantise.cuh"

using namespace ls;

// ---- Gather -------------------------------------------------------------------------------------
template <class W>
__global__ void gather_kernel(W *out, const W *table, size_t row_words, int64_t rows,
                              const int64_t *ids, size_t count) {
    size_t lane = threadIdx.x % 32, warps = thread_count() / 32;
    for (size_t i = thread_index() / 32; i < count; i += warps) {
        int64_t id = ids[i];
        if (id < 0 || id >= rows) {
            __trap();
        }
        const W *from = table + (size_t)id * row_words;
        W *to = out + i * row_words;
        for (size_t w = lane; w < row_words; w += 32) {
            to[w] = from[w];
        }
    }
}

int ls_kernel_gather_rows_cuda(void *out, const void *table, size_t row_bytes, int64_t rows,
                               const int64_t *ids, size_t count, ls_cuda_stream stream) {
    LS_ASSERT(count == 0 || ids != nullptr);
    LS_ASSERT(count == 0 || row_bytes == 0 || (out != nullptr && table != nullptr));
    if (count == 0 || row_bytes == 0) {
        return LS_OK;
    }
    size_t alignment = (size_t)(uintptr_t)out | (size_t)(uintptr_t)table | row_bytes;
    unsigned blocks = blocks_for(count, block_threads / 32);
    auto *on = (cudaStream_t)stream;
    if (alignment % 16 == 0) {
        gather_kernel<<<blocks, block_threads, 0, on>>>((uint4 *)out, (const uint4 *)table,
                                                        row_bytes / 16, rows, ids, count);
    } else if (alignment % 4 == 0) {
        gather_kernel<<<blocks, block_threads, 0, on>>>((uint32_t *)out, (const uint32_t *)table,
                                                        row_bytes / 4, rows, ids, count);
    } else {
        gather_kernel<<<blocks, block_threads, 0, on>>>((char *)out, (const char *)table, row_bytes,
                                                        rows, ids, count);
    }
    return launched("gather_rows");
}

// ---- Pooled lookup, any form --------------------------------------------------------------------
struct lookup_arguments {
    void *out;
    size_t out_stride;
    const void *table;
    int64_t rows;
    size_t dim;
    const int64_t *ids, *offsets;
    const float *weights;
    int64_t padding_id;
    size_t bags;
};

__device__ inline void check_id(int64_t id, int64_t rows) {
    if (id < 0 || id >= rows) {
        __trap();
    }
}

// Elements of a table: of plain rows, and of quantised ones.
template <class T> struct plain_rows {
    __device__ auto load(const lookup_arguments &a, int64_t id, size_t d) const {
        return element<T>::load(((const T *)a.table)[(size_t)id * a.dim + d]);
    }
};

struct quantised_rows {
    ls_row_places places;
    __device__ float load(const lookup_arguments &a, int64_t id, size_t d) const {
        return dequantise((const unsigned char *)a.table + (size_t)id * places.bytes, places, d);
    }
};

// A warp per bag, a lane per column. N: what is accumulated in, f32, or f64 for f64 tables.
template <class R, class N>
__global__ void lookup_kernel(const __grid_constant__ lookup_arguments a,
                              const __grid_constant__ R rows, ls_pooling pooling) {
    size_t lane = threadIdx.x % 32, warps = thread_count() / 32;
    for (size_t bag = thread_index() / 32; bag < a.bags; bag += warps) {
        size_t first = (size_t)(a.offsets[bag] - a.offsets[0]);
        size_t end = (size_t)(a.offsets[bag + 1] - a.offsets[0]);
        for (size_t d = lane; d < a.dim; d += 32) {
            N sum = 0, weight_sum = 0;
            size_t counted = 0;
            for (size_t i = first; i < end; i++) {
                int64_t id = a.ids[i];
                if (a.padding_id != -1 && id == a.padding_id) {
                    continue;
                }
                check_id(id, a.rows);
                N x = (N)rows.load(a, id, d);
                N w = a.weights != nullptr ? (N)a.weights[i] : (N)1;
                x = x * w;
                if (pooling == LS_POOL_MAX) {
                    sum = counted == 0 ? x : larger(sum, x);
                } else {
                    sum = sum + x;
                    weight_sum = weight_sum + w;
                }
                counted++;
            }
            if (pooling == LS_POOL_MEAN && counted > 0) {
                sum = sum / (a.weights != nullptr ? weight_sum : (N)counted);
            }
            ((N *)a.out)[bag * a.out_stride + d] = sum;
        }
    }
}

// ---- Pooled lookup, f32 rows of float4 ----------------------------------------------------------
constexpr int fast_threads = 256;

// volatile: the loads of a batch stay together, ahead of the additions.
__device__ inline float4 load_row(const float4 *from) {
    float4 x;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "l"(from));
    return x;
}

// A lane's part of 32 ids, and its sum.
struct lane_state {
    int64_t offset;  // of its id's row, in float4; -1: the id does not count
    float weight;
    float4 sum;
    float weight_sum;
    int counted;
};

// Rows at .. at + K of the 32: K loads under way at once, then added in order.
template <int K, bool weighted, bool padded>
__device__ inline void add_rows(lane_state &s, const float4 *table, int at) {
    float4 x[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        int64_t offset = __shfl_sync(~0u, s.offset, at + k);
        x[k] = !padded || offset >= 0 ? load_row(table + offset) : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (padded && __shfl_sync(~0u, s.offset, at + k) < 0) {
            continue;
        }
        if (weighted) {
            float w = __shfl_sync(~0u, s.weight, at + k);
            x[k] = make_float4(x[k].x * w, x[k].y * w, x[k].z * w, x[k].w * w);
            s.weight_sum = s.weight_sum + w;
        }
        s.sum.x = s.sum.x + x[k].x;
        s.sum.y = s.sum.y + x[k].y;
        s.sum.z = s.sum.z + x[k].z;
        s.sum.w = s.sum.w + x[k].w;
        s.counted++;
    }
}

template <bool weighted, bool padded>
__global__ void __launch_bounds__(fast_threads, weighted || padded ? 3 : 4)
    lookup_f32_kernel(const __grid_constant__ lookup_arguments a, unsigned column_tiles,
                      bool mean) {
    int lane = (int)threadIdx.x % 32;
    size_t warp = thread_index() / 32, bag = warp / column_tiles;
    if (bag >= a.bags) {
        return;
    }
    size_t column = (warp % column_tiles) * 32 + (size_t)lane;  // in float4
    auto row_words = (int64_t)(a.dim / 4);
    bool active = column < (size_t)row_words;
    const float4 *table = (const float4 *)a.table + (active ? column : 0);
    int64_t base = __ldg(&a.offsets[0]);
    int64_t first = __ldg(&a.offsets[bag]) - base, end = __ldg(&a.offsets[bag + 1]) - base;
    lane_state s = {0, 1.0f, make_float4(0, 0, 0, 0), 0.0f, 0};
    for (int64_t chunk = first; chunk < end; chunk += 32) {
        int count = end - chunk < 32 ? (int)(end - chunk) : 32;
        if (lane < count) {
            int64_t id = __ldg(&a.ids[chunk + lane]);
            bool skipped = padded && id == a.padding_id;
            if (!skipped) {
                check_id(id, a.rows);
            }
            s.offset = skipped ? -1 : id * row_words;
            s.weight = weighted ? __ldg(&a.weights[chunk + lane]) : 1.0f;
        }
        __syncwarp();
        int at = 0;
        for (; at + 8 <= count; at += 8) {
            add_rows<8, weighted, padded>(s, table, at);
        }
        if (at + 4 <= count) {
            add_rows<4, weighted, padded>(s, table, at);
            at += 4;
        }
        if (at + 2 <= count) {
            add_rows<2, weighted, padded>(s, table, at);
            at += 2;
        }
        if (at < count) {
            add_rows<1, weighted, padded>(s, table, at);
        }
    }
    if (mean && s.counted > 0) {
        float divisor = weighted ? s.weight_sum : (float)s.counted;
        s.sum =
            make_float4(s.sum.x / divisor, s.sum.y / divisor, s.sum.z / divisor, s.sum.w / divisor);
    }
    if (active) {
        __stcs((float4 *)((float *)a.out + bag * a.out_stride) + column, s.sum);
    }
}

static bool fits_fast(const lookup_arguments &a, ls_dtype dtype, ls_pooling pooling) {
    uintptr_t alignment = (uintptr_t)a.out | (uintptr_t)a.table;
    return dtype == LS_F32 && pooling != LS_POOL_MAX && a.dim % 4 == 0 && alignment % 16 == 0 &&
           (a.out_stride % 4 == 0 || a.bags <= 1) &&
           a.bags * ((a.dim + 127) / 128) <= (size_t)INT32_MAX * (fast_threads / 32);
}

static int lookup_fast(const lookup_arguments &a, ls_pooling pooling, cudaStream_t stream) {
    size_t column_tiles = (a.dim + 127) / 128, warps = a.bags * column_tiles;
    auto blocks = (unsigned)((warps + fast_threads / 32 - 1) / (fast_threads / 32));
    bool padded = a.padding_id != -1;
    auto *kernel = padded ? lookup_f32_kernel<false, true> : lookup_f32_kernel<false, false>;
    if (a.weights != nullptr) {
        kernel = padded ? lookup_f32_kernel<true, true> : lookup_f32_kernel<true, false>;
    }
    kernel<<<blocks, fast_threads, 0, stream>>>(a, (unsigned)column_tiles, pooling == LS_POOL_MEAN);
    return launched("pooled_lookup");
}

int ls_kernel_pooled_lookup_cuda(void *out, size_t out_stride, const void *table,
                                 const ls_table_shape *shape, const ls_bags *bags,
                                 ls_cuda_stream stream) {
    LS_ASSERT(bags->pooling == LS_POOL_SUM || bags->pooling == LS_POOL_MEAN ||
              bags->pooling == LS_POOL_MAX);
    LS_ASSERT((bags->count <= 1 || out_stride >= shape->dim) && bags->offsets != nullptr &&
              shape->rows >= 0);
    if (shape->dim == 0 || bags->count == 0) {
        return LS_OK;
    }
    lookup_arguments a = {out,       out_stride,    table,         shape->rows,      shape->dim,
                          bags->ids, bags->offsets, bags->weights, bags->padding_id, bags->count};
    if (fits_fast(a, shape->dtype, bags->pooling)) {
        return lookup_fast(a, bags->pooling, (cudaStream_t)stream);
    }
    unsigned blocks = blocks_for(bags->count, block_threads / 32);
    auto *on = (cudaStream_t)stream;
    switch (shape->dtype) {
#define LOOKUP_NARROW(name, ...)                                                                   \
    case LS_##name:                                                                                \
        lookup_kernel<plain_rows<of_dtype<LS_##name>::type>, float>                                \
            <<<blocks, block_threads, 0, on>>>(a, {}, bags->pooling);                              \
        break;
        LS_DTYPE_NARROW_MAP(LOOKUP_NARROW)
    case LS_F32:
        lookup_kernel<plain_rows<float>, float>
            <<<blocks, block_threads, 0, on>>>(a, {}, bags->pooling);
        break;
    default:
        LS_ASSERT(shape->dtype == LS_F64);
        lookup_kernel<plain_rows<double>, double>
            <<<blocks, block_threads, 0, on>>>(a, {}, bags->pooling);
    }
    return launched("pooled_lookup");
}

int ls_kernel_quantised_lookup_cuda(float *out, size_t out_stride, const void *table,
                                    const ls_row_format *format, int64_t rows, size_t dim,
                                    const ls_bags *bags, ls_cuda_stream stream) {
    LS_ASSERT(bags->pooling == LS_POOL_SUM || bags->pooling == LS_POOL_MEAN ||
              bags->pooling == LS_POOL_MAX);
    LS_ASSERT((bags->count <= 1 || out_stride >= dim) && bags->offsets != nullptr && rows >= 0);
    quantised_rows of = {ls_row__places(format, dim)};
    if (dim == 0 || bags->count == 0) {
        return LS_OK;
    }
    lookup_arguments a = {
        out,           out_stride,       table,      rows, dim, bags->ids, bags->offsets,
        bags->weights, bags->padding_id, bags->count};
    lookup_kernel<quantised_rows, float>
        <<<blocks_for(bags->count, block_threads / 32), block_threads, 0, (cudaStream_t)stream>>>(
            a, of, bags->pooling);
    return launched("quantised_lookup");
}
