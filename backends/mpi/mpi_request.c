// The communicator and the requests of a group's calls.

#include "backends/mpi/mpi_internal.h"

int ls_mpi__request(MPI_Request **out, ls_mpi_group *group) {
    LS_ASSERT(group->request_count < group->request_room);
    *out = &group->requests[group->request_count++];
    **out = MPI_REQUEST_NULL;
    return LS_OK;
}

MPI_Comm ls_mpi__comm(const ls_comm *comm) {
    return ((const ls_mpi_comm *)comm->impl)->comm;
}
