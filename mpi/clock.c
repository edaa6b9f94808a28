// Vector clocks: each rank has one, of what MPI says orders what ranks do, which is epochs,
// messages and collectives.
#include <stdlib.h>
#include <string.h>

#include "mpi/rma.h"

static int ranks(void) {
    return ls_mpi__state.rank_count;
}

static void merge(uint64_t *into, const uint64_t *from) {
    for (int r = 0; from != NULL && r < ranks(); r++) {
        into[r] = from[r] > into[r] ? from[r] : into[r];
    }
}

void ls_mpi__clock_tick(mpi_rank *me) {
    me->clock[me->id] += 1;
}

void ls_mpi__clock_message(mpi_rank *to, const uint64_t *from) {
    merge(to->clock, from);
}

uint64_t *ls_mpi__clock_copy(const mpi_rank *me) {
    size_t bytes = (size_t)ranks() * sizeof(uint64_t);
    uint64_t *made = ls_mpi__alloc(bytes);
    memcpy(made, me->clock, bytes);
    return made;
}

static mpi_rank *rank_of(const ls_request *request) {
    return &ls_mpi__state.ranks[request->call.rank];
}

void ls_mpi__clock_met(ls_request *const *requests, int size) {
    const mpi_record *model = requests[0]->record;
    uint64_t *sum = ls_mpi__alloc((size_t)ranks() * sizeof *sum);
    int root = -1;
    for (int m = 0; m < size && model->collective->rooted; m++) {
        const mpi_record *record = requests[m]->record;
        bool is = record->comm->inter ? record->root == MPI_ROOT : record->root == m;
        root = is ? m : root;
    }
    switch (model->collective->sync) {
    case MPI_SYNC_FROM_ROOT:
        for (int m = 0; m < size && root >= 0; m++) {
            merge(rank_of(requests[m])->clock, rank_of(requests[root])->clock);
        }
        break;
    case MPI_SYNC_TO_ROOT:
        for (int m = 0; m < size && root >= 0; m++) {
            merge(rank_of(requests[root])->clock, rank_of(requests[m])->clock);
        }
        break;
    case MPI_SYNC_PREFIX:
        for (int m = 0; m < size; m++) {
            merge(sum, rank_of(requests[m])->clock);
            merge(rank_of(requests[m])->clock, sum);
        }
        break;
    case MPI_SYNC_ALL:
        for (int m = 0; m < size; m++) {
            merge(sum, rank_of(requests[m])->clock);
        }
        for (int m = 0; m < size; m++) {
            merge(rank_of(requests[m])->clock, sum);
        }
        break;
    }
    for (int m = 0; m < size; m++) {
        ls_mpi__clock_tick(rank_of(requests[m]));
    }
    free(sum);
}

// Of post and complete: the last of each pair of members.
static uint64_t **signal_clock(mpi_window *shared, int from, int to, bool post) {
    size_t n = (size_t)shared->size;
    if (shared->signal_clocks == NULL) {
        shared->signal_clocks = ls_mpi__alloc(2 * n * n * sizeof(uint64_t *));
    }
    return &shared->signal_clocks[((post ? n : 0) + (size_t)from) * n + (size_t)to];
}

void ls_mpi__clock_signal(mpi_win *win, int to, bool post) {
    uint64_t **at = signal_clock(win->shared, win->member, to, post);
    free(*at);
    *at = ls_mpi__clock_copy(win->owner);
}

void ls_mpi__clock_signalled(mpi_win *win, int from, bool post) {
    merge(win->owner->clock, *signal_clock(win->shared, from, win->member, post));
}

// An exclusive lock comes after those that were there before it.
void ls_mpi__clock_lock(mpi_win *win, int target) {
    merge(win->owner->clock, win->shared->locks[target].clock);
}

void ls_mpi__clock_unlock(mpi_win *win, int target, bool exclusive) {
    mpi_lock *lock = &win->shared->locks[target];
    if (exclusive) {
        if (lock->clock == NULL) {
            lock->clock = ls_mpi__alloc((size_t)ranks() * sizeof(uint64_t));
        }
        merge(lock->clock, win->owner->clock);
    }
    ls_mpi__clock_tick(win->owner);
}
