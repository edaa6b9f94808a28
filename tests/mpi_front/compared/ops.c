// MPI's operations on each type that supports them: the result of MPI_Reduce_local by element, and
// of MPI_Allreduce over all ranks.
#include <complex.h>
#include <inttypes.h>
#include <stdbool.h>

#include "compared.h"

#define COUNT 9

// Whole numbers whose sums and products are exact in every type; the last is `wide`, with all of an
// integer's upper bits in use.
static const int firsts[COUNT - 1] = {3, -2, 0, 7, 1, 5, -9, 100};
static const int seconds[COUNT - 1] = {-4, 6, 0, 7, 0, 3, 5, 1};

enum { ORDER = 1, MATH = 2, LOGIC = 4, BITS = 8, PLACES = 16, UNSIGNED = 32 };

typedef struct operation {
    const char *name;
    MPI_Op op;
    int kind;
} operation;

typedef struct kind {
    const char *name;
    MPI_Datatype type;
    int kinds;  // of operations
    size_t size;
    void (*set)(void *out, int i, int value, int second);
    void (*print)(const void *in, int i);
} kind;

#define INTEGER(name, T, format, wider)                                                            \
    static void set_##name(void *out, int i, int value, int second) {                              \
        const T wide = (T)((T)1 << (8 * sizeof(T) - 2));                                           \
        ((T *)out)[i] = i < COUNT - 1 ? (T)value : second ? (T)1 : wide;                           \
    }                                                                                              \
    static void print_##name(const void *in, int i) {                                              \
        const T at = ((const T *)in)[i];                                                           \
        printf(" %" format, (wider)at);                                                            \
    }
#define NUMBER(name, T, format, ...)                                                               \
    static void set_##name(void *out, int i, int value, int second) {                              \
        ((T *)out)[i] = (T)(i < COUNT - 1 ? value : second ? 0.5 : 0x1p20);                        \
    }                                                                                              \
    static void print_##name(const void *in, int i) {                                              \
        const T at = ((const T *)in)[i];                                                           \
        printf(format, __VA_ARGS__);                                                               \
    }
// With an imaginary part.
#define COMPLEX(name, T)                                                                           \
    static void set_##name(void *out, int i, int value, int second) {                              \
        ((T *)out)[i] = value + (second ? 2 : i) * I;                                              \
    }                                                                                              \
    static void print_##name(const void *in, int i) {                                              \
        const T at = ((const T *)in)[i];                                                           \
        printf(" %g%+gi", (double)creal((double complex)at), (double)cimag((double complex)at));   \
    }
// Value and index; the first two seconds that equal firsts differ only in the index.
#define PLACED(name, T)                                                                            \
    typedef struct name {                                                                          \
        T value;                                                                                   \
        int index;                                                                                 \
    } name;                                                                                        \
    static void set_##name(void *out, int i, int value, int second) {                              \
        ((name *)out)[i].value = (T)(i < COUNT - 1 ? value : 4);                                   \
        ((name *)out)[i].index = second ? 12 - 2 * i : i;                                          \
    }                                                                                              \
    static void print_##name(const void *in, int i) {                                              \
        const name at = ((const name *)in)[i];                                                     \
        printf(" %g@%d", (double)at.value, at.index);                                              \
    }

INTEGER(schar, signed char, PRIdMAX, intmax_t)
INTEGER(uchar, unsigned char, PRIuMAX, uintmax_t)
INTEGER(short, short, PRIdMAX, intmax_t)
INTEGER(ushort, unsigned short, PRIuMAX, uintmax_t)
INTEGER(int, int, PRIdMAX, intmax_t)
INTEGER(unsigned, unsigned, PRIuMAX, uintmax_t)
INTEGER(long, long, PRIdMAX, intmax_t)
INTEGER(ulong, unsigned long, PRIuMAX, uintmax_t)
INTEGER(llong, long long, PRIdMAX, intmax_t)
INTEGER(ullong, unsigned long long, PRIuMAX, uintmax_t)
NUMBER(float, float, " %g", (double)at)
NUMBER(double, double, " %g", at)
NUMBER(ldouble, long double, " %Lg", at)
NUMBER(bool, bool, " %d", at)
COMPLEX(cfloat, float complex)
COMPLEX(cdouble, double complex)
COMPLEX(cldouble, long double complex)
PLACED(float_int, float)
PLACED(double_int, double)
PLACED(long_int, long)
PLACED(two_int, int)
PLACED(short_int, short)
PLACED(ldouble_int, long double)

#define KIND(type, kinds, name, T)                                                                 \
    { #type, type, kinds, sizeof(T), set_##name, print_##name }
#define NATURAL (MATH | LOGIC | BITS | UNSIGNED)
#define WHOLE   (ORDER | MATH | LOGIC | BITS)

static void try(const operation *o, const kind *k, int rank) {
    static _Alignas(16) char a[COUNT * 32], b[COUNT * 32], c[COUNT * 32];
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    for (int i = 0; i < COUNT; i++) {
        k->set(a, i, i < COUNT - 1 ? firsts[i] : 0, 0);
        k->set(b, i, i < COUNT - 1 ? seconds[i] : 0, 1);
    }
    printf("%s of %s:", o->name, k->name);
    MPI_Reduce_local(a, b, COUNT, k->type, o->op);
    for (int i = 0; i < COUNT && rank == 0; i++) {
        k->print(b, i);
    }
    for (int i = 0; i < COUNT; i++) {
        k->set(a, i, (5 * i + 7 * rank) % 4 - 1, i % 5 != rank);
    }
    memset(c, 0, sizeof c);
    MPI_Allreduce(a, c, COUNT, k->type, o->op, WORLD);
    for (int i = 0; i < COUNT; i++) {
        k->print(c, i);
    }
    printf("\n");
}

// Of two unsigned numbers, the one with all bits set is the greater. MPICH 4.0.2 takes it for
// -1.
static void order(const kind *k) {
    unsigned char high[8], low[8];
    memset(high, 0xff, sizeof high);
    memset(low, 1, sizeof low);
#ifndef MPICH_VERSION
    MPI_Reduce_local(low, high, 1, k->type, MPI_MAX);
    MPI_Reduce_local(high, low, 1, k->type, MPI_MIN);
#endif
    printf("MAX, MIN of %s: %x, %x\n", k->name, high[k->size - 1], low[k->size - 1]);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    const operation operations[] = {
        {"MAX", MPI_MAX, ORDER},     {"MIN", MPI_MIN, ORDER},        {"SUM", MPI_SUM, MATH},
        {"PROD", MPI_PROD, MATH},    {"LAND", MPI_LAND, LOGIC},      {"LOR", MPI_LOR, LOGIC},
        {"LXOR", MPI_LXOR, LOGIC},   {"BAND", MPI_BAND, BITS},       {"BOR", MPI_BOR, BITS},
        {"BXOR", MPI_BXOR, BITS},    {"MAXLOC", MPI_MAXLOC, PLACES}, {"MINLOC", MPI_MINLOC, PLACES},
        {"REPLACE", MPI_REPLACE, 0}, {"NO_OP", MPI_NO_OP, 0},
    };
    const kind kinds[] = {
        KIND(MPI_SIGNED_CHAR, WHOLE, schar, signed char),
        KIND(MPI_UNSIGNED_CHAR, NATURAL, uchar, unsigned char),
        KIND(MPI_SHORT, WHOLE, short, short),
        KIND(MPI_UNSIGNED_SHORT, NATURAL, ushort, unsigned short),
        KIND(MPI_INT, WHOLE, int, int),
        KIND(MPI_UNSIGNED, NATURAL, unsigned, unsigned),
        KIND(MPI_LONG, WHOLE, long, long),
        KIND(MPI_UNSIGNED_LONG, NATURAL, ulong, unsigned long),
        KIND(MPI_LONG_LONG_INT, WHOLE, llong, long long),
        KIND(MPI_UNSIGNED_LONG_LONG, NATURAL, ullong, unsigned long long),
        KIND(MPI_INT8_T, WHOLE, schar, int8_t),
        KIND(MPI_INT16_T, WHOLE, short, int16_t),
        KIND(MPI_INT32_T, WHOLE, int, int32_t),
        KIND(MPI_INT64_T, WHOLE, long, int64_t),
        KIND(MPI_UINT8_T, NATURAL, uchar, uint8_t),
        KIND(MPI_UINT16_T, NATURAL, ushort, uint16_t),
        KIND(MPI_UINT32_T, NATURAL, unsigned, uint32_t),
        KIND(MPI_UINT64_T, NATURAL, ulong, uint64_t),
        KIND(MPI_AINT, WHOLE, long, MPI_Aint),
        KIND(MPI_OFFSET, WHOLE, long, MPI_Offset),
        KIND(MPI_COUNT, WHOLE, long, MPI_Count),
        KIND(MPI_BYTE, BITS, uchar, char),
        KIND(MPI_C_BOOL, LOGIC, bool, bool),
        KIND(MPI_FLOAT, ORDER | MATH, float, float),
        KIND(MPI_DOUBLE, ORDER | MATH, double, double),
        KIND(MPI_LONG_DOUBLE, ORDER | MATH, ldouble, long double),
        KIND(MPI_C_COMPLEX, MATH, cfloat, float complex),
        KIND(MPI_C_DOUBLE_COMPLEX, MATH, cdouble, double complex),
        KIND(MPI_C_LONG_DOUBLE_COMPLEX, MATH, cldouble, long double complex),
        KIND(MPI_FLOAT_INT, PLACES, float_int, float_int),
        KIND(MPI_DOUBLE_INT, PLACES, double_int, double_int),
        KIND(MPI_LONG_INT, PLACES, long_int, long_int),
        KIND(MPI_2INT, PLACES, two_int, two_int),
        KIND(MPI_SHORT_INT, PLACES, short_int, short_int),
        KIND(MPI_LONG_DOUBLE_INT, PLACES, ldouble_int, ldouble_int),
    };
    for (int o = 0; o < LAST(operations); o++) {
        int commutes;
        MPI_Op_commutative(operations[o].op, &commutes);
        printf("%s commutes: %d\n", operations[o].name, commutes);
        for (int k = 0; k < LAST(kinds); k++) {
            if ((operations[o].kind & kinds[k].kinds) != 0) {
                try(&operations[o], &kinds[k], rank);
            }
        }
    }
    for (int k = 0; k < LAST(kinds); k++) {
        if ((kinds[k].kinds & UNSIGNED) != 0) {
            order(&kinds[k]);
        }
    }
    MPI_Finalize();
    return 0;
}
