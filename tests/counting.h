// Stands in for malloc and its like in a test program (lockstep_counts_memory): counts what is out
// and fails the allocation that it is reported to. For code that takes and frees on one thread.
#ifndef LS_TESTS_COUNTING_H
#define LS_TESTS_COUNTING_H

#include <stddef.h>
#include <stdint.h>

typedef struct memory_counts {
    ptrdiff_t bytes_now;   // taken since counting began and not yet freed
    ptrdiff_t bytes_max;   // the most of it so far
    size_t bytes_limit;    // an allocation that would pass it fails; 0: none
    uint64_t allocations;  // tried so far
    uint64_t fail_at;      // the allocation with this number (from 1) fails; 0: none
} memory_counts;

// Counts from zero into *counts until counting_end.
void counting_begin(memory_counts *counts);
void counting_end(void);

#endif
