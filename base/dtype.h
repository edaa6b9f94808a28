// Element types and reduce operations: their names, sizes and classes. The numbers are NCCL's
// (ncclDataType_t, ncclRedOp_t of 2.28) where NCCL has the type or operation.
#ifndef LS_BASE_DTYPE_H
#define LS_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// One row for each element type; all facts that differ by type come from here. name, value, text
// (and the suffix of functions for the type), bytes, class (i: signed integer, u: unsigned, f:
// float, q: of a quarter's width, computed through f16, saturating). Floats: precision (bits with
// the hidden one), exponent of the smallest subnormal, largest finite value, bits of the largest
// value that is no NaN (infinity if there is one). Then the names in .npy (NULL: NumPy has none),
// in .safetensors, in torch and in MPI (MPI_DATATYPE_NULL: it has none, and lockstep folds by its
// own kernels).
#define LS_DTYPE_INTEGER_MAP(X)                                                                    \
    X(I8, 0, i8, 1, 'i', 0, 0, 0, 0, "i1", "I8", "Char", MPI_INT8_T)                               \
    X(U8, 1, u8, 1, 'u', 0, 0, 0, 0, "u1", "U8", "Byte", MPI_UINT8_T)                              \
    X(I32, 2, i32, 4, 'i', 0, 0, 0, 0, "i4", "I32", "Int", MPI_INT32_T)                            \
    X(U32, 3, u32, 4, 'u', 0, 0, 0, 0, "u4", "U32", "UInt32", MPI_UINT32_T)                        \
    X(I64, 4, i64, 8, 'i', 0, 0, 0, 0, "i8", "I64", "Long", MPI_INT64_T)                           \
    X(U64, 5, u64, 8, 'u', 0, 0, 0, 0, "u8", "U64", "UInt64", MPI_UINT64_T)
#define LS_DTYPE_WIDE_MAP(X)                                                                       \
    X(F32, 7, f32, 4, 'f', 24, -149, 0x1.fffffep127, 0x7F800000, "f4", "F32", "Float", MPI_FLOAT)  \
    X(F64, 8, f64, 8, 'f', 53, -1074, 0x1.fffffffffffffp1023, 0x7FF0000000000000, "f8", "F64",     \
      "Double", MPI_DOUBLE)
// Floats of at most two bytes, which the CPU has no arithmetic for: kernels/cpu/bits.h decodes and
// encodes them.
#define LS_DTYPE_NARROW_MAP(X)                                                                     \
    X(F16, 6, f16, 2, 'f', 11, -24, 65504.0, 0x7C00, "f2", "F16", "Half", MPI_DATATYPE_NULL)       \
    X(BF16, 9, bf16, 2, 'f', 8, -133, 0x1.fep127, 0x7F80, NULL, "BF16", "BFloat16",                \
      MPI_DATATYPE_NULL)                                                                           \
    X(F8E4M3, 10, f8e4m3, 1, 'q', 4, -9, 448.0, 0x7E, NULL, "F8_E4M3", "Float8_e4m3fn",            \
      MPI_DATATYPE_NULL)                                                                           \
    X(F8E5M2, 11, f8e5m2, 1, 'q', 3, -16, 57344.0, 0x7C, NULL, "F8_E5M2", "Float8_e5m2",           \
      MPI_DATATYPE_NULL)

#define LS_DTYPE_FLOAT_MAP(X)                                                                      \
    LS_DTYPE_WIDE_MAP(X)                                                                           \
    LS_DTYPE_NARROW_MAP(X)
#define LS_DTYPE_MAP(X)                                                                            \
    LS_DTYPE_INTEGER_MAP(X)                                                                        \
    LS_DTYPE_FLOAT_MAP(X)

typedef enum ls_dtype {
#define LS_DTYPE_ENUM(name, value, ...) LS_##name = value,
    LS_DTYPE_MAP(LS_DTYPE_ENUM)
#undef LS_DTYPE_ENUM
// One more than the largest.
#define LS_DTYPE_ONE(...) +1
        LS_DTYPE_COUNT = LS_DTYPE_MAP(LS_DTYPE_ONE),
#undef LS_DTYPE_ONE
    // A number of the field of kernels/field.h, in the place of every float of a scenario that is
    // proved. No file, call of another system or scenario has it.
    LS_FIELD = LS_DTYPE_COUNT
} ls_dtype;

#define LS_OP_MAP(X)                                                                               \
    X(LS_SUM, 0, "sum")                                                                            \
    X(LS_PROD, 1, "prod")                                                                          \
    X(LS_MAX, 2, "max")                                                                            \
    X(LS_MIN, 3, "min")                                                                            \
    X(LS_AVG, 4, "avg")                                                                            \
    X(LS_PREMUL_SUM, 5, "premul_sum")                                                              \
    X(LS_BAND, 6, "band")                                                                          \
    X(LS_BOR, 7, "bor")                                                                            \
    X(LS_BXOR, 8, "bxor")

typedef enum ls_op {
#define LS_OP_ENUM(name, value, text) name = value,
    LS_OP_MAP(LS_OP_ENUM)
#undef LS_OP_ENUM
        LS_OP_COUNT
} ls_op;

bool ls_dtype_valid(int dtype);
LS_API const char *ls_dtype_name(ls_dtype dtype);  // "f32"; asserts that dtype is valid
LS_API size_t ls_dtype_bytes(ls_dtype dtype);
LS_API_BACKENDS bool ls_dtype_is_float(ls_dtype dtype);
LS_API_BACKENDS bool ls_dtype_is_signed(ls_dtype dtype);  // floats and signed integers
int ls_dtype_parse(ls_dtype *out, const char *text);      // LS_ERR_NOT_FOUND
const char *ls_dtype_name_npy(ls_dtype dtype);            // "f4", without byte order; or NULL
const char *ls_dtype_name_safetensors(ls_dtype dtype);
const char *ls_dtype_name_torch(ls_dtype dtype);  // of a ScalarType: "BFloat16"

// The range of a float type; all zero of an integer.
typedef struct ls_float_format {
    int precision;           // bits of the significand, the hidden one with them
    int subnormal_exponent;  // 2 to this is the smallest value above zero
    double max;              // the largest finite value
    uint64_t top_bits;       // of infinity, or of max where there is none: bits above are NaNs
    bool infinite;           // has infinities
    bool saturates;          // a result beyond max becomes max; computed through f16
} ls_float_format;
ls_float_format ls_dtype_format(ls_dtype dtype);
// The least bits, sign apart, of what is no finite number.
uint64_t ls_dtype_special_bits(ls_dtype dtype);

bool ls_op_valid(int op);
LS_API_BACKENDS const char *ls_op_name(ls_op op);
int ls_op_parse(ls_op *out, const char *text);
// Whether an operation is defined on a type: band, bor, bxor only on integers.
bool ls_op_supports(ls_op op, ls_dtype dtype);
// The neutral element of an operation: 0, 1, the least value for max (an infinity where there is
// one), ...; of an average, as of a sum, 0.
LS_API_BACKENDS void ls_op_neutral(void *element, ls_op op, ls_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
