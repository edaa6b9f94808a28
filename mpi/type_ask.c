// Queries of datatypes, and the packing functions.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

int MPI_Type_commit(MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type != NULL ? *type : MPI_DATATYPE_NULL, false));
    of->committed = true;
    return MPI_SUCCESS;
}

int MPI_Type_free(MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type != NULL ? *type : MPI_DATATYPE_NULL, false));
    if (of->constant != NULL) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_TYPE, __func__, "%s cannot be freed",
                             of->constant);
    }
    MPI_TRY(ls_mpi__attributes_free(at, *type, &of->attributes));
    ls_mpi__handle_free(at.me, *type);
    ls_mpi__type_drop(of);
    *type = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

#define ASK(name, parameters, first, last, statement)                                              \
    int name parameters {                                                                          \
        MPI_ENTER_AT(at);                                                                          \
        mpi_type *of;                                                                              \
        MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, false));                                     \
        MPI_TRY(ls_mpi__out_arg(at, #first, first));                                               \
        MPI_TRY(ls_mpi__out_arg(at, #last, last));                                                 \
        statement;                                                                                 \
        return MPI_SUCCESS;                                                                        \
    }

ASK(MPI_Type_size, (MPI_Datatype type, int *size), size, size,
    *size = of->size > INT32_MAX ? MPI_UNDEFINED : (int)of->size)
ASK(MPI_Type_size_x, (MPI_Datatype type, MPI_Count *size), size, size, *size = (MPI_Count)of->size)
ASK(MPI_Type_get_extent, (MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent), lb, extent,
    *lb = of->lb;
    *extent = of->extent)
ASK(MPI_Type_get_extent_x, (MPI_Datatype type, MPI_Count *lb, MPI_Count *extent), lb, extent,
    *lb = of->lb;
    *extent = of->extent)
ASK(MPI_Type_get_true_extent, (MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent), lb, extent,
    *lb = of->true_lb;
    *extent = of->true_extent)
ASK(MPI_Type_get_true_extent_x, (MPI_Datatype type, MPI_Count *lb, MPI_Count *extent), lb, extent,
    *lb = of->true_lb;
    *extent = of->true_extent)
ASK(MPI_Type_extent, (MPI_Datatype type, MPI_Aint *extent), extent, extent, *extent = of->extent)
ASK(MPI_Type_lb, (MPI_Datatype type, MPI_Aint *lb), lb, lb, *lb = of->lb)
ASK(MPI_Type_ub, (MPI_Datatype type, MPI_Aint *ub), ub, ub, *ub = of->lb + of->extent)
ASK(MPI_Type_get_envelope,
    (MPI_Datatype type, int *integers, int *addresses, int *types, int *combiner), integers,
    combiner, *integers = of->integer_count;
    *addresses = of->address_count; *types = of->type_count; *combiner = of->combiner)

int MPI_Type_get_contents(MPI_Datatype type, int max_integers, int max_addresses, int max_types,
                          int integers[], MPI_Aint addresses[], MPI_Datatype types[]) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, false));
    if (of->constant != NULL || max_integers < of->integer_count ||
        max_addresses < of->address_count || max_types < of->type_count) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, __func__,
                             of->constant != NULL ? "%s has no contents" : "too little room for %s",
                             ls_mpi__type_name(of));
    }
    for (int i = 0; i < of->integer_count; i++) {
        integers[i] = of->integers[i];
    }
    for (int i = 0; i < of->address_count; i++) {
        addresses[i] = of->addresses[i];
    }
    for (int i = 0; i < of->type_count; i++) {
        types[i] = of->parts[i]->handle;
        if (of->parts[i]->constant == NULL) {
            MPI_TRY(ls_mpi__type_copy(at, of->parts[i], &types[i]));
        }
    }
    return MPI_SUCCESS;
}

static const char *name_of(const mpi_type *of) {
    const char *constant = of->constant != NULL ? of->constant : "";
    return of->name != NULL ? of->name : constant;
}

int MPI_Type_set_name(MPI_Datatype type, const char *name) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__type_arg(&of, at, NULL, type, false));
    of = ls_mpi__type_own(at.me, of);
    of->name = of->name != NULL ? of->name : ls_mpi__alloc(MPI_MAX_OBJECT_NAME);
    (void)snprintf(of->name, MPI_MAX_OBJECT_NAME, "%s", name);
    return MPI_SUCCESS;
}

ASK(MPI_Type_get_name, (MPI_Datatype type, char *name, int *length), name, length,
    *length = snprintf(name, MPI_MAX_OBJECT_NAME, "%s", name_of(of)))

int MPI_Type_match_size(int typeclass, int size, MPI_Datatype *type) {
    MPI_ENTER_AT(at);
    static const MPI_Datatype known[3][4] = {
        {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_DATATYPE_NULL},
        {MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T},
        {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX, MPI_DATATYPE_NULL}};
    for (int i = 0; typeclass >= 1 && typeclass <= 3 && i < 4; i++) {
        const mpi_type *of = ls_mpi__type_of(at.me, known[typeclass - 1][i]);
        if (of != NULL && of->size == (size_t)size) {
            *type = of->handle;
            return MPI_SUCCESS;
        }
    }
    return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, __func__, "no type of class %d has %d bytes",
                         typeclass, size);
}

// ---- Addresses ----------------------------------------------------------------------------------
int MPI_Get_address(const void *location, MPI_Aint *address) {
    *address = (MPI_Aint)(intptr_t)location;
    return MPI_SUCCESS;
}

int MPI_Address(void *location, MPI_Aint *address) {
    return MPI_Get_address(location, address);
}

MPI_Aint MPI_Aint_add(MPI_Aint base, MPI_Aint displacement) {
    return (MPI_Aint)((size_t)base + (size_t)displacement);
}

MPI_Aint MPI_Aint_diff(MPI_Aint a, MPI_Aint b) {
    return (MPI_Aint)((size_t)a - (size_t)b);
}

// ---- Packing ------------------------------------------------------------------------------------
static int pack(mpi_where at, MPI_Comm comm, const void *inbuf, int incount, MPI_Datatype type,
                void *outbuf, MPI_Aint outsize, MPI_Aint *position) {
    mpi_comm *of_comm = NULL;
    mpi_type *of;
    if (comm != MPI_COMM_NULL) {
        MPI_TRY(ls_mpi__comm_arg(&of_comm, at, comm));
    }
    MPI_TRY(ls_mpi__count_arg(at, of_comm, "the count", incount));
    MPI_TRY(ls_mpi__type_arg(&of, at, of_comm, type, true));
    MPI_TRY(ls_mpi__buffer_arg(at, of_comm, inbuf, incount, of));
    size_t bytes = (size_t)incount * of->size;
    if (*position < 0 || *position > outsize - (MPI_Aint)bytes) {
        return ls_mpi__error(at.me, of_comm, MPI_ERR_ARG, at.function,
                             "%zu bytes do not fit into %ld at position %ld", bytes, (long)outsize,
                             (long)*position);
    }
    ls_mpi__touch_typed(at.me, inbuf, (size_t)incount, of, false, at.function);
    (void)ls_mpi__pack((char *)outbuf + *position, inbuf, (size_t)incount, of);
    *position += (MPI_Aint)bytes;
    return MPI_SUCCESS;
}

static int unpack(mpi_where at, MPI_Comm comm, const void *inbuf, MPI_Aint insize,
                  MPI_Aint *position, void *outbuf, int outcount, MPI_Datatype type) {
    mpi_comm *of_comm = NULL;
    mpi_type *of;
    if (comm != MPI_COMM_NULL) {
        MPI_TRY(ls_mpi__comm_arg(&of_comm, at, comm));
    }
    MPI_TRY(ls_mpi__count_arg(at, of_comm, "the count", outcount));
    MPI_TRY(ls_mpi__type_arg(&of, at, of_comm, type, true));
    MPI_TRY(ls_mpi__buffer_arg(at, of_comm, outbuf, outcount, of));
    size_t bytes = (size_t)outcount * of->size;
    if (*position < 0 || *position > insize - (MPI_Aint)bytes) {
        return ls_mpi__error(at.me, of_comm, MPI_ERR_ARG, at.function,
                             "%zu bytes are not in %ld from position %ld on", bytes, (long)insize,
                             (long)*position);
    }
    ls_mpi__touch_typed(at.me, outbuf, (size_t)outcount, of, true, at.function);
    (void)ls_mpi__unpack(outbuf, (size_t)outcount, of, (const char *)inbuf + *position, bytes);
    *position += (MPI_Aint)bytes;
    return MPI_SUCCESS;
}

int MPI_Pack(const void *inbuf, int incount, MPI_Datatype type, void *outbuf, int outsize,
             int *position, MPI_Comm comm) {
    MPI_ENTER_AT(at);
    MPI_Aint wide = *position;
    int status = pack(at, comm, inbuf, incount, type, outbuf, outsize, &wide);
    *position = (int)wide;
    return status;
}

int MPI_Unpack(const void *inbuf, int insize, int *position, void *outbuf, int outcount,
               MPI_Datatype type, MPI_Comm comm) {
    MPI_ENTER_AT(at);
    MPI_Aint wide = *position;
    int status = unpack(at, comm, inbuf, insize, &wide, outbuf, outcount, type);
    *position = (int)wide;
    return status;
}

int MPI_Pack_size(int incount, MPI_Datatype type, MPI_Comm comm, int *size) {
    MPI_ENTER_AT(at);
    mpi_comm *of_comm;
    mpi_type *of;
    MPI_TRY(ls_mpi__comm_arg(&of_comm, at, comm));
    MPI_TRY(ls_mpi__count_arg(at, of_comm, "the count", incount));
    MPI_TRY(ls_mpi__type_arg(&of, at, of_comm, type, true));
    MPI_TRY(ls_mpi__reach_arg(at, of_comm, NULL, (size_t)incount, of));
    size_t bytes = (size_t)incount * of->size;
    *size = bytes > INT32_MAX ? MPI_UNDEFINED : (int)bytes;
    return MPI_SUCCESS;
}
