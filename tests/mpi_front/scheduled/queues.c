// Waiting messages of few tags, and receives that name a tag, any tag, the sender or any source,
// alternating with matched probes. All have one sender, so the schedule does not affect the
// matches: each receive gets the oldest fitting message that no earlier one gets.
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define COUNT 60
#define TAGS  5

static uint32_t state;
static uint32_t draw(uint32_t below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 16) % below;
}

static void send_all(const int *tags) {
    int values[COUNT];
    MPI_Request requests[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = i;
        MPI_Isend(&values[i], 1, MPI_INT, 0, tags[i], MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
}

static int oldest(const int *tags, bool *taken, int tag) {
    int i = 0;
    while (taken[i] || (tag != MPI_ANY_TAG && tags[i] != tag)) {
        i += 1;
    }
    taken[i] = true;
    return i;
}

static void receive_all(const int *tags) {
    int values[COUNT], expected[COUNT], count = 0;
    bool taken[COUNT] = {false};
    MPI_Request requests[COUNT];
    for (int k = 0; k < COUNT; k++) {
        int like = (int)draw(COUNT);
        while (taken[like]) {
            like = (like + 1) % COUNT;
        }
        int tag = draw(5) < 2 ? MPI_ANY_TAG : tags[like];
        int source = draw(4) == 0 ? MPI_ANY_SOURCE : 1;
        expected[k] = oldest(tags, taken, tag);
        if (draw(6) == 0) {
            MPI_Message message;
            MPI_Status status;
            MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &status);
            MPI_Mrecv(&values[k], 1, MPI_INT, &message, MPI_STATUS_IGNORE);
            expected[k] = status.MPI_TAG == tags[expected[k]] ? expected[k] : -1;
        } else {
            MPI_Irecv(&values[k], 1, MPI_INT, source, tag, MPI_COMM_WORLD, &requests[count++]);
        }
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < COUNT; k++) {
        if (values[k] != expected[k]) {
            (void)printf("receive %d got message %d, not %d\n", k, values[k], expected[k]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv) {
    int rank, tags[COUNT];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (uint32_t seed = 0; seed < 8; seed++) {
        state = seed;
        for (int i = 0; i < COUNT; i++) {
            tags[i] = (int)draw(TAGS);
        }
        if (rank == 0) {
            receive_all(tags);
        } else if (rank == 1) {
            send_all(tags);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
