// Stretches of memory, and which of them have a byte in common with another one: a treap in the
// order of their starts, each of whose nodes knows how far its subtree reaches.
#ifndef LS_MPI_INTERVALS_H
#define LS_MPI_INTERVALS_H

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
    const char *low, *high;  // none of them starts below it, ends behind it
} mpi_intervals;

void ls_mpi__interval_add(mpi_intervals *set, mpi_interval *node);
void ls_mpi__interval_remove(mpi_intervals *set, mpi_interval *node);
// In the order of their starts, the first that [low, high) meets behind `after` (NULL: of all).
mpi_interval *ls_mpi__interval_search(const mpi_intervals *set, const char *low, const char *high,
                                      const mpi_interval *after);

mpi_interval *ls_mpi__interval_first(const mpi_intervals *set);
mpi_interval *ls_mpi__interval_after(const mpi_intervals *set, const mpi_interval *node);

// False: [low, high) meets none. Needs no lock.
static inline bool ls_mpi__interval_near(const mpi_intervals *set, const char *low,
                                         const char *high) {
    return set->root != NULL && high > set->low && low < set->high;
}

#endif
