// Locks of windows: epochs in which only the origin takes part.
#include "mpi/rma.h"

#define RUNS_ON 16  // completed accesses after which a polling rank lets others run

static void take_lock(mpi_where at, mpi_win *win, int target, bool exclusive) {
    mpi_lock *lock = &win->shared->locks[target];
    while (lock->exclusive >= 0 || (exclusive && lock->shared > 0)) {
        ls_mpi__poll(at.me, at.function);
    }
    if (exclusive) {
        ls_mpi__observe();
        lock->exclusive = win->member;
        ls_mpi__clock_lock(win, target);
    } else {
        lock->shared += 1;
        ls_mpi__clock_lock(win, target);
    }
    win->locks_held[target] = exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
}

static void drop_lock(mpi_win *win, int target) {
    mpi_lock *lock = &win->shared->locks[target];
    bool exclusive = win->locks_held[target] == MPI_LOCK_EXCLUSIVE;
    ls_mpi__race_complete(win, target, true);
    ls_mpi__clock_unlock(win, target, exclusive);
    if (exclusive) {
        lock->exclusive = -1;
    } else {
        lock->shared -= 1;
    }
    win->locks_held[target] = 0;
    ls_mpi__state.run->completed += 1;  // a rank that polls for it may continue
}

void ls_mpi__let_others(mpi_rank *me, const char *function) {
    bool in_turn = ls_mpi__state.options->spmd.schedule == LS_SCHEDULE_ROUND_ROBIN;
    if (!in_turn || ++me->ends % RUNS_ON == 0) {
        ls_mpi__poll(me, function);
    }
}

static int target_arg(mpi_where at, const mpi_win *win, int rank) {
    return rank == MPI_PROC_NULL || (rank >= 0 && rank < win->comm->size)
               ? MPI_SUCCESS
               : ls_mpi__win_error(at.me, win, MPI_ERR_RANK, at.function,
                                   "rank %d is not in [0, %d)", rank, win->comm->size);
}

int MPI_Win_lock(int lock_type, int rank, int assertion, MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    (void)assertion;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    MPI_TRY(target_arg(at, win, rank));
    if (lock_type != MPI_LOCK_EXCLUSIVE && lock_type != MPI_LOCK_SHARED) {
        return ls_mpi__win_error(at.me, win, MPI_ERR_LOCKTYPE, __func__, "lock type %d", lock_type);
    }
    if (rank == MPI_PROC_NULL) {
        return MPI_SUCCESS;
    }
    if (win->all_locked || win->locks_held[rank] != 0 || win->started != NULL ||
        win->posted != NULL || (win->fence_open && win->ops_in_fence)) {
        return ls_mpi__sync_error(at, win, "the window is in an epoch that %s at %s:%d opened",
                                  win->epoch_function, win->epoch_file, win->epoch_line);
    }
    win->fence_before_lock = win->fence_before_lock || win->fence_open;
    win->fence_open = false;
    take_lock(at, win, rank, lock_type == MPI_LOCK_EXCLUSIVE);
    win->lock_count += 1;
    ls_mpi__open_epoch(win, __func__);
    return MPI_SUCCESS;
}

int MPI_Win_unlock(int rank, MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    MPI_TRY(target_arg(at, win, rank));
    if (rank == MPI_PROC_NULL) {
        return MPI_SUCCESS;
    }
    if (win->locks_held[rank] == 0 || win->all_locked) {
        return ls_mpi__sync_error(at, win, "rank %d is not locked by MPI_Win_lock", rank);
    }
    drop_lock(win, rank);
    win->lock_count -= 1;
    ls_mpi__let_others(at.me, at.function);
    return MPI_SUCCESS;
}

int MPI_Win_lock_all(int assertion, MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    (void)assertion;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    if (win->all_locked || win->lock_count > 0 || win->started != NULL || win->posted != NULL ||
        (win->fence_open && win->ops_in_fence)) {
        return ls_mpi__sync_error(at, win, "the window is in an epoch that %s at %s:%d opened",
                                  win->epoch_function, win->epoch_file, win->epoch_line);
    }
    win->fence_before_lock = win->fence_before_lock || win->fence_open;
    win->fence_open = false;
    for (int m = 0; m < win->shared->size; m++) {
        take_lock(at, win, m, false);
    }
    win->all_locked = true;
    ls_mpi__open_epoch(win, __func__);
    return MPI_SUCCESS;
}

int MPI_Win_unlock_all(MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    if (!win->all_locked) {
        return ls_mpi__sync_error(at, win, "MPI_Win_lock_all has not locked the window");
    }
    for (int m = 0; m < win->shared->size; m++) {
        drop_lock(win, m);
    }
    win->all_locked = false;
    ls_mpi__let_others(at.me, at.function);
    return MPI_SUCCESS;
}

static int flush(mpi_where at, int rank, MPI_Win handle, bool remote) {
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    if (rank != -1) {
        MPI_TRY(target_arg(at, win, rank));
    }
    bool held = win->all_locked || (rank >= 0 ? win->locks_held[rank] != 0 : win->lock_count > 0);
    if (!held) {
        return ls_mpi__sync_error(at, win, "no lock is held");
    }
    ls_mpi__race_complete(win, rank, remote);
    ls_mpi__clock_tick(at.me);
    ls_mpi__let_others(at.me, at.function);
    return MPI_SUCCESS;
}

int MPI_Win_flush(int rank, MPI_Win win) {
    MPI_ENTER_AT(at);
    return flush(at, rank, win, true);
}

int MPI_Win_flush_all(MPI_Win win) {
    MPI_ENTER_AT(at);
    return flush(at, -1, win, true);
}

int MPI_Win_flush_local(int rank, MPI_Win win) {
    MPI_ENTER_AT(at);
    return flush(at, rank, win, false);
}

int MPI_Win_flush_local_all(MPI_Win win) {
    MPI_ENTER_AT(at);
    return flush(at, -1, win, false);
}

int MPI_Win_sync(MPI_Win handle) {
    MPI_ENTER_AT(at);
    mpi_win *win;
    MPI_TRY(ls_mpi__win_arg(&win, at, handle));
    ls_mpi__observe();
    ls_mpi__poll(at.me, __func__);
    return MPI_SUCCESS;
}
