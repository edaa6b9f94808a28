// One element as a number: between the narrow floating-point types, their bits and double.
#pragma once

#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

// Round to nearest even; NaN stays NaN (quiet). f8e4m3 (finite, no infinity) saturates to +-448 and
// f8e5m2 to +-57344 as CUDA's __NV_SATFINITE does; NaN stays NaN.
float ls_f16_to_f32(uint16_t bits);
uint16_t ls_f32_to_f16(float value);
uint16_t ls_f64_to_f16(double value);  // one rounding, not two
float ls_bf16_to_f32(uint16_t bits);
uint16_t ls_f32_to_bf16(float value);
uint16_t ls_f64_to_bf16(double value);    // one rounding
uint16_t ls_f8e4m3_to_f16(uint8_t bits);  // exact
uint16_t ls_f8e5m2_to_f16(uint8_t bits);  // exact
uint8_t ls_f16_to_f8e4m3(uint16_t bits);
uint8_t ls_f16_to_f8e5m2(uint16_t bits);

// Converts one element to a double (integers beyond 2^53 round; a NaN keeps its sign and every bit
// of its payload, signalling ones too) and back (floats: one rounding, saturating only for f8;
// integers: truncated toward zero and clamped to the type's range, NaN gives 0).
LS_API_BACKENDS double ls_element_to_f64(const void *element, ls_dtype dtype);
LS_API_BACKENDS void ls_element_from_f64(void *element, ls_dtype dtype, double value);

#ifdef __cplusplus
}
#endif
