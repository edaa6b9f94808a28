// See fibers.h. ucontext makes and switches stacks; each switch is announced to the sanitizers.
#define _GNU_SOURCE  // MADV_GUARD_INSTALL, MAP_NORESERVE, syscall
#include "ranks/fibers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "collectives/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define LS_FIBERS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LS_FIBERS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define LS_FIBERS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LS_FIBERS_TSAN 1
#endif
#endif
#ifdef LS_FIBERS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef LS_FIBERS_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102  // Linux 6.13: a guard without a separate mapping
#endif

#define GUARD_BYTES ((size_t)16 << 10)  // below each stack

// A stack that can be gone to: a rank's, or the carrier's own.
typedef struct ls_fiber {
    ucontext_t *context;  // where it waits: on its stack
    void *low;            // of its stack, and how much
    size_t bytes;
    void *tsan;  // TSan's handle
} ls_fiber;

struct ls_fibers {
    ls_fiber carrier;
    ls_fiber *ranks;  // [rank_count]
    void (*main)(ls_rank *rank);
    char *stacks;  // one mapping: guard, stack, guard, stack, ...
    size_t stack_bytes, mapped_bytes;
    ls_rank *begins;  // the fiber's first switch
};

// ---- Switching ----------------------------------------------------------------------------------
static void leave_stack(ls_fiber *from, const ls_fiber *to, void **fake) {
    (void)from, (void)to, (void)fake;
#ifdef LS_FIBERS_ASAN
    __sanitizer_start_switch_fiber(fake, to->low, to->bytes);
#endif
#ifdef LS_FIBERS_TSAN
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
}

// from: whose stack was left; the carrier's own stack is known when it is left first.
static void arrive(ls_fiber *from, void *fake) {
    (void)from, (void)fake;
#ifdef LS_FIBERS_ASAN
    const void *low = NULL;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake, &low, &bytes);
    if (from != NULL && from->low == NULL) {
        from->low = (void *)(uintptr_t)low;
        from->bytes = bytes;
    }
#endif
}

// Switches to another stack, and returns when another fiber switches back.
static void go(ls_fiber *from, ls_fiber *to) {
    ucontext_t here;
    void *fake = NULL;
    from->context = &here;
    leave_stack(from, to, &fake);
    (void)swapcontext(&here, to->context);
    arrive(NULL, fake);
}

// makecontext takes ints: the run of this thread has the fiber that begins.
static _Thread_local ls_fibers *beginning;

static void enter_fiber(void) {
    ls_fibers *fibers = beginning;
    ls_rank *rank = fibers->begins;
    arrive(&fibers->carrier, NULL);
    fibers->main(rank);
    ls_fibers__leave(rank);
}

// ---- Stacks -------------------------------------------------------------------------------------
static int guard(char *low, const ls_rank *rank) {
    if (madvise(low, GUARD_BYTES, MADV_GUARD_INSTALL) == 0 ||
        mprotect(low, GUARD_BYTES, PROT_NONE) == 0) {
        return LS_OK;
    }
    return LS_FAIL_RANK(LS_ERR_RESOURCE, rank->id,
                        "rank %d: cannot create a guard page for its stack (%s)", rank->id,
                        strerror(errno));
}

static int make_stacks(ls_spmd *run, ls_fibers *fibers) {
    size_t each = fibers->stack_bytes + GUARD_BYTES;
    LS_TRY(ls_size_mul(&fibers->mapped_bytes, each, (size_t)run->rank_count));
    void *memory = mmap(NULL, fibers->mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return LS_FAIL(LS_ERR_MEMORY, "no stacks of %zu bytes for %d ranks", fibers->stack_bytes,
                       run->rank_count);
    }
    fibers->stacks = memory;
    (void)madvise(memory, fibers->mapped_bytes, MADV_NOHUGEPAGE);  // a page or two of each is used
    for (int r = 0; r < run->rank_count; r++) {
        ls_rank *rank = &run->ranks[r];
        char *low = fibers->stacks + (size_t)r * each;
        LS_TRY(guard(low, rank));
        fibers->ranks[r].low = low + GUARD_BYTES;
        fibers->ranks[r].bytes = fibers->stack_bytes;
        rank->stack_low = (uintptr_t)(low + GUARD_BYTES);
        rank->stack_bytes = fibers->stack_bytes;
    }
    return LS_OK;
}

int ls_fibers__open(ls_spmd *run, void (*main)(ls_rank *rank), size_t stack_bytes) {
    ls_fibers *fibers = ls_arena_alloc(run->arena, 1, sizeof *fibers);
    LS_TRY_MEMORY(fibers != NULL);
    fibers->main = main;
    fibers->stack_bytes = stack_bytes;
    fibers->ranks = ls_arena_alloc(run->arena, (size_t)run->rank_count, sizeof *fibers->ranks);
    LS_TRY_MEMORY(fibers->ranks != NULL);
    run->fibers = fibers;
    return make_stacks(run, fibers);
}

void ls_fibers__close(ls_spmd *run) {
    ls_fibers *fibers = run->fibers;
    if (fibers == NULL) {
        return;
    }
#ifdef LS_FIBERS_TSAN
    for (int r = 0; r < run->rank_count; r++) {
        if (fibers->ranks[r].tsan != NULL) {
            __tsan_destroy_fiber(fibers->ranks[r].tsan);
        }
    }
#endif
    if (fibers->stacks != NULL) {
        (void)munmap(fibers->stacks, fibers->mapped_bytes);
    }
    run->fibers = NULL;
}

// ---- Runs ---------------------------------------------------------------------------------------
// A debugger finds a rank by its thread: the carrier has the name of the running rank.
static ls_fiber *next_of(ls_spmd *run) {
    const ls_rank *next = run->running;
    if (next == NULL) {
        return &run->fibers->carrier;
    }
    run->ranks[next->id].tid = run->carrier_tid;
    return &run->fibers->ranks[next->id];
}

// Switches to the rank with the run token, whose fiber may not have begun.
static void go_on(ls_spmd *run, ls_fiber *from) {
    ls_fibers *fibers = run->fibers;
    ls_fiber *to = next_of(run);
    if (to->context != NULL) {
        go(from, to);
        return;
    }
    ucontext_t first;
    (void)getcontext(&first);
    first.uc_stack.ss_sp = to->low;
    first.uc_stack.ss_size = to->bytes;
    first.uc_link = NULL;
    makecontext(&first, enter_fiber, 0);
    to->context = &first;
#ifdef LS_FIBERS_TSAN
    to->tsan = __tsan_create_fiber(0);
#endif
    beginning = fibers;
    fibers->begins = &run->ranks[run->running->id];
    go(from, to);
}

void ls_fibers__run(ls_spmd *run) {
    ls_fibers *fibers = run->fibers;
    run->carrier_tid = (int)syscall(SYS_gettid);
#ifdef LS_FIBERS_TSAN
    fibers->carrier.tsan = __tsan_get_current_fiber();
#endif
    while (run->running != NULL) {
        go_on(run, &fibers->carrier);
    }
}

// The last error and the last failed check belong to the thread; other ranks on it would overwrite
// them. Stored separately, since nearly every waiting rank has none, and each page of its stack is
// expensive.
__attribute__((noinline)) static void go_on_keeping(ls_spmd *run, ls_fiber *from) {
    const ls_error error = *ls_error_last();
    const ls_check_failure failure = *ls_check_last();
    go_on(run, from);
    ls_error_clear();
    if (error.code != LS_OK) {
        (void)ls_error__set(error.file, error.line, error.code, error.rank, "%s", error.text);
    }
    ls_check__restore(&failure);
}

void ls_fibers__wait(ls_rank *rank) {
    ls_spmd *run = rank->run;
    ls_fiber *own = &run->fibers->ranks[rank->id];
    rank->tid = 0;
    if (ls_error_last()->code != LS_OK || ls_check_last()->found) {
        go_on_keeping(run, own);
        return;
    }
    go_on(run, own);
    if (ls_error_last()->code != LS_OK) {
        ls_error_clear();
    }
    if (ls_check_last()->found) {
        ls_check_clear();
    }
}

void ls_fibers__leave(ls_rank *rank) {
    ls_spmd *run = rank->run;
    rank->tid = 0;
    go_on(run, &run->fibers->ranks[rank->id]);
    LS_ASSERT(!"nobody comes back to a rank whose program is over");
    abort();
}
