// The lines of the program from which the members of a communicator matched in its last rounds.
// They distinguish equal calls in another order from branches that match on purpose.
#pragma once

#include "ranks/state.h"

#define LS_SITES_ROUNDS 64  // kept of a communicator

// One member's call of a round that members made from different lines.
typedef struct ls_site {
    const char *file;  // "": not known
    int line;
    size_t count;
    uintptr_t memory;     // receive buffer, else send buffer: in its allocation, if any
    uint64_t allocation;  // its number among the rank's; 0: none of ls_rank_alloc
    const char *allocated_file;
    int allocated_line;
} ls_site;

typedef struct ls_site_round {
    ls_call call;    // the first member's
    bool mixed;      // the members made it from different lines
    ls_site *sites;  // [size] where it is mixed; kept for the next one of this place
} ls_site_round;

struct ls_sites {
    int count;
    ls_site_round rounds[LS_SITES_ROUNDS];  // oldest first
};

// Calls in another order, reported at the end of a run that does not fail: what looks like it may
// be the shift that a call left out causes.
struct ls_crossing {
    const ls_shared_comm *shared;
    const int *ranks;  // [rank_count] at fault
    int rank_count;
    ls_site first, second;  // of the first of them
    const char *text;
    ls_crossing *next;
};

static inline const ls_site *ls_sites__at(const ls_site_round *round, int member) {
    LS_ASSERT(round->mixed);
    return &round->sites[member];
}

bool ls_sites__same(const ls_site *a, const ls_site *b);  // the same line of the same file
// Looks for calls in another order in the rounds that are kept. In crossing.c.
int ls_crossing__find(ls_spmd *run, const ls_shared_comm *shared);
