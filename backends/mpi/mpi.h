// The MPI backend: one process per rank. Only in programs that link lockstep_mpi_backend; the
// simulator has no MPI inside.
#ifndef LS_BACKENDS_MPI_MPI_H
#define LS_BACKENDS_MPI_MPI_H

#include "collectives/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

// Starts MPI and returns this process's rank and the number of ranks. Once for each process. From
// now on the processes of mpiexec are killed with its parent.
LS_API int ls_mpi_init(int *rank, int *size);
LS_API void ls_mpi_finalize(void);
// Ends all processes of the job, a quarter of a second later: mpiexec passes on what was written
// before.
LS_API LS_NORETURN void ls_mpi_abort(int code);
const char *ls_mpi_version(void);  // "MPICH 4.0.2"; static storage

// The backend for a world that holds only this process's rank. MPI must be running.
LS_API int ls_backend_mpi_create(ls_backend **out, ls_world *world);

// From now on calls go to MPI unchecked, without agreement, as in an ordinary program: a mismatch
// then hangs, fails or goes unnoticed. Shows MPI's own behaviour.
LS_API void ls_backend_mpi_trust(ls_backend *backend);

// ---- Inside the library -------------------------------------------------------------------------
// Turns an MPI result into LS_OK or LS_ERR_BACKEND with MPI's words; `what` is the MPI function.
int ls_mpi__status(int result, const char *what);
#define LS_MPI_TRY(call, what) LS_TRY(ls_mpi__status((call), (what)))

#ifdef __cplusplus
}
#endif
#endif
