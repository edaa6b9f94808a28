// Epochs of windows: calls that open and close them, and calls that each allows.
#include "cases.h"

static int memory[8];
static MPI_Win window;

static void open_window(void) {
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, WORLD, &window);
}

static MPI_Group one_rank(int which) {
    MPI_Group all, one;
    MPI_Comm_group(WORLD, &all);
    MPI_Group_incl(all, 1, &which, &one);
    MPI_Group_free(&all);
    return one;
}

static void put_in_no_epoch(void) {
    open_window();
    if (!wrong) {
        MPI_Win_fence(0, window);
    }
    if (rank == 0) {
        // wrong: call.invalid, MPI_Put: MPI_ERR_RMA_SYNC: no epoch is open in which rank 1 can be
        MPI_Put(&rank, 1, MPI_INT, 1, 0, 1, MPI_INT, window);
    }
    if (!wrong) {
        MPI_Win_fence(0, window);
    }
    MPI_Win_free(&window);
}

static void put_after_the_last_fence(void) {
    open_window();
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    if (!wrong) {
        MPI_Put(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    if (wrong) {
        // wrong: call.invalid, MPI_Put: MPI_ERR_RMA_SYNC: no epoch is open in which rank 0 can be
        MPI_Put(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
    }
    MPI_Win_free(&window);
}

static void no_fence_at_the_end(void) {
    open_window();
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
    if (!wrong) {
        MPI_Win_fence(0, window);
    }
    // wrong: call.invalid, MPI_Win_free: MPI_ERR_RMA_SYNC: the window is freed while calls of the
    MPI_Win_free(&window);
}

static void a_rank_without_fence(void) {
    open_window();
    if (rank > 0 || !wrong) {
        // wrong: collective.kind_mismatch, MPI_Win_fence on MPI_COMM_WORLD
        MPI_Win_fence(0, window);
    }
    MPI_Win_free(&window);
}

static void unlock_of_another(void) {
    open_window();
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    // wrong: call.invalid, MPI_Win_unlock: MPI_ERR_RMA_SYNC: rank 2 is not locked by MPI_Win_lock
    MPI_Win_unlock(wrong ? 2 : 1, window);
    MPI_Win_free(&window);
}

static void lock_in_a_lock(void) {
    open_window();
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    // wrong: call.invalid, MPI_Win_lock: MPI_ERR_RMA_SYNC: the window is in an epoch that
    MPI_Win_lock(MPI_LOCK_SHARED, wrong ? 1 : 2, 0, window);
    MPI_Win_unlock(1, window);
    MPI_Win_unlock(2, window);
    MPI_Win_free(&window);
}

static void never_unlocked(void) {
    open_window();
    MPI_Win_lock_all(0, window);
    if (!wrong) {
        MPI_Win_unlock_all(window);
    }
    // wrong: call.invalid, MPI_Win_free: MPI_ERR_RMA_SYNC: the window is freed in an epoch that
    MPI_Win_free(&window);
}

static void fences_in_another_order(void) {
    MPI_Win other;
    int of_other[2];
    open_window();
    MPI_Win_create(of_other, sizeof of_other, sizeof(int), MPI_INFO_NULL, WORLD, &other);
    // wrong: deadlock.cross_communicator
    MPI_Win_fence(0, wrong && rank == 0 ? other : window);
    MPI_Win_fence(0, wrong && rank == 0 ? window : other);
    MPI_Win_free(&other);
    MPI_Win_free(&window);
}

static void fence_in_a_lock(void) {
    open_window();
    MPI_Win_lock_all(0, window);
    if (!wrong) {
        MPI_Win_unlock_all(window);
    }
    // wrong: call.invalid, MPI_Win_fence: MPI_ERR_RMA_SYNC: a fence in an epoch that
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void flush_under_no_lock(void) {
    open_window();
    if (wrong) {
        MPI_Win_fence(0, window);
    } else {
        MPI_Win_lock_all(0, window);
    }
    MPI_Put(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
    // wrong: call.invalid, MPI_Win_flush: MPI_ERR_RMA_SYNC: no lock is held
    MPI_Win_flush(0, window);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void request_in_a_fence_epoch(void) {
    MPI_Request request;
    open_window();
    if (wrong) {
        MPI_Win_fence(0, window);
    } else {
        MPI_Win_lock_all(0, window);
    }
    // wrong: call.invalid, MPI_Rput: MPI_ERR_RMA_SYNC: requests are allowed only in epochs of locks
    MPI_Rput(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, window, &request);
    MPI_Wait(&request, STATUS);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void put_to_who_has_not_posted(void) {
    open_window();
    MPI_Group group = one_rank(rank == 0 ? 1 : 0);
    if (rank == 0) {
        MPI_Win_start(group, 0, window);
        // wrong: call.invalid, MPI_Put: MPI_ERR_RMA_SYNC: no epoch is open in which rank 2 can be
        MPI_Put(&rank, 1, MPI_INT, wrong ? 2 : 1, 0, 1, MPI_INT, window);
        MPI_Win_complete(window);
    } else if (rank == 1) {
        MPI_Win_post(group, 0, window);
        MPI_Win_wait(window);
    }
    MPI_Group_free(&group);
    MPI_Win_free(&window);
}

static void complete_without_start(void) {
    open_window();
    MPI_Group group = one_rank(rank);
    if (!wrong) {
        MPI_Win_post(group, 0, window);
        MPI_Win_start(group, 0, window);
    }
    // wrong: call.invalid, MPI_Win_complete: MPI_ERR_RMA_SYNC: no epoch of MPI_Win_start is open
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    MPI_Group_free(&group);
    MPI_Win_free(&window);
}

static void wait_without_post(void) {
    open_window();
    MPI_Group group = one_rank(rank);
    if (!wrong) {
        MPI_Win_post(group, 0, window);
        MPI_Win_start(group, 0, window);
        MPI_Win_complete(window);
    }
    // wrong: call.invalid, MPI_Win_wait: MPI_ERR_RMA_SYNC: no epoch of MPI_Win_post is open
    MPI_Win_wait(window);
    MPI_Group_free(&group);
    MPI_Win_free(&window);
}

static void never_completed(void) {
    open_window();
    MPI_Group group = one_rank(rank == 0 ? 1 : 0);
    if (rank == 0) {
        MPI_Win_start(group, 0, window);
        if (!wrong) {
            MPI_Win_complete(window);
        }
        MPI_Group_free(&group);
        // wrong: call.invalid, MPI_Win_free: MPI_ERR_RMA_SYNC: the window is freed in an epoch that
        MPI_Win_free(&window);
    } else {
        if (rank == 1) {
            MPI_Win_post(group, 0, window);
            MPI_Win_wait(window);
        }
        MPI_Group_free(&group);
        MPI_Win_free(&window);
    }
}

// Each waits for the other's lock.
static void locks_in_a_cycle(void) {
    open_window();
    if (rank < 2) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, wrong ? rank : 0, 0, window);
        MPI_Barrier(MPI_COMM_SELF);
        if (wrong) {
            MPI_Send(&rank, 1, MPI_INT, 2, 0, WORLD);
            MPI_Recv(memory, 1, MPI_INT, 2, 0, WORLD, STATUS);
        }
        int second = wrong ? 1 - rank : 1;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, second, 0, window);  // wrong: deadlock.cycle
        MPI_Win_unlock(1, window);
        MPI_Win_unlock(0, window);
    } else if (wrong) {
        for (int i = 0; i < 2; i++) {
            MPI_Recv(memory, 1, MPI_INT, i, 0, WORLD, STATUS);
        }
        for (int i = 0; i < 2; i++) {
            MPI_Send(memory, 1, MPI_INT, i, 0, WORLD);
        }
    }
    MPI_Win_free(&window);
}

// MPI_Win_lock_all takes a lock of every rank.
static void exclusive_lock_under_all(void) {
    open_window();
    if (rank == 1) {
        MPI_Win_lock_all(0, window);
        MPI_Send(&rank, 1, MPI_INT, 2, 0, WORLD);
        if (!wrong) {
            MPI_Win_unlock_all(window);
        }
        MPI_Recv(memory, 1, MPI_INT, 2, 0, WORLD, STATUS);
        if (wrong) {
            MPI_Win_unlock_all(window);
        }
    } else if (rank == 2) {
        MPI_Recv(memory, 1, MPI_INT, 1, 0, WORLD, STATUS);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);  // wrong: deadlock.cycle
        MPI_Win_unlock(0, window);
        MPI_Send(&rank, 1, MPI_INT, 1, 0, WORLD);
    }
    MPI_Win_free(&window);
}

static void past_the_window(void) {
    open_window();
    MPI_Win_fence(0, window);
    // wrong: call.invalid, MPI_Put: MPI_ERR_RMA_RANGE: 4 bytes at displacement 8 are not in the
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, wrong ? 8 : 7, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void other_types_at_the_target(void) {
    open_window();
    MPI_Win_fence(0, window);
    MPI_Datatype there = wrong ? MPI_FLOAT : MPI_INT;
    // wrong: call.invalid, MPI_Put: MPI_ERR_TYPE: the origin has type MPI_INT
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, there, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void own_operation(void) {
    open_window();
    MPI_Win_fence(0, window);
    MPI_Op op = wrong ? MPI_OP_NULL : MPI_SUM;
    // wrong: call.invalid, MPI_Accumulate: MPI_ERR_OP: the operation is MPI_OP_NULL
    MPI_Accumulate(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, op, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void use_of_a_freed_window(void) {
    open_window();
    MPI_Win kept = window;
    if (wrong) {
        MPI_Win_free(&window);
    }
    // wrong: call.invalid, MPI_Win_fence: MPI_ERR_WIN: the window is a window that was freed
    MPI_Win_fence(0, kept);
    MPI_Win_free(&window);
}

static void never_freed(void) {
    // wrong: handle.leak, MPI_Finalize: a window, made by MPI_Win_create
    MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, WORLD, &window);
    if (!wrong) {
        MPI_Win_free(&window);
    }
}

// A rank that polls under a lock until another one has written lets that one run.
static void looks_until_it_is_written(void) {
    int seen = 0;
    open_window();
    while (rank == 0 && seen == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(NULL, &seen, MPI_INT, 0, 2, MPI_NO_OP, window);
        MPI_Win_unlock(0, window);
    }
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Accumulate(&rank, 1, MPI_INT, 0, 2, 1, MPI_INT, MPI_REPLACE, window);
        // wrong: call.invalid, MPI_Win_unlock: MPI_ERR_RMA_SYNC: rank 1 is not locked by
        MPI_Win_unlock(wrong ? 1 : 0, window);
    }
    MPI_Win_free(&window);
}

static void swap_of_what_is_no_integer(void) {
    float old_float, zero = 0, one = 1;
    int old, none = 0;
    open_window();
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    if (wrong) {
        // wrong: call.invalid, MPI_Compare_and_swap: MPI_ERR_TYPE: the datatype is MPI_FLOAT
        MPI_Compare_and_swap(&one, &zero, &old_float, MPI_FLOAT, 0, 0, window);
    } else {
        MPI_Compare_and_swap(&rank, &none, &old, MPI_INT, 0, 0, window);
    }
    MPI_Win_unlock(0, window);
    MPI_Win_free(&window);
}

// After a fence a window may be locked, and have fences again once the ranks have met (MPI 3.1,
// 11.7). Calls with requests are of no fence epoch.
static void lock_between_fences(void) {
    MPI_Request request;
    open_window();
    MPI_Win_fence(0, window);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    MPI_Put(&rank, 1, MPI_INT, rank, 3, 1, MPI_INT, window);
    MPI_Win_unlock(rank, window);
    if (!wrong) {
        MPI_Barrier(WORLD);
    }
    // wrong: call.invalid, MPI_Win_fence: MPI_ERR_RMA_SYNC: this ends the epoch of a fence
    MPI_Win_fence(0, window);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    MPI_Rput(&rank, 1, MPI_INT, rank, 3, 1, MPI_INT, window, &request);
    MPI_Wait(&request, STATUS);
    MPI_Win_unlock(rank, window);
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, rank, 3, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void put_after_the_lock(void) {
    open_window();
    MPI_Win_fence(0, window);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    MPI_Win_unlock(rank, window);
    if (wrong) {
        // wrong: call.invalid, MPI_Put: MPI_ERR_RMA_SYNC: no epoch is open in which rank
        MPI_Put(&rank, 1, MPI_INT, rank, 3, 1, MPI_INT, window);
    }
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

// A window of no memory is one of no bytes.
static void no_memory(void) {
    // wrong: call.invalid, MPI_ERR_BUFFER: the base is NULL, and the size is 1
    MPI_Win_create(NULL, wrong ? 1 : 0, 1, MPI_INFO_NULL, WORLD, &window);
    MPI_Win_free(&window);
}

static void lock_of_no_kind(void) {
    open_window();
    // wrong: call.invalid, MPI_Win_lock: MPI_ERR_LOCKTYPE: lock type 77
    MPI_Win_lock(wrong ? 77 : MPI_LOCK_SHARED, 0, 0, window);
    MPI_Win_unlock(0, window);
    MPI_Win_free(&window);
}

static void post_to_who_is_outside(void) {
    MPI_Comm own;
    MPI_Comm_split(WORLD, rank < 2, rank, &own);
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, own, &window);
    MPI_Group group = one_rank(wrong && rank < 2 ? 2 : rank);
    // wrong: call.invalid, MPI_Win_post: MPI_ERR_GROUP: rank 2 of MPI_COMM_WORLD is not
    MPI_Win_post(group, 0, window);
    MPI_Win_start(group, 0, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    MPI_Group_free(&group);
    MPI_Win_free(&window);
    MPI_Comm_free(&own);
}

CASES({"lock_of_no_kind", lock_of_no_kind}, {"post_to_who_is_outside", post_to_who_is_outside},
      {"no_memory", no_memory}, {"swap_of_what_is_no_integer", swap_of_what_is_no_integer},
      {"looks_until_it_is_written", looks_until_it_is_written},
      {"lock_between_fences", lock_between_fences}, {"put_after_the_lock", put_after_the_lock},
      {"put_in_no_epoch", put_in_no_epoch}, {"put_after_the_last_fence", put_after_the_last_fence},
      {"no_fence_at_the_end", no_fence_at_the_end}, {"a_rank_without_fence", a_rank_without_fence},
      {"unlock_of_another", unlock_of_another}, {"lock_in_a_lock", lock_in_a_lock},
      {"never_unlocked", never_unlocked}, {"fence_in_a_lock", fence_in_a_lock},
      {"fences_in_another_order", fences_in_another_order},
      {"flush_under_no_lock", flush_under_no_lock},
      {"request_in_a_fence_epoch", request_in_a_fence_epoch},
      {"put_to_who_has_not_posted", put_to_who_has_not_posted},
      {"complete_without_start", complete_without_start}, {"wait_without_post", wait_without_post},
      {"never_completed", never_completed}, {"locks_in_a_cycle", locks_in_a_cycle},
      {"exclusive_lock_under_all", exclusive_lock_under_all}, {"past_the_window", past_the_window},
      {"other_types_at_the_target", other_types_at_the_target}, {"own_operation", own_operation},
      {"use_of_a_freed_window", use_of_a_freed_window}, {"never_freed", never_freed})
