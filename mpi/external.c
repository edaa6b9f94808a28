// Packing as "external32" (MPI 3.1, 13.5.2): big-endian, integers of the sizes in that table, IEEE
// numbers. These bytes mean the same on every machine.
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

// The representation of a basic type: a number of parts with their size in memory and in the packed
// form.
typedef struct form {
    size_t own, external;
    int parts;
    enum { BYTES, SIGNED, UNSIGNED, LONG_DOUBLE } how;
} form;

static form form_of(const mpi_type *basic) {
    size_t size = basic->size;
    switch (basic->handle) {
    case MPI_WCHAR:
        return (form){size, 2, 1, SIGNED};
    case MPI_LONG:
        return (form){size, 4, 1, SIGNED};
    case MPI_UNSIGNED_LONG:
        return (form){size, 4, 1, UNSIGNED};
    case MPI_LONG_DOUBLE:
        return (form){size, 16, 1, LONG_DOUBLE};
    case MPI_C_LONG_DOUBLE_COMPLEX:
        return (form){size / 2, 16, 2, LONG_DOUBLE};
    case MPI_C_FLOAT_COMPLEX:
    case MPI_C_DOUBLE_COMPLEX:
        return (form){size / 2, size / 2, 2, BYTES};
    default:
        return (form){size, size, 1, BYTES};
    }
}

static void reverse(unsigned char *out, const unsigned char *in, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        out[i] = in[bytes - 1 - i];
    }
}

#if LDBL_MANT_DIG == 64
// x87 has a sign, 15 bits of exponent and 64 bits with an explicit leading bit; binary128 omits
// that bit.
static void put_long_double(unsigned char *out, const unsigned char *in) {
    uint64_t fraction;
    memcpy(&fraction, in, sizeof fraction);
    fraction <<= 1;
    memset(out, 0, 16);
    reverse(out, in + 8, 2);
    reverse(out + 2, (const unsigned char *)&fraction, sizeof fraction);
}

static void get_long_double(unsigned char *out, const unsigned char *in) {
    uint64_t fraction;
    reverse((unsigned char *)&fraction, in + 2, sizeof fraction);
    bool normal = (in[0] & 0x7f) != 0 || in[1] != 0;
    fraction = fraction >> 1 | (uint64_t)(normal ? 1 : 0) << 63;
    memset(out, 0, sizeof(long double));
    memcpy(out, &fraction, sizeof fraction);
    reverse(out + 8, in, 2);
}
#else
static void put_long_double(unsigned char *out, const unsigned char *in) {
    reverse(out, in, 16);
}
static void get_long_double(unsigned char *out, const unsigned char *in) {
    reverse(out, in, 16);
}
#endif

static void put(unsigned char *out, const unsigned char *in, const form *f) {
    if (f->how == LONG_DOUBLE) {
        put_long_double(out, in);
    } else {
        reverse(out, in, f->external);
    }
}

static void get(unsigned char *out, const unsigned char *in, const form *f) {
    if (f->how == LONG_DOUBLE) {
        get_long_double(out, in);
        return;
    }
    memset(out, f->how == SIGNED && (in[0] & 0x80) != 0 ? 0xff : 0, f->own);
    reverse(out, in, f->external);
}

static size_t size_of(size_t count, const mpi_type *type) {
    size_t each = 0;
    for (size_t s = 0; s < type->segment_count; s++) {
        const form f = form_of(ls_mpi__basic(type->segments[s].basic));
        each += type->segments[s].count * f.external * (size_t)f.parts;
    }
    return count * each;
}

// Copies every part of every element out of or into the buffer.
static void convert(unsigned char *external, char *buf, size_t count, const mpi_type *type,
                    bool out) {
    for (size_t i = 0; i < count * type->segment_count; i++) {
        const mpi_segment *at = &type->segments[i % type->segment_count];
        const form f = form_of(ls_mpi__basic(at->basic));
        unsigned char *own =
            (unsigned char *)(uintptr_t)((intptr_t)buf +
                                         (intptr_t)(i / type->segment_count) * type->extent +
                                         at->offset);
        for (size_t n = 0; n < at->count * (size_t)f.parts; n++) {
            if (out) {
                put(external, own, &f);
            } else {
                get(own, external, &f);
            }
            external += f.external;
            own += f.own;
        }
    }
}

static int read_args(mpi_type **of, mpi_where at, const char *datarep, const void *buf, int count,
                     MPI_Datatype type, const MPI_Aint *position, MPI_Aint room) {
    if (datarep == NULL || strcmp(datarep, "external32") != 0) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function,
                             "the data representation is not \"external32\"");
    }
    MPI_TRY(ls_mpi__count_arg(at, NULL, "the count", count));
    MPI_TRY(ls_mpi__type_arg(of, at, NULL, type, true));
    MPI_TRY(ls_mpi__reach_arg(at, NULL, NULL, (size_t)count, *of));
    if (position == NULL) {  // only the size is requested
        return MPI_SUCCESS;
    }
    MPI_TRY(ls_mpi__buffer_arg(at, NULL, buf, count, *of));
    MPI_Aint bytes = (MPI_Aint)size_of((size_t)count, *of);
    return *position >= 0 && bytes <= room && *position <= room - bytes
               ? MPI_SUCCESS
               : ls_mpi__error(at.me, NULL, MPI_ERR_ARG, at.function,
                               "%ld bytes at %ld are not in a buffer of %ld", (long)bytes,
                               (long)*position, (long)room);
}

int MPI_Pack_external(const char datarep[], const void *inbuf, int incount, MPI_Datatype type,
                      void *outbuf, MPI_Aint outsize, MPI_Aint *position) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__out_arg(at, "position", position));
    MPI_TRY(read_args(&of, at, datarep, inbuf, incount, type, position, outsize));
    ls_mpi__touch_typed(at.me, inbuf, (size_t)incount, of, false, __func__);
    convert((unsigned char *)outbuf + *position, (char *)(uintptr_t)inbuf, (size_t)incount, of,
            true);
    *position += (MPI_Aint)size_of((size_t)incount, of);
    return MPI_SUCCESS;
}

int MPI_Unpack_external(const char datarep[], const void *inbuf, MPI_Aint insize,
                        MPI_Aint *position, void *outbuf, int outcount, MPI_Datatype type) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__out_arg(at, "position", position));
    MPI_TRY(read_args(&of, at, datarep, outbuf, outcount, type, position, insize));
    ls_mpi__touch_typed(at.me, outbuf, (size_t)outcount, of, true, __func__);
    convert((unsigned char *)(uintptr_t)inbuf + *position, outbuf, (size_t)outcount, of, false);
    *position += (MPI_Aint)size_of((size_t)outcount, of);
    return MPI_SUCCESS;
}

int MPI_Pack_external_size(const char datarep[], int incount, MPI_Datatype type, MPI_Aint *size) {
    MPI_ENTER_AT(at);
    mpi_type *of;
    MPI_TRY(ls_mpi__out_arg(at, "size", size));
    MPI_TRY(read_args(&of, at, datarep, NULL, incount, type, NULL, 0));
    *size = (MPI_Aint)size_of((size_t)incount, of);
    return MPI_SUCCESS;
}
