// Datatypes and operations, and the memory that they describe.
#pragma once

#include <stdbool.h>

// The names that programs see.
#define LOCKSTEP_MPI_NO_SITES
#pragma GCC visibility push(default)
#include "mpi/include/mpi.h"
#pragma GCC visibility pop

typedef struct mpi_rank mpi_rank;

typedef struct mpi_attribute {
    int keyval;
    void *value;
    struct mpi_attribute *next;
} mpi_attribute;

// Runs of basic elements in the order of the type map.
typedef struct mpi_segment {
    ptrdiff_t offset;
    size_t count;  // of consecutive basic elements
    int basic;     // number of the basic type, as in MPI_INT
} mpi_segment;

typedef struct mpi_type {
    int handle;
    const char *constant;  // "MPI_INT"; NULL: derived
    size_t size;
    ptrdiff_t lb, extent, true_lb, true_extent;
    mpi_segment *segments;  // [segment_count]
    size_t segment_count;
    size_t elements;              // number of basic elements
    const struct mpi_type *unit;  // the only basic type in it; NULL: several
    bool committed;
    bool contiguous;  // one segment at 0 that fills the extent
    bool overlaps;    // some segments have a byte in common
    // During construction:
    bool too_large;  // it reaches beyond the limits
    bool too_many;   // the same, by more than LS_MPI_PIECES segments
    bool scattered;  // it has displacements in bytes, which may span variables
    char *name;
    mpi_attribute *attributes;
    int combiner;
    int *integers;  // arguments of the constructor
    MPI_Aint *addresses;
    struct mpi_type **parts;
    int integer_count, address_count, type_count;
    int uses;  // by its handle, calls in flight and other types; changed atomically
} mpi_type;

typedef struct mpi_op {
    int handle;
    const char *constant;
    MPI_User_function *function;
    bool commutes;
} mpi_op;

// ---- type.c, pack.c -----------------------------------------------------------------------------
void ls_mpi__types_make(void);  // the constants, which all ranks share; call before any rank starts
void ls_mpi__types_open(mpi_rank *me);
mpi_type *ls_mpi__type_of(mpi_rank *me, MPI_Datatype handle);  // NULL: none
// The same, to change its name or its attributes: those of a constant are the rank's own.
mpi_type *ls_mpi__type_own(mpi_rank *me, mpi_type *of);
struct mpi_record;
// A copy with no name, attributes or arguments.
mpi_type *ls_mpi__type_like(const mpi_type *of);
// A type that MPI_Type_free has freed lives until its last use ends. Constants and NULL have none.
void ls_mpi__type_use(const mpi_type *type);
void ls_mpi__type_drop(const mpi_type *type);
void ls_mpi__types_use(const struct mpi_record *call);
void ls_mpi__types_drop(const struct mpi_record *call);
const mpi_type *ls_mpi__basic(int number);
const char *ls_mpi__type_name(const mpi_type *type);
size_t ls_mpi__pack(void *out, const void *buf, size_t count, const mpi_type *type);
// Reads at most `bytes`; returns how many were used.
size_t ls_mpi__unpack(void *buf, size_t count, const mpi_type *type, const void *in, size_t bytes);
// Copies the elements that both have; out and in may be the same.
void ls_mpi__copy(void *out, size_t out_count, const mpi_type *out_type, const void *in,
                  size_t in_count, const mpi_type *in_type);
// Whether the sender's elements are a prefix of the receiver's. *at: the first that differs.
bool ls_mpi__signature_fits(size_t send_count, const mpi_type *send, size_t recv_count,
                            const mpi_type *recv, const char **send_basic, const char **recv_basic);
// The first element's offset and the span of count elements.
void ls_mpi__span(ptrdiff_t *low, size_t *bytes, size_t count, const mpi_type *type);
// Whether the buffers of two calls have a byte in common, gaps excluded.
bool ls_mpi__types_meet(const void *a, size_t a_count, const mpi_type *a_type, const void *b,
                        size_t b_count, const mpi_type *b_type);
// Elements of a type, starting at a base address.
typedef struct mpi_place {
    const char *base;
    size_t count;
    const mpi_type *type;
} mpi_place;
// Whether any byte occurs twice in the places: such places cannot be received into.
bool ls_mpi__places_overlap(const mpi_place *places, size_t n);
// The address ranges of a place, in order; adjacent ones are merged.
typedef struct mpi_range {
    const char *low, *high;
} mpi_range;
typedef struct mpi_ranges {
    size_t count;
    mpi_range *all;  // [count]
    mpi_range one;
} mpi_ranges;
void ls_mpi__ranges(mpi_ranges *out, const mpi_place *place);
void ls_mpi__ranges_free(mpi_ranges *ranges);
bool ls_mpi__segments_overlap(const mpi_type *type);
// Datatypes neither have nor reach more bytes than this; no address of a program is larger.
#define LS_MPI_REACH  ((ptrdiff_t)1 << 61)
#define LS_MPI_PIECES ((size_t)1 << 24)
#define LS_MPI_MEMORY ((ptrdiff_t)1 << 47)
// base + n * each, where that is within LS_MPI_REACH.
bool ls_mpi__fits(ptrdiff_t *out, ptrdiff_t base, ptrdiff_t n, ptrdiff_t each);
mpi_type *ls_mpi__type_make(mpi_rank *me, int combiner);
int ls_mpi__type_finish(mpi_rank *me, mpi_type *made, MPI_Datatype *out);
void ls_mpi__type_append(mpi_type *made, const mpi_type *old, ptrdiff_t offset, size_t count);

// ---- op.c ---------------------------------------------------------------------------------------
void ls_mpi__ops_make(void);  // see ls_mpi__types_make
void ls_mpi__ops_open(mpi_rank *me);
mpi_op *ls_mpi__op_of(mpi_rank *me, MPI_Op handle);
const char *ls_mpi__op_name(const mpi_op *op);
// inout = in op inout.
void ls_mpi__reduce(const mpi_op *op, const mpi_type *type, const void *in, void *inout,
                    size_t count);
