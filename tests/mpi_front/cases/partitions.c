// Partitioned messages and persistent collectives (MPI 4).
#include "cases.h"

#define PARTS 4
static int values[PARTS * 2];
static MPI_Request request;

// Rank 0 sends, rank 1 receives what comes; says whether the caller is rank 0.
static bool sends(void) {
    if (rank == 1) {
        MPI_Precv_init(values, 2, PARTS, MPI_INT, 0, 7, WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, STATUS);
        MPI_Request_free(&request);
    }
    if (rank == 0) {
        MPI_Psend_init(values, PARTS, 2, MPI_INT, 1, 7, WORLD, MPI_INFO_NULL, &request);
    }
    return rank == 0;
}

static void a_part_not_ready(void) {
    if (sends()) {
        MPI_Start(&request);
        MPI_Pready_range(0, wrong ? 2 : 3, request);
        MPI_Wait(&request, STATUS);  // wrong: deadlock.cycle
        MPI_Request_free(&request);
    }
}

static void ready_twice(void) {
    if (sends()) {
        MPI_Start(&request);
        MPI_Pready_range(0, 2, request);
        // wrong: call.invalid, MPI_Pready: MPI_ERR_REQUEST: partition 1 is ready already
        MPI_Pready(wrong ? 1 : 3, request);
        MPI_Wait(&request, STATUS);
        MPI_Request_free(&request);
    }
}

static void ready_before_start(void) {
    if (sends()) {
        if (!wrong) {
            MPI_Start(&request);
        }
        // wrong: call.invalid, MPI_Pready_range: MPI_ERR_REQUEST: partition 0 of a request that is
        MPI_Pready_range(0, 3, request);
        MPI_Wait(&request, STATUS);
        MPI_Request_free(&request);
    }
}

static void no_such_part(void) {
    if (sends()) {
        const int parts[PARTS] = {0, 2, 3, wrong ? 4 : 1};
        MPI_Start(&request);
        // wrong: call.invalid, MPI_Pready_list: MPI_ERR_ARG: partition 4 is not in [0, 4)
        MPI_Pready_list(PARTS, parts, request);
        MPI_Wait(&request, STATUS);
        MPI_Request_free(&request);
    }
}

static void store_after_ready(void) {
    if (sends()) {
        MPI_Start(&request);
        for (int n = 0; n < PARTS; n++) {
            values[2 * n] = n;
            MPI_Pready(n, request);
            if (wrong) {
                values[2 * n + 1] = 1;  // wrong: buffer.use_before_wait
            }
        }
        MPI_Wait(&request, STATUS);
        MPI_Request_free(&request);
    }
}

static void load_before_it_arrived(void) {
    int flag = 0;
    if (rank == 1) {
        MPI_Precv_init(values, 2, PARTS, MPI_INT, 0, 7, WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        while (!wrong && !flag) {
            MPI_Parrived(request, 1, &flag);
        }
        int seen = values[PARTS];  // wrong: buffer.use_before_wait
        MPI_Wait(&request, STATUS);
        values[0] = seen;
        MPI_Request_free(&request);
    } else if (rank == 0) {
        MPI_Psend_init(values, PARTS, 2, MPI_INT, 1, 7, WORLD, MPI_INFO_NULL, &request);
        for (int round = 0; round < 1; round++) {
            MPI_Start(&request);
            MPI_Pready_range(0, 3, request);
            MPI_Wait(&request, STATUS);
        }
        MPI_Request_free(&request);
    }
}

// An ordinary receive does not take what is sent in parts.
static void ordinary_receive(void) {
    if (rank == 0) {
        MPI_Psend_init(values, PARTS, 2, MPI_INT, 1, 7, WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Pready_range(0, 3, request);
        MPI_Wait(&request, STATUS);
        MPI_Request_free(&request);
    } else if (rank == 1 && wrong) {
        MPI_Recv(values, 8, MPI_INT, 0, MPI_ANY_TAG, WORLD, STATUS);  // wrong: deadlock.cycle
    } else {
        (void)sends();
    }
}

static void persistent_collective_started_twice(void) {
    int sum = 0;
    MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_SUM, WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        if (wrong) {
            // wrong: call.invalid, MPI_Start: MPI_ERR_REQUEST: the request of MPI_Allreduce_init,
            MPI_Start(&request);
        }
        MPI_Wait(&request, STATUS);
        if (sum != 3) {
            MPI_Abort(WORLD, 1);
        }
        sum = 0;
    }
    MPI_Request_free(&request);
}

static void persistent_collective_on_two_ranks(void) {
    MPI_Bcast_init(values, 8, MPI_INT, 0, WORLD, MPI_INFO_NULL, &request);
    if (!wrong || rank != 2) {
        MPI_Start(&request);  // wrong: rank.exited_early
    }
    MPI_Wait(&request, STATUS);
    MPI_Request_free(&request);
}

static void persistent_collective_never_freed(void) {
    // wrong: handle.leak, MPI_Finalize: a persistent request, made by MPI_Barrier_init
    MPI_Barrier_init(WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, STATUS);
    if (!wrong) {
        MPI_Request_free(&request);
    }
}

// They match as they were made, not as they are started.
static void persistent_collectives_in_two_orders(void) {
    MPI_Request pair[2];
    values[0] = rank == 0 ? 42 : 0;
    int bcast = wrong && rank == 1 ? 1 : 0, first = rank == 2 ? 1 : 0;
    for (int i = 0; i < 2; i++) {
        if (i == bcast) {
            MPI_Bcast_init(values, 1, MPI_INT, 0, WORLD, MPI_INFO_NULL, &pair[0]);
        } else {
            MPI_Barrier_init(WORLD, MPI_INFO_NULL, &pair[1]);
        }
    }
    for (int round = 0; round < 2; round++) {
        // wrong: collective.kind_mismatch, MPI_Barrier_init on MPI_COMM_WORLD
        MPI_Start(&pair[(first + round) % 2]);
        MPI_Start(&pair[(first + round + 1) % 2]);
        MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
    }
    if (values[0] != 42) {
        MPI_Abort(WORLD, 1);
    }
    MPI_Request_free(&pair[0]);
    MPI_Request_free(&pair[1]);
}

// Partitioned messages of one tag match as they were made, whichever is started first.
static void made_in_one_order_started_in_another(void) {
    float number = rank == 0 ? 5 : 0;
    MPI_Request open[2];
    values[0] = rank == 0 ? 7 : 0;
    if (rank == 0) {
        MPI_Psend_init(values, 1, 1, MPI_INT, 1, 3, WORLD, MPI_INFO_NULL, &open[0]);
        MPI_Psend_init(&number, 1, 1, MPI_FLOAT, 1, 3, WORLD, MPI_INFO_NULL, &open[1]);
        MPI_Start(&open[1]);
        MPI_Pready(0, open[1]);
        MPI_Start(&open[0]);
        MPI_Pready(0, open[0]);
    } else if (rank == 1) {
        for (int i = 0; i < 2; i++) {
            if (i == (wrong ? 1 : 0)) {
                MPI_Precv_init(values, 1, 1, MPI_INT, 0, 3, WORLD, MPI_INFO_NULL, &open[0]);
            } else {
                MPI_Precv_init(&number, 1, 1, MPI_FLOAT, 0, 3, WORLD, MPI_INFO_NULL, &open[1]);
            }
        }
        MPI_Startall(2, open);  // wrong: p2p.dtype_mismatch
    }
    if (rank < 2) {
        MPI_Waitall(2, open, MPI_STATUSES_IGNORE);
        MPI_Request_free(&open[0]);
        MPI_Request_free(&open[1]);
        if (!wrong && (values[0] != 7 || number != 5)) {
            MPI_Abort(WORLD, 1);
        }
    }
}

CASES({"a_part_not_ready", a_part_not_ready}, {"ready_twice", ready_twice},
      {"ready_before_start", ready_before_start}, {"no_such_part", no_such_part},
      {"store_after_ready", store_after_ready}, {"load_before_it_arrived", load_before_it_arrived},
      {"ordinary_receive", ordinary_receive},
      {"persistent_collective_started_twice", persistent_collective_started_twice},
      {"persistent_collective_on_two_ranks", persistent_collective_on_two_ranks},
      {"persistent_collective_never_freed", persistent_collective_never_freed},
      {"made_in_one_order_started_in_another", made_in_one_order_started_in_another},
      {"persistent_collectives_in_two_orders", persistent_collectives_in_two_orders})
