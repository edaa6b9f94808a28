// One element as a number: between the narrow floating-point types, their bits and double.
#pragma once

#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

// Converts one element to a double (integers beyond 2^53 round; a NaN keeps its sign and every bit
// of its payload, signalling ones too) and back (floats: one rounding, saturating only for f8;
// integers: truncated toward zero and clamped to the type's range, NaN gives 0).
LS_API_BACKENDS double ls_element_to_f64(const void *element, ls_dtype dtype);
LS_API_BACKENDS void ls_element_from_f64(void *element, ls_dtype dtype, double value);

#ifdef __cplusplus
}
#endif
