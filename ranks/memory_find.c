// Which of a rank's allocations holds an address.
#include "ranks/internal.h"

int ls_memory__after(const ls_rank *rank, const void *pointer) {
    int low = 0, high = rank->allocation_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if ((uintptr_t)rank->allocations[middle].start <= (uintptr_t)pointer) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

ls_allocation *ls_memory__find(ls_rank *rank, const void *pointer) {
    int after = ls_memory__after(rank, pointer);
    if (pointer == NULL || after == 0) {
        return NULL;
    }
    ls_allocation *allocation = &rank->allocations[after - 1];
    size_t offset = (size_t)((uintptr_t)pointer - (uintptr_t)allocation->start);
    return offset < allocation->bytes || (offset == 0 && allocation->bytes == 0) ? allocation
                                                                                 : NULL;
}

bool ls_memory__meets(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes != 0 && b_bytes != 0 && (x < y ? y - x < a_bytes : x - y < b_bytes);
}
