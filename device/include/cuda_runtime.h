// CUDA's language and runtime for programs that lockstep-cuda-cc compiles for the host. Written
// from CUDA's documentation.
#ifndef LS_DEVICE_INCLUDE_CUDA_RUNTIME_H
#define LS_DEVICE_INCLUDE_CUDA_RUNTIME_H

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include <lockstep_device.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))

// The line of the call, as a defaulted last argument.
#define LS_CUDA_HERE ls_cuda_site ls_at = {__builtin_FILE(), __builtin_LINE()}

// ---- Vectors ------------------------------------------------------------------------------------
#define LS_CUDA_VECTORS(T, N)                                                                      \
    struct N##1 {                                                                                  \
        T x;                                                                                       \
    };                                                                                             \
    struct __align__(2 * sizeof(T)) N##2 {                                                         \
        T x, y;                                                                                    \
    };                                                                                             \
    struct N##3 {                                                                                  \
        T x, y, z;                                                                                 \
    };                                                                                             \
    struct __align__(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) N##4 {                               \
        T x, y, z, w;                                                                              \
    };                                                                                             \
    inline N##1 make_##N##1(T x) {                                                                 \
        return {x};                                                                                \
    }                                                                                              \
    inline N##2 make_##N##2(T x, T y) {                                                            \
        return {x, y};                                                                             \
    }                                                                                              \
    inline N##3 make_##N##3(T x, T y, T z) {                                                       \
        return {x, y, z};                                                                          \
    }                                                                                              \
    inline N##4 make_##N##4(T x, T y, T z, T w) {                                                  \
        return {x, y, z, w};                                                                       \
    }
LS_CUDA_VECTORS(signed char, char)
LS_CUDA_VECTORS(unsigned char, uchar)
LS_CUDA_VECTORS(short, short)
LS_CUDA_VECTORS(unsigned short, ushort)
LS_CUDA_VECTORS(int, int)
LS_CUDA_VECTORS(unsigned, uint)
LS_CUDA_VECTORS(long, long)
LS_CUDA_VECTORS(unsigned long, ulong)
LS_CUDA_VECTORS(long long, longlong)
LS_CUDA_VECTORS(unsigned long long, ulonglong)
LS_CUDA_VECTORS(float, float)
LS_CUDA_VECTORS(double, double)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
    operator ls_cuda_dim() const {
        return {x, y, z};
    }
};

#define threadIdx (ls_cuda_self->thread_idx)
#define blockIdx  (ls_cuda_self->block_idx)
#define blockDim  (ls_cuda_self->block_dim)
#define gridDim   (ls_cuda_self->grid_dim)
static constexpr int warpSize = 32;

#include <cuda_warp.h>

// ---- Atomic operations --------------------------------------------------------------------------
namespace lockstep {
template <class T> __attribute__((no_sanitize("thread"))) inline T raw(const volatile T *at) {
    return *at;
}
template <class T> __attribute__((no_sanitize("thread"))) inline void put(volatile T *at, T value) {
    *at = value;
}
template <class T> inline uint64_t bits(T value) {
    uint64_t all = 0;
    memcpy(&all, &value, sizeof value < 8 ? sizeof value : 8);
    return all;
}
template <class T, class F>
inline T update(volatile T *at, int order, int scope, ls_cuda_site site, F change) {
    ls_cuda_atomic(at, sizeof(T), LS_CUDA_UPDATE, order, scope, site);
    T before = raw(at), after = change(before);
    put(at, after);
    ls_cuda_atomic_done(at, bits(before), bits(before) != bits(after), order, site);
    return before;
}
template <class T> inline T load(const volatile T *at, int order, int scope, ls_cuda_site site) {
    ls_cuda_atomic(at, sizeof(T), LS_CUDA_LOAD, order, scope, site);
    T value = raw(at);
    ls_cuda_atomic_done(at, bits(value), false, order, site);
    return value;
}
template <class T>
inline void store(volatile T *at, T value, int order, int scope, ls_cuda_site site) {
    ls_cuda_atomic(at, sizeof(T), LS_CUDA_STORE, order, scope, site);
    put(at, value);
}
}  // namespace lockstep

#include <cuda_multimem.h>

#define LS_CUDA_ATOMICS(suffix, scope)                                                             \
    template <class T, class U> inline T atomicAdd##suffix(T *at, U by, LS_CUDA_HERE) {            \
        return lockstep::update(at, __ATOMIC_RELAXED, scope, ls_at,                                \
                                [=](T old) { return (T)(old + (T)by); });                          \
    }                                                                                              \
    template <class T, class U> inline T atomicSub##suffix(T *at, U by, LS_CUDA_HERE) {            \
        return lockstep::update(at, __ATOMIC_RELAXED, scope, ls_at,                                \
                                [=](T old) { return (T)(old - (T)by); });                          \
    }                                                                                              \
    template <class T, class U> inline T atomicExch##suffix(T *at, U to, LS_CUDA_HERE) {           \
        return lockstep::update(at, __ATOMIC_RELAXED, scope, ls_at, [=](T) { return (T)to; });     \
    }                                                                                              \
    template <class T, class U> inline T atomicMax##suffix(T *at, U by, LS_CUDA_HERE) {            \
        return lockstep::update(at, __ATOMIC_RELAXED, scope, ls_at,                                \
                                [=](T old) { return old < (T)by ? (T)by : old; });                 \
    }                                                                                              \
    template <class T, class U> inline T atomicMin##suffix(T *at, U by, LS_CUDA_HERE) {            \
        return lockstep::update(at, __ATOMIC_RELAXED, scope, ls_at,                                \
                                [=](T old) { return (T)by < old ? (T)by : old; });                 \
    }                                                                                              \
    template <class T, class U> inline T atomicOr##suffix(T *at, U by, LS_CUDA_HERE) {             \
        return lockstep::update(at, __ATOMIC_RELAXED, scope, ls_at,                                \
                                [=](T old) { return (T)(old | (T)by); });                          \
    }                                                                                              \
    template <class T, class U> inline T atomicAnd##suffix(T *at, U by, LS_CUDA_HERE) {            \
        return lockstep::update(at, __ATOMIC_RELAXED, scope, ls_at,                                \
                                [=](T old) { return (T)(old & (T)by); });                          \
    }                                                                                              \
    template <class T, class U, class V>                                                           \
    inline T atomicCAS##suffix(T *at, U from, V to, LS_CUDA_HERE) {                                \
        return lockstep::update(at, __ATOMIC_RELAXED, scope, ls_at,                                \
                                [=](T old) { return old == (T)from ? (T)to : old; });              \
    }
LS_CUDA_ATOMICS(, LS_CUDA_SCOPE_DEVICE)
LS_CUDA_ATOMICS(_system, LS_CUDA_SCOPE_SYSTEM)
LS_CUDA_ATOMICS(_block, LS_CUDA_SCOPE_BLOCK)

// ---- Shared memory, which lockstep-cuda-cc makes of __shared__ ----------------------------------
namespace lockstep {
template <class T, int Number> static inline T &shared() {
    static char key;
    return *(T *)ls_cuda_shared(&key, sizeof(T));
}
template <class T> static inline T *dynamic_shared() {
    return (T *)ls_cuda_dynamic_shared();
}
}  // namespace lockstep

// ---- Launches -----------------------------------------------------------------------------------
typedef struct lockstep_stream *cudaStream_t;
typedef struct lockstep_event *cudaEvent_t;
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotReady = 600,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorNotSupported = 801
};
#define cudaStreamLegacy    ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)

namespace lockstep {
inline cudaError_t &last_error() {
    static cudaError_t last;
    return last;
}
inline cudaError_t result(int code) {
    if (code != 0) {
        last_error() = (cudaError_t)code;
    }
    return (cudaError_t)code;
}

struct launcher {
    ls_cuda_launch what;
    template <class F, class... A> cudaError_t operator()(F function, A &&...arguments) {
        typedef std::tuple<typename std::decay<A>::type...> values;
        struct call {
            F function;
            values arguments;
        };
        call *made = new call{function, values(std::forward<A>(arguments)...)};
        what.arg = made;
        what.drop = [](void *at) { delete (call *)at; };
        what.run = [](void *at) {
            call *of = (call *)at;
            std::apply([of](auto... each) { of->function(each...); }, of->arguments);
        };
        return result(ls_cuda_launch_kernel(&what));
    }
};

inline launcher launch(const char *name, dim3 grid, dim3 block, size_t shared = 0,
                       cudaStream_t stream = nullptr, LS_CUDA_HERE) {
    return launcher{{grid, block, shared, stream, nullptr, nullptr, nullptr, name, ls_at}};
}
}  // namespace lockstep

// ---- The runtime --------------------------------------------------------------------------------
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum { cudaHostAllocDefault = 0, cudaHostAllocMapped = 2, cudaMemAttachGlobal = 1 };
struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount, warpSize, maxThreadsPerBlock;
    size_t totalGlobalMem, sharedMemPerBlock;
};

inline const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess ? "no error" : "an error that lockstep reports";
}
inline const char *cudaGetErrorName(cudaError_t error) {
    return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
inline cudaError_t cudaGetLastError() {
    cudaError_t last = lockstep::last_error();
    lockstep::last_error() = cudaSuccess;
    return last;
}
inline cudaError_t cudaPeekAtLastError() {
    return lockstep::last_error();
}
inline cudaError_t cudaGetDeviceCount(int *count) {
    *count = ls_cuda_device_count();
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
    return lockstep::result(ls_cuda_device_set(device));
}
inline cudaError_t cudaGetDevice(int *device) {
    *device = ls_cuda_device();
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int) {
    *out = cudaDeviceProp{"lockstep", 9, 0, 132, 32, 1024, (size_t)16 << 30, (size_t)48 << 10};
    return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
    *can = 1;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize(LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_device_finish(ls_at));
}
inline cudaError_t cudaDeviceReset() {
    return cudaSuccess;
}
template <class T> inline cudaError_t cudaMalloc(T **out, size_t bytes, LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_allocate((void **)out, bytes, "memory", ls_at));
}
inline cudaError_t cudaFree(void *at, LS_CUDA_HERE) {
    return lockstep::result(at == nullptr ? 0 : ls_cuda_free(at, ls_at));
}
template <class T>
inline cudaError_t cudaMallocAsync(T **out, size_t bytes, cudaStream_t, LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_allocate((void **)out, bytes, "memory", ls_at));
}
inline cudaError_t cudaFreeAsync(void *at, cudaStream_t, LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_free(at, ls_at));
}
template <class T> inline cudaError_t cudaMallocHost(T **out, size_t bytes, unsigned = 0) {
    *out = (T *)calloc(1, bytes);
    return *out != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
template <class T> inline cudaError_t cudaHostAlloc(T **out, size_t bytes, unsigned) {
    return cudaMallocHost(out, bytes);
}
template <class T> inline cudaError_t cudaMallocManaged(T **out, size_t bytes, unsigned = 1) {
    return cudaMallocHost(out, bytes);
}
inline cudaError_t cudaFreeHost(void *at) {
    free(at);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                              LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_copy(to, from, bytes, nullptr, true, ls_at));
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream = nullptr, LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_copy(to, from, bytes, stream, false, ls_at));
}
inline cudaError_t cudaMemset(void *to, int value, size_t bytes, LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_set(to, value, bytes, nullptr, true, ls_at));
}
inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream = nullptr,
                                   LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_set(to, value, bytes, stream, false, ls_at));
}
inline cudaError_t cudaStreamCreate(cudaStream_t *out) {
    return lockstep::result(ls_cuda_stream_make((void **)out, false));
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    return lockstep::result(ls_cuda_stream_make((void **)out, flags == cudaStreamNonBlocking));
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) {
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream, LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_stream_finish(stream, ls_at));
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return ls_cuda_stream_idle(stream) != 0 ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*call)(void *), void *arg,
                                      LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_host_call(stream, call, arg, ls_at));
}
inline cudaError_t cudaEventCreate(cudaEvent_t *out) {
    return lockstep::result(ls_cuda_event_make((void **)out));
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned) {
    return cudaEventCreate(out);
}
inline cudaError_t cudaEventDestroy(cudaEvent_t) {
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr, LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_event_record(event, stream, ls_at));
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0,
                                       LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_event_await(stream, event, ls_at));
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event, LS_CUDA_HERE) {
    return lockstep::result(ls_cuda_event_finish(event, ls_at));
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
    return ls_cuda_event_done(event) != 0 ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaEventElapsedTime(float *out, cudaEvent_t, cudaEvent_t) {
    *out = 1;
    return cudaSuccess;
}
template <class F> inline cudaError_t cudaFuncSetAttribute(F, int, int) {
    return cudaSuccess;
}
enum {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
template <class... P, class... A>
inline cudaError_t lockstep_launch_all(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                       cudaStream_t stream, ls_cuda_site at, void **arguments) {
    size_t next = 0;
    auto values = std::tuple<P...>{*(P *)arguments[next++]...};
    return std::apply(
        [&](auto... each) {
            return lockstep::launch("a kernel", grid, block, shared, stream, at)(kernel, each...);
        },
        values);
}
template <class... P>
inline cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments,
                                    size_t shared = 0, cudaStream_t stream = nullptr,
                                    LS_CUDA_HERE) {
    return lockstep_launch_all(kernel, grid, block, shared, stream, ls_at, arguments);
}
template <class... P>
inline cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block,
                                               void **arguments, size_t shared = 0,
                                               cudaStream_t stream = nullptr, LS_CUDA_HERE) {
    return lockstep_launch_all(kernel, grid, block, shared, stream, ls_at, arguments);
}

#endif
