// Generated collective calls for tests: every member's call with its buffers is a pure function of
// the case and a seed, so any process can generate the calls of all.
#pragma once

#include "collectives/collectives.h"

typedef struct coll_case {
    ls_kind kind;  // not send or recv
    ls_dtype dtype;
    ls_op op;
    bool uneven;
    bool in_place;  // ignored if the kind has no in-place form
    bool exact;     // values whose reductions are exact in any order
    size_t count;   // even: for every member; uneven: the mean
    int root;
} coll_case;

typedef struct coll_set {
    ls_call *calls;  // [size]
    int size;
    char **memory;   // [2 * size] send and recv buffers with guards around
    size_t *bytes;   // [2 * size]
    size_t *counts;  // [size * size] count from member i to member j
    size_t *transposed;
} coll_set;

// Makes the calls of all members of comm. Aborts without memory (tests).
void coll_set_create(coll_set *set, const ls_comm *comm, const coll_case *c, uint64_t seed);
void coll_set_free(coll_set *set);
// The first member (of those in [first, first + members)) whose result differs in a and b or whose
// guards were written, or -1.
int coll_set_differs(const coll_set *a, const coll_set *b, int first, int members);
void coll_case_format(char *out, size_t out_bytes, const coll_case *c, int size);

// Whether a case is possible: op on dtype, uneven and in-place forms.
bool coll_case_valid(const coll_case *c);
