// Faults of a rank's memory.

#include "ranks/internal.h"

bool ls_fault__allocation_fails(const ls_rank *rank, uint64_t number) {
    const ls_spmd_options *options = &rank->run->options;
    for (int i = 0; i < options->fault_count; i++) {
        const ls_fault *fault = &options->faults[i];
        if (fault->type == LS_FAULT_ALLOCATION && fault->rank == rank->id &&
            (uint64_t)fault->amount == number) {
            rank->run->result->missed[i] = NULL;
            return true;
        }
    }
    return false;
}
