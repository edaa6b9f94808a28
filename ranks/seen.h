// Records that a process with ranks leaves for the process that supervises it, in memory of both: a
// rank may end the process in ways that no handler sees (a system call, exec, a stack overrun on a
// thread without a stack for signals), and what was known by then must not go with it.
#pragma once

#include <stdatomic.h>

#include "ranks/state.h"

#define LS_SEEN_RANKS 8  // at fault, of a finding

// The call site that a rank was last seen at.
typedef struct ls_seen_place {
    const char *key;  // `file` in the ranks' process: its existing contents are not copied
    char file[240];
    int line;
} ls_seen_place;

typedef struct ls_seen_finding {
    atomic_bool claimed;  // by the thread that writes it
    atomic_bool there;
    ls_finding_id id;
    int ranks[LS_SEEN_RANKS];
    int rank_count;
    char where[300];
    char text[8192];
} ls_seen_finding;

typedef struct ls_seen {
    atomic_int running;  // the rank whose turn it is; -1: none
    atomic_bool told;    // the process of the ranks has reported, with this exit code
    int code;
    // The first finding of a check, and what the process was ended by.
    ls_seen_finding check, end;
    char forked[512];  // action of a process that a rank has forked; "": nothing
    int forked_rank;
    ls_seen_place forked_at;
    char options[1024];  // that lead to this run again, of an exploration: " --choices 0,1"
    int runs;            // of the exploration
    size_t bytes;
    int place_count;
    ls_seen_place places[];  // [place_count]
} ls_seen;

LS_API_BACKENDS int ls_seen_open(ls_seen **out, int ranks);
LS_API_BACKENDS void ls_seen_close(ls_seen *seen);

extern LS_API_BACKENDS ls_seen *ls_seen__here;  // NULL: no process supervises this one
extern LS_API_BACKENDS bool ls_seen__forked;    // this process is one that a rank has forked

// The calling thread is the rank's, and makes a call there.
LS_API_BACKENDS void ls_seen__at(int rank, const char *file, int line);
// The process continues with another run.
LS_API_BACKENDS void ls_seen__begin(void);
void ls_seen__found(const ls_finding *finding);
// The process is about to end because of this rank. Safe in a signal's handler.
void ls_seen__lost(const ls_rank *rank, ls_finding_id id, const char *why);
