// MPI's names of lockstep's types and operations. Types that MPI lacks (half and quarter precision)
// are types of bytes with operations that fold by lockstep's kernels; and so are the largest and
// least of unsigned integers, which MPICH 4.0 compares as if they had a sign, and of floats, where
// MPI does not define the result of a NaN or of a zero's sign. MPICH's depends on the order of the
// ranks.
#include <stdint.h>

#include "backends/mpi/mpi_internal.h"
#include "kernels/kernels.h"

static MPI_Datatype narrow_types[LS_DTYPE_COUNT];  // f16, bf16, f8: made by types_open
static MPI_Op own_ops[LS_OP_COUNT];                // by lockstep's kernels

static MPI_Datatype type_of(ls_dtype dtype) {
    switch (dtype) {
#define TYPE(name, value, text, bytes, class_, precision, subnormal, max, top, npy, safetensors,   \
             torch, mpi)                                                                           \
    case LS_##name:                                                                                \
        return mpi;
        LS_DTYPE_MAP(TYPE)
#undef TYPE
    case LS_DTYPE_COUNT:
        break;
    }
    LS_ASSERT(!"an element type");
    return MPI_DATATYPE_NULL;
}

static bool is_narrow(ls_dtype dtype) {
    return type_of(dtype) == MPI_DATATYPE_NULL;
}

static void fold(void *in, void *inout, const int *length, const MPI_Datatype *type, ls_op op) {
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
        if (ls_mpi__type((ls_dtype)dtype) == *type) {
            ls_kernel_accumulate(inout, in, (ls_dtype)dtype, op, (size_t)*length);
            return;
        }
    }
    LS_ASSERT(!"an operation of ours met a type that is not");
}

static void fold_sum(void *in, void *inout, int *length, MPI_Datatype *type) {
    fold(in, inout, length, type, LS_SUM);
}

static void fold_prod(void *in, void *inout, int *length, MPI_Datatype *type) {
    fold(in, inout, length, type, LS_PROD);
}

static void fold_max(void *in, void *inout, int *length, MPI_Datatype *type) {
    fold(in, inout, length, type, LS_MAX);
}

static void fold_min(void *in, void *inout, int *length, MPI_Datatype *type) {
    fold(in, inout, length, type, LS_MIN);
}

int ls_mpi__types_open(void) {
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
        narrow_types[dtype] = MPI_DATATYPE_NULL;
        if (is_narrow((ls_dtype)dtype)) {
            int bytes = (int)ls_dtype_bytes((ls_dtype)dtype);
            LS_MPI_TRY(MPI_Type_contiguous(bytes, MPI_BYTE, &narrow_types[dtype]),
                       "MPI_Type_contiguous");
            LS_MPI_TRY(MPI_Type_commit(&narrow_types[dtype]), "MPI_Type_commit");
        }
    }
    static const struct {
        ls_op op;
        MPI_User_function *fold;
    } ops[] = {{LS_SUM, fold_sum}, {LS_PROD, fold_prod}, {LS_MAX, fold_max}, {LS_MIN, fold_min}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        LS_MPI_TRY(MPI_Op_create(ops[i].fold, 1, &own_ops[ops[i].op]), "MPI_Op_create");
    }
    return LS_OK;
}

void ls_mpi__types_close(void) {
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
        if (is_narrow((ls_dtype)dtype)) {
            (void)MPI_Type_free(&narrow_types[dtype]);
        }
    }
    for (int op = LS_SUM; op <= LS_MIN; op++) {
        (void)MPI_Op_free(&own_ops[op]);
    }
}

MPI_Datatype ls_mpi__type(ls_dtype dtype) {
    return is_narrow(dtype) ? narrow_types[dtype] : type_of(dtype);
}

MPI_Op ls_mpi__op(ls_op op, ls_dtype dtype) {
    if (op == LS_AVG || op == LS_PREMUL_SUM) {
        op = LS_SUM;
    }
    bool extreme = op == LS_MAX || op == LS_MIN;
    bool integer = ls_dtype_is_signed(dtype) && !ls_dtype_is_float(dtype);
    if (is_narrow(dtype) || (extreme && !integer)) {
        LS_ASSERT(op <= LS_MIN);
        return own_ops[op];
    }
    switch (op) {
    case LS_SUM:
        return MPI_SUM;
    case LS_PROD:
        return MPI_PROD;
    case LS_MAX:
        return MPI_MAX;
    case LS_MIN:
        return MPI_MIN;
    case LS_BAND:
        return MPI_BAND;
    case LS_BOR:
        return MPI_BOR;
    case LS_BXOR:
        return MPI_BXOR;
    default:
        LS_ASSERT(!"no such op");
        return MPI_OP_NULL;
    }
}

#define DIVIDE(type)                                                                               \
    do {                                                                                           \
        type *values = elements;                                                                   \
        for (size_t i = 0; i < count; i++) {                                                       \
            values[i] = (type)(values[i] / (type)divisor);                                         \
        }                                                                                          \
    } while (0)

// Eight bits cannot hold every divisor, so they are widened; the quotient fits again.
#define DIVIDE_NARROW(type)                                                                        \
    do {                                                                                           \
        type *values = elements;                                                                   \
        for (size_t i = 0; i < count; i++) {                                                       \
            values[i] = (type)((int)values[i] / divisor);                                          \
        }                                                                                          \
    } while (0)

void ls_mpi__divide(void *elements, ls_dtype dtype, int divisor, size_t count) {
    switch (dtype) {
    case LS_I8:
        DIVIDE_NARROW(int8_t);
        return;
    case LS_U8:
        DIVIDE_NARROW(uint8_t);
        return;
    case LS_I32:
        DIVIDE(int32_t);
        return;
    case LS_U32:
        DIVIDE(uint32_t);
        return;
    case LS_I64:
        DIVIDE(int64_t);
        return;
    case LS_U64:
        DIVIDE(uint64_t);
        return;
    case LS_F32:
        DIVIDE(float);
        return;
    case LS_F64:
        DIVIDE(double);
        return;
    default:
        break;
    }
    size_t bytes = ls_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++) {
        unsigned char *element = (unsigned char *)elements + i * bytes;
        ls_element_from_f64(element, dtype, ls_element_to_f64(element, dtype) / divisor);
    }
}
