// Cooperative groups: blocks, tiles of a warp, the grid. Written from CUDA's documentation.
#ifndef LS_DEVICE_INCLUDE_COOPERATIVE_GROUPS_H
#define LS_DEVICE_INCLUDE_COOPERATIVE_GROUPS_H

#include <cuda_runtime.h>

namespace cooperative_groups {
struct thread_block {
    static unsigned thread_rank() {
        ls_cuda_dim i = threadIdx, n = blockDim;
        return i.x + n.x * (i.y + n.y * i.z);
    }
    static unsigned size() {
        ls_cuda_dim n = blockDim;
        return n.x * n.y * n.z;
    }
    static unsigned num_threads() {
        return size();
    }
    static void sync(LS_CUDA_HERE) {
        ls_cuda_barrier(0, 0, ls_at);
    }
    static dim3 group_index() {
        ls_cuda_dim at = blockIdx;
        return dim3(at.x, at.y, at.z);
    }
    static dim3 thread_index() {
        ls_cuda_dim at = threadIdx;
        return dim3(at.x, at.y, at.z);
    }
};

template <unsigned Size> struct thread_block_tile {
    static unsigned mask() {
        return (Size == 32 ? ~0u : (1u << Size) - 1) << (ls_cuda_self->lane & ~(Size - 1));
    }
    static unsigned thread_rank() {
        return ls_cuda_self->lane & (Size - 1);
    }
    static constexpr unsigned size() {
        return Size;
    }
    static constexpr unsigned num_threads() {
        return Size;
    }
    static unsigned meta_group_rank() {
        return thread_block::thread_rank() / Size;
    }
    static unsigned meta_group_size() {
        return (thread_block::size() + Size - 1) / Size;
    }
    static void sync(LS_CUDA_HERE) {
        ls_cuda_exchange(mask(), 0, nullptr, ls_at);
    }
    template <class T> static T shfl(T value, int from, LS_CUDA_HERE) {
        return __shfl_sync(mask(), value, from, Size, ls_at);
    }
    template <class T> static T shfl_down(T value, unsigned by, LS_CUDA_HERE) {
        return __shfl_down_sync(mask(), value, by, Size, ls_at);
    }
    template <class T> static T shfl_up(T value, unsigned by, LS_CUDA_HERE) {
        return __shfl_up_sync(mask(), value, by, Size, ls_at);
    }
    template <class T> static T shfl_xor(T value, int by, LS_CUDA_HERE) {
        return __shfl_xor_sync(mask(), value, by, Size, ls_at);
    }
    static unsigned ballot(int predicate, LS_CUDA_HERE) {
        return __ballot_sync(mask(), predicate, ls_at) >> (ls_cuda_self->lane & ~(Size - 1));
    }
    static int any(int predicate, LS_CUDA_HERE) {
        return __any_sync(mask(), predicate, ls_at);
    }
    static int all(int predicate, LS_CUDA_HERE) {
        return __all_sync(mask(), predicate, ls_at);
    }
};

struct grid_group {
    static unsigned long long thread_rank() {
        ls_cuda_dim b = blockIdx, g = gridDim;
        return (b.x + g.x * (b.y + (unsigned long long)g.y * b.z)) * thread_block::size() +
               thread_block::thread_rank();
    }
    static unsigned long long size() {
        ls_cuda_dim g = gridDim;
        return (unsigned long long)g.x * g.y * g.z * thread_block::size();
    }
    static unsigned long long num_threads() {
        return size();
    }
    static bool is_valid() {
        return true;
    }
    static void sync(LS_CUDA_HERE) {
        ls_cuda_grid_barrier(ls_at);
    }
};

typedef thread_block_tile<1> coalesced_group;  // programs may not rely on the other members
inline thread_block this_thread_block() {
    return {};
}
inline grid_group this_grid() {
    return {};
}
inline coalesced_group coalesced_threads() {
    return {};
}
template <unsigned Size, class Group>
inline thread_block_tile<Size> tiled_partition(const Group &) {
    return {};
}
template <class Group> inline void sync(const Group &group, LS_CUDA_HERE) {
    group.sync(ls_at);
}
}  // namespace cooperative_groups

#endif
