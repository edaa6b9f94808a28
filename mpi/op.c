// Reduce operations: MPI's own on their types, and operations of the program.
#include <complex.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "mpi/internal.h"

#define NUMBER(handle) ((handle)&0xff)

static const char *const names[] = {"MPI_OP_NULL", "MPI_MAX",     "MPI_MIN",  "MPI_SUM",
                                    "MPI_PROD",    "MPI_LAND",    "MPI_BAND", "MPI_LOR",
                                    "MPI_BOR",     "MPI_LXOR",    "MPI_BXOR", "MPI_MAXLOC",
                                    "MPI_MINLOC",  "MPI_REPLACE", "MPI_NO_OP"};
#define OP_COUNT ((int)(sizeof names / sizeof names[0]))
static mpi_op constants[OP_COUNT];

void ls_mpi__ops_make(void) {
    for (int n = 1; n < OP_COUNT; n++) {
        // MPI_REPLACE and MPI_NO_OP keep one of two values and do not commute.
        constants[n] = (mpi_op){
            .handle = 0x20000000 + n, .constant = names[n], .commutes = n < NUMBER(MPI_REPLACE)};
    }
}

void ls_mpi__ops_open(mpi_rank *me) {
    for (int n = 1; n < OP_COUNT; n++) {
        ls_mpi__handle_constant(me, MPI_KIND_OP, n, &constants[n]);
    }
}

mpi_op *ls_mpi__op_of(mpi_rank *me, MPI_Op handle) {
    return ls_mpi__handle_get(me, MPI_KIND_OP, handle, NULL);
}

const char *ls_mpi__op_name(const mpi_op *op) {
    return op->constant != NULL ? op->constant : "a user-defined operation";
}

// ---- Which types --------------------------------------------------------------------------------
typedef enum family { INTEGER, FLOATING, COMPLEX, LOGICAL, BYTE, PAIR, OTHER } family;

static family family_of(int handle) {
    switch (handle) {
    case MPI_FLOAT:
    case MPI_DOUBLE:
    case MPI_LONG_DOUBLE:
        return FLOATING;
    case MPI_C_FLOAT_COMPLEX:
    case MPI_C_DOUBLE_COMPLEX:
    case MPI_C_LONG_DOUBLE_COMPLEX:
        return COMPLEX;
    case MPI_C_BOOL:
        return LOGICAL;
    case MPI_BYTE:
        return BYTE;
    case MPI_FLOAT_INT:
    case MPI_DOUBLE_INT:
    case MPI_LONG_INT:
    case MPI_2INT:
    case MPI_SHORT_INT:
    case MPI_LONG_DOUBLE_INT:
        return PAIR;
    case MPI_CHAR:
    case MPI_WCHAR:
    case MPI_PACKED:
        return OTHER;
    default:
        return INTEGER;
    }
}

static bool op_allows(const mpi_op *op, const mpi_type *type) {
    if (op->constant == NULL || op->handle == MPI_REPLACE || op->handle == MPI_NO_OP) {
        return true;
    }
    if (type->constant == NULL || type->unit == NULL) {
        return false;
    }
    family f = family_of(type->unit->handle);
    switch (op->handle) {
    case MPI_MAX:
    case MPI_MIN:
        return f == INTEGER || f == FLOATING;
    case MPI_SUM:
    case MPI_PROD:
        return f == INTEGER || f == FLOATING || f == COMPLEX;
    case MPI_LAND:
    case MPI_LOR:
    case MPI_LXOR:
        return f == INTEGER || f == LOGICAL;
    case MPI_BAND:
    case MPI_BOR:
    case MPI_BXOR:
        return f == INTEGER || f == BYTE;
    default:
        return f == PAIR;
    }
}

int ls_mpi__op_arg(mpi_op **out, mpi_where at, mpi_comm *comm, MPI_Op handle,
                   const mpi_type *type) {
    const char *why;
    *out = ls_mpi__handle_get(at.me, MPI_KIND_OP, handle, &why);
    if (*out == NULL) {
        return ls_mpi__error(at.me, comm, MPI_ERR_OP, at.function, "the operation is %s", why);
    }
    if (type != NULL && !op_allows(*out, type)) {
        return ls_mpi__error(at.me, comm, MPI_ERR_OP, at.function,
                             "%s is not defined for the datatype %s", ls_mpi__op_name(*out),
                             ls_mpi__type_name(type));
    }
    return MPI_SUCCESS;
}

int ls_mpi__reduce_op_arg(mpi_where at, mpi_comm *comm, const mpi_op *op) {
    return op->handle != MPI_REPLACE && op->handle != MPI_NO_OP
               ? MPI_SUCCESS
               : ls_mpi__error(at.me, comm, MPI_ERR_OP, at.function,
                               "%s is for accumulates on windows only", ls_mpi__op_name(op));
}

// ---- The math: inout = in op inout --------------------------------------------------------------
#define LOOP(statement)                                                                            \
    for (size_t i = 0; i < n; i++) {                                                               \
        statement;                                                                                 \
    }                                                                                              \
    break
#define ARITHMETIC(T)                                                                              \
    case MPI_SUM:                                                                                  \
        LOOP(b[i] = (T)(a[i] + b[i]));                                                             \
    case MPI_PROD:                                                                                 \
        LOOP(b[i] = (T)(a[i] * b[i]))
#define ORDERED(T)                                                                                 \
    case MPI_MAX:                                                                                  \
        LOOP(b[i] = a[i] > b[i] ? a[i] : b[i]);                                                    \
    case MPI_MIN:                                                                                  \
        LOOP(b[i] = a[i] < b[i] ? a[i] : b[i])
#define LOGICALS(T)                                                                                \
    case MPI_LAND:                                                                                 \
        LOOP(b[i] = (T)(a[i] && b[i]));                                                            \
    case MPI_LOR:                                                                                  \
        LOOP(b[i] = (T)(a[i] || b[i]));                                                            \
    case MPI_LXOR:                                                                                 \
        LOOP(b[i] = (T)(!a[i] != !b[i]))
#define BITS(T)                                                                                    \
    case MPI_BAND:                                                                                 \
        LOOP(b[i] = (T)(a[i] & b[i]));                                                             \
    case MPI_BOR:                                                                                  \
        LOOP(b[i] = (T)(a[i] | b[i]));                                                             \
    case MPI_BXOR:                                                                                 \
        LOOP(b[i] = (T)(a[i] ^ b[i]))
#define FUNCTION(name, T, ...)                                                                     \
    static void name(int op, const void *in, void *inout, size_t n) {                              \
        const T *a = in;                                                                           \
        T *b = inout;                                                                              \
        switch (op) {                                                                              \
            __VA_ARGS__;                                                                           \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }
// Signed integers wrap, as on the machine.
#define INTEGERS(name, T, W) FUNCTION(name, T, WRAPPED(T, W); ORDERED(T); LOGICALS(T); BITS(T))
#define WRAPPED(T, W)                                                                              \
    case MPI_SUM:                                                                                  \
        LOOP(b[i] = (T)((W)a[i] + (W)b[i]));                                                       \
    case MPI_PROD:                                                                                 \
        LOOP(b[i] = (T)((W)a[i] * (W)b[i]))
INTEGERS(int8, int8_t, uint32_t)
INTEGERS(uint8, uint8_t, uint32_t)
INTEGERS(int16, int16_t, uint32_t)
INTEGERS(uint16, uint16_t, uint32_t)
INTEGERS(int32, int32_t, uint32_t)
INTEGERS(uint32, uint32_t, uint32_t)
INTEGERS(int64, int64_t, uint64_t)
INTEGERS(uint64, uint64_t, uint64_t)
FUNCTION(float32, float, ARITHMETIC(float); ORDERED(float))
FUNCTION(float64, double, ARITHMETIC(double); ORDERED(double))
FUNCTION(float80, long double, ARITHMETIC(long double); ORDERED(long double))
FUNCTION(complex32, float complex, ARITHMETIC(float complex))
FUNCTION(complex64, double complex, ARITHMETIC(double complex))
FUNCTION(complex80, long double complex, ARITHMETIC(long double complex))
FUNCTION(logical, bool, LOGICALS(bool))

#define PAIRS(name, T)                                                                             \
    static void name(int op, const void *in, void *inout, size_t n) {                              \
        const struct {                                                                             \
            T value;                                                                               \
            int index;                                                                             \
        } *a = in;                                                                                 \
        struct {                                                                                   \
            T value;                                                                               \
            int index;                                                                             \
        } *b = inout;                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            bool wins = op == MPI_MAXLOC ? a[i].value > b[i].value : a[i].value < b[i].value;      \
            bool equal = !(a[i].value < b[i].value) && !(a[i].value > b[i].value);                 \
            if (wins || (equal && a[i].index < b[i].index)) {                                      \
                b[i].value = a[i].value;                                                           \
                b[i].index = a[i].index;                                                           \
            }                                                                                      \
        }                                                                                          \
    }
PAIRS(float_int, float)
PAIRS(double_int, double)
PAIRS(long_int, long)
PAIRS(two_int, int)
PAIRS(short_int, short)
PAIRS(long_double_int, long double)

typedef void (*function)(int op, const void *in, void *inout, size_t n);

static function function_of(const mpi_type *type) {
    static const function integers[2][4] = {{int8, int16, int32, int64},
                                            {uint8, uint16, uint32, uint64}};
    switch (type->unit->handle) {
    case MPI_FLOAT:
        return float32;
    case MPI_DOUBLE:
        return float64;
    case MPI_LONG_DOUBLE:
        return float80;
    case MPI_C_FLOAT_COMPLEX:
        return complex32;
    case MPI_C_DOUBLE_COMPLEX:
        return complex64;
    case MPI_C_LONG_DOUBLE_COMPLEX:
        return complex80;
    case MPI_C_BOOL:
        return logical;
    case MPI_FLOAT_INT:
        return float_int;
    case MPI_DOUBLE_INT:
        return double_int;
    case MPI_LONG_INT:
        return long_int;
    case MPI_2INT:
        return two_int;
    case MPI_SHORT_INT:
        return short_int;
    case MPI_LONG_DOUBLE_INT:
        return long_double_int;
    default:
        break;
    }
    bool is_unsigned = false;
    switch (type->unit->handle) {
    case MPI_UNSIGNED_CHAR:
    case MPI_UNSIGNED_SHORT:
    case MPI_UNSIGNED:
    case MPI_UNSIGNED_LONG:
    case MPI_UNSIGNED_LONG_LONG:
    case MPI_UINT8_T:
    case MPI_UINT16_T:
    case MPI_UINT32_T:
    case MPI_UINT64_T:
    case MPI_BYTE:
        is_unsigned = true;
        break;
    default:
        break;
    }
    int log = type->size == 4 ? 2 : 3;
    if (type->size == 1) {
        log = 0;
    } else if (type->size == 2) {
        log = 1;
    }
    return integers[is_unsigned ? 1 : 0][log];
}

void ls_mpi__reduce(const mpi_op *op, const mpi_type *type, const void *in, void *inout,
                    size_t count) {
    if (op->constant == NULL) {
        int n = (int)count;
        MPI_Datatype handle = type->handle;
        op->function((void *)(uintptr_t)in, inout, &n, &handle);
        return;
    }
    if (op->handle == MPI_REPLACE) {
        ls_mpi__copy(inout, count, type, in, count, type);
        return;
    }
    if (op->handle != MPI_NO_OP) {
        function_of(type)(op->handle, in, inout, count);
    }
}

// ---- The functions ------------------------------------------------------------------------------
int MPI_Op_create(MPI_User_function *user, int commute, MPI_Op *op) {
    MPI_ENTER(me);
    if (user == NULL || op == NULL) {
        return ls_mpi__error(me, NULL, MPI_ERR_ARG, __func__, "the %s is NULL",
                             user == NULL ? "function" : "handle argument");
    }
    mpi_op *made = ls_mpi__alloc(sizeof *made);
    *made = (mpi_op){.function = user, .commutes = commute != 0};
    *op = made->handle = ls_mpi__handle_add(me, MPI_KIND_OP, made);
    ls_mpi__handle_slot(me, *op)->function = __func__;
    return MPI_SUCCESS;
}

int MPI_Op_free(MPI_Op *op) {
    MPI_ENTER(me);
    mpi_op *object;
    if (op == NULL) {
        return ls_mpi__error(me, NULL, MPI_ERR_ARG, __func__, "the handle argument is NULL");
    }
    MPI_TRY(ls_mpi__op_arg(&object, (mpi_where){me, __func__}, NULL, *op, NULL));
    if (object->constant != NULL) {
        return ls_mpi__error(me, NULL, MPI_ERR_OP, __func__, "%s cannot be freed",
                             object->constant);
    }
    ls_mpi__handle_free(me, *op);
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}

int MPI_Op_commutative(MPI_Op op, int *commute) {
    MPI_ENTER(me);
    mpi_op *object;
    MPI_TRY(ls_mpi__op_arg(&object, (mpi_where){me, __func__}, NULL, op, NULL));
    *commute = object->commutes ? 1 : 0;
    return MPI_SUCCESS;
}

int MPI_Reduce_local(const void *inbuf, void *inoutbuf, int count, MPI_Datatype type, MPI_Op op) {
    MPI_ENTER(me);
    mpi_where at = {me, __func__};
    mpi_type *of;
    mpi_op *object;
    MPI_TRY(ls_mpi__count_arg(at, NULL, "count", count));
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, true));
    MPI_TRY(ls_mpi__op_arg(&object, at, NULL, op, of));
    MPI_TRY(ls_mpi__reduce_op_arg(at, NULL, object));
    MPI_TRY(ls_mpi__buffer_arg(at, NULL, inbuf, count, of));
    MPI_TRY(ls_mpi__buffer_arg(at, NULL, inoutbuf, count, of));
    if (inbuf == inoutbuf && count > 0) {
        return ls_mpi__error(me, NULL, MPI_ERR_BUFFER, __func__, "both buffers are the same");
    }
    ls_mpi__reduce(object, of, inbuf, inoutbuf, (size_t)count);
    return MPI_SUCCESS;
}
