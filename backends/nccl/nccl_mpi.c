// Messages between the processes of an NCCL job, over MPI.
#include "backends/nccl/nccl_mpi.h"

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <string.h>

static int check(int result, const char *what) {
    return result == MPI_SUCCESS ? LS_OK : LS_FAIL(LS_ERR_BACKEND, "%s failed", what);
}

static int broadcast(void *data, void *buffer, size_t bytes, int root) {
    (void)data;
    return check(MPI_Bcast(buffer, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD), "MPI_Bcast");
}

// A message on its way: MPI reads it until it is gone.
typedef struct posted {
    struct posted *next;
    MPI_Request request;
    size_t bytes;
    char data[];
} posted;

static posted *under_way;  // of this process, which runs one job

static int reap(void) {
    for (posted **at = &under_way; *at != NULL;) {
        posted *message = *at;
        int gone = 0;
        LS_TRY(check(MPI_Test(&message->request, &gone, MPI_STATUS_IGNORE), "MPI_Test"));
        if (!gone) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        ls_free(message, sizeof *message + message->bytes, 1);
    }
    return LS_OK;
}

static int post(void *data, int to, int tag, const void *bytes, size_t count) {
    (void)data;
    void *memory = NULL;
    size_t room = 0;
    LS_TRY(reap());
    if (count > INT_MAX) {
        return LS_FAIL(LS_ERR_LIMIT, "a message of %zu bytes to rank %d", count, to);
    }
    LS_TRY(ls_size_add(&room, sizeof(posted), count));
    LS_TRY(ls_alloc(&memory, room, 1));
    posted *message = memory;
    message->bytes = count;
    if (count != 0) {
        memcpy(message->data, bytes, count);
    }
    int status = check(
        MPI_Isend(message->data, (int)count, MPI_BYTE, to, tag, MPI_COMM_WORLD, &message->request),
        "MPI_Isend");
    if (status != LS_OK) {
        ls_free(message, room, 1);
        return status;
    }
    message->next = under_way;
    under_way = message;
    return LS_OK;
}

static int poll(void *data, int from, int tag, ls_nccl_message *out, bool *there) {
    (void)data;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int found = 0, bytes = 0;
    *there = false;
    LS_TRY(reap());
    LS_TRY(check(MPI_Improbe(from, tag, MPI_COMM_WORLD, &found, &message, &status), "MPI_Improbe"));
    if (!found) {
        return LS_OK;
    }
    LS_TRY(check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count"));
    *out = (ls_nccl_message){.bytes = (size_t)bytes};
    LS_TRY(ls_alloc(&out->data, out->bytes, 1));
    *there = true;
    return check(MPI_Mrecv(out->data, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
}

int ls_nccl_mpi_bootstrap(ls_nccl_bootstrap *out) {
    MPI_Comm local = MPI_COMM_NULL;
    *out = (ls_nccl_bootstrap){.broadcast = broadcast, .post = post, .poll = poll};
    LS_TRY(
        check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local),
              "MPI_Comm_split_type"));
    int status = check(MPI_Comm_rank(local, &out->local_rank), "MPI_Comm_rank");
    (void)MPI_Comm_free(&local);
    return status;
}
