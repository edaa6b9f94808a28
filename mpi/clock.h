// Vector clocks of the threads of a rank.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mpi/data.h"
#include "ranks/front.h"

// A thread of a rank in clock.c.
typedef struct mpi_thread {
    uint64_t *clock;  // [ranks and LS_MPI_HELPERS]
    int slot;         // its own entry of the clock: the rank's, or one after those of the ranks
    bool outside;     // outside of the program's functions: on return it takes the rank's order
    bool pending;     // it has synchronised since its clock was last read
    bool forks;       // by starting a thread or a region; it is ordered after their end
    struct mpi_thread *next;
} mpi_thread;
#define LS_MPI_HELPERS 64

void ls_mpi__clock_tick(mpi_rank *me);
void ls_mpi__clock_message(mpi_rank *to, const uint64_t *from);
uint64_t *ls_mpi__clock_copy(mpi_rank *me);
void ls_mpi__clock_met(ls_request *const *requests, int size);
mpi_thread *ls_mpi__thread(mpi_rank *me);  // the calling thread
uint64_t *ls_mpi__clock(mpi_rank *me);     // the calling thread's clock
uint64_t *ls_mpi__clock_make(void);
int ls_mpi__clock_count(void);
// The calling thread enters the program's functions. first: it was in none. Returns whether it runs
// a part of a region that it started itself. On leaving, last: it is in none from here on.
bool ls_mpi__thread_enters(mpi_rank *me, bool first);
void ls_mpi__thread_leaves(mpi_rank *me, bool forked, bool last);
void ls_mpi__threads_meet(mpi_rank *me);     // the calling thread synchronises
void ls_mpi__threads_start(mpi_rank *me);    // it starts a thread and does not wait for it
void ls_mpi__threads_fork(mpi_rank *me);     // it starts a region, and waits for its end
void ls_mpi__threads_release(mpi_rank *me);  // orders later acquires after this thread
void ls_mpi__threads_acquire(mpi_rank *me);  // orders this thread after releases
void ls_mpi__threads_unordered(mpi_rank *me);
void ls_mpi__threads_open(mpi_rank *me);
void ls_mpi__threads_close(mpi_rank *me);
