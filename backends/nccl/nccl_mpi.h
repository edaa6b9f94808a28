// How the processes of an NCCL job reach each other: over MPI. Only in lockstep-mpi.
#ifndef LS_BACKENDS_NCCL_NCCL_MPI_H
#define LS_BACKENDS_NCCL_NCCL_MPI_H

#include "backends/nccl/nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

// MPI must be running (ls_mpi_init). Valid until ls_mpi_finalize.
LS_API int ls_nccl_mpi_bootstrap(ls_nccl_bootstrap *out);

#ifdef __cplusplus
}
#endif
#endif
