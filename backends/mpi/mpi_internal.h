// Shared by the files of the MPI backend. Private to it.
#pragma once

#include <mpi.h>

#include "backends/backend.h"
#include "backends/mpi/mpi.h"
#include "collectives/check.h"

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

// ---- Groups of calls on their way (mpi_group.c) -------------------------------------------------
// The state of a group until it is done. It has phases, each of which starts requests that must
// complete before the next. No wait happens in between, so several groups can be in progress at
// once.
typedef struct ls_mpi_group {
    struct ls_mpi_group *next;  // under way, oldest first
    ls_call *calls;             // [call_count] of this process's rank
    int call_count;             //
    bool *any_counts;           // [call_count] whether some member of call i's set gives counts
    ls_arena *arena;            // arrays that MPI reads until the calls are complete
    MPI_Request *requests;
    MPI_Status *statuses;  // [request_room]
    int request_count, request_room;
    int phase;    // the next; 0: has not begun
    bool trusts;  // does not agree with the others first
    bool done;
    int status;  // once done, with its error and finding
    ls_error error;
    ls_check_failure failure;
    int own_status;  // of this process's own checks
    ls_error own_error;
    ls_check_failure own_failure;
    struct ls_mpi_batch *batches;  // [batch_count] collectives by communicator, see mpi_agree.c
    int batch_count;
    struct ls_mpi_pair *pairs;  // [call_count] sends and receives
    struct ls_mpi_end *ends;    // [call_count] remaining work after the data has arrived
} ls_mpi_group;

// Joins calls [call_count] (borrowed until done) to what is under way in `list`.
int ls_mpi__group_open(ls_mpi_group **out, ls_mpi_group **list, ls_call *calls, int call_count,
                       bool trusts);
// Moves on everything in the list that can move; errors are those of the groups.
void ls_mpi__advance(ls_mpi_group *list);
// Takes a group that is done out of the list, and returns its status, with its error and finding.
int ls_mpi__group_close(ls_mpi_group *group, ls_mpi_group **list);
int ls_mpi__request(MPI_Request **out, ls_mpi_group *group);

// ---- Agreement (mpi_agree.c) --------------------------------------------------------------------
// Exchanges what every member of each communicator asks for and checks it with the descriptors, so
// that ranks that disagree all get the same error instead of a hang. The others learn where this
// process's own checks failed (own_status). One phase each:
int ls_mpi__agree_begin(ls_mpi_group *group);
int ls_mpi__agree_fingerprints(ls_mpi_group *group);
int ls_mpi__agree_counts(ls_mpi_group *group);
int ls_mpi__agree_check(ls_mpi_group *group);

// ---- Moving (mpi_move.c) ------------------------------------------------------------------------
int ls_mpi__move_begin(ls_mpi_group *group);  // starts all calls
int ls_mpi__move_end(ls_mpi_group *group);    // remaining work after the data has arrived

typedef struct ls_mpi_comm {
    MPI_Comm comm;  // MPI_COMM_NULL where this rank is no member
} ls_mpi_comm;

// The communicator's MPI handle.
MPI_Comm ls_mpi__comm(const ls_comm *comm);
