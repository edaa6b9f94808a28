// The calls of each rank of a job from its dumps (python/lockstep/dumps.py), and the matcher's
// finding.
#pragma once

#include "ranks/ranks.h"

typedef struct ls_history_call {
    int group;
    ls_call call;  // without communicator, rank, number and buffers; counts are the history's
    uint64_t thread;
    uint64_t queue;  // calls of one queue of a rank begin one after another; 0: no queue
    uint64_t batch;  // calls of one batch begin together; 0: no batch
    bool completed;
    bool started;  // on its GPU; completed calls are
    bool met;      // ls_history_explain: with those of all other members
} ls_history_call;

typedef struct ls_history_group {
    const char *name;
    int *ranks;  // [size], in the group's order
    int size;
    uint64_t first;   // the number of its first call in the dumps
    uint64_t agreed;  // calls before it of which it is known that all members made them
} ls_history_group;

typedef struct ls_history_rank {
    bool known;              // it left a dump
    const char *ended;       // how its process ended; NULL: not known
    ls_history_call *calls;  // [call_count], in the order in which it made them
    int call_count;
} ls_history_rank;

typedef struct ls_history {
    ls_arena *arena;  // of all of it
    ls_history_group *groups;
    int group_count;
    ls_history_rank *ranks;  // [rank_count], by their number
    int rank_count;
    const char **notes;  // [note_count] sentences about calls that are not compared
    int note_count;
} ls_history;

// Reads a file of lockstep.dumps. LS_ERR_FORMAT with the place, LS_ERR_IO, LS_ERR_LIMIT,
// LS_ERR_MEMORY.
int ls_history_read(ls_history **out, const char *path);
void ls_history_free(ls_history *history);  // NULL is allowed

// Whether the process ended by itself ("returned 1") instead of dying.
bool ls_history_returned(const char *ended);

// Has the matcher of ranks/ match the calls, and marks the matched ones. The others hang and are
// explained. Drops calls that a rank's GPU had not begun when its process ended. *out has the
// findings; the caller frees it. LS_OK also with findings. A rank without a dump is a finding if
// others wait for it and nothing else explains that.
int ls_history_explain(ls_spmd_result **out, ls_history *history, const char *checks);

// A sentence about calls that all members have made and that are not completed; NULL: none is.
const char *ls_history_unfinished(const ls_history *history);
