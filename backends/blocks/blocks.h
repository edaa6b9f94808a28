// The simulator spread over MPI processes: each holds a block of the world's ranks, and the math of
// a call is the simulator's, done by every process that has a member of it. MPI carries what the
// members put in. Only in programs that link lockstep_mpi_backend; MPI must be running
// (backends/mpi/mpi.h).
#pragma once

#include "collectives/collectives.h"

// The ranks [*first, *first + *count) of process `process` of `processes`, at most one per rank:
// blocks of one size, or of two that differ by one.
void ls_blocks_of(int *first, int *count, int ranks, int process, int processes);

// The backend for a world that holds this process's block. If another process has failed and its
// data does not arrive, calls are LS_ERR_RANK_DIED.
int ls_backend_blocks_create(ls_backend **out, ls_world *world);

// Gives process 0's data [bytes] to all processes. A process that waits for it leaves the processor
// to others.
int ls_blocks_share(void *data, size_t bytes);
// Waits until every process has arrived, and returns whether all are well. A failed one reports
// this; processes that wait for its data in a call then fail. After that the processes can only
// end.
int ls_blocks_meet(bool *all_well, bool well);
