// Memory that the program has allocated, by where it begins: a call's buffer that begins there must
// not end behind it.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "mpi/image/image.h"
#include "mpi/internal.h"

#define ROUNDING 24  // more than asked for, that malloc gives

typedef struct block {
    uintptr_t at;  // 0: free
    size_t bytes;
} block;

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;  // [room] open addressing; room is a power of two
static size_t room, used;

static size_t home(uintptr_t at, size_t of) {
    return (size_t)(((uint64_t)at >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (of - 1);
}

static block *place(block *table, size_t of, uintptr_t at) {
    size_t i = home(at, of);
    while (table[i].at != 0 && table[i].at != at) {
        i = (i + 1) & (of - 1);
    }
    return &table[i];
}

static bool grow(void) {
    size_t more = room == 0 ? 1024 : 2 * room;
    block *table = calloc(more, sizeof *table);
    if (table == NULL) {
        return false;
    }
    for (size_t i = 0; i < room; i++) {
        if (blocks[i].at != 0) {
            *place(table, more, blocks[i].at) = blocks[i];
        }
    }
    free(blocks);
    blocks = table;
    room = more;
    return true;
}

void ls_mpi_allocated(const void *at, unsigned long bytes) {
    (void)pthread_mutex_lock(&turn);
    if (at != NULL && (2 * (used + 1) <= room || grow())) {
        block *own = place(blocks, room, (uintptr_t)at);
        used += own->at == 0 ? 1 : 0;
        *own = (block){(uintptr_t)at, bytes};
    }
    (void)pthread_mutex_unlock(&turn);
}

static void forget(const void *at) {
    (void)pthread_mutex_lock(&turn);
    block *own = at != NULL && room > 0 ? place(blocks, room, (uintptr_t)at) : NULL;
    if (own != NULL && own->at != 0) {
        own->at = 0;
        used -= 1;
        // What came after it may have wanted its place.
        for (size_t i = ((size_t)(own - blocks) + 1) & (room - 1); blocks[i].at != 0;
             i = (i + 1) & (room - 1)) {
            block moved = blocks[i];
            blocks[i].at = 0;
            *place(blocks, room, moved.at) = moved;
        }
    }
    (void)pthread_mutex_unlock(&turn);
}

int ls_mpi_unmapped(const void *at, unsigned long bytes, const void *caller) {
    return ls_mpi__still_used(at, (const char *)at + bytes, caller) ? 1 : 0;
}

int ls_mpi_freed(const void *at, const void *caller) {
    if (at == NULL) {
        return 0;
    }
    if (ls_mpi_unmapped(at, malloc_usable_size((void *)(uintptr_t)at), caller) != 0) {
        return 1;
    }
    forget(at);
    return 0;
}

bool ls_mpi__block_too_small(size_t *bytes, const void *at, size_t wanted) {
    (void)pthread_mutex_lock(&turn);
    const block *own = at != NULL && room > 0 ? place(blocks, room, (uintptr_t)at) : NULL;
    bool known = own != NULL && own->at != 0;
    *bytes = known ? own->bytes : 0;
    (void)pthread_mutex_unlock(&turn);
    if (!known || wanted <= *bytes) {
        return false;
    }
    // Somebody else may have freed it, and another block begins there.
    size_t real = malloc_usable_size((void *)(uintptr_t)at);
    return real < wanted || real - *bytes <= ROUNDING;
}

void ls_mpi__block_check(mpi_rank *me, const void *at, size_t wanted, const char *function) {
    size_t bytes;
    if (!ls_mpi__block_too_small(&bytes, at, wanted)) {
        return;
    }
    ls_mpi__finding(me, LS_FINDING_BUFFER_TOO_SMALL, ls_mpi__file, ls_mpi__line,
                    "%s: its buffer is said to have %zu bytes, and was allocated with %zu",
                    function, wanted, bytes);
    ls_schedule__enter(me->rank);
    ls_spmd__fail(ls_mpi__state.run, LS_ERR_FINDING, "buffer.too_small");
    ls_schedule__leave(me->rank);
    (void)ls_mpi__leave(me, LS_OK);
}
