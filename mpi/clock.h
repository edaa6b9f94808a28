// The clocks of the threads of a rank.
#ifndef LS_MPI_CLOCK_H
#define LS_MPI_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi/data.h"
#include "ranks/front.h"

// A thread of a rank, as clock.c orders it.
typedef struct mpi_thread {
    uint64_t *clock;  // [ranks and LS_MPI_HELPERS]
    int slot;         // its own place there: the rank's, or one behind the ranks'
    bool outside;     // of the program's functions: it has its rank's order when it comes back
    bool pending;     // it has synchronised with others since its clock was last asked for
    bool forks;       // by starting a thread or a region, whose end it comes after
    struct mpi_thread *next;
} mpi_thread;
#define LS_MPI_HELPERS 64

void ls_mpi__clock_tick(mpi_rank *me);
void ls_mpi__clock_message(mpi_rank *to, const uint64_t *from);
uint64_t *ls_mpi__clock_copy(mpi_rank *me);
void ls_mpi__clock_met(ls_request *const *requests, int size);
mpi_thread *ls_mpi__thread(mpi_rank *me);  // the calling one
uint64_t *ls_mpi__clock(mpi_rank *me);     // its clock
uint64_t *ls_mpi__clock_make(void);
int ls_mpi__clock_count(void);
// The calling one enters the program's functions (first: it was in none), whether for its part of a
// region that it has started, and leaves them (last: it is in none).
bool ls_mpi__thread_enters(mpi_rank *me, bool first);
void ls_mpi__thread_leaves(mpi_rank *me, bool forked, bool last);
void ls_mpi__threads_meet(mpi_rank *me, bool forks);  // it synchronises with others
void ls_mpi__threads_release(mpi_rank *me);           // others come after it
void ls_mpi__threads_acquire(mpi_rank *me);           // it comes after others
void ls_mpi__threads_unordered(mpi_rank *me);
void ls_mpi__threads_open(mpi_rank *me);
void ls_mpi__threads_close(mpi_rank *me);

#endif
