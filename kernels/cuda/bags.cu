// Bags after the lookup on a GPU: bags without ids, means; rows put where their ids stood; and
// choosing between two results byte by byte.
#include <cstring>

#include "kernels/cuda/device.cuh"

using namespace ls;

// ---- Bags ---------------------------------------------------------------------------------------
// One thread goes through a bag: the sum of weights keeps the bag's order.
static __device__ int64_t count_bag(double *divisor, const ls_bags &of, size_t bag) {
    int64_t counted = 0;
    *divisor = 0;
    for (int64_t i = of.offsets[bag] - of.offsets[0]; i < of.offsets[bag + 1] - of.offsets[0];
         i++) {
        if (of.padding_id == -1 || of.ids[i] != of.padding_id) {
            counted++;
            *divisor += of.weights != nullptr ? (double)of.weights[i] : 1.0;
        }
    }
    return counted;
}

template <class T>
__global__ void fill_empty_kernel(T *out, size_t out_stride, T value, size_t dim,
                                  const __grid_constant__ ls_bags bags) {
    for (size_t bag = thread_index(); bag < bags.count; bag += thread_count()) {
        double divisor;
        if (count_bag(&divisor, bags, bag) == 0) {
            for (size_t c = 0; c < dim; c++) {
                out[bag * out_stride + c] = value;
            }
        }
    }
}

template <class T>
static int fill_empty(void *out, size_t out_stride, const void *value, size_t dim,
                      const ls_bags &bags, cudaStream_t stream) {
    T element_value;
    memcpy(&element_value, value, sizeof element_value);
    fill_empty_kernel<<<blocks_for(bags.count), block_threads, 0, stream>>>(
        (T *)out, out_stride, element_value, dim, bags);
    return launched("fill_empty_bags");
}

int ls_kernel_fill_empty_bags_cuda(void *out, size_t out_stride, ls_dtype dtype, double value,
                                   size_t dim, const ls_bags *bags, ls_cuda_stream stream) {
    LS_ASSERT(bags->count == 0 ||
              (out != nullptr && bags->offsets != nullptr && out_stride >= dim));
    if (bags->count == 0) {
        return LS_OK;
    }
    ls_bags of = *bags;
    of.weights = nullptr;
    uint64_t bits = 0;
    ls_element_from_f64(&bits, dtype, value);
    auto *on = (cudaStream_t)stream;
    switch (ls_dtype_bytes(dtype)) {
    case 1:
        return fill_empty<uint8_t>(out, out_stride, &bits, dim, of, on);
    case 2:
        return fill_empty<uint16_t>(out, out_stride, &bits, dim, of, on);
    case 4:
        return fill_empty<uint32_t>(out, out_stride, &bits, dim, of, on);
    default:
        return fill_empty<uint64_t>(out, out_stride, &bits, dim, of, on);
    }
}

template <class T>
__global__ void divide_kernel(T *out, size_t out_stride, size_t dim, double added,
                              const __grid_constant__ ls_bags bags) {
    for (size_t bag = thread_index(); bag < bags.count; bag += thread_count()) {
        double divisor;
        if (count_bag(&divisor, bags, bag) > 0) {
            divisor += added;
            for (size_t c = 0; c < dim; c++) {
                T *at = &out[bag * out_stride + c];
                *at = (T)((double)*at / divisor);
            }
        }
    }
}

int ls_kernel_divide_bags_cuda(void *out, size_t out_stride, ls_dtype dtype, size_t dim,
                               double added, const ls_bags *bags, ls_cuda_stream stream) {
    LS_ASSERT(dtype == LS_F32 || dtype == LS_F64);
    LS_ASSERT(bags->count == 0 ||
              (out != nullptr && bags->offsets != nullptr && out_stride >= dim));
    if (bags->count == 0) {
        return LS_OK;
    }
    unsigned blocks = blocks_for(bags->count);
    auto *on = (cudaStream_t)stream;
    if (dtype == LS_F64) {
        divide_kernel<<<blocks, block_threads, 0, on>>>((double *)out, out_stride, dim, added,
                                                        *bags);
    } else {
        divide_kernel<<<blocks, block_threads, 0, on>>>((float *)out, out_stride, dim, added,
                                                        *bags);
    }
    return launched("divide_bags");
}

// ---- Rows and bytes -----------------------------------------------------------------------------
static __global__ void scatter_kernel(char *out, size_t out_stride, const char *in,
                                      size_t row_bytes, const int64_t *positions, size_t total) {
    for (size_t i = thread_index(); i < total; i += thread_count()) {
        size_t row = i / row_bytes, byte = i % row_bytes;
        out[(size_t)positions[row] * out_stride + byte] = in[i];
    }
}

int ls_kernel_scatter_rows_cuda(void *out, size_t out_stride_bytes, const void *in,
                                size_t row_bytes, const int64_t *positions, size_t count,
                                ls_cuda_stream stream) {
    LS_ASSERT(count == 0 || positions != nullptr);
    LS_ASSERT(count == 0 || row_bytes == 0 || (out != nullptr && in != nullptr));
    if (count == 0 || row_bytes == 0) {
        return LS_OK;
    }
    size_t total = count * row_bytes;
    scatter_kernel<<<blocks_for(total), block_threads, 0, (cudaStream_t)stream>>>(
        (char *)out, out_stride_bytes, (const char *)in, row_bytes, positions, total);
    return launched("scatter_rows");
}

static __global__ void select_kernel(unsigned char *accumulator, const unsigned char *other,
                                     const unsigned char *mask, size_t period, size_t start,
                                     size_t bytes) {
    for (size_t i = thread_index(); i < bytes; i += thread_count()) {
        unsigned char keep = mask[(start + i) % period];
        accumulator[i] = (unsigned char)((accumulator[i] & keep) | (other[i] & ~keep));
    }
}

int ls_kernel_select_bytes_cuda(void *accumulator, const void *other, const unsigned char *mask,
                                size_t period, size_t start, size_t bytes, ls_cuda_stream stream_) {
    LS_ASSERT(period > 0 && mask != nullptr);
    LS_ASSERT(bytes == 0 || (accumulator != nullptr && other != nullptr));
    auto *stream = (cudaStream_t)stream_;
    if (bytes == 0) {
        return LS_OK;
    }
    scratch copy(stream);
    LS_TRY(copy.alloc(period));
    // From pageable memory the copy is staged before it returns.
    LS_TRY(check(cudaMemcpyAsync(copy.as<void>(), mask, period, cudaMemcpyHostToDevice, stream),
                 "select_bytes"));
    select_kernel<<<blocks_for(bytes), block_threads, 0, stream>>>(
        (unsigned char *)accumulator, (const unsigned char *)other, copy.as<unsigned char>(),
        period, start, bytes);
    return launched("select_bytes");
}

// ---- For training steps -------------------------------------------------------------------------
static __global__ void bag_of_kernel(int64_t *bag_of, const int64_t *offsets, size_t bags) {
    size_t lane = threadIdx.x % 32, count = thread_count() / 32;
    for (size_t bag = thread_index() / 32; bag < bags; bag += count) {
        auto first = (size_t)(offsets[bag] - offsets[0]),
             end = (size_t)(offsets[bag + 1] - offsets[0]);
        for (size_t k = first + lane; k < end; k += 32) {
            bag_of[k] = (int64_t)bag;
        }
    }
}

int ls_kernel_bag_of_cuda(int64_t *bag_of, const int64_t *offsets, size_t bags,
                          ls_cuda_stream stream) {
    if (bags == 0) {
        return LS_OK;
    }
    bag_of_kernel<<<blocks_for(bags, block_threads / 32), block_threads, 0, (cudaStream_t)stream>>>(
        bag_of, offsets, bags);
    return launched("bag_of");
}
