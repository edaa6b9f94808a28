// The kernels of training but the optimizers on a GPU: ids grouped by a stable sort, duplicates
// added up in their order, gradients of weights, and norms of rows.
#include <cub/device/device_scan.cuh>

#include "kernels/cuda/sort.cuh"

using namespace ls;

// ---- Grouping -----------------------------------------------------------------------------------
static __global__ void head_kernel(int64_t *heads, const uint64_t *sorted, size_t count,
                                   int64_t table_rows, packed_ids packing) {
    for (size_t k = thread_index(); k < count; k += thread_count()) {
        int64_t id = packing.id(sorted[k]);
        heads[k] = id < table_rows && (k == 0 || packing.id(sorted[k - 1]) != id) ? 1 : 0;
    }
}

// places [count]: the inclusive sum of the heads.
static __global__ void place_kernel(int64_t *rows, int64_t *starts, int64_t *order,
                                    const uint64_t *sorted, const int64_t *places, size_t count,
                                    int64_t table_rows, packed_ids packing) {
    for (size_t k = thread_index(); k < count; k += thread_count()) {
        int64_t id = packing.id(sorted[k]);
        bool counts = id < table_rows;
        order[k] = (int64_t)packing.position(sorted[k]);
        if (counts && (k == 0 || packing.id(sorted[k - 1]) != id)) {
            rows[places[k] - 1] = id;
            starts[places[k] - 1] = (int64_t)k;
        }
        if (counts && (k + 1 == count || packing.id(sorted[k + 1]) >= table_rows)) {
            starts[places[k]] = (int64_t)k + 1;
        }
        if (!counts && k == 0) {
            starts[0] = 0;
        }
    }
}

static int sum_heads(int64_t *places, const int64_t *heads, size_t count, cudaStream_t stream) {
    size_t bytes = 0;
    LS_TRY(check(cub::DeviceScan::InclusiveSum(nullptr, bytes, heads, places, (int)count, stream),
                 "grouping ids"));
    scratch memory(stream);
    LS_TRY(memory.alloc(bytes));
    return check(
        cub::DeviceScan::InclusiveSum(memory.as<void>(), bytes, heads, places, (int)count, stream),
        "grouping ids");
}

int ls_kernel_group_ids_cuda(const ls_row_groups *out, size_t *unique, int64_t *scratch_,
                             const int64_t *ids, size_t count, int64_t table_rows,
                             int64_t padding_id, ls_cuda_stream stream_) {
    auto *stream = (cudaStream_t)stream_;
    LS_ASSERT(out->starts != nullptr && unique != nullptr && table_rows >= 0);
    if (count > INT32_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "group_ids: more than 2^31 - 1 ids");
    }
    *unique = 0;
    if (count == 0) {
        LS_TRY(check(cudaMemsetAsync(out->starts, 0, sizeof *out->starts, stream), "group_ids"));
        return check(cudaStreamSynchronize(stream), "group_ids");
    }
    packed_ids packing = packing_of(count, table_rows);
    auto *sorted = (uint64_t *)scratch_;  // LS_GROUP_SCRATCH is 2
    int64_t *places = scratch_ + count;
    scratch other(stream), heads(stream);
    LS_TRY(other.alloc(count * sizeof(uint64_t)));
    LS_TRY(heads.alloc(count * sizeof(int64_t)));
    LS_TRY(sort_ids(sorted, other.as<uint64_t>(), ids, count, table_rows, padding_id, stream));
    head_kernel<<<blocks_for(count), block_threads, 0, stream>>>(heads.as<int64_t>(), sorted, count,
                                                                 table_rows, packing);
    LS_TRY(launched("group_ids"));
    LS_TRY(sum_heads(places, heads.as<int64_t>(), count, stream));
    place_kernel<<<blocks_for(count), block_threads, 0, stream>>>(
        out->rows, out->starts, out->order, sorted, places, count, table_rows, packing);
    LS_TRY(launched("group_ids"));
    int64_t found = 0;
    LS_TRY(check(
        cudaMemcpyAsync(&found, places + count - 1, sizeof found, cudaMemcpyDeviceToHost, stream),
        "group_ids"));
    LS_TRY(check(cudaStreamSynchronize(stream), "group_ids"));
    *unique = (size_t)found;
    return LS_OK;
}

// ---- Sums over duplicates -----------------------------------------------------------------------
// What is added up for rows: element c of what `order` names, times its scale.
template <class T, class N> struct addends {
    const T *gradients;
    size_t stride;
    const int64_t *row_of;
    const float *scales;
    const int64_t *order;

    __device__ N term(int64_t i, size_t c) const {
        auto k = (size_t)order[i];
        size_t row = row_of != nullptr ? (size_t)row_of[k] : k;
        N g = (N)element<T>::load(gradients[row * stride + c]);
        return scales != nullptr ? g * (N)scales[k] : g;
    }

    // The left fold, from +0, of occurrences [from, to), several of which are loaded at once.
    __device__ N fold(int64_t from, int64_t to, size_t c) const {
        constexpr int batch = 8;
        N sum = 0;
        for (; from + batch <= to; from += batch) {
            N x[batch];
#pragma unroll
            for (int k = 0; k < batch; k++) {
                x[k] = term(from + k, c);
            }
#pragma unroll
            for (int k = 0; k < batch; k++) {
                sum = sum + x[k];
            }
        }
        for (; from < to; from++) {
            sum = sum + term(from, c);
        }
        return sum;
    }
};

// Rows of more than one run: how many, and which, in any order.
struct long_rows {
    unsigned long long *count;
    size_t *rows;
};

// Items are a row and 32 of its columns. A warp has an item of a row of one run.
template <class T, class N>
static __global__ void short_rows_kernel(N *out, size_t dim, const addends<T, N> of,
                                         const int64_t *starts, size_t unique, long_rows found) {
    size_t lane = threadIdx.x % 32, warps = thread_count() / 32, pieces = (dim + 31) / 32;
    for (size_t at = thread_index() / 32; at < unique * pieces; at += warps) {
        size_t u = at / pieces, c = at % pieces * 32 + lane;
        if (starts[u + 1] - starts[u] > LS_GRADIENT_RUN) {
            if (c == 0) {
                found.rows[atomicAdd(found.count, 1ull)] = u;
            }
        } else if (c < dim) {
            out[u * dim + c] = of.fold(starts[u], starts[u + 1], c);
        }
    }
}

// All warps of a block have a run each of an item of a longer row.
constexpr int run_warps = 32, run_threads = run_warps * 32, run_blocks = 512;

template <class T, class N>
static __device__ void sum_long_row(N *out, bool has_column, size_t c, const addends<T, N> &of,
                                    int64_t from, int64_t end) {
    __shared__ N sums[run_warps][32];
    size_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    N sum = 0;
    for (; from < end; from += run_warps * LS_GRADIENT_RUN) {
        int64_t own = from + (int64_t)warp * LS_GRADIENT_RUN;
        if (has_column && own < end) {
            sums[warp][lane] = of.fold(own, min(own + LS_GRADIENT_RUN, end), c);
        }
        __syncthreads();
        for (int run = 0; run < run_warps && from + run * LS_GRADIENT_RUN < end; run++) {
            sum = sum + sums[run][lane];
        }
        __syncthreads();
    }
    if (has_column && warp == 0) {
        *out = sum;
    }
}

template <class T, class N>
static __global__ void __launch_bounds__(run_threads)
    long_rows_kernel(N *out, size_t dim, const addends<T, N> of, const int64_t *starts,
                     long_rows found) {
    size_t pieces = (dim + 31) / 32;
    for (size_t at = blockIdx.x; at < *found.count * pieces; at += gridDim.x) {
        size_t u = found.rows[at / pieces], c = at % pieces * 32 + threadIdx.x % 32;
        sum_long_row(out + u * dim + c, c < dim, c, of, starts[u], starts[u + 1]);
    }
}

int ls_kernel_row_gradients_cuda(void *out, size_t dim, const ls_gradients *from,
                                 const int64_t *starts, const int64_t *order, size_t unique,
                                 ls_cuda_stream stream_) {
    auto *stream = (cudaStream_t)stream_;
    LS_ASSERT(from->dtype == LS_F32 || from->dtype == LS_F64 || from->dtype == LS_F16 ||
              from->dtype == LS_BF16);
    if (unique == 0 || dim == 0) {
        return LS_OK;
    }
    scratch count(stream), rows(stream);
    LS_TRY(count.alloc(sizeof(unsigned long long)));
    LS_TRY(rows.alloc(unique * sizeof(size_t)));
    long_rows found = {count.as<unsigned long long>(), rows.as<size_t>()};
    LS_TRY(check(cudaMemsetAsync(found.count, 0, sizeof *found.count, stream), "row_gradients"));
    return with_type(from->dtype, [&](auto *type) {
        using T = std::remove_pointer_t<decltype(type)>;
        if constexpr (element<T>::is_float && sizeof(T) > 1) {
            using N = typename element<T>::number;
            size_t items = unique * ((dim + 31) / 32);
            addends<T, N> of = {(const T *)from->values, from->stride, from->row_of, from->scales,
                                order};
            short_rows_kernel<T, N>
                <<<blocks_for(items, block_threads / 32), block_threads, 0, stream>>>(
                    (N *)out, dim, of, starts, unique, found);
            LS_TRY(launched("row_gradients"));
            long_rows_kernel<T, N>
                <<<(unsigned)(items < run_blocks ? items : run_blocks), run_threads, 0, stream>>>(
                    (N *)out, dim, of, starts, found);
        }
        return launched("row_gradients");
    });
}

// ---- Gradients of weights -----------------------------------------------------------------------
// A warp per id: lanes multiply, then all add the 32 products one after the other.
template <class T, class N>
static __global__ void weight_gradients_kernel(N *out, const T *table, ls_table_shape shape,
                                               ls_gradients from, const int64_t *ids,
                                               int64_t padding_id, size_t count) {
    size_t lane = threadIdx.x % 32, warps = thread_count() / 32;
    for (size_t k = thread_index() / 32; k < count; k += warps) {
        bool counts = padding_id == -1 || ids[k] != padding_id;
        if (counts && (ids[k] < 0 || ids[k] >= shape.rows)) {
            __trap();
        }
        size_t row = from.row_of != nullptr ? (size_t)from.row_of[k] : k;
        N sum = 0;
        for (size_t first = 0; counts && first < shape.dim; first += 32) {
            size_t c = first + lane, there = shape.dim - first < 32 ? shape.dim - first : 32;
            N product = 0;
            if (c < shape.dim) {
                product = ((const N *)from.values)[row * from.stride + c] *
                          (N)element<T>::load(table[(size_t)ids[k] * shape.dim + c]);
            }
            for (size_t other = 0; other < there; other++) {
                sum = sum + __shfl_sync(0xFFFFFFFFu, product, (int)other);
            }
        }
        if (lane == 0) {
            out[k] = sum;
        }
    }
}

int ls_kernel_weight_gradients_cuda(void *out, const void *table, const ls_table_shape *shape,
                                    const ls_gradients *from, const int64_t *ids,
                                    int64_t padding_id, size_t count, ls_cuda_stream stream_) {
    auto *stream = (cudaStream_t)stream_;
    LS_ASSERT(shape->dtype == LS_F32 || shape->dtype == LS_F64 || shape->dtype == LS_F16 ||
              shape->dtype == LS_BF16);
    if (count == 0) {
        return LS_OK;
    }
    return with_type(shape->dtype, [&](auto *type) {
        using T = std::remove_pointer_t<decltype(type)>;
        if constexpr (element<T>::is_float && sizeof(T) > 1) {
            using N = typename element<T>::number;
            weight_gradients_kernel<T, N>
                <<<blocks_for(count, block_threads / 32), block_threads, 0, stream>>>(
                    (N *)out, (const T *)table, *shape, *from, ids, padding_id, count);
        }
        return launched("weight_gradients");
    });
}

// ---- Norms --------------------------------------------------------------------------------------
enum norm_kind { NORM_1, NORM_2, NORM_INFINITY };
constexpr int lanes = 8;

// Eight lanes have a row's partial sums; all get the sum.
template <class T>
static __device__ double sum_row(const T *row, size_t dim, size_t lane, norm_kind kind) {
    double part = 0;
    for (size_t c = lane; c < dim; c += lanes) {
        double x = fabs((double)element<T>::load(row[c]));
        if (kind == NORM_INFINITY) {
            part = x > part || isnan(x) ? x : part;
        } else {
            part = part + (kind == NORM_2 ? x * x : x);
        }
    }
    unsigned mask = 0xFFu << (threadIdx.x % 32 / lanes * lanes);
    for (int other = 1; other < lanes; other *= 2) {
        double theirs = __shfl_xor_sync(mask, part, other);
        if (kind == NORM_INFINITY) {
            part = theirs > part || isnan(theirs) ? theirs : part;
        } else {
            part = part + theirs;
        }
    }
    return part;
}

// Either only the sums (out), or the rows scaled.
template <class T>
static __global__ void norm_kernel(double *out, T *weights, ls_table_shape shape,
                                   const int64_t *ids, const double *sums, size_t count,
                                   ls_norm_limit limit, norm_kind kind) {
    using N = typename element<T>::number;
    size_t lane = threadIdx.x % lanes, groups = thread_count() / lanes;
    for (size_t i = thread_index() / lanes; i < count; i += groups) {
        if (ids[i] < 0 || ids[i] >= shape.rows) {
            __trap();
        }
        T *row = weights + (size_t)ids[i] * shape.dim;
        double sum = sums != nullptr ? sums[i] : sum_row(row, shape.dim, lane, kind);
        if (out != nullptr) {
            if (lane == 0) {
                out[i] = sum;
            }
            continue;
        }
        double norm = (double)(N)(kind == NORM_2 ? sqrt(sum) : sum);
        N factor = (N)(limit.max_norm / (norm + limit.eps));
        for (size_t c = lane; norm > limit.max_norm && c < shape.dim; c += lanes) {
            row[c] = element<T>::store((N)element<T>::load(row[c]) * factor);
        }
    }
}

static int launch_norms(double *out, void *weights, const ls_table_shape *shape, const int64_t *ids,
                        const double *sums, size_t count, const ls_norm_limit &limit,
                        cudaStream_t stream) {
    ls_dtype dtype = shape->dtype;
    LS_ASSERT(dtype == LS_F32 || dtype == LS_F64 || dtype == LS_F16 || dtype == LS_BF16);
    if (limit.norm_type != 1 && limit.norm_type != 2 && !isinf(limit.norm_type)) {
        return LS_FAIL(LS_ERR_UNSUPPORTED,
                       "norm_type %g on a GPU: only 1, 2 and infinity give the CPU's bits there",
                       limit.norm_type);
    }
    norm_kind kind = isinf(limit.norm_type) ? NORM_INFINITY : NORM_2;
    if (limit.norm_type == 1) {
        kind = NORM_1;
    }
    if (count == 0) {
        return LS_OK;
    }
    return with_type(dtype, [&](auto *type) {
        using T = std::remove_pointer_t<decltype(type)>;
        if constexpr (element<T>::is_float && sizeof(T) > 1) {
            norm_kernel<T><<<blocks_for(count, block_threads / lanes), block_threads, 0, stream>>>(
                out, (T *)weights, *shape, ids, sums, count, limit, kind);
        }
        return launched("norms of rows");
    });
}

int ls_kernel_norm_sums_cuda(double *sums, const void *weights, const ls_table_shape *shape,
                             const int64_t *ids, size_t count, double norm_type,
                             ls_cuda_stream stream) {
    return launch_norms(sums, const_cast<void *>(weights), shape, ids, nullptr, count,
                        {0, norm_type, 0}, (cudaStream_t)stream);
}

int ls_kernel_renormalise_rows_cuda(void *weights, const ls_table_shape *shape, const int64_t *ids,
                                    const double *sums, size_t count, const ls_norm_limit *limit,
                                    ls_cuda_stream stream) {
    return launch_norms(nullptr, weights, shape, ids, sums, count, *limit, (cudaStream_t)stream);
}
