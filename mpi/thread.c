// Threads that the program starts, and the accesses that the compiler instruments (the calls of
// -fsanitize=thread, without its library).
#define _GNU_SOURCE  // dladdr
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/image/image.h"
#include "mpi/internal.h"
#include "ranks/accesses.h"

// ---- Accesses -----------------------------------------------------------------------------------
// Most accesses end here, without a lock. A call in progress may be about to own memory.
static inline bool may_matter(const mpi_rank *me, const char *low, const char *high, bool writes) {
    const mpi_intervals *reads = &me->owned[0], *written = &me->owned[1];
    return me->window_count > 0 || ((reads->root != NULL || written->root != NULL) &&
                                    (ls_mpi__interval_near(written, low, high) ||
                                     (writes && ls_mpi__interval_near(reads, low, high)) ||
                                     __atomic_load_n(&me->rank->in, __ATOMIC_SEQ_CST) != NULL));
}

static inline void watched_at(const void *at, size_t bytes, bool writes, const void *code) {
    mpi_rank *me = ls_mpi__watched;
    if (__builtin_expect(me != NULL, 0) && bytes > 0 &&
        may_matter(me, at, (const char *)at + bytes, writes)) {
        ls_mpi__accessed(me, at, bytes, writes, code);
    }
}

static __attribute__((noinline)) void guard_at(const void *at, size_t bytes, bool writes,
                                               const void *code) {
    ls_mpi__block_touched(at, bytes, writes, code);
    watched_at(at, bytes, writes, code);
}

// Calls nothing but in its last step: a hook without a finding saves no register.
static inline void access_at(const void *at, size_t bytes, bool writes, const void *code) {
    if (__builtin_expect(((const unsigned char *)at)[bytes - 1] == LS_MPI_GUARD_BYTE, 0)) {
        guard_at(at, bytes, writes, code);
    } else {
        watched_at(at, bytes, writes, code);
    }
}

static void access_range(const void *at, size_t bytes, bool writes, const void *code) {
    if (bytes > 0) {
        ls_mpi__block_touched(at, bytes, writes, code);
    }
    watched_at(at, bytes, writes, code);
}

void ls_mpi_accessed(const void *at, unsigned long bytes, int writes, const void *caller) {
    access_range(at, bytes, writes != 0, caller);
}

#define HERE   __builtin_return_address(0)
#define EXPORT __attribute__((visibility("default")))
LS_ACCESS_HOOKS(access_at, access_at)
EXPORT void __tsan_read_range(void *at, unsigned long bytes) {
    access_range(at, bytes, false, HERE);
}
EXPORT void __tsan_write_range(void *at, unsigned long bytes) {
    access_range(at, bytes, true, HERE);
}
EXPORT void __tsan_ignore_thread_begin(void) {
}
EXPORT void __tsan_ignore_thread_end(void) {
}
EXPORT void *__tsan_memmove(void *to, const void *from, unsigned long bytes) {
    access_range(from, bytes, false, HERE);
    access_range(to, bytes, true, HERE);
    return memmove(to, from, bytes);
}
EXPORT __attribute__((alias("__tsan_memmove"))) void *__tsan_memcpy(void *to, const void *from,
                                                                    unsigned long bytes);
EXPORT void *__tsan_memset(void *to, int value, unsigned long bytes) {
    access_range(to, bytes, true, HERE);
    return memset(to, value, bytes);
}

// ---- Order of the threads of a rank -------------------------------------------------------------
// The calling thread's rank, where it runs its program.
static mpi_rank *program_of(void) {
    ls_rank *rank = ls_schedule__current();
    bool runs = rank != NULL && ls_mpi__state.run != NULL && ls_mpi__state.run->status == LS_OK &&
                !ls_schedule__inside();
    return runs ? &ls_mpi__state.ranks[rank->id] : NULL;
}

// The same if there are windows: without one no check needs the order of threads.
static mpi_rank *ordered(void) {
    return ls_mpi__state.window_count > 0 ? program_of() : NULL;
}

#define SYNCHRONISES_MAX 64  // times, after which a thread that may spin lets others run

// Called by synchronisation functions of the program (image/synchronises.txt).
EXPORT void ls_mpi_synchronises(void) {
    static _Thread_local unsigned times;
    times += 1;
    if (times % SYNCHRONISES_MAX == 0) {
        (void)sched_yield();
    }
    mpi_rank *me = ordered();
    if (me != NULL) {
        ls_mpi__threads_meet(me);
    }
}

// Other code of the rank begins after this, on other threads.
static void forks(bool waits) {
    mpi_rank *me = program_of();
    if (me != NULL && ls_mpi__state.window_count > 0) {
        (waits ? ls_mpi__threads_fork : ls_mpi__threads_start)(me);
    }
    if (me != NULL && pthread_equal(me->rank->thread, pthread_self()) != 0) {
        ls_mpi__watched = me;  // other threads may be about to make calls
    }
}

EXPORT void ls_mpi_forks(void) {
    forks(true);
}

EXPORT void ls_mpi_starts(void) {
    forks(false);
}

EXPORT void ls_mpi_makes_task(void) {
    mpi_rank *me = program_of();
    if (me != NULL) {
        me->has_tasks = true;
        ls_mpi__threads_meet(me);
    }
}

// Around an atomic operation.
static void releases(void) {
    mpi_rank *me = ordered();
    if (me != NULL) {
        ls_mpi__threads_release(me);
    }
}

static void acquires(void) {
    mpi_rank *me = ordered();
    if (me != NULL) {
        ls_mpi__threads_acquire(me);
    }
}

// Libraries whose calls of program functions are ordered by synchronisation that lockstep sees.
// Other libraries may have threads of their own.
static bool is_known(const void *caller) {
    static const char *const known[] = {"libgomp", "libc.", "libpthread", "libstdc++", "lockstep"};
    Dl_info in;
    const char *slash = dladdr(caller, &in) != 0 ? strrchr(in.dli_fname, '/') : NULL;
    bool is = false;
    for (size_t i = 0; i < sizeof known / sizeof *known && slash != NULL; i++) {
        is = is || strncmp(slash + 1, known[i], strlen(known[i])) == 0;
    }
    return is;
}

// Active functions of the program that a library has called: threads, parallel regions, tasks.
#define FRAMES_MAX 16
static _Thread_local struct {
    int count;
    const void *at[FRAMES_MAX];
    bool forked[FRAMES_MAX];
    const void *known;  // the last such caller
} frames;

static void enters(const void *caller, const void *frame) {
    mpi_rank *me = program_of();
    if (me == NULL || me->unordered ||
        ((const char *)caller >= me->code_low && (const char *)caller < me->code_high)) {
        return;
    }
    if (frames.count == FRAMES_MAX || (caller != frames.known && !is_known(caller))) {
        ls_mpi__threads_unordered(me);
        return;
    }
    frames.known = caller;
    frames.at[frames.count] = frame;
    if (pthread_equal(me->rank->thread, pthread_self()) == 0) {
        ls_mpi__watched = me;
    }
    frames.forked[frames.count] = ls_mpi__thread_enters(me, frames.count == 0);
    frames.count += 1;
}

static void leaves(void) {
    mpi_rank *me = program_of();
    bool forked = frames.forked[--frames.count], last = frames.count == 0;
    if (me == NULL) {
        return;
    }
    bool own = pthread_equal(me->rank->thread, pthread_self()) == 0;
    if (own) {
        ls_mpi__watched = last ? NULL : me;
    }
    ls_mpi__thread_leaves(me, forked, own && last);
}

// The function's own frame; it is compiled with frame pointers.
#define FRAME (*(const void *const *)__builtin_frame_address(0))
EXPORT void __tsan_func_entry(void *caller) {
    if (__builtin_expect(ls_mpi__state.run != NULL && ls_mpi__state.run->has_threads, 0)) {
        enters(caller, FRAME);
    }
}
EXPORT void __tsan_func_exit(void) {
    if (__builtin_expect(frames.count > 0, 0) && frames.at[frames.count - 1] == FRAME) {
        leaves();
    }
}

// ---- Atomics: performed with sequential consistency ---------------------------------------------
#define ATOMICS(bits, T)                                                                           \
    EXPORT T __tsan_atomic##bits##_load(const volatile T *at, int order) {                         \
        (void)order;                                                                               \
        access_at((const void *)(uintptr_t)at, sizeof(T), false, HERE);                            \
        T value = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                           \
        acquires();                                                                                \
        return value;                                                                              \
    }                                                                                              \
    EXPORT void __tsan_atomic##bits##_store(volatile T *at, T value, int order) {                  \
        (void)order;                                                                               \
        access_at((void *)(uintptr_t)at, sizeof(T), true, HERE);                                   \
        releases();                                                                                \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                             \
    }                                                                                              \
    UPDATE(bits, T, exchange, __atomic_exchange_n)                                                 \
    UPDATE(bits, T, fetch_add, __atomic_fetch_add)                                                 \
    UPDATE(bits, T, fetch_sub, __atomic_fetch_sub)                                                 \
    UPDATE(bits, T, fetch_and, __atomic_fetch_and)                                                 \
    UPDATE(bits, T, fetch_or, __atomic_fetch_or)                                                   \
    UPDATE(bits, T, fetch_xor, __atomic_fetch_xor)                                                 \
    UPDATE(bits, T, fetch_nand, __atomic_fetch_nand)                                               \
    COMPARE(bits, T, strong)                                                                       \
    COMPARE(bits, T, weak)                                                                         \
    EXPORT T __tsan_atomic##bits##_compare_exchange_val(volatile T *at, T expected, T value,       \
                                                        int order, int other) {                    \
        (void)order;                                                                               \
        (void)other;                                                                               \
        releases();                                                                                \
        (void)__atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST,           \
                                          __ATOMIC_SEQ_CST);                                       \
        acquires();                                                                                \
        return expected;                                                                           \
    }
#define UPDATE(bits, T, name, how)                                                                 \
    EXPORT T __tsan_atomic##bits##_##name(volatile T *at, T value, int order) {                    \
        (void)order;                                                                               \
        releases();                                                                                \
        T before = how(at, value, __ATOMIC_SEQ_CST);                                               \
        acquires();                                                                                \
        return before;                                                                             \
    }
#define COMPARE(bits, T, kind)                                                                     \
    EXPORT int __tsan_atomic##bits##_compare_exchange_##kind(volatile T *at, T *expected, T value, \
                                                             int order, int other) {               \
        (void)order;                                                                               \
        (void)other;                                                                               \
        releases();                                                                                \
        bool done = __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,      \
                                                __ATOMIC_SEQ_CST);                                 \
        acquires();                                                                                \
        return done;                                                                               \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
EXPORT void __tsan_atomic_thread_fence(int order) {
    (void)order;
    releases();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    acquires();
}
EXPORT void __tsan_atomic_signal_fence(int order) {
    (void)order;
}
