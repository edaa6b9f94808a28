// Status codes and errors. Every fallible function returns an ls_status as int: LS_OK (0) or a
// negative code. The sentence that goes with a failure is kept per thread, so that a simulated rank
// (one thread each) and an MPI process each have their own; ls_error_last() reads it.
// Programmer errors are asserted (LS_ASSERT, always on), user errors are returned.
#ifndef LS_BASE_STATUS_H
#define LS_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LS_API      __attribute__((visibility("default")))
#define LS_NORETURN __attribute__((noreturn))
#define LS_PRINTF(format_index, args_index)                                                        \
    __attribute__((format(printf, format_index, args_index)))
#else
#define LS_API
#define LS_NORETURN
#define LS_PRINTF(format_index, args_index)
#endif
// Functions that only the backends' libraries need from liblockstep beside its public interface.
#define LS_API_BACKENDS LS_API

// name, value, short meaning
#define LS_STATUS_MAP(X)                                                                           \
    X(LS_OK, 0, "success")                                                                         \
    X(LS_ERR_INVALID, -1, "invalid argument")                                                      \
    X(LS_ERR_MISMATCH, -2, "ranks disagree")                                                       \
    X(LS_ERR_MEMORY, -3, "out of memory")                                                          \
    X(LS_ERR_OVERFLOW, -4, "a size overflows")                                                     \
    X(LS_ERR_IO, -5, "input or output failed")                                                     \
    X(LS_ERR_FORMAT, -6, "a file is malformed")                                                    \
    X(LS_ERR_UNSUPPORTED, -7, "not supported")                                                     \
    X(LS_ERR_BACKEND, -8, "a backend is missing or failed")                                        \
    X(LS_ERR_RANK_DIED, -9, "a rank died")                                                         \
    X(LS_ERR_TIMEOUT, -10, "a deadline passed")                                                    \
    X(LS_ERR_DEADLOCK, -11, "no rank can continue")                                                \
    X(LS_ERR_FINDING, -12, "a check found a defect in the program under test")                     \
    X(LS_ERR_LIMIT, -13, "a stated limit is exceeded")                                             \
    X(LS_ERR_NOT_FOUND, -14, "not found")                                                          \
    X(LS_ERR_RESOURCE, -15, "the machine has no thread, file or disk space left")

typedef enum ls_status {
#define LS_STATUS_ENUM(name, value, meaning) name = value,
    LS_STATUS_MAP(LS_STATUS_ENUM)
#undef LS_STATUS_ENUM
} ls_status;

#define LS_ERROR_TEXT_MAX 4096
#define LS_RANK_NONE      (-1)

typedef struct ls_error {
    int code;                      // an ls_status; LS_OK when nothing has failed yet
    int rank;                      // the rank concerned, or LS_RANK_NONE
    const char *file;              // where in the library the error was raised
    int line;                      //
    char text[LS_ERROR_TEXT_MAX];  // one sentence, context first: "plan: table user: ..."
} ls_error;

// The short meaning of a status ("out of memory"). Never NULL.
LS_API const char *ls_status_text(int status);

// Whether a status is the machine's doing (no memory, no backend, a full disk, a dead process, ...)
// and not the input's or the program's.
bool ls_status_is_environment(int status);
// The status for an errno: LS_ERR_MEMORY, LS_ERR_RESOURCE where the machine has no more
// to give, and LS_ERR_IO for the rest.
int ls_status_of_errno(int error);

// The last error of this thread. Borrowed; valid until the next failing call of this thread.
LS_API const ls_error *ls_error_last(void);

// Forgets this thread's last error.
LS_API_BACKENDS void ls_error_clear(void);

// Records an error of this thread and returns `code`. Use LS_FAIL / LS_FAIL_RANK.
LS_API int ls_error__set(const char *file, int line, int code, int rank, const char *format, ...)
    LS_PRINTF(5, 6);

// Puts context in front of the last error's text ("compare: " ...) and returns its code.
LS_API_BACKENDS int ls_error_wrap(const char *format, ...) LS_PRINTF(1, 2);

#define LS_FAIL(code, ...)            LS_FAIL_RANK(code, LS_RANK_NONE, __VA_ARGS__)
#define LS_FAIL_RANK(code, rank, ...) ls_error__set(__FILE__, __LINE__, (code), (rank), __VA_ARGS__)

// Returns from the caller with the status of `expression` if it failed.
#define LS_TRY(expression)                                                                         \
    do {                                                                                           \
        int ls_try_ = (expression);                                                                \
        if (ls_try_ != LS_OK) {                                                                    \
            return ls_try_;                                                                        \
        }                                                                                          \
    } while (0)

// Returns LS_ERR_MEMORY from the caller unless `present`: that all that it allocated is there. The
// allocation has recorded the error.
#define LS_TRY_MEMORY(present) LS_TRY((present) ? LS_OK : LS_ERR_MEMORY)

// Programmer errors. Always on; prints the condition and aborts.
LS_API LS_NORETURN void ls_assert__fail(const char *file, int line, const char *condition);
#define LS_ASSERT(condition)                                                                       \
    ((condition) ? (void)0 : ls_assert__fail(__FILE__, __LINE__, #condition))

#ifdef __cplusplus
}
#endif
#endif
