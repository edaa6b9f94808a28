// MPI_Dims_create.
#include <stdlib.h>
#include <string.h>

#include "mpi/internal.h"

typedef struct division {
    int *best, *now;  // [count], largest first; best[0] 0: none yet
    int count;
} division;

// The dimensions that are closest to each other: the smallest difference of largest and smallest.
// Ties prefer the larger smallest dimension, then the next one.
static bool is_closer(const division *of) {
    int last = of->count - 1;
    int better = (of->best[0] - of->best[last]) - (of->now[0] - of->now[last]);
    for (int i = last; better == 0 && i > 0; i--) {
        better = of->now[i] - of->best[i];
    }
    return of->best[0] == 0 || better > 0;
}

// From dimension `at` on, none above `most`.
static void divide(division *of, int at, int nodes, int most) {
    int last = of->count - 1;
    if (at == last && nodes <= most) {
        of->now[at] = nodes;
        if (is_closer(of)) {
            memcpy(of->best, of->now, (size_t)of->count * sizeof *of->now);
        }
    }
    int first = 0;  // below it, the others could not be as small
    for (double all = 0; at < last && all < nodes;) {
        first += 1;
        all = 1;
        for (int i = at; i < of->count; i++) {
            all *= first;
        }
    }
    for (int size = first; at < last && size <= most && size <= nodes; size++) {
        if (at == 0 && of->best[0] != 0 && size - first > of->best[0] - of->best[last]) {
            break;  // the smallest is at most `first`
        }
        if (nodes % size == 0) {
            of->now[at] = size;
            divide(of, at + 1, nodes / size, size);
        }
    }
}

int MPI_Dims_create(int nnodes, int ndims, int dims[]) {
    MPI_ENTER_AT(at);
    int left = nnodes, open = 0;
    if (nnodes < 1) {
        return ls_mpi__error(at.me, NULL, MPI_ERR_ARG, __func__, "%d nodes", nnodes);
    }
    for (int d = 0; d < ndims; d++) {
        if (dims[d] < 0 || (dims[d] > 0 && left % dims[d] != 0)) {
            return ls_mpi__error(at.me, NULL, MPI_ERR_DIMS, __func__,
                                 "dimension %d is %d; it must be 0 or a divisor of %d nodes", d,
                                 dims[d], nnodes);
        }
        left /= dims[d] > 0 ? dims[d] : 1;
        open += dims[d] == 0 ? 1 : 0;
    }
    if (open == 0) {
        return left == 1 ? MPI_SUCCESS
                         : ls_mpi__error(at.me, NULL, MPI_ERR_DIMS, __func__,
                                         "the dimensions do not multiply to %d nodes", nnodes);
    }
    int *made = ls_mpi__alloc(2 * (size_t)open * sizeof *made);
    division all = {.best = made, .now = made + open, .count = open};
    divide(&all, 0, left, left);
    for (int d = 0, i = 0; d < ndims; d++) {
        dims[d] = dims[d] == 0 ? made[i++] : dims[d];
    }
    free(made);
    return MPI_SUCCESS;
}
