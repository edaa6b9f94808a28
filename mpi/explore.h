// Between the search over runs (explore.c) and what one of them does (choice.c).
#ifndef LS_MPI_EXPLORE_H
#define LS_MPI_EXPLORE_H

#include "mpi/internal.h"

#define CHOICES_MAX 4096

// What a run of an exploration tells of itself.
typedef struct ls_mpi_trail {
    int status;
    bool complete;  // it reported all
    bool blocked;   // it ended where it could only have done what others did
    bool partial;   // it had more to choose from than is kept
    uint64_t observed;
    int base;  // choices from here on are explored
    int count;
    int choice[CHOICES_MAX], next[CHOICES_MAX];  // next: to be tried after it; -1: none
} ls_mpi_trail;

#endif
