// Queries about requests and handles. They change nothing.
#include <stdio.h>
#include <time.h>
#include <string.h>
#include "mpi/coll.h"
#include <stdlib.h>

#include "mpi/signals.h"

bool ls_mpi__request_done(const mpi_request *request) {
    if (request->kind == MPI_REQUEST_GENERAL) {
        return request->general_done;
    }
    if (ls_mpi__parts_open(request)) {
        return false;
    }
    return request->inner == NULL || request->inner->state == LS_REQUEST_DONE;
}

// The number of blocks of a side on this member: one for each member that it exchanges them with.
// reduce_scatter has one for each member of its own group.
int ls_mpi__blocks_of(const mpi_comm *comm, const mpi_collective *kind, bool send) {
    if (!kind->neighbors) {
        return comm->inter && !kind->reduces ? comm->remote_size : comm->size;
    }
    const mpi_topology *topology = comm->topology;
    return send ? topology->out_count : topology->in_count;
}

// the program has returned
void ls_mpi__returned(mpi_rank *me) {
    ls_mpi__blocks_look(me, true);
    ls_mpi__signals_end(me);
    if (me->initialised && !me->finalised) {
        ls_mpi__finding(me, LS_FINDING_CALL_INVALID, ls_mpi__file, ls_mpi__line,
                        "the program ends without MPI_Finalize");
    }
}
