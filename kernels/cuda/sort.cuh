// Ids sorted with their positions: what grouping them begins with. Private
// to this folder.
#ifndef LS_KERNELS_CUDA_SORT_CUH
#define LS_KERNELS_CUDA_SORT_CUH

#include "kernels/cuda/device.cuh"

namespace ls {

// An id and its position as one number, id << position_bits | position; an id that does not count
// has table_rows in the id's place, and so sorts last.
struct packed_ids {
    int position_bits, id_bits;

    __host__ __device__ int64_t id(uint64_t packed) const {
        return (int64_t)(packed >> position_bits);
    }
    __host__ __device__ uint64_t position(uint64_t packed) const {
        return packed & (((uint64_t)1 << position_bits) - 1);
    }
};

packed_ids packing_of(size_t count, int64_t table_rows);

// sorted [count] = the packed ids, ascending. other [count] is overwritten. count > 0.
int sort_ids(uint64_t *sorted, uint64_t *other, const int64_t *ids, size_t count,
             int64_t table_rows, int64_t padding_id, cudaStream_t stream);

}  // namespace ls

#endif
