// Memory that the program allocates. A guard follows each allocation, and nothing may write to it.
// Freed blocks are kept for a while, and nothing may access them. So an overrun of one rank is
// found before it corrupts memory of another rank or of lockstep.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/image/image.h"
#include "mpi/rma.h"

#define SLAB       4096         // in blocks, large enough that malloc maps separate pages for them
#define KEPT       1024         // freed blocks that are kept
#define KEPT_BYTES (64u << 10)  // the largest freed block that is kept
#define LOOKED_AT  2            // blocks that each MPI call checks

typedef struct block {
    mpi_interval at;     // with the guard
    size_t bytes, room;  // room: the size that malloc returned
    bool guarded;
    uint64_t number;           // among the allocations
    const char *freer;         // the function that must free it; NULL: free, delete
    const void *made, *freed;  // return addresses; freed NULL: in use
    struct block *next;        // in the list of unused blocks
} block;

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static block *unused;
static struct slab {
    struct slab *next;
    block all[SLAB];
} * slabs;
static struct {
    mpi_rank *rank;
    block *block;
} kept[KEPT];  // a ring buffer
static size_t kept_at;
static atomic_uint_least64_t numbers;  // number of allocations so far

static block *block_of(mpi_interval *at) {
    return (block *)at;
}

// The rank that the code belongs to; NULL: no rank.
static mpi_rank *rank_of(const void *code) {
    const ls_rank *current = ls_schedule__current();
    mpi_rank *me = current != NULL ? &ls_mpi__state.ranks[current->id] : NULL;
    bool own =
        me != NULL && (const char *)code >= me->code_low && (const char *)code < me->code_high;
    return own ? me : ls_mpi__rank_of_code(code);
}

static block *make_block(void) {
    if (unused == NULL) {
        struct slab *made = calloc(1, sizeof *made);
        if (made == NULL) {
            return NULL;
        }
        made->next = slabs;
        slabs = made;
        for (size_t i = 0; i < SLAB; i++) {
            made->all[i].next = unused;
            unused = &made->all[i];
        }
    }
    block *made = unused;
    unused = made->next;
    return made;
}

static void drop(mpi_rank *me, block *of) {
    ls_mpi__interval_remove(&me->blocks, &of->at);
    of->next = unused;
    unused = of;
}

static const unsigned char *guard_of(const block *of) {
    return (const unsigned char *)of->at.low + of->bytes;
}

// The number of bytes that were written behind the block, up to the last one; 0: none.
static size_t written_behind(const block *of) {
    size_t bytes = of->guarded && of->freed == NULL ? LS_MPI_GUARD : 0;
    while (bytes > 0 && guard_of(of)[bytes - 1] == LS_MPI_GUARD_BYTE) {
        bytes -= 1;
    }
    return bytes;
}

// Libraries that lockstep-cc did not compile may have freed it, and another block may be there.
static bool still_there(const block *of) {
    return of->freed != NULL || malloc_usable_size((void *)(uintptr_t)of->at.low) == of->room;
}

static block *block_at(mpi_rank *me, const char *at) {
    mpi_interval *found = ls_mpi__interval_search(&me->blocks, at, at + 1, NULL);
    if (found != NULL && !still_there(block_of(found))) {
        drop(me, block_of(found));
        found = NULL;
    }
    return found != NULL ? block_of(found) : NULL;
}

// ---- Findings -----------------------------------------------------------------------------------
// Whether the calling thread is the rank's own, and out of MPI's functions: it can be ended.
static bool can_tell(const mpi_rank *me) {
    return ls_schedule__current() == me->rank && me->rank != NULL && !ls_seen__forked &&
           ls_mpi__state.run->status == LS_OK && !ls_schedule__inside();
}

typedef struct line_of {
    const char *file;
    int line;
} line_of;

static line_of place_of(mpi_rank *me, const void *code) {
    line_of at;
    ls_mpi__line_of(me, code, &at.file, &at.line);
    return at;
}

// Ends the run with a finding.
static void tell(mpi_rank *me, ls_finding_id id, line_of at, const char *format, ...)
    LS_PRINTF(4, 5);
static void tell(mpi_rank *me, ls_finding_id id, line_of at, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_mpi__finding(me, id, at.file, at.line, "%s", text);
    ls_schedule__enter(me->rank);
    ls_spmd__fail(ls_mpi__state.run, LS_ERR_FINDING, ls_finding_name(id));
    ls_schedule__leave(me->rank);
    (void)ls_mpi__leave(me, LS_OK);
}

static void tell_written(mpi_rank *me, const block *of, line_of at) {
    line_of made = place_of(me, of->made);
    tell(me, LS_FINDING_BUFFER_TOO_SMALL, at,
         "the program wrote up to %zu bytes past the end of the %zu bytes that it allocated at "
         "%s:%d; "
         "seen at %s:%d",
         written_behind(of), of->bytes, made.file, made.line, at.file, at.line);
}

// `who` is, for example, "the program reads", "MPI_Send uses".
static void tell_freed(mpi_rank *me, const block *of, line_of at, const char *who) {
    line_of freed = place_of(me, of->freed), made = place_of(me, of->made);
    tell(me, LS_FINDING_HANDLE_USE_AFTER_FREE, at,
         "%s memory at %s:%d that was allocated at %s:%d and freed at %s:%d", who, at.file, at.line,
         made.file, made.line, freed.file, freed.line);
}

// ---- Calls of the program's allocator -----------------------------------------------------------
void *ls_mpi_allocated(void *at, unsigned long bytes, int guarded, const void *caller) {
    if (at == NULL) {
        return NULL;
    }
    size_t guard = guarded != 0 ? LS_MPI_GUARD : 0;
    memset((char *)at + bytes, LS_MPI_GUARD_BYTE, guard);
    (void)pthread_mutex_lock(&turn);
    mpi_rank *me = rank_of(caller);
    const char *low = at, *high = low + bytes + guard;
    if (me != NULL && low < high) {
        // Another library has freed the old block.
        for (mpi_interval *old;
             (old = ls_mpi__interval_search(&me->blocks, low, high, NULL)) != NULL;) {
            drop(me, block_of(old));
        }
        block *made = make_block();
        if (made != NULL) {
            *made = (block){.at = {.low = low, .high = high},
                            .bytes = bytes,
                            .room = malloc_usable_size(at),
                            .guarded = guarded != 0,
                            .number = ++numbers,
                            .made = caller};
            ls_mpi__interval_add(&me->blocks, &made->at);
        }
    }
    (void)pthread_mutex_unlock(&turn);
    return at;
}

// another block is freed to make room
static void keep(mpi_rank *me, block *of, const void *caller) {
    block *oldest = kept[kept_at].block;
    if (oldest != NULL) {
        void *gone = (void *)(uintptr_t)oldest->at.low;
        drop(kept[kept_at].rank, oldest);
        free(gone);
    }
    of->freed = caller;
    memset((void *)(uintptr_t)of->at.low, LS_MPI_GUARD_BYTE, of->bytes);
    kept[kept_at].rank = me;
    kept[kept_at].block = of;
    kept_at = (kept_at + 1) % KEPT;
}

// The address is in no allocation: a variable, or a part of one.
static void check_unknown(mpi_rank *me, const char *at, const void *caller) {
    mpi_object object;
    bool variable = ls_mpi__variable_at(&object, me, at);
    bool image = at >= me->code_low && at < me->code_high;
    if (variable || image || ls_mpi__on_stack(me, at)) {
        line_of here = place_of(me, caller);
        const char *in = image ? "the program's image" : "the stack";
        if (variable) {
            in = object.name;
        }
        tell(me, LS_FINDING_HANDLE_USE_AFTER_FREE, here,
             "the program frees memory at %s:%d that was not allocated: it is in %s", here.file,
             here.line, in);
    }
}

// The block of an address. Both freed and low NULL: the block is unknown.
static block copy_at(mpi_rank *me, const char *at) {
    (void)pthread_mutex_lock(&turn);
    const block *of = block_at(me, at);
    block found = of != NULL ? *of : (block){.bytes = 0};
    (void)pthread_mutex_unlock(&turn);
    return found;
}

uint64_t ls_mpi__block_number(mpi_rank *me, const char *at) {
    return at != NULL ? copy_at(me, at).number : numbers;
}

const char *const ls_mpi__freers[2] = {"MPI_Free_mem", "MPI_Win_free"};

void *ls_mpi__memory_give(size_t bytes, const void *caller, const char *freer) {
    void *made = bytes < PTRDIFF_MAX - LS_MPI_GUARD ? calloc(1, bytes + LS_MPI_GUARD) : NULL;
    (void)ls_mpi_allocated(made, bytes, 1, caller);
    (void)pthread_mutex_lock(&turn);
    mpi_rank *me = made != NULL ? rank_of(caller) : NULL;
    block *of = me != NULL ? block_at(me, made) : NULL;
    if (of != NULL) {
        of->freer = freer;
    }
    (void)pthread_mutex_unlock(&turn);
    return made;
}

// by: the MPI function that frees it; NULL: none.
static void check_free(mpi_rank *me, const char *at, const void *caller, const char *by) {
    const block of = copy_at(me, at);
    bool wrong = of.freed != NULL || of.at.low != at || written_behind(&of) > 0;
    if (of.at.low != NULL && !wrong && of.freer == by) {
        return;
    }
    line_of here = place_of(me, caller), made = place_of(me, of.made);
    if (of.at.low == NULL) {
        check_unknown(me, at, caller);
    } else if (of.freed != NULL) {
        tell_freed(me, &of, here, "the program frees");
    } else if (of.at.low != at) {
        tell(me, LS_FINDING_HANDLE_USE_AFTER_FREE, here,
             "the program frees memory at %s:%d %td bytes after the start of the %zu bytes that "
             "it allocated at %s:%d",
             here.file, here.line, at - of.at.low, of.bytes, made.file, made.line);
    } else if (written_behind(&of) > 0) {
        tell_written(me, &of, here);
    } else {
        tell(me, LS_FINDING_HANDLE_USE_AFTER_FREE, here,
             "the program frees memory at %s:%d by %s that was allocated at %s:%d: that is for %s",
             here.file, here.line, by != NULL ? by : "free", made.file, made.line,
             of.freer != NULL ? of.freer : "free");
    }
}

int ls_mpi_unmapped(const void *at, unsigned long bytes, const void *caller) {
    return ls_mpi__still_used(at, (const char *)at + bytes, caller) ? 1 : 0;
}

static int release(void *at, int may_keep, const void *caller, const char *by) {
    if (at == NULL) {
        return 0;
    }
    (void)pthread_mutex_lock(&turn);
    mpi_rank *me = rank_of(caller);
    (void)pthread_mutex_unlock(&turn);
    if (me != NULL && can_tell(me)) {
        check_free(me, at, caller, by);
    }
    if (ls_mpi_unmapped(at, malloc_usable_size(at), caller) != 0) {
        return 1;
    }
    (void)pthread_mutex_lock(&turn);
    block *of = me != NULL ? block_at(me, at) : NULL;
    bool stays = of != NULL && of->freed != NULL;
    if (of != NULL && !stays && of->at.low == at) {
        stays = may_keep != 0 && of->guarded && of->bytes <= KEPT_BYTES;
        if (stays) {
            keep(me, of, caller);
        } else {
            drop(me, of);
        }
    }
    (void)pthread_mutex_unlock(&turn);
    return stays ? 1 : 0;
}

void ls_mpi__memory_take(void *at, const void *caller, const char *by) {
    if (release(at, 1, caller, by) == 0) {
        free(at);
    }
}

int ls_mpi_freed(void *at, int may_keep, const void *caller) {
    return release(at, may_keep, caller, NULL);
}

void ls_mpi_forget(const void *at, const void *caller) {
    (void)pthread_mutex_lock(&turn);
    mpi_rank *me = at != NULL ? rank_of(caller) : NULL;
    block *of = me != NULL ? block_at(me, at) : NULL;
    if (of != NULL && of->freed == NULL) {
        drop(me, of);
    }
    (void)pthread_mutex_unlock(&turn);
}

unsigned long ls_mpi_room(void *at, const void *caller) {
    mpi_rank *me = rank_of(caller);
    const block of = me != NULL ? copy_at(me, at) : (block){.bytes = 0};
    return of.at.low == at && at != NULL ? of.bytes : malloc_usable_size(at);
}

// ---- Accesses of the program and its calls ------------------------------------------------------
void ls_mpi__block_touched(const void *at, size_t bytes, bool writes, const void *code) {
    mpi_rank *me = rank_of(code);
    if (me == NULL || !can_tell(me)) {
        return;
    }
    const block of = copy_at(me, at);
    if (of.at.low == NULL) {
        return;
    }
    const char *end = of.at.low + of.bytes, *last = (const char *)at + bytes;
    if (of.freed != NULL) {
        tell_freed(me, &of, place_of(me, code),
                   writes ? "the program writes" : "the program reads");
    } else if (writes && last > end) {
        line_of here = place_of(me, code), made = place_of(me, of.made);
        tell(me, LS_FINDING_BUFFER_TOO_SMALL, here,
             "the program writes %zu bytes at %s:%d, up to %td bytes past the %zu bytes that it "
             "allocated at %s:%d",
             bytes, here.file, here.line, last - end, of.bytes, made.file, made.line);
    }
}

void ls_mpi__blocks_look(mpi_rank *me, bool all) {
    block bad = {.bytes = 0};
    if (me->blocks.root == NULL || !can_tell(me)) {
        return;
    }
    (void)pthread_mutex_lock(&turn);
    me->block_seen = all ? NULL : me->block_seen;
    for (int i = 0; (all || i < LOOKED_AT) && bad.at.low == NULL; i++) {
        const mpi_interval *at =
            ls_mpi__interval_search(&me->blocks, me->block_seen, (const char *)UINTPTR_MAX, NULL);
        me->block_seen = at != NULL ? at->high : NULL;
        if (at == NULL) {
            break;
        }
        const block *of = (const block *)at;
        bad = written_behind(of) > 0 && still_there(of) ? *of : bad;
    }
    (void)pthread_mutex_unlock(&turn);
    if (bad.at.low != NULL) {
        tell_written(me, &bad, (line_of){ls_mpi__file, ls_mpi__line});
    }
}

void ls_mpi__blocks_end(void) {
    for (size_t i = 0; i < KEPT; i++) {
        if (kept[i].block != NULL) {
            free((void *)(uintptr_t)kept[i].block->at.low);
        }
        kept[i].block = NULL;
    }
    while (slabs != NULL) {
        struct slab *gone = slabs;
        slabs = gone->next;
        free(gone);
    }
    unused = NULL;
    for (int r = 0; r < ls_mpi__state.rank_count; r++) {
        ls_mpi__state.ranks[r].blocks = (mpi_intervals){0};
    }
}

static mpi_looked *looked_at(mpi_rank *me, const char *low) {
    return &me->looked[((uintptr_t)low >> 2) % LS_MPI_LOOKED];
}

// An element that spans two variables (allocations) names both.
static bool may_reach(const mpi_place *place, const char *low, const char *end) {
    return place->type->scattered && low + place->type->true_extent > end;
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
    if (may_reach(place, low, object.high)) {
        return;
    }
    char declared[300] = "", before[64] = "";
    ls_mpi__variable_declared(&object, me);
    if (object.file != NULL) {
        (void)snprintf(declared, sizeof declared, " (%s:%d)", object.file, object.line);
    }
    if (low > object.low) {
        (void)snprintf(before, sizeof before, ", and begins %td bytes after its start",
                       low - object.low);
    }
    tell(me, LS_FINDING_BUFFER_TOO_SMALL, (line_of){ls_mpi__file, ls_mpi__line},
         "%s: its arguments describe a buffer of %td bytes; it is in %s%s, which has %td bytes%s",
         function, high - low, object.name, declared, object.high - object.low, before);
}

static void check_block(mpi_rank *me, const block *of, const char *low, const char *high,
                        const char *function) {
    char before[80] = "", who[MPI_MAX_OBJECT_NAME];
    const line_of here = {ls_mpi__file, ls_mpi__line};
    if (of->freed != NULL) {
        (void)snprintf(who, sizeof who, "%s uses", function);
        tell_freed(me, of, here, who);
        return;
    }
    if (low > of->at.low) {
        (void)snprintf(before, sizeof before, ", and it begins %td bytes after their start",
                       low - of->at.low);
    }
    line_of made = place_of(me, of->made);
    tell(me, LS_FINDING_BUFFER_TOO_SMALL, here,
         "%s: its arguments describe a buffer of %td bytes, but it was allocated with %zu at "
         "%s:%d%s",
         function, high - low, of->bytes, made.file, made.line, before);
}

// A buffer that begins in no allocation and reaches into one.
static void check_before(mpi_rank *me, const char *low, const char *high, const char *function) {
    (void)pthread_mutex_lock(&turn);
    const mpi_interval *at = ls_mpi__interval_search(&me->blocks, low, high, NULL);
    const char *first = at != NULL ? at->low : low;
    (void)pthread_mutex_unlock(&turn);
    const block of = copy_at(me, first);
    if (of.at.low != NULL && of.freed == NULL) {
        line_of made = place_of(me, of.made);
        tell(me, LS_FINDING_BUFFER_TOO_SMALL, (line_of){ls_mpi__file, ls_mpi__line},
             "%s: its buffer begins %td bytes before the %zu bytes that were allocated at %s:%d",
             function, of.at.low - low, of.bytes, made.file, made.line);
    }
}

void ls_mpi__buffer_check(mpi_rank *me, const mpi_place *place, const char *function) {
    ptrdiff_t offset;
    size_t bytes;
    ls_mpi__span(&offset, &bytes, place->count, place->type);
    if (bytes == 0 || place->base == MPI_BOTTOM) {
        return;
    }
    const char *low = place->base + offset, *high = low + bytes;
    const block of = copy_at(me, low);
    const char *end = of.at.low + of.bytes;
    if (of.at.low == NULL && !place->type->scattered) {
        check_before(me, low, high, function);
    }
    if (of.at.low == NULL) {
        check_variable(me, low, high, place, function);
    } else if (of.freed != NULL || (high > end && !may_reach(place, low, end))) {
        check_block(me, &of, low, high, function);
    }
}

void ls_mpi__bytes_check(mpi_rank *me, const void *at, size_t bytes, const char *function) {
    const mpi_place place = {at, bytes, ls_mpi__type_of(me, MPI_BYTE)};
    ls_mpi__buffer_check(me, &place, function);
}
