// Conversions of handles for Fortran, for C programs that pass them on: the numbers are the same. A
// status has as many integers in both.
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
CONVERSIONS(MPI_File, MPI_File)

#define STATUS(name, from, to)                                                                     \
    int MPI_Status_##name(const from *status, to *out) {                                           \
        memcpy(out, status, sizeof(MPI_Status));                                                   \
        return MPI_SUCCESS;                                                                        \
    }
STATUS(c2f, MPI_Status, MPI_Fint)
STATUS(f2c, MPI_Fint, MPI_Status)
STATUS(c2f08, MPI_Status, MPI_F08_status)
STATUS(f082c, MPI_F08_status, MPI_Status)
STATUS(f082f, MPI_F08_status, MPI_Fint)
STATUS(f2f08, MPI_Fint, MPI_F08_status)
