// Memory for state of ranks.
#include <stdio.h>
#include <stdlib.h>

#include "mpi/internal.h"

void *ls_mpi__alloc(size_t bytes) {
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        (void)fprintf(stderr, "lockstep: out of memory\n");
        abort();
    }
    return memory;
}
