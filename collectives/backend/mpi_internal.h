// What the files of the MPI backend share. Private to it.
#ifndef LS_COLLECTIVES_BACKEND_MPI_INTERNAL_H
#define LS_COLLECTIVES_BACKEND_MPI_INTERNAL_H

#include <mpi.h>

#include "collectives/backend/backend.h"
#include "collectives/check.h"

// Turns an MPI result into LS_OK or LS_ERR_BACKEND with MPI's words; `what` is the MPI function.
int ls_mpi__status(int result, const char *what);
#define LS_MPI_TRY(call, what) LS_TRY(ls_mpi__status((call), (what)))

// ---- Types and operations (mpi_types.c) ---------------------------------------------------------
int ls_mpi__types_open(void);
void ls_mpi__types_close(void);
MPI_Datatype ls_mpi__type(ls_dtype dtype);
// MPI's own operation where MPI knows the type, else one that folds with lockstep's kernels. avg
// and premul_sum are sums.
MPI_Op ls_mpi__op(ls_op op, ls_dtype dtype);
// elements [count] of dtype divided by `divisor` in place: floats rounded once (f8 through f16),
// integers toward zero.
void ls_mpi__divide(void *elements, ls_dtype dtype, int divisor, size_t count);

// ---- Agreement (mpi_agree.c) --------------------------------------------------------------------
// What a group of calls needs while it is in flight.
typedef struct ls_mpi_group {
    ls_call *calls;    // [call_count] of this process's rank
    int call_count;    //
    bool *any_counts;  // [call_count] whether some member of call i's set gives counts
    ls_arena *arena;   // arrays that MPI reads until the calls are complete
    MPI_Request *requests;
    MPI_Status *statuses;  // [request_room]
    int request_count, request_room;
} ls_mpi_group;

int ls_mpi__request(MPI_Request **out, ls_mpi_group *group);
int ls_mpi__wait(ls_mpi_group *group);

// Exchanges what every member of each communicator asks for and checks it with the descriptors, so
// that ranks that disagree all get the same error instead of a hang. `own_status` is what this
// process's own checks gave; the others learn when it failed.
int ls_mpi__agree(ls_mpi_group *group, int own_status);

// ---- Moving (mpi_move.c) ------------------------------------------------------------------------
// Starts all calls and completes them.
int ls_mpi__move(ls_mpi_group *group);

// The communicator's MPI handle.
MPI_Comm ls_mpi__comm(const ls_comm *comm);

#endif
