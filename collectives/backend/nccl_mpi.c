// Messages between the processes of an NCCL job, over MPI, each under a deadline.
#include "collectives/backend/nccl_mpi.h"

#include <mpi.h>
#include <stdbool.h>
#include <time.h>

static int check(int result, const char *what) {
    return result == MPI_SUCCESS ? LS_OK : LS_FAIL(LS_ERR_BACKEND, "%s failed", what);
}

static int broadcast(void *data, void *buffer, size_t bytes, int root) {
    (void)data;
    return check(MPI_Bcast(buffer, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD), "MPI_Bcast");
}

// Receives from `peer` if its message is there.
static int try_receive(bool *received, ls_nccl_message *in, int peer, int tag) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int there = 0, bytes = 0;
    LS_TRY(check(MPI_Improbe(peer, tag, MPI_COMM_WORLD, &there, &message, &status), "MPI_Improbe"));
    if (!there) {
        return LS_OK;
    }
    LS_TRY(check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count"));
    in->bytes = (size_t)bytes;
    LS_TRY(ls_alloc(&in->data, NULL, in->bytes, 1));
    *received = true;
    return check(MPI_Mrecv(in->data, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
}

// Waits until all messages have come and gone; sets missing.
static int wait_all(MPI_Request *requests, MPI_Status *statuses, bool *received, const int *peers,
                    int peer_count, int tag, ls_nccl_message *in, double deadline, int *missing) {
    int sent = 0;
    while (true) {
        int first_missing = LS_RANK_NONE;
        for (int i = 0; i < peer_count; i++) {
            if (!received[i]) {
                LS_TRY(try_receive(&received[i], &in[i], peers[i], tag));
            }
            if (!received[i] && first_missing == LS_RANK_NONE) {
                first_missing = peers[i];
            }
        }
        LS_TRY(check(MPI_Testall(peer_count, requests, &sent, statuses), "MPI_Testall"));
        if (first_missing == LS_RANK_NONE && sent) {
            return LS_OK;
        }
        if (MPI_Wtime() > deadline) {
            *missing = first_missing;
            return LS_FAIL(LS_ERR_TIMEOUT, "a message to or from another process did not arrive");
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static int exchange(void *data, const int *peers, int peer_count, int tag,
                    const ls_nccl_message *out, ls_nccl_message *in, double deadline_seconds,
                    int *missing) {
    (void)data;
    if (peer_count == 0) {
        return LS_OK;
    }
    void *memory = NULL, *flags = NULL, *statuses = NULL;
    LS_TRY(ls_alloc(&memory, NULL, (size_t)peer_count, sizeof(MPI_Request)));
    int status = ls_alloc(&flags, NULL, (size_t)peer_count, sizeof(bool));
    if (status == LS_OK) {
        // gcc takes MPICH's MPI_STATUSES_IGNORE for an array of no bytes.
        status = ls_alloc(&statuses, NULL, (size_t)peer_count, sizeof(MPI_Status));
    }
    MPI_Request *requests = memory;
    for (int i = 0; i < peer_count; i++) {
        requests[i] = MPI_REQUEST_NULL;
        in[i] = (ls_nccl_message){NULL, 0};
    }
    for (int i = 0; i < peer_count && status == LS_OK; i++) {
        status = check(MPI_Isend(out[i].data, (int)out[i].bytes, MPI_BYTE, peers[i], tag,
                                 MPI_COMM_WORLD, &requests[i]),
                       "MPI_Isend");
    }
    if (status == LS_OK) {
        status = wait_all(requests, statuses, flags, peers, peer_count, tag, in,
                          MPI_Wtime() + deadline_seconds, missing);
    }
    ls_free(NULL, statuses, (size_t)peer_count, sizeof(MPI_Status));
    ls_free(NULL, flags, (size_t)peer_count, sizeof(bool));
    if (status == LS_OK) {
        // Requests that MPI still holds stay: the process ends after a failure.
        ls_free(NULL, memory, (size_t)peer_count, sizeof(MPI_Request));
    }
    return status;
}

int ls_nccl_mpi_bootstrap(ls_nccl_bootstrap *out) {
    MPI_Comm local = MPI_COMM_NULL;
    *out = (ls_nccl_bootstrap){.broadcast = broadcast, .exchange = exchange};
    LS_TRY(
        check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local),
              "MPI_Comm_split_type"));
    int status = check(MPI_Comm_rank(local, &out->local_rank), "MPI_Comm_rank");
    (void)MPI_Comm_free(&local);
    return status;
}
