// What MPI 3.1 has and lockstep has not: each ends the run with a sentence.
#define LS_MPI_ABSENT_DEFINED
#include "mpi/internal.h"

static int refuse(const char *function, const char *why, const void *caller) {
    mpi_rank *me = ls_mpi__enter_any(function);
    const char *file;
    int line;
    char message[512];
    ls_mpi__line_of(me, caller, &file, &line);
    (void)snprintf(message, sizeof message, "%s:%d: %s: lockstep has no %s (docs/mpi.md)", file,
                   line, function, why);
    ls_schedule__enter(me->rank);
    ls_spmd__fail(ls_mpi__state.run, LS_ERR_UNSUPPORTED, message);
    ls_schedule__leave(me->rank);
    return ls_mpi__leave(me, LS_OK);
}

#define ABSENT(name, why)                                                                          \
    __attribute__((visibility("default"))) int name(void) {                                        \
        return refuse(#name, why, __builtin_return_address(0));                                    \
    }
#define FILES(name)     ABSENT(name, "files of MPI-IO")
#define TOOLS(name)     ABSENT(name, "tool information interface (MPI_T)")
#define PROCESSES(name) ABSENT(name, "processes beside those that it starts")
#define FORTRAN(name)   ABSENT(name, "Fortran")
LS_MPI_ABSENT_FILES(FILES)
LS_MPI_ABSENT_TOOLS(TOOLS)
LS_MPI_ABSENT_PROCESSES(PROCESSES)
LS_MPI_ABSENT_FORTRAN(FORTRAN)
