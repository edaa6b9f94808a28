// The calls that -fsanitize=thread has a program make, without that sanitizer's library: of two
// functions `plain` and `lasting` (volatile), each (address, bytes, writes, the caller's address).
#pragma once

#define LS_ACCESS_EXPORT __attribute__((visibility("default")))
#define LS_ACCESS_CALL(name, function, bytes, writes)                                              \
    LS_ACCESS_EXPORT void __tsan_##name(void *at) {                                                \
        function(at, bytes, writes, __builtin_return_address(0));                                  \
    }
#define LS_ACCESS_CALLS(bytes, plain, lasting)                                                     \
    LS_ACCESS_CALL(read##bytes, plain, bytes, false)                                               \
    LS_ACCESS_CALL(write##bytes, plain, bytes, true)                                               \
    LS_ACCESS_CALL(read_write##bytes, plain, bytes, true)                                          \
    LS_ACCESS_CALL(unaligned_read##bytes, plain, bytes, false)                                     \
    LS_ACCESS_CALL(unaligned_write##bytes, plain, bytes, true)                                     \
    LS_ACCESS_CALL(unaligned_read_write##bytes, plain, bytes, true)                                \
    LS_ACCESS_CALL(volatile_read##bytes, lasting, bytes, false)                                    \
    LS_ACCESS_CALL(volatile_write##bytes, lasting, bytes, true)                                    \
    LS_ACCESS_CALL(unaligned_volatile_read##bytes, lasting, bytes, false)                          \
    LS_ACCESS_CALL(unaligned_volatile_write##bytes, lasting, bytes, true)
#define LS_ACCESS_HOOKS(plain, lasting)                                                            \
    LS_ACCESS_CALLS(1, plain, lasting)                                                             \
    LS_ACCESS_CALLS(2, plain, lasting)                                                             \
    LS_ACCESS_CALLS(4, plain, lasting)                                                             \
    LS_ACCESS_CALLS(8, plain, lasting)                                                             \
    LS_ACCESS_CALLS(16, plain, lasting)                                                            \
    LS_ACCESS_EXPORT void __tsan_init(void) {                                                      \
    }                                                                                              \
    LS_ACCESS_EXPORT void __tsan_vptr_update(void **at, void *value) {                             \
        (void)at, (void)value;                                                                     \
    }                                                                                              \
    LS_ACCESS_EXPORT void __tsan_vptr_read(void **at) {                                            \
        (void)at;                                                                                  \
    }
