// Replaces malloc and related functions in a test program (lockstep_counts_memory): counts
// allocations and fails a chosen one. For code that allocates and frees on one thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct memory_counts {
    ptrdiff_t bytes_now;   // allocated since counting began and not yet freed
    ptrdiff_t bytes_max;   // its maximum so far
    size_t bytes_limit;    // an allocation that would exceed it fails; 0: none
    uint64_t allocations;  // number of allocations so far
    uint64_t fail_at;      // the allocation with this number (from 1) fails; 0: none
} memory_counts;

// Counts from zero into *counts until counting_end.
void counting_begin(memory_counts *counts);
void counting_end(void);
