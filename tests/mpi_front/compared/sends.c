// Messages, of 4 ranks: the modes of sends, exchanges, probes, and statuses.
#include "say.h"

static int left, right;

// Each mode's message goes around the ring, one element longer than the one before.
static void modes(void) {
    int out[8], in[8], size;
    MPI_Status status;
    MPI_Request request;
    MPI_Pack_size(40, MPI_INT, MPI_COMM_WORLD, &size);
    void *buffer = malloc((size_t)size + 4 * MPI_BSEND_OVERHEAD), *detached = NULL;
    int bytes = size + 4 * MPI_BSEND_OVERHEAD, back;
    MPI_Buffer_attach(buffer, bytes);
    for (int mode = 0; mode < 8; mode++) {
        for (int i = 0; i < 8; i++) {
            out[i] = 1000 * mode + 100 * me + i;
            in[i] = -7;
        }
        MPI_Irecv(in, 8, MPI_INT, left, mode, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);  // required by ready sends
        MPI_Request sent = MPI_REQUEST_NULL;
        switch (mode) {
        case 0:
            MPI_Send(out, 1, MPI_INT, right, mode, MPI_COMM_WORLD);
            break;
        case 1:
            MPI_Ssend(out, 2, MPI_INT, right, mode, MPI_COMM_WORLD);
            break;
        case 2:
            MPI_Bsend(out, 3, MPI_INT, right, mode, MPI_COMM_WORLD);
            break;
        case 3:
            MPI_Rsend(out, 4, MPI_INT, right, mode, MPI_COMM_WORLD);
            break;
        case 4:
            MPI_Isend(out, 5, MPI_INT, right, mode, MPI_COMM_WORLD, &sent);
            break;
        case 5:
            MPI_Issend(out, 6, MPI_INT, right, mode, MPI_COMM_WORLD, &sent);
            break;
        case 6:
            MPI_Ibsend(out, 7, MPI_INT, right, mode, MPI_COMM_WORLD, &sent);
            break;
        case 7:
            MPI_Irsend(out, 0, MPI_INT, right, mode, MPI_COMM_WORLD, &sent);
            break;
        }
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        MPI_Wait(&request, &status);
        say_status("mode", &status, MPI_INT);
        say("got", 8, in);
    }
    MPI_Buffer_detach(&detached, &back);
    SAY("buffer", detached == buffer, bytes == back);
    free(buffer);
}

// Bsends complete before any receive: they are received backwards.
static void buffered(void) {
    int size, values[5], back;
    void *buffer;
    MPI_Pack_size(1, MPI_INT, MPI_COMM_WORLD, &size);
    size = 5 * (size + MPI_BSEND_OVERHEAD);
    MPI_Alloc_mem(size, MPI_INFO_NULL, &buffer);
    for (int round = 0; round < 2; round++) {
        MPI_Buffer_attach(buffer, size);
        for (int i = 0; i < 5; i++) {
            int value = 10 * me + i + 1000 * round;
            MPI_Bsend(&value, 1, MPI_INT, right, i, MPI_COMM_WORLD);
        }
        for (int i = 4; i >= 0; i--) {
            MPI_Recv(&values[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        say("buffered", 5, values);
        MPI_Buffer_detach(&buffer, &back);
        SAY("size", back == size);
    }
    MPI_Free_mem(buffer);
}

static void exchanges(void) {
    int out[4] = {me, me + 10, me + 20, me + 30}, in[6] = {-1, -1, -1, -1, -1, -1};
    MPI_Status status;
    MPI_Datatype every;
    MPI_Type_vector(2, 1, 2, MPI_INT, &every);
    MPI_Type_commit(&every);
    MPI_Sendrecv(out, 1, every, right, 1 + me, in, 6, MPI_INT, left, 1 + left, MPI_COMM_WORLD,
                 &status);
    say_status("sendrecv", &status, MPI_INT);
    say("in", 6, in);
    MPI_Sendrecv(out, 4, MPI_INT, left, 7, in, 2, every, right, MPI_ANY_TAG, MPI_COMM_WORLD,
                 &status);
    say_status("typed", &status, every);
    say("in", 6, in);
    MPI_Sendrecv_replace(out, 1, every, right, 5, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
    say_status("replaced", &status, every);
    say("out", 4, out);
    MPI_Type_free(&every);
    // to and from nobody
    int to = me == 3 ? MPI_PROC_NULL : right, from = me == 0 ? MPI_PROC_NULL : left;
    MPI_Sendrecv(out, 2, MPI_INT, to, 5, in, 3, MPI_INT, from, 5, MPI_COMM_WORLD, &status);
    if (me == 0) {
        SAY("nobody", status.MPI_SOURCE, status.MPI_TAG == MPI_ANY_TAG);
    } else {
        say_status("line", &status, MPI_INT);
    }
    say("in", 6, in);
    MPI_Sendrecv_replace(out, 4, MPI_INT, from, 5, to, 5, MPI_COMM_WORLD, &status);
    say("out", 4, out);
    MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Ssend(out, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Recv(in, 6, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    int count, flag;
    MPI_Get_count(&status, MPI_INT, &count);
    SAY("nobody", status.MPI_SOURCE, status.MPI_TAG == MPI_ANY_TAG, count);
    MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    SAY("nobody", status.MPI_SOURCE, status.MPI_TAG == MPI_ANY_TAG, count);
    MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &status);
    SAY("nobody", flag, status.MPI_SOURCE, status.MPI_TAG == MPI_ANY_TAG);
}

// Rank 0 receives from each in turn, with tags of all sizes; long messages are described in
// elements.
static void tags(void) {
    void *value;
    int flag, ub, buffer[16];
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    memcpy(&ub, value, sizeof ub);
    SAY("tags", flag, ub >= 32767);
    const int list[] = {0, 1, 32767, ub - 1, ub};
    MPI_Datatype three;
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_commit(&three);
    for (int from = 1; from < all; from++) {
        for (int i = 0; i < 5; i++) {
            int length = 2 * i + from - 1, counts[3];
            MPI_Status status;
            if (me == from) {
                for (int k = 0; k < length; k++) {
                    buffer[k] = 100 * me + 10 * i + k;
                }
                MPI_Send(buffer, length, MPI_INT, 0, list[i], MPI_COMM_WORLD);
            } else if (me == 0) {
                memset(buffer, 0, sizeof buffer);
                MPI_Recv(buffer, 5, three, i % 2 ? from : MPI_ANY_SOURCE,
                         i % 3 ? list[i] : MPI_ANY_TAG, MPI_COMM_WORLD, &status);
                MPI_Get_count(&status, three, &counts[0]);
                MPI_Get_elements(&status, three, &counts[1]);
                MPI_Get_count(&status, MPI_INT, &counts[2]);
                SAY("from", status.MPI_SOURCE, status.MPI_TAG == list[i]);
                say("counts", 3, counts);
                say("they are", 16, buffer);
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    MPI_Type_free(&three);
}

// One message each from the left, of a length that only a probe tells.
static void probes(void) {
    for (int how = 0; how < 6; how++) {
        int out[8], in[8], flag = 0, count = 0;
        MPI_Request sent, request;
        MPI_Status status, later;
        MPI_Message message;
        for (int i = 0; i < 8; i++) {
            out[i] = 100 * how + 10 * me + i;
            in[i] = -1;
        }
        MPI_Isend(out, 1 + (me + how) % 8, MPI_INT, right, 50 + how, MPI_COMM_WORLD, &sent);
        int source = how % 2 ? MPI_ANY_SOURCE : left, tag = how < 3 ? MPI_ANY_TAG : 50 + how;
        switch (how) {
        case 0:
            MPI_Probe(source, tag, MPI_COMM_WORLD, &status);
            break;
        case 1:
            while (!flag) {
                MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, &status);
            }
            break;
        case 2:
        case 3:
            MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &status);
            break;
        default:
            while (!flag) {
                MPI_Improbe(source, tag, MPI_COMM_WORLD, &flag, &message, &status);
            }
            break;
        }
        say_status("probed", &status, MPI_INT);
        MPI_Get_count(&status, MPI_INT, &count);
        if (how < 2) {
            MPI_Recv(in, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &later);
        } else if (how % 2 == 0) {
            MPI_Mrecv(in, count, MPI_INT, &message, &later);
        } else {
            MPI_Imrecv(in, 8, MPI_INT, &message, &request);
            MPI_Wait(&request, &later);
        }
        if (how >= 2) {
            printf("message %s\n", message == MPI_MESSAGE_NULL ? "gone" : "there");
        }
        say_status("received", &later, MPI_INT);
        say("it is", 8, in);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        int matched = -1;
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &matched, &message,
                    MPI_STATUS_IGNORE);
        SAY("more", flag, matched);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Message message;
    MPI_Status status;
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
    SAY("nobody's", message == MPI_MESSAGE_NO_PROC, status.MPI_SOURCE);
    MPI_Mrecv(NULL, 0, MPI_INT, &message, &status);
    SAY("nobody's", message == MPI_MESSAGE_NULL, status.MPI_SOURCE);
}

// No other receive gets a matched message; those of one pair keep their order.
static void order(void) {
    if (me == 1) {
        int values[6];
        MPI_Request sent[6];
        for (int i = 0; i < 6; i++) {
            values[i] = 60 + i;
            MPI_Isend(&values[i], 1, MPI_INT, 2, i % 2, MPI_COMM_WORLD, &sent[i]);
        }
        MPI_Waitall(6, sent, MPI_STATUSES_IGNORE);
    } else if (me == 2) {
        int in[6];
        MPI_Message first;
        MPI_Mprobe(1, 0, MPI_COMM_WORLD, &first, MPI_STATUS_IGNORE);
        for (int i = 0; i < 5; i++) {
            MPI_Recv(&in[i], 1, MPI_INT, i == 3 ? 1 : MPI_ANY_SOURCE,
                     i < 2    ? 1
                     : i == 2 ? 0
                              : MPI_ANY_TAG,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Mrecv(&in[5], 1, MPI_INT, &first, MPI_STATUS_IGNORE);
        say("order", 6, in);
    }
    // to itself
    int in[2] = {0, 0}, out = 70 + me;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(in, 2, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(&out, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    say_status("self", &statuses[0], MPI_INT);
    SAY("self", in[0], in[1]);
}

int main(void) {
    start();
    left = (me + all - 1) % all;
    right = (me + 1) % all;
    modes();
    buffered();
    exchanges();
    tags();
    probes();
    order();
    MPI_Finalize();
    return 0;
}
