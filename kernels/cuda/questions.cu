// Tests of arrays on a GPU: whether one holds a NaN or an infinity, whether two are equal.
#include "kernels/cuda/device.cuh"

using namespace ls;

// A word that kernels set where the answer is yes.
class flag {
  public:
    explicit flag(cudaStream_t on) : stream(on), word(on) {
    }
    int clear() {
        LS_TRY(word.alloc(sizeof(unsigned)));
        return check(cudaMemsetAsync(word.as<void>(), 0, sizeof(unsigned), stream), "a question");
    }
    unsigned *at() const {
        return word.as<unsigned>();
    }
    int read(bool *out) const {
        unsigned found = 0;
        LS_TRY(check(cudaMemcpyAsync(&found, at(), sizeof found, cudaMemcpyDeviceToHost, stream),
                     "a question"));
        LS_TRY(check(cudaStreamSynchronize(stream), "a question"));
        *out = found != 0;
        return LS_OK;
    }

  private:
    cudaStream_t stream;
    scratch word;
};

// Enough for the whole GPU, with more than one word for each thread of large arrays.
static unsigned blocks_asking(size_t words) {
    return blocks_for(words, block_threads * 16);
}

// Words that are, sign apart, at least `least`.
template <class W>
__global__ void special_kernel(unsigned *any, const W *data, W least, size_t count) {
    const W rest = (W)((W) ~(W)0 >> 1);
    bool found = false;
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        found = found || (W)(data[i] & rest) >= least;
    }
    if (found) {
        *any = 1;
    }
}

template <class W>
static int any_from(unsigned *any, const void *data, uint64_t least, size_t count,
                    cudaStream_t stream) {
    special_kernel<<<blocks_asking(count), block_threads, 0, stream>>>(any, (const W *)data,
                                                                       (W)least, count);
    return launched("any_special");
}

int ls_kernel_any_special_cuda(bool *out, const void *data, size_t count, ls_dtype dtype,
                               ls_cuda_stream on) {
    LS_ASSERT(out != nullptr && (count == 0 || data != nullptr));
    *out = false;
    if (count == 0 || !ls_dtype_is_float(dtype)) {
        return LS_OK;
    }
    cudaStream_t stream = (cudaStream_t)on;
    flag any(stream);
    LS_TRY(any.clear());
    uint64_t least = ls_dtype_special_bits(dtype);
    switch (ls_dtype_bytes(dtype)) {
    case 1:
        LS_TRY(any_from<uint8_t>(any.at(), data, least, count, stream));
        break;
    case 2:
        LS_TRY(any_from<uint16_t>(any.at(), data, least, count, stream));
        break;
    case 4:
        LS_TRY(any_from<uint32_t>(any.at(), data, least, count, stream));
        break;
    default:
        LS_TRY(any_from<uint64_t>(any.at(), data, least, count, stream));
    }
    return any.read(out);
}

template <class W>
__global__ void differ_kernel(unsigned *any, const W *a, const W *b, size_t count) {
    bool found = false;
    for (size_t i = thread_index(); i < count; i += thread_count()) {
        found = found || a[i] != b[i];
    }
    if (found) {
        *any = 1;
    }
}

int ls_kernel_equal_cuda(bool *out, const void *a, const void *b, size_t bytes, ls_cuda_stream on) {
    LS_ASSERT(out != nullptr && (bytes == 0 || (a != nullptr && b != nullptr)));
    *out = true;
    if (bytes == 0) {
        return LS_OK;
    }
    cudaStream_t stream = (cudaStream_t)on;
    flag differ(stream);
    LS_TRY(differ.clear());
    if (((uintptr_t)a | (uintptr_t)b | bytes) % sizeof(uint64_t) == 0) {
        size_t words = bytes / sizeof(uint64_t);
        differ_kernel<<<blocks_asking(words), block_threads, 0, stream>>>(
            differ.at(), (const uint64_t *)a, (const uint64_t *)b, words);
    } else {
        differ_kernel<<<blocks_asking(bytes), block_threads, 0, stream>>>(
            differ.at(), (const uint8_t *)a, (const uint8_t *)b, bytes);
    }
    LS_TRY(launched("equal"));
    bool any = false;
    LS_TRY(differ.read(&any));
    *out = !any;
    return LS_OK;
}
