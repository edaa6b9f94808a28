// Statuses, operations and datatypes that a call refuses, or that only other calls accept.
#include "cases.h"

static int values[16], keep_it;
static MPI_Win window;

// Each rank's message to itself, in flight.
static MPI_Request to_myself(void) {
    MPI_Request request;
    MPI_Isend(&rank, 1, MPI_INT, rank, 0, WORLD, &request);
    return request;
}

static void no_status_of_recv(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    // wrong: call.invalid, MPI_Recv: MPI_ERR_ARG: the status argument is NULL
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_sendrecv(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    int to = MPI_PROC_NULL;
    // wrong: call.invalid, MPI_Sendrecv: MPI_ERR_ARG: the status argument is NULL
    MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, values, 1, MPI_INT, rank, 0, WORLD, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_replace(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    // wrong: call.invalid, MPI_Sendrecv_replace: MPI_ERR_ARG: the status argument is NULL
    MPI_Sendrecv_replace(values, 1, MPI_INT, MPI_PROC_NULL, 0, rank, 0, WORLD, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_probe(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    // wrong: call.invalid, MPI_Probe: MPI_ERR_ARG: the status argument is NULL
    MPI_Probe(rank, 0, WORLD, status);
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_iprobe(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    int flag;
    // wrong: call.invalid, MPI_Iprobe: MPI_ERR_ARG: the status argument is NULL
    MPI_Iprobe(rank, 0, WORLD, &flag, status);
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_mprobe(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    MPI_Message message;
    // wrong: call.invalid, MPI_Mprobe: MPI_ERR_ARG: the status argument is NULL
    MPI_Mprobe(rank, 0, WORLD, &message, status);
    MPI_Mrecv(values, 1, MPI_INT, &message, STATUS);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_improbe(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    MPI_Message message;
    int flag;
    // wrong: call.invalid, MPI_Improbe: MPI_ERR_ARG: the status argument is NULL
    MPI_Improbe(rank, 0, WORLD, &flag, &message, status);
    MPI_Mrecv(values, 1, MPI_INT, &message, STATUS);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_mrecv(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    MPI_Message message;
    MPI_Mprobe(rank, 0, WORLD, &message, STATUS);
    // wrong: call.invalid, MPI_Mrecv: MPI_ERR_ARG: the status argument is NULL
    MPI_Mrecv(values, 1, MPI_INT, &message, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_wait(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    // wrong: call.invalid, MPI_Wait: MPI_ERR_ARG: the status argument is NULL
    MPI_Wait(&request, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_test(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    int flag;
    // wrong: call.invalid, MPI_Test: MPI_ERR_ARG: the status argument is NULL
    MPI_Test(&request, &flag, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_get_status(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    int flag;
    // wrong: call.invalid, MPI_Request_get_status: MPI_ERR_ARG: the status argument is NULL
    MPI_Request_get_status(request, &flag, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_waitall(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : MPI_STATUSES_IGNORE;
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    // wrong: call.invalid, MPI_Waitall: MPI_ERR_ARG: the status argument is NULL
    MPI_Waitall(1, &request, status);
    MPI_Waitall(0, NULL, NULL);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_waitany(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    int index;
    // wrong: call.invalid, MPI_Waitany: MPI_ERR_ARG: the status argument is NULL
    MPI_Waitany(1, &request, &index, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_waitsome(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : MPI_STATUSES_IGNORE;
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    int index, count;
    // wrong: call.invalid, MPI_Waitsome: MPI_ERR_ARG: the status argument is NULL
    MPI_Waitsome(1, &request, &count, &index, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_testall(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : MPI_STATUSES_IGNORE;
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    int flag;
    // wrong: call.invalid, MPI_Testall: MPI_ERR_ARG: the status argument is NULL
    MPI_Testall(1, &request, &flag, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_testany(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : STATUS;
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    int flag, index;
    // wrong: call.invalid, MPI_Testany: MPI_ERR_ARG: the status argument is NULL
    MPI_Testany(1, &request, &index, &flag, status);
    MPI_Wait(&request, STATUS);
}

static void no_status_of_testsome(void) {
    MPI_Request request = to_myself();
    MPI_Status *status = wrong ? NULL : MPI_STATUSES_IGNORE;
    MPI_Recv(values, 1, MPI_INT, rank, 0, WORLD, STATUS);
    int index, count;
    // wrong: call.invalid, MPI_Testsome: MPI_ERR_ARG: the status argument is NULL
    MPI_Testsome(1, &request, &count, &index, status);
    MPI_Wait(&request, STATUS);
}

static void count_of_an_ignored_status(void) {
    MPI_Status own, *status = wrong ? MPI_STATUS_IGNORE : &own;
    MPI_Sendrecv(&rank, 1, MPI_INT, rank, 0, values, 1, MPI_INT, rank, 0, WORLD, &own);
    // wrong: call.invalid, MPI_Get_count: MPI_ERR_ARG: the status is MPI_STATUS_IGNORE
    MPI_Get_count(status, MPI_INT, &keep_it);
}

static void cancelled_of_an_ignored_status(void) {
    MPI_Status own, *status = wrong ? MPI_STATUS_IGNORE : &own;
    MPI_Sendrecv(&rank, 1, MPI_INT, rank, 0, values, 1, MPI_INT, rank, 0, WORLD, &own);
    // wrong: call.invalid, MPI_Test_cancelled: MPI_ERR_ARG: the status is MPI_STATUS_IGNORE
    MPI_Test_cancelled(status, &keep_it);
}

// The program continues, and has lost data.
static void too_long_and_returned(void) {
    MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Send(values, 4, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        int code, class, count = wrong ? 3 : 4;
        code = MPI_Recv(values, count, MPI_INT, 0, 0, WORLD, STATUS);  // wrong: p2p.count_mismatch
        MPI_Error_class(code, &class);
        keep_it = class == MPI_ERR_TRUNCATE;
    }
}

static void too_long_for_a_request(void) {
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Send(values, 4, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        int count = wrong ? 3 : 4;
        // wrong: p2p.count_mismatch, MPI_ERR_TRUNCATE
        MPI_Irecv(values, count, MPI_INT, 0, 0, WORLD, &request);
        int code = MPI_Waitall(1, &request, &status);
        if (wrong ? code != MPI_ERR_IN_STATUS || status.MPI_ERROR != MPI_ERR_TRUNCATE : code) {
            abort();
        }
    }
}

static void too_long_for_a_matched_receive(void) {
    MPI_Request request;
    MPI_Message message;
    if (rank == 0) {
        MPI_Send(values, 4, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        int count = wrong ? 3 : 4;
        MPI_Mprobe(0, 0, WORLD, &message, STATUS);
        // wrong: p2p.count_mismatch, MPI_ERR_TRUNCATE
        MPI_Imrecv(values, count, MPI_INT, &message, &request);
        keep_it = MPI_Wait(&request, STATUS);
    }
}

static void too_long_for_a_matched_receive_and_returned(void) {
    MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
    MPI_Request request;
    MPI_Message message;
    if (rank == 0) {
        MPI_Send(values, 4, MPI_INT, 1, 0, WORLD);
    } else if (rank == 1) {
        int count = wrong ? 3 : 4;
        MPI_Mprobe(0, 0, WORLD, &message, STATUS);
        // wrong: p2p.count_mismatch, MPI_ERR_TRUNCATE
        MPI_Imrecv(values, count, MPI_INT, &message, &request);
        keep_it = MPI_Wait(&request, STATUS);
    }
}

static void store_before_the_wait_of_imrecv(void) {
    MPI_Request request = to_myself(), received;
    MPI_Message message;
    MPI_Mprobe(rank, 0, WORLD, &message, STATUS);
    MPI_Imrecv(values, 1, MPI_INT, &message, &received);
    values[1] = 1;
    if (wrong) {
        values[0] = 1;  // wrong: buffer.use_before_wait, that MPI_Imrecv, made at
    }
    MPI_Wait(&received, STATUS);
    values[0] = 2;
    MPI_Wait(&request, STATUS);
}

static void replace_of_allreduce(void) {
    MPI_Op op = wrong ? MPI_REPLACE : MPI_SUM;
    // wrong: call.invalid, MPI_Allreduce: MPI_ERR_OP: MPI_REPLACE is for accumulates on windows
    MPI_Allreduce(&rank, &keep_it, 1, MPI_INT, op, WORLD);
}

static void no_op_of_reduce(void) {
    MPI_Op op = wrong ? MPI_NO_OP : MPI_SUM;
    // wrong: call.invalid, MPI_Reduce: MPI_ERR_OP: MPI_NO_OP is for accumulates on windows
    MPI_Reduce(&rank, &keep_it, 1, MPI_INT, op, 0, WORLD);
}

static void replace_of_ireduce(void) {
    MPI_Request request;
    MPI_Op op = wrong ? MPI_REPLACE : MPI_SUM;
    // wrong: call.invalid, MPI_Ireduce: MPI_ERR_OP: MPI_REPLACE is for accumulates on windows
    MPI_Ireduce(&rank, &keep_it, 1, MPI_INT, op, 0, WORLD, &request);
    MPI_Wait(&request, STATUS);
}

static void replace_of_scan(void) {
    MPI_Op op = wrong ? MPI_REPLACE : MPI_SUM;
    // wrong: call.invalid, MPI_Scan: MPI_ERR_OP: MPI_REPLACE is for accumulates on windows
    MPI_Scan(&rank, &keep_it, 1, MPI_INT, op, WORLD);
}

static void replace_of_exscan(void) {
    MPI_Op op = wrong ? MPI_REPLACE : MPI_SUM;
    // wrong: call.invalid, MPI_Exscan: MPI_ERR_OP: MPI_REPLACE is for accumulates on windows
    MPI_Exscan(&rank, &keep_it, 1, MPI_INT, op, WORLD);
}

static void replace_of_reduce_scatter(void) {
    MPI_Op op = wrong ? MPI_REPLACE : MPI_SUM;
    // wrong: call.invalid, MPI_Reduce_scatter_block: MPI_ERR_OP: MPI_REPLACE is for accumulates
    MPI_Reduce_scatter_block(values, &keep_it, 1, MPI_INT, op, WORLD);
}

static void no_op_of_reduce_local(void) {
    MPI_Op op = wrong ? MPI_NO_OP : MPI_SUM;
    // wrong: call.invalid, MPI_Reduce_local: MPI_ERR_OP: MPI_NO_OP is for accumulates on windows
    MPI_Reduce_local(&rank, &keep_it, 1, MPI_INT, op);
}

static void no_op_of_an_accumulate(void) {
    int got = 0;
    MPI_Win_create(values, sizeof values, sizeof(int), MPI_INFO_NULL, WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Fetch_and_op(NULL, &got, MPI_INT, rank, 0, MPI_NO_OP, window);
    MPI_Op op = wrong ? MPI_NO_OP : MPI_REPLACE;
    // wrong: call.invalid, MPI_Accumulate: MPI_ERR_OP: only accumulates that fetch accept MPI_NO_OP
    MPI_Accumulate(&rank, 1, MPI_INT, rank, 1, 1, MPI_INT, op, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

// Two elements each, the second of which may overlap the first of the next: it can be sent.
static MPI_Datatype pairs(bool overlap) {
    MPI_Datatype made;
    const int places[2] = {0, overlap ? 1 : 2};
    MPI_Type_create_indexed_block(2, 2, places, MPI_INT, &made);
    MPI_Type_commit(&made);
    return made;
}

static void overlap_in_a_receive(void) {
    MPI_Datatype out = pairs(true), in = pairs(wrong);
    if (rank == 0) {
        MPI_Send(values, 1, out, 1, 0, WORLD);
    } else if (rank == 1) {
        // wrong: call.invalid, MPI_Recv: MPI_ERR_TYPE: entries of the datatype overlap
        MPI_Recv(values, 1, in, 0, 0, WORLD, STATUS);
    }
    MPI_Type_free(&out);
    MPI_Type_free(&in);
}

// Columns of a matrix interleave; here the second begins on the first.
static void overlap_of_elements_in_a_request(void) {
    MPI_Datatype column, narrow;
    MPI_Request request;
    MPI_Type_vector(2, 1, 4, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, wrong ? 16 : 4, &narrow);
    MPI_Type_commit(&narrow);
    if (rank == 0) {
        // wrong: call.invalid, MPI_Irecv: MPI_ERR_TYPE: entries of the datatype overlap
        MPI_Irecv(values, 3, narrow, 1, 0, WORLD, &request);
        MPI_Wait(&request, STATUS);
    } else if (rank == 1) {
        MPI_Send(values, 6, MPI_INT, 0, 0, WORLD);
    }
    MPI_Type_free(&narrow);
    MPI_Type_free(&column);
}

static void overlap_in_a_put(void) {
    MPI_Datatype out = pairs(true), in = pairs(wrong);
    MPI_Win_create(values, sizeof values, sizeof(int), MPI_INFO_NULL, WORLD, &window);
    MPI_Win_fence(0, window);
    // wrong: call.invalid, MPI_Put: MPI_ERR_TYPE: entries of the datatype overlap
    MPI_Put(values + 8, 1, out, rank, 0, 1, in, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Type_free(&out);
    MPI_Type_free(&in);
}

static void overlap_in_a_get(void) {
    MPI_Datatype in = pairs(wrong), out = pairs(true);
    MPI_Win_create(values, 8 * sizeof(int), sizeof(int), MPI_INFO_NULL, WORLD, &window);
    MPI_Win_fence(0, window);
    // wrong: call.invalid, MPI_Get: MPI_ERR_TYPE: entries of the datatype overlap
    MPI_Get(values + 8, 1, in, rank, 0, 1, out, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Type_free(&in);
    MPI_Type_free(&out);
}

static void overlap_of_gathered_blocks(void) {
    const int counts[3] = {2, 0, 2}, places[3] = {0, 1, wrong ? 1 : 2};
    // wrong: call.invalid, MPI_Gatherv: MPI_ERR_BUFFER: the blocks that it receives overlap
    MPI_Gatherv(&values[8], rank == 1 ? 0 : 2, MPI_INT, values, counts, places, MPI_INT, 0, WORLD);
}

static void overlap_of_exchanged_blocks(void) {
    MPI_Datatype columns[3], column;
    MPI_Type_vector(2, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    const int ones[3] = {1, 1, 1}, places[3] = {0, 4, wrong ? 16 : 8};
    for (int i = 0; i < 3; i++) {
        columns[i] = column;
    }
    // wrong: call.invalid, MPI_Alltoallw: MPI_ERR_BUFFER: the blocks that it receives overlap
    MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, values, ones, places, columns, WORLD);
    MPI_Type_free(&column);
}

#define CASE(name)                                                                                 \
    { #name, name }
CASES(CASE(no_status_of_recv), CASE(no_status_of_sendrecv), CASE(no_status_of_replace),
      CASE(no_status_of_probe), CASE(no_status_of_iprobe), CASE(no_status_of_mprobe),
      CASE(no_status_of_improbe), CASE(no_status_of_mrecv), CASE(no_status_of_wait),
      CASE(no_status_of_test), CASE(no_status_of_get_status), CASE(no_status_of_waitall),
      CASE(no_status_of_waitany), CASE(no_status_of_waitsome), CASE(no_status_of_testall),
      CASE(no_status_of_testany), CASE(no_status_of_testsome), CASE(count_of_an_ignored_status),
      CASE(cancelled_of_an_ignored_status), CASE(too_long_and_returned),
      CASE(too_long_for_a_request), CASE(too_long_for_a_matched_receive),
      CASE(too_long_for_a_matched_receive_and_returned), CASE(store_before_the_wait_of_imrecv),
      CASE(replace_of_allreduce), CASE(no_op_of_reduce), CASE(replace_of_ireduce),
      CASE(replace_of_scan), CASE(replace_of_exscan), CASE(replace_of_reduce_scatter),
      CASE(no_op_of_reduce_local), CASE(no_op_of_an_accumulate), CASE(overlap_in_a_receive),
      CASE(overlap_of_elements_in_a_request), CASE(overlap_in_a_put), CASE(overlap_in_a_get),
      CASE(overlap_of_gathered_blocks), CASE(overlap_of_exchanged_blocks))
