// Quantised rows on a GPU, from and to f32: a warp for each row. Their lookup is in lookup.cu.
#include "kernels/cuda/quantise.cuh"

using namespace ls;

// ---- From f32 -----------------------------------------------------------------------------------
// The range of a row, on every lane. Lanes 0 to 7 are FBGEMM's: they choose among zeros of both
// signs (kernels/cpu/quantise.c). False: an element is not finite.
static __device__ bool row_range(float *low, float *high, const float *in, size_t dim,
                                 unsigned lane) {
    float least = INFINITY, most = -INFINITY;
    bool finite = true;
    size_t whole = dim / 8 * 8;
    for (size_t d = lane; lane < 8 && d < whole; d += 8) {
        least = least < in[d] ? least : in[d];
        most = most > in[d] ? most : in[d];
    }
    for (size_t d = lane; d < dim; d += 32) {
        finite = finite && isfinite(in[d]);
    }
    *low = INFINITY;
    *high = -INFINITY;
    for (int i = 0; i < 8; i++) {
        float least_of = __shfl_sync(~0u, least, i), most_of = __shfl_sync(~0u, most, i);
        *low = least_of < *low ? least_of : *low;
        *high = most_of > *high ? most_of : *high;
    }
    for (size_t d = whole; d < dim; d++) {
        *low = in[d] < *low ? in[d] : *low;
        *high = in[d] > *high ? in[d] : *high;
    }
    return __all_sync(~0u, finite);
}

// Bytes one by one, low ones first, since rows are unaligned. Taken from 32 bits: nvcc 13.0 loses
// the low byte of a 16-bit value right after a conversion.
static __device__ void store_bytes(unsigned char *at, uint32_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value >> (8 * i) & 0xffu);
    }
}

// The bits of a half, through a register that the compiler does not look into.
static __device__ uint32_t bits_of(__half value) {
    uint32_t bits = __half_as_ushort(value);
    asm volatile("" : "+r"(bits));
    return bits;
}

static __device__ uint32_t bits_of(__nv_bfloat16 value) {
    uint32_t bits = __bfloat16_as_ushort(value);
    asm volatile("" : "+r"(bits));
    return bits;
}

template <class T> static __device__ uint32_t bits_of(T value) {
    static_assert(sizeof value == 1, "a float of 8 bits");
    return *(const unsigned char *)&value;
}

// Byte b of the codes of a row.
static __device__ unsigned char code_byte(const float *in, size_t dim, size_t b, int bits,
                                          float bias, float inverse) {
    int per_byte = 8 / bits, most = (1 << bits) - 1;
    unsigned byte = 0;
    for (int k = 0; k < per_byte; k++) {
        size_t d = b * (size_t)per_byte + (size_t)k;
        if (d < dim) {
            int q = __float2int_rn((in[d] - bias) * inverse);
            q = min(max(q, 0), most);
            byte |= (unsigned)q << (k * bits);
        }
    }
    return (unsigned char)byte;
}

static __device__ bool quantise_row(unsigned char *out, const ls_row_places &p, const float *in,
                                    size_t dim, unsigned lane) {
    float low = 0, high = 0, scale, inverse;
    if (dim > 0 && !row_range(&low, &high, in, dim, lane)) {
        return false;
    }
    if (p.scale_f32) {
        scale = (high - low) / 255.0f;
        inverse = 255.0f / (high - low + 1e-8f);
    } else {
        low = __half2float(__float2half_rn(low));
        scale = __half2float(__float2half_rn((high - low) / (float)((1 << p.bits) - 1)));
        scale = scale == 0.0f ? 1.0f : scale;
        inverse = 1.0f / scale;
    }
    if (!isfinite(low) || !isfinite(scale)) {
        return false;
    }
    if (lane == 0 && p.scale_f32) {
        store_bytes(out + p.scales, __float_as_uint(scale), 4);
        store_bytes(out + p.scales + 4, __float_as_uint(low), 4);
    } else if (lane == 0) {
        store_bytes(out + p.scales, bits_of(__float2half_rn(scale)), 2);
        store_bytes(out + p.scales + 2, bits_of(__float2half_rn(low)), 2);
    }
    size_t packed = (dim + (size_t)(8 / p.bits) - 1) / (size_t)(8 / p.bits);
    for (size_t b = lane; b < packed; b += 32) {
        out[p.codes + b] = code_byte(in, dim, b, p.bits, low, inverse);
    }
    return true;
}

template <class T>
static __device__ void convert_row(unsigned char *out, const float *in, size_t dim, unsigned lane) {
    for (size_t d = lane; d < dim; d += 32) {
        store_bytes(out + d * sizeof(T), bits_of(element<T>::store(in[d])), sizeof(T));
    }
}

static __global__ void quantise_kernel(unsigned char *out, const __grid_constant__ ls_row_places p,
                                       const float *in, size_t in_stride, size_t rows, size_t dim,
                                       unsigned long long *first_bad) {
    unsigned lane = threadIdx.x % 32;
    for (size_t row = thread_index() / 32; row < rows; row += thread_count() / 32) {
        unsigned char *to = out + row * p.bytes;
        const float *from = in + row * in_stride;
        switch (p.dtype) {
#define CONVERT_ROW(name, ...)                                                                     \
    case LS_##name:                                                                                \
        convert_row<of_dtype<LS_##name>::type>(to, from, dim, lane);                               \
        break;
            LS_DTYPE_NARROW_MAP(CONVERT_ROW)
        default:
            if (!quantise_row(to, p, from, dim, lane) && lane == 0) {
                note_bad(first_bad, row);
            }
        }
        for (size_t b = p.used + lane; b < p.bytes; b += 32) {
            to[b] = 0;
        }
    }
}

int ls_kernel_quantise_rows_cuda(void *out, const ls_row_format *format, const float *in,
                                 size_t in_stride, size_t rows, size_t dim, size_t *bad_row,
                                 ls_cuda_stream stream_) {
    auto *stream = (cudaStream_t)stream_;
    ls_row_places p = ls_row__places(format, dim);
    LS_ASSERT(rows <= 1 || in_stride >= dim);
    if (rows == 0) {
        return LS_OK;
    }
    scratch first_bad(stream);
    LS_TRY(begin_bad(first_bad, stream));
    quantise_kernel<<<blocks_for(rows, block_threads / 32), block_threads, 0, stream>>>(
        (unsigned char *)out, p, in, in_stride, rows, dim, first_bad.as<unsigned long long>());
    LS_TRY(launched("quantise_rows"));
    size_t bad = 0;
    LS_TRY(read_bad(&bad, first_bad, stream));
    if (bad >= rows) {
        return LS_OK;
    }
    if (bad_row != nullptr) {
        *bad_row = bad;
    }
    return ls_row__not_quantised(format, bad);
}

// ---- To f32 -------------------------------------------------------------------------------------
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
