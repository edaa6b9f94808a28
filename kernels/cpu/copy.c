// Fill and copy.
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels/cpu/bits.h"
#include "kernels/kernels.h"

void ls_kernel_fill(void *out, ls_dtype dtype, const void *value, size_t count) {
    LS_ASSERT(count == 0 || (out != NULL && value != NULL));
    size_t bytes = ls_dtype_bytes(dtype);
    if (count == 0) {
        return;
    }
    switch (bytes) {
    case 1:
        memset(out, *(const any_u8 *)value, count);
        return;
    case 2: {
        uint16_t element = *(const any_u16 *)value;
        for (size_t i = 0; i < count; i++) {
            ((any_u16 *)out)[i] = element;
        }
        return;
    }
    case 4: {
        uint32_t element = *(const any_u32 *)value;
        for (size_t i = 0; i < count; i++) {
            ((any_u32 *)out)[i] = element;
        }
        return;
    }
    default: {
        LS_ASSERT(bytes == 8);
        uint64_t element = *(const any_u64 *)value;
        for (size_t i = 0; i < count; i++) {
            ((any_u64 *)out)[i] = element;
        }
    }
    }
}

void ls_kernel_copy(void *out, const void *in, size_t bytes) {
    LS_ASSERT(bytes == 0 || (out != NULL && in != NULL));
    if (bytes > 0 && out != in) {
        memcpy(out, in, bytes);
    }
}

void ls_kernel_copy_streamed(void *out, const void *in, size_t bytes) {
    LS_ASSERT(bytes == 0 || (out != NULL && in != NULL));
    if (bytes == 0 || out == in) {
        return;
    }
#if defined(__SSE2__)
    unsigned char *to = out;
    const unsigned char *from = in;
    size_t head = (size_t)(-(uintptr_t)to & 15u);
    head = head < bytes ? head : bytes;
    memcpy(to, from, head);
    size_t i = head;
    for (; i + 64 <= bytes; i += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + i + 48));
        _mm_stream_si128((__m128i *)(void *)(to + i), a);
        _mm_stream_si128((__m128i *)(void *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + i + 48), d);
    }
    memcpy(to + i, from + i, bytes - i);
    _mm_sfence();
#else
    memcpy(out, in, bytes);
#endif
}

void ls_kernel_copy_2d(void *out, size_t out_stride_bytes, const void *in, size_t in_stride_bytes,
                       size_t row_bytes, size_t rows) {
    LS_ASSERT(rows <= 1 || row_bytes <= out_stride_bytes);
    LS_ASSERT(rows == 0 || row_bytes == 0 || (out != NULL && in != NULL));
    if (rows == 0 || row_bytes == 0) {
        return;
    }
    if (row_bytes == out_stride_bytes && row_bytes == in_stride_bytes) {
        ls_kernel_copy(out, in, row_bytes * rows);
        return;
    }
    for (size_t row = 0; row < rows; row++) {
        ls_kernel_copy((char *)out + row * out_stride_bytes,
                       (const char *)in + row * in_stride_bytes, row_bytes);
    }
}

void ls_kernel_select_bytes(void *restrict accumulator, const void *restrict other,
                            const unsigned char *mask, size_t period, size_t start, size_t bytes) {
    LS_ASSERT(period > 0 && (bytes == 0 || (accumulator != NULL && other != NULL && mask != NULL)));
    unsigned char *to = accumulator;
    const unsigned char *from = other;
    for (size_t at = 0; at < bytes;) {
        size_t phase = (start + at) % period;
        size_t length = period - phase;
        length = length < bytes - at ? length : bytes - at;
        const unsigned char *keep = mask + phase;
        for (size_t i = 0; i < length; i++) {
            unsigned char kept = to[at + i] & keep[i];
            to[at + i] = kept | (unsigned char)(from[at + i] & ~keep[i]);
        }
        at += length;
    }
}
