// Faults that a rank reaches by a number: of an allocation, or of its training.
#include "ranks/internal.h"

bool ls_fault__reached(const ls_rank *rank, ls_fault_type type, int64_t amount) {
    const ls_spmd_options *options = &rank->run->options;
    for (int i = 0; i < options->fault_count; i++) {
        const ls_fault *fault = &options->faults[i];
        if (fault->type == type && fault->rank == rank->id && fault->amount == amount) {
            rank->run->result->missed[i] = NULL;
            return true;
        }
    }
    return false;
}
