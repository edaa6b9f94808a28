// NVSHMEM for programs that lockstep-cuda-cc compiles: symmetric memory, puts and gets, signals,
// waits, ordering. Written from NVSHMEM's documentation.
#ifndef LS_DEVICE_INCLUDE_NVSHMEM_H
#define LS_DEVICE_INCLUDE_NVSHMEM_H

#include <cuda_runtime.h>

// A program that includes this is one process for each rank.
extern "C" {
__attribute__((weak, visibility("default"))) int lockstep_process_per_rank = 1;
}

enum {
    NVSHMEM_CMP_EQ,
    NVSHMEM_CMP_NE,
    NVSHMEM_CMP_GT,
    NVSHMEM_CMP_LE,
    NVSHMEM_CMP_LT,
    NVSHMEM_CMP_GE
};
enum { NVSHMEM_SIGNAL_SET = 9, NVSHMEM_SIGNAL_ADD = 10 };
enum { NVSHMEM_TEAM_WORLD = 0, NVSHMEMX_TEAM_NODE = 2, NVSHMEM_THREAD_MULTIPLE = 3 };
typedef int nvshmem_team_t;

// ---- Host ---------------------------------------------------------------------------------------
inline void nvshmem_init(LS_CUDA_HERE) {
    (void)ls_nvshmem_init(ls_at);
}
inline void nvshmem_finalize(LS_CUDA_HERE) {
    ls_nvshmem_host_barrier("nvshmem_finalize", ls_at);
}
inline int nvshmem_my_pe() {
    return ls_nvshmem_rank();
}
inline int nvshmem_n_pes() {
    return ls_nvshmem_size();
}
inline int nvshmem_team_my_pe(nvshmem_team_t) {
    return ls_nvshmem_rank();
}
inline int nvshmem_team_n_pes(nvshmem_team_t) {
    return ls_nvshmem_size();
}
inline void *nvshmem_malloc(size_t bytes, LS_CUDA_HERE) {
    return ls_nvshmem_allocate(bytes, ls_at);
}
inline void *nvshmem_calloc(size_t count, size_t bytes, LS_CUDA_HERE) {
    return ls_nvshmem_allocate(count * bytes, ls_at);
}
inline void nvshmem_free(void *at, LS_CUDA_HERE) {
    ls_nvshmem_free(at, ls_at);
}
inline void *nvshmem_ptr(const void *at, int pe) {
    return ls_nvshmem_pointer(at, pe);
}

// ---- Ordering, on the host and on devices -------------------------------------------------------
namespace lockstep {
inline bool on_host() {
    return ls_cuda_on_host() != 0;
}
enum group { thread, warp, block };
inline void group_sync(group of, ls_cuda_site at) {
    if (of == warp) {
        ls_cuda_exchange(~0u, 0, nullptr, at);
    } else if (of == block) {
        ls_cuda_barrier(0, 0, at);
    }
}
inline bool leads(group of) {
    unsigned rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    return of == thread || (of == warp ? ls_cuda_self->lane == 0 : rank == 0);
}
inline void all_meet(group of, bool quiet, const char *call, ls_cuda_site at) {
    if (on_host()) {
        ls_nvshmem_host_barrier(call, at);
        return;
    }
    group_sync(of, at);
    if (leads(of)) {
        ls_nvshmem_barrier(quiet, call, at);
    }
    group_sync(of, at);
}
}  // namespace lockstep

inline void nvshmem_quiet(LS_CUDA_HERE) {
    ls_nvshmem_quiet(ls_at);
}
inline void nvshmem_fence() {
    ls_nvshmem_fence();
}
inline void nvshmem_barrier_all(LS_CUDA_HERE) {
    lockstep::all_meet(lockstep::thread, true, "nvshmem_barrier_all", ls_at);
}
inline void nvshmem_sync_all(LS_CUDA_HERE) {
    lockstep::all_meet(lockstep::thread, false, "nvshmem_sync_all", ls_at);
}
inline void nvshmemx_barrier_all_warp(LS_CUDA_HERE) {
    lockstep::all_meet(lockstep::warp, true, "nvshmemx_barrier_all_warp", ls_at);
}
inline void nvshmemx_barrier_all_block(LS_CUDA_HERE) {
    lockstep::all_meet(lockstep::block, true, "nvshmemx_barrier_all_block", ls_at);
}
inline void nvshmemx_sync_all_block(LS_CUDA_HERE) {
    lockstep::all_meet(lockstep::block, false, "nvshmemx_sync_all_block", ls_at);
}

// ---- Puts, gets and signals ---------------------------------------------------------------------
namespace lockstep {
struct request {
    group of;
    bool waits;
    const char *call;
};
struct notice {
    uint64_t *signal;
    uint64_t value;
    int how;
};
inline void transfer(request r, void *to, const void *from, size_t bytes, int pe, bool gets,
                     ls_cuda_site at, notice n = {}) {
    ls_cuda_put put = {};
    put.peer = pe;
    put.bytes = bytes;
    put.gets = gets;
    put.eager = r.waits && !gets;
    put.call = r.call;
    put.at = at;
    group_sync(r.of, at);
    if (leads(r.of)) {
        if (n.signal != nullptr) {
            ls_nvshmem_signal(&put, n.signal, n.value, n.how == NVSHMEM_SIGNAL_SET);
        }
        ls_nvshmem_put(put, gets ? (void *)from : to, gets ? to : from);
        if (gets && r.waits) {
            ls_nvshmem_quiet(at);
        }
    }
    group_sync(r.of, at);
}
}  // namespace lockstep

#define LS_NVSHMEM_MEMORY(prefix, suffix, of, waits)                                               \
    inline void prefix##_putmem##suffix(void *to, const void *from, size_t bytes, int pe,          \
                                        LS_CUDA_HERE) {                                            \
        lockstep::transfer({lockstep::of, waits, #prefix "_putmem" #suffix}, to, from, bytes, pe,  \
                           false, ls_at);                                                          \
    }                                                                                              \
    inline void prefix##_getmem##suffix(void *to, const void *from, size_t bytes, int pe,          \
                                        LS_CUDA_HERE) {                                            \
        lockstep::transfer({lockstep::of, waits, #prefix "_getmem" #suffix}, to, from, bytes, pe,  \
                           true, ls_at);                                                           \
    }                                                                                              \
    inline void prefix##_putmem_signal##suffix(void *to, const void *from, size_t bytes,           \
                                               uint64_t *signal, uint64_t value, int how, int pe,  \
                                               LS_CUDA_HERE) {                                     \
        lockstep::transfer({lockstep::of, waits, #prefix "_putmem_signal" #suffix}, to, from,      \
                           bytes, pe, false, ls_at, {signal, value, how});                         \
    }
LS_NVSHMEM_MEMORY(nvshmem, , thread, true)
LS_NVSHMEM_MEMORY(nvshmem, _nbi, thread, false)
LS_NVSHMEM_MEMORY(nvshmemx, _warp, warp, true)
LS_NVSHMEM_MEMORY(nvshmemx, _nbi_warp, warp, false)
LS_NVSHMEM_MEMORY(nvshmemx, _block, block, true)
LS_NVSHMEM_MEMORY(nvshmemx, _nbi_block, block, false)

inline void nvshmemx_signal_op(uint64_t *signal, uint64_t value, int how, int pe, LS_CUDA_HERE) {
    lockstep::transfer({lockstep::thread, false, "nvshmemx_signal_op"}, nullptr, nullptr, 0, pe,
                       false, ls_at, {signal, value, how});
}
inline uint64_t nvshmem_signal_wait_until(uint64_t *signal, int comparison, uint64_t value,
                                          LS_CUDA_HERE) {
    return ls_nvshmem_wait(signal, 8, comparison, (int64_t)value, ls_at);
}
inline uint64_t nvshmem_signal_fetch(uint64_t *signal, LS_CUDA_HERE) {
    return ls_nvshmem_wait(signal, 8, NVSHMEM_CMP_GE, INT64_MIN, ls_at);
}

#define LS_NVSHMEM_PUTS(name, T, prefix, suffix, of, waits)                                        \
    inline void prefix##_##name##_put##suffix(T *to, const T *from, size_t count, int pe,          \
                                              LS_CUDA_HERE) {                                      \
        prefix##_putmem##suffix(to, from, count * sizeof(T), pe, ls_at);                           \
    }                                                                                              \
    inline void prefix##_##name##_get##suffix(T *to, const T *from, size_t count, int pe,          \
                                              LS_CUDA_HERE) {                                      \
        prefix##_getmem##suffix(to, from, count * sizeof(T), pe, ls_at);                           \
    }
#define LS_NVSHMEM_TYPE(name, T)                                                                   \
    LS_NVSHMEM_PUTS(name, T, nvshmem, , thread, true)                                              \
    LS_NVSHMEM_PUTS(name, T, nvshmem, _nbi, thread, false)                                         \
    LS_NVSHMEM_PUTS(name, T, nvshmemx, _warp, warp, true)                                          \
    LS_NVSHMEM_PUTS(name, T, nvshmemx, _nbi_warp, warp, false)                                     \
    LS_NVSHMEM_PUTS(name, T, nvshmemx, _block, block, true)                                        \
    LS_NVSHMEM_PUTS(name, T, nvshmemx, _nbi_block, block, false)                                   \
    inline void nvshmem_##name##_p(T *to, T value, int pe, LS_CUDA_HERE) {                         \
        lockstep::transfer({lockstep::thread, true, "nvshmem_" #name "_p"}, to, &value, sizeof(T), \
                           pe, false, ls_at);                                                      \
    }                                                                                              \
    inline T nvshmem_##name##_g(const T *from, int pe, LS_CUDA_HERE) {                             \
        T value = 0;                                                                               \
        lockstep::transfer({lockstep::thread, true, "nvshmem_" #name "_g"}, &value, from,          \
                           sizeof(T), pe, true, ls_at);                                            \
        return value;                                                                              \
    }
#define LS_NVSHMEM_WAIT(name, T)                                                                   \
    inline void nvshmem_##name##_wait_until(T *word, int comparison, T value, LS_CUDA_HERE) {      \
        (void)ls_nvshmem_wait(word, sizeof(T), comparison, (int64_t)value, ls_at);                 \
    }
LS_NVSHMEM_TYPE(int, int)
LS_NVSHMEM_TYPE(uint, unsigned)
LS_NVSHMEM_TYPE(long, long)
LS_NVSHMEM_TYPE(ulong, unsigned long)
LS_NVSHMEM_TYPE(longlong, long long)
LS_NVSHMEM_TYPE(float, float)
LS_NVSHMEM_TYPE(double, double)
LS_NVSHMEM_TYPE(int32, int32_t)
LS_NVSHMEM_TYPE(uint32, uint32_t)
LS_NVSHMEM_TYPE(int64, int64_t)
LS_NVSHMEM_TYPE(uint64, uint64_t)
LS_NVSHMEM_TYPE(size, size_t)
LS_NVSHMEM_TYPE(char, char)
LS_NVSHMEM_WAIT(int, int)
LS_NVSHMEM_WAIT(uint, unsigned)
LS_NVSHMEM_WAIT(long, long)
LS_NVSHMEM_WAIT(ulong, unsigned long)
LS_NVSHMEM_WAIT(longlong, long long)
LS_NVSHMEM_WAIT(int32, int32_t)
LS_NVSHMEM_WAIT(uint32, uint32_t)
LS_NVSHMEM_WAIT(int64, int64_t)
LS_NVSHMEM_WAIT(uint64, uint64_t)
LS_NVSHMEM_WAIT(size, size_t)

#endif
