// Quantised rows on a GPU, to f32: a warp for each row. Their lookup is in lookup.cu.
#include "kernels/cuda/quantise.cuh"

using namespace ls;

static __global__ void dequantise_kernel(float *out, const unsigned char *in,
                                         const __grid_constant__ ls_row_places p, size_t rows,
                                         size_t dim) {
    unsigned lane = threadIdx.x % 32;
    for (size_t row = thread_index() / 32; row < rows; row += thread_count() / 32) {
        for (size_t d = lane; d < dim; d += 32) {
            out[row * dim + d] = dequantise(in + row * p.bytes, p, d);
        }
    }
}

int ls_kernel_dequantise_rows_cuda(float *out, const void *in, const ls_row_format *format,
                                   size_t rows, size_t dim, ls_cuda_stream stream) {
    ls_row_places p = ls_row__places(format, dim);
    if (rows == 0 || dim == 0) {
        return LS_OK;
    }
    dequantise_kernel<<<blocks_for(rows, block_threads / 32), block_threads, 0,
                        (cudaStream_t)stream>>>(out, (const unsigned char *)in, p, rows, dim);
    return launched("dequantise_rows");
}
