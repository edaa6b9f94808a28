// Functions of MPI 3.1 that lockstep does not implement. File functions return an error code and
// print one warning; every other function ends the run with a message.
#define LS_MPI_ABSENT_DEFINED
#include <stdatomic.h>
#include <stdio.h>

#include "mpi/internal.h"

#define HERE __builtin_return_address(0)

static int answer(const char *function, atomic_flag *told, const void *caller) {
    mpi_rank *me = ls_mpi__enter_any(function);
    if (!atomic_flag_test_and_set(told)) {
        const char *file;
        int line;
        ls_mpi__line_of(me, caller, &file, &line);
        (void)fprintf(stderr,
                      "lockstep: note: %s:%d: %s: lockstep does not support MPI-IO: it returns "
                      "MPI_ERR_UNSUPPORTED_OPERATION (docs/mpi.md)\n",
                      file, line, function);
    }
    return MPI_ERR_UNSUPPORTED_OPERATION;
}

static void set_null(int *out, int null) {
    if (out != NULL) {
        *out = null;
    }
}

#define EXPORT __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ANSWER_WITH(name, parameters, ...)                                                         \
    EXPORT int name parameters {                                                                   \
        static atomic_flag told = ATOMIC_FLAG_INIT;                                                \
        __VA_ARGS__;                                                                               \
        return answer(#name, &told, HERE);                                                         \
    }
#define ANSWER(name, parameters) ANSWER_WITH(name, parameters, )
#define ANSWER_REQUEST(name, parameters)                                                           \
    ANSWER_WITH(name, parameters, set_null(request, MPI_REQUEST_NULL))
#define ANSWER_FILE(name, parameters) ANSWER_WITH(name, parameters, set_null(fh, MPI_FILE_NULL))
LS_MPI_ABSENT_FILES(ANSWER, ANSWER_REQUEST, ANSWER_FILE)

int ls_mpi__refuse(mpi_where at, const char *file, int line, const char *what) {
    char message[512];
    (void)snprintf(message, sizeof message, "%s:%d: %s: lockstep has no %s (docs/mpi.md)", file,
                   line, at.function, what);
    ls_schedule__enter(at.me->rank);
    ls_spmd__fail(ls_mpi__state.run, LS_ERR_UNSUPPORTED, message);
    ls_schedule__leave(at.me->rank);
    return ls_mpi__leave(at.me, LS_OK);
}

static int refuse(const char *function, const char *why, const void *caller) {
    mpi_rank *me = ls_mpi__enter_any(function);
    const char *file;
    int line;
    ls_mpi__line_of(me, caller, &file, &line);
    return ls_mpi__refuse((mpi_where){me, function}, file, line, why);
}

#define ABSENT(name, why)                                                                          \
    EXPORT int name(void) {                                                                        \
        return refuse(#name, why, HERE);                                                           \
    }
#define TOOLS(name)     ABSENT(name, "tool information interface (MPI_T)")
#define PROCESSES(name) ABSENT(name, "processes beside those that it starts")
#define FORTRAN(name)   ABSENT(name, "Fortran")
LS_MPI_ABSENT_TOOLS(TOOLS)
LS_MPI_ABSENT_PROCESSES(PROCESSES)
LS_MPI_ABSENT_FORTRAN(FORTRAN)
