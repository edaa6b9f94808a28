// Threads of the program's own, and what lockstep-cc has the compiler say of reads and writes
// (the calls of -fsanitize=thread, without its library).
#include <stdlib.h>
#include <string.h>

#include "mpi/image/image.h"
#include "mpi/internal.h"

// ---- Accesses -----------------------------------------------------------------------------------
// The line of an address in the program: asked for only where it is reported.
void ls_mpi__line_of(mpi_rank *me, const void *code, const char **file, int *line) {
    const char *found;
    int number;
    *file = ls_mpi__file;
    *line = ls_mpi__line;
    if ((const char *)code >= me->code_low && (const char *)code < me->code_high &&
        ls_mpi__code_line(&found, &number, me, code)) {
        const char *kept = ls_arena_strdup(ls_mpi__state.run->arena, found);
        *file = kept != NULL ? kept : *file;
        *line = kept != NULL ? number : *line;
    }
}

static inline void watched_at(const void *at, size_t bytes, bool writes, const void *code) {
    mpi_rank *me = ls_mpi__watched;
    if (__builtin_expect(me != NULL, 0) && bytes > 0 && ls_mpi__state.run->status == LS_OK &&
        !ls_schedule__inside()) {
        ls_mpi__accessed(me, at, bytes, writes, code);
    }
}

static inline void access_at(const void *at, size_t bytes, bool writes, const void *code) {
    if (__builtin_expect(((const unsigned char *)at)[bytes - 1] == LS_MPI_GUARD_BYTE, 0)) {
        ls_mpi__block_touched(at, bytes, writes, code);
    }
    watched_at(at, bytes, writes, code);
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
#define ACCESS(bytes)                                                                              \
    EXPORT void __tsan_read##bytes(void *at) {                                                     \
        access_at(at, bytes, false, HERE);                                                         \
    }                                                                                              \
    EXPORT void __tsan_write##bytes(void *at) {                                                    \
        access_at(at, bytes, true, HERE);                                                          \
    }                                                                                              \
    EXPORT void __tsan_unaligned_read##bytes(void *at) {                                           \
        access_at(at, bytes, false, HERE);                                                         \
    }                                                                                              \
    EXPORT void __tsan_unaligned_write##bytes(void *at) {                                          \
        access_at(at, bytes, true, HERE);                                                          \
    }                                                                                              \
    EXPORT void __tsan_volatile_read##bytes(void *at) {                                            \
        access_at(at, bytes, false, HERE);                                                         \
    }                                                                                              \
    EXPORT void __tsan_volatile_write##bytes(void *at) {                                           \
        access_at(at, bytes, true, HERE);                                                          \
    }                                                                                              \
    EXPORT void __tsan_read_write##bytes(void *at) {                                               \
        access_at(at, bytes, true, HERE);                                                          \
    }                                                                                              \
    EXPORT void __tsan_unaligned_read_write##bytes(void *at) {                                     \
        access_at(at, bytes, true, HERE);                                                          \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
EXPORT void __tsan_read_range(void *at, unsigned long bytes) {
    access_range(at, bytes, false, HERE);
}
EXPORT void __tsan_write_range(void *at, unsigned long bytes) {
    access_range(at, bytes, true, HERE);
}
EXPORT void __tsan_init(void) {
}
EXPORT void __tsan_func_entry(void *caller) {
    (void)caller;
}
EXPORT void __tsan_func_exit(void) {
}
EXPORT void __tsan_vptr_update(void **at, void *value) {
    (void)at;
    (void)value;
}
EXPORT void __tsan_vptr_read(void **at) {
    (void)at;
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

// ---- Atomics: done as asked, and in the strongest order -----------------------------------------
#define ATOMICS(bits, T)                                                                           \
    EXPORT T __tsan_atomic##bits##_load(const volatile T *at, int order) {                         \
        (void)order;                                                                               \
        access_at((const void *)(uintptr_t)at, sizeof(T), false, HERE);                            \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                              \
    }                                                                                              \
    EXPORT void __tsan_atomic##bits##_store(volatile T *at, T value, int order) {                  \
        (void)order;                                                                               \
        access_at((void *)(uintptr_t)at, sizeof(T), true, HERE);                                   \
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
        (void)__atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST,           \
                                          __ATOMIC_SEQ_CST);                                       \
        return expected;                                                                           \
    }
#define UPDATE(bits, T, name, how)                                                                 \
    EXPORT T __tsan_atomic##bits##_##name(volatile T *at, T value, int order) {                    \
        (void)order;                                                                               \
        return how(at, value, __ATOMIC_SEQ_CST);                                                   \
    }
#define COMPARE(bits, T, kind)                                                                     \
    EXPORT int __tsan_atomic##bits##_compare_exchange_##kind(volatile T *at, T *expected, T value, \
                                                             int order, int other) {               \
        (void)order;                                                                               \
        (void)other;                                                                               \
        return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,           \
                                           __ATOMIC_SEQ_CST);                                      \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
EXPORT void __tsan_atomic_thread_fence(int order) {
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EXPORT void __tsan_atomic_signal_fence(int order) {
    (void)order;
}
