// Element by element on a GPU: fill, copy, conversions, reductions, scaling.
#include <cstring>

#include "kernels/cuda/device.cuh"

using namespace ls;

// ---- Fill and copy ------------------------------------------------------------------------------
template <class T> __global__ void fill_kernel(T *out, T value, size_t count) {
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        out[i] = value;
    }
}

template <class T>
static int fill(void *out, const void *value, size_t count, cudaStream_t stream) {
    T element_value;
    memcpy(&element_value, value, sizeof element_value);
    fill_kernel<<<blocks_for(count), block_threads, 0, stream>>>((T *)out, element_value, count);
    return launched("fill");
}

int ls_kernel_fill_cuda(void *out, ls_dtype dtype, const void *value, size_t count,
                        ls_cuda_stream stream) {
    LS_ASSERT(count == 0 || (out != nullptr && value != nullptr));
    if (count == 0) {
        return LS_OK;
    }
    switch (ls_dtype_bytes(dtype)) {
    case 1:
        return fill<uint8_t>(out, value, count, (cudaStream_t)stream);
    case 2:
        return fill<uint16_t>(out, value, count, (cudaStream_t)stream);
    case 4:
        return fill<uint32_t>(out, value, count, (cudaStream_t)stream);
    default:
        return fill<uint64_t>(out, value, count, (cudaStream_t)stream);
    }
}

int ls_kernel_copy_cuda(void *out, const void *in, size_t bytes, ls_cuda_stream stream) {
    LS_ASSERT(bytes == 0 || (out != nullptr && in != nullptr));
    if (bytes == 0 || out == in) {
        return LS_OK;
    }
    return check(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream),
                 "copy");
}

__global__ void copy_2d_kernel(char *out, size_t out_stride, const char *in, size_t in_stride,
                               size_t row_bytes, size_t total) {
    for (size_t i = thread_index(); i < total; i += thread_count()) {
        size_t row = i / row_bytes, byte = i % row_bytes;
        out[row * out_stride + byte] = in[row * in_stride + byte];
    }
}

int ls_kernel_copy_2d_cuda(void *out, size_t out_stride_bytes, const void *in,
                           size_t in_stride_bytes, size_t row_bytes, size_t rows,
                           ls_cuda_stream stream) {
    LS_ASSERT(rows <= 1 || row_bytes <= out_stride_bytes);
    LS_ASSERT(rows == 0 || row_bytes == 0 || (out != nullptr && in != nullptr));
    if (rows == 0 || row_bytes == 0) {
        return LS_OK;
    }
    if (rows == 1 || (row_bytes == out_stride_bytes && row_bytes == in_stride_bytes)) {
        return ls_kernel_copy_cuda(out, in, row_bytes * rows, stream);
    }
    size_t pitch_max = (size_t)1 << 30;
    if (in_stride_bytes >= row_bytes && in_stride_bytes < pitch_max &&
        out_stride_bytes < pitch_max) {
        return check(cudaMemcpy2DAsync(out, out_stride_bytes, in, in_stride_bytes, row_bytes, rows,
                                       cudaMemcpyDeviceToDevice, (cudaStream_t)stream),
                     "copy_2d");
    }
    copy_2d_kernel<<<blocks_for(row_bytes * rows), block_threads, 0, (cudaStream_t)stream>>>(
        (char *)out, out_stride_bytes, (const char *)in, in_stride_bytes, row_bytes,
        row_bytes * rows);
    return launched("copy_2d");
}

// ---- Conversions --------------------------------------------------------------------------------
// One element on its way: a float exactly as f64, or an integer as sign and magnitude.
struct any_number {
    double value;
    uint64_t magnitude;
    bool negative;
    bool integer;
};

template <class T> __device__ any_number take_float(const void *in, size_t i) {
    return {(double)element<T>::load(((const T *)in)[i]), 0, false, false};
}

template <class T> __device__ any_number take_integer(const void *in, size_t i) {
    T x = ((const T *)in)[i];
    bool negative = false;
    if constexpr ((T)-1 < (T)0) {
        negative = x < 0;
    }
    auto wide = (uint64_t)x;
    return {0, negative ? 0 - wide : wide, negative, true};
}

__device__ any_number take(const void *in, ls_dtype dtype, size_t i) {
    switch (dtype) {
#define TAKE_INTEGER(name, ...)                                                                    \
    case LS_##name:                                                                                \
        return take_integer<of_dtype<LS_##name>::type>(in, i);
        LS_DTYPE_INTEGER_MAP(TAKE_INTEGER)
#define TAKE_FLOAT(name, ...)                                                                      \
    case LS_##name:                                                                                \
        return take_float<of_dtype<LS_##name>::type>(in, i);
        LS_DTYPE_FLOAT_MAP(TAKE_FLOAT)
    default:
        return {};
    }
}

// Truncates toward zero and clamps, NaN gives 0.
template <class T> __device__ T integer_of(const any_number &x) {
    constexpr bool is_signed = (T)-1 < (T)0;
    constexpr uint64_t high = UINT64_MAX >> (64 - 8 * sizeof(T) + (is_signed ? 1 : 0));
    bool negative = x.negative;
    uint64_t magnitude = x.magnitude;
    if (!x.integer) {
        if (isnan(x.value)) {
            return 0;
        }
        negative = x.value < 0;
        double size = fabs(x.value);
        magnitude = size >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)size;
    }
    uint64_t limit = high;
    if (negative) {
        limit = is_signed ? high + 1 : 0;
    }
    magnitude = magnitude > limit ? limit : magnitude;
    return (T)(negative ? 0 - magnitude : magnitude);
}

template <class T> __device__ T float_of(const any_number &x) {
    if (!x.integer) {
        return element<T>::store_f64(x.value);
    }
    if constexpr (sizeof(T) == 8) {
        double size = __ull2double_rn(x.magnitude);
        return x.negative ? -size : size;
    } else {
        // The digits that f64 cannot hold are kept as one sticky bit: the one rounding that counts
        // comes next.
        uint64_t magnitude = x.magnitude;
        if (magnitude >> 53 != 0) {
            magnitude = (magnitude & ~(uint64_t)0x7FF) | ((magnitude & 0x7FF) != 0 ? 0x800u : 0u);
        }
        double size = __ull2double_rn(magnitude);
        return element<T>::store_f64(x.negative ? -size : size);
    }
}

template <class T>
__global__ void convert_kernel(T *out, const void *in, ls_dtype in_dtype, size_t count) {
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        any_number x = take(in, in_dtype, i);
        if constexpr (element<T>::is_float) {
            out[i] = float_of<T>(x);
        } else {
            out[i] = integer_of<T>(x);
        }
    }
}

int ls_kernel_convert_cuda(void *out, ls_dtype out_dtype, const void *in, ls_dtype in_dtype,
                           size_t count, ls_cuda_stream stream) {
    LS_ASSERT(count == 0 || (out != nullptr && in != nullptr));
    LS_ASSERT(ls_dtype_valid((int)in_dtype));
    if (out_dtype == in_dtype || count == 0) {
        return ls_kernel_copy_cuda(out, in, count * ls_dtype_bytes(in_dtype), stream);
    }
    return with_type(out_dtype, [&](auto *type) {
        convert_kernel<<<blocks_for(count), block_threads, 0, (cudaStream_t)stream>>>(
            (decltype(type))out, in, in_dtype, count);
        return launched("convert");
    });
}

// ---- Reduce -------------------------------------------------------------------------------------
template <class T> __device__ T divide(T sum, uint64_t divisor) {
    if constexpr (element<T>::is_float) {
        return element<T>::store_f64((double)element<T>::load(sum) / (double)divisor);
    } else if constexpr ((T)-1 < (T)0) {
        return (T)((int64_t)sum / (int64_t)divisor);
    } else {
        return (T)((uint64_t)sum / divisor);
    }
}

// in [n], factors [n] or NULL: device memory.
template <class T>
__global__ void reduce_kernel(T *out, const T *const *in, const T *factors, size_t n, ls_op op,
                              size_t count) {
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        T sum = in[0][i];
        sum = factors != nullptr ? times(sum, factors[0]) : sum;
        for (size_t k = 1; k < n; k++) {
            T x = in[k][i];
            x = factors != nullptr ? times(x, factors[k]) : x;
            sum = step(sum, x, op);
        }
        out[i] = op == LS_AVG ? divide(sum, n) : sum;
    }
}

template <class T>
static int reduce(T *out, const void *const *in, size_t n, ls_dtype dtype, ls_op op,
                  const double *premul, size_t count, cudaStream_t stream) {
    // The pointers, then the factors, go to the device in one piece.
    size_t pointer_bytes = n * sizeof(void *), bytes = pointer_bytes + n * sizeof(T);
    void *host = nullptr;
    LS_TRY(ls_alloc(&host, bytes, 1));
    memcpy(host, in, pointer_bytes);
    for (size_t k = 0; k < n && premul != nullptr; k++) {
        ls_element_from_f64((char *)host + pointer_bytes + k * sizeof(T), dtype, premul[k]);
    }
    scratch arguments(stream);
    int status = arguments.alloc(bytes);
    if (status == LS_OK) {
        status = check(
            cudaMemcpyAsync(arguments.as<void>(), host, bytes, cudaMemcpyHostToDevice, stream),
            "reduce");
    }
    ls_free(host, bytes, 1);
    LS_TRY(status);
    const T *factors = (const T *)(arguments.as<char>() + pointer_bytes);
    reduce_kernel<<<blocks_for(count), block_threads, 0, stream>>>(
        out, arguments.as<const T *const>(), premul != nullptr ? factors : nullptr, n, op, count);
    return launched("reduce");
}

int ls_kernel_reduce_cuda(void *out, const void *const *in, size_t in_count, ls_dtype dtype,
                          ls_op op, const double *premul, size_t count, ls_cuda_stream stream) {
    LS_ASSERT(in != nullptr && in_count >= 1 && ls_op_supports(op, dtype));
    LS_ASSERT((premul != nullptr) == (op == LS_PREMUL_SUM));
    if (count == 0) {
        return LS_OK;
    }
    return with_type(dtype, [&](auto *type) {
        return reduce((decltype(type))out, in, in_count, dtype, op, premul, count,
                      (cudaStream_t)stream);
    });
}

template <class T>
__global__ void accumulate_kernel(T *accumulator, const T *in, ls_op op, size_t count) {
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        accumulator[i] = step(accumulator[i], in[i], op);
    }
}

int ls_kernel_accumulate_cuda(void *accumulator, const void *in, ls_dtype dtype, ls_op op,
                              size_t count, ls_cuda_stream stream) {
    LS_ASSERT(ls_op_supports(op, dtype) && op != LS_AVG && op != LS_PREMUL_SUM);
    if (count == 0) {
        return LS_OK;
    }
    return with_type(dtype, [&](auto *type) {
        using T = decltype(type);
        accumulate_kernel<<<blocks_for(count), block_threads, 0, (cudaStream_t)stream>>>(
            (T)accumulator, (std::remove_pointer_t<T> const *)in, op, count);
        return launched("accumulate");
    });
}

template <class T> __global__ void scale_kernel(T *out, const T *in, T factor, size_t count) {
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        out[i] = times(in[i], factor);
    }
}

int ls_kernel_scale_cuda(void *out, const void *in, const void *factor, ls_dtype dtype,
                         size_t count, ls_cuda_stream stream) {
    LS_ASSERT(factor != nullptr && (count == 0 || (out != nullptr && in != nullptr)));
    if (count == 0) {
        return LS_OK;
    }
    return with_type(dtype, [&](auto *type) {
        using T = std::remove_pointer_t<decltype(type)>;
        T host_factor;
        memcpy(&host_factor, factor, sizeof host_factor);
        scale_kernel<<<blocks_for(count), block_threads, 0, (cudaStream_t)stream>>>(
            (T *)out, (const T *)in, host_factor, count);
        return launched("scale");
    });
}

// ---- Multiply-add, rounded once -----------------------------------------------------------------
static __device__ float fused(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
static __device__ double fused(double a, double b, double c) {
    return __fma_rn(a, b, c);
}
static __device__ __half fused(__half a, __half b, __half c) {
    return __hfma(a, b, c);
}
static __device__ __nv_bfloat16 fused(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __hfma(a, b, c);
}

template <class T> __global__ void fma_kernel(T *accumulator, const T *in, T factor, size_t count) {
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        accumulator[i] = fused(in[i], factor, accumulator[i]);
    }
}

template <class T>
static int accumulate_fma(void *accumulator, const void *in, const void *factor, size_t count,
                          cudaStream_t stream) {
    T host_factor;
    memcpy(&host_factor, factor, sizeof host_factor);
    fma_kernel<<<blocks_for(count), block_threads, 0, stream>>>((T *)accumulator, (const T *)in,
                                                                host_factor, count);
    return launched("accumulate_fma");
}

int ls_kernel_accumulate_fma_cuda(void *accumulator, const void *in, const void *factor,
                                  ls_dtype dtype, size_t count, ls_cuda_stream stream) {
    LS_ASSERT(factor != nullptr && (count == 0 || accumulator != in));
    if (count == 0) {
        return LS_OK;
    }
    switch (dtype) {
    case LS_F32:
        return accumulate_fma<float>(accumulator, in, factor, count, (cudaStream_t)stream);
    case LS_F64:
        return accumulate_fma<double>(accumulator, in, factor, count, (cudaStream_t)stream);
    case LS_F16:
        return accumulate_fma<__half>(accumulator, in, factor, count, (cudaStream_t)stream);
    default:
        LS_ASSERT(dtype == LS_BF16);
        return accumulate_fma<__nv_bfloat16>(accumulator, in, factor, count, (cudaStream_t)stream);
    }
}

// ---- Matrix product -----------------------------------------------------------------------------
constexpr int tile = 16;

// Each thread folds one element over all of k, in order; tiles only bring the operands near.
template <class T>
__global__ void matmul_kernel(T *out, const T *a, const T *b, size_t m, size_t k, size_t n,
                              size_t column_tiles) {
    __shared__ T a_tile[tile][tile], b_tile[tile][tile + 1];
    size_t row = (size_t)blockIdx.x / column_tiles * tile + threadIdx.y;
    size_t column = (size_t)blockIdx.x % column_tiles * tile + threadIdx.x;
    T sum = 0;
    for (size_t first = 0; first < k; first += tile) {
        size_t ka = first + threadIdx.x, kb = first + threadIdx.y;
        a_tile[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : T(0);
        b_tile[threadIdx.y][threadIdx.x] = column < n && kb < k ? b[kb * n + column] : T(0);
        __syncthreads();
        int length = k - first < tile ? (int)(k - first) : tile;
        for (int s = 0; s < length; s++) {
            sum = sum + a_tile[threadIdx.y][s] * b_tile[s][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < m && column < n) {
        out[row * n + column] = sum;
    }
}

int ls_kernel_matmul_cuda(void *out, const void *a, const void *b, ls_dtype dtype, size_t m,
                          size_t k, size_t n, ls_cuda_stream stream) {
    LS_ASSERT(dtype == LS_F32 || dtype == LS_F64);
    if (m == 0 || n == 0) {
        return LS_OK;
    }
    size_t column_tiles = (n + tile - 1) / tile, tiles = (m + tile - 1) / tile * column_tiles;
    if (tiles > INT32_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "matmul: %zu x %zu elements are too many for one launch", m,
                       n);
    }
    dim3 threads(tile, tile);
    if (dtype == LS_F32) {
        matmul_kernel<<<(unsigned)tiles, threads, 0, (cudaStream_t)stream>>>(
            (float *)out, (const float *)a, (const float *)b, m, k, n, column_tiles);
    } else {
        matmul_kernel<<<(unsigned)tiles, threads, 0, (cudaStream_t)stream>>>(
            (double *)out, (const double *)a, (const double *)b, m, k, n, column_tiles);
    }
    return launched("matmul");
}
