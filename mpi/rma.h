// Windows as the files that implement them see them.
#ifndef LS_MPI_RMA_H
#define LS_MPI_RMA_H

#include "mpi/internal.h"

typedef struct mpi_attached {  // memory of a dynamic window
    mpi_interval at;
    struct mpi_attached *next;  // of those without a byte
} mpi_attached;

typedef struct mpi_lock {
    int exclusive;  // the member that has it; -1: nobody
    int shared;
    uint64_t *clock;  // of those that had it exclusively
} mpi_lock;

// An access to a member's memory, kept for as long as another one may race with it.
typedef struct mpi_access {
    int ranges;          // that are kept of it
    bool whole;          // there was one
    int origin, target;  // ranks of the world; members of the window
    int slot;            // in clocks, of the thread that has made or completed it
    int target_member;
    bool local, writes, atomic;
    bool called;           // by a function of MPI
    int op, basic;         // of an accumulate
    int lock;              // MPI_LOCK_EXCLUSIVE, _SHARED, or 0: under no lock
    uint64_t begun;        // of the thread's own clock as it was made
    uint64_t done;         // and as it was complete at the target; UINT64_MAX: not yet
    bool fetches;          // its result says that it is complete at the target
    mpi_request *request;  // NULL: none
    uint64_t *clock;       // of the origin as it wrote atomically; NULL otherwise
    uint64_t *seen;        // of each thread's clock as it has read that atomically; 0: it has not
    const struct mpi_window *window;
    const char *function, *file;
    int line;
    const void *code;  // of the program's own, which knows its line better; NULL: not its own
    struct mpi_access *next, **open;  // others that are not complete, and who points to this one
} mpi_access;

// What all members of a window share.
typedef struct mpi_window {
    int size;
    mpi_win **members;  // [size]
    mpi_lock *locks;    // [size]
    int *signals;       // [2][size][size] of post and complete
    uint64_t **signal_clocks;
    char *memory;  // of shared windows
} mpi_window;

struct mpi_win {
    int handle;
    mpi_comm *comm;
    ls_rank_comm *channel;  // where its collectives meet
    mpi_rank *owner;
    mpi_window *shared;
    int member;
    char *base;
    MPI_Aint size;
    int disp_unit, flavor;
    void *memory;
    mpi_intervals attached;
    mpi_attached *attached_empty;
    mpi_owned **owned;     // [size] by target, by calls that are not complete
    mpi_access **open[2];  // [size] by target; whose results do not say when they are, and do
    int errhandler;
    mpi_attribute *attributes;
    char name[MPI_MAX_OBJECT_NAME];
    bool fence_open, ops_in_fence, all_locked;
    mpi_group *started, *posted;  // members
    int *locks_held;              // [size] the lock's type; 0: none
    int lock_count;
    const char *epoch_function, *epoch_file;
    int epoch_line;
    bool fence_before_lock;  // an epoch of locks was opened where one of fences may be,
    bool ops_in_lock;        // and has calls, which are then of both
    const char *fence_file;
    int fence_line;
    uint64_t made_at;  // calls of its rank by then
    bool told;         // that its memory is freed
    mpi_win *next;
};

int ls_mpi__win_arg(mpi_win **out, mpi_where at, MPI_Win handle);
int ls_mpi__sync_error(mpi_where at, const mpi_win *win, const char *format, ...) LS_PRINTF(3, 4);
void ls_mpi__open_epoch(mpi_win *win, const char *function);

// Two accesses that race, as they were found.
typedef struct mpi_race {
    mpi_rank *me;  // NULL: none do
    mpi_access before, now;
} mpi_race;

// ---- owned.c ------------------------------------------------------------------------------------
// A call is made from a frame that ends at `stack`: variables of frames beyond it no longer exist.
void ls_mpi__left_behind(const void *stack);

// ---- race.c -------------------------------------------------------------------------------------
// A call reaches memory of a target; the origin's buffers are its own until it is complete.
mpi_access *ls_mpi__race_remote(mpi_win *win, int target, const mpi_place *place,
                                const mpi_access *how);
void ls_mpi__race_requested(mpi_access *access, mpi_request *request);
// The calls to a target (-1: to all) are complete; remote: there, too.
void ls_mpi__race_complete(mpi_win *win, int target, bool remote);
void ls_mpi__race_close(mpi_win *win);
void ls_mpi__race_forget(const mpi_win *win, const char *low, const char *high);
// An access of the program's own. Report what it races with where others may change the lists.
void ls_mpi__win_access(mpi_race *out, mpi_rank *me, const char *low, const char *high, bool writes,
                        const void *code);
void ls_mpi__race_report(mpi_race *race);
void ls_mpi__clock_signal(mpi_win *win, int to, bool post);
void ls_mpi__clock_signalled(mpi_win *win, int from, bool post);
void ls_mpi__clock_lock(mpi_win *win, int target);
void ls_mpi__clock_unlock(mpi_win *win, int target, bool exclusive);

#endif
