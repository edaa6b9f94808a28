// Shared by the search over runs (explore.c) and a single run (choice.c).
#pragma once

#include "mpi/internal.h"

#define CHOICES_MAX 4096

// The record of one run of an exploration.
typedef struct ls_mpi_trail {
    int status;
    bool complete;  // it reported all
    bool blocked;   // it ended because every possible match slept
    bool partial;   // it had more choices than CHOICES_MAX
    uint64_t observed;
    int base;  // choices from here on are explored
    int count;
    int choice[CHOICES_MAX], next[CHOICES_MAX];  // next: the match to try after it; -1: none
} ls_mpi_trail;
