// Programs with a known number of classes of interleavings, selected by name.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static int any(void) {
    int from;
    MPI_Recv(&from, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return from;
}

static void tell(int to) {
    MPI_Send(&rank, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
}

// No choice: one class.
static void loop(void) {
    for (int i = 0, sum; i < 5; i++) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

// All others send to rank 0: a class for each of their orders.
static void star(void) {
    for (int i = 1; rank == 0 && i < size; i++) {
        (void)any();
    }
    if (rank > 0) {
        tell(0);
    }
}

// Ranks 1 and 2 send to 0, 4 and 5 to 3: what each of the two receives first does not concern the
// other, so there are two times two classes.
static void twice(void) {
    for (int i = 0; rank % 3 == 0 && i < 2; i++) {
        (void)any();
    }
    if (rank % 3 != 0) {
        tell(rank / 3 * 3);
    }
}

// Rank 2 forwards to 0 a message from 3, which may arrive before rank 1's.
static int relay(void) {
    int first = 0;
    if (rank == 0) {
        first = any();
        (void)any();
    } else if (rank == 2) {
        (void)any();
    }
    if (rank > 0) {
        tell(rank == 3 ? 2 : 0);
    }
    return first;
}

// Of two receives with tags of their own each has one sender: one class, whichever is chosen first.
static void tags(void) {
    int from[2];
    MPI_Request open[2];
    for (int tag = 0; rank == 0 && tag < 2; tag++) {
        MPI_Irecv(&from[tag], 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &open[tag]);
    }
    if (rank == 0) {
        MPI_Waitall(2, open, MPI_STATUSES_IGNORE);
    } else {
        MPI_Send(&rank, 1, MPI_INT, 0, rank - 1, MPI_COMM_WORLD);
    }
}

// The result of a test depends on the schedule.
static void test(void) {
    int from, done = 0;
    MPI_Request open;
    if (rank == 0) {
        MPI_Irecv(&from, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &open);
        while (!done) {
            MPI_Test(&open, &done, MPI_STATUS_IGNORE);
        }
    } else if (rank == 1) {
        tell(0);
    }
}

// Without open requests a test does not depend on it.
static void tests_nothing(void) {
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int done, index;
    MPI_Test(&none[0], &done, MPI_STATUS_IGNORE);
    MPI_Testall(2, none, &done, MPI_STATUSES_IGNORE);
    MPI_Testany(2, none, &index, &done, MPI_STATUS_IGNORE);
    MPI_Waitany(2, none, &index, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(name, "loop") == 0) {
        loop();
    } else if (strcmp(name, "star") == 0) {
        star();
    } else if (strcmp(name, "twice") == 0) {
        twice();
    } else if (strcmp(name, "tags") == 0) {
        tags();
    } else if (strcmp(name, "test") == 0) {
        test();
    } else if (strcmp(name, "tests_nothing") == 0) {
        tests_nothing();
    } else if (relay() == 2 && strcmp(name, "relay_wrong") == 0) {
        abort();
    }
    MPI_Finalize();
    return 0;
}
