// The constructors of datatypes.
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

// The arguments for MPI_Type_get_contents. The component types may be freed first.
static void keep_parts(mpi_type *made, const int *integers, int integer_count,
                       const MPI_Aint *addresses, int address_count, mpi_type *const *parts,
                       int type_count) {
    made->integers = ls_mpi__alloc((size_t)integer_count * sizeof(int));
    made->addresses = ls_mpi__alloc((size_t)address_count * sizeof(MPI_Aint));
    made->parts = ls_mpi__alloc((size_t)type_count * sizeof(mpi_type *));
    if (integer_count > 0) {
        memcpy(made->integers, integers, (size_t)integer_count * sizeof(int));
    }
    if (address_count > 0) {
        memcpy(made->addresses, addresses, (size_t)address_count * sizeof(MPI_Aint));
    }
    for (int i = 0; i < type_count; i++) {
        ls_mpi__type_use(parts[i]);
        made->parts[i] = parts[i];
    }
    made->integer_count = integer_count;
    made->address_count = address_count;
    made->type_count = type_count;
}

static void keep(mpi_rank *me, mpi_type *made, const int *integers, int integer_count,
                 const MPI_Aint *addresses, int address_count, const MPI_Datatype *types,
                 int type_count) {
    mpi_type **parts = ls_mpi__alloc((size_t)type_count * sizeof *parts);
    for (int i = 0; i < type_count; i++) {
        parts[i] = ls_mpi__type_of(me, types[i]);
    }
    keep_parts(made, integers, integer_count, addresses, address_count, parts, type_count);
    free(parts);
}

static int finish(mpi_where at, mpi_type *made, MPI_Datatype *out) {
    ptrdiff_t end;
    if (made->too_many) {
        ls_mpi__type_drop(made);
        return ls_mpi__refuse(at, ls_mpi__file, ls_mpi__line,
                              "datatypes of more than 2^24 separate parts");
    }
    if (made->too_large || !ls_mpi__fits(&end, 0, 1, made->lb) ||
        !ls_mpi__fits(&end, 0, 1, made->extent) || !ls_mpi__fits(&end, made->lb, 1, made->extent)) {
        ls_mpi__type_drop(made);
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function,
                             "the datatype reaches further than 2^61 bytes");
    }
    (void)ls_mpi__type_finish(at.me, made, out);
    ls_mpi__handle_slot(at.me, *out)->function = at.function;
    return MPI_SUCCESS;
}

// A constructor's blocks: block i is lengths[i] (or length) elements of types[i] at displs[i] *
// unit.
typedef struct blocks {
    int count, length;
    const int *lengths;
    const int *displs;
    const MPI_Aint *byte_displs;
    MPI_Aint stride;  // without displacements
    MPI_Datatype old;
    const MPI_Datatype *types;
} blocks;

static int check_blocks(mpi_where at, const blocks *b) {
    mpi_type *type;
    MPI_TRY(ls_mpi__count_arg(at, NULL, "count", b->count));
    for (int i = 0; i < b->count; i++) {
        int length = b->lengths != NULL ? b->lengths[i] : b->length;
        MPI_TRY(ls_mpi__count_arg(at, NULL, "a block's length", length));
        if (b->types != NULL) {
            MPI_TRY(ls_mpi__type_arg(&type, at, NULL, b->types[i], false));
        }
    }
    return b->types == NULL ? ls_mpi__type_arg(&type, at, NULL, b->old, false) : MPI_SUCCESS;
}

static int make_blocks(mpi_where at, const blocks *b, int combiner, bool in_bytes,
                       MPI_Datatype *out, mpi_type **made_out) {
    MPI_TRY(check_blocks(at, b));
    MPI_TRY(ls_mpi__out_arg(at, "datatype", out));
    mpi_type *made = ls_mpi__type_make(at.me, combiner);
    const mpi_type *old = b->types == NULL ? ls_mpi__type_of(at.me, b->old) : NULL;
    bool has_lb = false, has_ub = false;
    ptrdiff_t lb = 0, ub = 0;
    for (int i = 0; i < b->count; i++) {
        const mpi_type *of = old != NULL ? old : ls_mpi__type_of(at.me, b->types[i]);
        int length = b->lengths != NULL ? b->lengths[i] : b->length;
        ptrdiff_t offset, step = b->displs == NULL && b->byte_displs == NULL ? b->stride : 1, n = i;
        if (b->byte_displs != NULL) {
            n = b->byte_displs[i];
        } else if (b->displs != NULL) {
            n = b->displs[i];
        }
        if (length == 0 && of->handle != MPI_LB && of->handle != MPI_UB) {
            continue;  // it may be anywhere
        }
        if (!ls_mpi__fits(&offset, 0, n, step) ||
            !ls_mpi__fits(&offset, 0, offset, in_bytes ? 1 : of->extent)) {
            made->too_large = true;
            break;
        }
        if (of->handle == MPI_LB) {
            lb = !has_lb || offset < lb ? offset : lb;
            has_lb = true;
        } else if (of->handle == MPI_UB) {
            ub = !has_ub || offset > ub ? offset : ub;
            has_ub = true;
        } else {
            ls_mpi__type_append(made, of, offset, (size_t)length);
        }
    }
    made->scattered = made->scattered || b->byte_displs != NULL;
    ptrdiff_t end = made->lb + made->extent;
    made->lb = has_lb ? lb : made->lb;
    made->extent = (has_ub ? ub : end) - made->lb;
    if (combiner == MPI_COMBINER_STRUCT && !has_ub && made->extent > 0) {
        // The padding that a C compiler would put at the end.
        ptrdiff_t align = 1;
        for (size_t s = 0; s < made->segment_count; s++) {
            const mpi_type *basic = ls_mpi__basic(made->segments[s].basic);
            bool pair = basic->handle == MPI_C_FLOAT_COMPLEX ||
                        basic->handle == MPI_C_DOUBLE_COMPLEX ||
                        basic->handle == MPI_C_LONG_DOUBLE_COMPLEX;
            ptrdiff_t own = pair ? basic->extent / 2 : basic->extent;
            own = own > 16 ? 16 : own;
            align = own > align && (own & (own - 1)) == 0 ? own : align;
        }
        made->extent = (made->extent + align - 1) / align * align;
    }
    *made_out = made;
    return finish(at, made, out);
}

int MPI_Type_contiguous(int count, MPI_Datatype old, MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *made, *of;
    MPI_TRY(ls_mpi__count_arg(at, NULL, "count", count));
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, old, false));
    MPI_TRY(ls_mpi__out_arg(at, "datatype", type));
    made = ls_mpi__type_make(at.me, MPI_COMBINER_CONTIGUOUS);
    ls_mpi__type_append(made, of, 0, (size_t)count);
    keep(at.me, made, &count, 1, NULL, 0, &old, 1);
    return finish(at, made, type);
}

int MPI_Type_vector(int count, int blocklength, int stride, MPI_Datatype old, MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *made;
    const blocks b = {.count = count, .length = blocklength, .stride = stride, .old = old};
    MPI_TRY(make_blocks(at, &b, MPI_COMBINER_VECTOR, false, type, &made));
    keep(at.me, made, (const int[]){count, blocklength, stride}, 3, NULL, 0, &old, 1);
    return MPI_SUCCESS;
}

int MPI_Type_create_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype old,
                            MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *made;
    const blocks b = {.count = count, .length = blocklength, .stride = stride, .old = old};
    MPI_TRY(make_blocks(at, &b, MPI_COMBINER_HVECTOR, true, type, &made));
    keep(at.me, made, (const int[]){count, blocklength}, 2, &stride, 1, &old, 1);
    return MPI_SUCCESS;
}

int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype old,
                     MPI_Datatype *type) {
    return MPI_Type_create_hvector(count, blocklength, stride, old, type);
}

static void keep_lists(mpi_rank *me, mpi_type *made, int count, const int *first, const int *second,
                       const MPI_Aint *addresses, const MPI_Datatype *types, int type_count) {
    int n = 1 + (first != NULL ? count : 0) + (second != NULL ? count : 0);
    int *integers = ls_mpi__alloc((size_t)n * sizeof(int)), at = 1;
    integers[0] = count;
    for (int i = 0; first != NULL && i < count; i++) {
        integers[at++] = first[i];
    }
    for (int i = 0; second != NULL && i < count; i++) {
        integers[at++] = second[i];
    }
    keep(me, made, integers, n, addresses, addresses != NULL ? count : 0, types, type_count);
    free(integers);
}

int MPI_Type_indexed(int count, const int blocklengths[], const int displs[], MPI_Datatype old,
                     MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *made;
    const blocks b = {.count = count, .lengths = blocklengths, .displs = displs, .old = old};
    MPI_TRY(make_blocks(at, &b, MPI_COMBINER_INDEXED, false, type, &made));
    keep_lists(at.me, made, count, blocklengths, displs, NULL, &old, 1);
    return MPI_SUCCESS;
}

int MPI_Type_create_hindexed(int count, const int blocklengths[], const MPI_Aint displs[],
                             MPI_Datatype old, MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *made;
    const blocks b = {.count = count, .lengths = blocklengths, .byte_displs = displs, .old = old};
    MPI_TRY(make_blocks(at, &b, MPI_COMBINER_HINDEXED, true, type, &made));
    keep_lists(at.me, made, count, blocklengths, NULL, displs, &old, 1);
    return MPI_SUCCESS;
}

int MPI_Type_hindexed(int count, int blocklengths[], MPI_Aint displs[], MPI_Datatype old,
                      MPI_Datatype *type) {
    return MPI_Type_create_hindexed(count, blocklengths, displs, old, type);
}

int MPI_Type_create_indexed_block(int count, int blocklength, const int displs[], MPI_Datatype old,
                                  MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *made;
    const blocks b = {.count = count, .length = blocklength, .displs = displs, .old = old};
    MPI_TRY(make_blocks(at, &b, MPI_COMBINER_INDEXED_BLOCK, false, type, &made));
    int *integers = ls_mpi__alloc((size_t)(count + 2) * sizeof(int));
    integers[0] = count;
    integers[1] = blocklength;
    for (int i = 0; i < count; i++) {
        integers[i + 2] = displs[i];
    }
    keep(at.me, made, integers, count + 2, NULL, 0, &old, 1);
    free(integers);
    return MPI_SUCCESS;
}

int MPI_Type_create_hindexed_block(int count, int blocklength, const MPI_Aint displs[],
                                   MPI_Datatype old, MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *made;
    const blocks b = {.count = count, .length = blocklength, .byte_displs = displs, .old = old};
    MPI_TRY(make_blocks(at, &b, MPI_COMBINER_HINDEXED_BLOCK, true, type, &made));
    keep(at.me, made, (const int[]){count, blocklength}, 2, displs, count, &old, 1);
    return MPI_SUCCESS;
}

int MPI_Type_create_struct(int count, const int blocklengths[], const MPI_Aint displs[],
                           const MPI_Datatype types[], MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *made;
    static const MPI_Datatype none[1] = {MPI_BYTE};
    const blocks b = {.count = count,
                      .lengths = blocklengths,
                      .byte_displs = displs,
                      .types = count > 0 ? types : none};
    MPI_TRY(make_blocks(at, &b, MPI_COMBINER_STRUCT, true, type, &made));
    keep_lists(at.me, made, count, blocklengths, NULL, displs, types, count);
    return MPI_SUCCESS;
}

int MPI_Type_struct(int count, int blocklengths[], MPI_Aint displs[], MPI_Datatype types[],
                    MPI_Datatype *type) {
    return MPI_Type_create_struct(count, blocklengths, displs, types, type);
}

int MPI_Type_create_resized(MPI_Datatype old, MPI_Aint lb, MPI_Aint extent, MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, old, false));
    MPI_TRY(ls_mpi__out_arg(at, "datatype", type));
    mpi_type *made = ls_mpi__type_make(at.me, MPI_COMBINER_RESIZED);
    ls_mpi__type_append(made, of, 0, 1);
    made->lb = lb;
    made->extent = extent;
    keep(at.me, made, NULL, 0, (const MPI_Aint[]){lb, extent}, 2, &old, 1);
    return finish(at, made, type);
}

int ls_mpi__type_copy(mpi_where at, const mpi_type *of, MPI_Datatype *out) {
    mpi_type *made = ls_mpi__type_like(of);
    keep_parts(made, of->integers, of->integer_count, of->addresses, of->address_count, of->parts,
               of->type_count);
    return finish(at, made, out);
}

int MPI_Type_dup(MPI_Datatype old, MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, old, false));
    MPI_TRY(ls_mpi__out_arg(at, "datatype", type));
    mpi_type *made = ls_mpi__type_like(of);
    made->combiner = MPI_COMBINER_DUP;
    keep(at.me, made, NULL, 0, NULL, 0, &old, 1);
    int status = ls_mpi__attributes_copy(at, NULL, old, of->attributes, &made->attributes);
    return status == MPI_SUCCESS ? finish(at, made, type) : status;
}

// ---- Arrays -------------------------------------------------------------------------------------
int MPI_Type_create_subarray(int ndims, const int sizes[], const int subsizes[], const int starts[],
                             int order, MPI_Datatype old, MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, old, false));
    MPI_TRY(ls_mpi__out_arg(at, "datatype", type));
    if (ndims < 1 || (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, __func__, "ndims %d, order %d", ndims,
                             order);
    }
    for (int d = 0; d < ndims; d++) {
        if (sizes[d] < 1 || subsizes[d] < 1 || starts[d] < 0 ||
            starts[d] > sizes[d] - subsizes[d]) {
            return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, __func__,
                                 "dimension %d: %d elements from %d on are not in an array of %d",
                                 d, subsizes[d], starts[d], sizes[d]);
        }
    }
    // Rows along the fastest dimension, counted by an odometer over the others.
    int fastest = order == MPI_ORDER_C ? ndims - 1 : 0, step = order == MPI_ORDER_C ? -1 : 1;
    mpi_type *made = ls_mpi__type_make(at.me, MPI_COMBINER_SUBARRAY);
    int *index = ls_mpi__alloc((size_t)ndims * sizeof(int));
    ptrdiff_t all = 1, whole = 0;
    for (int d = 0; d < ndims; d++) {
        made->too_large = made->too_large || !ls_mpi__fits(&all, 0, all, sizes[d]);
    }
    made->too_large = made->too_large || !ls_mpi__fits(&whole, 0, all, of->extent);
    for (bool more = !made->too_large; more && !made->too_large;) {
        ptrdiff_t element = 0, scale = 1;
        for (int i = 0, d = fastest; i < ndims; i++, d += step) {
            element += (starts[d] + index[d]) * scale;
            scale *= sizes[d];
        }
        ls_mpi__type_append(made, of, element * of->extent, (size_t)subsizes[fastest]);
        more = false;
        for (int i = 1, d = fastest + step; i < ndims && !more; i++, d += step) {
            index[d] += 1;
            more = index[d] < subsizes[d];
            index[d] = more ? index[d] : 0;
        }
    }
    free(index);
    made->lb = 0;
    made->extent = whole;
    int *integers = ls_mpi__alloc((size_t)(3 * ndims + 2) * sizeof(int));
    integers[0] = ndims;
    memcpy(integers + 1, sizes, (size_t)ndims * sizeof(int));
    memcpy(integers + 1 + ndims, subsizes, (size_t)ndims * sizeof(int));
    memcpy(integers + 1 + 2 * ndims, starts, (size_t)ndims * sizeof(int));
    integers[3 * ndims + 1] = order;
    keep(at.me, made, integers, 3 * ndims + 2, NULL, 0, &old, 1);
    free(integers);
    return finish(at, made, type);
}

// One dimension of a distributed array, as the process at `coord` sees it.
typedef struct dimension {
    int size, distrib, arg, procs, coord;
    int first, at;     // indices that it owns
    ptrdiff_t stride;  // in elements
} dimension;

// The first index from i on that the process owns; the size: none.
static int owned_from(const dimension *d, int i) {
    if (d->distrib == MPI_DISTRIBUTE_NONE || d->procs == 1) {
        return i;
    }
    bool cyclic = d->distrib == MPI_DISTRIBUTE_CYCLIC;
    int block = cyclic ? 1 : (d->size - 1) / d->procs + 1;
    block = d->arg == MPI_DISTRIBUTE_DFLT_DARG ? block : d->arg;
    while (i < d->size && (cyclic ? i / block % d->procs : i / block) != d->coord) {
        i += 1;
    }
    return i;
}

// Appends the runs of elements along the first dimension.
static void append_row(mpi_type *made, const mpi_type *of, const dimension *first,
                       ptrdiff_t element) {
    for (int i = first->first; i < first->size && !made->too_large;) {
        int end = i + 1;
        while (end < first->size && owned_from(first, end) == end) {
            end += 1;
        }
        ls_mpi__type_append(made, of, (element + i) * of->extent, (size_t)(end - i));
        i = owned_from(first, end);
    }
}

// Dimensions with the fastest first.
static void append_owned(mpi_type *made, const mpi_type *of, dimension *all, int ndims) {
    bool more = !made->too_large;
    for (int d = 0; d < ndims; d++) {
        all[d].first = all[d].at = owned_from(&all[d], 0);
        more = more && all[d].first < all[d].size;
    }
    while (more && !made->too_large) {
        ptrdiff_t element = 0;
        for (int d = 1; d < ndims; d++) {
            element += all[d].at * all[d].stride;
        }
        append_row(made, of, &all[0], element);
        more = false;
        for (int d = 1; d < ndims && !more; d++) {
            all[d].at = owned_from(&all[d], all[d].at + 1);
            more = all[d].at < all[d].size;
            all[d].at = more ? all[d].at : all[d].first;
        }
    }
}

int MPI_Type_create_darray(int size, int rank, int ndims, const int gsizes[], const int distribs[],
                           const int dargs[], const int psizes[], int order, MPI_Datatype old,
                           MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, old, false));
    MPI_TRY(ls_mpi__out_arg(at, "datatype", type));
    if (ndims < 1 || rank < 0 || rank >= size) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, __func__, "ndims %d, rank %d of %d", ndims,
                             rank, size);
    }
    for (int d = 0; d < ndims; d++) {
        if (gsizes[d] < 1 || psizes[d] < 1 ||
            (distribs[d] != MPI_DISTRIBUTE_NONE && dargs[d] < 1 &&
             dargs[d] != MPI_DISTRIBUTE_DFLT_DARG)) {
            return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, __func__,
                                 "dimension %d: %d elements on %d processes, argument %d", d,
                                 gsizes[d], psizes[d], dargs[d]);
        }
    }
    dimension *dims = ls_mpi__alloc((size_t)ndims * sizeof *dims);
    for (int d = ndims - 1, left = rank; d >= 0; d--) {
        dims[order == MPI_ORDER_C ? ndims - 1 - d : d] =
            (dimension){gsizes[d], distribs[d], dargs[d], psizes[d], left % psizes[d], 0, 0, 0};
        left /= psizes[d];
    }
    mpi_type *made = ls_mpi__type_make(at.me, MPI_COMBINER_DARRAY);
    ptrdiff_t all = 1, whole = 0;
    for (int d = 0; d < ndims; d++) {
        dims[d].stride = all;
        made->too_large = made->too_large || !ls_mpi__fits(&all, 0, all, dims[d].size);
    }
    made->too_large = made->too_large || !ls_mpi__fits(&whole, 0, all, of->extent);
    append_owned(made, of, dims, ndims);
    free(dims);
    made->lb = 0;
    made->extent = whole;
    int n = 4 * ndims + 4;
    int *integers = ls_mpi__alloc((size_t)n * sizeof(int));
    integers[0] = size;
    integers[1] = rank;
    integers[2] = ndims;
    const int *lists[4] = {gsizes, distribs, dargs, psizes};
    for (int l = 0; l < 4; l++) {
        memcpy(integers + 3 + l * ndims, lists[l], (size_t)ndims * sizeof(int));
    }
    integers[n - 1] = order;
    keep(at.me, made, integers, n, NULL, 0, &old, 1);
    free(integers);
    return finish(at, made, type);
}
