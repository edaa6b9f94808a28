// malloc and its like, by the linker's --wrap: see counting.h.
#include "tests/counting.h"

#include <malloc.h>

// The linker's names.
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *pointer);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *pointer);

static memory_counts *counts;

void counting_begin(memory_counts *into) {
    *into = (memory_counts){.fail_at = into->fail_at, .bytes_limit = into->bytes_limit};
    counts = into;
}

void counting_end(void) {
    counts = NULL;
}

static int fails(size_t bytes) {
    if (counts == NULL) {
        return 0;
    }
    counts->allocations += 1;
    return counts->allocations == counts->fail_at ||
           (counts->bytes_limit != 0 && (size_t)counts->bytes_now + bytes > counts->bytes_limit);
}

static void *taken(void *pointer) {
    if (counts != NULL && pointer != NULL) {
        counts->bytes_now += (ptrdiff_t)malloc_usable_size(pointer);
        counts->bytes_max =
            counts->bytes_now > counts->bytes_max ? counts->bytes_now : counts->bytes_max;
    }
    return pointer;
}

static void given_back(void *pointer) {
    if (counts != NULL && pointer != NULL) {
        counts->bytes_now -= (ptrdiff_t)malloc_usable_size(pointer);
    }
}

void *__wrap_malloc(size_t size) {
    return fails(size) ? NULL : taken(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails(count * size) ? NULL : taken(__real_calloc(count, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails(size) ? NULL : taken(__real_aligned_alloc(alignment, size));
}

void *__wrap_realloc(void *pointer, size_t size) {
    if (fails(size)) {
        return NULL;
    }
    given_back(pointer);
    return taken(__real_realloc(pointer, size));
}

void __wrap_free(void *pointer) {
    given_back(pointer);
    __real_free(pointer);
}
