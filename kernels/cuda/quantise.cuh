// Quantised rows as the kernels of this folder read them.
#ifndef LS_KERNELS_CUDA_QUANTISE_CUH
#define LS_KERNELS_CUDA_QUANTISE_CUH

#include "kernels/cpu/quantise.h"
#include "kernels/cuda/device.cuh"

namespace ls {

// Rows are unaligned: values of several bytes are assembled from bytes.
__device__ inline uint16_t load_u16(const unsigned char *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}
__device__ inline uint32_t load_u32(const unsigned char *at) {
    return (uint32_t)load_u16(at) | (uint32_t)load_u16(at + 2) << 16;
}

__device__ inline float load_scale(const unsigned char *at, bool is_f32, int which) {
    return is_f32 ? __uint_as_float(load_u32(at + 4 * which))
                  : __half2float(__ushort_as_half(load_u16(at + 2 * which)));
}

// Element d of a row of floats.
template <class T> __device__ float load_float(const unsigned char *row, size_t d) {
    T x;
    memcpy(&x, row + d * sizeof(T), sizeof(T));
    return element<T>::load(x);
}

// Element d of a row.
__device__ inline float dequantise(const unsigned char *row, const ls_row_places &p, size_t d) {
    switch (p.dtype) {
#define LS_LOAD_FLOAT(name, ...)                                                                   \
    case LS_##name:                                                                                \
        return load_float<of_dtype<LS_##name>::type>(row, d);
        LS_DTYPE_NARROW_MAP(LS_LOAD_FLOAT)
#undef LS_LOAD_FLOAT
    default:
        break;
    }
    size_t bit = d * (size_t)p.bits;
    unsigned q = (unsigned)row[p.codes + bit / 8] >> (bit % 8) & ((1u << p.bits) - 1u);
    const unsigned char *scales = row + p.scales;
    return __fmaf_rn((float)q, load_scale(scales, p.scale_f32, 0),
                     load_scale(scales, p.scale_f32, 1));
}

}  // namespace ls

#endif
