// SPMD programs whose equal calls match from different lines: with calls in another order, and
// legal ones.
#pragma once

#include "ranks/ranks.h"

typedef struct site_case {
    const char *name;
    ls_spmd_program program;
    int ranks;
    int fault;        // the rank at fault; -1: the program is legal
    int first, then;  // lines of "p.c" that the rank at fault is at, in its order
} site_case;

extern const site_case site_cases[];
extern const int site_case_count;
int site_two_at_once(ls_rank *self, void *arg);  // ranks 3 and 1 of 4
int site_twenty(ls_rank *self, void *arg);       // as many mistakes

enum {
    RANDOM_SITES_SAME,     // no pair of calls has an order that matters
    RANDOM_SITES_SWAPPED,  // a pair is swapped on one rank
    RANDOM_SITES_PLAIN,    // the same, for lines that all of three or more ranks reach
};

// A random legal program, with one pair of calls swapped if `swap`.
typedef struct random_sites {
    uint64_t seed;
    bool swap;
    int swapped;  // set by the program
} random_sites;
int random_sites_program(ls_rank *self, void *arg);
