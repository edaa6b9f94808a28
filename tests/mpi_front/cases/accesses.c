// Accesses that are recorded for races with them: adjacent accesses of a rank are merged, and so
// are repeated calls. Also accesses that a lock excludes.
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

// A read that continues a write does not make it a read; the written range stays written.
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

// The first call counts if the second, of the same place, would be allowed.
static void accumulate_of_another_type_first(void) {
    float one = 1;
    open_locked();
    if (rank == 2) {
        MPI_Datatype first = wrong ? MPI_INT : MPI_FLOAT;
        MPI_Accumulate(&one, 1, first, 0, 2, 1, first, MPI_SUM, window);  // wrong: rma.race
        MPI_Win_flush(0, window);
    }
    if (rank > 0) {
        MPI_Accumulate(&one, 1, MPI_FLOAT, 0, 2, 1, MPI_FLOAT, MPI_SUM, window);
    }
    close_locked();
}

static void accumulate_of_another_operation_first(void) {
    open_locked();
    if (rank == 2) {
        MPI_Op first = wrong ? MPI_PROD : MPI_SUM;
        MPI_Accumulate(&size, 1, MPI_INT, 0, 2, 1, MPI_INT, first, window);  // wrong: rma.race
        MPI_Win_flush(0, window);
    }
    if (rank > 0) {
        MPI_Accumulate(&size, 1, MPI_INT, 0, 2, 1, MPI_INT, MPI_SUM, window);
    }
    close_locked();
}

static void put_first(void) {
    open_locked();
    if (rank == 2) {
        MPI_Put(&size, 1, MPI_INT, 0, wrong ? 2 : 3, 1, MPI_INT, window);  // wrong: rma.race
        MPI_Win_flush(0, window);
    }
    if (rank > 0) {
        MPI_Accumulate(&size, 1, MPI_INT, 0, 2, 1, MPI_INT, MPI_SUM, window);
    }
    close_locked();
}

// A reader under a shared lock excludes a writer under an exclusive one of the same
// window.
static void locks_of_two_windows(void) {
    int got;
    MPI_Win second;
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, WORLD, &window);
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, WORLD, &second);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Get(&got, 1, MPI_INT, 0, 2, 1, MPI_INT, window);
        MPI_Win_unlock(0, window);
    } else if (rank == 2) {
        MPI_Win used = wrong ? second : window;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, used);
        MPI_Put(&rank, 1, MPI_INT, 0, 2, 1, MPI_INT, used);  // wrong: rma.race
        MPI_Win_unlock(0, used);
    }
    MPI_Win_free(&second);
    MPI_Win_free(&window);
}

// Elements that overlap partially are not one element, whatever the operation.
static void accumulates_beside_each_other(void) {
    static const int ones[4] = {1, 1, 1, 1};
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, WORLD, &window);
    MPI_Win_lock_all(0, window);
    if (rank == 1) {
        MPI_Accumulate(ones, 4, MPI_INT, 0, 0, 4, MPI_INT, MPI_SUM, window);
        MPI_Win_flush(0, window);
    } else if (rank == 2) {
        // wrong: rma.race
        MPI_Accumulate(ones, 4, MPI_INT, 0, wrong ? 5 : 4, 4, MPI_INT, MPI_SUM, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

CASES({"accumulates_beside_each_other", accumulates_beside_each_other},
      {"accumulate_of_another_type_first", accumulate_of_another_type_first},
      {"accumulate_of_another_operation_first", accumulate_of_another_operation_first},
      {"put_first", put_first}, {"locks_of_two_windows", locks_of_two_windows},
      {"stores_upwards", stores_upwards}, {"stores_downwards", stores_downwards},
      {"load_behind_a_store", load_behind_a_store}, {"put_again", put_again})
