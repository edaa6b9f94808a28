// Races with accesses that are kept as one: a rank's own that continue each other, and calls that
// do the same again.
#include "cases.h"

static int memory[8];
static MPI_Win window;

static void open_locked(void) {
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, WORLD, &window);
    MPI_Win_lock_all(0, window);
}

static void close_locked(void) {
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void stores_upwards(void) {
    open_locked();
    for (int i = 2; i < 6 && rank == 0; i++) {
        memory[i] = i;
    }
    if (rank == 1) {
        MPI_Put(&rank, 1, MPI_INT, 0, wrong ? 5 : 6, 1, MPI_INT, window);  // wrong: rma.race
    }
    close_locked();
}

static void stores_downwards(void) {
    open_locked();
    for (int i = 5; i > 1 && rank == 0; i--) {
        memory[i] = i;
    }
    if (rank == 1) {
        MPI_Put(&rank, 1, MPI_INT, 0, wrong ? 2 : 1, 1, MPI_INT, window);  // wrong: rma.race
    }
    close_locked();
}

// That a read continues a write makes it none, and what was written stays written.
static void load_behind_a_store(void) {
    int got;
    open_locked();
    if (rank == 0) {
        memory[2] = 1;
        memory[7] = memory[3];
    } else if (rank == 1) {
        MPI_Get(&got, 1, MPI_INT, 0, wrong ? 2 : 3, 1, MPI_INT, window);  // wrong: rma.race
    }
    close_locked();
}

// The first was complete when the message was sent.
static void put_again(void) {
    int token = 0;
    open_locked();
    if (rank == 1) {
        MPI_Put(&rank, 1, MPI_INT, 0, 2, 1, MPI_INT, window);
        MPI_Win_flush(0, window);
        MPI_Put(&rank, 1, MPI_INT, 0, 2, 1, MPI_INT, window);
        if (!wrong) {
            MPI_Win_flush(0, window);
        }
        MPI_Send(&token, 1, MPI_INT, 0, 0, WORLD);
    } else if (rank == 0) {
        MPI_Recv(&token, 1, MPI_INT, 1, 0, WORLD, STATUS);
        memory[2] = 1;  // wrong: rma.race
    }
    close_locked();
}

CASES({"stores_upwards", stores_upwards}, {"stores_downwards", stores_downwards},
      {"load_behind_a_store", load_behind_a_store}, {"put_again", put_again})
