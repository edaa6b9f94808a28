// An allocator for a world's memory that counts what is out and fails the one that it is told to.
#ifndef LS_TESTS_COUNTING_H
#define LS_TESTS_COUNTING_H

#include <stdbool.h>

#include "base/memory.h"

typedef struct counting_allocator {
    ls_allocator allocator;  // pass &this->allocator on
    size_t bytes_now;        // handed out and not yet freed
    size_t bytes_max;        // the most of it so far
    size_t bytes_limit;      // an allocation that would pass it fails; 0: none
    uint64_t allocations;    // tried so far
    uint64_t fail_at;        // the allocation with this number (from 1) fails; 0: none
} counting_allocator;

static inline void *counting_alloc(void *data, size_t size) {
    counting_allocator *counting = (counting_allocator *)data;
    const ls_allocator *inner = ls_allocator_default();
    counting->allocations += 1;
    bool fails = counting->allocations == counting->fail_at ||
                 (counting->bytes_limit != 0 && counting->bytes_now + size > counting->bytes_limit);
    void *pointer = fails ? NULL : inner->alloc(inner->data, size);
    counting->bytes_now += pointer != NULL ? size : 0;
    counting->bytes_max =
        counting->bytes_now > counting->bytes_max ? counting->bytes_now : counting->bytes_max;
    return pointer;
}

static inline void counting_free(void *data, void *pointer, size_t size) {
    counting_allocator *counting = (counting_allocator *)data;
    const ls_allocator *inner = ls_allocator_default();
    counting->bytes_now -= pointer != NULL ? size : 0;
    inner->free(inner->data, pointer, size);
}

static inline void counting_allocator_init(counting_allocator *counting) {
    *counting = (counting_allocator){.allocator = {counting, counting_alloc, counting_free}};
}

#endif
