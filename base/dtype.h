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

// name, value, text, bytes, class (i: signed integer, u: unsigned, f: float)
#define LS_DTYPE_MAP(X)                                                                            \
    X(LS_I8, 0, "i8", 1, 'i')                                                                      \
    X(LS_U8, 1, "u8", 1, 'u')                                                                      \
    X(LS_I32, 2, "i32", 4, 'i')                                                                    \
    X(LS_U32, 3, "u32", 4, 'u')                                                                    \
    X(LS_I64, 4, "i64", 8, 'i')                                                                    \
    X(LS_U64, 5, "u64", 8, 'u')                                                                    \
    X(LS_F16, 6, "f16", 2, 'f')                                                                    \
    X(LS_F32, 7, "f32", 4, 'f')                                                                    \
    X(LS_F64, 8, "f64", 8, 'f')                                                                    \
    X(LS_BF16, 9, "bf16", 2, 'f')                                                                  \
    X(LS_F8E4M3, 10, "f8e4m3", 1, 'f')                                                             \
    X(LS_F8E5M2, 11, "f8e5m2", 1, 'f')

typedef enum ls_dtype {
#define LS_DTYPE_ENUM(name, value, text, bytes, class_) name = value,
    LS_DTYPE_MAP(LS_DTYPE_ENUM)
#undef LS_DTYPE_ENUM
        LS_DTYPE_COUNT
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

LS_API bool ls_dtype_valid(int dtype);
LS_API const char *ls_dtype_name(ls_dtype dtype);  // "f32"; asserts that dtype is valid
LS_API size_t ls_dtype_bytes(ls_dtype dtype);
LS_API bool ls_dtype_is_float(ls_dtype dtype);
LS_API bool ls_dtype_is_signed(ls_dtype dtype);              // floats and signed integers
LS_API int ls_dtype_parse(ls_dtype *out, const char *text);  // LS_ERR_NOT_FOUND

LS_API bool ls_op_valid(int op);
LS_API const char *ls_op_name(ls_op op);
LS_API int ls_op_parse(ls_op *out, const char *text);
// Whether an operation is defined on a type: band, bor, bxor on integers alone.
LS_API bool ls_op_supports(ls_op op, ls_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
