// Intervals of memory, with queries for overlaps: a treap ordered by start. Each node stores the
// largest end of its subtree.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mpi_interval {
    const char *low, *high;
    const char *reach;  // the largest high of its subtree
    struct mpi_interval *left, *right;
    uint32_t priority;
} mpi_interval;

typedef struct mpi_intervals {
    mpi_interval *root;
    const char *low, *high;  // bounds of all intervals
} mpi_intervals;

void ls_mpi__interval_add(mpi_intervals *set, mpi_interval *node);
void ls_mpi__interval_remove(mpi_intervals *set, mpi_interval *node);
// In order of start: the first interval after `after` (NULL: from the first) that overlaps [low,
// high).
mpi_interval *ls_mpi__interval_search(const mpi_intervals *set, const char *low, const char *high,
                                      const mpi_interval *after);

mpi_interval *ls_mpi__interval_first(const mpi_intervals *set);
mpi_interval *ls_mpi__interval_after(const mpi_intervals *set, const mpi_interval *node);

// False: [low, high) overlaps none. Needs no lock.
static inline bool ls_mpi__interval_near(const mpi_intervals *set, const char *low,
                                         const char *high) {
    return set->root != NULL && high > set->low && low < set->high;
}
