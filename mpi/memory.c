// Memory for state of ranks, and their stacks.
#define _GNU_SOURCE  // pthread_getattr_np
#include <stdlib.h>

#include "mpi/internal.h"

void *ls_mpi__alloc(size_t bytes) {
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        ls_mpi__exhausted("no memory for %zu bytes", bytes);
    }
    return memory;
}

bool ls_mpi__on_stack(const mpi_rank *me, const void *at) {
    static _Thread_local struct {
        void *low;
        size_t bytes;
    } own;
    pthread_attr_t attributes;
    if (pthread_equal(me->rank->thread, pthread_self()) != 0) {
        return me->rank->stack_low != 0 &&
               (uintptr_t)at - me->rank->stack_low < me->rank->stack_bytes;
    }
    if (own.low == NULL && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstack(&attributes, &own.low, &own.bytes);
        (void)pthread_attr_destroy(&attributes);
    }
    return (uintptr_t)at - (uintptr_t)own.low < own.bytes;
}
