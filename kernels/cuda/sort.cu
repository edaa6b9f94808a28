// Sorting ids with their positions.
#include "kernels/cuda/sort.cuh"

#include <cub/device/device_radix_sort.cuh>

namespace ls {

static int bits_of(uint64_t largest) {
    int bits = 1;
    while (bits < 64 && largest >> bits != 0) {
        bits++;
    }
    return bits;
}

packed_ids packing_of(size_t count, int64_t table_rows) {
    packed_ids packing = {bits_of(count), bits_of((uint64_t)table_rows)};
    LS_ASSERT(packing.position_bits + packing.id_bits <= 64);  // more is no machine's memory
    return packing;
}

static __device__ uint64_t pack(int64_t id, size_t position, int64_t table_rows, int64_t padding_id,
                                packed_ids packing) {
    bool counts = padding_id == -1 || id != padding_id;
    if (counts && (id < 0 || id >= table_rows)) {
        __trap();
    }
    return (uint64_t)(counts ? id : table_rows) << packing.position_bits | position;
}

static __global__ void pack_kernel(uint64_t *out, const int64_t *ids, size_t count,
                                   int64_t table_rows, int64_t padding_id, packed_ids packing) {
    for (size_t k = thread_index(); k < count; k += thread_count()) {
        out[k] = pack(ids[k], k, table_rows, padding_id, packing);
    }
}

int sort_ids(uint64_t *sorted, uint64_t *other, const int64_t *ids, size_t count,
             int64_t table_rows, int64_t padding_id, cudaStream_t stream) {
    LS_ASSERT(count > 0 && count <= INT32_MAX && table_rows >= 0);
    packed_ids packing = packing_of(count, table_rows);
    int low = packing.position_bits, high = low + packing.id_bits;
    size_t bytes = 0;
    pack_kernel<<<blocks_for(count), block_threads, 0, stream>>>(other, ids, count, table_rows,
                                                                 padding_id, packing);
    LS_TRY(launched("sorting ids"));
    LS_TRY(check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, other, sorted, (int)count, low,
                                                high, stream),
                 "sorting ids"));
    scratch memory(stream);
    LS_TRY(memory.alloc(bytes));
    return check(cub::DeviceRadixSort::SortKeys(memory.as<void>(), bytes, other, sorted, (int)count,
                                                low, high, stream),
                 "sorting ids");
}

}  // namespace ls
