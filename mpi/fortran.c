// Handles as Fortran has them, for C programs that hand them on: the same numbers. A status is as
// many integers as it takes.
#include <string.h>

#include "mpi/internal.h"

_Static_assert(MPI_F_STATUS_SIZE * sizeof(MPI_Fint) == sizeof(MPI_Status), "a status of integers");

#define CONVERSIONS(name, type)                                                                    \
    MPI_Fint name##_c2f(type handle) {                                                             \
        return handle;                                                                             \
    }                                                                                              \
    type name##_f2c(MPI_Fint handle) {                                                             \
        return handle;                                                                             \
    }
CONVERSIONS(MPI_Comm, MPI_Comm)
CONVERSIONS(MPI_Type, MPI_Datatype)
CONVERSIONS(MPI_Group, MPI_Group)
CONVERSIONS(MPI_Op, MPI_Op)
CONVERSIONS(MPI_Request, MPI_Request)
CONVERSIONS(MPI_Win, MPI_Win)
CONVERSIONS(MPI_Info, MPI_Info)
CONVERSIONS(MPI_Errhandler, MPI_Errhandler)
CONVERSIONS(MPI_Message, MPI_Message)

int MPI_Status_c2f(const MPI_Status *status, MPI_Fint *out) {
    memcpy(out, status, sizeof *status);
    return MPI_SUCCESS;
}

int MPI_Status_f2c(const MPI_Fint *status, MPI_Status *out) {
    memcpy(out, status, sizeof *out);
    return MPI_SUCCESS;
}
