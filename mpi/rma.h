// Windows, for the files that implement them.
#pragma once

#include "mpi/internal.h"

typedef struct mpi_attached {  // memory of a dynamic window
    mpi_interval at;
    struct mpi_attached *next;  // list of empty attachments
} mpi_attached;

typedef struct mpi_lock {
    int exclusive;  // the member that holds it; -1: none
    int shared;
    uint64_t *clock;  // of earlier exclusive holders
} mpi_lock;

// An access to a member's memory, kept while another access may race with it.
typedef struct mpi_access {
    int ranges;          // number of its ranges that are kept
    bool whole;          // it had one range
    int origin, target;  // ranks of the world
    int slot;            // clock entry of the thread that made or completed it
    int target_member;
    bool local, writes, atomic;
    bool called;           // by an MPI function
    int op, basic;         // of an accumulate
    int lock;              // MPI_LOCK_EXCLUSIVE, _SHARED, or 0: no lock
    uint64_t begun;        // the thread's clock entry at the call
    uint64_t done;         // the same at its completion at the target; UINT64_MAX: not complete
    bool fetches;          // its result shows that it is complete at the target
    mpi_request *request;  // NULL: none
    uint64_t *clock;       // the origin's clock at an atomic write; NULL otherwise
    uint64_t *seen;        // each thread's clock entry at its atomic read of that; 0: none
    const struct mpi_window *window;  // NULL: of memory outside of windows, by a thread of its rank
    uint64_t blocks;                  // of such memory: number of allocations by then
    const char *function, *file;
    int line;
    const void *code;  // address of a local access, whose line is looked up later; NULL: not local
    struct mpi_access *next, **open;  // list of incomplete accesses; the pointer to this element
} mpi_access;

// The state that all members of a window share.
typedef struct mpi_window {
    int size;
    mpi_win **members;  // [size]
    mpi_lock *locks;    // [size]
    int *signals;       // [2][size][size] counts of post and complete
    uint64_t **signal_clocks;
    char *memory;  // of shared windows
    bool no_memory;
} mpi_window;

struct mpi_win {
    int handle;
    mpi_comm *comm;
    ls_rank_comm *channel;  // communicator of its collectives
    mpi_rank *owner;
    mpi_window *shared;
    int member;
    char *base;
    MPI_Aint size;
    int disp_unit, flavor;
    void *memory;  // of MPI_Win_allocate
    mpi_intervals attached;
    mpi_attached *attached_empty;
    mpi_owned **owned;     // [size] by target, of incomplete calls
    mpi_access **open[2];  // [size] by target; [1]: of calls whose results show their completion
    int errhandler;
    mpi_attribute *attributes;
    char name[MPI_MAX_OBJECT_NAME];
    bool fence_open, ops_in_fence, all_locked;
    mpi_group *started, *posted;  // members
    int *locks_held;              // [size] type of the lock; 0: none
    int lock_count;
    const char *epoch_function, *epoch_file;
    int epoch_line;
    bool fence_before_lock;  // a lock epoch was opened inside a possible fence epoch
    uint64_t ops_in_lock;    // 0: none of both; else what its rank knew of others at the last one
    uint64_t made_at;        // number of calls of its rank at creation
    bool told;               // its freed memory has been reported
    mpi_win *next;
};

int ls_mpi__win_arg(mpi_win **out, mpi_where at, MPI_Win handle);
int ls_mpi__sync_error(mpi_where at, const mpi_win *win, const char *format, ...) LS_PRINTF(3, 4);
void ls_mpi__open_epoch(mpi_win *win, const char *function);

// Two accesses that race.
typedef struct mpi_race {
    mpi_rank *me;  // NULL: none
    mpi_access before, now;
} mpi_race;

// ---- blocks.c -----------------------------------------------------------------------------------
// Memory for the caller of an MPI function, with a guard; NULL: there is none. freer, by: names of
// the functions that must free it, and that frees it, from below.
void *ls_mpi__memory_give(size_t bytes, const void *caller, const char *freer);
void ls_mpi__memory_take(void *at, const void *caller, const char *by);
#define LS_MPI_FREE_MEM ls_mpi__freers[0]
#define LS_MPI_FREE_WIN ls_mpi__freers[1]
extern const char *const ls_mpi__freers[2];
// The number of the allocation that holds the address (0: none); at NULL: of the newest one.
uint64_t ls_mpi__block_number(mpi_rank *me, const char *at);

// ---- owned.c ------------------------------------------------------------------------------------
// A call is made from a frame that ends at `stack`: variables of frames beyond it no longer exist.
void ls_mpi__left_behind(const void *stack);

// ---- race.c, race_own.c -------------------------------------------------------------------------
// A call reaches memory of a target; the origin's buffers are its own until it is complete.
mpi_access *ls_mpi__race_remote(mpi_win *win, int target, const mpi_place *place,
                                const mpi_access *how);
void ls_mpi__race_requested(mpi_access *access, mpi_request *request);
// The calls to a target (-1: all) are complete; remote: also at the target.
void ls_mpi__race_complete(mpi_win *win, int target, bool remote);
void ls_mpi__race_close(mpi_win *win);
void ls_mpi__race_forget(const mpi_win *win, const char *low, const char *high);
// Records a local access. The caller reports the race once others may change the lists.
void ls_mpi__win_access(mpi_race *out, mpi_rank *me, const char *low, const char *high, bool writes,
                        const void *code);
void ls_mpi__race_report(mpi_race *race);
// An access of the rank's own: fills in the race, or keeps it for later ones.
void ls_mpi__race_own(mpi_race *out, mpi_rank *me, const mpi_range *range, mpi_access *now,
                      bool keeps);
bool ls_mpi__race_outside(void);  // accesses outside of windows are kept
// An RMA call uses a buffer of its origin.
void ls_mpi__race_origin(mpi_rank *me, const char *low, const char *high, const mpi_owned *by);
uint64_t ls_mpi__clock_others(mpi_rank *me);  // grows whenever it comes after others; never 0
void ls_mpi__clock_signal(mpi_win *win, int to, bool post);
void ls_mpi__clock_signalled(mpi_win *win, int from, bool post);
void ls_mpi__clock_lock(mpi_win *win, int target);
void ls_mpi__clock_unlock(mpi_win *win, int target, bool exclusive);
