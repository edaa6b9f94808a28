// Part of cuda_runtime.h: barriers, shuffles and votes, integer functions.
#ifndef LS_DEVICE_INCLUDE_CUDA_WARP_H
#define LS_DEVICE_INCLUDE_CUDA_WARP_H

// ---- Threads of a block and a warp --------------------------------------------------------------
inline void __syncthreads(LS_CUDA_HERE) {
    ls_cuda_barrier(0, 0, ls_at);
}
inline void __barrier_sync(int id, LS_CUDA_HERE) {
    ls_cuda_barrier(id, 0, ls_at);
}
inline void __barrier_sync_count(int id, unsigned count, LS_CUDA_HERE) {
    ls_cuda_barrier(id, count, ls_at);
}
inline void __syncwarp(unsigned mask = ~0u, LS_CUDA_HERE) {
    ls_cuda_exchange(mask, 0, nullptr, ls_at);
}
inline void __threadfence_block() {
    ls_cuda_fence(LS_CUDA_SCOPE_BLOCK);
}
inline void __threadfence() {
    ls_cuda_fence(LS_CUDA_SCOPE_DEVICE);
}
inline void __threadfence_system() {
    ls_cuda_fence(LS_CUDA_SCOPE_SYSTEM);
}
inline unsigned __activemask() {
    return 1u << ls_cuda_self->lane;  // programs may not rely on the others that run with this one
}
inline void __nanosleep(unsigned) {
    (void)ls_cuda_clock();
}
inline long long clock64() {
    return ls_cuda_clock();
}
inline clock_t lockstep_clock() {
    return (clock_t)ls_cuda_clock();
}

namespace lockstep {
template <class T> inline T exchanged(unsigned mask, T value, int lane, ls_cuda_site at) {
    static_assert(sizeof(T) <= 8, "at most eight bytes");
    uint64_t own = 0, all[32];
    memcpy(&own, &value, sizeof value);
    ls_cuda_exchange(mask, own, all, at);
    memcpy(&value, &all[lane & 31], sizeof value);
    return value;
}
inline int part(int width) {
    return (int)ls_cuda_self->lane & ~(width - 1);
}
}  // namespace lockstep

template <class T>
inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, LS_CUDA_HERE) {
    return lockstep::exchanged(mask, value, lockstep::part(width) + (from & (width - 1)), ls_at);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, LS_CUDA_HERE) {
    int from = (int)ls_cuda_self->lane - (int)by;
    bool own = from < lockstep::part(width);
    return lockstep::exchanged(mask, value, own ? (int)ls_cuda_self->lane : from, ls_at);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, LS_CUDA_HERE) {
    int from = (int)ls_cuda_self->lane + (int)by;
    bool own = from >= lockstep::part(width) + width;
    return lockstep::exchanged(mask, value, own ? (int)ls_cuda_self->lane : from, ls_at);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32, LS_CUDA_HERE) {
    int from = (int)ls_cuda_self->lane ^ by;
    bool own = from >= lockstep::part(width) + width;
    return lockstep::exchanged(mask, value, own ? (int)ls_cuda_self->lane : from, ls_at);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, LS_CUDA_HERE) {
    uint64_t all[32];
    unsigned bits = 0;
    ls_cuda_exchange(mask, predicate != 0, all, ls_at);
    for (int i = 0; i < 32; i++) {
        bits |= ((mask >> i) & 1) != 0 && all[i] != 0 ? 1u << i : 0;
    }
    return bits;
}
inline int __any_sync(unsigned mask, int predicate, LS_CUDA_HERE) {
    return __ballot_sync(mask, predicate, ls_at) != 0;
}
inline int __all_sync(unsigned mask, int predicate, LS_CUDA_HERE) {
    return __ballot_sync(mask, !predicate, ls_at) == 0;
}
template <class T> inline T __reduce_add_sync(unsigned mask, T value, LS_CUDA_HERE) {
    uint64_t all[32];
    T sum = 0;
    ls_cuda_exchange(mask, (uint64_t)value, all, ls_at);
    for (int i = 0; i < 32; i++) {
        sum += ((mask >> i) & 1) != 0 ? (T)all[i] : 0;
    }
    return sum;
}

inline int __popc(unsigned v) {
    return __builtin_popcount(v);
}
inline int __popcll(unsigned long long v) {
    return __builtin_popcountll(v);
}
inline int __clz(int v) {
    return v == 0 ? 32 : __builtin_clz((unsigned)v);
}
inline int __ffs(int v) {
    return __builtin_ffs(v);
}
inline float rsqrtf(float v) {
    return 1 / sqrtf(v);
}
inline double rsqrt(double v) {
    return 1 / sqrt(v);
}
inline size_t __cvta_generic_to_global(const void *at) {
    return (size_t)at;
}
inline void *__cvta_global_to_generic(size_t at) {
    return (void *)at;
}
inline float __fdividef(float a, float b) {
    return a / b;
}
template <class T> inline T __ldg(const T *at) {
    return *at;
}
template <class A, class B> constexpr typename std::common_type<A, B>::type min(A a, B b) {
    return a < b ? a : b;
}
template <class A, class B> constexpr typename std::common_type<A, B>::type max(A a, B b) {
    return a < b ? b : a;
}

#endif
