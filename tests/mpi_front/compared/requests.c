// Requests, of 4 ranks: waits and tests; persistent, partitioned and generalized requests;
// cancellation.
#include "say.h"

#define N 5
static int left, right;

static const char *state(MPI_Request request) {
    return request == MPI_REQUEST_NULL ? "null" : "there";
}

static void say_empty(const char *what, const MPI_Status *status) {
    int count, cancelled;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
    SAY(what, status->MPI_SOURCE == MPI_ANY_SOURCE, status->MPI_TAG == MPI_ANY_TAG, count,
        cancelled);
}

// `gate`: the sender sends the messages in this order, each on request.
static void any_and_some(int test) {
    static const int order[N] = {3, 0, 4, 1, 2};
    int in[N], indices[N] = {0}, index, count, flag;
    MPI_Request requests[N];
    MPI_Status status, statuses[N];
    if (me % 2) {
        for (int i = 0; i < N; i++) {
            int value = 10 * me + order[i];
            MPI_Recv(NULL, 0, MPI_INT, me - 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&value, 1, MPI_INT, me - 1, order[i], MPI_COMM_WORLD);
        }
        return;
    }
    for (int i = 0; i < N; i++) {
        MPI_Irecv(&in[i], 1, MPI_INT, me + 1, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Testall(N, requests, &flag, statuses);
    MPI_Testany(N, requests, &index, &count, &status);
    SAY("none yet", flag, count, index);
    MPI_Testsome(N, requests, &count, indices, statuses);
    MPI_Test(&requests[1], &flag, &status);
    SAY("none yet", count, flag);
    MPI_Request_get_status(requests[1], &flag, &status);
    SAY("none yet", flag);
    for (int i = 0; i < N; i++) {
        MPI_Send(NULL, 0, MPI_INT, me + 1, 99, MPI_COMM_WORLD);
        if (i % 2 == 0 && test) {
            for (flag = 0; !flag;) {
                MPI_Testany(N, requests, &index, &flag, &status);
            }
        } else if (i % 2 == 0) {
            MPI_Waitany(N, requests, &index, &status);
        } else if (test) {
            for (count = 0; count == 0;) {
                MPI_Testsome(N, requests, &count, indices, statuses);
            }
        } else {
            MPI_Waitsome(N, requests, &count, indices, statuses);
        }
        if (i % 2) {
            SAY("some", count, indices[0]);
            index = indices[0];
            status = statuses[0];
        }
        SAY("index", index, in[index]);
        say_status("one", &status, MPI_INT);
        for (int k = 0; k < N; k++) {
            printf(" %s%s", state(requests[k]), k == N - 1 ? "\n" : "");
        }
    }
    // nothing is open
    MPI_Waitany(N, requests, &index, &status);
    SAY("none", index);
    say_empty("none", &status);
    MPI_Waitsome(N, requests, &count, indices, statuses);
    SAY("none", count);
    MPI_Testany(N, requests, &index, &flag, &status);
    SAY("none", flag, index);
    say_empty("none", &status);
    MPI_Testsome(N, requests, &count, indices, statuses);
    SAY("none", count);
    MPI_Testall(N, requests, &flag, statuses);
    SAY("none", flag);
    say_empty("none", &statuses[N - 1]);
    MPI_Test(&requests[0], &flag, &status);
    SAY("none", flag);
    say_empty("none", &status);
    MPI_Request_get_status(requests[2], &flag, &status);
    SAY("none", flag);
    say_empty("none", &status);
    MPI_Waitall(N, requests, statuses);
    say_empty("none", &statuses[0]);
}

// Several are complete at once: all are returned at once, in order.
static void at_once(void) {
    int in[N], out[N], indices[N], count, flag;
    MPI_Request requests[N + 2], sends[N];
    MPI_Status statuses[N + 2];
    for (int how = 0; how < 4; how++) {
        requests[0] = requests[N + 1] = MPI_REQUEST_NULL;
        for (int i = 0; i < N; i++) {
            out[i] = 100 * how + 10 * me + i;
            MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i + 1]);
            MPI_Isend(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &sends[i]);
        }
        MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N; i++) {
            for (flag = 0; !flag;) {
                MPI_Request_get_status(requests[i + 1], &flag, &statuses[0]);
            }
            say_status("is there", &statuses[0], MPI_INT);
        }
        if (how == 0) {
            MPI_Waitall(N + 2, requests, statuses);
        } else if (how == 1) {
            MPI_Testall(N + 2, requests, &flag, statuses);
            SAY("all", flag);
        } else {
            (how == 2 ? MPI_Waitsome : MPI_Testsome)(N + 2, requests, &count, indices, statuses);
            SAY("some", count);
            say("these", count, indices);
        }
        for (int i = 0; i < N; i++) {
            say_status("was there", &statuses[how < 2 ? i + 1 : i], MPI_INT);
        }
        say("in", N, in);
        printf("%s\n", state(requests[1]));
    }
}

static void persistent(void) {
    int out[4], in[4], index, flag, bytes;
    char buffer[1024];
    MPI_Request requests[8];
    MPI_Status statuses[8];
    MPI_Buffer_attach(buffer, sizeof buffer);
    for (int i = 0; i < 4; i++) {
        MPI_Recv_init(&in[i], 1, MPI_INT, i == 1 ? MPI_ANY_SOURCE : left, i, MPI_COMM_WORLD,
                      &requests[i]);
    }
    MPI_Send_init(&out[0], 1, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[4]);
    MPI_Ssend_init(&out[1], 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[5]);
    MPI_Bsend_init(&out[2], 1, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[6]);
    MPI_Rsend_init(&out[3], 1, MPI_INT, right, 3, MPI_COMM_WORLD, &requests[7]);
    MPI_Wait(&requests[0], &statuses[0]);
    say_empty("not started", &statuses[0]);
    MPI_Testany(8, requests, &index, &flag, &statuses[0]);
    SAY("not started", index, flag);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            out[i] = 100 * round + 10 * me + i;
        }
        MPI_Startall(4, requests);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 4; i < 8; i++) {
            MPI_Start(&requests[i]);
        }
        MPI_Waitall(8, requests, statuses);
        for (int i = 0; i < 4; i++) {
            say_status("round", &statuses[i], MPI_INT);
        }
        say("in", 4, in);
        printf("%s %s\n", state(requests[0]), state(requests[7]));
    }
    for (int i = 0; i < 8; i++) {
        MPI_Request_free(&requests[i]);
    }
    printf("%s\n", state(requests[3]));
    void *back;
    MPI_Buffer_detach(&back, &bytes);
    SAY("buffer", back == buffer, bytes);
}

static void partitioned(void) {
    int out[12], in[12], flag;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Psend_init(out, 6, 2, MPI_INT, right, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 4, 3, MPI_INT, left, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 12; i++) {
            out[i] = 1000 * round + 100 * me + i;
            in[i] = -1;
        }
        MPI_Startall(2, requests);
        MPI_Pready(5, requests[0]);
        MPI_Pready_range(1, 3, requests[0]);
        MPI_Pready_list(2, (int[]){4, 0}, requests[0]);
        for (int i = 3; i >= 0; i--) {
            for (flag = 0; !flag;) {
                MPI_Parrived(requests[1], i, &flag);
            }
            SAY("part", i, in[3 * i], in[3 * i + 2]);
        }
        MPI_Waitall(2, requests, statuses);
        SAY("of", statuses[1].MPI_SOURCE, statuses[1].MPI_TAG);
        say("parts", 12, in);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static int query(void *state, MPI_Status *status) {
    int *calls = state;
    calls[0]++;
    MPI_Status_set_elements(status, MPI_INT, 3 + me);
    MPI_Status_set_cancelled(status, calls[2] > 0);
    status->MPI_SOURCE = 40 + me;
    status->MPI_TAG = 50 + me;
    return MPI_SUCCESS;
}

static int release(void *state) {
    ((int *)state)[1]++;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
    ((int *)state)[2] += complete ? 100 : 1;
    return MPI_SUCCESS;
}

static void general(void) {
    for (int how = 0; how < 4; how++) {
        int calls[3] = {0}, flag = -1, index = -1;
        MPI_Request request;
        MPI_Status status;
        MPI_Grequest_start(query, release, cancel, calls, &request);
        MPI_Test(&request, &flag, &status);
        SAY("open", flag, calls[0], calls[1], calls[2]);
        if (how == 1) {
            MPI_Cancel(&request);
        }
        MPI_Grequest_complete(request);
        if (how == 2) {
            MPI_Cancel(&request);
        }
        if (how == 0 || how == 2) {
            MPI_Wait(&request, &status);
        } else if (how == 1) {
            MPI_Test(&request, &flag, &status);
        } else {
            MPI_Waitany(1, &request, &index, &status);
        }
        SAY("done", flag, index, calls[0], calls[1], calls[2]);
        say_status("done", &status, MPI_INT);
        printf("%s\n", state(request));
    }
}

// A callback's error code is the result of the call.
static int query_fails(void *state, MPI_Status *status) {
    query(state, status);
    return MPI_ERR_BUFFER;
}

static int release_fails(void *state) {
    release(state);
    return MPI_ERR_COUNT;
}

static void say_code(const char *what, int code) {
    int class;
    MPI_Error_class(code, &class);
    printf("%s: %s\n", what,
           class == MPI_SUCCESS      ? "right"
           : class == MPI_ERR_BUFFER ? "buffer"
           : class == MPI_ERR_COUNT  ? "count"
                                     : "another");
}

static void general_errors(void) {
    int calls[3] = {0}, flag = -1;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int test = 0; test < 2; test++) {
        MPI_Grequest_start(query, release_fails, cancel, calls, &request);
        MPI_Grequest_complete(request);
        say_code("free", test ? MPI_Test(&request, &flag, &status) : MPI_Wait(&request, &status));
        MPI_Grequest_start(query_fails, release, cancel, calls, &request);
        MPI_Grequest_complete(request);
        say_code("query", test ? MPI_Test(&request, &flag, &status) : MPI_Wait(&request, &status));
        if (request != MPI_REQUEST_NULL) {
            MPI_Request_free(&request);
        }
    }
    MPI_Grequest_start(query, release, cancel, calls, &request);
    MPI_Grequest_complete(request);
    MPI_Request_get_status(request, &flag, &status);
    say_status("asked", &status, MPI_INT);
    calls[1] = 0;
    MPI_Request_free(&request);
    SAY("freed when complete", calls[1]);
    MPI_Request copy;
    MPI_Grequest_start(query, release, cancel, calls, &request);
    copy = request;
    MPI_Request_free(&request);
    MPI_Grequest_complete(copy);
    SAY("freed when open", calls[1]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

// A request reports its own completion.
static void cancelled_status(void) {
    int in, flag, said = 0;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&in, 1, MPI_INT, left, 81, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    for (flag = 0; !flag;) {
        MPI_Request_get_status(request, &flag, &status);
    }
    MPI_Test_cancelled(&status, &said);
    SAY("cancelled", said);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Issend(&me, 1, MPI_INT, 0, 82, MPI_COMM_SELF, &request);
    MPI_Cancel(&request);
    MPI_Request_get_status(request, &flag, &status);
    MPI_Test_cancelled(&status, &said);
    SAY("cancelled", flag, said);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void cancelled(void) {
    int in = -1, flag;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&in, 1, MPI_INT, left, 77, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    SAY("cancelled", flag, in);
    // one that is complete is not
    MPI_Request sent;
    MPI_Irecv(&in, 1, MPI_INT, left, 78, MPI_COMM_WORLD, &request);
    MPI_Isend(&me, 1, MPI_INT, right, 78, MPI_COMM_WORLD, &sent);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    for (flag = 0; !flag;) {
        MPI_Request_get_status(request, &flag, &status);
    }
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    say_status("not cancelled", &status, MPI_INT);
    SAY("in", in);
    // persistent ones can be started again
    MPI_Recv_init(&in, 1, MPI_INT, left, 79, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    SAY("cancelled", flag);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Start(&request);
    MPI_Isend(&me, 1, MPI_INT, right, 79, MPI_COMM_WORLD, &sent);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Wait(&request, &status);
    say_status("not cancelled", &status, MPI_INT);
    MPI_Request_free(&request);
    // a send that is freed is received
    MPI_Isend(&me, 1, MPI_INT, right, 80, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Recv(&in, 1, MPI_INT, left, 80, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAY("freed", in);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(void) {
    start();
    left = (me + all - 1) % all;
    right = (me + 1) % all;
    any_and_some(0);
    any_and_some(1);
    at_once();
    persistent();
    partitioned();
    general();
    general_errors();
    cancelled();
    cancelled_status();
    MPI_Finalize();
    return 0;
}
