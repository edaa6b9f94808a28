// Vector clocks. Each thread of a rank has one. Between ranks, MPI epochs, messages and collectives
// give the order. Between the threads of a rank, synchronisation does: locks, barriers, atomics,
// the start and end of threads, parallel regions and tasks. One object stands for all
// synchronisation of a rank. This orders more accesses than the program does, so it hides races and
// never invents one.
#include <stdlib.h>
#include <string.h>

#include "mpi/rma.h"

// Threads beyond the first LS_MPI_HELPERS share clock entries. This also orders more.
static atomic_int helpers;
static atomic_uint_least64_t runs;
static _Thread_local mpi_thread *helper;
static _Thread_local uint64_t helper_run;

int ls_mpi__clock_count(void) {
    int more = helpers;
    return ls_mpi__state.rank_count + (more < LS_MPI_HELPERS ? more : LS_MPI_HELPERS);
}

uint64_t *ls_mpi__clock_make(void) {
    return ls_mpi__alloc((size_t)(ls_mpi__state.rank_count + LS_MPI_HELPERS) * sizeof(uint64_t));
}

static void merge(uint64_t *into, const uint64_t *from) {
    for (int r = 0; from != NULL && r < ls_mpi__clock_count(); r++) {
        into[r] = from[r] > into[r] ? from[r] : into[r];
    }
}

void ls_mpi__clock_tick(mpi_rank *me) {
    ls_mpi__clock(me)[ls_mpi__thread(me)->slot] += 1;
}

void ls_mpi__clock_message(mpi_rank *to, const uint64_t *from) {
    merge(ls_mpi__clock(to), from);
}

uint64_t *ls_mpi__clock_copy(mpi_rank *me) {
    uint64_t *made = ls_mpi__clock_make();
    merge(made, ls_mpi__clock(me));
    return made;
}

uint64_t ls_mpi__clock_others(mpi_rank *me) {
    const uint64_t *clock = ls_mpi__clock(me);
    uint64_t sum = 1;
    for (int r = 0; r < ls_mpi__state.rank_count; r++) {
        sum += r != me->id ? clock[r] : 0;
    }
    return sum;
}

// The thread that waits in the call, or that started it.
static mpi_thread *caller_of(const ls_request *request) {
    const mpi_record *record = request->record;
    LS_ASSERT(record->thread != NULL);
    return record->thread;
}

void ls_mpi__clock_met(ls_request *const *requests, int size) {
    const mpi_record *model = requests[0]->record;
    uint64_t *sum = ls_mpi__clock_make();
    int root = -1;
    for (int m = 0; m < size && model->collective->rooted; m++) {
        const mpi_record *record = requests[m]->record;
        bool is = record->comm->inter ? record->root == MPI_ROOT : record->root == m;
        root = is ? m : root;
    }
    switch (model->collective->sync) {
    case MPI_SYNC_FROM_ROOT:
        for (int m = 0; m < size && root >= 0; m++) {
            merge(caller_of(requests[m])->clock, caller_of(requests[root])->clock);
        }
        break;
    case MPI_SYNC_TO_ROOT:
        for (int m = 0; m < size && root >= 0; m++) {
            merge(caller_of(requests[root])->clock, caller_of(requests[m])->clock);
        }
        break;
    case MPI_SYNC_PREFIX:
        for (int m = 0; m < size; m++) {
            merge(sum, caller_of(requests[m])->clock);
            merge(caller_of(requests[m])->clock, sum);
        }
        break;
    case MPI_SYNC_ALL:
        for (int m = 0; m < size; m++) {
            merge(sum, caller_of(requests[m])->clock);
        }
        for (int m = 0; m < size; m++) {
            merge(caller_of(requests[m])->clock, sum);
        }
        break;
    }
    for (int m = 0; m < size; m++) {
        mpi_thread *caller = caller_of(requests[m]);
        caller->clock[caller->slot] += 1;
    }
    free(sum);
}

// The clock of the last post or complete between two members.
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
    merge(ls_mpi__clock(win->owner), *signal_clock(win->shared, from, win->member, post));
}

// An exclusive lock is ordered after the locks before it.
void ls_mpi__clock_lock(mpi_win *win, int target) {
    merge(ls_mpi__clock(win->owner), win->shared->locks[target].clock);
}

void ls_mpi__clock_unlock(mpi_win *win, int target, bool exclusive) {
    mpi_lock *lock = &win->shared->locks[target];
    if (exclusive) {
        if (lock->clock == NULL) {
            lock->clock = ls_mpi__clock_make();
        }
        merge(lock->clock, ls_mpi__clock(win->owner));
    }
    ls_mpi__clock_tick(win->owner);
}

// ---- The threads of a rank ----------------------------------------------------------------------
void ls_mpi__threads_open(mpi_rank *me) {
    me->main = (mpi_thread){.clock = ls_mpi__clock_make(), .slot = me->id};
    me->main.clock[me->id] = 1;
    (void)pthread_mutex_init(&me->turn, NULL);
    (void)pthread_mutex_init(&me->look, NULL);
}

void ls_mpi__threads_close(mpi_rank *me) {
    while (me->main.next != NULL) {
        mpi_thread *gone = me->main.next;
        me->main.next = gone->next;
        free(gone->clock);
        free(gone);
    }
    free(me->main.clock);
    free(me->touches);
    me->touches = NULL;
    free(me->synchronised);
    free(me->forked);
    free(me->ended);
    (void)pthread_mutex_destroy(&me->turn);
    (void)pthread_mutex_destroy(&me->look);
    helpers = 0;
    runs += 1;
}

static mpi_thread *make_helper(mpi_rank *me) {
    mpi_thread *made = ls_mpi__alloc(sizeof *made);
    *made = (mpi_thread){.clock = ls_mpi__clock_make(),
                         .slot = ls_mpi__state.rank_count + helpers++ % LS_MPI_HELPERS};
    (void)pthread_mutex_lock(&me->turn);
    merge(made->clock, me->forked);
    made->clock[made->slot] += 1;
    mpi_thread **last = &me->main.next;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = made;
    (void)pthread_mutex_unlock(&me->turn);
    return made;
}

mpi_thread *ls_mpi__thread(mpi_rank *me) {
    if (me->unordered || pthread_equal(me->rank->thread, pthread_self()) != 0) {
        return &me->main;
    }
    if (helper == NULL || helper_run != runs) {
        helper = make_helper(me);
        helper_run = runs;
    }
    return helper;
}

uint64_t *ls_mpi__clock(mpi_rank *me) {
    mpi_thread *self = ls_mpi__thread(me);
    if (self->pending) {
        self->pending = self->forks = false;
        (void)pthread_mutex_lock(&me->turn);
        merge(self->clock, me->synchronised);
        merge(self->clock, me->ended);
        self->clock[self->slot] += 1;
        (void)pthread_mutex_unlock(&me->turn);
    }
    return self->clock;
}

static void release(mpi_rank *me, uint64_t **to) {
    uint64_t *clock = ls_mpi__clock(me);
    (void)pthread_mutex_lock(&me->turn);
    *to = *to != NULL ? *to : ls_mpi__clock_make();
    merge(*to, clock);
    (void)pthread_mutex_unlock(&me->turn);
    ls_mpi__clock_tick(me);
}

static void acquire(mpi_rank *me, const uint64_t *from) {
    uint64_t *clock = ls_mpi__clock(me);
    (void)pthread_mutex_lock(&me->turn);
    merge(clock, from);
    (void)pthread_mutex_unlock(&me->turn);
    ls_mpi__clock_tick(me);
}

void ls_mpi__threads_release(mpi_rank *me) {
    release(me, &me->synchronised);
}

void ls_mpi__threads_acquire(mpi_rank *me) {
    acquire(me, me->synchronised);
}

// The acquire takes effect when the thread continues: at the next read of its clock.
void ls_mpi__threads_meet(mpi_rank *me) {
    release(me, &me->synchronised);
    ls_mpi__thread(me)->pending = true;
    ls_mpi__thread(me)->forks = false;
}

void ls_mpi__threads_start(mpi_rank *me) {
    release(me, &me->synchronised);
    release(me, &me->forked);
}

void ls_mpi__threads_fork(mpi_rank *me) {
    ls_mpi__threads_start(me);
    ls_mpi__thread(me)->pending = true;
    ls_mpi__thread(me)->forks = true;
}

// A part of a region is ordered after the start of the region, not after what other parts have done
// by then.
bool ls_mpi__thread_enters(mpi_rank *me, bool first) {
    mpi_thread *self = ls_mpi__thread(me);
    bool forked = self->pending && self->forks && !me->has_tasks;
    bool starts = first && self != &me->main && !me->has_tasks;
    self->pending = !forked && !starts;
    self->outside = false;
    (void)ls_mpi__clock(me);
    if (starts) {
        acquire(me, me->forked);
    }
    return forked;
}

void ls_mpi__thread_leaves(mpi_rank *me, bool forked, bool last) {
    release(me, &me->ended);
    mpi_thread *self = ls_mpi__thread(me);
    self->pending = self->pending || forked;
    self->outside = last;
}

void ls_mpi__threads_unordered(mpi_rank *me) {
    (void)pthread_mutex_lock(&me->turn);
    for (const mpi_thread *at = me->main.next; at != NULL; at = at->next) {
        merge(me->main.clock, at->clock);
    }
    me->unordered = true;
    (void)pthread_mutex_unlock(&me->turn);
}
