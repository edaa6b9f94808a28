// Datatypes: the basic ones, and operations for constructors. A type is the list of its basic
// elements.
#include <complex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "mpi/internal.h"

typedef struct basic {
    const char *name;
    size_t size;
    ptrdiff_t extent;
    int parts[2];  // of a pair: its basic types
    ptrdiff_t second;
    int same;  // the type that this name is an alias of; 0: it is no alias
} basic;

#define PAIR(name, c, a)                                                                           \
    struct name {                                                                                  \
        c value;                                                                                   \
        int index;                                                                                 \
    };
PAIR(float_int, float, 0)
PAIR(double_int, double, 0)
PAIR(long_int, long, 0)
PAIR(two_int, int, 0)
PAIR(short_int, short, 0)
PAIR(long_double_int, long double, 0)

#define NUMBER(handle) ((handle)&0xff)
#define ONE(handle, c) [NUMBER(handle)] = {.name = #handle, .size = sizeof(c), .extent = sizeof(c)}
#define TWO(handle, s, c, of)                                                                      \
    [NUMBER(handle)] = {.name = #handle,                                                           \
                        .size = sizeof(c) + sizeof(int),                                           \
                        .extent = sizeof(struct s),                                                \
                        .parts = {NUMBER(of), NUMBER(MPI_INT)},                                    \
                        .second = offsetof(struct s, index)}
#define NAME(handle, of) [NUMBER(handle)] = {.name = #handle, .same = NUMBER(of)}
#define BASIC_COUNT      61

static const basic basics[BASIC_COUNT] = {
    ONE(MPI_CHAR, char),
    ONE(MPI_SIGNED_CHAR, signed char),
    ONE(MPI_UNSIGNED_CHAR, unsigned char),
    ONE(MPI_BYTE, char),
    ONE(MPI_PACKED, char),
    ONE(MPI_WCHAR, wchar_t),
    ONE(MPI_SHORT, short),
    ONE(MPI_UNSIGNED_SHORT, unsigned short),
    ONE(MPI_INT, int),
    ONE(MPI_UNSIGNED, unsigned),
    ONE(MPI_LONG, long),
    ONE(MPI_UNSIGNED_LONG, unsigned long),
    ONE(MPI_LONG_LONG_INT, long long),
    ONE(MPI_UNSIGNED_LONG_LONG, unsigned long long),
    ONE(MPI_FLOAT, float),
    ONE(MPI_DOUBLE, double),
    ONE(MPI_LONG_DOUBLE, long double),
    ONE(MPI_INT8_T, int8_t),
    ONE(MPI_INT16_T, int16_t),
    ONE(MPI_INT32_T, int32_t),
    ONE(MPI_INT64_T, int64_t),
    ONE(MPI_UINT8_T, uint8_t),
    ONE(MPI_UINT16_T, uint16_t),
    ONE(MPI_UINT32_T, uint32_t),
    ONE(MPI_UINT64_T, uint64_t),
    ONE(MPI_C_BOOL, bool),
    ONE(MPI_C_COMPLEX, float complex),
    ONE(MPI_C_DOUBLE_COMPLEX, double complex),
    ONE(MPI_C_LONG_DOUBLE_COMPLEX, long double complex),
    ONE(MPI_AINT, MPI_Aint),
    ONE(MPI_OFFSET, MPI_Offset),
    ONE(MPI_COUNT, MPI_Count),
    TWO(MPI_FLOAT_INT, float_int, float, MPI_FLOAT),
    TWO(MPI_DOUBLE_INT, double_int, double, MPI_DOUBLE),
    TWO(MPI_LONG_INT, long_int, long, MPI_LONG),
    TWO(MPI_2INT, two_int, int, MPI_INT),
    TWO(MPI_SHORT_INT, short_int, short, MPI_SHORT),
    TWO(MPI_LONG_DOUBLE_INT, long_double_int, long double, MPI_LONG_DOUBLE),
    [NUMBER(MPI_LB)] = {.name = "MPI_LB"},
    [NUMBER(MPI_UB)] = {.name = "MPI_UB"},
    NAME(MPI_CXX_BOOL, MPI_C_BOOL),
    NAME(MPI_CXX_FLOAT_COMPLEX, MPI_C_FLOAT_COMPLEX),
    NAME(MPI_CXX_DOUBLE_COMPLEX, MPI_C_DOUBLE_COMPLEX),
    NAME(MPI_CXX_LONG_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX),
    NAME(MPI_CHARACTER, MPI_CHAR),
    NAME(MPI_INTEGER, MPI_INT),
    NAME(MPI_REAL, MPI_FLOAT),
    NAME(MPI_DOUBLE_PRECISION, MPI_DOUBLE),
    NAME(MPI_COMPLEX, MPI_C_FLOAT_COMPLEX),
    NAME(MPI_DOUBLE_COMPLEX, MPI_C_DOUBLE_COMPLEX),
    NAME(MPI_LOGICAL, MPI_INT),
    NAME(MPI_2INTEGER, MPI_2INT),
    NAME(MPI_INTEGER1, MPI_INT8_T),
    NAME(MPI_INTEGER2, MPI_INT16_T),
    NAME(MPI_INTEGER4, MPI_INT32_T),
    NAME(MPI_INTEGER8, MPI_INT64_T),
    NAME(MPI_COMPLEX8, MPI_C_FLOAT_COMPLEX),
    NAME(MPI_COMPLEX16, MPI_C_DOUBLE_COMPLEX),
    NAME(MPI_REAL4, MPI_FLOAT),
    NAME(MPI_REAL8, MPI_DOUBLE),
};

static mpi_type constants[BASIC_COUNT];
static mpi_segment constant_segments[BASIC_COUNT][2];

static void make_constant(int n) {
    int is = basics[n].same != 0 ? basics[n].same : n;
    const basic *b = &basics[is];
    mpi_type *type = &constants[n];
    mpi_segment *segments = constant_segments[n];
    bool pair = b->parts[0] != 0;
    segments[0] = (mpi_segment){0, 1, pair ? b->parts[0] : is};
    segments[1] = (mpi_segment){b->second, 1, b->parts[1]};
    size_t elements = pair ? 2 : 1;
    if (b->size == 0) {
        elements = 0;
    }
    *type = (mpi_type){
        .handle = MPI_DATATYPE_NULL + n,
        .constant = basics[n].name,
        .size = b->size,
        .extent = b->extent,
        .true_extent = pair ? b->second + (ptrdiff_t)sizeof(int) : b->extent,
        .segments = segments,
        .segment_count = elements,
        .elements = elements,
        .unit = b->size > 0 ? &constants[is] : NULL,
        .committed = true,
        .contiguous = !pair && b->size > 0,
        .combiner = MPI_COMBINER_NAMED,
    };
}

void ls_mpi__types_make(void) {
    for (int n = 1; n < BASIC_COUNT; n++) {
        make_constant(n);
    }
}

void ls_mpi__types_open(mpi_rank *me) {
    for (int n = 1; n < BASIC_COUNT; n++) {
        ls_mpi__handle_constant(me, MPI_KIND_TYPE, n, &constants[n]);
    }
}

const mpi_type *ls_mpi__basic(int number) {
    LS_ASSERT(number > 0 && number < BASIC_COUNT);
    return &constants[number];
}

mpi_type *ls_mpi__type_of(mpi_rank *me, MPI_Datatype handle) {
    return ls_mpi__handle_get(me, MPI_KIND_TYPE, handle, NULL);
}

mpi_type *ls_mpi__type_own(mpi_rank *me, mpi_type *of) {
    int n = of->handle - MPI_DATATYPE_NULL;
    if (of->constant == NULL || of != &constants[n]) {
        return of;
    }
    mpi_type *own = ls_mpi__alloc(sizeof *own);
    *own = *of;
    ls_mpi__handle_constant(me, MPI_KIND_TYPE, n, own);
    return own;
}

const char *ls_mpi__type_name(const mpi_type *type) {
    if (type->constant != NULL) {
        return type->constant;
    }
    return type->name != NULL ? type->name : "a derived datatype";
}

// ---- Life ---------------------------------------------------------------------------------------
mpi_type *ls_mpi__type_make(mpi_rank *me, int combiner) {
    (void)me;
    mpi_type *made = ls_mpi__alloc(sizeof *made);
    made->combiner = combiner;
    made->uses = 1;
    return made;
}

mpi_type *ls_mpi__type_like(const mpi_type *of) {
    mpi_type *made = ls_mpi__alloc(sizeof *made);
    *made = *of;
    made->segments = ls_mpi__alloc(of->segment_count * sizeof *made->segments);
    if (of->segment_count > 0) {
        memcpy(made->segments, of->segments, of->segment_count * sizeof *made->segments);
    }
    made->constant = NULL;
    made->name = NULL;
    made->attributes = NULL;
    made->integers = NULL;
    made->addresses = NULL;
    made->parts = NULL;
    made->integer_count = made->address_count = made->type_count = 0;
    made->uses = 1;
    return made;
}

void ls_mpi__type_use(const mpi_type *type) {
    if (type != NULL && type->constant == NULL) {
        (void)__atomic_add_fetch((int *)(uintptr_t)&type->uses, 1, __ATOMIC_RELAXED);
    }
}

// Goes on with the last part: a type may be a copy of a copy of many more.
void ls_mpi__type_drop(const mpi_type *type) {
    while (type != NULL && type->constant == NULL &&
           __atomic_sub_fetch((int *)(uintptr_t)&type->uses, 1, __ATOMIC_ACQ_REL) == 0) {
        mpi_type *gone = (mpi_type *)(uintptr_t)type;
        type = gone->type_count > 0 ? gone->parts[gone->type_count - 1] : NULL;
        for (int i = 0; i + 1 < gone->type_count; i++) {
            ls_mpi__type_drop(gone->parts[i]);
        }
        free(gone->segments);
        free(gone->integers);
        free(gone->addresses);
        free(gone->parts);
        free(gone->name);
        free(gone);
    }
}

static void for_types(const mpi_record *call, void (*change)(const mpi_type *)) {
    const mpi_side *sides[2] = {&call->send, &call->recv};
    for (int s = 0; s < 2; s++) {
        const mpi_type *const *at = sides[s]->objects;
        change(sides[s]->type);
        for (; at != NULL && *at != NULL; at++) {
            change(*at);
        }
    }
}

void ls_mpi__types_use(const mpi_record *call) {
    for_types(call, ls_mpi__type_use);
}

void ls_mpi__types_drop(const mpi_record *call) {
    for_types(call, ls_mpi__type_drop);
}

// ---- Making -------------------------------------------------------------------------------------

static void add_segment(mpi_type *made, ptrdiff_t offset, int number, size_t count) {
    ptrdiff_t each = basics[number].extent;
    if (made->segment_count > 0) {
        mpi_segment *last = &made->segments[made->segment_count - 1];
        if (last->basic == number && last->offset + (ptrdiff_t)last->count * each == offset) {
            last->count += count;
            return;
        }
    }
    size_t n = made->segment_count;
    if (n == LS_MPI_PIECES) {
        made->too_many = made->too_large = true;
        return;
    }
    if ((n & (n - 1)) == 0) {
        mpi_segment *more = realloc(made->segments, (n == 0 ? 1 : 2 * n) * sizeof *more);
        if (more == NULL) {
            abort();
        }
        made->segments = more;
    }
    made->segments[made->segment_count++] = (mpi_segment){offset, count, number};
}

// Appends count elements of `old`, one after another, from offset on.
void ls_mpi__type_append(mpi_type *made, const mpi_type *old, ptrdiff_t offset, size_t count) {
    if (count == 0) {
        return;
    }
    bool first = !made->contiguous;  // during construction: the type has explicit bounds
    ptrdiff_t last, low, high, size, ub = made->lb + made->extent;
    made->too_large =
        made->too_large || !ls_mpi__fits(&last, offset, (ptrdiff_t)(count - 1), old->extent) ||
        !ls_mpi__fits(&low, old->extent >= 0 ? offset : last, 1, old->lb) ||
        !ls_mpi__fits(&high, old->extent >= 0 ? last : offset, 1, old->lb + old->extent) ||
        !ls_mpi__fits(&size, (ptrdiff_t)made->size, (ptrdiff_t)count, (ptrdiff_t)old->size);
    if (made->too_large) {
        return;
    }
    made->lb = first || low < made->lb ? low : made->lb;
    ub = first || high > ub ? high : ub;
    made->too_large = !ls_mpi__fits(&made->extent, ub, -1, made->lb);
    made->contiguous = true;
    if (old->size > 0) {
        made->unit = made->size == 0 || made->unit == old->unit ? old->unit : NULL;
    }
    made->scattered = made->scattered || old->scattered;
    made->size = (size_t)size;
    made->elements += count * old->elements;
    if (old->contiguous) {
        add_segment(made, offset, old->segments[0].basic, count * old->segments[0].count);
        return;
    }
    for (size_t i = 0; i < count && !made->too_large; i++) {
        for (size_t s = 0; s < old->segment_count; s++) {
            const mpi_segment *segment = &old->segments[s];
            add_segment(made, offset + (ptrdiff_t)i * old->extent + segment->offset, segment->basic,
                        segment->count);
        }
    }
}

int ls_mpi__type_finish(mpi_rank *me, mpi_type *made, MPI_Datatype *out) {
    ptrdiff_t low = 0, high = 0;
    for (size_t s = 0; s < made->segment_count; s++) {
        const mpi_segment *at = &made->segments[s];
        ptrdiff_t end = at->offset + (ptrdiff_t)at->count * basics[at->basic].extent;
        low = s == 0 || at->offset < low ? at->offset : low;
        high = s == 0 || end > high ? end : high;
    }
    made->true_lb = low;
    made->true_extent = high - low;
    made->contiguous = made->segment_count == 1 && made->segments[0].offset == 0 && made->lb == 0 &&
                       made->extent == (ptrdiff_t)made->size;
    made->overlaps = ls_mpi__segments_overlap(made);
    made->handle = ls_mpi__handle_add(me, MPI_KIND_TYPE, made);
    *out = made->handle;
    return MPI_SUCCESS;
}
