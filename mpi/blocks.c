// Memory that the program has allocated, by where it begins: a call's buffer that begins there must
// not end behind it.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
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

static void too_small(mpi_rank *me, const char *format, ...) LS_PRINTF(2, 3);
static void too_small(mpi_rank *me, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_mpi__finding(me, LS_FINDING_BUFFER_TOO_SMALL, ls_mpi__file, ls_mpi__line, "%s", text);
    ls_schedule__enter(me->rank);
    ls_spmd__fail(ls_mpi__state.run, LS_ERR_FINDING, "buffer.too_small");
    ls_schedule__leave(me->rank);
    (void)ls_mpi__leave(me, LS_OK);
}

static mpi_looked *looked_at(mpi_rank *me, const char *low) {
    return &me->looked[((uintptr_t)low >> 2) % LS_MPI_LOOKED];
}

static void check_variable(mpi_rank *me, const char *low, const char *high, const mpi_place *place,
                           const char *function) {
    mpi_object object;
    const char *stack = __builtin_frame_address(0);
    mpi_looked *looked = looked_at(me, low);
    if ((looked->low == low && looked->high >= high && looked->stack == stack &&
         looked->file == ls_mpi__file && looked->line == ls_mpi__line) ||
        !ls_mpi__variable_at(&object, me, low)) {
        return;
    }
    if (high <= object.high) {
        *looked = (mpi_looked){low, high, stack, ls_mpi__file, ls_mpi__line};
        return;
    }
    // One element that reaches from one variable to another names both.
    if (place->type->scattered && low + place->type->true_extent > object.high) {
        return;
    }
    char declared[300] = "", before[64] = "";
    ls_mpi__variable_declared(&object, me);
    if (object.file != NULL) {
        (void)snprintf(declared, sizeof declared, " (%s:%d)", object.file, object.line);
    }
    if (low > object.low) {
        (void)snprintf(before, sizeof before, ", and begins %td bytes behind its start",
                       low - object.low);
    }
    too_small(me, "%s: its buffer is said to have %td bytes; it is in %s%s, which has %td bytes%s",
              function, high - low, object.name, declared, object.high - object.low, before);
}

void ls_mpi__buffer_check(mpi_rank *me, const mpi_place *place, const char *function) {
    ptrdiff_t offset;
    size_t bytes, allocated;
    ls_mpi__span(&offset, &bytes, place->count, place->type);
    if (bytes == 0 || place->base == MPI_BOTTOM) {
        return;
    }
    const char *low = place->base + offset, *high = low + bytes;
    if (ls_mpi__block_too_small(&allocated, low, bytes)) {
        too_small(me, "%s: its buffer is said to have %zu bytes, and was allocated with %zu",
                  function, bytes, allocated);
    } else {
        check_variable(me, low, high, place, function);
    }
}

void ls_mpi__bytes_check(mpi_rank *me, const void *at, size_t bytes, const char *function) {
    const mpi_place place = {at, bytes, ls_mpi__type_of(me, MPI_BYTE)};
    ls_mpi__buffer_check(me, &place, function);
}
