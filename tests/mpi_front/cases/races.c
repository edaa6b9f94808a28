// Races on window memory: the end of an epoch and the calls after it order two accesses.
#include "cases.h"

static int memory[8];
static MPI_Win window;

static void open_window(void) {
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, WORLD, &window);
}

static void close_locked(void) {
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void put(int to, int place) {
    MPI_Put(&rank, 1, MPI_INT, to, place, 1, MPI_INT, window);
}

// Two origins, one place, one epoch.
static void two_puts(void) {
    open_window();
    MPI_Win_fence(0, window);
    if (rank > 0) {
        int place = wrong ? 1 : rank;
        MPI_Put(&rank, 1, MPI_INT, 0, place, 1, MPI_INT, window);  // wrong: rma.race
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void put_and_get(void) {
    int got;
    open_window();
    MPI_Win_fence(0, window);
    if (rank == 1) {
        put(0, 2);
    }
    if (!wrong) {
        MPI_Win_fence(0, window);
    }
    if (rank == 2) {
        MPI_Get(&got, 1, MPI_INT, 0, 2, 1, MPI_INT, window);  // wrong: rma.race
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

// One origin may not write a place twice in an epoch either.
static void puts_of_one(void) {
    open_window();
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    if (rank == 1) {
        MPI_Put(&rank, 1, MPI_INT, 0, 2, 1, MPI_INT, window);
        if (!wrong) {
            MPI_Win_flush(0, window);
        }
        MPI_Put(&size, 1, MPI_INT, 0, 2, 1, MPI_INT, window);  // wrong: rma.race
    }
    MPI_Win_unlock(0, window);
    MPI_Win_free(&window);
}

static void accumulates_of_two_operations(void) {
    open_window();
    MPI_Win_fence(0, window);
    MPI_Op op = wrong && rank == 1 ? MPI_PROD : MPI_SUM;
    MPI_Accumulate(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, op, window);  // wrong: rma.race
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void accumulates_of_two_types(void) {
    long wide = 1;
    open_window();
    MPI_Win_fence(0, window);
    if (rank == 1 || !wrong) {
        MPI_Accumulate(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
    } else if (rank == 2) {
        MPI_Accumulate(&wide, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, window);  // wrong: rma.race
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void put_and_accumulate(void) {
    open_window();
    MPI_Win_lock_all(0, window);
    if (rank == 1 && wrong) {
        put(0, 0);
    } else {
        MPI_Accumulate(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);  // wrong: rma.race
    }
    close_locked();
}

static void store_beside_put(void) {
    open_window();
    MPI_Win_fence(0, window);
    if (rank == 1) {
        MPI_Put(&rank, 1, MPI_INT, 0, 3, 1, MPI_INT, window);  // wrong: rma.race
    }
    if (!wrong) {
        MPI_Win_fence(0, window);
    }
    if (rank == 0) {
        memory[3] += 1;
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void store_beside_get(void) {
    int got = 0;
    open_window();
    MPI_Win_fence(0, window);
    if (rank == 1) {
        MPI_Get(&got, 1, MPI_INT, 0, 3, 1, MPI_INT, window);  // wrong: rma.race
    }
    if (rank == 0) {
        memory[wrong ? 3 : 4] = 1;
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

// A barrier orders complete accesses, and a put is incomplete before its flush.
static void barrier_without_flush(void) {
    int seen = 0;
    open_window();
    MPI_Win_lock_all(0, window);
    if (rank == 1) {
        MPI_Put(&rank, 1, MPI_INT, 0, 5, 1, MPI_INT, window);  // wrong: rma.race
        if (!wrong) {
            MPI_Win_flush(0, window);
        }
    }
    MPI_Barrier(WORLD);
    if (rank == 0) {
        seen = memory[5];
    }
    close_locked();
    memory[0] = seen;
}

// flush_local completes only the origin's side.
static void flush_local_is_local(void) {
    open_window();
    MPI_Win_lock_all(0, window);
    if (rank == 1) {
        MPI_Put(&rank, 1, MPI_INT, 0, 5, 1, MPI_INT, window);  // wrong: rma.race
        if (wrong) {
            MPI_Win_flush_local(0, window);
        } else {
            MPI_Win_flush(0, window);
        }
        MPI_Send(&rank, 1, MPI_INT, 2, 0, WORLD);
    }
    if (rank == 2) {
        int token;
        MPI_Recv(&token, 1, MPI_INT, 1, 0, WORLD, STATUS);
        MPI_Put(&rank, 1, MPI_INT, 0, 5, 1, MPI_INT, window);
    }
    close_locked();
}

static void shared_locks(void) {
    open_window();
    if (rank > 0) {
        MPI_Win_lock(wrong ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Put(&rank, 1, MPI_INT, 0, 1, 1, MPI_INT, window);  // wrong: rma.race
        MPI_Win_unlock(0, window);
    }
    MPI_Win_free(&window);
}

// The owner's own stores need its lock, too.
static void store_under_no_lock(void) {
    open_window();
    MPI_Barrier(WORLD);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Put(&rank, 1, MPI_INT, 0, 1, 1, MPI_INT, window);  // wrong: rma.race
        MPI_Win_unlock(0, window);
    } else if (rank == 0) {
        if (!wrong) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        }
        memory[1] = 7;
        if (!wrong) {
            MPI_Win_unlock(0, window);
        }
    }
    MPI_Win_free(&window);
}

static MPI_Group group_of(int first, int count) {
    MPI_Group all, some;
    int ranks[2] = {first, first + 1};
    MPI_Comm_group(WORLD, &all);
    MPI_Group_incl(all, count, ranks, &some);
    MPI_Group_free(&all);
    return some;
}

static void store_after_post(void) {
    open_window();
    MPI_Group others = rank == 0 ? group_of(1, 2) : group_of(0, 1);
    if (rank == 0) {
        if (!wrong) {
            memory[1] = 7;
        }
        MPI_Win_post(others, 0, window);
        if (wrong) {
            memory[1] = 7;
        }
        MPI_Win_wait(window);
    } else {
        MPI_Win_start(others, 0, window);
        MPI_Put(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, window);  // wrong: rma.race
        MPI_Win_complete(window);
    }
    MPI_Group_free(&others);
    MPI_Win_free(&window);
}

static void load_before_wait(void) {
    int seen = 0;
    open_window();
    MPI_Group others = rank == 0 ? group_of(1, 2) : group_of(0, 1);
    if (rank == 0) {
        MPI_Win_post(others, 0, window);
        if (wrong) {
            seen = memory[2];
        }
        MPI_Win_wait(window);
        seen += memory[2];
    } else {
        MPI_Win_start(others, 0, window);
        MPI_Put(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, window);  // wrong: rma.race
        MPI_Win_complete(window);
    }
    MPI_Group_free(&others);
    MPI_Win_free(&window);
    memory[0] = seen;
}

static void two_starts(void) {
    open_window();
    MPI_Group others = rank == 0 ? group_of(1, 2) : group_of(0, 1);
    if (rank == 0) {
        MPI_Win_post(others, 0, window);
        MPI_Win_wait(window);
    } else {
        MPI_Win_start(others, 0, window);
        int place = wrong ? 0 : rank;
        MPI_Put(&rank, 1, MPI_INT, 0, place, 1, MPI_INT, window);  // wrong: rma.race
        MPI_Win_complete(window);
    }
    MPI_Group_free(&others);
    MPI_Win_free(&window);
}

// The request of a put frees its buffer; it does not complete the put at the target.
static void rput_waited_for(void) {
    MPI_Request request;
    int token, seen = 0;
    open_window();
    MPI_Win_lock_all(0, window);
    if (rank == 1) {
        MPI_Rput(&rank, 1, MPI_INT, 0, 6, 1, MPI_INT, window, &request);  // wrong: rma.race
        MPI_Wait(&request, STATUS);
        if (!wrong) {
            MPI_Win_flush(0, window);
        }
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
    } else if (rank == 0) {
        MPI_Recv(&token, 1, MPI_INT, 1, 0, WORLD, STATUS);
        seen = memory[6];
    }
    close_locked();
    memory[0] = seen;
}

// An atomic flag orders accesses that were complete before it was set.
static void flag(void) {
    int one = 1, none = 0, seen = 0;
    open_window();
    MPI_Win_lock_all(0, window);
    MPI_Barrier(WORLD);
    if (rank == 1) {
        MPI_Put(&rank, 1, MPI_INT, 0, 6, 1, MPI_INT, window);  // wrong: rma.race
        if (!wrong) {
            MPI_Win_flush(0, window);
        }
        MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_REPLACE, window);
        MPI_Win_flush(0, window);
    } else if (rank == 0) {
        while (seen == 0) {
            MPI_Fetch_and_op(&none, &seen, MPI_INT, 0, 0, MPI_NO_OP, window);
            MPI_Win_flush(0, window);
        }
        memory[7] = memory[6];
    }
    close_locked();
}

static void fetch_beside_put(void) {
    int got, one = 1;
    open_window();
    MPI_Win_lock_all(0, window);
    if (rank == 1) {
        MPI_Fetch_and_op(&one, &got, MPI_INT, 0, 0, MPI_SUM, window);
    } else if (rank == 2) {
        int place = wrong ? 0 : 1;
        MPI_Put(&one, 1, MPI_INT, 0, place, 1, MPI_INT, window);  // wrong: rma.race
    }
    close_locked();
}

static void swap_beside_store(void) {
    int got, one = 1, none = 0;
    open_window();
    MPI_Win_lock_all(0, window);
    MPI_Barrier(WORLD);
    if (rank > 0 || !wrong) {
        MPI_Compare_and_swap(&one, &none, &got, MPI_INT, 0, 2, window);  // wrong: rma.race
    } else {
        memory[2] = 1;
    }
    close_locked();
}

// Atomic reads beside atomic updates are allowed; beside a put they are not.
static void atomic_read(void) {
    int got[2], none[2] = {0, 0};
    open_window();
    MPI_Win_lock_all(0, window);
    if (rank == 1) {
        MPI_Get_accumulate(none, 2, MPI_INT, got, 2, MPI_INT, 0, 2, 2, MPI_INT, MPI_NO_OP, window);
    } else if (rank == 2 && wrong) {
        MPI_Put(&rank, 1, MPI_INT, 0, 3, 1, MPI_INT, window);  // wrong: rma.race
    } else if (rank == 2) {
        MPI_Accumulate(&rank, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_REPLACE, window);
    }
    close_locked();
}

// Even places and odd ones: only the parts of a derived datatype count, not its gaps.
static void strides(void) {
    int values[4] = {0};
    MPI_Datatype every_other;
    MPI_Type_vector(wrong && rank == 2 ? 3 : 4, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    open_window();
    MPI_Win_fence(0, window);
    if (rank > 0) {
        int n = wrong && rank == 2 ? 3 : 4, first = wrong ? 0 : rank - 1;
        MPI_Put(values, n, MPI_INT, 0, first, 1, every_other, window);  // wrong: rma.race
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Type_free(&every_other);
}

static void two_windows_on_one_memory(void) {
    MPI_Win second;
    open_window();
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, WORLD, &second);
    MPI_Win_fence(0, window);
    MPI_Win_fence(0, second);
    if (rank > 0) {
        int place = wrong ? 0 : rank;
        MPI_Win used = rank == 1 ? window : second;
        MPI_Put(&rank, 1, MPI_INT, 0, place, 1, MPI_INT, used);  // wrong: rma.race
    }
    MPI_Win_fence(0, window);
    MPI_Win_fence(0, second);
    MPI_Win_free(&window);
    MPI_Win_free(&second);
}

static void attached_memory(void) {
    MPI_Aint place, at;
    MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &window);
    MPI_Win_attach(window, memory, sizeof memory);
    MPI_Get_address(memory, &place);
    MPI_Bcast(&place, 1, MPI_AINT, 0, WORLD);
    MPI_Win_fence(0, window);
    if (rank > 0) {
        at = MPI_Aint_add(place, wrong ? 0 : rank * (MPI_Aint)sizeof(int));
        MPI_Put(&rank, 1, MPI_INT, 0, at, 1, MPI_INT, window);  // wrong: rma.race
    }
    MPI_Win_fence(0, window);
    MPI_Win_detach(window, memory);
    MPI_Win_free(&window);
}

// Four integers of each rank, of all one after the other, under a lock: the first rank's.
static int *open_shared(void) {
    int *own, *first, unit;
    MPI_Aint bytes;
    MPI_Win_allocate_shared(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, WORLD, &own, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &first);
    MPI_Win_lock_all(0, window);
    return first;
}

// Loads and stores of a shared window are accesses of the ranks that make them.
static void shared_window(void) {
    int *first = open_shared();
    if (rank == 1) {
        first[2] = 5;  // wrong: rma.race
    }
    if (!wrong) {
        MPI_Win_sync(window);
        MPI_Barrier(WORLD);
        MPI_Win_sync(window);
    }
    if (rank == 2) {
        first[8] = first[2];
    }
    close_locked();
}

// Neighbours' stores with equal clock entries are still two stores.
static void stores_of_a_shared_window(void) {
    int *first = open_shared();
    if (rank > 0) {
        first[wrong ? 2 : rank] = rank;  // wrong: rma.race
    }
    close_locked();
}

static void receive_beside_put(void) {
    open_window();
    MPI_Win_fence(0, window);
    if (rank == 1) {
        MPI_Put(&rank, 1, MPI_INT, 0, 4, 1, MPI_INT, window);  // wrong: rma.race
    } else if (rank == 2) {
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
    } else {
        MPI_Recv(&memory[wrong ? 4 : 5], 1, MPI_INT, 2, 0, WORLD, STATUS);
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

// An atomic read of an atomic write is ordered after it, complete or not.
static void store_after_it_was_seen(void) {
    int one = 1, seen = 0;
    open_window();
    MPI_Win_lock_all(0, window);
    if (rank == 1) {
        MPI_Accumulate(&one, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_REPLACE, window);
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
    } else if (rank == 0) {
        MPI_Recv(&one, 1, MPI_INT, 1, 0, WORLD, STATUS);
        while (!wrong && seen == 0) {
            MPI_Fetch_and_op(NULL, &seen, MPI_INT, 0, 3, MPI_NO_OP, window);
            MPI_Win_flush(0, window);
        }
        memory[3] = 7;  // wrong: rma.race
    }
    close_locked();
}

// In a reduce the root waits for all, and no rank waits for the root.
static void reduce_orders_to_the_root(void) {
    int sum;
    open_window();
    MPI_Win_lock_all(0, window);
    if (rank == 1) {
        put(0, 1);
        MPI_Win_flush(0, window);
    }
    MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, WORLD);
    if (rank == (wrong ? 2 : 0)) {
        MPI_Put(&rank, 1, MPI_INT, 0, 1, 1, MPI_INT, window);  // wrong: rma.race
    }
    close_locked();
}

CASES({"two_puts", two_puts}, {"put_and_get", put_and_get}, {"puts_of_one", puts_of_one},
      {"accumulates_of_two_operations", accumulates_of_two_operations},
      {"accumulates_of_two_types", accumulates_of_two_types},
      {"put_and_accumulate", put_and_accumulate}, {"store_beside_put", store_beside_put},
      {"store_beside_get", store_beside_get}, {"barrier_without_flush", barrier_without_flush},
      {"flush_local_is_local", flush_local_is_local}, {"shared_locks", shared_locks},
      {"store_under_no_lock", store_under_no_lock}, {"store_after_post", store_after_post},
      {"load_before_wait", load_before_wait}, {"two_starts", two_starts},
      {"rput_waited_for", rput_waited_for}, {"flag", flag}, {"fetch_beside_put", fetch_beside_put},
      {"swap_beside_store", swap_beside_store}, {"atomic_read", atomic_read}, {"strides", strides},
      {"two_windows_on_one_memory", two_windows_on_one_memory},
      {"attached_memory", attached_memory}, {"shared_window", shared_window},
      {"stores_of_a_shared_window", stores_of_a_shared_window},
      {"receive_beside_put", receive_beside_put},
      {"store_after_it_was_seen", store_after_it_was_seen},
      {"reduce_orders_to_the_root", reduce_orders_to_the_root})
