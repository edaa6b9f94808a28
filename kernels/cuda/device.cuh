// Shared by the CUDA kernels: element types with their rounding, launching, and temporary memory.
// Private to this folder.
#ifndef LS_KERNELS_CUDA_DEVICE_CUH
#define LS_KERNELS_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "base/memory.h"
#include "kernels/cuda/kernels_cuda.h"

namespace ls {

// ---- Errors and memory --------------------------------------------------------------------------
inline int check(cudaError_t error, const char *what) {
    if (error == cudaSuccess) {
        return LS_OK;
    }
    int code = error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_BACKEND;
    return LS_FAIL(code, "%s: %s", what, cudaGetErrorString(error));
}

inline int launched(const char *what) {
    return check(cudaGetLastError(), what);
}

// Device memory that lives until the work enqueued so far is done.
class scratch {
  public:
    explicit scratch(cudaStream_t on) : stream(on) {
    }
    scratch(const scratch &) = delete;
    ~scratch() {
        if (memory != nullptr) {
            (void)cudaFreeAsync(memory, stream);
        }
    }
    int alloc(size_t bytes) {
        return check(cudaMallocAsync(&memory, bytes == 0 ? 1 : bytes, stream), "device memory");
    }
    template <class T> T *as() const {
        return static_cast<T *>(memory);
    }

  private:
    cudaStream_t stream;
    void *memory = nullptr;
};

constexpr int block_threads = 256;

// Enough blocks for `items`, few enough for any grid: kernels step over the rest.
inline unsigned blocks_for(size_t items, size_t per_block = block_threads) {
    size_t blocks = (items + per_block - 1) / per_block;
    return static_cast<unsigned>(blocks > (size_t)1 << 20 ? (size_t)1 << 20 : blocks);
}

__device__ inline size_t thread_index() {
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ inline size_t thread_count() {
    return (size_t)gridDim.x * blockDim.x;
}

// ---- The first bad position ---------------------------------------------------------------------
// Integer atomics: the least is the least in any order.
__device__ inline void note_bad(unsigned long long *first_bad, size_t i) {
    atomicMin(first_bad, (unsigned long long)i);
}

inline int read_bad(size_t *out, const scratch &first_bad, cudaStream_t stream) {
    unsigned long long bad = 0;
    LS_TRY(check(
        cudaMemcpyAsync(&bad, first_bad.as<void>(), sizeof bad, cudaMemcpyDeviceToHost, stream),
        "reading a check"));
    LS_TRY(check(cudaStreamSynchronize(stream), "reading a check"));
    *out = (size_t)bad;
    return LS_OK;
}

inline int begin_bad(scratch &first_bad, cudaStream_t stream) {
    LS_TRY(first_bad.alloc(sizeof(unsigned long long)));
    return check(cudaMemsetAsync(first_bad.as<void>(), 0xFF, sizeof(unsigned long long), stream),
                 "preparing a check");
}

// ---- Element types ------------------------------------------------------------------------------
// number: the compute type. load is exact, store rounds once.
template <class T> struct element {  // integers: unsigned arithmetic wraps
    using number = T;
    static constexpr bool is_float = false;
    static __device__ T load(T x) {
        return x;
    }
    static __device__ T store(T x) {
        return x;
    }
};

struct e4m3 {
    __nv_fp8_storage_t bits;
};
struct e5m2 {
    __nv_fp8_storage_t bits;
};

template <> struct element<float> {
    using number = float;
    static constexpr bool is_float = true;
    static __device__ float load(float x) {
        return x;
    }
    static __device__ float store(float x) {
        return x;
    }
    static __device__ float store_f64(double x) {
        return __double2float_rn(x);
    }
};

template <> struct element<double> {
    using number = double;
    static constexpr bool is_float = true;
    static __device__ double load(double x) {
        return x;
    }
    static __device__ double store(double x) {
        return x;
    }
    static __device__ double store_f64(double x) {
        return x;
    }
};

template <> struct element<__half> {
    using number = float;
    static constexpr bool is_float = true;
    static __device__ float load(__half x) {
        return __half2float(x);
    }
    static __device__ __half store(float x) {
        return __float2half_rn(x);
    }
    static __device__ __half store_f64(double x) {
        return __double2half(x);
    }
};

template <> struct element<__nv_bfloat16> {
    using number = float;
    static constexpr bool is_float = true;
    static __device__ float load(__nv_bfloat16 x) {
        return __bfloat162float(x);
    }
    static __device__ __nv_bfloat16 store(float x) {
        return __float2bfloat16_rn(x);
    }
    static __device__ __nv_bfloat16 store_f64(double x) {
        return __double2bfloat16(x);
    }
};

template <class T, __nv_fp8_interpretation_t kind> struct element_f8 {
    using number = float;
    static constexpr bool is_float = true;
    static __device__ float load(T x) {
        return __half2float(__half(__nv_cvt_fp8_to_halfraw(x.bits, kind)));
    }
    static __device__ T store(float x) {
        return T{__nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind)};
    }
    static __device__ T store_f64(double x) {
        return T{__nv_cvt_double_to_fp8(x, __NV_SATFINITE, kind)};
    }
};
template <> struct element<e4m3> : element_f8<e4m3, __NV_E4M3> {};
template <> struct element<e5m2> : element_f8<e5m2, __NV_E5M2> {};

// The type of an element by the dtype's name: of_dtype<LS_F16>::type.
template <ls_dtype dtype> struct of_dtype;
#define LS_CUDA_TYPE(dtype, T)                                                                     \
    template <> struct of_dtype<dtype> { using type = T; }
LS_CUDA_TYPE(LS_I8, int8_t);
LS_CUDA_TYPE(LS_U8, uint8_t);
LS_CUDA_TYPE(LS_I32, int32_t);
LS_CUDA_TYPE(LS_U32, uint32_t);
LS_CUDA_TYPE(LS_I64, int64_t);
LS_CUDA_TYPE(LS_U64, uint64_t);
LS_CUDA_TYPE(LS_F16, __half);
LS_CUDA_TYPE(LS_F32, float);
LS_CUDA_TYPE(LS_F64, double);
LS_CUDA_TYPE(LS_BF16, __nv_bfloat16);
LS_CUDA_TYPE(LS_F8E4M3, e4m3);
LS_CUDA_TYPE(LS_F8E5M2, e5m2);
#undef LS_CUDA_TYPE

// Calls f with a null pointer of the element type: f(static_cast<T *>(nullptr)).
template <class F> int with_type(ls_dtype dtype, F f) {
    switch (dtype) {
#define LS_WITH_TYPE(name, ...)                                                                    \
    case LS_##name:                                                                                \
        return f(static_cast<of_dtype<LS_##name>::type *>(nullptr));
        LS_DTYPE_MAP(LS_WITH_TYPE)
#undef LS_WITH_TYPE
    default:
        LS_ASSERT(ls_dtype_valid((int)dtype));
        return LS_ERR_INVALID;
    }
}

// ---- Arithmetic ---------------------------------------------------------------------------------
// NaN loses against a number, -0 < +0; of two NaN the first stays.
template <class N> __device__ N larger(N a, N b) {
    if (isnan(b)) {
        return a;
    }
    if (isnan(a)) {
        return b;
    }
    if (a == b) {
        return signbit(a) ? b : a;
    }
    return a > b ? a : b;
}

template <class N> __device__ N smaller(N a, N b) {
    if (isnan(b)) {
        return a;
    }
    if (isnan(a)) {
        return b;
    }
    if (a == b) {
        return signbit(a) ? a : b;
    }
    return a < b ? a : b;
}

template <class T> struct unsigned_of { using type = T; };
template <> struct unsigned_of<int8_t> { using type = uint8_t; };
template <> struct unsigned_of<int32_t> { using type = uint32_t; };
template <> struct unsigned_of<int64_t> { using type = uint64_t; };

// One step of a fold: a op b, rounded. Not avg, premul_sum.
template <class T> __device__ T step(T a, T b, ls_op op) {
    if constexpr (element<T>::is_float) {
        typename element<T>::number x = element<T>::load(a), y = element<T>::load(b);
        switch (op) {
        case LS_PROD:
            return element<T>::store(x * y);
        case LS_MAX:
            return element<T>::store(larger(x, y));
        case LS_MIN:
            return element<T>::store(smaller(x, y));
        default:
            return element<T>::store(x + y);
        }
    } else {
        using U = typename unsigned_of<T>::type;
        switch (op) {
        case LS_PROD:
            return (T)(U)((U)a * (U)b);
        case LS_MAX:
            return a > b ? a : b;
        case LS_MIN:
            return a < b ? a : b;
        case LS_BAND:
            return (T)(a & b);
        case LS_BOR:
            return (T)(a | b);
        case LS_BXOR:
            return (T)(a ^ b);
        default:
            return (T)(U)((U)a + (U)b);
        }
    }
}

template <class T> __device__ T times(T a, T b) {
    return step(a, b, LS_PROD);
}

}  // namespace ls

#endif
