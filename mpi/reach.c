// How far datatypes and the buffers of calls may reach: all products of counts, extents and
// displacements are bounded here.
#include "mpi/data.h"

bool ls_mpi__fits(ptrdiff_t *out, ptrdiff_t base, ptrdiff_t n, ptrdiff_t each) {
    ptrdiff_t product;
    return !__builtin_mul_overflow(n, each, &product) &&
           !__builtin_add_overflow(base, product, out) && *out <= LS_MPI_REACH &&
           *out >= -LS_MPI_REACH;
}
